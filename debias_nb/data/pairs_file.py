"""Your own tests. Any source becomes one data frame, whose index is the line; the roles of its columns tell the form:
labeled pairs, queries with candidates, or queries with a corpus. What cannot be read is refused with file, line, column."""
import csv
import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import pandas as pd

from ..checks import ConfigError, nearest, quoted, visible
from ..files import each_key_once, fingerprint, sha256_file
from .pairs import fold
from .registry import DataError, bad_lines

# ---------------------------------------------------------------- what a column is

LEFT = ("left", "sentence1", "question1", "text1", "premise", "sentence_a", "#1 string")
RIGHT = ("right", "sentence2", "question2", "text2", "hypothesis", "sentence_b", "#2 string")
ANCHOR = ("anchor", "query", "question", "user_input")
POSITIVE = (
    "positive", "positives", "pos", "positive_passages", "answer", "answers", "document", "passage", "sentence", "context",
    "reference_contexts")
LABEL = (
    "label", "labels", "score", "scores", "is_duplicate", "gold_label", "similarity_score", "relevance", "grade", "quality")
NEGATIVE = re.compile(r"(hard_)?neg(ative)?s?(_?\d+)?|negative_passages")
QUERY_ID = ("query-id", "query_id", "qid", "query")
TEXT_ID = ("corpus-id", "corpus_id", "docid", "doc_id", "pid", "did", "document")
ROW_ID = re.compile(r".*id|idx|index|unnamed: ?\d+|") # what numbers the rows is no text
ID = ("_id", "id", *TEXT_ID[:5], *QUERY_ID[:3])
TEXT = ("text", "contents", "content", "query", "query_text", "question", "passage", "document")
FORMS = ("pairs", "candidates", "retrieval")
NAME_THEM = "name the columns, e.g. --columns left,right,label or --columns anchor,positive,negative"


@dataclass(frozen=True)
class Columns:
    "Which columns have which role."
    form: str
    left: tuple[str, ...]  # several are joined
    right: tuple[str, ...]
    label: str | None = None
    negatives: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.left, *self.right, *self.negatives, *([self.label] if self.label else []))

    @property
    def told(self) -> str:
        candidates = "triplets" if len(self.negatives) == 1 else "an anchor with several negatives"
        word = {"pairs": "labeled pairs", "retrieval": "matches without labels"}.get(self.form, candidates)
        return f"{word}: {', '.join(self.names)}"


def roles(header: list[str], form: str | None = None) -> list[Columns]: # several: names of several ways to read it
    "The roles of columns: the label by its name, texts by theirs, or by their order where two stand next to a label."
    known = {}
    for name in header:
        known.setdefault(name.casefold(), name)
    labels = [known[name] for name in LABEL if name in known]
    negatives = tuple(name for low, name in known.items() if NEGATIVE.fullmatch(low))
    matches = [(known[one], known[other]) for one in ANCHOR for other in POSITIVE if {one, other} <= known.keys()]
    named = [(known[one], known[other]) for one, other in zip(LEFT, RIGHT) if {one, other} <= known.keys()]
    sides = [((left,), (right,)) for left, right in matches + named]
    if not sides: # of tables that were joined, `left_title` with `right_title`
        texts = [name for low, name in known.items() if not ROW_ID.fullmatch(low)]
        joined = [tuple(name for name in texts if name.casefold().startswith(side)) for side in ("left_", "right_")]
        sides = [joined] if all(joined) else []
    others = [name for low, name in known.items() if name not in labels and not ROW_ID.fullmatch(low)]
    if labels and not sides and len(others) == 2:
        sides = [((others[0],), (others[1],))]
    found = {
        "pairs": [Columns("pairs", *side, label) for side in sides for label in labels],
        "candidates": [Columns("candidates", (one,), (other,), None, negatives) for one, other in matches if negatives],
        "retrieval": [Columns("retrieval", *side) for side in sides if not negatives],
    }
    if found.get(form):
        return found[form]
    return found["pairs"] + found["candidates"] or found["retrieval"][:len(matches)]


def _unknown(name: str, header: list[str]) -> DataError:
    "What is missing where no form is told."
    low = [column.casefold() for column in header]
    wanted = max(zip(LEFT, RIGHT), key=lambda pair: sum(one in low for one in pair))
    if all(one in low for one in wanted):
        advice = f"; if all pairs match, say form='retrieval', or name two columns: --columns {','.join(wanted)}"
        return DataError(f"{name}: no column 'label'{nearest('label', header)}{advice}")
    if {*ANCHOR} & {*low}:
        anchor = header[next(place for place, one in enumerate(low) if one in ANCHOR)]
        near = nearest("positive", [column for column in header if column != anchor])
        why = f"{anchor!r} looks like a column of queries, and there is none of matches, such as 'positive'{near}"
        return DataError(f"{name}: {why}; {NAME_THEM}")
    missing = next(one for one in wanted if one not in low)
    if any(one in low for one in (*wanted, *LABEL)):
        return DataError(f"{name}: no column {missing!r}{nearest(missing, header)}; {NAME_THEM}")
    shown = ", ".join(quoted(column) for column in header[:6])
    why = f"no column 'left': the first line names no column that is known ({shown}). A file needs a header"
    return DataError(f"{name}: {why}; {NAME_THEM}")


# ---------------------------------------------------------------- a source as a frame

FORMATS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet") # of tables
ENDINGS = (*FORMATS, ".txt") # each may be followed by .gz
TAB = "\t"
DELIMITERS = {",": "commas", ";": "semicolons", TAB: "tabs", "|": "vertical bars"}
UNREAD = re.compile(r"[\0\ud800-\udfff]") # by a tokenizer: NUL, and half of a character
LINE_END = re.compile("\r\n|\r|\n") # no other character ends a line
LONGEST = 2**28 # bytes of a line, or of a cell
AGAIN = "write the file again as UTF-8"
csv.field_size_limit(LONGEST)
DECODER = json.JSONDecoder(object_pairs_hook=each_key_once)


def ending(path: str | os.PathLike) -> str: # `.csv` of `new.CSV.gz`
    return Path(Path(path).name.lower().removesuffix(".gz")).suffix


def folder_and_split(source: str | os.PathLike) -> tuple[Path, str | None]: # `FOLDER` or `FOLDER:dev`
    before, colon, split = str(source).rpartition(":")
    if colon and split and not Path(source).exists() and Path(before).is_dir():
        return Path(before), split
    return Path(source), None


def check_file(path: str | os.PathLike) -> None:
    "Raises `DataError` for a name with another ending, and for a file that is not there. A folder may have any name."
    path, _ = folder_and_split(path)
    if UNREAD.search(str(path)):
        raise DataError(f"{quoted(str(path))}: the name holds NUL or bytes that are no UTF-8")
    try:
        is_folder = path.is_dir()
    except OSError as e: # a name that is too long
        raise DataError(f"{quoted(str(path))}: {e.strerror}") from None
    if is_folder and ending(path) not in ENDINGS:
        return
    if ending(path) not in ENDINGS:
        known = ", ".join(ENDINGS)
        raise DataError(f"{path}: the name must end in one of {known}, with or without .gz, or be that of a folder")
    if not path.exists():
        near = [other.name for other in path.parent.glob("*")]
        raise DataError(f"{path}: no such file{nearest(path.name, near) if near else ''}")
    if not path.is_file():
        raise DataError(f"{path}: a file is expected, which can be read twice")


