"Random bits, choices and interventions against loops in plain Python, importance against texts without a token."
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense

from debias_nb.encoders.tokens import EncoderError, embed_texts, tokenize
from debias_nb.encoders.interventions import choose, importance, importance_by_role, intervene, ordinary_vocabulary
from debias_nb.encoders.interventions import random_bits, row_keys, word_of_token
from made import VOCABULARY, bert, load, table

TEXTS = ["red kettle", "old lamps with a chair for the table", "new", "why how what ?"]
WORDS_OF = [text.split() for text in TEXTS]
LAST = 2**64 - 1
NUMBERS = {word: i for i, word in enumerate(VOCABULARY)} # a word that occurs twice has its last number
ORDINARY = sorted(NUMBERS.values())[5:]


@pytest.fixture(scope="module", params=["bert", "table"])
def model(request, tmp_path_factory):
    make = {"bert": bert, "table": table}[request.param]
    return load(make(tmp_path_factory.mktemp("models")))


def mix(number):
    "SplitMix64 by whole numbers."
    number = (number + 0x9E3779B97F4A7C15) & LAST
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 & LAST
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB & LAST
    return number ^ (number >> 31)


def bit(seed, epoch, row, place, stream):
    key = row
    for part in (epoch, seed, stream):
        key = mix(key ^ mix(part))
    return mix((key + mix(place + 1)) & LAST)


@pytest.mark.parametrize("seed, epoch, stream", [(0, 0, 0), (5, 2, 0), (2, 5, 1)])
def test_bits_are_named_by_seed_epoch_row_place_and_stream(seed, epoch, stream):
    rows = np.array([7, 0, 2**40])
    expected = [[bit(seed, epoch, int(row), place, stream) for place in range(4)] for row in rows]
    assert random_bits(seed, epoch, rows, 4, stream).tolist() == expected
    if not stream:
        assert random_bits(seed, epoch, rows, 4).tolist() == expected


def test_a_text_is_named_by_its_tokens_in_their_places(model):
    tokens = tokenize(model, TEXTS)
    expected = []
    for ids, mask in zip(tokens.ids.tolist(), tokens.mask.tolist()):
        token_keys = [mix(number + mix(place) & LAST) for place, number in enumerate(ids) if mask[place]]
        expected.append(sum(token_keys) & LAST)
    assert row_keys(tokens).tolist() == expected


@pytest.mark.parametrize("share, counts", [(.1, [1, 1, 0, 1]), (.5, [1, 4, 0, 2]), (.99, [1, 8, 0, 3])])
def test_the_tokens_with_the_smallest_bits_are_chosen(model, share, counts):
    tokens = tokenize(model, TEXTS)
    rows = np.array([3, 1, 4, 15])
    choices, weight = choose(tokens, share, 6, 2, rows)
    assert weight.tolist() == [1, 1, 0, 1], "a text of one token is left as it is"
    for i, count in enumerate(counts):
        places = tokens.ordinary[i].nonzero().flatten().tolist()
        places.sort(key=lambda place: bit(6, 2, int(rows[i]), place, 0))
        assert choices[i].nonzero().flatten().tolist() == sorted(places[:count])
    assert choose(tokenize(model, ["", "red"]), share, 6, 2)[1].tolist() == [0, 0], "nor has one without a word any"
    by_key = choose(tokens, share, 6, 2, row_keys(tokens))
    assert torch.equal(choose(tokens, share, 6, 2)[0], by_key[0])


def test_what_cannot_be_is_named(model):
    tokens = tokenize(model, TEXTS)
    for share in (0, 1, -.1, 50):
        with pytest.raises(ValueError, match="share"):
            choose(tokens, share, 0, 0)
    with pytest.raises(ValueError, match="intervention"):
        intervene(model, tokens, tokens.ordinary, "delet")


@pytest.mark.parametrize("has_rows", [True, False])
def test_replacements_are_drawn_from_the_vocabulary(model, has_rows):
    assert ordinary_vocabulary(model).tolist() == ORDINARY, "special tokens replace nothing"
    tokens = tokenize(model, TEXTS)
    rows = np.array([3, 1, 4, 15]) if has_rows else row_keys(tokens)
    choices, _ = choose(tokens, .5, 6, 2, rows)
    replacements = intervene(model, tokens, choices, "random", 6, 2, rows if has_rows else None)
    for i, place in np.ndindex(tuple(tokens.ids.shape)):
        replacement = ORDINARY[bit(6, 2, int(rows[i]), place, 1) % len(ORDINARY)]
        assert replacements.ids[i, place] == (replacement if choices[i, place] else tokens.ids[i, place])
    assert torch.equal(replacements.mask, tokens.mask) and torch.equal(replacements.ordinary, tokens.ordinary)
    first = intervene(model, tokens, choices, "random")
    by_key = intervene(model, tokens, choices, "random", 0, 0)
    assert torch.equal(first.ids, by_key.ids), "seed and epoch are 0 unless given"


def left(tokens, i):
    "The tokens of one text that count, and which of them are ordinary."
    mask = tokens.mask[i]
    return tokens.ids[i][mask].tolist(), tokens.ordinary[i][mask].tolist()


