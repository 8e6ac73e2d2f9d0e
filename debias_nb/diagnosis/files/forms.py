"The forms of a test: which columns make each, by their names or as a user names them, and how its rows are read."
from __future__ import annotations # which name pandas before it is loaded

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...checks import check_known, closest, counted, quoted, visible
from ...data.registry import DataError
from ...data.tables import FEW, FORMATS, LINES, UNREADABLE, check, column_and_value, describe_values, ending, finite
from ...data.tables import first_cells
from ...data.tables import groups_in, is_text, number_of, path_and_part, texts_in
from ...deferred import Deferred

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Deferred("pandas")

# names of columns, folded
LEFT = ("left", "sentence1", "question1", "text1", "premise", "sentencea", "1string")
RIGHT = ("right", "sentence2", "question2", "text2", "hypothesis", "sentenceb", "2string")
SIDES = (("left", "right"), ("1", "2"), ("a", "b"), ("l", "r")) # beginnings or endings of other names
ANCHOR = ("anchor", "query", "question", "userinput")
POSITIVE = (
    "positive", "positives", "pos", "positivepassages", "answer", "answers", "document", "passage", "sentence",
    "context",
    "referencecontexts")
LABEL = (
    "label", "labels", "score", "scores", "isduplicate", "goldlabel", "similarityscore", "relevance", "grade",
    "quality")
LABEL_END = re.compile(r".*(labels?|match|duplicate|similarity)") # where no name is one of these
# as in positive_ctxs: next to negatives these are the matches
POSITIVE_BEGIN = re.compile(r"pos|positives?(?!scores?)[a-z]*")
NEGATIVE = re.compile(r"(hard)?neg(s|atives?(?!scores?)[a-z]*)?\d*") # as in hard_negative_ctxs
NUMBER_OF_ROW = re.compile(r".*id([12ablr]|left|right)?|idx|index|unnamed\d+|") # what numbers the rows is no text
VALIDATION = "validation " # stands before the name of pairs on which strengths and methods are chosen
JUDGMENTS = "queries, corpus and judgments"
MODELS = ("base", "tuned")
LARGEST_GRADE = 10**6 # of a grade
ID_OF_TEXT = re.compile(r"\w*\d[\w-]*") # no blank, and a digit
MANY_ROWS = 10 # of each value of a column that is no text
TWO_TEXTS = "two columns of texts are needed"


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
        title = "triplets" if len(self.negatives) == 1 else FORMS[self.form].title
        return f"{title}: {', '.join(self.names)}"


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
            raise DataError("match and match_from: give one of them to say what a match is, got both")
        for option in ("match_from", "other_to"):
            value = getattr(self, option)
            if value is not None and (isinstance(value, bool) or not isinstance(value, Real) or value != value):
                raise DataError(f"{option}: a number is expected, got {quoted(value)}")
        if self.other_to is not None and (self.match_from is None or self.other_to >= self.match_from):
            raise DataError("other_to needs match_from, and must be below it")
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


def options_from(
    columns: tuple[str, ...] | str | None = None, group: str | None = None, form: str | None = None, match=None,
    match_from: float | None = None,
    other_to: float | None = None, scores: tuple[str, str] | None = None, where: str | None = None,
) -> Options:
    "Return the arguments of `read_pairs_file` as options."
    names = columns.split(",") if isinstance(columns, str) else columns
    return Options(tuple(names or ()), group or None, form, match, match_from, other_to, tuple(scores or ()), where)


def arguments_by_file(
    names: Iterable[str],     # of files, `train` among them
    # of all files, or by name, of None those of all others
    columns: tuple[str, ...] | dict[str | None, tuple[str, ...]] | None = None,
    has_scores: bool = False, # whether of five columns the last two are scores
    group: str | None = None, where: str | None = None, # of tests
) -> dict[str, dict]: # as `read_pairs_file` takes them
    "Return what a command's options say of each file. Raise `DataError` for columns of a file that is none."
    by_name = columns if isinstance(columns, dict) else {None: columns}
    for name in by_name.keys() - {None, *names}:
        raise DataError(f"columns: there is no file called {name!r}")
    arguments = {}
    for name in names:
        roles, scores = by_name.get(name, by_name.get(None)), None
        if has_scores and roles is not None and len(roles) == 5:
            roles, scores = roles[:3], tuple(roles[3:])
        of_test = {} if name == "train" else {"group": group, "scores": scores, "where": where}
        arguments[name] = {"columns": roles, **of_test}
    return arguments


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
    return ([names[low] for low in LABEL if low in names]
            or [name for low, name in names.items() if LABEL_END.fullmatch(low)])


