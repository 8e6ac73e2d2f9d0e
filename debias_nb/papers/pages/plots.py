"""Every figure of the pages, from a tidy table of numbers, and its files: the same bytes each time."""
import io
import math
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from itertools import cycle
from textwrap import fill

import numpy as np
import pandas as pd
import seaborn as sns
from IPython.display import SVG
from PIL import Image
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.style import context
from matplotlib.text import Text

from ...files import load_yaml, package_file
from .compare import POINT, Question
from .frame import only
from .tables import replace_names


STYLE = sns.axes_style("whitegrid") | sns.plotting_context("paper") | load_yaml(package_file("styles.yaml"))["figures"]


def our_style():
    "Set Matplotlib's settings to ours inside, and the caller's again afterwards."
    return context(STYLE, after_reset=True)


FONTS = "font-family: 'DejaVu Sans', 'Verdana', sans-serif"
NEEDLESS = ( # pattern, and what takes its place
    (rf"(<text[^>]*) {FONTS};", r"\1"),
    (r"<style type=\"text/css\">", f"<style>text{{{FONTS}}} "),
    (r' transform="rotate\(-0 [^"]*"', ""),
    (r'<g id="[^"]*">', "<g>"),
    (r"(<use [^>]*fill: #\w+); stroke: #ffffff; stroke-width: 0.5(; stroke-linejoin: miter)?", r"\1"),
    (r"(?m)^ +| +$", ""),
)


def _shorten(match) -> str: # the words of a text and what ends it, or a number of many decimals
    """Round a place on the page to a tenth of a point and the shape of a marker finer, and keep words.

    It is rounded to a ten-thousandth first: a place that lies between two tenths has last digits of the processor."""
    text = match.group()
    if text.startswith(">"):
        return text
    number = round(float(text), 4)
    if abs(number) >= 10:
        return f"{number:.1f}"
    return f"{number:.2f}"


def _saved(figure: Figure, form: str, dots: int, **metadata: None) -> io.BytesIO:
    "Save a figure in our style, without metadata that would differ each time."
    out = io.BytesIO()
    with our_style():
        figure.savefig(out, format=form, dpi=dots, metadata=metadata)
    return out


def svg(
    figure: Figure,
) -> bytes: # an SVG file, the same each time and on every processor
    """Draw a figure as an SVG file, without what says nothing and without needless decimals.

    Clips and markers, which Matplotlib names by a hash of all digits of their places, are named by what is written."""
    text = _saved(figure, "svg", DOTS, Date=None, Creator=None).getvalue().decode()
    text = re.sub(r">[^<]*</text>|-?\d+\.\d{3,}", _shorten, text)
    for pattern, substitute in NEEDLESS:
        text = re.sub(pattern, substitute, text)
    names = dict.fromkeys(re.findall(r'id="([mp][0-9a-f]{10})"', text))
    picture = sha256(re.sub("|".join(names) or "$^", "", text).encode()).hexdigest()[:8]
    for number, name in enumerate(names):
        text = text.replace(name, f"{name[0]}{picture}{number}")
    return text.encode()


DOTS = 100   # an inch, of a PNG file: 830 across
PNG_COLORS = 64 # of a PNG file, which so takes a third of the bytes


def png(
    figure: Figure,
    dots: int = DOTS,
) -> bytes: # a PNG file, the same each time on one machine
    "Draw a figure as a PNG file."
    image = Image.open(_saved(figure, "png", dots, Software=None)).convert("RGB").quantize(PNG_COLORS)
    small = io.BytesIO()
    image.save(small, "PNG", optimize=True)
    return small.getvalue()


class Picture:
    """A figure as a notebook keeps it: lines, which pages take, and dots.

    JupyterLab draws no lines in a notebook that it does not trust, and a clone is never trusted; code hosts draw dots
    alone."""
    def __init__(
        self,
        figure: Figure,
        alt: str = "", # what a reader who cannot see a figure is told
        dots: int = DOTS, # an inch of the bitmap
    ):
        for text in figure.findobj(Text):
            text.set_text(replace_names(text.get_text()))
        self.figure = figure
        self.alt = alt
        self.dots = dots

    def __repr__(self) -> str:
        return self.alt or "a figure"

    def _repr_mimebundle_(self, include=None, exclude=None): # what it is shown as, and the metadata of that
        lines = SVG(svg(self.figure)).data # without the declaration of a file, as pages have it
        dots = b64encode(png(self.figure, self.dots)).decode()
        return {"image/svg+xml": lines, "image/png": dots, "text/plain": repr(self)}, {"alt": self.alt}


STYLES = load_yaml(package_file("styles.yaml"))["methods"] # family of methods -> its color and marker
SPARE = [("#5b3a8c", "p"), ("#7f4f24", "h"), ("#a3123a", "<"), ("#5c6b1f", ">")] # of families that the table lacks
# points; 5.5 for the others, so that all look alike
MARKER_SIZES = {"*": 9, "P": 8, "X": 8, "^": 6.5, "v": 6.5, "p": 6.5, "h": 6.5}


