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
    course = grid(panel=panels, method=["SCAN", "w/o LD", "w/o LD, shuffled"], quantity=list(F.QUANTITIES), part=np.linspace(0, 1, 6))
    wise, match, plane = grid(panel=panels, alpha=[0, .5, 1]), grid(panel=panels, method=three, strength=[.1, .5]), grid(panel=panels, method=m)
    return {"importance_bars": tokens.assign(importance=numbers(tokens, 0, 1), causal=[None if t == "$" else t == "a" for t in tokens.token]),
            "quantile_gain": ends(quant.assign(gain=numbers(quant, -5)), "gain"), "temporal_mix": ends(mix.assign(share=mix.tick / 4, gain=numbers(mix, -5)), "gain"),
            "strength_path": ends(path.assign(value=numbers(path)), "value"), "mechanism": mech.assign(spurious=numbers(mech, 0, 1), ood=numbers(mech)),
            "weight_course": ends(course.assign(value=numbers(course, .5, 2)), "value", half=.1),
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
    if name == "weight_course": column = "part" # a value may be missing
    for bad, message in ((np.nan, "not a finite number"), (np.inf, "not a finite number"), ("many", "not made of numbers")):
        with pytest.raises(ValueError, match=f"{column}.*{message}"): getattr(F, name)(frame.assign(**{column: [bad, *frame[column].iloc[1:]]}))

@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("mechanism", "importance_bars", "interpolation")])
def test_rows_that_stand_twice(name):
    with pytest.raises(ValueError, match="two rows"): getattr(F, name)(pd.concat([tables()[name]] * 2))

@each
def test_too_many_panels(name):
    with pytest.raises(ValueError, match="choose some"): getattr(F, name)(pd.concat([tables("a")[name].assign(**{c: f"p{i}" for c in PANELS & set(tables()[name].columns)}) for i in range(7)]))

# ---------------------------------------------------------------- weights over training

def test_quantities_and_panels_have_rows_and_columns():
    frame = tables("abcd")["weight_course"]
    fig = F.weight_course(frame)
    where = [(s.rowspan.start, s.colspan.start) for s in (ax.get_subplotspec() for ax in fig.axes)]
    assert sorted(where) == [(r, c) for r in range(5) for c in range(4)]
    for ax in fig.axes: assert [1, 1] in [list(line.get_ydata()) for line in ax.lines] and len(ax.collections) == 3 and ax.get_ylim()[0] < 1 < ax.get_ylim()[1]
    words = [" ".join(ax.get_ylabel().split()) for ax in fig.axes if ax.get_subplotspec().is_first_col()]
    assert words == list(F.QUANTITIES.values())
    assert len(F.weight_course(frame[frame.quantity.isin(["largest", "fresh loss"])]).axes) == 8

def test_a_missing_value_is_left_out():
    frame = tables("a")["weight_course"].query("quantity == 'conflicting'")
    gone = (frame.method == "SCAN") & (frame.part == .4)
    one = F.svg(F.weight_course(frame.assign(value=frame.value.mask(gone), low=frame.low.mask(gone), high=frame.high.mask(gone))))
    assert one == F.svg(F.weight_course(frame.assign(value=frame.value.mask(gone)))) == F.svg(F.weight_course(frame[~gone])) != F.svg(F.weight_course(frame))
    with pytest.raises(ValueError, match="nothing to draw"): F.weight_course(frame.assign(value=np.nan))

def test_a_method_keeps_its_colour():
    frame, color = tables("a")["weight_course"], lambda fig: {line.get_color() for ax in fig.axes for line in ax.lines[1:]}
    own = frame[frame.method == "SCAN"].assign(method="mine")
    assert color(F.weight_course(frame[frame.method == "w/o LD"])) == {"#009e73"} and color(F.weight_course(own)) == {F.SPARE[0][1]}
    assert color(F.weight_course(own, methods=("yours", "SCAN", "mine"))) == {F.SPARE[1][1]}
    with pytest.raises(ValueError, match="methods: 'mine' is in the table"): F.weight_course(own, methods=("SCAN",))

def test_a_legend_is_no_wider_than_the_figure():
    frame = pd.concat([tables("abcd")["weight_course"].query("part == 0 and quantity == 'largest'").assign(method=lambda f, k=k: f.method + f", variant {k}") for k in range(3)])
    fig = F.weight_course(frame)
    with F.styled(): box = fig.get_tightbbox()
    assert box.x0 > -.02 and box.x1 < fig.get_figwidth() + .02

# ---------------------------------------------------------------- SCAN, from its modules

