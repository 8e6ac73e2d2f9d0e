"""Plots are functions of their tables alone: the numbers of the table stand in the picture, nothing is cut off, and the
bytes don't depend on the caller's style."""
import base64
import io
import xml.etree.ElementTree as ET

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.text import Text
from PIL import Image

from debias_nb.papers.pages import pictures, plots as P
from debias_nb.papers.pages.style import STYLES

NUMBERS = { # of each plot a column of numbers that must be there
    "difference_plot": "difference", "strength_plot": "value", "trade_plot": "outside",
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


def differences(panels, tests=("a -> a", "a -> b (OOD)")):
    frame = grid(encoder=panels, test=list(tests), method=["Finetuned", "OutReg 0.1", "OutReg 1"])
    shift = np.where(frame.test == "a -> a", "iid", "ood")
    frame = frame.assign(corpus="a", shift=shift, difference=numbers(frame, -9), seeds_alone=False)
    return with_ends(in_families(frame), "difference")


def table(name, panels=("a", "b")):
    "A table that fits a plot."
    panels = list(panels)
    three = ["MaskReg", "OutReg 1", "ITVReg"]
    if name == "difference_plot":
        return differences(panels)
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


def test_a_caption_says_if_scales_differ_or_a_method_was_not_run():
    one_test = differences(["small"], ["a -> a"])
    assert P.difference_plot(one_test, "points over Base").get_suptitle() == "points over Base"
    frame = differences(["small", "large"])
    columns = ["difference", "low", "high"]
    wide_frame = frame.assign(**{name: frame[name] * np.where(frame.encoder == "large", 100, 1) for name in columns})
    assert P.difference_plot(wide_frame, "points").get_suptitle() == "points; scales differ between panels"
    assert P.difference_plot(wide_frame.iloc[1:],
                             "points").get_suptitle() == "points; scales differ between panels; no dot: no run finished"


def test_differences_stand_at_their_methods():
    frame = differences(["small", "large"])
    fig = P.difference_plot(frame, "points over Base")
    places = P.method_places(frame)
    expected = [rows for _, rows in frame.groupby(["encoder", "test"], sort=False)]
    for ax, rows in zip(fig.axes, expected):
        positions = np.column_stack([rows.difference, rows.method.map(places)])
        assert {tuple(p) for p in points(ax)} == {tuple(p) for p in positions}
        assert ax.get_facecolor() == matplotlib.colors.to_rgba(P.GRAY if rows["shift"].iloc[0] == "iid" else "white")
        left, right = ax.get_xlim()
        assert left < min(0, rows.low.min()) and right > max(0, rows.high.max())
    assert {*frame.method, *frame.encoder, "a → a", "a → b", "in distribution"} <= labels(fig)
    assert "in distribution" not in labels(P.difference_plot(frame.assign(shift="ood")))
    no_intervals = P.difference_plot(frame.assign(low=np.nan, high=np.nan))
    narrow = P.difference_plot(frame.assign(low=frame.difference, high=frame.difference))
    for a, b in zip(no_intervals.axes, narrow.axes):
        assert (points(a) == points(b)).all()
    seeds_only = P.difference_plot(frame.assign(seeds_alone=True))
    assert "interval over seeds alone" in labels(seeds_only)
    assert any(line.get_linestyle() == ":" for line in seeds_only.axes[0].lines)
