"""Comparisons of two methods: the runs that both have, paired; their differences, one estimate of a question, its word.

Whatever a page, a claim or a sentence says of two methods is computed here, in percentage points."""
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, partial
from itertools import pairwise
from statistics import fmean
from typing import Literal

import pandas as pd

from ...files import Names, Settings, Strict
from ...measures.pooling import Estimate, estimate
from ...measures.stats import LEVEL, detectable, estimate_word, holm, threshold_p
from ...runs.pairing import Run, Side, bracket, is_enough, is_trained, paired_runs, pairs_of, scaled, signed
from .cells import UNTRAINED_METHODS
from .frame import PROFILES, Results, only
from .printed import POINTS

BETTER, WORSE, WITHIN, OPEN = WORDS = ("better", "worse", "within a point", "open") # of an estimate, and of a test
POINT = 1. # the smallest difference that matters

# ---------------------------------------------------------------- two methods at one place

RESULT = ["difference", "low", "high", "n", "p", "seeds_alone", "paired", "kept", "replicates", "left_out", "all_runs"]


def compared(
    sides: list[Side], # two, or four
    scale: float = 1., # of the differences
) -> dict: # of `RESULT`; without a difference where the sides make no pairs
    """Compare sides, a minus b, or (a minus b) minus (c minus d), over the replicates that all of them have.

    Replicates are `10 seeds`, `5 synthetic datasets` or `too few: 1 seeds`; what is left out `seed 0, seed 1: made on
    unlike processors`."""
    run_pairs, left_out = pairs_of(sides)
    unit = "splits" if any(run.overlap for side in sides for run in side) else "synthetic datasets"
    worlds = {world for world, _ in run_pairs}
    replicates = f"{len(worlds)} {unit}" if len(worlds) > 1 else f"{len(run_pairs)} seeds"
    by_reason = {}
    for (world, seed), reason in left_out.items():
        name = f"seed {seed}" if world is None else f"seed {seed} on number {world} of the {unit}"
        by_reason.setdefault(reason, []).append(name)
    row = {
        "paired": None, "kept": list(run_pairs.values()), "replicates": replicates,
        "left_out": "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items()),
        "all_runs": all(len(side) == len(run_pairs) for side in sides if is_trained(side))}
    if not is_enough(sides, run_pairs):
        return row | {"replicates": f"too few: {replicates}"}
    try:
        paired = scaled(paired_runs(run_pairs), scale)
    except ValueError as e: # too many resamples lack a class
        return row | {"replicates": f"no interval: {e}"}
    ends = {name: getattr(paired, name) for name in ("difference", "low", "high", "n", "seeds_alone")}
    return row | ends | {"paired": paired, "p": math.nan if math.isnan(paired.error) else threshold_p(paired)}


def _frame(rows: list[dict], columns: list[str]) -> pd.DataFrame:
    "Return comparisons as a frame, whatever is missing in them."
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(["difference", "low", "high", "p"], float))


# ---------------------------------------------------------------- all comparisons of a table

PLACE = ["encoder", "role", "corpus", "test", "evaluate", "shift", "method", "family", "strength", "metric", "unit"]
ENDS = ["difference", "low", "high"] # of an interval, and what it is around


def main(runs: pd.DataFrame, metric: str | None = None) -> pd.DataFrame:
    "Select the rows of a table's own metric, or of a further one, where something was trained."
    selection = _of_metric(runs, metric)
    is_trained = ~selection.method.isin(UNTRAINED_METHODS)
    return selection[is_trained.groupby([selection.encoder, selection.test]).transform("any")]


def _of_metric(runs: pd.DataFrame, metric: str | None) -> pd.DataFrame:
    return runs[runs.metric == metric] if metric else runs[~runs.further]


Places = dict[tuple[str, str], dict[str, tuple[dict, Side]]] # encoder and test -> method -> `PLACE` and against, side


def places_of(runs: pd.DataFrame) -> Places: # runs: of one table and metric
    "Gather the runs of each cell that has all of them."
    rows = runs.loc[runs.complete, [*PLACE, "against", *Run._fields]]
    places = {}
    for row in rows.itertuples(index=False):
        methods = places.setdefault((row.encoder, row.test), {})
        _, side = methods.setdefault(row.method, (dict(zip([*PLACE, "against"], row)), []))
        side.append(Run(*row[-len(Run._fields):]))
    return places


