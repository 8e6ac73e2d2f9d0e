"""Any source as one data frame, whose index is the line, and what its cells must be. A check is a mask and a sentence; what
cannot be read is refused with file, line and column."""
import csv
import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from io import StringIO
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from ..checks import counted, nearest, quoted, visible
from ..files import check_regular, each_key_once
from .registry import DataError, bad_lines

FORMATS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".arrow") # of tables
ENDINGS = (*FORMATS, ".txt") # each may be followed by .gz
TAB = "\t"
DELIMITERS = {",": "commas", ";": "semicolons", TAB: "tabs", "|": "vertical bars"}
SEP = re.compile(r'"?sep=(.)"?(?=[\r\n])', re.IGNORECASE) # the first line of a spreadsheet
FEW = 5 # values of a column, which are listed
MOST_UNPACKED = 200 # times what is packed, of texts
JSON_LINE = re.compile(r'\s*(\{\s*"|\[\s*["\[{])')
NAME_A_COLUMN = "write one text a line, or give it the ending of a table and name the column, as in texts.csv:COLUMN"
FIRST_ROWS, FIRST_CHARACTERS = 20, 2**20 # which tell the delimiter
UNREAD = re.compile(r"[\0\ud800-\udfff]") # by a tokenizer: NUL, and half of a character
SEEN = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]") # has width on paper
NUMBER = re.compile(r"[-+]?(?=[0-9]|\.[0-9])[0-9]*\.?[0-9]*(e[-+]?[0-9]{1,3})?") # 1, 1.00 or 1.000e+00
QUOTED = re.compile(r'"((?:[^"]|"")*)"')
LINE_END = re.compile("\r\n|\r|\n") # no other character ends a line
csv.field_size_limit(2**28) # bytes
DECODER = json.JSONDecoder(object_pairs_hook=each_key_once)


# ---------------------------------------------------------------- files

def ending(path: str | os.PathLike) -> str: # `.csv` of `new.CSV.gz`
    return Path(Path(path).name.lower().removesuffix(".gz")).suffix


def path_and_part(source: str | os.PathLike) -> tuple[Path, str | None]:
    "Return the path and the part of `FOLDER:dev`, `FILE.json:dev` or `FILE:split=dev`."
    before, colon, part = str(source).rpartition(":")
    if colon and part and not os.path.exists(source) and os.path.exists(before):
        if "=" in part or os.path.isdir(before) or ending(before) == ".json":
            return Path(before), part
    return Path(source), None


def check_file(path: str | os.PathLike) -> None:
    "Raises `DataError` for a name with another ending, and for a file that is not there. A folder may have any name."
    path, _ = path_and_part(path)
    if ending(path) in ENDINGS:
        if not os.path.exists(path): # False for names that cannot be, too
            near = os.listdir(path.parent) if os.path.isdir(path.parent) else []
            raise DataError(f"{visible(str(path))}: no such file{nearest(path.name, near) if near else ''}")
        check_regular(path, DataError)
    elif not os.path.isdir(path):
        known = ", ".join(ENDINGS)
        raise DataError(f"{path}: the name must end in one of {known}, with or without .gz, or be that of a folder")


def decoded(path: Path) -> str:
    "A text without the mark before it. Raises `DataError` naming the line that is not UTF-8."
    try:
        most = MOST_UNPACKED * max(path.stat().st_size, 2**20)
        with (gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb")) as file:
            data = file.read(most)
        if len(data) == most:
            raise DataError(f"{path}: the file is damaged: unpacked it is {MOST_UNPACKED} times as large, and more")
        return data.decode("utf-8").lstrip("\ufeff")
    except (EOFError, gzip.BadGzipFile, zlib.error) as e:
        raise DataError(f"{path}: the file is damaged, or not packed with gzip ({e})") from None
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise DataError(f"{path}:{line}: not UTF-8 ({e.reason}); write the file again as UTF-8") from None


def _between_tabs(line: str) -> list[str]: # quotation marks around a whole cell are taken off; others are but letters
    cells = line.split(TAB)
    if '"' in line:
        cells = [cell[1:-1].replace('""', '"') if QUOTED.fullmatch(cell) else cell for cell in cells]
    return cells


def _rows_of(path: str | Path, text: str, delimiter: str):
    "Iterate over the line where each row begins, and its cells."
    if delimiter == TAB:
        yield from enumerate(map(_between_tabs, LINE_END.split(text)), 1)
        return
    has_blanks = f'{delimiter} "' in text # before quotation marks
    begin, reader = 1, csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=has_blanks)
    try:
        for row in reader:
            yield begin, row
            begin = reader.line_num + 1
    except csv.Error as e:
        raise DataError(f"{path}:{begin}: {e}") from None


