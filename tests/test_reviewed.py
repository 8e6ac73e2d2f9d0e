"What was answered wrongly or not at all, each with the answer that is due."
import copy
import warnings
from dataclasses import replace
from importlib import resources

import made
import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from typer.testing import CliRunner

from debias_nb import itvreg as itvreg_module
from debias_nb.encoders import embed_texts, tokenise
from debias_nb.trainer import QuietTrainer, training_arguments
from debias_nb.explain import compare as comparing, evidence
from debias_nb.explain.changes import NEITHER, Test as Measured, sentence, verdicts
from debias_nb.explain.compare import STRENGTH, compare, read_method
from debias_nb.explain.diagnose import diagnose
from debias_nb.explain.models import load_model, pair_scores, same_make
from debias_nb.explain.pairs_file import PairFile, read_pairs_file
from debias_nb.explain.words import word_importance, word_pairs
from debias_nb.interventions import importance
from debias_nb.itvreg import check_same_make, hinge
from debias_nb.regularized import ITVReg, L2SP, MaskReg, OutReg, Regularized, SimCSE, WordDropout
from debias_nb.repro.cli import app
from debias_nb.scan import learn_weights
from debias_nb.stats import detectable, paired


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return str(made.table(tmp_path_factory.mktemp("models") / "table"))


# ---- compare: a trial is known again only where it is the same one

@pytest.fixture
def two_labels(tmp_path):
    "Files with a second column of labels, which says the contrary of the first."
    for i, name in enumerate(("train", "new")):
        pairs = made.some_pairs(60, i)
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
    assert rows("left", "right", "label") == read[0] == read_pairs_file(made.some_pairs(60, 1)).rows_sha256


# ---- L2-SP: a sum over all weights has a lambda of its own

def test_l2sp_without_a_strength_lets_an_encoder_learn(table):
    "On record, 1e-4 holds a table of word vectors to its base; a tenth is a thousand times that."
    assert L2SP().weight == STRENGTH["l2sp"] == read_method("l2sp").strength <= 1e-5
    assert OutReg().weight == ITVReg().weight == .1 and read_method("outreg").strength == .1


# ---- a lambda belongs to its loss

@pytest.mark.parametrize("weight, words", [(1e-4, "regularisers had at most 0."), (10., None), (0., None)])
def test_a_lambda_that_is_not_felt_is_said_once(table, tmp_path, weight, words):
    model = load_model(table).model
    pairs = made.some_pairs(60).query("label == 0")
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


# ---- diagnose: what it says where it found nothing

def noise_tests(count):
    rng = np.random.default_rng(1)
    labels = np.arange(300) % 3 == 0
    frame = pd.DataFrame({
        "left": [f"a {i}" for i in range(300)], "right": [f"b {i}" for i in range(300)], "label": labels.astype(int),
        "line": range(300)})
    tests = []
    for i in range(count):
        scores = {model: 2 * labels + rng.normal(size=300) for model in ("base", "tuned")}
        tests.append(Measured(f"test {i}", PairFile("t", frame, ""), scores))
    return tests


def test_what_would_have_been_found_knows_the_correction():
    "Of five tests the first must have a p below one in a hundred; a change of that size has, four times in five."
    rng = np.random.default_rng(0)
    error, n = .01, 10
    by_hand = paired(rng.normal(0, 1, n), np.zeros(n))
    seen = detectable(replace(by_hand, error=error, freedom=n - 1.), comparisons=5)
    found = [paired(rng.normal(seen, error * n**.5, n), np.zeros(n)).p < .05 / 5 for _ in range(2000)]
    assert .74 < np.mean(found) < .84
    tests = noise_tests(5)
    assert verdicts(tests).found[0] > 1.1 * verdicts(tests[:1]).found[0]


def test_nothing_found_is_no_difference_nowhere():
    tests = noise_tests(2)
    said = [sentence(row) for row in verdicts(tests).itertuples()]
    assert all("no change beyond noise" in text and "found four times in five" in text for text in said)
    (same,) = noise_tests(1)
    same.scores["tuned"] = 2 * same.scores["base"]
    alike = sentence(next(verdicts([same]).itertuples()))
    assert "both models rank matches alike" in alike and "would have been found" not in alike
    template = resources.files("debias_nb.explain").joinpath("diagnosis.html.j2").read_text("utf-8")
    assert not any("no difference" in text.casefold() for text in (*said, alike, template, NEITHER))


