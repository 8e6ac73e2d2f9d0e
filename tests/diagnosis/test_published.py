"Two folders of mteb's results: verdicts by kind of task, what their items can tell, and the rank among published ones."
import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel
from typer.testing import CliRunner

import made
from debias_nb import diagnose_results
from debias_nb.diagnosis.files.mteb_results import is_same_data
from debias_nb.data.registry import DataError
from debias_nb.diagnosis.published import published_losses
from debias_nb.files import project_root
from debias_nb.measures.stats import holm
from debias_nb.commands.cli import app

FACTS = pd.read_csv(project_root() / "debias_nb/diagnosis/published_tasks.csv", index_col="task")
STS = FACTS.index[(FACTS.kind == "STS") & FACTS.english].tolist()[:8]
RETRIEVAL = FACTS.index[(FACTS.kind == "retrieval") & FACTS.english & (FACTS["items"] > 1000)][:10].tolist()
CHANGES = dict.fromkeys(STS, -.02) | {task: .01 * (-1) ** number for number, task in enumerate(RETRIEVAL)}


def entry(score, subset="default", language="eng-Latn"):
    return {"hf_subset": subset, "languages": [language], "main_score": score, "cosine_pearson": .1}


def put(folder, task, scores, revision="a", **also):
    "A result file as mteb writes it."
    folder.mkdir(parents=True, exist_ok=True)
    content = {"task_name": task, "mteb_version": "2.0.0", "dataset_revision": revision, "evaluation_time": 1.,
               "scores": scores} | also
    (folder / f"{task}.json").write_text(json.dumps(content))


@pytest.fixture
def folders(tmp_path):
    "Two made models: the second lost two points on each task of STS, more than one on another; retrieval varies."
    places = {"base": tmp_path / "before/results/lab__base/rev", "tuned": tmp_path / "after/results/me__tuned/rev"}
    rng = np.random.default_rng(0)
    for task, change in CHANGES.items():
        noise = rng.normal(0, .002)
        put(places["base"], task, {"test": [entry(.6)]})
        put(places["tuned"], task, {"test": [entry(.6 + change + noise)], "dev": [entry(.9)]})
    (places["tuned"] / "model_meta.json").write_text(json.dumps({"name": "me/tuned", "training_datasets": ["MSMARCO"]}))
    return places


def diagnosis_of(folders, **options):
    return diagnose_results(folders["base"].parents[2], folders["tuned"], **options)


def test_the_mean_change_over_tasks_decides_and_kinds_are_corrected_together(folders):
    diagnosis = diagnosis_of(folders)
    rows = diagnosis.verdicts.set_index("test")
    assert rows.verdict.to_dict() == {"all tasks": "worse", "STS": "worse", "retrieval": "within the margin"}
    assert diagnosis.decision.call == "do not ship"
    tasks = diagnosis.scores.set_index("task")
    tests = [ttest_rel(own.tuned, own.base) for own in (tasks, tasks.loc[STS], tasks.loc[RETRIEVAL])]
    assert rows.p["all tasks"] == pytest.approx(tests[0].pvalue)
    assert rows.p.tolist()[1:] == pytest.approx(holm([test.pvalue for test in tests[1:]]), abs=1e-12)
    assert rows[["low", "high"]].values == pytest.approx(np.array([test.confidence_interval() for test in tests]))
    assert rows.decides.tolist() == [True, False, False]
    assert rows.loc["STS", ["cases", "rose", "fell", "lost"]].tolist() == [8, 0, 8, 8]
    assert rows.change["STS"] == pytest.approx(tasks.change[STS].mean()) and rows.high["STS"] < -.015
    assert json.loads(diagnosis.json())["verdict"].startswith("VERDICT: worse | metric=main_score | base=0.6000 | "
                                                              "tuned=0.59")


