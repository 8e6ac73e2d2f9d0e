"Regularisers for any loss of sentence-transformers: one pass, honest draws, nothing silent."
import copy
import inspect
import math
import os
import random
import re
import signal
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer
from sentence_transformers.base.losses.merged_forward import embed_columns
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import TrainerCallback

import made
from debias_nb import regularized
from debias_nb.encoders import EncoderError, embed, tokenise
from debias_nb.trainer import training_arguments
from debias_nb.itvreg import cosines, itvreg
from debias_nb.regularized import (
    Draws, ITVReg, L2SP, LeastSquares, MaskReg, OutReg, Regularized, SimCSE, View, WordDropout, embeddings_by_column,
    read_column, wise_ft,
)
from faults.harness import Child

PAIR = ("anchor", "positive")
TRIPLET = ("anchor", "positive", "negative")
SCORED = ("anchor", "positive", "score")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {"bert": made.bert(folder), "table": made.table(folder)}


@pytest.fixture(scope="module")
def encoders(folders):
    return {name: made.load(folder) for name, folder in folders.items()}


@pytest.fixture
def bert(encoders):
    return copy.deepcopy(encoders["bert"])


@pytest.fixture
def table(encoders):
    return copy.deepcopy(encoders["table"])


def text(dice, words=5):
    return " ".join(dice.choice(made.WORDS) for _ in range(dice.randint(3, words)))


def rows(columns, n=16, seed=0):
    "A data set of random texts; a column `score` holds numbers."
    dice = random.Random(seed)
    made_of = {}
    for name in columns:
        made_of[name] = [dice.random() if name == "score" else text(dice) for _ in range(n)]
    return Dataset.from_dict(made_of)


_dice = random.Random(7)
OTHERS = [text(_dice) for _ in range(11)]


def batch_of(model, columns, n=6):
    data = rows(columns, n)
    features = [model.preprocess(data[name]) for name in columns if name != "score"]
    labels = torch.tensor(data["score"]) if "score" in columns else None
    return features, labels


def without_dropout(model):
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.
    return model


def moved(model, by=.05):
    "The encoder elsewhere than its base, so that no term is 0."
    torch.manual_seed(1)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(by * torch.randn_like(weights))
    return model


def trainer_of(model, loss, data, folder, **changes):
    settings = dict(per_device_train_batch_size=8, learning_rate=1e-2, max_steps=4, seed=3, use_cpu=True)
    args = training_arguments(folder, **settings | changes)
    evaluated = changes.get("eval_strategy", "no") != "no"
    return SentenceTransformerTrainer(
        model=model, args=args, train_dataset=data, eval_dataset=data if evaluated else None, loss=loss)


def trained(model, loss, data, folder, **changes):
    trainer = trainer_of(model, loss, data, folder, **changes)
    trainer.train()
    return trainer


def furthest(a, b):
    "The largest difference between the weights of two encoders."
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return max(float((x.cpu() - y.cpu()).abs().max()) for x, y in pairs)


# ---------------------------------------------------------------- one pass


def mnrl(model):
    return losses.MultipleNegativesRankingLoss(model)


def cached(model):
    return losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=4)


def matryoshka(model):
    return losses.MatryoshkaLoss(model, mnrl(model), [16, 8])


def matryoshka_cached(model):
    return losses.MatryoshkaLoss(model, cached(model), [16, 8])


def layers(model):
    return losses.AdaptiveLayerLoss(model, mnrl(model))


SHARING = [
    ("bert", mnrl, PAIR),
    ("bert", mnrl, TRIPLET),
    ("bert", losses.CoSENTLoss, SCORED),
    ("bert", matryoshka, PAIR),
    ("bert", matryoshka, TRIPLET),
    ("bert", losses.TripletLoss, TRIPLET),
    ("table", mnrl, TRIPLET),
    ("table", matryoshka, PAIR),
    ("table", losses.CosineSimilarityLoss, SCORED),
]


@contextmanager
def counted(model):
    "How many texts the first module of an encoder is given."
    given = []

    def count(module, inputs):
        features = inputs[0]
        given.append(len(features["offsets"] if "offsets" in features else features["input_ids"]))

    handle = model[0].register_forward_pre_hook(count)
    yield given
    handle.remove()


@pytest.mark.parametrize("name, make, columns", SHARING)
def test_a_batch_is_embedded_once_and_only_what_is_changed_is_embedded_besides(encoders, name, make, columns):
    model = copy.deepcopy(encoders[name])
    with counted(model) as alone:
        make(model)(*batch_of(model, columns))
    loss = Regularized(model, make(model), [OutReg(.1), ITVReg(1.)])
    loss(*batch_of(model, columns)) # the first batch leaves a few texts to compare with later
    with counted(model) as together:
        loss(*batch_of(model, columns))
    assert sum(together) == sum(alone) + 6
    assert "forward" not in vars(model) or "noting" not in repr(model.forward)


@pytest.mark.parametrize("name, make, columns", SHARING)
def test_terms_are_those_of_separate_passes(encoders, name, make, columns):
    base = encoders[name]
    model = moved(copy.deepcopy(base), {"bert": .05, "table": .5}[name])
    loss = Regularized(model, make(model), [OutReg(.5, columns="all"), ITVReg(2., columns=1)], base=base)
    np.random.seed(0)
    terms = loss(*batch_of(model, columns))
    features, labels = batch_of(model, columns)
    texts = [tokenise(model, rows(columns, 6)[column]) for column in columns if column != "score"]
    apart = [2 - 2 * cosines(embed(model, part), embed(base, part)).mean() for part in texts]
    np.random.seed(0)
    other, weight = Draws().intervened(model, texts[1], .5, "mask")
    importance = cosines(embed(model, texts[1]), embed(model, other))
    at_base = cosines(embed(base, texts[1]), embed(base, other))
    assert torch.isclose(terms["base"], make(model)(features, labels), atol=1e-5)
    assert torch.isclose(terms["outreg"], .5 * torch.stack(apart).mean(), atol=1e-5)
    assert terms["outreg"] > 1e-3
    assert torch.isclose(terms["itvreg"], 2 * itvreg(importance, at_base, weight), atol=1e-5)
    assert terms["itvreg"] > 1e-5


class OfCopies(torch.nn.Module):
    "A loss that leaves the batch as it was, and embeds copies of its columns in some order."
    def __init__(self, model, order):
        super().__init__()
        self.model = model
        self.order = order

    def forward(self, features, labels=None):
        found = {place: self.model(dict(features[place]))["sentence_embedding"] for place in self.order}
        return 1 - cosines(found[0], found[1]).mean()


class InOnePass(torch.nn.Module):
    "A loss that embeds all columns in one pass."
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, features, labels=None):
        found = embed_columns(self.model, features, separate_first=False)
        return 1 - cosines(found[0], found[1]).mean()


@pytest.mark.parametrize("name", ["bert", "table"])
@pytest.mark.parametrize("make", [
    lambda model: OfCopies(model, (0, 1, 2)), lambda model: OfCopies(model, (2, 1, 0)), InOnePass],
    ids=["copies", "copies from the last on", "one pass"])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_columns_are_told_by_their_texts(encoders, name, make, column):
    base = encoders[name]
    model = moved(copy.deepcopy(base), {"bert": .05, "table": .5}[name])
    loss = Regularized(model, make(model), [OutReg(1., columns=column)], base=base)
    term = loss(*batch_of(model, TRIPLET))["outreg"]
    texts = tokenise(model, rows(TRIPLET, 6)[TRIPLET[column]])
    apart = 2 - 2 * cosines(embed(model, texts), embed(base, texts)).mean()
    assert torch.isclose(term, apart, atol=1e-5) and term > 1e-3


