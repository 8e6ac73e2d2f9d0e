"The command line from outside: what is refused before a kernel starts, what survives being stopped, and the same bytes twice."
import json, os, shutil, signal, subprocess, sys, time, warnings
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import papermill
import pytest
import yaml
from typer.testing import CliRunner

from debias_nb.repro import cli
from debias_nb.repro import runner
from debias_nb.repro.cli import app
from debias_nb.config import ConfigError, cache_dir
from debias_nb.repro.config import load_experiment
from debias_nb.repro.records import Store, comparable, failed_record, make_record, read
from debias_nb.repro.frame import refuse_unknown_parameters, row_name
from made import experiment

ROOT = Path(__file__).parents[1]
ENV = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]), "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
CACHE = cache_dir("encoders").parent # what the project has trained already, whatever the fixtures below say
SETTINGS = dict(title="A toy", scale="none", encoders=[], methods=[], blocks=[])

def shell(*args): return CliRunner().invoke(app, [str(a) for a in args])

def outside(*args, cwd, **env):
    "The command line in a process of its own."
    return subprocess.run([sys.executable, "-m", "debias_nb.repro.cli", *args], cwd=cwd, env=ENV | env, capture_output=True, text=True, timeout=500)

class Project:
    "A project of toy notebooks, one code cell each."
    def __init__(self, folder):
        self.folder = folder
        for name in ("configs/toy", "nbs/papers/toy"): (folder / name).mkdir(parents=True)
        shutil.copy(ROOT / "settings.ini", folder)

    def add(self, name, body="", parameters='profile: str = "planted"\nseeds: list[int] | None = None\nweight: float = 0.1\nfresh: bool = False', tags=("parameters",), copies=1):
        code = nbformat.v4.new_code_cell
        nb = nbformat.v4.new_notebook(cells=[*(code(parameters, metadata={"tags": list(tags)}) for _ in range(copies)), code(body)], metadata={"kernelspec": dict(name="python3", display_name="python3", language="python")})
        nbformat.write(nb, self.folder / f"nbs/papers/toy/{name}.ipynb")
        self.configure(name)

    def configure(self, name, profile="planted", **changes):
        (self.folder / f"configs/toy/{name}.{profile}.yaml").write_text(yaml.safe_dump(SETTINGS | dict(paper="toy", experiment=name, profile=profile) | changes))

@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)

@pytest.fixture
def no_kernel(monkeypatch):
    "Whoever starts a notebook fails the test."
    monkeypatch.setattr(papermill, "execute_notebook", lambda *a, **k: pytest.fail("a kernel was about to start"))

# refused before a kernel starts

@pytest.mark.parametrize("args, words", [
    (["toy/good", "-p", "sedes=[1]"], "no parameter in good called 'sedes'; did you mean 'seeds'?"),
    (["toy/good", "-p", "workers=2"], "no parameter in good called 'workers' (known: 'profile', 'seeds', 'weight', 'fresh')"),
    (["toy/good", "--workers", "2"], "no parameter in good called 'workers'"),
    (["toy/good", "-p", "weight=much"], "good: weight must be float, got 'much'"),
    (["toy/good", "-p", "weight=true"], "weight must be float, got True"),
    (["toy/good", "-p", "weight=null"], "weight must be float, got None"),
    (["toy/good", "-p", "seeds=7"], "seeds must be list[int] | None, got 7"),
    (["toy/good", "-p", "seeds=[1.0]"], "seeds must be list[int] | None, got [1.0]"),
    (["toy/good", "--seeds", "1,two"], "--seeds wants whole numbers with commas between them, such as 0,1,2; got '1,two'"),
    (["toy/good", "--seeds", "0,,1"], "--seeds wants whole numbers with commas between them, such as 0,1,2; got '0,,1'"),
    (["toy/good", "--seeds", ""], "such as 0,1,2; got ''"),
    (["toy/good", "--seeds", "-1"], "such as 0,1,2; got '-1'"),
    (["toy/good", "--seeds", "9" * 5000], "such as 0,1,2; got '999"),
    (["good"], "no template 'good'; did you mean 'other/good' or 'toy/good'?"),
    (["doubled"], "no template 'doubled'; did you mean 'toy/doubled'?"),
    (["toy/good", "-p", "fresh=1"], "fresh must be bool, got 1"),
    (["toy/good", "-p", "seeds"], "-p wants name=value, got 'seeds'"),
    (["toy/good", "-p", "seeds=[1"], "-p seeds: '[1' is no YAML value"),
    (["toy/good", "-p", "seeds=[1]", "--seeds", "2"], "seeds is given twice"),
    (["toy/good", "-p", "weight=1", "-p", "weight=2"], "weight is given twice"),
    (["toy/good", "-p", "profile=small"], "profile is given twice, as -p and as --profile"),
    (["toy/untagged"], "untagged.ipynb: 0 code cells are tagged `parameters`, exactly one must be"),
    (["toy/doubled"], "doubled.ipynb: 2 code cells are tagged `parameters`, exactly one must be"),
    (["toy/computed"], "computed.ipynb: the default of seed is no literal"),
    (["toy/plain"], "plain.ipynb: parameters line 1 is not `name: type = literal`"),
    (["toy/broken"], "broken.ipynb: parameters line 2: invalid syntax"),
    (["toy/odd", "-p", "kind=7"], "odd: the type of kind, dict, is not made of int, float, str, bool, list and None"),
    (["toy/damaged"], "damaged.ipynb: no notebook"),
    (["toy/godo"], "no template 'toy/godo'; did you mean 'toy/good'?"),
    (["../secrets"], "no template '../secrets'"),
    (["toy/good", "--profile", "plantd"], "no profile 'plantd'; did you mean 'planted'?"),
    (["toy/good", "--profile", "paper"], "no configuration 'toy/good.paper'; did you mean 'toy/good."),
    (["toy/mistyped"], "configs/toy/mistyped.planted.yaml: titel: unknown key; did you mean 'title'?")])