def decoded(path: Path) -> str:
    "A text without the mark before it. Raises `DataError` naming the line that is not UTF-8."
    try:
        with (gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb")) as file:
            pieces = []
            while piece := file.read(LONGEST):
                pieces.append(piece)
                if len(piece) == LONGEST and b"\n" not in piece and b"\r" not in piece:
                    raise DataError(f"{path}: a line of more than {LONGEST:,} bytes")
        data = b"".join(pieces)
        text = data.decode("utf-8").lstrip("\ufeff")
    except (EOFError, gzip.BadGzipFile, zlib.error) as e:
        raise DataError(f"{path}: the file is damaged, or not packed with gzip ({e})") from None
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise DataError(f"{path}:{line}: not UTF-8 ({e.reason}); {AGAIN}") from None
    if "\0" in text.partition("\n")[0]:
        raise DataError(f"{path}:1: NUL stands between the characters, as in UTF-16; {AGAIN}")
    return text


QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def _unquoted(cell: str) -> str: # between tabs, where other quotation marks are but letters
    quoted = QUOTED.fullmatch(cell)
    return quoted[1].replace('""', '"') if quoted else cell


def _cells(path: Path, text: str, delimiter: str) -> tuple[list[int], list[list[str]]]:
    "The line where each row begins, and its cells."
    lines, rows = [], []
    if delimiter == "\t":
        for number, line in enumerate(LINE_END.split(text), 1):
            if line:
                lines.append(number)
                rows.append([_unquoted(cell) for cell in line.split("\t")] if '"' in line else line.split("\t"))
        return lines, rows
    whole = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", text) if "\x85" in text else text.splitlines(keepends=True)
    reader = csv.reader(whole, delimiter=delimiter, strict=True)
    begins = 1
    try:
        for row in reader:
            if row:
                lines.append(begins)
                rows.append(row)
            begins = reader.line_num + 1
    except csv.Error as e:
        raise DataError(f"{path}:{begins}: {e}") from None
    return lines, rows


def _delimited(path: Path, wanted) -> tuple[pd.DataFrame, str]: # a frame of texts, and what is unusual
    "CSV and TSV: between the cells stands what gives the most known columns, else the most cells."
    text = decoded(path)
    usual = "," if ending(path) == ".csv" else "\t"
    told = re.match(r"sep=(.)[\r\n]+", text) # as Excel says it
    text = "\n" + text[told.end():] if told else text
    header = next((line for line in LINE_END.split(text) if line.strip()), "")
    heads = {}
    for sign in (usual, *DELIMITERS):
        heads[sign] = [name.strip() for name in next(csv.reader([header], delimiter=sign), [])]
    delimiter = told[1] if told else max(heads, key=lambda sign: (wanted(heads[sign]), len(heads[sign])))
    lines, rows = _cells(path, text, delimiter)
    if len(rows) < 2:
        return pd.DataFrame(), ""
    names = [name.strip() for name in rows[0]]
    ragged = [(line, len(row)) for line, row in zip(lines, rows) if len(row) != len(names)]
    if ragged:
        bad = [(line, f"{count} cells, the header has {len(names)}") for line, count in ragged]
        why = ". Between tabs a cell holds no tab and no line break: write such texts as CSV or JSONL"
        raise DataError(f"{bad_lines(path, bad, len(rows) - 1)}{why if delimiter == TAB else ''}")
    note = f"{DELIMITERS.get(delimiter, repr(delimiter))} stand between its cells" if delimiter != usual else ""
    return pd.DataFrame(rows[1:], lines[1:], names, dtype=object), note


def _objects(path: Path, text: str) -> list[tuple[int, object]]: # line, value of JSON
    "The values of a file, one below the other or in one list."
    is_list = bool(re.match(r"\s*\[\s*[{\]]", text))
    at, line, counted, found = 0, 1, 0, []
    at = text.index("[") + 1 if is_list else 0
    while True:
        at = re.compile(r"[\s,]*").match(text, at).end()
        line, counted = line + text.count("\n", counted, at), at
        if at == len(text) or is_list and text[at] == "]":
            break
        try:
            value, at = DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as e:
            why = "too many brackets" if isinstance(e, RecursionError) else getattr(e, "msg", e)
            raise DataError(f"{path}:{getattr(e, 'lineno', line)}: {why}") from None
        found.append((line, value))
    if is_list and text[at:].strip() != "]":
        raise DataError(f"{path}:{line}: the list of objects is not closed, or something stands behind it")
    return found


def _read(path: Path, wanted):
    "A frame whose index is the line, or a dict with queries and a corpus; and what is unusual."
    check_file(path)
    if ending(path) == ".parquet":
        import pyarrow.parquet as pq
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read()
            columns = [column.to_pylist() for column in table.columns]
        except MemoryError:
            raise
        except Exception as e: # whatever reading makes of damage
            raise DataError(f"{path}: {(str(e) or type(e).__name__).splitlines()[0]}") from None
        rows = pd.concat([pd.Series(cells, dtype=object) for cells in columns], axis=1) if columns else pd.DataFrame()
        return rows.set_axis(table.column_names, axis=1).set_axis(range(1, len(rows) + 1)), ""
    if ending(path) in (".csv", ".tsv", ".txt"):
        return _delimited(path, wanted)
    found = _objects(path, decoded(path))
    wrong = [(line, type(value).__name__) for line, value in found if not isinstance(value, dict)]
    if wrong:
        raise bad_lines(path, [(line, f"an object is expected, found {kind}") for line, kind in wrong], len(found))
    if len(found) == 1 and ending(path) == ".json":
        return _in_memory(str(path), found[0][1]), ""
    lines, rows = zip(*found) if found else ((), ())
    forms = {}
    for header, line in {tuple(row): line for line, row in reversed(found)}.items():
        for is_of in roles(list(header))[:1]:
            forms[is_of.form] = min(forms.get(is_of.form, (line, "")), (line, is_of.told))
    if len(forms) > 1 and not wanted(["\0"]): # no columns were named
        (first, usual), (line, told), *_ = sorted(forms.values())
        raise DataError(f"{path}:{line}: rows of two forms: {told}; in line {first} {usual}")
    return pd.DataFrame(list(rows), list(lines), dtype=object), ""


def _is_rows(source) -> bool:
    return isinstance(source, list) and all(isinstance(row, dict) for row in source)


def _is_table(source) -> bool:
    return hasattr(source, "columns") or hasattr(source, "column_names") or _is_rows(source) and len(source) > 0


def _joined(name: str, columns: dict) -> pd.DataFrame:
    "Columns side by side: lists, columns of `datasets` or Arrow by place, dicts and series by key; cells alone are a row."
    if not columns:
        return pd.DataFrame()
    if not all(isinstance(cells, Iterable) and not isinstance(cells, (str, bytes)) for cells in columns.values()):
        return pd.DataFrame([columns], dtype=object)
    found = {}
    for key, cells in columns.items():
        if hasattr(cells, "to_pylist"):
            cells = cells.to_pylist()
        elif not isinstance(cells, (dict, pd.Series)):
            cells = list(cells)
        found[str(key)] = pd.Series(cells, dtype=object)
    if len({len(cells) for cells in found.values()}) > 1:
        lengths = ", ".join(f"{key} {len(cells):,}" for key, cells in found.items())
        raise DataError(f"{name}: columns of one length are expected, found {lengths}")
    (one, first), *others = found.items()
    for key, cells in others:
        if cells.index.equals(first.index):
            continue
        if not first.index.is_unique or {*cells.index} != {*first.index}:
            raise DataError(f"{name}: the keys of column {key!r} are not those of column {one!r}")
        found[key] = cells.reindex(first.index)
    return pd.DataFrame(found, dtype=object)


def _in_memory(name: str, source):
    "The same of a table in memory: a data frame, a table of `datasets`, Polars or Arrow, dicts or lists of dicts."
    if isinstance(source, dict):
        if is_retrieval(source):
            return source
        tables = [value for value in source.values() if _is_table(value)]
        if tables and len(tables) == len(source):
            if len(tables) > 1:
                splits = ", ".join(map(str, source))
                raise DataError(f"{name}: {len(source)} splits, {splits}: pass one of them, e.g. ds[{[*source][-1]!r}]")
            return _in_memory(name, tables[0])
        source = _joined(name, source)
    elif _is_rows(source):
        source = pd.DataFrame(source, dtype=object)
    elif hasattr(source, "to_pandas"):
        source = source.to_pandas()
    if not isinstance(source, pd.DataFrame):
        got = type(source).__name__
        raise DataError(f"{name}: a path, a data frame, a table or a dict of columns is expected, got {got}")
    return source.astype(object).set_axis(range(1, len(source) + 1)).set_axis(list(map(str, source.columns)), axis=1)


# ---------------------------------------------------------------- what a cell is

SEEN = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]") # has width on paper
NUMBER = re.compile(r"[-+]?(?=[0-9]|\.[0-9])[0-9]*\.?[0-9]*(e[-+]?[0-9]{1,3})?") # 1, 1.00 or 1.000e+00
FROM_PANDAS = "; pandas and datasets make that of NA, null and None: pass the path of the file instead"