@pytest.mark.parametrize("make", [mnrl, lambda model: OfCopies(model, (0, 1))], ids=["itself", "copies"])
def test_two_columns_of_the_same_texts_are_both_found(bert, make):
    features = [bert.preprocess(["red kettle", "old lamp"]) for _ in range(2)]
    bert.train() # with dropout, so that both have embeddings of their own
    loss = Regularized(bert, make(bert), [OutReg(1., columns="all")])
    assert loss(features)["outreg"] > 1e-4


class OfOtherTexts(torch.nn.Module):
    "A loss that embeds as many other texts as a batch has."
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, features, labels=None):
        others = self.model.preprocess(["a lamp"] * len(features[0]["input_ids"]))
        return self.model(others)["sentence_embedding"].square().mean()


def test_other_texts_than_those_of_the_batch_are_not_taken_for_a_column(bert):
    loss = Regularized(bert, OfOtherTexts(bert), [OutReg(1., columns=1)])
    with pytest.raises(RuntimeError, match="OfOtherTexts has not embedded column 1 with the model, at least not with gradient"):
        loss(*batch_of(bert, PAIR))


def test_texts_that_only_begin_alike_are_told_apart(bert):
    short = {"input_ids": torch.tensor([[7, 8], [9, 0]]), "attention_mask": torch.tensor([[1, 1], [1, 0]])}
    longer = {"input_ids": torch.tensor([[7, 8, 5], [9, 0, 0]]), "attention_mask": torch.tensor([[1, 1, 1], [1, 0, 0]])}
    padded = longer | {"attention_mask": torch.tensor([[1, 1, 0], [1, 0, 0]])}
    embeddings = torch.eye(2)
    assert not embeddings_by_column([(longer, embeddings)], [short], 2)
    assert embeddings_by_column([(padded, embeddings)], [short], 2)[0] is not None


class WithATeacher(torch.nn.Module):
    "A loss that first embeds without gradient, with the model itself."
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, features, labels=None):
        with torch.no_grad():
            teacher = [self.model(dict(column))["sentence_embedding"] for column in features]
        learner = [self.model(column)["sentence_embedding"] for column in features]
        return sum((a - b).square().mean() for a, b in zip(teacher, learner))


def test_a_pass_without_gradient_is_not_shared(bert):
    base = copy.deepcopy(bert)
    loss = Regularized(moved(bert), WithATeacher(bert), [OutReg(1.)], base=base)
    features, _ = batch_of(bert, PAIR)
    assert loss(features)["outreg"].requires_grad
    with torch.no_grad():
        assert loss(batch_of(bert, PAIR)[0])["outreg"] > 1e-3, "in an evaluation no pass has a gradient"
    frozen = Regularized(bert.requires_grad_(False), WithATeacher(bert), [OutReg(1.)], base=base)
    assert frozen(batch_of(bert, PAIR)[0])["outreg"] > 1e-3, "and none of an encoder that is not trained"


class Around(torch.nn.Module):
    "A loss of one's own around another one, which it keeps under a name of its own."
    def __init__(self, model, inner):
        super().__init__()
        self.model = model
        self.inner = inner

    def forward(self, features, labels=None):
        return 2 * self.inner(features, labels)


@pytest.mark.parametrize("size", [4, 64], ids=["several passes", "one pass"])
def test_a_gradient_cache_is_found_under_any_name(bert, size):
    base = copy.deepcopy(bert)
    gradients = []
    for around in (True, False):
        model = moved(copy.deepcopy(base))
        inner = losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=size)
        outer = Around(model, inner) if around else inner
        loss = Regularized(model, outer, [OutReg(3.)], base=base)
        terms = loss(*batch_of(model, PAIR, 10))
        terms["outreg"].backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert gradients[0].norm() > .01 and torch.allclose(*gradients, atol=1e-6)


@pytest.mark.parametrize("kind", [
    losses.BatchAllTripletLoss, losses.BatchHardTripletLoss, losses.BatchHardSoftMarginTripletLoss,
    losses.BatchSemiHardTripletLoss])
def test_losses_of_texts_with_classes_keep_the_model_under_another_name(encoders, kind):
    base = encoders["bert"]
    model = moved(copy.deepcopy(base))
    features, _ = batch_of(model, ["anchor"])
    labels = torch.tensor([0, 1, 0, 1, 2, 2])
    loss = Regularized(model, kind(model), [OutReg(.5)], base=base)
    terms = loss(features, labels)
    texts = tokenise(model, rows(["anchor"], 6)["anchor"])
    apart = (2 - 2 * cosines(embed(model, texts), embed(base, texts))).mean()
    assert torch.isclose(terms["base"], kind(model)(batch_of(model, ["anchor"])[0], labels), atol=1e-5)
    assert torch.isclose(terms["outreg"], .5 * apart, atol=1e-5)
    with pytest.raises(ValueError, match="made for another model"):
        Regularized(model, kind(base), [OutReg(.5)])


def test_a_loss_that_embeds_layer_by_layer_shares_the_last(folders, tmp_path):
    model = moved(made.load(made.bert(tmp_path, layers=2)))
    base = copy.deepcopy(moved(model))
    moved(model)
    loss = Regularized(model, layers(model), [OutReg(1.)], base=base)
    terms = loss(*batch_of(model, PAIR))
    texts = tokenise(model, rows(PAIR, 6)["anchor"])
    apart = (2 - 2 * cosines(embed(model, texts), embed(base, texts))).mean()
    assert torch.isclose(terms["outreg"], apart, atol=1e-5)


@pytest.mark.parametrize("name, make, columns", [
    ("bert", mnrl, PAIR),
    ("bert", cached, PAIR),
    ("bert", matryoshka, TRIPLET),
    ("bert", losses.CoSENTLoss, SCORED),
    ("table", mnrl, TRIPLET),
])
def test_a_regulariser_of_no_weight_is_plain_fine_tuning(encoders, name, make, columns, tmp_path):
    "Dropout included: to the last bit."
    plain = copy.deepcopy(encoders[name])
    other = copy.deepcopy(encoders[name])
    trained(plain, make(plain), rows(columns), tmp_path)
    regularizers = [OutReg(0.), L2SP(0.), ITVReg(0., rows=.5), SimCSE(0.), ITVReg(0., texts=OTHERS)]
    trained(other, Regularized(other, make(other), regularizers), rows(columns), tmp_path)
    assert furthest(plain, other) == 0 < furthest(plain, encoders[name])


@pytest.mark.parametrize("regularizers", [
    [OutReg(3.)],
    [ITVReg(30.)],
    [MaskReg(3., columns=(0, 1))],
    [ITVReg(9., rows=.5)],
])
@pytest.mark.parametrize("make", [cached, matryoshka_cached])
def test_gradient_cache_gives_the_gradient_of_one_pass(bert, regularizers, make):
    gradients = []
    base = bert
    for build in (mnrl if make is cached else matryoshka, make):
        model = moved(copy.deepcopy(base))
        loss = Regularized(model, build(model), regularizers, base=base)
        np.random.seed(5)
        terms = loss(*batch_of(model, PAIR, 10))
        torch.stack(list(terms.values())).sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert gradients[0].norm() > .01
    assert torch.allclose(*gradients, atol=1e-4 * float(gradients[0].abs().max()))


