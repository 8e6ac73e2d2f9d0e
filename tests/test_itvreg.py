"What the losses of ITVReg and its relatives refuse, and what leaves no trace in them."
import copy
import warnings
from functools import partial

import pytest
import torch
from sentence_transformers.sentence_transformer import losses

from debias_nb.encoders import from_features, tokenise
from debias_nb.itvreg import HINGE, FrozenBase, ITVRegLoss, MatchingLoss, OutRegLoss, hinge, make_loss
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


@pytest.mark.parametrize("settings, words", [
    (dict(objective=losses.MultipleNegativesRankingLoss),
     r"got MultipleNegativesRankingLoss: .* write debias_nb.Regularized\(model, MultipleNegativesRankingLoss\(model\)"),
    (dict(objective="mse"), "objective must be `mse`, or `hinge` .* got 'mse': leave it out for least squares"),
    (dict(intervention="masc"), "intervention must be one of mask, delete, pad, random, got 'masc'"),
    (dict(base="my/base"), "base is a str and no SentenceTransformer"),
    (dict(model="my/model"), "model is a str and no SentenceTransformer"),
])
def test_what_is_no_objective_or_encoder_is_refused_when_the_loss_is_made(model, base, settings, words):
    with pytest.raises(ValueError, match=words):
        ITVRegLoss(**(dict(model=model, base=base) | settings))


def test_an_instance_of_a_loss_is_no_objective(model, base):
    with pytest.raises(ValueError, match=r"debias_nb.Regularized\(model, CoSENTLoss\(model\), \[ITVReg\(\)\]\)"):
        ITVRegLoss(model, base, objective=losses.CoSENTLoss(model))


def features_of(model, count):
    return [model.preprocess(["red kettle", "old lamp"]) for _ in range(count)]


@pytest.mark.parametrize("columns, labels, words", [
    (3, [1, 0], "takes two columns of texts and a label, and this batch has 3 of texts: for triplets"),
    (1, [1, 0], "this batch has 1 of texts"),
    (2, None, "least squares needs labels"),
])
def test_a_batch_of_other_columns_is_refused(model, base, columns, labels, words):
    labels = None if labels is None else torch.tensor(labels)
    with pytest.raises(ValueError, match=words):
        ITVRegLoss(model, base)(features_of(model, columns), labels)


@pytest.mark.parametrize("labels, told", [([1, 2], "1 to 2"), ([-1., 1.], "-1 to 1"), ([1., float("nan")], "nan")])
def test_labels_outside_of_0_and_1_are_refused_in_any_step(model, base, labels, told):
    loss = ITVRegLoss(model, base)
    loss.begin_epoch(0)
    loss(features_of(model, 2), torch.tensor([1., .5]))
    with pytest.raises(ValueError, match=rf"labels must lie in \[0, 1\], 1 for a match; this batch has some from .*{told}"):
        loss(features_of(model, 2), torch.tensor(labels))


def test_a_loss_of_another_model_than_the_trainers_is_refused(model, base):
    begin = ITVRegLoss(model, base).callback.on_train_begin
    begin(None, None, None, model=model)
    begin(None, None, None, model=torch.nn.DataParallel(model))
    with pytest.raises(ValueError, match="ITVRegLoss was made for another model than the trainer's"):
        begin(None, None, None, model=copy.deepcopy(model))


def test_texts_of_a_cross_encoders_trainer_are_refused(model, base):
    with pytest.raises(ValueError, match="got texts, as CrossEncoderTrainer gives them: .* debias_nb.SCAN"):
        ITVRegLoss(model, base)([["red kettle"], ["a kettle"]], torch.tensor([1.]))


@pytest.mark.parametrize("labels", [[1, 0], [1., 0.], [[1., 0.], [0., 1.]], [[True, False]]])
def test_the_hinge_is_not_given_labels_of_pairs(model, base, labels):
    loss = ITVRegLoss(model, base, objective=partial(hinge, margin=.3))
    with pytest.raises(ValueError, match=r"the hinge needs an \(n, n\) bool matrix .* go with least squares"):
        loss(features_of(model, 2), torch.tensor(labels))


def test_inside_a_loss_that_wants_one_number_it_is_refused(model, base):
    nested = losses.MatryoshkaLoss(model, ITVRegLoss(model, base), [8])
    with pytest.raises(ValueError, match=r"MatryoshkaLoss and its like take one number: write debias_nb.Regularized\("):
        nested(features_of(model, 2), torch.tensor([1., 0.]))


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


def pairs_of(model):
    left = ["red kettle", "blue lamp", "old chair for a table", "small new kettle"]
    right = ["a kettle in red", "the chair", "old table", "lamp with a chair"]
    return [model.preprocess(left), model.preprocess(right)], torch.tensor([1., 0., 1., 0.])


def test_a_prompt_is_no_part_of_the_text(model, base):
    loss = ITVRegLoss(model, base, mask_share=.9)
    x = from_features(model, model.preprocess(["red kettle", "old lamp with a chair"], prompt="why how : "))
    masked, _ = loss.extra(x, None)
    assert masked.mask[:, :3].all() and not x.ordinary[:, :3].any() and (masked.mask.sum(1) < x.mask.sum(1)).all()


def two_steps(model, base, evaluated):
    "The terms of two training steps, perhaps with an evaluation between them."
    loss = ITVRegLoss(model, base, weight=1., share=.5)
    loss.begin_epoch(0)
    features, labels = pairs_of(model)
    steps = [loss(features, labels)]
    if evaluated:
        with torch.no_grad():
            loss(features, labels)
    steps.append(loss(features, labels))
    return [float(step["itvreg"].detach()) for step in steps], len(loss.history)


def test_an_evaluation_leaves_no_trace(model, base):
    with torch.no_grad():
        for weights in base.parameters():
            weights.add_(.1 * torch.randn_like(weights))
    assert two_steps(model, base, evaluated=True) == two_steps(model, base, evaluated=False)


def test_a_loss_that_nobody_tells_the_epoch_says_so_once(model, base):
    features, labels = pairs_of(model)
    loss = ITVRegLoss(model, base)
    with pytest.warns(UserWarning, match=r"interventions of epoch 0 in every epoch: pass `callbacks=\[loss.callback\]`"):
        loss(features, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(features, labels)
        OutRegLoss(model, base)(features, labels)
        told = ITVRegLoss(model, base)
        told.begin_epoch(0)
        told(features, labels)
