"""Figures are functions of their tables alone: same bytes whatever the caller's style or process, and nothing drawn from a table that does not fit."""
import os, re, subprocess, sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from matplotlib.text import Text

from debias_nb import figures as F
from debias_nb.config import WorldConfig
from debias_nb.worlds import strong_world

SMALL = dict(types=20, unseen_types=8)

def ends(frame, *columns, half=1.):
    for c in columns: frame = frame.assign(**{("low" if len(columns) == 1 else f"{c}_low"): frame[c] - half, ("high" if len(columns) == 1 else f"{c}_high"): frame[c] + half})
    return frame

def grid(**levels): return pd.MultiIndex.from_product(levels.values(), names=levels.keys()).to_frame(index=False)

def numbers(frame, low=0., high=10.): return np.random.default_rng(0).uniform(low, high, len(frame))

def tables(panels=("a", "b")):
    "Of each figure a table that fits, with as many panels as asked for."
    panels = list(panels)
    m, three = ["Finetuned", "OutReg", "ITVReg"], ["MaskReg", "OutReg", "ITVReg"]
    tokens = grid(text=panels[:3], method=m, token=["a", "$b$", "$", "a"])
    quant, mix = grid(corpus=panels, method=three, bin=range(1, 6)), grid(corpus=panels, method=three, tick=range(4))
    path, mech, mass = grid(panel=panels, shift=["iid", "ood"], method=three, weight=[.1, 1, 10]), grid(panel=panels, method=three, weight=[.1, 1, np.nan], seed=range(3)), grid(panel=panels, method=m, step=range(5))
    wise, match, plane = grid(panel=panels, alpha=[0, .5, 1]), grid(panel=panels, method=three, strength=[.1, .5]), grid(panel=panels, method=m)
    return {"importance_bars": tokens.assign(importance=numbers(tokens, 0, 1), causal=[None if t == "$" else t == "a" for t in tokens.token]),
            "quantile_gain": ends(quant.assign(gain=numbers(quant, -5)), "gain"), "temporal_mix": ends(mix.assign(share=mix.tick / 4, gain=numbers(mix, -5)), "gain"),
            "strength_path": ends(path.assign(value=numbers(path)), "value"), "mechanism": mech.assign(spurious=numbers(mech, 0, 1), ood=numbers(mech)),
            "mass_over_training": ends(mass.assign(spurious=numbers(mass, .2, .8), causal=.2), "spurious", half=.1),
            "interpolation": ends(wise.assign(iid=numbers(wise), ood=numbers(wise)), "iid", "ood"), "strength_match": ends(match.assign(iid=numbers(match), ood=numbers(match)), "iid", "ood"),
            "gain_plane": ends(plane.assign(iid=numbers(plane), ood=-numbers(plane)), "iid", "ood")}

NAMES, PANELS = list(tables()), {"text", "corpus", "panel"}
each = pytest.mark.parametrize("name", NAMES)

# ---------------------------------------------------------------- the file

@each
def test_the_same_bytes_whatever_the_style(name):
    frame = tables("a")[name]
    first = F.svg(getattr(F, name)(frame))
    with matplotlib.style.context("dark_background"), matplotlib.rc_context({"font.size": 20, "svg.fonttype": "path"}): assert F.svg(getattr(F, name)(frame)) == first
    assert len(first) < 300_000 and b"<text" in first and not re.search(rb"[ \t]\n|<dc:date>", first) and frame.equals(tables("a")[name])

def test_the_same_bytes_in_another_process(tmp_path):
    code = "import sys; sys.path.insert(0, 'tests'); from test_figures import *; import hashlib\nfor n in ('importance_bars', 'mechanism', 'quantile_gain'): print(n, hashlib.sha256(F.svg(getattr(F, n)(tables('a')[n]))).hexdigest())"
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    runs = [subprocess.run([sys.executable, "-c", code], cwd=root, env={**os.environ, "PYTHONHASHSEED": h, "MPLBACKEND": b, "MPLCONFIGDIR": str(tmp_path), "PYTHONPATH": root}, capture_output=True, text=True, check=True).stdout for h, b in (("1", "agg"), ("2", "svg"))]
    assert runs[0] == runs[1] and len(runs[0].splitlines()) == 3

def test_importing_does_not_load_matplotlib():
    subprocess.run([sys.executable, "-c", "import sys, debias_nb.figures; assert not {'matplotlib', 'torch', 'seaborn'} & sys.modules.keys()"], check=True)

def test_dollar_signs_are_text():
    assert b">$b$<" in F.svg(F.importance_bars(tables()["importance_bars"]))

# ---------------------------------------------------------------- the picture

@each
@pytest.mark.parametrize("panels", [2, 4])
def test_nothing_is_cut_off(name, panels):
    if name == "importance_bars" and panels > 3: return
    fig = getattr(F, name)(tables("abcd"[:panels])[name])
    assert fig.get_figwidth() <= F.WIDTH
    with F.styled(): box = fig.get_tightbbox() # inches
    assert box.x0 > -.02 and box.y0 > -.02 and box.x1 < fig.get_figwidth() + .02 and box.y1 < fig.get_figheight() + .02
    assert min(t.get_size() for t in fig.findobj(Text) if t.get_text()) >= 8

@pytest.mark.parametrize("name", ["quantile_gain", "temporal_mix", "strength_path", "strength_match", "mass_over_training"])
def test_labels_at_the_ends_do_not_meet(name):
    frame = tables("a")[name]
    for c in ("gain", "value", "iid", "ood", "spurious"): # all lines end at the same height
        if c in frame: frame = frame.assign(**{x: .3 for x in (c, f"{c}_low", f"{c}_high", "low", "high") if x in frame})
    fig = getattr(F, name)(frame)
    for ax in fig.axes:
        heights = sorted(ax.get_yaxis_transform().transform(t.xy)[1] / fig.dpi * 72 + t.xyann[1] for t in ax.texts)
        assert len(heights) < 2 or min(np.diff(heights)) > 9

