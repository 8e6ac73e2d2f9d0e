"""Your tests and training pairs, by the rule that sentence-transformers has for data sets.

The order of the columns counts, not their names; `label`, `labels`, `score` or `scores` is the label. Two texts and a
label are labeled pairs; two texts alone an anchor and its positive, to be found among all positives; further texts are
negatives of their row. A folder with corpus, queries and qrels, as BEIR and MTEB have it, is retrieval.
"""
import ast
import os
import re
import shlex
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import pandas as pd

from ..bars import with_bar
from ..checks import ConfigError, check_range, closest, counted, on_one_line, quoted, visible
from ..data.pairs import fold
from ..data.registry import DataError, bad_lines
from ..data.tables import is_text, named_labels, read_table
from ..files import fingerprint, sha256_file

LABELS = ("label", "labels", "score", "scores") # of sentence-transformers' data collator, in its order
READING = ("columns", "match", "match_from") # how a file is read
RULE = (
    "The order of columns counts, as in sentence-transformers: two texts and a label; anchor, positive and perhaps "
    "negatives; nothing else may stand there")
FEW_LOST = .01 # of judgments, that may name what is not there
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class PairFile:
    "Labeled pairs, candidates of queries or relevant texts, and where they come from."
    name: str           # what messages and the page call them
    frame: pd.DataFrame # columns `left`, `right`, `label`, `line`
    sha256: str         # of the file, or the files of a folder; of the rows where they came in memory
    columns: tuple[str, ...] = ("left", "right", "label") # what the file calls its columns; none of a folder
    path: str | None = None # as it was given; None: in memory
    note: str = ""
    form: str = "pairs" # or candidates, retrieval; candidates have `query` too, retrieval `query`, `document` and `itself`
    corpus: list[str] | None = None # of retrieval: every text that is searched
    left_out: dict[str, int] = field(default_factory=dict) # what was left out, in words -> how many
    reading: dict = field(default_factory=dict) # of `READING` what was given

    def __len__(self):
        return len(self.frame)

    @property
    def summary(self) -> str:
        "What was read, in words."
        matches = int((self.labels > 0).sum())
        if self.form == "pairs":
            what = f"{len(self):,} labeled pairs, {matches:,} of them matches"
        else:
            what = f"{self.frame['query'].nunique():,} queries with {matches:,} relevant texts"
            what += f" among {len(self.corpus or self):,}" if self.form == "retrieval" else (
                f" and {len(self) - matches:,} negatives")
        columns = f" (columns {', '.join(map(visible, self.columns))})" if self.columns else ""
        parts = [f"{counted(count, reason)} left out" for reason, count in self.left_out.items()]
        return "; ".join([what + columns, *filter(None, [self.note]), *parts])

    @property
    def left(self) -> list[str]:
        return self.frame.left.tolist()

    @property
    def right(self) -> list[str]:
        return self.frame.right.tolist()

    @property
    def labels(self) -> np.ndarray: # (rows,) 0 or 1; of retrieval the grade, 1 or more
        return self.frame.label.to_numpy()

    def with_frame(self, frame: pd.DataFrame, reason: str = "") -> "PairFile": # reason: why fewer rows are left
        "Return the file with other rows. Raise `DataError` where one class alone is left."
        if not reason:
            return replace(self, frame=frame)
        count = len(self) - len(frame)
        if frame.label.nunique() < 2:
            raise DataError(f"{self.name}: {count:,} {reason}: without them there is one class alone")
        return replace(self, frame=frame, left_out=self.left_out | {reason: count})

    def dataset(self, labeled: bool = True): # a `datasets.Dataset`
        """Return the rows as a trainer of sentence-transformers takes them: with labels, or the matches alone.

        Each match then has as many negatives, if any, as the row with the fewest."""
        from datasets import Dataset
        if labeled:
            rows = self.frame[["left", "right", "label"]].astype({"label": float})
            return Dataset.from_pandas(rows, preserve_index=False)
        matches = self.frame[self.frame.label > 0]
        rows = matches[["left", "right"]].reset_index(drop=True)
        if self.form == "candidates":
            negatives = self.frame[self.frame.label == 0].groupby("query").right.agg(list)
            for number in range(int(negatives.str.len().min())):
                rows[f"negative_{number + 1}"] = matches["query"].map(negatives.str[number]).to_numpy()
        return Dataset.from_pandas(rows, preserve_index=False)

    @cached_property
    def folded(self) -> tuple[list[str], list[str]]: # of each row left and right; case, spaces and punctuation apart
        keys = {text: fold(text, True) for text in {*self.left, *self.right}} # texts stand in several pairs
        return tuple([keys[text] for text in texts] for texts in (self.left, self.right))

    @cached_property
    def rows_sha256(self) -> str: # 64 hex digits
        "sha256 of what was read: the same file read by other columns has another one."
        content = [self.left, self.right, self.labels.tolist()]
        if self.form != "pairs":
            places = [self.frame[name].tolist() for name in ("query", "document", "itself") if name in self.frame]
            content += [self.form, *places, self.corpus]
        return fingerprint(content)


