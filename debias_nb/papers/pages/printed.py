"""The numbers that a paper prints, typed once, in `experiments/printed/<paper>.yaml`.

They become series to subtract, and a sentence about them becomes a fact that can be wrong."""
import operator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from ...checks import ConfigError, check_known
from ...files import Count, NotNegative, Strict, load_config, once_per_state, project_root


POINTS = {"percent": 1, "fraction": 100, "count": 1} # a number in percentage points; a count stays a count


class Printed(Strict):
    "One number of a table, as printed."
    row: dict[Literal["base", "method", "weight", "mask_share", "rate"], str] # Base has no weight, mask share or rate
    column: str
    value: float | None          # None: no number stands there; `note` says so
    std: NotNegative | None = None # over the paper's seeds; None: none is printed
    doubtful: bool = False       # the paper contradicts this number elsewhere
    quoted: bool = False         # copied by the paper from earlier work
    note: str | None = None


class ExpectedTable(Strict):
    "A table of a paper."
    caption: str
    metric: str
    unit: Literal["percent", "fraction", "count"]
    decimals: Count = 2 # as printed
    cells: Annotated[tuple[Printed, ...], Field(min_length=1)]


class ExpectedList(Strict):
    "A table that lists titles of items for one query."
    caption: str
    query: str
    rows: dict[str, tuple[str, ...]] # method -> titles, the closest first
    right: tuple[str, ...] = ()  # methods that the paper says are right
    about: str | None = None     # the word that right titles say, as the paper's caption has it
    notes: tuple[str, ...] = ()  # where the paper's prose says otherwise


class Expected(Strict):
    "All numbers and lists that one paper prints."
    paper: str                   # the name used in experiments/ and reports/
    title: str
    tables: dict[str, ExpectedTable]
    lists: dict[str, ExpectedList] = {}
    without: dict[str, str] = {} # what printed cells are of, in the name of a row or column -> why no run makes them

    @cached_property
    def frame(self) -> pd.DataFrame: # a row a number, in percentage points; None for what it has not
        rows = []
        for name, table in self.tables.items():
            labels = {"table": name, "points": POINTS[table.unit]}
            rows += [labels | cell.row | cell.model_dump(include={"column", "value", "std"}) for cell in table.cells]
        frame = pd.DataFrame(rows)
        numbers = frame[["value", "std"]].astype(float).mul(frame.pop("points"), axis=0) # nan for a dash
        frame = frame.where(frame.notna(), None)
        frame[["value", "std"]] = numbers.round(6)
        return frame

    def __call__(
        self,
        table: str | list[str],
        number: str = "value", # or `std`
        methods: tuple[str, str] | None = None, # one minus the other
        best: str | None = None, # the largest (least: smallest) of the cells that differ in it; nan where one is blank
        least: bool = False,
        exception: str | None = None, # a method that is not among them
        **names,               # of a cell: a name, a list of names, or "*"
    ) -> pd.Series | float:    # percentage points; the index is what was not fixed
        """Return printed numbers by name.

        Raises `ValueError` for an unknown name, with the nearest, and if one name fits several cells."""
        if methods:
            first, second = (self(table, number, method=method, **names) for method in methods)
            return first - second
        query = names | {"table": table}
        cells = self.frame
        for key, choice in query.items():
            if choice == "*":
                continue
            choices = [choice] if isinstance(choice, str) else choice
            for name in choices:
                check_known(key, name, cells[key].dropna().unique())
            cells = cells[cells[key].isin(choices)]
        if exception:
            check_known("method", exception, cells.method.unique())
            cells = cells[cells.method != exception]
        if cells.empty:
            raise ValueError(f"no cell has {query}")
        free = [key for key, choice in query.items() if choice == "*" or not isinstance(choice, str)]
        if len(cells) > 1 and (not free or cells.duplicated(free).any()):
            raise ValueError(f"several cells of {table} fit {names}")
        found = cells.set_index(free)[number] if free else cells[number].item()
        if not best:
            return found
        places = found.index.names.difference([best])
        return (found.groupby(places, sort=False) if places else found).agg("min" if least else "max", skipna=False)


