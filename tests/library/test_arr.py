"""ARR and its relatives against loops written from the paper's equations, in the trainer, and with what they refuse."""
import math

import numpy as np
import pytest
import torch
from datasets import Dataset
from hypothesis import given, settings, strategies as st
from made import load, table
from scipy import sparse

from debias_nb.losses.arr import distill
from debias_nb.losses.author_losses import ContrastiveAuthorLoss, MulticlassLoss
from debias_nb.losses.authors import ARR, CorrectedTeacher, ProductOfExperts
from debias_nb.runs.pair_batches import batch_columns
from debias_nb.runs.training import history_summary
from debias_nb.losses.author_losses import pair_log_probs, same_author
from debias_nb.losses.authors import flattened_shares, released_shares
from debias_nb.losses.author_losses import supervised_contrastive
from debias_nb.losses.authors import topic_bias
from debias_nb.losses.author_batches import ROW_KINDS, AuthorCollator, AuthorPairSampler, AuthorTextSampler
from debias_nb.losses.author_batches import NumberedTexts, author_pairs
from debias_nb.losses.author_batches import drawn_author_pairs
from debias_nb.losses.author_batches import text_rows
from debias_nb.encoders.tokens import tokenize

torch.set_num_threads(1)
THINGS = "red blue old new large small kettle lamp chair table".split()
RNG = np.random.default_rng(0)
AUTHORS = np.repeat(np.arange(12), 4)


def written_by(author):
    "Six things, and the words that even or odd authors use."
    return " ".join(RNG.choice(THINGS, 6)) + (" , for the" if author % 2 else " . how why")


TEXTS = [written_by(author) for author in AUTHORS]
TOPICS = text_rows("tfidf", TEXTS)(TEXTS)
TEXT_ROWS = NumberedTexts(TOPICS, AUTHORS)


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    return load(table(tmp_path_factory.mktemp("arr")))


def batch(model, rows, authors=AUTHORS):
    "A column of texts and the ids of their authors, as the trainer gives them to a loss."
    out = AuthorCollator(tokenize(model, TEXTS), authors)([{"row": row} for row in rows])
    column, = batch_columns(out)
    return column, out["label"]


def cosines(seed, n, d=4):
    vectors = np.random.default_rng(seed).normal(size=(n, d))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return torch.from_numpy(vectors @ vectors.T)


# ---- the equations, by loops

def other_rows(n, i):
    return [j for j in range(n) if j != i]


def normalize(scores):
    "Each row as shares of the row, without the diagonal."
    n = len(scores)
    rows = []
    for i in range(n):
        total = sum(scores[i][k] for k in other_rows(n, i))
        rows.append([0. if i == j else scores[i][j] / total for j in range(n)])
    return rows


def shares(c, tau):
    "Eq. 1."
    return normalize([[math.exp(value / tau) for value in row] for row in c.tolist()])


def shares_with_diagonal(c, tau):
    "As in the released code: the diagonal counts in the sum, and is left out afterwards."
    scores = [[math.exp(value / tau) for value in row] for row in c.tolist()]
    return [[score / sum(row) for score in row] for row in scores]


def to_the_power(p, power):
    return [[0. if i == j else value ** power for j, value in enumerate(row)] for i, row in enumerate(p)]


def contrastive_by_loops(p, pairs):
    "The mean over texts with partners of how unlikely their partners are."
    partners = {}
    for a, b in pairs:
        partners.setdefault(a, []).append(b)
    losses = [-sum(math.log(p[a][b]) for b in partner_rows) / len(partner_rows) for a, partner_rows in partners.items()]
    return sum(losses) / max(1, len(losses))


