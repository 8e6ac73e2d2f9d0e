"Regularizers for any loss of sentence-transformers: one pass, honest draws, nothing silent."
import copy
import inspect
import random
import re
import warnings
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Pooling

import made
from debias_nb import ITVReg, L2SP, LeastSquares, MaskReg, OutReg, Regularized, SimCSE, WordDropout
from debias_nb import wise_ft
from debias_nb.losses.batches import Batch, TextStream, View, embeddings_by_column, encode_rows, read_column
from debias_nb.encoders.tokens import EncoderError, embed, tokenize
from debias_nb.losses.pair_losses import cosines
from debias_nb.losses.gradient_shares import gradient_shares
from debias_nb.losses.regularized import Draws
from debias_nb.trainer import training_arguments

PAIR = ("anchor", "positive")
TRIPLET = ("anchor", "positive", "negative")
SCORED_PAIR = ("anchor", "positive", "score")


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
OTHER_TEXTS = [text(_dice) for _ in range(11)]


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


def move(model, step=.05):
    "The encoder elsewhere than its base, so that no term is 0."
    torch.manual_seed(1)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(step * torch.randn_like(weights))
    return model


def trainer_of(model, loss, data, folder, **changes):
    settings = dict(per_device_train_batch_size=8, learning_rate=1e-2, max_steps=4, seed=3, use_cpu=True)
    args = training_arguments(folder, **settings | changes)
    has_evaluation = changes.get("eval_strategy", "no") != "no"
    return SentenceTransformerTrainer(
        model=model, args=args, train_dataset=data, eval_dataset=data if has_evaluation else None, loss=loss)


def train(model, loss, data, folder, **changes):
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


def layers(model):
    return losses.AdaptiveLayerLoss(model, mnrl(model))


def cached_mnrl(model):
    return losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=4)


def matryoshka(model):
    return losses.MatryoshkaLoss(model, mnrl(model), [16, 8])


SHARING = [
    ("bert", mnrl, PAIR),
    ("bert", mnrl, TRIPLET),
    ("bert", losses.CoSENTLoss, SCORED_PAIR),
    ("bert", matryoshka, TRIPLET),
    ("bert", layers, PAIR),
    ("table", mnrl, TRIPLET),
    ("table", matryoshka, PAIR),
    ("table", losses.CosineSimilarityLoss, SCORED_PAIR),
]


@contextmanager
def count_texts(model):
    "How many texts the first module of an encoder is given."
    counts = []

    def count(module, inputs):
        features = inputs[0]
        counts.append(len(features["offsets"] if "offsets" in features else features["input_ids"]))

    handle = model[0].register_forward_pre_hook(count)
    yield counts
    handle.remove()


def moved_copy(encoder, step=None):
    "An encoder that was trained, so that no term is 0: a table needs longer steps to move as far."
    step = step or (.5 if encoder[0].__class__.__name__ == "StaticEmbedding" else .05)
    return move(copy.deepcopy(encoder), step)


def outreg_apart(model, base, texts):
    "OutReg of some texts, from passes of their own."
    tokens = tokenize(model, texts)
    return (2 - 2 * cosines(embed(model, tokens), embed(base, tokens))).mean()


@pytest.mark.parametrize("name, make, columns", SHARING)
def test_a_batch_is_embedded_once_and_its_terms_are_those_of_separate_passes(encoders, name, make, columns):
    base = encoders[name]
    model = moved_copy(base)
    with count_texts(model) as plain_counts:
        plain = make(model)(*batch_of(model, columns))
    loss = Regularized(model, make(model), [OutReg(.5, columns="all"), ITVReg(2., columns=1)], base=base)
    np.random.seed(0)
    terms = loss(*batch_of(model, columns)) # the first batch leaves a few texts to compare with later
    with count_texts(model) as counts:
        loss(*batch_of(model, columns))
    assert sum(counts) == sum(plain_counts) + 6, "what is changed, besides"
    assert "forward" not in vars(model) or "noting" not in repr(model.forward)
    texts = [rows(columns, 6)[column] for column in columns if column != "score"]
    np.random.seed(0)
    second = tokenize(model, texts[1])
    intervened, weight = Draws().intervention(model, second, .5, "mask")
    importance, at_base = (cosines(embed(encoder, second), embed(encoder, intervened)) for encoder in (model, base))
    assert torch.isclose(terms["base"], plain, atol=1e-5)
    single_passes = torch.stack([outreg_apart(model, base, part) for part in texts]).mean()
    assert torch.isclose(terms["outreg"], .5 * single_passes, atol=1e-5) and terms["outreg"] > 1e-3
    change = ((importance - at_base) ** 2)[weight > 0].mean()
    assert torch.isclose(terms["itvreg"], 2 * change, atol=1e-5) and terms["itvreg"] > 1e-5


