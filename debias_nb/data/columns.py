"What the columns of a table are: their roles, by their names or as a user names them."
import re
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path

import pandas as pd

from ..checks import check_known, quoted, visible
from .registry import DataError
from .tables import UNREAD, describe_values, number_of

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
FORMS = ("pairs", "candidates", "retrieval")
NAME_THEM = "name the columns, e.g. --columns left,right,label or --columns anchor,positive,negative"


def fold_name(name: str) -> str:
    "Return a name of a column without case, blanks and signs."
    return re.sub(r"[\W_]+", "", name.casefold())


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
    def description(self) -> str:
        candidates = "triplets" if len(self.negatives) == 1 else "an anchor with several negatives"
        if self.label is not None:
            candidates = "queries with lists of texts and of labels"
        word = {"pairs": "labeled pairs", "retrieval": "matches without labels"}.get(self.form, candidates)
        return f"{word}: {', '.join(self.names)}"


@dataclass(frozen=True)
class Options:
    "How a user wants a source to be read. Raises `DataError` for options that do not go together."
    columns: tuple[str, ...] | None
    group: str | None
    form: str | None
    match: object
    match_from: float | None
    other_to: float | None
    scores: tuple[str, str] | None = None # of the base and of the tuned model
    where: str | None = None # COLUMN=VALUE of the rows that are read

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
        names = [*(self.columns or []), *filter(None, [self.group]), *(self.scores or ())]
        if self.columns and (len(self.columns) < 2 or len(set(names)) < len(names)):
            rule = "three different names are needed, left, right and label, or two, anchor and positive"
            raise DataError(f"columns: {rule}, got {', '.join(names)}")

    def check_form(self, name: str, form: str, description: str, has_label: bool = False) -> None:
        "Check that a source has the form that is expected, and labels where an option reads them."
        if self.form not in (None, form):
            raise DataError(f"{name}: form {self.form!r} is asked for, and it looks like {form!r} ({description})")
        has_grades = has_label or description == JUDGMENTS
        for option, applies in (("match", has_label), ("match_from", has_grades), ("other_to", has_label), ("scores", has_grades), ("where", description != JUDGMENTS)):
            if getattr(self, option) is not None and not applies:
                missing = "rows that it could choose" if option == "where" else "labels that it could read"
                raise DataError(f"{name}: {option} is given, and there are no {missing} ({description})")

    def describe(self, rows: "Rows") -> str:
        "Say what a match is, and of labeled rows how many there are."
        if self.match is None and self.match_from is None:
            return ""
        rule = f"has a grade of {self.match_from:g} or more" if self.match is None else f"is labeled {self.match}"
        counts = "" if rows.columns is None else f": {(rows.frame.label > 0).sum():,} of {len(rows.frame):,}"
        return f"a match {rule}{counts}"


@dataclass(frozen=True)
class Rows:
    "What a source holds, once it is read."
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


JUDGMENTS = "queries, corpus and judgments"


def _by_side(names: dict[str, str]) -> list[tuple]: # names: by their folded form
    "Return the columns of each side, whose names differ in a beginning or an ending alone."
    for left, right in SIDES:
        size = len(left)
        pairs = [
            (names[low], names[partner]) for low in names
            for partner, has_side in ((low[:-size] + right, low.endswith(left)), (right + low[size:], low.startswith(left)))
            if has_side and partner in names]
        if pairs:
            return [tuple(zip(*pairs))]
    return []


def labels_among(names: dict[str, str]) -> list[str]: # names: by their folded form
    "Return the columns that are called as labels are."
    return [names[name] for name in LABEL if name in names] or [name for low, name in names.items() if LABEL_END.fullmatch(low)]


def roles(header: list[str], form: str | None = None) -> list[Columns]: # several: names of several ways to read it
    "Return the roles of columns: the label by its name, texts by theirs, or by their order where two stand next to a label."
    by_name = {}
    for name in header:
        by_name.setdefault(fold_name(name), name)
    labels = labels_among(by_name)
    negatives = tuple(name for low, name in by_name.items() if NEGATIVE.fullmatch(low))
    others = {low: name for low, name in by_name.items() if name not in labels and not ROW_ID.fullmatch(low)}
    matches = [(by_name[one], by_name[other]) for one in ANCHOR for other in POSITIVE if {one, other} <= by_name.keys()]
    usual = [(by_name[one], by_name[other]) for one, other in zip(LEFT, RIGHT) if {one, other} <= by_name.keys()]
    sides = [((left,), (right,)) for left, right in matches + usual] or _by_side(others)
    if labels and not sides and len(others) == 2:
        sides = [tuple((name,) for name in others.values())]
    ways = {
        "pairs": [Columns("pairs", *side, label) for side in sides for label in labels],
        "candidates": [Columns("candidates", (one,), (other,), None, negatives) for one, other in matches if negatives],
        "retrieval": [Columns("retrieval", *side) for side in sides if not negatives],
    }
    return ways.get(form) or ways["pairs"] + ways["candidates"] or ways["retrieval"][:len(matches)]