def test_gradient_cache_keeps_one_mini_batch_of_activations(bert):
    loss = Regularized(bert.train(), cached(bert), [ITVReg(1.)])
    loss(*batch_of(bert, PAIR, 10))
    with counted(bert) as given:
        sum(loss(*batch_of(bert, PAIR, 10)).values()).backward()
    assert max(given) == 4


def test_gradient_cache_repeats_its_dropout(bert):
    "What is computed again on the way back is what was computed on the way there."
    bert.train()
    loss = Regularized(bert, cached(bert), [SimCSE(1.)])
    terms = loss(*batch_of(bert, PAIR, 10))
    assert terms["simcse"] > 0
    sum(terms.values()).backward()


# ---------------------------------------------------------------- draws


def changed_texts(monkeypatch):
    "What the student is given for X', in each step."
    seen = []
    encode = View.encode

    def noted(self, tokens):
        seen.append(tokens)
        return encode(self, tokens)

    monkeypatch.setattr(View, "encode", noted)
    return seen


def test_every_step_draws_and_a_repeated_run_repeats(encoders, monkeypatch, tmp_path):
    seen = changed_texts(monkeypatch)
    same = Dataset.from_dict({name: ["red kettle with a lamp for the old chair"] * 8 for name in PAIR})
    for _ in range(2):
        model = copy.deepcopy(encoders["table"])
        trained(model, Regularized(model, mnrl(model), [ITVReg(1.)]), same, tmp_path, max_steps=3)
    masks = [tokens.mask.tolist() for tokens in seen]
    assert masks[:3] == masks[3:], "the same run"
    assert masks[0] != masks[1] != masks[2] != masks[0], "one batch an epoch, and other interventions in each"
    assert len({tuple(row) for row in masks[0]}) > 1, "and for each text of a batch"


REGULARIZERS = [
    ITVReg(1., rows=.5), OutReg(.1), MaskReg(.1), SimCSE(.1), WordDropout(.3),
    OutReg(.1, texts=OTHERS), ITVReg(.1, texts=OTHERS, texts_per_batch=3),
]


@pytest.mark.parametrize("name", ["bert", "table"])
def test_an_evaluation_has_no_influence(encoders, name, tmp_path):
    """Without dropout of the loss itself.

    That follows torch's generator, and from it every data loader takes a number.
    """
    models = []
    for evaluated in (False, True):
        model = without_dropout(copy.deepcopy(encoders[name]))
        how = dict(eval_strategy="steps", eval_steps=1) if evaluated else {}
        regularizers = [one for one in REGULARIZERS if name == "table" or not isinstance(one, SimCSE)]
        trainer = trained(model, Regularized(model, mnrl(model), regularizers), rows(PAIR), tmp_path, **how)
        models.append(model)
    logged = [entry for entry in trainer.state.log_history if "eval_loss" in entry]
    assert furthest(*models) == 0
    assert len(logged) == 4
    assert logged[0]["eval_itvreg"] >= 0
    assert not any("share" in key for key in logged[0])
    first = trainer.evaluate()["eval_loss"]
    second = trainer.evaluate()["eval_loss"]
    assert first == second, "the same interventions in each"


