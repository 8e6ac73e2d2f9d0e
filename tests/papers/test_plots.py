"""Plots are functions of their tables alone: the numbers of the table stand in the picture, nothing is cut off, and the
bytes don't depend on the caller's style."""
import base64
import io
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.text import Text
from PIL import Image

from debias_nb.papers.pages import pictures, plots as P
from debias_nb.papers.pages.answers import Row
from debias_nb.papers.pages.style import STYLES

NUMBERS = { # of each plot a column of numbers that must be there
    "strength_plot": "value", "trade_plot": "outside",
}
by_name = pytest.mark.parametrize("name", NUMBERS)


def grid(**levels):
    return pd.MultiIndex.from_product(levels.values(), names=levels.keys()).to_frame(index=False)


def numbers(frame, low=0., high=10.):
    return np.random.default_rng(0).uniform(low, high, len(frame))


def with_ends(frame, value):
    return frame.assign(low=frame[value] - 1, high=frame[value] + 1)


def methods(*names):
    "Methods, each of the family that its first word names."
    return pd.DataFrame({"method": names, "family": [name.split()[0].rstrip(",") for name in names]})


def in_families(frame):
    return frame.merge(methods(*frame.method.unique()))


def table(name, panels=("a", "b")):
    "A table that fits a plot."
    panels = list(panels)
    three = ["MaskReg", "OutReg 1", "ITVReg"]
    if name == "strength_plot":
        path = in_families(grid(panel=panels, test=["iid", "ood"], method=three, strength=[.1, 1, 10]))
        return with_ends(path.assign(value=numbers(path)), "value")
    plane = in_families(grid(panel=panels, method=three)).assign(step=0, inside=70.)
    return plane.assign(outside=numbers(plane))


def draw(name, frame):
    return getattr(P, name)(frame)


def points(ax):
    "What stands at markers."
    lines = [line.get_xydata() for line in ax.lines if line.get_marker() not in (None, "", "None")]
    return np.vstack(lines)


def labels(fig):
    return {text.get_text() for text in fig.findobj(Text)}


@by_name
def test_the_same_bytes_whatever_the_style_and_dots_beside_the_lines(name):
    frame = table(name, "a")
    first = pictures.svg(draw(name, frame))
    settings = dict(matplotlib.rcParams)
    with matplotlib.style.context("dark_background"), matplotlib.rc_context({"font.size": 20, "svg.fonttype": "path"}):
        assert pictures.svg(draw(name, frame)) == first
    assert len(first) < 60_000 and b"<text" in first and b"<dc:date>" not in first
    assert frame.equals(table(name, "a")) and dict(matplotlib.rcParams) == settings
    ET.fromstring(first)
    data, metadata = pictures.Picture(draw(name, frame), "what it says")._repr_mimebundle_()
    assert data["image/svg+xml"] == pictures.SVG(first).data and data["text/plain"] == metadata["alt"] == "what it says"
    assert len(data["image/png"]) < 60_000
    with Image.open(io.BytesIO(base64.b64decode(data["image/png"]))) as image:
        assert image.width == pytest.approx(P.WIDTH * pictures.DOTS, abs=1)
        assert len(image.convert("RGB").getcolors()) > 5, "something is drawn"


def place_axes(fig):
    "A figure whose parts have their places."
    pictures.svg(fig)
    fig.set_dpi(72) # measured as an SVG file is drawn
    FigureCanvasSVG(fig)
    return fig


@by_name
@pytest.mark.parametrize("panels", ["abcd", ["a corpus with a long name -> another corpus with a long name", "b"]])
def test_nothing_is_cut_off(name, panels):
    fig = place_axes(draw(name, table(name, panels)))
    with pictures.our_style():
        box = fig.get_tightbbox()
    assert box.x0 > -.02 and box.y0 > -.02 and box.x1 < fig.get_figwidth() + .02 and box.y1 < fig.get_figheight() + .02
    assert fig.get_figwidth() == P.WIDTH and min(text.get_size() for text in fig.findobj(Text) if text.get_text()) > 7


