"""What one imports is what the papers' tables train.

One batch, through a promised loss as a reader makes it of its docstring, and through the loss and the collator of a
table, gives the same terms and the same gradient."""
import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

import debias_nb
import made
from debias_nb.losses.author_batches import AuthorCollator, text_rows
from debias_nb.losses.scan import Memory
from debias_nb.losses.scan_head import ScanHead, joint_loss
from debias_nb.losses.scan_loss import SCAN, last_layer
from debias_nb.encoders.tokens import embed, tokenize
from debias_nb.papers.pages.frame import all_experiments, papers
from debias_nb.papers.tasks.answer_training import Weigher
from debias_nb.papers.tasks.authors import author_loss
from debias_nb.runs.config import load_experiment
from debias_nb.runs.course import Course, NamedDraws
from debias_nb.runs.pair_batches import PairCollator, batch_columns, pair_tokens, title_tokens
from debias_nb.runs.settings import HingeTraining, PairMethod, PairTraining
from debias_nb.runs.training import base_for, interventions_of, make_loss, regularizer_class

METHODS = [method for paper in papers() for one in all_experiments(paper) for method in one.methods if method.trained]
SEED, EPOCH = 5, 0
LEFT = ["red kettle", "the old chair", "a large blue lamp", "new table", "small lamp for the chair", "how old"]
RIGHT = ["the red kettle", "old chair ?", "large lamp", "a new table", "red lamp", "why blue"]
# a share of the words is more than one
LEFT, RIGHT = ([" ".join(4 * [text]) for text in texts] for texts in (LEFT, RIGHT))
MATCHES = [1., 1., 1., 1., 0., 0.]
LABELS = [1, 0, 0, 1, 0, 0] # of a relevant answer
TEXTS, AUTHORS, ROWS = [*LEFT, *RIGHT], np.arange(12) // 3, [0, 1, 3, 4, 9, 10] # two texts each of three authors


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {"bert": made.load(made.bert(folder)), "table": made.load(made.table(folder))}


@pytest.fixture(params=["bert", "table"])
def pair(request, encoders):
    "A model in training, some way from its base, and the base."
    base = encoders[request.param]
    model = copy.deepcopy(base).train()
    torch.manual_seed(1)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_((.5 if request.param == "table" else .05) * torch.randn_like(weights))
    return model, copy.deepcopy(base)


def terms_and_gradient(model, loss, features, labels) -> tuple[dict, list]:
    "The terms of a step, and the gradient of their sum; dropout is drawn anew."
    torch.manual_seed(2)
    terms = loss(features, labels)
    terms = terms if isinstance(terms, dict) else {"base": terms}
    return terms, torch.autograd.grad(sum(terms.values()), [*model.parameters()], allow_unused=True)


def check_same(model, mine, theirs) -> None: # each: loss, features, labels
    (terms, gradient), (others, other_gradient) = (terms_and_gradient(model, *way) for way in (mine, theirs))
    assert terms.keys() == others.keys() and all(torch.isclose(terms[name], others[name], atol=1e-6) for name in terms)
    assert sum(terms.values()) > 0 and any(slope is not None and slope.abs().max() > 0 for slope in gradient)
    for slope, other in zip(gradient, other_gradient):
        assert slope is other is None or torch.allclose(slope, other, atol=1e-6)


def method_of_a_table(kind: type) -> PairMethod:
    "The first method of a table that trains with a class, on the texts of its pairs."
    fitting = (one for one in METHODS if isinstance(one, PairMethod) and not one.texts and one.rows == 1)
    return next(method for method in fitting if regularizer_class(method) is kind)


@pytest.mark.parametrize("name", ["MaskReg", "SimCSE", "OutReg", "ITVReg", "L2SP", "WordDropout", "LeastSquares"])
def test_a_regularizer_of_pairs(pair, name):
    model, base = pair
    kind = getattr(debias_nb, name)
    is_loss = name == "LeastSquares"
    method = PairMethod(name="Finetuned") if is_loss else method_of_a_table(kind)
    drops = name == "WordDropout"

    def draws(features): # what a table draws, by the names of its rows
        return NamedDraws([{"row": torch.arange(len(LEFT))}], SEED, EPOCH, 0, "StaticEmbedding" in str(type(model[0])),
                          drops)

    mine = debias_nb.LeastSquares(model)
    if not is_loss:
        settings = ({"share": method.mask_share or method.weight}
                    if drops else {"weight": method.weight, **interventions_of(method)})
        mine = debias_nb.Regularized(model, mine, [kind(**settings)], base, draws)
    features = [model.preprocess(LEFT), model.preprocess(RIGHT)]

    tokens = pair_tokens(base, LEFT, RIGHT, MATCHES)
    course = Course(SEED)
    theirs = make_loss(method, model, base_for(method, base, [tokens.left, tokens.right], "fp32"), course,
                       PairTraining(learning_rate=.1, epochs=1, batch_size=len(LEFT)))
    course.begin_epoch(EPOCH)
    batch = PairCollator(tokens)([{"row": row} for row in range(len(LEFT))])
    check_same(model, (mine, features, torch.tensor(MATCHES)), (theirs, batch_columns(batch), batch["label"]))