def is_text(cell) -> bool:
    "Whether a cell is a text that a tokenizer can read."
    return isinstance(cell, str) and bool(SEEN.search(cell)) and not UNREAD.search(cell)


def number_of(cell) -> Decimal | None: # None: it is no number
    text = str(cell).strip().casefold()
    return Decimal(text) if NUMBER.fullmatch(text) else None


def check(name: str, cells: pd.Series, right, expected: str) -> None: # right: (n,) booleans
    "Raises `DataError` naming file, lines and column of cells that are not right."
    right = np.asarray(right, bool)
    if right.all():
        return
    wrong = cells[~right]
    bad = [(line, f"column {cells.name!r}: {expected}, found {quoted(cell)}") for line, cell in wrong.items()]
    emptied = all(pd.api.types.is_scalar(cell) and pd.isna(cell) for cell in wrong) and not os.path.exists(name)
    raise DataError(f"{bad_lines(name, bad, len(cells), 'rows')}{FROM_PANDAS if emptied else ''}")


def texts_in(name: str, cells: pd.Series) -> pd.Series:
    "The texts of cells, which may be lists of texts, or of passages with title and text; the index says of which row."
    texts = cells if cells.map(type).eq(str).all() else cells.explode()
    texts = texts[texts.notna()]
    texts = texts.map(lambda cell: with_title(cell.get("title"), cell.get("text")) if isinstance(cell, dict) else cell)
    check(name, texts, texts.map(is_text), "a text is expected")
    return texts


def with_title(title, text) -> str:
    return " ".join(part.strip() for part in (title, text) if isinstance(part, str) and part.strip())


def one_text(name: str, frame: pd.DataFrame, columns: tuple[str, ...]) -> pd.Series:
    "The texts of a side; several columns are joined."
    texts = frame[columns[0]]
    if len(columns) > 1:
        filled = frame[list(columns)].map(lambda cell: "" if cell is None or cell != cell else str(cell).strip())
        texts = filled.agg(lambda row: " ".join(filter(None, row)), axis=1).rename(" + ".join(columns))
    check(name, texts, texts.map(is_text), "a text is expected")
    if len(texts) and pd.to_numeric(texts, errors="coerce").notna().all(): # as ids are
        first = repr(texts.iloc[0])
        raise DataError(f"{name}: column {texts.name!r} holds numbers alone (the first is {first}); {NAME_THEM}")
    return texts


# ---------------------------------------------------------------- labeled pairs

def labels_of(name: str, cells: pd.Series, asked: "Reading") -> tuple[pd.Series, dict[str, int]]:
    "Labels by what was asked for: 0 or 1, nan where a pair is left out; and how many are."
    kinds = {cell: number_of(cell) for cell in set(map(str, cells))}
    words = {cell: cell.strip().casefold() for cell in kinds}
    wanted = str(asked.match).strip().casefold()
    known, why, expected = {}, "", "labels are 0 or 1"
    if asked.match is not None:
        number = number_of(wanted)
        unlabeled = {"", "-", "none", "nan"} - {wanted}
        for cell, word in words.items():
            same = kinds[cell] == number if None not in (number, kinds[cell]) else word == wanted
            known[cell] = np.nan if word in unlabeled else same
        why = "pairs without a label"
    elif asked.match_from is not None:
        expected = "a grade is expected"
        least = asked.match_from if asked.other_to is None else asked.other_to
        for cell, grade in kinds.items():
            if grade is not None:
                between = asked.other_to is not None and least < grade < asked.match_from
                known[cell] = np.nan if between else grade >= asked.match_from
        why = f"pairs with a grade between {least:g} and {asked.match_from:g}"
    else:
        known = {cell: word == "true" for cell, word in words.items() if word in ("true", "false")}
        known |= {cell: number for cell, number in kinds.items() if number in (0, 1)}
    texts = cells.map(str)
    try:
        check(name, cells, texts.isin(known), expected)
    except DataError as e:
        raise DataError(f"{e}{_advice(kinds) if asked.match_from is None else ''}") from None
    found = texts.map(known).astype(float)
    return found, {why: int(found.isna().sum())} if found.isna().any() else {}


def _advice(kinds: dict) -> str: # of cells their numbers
    "How labels that are none of 0 and 1 can be read."
    numbers = {*kinds.values()}
    if numbers == {-1, 1}:
        return "; labels of -1 and 1 are read by --match 1 (match=1)"
    if None not in numbers:
        return grades_advice(numbers)
    named = sorted(filter(None, map(str.strip, kinds)))
    if not 0 < len(named) <= 10:
        return ""
    there = ", ".join(map(quoted, named))
    return f"; they are {there}: say which one is a match, --match {named[-1]} (match={named[-1]!r})"


def grades_advice(numbers) -> str:
    "A threshold that lets grades be read, with some on both sides: the first one above the middle."
    grades = sorted({float(number) for number in numbers})
    upper = [grade for grade in grades if 2 * grade > grades[0] + grades[-1]]
    if not upper:
        return ""
    least = str(upper[0]).removesuffix(".0")
    told = f"; grades are read by --match-from {least} (match_from={least})"
    lower = grades[:grades.index(upper[0])]
    if len(lower) < 2:
        return told
    return f"{told}, and --other-to {str(lower[-2]).removesuffix('.0')} where those between are left out"


