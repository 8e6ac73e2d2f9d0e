"""ARR and its relatives against loops written from the paper's equations, in the trainer, and with what they refuse."""
import copy, math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from datasets import Dataset
from hypothesis import given, settings, strategies as st
from made import bert, load, table
from scipy import sparse

from debias_nb.arr import (KINDS, ARRLoss, AuthorCollator, AuthorPairSampler, ContrastiveAuthorLoss, CorrectedTeacherLoss, MulticlassLoss, ProductOfExpertsLoss, author_ids,
                           author_pairs, distillation, entropy, history_summary, pair_log_probs, regularised, released,
                           same_author, sparse_cosines, supervised_contrastive, text_rows, topic_bias)
from debias_nb.encoders import QuietTrainer, embed_texts, pooled, single_thread, tokenise, training_arguments

torch.set_num_threads(1)
THINGS = "red blue old new large small kettle lamp chair table".split()
RNG = np.random.default_rng(0)
AUTHORS = np.repeat(np.arange(12), 4)
TEXTS = [" ".join(RNG.choice(THINGS, 6)) + (" , for the" if a % 2 else " . how why") for a in AUTHORS]
TOPICS = text_rows("tfidf", TEXTS)(TEXTS)

@pytest.fixture(scope="module")
def static(tmp_path_factory): return load(table(tmp_path_factory.mktemp("arr")))

@pytest.fixture(scope="module")
def transformer(tmp_path_factory): return load(bert(tmp_path_factory.mktemp("arr")))

def cosines(seed, n, d=4):
    z = np.random.default_rng(seed).normal(size=(n, d))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    return torch.from_numpy(z @ z.T)

def shares(c, tau): # Eq. 1
    n = len(c)
    return [[0. if i == j else math.exp(c[i][j] / tau) / sum(math.exp(c[i][k] / tau) for k in range(n) if k != i) for j in range(n)] for i in range(n)]

