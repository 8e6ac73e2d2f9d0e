"""Faults and concurrency of the run records.

Writers that race, die or meet a full disk, and files that are cut off, damaged or read-only.
"""
import errno
import json
import math
import multiprocessing
import os
import pickle
import platform
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from debias_nb.settings import EncoderConfig, WorldConfig
from debias_nb.repro.config import CorpusConfig, MethodConfig, RunConfig, TrainConfig
from debias_nb.repro.runs import records
from debias_nb.repro.runs.records import RecordError, Store, TrainingFailed, append, comparable, encode, failed_record
from debias_nb.repro.runs.records import latest, make_record, read, run_or_load

CONFIG = RunConfig(
    paper="itvreg", experiment="demo", profile="small",
    encoder=EncoderConfig(name="minilm", kind="transformer"), corpus=CorpusConfig(name="quora"),
    method=MethodConfig(name="ERM"), training=TrainConfig(learning_rate=1e-4, epochs=1, batch_size=2),
    evaluate=("quora",),
)
PLACE = ("itvreg", "demo", "small")
PACKAGE = str(Path(__file__).parents[1])


def finish(config, auc=.5, **own):
    where = dict(data={}, encoder={"name": "minilm"}, device="cpu", dtype="fp32", seconds=90., peak_memory=1, curve=[])
    return make_record(config, {"quora": {"auc": auc}}, **where | own)


def seeded(seed):
    return CONFIG.model_copy(update={"seed": seed})


@cache
def base():
    "Made once: a record asks git and the system where it is made."
    return finish(CONFIG)


def small(i, **own):
    "The record of the run with seed i, the same each time."
    run = seeded(i)
    whose = {"id": run.id, "seed": i, "config": run.model_dump(mode="json")}
    fixed = {"started": "", "finished": "", "environment": {"commit": None, "dirty": None}, "extra": {"ü": i}}
    return base() | whose | fixed | own


def small_id(i):
    return seeded(i).id


def told(path):
    "The records of a file, and what is said of others."
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        records = read(path)
    return records, [str(one.message) for one in found]


def seeds_of(path):
    "Of the records of a file in which all is well."
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [one["seed"] for one in read(path)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "itvreg" / "demo.small.jsonl"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


@pytest.fixture
def spare(tmp_path, monkeypatch):
    "The folder for temporary files, where records that found no place are kept."
    folder = tmp_path / "spare"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


# several processes

SPAWN = multiprocessing.get_context("spawn")


def write_many(path, first, barrier):
    barrier.wait()
    for i in range(100):
        append(path, small(first + i, curve=list(range(900 + i))))


def test_concurrent_processes_lose_nothing_through_a_link_too(tmp_path, path):
    append(path, small(0))
    link = tmp_path / "near" / path.name
    link.parent.mkdir()
    link.symlink_to(path)
    barrier = SPAWN.Barrier(3)
    workers = [SPAWN.Process(target=write_many, args=(p, 1000 * k, barrier)) for k, p in enumerate((path, path, link), 1)]
    for w in workers:
        w.start()
    for w in workers:
        w.join(60)
    assert [w.exitcode for w in workers] == [0] * 3
    found = seeds_of(path)
    assert max(map(len, path.open("rb"))) > 4096, "longer than what a pipe or a page takes in one piece"
    for k in range(1, 4):
        assert [i for i in found if i // 1000 == k] == list(range(1000 * k, 1000 * k + 100)), "in each writer's order"
    assert link.is_symlink() and {p.suffix for p in path.parent.iterdir()} == {".jsonl", ".lock"}


def read_while(path, ready, stop):
    ready.set()
    while not stop.is_set():
        seeds_of(path)


def test_a_reader_never_sees_half_a_line(path, monkeypatch):
    ready, stop = SPAWN.Event(), SPAWN.Event()
    reader = SPAWN.Process(target=read_while, args=(path, ready, stop))
    reader.start()
    assert ready.wait(30)
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (time.sleep(.01), real(fd))) # as a slow disk would
    for i in range(40):
        append(path, small(i, curve=list(range(5000))))
    stop.set()
    reader.join(60)
    assert reader.exitcode == 0


def child(code, *args):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, args)], env=os.environ | {"PYTHONPATH": PACKAGE})