def pairs(
    runs: pd.DataFrame,         # of one table
    against: str | None = None, # a method; None: the one that each row names
    metric: str | None = None,  # a further one; None: the table's own
) -> pd.DataFrame: # `PLACE`, against and `RESULT`
    "Compare every method of each encoder and test, whether its runs make pairs or not."
    comparisons = []
    for methods in places_of(main(runs, metric)).values():
        for method, (place, side) in methods.items():
            base = against or place["against"]
            if base != method and base in methods:
                result = compared([side, methods[base][1]], POINTS[place["unit"]])
                comparisons.append(place | {"against": base} | result)
    return _frame(comparisons, [*PLACE, "against", *RESULT])


def differences(
    runs: pd.DataFrame, against: str | None = None, metric: str | None = None, # as `pairs`
) -> pd.DataFrame: # as `pairs`, with 95% intervals and p-values, not corrected
    "Compare every method of a table where that can be done; `tables.rests_on` says what is left out."
    rows = pairs(runs, against, metric)
    rows = rows[rows.difference.notna()].reset_index(drop=True).astype({"n": int, "seeds_alone": bool})
    rows.attrs = runs.attrs | ({"seeds": runs.seed.nunique()} if "seed" in runs else {})
    return rows


# ---------------------------------------------------------------- comparisons by name, of all tables of a paper

class Nearest(Strict):
    "The strength of a method that scores most nearly as another method does in distribution, with the same encoder."
    nearest: Names
    to: str


class Ranked(Strict):
    "Methods as the mean of their scores in another table ranks them, best first; as they stand, if one has none."
    ranking: Names
    table: str
    column: str | Names


class Compared(Settings):
    "Comparisons of methods in our runs, each above the next one."
    table: str | Names # of several, each with seeds of its own, all seeds count
    # of several names of a method the first that an encoder has a number for counts
    methods: Ranked | tuple[str | Names | Nearest, ...]
    column: str | Names = "*"              # patterns
    metric: str = ""                       # key in the records; default: that of the table
    minus: dict[str, str | Names | tuple[str | Names, ...]] = {} # methods, column … of a second difference, and `names`
    shift: Literal["iid", "ood", "any"] = "any"
    role: Literal["weak", "strong", "any"] = "any" # of the base encoder
    encoder: str = "*"                     # a pattern
    profiles: Names = PROFILES
    margin: float = 0.                     # points: how far below is claimed to be no loss
    printed: str = ""                      # label of the reported difference, where it is not its own name
    cases: dict[str, Names] = {}           # name in braces -> its values: a comparison for each

    def rules(self):
        methods = _listed(self.methods)
        is_alone = "names" not in self.minus and (self.minus or any(a == b for a, b in pairwise(methods)))
        yield not 2 <= len(methods) <= (2 if self.minus else len(methods)), (
            "a comparison takes two methods or more, and two with `minus`")
        yield bool(is_alone), "two differences need `names` for the two"


