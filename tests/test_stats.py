"Intervals against scipy and against the truth of simulated experiments; what cannot be compared is refused."
import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from debias_nb.measures.metrics import bootstrap_weights
from debias_nb.measures.stats import Paired, detectable, holm, interval, mean_std, over_splits, paired, paired_together
from debias_nb.measures.stats import raised, threshold_p, verdict

numbers = st.floats(-1, 1).map(lambda x: round(x, 6))
several = st.lists(numbers, min_size=2, max_size=6).filter(lambda v: np.ptp(v) > 1e-3)


def matrix(n, B=50, seed=0, scale=.02):
    return np.random.default_rng(seed).normal(.5, scale, (n, B))


@given(several, st.sampled_from([.5, .9, .95]))
def test_seeds_alone_is_the_textbook_interval(values, level):
    i = interval(values, level=level)
    textbook = stats.t.interval(level, len(values) - 1, np.mean(values), stats.sem(values))
    assert np.allclose((i.low, i.high), textbook)
    assert (i.value, i.std) == mean_std(values)
    assert i.n == len(values)


@pytest.mark.parametrize("n", [2, 5, 12, 300])
def test_few_units_are_the_textbook_interval(n):
    values = np.random.default_rng(n).normal(0, 1, n)
    drawn = bootstrap_weights(n, 20_000) / n
    i = interval([values.mean()], [drawn @ values], units=n)
    book = stats.t.interval(.95, min(n - 1, 20_000), values.mean(), stats.sem(values))
    assert np.allclose((i.low, i.high), book, rtol=0, atol=.02 * (book[1] - book[0]))
    p = paired([values.mean()], [0], [drawn @ values], [np.zeros(20_000)], units=n)
    assert np.isclose(p.high - p.low, i.high - i.low)
    assert np.isclose(p.items_error, p.error)
    assert np.isclose(p.p, stats.ttest_1samp(values, 0).pvalue, rtol=.05, atol=.01)


@given(several, several)
def test_paired_seeds_are_the_textbook_test(a, b):
    n = min(len(a), len(b))
    a = np.array(a[:n])
    b = np.array(b[:n])
    if np.ptp(a - b) < 1e-3:
        return
    p = paired(a, b)
    book = stats.ttest_rel(a, b)
    assert np.isclose(p.p, book.pvalue)
    assert np.allclose((p.low, p.high), book.confidence_interval(.95))
    assert p.n == n


@given(several, st.integers(0, 99))
def test_seeds_and_test_items_add_up(values, seed):
    r = matrix(len(values), seed=seed)
    i = interval(values, r)
    seeds = np.var(values, ddof=1) / len(values)
    items = r.mean(0).var(ddof=1)
    df = (seeds + items)**2 / (seeds**2 / (len(values) - 1) + items**2 / 49)
    assert np.isclose(i.high - i.value, stats.t.ppf(.975, df) * math.sqrt(seeds + items))
    assert np.isclose(i.value - i.low, i.high - i.value)


@given(several, st.floats(-1, 1), st.integers(0, 9))
def test_shift_sign_and_order_of_replicates(values, shift, seed):
    a = np.array(values)
    b = np.array(values)[::-1]
    ra = matrix(len(values), seed=seed)
    rb = matrix(len(values), seed=seed + 100)
    p = paired(a, b, ra, rb)
    q = paired(b, a, rb, ra)
    assert np.allclose((p.difference, p.low, p.high, p.p), (-q.difference, -q.high, -q.low, q.p))
    moved = paired(a + shift, b + shift, ra + shift, rb + shift)
    order = np.random.default_rng(seed).permutation(50)
    reordered = paired(a, b, ra[:, order], rb[:, order])
    for other in (moved, reordered):
        assert np.allclose(dataclasses.astuple(p)[:5], dataclasses.astuple(other)[:5])


def test_p_and_interval_say_the_same():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = paired(rng.normal(.1, .1, 3), rng.normal(0, .1, 3), matrix(3, seed=1), matrix(3, seed=2))
        assert (p.p < .05) == (p.low > 0 or p.high < 0) == (verdict(p) in ("holds", "reversed"))
        assert np.isclose(threshold_p(p), p.p)
        assert threshold_p(p, p.low) > .0499


def test_one_run_no_run_and_equal_runs():
    r = matrix(1)
    one = interval([.5], r)
    assert math.isnan(one.std)
    assert "seeds not covered" in one.method
    assert np.isclose(one.high - .5, stats.t.ppf(.975, 49) * r.std(ddof=1))
    alone = interval([.5])
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)
    assert alone.value == .5
    assert "test items not covered" in alone.method
    same = interval([.5, .5, .5])
    assert same.low == same.high == .5
    assert same.std == 0
    nothing = paired([.5, .25], [.5, .25], matrix(2), matrix(2))
    assert nothing.difference == nothing.low == nothing.high == 0
    assert nothing.p == 1
    assert verdict(nothing) == "no difference"
    assert paired([.75, .5], [.5, .25]).p == 0
    assert math.isnan(paired([.5], [.4]).p)


