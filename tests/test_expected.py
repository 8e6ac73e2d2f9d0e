"The numbers of the paper: shape, invariants, and relations that its text states."
from itertools import product

import pytest

from debias_nb.config import ConfigError, project_root
from debias_nb.registry import ExpectedTable, load_expected

METHODS = ["Base", "Finetuned", "MaskReg", "SimCSE", "OutReg", "ITVReg"]
FORUMS, TRAIN = ["AskUbuntu", "SuperUser", "Quora"], ["AskUbuntu", "SuperUser"]


@pytest.fixture(scope="module")
def tables(): return load_expected("itvreg").tables


def t3(tables, base, method, train, test): return tables["table3"].cell(f"{train} -> {test}", base=base, method=method)
def best(tables, base, train, test): return max([*METHODS, "ITVAug"], key=lambda m: t3(tables, base, m, train, test).value)


def test_every_cell_is_there(tables):
    assert len(tables["table2"].cells) == 6 * 4 and len(tables["table3"].cells) == 2 * 7 * 6
    assert {c.row["method"] for c in tables["table2"].cells} == set(METHODS)
    for base, method, train, test in product(["NLI", "MSMARCO"], [*METHODS, "ITVAug"], TRAIN, FORUMS): t3(tables, base, method, train, test)


def test_spread_is_printed_for_trained_models_only(tables):
    for t in tables.values():
        for c in t.cells: assert (c.std is None) == (c.row["method"] == "Base"), c


def test_numbers_are_as_printed(tables):
    for t in tables.values():
        assert t.unit == "percent" and t.decimals == 2 and t.tolerance == 1.
        for c in t.cells: assert round(c.value, 2) == c.value and round(c.std or 0, 2) == (c.std or 0) and 10 < c.value < 90


def test_an_untrained_encoder_does_not_know_the_training_set(tables):
    for base, test in product(["NLI", "MSMARCO"], FORUMS): assert t3(tables, base, "Base", "AskUbuntu", test).value == t3(tables, base, "Base", "SuperUser", test).value


def test_checksums(tables):
    "Sums of all values and of all spreads in hundredths, added up from the paper's own lines: a digit mistyped later changes them."
    sums = {n: (sum(round(100 * c.value) for c in t.cells), sum(round(100 * (c.std or 0)) for c in t.cells)) for n, t in tables.items()}
    assert sums == {"table2": (76652, 233), "table3": (414078, 7102)}


def test_what_the_text_says_of_table2(tables):
    v = lambda m, c: tables["table2"].cell(c, method=m).value
    iid, ood = ["Amazon131K (IID)", "AmazonCatRemoved (IID)"], ["Amazon1.3M (OOD)", "AmazonCatOOD (OOD)"]
    assert round(v("Finetuned", iid[1]) / v("Base", iid[1]), 2) == 1.94 and round(v("Finetuned", ood[1]) - v("Base", ood[1]), 2) == -2.30
    for c in iid: assert {m for m in METHODS[1:] if v(m, c) == min(v(x, c) for x in METHODS[1:])} == {"OutReg"}, "OutReg pays in distribution"
    for c in ood: assert max(METHODS, key=lambda m: v(m, c)) == "OutReg" and v("ITVReg", c) == max(v(m, c) for m in METHODS[1:] if m != "OutReg")


def test_what_the_text_says_of_table3(tables):
    gap = lambda base, train, test: round(t3(tables, base, "ITVReg", train, test).value - t3(tables, base, "OutReg", train, test).value, 2)
    assert (gap("NLI", "AskUbuntu", "SuperUser"), gap("NLI", "SuperUser", "AskUbuntu")) == (12.61, 10.48), "more than 10 points with the weak encoder"
    assert (gap("MSMARCO", "SuperUser", "AskUbuntu"), gap("MSMARCO", "AskUbuntu", "SuperUser")) == (-.68, -1.23), "comparable, and 1 point behind, with the strong one"
    for train in TRAIN:
        assert best(tables, "MSMARCO", train, "Quora") == "Base"
        assert best(tables, "MSMARCO", train, train) == "ITVReg" or t3(tables, "MSMARCO", "ITVReg", train, train).value == t3(tables, "MSMARCO", "OutReg", train, train).value
    assert best(tables, "NLI", "AskUbuntu", "SuperUser") == best(tables, "NLI", "SuperUser", "SuperUser") == "ITVReg"


def test_doubtful_numbers_say_why(tables):
    doubtful = [(n, c.row["method"], c.column) for n, t in tables.items() for c in t.cells if c.doubtful]
    assert doubtful == [("table2", m, "AmazonCatOOD (OOD)") for m in METHODS[1:]]
    assert all(c.note for t in tables.values() for c in t.cells if c.doubtful)


@pytest.mark.parametrize("old, new, words", [("value: 22.50", "value: 22,50", "cells.0.50"), ("value: 22.50", "valu: 22.50", "did you mean 'value'?"), ("value: 22.50", "value: .nan", "finite"),
    ("value: 22.50", "value: 2250", "is no percent"), ("std: 0.14", "std: -0.14", "greater than or equal to 0"), ("Amazon1.3M (OOD)", "Amazon131K (IID)", "stands twice"),
    ("tolerance: 1.0", "tolerance: 0", "greater than 0"), ("paper: itvreg", "paper: arr", "says it is arr"), ("metric: \"P@1\"\n", "metric: \"P@1\"\n    metric: \"P@1\"\n", "stands twice")])
def test_mistakes_in_the_file(tmp_path, old, new, words):
    text = (project_root() / "expected/itvreg.yaml").read_text("utf-8")
    assert old in text
    (tmp_path / "expected").mkdir(); (tmp_path / "expected/itvreg.yaml").write_text(text.replace(old, new), "utf-8")
    with pytest.raises(ConfigError, match="expected/itvreg.yaml") as e: load_expected("itvreg", tmp_path)
    assert words in str(e.value)


def test_row_keys_in_any_order():
    cells = [dict(row={"base": "A", "method": "M"}, column="c", value=1.), dict(row={"method": "M", "base": "A"}, column="c", value=2.)]
    with pytest.raises(ValueError, match="not made like"): ExpectedTable(caption="", metric="", unit="percent", tolerance=1., cells=cells)
