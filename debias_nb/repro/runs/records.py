"""One finished run is one record; a number in a report is traceable to one.

While runs are made a record is a line of JSON with its checksum, in `<experiment>.<profile>.jsonl`, added under a lock.
A record that finds no place on the disk is kept in the folder for temporary files. What is published is a Parquet file
next to it, a row a run, of whose columns each has its checksum, and that alone is read which is needed. Wherever a record
comes from, `RECORD` says whether it is one: what does not fit is neither written nor read, but named with file, line or
row, and field, and stays where it is. Of runs in further worlds it leaves out replicates and single values: a comparison over worlds takes each world
as one value. A reader takes both files, and the newest finished record of a run counts, a failure where none finished.

The commit in a record is that of the code that ran, and `dirty` tells whether this was changed since; outputs of a
notebook are none of it. Two repeats of a run on one machine are equal except for times, memory and machine: `comparable`.
"""
import fcntl
import functools
import gc
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import reprlib
import subprocess
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Literal

from filelock import FileLock
from pydantic import (
    BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError, field_validator, model_validator,
)

from ...checks import ConfigError
from ...files import each_key_once, once_per_state, package_file, project_root
from ..config import RunConfig


class RecordError(RuntimeError):
    "A record that cannot be written or read; the message names the file, the line or the key."


class Misfit(RecordError):
    "What is no record; the message names the field."


class WorkerLost(RuntimeError):
    "A worker process that was ended from outside. What had finished is kept."


class TrainingFailed(RuntimeError):
    "A training run that cannot go on, at `step` (None: before the first) for `reason`."
    def __init__(self, step: int | None, reason: str):
        super().__init__(step, reason)
        self.step = step
        self.reason = reason

    def __str__(self):
        return self.reason if self.step is None else f"step {self.step}: {self.reason}"


PACKAGES = (
    "torch", "transformers", "sentence-transformers", "tokenizers", "numpy",
    "scipy", "scikit-learn", "datasets", "accelerate", "debias-nb",
)
GIT_VARIABLES = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"} # a git hook sets them, and they point elsewhere
# What runs: outputs and metadata of notebooks are none of it, nor what a finished run changes.
CODE = ("debias_nb", "configs", "expected", "pyproject.toml", "constraints.txt", ":(glob)requirements*.lock")


def git(root: Path, *args: str) -> str:
    "What git says in a folder, even inside a git hook. Raises `OSError` or `SubprocessError` where it fails."
    command = ["git", "--no-optional-locks", "-C", str(root), *args]
    outside = {name: os.environ[name] for name in os.environ.keys() - GIT_VARIABLES}
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, env=outside)
    return done.stdout.strip()


def bundled() -> dict: # {} where this code is no bundle
    "What `tools/bundle.py` has written of the checkout that this is. Raises `ConfigError` where it is damaged."
    path = package_file(".").parent / "bundle.json"
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as e:
        raise ConfigError(f"{path}: damaged ({e}); unpack the bundle again") from None


def git_state(
    root: str | Path | None = None, # the top of a git work tree; default: the project that this code lies in
) -> dict: # commit: 40 hex digits; dirty: whether the code was changed since; both None where nobody knows
    """The state of the project's code, `CODE`: what git says, else the bundle that it came in. Raises `ConfigError` as
    `bundled` does."""
    with suppress(OSError, subprocess.SubprocessError, ConfigError):
        root = Path(root or project_root(package_file(".")))
        if Path(git(root, "rev-parse", "--show-toplevel")).samefile(root):
            changes = git(root, "status", "--porcelain", "--", *CODE)
            return {"commit": git(root, "rev-parse", "HEAD"), "dirty": changes != ""}
    about = bundled()
    return {"commit": about.get("commit"), "dirty": about.get("dirty")}


def history(root: Path) -> frozenset[str] | None: # None: nobody knows
    "The commits that the clone at `root` goes back to; a shallow one does not know them, nor does a folder without git."
    with suppress(OSError, subprocess.SubprocessError):
        is_whole = git(root, "rev-parse", "--is-shallow-repository") == "false"
        if is_whole and Path(git(root, "rev-parse", "--show-toplevel")).samefile(root):
            return frozenset(git(root, "rev-list", "HEAD").split())
    return None


