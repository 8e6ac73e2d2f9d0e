"""The benches run, measure what they say, and keep no numbers that others disturbed. No timing is asserted."""
import contextlib
import io
import json
import math
import os
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest

import common
import diagnose
import importance
import made
import ranking
import regularized
import start
from debias_nb.encoders.tokens import single_thread, tokenize

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"
NO_SPREAD = {"median": 1., "q1": 1., "q3": 1.} # of what everything is compared with
VARIANTS = { # options of a quick run -> what is compared, the reference first
    "regularized --encoder tiny-static": list(regularized.VARIANTS),
    "diagnose --encoder tiny-static": [diagnose.DEFAULT, diagnose.ENCODING, diagnose.OURS],
    "importance --encoder tiny-static": [importance.OURS, importance.TOGETHER, importance.SINGLY, importance.STEPWISE],
    "start": list(start.VARIANTS),
    "ranking": [ranking.OURS, ranking.PREPARED, ranking.CONVERTED],
}
NEEDS = {"importance": "captum", "ranking": "pytrec_eval"} # of the extra bench


def numbers(value):
    "Every number of a part of a record."
    if isinstance(value, dict):
        return [number for part in value.values() for number in numbers(part)]
    return [value]


def started_once(run):
    "`subprocess.run` that starts a command once; asked again it starts a Python that does nothing."
    started = set()

    def start(command, **options):
        again = tuple(command) in started
        started.add(tuple(command))
        return run([sys.executable, "-c", ""] if again else command, **options)

    return start


@pytest.mark.slow
@pytest.mark.parametrize("command", VARIANTS)
def test_a_bench_says_what_it_measured(command):
    "As `python bench/script.py --quick` does, without loading torch once more."
    script, *options = command.split(" ", 2)
    if find_spec(NEEDS.get(script, "torch")) is None:
        pytest.skip(f"{NEEDS[script]} is not installed (extra bench)")
    out = io.StringIO()
    with (patch.dict(os.environ), patch.object(sys, "argv", [f"{script}.py", "--quick", *options]),
          patch.object(subprocess, "run", started_once(subprocess.run)),
          contextlib.redirect_stdout(out), single_thread(), pytest.raises(SystemExit) as stopped):
        runpy.run_path(str(BENCH / f"{script}.py"), run_name="__main__")
    printed = out.getvalue()
    assert stopped.value.code == 0, printed
    record = json.loads(printed.splitlines()[-1])
    assert record["bench"] == script and record["threads"] == 1 and record["settings"]["repeats"] == 2
    assert (record["warning"] is None) == ("WARNING" not in printed)
    found = record.get("encoders") or record.get("shapes") or {"": record}
    [result] = found.values()
    assert set(result["variants"]) == set(VARIANTS[command])
    for name, figures in result["variants"].items():
        assert name in printed
        first = next(iter(figures.values())) # the time
        assert all(math.isfinite(number) and number > 0 for number in numbers(first) + numbers(figures["ratio"]))
    assert result["variants"][VARIANTS[command][0]]["ratio"] == NO_SPREAD


# ---- what is compared is the same thing

@pytest.mark.skipif(find_spec("captum") is None, reason="captum is not installed (extra bench)")
def test_captum_is_asked_for_the_same_values(tmp_path):
    model = made.load(made.bert(tmp_path))
    tokens = tokenize(model, ["red kettle", "old blue lamp for a table", "chair"])
    runs = importance.variants(model, tokens)
    assert importance.agreement(runs, tokens.ordinary) < 1e-6
    assert (runs[importance.OURS]()[tokens.ordinary] > 1e-4).all()


@pytest.mark.skipif(find_spec("pytrec_eval") is None, reason="pytrec_eval is not installed (extra bench)")
def test_ir_measures_is_asked_for_the_same_values():
    ours, theirs = ranking.values_of(ranking.candidates(quick=True)[1])
    assert ranking.agreement(ours, theirs) <= ranking.AGREE and len(ours) == len(theirs)
    for wrong in (1e-6, math.nan):
        changed = theirs.copy()
        changed["mrr", "q7"] += wrong
        with pytest.raises(RuntimeError, match="mrr of question q7"):
            ranking.agreement(ours, changed)
    with pytest.raises(RuntimeError, match="map of question q7"):
        ranking.agreement(ours, theirs.drop(("map", "q7")))


# ---- what they have in common

@pytest.mark.parametrize("load, share, quotable", [(1.5, .95, True), (1.51, 1., False), (0., .9, False)])
def test_a_busy_machine_is_warned_of_and_its_numbers_are_not_kept(load, share, quotable, tmp_path):
    record = {"warning": common.warning(load, share)}
    path = tmp_path / "record.json"
    assert common.keep(record, path) == int(not quotable)
    assert path.exists() == quotable == (record["warning"] is None)
    assert common.keep(record, path, busy=True) == 0 and json.loads(path.read_text("utf-8")) == record


def test_clock_counts_nested_stretches_once():
    now = iter([0., 1., 3., 10.])
    clock = common.Clock(lambda: next(now))
    with clock("a"), clock("b"), clock("a"), clock("b"):
        pass
    assert clock.seconds == {"b": 2., "a": 10.}


def test_ratios_are_taken_inside_a_round():
    "A machine that becomes ten times slower between rounds changes no ratio; the first round is thrown away."
    calls = []
    names = ["plain", "a", "b"]

    def once(name):
        calls.append(name)
        past_rounds = (len(calls) - 1) // len(names)
        return {"ms": 10**past_rounds * (1. if name == "plain" else 2.)}

    found = common.compare(names, once, "plain", 3)
    rounds = [calls[start:start + 3] for start in range(0, len(calls), 3)]
    assert len(rounds) == 4 and len({turn[0] for turn in rounds}) == 3, "each begins with another one"
    assert {name: figures["ratio"]["median"] for name, figures in found.items()} == {"plain": 1., "a": 2., "b": 2.}
    assert found["plain"]["ms"]["median"] == 100.


def test_every_bench_has_its_turn_and_every_record_a_word():
    scripts = {path.stem for path in BENCH.glob("*.py")} - {"common"}
    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    listed = next(line for line in lines if line.startswith("BENCHES = ")).split()[2:]
    assert scripts == set(listed) == {command.partition(" ")[0] for command in VARIANTS}
    said = (BENCH / "README.md").read_text("utf-8")
    assert all(f"`{script}.py`" in said for script in scripts)
    assert all(path.name in said or path.stem in scripts for path in BENCH.glob("*.json"))
