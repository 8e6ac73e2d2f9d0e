"Queries, a corpus and judgments: which files hold them, and which texts are relevant to which query."
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from ..checks import quoted, visible
from .columns import JUDGMENTS, Options
from .registry import DataError, bad_lines
from .tables import ENDINGS, UNREAD, bare_rows, check, ending, groups_in, in_memory, is_text, number_of, read_table, with_title

QUERY_ID = ("query-id", "query_id", "qid", "query")
TEXT_ID = ("corpus-id", "corpus_id", "docid", "doc_id", "pid", "did", "document")
ID = ("_id", "id", *TEXT_ID[:5], *QUERY_ID[:3])
TEXT = ("text", "contents", "content", "query", "query_text", "question", "passage", "document")
GRADE = ("score", "relevance", "rel", "label", "grade")
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


def as_id(cell) -> str | None: # None: it is none; 7 and "7" are one id, 0042 and 42 are two
    if isinstance(cell, (int, np.integer)) and not isinstance(cell, bool):
        return str(cell)
    return (cell.strip() or None) if isinstance(cell, str) else None


# ---------------------------------------------------------------- texts by id, and judgments

def _columns(name: str, frame: pd.DataFrame, what: str, *roles: tuple[str, ...]) -> list[str]:
    "The column of each role. Raises `DataError` for a frame that lacks one."
    if not len(frame.columns):
        raise DataError(f"{name}: no {what.partition(' ')[0]}")
    found = [next((column for column in known if column in frame), None) for known in roles]
    if None in found:
        there = ", ".join(map(repr, frame.columns[:8]))
        raise DataError(f"{name}: {what}; found {there}")
    return found


