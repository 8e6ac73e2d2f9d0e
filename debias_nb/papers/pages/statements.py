"""What a paper claims, and where it contradicts itself, as `experiments/<paper>/claims.yaml` and `errata.yaml` say."""
import math
import operator
from collections.abc import Iterator
from typing import Any, Literal

import pandas as pd
from pydantic import Field, field_validator

from ...files import Names, Settings, Strict, load_config, project_root
from .comparisons import ClaimEvidence, Line, above
from .frame import PROFILES, nearest_method
from .printed import PrintedCheck, PrintedCells, fact, text_fact

Labels = str | Names

class Cells(Strict):
    "Printed numbers, by the names of their cells."
    table: Labels | None = None
    number: Literal["value", "std"] | None = None
    base: Labels | None = None
    method: Labels | None = None
    methods: tuple[str, str] | None = None         # one minus the other
    column: Labels | None = None
    weight: str | None = None
    mask_share: str | None = None
    rate: str | None = None
    best: Literal["method", "column"] | None = None # the largest of the cells that differ in it
    least: bool = False                             # the smallest
    exception: str | None = None                    # a method that does not count

    @property
    def names(self) -> dict[str, Any]: # those that are given
        return self.model_dump(include=set(Cells.model_fields), exclude_unset=True)

    def numbers(self, paper: PrintedCells, default: dict[str, Any]) -> pd.Series | float: # default: names
        """Return the numbers, those of `default` where a name is not given.

        Raises `ValueError` for an unknown name."""
        dropped_names = {"best", "least", "exception"}
        if {"method", "methods"} & self.names.keys():
            dropped_names |= {"method", "methods"}
        names = {key: value for key, value in default.items() if key not in dropped_names} | self.names
        names = {key: value for key, value in names.items() if value is not None} # `null`: without that name
        methods = names.pop("methods", None)
        if methods:
            return paper.gap(names.pop("table"), *methods, **names)
        if "best" in names:
            return paper.best(names.pop("best"), but=names.pop("exception", None), **names)
        return paper(**names)


class PrintedFact(Cells):
    "What printed numbers have to be: those of cells, less or over those of others, which have the same names if any."
    label: str
    minus: Cells | None = None
    over: Cells | None = None
    items: Cells | float | None = None # the numbers are percentages of so many: how far from a whole number of them
    titles: str | None = None # a list: the `first` title of the `method`, or how many titles say a `word`
    rows: str | None = None   # a table: how many methods it has, or whether a `word` is one
    first: str | None = None
    word: str | None = None
    products: tuple[tuple[float, ...], ...] = () # of printed numbers, whose sum counts
    relation: str = ">"
    bound: float = 0.
    unit: str = ""
    place: str = ""

    def facts(self, paper: PrintedCells) -> list[PrintedCheck]:
        """Compare the printed numbers, place by place.

        Raises `ValueError` for an unknown name or relation, and `KeyError` for an unknown list."""
        if self.titles or self.rows:
            return text_fact(self.label, *self._words(paper))
        numbers = sum(map(math.prod, self.products)) if self.products else self.numbers(paper, {})
        for cells, combine in ((self.minus, operator.sub), (self.over, operator.truediv)):
            if cells:
                numbers = combine(numbers, cells.numbers(paper, self.names))
        if self.items:
            items = self.items.numbers(paper, {}) if isinstance(self.items, Cells) else self.items
            numbers = numbers - 100 * round(numbers * items / 100) / items
        return fact(self.label, numbers, self.relation, self.bound, self.unit, self.place)

    def _words(self, paper: PrintedCells) -> tuple[str, str, bool]:
        "Return what stands there, in titles or names of methods, what the text says, and whether it is so."
        if self.rows:
            rows = paper.frame[paper.frame.table == self.rows]
            methods = [name for name in rows.method.unique() if name != self.exception]
            if self.word:
                return ", ".join(methods), f"a row {self.word}", self.word in methods
            return str(len(methods)), f"{self.bound:g}", len(methods) == self.bound
        titles = paper.expected.lists[self.titles].rows[self.method]
        if not self.word:
            return titles[0], self.first, titles[0] == self.first
        if self.first:
            return titles[0], self.first, self.word in titles[0].lower()
        count = sum(self.word in title.lower() for title in titles)
        return f"{count} of {len(titles)} titles", f"at least {self.bound:g} say “{self.word}”", count >= self.bound


class Nearest(Strict):
    "The strength of a method that scores most nearly as another method does in distribution, with the same encoder."
    nearest: Names
    to: str


class Ranked(Strict):
    "Methods as the mean of their scores in another table ranks them, best first; as they stand, if one has none."
    ranking: Names
    table: str
    column: Labels

    def order(self, evidence: ClaimEvidence, profile: str) -> Names:
        place = above(self.table, *self.ranking[:2], column=self.column, profiles=(profile,))[0]
        values = {method: [] for method in self.ranking}
        for cell in filter(place.fits, evidence.cells(self.table)):
            if cell.value is not None and cell.method in values:
                values[cell.method].append(cell.value)
        means = pd.Series({method: sum(scores) / len(scores) for method, scores in values.items() if scores})
        return tuple(means.sort_values(ascending=False).index) if len(means) == len(self.ranking) else self.ranking