def test_a_kind_whose_interval_lies_within_the_margin_is_neither_better_nor_worse(folders):
    "All its tasks fell a little, which is significant."
    for number, task in enumerate(RETRIEVAL):
        put(folders["tuned"], task, {"test": [entry(.6 - .004 - .0001 * number)]})
    row = diagnosis_of(folders).verdicts.set_index("test").loc["retrieval"]
    assert row.p < .05 and -.01 < row.low < row.high < 0 and row.verdict == "within the margin"


def test_one_task_that_fell_far_makes_no_kind_worse(folders):
    "A mean that hangs on one task has a wide interval."
    for number, task in enumerate(RETRIEVAL):
        put(folders["tuned"], task, {"test": [entry(.601 if number else .1)]})
    assert diagnosis_of(folders).verdicts.set_index("test").verdict["retrieval"] == "cannot tell"


def test_where_it_stands_is_what_published_fine_tunes_did_on_such_tasks(folders):
    losses = published_losses(["STS", "retrieval"], True)
    lost = (diagnosis_of(folders).scores.change <= -.01).sum()
    sentence = diagnosis_of(folders).sentences[0]
    assert sentence == (
        f"Of 18 tasks not known to be trained on, {lost} lost a point or more ({lost / 18:.0%}); "
        f"{len(losses)} published fine-tunes lost one on {losses.mean():.0%} of such tasks on average, "
        f"{(losses < lost / 18).sum()} of them on a smaller share.")
    other = FACTS.index[(FACTS.kind == "STS") & ~FACTS.english][0]
    for name, score in (("base", .6), ("tuned", .7)):
        put(folders[name], other, {"test": [entry(score)]})
    assert f"; {len(published_losses(['STS', 'retrieval'], False))} published" in diagnosis_of(folders).sentences[0]


def test_items_bound_the_error_of_a_mean(folders):
    tasks = diagnosis_of(folders).scores.set_index("task")
    row = tasks.loc[RETRIEVAL[0]]
    assert row.error == pytest.approx(
        ((row.base * (1 - row.base) + row.tuned * (1 - row.tuned)) / FACTS["items"][RETRIEVAL[0]]) ** .5)
    assert tasks.error[STS].isna().all(), "a correlation is no mean over items"
    put(folders["tuned"], RETRIEVAL[0], {"test": [entry(.4)]})
    [sentence] = [text for text in diagnosis_of(folders).sentences if "number of items" in text]
    assert sentence.startswith("10 of 18 tasks have a score that is a mean")
    assert f": {RETRIEVAL[0]} −20.0. Of the others" in sentence


def test_what_was_trained_on_counts_by_itself(folders):
    diagnosis = diagnosis_of(folders, trained=["", *STS[:6], " "])
    assert diagnosis.verdicts.test.tolist() == ["all tasks", "all tasks, trained on", "STS, trained on", "retrieval"]
    assert diagnosis.sentences[0].startswith("Of 12 tasks not known to be trained on")
    assert [result.like for result in diagnosis.decision.results] == [False, True]
    assert diagnosis.sentences[-1] == f"Trained on: {', '.join(STS[:6])}. That is 6 of 18 tasks."
    declared = {"name": "me/tuned", "training_datasets": {STS[0]: ["train"]}}
    (folders["tuned"] / "model_meta.json").write_text(json.dumps(declared))
    assert (diagnosis_of(folders).sentences[-1] == f"Trained on, as its model_meta.json declares: {STS[0]}. That is 1 "
                                                   "of 18 tasks.")
    assert f"Without a verdict, since it takes five tasks of a kind: {STS[0]}." in diagnosis_of(folders).sentences
    (folders["tuned"] / "model_meta.json").unlink()
    assert diagnosis_of(folders).sentences[-1] == "Nothing is declared to be trained on: --trained names what was."
    assert is_same_data("MSMARCO.v2", "msmarco") and not is_same_data("NQ", "FiQA2018")


def test_better_on_trained_tasks_alone_is_no_reason_to_ship(folders):
    for task in STS:
        put(folders["tuned"], task, {"test": [entry(.65 + .001 * len(task))]})
    for task in RETRIEVAL:
        (folders["tuned"] / f"{task}.json").unlink()
    assert diagnosis_of(folders,
                        trained=STS).decision.heading == "Better in distribution; new data were not tested."
    assert diagnosis_of(folders).decision.call == "ship"


