"""What is computed with other instructions says the same: one planted run of each task, twice.

Each time in a process of its own. Not asked without AVX2, where torch draws other normal numbers."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from debias_nb.papers.reproduce import agreement, metric_deviations, why_not_compared

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.nightly]
# A run of each task, and of the small transformer: experiment, encoder, method.
RUNS = {
    "pairs": ("itvreg/table14", "tiny-static", "ITVReg"),
    "titles": ("itvreg/table09", "tiny-static", "ITVReg"),
    "transformer": ("itvreg/table03", "tiny", "Finetuned"),
    "authors": ("arr/table02", "learned", "CL + ARR"),
    "answers": ("scan/table07", "learned", "SCAN, ours"),
}
# These runs with less to train on: each takes some seconds.
SMALLER = {
    "train_pairs": 200, "broad_pairs": 1000, "queries": 60, "items": 200, # of a catalogue
    "questions": 200, "tests": 60,                                        # of answers
    "authors": 60, "test_authors": 40,
}
# Sums in another order: torch's own kernels where there are wider ones than AVX2, MKL, oneDNN, and NumPy's OpenBLAS.
OTHERWISE = {
    "ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "COMPATIBLE", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "ONEDNN_MAX_CPU_ISA": "SSE41", "OPENBLAS_CORETYPE": "Nehalem",
}
PROGRAM = """
import json, sys
import numpy as np, torch
from debias_nb.runs.config import RunConfig, load_experiment
from debias_nb.runs.runner import execute, quiet_libraries
quiet_libraries()
runs, smaller = map(json.loads, sys.argv[1:])


def shorter(run):
    said = run.model_dump()
    for world in (said["encoder"]["world"], said["corpus"]["world"], said["eval_world"]):
        if world:
            world |= {name: count for name, count in smaller.items() if name in world}
    if said["encoder"]["pretrain"]:
        said["encoder"]["pretrain"]["steps"] = 20
    return RunConfig(**said)


a = torch.randn(300, 300, generator=torch.Generator().manual_seed(0))
products = [(a @ a).double().sum().item(), float((a.numpy() @ a.numpy()).sum(dtype=float))]
said = {"drawn": a.double().sum().item(), "sums": products}
for name, (experiment, encoder, method) in runs.items():
    all_runs = load_experiment(experiment, "planted").runs()
    run = next(run for run in all_runs if (run.encoder.name, run.method.name, run.seed) == (encoder, method, 0))
    said[name] = execute(shorter(run))
print(json.dumps(said, default=lambda value: value.tolist()))
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    "What the runs say with all instructions of this machine, and with others."
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("this machine has no AVX2: torch draws other normal numbers there")
    running = []
    for settings in ({}, OTHERWISE):
        environment = {name: value for name, value in os.environ.items() if name not in OTHERWISE}
        environment |= settings | {"DEBIAS_NB_CACHE": str(tmp_path_factory.mktemp("cache")), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", PROGRAM, json.dumps(RUNS), json.dumps(SMALLER)]
        running.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True))
    answers = [json.loads(process.communicate(timeout=900)[0]) for process in running]
    assert answers[0]["drawn"] == answers[1]["drawn"]
    if answers[0]["sums"] == answers[1]["sums"]:
        pytest.skip("no setting changes how this machine adds up")
    return answers


@pytest.mark.parametrize("name", RUNS)
def test_other_instructions_say_the_same(outputs, name):
    mine, theirs = (answers[name] for answers in outputs)
    theirs["environment"]["cpu"] = "with other instructions"
    reason = why_not_compared(mine, theirs)
    if reason:
        pytest.skip(reason)
    differences = metric_deviations({name: mine}, {name: theirs})
    assert len(differences) >= 2
    assert not differences.apart.any(), differences[differences.apart].to_string()
    *_, line = agreement({name: mine}, {name: theirs})[0]
    count = len(differences)
    assert line.startswith("| 20") and line.endswith(f", torch {torch.__version__} | {count} of {count} |")
