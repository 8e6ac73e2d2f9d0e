"`diagnose`: what it says of planted worlds, of models that do not fit each other, and of texts that are no words."
import copy
import json
import re
import shutil
import subprocess
import sys
import tracemalloc

import made
import numpy as np
import pandas as pd
import pytest
import torch
from planted_case import WORLD, alarms, planted_case
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer, WordEmbeddings
from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer
from typer.testing import CliRunner

from debias_nb import encoders, interventions
from debias_nb.config import WorldConfig
from debias_nb.data.registry import DataError
from debias_nb.data.worlds import STRONG, Catalogue
from debias_nb.encoders import EncoderError, as_tokens, embed, tokenise
from debias_nb.explain import diagnose as diagnosing, evidence
from debias_nb.explain.changes import (
    HARM, NEITHER, Measured as OfMetric, Test as Measured, average_precision, difference, figures, sampling_units, score_table,
    verdicts,
)
from debias_nb.explain.compare import compare, origin_of
from debias_nb.explain.diagnose import NO_HARM, diagnose, read_condition, snippet
from debias_nb.explain.models import cutting, load_model, mixed_scorer, pair_scores
from debias_nb.explain.pairs_file import PairFile, named_tests, read_pairs_file
from debias_nb.explain.words import WORD, _stretches, is_unspaced, replaced, word_importance, word_owners, words_of
from debias_nb.interventions import intervene
from debias_nb.repro.cli import app

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "table": made.table(folder / "a"),
        "other table": made.table(folder / "b", seed=1),
        "bert": made.bert(folder / "c"),
        "other bert": made.bert(folder / "d", seed=1),
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    for i, name in enumerate(("train", "iid", "new")):
        pairs = made.some_pairs(seed=i).assign(brand=["x", "<b>y</b>"] * 60)
        pairs.to_csv(folder / f"{name}.csv", index=False)
    return folder


def found_with(folders, files, base, tuned, **options):
    train = str(files / "train.csv")
    tests = {name: str(files / f"{name}.csv") for name in ("iid", "new")}
    return diagnose(str(folders[base]), str(folders[tuned]), train, tests, progress=False, **options)


def pair_file(name, left, right, labels):
    frame = pd.DataFrame({"left": left, "right": right, "label": labels, "line": range(len(labels))})
    return PairFile(name, frame, "")


@pytest.fixture(scope="module")
def tables(folders, files):
    return found_with(folders, files, "table", "other table", group="brand")


# ---------------------------------------------------------------- planted worlds


def test_brands_of_the_strong_world_are_named():
    strong = dict(p=1., brand_match=.6, decoys=1., train_pairs=1500, broad_pairs=8000)
    world = WorldConfig(**(STRONG | WORLD | strong))
    found = planted_case(world, 300, 0, ["iid", "uncoupled"], epochs=8)
    brands = set(Catalogue(world).brands)
    assert found.words["gained"].word.isin(brands).mean() > .8
    assert not found.words["lost"].word.isin(brands).any()
    verdict = dict(zip(found.verdicts.test, found.verdicts.verdict))
    assert verdict["uncoupled"] == HARM
    assert verdict["iid"] != HARM
    assert found.shortcuts.set_index("test").shortcut.to_dict() == {"iid": False, "uncoupled": True}
    assert len(found.reasons) == 1
    assert found.reasons[0].startswith("uncoupled: words that gained importance")


def test_a_gain_on_every_split_is_called_one():
    "A base encoder that knows half of the synonyms, on the mild world."
    world = WorldConfig(
        types=30, unseen_types=15, train_pairs=1500, broad_pairs=8000, queries=200, items=400, known=.5, aknown=.5,
        accessories=0.,
    )
    found = planted_case(world, 300, 0, ["iid", "uncoupled"], epochs=3)
    assert found.verdicts.verdict.tolist() == ["gain", "gain"]
    assert not alarms(found)


def test_nothing_is_found_where_there_is_nothing():
    "Two of the twenty worlds of planted_case.py."
    for seed in range(2):
        assert not alarms(planted_case(WorldConfig(seed=seed, **WORLD), 100, seed, ["iid"]))


def test_the_same_model_twice_is_refused(folders, files):
    for name in ("table", "bert"):
        with pytest.raises(EncoderError, match=f"base .*{name}.* and tuned .*{name}.* are the same model"):
            found_with(folders, files, name, name)

# ---------------------------------------------------------------- numbers


def test_noise_is_called_noise_and_harm_harm():
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 4 == 0
    names = [f"text {i}" for i in range(1200)]
    file = pair_file("t", names[:600], names[600:], labels.astype(int))
    strong = 2 * labels + rng.normal(size=600)
    same = 2 * labels + rng.normal(size=600)
    weak = .3 * labels + rng.normal(size=600)
    assert verdicts([Measured("t", file, {"base": strong, "tuned": same})]).verdict[0] == NEITHER
    assert verdicts([Measured("t", file, {"base": strong, "tuned": weak})]).verdict[0] == HARM


@pytest.mark.parametrize("kind", ["table", "bert"])
def test_pairs_that_float32_cannot_tell_apart_have_one_score(folders, kind):
    texts = made.some_pairs(300).left.tolist()
    both = {name: load_model(str(folders[name])) for name in (kind, f"other {kind}")}
    for scores in pair_scores(both, texts, texts).values():
        assert scores.dtype == float
        assert set(scores) == {1.}


@pytest.mark.parametrize("at_once", [1, 2_500, 20_000])
def test_average_precision_in_pieces_is_the_same_to_the_last_bit(monkeypatch, at_once):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=500)
    labels = rng.integers(0, 2, 500)
    weights = rng.integers(0, 3, (201, 500), dtype=np.uint8)
    whole = average_precision(labels, scores, weights)
    monkeypatch.setattr("debias_nb.explain.changes.AT_ONCE", at_once)
    assert np.array_equal(average_precision(labels, scores, weights), whole)
    assert np.allclose(average_precision(labels, scores, weights[:1]), whole[:1], rtol=1e-12)


