"""Comparisons of our runs, by table and place: a method is better or worse than another one, or neither."""
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import NamedTuple

import pandas as pd

from ...checks import check_known
from ...runs.config import Names
from .cells import COMPLETE, REFERENCE, UNTRAINED_METHODS, Cell, cell_side
from .frame import PROFILES, Results, all_experiments
from ...runs.pairing import Unpaired, paired_sides, scaled
from ...runs.records import Records
from ...measures import stats
from ...measures.stats import threshold_p


class Place(NamedTuple):
    "A method, and where it is looked at if not where the comparison is."
    names: tuple[str, ...]       # what tables call it; the first that an encoder has a number for counts
    table: str = ""
    column: str = ""             # one, by its name
    metric: str = ""             # key in the records

    def name(self, *groups: Iterable[str]) -> str: # of methods, the first that counts before others
        "Return what the method is called in some methods, or its first name if it is none of them."
        present = [name for group in groups for name in self.names if name in group]
        return [*present, self.names[0]][0]


@dataclass(frozen=True)
class Line:
    "One line of a claim: which comparisons of our runs test it."
    table: str
    sides: tuple[Place, ...]     # two, or four: (a minus b) minus (c minus d)
    shift: str = "any"           # iid, ood or any
    role: str = "any"            # of the base encoder: weak, strong or any
    encoder: str = "any"         # its name in tables
    column: Names = ("*",)       # patterns
    profiles: Names = PROFILES
    margin: float = 0.           # percentage points
    delta: float = 1.            # percentage points
    analogue: str = ""           # where ours is not the paper's situation: in what it differs
    printed: str = ""            # label of the facts that print the difference, where it is not its own name
    primary: bool = True         # False: shown next to the others, and decides nothing
    names: tuple[str, ...] = ()  # what is compared, in plain words, where methods do not say it: two, or one for a sum

    def covers(self, column: str) -> bool:
        "Return whether a column is one of the line's."
        return any(fnmatchcase(column, pattern) for pattern in self.column)

    def fits(self, cell: Cell) -> bool:
        "Return whether the place of a cell is one of the line's."
        is_covered = cell.profile in self.profiles and self.covers(cell.column)
        return is_covered and all(getattr(self, field) in ("any", getattr(cell, field))
                                  for field in ("shift", "role", "encoder"))


def _as_tuple(names) -> tuple[str, ...]: # names: one or several
    return (names,) if isinstance(names, str) else tuple(names)


def above(
    table: str,
    # each above the next: a name, or several, of which the first that an encoder has a number for counts
    *methods,
    column="*",                  # a pattern, or several
    metric: str = "",
    than: dict | None = None,    # table, column or metric of the second method, and `names` of both
    # methods, table, column or metric of a second difference, and `names` of both, or of their sum
    minus: dict | None = None,
    # of `Line`; a claim with a margin below a point has that for its delta, if no other is given
    **options,
) -> list[Line]: # one a neighboring pair
    """Compare each method with the next one.

    Raises `ValueError` for another number of methods than can be compared, for a delta that is not above 0, and for two
    differences, or one method in two places, without names: nobody can read `a − a`."""
    limit = 2 if than or minus else len(methods)
    if not 2 <= len(methods) <= limit:
        raise ValueError(f"{table}: a comparison takes two methods or more, and no more with `than` or `minus`")
    margin = options.get("margin", 0.)
    if 0 < margin < 1:
        options.setdefault("delta", margin)
    if not options.get("delta", 1.) > 0:
        raise ValueError(f"{table}: delta must be above 0, got {options['delta']}: the smallest difference "
                         "that matters")
    defaults = {"metric": metric}
    than, minus = (dict(place) if place else {} for place in (than, minus))
    names = than.pop("names", minus.pop("names", ()))
    if not names and (minus or any(a == b for a, b in pairwise(methods))):
        raise ValueError(f"{table}: {' − '.join(map(str, methods))} in two places needs `names` for the two")
    lines = []
    for a, b in pairwise(methods):
        sides = [Place(_as_tuple(a), **defaults), Place(_as_tuple(b), **defaults | than)]
        if minus:
            place = defaults | minus
            minus_methods = place.pop("methods", methods)
            sides += [Place(_as_tuple(method), **place) for method in minus_methods]
        lines.append(Line(table, tuple(sides), column=_as_tuple(column), names=tuple(names), **options))
    return lines


