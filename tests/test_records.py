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
import resource
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
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from debias_nb.repro.runs import records
from debias_nb.config import EncoderConfig, WorldConfig
from debias_nb.repro.config import CorpusConfig, MethodConfig, RunConfig, TrainConfig
from debias_nb.repro.runs.records import (
    RecordError, Store, TrainingFailed, append, comparable, encode, failed_record, latest, make_record, read,
    run_or_load,
)

CONFIG = RunConfig(
    paper="itvreg", experiment="demo", profile="small",
    encoder=EncoderConfig(name="minilm", kind="transformer"), corpus=CorpusConfig(name="quora"),
    method=MethodConfig(name="ERM"), training=TrainConfig(learning_rate=1e-4, epochs=1, batch_size=2),
    evaluate=("quora",),
)
PACKAGE = str(Path(__file__).parents[1])


def finish(config, auc=.5):
    where = dict(data={}, encoder={"name": "minilm"}, device="cpu", dtype="fp32")
    return make_record(config, {"quora": {"auc": auc}}, seconds=1., peak_memory=1, curve=[], **where)


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


@pytest.fixture
def path(tmp_path):
    return tmp_path / "itvreg" / "demo.small.jsonl"


@pytest.fixture
def spare(tmp_path, monkeypatch):
    "The folder for temporary files, where records that found no place are kept."
    folder = tmp_path / "spare"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


# several processes


def write_many(path, first, count, barrier):
    barrier.wait()
    for i in range(count):
        append(path, small(first + i, curve=list(range(900 + i))))


@pytest.mark.parametrize("processes", [2, 4])
def test_concurrent_processes_lose_nothing(path, processes):
    spawn = multiprocessing.get_context("spawn")
    count = 100
    barrier = spawn.Barrier(processes)
    workers = [spawn.Process(target=write_many, args=(path, 1000 * k, count, barrier)) for k in range(processes)]
    for w in workers:
        w.start()
    for w in workers:
        w.join(60)
    assert [w.exitcode for w in workers] == [0] * processes
    found = [r["seed"] for r in read(path)]
    assert min(len(line) for line in path.open("rb")) > 4096, "longer than what a pipe or a page takes in one piece"
    assert sorted(found) == [1000 * k + i for k in range(processes) for i in range(count)]
    for k in range(processes):
        of_one_writer = [i for i in found if i // 1000 == k]
        assert of_one_writer == sorted(of_one_writer), "each writer's order is kept"
    assert {p.suffix for p in path.parent.iterdir()} == {".jsonl", ".lock"}


def test_writers_through_a_link_lose_nothing(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    path = tmp_path / "far" / "demo.small.jsonl"
    link = tmp_path / "near" / "demo.small.jsonl"
    append(path, small(0))
    link.parent.mkdir()
    link.symlink_to(path)
    barrier = spawn.Barrier(2)
    first = {path: 100, link: 200}
    workers = [spawn.Process(target=write_many, args=(p, first[p], 50, barrier)) for p in (path, link)]
    for w in workers:
        w.start()
    for w in workers:
        w.join(60)
    assert {r["seed"] for r in read(path)} == {0, *range(100, 150), *range(200, 250)}
    assert Store(tmp_path).delete(small_id(0)) == 1, "a line is one, by whichever name"
    assert link.is_symlink()
    assert read(link) == read(path)


def read_while(path, ready, stop, failures):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ready.set()
        while not stop.is_set():
            try:
                read(path)
            except BaseException as e:
                failures.put(repr(e))
                return


def test_a_reader_never_sees_half_a_line(path, monkeypatch):
    spawn = multiprocessing.get_context("spawn")
    real = os.fsync
    ready = spawn.Event()
    stop = spawn.Event()
    failures = spawn.SimpleQueue()
    reader = spawn.Process(target=read_while, args=(path, ready, stop, failures))
    reader.start()
    assert ready.wait(30)

    def slowly(fd): # as a slow disk would
        time.sleep(.01)
        real(fd)

    monkeypatch.setattr(os, "fsync", slowly)
    for i in range(40):
        append(path, small(i))
    monkeypatch.undo()
    stop.set()
    reader.join(60)
    assert reader.exitcode == 0
    assert failures.empty()
    assert read(path) == [small(i) for i in range(40)]


def test_deleting_while_others_append_loses_nothing(path):
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(2)
    store = Store(path.parent.parent)
    for i in range(60):
        append(path, small(i))
    writer = spawn.Process(target=write_many, args=(path, 1000, 100, barrier))
    writer.start()
    barrier.wait()
    assert sum(store.delete(small_id(i)) for i in range(60)) == 60
    writer.join(60)
    assert [r["seed"] for r in read(path)] == list(range(1000, 1100))


# processes that die


def child(code, *args):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, args)], env=os.environ | {"PYTHONPATH": PACKAGE})


