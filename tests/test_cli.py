"""The command line from outside: what is refused before a kernel starts, how it ends where something fails, and what
status, pages and agreement say."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import nbformat
import numpy as np
import papermill
import pytest
import yaml
from typer.testing import CliRunner

from debias_nb.repro import cli

from debias_nb.repro.pages import report as pages

from debias_nb.repro.runs import runner
from debias_nb.repro.cli import app
from debias_nb.config import ConfigError
from debias_nb.data.questions import load_questions
from debias_nb.data.registry import UnknownData
from debias_nb.repro.config import Profile, load_experiment
from debias_nb.repro.pages.report import executed
from debias_nb.repro.runs.records import Store, WorkerLost, comparable, failed_record, make_record, processor, read
from debias_nb.repro.pages.frame import refuse_unknown_parameters, row_name
from debias_nb.repro.runs.tasks.common import lacking
from made import STATIC, experiment, shrunk

ROOT = Path(__file__).parents[1]
ENV = os.environ | {
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
SETTINGS = {"title": "A toy", "scale": "none", "encoders": [], "methods": [], "blocks": []}
PARAMETERS = 'profile: str = "planted"\nseeds: list[int] | None = None\nweight: float = 0.1\nfresh: bool = False'
WITHOUT_CLAIMS = shutil.ignore_patterns("claims.ipynb", "findings.ipynb") # they speak of all configurations
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def shell(*args):
    "The command line in this process."
    return CliRunner().invoke(app, [str(arg) for arg in args])


def outside(*args, cwd, **env):
    "The command line in a process of its own."
    command = [sys.executable, "-m", "debias_nb.repro.cli", *args]
    return subprocess.run(command, cwd=cwd, env=ENV | env, capture_output=True, text=True, timeout=500)


def run_python(code, *args, cwd=ROOT, **env):
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, cwd=cwd, env=ENV | env, capture_output=True, text=True)


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
        (folder / "configs/toy").mkdir(parents=True)
        shutil.copy(ROOT / "settings.ini", folder)

    def add(self, name, body="", parameters=PARAMETERS, tags=("parameters",), copies=1):
        code = nbformat.v4.new_code_cell
        declared = [code(parameters, metadata={"tags": list(tags)}) for _ in range(copies)]
        nbformat.write(notebook(*declared, code(body)), self.notebooks / f"{name}.ipynb")
        self.configure(name)

    def configure(self, name, profile="planted", **changes):
        settings = SETTINGS | {"paper": "toy", "experiment": name, "profile": profile} | changes
        (self.folder / f"configs/toy/{name}.{profile}.yaml").write_text(yaml.safe_dump(settings))


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
    project.add("untagged", tags=())
    project.add("doubled", copies=2)
    project.add("computed", parameters="seed: int = open(3)")
    project.add("plain", parameters="seed = 3")
    project.add("odd", parameters="profile: str = \"planted\"\nkind: dict = {}")
    project.add("broken", parameters="seed: int = 3\nprofile: str =")
    project.add("damaged")
    (project.notebooks / "damaged.ipynb").write_text('{"cells": [')
    project.add("mistyped")
    project.configure("mistyped", titel="A toy")
    other = project.folder / "nbs/papers/other"
    other.mkdir()
    shutil.copy(project.notebooks / "good.ipynb", other)
    return project


WHOLE = "--seeds wants whole numbers with commas between them, such as 0,1,2; got "


@pytest.mark.parametrize("args, words", [
    (["toy/good", "-p", "sedes=[1]"], "no parameter in good called 'sedes'; did you mean 'seeds'?"),
    (["toy/good", "-p", "workers=2"],
     "no parameter in good called 'workers' (known: 'profile', 'seeds', 'weight', 'fresh')"),
    (["toy/good", "--workers", "2"], "no parameter in good called 'workers'"),
    (["toy/good", "-p", "weight=much"], "good: weight must be float, got 'much'"),
    (["toy/good", "-p", "weight=true"], "weight must be float, got True"),
    (["toy/good", "-p", "weight=null"], "weight must be float, got None"),
    (["toy/good", "-p", "seeds=1.5"], "seeds must be list[int] | None, got 1.5"),
    (["toy/good", "-p", "seeds=[1.0]"], "seeds must be list[int] | None, got [1.0]"),
    (["toy/good", "--seeds", "1,two"], WHOLE + "'1,two'"),
    (["toy/good", "--seeds", "0,,1"], WHOLE + "'0,,1'"),
    (["toy/good", "--seeds", ""], "such as 0,1,2; got ''"),
    (["toy/good", "--seeds", "-1"], "such as 0,1,2; got '-1'"),
    (["toy/good", "--seeds", "9" * 5000], "such as 0,1,2; got '999"),
    (["good"], "no template 'good'; did you mean 'other/good' or 'toy/good'?"),
    (["doubled"], "no template 'doubled'; did you mean 'toy/doubled'?"),
    (["godo"], "no template 'godo'; did you mean 'other/good' or 'toy/good'?"),
    (["toy/good", "-p", "fresh=1"], "fresh must be bool, got 1"),
    (["toy/good", "-p", "seeds"], "-p wants name=value, got 'seeds'"),
    (["toy/good", "-p", "seeds=[1"], "-p seeds: '[1' is no YAML value"),
    (["toy/good", "-p", "seeds=[1]", "--seeds", "2"], "seeds is given twice"),
    (["toy/good", "-p", "weight=1", "-p", "weight=2"], "weight is given twice"),
    (["toy/good", "-p", "profile=small"], "profile is given twice, as -p and as --profile"),
    (["toy/untagged"], "untagged.ipynb: 0 code cells are tagged `parameters`, exactly one must be"),
    (["toy/doubled"], "doubled.ipynb: 2 code cells are tagged `parameters`, exactly one must be"),
    (["toy/computed"], "computed.ipynb: parameters are lines of the form `name: type = literal`, "),
    (["toy/computed"], "name 'open' is not defined"),
    (["toy/plain"], "plain.ipynb: the line of seed is not `name: type = literal`"),
    (["toy/broken"], "broken.ipynb: parameters line 2: invalid syntax"),
    (["toy/odd", "-p", "kind=7"],
     "types made of int, float, str, bool, list and None: name 'dict' is not defined"),
    (["toy/damaged"], "damaged.ipynb: no notebook"),
    (["toy/godo"], "no template 'toy/godo'; did you mean 'toy/good'?"),
    (["../secrets"], "no template '../secrets'"),
    (["toy/good", "--profile", "paper"], "no configuration 'toy/good.paper'; did you mean 'toy/good."),
    (["toy/mistyped"], "configs/toy/mistyped.planted.yaml: titel: unknown key; did you mean 'title'?"),
])
def test_refused_before_a_kernel_starts(odd_notebooks, no_kernel, monkeypatch, args, words):
    monkeypatch.chdir(odd_notebooks.folder)
    done = shell("run", *args)
    assert done.exit_code == 2 and done.stdout == "", done.output
    assert done.stderr.startswith("debias-nb: ") and words in done.stderr
    assert not (odd_notebooks.folder / "_runs").exists()


@pytest.mark.parametrize("command", ["run toy/good", "batch"])
def test_a_profile_that_is_none_is_refused_with_those_there_are(project, no_kernel, command):
    project.add("good")
    done = shell(*command.split(), "--profile", "plantd")
    assert done.exit_code == 2 and done.stdout == "", done.output
    assert "'plantd' is not one of 'planted', 'small', 'paper'" in done.stderr
    assert get_args(cli.Profile)[0] == Profile, "which are those of configurations"


def test_papermill_itself_would_have_run_it(project):
    "Why the checks are there: a parameter that no cell declares stops nothing."
    project.add("untagged", "print(weight)", tags=())
    done = papermill.execute_notebook(
        project.notebooks / "untagged.ipynb", project.folder / "out.ipynb", parameters={"wieght": 7},
        progress_bar=False, kernel_name="python3")
    assert done.cells[-1].outputs[0].text == "0.1\n"


def test_a_study_refuses_what_its_notebook_does_not_declare(monkeypatch):
    "Papermill writes every parameter it is given below the cell that declares them."
    given = ["", "seeds: list = None", "# Parameters\nseeds = [0]\n"]
    shell = SimpleNamespace(user_ns={"__annotations__": {"seeds": list}, "In": given})
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    refuse_unknown_parameters()
    given[-1] = "# Parameters\nseed = [0]\n"
    with pytest.raises(ConfigError, match="no parameter 'seed'; did you mean 'seeds'"):
        refuse_unknown_parameters()


def test_the_real_templates_declare_what_the_options_give(no_kernel):
    "Every option of `run` is a parameter of the table's notebook; other profiles and names are refused here too."
    declared = cli.declared(ROOT / "nbs/papers/itvreg/table03.ipynb")
    assert declared.keys() == {"profile", "seeds", "methods", "encoders", "weight", "full", "workers", "fresh", "own"}
    refused = [
        (["itvreg/tabel03"], "did you mean 'itvreg/table03'?"),
        (["itvreg/table03", "-p", "encoder=[tiny]"], "did you mean 'encoders'?"),
        (["itvreg/table03", "-p", "weight=abc"], "weight must be float | None, got 'abc'"),
    ]
    for args, words in refused:
        done = shell("run", *args)
        assert done.exit_code == 2 and words in done.stderr


def test_a_folder_is_the_one_that_is_seen_from_the_current_folder(project, monkeypatch):
    "The notebook, which is executed in the project's folder, sees the same one."
    project.add("good", "import os; places = [os.environ[name] for name in sorted(os.environ) if 'DEBIAS_NB_' in name]\nplaces")
    below = project.folder / "below"
    (below / "data").mkdir(parents=True)
    monkeypatch.chdir(below)
    for variable, value in (("DATA", "data"), ("MODELS", str(below)), ("RUNS", "runs"), ("CACHE", "~/kept")):
        monkeypatch.setenv(f"DEBIAS_NB_{variable}", value)
    monkeypatch.setenv("HOME", str(below))
    shell("run", "toy/good")
    executed = nbformat.read(project.executed / "good.planted.ipynb", as_version=4)
    places = [below / "kept", below / "data", below, below / "runs"]
    assert executed.cells[-1].outputs[0]["data"]["text/plain"].count(str(below)) == len(places)
    assert all(repr(str(place)) in executed.cells[-1].outputs[0]["data"]["text/plain"] for place in places)


@pytest.mark.parametrize("command", [["run", "toy/good"], ["batch"]], ids=["run", "batch"])
@pytest.mark.parametrize("variable", ["DEBIAS_NB_DATA", "DEBIAS_NB_MODELS"])
def test_a_folder_that_is_not_there_is_said(project, no_kernel, monkeypatch, command, variable):
    project.add("good")
    nowhere = project.folder / "nope"
    monkeypatch.setenv(variable, str(nowhere))
    done = shell(*command)
    assert done.exit_code == 2 and done.stderr == f"debias-nb: {variable} names {nowhere}, which is no folder\n"
    assert not (project.folder / "_runs").exists()


@pytest.mark.parametrize(
    "command", [["run", "itvreg/table03"], ["batch"], ["report"], ["status"], ["agree"]], ids=lambda c: c[0])
def test_nothing_is_written_into_a_clone_somewhere_else(tmp_path, monkeypatch, no_kernel, command):
    "The package is that of the clone, and the current folder is not in it."
    monkeypatch.chdir(tmp_path)
    done = shell(*command)
    assert done.exit_code == 2 and f"and {tmp_path} is not in one" in done.stderr
    assert done.stdout == "" and not list(tmp_path.iterdir())


def test_the_shell_completes_names(project):
    project.add("good")
    code = "import sys; sys.argv = ['debias-nb']; from debias_nb.repro.entry import main; main()"
    for words, found in (("run to", ["toy/good"]), ("run toy/good --profile p", ["planted", "paper"])):
        count = len(words.split())
        env = {"_DEBIAS_NB_COMPLETE": "complete_bash", "COMP_WORDS": f"debias-nb {words}", "COMP_CWORD": str(count)}
        assert run_python(code, cwd=project.folder, **env).stdout.split() == found


# running, failing, going on

def text(path):
    "What the cells of an executed notebook have printed or shown as Markdown."
    found = []
    for cell in nbformat.read(path, 4).cells:
        for output in cell.get("outputs", []):
            said = output.get("text") or output.get("data", {}).get("text/markdown")
            if said:
                found.append(said)
    return found


def register_broken_kernel(folder):
    "Another kernel under the name that notebooks ask for."
    kernel = folder / "kernels/python3/kernel.json"
    kernel.parent.mkdir(parents=True)
    spec = {"argv": ["/bin/false", "{connection_file}"], "display_name": "another", "language": "python"}
    kernel.write_text(json.dumps(spec))


def test_parameters_reach_the_notebook_and_its_kernel_is_this_python(project, monkeypatch):
    "Whatever kernel somebody has registered under the name that the notebook asks for."
    register_broken_kernel(project.folder / "jupyter")
    monkeypatch.setenv("JUPYTER_PATH", str(project.folder / "jupyter"))
    project.add("good", "import os, sys; print(sys.executable, os.getcwd(), seeds, weight, fresh, profile)")
    template = (project.notebooks / "good.ipynb").read_bytes()
    (project.folder / "deep/down").mkdir(parents=True)
    monkeypatch.chdir(project.folder / "deep/down")

    done = shell("run", "toy/good", "--seeds", "7,8", "-p", "weight=1e-1", "--fresh")
    assert done.exit_code == 0 and "toy/good.planted.seeds=7,8.weight=0.1.ipynb" in done.stdout
    said = f"{sys.executable} {project.folder} [7, 8] 0.1 True planted\n"
    assert text(project.executed / "good.planted.seeds=7,8.weight=0.1.ipynb") == [said]
    assert (project.notebooks / "good.ipynb").read_bytes() == template


def test_a_batch_goes_on_after_failures(project):
    project.add("a_raises", "print('before'); raise ValueError('the loss of nerve'); print('after')")
    project.add("b_untagged", tags=())
    project.add("c_dies", "import os; os._exit(3)")
    project.add("d_mistyped")
    project.configure("d_mistyped", titel="A toy")
    project.add("e_other_profile")
    configs = project.folder / "configs/toy"
    (configs / "e_other_profile.planted.yaml").rename(configs / "e_other_profile.small.yaml")
    project.add("z_good", "print('it ran')")

    done = outside("batch", cwd=project.folder)
    assert done.returncode == 1 and "1 of 5 notebooks at profile planted executed" in done.stdout, done.stderr
    failed = [line for line in done.stderr.splitlines() if line.startswith("failed: ")]
    expected = [
        "toy/a_raises: ValueError: the loss of nerve", "toy/b_untagged: ", "toy/c_dies: DeadKernelError",
        "toy/d_mistyped: configs/toy/d_mistyped.planted.yaml"]
    assert len(failed) == 4, done.stderr
    for line, words in zip(failed, expected):
        assert words in line

    assert text(project.executed / "z_good.planted.ipynb") == ["it ran\n"]
    assert text(project.executed / "a_raises.planted.ipynb")[-1] == "before\n"
    assert not (project.executed / "b_untagged.planted.ipynb").exists()
    for name, error in (("a_raises", "ValueError: the loss of nerve"), ("c_dies", "DeadKernelError")):
        done = shell("run", f"toy/{name}")
        assert done.exit_code == 1 and f"toy/{name} at planted failed: {error}" in done.stderr


def test_a_batch_of_runs_starts_no_kernel(project, no_kernel, monkeypatch):
    project.add("good")
    failed = {}
    monkeypatch.setattr(cli, "_run_first", lambda *args: failed)
    done = shell("batch", "--runs")
    assert done.exit_code == 0 and "toy/good: no table" in done.stdout and "executed" not in done.stdout, done.output
    failed["toy-s0"] = "the loss is nan"
    done = shell("batch", "--runs")
    assert done.exit_code == 1 and "failed: toy-s0: the loss is nan" in done.stderr


def test_a_batch_of_some_seeds_asks_for_no_others(project, no_kernel, monkeypatch):
    project.add("good")
    asked = []
    monkeypatch.setattr(cli, "_run_first", lambda names, profile, what, *more: asked.append(what) or {})
    assert shell("batch", "--runs", "--seeds", "0,2").exit_code == 0
    assert asked == [{"full": False, "seeds": [0, 2]}]
    done = shell("batch", "--runs", "--seeds", "0,two")
    assert done.exit_code == 2 and "--seeds wants whole numbers" in done.stderr and len(asked) == 1


def test_a_notebook_of_a_batch_gets_the_parameters_that_it_declares(project):
    project.add("has_seeds", "print(seeds)")
    project.add("has_none", "print('it ran')", parameters='profile: str = "planted"')
    done = outside("batch", "--seeds", "3", cwd=project.folder)
    assert done.returncode == 0, done.stderr
    runs = project.folder / "_runs/notebooks/toy"
    assert text(runs / "has_seeds.planted.seeds=3.ipynb") == ["[3]\n"]
    assert text(runs / "has_none.planted.ipynb") == ["it ran\n"]


@pytest.mark.parametrize("asked, made", [
    (["toy/b"], ["toy/b"]), (["other"], ["other/c"]), (["other", "toy/a"], ["other/c", "toy/a"]),
    ([], ["other/c", "toy/a", "toy/b"]),
])
def test_a_batch_of_some_tables_or_papers(monkeypatch, asked, made):
    monkeypatch.setattr(cli, "configured", lambda pattern, root: ["other/c", "toy/a", "toy/b"])
    monkeypatch.setattr(cli, "project_here", lambda: None)
    ran = []
    monkeypatch.setattr(cli, "_run_first", lambda names, *others: ran.extend(names) or {})
    monkeypatch.setattr(cli, "_counted", lambda *about: (1, "1 of 1 cells"))
    assert shell("batch", "--runs", *asked).exit_code == 0
    assert ran == made
    done = shell("batch", "--runs", "toy/d")
    assert done.exit_code == 2 and "no table or paper 'toy/d'" in done.stderr


def test_a_batch_of_nothing_is_refused(project, no_kernel):
    project.add("good")
    done = shell("batch", "--profile", "small")
    assert done.exit_code == 2 and "no notebook has a configuration at profile small" in done.stderr


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition, process, seconds=300):
    "Waits while the process is at work; minutes, where much else runs."
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(.005)


def wait_until_none(condition, seconds=30):
    "Waits for what takes a second where nothing else runs; whether it has come true."
    deadline = time.monotonic() + seconds
    while condition() and time.monotonic() < deadline:
        time.sleep(.05)
    return not condition()


# a background process of a shell starts with SIGINT ignored
STOPPABLE = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
COMMAND_LINE = STOPPABLE + "import sys\nfrom debias_nb.repro.cli import app\napp(sys.argv[1:])"
SLEEPER = r"import os, pathlib, time; pathlib.Path('pid').write_text(f'{os.getpid()}\n'); time.sleep(300)"


@pytest.mark.parametrize("command", [["run", "toy/a"], ["batch"]], ids=["run", "batch"])
def test_ctrl_c_ends_the_kernel_too(project, command):
    project.add("a", SLEEPER)
    project.add("b", "open('later', 'w')")
    pid = project.folder / "pid"
    process = subprocess.Popen([sys.executable, "-c", COMMAND_LINE, *command], cwd=project.folder, env=ENV, **PIPES)
    wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted; finished runs are kept" in err
    assert wait_until_none(lambda: alive(int(pid.read_text())))
    if command != ["batch"]: # where there is a second core, a batch runs the second notebook beside the first
        assert not (project.folder / "later").exists()


# experiments that are stopped, or run by several

@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    "A cache of its own for the planted encoders of these experiments."
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("DEBIAS_NB_CACHE", str(folder))
        yield folder


def ids(runs):
    return [run.id for run in runs]


@pytest.fixture(scope="module")
def finished(cache, tmp_path_factory):
    "All runs of an experiment and their records, made by one worker."
    store, runs = Store(tmp_path_factory.mktemp("store")), experiment(seeds=range(2)).runs()
    out = runner.run_all(runs, store, workers=1, progress=False)
    assert len(runs) == 5 and out.trained == ids(runs) and not out.failed and not out.missing
    return runs, out.records


def ids_of(records):
    return [record["id"] for record in records]


def compared(records):
    "What two trainings of the same runs must agree in."
    return {name: comparable(record) for name, record in records.items()}


def by_id(records):
    return {record["id"]: record for record in records}


@pytest.mark.parametrize("which", [1, 2], ids=["beside the file", "in the file"])
@pytest.mark.parametrize("is_written", [False, True])
def test_ctrl_c_while_a_record_is_written(finished, tmp_path, monkeypatch, which, is_written):
    "Until the line is on the disk nothing has happened."
    first, second, *_ = finished[1].values()
    store = Store(tmp_path)
    store.append(first)
    fsync, calls = os.fsync, []

    def interrupted(fd):
        calls.append(fd)
        if len(calls) < which or is_written:
            fsync(fd)
        if len(calls) == which:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "fsync", interrupted)
        store.append(second)
    assert store.all() == [first]
    assert {path.suffix for path in store.folder.rglob("*") if path.is_file()} == {".jsonl", ".lock"}
    store.append(second)
    assert store.all() == [first, second]


def test_two_workers_give_what_one_gives(finished, tmp_path):
    runs, expected = finished
    out = runner.run_all(runs, Store(tmp_path), workers=2, progress=False)
    assert sorted(out.trained) == sorted(ids(runs)), "in whatever order they finished"
    assert list(out.records) == ids(runs)
    assert compared(out.records) == compared(expected)
    assert len(read(Store(tmp_path).path(runs[0]))) == len(runs)


def test_a_worker_that_fails_does_not_stop_the_other(cache, tmp_path):
    fails = experiment(["Finetuned"], [0], learning_rate=1e38).runs()
    others = experiment(["Finetuned"], [1, 2]).runs()
    out = runner.run_all([*fails, *others], Store(tmp_path), workers=2, progress=False)
    assert out.failed == {fails[0].id: "step 1: the loss is nan"}
    assert set(out.trained) == set(ids(others))


@pytest.mark.parametrize("seeds, says", [
    ([], "an empty list"),
    ([-1], "-1 is not between 0 and"),
    ([10**23], "is not between 0 and"),
    ([1, 1], "one stands twice"),
])
def test_seeds_that_are_none_are_refused(seeds, says):
    with pytest.raises(ConfigError, match=f"seeds: .*{says}"):
        runner.narrow(load_experiment("itvreg/table03", "planted"), seeds=seeds)


@pytest.mark.parametrize("asked, says", [
    ({"methods": []}, "methods: an empty list asks for no runs"),
    ({"encoders": []}, "encoders: an empty list asks for no runs"),
    ({"weight": float("nan")}, r"weight \(lambda\) must be finite and not negative, got nan"),
    ({"weight": float("inf")}, r"weight \(lambda\) must be finite and not negative, got inf"),
    ({"weight": -1.}, r"weight \(lambda\) must be finite and not negative, got -1"),
])
def test_what_asks_for_no_runs_is_refused(asked, says):
    with pytest.raises(ConfigError, match=says):
        runner.narrow(load_experiment("itvreg/table03", "planted"), **asked)


@pytest.mark.parametrize("workers", [0, -3])
def test_workers_must_be_one_at_least(tmp_path, workers):
    with pytest.raises(ConfigError, match=f"workers must be at least 1, got {workers}"):
        runner.run_all([], Store(tmp_path), workers=workers)


def lost(*args):
    raise WorkerLost("a worker process was ended from outside")


def test_a_worker_that_is_killed_is_told_of(project, monkeypatch):
    project.add("good")
    monkeypatch.setattr(cli, "_run_first", lost)
    done = shell("batch", "--runs")
    assert done.exit_code == 2 and done.stderr == "debias-nb: a worker process was ended from outside\n"


def no_space(*args, **options):
    raise OSError(28, "No space left on device")


def test_a_notebook_that_cannot_be_written_is_named(project, monkeypatch):
    project.add("good", "1")
    monkeypatch.setattr(papermill, "execute_notebook", no_space)
    done = shell("run", "toy/good")
    assert done.exit_code == 2
    assert "_runs/notebooks/toy/good.planted.ipynb: not executed: No space left on device" in done.stderr


# status and report

def paper_row(cell):
    "The name that a row of the printed table has among those of the status."
    row = cell["row"]
    return " · ".join([row.get("base", "MSMARCO"), row_name(row)])


@pytest.fixture(scope="module")
def counted():
    return pages.all_cells(paper="itvreg")


@pytest.fixture
def counted_once(counted, monkeypatch):
    "The command gets a paper's cells that two tests share: to count them reads every record."
    def kept(fresh, paper):
        assert not fresh and paper == "itvreg"
        return counted

    monkeypatch.setattr(pages, "all_cells", kept)


def test_status_accounts_for_every_cell_of_the_paper(counted_once):
    done = shell("status", "itvreg", "--json")
    assert done.exit_code == 0
    cells = json.loads(done.stdout)
    of_the_paper = {}
    for cell in cells:
        if cell["profile"] == "paper" and cell["paper"] == "itvreg":
            of_the_paper.setdefault(cell["table"], []).append(cell)

    printed = yaml.safe_load((ROOT / "expected/itvreg.yaml").read_text())["tables"]
    assert set(printed) == {f"table{n}" for n in range(1, 18)} - {"table9", "table10"}
    for table in ("table9", "table10"):
        assert any(c["table"] == table and c["profile"] == "paper" and c["why"] for c in cells)
    for table in printed:
        mine = of_the_paper[table]
        expected = {(paper_row(cell), cell["column"]): cell["value"] for cell in printed[table]["cells"]}
        assert len(mine) == len(expected) > 3, table
        assert {(cell["row"], cell["column"]): cell["expected"] for cell in mine} == expected
        for cell in mine:
            without_value = cell["status"] in ("not run", "failed")
            assert (cell["value"] is None) == without_value
            assert cell["value"] is not None or cell["why"]

    reduced = [cell for cell in cells if cell["profile"] != "paper"]
    assert all(cell["expected"] is None for cell in reduced), "reduced runs are not compared with the paper"
    assert {cell["profile"] for cell in cells} == {"planted", "small", "paper"}
    assert all(c["command"] for c in cells if (c["paper"], c["table"]) == ("itvreg", "table3"))


def test_status_for_readers_names_tables_and_profiles(counted_once):
    done = shell("status", "itvreg")
    assert done.exit_code == 0
    for word in ("table3", "table2", "planted", "small", "paper", "84"):
        assert word in done.stdout


def test_status_of_one_paper_counts_that_paper_alone(monkeypatch):
    monkeypatch.setattr(pages, "_cells_of", lambda paper: [paper])
    assert pages.all_cells(paper="arr") == ["arr"] and set(pages.all_cells()) == {"arr", "itvreg", "scan"}
    done = shell("status", "scam")
    assert done.exit_code == 2 and "did you mean 'scan'?" in done.stderr


WRITE_PAGE = """
import sys
from pathlib import Path
from types import SimpleNamespace
from debias_nb.repro.pages.report import write_page
write_page("itvreg/table02", Path(sys.argv[1]))
print("torch" in sys.modules)
"""


def test_reports_train_nothing_and_need_no_torch(tmp_path):
    done = run_python(WRITE_PAGE, str(tmp_path))
    assert done.returncode == 0 and done.stdout.strip() == "False", done.stderr


WITHOUT_TORCH = """
import sys
from debias_nb.repro.cli import app
app(sys.argv[1:], standalone_mode=False)
print("torch" in sys.modules)
"""


@pytest.mark.parametrize("command", ["list", "data"])
def test_commands_that_train_nothing_need_no_torch(command):
    done = run_python(WITHOUT_TORCH, *command.split())
    assert done.returncode == 0 and done.stdout.endswith("False\n"), done.stderr + done.stdout


def test_a_notebook_that_fails_is_named(tmp_path):
    declared = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": "profile: str = 'planted'"}
    shown = {"cell_type": "code", "metadata": {}, "source": "profile"}
    fails = {"cell_type": "code", "metadata": {}, "source": "1 / 0"}
    path = tmp_path / "page.ipynb"
    path.write_text(json.dumps({"cells": [declared, shown]}))
    assert [output.data for output in executed(path, {"profile": "small"})] == ["'small'"]
    path.write_text(json.dumps({"cells": [declared, shown, fails]}))
    with pytest.raises(ZeroDivisionError) as error:
        executed(path, {})
    assert error.value.__notes__ == ["in page.ipynb: 1 / 0"]


def invented(run, metrics, **details):
    "A record of a run that nobody made."
    about = {
        "data": {"train": {"fingerprint": "ab" * 32}}, "encoder": {"name": run.encoder.name, "fingerprint": "cd" * 32},
        "device": "cpu", "dtype": "fp32", "seconds": 1., "peak_memory": 1, "curve": {}}
    return make_record(run, metrics, **(about | details))


def made_up_numbers(run, i, keep, rng):
    "A record of an invented run; every third of the failures has failed."
    if keep == "failures" and i % 3 == 1:
        return failed_record(run, "the loss is nan", 7)
    tests = [test for test in run.evaluate if test != "superuser"]
    curve = {"step": [1, 2], "erm": [.2, .1]}
    if run.method.regulariser != "none":
        curve |= {"raw": [.1, .1], "weighted": [.01, .01]}
    metrics = {test: {"auc05": rng.random(), "auc": rng.random()} for test in tests}
    replicates = {test: {"auc05": rng.random(20).tolist()} for test in tests}
    return invented(run, metrics, curve=curve, replicates=replicates)


def part_of(runs, keep):
    "The runs that a test makes up records of."
    if keep == "one encoder":
        return [run for run in runs if run.encoder.name == "potion-base-2M" or not run.method.trained]
    if keep == "no reference":
        return [run for run in runs if run.method.name not in ("Base", "Finetuned")]
    return runs[::2] if keep == "failures" else runs


def is_trained(name, cells):
    "Whether any cell of an encoder has a number that took training."
    rows = [cell["row"] for cell in cells if cell["value"] is not None]
    return any(row.startswith(name) and not row.endswith("Base") for row in rows)


@pytest.mark.parametrize("keep", ["one encoder", "no reference", "failures", "everything"])
def test_reports_of_whatever_has_been_run(tmp_path, monkeypatch, keep):
    "Invented numbers for a part of the runs: a page is written, with the encoders of which something was trained."
    shutil.copytree(ROOT / "expected", tmp_path / "expected")
    shutil.copytree(ROOT / "nbs/papers", tmp_path / "nbs/papers", ignore=WITHOUT_CLAIMS)
    shutil.copy(ROOT / "settings.ini", tmp_path)
    for name in ("itvreg/table03.small.yaml", "itvreg/table03.paper.yaml", "device/costs.yaml"):
        place = tmp_path / "configs" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "configs" / name, place)
    (tmp_path / "bench").mkdir()
    shutil.copy(ROOT / "bench/aims.yaml", tmp_path / "bench")
    monkeypatch.chdir(tmp_path)
    table, store = load_experiment("itvreg/table03", "small"), Store(tmp_path / "results")
    rng = np.random.default_rng(0)
    for i, run in enumerate(part_of(table.runs(), keep)):
        store.append(made_up_numbers(run, i, keep, rng))

    done = shell("report", "--out", "pages")
    assert done.exit_code == 0, done.exception
    page = (tmp_path / "pages/itvreg/table03.md").read_text()
    cells = [cell for cell in json.loads(shell("status", "--json").stdout) if cell["profile"] == "small"]
    finished = {record["id"] for record in store.all() if record["status"] == "finished"}
    assert {name for cell in cells for name in cell["records"]} == finished
    assert f"{len(finished)} runs, " in page
    assert "None" not in page and "nan" not in page.replace("the loss is nan", "")
    assert "skip_exec" not in page and "from debias_nb" not in page, "code is left out"
    assert str(tmp_path) not in page and str(ROOT) not in page

    means = page.partition("## The table")[2].partition("## What each method gains")[0]
    names = [encoder.display for encoder in table.encoders]
    trained = [name for name in names if is_trained(name, cells)]
    shown = [name for name in names if f"| {name} |" in means]
    assert shown == (trained if len(trained) > 1 else []), "one encoder needs no name in the table"
    if keep == "everything":
        assert all(cell["status"] == "measured" for cell in cells if "SuperUser" not in cell["column"])
    if keep == "failures":
        why = [cell["why"] for cell in cells if cell["status"] == "failed"]
        assert any("training stopped: the loss is nan" in reason for reason in why)


# agreement

@pytest.mark.parametrize("test, metrics, wrong, exit_code", [
    ("iid", {"auc05": .5}, {"auc05": .50009}, 0),
    ("iid", {"auc05": .5}, {"auc05": .5002}, 1),
    ("shifted", {"map": .5}, {"map": .6}, 1),
    ("cross", {"r8": .5}, {"r8": .4999}, 0),
    ("cross", {"queries": 13.}, {"queries": 14.}, 1),
    ("counts", {"Training samples": 1000.}, {"Training samples": 1001.}, 1),
    ("iid", {"auc05": .5, "auc": .8}, {"auc05": .5}, 1),
], ids=["percent, near", "percent, apart", "fraction, apart", "fraction, near", "count", "count of texts", "absent"])
def test_agreement_fails_on_wrong_values_in_every_unit(nothing_run, test, metrics, wrong, exit_code):
    run = experiment(["Finetuned"], [0]).runs()[0]
    Store(nothing_run / "results").append(invented(run, {test: metrics}))
    Store(nothing_run / "_runs").append(invented(run, {test: wrong}))
    done = shell("agree")
    assert done.exit_code == exit_code, done.stdout
    assert "1 of 1 committed planted runs" in done.stdout
    assert (run.id in done.stdout) == bool(exit_code)


@pytest.fixture
def nothing_run(tmp_path, monkeypatch):
    "A project without configurations and records."
    (tmp_path / "configs").mkdir()
    shutil.copy(ROOT / "settings.ini", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEBIAS_NB_RUNS", raising=False)
    return tmp_path


def recorded_and_made(folder, runs, changed, cpu="another processor", metrics=("auc05", "auc", "p1")):
    """Records of another processor, and what is made here: the metrics of a run are `changed(run)` further up."""
    rng = np.random.default_rng(0)
    for run in runs:
        shares = dict(zip(metrics, rng.uniform(.3, .6, len(metrics))))
        recorded = invented(run, {"iid": shares})
        recorded["environment"]["cpu"] = cpu
        Store(folder / "results").append(recorded)
        here = {metric: share + changed(run) for metric, share in shares.items()}
        Store(folder / "_runs").append(invented(run, {"iid": here}))


@pytest.mark.parametrize("changed, exit_code", [
    (lambda run: 5e-5, 0),
    (lambda run: .01 * (run.method.name == "ITVReg"), 1),
    (lambda run: .01, 1),
    (lambda run: -.01, 1),
    (lambda run: .04 * (-1)**run.seed, 1),
    (lambda run: .3 * (run.seed == 3), 1),
], ids=["rounding", "one method", "all of a paper", "all of a paper, down", "to both sides", "one run"])
def test_another_processor_is_no_excuse(nothing_run, changed, exit_code):
    runs = experiment(["Finetuned", "ITVReg"], range(6)).runs()
    recorded_and_made(nothing_run, runs, changed)
    done = shell("agree")
    assert done.exit_code == exit_code, done.stdout
    assert "12 of 12 committed planted runs were made here too" in done.stdout
    first_wrong = [run for run in runs if abs(changed(run)) > 1e-3][:1]
    for run in first_wrong:
        assert re.search(rf"{run.id}, iid, \w+: [\d.]+ here, [\d.]+ committed", done.stdout)


@pytest.mark.parametrize("kind, pretrained, dtype, cpu, difference, exit_code, compared", [
    ("transformer", False, "fp32", "another", .009, 0, 1),
    ("transformer", False, "fp32", "another", .011, 1, 1),
    ("static", False, "fp32", "another", .009, 1, 1),
    ("transformer", True, "fp32", "another", .011, 1, 1),
    ("transformer", True, "bf16", "another", .3, 1, 0), # nothing is left to compare
    ("transformer", True, "bf16", None, .3, 1, 1),
    ("alignment", False, "fp32", "another", .3, 1, 0), # until its records are made in double precision
    ("alignment", False, "fp32", None, .3, 1, 1),
])
def test_what_is_compared_and_how_closely(
    nothing_run, kind, pretrained, dtype, cpu, difference, exit_code, compared
):
    (run,) = experiment(["Finetuned"], [0]).runs()
    parts = {"kind": kind, "dtype": dtype}
    if kind == "alignment":
        parts["units"] = 8
    if pretrained:
        parts |= {"name": "minilm", "pretrain": None, "world": None}
    run = run.model_copy(update={"encoder": run.encoder.model_copy(update=parts)})
    recorded_and_made(nothing_run, [run], lambda run: difference, cpu or processor())
    done = shell("agree")
    assert done.exit_code == exit_code, done.stdout
    assert f"{compared} of 1 committed planted runs were made here too" in done.stdout
    what = "the alignment network in single precision" if kind == "alignment" else "a pretrained transformer in bf16"
    assert (f"1 runs are not compared: {what}" in done.stdout) == (not compared)


# records that are merged

@pytest.mark.parametrize("given, says", [
    (".", "^debias-nb: . holds no records$"),
    ("out", r"out holds no records; did you mean out/version\?"),
    ("empty", "empty holds no records"),
    ("nowhere", "nowhere is no folder"),
])
def test_a_folder_without_records_is_not_merged(project, given, says):
    (project.folder / "empty").mkdir()
    Store(project.folder / "out/version").append(invented(experiment(["Finetuned"], [0]).runs()[0], {"iid": {"auc05": .5}}))
    done = shell("merge", given)
    assert done.exit_code == 2
    assert re.search(says, done.stderr)
    assert "records added" not in done.stdout
    assert "records added" in shell("merge", "out/version").stdout


# exit codes

def test_a_batch_without_a_number_is_no_success(project, monkeypatch):
    project.add("a", "print('it ran')")
    project.add("b", "print('it ran')")
    counts = {"toy/a": (0, "0 of 3 cells; not run: a file is missing"), "toy/b": (None, "no table")}
    monkeypatch.setattr(cli, "_counted", lambda name, profile, full: counts[name])
    monkeypatch.setattr(cli, "_execute_all", lambda *args: {})
    done = shell("batch")
    assert done.exit_code == 1 and "not one cell at profile planted has a number" in done.stderr
    counts["toy/b"] = 1, "1 of 3 cells"
    assert shell("batch").exit_code == 0
    counts |= {"toy/a": (None, "no table"), "toy/b": (None, "no table")}
    assert shell("batch").exit_code == 0


def test_other_contents_than_published_are_no_success(tmp_path, monkeypatch):
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path))
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    assert shell("data").exit_code == 0
    (tmp_path / "quora").mkdir()
    (tmp_path / "quora/nlx-quora_test.tsv").write_text("1\ta\tb\n")
    done = shell("data")
    assert done.exit_code == 1
    assert done.stderr == "debias-nb: other contents than the registry's: quora/nlx-quora_test.tsv\n"


def test_a_run_without_a_record_is_no_success(tmp_path, monkeypatch):
    "Seeds that nothing was run for: no number of other seeds is shown, and the exit code says so."
    monkeypatch.setattr(cli, "_execute", lambda name, profile, parameters: tmp_path / "executed.ipynb")
    monkeypatch.setattr(cli, "_made", lambda name, profile, parameters: None)
    done = shell("run", "itvreg/table03", "--profile", "small", "--seeds", "77")
    assert done.exit_code == 1 and "nothing of itvreg/table03 at small that was asked for has been run" in done.output
    assert "| Finetuned" not in done.output


# data that nobody can tell from others

@pytest.fixture
def own_superuser(tmp_path, monkeypatch):
    "Somebody's own pairs as SuperUser."
    folder = tmp_path / "data/superuser"
    folder.mkdir(parents=True)
    for file, item in (("train.tsv", "lamp"), ("test.tsv", "chair")):
        lines = [f"{i % 2}\t{item} number {i}\t{item} of kind {i}\n" for i in range(40)]
        (folder / file).write_text("".join(lines))
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    lacking.cache_clear()
    yield
    lacking.cache_clear()


def test_pairs_placed_under_a_name_become_no_row_of_it(own_superuser, tmp_path):
    "Nothing is trained, nothing is written, and it is said why."
    assert len(load_questions("superuser", "train")) == 40, "a reader takes them"
    small = load_experiment("itvreg/table03", "small", ROOT).runs()
    runs = [run for run in small if run.corpus and run.corpus.name == "superuser"]
    runs = [run.model_copy(update={"encoder": STATIC}) for run in runs] # one that is at hand everywhere
    assert runs
    store = Store(tmp_path / "records")
    out = runner.run_all(runs[:2], store, workers=1, progress=False)
    assert not out.records and not out.trained and store.all() == []
    for why in out.missing.values():
        assert "superuser/train.tsv is not used" in why and "no hash of this file is known" in why
    with pytest.raises(UnknownData):
        runner.execute(runs[0])
    assert store.all() == []


# the whole way

SMOKE = [
    "run", "itvreg/table03", "--profile", "planted", "--seeds", "7,8",
    "-p", "methods=[Finetuned]", "-p", "encoders=[tiny]", "--workers", "1"]


def said_of_records(project):
    "What the executed notebook says of its records."
    [executed] = (project / "_runs/notebooks/itvreg").glob("table03.planted.*.ipynb")
    paragraphs = text(executed)
    said = next(paragraph for paragraph in paragraphs if " records" in paragraph and "CPU. " in paragraph)
    return said.partition("CPU. ")[2]


def check_smoke_record(record, seed):
    config = record["config"]
    assert record["status"] == "finished" and record["seed"] == config["seed"] == seed
    assert (config["method"]["name"], config["encoder"]["label"]) == ("Finetuned", "tiny")
    assert config["corpus"]["label"] == "strong"
    assert 0 < record["metrics"]["iid"]["auc05"] <= 1


def test_smoke(tmp_path, monkeypatch):
    """Encoder, notebook, kernel, records: two seeds of one method, through the real command line; a deleted record is
    one run, and what is there is loaded."""
    for name in ("configs", "expected", "nbs/papers"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "settings.ini", tmp_path)
    config = tmp_path / "configs/itvreg/table03.planted.yaml"
    config.write_text(shrunk(config.read_text("utf-8")), "utf-8")
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    asked = runner.narrow(
        load_experiment("itvreg/table03", "planted", tmp_path), [7, 8], ["Finetuned"], ["tiny"], full=False).runs()
    assert len(asked) == 2

    records = tmp_path / "records"
    path = records / "itvreg/table03.planted.jsonl"
    done = outside(*SMOKE, cwd=tmp_path, DEBIAS_NB_RUNS=str(records), DEBIAS_NB_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    said = said_of_records(tmp_path)
    assert said.startswith("2 records, ") and "0 runs lack something." in said and "executed: " in done.stdout, said
    first, before = read(path), path.read_bytes()
    assert ids_of(first) == ids(asked)
    for record, seed in zip(first, (7, 8)):
        check_smoke_record(record, seed)
    assert [file.name for file in records.rglob("*.jsonl")] == [path.name]
    assert not list((tmp_path / "_runs").rglob("*.jsonl"))

    run_again = partial(runner.run_all, asked, workers=1, progress=False)
    assert run_again(Store(records)).trained == [] and path.read_bytes() == before, "nothing is run again"

    assert Store(records).delete(first[0]["id"]) == 1
    assert run_again(Store(records)).trained == [first[0]["id"]]
    kept = before.splitlines(keepends=True)[1]
    assert path.read_bytes().startswith(kept) and len(read(path)) == 2
    assert compared(by_id(read(path))) == compared(by_id(first))
