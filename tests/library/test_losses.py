"Every loss of the library, by the same checks."
import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

import made
from checks import Checked, check_loss
from debias_nb import Hinge, ITVReg, L2SP, LeastSquares, MaskReg, OutReg, Regularized, SimCSE, WordDropout
from debias_nb.encoders.tokens import embed_texts, embed_unscaled, tokenize
from debias_nb.losses.arr import distill
from debias_nb.losses.author_batches import sparse_cosines, text_rows
from debias_nb.losses.author_losses import ContrastiveAuthorLoss, MulticlassLoss, pair_log_probs
from debias_nb.losses.author_losses import supervised_contrastive
from debias_nb.losses.authors import ARR, CorrectedTeacher, ProductOfExperts, flattened_shares, released_shares
from debias_nb.losses.authors import topic_bias
from debias_nb.losses.pair_losses import NGAME
from debias_nb.losses.scan_loss import SCAN

LEFT = ["red kettle", "lamp", "old chair for a table", "small new kettle", "how large", "why blue , lamp", "what",
        "old"]
RIGHT = ["a kettle in red", "the chair", "old table", "lamp with a chair", "new", "blue kettle", "how red",
         "large lamp"]
SCORES = torch.tensor([1., 0., .5, 0., 1., 0., .2, .7])
AUTHORS = torch.tensor([0, 0, 1, 1, 2, 2, 2, 2])
OTHER = ["the old table", "why red", "large chair with a lamp"]


def padded_by_two(features: dict) -> dict:
    "Pad the texts of a transformer; those of a table stand one behind the other."
    names = {"input_ids", "attention_mask", "token_type_ids"} & features.keys() if "offsets" not in features else ()
    return features | {name: F.pad(features[name], (0, 2)) for name in names}


def batches(model, texts: list, labels):
    "Return what gives the rows of columns of texts; labels are of rows, or a function of how many there are."
    def batch(rows, padded=False):
        columns = [model.preprocess([column[row] for row in rows]) for column in texts]
        if padded:
            columns = [padded_by_two(features) for features in columns]
        return columns, labels(len(rows)) if callable(labels) else labels[rows]
    return batch


# ---------------------------------------------------------------- of pairs

def least_squares(f, g, scores):
    return sum((float(f[i] @ g[i]) - float(scores[i])) ** 2 for i in range(len(f))) / len(f)


def own_items(n):
    return torch.eye(n, dtype=torch.bool)


PAIR_LOSSES = {
    "least squares": (LeastSquares, least_squares, SCORES),
    "hinge": (Hinge, None, own_items),
    "NGAME": (lambda model: Hinge(model, **NGAME), None, own_items),
}


@pytest.fixture(params=["bert", "table"])
def model(request, originals):
    model = made.load(originals / request.param)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.
    return model.train()


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_losses_of_pairs(model, name):
    make, by_hand, labels = PAIR_LOSSES[name]

    def value(rows):
        sides = [embed_texts(model, [column[row] for row in rows]) for column in (LEFT, RIGHT)]
        return by_hand(*sides, None if callable(labels) else labels[rows])

    batch = batches(model, [LEFT, RIGHT], labels)
    check_loss(lambda: Checked(make(model), batch, by_hand and value, "pooler"), list(range(8)))


# ---------------------------------------------------------------- regularizers

def outreg(model, base, rows):
    texts = [LEFT[row] for row in rows]
    return (embed_texts(model, texts) - embed_texts(base, texts)).square().sum(1).mean()


def l2sp(model, base, rows):
    return sum((a - b).square().sum() for a, b in zip(model.parameters(), base.parameters())).detach()


REGULARIZERS = {
    "OutReg": (OutReg(1.), outreg), "L2SP": (L2SP(1.), l2sp), "WordDropout": (WordDropout(.5), lambda *_: 0.),
    "ITVReg": (ITVReg(1.), None), "ITVReg of half the rows": (ITVReg(1., rows=.5), None),
    "MaskReg": (MaskReg(1., columns=1), None), "SimCSE": (SimCSE(1.), None),
    "of other texts": (OutReg(1., texts=OTHER), None),
}


