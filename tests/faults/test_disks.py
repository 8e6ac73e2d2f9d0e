"""Disks without room, folders that may not be written to, and clocks that go backwards.

A process of its own mounts file systems for itself alone: a small one in memory, or a folder that is bound read-only,
which holds for root too."""
import os
import random
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from debias_nb.repro.runs import records
from debias_nb.repro.runs.records import RecordError, append, comparable, encode, latest, read
from harness import (
    QUICK, Child, command, lines_of, make_project, own_mounts, read_only, records_of, small_disk, store_of,
)

from made import numbered

PAGE = os.sysconf("SC_PAGE_SIZE")
LARGE = 1 << 26
BATCH = ["batch", "--profile", "planted", "--runs", "--workers", "1"]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    "What a batch on a disk with room gives, and the cache of its encoder."
    folder = tmp_path_factory.mktemp("reference")
    project = make_project(folder / "project")
    child = Child(command, project, folder / "cache", BATCH, said=folder / "said")
    assert child.end() == 0, child.text
    return folder / "cache", records_of(project)


@pytest.fixture
def apart(tmp_path):
    "Run a function in a process with mounts of its own; it fails where the function fails."
    def run(function, *args):
        child = Child(_mounted, function, args, said=tmp_path / "said")
        code = child.end()
        if code == SKIPPED:
            pytest.skip(f"no file system can be mounted here: {child.text.strip()}")
        assert code == 0, child.text
    return run


SKIPPED = 77


def _mounted(function, args):
    try:
        own_mounts()
    except OSError as e:
        print(e)
        raise SystemExit(SKIPPED) from None
    function(*args)


def said_by(project: Path, cache: Path, args) -> tuple[int, str]:
    "A command in a process of its own, which sees the same file systems."
    child = Child(command, project, cache, args, said=Path(f"/tmp/said-{os.getpid()}-{time.monotonic_ns()}"))
    code = child.end()
    text = child.text
    child.said.unlink()
    return code, text


def full(folder: Path, left: int) -> None: # left: bytes, in whole pages
    "A disk with as much room as is said."
    folder.mkdir(parents=True, exist_ok=True)
    small_disk(folder, max(left, PAGE))


# disks without room

def records_on_a_small_disk(project, cache, size, expected):
    full(project / "_runs", size)
    code, text = said_by(project, cache, BATCH)
    kept = lines_of(project)
    assert code == 2 and "Traceback" not in text and "could not be written: " in text, text
    assert "demo.planted.jsonl" in text and " is kept in " in text
    assert all(line.endswith(b"\n") for line in kept) and len(kept) < len(expected)
    small_disk(project / "_runs", LARGE)
    code, text = said_by(project, cache, BATCH)
    assert code == 0 and lines_of(project)[:len(kept)] == kept and records_of(project) == expected, text


@pytest.mark.parametrize("seed", range(4))
def test_records(seed, reference, apart, tally, tmp_path):
    "At a random record."
    with tally.trial("disk full"):
        cache, expected = reference
        size = random.Random(600 + seed).randrange(1, 10) * PAGE
        apart(records_on_a_small_disk, make_project(tmp_path / "project"), cache, size, expected)


def encoder_on_a_small_disk(cache, size):
    from debias_nb.encoders.planted import planted_encoder
    from debias_nb.encoders.tokens import EncoderError
    full(cache, size)
    try:
        planted_encoder(QUICK, cache)
    except EncoderError as e:
        assert "No space left" in str(e) and str(cache) in str(e), e
    else:
        raise AssertionError("there was room")
    assert not [path for path in cache.iterdir() if path.is_dir()], "nothing half-made is left"
    small_disk(cache, LARGE)
    planted_encoder(QUICK, cache)


@pytest.mark.parametrize("pages", [2, 6])
def test_a_kept_encoder(pages, apart, tally, tmp_path):
    with tally.trial("disk full"):
        apart(encoder_on_a_small_disk, tmp_path / "cache", pages * PAGE)


def download_on_a_small_disk(folder):
    import threading
    import http.server
    import test_downloads
    from debias_nb.data import registry as r
    os.environ["DEBIAS_NB_CACHE"] = str(folder)
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    os.environ.pop("DEBIAS_NB_DATA", None)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), test_downloads.Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    registry = test_downloads.registry_of(f"http://127.0.0.1:{server.server_port}")
    full(folder, 2 * PAGE)
    try:
        r.locate("demo", "a.tsv", registry=registry)
    except r.MissingData as e:
        assert "No space left" in str(e) and "a.tsv" in str(e), e
    else:
        raise AssertionError("there was room")
    assert not (folder / "data/demo/a.tsv").exists()
    small_disk(folder, LARGE)
    assert r.locate("demo", "a.tsv", registry=registry).read_bytes() == test_downloads.GOOD


def test_a_download(apart, tally, tmp_path):
    with tally.trial("disk full"):
        apart(download_on_a_small_disk, tmp_path / "cache")


def notebook_on_a_small_disk(project, cache, expected):
    full(project / "_runs/notebooks", PAGE)
    (project / "_runs/notebooks/filler").write_bytes(b"x" * PAGE)
    code, text = said_by(project, cache, ["run", "itvreg/demo", "--seeds", "0"])
    assert code == 2 and "Traceback" not in text and "No space left" in text, text
    small_disk(project / "_runs/notebooks", LARGE)
    _, text = said_by(project, cache, ["run", "itvreg/demo", "--seeds", "0"])
    assert "executed: _runs/notebooks/itvreg/demo.planted.seeds=0.ipynb" in text and "Traceback" not in text, text


