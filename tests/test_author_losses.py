"Author losses that find their texts by tokens: the same values as with row numbers, in the trainer, and refusals."
import random

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer

import made
from debias_nb.arr import (
    ARRLoss, AuthorPairSampler, ContrastiveAuthorLoss, ProductOfExpertsLoss, text_rows,
)
from debias_nb.author_losses import ARR, KnownTexts, ProductOfExperts
from debias_nb.encoders import embed_texts, training_arguments
from debias_nb.regularized import OutReg, Regularized

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
    found = set()
    while len(found) < n:
        found.add(" ".join(dice.choice(made.WORDS) for _ in range(dice.randint(4, 9))))
    return sorted(found)


TEXTS = texts_of()


def column_with_rows(model, rows):
    "What `AuthorCollator` gives: features with row numbers."
    return model.preprocess([TEXTS[i] for i in rows]) | {"row": torch.as_tensor(rows)}


def test_texts_are_found_whatever_the_batch_and_the_prompt(model):
    known = KnownTexts(model, TEXTS)
    rows = [5, 0, 31, 5]
    assert known.rows(model.preprocess([TEXTS[i] for i in rows])).tolist() == rows
    from debias_nb.encoders import tell_prompts
    tell_prompts(model)
    prompted = model.preprocess([TEXTS[i] for i in rows], prompt="how what: ")
    assert known.rows(prompted).tolist() == rows, "the tokens of a prompt do not count"


def test_a_text_that_it_was_not_given_is_named(model):
    known = KnownTexts(model, TEXTS[:3])
    with pytest.raises(ValueError, match="is none of the texts that the loss was given"):
        known.rows(model.preprocess([TEXTS[0], "red red red red red"]))


ROWS = [0, 1, 4, 5, 8, 9]


def test_values_are_those_of_the_losses_that_need_row_numbers(model):
    topics = text_rows("tfidf", TEXTS)(TEXTS)
    vectors = embed_texts(model, TEXTS)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(.1 * torch.randn_like(weights))
    model.eval()
    labels = torch.from_numpy(AUTHORS[ROWS])
    pairs = [
        (ProductOfExperts(model, TEXTS, .2, 1.5), ProductOfExpertsLoss(model, topics, .2, 1.5)),
        (ProductOfExperts(model, TEXTS, .2, 0.), ContrastiveAuthorLoss(model, .2)),
        (ARR(model, TEXTS, vectors, .3), ARRLoss(model, vectors, topics, .3)),
        (ARR(model, TEXTS, vectors, .3, bias=.4), ARRLoss(model, vectors, topics, .3, bias=.4)),
    ]
    for by_text, by_row in pairs:
        mine = by_text([model.preprocess([TEXTS[i] for i in ROWS])], labels)
        assert torch.isclose(mine, by_row([column_with_rows(model, ROWS)], labels), atol=1e-5) and mine > .01


def test_pairs_are_the_same_texts_in_two_columns(model):
    model.eval()
    loss = ProductOfExperts(model, TEXTS)
    left, right = ([TEXTS[i] for i in ROWS[start::2]] for start in (0, 1))
    both = [model.preprocess(left), model.preprocess(right)]
    one = loss([model.preprocess([TEXTS[i] for i in ROWS])], torch.from_numpy(AUTHORS[ROWS]))
    assert torch.isclose(loss(both), one, atol=1e-5), "each row is another author"
    assert torch.isclose(loss(both, torch.tensor([3, 1, 2])), one, atol=1e-5)
    assert not torch.isclose(loss(both, torch.tensor([3, 3, 2])), one, atol=1e-3)


def trained(model, loss, folder, data, **changes):
    settings = dict(per_device_train_batch_size=8, learning_rate=1e-2, num_train_epochs=2, seed=1, use_cpu=True)
    args = training_arguments(folder, **settings | changes)
    trainer = SentenceTransformerTrainer(model=model, args=args, train_dataset=data, loss=loss)
    trainer.train()
    return trainer


SINGLE = Dataset.from_dict({"text": TEXTS, "label": AUTHORS})
DOUBLE = Dataset.from_dict({"anchor": TEXTS[::4], "positive": TEXTS[1::4]})


