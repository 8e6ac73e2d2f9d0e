"Metrics of ranked answers against brute force over the orders of ties."
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from debias_nb.measures.metrics import rank_metrics, rank_replicates
from debias_nb.measures.rankings import corpus_levels

CUTOFFS = 1, 3, 10


@st.composite
def questions(draw, largest=6, levels=2):
    """Scores, grades and groups of the candidates of up to three questions, mixed, with many ties.

    The first candidate of each question is relevant.
    """
    sizes = draw(st.lists(st.integers(1, largest), min_size=1, max_size=3))
    groups = np.repeat([f"q{i}" for i in range(len(sizes))], sizes)
    n = len(groups)
    grades = np.array(draw(st.lists(st.integers(1, 4), min_size=n, max_size=n)))
    grades[np.unique(groups, return_index=True)[1]] = draw(st.integers(3, 4))
    order = draw(st.permutations(range(n)))
    scores = np.array(draw(st.lists(st.integers(0, levels), min_size=n, max_size=n)), float)
    return scores[order], grades[order], groups[order]


def dcg(gains_in_order, k):
    return sum(gain / math.log2(1 + place) for place, gain in enumerate(gains_in_order[:k], 1))


def walk(relevant, gains):
    "Every metric by its definition, of one order of one question."
    ranks = [place for place, is_relevant in enumerate(relevant, 1) if is_relevant]
    precisions = [hit / rank for hit, rank in enumerate(ranks, 1)]
    out = {"map": sum(precisions) / len(ranks), "mrr": 1 / ranks[0], "p1": float(relevant[0])}
    exponential = [2**gain - 1 for gain in gains]
    for suffix, gain in (("", gains), ("_exp", exponential)):
        best = sorted(gain, reverse=True)
        for k in CUTOFFS:
            out[f"ndcg{k}{suffix}"] = dcg(gain, k) / dcg(best, k)
    return out


def over_all_orders(scores, relevant, gains):
    "The mean of every metric over all orders of tied candidates of one question."
    ties = [np.flatnonzero(scores == s) for s in sorted(set(scores), reverse=True)]
    orders_of_ties = [itertools.permutations(tie) for tie in ties]
    orders = [np.concatenate(order).astype(int) for order in itertools.product(*orders_of_ties)]
    values = [walk(relevant[o].tolist(), gains[o].tolist()) for o in orders]
    return {key: np.mean([v[key] for v in values]) for key in values[0]}


@pytest.mark.parametrize("size", [1, 1e-3, 2e4])
def test_a_search_ties_what_float32_cannot_tell_apart(size):
    "Of scores up to 1 the sixth decimal is told, of others the one that is as far from the first digit."
    query = torch.tensor([[1., 0]]) * size
    texts = torch.tensor([[1., 0], [.5, 0], [.5000002, 0], [.500003, 0], [.4999977, 0]])
    levels = corpus_levels(query, texts, np.zeros(1, int), np.ones(1, int), np.ones(1, int), first=2)
    assert (levels.n_better.tolist(), levels.tied.tolist()) == ([2], [2])
    assert sorted(levels.first[0].tolist()) == [0, 3]


def test_a_text_that_is_the_query_is_not_ranked():
    "The first text of a corpus neither; a query that is none of the texts has all of them ranked."
    texts = torch.tensor([[1., 0], [0, 1], [.5, .5]])
    levels = corpus_levels(texts[[0, 0]], texts, np.arange(2), np.array([2, 2]), np.ones(2, int),
                           np.array([0, -1]), first=1)
    assert (levels.n_better.tolist(), levels.first[:, 0].tolist(), levels.texts.tolist()) == ([0, 1], [2, 0], [2, 3])


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e30])
def test_a_search_refuses_scores_that_are_not_finite(value):
    "Also where each vector is finite, and the product of two is not."
    texts = torch.tensor([[value, 0], [1., 0]])
    with pytest.raises(ValueError, match="scores are not finite"):
        corpus_levels(texts, texts, np.arange(2), np.arange(2), np.ones(2, int))


# ---- brute force


@given(questions())
@settings(max_examples=60)
def test_a_tie_is_the_mean_over_all_its_orders(case):
    scores, grades, groups = case
    _, values, ids = rank_metrics(grades >= 3, scores, groups, grades)
    for i, q in enumerate(ids):
        rows = groups == q
        brute = over_all_orders(scores[rows], grades[rows] >= 3, grades[rows] - 1)
        assert brute.keys() == values.keys()
        for key, v in brute.items():
            assert math.isclose(values[key][i], v, rel_tol=0, abs_tol=1e-12), (q, key)


def test_a_large_tie_keeps_its_digits():
    "One right answer among n tied: MAP = MRR = H(n) / n."
    n = 20_000
    means, _, _ = rank_metrics(np.arange(n) == 77, np.zeros(n), np.zeros(n, int))
    harmonic = math.fsum(1 / i for i in range(1, n + 1))
    assert math.isclose(means["map"], harmonic / n, rel_tol=1e-11)
    assert math.isclose(means["mrr"], harmonic / n, rel_tol=1e-9)
    assert math.isclose(means["p1"], 1 / n)
    # the first right one is soon found: about sum of 2**-i / i
    half, _, _ = rank_metrics(np.arange(n) % 2, np.zeros(n), np.zeros(n, int))
    assert math.isclose(half["mrr"], math.log(2), rel_tol=1e-4)


# ---- bad input


FINE = dict(y_true=[1, 0], y_score=[.1, .2], groups=["a", "a"])


@pytest.mark.parametrize("change, words", [
    (dict(y_true=[1]), ["y_score (2,)", "y_true (1,)"]),
    (dict(groups=["a"]), ["groups (1,)"]),
    (dict(grades=[4]), ["grades (1,)"]),
    (dict(y_true=[], y_score=[], groups=[]), ["no candidates"]),
    (dict(y_score=[.1, np.nan]), ["y_score[1] (question 'a') is nan", "1 of 2"]),
    (dict(y_true=[1, 2], groups=["a", "b"]), ["y_true[1] (question 'b') is 2"]),
    (dict(groups=["a", None]), ["groups[1]"]),
    (dict(grades=[4, 1.5]), ["grades[1]"]),
    (dict(grades=[4, 1], levels=(4, 1)), ["grades[0]", "4 to 1"]),
    (dict(groups=["a", "b"]), ["question 'b'", "1 of 2", "unanswered"]),
    (dict(y_true=[0, 0], groups=["b", "a"], unanswered="exclude"), ["question 'a'", "2 of 2"]),
])
def test_unusable_input_is_refused_and_named(change, words):
    with pytest.raises(ValueError) as e:
        rank_metrics(**FINE | change, name="demo")
    for word in ("demo: ", *words):
        assert word in str(e.value)


def test_what_to_do_with_an_unanswered_question_is_one_of_two():
    with pytest.raises(ValueError, match="unanswered.*'drop'"):
        rank_metrics(**FINE, unanswered="drop")


@pytest.mark.parametrize("call, words", [
    (lambda: rank_replicates({}), "one length"),
    (lambda: rank_replicates({"map": np.ones(0)}), "pair"),
])
def test_unusable_values_of_questions_are_refused(call, words):
    with pytest.raises(ValueError) as e:
        call()
    assert words in str(e.value)
