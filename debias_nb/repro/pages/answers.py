"""What a page answers: a word by one rule for all pages, how far differences go, and how many of them got which word."""
import re

import pandas as pd

from ...measures.stats import WORDS, judge
from ...runs.config import load_experiment
from ...runs.pairing import scaled, signed
from .cells import table_cells
from .frame import only
from .printed import POINTS


BEGINNINGS = ("Yes", "No", "It depends", "Cannot tell")
SHIFTS = {"iid": "in distribution", "ood": "out of distribution"}
ON_SITES = {"iid": "on the site of training", "ood": "on the other site"}
COLUMNS = dict(zip(WORDS, ("better", "worse", "within a point", "cannot tell")))
OF_CLAIMS = { # what a claim came out as -> the answer to its sentence
    "holds": "Yes", "the reverse holds": "No, the reverse", "within the margin": "No: within a point", "depends": "It depends",
    "cannot tell": "Cannot tell", "not run": "Not run",
}
WHOLE_SCALE = 100. # points
PAPERS_WEIGHT = .1 # λ that paper A prints its methods at, where a row names no other
SLIGHT = 1. # point: what lies within it is no help and no harm
TOO_MANY = 2 / 3 # of the tests cannot tell; half of them are, where fewer than `FEWEST` can
FEWEST = 3
COUNTED = (
    "*Better, worse:* significant at 5%, after Holm's correction over a row. *Within a point:* not significant, and the whole interval is. "
    "*Cannot tell:* the test is too small; *detectable* is the smallest difference that it finds with 80% power. "
    "[CLAIMS](../claims.ipynb) corrects over all comparisons of a claim."
)


def asked(
    found: pd.DataFrame, # of `differences`
    **where,             # as `only`
) -> pd.DataFrame:
    "The differences that are asked for; none of what was not run. Raises `KeyError` for what the configuration does not have."
    own = only(found, **where)
    if own.empty:
        configured = load_experiment(*found.attrs["study"])
        cells = [vars(cell) for table in configured.tables for cell in table_cells(configured, table, {})]
        if only(pd.DataFrame(cells).rename(columns={"column": "test"}), **where).empty:
            raise KeyError(f"{configured.name} at {configured.profile} has nothing with {where}")
    return own


def judged(
    found: pd.DataFrame, # of `differences`: those that are corrected together
) -> pd.DataFrame: # the same rows in percentage points, with word (of `WORDS`) and finds, what would be found four times in five
    "Each difference with its word."
    paired = [scaled(one, POINTS[unit]) for one, unit in zip(found.paired, found.unit)]
    words = judge(paired, delta=SLIGHT)
    ends = {name: [getattr(one, name) for one in paired] for name in ("difference", "low", "high")}
    return found.assign(**ends, word=words.word.tolist(), finds=words.found.tolist())


def _ends(values: pd.Series) -> tuple[float, float]:
    "The least and the largest as they are shown; there is no minus zero."
    low, high = round(values.min(), 1), round(values.max(), 1)
    return low + 0., high + 0.


def sized(
    differences: pd.Series, # in points
    other: str,             # what they are from; empty where the sentence has said it
) -> str: # `0.8 to 8.4 points above plain fine-tuning`
    "How far differences go, in words."
    low, high = _ends(differences)
    if low < 0 < high:
        return f"between {-low:.1f} points below and {high:.1f} above {other}".strip()
    sizes = " to ".join(f"{size:.1f}" for size in sorted({abs(low), abs(high)}))
    return f"{sizes} points {'below' if low < 0 else 'above'} {other}".strip()


def reach(
    found: pd.DataFrame, # of `differences`
    other: str = "plain fine-tuning", # as `sized`
) -> str:
    "How far differences go, in words, or that there are none."
    return "not measured" if found.empty else sized(judged(found).difference, other)


