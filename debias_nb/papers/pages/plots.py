"""Every figure of the pages, from a tidy table of numbers."""
import math
import re
from itertools import pairwise
from textwrap import fill

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from .frame import only
from .style import MethodStyle, method_styles
from .pictures import our_style


WIDTH = 8.3 # inches, of every figure: 800 pixels, the width of a page on a code host
LETTER = .078 # inches, the width of a letter of 9 points
AXIS_STEPS = [1, 2, 5, 10] # between the numbers of an axis


def check_frame(
    frame: pd.DataFrame,
    numbers,  # columns of finite numbers
    maybe=(), # columns of numbers that may be missing in some rows
    key=(),   # columns that say where a row is drawn; (): many may be drawn at one place
) -> pd.DataFrame: # a copy
    """Check that a table is fit to be drawn.

    Raises `ValueError` for a missing number, and for two rows at one place."""
    rows = frame.reset_index(drop=True).astype(dict.fromkeys([*numbers, *maybe], float))
    finite = np.isfinite(rows[list(numbers)]).all()
    if not finite.all():
        raise ValueError(f"column {finite.idxmin()!r} holds a value that is not a finite number")
    if key and rows.duplicated(key).any():
        raise ValueError(f"two rows for one {' and '.join(key)}: average them first")
    return rows


def canvas(
    height: float, # inches
) -> Figure:
    "Return an empty figure."
    return Figure(figsize=(WIDTH, height), layout="constrained")


def wrap(
    text: str,
    columns: int, # panels side by side
    margin: float = .6, # inches that a panel needs for its numbers
) -> str:
    "Break a text into lines that are no longer than a panel is wide."
    room = WIDTH / columns - margin
    return fill(text.replace("->", "→"), int(room / LETTER))


def panels(
    names,         # of the panels, repeated or not
    height: float, # inches, of a panel
    rows=None,     # names of the panels in a column, repeated or not
) -> tuple[Figure, dict]: # the figure, and name -> its axes, or (name, row) -> its axes
    """Return an empty figure with three panels side by side; with `rows` a column of panels for each name.

    Raises `ValueError` for more than four columns, which cannot be read."""
    names = list(dict.fromkeys(names))
    keys = names
    columns = min(3, len(names))
    sharing = {}
    if rows is not None:
        keys = [(name, row) for row in dict.fromkeys(rows) for name in names]
        columns = len(names)
        sharing = dict(sharex="col")
    if columns > 4:
        raise ValueError(f"{columns} panels side by side, and at most 4 can be read: choose some")
    down = math.ceil(len(keys) / columns)
    figure = canvas(height * down + .4)
    axes = figure.subplots(down, columns, squeeze=False, **sharing).ravel()
    for ax, title in zip(axes, names):
        ax.set_title(wrap(title, columns))
    for ax in axes[len(keys):]:
        ax.set_axis_off()
    return figure, dict(zip(keys, axes))


REFERENCE_LINE = dict(color="#555555", lw=1, zorder=1) # of a line that methods are compared with


def share_where_ranges_agree(
    axes,              # some axes
    axis: str = "y",   # or `x`
    ratio: float = 2.5, # how many times the narrowest range the common one may be
):
    "Give axes one range, unless one of them would be left nearly empty."
    ranges = np.array([getattr(ax, f"get_{axis}lim")() for ax in axes])
    narrowest = np.ptp(ranges, axis=1).min()
    common = ranges.min(), ranges.max()
    if np.ptp(common) <= ratio * narrowest:
        for ax in axes:
            ax.set(**{f"{axis}lim": common})


def legend(
    figure: Figure,
    styles: dict[str, MethodStyle],
    extra_handles=(), # further names with their handles
):
    "Write names below the panels, in as many columns as there is room for."
    handles = {name: Line2D([], [], lw=1.3, **style.point) for name, style in styles.items()}
    handles.update(extra_handles)
    widest = LETTER * max(map(len, handles)) + .55
    room = max(1, int(WIDTH / widest))
    lines = math.ceil(len(handles) / room)
    columns = math.ceil(len(handles) / lines) # so that lines are about equally full
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)


def caption(figure: Figure, label: str):
    "Write above all axes what they show."
    figure.suptitle(label, x=.005, ha="left", size=9)


def on_the_left(ax, label: str):
    "Write once what the numbers of a row of panels are."
    if ax.get_subplotspec().is_first_col():
        ax.set_ylabel(label)


