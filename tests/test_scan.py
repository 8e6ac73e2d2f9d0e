"""SCAN against loops written from the paper's equations, autograd and hand-made values; what it refuses."""
import copy, io, warnings
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st

from debias_nb.scan import (
    HEADS, KINDS, LEARNERS, VARIANTS, DirectDecorrelation, GramDecorrelation, LanguageDebiasing, Memory, ScanHead, Weights,
    contrastive_loss, decorrelation, diagnose, fourier, learn_weights, oracle_weights, random_features, scan_loss,
    standardise,
)

torch.set_num_threads(1)
FORMS = ["moment", "paper"]

def seeded(seed=0): return torch.Generator().manual_seed(seed)

def doubles(seed, *shape): return torch.tensor(np.random.default_rng(seed).normal(size=shape))

class World(NamedTuple):
    features: torch.Tensor # (n, 6): cause, shortcut, noise
    labels: torch.Tensor
    attribute: torch.Tensor

def world(n, seed=0, rho=.8, share=None):
    "The cause decides the label, the shortcut correlates with it; with a share of label 1, both are noisy copies of the label."
    rng = np.random.default_rng(seed)
    if share is None:
        c, e = rng.normal(size=(2, n))
        s = rho * c + (1 - rho**2)**.5 * e
        y, a = c > 0, s > 0
    else:
        y = rng.random(n) < share
        a = y ^ (rng.random(n) > (1 + rho) / 2)
        c, s = 2 * y - 1 + .8 * rng.normal(size=n), 2 * a - 1 + .5 * rng.normal(size=n)
    features = np.column_stack([c, s, rng.normal(size=(n, 4))])
    return World(torch.tensor(features, dtype=torch.float32), torch.tensor(y).long(), torch.tensor(a).long())

def covariance(z, w, form="moment"): # (..., n, d)
    if form == "paper":
        u = w[:, None] * z
        u = u - u.mean(-2, keepdim=True)
        return u.mT @ u / (z.shape[-2] - 1)
    p = w[:, None] / w.sum()
    centred = z - (p * z).sum(-2, keepdim=True)
    return (p * centred).mT @ centred

def direct_loss(features, w, form="moment"):
    "Eq. 8 by matrices that autograd goes through."
    squared = covariance(features.permute(2, 0, 1), w, form).square().sum(0)
    return (squared.sum() - squared.diagonal().sum()) / 2

def looped(features, weights, form):
    "Eq. 6 to 8 with loops: (n, d, m) features."
    h, w = np.asarray(features), np.asarray(weights)
    n, d, m = h.shape
    total = 0.
    for j1 in range(d):
        for j2 in range(j1 + 1, d):
            for k in range(m):
                a, b = h[:, j1, k], h[:, j2, k]
                if form == "paper":
                    ea, eb = sum(w * a) / n, sum(w * b) / n
                    c = sum((w[i] * a[i] - ea) * (w[i] * b[i] - eb) for i in range(n)) / (n - 1)
                else:
                    p = w / w.sum()
                    ma, mb = sum(p * a), sum(p * b)
                    c = sum(p[i] * (a[i] - ma) * (b[i] - mb) for i in range(n))
                total += c**2
    return total

