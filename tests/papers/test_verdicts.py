"""What a claim may be told.

Cells of made-up records, refusals of names that nothing has, and how often equal methods are told apart.
"""
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from debias_nb.checks import ConfigError
from debias_nb.papers.pages.cells import Cell, Setting
from debias_nb.papers.pages.comparisons import LESS, SLIGHTLY, ClaimEvidence, above, add_claim_verdicts, as_claimed
from debias_nb.papers.pages.comparisons import at_gain, combined_word, questions, registered
from debias_nb.papers.pages.statements import Comparisons, StatedClaim
from debias_nb.papers.pages.verdicts import Claim, Ledger
from debias_nb.measures.stats import Interval, Paired, threshold_p
from debias_nb.runs.pairing import bracket
from cells import a_run

ROWS = ("a", "b", "c")


def record(id, value, seed=0, world=None, cpu="one", dirty=False, is_trained=True):
    "A record of one metric on 50 resamples."
    resamples = value + np.random.default_rng(seed).normal(0, .001, 50)
    return dict(
        id=id, seed=seed, status="finished", device="cpu",
        environment={"cpu": cpu, "dirty": dirty, "packages": {"torch": "1"}},
        metrics={"test": {"p1": value}},
        replicates={"test": {"p1": list(resamples)}},
        run=a_run(is_trained=is_trained, seed=seed, world=world),
    )


def cell_of(method, column, level, ids, profile="small", **changes):
    "A cell of table3 that is measured by records."
    mean = Interval(level, np.nan, np.nan, len(ids), np.nan, "")
    return Cell(
        paper="itvreg", table="table3", profile=profile, encoder="encoder", method=method, column=column, shift="ood",
        corpus="corpus", evaluate="test", metric="p1", level=mean, status="measured", records=ids, **changes,
    )


def evidence(levels, seeds=5, columns=("near", "far"), profile="small", spread=.002, rng=None, **options):
    "A table with one cell per method and column: `levels` are its means."
    rng = rng or np.random.default_rng(0)
    cells = []
    records = {}
    for column in columns:
        for method, level in levels.items():
            ids = [f"{method}-{column}-{seed}" for seed in range(seeds)]
            for seed, id in enumerate(ids):
                records[id] = record(id, level + rng.normal(0, spread), seed, **options)
            cells.append(cell_of(method, column, level, ids, profile, role="weak"))
    return ClaimEvidence(cells, records)


def words(evidence, *lines):
    return add_claim_verdicts(evidence.compare(lines)).verdict.tolist()


def test_a_comparison_is_told_by_one_of_four_words():
    clear = evidence({"a": .6, "b": .5, "c": .6}, seeds=10)
    assert words(clear, *above("table3", "a", "b")) == ["better", "better"]
    assert words(clear, *above("table3", "b", "a")) == ["worse", "worse"]
    assert words(clear, *above("table3", "a", "c")) == ["within the margin", "within the margin"]
    wide = evidence({"a": .51, "b": .5}, spread=.1)
    assert words(wide, *above("table3", "a", "b")) == ["cannot tell", "cannot tell"]
    fifteen = words(clear, *above("table3", "a", "b", margin=-15))
    assert fifteen == ["worse", "worse"], "a lead, but not of fifteen points"
    assert words(clear, *above("table3", "b", "a", margin=15)) == ["better", "better"]


def test_columns_roles_elsewhere_and_differences_of_differences():
    e = evidence({"a": .6, "b": .5, "c": .55})
    assert len(words(e, *above("table3", "a", "b", column="n*"))) == 1
    assert words(e, *above("table3", "a", "b", role="strong")) == []
    assert words(e, *above("table3", "a", "b", shift="iid")) == []
    assert words(e, *above("table3", "a", "b", "c")) == ["better", "better", "worse", "worse"]
    assert words(e, *above("table3", "a", "b", minus={"methods": ("c", "b"), "names": ("gain", "gain of c")})) == [
        "better", "better"]
    assert words(e, *above("table3", "a", "a", column="near", than={"column": "far", "names": ("near", "far")})) == [
        "within the margin"]
    assert words(e, *above("table3", ("x", "a"), "b")) == ["better", "better"], "a method with another name"


