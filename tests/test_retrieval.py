"""Retrieval against brute force: with ties everywhere, in any block size, whatever is guessed with; precision against every order of tied items."""
import itertools, math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings, strategies as st
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from debias_nb import retrieval
from debias_nb.data.titles import TitleTask
from debias_nb.metrics import bootstrap_weights
from debias_nb.retrieval import (FirstHit, TopK, bin_shares, evaluate_retrieval, first_hits, frequency_bins, last_ties, precision_at, propensities, psp_at, recall_at, reciprocal_rank,
                                 top_k, top_lists)

BF16, F32 = torch.bfloat16, torch.float32
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]

def whole(seed, n, d, low=-2, high=3): return torch.from_numpy(np.random.default_rng(seed).integers(low, high, (n, d))).float() # exact sums, many ties
def normal(seed, n, d): return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d))).float()

def table(queries, items, own=None):
    "All scores as they are defined."
    scores = (queries.double() @ items.double().T).float().numpy()
    if own is not None:
        rows = np.flatnonzero(np.asarray(own) >= 0)
        scores[rows, np.asarray(own)[rows]] = -np.inf
    return scores

def itself(own, m):
    "One item barred for each query, -1: none."
    own = np.asarray(own)
    rows = np.flatnonzero(own >= 0)
    return sp.csr_array((np.ones(len(rows), bool), (rows, own[rows])), shape=(len(own), m))

def p_at_1(scores, relevance):
    "By brute force: the share of relevant items among those tied for the first place."
    first = scores == scores.max(1, keepdims=True)
    return (first & relevance).sum(1) / first.sum(1)

def agrees(top, scores, k):
    order = np.argsort(-scores, axis=1, kind="stable")
    best = np.take_along_axis(scores, order, 1)
    assert (top.items.numpy() == order[:, :k]).all() and (top.scores.numpy() == best[:, :k]).all()
    assert (top.tied.numpy() == (best[:, k] == best[:, k - 1] if scores.shape[1] > k else np.zeros(len(scores), bool))).all()

def some_relevant(rng, n, m, share=.2):
    marks = rng.random((n, m)) < share
    marks[np.arange(n), rng.integers(m, size=n)] = True
    return marks


# ---------------------------------------------------------------- top k

@settings(deadline=None, max_examples=60)
@given(st.data())
def test_small_problems_against_brute_force(data):
    n, m, d = data.draw(st.integers(1, 7)), data.draw(st.integers(2, 40)), data.draw(st.integers(1, 4))
    q, x = whole(data.draw(st.integers(0, 10**6)), n + m, d).split([n, m])
    own = data.draw(st.lists(st.integers(-1, m - 1), min_size=n, max_size=n) | st.none())
    k = data.draw(st.integers(1, m - (own is not None and max(own) >= 0)))
    scores = table(q, x, own)
    top = top_k(q, x, k, data.draw(st.sampled_from([1, 300, 5000, 2**24])), excluded=None if own is None else itself(own, m))
    assert top.items.dtype == torch.long and top.scores.dtype == F32 and top.tied.dtype == torch.bool and len(top) == n
    agrees(top, scores, k)

@pytest.mark.parametrize("kind", ["whole", "normal", "twice", "same", "up", "down", "zero", "clusters", "far"])
def test_large_problems_against_brute_force(kind):
    "Large enough for guesses; hard ones too: nothing but ties, scores that rise or fall along the file, empty vectors, crowds, all vectors alike."
    n, m, d, k = 40, 6000, 8, 7
    q, x = whole(1, n + m, d).split([n, m]) if kind in ("whole", "zero") else normal(1, n + m, d).split([n, m])
    x, q = x.clone(), q.clone()
    if kind == "twice": x[3000:] = x[:3000]
    if kind == "same": x[:] = x[0]
    if kind in ("up", "down"): q[:] = q[0]; x = x[(x @ q[0]).argsort(descending=kind == "down")]
    if kind == "zero": q[::2] = 0; x[::3] = 0
    if kind == "clusters": x = x[:60].repeat(100, 1) + 1e-4 * x
    if kind == "far": x = x + 1000
    own = np.arange(n) * 3 - 1
    scores = table(q, x, own)
    for rough, size in itertools.product([(), (F32,), (BF16,), (BF16, F32)], [2**15, 2**24]): agrees(top_k(q, x, k, size, rough, itself(own, m)), scores, k)
    agrees(top_k(q, x, k, excluded=itself(own, m)), scores, k)

