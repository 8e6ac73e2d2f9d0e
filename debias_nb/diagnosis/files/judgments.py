"Queries, a corpus and judgments: which files hold them, and which texts are relevant to which query."
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from ...checks import quoted, visible
from .forms import JUDGMENTS, LARGEST_GRADE, Options, Rows, grades_advice
from ...data.registry import DataError
from ...data.tables import UNREADABLE, check, ending, groups_in, is_text, number_of, pick_split, read_table, refuse
from ...data.tables import with_title

FILES = { # what a folder holds, as BEIR writes it, and as data sets of the hub have it
    "corpus": ("corpus.jsonl", "corpus.jsonl.gz", "corpus/*.parquet"),
    "queries": ("queries.jsonl", "queries.jsonl.gz", "queries/*.parquet"),
    "judgments": ("qrels/*.tsv", "qrels/*.tsv.gz", "qrels/*.parquet", "default/*.parquet", "data/*.parquet"),
    "tables": ("data-*.arrow", "*/data-*.arrow", "*.jsonl", "*.csv", "*.tsv", "*.parquet", "data/*.parquet"),
}
JUDGMENT_ROLES = ("corpus", "queries", "judgments")
HOLDS = ("a folder of queries holds corpus.jsonl, queries.jsonl and qrels/test.tsv, as BEIR writes them, or Parquet "
         "files in folders of these names")
NO_MATCH = "; such queries are left out by --match-from 1 (match_from=1)"


def tolerated(count: int) -> int: # of judgments or queries
    "Return how many may be left out for what is wrong with them: one in a hundred, as in sets that are published."
    return round(count / 100)


def as_id(cell) -> str | None: # None: it is none; 7 and "7" are one id, 0042 and 42 are two
    if isinstance(cell, (int, np.integer)) and not isinstance(cell, bool):
        return str(cell)
    if not isinstance(cell, str) or UNREADABLE.search(cell):
        return None
    return cell.strip() or None


# ---------------------------------------------------------------- texts by id, and judgments

def _check_columns(name: str, frame: pd.DataFrame, title: str, columns: list[str]) -> None:
    "Check that a frame has rows and these columns."
    if not len(frame.columns):
        raise DataError(f"{name}: no {title}")
    if not {*columns} <= {*frame}:
        header = ", ".join(map(repr, frame.columns[:8]))
        raise DataError(f"{name}: {title} are expected, in columns {', '.join(columns)}; found {header}")