NO_HISTORY = "no git here, or not the whole history: whether records are of code in the history cannot be said"

CPUINFO = Path("/proc/cpuinfo") # Linux has it


def processor() -> str: # "AMD EPYC (family 25, model 1)"
    "Name, family and model of the processor. Cloud machines of several generations share one name."
    with suppress(OSError):
        first = CPUINFO.read_text().partition("\n\n")[0] # one part for each core, all alike
        parts = [line.partition(":") for line in first.splitlines()]
        facts = {key.strip(): value.strip() for key, _, value in parts}
        if "model name" in facts:
            return f"{facts['model name']} (family {facts.get('cpu family')}, model {facts.get('model')})"
    return platform.processor() or platform.machine()


def environment() -> dict: # python, packages (name -> version), commit, dirty, platform, cpu, cores
    "What a run was made with. Imports none of the packages it names."
    versions = {}
    for package in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {
        "python": platform.python_version(), "packages": versions, **git_state(), "platform": platform.platform(),
        "cpu": processor(), "cores": os.cpu_count()}


def this_machine() -> dict: # device: `cpu` or the accelerator's name; peak_memory: bytes, of that device, so far
    "Where a run was made, as `make_record` wants it."
    import resource
    import sys
    import torch
    if torch.cuda.is_available():
        return {"device": torch.cuda.get_device_name(), "peak_memory": torch.cuda.max_memory_allocated()}
    unit = 1 if sys.platform == "darwin" else 1024
    return {"device": "cpu", "peak_memory": unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}


SCHEMA = 1
Records = dict[str, dict] # id -> record
COMMIT = r"^[0-9a-f]{40}$"
# Metrics that are fractions; a part of the test items may stand behind the name in brackets.
FRACTION = re.compile(
    r"(overlap )?auc\d*|ap|map|mrr|r8|p\d+|psp\d+|ndcg\d+(_exp)?|.* importance|.* share|topic chance|leakage .*"
    r"|misled|excluded|seen words")

Whole = Annotated[int, Field(ge=-2**63, lt=2**63)] # what a column of a Parquet file holds
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)] # whole ones too; none that is too large for a float
Metrics = dict[str, dict[str, Number | None]]      # evaluation set -> metric -> value; None: could not be computed
Replicates = dict[str, dict[str, list[Number | None]]] # evaluation set -> metric -> values of the bootstrap
Details = dict[str, JsonValue]


class Environment(BaseModel):
    "What a run was made with, and what of it pages ask for."
    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: Details
    commit: Annotated[str, Field(pattern=COMMIT)] | None # None: nobody knows
    dirty: bool | None
    cpu: str | None = None
    packages: dict[str, str] = {}


PARTS = {name: TypeAdapter(field.annotation) for name, field in RunConfig.model_fields.items() if name in (
    "encoder", "method", "corpus", "training", "eval_world", "eval_corpus")}


@functools.lru_cache(maxsize=4096)
def _part(name: str, text: str): # text: JSON
    "A part of a configuration, which many runs share: understood once."
    return PARTS[name].validate_python(json.loads(text))


class Run(BaseModel):
    "What records of finished and of failed runs have in common."
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    schema_version: Annotated[Literal[1], Field(alias="schema")]
    id: str
    config: RunConfig
    seed: Whole
    started: str
    finished: str
    seconds: Annotated[Number, Field(ge=0)]
    environment: Environment
    metrics: Metrics
    extra: Details

    @field_validator("config", mode="before")
    @classmethod
    def _by_its_parts(cls, said):
        if isinstance(said, dict):
            with suppress(ValidationError): # told with its place where the whole is understood
                return said | {name: _part(name, json.dumps(said[name])) for name in PARTS if said.get(name)}
        return said

    @field_validator("metrics")
    @classmethod
    def _in_range(cls, metrics):
        for test, values in metrics.items():
            for name, value in values.items():
                is_fraction = FRACTION.fullmatch(name.partition("[")[0])
                if is_fraction and value is not None and not 0 <= value <= 1:
                    raise ValueError(f"{test}: {name} is {value:g}, and a fraction lies between 0 and 1")
        return metrics

    @model_validator(mode="after")
    def _is_of_its_run(self):
        "Raises `ValueError` for the id or the seed of another run."
        if self.id != self.config.id:
            raise ValueError(f"its configuration is that of {self.config.id}, and its id is {self.id}")
        if self.seed != self.config.seed:
            raise ValueError(f"seed: {self.seed}, and that of its configuration is {self.config.seed}")
        return self