CLAIM = """
import sys
from debias_nb.repro.runs.records import Store

with Store(sys.argv[1]).claimed("a run") as mine:
    sys.exit(mine)
"""


def test_a_run_is_claimed_by_one_process_at_a_time(tmp_path):
    with Store(tmp_path).claimed("a run") as mine:
        assert mine
        assert child(CLAIM, tmp_path).wait(60) == 0, "not claimed"
    assert child(CLAIM, tmp_path).wait(60) == 1, "claimed"


# processes that die


def die_in_the_middle(kept): # bytes that are there before
    def synced(fd):
        os.ftruncate(fd, (kept + os.fstat(fd).st_size) // 2)
        os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = synced


def die_at(step): # how many lines of `append` are executed before
    left = [step]

    def inside(frame, event, arg):
        left[0] -= event == "line"
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return inside

    sys.settrace(lambda frame, event, arg: inside if frame.f_code is append.__code__ else None)


def dies(prepare, path):
    "Whether a process dies before it has added a record."
    pid = os.fork()
    if pid == 0:
        prepare()
        append(path, small(3))
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.mark.parametrize("old", [[], [0, 1, 2]], ids=["a first line", "another line"])
def test_a_writer_killed_at_any_step_leaves_the_old_records_or_the_new_ones(path, old):
    before = b"".join(encode(small(i)) for i in old)
    path.parent.mkdir()
    found = []
    for prepare in [partial(die_in_the_middle, len(before)), *(partial(die_at, step) for step in range(100))]:
        path.write_bytes(before)
        dead = dies(prepare, path)
        found.append(seeds_of(path))
        append(path, small(4)) # the lock died with its holder, and what it left hinders nobody
        assert seeds_of(path) == [*found[-1], 4]
        assert {p.suffix for p in path.parent.iterdir()} <= {".jsonl", ".lock"}
        if not dead:
            break
    assert not dead and found[0] == old, "half of a line is none"
    count = found.count(old)
    assert found == [old] * count + [[*old, 3]] * (len(found) - count), "from some step on the new ones"
    assert 5 < count < len(found)


# files that were cut off or damaged


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(count=st.integers(0, 3), end=st.binary(max_size=40) | st.integers(1, 2000), newline=st.booleans())
def test_any_end_leaves_the_lines_before_it(tmp_path, count, end, newline):
    "Of a line that was cut, or anything else: a line is told of, the beginning of one is that of a killed writer."
    if isinstance(end, int):
        end = encode(small(5)).rstrip()[:end]
    end = end.replace(b"\n", b"")
    assume(end or newline)
    whole = [small(i) for i in range(count)]
    if records.understood(end).record:
        whole.append(small(5))
    path = Path(tempfile.mkdtemp(dir=tmp_path)) / "x.jsonl"
    before = b"".join(encode(small(i)) for i in range(count))
    path.write_bytes(before + end + b"\n" * newline)
    found, said = told(path)
    is_odd = len(whole) == count and (newline or not end.startswith(b"{"))
    assert found == whole and len(said) == is_odd
    if is_odd:
        assert f"line {count + 1} is left out: " in said[0]
    append(path, small(9))
    again, said_again = told(path)
    assert again == [*whole, small(9)] and len(said_again) == len(said)
    assert path.read_bytes().startswith(before + end * (is_odd or len(whole) > count)), "nothing is lost"


def lists_and_tables(inner):
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)


LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None)))


@settings(max_examples=60)
@given(st.recursive(LEAVES, lists_and_tables, max_leaves=12))
def test_a_line_gives_back_what_was_written(value):
    line = encode(small(0, extra={"x": value}))
    assert line.count(b"\n") == 1
    assert json.loads(line)["extra"]["x"] == value == records.understood(line).record["extra"]["x"]
    respelled = json.dumps(json.loads(line), separators=(",", ":")).encode() + b"  \n"
    assert records.understood(respelled).record["extra"]["x"] == value, "the checksum is of the content"


