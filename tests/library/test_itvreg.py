"The terms of paper A beside their two losses, against loops; what is drawn by names; a base that remembers."
import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from debias_nb.encoders.tokens import embed, encode_tokens, from_features, tokenize
from debias_nb.encoders.interventions import choose, intervene, random_bits
from debias_nb.losses.pair_losses import NGAME, Hinge, LeastSquares, hinge
from debias_nb.losses.regularized import Regularized
from debias_nb.runs.names import REGULARIZERS
from debias_nb.losses.regularizers import Intervening, OutReg, SimCSE
from debias_nb.runs.settings import HingeTraining, PairMethod
from debias_nb.runs.course import CachedBase, Course, FrozenBase
from debias_nb.runs.training import make_loss
from made import bert, load, table

LEFT = ["red kettle", "lamp", "old chair for a table", "small new kettle"] # nothing intervenes on the second one
RIGHT = ["a kettle in red", "the chair", "old table", "lamp with a chair"]
LABELS = [1., 0., 1., 0.]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(table(tmp_path_factory.mktemp("models")))


@pytest.fixture
def base(model):
    "The encoder as it was, elsewhere."
    copy_of_model = copy.deepcopy(model)
    torch.manual_seed(1)
    with torch.no_grad():
        for weights in copy_of_model.parameters():
            weights.add_(.3 * torch.randn_like(weights))
    return copy_of_model


def columns_of(model, left=LEFT, right=RIGHT):
    columns = [model.preprocess(texts) for texts in (left, right)]
    for column in columns:
        column["row"] = torch.arange(len(left))
    return columns


# ---------------------------------------------------------------- what is refused


def first_rows(loss, model, labels):
    "Two rows of a batch."
    return loss(columns_of(model, LEFT[:2], RIGHT[:2]), torch.tensor(labels))


HINGE_TRAINING = HingeTraining(loss="hinge", **NGAME, learning_rate=1e-3, epochs=1, batch_size=8)
ITVAUG = PairMethod(name="Ours", augmentation="itvaug", mask_share=.5)


@pytest.mark.parametrize("call, words", [
    (lambda m: first_rows(LeastSquares(m), m, [[1., 0.], [0., 1.]]), "labels of shape"),
    (lambda m: first_rows(Regularized(m, LeastSquares(m), [OutReg()]), m, [1., 2.]), "labels must lie in"),
    (lambda m: first_rows(LeastSquares(m), m, [1., float("nan")]), "labels must lie in"),
    (lambda m: LeastSquares(m)(columns_of(m) * 2, torch.tensor(LABELS)), "two columns"),
    (lambda m: Regularized(m, LeastSquares(m), [OutReg()])(columns_of(m) * 2, torch.tensor(LABELS)), "two columns"),
    (lambda m: first_rows(Hinge(m), m, [1., 0.]), "the hinge needs"),
    (lambda m: first_rows(Hinge(m), m, [[True, False]]), "the hinge needs"),
    *((lambda m, name=name, value=value: Hinge(m, **{name: value}), name) for name, value in (
        ("margin", 0), ("margin", float("nan")), ("hardest", 0), ("hardest", 1.5), ("temperature", 0.),
        ("temperature", -1.))),
    (lambda m: make_loss(ITVAUG, m, FrozenBase(m), Course(0), HINGE_TRAINING), "'Ours': ITVAug"),
    (lambda m: PairMethod(name="Ours", regularizer="itvregs", weight=1., mask_share=.5), "did you mean 'itvreg'"),
    (lambda m: Regularized(m, LeastSquares(m), [OutReg()], FrozenBase(m)), "`base`"),
])
def test_what_would_give_other_numbers_is_refused(model, call, words):
    with pytest.raises(ValueError, match=words):
        call(model)


def test_what_a_configuration_may_set_is_what_the_class_reads():
    for name, entry in REGULARIZERS.items():
        kind = entry.load()
        assert ("mask_share" in entry.takes) == (issubclass(kind, Intervening) or name == "worddropout")
        assert "texts" not in entry.takes or kind.reads_columns


# ---------------------------------------------------------------- the terms against their formulas


METHODS = {
    "none": dict(), "itvreg": dict(weight=2., mask_share=.5), "maskreg": dict(weight=2., mask_share=.5),
    "outreg": dict(weight=2.), "l2sp": dict(weight=.5), "simcse": dict(weight=2.)}


def loss_of(model, base, course, name, **changes):
    "The loss of a method with the draws of seed 3 in epoch 2."
    if name in METHODS:
        method = PairMethod(name="ours", regularizer=name, **METHODS[name] | changes)
    else:
        method = PairMethod(name="ours", augmentation=name, mask_share=.5, **changes)
    loss = make_loss(method, model, FrozenBase(base), course)
    course.begin_epoch(2)
    return loss


def terms_of(model, base, name, **changes):
    "What is summed, and the course."
    course = Course(3)
    terms = loss_of(model, base, course, name, **changes)(columns_of(model), torch.tensor(LABELS))
    if torch.is_tensor(terms):
        terms = {"base": terms}
    return {name: float(term.detach()) for name, term in dict(terms).items()}, course


