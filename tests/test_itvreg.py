"What the losses of ITVReg and its relatives refuse, and what leaves no trace in them."
import copy
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer import losses

from debias_nb.encoders import embed, encode_tokens, from_features, tokenise
from debias_nb.interventions import choose, intervene, row_keys
from debias_nb.itvreg import (
    HINGE, CachedBase, FrozenBase, ITVAugLoss, ITVRegLoss, L2SPLoss, MaskRegLoss, MatchingLoss, OutRegLoss, SimCSELoss,
    WordDropoutLoss, hinge, itvaug_target, make_loss, mse,
)
from debias_nb.repro.config import MethodConfig, TrainConfig
from made import bert, load, table


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(table(tmp_path_factory.mktemp("models")))


@pytest.fixture
def base(model):
    return copy.deepcopy(model)


@pytest.mark.parametrize("kind, settings, words", [
    (ITVRegLoss, dict(weight=-1), r"weight \(lambda\) must lie in \[0, inf\), got -1"),
    (ITVRegLoss, dict(mask_share=50), r"mask_share must lie in \(0, 1\), got 50"),
    (ITVRegLoss, dict(mask_share=0), r"mask_share must lie in \(0, 1\), got 0"),
    (ITVRegLoss, dict(share=0), r"share must lie in \(0, 1\], got 0"),
    (OutRegLoss, dict(share=1.5), r"share must lie in \(0, 1\], got 1.5"),
])
def test_settings_out_of_range(model, base, kind, settings, words):
    with pytest.raises(ValueError, match=words):
        kind(model, base, **settings)


@pytest.mark.parametrize("kind", [ITVRegLoss, OutRegLoss, L2SPLoss, ITVAugLoss])
def test_a_base_is_needed_and_it_is_not_the_model(model, kind):
    with pytest.raises(ValueError, match=f"{kind.__name__} compares with the base encoder: pass `base`"):
        kind(model)
    with pytest.raises(ValueError, match="the model itself.*pass a deep copy"):
        kind(model, model)


@pytest.mark.parametrize("settings, words", [
    (dict(objective=losses.MultipleNegativesRankingLoss),
     r"got MultipleNegativesRankingLoss: .* write debias_nb.Regularized\(model, MultipleNegativesRankingLoss\(model\)"),
    (dict(objective="mse"), "objective must be `mse`, or `hinge` .* got 'mse': leave it out for least squares"),
    (dict(intervention="masc"), "intervention must be one of mask, delete, pad, random, got 'masc'"),
    (dict(base="my/base"), "base is a str and no SentenceTransformer"),
    (dict(model="my/model"), "model is a str and no SentenceTransformer"),
])
def test_what_is_no_objective_or_encoder_is_refused_when_the_loss_is_made(model, base, settings, words):
    with pytest.raises(ValueError, match=words):
        ITVRegLoss(**(dict(model=model, base=base) | settings))


def test_an_instance_of_a_loss_is_no_objective(model, base):
    with pytest.raises(ValueError, match=r"debias_nb.Regularized\(model, CoSENTLoss\(model\), \[ITVReg\(\)\]\)"):
        ITVRegLoss(model, base, objective=losses.CoSENTLoss(model))


def features_of(model, count):
    return [model.preprocess(["red kettle", "old lamp"]) for _ in range(count)]


@pytest.mark.parametrize("columns, labels, words", [
    (3, [1, 0], "takes two columns of texts and a label, and this batch has 3 of texts: for triplets"),
    (1, [1, 0], "this batch has 1 of texts"),
    (2, None, "least squares needs labels"),
])
def test_a_batch_of_other_columns_is_refused(model, base, columns, labels, words):
    labels = None if labels is None else torch.tensor(labels)
    with pytest.raises(ValueError, match=words):
        ITVRegLoss(model, base)(features_of(model, columns), labels)


@pytest.mark.parametrize("labels, told", [([1, 2], "1 to 2"), ([-1., 1.], "-1 to 1"), ([1., float("nan")], "nan")])
def test_labels_outside_of_0_and_1_are_refused_in_any_step(model, base, labels, told):
    loss = ITVRegLoss(model, base)
    loss.begin_epoch(0)
    loss(features_of(model, 2), torch.tensor([1., .5]))
    with pytest.raises(ValueError, match=rf"labels must lie in \[0, 1\], 1 for a match; this batch has some from .*{told}"):
        loss(features_of(model, 2), torch.tensor(labels))


def test_a_loss_of_another_model_than_the_trainers_is_refused(model, base):
    begin = ITVRegLoss(model, base).callback.on_train_begin
    begin(None, None, None, model=model)
    begin(None, None, None, model=torch.nn.DataParallel(model))
    with pytest.raises(ValueError, match="ITVRegLoss was made for another model than the trainer's"):
        begin(None, None, None, model=copy.deepcopy(model))


