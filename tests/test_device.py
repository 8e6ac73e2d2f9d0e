"""A machine that is lent.

Time that is up, memory that is too small, no device, another code version; each leaves records that are whole.
"""
import copy
import json
import os
import shutil
import subprocess
import sys
import warnings
from functools import cache, partial
from pathlib import Path

import bundle
import pytest
import torch
import yaml
from sentence_transformers import SentenceTransformer
from typer.testing import CliRunner

from debias_nb.encoders import loading, tokens as encoders
from debias_nb.encoders.safe_folders import folder_files
from debias_nb.settings import AnswersWorldConfig, AuthorsWorldConfig, EncoderConfig, PretrainConfig
from debias_nb.checks import ConfigError, EncoderError
from debias_nb.files import load_config
from debias_nb.repro.runs import device, origin, runner
from debias_nb.repro.cli import app
from debias_nb.repro.config import AuthorsConfig, CorpusConfig, ExperimentConfig, MethodConfig, RunConfig, ScanConfig
from debias_nb.repro.config import TrainConfig, load_experiment
from debias_nb.repro.runs.limits import Limits, TimeUp, divided, newest
from debias_nb.repro.runs.origin import git_state
from debias_nb.repro.runs.records import Store, comparable, latest
from debias_nb.repro.runs.schema import RecordError
from debias_nb.repro.runs.runner import narrow
from debias_nb.repro.runs.tasks.common import base_encoder
from dry import dry_runs, dry_step
from made import WORLD, bert, experiment

ROOT = Path(__file__).parents[1]
PLACE = {"paper": "itvreg", "experiment": "demo", "profile": "planted"}
PAIRS = next(run for run in experiment().runs() if run.method.name == "ITVReg")
BEST = PAIRS.model_copy(update={
    "corpus": PAIRS.corpus.model_copy(update={"holdout": .2}),
    "training": PAIRS.training.model_copy(update={"select": "best"}),
    "measure": ("trajectory",),
})
PRETRAIN = PretrainConfig(steps=2, batch_size=16, vocabulary=600)
SMALLER = WORLD.model_copy(update={"train_pairs": 100, "queries": 20, "items": 60})
FEWER_PAIRS = PAIRS.model_copy(update={
    "corpus": PAIRS.corpus.model_copy(update={"world": SMALLER}),
    "eval_world": SMALLER,
    "training": PAIRS.training.model_copy(update={"batch_size": 32}),
})
TRANSFORMER = FEWER_PAIRS.model_copy(update={
    "encoder": EncoderConfig(name="tiny", kind="transformer", world=WORLD, pretrain=PRETRAIN),
    "training": FEWER_PAIRS.training.model_copy(update={"learning_rate": 1e-4}),
})
SHARED = PAIRS.model_copy(update={"method": MethodConfig(name="OutReg, 20%", regulariser="outreg", share=.2)})
LORA = TRANSFORMER.model_copy(update={"method": MethodConfig(name="LoRA", lora={"rank": 4})})
RANKED = PAIRS.model_copy(update={"training": PAIRS.training.model_copy(update={"loss": "ranking", "batch_size": 8})})
ANSWERS_WORLD = AnswersWorldConfig(name="answers", questions=60, tests=20)
ANSWERS = RunConfig(
    **PLACE,
    encoder=EncoderConfig(name="learned", kind="alignment", units=8, embedding=8),
    method=MethodConfig(name="SCAN", scan=ScanConfig(debias="paper", memory="ema")),
    corpus=CorpusConfig(name="answers", task="answers", world=ANSWERS_WORLD),
    training=TrainConfig(
        loss="cross-entropy", learning_rate=3e-3, epochs=2, batch_size=60, optimizer="adamw", select="best",
    ),
    evaluate=("iid",), eval_world=ANSWERS_WORLD,
)
AUTHORS_WORLD = AuthorsWorldConfig(name="authors", authors=60, test_authors=10, texts=6, tokens=20)
AUTHORS = RunConfig(
    **PLACE,
    encoder=EncoderConfig(name="learned", kind="static", embedding=16),
    method=MethodConfig(name="MLL + ARR", authors=AuthorsConfig(base="mll", student="arr")),
    corpus=CorpusConfig(name="authors", task="authors", world=AUTHORS_WORLD),
    training=TrainConfig(loss="authors", temperature=.1, learning_rate=1e-2, epochs=2, batch_size=16),
    evaluate=("cross",),
)