def unsealed(record):
    "A line without a checksum."
    return json.dumps(record).encode() + b"\n"


def with_old_checksum(**changes):
    "A line of another spelling, whose checksum is that of what it said before."
    record = json.loads(encode(small(5))) | changes
    return json.dumps(record, separators=(",", ":")).encode() + b" \n"


def metric(value):
    return small(5, metrics={"quora": {"auc": value}})


def setting(**changes):
    return small(5, config=small(5)["config"] | changes)


ODD_LINES = [ # and the beginning of what is said
    (b"\n", "damaged"),
    (b"<<<<<<< HEAD\n", "damaged"),
    (b"[" * 100_000 + b"\n", "damaged"),
    (encode(small(1))[:-1] + encode(small(2)), "damaged"),
    (unsealed(small(5)).replace(b'"metrics": {', b'"metrics": {}, "metrics": {'), "damaged (the key 'metrics' stands twice"),
    (b"17\n", ""),
    (unsealed(small(5, status="almost")), "Input tag 'almost' found using 'status'"),
    (encode(small(5)).replace(b'"auc": 0.5', b'"auc": 0.6'), "checksum"),
    (with_old_checksum(metrics={"quora": {"auc": .999}}), "checksum"),
    (unsealed(small(5) | {"checksum": None}), "checksum"),
    (unsealed(small(5, schema=2)), "schema: "),
    (unsealed(small(5, extra={"loss": [float("inf")]})), "extra.loss.0: "),
    (unsealed(metric(float("nan"))), "metrics.quora.auc: "),
    (unsealed(metric(1.)).replace(b'"auc": 1.0', b'"auc": 1e999'), "metrics.quora.auc: "),
    (unsealed(metric(10**400)), "metrics.quora.auc: "),
    (unsealed(metric(7.)), "metrics: quora: auc is 7, "),
    (unsealed(small(5, metrics={"test": None})), "metrics.test: "),
    (unsealed(small(5, replicates={"t": {"auc": ["a"]}})), "replicates.t.auc.0: "),
    (unsealed(small(5, environment={"commit": "../../x", "dirty": False})), "environment.commit: "),
    (unsealed(setting(profile=["small"])), "config.profile: "),
    (unsealed(setting(paper="../../x")), "config.paper: "),
    (unsealed(setting(seed=7)), "its configuration is that of demo-small-minilm-quora-erm-s7"),
    (unsealed(small(5, seed=3)), "seed: 3, "),
    (unsealed(small(5, error="x")), "error: "),
    (unsealed(small(5, data=None)), "data: "),
    (unsealed(small(5, more=1)), "more: "),
    (unsealed(small(5)), "checksum: it has none"),
    (unsealed(small(5, peak_memory_bytes=10**19)), "peak_memory_bytes: "),
    (unsealed(small(5, seconds=-1.)), "seconds: "),
]


@pytest.mark.parametrize("bad, says", ODD_LINES)
def test_an_odd_line_is_named_and_stays_and_the_others_are_read(path, store, bad, says):
    path.parent.mkdir(parents=True)
    before = encode(small(1)) + bad + encode(small(3))
    path.write_bytes(before)
    found, said = told(path)
    assert found == [small(1), small(3)]
    assert len(said) == 1 and said[0].startswith(f"{path}: line 2 is left out: {says}"), said
    append(path, small(4))
    assert path.read_bytes() == before + encode(small(4)), "nothing is lost"
    with pytest.warns(UserWarning, match="line 2 is left out"):
        assert store.find(small_id(5)) is None and store.find(small_id(4)) == small(4)