class Finished(Run):
    status: Literal["finished"]
    replicates: Replicates
    data: Details
    encoder: Details
    curve: Details | list[JsonValue]
    device: str
    dtype: Literal["fp32", "bf16", "fp64"]
    peak_memory_bytes: Annotated[Whole, Field(ge=0)]


class Failed(Run):
    status: Literal["failed"]
    error: str
    step: Whole | None


# The setting holds for JSON values, which the two kinds share.
RECORD = TypeAdapter(
    Annotated[Finished | Failed, Field(discriminator="status")], config=ConfigDict(allow_inf_nan=False))
UNSAID = {"dict", "list", "float"} # kinds of JSON, which pydantic names in the places of mistakes


def in_words(error: ValidationError) -> str:
    "What is wrong first, beginning with the field; a long value is not shown in full."
    mistake = error.errors(include_url=False)[0]
    loc = mistake["loc"]
    if loc[:1] in (("finished",), ("failed",)): # which of the two kinds of records
        loc = loc[1:]
    place = ".".join(str(part) for part in loc if part not in UNSAID)
    why = mistake["msg"].removeprefix("Value error, ")
    if mistake["type"] == "missing":
        why = "required, and not there"
    elif not isinstance(mistake["input"], dict):
        why += f", got {reprlib.repr(mistake['input'])}"
    return f"{place}: {why}" if place else why


def _as_json(value) -> bytes:
    "UTF-8 without a newline; a lone surrogate survives as the escape of itself."
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _checksum(body: bytes) -> str: # 16 hex digits
    return hashlib.sha256(body).hexdigest()[:16]


def encode(
    record: dict, # as JSON gives it
) -> bytes: # UTF-8, exactly one newline, at the end
    "The line that stands for a record, with its checksum as the last key. Raises `Misfit` for what is no record."
    try:
        RECORD.validate_python(record)
    except ValidationError as e:
        raise Misfit(f"no record: {in_words(e)}") from None
    body = _as_json(record)
    return body[:-1] + f', "checksum": "{_checksum(body)}"}}\n'.encode()


@dataclass
class Line:
    "A line or a row of a file, as it was understood."
    record: dict | None = None # None: it holds none that can be trusted
    why: str = ""              # the reason for that, with the field


@functools.lru_cache(maxsize=4096) # a file that has grown by a line costs one line to read again
def understood(line: bytes) -> Line: # not to be changed
    "What a line says. A checksum must be that of the content, however the line is spelled."
    try:
        found = json.loads(line.decode("utf-8"), object_pairs_hook=each_key_once)
        checksum = found.pop("checksum", None) if isinstance(found, dict) else None
        RECORD.validate_python(found)
        if checksum != _checksum(_as_json(found)):
            return Line(why="checksum: it is not that of the content" if checksum else "checksum: it has none")
        return Line(found)
    except ValidationError as e:
        return Line(why=in_words(e))
    except (RecursionError, ValueError) as e:
        return Line(why=f"damaged ({e})")


def _made(config: RunConfig, status: str, seconds: float, own: dict) -> dict:
    "A record with what its kind has of its own, as it will be read back; the run ends now."
    finished = datetime.now(timezone.utc)
    started = finished - timedelta(seconds=seconds)
    return json.loads(json.dumps({
        "schema": SCHEMA,
        "id": config.id,
        "status": status,
        "config": config.model_dump(mode="json", exclude_defaults=False),
        "seed": config.seed,
        "started": started.isoformat(timespec="seconds"),
        "finished": finished.isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "environment": environment(),
        **own,
    }, default=lambda array: array.tolist()))