def test_average_precision_takes_no_more_memory_for_more_resamples():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=20_000)
    labels = rng.integers(0, 2, 20_000)
    weights = np.ones((600, 20_000), np.uint8)
    tracemalloc.start()
    average_precision(labels, scores, weights)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 80e6, "all resamples at once took more than 400 MB"


def test_pairs_that_share_a_text_are_drawn_together():
    left = [f"q{i // 10}" for i in range(400)]
    right = [f"d{i}" for i in range(400)]
    test = Measured("t", pair_file("t", left, right, [0, 1] * 200), {})
    assert test.units.told.startswith("40 groups")
    assert (test.weights.reshape(-1, 40, 10).std(2) == 0).all()
    alone = sampling_units([f"q{i}" for i in range(50)], [f"d{i}" for i in range(50)])
    assert alone.told == "50 pairs"


def importance_by_hand(model, tokens, words):
    "How far the vector of a text turns when the tokens of a word are masked, as shares."
    whole = embed(model, tokens)[0]
    turned = []
    for places in words:
        chosen = torch.zeros_like(tokens.mask)
        chosen[0, places] = True
        without = embed(model, intervene(model, tokens, chosen))[0]
        turned.append(max(0., 1 - float(whole @ without)))
    return np.array(turned) / sum(turned)


@pytest.mark.parametrize("kind", ["bert", "table"])
def test_importance_of_a_word_is_what_its_absence_does(folders, kind):
    scorer = load_model(str(folders[kind]))
    text = "Old kettles, for the table!" # kettles is two tokens, the marks are no words
    shares = word_importance(scorer, [text, "lamp"])
    assert len(shares[0]) == len(words_of(text)) == 5
    assert np.isclose(shares[0].sum(), 1)
    tokens = tokenise(scorer.model, [text])
    pieces = tokenise(scorer.model, ["old kettles"]).ordinary.sum() - 1 # tokens of `kettles`
    assert pieces == 2
    places = tokens.ordinary[0].nonzero()[:, 0].tolist()
    words = [places[:1], places[1:3], *([place] for place in places[4:7])] # a comma between
    assert np.allclose(shares[0], importance_by_hand(scorer.model, tokens, words), atol=1e-5)


@pytest.mark.parametrize("word", ["Μαΐου", "πρωτοΰπνι", "İstanbul", "xǰy"])
def test_a_word_whose_letters_fall_apart_stays_one(word):
    text = f"{word} red lamp"
    assert words_of(text) == (word.casefold(), "red", "lamp")
    assert len(WORD.findall(text)) == 3
    assert replaced(text, dict.fromkeys(words_of(word), "old")) == "old red lamp"


@pytest.mark.parametrize("text, words", [
    ("हिन्दी जूते खरीदें", ("हिन्दी", "जूते", "खरीदें")),
    ("বাংলা জুতা", ("বাংলা", "জুতা")),
    ("தமிழ் மொழி", ("தமிழ்", "மொழி")),
    ("ภาษาไทย รองเท้า", ("ภาษาไทย", "รองเท้า")),
    ("می\u200cخواهم کفش", ("می\u200cخواهم", "کفش")),
    ("cafe\u0301 Bru\u0302le\u0301-2", ("café", "brûlé-2")),
    ("\u0301 ❤\ufe0f the kettle's lid.", ("the", "kettle's", "lid")),
])
def test_the_marks_of_a_word_belong_to_it(text, words):
    assert words_of(text) == words
    assert replaced(f"{text} lamp", dict.fromkeys(words, " ")).endswith("lamp")
    assert not words_of(replaced(text, dict.fromkeys(words, " ")))


def test_words_of_plain_latin_texts_are_runs_of_letters_and_digits():
    "As they have always been."
    letters = "".join(map(chr, range(0x20, 0x250)))
    texts = [letters, "The HP-250's 3.5 inch disc, x_1 co-op’s a..b -c", "Größe İstanbul ŒUVRE ǰǆ", "\tÅngström\n№ 5²"]
    for text in texts:
        plain = re.findall(r"\w+(?:[-'’.]\w+)*", text)
        assert WORD.findall(text) == plain
        assert words_of(text) == tuple(word.casefold() for word in plain)


def test_a_script_without_spaces_between_words_is_told(folders, files):
    models = str(folders["bert"]), str(folders["other bert"])
    plain = made.some_pairs()
    chinese = plain.assign(left=[f"我喜欢红色的鞋子 {text}" for text in plain.left], right=[f"帽子 {text}" for text in plain.right])
    said = "Most texts are in a script without spaces between words"
    notes = [diagnose(*models, train, {"new": made.some_pairs(seed=1)}, progress=False).notes for train in (plain, chinese)]
    assert [any(note.startswith(said) for note in each) for each in notes] == [False, True]
    assert not is_unspaced("฿200 हिन्दी Größe")


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_a_table_in_half_precision_has_importance(folders, tmp_path, kind):
    texts = ["old kettle for the table", "lamp"]
    exact = load_model(str(folders["table"]))
    half = made.load(folders["table"]).to(getattr(torch, kind))
    half.save(str(tmp_path / "half"), create_model_card=False)
    saved = load_model(str(tmp_path / "half"))
    for scorer in (load_model(half), saved):
        for shares, right in zip(word_importance(scorer, texts), word_importance(exact, texts)):
            assert np.allclose(shares, right, atol=.01)
    assert next(half.parameters()).dtype == getattr(torch, kind), "a model stays as it is"
    assert next(saved.model.parameters()).dtype == torch.float32


class Reached(Exception):
    "A place that a test wanted to see."