@pytest.mark.parametrize("rough", [BF16, F32])
def test_a_proved_guess_is_right_and_an_unproved_one_is_not_used(rough, monkeypatch):
    q, x = normal(0, 60, 32), normal(1, 6000, 32)
    keys, proved = retrieval._guess(q, x, 5, sp.csr_array((60, 6000), dtype=bool), rough, 2**20)
    assert proved.all()
    monkeypatch.setattr(retrieval, "_guess", lambda *a: (torch.zeros(60, 6, dtype=torch.long), torch.arange(60) % 2 == 1) if a[4] == BF16 else (keys[::2], proved[::2]))
    top = top_k(q, x, 5, rough=(BF16, rough if rough == F32 else torch.float16))
    reference = top_k(q, x, 5, rough=())
    assert torch.equal(top.items[::2], reference.items[::2]), "unproved queries come from the next guess"
    assert (top.items[1::2] == retrieval._LAST).all(), "proved ones are taken as they are"

@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float64, F32, torch.float16, BF16])
def test_types_and_devices(device, dtype):
    q, x = normal(0, 30, 16).to(dtype), normal(1, 4000, 16).to(dtype)
    top = top_k(q.to(device, copy=True).requires_grad_(), x.to(device), 5, excluded=itself([4] * 30, 4000))
    assert {t.device.type for t in (top.items, top.scores, top.tied)} == {"cpu"} and not top.scores.requires_grad
    agrees(top, table(q, x, [4] * 30), 5)

class Placed(TorchFunctionMode):
    "Notes the tensors that are made without a word about their device."
    MAKERS = {torch.arange, torch.as_tensor, torch.empty, torch.from_numpy, torch.full, torch.ones, torch.tensor, torch.zeros}
    def __init__(self): super().__init__(); self.lost = []
    def __torch_function__(self, f, types, args=(), kwargs=None):
        if f in self.MAKERS and "device" not in (kwargs or {}): self.lost.append(f.__name__)
        return f(*args, **(kwargs or {}))

def test_every_tensor_is_made_on_the_device_of_the_vectors():
    "What no GPU is needed to see."
    q, x, bars = whole(0, 20, 4), whole(1, 4000, 4), itself(np.arange(20), 4000)
    marks = sp.csr_array(np.arange(4000)[None] % 7 == np.arange(20)[:, None] % 7) # own items are relevant here, and never count
    with Placed() as placed:
        torch.zeros(3)
        assert placed.lost.pop() == "zeros", "this one is noticed"
        for rough in ((), (F32, BF16)): top = top_k(q, x, 5, 2**18, rough, bars)
        assert last_ties(q, x, top, marks, excluded=bars).size.max() > 5
    assert not placed.lost

def test_reduced_precision_of_products_is_not_guessed_with():
    cpu = torch.device("cpu")
    assert F32 in retrieval._rough_types(cpu)
    torch.set_float32_matmul_precision("medium")
    try: assert F32 not in retrieval._rough_types(cpu)
    finally: torch.set_float32_matmul_precision("highest")
    assert retrieval._rough_types(torch.device("cuda")) == (F32,)

@pytest.mark.parametrize("rough", [(), (F32,), (BF16, F32)])
def test_barred_pairs_are_never_found(rough):
    "Even where nearly all that a guess would keep is barred."
    n, m, k = 30, 4000, 6
    q, x, rng = normal(0, n, 8), normal(1, m, 8), np.random.default_rng(2)
    plain, bars = table(q, x), np.zeros((n, m), bool)
    for i in range(n): bars[i, np.argsort(-plain[i])[rng.permutation([0, 3, 50, 2000, 3980][i % 5])]] = True
    bars[5, rng.permutation(m)[: m - k]] = True
    scores = np.where(bars, -np.inf, plain)
    for size in (2**15, 2**24):
        top = top_k(q, x, k, size, rough, sp.csr_matrix(bars))
        order = np.argsort(-scores, axis=1, kind="stable")[:, : k + 1]
        best = np.take_along_axis(scores, order, 1)
        assert (top.items.numpy() == order[:, :k]).all() and (top.tied.numpy() == (best[:, k] == best[:, k - 1])).all() and torch.isfinite(top.scores).all()

def test_no_queries(): assert top_k(torch.empty(0, 3), torch.ones(5, 3), 2).items.shape == (0, 2)

