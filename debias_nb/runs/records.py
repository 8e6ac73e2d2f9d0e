"""One finished run is one record; a number in a report is traceable to one.

While runs are made a record is a file of JSON, `<experiment>.<profile>/<id>.json`; that of a run that failed is called
`<id>.failed.json`. A file is whole or not there, and a newer record of a run takes the older one's place. What is
published is a Parquet file beside the folder, one row per run. Its pages have checksums, and only what is needed is
read. Wherever a record comes from, `understood` says whether it is one: what does not fit is neither written nor read,
but named with file, row and field, and stays where it is. Of runs in further worlds the Parquet file leaves out
replicates and single values: a comparison over worlds takes each world as one value. A reader takes both, and the
finished record of a run counts, that of the folder first; a failure counts where none finished.

The commit in a record is that of the code when the run began, and `dirty` tells whether this was changed then; outputs
of a notebook are none of it. Two repeats of a run on one machine are equal except for times, memory and machine:
`comparable`.
"""
import hashlib
import json
import re
import warnings
from collections.abc import Iterable
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

from filelock import FileLock, Timeout

from ..files import once_per_state, project_root, sha256_file
from .config import RunConfig, place_of
from .origin import Start
from .parquet import published, record_rows, write, write_published
from .schema import CHECKSUM, RECORD_SCHEMA, Entry, Misfit, RecordError, Records, encode, entry_of, read_file


HASHES = "sha256.txt" # of published files, as `sha256sum --check` reads it
HASH_LINE = re.compile(rb"(?P<digest>[0-9a-f]{64})  (?P<name>[\w./-]+)", re.ASCII)


class WorkerLost(RuntimeError):
    "Error of a worker process that was ended from outside. Finished runs are kept."


class TrainingFailed(RuntimeError):
    "Error of a training run that cannot go on, at `step` (None: before the first) for `reason`."
    def __init__(self, step: int | None, reason: str):
        super().__init__(step, reason)
        self.step = step
        self.reason = reason

    def __str__(self):
        return self.reason if self.step is None else f"step {self.step}: {self.reason}"


def _make_record(config: RunConfig, status: str, start: Start, own: dict) -> dict:
    "Return a record with what its kind has of its own, as it will be read back; the run ends now."
    return json.loads(json.dumps({
        "schema": RECORD_SCHEMA,
        "id": config.id,
        "status": status,
        "config": config.as_recorded().model_dump(mode="json", exclude_defaults=False),
        "seed": config.seed,
        "started": start.time.isoformat(timespec="seconds"),
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seconds": round(start.seconds, 3),
        "environment": start.environment,
        **own,
    }, default=lambda array: array.tolist()))


def make_record(
    config: RunConfig,
    metrics: dict,                   # evaluation set -> metric -> float
    *,
    start: Start,
    data: dict,                      # name of a data set -> its fingerprints and counts
    encoder: dict,                   # name, fingerprint, ... of the base encoder
    device: str,                     # `cpu`, or the accelerator's name
    dtype: str,                      # `fp32`, `bf16` or `fp64`
    peak_memory: int,                # bytes
    curve: dict | list,              # what was logged during training
    replicates: dict | None = None,  # evaluation set -> metric -> bootstrap replicates, kept with 5 significant digits
    extra: dict | None = None,       # whatever else, under the key `extra`
) -> dict: # as it will be read back
    "Return the record of a finished run. It is validated when it is written."
    short_replicates = {}
    for test, by_metric in (replicates or {}).items(): # there are thousands, and they only serve intervals
        short_replicates[test] = {
            metric: [None if value is None else float(f"{value:.5g}") for value in values]
            for metric, values in by_metric.items()}
    return _make_record(config, "finished", start, {
        "metrics": metrics, "replicates": short_replicates, "data": data, "encoder": encoder, "curve": curve,
        "device": device, "dtype": dtype, "peak_memory_bytes": peak_memory, "extra": extra or {}})