@pytest.mark.parametrize("measure", [word_importance, interventions.importance])
def test_tokens_go_where_the_table_is(folders, monkeypatch, measure):
    def reached(model, tokens):
        assert {column.device.type for column in tokens.columns} == {"meta"}
        raise Reached
    monkeypatch.setattr(encoders, "token_vectors", reached)
    model = made.load(folders["table"])
    model[0].embedding.to("meta")
    if measure is word_importance:
        model = load_model(model)
    with pytest.raises(Reached):
        measure(model, ["red lamp", "table"])


def test_padding_before_a_text_is_none_of_its_words(folders):
    texts = ["old kettle for the table", "red lamp"]
    scorer = load_model(str(folders["bert"]))
    scorer.model.tokenizer.padding_side = "left"
    tokens = tokenise(scorer.model, texts)
    assert not tokens.mask[1, 0], "the short text begins behind padding"
    found = word_importance(scorer, texts)
    for i in range(len(texts)):
        places = tokens.ordinary[i].nonzero() # a token is a word here
        assert np.allclose(found[i], importance_by_hand(scorer.model, tokens[[i]], places), atol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "table"])
def test_importance_does_not_depend_on_the_stretches(folders, monkeypatch, kind):
    texts = ["red lamp", "old kettle for the table " * 5, "lamp", "?", "a chair of the old kettle"]
    scorer = load_model(str(folders[kind]))
    whole = word_importance(scorer, texts)
    monkeypatch.setattr("debias_nb.explain.words.WORDS_AT_ONCE", 10)
    parts = word_importance(scorer, texts)
    assert [len(row) for row in parts] == [2, 25, 1, 0, 6]
    for one, other in zip(whole, parts):
        assert np.allclose(one, other, atol=1e-5, equal_nan=True)


def test_long_texts_are_read_in_shorter_stretches():
    texts = ["red lamp"] * 300 + ["old kettle " * 500] * 40 + ["red lamp"] * 2
    stretches = list(_stretches(texts))
    assert [text for some in stretches for text in some] == texts
    assert len(stretches[0]) == 256, "short texts are read as many at a time as before"
    assert all(len(some) * max(map(len, map(words_of, some))) <= 2**14 for some in stretches)
    assert len(list(_stretches(["lamp " * 20_000] * 2))) == 2


def test_the_sample_of_a_transformer_has_fewer_texts_where_they_are_long():
    rng = np.random.default_rng(0)

    def file_of(words):
        texts = [" ".join(rng.choice(made.WORDS[:10], size=words)) + f" {i}" for i in range(1200)]
        return pair_file("t", texts[:600], texts[600:], [0, 1] * 300)

    def sampled(file, **options):
        return diagnosing.sampled_texts(file, [Measured("t", file, {})], 1000, 0, **options)

    short, long = file_of(9), file_of(299)
    words = diagnosing.SAMPLE_WORDS["transformer"]
    assert sampled(short, words=words) == sampled(short), "10 words a text are within the bound"
    some = sampled(long, words=words)
    assert some and sum(len(words_of(text)) for text in some) <= words
    assert some[0] == sampled(long)[0] and len(some) > 33
    assert len(sampled(long, words=1)) == 2, "one of training and one of the test"


@pytest.mark.parametrize("side", ["left", "right"])
def test_words_are_told_from_tokens_however_they_were_padded_and_cut(folders, side):
    scorer = load_model(made.load(folders["bert"]))
    tokenizer = scorer.model.tokenizer
    texts = ["old kettles, [SEP] for the table", "red lamp"]

    def owners(*columns):
        ids, mask = (torch.tensor(column) for column in columns)
        return [row[row >= 0].tolist() for row in word_owners(scorer, texts, as_tokens(scorer.model, ids, mask))]

    tokenizer.padding_side = side
    whole = tokenizer(texts, padding="max_length", max_length=20)
    assert owners(whole["input_ids"], whole["attention_mask"]) == [[0, 1, 1, 3, 4, 5], [0, 1]]
    bare = tokenizer(texts, padding=True, add_special_tokens=False)
    assert owners(bare["input_ids"], bare["attention_mask"]) == [[0, 1, 1, 3, 4, 5], [0, 1]]
    tokenizer.truncation_side = side
    cut = tokenizer(texts, padding=True, truncation=True, max_length=5)
    first = {"right": [0, 1, 1], "left": [3, 4, 5]}[side]
    assert owners(cut["input_ids"], cut["attention_mask"]) == [first, [0, 1]]
    other = tokenizer(["a chair", "red lamp"], padding=True)
    with pytest.raises(EncoderError, match="cuts texts otherwise than its tokenizer does") as refusal:
        owners(other["input_ids"], other["attention_mask"])
    assert str(refusal.value).startswith(f"{scorer.name}: "), "of two encoders it says which"


def test_scores_do_not_depend_on_the_stretches(folders, monkeypatch):
    scorers = {"base": load_model(str(folders["bert"])), "tuned": load_model(str(folders["other bert"]))}
    pairs = made.some_pairs(30)
    whole = pair_scores(scorers, pairs.left.tolist(), pairs.right.tolist())
    monkeypatch.setattr("debias_nb.explain.models.CHUNK", 7)
    parts = pair_scores(scorers, pairs.left.tolist(), pairs.right.tolist())
    assert all(np.allclose(whole[name], parts[name], atol=1e-6) for name in scorers)
    assert np.allclose(whole["base"][pairs.label == 1], 1, atol=1e-5)
    assert not np.allclose(whole["base"], whole["tuned"])


@pytest.fixture
def prompted(folders):
    "A scorer whose model has a prompt of its own, which a test sets."
    scorer = load_model(str(folders["bert"]))
    yield scorer
    scorer.model.prompts = {}
    scorer.model.default_prompt_name = None


