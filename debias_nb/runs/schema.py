"What is a record, and what is wrong with one that is none. Only what passes here is written, or read."
import functools
import json
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from pydantic import model_validator
from pydantic_core import from_json, to_json

from ..checks import check_regular, each_key_once
from ..files import fingerprint, describe_mistake
from ..settings import EncoderConfig, World
from .config import OWN_PROFILE, RunConfig
from .settings import AnyCorpus, AnyMethod, AnyTraining


class RecordError(RuntimeError):
    "Error of a record that cannot be written or read; the message names the file, the line or the key."


class Misfit(RecordError):
    "Error of what is no record; the message names the field."


RECORD_SCHEMA = 1
Records = dict[str, dict] # id -> record
COMMIT = r"^[0-9a-f]{40}$"
# Metrics that are fractions; a part of the test items may stand behind the name in brackets.
FRACTION = re.compile(
    r"(overlap )?auc\d*|ap|map|mrr|r8|p\d+|psp\d+|ndcg\d+(_exp)?|.* importance|.* share|topic chance|leakage .*"
    r"|misled|excluded|seen words")



def _with_zone(text: str) -> str:
    "Return a time as it stands. Raises `ValueError` for what is none, or has no zone."
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without its zone")
    return text


Time = Annotated[str, AfterValidator(_with_zone)]
Whole = Annotated[int, Field(ge=-2**63, lt=2**63)] # what a column of a Parquet file holds
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)] # whole ones too; none that is too large for a float
Metrics = dict[str, dict[str, Number | None]]      # evaluation set -> metric -> value; None: could not be computed
Replicates = dict[str, dict[str, list[Number | None]]] # evaluation set -> metric -> values of the bootstrap
Details = dict[str, Any] # JSON, of which `encode` and `from_json` see to it


class Environment(BaseModel):
    "Packages, code and machine of a run, as far as pages need them."
    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: Details
    commit: Annotated[str, Field(pattern=COMMIT)] | None # None: nobody knows
    dirty: bool | None
    cpu: str | None = None
    packages: dict[str, str] = {}

    @model_validator(mode="after")
    def _is_known(self):
        "Raise `ValueError` for a commit of which nobody knows whether it is the code."
        if (self.commit is None) != (self.dirty is None):
            raise ValueError("`commit` and `dirty` are known together, or not at all")
        return self


PART_TYPES = {name: TypeAdapter(kind) for name, kind in {
    "encoder": EncoderConfig, "method": AnyMethod, "corpus": AnyCorpus, "training": AnyTraining, "eval_world": World,
    "eval_corpus": AnyCorpus}.items()}


@functools.lru_cache(maxsize=4096)
def _validate_part(name: str, text: bytes):
    "Validate a part of a configuration, which many runs share, once; `text` is JSON."
    return PART_TYPES[name].validate_python(from_json(text))


class Record(BaseModel):
    "Fields that records of finished and of failed runs have in common."
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    schema_version: Annotated[int, Field(alias="schema", ge=RECORD_SCHEMA, le=RECORD_SCHEMA)] # `Literal[1]` takes true
    id: str
    config: RunConfig
    seed: Whole
    started: Time
    finished: Time
    seconds: Annotated[Number, Field(ge=0)]
    environment: Environment
    metrics: Metrics
    extra: Details

    @field_validator("config", mode="before")
    @classmethod
    def _by_its_parts(cls, values):
        if isinstance(values, dict):
            with suppress(ValidationError): # reported with its place where the whole is understood
                present = [name for name in PART_TYPES if values.get(name)]
                return values | {name: _validate_part(name, to_json(values[name])) for name in present}
        return values

    @field_validator("metrics")
    @classmethod
    def _in_range(cls, metrics):
        for test, values in metrics.items():
            for name, value in values.items():
                is_fraction = FRACTION.fullmatch(name.partition("[")[0])
                if is_fraction and value is not None and not 0 <= value <= 1:
                    raise ValueError(f"{test}: {name} is {value:g}, but a fraction lies between 0 and 1")
        return metrics

    @model_validator(mode="after")
    def _is_of_its_run(self):
        "Raise `ValueError` for the id or the seed of another run."
        if self.id != self.config.id:
            raise ValueError(f"its configuration is that of {self.config.id}, and its id is {self.id}")
        if self.seed != self.config.seed:
            raise ValueError(f"seed: {self.seed}, and that of its configuration is {self.config.seed}")
        return self


class Finished(Record):
    status: Literal["finished"]
    replicates: Replicates
    data: Details
    encoder: Details
    curve: Details | list
    device: str
    dtype: Literal["fp32", "bf16", "fp64"]
    peak_memory_bytes: Annotated[Whole, Field(ge=0)]


class Failed(Record):
    status: Literal["failed"]
    error: str
    step: Whole | None


RECORD = TypeAdapter(Annotated[Finished | Failed, Field(discriminator="status")])
def understood(record) -> dict: # the same
    "Validate a record. Raise `Misfit` naming the field of what is none."
    try:
        RECORD.validate_python(record)
    except ValidationError as e:
        raise Misfit(describe_mistake(e.errors(include_url=False)[0])) from None
    return record


def encode(record: dict) -> bytes: # JSON in UTF-8
    "Encode a record. Raises `Misfit` naming the field of what is no record, or no JSON."
    understood(record)
    for name, value in record.items():
        try:
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except ValueError as e:
            raise Misfit(f"{name}: {e}") from None
    return json.dumps(record | {CHECKSUM: fingerprint(record)}, ensure_ascii=False).encode()


CHECKSUM = "checksum" # the key of a file in which the fingerprint of the rest stands; a record in memory has none


def read_file(path: Path) -> dict:
    """Read the record that a file holds.

    Raises `Misfit` for what is none or was changed since it was written, `OSError` for a file that cannot be read.
    """
    check_regular(path, Misfit)
    content = path.read_bytes()
    try:
        record = from_json(content, allow_inf_nan=False)
        json.loads(content, object_pairs_hook=each_key_once)
    except ValueError as e:
        raise Misfit(f"damaged ({e})") from None
    checksum = record.pop(CHECKSUM, None) if isinstance(record, dict) else None
    understood(record)
    # the records of earlier versions have no checksum, and their trials other ids
    is_trial = record["config"]["profile"] == OWN_PROFILE
    if checksum != fingerprint(record) and (is_trial or checksum is not None):
        raise Misfit(f"changed since it was written: its {CHECKSUM} does not fit")
    return record


class Entry(NamedTuple):
    "Content of a file of one run, or of a row of a published file."
    where: str                 # the file, and its row
    record: dict | None = None # None: it holds none that can be trusted
    why: str = ""              # the reason for that, with the field


def entry_of(where, read: Callable[..., dict], *what) -> Entry:
    try:
        return Entry(str(where), read(*what))
    except Misfit as e:
        return Entry(str(where), why=str(e).removeprefix(f"{where}: "))