def _pairs(name: str, frame: pd.DataFrame, columns: Columns, asked: "Reading"):
    if isinstance(frame[columns.left[0]].iloc[0], (list, np.ndarray)): # a row of lists, as in older sets of MTEB
        frame = frame.explode(list(columns.names))
    left, right = one_text(name, frame, columns.left), one_text(name, frame, columns.right)
    labels, left_out = labels_of(name, frame[columns.label], asked)
    found = pd.DataFrame({"left": left, "right": right, "label": labels, "line": frame.index}, dtype=object)
    found = found.assign(group=_groups(name, frame, asked)) if asked.group else found
    found = found[labels.notna()].reset_index(drop=True).astype({"label": int, "line": int})
    if found.empty:
        told = ", ".join(f"{count:,} {what}" for what, count in left_out.items())
        raise DataError(f"{name}: none of {len(frame):,} pairs is left: {told}")
    if found.label.nunique() < 2:
        there = ", ".join(map(quoted, sorted({*map(str, frame[columns.label])})[:8]))
        told = "" if asked.match is None else f" (match is {asked.match!r}, labels are {there})"
        raise DataError(f"{name}: all {len(found):,} labels are {found.label.max()}; both classes are needed{told}")
    return found, None, left_out


def _groups(name: str, frame: pd.DataFrame, asked: "Reading") -> pd.Series:
    cells = frame[asked.group]
    check(name, cells, ~cells.map(str).str.contains(UNREAD), "a name of a group is expected")
    return cells.map(str).str.strip().where(cells.notna(), "").replace("", "(none)")


# ---------------------------------------------------------------- queries with candidates, or with the matches of all

def _long(name: str, frame: pd.DataFrame, columns: Columns, asked: "Reading") -> pd.DataFrame:
    "A row a query and text, positives first: row, left, right, label, line, group."
    rows = frame.set_axis(range(len(frame))) # lists are taken apart by row: several rows may begin in one line
    left = one_text(name, frame, columns.left)
    parts = []
    for label, side in ((1, columns.right), (0, columns.negatives)):
        for column in side:
            cells = texts_in(name, frame[column])
            exploded = rows[column] if len(cells) == len(rows) else rows[column].explode()
            parts.append(pd.DataFrame({"row": exploded.dropna().index, "right": cells.to_numpy(), "label": label}))
    matched = parts[0].row.unique()
    check(name, frame[columns.right[0]], np.isin(np.arange(len(frame)), matched), "a query without a match")
    found = pd.concat(parts).sort_values(["row", "label"], ascending=[True, False], kind="stable")
    found.insert(1, "left", left.to_numpy()[found.row])
    found["line"] = frame.index.to_numpy()[found.row]
    return found.assign(group=_groups(name, frame, asked).to_numpy()[found.row]) if asked.group else found


def _candidates(name: str, frame: pd.DataFrame, columns: Columns, asked: "Reading"):
    found = _long(name, frame, columns, asked)
    twice = found.duplicated(["row", "right", "label"])
    found = found[~twice]
    good = pd.MultiIndex.from_frame(found[found.label == 1][["left", "right"]])
    matching = (found.label == 0) & pd.MultiIndex.from_frame(found[["left", "right"]]).isin(good)
    found = found[~matching]
    with_negative = found.row.isin(found.row[found.label == 0])
    counts = {
        "negatives that match the same query": int(matching.sum()), "texts that stand twice in a row": int(twice.sum()),
        "queries without a negative": len(frame) - found.row[with_negative].nunique()}
    found = found[with_negative].reset_index(drop=True)
    if found.empty:
        raise DataError(f"{name}: no query with a negative")
    found["query"] = pd.factorize(found.row)[0]
    return found.drop(columns="row"), None, {what: n for what, n in counts.items() if n}


def _matches(name: str, frame: pd.DataFrame, columns: Columns, asked: "Reading"):
    found = _long(name, frame, columns, asked)
    place, corpus = pd.factorize(found.right)
    itself = found.left == found.right
    twice = found.duplicated(["left", "right"]) & ~itself
    at = pd.Index(corpus).get_indexer(found.left)
    found = found.assign(document=place, itself=at)[~itself & ~twice]
    if found.empty:
        raise DataError(f"{name}: no pair of two different texts")
    first = pd.factorize(found.left)[0]
    found = found.assign(query=first).sort_values("query", kind="stable").reset_index(drop=True).drop(columns="row")
    counts = {"pairs of a text with itself": int(itself.sum()), "pairs that stand twice": int(twice.sum())}
    return found, corpus.tolist(), {what: n for what, n in counts.items() if n}


# ---------------------------------------------------------------- queries, a corpus and judgments

HELD = { # what a folder holds, and words of the names
    "judgments": ("qrels", "qrel"), "queries": ("queries", "query", "topics"), "corpus": ("corpus", "collection"),
    "data": ("default", "data"),
}
SPLITS = ("test", "dev", "validation", "val", "train")
HOLDS = "a folder of queries holds files called corpus, queries and qrels, as BEIR writes them"
MOST = 10**6 # of a grade
NO_MATCH = "such queries are left out by --match-from 1 (match_from=1)"


def tolerated(count: int) -> int: # of judgments or queries
    "How many may be left out for what is wrong with them: one in a hundred, as in sets that are published."
    return round(count / 100)


def is_retrieval(given) -> bool:
    return isinstance(given, dict) and {"queries", "corpus"} <= given.keys()


def as_id(cell) -> str | None: # None: it is none; 7 and "7" are one id, 0042 and 42 are two
    if isinstance(cell, (int, np.integer)) and not isinstance(cell, bool):
        return str(cell)
    return (cell.strip() or None) if isinstance(cell, str) else None


def _column(frame: pd.DataFrame, names) -> str | None:
    return next((name for name in names if name in frame), None)


def _bare(path: Path) -> pd.DataFrame: # cells between tabs, else spaces; columns are numbers
    lines = {number: line for number, line in enumerate(LINE_END.split(decoded(path)), 1) if line.strip()}
    rows = [line.split(TAB if TAB in line else None) for line in lines.values()]
    filled = zip(*zip_longest(*rows)) # short rows with None
    return pd.DataFrame(list(filled), [*lines], dtype=object)


def _texts(name: str, frame: pd.DataFrame, what: str) -> pd.DataFrame:
    "Texts by id: columns text, bare (without the title), line and further ones."
    one, text = _column(frame, ID), _column(frame, TEXT)
    if frame.empty:
        raise DataError(f"{name}: no {what}")
    if not (one and text):
        there = ", ".join(map(repr, frame.columns[:8]))
        raise DataError(f"{name}: ids and texts are expected, in columns such as _id and text; found {there}")
    ids = frame[one].map(as_id)
    check(name, frame[one], ids.notna(), "an id is expected")
    check(name, frame[text], frame[text].map(lambda cell: cell is None or isinstance(cell, str)), "a text is expected")
    titles = frame["title"] if "title" in frame else [None] * len(frame)
    whole = list(map(with_title, titles, frame[text]))
    return frame.assign(line=frame.index, bare=frame[text], text=whole).set_index(ids)


