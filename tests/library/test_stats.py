"Intervals and what they say; what cannot be compared is refused. The notebook has scipy and simulations beside them."
import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from debias_nb.checks import ConfigError
from debias_nb.measures.metrics import auc_at, evaluate_pairs
from debias_nb.measures.several import paired_together, raise_variances
from debias_nb.measures.stats import Paired, detectable, estimate_word, holm, interval, mean_std, over_splits
from debias_nb.measures.stats import paired, threshold_p

numbers = st.floats(-1, 1).map(lambda x: round(x, 6))
several = st.lists(numbers, min_size=2, max_size=6).filter(lambda v: np.ptp(v) > 1e-3)


def matrix(n, B=50, seed=0, scale=.02):
    return np.random.default_rng(seed).normal(.5, scale, (n, B))


@given(several, st.floats(-1, 1), st.integers(0, 9))
def test_shift_sign_and_order_of_replicates(values, shift, seed):
    a = np.array(values)
    b = np.array(values)[::-1]
    ra = matrix(len(values), seed=seed)
    rb = matrix(len(values), seed=seed + 100)
    p = paired(a, b, ra, rb)
    q = paired(b, a, rb, ra)
    assert np.allclose((p.difference, p.low, p.high, p.p), (-q.difference, -q.high, -q.low, q.p))
    after_shift = paired(a + shift, b + shift, ra + shift, rb + shift)
    order = np.random.default_rng(seed).permutation(50)
    after_order = paired(a, b, ra[:, order], rb[:, order])
    for variant in (after_shift, after_order):
        assert np.allclose(dataclasses.astuple(p)[:5], dataclasses.astuple(variant)[:5])


def test_p_and_interval_say_the_same():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = paired(rng.normal(.1, .1, 3), rng.normal(0, .1, 3), matrix(3, seed=1), matrix(3, seed=2))
        assert (p.p < .05) == (p.low > 0 or p.high < 0) == (estimate_word(p.low, p.high, 1e-9) in ("better", "worse"))
        assert np.isclose(threshold_p(p), p.p)
        assert threshold_p(p, p.low) > .0499


def test_p_values_of_comparisons_made_together_are_corrected():
    assert holm([.6, .9, .01]) == [1, 1, .03] and holm([.03]) == [.03] and holm([]) == []


@pytest.mark.parametrize("call, words", [
    (lambda: holm({}), "ps must be a list of p-values"), (lambda: holm([[.1]]), "ps must be"),
    (lambda: holm([math.nan]), "ps must be"),
])
def test_what_is_no_list_of_p_values_is_refused_in_words(call, words):
    with pytest.raises(ConfigError, match=words):
        call()


def test_mean_and_deviation_of_seeds_are_those_of_a_sample():
    assert mean_std([70., 72., 74.]) == (72., 2.) and mean_std([1., 2.]) == (1.5, .5**.5)
    assert mean_std([3.])[0] == 3 and math.isnan(mean_std([3.])[1])


def test_one_run_no_run_and_equal_runs():
    r = matrix(1)
    resampled_run = interval([.5], r)
    assert math.isnan(resampled_run.std)
    assert "seeds not covered" in resampled_run.method
    assert np.isclose(resampled_run.high - .5, stats.t.ppf(.975, 49) * r.std(ddof=1))
    single_run = interval([.5])
    assert math.isnan(single_run.low)
    assert math.isnan(single_run.high)
    assert single_run.value == .5
    assert "test items not covered" in single_run.method
    equal_runs = interval([.5, .5, .5])
    assert equal_runs.low == equal_runs.high == .5
    assert equal_runs.std == 0
    equal_sides = paired([.5, .25], [.5, .25], matrix(2), matrix(2))
    assert equal_sides.difference == equal_sides.low == equal_sides.high == 0
    assert equal_sides.p == 1
    assert estimate_word(equal_sides.low, equal_sides.high) == "within a point"
    assert paired([.75, .5], [.5, .25]).p == 0
    assert math.isnan(paired([.5], [.4]).p)


def test_a_difference_over_splits_has_one_degree_of_freedom_less_than_splits():
    splits = np.array([.02, .05, .01, .04])
    result = over_splits(splits, .25)
    error = splits.std(ddof=1) * math.sqrt(1 / 4 + .25)
    assert result.freedom == 3 and result.error == pytest.approx(error)
    assert (result.low, result.high) == pytest.approx(stats.t.interval(.95, 3, splits.mean(), error))
    assert result.items_error == pytest.approx(splits.std(ddof=1) / 2)


