"""What a page answers: a word by one rule for all pages, how far differences go, and how many got which word."""
import re
from typing import NamedTuple

import pandas as pd

from ...measures import stats
from ...measures.pooling import Estimate, effect, estimate, printed_size
from ...measures.stats import WORDS, judge
from ...runs.config import load_experiment
from ...runs.pairing import bracket, scaled, signed
from .cells import table_cells
from .frame import only
from .printed import POINTS


BEGINNINGS = ("Yes", "No", "It depends", "Cannot tell")
SHIFTS = {"iid": "in distribution", "ood": "out of distribution"}
ON_SITES = {"iid": "on the site of training", "ood": "on the other site"}
COUNT_COLUMNS = dict(zip(WORDS, ("better", "worse", "within a point", "cannot tell")))
WHOLE_SCALE = 100. # points
PAPERS_WEIGHT = .1 # λ that paper A prints its methods at, where a row names no other
SLIGHT = 1. # point: what lies within it is no help and no harm


def select(
    differences: pd.DataFrame, # of `differences`
    **filters,             # as `only`
) -> pd.DataFrame:
    """Select differences; of what was not run there are none.

    Raises `KeyError` for what the configuration does not have."""
    rows = only(differences, **filters)
    if rows.empty:
        experiment = load_experiment(*differences.attrs["study"])
        cells = [cell.fields for table in experiment.tables for cell in table_cells(experiment, table, {})]
        if only(pd.DataFrame(cells).rename(columns={"column": "test"}), **filters).empty:
            raise KeyError(f"{experiment.name} at {experiment.profile} has nothing with {filters}")
    return rows


ENDS = ["difference", "low", "high"] # of an interval, and what it is around


def in_points(
    differences: pd.DataFrame, # of `differences`
) -> pd.DataFrame: # the same rows
    "Turn fractions into percentage points."
    pairs = [scaled(comparison, POINTS[unit]) for comparison, unit in zip(differences.paired, differences.unit)]
    ends = {name: [getattr(comparison, name) for comparison in pairs] for name in ENDS}
    return differences.assign(**ends, paired=pairs, unit="percent")


def add_verdicts(
    differences: pd.DataFrame, # of `differences`: those that are corrected together
# the same rows in percentage points, with word (of `WORDS`) and finds, the detectable difference (80% power)
) -> pd.DataFrame:
    "Add the verdict of each difference."
    points = in_points(differences)
    words = judge([*points.paired], delta=SLIGHT)
    return differences.assign(**{name: points[name] for name in ENDS}, word=words.word.tolist(),
                              finds=words.found.tolist())


def judged_together(
    rows: dict[str, pd.DataFrame], # what is compared -> differences, of `differences`
) -> dict[str, pd.DataFrame]: # the same, as `add_verdicts`
    "Judge the rows of a table as one set of comparisons, where its answer is that of all of them."
    words = add_verdicts(pd.concat(rows, names=["row"]))
    return {name: words.loc[name] for name in rows}


def _ends(values: pd.Series) -> tuple[float, float, list[str]]:
    "Return the smallest and the largest as displayed, without minus zero, and their sizes from small to large."
    low, high = round(values.min(), 1) + 0., round(values.max(), 1) + 0.
    return low, high, [f"{size:.1f}" for size in sorted({abs(low), abs(high)})]


def distance(
    differences: pd.Series, # in points
    reference: str,             # what they are from; empty where the sentence has said it
) -> str: # `0.8 to 8.4 points above plain fine-tuning`
    "Say how far differences go."
    low, high, sizes = _ends(differences)
    if low == high == 0:
        return f"0.0 points from {reference}".removesuffix(" from ")
    if low < 0 < high:
        return f"between {-low:.1f} points below and {high:.1f} above {reference}".strip()
    return f"{' to '.join(sizes)} points {'below' if low < 0 else 'above'} {reference}".strip()


def estimate_of(
    differences: pd.DataFrame, # of `differences`: the tests of one question
) -> Estimate | None: # in percentage points; None without an interval
    "Estimate the mean over the tests of a question."
    pairs = [pair for pair in in_points(differences).paired if pair.sources and pair.error == pair.error]
    return estimate(pairs) if pairs else None


def distance_from(
    differences: pd.DataFrame, # of `differences`
    reference: str = "plain fine-tuning", # as `distance`
) -> str: # `1.3 points above plain fine-tuning [+0.9, +1.8], the mean of 6 tests`
    "Give the estimate of some differences and the number of its tests, or say that there are none."
    if differences.empty:
        return "not measured"
    values, mean = in_points(differences).difference, estimate_of(differences)
    if mean is None:
        return distance(values, reference)
    side = "above" if mean.difference > 0 else "below"
    text = f"{abs(mean.difference):.1f} points {side} {reference}".strip()
    text = f"{text} [{signed(mean.low)}, {signed(mean.high)}]"
    return text if len(values) == 1 else f"{text}, the mean of {len(values)} tests"


EFFECT_NAMES = {"helps": "helps", "costs": "costs", "within the margin": "within a point", "open": "open"}


def effect_text(mean: Estimate | None) -> str: # empty without an estimate
    "Name what an estimate decides, with its sign where that is decided within a point."
    if mean is None:
        return ""
    word = effect(mean, SLIGHT)
    if word == "within the margin" and not mean.low <= 0 <= mean.high:
        return f"a {'gain' if mean.low > 0 else 'loss'} below a point"
    return EFFECT_NAMES[word]