@dataclass(frozen=True)
class Header:
    "Columns of a table by what they may be, each side of a pair with one or more of them."
    sides: list[tuple]
    matches: list[tuple] # sides that are called as an anchor and its positive
    labels: list[str]
    negatives: tuple[str, ...]


def _header(columns: list[str]) -> Header:
    "Sort columns: labels by their names, texts by theirs, or by their order where two stand with a label."
    names = {fold_name(name): name for name in columns}
    labels = labels_among(names.values())
    negatives = tuple(name for low, name in names.items() if NEGATIVE.fullmatch(low))
    unlabeled = {low: name for low, name in names.items() if name not in labels and not NUMBER_OF_ROW.fullmatch(low)}
    positives = [low for low in names if negatives and POSITIVE_BEGIN.fullmatch(low)]
    matches = [((names[left],), (names[right],)) for left in ANCHOR for right in positives or POSITIVE
               if {left, right} <= names.keys()]
    usual = [((names[left],), (names[right],)) for left, right in zip(LEFT, RIGHT) if {left, right} <= names.keys()]
    sides = matches + usual or _by_side(unlabeled)
    if labels and not sides and len(unlabeled) == 2:
        sides = [tuple((name,) for name in unlabeled.values())]
    return Header(sides, matches, labels, negatives)


def roles(columns: list[str], form: str | None = None) -> list[Columns]: # several: names of several ways to read it
    "Return the roles of columns in each form that they make; matches without labels make one where nothing else does."
    header = _header(columns)
    ways = {name: spec.ways(header) for name, spec in FORMS.items()}
    unlabeled = ways.pop("retrieval")
    if form == "retrieval" and unlabeled:
        return unlabeled
    if ways.get(form):
        return ways[form]
    labeled = [way for readings in ways.values() for way in readings]
    return labeled or unlabeled[:len(header.matches)]


def columns_of(name: str, frame: pd.DataFrame, options: Options) -> Columns:
    "Return the roles of columns: as they were named, else by their names."
    columns = None if options.columns else _only_way(name, frame, options)
    if columns is not None:
        columns = _with_texts_alone(name, frame, columns)
    _check_names(name, [*frame], [*(columns.names if columns else ()), *options.names])
    if columns is None:
        return _assign(name, frame, options)
    if columns.form == "retrieval" and options.form is None:
        lists = [cells.name for cells in _unused_columns(frame, columns, options)
                 if _holds_lists(cells, frame[columns.right[0]])]
        if len(lists) == 1: # of the candidates of a query
            return replace(columns, form="candidates", negatives=tuple(lists))
        _check_unlabeled(name, frame, columns, options)
    return columns


def _first_names(header: Iterable[str]) -> str:
    return ", ".join(map(visible, [*header][:8]))


def _check_names(name: str, header: list[str], names: Iterable[str]) -> None:
    "Check that a table has one column of each name, which can be printed."
    for column in dict.fromkeys(names):
        if UNREADABLE.search(column):
            raise DataError(f"{name}: the name of column {quoted(column)} cannot be printed")
        if header.count(column) != 1:
            raise DataError(f"{name}: one column {column!r} is expected, found {header.count(column)} among "
                            f"{_first_names(header)}{closest(column, header)}")


def check_header(path: str, options: Options) -> None:
    """Check the names of columns of a file with cells between signs, by its first rows.

    What takes all rows is checked when they are read. Raise `DataError` as `columns_of` does."""
    place, part = path_and_part(path)
    if place.is_dir() or ending(place) not in (".csv", ".tsv", LINES):
        return
    table = first_cells(place)
    if not table:
        return
    row_filter = part or options.where
    if row_filter:
        column_and_value(path, [*table], row_filter)
    if not options.columns:
        _only_way(path, table, options)
    _check_names(path, [*table], options.names)


def _holds_lists(cells: pd.Series, matches: pd.Series) -> bool:
    "Tell whether cells are lists of candidates, the match among most of them."
    if not len(cells) or not cells.map(lambda cell: isinstance(cell, list)).all():
        return False
    positives = [match if isinstance(match, list) else [match] for match in matches]
    holding = [any(text in cell for text in texts) for cell, texts in zip(cells, positives)]
    return sum(holding) > len(cells) / 2


