"""Committed runs of paper A, made again: each method, both losses, both kinds of encoder. GOLDEN=all makes them all, which
takes a quarter of an hour; otherwise a few are made."""
import os
from functools import cache
from pathlib import Path

import pytest

from debias_nb.runs import runner
from debias_nb.runs.config import load_experiment
from debias_nb.runs.records import Store

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
STATIC = 1e-4 # on any x86-64 processor, in fractions
TRANSFORMER = .01

RUNS = { # experiment -> ends of the ids of planted runs
    "table05": ["tiny-static-strong-maskreg-50-s2-17e6f5e7bd"],
    "table11": [
        "tiny-static-strong-itvreg-0.15-s2-88e0e1e137", "tiny-static-strong-simcse-s2-047a3ff534",
        "tiny-static-strong-itvreg-s1-6454aec88a"],
    "table14": [
        "tiny-static-strong-outreg-s0-e3c35bd982", "tiny-static-strong-finetuned-s2-c19860823f",
        "tiny-static-strong-maskreg-s0-df6be69800"],
    "beyond": [
        "tiny-static-strong-itvreg-10-a-quarter-s0-40b07f8ee6", "tiny-static-strong-l2-sp-1e-05-s2-fc08f5225f",
        "tiny-static-strong-finetuned-s1-0808525305", "tiny-static-strong-wise-ft-s0-486837b940",
        "tiny-static-strong-word-dropout-15-s0-3328b7d58a", "tiny-static-strong-word-dropout-50-s2-7c87c4d2fd",
        "tiny-mild-itvreg-10-a-quarter-s2-8a1d154ad5", "tiny-mild-l2-sp-1e-06-s0-86cd186219",
        "tiny-mild-finetuned-s0-4db4ab47f8", "tiny-mild-word-dropout-15-s1-fc47ab8b8f",
        "tiny-mild-word-dropout-50-s2-071198235c"],
    "table07": ["tiny-static-strong-finetuned-s2-e75e0daebb"], # with gradients of all regularizers
    "table17": [                                               # the best epoch
        "tiny-static-strong-itvreg-s1-1f5d2be95c", "tiny-static-strong-maskreg-s2-91ba634323",
        "tiny-static-strong-finetuned-s1-a50ab71e52", "tiny-static-strong-outreg-s2-a7e7313c4c",
        "tiny-static-strong-simcse-s1-6f4f13bcf3"],
    "lambda_titles": [
        "tiny-static-strong-itvreg-10-s2-c9e99b27ab", "tiny-static-strong-maskreg-0.1-s1-caeb1a0585",
        "tiny-static-strong-outreg-10-s2-bbe5e59e25", "tiny-static-strong-simcse-0.1-s2-a2828a1e9b",
        "tiny-static-strong-finetuned-s1-08bcb340be", "tiny-mild-maskreg-0.1-s1-3d74f673af",
        "tiny-mild-outreg-10-s0-a60aa5274e"],
    "interventions": [
        "tiny-strong-itvreg-1-s0-f8239e5670", "tiny-strong-itvreg-deleting-s0-5873c6ed5d",
        "tiny-strong-itvreg-padding-s0-c0a752a881", "tiny-strong-itvreg-random-tokens-s0-5ca54ac293"],
    "table03": [
        "tiny-mild-maskreg-s0-5789e722f8", "tiny-mild-itvaug-s2-6eac2731ac", "tiny-mild-outreg-s0-8146e78051",
        "tiny-mild-simcse-s1-9f73352266"],
    "table02": ["tiny-strong-simcse-s2-5fc26a344c"],
}
FEW = ("table05", "table11", "table14")


def chosen() -> list[tuple[str, str]]: # experiment, end of an id
    if os.environ.get("GOLDEN") == "all":
        return [(name, end) for name, ends in RUNS.items() for end in ends]
    return [(name, ends[place]) for name, ends in RUNS.items() for place in (0, 1) if name in FEW and place < len(ends)]


@cache
def planned(name: str) -> dict:
    "Every run of an experiment by its id."
    return {run.id: run for run in load_experiment(f"itvreg/{name}", "planted", ROOT).runs()}


@pytest.mark.parametrize("name, end", chosen())
def test_a_committed_run_is_made_again(name, end):
    run, = (run for run_id, run in planned(name).items() if run_id.endswith(end))
    record = Store(ROOT / "results").find(run)
    made = runner.execute(run)
    near = STATIC if run.encoder.kind == "static" else TRANSFORMER
    assert made["metrics"].keys() == record["metrics"].keys()
    for test, values in record["metrics"].items():
        assert made["metrics"][test] == pytest.approx(values, abs=near), test
    assert made["curve"]["step"] == record["curve"]["step"]
    for term, values in record["curve"].items():
        assert made["curve"][term] == pytest.approx(values, rel=20 * near, abs=near / 100), term
