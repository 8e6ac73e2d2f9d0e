"`diagnose`: its numbers by hand and by others, what it warns of, what it refuses, its page, programs and commands."
import contextlib
import copy
import json
import re
import subprocess
import sys
from dataclasses import replace

import made
import numpy as np
import pandas as pd
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, WordEmbeddings
from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer
from sklearn.metrics import average_precision_score, roc_auc_score
from typer.testing import CliRunner

from debias_nb.checks import ConfigError
from debias_nb.commands.cli import app
from debias_nb.data.registry import DataError
from debias_nb.diagnosis import diagnose as diagnosing
from debias_nb.diagnosis.diagnose import Diagnosis, diagnose
from debias_nb.diagnosis.models import load_model, pair_scores
from debias_nb.diagnosis.programs import NO_HARM
from debias_nb.encoders.tokens import EncoderError

torch.set_num_threads(1)
WORDS = [word for word in made.WORDS if word.isalpha()]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {"table": str(made.table(folder / "a")), "other table": str(made.table(folder / "b", seed=1)),
            "bert": str(made.bert(folder / "c")), "other bert": str(made.bert(folder / "d", seed=1))}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    for seed, name in enumerate(("train", "iid", "new")):
        made.some_pairs(seed=seed).to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def tables(folders, files):
    tests = {name: str(files / f"{name}.csv") for name in ("iid", "new")}
    return diagnose(folders["table"], folders["other table"], str(files / "train.csv"), tests, seed=3)


# ---------------------------------------------------------------- numbers by others

def by_others(pairs, left, right, similarity):
    "AUC(0.05) and AP, by scikit-learn on what sentence-transformers encodes."
    scores = similarity(torch.as_tensor(left), torch.as_tensor(right)).numpy().astype(float).round(5)
    most = .05
    standard = roc_auc_score(pairs.label, scores, max_fpr=most) # of McClish: .5 by chance, 1 at best
    area = (2 * standard - 1) * (most - most**2 / 2) + most**2 / 2
    return area / most, average_precision_score(pairs.label, scores)


def dot(base, tuned):
    base.similarity_fn_name = tuned.similarity_fn_name = "dot"


def prompted(base, tuned):
    tuned.prompts = {"query": "why the ", "passage": "table of "}


def truncated(base, tuned):
    tuned[0].load_state_dict(base[0].state_dict())
    tuned.truncate_dim = 4


def cosine(one, other):
    return torch.nn.functional.cosine_similarity(one, other)


def by_name(model, texts, is_left):
    return model.encode(texts, prompt_name="query" if is_left else "passage") if any(
        model.prompts.values()) else model.encode(texts)


def as_asked(model, texts, is_left):
    return model.encode(texts, prompt="why the " if is_left else "red: ")


SETTINGS = { # what is done to both models, how others encode and compare, options, what is said
    "cosines": (lambda base, tuned: None, lambda model, texts, is_left: model.encode(texts), cosine, {}, ""),
    "dot products": (dot, lambda model, texts, is_left: model.encode(texts), lambda one, other: (one * other).sum(1),
                     {}, "The base model compares vectors by dot."),
    "prompts of two sides": (prompted, by_name, cosine, {}, "left texts behind 'why the ' and right texts behind "
                                                            "'table of '"),
    "prompts that are asked for": (lambda base, tuned: None, as_asked, cosine, {"prompts": ("why the ", "red: ")},
                                   "left texts behind 'why the ' and right texts behind 'red: '"),
    "numbers that are not kept": (truncated, lambda model, texts, is_left: model.encode(texts), cosine, {},
                                  "truncate_dim: None before, 4 after"),
}


@pytest.mark.parametrize("change, encode, similarity, options, said", SETTINGS.values(), ids=SETTINGS)
def test_scores_are_those_of_sentence_transformers_and_metrics_those_of_scikit_learn(
        folders, tmp_path, change, encode, similarity, options, said):
    base, tuned = (made.load(folders[name]) for name in ("table", "other table"))
    change(base, tuned)
    for name, model in (("base", base), ("tuned", tuned)):
        model.save(str(tmp_path / name), create_model_card=False)
    pairs = made.some_pairs(200, seed=5)
    pairs["right"] = [f"{text} {word}" for text, word in zip(pairs.right, made.some_pairs(200, seed=6).left)]
    found = diagnose(str(tmp_path / "base"), str(tmp_path / "tuned"), None, {"new": pairs}, **options)
    for name in ("base", "tuned"):
        model = SentenceTransformer(str(tmp_path / name), device="cpu")
        sides = [encode(model, pairs[side].tolist(), side == "left") for side in ("left", "right")]
        assert found.verdicts[name].tolist() == pytest.approx(by_others(pairs, *sides, similarity), abs=2e-4)
    assert said in " ".join([*found.notes, *found.warnings])


