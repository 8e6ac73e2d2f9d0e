"The decision: what it may not do whatever the numbers are, averages as one family, what says nothing. Cases: notebook."
import numpy as np
import pandas as pd
import pytest

from debias_nb.diagnosis import why
from debias_nb.diagnosis.decision import ANSWERS, Averaged, Call, Result, averaged, decide, fits, needed_cases
from debias_nb.diagnosis.decision import results_of, verdict_line
from debias_nb.diagnosis.pairs import PairFile
from debias_nb.diagnosis.test_sets import as_test, difference
from debias_nb.diagnosis.verdicts import NEW, judge_changes, lines, verdicts
from debias_nb.measures.stats import estimate_word, holm, threshold_p

WORDS = {"better": (.06, .03, .09), "worse": (-.06, -.09, -.03), "within a point": (.001, -.004, .006),
         "open": (.01, -.08, .09)}


def results(*words, **changes):
    names = ("like", "new", "other")
    return [Result(name, word, *WORDS[word], found=.05, cases=300, value=.5, like=name == "like")
            for name, word in zip(names, words)]


@pytest.mark.parametrize("like", WORDS)
@pytest.mark.parametrize("new", WORDS)
@pytest.mark.parametrize("share", [None, *WORDS])
def test_whatever_the_words_nothing_that_may_lose_is_shipped(like, new, share):
    tests = results(like, new)
    steps = [Averaged(.25, .6, results("better", share))] if share else []
    decision = decide(tests, steps)
    assert decision.call in Call.__args__ and "{" not in decision.heading + decision.reason
    if decision.call == "ship":
        assert fits(tests, .01)
    if decision.call == "ship averaged":
        assert fits(steps[0].results, .01) and decision.share == .25 and not fits(tests, .01)
    if decision.call == "either":
        assert like == new == "within a point"
    if "worse" in (like, new):
        assert decision.call in ("do not ship", "ship averaged") and decision.word == "worse"
        assert decision.failing(False) == [result.test for result in tests if result.word == "worse"]
    if "better" not in (like, new) and decision.call == "do not ship":
        assert decision.heading.startswith("Keep the base: nothing got better")


def test_each_answer_is_one_of_five_and_there_are_eight_texts():
    assert len(ANSWERS) == 8 and {call for call, *_ in ANSWERS.values()} == {*Call.__args__}


def test_a_gain_in_distribution_alone_asks_for_new_data():
    decision = decide(results("better"), [])
    assert decision.call == "open" and "--test new=FILE" in decision.reason


def distinct(name, labels, scores):
    "A test whose pairs share no text."
    left, right = ([f"{side} {number}" for number in range(len(labels))] for side in "ab")
    frame = pd.DataFrame({"left": left, "right": right, "label": np.asarray(labels, int), "line": range(len(labels))})
    return as_test(name, PairFile(name, frame, ""), scores)


def test_the_line_of_a_monitor_and_what_an_open_test_needs_are_worked_out():
    assert verdict_line(results("worse", "open"), "worse") == (
        "VERDICT: worse | metric=auc05 | base=0.5600 | tuned=0.5000 | change=-0.0600 [-0.0900, -0.0300] | test=like")
    assert verdict_line([], "open").endswith("change=- - | test=-")
    assert needed_cases(results("open"), .01) == (
        "On `like` a loss of more than 8.0 points is excluded; "
        "to detect a change of 1 point takes about 7,200 more pairs.")
    decision = decide(results("better", "open"), None, {"new": "new: nothing."})
    assert decision.reason.endswith("Left out, since it says nothing: new: nothing.")
    decision = decide(results("better"), None, {"like": "like: nothing."})
    assert decision.word == "open" and "Left out" not in decision.reason


LABELS = np.arange(300) % 3 == 0


def noisy(name, seed, gain=0.):
    rng = np.random.default_rng(seed)
    scores = {model: 2 * LABELS + rng.normal(size=300) for model in ("base", "tuned")}
    scores["tuned"] = scores["tuned"] + gain * LABELS
    return distinct(name, LABELS, scores)