@given(seed=st.integers(0, 1000), n=st.integers(3, 8), tau=st.sampled_from([.5, .1, .05]), groups=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_the_equations_by_loops(seed, n, tau, groups):
    g, h, f = (cosines(seed + k, n) for k in (0, 2000, 4000))
    y = np.random.default_rng(seed).integers(groups, size=n)
    labels, pairs = torch.from_numpy(y), [(a, b) for a in range(n) for b in range(n) if a != b and y[a] == y[b]]
    p_g, p_h, p_f = (shares(c.tolist(), tau) for c in (g, h, f))
    B = sum(p_h[a][b] for a, b in pairs) / len(pairs) if pairs else 0.
    S = [[0. if i == j else p_g[i][j] ** (1 - B) / sum(p_g[i][k] ** (1 - B) for k in range(n) if k != i) for j in range(n)] for i in range(n)]
    L = -sum(S[i][j] * math.log(p_f[i][j]) for i in range(n) for j in range(n) if i != j) / n
    bias = topic_bias(h, labels, tau)
    assert np.isclose(float(bias), B, atol=1e-12)
    target = regularised(pair_log_probs(g, tau), bias)
    assert np.allclose(target, S, atol=1e-10)
    assert np.isclose(float(distillation(target, pair_log_probs(f, tau))), L, rtol=1e-9)
    with_pairs = sorted({a for a, _ in pairs})
    of = {a: [b for x, b in pairs if x == a] for a in with_pairs}
    cl = sum(-sum(math.log(p_f[a][b]) for b in of[a]) / len(of[a]) for a in with_pairs) / max(1, len(with_pairs))
    assert np.isclose(float(supervised_contrastive(f, labels, tau)), cl, rtol=1e-9, atol=1e-12)
    q = [[math.exp(g[i][j] / tau) / sum(math.exp(g[i][k] / tau) for k in range(n)) for j in range(n)] for i in range(n)]
    assert np.allclose(released(g, bias, tau), [[0. if i == j else q[i][j] ** (1 - B) for j in range(n)] for i in range(n)], atol=1e-10)

@given(seed=st.integers(0, 1000), n=st.integers(3, 8), tau=st.sampled_from([.5, .1, .05, .01]), B=st.floats(0, .999))
@settings(max_examples=60, deadline=None)
def test_arr_is_self_distillation_at_another_temperature(seed, n, tau, B):
    g = cosines(seed, n)
    S = regularised(pair_log_probs(g, tau), B)
    assert torch.allclose(S, pair_log_probs(g, tau / (1 - B)).exp(), atol=1e-9) and torch.allclose(S.sum(1), torch.ones(n, dtype=S.dtype))
    learned = pair_log_probs((1 - B) * g, tau) # the teacher, shrunk, is the best student, and ranks as the teacher does
    assert torch.isclose(distillation(S, learned), entropy(S), atol=1e-9) and entropy(S) <= math.log(n - 1) + 1e-9
    assert distillation(S, pair_log_probs(cosines(seed + 1, n), tau)) >= entropy(S) - 1e-9

def test_the_gradient_vanishes_at_the_shrunken_teacher():
    g = cosines(0, 6)
    student = (.7 * g).requires_grad_()
    slope, = torch.autograd.grad(distillation(regularised(pair_log_probs(g, .1), .3), pair_log_probs(student, .1)), student)
    assert slope.abs().max() < 1e-12

def test_the_topic_model_acts_through_one_number():
    "Moving topical likeness between texts of different authors within a row leaves the shares of pairs, hence B and S, as they were."
    labels, g = torch.tensor([0, 0, 1, 1]), cosines(3, 4)
    h = torch.tensor([[1., .5, .9, .1], [.5, 1, .2, .3], [.9, .2, 1, .4], [.1, .3, .4, 1]])
    moved = h.clone(); moved[0, 2], moved[0, 3] = h[0, 3], h[0, 2]
    B = [topic_bias(x, labels, .1) for x in (h, moved)]
    assert torch.isclose(*B) and not torch.equal(h, moved)
    assert torch.allclose(*(regularised(pair_log_probs(g, .1), b) for b in B))
    assert not torch.allclose(*(pair_log_probs(g - .5 * x, .1).exp() for x in (h, moved)))

@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_single_precision_survives_the_lowest_temperature(dtype):
    student = torch.tensor([[1, -1, 1], [-1, 1, -.99], [1, -.99, 1.]], dtype=dtype, requires_grad=True)
    log_p = pair_log_probs(student, .01)
    for B in (0., .5, 1.):
        loss = distillation(regularised(log_p.detach(), B), log_p)
        slope, = torch.autograd.grad(loss, student, retain_graph=True)
        assert log_p.dtype == torch.float32 and torch.isfinite(loss) and torch.isfinite(slope).all()
    slope, = torch.autograd.grad(supervised_contrastive(student, torch.tensor([0, 0, 1]), .01), student)
    assert torch.isfinite(slope).all() and torch.isfinite(released(student.detach(), .5, .01)).all()

def test_losses_do_not_know_the_order_of_a_batch():
    labels, order = torch.tensor([0, 0, 1, 1, 2, 2]), torch.randperm(6, generator=torch.Generator().manual_seed(0))
    f, g, h = (cosines(k, 6) for k in range(3))
    def arr(i): return distillation(regularised(pair_log_probs(g[i][:, i], .1), topic_bias(h[i][:, i], labels[i], .1)), pair_log_probs(f[i][:, i], .1))
    same = torch.arange(6)
    assert torch.isclose(arr(same), arr(order)) and torch.isclose(supervised_contrastive(f, labels, .1), supervised_contrastive(f[order][:, order], labels[order], .1))

@pytest.mark.parametrize("tau", [0, 0., -.1, math.nan, math.inf])
def test_temperatures_that_are_refused(static, tau):
    c, labels, vectors = cosines(0, 4).float(), torch.tensor([0, 0, 1, 1]), torch.ones(48, 2)
    for f in (lambda: pair_log_probs(c, tau), lambda: topic_bias(c, labels, tau), lambda: supervised_contrastive(c, labels, tau), lambda: released(c, .5, tau),
              lambda: ContrastiveAuthorLoss(static, tau), lambda: ARRLoss(static, vectors, TOPICS, tau), lambda: ProductOfExpertsLoss(static, TOPICS, tau),
              lambda: CorrectedTeacherLoss(static, vectors, TOPICS, tau)):
        with pytest.raises(ValueError, match="temperature must be above 0"): f()

def test_values_that_are_refused(static):
    c, labels = cosines(0, 4).float(), torch.tensor([0, 0, 1])
    for f in (lambda: topic_bias(c, labels, .1), lambda: supervised_contrastive(c, labels, .1), lambda: same_author(labels, 4), lambda: same_author(labels[None])):
        with pytest.raises(ValueError, match="one author id a text"): f()
    broken = c.clone(); broken[2, 1] = math.inf
    with pytest.raises(ValueError, match="row 2 is not finite"): pair_log_probs(broken, .1)
    for wrong in (torch.zeros(3), torch.zeros(3, 4), torch.zeros(1, 1), torch.zeros(0, 0)):
        with pytest.raises(ValueError, match="square of at least 2"): pair_log_probs(wrong, .1)
    for bias in (-.1, 1.1, math.nan, torch.ones(2)):
        with pytest.raises(ValueError, match="one number in"): regularised(pair_log_probs(c, .1), bias)
    for gamma in (-1, float("inf"), math.nan):
        for f in (lambda g: ProductOfExpertsLoss(static, TOPICS, gamma=g), lambda g: CorrectedTeacherLoss(static, torch.ones(48, 2), TOPICS, gamma=g)):
            with pytest.raises(ValueError, match="gamma"): f(gamma)
    with pytest.raises(ValueError, match="same texts"): distillation(c, c[:3, :3])

def test_counts_and_columns_that_are_refused(static):
    with pytest.raises(ValueError, match="tf-idf.*tfidf"):
        text_rows("tf-idf", ["cat sat"])
    with pytest.raises(ValueError, match="no training texts"):
        text_rows("bow", [])
    with pytest.raises(ValueError, match="no column of author ids"):
        AuthorPairSampler(Dataset.from_dict({"text": ["a"]}), 4)
    with pytest.raises(ValueError, match="47 labels for 48 texts"):
        AuthorCollator(tokenise(static, TEXTS), AUTHORS[1:])

def test_what_a_history_comes_down_to():
    history = [dict(loss=3., B=.5, entropy=1., pairs=4), dict(loss=2., B=0., entropy=2., pairs=0)]
    assert history_summary(history, .3) == dict(
        batches=2, loss=2.5, B=.25, entropy=1.5, pairs=2, loss_last=2, batches_without_pairs=1, excess=1, B_min=0, B_max=.5,
        teacher_temperature=.3 / .75)

def test_tables_of_other_texts_are_refused(static):
    vectors, bad, gap = torch.ones(48, 3), torch.ones(48, 3), TOPICS.copy()
    bad[5, 1], gap.data[gap.indptr[7]] = math.nan, math.nan
    with pytest.raises(ValueError, match="47 teacher_vectors and 48 tfidf_rows"): ARRLoss(static, vectors[1:], TOPICS)
    with pytest.raises(ValueError, match="48 authors for 47 tfidf_rows"): ProductOfExpertsLoss(static, TOPICS[1:], authors=AUTHORS)
    with pytest.raises(ValueError, match="teacher_vectors: row 5 is not finite"): ARRLoss(static, bad, TOPICS)
    with pytest.raises(ValueError, match="tfidf_rows: row 7 is not finite"): ARRLoss(static, vectors, gap)
    with pytest.raises(ValueError, match="whole numbers"): ARRLoss(static, vectors, TOPICS, authors=[str(a) for a in AUTHORS])
    with pytest.raises(ValueError, match="no variant 'papre'"): ARRLoss(static, vectors, TOPICS, variant="papre")
    loss, (column, labels) = ARRLoss(static, vectors, TOPICS, authors=AUTHORS), batch(static, [0, 1, 4, 5])
    for row in (-1, 48):
        with pytest.raises(IndexError, match=f"row {row} is outside the table of 48"): loss([column | {"row": torch.tensor([0, 1, 4, row])}], labels)
    with pytest.raises(ValueError, match="row 9 has another author"): loss([column | {"row": torch.tensor([0, 1, 4, 9])}], labels)
    with pytest.raises(ValueError, match="AuthorCollator"): loss([{k: v for k, v in column.items() if k != "row"}], labels)
    with pytest.raises(ValueError, match="one author id a text"): loss([column], labels[:3])
    assert not loss.history

def batch(model, rows, authors=AUTHORS):
    out = AuthorCollator(tokenise(model, TEXTS), authors)([{"row": r} for r in rows])
    return {k.removeprefix("text_"): v for k, v in out.items() if k.startswith("text_")}, out["label"]

@pytest.mark.parametrize("kind", ["static", "transformer"])
def test_losses_are_their_functions(kind, request):
    model, rows = request.getfixturevalue(kind), [0, 1, 4, 5, 8, 9]
    column, labels = batch(model, rows)
    z, teacher = embed_texts(model, [TEXTS[r] for r in rows]), torch.from_numpy(RNG.normal(size=(48, 5)))
    f, g, h = z @ z.T, F.normalize(teacher[rows].float(), dim=1), sparse_cosines(TOPICS[rows])
    g = g @ g.T
    arr = distillation(regularised(pair_log_probs(g, .1), topic_bias(h, labels, .1)), pair_log_probs(f, .1))
    open_form = distillation(released(g, topic_bias(h, labels, .1), .1), pair_log_probs(f, .1))
    for loss, expected in ((ContrastiveAuthorLoss(model, .1), supervised_contrastive(f, labels, .1)), (ARRLoss(model, teacher, TOPICS, .1, AUTHORS), arr),
                           (ARRLoss(model, teacher, TOPICS, .1, variant="released"), open_form), (ARRLoss(model, teacher, TOPICS.toarray(), .1, bias=0), distillation(pair_log_probs(g, .1).exp(), pair_log_probs(f, .1))),
                           (ProductOfExpertsLoss(model, 2 * TOPICS, .1, 2.), supervised_contrastive(f + 2 * h, labels, .1)),
                           (CorrectedTeacherLoss(model, teacher, TOPICS, .1, .5), distillation(pair_log_probs(g - .5 * h, .1).exp(), pair_log_probs(f, .1)))):
        assert torch.isclose(loss([column], labels), expected, rtol=1e-4, atol=1e-5), type(loss).__name__
        loss([column], labels).backward()
    head = MulticlassLoss(model, 12)
    assert torch.isclose(head([column], labels), F.cross_entropy(head.classifier(pooled(model, tokenise(model, [TEXTS[r] for r in rows]))), labels), rtol=1e-4)
    model.zero_grad()

def test_pooled_vectors_are_not_scaled(static):
    tokens = tokenise(static, [TEXTS[0], "", TEXTS[1]])
    mean = static[0].embedding.weight[tokens.ids[0][tokens.mask[0]]].mean(0)
    assert torch.allclose(pooled(static, tokens)[0], mean, atol=1e-6) and (pooled(static, tokens)[1] == 0).all()

def test_half_precision_contexts_do_not_reach_the_cosines(static):
    column, labels = batch(static, [0, 1, 4, 5])
    loss = ContrastiveAuthorLoss(static, .01)
    full = loss([column], labels)
    with torch.autocast("cpu", dtype=torch.bfloat16): half = loss([column], labels)
    assert torch.isclose(full, half, rtol=1e-5)

def test_a_batch_without_pairs_counts_and_harms_nothing(static):
    model = copy.deepcopy(static)
    column, labels = batch(model, [0, 4, 8, 12])
    arr, cl = ARRLoss(model, torch.from_numpy(RNG.normal(size=(48, 5))), TOPICS, .1), ContrastiveAuthorLoss(model, .1)
    assert torch.isfinite(arr([column], labels)) and arr.history[0]["B"] == 0 and history_summary(arr.history)["batches_without_pairs"] == 1
    loss = cl([column], labels); loss.backward()
    assert loss == 0 and all(p.grad is None or (p.grad == 0).all() for p in model.parameters()) and cl.history[0]["pairs"] == 0

@given(seed=st.integers(0, 1000), n=st.integers(2, 12), size=st.integers(2, 6))
@settings(max_examples=40, deadline=None)
def test_pairs_of_a_pass(seed, n, size):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(n + 3), np.r_[rng.integers(2, 6, size=n), 1, 1, 1]))
    batches = author_pairs(labels, size, np.random.default_rng(seed))
    rows = np.concatenate(batches) if batches else np.zeros(0, int)
    assert len(set(rows.tolist())) == len(rows) and (labels[rows[::2]] == labels[rows[1::2]]).all() and len(set(labels[rows].tolist())) == len(rows) // 2
    left_over = n % size
    assert len(rows) == 2 * (n - (left_over if left_over == 1 else 0)) and all(len(b) == 2 * size for b in batches[:-1])
    dropped = author_pairs(labels, size, np.random.default_rng(seed), drop_last=True)
    assert all(len(b) == 2 * size for b in dropped) and len(dropped) == n // size