def test_functions_of_two_lists_of_texts_stand_in_for_models():
    pairs = made.some_pairs(200)
    scores = {"base": np.random.default_rng(0).normal(size=200) + pairs.label,
              "tuned": np.random.default_rng(1).normal(size=200) + 3 * pairs.label}
    found = diagnose(lambda left, right: scores["base"], lambda left, right: scores["tuned"], pairs, {"new": pairs})
    for name, values in scores.items():
        assert found.verdicts[name][1] == pytest.approx(average_precision_score(pairs.label, values))
    assert not found.words and not found.program and found.averaged.empty
    assert "all of its pairs also occur" in repr(found)
    for wrong in (lambda left, right: [1.], lambda left, right: [np.nan] * len(left)):
        with pytest.raises(DataError, match="new: base gives no 200 finite scores"):
            diagnose(wrong, wrong, tests={"new": pairs})
    triplets = pd.DataFrame({"anchor": pairs.left, "positive": pairs.right})
    with pytest.raises(DataError, match="a corpus is searched by models"):
        diagnose(lambda *_: [], lambda *_: [], tests={"new": triplets})


@pytest.mark.parametrize("given", [None, .3])
def test_a_threshold_lets_pass_what_counting_says(folders, given):
    pairs = made.some_pairs(seed=1)
    found = diagnose(folders["table"], folders["other table"], None, {"new": pairs}, threshold=given)
    scores = pair_scores({name: load_model(folders[name]) for name in ("table", "other table")}, pairs.left.tolist(),
                         pairs.right.tolist())
    [row] = found.thresholds.to_dict("records")
    is_match = pairs.label.to_numpy() == 1
    for moment, name, at in (("before", "table", "threshold"), ("after", "other table", "threshold"),
                             ("again", "other table", "set again")):
        passes = scores[name] >= row[at]
        assert (row[f"matches {moment}"], row[f"non-matches {moment}"]) == (passes[is_match].mean(),
                                                                            passes[~is_match].mean())
    assert row["non-matches before"] <= .05 if given is None else row["threshold"] == given
    assert row["non-matches again"] <= max(.05, row["non-matches before"])


# ---------------------------------------------------------------- what is said

def test_a_screen_says_what_was_read_the_answer_and_a_line_a_test(tables):
    read, answer, lines, *_ = repr(tables).split("\n\n")
    assert read.splitlines()[1] == "iid: 120 labeled pairs, 40 of them matches (columns left, right, label)."
    assert answer == f"{tables.decision.heading} {tables.decision.reason}"
    for row, line in zip(tables.verdicts[tables.verdicts.decides].itertuples(), lines.splitlines()):
        assert line.startswith(row.test + ("" if row.part == "all" else ", the ")) and (
            f": {row.verdict}. AUC(0.05) {100 * row.base:.1f} → {100 * row.tuned:.1f}, " in line)
    assert {*tables.verdicts.verdict} <= {"better", "worse", "within a point", "open"}


def test_what_says_nothing_and_what_is_in_training_is_told_before_its_word(folders):
    dead = made.load(folders["table"])
    with torch.no_grad():
        dead[0].embedding.weight.zero_()
    train = made.some_pairs()
    tests = {"new": made.some_pairs(300, seed=1), "half": pd.concat([train.head(30), made.some_pairs(seed=1)])}
    found = diagnose(folders["table"], dead, train, tests)
    assert found.decision.call == "do not ship" and found.decision.heading.startswith(
        "Do not ship. new: all scores are the same in the tuned model.")
    assert "half: 30 of 150 pairs also occur in the training file, and say nothing of new data." in found.warnings
    assert found.failing("worse") == ["new", "half"]


