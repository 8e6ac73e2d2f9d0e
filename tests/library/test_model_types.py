"Regularizers on what each type of model computes, with prompts, tasks and adapters."
import copy
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from peft import LoraConfig
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router
from sentence_transformers.cross_encoder import losses as of_pairs
from sentence_transformers.multi_vector_encoder.losses import MultiVectorMultipleNegativesRankingLoss
from sentence_transformers.sparse_encoder.losses import SparseMSELoss

import made
import trainings
from debias_nb import ITVReg, L2SP, LeastSquares, MaskReg, OutReg, Regularized, SimCSE, WordDropout, wise_ft
from debias_nb.encoders.kinds import outputs_of
from debias_nb.losses.batches import Scores
from debias_nb.losses.steps import Draws
from test_regularized import OTHER_TEXTS, furthest, mnrl, move, without_dropout

TEXTS = [["red kettle", "old lamp for a table"], ["blue chair", "how large"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("types")
    trainings.save_models(folder)
    return folder


MODELS = {
    "embeddings": trainings.of_texts, "scores": trainings.of_pairs, "sparse vectors": trainings.splade,
    "token vectors": trainings.colbert,
}


def batch_of(model):
    "A batch as the trainer of this type gives it to a loss: columns, and labels."
    kind = outputs_of(model)
    if kind == "scores":
        return TEXTS, torch.tensor([1., 0.])
    columns = [model.preprocess(texts, task=task) for texts, task in zip(TEXTS, ("query", "document"))]
    return columns, torch.rand(2, len(made.VOCABULARY)) if kind == "sparse vectors" else None


def loss_of(model):
    kinds = {"embeddings": mnrl, "scores": of_pairs.BinaryCrossEntropyLoss, "sparse vectors": SparseMSELoss,
             "token vectors": MultiVectorMultipleNegativesRankingLoss}
    return kinds[outputs_of(model)](model)


def computed(model, texts=TEXTS[0], task="query"):
    "What a model computes, by its own methods: scores of pairs, or a vector or several of each text."
    if outputs_of(model) == "scores":
        return torch.tensor(model.predict(list(zip(*TEXTS)), activation_fn=torch.nn.Identity()))[:, None]
    if outputs_of(model) == "token vectors":
        return model.encode(texts, task=task, convert_to_numpy=True)
    if outputs_of(model) == "sparse vectors":
        return model.encode(texts, convert_to_tensor=True, convert_to_sparse_tensor=False)
    return model.encode(texts, convert_to_tensor=True, normalize_embeddings=True)


@pytest.fixture(params=MODELS)
def pair(request, folder):
    "A base, and a model that was trained from it."
    base = without_dropout(MODELS[request.param](folder))
    assert outputs_of(base) == request.param
    return base.eval(), move(copy.deepcopy(base)).train()


def test_outreg_compares_what_a_model_computes(pair):
    base, model = pair
    terms = Regularized(model, loss_of(model), [OutReg(1.)], base=base)(*batch_of(model))
    before, after = computed(base), computed(model)
    if outputs_of(model) == "token vectors": # the mean over the tokens of each text
        expected = np.mean([np.square(one - other).sum(1).mean() for one, other in zip(before, after)])
    else:
        expected = (before - after).square().sum(1).mean()
    assert float(terms["outreg"]) == pytest.approx(float(expected), rel=1e-4) and expected > 1e-4
    terms["outreg"].backward()
    assert any(weight.grad is not None and weight.grad.abs().max() > 0 for weight in model.parameters())
    with torch.no_grad():
        part = Regularized(model, loss_of(model), [OutReg(1., rows=.5)], base=base)(*batch_of(model))
    assert part["outreg"] > 0


def test_itvreg_compares_importance_where_there_is_one(pair):
    base, model = pair
    if outputs_of(model) == "scores":
        for regularizer in (ITVReg(), MaskReg(), SimCSE(), WordDropout()):
            with pytest.raises(ValueError, match="a CrossEncoder has scores of pairs: take OutReg"):
                Regularized(model, loss_of(model), [regularizer])
        for regularizer in (OutReg(texts=OTHER_TEXTS), OutReg(columns=1)):
            with pytest.raises(ValueError, match="leave out texts and columns"):
                Regularized(model, loss_of(model), [regularizer])
        return
    regularizers = [ITVReg(1.), MaskReg(1., .5, rows=.5), ITVReg(1., intervention="pad")]
    np.random.seed(0)
    terms = Regularized(model, loss_of(model), regularizers, base=base)(*batch_of(model))
    assert terms["itvreg"] > 1e-7 and 0 < terms["maskreg"] <= 4 and terms["itvreg_2"] > 1e-9
    base.train()
    at_base = Regularized(base, loss_of(base), regularizers)(*batch_of(base))
    assert at_base["itvreg"] < 1e-10 > at_base["itvreg_2"] and at_base["maskreg"] > 0
    if outputs_of(model) == "token vectors":
        with pytest.raises(ValueError, match="take intervention='mask' or 'pad'"):
            Regularized(model, loss_of(model), [ITVReg(intervention="delete")])


def test_l2sp_and_averaging_are_about_weights_of_any_model(pair):
    base, model = pair
    terms = Regularized(model, loss_of(model), [L2SP(1.)], base=base)(*batch_of(model))
    squares = [(a - b).square().sum() for a, b in zip(base.parameters(), model.parameters(), strict=True)]
    assert float(terms["l2sp"]) == pytest.approx(float(sum(squares)), rel=1e-5)
    half = wise_ft(base, model, .5)
    assert type(half) is type(model)
    assert furthest(half, base) == pytest.approx(furthest(model, base) / 2, rel=1e-4)
    assert furthest(wise_ft(base, model, 0.), base) == 0 == furthest(wise_ft(base, model, 1.), model)


def test_a_pair_loss_is_one_of_sentence_embeddings(folder):
    model = trainings.splade(folder)
    with pytest.raises(ValueError, match="LeastSquares is a loss of a SentenceTransformer: take one of a Sparse"):
        Regularized(model, LeastSquares(model), [OutReg()])


def test_token_vectors_behind_a_short_query_count(folder):
    "Those of the mask tokens that ColBERT puts behind a query; no intervention changes them."
    model = without_dropout(trainings.colbert(folder))
    model[0].query_expansion = {"strategy": "fixed", "attend": False, "length": 12, "token": "[MASK]"}
    base = copy.deepcopy(model).eval()
    loss = Regularized(move(model), loss_of(model), [OutReg(1.), OutReg(1., rows=.5), ITVReg(1., rows=.5)], base=base)
    terms = loss(*batch_of(model))
    before, after = computed(base), computed(model.eval())
    assert all(len(vectors) == 12 for vectors in after)
    expected = np.mean([np.square(one - other).sum(1).mean() for one, other in zip(before, after)])
    assert float(terms["outreg"]) == pytest.approx(float(expected), rel=1e-4)
    assert terms["outreg_2"] > 0 < terms["itvreg"]


# ---------------------------------------------------------------- texts: prompts and tasks


def with_texts(model, **options):
    loss = Regularized(model, mnrl(model), [OutReg(1., texts=OTHER_TEXTS, texts_per_batch=99, **options)])
    return loss, loss.streams[0]


def said(loss, features):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loss(features)
    return [str(one.message) for one in caught if "prompt" in str(one.message)]


@pytest.mark.parametrize("make", [made.bert, made.table])
def test_texts_are_read_behind_their_prompt_or_it_is_said(tmp_path, make):
    model = made.load(make(tmp_path))

    def features(prompt):
        return [model.preprocess(texts, prompt=prompt) for texts in TEXTS]

    loss, stream = with_texts(model)
    assert not said(loss, features(None))
    loss, stream = with_texts(model)
    [message] = said(loss, features("why "))
    assert "training has prompts, and the texts of outreg are read without one: give the prompt" in message
    assert not said(loss, features("why ")), "once"
    loss, stream = with_texts(model, prompt="the table ")
    assert not said(loss, features("why "))
    expected = model.preprocess(OTHER_TEXTS, prompt="the table ")["input_ids"]
    assert torch.equal(stream.column.tokens.ids[stream.column.tokens.mask].flatten().sort().values,
                       expected[expected > 0].flatten().sort().values)
    assert not said(with_texts(model, prompt="")[0], features("why ")), "none, and meant so"
    with pytest.raises(ValueError, match="prompt and task are those of texts"):
        OutReg(prompt="why ")


def test_texts_of_token_vectors_are_documents_unless_it_is_said(folder):
    model = trainings.colbert(folder)
    model[0].query_expansion = {"strategy": "fixed", "attend": False, "length": 12, "token": "[MASK]"}
    for options, task in (({}, "document"), ({"task": "query"}, "query"), ({"task": "document"}, "document")):
        regularizer = OutReg(1., texts=OTHER_TEXTS, texts_per_batch=99, **options)
        loss = Regularized(model, loss_of(model), [regularizer])
        loss(*batch_of(model))
        expected = model.preprocess(OTHER_TEXTS, task=task)["input_ids"]
        assert loss.streams[0].column.tokens.ids.shape == expected.shape
        assert torch.equal(loss.streams[0].column.tokens.ids, expected)


def test_texts_of_a_router_are_read_by_the_route_that_is_named(folder):
    parts = [list(trainings.of_texts(folder)) for _ in range(2)]
    model = SentenceTransformer(modules=[Router.for_query_document(*parts)], device="cpu")
    with pytest.raises(ValueError, match="give task='query' or 'document' with texts, got None; for both, a"):
        with_texts(model)
    with pytest.raises(ValueError, match="reads all texts alike, leave it out"):
        with_texts(trainings.of_texts(folder), task="query")
    for route, other in (("query", "document"), ("document", "query")):
        loss, _ = with_texts(model, task=route)
        move(model)
        columns = [model.preprocess(texts, task=task) for texts, task in zip(TEXTS, ("query", "document"))]
        model.zero_grad()
        loss(columns)["outreg"].backward()
        reached = {name: sum(float(weight.grad.abs().sum()) for weight in model[0].sub_modules[name].parameters()
                             if weight.grad is not None) for name in (route, other)}
        assert reached[route] > 0 == reached[other]


# ---------------------------------------------------------------- adapters


def adapted(model, **options):
    model.add_adapter(LoraConfig(task_type="FEATURE_EXTRACTION", r=4, target_modules=["query", "value"], **options))
    return model


@pytest.mark.parametrize("fresh", [True, False], ids=["a new adapter", "one that was trained"])
def test_a_base_has_the_frozen_weights_in_common_with_the_model(folder, fresh):
    model = adapted(without_dropout(trainings.of_texts(folder)), init_lora_weights=fresh)
    own = copy.deepcopy(model).requires_grad_(False).eval()
    loss = Regularized(model, mnrl(model), [OutReg(1.), ITVReg(1.)])
    separate = [weight for weight in loss.base.parameters() if all(weight is not other for other in model.parameters())]
    count = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert sum(weight.numel() for weight in separate) == count < 1_000 and furthest(loss.base, own) == 0
    optimizer = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], .5)
    for step in range(3):
        np.random.seed(step)
        terms = loss(batch_of(model)[0])
        np.random.seed(step)
        with torch.no_grad():
            expected = Regularized(model, mnrl(model), loss.regularizers, base=own)(batch_of(model)[0])
        assert (terms["outreg"] > 1e-9) == bool(step)
        sum(terms.values()).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert float(terms["outreg"]) == float(expected["outreg"]) and furthest(loss.base, own) == 0
    model.transformers_model.requires_grad_(True) # from now on all weights are trained
    loss(batch_of(model)[0])
    move(model)
    assert furthest(loss.base, own) == 0


