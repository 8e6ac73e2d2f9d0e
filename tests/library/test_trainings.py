"The page of what trains inside `Regularized` says what trainings do."
import pytest

import trainings

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


def test_the_page_says_what_trains():
    results = trainings.all_results()
    sense = [word for word, _ in results.values() if word != "alone refused"]
    assert len(sense) - sense.count("refused") >= .95 * len(sense) and sense.count("trains") >= .9 * len(sense)
    assert trainings.page(results) == trainings.PAGE.read_text("utf-8")
