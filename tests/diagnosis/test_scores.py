"Cut-offs before and after fine-tuning, and ranks that moved."
import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from scipy.special import ndtr, ndtri

from debias_nb.diagnosis.pairs import PairFile
from debias_nb.diagnosis.scores import cut_offs, rank_moves, thresholds
from debias_nb.diagnosis.test_sets import as_test

MODELS = {"base": "base", "tuned": "tuned"}


@pytest.fixture(scope="module")
def made_up():
    "400 pairs, a quarter of them matches, whose scores rise by .25 and spread less."
    rng = default_rng(0)
    labels = (np.arange(400) % 4 == 0).astype(int)
    frame = pd.DataFrame({"left": [f"a {i}" for i in range(400)], "right": [f"b {i}" for i in range(400)],
                          "label": labels})
    frame["line"] = np.arange(400) + 2
    base = .4 + .25 * labels + .12 * rng.normal(size=400)
    tuned = .65 + .25 * labels + .08 * rng.normal(size=400)
    return as_test("new", PairFile("new", frame, ""), {"base": base, "tuned": tuned})


def test_a_cut_off_that_is_kept_lets_more_through_and_one_set_again_finds_more_matches(made_up):
    of = thresholds([made_up], MODELS).set_index(["model", "cut-off"])
    assert (made_up.scores["base"][made_up.labels == 0] >= of.threshold["base", "kept"]).mean() == .05
    assert of["false positives"]["tuned", "kept"] > .5 and of.recall["tuned", "set again"] > of.recall["base", "kept"]


def test_the_lowest_cut_off_that_lets_no_more_through():
    assert cut_offs(np.array([.1, .3, .2]), [.5], np.array([[1, 0, 3]])) > .2
    assert np.isnan(cut_offs(np.array([.1]), [.5], np.array([[0]])))
    assert cut_offs(np.array([.1, .2, .2, .3]), [.5], np.ones((1, 4))) > .2
    assert cut_offs(np.array([.1, .2]), [1], np.ones((1, 2))) == .1


def test_intervals_hold_the_true_recall_as_often_as_they_say():
    "Next to them those at a cut-off that stays where the test has put it: they know nothing of how uncertain it is."
    matches = np.arange(300) % 2 == 0
    pairs = pd.DataFrame({side: [f"{side} {i}" for i in range(300)] for side in ("left", "right")}
                         | {"label": matches.astype(int)})
    right = ndtr(2 - ndtri(.95))
    covered = {"moved": [], "left where it is": []}
    for seed in range(150):
        base, tuned = 2 * matches + default_rng([seed, 300]).normal(size=(2, 300))
        sample = as_test("new", PairFile("new", pairs, ""), {"base": base, "tuned": tuned})
        for how, cut in (("moved", None), ("left where it is", cut_offs(base[~matches], [.05], np.ones((1, 150)))[0])):
            rows = thresholds([sample], MODELS, cut).set_index(["model", "cut-off"])
            places = [("base", "kept"), ("tuned", "set again")][: 2 if cut is None else 1]
            covered[how] += [rows["recall low"][at] < right < rows["recall high"][at] for at in places]
    assert np.mean(covered["moved"]) > .92 and np.mean(covered["left where it is"]) < .8


def test_a_given_cut_off_holds_for_all_tests(made_up):
    of = thresholds([made_up], MODELS, in_use=.6).set_index(["model", "cut-off"])
    assert abs(of["false positives"]["tuned", "set again"] - of["false positives"]["base", "kept"]) < .03


def test_every_query_won_lost_or_stayed():
    rng = default_rng(1)
    frame = pd.DataFrame({"query": np.arange(60).repeat(5), "left": [f"q {i}" for i in np.arange(60).repeat(5)],
                          "right": [f"d {i}" for i in range(300)], "label": np.tile([1, 0, 0, 0, 0], 60),
                          "line": np.arange(300) + 2})
    noise = {"base": 1., "tuned": 2.}
    scores = {model: frame.label.to_numpy() + noise[model] * rng.normal(size=300) for model in noise}
    queries = as_test("candidates", PairFile("candidates", frame, "", form="candidates"), scores)
    moved = rank_moves([queries])["candidates"]
    assert moved["won"] + moved["same"] + moved["lost"] == sum(moved["moves"].values()) == 60
