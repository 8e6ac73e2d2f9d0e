"A file or a folder as one data frame, whose index is the line, and what a text is."
from __future__ import annotations # which name pandas before it is loaded

import csv
import gzip
import json
import os
import re
import shlex
import warnings
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from ..checks import DataError, check_regular, closest, each_key_once, visible
from ..deferred import Deferred

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Deferred("pandas")

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", ".arrow") # with or without .gz
SIGNS = ",\t;|" # between cells: of these the one that the header has most
QUOTED = re.compile(r'"((?:[^"]|"")*)"')
UNREADABLE = re.compile(r"[\0\ud800-\udfff]") # by a tokenizer: NUL, and half of a character
VISIBLE = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]") # has width on paper
ARCHIVES = {b"PK": "a zip archive", b"\x1f\x8b": "packed by gzip (once more than its name says)"} # by how they begin
ROLES = {"corpus": "corpus", "queries": "queries", "relevant_docs": "qrels"} # -> how their files begin


def is_text(cell) -> bool:
    "Tell whether a cell is a text that a tokenizer can read."
    return isinstance(cell, str) and bool(VISIBLE.search(cell)) and not UNREADABLE.search(cell)


def ending(path: str | os.PathLike) -> str: # `.csv` of `new.CSV.gz`
    return Path(Path(path).name.lower().removesuffix(".gz")).suffix


def path_and_part(source: str | os.PathLike) -> tuple[Path, str | None]:
    "Return the path and the part of `FOLDER:dev` or `FILE.csv:COLUMN`."
    path, _, part = str(source).rpartition(":")
    return (Path(path), part) if part and not os.path.exists(source) and os.path.exists(path) else (Path(source), None)


def check_file(source: str | os.PathLike) -> None:
    "Check the ending of a file's name, and that the file is there; a folder may have any name."
    path, _ = path_and_part(source)
    if os.path.isdir(path):
        return
    if ending(path) not in ENDINGS:
        raise DataError(f"{path}: the name must end in one of {', '.join(ENDINGS[:4])}, or be that of a folder; "
                        "pandas writes such files (frame.to_csv)")
    check_regular(path, DataError)
    if not os.path.exists(path): # False for names that cannot be, too
        raise DataError(f"{visible(str(path))}: no such file"
                        f"{closest(path.name, os.listdir(path.parent) if path.parent.is_dir() else [])}")


def _delimited(path: Path) -> pd.DataFrame:
    text = read_text(path).lstrip()
    sign = max(SIGNS, key=text.partition("\n")[0].count)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning) # where each row has more cells than the header
        frame = pd.read_csv(
            StringIO(text, newline=""), sep=sign, dtype=str, keep_default_na=False, skipinitialspace=True,
            quoting=csv.QUOTE_NONE if sign == "\t" else csv.QUOTE_MINIMAL, index_col=False).astype(object)
    if sign == "\t": # within a cell quotation marks are letters
        frame = frame.map(lambda cell: cell[1:-1].replace('""', '"') if isinstance(cell, str) and QUOTED.fullmatch(
            cell) else cell)
    names = [name.strip().strip('"') for name in frame.columns]
    if any(name.startswith("Unnamed: ") for name in names):
        raise DataError(f"{path}: a column has no name in the header: {', '.join(names[:8])}")
    frame = frame.set_axis(range(2, len(frame) + 2)).set_axis(names, axis=1)
    return frame[(frame != "").any(axis=1)]


