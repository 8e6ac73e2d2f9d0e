"The words of a claim, and names that no table has. Rendered pages hold the rest."
import re
from dataclasses import replace

import pytest

from debias_nb.measures.pooling import estimate
from debias_nb.measures.stats import paired
from debias_nb.papers.pages.claims import DEPENDS, LESS, MORE, NO_CHANGE, NOT_RUN, REVERSE, UNSURE, YES
from debias_nb.papers.pages.claims import answer_of, ask, load_statements
from debias_nb.papers.pages.compare import BETTER, WORSE, Compared, are_named
from debias_nb.papers.pages.frame import Results

RESULTS = Results()


@pytest.mark.parametrize("low, high, margin, size, word", [
    (1.2, 3, 0, None, YES), (.2, .9, 0, None, NO_CHANGE), (-3, -.5, 0, None, REVERSE), (-3, 2, 0, None, UNSURE),
    (-.9, -.4, .3, None, YES), (-4, -2, .3, None, REVERSE), (11, 13, -10, None, YES), (2, 6, -10, None, LESS),
    (5, 15, -10, None, UNSURE),
    (1.2, 3, 0, 2., YES), (1.2, 3, 0, 4., LESS), (1.2, 3, 0, 1., MORE), (-3, 2, 0, 4., LESS), (-3, 2, 0, 1., UNSURE),
])
def test_one_difference_answers_in_the_words_of_a_claim(low, high, margin, size, word):
    mean = replace(estimate([paired([1., 2.], [0., 0.])]), difference=(low + high) / 2, low=low, high=high)
    assert answer_of(mean, margin, size) == word
    assert answer_of(mean, margin, size, [BETTER, WORSE]) == DEPENDS and answer_of(None) == NOT_RUN


@pytest.mark.parametrize("change", [
    {"table": "tabel3"}, {"methods": ("ITVReg", "Finetund")}, {"column": "Quor*"},
    {"minus": {"column": "Quor", "names": ["a", "b"]}},
])
def test_a_name_that_no_cell_has_is_found(change):
    stated = {"table": "table3", "methods": ("ITVReg", "Finetuned"), "profiles": ("planted",)}
    assert are_named("itvreg", Compared(**stated), RESULTS)
    assert not are_named("itvreg", Compared(**stated | change), RESULTS)


@pytest.mark.parametrize("methods, message", [
    (("ITVReg",), "two methods or more"), (("ITVReg", "ITVReg"), "need `names`")])
def test_a_comparison_that_nobody_can_read_is_refused(methods, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Compared(table="table2", methods=methods)


def test_a_question_has_one_estimate_whoever_asks():
    "That of a claim with the same comparison, too."
    of_claim, of_page = ask("A3b", RESULTS), ask("itvreg_titles", RESULTS)
    assert (of_claim.estimate, of_claim.word) == (of_page.estimate, of_page.word)
    assert of_page.reported_text.endswith("over plain fine-tuning †")
    with pytest.raises(ValueError, match="claim A5b has 4 differences"):
        ask("A5b", RESULTS)
    with pytest.raises(ValueError, match="no question 'itvreg_title'; did you mean 'itvreg_titles'"):
        ask("itvreg_title", RESULTS)


def test_one_encoder_counts_once_in_a_question():
    for one in load_statements("questions").questions:
        tests = ask(one.id, RESULTS).tests
        places = [(row.encoder.partition(",")[0], row.test, row.table, row.against) for row in tests.itertuples()]
        assert len(places) == len({*places}), one.id