def method_styles(
    rows: pd.DataFrame, # columns method and family
) -> dict[str, dict]: # method -> settings of `Axes.plot`; families in the order of appearance
    "Assign a color and a marker to each method, those of its family, the same in all figures."
    styles = {}
    spare = cycle(SPARE)
    for family, methods in rows.groupby("family", sort=False):
        color, marker = STYLES.get(family) or next(spare)
        style = dict(color=color, marker=marker, markersize=MARKER_SIZES.get(marker, 5.5), markeredgecolor="white",
                     markeredgewidth=.5)
        styles |= dict.fromkeys(methods.method, style)
    return styles


WIDTH = 8.3 # inches, of every figure: 800 pixels, the width of a page on a code host
LETTER = .078 # inches, the width of a letter of 9 points


def canvas(
    height: float, # inches
) -> Figure:
    "Return an empty figure."
    return Figure(figsize=(WIDTH, height), layout="constrained")


def wrap(
    text: str,
    columns: int, # panels side by side
) -> str:
    "Break a text into lines that are no longer than a panel is wide, but for its numbers."
    room = WIDTH / columns - .6
    return fill(text.replace("->", "→"), int(room / LETTER))


def panels(
    keys: list,    # of the panels, row by row
    columns: int,  # panels side by side
    height: float, # inches, of a panel
    **sharing,     # settings of `Figure.subplots`
) -> tuple[Figure, dict]: # the figure, and key -> its axes
    "Return an empty figure with panels."
    down = math.ceil(len(keys) / columns)
    figure = canvas(height * down + .4)
    axes = figure.subplots(down, columns, squeeze=False, **sharing).ravel()
    for ax in axes[len(keys):]:
        ax.set_axis_off()
    return figure, dict(zip(keys, axes))


REFERENCE_LINE = dict(color="#555555", lw=1, zorder=1) # of a line that methods are compared with


WIDEST = 2.5 # how many times the narrowest range a common one may be


def share_where_ranges_agree(axes) -> None:
    "Give axes one range upwards, unless one of them would be left nearly empty."
    ranges = np.array([ax.get_ylim() for ax in axes])
    if np.ptp(ranges) <= WIDEST * np.ptp(ranges, axis=1).min():
        for ax in axes:
            ax.set_ylim(ranges.min(), ranges.max())


def legend(
    figure: Figure,
    handles: dict[str, Line2D], # by name
):
    "Write names below the panels, in as many columns as there is room for."
    widest = LETTER * max(map(len, handles)) + .55
    room = max(1, int(WIDTH / widest))
    lines = math.ceil(len(handles) / room)
    columns = math.ceil(len(handles) / lines) # so that lines are about equally full
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)


def line_handles(styles: dict[str, dict]) -> dict[str, Line2D]: # styles: of `method_styles`
    return {name: Line2D([], [], lw=1.3, **style) for name, style in styles.items()}


def on_the_left(ax, label: str):
    "Write once what the numbers of a row of panels are."
    if ax.get_subplotspec().is_first_col():
        ax.set_ylabel(label)


MARGIN = "#eef1f4"         # the ground of what is too little to matter
IN_POINTS = "difference, points"
DOT, ESTIMATE, REPORTED = "#8a9199", "#0b5a9c", "#d55e00"


@our_style()
def estimate_plot(
    questions: Sequence[Question], # with estimates
    label: str = IN_POINTS,
) -> Figure:
    "Draw differences on one axis: the estimate with its interval, one dot per test, the reported mean below them."
    texts = [fill(one.name, 52) for one in questions]
    figure = canvas(1 + sum(.34 + .12 * text.count("\n") for text in texts))
    ax = figure.subplots()
    ax.axvspan(-POINT, POINT, color=MARGIN, zorder=0)
    ax.axvline(0, **REFERENCE_LINE)
    for place, one in enumerate(questions):
        tests, mean = one.tests.difference, one.mean
        ax.plot(tests, np.full(len(tests), place - .26), "o", ms=4, color=DOT, mec="white", mew=.4)
        ax.plot([mean.low, mean.high], [place, place], color=ESTIMATE, lw=2.5)
        ax.plot(mean.difference, place, "o", ms=6.5, color=ESTIMATE)
        if one.reported_mean is not None:
            ax.plot(one.reported_mean, place + .26, "D", ms=4.5, color=REPORTED, mec="white", mew=.4)
    ax.set(yticks=range(len(texts)), yticklabels=texts, ylim=(len(texts) - .5, -.5), xlabel=label)
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
    handles = {"estimate, 95% interval": Line2D([], [], color=ESTIMATE, marker="o", lw=2.5),
               "one test": Line2D([], [], color=DOT, marker="o", ls="", ms=4)}
    if any(one.reported_mean is not None for one in questions):
        handles["reported, mean"] = Line2D([], [], color=REPORTED, marker="D", ls="", ms=4.5)
    legend(figure, handles)
    return figure


ROUND = str.maketrans("[]", "()") # brackets that Markdown does not read