@pytest.mark.parametrize("form", FORMS)
@given(seed=st.integers(0, 1000), n=st.integers(3, 9), d=st.integers(2, 6), m=st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_all_ways_are_the_paper_s_sums(form, seed, n, d, m):
    features, weights = doubles(seed, n, d, m), torch.tensor(np.random.default_rng(seed).uniform(.1, 3, n), requires_grad=True)
    expected = looped(features, weights.detach(), form)
    reference = direct_loss(features, weights, form)
    slope, = torch.autograd.grad(reference, weights)
    assert np.isclose(float(reference.detach()), expected, rtol=1e-9)
    for through in ("gram", "direct"):
        value = decorrelation(features, form, through)(weights)
        closed, = torch.autograd.grad(value, weights)
        assert np.isclose(float(value.detach()), expected, rtol=1e-8, atol=1e-12)
        assert torch.allclose(closed, slope, rtol=1e-6, atol=1e-9 * float(1 + slope.abs().max()))

@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("through", ["gram", "direct"])
def test_the_closed_gradient_passes_finite_differences(form, through):
    features, weights = doubles(3, 7, 4, 2), torch.linspace(.4, 2, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(decorrelation(features, form, through), (weights,))

def test_values_worked_out_by_hand():
    z = torch.tensor([[1., 2.], [3., 6.]], dtype=torch.float64)
    w = lambda *v: torch.tensor(v, dtype=torch.float64)
    for through in ("gram", "direct"):
        assert decorrelation(z[..., None], through=through)(w(.5, .5)).item() == pytest.approx(4)
        assert decorrelation(z[..., None], through=through)(w(1, 0)).item() == pytest.approx(0, abs=1e-12)
        assert decorrelation(z[..., None], "paper", through=through)(w(1, 1)).item() == pytest.approx(16)

def test_single_precision_keeps_four_digits_at_full_width():
    latent = doubles(0, 60, 4) @ doubles(1, 4, 300)
    features = random_features(standardise(latent + 5 * doubles(2, 60, 300)), 2, seeded())
    w = torch.rand(60, generator=seeded(), dtype=torch.float64) + .1
    for form in ("moment", "paper"):
        exact = direct_loss(features, w, form).item()
        assert decorrelation(features.float(), form)(w.float()).item() == pytest.approx(exact, rel=1e-4)

def test_the_smaller_matrices_are_taken():
    assert isinstance(decorrelation(doubles(0, 9, 3, 1)), DirectDecorrelation)
    assert isinstance(decorrelation(doubles(0, 9, 30, 1)), GramDecorrelation)
    assert isinstance(decorrelation(doubles(0, 9, 8, 1)), GramDecorrelation) and isinstance(decorrelation(doubles(0, 9, 8, 1), "paper"), DirectDecorrelation)

@given(scale=st.floats(.01, 100), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_the_moment_form_knows_neither_scale_of_weights_nor_place_of_features(scale, seed):
    z, w = doubles(seed, 8, 3, 2), torch.tensor(np.random.default_rng(seed).uniform(.1, 2, 8))
    loss = direct_loss(z, w).item()
    assert direct_loss(z, scale * w).item() == pytest.approx(loss) and direct_loss(z + 7, w).item() == pytest.approx(loss)
    assert direct_loss(z, scale * w, "paper").item() == pytest.approx(scale**4 * direct_loss(z, w, "paper").item())

def test_random_features_repeat_and_stay_in_bounds():
    z = standardise(doubles(0, 50, 4))
    assert torch.equal(random_features(z, 3, seeded(5)), random_features(z, 3, seeded(5))) and not torch.equal(random_features(z, 3, seeded(5)), random_features(z, 3, seeded(6)))
    for kinds in KINDS:
        values = random_features(z, 3, seeded(), kinds)
        assert values.shape == (50, 4, {"cos+sin": 6, "released": 3}[kinds]) and values.abs().max() <= 2**.5 + 1e-9
    f = fourier(4, 3, seeded())
    assert torch.allclose(f(z)[:, 1, 2], 2**.5 * torch.cos(z[:, 1] * f.frequency[1, 2] + f.phase[1, 2]))
    released = f(z, "released")
    assert ((released - (2 / 3)**.5).abs() < 1e-6).sum(1).min() >= 2, "a sample's smallest and largest angles both give cos + sin = 1"
    assert released.min() >= (2 / 3)**.5 - 1e-9 and released.max() <= (4 / 3)**.5 + 1e-9

def test_standardise():
    z = standardise(torch.tensor([[1., 5., .1], [3., 5., .1]]))
    assert z.tolist() == [[-1, 0, 0], [1, 0, 0]]
    assert (standardise(torch.full((140, 3), .1)) == 0).all() and (standardise(torch.tensor([[1e-9], [-1e-9]])).abs() == 1).all(), "small is not constant"

# ---- learning

@pytest.fixture(scope="module")
def batch(): return world(140)

def test_learning_lowers_the_loss_on_fresh_functions_and_repeats(batch):
    w, again = (learn_weights(batch.features, generator=seeded(3)) for _ in range(2))
    assert torch.equal(w.values, again.values) and w.loss < .7
    assert w.values.mean().item() == pytest.approx(1, abs=1e-5) and w.values.min() > 0
    told = diagnose(w, batch.features, batch.labels, generator=seeded(4))
    assert told["fresh loss"] < .6 < .95 < told["fresh loss, shuffled"] and .4 < told["effective size"] < .9
    assert w.values[batch.labels != batch.attribute].mean() > 1.3, "those in which cause and shortcut disagree"

def test_zero_steps_are_uniform(batch):
    for variant in VARIANTS: assert torch.allclose(learn_weights(batch.features, generator=seeded(), variant=variant, steps=0).values, torch.ones(140))

def test_a_heavy_penalty_keeps_weights_uniform_and_none_lets_them_go(batch):
    sizes = [diagnose(learn_weights(batch.features, generator=seeded(), penalty=p), batch.features, generator=seeded())["effective size"] for p in (0, .3, 30)]
    assert sizes[0] < sizes[1] < sizes[2] and sizes[2] > .97

def test_the_released_step_is_gradient_descent_with_momentum(batch):
    "Two steps by hand: the softmax of the logits, 2 loss / lambda + sum of squares, momentum 0.9, the second step at a tenth of the rate."
    got = learn_weights(batch.features[:20], generator=seeded(1), variant="released", steps=2, lr=.5)
    g, theta, moving = seeded(1), torch.ones(20, requires_grad=True), torch.zeros(20)
    for rate in (.5, .05):
        p = theta.softmax(0)
        objective = 2 * direct_loss(random_features(batch.features[:20], 5, g, "released"), p) / .01 + p.square().sum()
        slope, = torch.autograd.grad(objective, theta)
        moving = .9 * moving + slope
        theta = (theta - rate * moving).detach().requires_grad_()
    assert torch.allclose(got.raw, theta.detach(), atol=1e-5) and torch.allclose(got.values, 20 * theta.detach().softmax(0), atol=1e-4)

def test_the_paper_s_step_is_plain_descent(batch):
    got = learn_weights(batch.features[:20], generator=seeded(1), variant="paper", steps=3, lr=.01)
    features, w = random_features(standardise(batch.features[:20]), 5, seeded(1)), torch.ones(20, requires_grad=True)
    for _ in range(3):
        slope, = torch.autograd.grad(direct_loss(features, w, "paper"), w)
        w = (w - .01 * slope).detach().requires_grad_()
    assert torch.allclose(got.values, w.detach(), atol=1e-5) and torch.equal(got.values, got.raw)

def test_class_mass_is_kept():
    few = world(140, share=.2)
    free, kept = (learn_weights(few.features, few.labels, generator=seeded(), class_mass=m) for m in ("free", "keep"))
    for y in (0, 1): assert kept.values[few.labels == y].mean().item() == pytest.approx(1, abs=1e-5)
    assert not torch.allclose(free.values, kept.values) and kept.loss < 1

def test_a_batch_of_one_class_is_like_a_batch_without_classes(batch):
    z, y = batch.features[batch.labels == 1], torch.ones(int((batch.labels == 1).sum()), dtype=torch.long)
    plain = learn_weights(z, generator=seeded())
    for options in ({}, dict(class_mass="keep")):
        assert torch.allclose(learn_weights(z, y, generator=seeded(), **options).values, plain.values, atol=1e-3)
    told = diagnose(plain, z, y, generator=seeded())
    assert "mean of class 1" in told and "mean of class 0" not in told

@pytest.mark.parametrize("variant", list(VARIANTS))
@pytest.mark.parametrize("features, reason", [(torch.full((12, 5), .3), "all features are equal"), (torch.zeros(12, 5), "all features are equal"),
                                              (torch.cat([torch.linspace(0, 1, 12)[:, None], torch.ones(12, 3)], 1), "only one feature")])
def test_nothing_to_decorrelate_leaves_uniform_weights_and_says_so(variant, features, reason):
    with pytest.warns(UserWarning, match=reason) as seen: w = learn_weights(features, generator=seeded(), variant=variant)
    assert (w.values == 1).all() and reason in w.note and seen[0].filename == __file__
    told = diagnose(w, features, generator=seeded())
    assert told["note"] == w.note and told["constant features"] >= 3 and told["effective size"] == 1

def test_a_constant_column_among_others_does_no_harm(batch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        w = learn_weights(torch.cat([batch.features, torch.full((140, 1), 3.3)], 1), generator=seeded())
    assert w.values.isfinite().all() and w.loss < 1 and not w.note

@pytest.mark.parametrize("change, message", [
    (dict(variant="fixd"), "no variant 'fixd'; did you mean 'fixed'"), (dict(variant="relased"), "did you mean 'released'"), (dict(r=0), "r must be at least 1"),
    (dict(class_mass="kept"), "did you mean 'keep'"), (dict(kinds="cos+sine"), r"did you mean 'cos\+sin'"),
    (dict(form="moments"), "did you mean 'moment'"), (dict(penality=1), "did you mean 'penalty'"), (dict(lr=0), "lr must be positive"),
    (dict(steps=-1), "must not be negative"), (dict(variant="released", penalty=0), "divides"), (dict(class_mass="keep"), "needs labels"),
    (dict(variant="released", class_mass="keep", labels=torch.zeros(140, dtype=torch.long)), "needs variant 'fixed'"),
    (dict(labels=torch.zeros(139, dtype=torch.long)), r"labels must have shape \(140,\)"), (dict(labels=torch.zeros(140)), "class numbers"),
    (dict(generator=0), "torch.Generator")])
def test_what_the_learner_refuses(batch, change, message):
    with pytest.raises(ValueError, match=message): learn_weights(batch.features, **({"generator": seeded()} | change))

def test_a_class_may_count_more():
    features, labels = torch.randn(12, 8, generator=seeded()), torch.tensor([0, 1] * 6)
    torch.manual_seed(0)
    head = ScanHead(8, class_weights=(1., 3.)).eval()
    by_sample = F.cross_entropy(head.logits(features), labels, reduction="none")
    assert torch.isclose(head(features, labels)["sw"], (by_sample * (1 + 2 * labels)).mean())

@pytest.mark.parametrize("row, value", [(0, float("nan")), (77, float("inf")), (139, -float("inf"))])
def test_a_feature_that_is_not_finite_is_named(batch, row, value):
    z = batch.features.clone(); z[row, 2] = value
    for call in (lambda: learn_weights(z, generator=seeded()), lambda: diagnose(torch.ones(140), z, generator=seeded())):
        with pytest.raises(ValueError, match=rf"features row {row} is not finite \(1 of 140 rows\)"): call()

@pytest.mark.parametrize("shape", [(1, 4), (0, 4), (5,), (2, 3, 4)])
def test_features_are_a_matrix_of_samples(shape):
    with pytest.raises(ValueError, match="matrix of at least 2 samples"): learn_weights(torch.zeros(shape), generator=seeded())

def test_a_rate_that_loses_the_weights_is_said():
    wide = standardise((doubles(0, 40, 3) @ doubles(1, 3, 200))).float()
    with pytest.raises(FloatingPointError, match="not finite after 20 steps at lr=1 "): learn_weights(wide, generator=seeded(), variant="paper", lr=1.)

def test_the_model_gets_no_gradient_and_need_not_want_any(batch):
    z = batch.features[:20].clone().requires_grad_()
    learn_weights(z, generator=seeded(), steps=2)
    assert z.grad is None
    with torch.no_grad(): assert learn_weights(z, generator=seeded(), steps=2).values.std() > 0
    half = learn_weights(z.detach().bfloat16(), generator=seeded(), steps=2)
    assert half.values.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16): inside = learn_weights(z, generator=seeded(), steps=2)
    assert torch.equal(inside.values, learn_weights(z, generator=seeded(), steps=2).values)

# ---- memory

def test_ema_and_queue_by_hand():
    ema, queue = Memory("ema", alpha=.75), Memory("queue", size=3)
    for f, w in ((torch.zeros(2, 1), torch.ones(2)), (torch.full((2, 1), 4.), torch.full((2,), 3.))):
        ema.update(f, w); queue.update(f, w)
    assert ema.features.flatten().tolist() == [1, 1] and ema.weights.tolist() == [1.5, 1.5]
    assert queue.features.flatten().tolist() == [0, 4, 4] and queue.weights.tolist() == [1, 3, 3]
    ema.update(torch.full((1, 1), 5.), torch.ones(1))
    assert ema.features.flatten().tolist() == [2, 1], "a shorter batch leaves the rest"
    ema.update(torch.full((3, 1), 0.), torch.ones(3))
    assert ema.features.flatten().tolist() == [1.5, .75, 0], "a longer one brings new samples"

@pytest.mark.parametrize("kind", ["ema", "queue"])
@pytest.mark.parametrize("variant", list(VARIANTS))
def test_a_memory_that_was_saved_goes_on_the_same(kind, variant):
    samples, memory = world(60, seed=1), Memory(kind, size=30)
    def step(memory, i):
        z, y = samples.features[20 * i:20 * i + 20], samples.labels[20 * i:20 * i + 20]
        w = learn_weights(z, y, memory, generator=seeded(i), variant=variant, steps=3)
        memory.update(z, w)
        return w
    step(memory, 0); step(memory, 1)
    file = io.BytesIO(); torch.save(memory.state_dict(), file); file.seek(0)
    other = Memory(kind).load_state_dict(torch.load(file))
    alone = learn_weights(samples.features[40:], generator=seeded(2), variant=variant, steps=3)
    a, b = step(memory, 2), step(other, 2)
    assert torch.equal(a.values, b.values) and torch.equal(memory.features, other.features) and torch.equal(memory.weights, other.weights)
    assert not torch.equal(a.values, alone.values), "samples beside the batch matter"
    assert a.values.shape == (20,)

def test_the_global_weights_stay_as_they_are(batch):
    memory = Memory("queue"); memory.update(batch.features[:50], torch.full((50,), 2.))
    before = copy.deepcopy(memory)
    for options in ({}, dict(variant="released"), dict(class_mass="keep")):
        w = learn_weights(batch.features[50:], batch.labels[50:], memory, generator=seeded(), **options)
        assert w.values.shape == (90,) and torch.equal(before.features, memory.features) and torch.equal(before.weights, memory.weights)

def test_what_a_memory_refuses(batch):
    with pytest.raises(ValueError, match="did you mean 'queue'"): Memory("queu")
    with pytest.raises(ValueError, match=r"alpha must lie in \[0, 1\), got 1"): Memory(alpha=1)
    with pytest.raises(ValueError, match="at least 1 sample, got 0"): Memory("queue", size=0)
    memory = Memory("queue"); memory.update(batch.features, torch.ones(140))
    with pytest.raises(ValueError, match="holds 6 features a sample, the batch has 5"): learn_weights(batch.features[:, :5], memory=memory, generator=seeded())
    with pytest.raises(ValueError, match="holds 6 features"): memory.update(batch.features[:, :5], torch.ones(140))
    with pytest.raises(ValueError, match="of kind 'queue', this one is 'ema'"): Memory("ema").load_state_dict(memory.state_dict())
    with pytest.raises(ValueError, match="lacks kind, alpha"): Memory("ema").load_state_dict({})

# ---- diagnosis and worlds

def test_the_shuffled_control_keeps_each_class_s_weights():
    "Weights that only change the balance of classes gain nothing by their assignment: the control equals them."
    few = world(200, share=.25)
    w = torch.where(few.labels == 1, .2, 1.5)
    told = diagnose(w, few.features, few.labels, generator=seeded())
    assert told["fresh loss"] == told["fresh loss, shuffled"] and told["fresh loss"] < .9 and told["mean of class 1"] < .3

@pytest.mark.parametrize("change, message", [
    (dict(weights=torch.ones(139)), r"weights must have shape \(140,\)"), (dict(weights=torch.full((140,), float("nan"))), "finite with a positive sum"),
    (dict(weights=torch.zeros(140)), "positive sum, got sum 0"), (dict(draws=0), "draws must be at least 1"), (dict(r=0), "r must be at least 1")])
def test_what_the_diagnosis_refuses(batch, change, message):
    with pytest.raises(ValueError, match=message): diagnose(**({"weights": torch.ones(140), "features": batch.features, "generator": seeded()} | change))

def test_negative_weights_are_counted(batch):
    assert diagnose(torch.ones(140).index_fill(0, torch.arange(3), -.5), batch.features, generator=seeded())["negative"] == 3

def test_under_the_oracle_s_weights_the_shortcut_says_nothing_of_the_label():
    pair = world(20000, share=.25)
    w = oracle_weights(pair.labels, pair.attribute)
    both = torch.stack([pair.attribute, pair.labels], 1).float()
    assert covariance(both, w)[0, 1].abs() < 1e-5 < .05 < covariance(both, torch.ones_like(w))[0, 1]
    assert w.mean().item() == pytest.approx(1, abs=1e-5)

# ---- language debiasing and the head

@pytest.mark.parametrize("options", list(HEADS.values()), ids=list(HEADS))
def test_shapes_and_signs(options):
    torch.manual_seed(0)
    options = {k: v for k, v in options.items() if k != "shared"}
    hidden = torch.randn(9, 16).tanh()
    debiased, bias = LanguageDebiasing(16, **options)(hidden)
    assert debiased.shape == bias.shape == (9, 16) and bias.min() >= 0 and (debiased.min() < 0) == (options["output"] == "linear")

def test_contrastive_values_and_limits():
    a, b = torch.tensor([[1., 0.]]), torch.tensor([[0., 1.]])
    assert contrastive_loss(a, b, b).item() == pytest.approx(np.log(2)) and contrastive_loss(a, a, -a).item() == pytest.approx(.126928, abs=1e-6)
    assert contrastive_loss(a, a, b).item() == pytest.approx(.313262, abs=1e-6)
    assert contrastive_loss(a, -a, a, .001).item() == pytest.approx(2000), "no overflow at small temperatures"
    h, d, n = (torch.randn(5, 8, generator=seeded(i)) for i in range(3))
    s = lambda x: torch.exp(F.cosine_similarity(h, x) / .3)
    assert torch.isclose(contrastive_loss(h, d, n, .3), -torch.log(s(d) / (s(d) + s(n))).mean())
    zero = torch.zeros(5, 8, requires_grad=True)
    contrastive_loss(h, d, zero).backward()
    assert zero.grad.isfinite().all(), "a bias of zero has a finite gradient"

def test_the_terms_are_their_formulas():
    torch.manual_seed(0)
    head, hidden, labels, w = ScanHead(8, temperature=.5).eval(), torch.randn(6, 8), torch.tensor([0, 1, 1, 0, 1, 0]), torch.rand(6)
    terms, (debiased, bias) = head(hidden, labels, w), head.debiasing(hidden)
    assert torch.isclose(terms["sw"], (w * F.cross_entropy(head.classifier(hidden), labels, reduction="none")).mean())
    assert torch.isclose(terms["ce"], F.cross_entropy(head.classifier(debiased), labels)) and torch.isclose(terms["cl"], contrastive_loss(hidden, debiased, bias, .5))
    for name in terms: assert scan_loss(terms, **{k: float(k == name) for k in terms}) == terms[name]
    learned = learn_weights(hidden, labels, generator=seeded(), steps=3)
    assert isinstance(learned, Weights) and torch.equal(head(hidden, labels, learned)["sw"], head(hidden, labels, learned.values)["sw"])

def test_no_gradient_flows_into_the_weights_and_none_past_a_detached_branch():
    w, hidden, labels = torch.ones(6, requires_grad=True), torch.randn(6, 8, requires_grad=True), torch.tensor([0, 1] * 3)
    torch.manual_seed(0)
    released = ScanHead(8, **HEADS["released"])
    terms = released(hidden, labels, w)
    terms["ce"].backward()
    assert hidden.grad is None and w.grad is None and all(p.grad is None for p in released.classifier.parameters()) and released.second.weight.grad is not None
    scan_loss(released(hidden, labels, w)).backward()
    assert hidden.grad is not None and w.grad is None

def test_inference_is_the_classifier_alone():
    torch.manual_seed(0)
    hidden, full = torch.randn(6, 8), ScanHead(8).eval()
    bare = ScanHead(8, debias=False).eval(); bare.classifier.load_state_dict(full.classifier.state_dict())
    assert torch.equal(full.logits(hidden), bare.logits(hidden)) and torch.allclose(full.scores(hidden), torch.log(full.logits(hidden).softmax(1)[:, 1] / full.logits(hidden).softmax(1)[:, 0]), atol=1e-5)
    assert list(bare(hidden, torch.tensor([0, 1] * 3))) == ["sw"] and scan_loss(bare(hidden, torch.tensor([0, 1] * 3))) > 0

@pytest.mark.parametrize("call, message", [
    (lambda: ScanHead(8, gate="vectors"), "did you mean 'vector'"), (lambda: ScanHead(8, output="rely"), "did you mean 'relu'"), (lambda: ScanHead(8, classes=1), "classes must be at least 2"),
    (lambda: ScanHead(8, dropout=1), "dropout must lie in"), (lambda: ScanHead(8, temperature=0), "temperature must be positive"), (lambda: LanguageDebiasing(0), "width must be at least 1"),
    (lambda: ScanHead(8, classes=3).scores(torch.zeros(2, 8)), "log-odds need 2 classes"), (lambda: scan_loss({"clc": 1.}), "did you mean 'cl'"),
    (lambda: contrastive_loss(torch.ones(1, 2), torch.ones(1, 2), torch.ones(1, 2), 0), "temperature must be positive, got 0"),
    (lambda: LanguageDebiasing(2, gate="scaler"), "no gate 'scaler'; did you mean 'scalar'"),
    (lambda: ScanHead(8, class_weights=(1., 0.)), "class_weights must be 2 positive numbers"), (lambda: scan_loss({"sw": 1.}, cl=-1), "cl must be at least 0, got -1"),
    (lambda: ScanHead(8)(torch.zeros(2, 8), torch.zeros(2, dtype=torch.long), torch.tensor([1., float("nan")])), r"weights\[1\] is not finite"),
    (lambda: scan_loss({"sw": 1.}, sw=float("nan")), "sw must be at least 0"), (lambda: ScanHead(8)(torch.zeros(2, 8), torch.zeros(2, dtype=torch.long), torch.ones(3)), r"shape \(2,\)")])
def test_what_head_and_loss_refuse(call, message):
    with pytest.raises(ValueError, match=message): call()

@pytest.mark.parametrize("kind", ["ema", "queue"])
def test_a_memory_from_a_checkpoint_follows_the_batch_to_its_device(kind):
    "A checkpoint is read onto the CPU; `meta` stands in for a GPU."
    memory = Memory(kind, size=8)
    memory.update(torch.randn(4, 3), torch.ones(4))
    away = lambda x: x.to("meta")
    memory.update(away(torch.randn(4, 3)), away(torch.ones(4)))
    assert {memory.features.device.type, memory.weights.device.type} == {"meta"}

@pytest.mark.parametrize("classes", [None, torch.tensor([0, 0, 1, 1, 1, 0])])
def test_the_closed_slope_is_the_objective_s(classes):
    features = world(6).features
    learner = LEARNERS["fixed"](features, torch.tensor([.5, 2.]), .3, classes)
    loss = decorrelation(random_features(standardise(world(8).features), 2, seeded()))
    with torch.no_grad():
        learner.theta += torch.linspace(-1, 1, 6)
    learner.slope(loss, .7)
    closed = learner.theta.grad
    learner.theta.grad = None
    learner.objective(loss(learner.all()), .7).backward()
    assert torch.allclose(closed, learner.theta.grad, atol=1e-6) and closed.abs().max() > 1e-3

@pytest.mark.parametrize("through", ["gram", "direct"])
def test_single_precision_bears_features_far_from_zero(through):
    features = 300 + doubles(0, 50, 6, 2)
    weights = torch.linspace(.5, 1.5, 50)
    exact = decorrelation(features, through=through)(weights.double())
    single = decorrelation(features.float(), through=through)(weights)
    assert float(single) == pytest.approx(float(exact), rel=2e-3)