def test_leaks_in_disguise_are_counted():
    train = made.some_pairs(40, seed=3)
    train["left"] = [f"{text} noted {i}" for i, text in enumerate(train.left)]
    disguises = (str.upper, lambda text: text.replace("e", "e\u0301"), lambda text: text.replace(" ", "\xa0 "),
                 lambda text: text + ".", lambda text: text + " !", lambda text: text.replace("l", "l\u200b"))
    rows = [(row.right, row.left, row.label) for row in train.head(1).itertuples()] # swapped
    rows += [(disguise(row.left), row.right, row.label) for disguise, row in zip(disguises, train[1:].itertuples())]
    train.loc[2, "left"] = train.left[2].replace("e", "\xe9") # the accents of the second way, in one character
    test = pd.concat([made.some_pairs(60, seed=4), pd.DataFrame(rows, columns=["left", "right", "label"])])
    lengths = (lambda left, right: [*map(len, left)], lambda left, right: [*map(len, right)])
    found = diagnose(*lengths, train, {"new": test})
    assert found.overlap.pairs.tolist() == [7]


def test_texts_that_are_cut_are_counted(folders):
    base, tuned = (made.load(folders[name]) for name in ("bert", "other bert"))
    base.max_seq_length = tuned.max_seq_length = 8
    left = [f"red {'abcdefghij'[i % 10]} {'of the old small table why' * (i >= 10)} {WORDS[i % 12]}" for i in range(60)]
    pairs = pd.DataFrame({"left": left, "right": [f"{WORDS[i % 13]} {WORDS[i % 5]}" for i in range(60)],
                          "label": [1, 0] * 30})
    found = diagnose(base, tuned, None, {"new": pairs})
    assert ("new: 50 of 60 pairs have a text of more than 8 tokens, the limit of the base model and the tuned model: "
            "its end is not read.") in found.warnings


def test_a_test_that_is_too_small_is_left_out_and_the_others_are_diagnosed(folders):
    train = made.some_pairs()
    tests = {"few": train.head(4).assign(label=[0, 1, 0, 1]), "one": train.assign(label=[1] + 119 * [0]),
             "new": made.some_pairs(seed=1)}
    found = diagnose(folders["table"], folders["other table"], train, tests)
    assert {*found.verdicts.test} == {"new"} and [*found.left_out] == ["few", "one"]
    assert {"few", "one"} <= {*found.failing("unsure")} and not {"few", "one"} & {*found.failing("worse")}
    with pytest.raises(DataError, match="few: 4 pairs are too few .*; one is too small"):
        diagnose(folders["table"], folders["other table"], train, {name: tests[name] for name in ("few", "one")})


COPIES = { # form -> rows, the last of which copies a match except for case and spaces; the texts that match "red 1 a"
    "pairs": (pd.DataFrame([(f"red {i} a", f"old {i} b", i % 2) for i in range(41)] + [("red 1 a", " Old  1 b", 0)],
                           columns=["left", "right", "label"]), ["old 1 b"]),
    "candidates": (pd.DataFrame([(f"red {i} a", f"old {i} b", f" OLD  {i // 2 * 2 + 1} b") for i in range(20)],
                                columns=["anchor", "positive", "negative"]), ["old 1 b", " OLD  1 b"]),
    "retrieval": (pd.DataFrame([(f"red {i} a", f"old {i} b") for i in range(20)] + [("blue a", "OLD  1 b")],
                               columns=["anchor", "positive"]), ["old 1 b", "OLD  1 b"]),
}


@pytest.mark.parametrize("rows, matches", COPIES.values(), ids=COPIES)
def test_among_candidates_and_in_a_corpus_a_copy_of_a_match_is_a_match(rows, matches):
    _, [test], *_ = diagnosing.read_tests(None, {"new": rows}, None, None, 0, False)
    frame = test.file.frame
    assert frame.right[(frame.left == "red 1 a") & (frame.label > 0)].tolist() == matches


# ---------------------------------------------------------------- models

def test_models_of_different_make_are_compared_without_averages(folders, files):
    found = diagnose(folders["table"], folders["bert"], None, {"new": files / "new.csv"})
    assert "different make" in found.notes[-1] and found.averaged.empty and "wise_ft" not in found.program
    assert len(found.words["gained"])


def test_a_router_reads_left_texts_as_queries_and_right_texts_as_documents(folders, files):
    ways = [list(made.load(folders[name])) for name in ("bert", "other bert")]
    router = SentenceTransformer(modules=[Router.for_query_document(*ways), Normalize()], device="cpu")
    other = copy.deepcopy(router)
    with torch.no_grad():
        for weight in other[0].sub_modules["query"].parameters():
            weight.add_(.05 * torch.randn_like(weight))
    found = diagnose(router, other, None, {"new": files / "new.csv"})
    assert not found.words and any("Router" in note for note in found.notes)
    left, right = ["red lamp", "old chair"], ["red kettle", "old chair"]
    scores = pair_scores({"it": load_model(router)}, left, right)["it"]
    expected = router.similarity_pairwise(router.encode_query(left), router.encode_document(right))
    assert np.allclose(scores, expected, atol=1e-6) and scores[1] < .999, "the same text, read in two ways"


