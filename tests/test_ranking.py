"Metrics of ranked answers: against brute force over the orders of ties, and on published test files."
import csv
import gzip
import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from debias_nb.measures.metrics import bootstrap_weights, randomization_test, rank_metrics, rank_replicates

DATA = Path(os.environ.get("DEBIAS_NB_DATA") or "none")
CUTOFFS = 1, 3, 10


@st.composite
def questions(draw, most=6, levels=2):
    """Scores, grades and groups of the candidates of up to three questions, mixed, with many ties.

    The first candidate of each question is relevant.
    """
    sizes = draw(st.lists(st.integers(1, most), min_size=1, max_size=3))
    groups = np.repeat([f"q{i}" for i in range(len(sizes))], sizes)
    n = len(groups)
    grades = np.array(draw(st.lists(st.integers(1, 4), min_size=n, max_size=n)))
    grades[np.unique(groups, return_index=True)[1]] = draw(st.integers(3, 4))
    mixed = draw(st.permutations(range(n)))
    scores = np.array(draw(st.lists(st.integers(0, levels), min_size=n, max_size=n)), float)
    return scores[mixed], grades[mixed], groups[mixed]


def dcg(ordered, k):
    return sum(gain / math.log2(1 + place) for place, gain in enumerate(ordered[:k], 1))


def walked(relevant, gains):
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
    values = [walked(relevant[o].tolist(), gains[o].tolist()) for o in orders]
    return {key: np.mean([v[key] for v in values]) for key in values[0]}


def random_answers(n_questions=40, most=30, seed=0, levels=None):
    "Scores (distinct unless `levels` are given), grades and groups; every question has a grade 4."
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most, n_questions)
    groups = rng.permutation(np.repeat([f"q{i}" for i in range(n_questions)], sizes))
    grades = rng.integers(1, 5, len(groups))
    grades[np.unique(groups, return_index=True)[1]] = 4
    scores = rng.permutation(len(groups)) if levels is None else rng.integers(0, levels, len(groups))
    return scores / 1024, grades, groups


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


def test_gains_count_from_the_lowest_level():
    means, _, _ = rank_metrics([1, 0, 0], [3, 2, 1], ["q"] * 3, [4, 1, 2])
    assert round(means["ndcg3"], 6) == .963940
    assert round(means["ndcg3_exp"], 6) == .982842
    assert means["ndcg1"] == means["ndcg1_exp"] == 1
    raw, _, _ = rank_metrics([1, 0, 0], [3, 2, 1], ["q"] * 3, [3, 0, 1], levels=(0, 4)) # the lowest level has no gain
    assert raw == means


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


# ---- properties


@given(questions(most=12, levels=4), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_order_of_the_file_and_scale_of_the_scores_do_not_matter(case, random):
    scores, grades, groups = case
    _, values, ids = rank_metrics(grades >= 3, scores, groups, grades)
    o = list(range(len(scores)))
    random.shuffle(o)
    _, again, again_ids = rank_metrics(grades[o] >= 3, 7 * scores[o] - 100, groups[o], grades[o])
    assert (ids == again_ids).all()
    for key, v in values.items():
        assert np.allclose(v, again[key], rtol=0, atol=1e-12), key
        assert (v >= 0).all(), key
        assert (v <= 1 + 1e-12).all(), key
    one = np.array([(grades[groups == q] >= 3).sum() == 1 for q in ids])
    assert np.allclose(values["map"][one], values["mrr"][one], rtol=0, atol=1e-12)
    assert (values["p1"] <= values["mrr"] + 1e-12).all()


def test_the_best_order_has_full_marks_and_the_worst_has_not():
    _, grades, groups = random_answers()
    best, _, _ = rank_metrics(grades >= 3, grades, groups, grades)
    worst, _, _ = rank_metrics(grades >= 3, -grades, groups, grades)
    assert all(math.isclose(v, 1) for v in best.values())
    assert all(worst[key] < .9 for key in best)


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
    (dict(groups=[1., np.nan]), ["groups[1]"]),
    (dict(grades=[4, 5]), ["grades[1] (question 'a') is 5"]),
    (dict(grades=[4, 1.5]), ["grades[1]"]),
    (dict(grades=[4, np.nan]), ["grades[1]"]),
    (dict(grades=[4, 1], levels=(4, 1)), ["grades[0]", "4 to 1"]),
    (dict(groups=["a", "b"]), ["question 'b'", "1 of 2", "unanswered"]),
    (dict(y_true=[0, 0], groups=["b", "a"], unanswered="exclude"), ["question 'a'", "2 of 2"]),
    (dict(grades=[1, 1]), ["question 'a'", "grades are 1"]),
])
def test_unusable_input_is_refused_and_named(change, words):
    with pytest.raises(ValueError) as e:
        rank_metrics(**FINE | change, name="demo")
    for word in ("demo: ", *words):
        assert word in str(e.value)