def test_a_prompt_is_read_and_is_no_word(prompted):
    before = pair_scores({"base": prompted}, ["red lamp"], ["old table"])["base"]
    prompted.model.prompts = {"query": "what why "}
    prompted.model.default_prompt_name = "query"
    after = pair_scores({"base": prompted}, ["red lamp"], ["old table"])["base"]
    left, right = prompted.model.encode(["red lamp", "old table"])
    cosine = left @ right / np.linalg.norm(left) / np.linalg.norm(right)
    assert np.isclose(after, cosine, atol=1e-5)
    assert not np.isclose(before, after, atol=1e-4)
    assert len(word_importance(prompted, ["red lamp"])[0]) == 2


def test_a_prompt_that_pooling_leaves_out_is_left_out(prompted):
    model = prompted.model
    model.prompts = {"query": "what why "}
    model.default_prompt_name = "query"
    model.set_pooling_include_prompt(False)
    score = pair_scores({"base": prompted}, ["red lamp"], ["old table"])["base"]
    left, right = model.encode(["red lamp", "old table"], normalize_embeddings=True)
    assert np.isclose(score, left @ right, atol=1e-5)
    *without, whole = model.encode(["[MASK] lamp", "red [MASK]", "red lamp"], normalize_embeddings=True)
    expected = np.array([1 - one @ whole for one in without])
    assert np.allclose(word_importance(prompted, ["red lamp"])[0], expected / expected.sum(), atol=1e-4)


def test_flaws_are_counted():
    train = pair_file("train", ["a", "B", "a", "c"], ["b", "a", "b ", "d"], [1, 1, 0, 0])
    other = [f"x{i}" for i in range(8)]
    new = pair_file("new", ["a", "c", "c", "x", *other], ["b", "d", "e", "y", *other], [1, 1, 0, 0] + 4 * [0, 1])
    scores = {"base": np.linspace(.5, .8, 12), "tuned": np.linspace(.8, .5, 12)}
    test = Measured("new", new, scores)
    trained = {"base": np.array([.5, .6, .7, .8]), "tuned": np.array([.8, .7, .6, .5])}
    found = evidence.flaws(train, [test], trained).set_index(["file", "what"])["count"]
    assert found["train", "repeated pairs"] == 2
    assert found["train", "pairs with both labels"] == 3
    assert found["new", "pairs of the training file"] == 2
    assert found["new", "pairs with a text of the training file"] == 3
    assert found["new", "pairs of the training file with another label there"] == 2


def test_pairs_of_the_training_file_are_told_beside_the_verdict(folders):
    models = str(folders["table"]), str(folders["other table"])
    train = made.some_pairs()
    new = made.some_pairs(seed=1)
    half = pd.concat([train.head(30), new])
    found = diagnose(*models, train, {"half": half, "new": new}, progress=False)
    shared = new.merge(train, on=["left", "right"])
    assert shared.empty
    said = "half: 30 of 150 pairs stand in the training file too, and say nothing of new data."
    assert said in found.warnings and said in found.html()
    assert repr(found).startswith(said), "before the verdict"


def test_a_small_test_says_that_its_intervals_are_short(tables):
    iid, new = tables.warnings
    assert iid.startswith("iid: 120 pairs are few. With fewer than 300 the 95 % interval is too short")
    assert repr(tables).startswith(f"{iid}\n{new}\niid: ")
    assert tables.html().index(new) < tables.html().index(tables.sentences[0])
    assert json.loads(tables.json())["warnings"] == [iid, new]
    assert not diagnosing.doubts("t", shared=0, pairs=300)


def test_a_model_that_gives_all_pairs_one_score_is_told(folders, files):
    dead = made.load(folders["table"])
    with torch.no_grad():
        dead[0].embedding.weight.zero_()
    tests = {"new": str(files / "new.csv")}
    found = diagnose(str(folders["table"]), dead, str(files / "train.csv"), tests, progress=False)
    said = "new: the tuned model gives all pairs the same score."
    assert repr(found).startswith(said) and said in found.html()
    assert not any("base model" in text for text in found.warnings)


# ---------------------------------------------------------------- models


def test_models_of_different_make_are_compared_without_mixing(folders, files):
    found = found_with(folders, files, "table", "bert")
    said, *_ = found.warnings
    assert said.startswith("Is the base the model that was fine-tuned?")
    assert repr(found).startswith(said) and said in found.html()
    assert any("different make" in note for note in found.notes)
    assert any("different tokens" in note for note in found.notes)
    assert not [name for name in found.scores.scorer if name.startswith("WiSE")]
    assert len(found.words["gained"])
    assert "wise_ft" not in found.snippet


def test_models_that_are_mixed_have_the_settings_of_the_tuned_one_as_a_note_says(folders, files):
    base, tuned = (made.load(folders[name]) for name in ("bert", "other bert"))
    tests = {"new": str(files / "new.csv")}

    def said():
        notes = diagnose(base, tuned, str(files / "train.csv"), tests, progress=False).notes
        assert not any("different tokens" in note for note in notes), "they share their tokenizer"
        return any("models between them have those of the tuned one" in note for note in notes)

    assert not said()
    tuned.max_seq_length = 6
    assert said()