def _judgments(name: str, frame: pd.DataFrame) -> pd.DataFrame: # query, document, grade; index: line
    if not len(frame.columns):
        raise DataError(f"{name}: no judgments")
    query, document = _column(frame, QUERY_ID), _column(frame, TEXT_ID)
    if not (query and document):
        there = ", ".join(map(repr, frame.columns[:8]))
        raise DataError(f"{name}: judgments are expected, in columns such as query-id, corpus-id and score; found {there}")
    grade = _column(frame, ("score", "relevance", "rel", "label", "grade"))
    ids = {"query": frame[query].map(as_id), "document": frame[document].map(as_id)}
    return pd.DataFrame(ids | {"grade": frame[grade] if grade else 1})


def _judgment_file(path: Path) -> pd.DataFrame:
    if ending(path) not in (".tsv", ".txt", ".qrels", ".qrel"):
        return _judgments(str(path), _read(path, len)[0])
    frame = _bare(path)
    if frame.shape[1] == 6:
        why = "six cells, as in a TREC run; judgments have four: query, 0, document, grade"
        raise DataError(f"{path}:{frame.index[0]}: {why}")
    if not frame.empty and number_of(frame.iloc[0].dropna().iloc[-1]) is None: # a header
        frame = frame.iloc[1:].set_axis(frame.iloc[0], axis=1)
    else:
        names = {3: ["query-id", "corpus-id", "score"], 4: ["query-id", "0", "corpus-id", "score"]}
        frame = frame.set_axis(names.get(frame.shape[1], frame.columns), axis=1)
    short = frame.isna().any(axis=1)
    if short.any() or frame.shape[1] > 4:
        line = frame.index[short][0] if short.any() else frame.index[0]
        raise DataError(f"{path}:{line}: 3 or 4 cells are expected, query, document and grade")
    return _judgments(str(path), frame)


def _folder(path: Path, split: str | None, asked: "Reading"):
    "Files by the words of their names; of those with the same role the ones with the fewest other words."
    found = []
    for file in sorted(path.rglob("*")):
        place = file.relative_to(path)
        words = re.findall(r"[^\W\d_]+|\d+", place.as_posix().lower())
        role = next((role for role, names in HELD.items() if {*names} & {*words}), None)
        if role and file.is_file() and not any(part.startswith(".") for part in place.parts):
            part = next((one for one in SPLITS if one in words), None)
            if part is None and role == "judgments" and file.parent != path:
                part = file.name.partition(".")[0]
            others = [word for word in words if word not in (*HELD[role], part, ending(file)[1:], "gz")]
            readable = ending(file) in (*ENDINGS, ".qrels", ".qrel") and not UNREAD.search(place.as_posix())
            found.append((role, part, (not readable, len(others)), file))
    files, alone = {}, []
    for role, part, others, file in found:
        if others > min(one[2] for one in found if one[:2] == (role, part)):
            alone.append(visible(file.relative_to(path).as_posix()))
        else:
            files.setdefault(role, {}).setdefault(part, []).append(file)
    files.setdefault("judgments", files.get("data", {}))
    missing = [what for what in ("corpus", "queries") if what not in files]
    if missing or not files["judgments"]:
        there = ", ".join(sorted(file.name for file in path.iterdir())[:8])
        raise DataError(f"{path}: no {' and no '.join(missing or ['judgments'])} among its files ({there}); {HOLDS}")
    known = files["judgments"]
    told = ", ".join(sorted(filter(None, known)))
    if split is None:
        split = next(iter(known)) if len(known) == 1 else "test" if "test" in known else None
    if split not in known:
        if split:
            raise DataError(f"{path}: no judgments of a split {split!r}; there are {told}")
        first = told.partition(",")[0]
        raise DataError(f"{path}: judgments of the splits {told}: name one of them, e.g. {path}:{first}")
    def of(role):
        if role == "judgments":
            return known[split]
        return files[role].get(split) or files[role].get(None) or sum(files[role].values(), [])
    tables = {}
    for role, what in (("queries", "queries"), ("corpus", "texts")):
        parts = []
        for file in of(role):
            bare = _bare(file) if ending(file) in (".tsv", ".txt") else pd.DataFrame()
            has_header = bare.empty or {*ID} & {*bare.iloc[0]}
            if not has_header and (bare.shape[1] != 2 or bare.isna().any(axis=None)):
                raise DataError(f"{file}: an id and a text are expected in each line, with a tab between")
            table = _read(file, len)[0] if has_header else bare.set_axis(["id", "text"], axis=1)
            parts.append(_texts(str(file), table, what))
        tables[role] = pd.concat(parts)
        tables[role].attrs["name"] = ", ".join(map(str, of(role)))
    used = [*of("queries"), *of("corpus"), *of("judgments")]
    found = pd.concat([_judgment_file(file) for file in of("judgments")])
    name = ", ".join(map(str, of("judgments")))
    rows, corpus, left_out = judged(name, tables["queries"], tables["corpus"], found, asked)
    note = f"read as queries, corpus and judgments{f' of the split {split}' if split else ''}"
    return rows, corpus, left_out, used, "; ".join([note, *([f"left alone: {', '.join(alone)}"] if alone else [])])


def _dicts(name: str, given: dict, asked: "Reading"):
    key = next((one for one in ("relevant_docs", "qrels", "relevance", "default") if one in given), None)
    if key is None:
        raise DataError(f"{name}: queries and corpus without relevant_docs")
    def texts(role):
        of = given[role]
        if isinstance(of, dict) and all(isinstance(text, (str, dict)) or text is None for text in of.values()):
            of = [{"id": one, **(text if isinstance(text, dict) else {"text": text})} for one, text in of.items()]
        table = _in_memory(name, of)
        if isinstance(given[role], dict) and _is_rows(of):
            table = table.set_axis([str(row["id"]) for row in of])
        found = _texts(f"{name}: {role}", table, "texts")
        found.attrs["name"] = f"{name}: {role}"
        return found
    queries, corpus = texts("queries"), texts("corpus")
    of = given[key]
    if isinstance(of, dict):
        rows, places = [], {one: place for place, one in enumerate(corpus.index)}
        for query, documents in of.items():
            if not isinstance(documents, Iterable) or isinstance(documents, str):
                documents = [documents]
            graded = documents if isinstance(documents, dict) else dict.fromkeys(documents, 1)
            in_order = sorted(graded, key=lambda one: places.get(as_id(one), -1))
            rows += [(query, as_id(query), as_id(one), graded[one]) for one in in_order]
        found = pd.DataFrame(rows, columns=["line", "query", "document", "grade"]).set_index("line")
    else:
        found = _judgments(f"{name}: {key}", _in_memory(name, of))
    rows, texts, left_out = judged(f"{name}: {key}", queries, corpus, found, asked)
    return rows.assign(line=range(1, len(rows) + 1)), texts, left_out, [], f"read as queries, corpus and {key}"