class Sizes(TorchDispatchMode):
    "Notes the bytes of the largest tensor that any operation returns."
    largest = 0
    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        result = f(*args, **(kwargs or {}))
        for t in result if isinstance(result, (tuple, list)) else [result]:
            if torch.is_tensor(t): self.largest = max(self.largest, t.untyped_storage().nbytes())
        return result

@pytest.mark.parametrize("rough", [(), (F32,), (BF16,)])
def test_memory_is_bounded(rough):
    "Of a table of 60 MB, no part larger than a few blocks of 1 MB is ever there."
    q, x = normal(0, 300, 4), normal(1, 50_000, 4)
    with Sizes() as sizes: top_k(q, x, 5, block_bytes=2**20, rough=rough)
    assert 2**18 < sizes.largest <= 3 * 2**20

@pytest.mark.parametrize("change, words", [
    (dict(k=21), ["k is 21", "20 candidates"]), (dict(k=20, excluded=itself([0, -1, -1], 20)), ["k is 20", "query 0 has 19 candidates among 20 items"]), (dict(k=0), ["k is 0"]),
    (dict(items=torch.ones(20, 5)), ["queries have 4 dimensions, items 5"]), (dict(items=torch.ones(0, 4)), ["0 candidates"]),
    (dict(k=4, excluded=sp.csr_array(np.arange(60).reshape(3, 20) >= 43)), ["query 2 has 3 candidates"]), (dict(excluded=sp.csr_array((3, 21), dtype=bool)), ["excluded must be a sparse matrix (3, 20)", "(3, 21)"]),
    (dict(excluded=np.zeros((3, 20), bool)), ["excluded must be a sparse matrix", "ndarray"]),
    (dict(queries=torch.tensor([[1., 1, 1, 1], [1, 1, 1, 1], [1, -math.inf, 1, 1]])), ["queries: row 2 is not finite"]),
    (dict(items=torch.ones(20, 4).index_fill(0, torch.tensor([7, 9]), math.nan)), ["items: row 7 is not finite"]),
    (dict(items=torch.ones(20, 4, dtype=torch.long)), ["items must be a torch matrix of floats", "int64"]), (dict(queries=np.ones((3, 4))), ["queries must be a torch matrix", "ndarray"]),
    (dict(queries=torch.ones(4)), ["queries must be a torch matrix", "(4,)"])])
def test_mistakes(change, words):
    with pytest.raises(ValueError) as e: top_k(**(dict(queries=torch.ones(3, 4), items=torch.ones(20, 4), k=2) | change))
    for w in words: assert w in str(e.value)

def test_huge_finite_vectors_are_no_mistake():
    q, x = torch.full((2, 4), 1e38), normal(0, 4000, 4)
    agrees(top_k(q, x, 3), table(q, x), 3)


# ---------------------------------------------------------------- precision

def by_orders(scores, gains, k):
    "Gains in the first k places, averaged over every order of tied items."
    orders = [p for p in itertools.permutations(range(len(scores))) if all(scores[a] >= scores[b] for a, b in itertools.pairwise(p))]
    return np.mean([sum(gains[i] for i in p[:k]) for p in orders])

@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=2, max_size=6).filter(lambda l: any(r for _, r in l)), st.data())
def test_precision_is_the_mean_over_all_orders(pairs, data):
    scores, hits = map(list, zip(*pairs))
    m = len(scores)
    retrieved = data.draw(st.integers(1, m)); k = data.draw(st.integers(1, retrieved))
    q, x, marks = torch.ones(1, 1), torch.tensor(scores).float()[:, None], sp.csr_array(np.array([hits]))
    top = top_k(q, x, retrieved)
    ties = last_ties(q, x, top, marks)
    assert precision_at(top, marks, [k], ties)[k] == pytest.approx(by_orders(scores, hits, k) / k)
    propensity = np.linspace(.2, .9, m)
    gains = np.array(hits) / propensity
    assert psp_at(top, marks, propensity, [k], ties)[k] == pytest.approx(by_orders(scores, gains, k) / np.sort(gains)[::-1][:k].sum())