def _holds_texts(cells: Sequence) -> bool:
    "Tell whether most cells are texts that are no numbers, or lists."
    texts = [cell for cell in cells if _is_wording(cell) or isinstance(cell, list) and all(map(_is_passage, cell))]
    return len(texts) > len(cells) / 2


def _is_passage(entry) -> bool: # of a list
    return is_text(entry.get("text") if isinstance(entry, dict) else entry)


def _is_wording(cell) -> bool:
    return is_text(cell) and number_of(cell) is None


def _with_texts_alone(name: str, frame: pd.DataFrame, columns: Columns) -> Columns:
    "Leave out columns that hold no texts: numbers, few values, or the answer itself; one pair of columns is left."
    pairs = [*zip(columns.left, columns.right)]
    if len(pairs) < 2 or len(columns.left) != len(columns.right) or not {*columns.left, *columns.right} <= {*frame}:
        return columns
    has_texts = {side: _holds_texts(frame[side]) and not _has_few_values(frame[side]) for pair in pairs
                 for side in pair}
    texts = [(left, right) for left, right in pairs if has_texts[left] and has_texts[right]]
    untold = [pair for pair in texts if not _tells_labels(frame, pair, columns.label)]
    left, right = zip(*(untold or texts or pairs[:1]))
    return replace(columns, left=left, right=right)


def _has_few_values(cells: Sequence) -> bool:
    "Tell whether a column has values that come again and again, as names of sources do."
    values = {*map(str, cells)}
    return len(cells) >= 2 * MANY_ROWS and len(values) < len(cells) / MANY_ROWS


def _tells_labels(frame: pd.DataFrame, pair: tuple[str, str], label: str | None) -> bool:
    "Tell whether the cells of two columns are equal just where a pair has one of the labels, as names of clusters are."
    if label is None or label not in frame:
        return False
    is_equal = frame[pair[0]].map(str) == frame[pair[1]].map(str)
    if is_equal.nunique() < 2:
        return False
    labels = frame[label].map(str)
    labels_of_a_kind = labels.groupby(is_equal).nunique()
    return labels.nunique() == 2 and labels_of_a_kind.max() == 1


