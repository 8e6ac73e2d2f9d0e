"Comparisons with another loss than least squares."
import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from sentence_transformers.base.sampler import DefaultBatchSampler
from torch.utils.data import RandomSampler

from debias_nb.checks import ConfigError
from debias_nb.settings import EncoderConfig, PretrainConfig
from debias_nb.encoders.planted import planted_encoder
from debias_nb.explain.compare import compare
from debias_nb.explain.programs import LOSSES, OF_MATCHES
from debias_nb.explain.methods import settings_for, training_rows
from debias_nb.data.pairs_file import read_pairs_file
from debias_nb.trainer import ApartMatches
from made import WORLD

WORDS = ["kettle", "teapot", "lamp", "chair", "cup", "stool", "torch", "mug"]


def frame():
    "Pairs of words, of which each second one is a match."
    rows = []
    for i in range(40):
        left, right = WORDS[i % len(WORDS)], WORDS[(i + i // len(WORDS)) % len(WORDS)]
        rows.append({"left": f"red {left} {i}", "right": f"blue {right} {i}", "label": 1 - i % 2})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def model():
    recipe = PretrainConfig(steps=60, batch_size=64, learning_rate=2e-2)
    return planted_encoder(EncoderConfig(name="tiny-static", kind="static", world=WORLD, pretrain=recipe))


@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_trains_bare_and_with_a_regularizer(model, loss):
    found = compare(
        model, frame(), {"iid": frame()}, methods="plain,outreg:10", seeds=2, epochs=1, batch_size=8, progress=False,
        loss=loss)
    scores = found.scores.query("metric == 'auc05'")
    assert len(scores) == 4 and np.isfinite(scores.value).all()
    assert f"import {loss}" in found.snippet() and loss in found.html()


def test_matches_alone_are_learned_from_where_a_loss_takes_no_labels():
    pairs = read_pairs_file(frame())
    rows = training_rows(pairs, OF_MATCHES[0])
    assert rows.column_names == ["left", "right"] and len(rows) == 20
    assert rows["left"][0] == pairs.left[0]
    assert training_rows(pairs, "CoSENTLoss").column_names == ["left", "right", "label"]


def test_another_loss_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'CoSENTLoss'"):
        settings_for("static", loss="CoSENTLos")


MATCHES = [(f"q{i}", f"a{i} {k}") for i in range(6) for k in range(4)] # each text on the left has four
MATCHES += [("a0 0", "b0"), ("q1", "b0"), *((f"left {i}", f"right {i}") for i in range(14))]


def falsely_negative(batch):
    "Texts of a batch that stand there as a negative of themselves or of one of their matches."
    together = {frozenset(pair) for pair in MATCHES}
    rows = [MATCHES[row] for row in batch]
    return [(left, other) for left, right in rows for _, other in rows
            if other != right and (left == other or frozenset((left, other)) in together)]


def test_no_batch_of_a_ranking_loss_has_a_match_as_a_negative():
    data = Dataset.from_list([{"left": left, "right": right} for left, right in MATCHES])
    settings = {"batch_size": 4, "drop_last": False, "generator": torch.Generator()}
    sampler = ApartMatches(data, **settings, seed=0)
    epochs = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert not any(map(falsely_negative, batches))
        assert sorted(row for batch in batches for row in batch) == list(range(len(MATCHES))) and len(batches) == len(sampler) == 10
        epochs.append(batches)
    assert epochs[0] != epochs[1] and sampler.shared == 26
    by_chance = DefaultBatchSampler(RandomSampler(data, generator=torch.Generator()), **settings, seed=0)
    assert any(map(falsely_negative, by_chance)), "such matches would meet"


def test_a_text_with_more_matches_than_there_are_batches_waits():
    data = Dataset.from_list([{"left": "one", "right": str(i)} for i in range(9)])
    batches = list(ApartMatches(data, batch_size=3, drop_last=False, generator=torch.Generator(), seed=0))
    assert [len(batch) for batch in batches] == [1, 1, 1]


def test_comparisons_keep_matches_apart_and_say_so(model, monkeypatch):
    made = []
    monkeypatch.setattr(ApartMatches, "__iter__", lambda self: made.append(1) or iter([list(range(len(self.left)))[:8]]))
    pairs = frame()
    pairs.loc[2, "left"] = pairs.left[0]
    found = compare(
        model, pairs, {"iid": pairs}, methods="plain,base", seeds=2, epochs=1, batch_size=8, progress=False, loss=OF_MATCHES[0])
    assert made and "2 of 20 matches in training share a text with another one" in found.html()
    assert "batch_sampler=ApartMatches" in found.snippet()
    made.clear()
    compare(model, pairs, {"iid": pairs}, methods="plain,base", seeds=2, epochs=1, batch_size=8, progress=False)
    assert not made
