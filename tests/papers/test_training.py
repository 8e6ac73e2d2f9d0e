"""Training, against a loop written by hand.

Interventions that depend on nothing but their row, and runs that fail.
"""
import copy
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.sparse import csr_matrix

from debias_nb.losses import steps
from debias_nb.runs import runner
from debias_nb.runs.tasks import base_encoder
from debias_nb.papers.data.labeled_pairs import training_pairs
from debias_nb.runs.settings import HingeTraining, PairMethod, PairTraining
from debias_nb.encoders.planted import planted_encoder
from debias_nb.encoders.tokens import encoder_fingerprint, single_thread, tokenize
from debias_nb.encoders.interventions import choose
from debias_nb.runs import course
from debias_nb.runs.course import Course, FrozenBase
from debias_nb.runs.pair_batches import PairCollator, batches_of, pair_tokens, title_tokens
from debias_nb.runs.records import Store, latest
from debias_nb.runs.training import BestEpoch, fine_tune, make_loss
from made import STATIC, WORDS, bert, experiment, load, table

PLAIN_METHOD = PairMethod(name="Finetuned")
ITVREG = PairMethod(name="ITVReg", regularizer="itvreg", weight=1., mask_share=.5)


@pytest.fixture(autouse=True)
def one_thread():
    runner.quiet_libraries()
    with single_thread():
        yield


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    "Planted encoders of this file are trained in a folder of its own."
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEBIAS_NB_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def static(cache):
    with single_thread():
        return planted_encoder(STATIC)


@pytest.fixture(scope="module")
def pairs():
    return training_pairs(experiment().blocks[0].corpora[0])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {"bert": bert(folder), "table": table(folder)}