def _example(
    frame: Mapping[str, Sequence], # a data frame, or the first cells of each column
    options: Options,
) -> list[str]:
    "Name columns of this file: two of texts and, except of a pool, one of labels or texts."
    columns = [column for column in frame if column != options.group and [*frame].count(column) == 1
               and not _numbers_rows(column, frame[column])]
    texts = [column for column in columns if _holds_texts(frame[column]) and not _has_few_values(frame[column])]
    sides = _header(columns).sides
    if sides:
        texts = [sides[0][0][0], sides[0][1][0]]
    values = {column: len({*map(str, frame[column])}) for column in columns if column not in texts}
    label_columns = sorted((column for column, count in values.items()
                            if 1 < count <= max(FEW, len(frame[column]) // 2)), key=values.get)
    if len(texts) < 2:
        return []
    if options.form == "retrieval":
        return texts[:2]
    of_two_values = [column for column in label_columns if values[column] == 2] # beside which words are no third text
    return texts[:2] + (of_two_values or texts[2:] or label_columns)[:1]


def _as_option(names: Sequence[str]) -> str:
    "Return names of columns as a shell takes them."
    return shlex.quote(visible(",".join(names)))


def _only_way(name: str, frame: Mapping[str, Sequence], options: Options) -> Columns:
    "Return the roles by names. Raises `DataError` where there are none, or several."
    ways = roles([column for column in frame if column != options.group], options.form)
    if len(ways) == 1:
        return ways[0]
    if ways:
        readings = f"as {ways[0].description}, or as {ways[1].description}"
        first = _as_option(ways[0].names)
        raise DataError(f"{name}: its columns can be read in several ways, {readings}; name them, e.g. "
                        f"--columns {first}")
    example = _example(frame, options)
    advice = TWO_TEXTS
    if example:
        may_match = len(example) == 2 and options.form is None
        lead = "if all pairs match," if may_match else "name the columns, e.g."
        advice = f"{lead} --columns {_as_option(example)}"
    problem = "neither two texts with a label nor an anchor with its positive"
    raise DataError(f"{name}: {problem} among the columns {_first_names(frame)}; a file needs a header; {advice}")


def _unused_columns(frame: pd.DataFrame, columns: Columns, options: Options) -> list[pd.Series]:
    "Return the columns that have no role and number no rows."
    filter_column, *_ = (options.where or "").partition("=")
    role_names = {*columns.names, *options.names, filter_column}
    return [cells for column, cells in frame.items() if column not in role_names and not _numbers_rows(column, cells)]


def _numbers_rows(column: str, cells: Sequence) -> bool:
    "Tell whether a column is called an id, and does not hold two values as `valid` does."
    low = fold_name(column)
    if not NUMBER_OF_ROW.fullmatch(low):
        return False
    values = {*map(str, cells)}
    return not low.endswith("id") or len(values) == len(cells) or len(values) != 2


def _check_unlabeled(name: str, frame: pd.DataFrame, columns: Columns, options: Options) -> None:
    "Refuse matches without labels next to a column of numbers, or of true and false, which may be their labels."
    for cells in _unused_columns(frame, columns, options):
        values = {str(cell).strip().casefold() for cell in cells.explode().dropna()} - {""}
        if values and all(value in ("true", "false") or number_of(value) is not None for value in values):
            names = [*columns.left, *columns.right]
            labels = f"if {visible(cells.name)!r} holds their labels, say --columns {_as_option([*names, cells.name])}"
            raise DataError(f"{name}: it looks like {columns.description}; {labels}, else --columns "
                            f"{_as_option(names)}")


def describe_unused(frame: pd.DataFrame, columns: Columns, options: Options) -> str:
    "List the columns that are not used, with their values where these are few."
    descriptions = [visible(cells.name) + describe_values(cells) for cells in _unused_columns(frame, columns, options)]
    advice = "; --where COLUMN=VALUE chooses rows" if any(", " in column for column in descriptions) else ""
    return f"not used: {', '.join(descriptions)}{advice}" if descriptions else ""


def _assign(name: str, frame: pd.DataFrame, options: Options) -> Columns:
    "Return the roles of columns that a user names: an unnamed label is found by name, a third column by its cells."
    left, right, *extra_columns = options.columns
    if not extra_columns and options.form != "retrieval":
        extra_columns = labels_among(column for column in frame if column not in options.columns)
        if len(extra_columns) > 1:
            listing = " and ".join(map(repr, extra_columns))
            raise DataError(f"{name}: the columns {listing} may hold labels; name one of them, --columns "
                            f"{_as_option([left, right, extra_columns[0]])}")
    if not extra_columns:
        return Columns("retrieval", (left,), (right,))
    third = frame[extra_columns[0]]
    is_label = (options.form == "pairs" or (options.match, options.match_from) != (None, None)
                or labels_among(extra_columns[:1]))
    is_long = third.map(lambda cell: isinstance(cell, list) or " " in str(cell).strip())
    has_texts = not is_label and (NEGATIVE.fullmatch(fold_name(third.name)) or is_long.mean() > .5)
    if options.form == "candidates" or len(extra_columns) > 1 or has_texts:
        return Columns("candidates", (left,), (right,), None, tuple(extra_columns))
    return Columns("pairs", (left,), (right,), extra_columns[0])


# ---------------------------------------------------------------- rows of labeled pairs

def grades_advice(numbers) -> str:
    "Name a round threshold that is none of the grades, near the middle of them."
    grades = {float(number) for number in numbers if abs(number) <= LARGEST_GRADE}
    low, lower, middle, upper, high = np.linspace(min(grades, default=0), max(grades, default=0), 5)
    for digits in range(-6, 7):
        for threshold in np.round([middle, upper, lower], digits):
            if low < threshold < high and threshold not in grades:
                return f"; grades are read by --match-from {threshold:g} (match_from={threshold:g})"
    return ""


UNLABELED_CELLS = ("", "-", "none", "nan")
LISTS = (
    "columns {0} and {1} hold lists of texts and of their labels: frame.explode(['{0}', '{1}']) makes labeled pairs "
    "of them, and columns query, pos and neg with the texts of each kind make candidates")


def is_empty(cell) -> bool: # as JSON and Parquet hold it
    return cell is None or cell != cell


def one_text(name: str, frame: pd.DataFrame, columns: tuple[str, ...]) -> pd.Series:
    "Return the texts of a side; several columns are joined."
    texts = frame[columns[0]]
    if len(columns) > 1:
        cells = frame[list(columns)].map(lambda cell: "" if is_empty(cell) else str(cell).strip())
        texts = cells.agg(lambda row: " ".join(filter(None, row)), axis=1).rename(" + ".join(columns))
    if len(texts) and texts.map(lambda cell: isinstance(cell, list)).all():
        raise DataError(f"{name}: column {texts.name!r} holds lists, such as of an instruction and a text: one text a "
                        "cell is expected; an instruction goes to --prompts")
    check(name, texts, texts.map(is_text), "a text is expected")
    if len(texts) and pd.to_numeric(texts, errors="coerce").notna().all(): # as ids are
        first = repr(texts.iloc[0])
        raise DataError(f"{name}: column {texts.name!r} holds only numbers (the first is {first}); {TWO_TEXTS}")
    return texts


def _label(cell: str, options: Options) -> float | None: # 0 or 1; nan where a pair is left out, None: no label
    word, number = cell.strip().casefold(), number_of(cell)
    if options.match is not None:
        match = str(options.match).strip().casefold()
        if word in UNLABELED_CELLS and word != match:
            return np.nan
        return word == match or number is not None and number == number_of(match)
    if options.match_from is None:
        return word == "true" if word in ("true", "false") else number if number in (0, 1) else None
    if number is None:
        return None
    is_between = options.other_to is not None and options.other_to < number < options.match_from
    return np.nan if is_between else number >= options.match_from


DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")
THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+")


def _all_match(pattern: re.Pattern, texts: pd.Series) -> bool:
    return all(map(pattern.fullmatch, texts))


def _plain_labels(cells: pd.Series) -> pd.Series:
    "Return labels as texts: a list of one is that label, and a comma is a point where it can be nothing else."
    texts = cells.map(lambda cell: str(cell[0]) if isinstance(cell, (list, tuple)) and len(cell) == 1
                      else str(cell)).str.strip()
    has_comma = texts.str.contains(",", regex=False)
    if has_comma.any() and _all_match(DECIMAL_COMMA, texts) and not _all_match(THOUSANDS, texts[has_comma]):
        return texts.str.replace(",", ".", regex=False)
    return texts


def labels_of(name: str, cells: pd.Series, options: Options) -> pd.Series:
    "Return labels as the options say, nan where a pair is left out."
    texts = _plain_labels(cells)
    readings = {cell: _label(cell, options) for cell in texts.unique()}
    is_label = texts.map(lambda cell: readings[cell] is not None)
    if options.match_from is None:
        check(name, cells, is_label, "labels are 0 or 1", "" if is_label.all() else _advice(texts.value_counts()))
    check(name, cells, is_label, "a grade is expected")
    return texts.map(readings).astype(float)


def _advice(counts: pd.Series) -> str: # how many rows have each label
    "Explain how labels other than 0 and 1 can be read."
    numbers = {*map(number_of, counts.index)}
    words = ", ".join(f"{quoted(word)} ({count:,})" for word, count in counts[:8].items())
    if None in numbers or numbers == {-1, 1}:
        return f"; they are {words}: say which one is a match, --match WORD"
    if len(counts) <= FEW and all(number == number.to_integral_value() for number in numbers):
        return f"; they are {words}: say which one is a match, --match {counts.index.max()}{grades_advice(numbers)}"
    return grades_advice(numbers)


def _pairs(name: str, frame: pd.DataFrame, columns: Columns, options: Options) -> Rows:
    lists = [columns.right[0], columns.label]
    if frame[lists].map(lambda cell: isinstance(cell, list)).all(axis=None):
        raise DataError(f"{name}: {LISTS.format(*lists)}")
    left, right = one_text(name, frame, columns.left), one_text(name, frame, columns.right)
    labels = labels_of(name, frame[columns.label], options)
    reason = "pairs without a label"
    if options.other_to is not None:
        reason = f"pairs with a grade between {options.other_to:g} and {options.match_from:g}"
    left_out = {reason: labels.isna().sum()}
    pairs = pd.DataFrame({"left": left, "right": right, "label": labels, "line": frame.index}, dtype=object)
    if options.group:
        pairs["group"] = groups_in(name, frame[options.group])
    for model, column in zip(MODELS, options.scores):
        pairs[model] = finite(name, frame[column], f"column {column!r}: a finite score is expected")
    pairs = pairs[labels.notna()].reset_index(drop=True).astype({"label": int, "line": int})
    if pairs.empty:
        raise DataError(f"{name}: none of {len(frame):,} pairs is left: {counted(len(frame), reason)}")
    if pairs.label.nunique() < 2:
        label_texts = ", ".join(map(quoted, sorted({*map(str, frame[columns.label])})[:8]))
        remark = f"; {counted(labels.isna().sum(), reason)} left out" if labels.isna().any() else ""
        raise DataError(f"{name}: all {len(pairs):,} labels are {pairs.label.max()}; both classes are needed (labels "
                        f"are {label_texts}){remark}")
    return Rows(pairs, left_out)


# ---------------------------------------------------------------- rows of queries with candidates, or with the matches
# of all

def _long(name: str, frame: pd.DataFrame, columns: Columns, options: Options) -> pd.DataFrame:
    "Return a row for each query and text, positives first: row, left, right, label, line, group."
    left = one_text(name, frame, columns.left)
    parts = []
    for column in (*columns.right, *columns.negatives):
        texts = texts_in(name, frame[column])
        if len(texts) >= FEW and _all_match(ID_OF_TEXT, texts):
            raise DataError(f"{name}: column {column!r} holds ids of documents, such as {texts.iloc[0]!r}, not texts: "
                            "put the texts in their place, or give a folder with queries, corpus and qrels")
        parts.append(pd.DataFrame({"row": texts.index, "right": texts.to_numpy(),
                                   "label": int(column in columns.right)}))
    has_match = np.isin(np.arange(len(frame)), parts[0].row)
    check(name, frame[columns.right[0]], has_match, "a query without a match")
    rows = pd.concat(parts).sort_values(["row", "label"], ascending=[True, False], kind="stable")
    of_query = {"left": left, "line": frame.index}
    if options.group:
        of_query["group"] = groups_in(name, frame[options.group])
    queries = pd.DataFrame(of_query).set_axis(range(len(frame)))
    return rows.join(queries, on="row")


def _candidates(name: str, frame: pd.DataFrame, columns: Columns, options: Options) -> Rows:
    texts = _long(name, frame, columns, options)
    queries = texts.row.nunique()
    is_copy = texts.duplicated(["row", "right", "label"])
    texts = texts[~is_copy]
    pairs = pd.MultiIndex.from_frame(texts[["left", "right"]])
    is_match = (texts.label == 0) & pairs.isin(pairs[texts.label == 1])
    texts = texts[~is_match]
    has_negative = texts.label.groupby(texts.row).transform("min") == 0
    texts = texts[has_negative].reset_index(drop=True)
    if texts.empty:
        raise DataError(f"{name}: no query with a negative")
    texts["query"] = pd.factorize(texts.row)[0]
    return Rows(texts.drop(columns="row"), {
        "negatives with the text of a match": is_match.sum(),
        "texts with the text of another in their row": is_copy.sum(),
        "queries without a negative": queries - texts.row.nunique()})


def _matches(name: str, frame: pd.DataFrame, columns: Columns, options: Options) -> Rows:
    texts = _long(name, frame, columns, options).drop(columns="row")
    texts["document"], corpus = pd.factorize(texts.right)
    texts["itself"] = pd.Index(corpus).get_indexer(texts.left)
    is_itself = texts.left == texts.right
    is_copy = texts.duplicated(["left", "right"]) & ~is_itself
    texts = texts[~is_itself & ~is_copy]
    if texts.empty:
        raise DataError(f"{name}: no pair of two different texts")
    texts = texts.assign(query=pd.factorize(texts.left)[0]).sort_values("query", kind="stable").reset_index(drop=True)
    left_out = {"pairs of a text with itself": is_itself.sum(), "pairs with the texts of another": is_copy.sum()}
    return Rows(texts, left_out, pd.Series(corpus))


# ---------------------------------------------------------------- all forms

@dataclass(frozen=True)
class Form:
    "Form of a test: how help, messages and pages call it, which columns make it, and how its rows are read."
    title: str # of a table of this form
    row: str   # what a row says
    needs: str # what a file has
    ways: Callable[[Header], list[Columns]]
    read: Callable[[str, pd.DataFrame, Columns, Options], Rows]


FORMS = {
    "pairs": Form(
        "labeled pairs", "these two texts match, or do not", "two texts and a `label`",
        lambda header: [Columns("pairs", *side, label) for side in header.sides for label in header.labels], _pairs),
    "candidates": Form(
        "an anchor with several negatives", "this text matches the query, or does not",
        "`anchor, positive, negative`, or `query, pos, neg`",
        lambda header: [Columns("candidates", *side, None, header.negatives) for side in header.matches
                        if header.negatives], _candidates),
    "retrieval": Form(
        "matches without labels", "this text of the corpus is relevant",
        "a folder with `corpus`, `queries` and `qrels`, or `anchor, positive` alone",
        lambda header: [Columns("retrieval", *side) for side in header.sides if not header.negatives], _matches),
}


def formats() -> str:
    "Name the formats of files."
    *names, last = dict.fromkeys(entry.title for entry in FORMATS.values())
    return f"{', '.join(names)} or {last}"