def judged(name: str, queries: pd.DataFrame, corpus: pd.DataFrame, found: pd.DataFrame, asked: "Reading"):
    """Queries with their relevant texts; queries and corpus by id, `found` has query, document and grade. Raises `DataError`
    naming lines of unknown ids, of what is no grade, and of a query without a relevant text."""
    def refuse(wrong, told, more=""):
        bad = [(line, told(row)) for line, row in found[np.asarray(wrong, bool)].iterrows()]
        if bad:
            raise DataError(f"{bad_lines(name, bad, len(found), 'judgments')}{more}")
    for table in (queries, corpus):
        again = table.index.duplicated()
        if again.any():
            one, row = table.index[again][0], table[again].iloc[0]
            before = table["line"].loc[one].iloc[0]
            raise DataError(f"{table.attrs['name']}:{row['line']}: the id {one!r} stands twice, first in line {before}")
    grade = pd.to_numeric(found.grade.map(number_of)).astype(float)
    refuse(grade.isna() | (grade.abs() > MOST), lambda row: f"a grade is expected, found {quoted(row.grade)}")
    least = 1 if asked.match_from is None else asked.match_from
    if asked.match_from is None:
        advice = grades_advice(grade)
        refuse(grade % 1 != 0, lambda row: f"grades are whole numbers, found {quoted(row.grade)}{advice}")
    no_query, no_text = ~found["query"].isin(queries.index), ~found.document.isin(corpus.index)
    readable = {"query": {*queries.index[queries.text.map(is_text)]}, "document": {*corpus.index[corpus.text.map(is_text)]}}
    both = found["query"].isin(readable["query"]) & found.document.isin(readable["document"])
    empty = (grade >= least) & ~no_query & ~no_text & ~both
    def told(row):
        if row["query"] not in queries.index:
            return f"query {quoted(row['query'])} is not in {queries.attrs['name']}"
        if row.document not in corpus.index:
            return f"text {quoted(row.document)} is not in {corpus.attrs['name']}"
        at, table = (row.document, corpus) if row["query"] in readable["query"] else (row["query"], queries)
        return f"a text is expected in {table.attrs['name']}:{table.line[at]}, found {quoted(table.text[at])}"
    flawed = no_query | no_text | empty
    if flawed.sum() > tolerated(len(found)):
        refuse(flawed, told, "; up to one in a hundred would be left out")
    flaws = {
        "judgments of a query that is not there": no_query.sum(),
        "judgments of a text that is not there": (no_text & ~no_query).sum(),
        "judgments of a query or text that has nothing to read": empty.sum()}
    found, grade = found[~flawed], grade[~flawed]
    found = found.assign(grade=grade, line=found.index)
    twice = found.duplicated(["query", "document"])
    first = found[~twice].set_index(["query", "document"])
    other = first.loc[list(zip(found["query"], found.document))]
    apart = other.grade.to_numpy() != grade.to_numpy()
    def told_twice(row):
        before = first.line[row["query"], row.document]
        return f"query {row['query']!r} and text {row.document!r} are judged twice, with another grade in line {before}"
    refuse(apart, told_twice)
    kept = found[~twice]
    relevant = kept.grade >= least
    one = kept["query"]
    same = queries.text.str.split().str.join(" ")
    itself = pd.Series(corpus.index.get_indexer(queries.index), queries.index)
    for at in np.flatnonzero(itself >= 0):
        text = corpus.iloc[itself.iloc[at]]
        if same.iloc[at] not in (" ".join(text.text.split()), " ".join(str(text.bare).split())):
            itself.iloc[at] = -1
    place = corpus.index.get_indexer(kept.document)
    own = relevant & (place == itself[one].to_numpy())
    answered = relevant.groupby(one).transform("any")
    if asked.match_from is None and one[~answered].nunique() > tolerated(one.nunique()):
        row = kept[~answered].iloc[0]
        grades = f"none of its {(one == row['query']).sum():,} grades is 1 or more"
        raise DataError(f"{name}:{row.line}: query {quoted(row['query'])} has no relevant text: {grades}; {NO_MATCH}")
    readable = corpus.text.map(is_text)
    below = f"judgments with a grade below {least:g}{', from nDCG too,' if (relevant < (kept.grade > 0)).any() else ''}"
    counts = flaws | {
        "judgments that stand twice": twice.sum(), below: (~relevant).sum(), "judgments of a query's own text": own.sum(),
        f"queries without a grade of {least:g} or more": one[~answered].nunique(),
        "queries without a judgment": len(queries) - one.nunique(),
        "texts of the corpus that have nothing to read": (~readable).sum()}
    kept = kept[relevant & ~own].assign(document=place[relevant & ~own])
    if kept.empty:
        raise DataError(f"{name}: no query with a relevant text")
    kept["at"] = queries.index.get_indexer(kept["query"])
    kept = kept.sort_values("at", kind="stable")
    moved = readable.cumsum().to_numpy() - 1
    own_place = itself[kept["query"]].to_numpy()
    own_place = np.where((own_place >= 0) & readable.to_numpy()[own_place], moved[own_place], -1)
    frame = pd.DataFrame({
        "left": queries.text.to_numpy()[kept["at"]], "right": corpus.text.to_numpy()[kept.document],
        "line": kept.line.to_numpy(),
        "label": np.maximum(1, kept.grade).astype(int).to_numpy() if (grade % 1 == 0).all() else 1})
    frame["query"] = pd.factorize(kept["at"])[0]
    frame["document"], frame["itself"] = moved[kept.document], own_place
    if asked.group:
        if asked.group not in queries:
            raise DataError(f"{queries.attrs['name']}: no column {asked.group!r}")
        frame["group"] = queries[asked.group].to_numpy()[kept["at"]]
    return frame, corpus.text[readable].tolist(), {what: int(n) for what, n in counts.items() if n}


def copies_told(frame: pd.DataFrame, corpus: list[str] | None) -> str:
    "How many texts count as wrong answers that read like the right one; nothing where none does."
    def alike(texts):
        return pd.Series([" ".join(text.casefold().split()) for text in texts], dtype=object)
    if "query" not in frame:
        return ""
    text = alike(frame.right)
    if corpus is None:
        right = frame.label == 1
        matches = pd.MultiIndex.from_arrays([frame["query"][right], text[right]])
        count = (~right & pd.MultiIndex.from_arrays([frame["query"], text]).isin(matches)).sum()
        return f"{count:,} negatives are the match of their query but for case and spaces" if count else ""
    relevant = text.groupby([frame["query"], text]).transform("size")
    count = (relevant < text.map(alike(corpus).value_counts())).sum()
    return f"{count:,} relevant texts stand in the corpus again, where they are not judged relevant" if count else ""


# ---------------------------------------------------------------- what a reader gives

@dataclass(frozen=True, eq=False)
class PairFile:
    "Labeled pairs, candidates of queries or relevant texts, and where they come from."
    name: str           # what messages and the page call them
    frame: pd.DataFrame # columns `left`, `right`, `label`, `line`, and `group` where one was asked for
    sha256: str         # of the file, or the files of a folder; of the rows where they came as a data frame
    columns: tuple[str, ...] = ("left", "right", "label") # what the file calls its columns; none of a folder
    path: str | None = None # as it was given; None for a data frame
    group: str | None = None # what the file calls the column of groups
    note: str = "" # how it was read, and what is unusual in how it is written
    form: str = "pairs" # one of `FORMS`; candidates have `query` too, retrieval `query`, `document` and `itself`
    corpus: list[str] | None = None # of retrieval: every text that is searched
    left_out: dict[str, int] = field(default_factory=dict) # what was left out, in words -> how many

    def __len__(self):
        return len(self.frame)

    @property
    def left(self) -> list[str]:
        return self.frame.left.tolist()

    @property
    def right(self) -> list[str]:
        return self.frame.right.tolist()

    @property
    def labels(self) -> np.ndarray: # (rows,) 0 or 1; of retrieval the grade, 1 or more
        return self.frame.label.to_numpy()

    @cached_property
    def folded(self) -> tuple[list[str], list[str]]: # of each row left and right; case, spaces and punctuation apart
        return tuple([fold(text, True) for text in texts] for texts in (self.left, self.right))

    @cached_property
    def rows_sha256(self) -> str: # 64 hex digits
        "sha256 of what was read: the same file read by other columns has another one."
        read = [self.left, self.right, self.labels.tolist()]
        if "group" in self.frame:
            read.append(self.frame.group.tolist())
        if self.form != "pairs":
            places = [self.frame[name].tolist() for name in ("query", "document", "itself") if name in self.frame]
            read += [self.form, *places, self.corpus]
        return fingerprint(read)


