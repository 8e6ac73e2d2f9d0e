"The comparisons behind *What to do*, and how far they go."
from pathlib import Path

import pandas as pd

from ...files import project_root
from ...runs.pairing import signed
from .answers import SLIGHT
from .frame import only


def read_advice(folder: str | Path | None = None) -> pd.DataFrame: # folder: of the pages; None: those of the project
    "Every comparison of *What to do*, a row each."
    return pd.read_csv(Path(folder or project_root() / "reports") / "advice.csv")


def on_question(advice: pd.DataFrame, question: str, shift: str = "ood", **where) -> pd.DataFrame: # where: as `only`
    "The comparisons of a question. Raises `ValueError` where there is none."
    found = only(advice, question=question, shift=shift, **where)
    if found.empty:
        raise ValueError(f"advice.csv has nothing on {question!r} with {where}")
    return found


def extent(differences: pd.Series) -> str: # `lost 0.9 to 26.5 points`
    "How far differences go, in a verb that has their sign."
    low, high = differences.min().round(1), differences.max().round(1)
    if low < 0 < high:
        range_of_both = f"{signed(low)} to {signed(high)}"
        within = max(-low, high) <= SLIGHT
        return f"stayed within a point ({range_of_both})" if within else f"changed by {range_of_both} points"
    verb = "gained" if high > 0 else "lost"
    least, most = sorted(map(abs, (low, high)))
    if least == most:
        return f"{verb} {most:.1f} points"
    return f"{verb} {least:.1f} to {most:.1f} points" if least else f"{verb} up to {most:.1f} points"