def check_packed(path: Path) -> None:
    "Check that a file is no archive, and packed by gzip once where its name ends in .gz."
    with (gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb")) as file:
        kind = ARCHIVES.get(file.read(2))
    if kind:
        raise DataError(f"{path}: {kind}; unpack it first")


def read_text(path: Path) -> str:
    "Read a text in UTF-8, packed or not, without a byte order mark."
    with (gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb")) as file:
        return file.read().decode("utf-8-sig")


def _lines(path: Path) -> pd.DataFrame:
    "Read lines of JSON, an object each."
    rows = [json.loads(line, object_pairs_hook=each_key_once) for line in read_text(path).split("\n") if line.strip()]
    if not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{path}: an object is expected in each line, such as {{\"left\": …, \"right\": …}}")
    return pd.DataFrame(rows, dtype=object, index=range(1, len(rows) + 1))


def named_labels(frame: pd.DataFrame, features: dict) -> pd.DataFrame: # features: of `datasets`
    "Return a frame with the names of classes in place of their numbers."
    for column, feature in features.items():
        if column in frame and getattr(feature, "names", None):
            names = dict(enumerate(feature.names))
            frame[column] = frame[column].map(names).astype(object)
    return frame


def _arrow(path: Path) -> pd.DataFrame:
    from datasets import Dataset, Features
    from pyarrow.parquet import read_schema
    if ending(path) == ".arrow":
        data = Dataset.from_file(str(path))
        frame, features = data.to_pandas(), data.features
    else:
        frame, features = pd.read_parquet(path), {}
        described = (read_schema(path).metadata or {}).get(b"huggingface")
        if described:
            features = Features.from_dict(json.loads(described)["info"]["features"])
    return named_labels(frame.astype(object).set_axis(range(1, len(frame) + 1)), features)


READERS = dict(zip(ENDINGS, (_delimited, _delimited, _lines, _arrow, _arrow)))


def _one(path: Path) -> pd.DataFrame:
    "Read one file. Raise `DataError` naming it for whatever its reader raises."
    check_file(path)
    try:
        check_packed(path)
        return READERS[ending(path)](path)
    except (DataError, MemoryError):
        raise
    except Exception as e: # of gzip, csv, json, pandas and Arrow
        raise DataError(f"{path}: {(str(e) or type(e).__name__).splitlines()[0]}") from None


def _pick(path: Path, files: list[Path], split: str | None) -> list[Path]:
    "Return the files of a split, such as test.tsv, test-0*.parquet or test/data-0*.arrow; `test` if there are several."
    names = [file.parent.name if file.suffix == ".arrow" and file.parent != path else re.split(r"\.|-\d", file.name)[0]
             for file in files]
    wanted = split or ("test" if len({*names}) > 1 else names[0])
    if wanted not in names:
        raise DataError(f"{path}: no split {wanted!r}; there are {', '.join(map(visible, dict.fromkeys(names)))}: name "
                        f"one of them, e.g. {shlex.quote(f'{path}:{names[0]}')}")
    return [file for file, name in zip(files, names) if name == wanted]


def _files(folder: Path, *patterns: str) -> list[Path]:
    return [file for pattern in patterns for file in sorted(folder.glob(pattern))
            if ending(file) in ENDINGS and file.name[0] != "."]


def read_table(source: str | os.PathLike) -> tuple[pd.DataFrame | dict, list[Path], Path]:
    """Read a file or a folder, `FOLDER:SPLIT`: a frame, or a dict of frames: queries, corpus and relevant_docs.

    Also return the files that were read, and the path without the part."""
    check_file(source)
    path, part = path_and_part(source)
    if not path.is_dir():
        return _one(path), [path], path
    roles = {role: _files(path, f"{name}.*", f"{name}/*") for role, name in ROLES.items()}
    if not (roles["corpus"] or roles["queries"] or roles["relevant_docs"]):
        files = _files(path, "data-*", "*/data-*", "*.jsonl", "*.csv", "*.tsv", "*.parquet", "data/*.parquet")
        if not files:
            raise DataError(f"{path}: neither tables nor corpus, queries and qrels are in it")
        files = _pick(path, files, part)
        return pd.concat(map(_one, files)), files, path
    roles["relevant_docs"] = _pick(path, roles["relevant_docs"] or _files(
        path, "default/*.parquet", "data/*.parquet") or [path / "qrels" / "test.tsv"], part)
    missing = [ROLES[role] for role, files in roles.items() if not files]
    if missing:
        raise DataError(f"{path}: no {' and no '.join(missing)} in it; a folder of queries holds corpus.jsonl, "
                        "queries.jsonl and qrels/test.tsv, as BEIR writes them")
    tables = {role: pd.concat(map(_one, files)) for role, files in roles.items()}
    return tables, [file for files in roles.values() for file in files], path
