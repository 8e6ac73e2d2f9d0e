"SCAN against loops written from the paper's equations, autograd and hand-made values; what it refuses."
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from debias_nb.losses.decorrelation import decorrelation, through_features, through_samples
from debias_nb.losses.scan import FUNCTION_KINDS, VARIANTS, Memory, learn_weights, random_features
from debias_nb.losses.scan_effects import diagnose_weights
from debias_nb.losses.scan_head import ScanHead, joint_loss, weighted_terms
from debias_nb.losses.scan_weights import Weights, covariance, dependence, moment, released_objective, standardize

torch.set_num_threads(1)


def generator_of(seed=0):
    return torch.Generator().manual_seed(seed)


def doubles(seed, *shape):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


def batch_of(n):
    "Features (n, 6), of which the second goes with the first."
    features = doubles(0, n, 6).float()
    features[:, 1] = .8 * features[:, 0] + .6 * features[:, 1]
    return features


def direct_loss(features, w, form="moment"):
    "Eq. 8 by matrices that autograd goes through."
    if form == "moment":
        return dependence(moment(features, w))
    every = covariance(features, w) # of every function of a feature with every one of another
    return dependence(every if form == "paper" else every.diagonal().permute(2, 0, 1))


def test_random_features_repeat_and_stay_in_bounds():
    z = standardize(doubles(0, 50, 4))
    assert torch.equal(random_features(z, 3, generator_of(5)), random_features(z, 3, generator_of(5)))
    assert not torch.equal(random_features(z, 3, generator_of(5)), random_features(z, 3, generator_of(6)))
    for kinds in FUNCTION_KINDS:
        values = random_features(z, 3, generator_of(), kinds)
        assert values.shape == (50, 4, {"cos+sin": 6, "released": 3}[kinds])
        assert values.abs().max() <= 2**.5 + 1e-9
    generator = generator_of()
    frequency, turn = torch.randn(4, 3, generator=generator), torch.rand(4, 3, generator=generator)
    angle = z[:, 1] * frequency[1, 2] + 2 * torch.pi * turn[1, 2]
    assert torch.allclose(random_features(z, 3, generator_of())[:, 1, 2], 2**.5 * torch.cos(angle))
    features = random_features(z, 3, generator_of(), "released")
    at_the_end = (features - (2 / 3)**.5).abs() < 1e-6
    assert at_the_end.sum(1).min() >= 2, "a sample's smallest and largest angles both give cos + sin = 1"
    assert features.min() >= (2 / 3)**.5 - 1e-9
    assert features.max() <= (4 / 3)**.5 + 1e-9


def test_standardized_features_have_deviation_1_and_constant_ones_are_0():
    z = standardize(torch.tensor([[1., 5., .1], [3., 5., .1]]))
    assert z.tolist() == [[-1, 0, 0], [1, 0, 0]]
    assert (standardize(torch.full((140, 3), .1)) == 0).all()
    assert (standardize(torch.tensor([[1e-9], [-1e-9]])).abs() == 1).all(), "small is not constant"


# ---- learning


BATCH = batch_of(140)


def test_the_released_step_is_gradient_descent_with_momentum():
    """Two steps by hand: the softmax of the logits, 2 loss / lambda + sum of squares, momentum 0.9.

    The second step is at a tenth of the rate.
    """
    few = BATCH[:20]
    got = learn_weights(few, generator=generator_of(1), variant="released", steps=2, lr=.5)
    g = generator_of(1)
    theta = torch.ones(20, requires_grad=True)
    moving = torch.zeros(20)
    for rate in (.5, .05):
        p = theta.softmax(0)
        features = random_features(few, 5, g, "released")
        objective = 2 * direct_loss(features, p) / .01 + p.square().sum()
        slope, = torch.autograd.grad(objective, theta)
        moving = .9 * moving + slope
        theta = (theta - rate * moving).detach().requires_grad_()
    assert torch.allclose(got.raw, theta.detach(), atol=1e-5)
    assert torch.allclose(got.values, 20 * theta.detach().softmax(0), atol=1e-4)


