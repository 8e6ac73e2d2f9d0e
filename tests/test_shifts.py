"What pages say of a new kind of text, on runs that are made here."
import numpy as np
import pandas as pd
import pytest

from debias_nb.measures.prediction import covariance_of, predict
from debias_nb.repro.pages.frame import COLUMNS, only
from debias_nb.repro.pages.shifts import OFFERS, changes, is_loss_excluded, left_out, predictions
from debias_nb.runs.pairing import Made

TRAINING = ("quora", "askubuntu", "news")
TESTS = ("quora", "askubuntu", "news", "tweets", "computers", "shoes", "cameras")
GAIN = 10. # on the own test, of plain fine-tuning


def runs(scatter, kept, seeds=4, draws=40):
    "Runs of the base encoder and of a method each scatter, whose changes on other tests scatter so much."
    rng = np.random.default_rng(0)
    rows = []

    def add(method, corpus, test, seed, change, sample):
        where = {"encoder": "small", "corpus": corpus, "evaluate": test, "test": f"{corpus} -> {test}", "method": method}
        where |= {"shift": "iid" if corpus == test else "ood", "family": method, "metric": "auc05", "unit": "percent", "table": "made"}
        run = {"key": (None, seed), "value": 50 + change, "resampled": 50 + change + sample, "made": Made("made here", "one"), "clean": True}
        rows.append(dict.fromkeys(COLUMNS) | where | run | {"overlap": 0., "complete": True, "further": False, "against": "Base"})

    for corpus in TRAINING:
        for test in TESTS:
            sample = rng.standard_normal(draws)
            add("Base", corpus, test, None, 0., sample)
            effect = rng.standard_normal()
            for method, sd in scatter.items():
                mean = kept[method] * GAIN if corpus == test else sd * effect
                for seed in range(seeds):
                    add(method, corpus, test, seed, mean + .1 * rng.standard_normal(), sample + .2 * rng.standard_normal(draws))
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.fixture(scope="module")
def found():
    return changes(runs({"Finetuned": 6., "Held": 1.}, {"Finetuned": 1., "Held": .9}))


def test_changes_are_differences_from_the_base_seed_by_seed(found):
    assert len(found) == 2 * len(TRAINING) * len(TESTS)
    assert np.allclose(found.seeds.map(np.mean), found.difference)
    assert set(found[found.evaluate.isin(OFFERS)].kind) == {"offers"}
    assert set(found[~found.evaluate.isin(OFFERS)].kind) == {"sentences"}
    assert np.allclose(only(found, method="Finetuned", shift="iid").difference, GAIN, atol=.3)


def test_what_scatters_less_is_predicted_in_a_shorter_range(found):
    new = predictions(found).set_index(["kind", "method"])
    assert len(new) == 4 and (new.shifts.groupby("kind").first() == pd.Series({"offers": 9, "sentences": 9})).all()
    for kind in ("offers", "sentences"):
        plain, held = new.loc[kind, "Finetuned"], new.loc[kind, "Held"]
        assert held.high - held.low < .7 * (plain.high - plain.low)
        assert plain.kept == 1 and held.kept == pytest.approx(.9, abs=.02)
        assert plain.worse > held.worse
        assert plain.low < plain["mean"] < plain.high
    own = only(found, method="Held", kind="offers", shift="ood")
    covariance = covariance_of(np.stack(own.seeds), np.stack(own.resampled), own.corpus, own.evaluate)
    alone = predict(own.difference, covariance, own.corpus, own.evaluate)
    row = new.loc["offers", "Held"]
    assert (row.low, row.high) == alone.interval() and row.sd == alone.sd


def test_each_test_and_each_training_set_is_left_out_once(found):
    tried = left_out(found)
    assert tried.groupby(["method", "kind", "left out"]).cases.sum().tolist() == [9] * 8
    assert tried.held.sum() / tried.cases.sum() > .85
    far = found.copy()
    is_far = (far.evaluate == "tweets") & (far.method == "Held")
    far.loc[is_far, "difference"] += 300
    missed = only(left_out(far), name="tweets", method="Held")
    assert missed.held.sum() == 0 and missed.cases.sum() == len(TRAINING)


def test_a_loss_is_excluded_where_the_interval_lies_above_it(found):
    own = only(found, method="Held", shift="ood")
    for loss in (1, 2, 5):
        assert is_loss_excluded(own, loss)[own.difference > 1 - loss].all()
        assert not is_loss_excluded(own, loss)[own.difference < -loss].any()
