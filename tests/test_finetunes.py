"The file of published fine-tunes: how it is made from a clone of results, and that the committed one is what it says."
import json
import lzma
import sys
from types import ModuleType, SimpleNamespace

import finetunes
import pytest
from finetunes import COLUMNS, Facts, ModelFacts, ResultError, TaskFacts

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
        BASE: ModelFacts(parameters=100., trained=frozenset(["taskb"])),
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
    facts.models["me/tuned"].trained = None
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
    folder = project_root() / "results"
    source = json.loads((folder / "finetunes.json").read_text("utf-8"))
    file = folder / "finetunes.csv.xz"
    assert sha256_file(file) == source["sha256"] and file.stat().st_size == source["bytes"] <= 150_000
    header = lzma.open(file, "rt").readline().strip().split(",")
    assert header == COLUMNS == [name for names in source["columns"] for name in names.split(", ")]