class Clock:
    "The time is up at the looks at it that are named, until a machine is lent again."

    def __init__(self, *ends):
        self.ends = ends
        self.looks = 0
        self.up = False

    def reached(self, _):
        self.looks += 1
        self.up |= self.looks in self.ends
        return self.up


@pytest.fixture
def clock(monkeypatch):
    def make(*ends):
        made = Clock(*ends)
        monkeypatch.setattr(Limits, "reached", property(made.reached))
        return made

    return make


def without_times(record):
    "What two makings of a run have in common."
    extra = {name: value for name, value in record["extra"].items() if name != "training"}
    return comparable(record) | {"extra": extra}


@pytest.mark.slow
@pytest.mark.parametrize("run", [
    PAIRS,
    SHARED,
    BEST,
    RANKED,
    TRANSFORMER,
    LORA,
    ANSWERS,
    AUTHORS,
], ids=["pairs", "share", "best epoch", "ranking", "dropout", "adapters", "answers", "authors"])
def test_a_run_that_was_stopped_and_taken_up_again_is_the_same_run(run, tmp_path, clock):
    "At its second step, and again soon after it went on, and again."
    whole = runner.execute(run)
    lent = clock(2, 6, 9)
    bounds = Limits(folder=tmp_path / "checkpoints")
    stopped = []
    for _ in range(8):
        try:
            record = runner.execute_within(run, bounds)
            break
        except TimeUp as e:
            assert newest(next((tmp_path / "checkpoints" / run.id).iterdir()))
            stopped.append(str(e))
            lent.up = False
    assert len(stopped) == 3, stopped
    assert without_times(record) == without_times(whole)
    assert not (tmp_path / "checkpoints" / run.id).exists()


def test_a_checkpoint_that_was_broken_off_is_left_alone(tmp_path, clock):
    lent = clock(3)
    bounds = Limits(folder=tmp_path)
    with pytest.raises(TimeUp):
        runner.execute_within(PAIRS, bounds)
    lent.up = False
    found = newest(tmp_path / PAIRS.id / "1")
    torn = found.with_name("checkpoint-999")
    shutil.copytree(found, torn)
    (torn / "kept.pt").unlink()
    (torn / "optimizer.pt").write_bytes(b"torn")
    assert comparable(runner.execute_within(PAIRS, bounds))["metrics"] == runner.execute(PAIRS)["metrics"]


def test_time_that_is_up_leaves_no_failure_and_the_rest_for_later(tmp_path, monkeypatch, clock):
    runs = [run for run in experiment().runs() if run.training]
    store = Store(tmp_path / "records")
    clock(40)
    work = partial(runner.execute_within, limits=Limits(folder=tmp_path / "checkpoints"))
    out = runner.run_all(runs, store, workers=1, progress=False, work=work)
    assert out.trained and out.later and not out.failed
    assert set(out.trained) | set(out.later) == {run.id for run in runs}
    monkeypatch.undo()
    again = runner.run_all(runs, store, workers=1, progress=False, work=work)
    assert set(again.trained) == set(out.later)
    assert [record["status"] for record in store.all()] == ["finished"] * len(runs)


def memory_for(rows, monkeypatch):
    "A transformer in training has memory for so many rows, once its base encoder is there."
    base_encoder(TRANSFORMER.encoder)
    forward = SentenceTransformer.forward

    def limited(self, input, **kwargs):
        if self.training and "offsets" not in input and len(input["input_ids"]) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return forward(self, input, **kwargs)

    monkeypatch.setattr(SentenceTransformer, "forward", limited)


