"Retrieval against brute force: with ties everywhere and in any block size. Its parts are checked in their notebook."
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from debias_nb.papers.data.titles import TitleTask
from debias_nb.measures.metrics import bootstrap_weights
from debias_nb.papers.tasks.retrieval import bin_shares, evaluate_retrieval, first_hits
from debias_nb.papers.tasks.retrieval import frequency_bins, propensities
from debias_nb.papers.tasks.retrieval import top_lists


def integers(seed, n, d):
    "Vectors of small whole numbers: exact sums, many ties."
    return torch.from_numpy(np.random.default_rng(seed).integers(-2, 3, (n, d))).float()


def table(queries, items, places=None):
    "All scores as they are defined."
    scores = (queries.double() @ items.double().T).float().numpy()
    if places is not None:
        rows = np.flatnonzero(np.asarray(places) >= 0)
        scores[rows, np.asarray(places)[rows]] = -np.inf
    return scores


def p_at_1(scores, relevance):
    "By brute force: the share of relevant items among those tied for the first place."
    first = scores == scores.max(1, keepdims=True)
    return (first & relevance).sum(1) / first.sum(1)


def some_relevant(rng, n, m, share=.2):
    marks = rng.random((n, m)) < share
    marks[np.arange(n), rng.integers(m, size=n)] = True
    return marks


# ---------------------------------------------------------------- a task


def toy(seed=0, n=60, m=150, **change):
    "Vectors of queries and items, and a task on them."
    rng = np.random.default_rng(seed)
    places = np.where(rng.random(n) < .5, rng.integers(m, size=n), -1)
    marks = some_relevant(rng, n, m, .05)
    marks[np.arange(n)[places >= 0], places[places >= 0]] = False
    marks[np.arange(n), (places + 1) % m] = True
    columns = dict(
        relevance=sp.csr_matrix(marks), itself=places, categories=rng.choice(["Books", "Toys"], n),
        frequency=rng.integers(0, 4, m), accessory=rng.random(n) < .3,
    )
    task = TitleTask("toy", ["q"] * n, ["i"] * m, **(columns | change))
    return integers(seed, n, 3), integers(seed + 1, m, 3), task


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


# ---------------------------------------------------------------- precision


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
    scores = table(q, x, task.itself)
    scores[bars] = -np.inf
    marks = task.relevance.toarray()
    worth = marks / propensities(task.frequency, task.frequency.sum())
    assert propensities([1], math.e**3, 1, 1) == pytest.approx(1 / 3)
    metrics = evaluate_retrieval(q, x, task, block_bytes=size)[0]
    for k in (1, 3, 5):
        hits = [expected_gains(scores[i], marks[i], k) / k for i in range(60)]
        gains = sum(expected_gains(scores[i], worth[i], k) for i in range(60))
        possible = sum(np.sort(worth[i])[::-1][:k].sum() for i in range(60))
        assert metrics[f"p{k}"] == pytest.approx(np.mean(hits))
        assert metrics[f"psp{k}"] == pytest.approx(gains / possible)


# ---------------------------------------------------------------- propensities, parts


def test_evaluation_agrees_with_its_parts():
    q, x, task = toy()
    metrics, resamples = evaluate_retrieval(q, x, task, replicates=20, seed=4)
    scores = table(q, x, task.itself)
    hits = p_at_1(np.where(np.isinf(scores), -99, scores), task.relevance.toarray())
    shares = bin_shares(task.relevance, frequency_bins(task.frequency))
    weights = {
        "p1": np.ones(60),
        "p1[Books]": task.categories == "Books",
        "p1[Toys]": task.categories == "Toys",
        "p1[ordinary]": ~task.accessory,
    }
    for b in range(5):
        weights[f"p1[bin {b + 1}]"] = shares[:, b]
    assert set(metrics) == set(weights) | {"p3", "p5", "psp1", "psp3", "psp5"}
    assert set(resamples) == set(weights)
    draws = bootstrap_weights(60, 20, 4)
    for key, w in weights.items():
        assert metrics[key] == pytest.approx(np.average(hits, weights=w))
        assert resamples[key] == pytest.approx([np.average(hits, weights=d * w) for d in draws])
    assert all(isinstance(v, float) and math.isfinite(v) for v in metrics.values())


def test_what_is_not_known_is_left_out():
    q, x, task = toy(categories=None, accessory=None, frequency=np.zeros(150))
    assert list(evaluate_retrieval(q, x, task)[0]) == ["p1", "p3", "p5"]
    metrics, resamples = evaluate_retrieval(q, x, task, ks=(3,))
    assert list(metrics) == ["p3", "p1"]
    assert list(resamples) == ["p1"]
    _, _, all_accessories = toy(accessory=np.ones(60, bool))
    assert "p1[ordinary]" not in evaluate_retrieval(q, x, all_accessories)[0]


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


def test_lists_for_case_studies_are_the_first_items():
    q, x, task = toy()
    lists = top_lists(q, x, task, [7, 3], k=4)
    scores = table(q, x, task.itself)
    marks = task.relevance.toarray()
    for row, items in zip([7, 3], lists):
        first = np.argsort(-scores[row], kind="stable")[:4]
        assert items == [(i, scores[row, i], marks[row, i]) for i in first]
        for entry in items:
            assert [type(value) for value in entry] == [int, float, bool]


# ---------------------------------------------------------------- who is first


def test_what_has_no_first_hit_is_refused():
    queries, items = integers(0, 7, 3), integers(1, 12, 3)
    marks = sp.csr_array(np.eye(7, 12, dtype=bool))
    broken = items.clone()
    broken[4, 1] = math.nan
    with pytest.raises(ValueError, match="items: row 4 is not finite"):
        first_hits(queries, broken, marks)
    with pytest.raises(ValueError, match="query 0 has no relevant item"):
        first_hits(queries, items, 0 * marks)