@pytest.mark.parametrize("fell, of, call", [(19, 21, "do not ship"), (7, 7, "do not ship"), (4, 5, "cannot tell"),
                                            (10, 20, "cannot tell")])
@pytest.mark.parametrize("seed", range(3))
def test_all_tasks_have_one_verdict(tmp_path, fell, of, call, seed):
    "Whatever kinds they are of; a kind of few tasks has none, and is named."
    rng = np.random.default_rng(seed)
    names = rng.permutation(FACTS.index)[:of]
    for number, task in enumerate(names):
        by = rng.uniform(.05, .27) * (-1 if number < fell else 1)
        for model, score in (("base", .6), ("tuned", .6 + by)):
            put(tmp_path / model / "lab/1", task, {"test": [entry(score)]})
    found = diagnose_results(tmp_path / "base", tmp_path / "tuned")
    assert found.decision.call == call
    assert found.verdicts.test[0] == "all tasks"
    assert "test=all tasks" in found.decision.verdict()
    kinds = FACTS.kind[names].value_counts()
    assert {*found.verdicts.test[1:]} == {*kinds[kinds >= 5].index} and "more tasks" not in found.decision.reason


@pytest.mark.parametrize("unknown", [None, "", "no_revision_available", "unknown"])
@pytest.mark.parametrize("model", ["base", "tuned"])
def test_an_unknown_version_of_the_data_is_that_of_the_other_folder(folders, unknown, model):
    before = diagnosis_of(folders).verdicts
    for path in folders[model].glob("*.json"):
        content = json.loads(path.read_text())
        if "scores" in content:
            path.write_text(json.dumps(content | {"dataset_revision": unknown}))
    found = diagnosis_of(folders)
    assert found.verdicts.equals(before)
    assert any("18 scores of an unknown version of the data" in text for text in found.warnings)


@pytest.mark.parametrize("score", ["0.57", "57.2", "high", 57.2, float("inf")])
@pytest.mark.parametrize("model", ["base", "tuned"])
def test_a_score_that_is_a_text_or_no_fraction_is_refused_and_named(folders, score, model):
    "Percents in quotation marks beside fractions would be a gain of fifty points."
    put(folders[model], STS[0], {"test": [entry(score)]})
    with pytest.raises(DataError, match=rf"{STS[0]}.json: a main score is a number, a fraction .* found '?{score}'? "):
        diagnosis_of(folders)


@pytest.mark.parametrize("name", [f"{STS[0]}.json", "model_meta.json"])
def test_two_objects_in_a_file_are_refused(folders, name):
    path = folders["tuned"] / name
    path.write_text(2 * path.read_text())
    with pytest.raises(DataError, match=f"{name}: one object is expected, found 2"):
        diagnosis_of(folders)


@pytest.mark.parametrize("few", [2, 4])
def test_a_few_tasks_trained_on_decide_nothing_beside_many(folders, few):
    "Two that rose and fell by eight points leave open what the sixteen others show."
    for number, task in enumerate(STS[:few]):
        put(folders["tuned"], task, {"test": [entry(.6 + .08 * (-1) ** number)]})
    for number, task in enumerate([*STS[few:], *RETRIEVAL]):
        put(folders["tuned"], task, {"test": [entry(.62 + .001 * number)]})
    found = diagnosis_of(folders, trained=STS[:few])
    assert found.decision.call == "ship" and found.verdicts.test[found.verdicts.decides].tolist() == ["all tasks"]
    assert "loses less than 1 point on average over tasks" in found.decision.reason, "on one of them it may lose more"
    (alone,) = [text for text in found.sentences if "it takes five tasks of a kind: " in text]
    assert all(task in alone for task in STS[:few])