def test_what_is_no_record_is_not_written(path):
    for field, changes in {
        r"metrics\.quora\.auc: ": {"metrics": {"quora": {"auc": math.nan}}},
        r"replicates\.quora\.auc\.1: ": {"replicates": {"quora": {"auc": [.5, math.inf]}}},
        "peak_memory_bytes: ": {"peak_memory_bytes": 10**19},
        r"config\.paper: ": {"config": CONFIG.model_copy(update={"paper": "../x"}).model_dump(mode="json")},
    }.items():
        with pytest.raises(RecordError, match=field):
            append(path, small(0, **changes))
    assert not path.exists()


# disks and folders that refuse


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_full_disk_leaves_the_file_and_keeps_the_record_where_it_can(path, spare, monkeypatch, error, always):
    append(path, small(0))
    before = path.read_bytes()
    real = os.fsync
    calls = []

    def fails(fd):
        calls.append(fd)
        if always or len(calls) == 1:
            raise OSError(error, os.strerror(error))
        return real(fd)

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(RecordError) as e:
        append(path, small(1))
    assert str(path) in str(e.value) and os.strerror(error) in str(e.value)
    assert path.read_bytes() == before
    assert {p.suffix for p in path.parent.iterdir()} == {".jsonl", ".lock"}
    kept = list(spare.rglob("*.jsonl"))
    assert [read(p) for p in kept] == ([] if always else [[small(1)]])
    assert all(str(p) in str(e.value) for p in kept)


# runs


def test_a_run_is_made_once_and_made_again_when_it_is_asked_for(store):
    calls = []

    def train(config):
        calls.append(config.seed)
        return finish(config, config.seed / 10)

    first = [run_or_load(seeded(s), train, store) for s in range(3)]
    assert [run_or_load(seeded(s), train, store) for s in range(3)] == first
    assert calls == [0, 1, 2]
    other = CONFIG.model_copy(update={"experiment": "other"})
    run_or_load(other, train, store)
    assert store.find(other.id)["config"]["experiment"] == "other" and len(store.places()) == 2
    run_or_load(seeded(1), lambda config: finish(config, .75), store, fresh=True)
    assert store.find(seeded(1))["metrics"] == {"quora": {"auc": .75}}

    def interrupted(config):
        raise KeyboardInterrupt

    def diverges(config):
        raise TrainingFailed(3, "the loss is nan")

    before = store.path(CONFIG).read_bytes()
    with pytest.raises(KeyboardInterrupt):
        run_or_load(CONFIG, interrupted, store, fresh=True)
    assert store.path(CONFIG).read_bytes() == before
    with pytest.raises(TrainingFailed):
        run_or_load(CONFIG, diverges, store, fresh=True)
    assert store.find(CONFIG) == first[0], "the newest that finished"
    for wrong in (failed_record(CONFIG, "x"), small(7)):
        with pytest.raises(RecordError, match=CONFIG.id):
            run_or_load(CONFIG, lambda config, wrong=wrong: wrong, store, fresh=True)


def test_the_newest_finished_record_counts_and_a_failure_where_none_finished():
    for stati, newest in (("finished finished failed", 1), ("failed finished", 1), ("finished failed failed", 0), ("failed failed", 1)):
        found = [{"id": "a", "status": status, "n": n} for n, status in enumerate(stati.split())]
        assert latest(found) == {"a": found[newest]}, stati


def test_a_record_has_the_whole_configuration_its_time_all_digits_of_metrics_and_five_of_replicates():
    record = json.loads(encode(finish(CONFIG, 1 / 3, replicates={"quora": {"auc": np.array([1 / 3, 2e-9 / 3])}})))
    assert record["metrics"]["quora"]["auc"] == 1 / 3
    assert record["replicates"]["quora"]["auc"] == [.33333, 6.6667e-10]
    assert record["config"].keys() == RunConfig.model_fields.keys()
    assert RunConfig.model_validate(record["config"]) == CONFIG
    times = [datetime.fromisoformat(record[name]) for name in ("started", "finished")]
    assert times[1] - times[0] == timedelta(seconds=90)