@dataclass(frozen=True)
class Reading:
    "What was asked for, apart from the file. Raises `DataError` for options that do not go together."
    columns: tuple[str, ...] | None
    group: str | None
    form: str | None
    match: object
    match_from: float | None
    other_to: float | None

    def __post_init__(self):
        if self.form not in (None, *FORMS):
            raise DataError(f"form: one of {', '.join(FORMS)} is expected, got {quoted(self.form)}")
        if self.match is not None and self.match_from is not None:
            raise DataError("match and match_from: one of them says what a match is, got both")
        for option in ("match_from", "other_to"):
            value = getattr(self, option)
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value != value):
                raise DataError(f"{option}: a number is expected, got {quoted(value)}")
        if self.other_to is not None and (self.match_from is None or self.other_to >= self.match_from):
            raise DataError("other_to: it needs match_from, and must be below it")
        names = [*(self.columns or []), *([self.group] if self.group else [])]
        if self.columns is not None and (len(self.columns) < 2 or len(set(names)) < len(names)):
            needed = "three different names are needed, left, right and label, or two, anchor and positive"
            raise DataError(f"columns: {needed}, got {', '.join(names)}")

    def wanted(self, header: list[str]) -> int:
        "How many columns of a header are those that were asked for, else have a role."
        if self.columns:
            return len({*self.columns} & {*header}) if header != ["\0"] else 1
        return max((len(found.names) for found in roles(header, self.form)), default=0)

    def check_form(self, name: str, form: str, told: str, graded: bool) -> None:
        if self.form not in (None, form):
            raise DataError(f"{name}: form {self.form!r} is asked for, and it looks like {form!r} ({told})")
        for option, is_there in (("match", form == "pairs"), ("match_from", graded), ("other_to", form == "pairs")):
            if getattr(self, option) is not None and not is_there:
                raise DataError(f"{name}: {option} is given, and there are no labels that it could read ({told})")

    @property
    def told(self) -> str:
        if self.match is not None:
            return f"a match is labeled {self.match}"
        return "" if self.match_from is None else f"a match has a grade of {self.match_from:g} or more"


def _columns(name: str, frame: pd.DataFrame, asked: Reading) -> Columns:
    "The roles of columns: as they were named, else by their names."
    header = list(frame.columns)
    ways = roles([column for column in header if column != asked.group], asked.form)
    if asked.columns is None and not ways:
        raise _unknown(name, header)
    if asked.columns is None and len(ways) > 1:
        readings = f"as {ways[0].told}, or as {ways[1].told}"
        first = ",".join(ways[0].names)
        raise DataError(f"{name}: its columns can be read in several ways, {readings}; name them, e.g. --columns {first}")
    found = next(iter(ways), None)
    advice = "name the columns of one file by --columns NAME=left,right,label"
    if found and asked.columns and not {*asked.columns} <= {*header}:
        advice = f"by its columns it looks like {found.told}"
    for column in [*(asked.columns or found.names), *([asked.group] if asked.group else [])]:
        if header.count(column) > 1:
            raise DataError(f"{name}: {header.count(column)} columns are called {column!r}")
        if UNREAD.search(column):
            raise DataError(f"{name}: the name of column {quoted(column)} cannot be printed")
        if column not in header:
            raise DataError(f"{name}: no column {column!r}{nearest(column, header)}; {advice}")
    if asked.columns is None:
        return found
    left, right, *others = asked.columns
    if not others and asked.form != "retrieval": # the label by its name
        others = [column for column in header if column.casefold() in LABEL and column not in asked.columns]
        if len(others) > 1:
            there = " and ".join(map(repr, others))
            advice = f"name one of them, --columns {left},{right},{others[0]}"
            raise DataError(f"{name}: the columns {there} may hold labels; {advice}")
    if not others:
        return Columns("retrieval", (left,), (right,))
    third = others[0].casefold()
    labels = asked.form == "pairs" or asked.match is not None or asked.match_from is not None or third in LABEL
    long = frame[others[0]].map(lambda cell: isinstance(cell, list) or " " in str(cell).strip())
    texts = not labels and (NEGATIVE.fullmatch(third) or long.mean() > .5)
    if asked.form == "candidates" or len(others) > 1 or texts:
        return Columns("candidates", (left,), (right,), None, tuple(others))
    return Columns("pairs", (left,), (right,), others[0])


class Tabular(Protocol):
    "A table of `datasets`, Polars or Arrow."
    def to_pandas(self) -> object: ...


Source: TypeAlias = str | Path | pd.DataFrame | Tabular | list[dict] | dict | PairFile # as `read_pairs_file` takes it
OF_FORM = {"pairs": _pairs, "candidates": _candidates, "retrieval": _matches}