def test_every_text_of_an_author_is_as_likely():
    labels, counts = [0] * 5 + [1] * 2, np.zeros(7)
    for seed in range(2000): counts[author_pairs(labels, 2, np.random.default_rng(seed))[0]] += 1
    assert (counts[5:] == 2000).all() and abs(counts[:5] - 800).max() < 4 * (2000 * .4 * .6) ** .5

def test_samplers_that_are_refused():
    data = Dataset.from_dict({"label": AUTHORS})
    for size in (3, 2, 0):
        with pytest.raises(ValueError, match="even and at least 4"): AuthorPairSampler(data, size)
    with pytest.raises(ValueError, match="only 0 of 3 authors"): AuthorPairSampler(Dataset.from_dict({"label": [0, 1, 2]}), 4)
    with pytest.raises(ValueError, match="at least 2 authors"): author_pairs(AUTHORS, 1, np.random.default_rng(0))

class Keeping(AuthorCollator):
    def __init__(self, *args): super().__init__(*args); self.seen = []
    def __call__(self, features): self.seen.append([f["row"] for f in features]); return super().__call__(features)

def trained(static, make_loss, folder, epochs=3, sampler=AuthorPairSampler, seed=0):
    model = copy.deepcopy(static)
    loss, collator = make_loss(model), Keeping(tokenise(model, TEXTS), AUTHORS)
    args = training_arguments(folder, num_train_epochs=epochs, per_device_train_batch_size=12, learning_rate=2e-2, seed=seed, use_cpu=True, batch_sampler=sampler)
    with single_thread(): QuietTrainer(model=model, args=args, train_dataset=Dataset.from_dict({"row": range(48), "label": AUTHORS}), loss=loss, data_collator=collator).train()
    return model, loss, collator.seen

