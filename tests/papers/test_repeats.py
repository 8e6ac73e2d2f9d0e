"""A run gives the same record in another process and after other runs.

Encoder, data, batches, interventions and resamples are all made again from nothing, with other hashes of strings and
more threads."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from debias_nb.runs.config import RunConfig
from debias_nb.runs import runner
from debias_nb.runs.records import comparable
from made import experiment
from test_answers import SCAN, run_of as run_on_answers
from test_task_authors import ARR, CL, run_of as run_on_authors

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
RUNS = {
    "pairs": experiment(["ITVReg"], [3]).runs()[0],
    "answers": run_on_answers(SCAN, measure=("cases",)),
    "authors": run_on_authors(ARR, seed=3),
}
EXECUTE = """
import json, sys
from debias_nb.runs.config import RunConfig
from debias_nb.runs.runner import execute
print(json.dumps([execute(RunConfig.model_validate(run)) for run in json.loads(sys.argv[1])]))
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    "The records of another process, which loads the libraries once for all of them."
    variables = {"PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "2", "PYTHONPATH": str(ROOT),
                 "DEBIAS_NB_CACHE": str(tmp_path_factory.mktemp("cache"))}
    configs = json.dumps([run.model_dump(mode="json") for run in RUNS.values()])
    process = subprocess.run([sys.executable, "-c", EXECUTE, configs], env=os.environ | variables, cwd=ROOT,
                             capture_output=True,
                             text=True)
    assert process.returncode == 0, process.stderr
    return dict(zip(RUNS, json.loads(process.stdout.splitlines()[-1])))


@pytest.mark.parametrize("name", RUNS)
def test_another_process_gives_the_same_record(name, elsewhere):
    runner.execute(run_on_authors(CL, seed=1))
    record = elsewhere[name]
    assert comparable(record) == comparable(runner.execute(RUNS[name]))
    assert RunConfig.model_validate(record["config"]) == RUNS[name]
    assert "steps" not in record["extra"] or record["extra"]["steps"] == record["curve"]["step"][-1]