@pytest.mark.slow
def test_a_batch_that_does_not_fit_goes_in_pieces(monkeypatch):
    memory_for(25, monkeypatch)
    with pytest.warns(UserWarning, match="out of memory; again with batches of 32 in 4 pieces"):
        record = runner.execute_within(TRANSFORMER, Limits())
    assert record["extra"]["pieces"] == 4
    assert record["id"] == TRANSFORMER.id
    plain = len(runner.execute_within(FEWER_PAIRS, Limits())["curve"]["erm"])
    assert len(record["curve"]["erm"]) == plain, "as many steps as without pieces"


def test_the_gradient_of_pieces_is_that_of_the_batch(tmp_path):
    "Of a loss that compares every row with every other one."
    encoder = SentenceTransformer(str(bert(tmp_path)), device="cpu").eval()
    tokens = encoders.tokenize(encoder, ["red kettle", "old lamp", "the chair", "a large table with a lamp", "why"] * 2)

    def gradient(pieces):
        encoder.zero_grad()
        with divided(encoder, pieces):
            vectors = encoders.encode_tokens(encoder, tokens)
            (vectors @ vectors.T).exp().mean().backward()
        return torch.cat([weight.grad.flatten() for weight in encoder.parameters() if weight.grad is not None])

    once = gradient(1)
    for pieces in (2, 3, 10):
        assert float((gradient(pieces) - once).norm() / once.norm()) < 1e-5, pieces