def columns_of(name: str, frame: pd.DataFrame, options: Options) -> Columns:
    "Return the roles of columns: as they were named, else by their names."
    header = list(frame.columns)
    ways = roles([column for column in header if column != options.group], options.form)
    there = ", ".join(map(visible, header[:8]))
    if not options.columns and not ways:
        without_label = roles(header, "retrieval")
        advice = "if all pairs match, say form='retrieval'" if without_label else NAME_THEM
        problem = "neither two texts with a label nor an anchor with its positive"
        raise DataError(f"{name}: {problem} among the columns {there}; a file needs a header; {advice}")
    if not options.columns and len(ways) > 1:
        readings = f"as {ways[0].description}, or as {ways[1].description}"
        first = ",".join(ways[0].names)
        raise DataError(f"{name}: its columns can be read in several ways, {readings}; name them, e.g. --columns {first}")
    for column in [*(options.columns or ways[0].names), *filter(None, [options.group]), *(options.scores or ())]:
        if UNREAD.search(column):
            raise DataError(f"{name}: the name of column {quoted(column)} cannot be printed")
        if header.count(column) != 1:
            raise DataError(f"{name}: one column {column!r} is expected, found {header.count(column)} among {there}")
    columns = _assign(name, frame, options) if options.columns else ways[0]
    if columns.form == "retrieval" and not options.columns and options.form is None:
        _check_unlabeled(name, frame, columns, options)
    if columns.form == "pairs" and frame[columns.label].map(lambda cell: isinstance(cell, list)).all():
        return replace(columns, form="candidates")
    return columns


def _further(frame: pd.DataFrame, columns: Columns, options: Options) -> list[pd.Series]:
    "Return the columns that have no role and number no rows."
    used = {*columns.names, options.group, *(options.scores or ()), options.where and options.where.partition("=")[0]}
    return [cells for column, cells in frame.items() if column not in used and not _numbers_rows(column, cells)]


def _numbers_rows(column: str, cells: pd.Series) -> bool:
    "Tell whether a column is called an id, and does not hold two values as `valid` does."
    low = fold_name(column)
    values = cells.map(str)
    return bool(ROW_ID.fullmatch(low)) and (not low.endswith("id") or values.is_unique or values.nunique() != 2)


def _check_unlabeled(name: str, frame: pd.DataFrame, columns: Columns, options: Options) -> None:
    "Refuse matches without labels next to a column of numbers, or of true and false, which may be their labels."
    for cells in _further(frame, columns, options):
        values = cells.explode().dropna().map(lambda cell: str(cell).strip().casefold())
        values = values[values != ""].unique()
        if len(values) and all(value in ("true", "false") or number_of(value) is not None for value in values):
            names = ",".join([*columns.left, *columns.right])
            labels = f"if {visible(cells.name)!r} holds their labels, say --columns {names},{visible(cells.name)}"
            raise DataError(f"{name}: it looks like {columns.description}; {labels}, else --columns {names}")


def describe_unused(frame: pd.DataFrame, columns: Columns, options: Options) -> str:
    "Say which columns are not used, with their values where these are few."
    further = [visible(cells.name) + describe_values(cells) for cells in _further(frame, columns, options)]
    if not further:
        return ""
    advice = "; --where COLUMN=VALUE chooses rows" if any(", " in one for one in further) else ""
    return f"not used: {', '.join(further)}{advice}"


def _assign(name: str, frame: pd.DataFrame, options: Options) -> Columns:
    "The roles of columns that a user names: the label by its name where it is not named, a third one by its cells."
    left, right, *others = options.columns
    if not others and options.form != "retrieval":
        others = labels_among({fold_name(column): column for column in frame if column not in options.columns})
        if len(others) > 1:
            there = " and ".join(map(repr, others))
            advice = f"name one of them, --columns {left},{right},{others[0]}"
            raise DataError(f"{name}: the columns {there} may hold labels; {advice}")
    if not others:
        return Columns("retrieval", (left,), (right,))
    third = fold_name(others[0])
    is_label = options.form == "pairs" or options.match is not None or options.match_from is not None or labels_among({third: third})
    long = frame[others[0]].map(lambda cell: isinstance(cell, list) or " " in str(cell).strip())
    texts = not is_label and (NEGATIVE.fullmatch(third) or long.mean() > .5)
    if options.form == "candidates" or len(others) > 1 or texts:
        return Columns("candidates", (left,), (right,), None, tuple(others))
    return Columns("pairs", (left,), (right,), others[0])