def test_epochs_differ_and_repeats_do_not(static, tmp_path):
    teacher = torch.from_numpy(RNG.normal(size=(48, 5)))
    runs = [trained(static, lambda m: ARRLoss(m, teacher, TOPICS, .1, AUTHORS), tmp_path, seed=s) for s in (0, 0, 1)]
    epochs = [runs[0][2][i:i + 2] for i in (0, 2, 4)] # 12 authors in batches of 6
    assert len(runs[0][2]) == 6 and epochs[0] != epochs[1] != epochs[2] and runs[0][2] == runs[1][2] != runs[2][2]
    weights = [m[0].embedding.weight for m, *_ in runs]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2]) and not torch.equal(weights[0], static[0].embedding.weight)
    summary = history_summary(runs[0][1].history, .1)
    assert summary["batches"] == 6 and summary["pairs"] == 12 and 0 < summary["B_min"] <= summary["B"] <= summary["B_max"] < 1
    assert np.isclose(summary["teacher_temperature"], .1 / (1 - summary["B"])) and summary["excess"] > 0

def test_the_student_learns_the_shrunken_teacher(static, tmp_path):
    other = load(table(tmp_path, seed=1)) # a random table, which orders texts in another way
    _, loss, _ = trained(static, lambda m: ARRLoss(m, embed_texts(other, TEXTS), TOPICS, .1), tmp_path, epochs=40)
    excess = [float(h["loss"] - h["entropy"]) for h in loss.history]
    assert np.mean(excess[-8:]) < .5 * np.mean(excess[:4]), (np.mean(excess[:4]), np.mean(excess[-8:]))