@pytest.mark.parametrize("swap", [False, True])
def test_a_deterministic_side_meets_every_seed(swap):
    a = [.5]
    b = [.6, .7, .65]
    ra = matrix(1)
    rb = matrix(3, seed=1)
    if swap:
        a, b, ra, rb = b, a, rb, ra
    p = paired(a, b, ra, rb)
    repeated = [np.broadcast_to(values, 3) for values in (a, b)]
    resampled = [np.broadcast_to(replicates, (3, 50)) for replicates in (ra, rb)]
    full = paired(*repeated, *resampled)
    assert (p.difference, p.low, p.high, p.n, p.p) == (full.difference, full.low, full.high, 3, full.p)
    assert p.method.startswith(("b" if swap else "a") + " is one run, taken as deterministic")
    assert "deterministic" not in full.method


def test_resamples_without_a_class_are_left_out_on_both_sides():
    ra = matrix(3, 100, seed=1)
    rb = matrix(3, 100, seed=2)
    without = paired([1, 2, 4], [0, 3, 1], ra[:, 2:], rb[:, 2:])
    ra[2, 0] = np.nan
    rb[0, 1] = np.nan
    p = paired([1, 2, 4], [0, 3, 1], ra, rb)
    assert (p.low, p.high) == (without.low, without.high)
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
    (lambda: interval([1, 2], [[1, 2], [1]]), "replicates"),
    (lambda: interval([1, 2], level=1), "level"),
    (lambda: paired([1, 2], [1, 2], level=95), "level"),
    (lambda: interval([1, 2], units=1), "units"),
    (lambda: interval([1, 2], units=2.5), "units"),
    (lambda: paired([.5], [.4], [[.5, .5]], [[.4, .5]], units=0), "units"),
    (lambda: paired([], [1]), "a_values"),
    (lambda: paired([1, np.nan], [1, 2]), r"a_values\[1\]"),
    (lambda: paired([1, 2], [1, 2, 3]), "a has 2 seeds and b has 3"),
    (lambda: paired([1, 2], [1, 2], b_replicates=np.ones((2, 9))), "only b"),
    (lambda: paired([1, 2], [1, 2], np.ones((3, 9)), np.ones((2, 9))), "a_replicates"),
    (lambda: paired([1, 2], [1, 2], np.ones((2, 9)), np.ones((2, 10))), "resamples"),
    (lambda: over_splits([.01, .03], 0.), "overlap"),
    (lambda: over_splits([.01, .03], math.nan), "overlap"),
    (lambda: verdict(by_hand(.1, .05), math.nan), "nan"),
    (lambda: verdict(paired([.5], [.4])), "0.1"),
    (lambda: verdict(by_hand(.1, .05), delta=0), "delta"),
    (lambda: verdict(by_hand(.1, .05), delta=math.nan), "delta"),
    (lambda: holm([.1, 1.2]), "1.2"),
    (lambda: holm([.1, math.nan]), "nan"),
])
def test_what_cannot_be_compared_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("difference, error, settings, expected", [
    (.02, .005, {"threshold": .01}, "inconclusive"),
    (.02, .001, {"threshold": .01}, "holds"),
    (-.002, .0005, {"threshold": -.003}, "no difference"),
    (-.002, .0003, {"threshold": -.003}, "holds"),
    (.1, .001, {"threshold": .099}, "no difference"),
    (.02, .02, {"delta": .08}, "no difference"),
    (.02, .008, {"p": .06}, "inconclusive"),
    (.02, .008, {}, "holds"),
])
def test_a_difference_is_told_by_one_of_four_words(difference, error, settings, expected):
    assert verdict(by_hand(difference, error), **settings) == expected


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_is_that_of_the_textbook(ps):
    adjusted = holm(ps)
    m = len(ps)
    order = sorted(range(m), key=lambda i: ps[i])
    for rank, i in enumerate(order):
        steps = [(m - k) * ps[order[k]] for k in range(rank + 1)]
        assert np.isclose(adjusted[i], min(1, max(steps)))
    assert m != 1 or adjusted == ps, "one alone stays as it is"


def test_a_detectable_difference_is_found_four_times_in_five():
    items = detectable(Paired(0, -1, 1, 3, 1, "m", False, .01, np.inf))
    assert np.isclose(items, (stats.norm.ppf(.975) + stats.norm.ppf(.8)) * .01)
    of_five = detectable(Paired(0, -1, 1, 10, 1, "m", error=.01, freedom=9), comparisons=5)
    rng = np.random.default_rng(0)
    found = [paired(rng.normal(of_five, .01 * 10**.5, 10), np.zeros(10)).p < .05 / 5 for _ in range(2000)]
    assert .74 < np.mean(found) < .84, "the first of five must have a p below one in a hundred"


