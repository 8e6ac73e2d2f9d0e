"""Files that are read strictly: YAML and its models, caches, and hashes, which say of which data a number was made."""
import functools
import hashlib
import importlib.resources
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from .checks import ConfigError, check_regular, nearest, quoted


def package_file(name: str) -> Path:
    "Return the path of a file that comes with the package."
    return Path(str(importlib.resources.files("debias_nb") / name))


def project_root(
    start: str | Path | None = None, # a folder to walk up from; default: the current one, then this file's
) -> Path: # the folder that holds `settings.ini` and `experiments/`
    "Return the project's root. Raise `ConfigError` if no folder above is one."
    origins = [start] if start else [Path.cwd(), package_file(".")]
    for origin in origins:
        origin = Path(origin).resolve()
        for folder in [origin, *origin.parents]:
            if (folder / "settings.ini").is_file() and (folder / "experiments").is_dir():
                return folder
    raise ConfigError(f"no project above {origins[0]}: looked for a folder with settings.ini and experiments/, "
                      "as a clone of the repository has them: git clone https://github.com/debias-nb/debias-nb")


def with_own(
    entries: dict, # of the package, by name
    variable: str, name: str, load: Callable[[Path], dict],
) -> dict:
    """Add a user's own entries, of a file next to their data or their encoders.

    Raise `ConfigError` for a name of the package's."""
    folder = os.environ.get(variable)
    path = Path(folder or "").expanduser() / name
    if not folder or not path.is_file():
        return entries
    additions = load(path)
    twice = sorted(additions.keys() & entries.keys())
    if twice:
        raise ConfigError(f"{path}: {twice[0]!r} is a name of the package; your own need another name")
    return entries | additions


def cache_dir(
    kind: str, # `data`, `encoders`, …: a folder of its own
) -> Path:
    "Return the cache folder of a kind: in `$DEBIAS_NB_CACHE`, else in `.cache` of the project or of the user."
    folder = os.environ.get("DEBIAS_NB_CACHE")
    if folder:
        return Path(folder) / kind
    try:
        return project_root() / ".cache" / kind
    except ConfigError:
        import pooch
        return Path(pooch.os_cache("debias-nb")) / kind


class StrictLoader(yaml.CSafeLoader): # which PyYAML's wheels have
    "YAML 1.1 without repeated keys; exponents without a dot are floats, whole numbers have decimal digits alone."

    def construct_mapping(self, node, deep=False):
        keys = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=deep)
            if key in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {quoted(key)} occurs twice", key_node.start_mark)
            keys.add(key)
        return super().construct_mapping(node, deep=deep)


FLOAT = re.compile(r"^[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$")
StrictLoader.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+0123456789"))
DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]*)(\.[0-9_]*)?")


def _decimal(loader, node):
    "Read a whole number; refuse 12:30, which YAML 1.1 takes for 750, and 010, which it takes for 8."
    if not DECIMAL.fullmatch(node.value):
        raise yaml.constructor.ConstructorError(None, None, f"{quoted(node.value)} is no number in decimal digits",
                                                node.start_mark)
    return loader.construct_yaml_int(node)


def _float(loader, node):
    if ":" in node.value:
        return _decimal(loader, node)
    return loader.construct_yaml_float(node)


def _bool(loader, node):
    "Read `true` or `false`; refuse `NO` and `yes`, which YAML 1.1 takes for them."
    if node.value.lower() not in ("true", "false"):
        raise yaml.constructor.ConstructorError(None, None, f"{quoted(node.value)} is true or false in YAML 1.1: write "
                                                "one of these, or a text in quotes", node.start_mark)
    return loader.construct_yaml_bool(node)


StrictLoader.add_constructor("tag:yaml.org,2002:bool", _bool)
StrictLoader.add_constructor("tag:yaml.org,2002:int", _decimal)
StrictLoader.add_constructor("tag:yaml.org,2002:float", _float)


DEEPEST = 50 # lists and mappings within one another


def _check_depth(text: str, source: str) -> None:
    "Raise `ConfigError` for a text of YAML that would take more of the stack than there is."
    depth = 0
    for event in yaml.parse(text, Loader=StrictLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            line = event.start_mark.line + 1
            raise ConfigError(f"{source}: line {line}: more than {DEEPEST} lists or mappings within one another")


def parse_yaml(text: str, source: str): # source: what a message begins with
    "Read the value of a text of YAML strictly. Raise `ConfigError` if it has none."
    try:
        _check_depth(text, source)
        return yaml.load(text, Loader=StrictLoader)
    except ConfigError:
        raise
    except yaml.YAMLError as e:
        raise ConfigError(f"{source}: {e}") from None
    except (ValueError, TypeError, OverflowError, RecursionError) as e: # a date that does not exist, a list as a key
        raise ConfigError(f"{source}: no value of YAML: {e}") from None


def load_yaml(path: str | Path) -> dict:
    "Read one YAML file strictly. Raise `ConfigError` naming file, line and key."
    check_regular(path, ConfigError)
    try:
        text = Path(path).read_text("utf-8")
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path}: byte {e.start + 1} is not UTF-8") from None
    except OSError as e:
        raise ConfigError(f"{path}: {e.strerror}") from None
    content = parse_yaml(text, str(path))
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: a mapping is expected at the top, found {type(content).__name__}")
    return content


