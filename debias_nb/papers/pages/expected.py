"""The numbers that a paper prints, typed once, in `experiments/printed/<paper>.yaml`."""
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ...checks import ConfigError, check_known
from ...files import Count, NotNegative, Positive, Strict, load_config, once_per_state, project_root


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
    "A table of a paper. Raises `ValueError` for a repeated cell."
    caption: str
    metric: str
    unit: Literal["percent", "fraction", "count"]
    decimals: Count = 2 # as printed
    tolerance: Positive # largest difference, in `unit`, that counts as near
    cells: Annotated[tuple[Printed, ...], Field(min_length=1)]

    @field_validator("cells")
    @classmethod
    def _each_once(cls, cells):
        places = set()
        for cell in cells:
            place = (*cell.row.items(), cell.column)
            if place in places:
                raise ValueError(f"the cell {cell.row} × {cell.column!r} occurs twice")
            places.add(place)
        return cells


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
    source = f"experiments/printed/{paper}.yaml"
    paper_numbers = _read_numbers_once(path, Expected, source)
    if paper_numbers.paper != paper:
        raise ConfigError(f"{source}: says it is {paper_numbers.paper}")
    return paper_numbers