def test_a_row_that_does_not_fit_fails_alone(monkeypatch, tmp_path):
    memory_for(0, monkeypatch)
    store = Store(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = runner.run_all([TRANSFORMER, PAIRS], store, workers=1, progress=False)
    assert "out of memory, even a row at a time" in out.failed[TRANSFORMER.id]
    assert list(out.records) == [PAIRS.id]
    assert latest(store.all())[TRANSFORMER.id]["status"] == "failed"


def test_deterministic_algorithms_give_the_same_record_and_are_named():
    record = runner.execute_within(PAIRS, Limits(deterministic=True))
    assert record["environment"]["deterministic"] is True
    assert not torch.are_deterministic_algorithms_enabled()
    plain = runner.execute_within(PAIRS, Limits())
    assert "deterministic" not in plain["environment"]
    assert without_times(record) == without_times(plain)


# the command


def in_the_first_world(*methods):
    "Runs of some methods, as a manifest names them."
    table = load_experiment("itvreg/table05", "planted", ROOT)
    few = narrow(table, [0], list(methods), ["tiny static"], full=False)
    return {
        "experiment": "itvreg/table05",
        "profile": "planted",
        "methods": list(methods),
        "encoders": ["tiny static"],
        "seeds": [0],
        "ids": [run.id for run in few.runs()],
    }


FEW = in_the_first_world("Finetuned", "MaskReg")


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DEBIAS_NB_RUNS", str(tmp_path / "none"))

    def write(*entries, **further):
        path = tmp_path / "manifest.yaml"
        path.write_text(yaml.safe_dump({"title": "a test", "runs": list(entries)} | further))
        return path

    return write


def shell(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.mark.parametrize("entry, words", [
    (FEW | {"experiment": "itvreg/table5"}, "entry 1: no configuration 'itvreg/table5.planted'; did you mean"),
    (FEW | {"methods": ["MaskRge"]}, "entry 1: no method in itvreg/table05 called 'MaskRge'; did you mean 'MaskReg'?"),
    (FEW | {"encoders": ["tiny statik"]}, "entry 1: no encoder in itvreg/table05 called 'tiny statik'"),
    (FEW | {"ids": ["table05-planted"]}, "entry 1: no run has the id 'table05-planted'"),
    (FEW | {"corpora": ["strnog"]}, "entry 1: no run is about a corpus 'strnog'"),
    (FEW | {"seeds": [-1]}, "entry 1: seeds: "),
    (FEW | {"ids": []}, "runs.0.ids: "),
    (FEW | {"profle": "small"}, "runs.0.profle: unknown key; did you mean 'profile'?"),
    (None, "runs: "),
])
def test_a_manifest_that_names_what_there_is_not_is_refused(entry, words, manifest):
    done = shell("device-batch", manifest(entry) if entry else manifest(), "--list")
    assert done.exit_code == 2, done.output
    assert words in done.output.replace("\n", " "), done.output


def only_folder(out):
    "Where the records of a batch lie."
    folder, = [place for place in out.iterdir() if place.name != "checkpoints"]
    return folder


@pytest.mark.slow
def test_a_batch_stops_in_time_goes_on_and_is_merged(manifest, tmp_path):
    path = manifest(FEW)
    where = ["--device", "cpu", "--workers", "1", "--out", tmp_path / "out"]
    assert "2 runs are left" in shell("device-batch", path, "--time", 0, *where).output
    assert "2 runs made" in shell("device-batch", path, *where).output
    folder = only_folder(tmp_path / "out")
    assert folder.name == device.code_version()
    done = device.merge(Store(folder), tmp_path / "apart", ROOT, Store(tmp_path / "results"))
    merged = done.added or done.apart[folder.name]
    assert len(merged) == 2, "added from a clean commit, kept apart from a tree with changes"


def test_a_training_does_not_go_on_on_another_processor(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(device, "run_all", lambda *args, work, **how: asked.append(work.keywords["limits"].folder))
    monkeypatch.setattr(device, "check_device", lambda name: None)
    for name in ("cpu", "NVIDIA H100 80GB HBM3", "NVIDIA H200", "cpu"):
        kind = "cpu" if name == "cpu" else "cuda"
        monkeypatch.setattr(device, "this_machine", lambda name=name: {"device": name})
        device.device_batch([PAIRS], 60, tmp_path, device=kind, workers=1)
    assert asked[0] == asked[3]
    assert len(set(asked)) == 3
    assert all(folder.parent.parent == tmp_path / "checkpoints" for folder in asked)


@cache
def pairs_record():
    return runner.execute(PAIRS)


def record_of(commit, dirty=False, **changes):
    "A record of `PAIRS`, as made with a version of the code."
    made = copy.deepcopy(pairs_record())
    made["environment"] |= {"commit": commit, "dirty": dirty}
    return made | changes


@pytest.fixture(autouse=True)
def a_configured_demo(monkeypatch):
    "As if the runs of these tests had a configuration."
    known = device.known_places
    monkeypatch.setattr(device, "known_places", lambda root: known(root) | {tuple(PLACE.values())})


def test_merging_keeps_what_is_there_and_other_code_apart(tmp_path):
    here = git_state(ROOT)["commit"]
    source, target, apart = Store(tmp_path / "source"), Store(tmp_path / "target"), tmp_path / "apart"
    source.append(record_of(here, metrics={"iid": {"auc": .5}}))
    source.publish(*PLACE.values())
    source.append(record_of(here))
    done = device.merge(source, apart, ROOT, target)
    assert (done.added, done.differing, done.apart) == ([PAIRS.id], [], {})
    assert target.all() == [record_of(here)], "of a run that was made twice the newer record"
    assert device.merge(source, apart, ROOT, target).known == [PAIRS.id]
    for commit, dirty, version in (("f" * 40, False, "f" * 12), (here, True, f"{here[:12]}-changed"), (None, None, "unknown")):
        source.append(record_of(commit, dirty))
        assert device.merge(source, apart, ROOT, target).apart == {version: [PAIRS.id]}
        assert [r["id"] for r in Store(apart / version).all()] == [PAIRS.id]

    for commit in (here, "f" * 40):
        other = Store(tmp_path / f"other {commit[0]}")
        other.append(record_of(commit, metrics={"iid": {"auc": .5}}))
        done = device.merge(other, apart, ROOT, target)
        assert (done.added, done.apart, done.differing) == ([], {}, [PAIRS.id])
    assert len(target.all()) == len(Store(apart / ("f" * 12)).all()) == 1, "what is there stays"


def with_config(**changes):
    record = record_of(git_state(ROOT)["commit"])
    return record | {"config": record["config"] | changes}


ELSEWHERE = PAIRS.model_copy(update={"experiment": "elsewhere"})


@pytest.mark.parametrize("change, says", [
    (lambda here: with_config(paper="../../x"), "config.paper: "),
    (lambda here: with_config(experiment="../../../x"), "config.experiment: "),
    (lambda here: with_config(experiment="elsewhere") | {"id": ELSEWHERE.id},
     "config: there is no configuration itvreg/elsewhere/planted"),
    (lambda here: record_of("../../../OUT"), "environment.commit: "),
    (lambda here: record_of("/elsewhere"), "environment.commit: "),
    (lambda here: record_of(here) | {"environment": [1]}, "environment: "),
    (lambda here: record_of(here, peak_memory_bytes=10**19), "peak_memory_bytes: "),
])
def test_what_is_not_the_record_of_a_run_is_named_and_not_merged(tmp_path, change, says):
    here = git_state(ROOT)["commit"]
    record = change(here)
    source = tmp_path / f"deep/source/itvreg/{record['config']['experiment'].strip('./x') or 'demo'}.planted/{record['id']}.json"
    source.parent.mkdir(parents=True)
    source.write_text(json.dumps(record))
    done = device.merge(Store(source.parents[2]), tmp_path / "deep/apart", ROOT, Store(tmp_path / "deep/results"))
    assert not done.added and not done.apart
    assert len(done.left_out) == 1 and done.left_out[0].startswith(f"{source} is left out: {says}"), done.left_out
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [source]


def test_records_that_were_published_there_are_merged_too(tmp_path):
    here = git_state(ROOT)["commit"]
    source = Store(tmp_path / "source")
    source.append(record_of(here))
    source.publish(*PLACE.values())
    source.append(record_of(here))
    source.file(record_of(here)).write_bytes(b"\0" * 500)
    target = Store(tmp_path / "target")
    done = device.merge(source, tmp_path / "apart", ROOT, target)
    assert done.added == [PAIRS.id] and len(target.all()) == 1
    assert len(done.left_out) == 1 and "is left out: damaged" in done.left_out[0]


def test_a_folder_without_git_says_so(tmp_path, monkeypatch):
    source = Store(tmp_path / "source")
    source.append(record_of(git_state(ROOT)["commit"]))
    monkeypatch.setattr(device, "history", lambda root: None)
    with pytest.warns(UserWarning, match="no git here"):
        assert device.merge(source, tmp_path / "apart", ROOT, Store(tmp_path / "target")).apart


@pytest.fixture
def clone(tmp_path, monkeypatch):
    "A project with one experiment, whose history knows `aaaa…`, and a store of this machine."
    monkeypatch.setenv("DEBIAS_NB_RUNS", str(tmp_path / "_runs"))
    experiment = load_experiment("itvreg/table03", "planted", ROOT)
    few = experiment.model_copy(update={"blocks": experiment.blocks[:1]})
    monkeypatch.setattr(device, "load_experiment", lambda *_: few)
    monkeypatch.setattr(device, "history", lambda root: frozenset({"a" * 40}))
    return tmp_path, few.runs()


def made_by(run, auc=.5, **environment):
    "An invented record of a run."
    said = {"commit": "a" * 40, "dirty": False} | environment
    own = {"id": run.id, "seed": run.seed, "config": run.model_dump(mode="json"), "metrics": {"iid": {"auc": auc}}}
    return record_of("a" * 40) | own | {"environment": pairs_record()["environment"] | said}


def test_publishing_adds_and_leaves_out_nothing(clone):
    root, runs = clone
    own, target = Store(root / "_runs"), Store(root / "results")
    place = ("itvreg", "table03", "planted")
    for run in runs[:3]:
        target.append(made_by(run))
    target.publish(*place)
    for run in runs[2:5]:
        own.append(made_by(run))
    assert device.publish("itvreg/table03", "planted", root) == ([runs[3].id, runs[4].id], [runs[2].id])
    target.publish(*place)
    assert {record["id"] for record in target.all()} == {run.id for run in runs[:5]}, "what is there stays"

    own.append(made_by(runs[0], auc=.75))
    own.append(made_by(runs[5]))
    with pytest.raises(RecordError, match=f"nothing is published\n{runs[0].id}: another record is there"):
        device.publish("itvreg/table03", "planted", root)
    assert len(target.all()) == 5
    added, _ = device.publish("itvreg/table03", "planted", root, replace=True)
    assert added == [runs[0].id, runs[5].id]
    assert target.find(runs[0])["metrics"] == {"iid": {"auc": .75}}


@pytest.mark.parametrize("environment, says", [
    ({"dirty": True}, "were made with changes"), ({"commit": "b" * 40}, "name the commit bbbbbbbb"),
])
def test_what_no_commit_has_made_is_not_published(clone, environment, says):
    root, runs = clone
    Store(root / "_runs").append(made_by(runs[0], **environment))
    with pytest.raises(RecordError, match=says):
        device.publish("itvreg/table03", "planted", root)
    assert not (root / "results").exists()


def test_a_checkout_from_a_bundle_knows_its_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(origin, "package_file", lambda name: tmp_path / "debias_nb" / name)
    assert git_state() == {"commit": None, "dirty": None}
    (tmp_path / "bundle.json").write_text(json.dumps({"commit": "a" * 40, "dirty": False, "finished": [PAIRS.id]}))
    assert git_state() == {"commit": "a" * 40, "dirty": False}
    assert git_state(ROOT)["commit"] != "a" * 40, "of a clone, git knows better"
    assert device.outstanding([PAIRS, TRANSFORMER], []) == [TRANSFORMER]
    (tmp_path / "bundle.json").write_text("{")
    with pytest.raises(ConfigError, match="bundle.json"):
        device.outstanding([PAIRS], [])


# where there is a device


AGREE = .02 # of AUC(0.05), between a CPU and a GPU, after training; .001 where nothing is trained
DEVICE_BATCH = [sys.executable, "-m", "debias_nb.repro.cli", "device-batch"]


NO_GPU = "no CUDA device: what a GPU gives is compared with a CPU only where there is one"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason=NO_GPU)
def test_cpu_and_gpu_agree(manifest, tmp_path):
    path = manifest(in_the_first_world("Base", "Finetuned", "ITVReg, 50 %"))
    found = {}
    for name in ("cpu", "cuda"):
        out = tmp_path / name
        options = ["--device", name, "--deterministic", "--workers", "1", "--out", str(out)]
        subprocess.run([*DEVICE_BATCH, str(path), *options], cwd=ROOT, check=True)
        found[name] = latest(Store(only_folder(out)).all())
    assert found["cpu"].keys() == found["cuda"].keys()
    for run_id, record in found["cuda"].items():
        most = AGREE if record["config"]["method"]["trained"] else .001
        for test, metrics in record["metrics"].items():
            on_cpu = found["cpu"][run_id]["metrics"][test]
            assert abs(metrics["auc05"] - on_cpu["auc05"]) < most, (run_id, test)


# what is committed for a device


FIRST = ROOT / "configs/device/first.yaml"
MANIFESTS = [path for path in sorted((ROOT / "configs/device").glob("*.yaml")) if path.stem not in ("costs", FIRST.stem)]
GRIDS = sorted((ROOT / "configs/device/grids").glob("*.yaml"))


def grid(path):
    return load_config(path, ExperimentConfig)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_committed_manifest_asks_for_runs_with_ten_seeds(path):
    runs = device.manifest_runs(path, ROOT)
    trained = {}
    for run in runs:
        if run.method.trained:
            kind = run.model_copy(update={"seed": 0})
            trained.setdefault(json.dumps(kind.model_dump(mode="json"), sort_keys=True), []).append(run.seed)
    assert {len(set(seeds)) for seeds in trained.values()} == {10}
    asked = {run.id for run in grid(path.parent / "grids" / path.name).runs()}
    assert {run.id for run in runs} == asked, "nothing of the grid is left out"


@pytest.mark.parametrize("experiment", ["itvreg/practice", "itvreg/balance", "scan/table02"])
def test_what_comes_first_on_a_device_makes_five_seeds_of_each_row(experiment):
    wanted = [run for run in device.manifest_runs(FIRST, ROOT) if f"{run.paper}/{run.experiment}" == experiment]
    configured = load_experiment(experiment, "small", ROOT).runs()
    for run in [one for one in wanted if one.corpus]:
        row = run.model_copy(update={"seed": 0})
        seeds = {one.seed for one in [*wanted, *configured] if one.model_copy(update={"seed": 0}) == row}
        assert seeds >= set(range(5)), (run.id, seeds)


@pytest.mark.slow
@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_each_kind_of_run_of_a_grid_can_take_a_step(path):
    kinds = dry_runs(grid(path))
    for run in kinds[::3]:
        dry_step(run)


# the bundle


@pytest.mark.slow
def test_a_bundle_runs_without_this_checkout(manifest, tmp_path):
    "By PYTHONPATH alone, outside of any clone."
    out = tmp_path / "bundle.tar.xz"
    told = bundle.told(bundle.make(manifest(FEW), out, None, bundle.LIMIT))
    assert "2 runs of" in told
    assert "MiB  checkout" in told
    assert git_state(ROOT)["commit"] in told
    shutil.unpack_archive(out, tmp_path / "there")
    here = tmp_path / "there/checkout"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(here), "HOME": str(tmp_path)}
    env["DEBIAS_NB_RUNS"] = str(tmp_path / "none")
    command = [*DEVICE_BATCH, str(tmp_path / "manifest.yaml"), "--device", "cpu", "--time", "0"]
    done = subprocess.run(command, cwd=here, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 runs are left" in done.stdout, done.stdout + done.stderr
    assert device.code_version()[:12] in done.stdout


def test_a_bundle_that_is_too_large_is_not_left_behind(manifest, tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "pack", lambda place, todo, wheels: (place / "checkout").mkdir())
    out = tmp_path / "bundle.tar.xz"
    out.write_text("an earlier one")
    with pytest.raises(bundle.BundleError, match="MiB, more than 1e-06"):
        bundle.make(manifest(FEW), out, None, 1e-6)
    assert out.read_text() == "an earlier one"
    assert [path.name for path in tmp_path.iterdir() if "bundle" in path.name] == ["bundle.tar.xz"]


def test_a_folder_without_wheels_is_named(manifest, tmp_path):
    with pytest.raises(bundle.BundleError, match="no wheels in .*nowhere"):
        bundle.make(manifest(FEW), tmp_path / "bundle.tar.xz", tmp_path / "nowhere", bundle.LIMIT)


def test_a_bundle_has_the_checkout_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "ROOT", tmp_path / "clone")
    for name in ("configs/kept.yaml", "configs/removed.yaml", "debias_nb/__pycache__/made.pyc", ".gitignore"):
        path = tmp_path / "clone" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("__pycache__")
    subprocess.run("git init -q . && git add .", shell=True, cwd=tmp_path / "clone", check=True)
    (tmp_path / "clone/configs/removed.yaml").rename(tmp_path / "clone/configs/new.yaml")
    bundle.pack_code(tmp_path / "packed")
    assert sorted(path.name for path in (tmp_path / "packed").rglob("*.*")) == ["kept.yaml", "new.yaml"]


def test_weights_in_half_precision_are_known_by_their_own_hash(tmp_path, monkeypatch):
    place = bert(tmp_path)
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(tmp_path))
    whole = folder_files(place)
    bundle.halve(place / "model.safetensors")
    half = folder_files(place)["model.safetensors"]
    card = dict(kind="transformer", sha256=whole.pop("model.safetensors"), files=whole)
    card |= dict(licence="none", trained_on="nothing", zero_shot=True)
    known = loading.EncoderCard(**card, half=half)
    monkeypatch.setattr(loading, "encoder_cards", lambda: {"bert": known})
    model = loading.load_encoder(EncoderConfig(name="bert", kind="transformer"))
    assert {value.dtype for value in model.parameters()} == {torch.float32}
    monkeypatch.setattr(loading, "encoder_cards", lambda: {"bert": loading.EncoderCard(**card)})
    with pytest.raises(EncoderError, match="model.safetensors: sha256 is"):
        loading.load_encoder(EncoderConfig(name="bert", kind="transformer"))
