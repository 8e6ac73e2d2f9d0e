"How methods look and what they are called on pages: the same color, marker and name in all of them."
import re
from itertools import cycle
from typing import NamedTuple

import pandas as pd
import seaborn as sns

from ...files import load_yaml, package_file


STYLES = load_yaml(package_file("styles.yaml"))["methods"] # family of methods -> its color and marker
SPARE = [("#5b3a8c", "p"), ("#7f4f24", "h"), ("#a3123a", "<"), ("#5c6b1f", ">")] # of families that the table lacks
MARKERS = "osD^vX*ph<>P"
# points; 5.5 for the others, so that all look alike
MARKER_SIZES = {"*": 9, "P": 8, "X": 8, "^": 6.5, "v": 6.5, "p": 6.5, "h": 6.5}


NAME_PATTERNS = ( # patterns of what records call encoders and methods, and what pages do
    (r"(?<=\d) %", "%"),
    ("MiniLM, 10% of the pairs", "MiniLM"), # the line of the scale has the fraction
    ("general mix", "general texts"),
    ("no known text", "disjoint pairs"),
)


def replace_names(text: str) -> str:
    "Replace the names of records by those of pages."
    for pattern, name in NAME_PATTERNS:
        text = re.sub(pattern, name, text)
    return text


class MethodStyle(NamedTuple):
    "The color and marker of a method."
    color: str
    marker: str

    @property
    def point(self) -> dict:
        "Settings of `Axes.plot` and `Axes.errorbar`."
        size = MARKER_SIZES.get(self.marker, 5.5)
        return dict(color=self.color, marker=self.marker, markersize=size, markeredgecolor="white", markeredgewidth=.5)

    @property
    def level(self) -> dict:
        "Settings of `Axes.axhline`, for a method that has no place on the axis below."
        return dict(color=self.color, ls=(0, (5, 2)), lw=1.2, zorder=1)


def method_styles(
    rows: pd.DataFrame, # columns method and family
) -> dict[str, MethodStyle]: # families in the order of appearance, the methods of one likewise
    """Assign a style to each method, the same in all figures.

    A family has a color and a marker, its methods shades of the one and a marker each. A method that its family is
    named after has just these."""
    out = {}
    spare = cycle(SPARE)
    for family, methods in rows.drop_duplicates("method").groupby("family", sort=False):
        color, marker = STYLES.get(family) or next(spare)
        colors = [color]
        if len(methods) > 1:
            ends = [sns.light_palette(color, 8)[4], color, sns.dark_palette(color, 8)[3]]
            colors = sns.blend_palette(ends, len(methods)).as_hex()
        is_own = methods.method == family
        if is_own.any(): # the first of all
            del colors[len(colors) // 2]
            colors.insert(0, color)
        names = [*methods.method[is_own], *methods.method[~is_own]]
        markers = cycle(marker + MARKERS.replace(marker, ""))
        out |= dict(zip(names, map(MethodStyle, colors, markers)))
    return out