def once_per_state(
    load, # (path, *further) -> anything that is not changed later
): # the same function, which reads a file again only when its size or its time of change differ
    "Cache what a function makes of a file."
    @functools.lru_cache(maxsize=512)
    def load_state(path, state, *arguments):
        return load(path, *arguments)

    @functools.wraps(load)
    def load_once(path, *arguments):
        try:
            status = os.stat(path)
        except OSError:
            return load(path, *arguments)
        state = (status.st_size, status.st_mtime_ns)
        return load_state(Path(path).absolute(), state, *arguments)

    return load_once


Share = Annotated[float, Field(gt=0, le=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
Natural = Annotated[int, Field(ge=1, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]
Several = Annotated[int, Field(ge=2, strict=True)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Names = tuple[str, ...]


# of several models that may be meant, all but one refuse the same keys each time
_nearest = functools.lru_cache(maxsize=1024)(nearest)


class Strict(BaseModel):
    "Immutable pydantic model that forbids unknown keys and names the one that was probably meant."
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, values):
        if not isinstance(values, dict):
            return values
        wrong = []
        fields = cls.model_fields # asked for once: pydantic looks it up anew each time
        for key in [key for key in values if key not in fields]:
            hint = _nearest(str(key), tuple(fields))
            error_type = PydanticCustomError("unknown", "unknown key{hint}", {"hint": hint})
            wrong.append(InitErrorDetails(type=error_type, loc=(key,), input=values))
        if wrong:
            raise ValidationError.from_exception_data(cls.__name__, wrong)
        return values

    def __copy__(self):
        "Leave out cached properties: `model_copy` gives the copy other values."
        copy = super().__copy__()
        for name in copy.__dict__.keys() - type(self).model_fields.keys():
            del copy.__dict__[name]
        return copy


class Settings(Strict):
    "Settings with rules about what goes together."

    @model_validator(mode="after")
    def _fits(self):
        "Raise `ValueError` with the first rule that is broken."
        for wrong, message in self.rules():
            if wrong:
                raise ValueError(message)
        return self

    def rules(self) -> Iterator[tuple]: # (what is true where a rule is broken, the rule)
        yield from ()

    def non_defaults(self, *names: str) -> list[str]:
        "Return which of some settings are not at their defaults."
        return [name for name in names if getattr(self, name) != type(self).model_fields[name].default]


# kinds of records and of JSON, which pydantic names in the places of mistakes
UNSAID = {"finished", "failed", "dict", "list", "float"}


def describe_mistake(mistake: ErrorDetails) -> str:
    "Explain a mistake, beginning with the field; a long value is cut."
    place = ".".join(str(part) for part in mistake["loc"] if part not in UNSAID) # e.g. `methods.0.name`
    message = mistake["msg"].removeprefix("Value error, ")
    if mistake["type"] == "missing":
        message = "required, and not there"
    elif not isinstance(mistake["input"], dict):
        message = f"{message}, got {quoted(mistake['input'])}"
    return f"{place}: {message}" if place else message


def explain(error: ValidationError, source: str) -> str:
    "Explain a pydantic error in the words of whoever wrote the file."
    return "\n".join(dict.fromkeys(f"{source}: {describe_mistake(mistake)}" for mistake in error.errors()))


def load_config(
    path: str | Path,          # a YAML file with a mapping at its top
    model,                     # a pydantic model, or `dict[str, Model]`
    source: str | None = None, # what messages call the file; None: its path
): # a `model`
    "Read and validate one YAML file. Raise `ConfigError` naming file and key."
    try:
        return TypeAdapter(model).validate_python(load_yaml(path))
    except ValidationError as e:
        raise ConfigError(explain(e, source or str(path))) from None


def sha256_file(path: str | Path) -> str:
    "Return the sha256 of a file's bytes. Raise `OSError` naming the file."
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while piece := f.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def sha256_text(text: str | bytes) -> str:
    "Return the sha256 of a text."
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()


def fingerprint(
    obj, # dicts, lists, tuples, strings, finite numbers, None, numpy or torch arrays and scalars
) -> str: # 64 hex digits
    "Return the sha256 of the canonical JSON: keys sorted, no spaces. Raise `ValueError` for NaN and infinity."
    text = json.dumps(
        obj, default=lambda array: array.tolist(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256_text(text)


@functools.cache
def _parts_in(folder: Path) -> list[Path]:
    "List, once a folder, what processes had begun to write there when this one came."
    return [*folder.glob("*.part-*")]


def _remove_parts(path: Path) -> None:
    "Remove what processes that are no more have begun to write of a file."
    for part in _parts_in(path.parent):
        name, _, process = part.name.rpartition(".part-")
        if name == path.name and process.isdecimal():
            with suppress(OSError): # of a process that is at work, but not ours; a folder that may not be written to
                try:
                    os.kill(int(process), 0)
                except (ProcessLookupError, OverflowError):
                    part.unlink()


def write_whole(path: str | Path, content: str | bytes) -> None:
    "Replace a file by a whole new one; a link stays one. Raise `OSError`, and leave what was there."
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace") # half of a character may stand in the name of a test
    real = Path(os.path.realpath(path))
    _remove_parts(real)
    part = real.with_name(f"{real.name}.part-{os.getpid()}")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(real)
    except BaseException: # an interrupt, too
        with suppress(OSError): # of a folder that may not be written to
            part.unlink(missing_ok=True)
        raise