def test_the_classifier_is_trained_and_the_teacher_is_not(static, tmp_path):
    before = MulticlassLoss(static, 12).classifier.weight.clone()
    _, mll, seen = trained(static, lambda m: MulticlassLoss(m, 12), tmp_path, epochs=30, sampler="batch_sampler")
    assert not torch.equal(before, mll.classifier.weight) and len({tuple(b) for b in seen[:4]}) == 4 and sorted(sum(seen[:4], [])) == list(range(48))
    assert np.mean([float(h["accuracy"]) for h in mll.history[-8:]]) > np.mean([float(h["accuracy"]) for h in mll.history[:8]]) + .2
    _, arr, _ = trained(static, lambda m: ARRLoss(m, torch.ones(48, 3), TOPICS), tmp_path, epochs=1)
    assert torch.allclose(arr.teacher, torch.ones(48, 3) / 3**.5) and not any("teacher" in n for n, _ in [*arr.named_parameters(), *arr.named_buffers()])

def test_sentence_transformers_own_collator_serves_the_bases(static, tmp_path):
    model = copy.deepcopy(static)
    loss = ContrastiveAuthorLoss(model, .1)
    args = training_arguments(tmp_path, num_train_epochs=1, per_device_train_batch_size=12, learning_rate=1e-2, use_cpu=True, batch_sampler=AuthorPairSampler)
    QuietTrainer(model=model, args=args, train_dataset=Dataset.from_dict({"text": TEXTS, "label": AUTHORS}), loss=loss).train()
    assert len(loss.history) == 2 and all(h["pairs"] == 12 for h in loss.history)

