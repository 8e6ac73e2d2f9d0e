"""What a page answers: a word by one rule for all pages, how far differences go, and how many got which word."""
import re
from pathlib import Path

import pandas as pd

from ...files import project_root
from ...measures.stats import WORDS, judge
from ...runs.config import load_experiment
from ...runs.pairing import scaled, signed
from .cells import table_cells
from .frame import only
from .printed import POINTS


BEGINNINGS = ("Yes", "No", "It depends", "Cannot tell")
SHIFTS = {"iid": "in distribution", "ood": "out of distribution"}
ON_SITES = {"iid": "on the site of training", "ood": "on the other site"}
COUNT_COLUMNS = dict(zip(WORDS, ("better", "worse", "within a point", "cannot tell")))
OF_CLAIMS = { # what a claim came out as -> the answer to its sentence
    "holds": "Yes", "the reverse holds": "No, the reverse", "within the margin": "No: within a point",
    "depends": "It depends",
    "cannot tell": "Cannot tell", "not run": "Not run",
}
WHOLE_SCALE = 100. # points
PAPERS_WEIGHT = .1 # λ that paper A prints its methods at, where a row names no other
SLIGHT = 1. # point: what lies within it is no help and no harm
TOO_MANY = 2 / 3 # of the tests cannot tell; half of them are, where fewer than `FEWEST` can
FEWEST = 3
COUNTS_NOTE = (
    "*Within a point:* the 95% interval lies inside ±1 point, however significant the difference is. *Better, worse:* "
    "the interval reaches beyond ±1 point, and the difference is significant at 5% after Holm's correction over a row. "
    "*Cannot tell:* the test is too small; *detectable* is the smallest difference that it finds with 80% power. "
    "[CLAIMS](../claims.ipynb) corrects over all comparisons of a claim, [What to do](../what_to_do.ipynb) over those "
    "of a question: counts there can differ."
)


def select(
    differences: pd.DataFrame, # of `differences`
    **filters,             # as `only`
) -> pd.DataFrame:
    """Select differences; of what was not run there are none.

    Raises `KeyError` for what the configuration does not have."""
    rows = only(differences, **filters)
    if rows.empty:
        experiment = load_experiment(*differences.attrs["study"])
        cells = [vars(cell) for table in experiment.tables for cell in table_cells(experiment, table, {})]
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


def distance_from(
    differences: pd.DataFrame, # of `differences`
    reference: str = "plain fine-tuning", # as `distance`
) -> str:
    "Say how far differences go, or that there are none."
    return "not measured" if differences.empty else distance(add_verdicts(differences).difference, reference)


def answer(
    differences: pd.DataFrame, # of `differences`
    subject: str,        # what was changed, in words
    reference: str = "plain fine-tuning", # what it is compared with
    yes: str = "better", # the word that says yes: `better`, or `worse` where the question is whether something hurts
) -> str: # it begins with one of `BEGINNINGS`
    """Answer a question from some differences.

    No if all lie within a point; It depends if some are better and others worse, or as many within a point; Cannot tell
    if two of three tests are too small, or half of them where fewer than three are not; else what most of the others
    say."""
    if differences.empty:
        lack = "was run with one seed, and a comparison takes two" if differences.attrs.get(
            "seeds") == 1 else "was not run"
        return f"Cannot tell: {subject} {lack}."
    rows = add_verdicts(differences)
    sentence = f"{subject} is {distance_from(differences, reference)}"
    if (rows.word == "within the margin").all():
        return f"No: {sentence}, within a point."
    is_unsure = rows.word == "cannot tell"
    verdicts = rows.word[~is_unsure].value_counts()
    if {"better", "worse"} <= set(verdicts.index):
        return f"It depends: {sentence}."
    if is_unsure.mean() >= (TOO_MANY if verdicts.sum() >= FEWEST else .5):
        sizes = rows.finds[is_unsure]
        if sizes.min() > WHOLE_SCALE:
            return f"Cannot tell: {sentence}; {rows.n.max()} seeds cannot tell."
        return f"Cannot tell: {sentence}; the detectable difference (80% power) is {detectable(sizes)} points."
    if len(verdicts) > 1 and verdicts.iloc[0] == verdicts.iloc[1]:
        return f"It depends: {sentence}."
    if verdicts.index[0] == "within the margin":
        return f"No: {sentence}, mostly within a point."
    return f"{'Yes' if verdicts.index[0] == yes else 'No'}: {sentence}."


def detectable(sizes: pd.Series) -> str: # `2.4 to 11.1`; empty without sizes
    "Say what tests can detect; more than the whole scale is no size."
    ends = [f"{size:.1f}" if size <= WHOLE_SCALE else "more than there is"
            for size in _ends(sizes)[:2]] if len(sizes) else []
    return " to ".join(dict.fromkeys(ends))


def counts(words: pd.Series) -> dict[str, int]:
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


def summarize(
    rows: dict[str, pd.DataFrame], # what is compared -> differences, of `differences` or of `add_verdicts`
    paper_differences: dict[str, pd.Series] | None = None, # what is compared -> the paper's differences, in points
    weights: dict[str, float] | None = None, # what is compared -> λ of these, where it is not `PAPERS_WEIGHT`
) -> pd.DataFrame:
    """Count the verdicts of each row, with how far its differences go and what could have been detected.

    The paper's differences stand next to those at its own λ. A column without entries is left out."""
    lines = {}
    for name, differences in rows.items():
        judged_rows = differences if "word" in differences else add_verdicts(differences)
        line = counts(judged_rows.word)
        line["difference, points"] = from_to(judged_rows.difference) or "not run"
        line["detectable, points"] = detectable(judged_rows.finds[judged_rows.word == "cannot tell"])
        is_papers = (set(judged_rows.get("strength", pd.Series(dtype=float)).dropna())
                     <= {(weights or {}).get(name, PAPERS_WEIGHT)})
        line["printed difference, points"] = from_to(pd.Series(
            (paper_differences or {}).get(name, []) if is_papers else [], dtype=float))
        lines[name] = line
    table = pd.DataFrame(lines.values(), index=pd.Index(lines, name="method"))
    return table.loc[:, (table != "").any()].rename_axis("test", axis=1)


def answer_word(page: str) -> str: # page: Markdown
    "Return how the answer of a page begins, or nothing for a page without one."
    match = re.search(rf"^\*\*Answer\.\*\* ({'|'.join(BEGINNINGS)})\b", page, re.M)
    return match[1] if match else ""


def read_advice(folder: str | Path | None = None) -> pd.DataFrame: # folder: of the pages; None: those of the project
    "Read every comparison of *What to do*, a row each."
    return pd.read_csv(Path(folder or project_root() / "reports") / "advice.csv")


def on_question(
    advice: pd.DataFrame, question: str, shift: str = "ood",
    **filters, # as `only`
) -> pd.DataFrame:
    """Select the comparisons of a question.

    Raises `ValueError` where there is none."""
    comparisons = only(advice, question=question, shift=shift, **filters)
    if comparisons.empty:
        raise ValueError(f"advice.csv has nothing on {question!r} with {filters}")
    return comparisons


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
