"""What comes of comparisons: pairs of runs, one estimate a question, four words of it and five of a claim."""
import re

import numpy as np
import pandas as pd
import pytest

from debias_nb.measures.stats import paired
from debias_nb.papers.pages.claims import DEPENDS, LESS, MORE, NO_CHANGE, NOT_RUN, REVERSE, UNSURE, YES, Claim
from debias_nb.papers.pages.claims import answer_of, ask, claim_word, load_statements
from debias_nb.papers.pages.compare import BETTER, OPEN, WITHIN, WORSE, Compared, Question, are_named, compare, compared
from debias_nb.papers.pages.compare import words_of_tests
from debias_nb.papers.pages.frame import RUN_COLUMNS, Results
from debias_nb.papers.pages.printed import PrintedCheck
from debias_nb.runs.pairing import run_on
from cells import a_run

RESULTS = Results()


def run_of_record(value, seed, cpu="one", dirty=False):
    "A run of one metric on 50 resamples."
    resamples = value + np.random.default_rng(seed).normal(0, .001, 50)
    return run_on(dict(
        seed=seed, environment={"cpu": cpu, "dirty": dirty, "packages": {"torch": "1"}},
        metrics={"test": {"p1": value}}, replicates={"test": {"p1": list(resamples)}},
        run=a_run(seed=seed)), "test", "p1", "fraction")


class Made(Results):
    "A table `table3` at `small` with one cell per method and column; `levels` are its means."
    def __init__(self, levels, seeds=5, columns=("near", "far"), spread=.002, rng=None, **options):
        rng = rng or np.random.default_rng(0)
        place = dict(encoder="encoder", role="weak", corpus="corpus", evaluate="test", shift="ood", metric="p1",
                     unit="fraction", complete=True, further=False)
        rows = [place | run_of_record(level + rng.normal(0, spread), seed, **options)._asdict()
                | dict(test=column, method=method, family=method)
                for column in columns for method, level in levels.items() for seed in range(seeds)]
        self.tables = {"table3": pd.DataFrame(rows, columns=RUN_COLUMNS).astype({"complete": bool, "further": bool})}
        super().__init__(values={("tables", "itvreg"): {("table3", "small"): "made"}, ("made", "small"): self.tables})

    def compare(self, *comparisons):
        return compare("itvreg", comparisons, self)

    def joined(self, other):
        self.tables["table3"] = pd.concat([self.tables["table3"], other.tables["table3"]])
        return self


def above(*methods, **options):
    return Compared(table="table3", methods=methods, **options)


def words(made, *comparisons):
    return words_of_tests(made.compare(*comparisons)).tolist()


def test_a_test_has_one_of_four_words():
    clear = Made({"a": .6, "b": .5, "c": .6}, seeds=10)
    assert words(clear, above("a", "b")) == [BETTER, BETTER] and words(clear, above("b", "a")) == [WORSE, WORSE]
    assert words(clear, above("a", "c")) == [WITHIN, WITHIN]
    assert words(Made({"a": .51, "b": .5}, spread=.1), above("a", "b")) == [OPEN, OPEN]
    assert words(clear, above("a", "b", margin=-15)) == [WORSE, WORSE], "a lead, but not of fifteen points"
    assert words(clear, above("b", "a", margin=15)) == [BETTER, BETTER]


def test_columns_roles_elsewhere_and_differences_of_differences():
    e = Made({"a": .6, "b": .5, "c": .55})
    assert len(words(e, above("a", "b", column="n*"))) == 1
    assert words(e, above("a", "b", role="strong")) == [] == words(e, above("a", "b", shift="iid"))
    assert words(e, above("a", "b", "c")) == [BETTER, BETTER, WORSE, WORSE]
    minus = {"methods": ("c", "b"), "names": ("gain", "gain of c")}
    assert e.compare(above("a", "b", minus=minus)).name.tolist() == ["gain − gain of c"] * 2
    assert words(e, above(("x", "a"), "b")) == [BETTER, BETTER], "a method with another name"
    nearest = {"nearest": ("a", "c"), "to": "b"}
    assert e.compare(above(nearest, "b", column="near")).method.tolist() == ["a"], "none is in distribution"
    ranking = {"ranking": ("c", "b", "a"), "table": "table3", "column": "near"}
    ranked = e.compare(Compared(table="table3", methods=ranking, column="near"))
    assert list(zip(ranked.method, ranked.against)) == [("a", "c"), ("c", "b")]
    cases = e.compare(above("{one}", "b", column="near", cases={"one": ("a", "c")}))
    assert cases.method.tolist() == ["a", "c"]


def test_a_sign_is_that_of_the_name():
    rows = Made({"Base": .5, "Finetuned": .55}).compare(above("Base", "Finetuned"))
    assert rows.name.tolist() == ["Base − Finetuned"] * 2 and (rows.difference < -4).all()


@pytest.mark.parametrize("change, reason", [
    (dict(cpu="another"), "too few: 0 seeds, seed 0, seed 1, seed 2, seed 3, seed 4: made on unlike processors"),
    (dict(dirty=True), "uncommitted changes"), (dict(seeds=1), "too few: 1 seeds"),
])
def test_pairs_that_are_refused(change, reason):
    rows = Made({"a": .6}).joined(Made({"b": .5}, **change)).compare(above("a", "b"))
    assert (rows.replicates + ", " + rows.left_out).str.contains(reason).all() and rows.difference.isna().all()
    assert Question("a − b", rows).estimate == "not run here"


