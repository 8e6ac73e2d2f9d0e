"What the columns of a table are: their roles, by their names or as a user names them."
import re
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

import pandas as pd

from ..checks import check_known, quoted, visible
from .registry import DataError
from .tables import UNREADABLE, describe_values, number_of

# names of columns, folded
LEFT = ("left", "sentence1", "question1", "text1", "premise", "sentencea", "1string")
RIGHT = ("right", "sentence2", "question2", "text2", "hypothesis", "sentenceb", "2string")
SIDES = (("left", "right"), ("1", "2"), ("a", "b"), ("l", "r")) # beginnings or endings of other names
ANCHOR = ("anchor", "query", "question", "userinput")
POSITIVE = (
    "positive", "positives", "pos", "positivepassages", "answer", "answers", "document", "passage", "sentence", "context",
    "referencecontexts")
LABEL = (
    "label", "labels", "score", "scores", "isduplicate", "goldlabel", "similarityscore", "relevance", "grade", "quality")
LABEL_END = re.compile(r".*(labels?|match|duplicate|similarity)") # where no name is one of these
NEGATIVE = re.compile(r"(hard)?neg(ative)?s?\d*|negativepassages")
ROW_ID = re.compile(r".*id([12ablr]|left|right)?|idx|index|unnamed\d+|") # what numbers the rows is no text
JUDGMENTS = "queries, corpus and judgments"
FORMS = ("pairs", "candidates", "retrieval")
NAME_THEM = "name the columns, e.g. --columns left,right,label or --columns anchor,positive,negative"


def fold_name(name: str) -> str:
    "Return a name of a column without case, blanks and signs."
    return re.sub(r"[\W_]+", "", name.casefold())


@dataclass(frozen=True)
class Columns:
    "Columns by their role."
    form: str
    left: tuple[str, ...]  # several are joined
    right: tuple[str, ...]
    label: str | None = None
    negatives: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.left + self.right + self.negatives + ((self.label,) if self.label else ())

    @property
    def description(self) -> str:
        words = {"pairs": "labeled pairs", "candidates": "an anchor with several negatives", "retrieval": "matches without labels"}
        is_triplet = self.form == "candidates" and len(self.negatives) == 1
        return f"{'triplets' if is_triplet else words[self.form]}: {', '.join(self.names)}"


@dataclass(frozen=True)
class Options:
    "Options of a user for reading a source. Raises `DataError` for those that do not go together."
    columns: tuple[str, ...] = ()
    group: str | None = None
    form: str | None = None
    match: object = None
    match_from: float | None = None
    other_to: float | None = None
    scores: tuple[str, ...] = () # of the base and of the tuned model
    where: str | None = None # COLUMN=VALUE of the rows that are read

    @property
    def names(self) -> tuple[str, ...]: # of columns
        return self.columns + self.scores + ((self.group,) if self.group else ())

    def __post_init__(self):
        if self.form is not None:
            check_known("form", self.form, FORMS, DataError)
        if self.match is not None and self.match_from is not None:
            raise DataError("match and match_from: one of them says what a match is, got both")
        for option in ("match_from", "other_to"):
            value = getattr(self, option)
            if value is not None and (isinstance(value, bool) or not isinstance(value, Real) or value != value):
                raise DataError(f"{option}: a number is expected, got {quoted(value)}")
        if self.other_to is not None and (self.match_from is None or self.other_to >= self.match_from):
            raise DataError("other_to: it needs match_from, and must be below it")
        if self.columns and (len(self.columns) < 2 or len({*self.names}) < len(self.names)):
            rule = "three different names are needed, left, right and label, or two, anchor and positive"
            raise DataError(f"columns: {rule}, got {', '.join(self.names)}")

    def check_form(self, name: str, columns: Columns | None) -> None: # None: queries, corpus and judgments
        "Check that a source has the form that is expected, and something that each option reads."
        form, description = ("retrieval", JUDGMENTS) if columns is None else (columns.form, columns.description)
        if self.form not in (None, form):
            raise DataError(f"{name}: form {self.form!r} is requested, and it looks like {form!r} ({description})")
        useless = ["match", "match_from", "other_to", "scores"]
        if columns is None:
            useless = ["match", "other_to", "where"]
        elif columns.label is not None:
            useless = []
        for option in useless:
            if getattr(self, option) not in (None, ()):
                raise DataError(f"{name}: {option} reads labels or rows of a table, and there are none ({description})")

    def describe(self, rows: "Rows") -> str:
        "Say what a match is, and of labeled rows how many there are."
        if self.match is None and self.match_from is None:
            return ""
        rule = f"has a grade of {self.match_from:g} or more" if self.match is None else f"is labeled {self.match}"
        counts = "" if rows.columns is None else f": {(rows.frame.label > 0).sum():,} of {len(rows.frame):,}"
        return f"a match {rule}{counts}"