def make_record(
    config: RunConfig,
    metrics: dict,                   # evaluation set -> metric -> float
    *,
    data: dict,                      # name of a data set -> its fingerprints and counts
    encoder: dict,                   # name, fingerprint, ... of the base encoder
    device: str,                     # `cpu`, or the accelerator's name
    dtype: str,                      # `fp32`, `bf16` or `fp64`
    seconds: float,                  # wall time of the run, which ends now
    peak_memory: int,                # bytes
    curve: dict | list,              # what was logged during training
    replicates: dict | None = None,  # evaluation set -> metric -> bootstrap replicates, kept with 5 significant digits
    extra: dict | None = None,       # whatever else, under the key `extra`
) -> dict: # as it will be read back
    "The record of a finished run. Whether it fits is asked when it is written."
    kept = {}
    for test, own in (replicates or {}).items(): # there are thousands, and they only serve intervals
        kept[test] = {
            metric: [None if value is None else float(f"{value:.5g}") for value in values] for metric, values in own.items()}
    return _made(config, "finished", seconds, {
        "metrics": metrics, "replicates": kept, "data": data, "encoder": encoder, "curve": curve, "device": device,
        "dtype": dtype, "peak_memory_bytes": peak_memory, "extra": extra or {}})


def failed_record(
    config: RunConfig,
    error: str,                 # what went wrong
    step: int | None = None,    # at which training step
    *,
    seconds: float = 0.,        # wall time until then
) -> dict: # as it will be read back
    "The record of a run that failed: no metrics, but `error` and `step`."
    return _made(config, "failed", seconds, {"error": error, "step": step, "metrics": {}, "extra": {}})


LOCK_SECONDS = 60 # a writer needs milliseconds; whoever waits longer waits for a process that hangs


def _lock(path: Path) -> FileLock:
    "Writers take turns; those that reach a file through a link, too."
    return FileLock(f"{os.path.realpath(path)}.lock", timeout=LOCK_SECONDS, poll_interval=.005)


