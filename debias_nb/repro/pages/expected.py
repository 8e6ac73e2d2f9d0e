"""What a paper prints: every number of it, typed once, in `expected/<paper>.yaml`."""
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from ...checks import ConfigError, check_known
from ...files import Count, NotNegative, Positive, Strict, load_config, once_per_state, project_root


class Printed(Strict):
    "One number of a table, as printed."
    row: dict[str, str]          # e.g. {base: NLI, method: ITVReg}; Base has no weight, mask share or rate
    column: str
    value: float | None          # None: no number stands there; `note` says so
    std: NotNegative | None = None # over the paper's seeds; None: none is printed
    doubtful: bool = False       # the paper contradicts this number elsewhere
    quoted: bool = False         # copied by the paper from earlier work
    note: str | None = None


LARGEST = {"percent": 100, "fraction": 1, "count": float("inf")}


class ExpectedTable(Strict):
    "A table of a paper. Raises `ValueError` for a repeated cell, rows of different make and impossible values."
    caption: str
    metric: str
    unit: Literal["percent", "fraction", "count"]
    decimals: Count = 2 # as printed
    tolerance: Positive # largest difference, in `unit`, that counts as near
    cells: Annotated[tuple[Printed, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _coherent(self):
        keys = max([list(cell.row) for cell in self.cells], key=len)
        seen = set()
        for cell in self.cells:
            place = (*cell.row.items(), cell.column)
            mistakes = self._mistakes(cell, keys)
            mistake = "stands twice" if place in seen else next(mistakes, None)
            if mistake:
                raise ValueError(f"the cell {cell.row} × {cell.column!r} {mistake}")
            seen.add(place)
        return self

    def _mistakes(self, cell: Printed, keys: list[str]) -> Iterator[str]: # keys: of the longest row
        "What is wrong with a cell by itself."
        expected = keys
        if cell.row.get("method") == "Base": # it has no weight, mask share or rate
            expected = [key for key in keys if key in cell.row or key in ("base", "method")]
        if list(cell.row) != expected:
            yield f"is not made like the others, of {', '.join(keys)}"
        if cell.value is None and (cell.std is not None or not cell.note):
            yield ": without a value it takes a note, and no std"
        most = LARGEST[self.unit]
        if not 0 <= (cell.value or 0) <= most or (cell.std or 0) > most:
            yield f"is no {self.unit}: {cell.value}"
        if cell.doubtful and not cell.note:
            yield "is doubtful without a note"

    def cell(self, column: str, **row: str) -> Printed:
        "One cell by its names. Raises `KeyError` naming what there is."
        for cell in self.cells:
            if cell.column == column and cell.row == row:
                return cell
        columns = sorted({cell.column for cell in self.cells})
        raise KeyError(f"no cell {row} × {column!r}; columns: {columns}")


class ExpectedList(Strict):
    """A table that lists titles of items for one query.
    Raises `ValueError` for lists that are empty, of unequal length, or name an item twice, and for a method that is
    called right and lists nothing."""
    caption: str
    query: str
    rows: dict[str, tuple[str, ...]] # method -> titles, the closest first
    right: tuple[str, ...] = ()  # methods that the paper says are right
    about: str | None = None     # the word that right titles say, as the paper's caption has it
    notes: tuple[str, ...] = ()  # where the paper's prose says otherwise

    @model_validator(mode="after")
    def _coherent(self):
        counts = {method: len(set(titles)) for method, titles in self.rows.items()}
        if set(counts.values()) != {max(map(len, self.rows.values()))} or 0 in counts.values():
            raise ValueError(f"not every method has as many titles as the others, or a title stands twice, got {counts}")
        for method in self.right:
            if method not in self.rows:
                raise ValueError(f"{method}: is called right, and lists nothing")
        return self


class Expected(Strict):
    "What one paper prints."
    paper: str                   # the name used in configs/, results/ and reports/
    title: str
    tables: dict[str, ExpectedTable]
    lists: dict[str, ExpectedList] = {}


_read_once = once_per_state(load_config)


def load_expected(
    paper: str, # e.g. `itvreg`
    root: str | Path | None = None, # the project's root; default: found from here
) -> Expected:
    "Read and validate `expected/<paper>.yaml`. Raises `ConfigError` naming file and key."
    folder = Path(root or project_root()) / "expected"
    path = folder / f"{paper}.yaml"
    known = sorted(p.name for p in folder.glob("*.yaml"))
    check_known("file in expected/ called", f"{paper}.yaml", known, ConfigError)
    source = f"expected/{paper}.yaml"
    expected = _read_once(path, Expected, source)
    if expected.paper != paper:
        raise ConfigError(f"{source}: says it is {expected.paper}")
    return expected
