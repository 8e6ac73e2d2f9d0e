"Epochs of items, the best epoch, and runs that fail."
import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from debias_nb.runs import runner
from debias_nb.runs.tasks import base_encoder
from debias_nb.runs.settings import HingeTraining, PairMethod
from debias_nb.encoders.planted import planted_encoder
from debias_nb.encoders.tokens import encoder_fingerprint, single_thread
from debias_nb.runs.pair_batches import batches_of, title_tokens
from debias_nb.runs.records import Store, latest
from debias_nb.runs.training import BestEpoch, fine_tune
from made import STATIC, experiment

pytestmark = pytest.mark.usefixtures("cache")
PLAIN_METHOD = PairMethod(name="Finetuned")


@pytest.fixture(autouse=True)
def one_thread():
    runner.quiet_libraries()
    with single_thread():
        yield


@pytest.fixture(scope="module")
def static(cache):
    with single_thread():
        return planted_encoder(STATIC)


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
    assert {name: failure[name] for name in ("status", "step", "error", "metrics", "seed")} == {
        "status": "failed", "step": 1, "error": "the loss is nan", "metrics": {}, "seed": 0}
    repetition = runner.run_all([bad, good], store, workers=1, progress=False)
    assert repetition.trained == []
    assert list(repetition.failed) == [bad.id], "a failure is no record to load"
    assert (sorted(record["status"] for record in store.all())
            == ["failed", "finished"]), "the new failure is in the old one's place"
    assert store.find(bad) is None