class Tabular(Protocol):
    "A table of `datasets`, Polars or Arrow."
    def to_pandas(self) -> object: ...


Source: TypeAlias = str | Path | pd.DataFrame | Tabular | PairFile # as `read_pairs_file` takes it


@pd.option_context("mode.string_storage", "python") # which takes half of a character, so that its line can be told
def read_pairs_file(
    source: Source, columns: tuple[str, ...] | str | None = None, name: str | None = None, *,
    match: str | int | None = None, match_from: float | None = None,
) -> PairFile:
    """Read a test or training data: labeled pairs, triplets, or retrieval.

    The order of the columns counts and not their names, as in data sets of sentence-transformers; `label`, `labels`,
    `score` or `scores` is the label. Two texts and a label are labeled pairs. Two texts alone are an anchor and its
    positive, which is to be found among all positives. Further texts are negatives.

    Parameters
    ----------
    source : str, Path, DataFrame, Dataset or PairFile
        A file (.csv, .tsv, .jsonl, .parquet), a folder that `datasets` has written (FOLDER:SPLIT), or one with
        `corpus`, `queries` and `qrels`, as BEIR and MTEB have it (FOLDER:SPLIT). In memory a table.
    columns : tuple of str, optional
        The columns that are read, in this order: texts, then the label, which is told by its name, or by numbers or
        few values in it.
    name : str, optional
        What messages call a table; a file is called by its path.
    match : str or int, optional
        The label of a match, where labels are words, or -1 and 1; all other labels say that a pair is none.
    match_from : float, optional
        The grade from which on a pair is a match, or a text relevant.

    Raises
    ------
    DataError
        For columns that do not fit the rule, with those that the table has; for what is no text or no label, naming
        rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from debias_nb import read_pairs_file
    >>> pairs = pd.DataFrame({"one": ["an egg", "a mole"], "other": ["two eggs", "two planes"], "label": [1, 0]})
    >>> file = read_pairs_file(pairs)
    >>> len(file), file.labels.tolist()
    (2, [1, 0])
    >>> triplets = pd.DataFrame({"anchor": ["an egg"], "positive": ["two eggs"], "negative": ["two planes"]})
    >>> read_pairs_file(triplets).form
    'candidates'
    """
    if isinstance(source, PairFile):
        return source
    if match is not None and match_from is not None:
        raise DataError("match and match_from: give one of them to say what a match is, got both")
    if match_from is not None:
        check_range("match_from", match_from, -inf, inf, "neither")
    names = tuple(columns.split(",") if isinstance(columns, str) else map(str, columns or ()))
    reading = {option: value for option, value in zip(READING, (names, match, match_from)) if value not in (None, ())}
    if isinstance(source, (str, os.PathLike)):
        table, files, place = read_table(str(source))
        if not isinstance(table, dict):
            table.attrs["is_file"] = True
        title, path = str(source), str(source)
        short = place.name if place.is_dir() else Path(place.name.removesuffix(".gz")).stem
        sha256 = (sha256_file(files[0]) if not place.is_dir()
                  else fingerprint({file.relative_to(place).as_posix(): sha256_file(file) for file in files}))
    else:
        title, path, table = name or "pairs", None, as_table(name or "pairs", source)
        short, sha256 = name or "data frame", None
    rows = (_retrieval(title, table, match_from) if isinstance(table, dict)
            else _rows(title, table, names, match, match_from))
    file = replace(rows, name=short, path=path, reading=reading)
    return replace(file, sha256=sha256 or file.rows_sha256)