COMPARISON_COLUMNS = [
    "line",        # a `Line`
    "table", "profile", "encoder", "column",
    "comparison",  # e.g. `ITVReg − Finetuned`, after its metric where it is another one than its column has
    # `below` where the claim puts the reference ahead, so that plain names turn the difference round; else `above`
    "direction",
    "primary", "margin", "delta", # of the line
    # a `stats.Paired` in percentage points; None, as the next ones are missing, where nothing is compared
    "paired",
    "difference", "low", "high", "replicates", "provisional", "seeds_alone",
    "p",           # against the margin; adjusted once it is judged
    "detectable",  # difference from its margin (80% power), at the first step of Holm's correction
    "verdict",     # one of `stats.WORDS`, `not run` or `not compared`
    "why",         # why there is none of the four words, or why it cannot tell
    "losses",      # that its runs were trained with
]


class ClaimEvidence:
    "The stored records of one paper, by table and place."
    def __init__(
        self,
        cells: list[Cell],
        records: Records, # id -> record
    ):
        self.records_by_id = records
        self.tables = {} # table -> (profile, encoder, column) -> method -> cell
        for cell in cells:
            places = self.tables.setdefault(cell.table, {})
            cells_by_method = places.setdefault((cell.profile, cell.encoder, cell.column), {})
            if cell.method not in cells_by_method or cells_by_method[cell.method].value is None:
                cells_by_method[cell.method] = cell

    @classmethod
    def of(cls, paper: str, results: Results) -> "ClaimEvidence":
        "Read the evidence of a paper's configurations."
        cells = []
        records = {}
        for experiment in all_experiments(paper):
            study = results.load(experiment.name, experiment.profile)
            cells += study.cells
            records |= study.records_by_id
        return cls(cells, records)

    def cells(self, table: str) -> list[Cell]:
        "Return the cells of a table, none if it is unknown."
        return [cell for cells_by_method in self.tables.get(table, {}).values() for cell in cells_by_method.values()]

    def check(self, line: Line):
        """Check the names of a line.

        Raises `ValueError` for a table, method or column that no cell has, with the nearest."""
        for side in line.sides:
            table = side.table or line.table
            check_known("table", table, self.tables)
            methods, columns = ({getattr(cell, field): None for cell in self.cells(table)}
                                for field in ("method", "column"))
            check_known(f"method in {table} called", side.name(methods), methods)
            if side.column:
                check_known(f"column in {table} called", side.column, columns)
        columns = {cell.column for cell in self.cells(line.table)}
        if not any(map(line.covers, columns)):
            check_known(f"column in {line.table} called", line.column[0], columns)

    def compare(
        self, lines: Iterable[Line],
    ) -> pd.DataFrame: # `COMPARISON_COLUMNS`, one row per comparison; for `add_claim_verdicts`
        """Make every comparison of some lines, with its difference or the reason why there is none.

        Raises as `check`."""
        rows = []
        for line in lines:
            self.check(line)
            for place, cells_by_method in self.tables[line.table].items():
                sides = self._sides(line, *place) if line.fits(next(iter(cells_by_method.values()))) else {}
                if any(sides.values()):
                    facts = dict(zip(("profile", "encoder", "column"), place))
                    rows.append(vars(line) | facts | {"line": line} | self._compared(line, sides))
        numbers = ["margin", "delta", "difference", "low", "high", "replicates", "p", "detectable"]
        kinds = {"primary": bool} | dict.fromkeys(numbers, float) # whatever is missing in these rows
        return pd.DataFrame(rows, columns=COMPARISON_COLUMNS).astype(kinds)

    def _sides(
        self, line: Line, profile: str, encoder: str, column: str,
    ) -> dict[tuple, Cell | None]: # by number and name
        "Return the cells of a comparison, None where no configuration makes one; nothing if a place has none at all."
        sides = {}
        for number, side in enumerate(line.sides):
            cells_by_method = self.tables[side.table or line.table].get((profile, encoder, side.column or column))
            if cells_by_method is None:
                return {}
            measured_methods = [method for method, cell in cells_by_method.items() if cell.value is not None]
            name = side.name(measured_methods, cells_by_method)
            cell = cells_by_method.get(name)
            if cell and side.metric:
                cell = replace(cell, metric=side.metric)
            sides[number, name] = cell
        return sides

    def _compared(self, line: Line, sides: dict[tuple, Cell | None]) -> dict: # sides: of `_sides`
        "Compare the sides of a line, or explain why that cannot be done."
        names = [name for _, name in sides]
        cells = list(sides.values())
        text = " − ".join(names[:2])
        is_below = _is_reference(*names[:2], cells[1])
        if len(names) == 4:
            is_below = False
        if all(side.metric for side in line.sides):
            text = f"{line.sides[0].metric}: {text}"
        text = " − ".join(line.names) or text
        row = {"comparison": text, "direction": "below" if is_below else "above", "paired": None, "verdict": "not run",
               "why": ""}
        lacks = dict.fromkeys(filter(None, map(self._lacks, cells)))
        if lacks:
            return row | {"why": "; ".join(lacks)}
        try:
            d = scaled(paired_sides([cell_side(cell, self.records_by_id, "fraction") for cell in cells]), 100)
            p = threshold_p(d, -line.margin)
        except (Unpaired, ValueError) as e:
            return row | {"verdict": "not compared", "why": str(e)}
        trainings = [self.records_by_id[record]["run"].training for cell in cells for record in cell.records]
        return row | vars(d) | {
            "paired": d, "p": p, "replicates": d.n, "provisional": d.provisional,
            "losses": {training.loss for training in trainings if training}}

    def _lacks(self, cell: Cell | None) -> str | None: # None: nothing
        "Explain why a cell cannot be compared."
        if cell is None:
            return "no configuration makes one of the cells"
        if cell.status not in COMPLETE:
            return cell.why or cell.status
        if any(cell.metric not in self.records_by_id[i]["metrics"].get(cell.evaluate, {}) for i in cell.records):
            return f"the records have no {cell.metric}"