def test_the_command_refuses_the_same_model_twice(table, tmp_path):
    made.some_pairs(60).to_csv(tmp_path / "pairs.csv", index=False)
    named = ["--train", str(tmp_path / "pairs.csv"), "--test", f"new={tmp_path / 'pairs.csv'}"]
    done = CliRunner().invoke(app, ["diagnose", "--base", table, "--tuned", table, *named])
    said = " ".join(done.output.split())
    assert done.exit_code == 2 and f"base ({table}) and tuned ({table}) are the same model" in said


# ---- one text in the place of a list, and texts in the place of tokens

def test_one_text_is_no_list_of_letters(table, tmp_path):
    scorer = load_model(table)
    bert = made.load(made.bert(tmp_path / "bert"))
    for call in (
        lambda: embed_texts(scorer.model, "red lamp"),
        lambda: embed_texts(bert, "red lamp"),
        lambda: tokenise(bert, "red lamp"),
        lambda: importance(scorer.model, "red lamp"),
        lambda: word_importance(scorer, "red lamp"),
        lambda: pair_scores({"it": scorer}, "red lamp", ["red lamp"]),
    ):
        with pytest.raises(ValueError, match=r"is one text: a list is needed, \['red lamp'\]"):
            call()
    with pytest.raises(ValueError, match="2 texts on the left and 1 on the right"):
        pair_scores({"it": scorer}, ["red", "lamp"], ["red lamp"])
    assert len(embed_texts(scorer.model, ("red lamp", "table", "red lamp"))) == 3


def test_importance_takes_texts(table, tmp_path):
    texts = ["red lamp", "the old table with kettles"]
    for model in (load_model(table).model, made.load(made.bert(tmp_path / "bert"))):
        of_texts = importance(model, texts).values
        assert torch.equal(of_texts.nan_to_num(), importance(model, tokenise(model, texts)).values.nan_to_num())


# ---- what silently gave nan or 0

@pytest.mark.parametrize("name, value", [
    ("temperature", 0.), ("temperature", -1.), ("temperature", float("nan")), ("hardest", 0), ("hardest", 1.5), ("margin", 0.),
    ("margin", -.3), ("margin", float("nan"))])
def test_the_hinge_names_the_setting_out_of_range(name, value):
    vectors = torch.nn.functional.normalize(torch.randn(4, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    relevant = torch.eye(4, dtype=torch.bool)
    with pytest.raises(ValueError, match=f"^{name} must .* got {value}"):
        hinge(vectors, vectors, relevant, **{name: value})
    assert 0 < hinge(vectors, vectors, relevant, margin=1., hardest=100, temperature=None) < 3


def test_settings_that_are_no_numbers_or_switch_a_term_off(table):
    for call, message in (
        (lambda: MaskReg(float("nan")), r"weight \(lambda\)"),
        (lambda: SimCSE(token_dropout=0.), r"token_dropout must lie in \(0, 1\), got 0"),
        (lambda: SimCSE(token_dropout=1.), r"token_dropout must lie in \(0, 1\), got 1"),
        (lambda: learn_weights(torch.randn(20, 3), generator=torch.Generator(), lr=float("nan")), r"lr must lie in \(0, inf\), got nan"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_each_regulariser_cites_its_own_source():
    assert "iyyer2015deep" in WordDropout(.5).citation and "2210.10636" not in WordDropout(.5).citation
    assert "2210.10636" in ITVReg().citation and "li2018explicit" in L2SP().citation


def test_one_name_means_one_thing(table):
    model = load_model(table)
    other = load_model(made.without_a_vector_for_the_unknown())
    assert same_make(model, model) is True and same_make(model, other) is False
    assert not hasattr(itvreg_module, "same_make") and check_same_make(model.model, copy.deepcopy(model.model)) is None
    with pytest.raises(ValueError, match="different tokenizers"):
        check_same_make(model.model, other.model)


# ---- what is chosen on the tests says so

def test_a_choice_made_on_the_tests_says_so(table, two_labels, tmp_path):
    found = compared(table, two_labels, "label")
    for text in (found.html(), found.json()):
        assert "was chosen on these tests" in text and "confirm it on other data" in text
    tuned = load_model(made.table(tmp_path / "other", seed=1))
    told = diagnose(table, tuned, two_labels / "train.csv", {"new": two_labels / "new.csv"}, progress=False)
    for text in (told.html(), told.json()):
        assert "was chosen on these tests" in text and "confirm it on other data" in text
