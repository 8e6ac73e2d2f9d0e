"Published fine-tunes: how their file is made from a clone of results, is the committed one, and what the page counts."
import json
import lzma
import shutil
import sys
from types import ModuleType, SimpleNamespace

import finetunes
import numpy as np
import pandas as pd
import pytest
from finetunes import COLUMNS, Facts, ModelFacts, ResultError, TaskFacts

from cells import defined_in
from debias_nb.files import project_root, sha256_file

TASKS = [f"Task{letter}" for letter in "ABCDEFGHIJ"]
BASE = next(name for name in map("lab/{}".format, range(99)) if not finetunes.is_left_out(name))


def entry(score, subset="default", language="eng-Latn"):
    return {"hf_subset": subset, "languages": [language], "main_score": score}


def put(clone, model, revision, task, scores, **also):
    "A result file as mteb writes it."
    folder = clone / "results" / model.replace("/", "__") / revision
    folder.mkdir(parents=True, exist_ok=True)
    content = {"task_name": task, "mteb_version": "2.0.0", "dataset_revision": "a", "scores": scores} | also
    (folder / f"{task}.json").write_text(json.dumps(content))


@pytest.fixture
def clone(tmp_path):
    "Ten tasks of a base and of its fine-tune, which gains a point on each."
    for number, task in enumerate(TASKS):
        put(tmp_path, BASE, "rev", task, {"test": [entry(.5)]})
        put(tmp_path, "me/tuned", "rev", task, {"test": [entry(.51)]})
    (tmp_path / "results/me__tuned/rev/model_meta.json").write_text("{}")
    return tmp_path


@pytest.fixture
def facts():
    models = {
        BASE: ModelFacts(parameters=100., training_sets=frozenset(["taskb"])),
        "me/tuned": ModelFacts(BASE, 105., "2025-01-01", frozenset(["TaskB.v2", "Elsewhere"])),
        "me/alone": ModelFacts(), "me/lost": ModelFacts("lab/unknown"),
    }
    return Facts(models, {task: TaskFacts("sts", True, 100) for task in TASKS}, "2.0.0")


def rows_by_task(clone, facts):
    return finetunes.changes(clone, facts).set_index("task")


def test_a_row_is_a_task_of_both(clone, facts):
    table = rows_by_task(clone, facts)
    assert len(table) == 10
    row = table.loc["TaskB"]
    assert (row.base_score, row.tuned_score, row.same_size) == (50., 51., "yes")
    assert (row["items"], row.languages) == (100, "eng-Latn")
    assert (row.trained, row.base_trained, row.same_revision) == ("yes", "yes", "yes"), "TaskB.v2 is the same data"
    assert table.loc["TaskC"].trained == "no"
    facts.models["me/tuned"].training_sets = None
    assert set(rows_by_task(clone, facts).trained) == {""}


def test_only_what_both_have_is_averaged(clone, facts):
    german, of_base, of_tuned = entry(.2, "de", "deu-Latn"), entry(.4, "en"), entry(.5, "en")
    put(clone, BASE, "rev", "TaskA", {"test": [german, of_base], "dev": [entry(0., "en")]})
    put(clone, "me/tuned", "rev", "TaskA", {"test": [of_tuned, entry(.9, "fr")], "dev": [entry(1., "en")]})
    put(clone, BASE, "rev", "TaskB", {"test": [entry(.3)], "dev": [entry(.1)]})
    put(clone, "me/tuned", "rev", "TaskB", {"dev": [entry(.2)]})
    table = rows_by_task(clone, facts)
    first, second = table.loc["TaskA"], table.loc["TaskB"]
    assert (first.base_score, first.tuned_score, first.languages) == (40., 50., "eng-Latn")
    assert (second.base_score, second.tuned_score) == (10., 20.), "no test that both have"


@pytest.mark.parametrize("scores", [
    {}, None, {"test": []}, {"dev": [entry(.1)]}, {"test": [entry(.1, "de")]}, {"test": [{"hf_subset": "default"}]},
    *({"test": [entry(score)]} for score in ([.1, .2], float("nan"), None, True)),
])
def test_what_has_no_number_in_common_is_no_row(clone, facts, scores):
    put(clone, "me/tuned", "rev", "TaskNew", {"test": [entry(.1)]})
    put(clone, BASE, "rev", "TaskNew", scores)
    table = rows_by_task(clone, facts)
    assert len(table) == 10 and "TaskNew" not in table.index


