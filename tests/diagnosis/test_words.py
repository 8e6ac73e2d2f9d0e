"Words of texts, their importance to a model, and how they go with the label."
import random
import tracemalloc

import numpy as np
import pytest

from debias_nb.diagnosis.models import load_model
from debias_nb.diagnosis.words import (
    importance_by_word, label_ties, replace_words, shared_tie, word_importance, word_owners, word_pairs, words_of)
from debias_nb.encoders.interventions import importance
from debias_nb.encoders.planted import planted_encoder
from debias_nb.encoders.tokens import tokenize
from debias_nb.settings import EncoderConfig, PretrainConfig, WorldConfig


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    world = WorldConfig(types=16, unseen_types=6, train_pairs=400, broad_pairs=800, queries=60, items=200)
    recipe = PretrainConfig(steps=60, batch_size=64, learning_rate=2e-2)
    config = EncoderConfig(name="tiny-static", kind="static", world=world, pretrain=recipe)
    return planted_encoder(config, cache=tmp_path_factory.mktemp("planted"))


def test_a_word_keeps_its_marks_and_what_stands_inside_it():
    assert words_of("The HP-250's 3.5 inch disc.") == ("the", "hp-250's", "3.5", "inch", "disc")
    assert words_of("हिन्दी जूते") == ("हिन्दी", "जूते")
    assert words_of("cafe\u0301") == words_of("café") == ("café",)


def test_words_of_pairs_are_no_set_a_text():
    "A set of seven words takes 700 bytes, as much as all else of a pair."
    rng = random.Random(0)
    words = [f"w{number}" for number in range(500)]
    left, right = ([" ".join(rng.choices(words, k=7)) for _ in range(2000)] for _ in range(2))
    for text in left + right: # whose words are remembered
        words_of(text)
    tracemalloc.start()
    pairs = word_pairs(left, right, np.ones(len(left)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 900 * (len(left) + len(right))
    assert [pairs.left[0, pairs.vocabulary[word]] for word in words_of(left[0])] == [1] * 7


def test_words_are_replaced_and_the_rest_is_kept():
    text = "Old HP lamp, HP"
    assert replace_words(text, {"hp": " "}) == "Old lamp,"
    assert replace_words(text, {"hp": "dell"}) == "Old dell lamp, dell"


def test_a_token_belongs_to_the_word_with_its_last_character(encoder):
    text = "my tv-set, please"
    owner = word_owners(load_model(encoder), [text], tokenize(encoder, [text]))[0]
    owners = [words_of(text)[number] if number >= 0 else "" for number in owner]
    assert owners == ["my"] + 6 * ["tv-set"] + [""] + 5 * ["please"], "the comma belongs to none"


def test_where_a_word_is_a_token_its_share_is_that_of_the_token(encoder):
    words = [word for word in encoder.tokenizer.get_vocab() if word.isalpha() and len(word) > 4]
    text = " ".join(sorted(words)[:3]) # a tokenizer lists its words in another order every time
    shares = word_importance(load_model(encoder), [text])[0]
    by_token = importance(encoder, tokenize(encoder, [text])).values[0].numpy()
    assert len(by_token) == 3 and np.allclose(shares, by_token / by_token.sum(), atol=1e-6)


def test_words_are_ordered_by_how_far_they_moved():
    before, after = [np.array([.5, .5])] * 5, [np.array([.9, .1])] * 5
    moved = importance_by_word(["red lamp"] * 5, before, after)
    assert moved.word.tolist() == ["red", "lamp"] and np.allclose(moved.change, [.4, -.4])


def test_a_word_goes_with_the_label_where_both_texts_have_it():
    pairs = word_pairs(["hp disc", "hp lamp", "a lamp"], ["hp screen", "a lamp", "my hp"], np.array([1, 0, 0]))
    ties = label_ties(pairs, ["hp", "lamp", "moon"])
    assert ties.both.tolist() == [1, 1, 0] and ties.one.tolist() == [2, 1, 0]
    assert ties["matches both"].tolist()[:2] == [1., 0.] and shared_tie(pairs, ["hp", "lamp"]) == (2, .5)