@pytest.mark.parametrize("line, message", [
    (above("table4", "a", "b"), "no table 'table4'; did you mean 'table3'"),
    (above("table3", ("x", "y"), "b"), "no method in table3 called 'x'"),
    (above("table3", "a", "bb"), "no method in table3 called 'bb'; did you mean 'b'"),
    (above("table3", "a", "b", column="nearr"), "no column in table3 called 'nearr'; did you mean 'near'"),
    (above("table3", "a", "b", than={"column": "fa"}), "no column in table3 called 'fa'; did you mean 'far'"),
])
def test_a_name_that_no_cell_has_is_refused(line, message):
    e = evidence({"a": .6, "b": .5})
    with pytest.raises(ValueError, match=re.escape(message)):
        e.compare(line)


def test_what_cannot_be_asked_is_refused():
    for methods, settings, word in (
        ("ab", dict(delta=0), "delta"), ("a", {}, "two methods"), ("abc", dict(than={"column": "far"}), "than"),
        ("abc", dict(minus={"column": "far"}), "minus"), ("ab", dict(minus={"column": "far"}), "names"),
        ("aa", dict(than={"column": "far"}), "names"),
    ):
        with pytest.raises(ValueError, match=word):
            above("table3", *methods, **settings)


@pytest.mark.parametrize("change, reason", [
    (dict(cpu="another"), "0 common replicates, 5 left out: made on unlike processors"),
    (dict(dirty=True), "uncommitted changes"),
    (dict(seeds=1), "1 common replicates"),
])
def test_pairs_that_are_refused(change, reason):
    "One method's runs are of another make."
    ours = evidence({"a": .6})
    theirs = evidence({"b": .5}, **change)
    joint = ClaimEvidence(ours.cells("table3") + theirs.cells("table3"), ours.records_by_id | theirs.records_by_id)
    comparisons = add_claim_verdicts(joint.compare(above("table3", "a", "b")))
    assert set(comparisons.verdict) == {"not compared"}
    assert comparisons.why.str.contains(reason).all()
    assert comparisons.difference.isna().all()
    assert combined_word(["not compared", "not run"]) == "not run"


def test_a_claim_holds_where_all_that_it_asks_does():
    assert combined_word(["holds", "holds", "within the margin"]) == "depends"
    assert combined_word(["holds", "holds", "cannot tell"]) == "cannot tell"
    assert combined_word([*4 * ["holds"], "within the margin"]) == "depends"
    assert combined_word(["holds", f"holds{SLIGHTLY}"]) == "holds"
    assert combined_word([f"holds{SLIGHTLY}"] * 2) == f"holds{SLIGHTLY}"
    assert combined_word(["the reverse holds", "cannot tell"]) == "the reverse holds in part"
    assert combined_word(["holds", "not run"]) == "holds in part"
    assert combined_word(["cannot tell", "not run"]) == "cannot tell"


def test_the_registered_rule_takes_every_comparison_that_can_tell():
    assert registered([*9 * ["holds"], *3 * ["cannot tell"]]) == "holds"
    assert registered(["holds", "within the margin"]) == "depends" == registered(["within the margin"])
    assert registered(["cannot tell", "not run"]) == "cannot tell"
    assert registered(["the reverse holds", "cannot tell"]) == "the reverse holds"


@pytest.mark.parametrize("gain, spread, columns, word, size", [
    (.05, .002, 2, "holds", "inside"), (.005, .001, 2, f"holds{SLIGHTLY}", "excluded"),
    (0., .0005, 2, "within the margin", "excluded"), (.02, .03, 1, "cannot tell", "open"),
    (-.02, .002, 2, "the reverse holds", "excluded"),
])
def test_a_question_is_answered_by_one_estimate(gain, spread, columns, word, size):
    e = evidence({"a": .5 + gain, "b": .5}, seeds=6, spread=spread, columns=[str(n) for n in range(columns)])
    asked, = questions(as_claimed(add_claim_verdicts(e.compare(above("table3", "a", "b")))), {"a − b": [3., 6.]})
    assert (asked.word, asked.size, asked.mean.n) == (word, size, columns)
    assert asked.text() == f"a − b: {bracket(asked.mean)}"


