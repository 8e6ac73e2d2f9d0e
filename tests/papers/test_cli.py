"""The command line from outside: what is refused before a kernel starts, how it ends where something fails, and what
pages, numbers and agreement say."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import papermill
import pytest
import yaml
from typer.testing import CliRunner

from debias_nb.papers import notebooks
from debias_nb.runs import runner
from debias_nb.commands.cli import app
from debias_nb.checks import ConfigError
from debias_nb.runs.config import load_experiment
from debias_nb.runs.origin import processor
from debias_nb.runs.records import Store
from debias_nb.papers.pages.facts import Facts
from made import experiment, record_of

ROOT = Path(__file__).parents[2]
ENV = os.environ | {
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
SETTINGS = {"title": "A toy", "scale": "none", "encoders": [], "methods": [], "blocks": []}
PARAMETERS = 'profile: str = "planted"\nseeds: list[int] = None\nweight: float = 0.1\nfresh: bool = False'


def shell(*args):
    "The command line in this process."
    return CliRunner().invoke(app, [str(arg) for arg in args])


def notebook(*cells):
    kernel = {"name": "python3", "display_name": "python3", "language": "python"}
    return nbformat.v4.new_notebook(cells=list(cells), metadata={"kernelspec": kernel})


class Project:
    "A project of toy notebooks, one code cell each."

    def __init__(self, folder):
        self.folder = folder
        self.notebooks = folder / "nbs/papers/toy"
        self.executed = folder / "_runs/notebooks/toy"
        self.notebooks.mkdir(parents=True)
        (folder / "experiments/studies/toy").mkdir(parents=True)
        shutil.copy(ROOT / "settings.ini", folder)

    def add(self, name, body="", parameters=PARAMETERS, tags=("parameters",), copies=1):
        code = nbformat.v4.new_code_cell
        declared = [code(parameters, metadata={"tags": list(tags)}) for _ in range(copies)]
        nbformat.write(notebook(*declared, code(body)), self.notebooks / f"{name}.ipynb")
        self.configure(name)

    def configure(self, name, profile="planted", **changes):
        path = self.folder / f"experiments/studies/toy/{name}.yaml"
        others = yaml.safe_load(path.read_text()) if path.exists() else {}
        path.write_text(yaml.safe_dump(others | {profile: SETTINGS | changes}, sort_keys=False))


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


@pytest.fixture
def no_kernel(monkeypatch):
    "Whoever starts a notebook fails the test."
    monkeypatch.setattr(papermill, "execute_notebook", lambda *a, **k: pytest.fail("a kernel was about to start"))


# refused before a kernel starts

@pytest.fixture(scope="module")
def odd_notebooks(tmp_path_factory):
    "A project in which one notebook is good, and others are wrong in one way each."
    project = Project(tmp_path_factory.mktemp("odd"))
    project.add("good")
    project.configure("good", "small")
    project.add("doubled", copies=2)
    project.add("computed", parameters="seed: int = open(3)")
    project.add("damaged")
    (project.notebooks / "damaged.ipynb").write_text('{"cells": [')
    project.add("mistyped")
    project.configure("mistyped", titel="A toy")
    other = project.folder / "experiments/studies/other"
    other.mkdir()
    shutil.copy(other.with_name("toy") / "good.yaml", other)
    return project


@pytest.mark.parametrize("args, name", [
    (["toy/good", "-p", "sedes=[1]"], "'seeds'"),
    (["toy/good", "-p", "weight=much"], "'much'"),
    (["toy/good", "-p", "seeds"], "'seeds'"),
    (["toy/good", "-p", "seeds=[1"], "seeds"),
    (["toy/good", "-p", "seeds=[1]", "-p", "seeds=[2]"], "seeds is given twice"),
    (["toy/good", "-p", "seeds=[1, 4294967296]"], "seeds must be a whole number from 0 to 4294967295, got 4294967296"),
    (["toy/good", "-p", "profile=small"], "such as --profile small"),
    (["toy/good", "--profile", "paper"], "toy/good.yaml called 'paper'"),
    (["godo"], "'other/good' or 'toy/good'"),
    (["toy/godo"], "'toy/good'"),
    (["../secrets"], "'../secrets'"),
    (["toy/doubled"], "doubled.ipynb"),
    (["toy/computed"], "computed.ipynb"),
    (["toy/damaged"], "damaged.ipynb"),
    (["toy/mistyped"], "experiments/studies/toy/mistyped.yaml, planted: titel"),
])
def test_refused_before_a_kernel_starts(odd_notebooks, no_kernel, monkeypatch, args, name):
    monkeypatch.chdir(odd_notebooks.folder)
    run = shell("run", *args)
    assert run.exit_code == 2 and run.stdout == "", run.output
    assert name in run.stderr
    assert not (odd_notebooks.folder / "_runs").exists()


@pytest.mark.parametrize("variable", ["DEBIAS_NB_DATA", "DEBIAS_NB_MODELS"])
def test_a_folder_that_is_not_there_is_said(project, no_kernel, monkeypatch, variable):
    project.add("good")
    nowhere = project.folder / "nope"
    monkeypatch.setenv(variable, str(nowhere))
    for command in (["run", "toy/good"], ["batch"]):
        run = shell(*command)
        assert run.exit_code == 2 and f"{variable} names {nowhere}" in run.stderr
    assert not (project.folder / "_runs").exists()


OF_A_CLONE = {"show": ["1"], "agree": [], "batch": [], "report": [], "run": ["itvreg/table03"],
              "weights": ["itvreg/table03", "--out", "."], "publish": ["itvreg/table03"]}


@pytest.mark.parametrize("command", OF_A_CLONE)
def test_a_command_of_a_clone_says_so_before_it_asks_for_a_package(tmp_path, monkeypatch, command):
    "A wheel has no seaborn, and whoever installs it would be told next that a clone is needed."
    for name in [name for name in sys.modules if name.startswith("debias_nb.papers.pages")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "seaborn", None) # which cannot be imported
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(app, [command, *OF_A_CLONE[command]])
    assert run.exit_code == 2 and f"and {tmp_path} is not in one" in run.stderr
    assert run.stdout == "" and not list(tmp_path.iterdir())


# running, failing, going on

@pytest.mark.slow
def test_parameters_reach_the_notebook(project, monkeypatch):
    project.add("good", "import os; print(os.getcwd(), seeds, weight, fresh, profile)")
    template = (project.notebooks / "good.ipynb").read_bytes()
    (project.folder / "deep/down").mkdir(parents=True)
    monkeypatch.chdir(project.folder / "deep/down")

    run = shell("run", "toy/good", "-p", "seeds=[7, 8]", "-p", "weight=1e-1", "--fresh")
    assert run.exit_code == 0, run.output
    (notebook,) = project.executed.glob("good.planted.*.ipynb")
    assert f"{project.folder} [7, 8] 0.1 True planted\\n" in notebook.read_text("utf-8")
    assert (project.notebooks / "good.ipynb").read_bytes() == template


def test_a_notebook_that_fails_is_named(project):
    project.add("broken", "None + 0")
    error = shell("run", "toy/broken").exception
    assert isinstance(error, TypeError) and error.__notes__ == ["in broken.ipynb: None + 0"]


def test_a_batch_of_runs_starts_no_kernel_and_asks_for_what_it_is_told(project, no_kernel, monkeypatch):
    for name in ("a", "b"):
        project.add(name)
    (project.folder / "experiments/studies/other").mkdir()
    (project.folder / "experiments/studies/other/c.yaml").write_text(yaml.safe_dump({"planted": SETTINGS}))
    requests = []
    failures, missing = {}, {}
    monkeypatch.setattr(runner, "narrow", lambda settings, **options: requests.append((settings.name, options))
                        or settings)
    monkeypatch.setattr(runner, "run_all", lambda *args, **changes: runner.Outcome({}, missing, failures, []))
    run = shell("batch", "toy/b", "other", "--seeds", "0", "--seeds", "2")
    assert run.exit_code == 0 and run.stdout == "", run.output
    assert requests[:2] == [(name, {"full": False, "seeds": [0, 2]}) for name in ("other/c", "toy/b")]
    failures["toy-s0"] = "the loss is nan"
    run = shell("batch")
    assert run.exit_code == 1 and "failed: toy-s0: the loss is nan" in run.stderr
    missing["toy-s1"] = "a file is missing"
    run = shell("batch")
    assert run.exit_code == 1
    assert "not run: a file is missing" in run.stderr
    assert "not one run at profile planted" in run.stderr
    monkeypatch.setattr(runner, "run_all", lambda *args, **changes: runner.Outcome({"toy-s0": {}}, missing, {}, []))
    assert shell("batch").exit_code == 1, "synthetic data need nothing that another machine has"
    for args, name in (
        (["--profile", "small"], "small"), (["--profile", "plantd"], "'planted'"), (["toy/d"], "'toy/d'"),
        (["--seeds", "two"], "'--seeds'"),
    ):
        run = shell("batch", *args)
        assert run.exit_code == 2 and name in run.stderr, "before anything is run"


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition, seconds=300):
    "Waits for a condition; minutes, where much else runs."
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(.005)


# a background process of a shell starts with SIGINT ignored
STOPPABLE = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
COMMAND_LINE = STOPPABLE + "import sys\nfrom debias_nb.commands.cli import app\napp(sys.argv[1:])"
SLEEPER = r"import os, pathlib, time; pathlib.Path('pid').write_text(f'{os.getpid()}\n'); time.sleep(300)"


@pytest.mark.slow
def test_ctrl_c_ends_the_notebook_too(project):
    project.add("a", SLEEPER)
    pid = project.folder / "pid"
    command = [sys.executable, "-c", COMMAND_LINE, "run", "toy/a"]
    process = subprocess.Popen(command, cwd=project.folder, env=ENV, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted; finished runs are kept" in err
    wait_for(lambda: not alive(int(pid.read_text())))


# experiments that are stopped, or run by several

def ids(runs):
    return [run.id for run in runs]


@pytest.mark.slow
def test_a_worker_that_fails_does_not_stop_the_other(cache, tmp_path):
    fails = experiment(["Finetuned"], [0], learning_rate=1e38).runs()
    runs = experiment(["Finetuned"], [1, 2]).runs()
    out = runner.run_all([*fails, *runs], Store(tmp_path), workers=2, progress=False)
    assert out.failed == {fails[0].id: "step 1: the loss is nan"}
    assert set(out.trained) == set(ids(runs))


def test_runs_whose_records_are_there_import_no_task(monkeypatch):
    monkeypatch.setattr(runner, "task_of", lambda run: pytest.fail(f"{run.task} is imported"))
    runs = runner.narrow(load_experiment("arr/table01", "planted"), seeds=[0]).runs()
    out = runner.run_all(runs, Store(ROOT / "experiments"), progress=False)
    assert list(out.records) == ids(runs) and out.trained == []


@pytest.mark.parametrize("narrowing, name", [
    ({"seeds": [10**23]}, "seeds"), ({"methods": []}, "methods"), ({"weight": float("nan")}, "weight"),
])
def test_what_asks_for_no_runs_is_refused(narrowing, name):
    with pytest.raises(ConfigError, match=name):
        runner.narrow(load_experiment("itvreg/table03", "planted"), **narrowing)


# show and report

ITVREG, OUTREG = (Facts.read()[f"{name}_titles"].estimate for name in ("itvreg", "outreg"))
OF_README = re.search(r"debias-nb show (\S+) --page (\S+)", (ROOT / "README.md").read_text("utf-8")).groups()


@pytest.mark.parametrize("asked, lines", [
    (["itvreg_titles"], [f"itvreg_titles: {ITVREG} by test: ", "  itvreg/table02.small:table2"]),
    ([OUTREG], ["outreg_titles: "]), ([OUTREG[1:4], "--page", "itvreg/table02"], ["outreg_titles: "]),
    ([OF_README[0], "--page", OF_README[1]], ["table", "  again: debias-nb run itvreg/table02"]),
])
def test_a_number_leads_to_its_runs(asked, lines):
    told = shell("show", *asked).stdout.splitlines()
    assert all(any(one.startswith(line) for one in told) for line in lines), told
    assert any("settings: experiments/itvreg/table02.yaml" in one for one in told)
    assert not any(f"−{OUTREG[1:4]}" in one for one in told)


@pytest.mark.parametrize("asked, message", [
    (["99.9"], "no fact of reports/facts.csv"), (["99.9", "--page", "itvreg/table02"], "neither a cell of ours"),
    (["1", "--page", "itvreg/table2"], "did you mean 'itvreg/table02'"),
])
def test_a_number_that_is_nowhere_is_refused(asked, message):
    run = shell("show", *asked)
    assert run.exit_code == 2 and message in run.stderr


WITHOUT_TORCH = """
import sys
from typer.testing import CliRunner
from debias_nb.commands.cli import app
done = CliRunner().invoke(app, sys.argv[1:])
print(done.exit_code, "torch" in sys.modules, done.output)
"""


@pytest.mark.slow
@pytest.mark.parametrize("command, exit_code, words", [
    ("show itvreg_titles", 0, ""), ("report scan/table01 --out FOLDER", 0, ""),
    ("diagnose --base one --tuned other --test new=FOLDER/new.csv", 2, "a (no texts)"), # what is wrong in a file
])
def test_what_trains_nothing_needs_no_torch(command, exit_code, words, tmp_path):
    (tmp_path / "new.csv").write_text("a,b,c\n1,2,3\n")
    arguments = command.replace("FOLDER", str(tmp_path)).split()
    told = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *arguments], cwd=ROOT, env=ENV, capture_output=True,
                          text=True).stdout
    assert told.startswith(f"{exit_code} False") and words in told, told


# agreement

@pytest.fixture
def nothing_run(tmp_path, monkeypatch):
    "A project without configurations and records."
    (tmp_path / "experiments").mkdir()
    shutil.copy(ROOT / "settings.ini", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEBIAS_NB_RUNS", raising=False)
    return tmp_path


BF16 = {"kind": "transformer", "pretrain": None, "world": None, "name": "minilm", "dtype": "bf16"}


@pytest.mark.parametrize("encoder, cpu, recorded, here, exit_code, count", [
    ({}, "another", {"auc05": .5}, {"auc05": .50009}, 0, 1),
    ({}, "another", {"auc05": .5}, {"auc05": .5002}, 1, 1),
    ({}, "another", {"auc05": .5, "auc": .8}, {"auc05": .5}, 1, 1),
    ({"kind": "transformer"}, "another", {"auc05": .5}, {"auc05": .509}, 0, 1),
    ({"kind": "transformer"}, "another", {"auc05": .5}, {"auc05": .511}, 1, 1),
    ({"kind": "transformer"}, "another", {"queries": 13.}, {"queries": 13.005}, 1, 1), # a count
    (BF16 | {"dtype": "fp32"}, "another", {"auc05": .5}, {"auc05": .511}, 1, 1),
    (BF16, "another", {"auc05": .5}, {"auc05": .8}, 1, 0),
    (BF16, processor(), {"auc05": .5}, {"auc05": .8}, 1, 1),
])
def test_what_is_compared_and_how_closely(nothing_run, encoder, cpu, recorded, here, exit_code, count):
    run, = experiment(["Finetuned"], [0]).runs()
    run = run.model_copy(update={"encoder": run.encoder.model_copy(update=encoder)})
    record = record_of(run, {"iid": recorded})
    record["environment"]["cpu"] = cpu
    Store(nothing_run / "experiments").append(record)
    Store(nothing_run / "_runs").append(record_of(run, {"iid": here}))
    result = shell("agree")
    assert result.exit_code == exit_code, result.stdout
    assert f"{count} of 1 committed planted runs were made here too" in result.stdout
    assert (f"{run.id}, iid, " in result.stdout) == bool(exit_code)
    assert ("1 runs are not compared: " in result.stdout) == (not count)


# one run alone

def test_one_run_is_made_alone_and_an_unknown_id_is_refused(project, monkeypatch):
    settings = experiment(["Finetuned"], [0, 1])
    run_id = settings.runs()[1].id
    monkeypatch.setattr(runner, "load_experiment", lambda name, profile: settings)
    run_ids = []
    monkeypatch.setattr(runner, "execute", lambda run: run_ids.append(run.id)
                        or record_of(run, {"unseen": {"auc05": .5}}))
    assert shell("run", "toy/a", "--only", run_id).exit_code == 0 and run_ids == [run_id]
    run = shell("run", "toy/a", "--only", run_id[:-1])
    assert run.exit_code == 2 and f"did you mean '{run_id}'" in run.stderr
    assert shell("run", "toy/a", "--only", run_id, "--fresh").exit_code == 0 and run_ids == [run_id, run_id]


def test_what_changes_nothing_in_one_run_is_refused(project):
    run = shell("run", "toy/a", "--only", "an-id", "--full")
    assert run.exit_code == 2 and "leave out -p and --full" in run.stderr


# exit codes

def test_other_contents_than_published_are_no_success(data):
    assert shell("data").exit_code == 0
    (data / "quora").mkdir()
    (data / "quora/nlx-quora_test.tsv").write_text("1\ta\tb\n")
    run = shell("data")
    assert run.exit_code == 1
    assert "quora/nlx-quora_test.tsv" in run.stderr


def test_a_run_without_a_record_is_no_success(tmp_path, monkeypatch):
    "Seeds that nothing was run for: no number of other seeds is shown, and the exit code says so."
    monkeypatch.setattr(notebooks, "execute_notebook", lambda *args: tmp_path / "executed.ipynb")
    monkeypatch.setattr(runner, "run", lambda *args, **changes: runner.Outcome({}, {}, {}, []))
    run = shell("run", "itvreg/table03", "--profile", "small", "-p", "seeds=[77]")
    assert run.exit_code == 1 and "nothing of itvreg/table03 at small that was asked for has been run" in run.output
    assert "| Finetuned" not in run.output

