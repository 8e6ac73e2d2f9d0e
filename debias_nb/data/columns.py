"What the columns of a table are: their roles, by their names or as a user names them."
import re
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

import pandas as pd

from ..checks import check_known, quoted, visible
from .registry import DataError
from .tables import UNREAD

LEFT = ("left", "sentence1", "question1", "text1", "premise", "sentence_a", "#1 string")
RIGHT = ("right", "sentence2", "question2", "text2", "hypothesis", "sentence_b", "#2 string")
ANCHOR = ("anchor", "query", "question", "user_input")
POSITIVE = (
    "positive", "positives", "pos", "positive_passages", "answer", "answers", "document", "passage", "sentence", "context",
    "reference_contexts")
LABEL = (
    "label", "labels", "score", "scores", "is_duplicate", "gold_label", "similarity_score", "relevance", "grade", "quality")
NEGATIVE = re.compile(r"(hard_)?neg(ative)?s?(_?\d+)?|negative_passages")
ROW_ID = re.compile(r".*id|idx|index|unnamed: ?\d+|") # what numbers the rows is no text
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
    def description(self) -> str:
        candidates = "triplets" if len(self.negatives) == 1 else "an anchor with several negatives"
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

    def check_form(self, name: str, form: str, description: str) -> None:
        "Raises `DataError` for another form than what is asked for, and for options that it does not have."
        if self.form not in (None, form):
            raise DataError(f"{name}: form {self.form!r} is asked for, and it looks like {form!r} ({description})")
        has_labels = form == "pairs" or description == JUDGMENTS
        for option, applies in (("match", form == "pairs"), ("match_from", has_labels), ("other_to", form == "pairs"), ("scores", has_labels)):
            if getattr(self, option) is not None and not applies:
                raise DataError(f"{name}: {option} is given, and there are no labels that it could read ({description})")

    @property
    def description(self) -> str:
        if self.match is not None:
            return f"a match is labeled {self.match}"
        return "" if self.match_from is None else f"a match has a grade of {self.match_from:g} or more"


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


def roles(header: list[str], form: str | None = None) -> list[Columns]: # several: names of several ways to read it
    "The roles of columns: the label by its name, texts by theirs, or by their order where two stand next to a label."
    by_name = {}
    for name in header:
        by_name.setdefault(name.casefold(), name)
    labels = [by_name[name] for name in LABEL if name in by_name]
    negatives = tuple(name for low, name in by_name.items() if NEGATIVE.fullmatch(low))
    others = [name for low, name in by_name.items() if name not in labels and not ROW_ID.fullmatch(low)]
    matches = [(by_name[one], by_name[other]) for one in ANCHOR for other in POSITIVE if {one, other} <= by_name.keys()]
    usual = [(by_name[one], by_name[other]) for one, other in zip(LEFT, RIGHT) if {one, other} <= by_name.keys()]
    sides = [((left,), (right,)) for left, right in matches + usual]
    # of tables that were joined, `left_title` with `right_title`
    by_side = [tuple(name for name in others if name.casefold().startswith(side)) for side in ("left_", "right_")]
    if not sides and all(by_side):
        sides = [tuple(by_side)]
    if labels and not sides and len(others) == 2:
        sides = [((others[0],), (others[1],))]
    ways = {
        "pairs": [Columns("pairs", *side, label) for side in sides for label in labels],
        "candidates": [Columns("candidates", (one,), (other,), None, negatives) for one, other in matches if negatives],
        "retrieval": [Columns("retrieval", *side) for side in sides if not negatives],
    }
    return ways.get(form) or ways["pairs"] + ways["candidates"] or ways["retrieval"][:len(matches)]


def columns_of(name: str, frame: pd.DataFrame, options: Options) -> Columns:
    "The roles of columns: as they were named, else by their names."
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
    return _assign(name, frame, options) if options.columns else ways[0]


def _assign(name: str, frame: pd.DataFrame, options: Options) -> Columns:
    "The roles of columns that a user names: the label by its name where it is not named, a third one by its cells."
    left, right, *others = options.columns
    if not others and options.form != "retrieval":
        others = [column for column in frame if column.casefold() in LABEL and column not in options.columns]
        if len(others) > 1:
            there = " and ".join(map(repr, others))
            advice = f"name one of them, --columns {left},{right},{others[0]}"
            raise DataError(f"{name}: the columns {there} may hold labels; {advice}")
    if not others:
        return Columns("retrieval", (left,), (right,))
    third = others[0].casefold()
    is_label = options.form == "pairs" or options.match is not None or options.match_from is not None or third in LABEL
    long = frame[others[0]].map(lambda cell: isinstance(cell, list) or " " in str(cell).strip())
    texts = not is_label and (NEGATIVE.fullmatch(third) or long.mean() > .5)
    if options.form == "candidates" or len(others) > 1 or texts:
        return Columns("candidates", (left,), (right,), None, tuple(others))
    return Columns("pairs", (left,), (right,), others[0])
