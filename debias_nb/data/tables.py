"""Any source as one data frame, whose index is the line, and what its cells must be.

A check is a mask and a sentence; what cannot be read is refused with file, line and column."""
from __future__ import annotations # which name pandas before it is loaded

import csv
import gzip
import json
import os
import re
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..checks import ConfigError, closest, counted, nearest, quoted, visible
from ..deferred import Deferred
from ..files import check_regular, each_key_once
from .registry import DataError, bad_lines

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Deferred("pandas")

LINES = ".txt" # of a table between signs, or of texts, one a line
TAB = "\t"
DELIMITERS = {",": "commas", ";": "semicolons", TAB: "tabs", "|": "vertical bars"}
SEP = re.compile(r'"?sep=(.)"?(?=[\r\n])', re.IGNORECASE) # the first line of a spreadsheet
FEW = 5 # values of a column, which are listed
MOST_UNPACKED = 200 # times what is packed, of texts
JSON_LINE = re.compile(r'\s*(\{\s*"|\[\s*["\[{])')
NAME_A_COLUMN = "write one text per line, or give it the ending of a table and name the column, as in texts.csv:COLUMN"
FIRST_ROWS, FIRST_CHARACTERS = 20, 2**20 # which tell the delimiter
FIRST_CELLS = 1000 # of a column, which show what it holds
UNREADABLE = re.compile(r"[\0\ud800-\udfff]") # by a tokenizer: NUL, and half of a character
VISIBLE = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]") # has width on paper
NUMBER_FORM = re.compile(r"[-+]?(?=[0-9]|\.[0-9])[0-9]*\.?[0-9]*(e[-+]?[0-9]{1,3})?") # 1, 1.00 or 1.000e+00
QUOTED_CELL = re.compile(r'"((?:[^"]|"")*)"')
BLANKS = re.compile(r"[ \t\r\n]*") # of JSON
LINE_END = re.compile("\r\n|\r|\n") # no other character ends a line
csv.field_size_limit(2**28) # bytes
DECODER = json.JSONDecoder(object_pairs_hook=each_key_once)


# ---------------------------------------------------------------- files

def ending(path: str | os.PathLike) -> str: # `.csv` of `new.CSV.gz`
    return Path(Path(path).name.lower().removesuffix(".gz")).suffix


def path_and_part(source: str | os.PathLike) -> tuple[Path, str | None]:
    "Return the path and the part of `FOLDER:dev`, `FILE.json:dev` or `FILE:split=dev`."
    path, _, part = str(source).rpartition(":")
    is_divided = part and not os.path.exists(source) and os.path.exists(path)
    if is_divided and ("=" in part or os.path.isdir(path) or ending(path) == ".json"):
        return Path(path), part
    return Path(source), None


def check_file(path: str | os.PathLike) -> None:
    "Check the ending of a file's name, and that the file is there; a folder may have any name."
    path, _ = path_and_part(path)
    if os.path.isdir(path):
        return
    if ending(path) not in FORMATS:
        raise DataError(f"{path}: the name must end in one of {', '.join(FORMATS)}, with or without .gz, or be that of "
                        "a folder")
    check_regular(path, DataError)
    if not os.path.exists(path): # False for names that cannot be, too
        names = os.listdir(path.parent) if os.path.isdir(path.parent) else []
        raise DataError(f"{visible(str(path))}: no such file{closest(path.name, names)}")


def named_values(
    option: str, arguments: list[str],
    form: str, # of an argument
    needs_name: bool = True,
) -> dict[str, str]:
    "Return the values of `NAME=VALUE` by name, of `VALUE` by an empty one. Raises `ConfigError` naming the option."
    values = {}
    for text in arguments:
        name, sign, value = text.partition("=") if "=" in text else ("", "", text)
        is_wrong = not value or not name and (sign or needs_name)
        if is_wrong or name in values:
            raise ConfigError(f"{option} takes {form}, each once, got {text!r}")
        values[name] = value
    return values