def test_several_seeds_a_split_take_what_they_add_out_of_what_splits_share():
    runs = np.array([[.02, .06], [.05, .01], [.01, .03], [.04, .02]])
    one, found = over_splits(runs.mean(1), .25), over_splits(runs, .25)
    between = min(max(runs.mean(1).var(ddof=1) / stats.f.ppf(.2, 3, 4) - runs.var(1, ddof=1).mean() / 2, 0),
                  runs.mean(1).var(ddof=1))
    assert found.error == pytest.approx(math.sqrt(runs.mean(1).var(ddof=1) / 4 + .25 * between))
    assert found.error <= one.error and found.freedom == 3 and found.difference == pytest.approx(one.difference)
    ragged = over_splits([[.02, .06], [.05], [.01, .03], [.04]], .25)
    assert ragged.n == 4 and ragged.error <= over_splits([.04, .05, .02, .04], .25).error
    assert over_splits(runs[:, :1], .25) == over_splits(runs[:, 0], .25), "as with one seed"


def test_few_units_widen_an_interval_and_leave_it_fewer_degrees_of_freedom():
    replicates = matrix(1, 100)
    result = interval([.5], replicates, units=12)
    error = replicates.std(ddof=1) * math.sqrt(12 / 11)
    assert (result.low, result.high) == pytest.approx(stats.t.interval(.95, 11, .5, error))
    comparison = paired([.5], [.4], replicates, matrix(1, 100, seed=3), units=7)
    assert comparison.freedom == pytest.approx(6)


@pytest.mark.parametrize("swap", [False, True])
def test_a_deterministic_side_meets_every_seed(swap):
    a = [.5]
    b = [.6, .7, .65]
    ra = matrix(1)
    rb = matrix(3, seed=1)
    if swap:
        a, b, ra, rb = b, a, rb, ra
    p = paired(a, b, ra, rb)
    repetitions = [np.broadcast_to(values, 3) for values in (a, b)]
    resamples = [np.broadcast_to(replicates, (3, 50)) for replicates in (ra, rb)]
    full = paired(*repetitions, *resamples)
    assert (p.difference, p.low, p.high, p.n, p.p) == (full.difference, full.low, full.high, 3, full.p)
    assert p.method.startswith(("b" if swap else "a") + " is one run, taken as deterministic")
    assert "deterministic" not in full.method


def test_resamples_without_a_class_are_left_out_on_both_sides():
    ra = matrix(3, 100, seed=1)
    rb = matrix(3, 100, seed=2)
    complete = paired([1, 2, 4], [0, 3, 1], ra[:, 2:], rb[:, 2:])
    ra[2, 0] = np.nan
    rb[0, 1] = np.nan
    p = paired([1, 2, 4], [0, 3, 1], ra, rb)
    assert (p.low, p.high) == (complete.low, complete.high)
    assert "98 resamples" in p.method
    assert "2 left out" in p.method
    ra[0, :20] = np.nan
    with pytest.raises(ValueError, match="too small"):
        interval([1, 2, 3], ra)
    with pytest.raises(ValueError, match="too small"):
        paired([1, 2, 4], [0, 3, 1], ra, rb)


def by_hand(difference, error, freedom=9.):
    return Paired(difference, math.nan, math.nan, 10, math.nan, "by hand", False, error, freedom)


@pytest.mark.parametrize("call, words", [
    (lambda: mean_std([1, np.inf]), r"values\[1\]"),
    (lambda: mean_std(3.), "values"),
    (lambda: interval([]), "values"),
    (lambda: interval([1, 2], np.ones(5)), "replicates"),
    (lambda: interval([1, 2], np.ones((2, 1))), "replicates"),
    (lambda: interval([1, 2], [[1, np.inf], [1, 2]]), "seed 0, replicate 1"),
    (lambda: paired([1, 2], [1, 2], level=95), "level"),
    (lambda: interval([1, 2], units=1), "units"),
    (lambda: paired([.5], [.4], [[.5, .5]], [[.4, .5]], units=0), "units"),
    (lambda: paired([], [1]), "a_values"),
    (lambda: paired([1, np.nan], [1, 2]), r"a_values\[1\]"),
    (lambda: paired([1, 2], [1, 2, 3]), "a has 2 seeds and b has 3"),
    (lambda: paired([1, 2], [1, 2], np.ones((3, 9)), np.ones((2, 9))), "a_replicates"),
    (lambda: paired([1, 2], [1, 2], np.ones((2, 9)), np.ones((2, 10))), "resamples"),
    (lambda: over_splits([.01, .03], 0.), "overlap"),
    (lambda: threshold_p(paired([.5], [.4])), "no test of 0.1 against 0"),
    (lambda: estimate_word(.1, .5, margin=0), "margin"), (lambda: estimate_word(.1, .5, p=1.2), "p must"),
    (lambda: holm([.1, 1.2]), "1.2"),
])
def test_what_cannot_be_compared_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("low, high, settings, word", [
    (.2, 1.4, {}, "better"), (-1.4, -.2, {}, "worse"), (-.1, 1.4, {}, "open"), (math.nan, math.nan, {}, "open"),
    (.2, .9, {}, "within a point"), (-1, 1, {}, "within a point"), (.2, 1.4, {"margin": 2}, "within 2 points"),
    (.2, 1.4, {"p": .08}, "open"), (.2, 1.4, {"p": .04}, "better"), (-.2, 1.4, {"p": .04}, "better"),
    (.2, .9, {"p": .5}, "within a point"), (.2, 1.4, {"margin": .1}, "better"),
])
def test_a_difference_is_told_by_one_of_four_words(low, high, settings, word):
    assert estimate_word(low, high, **settings) == word


