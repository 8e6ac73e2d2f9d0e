"""Plots are functions of their tables alone: the numbers of the table stand in the picture, nothing is cut off, and the
bytes don't depend on the caller's style."""
import base64
import io
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.text import Text
from PIL import Image

from debias_nb.repro.pages import plots as P

PAPERS = Path(__file__).parents[1] / "nbs" / "papers"

def grid(**levels):
    return pd.MultiIndex.from_product(levels.values(), names=levels.keys()).to_frame(index=False)

def numbers(frame, low=0., high=10.):
    return np.random.default_rng(0).uniform(low, high, len(frame))

def with_ends(frame, value, low="low", high="high"):
    return frame.assign(**{low: frame[value] - 1, high: frame[value] + 1})

def methods(*names):
    "Methods, each of the family that its first word names."
    return pd.DataFrame({"method": names, "family": [name.split()[0].rstrip(",") for name in names]})

def in_families(frame):
    return frame.merge(methods(*frame.method.unique()))

def differences(panels):
    frame = grid(encoder=panels, test=["a -> a", "a -> b (OOD)"], method=["Finetuned", "OutReg 0.1", "OutReg 1"])
    shift = np.where(frame.test == "a -> a", "iid", "ood")
    frame = frame.assign(corpus="a", shift=shift, difference=numbers(frame, -9), seeds_alone=False)
    return with_ends(in_families(frame), "difference")

def tables(panels=("a", "b")):
    "Of each plot a table that fits."
    panels = list(panels)
    three = ["MaskReg", "OutReg 1", "ITVReg"]
    path = in_families(grid(panel=panels, test=["iid", "ood"], method=three, strength=[.1, 1, 10]))
    course = in_families(grid(panel=panels, method=three, step=range(4), seed=range(2), quantity=list(P.SHARES)))
    weighing = ["SCAN", "FD shuffled"]
    diary = in_families(
        grid(panel=panels, method=weighing, part=[0, .5, 1], seed=range(2), quantity=list(P.QUANTITIES)))
    bias = in_families(grid(panel=panels, method=["CL + ARR"], part=[0, .5, 1], seed=range(2)))
    runs = grid(panel=panels, family=["MaskReg", "OutReg", "ITVReg"], strength=[.1, 1, np.nan], seed=range(2))
    tokens = grid(method=["Base", "ITVReg"], position=range(4))
    words = ["a", "$b$", "$", "a"] * 2
    transfer = grid(panel=panels, trained=["a", "b"], tested=["a", "b", "c"])
    return {
        "difference_plot": differences(panels),
        "strength_plot": with_ends(path.assign(value=numbers(path)), "value"),
        "trajectory_plot": course.assign(value=numbers(course, 0, 1)),
        "weights_plot": diary.assign(value=numbers(diary)),
        "bias_plot": bias.assign(value=numbers(bias, 0, 1)),
        "mechanism_plot": runs.assign(spurious=numbers(runs, 0, 1), ood=numbers(runs)),
        "transfer_plot": transfer.assign(difference=numbers(transfer, -9)),
        "importance_plot": tokens.assign(token=words, causal=None, importance=numbers(tokens)),
    }

NAMES = list(tables())
each = pytest.mark.parametrize("name", NAMES)

def drawn(name, frame=None, **settings):
    return getattr(P, name)(tables()[name] if frame is None else frame, **settings)

def points(ax):
    "What stands at markers."
    lines = [line.get_xydata() for line in ax.lines if line.get_marker() not in (None, "", "None")]
    return np.vstack(lines)

def labels(fig):
    return {text.get_text() for text in fig.findobj(Text)}

# ---------------------------------------------------------------- every plot

@each
def test_the_same_bytes_whatever_the_style(name):
    frame = tables()[name]
    first = P.svg(drawn(name))
    settings = dict(matplotlib.rcParams)
    with matplotlib.style.context("dark_background"), matplotlib.rc_context({"font.size": 20, "svg.fonttype": "path"}):
        assert P.svg(drawn(name, frame)) == first
    assert len(first) < 60_000 and b"<text" in first and b"<dc:date>" not in first
    assert frame.equals(tables()[name]) and dict(matplotlib.rcParams) == settings
    ET.fromstring(first)