@pytest.fixture
def vectors(model, base):
    "Embeddings of queries, items and intervened queries, of the encoder and of its base."
    x, z = (from_features(model, column) for column in columns_of(model))
    choices, weight = choose(x, .5, 3, 2, np.arange(4))
    intervened = intervene(model, x, choices)
    assert weight.tolist() == [1, 0, 1, 1]
    with torch.no_grad():
        return [[encode_tokens(encoder, tokens).double() for tokens in (x, z, intervened)] for encoder in (model, base)]


def squares(a, b, targets):
    "Squared errors of the cosines of some rows."
    return [(float(a[i] @ b[i]) - float(targets[i])) ** 2 for i in range(len(a))]


def mean_of(values, rows=range(4)):
    return sum(values[i] for i in rows) / len(rows)


def approx(value):
    return pytest.approx(value, abs=1e-6)


def test_the_terms_by_loops(model, base, vectors):
    (fx, fz, fo), (f0x, _, f0o) = vectors
    erm = approx(mean_of(squares(fx, fz, LABELS)))
    change_squares = squares(fx, fo, (f0x * f0o).sum(1))
    distance_squares = squares(fx, fo, [1] * 4)
    terms, course = terms_of(model, base, "itvreg")
    step, = course.history
    assert terms == {"base": erm, "itvreg": approx(2 * mean_of(change_squares, [0, 2, 3]))}
    maskreg = approx(2 * mean_of(distance_squares, [0, 2, 3]))
    assert terms_of(model, base, "maskreg")[0] == {"base": erm, "maskreg": maskreg}
    assert {name: float(value) for name, value in step.items()} == {
        "erm": terms["base"], "raw": approx(terms["itvreg"] / 2), "weighted": terms["itvreg"]}
    first, second = torch.nn.functional.normalize(torch.randn(2, 4, 8), dim=2)
    passes = SimpleNamespace(fx=first, tokens=None, batch=SimpleNamespace(static=False), encode=lambda tokens: second,
                             unit=lambda *embeddings: embeddings)
    assert float(SimCSE(1.).term(passes)) == approx(mean_of(squares(first, second, [1] * 4)))


def targets(vectors):
    "What ITVAug makes of the labels."
    _, (f0x, f0z, f0o) = vectors
    return [min(max(LABELS[i] - float(f0x[i] @ f0z[i] - f0o[i] @ f0z[i]), 0), 1) for i in range(4)]


def test_itvaug_is_one_mean_over_given_and_intervened_pairs(model, base, vectors):
    (fx, fz, fo), _ = vectors
    errors = squares(fx, fz, LABELS)
    twins = squares(fo, fz, targets(vectors))
    terms, course = terms_of(model, base, "itvaug")
    assert terms == {"base": approx(sum(errors) / 7), "itvaug": approx((twins[0] + twins[2] + twins[3]) / 7)}
    assert {name: float(value) for name, value in course.history[0].items()} == {
        "erm": approx(sum(errors) / 4), "raw": approx(mean_of(twins, [0, 2, 3])), "weighted": terms["itvaug"]}


def test_word_dropout_trains_on_what_is_left(model, base):
    embeddings = []
    for side, column in enumerate(columns_of(model)):
        tokens = from_features(model, column)
        choices, _ = choose(tokens, .5, 3, 2, 2 * np.arange(4) + side)
        embeddings.append(encode_tokens(model, intervene(model, tokens, choices, "delete")).detach().double())
    assert terms_of(model, base, "worddropout")[0] == {"base": approx(mean_of(squares(*embeddings, LABELS)))}


def test_a_share_of_the_rows_is_regularised(model, base, vectors):
    (fx, _, fo), (f0x, _, f0o) = vectors
    course = Course(3)
    loss = loss_of(model, base, course, "itvreg", rows=.5)
    rows = loss.draws(columns_of(model)).some_rows(4, .5).tolist()
    result = float(loss(columns_of(model), torch.tensor(LABELS))["itvreg"].detach())
    change_squares = squares(fx, fo, (f0x * f0o).sum(1))
    assert len(set(rows)) == 2 and result == approx(2 * mean_of(change_squares, [i for i in rows if i != 1]))
    bits, = random_bits(3, len(course.history), [0], 4, stream=3)
    assert loss.draws(columns_of(model)).some_rows(4, .5).tolist() == bits.argsort(kind="stable")[:2].tolist()


def test_dropout_of_a_further_pass_is_named_by_seed_and_step(model, tmp_path):
    course = Course(3)
    course.history = [{}] * 5 # the sixth step
    with course.draws(load(bert(tmp_path)), False, columns_of(model)).aside(torch.device("cpu")):
        numbers = torch.rand(3)
    (bits,), = random_bits(3, 5, [0], 1, stream=2)
    assert torch.equal(numbers, torch.rand(3, generator=torch.Generator().manual_seed(int(bits) >> 1)))
    torch.manual_seed(8)
    with course.draws(model, False, columns_of(model)).aside(torch.device("cpu")): # a table's are torch's own
        numbers = torch.rand(3)
    assert torch.equal(numbers, torch.rand(3, generator=torch.Generator().manual_seed(8)))