def test_models_and_tests_that_cannot_be_used_are_refused(folders, files, monkeypatch):
    broken = made.load(folders["table"])
    with torch.no_grad():
        broken[0].embedding.weight.fill_(torch.nan)
    tokenizer = WhitespaceTokenizer(vocab=made.WORDS, stop_words=set())
    glove = SentenceTransformer(
        modules=[WordEmbeddings(tokenizer, np.zeros((len(made.WORDS), 8), "float32")), Pooling(8)], device="cpu")
    pairs = made.some_pairs()
    for base, tuned, words in (
        (folders["table"], folders["table"], "are the same model"),
        (folders["bert"], made.load(folders["bert"]), "are the same model"),
        (folders["table"], broken, "tuned: 120 of 120 scores"), (glove, glove, "WhitespaceTokenizer"),
        (torch.nn.Linear(2, 2), folders["table"], "Linear"), ("9" * 300, folders["table"], "9"),
    ):
        with pytest.raises(EncoderError, match=words):
            diagnose(base, tuned, None, {"new": pairs})
    monkeypatch.setattr(diagnosing, "load_pair", lambda *models: pytest.fail("a model was loaded"))
    for tests, words in (
        ({"new": pairs.head(2).assign(label=[0, 1])}, "new: 2 pairs"), (None, "no test: at least one"),
        (pairs, "tests: files by name are expected"), ({"train": pairs}, "'train', which is the name"),
        ([pairs], "tests: files by name are expected"), ({"new": None}, "new: a path, a data frame or a Dataset"),
    ):
        with pytest.raises(DataError, match=words):
            diagnose("base", "tuned", None, tests)
    for prompts in (("qeury", ""), ("", "[Q]")):
        monkeypatch.undo()
        with pytest.raises(ConfigError, match="a prompt itself ends in a colon or a blank"):
            diagnose(folders["table"], folders["other table"], None, {"new": pairs}, prompts=prompts)


# ---------------------------------------------------------------- page and program

def test_the_page_needs_nothing_and_escapes_all(folders):
    wicked = '<script>alert("x")</script> {{ 7 * 7 }} lamp \u202e'
    test = made.some_pairs(seed=1)
    test["left"] = [f"{wicked} {text}" for text in test.left]
    test["right"] = [f"{text} {other}" for text, other in zip(test.right, made.some_pairs(seed=2).left)]
    page = diagnose(folders["table"], folders["other table"], made.some_pairs(), {"<i>new</i>": test}).html()
    made.read_page(page)
    shown = re.sub("<[^>]*>", "", page)
    assert "{{ 7 * 7 }}" in shown and "alert" in shown and "<i>" not in page and "\u202e" not in page
    assert "width=device-width" in page and "prefers-color-scheme: dark" in page


def test_page_and_twin_have_the_same_numbers(tables):
    twin, page = json.loads(tables.json()), tables.html()
    for row in tables.verdicts.itertuples():
        assert f"{100 * row.tuned:.1f}%" in page
    assert pd.DataFrame(twin["verdicts"]).change.tolist() == pytest.approx(tables.verdicts.change.tolist(), abs=1e-6)
    assert {*twin} == {"schema", "made by", "verdict", *vars(tables)} and twin["verdict"] == tables.decision.verdict()
    assert "--seed 3" in tables.facts["command"] and "--train" in tables.facts["command"]
    assert all(0 <= float(place) <= 100 for place in re.findall(r'="(-?[\d.]+)%"', page)), "all is inside its picture"