def test_unanswered_questions_are_left_out_and_counted():
    scores = [.1, .2, .3, .4, .5, .6]
    labels = [0, 0, 1, 0, 0, 0]
    groups = ["c", "c", "b", "b", "a", "a"]
    means, values, ids = rank_metrics(labels, scores, groups, unanswered="exclude")
    alone, _, _ = rank_metrics(labels[2:4], scores[2:4], groups[2:4])
    assert means == alone | {"excluded": 2}
    assert ids.tolist() == ["b"]
    assert all(len(v) == 1 for v in values.values())
    complete, _, _ = rank_metrics(labels[2:4], scores[2:4], groups[2:4], unanswered="exclude")
    assert complete == alone | {"excluded": 0}
    means, values, _ = rank_metrics([1], [-3.], ["only"], [3])
    assert set(means.values()) == {1.}
    assert all(v.tolist() == [1] for v in values.values())


# ---- resamples of questions


def test_replicates_are_resamples_of_whole_questions():
    scores, grades, groups = random_answers(levels=5)
    _, values, ids = rank_metrics(grades >= 3, scores, groups, grades)
    kept = rank_replicates(values, 20, seed=4)
    drawn = bootstrap_weights(len(scores), 20, seed=4, groups=groups)
    assert kept.keys() == values.keys()
    assert all(len(v) == 20 for v in kept.values())
    for b in (0, 19): # the candidates of a question that was drawn twice are two questions
        rows = [(i, f"{groups[i]}/{copy}") for i in range(len(scores)) for copy in range(drawn[b, i])]
        at = np.array([i for i, _ in rows])
        names = [name for _, name in rows]
        anew, _, _ = rank_metrics(grades[at] >= 3, scores[at], names, grades[at])
        for key, v in anew.items():
            assert math.isclose(v, kept[key][b], rel_tol=0, abs_tol=1e-12), key
    assert rank_replicates(values, 20, seed=4) == kept != rank_replicates(values, 20, seed=5)
    spread = np.std(rank_replicates(values, 2000)["map"])
    expected = values["map"].std() / len(ids)**.5
    assert abs(spread / expected - 1) < .1


# ---- the randomization test


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_p_is_the_share_of_all_swaps(pairs, seed):
    a, b = np.array(pairs).T / 10
    swaps = np.array(list(itertools.product([1, -1], repeat=len(a))))
    exact = (np.abs(swaps @ (a - b)) >= abs((a - b).sum()) - 1e-9).mean()
    p = randomization_test(a, b, seed=seed)
    assert abs(p - exact) < 5 * (exact * (1 - exact) / 10_000)**.5 + 1e-3
    assert 1 / 10_001 <= p <= 1
    assert p == randomization_test(b, a, seed=seed) == randomization_test(a, b, seed=seed)


