"Queries, a corpus and judgments: which files hold them, and which texts are relevant to which query."
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from ..checks import quoted, visible
from .columns import JUDGMENTS, Options, Rows
from .registry import DataError, bad_lines
from .tables import UNREAD, check, ending, groups_in, is_text, number_of, read_table, with_title

FILES = { # what a folder holds, as BEIR writes it, and as data sets of the hub have it
    "corpus": ("corpus.jsonl", "corpus.jsonl.gz", "corpus/*.parquet"),
    "queries": ("queries.jsonl", "queries.jsonl.gz", "queries/*.parquet"),
    "judgments": ("qrels/*.tsv", "qrels/*.tsv.gz", "qrels/*.parquet", "default/*.parquet", "data/*.parquet"),
    "tables": ("data-*.arrow", "*/data-*.arrow", "*.jsonl", "*.csv", "*.tsv", "*.parquet", "data/*.parquet"),
}
ROLES = ("corpus", "queries", "judgments")
HOLDS = "a folder of queries holds corpus.jsonl, queries.jsonl and qrels/test.tsv, as BEIR writes them, or Parquet files in folders of these names"
MOST = 10**6 # of a grade
NO_MATCH = "such queries are left out by --match-from 1 (match_from=1)"


def tolerated(count: int) -> int: # of judgments or queries
    "How many may be left out for what is wrong with them: one in a hundred, as in sets that are published."
    return round(count / 100)


def as_id(cell) -> str | None: # None: it is none; 7 and "7" are one id, 0042 and 42 are two
    if isinstance(cell, (int, np.integer)) and not isinstance(cell, bool):
        return str(cell)
    return (cell.strip() or None) if isinstance(cell, str) and not UNREAD.search(cell) else None


# ---------------------------------------------------------------- texts by id, and judgments

def _check_columns(name: str, frame: pd.DataFrame, what: str, *wanted: str) -> None:
    "Raises `DataError` for a frame that lacks a column."
    if not len(frame.columns):
        raise DataError(f"{name}: no {what}")
    if not {*wanted} <= {*frame}:
        there = ", ".join(map(repr, frame.columns[:8]))
        raise DataError(f"{name}: {what} are expected, in columns {', '.join(wanted)}; found {there}")