def test_of_two_revisions_the_fuller_one_counts_and_the_other_fills_up(clone, facts):
    for task in ("TaskA", "TaskNew"):
        put(clone, BASE, "another", task, {"test": [entry(.9)]})
        put(clone, BASE, "external", task, {"test": [entry(.8)]})
        put(clone, "me/tuned", "external", task, {"test": [entry(.7)]}, dataset_revision="b")
    table = rows_by_task(clone, facts)
    assert (table.loc["TaskA"].base_score, table.loc["TaskA"].tuned_score) == (50., 51.)
    assert (table.loc["TaskNew"].base_score, table.loc["TaskNew"].tuned_score) == (90., 70.)
    assert table.loc["TaskNew"].same_revision == "no"
    assert table.loc["TaskNew"].text == "no", "mteb says nothing of this task"


def test_a_file_that_is_too_large_is_left_out(clone, facts, monkeypatch):
    monkeypatch.setattr(finetunes, "LARGEST", 500)
    put(clone, BASE, "rev", "TaskA", {"test": [entry(.5, str(n)) for n in range(9)]})
    assert "TaskA" not in rows_by_task(clone, facts).index


def test_few_tasks_in_common_and_bases_kept_for_later_are_left_out(clone, facts):
    kept = next(name for name in map("lab/{}".format, range(99)) if finetunes.is_left_out(name))
    (clone / f"results/{BASE.replace('/', '__')}").rename(clone / f"results/{kept.replace('/', '__')}")
    facts.models["me/tuned"].base = kept
    assert rows_by_task(clone, facts).empty
    facts.models["me/tuned"].base = BASE
    assert rows_by_task(clone, facts).empty, "the base has no scores"


def test_a_damaged_file_and_another_folder_are_named(clone, facts, tmp_path):
    (clone / "results/me__tuned/rev/TaskD.json").write_text('{"scores": {"test": [')
    with pytest.raises(ResultError, match="TaskD.json is no result of mteb"):
        finetunes.changes(clone, facts)
    with pytest.raises(ResultError, match="has no folder results/"):
        finetunes.changes(tmp_path / "results", facts)


@pytest.fixture
def mteb(monkeypatch):
    "A stand-in for the package, with what is read of it."
    task = type("ASTS", (), {"__module__": "mteb.tasks.sts.eng.a"})()
    of_test = {"num_samples": 12, "queries_text_statistics": {"unique_texts": 5}}
    statistics = {"train": {"num_samples": 7}, "test": of_test}
    task.metadata = SimpleNamespace(name="TaskA", modalities=["text"], descriptive_stats=statistics)
    model = SimpleNamespace(
        name="me/tuned", adapted_from=BASE, n_parameters=None, release_date="2025-01-01", training_datasets=set())
    package = ModuleType("mteb")
    package.__version__ = "3.0"
    package.get_model_metas = lambda: [model]
    package.get_tasks = lambda **excluded: [] if any(excluded.values()) else [task]
    monkeypatch.setitem(sys.modules, "mteb", package)


def test_the_command_writes_the_file_and_where_it_is_from(clone, mteb, tmp_path, capsys):
    out = tmp_path / "out"
    finetunes.main([str(clone), "--out", str(out)])
    assert "10 changes of 1 fine-tunes of 1 bases" in capsys.readouterr().out
    first, row = lzma.open(out / "finetunes.csv.xz", "rt").read().splitlines()[:2]
    assert first.split(",") == COLUMNS
    assert row == f"me/tuned,{BASE},no,,2025-01-01,TaskA,sts,yes,5,eng-Latn,1,,,50,51,2.0.0,2.0.0,yes"
    source = json.loads((out / "finetunes.json").read_text())
    assert source["sha256"] == sha256_file(out / "finetunes.csv.xz") and source["upstream"]["mteb"] == "3.0"


def test_without_mteb_the_command_says_what_to_install(clone, monkeypatch):
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(SystemExit, match="pip install mteb"):
        finetunes.main([str(clone)])


def test_the_committed_file_is_the_one_that_is_described():
    folder = project_root() / "experiments"
    source = json.loads((folder / "finetunes.json").read_text("utf-8"))
    file = folder / "finetunes.csv.xz"
    assert sha256_file(file) == source["sha256"] and file.stat().st_size == source["bytes"] <= 150_000
    header = lzma.open(file, "rt").readline().strip().split(",")
    assert header == COLUMNS == [name for names in source["columns"] for name in names.split(", ")]


# What the page counts.

PAGE = defined_in("finetunes")


def of_tuned(tuned, base, changes, **columns):
    "Rows of a fine-tune with these changes."
    rows = pd.DataFrame({"tuned": tuned, "base": base, "change": changes,
                         "task": [f"t{n}" for n in range(len(changes))]})
    return rows.assign(is_loss=rows.change <= -1, is_gain=rows.change >= 1, **columns)


def test_a_file_of_scores_that_was_changed_is_refused(tmp_path, monkeypatch):
    for name in ("finetunes.json", "finetunes.csv.xz"):
        shutil.copy(project_root() / "experiments" / name, tmp_path)
    monkeypatch.setitem(PAGE.read_changes.__globals__, "RESULTS", tmp_path)
    assert len(PAGE.read_changes()) == json.loads((tmp_path / "finetunes.json").read_text())["rows"]
    (tmp_path / "finetunes.csv.xz").write_bytes(lzma.compress(b"tuned,base\n"))
    with pytest.raises(ValueError, match="its sha256 differs"):
        PAGE.read_changes()


