"The estimate of a question, from the records of titles: computed again, in a few lines that share no code with it."
import math

import numpy as np
import pytest
from scipy import stats

from debias_nb.measures.pooling import estimate
from debias_nb.papers.pages.compare import differences
from debias_nb.papers.pages.frame import Results

RESULTS = Results()


def by_hand(runs, method, against, shift):
    "Mean over encoders and tests; seeds add up test by test, items over the encoders that share a test."
    means, of_seeds, of_items = [], [], {}
    for (encoder, test), own in runs[runs["shift"] == shift].groupby(["encoder", "test"]):
        sides = [own[(own.method == name) & ~own.further].set_index("seed") for name in (method, against)]
        seeds = sorted(set(sides[0].index) & set(sides[1].index))
        values, resampled = ([side.loc[seeds, name] for side in sides] for name in ("value", "resampled"))
        gaps = (values[0] - values[1]).to_numpy()
        means.append(gaps.mean())
        of_seeds.append((gaps.var(ddof=1) / len(gaps), len(gaps) - 1))
        of_items.setdefault(test, []).append(np.mean([a - b for a, b in zip(*resampled)], 0))
    items = sum(np.sum(of_encoders, 0).var(ddof=1) for of_encoders in of_items.values())
    seeds = sum(variance for variance, _ in of_seeds)
    error = math.sqrt(seeds + items)
    freedom = error**4 / (sum(variance**2 / df for variance, df in of_seeds) + items**2 / 99)
    half = stats.t.ppf(.975, freedom) * error / len(means)
    return np.mean(means), np.mean(means) - half, np.mean(means) + half, freedom


@pytest.mark.parametrize("name, table, ending", [
    ("itvreg/table02", "table2", ""), ("itvreg/title_losses", "title_losses", ""),
    ("itvreg/title_losses", "title_losses", ", NGAME"),
])
@pytest.mark.parametrize("shift", ["ood", "iid"])
def test_all_rows_of_titles(name, table, ending, shift):
    runs = RESULTS.load(name, "small")[table]
    rows = differences(runs)
    methods = [method + ending for method in ("ITVReg", "OutReg", "MaskReg", "SimCSE")]
    present = [method for method in methods if method in set(rows.method)]
    assert present
    for method in present:
        own = rows[(rows.method == method) & (rows["shift"] == shift)]
        mean = estimate([*own.paired])
        assert mean.n == 6
        expected = by_hand(runs, method, "Finetuned" + ending, shift)
        assert (mean.difference, mean.low, mean.high, mean.freedom) == pytest.approx(expected)


def test_metrics_of_one_training_are_no_further_trainings():
    "MAP, MRR and P@1 of the same runs on the same questions: together about as uncertain as one of them."
    rows = differences(RESULTS.load("scan/table02", "small")["table2"], "Finetuned, weighted")
    own = rows[(rows.method == "SCAN, weighted") & rows.test.isin(["MAP", "MRR", "P@1"])]
    assert len(own) == 3
    together, alone = estimate([*own.paired]), [estimate([one]) for one in own.paired]
    assert together.error > .8 * np.mean([one.error for one in alone])
    assert together.seeds_freedom == alone[0].seeds_freedom
