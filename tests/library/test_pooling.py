"One estimate from several tests: what it must equal, what it decides, and how often that is wrong."
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from debias_nb.measures.pooling import TableSizes, effect, error_rates, estimate, printed_size, simulated
from debias_nb.measures.stats import Paired, paired

TABLES = [TableSizes(tests, seeds, sd, items, .15, .5)
          for tests, seeds, sd, items in ((1, 3, 1.2, .3), (6, 3, .6, .4), (3, 10, .6, 1.2))]


def without_seeds(comparisons):
    "The rule, broken: seeds make no difference to it."
    return estimate([replace(comparison, error=comparison.items_error) for comparison in comparisons])


def rates(rule):
    "How often each mistake is made, over the small tables."
    return [error_rates(table, np.random.default_rng(3), 400, rule).drop(columns="open") for table in TABLES]


def test_each_mistake_is_made_in_five_of_a_hundred_at_most_and_a_broken_rule_is_noticed():
    chance = 2.6 * math.sqrt(.05 * .95 / 400)
    assert max(table.max().max() for table in rates(estimate)) < .05 + chance
    assert max(table.max().max() for table in rates(without_seeds)) > .05 + 3 * chance


@given(st.integers(1, 6), st.integers(2, 5), st.integers(0, 99), st.floats(.1, 10))
def test_order_unit_and_sign_of_tests(tests, seeds, seed, factor):
    comparisons = simulated(TableSizes(tests, seeds, .6, .4, .2, .5), np.random.default_rng(seed))
    mean = estimate(comparisons)
    turned = [paired(-c.sources.values, np.zeros(seeds), -np.tile(c.sources.resamples, (seeds, 1)),
                     np.zeros((seeds, len(c.sources.resamples)))) for c in comparisons]
    turned = [replace(c, sources=replace(c.sources, training=old.sources.training, items=old.sources.items))
              for c, old in zip(turned, comparisons)]
    for other, sign in ((estimate(comparisons[::-1]), 1), (estimate(turned), -1)):
        assert other.difference == pytest.approx(sign * mean.difference, abs=1e-12)
        assert (other.error, other.freedom) == pytest.approx((mean.error, mean.freedom))
    assert mean.low < mean.difference < mean.high
    assert (mean.p < .05) == (mean.low > 0 or mean.high < 0)


def test_one_test_counted_twice_is_one_test():
    once, = simulated(TableSizes(1, 4, .6, .4), np.random.default_rng(0))
    twice = estimate([once, once])
    assert (twice.low, twice.high, twice.error) == pytest.approx((once.low, once.high, once.error))
    assert twice.freedom == pytest.approx(estimate([once]).freedom) and estimate(5 * [once]).spread == 0


@pytest.mark.parametrize("level", [.5, .95])
def test_the_interval_of_a_next_test_is_student_s_of_spread_and_error(level):
    mean = estimate(simulated(TableSizes(5, 4, .6, .4, 1., .5), np.random.default_rng(1)), level)
    scale = math.hypot(mean.spread, mean.error)
    assert mean.spread > 0 and (mean.next_low, mean.next_high) == pytest.approx(
        stats.t.interval(level, 4, loc=mean.difference, scale=scale))


def test_resamples_without_a_value_are_left_out():
    rng = np.random.default_rng(0)
    resamples = rng.normal(0, 1, (3, 100))
    resamples[:, :4] = np.nan
    comparison = paired([1., 2., 4.], [0., 0., 0.], resamples, np.zeros_like(resamples))
    mean = estimate([comparison])
    assert mean.items_error == pytest.approx(comparison.items_error) and mean.items_freedom == 95


def test_what_has_no_interval_is_refused():
    by_hand = Paired(1., 0., 2., 3, .1, "by hand", error=.5, freedom=2.)
    with pytest.raises(ValueError, match=r"comparisons\[1\] has no interval of its own: by hand"):
        estimate([paired([1., 2.], [0., 0.]), by_hand])
    with pytest.raises(ValueError, match="level"):
        estimate([paired([1., 2.], [0., 0.])], level=95)


def test_a_printed_size_next_to_the_interval_takes_the_wider_one():
    "Satterthwaite's interval leaves it out, the one that is never short does not."
    mean = replace(estimate([paired([1., 2., 3.], [0., 0., 0.])]), seeds_error=1., seeds_freedom=2., items_error=1.,
                   items_freedom=99., error=math.sqrt(2), difference=10., low=6.8, high=13.2)
    assert printed_size(mean, 6., 1.) == "inside" and printed_size(mean, 5., 1.) == "excluded"
    assert printed_size(mean, [2., 7.], 1.) == "inside", "what is printed goes as far as the interval"
    assert effect(mean, 1.) == "helps"