def test_cross_encoders_are_compared_without_words(folders, files, tmp_path):
    from sentence_transformers import CrossEncoder
    from transformers import BertForSequenceClassification
    made_of = {}
    for name in ("bert", "other bert"):
        BertForSequenceClassification.from_pretrained(folders[name], num_labels=1).save_pretrained(tmp_path / "raw")
        load_model(str(folders[name])).model.tokenizer.save_pretrained(tmp_path / "raw")
        CrossEncoder(str(tmp_path / "raw"), device="cpu").save_pretrained(str(tmp_path / name))
        made_of[name] = tmp_path / name
    found = found_with(made_of, files, "bert", "other bert")
    assert not found.words
    reader = CrossEncoder(str(made_of["bert"]), device="cpu").train()
    scores = [pair_scores({"it": load_model(reader)}, ["red lamp"], ["old table"])["it"] for _ in range(2)]
    assert reader.training and scores[0] == scores[1]
    assert any("Cross-encoders" in note for note in found.notes)
    mixed = {"WiSE-FT 0.25", "WiSE-FT 0.5", "WiSE-FT 0.75"}
    assert set(found.scores.scorer) - mixed == {"base", "tuned", "word overlap", "TF-IDF"}
    assert "WiSE-FT 0.5" in set(found.scores.scorer)
    assert "Left out, see 9." in found.html()
    assert json.loads(found.json())["words"] == {}
    with pytest.raises(EncoderError, match="one is a cross-encoder, one is not"):
        diagnose(str(made_of["bert"]), str(folders["bert"]), made.some_pairs(), {"new": made.some_pairs()}, progress=False)


def test_words_in_a_chat_template_are_left_out_and_a_note_says_so(folders, files, tmp_path):
    template = "{% for m in messages %}why {{ m['content'] }} [SEP] {% endfor %}"
    models = {}
    for name in ("bert", "other bert"):
        shutil.copytree(folders[name], tmp_path / name)
        tokenizer = load_model(str(folders[name])).model.tokenizer
        tokenizer.chat_template = template
        tokenizer.save_pretrained(tmp_path / name)
        models[name] = tmp_path / f"{name} in a template"
        parts = [Transformer(str(tmp_path / name)), Pooling(32)]
        SentenceTransformer(modules=parts, device="cpu").save_pretrained(str(models[name]))
    found = found_with(models, files, "bert", "other bert")
    assert not found.words and found.sentences
    assert any("chat template" in note for note in found.notes)
    assert not any("All tokens of a word" in note for note in found.notes)


def test_folders_that_are_not_safe_are_refused(folders, tmp_path):
    pickled = tmp_path / "pickled"
    shutil.copytree(folders["bert"], pickled)
    for path in pickled.rglob("*.safetensors"):
        path.rename(path.with_name("pytorch_model.bin"))
    with pytest.raises(EncoderError, match="pickles"):
        load_model(str(pickled))
    foreign = tmp_path / "foreign"
    shutil.copytree(folders["bert"], foreign)
    config = foreign / "config.json"
    with_code = json.loads(config.read_text()) | {"auto_map": {"AutoModel": "x.Y"}}
    config.write_text(json.dumps(with_code))
    with pytest.raises(EncoderError, match="auto_map names code"):
        load_model(str(foreign))
    with pytest.raises(EncoderError, match="no such folder"):
        load_model("./nowhere")
    with pytest.raises(EncoderError, match="9: File name too long"):
        load_model("9" * 300)
    with pytest.raises(EncoderError, match="a SentenceTransformer, a CrossEncoder or a folder"):
        load_model(torch.nn.Linear(2, 2))


def test_a_model_that_reads_texts_in_several_ways_is_refused_with_a_way_out(folders, files, tmp_path):
    ways = [list(made.load(folders[name])) for name in ("bert", "other bert")]
    router = SentenceTransformer(modules=[Router.for_query_document(*ways), Normalize()], device="cpu")
    router.save(str(tmp_path / "router"), create_model_card=False)
    for model in (router, str(tmp_path / "router")):
        with pytest.raises(EncoderError, match="reads texts in several ways, .* use one alone") as e:
            compare(model, str(files / "train.csv"), {"new": str(files / "new.csv")}, progress=False)
        with pytest.raises(EncoderError, match="use one alone"):
            diagnose(model, model, str(files / "train.csv"), {"new": str(files / "new.csv")}, progress=False)
    assert str(tmp_path / "router") in str(e.value), "the model is named"
    program = str(e.value).partition("use one alone, ")[2]
    model = router
    alone = eval(program, {"model": model, "SentenceTransformer": SentenceTransformer})
    expected = router.encode_query(["red lamp"])
    assert np.allclose(alone.encode(["red lamp"]), expected, atol=1e-6)
    assert load_model(alone).kind == "transformer"


def test_a_tokenizer_of_an_unknown_kind_is_refused(files):
    tokenizer = WhitespaceTokenizer(vocab=made.WORDS, stop_words=set())
    vectors = np.random.default_rng(0).normal(size=(len(made.WORDS), 8)).astype("float32")
    modules = [WordEmbeddings(tokenizer, vectors), Pooling(8)]
    glove = SentenceTransformer(modules=modules, device="cpu")
    with pytest.raises(EncoderError, match="WordEmbeddings is a WhitespaceTokenizer, and that of a transformer is needed"):
        diagnose(glove, glove, str(files / "train.csv"), {"new": str(files / "new.csv")}, progress=False)


def test_prompts_that_are_not_used_are_told(folders, files):
    prompts = {"query": "what why ", "document": "how ", "title": ""}
    base, tuned = (SentenceTransformer(str(folders[name]), device="cpu", prompts=prompts) for name in ("bert", "other bert"))
    tests = {"new": str(files / "new.csv")}
    said = "Prompts were not used, and texts are read without them: query, document."
    assert said in diagnose(base, tuned, str(files / "train.csv"), tests, progress=False).notes
    found = compare(
        base, str(files / "train.csv"), tests, methods="base,plain", seeds=2, epochs=.1, progress=False)
    assert said in found.html()
    base.default_prompt_name = "query"
    assert load_model(base).unused_prompts == ["document"]


def test_mixed_weights_are_the_mean(folders):
    base = load_model(str(folders["table"]))
    tuned = load_model(str(folders["other table"]))
    half = mixed_scorer(base, tuned, .5).model[0].embedding.weight
    mean = (base.model[0].embedding.weight + tuned.model[0].embedding.weight) / 2
    assert torch.allclose(half, mean, atol=1e-6)
    with pytest.raises(ValueError, match="share must lie in"):
        mixed_scorer(base, tuned, 1.5)
    with pytest.raises(ValueError, match="different make"):
        mixed_scorer(base, load_model(str(folders["bert"])), .5)


