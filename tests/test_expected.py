"The numbers of the paper: shape, invariants, and relations that its text states."
from itertools import product

import pytest

from debias_nb.config import ConfigError, project_root
from debias_nb.data.registry import ExpectedTable, load_expected

METHODS = ["Base", "Finetuned", "MaskReg", "SimCSE", "OutReg", "ITVReg"]
FORUMS, TRAIN = ["AskUbuntu", "SuperUser", "Quora"], ["AskUbuntu", "SuperUser"]
CHECKSUMS = {"table1": (11767, 0), "table2": (76652, 233), "table3": (414078, 7102), "table4": (64408, 0), "table5": (142755, 2747), "table6": (46582, 0), "table7": (8525, 188), "table8": (93715, 374),
             "table11": (146229, 4361), "table12": (226712, 1772), "table13": (204453, 4354), "table14": (115559, 4371), "table15": (218077, 2138), "table16": (187927, 5117), "table17": (50704, 849)}


@pytest.fixture(scope="module")
def tables(): return load_expected("itvreg").tables


def t3(tables, base, method, train, test): return tables["table3"].cell(f"{train} -> {test}", base=base, method=method)
def best(tables, base, train, test): return max([*METHODS, "ITVAug"], key=lambda m: t3(tables, base, m, train, test).value)


def test_every_cell_is_there(tables):
    assert len(tables["table2"].cells) == 6 * 4 and len(tables["table3"].cells) == 2 * 7 * 6
    assert {c.row["method"] for c in tables["table2"].cells} == set(METHODS)
    for base, method, train, test in product(["NLI", "MSMARCO"], [*METHODS, "ITVAug"], TRAIN, FORUMS): t3(tables, base, method, train, test)
    rows, columns = {"table1": 2, "table4": 3, "table5": 6, "table6": 3, "table7": 7, "table8": 6, "table17": 12}, {"table1": 2, "table4": 3, "table5": 4, "table6": 3, "table7": 3, "table8": 5, "table17": 9}
    rows, columns = rows | {f"table{n}": 14 for n in range(11, 17)} | {"table2": 6, "table3": 14}, columns | {f"table{n}": 3 for n in range(11, 17)} | {"table2": 4, "table3": 6}
    assert list(tables) == [f"table{n}" for n in (*range(1, 9), *range(11, 18))], "all tables of numbers, in order; 9 and 10 are lists"
    for n, t in tables.items():
        assert (len({tuple(c.row.items()) for c in t.cells}), len({c.column for c in t.cells}), len(t.cells)) == (rows[n], columns[n], rows[n] * columns[n]), n


def test_spread_is_printed_for_trained_models_only(tables):
    for n, t in tables.items():
        for c in t.cells:
            if n in ("table7", "table17"): assert c.std is not None and (c.row["method"] != "Base" or c.std == 0), (n, c) # printed for Base as well, as .000
            else: assert (c.std is None) == (c.row["method"] == "Base" or n in ("table1", "table4", "table6")), (n, c)


def test_numbers_are_as_printed(tables):
    for n, t in tables.items():
        fraction = n in ("table7", "table17")
        assert (t.unit, t.decimals, t.tolerance) == (("fraction", 3, .01) if fraction else ("percent", 2, 1.))
        for c in t.cells:
            assert round(c.value or 0, t.decimals) == (c.value or 0) and round(c.std or 0, t.decimals) == (c.std or 0)
            assert c.value is None or (.09 < c.value < .92 if fraction else 10 < c.value < 90), (n, c)


def test_numbers_that_are_not_printed_say_so(tables):
    blank = [(n, c.row["base"], c.row["method"], c.column) for n, t in tables.items() for c in t.cells if c.value is None]
    assert blank == [("table11", "MSMARCO", "Base", "Quora -> SuperUser"), ("table16", "MSMARCO", "Base", "SuperUser -> SuperUser")]
    for n, base, method, column in blank: assert "blank" in tables[n].cell(column, base=base, method=method).note


