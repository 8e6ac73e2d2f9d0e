"""The benches run, measure what they say, and keep no numbers that others disturbed. No timing is asserted."""
import contextlib
import io
import json
import math
import os
import runpy
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

import checks
import common
import diagnose
import importance
import itvreg_step as bench
import made
import regularized
import throughput
import titles_epoch
from debias_nb.repro.config import RunConfig, TrainConfig
from debias_nb.repro.runs.records import Store, make_record
from debias_nb.encoders import single_thread, tokenise

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"
SCRIPTS = [
    "itvreg_step", "titles_epoch", "throughput", "importance", "weights", "scan_step", "ranking", "arr_epoch",
    "regularized", "diagnose", "checks", "gpu"]
NO_SPREAD = {"median": 1., "q1": 1., "q3": 1.} # of what everything is compared with


def needs(name):
    return pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is not installed (extra bench)")


def in_a_process(script, *options):
    command = [sys.executable, BENCH / f"{script}.py", "--quick", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_this_one(script, *options):
    "What `python bench/script.py` executes, without loading torch once more."
    out, argv = io.StringIO(), [f"{script}.py", "--quick", *map(str, options)]
    with (patch.dict(os.environ), patch.object(sys, "argv", argv), contextlib.redirect_stdout(out), single_thread(),
          pytest.raises(SystemExit) as stopped):
        runpy.run_path(str(BENCH / f"{script}.py"), run_name="__main__")
    assert stopped.value.code == 0, out.getvalue()
    return out.getvalue()


def quick(script, *options, run=in_this_one):
    "What is printed, and the record."
    printed = run(script, *options)
    record = json.loads(printed.splitlines()[-1])
    assert record["bench"] == script and record["threads"] == 1 and record["settings"]["repeats"] == 2
    assert 0 < record["cpu_share"] < 1.5
    undisturbed = record["load"]["start"] <= common.LOAD and record["cpu_share"] >= common.SHARE
    assert record["warning"] is not None or undisturbed
    assert ("WARNING" in printed) == (record["warning"] is not None)
    return printed, record


def only_encoder(record, name="tiny-static"):
    "What a record says of the one encoder that was asked for."
    assert list(record["encoders"]) == [name]
    return record["encoders"][name]


def positive(spread):
    return all(math.isfinite(number) and number > 0 for number in spread.values())


def check_against_plain(printed, variants, expected, total, base):
    assert list(variants) == [variant.name for variant in expected]
    for name, figures in variants.items():
        assert positive(figures["ratio"]) and positive(figures[total]), name
        for spread in figures.values():
            assert spread["q1"] <= spread["median"] <= spread["q3"]
        has_base = name not in ("plain", "maskreg")
        assert (figures[base]["median"] > 0) == has_base, "the base encoder's time is seen where there is one"
        assert figures[base]["q3"] < figures[total]["q3"] and name in printed
    assert variants["plain"]["ratio"] == NO_SPREAD


# ---- the benches

def test_itvreg_step_bench():
    "One of all is a process of its own."
    printed, record = quick("itvreg_step", "--encoder", "tiny-static", run=in_a_process)
    assert record["settings"] == {"repeats": 2, "epochs": 1, "batch": 32}
    result = only_encoder(record)
    assert result["kind"] == "static" and result["steps"] == 4 and result["tokens"] > 1
    check_against_plain(printed, result["variants"], bench.VARIANTS, "step_ms", "base_ms")


def test_regularized_bench():
    printed, record = quick("regularized", "--encoder", "tiny-static")
    assert record["settings"] == {"repeats": 2, "epochs": 1, "batch": 32}
    result = only_encoder(record)
    assert result["kind"] == "static" and result["steps"] == 4
    assert list(result["variants"]) == list(regularized.VARIANTS)
    for name, figures in result["variants"].items():
        assert name in printed and all(map(positive, figures.values()))
    assert result["variants"][regularized.BARE]["ratio"] == NO_SPREAD


def test_titles_bench():
    printed, record = quick("titles_epoch", "--encoder", "tiny-static", "--batch", "60")
    assert record["settings"] == {
        "repeats": 2, "pairs": 240, "epochs": 1, "batch": 60, "queries": 775, "items": 775}
    check_against_plain(printed, only_encoder(record)["variants"], titles_epoch.VARIANTS, "epoch_s", "base_s")


def test_titles_are_as_many_relevant_pairs_as_asked_for(tmp_path):
    model, titles = made.load(made.bert(tmp_path)), titles_epoch.planted_titles(30)
    pairs = titles_epoch.some_pairs(model, titles, 30)
    assert len(pairs) == len(pairs.left) == len(pairs.right) == 30
    assert titles.relevance[pairs.query, pairs.item].all()
    assert pairs.targets(torch.arange(30)).diagonal().all()
    assert len(set(zip(pairs.query.tolist(), pairs.item.tolist()))) == 30
    with pytest.raises(ValueError, match="9,999,999 relevant pairs are wanted"):
        titles_epoch.some_pairs(model, titles, 9_999_999)


def test_throughput_bench():
    printed, record = quick("throughput", "--encoder", "tiny-static")
    assert record["settings"] == {"repeats": 2, "epochs": 1, "batch": 32}
    result = only_encoder(record)
    assert list(result["variants"]) == [throughput.THEIRS, throughput.OURS]
    assert result["steps"] == 4 and result["difference"] <= throughput.AGREE
    for name, figures in result["variants"].items():
        assert name in printed and all(map(positive, figures.values()))
        assert figures["tokenising"]["q3"] < 1
    assert result["variants"][throughput.THEIRS]["ratio"] == NO_SPREAD


def test_both_trainers_train_the_same(tmp_path):
    "With dropout they would not: the difference is seen when a trainer does something else."
    model, training = made.load(made.bert(tmp_path)), TrainConfig(learning_rate=1e-3, epochs=2, batch_size=4)
    left = ["red kettle", "old blue lamp", "chair", "small chair", "lamp"] * 2
    right = ["kettle", "a lamp", "red chair", "table", "red lamp"] * 2
    texts = left, right, np.array([1, 1, 0, 0, 1] * 2, np.float32)
    before = {name: weights.clone() for name, weights in model.state_dict().items()}
    assert throughput.agreement(model, texts, training) < 1e-5
    for name, weights in model.state_dict().items():
        assert torch.equal(weights, before[name]), "neither trains the encoder that it is given"

    def slower(model, texts, training):
        return throughput.theirs(model, texts, training.model_copy(update={"learning_rate": 1e-4}))

    with pytest.raises(RuntimeError, match="differ by up to"):
        throughput.agreement(model, texts, training, throughput.RUNS | {throughput.THEIRS: slower})


@needs("captum")
def test_importance_bench():
    printed, record = quick("importance", "--encoder", "tiny-static")
    result = only_encoder(record)
    assert result["difference"] <= importance.AGREE
    assert 1 < result["tokens"] <= result["longest"] <= 32
    for name, figures in result["variants"].items():
        assert name in printed and positive(figures["ms"]) and positive(figures["ratio"])
    assert result["variants"][importance.OURS]["ratio"]["median"] == 1


@needs("captum")
def test_captum_is_asked_for_the_same_values(tmp_path):
    model = made.load(made.bert(tmp_path))
    tokens = tokenise(model, ["red kettle", "old blue lamp for a table", "chair"])
    runs = importance.variants(model, tokens)
    assert len(runs) == 4 and importance.agreement(runs, tokens.ordinary) < 1e-6
    assert (runs[importance.OURS]()[tokens.ordinary] > 1e-4).all()


def test_importance_bench_refuses_other_values():
    values, ordinary = torch.tensor([[.1, .2], [.3, math.nan]]), torch.tensor([[True, True], [True, False]])

    def difference(error):
        return importance.agreement({importance.OURS: lambda: values, "other": lambda: values + error}, ordinary)

    assert difference(1e-6) == pytest.approx(1e-6, rel=.1)
    for wrong in (1e-4, math.nan):
        with pytest.raises(RuntimeError, match="other: values differ"):
            difference(wrong)


def test_diagnose_bench():
    printed, record = quick("diagnose", "--encoder", "tiny-static")
    assert record["settings"] == {"repeats": 2, "pairs": 200}
    variants = only_encoder(record)["variants"]
    assert list(variants) == [diagnose.ENCODING, diagnose.DEFAULT, diagnose.OURS]
    assert all(name in printed for name in variants)
    assert variants[diagnose.DEFAULT]["ratio"]["median"] == 1
    assert variants[diagnose.OURS]["ms"]["median"] > 0


def test_checks_bench():
    printed, record = quick("checks")
    assert record["settings"] == {"repeats": 2, "records": 20}
    assert list(record["variants"]) == list(checks.VARIANTS)
    for name, figures in record["variants"].items():
        assert name in printed
        assert all(value > 0 for figure in ("ms", "ratio") for value in figures[figure].values())
    assert record["variants"][checks.RUN]["ratio"] == NO_SPREAD
    assert record["run"].startswith("table02-planted-tiny-static-") and record["bytes"] > 1000


@pytest.fixture
def some_record():
    "A run and a record of it."
    run = checks.planted_run(quick=True)
    record = make_record(
        run, {"iid": {"auc": .5}}, data={}, encoder={}, device="cpu", dtype="fp32", seconds=1., peak_memory=1, curve={})
    return run, record


def test_a_store_is_filled_with_records_that_can_be_trusted(tmp_path, some_record):
    run, record = some_record
    store = Store(tmp_path)
    with warnings.catch_warnings(action="error"):
        checks.fill(store, run, record, 3)
        found = store.all()
    assert [one["seed"] for one in found] == [1, 2, 3] and store.find(run) is None
    for one in found:
        assert RunConfig(**one["config"]).id == one["id"] != run.id


def test_what_is_timed_around_a_run_leaves_its_record(tmp_path, some_record):
    run, record = some_record
    store = Store(tmp_path)
    checks.handle(run, record, store)
    assert store.find(run) == record and store.all() == [record]
    with patch.object(Store, "append", lambda store, record: record), pytest.raises(RuntimeError, match="is not found"):
        checks.handle(*checks.with_seed(run, record, 1), store)


# ---- what they have in common

def test_meter_adds_up():
    meter = common.Meter()
    for _ in range(2):
        with meter:
            sum(range(300_000))
    assert 0 < meter.cpu <= 1.5 * meter.wall < 10 and meter.share == meter.cpu / meter.wall


@pytest.mark.parametrize("load, share, threads, quotable", [
    (0., 1., 1, True),
    (1.5, .95, 1, True),
    (1.51, 1., 1, False),
    (0., .9, 1, False),
    (2.9, 1., 2, True),
    (3.1, 1., 2, False),
])
def test_a_busy_machine_is_warned_of(load, share, threads, quotable):
    assert (common.warning(load, share, threads) is None) == quotable


def test_a_warning_says_all_that_was_wrong():
    said = common.warning(2., .8)
    assert "2.00 at the start, above 1.5 and this process had a core for 80% of the time" in said


def test_disturbed_numbers_are_not_kept(tmp_path, capsys):
    path = tmp_path / "record.json"
    assert common.keep({"warning": common.warning(9.)}, path) == 1
    assert not path.exists() and "9.00" in capsys.readouterr().err
    assert common.keep({"warning": "busy"}, path, busy=True) == 0
    assert json.loads(path.read_text("utf-8")) == {"warning": "busy"}
    assert common.keep({"warning": None, "x": 1}, path) == 0
    assert json.loads(path.read_text("utf-8")) == {"warning": None, "x": 1}


def test_spread_is_median_and_quartiles():
    assert common.spread([3., 1., 2., 5., 4.]) == {"median": 3., "q1": 2., "q3": 4.}
    assert common.spread([7.]) == {"median": 7., "q1": 7., "q3": 7.}


def test_clock_counts_nested_stretches_once(monkeypatch):
    now = iter([0., 1., 3., 10.])
    monkeypatch.setattr(common.time, "perf_counter", lambda: next(now))
    clock = common.Clock()
    with clock("a"):
        with clock("b"):
            with clock("a"), clock("b"):
                pass
    assert clock.seconds == {"b": 2., "a": 10.}


def test_ratios_are_taken_inside_a_round(monkeypatch):
    "A machine that becomes ten times slower between rounds changes no ratio; the first round is thrown away."
    calls, n = [], len(bench.VARIANTS)

    def seconds(variant):
        return 1. if variant is bench.PLAIN else 2.

    def run(variant, *_):
        calls.append(variant.name)
        past_rounds = (len(calls) - 1) // n
        return None, 10**past_rounds * seconds(variant), 0.

    monkeypatch.setattr(common, "fine_tuning", run)
    result = common.against_plain(bench.VARIANTS, None, None, None, bench.FIGURES, 1, 3, lambda line: None)
    rounds = [calls[start:start + n] for start in range(0, len(calls), n)]
    assert len(rounds) == 4 and all(sorted(names) == sorted(calls[:n]) for names in rounds)
    assert len({names[0] for names in rounds}) == 4
    ratios = {name: figures["ratio"]["median"] for name, figures in result.items()}
    assert ratios == {variant.name: seconds(variant) for variant in bench.VARIANTS}
    plain = result["plain"]
    assert plain["step_ms"]["median"] == 100. and plain["base_ms"]["median"] == 0.


@pytest.mark.parametrize("script", [bench, throughput])
@pytest.mark.parametrize("options, words", [
    (["--steps", "0"], "--steps must be at least 1"),
    (["--steps", "5", "--epochs", "2"], "(5) must be a multiple"),
    (["--epochs", "7"], "must be a multiple"),
    (["--batch", "1"], "--batch must be at least 2"),
    (["--quick", "--write"], "worth writing"),
    (["--repeats", "0"], "--repeats must be at least 1"),
])
def test_options_that_make_no_sense_are_refused(script, options, words, capsys):
    with pytest.raises(SystemExit):
        script.arguments(options)
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("other, option", [
    (importance, "--texts"),
    (checks, "--records"),
    (titles_epoch, "--pairs"),
    (titles_epoch, "--batch"),
])
def test_options_of_the_other_benches_are_refused(other, option, capsys):
    with pytest.raises(SystemExit):
        other.arguments([option, "0"])
    assert f"{option} must be at least 1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        other.arguments(["--quick", "--write"])


def test_make_bench_runs_all_of_them():
    "Every script has a section in the README and its turn in the Makefile."
    scripts = {path.stem for path in BENCH.glob("*.py")} - {"common"}
    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    listed = next(line for line in lines if line.startswith("BENCHES = ")).split()[2:]
    assert scripts == set(SCRIPTS) == set(listed)
    described = (BENCH / "README.md").read_text("utf-8")
    assert all(f"## `{script}.py`: " in described for script in scripts)


@pytest.mark.parametrize("script", SCRIPTS)
def test_importing_a_bench_changes_nothing(script):
    code = f"""
import os, sys
before = dict(os.environ)
import {script}
assert before == dict(os.environ) and 'torch' not in sys.modules
"""
    env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=BENCH, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