def heads(width=64):
    from debias_nb.scan import HEADS, ScanHead
    mixed = dict(gate="scalar", output="linear", detach=True, shared=True)
    return {"plain": ScanHead(width, debias=False)} | {name: ScanHead(width, **o) for name, o in (HEADS | {"mixed": mixed, "weighted": HEADS["released"] | dict(classes=5, class_weights=(1., 2., 3., 4., 5.5))}).items()}

def boxes_of(fig): return {p.get_label(): p for p in fig.axes[0].patches if p.get_label() in F.SPOTS}

@pytest.mark.parametrize("encoder, width", [("e", 8), ("organisation/a-model$name$_with-a-LONG-NAME-uncased-v2", 1024), ("W" * 200, 64)])
def test_text_stays_in_its_box_and_arrows_out(encoder, width):
    for head in heads(width).values():
        fig = F.scan_drawing(head, encoder, width)
        ax, back, held, lines = fig.axes[0], fig.axes[0].transData.inverted().transform, 0, F.scan_boxes(head, encoder, width)
        boxes = {n: back(p.get_window_extent()) for n, p in boxes_of(fig).items()}
        assert fig.get_figwidth() == F.WIDTH and boxes.keys() == lines.keys() and min(t.get_size() for t in ax.texts if t.get_text()) >= 8
        for t in ax.texts:
            (left, bottom), (right, top) = back(t.get_window_extent())
            assert left > 0 and right < 2 * F.WIDTH and bottom > ax.get_ylim()[0] and top < ax.get_ylim()[1]
            for (l, b), (r, u) in boxes.values():
                if right > l and left < r and top > b and bottom < u and t.get_text():
                    held += 1
                    assert left > l and right < r and bottom > b and top < u, t.get_text()
        assert held == sum(map(len, lines.values()))
        for points, *_ in F.scan_arrows(lines, bool(head.debiasing and head.debiasing.detach)):
            for a, b in zip(points, points[1:]):
                on = np.linspace(a, b, 100)
                for low, high in boxes.values(): assert not ((on > low + .02) & (on < high - .02)).all(1).any()

def test_arrows_meet_only_at_the_fork():
    for head in heads().values():
        arrows = F.scan_arrows(F.scan_boxes(head, "e", 64), bool(head.debiasing and head.debiasing.detach))
        pieces = [(i, np.array(a), np.array(b)) for i, (points, *_) in enumerate(arrows) for a, b in zip(points, points[1:])]
        assert all(min(abs(a - b)) < 1e-9 for _, a, b in pieces), "level or upright"
        for i, a, b in pieces:
            for j, c, d in pieces:
                if i >= j: continue
                low, high = np.maximum(np.minimum(a, b), np.minimum(c, d)), np.minimum(np.maximum(a, b), np.maximum(c, d))
                if (low <= high + 1e-9).all(): assert head.debiasing is not None and np.allclose(low, (6.3, -2.75)) and np.allclose(high, low)

def test_the_drawing_is_of_the_modules():
    import torch
    found = {name: F.scan_boxes(head, "e", 64) for name, head in heads().items()}
    assert {name: len(b) for name, b in found.items()} == {"plain": 8, "paper": 15, "released": 16, "mixed": 15, "weighted": 16}
    assert found["mixed"]["gate"][1:] == ["Linear 64 → 1, Sigmoid", "one for all dimensions"] and found["mixed"]["debiased"][1:] == ["Linear 64 → 64, ReLU", "Linear 64 → 64"]
    assert found["weighted"]["score"][1:] == ["5 logits"] and "1 : 2" in " ".join(found["weighted"]["CE"])
    head = heads()["paper"]
    head.debiasing.transform = torch.nn.Sequential(torch.nn.Linear(64, 7), torch.nn.Tanh(), torch.nn.Dropout(.25), torch.nn.Linear(7, 64))
    assert F.scan_boxes(head, "e", 64)["transform"][1:] == ["Linear 64 → 7, Tanh", "Dropout 0.25", "Linear 7 → 64"], "another module, another text"
    text = F.svg(F.scan_drawing(head, "e", 64)).decode()
    assert "Linear 64 → 7, Tanh" in text and text == F.svg(F.scan_drawing(head, "e", 64)).decode()