def answer(
    found: pd.DataFrame, # of `differences`
    subject: str,        # what was changed, in words
    other: str = "plain fine-tuning", # what it is compared with
    yes: str = "better", # the word that says yes: `better`, or `worse` where the question is whether something hurts
) -> str: # it begins with one of `BEGINNINGS`
    """What some differences answer: No where all lie within a point; It depends where some are better and others worse, or as
    many within a point; Cannot tell where two of three tests are too small, or half of them where fewer than three are not; else what
    most of the others say."""
    if found.empty:
        return f"Cannot tell: {subject} was not run."
    own = judged(found)
    if is_within_a_point(own).all():
        largest = own.difference.abs().max()
        return f"No: {subject} stays within {largest:.1f} points of {other}."
    said = f"{subject} is {reach(found, other)}"
    is_unsure = own.word == "cannot tell"
    decided = own.word[~is_unsure].value_counts()
    if {"better", "worse"} <= set(decided.index):
        return f"It depends: {said}."
    if is_unsure.mean() >= (TOO_MANY if decided.sum() >= FEWEST else .5):
        sizes = own.finds[is_unsure]
        if sizes.min() > WHOLE_SCALE:
            return f"Cannot tell: {said}; {own.n.max()} seeds cannot tell."
        return f"Cannot tell: {said}; the detectable difference (80% power) is {detectable(sizes)} points."
    if len(decided) > 1 and decided.iloc[0] == decided.iloc[1]:
        return f"It depends: {said}."
    if decided.index[0] == "within the margin":
        return f"No: {said}, mostly within a point."
    return f"{'Yes' if decided.index[0] == yes else 'No'}: {said}."


def detectable(sizes: pd.Series) -> str: # `2.4 to 11.1`; empty without sizes
    "Say what tests can detect; more than the whole scale is no size."
    ends = [f"{size:.1f}" if size <= WHOLE_SCALE else "more than there is" for size in _ends(sizes)] if len(sizes) else []
    return " to ".join(dict.fromkeys(ends))


def is_within_a_point(found: pd.DataFrame) -> pd.Series: # found: in points, with low and high
    "Whether a whole interval lies there."
    return (found.low > -SLIGHT) & (found.high < SLIGHT)


def counts(words: pd.Series) -> dict[str, int]:
    "How many differences got which word, a column each."
    return {column: int((words == word).sum()) for word, column in COLUMNS.items()}


def place_of(runs: pd.DataFrame, shift: str) -> str: # runs: of a table whose real data are of two question sites
    "Name where it is tested: synthetic data have no sites."
    _, profile = runs.attrs["study"]
    return (SHIFTS if profile == "planted" else ON_SITES)[shift]


def from_to(values: pd.Series) -> str:
    "The least and the largest, `−0.1 to +8.4`; one number where they are the same, nothing without values."
    values = values.dropna()
    return " to ".join(dict.fromkeys([signed(values.min()), signed(values.max())])) if len(values) else ""


def outcomes(
    rows: dict[str, pd.DataFrame], # what is compared -> differences, of `differences` or of `judged`
    printed: dict[str, pd.Series] | None = None, # what is compared -> the paper's differences, in points
    weights: dict[str, float] | None = None, # what is compared -> λ of these, where it is not `PAPERS_WEIGHT`
) -> pd.DataFrame:
    """How many differences of each row got which word, how far they go, what could have been detected, and what the paper prints
    at the same λ. What is nowhere is no column."""
    lines = {}
    for name, found in rows.items():
        own = found if "word" in found else judged(found)
        line = counts(own.word)
        line["difference, points"] = from_to(own.difference) or "not run"
        line["detectable, points"] = detectable(own.finds[own.word == "cannot tell"])
        is_papers = set(own.get("strength", pd.Series(dtype=float)).dropna()) <= {(weights or {}).get(name, PAPERS_WEIGHT)}
        line["the paper prints, points"] = from_to(pd.Series((printed or {}).get(name, []) if is_papers else [], dtype=float))
        lines[name] = line
    table = pd.DataFrame(lines.values(), index=pd.Index(lines, name="method"))
    return table.loc[:, (table != "").any()].rename_axis("test", axis=1)


def by_method(
    found: pd.DataFrame, # of `differences` of a table, which are corrected together
) -> pd.DataFrame: # as `outcomes`
    "Every method of a table, in distribution and out of it."
    if found.empty:
        return pd.DataFrame()
    own = judged(found)
    rows = {}
    for (method, against, shift), part in own.groupby(["method", "against", "shift"], sort=False):
        rows[f"{method} − {against}, {SHIFTS[shift]}"] = part
    return outcomes(rows)


def answered(page: str) -> str: # page: Markdown
    "How the answer of a page begins; empty for a page without one."
    found = re.search(rf"^\*\*Answer\.\*\* ({'|'.join(BEGINNINGS)})\b", page, re.M)
    return found[1] if found else ""