def method_places(
    rows: pd.DataFrame, # columns method and family
) -> dict[str, float]: # method -> its height, from 0 at the top downwards
    "Place the methods of one family together, with some air between families."
    families = rows.drop_duplicates("method").set_index("method").family
    names = list(method_styles(rows))
    gap = 1.
    if families.nunique() < len(names):
        gap = 1.6
    steps = [1. if families[upper] == families[lower] else gap for upper, lower in pairwise(names)]
    return dict(zip(names, np.cumsum([0., *steps])))


GRAY = "#f0f0f0" # the ground of tests in distribution
MOST_ROOMY_PANELS = 4      # panels side by side; of more each has room for three short numbers


def _difference_row(axes, rows: pd.DataFrame, places: dict, styles: dict):
    "Draw the tests of one row of panels: dots with their intervals on a ground, and names of methods at the left."
    tests = rows.groupby("test", observed=True)
    used, empty = np.split(axes, [len(tests)])
    heights = list(places.values())
    for ax, (test, rows_of_test) in zip(used, tests):
        title = re.sub(r" \((IID|OOD)\)$", "", test)
        ax.set_title(wrap(title, len(axes) + 1, margin=.1))
        ax.axvline(0, **REFERENCE_LINE)
        for row in rows_of_test.itertuples():
            style = styles[row.method]
            height = places[row.method]
            line = ":" if row.seeds_alone else "-"
            ax.plot([row.low, row.high], [height, height], color=style.color, ls=line, clip_on=False)
            ax.plot(row.difference, height, ls="", clip_on=False, **style.point)
        if (rows_of_test["shift"] == "iid").all():
            ax.set_facecolor(GRAY)
        ax.grid(axis="y", visible=False)
        if len(axes) > MOST_ROOMY_PANELS:
            ax.xaxis.set_major_locator(MaxNLocator(2, steps=[1, 2, 4, 5, 10]))
            ax.xaxis.set_major_formatter("{x:g}")
        else:
            ax.xaxis.set_major_locator(MaxNLocator(4, steps=AXIS_STEPS))
        ax.set_yticks(heights, list(places))
        ax.set_ylim(max(heights) + .7, -.7)
        ax.tick_params(axis="y", length=0, labelleft=ax.get_subplotspec().is_first_col())
    for ax in empty:
        ax.set_axis_off()
    share_where_ranges_agree(used, "x", ratio=1.6)


def _scale_note(figure: Figure, axis: str = "x") -> str:
    "Say in a caption if scales differ between panels."
    ranges = {getattr(ax, f"get_{axis}lim")() for ax in figure.axes if ax.axison and ax.has_data()}
    if len(ranges) > 1:
        return "; scales differ between panels"
    return ""


def _grounds(figure: Figure, seeds_alone: bool) -> dict: # name -> handle
    "Return what a legend says of grounds and lines, if there are some that need it."
    grounds = {}
    if any(mpl.colors.same_color(ax.get_facecolor(), GRAY) for ax in figure.axes):
        grounds["in distribution"] = Patch(facecolor=GRAY, edgecolor="#999999")
        grounds["shifted"] = Patch(facecolor="white", edgecolor="#999999")
    if seeds_alone:
        grounds["interval over seeds alone"] = Line2D([], [], color="#555555", ls=":", lw=1.4)
    return grounds


@our_style()
def difference_plot(
    # columns encoder, corpus, test, shift (iid or ood), method, family, difference, low, high (points), seeds_alone
    differences: pd.DataFrame,
    label: str = "difference (points)", # what is subtracted from what
) -> Figure:
    """Draw dots with intervals, methods down and tests across.

    The caption says so if scales differ or no run of a method finished. Raises `ValueError` for a table that
    `check_frame` refuses."""
    frame = check_frame(differences, ["difference"], ["low", "high"], key=["encoder", "corpus", "test", "method"])
    places = method_places(frame)
    styles = method_styles(frame)
    frame.test = pd.Categorical(frame.test, frame.test.unique()) # in one order in all rows
    is_crowded = frame.groupby("encoder").test.nunique().max() > MOST_ROOMY_PANELS
    ambiguous = frame.duplicated(["encoder", "test", "method"]).any() # tests of one name in several corpora
    keys = ["encoder", "corpus"] if is_crowded or ambiguous else ["encoder"]
    rows = {", ".join(key): part for key, part in frame.groupby(keys, sort=False)}
    columns = max(part.test.nunique() for part in rows.values())
    height = .69 + .17 * max(places.values())
    figure = canvas(height * len(rows) + 1)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for axes, (title, part) in zip(grid, rows.items()):
        _difference_row(axes, part, places, styles)
        if len(rows) > 1:
            letters = int(height / LETTER) - 1 # no longer than a row is high
            axes[0].set_ylabel(fill(title, letters, break_long_words=False))
    note = _scale_note(figure)
    if any(len(part) < part.test.nunique() * len(places) for part in rows.values()):
        note += "; no dot: no run finished"
    caption(figure, label + note)
    grounds = _grounds(figure, frame.seeds_alone.any())
    if grounds:
        legend(figure, {}, grounds)
    return figure


