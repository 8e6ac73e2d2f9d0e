"`diagnose`: what it says of planted worlds, of models that do not fit each other, and of texts that are no words."
import copy
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import hypothesis
import made
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import strategies as st
from planted_case import WORLD, alarms, planted_case
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer, WordEmbeddings
from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer
from typer.testing import CliRunner

from debias_nb.checks import ConfigError
from debias_nb.encoders import interventions
from debias_nb.settings import WorldConfig
from debias_nb.data.registry import DataError
from debias_nb.encoders.tokens import EncoderError, as_tokens, embed, tokenize
from debias_nb.diagnosis import diagnose as diagnosing, evidence, models as scoring
from debias_nb.diagnosis.changes import NEW, score_table, sentence, verdicts
from debias_nb.diagnosis.compare import compare
from debias_nb.diagnosis.diagnose import diagnose
from debias_nb.diagnosis.diagnosis import FILES, Diagnosis
from debias_nb.diagnosis.inputs import read_files
from debias_nb.diagnosis.page import tables as by_test
from debias_nb.diagnosis.programs import NO_HARM
from debias_nb.diagnosis.models import cutting, load_model, pair_scores
from debias_nb.diagnosis.scores import thresholds
from debias_nb.diagnosis.test_sets import Measured, as_test, difference, figures, resampled_precision, sampling_units
from debias_nb.diagnosis.trials import origin_of
from debias_nb.diagnosis.pairs import PairFile, read_pairs_file
from debias_nb.measures.rankings import corpus_levels
from debias_nb.measures.stats import holm, interval
from debias_nb.diagnosis.words import WORD, _key, _stretches, replace_words, word_importance, word_owners, word_pairs
from debias_nb.diagnosis.words import words_of
from debias_nb.encoders.interventions import intervene
from debias_nb.commands.cli import app

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "table": str(made.table(folder / "a")),
        "other table": str(made.table(folder / "b", seed=1)),
        "bert": str(made.bert(folder / "c")),
        "other bert": str(made.bert(folder / "d", seed=1)),
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    for i, name in enumerate(("train", "iid", "new")):
        pairs = made.some_pairs(seed=i)
        pairs.to_csv(folder / f"{name}.csv", index=False)
    return folder


def found_with(models, files, base, tuned, tests=("iid", "new"), **options):
    named = {name: str(files / f"{name}.csv") for name in tests}
    return diagnose(models[base], models[tuned], str(files / "train.csv"), named, **options)


def pair_file(name, left, right, labels):
    frame = pd.DataFrame({"left": left, "right": right, "label": np.asarray(labels, int), "line": range(len(labels))})
    return PairFile(name, frame, "")


def distinct(name, labels, scores):
    "A test whose pairs share no text."
    left, right = ([f"{side} {i}" for i in range(len(labels))] for side in ("red", "old"))
    return as_test(name, pair_file(name, left, right, labels), scores)


@pytest.fixture(scope="module")
def tables(folders, files):
    return found_with(folders, files, "table", "other table", seed=3)


# ---------------------------------------------------------------- planted worlds; the strong one is in the notebook


@pytest.mark.slow
def test_nothing_is_found_where_there_is_nothing():
    assert not alarms(planted_case(WorldConfig(seed=0, **WORLD), 100, 0, ["iid"]))


# ---------------------------------------------------------------- numbers


def noise_tests(count):
    rng = np.random.default_rng(1)
    labels = np.arange(300) % 3 == 0
    return [distinct(f"test {i}", labels, {model: 2 * labels + rng.normal(size=300) for model in ("base", "tuned")})
            for i in range(count)]


def test_noise_is_called_noise_and_harm_harm():
    tests = noise_tests(2)
    said = [sentence(rows) for rows in rows_of(tests)]
    assert all(text.count("cannot tell") == 1 and text.count("detectable change (80% power)") == 2 for text in said)
    (harmed,) = noise_tests(1)
    harmed.scores["tuned"] = harmed.scores["tuned"] - 1.7 * harmed.labels
    assert verdicts([harmed]).verdict[0] == "worse"
    (same,) = noise_tests(1)
    same.scores["tuned"] = 2 * same.scores["base"]
    assert sentence_on(same).count("the same for both models in every resample") == 2


def rows_of(tests):
    "The rows of each test."
    table = verdicts(tests)
    return [rows.to_dict("records") for rows in by_test(table).values()]


def sentence_on(test):
    "The verdict on a test that is alone."
    (rows,) = rows_of([test])
    return sentence(rows)


def test_models_without_a_match_at_the_top_are_not_called_alike():
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3 == 0
    middling = distinct("t", labels, {model: np.where(labels, 0, rng.normal(size=300)) for model in ("base", "tuned")})
    said = sentence_on(middling)
    assert "no match is among the pairs that score highest" in said, "matches lie in the middle"


def test_average_precision_has_a_verdict_of_its_own():
    "Where matches are many, it falls while AUC(0.05) does not."
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3 == 0
    base = 1.6 * labels + rng.normal(size=300)
    low = base < np.quantile(base[~labels], .8) # far below what AUC(0.05) looks at
    tuned = base - 3 * (labels & low)
    test = distinct("t", labels, {"base": base, "tuned": tuned})
    (alone,) = rows_of([test])
    assert [row["verdict"] for row in alone] == ["within the margin", "worse"]
    assert sentence(alone).startswith("t: within the margin in AUC(0.05); worse in average precision. AUC(0.05): ")
    test.metric = "ap"
    both = [*noise_tests(1), test]
    found = verdicts(both)
    assert found[found.decides].p.tolist() == pytest.approx(
        holm([verdicts([one]).p[0] for one in both])), "whatever the metric"
    test.metric = "auc05"
    beside = rows_of([test, *noise_tests(4)])[0]
    assert beside[1]["p"] == pytest.approx(min(1, 5 * alone[1]["p"])), "corrected over the tests, as what decides is"