@pd.option_context("mode.string_storage", "python") # which takes half of a character, so that its line can be told
def read_pairs_file(
    source: Source, columns: tuple[str, ...] | None = None, group: str | None = None, name: str | None = None, *,
    form: str | None = None, match: str | int | None = None, match_from: float | None = None, other_to: float | None = None,
) -> PairFile:
    """Read a test or training data: labeled pairs, candidates of queries, or retrieval.

    The names of the columns tell which one it is:

    - labeled pairs: two texts and a label, which is told by its name (`label`, `labels`, `score`, `is_duplicate`, ...);
      texts by theirs (`left, right`, `sentence1, sentence2`, `question, answer`, ...), else by their order, where there are
      two; or `left_*` and `right_*` with a label;
    - candidates: `anchor, positive, negative` (and `negative_1`, ...), also with lists; `query, pos, neg`; `query,
      positive_passages, negative_passages`;
    - retrieval: a folder with `corpus`, `queries` and `qrels`, as BEIR, MTEB and TREC write them (`FOLDER:dev` for another
      split than `test`); `queries`, `corpus` and `relevant_docs` in one file of JSON or in a dict; or `anchor, positive`
      alone, where all positives are searched. Up to one judgment in a hundred may name what is not there: these are left
      out and counted.

    Parameters
    ----------
    source : str, Path, table, dict or PairFile
        A folder, or a file that ends in .csv, .tsv, .jsonl, .ndjson, .json, .parquet or .txt, packed with gzip or not, in UTF-8
        and with a header, whose cells may also stand between semicolons, tabs or vertical bars. Or a data frame, a table of
        `datasets`, Polars or Arrow, a list of dicts, a dict of lists, or a dict with queries, corpus and relevant_docs.
        A `PairFile` is given back as it is.
    columns : tuple of str, optional
        What the file calls its columns, where the names do not tell: left text, right text and label; anchor, positive and
        negatives; or two texts, next to a label that is told by its name, else anchor and positive. A label is 0 or 1, also
        written 1.00 or true.
    group : str, optional
        A column that says what kind of pair each one is; of a folder a column of its queries.
    name : str, optional
        What messages call a table; a file is called by its path.
    form : {"pairs", "candidates", "retrieval"}, optional
        The form that is expected; another one is an error.
    match : str or int, optional
        The label of a match, where labels are words, or -1 and 1; all other labels say that a pair is none.
    match_from : float, optional
        The grade from which on a pair is a match, or a text relevant.
    other_to : float, optional
        The grade up to which a pair is no match; pairs between are left out and counted. Default: all below `match_from`.

    Returns
    -------
    PairFile
        The rows, with the line of the file where each begins.

    Raises
    ------
    DataError
        Naming file, line and column of what is no text or no label; where a column or a class is missing, or columns can be
        read in several ways; where many judgments name what is not there, or many queries have no relevant text.

    Examples
    --------
    >>> import pandas as pd
    >>> from debias_nb import read_pairs_file
    >>> rows = pd.DataFrame({"left": ["an egg", "a mole"], "right": ["eggs", "planes"], "label": [1, 0]})
    >>> file = read_pairs_file(rows)
    >>> len(file), file.labels.tolist()
    (2, [1, 0])
    >>> file = read_pairs_file([{"anchor": "an egg", "positive": "eggs", "negative": "planes"}])
    >>> file.form, file.frame["query"].tolist(), file.labels.tolist()
    ('candidates', [0, 0], [1, 0])
    """
    if isinstance(source, PairFile):
        return source
    given = columns.split(",") if isinstance(columns, str) else columns
    asked = Reading(tuple(given) if given else None, group or None, form, match, match_from, other_to)
    path = str(source) if isinstance(source, (str, os.PathLike)) else None
    label, note, used = path or name or "data frame", "", []
    if path:
        at, split = folder_and_split(path)
        check_file(path)
        name = at.name if at.is_dir() else Path(at.name.removesuffix(".gz")).stem
    if path and at.is_dir():
        asked.check_form(label, "retrieval", "queries, a corpus and judgments", True)
        frame, corpus, left_out, used, note = _folder(at, split, asked)
        found = None
    else:
        table, note = _read(at, asked.wanted) if path else (_in_memory(name or "pairs", source), "")
        if is_retrieval(table):
            asked.check_form(label, "retrieval", "queries, a corpus and judgments", True)
            label = path or name or "queries"
            frame, corpus, left_out, used, note = _dicts(label, table, asked)
            found = None
        else:
            if table.empty:
                raise DataError(f"{label}: no pairs")
            found = _columns(label, table, asked)
            asked.check_form(label, found.form, found.told, found.form == "pairs")
            frame, corpus, left_out = OF_FORM[found.form](label if path else name or "pairs", table, found, asked)
            if found.form != "pairs" or not asked.columns and found.names != ("left", "right", "label"):
                note = "; ".join(filter(None, [note, f"read as {found.told}"]))
    if used:
        sha256 = fingerprint({file.relative_to(at).as_posix(): sha256_file(file) for file in used})
    elif path:
        sha256 = sha256_file(path)
    else:
        sha256 = fingerprint([frame.to_numpy().tolist(), corpus])
    note = "; ".join(filter(None, [note, asked.told, copies_told(frame, corpus)]))
    names, form = (found.names, found.form) if found else ((), "retrieval")
    return PairFile(name or label, frame, sha256, names, path, group, note, form, corpus, left_out)


# ---------------------------------------------------------------- what the command line gives

def named_tests(given: list[str], option: str = "--test") -> dict[str, str]: # of `NAME=PATH`
    "Files and folders by name, which are there. Raises `ConfigError` naming the option, and `DataError`."
    tests = {}
    for text in given:
        name, sign, path = text.partition("=")
        if not (name and sign and path):
            raise ConfigError(f"{option} wants NAME=PATH, got {text!r}")
        if name in tests:
            raise ConfigError(f"{option} {name} is given twice")
        check_file(path)
        tests[name] = path
    return tests


def columns_by_name(given: list[str]) -> tuple[tuple[str, ...] | None, dict[str, tuple[str, ...]]]:
    "Columns of all files that are not named, and by the name of a file, of `a,b,c` or `NAME=a,b,c`. Raises `ConfigError`."
    found = {}
    for text in given:
        name, sign, names = text.rpartition("=")
        columns = tuple(part.strip() for part in names.split(","))
        if (sign and not name) or len(columns) < 2 or not all(columns):
            raise ConfigError(f"--columns wants names separated by commas, or NAME=names, got {text!r}")
        if (name or None) in found:
            raise ConfigError(f"--columns {name} is given twice")
        found[name or None] = columns
    return found.pop(None, None), found


def texts_file(source: str | os.PathLike) -> tuple[Path, str | None]: # source: a path, or `table.csv:column`
    "A file of texts that is there, and the column that holds them; None: one text a line. Raises `DataError`."
    before, colon, behind = str(source).rpartition(":")
    path, column = Path(source), "text"
    if colon and not path.exists() and ending(before) in FORMATS:
        path, column = Path(before), behind
    if ending(path) in FORMATS:
        check_file(path)
        return path, column
    if not path.is_file():
        why = "a file is expected, which can be read twice" if path.exists() else "no such file"
        raise DataError(f"texts of {path}: {why}")
    return path, None


def _looks_like_rows(lines: list[str]) -> bool:
    "Whether lines are objects of JSON, begin with a header, or all have as many cells, and none after a space."
    if all(line.strip()[0] + line.strip()[-1] == "{}" for line in lines):
        return True
    for sign in DELIMITERS:
        rows = list(csv.reader(lines, delimiter=sign))
        header = {cell.strip().casefold() for cell in rows[0]}
        if len(header) > 1 and header & {"text", *ID, *LABEL, *LEFT, *RIGHT}:
            return True
        after_space = any(cell[:1] == " " for row in rows for cell in row[1:])
        if len(header) > 1 and {len(row) for row in rows} == {len(rows[0])} and not after_space:
            return True
    return False


@pd.option_context("mode.string_storage", "python")
def read_texts_file(source: str | os.PathLike) -> list[str]: # source: as of `texts_file`
    "Texts without labels; lines with nothing to be seen are left out. Raises `DataError` naming the file."
    path, column = texts_file(source)
    if column is None:
        lines = [line for line in LINE_END.split(decoded(path)) if SEEN.search(line)]
        if len(lines) > 1 and _looks_like_rows(lines[:1_000]):
            advice = "call it .csv, .tsv or .jsonl, as in new.csv:column"
            raise DataError(f"texts of {path}: its lines look like rows of a table; {advice}")
        return lines
    table, _ = _read(path, lambda header: column in header)
    if column not in table:
        if table.empty and not len(table.columns):
            raise DataError(f"texts of {path}: no texts")
        advice = f"name the column that holds the texts, as in {path}:COLUMN"
        raise DataError(f"{path}: no column {column!r}{nearest(column, list(table.columns))}; {advice}")
    check(str(path), table[column], table[column].map(is_text), "a text is expected")
    return table[column].tolist()