def test_texts_of_a_cross_encoders_trainer_are_refused(model, base):
    with pytest.raises(ValueError, match="got texts, as CrossEncoderTrainer gives them: .* debias_nb.SCAN"):
        ITVRegLoss(model, base)([["red kettle"], ["a kettle"]], torch.tensor([1.]))


@pytest.mark.parametrize("labels", [[1, 0], [1., 0.], [[1., 0.], [0., 1.]], [[True, False]]])
def test_the_hinge_is_not_given_labels_of_pairs(model, base, labels):
    loss = ITVRegLoss(model, base, objective=partial(hinge, margin=.3))
    with pytest.raises(ValueError, match=r"the hinge needs an \(n, n\) bool matrix .* go with least squares"):
        loss(features_of(model, 2), torch.tensor(labels))


def test_inside_a_loss_that_wants_one_number_it_is_refused(model, base):
    nested = losses.MatryoshkaLoss(model, ITVRegLoss(model, base), [8])
    with pytest.raises(ValueError, match=r"MatryoshkaLoss and its like take one number: write debias_nb.Regularized\("):
        nested(features_of(model, 2), torch.tensor([1., 0.]))


def test_least_squares_needs_labels(model):
    tokens = tokenise(model, ["red kettle", "old lamp"])
    column = {"input_ids": tokens.ids, "attention_mask": tokens.mask, "row": torch.arange(2)}
    with pytest.raises(ValueError, match="least squares needs labels"):
        MatchingLoss(model)([column, column])


def test_a_contrastive_objective_has_no_place_for_itvaug(model, base):
    method = MethodConfig(name="Ours", augmentation="itvaug", mask_share=.5)
    training = TrainConfig(loss="hinge", **HINGE["ngame"], learning_rate=1e-3, epochs=1, batch_size=8)
    with pytest.raises(ValueError, match="method 'Ours': ITVAug changes labels"):
        make_loss(method, model, FrozenBase(base), 0, training)


def pairs_of(model):
    left = ["red kettle", "blue lamp", "old chair for a table", "small new kettle"]
    right = ["a kettle in red", "the chair", "old table", "lamp with a chair"]
    return [model.preprocess(left), model.preprocess(right)], torch.tensor([1., 0., 1., 0.])


def test_a_prompt_is_no_part_of_the_text(model, base):
    loss = ITVRegLoss(model, base, mask_share=.9)
    x = from_features(model, model.preprocess(["red kettle", "old lamp with a chair"], prompt="why how : "))
    masked, _ = loss.extra(x, None)
    assert masked.mask[:, :3].all() and not x.ordinary[:, :3].any() and (masked.mask.sum(1) < x.mask.sum(1)).all()


def two_steps(model, base, evaluated):
    "The terms of two training steps, perhaps with an evaluation between them."
    loss = ITVRegLoss(model, base, weight=1., share=.5)
    loss.begin_epoch(0)
    features, labels = pairs_of(model)
    steps = [loss(features, labels)]
    if evaluated:
        with torch.no_grad():
            loss(features, labels)
    steps.append(loss(features, labels))
    return [float(step["itvreg"].detach()) for step in steps], len(loss.history)


def test_an_evaluation_leaves_no_trace(model, base):
    with torch.no_grad():
        for weights in base.parameters():
            weights.add_(.1 * torch.randn_like(weights))
    assert two_steps(model, base, evaluated=True) == two_steps(model, base, evaluated=False)