def test_an_untrained_encoder_does_not_know_the_training_set(tables):
    for base, test in product(["NLI", "MSMARCO"], FORUMS):
        printed = {n: {c.value for c in t.cells if c.row.get("base") == base and c.row["method"] == "Base" and c.column.endswith(f"-> {test}")} - {None} for n, t in tables.items()}
        for n in ("table3", "table5", *(f"table{k}" for k in range(11, 17))): assert printed[n] <= {t3(tables, base, "Base", "AskUbuntu", test).value}, (n, test)
        assert all(len(v) <= 1 for v in printed.values())
        assert (abs(100 * min(printed["table17"]) - min(printed["table3"])) > .05) == ((base, test) == ("NLI", "SuperUser")), "the one difference that rounding does not explain"


def test_numbers_printed_twice_agree(tables):
    "Tables 15 and 16 repeat Table 3, Table 5 a part of it, Table 17 what Table 7 has at weight 0.1, Table 2 has Table 1."
    same = lambda a, b: (a.value, a.std) == (b.value, b.std)
    pairs = 0
    for n, train in (("table15", "AskUbuntu"), ("table16", "SuperUser")):
        for base, m, test in product(["NLI", "MSMARCO"], METHODS, FORUMS):
            again = tables[n].cell(f"{train} -> {test}", base=base, method="ITVReg (0.50)" if m == "ITVReg" else m)
            if again.value is not None: assert same(again, t3(tables, base, m, train, test)), again; pairs += 1
    for base, train, test in product(["NLI", "MSMARCO"], TRAIN, TRAIN):
        for row, m in (({"base": base, "method": "Base"}, "Base"), ({"base": base, "method": "MaskReg", "mask_share": "0.15"}, "MaskReg")): assert same(tables["table5"].cell(f"{train} -> {test}", **row), t3(tables, base, m, train, test)); pairs += 1
    for m, test in product(["Base", "ITVReg", "OutReg"], FORUMS):
        row = {"base": "MSMARCO", "method": m} | ({} if m == "Base" else {"weight": "0.1"})
        assert same(tables["table7"].cell(f"Quora -> {test}", **row), tables["table17"].cell(f"Quora -> {test}", base="MSMARCO", method=m)); pairs += 1
    for m, (a, b) in product(["Base", "Finetuned"], [("IID", "AmazonCatRemoved (IID)"), ("OOD", "AmazonCatOOD (OOD)")]): assert tables["table1"].cell(a, method=m).value == tables["table2"].cell(b, method=m).value; pairs += 1
    assert pairs == 71 + 16 + 9 + 4


def test_checksums(tables):
    "Sums of all values and of all spreads in the last printed digit, added up from the paper's own lines: a digit mistyped later changes them."
    sums = {n: (sum(round(10**t.decimals * (c.value or 0)) for c in t.cells), sum(round(10**t.decimals * (c.std or 0)) for c in t.cells)) for n, t in tables.items()}
    assert sums == CHECKSUMS


def test_lists_of_titles():
    lists = load_expected("itvreg").lists
    assert list(lists) == ["table9", "table10"] and all(list(x.rows) == ["Base", "Finetuned", "OutReg", "MaskReg", "SimCSE", "ITVReg"] for x in lists.values())
    assert all(len(titles) == 5 for x in lists.values() for titles in x.rows.values()) and all(x.notes for x in lists.values())
    assert lists["table9"].query == "Rowe USA Spoke Wrench - Bagged 09-0001" and lists["table9"].rows["ITVReg"][0] == "Wrench Set, Open End Metric 4mm-6mm - SCR-913.00"
    assert lists["table10"].rows["Finetuned"][0] == "3M Scotchlite Reflective Tape, Silver, 2-Inch by 36-Inch" and lists["table10"].rows["ITVReg"][4].startswith("Roadpro 12V Heater")


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
    parts = list(dict.fromkeys(c.column for c in tables["table8"].cells))
    assert doubtful == [("table1", "Finetuned", "OOD")] + [("table2", m, "AmazonCatOOD (OOD)") for m in METHODS[1:]] + [("table7", "ITVReg", f"Quora -> {t}") for t in ("Quora", "AskUbuntu", "SuperUser")] \
        + [("table8", m, part) for m in ("Finetuned", "OutReg", "MaskReg", "SimCSE", "ITVReg") for part in parts] + [("table17", "Base", f"{t} -> SuperUser") for t in ("Quora", "AskUbuntu", "SuperUser")]
    assert all(c.note for t in tables.values() for c in t.cells if c.doubtful)
    for m in METHODS[1:]: # and the doubt is there
        assert tables["table2"].cell("AmazonCatOOD (OOD)", method=m).value < min(tables["table8"].cell(p, method=m).value for p in parts)
    for test in FORUMS: assert tables["table7"].cell(f"Quora -> {test}", base="MSMARCO", method="ITVReg", weight="1.0").value == tables["table7"].cell(f"Quora -> {test}", base="MSMARCO", method="ITVReg", weight="0.1").value