def test_refused_before_a_kernel_starts(project, no_kernel, args, words):
    project.add("good"); project.configure("good", "small")
    project.add("untagged", tags=()); project.add("doubled", copies=2); project.add("damaged"); project.add("mistyped"); project.configure("mistyped", titel="A toy")
    project.add("computed", parameters="seed: int = int(3)"); project.add("plain", parameters="seed = 3"); project.add("odd", parameters="profile: str = \"planted\"\nkind: dict = {}"); project.add("broken", parameters="seed: int = 3\nprofile: str =")
    (project.folder / "nbs/papers/toy/damaged.ipynb").write_text('{"cells": [')
    (project.folder / "nbs/papers/other").mkdir(); shutil.copy(project.folder / "nbs/papers/toy/good.ipynb", project.folder / "nbs/papers/other")
    done = shell("run", *args)
    assert done.exit_code == 2 and done.stderr.startswith("debias-nb: ") and words in done.stderr, done.output
    assert done.stdout == "" and not (project.folder / "_runs").exists()

def test_papermill_itself_would_have_run_it(project):
    "Why the checks are there: a parameter that no cell declares stops nothing."
    project.add("untagged", "print(weight)", tags=())
    done = papermill.execute_notebook(project.folder / "nbs/papers/toy/untagged.ipynb", project.folder / "out.ipynb", parameters={"wieght": 7}, progress_bar=False, kernel_name="python3")
    assert done.cells[-1].outputs[0].text == "0.1\n"

def test_a_study_refuses_what_its_notebook_does_not_declare(monkeypatch):
    "Papermill writes every parameter it is given below the cell that declares them."
    given = ["", "seeds: list = None", "# Parameters\nseeds = [0]\n"]
    shell = SimpleNamespace(user_ns={"__annotations__": {"seeds": list}, "In": given})
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    refuse_unknown_parameters()
    given[-1] = "# Parameters\nseed = [0]\n"
    with pytest.raises(ConfigError, match="no parameter 'seed'; did you mean 'seeds'"): refuse_unknown_parameters()

def test_the_real_templates_declare_what_the_options_give(no_kernel):
    "Every option of `run` is a parameter of the table's notebook; other profiles and names are refused here too."
    declared = cli.declared(ROOT / "nbs/papers/itvreg/table03.ipynb")
    assert {"profile", "seeds", "methods", "encoders", "weight", "full", "workers", "fresh"} == declared.keys()
    for args, words in ((["itvreg/tabel03"], "did you mean 'itvreg/table03'?"), (["itvreg/table03", "-p", "encoder=[tiny]"], "did you mean 'encoders'?"), (["itvreg/table03", "-p", "methods=ITVReg"], "methods must be list[str] | None, got 'ITVReg'")):
        done = shell("run", *args)
        assert done.exit_code == 2 and words in done.stderr

@pytest.mark.parametrize("command", [["run", "toy/good"], ["batch"]], ids=["run", "batch"])
@pytest.mark.parametrize("variable", ["DEBIAS_NB_DATA", "DEBIAS_NB_MODELS"])
def test_a_folder_that_is_not_there_is_said(project, no_kernel, monkeypatch, command, variable):
    project.add("good")
    monkeypatch.setenv(variable, str(project.folder / "nope"))
    done = shell(*command)
    assert done.exit_code == 2 and done.stderr == f"debias-nb: {variable} names {project.folder / 'nope'}, which is no folder\n"
    assert not (project.folder / "_runs").exists()


