"""Published records: a Parquet file an experiment, one row per run.

Its pages have checksums, and only what is needed of it is read.
"""
import json
import re
from collections import Counter
from operator import itemgetter
from pathlib import Path

from pydantic_core import from_json

from ..checks import check_regular
from ..files import write_whole
from .config import RunConfig
from .schema import RECORD_SCHEMA, Entry, Misfit, RecordError, entry_of, understood


def write(path: Path, content: bytes) -> None:
    "Write a file. Raise `RecordError`, and leave what was there."
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as e:
        raise RecordError(f"{path} could not be written: {e.strerror or e}; what was there stays") from e


RECORD_TEXTS = ("id", "status", "started", "finished", "device", "dtype")
RECORD_NUMBERS = {"seed": "int64", "step": "int64", "peak_memory_bytes": "int64", "seconds": "float64"}
JSON_TEXTS = ("config", "metrics", "replicates", "environment", "error", "data", "encoder", "curve", "extra")
FOR_QUERIES = {"world": "int64", "commit": "string", "processor": "string"} # said in `config` and `environment` already
RECORD_COLUMNS = ( # name -> Arrow type
    dict.fromkeys(RECORD_TEXTS, "string") | RECORD_NUMBERS | dict.fromkeys(JSON_TEXTS, "string") | FOR_QUERIES)
FIRST_WORLD = 0 # the seed that configurations draw theirs by; `worlds` of a block counts further ones


def published(
    record: dict,
    resamples: int | None = None, # of each test that are published, the same ones in every run; None: all
) -> dict:
    "Return a record without what is not published: replicates and single values of a run in a further world."
    if record["status"] == "failed":
        return record
    if RunConfig.model_validate(record["config"]).world_seed not in (None, FIRST_WORLD):
        extra = {key: value for key, value in record["extra"].items() if key != "questions"}
        return record | {"replicates": {}, "extra": extra}
    replicates = {
        test: {metric: values[:resamples] for metric, values in by_metric.items()}
        for test, by_metric in record["replicates"].items()}
    return record | {"replicates": replicates}


MARK = b"debias-nb" # what a published file says of itself:
METADATA = re.compile(rb'\{"schema": %d[,}].*' % RECORD_SCHEMA) # whatever versions of before have added


def write_published(path: Path, records: list[dict]) -> None: # one a run
    "Write a Parquet file of records, in place of an older one once it is whole."
    import pyarrow as pa
    import pyarrow.parquet as pq
    rows = []
    for record in sorted(records, key=itemgetter("id")):
        row = {name: record.get(name) for name in (*RECORD_TEXTS, *RECORD_NUMBERS)}
        row |= {name: json.dumps(record[name], separators=(",", ":")) for name in JSON_TEXTS if name in record}
        environment = record["environment"]
        world = RunConfig.model_validate(record["config"]).world_seed
        row |= {"world": world, "commit": environment["commit"], "processor": environment.get("cpu")}
        rows.append(row)
    table = pa.table({name: pa.array([row.get(name) for row in rows], kind) for name, kind in RECORD_COLUMNS.items()})
    buffer = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata({MARK: b'{"schema": %d}' % RECORD_SCHEMA}), buffer,
        compression="zstd", compression_level=19, write_page_checksum=True)
    write(path, buffer.getvalue().to_pybytes())


def published_columns(path: Path, names: list[str]) -> dict[str, list]: # column -> values
    "Read some columns of a published file. Raise `RecordError` for a damaged or foreign file."
    import pyarrow.parquet as pq
    check_regular(path, RecordError)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            metadata = file.metadata.metadata or {}
            kinds = {field.name: str(field.type).replace("double", "float64") for field in file.schema_arrow}
            values = file.read([name for name in names if name in kinds]).to_pydict()
    except Exception as e: # whatever reading makes of damage
        raise RecordError(f"{path}: damaged, or no Parquet file ({str(e).partition(chr(10))[0]})") from None
    if not METADATA.fullmatch(metadata.get(MARK, b"")):
        raise RecordError(f"{path}: another program, or another version of debias-nb, has written it")
    if kinds != RECORD_COLUMNS:
        names = RECORD_COLUMNS.keys() | kinds.keys()
        odd = sorted(name for name in names if RECORD_COLUMNS.get(name) != kinds.get(name))
        raise RecordError(f"{path}: another schema: {', '.join(odd)}")
    return values


def _of_row(row: dict) -> dict:
    "Return the record in a row. Raise `Misfit`."
    if row["status"] == "failed":
        row.setdefault("step")
    for name in JSON_TEXTS:
        if name in row:
            try:
                row[name] = from_json(row[name], allow_inf_nan=False, cache_strings="all")
            except ValueError as e:
                raise Misfit(f"{name}: damaged ({e})") from None
    record = {"schema": RECORD_SCHEMA} | row
    understood(record)
    return record


def record_rows(
    path: Path, # a published file; a missing one has none
) -> list[Entry]: # by id
    "Return all rows of a file; for one that is damaged as a whole, that."
    if not path.exists():
        return []
    try:
        values = published_columns(path, [*RECORD_TEXTS, *RECORD_NUMBERS, *JSON_TEXTS])
    except RecordError as e:
        return [Entry(str(path), why=str(e).removeprefix(f"{path}: "))]
    counts = Counter(values["id"])
    entries = []
    for n, cells in enumerate(zip(*values.values()), 1):
        row = {name: cell for name, cell in zip(values, cells) if cell is not None}
        entry = entry_of(f"{path}: row {n}", _of_row, row)
        if "id" in row and counts[row["id"]] > 1:
            entry = Entry(entry.where, why=f"{row['id']} stands in several rows")
        entries.append(entry)
    return entries