def test_a_size_that_a_claim_states_may_be_refuted_alone():
    "The interval reaches beyond a point on both sides, and leaves out what is printed."
    e = evidence({"a": .5, "b": .5}, seeds=6, spread=.04)
    rows = as_claimed(add_claim_verdicts(e.compare(above("table3", "a", "b"))))
    stated_answer, = questions(rows, {"a − b": [9.]}, states_size=True)
    plain_answer, = questions(rows, {"a − b": [9.]})
    assert stated_answer.mean.low < -1 and stated_answer.mean.high > 1
    assert (stated_answer.word, plain_answer.word) == (LESS, "cannot tell")


def test_a_cell_that_is_not_complete_says_why():
    e = evidence({"a": .6, "b": .5})
    for cell in e.cells("table3"):
        if cell.method == "b":
            cell.status = "partial"
            cell.why = "3 of 5 runs are there"
    comparisons = e.compare(above("table3", "a", "b"))
    assert set(zip(comparisons.verdict, comparisons.why)) == {("not run", "3 of 5 runs are there")}


def curves(gains, losses, seeds=5, spread=.0005):
    "Cells of methods as curves: `own` and `far` have points above Base, for half of the tuned weights and for all."
    rng = np.random.default_rng(0)
    cells = []
    records = {}
    for column, levels in (("own", gains), ("far", losses)):
        records[f"Base-{column}"] = record(f"Base-{column}", .5, is_trained=False)
        cells.append(cell_of("Base", column, .5, [f"Base-{column}"]))
        for method, points in levels.items():
            for name, strength, points_above in zip((f"{method} 0.5", method), (.5, 1.), points):
                ids = [f"{name}-{column}-{seed}" for seed in range(seeds)]
                for seed, id in enumerate(ids):
                    records[id] = record(id, .5 + points_above / 100 + rng.normal(0, spread), seed)
                cells.append(cell_of(name, column, .5, ids, family=method, setting=Setting(strength)))
    return ClaimEvidence(cells, records)


def test_at_equal_gain_curves_are_compared_where_both_have_it():
    """The largest gain of `a` is 10 and of `b` 20, so that both are read at 9:

    `a` loses 1.8 there, and `b` 4.5 on its way to 5."""
    e = curves(gains={"a": (5, 10), "b": (10, 20)}, losses={"a": (-1, -2), "b": (-5, -20)})
    comparison, = add_claim_verdicts(e.compare(above("table3", "a", "b", column="far", gain="own"))).itertuples()
    assert comparison.verdict == "better" and comparison.difference == pytest.approx(4.5 - 1.8, abs=.2)
    assert comparison.replicates == 5 and comparison.seeds_alone
    assert re.fullmatch(r"a − b, at a gain of [89]\.\d", comparison.comparison)
    at_the_end = e.compare(above("table3", "a", "b", column="far"))
    assert at_the_end.difference.item() == pytest.approx(18, abs=.2), "not at equal gain"


def test_below_a_point_there_is_no_gain_to_compare_at():
    e = curves(gains={"a": (.5, 1), "b": (10, 20)}, losses={"a": (-1, -2), "b": (-5, -20)})
    comparison, = add_claim_verdicts(e.compare(above("table3", "a", "b", column="far", gain="own"))).itertuples()
    assert (comparison.verdict, comparison.why) == ("not compared", "no gain to compare at: +0.9 points")


def test_a_gain_of_no_column_or_above_no_base_is_refused():
    e = curves(gains={"a": (5, 10), "b": (10, 20)}, losses={"a": (-1, -2), "b": (-5, -20)})
    with pytest.raises(ValueError, match="no column in table3 called 'owm'; did you mean 'own'"):
        e.compare(above("table3", "a", "b", column="far", gain="owm"))
    no_base = ClaimEvidence([cell for cell in e.cells("table3") if cell.method != "Base"], e.records_by_id)
    with pytest.raises(ValueError, match="no method in table3 called 'Base'"):
        no_base.compare(above("table3", "a", "b", column="far", gain="own"))