@pytest.mark.parametrize("command", [["run", "itvreg/table03"], ["batch"], ["report"], ["status"], ["agree"]], ids=lambda c: c[0])
def test_nothing_is_written_into_a_clone_somewhere_else(tmp_path, monkeypatch, no_kernel, command):
    "The package is that of the clone, and the current folder is not in it."
    monkeypatch.chdir(tmp_path)
    done = shell(*command)
    assert done.exit_code == 2 and f"and {tmp_path} is not in one" in done.stderr
    assert done.stdout == "" and not list(tmp_path.iterdir())


def test_the_shell_completes_names(project):
    project.add("good")
    env = {"_DEBIAS_NB_COMPLETE": "complete_bash", "COMP_WORDS": "debias-nb run to", "COMP_CWORD": "2"}
    code = "import sys; sys.argv = ['debias-nb']; from debias_nb.repro.entry import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=project.folder, env=ENV | env, capture_output=True, text=True)
    assert done.stdout.split() == ["toy/good"]


# running, failing, going on

def text(path): return [t for c in nbformat.read(path, 4).cells for o in c.get("outputs", []) if (t := o.get("text") or o.get("data", {}).get("text/markdown"))]

def test_parameters_reach_the_notebook_and_its_kernel_is_this_python(project, monkeypatch):
    "Whatever kernel somebody has registered under the name that the notebook asks for."
    (project.folder / "jupyter/kernels/python3").mkdir(parents=True)
    (project.folder / "jupyter/kernels/python3/kernel.json").write_text(json.dumps(dict(argv=["/bin/false", "{connection_file}"], display_name="another", language="python")))
    monkeypatch.setenv("JUPYTER_PATH", str(project.folder / "jupyter"))
    project.add("good", "import os, sys; print(sys.executable, os.getcwd(), seeds, weight, fresh, profile)")
    (project.folder / "deep/down").mkdir(parents=True); monkeypatch.chdir(project.folder / "deep/down")
    template = (project.folder / "nbs/papers/toy/good.ipynb").read_bytes()
    done = shell("run", "toy/good", "--seeds", "7,8", "-p", "weight=1e-1", "--fresh")
    assert done.exit_code == 0 and "executed: ../../_runs/notebooks/toy/good.planted.ipynb" in done.stdout
    assert text(project.folder / "_runs/notebooks/toy/good.planted.ipynb") == [f"{sys.executable} {project.folder} [7, 8] 0.1 True planted\n"]
    assert (project.folder / "nbs/papers/toy/good.ipynb").read_bytes() == template

def test_a_batch_goes_on_after_failures(project):
    project.add("a_raises", "print('before'); raise ValueError('the loss of nerve'); print('after')")
    project.add("b_untagged", tags=()); project.add("c_dies", "import os; os._exit(3)"); project.add("d_mistyped"); project.configure("d_mistyped", titel="A toy")
    project.add("e_other_profile"); (project.folder / "configs/toy/e_other_profile.planted.yaml").rename(project.folder / "configs/toy/e_other_profile.small.yaml")
    project.add("z_good", "print('it ran')")
    done = outside("batch", cwd=project.folder)
    failed = [line for line in done.stderr.splitlines() if line.startswith("failed: ")]
    assert done.returncode == 1 and "1 of 5 notebooks at profile planted executed" in done.stdout and len(failed) == 4, done.stderr
    for line, words in zip(failed, ("toy/a_raises: ValueError: the loss of nerve", "toy/b_untagged: ", "toy/c_dies: DeadKernelError", "toy/d_mistyped: configs/toy/d_mistyped.planted.yaml")): assert words in line
    runs = project.folder / "_runs/notebooks/toy"
    assert text(runs / "z_good.planted.ipynb") == ["it ran\n"] and text(runs / "a_raises.planted.ipynb")[-1] == "before\n" and not (runs / "b_untagged.planted.ipynb").exists()
    for name, says in (("a_raises", "toy/a_raises at planted failed: ValueError: the loss of nerve"), ("c_dies", "toy/c_dies at planted failed: DeadKernelError")):
        done = shell("run", f"toy/{name}")
        assert done.exit_code == 1 and says in done.stderr

def test_a_batch_of_runs_starts_no_kernel(project, no_kernel, monkeypatch):
    project.add("good")
    failed = {}
    monkeypatch.setattr(cli, "_run_first", lambda *args: failed)
    done = shell("batch", "--runs")
    assert done.exit_code == 0 and "toy/good: no table" in done.stdout and "executed" not in done.stdout, done.output
    failed["toy-s0"] = "the loss is nan"
    done = shell("batch", "--runs")
    assert done.exit_code == 1 and "failed: toy-s0: the loss is nan" in done.stderr