# ---------------------------------------------------------------- page


def test_the_page_needs_nothing_and_escapes_all(folders, tmp_path):
    wicked = '<script>alert("x")</script> {{ 7 * 7 }} lamp'
    train = made.some_pairs()
    test = made.some_pairs(seed=1).assign(brand=['"><img src=x>', "b"] * 60)
    test["left"] = [f"{wicked} {text}" for text in test.left]
    models = str(folders["table"]), str(folders["other table"])
    found = diagnose(*models, train, {"<i>new</i>": test}, group="brand", progress=False)
    page = found.html()
    made.read_page(page)
    assert "{{ 7 * 7 }}" in page
    assert "alert" in page
    assert "<i>" not in page
    assert "width=device-width" in page
    assert "prefers-color-scheme: dark" in page


def test_the_page_has_nine_parts(tables):
    page = tables.html()
    assert [int(number) for number in re.findall(r"<h2>(\d)\.", page)] == list(range(1, 10))
    for table in re.findall(r"(.{30})<table>", page, flags=re.S):
        assert '<div class="scroll">' in table
    assert "&lt;b&gt;y&lt;/b&gt;" in page
    assert "brand" in set(tables.slices.kind)


def test_the_twin_has_the_same_numbers(tables):
    twin = json.loads(tables.json())
    page = tables.html()
    for row in tables.verdicts.itertuples():
        assert twin["tests"][row.test]["change"]["value"] == pytest.approx(row.change, abs=1e-6)
        assert f"{100 * row.tuned:.1f}" in page
    parts = {"warnings", "sentences", "tests", "scores", "words", "slices", "interventions", "data", "flips", "next"}
    assert set(twin) == parts | {"notes", "facts", "made by"}
    assert twin["facts"]["models"]["base"]["fingerprint"] != twin["facts"]["models"]["tuned"]["fingerprint"]