@each
def test_a_notebook_keeps_dots_beside_the_lines(monkeypatch, name):
    "JupyterLab draws no SVG in a notebook that it does not trust, and a clone is never trusted."
    monkeypatch.setattr(P, "get_ipython", lambda: None) # the shell of another test may show lines alone
    data, metadata = P.Picture(drawn(name), "what it says")._repr_mimebundle_()
    assert data == P.Picture(drawn(name), "what it says")._repr_mimebundle_()[0], "the same each time"
    assert data["image/svg+xml"] == P.SVG(P.svg(drawn(name))).data
    assert data["text/plain"] == metadata["alt"] == "what it says"
    assert len(data["image/png"]) < 60_000
    with Image.open(io.BytesIO(base64.b64decode(data["image/png"]))) as image:
        assert image.format == "PNG" and image.width == pytest.approx(P.WIDTH * P.DOTS, abs=1)
        assert len(image.convert("RGB").getcolors()) > 5, "something is drawn"

@each
@pytest.mark.parametrize("panels", ["a", "abcd", ["a corpus with a long name -> another corpus with a long name", "b"]])
def test_nothing_is_cut_off(name, panels):
    fig = drawn(name, tables(panels)[name])
    P.svg(fig)
    fig.set_dpi(72) # measured as an SVG file is drawn
    FigureCanvasSVG(fig)
    with P.styled():
        box = fig.get_tightbbox()
    assert box.x0 > -.02 and box.y0 > -.02 and box.x1 < fig.get_figwidth() + .02 and box.y1 < fig.get_figheight() + .02
    assert fig.get_figwidth() == P.WIDTH and min(text.get_size() for text in fig.findobj(Text) if text.get_text()) > 7

@each
def test_every_column_is_asked_for(name):
    frame = tables()[name]
    for column in frame.columns:
        with pytest.raises(KeyError, match=column):
            drawn(name, frame.drop(columns=column))

@each
def test_an_empty_table(name):
    with pytest.raises(ValueError, match="nothing to draw"):
        drawn(name, tables()[name][:0])

NUMBERS = { # of each plot a column of numbers that must be there
    "difference_plot": "difference",
    "strength_plot": "value",
    "bias_plot": "value",
    "trajectory_plot": "value",
    "mechanism_plot": "ood",
    "transfer_plot": "difference",
    "importance_plot": "importance",
    "weights_plot": "part",
}

@pytest.mark.parametrize("name, column", NUMBERS.items())
def test_numbers_that_are_none(name, column):
    frame = tables()[name]
    for bad, message in ((np.nan, f"{column}.*is not a"), (np.inf, f"{column}.*is not a"), ("many", f"'many'.*{column}")):
        with pytest.raises(ValueError, match=message):
            drawn(name, frame.assign(**{column: [bad, *frame[column].iloc[1:]]}))

@pytest.mark.parametrize("name", ["strength_plot", "trajectory_plot", "weights_plot", "bias_plot"])
def test_too_many_panels(name):
    with pytest.raises(ValueError, match="choose some"):
        drawn(name, tables("abcde")[name])

@pytest.mark.parametrize("name", ["difference_plot", "strength_plot", "transfer_plot", "importance_plot"])
def test_rows_that_stand_twice(name):
    with pytest.raises(ValueError, match="two rows|duplicate"):
        drawn(name, pd.concat([tables()[name]] * 2))

def test_grounds_are_explained_where_there_are_any():
    frame = tables()["difference_plot"]
    assert "in distribution" in labels(drawn("difference_plot", frame.assign(shift="iid")))
    assert "in distribution" not in labels(drawn("difference_plot", frame.assign(shift="ood")))
    of_both_kinds = np.where(frame.method == frame.method.iloc[0], "iid", "ood") # in every panel
    assert "in distribution" not in labels(drawn("difference_plot", frame.assign(shift=of_both_kinds)))