@pytest.mark.parametrize("retrieved, size", [(5, 2**24), (5, 500), (12, 4000)])
def test_ties_that_go_on_beyond_what_was_retrieved(retrieved, size):
    rng = np.random.default_rng(0)
    n, m = 50, 90
    q, x, own = whole(0, n, 3), whole(1, m, 3), rng.integers(-1, m, n)
    marks = some_relevant(rng, n, m)
    marks[np.arange(n)[own >= 0], own[own >= 0]] = False
    marks[np.arange(n), (own + 1) % m] = True
    sparse, scores = sp.csr_array(marks), table(q, x, own)
    bars = itself(own, m)
    top = top_k(q, x, retrieved, excluded=bars)
    ties = last_ties(q, x, top, sparse, within=5, block_bytes=size, excluded=bars)
    assert top.tied.any() and (ties.size[top.tied.numpy() == 0] == 0).all()
    found = precision_at(top, sparse, (1, 3, 5), ties)
    for k in (1, 3, 5):
        for i in range(n):
            edge = np.sort(scores[i])[::-1][k - 1]
            above, level = scores[i] > edge, scores[i] == edge
            assert found[k][i] == pytest.approx(((marks[i] & above).sum() + (k - above.sum()) * (marks[i] & level).sum() / level.sum()) / k)
    assert np.allclose(found[1], p_at_1(np.where(np.isinf(scores), -99, scores), marks))

def test_barred_items_do_not_count_among_ties():
    q, x = torch.ones(2, 1), torch.ones(10, 1)
    marks, bars = sp.csr_array(np.arange(10) < np.array([[4], [6]])), sp.csr_array(np.arange(10) >= np.array([[8], [5]]))
    bars = sp.csr_array(bars + itself([0, -1], 10))
    top = top_k(q, x, 2, excluded=bars)
    ties = last_ties(q, x, top, marks, excluded=bars)
    assert ties.size.tolist() == [7, 5] and ties.hits.sum(1).tolist() == [3, 5]
    assert precision_at(top, marks, [1], ties)[1].tolist() == [3 / 7, 1]

def test_no_order_of_the_items_changes_precision():
    rng = np.random.default_rng(0)
    q, x, marks = whole(0, 40, 3), whole(1, 200, 3), some_relevant(rng, 40, 200, .1)
    results = []
    for order in (np.arange(200), rng.permutation(200), np.argsort(-marks.sum(0)), np.argsort(marks.sum(0))):
        sparse, items = sp.csr_array(marks[:, order]), x[torch.from_numpy(order)]
        top = top_k(q, items, 8)
        results.append(precision_at(top, sparse, (1, 3, 5), last_ties(q, items, top, sparse)))
    for other in results[1:]:
        for k in (1, 3, 5): assert np.allclose(results[0][k], other[k])

def test_precision_refuses():
    q, x, marks = torch.ones(2, 1), torch.ones(9, 1), sp.csr_array(np.ones((2, 9), bool))
    top = top_k(q, x, 3)
    with pytest.raises(ValueError, match="query 0: the items tied at place 1.*last_ties"): precision_at(top, marks, [1])
    with pytest.raises(ValueError, match="k is 4, but 3 items"): precision_at(top, marks, [4], last_ties(q, x, top, marks))
    with pytest.raises(ValueError, match="k is 0"): precision_at(top, marks, [0])
    with pytest.raises(ValueError, match="query 1 has no relevant item"): precision_at(top, sp.csr_array(np.arange(18).reshape(2, 9) < 9), [1])
    with pytest.raises(ValueError, match="sparse matrix"): precision_at(top, np.ones((2, 9), bool), [1])
    with pytest.raises(ValueError, match="sparse matrix \\(2, 5\\)"): last_ties(q, x[:5], top, marks)

def test_stored_zeros_and_unsorted_columns_do_not_matter():
    top = TopK(torch.tensor([[2, 0]]), torch.tensor([[2., 1.]]), torch.tensor([False]))
    marks = sp.csr_array((np.array([True, False, True]), np.array([2, 1, 0]), np.array([0, 3])), shape=(1, 3))
    before = marks.indices.copy(), marks.data.copy()
    assert precision_at(top, marks, (1, 2)) == {1: 1, 2: 1}
    assert (marks.indices == before[0]).all() and (marks.data == before[1]).all(), "the caller's matrix stays as it was"


# ---------------------------------------------------------------- propensities, bins

def test_propensities_as_the_repository_computes_them():
    counts, n = np.array([0, 1, 7, 300]), 5000
    c = (math.log(n) - 1) * (1.5 + 1) ** .55 # as the repository writes it, in its inverse form
    assert np.allclose(1 / propensities(counts, n), 1 + c * (counts + 1.5) ** -.55)
    assert (np.diff(propensities(counts, n)) > 0).all()
    for wrong, total, words in (([1, -1], 9, "counts\\[1\\] is -1"), ([1, math.nan], 9, "counts\\[1\\] is nan"), ([[1]], 9, "vector"), ([1], 2, "at least 3"), ([1], math.nan, "at least 3")):
        with pytest.raises(ValueError, match=words): propensities(wrong, total)

