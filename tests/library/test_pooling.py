"One estimate from several tests: what it must equal, what it decides, and how often that is wrong."
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from debias_nb.measures.pooling import TableSizes, error_rates, estimate, simulated
from debias_nb.measures.stats import Paired, paired

TABLES = [TableSizes(tests, seeds, sd, items, .15, .5)
          for tests, seeds, sd, items in ((1, 3, 1.2, .3), (6, 3, .6, .4), (3, 10, .6, 1.2))]


def without_seeds(comparisons):
    "The rule, broken: seeds make no difference to it."
    return estimate([replace(comparison, error=comparison.items_error) for comparison in comparisons])


def rates(rule):
    "How often each mistake is made, over the small tables."
    return [error_rates(table, np.random.default_rng(3), 400, rule).drop(columns="open") for table in TABLES]


def test_each_word_is_wrong_in_five_of_a_hundred_at_most_and_a_broken_rule_is_noticed():
    chance = 2.6 * math.sqrt(.05 * .95 / 400)
    for rule, is_right in ((estimate, True), (without_seeds, False)):
        words = max(table.drop(columns="†").max().max() for table in rates(rule))
        mark = max(table["†"].max() for table in rates(rule))
        assert (words < .05 + chance) == (mark < .1) == is_right, "with three seeds † is wrong more often"


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


def test_one_test_counted_twice_is_one_test():
    once, = simulated(TableSizes(1, 4, .6, .4), np.random.default_rng(0))
    twice = estimate([once, once])
    assert (twice.low, twice.high, twice.error) == pytest.approx((once.low, once.high, once.error))
    assert twice.freedom == pytest.approx(estimate([once]).freedom) and estimate(5 * [once]).spread == 0


def test_what_tests_differ_by_is_what_their_errors_leave():
    comparisons = simulated(TableSizes(5, 4, .6, .4, 1., .5), np.random.default_rng(1))
    mean, differences = estimate(comparisons), np.array([one.difference for one in comparisons])
    of_errors = sum(one.error**2 for one in comparisons) - 5 * mean.error**2
    assert mean.spread == pytest.approx(math.sqrt((differences.var() * 5 - of_errors) / 4)) and mean.spread > 0


def test_resamples_without_a_value_are_left_out():
    rng = np.random.default_rng(0)
    resamples = rng.normal(0, 1, (3, 100))
    resamples[:, :4] = np.nan
    comparison = paired([1., 2., 4.], [0., 0., 0.], resamples, np.zeros_like(resamples))
    mean = estimate([comparison])
    assert mean.error == pytest.approx(comparison.error) and mean.freedom == pytest.approx(comparison.freedom)


def test_what_has_no_interval_is_refused():
    by_hand = Paired(1., 0., 2., 3, .1, "by hand", error=.5, freedom=2.)
    with pytest.raises(ValueError, match=r"comparisons\[1\] has no interval of its own: by hand"):
        estimate([paired([1., 2.], [0., 0.]), by_hand])
    with pytest.raises(ValueError, match="level"):
        estimate([paired([1., 2.], [0., 0.])], level=95)