def test_the_paper_s_step_is_plain_descent():
    few = BATCH[:20]
    got = learn_weights(few, generator=generator_of(1), variant="paper", steps=3, lr=.01)
    features = random_features(standardize(few), 5, generator_of(1))
    w = torch.ones(20, requires_grad=True)
    for _ in range(3):
        slope, = torch.autograd.grad(direct_loss(features, w, "paper"), w)
        w = (w - .01 * slope).detach().requires_grad_()
    assert torch.allclose(got.values, w.detach(), atol=1e-5)
    assert torch.equal(got.values, got.raw)


def test_the_fixed_steps_are_adam_s_on_the_relative_loss_and_a_penalty():
    few = BATCH[:20]
    got = learn_weights(few, generator=generator_of(1), steps=10)
    features = random_features(standardize(few), 5, generator_of(1))
    start = direct_loss(features, torch.ones(20))
    theta = torch.ones(20, requires_grad=True)
    adam = torch.optim.Adam([theta], .1)
    for _ in range(10):
        w = 20 * theta.softmax(0)
        objective = direct_loss(features, w) / start + .3 * (w.square().mean() - 1)
        adam.zero_grad()
        objective.backward()
        adam.step()
    assert torch.allclose(got.values, 20 * theta.detach().softmax(0), atol=1e-3)


def test_samples_of_a_memory_stand_beside_the_batch_with_their_own_weights():
    few = BATCH[:20]
    memory = Memory("queue")
    memory.update(BATCH[20:30], torch.linspace(.2, 3, 10))
    got = learn_weights(few, memory=memory, generator=generator_of(1), variant="paper", steps=1, lr=.01)
    everything = torch.cat([few, memory.features])
    features = random_features(standardize(everything), 5, generator_of(1))
    w = torch.ones(20, requires_grad=True)
    loss = direct_loss(features, torch.cat([w, memory.weights]), "paper")
    slope, = torch.autograd.grad(loss, w)
    assert torch.allclose(got.values, 1 - .01 * slope, atol=1e-5)


@pytest.mark.parametrize("d, way", [(4, through_features), (12, through_samples)])
@pytest.mark.parametrize("form", ["moment", "paper", "matched"])
def test_the_closed_form_has_autograd_s_gradient(form, d, way):
    "At weights of any sum: a softmax, as most steps have, takes a constant out of the gradient."
    features = doubles(3, 20, d, 2)
    w = torch.linspace(.2, 3, 20, dtype=torch.float64, requires_grad=True)
    loss = decorrelation(features, form)
    assert loss.squares.__qualname__.startswith(way.__name__), "the smaller matrix is computed"
    losses = loss(w), direct_loss(features, w, form)
    slopes = [torch.autograd.grad(value, w)[0] for value in losses]
    assert torch.allclose(*losses, rtol=1e-8) and torch.allclose(*slopes, rtol=1e-8)