def test_an_interval_without_zero_beside_a_verdict_of_no_change_is_explained():
    first, other = rows_of(noise_tests(5))[0]
    first |= {"low": .004, "high": .093, "p": .068, "verdict": "cannot tell"}
    assert "which leaves out zero, but p = 0.068 when corrected for 5 tests" in sentence([first, other])
    assert "when corrected" not in sentence([first | {"low": -.001}, other])


@pytest.mark.parametrize("gain, named", [(0., True), (2.5, False)])
def test_a_shortcut_is_what_the_tuned_model_alone_is_better_without(monkeypatch, gain, named):
    "gain: of the base when the same words are dropped."
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 4 == 0
    noise = {model: rng.normal(size=600) for model in ("base", "tuned")}
    test = distinct("new", labels, {model: .3 * labels + noise[model] for model in noise})
    now = {"base": (.3 + gain) * labels + noise["base"], "tuned": 2.8 * labels + noise["tuned"]}
    monkeypatch.setattr(evidence, "_rescore", lambda *_: now)
    pairs = word_pairs(test.left, test.right, test.labels)
    (row,) = evidence.shortcuts([test], {"base": None, "tuned": None}, pairs, {"others": ["red"]}).to_dict("records")
    assert row["goes with"] == "others"
    assert row["low"] > 0
    assert row["more"] == pytest.approx(row["change"] - row["base change"])
    assert row["shortcut"] == named == (row["more low"] > 0)


def test_pairs_whose_texts_changed_are_scored_again(monkeypatch):
    test = distinct("new", np.arange(20) < 5, {"base": np.zeros(20), "tuned": np.ones(20)})
    left = ["another text" if place == 3 else text for place, text in enumerate(test.left)]
    monkeypatch.setattr(evidence, "pair_scores",
                        lambda scorers, left, *_: {name: np.full(len(left), 9.) for name in scorers})
    scores = evidence._rescore(test, {"base": None, "tuned": None}, left, test.right, False)
    assert ({name: own.tolist() for name, own in scores.items()}
            == {"base": [0] * 3 + [9] + [0] * 16, "tuned": [1] * 3 + [9] + [1] * 16})


def queries(number, seed):
    "A test with some queries of forty answers each, and the scores of two models that are equally good."
    rng = np.random.default_rng(seed)
    query = np.arange(number).repeat(40)
    labels = np.tile([1] * 10 + [0] * 30, number)
    pairs = pair_file("t", [f"query {i}" for i in query], [f"answer {i}" for i in range(len(query))], labels)
    scores = {model: labels * rng.normal(1.5, 1, number)[query] + rng.normal(size=len(query))
              for model in ("base", "tuned")}
    return as_test("t", pairs, scores)


def test_pairs_that_share_a_text_are_drawn_together_and_few_draws_make_no_verdict():
    "Drawn from few units an interval is too short: equally good models would be told apart far too often."
    test = queries(40, 0)
    assert test.units.description.startswith("40 groups") and (test.all_weights.reshape(-1, 40, 40).std(2) == 0).all()
    assert sampling_units([f"q{i}" for i in range(50)], [f"d{i}" for i in range(50)]).description == "50 pairs"
    with pytest.raises(DataError, match="5 left texts are too few .* 10 are needed"):
        queries(5, 0)
    assert sum(verdicts([queries(10, seed)]).p[0] < .05 for seed in range(60)) <= 12


def test_intervals_stay_where_metrics_can_be():
    resampled = np.random.default_rng(0).uniform(.4, 1, 200)
    perfect, bad = Measured(.9, resampled, 30), Measured(.1, 1 - resampled, 30)
    for change in (difference(perfect, bad), difference(bad, perfect)):
        assert max(-change.low, change.high) > 1, "as it is computed"
        assert figures(change)["low"] == max(-1, change.low) and figures(change)["high"] == min(1, change.high)
    low = np.append([0., 62.1, 0., 0.], np.arange(60.) + 3)
    high = np.append([9.] * 4, np.zeros(60))
    found = score_table([distinct("t", [1] * 4 + [0] * 60, {"low": low, "high": high})])
    assert (found.low >= 0).all() and (found.high <= 1).all() and found.low[0] == 0
    assert found[["scorer", "metric"]].values.tolist() == [[one, of] for one in ("low", "high")
                                                           for of in ("auc05", "ap")]


@pytest.mark.parametrize("at_once", [1, 2_500, 20_000])
def test_average_precision_in_pieces_is_the_same_to_the_last_bit(monkeypatch, at_once):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=500)
    labels = rng.integers(0, 2, 500)
    weights = rng.integers(0, 3, (201, 500), dtype=np.uint8)
    whole = resampled_precision(labels, scores, weights)
    monkeypatch.setattr("debias_nb.measures.metrics.NUMBERS_AT_ONCE", at_once)
    assert np.array_equal(resampled_precision(labels, scores, weights), whole)
    assert np.allclose(resampled_precision(labels, scores, weights[:1]), whole[:1], rtol=1e-12)


def test_flaws_are_counted():
    train = pair_file("train", ["a", "B", "a", "c"], ["b", "a", "b ", "d"], [1, 1, 0, 0])
    other = [f"x{i}" for i in range(8)]
    new = pair_file("new", ["a", "c", "c", "x", *other], ["b", "d", "e", "y", *other], [1, 1, 0, 0] + 4 * [0, 1])
    test = as_test("new", new, {"base": np.linspace(.5, .8, 12), "tuned": np.linspace(.8, .5, 12)})
    found = evidence.flaws(train, [test], np.array([2])).set_index(["file", "what"])["count"]
    assert found["train"][["repeated pairs", "pairs with both labels"]].tolist() == [2, 3]
    assert found["new"][["pairs of the training file", "pairs with a text of the training file",
                         "pairs of the training file with another label there"]].tolist() == [2, 3, 2]
    assert found["train"]["labels that both models find wrong"] == 1
    assert "pairs of the training file" not in evidence.flaws(None, [test], np.empty(0, int)).what.tolist()


