"Author losses that find their texts by tokens: the same values as with row numbers, in the trainer."
import random
import warnings

import numpy as np
import pytest
import torch
from datasets import Dataset

import made
from debias_nb.losses.author_losses import ContrastiveAuthorLoss, MulticlassLoss
from debias_nb.losses.authors import ARR, ProductOfExperts
from debias_nb.losses.author_batches import AuthorPairSampler, TokenizedTexts

AUTHORS = np.repeat(np.arange(8), 4)


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {"bert": made.load(made.bert(folder)), "table": made.load(made.table(folder))}


@pytest.fixture(params=["bert", "table"])
def model(request, encoders, tmp_path):
    import copy
    return copy.deepcopy(encoders[request.param])


def texts_of(n=32, seed=0):
    "Distinct texts."
    dice = random.Random(seed)
    texts = set()
    while len(texts) < n:
        texts.add(" ".join(dice.choice(made.WORDS) for _ in range(dice.randint(4, 9))))
    return sorted(texts)


TEXTS = texts_of()


def test_texts_are_found_whatever_the_batch_and_the_prompt(model):
    table = TokenizedTexts(model, TEXTS)
    rows = [5, 0, 31, 5]
    assert table.rows_of(model.preprocess([TEXTS[i] for i in rows])).tolist() == rows
    prompt_batch = model.preprocess([TEXTS[i] for i in rows], prompt="how what: ")
    assert table.rows_of(prompt_batch).tolist() == rows, "the tokens of a prompt do not count"
    alike = TokenizedTexts(model, ["old lamp", "red lamp", "Red Lamp"])
    assert alike.rows_of(model.preprocess(["Red Lamp"])).tolist() == [1], "the first that the encoder cannot tell apart"


ROWS = [0, 1, 4, 5, 8, 9]


def test_a_text_that_a_prompt_cuts_is_refused_with_a_way_out(encoders):
    model = encoders["bert"]
    long = "red " * 60
    table = TokenizedTexts(model, [long, "lamp"])
    assert table.rows_of(model.preprocess([long])).tolist() == [0]
    for features in (model.preprocess([long], prompt="why how: "), model.preprocess(["red blue"])):
        with pytest.raises(ValueError, match="none of the texts"):
            table.rows_of(features)


@pytest.mark.parametrize("authors, share", [([1, 1, 1, 0, 2], .6), ([0, 2, 1, 0], .25), ([2, 0], 0.)])
def test_accuracy_is_the_share_of_texts_whose_author_scores_highest(encoders, authors, share):
    loss = MulticlassLoss(encoders["table"], 3)
    with torch.no_grad():
        loss.classifier.weight.zero_()
        loss.classifier.bias.copy_(torch.tensor([0., 1., -1.])) # author 1, whatever the text
    loss([loss.model.preprocess(TEXTS[:len(authors)])], torch.tensor(authors))
    assert loss.history[-1]["accuracy"] == pytest.approx(share)


def warning_steps(loss, *sizes):
    "Batches of so many texts, each by another author -> of which of them something is said."
    steps = []
    for step, n in enumerate(sizes):
        with warnings.catch_warnings(record=True) as log:
            warnings.simplefilter("always")
            loss([loss.model.preprocess(TEXTS[:n])], torch.arange(n))
        steps += [step for warning in log if "AuthorPairSampler" in str(warning.message)]
    return steps


@pytest.mark.parametrize("make", [
    lambda model: ARR(model, TEXTS, model), lambda model: ProductOfExperts(model, TEXTS),
    lambda model: ContrastiveAuthorLoss(model)], ids=["arr", "product", "contrastive"])
def test_batches_without_pairs_are_said_once(encoders, make):
    model = encoders["table"]
    assert warning_steps(make(model), 3, 3) == [0]
    assert warning_steps(make(model), 1, 1) == [0], "a batch size of 1"
    loss = make(model)
    loss([model.preprocess(TEXTS[:4])], torch.tensor([0, 0, 1, 1]))
    assert warning_steps(loss, 1) == [], "one text is what an epoch may have left"
    assert warning_steps(loss, 2) == [0]


def relation(kind, n, generator):
    "Random embeddings of n texts, or what stands between the texts."
    units = torch.nn.functional.normalize(torch.randn(n, 5, generator=generator))
    return {
        "embeddings": torch.randn(n, n, generator=generator), "texts of their own": torch.eye(n),
        "cosines": units @ units.T,
        "shares": (units @ units.T / .1).softmax(1)}[kind]


@pytest.mark.parametrize("kind", ["embeddings", "texts of their own", "cosines", "shares"])
def test_what_stands_between_the_texts_is_not_taken_for_their_embeddings(model, kind):
    generator = torch.Generator().manual_seed(len(kind))
    for n in range(3, 33):
        texts = [f"red lamp {i}" for i in range(n)]
        if kind in ("cosines", "shares"):
            with pytest.raises(ValueError, match=f"embeddings of shape .* holds {kind}"):
                ARR(model, texts, relation(kind, n, generator))
        else:
            ARR(model, texts, relation(kind, n, generator))


def test_texts_that_the_model_cuts_to_the_same_tokens_are_counted(encoders):
    "Under a license header as long as what the model reads, say."
    header = "the old table with the large lamp "
    texts = [header + "red kettle", header + "blue chair", "how new", "why small"]
    model = encoders["bert"]
    for limit, count in ((7, 1), (40, 0)):
        model.max_seq_length = limit
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            TokenizedTexts(model, texts).rows_of(model.preprocess(texts))
        said = [str(one.message) for one in caught if "tokens of another one" in str(one.message)]
        assert len(said) == count and all("1 of 4 texts" in message for message in said)


def test_a_limit_of_tokens_that_changes_later_is_followed(encoders):
    model, texts = encoders["bert"], ["red kettle for the table", "old lamp with a chair", "how new", "why small"]
    model.max_seq_length = 40
    table = TokenizedTexts(model, texts)
    assert table.rows_of(model.preprocess(texts)).tolist() == [0, 1, 2, 3]
    model.max_seq_length = 5
    assert table.rows_of(model.preprocess(texts)).tolist() == [0, 1, 2, 3]
    model.max_seq_length = 40


def test_a_sampler_refuses_authors_by_name_with_the_line_to_write():
    data = Dataset.from_dict({"text": list("abcd"), "label": ["ann", "ann", "bob", "bob"]})
    with pytest.raises(ValueError, match=r"authors such as \['ann'.*: put author_ids\(data\['label'\]\) in its place"):
        AuthorPairSampler(data, 4)