def _replace(path: Path, content: bytes) -> None:
    "Writes a new file, which then takes the old one's place. Raises `RecordError`; the old one stays."
    path = Path(os.path.realpath(path)) # a link stays a link
    new = path.with_name(f"{path.name}.new")
    try:
        with new.open("wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        os.replace(new, path)
    except OSError as e:
        raise RecordError(f"{path} could not be written: {e.strerror or e}; what was there stays") from e
    finally:
        new.unlink(missing_ok=True)


def _is_cut(end: bytes) -> bool: # end: what stands behind the last line
    "Whether it is the beginning of a line: another process is adding it, or was when it was killed."
    return end.startswith(b"{") and not understood(end).record


def is_there(path: Path) -> bool:
    "Whether a file is there. A warning names what is none: a folder, or a pipe, which would be waited for."
    if path.exists() and not path.is_file():
        warnings.warn(f"{path} is no file; it is left out", stacklevel=3)
    return path.is_file()


def append(
    path: str | Path, # a file of records; it and its folder are made where missing
    record: dict,     # from `make_record` or `failed_record`
) -> dict: # the same
    """Add one line, whole or not at all. Raises `Misfit` naming the field of what is no record, and `RecordError` naming the
    path, the cause and where the record is kept instead."""
    line = encode(record)
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _lock(path), path.open("a+b", buffering=0) as f:
            f.seek(0)
            old = f.readall()
            end = old.rpartition(b"\n")[2]
            size = len(old)
            left = line
            if _is_cut(end):
                size -= len(end)
            elif end:
                left = b"\n" + line
            f.truncate(size)
            try:
                while left:
                    left = left[f.write(left):]
                os.fsync(f.fileno())
            except BaseException: # an interrupt, too
                f.truncate(size)
                raise
    except OSError as e:
        try:
            kept = Path(tempfile.mkdtemp(prefix="debias-nb-")) / "record.jsonl"
            _replace(kept, line)
            what = f"it is kept in {kept}, and append(path, read(kept)[0]) brings it back"
        except (OSError, RecordError) as other:
            what = f"it could not be kept elsewhere either ({other})"
        raise RecordError(f"{path}: the record {record['id']} could not be written: {e.strerror or e}; {what}") from e
    return record


def lines_of(
    path: Path, # a file of records; a missing one has none
) -> Iterator[tuple[int, bytes, Line]]: # counted from 1
    "All lines of a file; the beginning of one at its end is none."
    content = path.read_bytes() if is_there(path) else b""
    *lines, end = content.split(b"\n")
    if end and not _is_cut(end):
        lines.append(end)
    for n, line in enumerate(lines, 1):
        yield n, line, understood(line)


def read(
    path: str | Path, # a file of records; a missing one has none
) -> list[dict]: # in the order they were written; not to be changed
    "All records of a file; a warning names file, line and field of what is none."
    records = []
    for n, _, line in lines_of(Path(path)):
        if line.record:
            records.append(line.record)
        else:
            warnings.warn(f"{path}: line {n} is left out: {line.why}", stacklevel=2)
    return records


def latest(
    records: Iterable[dict], # in the order they were written
) -> Records: # id -> record
    "The newest finished record of every run, or its newest failure where it never finished."
    newest = {}
    for record in records:
        if record["status"] == "finished" or newest.get(record["id"], record)["status"] == "failed":
            newest[record["id"]] = record
    return newest


TEXTS = ("id", "status", "started", "finished", "device", "dtype")
NUMBERS = {"seed": "int64", "step": "int64", "peak_memory_bytes": "int64", "seconds": "float64"}
SHORT = ("config", "metrics", "replicates", "environment", "error")  # JSON
LONG = ("data", "encoder", "curve", "extra")                         # JSON; what tables of means do without
FOR_QUERIES = {"world": "int64", "commit": "string", "processor": "string"} # said in `config` and `environment` already
COLUMNS = dict.fromkeys(TEXTS, "string") | NUMBERS | dict.fromkeys(SHORT + LONG, "string") | FOR_QUERIES # name -> Arrow type
FIRST_WORLD = 0 # the seed that configurations draw theirs by; `worlds` of a block counts further ones


def _world(config: dict) -> int | None: # None: real data, divided in one way
    "The seed of what was drawn for a run."
    data = config.get("corpus") or config.get("eval_corpus") or {}
    split = data.get("split") or {}
    if split.get("scheme") != "random":
        split = {}
    drawn = data.get("world") or config.get("eval_world") or split
    return drawn.get("seed")


def published(record: dict) -> dict:
    "A record without what is not published: replicates and single values of a run in a further world."
    if record["status"] == "failed" or _world(record["config"]) in (None, FIRST_WORLD):
        return record
    extra = {key: value for key, value in record["extra"].items() if key != "questions"}
    return record | {"replicates": {}, "extra": extra}


def _seal(values: list) -> str: # 64 hex digits
    "The checksum of a column."
    text = "\n".join("" if value is None else str(value) for value in values)
    return hashlib.sha256(text.encode()).hexdigest()


def write_published(path: Path, records: list[dict]) -> None: # one a run
    "A Parquet file of records, in place of an older one once it is whole."
    import pyarrow as pa
    import pyarrow.parquet as pq
    rows = []
    for record in sorted(records, key=itemgetter("id")):
        row = {name: record.get(name) for name in (*TEXTS, *NUMBERS)}
        row |= {name: json.dumps(record[name], separators=(",", ":")) for name in SHORT + LONG if name in record}
        environment = record["environment"]
        row |= {"world": _world(record["config"]), "commit": environment["commit"], "processor": environment.get("cpu")}
        rows.append(row)
    columns = {name: [row.get(name) for row in rows] for name in COLUMNS}
    about = {"schema": SCHEMA, "rows": len(rows), "columns": {name: _seal(values) for name, values in columns.items()}}
    table = pa.table({name: pa.array(values, COLUMNS[name]) for name, values in columns.items()})
    made = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata({"debias-nb": json.dumps(about)}), made, compression="zstd", compression_level=12)
    _replace(path, made.getvalue().to_pybytes())