@dataclass(frozen=True)
class Rows:
    "Content of a source."
    frame: pd.DataFrame
    left_out: dict[str, int] # what was left out, in words -> how many
    corpus: pd.Series | None = None # of retrieval: every text that is searched, by its id if it has one
    note: str = "" # how it was read
    files: tuple[Path, ...] = () # of a folder
    columns: Columns | None = None # of a table

    @property
    def texts(self) -> list[str] | None:
        "Every text that is searched."
        return None if self.corpus is None else self.corpus.tolist()


def _by_side(names: dict[str, str]) -> list[tuple]: # names: by their folded form
    "Return the columns of each side, whose names differ in a beginning or an ending alone."
    for left, right in SIDES:
        partners = {low: low[:-len(left)] + right for low in names if low.endswith(left)}
        partners |= {low: right + low[len(left):] for low in names if low.startswith(left)}
        pairs = [(names[low], names[partner]) for low, partner in partners.items() if partner in names]
        if pairs:
            return [tuple(zip(*pairs))]
    return []


def labels_among(header: Iterable[str]) -> list[str]:
    "Return the columns that are called as labels are."
    names = {fold_name(name): name for name in header}
    return [names[low] for low in LABEL if low in names] or [name for low, name in names.items() if LABEL_END.fullmatch(low)]


def roles(header: list[str], form: str | None = None) -> list[Columns]: # several: names of several ways to read it
    "Return the roles of columns: the label by its name, texts by theirs, or by their order where two stand with a label."
    names = {fold_name(name): name for name in header}
    labels = labels_among(names.values())
    negatives = tuple(name for low, name in names.items() if NEGATIVE.fullmatch(low))
    others = {low: name for low, name in names.items() if name not in labels and not ROW_ID.fullmatch(low)}
    matches = [((names[left],), (names[right],)) for left in ANCHOR for right in POSITIVE if {left, right} <= names.keys()]
    usual = [((names[left],), (names[right],)) for left, right in zip(LEFT, RIGHT) if {left, right} <= names.keys()]
    sides = matches + usual or _by_side(others)
    if labels and not sides and len(others) == 2:
        sides = [tuple((name,) for name in others.values())]
    ways = {
        "pairs": [Columns("pairs", *side, label) for side in sides for label in labels],
        "candidates": [Columns("candidates", *side, None, negatives) for side in matches if negatives],
        "retrieval": [Columns("retrieval", *side) for side in sides if not negatives],
    }
    return ways.get(form) or ways["pairs"] + ways["candidates"] or ways["retrieval"][:len(matches)]


def columns_of(name: str, frame: pd.DataFrame, options: Options) -> Columns:
    "Return the roles of columns: as they were named, else by their names."
    header = list(frame.columns)
    there = ", ".join(map(visible, header[:8]))
    columns = None if options.columns else _only_way(name, [column for column in header if column != options.group], options, there)
    for column in dict.fromkeys([*(columns.names if columns else ()), *options.names]):
        if UNREADABLE.search(column):
            raise DataError(f"{name}: the name of column {quoted(column)} cannot be printed")
        if header.count(column) != 1:
            raise DataError(f"{name}: one column {column!r} is expected, found {header.count(column)} among {there}")
    if columns is None:
        return _assign(name, frame, options)
    if columns.form == "retrieval" and options.form is None:
        _check_unlabeled(name, frame, columns, options)
    return columns