def _texts(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    "Texts by id: columns text, bare (without the title), line and further ones."
    one = "_id" if "_id" in frame else "id"
    _check_columns(name, frame, "texts", one, "text")
    ids = frame[one].map(as_id)
    check(name, frame[one], ids.notna(), "an id is expected")
    check(name, frame["text"], frame["text"].map(lambda cell: cell is None or isinstance(cell, str)), "a text is expected")
    titles = frame["title"] if "title" in frame else [None] * len(frame)
    whole = list(map(with_title, titles, frame["text"]))
    return frame.assign(line=frame.index, bare=frame["text"], text=whole).set_index(ids)


def _by_id(name: str, texts: pd.DataFrame) -> pd.DataFrame:
    "Return each text once. Raises `DataError` for an id with two texts."
    again = texts.index.duplicated()
    other = texts[again & (texts.text != texts.text.groupby(level=0).transform("first"))]
    if len(other):
        one = other.index[0]
        raise DataError(f"{name}:{other.line.iloc[0]}: the id {one!r} stands twice, first in line {texts.line.loc[one].iloc[0]}, with another text")
    texts = texts[~again]
    texts.attrs |= {"name": name, "repeated": again.sum()}
    return texts


def _judgments(name: str, frame: pd.DataFrame) -> pd.DataFrame: # query, document, grade; index: line
    _check_columns(name, frame, "judgments", "query-id", "corpus-id", "score")
    return pd.DataFrame({"query": frame["query-id"].map(as_id), "document": frame["corpus-id"].map(as_id), "grade": frame["score"]})


# ---------------------------------------------------------------- a folder

def _files_of(folder: Path, role: str) -> list[Path]:
    files = [file for pattern in FILES[role] for file in sorted(folder.glob(pattern))]
    return [file for file in files if not file.name.startswith(".")]


def _split_of(file: Path) -> str: # of test.tsv, test-00000-of-00001.parquet or test/data-00000-of-00001.arrow
    return file.parent.name if ending(file) == ".arrow" else re.split(r"\.|-\d", file.name)[0]


def _of_split(path: Path, files: list[Path], split: str | None, what: str = "judgments") -> tuple[str, list[Path]]:
    "Return the split, which is `test` where several are there and none is asked for, and its files."
    splits = [_split_of(file) for file in files]
    if split is None:
        split = "test" if len({*splits}) > 1 else splits[0]
    files = [file for file, own in zip(files, splits) if own == split]
    if not files:
        there = ", ".join(map(visible, dict.fromkeys(splits)))
        raise DataError(f"{path}: no {what} of a split {split!r}; there are {there}: name one of them, e.g. {path}:{visible(splits[0])}")
    return split, files


def read_splits(path: Path, split: str | None) -> tuple[pd.DataFrame, list[Path]] | None:
    "Return the table of a split and its files, as `datasets` writes them; None for a folder of queries, or of something else."
    files = _files_of(path, "tables")
    if not files or _files_of(path, "corpus") or _files_of(path, "queries") or (path / "qrels").exists():
        return None
    split, files = _of_split(path, files, split, "table")
    frame = pd.concat([read_table(file) for file in files])
    frame.attrs["note"] = f"read from {', '.join(str(file.relative_to(path)) for file in files)}"
    return frame, files


def read_folder(path: Path, split: str | None, options: Options) -> Rows:
    "Queries, corpus and judgments of a folder."
    files = {role: _files_of(path, role) for role in ROLES}
    missing = [role for role, some in files.items() if not some]
    if missing:
        there = ", ".join(sorted(visible(file.name) for file in path.iterdir())[:8])
        raise DataError(f"{path}: no {' and no '.join(missing)} among its files ({there}); {HOLDS}")
    split, files["judgments"] = _of_split(path, files["judgments"], split)
    names = {role: ", ".join(map(str, some)) for role, some in files.items()}
    texts = {}
    for role in ("queries", "corpus"):
        parts = [_texts(str(file), read_table(file)) for file in files[role]]
        texts[role] = _by_id(names[role], pd.concat(parts))
    judgments = pd.concat([_judgments(str(file), read_table(file)) for file in files["judgments"]])
    rows = relevance(names["judgments"], **texts, judgments=judgments, options=options)
    return replace(rows, note=f"read as {JUDGMENTS} of the split {split}", files=tuple(chain(*files.values())))


# ---------------------------------------------------------------- dicts

def _texts_of(name: str, source) -> pd.DataFrame: # source: id -> text, or title and text
    if not isinstance(source, dict):
        raise DataError(f"{name}: a dict is expected, with the text of each id")
    rows = [{"id": one, **(text if isinstance(text, dict) else {"text": text})} for one, text in source.items()]
    return _by_id(name, _texts(name, pd.DataFrame(rows, list(map(str, source)), dtype=object)))


def read_dicts(name: str, source: dict, options: Options) -> Rows:
    label, relevant = f"{name}: relevant_docs", source.get("relevant_docs")
    if not isinstance(relevant, dict):
        raise DataError(f"{name}: queries and corpus without relevant_docs, a dict with the ids of the texts for each query")
    queries, corpus = (_texts_of(f"{name}: {role}", source[role]) for role in ("queries", "corpus"))
    lines, places = [], {one: place for place, one in enumerate(corpus.index)}
    for query, documents in relevant.items():
        if not isinstance(documents, Iterable) or isinstance(documents, str):
            raise DataError(f"{label}:{query}: ids of texts are expected, found {quoted(documents)}")
        grades = documents if isinstance(documents, dict) else dict.fromkeys(map(as_id, documents), 1)
        in_order = sorted(grades, key=lambda one: places.get(as_id(one), -1)) # a set has none
        lines += [(query, as_id(query), as_id(one), grades[one]) for one in in_order]
    judgments = pd.DataFrame(lines, columns=["line", "query", "document", "grade"]).set_index("line")
    rows = relevance(label, queries, corpus, judgments, options)
    frame = rows.frame.assign(line=range(1, len(rows.frame) + 1))
    return replace(rows, frame=frame, note="read as queries, corpus and relevant_docs")


# ---------------------------------------------------------------- what is relevant

def grades_advice(numbers) -> str:
    "Name a round threshold that is none of the grades, near the middle of them."
    grades = {float(number) for number in numbers if abs(number) <= MOST}
    low, high = min(grades, default=0), max(grades, default=0)
    step = 10. ** np.floor(np.log10(high - low or 1))
    for size in step / np.array([1, 2, 10, 20, 100, 200]):
        for place in (0, 1):
            threshold = float(f"{(round((low + high) / 2 / size) + place) * size:g}")
            if low < threshold < high and threshold not in grades:
                return f"; grades are read by --match-from {threshold:g} (match_from={threshold:g})"
    return ""


def refuse(name: str, rows: pd.DataFrame, wrong, describe, more: str = "") -> None: # describe: a row -> what is wrong with it
    "Raises `DataError` naming lines of judgments or of a run."
    bad = [(line, describe(row)) for line, row in rows[wrong].iterrows()]
    if bad:
        raise DataError(f"{bad_lines(name, bad, len(rows), 'rows')}{more}")


def _grades(name: str, judgments: pd.DataFrame, whole: bool) -> pd.Series: # whole: grades must be whole numbers
    grade = pd.to_numeric(judgments.grade.map(number_of)).astype(float)
    wrong = grade.isna() | (grade.abs() > MOST)
    refuse(name, judgments, wrong, lambda row: f"a grade is expected, found {quoted(row.grade)}")
    if whole:
        advice = grades_advice(grade)
        refuse(name, judgments, grade % 1 != 0, lambda row: f"grades are whole numbers, found {quoted(row.grade)}{advice}")
    return grade


def _usable(name, queries, corpus, judgments):
    """Judgments whose query and text are there, with their places; what else there was, in words. Raises `DataError` where it is
    more than one in a hundred."""
    no_query, no_text = judgments.asks < 0, judgments.place < 0

    def describe(row):
        what, one, table = ("query", row["query"], queries) if row.asks < 0 else ("text", row.document, corpus)
        return f"{what} {quoted(one)} is not in {table.attrs['name']}, or has nothing to read there"

    wrong = no_query | no_text
    if wrong.sum() > tolerated(len(judgments)):
        refuse(name, judgments, wrong, describe, "; up to one in a hundred would be left out")
    return judgments[~wrong], {
        "judgments of a query that is not there": no_query.sum(),
        "judgments of a text that is not there": (no_text & ~no_query).sum()}


def _own_place(queries: pd.DataFrame, corpus: pd.DataFrame) -> np.ndarray: # (queries,) -1: it stands in no corpus
    "Where a query itself stands in the corpus: the same id, and the same text, spaces apart."
    place = corpus.index.get_indexer(queries.index)
    own = corpus.iloc[place]
    same = np.zeros(len(queries), bool)
    for texts in (own.text, own.bare):
        same |= [str(one).split() == str(other).split() for one, other in zip(queries.text, texts)]
    return np.where((place >= 0) & same, place, -1)


def _placed(name: str, queries: pd.DataFrame, corpus: pd.DataFrame, judgments: pd.DataFrame, options: Options):
    "Each pair that is judged once, with its places and its grade; and how many judgments there were besides."
    judgments = judgments.assign(line=judgments.index, grade=_grades(name, judgments, options.match_from is None))
    judgments = judgments.assign(asks=queries.index.get_indexer(judgments["query"]), place=corpus.index.get_indexer(judgments.document))
    judgments, counts = _usable(name, queries, corpus, judgments)
    first = judgments.groupby(["asks", "place"])[["line", "grade"]].transform("first")

    def contradiction(row):
        return f"query {row['query']!r} and text {row.document!r} are judged twice, with another grade in line {row.before}"

    refuse(name, judgments.assign(before=first.line), judgments.grade != first.grade, contradiction)
    again = judgments.duplicated(["asks", "place"])
    return judgments[~again], counts | {"judgments with the texts of another": again.sum()}


def _check_answered(name: str, judgments: pd.DataFrame, unanswered: pd.DataFrame) -> None:
    "Raises `DataError` where more than one query in a hundred has no relevant text."
    if unanswered.asks.nunique() > tolerated(judgments.asks.nunique()):
        row = unanswered.iloc[0]
        grades = f"none of its {(judgments.asks == row.asks).sum():,} grades is 1 or more"
        raise DataError(f"{name}:{row.line}: query {quoted(row['query'])} has no relevant text: {grades}; {NO_MATCH}")


def relevance(name: str, queries: pd.DataFrame, corpus: pd.DataFrame, judgments: pd.DataFrame, options: Options) -> Rows:
    """Queries with their relevant texts; queries and corpus by id, `judgments` have query, document and grade. Raises `DataError`
    naming lines of unknown ids, of what is no grade, and of a query without a relevant text."""
    least = 1 if options.match_from is None else options.match_from
    texts = len(corpus)
    queries, corpus = (table[table.text.map(is_text).astype(bool)] for table in (queries, corpus))
    judgments, counts = _placed(name, queries, corpus, judgments, options)
    whole = (judgments.grade % 1 == 0).all()
    itself = _own_place(queries, corpus)
    relevant = judgments.grade >= least
    own = relevant & (judgments.place == itself[judgments.asks])
    unanswered = judgments[~relevant.groupby(judgments.asks).transform("any")]
    if options.match_from is None:
        _check_answered(name, judgments, unanswered)
    counts |= {
        f"judgments with a grade below {least:g}": (~relevant).sum(),
        "judgments of a query's own text": own.sum(),
        "queries with the id and the text of another": queries.attrs["repeated"],
        "texts of the corpus with the id and the text of another": corpus.attrs["repeated"],
        f"queries without a grade of {least:g} or more": unanswered.asks.nunique(),
        "queries without a judgment": len(queries) - judgments.asks.nunique(),
        "texts of the corpus with nothing to read": texts - len(corpus),
    }
    rows = judgments[relevant & ~own].sort_values("asks", kind="stable").reset_index(drop=True)
    if rows.empty:
        raise DataError(f"{name}: no query with a relevant text")
    frame = pd.DataFrame({"left": queries.text.to_numpy()[rows.asks], "right": corpus.text.to_numpy()[rows.place]})
    frame["line"] = rows.line
    frame["label"] = rows.grade.clip(lower=1).astype(int) if whole else 1
    frame["query"] = pd.factorize(rows.asks)[0]
    frame["document"] = rows.place
    frame["query_id"] = queries.index.to_numpy()[rows.asks]
    frame["itself"] = itself[rows.asks]
    if options.group:
        if options.group not in queries:
            raise DataError(f"{queries.attrs['name']}: no column {options.group!r}")
        frame["group"] = groups_in(queries.attrs["name"], queries[options.group]).to_numpy()[rows.asks]
    return Rows(frame, {what: int(count) for what, count in counts.items() if count}, corpus.text)