def _agreement(path: str | Path, text: str, delimiter: str) -> float:
    "Return the fraction of the first rows that have as many cells as the header, where these are several."
    counts = []
    try:
        for _, row in islice(_rows_of(path, text, delimiter), FIRST_ROWS):
            counts += [len(row)] if any(map(str.strip, row)) else []
    except DataError: # told when the rows are read
        pass
    header, *others = counts or [0]
    return others.count(header) / len(others) if others and header > 1 else 0


def _delimited(path: Path) -> pd.DataFrame:
    "Return the cells between the sign by which header and first rows have equally many."
    text = decoded(path)
    usual = "," if ending(path) == ".csv" else TAB
    sep = SEP.match(text)
    if sep:
        delimiter, text = sep[1], text[sep.end():]
    else:
        head = text[:FIRST_CHARACTERS]
        delimiter = max((usual, *DELIMITERS), key=lambda sign: _agreement(path, head, sign)) # of equals the first
    sign = DELIMITERS.get(delimiter, quoted(delimiter))
    rows = {line: row for line, row in _rows_of(path, text, delimiter) if any(map(str.strip, row))}
    if len(rows) < 2:
        return pd.DataFrame()
    header = [name.strip() for name in rows.pop(min(rows))]
    expected = f"cells between {sign}, the header has {len(header)}"
    bad = [(line, counted(len(row), expected)) for line, row in rows.items() if len(row) != len(header)]
    if bad:
        why = ". Between tabs a cell holds no tab and no line break: write such texts as CSV or JSONL"
        raise DataError(f"{bad_lines(path, bad, len(rows))}{why if delimiter == TAB else ''}")
    frame = pd.DataFrame(list(rows.values()), [*rows], header, dtype=object)
    if delimiter != usual:
        frame.attrs["note"] = f"{sign} stand between its cells"
    return frame


def json_values(path: Path, text: str) -> pd.Series: # index: the line; in one list or object the place
    "The values of JSON, one a line or all in one list."
    number, found = 1, {}
    try:
        whole = DECODER.decode(text)
        rows = whole if isinstance(whole, list) else [whole]
        return pd.Series(rows, range(1, len(rows) + 1), dtype=object)
    except json.JSONDecodeError as e:
        if text.strip() and e.msg != "Extra data": # which is a second line
            raise DataError(f"{path}:{e.lineno}: {e.msg}") from None
    except (ValueError, RecursionError) as e:
        raise DataError(f"{path}: {e}") from None
    try:
        for number, line in enumerate(LINE_END.split(text), 1):
            if line.strip():
                found[number] = DECODER.decode(line)
    except (ValueError, RecursionError) as e:
        raise DataError(f"{path}:{number}: {getattr(e, 'msg', e)}") from None
    return pd.Series(found, dtype=object)


def _arrow(path: Path) -> pd.DataFrame:
    "Read Parquet, or a file that `datasets` keeps on disk."
    import pyarrow as pa
    import pyarrow.parquet as pq
    try:
        if ending(path) == ".arrow":
            table = pa.ipc.open_stream(path.read_bytes()).read_all()
        else:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read()
        columns = [pd.Series(column.to_pylist(), dtype=object) for column in table.columns]
    except MemoryError:
        raise
    except Exception as e: # whatever reading makes of damage
        raise DataError(f"{path}: {(str(e) or type(e).__name__).splitlines()[0]}") from None
    return in_order(pd.concat(columns, axis=1, keys=table.column_names) if columns else pd.DataFrame())


def check_lines(name: str, text: str) -> None:
    "Refuse texts whose lines are rows of a table, or of JSON."
    bare = QUOTED.sub("", text) # prose has a blank behind its commas
    tables = [word for sign, word in DELIMITERS.items() if (sign in "\t|" or f"{sign} " not in bare) and _agreement(name, text, sign) > .9]
    if tables or JSON_LINE.match(text):
        between = f", with cells between {tables[0]}" if tables else " of JSON"
        raise DataError(f"{name}: its lines look like rows of a table{between}; {NAME_A_COLUMN}")