_read_numbers_once = once_per_state(load_config)


def load_expected(
    paper: str, # e.g. `itvreg`
) -> Expected:
    """Read and validate `experiments/printed/<paper>.yaml`.

    Raises `ConfigError` naming file and key."""
    folder = project_root() / "experiments/printed"
    path = folder / f"{paper}.yaml"
    names = sorted(p.name for p in folder.glob("*.yaml"))
    check_known("file in experiments/printed/ called", f"{paper}.yaml", names, ConfigError)
    return _read_numbers_once(path, Expected, f"experiments/printed/{paper}.yaml")


RELATIONS = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": lambda x, by: abs(x - by) < .005,
    "~": lambda x, by: abs(x) <= by,
    "!=": lambda x, by: abs(x) > by,
}


@dataclass(frozen=True)
class PrintedCheck:
    "A statement that printed cells bear out, or contradict."
    label: str         # what is looked at
    place: str         # where
    found: str         # a number, or words
    asked: str
    holds: bool | None # None: a number is not there
    unit: str = ""     # of the number; empty: percentage points
    number: float | None = None # None: words


def fact(
    label: str,
    numbers: pd.Series | float, # a difference in percentage points, or a ratio; nan for what is not printed
    relation: str,            # > >= < <= or =; ~ within `by` of zero, != not within
    by: float = 0.,
    unit: str = "", # of the numbers, such as `times`; empty: percentage points
    at: str = "",   # where all of them are
) -> list[PrintedCheck]: # one a place
    """Compare printed numbers with a bound, place by place.

    Raises `ValueError` for an unknown relation and for no number."""
    if relation not in RELATIONS:
        raise ValueError(f"no relation {relation!r}: use one of {', '.join(RELATIONS)}")
    if not isinstance(numbers, pd.Series):
        numbers = pd.Series({"": numbers})
    if numbers.empty:
        raise ValueError(f"{label}: no place in common")
    expectation = f"{relation} {by:g}".replace("-", "−")
    if relation in ("~", "!="):
        expectation = f"within ±{by:g}" if by else "equal"
    if relation == "!=":
        expectation = f"not {expectation}"
    facts = []
    for place, number in numbers.items():
        names = [place] if isinstance(place, str) else place
        value = round(float(number), 6)
        text = "not reported" if np.isnan(value) else in_unit(value, unit)
        holds = None if np.isnan(value) else bool(RELATIONS[relation](value, by))
        facts.append(PrintedCheck(label, ", ".join(filter(None, [at, *names])), text, expectation, holds, unit, value))
    return facts


def in_unit(value: float, unit: str = "") -> str: # `+1.06`, `1.94 times`, `1,196 topics`
    "Return a number as it is displayed: with its sign in points, else with its unit."
    text = f"{value:,.2f}".removesuffix(".00") + f" {unit}" if unit else f"{value:+.2f}"
    return text.replace("-", "−")


def truths(facts: list[PrintedCheck]) -> list[bool]:
    "Return whether facts hold, those whose numbers are there."
    return [item.holds for item in facts if item.holds is not None]


def in_part(hits: list[bool], word: str, negative: str) -> str: # e.g. `confirmed`, `not confirmed`
    "Return one word if all are so, another if none is, and `confirmed in k of n` for some."
    if all(hits):
        return word
    return f"{word} in {sum(hits)} of {len(hits)}" if any(hits) else negative


def describe_checks(facts: list[PrintedCheck], holds: bool) -> str: # empty where there are none
    "Describe the first two of the facts that hold, or of those that do not, and count the others."
    texts = [f"{item.label}{f' ({item.place})' if item.place else ''}: {item.found} (expected: {item.asked})"
             for item in facts if item.holds is holds]
    if len(texts) > 2:
        texts[2:] = [f"and {len(texts) - 2} more"]
    return "; ".join(texts)
