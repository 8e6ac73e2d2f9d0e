"What practitioners do against forgetting, as settings of runs: fewer layers, adapters, other losses beside the loss."
import copy
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.losses import GlobalOrthogonalRegularizationLoss

from debias_nb.checks import ConfigError, EncoderError
from debias_nb.settings import EncoderConfig, WorldConfig
from debias_nb.data.worlds import Catalog
from debias_nb.encoders.loading import load_encoder
from debias_nb.losses.averaging import wise_ft
from debias_nb.runs.settings import PairMethod, PairTraining
from dry import stand_in
from debias_nb.runs.pair_batches import ranking_tokens
from debias_nb.runs.training import GOR, fine_tune

TINY = stand_in(EncoderConfig(name="minilm", kind="transformer"))
STATIC = stand_in(EncoderConfig(name="potion-base-2M", kind="static"))
TEXTS = ["kuzmal fezbum gozbok", "lazgan"]


# frozen layers

WORLD = WorldConfig(types=12, unseen_types=4, train_pairs=60, broad_pairs=100)


def train(base, seed=0, **method):
    "An encoder after an epoch of ranking on duplicates of planted texts."
    left, right = Catalog(WORLD).labeled_pairs().texts()
    columns = [left[:32], right[:32]]
    tokens = ranking_tokens(base, columns, np.arange(32)[:, None])
    model = copy.deepcopy(base)
    settings = PairTraining(loss="ranking", learning_rate=1e-2, epochs=1, batch_size=8)
    course = fine_tune(model, base, tokens, PairMethod(name="x", **method), settings, seed)
    assert all(weight.requires_grad for weight in model.parameters())
    return model, course


def moved_weights(base, model):
    "Names of the weights that training has changed."
    start = base.state_dict()
    return {name for name, weight in model.state_dict().items() if not weight.equal(start[name])}


@pytest.fixture(scope="module")
def tiny():
    return load_encoder(TINY)


@pytest.mark.parametrize("count", [0, 1])
def test_frozen_layers_and_the_embeddings_below_them_stay_as_they_are(tiny, count):
    plain, frozen = moved_weights(tiny, train(tiny)[0]), moved_weights(tiny, train(tiny, frozen_layers=count)[0])
    lower_layers = {name for name in plain if ".embeddings." in name
                    or any(f".layer.{place}." in name for place in range(count))}
    assert lower_layers and frozen == plain - lower_layers and any(".layer.1." in name for name in frozen)


def test_layers_that_cannot_be_frozen_are_refused(tiny):
    with pytest.raises(EncoderError, match="`frozen_layers` is 3, and the encoder has 2 layers"):
        train(tiny, frozen_layers=3)
    with pytest.raises(ConfigError, match="`frozen_layers` is 2: those are all layers"):
        train(tiny, frozen_layers=2)
    with pytest.raises(EncoderError, match="`frozen_layers` belongs to transformers"):
        train(load_encoder(STATIC), frozen_layers=1)


# adapters

def test_adapters_are_merged_into_the_weights_beside_which_they_stood(tiny):
    model, _ = train(tiny, lora={"rank": 4})
    assert model.state_dict().keys() == tiny.state_dict().keys()
    changes = moved_weights(tiny, model)
    assert len(changes) == 4 and all(name.endswith(("query.weight", "value.weight")) for name in changes)
    for name in changes:
        step = model.state_dict()[name] - tiny.state_dict()[name]
        assert torch.linalg.matrix_rank(step, rtol=1e-3) == 4
    average = wise_ft(tiny, model, .5)
    name = min(changes)
    half = (model.state_dict()[name] + tiny.state_dict()[name]) / 2
    assert torch.allclose(average.state_dict()[name], half)
    assert train(tiny, lora={"rank": 4})[0].state_dict()[name].equal(model.state_dict()[name])
    assert not train(tiny, seed=1, lora={"rank": 4})[0].state_dict()[name].equal(model.state_dict()[name])


def test_adapters_that_cannot_be_are_refused(tiny, monkeypatch):
    with pytest.raises(EncoderError, match="`lora` belongs to transformers"):
        train(load_encoder(STATIC), lora={"rank": 4})
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ConfigError, match="`lora` needs the package peft: pip install peft"):
        train(tiny, lora={"rank": 4})


# spread embeddings

def test_gor_is_sentence_transformers_own_over_all_columns(tiny):
    _, course = train(tiny, regularizer="gor", weight=2.)
    first = course.history[0]
    assert float(first["weighted"]) == pytest.approx(2 * float(first["raw"]))
    vectors = [torch.randn(5, 8), torch.randn(5, 8)]
    target = sum(GlobalOrthogonalRegularizationLoss(None).compute_loss_from_embeddings(vectors).values())
    texts = [SimpleNamespace(fx=torch.nn.functional.normalize(rows, dim=1)) for rows in vectors]
    term = GOR(1.)
    assert term.columns == "all"
    result = term.of_batch(SimpleNamespace(texts_of=lambda regularizer: texts))
    assert float(result) == pytest.approx(float(target), rel=1e-5) and result > 0