def in_order(frame: pd.DataFrame) -> pd.DataFrame: # its rows are the lines 1, 2, ...
    return frame.set_axis(range(1, len(frame) + 1))


def read_table(path: Path, split: str | None = None) -> pd.DataFrame | dict:
    "Read a frame, or a dict with queries and a corpus."
    check_file(path)
    if ending(path) in (".parquet", ".arrow"):
        return _arrow(path)
    if ending(path) in (".csv", ".tsv", ".txt"):
        return _delimited(path)
    rows = json_values(path, decoded(path))
    if len(rows) and rows.map(lambda row: isinstance(row, list)).all(): # cells without names
        return pd.DataFrame({"texts": rows}, dtype=object)
    wrong = rows[~rows.map(lambda row: isinstance(row, dict)).astype(bool)]
    if len(wrong):
        bad = [(line, f"an object is expected, found {type(row).__name__}") for line, row in wrong.items()]
        raise bad_lines(path, bad, len(rows))
    if ending(path) == ".json" and (len(rows) == 1 or split):
        return in_memory(str(path), _of_object(path, rows.iloc[0], split))
    if rows.map(lambda row: len(row) == 1 and isinstance(*row.values(), dict)).all():
        rows = rows.map(lambda row: next(iter(row.values())))
    return pd.DataFrame(rows.tolist(), rows.index, dtype=object)


DEDUPE = ( # a line of Python
    "examples of dedupe, two records each. This makes pairs of them: import json, pandas; examples = json.load(open({!r})); "
    "pandas.DataFrame([[' '.join(str(cell) for cell in record.values() if cell) for record in pair['__value__']] + [int(name == 'match')] "
    "for name, pairs in examples.items() for pair in pairs], columns=['left', 'right', 'label']).to_csv('pairs.csv', index=False)")


def _of_object(path: Path, whole: dict, split: str | None) -> dict | pd.DataFrame | list:
    "Return the table that one object of JSON holds: of columns, of rows by id, or of one of several splits."
    values = [*whole.values()]
    if {"distinct", "match"} == whole.keys():
        raise DataError(f"{path}: {DEDUPE.format(str(path))}")
    if {"columns", "data"} <= whole.keys():
        try:
            return pd.DataFrame(whole["data"], columns=whole["columns"], dtype=object)
        except (ValueError, TypeError) as e:
            raise DataError(f"{path}: {e}") from None
    has_splits = all(one and (is_rows(one) or isinstance(one, dict) and all(isinstance(cell, list) for cell in one.values())) for one in values)
    if split and not has_splits:
        raise DataError(f"{path}: a file without splits, and {split!r} is asked for")
    if has_splits:
        if split not in whole:
            there = ", ".join(map(visible, whole))
            raise DataError(f"{path}: a file with the splits {there}: name one of them, e.g. {path}:{visible(next(iter(whole)))}")
        return whole[split]
    if all(isinstance(one, dict) for one in values) and not is_retrieval(whole):
        return values if all(map(str.isdigit, whole)) else {name: pd.Series(cells, dtype=object) for name, cells in whole.items()}
    return whole


# ---------------------------------------------------------------- tables in memory

def is_rows(source) -> bool:
    return isinstance(source, list) and all(isinstance(row, dict) for row in source)


def is_retrieval(given) -> bool:
    return isinstance(given, dict) and {"queries", "corpus"} <= given.keys()


def _column(name: str, key, cells) -> list | pd.Series:
    "Raises `DataError` for what is no column, as one of several splits."
    is_table = hasattr(cells, "columns") or hasattr(cells, "column_names")
    if is_table or isinstance(cells, (str, dict)) or not isinstance(cells, Iterable):
        split = f": pass it alone, as in ds[{key!r}]" if is_table else ""
        raise DataError(f"{name}: a list of cells is expected, and {key!r} is a {type(cells).__name__}{split}")
    return cells if isinstance(cells, pd.Series) else list(cells)