@pytest.fixture(scope="module")
def snippet_folder(tables, tmp_path_factory):
    "Where the snippet was run as it stands."
    folder = tmp_path_factory.mktemp("snippet")
    done = subprocess.run([sys.executable, "-c", tables.snippet], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def saved_models(folder, pattern):
    return [path for path in folder.glob(pattern) if (path / "modules.json").is_file()]


def test_the_same_question_has_the_same_answer(tables, folders, files):
    assert found_with(folders, files, "table", "other table", group="brand").json() == tables.json()


def test_the_snippet_runs_and_saves_what_it_trains(snippet_folder):
    assert saved_models(snippet_folder, "*-outreg/model")


def test_the_snippet_says_where_nothing_has_to_be_mended(tables):
    assert (NO_HARM in tables.snippet) == (not (tables.verdicts.verdict == "harm").any())
    models = {key: load_model(made.without_a_vector_for_the_unknown()) for key in ("base", "tuned")}
    pairs = pd.DataFrame({"left": ["a", "b"], "right": ["b", "c"], "label": [0, 1]})
    file = read_pairs_file(pairs, name="train.csv")
    harmed = snippet(models, file, None, True)
    unharmed = snippet(models, file, None, False)
    assert unharmed == f"{NO_HARM}\n{harmed}"
    assert "num_train_epochs=5" in harmed


def test_what_is_in_memory_has_no_name_in_program_and_command(folders, files):
    base, tuned = (made.load(folders[name]) for name in ("table", "other table"))
    found = diagnose(base, tuned, made.some_pairs(), {"new": made.some_pairs(seed=1)}, progress=False)
    assert "base = ... # the encoder before fine-tuning\ntuned = ... # the encoder after fine-tuning\n" in found.snippet
    assert "model = ... # the encoder before fine-tuning\n" in found.snippet
    assert "pairs = read_pairs_file(frame, columns=" in found.snippet
    assert "in memory" not in found.snippet and ".csv" not in found.snippet
    assert found.facts["command"] is None and "debias-nb diagnose" not in found.html()
    compile(found.snippet, "program", "exec")
    saved = diagnose(
        str(folders["table"]), tuned, str(files / "train.csv"), {"new": str(files / "new.csv")}, progress=False)
    assert f"base = load_model({str(folders['table'])!r}).model\ntuned = ... #" in saved.snippet
    assert saved.facts["command"] is None


@pytest.mark.parametrize("kind", ["table", "bert"])
def test_models_in_memory_stay_in_their_mode(folders, kind):
    base, tuned = (made.load(folders[name]).train() for name in (kind, f"other {kind}"))
    tuned[0].eval()
    before = [part.training for part in tuned.modules()]
    found = diagnose(base, tuned, made.some_pairs(), {"new": made.some_pairs(seed=1)}, progress=False)
    assert all(part.training for part in base.modules())
    assert [part.training for part in tuned.modules()] == before
    base.eval(), tuned.eval()
    again = diagnose(base, tuned, made.some_pairs(), {"new": made.some_pairs(seed=1)}, progress=False)
    assert again.json() == found.json(), "no dropout while scores are computed"


def test_the_part_of_the_snippet_that_mixes_saves_the_mixture(snippet_folder):
    assert saved_models(snippet_folder, "*-0.*")


# ---------------------------------------------------------------- command line


def asked(**given): # option -> value, or several; no option for None
    "Arguments of `debias-nb diagnose`."
    words = ["diagnose"]
    for name, values in given.items():
        for value in values if isinstance(values, list) else [values]:
            words += [f"--{name.replace('_', '-')}"] + ([str(value)] if value is not True else [])
    return CliRunner().invoke(app, words)


def test_the_command_writes_both_files(folders, files, tmp_path):
    arguments = dict(
        base=folders["table"], tuned=folders["other table"], train=files / "train.csv", test=[f"new={files / 'new.csv'}"],
        html=tmp_path / "r.html", json=tmp_path / "r.json")
    done = asked(fail_if=["new.change.high<-100"], **arguments)
    assert done.exit_code == 0 and done.stdout.startswith("new: ")
    done = asked(fail_if=["new.base.auc05>=0"], overwrite=True, **arguments)
    assert done.exit_code == 1 and done.stdout.splitlines()[-1] == "it holds that new.base.auc05>=0"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.html", "r.json"]
    made.read_page((tmp_path / "r.html").read_text("utf-8"))
    before = (tmp_path / "r.html").read_bytes()
    done = asked(**arguments | {"base": "./none"})
    assert done.exit_code == 2 and "r.html: the file exists; remove it" in done.stderr
    assert (tmp_path / "r.html").read_bytes() == before


WRONG = { # options, words of the message
    "test": (dict(test=["new.csv"]), "--test", "'new.csv'"),
    "twice": (dict(test=["a=x.csv", "a=y.csv"]), "--test a"),
    "condition": (dict(fail_if=["new.change"]), "--fail-if", "'new.change'"),
    "no test": (dict(fail_if=["nwe.change.high<0"]), "--fail-if", "'nwe'", "'new'"),
    "figure": (dict(fail_if=["new.change.hgih<0"]), "--fail-if", "'change.hgih'", "'change.high'"),
    "folder": (dict(html="nowhere/r.html"), "nowhere"),
    "a folder": (dict(html="."), "--html"),
    "columns": (dict(columns="left,right"), "columns"),
    "train": (dict(test=["train=new.csv"]), "'train'"),
}


@pytest.mark.parametrize("change, words", [(change, words) for change, *words in WRONG.values()], ids=WRONG)
def test_the_command_refuses_what_cannot_be(files, monkeypatch, change, words):
    monkeypatch.chdir(files)
    done = asked(**dict(base="./none", tuned="./none", train="train.csv", test=["new=new.csv"]) | change)
    assert done.exit_code == 2 and all(word in done.stderr for word in words), done.stderr


def test_conditions_and_names_of_tests_are_read():
    assert read_condition("a.b.change.high <= -0.5", ["a", "a.b"]) == ("a.b", "change.high", "<=", -.5)
    assert named_tests(["a=b=c.csv"]) == {"a": "b=c.csv"}


def test_a_condition_is_in_the_points_that_are_printed(tables):
    row = tables.verdicts.set_index("test").loc["new"]
    for figure, value in (("change.value", row.change), ("change.low", row.low), ("tuned.ap", row["tuned ap"])):
        assert tables.holds(f"new.{figure}>{100 * value - .1:f}")
        assert not tables.holds(f"new.{figure}>{100 * value + .1:f}")
    assert tables.holds(f"new.change.p<={row.p}")
    assert not tables.holds("new.change.p>1")


def test_a_test_that_is_too_small_is_refused_before_a_model_is_loaded(folders, monkeypatch):
    monkeypatch.setattr(diagnosing, "_loaded", lambda *models: pytest.fail("a model was loaded"))
    two = pd.DataFrame({"left": ["red", "old"], "right": ["lamp", "table"], "label": [0, 1]})
    with pytest.raises(DataError, match="new: 2 pairs are too few to draw an interval from"):
        diagnose(str(folders["table"]), str(folders["other table"]), made.some_pairs(), {"new": two}, progress=False)
    one_match = made.some_pairs().head(40).assign(label=[1] + 39 * [0])
    with pytest.raises(DataError, match="too small for an interval"):
        diagnose(str(folders["table"]), str(folders["other table"]), made.some_pairs(), {"new": one_match}, progress=False)


def test_training_texts_without_a_word_are_refused_before_a_model_is_loaded(monkeypatch):
    monkeypatch.setattr(diagnosing, "_loaded", lambda *models: pytest.fail("a model was loaded"))
    pairs = made.some_pairs()
    smiling = pairs.assign(left=["😀" * (i % 7 + 1) for i in range(120)], right=["🎉 !"] * 120)
    with pytest.raises(DataError, match="train: no text has a word"):
        diagnose("base", "tuned", smiling, {"new": pairs}, progress=False)


def queries(number, seed):
    "A test with some queries of forty answers each, and the scores of two models that are equally good."
    rng = np.random.default_rng(seed)
    query = np.arange(number).repeat(40)
    labels = np.tile([1] * 10 + [0] * 30, number)
    pairs = pair_file("t", [f"query {i}" for i in query], [f"answer {i}" for i in range(len(query))], labels)
    scores = {}
    for model in ("base", "tuned"):
        of_query = rng.normal(1.5, 1, number)[query]
        scores[model] = labels * of_query + rng.normal(size=len(query))
    return Measured("t", pairs, scores)


def test_few_queries_make_no_verdict():
    "Drawn from few units an interval is too short: equally good models would be told apart far too often."
    with pytest.raises(DataError, match="t: 5 left texts are too few to draw an interval from; 10 are needed"):
        queries(5, 0)
    wrong = [verdicts([queries(10, seed)]).p[0] < .05 for seed in range(60)]
    assert sum(wrong) <= 12


def test_models_with_other_layers_are_not_the_same(folders, files):
    mean = SentenceTransformer(str(folders["bert"]), device="cpu")
    first = copy.deepcopy(mean)
    first[1] = Pooling(32, pooling_mode="cls")
    assert origin_of(load_model(mean)) != origin_of(load_model(first)), "a trial of one is none of the other"
    assert origin_of(load_model(mean)) == origin_of(load_model(copy.deepcopy(mean)))
    bare = copy.deepcopy(mean)
    bare[0].processing_kwargs = {"text": {"add_special_tokens": False}}
    assert cutting(load_model(bare)) != cutting(load_model(mean)), "they do not share the tokens of a text"
    assert origin_of(load_model(bare)) != origin_of(load_model(mean))
    calm = copy.deepcopy(mean)
    calm[0].auto_model.config.hidden_dropout_prob = 0.
    assert origin_of(load_model(calm)) != origin_of(load_model(mean))
    tests = {"new": str(files / "new.csv")}
    assert diagnose(mean, first, str(files / "train.csv"), tests, progress=False).verdicts.test.tolist() == ["new"]
    with pytest.raises(EncoderError, match="are the same model"):
        diagnose(mean, copy.deepcopy(mean), str(files / "train.csv"), tests, progress=False)


def test_a_model_that_diverged_is_named(folders, files):
    broken = SentenceTransformer(str(folders["table"]), device="cpu")
    with torch.no_grad():
        broken[0].embedding.weight.fill_(torch.nan)
    with pytest.raises(EncoderError, match="tuned: 120 of 120 scores are not finite; its training diverged"):
        diagnose(str(folders["table"]), broken, str(files / "train.csv"), {"new": str(files / "new.csv")}, progress=False)


def test_the_command_says_the_seed(folders, files):
    found = found_with(folders, files, "table", "other table", seed=3)
    assert "--seed 3" in found.facts["command"]


def test_the_shell_says_what_is_wrong_and_exits_with_two(files, tmp_path):
    train = str(files / "train.csv")
    options = ["--base", "./none", "--tuned", "./none", "--train", train, "--html", str(tmp_path / "r.html")]
    done = CliRunner().invoke(app, ["diagnose", *options, "--test", f"new={files / 'nwe.csv'}"])
    assert done.exit_code == 2
    assert "nwe.csv: no such file; did you mean 'new.csv'?" in done.output
    done = CliRunner().invoke(app, ["diagnose", *options, "--test", f"new={files / 'new.csv'}"])
    assert done.exit_code == 2
    assert "./none: no such folder" in done.output
    assert not list(tmp_path.iterdir())


HEAD = "left,right,label\n"
GOOD = "a lamp,a table,1\nb,c,0\n"
IN_TWO_ENCODINGS = (HEAD + "größe,b,1\n").encode() + "größe,b,0\n".encode("latin1")
UNUSABLE = { # a file for --test, what is said of it
    "column": ("lft,right,label\n" + GOOD, "no column 'left'; did you mean 'lft'?"),
    "encodings": (IN_TWO_ENCODINGS, "bad.csv:3: not UTF-8"),
}


def check_refused(folder, monkeypatch, command, base, train, message, left):
    "Exit code 2, one sentence, and nothing is written."
    monkeypatch.chdir(folder)
    further = {"diagnose": ["--tuned", base, "--html", "r.html", "--json", "r.json"], "compare": []}
    options = ["--base", base, "--train", str(train), "--test", "new=bad.csv"]
    done = CliRunner().invoke(app, [command, *options, *further[command]])
    assert done.exit_code == 2
    assert message in done.output
    assert len(done.output.splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir()) == left


@pytest.mark.parametrize("command", ["diagnose", "compare"])
@pytest.mark.parametrize("content, message", UNUSABLE.values(), ids=UNUSABLE)
def test_the_shell_refuses_a_file_in_one_sentence(files, tmp_path, monkeypatch, command, content, message):
    (tmp_path / "bad.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    check_refused(tmp_path, monkeypatch, command, "./none", files / "train.csv", message, ["bad.csv"])


TRANSFORMER = '[{"type": "sentence_transformers.models.Transformer", "path": ""}]'
MODELS = { # files of a model's folder, what is said of it
    "pickles": ({"modules.json": TRANSFORMER, "pytorch_model.bin": "x"}, "which are pickles"),
    "foreign": ({"modules.json": '[{"type": "mine.Model", "path": ""}]'}, "mine.Model is code from outside"),
    "remote": ({"config.json": '{"auto_map": {"AutoModel": "x.Y"}}'}, "auto_map names code of the repository"),
}


@pytest.mark.parametrize("command", ["diagnose", "compare"])
@pytest.mark.parametrize("content, message", MODELS.values(), ids=MODELS)
def test_the_shell_refuses_a_model_in_one_sentence(files, tmp_path, monkeypatch, command, content, message):
    (tmp_path / "model").mkdir()
    for name, text in content.items():
        (tmp_path / "model" / name).write_text(text)
    (tmp_path / "bad.csv").write_bytes((files / "new.csv").read_bytes())
    check_refused(tmp_path, monkeypatch, command, "./model", files / "train.csv", message, ["bad.csv", "model"])


def test_the_interval_of_a_change_stays_within_100_points():
    resampled = np.random.default_rng(0).uniform(.4, 1, 200)
    perfect = OfMetric(.9, resampled, 30)
    bad = OfMetric(.1, 1 - resampled, 30)
    for change in (difference(perfect, bad), difference(bad, perfect)):
        assert max(-change.low, change.high) > 1, "as it is computed"
        found = figures(change)
        assert found["low"] == max(-1, change.low)
        assert found["high"] == min(1, change.high)


def test_the_interval_of_a_level_stays_between_0_and_1():
    labels = [1] * 4 + [0] * 60
    file = pair_file("t", [f"q{i}" for i in range(64)], [f"d{i}" for i in range(64)], labels)
    low = np.append([0., 62.1, 0., 0.], np.arange(60.) + 3)
    high = np.append([9.] * 4, np.zeros(60))
    found = score_table([Measured("t", file, {"low": low, "high": high})]).set_index("scorer")
    for metric in ("auc05", "ap"):
        assert (found[f"{metric} low"] >= 0).all()
        assert (found[f"{metric} high"] <= 1).all()
    assert found["auc05 low"]["low"] == 0
