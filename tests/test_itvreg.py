"What the losses of ITVReg and its relatives refuse."
import copy

import pytest
import torch

from debias_nb.encoders import tokenise
from debias_nb.itvreg import HINGE, FrozenBase, ITVRegLoss, MatchingLoss, OutRegLoss, make_loss
from debias_nb.repro.config import MethodConfig, TrainConfig
from made import load, table


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(table(tmp_path_factory.mktemp("models")))


@pytest.fixture
def base(model):
    return copy.deepcopy(model)


@pytest.mark.parametrize("kind, settings, words", [
    (ITVRegLoss, dict(weight=-1), r"weight \(lambda\) must not be negative, got -1"),
    (ITVRegLoss, dict(mask_share=50), r"mask_share must lie in \(0, 1\), got 50"),
    (ITVRegLoss, dict(mask_share=0), r"mask_share must lie in \(0, 1\), got 0"),
    (ITVRegLoss, dict(share=0), r"share must lie in \(0, 1\], got 0"),
    (OutRegLoss, dict(share=1.5), r"share must lie in \(0, 1\], got 1.5"),
])
def test_settings_out_of_range(model, base, kind, settings, words):
    with pytest.raises(ValueError, match=words):
        kind(model, base, **settings)


@pytest.mark.parametrize("kind", [ITVRegLoss, OutRegLoss])
def test_a_base_is_needed_and_it_is_not_the_model(model, kind):
    with pytest.raises(ValueError, match=f"{kind.__name__} compares with the base encoder: pass `base`"):
        kind(model)
    with pytest.raises(ValueError, match="the model itself.*pass a deep copy"):
        kind(model, model)


def test_least_squares_needs_labels(model):
    tokens = tokenise(model, ["red kettle", "old lamp"])
    column = {"input_ids": tokens.ids, "attention_mask": tokens.mask, "row": torch.arange(2)}
    with pytest.raises(ValueError, match="least squares needs labels"):
        MatchingLoss(model)([column, column])


def test_a_contrastive_objective_has_no_place_for_itvaug(model, base):
    method = MethodConfig(name="Ours", augmentation="itvaug", mask_share=.5)
    training = TrainConfig(loss="hinge", **HINGE["ngame"], learning_rate=1e-3, epochs=1, batch_size=8)
    with pytest.raises(ValueError, match="method 'Ours': ITVAug changes labels"):
        make_loss(method, model, FrozenBase(base), 0, training)