SAID = "texts are nearly the same as a match or their left text (except for case and spaces), and count as"
# form -> rows, the last of which copies a match except for case and spaces, what is said, and the texts that match "red
# 0"
COPIES = {
    "pairs": ([{"left": f"red {i}", "right": f"old {i}", "label": i % 2} for i in range(41)]
              + [{"left": "red 1", "right": " Old  1", "label": 0}],
              f"1 {SAID} no match", ["old 1"]),
    "candidates": ([{"anchor": f"red {i}", "positive": f"old {i}", "negative": ["new", " OLD  1"]} for i in range(20)],
                   f"1 {SAID} a match where that is one", ["old 1", " OLD  1"]),
    "retrieval": ([{"anchor": f"red {i}", "positive": f"old {i}"} for i in range(20)]
                  + [{"anchor": "blue", "positive": "OLD  1"}],
                  f"2 {SAID} a match where that is one", ["old 1", "OLD  1"]),
}


@pytest.mark.parametrize("form", COPIES)
def test_copies_of_a_match_are_told_and_count_as_the_match(form):
    rows, said, matches = COPIES[form]
    test = as_test("new", read_files(None, {"new": pd.DataFrame(rows)})["new"])
    frame = test.file.frame
    assert test.file.form == form and frame.right[(frame.left == "red 1") & (frame.label > 0)].tolist() == matches
    scores = np.random.default_rng(0).normal(size=len(frame))
    if form == "retrieval":
        vectors = torch.from_numpy(np.random.default_rng(0).normal(size=(len(test.file.corpus), 8)))
        scores = corpus_levels(vectors, vectors, frame["query"].to_numpy(), frame.document.to_numpy(), test.labels)
    test.scores = {"base": scores, "tuned": scores}
    assert f"new: {said}." in evidence.doubts(test, 0)
    again = read_files(None, {"new": pd.DataFrame(rows[:1] + rows[2:20])})["new"]
    assert form == "candidates" or not again.frame["copy"].any()


def test_texts_of_pairs_without_a_vector_are_counted():
    model, other = made.without_a_vector_for_the_unknown(), made.without_a_vector_for_the_unknown()
    with torch.no_grad():
        other[0].embedding.weight[1:] = torch.tensor([[2., 1], [1., 2]])
    pairs = pd.DataFrame([(f"red shoe {'red ' * i}", f"shoe {'red ' * (i * i % 61)}", i % 2) for i in range(60)],
                         columns=["left", "right", "label"])
    pairs.loc[:4, "right"] = [f"boot{number}" for number in range(5)]
    warnings = diagnose(model, other, tests={"new": pairs}).warnings
    assert [text for text in warnings if "no vector" in text] == ["new: 5 pairs of 60 with a text that has no vector "
                                                                  f"in the {name} model." for name in ("base", "tuned")]


def test_texts_of_a_corpus_without_a_vector_are_counted():
    model = made.without_a_vector_for_the_unknown()
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[0].embedding.weight[1] *= -1
    corpus = {f"d{i}": "red shoe" if i < 40 else f"strange{i}" for i in range(60)}
    test = {"queries": {f"q{i}": f"red {i}" for i in range(20)},
            "corpus": {one: f"{text} {one}" if text == "red shoe" else text for one, text in corpus.items()},
            "relevant_docs": {f"q{i}": [f"d{i}"] for i in range(20)}}
    found = diagnose(model, other, None, {"new": test})
    assert [text for text in found.warnings if "no vector" in text] == [
        f"new: 20 texts of the corpus have no vector in the {name} model." for name in ("base", "tuned")]


def test_settings_that_differ_are_named_on_the_first_screen(folders, files):
    other = SentenceTransformer(folders["other bert"], device="cpu")
    other[1] = Pooling(32, pooling_mode="cls")
    found = found_with(folders | {"it": other}, files, "bert", "it", tests=("new",))
    said = ("The two models differ in settings, and a part of each change may come from that (Pooling, pooling_mode: "
            "'mean' before, 'cls' after).")
    assert found.decision.reason.endswith(said)
    assert said in found.html().partition("<nav")[0].replace("&#39;", "'")
    assert said in repr(found)


def test_the_checks_that_were_made_are_named(tables):
    made_here, said = (tables.facts["checks"], "No warning. Checked: scores that order nothing, or the other way "
                                               "round, texts that are nearly the same as a match, ")
    quiet = replace(tables, warnings=[])
    assert said in quiet.html()
    assert "overlap with training.</li>" in quiet.html()
    assert said not in replace(tables, warnings=["x"]).html()
    alone = diagnose(lambda left, right: range(120), lambda left, right: [3 * i % 7 for i in range(120)],
                     tests={"new": made.some_pairs()})
    assert alone.facts["checks"] == made_here[:2] and len(made_here) == 5
    without = {name: value for name, value in tables.facts.items() if name != "checks"}
    assert "No check of the data" in replace(quiet, facts=without).html(), "of a diagnosis that was kept before"


# ---------------------------------------------------------------- scores and words


@pytest.mark.parametrize("kind", ["table", "bert"])
def test_scores_do_not_depend_on_the_stretches(folders, monkeypatch, kind):
    pairs = made.some_pairs(60)
    left, right = ([f"{text} {i}" for i, text in enumerate(pairs[side])] for side in ("left", "right"))
    whole = {name: load_model(folders[name]) for name in (kind, f"other {kind}")}
    expected = pair_scores(whole, left, right)
    assert not np.allclose(*expected.values())
    monkeypatch.setattr(scoring, "BLOCK", 7)
    monkeypatch.setattr(scoring, "AT_ONCE", 1)
    for name, scores in pair_scores(whole, left, right).items():
        assert np.allclose(scores, expected[name], atol=1e-6)
    for scores in pair_scores(whole, left, left).values(): # float32 cannot tell them apart
        assert scores.dtype == float and set(scores) == {1.}


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