def as_table(title: str, source) -> pd.DataFrame:
    "Return a table in memory as a frame of objects, with names of classes in place of their numbers."
    frame = source if isinstance(source, pd.DataFrame) else getattr(source, "to_pandas", lambda: None)()
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"{title}: a path, a data frame or a Dataset is expected, got {quoted(source)}")
    frame = frame.astype(object).set_axis(range(1, len(frame) + 1)).set_axis([*map(str, frame.columns)], axis=1)
    return named_labels(frame, getattr(source, "features", None) or {})


# ---------------------------------------------------------------- columns

def _is_number(cell) -> bool:
    return isinstance(cell, (bool, np.bool_)) or bool(NUMBER.fullmatch(str(cell).strip())) or str(cell).strip(
        ).casefold() in ("true", "false")


def _is_list(cell) -> bool: # also one that was written as text
    if not isinstance(cell, str):
        return isinstance(cell, (list, tuple, dict, set, np.ndarray))
    if not cell.strip().startswith(("['", '["', "{'", '{"')):
        return False
    try:
        return isinstance(ast.literal_eval(cell.strip()), (list, dict))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False


def _has_few_values(cells: pd.Series) -> bool:
    return 10 * cells.map(str).nunique() <= len(cells)


def _why_no_text(cells: pd.Series) -> str: # "" for texts
    "Explain why a column holds no texts: lists, numbers and dates, or ids."
    present = cells[cells.map(lambda cell: isinstance(cell, str) and bool(cell.strip()) or _is_list(cell))]
    if present.map(_is_list).any():
        return "lists"
    words = present.map(str)
    if 2 * words.map(lambda text: any(map(str.isalpha, text))).sum() <= len(words):
        return "no texts"
    return "ids" if words.is_unique and not words.str.strip().str.contains(r"\s").any() and len(words) > 1 else ""


def roles(title: str, table: pd.DataFrame, columns: tuple[str, ...], has_match: bool) -> tuple[list[str], str | None]:
    "Return the columns of texts, and the label if there is one. Raise `DataError` for what does not fit the rule."
    header = [*table.columns]
    for column in columns or header:
        if header.count(column) != 1:
            raise DataError(f"{title}: one column {column!r} is expected, found {header.count(column)} among "
                            f"{', '.join(map(visible, header[:8]))}{closest(column, header)}")
    texts = list(columns or header)
    label = next((name for name in LABELS if name in texts), None)
    if label is None and columns and len(texts) > 2 and (
            has_match or table[texts[-1]].map(_is_number).all() or _has_few_values(table[texts[-1]])):
        label = texts[-1]
    if label is not None:
        texts.remove(label)
    reasons = {column: _why_no_text(table[column]) for column in texts}
    if columns: # who names a column of ids as a text means it
        reasons = {column: "" if reason == "ids" else reason for column, reason in reasons.items()}
    reasons |= {column: "few values" for column in texts[2:] if _has_few_values(table[column]) and not reasons[column]}
    if len(texts) < 2 or any(reasons.values()) or label is not None and len(texts) > 2 or len({*texts}) < len(texts):
        names = ", ".join(visible(column) + f" ({reason})" * bool(reason) for column, reason in (
            (column, reasons.get(column)) for column in header[:8]))
        raise DataError(f"{title}: its columns are {names}. {RULE}.{_advice(title, table, reasons, label, columns)}")
    return texts, label


def _advice(title: str, table: pd.DataFrame, reasons: dict[str, str], label: str | None, columns) -> str:
    "Name the two columns with the longest texts and the label, as an option that works; nothing where there are none."
    if "lists" in reasons.values():
        column = next(column for column, reason in reasons.items() if reason == "lists")
        is_written = bool(table[column].map(lambda cell: isinstance(cell, str)).all())
        first = f" read {visible(column)} by ast.literal_eval, and" * is_written
        return f" A cell holds one text:{first} give each text of a list a row of its own (frame.explode)."
    lengths = {column: table[column].map(lambda cell: len(str(cell))).mean() for column, reason in reasons.items()
               if not reason}
    longest = sorted(lengths, key=lengths.get)[-2:]
    texts = [column for column in lengths if column in longest]
    few = [column for column in reasons if table[column].nunique() > 1 and (
        _has_few_values(table[column]) or table[column].map(_is_number).all() and table[column].nunique() == 2)]
    behind = [column for column in few if texts and [*reasons].index(column) > [*reasons].index(texts[-1])]
    labels = [label] if label else (behind or few)[:1]
    chosen = texts + labels
    if columns or len(longest) < 2 or any("," in column or column != column.strip() for column in chosen):
        return ""
    advice = f" Name those to read: {_option(table, 'columns', ','.join(chosen))}"
    if labels and not _numbers(table[labels[0]]).isin([0, 1]).all():
        advice += f", and a label that is a match: {_option(table, 'match', 'VALUE')} ({_values(table[labels[0]])})"
    return advice