def test_propensity_scored_precision_weighs_queries_by_what_they_could_have():
    top = TopK(torch.tensor([[0, 1], [0, 1]]), torch.tensor([[2., 1.], [2., 1.]]), torch.tensor([False, False]))
    marks = sp.csr_array(np.array([[1, 0, 1], [0, 1, 0]], bool))
    assert psp_at(top, marks, [.5, .25, .1], [1, 2]) == {1: pytest.approx(2 / (10 + 4)), 2: pytest.approx((2 + 4) / (12 + 4))}
    for wrong in ([.5, .25], [.5, 0, 1], [.5, 1.5, 1], [.5, math.nan, 1]):
        with pytest.raises(ValueError, match="3 numbers"): psp_at(top, marks, wrong)

@given(st.lists(st.integers(0, 3), min_size=5, max_size=60), st.integers(1, 5))
def test_bins_are_equal_and_ordered(frequency, bins):
    b = frequency_bins(frequency, bins)
    sizes = np.bincount(b, minlength=bins)
    assert sizes.max() - sizes.min() <= 1
    order = sorted(range(len(frequency)), key=lambda i: (frequency[i], i))
    assert (np.diff(b[order]) >= 0).all()

def test_bins_refuse():
    for wrong, bins in (([1, 2], 3), ([[1, 2, 3]], 1), ([1, 2], 0)):
        with pytest.raises(ValueError, match="bins"): frequency_bins(wrong, bins)

def test_shares_of_bins():
    shares = bin_shares(sp.csr_array(np.array([[1, 1, 1, 0], [0, 0, 0, 1]], bool)), [0, 0, 1, 2], 3)
    assert np.allclose(shares, [[2 / 3, 1 / 3, 0], [0, 0, 1]])


# ---------------------------------------------------------------- a task

def toy(seed=0, n=60, m=150, **change):
    rng = np.random.default_rng(seed)
    own = np.where(rng.random(n) < .5, rng.integers(m, size=n), -1)
    marks = some_relevant(rng, n, m, .05)
    marks[np.arange(n)[own >= 0], own[own >= 0]] = False
    marks[np.arange(n), (own + 1) % m] = True
    columns = dict(relevance=sp.csr_matrix(marks), own=own, categories=rng.choice(["Books", "Toys"], n), years=None,
                   frequency=rng.integers(0, 4, m), accessory=rng.random(n) < .3)
    task = TitleTask("toy", ["q"] * n, ["i"] * m, **(columns | change))
    return whole(seed, n, 3), whole(seed + 1, m, 3), task

def test_evaluation_agrees_with_its_parts():
    q, x, task = toy()
    metrics, kept = evaluate_retrieval(q, x, task, replicates=20, seed=4)
    scores = table(q, x, task.own)
    hits = p_at_1(np.where(np.isinf(scores), -99, scores), task.relevance.toarray())
    shares = bin_shares(task.relevance, frequency_bins(task.frequency))
    weights = {"p1": np.ones(60), "p1[Books]": task.categories == "Books", "p1[Toys]": task.categories == "Toys", "p1[ordinary]": ~task.accessory} | {f"p1[bin {b + 1}]": shares[:, b] for b in range(5)}
    assert set(metrics) == set(weights) | {"p3", "p5", "psp1", "psp3", "psp5"} and set(kept) == set(weights)
    drawn = bootstrap_weights(60, 20, 4)
    for key, w in weights.items():
        assert metrics[key] == pytest.approx(np.average(hits, weights=w))
        assert kept[key] == pytest.approx([np.average(hits, weights=d * w) for d in drawn])
    full = top_k(q, x, 149, excluded=task.barred) # everything retrieved: no tie is cut
    p = precision_at(full, task.relevance, (3, 5))
    assert metrics["p3"] == pytest.approx(p[3].mean()) and metrics["p5"] == pytest.approx(p[5].mean())
    assert {k: metrics[f"psp{k}"] for k in (1, 3, 5)} == pytest.approx(psp_at(full, task.relevance, propensities(task.frequency, task.frequency.sum())))
    assert all(isinstance(v, float) and math.isfinite(v) for v in metrics.values())