@pytest.mark.parametrize("kind, side", [("table", "right"), ("bert", "right"), ("bert", "left")])
def test_importance_of_a_word_is_what_its_absence_does(folders, kind, side):
    scorer = load_model(folders[kind])
    scorer.model.tokenizer.padding_side = side
    texts = ["Old kettles, for the table!", "red lamp"] # kettles is two tokens, the marks are no words
    tokens = tokenize(scorer.model, texts)
    shares = word_importance(scorer, texts)
    one, other = ([place for (place,) in row.nonzero().tolist()] for row in tokens.ordinary)
    words = [one[:1], one[1:3], *([place] for place in one[4:7])] # a comma between
    assert np.allclose(shares[0], importance_by_hand(scorer.model, tokens[[0]], words), atol=1e-5)
    assert np.allclose(shares[1], importance_by_hand(scorer.model, tokens[[1]], [[place] for place in other]),
                       atol=1e-5)


def test_a_word_that_stands_next_to_itself_alone_has_a_share(folders):
    "Without one of them the text stays what it was: no word is of importance, and none is unknown."
    shares = word_importance(load_model(folders["table"]), ["red red", "lamp lamp", "old Old old", "table"])
    assert [len(row) for row in shares] == [2, 2, 3, 1] and np.isfinite(np.concatenate(shares)).all()


@pytest.mark.parametrize("text, words", [
    ("Μαΐου lamp", ("μαΐου".casefold(), "lamp")), ("İstanbul xǰy", ("İstanbul".casefold(), "xǰy".casefold())),
    ("हिन्दी जूते खरीदें", ("हिन्दी", "जूते", "खरीदें")), ("বাংলা জুতা", ("বাংলা", "জুতা")),
    ("தமிழ் மொழி", ("தமிழ்", "மொழி")),
    ("ภาษาไทย รองเท้า", ("ภาษาไทย", "รองเท้า")), ("می\u200cخواهم کفش", ("می\u200cخواهم", "کفش")),
    ("cafe\u0301 Bru\u0302le\u0301-2", ("café", "brûlé-2")),
    ("\u0301 ❤\ufe0f the kettle's lid.", ("the", "kettle's", "lid")),
])
def test_the_marks_of_a_word_belong_to_it(text, words):
    assert words_of(text) == words and len(WORD.findall(text)) == len(words)
    assert not words_of(replace_words(text, dict.fromkeys(words, " ")))
    assert replace_words(f"{text} red table", dict.fromkeys(words, " ")).endswith("red table")


def test_words_of_plain_latin_texts_are_runs_of_letters_and_digits():
    "As they have always been."
    letters = "".join(map(chr, range(0x20, 0x250)))
    for text in [letters, "The HP-250's 3.5 inch disc, x_1 co-op’s a..b -c", "Größe ŒUVRE ǰǆ", "\tÅngström\n№ 5²"]:
        assert WORD.findall(text) == re.findall(r"\w+(?:[-'’.]\w+)*", text)


@pytest.mark.parametrize("kind", ["bert", "table"])
def test_importance_does_not_depend_on_the_stretches(folders, monkeypatch, kind):
    texts = ["red lamp", "old kettle for the table " * 5, "lamp", "?", "a chair of the old kettle"]
    scorer = load_model(folders[kind])
    whole = word_importance(scorer, texts)
    assert [len(some) for some in _stretches(texts * 60)] == [256, 44]
    monkeypatch.setattr("debias_nb.diagnosis.words.WORDS_AT_ONCE", 10)
    assert [len(some) for some in _stretches(texts)] == [1, 1, 2, 1]
    parts = word_importance(scorer, texts)
    assert [len(row) for row in parts] == [2, 25, 1, 0, 6]
    assert all(np.allclose(one, other, atol=1e-5, equal_nan=True) for one, other in zip(whole, parts))


@pytest.mark.parametrize("side", ["left", "right"])
def test_words_are_told_from_tokens_however_they_were_padded_and_cut(folders, side):
    scorer = load_model(made.load(folders["bert"]))
    tokenizer = scorer.model.tokenizer
    texts = ["old kettles, [SEP] for the table", "red lamp"]

    def owners(of=texts, **options):
        made_of = tokenizer(of, padding=options.pop("padding", True), **options)
        ids, mask = (torch.tensor(made_of[column]) for column in ("input_ids", "attention_mask"))
        return [row[row >= 0].tolist() for row in word_owners(scorer, texts, as_tokens(scorer.model, ids, mask))]

    tokenizer.padding_side = tokenizer.truncation_side = side
    assert owners(padding="max_length", max_length=20) == [[0, 1, 1, 3, 4, 5], [0, 1]]
    assert owners(add_special_tokens=False) == [[0, 1, 1, 3, 4, 5], [0, 1]]
    assert owners(truncation=True, max_length=5) == [{"right": [0, 1, 1], "left": [3, 4, 5]}[side], [0, 1]]
    with pytest.raises(EncoderError, match=f"^{scorer.name}: .* otherwise than its tokenizer"):
        owners(["a chair", "red lamp"])


def test_a_prompt_is_read_and_is_no_word(folders):
    scorer = load_model(made.load(folders["bert"]))
    model = scorer.model
    before = pair_scores({"it": scorer}, ["red lamp"], ["old table"])["it"]
    model.prompts = {"query": "what why "}
    model.default_prompt_name = "query"
    for included in (True, False):
        model.set_pooling_include_prompt(included)
        score = pair_scores({"it": scorer}, ["red lamp"], ["old table"])["it"]
        left, right = model.encode(["red lamp", "old table"], normalize_embeddings=True)
        assert np.isclose(score, left @ right, atol=1e-5) and not np.isclose(score, before, atol=1e-4)
        *without, whole = model.encode(["[MASK] lamp", "red [MASK]", "red lamp"], normalize_embeddings=True)
        expected = np.array([1 - one @ whole for one in without])
        assert np.allclose(word_importance(scorer, ["red lamp"])[0], expected / expected.sum(), atol=1e-4)


