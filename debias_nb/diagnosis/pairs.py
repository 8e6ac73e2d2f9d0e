"""Your tests and training pairs, by the rule that sentence-transformers has for data sets.

The order of the columns counts, not their names; `label`, `labels`, `score` or `scores` is the label. Two texts and a
label are labeled pairs; two texts alone an anchor and its positive, to be found among all positives; further texts are
negatives of their row. A folder with corpus, queries and qrels, as BEIR and MTEB have it, is retrieval.
"""
import os
import re
import shlex
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import pandas as pd

from ..bars import with_bar
from ..checks import ConfigError, closest, on_one_line, quoted, visible
from ..data.pairs import fold
from ..data.registry import DataError, bad_lines
from ..data.tables import is_text, read_table
from ..files import fingerprint, sha256_file

LABELS = ("label", "labels", "score", "scores") # of sentence-transformers' data collator, in its order
MATCHING = ("match", "match_from") # what a match is
READING = ("columns", *MATCHING)   # how a file is read
RULE = (
    "the order of columns counts, as in sentence-transformers: two texts and a label; anchor, positive and perhaps "
    "negatives; nothing else may stand there")
FORMS = {"pairs": "labeled pairs", "candidates": "anchor, positive and negatives", "retrieval": "anchor and positive"}
FEW_LOST = .01 # of judgments, that may name what is not there
BINARY = ("0", "1", "0.0", "1.0", "true", "false")
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
    form: str = "pairs" # one of `FORMS`; candidates have `query` too, retrieval `query`, `document` and `itself`
    corpus: list[str] | None = None # of retrieval: every text that is searched
    left_out: dict[str, int] = field(default_factory=dict) # what was left out, in words -> how many
    reading: dict = field(default_factory=dict) # of `READING` what was given

    def __len__(self):
        return len(self.frame)

    @property
    def matching(self) -> dict:
        return {name: value for name, value in self.reading.items() if name in MATCHING}

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


Source: TypeAlias = str | Path | pd.DataFrame | Tabular | list[dict] | dict | PairFile # as `read_pairs_file` takes it


@pd.option_context("mode.string_storage", "python") # which takes half of a character, so that its line can be told
def read_pairs_file(
    source: Source, columns: tuple[str, ...] | str | None = None, name: str | None = None, *,
    match: str | int | None = None, match_from: float | None = None,
) -> PairFile:
    """Read a test or training data: labeled pairs, candidates of queries, or retrieval.

    The order of the columns counts and not their names, as in data sets of sentence-transformers; `label`, `labels`,
    `score` or `scores` is the label. Two texts and a label are labeled pairs. Two texts alone are an anchor and its
    positive, which is to be found among all positives. Further texts are negatives. A cell may be a list of texts.

    Parameters
    ----------
    source : str, Path, table, dict or PairFile
        A file (.csv, .tsv, .jsonl, .json, .parquet), a folder that `datasets` has written (FOLDER:SPLIT), or one with
        `corpus`, `queries` and `qrels`, as BEIR and MTEB have it (FOLDER:SPLIT). Or a data frame, a table of
        `datasets`, a list of dicts, a dict of columns, or a dict of `queries`, `corpus` and `relevant_docs`.
    columns : tuple of str, optional
        The columns that are read, in this order, where others stand beside them: texts, then the label, which is told
        by its name, or by numbers in it.
    name : str, optional
        What messages call a table; a file is called by its path.
    match : str or int, optional
        The label of a match, where labels are words, or -1 and 1; all other labels say that a pair is none.
    match_from : float, optional
        The grade from which on a pair is a match, or a text relevant.

    Raises
    ------
    DataError
        For columns that do not fit the rule, with those that the file has; for what is no text or no label, naming
        rows.

    Examples
    --------
    >>> from debias_nb import read_pairs_file
    >>> file = read_pairs_file({"left": ["an egg", "a mole"], "right": ["eggs", "planes"], "label": [1, 0]})
    >>> len(file), file.labels.tolist()
    (2, [1, 0])
    >>> file = read_pairs_file([{"anchor": "an egg", "positive": "eggs", "negative": "planes"}])
    >>> file.form, file.frame["query"].tolist(), file.labels.tolist()
    ('candidates', [0, 0], [1, 0])
    """
    if isinstance(source, PairFile):
        return source
    if match is not None and match_from is not None:
        raise DataError("match and match_from: give one of them to say what a match is, got both")
    if match_from is not None and not isinstance(match_from, (int, float)):
        raise DataError(f"match_from: a number is expected, got {quoted(match_from)}")
    names = tuple(columns.split(",") if isinstance(columns, str) else columns or ())
    reading = {option: value for option, value in zip(READING, (names, match, match_from)) if value not in (None, ())}
    if isinstance(source, (str, os.PathLike)):
        table, files, place = read_table(str(source))
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


