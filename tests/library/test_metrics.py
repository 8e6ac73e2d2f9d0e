"The partial AUC against physically repeated pairs; its notebook has scikit-learn beside it."

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from debias_nb.measures.metrics import auc_at, bootstrap_weights, evaluate_pairs

limits = st.sampled_from([.01, .05, .1, .3, .77, 1.])


@st.composite
def ranked_pairs(draw, largest=8, levels=4):
    "A few pairs with many ties, both classes present."
    n = draw(st.integers(2, largest))
    both_classes = st.lists(st.integers(0, 1), min_size=n, max_size=n).filter(lambda labels: len(set(labels)) == 2)
    labels = draw(both_classes)
    scores = draw(st.lists(st.integers(0, levels), min_size=n, max_size=n))
    return np.array(scores, float), np.array(labels)


@given(ranked_pairs(largest=30, levels=8), limits, st.integers(0, 2**32 - 1))
def test_integer_weights_are_repetitions(pairs, max_fpr, seed):
    scores, labels = pairs
    weights = np.random.default_rng(seed).integers(0, 4, size=(5, len(scores)))
    for row, got in zip(weights, auc_at(labels, scores, max_fpr, weights)):
        if len(set(labels.repeat(row))) < 2:
            assert np.isnan(got)
        else:
            repetitions = auc_at(labels.repeat(row), scores.repeat(row), max_fpr)
            assert np.isclose(got, repetitions, rtol=0, atol=1e-12)


def test_what_stands_far_below_the_limit_is_not_looked_at_and_changes_nothing():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 2000)
    scores = (labels + rng.normal(size=2000)).round(1)
    weights = bootstrap_weights(2000, 20, 0)
    last = (labels == 0) & (scores < np.quantile(scores[labels == 0], .5))
    lower_scores = np.where(last, scores - 100, scores)
    assert (auc_at(labels, scores, .05, weights) == auc_at(labels, lower_scores, .05, weights)).all()
    weights[:, (labels == 0) & ~last] = 0 # the limit is reached among the last ones
    repetitions = [auc_at(labels.repeat(row), scores.repeat(row), .05) for row in weights]
    assert np.allclose(auc_at(labels, scores, .05, weights), repetitions, rtol=0, atol=1e-12)


@given(ranked_pairs(largest=30, levels=8), limits, st.integers(0, 2**32 - 1))
def test_only_the_order_of_scores_matters_and_no_order_of_pairs(pairs, max_fpr, seed):
    scores, labels = pairs
    value = auc_at(labels, scores, max_fpr)
    order = np.random.default_rng(seed).permutation(len(scores))
    assert 0 <= value <= 1
    assert value == auc_at(labels[order], scores[order], max_fpr)
    assert value == auc_at(labels, np.exp(scores / 3) - 7, max_fpr)
    # the other way round: swapping classes and signs mirrors the whole curve
    assert np.isclose(auc_at(labels, scores, 1), auc_at(1 - labels, -scores, 1))
    assert np.isclose(auc_at(labels, -scores, 1), 1 - auc_at(labels, scores, 1))


def test_chunks_leave_no_seam():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 500, 30_000)
    labels = rng.random(30_000) < .3
    w = bootstrap_weights(30_000, 80) # 34 rows fit into one chunk
    one_by_one = [auc_at(labels, scores, .05, row[None])[0] for row in w]
    assert (auc_at(labels, scores, .05, w) == one_by_one).all()


@pytest.mark.parametrize("change, words", [
    (dict(y_score=[.1, np.inf, .2, np.nan]), r"y_score\[1\] is inf \(2 of 4"),
    (dict(y_true=[0, 1, .5, 0]), r"y_true\[2\] is 0.5"),
    (dict(y_true=[1, 1, 1, 1]), r"classes.* of \[1.0\]"),
    (dict(y_true=[0, 1]), r"\(2,\).*\(4,\)"),
    (dict(y_score=[[1, 2, 3, 4]]), r"\(1, 4\)"),
    (dict(max_fpr=0), "max_fpr"),
    (dict(weights=[[1, 1, -1, 1]]), "weights"),
    (dict(weights=[[1, 1]]), r"\(B, 4\)"),
    (dict(subsets={"part": [0, 2, 3]}), r"\[part\]: .*\(3,\)"),
    (dict(subsets={"part": [1, 2, np.nan, 0]}), r"\[part\]: entries\[1\] is 2"),
    (dict(subsets={"part": [1, 0, 0, 1]}), r"\[part\]: .*classes"),
    (dict(groups=[1, None, 2, 2]), "groups"),
    (dict(groups=[1, 2, 2]), "groups"),
    (dict(replicates=1), "replicates"),
])
def test_unusable_input_is_refused(change, words):
    arguments = dict(y_true=[0, 1, 1, 0], y_score=[.1, .2, .3, .4], name="quora")
    call = evaluate_pairs if change.keys() & {"subsets", "groups", "replicates"} else auc_at
    with pytest.raises(ValueError, match=words) as e:
        call(**arguments | change)
    assert "groups" in words or "replicates" in words or str(e.value).startswith("quora")


def test_groups_stay_together_whatever_their_order():
    rng = np.random.default_rng(0)
    groups = np.array([f"q{i}" for i in rng.integers(0, 12, 60)])
    w = bootstrap_weights(60, 30, groups=groups)
    order = rng.permutation(60)
    for g in set(groups):
        of_group = w[:, groups == g]
        assert (of_group == of_group[:, :1]).all()
    assert (bootstrap_weights(60, 30, groups=groups[order]) == w[:, order]).all()
    assert (w == bootstrap_weights(60, 30, groups=groups.tolist())).all()
    names, first = np.unique(groups, return_index=True)
    assert (w[:, first] == bootstrap_weights(len(names), 30)).all(), "as many draws as there are groups"


def test_evaluation_of_a_set_and_its_parts():
    rng = np.random.default_rng(0)
    labels = rng.random(400) < .4
    groups = rng.integers(0, 50, 400)
    scores = np.round(rng.normal(labels, 1), 1)
    part = rng.random(400) < .5
    metrics, replicates = evaluate_pairs(labels, scores, groups, {"part": part}, replicates=20, seed=7)
    assert list(metrics) == list(replicates) == ["auc05", "auc", "auc05[part]"]
    assert all(type(v) is float for v in metrics.values())
    for values in replicates.values():
        assert len(values) == 20
        assert type(values[0]) is float
    w = bootstrap_weights(400, 20, 7, groups)
    for b, row in enumerate(w):
        resample = np.arange(400).repeat(row)
        part_resample = np.flatnonzero(part).repeat(row[part])
        assert np.isclose(replicates["auc05"][b], auc_at(labels[resample], scores[resample]))
        assert np.isclose(replicates["auc"][b], auc_at(labels[resample], scores[resample], 1))
        assert np.isclose(replicates["auc05[part]"][b], auc_at(labels[part_resample], scores[part_resample]))
    as_lists = [groups.tolist(), {"part": part.tolist()}]
    repetition = evaluate_pairs(labels.astype(int).tolist(), scores, *as_lists, replicates=20, seed=7)
    assert repetition == (metrics, replicates)


@given(ranked_pairs(largest=30, levels=8),
       st.sampled_from([list, torch.tensor, lambda x: torch.tensor(x, dtype=torch.bfloat16),
                        lambda x: torch.tensor(x, requires_grad=True)]))
def test_scores_of_any_kind_of_array_are_read(pairs, kind):
    scores, labels = pairs # whole numbers, which bfloat16 holds as they are
    assert auc_at(torch.tensor(labels), kind(scores), .3) == auc_at(labels, scores, .3)