def test_a_cell_that_is_not_complete_is_not_compared():
    e = Made({"a": .6, "b": .5})
    e.tables["table3"].complete &= e.tables["table3"].method != "b"
    assert e.compare(above("a", "b")).empty


def test_tests_of_a_question_are_corrected_together():
    clear, weak, level = (pd.DataFrame({"paired": [paired([mean - spread, mean, mean, mean + spread], [0] * 4)]})
                          for mean, spread in ((5, .5), (1.2, .75), (.1, .2)))
    assert words_of_tests(pd.concat([clear, weak, level], ignore_index=True)).tolist() == [BETTER, OPEN, WITHIN]
    assert words_of_tests(weak).tolist() == [BETTER], "alone, nothing is corrected"


def test_a_degenerate_test_is_shown_and_does_not_count():
    e = Made({"a": .6, "b": .5}, columns=("near",)).joined(Made({"a": .5, "b": .5}, columns=("far",), spread=0))
    question = Question("a − b", e.compare(above("a", "b")))
    assert len(question.tests) == 2 and question.mean.n == 1 and question.degenerate == ["far, a"]
    assert words_of_tests(question.tests).tolist() == [BETTER, "degenerate"]


def test_the_reported_number_is_the_mean_of_the_columns_that_ours_have():
    rows = Made({"a": .6, "b": .5}).compare(above("a", "b"))
    sizes = pd.Series([9., 11., 90.], pd.Index(["near", "far", "elsewhere"], name="column"))
    assert Question("", rows, sizes, "b").reported_text.startswith("+10.0 over b")
    others = pd.Series([1., 3.], pd.Index(["x", "y"], name="column"))
    assert Question("", rows, others, "b").reported_text == "+2.0 over b †"


def mean_of(low, high):
    "An estimate with this interval."
    estimate = Question("", Made({"a": .6, "b": .5}).compare(above("a", "b"))).mean
    return type(estimate)(**vars(estimate) | {"difference": (low + high) / 2, "low": low, "high": high})


@pytest.mark.parametrize("low, high, margin, size, word", [
    (1.2, 3, 0, None, YES), (.2, .9, 0, None, NO_CHANGE), (-3, -.5, 0, None, REVERSE), (-3, 2, 0, None, UNSURE),
    (-.9, -.4, .3, None, YES), (-4, -2, .3, None, REVERSE), (11, 13, -10, None, YES), (2, 6, -10, None, LESS),
    (5, 15, -10, None, UNSURE),
    (1.2, 3, 0, 2., YES), (1.2, 3, 0, 4., LESS), (1.2, 3, 0, 1., MORE), (-3, 2, 0, 4., LESS), (-3, 2, 0, 1., UNSURE),
])
def test_one_difference_answers_in_the_words_of_a_claim(low, high, margin, size, word):
    assert answer_of(mean_of(low, high), margin, size) == word
    assert answer_of(mean_of(low, high), margin, size, [BETTER, WORSE]) == DEPENDS and answer_of(None) == NOT_RUN


@pytest.mark.parametrize("answers, word", [
    ([YES, YES], YES), ([YES, UNSURE], UNSURE), ([YES, NO_CHANGE], NO_CHANGE), ([REVERSE, UNSURE], REVERSE),
    ([YES, REVERSE], DEPENDS), ([YES, NOT_RUN], YES), ([UNSURE, NOT_RUN], UNSURE), ([LESS, YES], LESS),
    ([NOT_RUN], NOT_RUN), ([], NOT_RUN),
])
def test_a_claim_of_several_differences(answers, word):
    assert claim_word(answers) == word


def claim_of(made, *comparisons, reported=(), asked="> 0"):
    facts = tuple(PrintedCheck("a − b", "near", "", asked, True, "", number) for number in reported)
    return Claim("itvreg", "A1", "a is above b.", "", facts, made.compare(*comparisons))


def test_a_claim_gives_its_estimates_and_what_is_reported():
    claim = claim_of(Made({"a": .6, "b": .5}, seeds=10), above("a", "b"), reported=[3., 5.])
    assert (claim.word(), claim.word("planted"), claim.reported_text) == (YES, NOT_RUN, "a − b: +4.00")
    assert re.fullmatch(r"a − b: \+\d+\.\d \[.*\], better †", claim.ours_text())
    stated = claim_of(Made({"a": .6, "b": .5}, seeds=10), above("a", "b"), reported=[5.], asked="= 5")
    assert stated.word() == MORE
    near, far = (Made({"a": .5 + gain, "b": .5}, columns=(column,), seeds=10, spread=.0005)
                 for column, gain in (("near", .02), ("far", -.02)))
    assert claim_of(near.joined(far), above("a", "b")).word() == DEPENDS


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


def test_sides_of_one_seed_make_no_pairs():
    assert compared([[], []])["replicates"] == "too few: 0 seeds"
    assert Question("", Made({"a": .6}).compare(above("a", "b"))).word == ""
