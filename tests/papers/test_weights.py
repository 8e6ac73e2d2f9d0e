"Tuned encoders of recorded runs: the same bits twice, folders that load, and metrics that tell another encoder apart."
import re
import shutil

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from typer.testing import CliRunner

from debias_nb.checks import RunnerError
from debias_nb.commands.cli import app
from debias_nb.encoders.safe_folders import WEIGHTS_FILE
from debias_nb.papers import weights
from debias_nb.runs.runner import finished, load, store_for

TABLES = {"pairs": "itvreg/table05", "authors": "arr/table02", "answers": "scan/table06"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    "Of each task the planted run that took the shortest time, and its folder."
    out = tmp_path_factory.mktemp("weights")
    saved_runs = {}
    for task, table in TABLES.items():
        runs = [run for run in load(table, "planted").runs if run.training]
        records = finished(runs, store_for("small"))
        run = min((run for run in runs if run.id in records), key=lambda run: records[run.id]["seconds"])
        saved_runs[task] = run, weights.save(run, out)
    return saved_runs


@pytest.mark.parametrize("task", TABLES)
def test_a_folder_gives_the_metrics_of_the_record(folders, task):
    result = weights.check_weights(*folders[task])
    assert len(result.differences) > 5 and not result.differences["apart"].any()
    assert re.fullmatch("[0-9a-f]{64}", result.sha256)


@pytest.mark.parametrize("task", ["pairs", "authors"])
def test_weights_made_twice_are_the_same(folders, task, tmp_path):
    run, folder = folders[task]
    assert weights.check_weights(run, weights.save(run, tmp_path)).sha256 == weights.check_weights(run, folder).sha256


@pytest.mark.parametrize("task", ["pairs", "authors"])
def test_sentence_transformers_loads_a_folder(folders, task):
    _, folder = folders[task]
    vectors = SentenceTransformer(str(folder)).encode(["a text", "another text"])
    assert len(vectors) == 2 and np.isfinite(vectors).all()


def test_a_folder_with_other_weights_is_told_apart(folders, tmp_path):
    run, folder = folders["pairs"]
    damaged = shutil.copytree(folder, tmp_path / run.id)
    state = load_file(damaged / WEIGHTS_FILE)
    save_file({name: -weight.flip(0) for name, weight in state.items()}, damaged / WEIGHTS_FILE)
    result = weights.check_weights(run, damaged)
    assert result.differences["apart"].any()
    with pytest.raises(RunnerError, match="not listed"):
        weights.publish_weights(TABLES["pairs"], "planted", result, tmp_path)
    outcome = CliRunner().invoke(app, ["weights", TABLES["pairs"], "--out", str(tmp_path), "--only", run.id])
    assert outcome.exit_code == 1 and run.id in outcome.stderr and "sha256" in outcome.stdout


def test_what_is_listed_are_runs_with_records():
    rows = weights.listed_rows()
    assert rows.run.is_unique
    assert set(rows.profile) == {"small"}
    assert set(rows.table.str.partition("/")[0]) == {"itvreg", "arr", "scan"}
    for name in rows.table.unique():
        runs = weights.runs_of(name, "small")
        assert [run.id for run in runs] == rows[rows.table == name].run.tolist()
        assert all(map(weights.record_of, runs))


def test_a_run_that_is_none_is_refused(tmp_path):
    run = CliRunner().invoke(app, ["weights", "itvreg/table05", "--out", str(tmp_path), "--only", "none"])
    assert run.exit_code == 2 and "has no run 'none' that trains" in run.stderr
    run = CliRunner().invoke(app, ["weights", "itvreg/table05", "--out", str(tmp_path)])
    assert run.exit_code == 2 and "itvreg/table02 --profile small" in run.stderr