def _only_way(name: str, header: list[str], options: Options, there: str) -> Columns:
    "Return the roles by names. Raises `DataError` where there are none, or several."
    ways = roles(header, options.form)
    if len(ways) == 1:
        return ways[0]
    if ways:
        readings = f"as {ways[0].description}, or as {ways[1].description}"
        first = ",".join(ways[0].names)
        raise DataError(f"{name}: its columns can be read in several ways, {readings}; name them, e.g. --columns {first}")
    advice = "if all pairs match, say form='retrieval'" if roles(header, "retrieval") else NAME_THEM
    problem = "neither two texts with a label nor an anchor with its positive"
    raise DataError(f"{name}: {problem} among the columns {there}; a file needs a header; {advice}")


def _further(frame: pd.DataFrame, columns: Columns, options: Options) -> list[pd.Series]:
    "Return the columns that have no role and number no rows."
    where, *_ = (options.where or "").partition("=")
    role_names = {*columns.names, *options.names, where}
    return [cells for column, cells in frame.items() if column not in role_names and not _numbers_rows(column, cells)]


def _numbers_rows(column: str, cells: pd.Series) -> bool:
    "Tell whether a column is called an id, and does not hold two values as `valid` does."
    low = fold_name(column)
    values = cells.map(str)
    return bool(ROW_ID.fullmatch(low)) and (not low.endswith("id") or values.is_unique or values.nunique() != 2)


def _check_unlabeled(name: str, frame: pd.DataFrame, columns: Columns, options: Options) -> None:
    "Refuse matches without labels next to a column of numbers, or of true and false, which may be their labels."
    for cells in _further(frame, columns, options):
        values = {str(cell).strip().casefold() for cell in cells.explode().dropna()} - {""}
        if values and all(value in ("true", "false") or number_of(value) is not None for value in values):
            names = ",".join([*columns.left, *columns.right])
            labels = f"if {visible(cells.name)!r} holds their labels, say --columns {names},{visible(cells.name)}"
            raise DataError(f"{name}: it looks like {columns.description}; {labels}, else --columns {names}")


def describe_unused(frame: pd.DataFrame, columns: Columns, options: Options) -> str:
    "List the columns that are not used, with their values where these are few."
    further = [visible(cells.name) + describe_values(cells) for cells in _further(frame, columns, options)]
    advice = "; --where COLUMN=VALUE chooses rows" if any(", " in column for column in further) else ""
    return f"not used: {', '.join(further)}{advice}" if further else ""


def _assign(name: str, frame: pd.DataFrame, options: Options) -> Columns:
    "Return the roles of columns that a user names: the label by its name where it is not named, a third one by its cells."
    left, right, *others = options.columns
    if not others and options.form != "retrieval":
        others = labels_among(column for column in frame if column not in options.columns)
        if len(others) > 1:
            there = " and ".join(map(repr, others))
            raise DataError(f"{name}: the columns {there} may hold labels; name one of them, --columns {left},{right},{others[0]}")
    if not others:
        return Columns("retrieval", (left,), (right,))
    third = frame[others[0]]
    is_label = options.form == "pairs" or (options.match, options.match_from) != (None, None) or labels_among(others[:1])
    is_long = third.map(lambda cell: isinstance(cell, list) or " " in str(cell).strip())
    has_texts = not is_label and (NEGATIVE.fullmatch(fold_name(third.name)) or is_long.mean() > .5)
    if options.form == "candidates" or len(others) > 1 or has_texts:
        return Columns("candidates", (left,), (right,), None, tuple(others))
    return Columns("pairs", (left,), (right,), others[0])