def test_a_cut_gradient_is_struck_through():
    strokes = {name: len(F.scan_drawing(head, "e", 64).axes[0].lines) // 2 for name, head in heads().items()}
    assert strokes == {"plain": 3, "paper": 3, "released": 4, "mixed": 4, "weighted": 4} # two of the weights, one of the key

def test_what_is_no_head_is_refused():
    import torch
    with pytest.raises(ValueError, match="ScanHead.*Linear has no 'classifier'"): F.scan_drawing(torch.nn.Linear(3, 2), "e", 3)
    with pytest.raises(ValueError, match="gives 32 numbers.*takes 64"): F.scan_drawing(heads()["paper"], "e", 32)
    with pytest.raises(ValueError, match="encoder_name is empty"): F.scan_drawing(heads()["paper"], "", 64)

# ---------------------------------------------------------------- ARR, from its loss

KINDS_OF_LOSS = ["ARR", "released", "fixed", "self", "corrected", "corrected by nothing", "product", "product with nothing", "CL", "MLL"]

def author_loss(name, texts=30, words=1234567, width=768, temperature=.125):
    import torch
    from scipy import sparse
    from debias_nb import arr as A
    class Encoder(torch.nn.Linear): # all that a drawing asks of a model
        def get_embedding_dimension(self): return self.out_features
    model, g, h = Encoder(2, width), torch.ones(texts, width), sparse.csr_array((np.ones(texts), (range(texts), range(texts))), shape=(texts, words))
    return {"ARR": lambda: A.ARRLoss(model, g, h, temperature), "released": lambda: A.ARRLoss(model, g, h, temperature, variant="released"), "fixed": lambda: A.ARRLoss(model, g, h, temperature, bias=.3333333),
            "self": lambda: A.ARRLoss(model, g, h, temperature, bias=0.), "corrected": lambda: A.CorrectedTeacherLoss(model, g, h, temperature, .125), "corrected by nothing": lambda: A.CorrectedTeacherLoss(model, g, h, temperature, 0.),
            "product": lambda: A.ProductOfExpertsLoss(model, h, temperature, .125), "product with nothing": lambda: A.ProductOfExpertsLoss(model, h, temperature, 0.),
            "CL": lambda: A.ContrastiveAuthorLoss(model, temperature), "MLL": lambda: A.MulticlassLoss(model, 12345)}[name]()

each_loss = pytest.mark.parametrize("name", KINDS_OF_LOSS)

@each_loss
@pytest.mark.parametrize("encoder, base, topics", [("e", "", "TF-IDF"), ("organisation/a-model$name$_with-a-LONG-NAME-uncased-v2", "CL", "bag of words"), ("W" * 200, "W" * 200, "W" * 200)])
def test_an_author_loss_fits_its_boxes(name, encoder, base, topics):
    loss = author_loss(name, *([30, 1234567, 768, .125] if encoder == "e" else [1312124, 2000000, 4, .0123456]))
    fig, lines = F.arr_drawing(loss, encoder, base, topics), F.arr_boxes(loss, encoder, base, topics)
    ax, back, held, (spots, _) = fig.axes[0], fig.axes[0].transData.inverted().transform, 0, F.arr_places(lines)
    boxes = {p.get_label(): back(p.get_window_extent()) for p in ax.patches if p.get_label() in lines}
    assert fig.get_figwidth() == F.WIDTH and boxes.keys() == lines.keys() == spots.keys() and min(t.get_size() for t in ax.texts if t.get_text()) >= 8
    for t in ax.texts:
        (left, bottom), (right, top) = back(t.get_window_extent())
        assert left > 0 and right < 2 * F.WIDTH and bottom > ax.get_ylim()[0] and top < ax.get_ylim()[1]
        for (l, b), (r, u) in boxes.values():
            if right > l and left < r and top > b and bottom < u and t.get_text():
                held += 1
                assert left > l and right < r and bottom > b and top < u, t.get_text()
    assert held == sum(map(len, lines.values()))
    edges = list(boxes.values())
    for i, (low, high) in enumerate(edges):
        assert low[1] > ax.get_ylim()[0] and high[1] < ax.get_ylim()[1] and all((low > h).any() or (high < l).any() for l, h in edges[:i]), "boxes stand apart"
    for points, *_ in F.arr_arrows(lines, spots):
        for a, b in zip(points, points[1:]):
            on = np.linspace(a, b, 100)
            for low, high in edges: assert not ((on > low + .02) & (on < high - .02)).all(1).any()

@each_loss
def test_arrows_of_an_author_loss_meet_only_where_texts_part(name):
    boxes = F.arr_boxes(author_loss(name), "a name in\nfour lines " * 9)
    spots, _ = F.arr_places(boxes)
    pieces = [(i, np.array(a), np.array(b)) for i, (points, *_) in enumerate(F.arr_arrows(boxes, spots)) for a, b in zip(points, points[1:])]
    assert all(min(abs(a - b)) < 1e-9 for _, a, b in pieces), "level or upright"
    for i, a, b in pieces:
        for j, c, d in pieces:
            if i >= j: continue
            low, high = np.maximum(np.minimum(a, b), np.minimum(c, d)), np.minimum(np.maximum(a, b), np.maximum(c, d))
            if (low <= high + 1e-9).all(): assert {"G", "H"} <= boxes.keys() and np.allclose(low, (2.95, spots["H"][1])) and np.allclose(high, low)

def test_the_drawing_is_of_the_loss():
    found = {name: F.arr_boxes(author_loss(name), "e", "CL") for name in KINDS_OF_LOSS}
    text = {name: {box: " ".join(lines) for box, lines in boxes.items()} for name, boxes in found.items()}
    assert {name: "".join(b for b in "GHBS" if b in boxes) for name, boxes in found.items()} == {"ARR": "GHBS", "released": "GHBS", "fixed": "GBS", "self": "GBS", "corrected": "GHS", "corrected by nothing": "GS",
                                                                                              "product": "H", "product with nothing": "", "CL": "", "MLL": ""}
    assert len({str(boxes) for boxes in found.values()}) == len(found) - 1 and found["product with nothing"] == found["CL"], "each its own"
    assert F.svg(F.arr_drawing(author_loss("product with nothing"), "e")) == F.svg(F.arr_drawing(author_loss("CL"), "e"))
    assert text["ARR"]["G"] == "base model $G$ trained by CL, then frozen 30 texts, 768 numbers each" and text["ARR"]["H"].endswith("30 texts, 1,234,567 words") and text["ARR"]["f"].endswith("768 numbers")
    assert text["ARR"]["p"].endswith("$\\tau$ = 0.125") and text["corrected"]["S"].endswith("$\\gamma$ = 0.125, $\\tau$ = 0.125") and text["product"]["p"].endswith("$\\gamma$ = 0.125, $\\tau$ = 0.125")
    assert text["fixed"]["B"] == "bias $B$ 0.333333 in all batches" and F.arr_boxes(author_loss("corrected", temperature=.0123456), "e")["S"][-2:] == ["$\\gamma$ = 0.125", "$\\tau$ = 0.0123456"] and text["ARR"]["S"] != text["released"]["S"] and "trained, then frozen" in " ".join(F.arr_boxes(author_loss("ARR"), "e")["G"])
    assert "Linear 768 → 12345" in text["MLL"]["p"] and "12,345 authors" in text["MLL"]["L"]
    for name in ("ARR", "CL"): assert F.svg(F.arr_drawing(author_loss(name), "e")) == F.svg(F.arr_drawing(author_loss(name), "e"))

def test_what_is_frozen_is_struck_through():
    strokes = {name: len(F.arr_drawing(author_loss(name), "e").axes[0].lines) // 2 for name in KINDS_OF_LOSS}
    assert strokes == {"ARR": 3, "released": 3, "fixed": 2, "self": 2, "corrected": 3, "corrected by nothing": 2, "product": 2, "product with nothing": 0, "CL": 0, "MLL": 0} # one in the key

def test_what_is_no_author_loss_is_refused():
    import torch
    from debias_nb.arr import ARRLoss
    with pytest.raises(ValueError, match="one of MulticlassLoss.*got Linear"): F.arr_drawing(torch.nn.Linear(3, 2), "e")
    loss = author_loss("ARR"); loss.__class__ = type("MyLoss", (ARRLoss,), {})
    with pytest.raises(ValueError, match="got MyLoss"): F.arr_drawing(loss, "e")
    with pytest.raises(ValueError, match="encoder_name is empty"): F.arr_drawing(author_loss("CL"), "")
    with pytest.raises(ValueError, match="topics is empty"): F.arr_drawing(author_loss("ARR"), "e", topics=" ")

# ---------------------------------------------------------------- a split of authors and topics

def corpus(n, authors, topics, seed=0):
    from debias_nb.authorship import Texts
    rng = np.random.default_rng(seed)
    pick = lambda k: np.minimum(rng.geometric(min(.5, 3 / k), n) - 1, k - 1)
    return Texts("a corpus", [f"author {a}" for a in pick(authors)], [f"topic {t}" for t in pick(topics)], [f"text {i}" for i in range(n)])

def areas(fig): # colour -> covered area
    from matplotlib.colors import to_hex
    return {to_hex(p.get_facecolor()): sum(np.ptp(q[:, 0]) * np.ptp(q[:, 1]) for q in p.get_path().to_polygons()) for p in fig.axes[0].patches}

@pytest.mark.parametrize("n, authors, topics, columns, rows", [(40, 5, 3, 60, 40), (400, 40, 10, 60, 40), (400, 40, 10, 7, 3), (3000, 200, 90, 60, 40), (3000, 200, 90, 1, 1)])
def test_every_text_is_in_a_field_of_its_part(n, authors, topics, columns, rows):
    from debias_nb.authorship import paper_split
    texts = corpus(n, authors, topics)
    for split in (paper_split(texts, .4, .4), paper_split(texts, .4, .4, tests=("open",), size=10)):
        where, fields, fig = F.text_parts(split, texts), F.split_fields(split, texts, columns, rows), F.split_drawing(split, texts, columns, rows)
        for part, own in split.parts().items():
            assert (fields[part].sum(), (where == part).sum()) == (len(own),) * 2 and {texts.text[i] for i in np.flatnonzero(where == part)} == set(own.text)
            assert any(t.get_text() == f"{F.PART_STYLE[part][0]}: {len(own):,} text{'s' * (len(own) != 1)}" for t in fig.legends[0].get_texts())
        counts = fields[list(F.PART_STYLE)]
        assert counts.to_numpy().sum() == n and (counts.max(axis=1) == [r[r["most"]] for _, r in fields.iterrows()]).all() and (fields.next != fields.most).all() and "left out" not in set(fields.next)
        assert fields.column.max() < columns and fields.row.max() < rows and not fields.duplicated(["row", "column"]).any() and fields.row.iloc[0] == 0
        side = lambda k, step, end: np.minimum((k + 1) * step, end) - k * step
        a, t = len(set(texts.author)), len(set(texts.topic))
        area = pd.Series(side(fields.column, -(-a // columns), a) * side(fields.row, -(-t // rows), t)).groupby(fields.most).sum()
        assert areas(fig) == {F.PART_STYLE[p][1]: v for p, v in area.items()}, "rows of one colour are joined, and lose nothing"

def test_the_most_come_first():
    from debias_nb.authorship import paper_split
    texts = corpus(400, 12, 6)
    fields = F.split_fields(paper_split(texts, .5, .5), texts)
    for axis in ("column", "row"):
        sizes = fields.groupby(axis)[list(F.PART_STYLE)].sum().sum(axis=1)
        assert (sizes.diff().dropna() <= 0).all()

@pytest.mark.parametrize("n, authors, topics", [(40, 4, 3), (300, 50, 28), (9000, 900, 300)])
def test_the_picture_of_a_split_is_whole(n, authors, topics):
    from debias_nb.authorship import paper_split
    texts = corpus(n, authors, topics)
    texts = texts.take(range(n), topic=[f"{t} with a $long$ name, and then some" for t in texts.topic])
    split = paper_split(texts, .4, .4, tests=("cross", "iid", "open"))
    fig = F.split_drawing(split, texts)
    with F.styled(): box = fig.get_tightbbox()
    assert box.x0 > -.02 and box.y0 > -.02 and box.x1 < fig.get_figwidth() + .02 and box.y1 < fig.get_figheight() + .02 and fig.get_figwidth() == F.WIDTH
    assert min(t.get_size() for t in fig.findobj(Text) if t.get_text()) >= 8
    heights = sorted(t.get_window_extent().y0 for t in fig.axes[0].get_yticklabels())
    assert min(np.diff(heights)) > 10 and len(F.svg(fig)) < 300_000
    also = len(split.tests["cross"]) + len(split.tests["iid"])
    assert any(t.get_text() == f"open test: {len(split.tests['open']):,} texts, {also:,} of them in another test" for t in fig.legends[0].get_texts())
    assert F.svg(F.split_drawing(split, texts)) == F.svg(F.split_drawing(split, texts))

def test_a_split_of_other_texts_is_refused():
    from debias_nb.authorship import paper_split
    texts = corpus(200, 20, 8)
    split = paper_split(texts, .4, .4)
    with pytest.raises(ValueError, match="the split was made of other texts"): F.split_drawing(split, corpus(200, 20, 8, seed=1))
    with pytest.raises(ValueError, match="the split was made of other texts"): F.split_drawing(split, texts.take(range(100)))
    with pytest.raises(ValueError, match="a corpus has no topics"): F.split_drawing(split, texts.take(range(200), topic=None))
    with pytest.raises(ValueError, match="at least 1, got 60 and 0"): F.split_drawing(split, texts, rows=0)

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
