"One committed planted run of each kind that is quick is made again, and its record says the same in all of its parts."
import json

import pytest

from debias_nb.papers.reproduce import metric_deviations
from debias_nb.runs import runner
from debias_nb.runs.records import committed_store, comparable
from notebooks import ROOT
from some_runs import some_runs

SECONDS = 14 # that a run took when it was recorded
RUNS, _ = some_runs()
RECORDS = runner.finished(RUNS, committed_store(ROOT))
QUICK = [run for run in RUNS if RECORDS[run.id]["seconds"] < SECONDS and run.encoder.kind != "transformer"]


def check_same(part, recorded, place):
    "Check that a part of a record is as recorded, numbers but for rounding."
    if isinstance(recorded, dict):
        for name, value in recorded.items():
            if value != {}:
                check_same(part[name], value, f"{place}, {name}")
    elif isinstance(recorded, list):
        assert len(part) == len(recorded), place
        for value, recorded_value in zip(part, recorded):
            check_same(value, recorded_value, place)
    elif isinstance(recorded, float):
        assert part == pytest.approx(recorded, rel=1e-3, abs=1e-3), place
    else:
        assert part == recorded, place


@pytest.mark.parametrize("run", QUICK, ids=lambda run: run.id)
def test_a_quick_run_is_made_again(run):
    committed = RECORDS[run.id]
    record = json.loads(json.dumps(runner.execute(run), default=lambda value: value.tolist()))
    differences = metric_deviations({run.id: record}, {run.id: committed})
    assert not differences["apart"].any(), differences[differences["apart"]].to_string()
    assert {test: {*metrics} for test, metrics in record["metrics"].items()} == {
        test: {*metrics} for test, metrics in committed["metrics"].items()}
    for name in ("data", "curve", "replicates", "extra"):
        check_same(comparable(record[name]), comparable(committed[name]), name)


@pytest.mark.parametrize("value, is_apart", [(.509, False), (.511, True)])
def test_what_looks_for_the_hardest_items_may_be_a_point_off(value, is_apart):
    run = next(run for run in QUICK if run.task == "titles" and run.training)
    here, committed = ({run.id: {"run": run, "metrics": {"iid": {"p1": p1}}}} for p1 in (value, .5))
    assert metric_deviations(here, committed)["apart"].item() == is_apart
