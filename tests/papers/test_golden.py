"""A few committed runs of paper A, made again with their curves; `debias-nb agree` asks for the metrics of all."""
from functools import cache
from pathlib import Path

import pytest

from debias_nb.runs import runner
from debias_nb.runs.config import load_experiment
from debias_nb.runs.records import Store

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
TOLERANCE = 1e-4 # on any x86-64 processor, in fractions

RUNS = [ # experiment, end of the id of a planted run
    ("table05", "tiny-static-strong-maskreg-50-s2-17e6f5e7bd"),
    ("table11", "tiny-static-strong-itvreg-0.15-s2-88e0e1e137"),
    ("table11", "tiny-static-strong-simcse-s2-047a3ff534"), ("table14", "tiny-static-strong-outreg-s0-e3c35bd982"),
    ("table14", "tiny-static-strong-finetuned-s2-c19860823f"),
]


@cache
def runs_of(name: str) -> dict:
    "Every run of an experiment by its id."
    return {run.id: run for run in load_experiment(f"itvreg/{name}", "planted", ROOT).runs()}


@pytest.mark.parametrize("name, end", RUNS)
def test_a_committed_run_is_made_again(name, end):
    run, = (run for run_id, run in runs_of(name).items() if run_id.endswith(end))
    record = Store(ROOT / "experiments").find(run)
    repetition = runner.execute(run)
    assert repetition["metrics"].keys() == record["metrics"].keys()
    for test, values in record["metrics"].items():
        assert repetition["metrics"][test] == pytest.approx(values, abs=TOLERANCE), test
    assert repetition["curve"]["step"] == record["curve"]["step"]
    for term, values in record["curve"].items():
        assert repetition["curve"][term] == pytest.approx(values, rel=20 * TOLERANCE, abs=TOLERANCE / 100), term