def test_what_classifiers_refuse(static):
    column, labels = batch(static, [0, 1, 4, 5])
    with pytest.raises(ValueError, match="at least 2"): MulticlassLoss(static, 1)
    with pytest.raises(ValueError, match="0 to 11, got 0 to 12"): MulticlassLoss(static, 12)([column], torch.tensor([0, 0, 1, 12]))
    with pytest.raises(ValueError, match="one author id a text"): MulticlassLoss(static, 12)([column], labels[:2])
    with pytest.raises(ValueError, match="one column of texts, got 2"): MulticlassLoss(static, 12)([column, column], labels)
    with pytest.raises(ValueError, match="author ids"): MulticlassLoss(static, 12)([column], None)

@pytest.mark.parametrize("kind", KINDS)
def test_counts_come_from_the_training_texts_alone(kind):
    rows_of = text_rows(kind, TEXTS[:24], words=["how", "why", "for", ".", ","])
    together, apart = rows_of([*TEXTS[24:28], "unheard zzz"]), [rows_of([t]) for t in TEXTS[24:28]]
    assert (abs(together[:4] - sparse.vstack(apart)) > 1e-7).nnz == 0, "a text's row does not depend on the other texts"
    lengths = np.sqrt(together.multiply(together).sum(1))
    assert np.allclose(lengths[:4], 1, atol=1e-6) and (lengths[4] == 0 or kind == "char") and together.shape[1] == rows_of(TEXTS[:1]).shape[1]

def test_marks_are_function_words_and_capitals_are_style():
    marks = text_rows("function words", ["a"], words=["a", ",", "!!"])(["a , b", "B !", "kettle"])
    assert marks.shape == (3, 3) and [marks[i].nnz for i in range(3)] == [2, 0, 0]
    c = text_rows("char", ["abc ABC"])(["abc", "ABC"])
    assert (c[0] @ c[1].T).sum() == 0

def test_author_ids():
    ids = author_ids(["cy", "ann", "cy", "bo"])
    assert ids.tolist() == [2, 0, 2, 1] and ids.dtype.kind == "i"
    with pytest.raises(ValueError, match="float64: `author_ids` makes them"): AuthorCollator(None, [0., 1.])
    with pytest.raises(ValueError, match="seen no batch"): history_summary([])

def test_the_classifier_begins_with_the_weights_of_its_seed(static):
    weights = [MulticlassLoss(static, 12, *seed).classifier.weight for seed in ((), (0,), (1,))]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])

@pytest.mark.parametrize("bias", [1., 1 + 1e-6])
def test_a_teacher_that_says_nothing_has_no_temperature(bias): # rounding takes a bias a little above 1
    assert history_summary([{"loss": 1., "B": bias}], .3)["teacher_temperature"] == math.inf

def test_the_last_loss_is_that_of_the_last_tenth():
    found = history_summary([{"loss": float(step)} for step in range(25)])
    assert found == {"batches": 25, "loss": 12, "loss_last": 23.5}

@pytest.mark.parametrize("variant, expected", [("paper", "regularised"), ("released", "released")])
def test_a_bias_of_one_is_a_teacher_that_knows_nothing(static, variant, expected):
    loss = ARRLoss(static, torch.ones(48, 2), TOPICS, variant=variant, bias=1)
    target, seen = loss.target(cosines(0, 4).float(), cosines(1, 4).float(), torch.tensor([0, 0, 1, 1]))
    share = 1 / 3 if expected == "regularised" else 1.
    assert torch.allclose(target, share * (1 - torch.eye(4))) and seen["B"] == 1