def _fill(value, names: dict[str, str]):
    "Fill names in braces into the texts of a value."
    if isinstance(value, dict):
        return {key: _fill(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_fill(item, names) for item in value)
    return value.format_map(names) if isinstance(value, str) else value


class Comparisons(Strict):
    "Comparisons of methods in our runs, each above the next one, as `above` takes them; options are those of `Line`."
    table: str
    methods: Ranked | tuple[Labels | Nearest, ...]
    column: Labels = "*"
    metric: str = ""
    than: dict[str, Labels] = {}
    minus: dict[str, Labels | tuple[Labels, ...]] = {}
    shift: Literal["iid", "ood", "any"] = "any"
    role: Literal["weak", "strong", "any"] = "any"
    encoder: str = "any"
    profiles: Names = PROFILES
    margin: float = 0.
    delta: float = 1.
    gain: str = ""
    analogue: str = ""
    printed: str = ""
    primary: bool = True
    cases: dict[str, Names] = {} # name in braces -> its values: a comparison for each
    values: str = ""            # a table, whose numbers stand in braces by their columns

    def lines(self, evidence: ClaimEvidence) -> Iterator[Line]:
        "Yield the lines. Raises `ValueError` as `above`, and for a name in braces that has no value."
        options = self.model_dump(exclude_unset=True, exclude={"methods", "cases", "values"})
        numbers = {cell.column: "not measured" if cell.value is None else f"{cell.value:.3f}"
                   for cell in evidence.cells(self.values) if cell.profile in self.profiles}
        for values in zip(*self.cases.values(), strict=True) if self.cases else [()]:
            names = numbers | dict(zip(self.cases, values))
            settings = _fill(options, names) if names else dict(options)
            methods = self._methods(evidence, settings["table"], settings.get("encoder"), names)
            yield from above(settings.pop("table"), *methods, **settings)

    def _methods(self, evidence: ClaimEvidence, table: str, encoder: str | None, names: dict[str, str]) -> list[Labels]:
        "Name the methods, in the order of the claim."
        if isinstance(self.methods, Ranked):
            return list(self.methods.order(evidence, self.profiles[0]))
        cells = pd.DataFrame([cell.fields for cell in evidence.cells(table)])
        return [nearest_method(cells[cells.encoder == encoder], list(_fill(method.nearest, names)), method.to)
                if isinstance(method, Nearest) else _fill(method, names) if names else method
                for method in self.methods]


class StatedPart(Settings):
    "One statement, with its tests in the paper's own numbers and in our runs."
    statement: str = ""
    printed: tuple[PrintedFact, ...] = ()
    ours: tuple[Comparisons, ...] = ()
    repetition: str = "" # the claim that asks it again with new seeds


class Limit(Strict):
    "A number that our runs may not exceed where a claim is tested."
    table: str
    profile: str
    column: str
    value: float


class StatedClaim(StatedPart):
    "A claim, or the parts of one by letter, whose comparisons are corrected together."
    id: str = Field(pattern=r"^([RQ]-)?[A-Z]\d+$") # `A1`; R-: a relation that the cells suggest; Q-: a question of ours
    place: str = ""
    note: str = ""             # how words are read
    by_each: bool = False      # registered to go by every comparison that can tell
    at_most: Limit | None = None
    parts: dict[str, StatedPart] = {}

    def rules(self):
        yield not self.statement and not self.parts, "a claim has a `statement`, or `parts` by letter"
        yield bool(self.statement and self.parts), "a claim of several parts has no `statement` of its own"
        yield any(not part.statement for part in self.parts.values()), "each of the `parts` has a `statement`"

    @property
    def by_letter(self) -> dict[str, StatedPart]:
        return dict(sorted(self.parts.items())) or {"": self}


class StatedErratum(Strict):
    "A place where a paper contradicts itself, or where a reader may stumble."
    id: str = Field(pattern=r"^E-[A-Z]\d+$")
    # `contradiction`: the facts state what the text says; `inconsistency`: a minor one, which the facts state
    kind: Literal["contradiction", "inconsistency"]
    title: str
    text: str
    printed: tuple[PrintedFact, ...] = ()


class Statements(Strict):
    "A file of claims or errata, each id once."
    names: dict[str, Any] = {} # what the file refers to with `*`
    claims: tuple[StatedClaim, ...] = ()
    errata: tuple[StatedErratum, ...] = ()

    @field_validator("claims", "errata")
    @classmethod
    def _each_once(cls, items):
        ids = [item.id for item in items]
        if len(ids) > len(set(ids)):
            raise ValueError(f"{next(id for id in ids if ids.count(id) > 1)} occurs twice")
        return items


def load_statements(paper: str, kind: Literal["claims", "errata"]) -> Statements: # without a file there are none
    """Read and validate `experiments/<paper>/<kind>.yaml`.

    Raises `ConfigError` naming file, claim and key."""
    source = f"experiments/{paper}/{kind}.yaml"
    path = project_root() / source
    return load_config(path, Statements, source) if path.is_file() else Statements()