@pytest.mark.parametrize("score", [[.1, .2], float("nan"), None, True])
def test_a_score_that_is_no_number_is_left_out_and_named(folders, score):
    put(folders["tuned"], STS[0], {"test": [entry(score)]})
    diagnosis = diagnosis_of(folders)
    assert diagnosis.warnings == [
        "Left out: 1 score that one folder alone has for this split, subset and version of the data "
        f"(dataset_revision), or that is no number in the other: {STS[0]} (test, default, a)."]
    assert len(diagnosis.scores) == 17


def test_splits_subsets_tasks_and_versions_of_data_of_one_folder_alone_are_left_out_and_named(folders):
    put(folders["tuned"], STS[0], {"test": [entry(.5), entry(.9, "de")]})
    put(folders["tuned"], STS[1], {"dev": [entry(.5)]})
    put(folders["tuned"], STS[2], {"test": [entry(.5)]}, revision="b")
    (folders["tuned"] / f"{STS[3]}.json").unlink()
    put(folders["tuned"], STS[4], None)
    diagnosis = diagnosis_of(folders)
    [warning] = diagnosis.warnings
    parts = [(STS[0], "test, de, a"), (STS[1], "dev, default, a"), (STS[1], "test, default, a"),
             (STS[2], "test, default, a"), (STS[2], "test, default, b"),
             (STS[3], "test, default, a"), (STS[4], "test, default, a")]
    assert warning.startswith("Left out: 7 scores") and all(f"{task} ({place})" in warning for task, place in parts)
    assert diagnosis.scores.set_index("task").tuned[STS[0]] == .5 and len(diagnosis.scores) == 14


def no_task_in_common(folders):
    other = folders["tuned"].parents[2] / "other"
    put(other, "SomethingElse", {"test": [entry(.5)]})
    return folders["base"], other


def one_in_common(folders):
    other = folders["tuned"].parents[2] / "other"
    put(other, STS[0], {"test": [entry(.5)]})
    return folders["base"], other


@pytest.mark.parametrize("bad, message", [
    (lambda of: (of["base"], of["base"].parent), "all scores are the same, so one of the names is wrong"),
    (no_task_in_common, "other: 5 tasks in common, .* are expected, .*; base has 18 and tuned has 1; found none"),
    (one_in_common, f"other: 5 tasks in common, .* are expected, .*; found {STS[0]}"),
], ids=lambda value: getattr(value, "__name__", ""))
def test_bad_folders_get_a_sentence(folders, bad, message):
    with pytest.raises(DataError, match=message):
        diagnose_results(*bad(folders))


def shell(*arguments):
    return CliRunner().invoke(app, ["diagnose-results", *map(str, arguments)])


def given(folders):
    return [text for name, folder in folders.items() for text in (f"--{name}", str(folder))]


def test_the_command_prints_the_verdict_and_writes_the_page(folders, tmp_path):
    out = tmp_path / "out"
    run = shell(*given(folders), "--trained", "MSMARCO", "--out", out, "--fail-on", "worse", "--overwrite")
    assert run.exit_code == 1, run.output
    lines = run.output.splitlines()
    assert lines[0].startswith("Do not ship. `all tasks` got worse.")
    assert lines[-2] == "--fail-on worse: all tasks"
    assert lines[-1].startswith("VERDICT: worse | metric=main_score")
    page = (out / "index.html").read_text()
    made.read_page(page)
    assert "The mean change over all tasks decides" in page
    assert "over resamples that both models share" not in page
    assert "--scores gives intervals" in run.output
    again = shell(*given(folders), "--out", out, "--overwrite", "--verdict-words")
    assert again.exit_code == 0 and again.output.splitlines()[-1].startswith("VERDICT: REGRESSION | score=0.59")
    assert re.search(r"debias-nb diagnose-results --base \S+ --tuned \S+ --trained MSMARCO --margin 1(.0)?", page)


def test_one_folder_alone_is_refused(folders):
    run = shell(*given(folders)[:2])
    assert run.exit_code == 2 and "Missing option" in run.output