@given(seed=st.integers(0, 1000), n=st.integers(3, 8), tau=st.sampled_from([.5, .1, .05]), groups=st.integers(1, 4))
@settings(max_examples=40)
def test_the_equations_by_loops(seed, n, tau, groups):
    g, h, f = (cosines(seed + offset, n) for offset in (0, 2000, 4000))
    p_g, p_h, p_f = (shares(c, tau) for c in (g, h, f))
    y = np.random.default_rng(seed).integers(groups, size=n)
    labels, pairs = torch.from_numpy(y), [(a, b) for a in range(n) for b in other_rows(n, a) if y[a] == y[b]]

    B = sum(p_h[a][b] for a, b in pairs) / len(pairs) if pairs else 0.
    S = normalize(to_the_power(p_g, 1 - B))
    L = -sum(S[i][j] * math.log(p_f[i][j]) for i in range(n) for j in other_rows(n, i)) / n

    bias = topic_bias(h, labels, tau)
    assert np.isclose(float(bias), B, atol=1e-12)
    target = flattened_shares(pair_log_probs(g, tau), bias)
    assert np.allclose(target, S, atol=1e-10)
    assert np.isclose(float(distill(target, pair_log_probs(f, tau))), L, rtol=1e-9)
    cl = contrastive_by_loops(p_f, pairs)
    assert np.isclose(float(supervised_contrastive(f, labels, tau)), cl, rtol=1e-9, atol=1e-12)
    open_form = to_the_power(shares_with_diagonal(g, tau), 1 - B)
    assert np.allclose(released_shares(g, bias, tau), open_form, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_single_precision_survives_the_lowest_temperature(dtype):
    student = torch.tensor([[1, -1, 1], [-1, 1, -.99], [1, -.99, 1.]], dtype=dtype, requires_grad=True)
    log_p = pair_log_probs(student, .01)
    assert log_p.dtype == torch.float32
    for B in (0., .5, 1.):
        loss = distill(flattened_shares(log_p.detach(), B), log_p)
        slope, = torch.autograd.grad(loss, student, retain_graph=True)
        assert torch.isfinite(loss) and torch.isfinite(slope).all()
    slope, = torch.autograd.grad(supervised_contrastive(student, torch.tensor([0, 0, 1]), .01), student)
    assert torch.isfinite(slope).all()
    assert torch.isfinite(released_shares(student.detach(), .5, .01)).all()


# ---- what is refused

EQUAL = torch.zeros(4, 4)
BROKEN = EQUAL.clone()
BROKEN[2, 1] = math.inf
PAIRS = torch.tensor([0, 0, 1, 1])
UNIT_WEIGHTS = torch.ones(48, 2)
UNSURE = UNIT_WEIGHTS.clone()
UNSURE[5, 1] = math.nan
BAD_TOPICS = TOPICS.copy()
BAD_TOPICS.data[BAD_TOPICS.indptr[7]] = math.nan
FAULTS = [ # the name that the message has
    ("temperature", lambda model: pair_log_probs(EQUAL, 0)),
    ("temperature", lambda model: released_shares(EQUAL, .5, math.inf)),
    ("temperature", lambda model: ContrastiveAuthorLoss(model, 0.)),
    ("temperature", lambda model: ARR(model, TEXT_ROWS, UNIT_WEIGHTS, 0.)),
    ("labels", lambda model: topic_bias(EQUAL, PAIRS[:3], .1)),
    ("labels", lambda model: same_author(PAIRS[None])),
    ("row 2", lambda model: pair_log_probs(BROKEN, .1)),
    ("cosines", lambda model: pair_log_probs(torch.zeros(3, 4), .1)),
    ("B must be", lambda model: flattened_shares(EQUAL, 1.1)),
    ("B must be", lambda model: flattened_shares(EQUAL, torch.ones(2))),
    ("tfidf", lambda model: text_rows("tf-idf", ["cat sat"])),
    ("bow", lambda model: text_rows("bow", [])),
    ("author ids", lambda model: AuthorPairSampler(Dataset.from_dict({"text": ["a"]}), 4)),
    ("batch_size", lambda model: AuthorPairSampler(Dataset.from_dict({"label": AUTHORS}), 3)),
    ("0 of 3 authors", lambda model: AuthorPairSampler(Dataset.from_dict({"label": [0, 1, 2]}), 4)),
    ("47 labels", lambda model: AuthorCollator(tokenize(model, TEXTS), AUTHORS[1:])),
    ("float64", lambda model: AuthorCollator(None, [0., 1.])),
    ("history", lambda model: history_summary([])),
    ("gamma", lambda model: ProductOfExperts(model, TEXT_ROWS, gamma=-1)),
    ("gamma", lambda model: CorrectedTeacher(model, TEXT_ROWS, UNIT_WEIGHTS, gamma=math.nan)),
    ("bias", lambda model: ARR(model, TEXT_ROWS, UNIT_WEIGHTS, bias=2.)),
    ("variant", lambda model: ARR(model, TEXT_ROWS, UNIT_WEIGHTS, variant="papre")),
    ("teacher", lambda model: ARR(model, TEXT_ROWS, UNIT_WEIGHTS[1:])),
    ("teacher: row 5", lambda model: ARR(model, TEXT_ROWS, UNSURE)),
    ("teacher", lambda model: ARR(model, TEXT_ROWS, model)), # whose texts are not known
    ("topics: row 7", lambda model: NumberedTexts(BAD_TOPICS)),
    ("48 authors", lambda model: NumberedTexts(TOPICS[1:], AUTHORS)),
    ("SentenceTransformer", lambda model: ContrastiveAuthorLoss(torch.nn.Linear(2, 2))),
    ("texts", lambda model: ProductOfExperts(model, ["red"])),
]


@pytest.mark.parametrize("word, attempt", FAULTS)
def test_what_cannot_work_is_refused_when_it_is_made(static, word, attempt):
    with pytest.raises(ValueError, match=word):
        attempt(static)


BATCHES = [ # rows of the batch, its labels, how often its column; of which loss; what is said
    ([0, 1, 4, -1], AUTHORS[[0, 1, 4, 5]], 1, "arr", IndexError, "row -1"),
    ([0, 1, 4, 48], AUTHORS[[0, 1, 4, 5]], 1, "arr", IndexError, "row 48"),
    ([0, 1, 9, 8], AUTHORS[[0, 1, 4, 5]], 1, "arr", ValueError, "row 9"),
    (None, AUTHORS[[0, 1, 4, 5]], 1, "arr", ValueError, "AuthorCollator"),
    ([0, 1, 4, 5], AUTHORS[[0, 1, 4]], 1, "arr", ValueError, "labels"),
    ([0, 1, 4, 5], AUTHORS[[0, 1]], 1, "mll", ValueError, "labels"),
    ([0, 1, 4, 5], [0, 0, 1, 12], 1, "mll", IndexError, "12"),
    ([0, 1, 4, 5], [0, 0, 1, -1], 1, "mll", IndexError, "-1"),
    (None, None, 1, "product", ValueError, "label"),
    (None, [.5, .5, 1., 1.], 1, "product", ValueError, "labels"),
    (None, [0, 0], 1, "product", ValueError, "labels"),
    (None, [0, 0, 1, 1], 3, "product", ValueError, "3 columns"),
]


@pytest.mark.parametrize("rows, labels, columns, name, error, words", BATCHES)
def test_what_only_a_batch_can_show_is_refused_there(static, rows, labels, columns, name, error, words):
    losses = {
        "arr": lambda: ARR(static, TEXT_ROWS, UNIT_WEIGHTS), "mll": lambda: MulticlassLoss(static, 12),
        "product": lambda: ProductOfExperts(static, TEXTS)}
    loss = losses[name]()
    column = static.preprocess([TEXTS[row] for row in (0, 1, 4, 5)])
    if rows is not None:
        column = batch(static, [0, 1, 4, 5])[0] | {"row": torch.tensor(rows)}
    if labels is not None:
        labels = torch.as_tensor(labels)
    with pytest.raises(error, match=words):
        loss([column] * columns, labels)
    assert not loss.history, "nor does an evaluation leave one"
    with torch.no_grad():
        fine = ContrastiveAuthorLoss(static)
        fine([static.preprocess(TEXTS[:4])], torch.tensor([0, 0, 1, 1]))
        two_columns = [static.preprocess(TEXTS[:2]), static.preprocess(TEXTS[2:4])]
        assert fine(two_columns) == fine([static.preprocess(TEXTS[:4])], torch.tensor([0, 1, 0, 1]))
    assert not fine.history


def test_what_a_history_comes_down_to():
    history = [
        {"loss": 3., "B": .5, "entropy": 1., "pairs": 4},
        {"loss": 2., "B": 0., "entropy": 2., "pairs": 0}]
    assert history_summary(history, .3) == {
        "batches": 2, "loss": 2.5, "B": .25, "entropy": 1.5, "pairs": 2, "loss_last": 2, "batches_without_pairs": 1,
        "excess": 1, "B_min": 0, "B_max": .5, "teacher_temperature": .3 / .75}
    long = history_summary([{"loss": float(step), "B": 1 + 1e-6} for step in range(25)], .3) # rounded a little above 1
    assert long["loss_last"] == 23.5 and long["teacher_temperature"] == math.inf


# ---- losses of a model

def test_authors_are_told_apart_by_all_numbers_of_a_truncated_model(static):
    column = static.preprocess(TEXTS[:2])
    with static.truncate_embeddings(4):
        loss = MulticlassLoss(static, 12)
        assert static.get_embedding_dimension() == 4
        assert loss([column], torch.tensor([0, 1])).isfinite()
    assert loss.classifier.in_features == static.get_embedding_dimension() == 16


# ---- pairs, samplers, training

@given(seed=st.integers(0, 1000), n=st.integers(2, 12), size=st.integers(2, 6))
@settings(max_examples=40)
def test_a_pass_has_one_pair_of_every_author_with_two_texts(seed, n, size):
    rng = np.random.default_rng(seed)
    texts_each = np.r_[rng.integers(2, 6, size=n), 1, 1, 1]
    labels = rng.permutation(np.repeat(np.arange(n + 3), texts_each))
    batches = author_pairs(labels, size, np.random.default_rng(seed))
    rows = np.concatenate(batches) if batches else np.zeros(0, int)
    assert len(set(rows.tolist())) == len(rows)
    assert (labels[rows[::2]] == labels[rows[1::2]]).all()
    assert len(set(labels[rows].tolist())) == len(rows) // 2

    one_left_over = n % size == 1
    assert len(rows) == 2 * (n - one_left_over)
    assert all(len(rows) == 2 * size for rows in batches[:-1])
    full_batches = author_pairs(labels, size, np.random.default_rng(seed), drop_last=True)
    assert len(full_batches) == n // size and all(len(rows) == 2 * size for rows in full_batches)


def test_every_text_of_an_author_is_as_likely():
    labels, counts = [0] * 5 + [1] * 2, np.zeros(7)
    for seed in range(2000):
        counts[author_pairs(labels, 2, np.random.default_rng(seed))[0]] += 1
    assert (counts[5:] == 2000).all()
    assert abs(counts[:5] - 800).max() < 4 * (2000 * .4 * .6) ** .5


def test_a_seed_may_come_in_the_generator_alone():
    "As from the trainer of sentence-transformers 6.0."
    data = Dataset.from_dict({"label": AUTHORS})
    by_name = AuthorPairSampler(data, 4, seed=3)
    sampler = AuthorPairSampler(data, 4, generator=torch.Generator().manual_seed(3))
    first_epoch = list(sampler)
    assert first_epoch == list(by_name) != list(AuthorPairSampler(data, 4))
    sampler.set_epoch(1)
    assert list(sampler) != first_epoch


def test_an_epoch_of_texts_draws_two_of_each_author_for_each_full_batch():
    labels = np.repeat(np.arange(40), [1] * 4 + [2] * 30 + [50] * 6)
    batches = list(drawn_author_pairs(labels, 8, np.random.default_rng(0)))
    assert len(batches) == len(labels) // 16
    for rows in batches:
        first, second = labels[rows].reshape(8, 2).T
        assert len(set(rows)) == 16 and len(set(first)) == 8 and (first == second).all() and first.min() >= 4
    epoch_rows = np.unique(np.concatenate(batches))
    assert (labels[epoch_rows] >= 34).sum() > 12, "authors of many texts show more than two of them"
    data = Dataset.from_dict({"label": labels.tolist()})
    sampler = AuthorTextSampler(data, 16)
    assert [len(rows) for rows in sampler] == [16] * len(sampler) == [16] * len(batches)
    assert len(AuthorTextSampler(data.select(range(4, 12)), 64)) == 1, "fewer texts than a batch"


# ---- counts, ids, summaries

@pytest.mark.parametrize("kind", ROW_KINDS)
def test_counts_come_from_the_training_texts_alone(kind):
    rows_of = text_rows(kind, TEXTS[:24], words=["how", "why", "for", ".", ","])
    unseen = TEXTS[24:28]
    joint_rows = rows_of([*unseen, "unheard zzz"])
    single_rows = sparse.vstack([rows_of([text]) for text in unseen])
    assert (abs(joint_rows[:4] - single_rows) > 1e-7).nnz == 0, "a text's row does not depend on the other texts"
    lengths = np.sqrt(joint_rows.multiply(joint_rows).sum(1))
    assert np.allclose(lengths[:4], 1, atol=1e-6)
    assert lengths[4] == 0 or kind == "char"
    assert joint_rows.shape[1] == rows_of(TEXTS[:1]).shape[1]