def test_an_executed_notebook(reference, apart, tally, tmp_path):
    with tally.trial("disk full"):
        apart(notebook_on_a_small_disk, make_project(tmp_path / "project"), *reference)


def addition_on_a_small_disk(folder):
    full(folder, 4 * PAGE)
    path = folder / "demo.planted.jsonl"
    length = len(encode(numbered(0)))
    path.write_bytes(b"".join(encode(numbered(i)) for i in range(4 * PAGE // length)))
    before = path.read_bytes()
    record = numbered(1000)
    try:
        append(path, record)
    except RecordError as e:
        assert f"the record {record['id']} could not be written: No space left on device; it is kept in " in str(e), e
    else:
        raise AssertionError("there was room")
    assert path.read_bytes() == before
    assert sorted(file.suffix for file in folder.iterdir()) == [".jsonl", ".lock"]
    small_disk(folder, LARGE)
    append(path, record)
    assert path.read_bytes().startswith(before) and read(path)[-1] == record


def test_an_addition(apart, tally, tmp_path):
    with tally.trial("disk full"):
        apart(addition_on_a_small_disk, tmp_path / "store")


def write_pairs(path: Path) -> Path:
    rows = [f"red lamp {i},lamp {i} {'red' if i % 2 else 'blue'},{i % 2}\n" for i in range(200)]
    path.write_text("left,right,label\n" + "".join(rows))
    return path


def comparing(model, pairs, out) -> list: # arguments of the command line
    trained = ["--methods", "base,plain", "--seeds", "2", "--epochs", "1"]
    return ["compare", "--base", model, "--train", pairs, "--test", f"t={pairs}", *trained, "--out", out]


def comparison_on_a_small_disk(folder, model):
    pairs = write_pairs(folder / "a.csv")
    out = folder / "out"
    args = comparing(model, pairs, out)
    full(out, PAGE)
    (out / "filler").write_bytes(b"x" * PAGE)
    code, text = said_by(folder, folder / "cache", args)
    assert code == 2 and "trials.jsonl: not written: No space left on device" in text and "Traceback" not in text, text
    small_disk(out, LARGE)
    code, text = said_by(folder, folder / "cache", args)
    assert code == 0 and (out / "report.html").is_file(), text


def test_a_comparison(apart, tally, tmp_path):
    from made import table
    with tally.trial("disk full"):
        apart(comparison_on_a_small_disk, tmp_path, table(tmp_path))


# folders that may not be written to

def read_only_records(project, cache, expected):
    code, text = said_by(project, cache, BATCH)
    assert code == 0, text
    path = project / "_runs/itvreg/demo.planted.jsonl"
    lines = lines_of(project)
    path.write_bytes(b"".join(lines[:-1]))
    read_only(project / "_runs")
    assert len(records_of(project)) == len(lines) - 1, "what is there is read"
    code, text = said_by(project, cache, BATCH)
    assert code == 2 and "Read-only file system" in text and "Traceback" not in text, text
    assert "demo.planted.jsonl: the record" in text and " is kept in " in text, text
    assert lines_of(project) == lines[:-1]


def read_only_cache(cache):
    from debias_nb.encoders.planted import planted_encoder
    from debias_nb.encoders.tokens import EncoderError
    planted_encoder(QUICK, cache)
    read_only(cache)
    planted_encoder(QUICK, cache) # what is kept is read
    try:
        planted_encoder(QUICK.model_copy(update={"max_length": 8}), cache)
    except EncoderError as e:
        assert "Read-only file system" in str(e) and str(cache) in str(e), e
    else:
        raise AssertionError("it could be written to")


def test_a_project_that_is_read_only(reference, apart, tally, tmp_path):
    with tally.trial("read-only folder"):
        apart(read_only_records, make_project(tmp_path / "project"), *reference)


def test_a_cache_that_is_read_only(apart, tally, tmp_path):
    with tally.trial("read-only folder"):
        (tmp_path / "cache").mkdir()
        apart(read_only_cache, tmp_path / "cache")


# clocks that go backwards

class Backwards(datetime):
    "A clock that loses an hour at every look."
    looks = 0

    @classmethod
    def now(cls, tz=None):
        Backwards.looks += 1
        return datetime.now(tz) - timedelta(hours=Backwards.looks)


def set_back():
    "Every look at the time of day is an hour before the one before."
    records.datetime = Backwards
    real, looks = time.time, []

    def earlier():
        looks.append(1)
        return real() - 3600 * len(looks)

    time.time = earlier


def test_a_run_that_is_made_again(reference, tally, tmp_path):
    "The newest record is the one that was written last, whatever its time says."
    with tally.trial("clock set back"):
        cache, expected = reference
        project = make_project(tmp_path / "project")
        for before in (None, set_back):
            child = Child(command, project, cache, [*BATCH, "--fresh"], before, said=tmp_path / "said")
            assert child.end() == 0, child.text
        found = latest(store_of(project).all())
        assert {run_id: comparable(record) for run_id, record in found.items()} == expected
        half_an_hour_ago = datetime.now(timezone.utc) - timedelta(minutes=30)
        for record in found.values():
            assert datetime.fromisoformat(record["finished"]) < half_an_hour_ago, "that of the second batch"
            assert 0 < record["seconds"] < 3600 and record["started"] <= record["finished"]