@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.floats(.1, 20))
def test_spread(wanted, gap):
    out = F.spread(wanted, gap)
    assert (np.diff(np.sort(out)) >= gap - 1e-6).all() and abs(out.mean() - np.mean(wanted)) < 1e-6
    assert (np.argsort(out) == np.argsort(wanted, kind="stable")).all()

def test_looks_are_distinct():
    many = [*F.METHOD_STYLE, "ITVReg (0.15)", "ITVReg, λ 1", "OutReg, λ 1", "x", "y"]
    assert len(set(F.looks(many).values())) == len(many)

# ---------------------------------------------------------------- tables that do not fit

@each
def test_every_column_is_asked_for(name):
    frame = tables()[name]
    for column in set(frame.columns) - PANELS:
        with pytest.raises(ValueError, match=f"no column '{column}'"): getattr(F, name)(frame.drop(columns=column))
    for column in PANELS & set(frame.columns): getattr(F, name)(frame[frame[column] == "a"].drop(columns=column))

@each
def test_an_empty_table(name):
    with pytest.raises(ValueError, match="nothing to draw"): getattr(F, name)(tables()[name][:0])

@each
def test_numbers_that_are_none(name):
    frame = tables()[name]
    column = {"importance_bars": "importance", "quantile_gain": "gain", "temporal_mix": "gain", "strength_path": "value", "mass_over_training": "spurious"}.get(name, "ood")
    for bad, message in ((np.nan, "not a finite number"), (np.inf, "not a finite number"), ("many", "not made of numbers")):
        with pytest.raises(ValueError, match=f"{column}.*{message}"): getattr(F, name)(frame.assign(**{column: [bad, *frame[column].iloc[1:]]}))

@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("mechanism", "importance_bars", "interpolation")])
def test_rows_that_stand_twice(name):
    with pytest.raises(ValueError, match="two rows"): getattr(F, name)(pd.concat([tables()[name]] * 2))

@each
def test_too_many_panels(name):
    with pytest.raises(ValueError, match="choose some"): getattr(F, name)(pd.concat([tables("a")[name].assign(**{c: f"p{i}" for c in PANELS & set(tables()[name].columns)}) for i in range(7)]))

# ---------------------------------------------------------------- the causal graph

@pytest.fixture(scope="module")
def mild(): return F.causal_edges(WorldConfig(**SMALL), n=200)

def at(edges, source, target, products="ordinary"): return edges.set_index(["source", "target", "products"]).loc[source, target, products]

def test_brand_causes_relevance_for_accessories_only(mild):
    assert not at(mild, "brand", "relevance").present and at(mild, "brand", "relevance").iid == 0
    assert at(mild, "brand", "relevance", "accessory").present and not at(mild, "brand", "relevance", "accessory").spurious
    assert set(mild[mild.present & (mild.target == "relevance") & (mild.measure == "change")].source) == {"type", "values", "brand"}

def test_the_tie_of_type_and_brand_is_gone_without_p_ood(mild):
    tie = at(mild, "type", "brand")
    assert tie.present and tie.spurious and tie.uncoupled == tie.unseen == 0 and tie.cut == "uncoupled, unseen" and tie.dials == "p, p_ood"
    kept = at(F.causal_edges(WorldConfig(**SMALL, p_ood=.9), n=200), "type", "brand")
    assert kept.cut == "" and kept.spurious and kept.uncoupled > .8
    assert abs(at(mild, "shared brand", "relevance").uncoupled) < .1 < .3 < at(mild, "shared brand", "relevance").iid

def test_every_dial_governs_its_arrow(mild):
    for source, target, dial in (("type", "noun", "p_noun"), ("values", "attribute words", "p_attr"), ("brand", "the other brand", "brand_match")): assert at(mild, source, target).dials == dial
    for strength, edge in ((.6, ("type", "noun")), (.9, ("values", "attribute words"))): assert abs(at(mild, *edge).iid - strength) < .12

def test_nothing_leads_to_fillers_and_codes(mild):
    assert not mild[mild.target.isin(["fillers", "model code"]) | mild.source.isin(["fillers", "model code"])].present.any()

def test_a_world_without_ties():
    edges = F.causal_edges(WorldConfig(**SMALL, p=0., brand_match=0., accessories=0.), n=200)
    assert not edges.spurious.any() and set(edges.products) == {"ordinary"} and (edges.cut == "").all()
    assert b"spurious tie" not in F.svg(F.causal_graph(WorldConfig(**SMALL), edges))

def test_the_graph_draws_what_was_found(mild):
    graph = F.svg(F.causal_graph(WorldConfig(**SMALL), mild))
    assert graph == F.svg(F.causal_graph(WorldConfig(**SMALL), mild)) and len(graph) < 300_000
    assert b"accessories only" in graph and b"accessories only" not in F.svg(F.causal_graph(WorldConfig(**SMALL), mild[mild.products == "ordinary"]))
    assert b"p_ood = 0" in graph and "cut in the splits uncoupled, unseen".encode() in graph
    strong = strong_world(**SMALL)
    assert F.svg(F.causal_graph(strong, F.causal_edges(strong, n=100))) != graph

def test_the_graph_refuses(mild):
    with pytest.raises(ValueError, match="no column 'cut'"): F.causal_graph(WorldConfig(), mild.drop(columns="cut"))
    with pytest.raises(ValueError, match="n: 99 draws"): F.causal_edges(WorldConfig(), n=99)
