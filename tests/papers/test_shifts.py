"What pages say of a new kind of text, on runs that are made here."
import numpy as np
import pandas as pd
import pytest

from debias_nb.measures.prediction import log_odds, points_at
from debias_nb.papers.pages.frame import RUN_COLUMNS, Results, only
from debias_nb.papers.pages.shifts import changes, in_log_odds, over_sets, prediction_of
from debias_nb.runs.pairing import Made

TRAINING = ("quora", "askubuntu", "news")
BASE = {"quora": 5., "askubuntu": 6., "news": 7., "first": 5.5, "second": 6.5, "third": 7.5, "far": 40., "farther": 45.}


def runs(effect, seeds=4, draws=40):
    "Runs of the base encoder and of plain fine-tuning, which changes the log-odds of all other tests by the same."
    rng = np.random.default_rng(0)
    rows = []

    def add(method, corpus, test, seed, change, sample):
        place = {"encoder": "small", "corpus": corpus, "evaluate": test, "test": f"{corpus} -> {test}",
                 "method": method, "shift": "iid" if corpus == test else "ood", "family": method, "metric": "auc05",
                 "unit": "percent", "table": "made"}
        run = {"key": (None, seed), "value": BASE[test] + change, "resampled": BASE[test] + change + sample,
               "made": Made("made here", "one"), "clean": True}
        rows.append(dict.fromkeys(RUN_COLUMNS) | place | run
                    | {"overlap": 0., "complete": True, "further": False, "against": "Base"})

    for corpus in TRAINING:
        for test in BASE:
            sample = .1 * rng.standard_normal(draws)
            add("Base", corpus, test, None, 0., sample)
            change = 10. if corpus == test else points_at(BASE[test], effect)
            for seed in range(seeds):
                add("Finetuned", corpus, test, seed, change + .1 * rng.standard_normal(),
                    sample + .02 * rng.standard_normal(draws))
    return pd.DataFrame(rows, columns=RUN_COLUMNS)


def test_a_change_carries_over_to_a_higher_base_in_log_odds():
    shifts = changes(runs(effect=.8))
    low, high_bases = (only(shifts, shift="ood").query(rows) for rows in ("base < 10", "base > 10"))
    in_odds = prediction_of(in_log_odds(low), Results())["sentences"].cdf(in_log_odds(high_bases).difference, .02)
    assert len(high_bases) == 6 and ((in_odds > .025) & (in_odds < .975)).all()


def test_the_interval_of_a_fraction_is_over_training_sets():
    plain, regularized_losses = np.array([10., 12., 9., 11.]), np.array([9., 10.8, 8.1, 5.])
    fractions = [np.delete(regularized_losses, number).sum() / np.delete(plain, number).sum() for number in range(4)]
    low, high = over_sets(regularized_losses.sum() / plain.sum(), fractions)
    assert low < .65 and high > 1 and fractions[3] == pytest.approx(.9)
    assert over_sets(.9, [.9] * 5) == pytest.approx((.9, .9))
    assert over_sets(.8, [.95, .95, .95])[1] == pytest.approx(.95)
    assert over_sets(.5, [.5, -.1])[0] > 0, "a negative fraction is as small as one gets"
    assert log_odds(0) == log_odds(.1) and np.isfinite(log_odds([0, 100])).all()