# ---------------------------------------------------------------- looks

def test_a_method_keeps_its_look():
    for names in (["ITVReg"], ["Finetuned", "ITVReg"], ["x", "ITVReg", "OutReg 1"], ["ITVReg 1", "ITVReg", "ITVReg (0.15)"]):
        assert P.looks(methods(*names))["ITVReg"] == P.Look(*P.LOOKS["ITVReg"])

def test_a_name_says_nothing_of_a_look():
    "What a method is a variant of is told by its family alone: a name may end in a number."
    rows = methods("ITVReg 1", "x 2").assign(family=["x 2", "ITVReg"])
    assert P.looks(rows)["x 2"].color == P.LOOKS["ITVReg"][0] != P.looks(rows)["ITVReg 1"].color

def test_tests_stand_in_one_order_in_all_rows():
    frame = differences(["small", "large"])
    turned = pd.concat([own[::-1] if name == "large" else own for name, own in frame.groupby("encoder", sort=False)])
    titles = [ax.get_title() for ax in P.difference_plot(turned).axes if ax.get_title()]
    half = len(titles) // 2
    assert titles[:half] == titles[half:]

def test_looks_are_distinct():
    variants = ["ITVReg", "ITVReg 1", "ITVReg (0.15)", "OutReg 0.1", "OutReg 1"]
    looks = P.looks(methods("Finetuned", *variants, "WiSE-FT 0.5", "x", "y"))
    assert len(set(looks.values())) == len(looks) == len({look.color for look in looks.values()})

def test_methods_of_a_family_stand_together_from_light_to_dark():
    looks = P.looks(methods("OutReg 1e-05", "Finetuned", "OutReg 0.1", "OutReg 10"))
    assert list(looks) == ["OutReg 1e-05", "OutReg 0.1", "OutReg 10", "Finetuned"]
    light = [sum(matplotlib.colors.to_rgb(look.color)) for look in looks.values()][:3]
    assert light == sorted(light, reverse=True)

# ---------------------------------------------------------------- what stands in a picture

def test_differences_stand_at_their_methods():
    frame = differences(["small", "large"])
    fig = P.difference_plot(frame, "points over Base")
    places = P.method_places(frame)
    expected = [own for _, own in frame.groupby(["encoder", "test"], sort=False)]
    for ax, own in zip(fig.axes, expected):
        at = np.column_stack([own.difference, own.method.map(places)])
        assert {tuple(p) for p in points(ax)} == {tuple(p) for p in at}
        assert ax.get_facecolor() == matplotlib.colors.to_rgba(P.GREY if own["shift"].iloc[0] == "iid" else "white")
        left, right = ax.get_xlim()
        assert left < min(0, own.low.min()) and right > max(0, own.high.max())
    assert {*frame.method, *frame.encoder, "a → a", "a → b", "points over Base", "in distribution"} <= labels(fig)

def test_intervals_may_be_missing_or_have_no_width():
    frame = differences(["small"])
    without = P.difference_plot(frame.assign(low=np.nan, high=np.nan))
    narrow = P.difference_plot(frame.assign(low=frame.difference, high=frame.difference))
    for a, b in zip(without.axes, narrow.axes):
        assert (points(a) == points(b)).all()
    alone = P.difference_plot(frame.assign(seeds_alone=True))
    assert "interval over seeds alone" in labels(alone)
    assert any(line.get_linestyle() == ":" for line in alone.axes[0].lines)

def test_an_encoder_with_many_tests_has_a_row_for_each_corpus():
    one = differences(["small"])
    frame = pd.concat([one.assign(corpus=corpus, test=one.test + corpus) for corpus in ("x", "y", "z")])
    assert list(P.difference_rows(frame)) == ["small, x", "small, y", "small, z"]
    assert list(P.difference_rows(frame[frame.corpus != "z"])) == ["small"]
    same_names = pd.concat([one.assign(corpus=corpus) for corpus in ("x", "y")])
    assert list(P.difference_rows(same_names)) == ["small, x", "small, y"]