def test_equal_methods_are_seldom_told_apart():
    "Of 100 claims about equal methods, at most five come out other than `within the margin` or `cannot tell`."
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(100):
        e = evidence(dict.fromkeys(ROWS, .5), columns=("near", "far", "third"), spread=.02, rng=rng)
        comparisons = as_claimed(add_claim_verdicts(e.compare(above("table3", "a", "b", "c"))))
        wrong += combined_word(comparisons.verdict) not in ("within the margin", "cannot tell")
    assert wrong <= 5


def of_size(difference, error, primary=True, items_error=.1):
    "A comparison of ten seeds."
    estimate = Paired(
        difference, math.nan, math.nan, 10, math.nan, "by hand", error=error, freedom=9., items_error=items_error)
    return dict(profile="small", primary=primary, margin=0., delta=1., paired=estimate, p=threshold_p(estimate))


def judge_together(*comparisons):
    "Comparisons of one claim."
    return list(add_claim_verdicts(pd.DataFrame(comparisons)).itertuples())


def test_comparisons_of_a_claim_are_corrected_together():
    clear, weak, level = of_size(5., .5), of_size(1.2, .5), of_size(.1, .2)
    jointly, single = judge_together(clear, weak, level), judge_together(weak)
    assert [comparison.verdict for comparison in jointly] == ["better", "cannot tell", "within the margin"]
    assert single[0].verdict == "better", "alone, nothing is corrected"
    assert jointly[1].detectable > single[0].detectable, "what is corrected sees less"
    assert judge_together(level,
                          of_size(1.2, .5, False))[1].verdict == "better", "a secondary one is a family of its own"
    reasons = [judge_together(of_size(1.2, .7, items_error=items))[0].why for items in (.1, .7, math.nan)]
    assert [reason.partition(";")[0][:14] for reason in reasons] == ["too few replic", "too few test i",
                                                                     "too few replic"]
    hidden = of_size(.9, 1., items_error=.4)
    assert ([judge_together(*[hidden] * n)[0].why[:14] for n in (1, 9)]
            == ["too few replic", "too few test i"]), "corrected likewise"


def test_the_value_at_a_gain():
    gains, values = np.array([0., 4, 6, 5]), np.array([0., -2, -3, -6])
    assert [at_gain(gains, values, gain) for gain in (2, 5, 6, 7)] == [-1, -2.5, -3, -3]


def claim_of(levels, *lines, **options):
    "A claim with these lines, over made-up records."
    comparisons = add_claim_verdicts(evidence(levels, **options).compare(lines))
    return Claim("A1", "", [], as_claimed(comparisons))


LOSS = above("table3", "Base", "Finetuned") # what a claim asks that says: fine-tuning falls below the base encoder


@pytest.mark.parametrize("tuned, answer, outcome", [
    (.55, "No, the reverse", r"Finetuned − Base: \+[45]\.\d \[.*\]; 2 against"),
    (.45, "Yes", r"Finetuned − Base: −[45]\.\d \[.*\]; 2 for"),
])
def test_a_claim_of_a_loss_holds_where_the_difference_is_below_zero(tuned, answer, outcome):
    claim = claim_of({"Base": .5, "Finetuned": tuned}, *LOSS, seeds=10, spread=.0005)
    assert claim.answer("small") == answer
    assert re.fullmatch(outcome, claim.summary("small"))


@pytest.mark.parametrize("tuned, margin, answer", [
    (.45, 2, "No: by more"), (.51, -2, "No: by less"), (.49, -2, "No: by less"), (.45, 0, "No, the reverse"),
    (.49, 2, "Yes"), (.55, -2, "Yes"),
])
def test_the_reverse_of_a_size_is_another_size(tuned, margin, answer):
    "At most 2 points below, more than 2 above, or above at all."
    lines = above("table3", "Finetuned", "Base", margin=margin)
    claim = claim_of({"Base": .5, "Finetuned": tuned}, *lines, seeds=10, spread=.0005)
    assert claim.answer("small") == answer and claim.word("small") == ("Yes" if answer == "Yes" else "No, the reverse")