def test_a_loss_that_nobody_tells_the_epoch_says_so_once(model, base):
    features, labels = pairs_of(model)
    loss = ITVRegLoss(model, base)
    with pytest.warns(UserWarning, match=r"interventions of epoch 0 in every epoch: pass `callbacks=\[loss.callback\]`"):
        loss(features, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(features, labels)
        OutRegLoss(model, base)(features, labels)
        told = ITVRegLoss(model, base)
        told.begin_epoch(0)
        told(features, labels)


# What is not given

@pytest.mark.parametrize("kind, mask_share", [
    (MatchingLoss, .5), (ITVRegLoss, .5), (MaskRegLoss, .15), (OutRegLoss, .5), (L2SPLoss, .5), (SimCSELoss, .5),
    (ITVAugLoss, .5), (WordDropoutLoss, .5),
])
def test_settings_that_are_not_given(model, base, kind, mask_share):
    loss = kind(model, base)
    weight = 1e-6 if kind is L2SPLoss else .1 # L2-SP is a sum over all weights
    assert (loss.weight, loss.mask_share, loss.intervention, loss.seed, loss.share) == (weight, mask_share, "mask", 0, 1.)
    assert loss.objective is mse and loss.regularised(4) is None and loss.epoch == 0
    assert kind is not SimCSELoss or loss.token_dropout == .1


# The terms against their formulas

def perturbed(base):
    "The base encoder, elsewhere."
    torch.manual_seed(1)
    with torch.no_grad():
        for weights in base.parameters():
            weights.add_(.3 * torch.randn_like(weights))
    return base


LEFT = ["red kettle", "lamp", "old chair for a table", "small new kettle"] # nothing intervenes on the second one
RIGHT = ["a kettle in red", "the chair", "old table", "lamp with a chair"]
LABELS = [1., 0., 1., 0.]


@pytest.fixture
def case(model, base):
    "Features, the encoder's and the base's embeddings of queries, items and intervened queries, and which rows count."
    base = perturbed(base)
    left = model.preprocess(LEFT)
    right = model.preprocess(RIGHT)
    x = from_features(model, left)
    z = from_features(model, right)
    chosen, weight = choose(x, .5, 3, 2)
    masked = intervene(model, x, chosen)
    with torch.no_grad():
        tuned = [encode_tokens(model, tokens).double() for tokens in (x, z, masked)]
        frozen = [encode_tokens(base, tokens).double() for tokens in (x, z, masked)]
    assert weight.tolist() == [1, 0, 1, 1]
    return [left, right], tuned, frozen, base


def terms_of(kind, model, case, **settings):
    features, _, _, base = case
    loss = kind(model, base, seed=3, **settings)
    loss.begin_epoch(2)
    return {name: float(term.detach()) for name, term in loss(features, torch.tensor(LABELS)).items()}


def squares(a, b, wanted):
    "Squared errors of the cosines of some rows."
    return [(float(a[i] @ b[i]) - float(wanted[i])) ** 2 for i in range(len(a))]


def targets(case):
    "What ITVAug makes of the labels."
    _, _, (f0x, f0z, f0o), _ = case
    return [min(max(LABELS[i] - float(f0x[i] @ f0z[i] - f0o[i] @ f0z[i]), 0), 1) for i in range(4)]


def mean_of(values, rows=range(4)):
    return sum(values[i] for i in rows) / len(rows)


def test_itvreg_maskreg_and_outreg_by_loops(model, case):
    _, (fx, fz, fo), (f0x, _, f0o), _ = case
    erm = pytest.approx(mean_of(squares(fx, fz, LABELS)), abs=1e-6)
    same = squares(fx, fo, (f0x * f0o).sum(1))
    found = terms_of(ITVRegLoss, model, case, weight=2.)
    assert found == {"erm": erm, "itvreg": pytest.approx(2 * mean_of(same, [0, 2, 3]), abs=1e-6)}
    whole = squares(fx, fo, [1] * 4)
    found = terms_of(MaskRegLoss, model, case, weight=2., mask_share=.5)
    assert found == {"erm": erm, "maskreg": pytest.approx(2 * mean_of(whole, [0, 2, 3]), abs=1e-6)}
    apart = [2 - 2 * float(fx[i] @ f0x[i]) for i in range(4)]
    found = terms_of(OutRegLoss, model, case, weight=2.)
    assert found == {"erm": erm, "outreg": pytest.approx(2 * mean_of(apart), abs=1e-6)}


def test_l2sp_is_the_squared_distance_of_all_weights(model, case):
    moved = sum(((p - p0).double() ** 2).sum() for p, p0 in zip(model.parameters(), case[-1].parameters()))
    assert terms_of(L2SPLoss, model, case, weight=.5)["l2sp"] == pytest.approx(.5 * float(moved.detach()), rel=1e-5)


def test_itvaug_is_one_mean_over_given_and_intervened_pairs(model, case):
    _, (fx, fz, fo), _, _ = case
    given = squares(fx, fz, LABELS)
    twins = squares(fo, fz, targets(case))
    terms = terms_of(ITVAugLoss, model, case)
    assert sum(terms.values()) == pytest.approx((sum(given) + twins[0] + twins[2] + twins[3]) / 7, abs=1e-6)
    assert terms["erm"] == pytest.approx(sum(given) / 7, abs=1e-6)


@pytest.mark.parametrize("rows", [None, [7, 2, 5, 4]])
def test_word_dropout_trains_on_what_is_left(model, case, rows):
    features = [dict(column) for column in case[0]]
    left, right = (from_features(model, column) for column in features)
    names = [row_keys(left), row_keys(right)]
    if rows is not None:
        names = [2 * np.array(rows), 2 * np.array(rows) + 1]
        features[0]["row"] = torch.tensor(rows)
    kept = []
    for tokens, name in zip((left, right), names):
        chosen, _ = choose(tokens, .5, 3, 2, name)
        kept.append(encode_tokens(model, intervene(model, tokens, chosen, "delete")).detach().double())
    expected = mean_of(squares(*kept, LABELS))
    found = terms_of(WordDropoutLoss, model, (features, *case[1:]))
    assert found == {"erm": pytest.approx(expected, abs=1e-6)}


def test_a_share_of_the_rows_is_regularised(model, case):
    features, (fx, _, fo), (f0x, _, f0o), base = case
    loss = ITVRegLoss(model, base, weight=2., share=.5, seed=3)
    loss.begin_epoch(2)
    rows = loss.regularised(4).tolist()
    found = float(loss(features, torch.tensor(LABELS))["itvreg"].detach())
    same = squares(fx, fo, (f0x * f0o).sum(1))
    assert len(set(rows)) == 2 and found == pytest.approx(2 * mean_of(same, [i for i in rows if i != 1]), abs=1e-6)
    assert len(loss.regularised(1)) == 1, "at least one"


def test_itvaug_on_a_share_of_the_rows(model, case):
    features, (fx, fz, fo), _, base = case
    loss = ITVAugLoss(model, base, share=.5, seed=3)
    loss.begin_epoch(2)
    rows = [i for i in loss.regularised(4).tolist() if i != 1]
    found = {name: float(term.detach()) for name, term in loss(features, torch.tensor(LABELS)).items()}
    of_twins = len(rows) / (2 + len(rows))
    twins = of_twins * mean_of(squares(fo, fz, targets(case)), rows)
    erm = (1 - of_twins) * mean_of(squares(fx, fz, LABELS))
    assert found == {"erm": pytest.approx(erm, abs=1e-6), "itvaug": pytest.approx(twins, abs=1e-6)}


@pytest.mark.parametrize("settings", [
    {}, HINGE["paper"], HINGE["ngame"], {"hardest": 2, "temperature": .5, "margin": .1}, {"hardest": 3, "temperature": None},
])
def test_the_hinge_by_loops(settings):
    margin, hardest, temperature = ({"margin": .3, "hardest": 10, "temperature": .1} | settings).values()
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


def test_the_base_of_a_truncated_encoder_gives_all_numbers(tmp_path):
    encoder = load(bert(tmp_path))
    tokens = tokenise(encoder, LEFT)
    expected = embed(encoder, tokens)
    encoder.truncate_dim = 8
    for base in (FrozenBase(encoder), CachedBase(encoder, tokens, tokens)):
        assert torch.allclose(base(tokens, "x", range(len(LEFT))), expected, atol=1e-6)
    assert encoder.truncate_dim == 8 and embed(encoder, tokens).shape[1] == 8


def test_a_base_that_remembers_gives_what_one_that_is_asked_gives(model, base):
    x, z = (from_features(model, model.preprocess(texts)) for texts in ([*LEFT, LEFT[0]], [*RIGHT, "lamp"]))
    kept = CachedBase(base, x, z)
    asked = FrozenBase(base)
    rows = torch.tensor([4, 1, 0])
    chosen, _ = choose(x, .5, 3, 2, np.arange(5))
    masked = intervene(base, x, chosen)
    for part, tokens in (("x", x), ("x'", masked), ("z", z), ("x'", masked)):
        expected = asked(tokens[rows], part, rows)
        assert torch.allclose(kept(tokens[rows], part, rows), expected, atol=1e-6)
        assert ("x'" in kept.values) == (kept.kept is not None)
        if part == "z":
            kept.prepare(.5, "mask", 3, 2)
    assert kept.kept == (.5, "mask", 3, 2)


def test_a_target_of_itvaug_ends_at_1():
    labels = torch.tensor([1., 0., 1.])
    before = torch.tensor([.2, .9, .8])
    after = torch.tensor([.9, .1, .6])
    assert itvaug_target(labels, before, after).tolist() == pytest.approx([1., 0., .8])


def test_the_hinge_looks_at_ten_negatives():
    torch.manual_seed(0)
    fx = torch.nn.functional.normalize(torch.randn(30, 8), dim=1)
    fz = torch.nn.functional.normalize(torch.randn(30, 8), dim=1)
    relevant = torch.eye(30, dtype=torch.bool)
    assert float(hinge(fx, fz, relevant)) == float(hinge(fx, fz, relevant, hardest=10))
    assert float(hinge(fx, fz, relevant)) != float(hinge(fx, fz, relevant, hardest=11))