@by_name
def test_what_cannot_be_drawn_is_refused(name):
    frame = table(name)
    column = NUMBERS[name]
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=column):
            draw(name, frame.assign(**{column: [bad, *frame[column].iloc[1:]]}))
    with pytest.raises(ValueError, match="two rows|duplicate"):
        draw(name, pd.concat([frame] * 2))
    if name == "strength_plot":
        with pytest.raises(ValueError, match="at most 4"):
            draw(name, table(name, "abcde"))


def test_a_method_keeps_its_look_and_methods_have_looks_of_their_own():
    for names in (["ITVReg"], ["Finetuned", "ITVReg"], ["x", "ITVReg", "OutReg 1"],
                  ["ITVReg 1", "ITVReg", "ITVReg (0.15)"]):
        assert P.method_styles(methods(*names))["ITVReg"] == P.MethodStyle(*STYLES["ITVReg"])
    rows = methods("ITVReg 1", "x 2").assign(family=["x 2", "ITVReg"])
    assert P.method_styles(rows)["x 2"].color == STYLES["ITVReg"][0] != P.method_styles(rows)[
        "ITVReg 1"].color, "the family tells"
    variants = ["ITVReg", "ITVReg 1", "ITVReg (0.15)", "OutReg 0.1", "OutReg 1"]
    looks = P.method_styles(methods("Finetuned", *variants, "WiSE-FT 0.5", "x", "y"))
    assert len(set(looks.values())) == len(looks) == len({look.color for look in looks.values()})
    looks = P.method_styles(methods("OutReg 1e-05", "Finetuned", "OutReg 0.1", "OutReg 10"))
    assert list(looks) == ["OutReg 1e-05", "OutReg 0.1", "OutReg 10", "Finetuned"]
    light = [sum(matplotlib.colors.to_rgb(look.color)) for look in looks.values()][:3]
    assert light == sorted(light, reverse=True)


def rows_of(*sizes):
    "Rows of a figure of estimates, one per size, each with two tests beside it."
    means = [SimpleNamespace(difference=size, low=size - .5, high=size + .5, seeds_alone=False) for size in sizes]
    return {f"method {mean.difference:g} − plain fine-tuning": Row(mean, [mean.low - 1, mean.high + 1], [2.])
            for mean in means}


def test_estimates_stand_between_their_tests_and_what_the_paper_prints():
    rows = rows_of(-3, 0, 12.5)
    fig = P.estimate_plot(rows)
    [ax] = fig.axes
    drawn = {tuple(point) for point in points(ax)}
    for place, row in enumerate(rows.values()):
        assert (row.mean.difference, place) in drawn
        assert {x for x, y in drawn if place - .5 < y < place} == {*row.tests}
        assert {x for x, y in drawn if place < y < place + .5} == {*row.printed}
    left, right = ax.get_xlim()
    assert left < -3 - 1 and right > 12.5 + 1
    assert {*rows, "the paper prints", "one test"} <= labels(fig)
    alone = {name: row._replace(printed=[]) for name, row in rows.items()}
    assert "the paper prints" not in labels(P.estimate_plot(alone))
    told = P.estimate_alt(rows)
    assert told.startswith("3 estimates") and told.index("method -3") < told.index("method 12.5")
    with pytest.raises(ValueError, match="method 0"):
        P.estimate_plot(rows | {"method 0": rows["method 0 − plain fine-tuning"]._replace(tests=[np.nan])})


def test_a_strength_of_0_has_a_place_on_a_linear_scale_alone():
    frame = table("strength_plot", "a").replace({"strength": {.1: 0.}})
    with pytest.raises(ValueError, match="log scale"):
        P.strength_plot(frame)
    [ax, *_] = P.strength_plot(frame, is_log=False).axes
    assert ax.get_xscale() == "linear" and ax.get_xlim()[0] <= 0


def test_a_point_is_as_high_in_all_panels():
    frame = table("trade_plot")
    frame.loc[frame.panel == "b", "outside"] *= 5
    spans = [np.ptp(ax.get_ylim()) for ax in P.trade_plot(frame).axes if ax.has_data()]
    assert np.allclose(spans, spans[0]) and len(spans) == 2