class OwnLoss(torch.nn.Module):
    "A loss of one's own: a function of the model, and of the columns and labels of a batch."
    def __init__(self, model, work, inner=None):
        super().__init__()
        self.model = model
        self.work = work
        self.inner = inner # a loss, under a name of its own

    def forward(self, features, labels=None):
        return self.work(self.model, features) if self.inner is None else self.inner(features, labels)


def of_copies(order):
    "Embeds copies of the columns in some order."
    def work(model, features):
        embeddings = {place: model(dict(features[place]))["sentence_embedding"] for place in order}
        return 1 - cosines(embeddings[0], embeddings[1]).mean()
    return lambda model: OwnLoss(model, work)


def in_one_pass(model):
    embed_columns = pytest.importorskip("sentence_transformers.base.losses.merged_forward").embed_columns # since 6.0

    def distance(model, features):
        left, right = embed_columns(model, features, separate_first=False)[:2]
        return 1 - cosines(left, right).mean()

    return OwnLoss(model, distance)


def of_other_texts(model, features):
    return model(model.preprocess(["a lamp"] * len(features[0]["input_ids"])))["sentence_embedding"].square().mean()


def with_a_teacher(model, features):
    "First embeds without gradient, with the model itself."
    with torch.no_grad():
        teacher = [model(dict(column))["sentence_embedding"] for column in features]
    learner = [model(column)["sentence_embedding"] for column in features]
    return sum((a - b).square().mean() for a, b in zip(teacher, learner))


@pytest.mark.parametrize("name", ["bert", "table"])
@pytest.mark.parametrize("make", [
    of_copies((0, 1, 2)), of_copies((2, 1, 0)), in_one_pass],
    ids=["copies", "copies from the last on", "one pass"])
def test_columns_are_told_by_their_texts(encoders, name, make):
    base = encoders[name]
    model = moved_copy(base)
    for column in range(3):
        loss = Regularized(model, make(model), [OutReg(1., columns=column)], base=base)
        term = loss(*batch_of(model, TRIPLET))["outreg"]
        single_pass = outreg_apart(model, base, rows(TRIPLET, 6)[TRIPLET[column]])
        assert torch.isclose(term, single_pass, atol=1e-5) and term > 1e-3


def test_other_texts_and_texts_that_only_begin_alike_are_no_column(bert):
    loss = Regularized(bert, OwnLoss(bert, of_other_texts), [OutReg(1., columns=1)])
    with pytest.raises(RuntimeError, match="OwnLoss .* column 1"):
        loss(*batch_of(bert, PAIR))
    short = {"input_ids": torch.tensor([[7, 8], [9, 0]]), "attention_mask": torch.tensor([[1, 1], [1, 0]])}
    longer = {"input_ids": torch.tensor([[7, 8, 5], [9, 0, 0]]), "attention_mask": torch.tensor([[1, 1, 1], [1, 0, 0]])}
    with_padding = longer | {"attention_mask": torch.tensor([[1, 1, 0], [1, 0, 0]])}
    assert not embeddings_by_column([(longer, torch.eye(2))], [short], 2)
    assert embeddings_by_column([(with_padding, torch.eye(2))], [short], 2)[0] is not None


def test_a_pass_without_gradient_is_not_shared(bert):
    base = copy.deepcopy(bert)
    loss = Regularized(move(bert), OwnLoss(bert, with_a_teacher), [OutReg(1.)], base=base)
    features, _ = batch_of(bert, PAIR)
    assert loss(features)["outreg"].requires_grad
    with torch.no_grad():
        assert loss(batch_of(bert, PAIR)[0])["outreg"] > 1e-3, "in an evaluation no pass has a gradient"
    frozen = Regularized(bert.requires_grad_(False), OwnLoss(bert, with_a_teacher), [OutReg(1.)], base=base)
    assert frozen(batch_of(bert, PAIR)[0])["outreg"] > 1e-3, "and none of an encoder that is not trained"


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_labels_that_are_no_numbers_are_refused(bert, wrong):
    features, labels = batch_of(bert, [*PAIR, "score"])
    loss = Regularized(bert, losses.CoSENTLoss(bert), [OutReg(1.)], base=copy.deepcopy(bert))
    assert loss(features, labels)["base"].isfinite() and loss(features, torch.tensor([1, 0] * 3))["base"].isfinite()
    labels[4] = wrong
    with pytest.raises(ValueError, match="labels: row 4 is not finite"):
        loss(batch_of(bert, PAIR)[0], labels)


@pytest.mark.parametrize("regularizers",
                         [[OutReg(3.)], [ITVReg(30.), MaskReg(3., columns=(0, 1))], [ITVReg(9., rows=.5)]])
