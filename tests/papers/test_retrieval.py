"Retrieval against brute force: with ties everywhere and in any block size. `test_made_again` holds its parts."
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from debias_nb.papers.data.titles import TitleTask
from debias_nb.papers.tasks.retrieval import evaluate_retrieval, first_hits, propensities, top_lists


def integers(seed, n, d):
    "Vectors of small whole numbers: exact sums, many ties."
    return torch.from_numpy(np.random.default_rng(seed).integers(-2, 3, (n, d))).float()


def toy():
    "Vectors of 60 queries and 150 items, and a task on them."
    rng = np.random.default_rng(0)
    queries, places = np.arange(60), np.where(rng.random(60) < .5, rng.integers(150, size=60), -1)
    marks = rng.random((60, 150)) < .05
    marks[queries[places >= 0], places[places >= 0]] = False
    marks[queries, (places + 1) % 150] = True
    task = TitleTask(
        "toy", ["q"] * 60, ["i"] * 150, sp.csr_matrix(marks), places, categories=None,
        frequency=rng.integers(0, 4, 150))
    return integers(0, 60, 3), integers(1, 150, 3), task


class Sizes(TorchDispatchMode):
    "Notes the bytes of the largest tensor that any operation returns."
    largest = 0

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        result = f(*args, **(kwargs or {}))
        for t in result if isinstance(result, (tuple, list)) else [result]:
            if torch.is_tensor(t):
                self.largest = max(self.largest, t.untyped_storage().nbytes())
        return result


@pytest.mark.parametrize("search", [
    lambda q, x, t: evaluate_retrieval(q, x, t, block_bytes=2**20),
    lambda q, x, t: first_hits(q, x, t.relevance, 8, block_bytes=2**20),
    lambda q, x, t: first_hits(q, x, t.relevance, 8, block_bytes=1),
])
def test_memory_is_bounded(search):
    "Of a table of 60 MB, no part larger than a few blocks of 1 MB is ever there."
    n, m = 750, 20_000
    places = sp.csr_matrix((np.ones(n, bool), (range(n), range(n))), shape=(n, m))
    task = TitleTask("large", ["q"] * n, ["i"] * m, places, np.full(n, -1), None, np.zeros(m))
    q, x = integers(0, n, 4), integers(1, m, 4)
    with Sizes() as sizes:
        search(q, x, task)
    assert 2**18 < sizes.largest <= 3 * 2**20


def expected_gains(scores, gains, k):
    "What the first k places of one query hold, where a tie at the last is shared out evenly."
    edge = np.sort(scores)[::-1][k - 1]
    is_above = scores > edge
    level = scores == edge
    left = k - is_above.sum()
    return (gains * is_above).sum() + left * (gains * level).sum() / level.sum()


@pytest.mark.parametrize("size", [1, 5000, 2**24])
def test_evaluation_is_that_of_brute_force(size):
    q, x, task = toy()
    rng = np.random.default_rng(9)
    bars = (rng.random((60, 150)) < .1) & ~task.relevance.toarray()
    task = replace(task, excluded=sp.csr_matrix(bars))
    scores = (q.double() @ x.double().T).float().numpy()
    scores[task.barred.toarray()] = -np.inf
    marks = task.relevance.toarray()
    worth = marks / propensities(task.frequency, task.frequency.sum(), *task.propensity)
    assert propensities([1], math.e**3, 1, 1) == pytest.approx(1 / 3)
    metrics = evaluate_retrieval(q, x, task, block_bytes=size)[0]
    for k in (1, 3, 5):
        hits = [expected_gains(scores[i], marks[i], k) / k for i in range(60)]
        gains = sum(expected_gains(scores[i], worth[i], k) for i in range(60))
        possible = sum(np.sort(worth[i])[::-1][:k].sum() for i in range(60))
        assert metrics[f"p{k}"] == pytest.approx(np.mean(hits))
        assert metrics[f"psp{k}"] == pytest.approx(gains / possible)


@pytest.mark.parametrize("change, words", [
    (dict(queries=torch.ones(59, 3)), "toy: .*59"),
    (dict(ks=(1, 150)), "toy: k"),
    (dict(queries=torch.ones(60, 3).index_fill(0, torch.tensor([3, 9]), -math.inf)), "toy: queries: row 3"),
])
def test_vectors_that_do_not_fit_a_task_are_refused(change, words):
    q, x, task = toy()
    arguments = dict(queries=q, items=x, task=task) | change
    with pytest.raises(ValueError, match=words):
        evaluate_retrieval(**arguments)
    if "ks" not in change:
        with pytest.raises(ValueError, match=words):
            top_lists(rows=[0], **arguments)


def test_what_has_no_first_hit_is_refused():
    queries, items = integers(0, 7, 3), integers(1, 12, 3)
    marks = sp.csr_array(np.eye(7, 12, dtype=bool))
    broken = items.clone()
    broken[4, 1] = math.nan
    with pytest.raises(ValueError, match="items: row 4 is not finite"):
        first_hits(queries, broken, marks, 1)
    with pytest.raises(ValueError, match="query 0 has no relevant item"):
        first_hits(queries, items, 0 * marks, 1)
