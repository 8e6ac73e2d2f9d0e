"How records become the rows, sentences and files of pages."
from pathlib import Path

import pandas as pd
import pytest

from cells import a_run
from debias_nb.measures.stats import paired
from debias_nb.papers.pages.cells import CELL, with_value
from debias_nb.papers.pages.claims import answer, answer_word
from debias_nb.papers.pages.compare import BETTER, WITHIN, WORSE, Question, words_of_tests
from debias_nb.papers.pages.frame import Results, best_settings
from debias_nb.papers.pages.printed import fact, load_expected
from debias_nb.papers.pages.tables import intervals

ROOT = Path(__file__).parents[2]


def a_record(seed, value, **changes):
    "A record of one metric."
    words = {"status": "finished", "metrics": {"quora": {"auc05": value}}, "replicates": {}}
    return {"id": f"run{seed}", "seed": seed, "run": a_run(seed=seed)} | words | changes


@pytest.fixture(scope="module")
def study():
    return Results().load("itvreg/table03", "small")


def test_a_cell_says_what_its_runs_do():
    records = {f"run{seed}": a_record(seed, value) for seed, value in ((0, .25), (1, .35))}
    full = with_value(CELL | {"evaluate": "quora", "runs": ["run0", "run1"]}, records)
    assert (round(full["value"], 9), full["status"]) == (30, "measured")
    part = with_value(full | {"runs": ["run0", "run1", "run2"]}, records)
    assert (part["status"], part["why"]) == ("partial", "2 of 3 runs are there")
    failures = {"run0": a_record(0, 0., status="failed", error="the loss is nan", metrics={})}
    failure = with_value(CELL | {"evaluate": "quora", "runs": ["run0"]}, failures)
    assert (failure["status"], failure["why"]) == ("failed", "training stopped: the loss is nan")


def test_a_setting_that_lacks_a_run_is_not_chosen():
    names = ["SCAN (tau 1)", "SCAN (tau 0.3)", "SCAN, ours (tau 1)", "SCAN, ours (tau 0.3)"]
    families = ["SCAN", "SCAN", "SCAN, ours", "SCAN, ours"]
    table = pd.DataFrame(dict(method=names, family=families, complete=[True, True, True, False],
                              value=[.6, .7, .5, .9]))
    assert best_settings(table) == {"SCAN": "SCAN (tau 0.3)", "SCAN, ours": "SCAN, ours (tau 1)"}


def of_size(*differences, spread=.1):
    "Differences with these means over four seeds."
    over_seeds = [paired([mean - spread, mean, mean, mean + spread], [0] * 4) for mean in differences]
    columns = {name: [getattr(experiment, name) for experiment in over_seeds]
               for name in ("difference", "low", "high", "p", "n")}
    return pd.DataFrame(columns | {"paired": over_seeds, "unit": "percent"})


@pytest.mark.parametrize("comparisons, yes, words", [
    (of_size(2, 3, 4), "better", "Yes. This is 3.0 points above that [+2.9, +3.1], the mean of 3 tests."),
    (of_size(2, 3, 4), "worse", "No: the reverse. This is 3.0 points above that [+2.9, +3.1]"),
    (of_size(-2, -3), "worse", "Yes. This is 2.5 points below that [−2.6, −2.4]"),
    (of_size(2), "better", "Yes. This is 2.0 points above that [+1.9, +2.1]."),
    (of_size(-2, 3, 4), "better", "It depends. This is 1.7 points above that [+1.6, +1.7]"),
    (of_size(.3, -.4, .5), "better", "No: within a point. This is 0.1 points above that [+0.1, +0.2]"),
    (of_size(-.3, -.2), "worse", "No: within a point. This is 0.2 points below that"),
    (of_size(1, -2, 3, spread=9.), "better", "Cannot tell. This is 0.7 points above that ["),
    (pd.concat([of_size(9), of_size(1, 2, spread=9.)], ignore_index=True), "better", "Cannot tell. This is 4.0 "),
    (pd.concat([of_size(9, 8, 7), of_size(1, 2, 3, spread=9.)], ignore_index=True), "better", "Yes. This is 5.0 "),
    (of_size(), "better", "Not run. This was *not run here*."),
])
def test_an_answer_begins_with_a_word_of_claims(comparisons, yes, words):
    sentence = answer(Question("", comparisons), "this", "that", yes)
    assert sentence.startswith(words) and answer_word(f"# Title\n\n**Answer.** {sentence}") == words.partition(". ")[0]
    assert not answer_word("**Answer.** Nothing else.") and not answer_word("**Answer.** Nobody knows.")


def test_bold_is_what_is_better_or_worse():
    "A significant difference within a point is neither."
    comparisons = of_size(3, -3, .2, 3, spread=.03)
    assert (comparisons.p < .01).all() and words_of_tests(comparisons).tolist() == [BETTER, WORSE, WITHIN, BETTER]
    place = {"encoder": "it", "test": "new", "seeds_alone": True, "against": "plain", "method": [*"abcd"]}
    assert intervals(comparisons.assign(**place)).new.str.startswith("**").tolist() == [True, True, False, True]


@pytest.mark.parametrize("names, message", [
    ({"method": "OutRg", "column": "*"}, "OutReg"), ({"method": "OutReg"}, "several cells")])
def test_a_name_of_a_printed_number_that_fits_none_or_several_is_refused(names, message):
    with pytest.raises(ValueError, match=message):
        load_expected("itvreg")("table2", **names)


def test_a_relation_that_is_none_is_refused():
    with pytest.raises(ValueError, match="no relation '=='"):
        fact("x", 1., "==")