def test_strengths_stand_on_a_log_scale_beside_levels():
    frame = tables("a")["strength_plot"]
    base = in_families(grid(panel=["a"], test=["iid", "ood"], method=["Base"])).assign(value=[3., 4.])
    fig = P.strength_plot(frame, base)
    P.svg(fig)
    for ax, (test, own) in zip(fig.axes, frame.groupby("test", sort=False)):
        assert ax.get_xscale() == "log" and np.allclose(sorted(points(ax)[:, 1]), sorted(own.value))
        assert any((np.asarray(line.get_ydata()) == base[base.test == test].value.iloc[0]).all() for line in ax.lines)
    assert {"Base", "MaskReg", "0.1", "10"} <= labels(fig)
    with pytest.raises(ValueError, match="not positive"):
        P.strength_plot(frame.assign(strength=-frame.strength))

def test_shares_stand_around_zero_and_not_on_a_log_scale():
    frame = tables("a")["strength_plot"].rename(columns={"strength": "share"})
    fig = P.strength_plot(frame.assign(share=frame.share - .1), label="gain", x="share", log=False)
    P.svg(fig)
    for ax in fig.axes:
        assert ax.get_xscale() == "linear" and any((np.asarray(line.get_ydata()) == 0).all() for line in ax.lines)

def test_lines_are_means_over_seeds():
    frame = tables("a")["bias_plot"]
    ax = P.bias_plot(frame).axes[0]
    assert np.allclose(points(ax)[:, 1], frame.groupby("part").value.mean()) and ax.get_ylim()[0] == 0

def test_what_was_not_measured_has_no_line():
    frame = tables("ab")["weights_plot"]
    part = P.weights_plot(frame[(frame.panel == "a") | (frame.quantity == "largest")])
    assert [len(ax.collections) > 0 for ax in part.axes] == [True, False, True, True] + [True, False] * 3
    assert len(P.weights_plot(frame[frame.quantity.isin(["largest", "fresh loss"])]).axes) == 4
    with pytest.raises(ValueError, match="nothing to draw"):
        P.weights_plot(frame.assign(value=np.nan))

def test_panels_share_a_range_only_where_theirs_agree():
    frame = tables("ab")["mechanism_plot"]
    near = P.mechanism_plot(frame).axes
    far = P.mechanism_plot(frame.assign(ood=frame.ood + 500 * (frame.panel == "b"))).axes
    assert near[0].get_ylim() == near[1].get_ylim() and far[0].get_ylim()[1] < 100 < far[1].get_ylim()[0]

def test_tokens_are_text_and_known_spurious_ones_are_marked():
    frame = tables()["importance_plot"].assign(causal=lambda f: f.position == 1)
    fig = P.importance_plot(frame)
    ticks = fig.axes[0].get_xticklabels()
    assert [tick.get_text() for tick in ticks] == ["a", "$b$", "$", "a"] and b">$b$<" in P.svg(fig)
    assert [tick.get_weight() == "bold" for tick in ticks] == [True, False, True, True]
    assert "not causal" in fig.axes[0].get_xlabel(), "what the colour says"
    unknown = P.importance_plot(frame.assign(causal=None))
    assert unknown.axes[0].get_xlabel() == ""
    assert [text.get_text() for text in fig.axes[0].texts] == [f"{v:.2f}" for v in frame.importance]

# ---------------------------------------------------------------- drawings

DRAWINGS = ["itvreg/figure01", "arr/figure01", "arr/figure01_product", "scan/figure01", "scan/figure01_released"]

@pytest.mark.parametrize("file", DRAWINGS)
def test_a_drawing_is_a_small_file_with_text(file):
    data = (PAPERS / f"{file}.svg").read_bytes()
    root = ET.fromstring(data)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert len(data) < 60_000 and {"title", "text", "path", "rect"} <= tags and "image" not in tags