def test_an_evaluation_leaves_no_trace(model, base):
    traces = []
    for has_evaluation in (True, False):
        course = Course(3)
        loss = loss_of(model, base, course, "itvreg", rows=.5)
        steps = [loss(columns_of(model), torch.tensor(LABELS))]
        if has_evaluation:
            with torch.no_grad():
                loss(columns_of(model), torch.tensor(LABELS))
        steps.append(loss(columns_of(model), torch.tensor(LABELS)))
        traces.append(([float(step["itvreg"].detach()) for step in steps], len(course.history)))
    assert traces[0] == traces[1]


# ---------------------------------------------------------------- the two losses


@pytest.mark.parametrize("settings", [
    {}, NGAME, {"hardest": 2, "temperature": .5, "margin": .1}, {"hardest": 3, "temperature": None},
])
def test_the_hinge_by_loops(settings):
    margin, hardest, temperature = ({"margin": 1., "hardest": 1, "temperature": None} | settings).values()
    rng = torch.Generator().manual_seed(0)
    fx, fz = (torch.nn.functional.normalize(torch.randn(5, 4, generator=rng), dim=1) for _ in range(2))
    relevant = torch.eye(5, dtype=torch.bool)
    relevant[0, 3] = True
    relevant[4] = True # a query without negatives
    losses = []
    for i in range(5):
        cosines = sorted((float(fx[i] @ fz[j]) for j in range(5) if not relevant[i, j]), reverse=True)[:hardest]
        weights = [1. if temperature is None else np.exp(cosine / temperature) for cosine in cosines]
        excess = [max(margin + cosine - float(fx[i] @ fz[i]), 0) for cosine in cosines]
        losses.append(np.average(excess, weights=weights) if cosines else 0)
    assert float(hinge(fx, fz, relevant, **settings)) == pytest.approx(np.mean(losses), abs=1e-5)


def test_the_weights_of_the_hinge_are_constants():
    "Where all negatives violate a large margin, a query's gradient is their weighted mean minus its own item."
    rng = torch.Generator().manual_seed(0)
    fx, fz = (torch.nn.functional.normalize(torch.randn(4, 3, generator=rng), dim=1) for _ in range(2))
    fx.requires_grad_(True)
    hinge(fx, fz, torch.eye(4, dtype=torch.bool), margin=3., hardest=10, temperature=.5).backward()
    cosines = (fx @ fz.T).detach()
    weights = (cosines / .5).masked_fill(torch.eye(4, dtype=torch.bool), float("-inf")).softmax(1)
    assert torch.allclose(fx.grad, (weights @ fz - fz) / 4, atol=1e-6)


# ---------------------------------------------------------------- the base


def view_of(tokens, rows, place=0):
    "As much of a view as a base looks at."
    draws = SimpleNamespace(names=torch.arange(100))
    return SimpleNamespace(batch=SimpleNamespace(draws=draws), tokens=tokens, rows=torch.as_tensor(rows), place=place)


def test_the_base_of_a_truncated_encoder_gives_all_numbers(tmp_path):
    encoder = load(bert(tmp_path))
    tokens = tokenize(encoder, LEFT)
    expected = embed(encoder, tokens)
    encoder.truncate_dim = 8
    for base in (FrozenBase(encoder), CachedBase(encoder, [tokens, tokens])):
        assert torch.allclose(base(view_of(tokens, range(4)), tokens), expected, atol=1e-6)
    assert encoder.truncate_dim == 8 and embed(encoder, tokens).shape[1] == 8


def test_a_base_that_remembers_gives_what_one_that_is_asked_gives(model, base):
    x, z = (from_features(model, column) for column in columns_of(model, [*LEFT, LEFT[0]], [*RIGHT, "lamp"]))
    cached_base = CachedBase(base, [x, z, x])
    frozen_base = FrozenBase(base)
    rows = torch.tensor([4, 1, 0])
    choices, _ = choose(x, .5, 3, 2, np.arange(5))
    intervened = intervene(base, x, choices)[rows]
    for place, tokens in enumerate((x[rows], z[rows], x[rows])):
        cosines = cached_base(view_of(tokens, rows, place), tokens)
        assert torch.allclose(cosines, frozen_base(view_of(tokens, rows), tokens), atol=1e-6)
    expected = frozen_base(view_of(x[rows], rows), intervened)
    assert torch.allclose(cached_base(view_of(x[rows], rows), intervened), expected, atol=1e-6)
    cached_base.prepare(.5, "mask", 3, 2)
    assert torch.allclose(cached_base(view_of(x[rows], rows), intervened), expected, atol=1e-6)
    cached_base.changed = cached_base.changed + 1
    assert not torch.allclose(cached_base(view_of(x[rows], rows), intervened), expected, atol=1e-6), "it remembers"