def test_one_text_is_no_list_of_letters(folders):
    scorer = load_model(folders["table"])
    for call in (lambda: interventions.importance(scorer.model, "red lamp"),
                 lambda: word_importance(scorer, "red lamp"),
                 lambda: pair_scores({"it": scorer}, "red lamp", ["red lamp"])):
        with pytest.raises(ValueError, match=r"\['red lamp'\]"):
            call()
    with pytest.raises(ValueError, match="2 texts on the left and 1 on the right"):
        pair_scores({"it": scorer}, ["red", "lamp"], ["red lamp"])


# ---------------------------------------------------------------- what is told


def test_what_to_know_of_a_test_is_told_before_its_verdict(folders):
    dead = made.load(folders["table"])
    with torch.no_grad():
        dead[0].embedding.weight.zero_()
    train = made.some_pairs()
    new = made.some_pairs(300, seed=1)
    tests = {"new": new, "half": pd.concat([train.head(30), made.some_pairs(seed=1)])}
    found = diagnose(folders["table"], dead, train, tests)
    for said in (
        "new: all scores are the same in the tuned model.",
        "half: 30 of 150 pairs also occur in the training file, and say nothing of new data.",
    ):
        assert any(text.startswith(said) for text in found.warnings)
    assert not any("base model" in text for text in found.warnings)
    assert "\n".join(found.warnings) in repr(found) and json.loads(found.json())["warnings"] == found.warnings
    page = found.html()
    assert all(page.index(text) < page.index("new: worse") for text in found.warnings)


def test_a_test_that_is_too_small_is_left_out_and_the_others_are_diagnosed(folders):
    train = made.some_pairs()
    tests = {"few": train.head(4).assign(label=[0, 1, 0, 1]), "one": train.assign(label=[1] + 119 * [0]),
             "new": made.some_pairs(seed=1)}
    found = diagnose(folders["table"], folders["other table"], train, tests)
    assert set(found.verdicts.test) == {"new"} and found.sentences[0].startswith("new: ")
    assert [text.partition(" ")[0] for text in found.warnings[:2]] == ["few:", "one"]
    assert all(text.endswith("it is left out.") for text in found.warnings[:2]) and found.warnings[0] in found.html()
    assert list(json.loads(found.json())["left_out"]) == ["few", "one"]
    assert {"few", "one"} <= set(found.failing("unsure")) and not {"few", "one"} & set(found.failing("worse"))
    with pytest.raises(DataError, match="few: 4 pairs are too few .*; one is too small"):
        diagnose(folders["table"], folders["other table"], train, {name: tests[name] for name in ("few", "one")})


def test_models_of_different_make_are_compared_without_mixing(folders, files):
    found = found_with(folders, files, "table", "bert")
    assert all(any(said in note for note in found.notes) for said in ("different make", "different tokens"))
    assert not any(name.startswith("WiSE") for name in found.scores.scorer) and "wise_ft" not in found.snippet
    assert len(found.words["gained"])


def test_scores_that_float32_cannot_tell_apart_are_ties():
    scores = torch.tensor([1234.5678, 1234.5679, 1234.6, .00012345678, .0001234568, .0001235])
    first, second, third, *small = scoring.round_scores(scores, "dot")
    assert first == second != third and small[0] == small[1] != small[2]
    assert scoring.round_scores(torch.tensor([.1234567, .1234568]), "cosine").tolist() == [.123457, .123457]


def test_other_settings_are_told(folders):
    base, tuned = (SentenceTransformer(folders[name], device="cpu") for name in ("bert", "other bert"))
    tuned.max_seq_length = 6
    reason = diagnose(base, tuned, None, {"new": made.some_pairs()}).decision.reason
    assert reason.endswith("(longest text: 40 before, 6 after).")


def test_words_in_a_chat_template_are_left_out_and_a_note_says_so(folders, files, tmp_path):
    models = {}
    for name in ("bert", "other bert"):
        shutil.copytree(folders[name], tmp_path / name)
        tokenizer = load_model(folders[name]).model.tokenizer
        tokenizer.chat_template = "{% for m in messages %}why {{ m['content'] }} [SEP] {% endfor %}"
        tokenizer.save_pretrained(tmp_path / name)
        models[name] = str(tmp_path / f"{name} in a template")
        parts = [Transformer(str(tmp_path / name)), Pooling(32)]
        SentenceTransformer(modules=parts, device="cpu").save_pretrained(models[name])
    found = found_with(models, files, "bert", "other bert")
    assert not found.words and found.sentences and any("chat template" in note for note in found.notes)
    assert not any("All tokens of a word" in note for note in found.notes)


# ---------------------------------------------------------------- models


def test_a_router_reads_left_texts_as_queries_and_right_texts_as_documents(folders, files, tmp_path):
    ways = [list(made.load(folders[name])) for name in ("bert", "other bert")]
    router = SentenceTransformer(modules=[Router.for_query_document(*ways), Normalize()], device="cpu")
    other = copy.deepcopy(router)
    with torch.no_grad():
        for weight in other[0].sub_modules["query"].parameters():
            weight.add_(.05 * torch.randn_like(weight))
    found = found_with({"it": router, "other": other}, files, "it", "other")
    assert not found.words and any("by the base model and the tuned model (Router)" in note for note in found.notes)
    left, right = ["red lamp", "old chair"], ["red kettle", "old chair"]
    scores = pair_scores({"it": load_model(router)}, left, right)["it"]
    expected = router.similarity_pairwise(router.encode_query(left), router.encode_document(right))
    assert np.allclose(scores, expected, atol=1e-6) and scores[1] < .999, "the same text, read in two ways"
    with pytest.raises(EncoderError, match="reads texts in several ways, .* use one alone") as e:
        compare(router, str(files / "train.csv"), {"new": str(files / "new.csv")})
    program = str(e.value).partition("use one alone, ")[2]
    alone = eval(program, {"model": router, "SentenceTransformer": SentenceTransformer})
    assert np.allclose(alone.encode(["red lamp"]), router.encode_query(["red lamp"]), atol=1e-6)
    router.save(str(tmp_path / "router"), create_model_card=False)
    with pytest.raises(EncoderError, match="a Router is read in memory alone") as e:
        found_with({"it": str(tmp_path / "router")}, files, "it", "it")
    assert str(tmp_path / "router") in str(e.value), "the model is named"