WITHOUT_END = """
import itertools, sys
sys.path.insert(0, sys.argv[3])
from debias_nb.repro.runs.records import append
from test_records import small

for i in itertools.count(1000 * int(sys.argv[2])):
    append(sys.argv[1], small(i, curve=[i] * 100_000))
"""


def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)


def die_in_the_middle(which, kept): # of the file that is written as the first or the second; bytes that are there before
    left = [which]

    def synced(fd):
        left[0] -= 1
        if left[0] == 0:
            os.ftruncate(fd, (kept + os.fstat(fd).st_size) // 2)
            die()

    os.fsync = synced


def die_at(function, step): # how many of its lines are executed before
    left = [step]

    def inside(frame, event, arg):
        left[0] -= event == "line"
        if left[0] < 0:
            die()
        return inside

    sys.settrace(lambda frame, event, arg: inside if frame.f_code is function.__code__ else None)


def dies(prepare, use, path):
    "Whether a process dies before it comes to its end."
    pid = os.fork()
    if pid == 0:
        prepare()
        use(path)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


def append_fourth(path):
    append(path, small(3))


def delete_second(path):
    Store(path.parent.parent).delete(small_id(1))


@pytest.mark.parametrize("use, function, old, new, files", [
    (append_fourth, records._add, [], [3], 2),
    (append_fourth, records._add, [0, 1, 2], [0, 1, 2, 3], 2),
    (delete_second, records._replace, [0, 1, 2], [0, 2], 1),
], ids=["a first line", "another line", "a deletion"])
def test_a_writer_killed_at_any_step_leaves_the_old_records_or_the_new_ones(path, use, function, old, new, files):
    before = b"".join(encode(small(i)) for i in old)
    path.parent.mkdir()
    found = []
    halves = [partial(die_in_the_middle, which, kept) for which, kept in ((1, 0), (2, len(before)))[:files]]
    for prepare in [*halves, *(partial(die_at, function, step) for step in range(100))]:
        path.write_bytes(before)
        dead = dies(prepare, use, path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found.append([one["seed"] for one in read(path)])
            append(path, small(4)) # the lock died with its holder, and what it left hinders nobody
            assert [one["seed"] for one in read(path)] == [*found[-1], 4]
        assert {p.suffix for p in path.parent.iterdir()} <= {".jsonl", ".lock", ".new"}
        if not dead:
            break
    assert not dead
    assert found[:files] == [old] * files, "half of a line is none"
    count = found.count(old)
    assert found == [old] * count + [new] * (len(found) - count), "from some step on the new ones"
    assert files + 1 < count < len(found)


def size_of(path):
    return path.stat().st_size if path.exists() else 0


def wait_until_it_grows(path, size, writer, pause):
    "Until the file has more than `size` bytes, while its writer lives."
    deadline = time.monotonic() + 30
    while size_of(path) <= size:
        assert writer.poll() is None
        assert time.monotonic() < deadline
        time.sleep(pause)


def test_a_writer_killed_at_any_moment_leaves_whole_lines(path):
    kept = 0
    for k in range(3):
        writer = child(WITHOUT_END, path, k, Path(__file__).parent)
        wait_until_it_grows(path, size_of(path) + 500_000, writer, pause=.001 * (k + 1))
        writer.kill()
        writer.wait(30)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = read(path)
        assert len(found) > kept
        assert all(len(set(r["curve"])) == 1 and len(r["curve"]) == 100_000 for r in found)
        runs = [r["seed"] - 1000 * k for r in found if r["seed"] // 1000 == k]
        assert runs == list(range(len(runs)))
        kept = len(found)


# files that were cut off, which no writer of these does


def told(path):
    "The records of a file, and what is said of others."
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        records = read(path)
    return records, [str(one.message) for one in found]


def test_a_file_cut_at_any_byte_keeps_its_whole_lines(tmp_path):
    lines = [encode(small(i)) for i in range(3)]
    whole = b"".join(lines)
    ends = [len(b"".join(lines[:i])) for i in range(4)]
    near = {end + i for end in ends for i in range(-3, 4)}
    for cut in sorted(near | set(range(0, len(whole), 53))):
        if not 0 <= cut <= len(whole):
            continue
        path = tmp_path / f"{cut}.jsonl"
        path.write_bytes(whole[:cut])
        rest = whole[:cut].rpartition(b"\n")[2]
        complete = [small(i) for i in range(3) if whole[:cut].startswith(b"".join(lines[:i + 1])[:-1])]
        torn = bool(rest) and rest + b"\n" not in lines
        assert path.read_bytes() == whole[:cut]
        found, said = told(path)
        assert found == complete, "also where only its newline lacks"
        assert len(said) == torn
        if torn:
            assert f"{path}: line {len(complete) + 1} is left out: damaged" in said[0]
        append(path, small(9))
        assert path.read_bytes() == whole[:cut] + b"\n" * bool(rest) + encode(small(9)), "nothing is lost"
        assert told(path)[0] == complete + [small(9)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(count=st.integers(0, 3), end=st.binary(min_size=1, max_size=40), newline=st.booleans())
def test_any_end_is_told_and_kept(tmp_path, count, end, newline):
    end = end.replace(b"\n", b"") + b"\n" * newline
    assume(end)
    path = Path(tempfile.mkdtemp(dir=tmp_path)) / "x.jsonl"
    whole = [small(i) for i in range(count)]
    before = b"".join(map(encode, whole)) + end
    path.write_bytes(before)
    found, said = told(path)
    assert found == whole and len(said) == 1 and f"line {count + 1} is left out: " in said[0]
    assert path.read_bytes() == before
    append(path, small(9))
    assert path.read_bytes() == before.removesuffix(b"\n") + b"\n" + encode(small(9))
    assert told(path) == ([*whole, small(9)], said)


def lists_and_tables(inner):
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | st.text(st.characters(codec=None))


@settings(max_examples=60)
@given(st.recursive(LEAVES, lists_and_tables, max_leaves=12))
def test_a_line_gives_back_what_was_written(value):
    line = encode(small(0, extra={"x": value}))
    assert line.count(b"\n") == 1
    assert json.loads(line)["extra"]["x"] == value == records.understood(line).record["extra"]["x"]
    respelled = json.dumps(json.loads(line), separators=(",", ":")).encode() + b"  \n"
    assert records.understood(respelled).record["extra"]["x"] == value, "the checksum is of the content"


# damage that no crash explains


def other_run(record):
    return record | {"config": seeded(7).model_dump(mode="json")}


def unsealed(record):
    "A line without a checksum."
    return json.dumps(record).encode() + b"\n"


def with_old_checksum(**changes):
    "A line of another spelling, whose checksum is that of what it said before."
    record = json.loads(encode(small(5))) | changes
    return json.dumps(record, separators=(",", ":")).encode() + b" \n"


def metric(value):
    return small(5, metrics={"quora": {"auc": value}})


NO_NUMBER = "metrics.quora.auc: Input should be a valid number"


@pytest.mark.parametrize("bad, says", [
    (b'{"schema": 1, "id"\n', "damaged"),
    (b"\n", "damaged"),
    (b"\xff\xfe\n", "damaged"),
    (b"<<<<<<< HEAD\n", "damaged"),
    (unsealed(metric(float("nan"))), "metrics.quora.auc: Input should be a finite number"),
    (unsealed(small(5, extra={"loss": [float("inf")]})), "extra.loss.0: Input should be a finite number"),
    (encode(small(1))[:-1] + encode(small(2)), "damaged"),
    (unsealed(small(5)).replace(b'"metrics": {', b'"metrics": {}, "metrics": {'), "damaged (the key 'metrics' stands twice"),
    (b"17\n", "Input should be a valid dictionary"),
    (b"{}\n", "schema: required, and not there"),
    (unsealed(small(5, schema=2)), "schema: Input should be 1, got 2"),
    (unsealed(small(5, status="almost")), "status: Input should be 'finished' or 'failed', got 'almost'"),
    (encode(small(5)).replace(b'"auc": 0.5', b'"auc": 0.6'), "checksum: it is not that of the content"),
    (with_old_checksum(metrics={"quora": {"auc": .999}}), "checksum: it is not that of the content"),
    (encode(small(5))[:-1].replace(b"0.5", b"0.9") + b" \n", "checksum: it is not that of the content"),
    (unsealed(small(5) | {"checksum": None}), "checksum: it is not that of the content"),
    (unsealed(metric(7.)), "metrics: quora: auc is 7, and a fraction lies between 0 and 1"),
    (unsealed(metric(1.)).replace(b'"auc": 1.0', b'"auc": 1e999'), "metrics.quora.auc: Input should be a finite number"),
    (unsealed(metric("high")), f"{NO_NUMBER}, got 'high'"),
    (unsealed(metric(10**400)), NO_NUMBER),
    (unsealed(metric(True)), NO_NUMBER),
    (unsealed(small(5, metrics={"test": None})), "metrics.test: Input should be a valid dictionary, got None"),
    (unsealed(small(5, environment=[1])), "environment: Input should be a valid dictionary"),
    (unsealed(small(5, environment={"commit": "../../x", "dirty": False})), "environment.commit: String should match"),
    (unsealed(small(5, environment={"commit": 12345, "dirty": False})), "environment.commit: Input should be a valid string"),
    (unsealed(small(5, replicates="x")), "replicates: Input should be a valid dictionary, got 'x'"),
    (unsealed(small(5, replicates={"t": {"auc": ["a"]}})), "replicates.t.auc.0: Input should be a valid number, got 'a'"),
    (unsealed(small(5, config={"a": 1})), "config.paper: required, and not there"),
    (unsealed(small(5, config=small(5)["config"] | {"profile": ["small"]})), "config.profile: Input should be 'planted'"),
    (unsealed(small(5, config=small(5)["config"] | {"paper": "../../x"})), "config.paper: String should match"),
    (unsealed(other_run(small(5))), "its configuration is that of demo-small-minilm-quora-erm-s7"),
    (unsealed(small(5, seed=3)), "seed: 3, and that of its configuration is 5"),
    (unsealed(small(5, error="x")), "`error` belongs to failed runs"),
    (unsealed(small(5, data=None)), "a finished run, without data"),
    (unsealed(small(5, more=1)), "more: Extra inputs are not permitted"),
    (encode(small(1)), "it repeats line 1"),
])
def test_an_odd_line_is_named_wherever_it_stands_and_the_others_are_read(path, bad, says):
    store = Store(path.parent.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    for after in (encode(small(3)), b""):
        path.write_bytes(encode(small(1)) + bad + after)
        before = path.read_bytes()
        whole = [small(1), small(3)][:1 + bool(after)]
        for use, args in ((read, (path,)), (store.all, ())):
            with pytest.warns(UserWarning) as said:
                assert use(*args) == whole
            assert len(said) == 1
            assert str(said[0].message).startswith(f"{path}: line 2 is left out: {says}"), str(said[0].message)
        assert path.read_bytes() == before
        append(path, small(4))
        assert path.read_bytes() == before + encode(small(4)), "nothing is lost"
        assert store.delete(small_id(4)) == 1
        assert path.read_bytes() == before, "what is left out stays in its file"
        assert store.find(small_id(5)) is None
        assert store.find(small_id(1)) == small(1)


def test_lines_without_a_checksum_are_read_and_named(path):
    path.parent.mkdir(parents=True)
    path.write_bytes(encode(small(0)) + unsealed(small(1)) + unsealed(small(2)))
    assert told(path) == ([small(0), small(1), small(2)], [f"{path}: 2 lines have no checksum, line 2 is the first"])
    assert Store(path.parent.parent).find(small_id(1)) == small(1)


# disks and folders that refuse


@pytest.mark.parametrize("error, says", [
    (errno.ENOSPC, "No space left on device"),
    (errno.EIO, "Input/output error"),
])
@pytest.mark.parametrize("which", [1, 2], ids=["beside the file", "in the file"])
def test_a_full_disk_leaves_the_file_and_keeps_the_record(path, spare, monkeypatch, error, says, which):
    append(path, small(0))
    before = path.read_bytes()
    real = os.fsync
    calls = []

    def once(*args):
        calls.append(args)
        if len(calls) == which:
            raise OSError(error, os.strerror(error))
        return real(*args)

    monkeypatch.setattr(os, "fsync", once)
    with pytest.raises(RecordError) as e:
        append(path, small(1))
    kept, = spare.rglob("*.jsonl")
    assert str(path) in str(e.value)
    assert says in str(e.value)
    assert str(kept) in str(e.value)
    assert path.read_bytes() == before
    assert {p.suffix for p in path.parent.iterdir()} == {".jsonl", ".lock"}
    append(path, read(kept)[0])
    assert read(path) == [small(0), small(1)]


def refuse(monkeypatch, name, error):
    "Let a function of `os` fail always."
    def fail(*args):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, name, fail)


def test_a_disk_that_is_full_everywhere_is_said_and_the_file_stays(path, spare, monkeypatch):
    append(path, small(0))
    before = path.read_bytes()
    refuse(monkeypatch, "fsync", errno.ENOSPC)
    with pytest.raises(RecordError, match="could not be kept elsewhere either .*No space left"):
        append(path, small(1))
    assert path.read_bytes() == before
    assert not [p for p in spare.rglob("*") if p.is_file()]


@pytest.mark.parametrize("room", [10, 5000, 19_000])
def test_a_write_that_the_system_cuts_short_leaves_the_file(path, spare, room): # room: bytes that any file may have
    for i in range(200):
        append(path, small(i))
    before = path.read_bytes()
    assert len(before) > 19_000
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, old[1]))
    try:
        with pytest.raises(RecordError, match="File too large; it "):
            append(path, small(200))
        with pytest.raises(RecordError, match="File too large; all its records are still there"):
            Store(path.parent.parent).delete(small_id(0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert path.read_bytes() == before
    assert {p.suffix for p in path.parent.iterdir()} == {".jsonl", ".lock"}
    kept = list(spare.rglob("*.jsonl"))
    assert [read(p) for p in kept] == ([] if room == 10 else [[small(200)]])


def test_deleting_on_a_full_disk_changes_nothing(path, monkeypatch):
    for i in range(3):
        append(path, small(i))
    before = path.read_bytes()
    refuse(monkeypatch, "fsync", errno.ENOSPC)
    with pytest.raises(RecordError, match="s1-.* could not be deleted: No space left"):
        Store(path.parent.parent).delete(small_id(1))
    monkeypatch.undo()
    refuse(monkeypatch, "replace", errno.EIO)
    message = "s1-.* could not be deleted: Input/output error; all its records are still there"
    with pytest.raises(RecordError, match=message):
        Store(path.parent.parent).delete(small_id(1))
    assert path.read_bytes() == before
    assert {p.suffix for p in path.parent.iterdir()} == {".jsonl", ".lock"}


def hold_lock(path, ready, done):
    from filelock import FileLock
    with FileLock(f"{path}.lock"):
        ready.set()
        done.wait(30)


def test_a_lock_that_is_never_freed_is_said_and_does_not_hinder_reading(path, spare, monkeypatch):
    append(path, small(0))
    monkeypatch.setattr(records, "LOCK_SECONDS", .05)
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Event()
    done = spawn.Event()
    holder = spawn.Process(target=hold_lock, args=(path, ready, done))
    holder.start()
    try:
        assert ready.wait(30)
        with pytest.raises(RecordError, match="lock.* is kept in"):
            append(path, small(1))
        with pytest.raises(RecordError, match="s0-.* could not be deleted: .*lock"):
            Store(path.parent.parent).delete(small_id(0))
        assert read(path) == [small(0)], "reading needs no lock"
    finally:
        done.set()
        holder.join(30)


@pytest.fixture
def ordinary_user():
    "A folder, and no right to write where the mode forbids it, which root has."
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        root = os.geteuid() == 0
        try:
            yield Path(folder), (lambda: os.seteuid(65534)) if root else lambda: None
        finally:
            if root:
                os.seteuid(0)
            for p in [Path(folder), *Path(folder).rglob("*")]:
                p.chmod(0o755)


@pytest.mark.parametrize("folder_mode, file_mode", [(0o555, 0o444), (0o555, 0o644), (0o777, 0o444)])
def test_a_read_only_folder_or_file_is_read_and_left_as_it_is(ordinary_user, folder_mode, file_mode):
    folder, give_up_rights = ordinary_user
    path = folder / "itvreg" / "demo.small.jsonl"
    spare = folder / "spare"
    append(path, small(0))
    Path(f"{path}.lock").unlink()
    spare.mkdir()
    spare.chmod(0o777)
    path.chmod(file_mode)
    path.parent.chmod(folder_mode)
    before = path.read_bytes()
    give_up_rights()
    assert read(path) == [small(0)]
    assert Store(folder).find(small_id(0)) == small(0)
    with pytest.raises(RecordError, match="demo.small.jsonl.* could not be deleted: Permission denied"):
        Store(folder).delete(small_id(0))
    old, tempfile.tempdir = tempfile.tempdir, str(spare)
    try:
        with pytest.raises(RecordError, match="demo.small.jsonl.*Permission denied.* is kept in"):
            append(path, small(1))
    finally:
        tempfile.tempdir = old
    assert path.read_bytes() == before
    assert not list(path.parent.glob("*.new"))
    assert read(next(spare.rglob("*.jsonl"))) == [small(1)]


def test_reading_leaves_no_trace(path):
    append(path, small(0))
    Path(f"{path}.lock").unlink()
    assert read(path) == [small(0)]
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    with pytest.raises(RecordError, match="itvreg: Is a directory"):
        read(path.parent)


# NaN, stores, running


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nan_is_refused_and_named(path, value):
    with pytest.raises(RecordError, match=r"metrics\.quora\.auc: .* got -?(nan|inf)"):
        append(path, small(0, metrics={"quora": {"auc": value}}))
    with pytest.raises(RecordError, match=r"replicates\.quora\.auc\.1: .* got -?(nan|inf)"):
        append(path, small(0, replicates={"quora": {"auc": [.5, value]}}))
    with pytest.raises(RecordError, match="no record"):
        append(path, {"id": "a"})
    assert not path.exists()


def test_delete_makes_just_that_run_run_again(tmp_path):
    store = Store(tmp_path)
    calls = []

    def train(config):
        calls.append(config.seed)
        return finish(config, config.seed / 10)

    def all_runs(**kw):
        return [run_or_load(seeded(s), train, store, **kw) for s in range(4)]

    first = all_runs()
    assert calls == [0, 1, 2, 3]
    assert all_runs() == first
    assert calls == [0, 1, 2, 3]
    lines = store.path(CONFIG).read_bytes().splitlines(keepends=True)
    store.path(CONFIG).chmod(0o640)
    assert store.delete(seeded(2).id) == 1
    assert store.path(CONFIG).read_bytes() == lines[0] + lines[1] + lines[3]
    assert store.path(CONFIG).stat().st_mode & 0o777 == 0o640
    assert [comparable(r) for r in all_runs()] == [comparable(r) for r in first]
    assert calls == [0, 1, 2, 3, 2]
    run_or_load(seeded(1), train, store, fresh=True)
    assert calls[5:] == [1]
    assert sorted(r["seed"] for r in store.all()) == [0, 1, 2, 3]


def test_a_fresh_run_that_fails_or_is_interrupted_keeps_the_old_record(tmp_path):
    store = Store(tmp_path)
    old = run_or_load(CONFIG, finish, store)
    before = store.path(CONFIG).read_bytes()

    def interrupted(config):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_or_load(CONFIG, interrupted, store, fresh=True)
    assert store.path(CONFIG).read_bytes() == before

    def diverges(config):
        raise TrainingFailed(3, "the loss is nan")

    with pytest.raises(TrainingFailed):
        run_or_load(CONFIG, diverges, store, fresh=True)
    assert store.find(CONFIG) == old
    assert [r["status"] for r in store.all()] == ["finished", "failed"]


def test_other_errors_of_training_leave_no_record(tmp_path):
    def broken(config):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_or_load(CONFIG, broken, Store(tmp_path))
    for wrong in (None, {}, failed_record(CONFIG, "x"), small(7)):
        with pytest.raises(RecordError, match=CONFIG.id):
            run_or_load(CONFIG, lambda config, wrong=wrong: wrong, Store(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("stati, newest", [
    (["finished", "finished", "failed"], 1),
    (["failed", "finished"], 1),
    (["finished", "failed", "failed"], 0),
    (["failed", "failed"], 1),
])
def test_the_newest_finished_record_counts_and_a_failure_where_none_finished(stati, newest):
    records = [{"id": "a", "status": status, "n": n} for n, status in enumerate(stati)]
    assert latest(records) == {"a": records[newest]}


def test_metrics_keep_all_digits_and_replicates_five():
    made = make_record(
        CONFIG, {"quora": {"auc": 1 / 3}}, replicates={"quora": {"auc": np.array([1 / 3, 2e-9 / 3])}}, data={}, encoder={},
        device="cpu", dtype="fp32", seconds=1., peak_memory=1, curve={})
    found = json.loads(encode(made))
    assert found["metrics"]["quora"]["auc"] == 1 / 3
    assert found["replicates"]["quora"]["auc"] == [.33333, 6.6667e-10]


def test_a_record_has_the_whole_configuration_and_the_time_that_the_run_took():
    record = make_record(
        CONFIG, {"quora": {"auc": .5}}, data={}, encoder={}, device="cpu", dtype="fp32", seconds=90., peak_memory=1, curve={})
    assert record["config"].keys() == RunConfig.model_fields.keys()
    assert RunConfig.model_validate(record["config"]) == CONFIG
    times = [datetime.fromisoformat(record[name]) for name in ("started", "finished")]
    assert times[1] - times[0] == timedelta(seconds=90)


def test_repeats_are_compared_to_the_last_digit_without_times_and_machine():
    record = small(0, curve={"loss": [1., .5], "seconds": 3.})
    elsewhere = {"seconds": 9., "device": "another", "environment": {}, "curve": {"loss": [1., .5], "seconds": 7.}}
    assert comparable(record | elsewhere) == comparable(record)
    assert comparable(metric(math.nextafter(.5, 1))) != comparable(metric(.5))


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


def test_of_a_file_that_has_grown_the_new_line_alone_is_understood(path):
    store = Store(path.parent.parent)
    mine = [small(i, extra={"of": "this test"}) for i in range(4)]
    for record in mine[:3]:
        append(path, record)
    assert store.all() == mine[:3]
    known = records.understood.cache_info().misses
    append(path, mine[3])
    assert store.find(small_id(3)) == mine[3]
    assert records.understood.cache_info().misses == known + 1


def test_each_experiment_has_a_file_of_its_own(tmp_path):
    store = Store(tmp_path)
    other = CONFIG.model_copy(update={"experiment": "other"})
    for c in (CONFIG, other):
        store.append(finish(c))
    assert len(store.all()) == 2
    assert store.find(other.id)["config"]["experiment"] == "other"
    assert store.delete(other.id) == 1
    assert set(latest(store.all())) == {CONFIG.id}
    assert store.records("itvreg", "other", "small") == []
    store.append(failed_record(other, "no data"))
    assert store.find(other) is None
    assert store.find(other.id) is None
    assert latest(store.all())[other.id]["error"] == "no data"
    with pytest.raises(RecordError, match="config.paper: String should match"):
        store.append(finish(CONFIG) | {"config": other.model_copy(update={"paper": "../x"}).model_dump(mode="json")})


def test_training_failed_crosses_a_process_border():
    e = pickle.loads(pickle.dumps(TrainingFailed(3, "the loss is nan")))
    assert (e.step, e.reason, str(e)) == (3, "the loss is nan", "step 3: the loss is nan")
    assert str(TrainingFailed(None, "no data")) == "no data"


# where a run was made


HEAVY = """
import sys
from debias_nb.repro.runs.records import environment

environment()
heavy = {"torch", "numpy", "transformers"}
sys.exit(bool(heavy & set(sys.modules)))
"""


def test_the_environment_loads_no_heavy_package():
    assert child(HEAVY).wait(30) == 0


def cpuinfo(*values):
    "What the system says of a processor, as `cpu family`, `model` and `model name`."
    names = ("processor", "cpu family", "model\t", "model name")
    return "".join(f"{name}\t: {value}\n" for name, value in zip(names, values))


@pytest.mark.parametrize("lines, name", [
    (cpuinfo(0, 25, 1, "AMD EPYC") + "\nprocessor\t: 1\nmodel\t\t: 9\n", "AMD EPYC (family 25, model 1)"),
    (cpuinfo(0, 25, 17, "AMD EPYC"), "AMD EPYC (family 25, model 17)"),
    ("processor\t: 0\nBogoMIPS\t: 50.00\n", None),
])
def test_a_processor_is_known_by_more_than_its_name(tmp_path, monkeypatch, lines, name):
    "Processors of two generations have one name in a cloud, and round differently."
    (tmp_path / "cpuinfo").write_text(lines)
    monkeypatch.setattr(records, "CPUINFO", tmp_path / "cpuinfo")
    assert records.processor() == (name or platform.processor() or platform.machine())


def test_git_state_is_of_this_project_alone(tmp_path, monkeypatch):
    nothing = {"commit": None, "dirty": None}
    assert records.git_state(tmp_path) == nothing
    someone = "-c user.name=x -c user.email=x@example.org"
    for step in ("init", f"{someone} commit --allow-empty --no-verify --no-gpg-sign -m first"):
        records.git(tmp_path, *step.split())
    inner = tmp_path / "inner"
    inner.mkdir()
    clean = records.git_state(tmp_path)
    assert len(clean["commit"]) == 40
    assert clean["dirty"] is False
    assert records.git_state(inner) == nothing, "a repository that merely surrounds the project says nothing of it"
    monkeypatch.setenv("GIT_DIR", str(inner))
    assert records.git_state(tmp_path) == clean, "inside a hook"
    monkeypatch.setenv("PATH", "")
    assert records.git_state(tmp_path) == nothing


def test_only_a_change_of_code_makes_the_tree_dirty(tmp_path):
    files = ("debias_nb/a.py", "configs/a.yaml", "expected/a.yaml", "requirements-cpu.lock", "pyproject.toml", "nbs/papers/a.ipynb", "README.md")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    records.git(tmp_path, "init")
    records.git(tmp_path, "add", ".")
    records.git(tmp_path, *"-c user.name=x -c user.email=x@example.org commit --no-verify --no-gpg-sign -m first".split())
    dirty = []
    for name in files:
        (tmp_path / name).write_text("2")
        if records.git_state(tmp_path)["dirty"]:
            dirty.append(name)
        (tmp_path / name).write_text("1")
    assert dirty == list(files[:5]), "a notebook that was opened, or executed, is the same code"


# what is published


def published_file(tmp_path, *further):
    "A store of two runs and others, published."
    store = Store(tmp_path)
    for record in (small(0, replicates={"quora": {"auc": [.1, 1e-7, .33333]}}), small(1), *further):
        append(store.path(CONFIG), record)
    done = store.publish("itvreg", "demo", "small")
    return store, tmp_path / "itvreg/demo.small.parquet", done


def in_further_world(seed):
    run = CONFIG.model_copy(update={
        "corpus": CorpusConfig(name="catalogue", world=WorldConfig(seed=seed)), "eval_world": WorldConfig(seed=seed)})
    questions = {"extra": {"questions": {"iid": [.5]}, "training": {}}, "replicates": {"quora": {"auc": [.1]}}}
    return small(0) | {"id": run.id, "seed": 0, "config": run.model_dump(mode="json")} | questions


def test_what_is_published_is_the_same_to_the_last_digit(tmp_path):
    first, further = in_further_world(0), in_further_world(3)
    failed = failed_record(seeded(9), "the loss is nan\nin two lines", 3)
    store, path, done = published_file(tmp_path, first, further, failed)
    assert [p.name for p in path.parent.iterdir() if p.suffix != ".lock"] == [path.name]
    found = {record["id"]: record for record in store.all()}
    assert found[small_id(0)] == small(0, replicates={"quora": {"auc": [.1, 1e-7, .33333]}})
    assert found[first["id"]] == first and found[failed["id"]] == failed
    assert found[further["id"]] == further | {"replicates": {}, "extra": {"training": {}}}
    assert (done.rows, done.trimmed, done.unsealed, done.replaced, done.left_out) == (5, 1, 0, [], [])
    assert store.find(small_id(1)) == store.find(seeded(1)) == small(1)
    short = {record["id"]: record for record in store.all(short=True)}
    assert short[small_id(1)] == {key: value for key, value in small(1).items() if key not in records.LONG}


def test_lines_are_added_to_what_is_published_and_what_is_no_record_stays(tmp_path):
    store, path, _ = published_file(tmp_path)
    newer = small(1, metrics={"quora": {"auc": .75}})
    store.append(newer)
    line = unsealed(small(2))
    with store.path(CONFIG).open("ab") as file:
        file.write(line + b"<<<<<<<\n")
    done = store.publish("itvreg", "demo", "small")
    assert (done.rows, done.unsealed, done.replaced) == (3, 1, [small_id(1)])
    assert done.left_out[0].startswith(f"{store.path(CONFIG)}: line 3 is left out, and stays: damaged")
    assert store.path(CONFIG).read_bytes() == b"<<<<<<<\n"
    with pytest.warns(UserWarning, match="line 1 is left out"):
        assert {record["id"]: record for record in store.all()}[small_id(1)] == newer
        store.append(small(1, metrics={"quora": {"auc": .25}}))
        assert store.delete(small_id(1)) == 1 and store.find(small_id(1)) == newer, "what is published stays"


def test_a_flipped_byte_never_reads_as_other_or_fewer_records(tmp_path):
    store, path, _ = published_file(tmp_path)
    good = path.read_bytes()
    whole = store.all()
    silent = []
    for place in [*range(0, len(good), 97), *range(len(good) - 300, len(good), 7)]:
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x41]) + good[place + 1:])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = store.records("itvreg", "demo", "small")
        if found != whole:
            assert found == [] and len(said) == 1 and str(said[0].message).startswith(f"{path}: "), place
            with pytest.raises(RecordError, match="nothing is added"):
                store.publish("itvreg", "demo", "small")
            silent.append(place)
    assert len(silent) > 20


def rewritten(path, **columns):
    "The same file with other values, sealed anew."
    import pyarrow as pa
    import pyarrow.parquet as pq
    table = pq.read_table(path)
    about = json.loads(table.schema.metadata[b"debias-nb"])
    for name, change in columns.items():
        values = [change(n, value) for n, value in enumerate(table[name].to_pylist(), 1)]
        about["columns"][name] = records._seal(values)
        table = table.set_column(table.column_names.index(name), name, pa.array(values, table[name].type))
    pq.write_table(table.replace_schema_metadata({"debias-nb": json.dumps(about)}), path)


@pytest.mark.parametrize("column, value, says", [
    ("metrics", '{"quora": {"auc": 1' + 400 * "0" + "}}", "row 2: metrics.quora.auc: Input should be a finite number"),
    ("metrics", '{"quora": null}', "row 2: metrics.quora: Input should be an object"),
    ("replicates", '"x"', "row 2: replicates: Input should be an object"),
    ("config", "{", "row 2: Invalid JSON"),
    ("environment", "[1]", "row 2: environment: Input should be an object"),
])
def test_a_row_that_is_no_record_is_named_and_the_others_are_read(tmp_path, column, value, says):
    store, path, _ = published_file(tmp_path)
    first, _ = store.all()
    rewritten(path, **{column: lambda n, old: value if n == 2 else old})
    with pytest.warns(UserWarning) as said:
        assert store.all() == [first]
    assert str(said[0].message).startswith(f"{path}: {says}"), str(said[0].message)


def test_another_schema_and_no_parquet_are_named(tmp_path):
    import pyarrow.parquet as pq
    store, path, _ = published_file(tmp_path)
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["curve"]), path)
    with pytest.warns(UserWarning, match="demo.small.parquet: another schema: curve"):
        assert store.all() == []
    path.write_bytes(b"PAR1")
    with pytest.warns(UserWarning, match="demo.small.parquet: damaged, or no published records"):
        assert store.all() == []


@pytest.mark.parametrize("paper", ["arr", "itvreg", "scan"])
def test_every_published_record_is_the_record_of_its_run(paper):
    "Reading checks the form of what it reads; here every record is held to the whole schema."
    store = Store(Path(__file__).parents[1] / "results")
    assert store.unpublished() == [], "lines of results/ go into its Parquet files: debias-nb convert"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for place in store.places():
            if place[0] == paper:
                found = store.records(*place)
                assert found and all(map(records.Record.model_validate, found))
                assert len({record["id"] for record in found}) == len(found)