def test_repeats_are_compared_to_the_last_digit_without_times_and_machine():
    record = small(0, curve={"loss": [1., .5], "seconds": 3.})
    elsewhere = {"seconds": 9., "device": "another", "environment": {}, "curve": {"loss": [1., .5], "seconds": 7.}}
    assert comparable(record | elsewhere) == comparable(record)
    assert comparable(metric(math.nextafter(.5, 1))) != comparable(metric(.5))


def test_training_failed_crosses_a_process_border():
    e = pickle.loads(pickle.dumps(TrainingFailed(3, "the loss is nan")))
    assert (e.step, e.reason, str(e)) == (3, "the loss is nan", "step 3: the loss is nan")


# where a run was made


def test_the_environment_loads_no_heavy_package():
    code = "import sys; from debias_nb.repro.runs.records import environment; environment(); sys.exit('numpy' in sys.modules)"
    assert child(code).wait(30) == 0


def cpuinfo(*values):
    "What the system says of a processor, as `cpu family`, `model` and `model name`."
    names = ("processor", "cpu family", "model\t", "model name")
    return "".join(f"{name}\t: {value}\n" for name, value in zip(names, values))


@pytest.mark.parametrize("lines, name", [
    (cpuinfo(0, 25, 1, "AMD EPYC") + "\nprocessor\t: 1\nmodel\t\t: 9\n", "AMD EPYC (family 25, model 1)"),
    ("processor\t: 0\nBogoMIPS\t: 50.00\n", None),
])
def test_a_processor_is_known_by_more_than_its_name(tmp_path, monkeypatch, lines, name):
    "Processors of two generations have one name in a cloud, and round differently."
    (tmp_path / "cpuinfo").write_text(lines)
    monkeypatch.setattr(records, "CPUINFO", tmp_path / "cpuinfo")
    assert records.processor() == (name or platform.processor() or platform.machine())


def commit(folder):
    for step in ("init", "add .", "-c user.name=x -c user.email=x@example.org commit --no-verify --no-gpg-sign -m first"):
        records.git(folder, *step.split())