def test_a_batch_of_one_class_is_like_a_batch_without_classes():
    z = BATCH[BATCH[:, 0] > 0]
    y = torch.ones(len(z), dtype=torch.long)
    plain = learn_weights(z, generator=generator_of())
    for options in ({}, dict(class_mass="keep")):
        classes = learn_weights(z, y, generator=generator_of(), **options)
        assert torch.allclose(classes.values, plain.values, atol=1e-3)
    report = diagnose_weights(plain, z, y, generator=generator_of())
    assert "mean of class 1" in report
    assert "mean of class 0" not in report
    constant = torch.cat([z, torch.full((len(z), 1), 3.3)], 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weights = learn_weights(constant, generator=generator_of())
    assert weights.values.isfinite().all() and weights.loss < 1 and not weights.note, "a constant column does no harm"


@pytest.mark.parametrize("variant", list(VARIANTS))
@pytest.mark.parametrize("features, reason", [
    (torch.full((12, 5), .3), "all features are equal"),
    (torch.zeros(12, 5), "all features are equal"),
    (torch.cat([torch.linspace(0, 1, 100)[:, None], torch.full((100, 3), 3.7)], 1), "only one feature"),
])
def test_nothing_to_decorrelate_leaves_uniform_weights_and_says_so(variant, features, reason):
    with pytest.warns(UserWarning, match=reason) as warning_log:
        w = learn_weights(features, generator=generator_of(), variant=variant)
    assert (w.values == 1).all()
    assert reason in w.note
    assert warning_log[0].filename == __file__
    report = diagnose_weights(w, features, generator=generator_of())
    assert report["note"] == w.note
    assert report["constant features"] >= 3
    assert report["effective size"] == 1
    assert np.isnan([report["fresh loss"], report["fresh loss, shuffled"]]).all(), "a quotient of two roundings"


@pytest.mark.parametrize("columns", [(0, 0), (0, 0, 0, 0), (0, 1)], ids=["two copies", "copies", "two features"])
def test_functions_that_do_not_vary_leave_uniform_weights_and_say_so(columns):
    "The public code's functions are those of a feature's place: of two features, or of copies, all are equal."
    features = torch.randn(32, 2, generator=generator_of())[:, list(columns)]
    with pytest.warns(UserWarning, match="random Fourier features are equal"):
        w = learn_weights(features, generator=generator_of(), variant="released")
    assert (w.values == 1).all() and w.loss == 1 and w.note
    assert learn_weights(features, generator=generator_of()).loss < 1, "those of the paper vary"


def test_a_rate_that_loses_the_weights_is_said():
    wide = standardize((doubles(0, 40, 3) @ doubles(1, 3, 200))).float()
    with pytest.raises(FloatingPointError, match="lr=1 "):
        learn_weights(wide, generator=generator_of(), variant="paper", lr=1.)


def test_the_model_gets_no_gradient_and_need_not_want_any():
    z = BATCH[:20].clone().requires_grad_()
    learn_weights(z, generator=generator_of(), steps=2)
    assert z.grad is None
    with torch.no_grad():
        assert learn_weights(z, generator=generator_of(), steps=2).values.std() > 0
    half = learn_weights(z.detach().bfloat16(), generator=generator_of(), steps=2)
    assert half.values.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        in_inference = learn_weights(z, generator=generator_of(), steps=2)
    in_training = learn_weights(z, generator=generator_of(), steps=2)
    assert torch.equal(in_inference.values, in_training.values)


# ---- memory


def test_memories_hold_what_was_worked_out_by_hand():
    ema = Memory("ema", alpha=.75)
    queue = Memory("queue", size=3)
    batches = [(torch.zeros(2, 1), torch.ones(2)), (torch.full((2, 1), 4.), torch.full((2,), 3.))]
    for features, weights in batches:
        ema.update(features, weights)
        queue.update(features, weights)
    first = Memory("queue", size=3)
    first.update(*batches[0])
    assert first.features.flatten().tolist() == [0, 0] and first.weights.tolist() == [1, 1]
    assert ema.features.flatten().tolist() == [1, 1]
    assert ema.weights.tolist() == [1.5, 1.5]
    assert queue.features.flatten().tolist() == [0, 4, 4]
    assert queue.weights.tolist() == [1, 3, 3]
    ema.update(torch.full((1, 1), 5.), torch.ones(1))
    assert ema.features.flatten().tolist() == [2, 1], "a shorter batch leaves the rest"
    ema.update(torch.full((3, 1), 0.), torch.ones(3))
    assert ema.features.flatten().tolist() == [1.5, .75, 0], "a longer one brings new samples"


# ---- language debiasing and the head


def test_the_terms_are_their_formulas():
    torch.manual_seed(0)
    head = ScanHead(8, temperature=.5).eval()
    hidden = torch.randn(6, 8)
    labels = torch.tensor([0, 1, 1, 0, 1, 0])
    w = torch.rand(6)
    terms = head(hidden, labels, w)
    debiased_rows, bias = head.debiasing(hidden)
    assert bias.min() >= 0 > debiased_rows.min()
    positive, negative = (torch.exp(F.cosine_similarity(hidden, x) / .5) for x in (debiased_rows, bias))
    assert torch.isclose(terms["cl"], -torch.log(positive / (positive + negative)).mean())
    by_sample = F.cross_entropy(head.classifier(hidden), labels, reduction="none")
    uneven = ScanHead(8, class_weights=(1., 3.)).eval()
    uneven.classifier.load_state_dict(head.classifier.state_dict())
    assert torch.isclose(uneven(hidden, labels)["sw"], (by_sample * (1 + 2 * labels)).mean())
    assert torch.isclose(terms["sw"], (w * by_sample).mean())
    assert torch.isclose(terms["ce"], F.cross_entropy(head.classifier(debiased_rows), labels))
    assert torch.isclose(joint_loss(terms, cl=.5), terms["sw"] + terms["ce"] + terms["cl"] / 2)
    assert joint_loss(terms, cl=0) == terms["sw"] + terms["ce"]
    assert torch.isclose(sum(weighted_terms(terms).values()), sum(terms.values()))
    assert released_objective(3., torch.tensor([.5, 1.5]), .1) == 60 + (.25**2 + .75**2)
    weights = learn_weights(hidden, labels, generator=generator_of(), steps=3)
    assert isinstance(weights, Weights)
    assert torch.equal(head(hidden, labels, weights)["sw"], head(hidden, labels, weights.values)["sw"])


@pytest.mark.parametrize("d", [6, 30]) # through matrices of features, and of samples
def test_single_precision_bears_features_far_from_zero(d):
    features = 300 + doubles(0, 50, d, 2)
    weights = torch.linspace(.5, 1.5, 50)
    exact = decorrelation(features, "moment")(weights.double())
    single = decorrelation(features.float(), "moment")(weights)
    assert float(single) == pytest.approx(float(exact), rel=2e-3)


# ---- what is refused

FEATURES = batch_of(14)
ONE_CLASS = torch.zeros(14, dtype=torch.long)


def learn(features=FEATURES, labels=None, memory=None, **changes):
    return learn_weights(features, labels, memory, **({"generator": generator_of()} | changes))


def diagnose(weights=FEATURES.new_ones(14), features=FEATURES, **changes):
    return diagnose_weights(weights, features, generator=generator_of(), **changes)


def with_a_gap(row, value):
    features = FEATURES.clone()
    features[row, 2] = value
    return features


def weighted(*weights):
    "A head asked for two samples under these weights."
    return ScanHead(8)(torch.zeros(2, 8), torch.zeros(2, dtype=torch.long), torch.tensor(weights))


FAULTS = [ # the name that the message has
    ("keep", lambda: learn(class_mass="kept")),
    ("class_mass='keep' needs labels", lambda: learn(class_mass="keep")),
    ("fixed", lambda: learn(variant="fixd")),
    ("steps", lambda: learn(step=10)),
    (r"cos\+sin", lambda: learn(kinds="cos+sine")),
    ("moment", lambda: learn(form="moments")),
    ("^r ", lambda: learn(r=0)),
    ("^lr ", lambda: learn(lr=0)),
    ("steps must be a whole number from 0", lambda: learn(steps=2.5)),
    ("features: numbers", lambda: learn([["a"]])),
    ("memory", lambda: learn(memory=4)),
    ("penalty", lambda: learn(variant="released", penalty=0)),
    ("class_mass.*'released'", lambda: learn(labels=ONE_CLASS, variant="released", class_mass="keep")),
    ("labels", lambda: learn(labels=ONE_CLASS[1:])),
    ("labels", lambda: learn(labels=ONE_CLASS - 1)),
    ("features: row 7", lambda: learn(with_a_gap(7, float("inf")))),
    ("features", lambda: learn(torch.zeros(1, 4))),
    ("queue", lambda: Memory("queu")),
    ("alpha", lambda: Memory(alpha=1)),
    ("size", lambda: Memory("queue", size=1.5)),
    ("weights", lambda: diagnose(torch.ones(13))),
    ("weights", lambda: diagnose(torch.zeros(14))),
    ("draws", lambda: diagnose(draws=0)),
    ("features: row 7", lambda: diagnose(features=with_a_gap(7, float("nan")))),
    ("released", lambda: ScanHead(8, debias="release")),
    ("dropout", lambda: ScanHead(8, dropout=2)),
    ("weights: row 1", lambda: weighted(1., float("nan"))),
    ("weights", lambda: weighted(1., 1., 1.)),
]


@pytest.mark.parametrize("name, attempt", FAULTS)
def test_what_cannot_be_is_refused(name, attempt):
    with pytest.raises(ValueError, match=name):
        attempt()