def test_the_hinge_of_titles(pair):
    model, base = pair
    relevance = csr_matrix(np.eye(len(LEFT)))
    rows = np.argwhere(relevance.toarray())
    tokens = title_tokens(base, SimpleNamespace(queries=LEFT, items=RIGHT, relevance=relevance, rows=lambda: rows))
    training = HingeTraining(loss="hinge", margin=.3, hardest=3, temperature=.1, learning_rate=.1, epochs=1,
                             batch_size=len(LEFT))
    theirs = make_loss(PairMethod(name="Finetuned"), model, None, Course(SEED), training)
    batch = PairCollator(tokens)([{"row": row} for row in range(len(LEFT))])
    mine = debias_nb.Hinge(model, margin=.3, hardest=3, temperature=.1)
    features = [model.preprocess(LEFT), model.preprocess(RIGHT)]
    check_same(model, (mine, features, torch.eye(len(LEFT), dtype=torch.bool)),
               (theirs, batch_columns(batch), batch["label"]))


OF_AUTHORS = { # name -> the method of a table, and the promised loss with its settings
    "ContrastiveAuthorLoss": ("CL", lambda model, base, method: debias_nb.ContrastiveAuthorLoss(model, .3)),
    "ProductOfExperts": (
        "product of experts",
        lambda model, base, method: debias_nb.ProductOfExperts(model, TEXTS, .3, method.gamma)),
    "ARR": ("CL + ARR", lambda model, base, method: debias_nb.ARR(model, TEXTS, base, .3)),
}


@pytest.mark.parametrize("name", OF_AUTHORS)
def test_a_loss_of_authors(pair, name):
    model, base = pair
    title, make = OF_AUTHORS[name]
    method = next(one.authors for one in METHODS if one.name.lower() == title.lower() and one.authors.bias is None)
    features = [model.preprocess([TEXTS[row] for row in ROWS])]

    tokens = tokenize(base, TEXTS)
    theirs = author_loss(method, model, AUTHORS, .3, lambda: text_rows("tfidf", TEXTS)(TEXTS), embed(base, tokens))
    batch = AuthorCollator(tokens, AUTHORS)([{"row": row} for row in ROWS])
    column = {name.removeprefix("text_"): value for name, value in batch.items() if name.startswith("text_")}
    check_same(model, (make(model, base, method), features, torch.tensor(AUTHORS[ROWS])),
               (theirs, [column], batch["label"]))


def test_scan(tmp_path):
    """One batch after another, so that the memory counts, through the loss for a trainer and the head of the tables.

    Both draw the same dropout, and take H before that of the classifier."""
    methods = {method.name: method.scan for method in load_experiment("scan/table02", "planted").methods}
    model = made.cross_encoder(tmp_path / "model", labels=2).train()
    with torch.no_grad():
        last_layer(model).weight.mul_(50)
    printed = {"variant": "paper", "class_mass": "free"}
    options = {"SCAN, losses averaged (weights by Adam)": {**printed, "optimizer": "adam"},
               "SCAN, losses averaged (weights by SGD)": printed,
               "SCAN, ours": {}}
    for name, settings in options.items():
        scan = methods[name]
        loss = SCAN(model, memory=Memory("ema", scan.alpha), temperature=scan.temperature, **settings)
        head = ScanHead(32, temperature=scan.temperature, debias=scan.debias)
        head.classifier[1].load_state_dict(last_layer(model).state_dict())
        head.debiasing.load_state_dict(loss.debiasing.state_dict())
        weigher = Weigher(scan, SimpleNamespace(conflicting=None))
        for step in range(3):
            rows = torch.arange(len(LABELS)).roll(step)
            texts = [[texts[row] for row in rows] for texts in (LEFT, RIGHT)]
            labels = torch.tensor(LABELS)[rows]
            for draws in (np.random.seed, torch.manual_seed):
                draws(step)
            mine = loss(texts, labels)
            for draws in (np.random.seed, torch.manual_seed):
                draws(step)
            weigher.generator = torch.Generator().manual_seed(int(np.random.randint(2**62, dtype=np.int64)))
            hidden = model.model.bert(**model.tokenizer(*texts, padding=True, return_tensors="pt")).pooler_output
            terms = head(hidden, labels, weigher(hidden.detach(), labels, rows))
            assert mine.keys() == terms.keys()
            assert all(torch.isclose(mine[term], terms[term], atol=1e-6) for term in terms)
            body = list(model.model.bert.parameters())
            slopes = [torch.autograd.grad(total, body) for total in (sum(mine.values()), joint_loss(terms))]
            assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(*slopes))
        assert torch.allclose(loss.memory.weights, weigher.memory.weights, atol=1e-5)
        assert loss.memory.weights.std() > 0