def test_words_of_tests_have_holms_correction_and_metrics_are_families_of_their_own():
    tests = [noisy(f"test {seed}", seed) for seed in range(5)]
    table = verdicts(tests)
    for metric, rows in table.groupby("metric"):
        alone = [difference(test.measure("tuned", metric), test.measure("base", metric)) for test in tests]
        assert rows.p.tolist() == pytest.approx(holm([threshold_p(change) for change in alone]))
        assert rows.verdict.tolist() == [estimate_word(100 * row.low, 100 * row.high, p=row.p)
                                         for row in rows.itertuples()]
    assert verdicts([noisy("harmed", 1, -1.7)]).verdict[0] == "worse"


def test_a_fall_in_another_metric_is_named_in_the_line():
    rng = np.random.default_rng(0)
    base = 1.6 * LABELS + rng.normal(size=300)
    is_low = base < np.quantile(base[~LABELS], .8) # far below what AUC(0.05) looks at
    [line] = lines(verdicts([distinct("new", LABELS, {"base": base, "tuned": base - 3 * (LABELS & is_low)})]))
    assert line.startswith("new: within a point. AUC(0.05) ") and "; worse by average precision, " in line


def test_an_interval_without_zero_beside_open_names_the_corrected_p():
    table = verdicts([noisy(f"test {seed}", seed) for seed in range(2)])
    table.loc[0, ["low", "high", "p", "verdict"]] = [.004, .093, .068, "open"]
    assert "; p = 0.068, corrected for 2 tests" in lines(table)[0]


def test_what_shares_no_text_with_training_has_a_line_of_its_own():
    disjoint = {"new": np.arange(300) >= 100}
    table = verdicts([noisy("new", 0, -2)], disjoint)
    assert lines(table)[1].startswith("new, the 200 of 300 pairs that share no text with training: worse. ")
    assert [result.part for result in results_of(table)] == ["all", NEW]
    few = lines(verdicts([noisy("new", 0)], {"new": np.arange(300) >= 295}))[1]
    assert few.endswith("5 of 300 pairs that share no text with training: too few for an interval.")


@pytest.mark.parametrize("gain", [0., .5, 3.])
def test_shares_that_are_alike_count_as_one(gain):
    "Nine copies of the tuned encoder are judged as it is alone."
    test = noisy("new", 0, gain)
    shares = {f"{number / 10}": number / 10 for number in range(1, 10)}
    test.scores |= dict.fromkeys(shares, test.scores["tuned"])
    change = difference(test.measure("tuned", "auc05"), test.measure("base", "auc05"))
    [alone] = judge_changes([change]).word
    for step in averaged([test], shares):
        [result] = step.results
        assert result.word == alone and result.bound == pytest.approx(change.low, abs=.02)


SILENT = { # scores of base and tuned, what is said, whether the tuned encoder is broken
    "flat tuned": (lambda x: (x, 0 * x), "all scores are the same in the tuned model", True),
    "flat base": (lambda x: (0 * x, x), "all scores are the same in the base model", False),
    "turned": (lambda x: (-x, -x), "matches score below non-matches", False),
    "collapsed": (lambda x: (x, .9 + 1e-5 * x), "lie within", True),
}


@pytest.mark.parametrize("scores, said, is_broken", SILENT.values(), ids=SILENT)
def test_a_test_that_says_nothing_is_told_and_decides_nothing(scores, said, is_broken):
    x = 2 * LABELS + np.random.default_rng(0).normal(size=300)
    test = distinct("new", LABELS, dict(zip(("base", "tuned"), scores(x))))
    no_overlap = why.overlap_with(None, [])
    reasons, broken = why.unusable_tests([test], no_overlap, ["base", "tuned"])
    decision = decide(results_of(verdicts([test])), None, reasons, broken=broken)
    assert said in reasons["new"] and broken == is_broken and said in decision.heading
    assert decision.call == ("do not ship" if is_broken else "open") and decision.failing(True) == ["new"]
    sound = noisy("sound", 0, 3)
    kept, _ = why.unusable_tests([test, sound], no_overlap, ["base", "tuned"])
    assert [*kept] == ["new"]


def test_a_measure_at_its_floor_shows_no_loss_and_names_another_metric():
    scores = {model: np.where(LABELS, 0, np.random.default_rng(seed).normal(size=300))
              for seed, model in enumerate(("base", "tuned"))} # matches lie in the middle
    said = why.at_floor(distinct("new", LABELS, scores), .01)
    assert "both models find next to nothing (AUC(0.05) 0.0 and 0.0 of 100)" in said and "--metric ap" in said