def failed_record(
    config: RunConfig,
    start: Start,
    error: str,              # what went wrong
    step: int | None = None, # at which training step
) -> dict: # as it will be read back
    "Return the record of a run that failed: no metrics, but `error` and `step`."
    return _make_record(config, "failed", start, {"error": error, "step": step, "metrics": {}, "extra": {}})


def latest(
    records: Iterable[dict], # in the order they were written
) -> Records: # id -> record
    "Return the newest finished record of every run, or its newest failure if it never finished."
    newest = {}
    for record in records:
        if record["status"] == "finished" or newest.get(record["id"], record)["status"] == "failed":
            newest[record["id"]] = record
    return newest


def records_among(entries: Iterable[Entry]) -> list[dict]:
    "Return the records among entries; warn of what is none."
    records = []
    for entry in entries:
        if entry.record:
            records.append(entry.record)
        else:
            warnings.warn(f"{entry.where} is left out: {entry.why}", stacklevel=3)
    return records


@once_per_state
def by_id(path: Path) -> Records:
    "Read what a published file says of each run."
    return latest(records_among(record_rows(path)))


class Store:
    """Folder of records.

    Those of an experiment at a profile have a place, `itvreg/table03.small`: `<place>.parquet` is what is published,
    and the folder `<place>` next to it has a file for each run that was made since.
    """
    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def path(self, run: RunConfig) -> Path:
        "Return the path of a finished run's file."
        return self.folder / run.place / f"{run.id}.json"

    def _parquet(self, place: str) -> Path:
        return self.folder / f"{place}.parquet"

    def file(self, record: dict) -> Path:
        "Return the path of a record's file."
        config = record["config"]
        ending = ".json" if record["status"] == "finished" else ".failed.json"
        place = place_of(f"{config['paper']}/{config['experiment']}")
        return self.folder / f"{place}.{config['profile']}" / (record["id"] + ending)

    def places(self) -> list[str]:
        "List the experiments that there are records of. Warn of a file that is called otherwise."
        paths = {path.parent for path in self.folder.glob("**/*.*/*.json")}
        paths |= {path.with_suffix("") for path in self.folder.glob("**/*.parquet")}
        places = []
        for path in sorted(paths):
            if path.name.count(".") == 1:
                places.append(path.relative_to(self.folder).as_posix())
            else:
                warnings.warn(f"{path} is not called <experiment>.<profile>; it is left out", stacklevel=2)
        return places

    def unpublished(self) -> list[str]: # places
        "List the experiments that there are files of runs of."
        return [place for place in self.places() if any((self.folder / place).glob("*.json"))]

    def hashes(self) -> dict[str, str]: # published file, from the folder on -> sha256 when it was published
        "Read `sha256.txt`. Raise `RecordError` naming the line that is damaged."
        path = self.folder / HASHES
        content = path.read_bytes() if path.is_file() else b""
        hashes = {}
        for number, line in enumerate(content.splitlines(), 1):
            match = HASH_LINE.fullmatch(line)
            if not match or match["name"].decode() in hashes:
                raise RecordError(f"{path}:{number}: a sha256 and the name of a file are expected, each name once")
            hashes[match["name"].decode()] = match["digest"].decode()
        return hashes

    def altered_files(self) -> list[str]:
        "Describe published files that have changed since they were published."
        hashes = self.hashes()
        files = filter(Path.is_file, self.folder.glob("**/*.parquet"))
        present = {path.relative_to(self.folder).as_posix(): sha256_file(path) for path in files}
        odd = sorted(name for name in hashes | present if hashes.get(name) != present.get(name))
        return [f"{self.folder / name}: not the file that was published, whose hash stands in {HASHES}" for name in odd]

    def _read(self, path: Path) -> dict:
        "Read the record of a file, which is named as its run is. Raise `Misfit`, `OSError`."
        record = read_file(path)
        if self.file(record) != path:
            raise Misfit(f"the record in it belongs into {self.file(record)}")
        return record

    def added_entries(self, place: str) -> list[Entry]: # by id
        "Read the files of runs."
        entries = []
        for path in sorted((self.folder / place).glob("*.json")):
            with suppress(FileNotFoundError): # published meanwhile
                entries.append(entry_of(path, self._read, path))
        return entries

    def records(self, place: str) -> list[dict]:
        "Return all records of an experiment at a profile, published ones first; warn of what is none."
        entries = self.added_entries(place) # first: see `publish`
        return records_among([*record_rows(self._parquet(place)), *entries])

    def all(self) -> list[dict]:
        "Return all records of the folder, experiment by experiment."
        return [record for place in self.places() for record in self.records(place)]

    def find(self, run: RunConfig) -> dict | None:
        "Return the finished record of a run."
        path = self.path(run)
        records = records_among([entry_of(path, self._read, path)]) if path.is_file() else []
        record = records[0] if records else by_id(self._parquet(run.place)).get(run.id)
        return record if record and record["status"] == "finished" else None

    @contextmanager
    def claimed(
        self,
        name: str,          # of a run, or of a file
        wait: bool = False, # until the other process is done
    ): # yields whether it is this process's
        """Claim a run, one at a time, so that two batches share the work.

        The claim ends with the block, or the process. Where no claim can be had at all, as in a folder that may not be
        written to, the run is taken as claimed.
        """
        claims = self.folder / ".claims"
        lock = FileLock(claims / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock", timeout=-1 if wait else 0)
        is_mine = True
        try:
            claims.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            is_mine = False
        except OSError: # no claim can be had
            pass
        try:
            yield is_mine
        finally:
            lock.release()

    def append(self, record: dict) -> dict: # the same
        """Write the file of a record's run, whole or not at all.

        Raise `Misfit` naming the field of what is no record, and `RecordError` naming the file and the cause.
        """
        content = encode(record)
        write(self.file(record), content)
        return record

    def publish(
        self,
        place: str,
        resamples: int | None = None, # of each test that are published; None: all
    ) -> tuple[int, list[str]]: # rows of the Parquet file; sentences on files that hold no records
        """Put the files of an experiment's runs into its Parquet file; files that hold no records stay.

        A reader meanwhile finds a record in one place or in both. Raise `RecordError` for a damaged Parquet file.
        """
        path = self._parquet(place)
        with self.claimed(place, wait=True):
            published_rows = record_rows(path)
            for entry in published_rows:
                if entry.why:
                    raise RecordError(f"{entry.where}: {entry.why}; nothing is added to it")
            entries = self.added_entries(place)
            rows = latest(entry.record for entry in published_rows + entries if entry.record)
            if rows:
                write_published(path, [published(record, resamples) for record in rows.values()])
            for entry in entries:
                file = Path(entry.where)
                if entry.record and read_file(file) == entry.record: # else a newer one was written meanwhile
                    file.unlink()
        with suppress(OSError): # something is left in it
            (self.folder / place).rmdir()
        if rows:
            with self.claimed(HASHES, wait=True):
                hashes = self.hashes() | {f"{place}.parquet": sha256_file(path)}
                lines = [f"{digest}  {name}\n" for name, digest in sorted(hashes.items())]
                write(self.folder / HASHES, "".join(lines).encode())
        return len(rows), [f"{entry.where} is left out, and stays: {entry.why}" for entry in entries if entry.why]


# The id stands for the configuration, of which older records say more.
VOLATILE = frozenset({"config", "started", "finished", "seconds", "peak_memory_bytes", "environment", "device",
                      CHECKSUM})


def comparable(
    record: dict, # or any part of one
) -> dict: # without the keys in `VOLATILE`, at any depth
    "Return what two honest repeats of a run have in common."
    if isinstance(record, dict):
        return {k: comparable(v) for k, v in record.items() if k not in VOLATILE}
    if isinstance(record, list):
        return [comparable(v) for v in record]
    return record


def committed_store(root: Path | None = None) -> Store: # root: of the clone; None: the project's
    "Return the store of the records that are committed, `experiments/`."
    return Store((root or project_root()) / "experiments")
