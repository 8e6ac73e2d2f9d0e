"""Plans of jobs, and the workflow that makes them.

Two jobs of Snakemake here, the same through a Slurm, and what was killed goes on.
"""
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from debias_nb.config import ConfigError, cache_dir
from debias_nb.repro.runs import plan as plans
from debias_nb.repro.cli import app
from debias_nb.repro.config import load_experiment
from debias_nb.repro.pages.cost import load_costs, measured, run_cost
from debias_nb.repro.runs.records import Store, comparable, latest
from debias_nb.repro.runs.runner import run_all

ROOT = Path(__file__).parents[1]
CACHE = cache_dir("encoders").parent

CONFIG = """
paper: itvreg
experiment: remedies
profile: planted
title: Two remedies
scale: an invented catalogue
encoders:
  - name: tiny-static
    kind: static
    world: {broad_pairs: 800, types: 16, unseen_types: 6}
    pretrain: {steps: 60, learning_rate: 2e-2}
methods: [{name: Finetuned}, {name: OutReg, regulariser: outreg, weight: 0.1}]
blocks:
  - encoders: [tiny-static]
    methods: [Finetuned, OutReg]
    seeds: [0, 1]
    evaluate: [unseen]
    corpora: [{name: catalogue, world: {broad_pairs: 800, types: 16, unseen_types: 6, train_pairs: 400}}]
    training: {learning_rate: 2e-2, epochs: EPOCHS, batch_size: 64}
"""


def shell(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def git(*args, cwd):
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.com"]
    subprocess.run(["git", *who, *args], cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path, monkeypatch):
    "A clone with one small configuration; its records count as those of a commit."

    def make(epochs=2):
        for name in ("debias_nb", "workflow"):
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("settings.ini", ".gitignore"):
            shutil.copy(ROOT / name, tmp_path)
        config = tmp_path / "configs/itvreg/remedies.planted.yaml"
        config.parent.mkdir(parents=True)
        config.write_text(CONFIG.replace("EPOCHS", str(epochs)), "utf-8")
        git("init", "--quiet", cwd=tmp_path)
        git("add", ".", cwd=tmp_path)
        git("commit", "--quiet", "--message", "A small project", cwd=tmp_path)
        return tmp_path

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEBIAS_NB_RUNS", raising=False)
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(CACHE))
    return make


def alone(folder):
    "The records that one process makes, one run after the other: id -> what honest repeats share."
    runs = load_experiment("itvreg/remedies", "planted", folder).runs()
    outcome = run_all(runs, Store(folder / "alone"), workers=1, progress=False)
    return {i: comparable(record) for i, record in outcome.records.items()}


def records_of(folder):
    return [record for record in Store(folder).all() if record["status"] == "finished"]


def made_by(folder):
    "What the workflow has merged."
    return {i: comparable(record) for i, record in latest(records_of(folder / "_runs")).items()}


# ---------------------------------------------------------------- plans


def test_a_plan_sums_what_its_jobs_cost():
    said = shell("plan", "itvreg/table02", "--profile", "paper").output.splitlines()
    runs = load_experiment("itvreg/table02", "paper").runs()
    costs = load_costs()
    each = [run_cost(run, costs, measured()) for run in runs]
    rows = [line.split() for line in said[1:-2]]
    assert sum(int(row[1]) for row in rows) == len(runs)
    assert all(row[0].startswith("itvreg-table02-paper-") for row in rows)
    assert said[-2] == "all of them -> merge the records -> render the pages"
    hours = sum(one.seconds for one in each) / 3600
    memory = max(one.memory for one in each) / 2**30
    assert f"{len(runs)} runs; 0 runs have a record; {hours:,.0f} hours" in said[-1]
    assert said[-1].endswith(f"{memory:.1f} GiB at most")


def test_what_nobody_knows_is_said(project):
    folder = project()
    (found,), there = plans.plan(["itvreg/remedies"], "planted", root=folder)
    assert there == 0
    assert found.sources == ("assumed",)
    assert found.seconds == 4 * plans.ASSUMED["planted"]
    assert "1 jobs have runs of which neither records nor configs/device/costs.yaml know" in plans.described([found], 0)


def test_what_has_a_record_is_in_no_job_and_tells_how_long_the_others_take(project):
    folder = project()
    runs = load_experiment("itvreg/remedies", "planted", folder).runs()
    records = run_all(runs[:2], Store(folder / "_runs"), workers=1, progress=False).records
    jobs, there = plans.plan(["itvreg/remedies"], "planted", worth=0, root=folder)
    assert there == 2
    assert [job.ids for job in jobs] == [(run.id,) for run in runs[2:]]
    known = plans.estimates(runs, folder)
    assert [known[run.id].source for run in runs] == ["its record"] * 2 + ["runs with its encoder"] * 2
    assert known[runs[0].id].seconds == records[runs[0].id]["seconds"]
    assert plans.plan(["itvreg/remedies"], "planted", there=[run.id for run in runs], root=folder)[0] == []