@pytest.mark.parametrize("name", ["bert", "table"])
def test_a_resumed_run_is_the_uninterrupted_one(encoders, name, tmp_path):
    def run(folder, **how):
        model = copy.deepcopy(encoders[name])
        loss = Regularized(model, mnrl(model), REGULARIZERS)
        trainer = trainer_of(model, loss, rows(PAIR), folder, max_steps=5, save_strategy="steps", save_steps=3)
        trainer.train(**how)
        return model

    whole = run(tmp_path)
    torch.manual_seed(99)
    np.random.seed(99)
    resumed = run(tmp_path, resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert furthest(whole, resumed) == 0 < furthest(whole, encoders[name])


def six_steps(folder, out, callbacks=(), **how):
    "A model trained for six steps, of which the third leaves a checkpoint."
    model = made.load(folder)
    loss = Regularized(model, mnrl(model), REGULARIZERS)
    trainer = trainer_of(model, loss, rows(PAIR), out, max_steps=6, save_strategy="steps", save_steps=3)
    for callback in callbacks:
        trainer.add_callback(callback)
    trainer.train(**how)
    return model


class Kill(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if state.global_step == 5:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(os.name != "posix", reason="no SIGKILL here")
@pytest.mark.parametrize("name", ["bert", "table"])
def test_a_killed_run_goes_on_as_if_nothing_had_been(folders, encoders, name, tmp_path):
    out = tmp_path / "killed"
    child = Child(six_steps, folders[name], out, [Kill()], said=tmp_path / "said.txt")
    assert child.end() == -signal.SIGKILL, child.text
    resumed = six_steps(folders[name], out, resume_from_checkpoint=True)
    whole = six_steps(folders[name], tmp_path / "whole")
    assert furthest(whole, resumed) == 0 < furthest(whole, encoders[name])


def with_base(folder, out, base, **how):
    "Four steps of a training, of which the second leaves a checkpoint."
    model = made.load(folder)
    loss = Regularized(model, mnrl(model), [OutReg(1.)], base=base and made.load(base))
    trainer_of(model, loss, rows(PAIR), out, save_strategy="steps", save_steps=2).train(**how)


def test_a_training_taken_up_with_another_base_is_refused(folders, tmp_path):
    with_base(folders["table"], tmp_path, None)
    checkpoint = str(tmp_path / "checkpoint-2")
    with_base(folders["table"], tmp_path, None, resume_from_checkpoint=checkpoint)
    with_base(checkpoint, tmp_path, folders["table"], resume_from_checkpoint=checkpoint)
    with pytest.raises(ValueError, match=r"begun with another base encoder \(sha256 \w{12}\) than it has now .*: make Regularized with"):
        with_base(checkpoint, tmp_path, None, resume_from_checkpoint=checkpoint)


def test_several_losses_of_one_training_may_have_bases_of_their_own(table, tmp_path):
    other = moved(copy.deepcopy(table))
    losses_of = {name: Regularized(table, mnrl(table), [OutReg(1.)], base=base) for name, base in (("a", None), ("b", other))}
    trained(table, losses_of, {"a": rows(PAIR), "b": rows(PAIR)}, tmp_path)


def test_what_draws_nothing_takes_no_number(bert):
    np.random.seed(0)
    first = np.random.randint(2**62)
    for regularizers, same in (([OutReg(1.), L2SP(1.)], True), ([ITVReg(1.)], False)):
        np.random.seed(0)
        Regularized(bert, mnrl(bert), regularizers)(*batch_of(bert, PAIR))
        assert (np.random.randint(2**62) == first) == same


# ---------------------------------------------------------------- other texts


@pytest.mark.parametrize("name, make", [
    ("bert", mnrl), ("bert", cached), ("bert", matryoshka), ("bert", LeastSquares), ("table", mnrl), ("table", LeastSquares)])
def test_terms_of_other_texts_are_those_of_each_text(encoders, monkeypatch, name, make):
    base = encoders[name]
    model = moved(copy.deepcopy(base), {"bert": .05, "table": .5}[name])
    regularizers = [OutReg(1., texts=OTHERS, texts_per_batch=99), ITVReg(1., texts=OTHERS, texts_per_batch=99)]
    loss = Regularized(model, make(model), regularizers, base=base)
    seen = changed_texts(monkeypatch)
    features, scores = batch_of(model, SCORED)
    terms = loss(features, scores if make is LeastSquares else None)
    drift = []
    for one in OTHERS:
        u, u0 = model.encode(one, normalize_embeddings=True), base.encode(one, normalize_embeddings=True)
        drift.append(((u - u0) ** 2).sum())
    texts, _, other = seen # the second regulariser embeds its texts, and what is left of them
    assert len(texts) == len(other) == len(OTHERS)
    change = []
    for row in range(len(OTHERS)):
        whole, part = (tokens[[row]] for tokens in (texts, other))
        if whole.ordinary.sum() > 1:
            cosine = [float(cosines(embed(encoder, whole), embed(encoder, part))) for encoder in (model, base)]
            change.append((cosine[0] - cosine[1]) ** 2)
    assert float(terms["outreg"].detach()) == pytest.approx(np.mean(drift), abs=1e-5)
    assert float(terms["itvreg"].detach()) == pytest.approx(np.mean(change), abs=1e-5)
    assert min(terms["outreg"], terms["itvreg"]) > 1e-5


@pytest.mark.parametrize("name", ["bert", "table"])
def test_outreg_is_twice_the_distillation_from_the_base(encoders, name):
    "On a batch's own texts and on others: EmbedDistillLoss with the base as teacher."
    base = encoders[name]
    own = rows(PAIR)["anchor"]
    gradients = []
    for texts in (None, own):
        model = moved(copy.deepcopy(base), {"bert": .05, "table": .5}[name])
        loss = Regularized(model, mnrl(model), [OutReg(1., texts=texts)], base=base)
        distilled = losses.EmbedDistillLoss(model, distance_metric="cosine")
        teacher = base.encode(own, convert_to_tensor=True)
        wanted = 2 * distilled([model.preprocess(own)], teacher)
        found = loss([model.preprocess(own), model.preprocess(rows(PAIR)["positive"])])["outreg"]
        assert float(found.detach()) == pytest.approx(float(wanted.detach()), rel=1e-4)
        assert found > 1e-3
        for term in (found, wanted):
            grads = torch.autograd.grad(term, list(model.parameters()), allow_unused=True)
            gradients.append(torch.cat([part.flatten() for part in grads if part is not None]))
    assert all(torch.allclose(gradients[0], one, atol=1e-4 * float(gradients[0].abs().max())) for one in gradients)


def test_which_texts_are_drawn_follows_from_the_seeds_alone(encoders, monkeypatch, tmp_path):
    "Not from the order of the batches, nor from evaluations; from the seed of the training and from that of the texts."
    drawn = []
    following = regularized.TextStream.next

    def noted(self, batch):
        found = following(self, batch)
        if torch.is_grad_enabled():
            drawn[-1].append(found.tokens.ids.tolist())
        return found

    monkeypatch.setattr(regularized.TextStream, "next", noted)
    settings = [{}, {"data": 1}, {"eval_strategy": "steps", "eval_steps": 1}, {"seed": 4}, {"texts": 1}]
    for changes in settings:
        changes = dict(changes)
        model = copy.deepcopy(encoders["table"])
        data = rows(PAIR, seed=changes.pop("data", 0))
        loss = Regularized(model, mnrl(model), [OutReg(1., texts=OTHERS, seed=changes.pop("texts", 0), texts_per_batch=4)])
        drawn.append([])
        trained(model, loss, data, tmp_path, **changes)
    whole, other_data, evaluated, other_training, other_texts = drawn
    assert len(whole) == 4 and len({str(block) for block in whole}) > 1
    assert whole == other_data == evaluated
    assert whole != other_training and whole != other_texts


def test_what_the_base_makes_of_texts_is_remembered(bert):
    loss = Regularized(bert, mnrl(bert), [OutReg(1., texts=OTHERS, texts_per_batch=99)])
    loss(*batch_of(bert, PAIR))
    with counted(loss.base) as given:
        loss(*batch_of(bert, PAIR))
    assert given == []


def test_texts_come_from_lists_files_and_columns(tmp_path):
    two = ["red kettle", "old, lamp"]
    (tmp_path / "texts.txt").write_text("red kettle\n\nold, lamp\n")
    (tmp_path / "texts.csv").write_text('id,text\n1,red kettle\n2,"old, lamp"\n')
    column = Dataset.from_dict({"text": two})["text"]
    given = [two, tuple(two), column, tmp_path / "texts.txt", str(tmp_path / "texts.txt"), np.array(two)]
    assert all(OutReg(texts=texts).texts == two for texts in given)
    assert regularized.read_texts(tmp_path / "texts.csv", "text") == two


@pytest.mark.parametrize("settings, words", [
    ({"texts": []}, "0 texts"),
    ({"texts": ["red kettle"]}, "1 text:"),
    ({"texts": [1, 2]}, "number 0 is a int"),
    ({"texts": ["red kettle", None]}, "number 1 is a NoneType"),
    ({"texts": 3}, "got 3"),
    ({"texts": {"text": ["a", "b"]}}, "dict of several columns"),
    ({"texts": Dataset.from_dict({"text": ["a", "b"]})}, "Dataset of several columns"),
    ({"texts": "red kettle"}, "there is no such file"),
    ({"texts": __file__.replace("test_regularized.py", "lab/none.csv")}, "there is no such file"),
    ({"texts": OTHERS, "texts_per_batch": 0}, "texts_per_batch"),
    ({"texts": OTHERS, "texts_per_batch": .5}, "texts_per_batch"),
    ({"texts": OTHERS, "columns": 1}, "columns and rows"),
])
def test_texts_that_are_none_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        OutReg(**settings)


def test_a_table_of_texts_needs_a_column(tmp_path):
    (tmp_path / "texts.csv").write_text("id,text\n1,red kettle\n")
    with pytest.raises(ValueError, match=r"read_texts\('texts.csv', 'text'\)"):
        OutReg(texts=tmp_path / "texts.csv")
    with pytest.raises(ValueError, match="L2SP"):
        L2SP(texts=OTHERS)


def test_the_model_card_names_texts_and_does_not_hold_them(bert):
    told, own = Regularized(bert, mnrl(bert), [OutReg(texts=OTHERS), OutReg()]).get_config_dict()["regularizers"]
    assert told["texts"].startswith("11 (sha256 ") and "texts" not in own


def test_two_threads_take_turns_at_one_loss(table):
    """The first waits within the loss until the second has begun."""
    class Slow(losses.MultipleNegativesRankingLoss):
        def forward(self, features, labels=None):
            entered.append(1)
            second.wait(.3)
            return super().forward(features, labels)

    entered = []
    second = threading.Event()
    loss = Regularized(table, Slow(table), [OutReg(1.)], base=moved(copy.deepcopy(table)))
    found = []
    threads = [threading.Thread(target=lambda: found.append(float(loss(batch_of(table, PAIR)[0])["outreg"].detach()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    while not entered:
        second.wait(.01)
    assert len(entered) == 1
    second.set()
    for thread in threads:
        thread.join()
    assert len(found) == 2 and found[0] == found[1] > 0
    assert "forward" not in vars(table)


# ---------------------------------------------------------------- prompts


@pytest.mark.parametrize("name", ["bert", "table"])
def test_prompts_are_never_touched(encoders, name, monkeypatch, tmp_path):
    model = copy.deepcopy(encoders[name])
    seen = changed_texts(monkeypatch)
    loss = Regularized(model, mnrl(model), [ITVReg(1., mask_share=.9), MaskReg(.1, .9, "random"), WordDropout(.5)])
    trained(model, loss, rows(PAIR), tmp_path, prompts="why how the : ")
    prompt = model.preprocess(["why how the : "])["input_ids"].flatten().tolist()
    prompt = prompt[:-1] if name == "bert" else prompt # without [SEP]
    assert len(seen) == 8
    for tokens in seen:
        assert torch.equal(tokens.ids[:, : len(prompt)], torch.tensor(prompt).expand(len(tokens), -1))
        assert tokens.mask[:, : len(prompt)].all()


def test_a_changed_text_is_pooled_as_the_text_is(bert):
    "Where pooling leaves the prompt out, it does so for X' and for the base encoder."
    bert[1].include_prompt = False
    texts = ["red kettle", "old lamp for a table"]
    features = bert.preprocess(texts, prompt="why how ")
    column = read_column(bert, features)
    again = regularized.encode(bert, column, column.tokens, torch.arange(2))
    expected = bert.encode(texts, prompt="why how ", normalize_embeddings=True, convert_to_tensor=True)
    assert torch.allclose(again, expected, atol=1e-6)
    loss = Regularized(bert, mnrl(bert), [OutReg(1.)])
    assert loss([features, bert.preprocess(texts, prompt="why how ")])["outreg"] < 1e-10


# ---------------------------------------------------------------- the trainer


def test_several_data_sets_with_a_loss_each(bert, tmp_path):
    first = Regularized(bert, mnrl(bert), [ITVReg(1.)])
    second = Regularized(bert, losses.CoSENTLoss(bert), [OutReg(.1), OutReg(.2, columns=1)], base=first.base)
    data = {"pairs": rows(PAIR), "scores": rows(SCORED)}
    trainer = trained(bert, {"pairs": first, "scores": second}, data, tmp_path, logging_strategy="epoch")
    logged = trainer.state.log_history[0]
    assert {"base", "itvreg", "outreg", "outreg_2"} <= set(logged)
    assert first.watch.batches == second.watch.batches == 2
    assert first.base is second.base


def test_the_base_stays_and_nobody_optimises_it(bert, tmp_path):
    loss = Regularized(bert, mnrl(bert), [OutReg(1.)])
    start = copy.deepcopy(bert)
    trained(bert, loss, rows(PAIR), tmp_path)
    assert furthest(loss.base, start) == 0 < furthest(bert, start)
    assert len(list(loss.parameters())) == len(list(bert.parameters()))
    assert not loss.base.training
    given = Regularized(bert, mnrl(bert), [OutReg(1.), L2SP(1.)], base=start)
    sum(given(*batch_of(bert, PAIR)).values()).backward()
    assert all(weights.requires_grad and weights.grad is None for weights in start.parameters())


def takes_any_setting(method) -> bool:
    return inspect.getfullargspec(method).varkw is not None


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_trains_the_same(encoders, tmp_path, reentrant):
    if not takes_any_setting(encoders["bert"].gradient_checkpointing_enable):
        pytest.skip("models of sentence-transformers 6.0 do not take what the trainer of transformers 5.17 tells them")
    plain = without_dropout(copy.deepcopy(encoders["bert"]))
    other = without_dropout(copy.deepcopy(encoders["bert"]))
    how = dict(gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    for model, settings in ((plain, {}), (other, how)):
        loss = Regularized(model, mnrl(model), [ITVReg(5.), OutReg(1.)])
        trained(model, loss, rows(PAIR), tmp_path, max_steps=2, optim="sgd", **settings)
        assert bool(loss.watch.shares) == (model is plain or not reentrant)
    assert furthest(plain, other) < 1e-6 < furthest(plain, encoders["bert"])


def test_compiled_code_that_has_gradients_once_is_left_unmeasured(bert, monkeypatch):
    def refused(*args):
        raise RuntimeError(words)

    monkeypatch.setattr(regularized, "gradient_shares", refused)
    loss = Regularized(bert, mnrl(bert), [OutReg(1.)])
    words = "This backward function was compiled with non-empty donated buffers which requires retain_graph=False."
    assert "outreg_gradient_share" not in dict(loss(*batch_of(bert, PAIR)).items())
    other = Regularized(bert, mnrl(bert), [OutReg(1.)])
    words = "out of memory"
    with pytest.raises(RuntimeError, match=words):
        other(*batch_of(bert, PAIR))


def test_gradient_accumulation_is_one_large_batch(encoders, tmp_path):
    large = without_dropout(copy.deepcopy(encoders["bert"]))
    small = without_dropout(copy.deepcopy(encoders["bert"]))
    how = dict(max_steps=2, optim="sgd", learning_rate=.1)
    for model, size, times in ((large, 8, 1), (small, 4, 2)):
        loss = Regularized(model, losses.CosineSimilarityLoss(model), [OutReg(3.), L2SP(.1)])
        batches = dict(per_device_train_batch_size=size, gradient_accumulation_steps=times)
        trained(model, loss, rows(SCORED), tmp_path, **batches, **how)
        assert loss.watch.batches == 2 * times
        assert loss.watch.steps == 2
    assert furthest(large, small) < 1e-6 < furthest(large, encoders["bert"])


def test_both_encoders_compute_in_the_same_precision(bert, tmp_path):
    "Before its first step the encoder is its base, and in mixed precision too nothing lies between them."
    without_dropout(bert)
    loss = Regularized(bert, mnrl(bert), [OutReg(1.)])
    how = dict(bf16=True, max_steps=1, logging_strategy="steps", logging_steps=1)
    trainer = trained(bert, loss, rows(PAIR), tmp_path, **how)
    with regularized.precision_seen(bert) as contexts:
        bert(bert.preprocess(["red kettle"]))
    with contexts[0]():
        seen = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
    assert trainer.state.log_history[0]["outreg"] == 0
    assert seen == torch.bfloat16


def test_the_base_follows_where_the_model_alone_is_in_mixed_precision(bert):
    "As accelerate has it: the model's forward is wrapped, and the loss around it is not."
    without_dropout(bert)
    loss = Regularized(bert, mnrl(bert), [OutReg(1.), ITVReg(1.)])
    bert.forward = torch.autocast("cpu", dtype=torch.bfloat16)(bert.forward)
    terms = loss(*batch_of(bert, PAIR))
    assert terms["outreg"] == 0 == terms["itvreg"]


def test_the_best_model_is_loaded_at_the_end(table, tmp_path):
    loss = Regularized(table, mnrl(table), [OutReg(.1), ITVReg(1.)])
    how = dict(eval_strategy="steps", eval_steps=1, save_strategy="steps", save_steps=1, load_best_model_at_end=True)
    trainer = trained(table, loss, rows(PAIR), tmp_path, learning_rate=1., **how)
    best = Path(trainer.state.best_model_checkpoint)
    assert furthest(table, made.load(best)) == 0


def test_terms_and_their_shares_in_the_gradient_are_logged(table, tmp_path):
    loss = Regularized(table, mnrl(table), [OutReg(2.), L2SP(.1)])
    how = dict(max_steps=12, logging_strategy="steps", logging_steps=1)
    logged = trained(table, loss, rows(PAIR), tmp_path, **how).state.log_history
    for entry in logged[:-1]:
        assert abs(entry["loss"] - entry["base"] - entry["outreg"] - entry["l2sp"]) < 3e-4
    assert logged[0]["outreg_gradient_share"] == 0 < logged[10]["outreg_gradient_share"] < 1
    weights = list(table.parameters())
    terms = loss(*batch_of(table, PAIR))
    terms = {name: term for name, term in terms.items() if "share" not in name}
    lengths = {}
    for name, term in terms.items():
        gradient = torch.autograd.grad(term, weights, retain_graph=True)[0]
        lengths[name] = gradient.norm()
    loss.watch.measure(terms, weights)
    for name, length in lengths.items():
        assert torch.isclose(loss.watch.shares[name], length / sum(lengths.values()))


def test_word_dropout_shortens_the_texts_of_training_alone(bert):
    loss = Regularized(bert, mnrl(bert), [WordDropout(.5)])
    features, labels = batch_of(bert, PAIR)
    whole = [int(column["attention_mask"].sum()) for column in features]
    given = []

    def count(module, inputs):
        given.append(int(inputs[0]["attention_mask"].sum()))

    handle = bert[0].register_forward_pre_hook(count)
    loss(features, labels)
    with torch.no_grad():
        loss(*batch_of(bert, PAIR))
    handle.remove()
    assert given[-2:] == whole
    assert given[0] < whole[0]
    assert given[1] < whole[1]
    few = Regularized(bert, mnrl(bert), [WordDropout(.5, columns=0, rows=.2)])
    batch = regularized.Batch(bert, bert, None, batch_of(bert, PAIR)[0])
    batch.read("all")
    before = [column.tokens.mask.sum(1) for column in batch.columns.values()]
    few.regularizers[0].change(batch)
    after = [column.tokens.mask.sum(1) for column in batch.columns.values()]
    assert (before[0] != after[0]).sum() == 1
    assert torch.equal(before[1], after[1])


# ---------------------------------------------------------------- what is said


def warned(model, loss, data, folder, **how):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained(model, loss, data, folder, **how)
    return [str(one.message) for one in caught if re.search("100 steps|batch", str(one.message))]


@pytest.mark.parametrize("rate, times, steps, words", [
    (2e-6, 1, 120, "the learning rate moves nothing; a static table wants"),
    (2e-2, 1, 120, None),
    (2e-6, 2, 60, None),
])
def test_a_learning_rate_that_moves_nothing_is_said_once(table, tmp_path, rate, times, steps, words):
    loss = Regularized(table, mnrl(table), [OutReg(1.)])
    how = dict(max_steps=steps, learning_rate=rate, gradient_accumulation_steps=times)
    said = warned(table, loss, rows(PAIR), tmp_path, **how)
    assert len(said) == (words is not None)
    assert (words or "") in "".join(said)


class Diverging(losses.MultipleNegativesRankingLoss):
    "Not a number in the third batch."
    seen = 0

    def forward(self, features, labels=None):
        self.seen += 1
        return super().forward(features, labels) * (math.nan if self.seen == 3 else 1)


def test_a_training_that_gives_no_numbers_is_said_once(table, tmp_path):
    loss = Regularized(table, Diverging(table), [OutReg(1.)])
    said = warned(table, loss, rows(PAIR), tmp_path, max_steps=104)
    assert len(said) == 2
    assert "the loss of batch 3 is nan (base nan, outreg " in said[0]
    assert "the embeddings are no numbers: training has diverged" in said[1]


def test_a_label_that_is_no_number_is_refused_at_once(table, tmp_path):
    data = rows(PAIR).add_column("label", [math.nan] + [0.] * (len(rows(PAIR)) - 1))
    loss = Regularized(table, losses.CosineSimilarityLoss(table), [OutReg(1.)])
    with pytest.raises(ValueError, match=r"1 of the 8 labels of this batch are no numbers \(nan\), the first in its row"):
        trained(table, loss, data, tmp_path, per_device_train_batch_size=8)


def test_a_weight_that_a_short_training_cannot_feel_is_said(table, tmp_path):
    said = warned(table, Regularized(table, mnrl(table), [OutReg(1e-5)]), rows(PAIR), tmp_path, max_steps=12)
    assert len(said) == 1 and re.search(r"at most 0\.0\d% of the gradient in the first 10 batches, and will hardly be felt", said[0])


def test_a_term_that_stays_0_is_said_once(table, tmp_path):
    dice = random.Random(0)
    single = Dataset.from_dict({name: [dice.choice(made.WORDS) for _ in range(8)] for name in PAIR})
    loss = Regularized(table, mnrl(table), [ITVReg(1.), OutReg(1.)])
    said = warned(table, loss, single, tmp_path, max_steps=104)
    assert len(said) == 1
    assert "the term 'itvreg' was 0 in all of the first 100 steps" in said[0]


def test_the_model_card_says_what_was_done(bert, tmp_path):
    loss = Regularized(bert, matryoshka(bert), [ITVReg(2.5, mask_share=.35), SimCSE(.7)])
    trainer = trained(bert, loss, rows(PAIR), tmp_path, max_steps=1)
    bert.save(str(tmp_path / "saved"))
    card = (tmp_path / "saved" / "README.md").read_text("utf-8")
    settings = ['"weight": 2.5', '"mask_share": 0.35', "as it was before training (sha256 "]
    citations = ["2210.10636", "gao2021simcse", "kusupati2024matryoshka", "oord2019"]
    for said in ["Regularized", "MatryoshkaLoss(", *settings, *citations]:
        assert said in card, said
    assert trainer.loss is loss


# ---------------------------------------------------------------- what is refused


def no_mask(model):
    model.tokenizer._special_tokens_map["mask_token"] = None
    return model


def outreg(model, loss, **options):
    "The loss with OutReg."
    return Regularized(model, loss, [OutReg()], **options)


def with_mnrl(model, regularizers, **options):
    "The ranking loss with these regularisers."
    return Regularized(model, mnrl(model), regularizers, **options)


def in_matryoshka(model, loss):
    return losses.MatryoshkaLoss(model, loss, [32])


OBJECTS = "must be objects such as"
A_LOSS = "must be a loss of sentence-transformers, got a function"
A_LIST = r"must be a list, such as \[OutReg\(0.1\)\]"
NO_ENCODER = "a Linear and no SentenceTransformer"
NO_PLACES = "columns must be places, counted from 0, or 'all', got 'anchor'"


@pytest.mark.parametrize("build, error, words", [
    (lambda m: outreg(m, losses.MultipleNegativesRankingLoss), ValueError, r"is a class: pass an instance, MultipleNegativesRankingLoss\(model\)"),
    (lambda m: outreg(m, torch.nn.functional.mse_loss), ValueError, A_LOSS),
    (lambda m: outreg(m, mnrl(copy.deepcopy(m))), ValueError, "made for another model"),
    (lambda m: outreg(m, in_matryoshka(m, mnrl(copy.deepcopy(m)))), ValueError, "made for another model"),
    (lambda m: outreg(m, losses.ContrastiveTensionLoss(m)), ValueError, "ContrastiveTensionLoss keeps no `model`"),
    (lambda m: Regularized(m, outreg(m, mnrl(m)), [ITVReg()]), ValueError, "put all regularisers into one list"),
    (lambda m: Regularized(m, in_matryoshka(m, outreg(m, mnrl(m))), [L2SP()]), ValueError, "into one list"),
    (lambda m: with_mnrl(m, []), ValueError, "regularizers is empty"),
    (lambda m: with_mnrl(m, [OutReg]), ValueError, OBJECTS),
    (lambda m: with_mnrl(m, ["outreg"]), ValueError, OBJECTS),
    (lambda m: with_mnrl(m, [mnrl(m)]), ValueError, "must be objects .*, got a MultipleNegativesRankingLoss$"),
    (lambda m: with_mnrl(m, OutReg()), ValueError, A_LIST),
    (lambda m: with_mnrl(m, "outreg"), ValueError, "must be a list, such as"),
    (lambda m: with_mnrl(m, [OutReg()], base="my/base"), ValueError, "base is a str and no SentenceTransformer"),
    (lambda m: with_mnrl(m, [OutReg()], base=m), ValueError, "`base` is the model itself"),
    (lambda m: with_mnrl(without_dropout(m), [SimCSE()]), ValueError, "SimCSE needs dropout"),
    (lambda m: with_mnrl(no_mask(m), [MaskReg()]), EncoderError, "no mask token"),
    (lambda m: Regularized(torch.nn.Linear(1, 1), mnrl(m), [MaskReg()]), ValueError, NO_ENCODER),
    (lambda m: ITVReg(-1), ValueError, r"weight \(lambda\) must lie in \[0, inf\), got -1"),
    (lambda m: OutReg("0.1"), ValueError, r"weight \(lambda\) must be a number, got '0.1'"),
    (lambda m: OutReg(None), ValueError, r"weight \(lambda\) must be a number, got None"),
    (lambda m: OutReg(True), ValueError, r"weight \(lambda\) must be a number, got True"),
    (lambda m: ITVReg(mask_share="a"), ValueError, "mask_share must be a number, got 'a'"),
    (lambda m: ITVReg(mask_share=50), ValueError, r"mask_share must lie in \(0, 1\), got 50"),
    (lambda m: ITVReg(intervention="masc"), ValueError, "mask, delete, pad, random, got 'masc'"),
    (lambda m: OutReg(rows=0), ValueError, r"rows must lie in \(0, 1\], got 0"),
    (lambda m: OutReg(columns="anchor"), ValueError, NO_PLACES),
    (lambda m: OutReg(columns=-1), ValueError, "columns must be places"),
    (lambda m: OutReg(columns=True), ValueError, "columns must be places"),
    (lambda m: WordDropout(1.), ValueError, r"share must lie in \(0, 1\), got 1"),
])
def test_what_cannot_work_is_refused_when_it_is_built(bert, build, error, words):
    with pytest.raises(error, match=words):
        build(bert)


def test_a_base_of_another_make_is_refused(bert, table):
    with pytest.raises(ValueError, match="differ"):
        Regularized(bert, mnrl(bert), [OutReg()], base=table)


def test_gradient_cache_in_several_processes_is_refused(bert, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r"\(gradient cache\) cannot be regularised in 2 processes"):
        Regularized(bert, matryoshka_cached(bert), [OutReg()])
    Regularized(bert, mnrl(bert), [OutReg()])


def test_packed_texts_are_refused(bert):
    loss = Regularized(bert, mnrl(bert), [OutReg()])
    with pytest.raises(ValueError, match="unpad_inputs = False"):
        loss([{"input_ids": torch.tensor([[7, 8, 9]]), "cu_seq_lens_q": torch.tensor([0, 2, 3])} for _ in PAIR])


@pytest.mark.parametrize("one", [ITVReg(), MaskReg(intervention="delete"), WordDropout(.2)], ids=lambda one: type(one).__name__)
def test_interventions_in_a_chat_template_are_refused(bert, one):
    bert[0].modality_config["message"] = bert[0].modality_config["text"] # as with a tokenizer that has a template
    Regularized(bert, mnrl(bert), [OutReg()])
    with pytest.raises(EncoderError, match="chat template"):
        Regularized(bert, mnrl(bert), [one])


def test_what_only_a_batch_can_show_is_refused_there(bert):
    loss = Regularized(bert, mnrl(bert), [OutReg(columns=(0, 2))])
    with pytest.raises(ValueError, match="asks for column 2, but the data set has 2, counted from 0"):
        loss(*batch_of(bert, PAIR))
    inside = losses.MatryoshkaLoss(bert, Regularized(bert, mnrl(bert), [OutReg()]), [32])
    with pytest.raises(ValueError, match="inside a loss that changes what the model returns; write Regularized"):
        inside(*batch_of(bert, PAIR))
    elsewhere = mnrl(bert)
    loss = Regularized(bert, elsewhere, [OutReg()])
    elsewhere.model = copy.deepcopy(bert)
    with pytest.raises(RuntimeError, match="has not embedded column 0 with the model"):
        loss(*batch_of(bert, PAIR))


TOO_MANY = r"CosineSimilarityLoss cannot be computed from 3 columns of texts without labels \(Attr"
TOO_FEW = r"TripletLoss cannot be computed from 2 columns of texts and labels \(ValueError: not enough"


@pytest.mark.parametrize("make, columns, words", [
    (losses.CosineSimilarityLoss, TRIPLET, TOO_MANY),
    (losses.TripletLoss, SCORED, TOO_FEW),
    (losses.CosineSimilarityLoss, ("anchor", "score"), r"from 1 column of texts and labels \(IndexError"),
])
def test_a_loss_for_other_columns_is_named(bert, make, columns, words):
    loss = Regularized(bert, make(bert), [OutReg()])
    with pytest.raises(ValueError, match=words):
        loss(*batch_of(bert, columns))


def test_an_error_in_the_midst_of_training_is_left_as_it_is(bert):
    loss = Regularized(bert, losses.TripletLoss(bert), [OutReg()])
    loss(*batch_of(bert, TRIPLET))
    with pytest.raises(ValueError, match="^not enough values to unpack"):
        loss(*batch_of(bert, PAIR))


def test_texts_of_a_cross_encoders_trainer_are_refused(bert):
    loss = Regularized(bert, losses.CosineSimilarityLoss(bert), [OutReg()])
    with pytest.raises(ValueError, match="got texts, as CrossEncoderTrainer gives them: .* debias_nb.SCAN"):
        loss([["red kettle"], ["a kettle"]], torch.tensor([1.]))


def test_a_trainer_with_a_model_of_other_weights_is_refused(table, encoders, tmp_path):
    loss = Regularized(table, mnrl(table), [OutReg()])
    with pytest.raises(ValueError, match="trains another model than the one Regularized was made with, and with other weights"):
        trained(moved(copy.deepcopy(encoders["table"])), loss, rows(PAIR), tmp_path)


@pytest.mark.parametrize("regularizers, given", [
    ([OutReg(.1)], False), ([OutReg(.1)], True), ([MaskReg(.1)], False), ([ITVReg(.1), L2SP(.1)], False)])
@pytest.mark.parametrize("name", ["bert", "table"])
def test_each_training_of_a_search_begins_anew(encoders, name, regularizers, given, tmp_path):
    "A trainer with `model_init` makes a model for each training, and puts it into a loss that it has made already."
    base = moved(copy.deepcopy(encoders[name])) if given else None

    def of(model):
        return Regularized(model, mnrl(model), regularizers, base=base)

    model = copy.deepcopy(encoders[name])
    once = trained(model, of(model), rows(PAIR), tmp_path / "once")
    args = once.args
    searching = SentenceTransformerTrainer(
        model_init=lambda: copy.deepcopy(encoders[name]), args=args, train_dataset=rows(PAIR), loss=of)
    for _ in range(2):
        searching.train()
        assert furthest(searching.model, once.model) == 0 < furthest(once.model, encoders[name])
        assert searching.loss.encoder is searching.model and searching.loss.watch.batches == args.max_steps


def test_a_model_of_another_make_is_refused_in_a_search(bert, table):
    loss = Regularized(bert, mnrl(bert), [OutReg()], base=copy.deepcopy(bert))
    loss.model = loss.loss.model = table
    with pytest.raises(ValueError, match="differ"):
        loss(*batch_of(table, PAIR))


def test_a_new_model_that_reaches_only_a_part_of_the_loss_is_refused(bert):
    "BatchHardTripletLoss keeps the model under a name that no trainer looks for."
    loss = Regularized(bert, losses.BatchHardTripletLoss(bert), [L2SP()])
    loss.model = copy.deepcopy(bert)
    with pytest.raises(ValueError, match="BatchHardTripletLoss was made for another model"):
        loss(batch_of(bert, ["anchor"])[0], torch.tensor([0, 1, 0, 1, 2, 2]))


def test_an_adapter_is_made_anew_in_a_search(bert):
    "Of two adapters that do nothing yet one factor is random, and the weights that they amount to are the same."
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(task_type="FEATURE_EXTRACTION", r=4, target_modules=["query", "value"])
    one, other = (copy.deepcopy(bert) for _ in range(2))
    one.add_adapter(settings)
    other.add_adapter(settings)
    loss = Regularized(one, mnrl(one), [OutReg()])
    loss.model = loss.loss.model = other
    assert loss(*batch_of(other, PAIR))["outreg"] < 1e-6


def test_a_text_without_a_vector_spoils_no_weight():
    model = made.without_a_vector_for_the_unknown()
    features = [model.preprocess(["red shoe shoe", "kettle"]), model.preprocess(["shoe", "red"])]
    ranking = losses.MultipleNegativesRankingLoss(model)
    loss = Regularized(moved(model, .5), ranking, [OutReg(1.), ITVReg(1.)])
    with torch.no_grad():
        model[0].embedding.weight[0] = 0
    moved_by = torch.autograd.grad(loss(features)["outreg"], model.parameters())[0]
    assert torch.isfinite(moved_by).all()
    assert moved_by.abs().max() < 100


# ---------------------------------------------------------------- between base and tuned


def test_wise_ft_lies_between(bert, encoders):
    base = encoders["bert"]
    tuned = moved(bert)
    assert furthest(wise_ft(base, tuned, 0.), base) == 0
    assert furthest(wise_ft(base, tuned, 1.), tuned) < 1e-6
    half = wise_ft(base, tuned, .5).state_dict()
    for name, start in base.state_dict().items():
        mean = (start.float() + tuned.state_dict()[name].float()) / 2
        assert torch.allclose(half[name].float(), mean, atol=1e-6)
    assert furthest(base, encoders["bert"]) == 0
    with pytest.raises(ValueError, match=r"share must lie in \[0, 1\], got 1.5"):
        wise_ft(base, tuned, 1.5)


def with_a_shorter_limit(model):
    model.max_seq_length = 5
    return model


def with_other_pooling(model):
    model[1] = Pooling(32, pooling_mode="cls")
    return model


def with_a_default_prompt(model):
    model.prompts = {"search": "why how "}
    model.default_prompt_name = "search"
    return model


@pytest.mark.parametrize("setting", [with_a_shorter_limit, with_other_pooling, with_a_default_prompt])
def test_wise_ft_has_the_settings_of_the_tuned_encoder(bert, encoders, setting):
    base = encoders["bert"]
    tuned = setting(moved(bert))
    texts = ["red kettle", "old lamp of the table with small chair"]
    whole = wise_ft(base, tuned, 1.)
    assert np.allclose(whole.encode(texts), tuned.encode(texts), atol=1e-5)
    start = wise_ft(base, tuned, 0.)
    assert np.allclose(start.encode(texts), setting(copy.deepcopy(base)).encode(texts), atol=1e-5), "weights of the base"
    assert not np.allclose(start.encode(texts), base.encode(texts), atol=1e-2)


def test_wise_ft_mixes_in_the_precision_of_the_tuned_encoder(bert, encoders):
    half = wise_ft(encoders["bert"], moved(bert).half(), .5)
    assert {weight.dtype for weight in half.parameters()} == {torch.float16}


def with_adapter(model, **settings):
    "The model with a LoRA of which both factors are random."
    peft = pytest.importorskip("peft")
    model.add_adapter(peft.LoraConfig(
        task_type="FEATURE_EXTRACTION", r=4, target_modules=["query", "value"], init_lora_weights=False, **settings))
    return model


@pytest.mark.parametrize("settings", [{}, {"modules_to_save": ["dense"]}], ids=["lora", "and a layer as a whole"])
def test_wise_ft_merges_an_adapter(bert, encoders, settings, tmp_path):
    "A mixture of the factors of an adapter would be no mixture of the weights."
    base = encoders["bert"]
    tuned = with_adapter(bert, **settings).eval()
    texts = ["red kettle", "old lamp for a table"]
    whole = wise_ft(base, tuned, 1.)
    assert np.allclose(whole.encode(texts), tuned.encode(texts), atol=1e-5)
    assert not np.allclose(whole.encode(texts), base.encode(texts), atol=1e-2)
    half = wise_ft(base, tuned, .5)
    name = "0.model.encoder.layer.0.attention.self.query.weight"
    mean = (base.state_dict()[name] + whole.state_dict()[name]) / 2
    assert torch.allclose(half.state_dict()[name], mean, atol=1e-6)
    assert half.state_dict().keys() == base.state_dict().keys(), "it has no adapter itself"
    assert all(weight.requires_grad for weight in half.parameters()), "it can be trained on"
    half.save(str(tmp_path), create_model_card=False)
    assert np.allclose(made.load(tmp_path).encode(texts), half.encode(texts), atol=1e-5), "and is saved as a whole"
    with pytest.raises(ValueError, match="base has an adapter"):
        wise_ft(tuned, copy.deepcopy(tuned), .5)


def test_a_base_without_the_adapter_is_refused(bert, encoders):
    model = with_adapter(bert)
    with pytest.raises(ValueError, match="the model has an adapter and `base` has none"):
        Regularized(model, mnrl(model), [OutReg(1.)], base=encoders["bert"])


def test_an_adapter_alone_is_trained(bert, tmp_path):
    model = with_adapter(bert)
    before = copy.deepcopy(model.state_dict())
    regularizers = [ITVReg(1.), OutReg(1.), L2SP(1.)]
    loss = Regularized(model, mnrl(model), regularizers)
    start = embed(loss.base, tokenise(model, ["red kettle"]))
    trained(model, loss, rows(PAIR), tmp_path)
    moved_weights = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert moved_weights and all("lora" in name for name in moved_weights)
    assert torch.equal(embed(loss.base, tokenise(model, ["red kettle"])), start)
    assert not torch.allclose(embed(model, tokenise(model, ["red kettle"])), start, atol=1e-3)


LIGHT = """
import sys
import debias_nb.regularized

assert not {"sentence_transformers", "transformers", "datasets"} & set(sys.modules)
"""


def test_importing_the_losses_does_not_import_the_trainer():
    subprocess.run([sys.executable, "-c", LIGHT], check=True)