def _texts(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    "Texts by id: columns text, bare (without the title), line and further ones."
    one, text = _columns(name, frame, "texts with ids are expected, in columns such as _id and text", ID, TEXT)
    if frame.empty:
        raise DataError(f"{name}: no texts")
    ids = frame[one].map(as_id)
    check(name, frame[one], ids.notna(), "an id is expected")
    check(name, frame[text], frame[text].map(lambda cell: cell is None or isinstance(cell, str)), "a text is expected")
    titles = frame["title"] if "title" in frame else [None] * len(frame)
    whole = list(map(with_title, titles, frame[text]))
    return frame.assign(line=frame.index, bare=frame[text], text=whole).set_index(ids)


def _by_id(name: str, texts: pd.DataFrame) -> pd.DataFrame:
    again = texts.index.duplicated()
    if again.any():
        one, line = texts.index[again][0], texts["line"][again].iloc[0]
        before = texts["line"].loc[one].iloc[0]
        raise DataError(f"{name}:{line}: the id {one!r} stands twice, first in line {before}")
    texts.attrs["name"] = name
    return texts


def _judgments(name: str, frame: pd.DataFrame) -> pd.DataFrame: # query, document, grade; index: line
    what = "judgments are expected, in columns such as query-id, corpus-id and score"
    query, document = _columns(name, frame, what, QUERY_ID, TEXT_ID)
    grade = next((column for column in GRADE if column in frame), None)
    ids = {"query": frame[query].map(as_id), "document": frame[document].map(as_id)}
    return pd.DataFrame(ids | {"grade": frame[grade] if grade else 1})


# ---------------------------------------------------------------- a folder

def _texts_file(path: Path) -> pd.DataFrame:
    bare = bare_rows(path) if ending(path) in (".tsv", ".txt") else pd.DataFrame()
    if bare.empty or {*ID} & {*bare.iloc[0]}:
        return _texts(str(path), read_table(path))
    if bare.shape[1] != 2 or bare.isna().any(axis=None):
        raise DataError(f"{path}: an id and a text are expected in each line, with a tab between")
    return _texts(str(path), bare.set_axis(["id", "text"], axis=1))


def _judgments_file(path: Path) -> pd.DataFrame:
    if ending(path) not in (".tsv", ".txt", ".qrels", ".qrel"):
        return _judgments(str(path), read_table(path))
    frame = bare_rows(path)
    if not frame.empty and number_of(frame.iloc[0].dropna().iloc[-1]) is None: # a header
        frame = frame.iloc[1:].set_axis(frame.iloc[0], axis=1)
    else:
        names = {3: ["query-id", "corpus-id", "score"], 4: ["query-id", "0", "corpus-id", "score"]}
        frame = frame.set_axis(names.get(frame.shape[1], frame.columns), axis=1)
    short = frame.index[frame.isna().any(axis=1) | (frame.shape[1] > 4)]
    if len(short):
        raise DataError(f"{path}:{short[0]}: 3 or 4 cells are expected, query, document and grade")
    return _judgments(str(path), frame)


def _list_files(folder: Path) -> pd.DataFrame: # role, split ("": none), place, and how many other words its name has
    "The files of a folder by the words of their names."
    rows = []
    for file in sorted(folder.rglob("*")):
        place = file.relative_to(folder)
        words = re.findall(r"[^\W\d_]+|\d+", place.as_posix().lower())
        role = next((role for role, names in HELD.items() if {*names} & {*words}), None)
        if role is None or not file.is_file() or any(part.startswith(".") for part in place.parts):
            continue
        split = next((one for one in SPLITS if one in words), "")
        if not split and role == "judgments" and file.parent != folder:
            split = file.name.partition(".")[0]
        others = sum(word not in (*HELD[role], split, ending(file)[1:], "gz") for word in words)
        readable = ending(file) in (*ENDINGS, ".qrels", ".qrel") and not UNREAD.search(place.as_posix())
        rows.append((role, split, file, others if readable else np.inf))
    return pd.DataFrame(rows, columns=["role", "split", "file", "others"])


def _choose(path: Path, files: pd.DataFrame, split: str | None) -> tuple[str, dict[str, list[Path]]]:
    "The split, and the files of each role that belong to it."
    held = {*files.role}
    judged = files[files.role == ("judgments" if "judgments" in held else "data")]
    missing = [what for what in ("corpus", "queries") if what not in held]
    if missing or judged.empty:
        there = ", ".join(sorted(file.name for file in path.iterdir())[:8])
        raise DataError(f"{path}: no {' and no '.join(missing or ['judgments'])} among its files ({there}); {HOLDS}")
    splits = [*judged.split.unique()]
    told = ", ".join(sorted(filter(None, splits)))
    if split and split not in splits:
        raise DataError(f"{path}: no judgments of a split {split!r}; there are {told}")
    if split is None:
        split = splits[0] if len(splits) == 1 else "test" if "test" in splits else ""
    if split not in splits:
        raise DataError(f"{path}: judgments of the splits {told}: name one of them, e.g. {path}:{told.partition(',')[0]}")
    chosen = {"judgments": judged.file[judged.split == split].tolist()}
    for role in ("queries", "corpus"):
        of = files[files.role == role]
        some = next(rows for rows in (of[of.split == split], of[of.split == ""], of) if len(rows))
        chosen[role] = some.file.tolist()
    return split, chosen


def read_folder(path: Path, split: str | None, asked: Options):
    "Files by the words of their names; of those with the same role the ones with the fewest other words."
    files = _list_files(path)
    fewest = files.groupby(["role", "split"]).others.transform("min")
    alone = [visible(file.relative_to(path).as_posix()) for file in files.file[files.others > fewest]]
    split, chosen = _choose(path, files[files.others == fewest], split)
    names = {role: ", ".join(map(str, some)) for role, some in chosen.items()}
    queries, corpus = (_by_id(names[role], pd.concat(map(_texts_file, chosen[role]))) for role in ("queries", "corpus"))
    found = pd.concat(map(_judgments_file, chosen["judgments"]))
    note = f"read as {JUDGMENTS}{f' of the split {split}' if split else ''}"
    note = "; ".join([note, *([f"left alone: {', '.join(alone)}"] if alone else [])])
    return *relevance(names["judgments"], queries, corpus, found, asked), sum(chosen.values(), []), note


# ---------------------------------------------------------------- dicts

def _texts_of(name: str, given) -> pd.DataFrame: # given: a table, or texts or rows by id
    lines = None
    if isinstance(given, dict) and all(isinstance(text, (str, dict)) or text is None for text in given.values()):
        given = [{"id": one, **(text if isinstance(text, dict) else {"text": text})} for one, text in given.items()]
        lines = [str(row["id"]) for row in given]
    table = in_memory(name, given)
    texts = _texts(name, table if lines is None else table.set_axis(lines))
    return _by_id(name, texts)


def read_dicts(name: str, given: dict, asked: Options):
    key = next((one for one in ("relevant_docs", "qrels", "relevance", "default") if one in given), None)
    if key is None:
        raise DataError(f"{name}: queries and corpus without relevant_docs")
    queries, corpus = (_texts_of(f"{name}: {role}", given[role]) for role in ("queries", "corpus"))
    label = f"{name}: {key}"
    if isinstance(given[key], dict):
        rows, places = [], {one: place for place, one in enumerate(corpus.index)}
        for query, documents in given[key].items():
            if not isinstance(documents, Iterable) or isinstance(documents, str):
                documents = [documents]
            graded = documents if isinstance(documents, dict) else dict.fromkeys(documents, 1)
            in_order = sorted(graded, key=lambda one: places.get(as_id(one), -1)) # a set has none
            rows += [(query, as_id(query), as_id(one), graded[one]) for one in in_order]
        found = pd.DataFrame(rows, columns=["line", "query", "document", "grade"]).set_index("line")
    else:
        found = _judgments(label, in_memory(name, given[key]))
    frame, texts, left_out = relevance(label, queries, corpus, found, asked)
    return frame.assign(line=range(1, len(frame) + 1)), texts, left_out, [], f"read as queries, corpus and {key}"


# ---------------------------------------------------------------- what is relevant

def grades_advice(numbers) -> str:
    "A threshold that lets grades be read, with some on both sides: the first one above the middle."
    grades = sorted({float(number) for number in numbers})
    upper = [grade for grade in grades if 2 * grade > grades[0] + grades[-1]]
    return f"; grades are read by --match-from {upper[0]:g} (match_from={upper[0]:g})" if upper else ""


def refuse(name: str, found: pd.DataFrame, wrong, told, more: str = "") -> None: # told: a row -> what is wrong with it
    "Raises `DataError` naming lines of judgments or of a run."
    bad = [(line, told(row)) for line, row in found[wrong].iterrows()]
    if bad:
        raise DataError(f"{bad_lines(name, bad, len(found), 'rows')}{more}")


def _grades(name: str, found: pd.DataFrame, whole: bool) -> pd.Series: # whole: grades must be whole numbers
    grade = pd.to_numeric(found.grade.map(number_of)).astype(float)
    wrong = grade.isna() | (grade.abs() > MOST)
    refuse(name, found, wrong, lambda row: f"a grade is expected, found {quoted(row.grade)}")
    if whole:
        advice = grades_advice(grade)
        refuse(name, found, grade % 1 != 0, lambda row: f"grades are whole numbers, found {quoted(row.grade)}{advice}")
    return grade


def _usable(name, queries, corpus, found, least):
    """Judgments whose query and text are there, with their places; what else there was, in words. Raises `DataError` where it is
    more than one in a hundred."""
    readable_queries, readable = (table.text.map(is_text).to_numpy() for table in (queries, corpus))
    asks, place = found.asks, found.place
    no_query, no_text = asks < 0, place < 0
    unread = ~(readable_queries[asks] & readable[place])
    empty = (found.grade >= least) & ~no_query & ~no_text & unread

    def told(row):
        if row.asks < 0:
            return f"query {quoted(row['query'])} is not in {queries.attrs['name']}"
        if row.place < 0:
            return f"text {quoted(row.document)} is not in {corpus.attrs['name']}"
        table, at = (corpus, row.place) if readable_queries[row.asks] else (queries, row.asks)
        text = table.iloc[at]
        return f"a text is expected in {table.attrs['name']}:{text.line}, found {quoted(text.text)}"

    wrong = no_query | no_text | empty
    if wrong.sum() > tolerated(len(found)):
        refuse(name, found, wrong, told, "; up to one in a hundred would be left out")
    return found[~wrong], {
        "judgments of a query that is not there": no_query.sum(),
        "judgments of a text that is not there": (no_text & ~no_query).sum(),
        "judgments of a query or text that has nothing to read": empty.sum()}


def _own_place(queries: pd.DataFrame, corpus: pd.DataFrame) -> np.ndarray: # (queries,) -1: it stands in no corpus
    "Where a query itself stands in the corpus: the same id, and the same text, spaces apart."
    place = corpus.index.get_indexer(queries.index)
    own = corpus.iloc[place]
    same = np.zeros(len(queries), bool)
    for texts in (own.text, own.bare):
        same |= [str(one).split() == str(other).split() for one, other in zip(queries.text, texts)]
    return np.where((place >= 0) & same, place, -1)


def _placed(name: str, queries: pd.DataFrame, corpus: pd.DataFrame, found: pd.DataFrame, asked: Options, least: float):
    "Each pair that is judged once, with its places and its grade; and how many judgments there were besides."
    found = found.assign(line=found.index, grade=_grades(name, found, asked.match_from is None))
    found = found.assign(asks=queries.index.get_indexer(found["query"]), place=corpus.index.get_indexer(found.document))
    found, counts = _usable(name, queries, corpus, found, least)
    first = found.groupby(["asks", "place"])[["line", "grade"]].transform("first")

    def twice(row):
        return f"query {row['query']!r} and text {row.document!r} are judged twice, with another grade in line {row.before}"

    refuse(name, found.assign(before=first.line), found.grade != first.grade, twice)
    again = found.duplicated(["asks", "place"])
    return found[~again], counts | {"judgments that stand twice": again.sum()}


def _check_answered(name: str, judgments: pd.DataFrame, unanswered: pd.DataFrame) -> None:
    "Raises `DataError` where more than one query in a hundred has no relevant text."
    if unanswered.asks.nunique() > tolerated(judgments.asks.nunique()):
        row = unanswered.iloc[0]
        grades = f"none of its {(judgments.asks == row.asks).sum():,} grades is 1 or more"
        raise DataError(f"{name}:{row.line}: query {quoted(row['query'])} has no relevant text: {grades}; {NO_MATCH}")


def relevance(name: str, queries: pd.DataFrame, corpus: pd.DataFrame, found: pd.DataFrame, asked: Options):
    """Queries with their relevant texts; queries and corpus by id, `found` has query, document and grade. Raises `DataError`
    naming lines of unknown ids, of what is no grade, and of a query without a relevant text."""
    least = 1 if asked.match_from is None else asked.match_from
    judgments, counts = _placed(name, queries, corpus, found, asked, least)
    whole = (judgments.grade % 1 == 0).all()
    itself = _own_place(queries, corpus)
    relevant = judgments.grade >= least
    own = relevant & (judgments.place == itself[judgments.asks])
    unanswered = judgments[~relevant.groupby(judgments.asks).transform("any")]
    if asked.match_from is None:
        _check_answered(name, judgments, unanswered)
    readable = corpus.text.map(is_text).to_numpy()
    counts |= {
        f"judgments with a grade below {least:g}": (~relevant).sum(),
        "judgments of a query's own text": own.sum(),
        f"queries without a grade of {least:g} or more": unanswered.asks.nunique(),
        "queries without a judgment": len(queries) - judgments.asks.nunique(),
        "texts of the corpus that have nothing to read": (~readable).sum(),
    }
    kept = judgments[relevant & ~own].sort_values("asks", kind="stable").reset_index(drop=True)
    if kept.empty:
        raise DataError(f"{name}: no query with a relevant text")
    frame = pd.DataFrame({"left": queries.text.to_numpy()[kept.asks], "right": corpus.text.to_numpy()[kept.place]})
    frame["line"] = kept.line
    frame["label"] = kept.grade.clip(lower=1).astype(int) if whole else 1
    frame["query"] = pd.factorize(kept.asks)[0]
    moved = np.append(readable.cumsum() - 1, -1) # places among texts that can be read; a query that is kept can be
    frame["document"] = moved[kept.place]
    frame["query_id"] = queries.index.to_numpy()[kept.asks]
    frame["itself"] = moved[itself[kept.asks]]
    if asked.group:
        if asked.group not in queries:
            raise DataError(f"{queries.attrs['name']}: no column {asked.group!r}")
        frame["group"] = groups_in(queries.attrs["name"], queries[asked.group]).to_numpy()[kept.asks]
    return frame, corpus.text[readable], {what: int(n) for what, n in counts.items() if n}