def estimate_alt(questions: Sequence[Question]) -> str:
    "Say what a figure of estimates shows, for readers who cannot see it: the lowest and the highest."
    ordered = sorted(questions, key=lambda one: one.mean.difference)
    ends = dict.fromkeys(f"{one.name}, {one.estimate.translate(ROUND)}" for one in (ordered[0], ordered[-1]))
    return f"{len(questions)} estimates with their tests, in points, from {' to '.join(ends)}"


def _moved_apart(rows: pd.DataFrame, is_log: bool) -> pd.Series:
    "Place methods on a scale, each a little off its strength, in the order of the legend."
    methods = rows.method.unique()
    largest = 1 - 1 / len(methods)
    moves = rows.method.map(dict(zip(methods, np.linspace(-largest, largest, len(methods))))) * .0375
    return rows.strength * 10 ** moves if is_log else rows.strength + np.ptp(rows.strength) * moves


LEVEL = dict(ls=(0, (5, 2)), lw=1.2, zorder=1) # of a method that has no place on the axis below


@our_style()
def strength_plot(
    rows: pd.DataFrame,                # columns panel, test, method, family, value, low, high, strength
    # columns panel, test, method, family, value: methods without a strength, drawn as levels
    base: pd.DataFrame | None = None,
    label: str = "P@1 (%)",
    axis_label: str = "weight λ (log scale)",
    is_log: bool = True,
) -> Figure:
    """Draw a metric along a strength, one row of panels per test.

    Methods are moved a little, so that their intervals don't cover each other. The caption says so if scales differ."""
    if base is None:
        base = rows[:0]
    styles = method_styles(rows)
    base_styles = method_styles(base)
    rows = rows.assign(place=_moved_apart(rows, is_log))
    names = rows.panel.unique()
    keys = [(panel, test) for test in rows.test.unique() for panel in names]
    figure, cells = panels(keys, len(names), 2.1, sharex="col")
    for (panel, test), ax in cells.items():
        for name, style in styles.items():
            points = only(rows, panel=panel, test=test, method=name).sort_values("place")
            if len(points):
                ax.plot([points.place, points.place], [points.low, points.high], color=style["color"], lw=.9)
                ax.plot(points.place, points.value, **style)
        for row in only(base, panel=panel, test=test).itertuples():
            ax.axhline(row.value, color=base_styles[row.method]["color"], **LEVEL)
        if is_log:
            ax.set_xscale("log")
            ax.xaxis.set_minor_formatter("")
        ax.xaxis.set_major_formatter("{x:g}")
        place = ax.get_subplotspec()
        if place.is_first_row():
            ax.set_title(wrap(panel, len(names)))
        if place.is_last_row():
            ax.set_xlabel(axis_label)
        name = ", ".join(filter(None, [label, test]))
        on_the_left(ax, fill(name, 24))
    for test in rows.test.unique():
        share_where_ranges_agree([cells[panel, test] for panel in names if cells[panel, test].lines])
    if len({ax.get_ylim() for ax in figure.axes if ax.has_data()}) > 1:
        figure.suptitle("scales differ between panels", x=.005, ha="left", size=9)
    levels = {name: Line2D([], [], color=style["color"], **LEVEL) for name, style in base_styles.items()}
    legend(figure, line_handles(styles) | levels)
    return figure


GROWTH = 1.6 # of the last marker of a line over its first


@our_style()
def trade_plot(
    # columns panel, family, step, inside and outside: a family is a line along its steps
    rows: pd.DataFrame,
    unit: str = "%",
    marked: float | None = None, # a step, which gets a ring
) -> Figure:
    """Draw scores in distribution across and out of it upwards, one line per family; each panel has one test.

    The higher and the farther to the right, the better; markers grow along a line. A point is as high in all panels."""
    styles = method_styles(rows.assign(method=rows.family))
    names = [*rows.panel.unique()]
    columns = min(3, len(names))
    figure, cells = panels(names, columns, 2.8)
    for panel, ax in cells.items():
        for family, style in styles.items():
            points = only(rows, panel=panel, family=family).sort_values("step")
            layer = 3 if len(points) == 1 else 2 # points lie on lines
            ax.plot(points.inside, points.outside, lw=1.1, zorder=layer, color=style["color"])
            for size, point in zip(np.linspace(1, GROWTH, len(points)), points.itertuples()):
                marker = style | {"markersize": size * style["markersize"]}
                ax.plot(point.inside, point.outside, ls="", zorder=layer, **marker)
            rings = points[points.step == marked]
            ax.plot(rings.inside, rings.outside, "o", color=style["color"], markersize=12, fillstyle="none")
        ax.set_title(wrap(panel, columns))
        ax.set_xlabel(f"in distribution ({unit})")
        on_the_left(ax, f"out of distribution ({unit})")
    span = max(np.ptp(ax.get_ylim()) for ax in cells.values())
    least = -np.inf if (rows.outside < 0).any() else 0
    for ax in cells.values():
        low = max(least, np.mean(ax.get_ylim()) - span / 2)
        ax.set_ylim(low, low + span)
    legend(figure, line_handles(styles))
    return figure