def _option(table: pd.DataFrame, name: str, value: str) -> str:
    "Write an option as its source takes it: of a command for a file, of Python for a table in memory."
    if table.attrs.get("is_file"):
        return f"--{name.replace('_', '-')} {shlex.quote(value)}"
    return f"{name}={value!r}"


def refuse(title: str, lines, wrong, rule: str, cells, advice: str = "") -> None: # wrong: (n,) booleans
    "Raise `DataError` naming the lines of what is wrong."
    bad = [(line, f"{rule}, found {quoted(cell)}") for line, cell, is_bad in zip(lines, cells, wrong) if is_bad]
    if bad:
        raise DataError(f"{bad_lines(title, bad, len(wrong), 'rows')}{advice}")


# ---------------------------------------------------------------- rows

def _rows(title: str, table: pd.DataFrame, columns: tuple[str, ...], match, match_from) -> PairFile:
    if table.empty:
        raise DataError(f"{title}: no pairs")
    texts, label = roles(title, table, columns, match is not None or match_from is not None)
    form = "pairs" if label else "candidates" if len(texts) > 2 else "retrieval"
    if form != "pairs" and (match, match_from) != (None, None):
        raise DataError(f"{title}: match and match_from read labels, and no column is called one of "
                        f"{', '.join(LABELS)}; name it last in columns")
    names = (*texts, label) if label else tuple(texts)
    for column in texts[:2]:
        refuse(title, table.index, ~table[column].map(is_text), f"column {column!r}: a text is expected", table[column])
    if label:
        return _labeled(title, table, texts, label, match, match_from)
    parts = []
    for column in texts[1:]:
        cells = table[column].reset_index(drop=True)
        cells = cells[cells.map(lambda cell: not pd.isna(cell) and bool(str(cell).strip()))] # a row may lack negatives
        parts.append(pd.DataFrame({"row": cells.index, "right": cells.to_numpy(), "label": int(column == texts[1])}))
    rows = pd.concat(parts).sort_values(["row", "label"], ascending=[True, False], kind="stable")
    anchors = table[texts[0]].to_numpy()
    rows = rows.assign(left=anchors[rows.row], line=np.asarray(table.index)[rows.row])
    refuse(title, rows.line, ~rows.right.map(is_text), "a text is expected", rows.right)
    frame, left_out, corpus = (_candidates if form == "candidates" else _matches)(rows)
    if frame.empty:
        raise DataError(f"{title}: no pair is left ({'; '.join(f'{count} {what}' for what, count in left_out.items())})")
    return PairFile(title, frame.reset_index(drop=True), "", names, form=form, corpus=corpus,
                    left_out={what: int(count) for what, count in left_out.items() if count})


def _labeled(title: str, table, texts, label: str, match, match_from) -> PairFile:
    labels = _labels(title, table, label, match, match_from)
    frame = pd.DataFrame({"left": table[texts[0]], "right": table[texts[1]], "label": labels, "line": table.index})
    note = f"a match is labeled {match}" * (match is not None)
    if match_from is not None:
        note = f"a match has a grade of {match_from:g} or more"
    if labels.nunique() < 2:
        raise DataError(f"{title}: both classes are needed, and all {len(labels):,} labels are {labels.iloc[0]}"
                        f"{f' ({note})' * bool(note)}: column {label!r} has {_values(table[label])}")
    return PairFile(title, frame.reset_index(drop=True), "", (*texts, label), note=note)


def _words(cells: pd.Series) -> pd.Series:
    return cells.map(lambda cell: str(cell).strip().casefold())