def test_models_with_other_layers_are_not_the_same(folders, files):
    mean = SentenceTransformer(folders["bert"], device="cpu")
    first, bare, calm = (copy.deepcopy(mean) for _ in range(3))
    first[1] = Pooling(32, pooling_mode="cls")
    bare[0].processing_kwargs = {"text": {"add_special_tokens": False}}
    calm[0].auto_model.config.hidden_dropout_prob = 0.
    origins = {origin_of(load_model(model)) for model in (mean, first, bare, calm)}
    assert len(origins) == 4, "a trial of one is none of the other"
    assert origin_of(load_model(copy.deepcopy(mean))) in origins
    assert cutting(load_model(bare)) != cutting(load_model(mean)), "they do not share the tokens of a text"
    assert (found_with({"mean": mean, "first": first}, files, "mean", "first").verdicts.test.unique().tolist()
            == ["iid", "new"])


def test_models_and_pairs_that_cannot_be_used_are_refused(folders, files, monkeypatch):
    broken = made.load(folders["table"])
    with torch.no_grad():
        broken[0].embedding.weight.fill_(torch.nan)
    tokenizer = WhitespaceTokenizer(vocab=made.WORDS, stop_words=set())
    vectors = np.zeros((len(made.WORDS), 8), "float32")
    glove = SentenceTransformer(modules=[WordEmbeddings(tokenizer, vectors), Pooling(8)], device="cpu")
    models = folders | {"broken": broken, "GloVe": glove, "linear": torch.nn.Linear(2, 2), "long": "9" * 300}
    models["bert again"] = made.load(folders["bert"])
    for base, tuned, words in (
        ("table", "table", "are the same model"), ("bert", "bert again", "are the same model"),
        ("table", "broken", "tuned: 120 of 120 scores"), ("GloVe", "GloVe", "WhitespaceTokenizer"),
        ("linear", "table", "Linear"),
        ("long", "table", "9"),
    ):
        with pytest.raises(EncoderError, match=words):
            found_with(models, files, base, tuned)
    monkeypatch.setattr(diagnosing, "load_pair", lambda *models: pytest.fail("a model was loaded"))
    pairs = made.some_pairs()
    for train, test, words in (
        (pairs, pairs.head(2).assign(label=[0, 1]), "new: 2 pairs"),
        (pairs, pairs.head(40).assign(label=[1] + 39 * [0]), "new is too small"),
    ):
        with pytest.raises(DataError, match=words):
            diagnose("base", "tuned", train, {"new": test})


# ---------------------------------------------------------------- page and program


def test_the_page_needs_nothing_and_escapes_all(folders):
    wicked = '<script>alert("x")</script> {{ 7 * 7 }} lamp'
    test = made.some_pairs(seed=1)
    test["left"] = [f"{wicked} {text}" for text in test.left]
    found = diagnose(
        folders["table"], folders["other table"], made.some_pairs(),
        {"<i>new</i>": test})
    page = found.html()
    made.read_page(page)
    assert "{{ 7 * 7 }}" in page and "alert" in page and "<i>" not in page
    assert "width=device-width" in page and "prefers-color-scheme: dark" in page


def test_a_stored_card_reads_well_where_styles_and_drawings_are_stripped(tables):
    told = made.read_card(tables._repr_html_())
    assert f"Verdict: {tables.decision.call} {tables.decision.heading} {tables.decision.reason}" in told
    for row in tables.verdicts[tables.verdicts.decides].itertuples():
        assert re.search(rf"{row.test} {100 * row.base:.1f} → {100 * row.tuned:.1f} AUC\(0.05\), %", told), told


def test_page_and_twin_have_the_same_numbers(tables):
    twin = json.loads(tables.json())
    page = tables.html()
    assert len(re.findall(r'<h2 id="[a-z-]+">[^<]+\?</h2>', page)) == 9
    assert page.count("<table") == page.count('"scroll" tabindex="0"><table')
    for row in tables.verdicts.itertuples():
        assert f"{100 * row.tuned:.1f}" in page
    assert pd.DataFrame(twin["verdicts"]).change.tolist() == pytest.approx(tables.verdicts.change.tolist(), abs=1e-6)
    assert set(twin) == {"schema", "made by", "verdict", *vars(tables)}
    told = (Path(__file__).parents[2] / "nbs/diagnosis/in_ci.ipynb").read_text("utf-8").partition("| key | what |")[2]
    rows = re.findall(r'"\| (`[^|]+) \|', told)
    assert {key for row in rows for key in re.findall("`([^`]+)`", row)} == set(twin), "each key is documented"
    assert twin["facts"]["models"]["base"]["fingerprint"] != twin["facts"]["models"]["tuned"]["fingerprint"]
    assert "--seed 3" in tables.facts["command"]
    assert all(0 <= float(place) <= 100
               for place in re.findall(r'="(-?[\d.]+)%"', page)), "all stands inside of its picture"


def test_a_threshold_that_lets_more_than_255_other_pairs_through_is_set_again_at_their_rate():
    rng = np.random.default_rng(0)
    labels = np.arange(2000) % 4 == 0
    scores = {"base": .4 + .12 * rng.normal(size=2000), "tuned": .6 + .12 * rng.normal(size=2000)}
    test = distinct("new", labels, scores)
    rates = thresholds([test], {"base": "base", "tuned": "tuned"},
                       .4).set_index(["model", "cut-off"])["false positives"]
    assert rates["base", "kept"] > .4 and rates["tuned", "set again"] == pytest.approx(rates["base", "kept"], abs=.001)