def as_table(title: str, source) -> pd.DataFrame | dict:
    "Return what is in memory as a frame, or as a dict of queries, corpus and relevant_docs."
    if isinstance(source, dict) and {"queries", "corpus"} <= source.keys():
        return source
    try:
        frame = source.to_pandas() if hasattr(source, "to_pandas") else pd.DataFrame(source, dtype=object)
    except (ValueError, TypeError) as e:
        raise DataError(f"{title}: a path, a data frame, a table or a dict of columns is expected: {e}") from None
    return frame.astype(object).set_axis(range(1, len(frame) + 1)).set_axis([*map(str, frame.columns)], axis=1)


# ---------------------------------------------------------------- columns

def _is_number(cell) -> bool:
    return isinstance(cell, (bool, np.bool_)) or bool(NUMBER.fullmatch(str(cell).strip())) or str(cell).strip(
        ).casefold() in ("true", "false")


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
    few = [column for column in texts[2:] if _has_few_values(table[column])] # as labels in words have
    wrong = [column for column in texts if not table[column].map(_holds_text).any()] + few
    if len(texts) < 2 or wrong or label is not None and len(texts) > 2 or len({*texts}) < len(texts):
        found = ", ".join(visible(column) + (
            " (few values)" if column in few else " (no texts)" if column in wrong else "") for column in header[:8])
        lengths = {column: table[column].map(lambda cell: len(str(cell))).mean() for column in texts
                   if column not in wrong}
        longest = sorted(lengths, key=lengths.get)[-2:]
        binary = [column for column in wrong if table[column].map(lambda cell: str(cell).strip().casefold() in BINARY).all()]
        example = [*(column for column in lengths if column in longest), *([label] if label else (binary or few)[-1:])]
        if len(longest) < 2:
            example = ["LEFT", "RIGHT", "LABEL"]
        raise DataError(f"{title}: its columns are {found}. {RULE}. Name those to read, such as --columns "
                        f"{shlex.quote(','.join(example))}")
    return texts, label


def _has_few_values(cells: pd.Series) -> bool:
    return 10 * cells.map(str).nunique() <= len(cells)


def _holds_text(cell) -> bool:
    return is_text(cell) and not _is_number(cell) or isinstance(cell, (list, np.ndarray)) and len(cell) > 0 and all(map(is_text, cell))


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
        raise DataError(f"{title}: match and match_from read labels, and no column is called one of {', '.join(LABELS)}; "
                        f"name it last, such as --columns {shlex.quote(','.join(texts[:3]))}")
    names = (*texts, label) if label else tuple(texts)
    note = "" if names == ("left", "right", "label") else f"read as {FORMS[form]}: {', '.join(names)}"
    if label:
        return _labeled(title, table, texts, label, match, match_from, note)
    parts = []
    for column in texts[1:]:
        cells = table[column].reset_index(drop=True).explode().dropna()
        parts.append(pd.DataFrame({"row": cells.index, "right": cells.to_numpy(), "label": int(column == texts[1])}))
    rows = pd.concat(parts).sort_values(["row", "label"], ascending=[True, False], kind="stable")
    anchors = table[texts[0]].to_numpy()
    rows = rows.assign(left=anchors[rows.row], line=np.asarray(table.index)[rows.row])
    for side, column in (("left", texts[0]), ("right", texts[1])):
        refuse(title, rows.line, ~rows[side].map(is_text), f"column {column!r}: a text is expected", rows[side])
    has_match = np.isin(np.arange(len(table)), parts[0].row)
    refuse(title, table.index, ~has_match, f"column {texts[1]!r}: a positive is expected", table[texts[1]])
    frame, left_out, corpus = (_candidates if form == "candidates" else _matches)(rows)
    if frame.empty:
        raise DataError(f"{title}: no pair is left ({'; '.join(f'{count} {what}' for what, count in left_out.items())})")
    return PairFile(title, frame.reset_index(drop=True), "", names, form=form, corpus=corpus, note=note,
                    left_out={what: int(count) for what, count in left_out.items() if count})


def _labeled(title: str, table, texts, label: str, match, match_from, note: str) -> PairFile:
    for column in texts:
        refuse(title, table.index, ~table[column].map(is_text), f"column {column!r}: a text is expected", table[column])
    labels, count = _labels(title, table, label, match, match_from)
    frame = pd.DataFrame({"left": table[texts[0]], "right": table[texts[1]], "label": labels, "line": table.index})
    if labels.nunique() < 2:
        raise DataError(f"{title}: all {len(labels):,} labels are {labels.iloc[0]}; both classes are needed")
    rule = "" if match is match_from is None else (
        f"a match is labeled {match}" if match_from is None else f"a match has a grade of {match_from:g} or more")
    counts = rule and f"{rule}: {count:,} of {len(table):,}"
    return PairFile(title, frame.reset_index(drop=True), "", (*texts, label),
                    note="; ".join(filter(None, [counts, note])))


