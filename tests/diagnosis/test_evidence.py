"""Slices, shortcuts, flaws and lost pairs of one made-up case.

A text names a sort, a thing and a brand; a match names the same thing twice. In training and on the test `like` matches
alone share the brand too; on the test `new` they hardly ever do, and other pairs often. The two models are tables with
a vector for each word: to the base a brand means little, to the tuned model it means most."""
import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

from debias_nb.diagnosis.evidence import (
    below_chance, candidate_words, doubts, flaws, range_names, ranked_words, reversal, share_unseen, shared_pairs,
    shortcuts, slices)
from debias_nb.diagnosis.pairs import PairFile, read_pairs_file
from debias_nb.diagnosis.models import load_model, pair_scores
from debias_nb.diagnosis.test_sets import as_test, wrong_side
from debias_nb.diagnosis.words import importance_by_word, word_importance, word_pairs, words_of

BRANDS = "acme bolt coda dune echo flux".split()
THINGS = ("lamp chair table kettle clock shelf mirror basket desk rug vase bench fan stool sofa bed tray bowl cup "
          "jug".split())
SORTS = "red blue green black small large old new plain round tall light".split()
WORDS = ["[UNK]", *BRANDS, *THINGS, *SORTS]


def invented(name, seed, brand_of_match, brand_of_other):
    "Make 300 labeled pairs; the last two numbers say how often a match and another pair share the brand."
    rng = default_rng(seed)
    rows = []
    for i in range(300):
        label = int(i % 3 == 0)
        thing, other_thing = rng.choice(THINGS, 2, replace=False)
        brand, other_brand = rng.choice(BRANDS, 2, replace=False)
        shares = rng.random() < (brand_of_match if label else brand_of_other)
        sort, other_sort = rng.choice(SORTS, 2)
        right_thing = thing if label else other_thing
        right_brand = brand if shares else other_brand
        rows.append((f"{sort} {thing} {brand}", f"{other_sort} {right_thing} {right_brand}", label))
    return read_pairs_file(pd.DataFrame(rows, columns=["left", "right", "label"]), name=name)


def table(length):
    "Make a model with a vector for each word; those of brands are this many times as long as drawn."
    vectors = default_rng(0).normal(size=(len(WORDS), 32))
    lengths = np.array([length if word in BRANDS else 1 for word in WORDS])
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = (vectors * lengths[:, None]).astype("float32")
    return load_model(SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)],
                                          device="cpu"))


@pytest.fixture(scope="module")
def scorers():
    return {"base": table(.3), "tuned": table(2)}


@pytest.fixture(scope="module")
def train():
    return invented("train", 1, 1, 0)


@pytest.fixture(scope="module")
def tests(scorers):
    found = []
    for file in (invented("like", 2, 1, 0), invented("new", 2, .1, .4)):
        found.append(as_test(file.name, file, pair_scores(scorers, file.left, file.right)))
    return found


@pytest.fixture(scope="module")
def moved(scorers, train):
    texts = [*train.left, *train.right]
    before, after = (word_importance(scorer, texts) for scorer in scorers.values())
    return importance_by_word(texts, before, after)


def test_values_are_cut_in_thirds_and_in_fewer_parts_where_many_are_equal():
    parts = range_names(np.array([0, 0, .1, .2, .3, .4, .5, .6, .9]))
    assert parts[0] == "0 to 0.1" and parts[-1] == "0.5 to 0.9" and len(set(parts)) == 3
    assert len(set(range_names(np.zeros(5)))) == 1
    assert set(range_names(np.array([0, 0, 0, 0, 1.]))) == {"0 to 0", "1 to 1"}


def test_unseen_words_are_a_fraction_of_both_texts():
    assert share_unseen(["a b"], ["c d"], {"a", "b", "c"})[0] == .25


def test_fine_tuning_helped_in_every_slice_like_training_and_did_harm_in_every_new_one(tests, train):
    seen = {word for text in [*train.left, *train.right] for word in words_of(text)}
    found = slices(tests, tests, seen - {"acme"})
    assert (found.change[found.test == "like"] > 0).all() and (found.change[found.test == "new"] < 0).all()


def test_the_words_that_gained_importance_are_brands(moved):
    assert set(ranked_words(moved)["gained"]) == set(BRANDS)


def test_brands_are_a_shortcut_where_they_mislead_and_none_where_they_do_not(tests, scorers, train, moved):
    trained = word_pairs(train.left, train.right, train.labels)
    candidates = candidate_words(moved, trained)
    found = shortcuts(tests, scorers, trained, candidates)
    assert set(candidates["matches"]) == set(BRANDS)
    assert found.shortcut[found["goes with"] == "matches"].tolist() == [False, True]


def test_labels_that_both_models_find_wrong_are_suspects():
    "Of four kinds of pairs the first is no match and scores above all, the third is one and scores below the others."
    labels = np.array([0, 0, 1, 1] * 5)
    scores = {"base": np.array([1, .1, 0, .8] * 5), "tuned": np.array([1, .2, 0, .7] * 5)}
    frame = pd.DataFrame({"left": [f"one {i}" for i in range(20)], "right": [f"other {i}" for i in range(20)],
                          "label": labels})
    assert wrong_side(np.array([.1, .9, .5, .95]), labels[:4]).tolist() == [0, .5, .5, 0]
    found = as_test("made up", PairFile("made up", frame, ""), scores).suspects()
    assert set(found % 4) == {0, 2}


def test_texts_of_training_and_repeats_are_found_with_an_example(tests, scorers, train):
    assert shared_pairs(train, train) == 300
    suspects = as_test("train", train, pair_scores(scorers, train.left, train.right)).suspects()
    found = flaws(train, tests, suspects)
    found = found[found["count"] > 0]
    assert len(found) and all(example["left"] and example["right"] for example in found.examples.str[0])


def test_scores_that_point_the_other_way_are_told(tests):
    like = tests[0]
    turned = as_test("turned", like.file, {model: -scores for model, scores in like.scores.items()})
    assert below_chance(like) == {} and doubts(turned, 0) == [reversal(turned)] and reversal(turned)


def test_the_pairs_that_were_lost_share_the_brand_and_nothing_else(tests):
    for _, pair in tests[1].largest_losses(4).iterrows():
        assert {*words_of(pair.left)} & {*words_of(pair.right)} & {*BRANDS} and pair.label == 0
