"Comparisons with another loss than least squares."
import numpy as np
import pandas as pd
import pytest

from debias_nb.config import ConfigError, EncoderConfig, PretrainConfig
from debias_nb.data.planted_encoder import planted_encoder
from debias_nb.explain import compare as comparing
from debias_nb.explain.compare import compare, read_method, settings_for, training_rows
from debias_nb.explain.diagnose import LOSSES, OF_MATCHES
from debias_nb.explain.pairs_file import read_pairs_file
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
def test_each_loss_trains_bare_and_with_a_regulariser(model, loss):
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


def test_another_loss_is_another_trial():
    ids = set()
    for loss in ("CosineSimilarityLoss", "CoSENTLoss"):
        settings = settings_for("static", loss=loss)
        ids.add(comparing.trial_id("base", read_pairs_file(frame()), {}, read_method("plain"), settings, 0))
    assert len(ids) == 2


