"""Runs as jobs: which job makes which run, and Snakemake, on the cores of this machine and through a Slurm where one answers:
a job that is killed goes on, and the records are those of one process."""
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

from debias_nb.checks import ConfigError
from debias_nb.files import cache_dir
from debias_nb.repro.cli import app
from debias_nb.repro.config import load_experiment
from debias_nb.repro.runs.device import part_of
from debias_nb.repro.runs.records import Store, comparable, latest
from debias_nb.repro.runs.runner import run_all

ROOT = Path(__file__).parents[1]
CACHE = cache_dir("encoders").parent
CONFIG = """
paper: itvreg
experiment: remedies
profile: planted
title: Two remedies
scale: a synthetic catalog
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
    training: {learning_rate: 2e-2, epochs: 40, batch_size: 64}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    "A clone with one small configuration; its records count as those of a commit."
    for name in ("debias_nb", "workflow"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("settings.ini", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    config = tmp_path / "configs/itvreg/remedies.planted.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(CONFIG, "utf-8")
    git = ["git", "-c", "user.name=nobody", "-c", "user.email=nobody@example.com"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "A small project"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEBIAS_NB_RUNS", raising=False)
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(CACHE))
    return tmp_path


def test_every_run_is_in_one_job():
    runs = list(range(10))
    jobs = [part_of(runs, f"{k}/3") for k in (1, 2, 3)]
    assert sorted(sum(jobs, [])) == runs and [len(job) for job in jobs] == [4, 3, 3]
    for wrong in ("0/3", "4/3", "3", "1/0", "a/b", "-1/3"):
        with pytest.raises(ConfigError, match=wrong):
            part_of(runs, wrong)


@pytest.mark.slow
def test_a_job_lists_its_runs_and_has_failed_when_its_time_was_up(project):
    runs = [run.id for run in load_experiment("itvreg/remedies", "planted", project).runs()]
    job = ["device-batch", "itvreg/remedies", "--part", "2/2"]
    listed = CliRunner().invoke(app, [*job, "--list"])
    assert listed.output.splitlines() == ["itvreg/remedies: 2 runs, 2 without a record here", *runs[1::2]]
    stopped = CliRunner().invoke(app, [*job, "--device", "cpu", "--time", "0"])
    assert stopped.exit_code == 1 and "2 runs are left" in stopped.output


def records_of(folder):
    "What the records of a folder say, but for times and machine."
    return {i: comparable(record) for i, record in latest(Store(folder).all()).items()}


def at_work(project):
    "The process of the first job, once it has made one of its two runs."
    for place in project.glob("_runs/cluster/*/*/1/*"):
        if place.name != "checkpoints" and len(Store(place).all()) == 1:
            for process in Path("/proc").glob("[0-9]*"):
                said = process.joinpath("cmdline").read_bytes().split(b"\0")
                if b"device-batch" in said and b"1/2" in said and said[0].endswith(b"python"):
                    return int(process.name)


def stop_a_job(project, profile, seconds=400):
    "Kill the first job at work, or let Slurm cancel it."
    end = time.monotonic() + seconds
    while not (found := at_work(project)):
        assert time.monotonic() < end
        time.sleep(.05)
    if profile == "local":
        os.kill(found, signal.SIGKILL)
        return
    listed = subprocess.run(["squeue", "--noheader", "--format", "%A"], capture_output=True, text=True, check=True)
    subprocess.run(["scancel", listed.stdout.split()[0]], check=True)


HAS_SNAKEMAKE = importlib.util.find_spec("snakemake") is not None
HAS_SLURM = HAS_SNAKEMAKE and shutil.which("sinfo") and not subprocess.run(["sinfo"], capture_output=True).returncode


@pytest.mark.slow
@pytest.mark.parametrize("profile", [
    pytest.param("local", marks=pytest.mark.skipif(not HAS_SNAKEMAKE, reason="no Snakemake: pip install -e '.[cluster]'")),
    pytest.param("slurm", marks=pytest.mark.skipif(not HAS_SLURM, reason="no Slurm answers: workflow/slurm_local.sh")),
])
def test_jobs_give_the_records_of_one_process_and_one_that_is_killed_goes_on(project, profile):
    command = [sys.executable, "-m", "snakemake", "--profile", f"workflow/profiles/{profile}", "--jobs", "1", "merge",
               "--config", "runs=itvreg/remedies", "parts=2", "minutes=10"]
    paths = os.pathsep.join(filter(None, [str(project), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": paths, "HOME": str(project / "_runs/home")}
    process = subprocess.Popen(command, cwd=project, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    stop_a_job(project, profile)
    said = process.communicate(timeout=500)[0]
    assert process.returncode == 0, said[-3000:]
    assert "Trying to restart job" in said
    merged, = project.glob("_runs/cluster/*/*/merged.txt")
    assert merged.read_text("utf-8").startswith("4 records added, 0 were there")
    runs = load_experiment("itvreg/remedies", "planted", project).runs()
    run_all(runs, Store(project / "alone"), workers=1, progress=False)
    assert records_of(project / "_runs") == records_of(project / "alone")
