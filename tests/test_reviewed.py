"What was answered wrongly or not at all, each with the answer that is due."
import copy
import warnings

import made
import numpy as np
import pandas as pd
import pytest
from datasets import Dataset
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from debias_nb.encoders import QuietTrainer, training_arguments
from debias_nb.explain import compare as comparing, evidence
from debias_nb.explain.changes import Test as Measured
from debias_nb.explain.compare import STRENGTH, compare, read_method
from debias_nb.explain.models import load_model
from debias_nb.explain.pairs_file import PairFile, read_pairs_file
from debias_nb.explain.words import word_pairs
from debias_nb.itvreg import L2SPLoss
from debias_nb.regularized import ITVReg, L2SP, OutReg, Regularized


def some_pairs(n=60, seed=0):
    "Random pairs of the vocabulary of `made`; each third one is a match."
    rng = np.random.default_rng(seed)
    words = [word for word in made.WORDS if word.isalpha()]

    def texts():
        return [" ".join(rng.choice(words, size=4)) for _ in range(n)]

    left = texts()
    label = np.arange(n) % 3 == 0
    right = [one if same else other for one, other, same in zip(left, texts(), label)]
    return pd.DataFrame({"left": left, "right": right, "label": label.astype(int)})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return str(made.table(tmp_path_factory.mktemp("models") / "table"))


# ---- compare: a trial is known again only where it is the same one

@pytest.fixture
def two_labels(tmp_path):
    "Files with a second column of labels, which says the contrary of the first."
    for i, name in enumerate(("train", "new")):
        pairs = some_pairs(seed=i)
        pairs.assign(label2=1 - pairs.label).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def compared(table, files, label):
    return compare(
        table, files / "train.csv", {"new": files / "new.csv"}, ("left", "right", label), "base,plain", seeds=2, epochs=1,
        folder=files / "out", progress=False)


def test_other_columns_of_the_same_file_are_other_trials(table, two_labels, monkeypatch):
    first = compared(table, two_labels, "label")
    second = compared(table, two_labels, "label2")
    assert not np.allclose(first.scores.value, second.scores.value)
    monkeypatch.setattr(comparing, "fine_tune", lambda *_: pytest.fail("trained again"))
    again = compared(table, two_labels, "label2")
    pd.testing.assert_frame_equal(second.scores, again.scores)


@pytest.mark.parametrize("package", ["debias-nb", "torch", "transformers", "sentence-transformers"])
def test_another_version_is_another_trial(table, two_labels, monkeypatch, package):
    compared(table, two_labels, "label")
    found = comparing.versions() | {package: "0.0.0"}
    monkeypatch.setattr(comparing, "versions", lambda: found)
    compared(table, two_labels, "label")
    assert len((two_labels / "out/trials.jsonl").read_text("utf-8").splitlines()) == 6


def test_rows_are_told_by_what_was_read(two_labels):
    def rows(*columns, group=None):
        return read_pairs_file(two_labels / "new.csv", columns, group).rows_sha256

    read = [rows("left", "right", "label"), rows("right", "left", "label"), rows("left", "right", "label2"),
            rows("left", "right", "label", group="label2")]
    assert len(set(read)) == 4
    assert rows("left", "right", "label") == read[0] == read_pairs_file(some_pairs(seed=1)).rows_sha256


# ---- L2-SP: a sum over all weights has a lambda of its own

def test_l2sp_without_a_strength_lets_an_encoder_learn(table):
    "On record, 1e-4 holds a table of word vectors to its base; a tenth is a thousand times that."
    assert L2SP().weight == STRENGTH["l2sp"] == read_method("l2sp").strength <= 1e-5
    model = load_model(table).model
    assert L2SPLoss(model, copy.deepcopy(model)).weight == L2SP().weight
    assert OutReg().weight == ITVReg().weight == .1 and read_method("outreg").strength == .1


# ---- a lambda belongs to its loss

@pytest.mark.parametrize("weight, words", [(1e-4, "regularisers had at most 0."), (10., None), (0., None)])
def test_a_lambda_that_is_not_felt_is_said_once(table, tmp_path, weight, words):
    model = load_model(table).model
    pairs = some_pairs().query("label == 0")
    columns = {"anchor": pairs.left.tolist(), "positive": pairs.right.tolist()}
    loss = Regularized(model, MultipleNegativesRankingLoss(model), [OutReg(weight), ITVReg(weight)])
    args = training_arguments(str(tmp_path), max_steps=104, per_device_train_batch_size=16, learning_rate=2e-2, use_cpu=True)
    trainer = QuietTrainer(model=model, args=args, train_dataset=Dataset.from_dict(columns), loss=loss)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.train()
    said = [str(one.message) for one in caught if "100 steps" in str(one.message)]
    assert len(said) == (words is not None) and (words or "") in "".join(said)


# ---- diagnose: a shortcut costs the tuned model more than it costs the base

@pytest.mark.parametrize("gain, named", [(0., True), (2.5, False)])
def test_a_shortcut_is_what_the_tuned_model_alone_is_better_without(monkeypatch, gain, named):
    "gain: of the base when the same words are dropped."
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 4 == 0
    frame = pd.DataFrame({
        "left": [f"red {i}" for i in range(600)], "right": [f"red {i}" for i in range(600, 1200)],
        "label": labels.astype(int), "line": range(600)})
    noise = {model: rng.normal(size=600) for model in ("base", "tuned")}
    test = Measured("new", PairFile("new", frame, ""), {model: .3 * labels + noise[model] for model in noise})
    now = {"base": (.3 + gain) * labels + noise["base"], "tuned": 2.8 * labels + noise["tuned"]}
    monkeypatch.setattr(evidence, "_rescored", lambda *_: (np.arange(600), now))
    pairs = word_pairs(test.left, test.right, test.labels)
    (row,) = evidence.shortcuts([test], {"base": None, "tuned": None}, pairs, {"new": pairs}, ["red"]).to_dict("records")
    assert row["low"] > 0 and row["more"] == pytest.approx(row["change"] - row["base change"])
    assert row["shortcut"] == named == (row["more low"] > 0)