def test_git_state_is_of_this_project_and_of_its_code_alone(tmp_path, monkeypatch):
    nothing = {"commit": None, "dirty": None}
    assert records.git_state(tmp_path) == nothing
    code = ["debias_nb/a.py", "configs/a.yaml", "expected/a.yaml", "requirements-cpu.lock", "pyproject.toml"]
    files = [*code, "nbs/papers/a.ipynb", "README.md"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    commit(tmp_path)
    clean = records.git_state(tmp_path)
    assert len(clean["commit"]) == 40 and clean["dirty"] is False
    assert records.git_state(tmp_path / "nbs") == nothing, "a repository that merely surrounds the project says nothing of it"
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nbs"))
    assert records.git_state(tmp_path) == clean, "inside a hook"
    dirty = []
    for name in files:
        (tmp_path / name).write_text("2")
        if records.git_state(tmp_path)["dirty"]:
            dirty.append(name)
        (tmp_path / name).write_text("1")
    assert dirty == code, "a notebook that was opened, or executed, is the same code"


# what is published


def in_world(seed):
    run = CONFIG.model_copy(update={
        "corpus": CorpusConfig(name="catalogue", world=WorldConfig(seed=seed)), "eval_world": WorldConfig(seed=seed)})
    questions = {"extra": {"questions": {"iid": [.5]}, "training": {}}, "replicates": {"quora": {"auc": [.1]}}}
    return small(0) | {"id": run.id, "seed": 0, "config": run.model_dump(mode="json")} | questions


@pytest.fixture
def parquet(store):
    "A published file of two runs."
    for record in (small(0, replicates={"quora": {"auc": [.1, 1e-7, .33333]}}), small(1)):
        store.append(record)
    store.publish(*PLACE)
    return store.folder / "itvreg/demo.small.parquet"


def test_what_is_published_is_the_same_to_the_last_digit_and_lines_are_added_to_it(store, parquet):
    first, further = in_world(0), in_world(3)
    failed = failed_record(seeded(9), "the loss is nan\nin two lines", 3)
    newer = small(1, metrics={"quora": {"auc": .75}})
    for record in (first, further, failed, newer):
        store.append(record)
    with store.path(CONFIG).open("ab") as file:
        file.write(encode(small(2)) + b"<<<<<<<\n")
    done = store.publish(*PLACE)
    assert (done.rows, done.trimmed, done.replaced) == (6, 1, [small_id(1)])
    assert done.left_out[0].startswith(f"{store.path(CONFIG)}: line 6 is left out, and stays: damaged")
    assert store.path(CONFIG).read_bytes() == b"<<<<<<<\n"
    with pytest.warns(UserWarning, match="line 1 is left out"):
        found = {record["id"]: record for record in store.all()}
        assert store.find(small_id(1)) == store.find(seeded(1)) == newer
        short = {record["id"]: record for record in store.records(*PLACE, short=True)}
    assert found[small_id(0)] == small(0, replicates={"quora": {"auc": [.1, 1e-7, .33333]}})
    assert found[first["id"]] == first and found[failed["id"]] == failed and found[small_id(2)] == small(2)
    assert found[further["id"]] == further | {"replicates": {}, "extra": {"training": {}}}
    assert short[small_id(2)] == {key: value for key, value in small(2).items() if key not in records.LONG}


def test_a_flipped_byte_never_reads_as_other_or_fewer_records(store, parquet):
    good = parquet.read_bytes()
    whole = store.all()
    silent = []
    for place in [*range(0, len(good), 97), *range(len(good) - 300, len(good), 7)]:
        parquet.write_bytes(good[:place] + bytes([good[place] ^ 0x41]) + good[place + 1:])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = store.records(*PLACE)
        if found != whole:
            assert found == [] and len(said) == 1 and str(said[0].message).startswith(f"{parquet}: "), place
            with pytest.raises(RecordError, match="nothing is added"):
                store.publish(*PLACE)
            silent.append(place)
    assert len(silent) > 20


def rewritten(path, name, change):
    "The same file with other values in a column, sealed anew."
    table = pq.read_table(path)
    about = json.loads(table.schema.metadata[b"debias-nb"])
    values = [change(n, value) for n, value in enumerate(table[name].to_pylist(), 1)]
    about["columns"][name] = records._seal(values)
    table = table.set_column(table.column_names.index(name), name, pa.array(values, table[name].type))
    pq.write_table(table.replace_schema_metadata({"debias-nb": json.dumps(about)}), path)


@pytest.mark.parametrize("column, value, says", [
    ("metrics", '{"quora": {"auc": 1' + 400 * "0" + "}}", "row 2: metrics.quora.auc: "),
    ("metrics", '{"quora": null}', "row 2: metrics.quora: "),
    ("replicates", '"x"', "row 2: replicates: "),
    ("config", "{", "row 2: damaged"),
    ("environment", "[1]", "row 2: environment: "),
    ("metrics", '{"quora": {"auc": 7.5}}', "row 2: metrics: quora: auc is 7.5"),
    ("metrics", '{"quora": {"auc": 0.5}},"error":"x"', "row 2: damaged"),
    ("metrics", '{"quora": {"auc": 0.5, "auc": 0.9}}', "row 2: damaged (the key 'auc' stands twice"),
    ("config", json.dumps(small(7)["config"]), "row 2: its configuration is that of "),
    ("id", small_id(7), "row 2: its configuration is that of "),
    ("seed", 7, "row 2: seed: 7"),
    ("seconds", math.inf, "row 2: seconds: "),
    ("dtype", "<script>", "row 2: dtype: "),
    ("status", "done", "row 2: Input tag 'done'"),
])
def test_a_row_that_is_no_record_is_named_and_the_others_are_read(store, parquet, column, value, says):
    first, _ = store.all()
    rewritten(parquet, column, lambda n, old: value if n == 2 else old)
    with pytest.warns(UserWarning) as said:
        assert store.all() == [first]
    assert str(said[0].message).startswith(f"{parquet}: {says}"), str(said[0].message)


def test_a_run_that_stands_in_two_rows_counts_in_none(store, parquet):
    records.write_published(parquet, [*store.all(), small(1, metrics={"quora": {"auc": .9}})])
    with pytest.warns(UserWarning, match="stands in several rows"):
        assert [record["seed"] for record in store.all()] == [0]


@pytest.mark.parametrize("about", ["7", "[1]", "{}", '{"schema": 1, "rows": 2, "columns": null}', "no JSON"])
def test_metadata_of_another_form_are_named(store, parquet, about):
    pq.write_table(pq.read_table(parquet).replace_schema_metadata({"debias-nb": about}), parquet)
    with pytest.warns(UserWarning, match="demo.small.parquet: no published records: "):
        assert store.all() == []
    with pytest.raises(RecordError, match="nothing is added"):
        store.publish(*PLACE)


def test_what_is_no_file_or_is_called_otherwise_is_named_and_not_waited_for(store, parquet):
    os.mkfifo(parquet.with_suffix(".jsonl"))
    os.mkfifo(parquet.with_name("other.small.parquet"))
    parquet.with_name("a.b.c.small.jsonl").write_bytes(encode(small(5)))
    with pytest.warns(UserWarning) as said:
        assert [record["seed"] for record in store.all()] == [0, 1]
    words = " ".join(str(one.message) for one in said)
    for sentence in ("demo.small.jsonl is no file", "other.small.parquet is no file", "a.b.c.small.jsonl is not called"):
        assert sentence in words


def test_a_full_disk_while_publishing_is_told_with_the_file(store, parquet, monkeypatch):
    before = parquet.read_bytes()
    store.append(small(3))
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with pytest.raises(RecordError, match=r"demo\.small\.parquet could not be written: No space left"):
        store.publish(*PLACE)
    assert parquet.read_bytes() == before and seeds_of(store.path(CONFIG)) == [3]


def test_code_that_nobody_can_look_up_is_named(store):
    known = frozenset({"a" * 40})
    places = [("a" * 40, False), ("b" * 40, False), ("a" * 40, True)]
    for seed, (commit, dirty) in enumerate(places):
        store.append(small(seed, environment={"commit": commit, "dirty": dirty}))
    store.publish(*PLACE)
    first, second = store.unfounded(known)
    assert "1 records name the commit bbbbbbbb, which is not in this history" in first + second
    assert "1 records were made with changes that stand in no commit" in first + second
    assert store.unfounded(known, "arr") == []


def test_a_folder_without_git_has_no_history(tmp_path):
    assert records.history(tmp_path) is None
    (tmp_path / "a").write_text("1")
    commit(tmp_path)
    assert records.history(tmp_path) == {records.git(tmp_path, "rev-parse", "HEAD")}


def test_another_schema_and_no_parquet_are_named(store, parquet):
    table = pq.read_table(parquet)
    pq.write_table(table.drop_columns(["curve"]), parquet)
    with pytest.warns(UserWarning, match="demo.small.parquet: another schema: curve"):
        assert store.all() == []
    parquet.write_bytes(b"PAR1")
    with pytest.warns(UserWarning, match="demo.small.parquet: damaged, or no Parquet file"):
        assert store.all() == []
    table.to_pandas().to_parquet(parquet)
    with pytest.warns(UserWarning, match="demo.small.parquet: another program has written it"):
        assert store.all() == []


@pytest.mark.parametrize("paper", ["arr", "itvreg", "scan"])
def test_every_published_record_is_the_record_of_its_run(paper):
    "What is no record would be left out with a warning; and its code can be looked up."
    store = Store(Path(__file__).parents[1] / "results")
    assert store.unpublished() == [], "lines of results/ go into its Parquet files: debias-nb convert"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for place in store.places():
            if place[0] == paper:
                assert store.records(*place)
    commits = records.history(store.folder.parent)
    if commits is not None:
        assert store.unfounded(commits, paper) == []