class About(BaseModel):
    "What a published file says of itself."
    model_config = ConfigDict(strict=True)
    schema_version: Annotated[Literal[1], Field(alias="schema")]
    rows: int
    columns: dict[str, str] # name -> checksum


def sealed_columns(path: Path, names: list[str]) -> dict[str, list]: # column -> values
    "Some columns of a published file. Raises `RecordError` naming the column whose checksum does not fit."
    import pyarrow.parquet as pq
    try:
        with pq.ParquetFile(path) as file:
            said = file.metadata.metadata or {}
            kinds = {field.name: str(field.type).replace("double", "float64") for field in file.schema_arrow}
            values = file.read([name for name in names if name in kinds]).to_pydict()
    except Exception as e: # whatever reading makes of damage
        raise RecordError(f"{path}: damaged, or no Parquet file ({str(e).partition(chr(10))[0]})") from None
    if b"pandas" in said or b"debias-nb" not in said:
        raise RecordError(f"{path}: another program has written it, and not `debias-nb publish`")
    try:
        about = About.model_validate_json(said[b"debias-nb"])
    except ValidationError as e:
        raise RecordError(f"{path}: no published records: {in_words(e)}") from None
    if kinds != COLUMNS:
        odd = sorted(name for name in COLUMNS.keys() | kinds.keys() if COLUMNS.get(name) != kinds.get(name))
        raise RecordError(f"{path}: another schema: {', '.join(odd)}")
    for name in names:
        if len(values[name]) != about.rows or _seal(values[name]) != about.columns.get(name):
            raise RecordError(f"{path}: column {name}: its checksum is not that of its content")
    return values


CELL = json.JSONDecoder(object_pairs_hook=each_key_once)


def _record_of(row: dict, short: bool) -> Line: # row: its cells that are not empty
    "What a row says; what was not read of it is not asked for."
    if row["status"] == "failed":
        row.setdefault("step")
    unread = {}
    if short:
        unread = {"extra": {}}
        if row["status"] == "finished":
            unread |= {"data": {}, "encoder": {}, "curve": []}
    try:
        for name in SHORT + LONG:
            if name in row:
                row[name] = CELL.decode(row[name])
        record = {"schema": SCHEMA} | row
        RECORD.validate_python(record | unread)
        return Line(record)
    except ValidationError as e:
        return Line(why=in_words(e))
    except (RecursionError, ValueError) as e:
        return Line(why=f"damaged ({e})")


def rows_of(
    path: Path,          # a published file; a missing one has none
    short: bool = False, # without what is in `LONG`, which is not read then
) -> Iterator[tuple[int, Line]]: # counted from 1
    "All rows of a file. Raises `RecordError` for a file that is damaged as a whole."
    if not is_there(path):
        return
    values = sealed_columns(path, [*TEXTS, *NUMBERS, *SHORT, *(() if short else LONG)])
    counts = Counter(values["id"])
    for n, cells in enumerate(zip(*values.values()), 1):
        row = {name: cell for name, cell in zip(values, cells) if cell is not None}
        found = _record_of(row, short)
        if counts[row.get("id")] > 1:
            found = Line(why=f"{row['id']} stands in several rows")
        yield n, found


@contextmanager
def _uncollected():
    "Nothing in a record refers to itself; looking for what does takes a quarter of the time of reading."
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def read_published(
    path: Path, # a missing one has none
    short: bool = False, # as `rows_of`
    strict: bool = False, # raise `RecordError` where there would be a warning
) -> list[dict]: # by id
    "The records of a published file. A warning names a damaged file, or the row and field of what is no record."
    records = []
    said = []
    try:
        with _uncollected():
            for n, row in rows_of(path, short):
                if row.record:
                    records.append(row.record)
                else:
                    said.append(f"{path}: row {n}: {row.why}")
    except RecordError as e:
        said.append(str(e))
    for told in said:
        if strict:
            raise RecordError(f"{told}; nothing is added to it")
        warnings.warn(f"{told}; it is left out", stacklevel=2)
    return records