def _is_reference(name: str, method: str, cell: Cell | None) -> bool: # cell: of the other
    "Return whether a method is what the table compares another one with."
    reference = cell.against if cell else REFERENCE
    return name != method and method not in UNTRAINED_METHODS and name in (reference, *UNTRAINED_METHODS)


def add_claim_verdicts(
    comparisons: pd.DataFrame, # of `ClaimEvidence.compare`: the comparisons of one claim
) -> pd.DataFrame: # the same rows
    "Add verdicts, corrected over those of a profile that count alike, and the reasons for those that cannot tell."
    is_compared = comparisons.paired.notna()
    families = [_add_family_verdicts(family)
                for _, family in comparisons[is_compared].groupby(["profile", "primary"], sort=False)]
    return pd.concat([comparisons[~is_compared], *families]).sort_index()


def _add_family_verdicts(family: pd.DataFrame) -> pd.DataFrame:
    "Add the verdicts of comparisons that are corrected together."
    verdicts = stats.judge([*family.paired], family.delta, -family.margin).set_index(family.index)
    reasons = []
    for comparison, row in zip(family.itertuples(), verdicts.to_dict("records")):
        reason = "too few replicates"
        if not math.isnan(comparison.paired.items_error) and row["word at best"] == "cannot tell":
            reason = f"too few test items, which alone hide {row['found at best']:.1f}"
        reasons.append(f"{reason}; detectable difference (80% power) {row['found']:.1f}" if row["word"] == "cannot tell"
                       else "")
    return family.assign(p=verdicts.p, detectable=verdicts.found, verdict=verdicts.word, why=reasons)


LOSS_TITLES = {
    "mse": "least squares on the cosine", "hinge": "hinge", "ranking": "MultipleNegativesRankingLoss",
    "ranking-hard": "MultipleNegativesRankingLoss with a third column", "cosent": "CoSENTLoss",
    "authors": "contrastive loss (CL) and multiclass loss (MLL)", "cross-entropy": "cross-entropy",
}


def losses_in(comparisons: pd.DataFrame) -> str: # comparisons: comparisons
    "Name the losses of comparisons."
    return ", ".join(LOSS_TITLES[loss] for loss in LOSS_TITLES if loss in set().union(*comparisons.losses))


def encoders_in(comparisons: pd.DataFrame) -> str: # comparisons: comparisons
    "Name the encoders of comparisons, each with its seeds, as `MiniLM (2 to 3 seeds)`."
    names = comparisons.encoder.str.partition(",")[0].replace("minilm", "MiniLM")
    texts = []
    for name, rows in comparisons.groupby(names, sort=False):
        ends = dict.fromkeys(map(int, (rows.replicates.min(), rows.replicates.max()))) # one where they are the same
        texts.append(f"{name} ({' to '.join(map(str, ends))} seeds)")
    return ", ".join(texts)