@pytest.mark.parametrize("first, second, answer", [
    (.55, .55, "Yes"), (.55, .45, "Yes (the 10 seeds that did not repeat)"), (.45, .55, "No, the reverse"),
])
def test_a_claim_says_where_new_seeds_do_not_repeat_it(first, second, answer):
    claim, repetition = (
        claim_of({"Base": .5, "Finetuned": level}, *above("table3", "Finetuned", "Base"), seeds=10, spread=.0005)
        for level in (first, second))
    claim.repetition = repetition
    assert claim.answer("small") == answer and claim.answer("planted") == "Not run"
    claim.repetition = replace(repetition, comparisons=repetition.comparisons.iloc[:0], _questions={})
    assert claim.answer("small") == answer.partition(" (")[0], "it was not run again"


@pytest.mark.parametrize("distance, words, answer", [
    (.004, ["within the margin"] * 2, "No: within a point"), # both significant
    (.012, ["holds", "the reverse holds"], "It depends"),
])
def test_it_does_not_depend_where_all_lies_within_a_point(distance, words, answer):
    cells, records = [], {}
    for column, level in {"near": .5 + distance, "far": .5 - distance}.items():
        part = evidence({"ITVReg": level, "Finetuned": .5}, columns=(column,), seeds=10, spread=.0005)
        cells += part.cells("table3")
        records |= part.records_by_id
    comparisons = as_claimed(add_claim_verdicts(ClaimEvidence(cells,
                                                         records).compare(above("table3", "ITVReg", "Finetuned"))))
    assert (comparisons.p < .05).all() and sorted(comparisons.verdict) == words
    assert Claim("A1", "", [], comparisons).answer("small") == answer


def test_a_claim_with_an_allowance_holds_where_it_is_kept_however_near():
    "At most one point below is kept by what lies half a point below, though that is within a point of the allowance."
    within = evidence({"a": .495, "b": .5}, seeds=10, spread=.0005)
    assert words(within, *above("table3", "a", "b", margin=1)) == ["better", "better"]
    assert words(within, *above("table3", "a", "b")) == ["within the margin"] * 2, "without the allowance"


def pairs_in(evidence, **settings):
    "The pairs of methods that an entry of a file of claims compares."
    entry = Comparisons(table="table3", **settings)
    return [tuple(side.names[0] for side in line.sides) for line in entry.lines(evidence)]


def test_a_file_names_methods_by_place_by_strength_or_by_rank():
    e = evidence({"a": .9, "b": .52, "c": .5})
    assert pairs_in(e, methods=("{one}", "b"), cases={"one": ("a", "c")}) == [("a", "b"), ("c", "b")]
    with pytest.raises(ValueError, match="shorter"):
        pairs_in(e, methods=("{one}", "{two}"), cases={"one": ("a", "c"), "two": ("b",)})
    strength = {"nearest": ("a", "b"), "to": "c"}
    assert pairs_in(e, methods=(strength, "c"), encoder="encoder") == [("a", "c")], "the first"
    for cell in e.cells("table3"):
        cell.shift = "iid"
    assert pairs_in(e, methods=(strength, "c"), encoder="encoder") == [("b", "c")]
    ranking = {"ranking": ("c", "b", "a"), "table": "table3", "column": "near"}
    assert pairs_in(e, methods=ranking, profiles=("small",)) == [("a", "b"), ("b", "c")]
    assert pairs_in(e, methods=ranking, profiles=("planted",)) == [("c", "b"), ("b", "a")], "without runs"
    line, = Comparisons(table="table3", methods=("a", "b"), values="table3", analogue="{far}").lines(e)
    assert line.analogue.startswith("0.5")


def test_a_claim_is_refused_where_our_runs_are_beyond_its_limit():
    e = evidence({"a": .6, "b": .5})
    book = Ledger("itvreg", e)
    claim = dict(id="Q-A1", statement="a is above b.", ours=[dict(table="table3", methods=("a", "b"))])
    limit = dict(table="table3", profile="small", column="near")
    book.claim(StatedClaim(**claim, at_most=limit | {"value": .7}))
    assert book.claims["Q-A1"].answer("small") == "Yes"
    for value, message in ((.55, "claims.yaml: Q-A1: near: 0.60. is recorded, and 0.55"), (.7, "nothing is recorded")):
        with pytest.raises(ConfigError, match=message):
            book.claim(StatedClaim(**claim, at_most=limit | {"value": value}))
        e.tables["table3"]["small", "encoder", "near"]["a"].level = None