def _fill(value, names: dict[str, str]):
    "Fill names in braces into the texts of a value."
    if isinstance(value, dict):
        return {key: _fill(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_fill(item, names) for item in value)
    return value.format_map(names) if isinstance(value, str) else value


def _several(names: str | Names) -> Names:
    return (names,) if isinstance(names, str) else tuple(names)


def _listed(methods) -> tuple: # of a `Compared`
    return methods.ranking if isinstance(methods, Ranked) else methods


def cases_of(comparison: Compared) -> Iterator[Compared]:
    "Yield a comparison once for each of its cases. Raises `ValueError` for cases of unlike lengths."
    for values in zip(*comparison.cases.values(), strict=True) if comparison.cases else [()]:
        fields = comparison.model_dump(exclude={"cases"}, exclude_unset=True)
        yield Compared(**_fill(fields, dict(zip(comparison.cases, values))))


QUESTION = ["key", "name", "margin", "label", "paper", "table", "profile", *PLACE, "against", *RESULT]


def compare(
    paper: str,
    comparisons: Iterable[Compared],
    results: Results,
    profiles: Sequence[str] = PROFILES,
) -> pd.DataFrame: # `QUESTION`
    "Make comparisons, place by place, where all sides have their runs."
    rows = []
    for one in [case for comparison in comparisons for case in cases_of(comparison)]:
        for profile in [profile for profile in one.profiles if profile in profiles]:
            tables = "; ".join(_several(one.table))
            stated = {"paper": paper, "table": tables, "profile": profile, "margin": one.margin}
            for row in _rows(one, partial(_places_in, results, paper, profile)):
                rows.append(stated | row | {"label": one.printed or row["name"].replace("`", "")})
    return _frame(rows, QUESTION).astype({"margin": float})


def _places_in(results: Results, paper: str, profile: str, table: str | Names, metric: str = "") -> Places:
    "Return the places of a table, or of several, for its own metric or another one."
    def places():
        studies = {name: results.with_table(paper, name, profile) for name in _several(table)}
        runs = [_of_metric(study[name], metric) for name, study in studies.items() if study]
        return places_of(pd.concat(runs)) if runs else {}

    return results.once(("places", paper, profile, table, metric), places)


def are_named(paper: str, comparison: Compared, results: Results) -> bool:
    "Return whether tables have cells of these names at any profile, run or not."
    def places_in(profile, table, metric=""):
        study = results.with_table(paper, table, profile)
        places = {}
        for cell in only(study.cells, table=table).to_dict("records") if study else ():
            places.setdefault((cell["encoder"], cell["column"]), {})[cell["method"]] = cell, []
        return places

    alone = [one.model_copy(update={"table": table}) for one in cases_of(comparison) for table in _several(one.table)]
    return all(any(row for profile in one.profiles for row in _rows(one, partial(places_in, profile))) for one in alone)


def _meant(
    places: Places, encoder: str = "*", column: str | Names = "*", shift: str = "any", role: str = "any",
) -> Places:
    "Select places as a comparison names them."
    meant = {}
    for (own, test), methods in places.items():
        place, _ = next(iter(methods.values()))
        is_named = fnmatchcase(own, encoder) and any(fnmatchcase(test, pattern) for pattern in _several(column))
        if is_named and shift in ("any", place["shift"]) and role in ("any", place["role"]):
            meant[own, test] = methods
    return meant


def _scores(places: Places) -> pd.Series: # by method
    "Average the scores of each method over places."
    scores = [(method, fmean(run.value for run in side)) for methods in places.values()
              for method, (_, side) in methods.items() if side]
    return pd.DataFrame(scores, columns=["method", "score"]).groupby("method").score.mean()


def _methods(one: Compared, encoder: str, places_in: Callable) -> list[Names]: # places_in: a table and its metric
    "Name the methods that are compared with an encoder."
    if isinstance(one.methods, Ranked):
        names = [*one.methods.ranking]
        scores = _scores(_meant(places_in(one.methods.table), column=one.methods.column)).reindex(names)
        ranked = scores.sort_values(ascending=False, kind="stable")
        return [(name,) for name in (ranked.index if scores.notna().all() else names)]
    names = []
    for method in one.methods:
        if isinstance(method, Nearest):
            scores = _scores(_meant(places_in(one.table), encoder, shift="iid"))
            away = (scores.reindex([*method.nearest]) - scores.get(method.to, math.nan)).abs()
            method = away.fillna(math.inf).idxmin()
        names.append(_several(method))
    return names


def _rows(one: Compared, places_in: Callable) -> Iterator[dict]: # `PLACE`, against, key, name and `RESULT`
    "Make one comparison at every place that it means."
    minus = one.minus
    places = _meant(places_in(one.table, one.metric), one.encoder, one.column, one.shift, one.role)
    other_places = places_in(minus.get("table", one.table), minus.get("metric", one.metric)) if minus else {}
    for number in range(len(_listed(one.methods)) - 1):
        for (encoder, column), cells in places.items():
            methods = _methods(one, encoder, places_in)[number:number + 2]
            others = minus.get("methods", methods) if minus else ()
            other_cells = other_places.get((encoder, minus.get("column", column)), {})
            found = [_first(cells, names) for names in methods]
            found += [_first(other_cells, names) for names in others]
            if None in found:
                continue
            (place, _), (base, _), *_ = found
            metric = f"{one.metric}: " if one.metric and not minus else ""
            names = minus.get("names", (metric + _quoted(place["method"]), _quoted(base["method"])))
            key = methods, others, one.metric, minus.get("metric"), minus.get("names")
            row = {"key": repr(key), "name": " − ".join(names), "against": base["method"]}
            yield place | row | compared([side for _, side in found], POINTS[place["unit"]])


def _first(cells: dict[str, tuple], names: str | Names) -> tuple[dict, Side] | None:
    "Return the first of several methods that a place has."
    return next((cells[name] for name in _several(names) if name in cells), None)


def _quoted(name: str) -> str: # of a method
    "Quote a name that holds a plus, so that it cannot be read as a sum."
    return f"`{name}`" if " + " in name else name


# ---------------------------------------------------------------- estimates and words

def is_degenerate(paired) -> bool:
    "Return whether both methods have the same score on every seed and every resample: such a test decides nothing."
    return not paired.error and not paired.difference


def counting(rows: pd.DataFrame) -> pd.DataFrame: # of `pairs` or `compare`
    "Select the tests that count: those with an interval that are not degenerate."
    is_counting = [pair is not None and bool(pair.sources) and pair.error == pair.error and not is_degenerate(pair)
                   for pair in rows.paired]
    return rows[pd.Series(is_counting, rows.index, dtype=bool)]


def words_of_tests(
    rows: pd.DataFrame, # those that are corrected together
) -> pd.Series: # of `WORDS`, or "degenerate"
    "Name what each test shows by itself after Holm's correction: against its margin where a claim has one."
    margins = rows.get("margin", pd.Series(0., rows.index))
    own = [pair if pair is not None and pair.error == pair.error else None for pair in rows.paired]
    ps = holm([1. if pair is None else threshold_p(pair, -margin) for pair, margin in zip(own, margins)])
    words = []
    for pair, margin, p in zip(own, margins, ps):
        if pair is None:
            words.append(OPEN)
        elif margin:
            words.append(OPEN if p >= 1 - LEVEL else BETTER if pair.difference > -margin else WORSE)
        else:
            words.append("degenerate" if is_degenerate(pair) else estimate_word(pair.low, pair.high, POINT, p))
    return pd.Series(words, rows.index, dtype=object)


@dataclass(frozen=True)
class Question:
    "Two methods on some tests: one estimate, its word, and the reported differences of the cells that ours stand for."
    name: str
    rows: pd.DataFrame           # of `differences` or `compare`
    reported: pd.Series | None = None # points, by column
    over: str = ""               # what these are differences from

    @cached_property
    def tests(self) -> pd.DataFrame:
        return self.rows[self.rows.difference.notna()]

    @cached_property
    def mean(self) -> Estimate | None: # over the tests that count; None without an interval
        paired = [*counting(self.tests).paired]
        return estimate(paired) if paired else None

    @property
    def word(self) -> str: # of `WORDS`; empty without an estimate
        return "" if self.mean is None else estimate_word(self.mean.low, self.mean.high, POINT)

    @property
    def estimate(self) -> str: # `+1.3 [+0.9, +1.8]`
        return "not run here" if self.mean is None else bracket(self.mean)

    @property
    def degenerate(self) -> list[str]: # tests that do not count
        return [f"{row.test}, {row.method}" for row in self.tests.itertuples() if is_degenerate(row.paired)]

    @cached_property
    def reported_mean(self) -> float | None:
        "Average the reported differences: of the columns that ours have, where they are called alike."
        if self.reported is None or not len(self.reported.dropna()):
            return None
        sizes = self.reported.dropna()
        columns = sizes.index.get_level_values("column") if "column" in sizes.index.names else pd.Index([])
        is_ours = columns.isin(counting(self.tests).test)
        return float((sizes[is_ours] if is_ours.any() else sizes).mean())

    @property
    def is_outside(self) -> bool: # whether the reported size lies outside our interval
        return bool(self.mean and self.reported_mean is not None
                    and not self.mean.low <= self.reported_mean <= self.mean.high)

    @property
    def reported_text(self) -> str: # `+2.2 over plain fine-tuning †`
        if self.reported_mean is None:
            return ""
        return f"{signed(self.reported_mean)}{f' over {self.over}' * bool(self.over)}{' †' * self.is_outside}"

    @property
    def detectable(self) -> float: # with 80% power
        return detectable(self.mean) if self.mean else math.inf