@pytest.mark.parametrize("make", [
    cached_mnrl, lambda model: losses.MatryoshkaLoss(model, cached_mnrl(model), [16, 8]),
    lambda model: OwnLoss(model, None, cached_mnrl(model))],
    ids=["cache", "within Matryoshka", "within one's own"])
def test_gradient_cache_gives_the_gradient_of_one_pass_in_mini_batches(encoders, regularizers, make):
    gradients = []
    base = encoders["bert"]
    for build in (matryoshka if make(base).__class__ is losses.MatryoshkaLoss else mnrl, make):
        model = moved_copy(base)
        loss = Regularized(model, build(model), regularizers, base=base)
        loss.watch = None
        np.random.seed(5)
        with count_texts(model) as counts:
            torch.stack(list(loss(*batch_of(model, PAIR, 10)).values())).sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert max(counts) == 4, "no more activations are kept than those of a mini-batch"
    assert gradients[0].norm() > .01
    assert torch.allclose(*gradients, atol=1e-4 * float(gradients[0].abs().max()))


@pytest.mark.parametrize("name, make, columns", [
    ("bert", mnrl, PAIR),
    ("bert", cached_mnrl, PAIR),
    ("bert", matryoshka, TRIPLET),
    ("bert", losses.CoSENTLoss, SCORED_PAIR),
    ("table", mnrl, TRIPLET),
])
def test_a_regularizer_of_no_weight_is_plain_fine_tuning(encoders, name, make, columns, tmp_path):
    "Dropout included: to the last bit."
    plain = copy.deepcopy(encoders[name])
    copied_model = copy.deepcopy(encoders[name])
    train(plain, make(plain), rows(columns), tmp_path)
    regularizers = [OutReg(0.), L2SP(0.), ITVReg(0., rows=.5), SimCSE(0.), ITVReg(0., texts=OTHER_TEXTS)]
    train(copied_model, Regularized(copied_model, make(copied_model), regularizers), rows(columns), tmp_path)
    assert furthest(plain, copied_model) == 0 < furthest(plain, encoders[name])


# ---------------------------------------------------------------- draws


def changed_texts(monkeypatch):
    "What the student is given for X', in each step."
    token_log = []
    encode = View.encode

    def record(self, tokens):
        token_log.append(tokens)
        return encode(self, tokens)

    monkeypatch.setattr(View, "encode", record)
    return token_log


def test_every_step_draws_and_a_repeated_run_repeats(encoders, monkeypatch, tmp_path):
    token_log = changed_texts(monkeypatch)
    equal_pairs = Dataset.from_dict({name: ["red kettle with a lamp for the old chair"] * 8 for name in PAIR})
    for _ in range(2):
        model = copy.deepcopy(encoders["table"])
        train(model, Regularized(model, mnrl(model), [ITVReg(1.)]), equal_pairs, tmp_path, max_steps=3)
    masks = [tokens.mask.tolist() for tokens in token_log]
    assert masks[:3] == masks[3:], "the same run"
    assert masks[0] != masks[1] != masks[2] != masks[0], "one batch per epoch, and other interventions in each"
    assert len({tuple(row) for row in masks[0]}) > 1, "and for each text of a batch"


REGULARIZERS = [
    ITVReg(1., rows=.5), OutReg(.1), MaskReg(.1), SimCSE(.1), WordDropout(.3),
    OutReg(.1, texts=OTHER_TEXTS), ITVReg(.1, texts=OTHER_TEXTS, texts_per_batch=3),
]


@pytest.mark.parametrize("regularizer", [*REGULARIZERS, L2SP(.1)])
def test_a_base_is_kept_where_a_regularizer_reads_it_alone(bert, regularizer):
    loss = Regularized(bert, mnrl(bert), [regularizer])
    assert (loss.base is not None) == isinstance(regularizer, ITVReg | OutReg | L2SP)


def six_steps(folder, out, **settings):
    "A model trained for six steps, of which the third leaves a checkpoint."
    model = made.load(folder)
    loss = Regularized(model, mnrl(model), REGULARIZERS)
    trainer = trainer_of(model, loss, rows(PAIR), out, max_steps=6, save_strategy="steps", save_steps=3)
    trainer.train(**settings)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "table"])
