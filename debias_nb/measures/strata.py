"""Choose which pairs of a pool to label, and estimate from unevenly sampled labels what holds for the whole pool.

The metrics that decide look at the top of a ranking. So more labels go to pairs that either of two models scores high,
and each counts for the pairs that it stands for, as in Sawade et al. (2012) and in OASIS (Marchant and Rubinstein
2017)."""
from functools import cache

import numpy as np
from numpy.random import default_rng
from scipy.stats import rankdata

CUTS = (.3, .6, .8, .9) # of the larger percentile rank
FRACTIONS = (.12, .15, .2, .23, .3) # of the labels that go to each stratum
LOOK = 50 # labels after which a result may be looked at
WALKS = 100_000


def strata_of(
    *scores: np.ndarray, # (N,) of each model, higher = more likely a match
) -> np.ndarray: # (N,) 0 to 4, by the larger of a pair's percentile ranks
    "Sort the pairs of a pool into strata, the highest last."
    ranks = [rankdata(values) / len(values) for values in scores]
    return np.searchsorted(CUTS, np.max(ranks, axis=0))


def sampling_order(
    strata: np.ndarray, # (N,) of the pairs of a pool
    size: int,          # of the sample, up to N
    seed: int = 0,
) -> np.ndarray: # (size,) rows of the pool, none twice
    """Draw pairs to label, so that each prefix of them is a stratified sample.

    Which stratum comes next depends on no score and no label, only on chance and on which strata are used up."""
    rng = default_rng([seed, 19])
    keys = np.empty(len(strata))
    for stratum, fraction in enumerate(FRACTIONS):
        rows = rng.permutation(np.flatnonzero(strata == stratum))
        keys[rows] = (np.arange(len(rows)) + rng.random(len(rows))) / fraction
    return np.argsort(keys, kind="stable")[:size]


def stratified_weights(
    strata: np.ndarray, # (n,) of the labeled pairs
    sizes: np.ndarray,  # (strata,) pairs of the pool in each
    replicates: int = 200,
    seed: int = 0,
    counts: np.ndarray | None = None, # (strata,) labeled pairs in each; None: the n pairs are all of them
# (1 + replicates, n) pairs of the pool that each one stands for, in the sample itself and in its resamples
) -> np.ndarray:
    """Weigh labeled pairs by what they stand for, and resample them within strata.

    One pair less than a stratum has is drawn with replacement, and counts for more, so that the variance of a mean is
    not too small where strata have few pairs (Rao and Wu 1988). A pair that is alone in its stratum is in each
    resample."""
    rng = default_rng([seed, 20])
    factors = np.ones((1 + replicates, len(strata)))
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        draws = max(1, len(rows) - 1)
        factors[1:, rows] = rng.multinomial(draws, np.full(len(rows), 1 / len(rows)), replicates) * len(rows) / draws
    counts = np.bincount(strata, minlength=len(sizes)) if counts is None else counts
    return factors * (np.asarray(sizes)[strata] / counts[strata])


def random_resamples(
    weights: np.ndarray, # (n,) of the labeled pairs: the first row of `stratified_weights`
    replicates: int = 200,
    seed: int = 0,
) -> np.ndarray: # (replicates, n) how often each pair counts
    "Resample as if equally many labels had been chosen at random from the same pool."
    return default_rng([seed, 21]).multinomial(len(weights), weights / weights.sum(), replicates)


@cache
def looking_cost(looks: int) -> float: # looks: 1 or more -> 1 or more
    """Return how much wider an interval must be to hold at every one of several looks, each after equally many labels.

    It is Pocock's constant (1977) over that of one look: at 2, 4 and 10 looks 1.11, 1.20 and 1.30."""
    steps = default_rng(0).standard_normal((WALKS, looks), np.float32).cumsum(1)
    furthest = np.abs(steps / np.sqrt(np.arange(1, looks + 1))).max(1)
    return float(np.quantile(furthest, .95) / np.quantile(np.abs(steps[:, 0]), .95))