MISTAKES = {"itvreg": [("value: 22.50", "value: 22,50", "cells.0.50"), ("value: 22.50", "valu: 22.50", "did you mean 'value'?"), ("value: 22.50", "value: .nan", "finite"),
    ("value: 22.50", "value: 2250", "is no percent"), ("std: 0.14", "std: -0.14", "greater than or equal to 0"), ("Amazon1.3M (OOD)", "Amazon131K (IID)", "stands twice"),
    ("tolerance: 1.0", "tolerance: 0", "greater than 0"), (", note: \"blank in the text of the paper; other tables print 80.73\"", "", "without a value it takes a note"), ("value: null", "std: 1.0", "required, and not there"),
    ("        - \"Road ID - Reflective Shoe Laces\"\n", "", "as many titles"), ("Road ID - Reflective Shoe Laces", "Sunlite 4 Piece Bicycle Reflector Set with Brackets", "a title stands twice"), ("paper: itvreg", "paper: arr", "says it is arr"), ("metric: \"P@1\"\n", "metric: \"P@1\"\n    metric: \"P@1\"\n", "stands twice")],
    "scan": [("value: 0.9164", "value: 9164", "is no fraction"), ("value: 0.9164", "value: 0,9164", "table2.cells.33"), ("value: null, quoted: true, note: \"a dash in the paper\"", "value: null, quoted: true", "without a value it takes a note"),
    ("{method: RE2}", "{model: RE2}", "not made like the others"), ("{method: RE2}", "{method: HyperQA}", "stands twice"), ("paper: scan", "paper: itvreg", "says it is itvreg")]}


@pytest.mark.parametrize("paper, old, new, words", [(paper, *mistake) for paper, mistakes in MISTAKES.items() for mistake in mistakes])
def test_mistakes_in_the_file(tmp_path, paper, old, new, words):
    text = (project_root() / f"expected/{paper}.yaml").read_text("utf-8")
    assert old in text
    (tmp_path / "expected").mkdir(); (tmp_path / f"expected/{paper}.yaml").write_text(text.replace(old, new), "utf-8")
    with pytest.raises(ConfigError, match=f"expected/{paper}.yaml") as e: load_expected(paper, tmp_path)
    assert words in str(e.value)


def test_row_keys_in_any_order():
    cells = [dict(row={"base": "A", "method": "M"}, column="c", value=1.), dict(row={"method": "M", "base": "A"}, column="c", value=2.)]
    with pytest.raises(ValueError, match="not made like"): ExpectedTable(caption="", metric="", unit="percent", tolerance=1., cells=cells)


def test_base_has_no_weight_and_trained_rows_have():
    cells = [dict(row={"base": "A", "method": "Base"}, column="c", value=1.), dict(row={"base": "A", "method": "M", "weight": "1.0"}, column="c", value=2.)]
    make = lambda cells: ExpectedTable(caption="", metric="", unit="percent", tolerance=1., cells=cells)
    assert len(make(cells).cells) == 2
    with pytest.raises(ValueError, match="not made like"): make([*cells, dict(row={"base": "A", "method": "N"}, column="c", value=1.)])
    with pytest.raises(ValueError, match="not made like"): make([*cells, dict(row={"method": "Base"}, column="c", value=1.)])
