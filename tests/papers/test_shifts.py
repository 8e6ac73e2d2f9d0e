"What pages say of a new kind of text, on runs that are made here."
import numpy as np
import pandas as pd
import pytest

from debias_nb.measures.prediction import log_odds, points_at
from debias_nb.papers.pages.frame import RUN_COLUMNS, Results, only
from debias_nb.papers.pages.shifts import OFFERS, changes, in_log_odds, over_sets, prediction_of, predictions
from debias_nb.runs.pairing import Made

TRAINING = ("quora", "askubuntu", "news")
TESTS = ("quora", "askubuntu", "news", "tweets", "computers", "shoes", "cameras")
GAIN = 10. # on the own test, of plain fine-tuning


def runs(scatter, shares, seeds=4, draws=40, base=dict.fromkeys(TESTS, 50.), effect=None, noise=1.):
    """Runs of the base encoder and of a method each scatter, whose changes on other tests scatter so much.

    `effect` is a change in log-odds, the same on all other tests."""
    rng = np.random.default_rng(0)
    rows = []

    def add(method, corpus, test, seed, change, sample):
        place = {"encoder": "small", "corpus": corpus, "evaluate": test, "test": f"{corpus} -> {test}",
                 "method": method}
        place |= {"shift": "iid" if corpus == test else "ood", "family": method, "metric": "auc05", "unit": "percent",
                  "table": "made"}
        run = {"key": (None, seed), "value": base[test] + change, "resampled": base[test] + change + sample,
               "made": Made("made here", "one"), "clean": True}
        rows.append(dict.fromkeys(RUN_COLUMNS) | place | run
                    | {"overlap": 0., "complete": True, "further": False, "against": "Base"})

    for corpus in TRAINING:
        for test in base:
            sample = noise * rng.standard_normal(draws)
            add("Base", corpus, test, None, 0., sample)
            place = rng.standard_normal()
            for method, sd in scatter.items():
                elsewhere = sd * place if effect is None else points_at(base[test], effect)
                mean = shares[method] * GAIN if corpus == test else elsewhere
                for seed in range(seeds):
                    add(method, corpus, test, seed, mean + .1 * rng.standard_normal(),
                        sample + .2 * noise * rng.standard_normal(draws))
    return pd.DataFrame(rows, columns=RUN_COLUMNS)


@pytest.fixture(scope="module")
def shifts_found():
    return changes(runs({"Finetuned": 6., "Held": 1.}, {"Finetuned": 1., "Held": .9}))


def test_changes_are_differences_from_the_base_seed_by_seed(shifts_found):
    assert len(shifts_found) == 2 * len(TRAINING) * len(TESTS)
    assert np.allclose(shifts_found.seeds.map(np.mean), shifts_found.difference)
    assert set(shifts_found[shifts_found.evaluate.isin(OFFERS)].kind) == {"offers"}
    assert set(shifts_found[~shifts_found.evaluate.isin(OFFERS)].kind) == {"sentences"}
    assert np.allclose(only(shifts_found, method="Finetuned", shift="iid").difference, GAIN, atol=.3)


def test_what_scatters_less_is_predicted_in_a_shorter_range(shifts_found):
    new = predictions(shifts_found, Results()).set_index(["kind", "method"])
    assert len(new) == 4 and set(new.trained_on) == {"sentences"} and new["mean"].between(new.low, new.high).all()
    widths = new.high - new.low
    for kind in ("offers", "sentences"):
        assert widths[kind, "Held"] < .7 * widths[kind, "Finetuned"]


def test_a_change_carries_over_to_a_higher_base_in_log_odds():
    base = {"quora": 5., "askubuntu": 6., "news": 7., "first": 5.5, "second": 6.5, "third": 7.5, "far": 40.,
            "farther": 45.}
    shifts = changes(runs({"Finetuned": 0.}, {"Finetuned": 1.}, base=base, effect=.8, noise=.1))
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