def test_rates_at_a_threshold_are_those_of_counting_the_pairs_of_each_resample():
    rng = np.random.default_rng(0)
    labels = np.arange(400) % 4 == 0
    scores = {model: (labels + rng.normal(size=400)).round(1) for model in ("base", "tuned")} # with many ties
    test = distinct("new", labels, scores)
    rows = thresholds([test], {"base": "base", "tuned": "tuned"}, .4).set_index(["model", "cut-off"])
    for model, of in scores.items():
        passing = np.array([(weights[of >= .4] @ labels[of >= .4], weights @ labels)
                            for weights in test.all_weights[1:].astype(int)])
        estimate = interval([labels[of >= .4].sum() / labels.sum()], [passing[:, 0] / passing[:, 1]], units=400)
        assert (rows.recall[model, "kept"], rows["recall low"][model, "kept"]) == (estimate.value, estimate.low)


def test_words_of_plain_text_are_read_as_those_of_any_text():
    @hypothesis.given(st.text(st.characters(max_codepoint=127)))
    def check(text):
        assert words_of(text) == tuple(map(_key, WORD.findall(text)))

    check()
    assert words_of("Don't AC-DC_3.5.") == ("don't", "ac-dc_3.5") and words_of("Straße") == ("strasse",)


def test_a_threshold_that_is_given_is_what_the_page_goes_by(folders):
    tests = {"new": made.some_pairs(seed=1)}
    for given in (None, .3):
        found = diagnose(folders["table"], folders["other table"], made.some_pairs(), tests, threshold=given)
        kept = found.thresholds[found.thresholds["cut-off"] == "kept"].set_index("model")
        scores = pair_scores({"base": load_model(folders["table"])}, tests["new"].left.tolist(),
                             tests["new"].right.tolist())["base"]
        others = scores[tests["new"].label.to_numpy() == 0]
        assert kept["false positives"]["base"] == pytest.approx((others >= kept.threshold["base"]).mean())
        assert kept["false positives"]["base"] <= .05 if given is None else set(kept.threshold) == {given}
    assert "--threshold" not in found.html().partition('id="made"')[0], "the page does not ask for what it was given"
    with pytest.raises(ConfigError, match=r"threshold must lie in \(-inf, inf\), got nan"):
        diagnose(folders["table"], folders["other table"], None, tests, threshold=float("nan"))


def test_a_diagnosis_needs_a_test(folders):
    with pytest.raises(DataError, match="no test: at least one"):
        diagnose(folders["table"], folders["other table"])


def test_a_model_card_has_the_decision_once_and_the_rest_as_it_was(tables, tmp_path):
    card = tmp_path / "README.md"
    card.write_text("---\ntags: [x]\n---\n\n# Mine\n", "utf-8")
    for _ in range(2):
        tables.to_model_card(tmp_path)
    text = card.read_text("utf-8")
    assert text.startswith("---\ntags: [x]\n---\n\n# Mine\n\n<!-- debias-nb -->")
    assert text.count("What fine-tuning changed") == 1
    assert tables.decision.heading in text and tables.decision.verdict() in text
    for result in tables.decision.results:
        if result.part == "all":
            assert f"| {result.name} (" in text and f"| {result.word} |" in text and result.sentence in text


@pytest.mark.slow
def test_the_snippet_runs_and_saves_what_it_trains_and_mixes(tables, tmp_path):
    def run(*texts):
        (tmp_path / "new.txt").write_text("".join(f"{text}\n" for text in texts))
        return subprocess.run([sys.executable, "-c", tables.snippet], cwd=tmp_path, capture_output=True, text=True)

    of_test = next(file for name, file in tables.facts["files"].items() if name != "train")
    refused = run("an old lamp", read_pairs_file(of_test["path"]).left[0])
    assert refused.returncode and "1 of 2 also occur in " in refused.stderr, "before anything is trained"
    done = run("an old lamp", "red chairs")
    assert done.returncode == 0, done.stderr
    saved = {path.parent.name for path in tmp_path.rglob("modules.json")}
    assert "model" in saved and any(name.startswith("table-0.") for name in saved)


@pytest.mark.parametrize("kind", ["table", "bert"])
def test_models_in_memory_stay_in_their_mode_and_have_no_name(folders, files, kind):
    base, tuned = (made.load(folders[name]).train() for name in (kind, f"other {kind}"))
    tuned[0].eval()
    before = [part.training for part in tuned.modules()]
    tests = {"new": made.some_pairs(seed=1)}
    found = diagnose(base, tuned, made.some_pairs(), tests)
    assert all(part.training for part in base.modules()) and [part.training for part in tuned.modules()] == before
    base.eval(), tuned.eval()
    assert diagnose(base, tuned, made.some_pairs(), tests).json() == found.json(), "no dropout in scores"
    assert "base = ... # the encoder before fine-tuning\ntuned = ... # the encoder after fine-tuning\n" in found.snippet
    assert "pairs = read_pairs_file(frame, columns=" in found.snippet and "model = ... #" in found.snippet
    assert found.facts["command"] is None
    assert "in memory" not in found.snippet
    assert "debias-nb diagnose" not in found.html()
    compile(found.snippet, "program", "exec")
    assert (NO_HARM in found.snippet) != found.verdicts.filter(like="verdict").eq("worse").any(axis=None)
    saved = found_with(folders | {"it": tuned}, files, kind, "it")
    assert f"base = load_model({folders[kind]!r}).model\ntuned = ... #" in saved.snippet
    assert saved.facts["command"] is None


# ---------------------------------------------------------------- command line