def pick_split(path: Path, names: list[str], split: str | None) -> str:
    "Return the split that is read: `test` where several are there and none is requested."
    if not names:
        raise DataError(f"{path}: nothing is in it")
    if split is None:
        split = "test" if len({*names}) > 1 else names[0]
    if split not in names:
        available = ", ".join(map(visible, dict.fromkeys(names)))
        example = shlex.quote(f"{path}:{visible(names[0])}")
        raise DataError(f"{path}: no split {split!r}; there are {available}: name one of them, e.g. {example}")
    return split


def read_text(path: Path) -> str:
    "Read a text in UTF-8, packed or not, without a byte order mark."
    check_regular(path, DataError)
    try:
        limit = MOST_UNPACKED * max(path.stat().st_size, 2**20)
        with (gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb")) as file:
            data = file.read(limit)
        if len(data) == limit:
            raise DataError(f"{path}: the file is damaged: unpacked it is {MOST_UNPACKED} times as large, and more")
        return data.decode("utf-8").lstrip("\ufeff")
    except (EOFError, gzip.BadGzipFile, zlib.error) as e:
        raise DataError(f"{path}: the file is damaged, or not packed with gzip ({e})") from None
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise DataError(f"{path}:{line}: not UTF-8 ({e.reason}); write the file again as UTF-8") from None


def refuse(name: str | Path, rows: pd.Series | pd.DataFrame, wrong, describe: Callable, advice: str = "") -> None:
    "Raise `DataError` naming the lines of wrong rows; `describe` says of a cell, or of a row, what is wrong."
    lines = rows[np.asarray(wrong, bool)].T # whose columns are the rows of a frame
    bad = [(line, describe(row)) for line, row in lines.items()]
    if bad:
        raise DataError(f"{bad_lines(name, bad, len(rows), 'rows')}{advice}")


# ---------------------------------------------------------------- cells between signs

def _unquote(cell: str) -> str:
    return cell[1:-1].replace('""', '"') if QUOTED_CELL.fullmatch(cell) else cell


def _rows_between(path: str | Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    "Yield the line where each row begins, and its cells; between tabs, quotation marks within a cell are letters."
    is_tab = delimiter == TAB
    reader = csv.reader(
        StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=f'{delimiter} "' in text,
        quoting=csv.QUOTE_NONE if is_tab else csv.QUOTE_MINIMAL)
    begin = 1
    try:
        for row in reader:
            if any(map(str.strip, row)):
                yield begin, list(map(_unquote, row)) if is_tab else row
            begin = reader.line_num + 1
    except csv.Error as e:
        raise DataError(f"{path}:{begin}: {e}") from None


def _agreement(path: str | Path, text: str, delimiter: str) -> float:
    "Return the fraction of the first rows that have as many cells as the header, where these are several."
    sizes = []
    with suppress(DataError): # raised again when all rows are read
        for _, row in islice(_rows_between(path, text[:FIRST_CHARACTERS], delimiter), FIRST_ROWS):
            sizes.append(len(row))
    header, *rows = sizes or [0]
    return rows.count(header) / len(rows) if rows and header > 1 else 0


def _usual_delimiter(path: Path) -> str:
    return "," if ending(path) == ".csv" else TAB


def _delimited_text(path: Path) -> tuple[str, str]:
    "Return the text of a file, and the sign by which its header and first rows have equally many cells."
    text = read_text(path)
    sep = SEP.match(text)
    if sep:
        return text[sep.end():], sep[1]
    signs = (_usual_delimiter(path), *DELIMITERS) # of equals the first
    return text, max(signs, key=lambda sign: _agreement(path, text, sign))


def first_cells(
    path: Path,
) -> dict[str, list[str]]: # empty where no second row is there, rows differ in length, or columns share a name
    "Return the first cells of each column of a file with cells between signs; whether they can be read is not checked."
    text, delimiter = _delimited_text(path)
    rows = []
    with suppress(DataError): # raised again when all rows are read
        for _, row in islice(_rows_between(path, text[:FIRST_CHARACTERS], delimiter), FIRST_CELLS):
            rows.append(row)
    if len(text) > FIRST_CHARACTERS: # within a row
        rows = rows[:-1]
    header, *others = rows or [[]]
    columns = dict(zip(map(str.strip, header), map(list, zip(*others))))
    return columns if {len(columns)} == {*map(len, rows)} else {}


def _read_delimited(path: Path, _split: str | None) -> pd.DataFrame:
    "Read the cells between the sign by which header and first rows have equally many."
    text, delimiter = _delimited_text(path)
    sign = DELIMITERS.get(delimiter, quoted(delimiter))
    rows = pd.Series(dict(_rows_between(path, text, delimiter)), dtype=object)
    if len(rows) < 2:
        return pd.DataFrame()
    header, rows = list(map(str.strip, rows.iloc[0])), rows.iloc[1:]
    expectation = f"cells between {sign}, the header has {len(header)}"
    advice = (". Between tabs a cell holds no tab and no line break: write such texts as CSV or JSONL"
              if delimiter == TAB else "")
    refuse(path, rows, rows.map(len) != len(header), lambda row: counted(len(row), expectation), advice)
    frame = pd.DataFrame(rows.tolist(), rows.index, header, dtype=object)
    if delimiter != _usual_delimiter(path):
        frame.attrs["note"] = f"{sign} stand between its cells"
    return frame


def check_lines(name: str, text: str) -> None:
    "Refuse texts whose lines are rows of a table, or of JSON."
    bare = QUOTED_CELL.sub("", text) # prose has a blank behind its commas
    signs = [sign for sign in DELIMITERS if sign in "\t|" or f"{sign} " not in bare]
    words = [f", with cells between {DELIMITERS[sign]}" for sign in signs if _agreement(name, text, sign) > .9]
    if words or JSON_LINE.match(text):
        raise DataError(f"{name}: its lines look like rows of a table{[*words, ' of JSON'][0]}; {NAME_A_COLUMN}")


# ---------------------------------------------------------------- JSON and Parquet

def json_values(path: str | Path, text: str) -> pd.Series: # index: the line; in one list the place
    "Read the values of JSON, one after another or all in one list."
    values, lines, begin, end, line = [], [], 0, 0, 1
    try:
        while (following := BLANKS.match(text, end).end()) < len(text):
            line += text.count("\n", begin, following)
            begin = following
            value, end = DECODER.raw_decode(text, begin)
            values.append(value)
            lines.append(line)
    except (ValueError, RecursionError) as e:
        place = line if values else getattr(e, "lineno", line)
        raise DataError(f"{path}:{place}: {getattr(e, 'msg', e)}") from None
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
        lines = range(1, len(values) + 1)
    return pd.Series(values, lines, dtype=object)


def in_order(frame: pd.DataFrame) -> pd.DataFrame: # its rows are the lines 1, 2, ...
    return frame.set_axis(range(1, len(frame) + 1))


def _read_arrow(path: Path, _split: str | None) -> pd.DataFrame:
    "Read Parquet, or a file that `datasets` keeps on disk."
    import pyarrow as pa
    import pyarrow.parquet as pq
    try:
        if ending(path) == ".arrow":
            table = pa.ipc.open_stream(path.read_bytes()).read_all()
        else:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read()
        names = class_names(
            json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features", {}))
        columns = [named_classes(pd.Series(column.to_pylist(), dtype=object), names.get(name))
                   for name, column in zip(table.column_names, table.columns)]
    except MemoryError:
        raise
    except Exception as e: # whatever reading makes of damage
        raise DataError(f"{path}: {(str(e) or type(e).__name__).splitlines()[0]}") from None
    return in_order(pd.concat(columns, axis=1, keys=table.column_names) if columns else pd.DataFrame())


NEGATIONS = {("0", "1"), ("no", "yes"), ("false", "true"), ("other", "match"), ("different", "same")}


def class_names(features) -> dict[str, list[str]]: # features: of `datasets`, or as it writes them into files
    "Return the names of classes of each column that has some."
    names = {}
    for column, feature in features.items() if isinstance(features, dict) else ():
        classes = feature.get("names") if isinstance(feature, dict) else getattr(feature, "names", None)
        if isinstance(classes, list) and all(isinstance(name, str) for name in classes):
            names[column] = classes
    return names


def named_classes(cells: pd.Series, names: list[str] | None) -> pd.Series:
    "Return classes by name; as they are where class 1 is what class 0 denies, as in not_duplicate and duplicate."
    if not names:
        return cells
    low = [name.casefold() for name in names]
    is_plain = len(low) == 2 and ((low[0], low[1]) in NEGATIONS or low[0] != low[1] and low[0].endswith(low[1]))
    if is_plain:
        return cells
    return cells.map(lambda cell: names[cell] if isinstance(cell, int) and not isinstance(cell, bool)
                     and 0 <= cell < len(names) else cell)


def _read_json(path: Path, split: str | None) -> pd.DataFrame | dict:
    "Read objects or lists of JSON, a row each; or one object that is a table."
    rows = json_values(path, read_text(path))
    kinds = rows.map(type)
    if {*kinds} == {list}: # cells without names
        return pd.DataFrame({"texts": rows}, dtype=object)
    refuse(path, rows, [kind is not dict for kind in kinds],
           lambda row: f"an object is expected, found {type(row).__name__}")
    if ending(path) == ".json" and len(rows) == 1:
        return _read_object(path, rows.iloc[0], split)
    # such as {"set": {"query": ..., ...}}
    if rows.map(lambda row: len(row) == 1 and isinstance(*row.values(), dict)).all():
        rows = rows.map(lambda row: next(iter(row.values())))
    return pd.DataFrame(rows.tolist(), rows.index, dtype=object)


TURNS = { # keys of an object of JSON -> what it is, and a line of Python that makes a table of it
    ("columns", "data"): "what pandas writes with orient='split'. This makes a table of it: import pandas; "
    "pandas.read_json({!r}, orient='split').to_csv('pairs.csv', index=False)",
    ("distinct", "match"):
    "examples of dedupe, two records each. This makes pairs of them: import json, pandas; examples = "
    "json.load(open({!r})); pandas.DataFrame([[' '.join(str(cell) for cell in record.values() if cell) for record in "
    "pair['__value__']] + [int(name == 'match')] for name, pairs in examples.items() for pair in pairs], "
    "columns=['left', 'right', 'label']).to_csv('pairs.csv', index=False)",
}


def _is_columns(table) -> bool:
    "Return whether a value of JSON is a dict of lists."
    return isinstance(table, dict) and all(isinstance(cells, list) for cells in table.values())


def _read_object(path: Path, content: dict, split: str | None) -> pd.DataFrame | dict:
    "Return the table that one object of JSON holds: of columns, of rows by their numbers, or of one of several splits."
    for keys, advice in TURNS.items():
        if content.keys() >= {*keys}:
            raise DataError(f"{path}: {advice.format(str(path))}")
    if all(is_rows(table) or _is_columns(table) for table in content.values()):
        split = pick_split(path, [*content], split)
        frame = in_memory(str(path), content[split])
        frame.attrs["note"] = f"read from the split {split}"
        return frame
    if all(isinstance(table, dict) for table in content.values()) and not is_retrieval(content): # as pandas writes it
        orient = "index" if all(map(str.isdigit, content)) else "columns"
        return in_order(pd.DataFrame.from_dict(content, orient, dtype=object))
    return in_memory(str(path), content)


@dataclass(frozen=True)
class Format:
    "Format of the files of one ending, which .gz may follow."
    title: str # in help
    read: Callable[[Path, str | None], pd.DataFrame | dict] # of a path and a split


FORMATS = {
    ".csv": Format("CSV", _read_delimited), ".tsv": Format("TSV", _read_delimited),
    ".jsonl": Format("JSONL", _read_json),
    ".ndjson": Format("JSONL", _read_json), ".json": Format("JSON", _read_json),
    ".parquet": Format("Parquet", _read_arrow),
    ".arrow": Format("Arrow", _read_arrow), LINES: Format("TSV", _read_delimited),
}


def read_table(path: Path, split: str | None = None) -> pd.DataFrame | dict:
    "Read a frame, or a dict with queries and a corpus."
    check_file(path)
    return FORMATS[ending(path)].read(path, split)


# ---------------------------------------------------------------- tables in memory

def is_rows(source) -> bool:
    return isinstance(source, list) and all(isinstance(row, dict) for row in source)


def is_retrieval(source) -> bool:
    return isinstance(source, dict) and {"queries", "corpus"} <= source.keys()


def _column(name: str, key, cells) -> list | pd.Series:
    "Return the cells of a column. Raises `DataError` for what is none, as one of several splits."
    is_table = len(getattr(cells, "shape", ())) > 1
    if is_table or isinstance(cells, (str, dict)) or not isinstance(cells, Iterable):
        raise DataError(f"{name}: a list of cells is expected, and {key!r} is a {type(cells).__name__}; a table is "
                        f"passed alone, as in ds[{key!r}]")
    return cells if isinstance(cells, pd.Series) else list(cells)


def in_memory(name: str, source) -> pd.DataFrame | dict:
    "Return a frame of any table in memory: pandas, `datasets`, Polars, Arrow, dicts; a dict with a corpus as it is."
    if is_retrieval(source):
        return source
    if isinstance(source, dict):
        source = {key: _column(name, key, cells) for key, cells in source.items()}
    elif hasattr(source, "to_pandas"):
        names = class_names({**(getattr(source, "features", None) or {})})
        source = source.to_pandas()
        if isinstance(source, pd.DataFrame):
            for column in filter(source.columns.__contains__, names):
                source = source.assign(**{column: named_classes(source[column].astype(object), names[column])})
    if not isinstance(source, (dict, pd.DataFrame)) and not is_rows(source):
        kind = type(source).__name__
        raise DataError(f"{name}: a path, a data frame, a table or a dict of columns is expected, got {kind}")
    try:
        frame = pd.DataFrame(source, dtype=object)
    except ValueError as e: # of several lengths
        raise DataError(f"{name}: {e}") from None
    return in_order(frame).set_axis(list(map(str, frame.columns)), axis=1)


def spread(frame: pd.DataFrame) -> pd.DataFrame:
    "Give each cell of lists that begin with two texts, and have two or three, a column of its own."
    lengths = {} # of the texts of a column, on average
    for column, cells in frame.items():
        sizes = {len(cell) if isinstance(cell, list) and all(map(is_text, cell[:2])) else 0 for cell in cells}
        if sizes in ({2}, {3}):
            lengths[column] = np.mean([len(str(text)) for cell in cells for text in cell[:2]])
    if not lengths:
        return frame
    column = max(lengths, key=lengths.get) # a pair of names stands next to a pair of texts
    wide = pd.DataFrame(frame[column].tolist(), frame.index, dtype=object)
    has_texts = wide.iloc[:, -1].map(is_text).any()
    names = ["anchor", "positive", "negative"] if has_texts else ["left", "right", "label"]
    wide.columns = names[:wide.shape[1]]
    table = wide.join(frame.drop(columns=[column, *(set(wide) & set(frame))]))
    table.attrs["spread"] = f" (its lists as {', '.join(wide)})"
    return table


def describe_values(cells: pd.Series) -> str:
    "List the values of a column with their counts, in brackets, where they are few."
    counts = cells.map(lambda cell: visible(str(cell)[:30]).strip()).value_counts(sort=False)
    values = ", ".join(f"{value} {count:,}" for value, count in counts.items())
    return f" ({values})" if len(counts) <= min(FEW, len(cells) - 1) else ""


def column_and_value(name: str, header: list[str], condition: str) -> tuple[str, str]: # condition: COLUMN=VALUE
    "Return the column of a table and its value that choose rows."
    column, sign, value = condition.partition("=")
    if not sign:
        raise DataError(f"{name}: where: COLUMN=VALUE is expected, got {quoted(condition)}")
    if header.count(column) != 1:
        others = [other for other in header if other != column]
        raise DataError(f"{name}: where: one column {quoted(column)} is expected, found {header.count(column)}"
                        f"{nearest(column, others)}")
    return column, value


def rows_where(name: str, frame: pd.DataFrame, condition: str) -> pd.DataFrame: # condition: COLUMN=VALUE
    "Return the rows in which a column has a value."
    column, value = column_and_value(name, [*frame], condition)
    rows = frame[frame[column].map(str).str.strip() == value.strip()]
    if rows.empty:
        raise DataError(f"{name}: no row where {condition}{describe_values(frame[column])}")
    return rows


# ---------------------------------------------------------------- what a cell is

def is_text(cell) -> bool:
    "Tell whether a cell is a text that a tokenizer can read."
    return isinstance(cell, str) and bool(VISIBLE.search(cell)) and not UNREADABLE.search(cell)


def number_of(cell) -> Decimal | None: # None: it is no number
    text = str(cell).strip().casefold()
    return Decimal(text) if NUMBER_FORM.fullmatch(text) else None


def floats(cells: pd.Series) -> pd.Series:
    "Read numbers, nan for what is none; true and false are none."
    def number(cell):
        with suppress(TypeError, ValueError, OverflowError):
            return np.nan if isinstance(cell, (bool, np.bool_)) else float(cell)
        return np.nan

    return cells.map(number).astype(float)


def finite(name: str, cells: pd.Series, rule: str) -> pd.Series:
    "Read finite numbers. Raises `DataError` naming file and line of what is none."
    numbers = floats(cells)
    refuse(name, cells, ~np.isfinite(numbers), lambda cell: f"{rule}, found {quoted(cell)}")
    return numbers


def check(name: str, cells: pd.Series, right, rule: str, advice: str = "") -> None: # right: (n,) booleans
    "Check the cells of a column. Raises `DataError` naming file, lines and column of those that are not right."
    refuse(name, cells, ~np.asarray(right, bool), lambda cell: f"column {cells.name!r}: {rule}, found {quoted(cell)}",
           advice)


def with_title(title, text) -> str:
    return " ".join(part.strip() for part in (title, text) if isinstance(part, str) and part.strip())


def texts_in(name: str, cells: pd.Series) -> pd.Series: # index: the row, from 0
    "Return the texts of cells, which may be lists of texts, or of passages with title and text."
    texts = cells.set_axis(range(len(cells))).explode().dropna()
    texts = texts.map(lambda cell: with_title(cell.get("title"), cell.get("text")) if isinstance(cell, dict) else cell)
    if len(texts) and texts.map(lambda cell: isinstance(cell, (int, np.integer)) and not isinstance(cell, bool)).all():
        raise DataError(f"{name}: column {cells.name!r} holds ids of documents, such as {texts.iloc[0]}, not texts: "
                        "put the texts in their place, or give a folder with queries, corpus and qrels")
    check(name, texts.set_axis(cells.index[texts.index]), texts.map(is_text), "a text is expected")
    return texts


def groups_in(name: str, cells: pd.Series) -> pd.Series:
    "Return names of groups, which may be missing."
    check(name, cells, ~cells.map(str).str.contains(UNREADABLE), "a name of a group is expected")
    return cells.map(str).str.strip().where(cells.notna(), "").replace("", "(none)")
