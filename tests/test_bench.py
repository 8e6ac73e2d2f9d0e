"""The benches run, measure what they say, and keep no numbers that others disturbed. No timing is asserted."""
import contextlib
import io
import json
import math
import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

import commands
import common
import diagnose
import regularized
from debias_nb.encoders.tokens import single_thread

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"
NO_SPREAD = {"median": 1., "q1": 1., "q3": 1.} # of what everything is compared with
VARIANTS = { # options of a quick run -> what is compared, the reference first
    "regularized --encoder tiny-static": list(regularized.VARIANTS),
    "diagnose --encoder tiny-static": [diagnose.DEFAULT, diagnose.ENCODING, diagnose.OURS],
}


def numbers(value):
    "Every number of a part of a record."
    if isinstance(value, dict):
        return [number for part in value.values() for number in numbers(part)]
    return [value]


@pytest.fixture
def one_round(monkeypatch):
    "Each variant runs once: neither the round that warms up, nor a second one."
    def rounds(names, once, repeats):
        with common.METER:
            return [{name: once(name) for name in names}]

    monkeypatch.setattr(common, "rounds", rounds)


@pytest.mark.slow
@pytest.mark.parametrize("command", VARIANTS)
def test_a_bench_says_what_it_measured(one_round, command):
    "As `python bench/script.py --quick` does, without loading torch once more."
    script, *options = command.split(" ", 2)
    out = io.StringIO()
    with (patch.dict(os.environ), patch.object(sys, "argv", [f"{script}.py", "--quick", *options]),
          contextlib.redirect_stdout(out), single_thread(), pytest.raises(SystemExit) as exit_error):
        runpy.run_path(str(BENCH / f"{script}.py"), run_name="__main__")
    text = out.getvalue()
    assert exit_error.value.code == 0, text
    record = json.loads(text.splitlines()[-1])
    assert record["bench"] == script and record["threads"] == 1 and record["settings"]["repeats"] == 2
    assert (record["warning"] is None) == ("WARNING" not in text)
    [result] = record["encoders"].values()
    assert set(result["variants"]) == set(VARIANTS[command])
    for name, figures in result["variants"].items():
        assert name in text
        first = next(iter(figures.values())) # the time
        assert all(math.isfinite(number) and number > 0 for number in numbers(first) + numbers(figures["ratio"]))
    assert result["variants"][VARIANTS[command][0]]["ratio"] == NO_SPREAD


def test_a_command_says_what_it_took_and_one_that_fails_is_refused(tmp_path):
    took = commands.usage([sys.executable, "-c", "x = bytearray(50_000_000); open('made', 'w')"], str(tmp_path))
    assert took["seconds"] > 0 and took["peak_gb"] > .05 and (tmp_path / "made").exists()
    with pytest.raises(RuntimeError, match="ended with 3"):
        commands.usage([sys.executable, "-c", "raise SystemExit(3)"], str(tmp_path))


def test_the_memory_of_a_command_is_its_own_and_in_bytes(tmp_path):
    "Beside what Python itself takes, which other processes, this one with torch among them, add nothing to."
    size = 500_000_000
    plain, full = (commands.usage([sys.executable, "-c", f"x = bytearray(b'x') * {size}"], str(tmp_path))["peak_gb"]
                   for size in (1, size))
    assert plain < .05
    assert full - plain == pytest.approx(size / 1e9, rel=.01)


def run_here(command: list[str], folder: str) -> dict:
    "Run `python -c PROGRAM ...` here, where torch is loaded; `commands.usage` above says what a process takes."
    _, option, program, *arguments = command
    assert option == "-c"
    handler = signal.getsignal(signal.SIGINT) # by tests
    with contextlib.chdir(folder), patch.object(sys, "argv",
                                                ["-c", *arguments]), contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(program, {"__name__": "__main__"})
        except SystemExit as exit_error:
            assert not exit_error.code, command
        finally:
            signal.signal(signal.SIGINT, handler)
    return {"seconds": 1., "peak_gb": .1}


@pytest.mark.slow
def test_whole_commands_run_beside_their_yardsticks(one_round, capsys, monkeypatch):
    monkeypatch.setattr(commands, "usage", run_here)
    assert commands.run(commands.__file__, "", commands.measure, 1, commands.SIZES, ["--quick"]) == 0
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    commands_of = {"demo": commands.DEMO, "diagnose": commands.DIAGNOSIS, "retrieval": commands.DIAGNOSIS}
    for variants, ours in ((record[part].get("200", record[part]), name) for part, name in commands_of.items()):
        assert variants[ours]["ratio"]["median"] > 0
        assert NO_SPREAD in [variant["ratio"] for variant in variants.values()]


def in_history(commit: str) -> bool:
    "Whether a commit is this one, or one before."
    return subprocess.run(["git", "-C", ROOT, "merge-base", "--is-ancestor", commit, "HEAD"],
                          stderr=subprocess.DEVNULL).returncode == 0


def test_a_record_whose_commit_is_lost_is_named_on_the_page_and_no_other():
    commits = {file.stem: json.loads(file.read_text("utf-8"))["environment"]["commit"] for file in BENCH.glob("*.json")}
    rows = [line.strip("| ").split(" | ") for line in (ROOT / "reports/MAINTENANCE.md").read_text("utf-8").splitlines()]
    rows_shown = {row[0]: row[1] for row in rows if row[0] in commits}
    assert rows_shown.keys() == commits.keys()
    assert {name for name, commit in commits.items() if not in_history(commit)} == {
        name for name, commit in rows_shown.items() if "not in the history" in commit}


# ---- what they have in common

@pytest.mark.parametrize("load, share, quotable", [(1.5, .95, True), (1.51, 1., False), (0., .9, False)])
def test_a_busy_machine_is_warned_of_and_its_numbers_are_not_kept(load, share, quotable, tmp_path):
    record = {"warning": common.warning(load, share)}
    path = tmp_path / "record.json"
    assert common.keep(record, path) == int(not quotable)
    assert path.exists() == quotable == (record["warning"] is None)
    assert common.keep(record, path, busy=True) == 0 and json.loads(path.read_text("utf-8")) == record


def test_ratios_are_taken_inside_a_round():
    "A machine that becomes ten times slower between rounds changes no ratio; the first round is thrown away."
    calls = []
    names = ["plain", "a", "b"]

    def once(name):
        calls.append(name)
        past_rounds = (len(calls) - 1) // len(names)
        return {"ms": 10**past_rounds * (1. if name == "plain" else 2.)}

    comparison = common.compare(names, once, "plain", 3)
    rounds = [calls[start:start + 3] for start in range(0, len(calls), 3)]
    assert len(rounds) == 4 and len({turn[0] for turn in rounds}) == 3, "each begins with another one"
    assert {name: figures["ratio"]["median"] for name, figures in comparison.items()} == {"plain": 1., "a": 2., "b": 2.}
    assert comparison["plain"]["ms"]["median"] == 100.