def test_a_detectable_difference_is_found_four_times_in_five():
    items = detectable(Paired(0, -1, 1, 3, 1, "m", False, .01, np.inf))
    assert np.isclose(items, (stats.norm.ppf(.975) + stats.norm.ppf(.8)) * .01)
    of_five = detectable(Paired(0, -1, 1, 10, 1, "m", error=.01, freedom=9), comparisons=5)
    rng = np.random.default_rng(0)
    is_detected = [paired(rng.normal(of_five, .01 * 10**.5, 10), np.zeros(10)).p < .05 / 5 for _ in range(2000)]
    assert .74 < np.mean(is_detected) < .84, "the first of five must have a p below one in a hundred"


# ---- several methods against one

def seed_pairs(rng, methods, seeds, of_methods, tests=1):
    """Methods and plain fine-tuning on tests of 200 items, none better than another: one side a method and test, as
    `paired` takes it. Seeds vary in errors of a difference's test items."""
    out = []
    for _ in range(tests):
        items = rng.normal(size=(methods + 1, 200)) # what a resample of the test does to each
        level = rng.normal(size=(methods + 1, 1)) / 2**.5
        spread = np.array([np.mean(of_methods), *of_methods])[:, None] / 2**.5
        values = level + spread * rng.normal(size=(methods + 1, seeds))
        replicates = [np.tile(level[k] + items[k] / 2**.5, (seeds, 1)) for k in range(methods + 1)]
        out += [(values[k], values[0], replicates[k], replicates[0]) for k in range(1, methods + 1)]
    return out


def test_one_comparison_alone_stays_as_it_was():
    sides = seed_pairs(np.random.default_rng(0), 1, 3, [1.])
    assert paired_together(sides) == [paired(*sides[0])]
    runs = [([.5], [.4], matrix(1), matrix(1, seed=1)), ([.6], [.4], matrix(1, seed=2), matrix(1, seed=1))]
    singles = [paired(*sides) for sides in runs]
    assert repr(paired_together(runs)) == repr(singles), "without seeds there is nothing to raise"


def test_comparisons_made_together_share_what_they_say_of_seeds():
    sides = seed_pairs(np.random.default_rng(1), 4, 3, [.1, 1., 1., 3.])
    assert np.allclose(raise_variances([1, 3], 2)[0], [10 / 6, 3]) and raise_variances([1, 3], 2)[1] == 3.2
    singles = [paired(*comparison) for comparison in sides]
    jointly = paired_together(sides)
    variances, _ = raise_variances([single.error**2 - single.items_error**2 for single in singles], 2)
    for comparison, single, variance in zip(jointly, singles, variances):
        assert np.isclose(comparison.error**2, variance + single.items_error**2)
        assert (comparison.difference, comparison.n) == (single.difference, 3)
        assert comparison.error >= single.error - 1e-12
        assert comparison.low < comparison.difference < comparison.high and "4 comparisons" in comparison.method
    with pytest.raises(ValueError, match="2 and 3 seeds"):
        paired_together([*sides, ([1, 2], [3, 4], matrix(2), matrix(2))])
    with pytest.raises(ValueError, match="only a has replicates"):
        paired_together([([1, 2], [3, 4], matrix(2), None)] * 2)


@pytest.mark.parametrize("methods, seeds, provisional", [
    (1, 1, False), (1, 2, True), (1, 3, True), (1, 4, False), (4, 2, True), (2, 3, False), (4, 3, False),
])
def test_a_difference_says_whether_its_seeds_are_too_few(methods, seeds, provisional):
    sides = seed_pairs(np.random.default_rng(0), methods, seeds, [1.] * methods)
    assert {comparison.provisional for comparison in paired_together(sides)} == {provisional}
    assert not paired([1, 2, 4], [0, 3, 1]).provisional and not over_splits([.1, .2], 1.).provisional, "t alone holds"


LABELED = pd.Series([.2, .9, .7, .1], ["a", "b", "c", "d"])
MATCH = pd.Series([0, 1, 1, 0], ["a", "b", "c", "d"])


@pytest.mark.parametrize("compute", [
    lambda order: paired(LABELED, MATCH[order]),
    lambda order: interval(LABELED, pd.DataFrame(np.ones((4, 9)), MATCH[order].index)),
    lambda order: auc_at(MATCH[order], LABELED),
    lambda order: evaluate_pairs(MATCH, LABELED, groups=pd.Series(list("xxyy"), MATCH[order].index)),
], ids=["paired", "interval", "auc_at", "evaluate_pairs"])
def test_what_carries_labels_is_refused_where_they_differ(compute):
    compute(list("abcd"))
    with pytest.raises(ValueError, match="matched by place, and their labels differ"):
        compute(list("dcba"))