def _moved_apart(rows: pd.DataFrame, styles: dict[str, MethodStyle]) -> pd.Series:
    "Place methods on a log scale, each a little off its strength, in the order of the legend."
    largest = 1 - 1 / len(styles)
    moves = np.linspace(-largest, largest, len(styles)) * .0375
    return rows.strength * 10 ** rows.method.map(dict(zip(styles, moves)))


@our_style()
def strength_plot(
    frame: pd.DataFrame,                # columns panel, test, method, family, value, low, high, strength
    # columns panel, test, method, family, value: methods without a strength, drawn as levels
    base: pd.DataFrame | None = None,
    label: str = "P@1 (%)",
    axis_label: str = "weight λ (log scale)",
) -> Figure:
    """Draw a metric along a strength, a row a test.

    Methods are moved a little, so that their intervals don't cover each other. The caption says so if scales differ.
    Raises `ValueError` for a strength that is not positive and for two values at one place."""
    rows = check_frame(frame, ["strength", "value"], ["low", "high"], ["panel", "test", "method", "strength"])
    if (rows.strength <= 0).any():
        raise ValueError("column 'strength' has a value that is not positive: it has no place on a log scale")
    if base is None:
        base = rows[:0]
    styles = method_styles(rows)
    base_styles = method_styles(base)
    rows["place"] = _moved_apart(rows, styles)
    figure, cells = panels(rows.panel, 2.1, rows.test)
    for (panel, test), ax in cells.items():
        for name, style in styles.items():
            points = only(rows, panel=panel, test=test, method=name).sort_values("place")
            if len(points):
                ax.plot([points.place, points.place], [points.low, points.high], color=style.color, lw=.9)
                ax.plot(points.place, points.value, **style.point)
        for row in only(base, panel=panel, test=test).itertuples():
            ax.axhline(row.value, **base_styles[row.method].level)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
        name = ", ".join(filter(None, [label, test]))
        on_the_left(ax, fill(name, 24))
    axes_of_row = {} # row -> its axes
    for (_, row), ax in cells.items():
        if ax.get_subplotspec().is_last_row():
            ax.set_xlabel(axis_label)
        if ax.lines:
            axes_of_row.setdefault(row, []).append(ax)
    for axes in axes_of_row.values():
        share_where_ranges_agree(axes)
    note = _scale_note(figure, "y")
    if note:
        caption(figure, note.removeprefix("; "))
    level_handles = {name: Line2D([], [], **style.level) for name, style in base_styles.items()}
    legend(figure, styles, level_handles)
    return figure


@our_style()
def trade_plot(
    # columns panel, method, family, step, inside and outside: a family is a line through its methods, by step
    frame: pd.DataFrame,
) -> Figure:
    """Draw scores in distribution across and out of it upwards, a line a family and a panel each test.

    The higher and the farther to the right, the better. A column `note`, where there is one, has what is written at a
    point, or None. Raises `ValueError` for a table that `check_frame` refuses."""
    rows = check_frame(frame, ["step", "inside", "outside"], key=["panel", "family", "method"])
    if "note" not in rows:
        rows = rows.assign(note=None)
    styles = method_styles(rows.assign(method=rows.family))
    figure, cells = panels(rows.panel, 2.8)
    for panel, ax in cells.items():
        rows_of_panel = only(rows, panel=panel)
        for family, style in styles.items():
            points = only(rows_of_panel, family=family).sort_values("step")
            layer = 3 if len(points) == 1 else 2 # points lie on lines
            ax.plot(points.inside, points.outside, lw=1.1, zorder=layer, **style.point)
            for point in points[points.note.notna()].itertuples():
                place = (point.inside, point.outside)
                ax.annotate(point.note, place, (3, 3), textcoords="offset points", fontsize=6,
                            color=style.point["color"])
        ax.set_xlabel("in distribution (%)")
        on_the_left(ax, "out of distribution (%)")
    legend(figure, styles)
    return figure