def test_without_replicates_seeds_stand_alone():
    with_items = paired([1, 2, 4], [0, 3, 1], matrix(3), matrix(3, seed=1))
    alone = paired([1, 2, 4], [0, 3, 1])
    assert alone.seeds_alone
    assert math.isnan(alone.items_error)
    assert not with_items.seeds_alone
    assert with_items.items_error > 0


def test_splits_that_share_texts_are_corrected():
    "Variance s² (1/n + overlap): an overlap makes the interval wider than that of independent splits."
    differences = [.01, .03, .02, .05]
    found = over_splits(differences, overlap=.5)
    error = np.std(differences, ddof=1) * math.sqrt(1 / 4 + .5)
    half = stats.t.ppf(.975, 3) * error
    assert found.difference == pytest.approx(.0275)
    assert (found.low, found.high) == (pytest.approx(.0275 - half), pytest.approx(.0275 + half))
    assert not found.seeds_alone
    assert found.items_error == pytest.approx(np.std(differences, ddof=1) * math.sqrt(.5)), "more splits do not reduce it"
    independent = paired(differences, np.zeros(4))
    assert found.high - found.low > independent.high - independent.low


# ---- several methods against one

def trained(rng, methods, seeds, of_methods, tests=1):
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


@given(st.lists(st.floats(0, 9), min_size=1, max_size=9), st.integers(1, 9))
def test_variances_are_raised_toward_their_mean_and_never_lowered(own, freedom):
    found, of_seeds = raised(own, freedom)
    mean = np.mean(own)
    assert (found >= own).all() and (found <= np.maximum(own, mean) + 1e-9).all()
    assert freedom <= of_seeds <= min(4 + freedom, 4 * freedom)
    below = np.array(own) < mean
    assert np.allclose(found[below], (4 * mean + freedom * np.array(own)[below]) / (4 + freedom))


def test_one_comparison_alone_stays_as_it_was():
    sides = trained(np.random.default_rng(0), 1, 3, [1.])
    assert paired_together(sides) == [paired(*sides[0])]
    runs = [([.5], [.4], matrix(1), matrix(1, seed=1)), ([.6], [.4], matrix(1, seed=2), matrix(1, seed=1))]
    alone = [paired(*one) for one in runs]
    assert repr(paired_together(runs)) == repr(alone), "without seeds there is nothing to raise"


def test_comparisons_made_together_share_what_they_say_of_seeds():
    sides = trained(np.random.default_rng(1), 4, 3, [.1, 1., 1., 3.])
    alone = [paired(*one) for one in sides]
    together = paired_together(sides)
    own = [one.error**2 - one.items_error**2 for one in alone]
    variances, freedom = raised(own, 2)
    for one, before, variance in zip(together, alone, variances):
        total = variance + one.items_error**2
        assert np.isclose(one.error**2, total) and one.items_error == before.items_error
        assert np.isclose(one.freedom, total**2 / (variance**2 / freedom + one.items_error**4 / 199))
        assert (one.difference, one.n) == (before.difference, 3) and one.error >= before.error - 1e-12
        assert one.low < one.difference < one.high and "4 comparisons" in one.method
    with pytest.raises(ValueError, match="2 and 3 seeds"):
        paired_together([*sides, ([1, 2], [3, 4], matrix(2), matrix(2))])
    with pytest.raises(ValueError, match="only a has replicates"):
        paired_together([([1, 2], [3, 4], matrix(2), None)] * 2)


def false_verdicts(judge, seeds, of_methods, experiments=250):
    "How often any of eight comparisons, four on each of two tests, is significant after Holm, with none true."
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(experiments):
        tests = [trained(rng, 4, seeds, of_methods) for _ in range(2)]
        wrong += min(holm([one.p for test in tests for one in judge(test)])) < .05
    return wrong / experiments


def test_few_seeds_that_agree_by_chance_decide_less_often():
    of_methods = [2.5] * 4
    each = {seeds: false_verdicts(lambda test: [paired(*one) for one in test], seeds, of_methods) for seeds in (2, 3)}
    together = {seeds: false_verdicts(paired_together, seeds, of_methods) for seeds in (2, 3)}
    assert each[2] > .18 and each[3] > .08
    assert together[2] < .11 and together[3] < .08


@pytest.mark.parametrize("methods, seeds, provisional", [
    (1, 1, False), (1, 2, True), (1, 3, True), (1, 4, False), (4, 2, True), (2, 3, False), (4, 3, False),
])
def test_a_difference_says_whether_its_seeds_are_too_few(methods, seeds, provisional):
    sides = trained(np.random.default_rng(0), methods, seeds, [1.] * methods)
    assert {one.provisional for one in paired_together(sides)} == {provisional}
    assert not paired([1, 2, 4], [0, 3, 1]).provisional and not over_splits([.1, .2], 1.).provisional, "t alone holds"