def test_a_printed_program_imports_public_names_alone_and_runs(tables, tmp_path):
    import debias_nb
    names = re.findall(r"from debias_nb import (.*)", tables.program)
    assert names and {name for line in names for name in line.split(", ")} <= {*debias_nb.__all__}
    assert "debias_nb." not in tables.program
    assert "must hold no text of the tests" in tables.program.replace("\n# ", " ")
    (tmp_path / "new.txt").write_text("an old lamp\nred chairs\n")
    done = subprocess.run([sys.executable, "-c", tables.program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {path.parent.name.partition("-")[0] for path in tmp_path.glob("*/modules.json")} == {"table"}
    assert len([*tmp_path.glob("*/modules.json")]) == 2, "one is trained, one averaged"


@pytest.mark.parametrize("kind", ["table", "bert"])
def test_models_in_memory_stay_in_their_mode_and_have_no_name(folders, kind):
    base, tuned = (made.load(folders[name]).train() for name in (kind, f"other {kind}"))
    tuned[0].eval()
    before = [part.training for part in tuned.modules()]
    tests = {"new": made.some_pairs(seed=1)}
    found = diagnose(base, tuned, made.some_pairs(), tests)
    assert all(part.training for part in base.modules()) and [part.training for part in tuned.modules()] == before
    base.eval(), tuned.eval()
    assert diagnose(base, tuned, made.some_pairs(), tests).json() == found.json(), "no dropout in scores"
    assert "load_model(...).model" in found.program and "read_pairs_file(...)" in found.program
    assert found.facts["command"] is None and "debias-nb diagnose" not in found.html()
    compile(found.program, "program", "exec")
    is_harmed = found.verdicts.verdict.eq("worse").any()
    assert (NO_HARM.partition(":")[0] in found.program) != is_harmed


# ---------------------------------------------------------------- command line

def asked(command="diagnose", **given): # option -> value, or several
    "What a command of `debias-nb` says."
    words = [command]
    for name, values in given.items():
        for value in values if isinstance(values, list) else [values]:
            words += [f"--{name.replace('_', '-')}"] + ([str(value)] if value is not True else [])
    return CliRunner().invoke(app, words)


def test_the_command_writes_page_and_twin_and_its_last_line_is_the_verdict(folders, files, tmp_path, monkeypatch):
    arguments = dict(base=folders["table"], tuned=folders["other table"], train=files / "train.csv",
                     test=[f"new={files / 'new.csv'}"], out=tmp_path / "report")
    done = asked(**arguments)
    assert done.exit_code == 0 and "\nnew: " in done.stdout and done.stdout.splitlines()[-1].startswith("VERDICT: ")
    assert asked(**arguments).exit_code == 2, "a page is there"
    for on in ("worse", "unsure"):
        monkeypatch.setattr(Diagnosis, "failing", lambda self, on: ["new"] if on == "unsure" else [])
        done = asked(fail_on=on, margin=2, overwrite=True, **arguments)
        assert done.exit_code == (on == "unsure") and ("--fail-on unsure: new" in done.stdout) == (on == "unsure")
        assert done.stdout.splitlines()[-1].startswith("VERDICT: ")
    assert {path.name for path in (tmp_path / "report").iterdir()} == {"index.html", "report.json"}
    made.read_page((tmp_path / "report/index.html").read_text("utf-8"))


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
    "a margin that all is within": (dict(margin="inf"), "margin must lie in (0, 100], got inf"),
    "model": (dict(out="r"), "./none: no such folder"),
}


@pytest.mark.parametrize("change, words", [(change, words) for change, *words in WRONG.values()], ids=WRONG)
def test_the_command_refuses_what_cannot_be(files, monkeypatch, change, words):
    monkeypatch.chdir(files)
    done = asked(**dict(base="./none", tuned="./none", train="train.csv", test=["new=new.csv"]) | change)
    assert done.exit_code == 2 and all(word in done.stderr for word in words), done.stderr
    assert not (files / "r").exists() and not [path for path in files.rglob("*") if path.suffix in (".html", ".json")]


def test_demo_finds_what_was_planted_and_writes_its_page(tmp_path):
    with contextlib.chdir(tmp_path):
        done = CliRunner().invoke(app, ["demo"])
    assert done.exit_code == 0 and "\nlike: better. " in done.stdout and "\nnew: worse. " in done.stdout
    assert re.search(r"new: shortcut words \((\w+, ){7}\w+ and", done.stdout)
    assert (tmp_path / "demo/index.html").exists()


@pytest.mark.parametrize("call, failing", [("worse", ["a"]), ("unsure", ["a", "b", "c"])])
def test_a_build_fails_on_what_got_worse_or_may_have(tables, call, failing):
    one = tables.decision.results[0]
    results = [replace(one, test="a", word="worse", low=-.02), replace(one, test="b", word="open", low=-.02),
               replace(one, test="d", word="open", low=-.005)]
    found = replace(tables, decision=replace(tables.decision, results=results, is_void=False), left_out={"c": "few"})
    assert found.failing(call) == failing