@pytest.mark.parametrize("kind", ["mask", "delete", "pad"])
def test_a_token_is_masked_or_gone(model, kind):
    tokens = tokenize(model, TEXTS)
    choices, _ = choose(tokens, .5, 0, 0)
    result = intervene(model, tokens, choices, kind)
    static = model[0].__class__.__name__ == "StaticEmbedding"
    for i in range(len(tokens)):
        ids, ordinary = left(tokens, i)
        is_taken = choices[i][tokens.mask[i]].tolist()
        if kind == "mask" and not static:
            expected = [VOCABULARY.index("[MASK]") if is_gone else number for number, is_gone in zip(ids, is_taken)]
            assert left(result, i) == (expected, ordinary)
        else:
            rest_ids = [number for number, is_gone in zip(ids, is_taken) if not is_gone]
            assert left(result, i) == (rest_ids, [is_one for is_one, is_gone in zip(ordinary, is_taken) if not is_gone])
    if kind == "delete" and not static:
        assert torch.equal(result.mask, result.mask.sort(1, descending=True).values), "no gaps"
    if kind == "pad" or static and kind == "delete":
        assert torch.equal(result.mask, tokens.mask & ~choices), "what is left stays in its place"
    assert kind != "mask" or torch.equal(result.ids, intervene(model, tokens, choices).ids), "masks unless told"


@pytest.mark.parametrize("kind", ["mask", "delete"])
def test_importance_is_how_far_the_text_without_the_token_is(model, kind):
    static = model[0].__class__.__name__ == "StaticEmbedding"
    texts = ["red kettle", "old lamp with a chair", "new new", "why"]
    tokens = tokenize(model, texts)
    values = importance(model, tokens, kind).values
    text_vectors = embed_texts(model, texts)
    assert torch.equal(values.isnan(), ~tokens.ordinary)
    for i, text in enumerate(texts):
        words = text.split()
        for j in range(len(words)):
            remaining_words = words[:j] + ["[MASK]"] * (kind == "mask" and not static) + words[j + 1:]
            vector = embed_texts(model, [" ".join(remaining_words)])[0]
            expected = 1 - float(text_vectors[i] @ vector)
            assert abs(float(values[i][tokens.ordinary[i]][j]) - expected) < 1e-5
    assert torch.allclose(values, importance(model, tokens, kind, rows_at_once=3).values, atol=1e-6, equal_nan=True)
    if kind == "mask":
        assert torch.equal(values.nan_to_num(), importance(model, tokens).values.nan_to_num()), "by masks unless told"


def test_importance_says_which_token_has_which_value(model):
    "Also in Jupyter, where what a text may contain is text and no HTML."
    importances = importance(model, ["red lamps", "a <b> kettle"])
    frame = importances.frame()
    words = ["red", "lamp", "##s"]
    assert frame.token[frame.text == 0].tolist() == [word if word in VOCABULARY else "[UNK]" for word in words]
    assert frame.importance.tolist() == importances.values[importances.tokens.ordinary].tolist()
    assert repr(importances).count("\n") == len(frame) and "red" in repr(importances)
    page = importances._repr_html_()
    assert page.count("<span") == len(frame) and "<b>" not in page
    many = importance(model, ["red lamp"] * 25)
    assert len(repr(many).splitlines()) <= 62 and "5 more texts" in many._repr_html_()


def test_pieces_belong_to_their_words(model):
    tokens = tokenize(model, TEXTS)
    owner = word_of_token(model, WORDS_OF, tokens)
    owners = [row[row >= 0].tolist() for row in owner]
    assert owners == [[0, 1], [0, 1, 1, 2, 3, 4, 5, 6, 7], [0], [0, 1, 2, 3]]
    assert ((owner == -1) == ~tokens.ordinary.numpy()).all()
    with pytest.raises(EncoderError, match="word"):
        word_of_token(model, [WORDS_OF[0], ["old", "lamp"], *WORDS_OF[2:]], tokens)


def test_shares_of_roles_are_sums_over_their_tokens(model):
    roles = [["a", "b"], ["b", "a", "c", "c", "a", "c", "c", "b"], ["b"], ["a", "b", "b", "a"]]
    titles = [SimpleNamespace(text=text, words=words, roles=role) for text, words, role in zip(TEXTS, WORDS_OF, roles)]
    shares = importance_by_role(model, titles, kind="delete")
    tokens = tokenize(model, TEXTS)
    values = importance(model, tokens, "delete").values.clamp(min=0)
    owner = word_of_token(model, WORDS_OF, tokens)
    expected = pd.DataFrame(0., index=range(4), columns=["a", "b", "c"])
    for i, place in np.argwhere(owner >= 0):
        expected.loc[i, roles[i][owner[i, place]]] += float(values[i, place])
    expected = expected.div(expected.sum(axis=1), axis=0)
    assert np.allclose(shares[["a", "b", "c"]], expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["truncated", "dense"])
def test_importance_is_that_of_the_whole_encoder(tmp_path, kind):
    "Not of the token vectors alone, where a model keeps fewer numbers, or has more modules behind its table."
    torch.manual_seed(0)
    plain = load(table(tmp_path))
    if kind == "truncated":
        model = SentenceTransformer(modules=[*plain], truncate_dim=4, device="cpu")
    else:
        model = SentenceTransformer(modules=[*plain, Dense(16, 8)], device="cpu").eval()
    full, *shorter = model.encode(["red old kettle", "old kettle", "red kettle", "red old"], normalize_embeddings=True)
    expected = [1 - vector @ full for vector in shorter]
    assert np.allclose(importance(model, ["red old kettle"]).values[0], expected, atol=1e-5)
    words, models = (pytest.importorskip(f"debias_nb.diagnosis.{name}") for name in ("words", "models"))
    shares = words.word_importance(models.load_model(model), ["red old kettle"])[0]
    assert np.allclose(shares, np.array(expected) / sum(expected), atol=1e-5)