def _numbers(cells: pd.Series) -> pd.Series: # nan for what is none
    return pd.to_numeric(_words(cells).replace({"true": "1", "false": "0"}), errors="coerce")


def _values(cells: pd.Series) -> str:
    "List the values of labels with how often they occur."
    return ", ".join(f"{quoted(word)} {count:,} times" for word, count in _words(cells).value_counts()[:8].items())


def _labels(title: str, table, column: str, match, match_from) -> pd.Series: # (rows,) 0 or 1
    words, numbers = _words(table[column]), _numbers(table[column])
    refuse(title, table.index, words.isin(["", "-", "none", "nan"]), f"column {column!r}: a label is expected",
           table[column], "; leave out the pairs without one")
    if match is not None:
        wanted = str(match).strip().casefold()
        return ((words == wanted) | (numbers == pd.to_numeric(wanted, errors="coerce"))).astype(int)
    if match_from is not None:
        refuse(title, table.index, numbers.isna(), f"column {column!r}: a grade is expected", table[column])
        return (numbers >= match_from).astype(int)
    advice = f"; they are {_values(table[column])}. Say which is a match: {_option(table, 'match', 'VALUE')}"
    if numbers.notna().all():
        advice += f", or from which one on: {_option(table, 'match_from', 'VALUE')}"
    refuse(title, table.index, ~numbers.isin([0, 1]), f"column {column!r}: labels are 0 or 1", table[column], advice)
    return numbers.astype(int)


def _candidates(rows: pd.DataFrame) -> tuple[pd.DataFrame, dict, None]:
    queries = rows.row.nunique()
    is_copy = rows.duplicated(["row", "right", "label"])
    rows = rows[~is_copy]
    pairs = pd.MultiIndex.from_frame(rows[["left", "right"]])
    is_match = (rows.label == 0) & pairs.isin(pairs[rows.label == 1])
    rows = rows[~is_match]
    rows = rows[rows.label.groupby(rows.row).transform("min") == 0]
    frame = rows.assign(query=pd.factorize(rows.row)[0]).drop(columns="row")
    return frame, {"negatives with the text of a match": is_match.sum(),
                   "texts with the text of another in their row": is_copy.sum(),
                   "queries without a negative": queries - rows.row.nunique()}, None


def _matches(rows: pd.DataFrame) -> tuple[pd.DataFrame, dict, list[str]]:
    rows = rows.drop(columns="row")
    rows["document"], corpus = pd.factorize(rows.right)
    rows["itself"] = pd.Index(corpus).get_indexer(rows.left)
    is_itself = rows.left == rows.right
    is_copy = rows.duplicated(["left", "right"]) & ~is_itself
    rows = rows[~is_itself & ~is_copy]
    frame = rows.assign(query=pd.factorize(rows.left)[0]).sort_values("query", kind="stable")
    return frame, {"pairs of a text with itself": is_itself.sum(),
                   "pairs with the texts of another": is_copy.sum()}, [*corpus]


# ---------------------------------------------------------------- queries, corpus and judgments

def _by_id(title: str, texts: pd.DataFrame) -> pd.DataFrame: # index: the id; text, and bare without the title
    "Return texts by id, of a table with `_id`, `text` and perhaps `title`."
    key = next((name for name in ("_id", "id") if name in texts), None)
    if key is None or "text" not in texts:
        raise DataError(f"{title}: columns _id and text are expected, found {', '.join(map(str, texts.columns[:8]))}")
    bare = texts["text"].fillna("").astype(str).str.strip()
    title_of = texts["title"].fillna("").astype(str).str.strip() if "title" in texts else ""
    frame = pd.DataFrame({"text": (title_of + " " + bare).str.strip() if "title" in texts else bare, "bare": bare})
    frame.index = texts[key].map(str).str.strip()
    contradicts = frame.groupby(level=0).text.transform("nunique") > 1
    if contradicts.any():
        raise DataError(f"{title}: the id {frame.index[contradicts][0]!r} occurs with two texts")
    return frame[~frame.index.duplicated() & frame.text.map(is_text).to_numpy()]