def _labels(title: str, table, column: str, match, match_from) -> tuple[pd.Series, int]:
    "Return labels, 0 or 1, and how many are 1."
    words = table[column].map(lambda cell: str(cell).strip().casefold())
    refuse(title, table.index, words.isin(["", "-", "none", "nan"]), f"column {column!r}: a label is expected",
           table[column], "; leave out the pairs without one")
    numbers = pd.to_numeric(words.replace({"true": "1", "false": "0"}), errors="coerce")
    if match is not None:
        wanted = str(match).strip().casefold()
        labels = (words == wanted) | (numbers == pd.to_numeric(wanted, errors="coerce"))
    elif match_from is not None:
        refuse(title, table.index, numbers.isna(), f"column {column!r}: a grade is expected", table[column])
        labels = numbers >= match_from
    else:
        found = ", ".join(f"{quoted(word)} ({count:,})" for word, count in words.value_counts()[:8].items())
        advice = (f"; they are {found}: say which one is a match, --match WORD" if numbers.isna().any() or
                  {*numbers} == {-1, 1} else
                  f"; grades are read by --match-from {numbers.min() + (numbers.max() - numbers.min()) / 2:g}")
        refuse(title, table.index, ~numbers.isin([0, 1]), f"column {column!r}: labels are 0 or 1", table[column],
               advice)
        labels = numbers == 1
    return labels.astype(int), int(labels.sum())


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

def _by_id(title: str, texts) -> pd.DataFrame: # index: the id; text, and bare without the title
    "Return texts by id: of a frame with `_id`, `text` and perhaps `title`, or of a dict."
    if not isinstance(texts, (dict, pd.DataFrame)):
        raise DataError(f"{title}: a dict is expected, with the text of each id")
    if isinstance(texts, dict):
        texts = pd.DataFrame([{"_id": key, **(text if isinstance(text, dict) else {"text": text})}
                              for key, text in texts.items()])
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


def _retrieval(title: str, source: dict, match_from: float | None) -> PairFile:
    "Read queries, a corpus and judgments: frames of a folder, or dicts as InformationRetrievalEvaluator takes them."
    least = 1 if match_from is None else match_from
    queries, corpus = (_by_id(f"{title}: {role}", source[role]) for role in ("queries", "corpus"))
    judged = source.get("relevant_docs")
    if isinstance(judged, dict):
        if not all(isinstance(grades, (dict, list, tuple, set)) for grades in judged.values()):
            raise DataError(f"{title}: relevant_docs: ids of texts are expected for each query")
        rows = [(query, key, grades.get(key, 1) if isinstance(grades, dict) else 1)
                for query, grades in judged.items() for key in (
                    grades if isinstance(grades, dict) else sorted(grades, key=str))]
        judged = pd.DataFrame(rows, columns=["query-id", "corpus-id", "score"], index=range(1, len(rows) + 1))
    if judged is None or not {"query-id", "corpus-id", "score"} <= {*judged}:
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
    rows = rows[~is_lost].drop_duplicates(["asks", "document"])
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
    return PairFile(title, frame, "", (), form="retrieval", corpus=corpus.text.tolist(), note="read as queries, corpus "
                    "and judgments", left_out={what: int(count) for what, count in left_out.items() if count})


def unjudged_file(
    queries: list[str], corpus: list[str],
    itself: np.ndarray, # where a query itself stands in the corpus, or −1
) -> PairFile:
    "Make a file of queries and a corpus to search in, with no text that is known to be relevant."
    frame = pd.DataFrame({"query": range(len(queries)), "left": queries, "document": 0, "label": 1, "itself": itself})
    return PairFile("texts", frame, "", form="retrieval", corpus=corpus)


# ---------------------------------------------------------------- several files

def check_names(option: str, files) -> None:
    "Check that files have names that can be printed. Raise `DataError`."
    if not isinstance(files, dict) or not all(is_text(name) and name == on_one_line(name) for name in files):
        raise DataError(f"{option}: files by name are expected, e.g. {option}={{'new': 'new.csv'}}, got "
                        f"{quoted(files)}")


def read_named_files(
    train: Source | None, tests: dict[str, Source],
    columns: tuple[str, ...] | dict[str | None, tuple[str, ...]] | None = None, # by the name of a file, or of all
    progress: bool = False, **matching,
) -> dict[str, PairFile]: # `train` first if there is one
    "Read files with one set of options, as a command has it. Raise as `read_pairs_file`."
    check_names("tests", tests)
    if not tests:
        raise DataError("no test: at least one is needed, e.g. tests={'new': 'new.csv'}")
    if "train" in tests:
        raise DataError("a test is called 'train', which is the name of the training file")
    sources = tests if train is None else {"train": train} | tests
    by_name = columns if isinstance(columns, dict) else {None: columns}
    for name in by_name.keys() - {None, *sources}:
        raise ConfigError(f"columns: there is no file called {name!r}")
    files = {}
    for name, source in with_bar(sources.items(), "reading", progress):
        file = read_pairs_file(source, by_name.get(name, by_name.get(None)), name, **matching)
        files[name] = replace(file, name=name) if file.path is None else file
    return files


def reading_options(files: dict[str, PairFile]) -> dict | None: # None: a command has no options that say it
    "Return the options of a command that reads files as they were read."
    options = {"columns": {name: file.reading["columns"] for name, file in files.items() if "columns" in file.reading}}
    for option in MATCHING:
        values = [file.reading.get(option) for file in files.values()]
        if any(value != values[0] for value in values):
            return None
        options[option] = values[0] if values else None
    return options