def test_a_job_of_another_configuration_is_refused(project):
    folder = project()
    (found,), _ = plans.plan(["itvreg/remedies"], "planted", root=folder)
    plans.write_plan([found], folder / "plan.json")
    assert plans.read_plan(folder / "plan.json") == {found.name: found}
    config = folder / "configs/itvreg/remedies.planted.yaml"
    config.write_text(config.read_text("utf-8").replace("batch_size: 64", "batch_size: 32"), "utf-8")
    with pytest.raises(ConfigError, match="has no run .* any more; plan again"):
        plans.job_runs(found, folder)
    assert shell("plan", "itvreg/remedy", "--profile", "planted").exit_code == 2


def test_a_job_whose_time_is_up_is_not_done(project):
    folder = project()
    (found,), _ = plans.plan(["itvreg/remedies"], "planted", root=folder)
    plans.write_plan([found], folder / "plan.json")
    where = ["job", found.name, "--plan", folder / "plan.json", "--out", folder / "jobs" / found.name]
    stopped = shell(*where, "--time", "0")
    assert stopped.exit_code == 1
    assert "4 runs are left" in stopped.output
    finished = shell(*where, "--time", "600")
    assert finished.exit_code == 0
    assert "4 runs made" in finished.output
    assert "0 runs made" in shell(*where, "--time", "600").output
    (place,) = plans.folders_of_jobs(folder / "jobs")
    assert plans.settled(folder / "jobs", place.name) == set(found.ids)


# ---------------------------------------------------------------- Snakemake


def why_not_snakemake():
    if importlib.util.find_spec("snakemake") is None:
        return "snakemake is not installed: pip install -e '.[cluster]'"


def why_not_slurm():
    if why_not_snakemake():
        return why_not_snakemake()
    if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
        return "Snakemake's executor for Slurm is not installed: pip install -e '.[cluster]'"
    if shutil.which("sinfo") is None or subprocess.run(["sinfo"], capture_output=True).returncode:
        return "no Slurm answers here: workflow/slurm_local.sh install, and start"


needs_snakemake = pytest.mark.skipif(why_not_snakemake() is not None, reason=str(why_not_snakemake()))
needs_slurm = pytest.mark.skipif(why_not_slurm() is not None, reason=str(why_not_slurm()))
TWO_JOBS = ["merge", "--config", "tables=itvreg/remedies", "minutes=2"] # of two runs each, assumed to take a minute


def start(folder, profile, *options):
    command = [sys.executable, "-m", "snakemake", "--profile", f"workflow/profiles/{profile}", *options, *TWO_JOBS]
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths.rstrip(os.pathsep), "HOME": str(folder / "_runs/home")}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )


def output(process, seconds=500):
    said = process.communicate(timeout=seconds)[0]
    assert process.returncode == 0, said[-3000:]
    return said


@needs_snakemake
def test_two_jobs_here_give_the_records_of_one_process(project):
    folder = project()
    assert "2 jobs, 4 runs; 0 runs have a record" in output(start(folder, "local", "--cores", "1"))
    assert made_by(folder) == alone(folder)
    assert [len(records_of(place)) for place in places_of_jobs(folder)] == [2, 2]
    assert (folder / "_runs/cluster/merged.txt").read_text("utf-8").startswith("4 records added, 0 were there")
    assert "0 jobs, 0 runs; 4 runs have a record" in output(start(folder, "local", "--cores", "1"))


def makes_records_of(process, job):
    "Whether a process, as it stands in /proc, is the command line at work on a job."
    try:
        said = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"debias_nb.repro.cli" in said and f"_runs/cluster/jobs/{job}".encode() in said


def places_of_jobs(folder):
    return plans.folders_of_jobs(folder / "_runs/cluster/jobs")


def at_work(folder) -> int | None:
    "The process of a job that has made one of its two runs."
    halves = [place for place in places_of_jobs(folder) if len(records_of(place)) == 1]
    for place in halves:
        for process in Path("/proc").glob("[0-9]*"):
            if makes_records_of(process, place.parent.name):
                return int(process.name)


def wait_for(look, process, seconds=400):
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        found = look()
        if found:
            return found
        time.sleep(.02)
    said = process.communicate()[0][-3000:] if process.poll() is not None else "no end"
    raise AssertionError(f"never seen: {said}")


@needs_snakemake
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes cannot be found here: there is no /proc")
def test_a_job_that_is_killed_goes_on_with_what_it_has_not_made(project):
    folder = project(epochs=40)
    process = start(folder, "local", "--cores", "1")
    os.kill(wait_for(lambda: at_work(folder), process), signal.SIGKILL)
    assert "Trying to restart job" in output(process)
    assert made_by(folder) == alone(folder)
    every = [record["id"] for place in places_of_jobs(folder) for record in records_of(place)]
    assert len(every) == len(set(every)) == 4, "no run was made twice"


def listed(*options):
    command = ["squeue", "--noheader", "--states", "RUNNING", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@needs_slurm
def test_slurm_gives_the_same_records_and_a_cancelled_job_is_run_again(project):
    folder = project(epochs=40)
    often = ["--slurm-init-seconds-before-status-checks", "5", "--seconds-between-status-checks", "3"]
    process = start(folder, "slurm", *often)
    wait_for(lambda: at_work(folder), process)
    subprocess.run(["scancel", listed("--format", "%A")[0]], check=True)
    assert "Trying to restart job" in output(process)
    assert made_by(folder) == alone(folder)