@once_per_state
def by_id(path: Path) -> Records:
    "What a file of either kind says of each run."
    return latest(read_published(path) if path.suffix == ".parquet" else read(path))


@dataclass
class Published:
    "What became of the lines of one experiment."
    rows: int = 0        # of the file
    trimmed: int = 0     # runs whose replicates and single values are left out
    replaced: list[str] = field(default_factory=list) # ids of runs of which an older record is left out
    left_out: list[str] = field(default_factory=list) # sentences: lines that are no records, and stay


def unknown_code(environment: dict, known: frozenset[str]) -> str: # known: as of `history`; "": it can be looked up
    "Why the code that made a record cannot be looked up."
    commit = environment["commit"]
    if environment["dirty"] or commit is None:
        return "were made with changes that stand in no commit"
    return "" if commit in known else f"name the commit {commit[:8]}, which is not in this history"


class Store:
    """A folder of records: `<paper>/<experiment>.<profile>.parquet` for what is published, and next to it
    `<experiment>.<profile>.jsonl` for what was added since."""
    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def _published(self, paper, experiment, profile) -> Path:
        return self.folder / paper / f"{experiment}.{profile}.parquet"

    def _lines(self, paper, experiment, profile) -> Path:
        return self.folder / paper / f"{experiment}.{profile}.jsonl"

    def unpublished(self) -> list[tuple[str, str, str]]: # paper, experiment, profile
        "Of which experiments there are lines."
        return [place for place in self.places() if self._lines(*place).is_file()]

    def places(self) -> list[tuple[str, str, str]]: # paper, experiment, profile
        "Of which experiments there is a file. A warning names one that is called otherwise."
        places = set()
        for path in sorted([*self.folder.glob("*/*.parquet"), *self.folder.glob("*/*.jsonl")]):
            if path.stem.count(".") == 1:
                places.add((path.parent.name, *path.stem.split(".")))
            else:
                warnings.warn(f"{path} is not called <experiment>.<profile>{path.suffix}; it is left out", stacklevel=2)
        return sorted(places)

    def unfounded(self, known: frozenset[str], paper: str | None = None) -> list[str]: # known: as of `history`
        "Sentences on published records whose code nobody can look up: it is in no history, or was changed when they were made."
        found = []
        for place in self.places():
            path = self._published(*place)
            if path.is_file() and paper in (None, place[0]):
                made = Counter(sealed_columns(path, ["environment"])["environment"])
                for text, count in made.items():
                    why = unknown_code(json.loads(text), known)
                    if why:
                        found.append(f"{path}: {count} records {why}")
        return found

    def path(self, config: RunConfig) -> Path:
        "The file that a run's record is added to; an `ExperimentConfig` will do as well."
        return self._lines(config.paper, config.experiment, config.profile)

    def records(self, paper: str, experiment: str, profile: str, short: bool = False) -> list[dict]:
        """All records of an experiment at a profile, published ones first. With `short` published ones lack data, encoder,
        curve and extra, and what is not needed is not read."""
        added = read(self._lines(paper, experiment, profile)) # first: see `publish`
        return read_published(self._published(paper, experiment, profile), short) + added

    def all(self) -> list[dict]:
        "All records of the folder, file by file."
        return [record for place in self.places() for record in self.records(*place)]

    def entries(self) -> Iterator[tuple[str, Line]]: # where it stands: file and number
        "Every row and every line of the folder, and each file that is damaged as a whole."
        for place in self.places():
            path = self._published(*place)
            try:
                for n, row in rows_of(path):
                    yield f"{path}: row {n}", row
            except RecordError as e:
                yield str(path), Line(why=str(e).removeprefix(f"{path}: "))
            path = self._lines(*place)
            for n, _, line in lines_of(path):
                yield f"{path}: line {n}", line

    def find(self, run: str | RunConfig) -> dict | None:
        "The newest finished record of a run, by its id or its configuration."
        places = self.places() if isinstance(run, str) else [(run.paper, run.experiment, run.profile)]
        run_id = run if isinstance(run, str) else run.id
        for path in (file(*place) for place in places for file in (self._lines, self._published)):
            found = by_id(path).get(run_id)
            if found and found["status"] == "finished":
                return found
        return None

    @contextmanager
    def claimed(
        self,
        run_id: str,
        wait: bool = False, # until the other process is done
    ): # yields whether the run is this process's
        """Claim a run, one at a time, so that two batches share the work. The claim ends with the block, or the process.
        Where no claim can be had at all, as in a folder that may not be written to, the run is taken as claimed."""
        place = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:7])
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            claims = (self.folder / ".claims.lock").open("ab")
        except OSError:
            yield True
            return
        with claims:
            try:
                fcntl.lockf(claims, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except BlockingIOError:
                yield False
            else:
                yield True # closing the file gives the byte back

    def append(self, record: dict) -> dict:
        "Add a line to the file that a record belongs to. Raises as `append`."
        place = record["config"]
        return append(self._lines(place["paper"], place["experiment"], place["profile"]), record)

    def publish(self, paper: str, experiment: str, profile: str) -> Published:
        """Put the lines of an experiment into its Parquet file, the newest record of each run. Lines that are no records
        stay. Who reads meanwhile finds a record in one file or in both. Raises `RecordError` for a damaged file."""
        done = Published()
        path = self._published(paper, experiment, profile)
        lines = self._lines(paper, experiment, profile)
        kept = []
        with _lock(lines):
            known = read_published(path, strict=True)
            for n, line, found in lines_of(lines):
                if found.record:
                    known.append(found.record)
                else:
                    kept.append(line + b"\n")
                    done.left_out.append(f"{lines}: line {n} is left out, and stays: {found.why}")
            newest = latest(known)
            counts = Counter(record["id"] for record in known)
            done.replaced = [run_id for run_id, count in counts.items() if count > 1]
            rows = [published(record) for record in newest.values()]
            done.trimmed = sum(row is not record for row, record in zip(rows, newest.values()))
            done.rows = len(rows)
            if rows:
                write_published(path, rows)
            if kept:
                _replace(lines, b"".join(kept))
            else:
                lines.unlink(missing_ok=True)
        return done


def run_or_load(
    config: RunConfig,
    train: Callable[[RunConfig], dict], # returns the run's record, from `make_record`
    store: Store,
    fresh: bool = False,                # run even if there is a record; the new one counts once it is there
) -> dict: # the stored record
    """The record of a run, made first if there is none.
    Raises `TrainingFailed` after recording it, also for numbers that no record can hold; `RecordError` if it cannot be
    stored or is of another run."""
    found = store.find(config) # also when fresh: damage is told before the training, not after it
    if found and not fresh:
        return found
    start = time.monotonic()
    try:
        record = train(config)
        if (record["id"], record["status"]) != (config.id, "finished"):
            raise RecordError(f"{config.id}: training returned the {record['status']} record of {record['id']}")
        try:
            return store.append(record)
        except Misfit as e: # other runs can go on
            raise TrainingFailed(None, str(e)) from None
    except TrainingFailed as e:
        store.append(failed_record(config, e.reason, e.step, seconds=time.monotonic() - start))
        raise


# The id stands for the configuration, of which older records say more.
VOLATILE = frozenset({"config", "started", "finished", "seconds", "peak_memory_bytes", "environment", "device"})


def comparable(
    record: dict, # or any part of one
) -> dict: # without the keys in `VOLATILE`, at any depth
    "What two honest repeats of a run have in common."
    if isinstance(record, dict):
        return {k: comparable(v) for k, v in record.items() if k not in VOLATILE}
    if isinstance(record, list):
        return [comparable(v) for v in record]
    return record