def test_excluded_pairs_of_a_task():
    q, x, task = toy()
    rng = np.random.default_rng(9)
    bars = (rng.random((60, 150)) < .1) & ~task.relevance.toarray()
    scores = table(q, x, task.own); scores[bars] = -np.inf
    task = replace(task, excluded=sp.csr_matrix(bars))
    assert evaluate_retrieval(q, x, task)[0]["p1"] == pytest.approx(p_at_1(np.where(np.isinf(scores), -99, scores), task.relevance.toarray()).mean())
    assert not any(bars[r, i] for r, found in enumerate(top_lists(q, x, task, range(60))) for i, _, _ in found)

def test_block_size_changes_nothing():
    q, x, task = toy()
    assert evaluate_retrieval(q, x, task, block_bytes=2000) == evaluate_retrieval(q, x, task)

def test_what_is_not_known_is_left_out():
    q, x, task = toy(categories=None, accessory=None, frequency=np.zeros(150))
    assert list(evaluate_retrieval(q, x, task)[0]) == ["p1", "p3", "p5"]
    metrics, kept = evaluate_retrieval(q, x, task, ks=(3,))
    assert list(metrics) == ["p3", "p1"] and list(kept) == ["p1"]
    assert "p1[ordinary]" not in evaluate_retrieval(q, x, toy(accessory=np.ones(60, bool))[2])[0]

def test_a_resample_without_the_part_is_nan():
    q, x, task = toy(categories=np.where(np.arange(60) == 0, "one", "rest"))
    metrics, kept = evaluate_retrieval(q, x, task, replicates=50)
    missing = bootstrap_weights(60, 50, 0)[:, 0] == 0
    assert missing.any() and (np.isnan(kept["p1[one]"]) == missing).all() and not np.isnan(kept["p1"]).any() and math.isfinite(metrics["p1[one]"])

def test_few_candidates_are_enough_for_the_last_place():
    q, x, task = toy(n=4, m=6, own=np.zeros(4, int), relevance=sp.csr_array(np.arange(6)[None].repeat(4, 0) == 3))
    assert evaluate_retrieval(q, x, task, replicates=2)[0]["p5"] == pytest.approx(.2)

def test_vectors_of_another_number_than_the_task_has():
    q, x, task = toy()
    with pytest.raises(ValueError, match="toy: 59 vectors for 60 queries"): evaluate_retrieval(q[1:], x, task)
    with pytest.raises(ValueError, match="toy: 149 vectors for 150 items"): top_lists(q, x[1:], task, [0])

def test_bad_vectors_name_the_task():
    q, x, task = toy()
    q[3, 0] = math.nan
    with pytest.raises(ValueError, match="toy: queries: row 3"): evaluate_retrieval(q, x, task)

def test_lists_for_case_studies():
    q, x, task = toy()
    lists = top_lists(q, x, task, [7, 3], k=4)
    top = top_k(q, x, 4, excluded=task.barred)
    marks = task.relevance.toarray()
    for row, found in zip([7, 3], lists):
        assert found == [(i, s, bool(marks[row, i])) for i, s in zip(top.items[row].tolist(), top.scores[row].tolist())]
        assert all(type(v) is t for entry in found for v, t in zip(entry, (int, float, bool))) and task.own[row] not in [i for i, _, _ in found]
    with pytest.raises(ValueError, match="toy: there is no query 60"): top_lists(q, x, task, [60])


# ---------------------------------------------------------------- who is first

@pytest.mark.parametrize("change, words", [
    (dict(relevance=sp.csr_array(np.arange(3)[:, None] != np.ones((3, 9)))), "query 1 has no relevant item"), (dict(items=sp.csr_array(np.ones((9, 4)))), "both be sparse"),
    (dict(items=torch.ones(9, 3)), "queries have 4 dimensions, items 3"), (dict(queries=torch.ones(3, 4).index_fill(0, torch.tensor([2]), math.nan)), "queries: row 2 is not finite"),
    (dict(nearest=10), "nearest must be 0 to 9, got 10")])
def test_first_hits_refuse(change, words):
    given = dict(queries=torch.ones(3, 4), items=torch.ones(9, 4), relevance=sp.csr_array(np.ones((3, 9), bool)))
    assert first_hits(**given).tied.tolist() == [9, 9, 9]
    with pytest.raises(ValueError, match=words): first_hits(**(given | change))

def test_places_below_the_first_are_refused():
    first = FirstHit(*np.ones((3, 2), int))
    with pytest.raises(ValueError, match="k must be at least 1"): recall_at(first, 0)
    with pytest.raises(ValueError, match="cut must be at least 1"): reciprocal_rank(first, 0)
