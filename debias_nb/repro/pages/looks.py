"How methods look in figures: the same color and marker in all of them."
from itertools import cycle
from typing import NamedTuple

import pandas as pd
import seaborn as sns


LOOKS = { # family of methods -> its color and marker
    "Base": ("#222222", "P"),
    "Finetuned": ("#d55e00", "s"),
    "MaskReg": ("#e69f00", "^"),
    "SimCSE": ("#8c8c8c", "v"),
    "OutReg": ("#009e73", "D"),
    "ITVAug": ("#882255", "X"),
    "ITVReg": ("#0072b2", "o"),
    "WiSE-FT": ("#56b4e9", "*"),
    "L2-SP": ("#cc79a7", "p"),
    "Word dropout": ("#7f4f24", "h"),
    "Least squares": ("#d55e00", "s"),
    "Least squares, random texts": ("#e69f00", "^"),
    "Ranking": ("#0072b2", "o"),
    "Ranking, third column": ("#00466e", "X"),
    "CoSENT": ("#009e73", "D"),
    "CL + ARR": ("#0072b2", "o"),
    "CL + ARR released": ("#79b4d8", "X"),
    "CL + ARR shorter": ("#00466e", "^"),
    "MLL + ARR": ("#d55e00", "s"),
    "SCAN": ("#0072b2", "o"),
    "SCAN, released": ("#79b4d8", "s"),
    "SCAN, matched": ("#3a8fc4", "v"),
    "SCAN, ours": ("#00466e", "X"),
    "w/o FD": ("#e69f00", "^"),
    "w/o FD, released": ("#f2cb78", "<"),
    "w/o LD": ("#009e73", "D"),
    "w/o LD, released": ("#78cbb4", ">"),
    "w/o LD, ours": ("#005f45", "P"),
    "FD ours": ("#009e73", "D"),
    "FD shuffled": ("#8c8c8c", "v"),
    "FD released": ("#882255", "X"),
    "FD paper": ("#e69f00", "^"),
    "FD fixed": ("#56b4e9", "h"),
    "Oracle": ("#222222", "P"),
}
SPARE = [("#5b3a8c", "p"), ("#7f4f24", "h"), ("#a3123a", "<"), ("#5c6b1f", ">")] # of families that the table lacks
MARKERS = "osD^vX*ph<>P"
SIZES = {"*": 9, "P": 8, "X": 8, "^": 6.5, "v": 6.5, "p": 6.5, "h": 6.5} # points; 5.5 for the others, so that all look alike


class Look(NamedTuple):
    "How a method is drawn."
    color: str
    marker: str

    @property
    def point(self) -> dict:
        "Settings of `Axes.plot` and `Axes.errorbar`."
        size = SIZES.get(self.marker, 5.5)
        return dict(color=self.color, marker=self.marker, markersize=size, markeredgecolor="white", markeredgewidth=.5)

    @property
    def level(self) -> dict:
        "Settings of `Axes.axhline`, for a method that has no place on the axis below."
        return dict(color=self.color, ls=(0, (5, 2)), lw=1.2, zorder=1)


def looks(
    rows: pd.DataFrame, # columns method and family
) -> dict[str, Look]: # families in the order of appearance, the methods of one likewise
    """A look for each method, the same in all figures: a family has a color and a marker, its methods shades of the one
    and a marker each. A method that its family is named after has just these."""
    out = {}
    spare = cycle(SPARE)
    for family, own in rows.drop_duplicates("method").groupby("family", sort=False):
        color, marker = LOOKS.get(family) or next(spare)
        colors = [color]
        if len(own) > 1:
            ends = [sns.light_palette(color, 8)[4], color, sns.dark_palette(color, 8)[3]]
            colors = sns.blend_palette(ends, len(own)).as_hex()
        is_own = own.method == family
        if is_own.any(): # the first of all
            del colors[len(colors) // 2]
            colors.insert(0, color)
        names = [*own.method[is_own], *own.method[~is_own]]
        markers = cycle(marker + MARKERS.replace(marker, ""))
        out |= dict(zip(names, map(Look, colors, markers)))
    return out