def few(n=24, seed=0):
    "Pairs of random words; the first half match."
    rng = np.random.default_rng(seed)
    left = [" ".join(rng.choice(WORDS, rng.integers(3, 9))) for _ in range(n)]
    matches = [i < n // 2 for i in range(n)]
    right = [left[i] if matches[i] else left[-1 - i] for i in range(n)]
    return left, right, [float(match) for match in matches]


def tune(model, base, pairs, method, seed=0, dtype="fp32", **training):
    "Train a model on pairs of `few`."
    training = PairTraining(**(dict(learning_rate=1e-3) | training))
    fine_tune(model, base, pair_tokens(base, *pairs), method, training, seed=seed, dtype=dtype)


def column(tokens):
    "A column of a batch as the losses take it, with the numbers of its rows."
    return dict(input_ids=tokens.ids, attention_mask=tokens.mask, row=torch.arange(len(tokens)))


@pytest.fixture
def batches_of_rows(monkeypatch):
    "The rows of each batch that is collated, in order."
    batches = []
    collate = PairCollator.__call__

    def record(self, features):
        batches.append([feature["row"] for feature in features])
        return collate(self, features)

    monkeypatch.setattr(PairCollator, "__call__", record)
    return batches


# against a loop written by hand


def test_the_trainer_does_what_a_plain_loop_does(static, pairs, batches_of_rows):
    settings = PairTraining(learning_rate=2e-2, epochs=2, batch_size=96)
    model = copy.deepcopy(static)
    data = pair_tokens(static, pairs.left, pairs.right, pairs.labels)
    loss = fine_tune(model, None, data, PLAIN_METHOD, settings, seed=3)
    batches = batches_of_rows
    n = len(pairs.labels)
    per_epoch = math.ceil(n / 96)
    assert n % 96, "the last batch of an epoch is a short one"
    assert len(batches) == len(loss.history) == 2 * per_epoch
    for epoch in (batches[:per_epoch], batches[per_epoch:]):
        assert sorted(sum(epoch, [])) == list(range(n))
    assert batches[:per_epoch] != batches[per_epoch:]

    W = static[0].embedding.weight.detach().clone().requires_grad_()
    steps = torch.optim.Adam([W], lr=settings.learning_rate)
    curve = []

    def unit(tokens, rows):
        ids = tokens.ids[rows]
        mask = tokens.mask[rows].float()
        mean = (W[ids] * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return mean / mean.norm(dim=1, keepdim=True)

    for rows in batches:
        cosine = (unit(data.left, rows) * unit(data.right, rows)).sum(1)
        error = (cosine - data.labels[rows]).square().mean()
        steps.zero_grad()
        error.backward()
        steps.step()
        curve.append(float(error.detach()))
    assert np.allclose([float(h["erm"]) for h in loss.history], curve, atol=1e-6)
    weight = model[0].embedding.weight
    assert (weight - W).abs().max() < 5e-6
    assert (W - static[0].embedding.weight).abs().max() > .1


# what a trainer is given, and what looks on


def test_an_epoch_of_items_has_each_once_with_a_query_that_is_drawn(static):
    # one of the items is relevant to three queries, and one to none
    relevance = csr_matrix(np.eye(5)[[0, 1, 1, 1, 2, 3]])
    titles = SimpleNamespace(queries=list("abcdef"), items=list("vwxyz"), relevance=relevance,
                             rows=lambda: np.argwhere(relevance.toarray()))
    tokens = title_tokens(static, titles)
    training = HingeTraining(loss="hinge", margin=1, hardest=1, learning_rate=1e-2, epochs=2, batch_size=3,
                             epoch_of="items")
    sampler = batches_of(tokens, training)["batch_sampler"](range(6), batch_size=3, drop_last=False, seed=0)
    queries = set()
    for epoch in range(20):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert [len(rows) for rows in batches] == [3, 1] and len(sampler) == 2
        rows = np.concatenate(batches)
        assert sorted(tokens.item[rows]) == [0, 1, 2, 3]
        queries |= {*tokens.query[rows].tolist()}
    assert queries == set(range(6))
    course = fine_tune(static, copy.deepcopy(static), tokens, PLAIN_METHOD, training, 0)
    assert len(course.history) == 4


def test_the_first_of_the_best_epochs_is_kept(static):
    model = copy.deepcopy(static)
    scores = iter([.2, .9, .9])
    best = BestEpoch(model, lambda _: next(scores))
    for epoch in (1., 2., 3.):
        torch.nn.init.constant_(model[0].embedding.weight, epoch)
        best.on_epoch_end(None, None, None)
    best.on_train_end(None, None, None)
    assert best.scores == [.2, .9, .9] and (model[0].embedding.weight == 2).all()


# interventions


@pytest.mark.parametrize("name", ["bert", "table"])
def test_training_draws_the_same_whatever_the_batches(folders, name, monkeypatch):
    "Row 5 of epoch 1 gets one intervention, in batches of 4 or 7, and when the base encoder is prepared."
    places_of = {}

    def record(tokens, share, seed, epoch, rows=None):
        choices, weight = choose(tokens, share, seed, epoch, rows)
        for row, positions in zip(rows, choices):
            places = positions.nonzero().flatten().tolist()
            assert places_of.setdefault((epoch, int(row)), places) == places
        return choices, weight

    for module in (course, steps): # of the whole training set, and of a batch
        monkeypatch.setattr(module, "choose", record)
    base = load(folders[name])
    for size in (4, 7):
        tune(copy.deepcopy(base), base, few(), ITVREG, seed=1, epochs=2, batch_size=size)
    assert sorted(places_of) == [(epoch, row) for epoch in (0, 1) for row in range(24)]
    assert sum(places_of[0, r] != places_of[1, r] for r in range(24)) > 12, "and another one in the next epoch"


# gradients


def test_the_loss_has_the_gradient_of_the_formula(folders):
    "Two least-squares terms, differentiated through f(X), f(Z) and f(X')."
    model = load(folders["table"])
    base = copy.deepcopy(model)
    shape = base[0].embedding.weight.shape
    base[0].embedding.weight.data += torch.randn(shape, generator=torch.Generator().manual_seed(1))
    left, right, labels = few()
    x = tokenize(model, left)
    z = tokenize(model, right)
    y = torch.tensor(labels)
    method = PairMethod(name="ITVReg", regularizer="itvreg", weight=3., mask_share=.5)
    loss = make_loss(method, model, FrozenBase(base), Course(5))
    sum(loss([column(x), column(z)], y).values()).backward()
    choices, _ = choose(x, .5, 5, 0, np.arange(24))

    def unit(W, mask, ids):
        v = (F.embedding(ids, W) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return v / v.norm(dim=1, keepdim=True)

    def three(W):
        "f(X), f(Z) and f(X')."
        return unit(W, x.mask, x.ids), unit(W, z.mask, z.ids), unit(W, x.mask & ~choices, x.ids)

    W = model[0].embedding.weight.detach().clone().requires_grad_()
    fx, fz, fe = three(W)
    gx, _, ge = three(base[0].embedding.weight.detach())
    erm = (((fx * fz).sum(1) - y) ** 2).mean()
    regularizer = (((fx * fe).sum(1) - (gx * ge).sum(1)) ** 2).mean()
    (erm + 3 * regularizer).backward()
    assert torch.allclose(model[0].embedding.weight.grad, W.grad, atol=1e-6)
    assert base[0].embedding.weight.grad is None


# runs


def test_a_run_that_diverges_is_recorded_with_its_step_and_tried_again(tmp_path, monkeypatch):
    store = Store(tmp_path)
    fingerprint = encoder_fingerprint(base_encoder(STATIC)[0])
    bad = experiment(["OutReg"], [0], learning_rate=1e38).runs()[0]
    good = experiment(["Finetuned"], [1]).runs()[0]
    out = runner.run_all([bad, good], store, workers=1, progress=False)
    assert list(out.records) == [good.id] == out.trained, "the others go on"
    assert encoder_fingerprint(base_encoder(STATIC)[0]) == fingerprint == base_encoder(STATIC)[
        1], "runs of a process share it"
    assert out.failed == {bad.id: "step 1: the loss is nan"}
    failure = latest(store.all())[bad.id]
    assert failure["status"] == "failed"
    assert failure["step"] == 1
    assert failure["error"] == "the loss is nan"
    assert failure["metrics"] == {}
    assert failure["config"]["seed"] == 0
    repetition = runner.run_all([bad, good], store, workers=1, progress=False)
    assert repetition.trained == []
    assert list(repetition.failed) == [bad.id], "a failure is no record to load"
    assert (sorted(record["status"] for record in store.all())
            == ["failed", "finished"]), "the new failure is in the old one's place"
    assert store.find(bad) is None