def in_memory(name: str, source) -> pd.DataFrame | dict:
    "The same of a table in memory: a data frame, a table of `datasets`, Polars or Arrow, dicts or lists of dicts."
    if is_retrieval(source):
        return source
    if isinstance(source, dict):
        columns = {str(key): _column(name, key, cells) for key, cells in source.items()}
        try:
            source = pd.DataFrame(columns, dtype=object)
        except ValueError as e: # of several lengths
            raise DataError(f"{name}: {e}") from None
    elif is_rows(source):
        source = pd.DataFrame(source, dtype=object)
    elif hasattr(source, "to_pandas"):
        source = source.to_pandas()
    if not isinstance(source, pd.DataFrame):
        got = type(source).__name__
        raise DataError(f"{name}: a path, a data frame, a table or a dict of columns is expected, got {got}")
    return in_order(source.astype(object)).set_axis(list(map(str, source.columns)), axis=1)


def spread(frame: pd.DataFrame) -> pd.DataFrame:
    "Give each cell of lists of two or three a column of its own, named by what it holds."
    for column, cells in frame.items():
        sizes = {len(cell) if isinstance(cell, list) else 0 for cell in cells}
        if sizes <= {2, 3} and len(sizes) == 1:
            wide = pd.DataFrame(cells.tolist(), frame.index, dtype=object)
            has_label = not wide[max(sizes) - 1].map(is_text).any()
            names = ("left", "right", "label") if has_label else ("anchor", "positive", "negative")
            return pd.concat([wide.set_axis(names[:max(sizes)], axis=1), frame.drop(columns=column)], axis=1)
    return frame


def describe_values(cells: pd.Series) -> str:
    "List the values of a column with their counts, in brackets, where they are few."
    counts = cells.map(lambda cell: visible(str(cell)[:30]).strip()).value_counts(sort=False)
    values = ", ".join(f"{value} {count:,}" for value, count in counts.items())
    return f" ({values})" if len(counts) <= min(FEW, len(cells) - 1) else ""


def rows_where(name: str, frame: pd.DataFrame, where: str) -> pd.DataFrame: # where: COLUMN=VALUE
    "Return the rows in which a column has a value."
    column, _, value = where.partition("=")
    if [*frame.columns].count(column) != 1:
        raise DataError(f"{name}: where: COLUMN=VALUE is expected, got {quoted(where)}{nearest(column, frame.columns)}")
    rows = frame[frame[column].map(str).str.strip() == value.strip()]
    if rows.empty:
        raise DataError(f"{name}: no row where {where}{describe_values(frame[column])}")
    note = f"{len(rows):,} of {len(frame):,} rows, where {where}"
    rows.attrs["note"] = "; ".join(filter(None, [frame.attrs.get("note"), note]))
    return rows


# ---------------------------------------------------------------- what a cell is

def is_text(cell) -> bool:
    "Whether a cell is a text that a tokenizer can read."
    return isinstance(cell, str) and bool(SEEN.search(cell)) and not UNREAD.search(cell)


def number_of(cell) -> Decimal | None: # None: it is no number
    text = str(cell).strip().casefold()
    return Decimal(text) if NUMBER.fullmatch(text) else None


def floats(cells: pd.Series) -> pd.Series:
    "Read numbers, nan for what is none; true and false are none."
    def number(cell):
        with suppress(TypeError, ValueError, OverflowError):
            return np.nan if isinstance(cell, (bool, np.bool_)) else float(cell)
        return np.nan

    return cells.map(number).astype(float)


def check(name: str, cells: pd.Series, right, expected: str) -> None: # right: (n,) booleans
    "Raises `DataError` naming file, lines and column of cells that are not right."
    wrong = cells[~np.asarray(right, bool)]
    if wrong.empty:
        return
    bad = [(line, f"column {cells.name!r}: {expected}, found {quoted(cell)}") for line, cell in wrong.items()]
    raise bad_lines(name, bad, len(cells), "rows")


def with_title(title, text) -> str:
    return " ".join(part.strip() for part in (title, text) if isinstance(part, str) and part.strip())


def texts_in(name: str, cells: pd.Series) -> pd.Series: # index: the row, from 0
    "The texts of cells, which may be lists of texts, or of passages with title and text."
    texts = cells.set_axis(range(len(cells))).explode().dropna()
    texts = texts.map(lambda cell: with_title(cell.get("title"), cell.get("text")) if isinstance(cell, dict) else cell)
    check(name, texts.set_axis(cells.index[texts.index]), texts.map(is_text), "a text is expected")
    return texts


def groups_in(name: str, cells: pd.Series) -> pd.Series:
    "Names of groups, which may be missing."
    check(name, cells, ~cells.map(str).str.contains(UNREAD), "a name of a group is expected")
    return cells.map(str).str.strip().where(cells.notna(), "").replace("", "(none)")