def _texts(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    "Return texts by id: columns text, bare (without the title), line and further ones."
    key = "_id" if "_id" in frame else "id"
    _check_columns(name, frame, "texts", [key, "text"])
    ids, bare = frame[key].map(as_id), frame["text"]
    check(name, frame[key], ids.notna(), "an id is expected")
    check(name, bare, bare.map(lambda cell: cell is None or isinstance(cell, str)), "a text is expected")
    full_texts = list(map(with_title, frame["title"], bare)) if "title" in frame else bare.fillna("").str.strip()
    return frame.assign(line=frame.index, bare=bare, text=full_texts).set_index(ids)


def _by_id(name: str, texts: pd.DataFrame) -> pd.DataFrame:
    "Return each text once. Raises `DataError` for an id with two texts."
    is_copy = texts.index.duplicated()
    first = texts.groupby(level=0)[["line", "text"]].transform("first")

    def contradiction(row):
        return f"the id {row.key!r} occurs twice, first in line {row.line}, with another text"

    refuse(name, first.assign(key=texts.index).set_index(texts.line), is_copy & (first.text != texts.text),
           contradiction)
    unique = texts[~is_copy]
    unique.attrs |= {"name": name, "copies": is_copy.sum()}
    return unique


def _judgments(name: str, frame: pd.DataFrame) -> pd.DataFrame: # query, document, grade; index: line
    columns = ["query-id", "corpus-id", "score"]
    _check_columns(name, frame, "judgments", columns)
    judgments = frame[columns].set_axis(["query", "document", "grade"], axis=1)
    return judgments.assign(query=judgments["query"].map(as_id), document=judgments.document.map(as_id))


# ---------------------------------------------------------------- a folder

def _files_of(folder: Path, role: str) -> list[Path]:
    files = [file for pattern in FILES[role] for file in sorted(folder.glob(pattern))]
    return [file for file in files if not file.name.startswith(".")]


def _of_split(path: Path, files: list[Path], split: str | None) -> tuple[str, list[Path]]:
    "Return the split that is read, and its files, such as test.tsv, test-0*.parquet or test/data-0*.arrow."
    names = [file.parent.name if ending(file) == ".arrow" else re.split(r"\.|-\d", file.name)[0] for file in files]
    split = pick_split(path, names, split)
    return split, [file for file, name in zip(files, names) if name == split]


def read_splits(path: Path, split: str | None) -> pd.DataFrame | None:
    "Return the table of a split, as `datasets` writes it; None for a folder of queries, or of something else."
    files = _files_of(path, "tables")
    if not files or _files_of(path, "corpus") or _files_of(path, "queries") or (path / "qrels").exists():
        return None
    _, files = _of_split(path, files, split)
    frame = pd.concat(map(read_table, files))
    frame.attrs |= {"note": f"read from {', '.join(str(file.relative_to(path)) for file in files)}", "files": files}
    return frame


def _files_by_role(path: Path, roles: tuple[str, ...]) -> dict[str, list[Path]]:
    "Find the files of a folder. Raises `DataError` where a role has none."
    files = {role: _files_of(path, role) for role in roles}
    missing = [role for role, paths in files.items() if not paths]
    if missing:
        listing = ", ".join(sorted(visible(file.name) for file in path.iterdir())[:8])
        raise DataError(f"{path}: no {' and no '.join(missing)} among its files ({listing}); {HOLDS}")
    return files


def _read_texts(files: list[Path]) -> pd.DataFrame:
    "Read texts by id, each once."
    return _by_id(", ".join(map(str, files)), pd.concat([_texts(str(file), read_table(file)) for file in files]))


def read_folder(path: Path, split: str | None, options: Options) -> Rows:
    "Read queries, corpus and judgments of a folder."
    files = _files_by_role(path, JUDGMENT_ROLES)
    split, files["judgments"] = _of_split(path, files["judgments"], split)
    judgments = pd.concat([_judgments(str(file), read_table(file)) for file in files["judgments"]])
    texts = {role: _read_texts(files[role]) for role in ("queries", "corpus")}
    rows = relevance(", ".join(map(str, files["judgments"])), **texts, judgments=judgments, options=options)
    return replace(rows, note=f"read as {JUDGMENTS} of the split {split}", files=tuple(chain(*files.values())))


# ---------------------------------------------------------------- dicts

def _texts_of(name: str, source) -> pd.DataFrame: # source: id -> text, or title and text
    if not isinstance(source, dict):
        raise DataError(f"{name}: a dict is expected, with the text of each id")
    rows = [{"id": key, **(text if isinstance(text, dict) else {"text": text})} for key, text in source.items()]
    return _by_id(name, _texts(name, pd.DataFrame(rows, list(map(str, source)), dtype=object)))


def read_dicts(name: str, source: dict, options: Options) -> Rows:
    "Read queries, corpus and relevant_docs."
    label, relevant = f"{name}: relevant_docs", source.get("relevant_docs")
    if not isinstance(relevant, dict):
        raise DataError(f"{name}: queries and corpus without relevant_docs, a dict with the ids of the texts for "
                        "each query")
    queries, corpus = (_texts_of(f"{name}: {role}", source[role]) for role in ("queries", "corpus"))
    places = {key: place for place, key in enumerate(corpus.index)}
    lines = []
    for query, documents in relevant.items():
        if not isinstance(documents, Iterable) or isinstance(documents, str):
            raise DataError(f"{label}:{query}: ids of texts are expected, found {quoted(documents)}")
        grades = documents if isinstance(documents, dict) else dict.fromkeys(map(as_id, documents), 1)
        in_order = sorted(grades, key=lambda key: places.get(as_id(key), -1)) # a set has none
        lines += [(query, as_id(query), as_id(key), grades[key]) for key in in_order]
    judgments = pd.DataFrame(lines, columns=["line", "query", "document", "grade"]).set_index("line")
    rows = relevance(label, queries, corpus, judgments, options)
    frame = rows.frame.assign(line=range(1, len(rows.frame) + 1))
    return replace(rows, frame=frame, note="read as queries, corpus and relevant_docs")


# ---------------------------------------------------------------- what is relevant

def _grades(name: str, judgments: pd.DataFrame, options: Options) -> pd.Series:
    grades = pd.to_numeric(judgments.grade.map(number_of)).astype(float)
    refuse(name, judgments.grade, ~(grades.abs() <= LARGEST_GRADE),
           lambda cell: f"a grade is expected, found {quoted(cell)}")
    if options.match_from is None:
        refuse(name, judgments.grade, grades % 1 != 0, lambda cell: f"grades are whole numbers, found {quoted(cell)}",
               grades_advice(grades))
    return grades


def _own_place(queries: pd.DataFrame, corpus: pd.DataFrame) -> np.ndarray: # (queries,) -1: there is none
    "Find the document that is the query itself: the same id and text, except for spaces, with or without the title."
    place = corpus.index.get_indexer(queries.index)
    entry = corpus.iloc[place]
    is_same = [query.split() in (text.split(), str(bare).split())
               for query, text, bare in zip(queries.text, entry.text, entry.bare)]
    return np.where((place >= 0) & is_same, place, -1)


@dataclass(frozen=True)
class _Placement:
    "Pairs that are judged once, with the places of query and document, and what was left out."
    rows: pd.DataFrame
    left_out: dict[str, int]


def _place(name: str, queries: pd.DataFrame, corpus: pd.DataFrame, judgments: pd.DataFrame) -> _Placement:
    "Find queries and documents of judgments. Raises `DataError` where many are missing, and for two grades of a pair."
    judgments = judgments.assign(
        line=judgments.index, asks=queries.index.get_indexer(judgments["query"]),
        place=corpus.index.get_indexer(judgments.document))
    no_query = judgments.asks < 0
    no_text = ~no_query & (judgments.place < 0)

    def lack(row):
        kind, key, table = ("query", row["query"], queries) if row.asks < 0 else ("text", row.document, corpus)
        return f"{kind} {quoted(key)} is not in {table.attrs['name']}, or has nothing to read there"

    is_lost = no_query | no_text
    if is_lost.sum() > tolerated(len(judgments)):
        refuse(name, judgments, is_lost, lack, "; up to one in a hundred would be left out")
    judgments = judgments[~is_lost]
    first = judgments.groupby(["asks", "place"])[["line", "grade"]].transform("first")

    def contradiction(row):
        return (f"query {row['query']!r} and text {row.document!r} are judged twice, with another grade in line "
                f"{row.before}")

    refuse(name, judgments.assign(before=first.line), judgments.grade != first.grade, contradiction)
    is_copy = judgments.duplicated(["asks", "place"])
    return _Placement(judgments[~is_copy], {
        "judgments of a query that is not there": no_query.sum(),
        "judgments of a text that is not there": no_text.sum(),
        "judgments with the texts of another": is_copy.sum()})


def relevance(name: str, queries: pd.DataFrame, corpus: pd.DataFrame, judgments: pd.DataFrame,
              options: Options) -> Rows:
    """Return queries with their relevant texts.

    Queries and corpus are by id; `judgments` have query, document and grade. Raises `DataError` naming lines of unknown
    ids, of what is no grade, and of queries without a relevant text."""
    least = 1 if options.match_from is None else options.match_from
    texts = len(corpus)
    queries, corpus = (table[table.text.map(is_text).astype(bool)] for table in (queries, corpus))
    placement = _place(name, queries, corpus, judgments.assign(grade=_grades(name, judgments, options)))
    judgments = placement.rows
    itself = _own_place(queries, corpus)
    is_relevant = judgments.grade >= least
    is_own = is_relevant & (judgments.place == itself[judgments.asks])
    no_answer = judgments[~is_relevant.groupby(judgments.asks).transform("any")].drop_duplicates("asks")
    if options.match_from is None and len(no_answer) > tolerated(judgments.asks.nunique()):
        refuse(name, no_answer, [True] * len(no_answer),
               lambda row: f"query {quoted(row['query'])} has no relevant text", NO_MATCH)
    left_out = placement.left_out | {
        f"judgments with a grade below {least:g}": (~is_relevant).sum(),
        "judgments of a query's own text": is_own.sum(),
        "queries with the id and the text of another": queries.attrs["copies"],
        "texts of the corpus with the id and the text of another": corpus.attrs["copies"],
        f"queries without a grade of {least:g} or more": len(no_answer),
        "queries without a judgment": len(queries) - judgments.asks.nunique(),
        "texts of the corpus with nothing to read": texts - len(corpus),
    }
    rows = judgments[is_relevant & ~is_own].sort_values("asks", kind="stable").reset_index(drop=True)
    if rows.empty:
        raise DataError(f"{name}: no query with a relevant text")
    is_whole = (judgments.grade % 1 == 0).all()
    labels = rows.grade.clip(lower=1).astype(int) if is_whole else 1
    row_queries = queries.iloc[rows.asks]
    numbers, _ = rows.asks.factorize()
    frame = pd.DataFrame({
        "left": row_queries.text.to_numpy(), "right": corpus.text.to_numpy()[rows.place], "line": rows.line,
        "label": labels, "query": numbers,
        "document": rows.place, "query_id": row_queries.index.to_numpy(), "itself": itself[rows.asks]})
    if options.group:
        if options.group not in queries:
            raise DataError(f"{queries.attrs['name']}: no column {options.group!r}")
        frame["group"] = groups_in(queries.attrs["name"], queries[options.group]).to_numpy()[rows.asks]
    return Rows(frame, left_out, corpus.text)
