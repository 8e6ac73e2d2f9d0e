"""Which pairs pass a cut-off before and after fine-tuning, and how ranks moved."""
import math

import numpy as np
import pandas as pd

from .decision import MUCH, passing_moved
from .test_sets import FALSE_POSITIVES, PairTest, QueryTest, Test, first_rank, level

RATES = ("false positives", "recall", "precision")


def cut_offs(
    scores: np.ndarray, # (n,) of pairs that are no match
    rates,              # (B,) in [0, 1]
    counts: np.ndarray, # (B, n) how often each of them is drawn
) -> np.ndarray: # (B,) nan where none is drawn
    "Find the lowest cut-off of each resample that lets no larger fraction of them pass."
    order = np.argsort(-scores)
    values = []
    for rate, drawn in zip(rates, counts):
        passing_counts = np.cumsum(drawn[order])
        quota = passing_counts.dtype.type(rate * passing_counts[-1] + 1e-9) # of its own kind, or all would be copied
        first_out = np.searchsorted(passing_counts, quota, side="right")
        value = np.nextafter(scores[order[first_out]], math.inf) if first_out < len(scores) else scores.min()
        values.append(value if passing_counts[-1] else math.nan)
    return np.array(values)


def _rates(test: PairTest, scores: np.ndarray, cut_offs: np.ndarray) -> dict[str, float]:
    """Compute the rates at a cut-off with their intervals, named as columns of `thresholds`.

    The cut-off moves with each resample."""
    counts = []
    for rows in map(np.flatnonzero, (test.labels == 0, test.labels > 0)):
        order = rows[np.argsort(-scores[rows])]
        passing = np.searchsorted(-scores[order], -cut_offs, side="right") # rows that pass in each resample
        weights = test.all_weights[:, order]
        counts.append([[row[:end].sum(), row.sum()] for row, end in zip(weights, passing)])
    (nonmatches, all_others), (matches, all_matches) = np.transpose(counts, (0, 2, 1)).astype(float)
    with np.errstate(invalid="ignore"): # nothing passes, or a class is lacking
        values = nonmatches / all_others, matches / all_matches, matches / (nonmatches + matches)
    columns = {}
    for rate, resamples in zip(RATES, values):
        columns |= _with_interval(rate, np.where(np.isnan(cut_offs), math.nan, resamples), test.units.count())
    return columns


def _with_interval(rate: str, values: np.ndarray, units: int) -> dict[str, float]:
    "Name a rate and the ends of its interval, unknown where the test itself has nothing to count."
    resamples = values[1:][np.isfinite(values[1:])]
    ends = {"low": math.nan, "high": math.nan}
    if np.isfinite(values[0]) and len(resamples) > 1:
        ends = level([values[0]], [resamples], units)
    return {rate: float(values[0]), f"{rate} low": ends["low"], f"{rate} high": ends["high"]}


def thresholds(
    tests: list[Test],
    models: dict[str, str],       # scorer -> what it is called
    in_use: float | None = None,  # the cut-off in use; None: that of 5% false positives in the base
) -> pd.DataFrame: # one row per test of pairs, model and cut-off, which is `kept` or `set again`
    """Compute what a cut-off does before and after fine-tuning.

    The rates are the fraction of the other pairs that pass, of the matches that pass, and of matches among what passes,
    each with low and high ends of its interval."""
    rows = []
    for test in tests:
        if not isinstance(test, PairTest):
            continue
        nonmatches = test.labels == 0
        counts = test.all_weights[:, nonmatches]
        base = test.scores["base"][nonmatches]
        if in_use is None:
            rates = np.full(len(counts), FALSE_POSITIVES)
            base_cut_offs = cut_offs(base, rates, counts)
        else:
            rates = counts @ (base >= in_use).astype(float) / np.maximum(1, counts.sum(1))
            base_cut_offs = np.full(len(counts), float(in_use))
        for scorer, name in models.items():
            scores = test.scores[scorer]
            cuts = {"kept": base_cut_offs}
            if scorer != "base":
                cuts["set again"] = cut_offs(scores[nonmatches], rates, counts)
            for cut, values in cuts.items():
                row = {"test": test.name, "model": name, "cut-off": cut, "threshold": float(values[0])}
                rows.append(row | _rates(test, scores, values))
    columns = ["test", "model", "cut-off", "threshold",
               *(rate + end for rate in RATES for end in ("", " low", " high"))]
    return pd.DataFrame(rows, columns=columns)


def threshold_sentence(table: pd.DataFrame) -> str: # of `thresholds`, of one test
    "Say what becomes of the cut-off."
    rows = {(row["model"], row["cut-off"]): row for row in table.to_dict("records")}
    base, tuned = rows["base", "kept"], rows["tuned", "kept"]
    moved = max(abs(tuned[rate] - base[rate]) for rate in ("recall", "false positives"))
    begin = "The threshold must change: at the base's" if moved > MUCH else "At the base's threshold"
    sentence = f"{begin} ({base['threshold']:.3f}), {passing_moved(base, tuned)}."
    adjusted = rows.get(("tuned", "set again"))
    if adjusted is None:
        return sentence
    return (f"{sentence} At {adjusted['threshold']:.3f}, {adjusted['recall']:.0%} of the matches and "
            f"{adjusted['false positives']:.1%} of the non-matches pass.")


MOVES = ("up more than 10", "up 4 to 10", "up 1 to 3", "same rank", "down 1 to 3", "down 4 to 10", "down more than 10")
# of `MOVES`, in places; a rank within a tie is half a place
EDGES = (-math.inf, -10.5, -3.5, -.5, .5, 3.5, 10.5, math.inf)


def rank_moves(tests: list[Test]) -> dict[str, dict]: # of each test of queries
    """Count how the ranks of queries moved.

    `won`, `same` and `lost` are in the metric that decides, `moves` is of the first relevant text."""
    moves_by_test = {}
    for test in tests:
        if not isinstance(test, QueryTest):
            continue
        base, tuned = (first_rank(test.levels(test.scores[model])) for model in ("base", "tuned"))
        unchanged = base == tuned # also where both are infinity, as of a text that is not ranked
        down = np.where(unchanged, 0, tuned - np.where(unchanged, 0, base))
        change = test.by_query(test.scores["tuned"], test.metric) - test.by_query(test.scores["base"], test.metric)
        moves_by_test[test.name] = {
            "won": int((change > 0).sum()), "same": int((change == 0).sum()), "lost": int((change < 0).sum()),
            "moves": dict(zip(MOVES, np.histogram(down, EDGES)[0].tolist())),
        }
    return moves_by_test