@pytest.mark.parametrize("data, more", [(SINGLE, {"batch_sampler": AuthorPairSampler}), (DOUBLE, {})])
@pytest.mark.parametrize("kind", ["product", "arr", "regularised"])
def test_the_trainer_trains_with_it(model, kind, data, more, tmp_path):
    before = [weights.clone() for weights in model.parameters()]
    loss = ARR(model, TEXTS, model) if kind == "arr" else ProductOfExperts(model, TEXTS)
    if kind == "regularised":
        loss = Regularized(model, loss, [OutReg(.1)])
    trainer = trained(model, loss, tmp_path, data, **more)
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters()))
    model.save(str(tmp_path / "saved"))
    if kind != "regularised":
        assert loss.citation.split("{")[1].split(",")[0] in (tmp_path / "saved/README.md").read_text("utf-8")
    assert np.isfinite(trainer.state.log_history[-1]["train_loss"])


@pytest.mark.parametrize("prompt", ["why how: ", {"text": "red "}])
def test_texts_behind_a_prompt_are_known(model, prompt, tmp_path):
    trained(model, ARR(model, TEXTS, model), tmp_path, SINGLE, batch_sampler=AuthorPairSampler, prompts=prompt)


def test_a_text_that_a_prompt_cuts_is_refused_with_a_way_out(encoders):
    model = encoders["bert"]
    long = "red " * 60
    known = KnownTexts(model, [long, "lamp"])
    assert known.rows(model.preprocess([long])).tolist() == [0]
    with pytest.raises(ValueError, match="put it before the texts of the data set, and give the loss the same"):
        known.rows(model.preprocess([long], prompt="why how: "))


@pytest.mark.parametrize("make", [lambda m: ProductOfExperts(m, TEXTS), lambda m: ARR(m, TEXTS, m)], ids=["product", "arr"])
def test_a_last_batch_of_one_text_teaches_nothing(model, make):
    value = make(model)([model.preprocess(TEXTS[:1])], torch.tensor([0]))
    value.backward()
    assert value == 0
    assert all(weights.grad is None or weights.grad.abs().max() == 0 for weights in model.parameters())


def test_batches_without_pairs_are_said_once(encoders):
    loss = ProductOfExperts(encoders["table"], TEXTS)
    batch = encoders["table"].preprocess(TEXTS[:3])
    with pytest.warns(UserWarning, match="AuthorPairSampler") as said:
        loss([batch], torch.tensor([0, 1, 2]))
        loss([batch], torch.tensor([0, 1, 2]))
    assert len([one for one in said if "AuthorPairSampler" in str(one.message)]) == 1


@pytest.mark.parametrize("build, words", [
    (lambda m: ProductOfExperts(torch.nn.Linear(2, 2), TEXTS), "a SentenceTransformer is needed"),
    (lambda m: ProductOfExperts(m, "one text"), "texts is one text"),
    (lambda m: ProductOfExperts(m, ["a", None]), r"texts\[1\] is None, and no text"),
    (lambda m: ProductOfExperts(m, ["red"]), "at least 2"),
    (lambda m: ProductOfExperts(m, TEXTS, temperature=0.), "temperature must be above 0"),
    (lambda m: ProductOfExperts(m, TEXTS, gamma=-1.), r"gamma must lie in \[0, inf\)"),
    (lambda m: ARR(m, TEXTS, "a/name"), "teacher must be a SentenceTransformer"),
    (lambda m: ARR(m, TEXTS, np.zeros((3, 2))), "for 32 texts"),
    (lambda m: ARR(m, TEXTS, np.full((32, 2), np.nan)), "teacher: row 0 is not finite"),
    (lambda m: ARR(m, TEXTS, m, bias=2.), "bias must lie in"),
])
def test_what_cannot_work_is_refused_when_it_is_made(encoders, build, words):
    with pytest.raises(ValueError, match=words):
        build(encoders["table"])


@pytest.mark.parametrize("columns, labels, words", [
    (1, None, "a column `label`"),
    (1, torch.rand(3), "number of an author"),
    (1, torch.arange(2), "number of an author"),
    (3, torch.arange(3), "3 columns"),
])
def test_what_only_a_batch_can_show_is_refused_there(encoders, columns, labels, words):
    model = encoders["table"]
    with pytest.raises(ValueError, match=words):
        ProductOfExperts(model, TEXTS)([model.preprocess(TEXTS[:3]) for _ in range(columns)], labels)