def test_p_has_the_values_worked_out_by_hand():
    assert randomization_test([.4], [.1]) == 1 # one question: both swaps are as extreme
    assert randomization_test([.1, .5], [.1, .5]) == 1
    assert randomization_test([1, 0], [0, 1]) == 1
    assert abs(randomization_test([.9, .8, .3], [.6, .5, 0.]) - 1 / 4) < .02 # margins of .3, rounded differently
    assert randomization_test(np.ones(64), np.zeros(64), draws=499) == 1 / 500 # the observed one counts
    assert randomization_test(np.ones(64), np.zeros(64)) == 1 / 10_001
    assert randomization_test(np.ones(2**21 + 1), np.zeros(2**21 + 1), draws=1) == 1 / 2


@pytest.mark.parametrize("call, words", [
    (lambda: rank_replicates({}), "one length"),
    (lambda: rank_replicates({"map": np.ones(3), "mrr": np.ones(4)}), "mrr"),
    (lambda: rank_replicates({"map": np.ones(0)}), "pair"),
    (lambda: randomization_test([1, 2], [1]), "b (1,)"),
    (lambda: randomization_test([], []), "values"),
    (lambda: randomization_test([1, np.nan], [1, 2]), "a[1]"),
    (lambda: randomization_test([1, 2], [np.inf, 2]), "b[0]"),
    (lambda: randomization_test([1, 2], [1, 2], draws=0), "draw"),
])
def test_unusable_values_of_questions_are_refused(call, words):
    with pytest.raises(ValueError) as e:
        call()
    assert words in str(e.value)


# ---- the published test files: what a scorer that knows nothing gets


def wikiqa():
    with gzip.open(DATA / "wikiqa/WikiQA-test.tsv.gz", "rt", encoding="utf-8", newline="") as f:
        lines = csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE)
        rows = [(line["QuestionID"], int(line["Label"])) for line in lines]
    found = {}
    for q, label in rows:
        found.setdefault(q, set()).add(label)
    # questions without an answer, or with answers only, are left out
    return [(q, label, label) for q, label in rows if len(found[q]) == 2]


def selqa():
    text = (DATA / "selqa/selqa-ass-test.tsv").open(encoding="utf-8", newline="\n")
    rows = [line.rstrip("\n").split("\t") for line in text]
    # a question is a run of lines: its text may occur twice
    begins = [i == 0 or row[0] != rows[i - 1][0] for i, row in enumerate(rows)]
    return [(int(q), int(row[2]), int(row[2])) for q, row in zip(np.cumsum(begins), rows)]


def antique():
    rows = [line.split() for line in (DATA / "antique/antique-test.qrel").open(encoding="utf-8")]
    return [(q, int(int(grade) >= 3), int(grade)) for q, _, _, grade in rows]


@pytest.mark.parametrize("read, file, asked, pairs, expected", [
    (wikiqa, "wikiqa/WikiQA-test.tsv.gz", 237, 2341, (.3840, .3921, .1834)),
    (selqa, "selqa/selqa-ass-test.tsv", 1590, 19435, (.3039, .3082, .1204)),
    (antique, "antique/antique-test.qrel", 200, 6589, (.4478, .5803, .3845)),
], ids=["wikiqa", "selqa", "antique"])
def test_a_constant_scorer_gets_the_mean_over_all_orders_of_published_files(read, file, asked, pairs, expected):
    if not (DATA / file).is_file():
        pytest.skip(f"DEBIAS_NB_DATA holds no {file}")
    groups, labels, grades = zip(*read())
    means, values, ids = rank_metrics(labels, np.zeros(len(labels)), groups, grades if read is antique else None)
    assert len(ids) == asked
    assert len(labels) == pairs
    assert len(values["map"]) == asked
    ours = [means[key] for key in ("map", "mrr", "p1")]
    assert np.allclose(ours, expected, rtol=0, atol=6e-5)
    if read is antique: # sorted stably, the file would give the scorer full marks
        first = np.unique(groups, return_index=True)[1]
        assert all(np.array(grades)[first] == 4)
        assert means["ndcg1"] < .6