def _retrieval(title: str, source: dict[str, pd.DataFrame], match_from: float | None) -> PairFile:
    "Read queries, a corpus and judgments."
    least = 1 if match_from is None else match_from
    queries, corpus = (_by_id(f"{title}: {role}", source[role]) for role in ("queries", "corpus"))
    judged = source["relevant_docs"]
    if not {"query-id", "corpus-id", "score"} <= {*judged}:
        raise DataError(f"{title}: judgments are expected, in columns query-id, corpus-id, score")
    grades = pd.to_numeric(judged.score, errors="coerce")
    refuse(title, judged.index, grades.isna(), "a grade is expected", judged.score)
    rows = pd.DataFrame({
        "asks": queries.index.get_indexer(judged["query-id"].map(str).str.strip()),
        "document": corpus.index.get_indexer(judged["corpus-id"].map(str).str.strip()), "grade": grades,
        "line": judged.index})
    is_lost = (rows.asks < 0) | (rows.document < 0)
    if is_lost.sum() > round(FEW_LOST * len(rows)):
        first = judged[is_lost.to_numpy()].iloc[0]
        raise DataError(f"{title}: {is_lost.sum():,} of {len(rows):,} judgments name a query or a text that is not "
                        f"there, the first is {first['query-id']!r}, {first['corpus-id']!r}")
    rows = rows[~is_lost].drop_duplicates(["asks", "document", "grade"])
    refuse(title, rows.line, rows.duplicated(["asks", "document"]), "one grade of a text is expected", rows.grade)
    place = corpus.index.get_indexer(queries.index)
    entry = corpus.iloc[place]
    is_same = [query.split() in (text.split(), bare.split())
               for query, text, bare in zip(queries.text, entry.text, entry.bare)]
    itself = np.where((place >= 0) & is_same, place, -1)
    is_relevant = rows.grade >= least
    is_own = is_relevant & (rows.document == itself[rows.asks])
    kept = rows[is_relevant & ~is_own].sort_values("asks", kind="stable").reset_index(drop=True)
    if kept.empty:
        raise DataError(f"{title}: no query with a relevant text")
    whole = (rows.grade % 1 == 0).all()
    asked = queries.iloc[kept.asks]
    frame = pd.DataFrame({
        "left": asked.text.to_numpy(), "right": corpus.text.to_numpy()[kept.document], "line": kept.line,
        "label": kept.grade.clip(lower=1).astype(int) if whole else 1, "query": kept.asks.factorize()[0],
        "document": kept.document, "itself": itself[kept.asks]})
    left_out = {"judgments of what is not there": is_lost.sum(), f"judgments with a grade below {least:g}":
                (~is_relevant).sum(), "judgments of a query's own text": is_own.sum(),
                "queries without a relevant text": len(queries) - kept.asks.nunique()}
    return PairFile(title, frame, "", (), form="retrieval", corpus=corpus.text.tolist(),
                    left_out={what: int(count) for what, count in left_out.items() if count})


# ---------------------------------------------------------------- several files

def check_names(option: str, files) -> None:
    "Check that there are files, by names that can be printed. Raise `DataError`."
    if not isinstance(files, dict) or not all(is_text(name) and name == on_one_line(name) for name in files):
        raise DataError(f"{option}: files by name are expected, e.g. {option}={{'new': 'new.csv'}}, got "
                        f"{quoted(files)}")
    if not files:
        raise DataError("no test: at least one is needed, e.g. tests={'new': 'new.csv'}")
    if "train" in files:
        raise DataError("a test is called 'train', which is the name of the training file")


def read_named_files(
    train: Source | None, tests: dict[str, Source],
    columns: tuple[str, ...] | dict[str | None, tuple[str, ...]] | None = None, # by the name of a file, or of all
    progress: bool = False, **matching,
) -> dict[str, PairFile]: # `train` first if there is one
    "Read files with one set of options, as a command has it. Raise as `read_pairs_file`."
    check_names("tests", tests)
    sources = tests if train is None else {"train": train} | tests
    by_name = columns if isinstance(columns, dict) else {None: columns}
    for name in by_name.keys() - {None, *sources}:
        raise ConfigError(f"columns: there is no file called {name!r}")
    files = {}
    for name, source in with_bar(sources.items(), "reading", progress):
        file = read_pairs_file(source, by_name.get(name, by_name.get(None)), name, **matching)
        files[name] = replace(file, name=name) if file.path is None else file
    return files
