"""What a claim may be told: one of seven words, from one estimate of made-up records; refusals of unknown names."""
import math
import re

import numpy as np
import pandas as pd
import pytest

from debias_nb.papers.pages.cells import Cell
from debias_nb.papers.pages.claims import DEPENDS, NOT_RUN, REVERSE, SIZE, UNSURE, WITHIN, YES, Claim, Comparisons
from debias_nb.papers.pages.claims import _named, combined, measured
from debias_nb.papers.pages.comparisons import ClaimEvidence, above, add_claim_verdicts
from debias_nb.papers.pages.printed import PrintedCheck
from debias_nb.measures.stats import Interval, Paired, threshold_p
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


def test_a_cell_that_is_not_complete_says_why():
    e = evidence({"a": .6, "b": .5})
    for cell in e.cells("table3"):
        if cell.method == "b":
            cell.status = "partial"
            cell.why = "3 of 5 runs are there"
    comparisons = e.compare(above("table3", "a", "b"))
    assert set(zip(comparisons.verdict, comparisons.why)) == {("not run", "3 of 5 runs are there")}


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


def test_a_claim_with_an_allowance_holds_where_it_is_kept_however_near():
    "At most one point below is kept by what lies half a point below, though that is within a point of the allowance."
    within = evidence({"a": .495, "b": .5}, seeds=10, spread=.0005)
    assert words(within, *above("table3", "a", "b", margin=1)) == ["better", "better"]
    assert words(within, *above("table3", "a", "b")) == ["within the margin"] * 2, "without the allowance"



def claim_of(levels, *lines, printed=(), asked="> 0", **options):
    "A claim with these lines, over made-up records; printed: sizes of `a − b`."
    rows = _named(add_claim_verdicts(evidence(levels, **options).compare(lines)))
    facts = [PrintedCheck("a − b", "", "", asked, True, "", number) for number in printed]
    return pd.DataFrame(Claim("itvreg", "A1", "", "", facts, rows).estimates("small"))


@pytest.mark.parametrize("gain, spread, margin, printed, word, size", [
    (.05, .002, 0, [3., 6.], YES, "inside"), (.005, .001, 0, [3., 6.], YES, "excluded"),
    (0., .0005, 0, [3., 6.], WITHIN, "excluded"), (.005, .06, 0, [], UNSURE, None),
    (-.02, .002, 0, [], REVERSE, None), (-.05, .0005, 2, [], SIZE, None), (-.01, .0005, 2, [], YES, None),
    (.01, .0005, -2, [], SIZE, None),
])
def test_a_claim_is_told_by_one_of_seven_words(gain, spread, margin, printed, word, size):
    rows = claim_of({"a": .5 + gain, "b": .5}, *above("table3", "a", "b", margin=margin), printed=printed, seeds=10,
                    spread=spread)
    assert (rows.verdict.item(), rows.printed_size.item() or None) == (word, size)


def test_a_size_that_a_claim_states_may_be_refuted_alone():
    "The interval reaches beyond a point on both sides, and leaves out what is printed."
    stated, plain = (claim_of({"a": .5, "b": .5}, *above("table3", "a", "b"), printed=[9.], asked=asked, seeds=6,
                              spread=.04) for asked in ("= 9", "> 0"))
    assert stated.low.item() < -1 and stated.high.item() > 1
    assert (stated.verdict.item(), plain.verdict.item()) == (SIZE, UNSURE)


@pytest.mark.parametrize("verdicts, word", [
    ([YES, YES], YES), ([YES, UNSURE], UNSURE), ([YES, WITHIN], DEPENDS), ([REVERSE, UNSURE], REVERSE),
    ([YES, NOT_RUN], YES), ([UNSURE, NOT_RUN], UNSURE), ([NOT_RUN], NOT_RUN), ([], NOT_RUN),
])
def test_a_claim_of_several_differences(verdicts, word):
    assert combined(verdicts) == word


@pytest.mark.parametrize("tuned, word, sign", [(.55, REVERSE, 1), (.45, YES, -1)])
def test_a_reference_is_subtracted_on_page_and_in_file(tuned, word, sign):
    rows = claim_of({"Base": .5, "Finetuned": tuned}, *above("table3", "Base", "Finetuned"), seeds=10, spread=.0005)
    assert (rows.verdict.item(), rows.question.item()) == (word, "Finetuned − Base")
    assert np.sign([rows.low.item(), rows.difference.item(), rows.high.item()]).tolist() == [sign] * 3
    assert measured(rows).startswith(f"Finetuned − Base: {'+' if sign > 0 else '−'}")


def test_each_difference_has_its_row_and_a_plain_name():
    lines = [line for pair in ("ab", "cd", "bc") for line in above("table3", *pair, column="near")]
    rows = claim_of({"a": .6, "b": .5, "c": .4, "d": .3}, *lines, columns=("near",))
    assert rows.question.tolist() == ["a − b", "c − d", "b − c"] and rows.verdict.unique().tolist() == [YES]
    line, = above("table3", "a", "b", column="near", minus={"column": "far", "names": ("gain nearby", "gain far away")})
    assert claim_of({"a": .6, "b": .5}, line).question.item() == "gain nearby − gain far away"
    line, = above("table3", "a + x", "a", column="near")
    assert claim_of({"a + x": .6, "a": .5}, line).question.item() == "`a + x` − a"


def test_tests_that_contradict_each_other_make_a_claim_depend():
    near, far = (evidence({"a": .5 + gain, "b": .5}, columns=(column,), seeds=10, spread=.0005)
                 for column, gain in (("near", .012), ("far", -.012)))
    joint = ClaimEvidence(near.cells("table3") + far.cells("table3"), near.records_by_id | far.records_by_id)
    rows = _named(add_claim_verdicts(joint.compare(above("table3", "a", "b"))))
    assert Claim("itvreg", "A1", "", "", [], rows).estimates("small")[0]["verdict"] == DEPENDS


def test_equal_methods_are_seldom_told_apart():
    "Of 100 claims about equal methods, at most five come out other than open or within a point."
    rng = np.random.default_rng(0)
    told = [claim_of(dict.fromkeys(ROWS, .5), *above("table3", "a", "b", "c"), columns=("near", "far", "third"),
                     spread=.02, rng=rng).verdict.iloc[0] for _ in range(100)]
    assert sum(word not in (WITHIN, UNSURE) for word in told) <= 5


def test_a_file_names_methods_by_place_or_by_rank():
    e = evidence({"a": .9, "b": .52, "c": .5})

    def pairs(**settings):
        lines = Comparisons(table="table3", **settings).lines(e)
        return [tuple(side.names[0] for side in line.sides) for line in lines]

    assert pairs(methods=("{one}", "b"), cases={"one": ("a", "c")}) == [("a", "b"), ("c", "b")]
    with pytest.raises(ValueError, match="shorter"):
        pairs(methods=("{one}", "{two}"), cases={"one": ("a", "c"), "two": ("b",)})
    ranking = {"ranking": ("c", "b", "a"), "table": "table3", "column": "near"}
    assert pairs(methods=ranking, profiles=("small",)) == [("a", "b"), ("b", "c")]
    assert pairs(methods=ranking, profiles=("planted",)) == [("c", "b"), ("b", "a")], "without runs"
