"Which pairs to label: samples of a pool, what they stand for, and files that people label and break."
from contextlib import suppress

import numpy as np
import pytest
from numpy.random import default_rng

from debias_nb.explain.test_sets import average_precision
from debias_nb.measures.metrics import auc_at
from debias_nb.measures.stats import paired
from debias_nb.measures.strata import FRACTIONS, LOOK, looking_cost, random_resamples, sampling_order, strata_of, stratified_weights

LABELS = 200
LOOKS = LABELS // LOOK


def pool(pairs, matches, seed=1):
    "Labels, and the scores of two models of which the second is worse."
    rng = default_rng(seed)
    labels = (rng.random(pairs) < matches).astype(int)
    shared = .8 * rng.normal(size=pairs)
    return labels, *(gap * labels + shared + .6 * rng.normal(size=pairs) for gap in (1.6, 1.3))


def test_each_prefix_is_a_stratified_sample():
    _, base, tuned = pool(3000, .1)
    strata = strata_of(base, tuned)
    order = sampling_order(strata, LABELS, 5)
    assert len(set(order)) == LABELS
    for size in range(20, LABELS + 1):
        counts = np.bincount(strata[order[:size]], minlength=5)
        assert (abs(counts - size * np.array(FRACTIONS)) < 3).all()
    assert (order == sampling_order(strata, LABELS, 5)).all() and (order != sampling_order(strata, LABELS, 6)).any()


def test_a_pool_that_is_used_up_is_drawn_whole():
    strata = np.repeat([0, 1, 4], [40, 5, 3]) # two strata are empty, as where scores tie
    assert sorted(sampling_order(strata, 48)) == list(range(48))
    assert sampling_order(strata, 100).size == 48


def test_weights_are_what_pairs_stand_for():
    strata = np.array([0, 0, 4, 4, 4, 2])
    weights = stratified_weights(strata, np.array([100, 0, 7, 0, 30]), 4000)
    assert weights[0].tolist() == [50, 50, 10, 10, 10, 7]
    assert np.allclose(weights[:, :2].sum(1), 100) and np.allclose(weights[:, 2:5].sum(1), 30) and (weights[:, 5] == 7).all()
    values = np.array([0., 1, 2, 4, 9, 5])
    expected = 100**2 * values[:2].var(ddof=1) / 2 + 30**2 * values[2:5].var(ddof=1) / 3 # of a stratified total
    assert (weights[1:] @ values).var() == pytest.approx(expected, rel=.05)
    assert random_resamples(weights[0], 4000).mean(0) == pytest.approx(6 * weights[0] / weights[0].sum(), rel=.1)


def estimate(labels, base, tuned, weights, metric):
    before, after = (metric(labels, scores, weights) for scores in (base, tuned))
    return paired([after[0]], [before[0]], [after[1:]], [before[1:]], units=len(labels))


def by_area(labels, scores, weights):
    return auc_at(labels, scores, weights=weights)


@pytest.mark.parametrize("metric, matches", [(by_area, .1), (by_area, .5), (average_precision, .1)])
def test_intervals_hold_the_pool_also_for_who_looks_after_each_50(metric, matches):
    "Nineteen times in twenty at all looks together, and a sample at random is further off."
    labels, base, tuned = pool(3000, matches)
    strata = strata_of(base, tuned)
    sizes = np.bincount(strata, minlength=5)
    every_pair = np.ones((1, len(labels)))
    change = metric(labels, tuned, every_pair)[0] - metric(labels, base, every_pair)[0]
    draws = 120
    distances = np.zeros((draws, LOOKS)) # in halves of an interval for one look; 0 where too few labels give none
    errors = []
    for seed in range(draws):
        order = sampling_order(strata, LABELS, seed)
        for look in range(LOOKS):
            rows = order[:LOOK * (1 + look)]
            weights = stratified_weights(strata[rows], sizes, 200, seed)
            with suppress(ValueError):
                interval = estimate(labels[rows], base[rows], tuned[rows], weights, metric)
                distances[seed, look] = abs(interval.difference - change) / (interval.high - interval.difference)
        rows = default_rng(seed).permutation(len(labels))[:LABELS]
        at_random = estimate(labels[rows], base[rows], tuned[rows], np.ones((3, LABELS)), metric).difference
        errors.append([interval.difference - change, at_random - change])
    scatter = (.05 * .95 / draws) ** .5
    assert (distances.max(1) <= looking_cost(LOOKS)).mean() > .95 - 2 * scatter
    if matches == .5: # who looks four times at intervals for one look is wrong more often
        assert (distances.max(1) <= 1).mean() < .95 - 2 * scatter
    chosen, at_random = np.square(errors).mean(0)
    assert chosen < at_random


def test_looking_costs_what_pocock_says():
    assert [round(looking_cost(looks), 2) for looks in (1, 2, 4, 10)] == [1, 1.11, 1.2, 1.3]
