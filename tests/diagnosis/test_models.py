"The two encoders that are compared: how they are loaded, scored, searched with and mixed."
import shutil

import numpy as np
import pandas as pd
import pytest
import torch

from debias_nb.diagnosis.demo import BRANDS, offers, small_encoder
from debias_nb.diagnosis.models import (
    Scorer, load_model, mixed_scorer, pair_scores, round_scores, search_corpus)
from debias_nb.encoders.planted import planted_encoder
from debias_nb.encoders.tokens import EncoderError
from debias_nb.settings import EncoderConfig, PretrainConfig, WorldConfig

WORLD = WorldConfig(types=16, unseen_types=6, train_pairs=400, broad_pairs=800, queries=60, items=200)


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    "Two small static encoders, trained alike from different seeds."
    found = []
    for seed in (0, 1):
        recipe = PretrainConfig(steps=20, batch_size=64, learning_rate=2e-2, seed=seed)
        config = EncoderConfig(name="tiny-static", kind="static", world=WORLD, pretrain=recipe)
        found.append(planted_encoder(config, cache=tmp_path_factory.mktemp("planted")))
    return found


@pytest.fixture(scope="module")
def scorers(encoders):
    return dict(zip(("base", "tuned"), map(load_model, encoders)))


def with_brands(length):
    "Make an encoder of offers whose vectors of brands are so many times as long."
    model = small_encoder()
    brands = [model[0].tokenizer.token_to_id(brand) for brand in BRANDS]
    with torch.no_grad():
        model[0].embedding.weight[brands] *= length
    return model


def test_two_models_that_differ_in_weights_have_one_tokenizer():
    base, tuned = (Scorer(name, with_brands(length), "static") for name, length in (("base", 1), ("tuned", 5)))
    assert base.similarity == "cosine" and base.rules == tuned.rules and base.fingerprint != tuned.fingerprint


def test_long_vectors_of_brands_hide_what_is_a_match():
    new = offers(300, 0, .2, .4)
    loaded = {"base": load_model(with_brands(1)), "tuned": load_model(with_brands(5))}
    above = {}
    for name, scores in pair_scores(loaded, new.left.tolist(), new.right.tolist()).items():
        above[name] = scores[new.label == 1].mean() - scores[new.label == 0].mean()
    assert above["base"] > .4 > .1 > abs(above["tuned"])


def test_a_saved_folder_is_loaded_by_its_name_and_refused_where_its_weights_are_pickles(encoders, tmp_path):
    saved = tmp_path / "saved"
    encoders[0].save(str(saved), create_model_card=False)
    assert load_model(str(saved), "cpu").kind == "static"
    pickled = saved.with_name("pickled")
    shutil.copytree(saved, pickled)
    for path in list(pickled.rglob("*.safetensors")):
        path.rename(path.with_suffix(".bin"))
    with pytest.raises(EncoderError, match="pickles"):
        load_model(str(pickled))
    with pytest.raises(EncoderError, match="no such folder"):
        load_model("./nowhere")


def test_scores_are_rounded_to_what_float32_holds():
    assert round_scores(torch.tensor([.123456789]), "cosine") == [.123457]
    assert round_scores(torch.tensor([1234.56789]), "dot") == [1234.57]


PAIRS = pd.DataFrame({
    "left": ["kettle of things", "kettle of things", "lamp of things", "kettle of things"],
    "right": ["kettle of things", "lamp of things", "kettle", "things of kettle"],
})


def test_a_text_and_itself_score_one_and_so_do_its_words_in_another_order(scorers):
    scores = pair_scores(scorers, PAIRS.left.tolist(), PAIRS.right.tolist())
    assert all(of_model[0] == of_model[3] == 1 > of_model[1] for of_model in scores.values())


class Corpus:
    corpus = ["kettle of things", "lamp of things", "lamp", "table"]
    frame = pd.DataFrame({"query": [0, 1, 1], "left": ["kettle of things", "lamp", "lamp"], "document": [0, 1, 2],
                          "label": 1})


def test_a_text_that_is_the_query_itself_is_found_first(scorers):
    levels = search_corpus(scorers, Corpus, first={"tuned": 2})
    assert levels["base"].n_better[0] == 0 and levels["tuned"].n_better[0] == 0
    assert levels["base"].first is None and levels["tuned"].first.shape == (2, 2)


def test_a_mixture_is_one_of_the_two_models_at_either_end(scorers):
    mixes = {f"{share:g}": mixed_scorer(*scorers.values(), share) for share in (0, .5, 1)}
    scores = pair_scores({**scorers, **mixes}, PAIRS.left.tolist(), PAIRS.right.tolist())
    assert np.allclose(scores["base"], scores["0"]) and np.allclose(scores["tuned"], scores["1"])
    assert not np.allclose(scores["base"], scores["0.5"])