def test_copies_in_another_precision_are_told_by_their_names():
    names = [("a/x-bf16", "a/x"), ("b/y", "a/z-BF16"), ("b/w-int8", "a/z-BF16"), ("c/v-INT8", "a/x"), ("c/v", "a/x"),
             ("d/point8", "a/x")]
    scores = pd.DataFrame(names, columns=["tuned", "base"])
    assert PAGE.copies_in(scores) == ["a/x-bf16", "c/v-INT8"]
    assert PAGE.precision_pairs(scores) == [("a/x-bf16", "a/x"), ("c/v-INT8", "c/v")]


def test_text_fine_tunes_of_the_same_size_count():
    row = {"tuned": "b/y", "base": "a/x", "text": "yes", "same_size": "yes", "kind": "sts", "base_score": 70.,
           "task": "t"}
    others = [{"text": "no"}, {"same_size": "no"}, {"kind": "aggregated_tasks"}, {"tuned": "b/y-int8"}]
    scores = pd.DataFrame([row, *(row | other for other in others)])
    assert PAGE.eligible(scores).index.tolist() == [0]
    scores = pd.DataFrame([row, row | {"base": "a/bert", "base_score": 30.},
                           row | {"base": "a/bert", "base_score": 60., "task": "u"}])
    assert PAGE.bases_without_embeddings(scores) == ["a/bert"]


def test_a_fine_tune_counts_once_however_many_tasks_it_has():
    many = of_tuned("m", "a", [-2.] * 95 + [2.] * 5)
    few = of_tuned("f", "b", [0., 0., 0., 0., 2.])
    too_few = of_tuned("t", "c", [-9.] * 4)
    row = PAGE.counts_of(pd.concat([many, few, too_few]))
    assert (row["fine_tunes"], row["bases"], row["tasks"]) == (2, 2, 105)
    assert (row["loses"], row["gains"], row["mean"]) == pytest.approx((.475, .125, (-1.8 + .4) / 2))
    assert row["loses_low"] == 0 and row["loses_high"] > .9, "either base may be drawn twice"
    assert PAGE.counts_of(many) == {"fine_tunes": 1, "bases": 1, "tasks": 100}


def test_fine_tunes_of_one_base_are_resampled_together():
    rng = np.random.default_rng(0)
    parts = [of_tuned(f"{base}{n}", str(base), rng.normal(effect, .1, 50)) for base, effect in enumerate([-2, 2, -2, 2])
             for n in range(9)]
    together = pd.concat(parts)
    apart = together.assign(base=together.tuned)
    spread, spread_apart = (PAGE.resample_means(rows, ["change"]).std() for rows in (together, apart))
    assert spread == pytest.approx(2 / 4**.5, rel=.1) and spread_apart == pytest.approx(2 / 36**.5, rel=.1)


def test_a_range_weighs_fine_tunes_alike_and_is_tried_on_others():
    rows = pd.concat([of_tuned("m", "a", np.zeros(1000)), of_tuned("f", "b", np.linspace(-10, 10, 101))])
    low, high = PAGE.weighted_ends(rows)
    assert (low, high) == pytest.approx((-9, 9), abs=.3)
    inside = PAGE.trial(pd.concat([of_tuned("u", "c", [0.] * 95 + [20.] * 5), of_tuned("v", "d", [0.] * 4 + [20.])]),
                        (low, high))
    assert (inside["tried_on"], inside["inside"]) == (2, pytest.approx((.95 + .8) / 2))
    assert "inside" not in PAGE.trial(of_tuned("u", "c", [0.] * 9), (low, high)), "one base is no trial"


def test_three_words_of_a_statement():
    assert ([PAGE.verdict_above(*case, .2) for case in ((.3, .21), (.3, .19), (.19, .1))]
            == ["holds", "cannot tell", "refuted"])


def test_the_gain_on_trained_tasks_is_compared_with_others_of_the_same_fine_tune():
    trained = pd.concat([of_tuned(f"m{n}", f"b{n // 2}", [float(n)] * 5) for n in range(8)])
    elsewhere = pd.concat([of_tuned(f"m{n}", f"b{n // 2}", [-float(n)] * 6) for n in range(7)])
    pairs = PAGE.trained_and_other(trained, elsewhere)
    assert [len(of_base) for of_base in pairs] == [2, 2, 2, 1]
    correlations = np.array(PAGE.resampled_correlations(pairs))
    assert correlations[~np.isnan(correlations)] == pytest.approx(-1), "none where one fine-tune alone was drawn"