def test_a_batch_of_nothing_is_refused(project, no_kernel):
    project.add("good")
    done = shell("batch", "--profile", "small")
    assert done.exit_code == 2 and "no notebook has a configuration at profile small" in done.stderr

def alive(pid):
    try: os.kill(pid, 0)
    except ProcessLookupError: return False
    return True

def wait_for(condition, process, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(.005)

STOPPABLE = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" # a background process of a shell starts with SIGINT ignored

@pytest.mark.parametrize("command", [["run", "toy/a"], ["batch"]], ids=["run", "batch"])
def test_ctrl_c_ends_the_kernel_too(project, command):
    project.add("a", "import os, pathlib, time\npathlib.Path('pid').write_text(f'{os.getpid()}\\n'); time.sleep(300)"); project.add("b", "open('later', 'w')")
    pid = project.folder / "pid"
    code = STOPPABLE + "import sys\nfrom debias_nb.repro.cli import app\napp(sys.argv[1:])"
    process = subprocess.Popen([sys.executable, "-c", code, *command], cwd=project.folder, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted; finished runs are kept" in err
    deadline = time.monotonic() + 30
    while alive(int(pid.read_text())) and time.monotonic() < deadline: time.sleep(.05)
    assert not alive(int(pid.read_text())) and (command == ["batch"] or not (project.folder / "later").exists()) # of a batch, a second notebook runs beside the first where there is a second core

# experiments that are stopped, or run by several

@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    "A cache of its own for the planted encoders of these experiments."
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("DEBIAS_NB_CACHE", str(folder))
        yield folder

@pytest.fixture(scope="module")
def finished(cache, tmp_path_factory):
    "All runs of an experiment, made by one worker."
    store, runs = Store(tmp_path_factory.mktemp("store")), experiment(seeds=range(2)).runs()
    out = runner.run_all(runs, store, workers=1, progress=False)
    assert len(runs) == 5 and out.trained == [r.id for r in runs] and not out.failed and not out.missing
    return runs, out.records

CHILD = STOPPABLE + """
import sys
from debias_nb.repro.runner import run_all
from debias_nb.repro.records import Store
from made import experiment
run_all(experiment(seeds=range(2)).runs(), Store(sys.argv[1]), workers=1, progress=False)
print("came to its end")
"""

@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL], ids=lambda s: s.name)
def test_what_had_finished_is_kept(finished, cache, tmp_path, stop):
    runs, expected = finished
    store = Store(tmp_path); path = store.path(runs[0])
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], env=ENV | {"DEBIAS_NB_CACHE": str(cache)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: path.exists() and path.read_bytes().count(b"\n") >= 1, process)
    process.send_signal(stop)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -stop and "came to its end" not in out and ("KeyboardInterrupt" in err) == (stop == signal.SIGINT)
    kept = [r["id"] for r in read(path)]
    assert 1 <= len(kept) < len(runs) and kept == [r.id for r in runs[: len(kept)]]
    lines = path.read_bytes()
    again = runner.run_all(runs, store, workers=1, progress=False)
    assert again.trained == [r.id for r in runs[len(kept):]] and path.read_bytes().startswith(lines), "the rest, and nothing twice"
    assert {k: comparable(r) for k, r in again.records.items()} == {k: comparable(r) for k, r in expected.items()}

def test_ctrl_c_while_a_record_is_written(finished, tmp_path, monkeypatch):
    "On a slow disk: a line that is there stays, half a line goes."
    record, write = next(iter(finished[1].values())), os.write
    def interrupted(*args): raise KeyboardInterrupt
    for name, call, there in (("fsync", interrupted, 1), ("write", lambda fd, data: interrupted(write(fd, data)), 1), ("write", lambda fd, data: interrupted(write(fd, data[:100])), 0)):
        store = Store(tmp_path / f"{name}{there}")
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt): patch.setattr(os, name, call); store.append(record)
        assert store.all() == [record] * there
        store.append(record)
        with warnings.catch_warnings(action="ignore"): assert store.all() == [record], "a line that stands there twice counts once"

def test_two_workers_give_what_one_gives(finished, tmp_path):
    runs, expected = finished
    out = runner.run_all(runs, Store(tmp_path), workers=2, progress=False)
    assert sorted(out.trained) == sorted(r.id for r in runs) and list(out.records) == [r.id for r in runs], "in whatever order they finished"
    assert {k: comparable(r) for k, r in out.records.items()} == {k: comparable(r) for k, r in expected.items()}
    assert len(read(Store(tmp_path).path(runs[0]))) == len(runs)