@pytest.mark.parametrize("name", REGULARIZERS)
def test_regularizers(model, name):
    regularizer, term = REGULARIZERS[name]
    if name == "SimCSE":
        model[0].register_module("dropout", torch.nn.Dropout(.1))
    base = copy.deepcopy(model).eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(.1 * torch.randn_like(weights))
    batch = batches(model, [LEFT, RIGHT], lambda n: None)

    def value(rows):
        return MultipleNegativesRankingLoss(model)(*batch(rows)).detach() + term(model, base, rows)

    def make():
        loss = Regularized(model, MultipleNegativesRankingLoss(model), [regularizer], base=base)
        loss.watch = None # an evaluation of the whole gradient
        return Checked(loss, batch, term and value, "pooler" if name != "L2SP" else "none")

    check_loss(make, list(range(8)))


# ---------------------------------------------------------------- of authors

def cosines(model, rows):
    f = embed_texts(model, [LEFT[row] for row in rows])
    return f @ f.T


def topics(rows):
    return sparse_cosines(text_rows("tfidf", LEFT)(LEFT)[rows])


AUTHOR_LOSSES = { # how it is made; its value of cosines of student, teacher and topics, and of authors
    "CL": (lambda m, t: ContrastiveAuthorLoss(m, .1), lambda f, g, h, y: supervised_contrastive(f, y, .1)),
    "ARR": (lambda m, t: ARR(m, LEFT, t, .1), lambda f, g, h, y: distill(
        flattened_shares(pair_log_probs(g, .1), topic_bias(h, y, .1)), pair_log_probs(f, .1))),
    "ARR of the public code": (lambda m, t: ARR(m, LEFT, t, .1, variant="released"), lambda f, g, h, y: distill(
        released_shares(g, topic_bias(h, y, .1), .1), pair_log_probs(f, .1))),
    "ARR with a bias of 0": (lambda m, t: ARR(m, LEFT, t, .1, bias=0), lambda f, g, h, y: distill(
        pair_log_probs(g, .1).exp(), pair_log_probs(f, .1))),
    "ARR with a bias of .4": (lambda m, t: ARR(m, LEFT, t, .1, bias=.4), lambda f, g, h, y: distill(
        flattened_shares(pair_log_probs(g, .1), .4), pair_log_probs(f, .1))),
    "product": (lambda m, t: ProductOfExperts(m, LEFT, .1, 2.), lambda f, g, h, y: supervised_contrastive(
        f + 2 * h, y, .1)),
    "corrected teacher": (lambda m, t: CorrectedTeacher(m, LEFT, t, .1, .5), lambda f, g, h, y: distill(
        pair_log_probs(g - .5 * h, .1).exp(), pair_log_probs(f, .1))),
}


@pytest.mark.filterwarnings("ignore:no author has two texts")
@pytest.mark.parametrize("name", [*AUTHOR_LOSSES, "MLL"])
def test_losses_of_authors(model, name):
    teacher = F.normalize(torch.randn(8, 5, generator=torch.manual_seed(0)))

    def value(rows):
        if name == "MLL":
            vectors = embed_unscaled(model, tokenize(model, [LEFT[row] for row in rows]))
            return F.cross_entropy(MulticlassLoss(model, 4).classifier(vectors), AUTHORS[rows]).detach()
        g = teacher[rows] @ teacher[rows].T
        return AUTHOR_LOSSES[name][1](cosines(model, rows), g, topics(rows), AUTHORS[rows])

    def make():
        loss = MulticlassLoss(model, 4) if name == "MLL" else AUTHOR_LOSSES[name][0](model, teacher)
        return Checked(loss, batches(model, [LEFT], AUTHORS), value, "pooler")

    check_loss(make, list(range(8)))


# ---------------------------------------------------------------- of answers

@pytest.mark.parametrize("settings", [
    {}, {"debias": False}, {"weights": False, "ce": .5, "cl": 2.},
    {"variant": "paper", "class_mass": "free", "optimizer": "adam"},
    {"variant": "released", "class_mass": "free", "memory": 4}], ids=str)
@pytest.mark.parametrize("outputs", [1, 2])
def test_losses_of_answers(tmp_path, settings, outputs):
    model = made.cross_encoder(tmp_path / "model", outputs, dropout=0.)

    def batch(rows, padded=False):
        return [[column[row] for row in rows] for column in (LEFT, RIGHT)], (SCORES[rows] > .5).long()

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(features|functions|model was trained)")
        check_loss(lambda: Checked(SCAN(model, **settings), batch, None, "none"), list(range(8)))
