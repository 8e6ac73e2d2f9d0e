"""The bench runs, measures what it says, and keeps no numbers that others disturbed. No timing is asserted."""
import importlib.util, json, math, os, subprocess, sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "bench" / "itvreg_step.py"
spec = importlib.util.spec_from_file_location("itvreg_step", SCRIPT)
sys.modules["itvreg_step"] = bench = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bench)


def test_quick_run_prints_a_record():
    done = subprocess.run([sys.executable, SCRIPT, "--quick", "--encoder", "tiny-static"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout.splitlines()[-1])
    assert record["threads"] == 1 and 0 < record["cpu_share"] < 1.5 and record["settings"] == dict(repeats=2, epochs=1, batch=32)
    assert list(record["encoders"]) == ["tiny-static"]
    result = record["encoders"]["tiny-static"]
    assert result["kind"] == "static" and result["steps"] == 4 and result["tokens"] > 1
    variants = result["variants"]
    assert list(variants) == [v.name for v in bench.VARIANTS]
    for name, v in variants.items():
        assert all(math.isfinite(x) and x > 0 for what in ("ratio", "step_ms") for x in v[what].values()), name
        for s in v.values(): assert s["q1"] <= s["median"] <= s["q3"]
        assert (v["base_ms"]["median"] > 0) == (name not in ("plain", "maskreg")), "the base encoder's time is seen where there is one, and only there"
        assert v["base_ms"]["q3"] < v["step_ms"]["q3"] and name in done.stdout
    assert variants["plain"]["ratio"] == dict(median=1., q1=1., q3=1.)
    assert record["warning"] is not None or record["load"]["start"] <= bench.LOAD and record["cpu_share"] >= bench.SHARE
    assert ("WARNING" in done.stdout) == (record["warning"] is not None)


@pytest.mark.parametrize("load, share, threads, quotable", [(0., 1., 1, True), (1.5, .95, 1, True), (1.51, 1., 1, False), (0., .9, 1, False), (2.9, 1., 2, True), (3.1, 1., 2, False)])
def test_a_busy_machine_is_warned_of(load, share, threads, quotable): assert (bench.warning(load, share, threads) is None) == quotable


def test_a_warning_says_all_that_was_wrong():
    assert "2.00 at the start, above 1.5 and this process had a core for 80% of the time" in bench.warning(2., .8)


def test_disturbed_numbers_are_not_kept(tmp_path, capsys):
    path = tmp_path / "record.json"
    assert bench.keep(dict(warning=bench.warning(9.)), path) == 1 and not path.exists() and "9.00" in capsys.readouterr().err
    assert bench.keep(dict(warning=None, x=1), path) == 0 and json.loads(path.read_text("utf-8")) == dict(warning=None, x=1)


def test_spread():
    assert bench.spread([3., 1., 2., 5., 4.]) == dict(median=3., q1=2., q3=4.)
    assert bench.spread([7.]) == dict(median=7., q1=7., q3=7.)


def test_clock_counts_nested_stretches_once(monkeypatch):
    now = iter([0., 1., 3., 10.])
    monkeypatch.setattr(bench.time, "perf_counter", lambda: next(now))
    clock = bench.Clock()
    with clock("a"):
        with clock("b"):
            with clock("a"), clock("b"): pass
    assert clock.seconds == dict(b=2., a=10.)


def test_ratios_are_taken_inside_a_round(monkeypatch):
    "A machine that becomes ten times slower between rounds changes no ratio; the first round is thrown away."
    calls = []
    def run(variant, *_):
        calls.append(variant.name)
        i = (len(calls) - 1) // len(bench.VARIANTS)
        return dict(step_ms=10**i * (1. if variant is bench.PLAIN else 2.), base_ms=0.)
    monkeypatch.setattr(bench, "run", run)
    result = bench.measure(None, None, None, 1, 3, lambda line: None)
    n = len(bench.VARIANTS)
    rounds = [calls[i : i + n] for i in range(0, len(calls), n)]
    assert len(rounds) == 4 and all(sorted(r) == sorted(calls[:n]) for r in rounds) and len({r[0] for r in rounds}) == 4
    assert {name: v["ratio"]["median"] for name, v in result.items()} == {v.name: 1. if v is bench.PLAIN else 2. for v in bench.VARIANTS}
    assert result["plain"]["step_ms"]["median"] == 100.


@pytest.mark.parametrize("options, words", [(["--steps", "0"], "--steps must be at least 1"), (["--steps", "5", "--epochs", "2"], "(5) must be a multiple"), (["--epochs", "7"], "must be a multiple"), (["--batch", "1"], "--batch must be at least 2"),
                                            (["--quick", "--write"], "worth writing")])
def test_options_that_make_no_sense(options, words, capsys):
    with pytest.raises(SystemExit): bench.arguments(options)
    assert words in capsys.readouterr().err


def test_importing_the_bench_changes_nothing():
    done = subprocess.run([sys.executable, "-c", "import os, sys; before = dict(os.environ); import itvreg_step; assert before == dict(os.environ) and 'torch' not in sys.modules"],
                          cwd=SCRIPT.parent, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