def test_a_base_may_be_of_another_make_where_outputs_are_compared(folder, tmp_path):
    plain = trainings.of_texts(folder)
    model = adapted(copy.deepcopy(plain), init_lora_weights=False)
    larger = made.load(made.bert(tmp_path, layers=2))
    for base in (plain, larger):
        assert Regularized(model, mnrl(model), [OutReg(1.)], base=base)(batch_of(model)[0])["outreg"] > 1e-6
    with pytest.raises(ValueError, match="differ in make"):
        Regularized(plain, mnrl(plain), [L2SP()], base=larger)
    with pytest.raises(ValueError, match="take OutReg, or weight decay"):
        Regularized(model, mnrl(model), [L2SP()])
    loss = Regularized(plain, mnrl(plain), [L2SP()])
    adapted(plain)
    with pytest.raises(ValueError, match="take OutReg, or weight decay"):
        loss(batch_of(plain)[0])


# ---------------------------------------------------------------- a loop of one's own


def test_terms_are_a_loss_in_a_loop_of_ones_own(folder):
    model = without_dropout(trainings.of_texts(folder))
    loss = Regularized(move(model), mnrl(model), [OutReg(1.)])
    expected = float(sum(loss(batch_of(model)[0]).values()))
    terms = loss(batch_of(model)[0])
    assert terms.item() == pytest.approx(expected) and float(terms / 4) == pytest.approx(expected / 4)
    terms.backward()
    assert model.transformers_model.embeddings.word_embeddings.weight.grad.abs().max() > 0
    with pytest.raises(ValueError, match=r"sum\(loss\(batch\).values\(\)\)"):
        2 * terms


def test_a_loss_with_a_term_of_the_same_name_is_refused(folder):
    model = trainings.of_texts(folder)
    inner = mnrl(model)
    forward = inner.forward
    inner.forward = lambda features, labels=None: {"outreg": forward(features, labels)}
    with pytest.raises(ValueError, match="MultipleNegativesRankingLoss returns a term 'outreg' of its own"):
        Regularized(model, inner, [OutReg(1.)])(batch_of(model)[0])


def test_a_share_of_the_scored_pairs_is_sampled():
    batch = SimpleNamespace(calls=[(None, torch.zeros(6)), (None, torch.zeros(4))], draws=Draws())
    assert Scores(batch).sample(1.).rows == slice(None)
    rows = Scores(batch).sample(.3).rows.tolist()
    assert len({*rows}) == 3 and {*rows} <= {*range(10)}