def test_two_batches_share_the_work(finished, cache, tmp_path):
    runs, expected = finished
    environment = ENV | {"DEBIAS_NB_CACHE": str(cache)}
    both = [subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=300) for process in both]
    assert all("came to its end" in out for out, _ in said), said
    made = read(Store(tmp_path).path(runs[0]))
    assert sorted(r["id"] for r in made) == sorted(r.id for r in runs), "each run once"
    assert {r["id"]: comparable(r) for r in made} == {k: comparable(r) for k, r in expected.items()}

def at_work(pid):
    try: return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError: return False

@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
def test_workers_end_with_the_process_that_started_them(cache, tmp_path, stop):
    environment = ENV | {"DEBIAS_NB_CACHE": str(cache)}
    parent = subprocess.Popen([sys.executable, "-c", CHILD.replace("workers=1", "workers=2"), str(tmp_path)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path = Store(tmp_path).path(experiment(seeds=range(2)).runs()[0])
    wait_for(lambda: path.exists() and path.read_bytes().count(b"\n") >= 1, parent)
    workers = [int(pid) for task in Path(f"/proc/{parent.pid}/task").iterdir() for pid in (task / "children").read_text().split()]
    parent.send_signal(stop); parent.wait(30)
    assert len(workers) >= 2
    end = time.monotonic() + 30 # a second where nothing else runs
    while any(map(at_work, workers)) and time.monotonic() < end: time.sleep(.1)
    assert not any(map(at_work, workers))

@pytest.mark.parametrize("seeds, says", [([], "an empty list"), ([-1], "-1 is not between 0 and"), ([10**23], "is not between 0 and"), ([1, 1], "one stands twice")])
def test_seeds_that_are_none(seeds, says):
    with pytest.raises(ConfigError, match=f"seeds: .*{says}"): runner.narrow(load_experiment("itvreg/table03", "planted"), seeds=seeds)

@pytest.mark.parametrize("workers", [0, -3])
def test_workers_must_be_one_at_least(tmp_path, workers):
    with pytest.raises(ConfigError, match=f"workers must be at least 1, got {workers}"): runner.run_all([], Store(tmp_path), workers=workers)

def test_a_worker_that_is_killed_is_told_of(project, cache, monkeypatch):
    "As a system does that runs out of memory."
    from debias_nb.repro.records import WorkerLost
    runs, store = experiment(["Finetuned"], [0, 1]).runs(), Store(project.folder / "_runs")
    def die(run): os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(WorkerLost, match="a worker process was ended from outside"): runner.run_all(runs, store, workers=2, progress=False, work=die)
    def lost(*args): raise WorkerLost("a worker process was ended from outside")
    project.add("good"); monkeypatch.setattr(cli, "_run_first", lost)
    done = shell("batch", "--runs")
    assert done.exit_code == 2 and done.stderr == "debias-nb: a worker process was ended from outside\n"

def test_a_notebook_that_cannot_be_written_is_named(project, monkeypatch):
    project.add("good", "1")
    def full(*args, **options): raise OSError(28, "No space left on device")
    monkeypatch.setattr(papermill, "execute_notebook", full)
    done = shell("run", "toy/good")
    assert done.exit_code == 2 and "_runs/notebooks/toy/good.planted.ipynb: not executed: No space left on device" in done.stderr

def test_a_worker_that_fails_does_not_stop_the_other(cache, tmp_path):
    runs = [*experiment(["Finetuned"], [0], learning_rate=1e38).runs(), *experiment(["Finetuned"], [1, 2]).runs()]
    out = runner.run_all(runs, Store(tmp_path), workers=2, progress=False)
    assert out.failed == {runs[0].id: "step 1: the loss is nan"} and set(out.trained) == {r.id for r in runs[1:]}

# status and report

def test_status_accounts_for_every_cell_of_the_paper():
    done = shell("status", "--json")
    cells = json.loads(done.stdout)
    assert done.exit_code == 0
    printed = yaml.safe_load((ROOT / "expected/itvreg.yaml").read_text())["tables"]
    assert set(printed) == {f"table{n}" for n in range(1, 18)} - {"table9", "table10"} and all(any(c["table"] == t and c["profile"] == "paper" and c["why"] for c in cells) for t in ("table9", "table10"))
    for table in printed:
        mine = [c for c in cells if (c["paper"], c["table"], c["profile"]) == ("itvreg", table, "paper")]
        expected = {(" · ".join([c["row"].get("base", "MSMARCO"), row_name(c["row"])]), c["column"]): c["value"] for c in printed[table]["cells"]}
        assert len(mine) == len(expected) > 3, table
        assert {(c["row"], c["column"]): c["expected"] for c in mine} == expected
        assert all((c["value"] is None) == (c["status"] in ("not run", "failed")) and (c["value"] is not None or c["why"]) for c in mine)
    assert all(c["expected"] is None for c in cells if c["profile"] != "paper"), "reduced runs are not compared with the paper"
    assert {c["profile"] for c in cells} == {"planted", "small", "paper"} and all(c["command"] for c in cells if (c["paper"], c["table"]) == ("itvreg", "table3"))

def test_status_for_readers():
    done = shell("status")
    assert done.exit_code == 0 and all(word in done.stdout for word in ("table3", "table2", "planted", "small", "paper", "84"))

WITHOUT_CLAIMS = shutil.ignore_patterns("claims.ipynb", "findings.ipynb") # they speak of all configurations

def test_reports_are_the_same_bytes_twice(tmp_path, monkeypatch):
    "From a copy of some of this project's records, in two processes. `tools/sync.py` does the same with all of them."
    for name in ("bench", "configs", "expected", "results"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "nbs/papers", tmp_path / "nbs/papers", ignore=WITHOUT_CLAIMS)
    kept = ("itvreg/figure01.planted", "itvreg/table02.planted", "itvreg/table02.paper", "itvreg/table03.paper", "scan/table03.paper")
    for path in (tmp_path / "configs").glob("*/*.yaml"):
        if f"{path.parent.name}/{path.stem}" not in kept:
            path.unlink()
    shutil.copy(ROOT / "settings.ini", tmp_path)
    monkeypatch.chdir(tmp_path)
    done = outside("report", "--out", "a", cwd=tmp_path)
    other = outside("report", "--out", "b", cwd=tmp_path, PYTHONHASHSEED="7", MPLBACKEND="svg", TZ="Asia/Tokyo")
    assert done.returncode == other.returncode == 0, done.stderr + other.stderr
    a, b = ({p.relative_to(tmp_path / name).as_posix(): p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()} for name in "ab")
    assert a == b
    assert {"itvreg/table03.md", "itvreg/table03.csv", "itvreg/table02.2.svg", "itvreg/figure01.svg", "SPEED.md", "itvreg/errata.md"} <= a.keys()
    assert len(done.stdout.splitlines()) == len(other.stdout.splitlines()) == len(a)
    assert not any(str(tmp_path).encode() in data or str(ROOT).encode() in data for data in a.values())
    assert b"skip_exec" not in a["itvreg/table03.md"] and b"from debias_nb" not in a["itvreg/table03.md"], "code is left out"

def test_reports_train_nothing_and_need_no_torch(tmp_path):
    code = "import sys; from pathlib import Path; from debias_nb.repro.pages import write_page; write_page('itvreg/table02', Path(sys.argv[1])); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, env=ENV, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == "False", done.stderr

@pytest.mark.parametrize("command", ["list", "data", "cost itvreg/table02 --profile paper", "plan itvreg/table05"])
def test_commands_that_train_nothing_need_no_torch(command):
    code = f"import sys; from debias_nb.repro.cli import app; app({command.split()}, standalone_mode=False); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=ENV, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("False\n"), done.stderr + done.stdout

def test_a_notebook_that_fails_is_named(tmp_path):
    from debias_nb.repro.pages import executed
    cells = [dict(cell_type="code", metadata={"tags": ["parameters"]}, source="profile: str = 'planted'"), dict(cell_type="code", metadata={}, source="profile")]
    path = tmp_path / "page.ipynb"
    path.write_text(json.dumps(dict(cells=cells)))
    assert [one.data for one in executed(path, {"profile": "small"})] == ["'small'"]
    path.write_text(json.dumps(dict(cells=[*cells, dict(cell_type="code", metadata={}, source="1 / 0")])))
    with pytest.raises(ZeroDivisionError) as e: executed(path, {})
    assert e.value.__notes__ == ["in page.ipynb: 1 / 0"]

def made_up_numbers(run, i, keep, rng):
    "A record of an invented run; every third of the failures has failed."
    if keep == "failures" and i % 3 == 1:
        return failed_record(run, "the loss is nan", 7)
    tests = [test for test in run.evaluate if test != "superuser"]
    curve = dict(step=[1, 2], erm=[.2, .1])
    if run.method.regulariser != "none":
        curve |= {"raw": [.1, .1], "weighted": [.01, .01]}
    metrics = {test: {"auc05": rng.random(), "auc": rng.random()} for test in tests}
    replicates = {test: {"auc05": rng.random(20).tolist()} for test in tests}
    return make_record(run, metrics, data={"train": dict(fingerprint="ab" * 32)}, encoder=dict(name=run.encoder.name, fingerprint="cd" * 32), device="cpu", dtype="fp32",
                       seconds=1., peak_memory=1, curve=curve, replicates=replicates)

@pytest.mark.parametrize("keep", ["one encoder", "no reference", "failures", "everything"])
def test_reports_of_whatever_has_been_run(tmp_path, monkeypatch, keep):
    "Invented numbers for a part of the runs: a page is written, with the encoders of which something was trained."
    shutil.copytree(ROOT / "expected", tmp_path / "expected")
    (tmp_path / "configs/itvreg").mkdir(parents=True)
    for name in ("configs/itvreg/table03.small.yaml", "configs/itvreg/table03.paper.yaml", "settings.ini"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "nbs/papers", tmp_path / "nbs/papers", ignore=WITHOUT_CLAIMS)
    monkeypatch.chdir(tmp_path)
    table, store, rng = load_experiment("itvreg/table03", "small"), Store(tmp_path / "results"), np.random.default_rng(0)
    runs = table.runs()
    chosen = {
        "one encoder": [r for r in runs if r.encoder.name == "potion-base-2M" or not r.method.trained],
        "no reference": [r for r in runs if r.method.name not in ("Base", "Finetuned")],
        "failures": runs[::2],
        "everything": runs,
    }[keep]
    for i, run in enumerate(chosen):
        store.append(made_up_numbers(run, i, keep, rng))
    done = shell("report", "--out", "pages")
    assert done.exit_code == 0, done.exception
    page = (tmp_path / "pages/itvreg/table03.md").read_text()
    cells = [c for c in json.loads(shell("status", "--json").stdout) if c["profile"] == "small"]
    finished = {r["id"] for r in store.all() if r["status"] == "finished"}
    assert {i for c in cells for i in c["records"]} == finished
    if keep == "everything":
        assert all(c["status"] == "measured" for c in cells if "SuperUser" not in c["column"])
    means = page.partition("## The table")[2].partition("## What each method gains")[0]
    trained = [e.display for e in table.encoders if any(c["value"] is not None and c["row"].startswith(e.display) and not c["row"].endswith("Base") for c in cells)]
    shown = [e.display for e in table.encoders if f"| {e.display} |" in means]
    assert shown == (trained if len(trained) > 1 else []), "one encoder needs no name in the table"
    assert "None" not in page and "nan" not in page.replace("the loss is nan", "")
    if keep == "failures":
        assert any(c["status"] == "failed" and "training stopped: the loss is nan" in c["why"] for c in cells)
    assert f"{len(finished)} runs, " in page

# agreement

@pytest.mark.parametrize("test, metrics, wrong, exit_code", [
    ("iid", {"auc05": .5}, {"auc05": .509}, 0),
    ("iid", {"auc05": .5}, {"auc05": .52}, 1),
    ("shifted", {"map": .5}, {"map": .6}, 1),
    ("cross", {"r8": .5}, {"r8": .49}, 0),
    ("cross", {"queries": 13.}, {"queries": 14.}, 1),
    ("counts", {"Training samples": 1000.}, {"Training samples": 1001.}, 1),
    ("iid", {"auc05": .5, "auc": .8}, {"auc05": .5}, 1),
], ids=["percent, near", "percent, apart", "fraction, apart", "fraction, near", "count", "count of texts", "absent"])
def test_agreement_fails_on_wrong_values_in_every_unit(tmp_path, monkeypatch, test, metrics, wrong, exit_code):
    (tmp_path / "configs").mkdir()
    shutil.copy(ROOT / "settings.ini", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEBIAS_NB_RUNS", raising=False)
    run = experiment(["Finetuned"], [0]).runs()[0]
    same = dict(data={"train": dict(fingerprint="ab" * 32)}, encoder=dict(name="x", fingerprint="cd" * 32), device="cpu", dtype="fp32", seconds=1., peak_memory=1, curve={})
    Store(tmp_path / "results").append(make_record(run, {test: metrics}, **same))
    Store(tmp_path / "_runs").append(make_record(run, {test: wrong}, **same))
    done = shell("agree")
    assert done.exit_code == exit_code, done.stdout
    assert "1 of 1 committed planted runs" in done.stdout and (run.id in done.stdout) == bool(exit_code)

# exit codes

def test_a_batch_without_a_number_is_no_success(project, monkeypatch):
    project.add("a", "print('it ran')"); project.add("b", "print('it ran')")
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
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path)); monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    assert shell("data").exit_code == 0
    (tmp_path / "quora").mkdir()
    (tmp_path / "quora/nlx-quora_test.tsv").write_text("1\ta\tb\n")
    done = shell("data")
    assert done.exit_code == 1 and done.stderr == "debias-nb: other contents than the registry's: quora/nlx-quora_test.tsv\n"

def test_a_run_without_a_record_is_no_success(tmp_path, monkeypatch):
    "Seeds that nothing was run for: no number of other seeds is shown, and the exit code says so."
    monkeypatch.setattr(cli, "_execute", lambda name, profile, parameters: tmp_path / "executed.ipynb")
    done = shell("run", "itvreg/table03", "--profile", "small", "--seeds", "77")
    assert done.exit_code == 1 and "nothing of itvreg/table03 at small that was asked for has been run" in done.output
    assert "| Finetuned" not in done.output

# data that nobody can tell from others

def test_pairs_placed_under_a_name_become_no_row_of_it(tmp_path, monkeypatch):
    "Somebody's own pairs as SuperUser: nothing is trained, nothing is written, and it is said why."
    from debias_nb.data.questions import load_questions
    from debias_nb.data.registry import UnknownData
    from debias_nb.repro.tasks.common import lacking
    folder = tmp_path / "data/superuser"
    folder.mkdir(parents=True)
    for file, item in (("train.tsv", "lamp"), ("test.tsv", "chair")):
        (folder / file).write_text("".join(f"{i % 2}\t{item} number {i}\t{item} of kind {i}\n" for i in range(40)))
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    lacking.cache_clear()
    assert len(load_questions("superuser", "train")) == 40, "a reader takes them"
    runs = [run for run in load_experiment("itvreg/table03", "small", ROOT).runs() if run.corpus and run.corpus.name == "superuser"]
    assert runs
    store = Store(tmp_path / "records")
    out = runner.run_all(runs[:2], store, workers=1, progress=False)
    lacking.cache_clear()
    assert not out.records and not out.trained and store.all() == []
    for why in out.missing.values():
        assert "superuser/train.tsv is not used" in why and "no hash of this file is known" in why
    with pytest.raises(UnknownData):
        runner.execute(runs[0])
    assert store.all() == []


# the whole way

def test_smoke(tmp_path):
    "Encoder, notebook, kernel, records: two seeds of one method, through the real command line; a deleted record is one run, and what is there is loaded."
    for name in ("configs", "expected", "nbs/papers"): shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "settings.ini", tmp_path)
    config = tmp_path / "configs/itvreg/table03.planted.yaml"
    config.write_text(config.read_text("utf-8").replace("train_pairs: 1000", "train_pairs: 100, queries: 60, items: 200"), "utf-8")
    runs = tmp_path / "records"
    args = ["run", "itvreg/table03", "--profile", "planted", "--seeds", "7,8", "-p", "methods=[Finetuned]", "-p", "encoders=[tiny]", "--workers", "1"]
    env = dict(DEBIAS_NB_RUNS=str(runs), DEBIAS_NB_CACHE=str(CACHE))
    def go():
        done = outside(*args, cwd=tmp_path, **env)
        assert done.returncode == 0, done.stderr
        said = next(t for t in text(tmp_path / "_runs/notebooks/itvreg/table03.planted.ipynb") if "run now" in t)
        return said.partition("CPU. ")[2], done.stdout
    said, shown = go()
    path = runs / "itvreg/table03.planted.jsonl"
    first, before = read(path), path.read_bytes()
    asked = runner.narrow(load_experiment("itvreg/table03", "planted", tmp_path), [7, 8], ["Finetuned"], ["tiny"], full=False).runs()
    assert len(asked) == 2 and said.startswith("2 records, 2 of them run now; 0 runs lack something.") and "executed: " in shown
    assert [r["id"] for r in first] == [r.id for r in asked] and {r["config"]["corpus"]["label"] for r in first} == {"strong"}
    for r, seed in zip(first, (7, 8)): assert (r["seed"], r["config"]["seed"], r["config"]["method"]["name"], r["config"]["encoder"]["label"], r["status"]) == (seed, seed, "Finetuned", "tiny", "finished")
    assert all(0 < r["metrics"]["iid"]["auc05"] <= 1 for r in first) and [p.name for p in runs.rglob("*.jsonl")] == [path.name] and not list((tmp_path / "_runs").rglob("*.jsonl"))

    assert runner.run_all(asked, Store(runs), workers=1, progress=False).trained == [] and path.read_bytes() == before, "nothing is run again"

    assert Store(runs).delete(first[0]["id"]) == 1
    assert go()[0].startswith("2 records, 1 of them run now")
    assert path.read_bytes().startswith(before.splitlines(keepends=True)[1]) and len(read(path)) == 2
    assert {r["id"]: comparable(r) for r in read(path)} == {r["id"]: comparable(r) for r in first}