def asked(command="diagnose", **given): # option -> value, or several; no option for None
    "What a command of `debias-nb` says."
    words = [command]
    for name, values in given.items():
        for value in values if isinstance(values, list) else [values]:
            words += [f"--{name.replace('_', '-')}"] + ([str(value)] if value is not True else [])
    return CliRunner().invoke(app, words)


def test_the_command_writes_page_twin_and_tables(folders, files, tmp_path, monkeypatch):
    arguments = dict(
        base=folders["table"], tuned=folders["other table"], train=files / "train.csv",
        test=[f"new={files / 'new.csv'}"],
        out=tmp_path / "report")
    done = asked(**arguments)
    assert done.exit_code == 0 and "\nnew: " in done.stdout
    for on in ("worse", "unsure"):
        monkeypatch.setattr(Diagnosis, "failing", lambda self, on, margin=None: ["new"]
                            if (on, self.decision.margin) == ("unsure", .02) else [])
        done = asked(fail_on=on, margin=2, overwrite=True, **arguments)
        assert done.exit_code == (on == "unsure") and ("--fail-on unsure: new" in done.stdout) == (on == "unsure")
    assert {path.name for path in (tmp_path / "report").iterdir()} == set(FILES)
    made.read_page((tmp_path / "report/index.html").read_text("utf-8"))
    table = pd.read_csv(tmp_path / "report/verdicts.csv")
    twin = json.loads((tmp_path / "report/report.json").read_text("utf-8"))
    assert table.change.tolist() == pytest.approx([row["change"] for row in twin["verdicts"]], abs=1e-6)


@pytest.mark.parametrize("verdict, low, failing_on", [
    ("worse", -.02, ("worse", "unsure")), ("cannot tell", -.02, ("unsure",)), ("cannot tell", np.nan, ("unsure",)),
    ("cannot tell", -.005, ()),
    ("better", .01, ()),
])
def test_a_build_fails_on_what_got_worse_or_may_have(tables, verdict, low, failing_on):
    one = replace(tables.decision.results[0], test="new", word=verdict, low=low)

    def failing(*results):
        found = replace(tables, decision=replace(tables.decision, results=results), left_out={})
        return [on for on in ("worse", "unsure") if found.failing(on) == ["new"]], found.failing("unsure", margin=.03)

    on, with_margin = failing(one)
    assert on == list(failing_on) and with_margin == (["new"] if verdict == "worse" or np.isnan(low) else [])
    part, _ = failing(replace(one, word="better", low=.01), replace(one, part=NEW, share=.5))
    assert part == list(failing_on), "of cases apart from training"


WRONG = { # options, words of the message
    "test": (dict(test=["new.csv"]), "--test", "'new.csv'"),
    "twice": (dict(test=["a=new.csv", "a=new.csv"]), "--test", "each once", "'a=new.csv'"),
    "no file": (dict(test=["new=nwe.csv"]), "nwe.csv", "'new.csv'"),
    "no outcome": (dict(fail_on="better"), "--fail-on", "'better'"),
    "a file": (dict(out="new.csv"), "--out"),
    "columns": (dict(columns="left,nowhere,label"), "'nowhere'"),
    "columns of no file": (dict(columns="nwe=a,b,c"), "'nwe'"),
    "metric": (dict(metric="auc"), "'auc05'"),
    "one prompt": (dict(prompts="query"), "--prompts", "LEFT,RIGHT"),
    "train": (dict(test=["train=new.csv"]), "'train'"),
    "no margin": (dict(margin=0), "margin must lie in (0, 100], got 0"),
    "a margin that all is within": (dict(margin="inf"), "margin must lie in (0, 100], got inf"),
    "model": (dict(out="r"), "./none: no such folder"),
    "a model that is made here": (dict(base="tiny-static", out="r"), "tiny-static", "lies in no folder", "FOLDER"),
}


@pytest.mark.parametrize("change, words", [(change, words) for change, *words in WRONG.values()], ids=WRONG)
def test_the_command_refuses_what_cannot_be(files, monkeypatch, change, words):
    monkeypatch.chdir(files)
    done = asked(**dict(base="./none", tuned="./none", train="train.csv", test=["new=new.csv"]) | change)
    assert done.exit_code == 2 and all(word in done.stderr for word in words), done.stderr
    assert not (files / "r").exists() and not [path for path in files.rglob("*") if path.suffix in (".html", ".json")]


TRANSFORMER = '[{"type": "sentence_transformers.models.Transformer", "path": ""}]'
ROOM = '{"added_tokens": [{"id": 1000000000, "content": "x"}]}'
UNUSABLE = { # what is in the folder of a model, what is said of it
    "pickles": ({"modules.json": TRANSFORMER, "pytorch_model.bin": "x"}, "which are pickles"),
    "another runtime": ({"modules.json": TRANSFORMER, "onnx/model.onnx": "x"},
                        "only onnx/model.onnx, which are weights of another runtime"),
    "foreign": ({"modules.json": '[{"type": "mine.Model", "path": ""}]'}, "'mine.Model': no module of an encoder"),
    "a token far out": ({"modules.json": TRANSFORMER, "tokenizer.json": ROOM},
                        "tokenizer.json: added_tokens: 0: id: Input should be less than 16777216"),
    "remote": ({"config.json": '{"auto_map": {"AutoModel": "x.Y"}}'}, "names code of the repository"),
}


@pytest.mark.parametrize("command, further", [("diagnose", {"tuned": "model"}), ("compare", {})])
@pytest.mark.parametrize("content, message", UNUSABLE.values(), ids=UNUSABLE)
def test_the_shell_refuses_a_model_in_one_sentence(files, tmp_path, monkeypatch, command, further, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    for name, text in content.items():
        (tmp_path / "model" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "model" / name).write_text(text)
    done = asked(command, base="./model", train=files / "train.csv", test=f"new={files / 'new.csv'}", **further)
    assert done.exit_code == 2 and message in done.output and len(done.output.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