def answer(
    differences: pd.DataFrame, # of `differences`
    subject: str,        # what was changed, in words
    reference: str = "plain fine-tuning", # what it is compared with
    yes: str = "better", # the word that says yes: `better`, or `worse` where the question is whether something hurts
) -> str: # it begins with one of `BEGINNINGS`
    """Answer a question from the estimate over its tests.

    It depends if some tests are better and others worse, each by itself; Cannot tell where the effect is open."""
    if differences.empty:
        lack = "was run with one seed, and a comparison takes two" if differences.attrs.get(
            "seeds") == 1 else "was not run"
        return f"Cannot tell: {subject} {lack}."
    mean, text = estimate_of(differences), f"{subject} is {distance_from(differences, reference)}"
    if {"better", "worse"} <= {*add_verdicts(differences).word}:
        return f"It depends: {text}."
    word = effect_text(mean)
    if word in ("", "open"):
        return f"Cannot tell: {text}{_detectable_text(mean)}."
    if word == "within a point":
        return f"No: {text}, within a point."
    if (word in ("helps", "a gain below a point")) != (yes == "better"):
        return f"No: {text}."
    return f"Yes{', by less than a point' if word.endswith('below a point') else ''}: {text}."


def _detectable_text(mean: Estimate | None) -> str:
    "Say what tests together can detect."
    if mean is None or stats.detectable(mean) > WHOLE_SCALE:
        return "; so few seeds cannot tell"
    return f"; the detectable difference (80% power) is {stats.detectable(mean):.1f} points"


def detectable_range(sizes: pd.Series) -> str: # `2.4 to 11.1`; empty without sizes
    "Say what tests can detect; more than the whole scale is no size."
    ends = [f"{size:.1f}" if size <= WHOLE_SCALE else "more than there is"
            for size in _ends(sizes)[:2]] if len(sizes) else []
    return " to ".join(dict.fromkeys(ends))


def verdict_counts(words: pd.Series) -> dict[str, int]:
    "Count the verdicts of differences, a column each."
    return {column: int((words == word).sum()) for word, column in COUNT_COLUMNS.items()}


def place_of(runs: pd.DataFrame, shift: str) -> str: # runs: of a table whose real data are of two question sites
    "Name where a test is: synthetic data have no sites."
    _, profile = runs.attrs["study"]
    return (SHIFTS if profile == "planted" else ON_SITES)[shift]


def from_to(values: pd.Series) -> str:
    "Return the smallest and the largest, `−0.1 to +8.4`: one number if they are the same, nothing without values."
    values = values.dropna()
    return " to ".join(dict.fromkeys([signed(values.min()), signed(values.max())])) if len(values) else ""


class Row(NamedTuple):
    "What a figure of estimates draws of a row, in points."
    mean: Estimate
    tests: list[float]   # each by itself
    printed: list[float] # the paper's differences


def summarize(
    rows: dict[str, pd.DataFrame], # what is compared -> differences, of `differences` or of `add_verdicts`
    paper_differences: dict[str, pd.Series] | None = None, # what is compared -> the paper's differences, in points
    weights: dict[str, float] | None = None, # what is compared -> λ of these, where it is not `PAPERS_WEIGHT`
) -> pd.DataFrame:
    """Estimate the difference of each row, and count the verdicts of its tests one by one, with how far they go.

    The paper's differences stand next to those at its own λ. A column without entries is left out; `attrs` has each
    `Row` that has an estimate."""
    lines = {}
    drawn = {}
    for name, differences in rows.items():
        judged_rows = differences if "word" in differences else add_verdicts(differences)
        is_papers = (set(judged_rows.get("strength", pd.Series(dtype=float)).dropna())
                     <= {(weights or {}).get(name, PAPERS_WEIGHT)})
        sizes = pd.Series((paper_differences or {}).get(name, []) if is_papers else [], dtype=float).dropna()
        mean = estimate_of(judged_rows) if len(judged_rows) else None
        if mean:
            drawn[name] = Row(mean, judged_rows.difference.tolist(), sizes.tolist())
        lines[name] = {
            "estimate, points": "not run" if mean is None else bracket(mean), "effect": effect_text(mean),
            "printed difference, points": from_to(sizes),
            "printed size": printed_size(mean, sizes, SLIGHT) if mean and len(sizes) else "",
        } | verdict_counts(judged_rows.word) | {"difference, points": from_to(judged_rows.difference)}
    table = pd.DataFrame(lines.values(), index=pd.Index(lines, name="method"))
    table = table.loc[:, (table != "").any()].rename_axis("test", axis=1)
    table.attrs["rows"] = drawn
    return table


ESTIMATED = ("estimate, points", "effect", "printed difference, points", "printed size")


def folded(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]: # of `summarize`
    "Part the estimates from the tests one by one."
    is_estimated = table.columns.isin(ESTIMATED)
    return table.loc[:, is_estimated], table.loc[:, ~is_estimated]


def answer_word(page: str) -> str: # page: Markdown
    "Return how the answer of a page begins, or nothing for a page without one."
    match = re.search(rf"^\*\*Answer\.\*\* ({'|'.join(BEGINNINGS)})\b", page, re.M)
    return match[1] if match else ""


def extent(differences: pd.Series) -> str: # `lost 0.9 to 26.5 points`
    "Say how far differences go, with a verb that has their sign."
    low, high, sizes = _ends(differences)
    if low < 0 < high:
        ends = f"{signed(low)} to {signed(high)}"
        return f"stayed within a point ({ends})" if max(-low, high) <= SLIGHT else f"moved scores by {ends} points"
    verb = "gained" if high > 0 else "lost"
    if len(sizes) == 2 and not low * high:
        return f"{verb} up to {sizes[1]} points"
    return f"{verb} {' to '.join(sizes)} points"