def test_a_resumed_run_goes_on_as_if_nothing_had_been(folders, encoders, name, tmp_path):
    uninterrupted = six_steps(folders[name], tmp_path)
    second = six_steps(folders[name], tmp_path, resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert furthest(uninterrupted, second) == 0 < furthest(uninterrupted, encoders[name])


def with_base(folder, out, base, **settings):
    "Four steps of a training, of which the second leaves a checkpoint."
    model = made.load(folder)
    loss = Regularized(model, mnrl(model), [OutReg(1.)], base=base and made.load(base))
    trainer_of(model, loss, rows(PAIR), out, save_strategy="steps", save_steps=2).train(**settings)


def test_a_training_taken_up_with_another_base_is_refused(folders, tmp_path):
    with_base(folders["table"], tmp_path, None)
    checkpoint = str(tmp_path / "checkpoint-2")
    with_base(folders["table"], tmp_path, None, resume_from_checkpoint=checkpoint)
    with_base(checkpoint, tmp_path, folders["table"], resume_from_checkpoint=checkpoint)
    with pytest.raises(ValueError, match=r"resumed with its checkpoint \(sha256 \w{12}\) as the base .*: make "
                       "Regularized with"):
        with_base(checkpoint, tmp_path, None, resume_from_checkpoint=checkpoint)


# ---------------------------------------------------------------- other texts


@pytest.mark.parametrize("name, make", [
    ("bert", mnrl), ("bert", cached_mnrl), ("bert", matryoshka), ("bert", LeastSquares), ("table", mnrl),
    ("table", LeastSquares)])
def test_terms_of_other_texts_are_those_of_each_text(encoders, monkeypatch, name, make):
    base = encoders[name]
    model = move(copy.deepcopy(base), {"bert": .05, "table": .5}[name])
    loss = Regularized(model, make(model), [ITVReg(1., texts=OTHER_TEXTS, texts_per_batch=99)], base=base)
    token_log = changed_texts(monkeypatch)
    features, scores = batch_of(model, SCORED_PAIR)
    terms = loss(features, scores if make is LeastSquares else None)
    texts, shorter = token_log # the texts, and what is left of them
    assert len(texts) == len(shorter) == len(OTHER_TEXTS)
    change = []
    for row in range(len(OTHER_TEXTS)):
        text, part = (tokens[[row]] for tokens in (texts, shorter))
        if text.ordinary.sum() > 1:
            cosine = [float(cosines(embed(encoder, text), embed(encoder, part))) for encoder in (model, base)]
            change.append((cosine[0] - cosine[1]) ** 2)
    assert float(terms["itvreg"].detach()) == pytest.approx(np.mean(change), abs=1e-5) and terms["itvreg"] > 1e-5


def test_which_texts_are_drawn_follows_from_the_seeds_alone(encoders, monkeypatch, tmp_path):
    "Not from the order of the batches, nor from evaluations; from the seed of the training and from that of the texts."
    blocks = []
    following = TextStream.next

    def record(self, batch):
        block = following(self, batch)
        if torch.is_grad_enabled():
            blocks[-1].append(block.tokens.ids.tolist())
        return block

    monkeypatch.setattr(TextStream, "next", record)
    settings = [{}, {"data": 1}, {"eval_strategy": "steps", "eval_steps": 1}, {"seed": 4}, {"texts": 1}]
    for changes in settings:
        changes = dict(changes)
        model = copy.deepcopy(encoders["table"])
        data = rows(PAIR, seed=changes.pop("data", 0))
        loss = Regularized(model, mnrl(model),
                           [OutReg(1., texts=OTHER_TEXTS, seed=changes.pop("texts", 0), texts_per_batch=4)])
        blocks.append([])
        train(model, loss, data, tmp_path, **changes)
    usual, other_data, with_evaluation, other_training, other_texts = blocks
    assert len(usual) == 4 and len({str(block) for block in usual}) > 1
    assert usual == other_data == with_evaluation
    assert usual != other_training and usual != other_texts


def test_texts_are_tokenized_once_and_what_the_base_makes_of_them_is_remembered(bert, tmp_path, monkeypatch):
    (tmp_path / "texts.txt").write_text("\n\n".join(OTHER_TEXTS))
    on_texts = OutReg(1., texts=tmp_path / "texts.txt", texts_per_batch=99)
    assert on_texts.texts == OTHER_TEXTS == OutReg(texts=Dataset.from_dict({"text": OTHER_TEXTS})["text"]).texts
    loss = Regularized(bert, mnrl(bert), [on_texts, OutReg()])
    texts_card, batch_card = loss.get_config_dict()["regularizers"]
    assert texts_card["texts"].startswith("11 (sha256 ") and batch_card["texts"] is None, "a model card holds no texts"
    batches = [batch_of(bert, PAIR) for _ in range(2)]
    loss(*batches[0])
    monkeypatch.setattr(bert, "preprocess", lambda *_, **__: pytest.fail("tokenized again"))
    with count_texts(loss.base) as counts:
        loss(*batches[1])
    assert counts == [6], "the batch's own texts"


# ---------------------------------------------------------------- prompts


@pytest.mark.parametrize("name", ["bert", "table"])
def test_prompts_are_never_touched(encoders, name, monkeypatch, tmp_path):
    model = copy.deepcopy(encoders[name])
    token_log = changed_texts(monkeypatch)
    loss = Regularized(model, mnrl(model), [ITVReg(1., mask_share=.9), MaskReg(.1, .9, "random"), WordDropout(.5)])
    train(model, loss, rows(PAIR), tmp_path, prompts="why how the : ")
    prompt = model.preprocess(["why how the : "])["input_ids"].flatten().tolist()
    prompt = prompt[:-1] if name == "bert" else prompt # without [SEP]
    assert len(token_log) == 8
    for tokens in token_log:
        assert torch.equal(tokens.ids[:, : len(prompt)], torch.tensor(prompt).expand(len(tokens), -1))
        assert tokens.mask[:, : len(prompt)].all()


def test_a_changed_text_is_pooled_as_the_text_is(bert):
    "Where pooling leaves the prompt out, it does so for X', for the base encoder, and for other texts."
    bert[1].include_prompt = False
    texts = ["red kettle", "old lamp for a table"]
    column = read_column(bert, bert.preprocess(texts, prompt="why how "))
    embeddings = encode_rows(bert, column, column.tokens, torch.arange(2))
    expected = bert.encode(texts, prompt="why how ", normalize_embeddings=True, convert_to_tensor=True)
    assert torch.allclose(embeddings, expected, atol=1e-6)
    bert.prompts, bert.default_prompt_name = {"search": "why how "}, "search"
    loss = Regularized(bert, mnrl(bert), [OutReg(1.), OutReg(1., texts=texts)])
    terms = loss([bert.preprocess(texts, prompt="why how ") for _ in PAIR])
    assert terms["outreg"] < 1e-10 > terms["outreg_2"]
    view = loss.streams[0].next(Batch(bert, bert, loss.base, [bert.preprocess(texts)], Draws()))
    assert view.tokens.prompt == column.tokens.prompt > 0
    assert torch.allclose(view.fx, expected[loss.streams[0].order], atol=1e-6)


# ---------------------------------------------------------------- the trainer


def test_several_data_sets_with_a_loss_each_and_a_base_that_stays(bert, tmp_path):
    start = copy.deepcopy(bert)
    first = Regularized(bert, mnrl(bert), [ITVReg(1.)])
    second = Regularized(bert, losses.CoSENTLoss(bert), [OutReg(.1), OutReg(.2, columns=1)], base=moved_copy(bert))
    data = {"pairs": rows(PAIR), "scores": rows(SCORED_PAIR)}
    log = train(bert, {"pairs": first, "scores": second}, data, tmp_path,
                logging_strategy="epoch").state.log_history[0]
    assert {"base", "itvreg", "outreg", "outreg_2"} <= set(log)
    assert first.watch.batches == second.watch.batches == 2
    assert furthest(first.base, start) == 0 < furthest(bert, start)
    assert not first.base.training and len(list(first.parameters())) == len(list(bert.parameters()))
    with_base_given = Regularized(bert, mnrl(bert), [OutReg(1.), L2SP(1.)], base=start)
    sum(with_base_given(*batch_of(bert, PAIR)).values()).backward()
    assert all(weights.requires_grad and weights.grad is None for weights in start.parameters())


CHECKPOINTING = dict(max_steps=2, gradient_checkpointing=True)


@pytest.mark.parametrize("saving, kwargs", [
    (CHECKPOINTING, {"use_reentrant": False}), (CHECKPOINTING, {"use_reentrant": True}),
    (dict(max_steps=2, per_device_train_batch_size=4, gradient_accumulation_steps=2), None),
], ids=["checkpointing", "reentrant", "accumulation"])
def test_what_saves_memory_trains_the_same(encoders, tmp_path, saving, kwargs):
    if kwargs and inspect.getfullargspec(encoders["bert"].gradient_checkpointing_enable).varkw is None:
        pytest.skip("models of sentence-transformers 6.0 do not take what the trainer of transformers 5.17 tells them")
    models = []
    for settings in ({"max_steps": 2}, saving | {"gradient_checkpointing_kwargs": kwargs}):
        model = without_dropout(copy.deepcopy(encoders["bert"]))
        loss = Regularized(model, losses.CosineSimilarityLoss(model), [OutReg(1.), L2SP(.1)])
        train(model, loss, rows(SCORED_PAIR), tmp_path, optim="sgd", learning_rate=.1, **settings)
        assert loss.watch.steps == 2
        models.append(model)
    assert bool(loss.watch.shares) == (kwargs != {"use_reentrant": True}), "which has its gradients once"
    assert furthest(*models) < 1e-6 < furthest(models[0], encoders["bert"])


def test_both_encoders_compute_in_the_same_precision(bert, tmp_path):
    "Before its first step the encoder is its base, and in mixed precision too nothing lies between them."
    without_dropout(bert)
    wrapper = copy.deepcopy(bert)
    settings = dict(bf16=True, max_steps=1, logging_strategy="steps", logging_steps=1)
    trainer = train(bert, Regularized(bert, mnrl(bert), [OutReg(1.)]), rows(PAIR), tmp_path, **settings)
    assert trainer.state.log_history[0]["outreg"] == 0
    assert torch.is_autocast_enabled("cpu") is False
    # as accelerate has it: the model alone is wrapped
    loss = Regularized(wrapper, mnrl(wrapper), [OutReg(1.), ITVReg(1.)])
    wrapper.forward = torch.autocast("cpu", dtype=torch.bfloat16)(wrapper.forward)
    terms = loss(*batch_of(wrapper, PAIR))
    assert terms["outreg"] == 0 == terms["itvreg"]


def test_terms_and_their_shares_in_the_gradient_are_logged(table, tmp_path):
    loss = Regularized(table, mnrl(table), [OutReg(2.), L2SP(.1)])
    settings = dict(max_steps=31, logging_strategy="steps", logging_steps=1)
    *log, _ = train(table, loss, rows(PAIR), tmp_path, **settings).state.log_history
    for entry in log:
        assert abs(entry["loss"] - entry["base"] - entry["outreg"] - entry["l2sp"]) < 3e-4
    shares = [entry["outreg_gradient_share"] for entry in log]
    changes = [step for step in range(2, 32) if shares[step - 1] != shares[step - 2]]
    assert shares[0] == 0 < min(shares[9:]) and max(shares) < 1 and changes == [10, 20, 30]
    weights = list(table.parameters())
    terms = dict(loss(*batch_of(table, PAIR)))
    lengths = {}
    for name, term in terms.items():
        gradient = torch.autograd.grad(term, weights, retain_graph=True)[0]
        lengths[name] = gradient.norm()
    for name, share in gradient_shares(terms, weights).items():
        assert torch.isclose(share, lengths[name] / sum(lengths.values()))


# ---------------------------------------------------------------- what is said


def weak_warnings(model, loss, data, folder, **settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(model, loss, data, folder, **settings)
    return [str(warning.message) for warning in caught if "regularizes next to nothing" in str(warning.message)]


ONE_WORD = Dataset.from_dict({name: [dice.choice(made.WORDS) for _ in range(8)] for dice in [random.Random(0)]
                              for name in PAIR})


@pytest.mark.parametrize("make, regularizers, data, settings, words", [
    (mnrl, [OutReg(1.), L2SP(0.)], rows(PAIR), dict(max_steps=120, learning_rate=2e-2), None),
    (mnrl, [OutReg(.06)], rows(PAIR), dict(max_steps=102),
     r"100 steps 'outreg' had at most 0\.\d+% of the gradient, which"),
    (mnrl, [ITVReg(1.), OutReg(1.)], ONE_WORD, dict(max_steps=102), "30 steps 'itvreg' was 0"),
], ids=["one that is felt, and one of no weight", "a weight that is not felt", "nothing to act on"])
def test_a_term_that_does_nothing_is_said_once(table, tmp_path, make, regularizers, data, settings, words):
    messages = weak_warnings(table, Regularized(table, make(table), regularizers), data, tmp_path, **settings)
    assert len(messages) == (words is not None) and re.search(words or "", "".join(messages))


# ---------------------------------------------------------------- what is refused


def test_a_regularizer_without_its_list_is_explained(table):
    for regularizers in (OutReg(1.), (regularizer for regularizer in [OutReg(1.)])):
        with pytest.raises(ValueError, match=r"regularizers must be a list, such as \[OutReg\(0.1\)\]"):
            Regularized(table, mnrl(table), regularizers)


def test_a_gradient_cache_says_when_training_begins_that_no_shares_are_logged(bert, tmp_path):
    loss = Regularized(bert, cached_mnrl(bert), [OutReg(1.)])
    with pytest.warns(UserWarning, match="gradient cache: no _gradient_share of its regularizers is logged") as seen:
        log = train(bert, loss, rows(PAIR), tmp_path, max_steps=3, logging_steps=1,
                    logging_strategy="steps").state.log_history
    assert sum("gradient cache" in str(warning.message) for warning in seen) == 1
    assert not [name for entry in log for name in entry if name.endswith("_gradient_share")]


def no_mask(model):
    model.tokenizer._special_tokens_map["mask_token"] = None
    return model


def template(model):
    model[0].modality_config["message"] = model[0].modality_config["text"] # as with a tokenizer that has a template
    return model


def with_mnrl(model, *regularizers, **options):
    return Regularized(model, mnrl(model), regularizers, **options)


def in_matryoshka(model, loss):
    return losses.MatryoshkaLoss(model, loss, [32])


def with_adapter(model):
    model[0].base_layer = torch.nn.Linear(1, 1) # as PEFT puts it
    return model


@pytest.mark.parametrize("build, error, words", [
    (lambda m: Regularized(m, in_matryoshka(m, mnrl(copy.deepcopy(m))), [OutReg()]), ValueError,
     "made for another model"),
    (lambda m: Regularized(m, in_matryoshka(m, with_mnrl(m, OutReg())), [L2SP()]), ValueError, "base_loss"),
    (lambda m: with_mnrl(m, OutReg(), base=made.without_a_vector_for_the_unknown()), ValueError, "tokenizers"),
    (lambda m: with_mnrl(m, MaskReg(), base="tiny"), ValueError, "base: 'tiny' is no model .*load_encoder"),
    (lambda m: with_mnrl(without_dropout(m), SimCSE()), ValueError, "SimCSE"),
    (lambda m: with_mnrl(no_mask(m), MaskReg()), EncoderError, "mask token"),
    (lambda m: with_mnrl(template(m), MaskReg(intervention="delete")), EncoderError, "template"),
    (lambda m: with_mnrl(template(m), WordDropout(.2)), EncoderError, "template"),
    (lambda m: Regularized("tiny", mnrl(m), [MaskReg()]), ValueError, "model is a str, and no model"),
    (lambda m: ITVReg(-1), ValueError, "weight"),
    (lambda m: OutReg("20%"), ValueError, r"weight \(lambda\) must be a number, got '20%'"),
    (lambda m: ITVReg(mask_share=50), ValueError, "mask_share"),
    (lambda m: SimCSE(token_dropout=0.), ValueError, "token_dropout"),
    (lambda m: OutReg(rows=0), ValueError, "rows"),
    (lambda m: OutReg(columns="anchor"), ValueError, "columns"),
    (lambda m: OutReg(columns=None), ValueError, "columns"),
    (lambda m: OutReg(seed=1.5), ValueError, "seed"), (lambda m: OutReg(prompt=3), ValueError, "prompt"),
    (lambda m: WordDropout(1.), ValueError, "share"),
    (lambda m: OutReg(texts=["red kettle"]), ValueError, "texts must be two or more, got 1"),
    (lambda m: ITVReg(texts=[b"red", b"kettle"]), ValueError, r"texts\[0\] is b'red', not text"),
    (lambda m: OutReg(texts=pd.DataFrame({"title": ["a", "b"]})), ValueError,
     r"texts is a DataFrame with columns: .* data\['title'\]"),
    (lambda m: OutReg(texts=Dataset.from_dict({"id": ["a", "b"], "text": ["a", "b"]})), ValueError,
     r"texts is a Dataset with columns: .* data\['text'\]"),
    (lambda m: OutReg(texts="red kettle"), ValueError, "red kettle: no such file"),
    (lambda m: OutReg(texts=OTHER_TEXTS, texts_per_batch=.5), ValueError, "texts_per_batch"),
    (lambda m: OutReg(texts=OTHER_TEXTS, columns=1), ValueError, "columns"),
    (lambda m: L2SP(texts=OTHER_TEXTS), ValueError, "texts"),
    (lambda m: wise_ft(m, m, 1.5), ValueError, "share"),
    (lambda m: wise_ft("bert", m, .5), ValueError, "'bert' is no model"),
    (lambda m: Regularized(m, torch.nn.MSELoss(), [OutReg()]), ValueError, "MSELoss does not hold this model"),
    (lambda m: Regularized(m, mnrl, [OutReg()]), ValueError, "no loss of sentence-transformers"),
    (lambda m: wise_ft(m, with_adapter(copy.deepcopy(m)), .5), ValueError, "merge the adapter first"),
    (lambda m: wise_ft(made.without_a_vector_for_the_unknown(), m, .5), ValueError, "tokenizers"),
])
def test_what_cannot_work_is_refused_when_it_is_built(bert, build, error, words):
    with pytest.raises(error, match=words):
        build(bert)


def test_gradient_cache_in_several_processes_is_refused(bert, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="gradient cache"):
        Regularized(bert, in_matryoshka(bert, cached_mnrl(bert)), [OutReg()])
    Regularized(bert, mnrl(bert), [OutReg()])


def test_what_only_a_batch_can_show_is_refused_there(bert, table):
    def run_batch(loss, model=None, features=None):
        "A batch of a loss into which a trainer has put another model."
        if model is not None:
            loss.model = loss.loss.model = model
        loss(features or batch_of(bert, PAIR)[0], None)

    packed_batch = [{"input_ids": torch.tensor([[7, 8, 9]]), "cu_seq_lens_q": torch.tensor([0, 2, 3])} for _ in PAIR]
    half = with_mnrl(bert, L2SP())
    half.model = copy.deepcopy(bert)
    for call, error, words in (
        (lambda: run_batch(with_mnrl(bert, OutReg(columns=(0, 2)))), ValueError,
         "column 2, and the data set has columns 0 to 1"),
        (lambda: run_batch(in_matryoshka(bert, with_mnrl(bert, OutReg()))), ValueError, "Regularized stands inside"),
        (lambda: run_batch(losses.AdaptiveLayerLoss(bert, with_mnrl(bert, L2SP()))), ValueError,
         "Regularized stands inside"),
        (lambda: .5 * with_mnrl(bert, OutReg())(*batch_of(bert, PAIR)), ValueError, "Regularized stands inside"),
        (lambda: run_batch(with_mnrl(bert, OutReg()), features=packed_batch), ValueError, "unpad_inputs"),
        (lambda: run_batch(with_mnrl(bert, OutReg()), model=moved_copy(bert)), ValueError, "with other weights"),
        (lambda: run_batch(with_mnrl(bert, OutReg(), base=copy.deepcopy(bert)), model=table), ValueError,
         "tokenizers|differ"),
        (lambda: half(batch_of(bert, PAIR)[0]), ValueError, "MultipleNegativesRankingLoss was made for another model"),
    ):
        with pytest.raises(error, match=words):
            call()


@pytest.mark.parametrize("name, regularizers, has_base", [
    ("table", [OutReg(.1)], True), ("table", [MaskReg(.1)], False), ("bert", [ITVReg(.1), L2SP(.1)], False)])
def test_each_training_of_a_search_begins_anew(encoders, name, regularizers, has_base, tmp_path):
    "A trainer with `model_init` makes a model for each training, and puts it into a loss that it has made already."
    base = move(copy.deepcopy(encoders[name])) if has_base else None

    def make_loss(model):
        return Regularized(model, mnrl(model), regularizers, base=base)

    model = copy.deepcopy(encoders[name])
    once = train(model, make_loss(model), rows(PAIR), tmp_path / "once")
    args = once.args
    searching = SentenceTransformerTrainer(
        model_init=lambda: copy.deepcopy(encoders[name]), args=args, train_dataset=rows(PAIR), loss=make_loss)
    for _ in range(2):
        searching.train()
        assert furthest(searching.model, once.model) == 0 < furthest(once.model, encoders[name])
        assert searching.loss.encoder is searching.model and searching.loss.watch.batches == args.max_steps


def test_a_text_without_a_vector_spoils_no_weight():
    model = made.without_a_vector_for_the_unknown()
    features = [model.preprocess(["red shoe shoe", "kettle"]), model.preprocess(["shoe", "red"])]
    ranking = losses.MultipleNegativesRankingLoss(model)
    loss = Regularized(move(model, .5), ranking, [OutReg(1.), ITVReg(1.)])
    with torch.no_grad():
        model[0].embedding.weight[0] = 0
    moved_by = torch.autograd.grad(loss(features)["outreg"], model.parameters())[0]
    assert torch.isfinite(moved_by).all()
    assert moved_by.abs().max() < 100


# ---------------------------------------------------------------- between base and tuned


def test_wise_ft_lies_between_with_the_settings_of_the_tuned_encoder(bert, encoders):
    base = encoders["bert"]
    tuned_model = move(bert)
    tuned_model.max_seq_length = 5
    tuned_model[1] = Pooling(32, pooling_mode="cls")
    tuned_model.prompts, tuned_model.default_prompt_name = {"search": "why how "}, "search"
    texts = ["red kettle", "old lamp of the table with small chair"]
    assert np.allclose(wise_ft(base, tuned_model, 1.).encode(texts), tuned_model.encode(texts), atol=1e-5)
    assert furthest(wise_ft(base, tuned_model, 0.), base) == 0 == furthest(base, encoders["bert"])
    half = wise_ft(base, tuned_model, .5).state_dict()
    for name, start in base.state_dict().items():
        mean = (start.float() + tuned_model.state_dict()[name].float()) / 2
        assert torch.allclose(half[name].float(), mean, atol=1e-6)
    assert {weight.dtype for weight in wise_ft(base, tuned_model.half(), .5).parameters()} == {torch.float16}


@pytest.mark.parametrize("make", [losses.CosineSimilarityLoss, losses.MultipleNegativesRankingLoss, LeastSquares])
def test_one_column_of_texts_is_told(encoders, make):
    model = copy.deepcopy(encoders["table"])
    loss = Regularized(model, make(model), [OutReg(1.)])
    with pytest.raises(ValueError, match="cannot be computed on one column of texts .* two, the left and the right"):
        loss([model.preprocess(["red lamp", "old chair"])], torch.tensor([1., 0.]))
