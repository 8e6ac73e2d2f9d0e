"The numbers of the paper: shape, invariants, and relations that its text states."
from itertools import product

import pytest

from debias_nb.config import ConfigError, project_root
from debias_nb.data.registry import ExpectedList, ExpectedTable, load_expected

METHODS = ["Base", "Finetuned", "MaskReg", "SimCSE", "OutReg", "ITVReg"]
TRAINED = METHODS[1:]
BASES = ["NLI", "MSMARCO"]
FORUMS, TRAIN = ["AskUbuntu", "SuperUser", "Quora"], ["AskUbuntu", "SuperUser"]
IN_FRACTIONS = ("table7", "table17")
WITHOUT_SPREAD = ("table1", "table4", "table6")

# how many rows and columns each table has; 9 and 10 are lists
SHAPES = {
    "table1": (2, 2), "table2": (6, 4), "table3": (14, 6), "table4": (3, 3), "table5": (6, 4), "table6": (3, 3),
    "table7": (7, 3), "table8": (6, 5), "table11": (14, 3), "table12": (14, 3), "table13": (14, 3), "table14": (14, 3),
    "table15": (14, 3), "table16": (14, 3), "table17": (12, 9)}

# sums of all values and of all spreads in the last printed digit, added up from the paper's own lines
CHECKSUMS = {
    "table1": (11767, 0), "table2": (76652, 233), "table3": (414078, 7102), "table4": (64408, 0),
    "table5": (142755, 2747), "table6": (46582, 0), "table7": (8525, 188), "table8": (93715, 374),
    "table11": (146229, 4361), "table12": (226712, 1772), "table13": (204453, 4354), "table14": (115559, 4371),
    "table15": (218077, 2138), "table16": (187927, 5117), "table17": (50704, 849)}


@pytest.fixture(scope="module")
def tables():
    return load_expected("itvreg").tables


def all_cells(tables):
    return [(name, cell) for name, table in tables.items() for cell in table.cells]


def table3(tables, base, method, train, test):
    return tables["table3"].cell(f"{train} -> {test}", base=base, method=method)


def best(tables, base, train, test):
    "The method with the highest value in Table 3."
    return max([*METHODS, "ITVAug"], key=lambda method: table3(tables, base, method, train, test).value)


def test_every_cell_is_there(tables):
    assert {cell.row["method"] for cell in tables["table2"].cells} == set(METHODS)
    for base, method, train, test in product(BASES, [*METHODS, "ITVAug"], TRAIN, FORUMS):
        assert table3(tables, base, method, train, test)
    assert list(tables) == list(SHAPES), "all tables of numbers, in order"
    for name, table in tables.items():
        rows = {tuple(cell.row.items()) for cell in table.cells}
        columns = {cell.column for cell in table.cells}
        assert (len(rows), len(columns)) == SHAPES[name], name
        assert len(table.cells) == len(rows) * len(columns), name


def test_spread_is_printed_for_trained_models_only(tables):
    for name, cell in all_cells(tables):
        untrained = cell.row["method"] == "Base"
        if name in IN_FRACTIONS: # printed for Base as well, as .000
            assert cell.std is not None and (not untrained or cell.std == 0), (name, cell)
        else:
            assert (cell.std is None) == (untrained or name in WITHOUT_SPREAD), (name, cell)


def test_numbers_are_as_printed(tables):
    for name, table in tables.items():
        fraction = name in IN_FRACTIONS
        how = ("fraction", 3, .01) if fraction else ("percent", 2, 1.)
        assert (table.unit, table.decimals, table.tolerance) == how
        low, high = (.09, .92) if fraction else (10, 90)
        for cell in table.cells:
            for number in (cell.value or 0, cell.std or 0):
                assert round(number, table.decimals) == number
            assert cell.value is None or low < cell.value < high, (name, cell)


def test_numbers_that_are_not_printed_say_so(tables):
    blank = [(name, cell) for name, cell in all_cells(tables) if cell.value is None]
    assert [(name, cell.row["base"], cell.row["method"], cell.column) for name, cell in blank] == [
        ("table11", "MSMARCO", "Base", "Quora -> SuperUser"), ("table16", "MSMARCO", "Base", "SuperUser -> SuperUser")]
    for name, cell in blank:
        assert "blank" in cell.note


def untrained_values(table, base, test):
    "What a table prints for an encoder without training, on one test."
    cells = [cell for cell in table.cells if cell.row.get("base") == base and cell.row["method"] == "Base"]
    return {cell.value for cell in cells if cell.column.endswith(f"-> {test}")} - {None}


def test_an_untrained_encoder_does_not_know_the_training_set(tables):
    for base, test in product(BASES, FORUMS):
        printed = {name: untrained_values(table, base, test) for name, table in tables.items()}
        value = table3(tables, base, "Base", "AskUbuntu", test).value
        for name in ("table3", "table5", *(f"table{number}" for number in range(11, 17))):
            assert printed[name] <= {value}, (name, test)
        assert all(len(values) <= 1 for values in printed.values())
        apart = abs(100 * min(printed["table17"]) - min(printed["table3"])) > .05
        assert apart == ((base, test) == ("NLI", "SuperUser")), "the one difference that rounding does not explain"


def numbers(cell):
    return cell.value, cell.std


def test_numbers_printed_twice_agree(tables):
    """Tables 15 and 16 repeat Table 3, Table 5 a part of it, Table 17 what Table 7 has at weight 0.1, Table 2 has
    Table 1."""
    compared = 0
    for name, train in (("table15", "AskUbuntu"), ("table16", "SuperUser")):
        for base, method, test in product(BASES, METHODS, FORUMS):
            here = "ITVReg (0.50)" if method == "ITVReg" else method
            again = tables[name].cell(f"{train} -> {test}", base=base, method=here)
            if again.value is not None:
                assert numbers(again) == numbers(table3(tables, base, method, train, test)), again
                compared += 1
    assert compared == 71

    for base, train, test in product(BASES, TRAIN, TRAIN):
        for method, row in (("Base", {}), ("MaskReg", {"mask_share": "0.15"})):
            again = tables["table5"].cell(f"{train} -> {test}", base=base, method=method, **row)
            assert numbers(again) == numbers(table3(tables, base, method, train, test))

    for method, test in product(["Base", "ITVReg", "OutReg"], FORUMS):
        weight = {} if method == "Base" else {"weight": "0.1"}
        once = tables["table7"].cell(f"Quora -> {test}", base="MSMARCO", method=method, **weight)
        again = tables["table17"].cell(f"Quora -> {test}", base="MSMARCO", method=method)
        assert numbers(once) == numbers(again)

    for method in ("Base", "Finetuned"):
        for short, long in (("IID", "AmazonCatRemoved (IID)"), ("OOD", "AmazonCatOOD (OOD)")):
            once, again = tables["table1"].cell(short, method=method), tables["table2"].cell(long, method=method)
            assert once.value == again.value


def last_digits(numbers, decimals):
    return sum(round(10**decimals * (number or 0)) for number in numbers)


def test_checksums(tables):
    "A digit mistyped later changes them."
    sums = {}
    for name, table in tables.items():
        values = last_digits((cell.value for cell in table.cells), table.decimals)
        spreads = last_digits((cell.std for cell in table.cells), table.decimals)
        sums[name] = values, spreads
    assert sums == CHECKSUMS


def test_lists_of_titles():
    lists = load_expected("itvreg").lists
    assert list(lists) == ["table9", "table10"]
    for titles in lists.values():
        assert list(titles.rows) == ["Base", "Finetuned", "OutReg", "MaskReg", "SimCSE", "ITVReg"]
        assert all(len(row) == 5 for row in titles.rows.values())
        assert titles.notes and titles.right == ("Base", "ITVReg"), "as the captions have it"
    assert [titles.about for titles in lists.values()] == ["wrench", "heater"]
    wrench, reflective = lists["table9"], lists["table10"]
    assert wrench.query == "Rowe USA Spoke Wrench - Bagged 09-0001"
    assert wrench.rows["ITVReg"][0] == "Wrench Set, Open End Metric 4mm-6mm - SCR-913.00"
    assert reflective.rows["Finetuned"][0] == "3M Scotchlite Reflective Tape, Silver, 2-Inch by 36-Inch"
    assert reflective.rows["ITVReg"][4].startswith("Roadpro 12V Heater")


def test_what_is_called_right_lists_something():
    with pytest.raises(ValueError, match="ITVReg: is called right, and lists nothing"):
        ExpectedList(caption="", query="", rows={"Base": ["Pipe wrench"]}, right=["ITVReg"])


def test_what_the_text_says_of_table2(tables):
    def of_column(column):
        return {method: tables["table2"].cell(column, method=method).value for method in METHODS}

    removed, ood = of_column("AmazonCatRemoved (IID)"), of_column("AmazonCatOOD (OOD)")
    assert round(removed["Finetuned"] / removed["Base"], 2) == 1.94
    assert round(ood["Finetuned"] - ood["Base"], 2) == -2.30

    for values in (of_column("Amazon131K (IID)"), removed):
        lowest = min(values[method] for method in TRAINED)
        assert [method for method in TRAINED if values[method] == lowest] == ["OutReg"], "it pays in distribution"
    for values in (of_column("Amazon1.3M (OOD)"), ood):
        assert max(METHODS, key=values.get) == "OutReg"
        assert values["ITVReg"] == max(values[method] for method in TRAINED if method != "OutReg")


def test_what_the_text_says_of_table3(tables):
    def gap(base, train, test):
        ours, theirs = (table3(tables, base, method, train, test).value for method in ("ITVReg", "OutReg"))
        return round(ours - theirs, 2)

    assert gap("NLI", "AskUbuntu", "SuperUser") == 12.61, "more than 10 points with the weak encoder"
    assert gap("NLI", "SuperUser", "AskUbuntu") == 10.48
    assert gap("MSMARCO", "SuperUser", "AskUbuntu") == -.68, "comparable with the strong one"
    assert gap("MSMARCO", "AskUbuntu", "SuperUser") == -1.23, "1 point behind"
    for train in TRAIN:
        assert best(tables, "MSMARCO", train, "Quora") == "Base"
        assert best(tables, "MSMARCO", train, train) == "ITVReg" or gap("MSMARCO", train, train) == 0
    assert best(tables, "NLI", "AskUbuntu", "SuperUser") == best(tables, "NLI", "SuperUser", "SuperUser") == "ITVReg"


def test_doubtful_numbers_say_why(tables):
    parts = list(dict.fromkeys(cell.column for cell in tables["table8"].cells))
    expected = [
        ("table1", "Finetuned", "OOD"),
        *(("table2", method, "AmazonCatOOD (OOD)") for method in TRAINED),
        *(("table7", "ITVReg", f"Quora -> {test}") for test in ("Quora", "AskUbuntu", "SuperUser")),
        *product(["table8"], ["Finetuned", "OutReg", "MaskReg", "SimCSE", "ITVReg"], parts),
        *(("table17", "Base", f"{train} -> SuperUser") for train in ("Quora", "AskUbuntu", "SuperUser"))]
    doubtful = [(name, cell) for name, cell in all_cells(tables) if cell.doubtful]
    assert [(name, cell.row["method"], cell.column) for name, cell in doubtful] == expected
    assert all(cell.note for _, cell in doubtful)

    for method in TRAINED:
        least = min(tables["table8"].cell(part, method=method).value for part in parts)
        assert tables["table2"].cell("AmazonCatOOD (OOD)", method=method).value < least, "the doubt is there"
    row = {"base": "MSMARCO", "method": "ITVReg"}
    for test in FORUMS:
        column = f"Quora -> {test}"
        heavy, light = (tables["table7"].cell(column, **row, weight=weight) for weight in ("1.0", "0.1"))
        assert heavy.value == light.value


NOTE = ', note: "blank in the text of the paper; other tables print 80.73"'
SHOES = "Road ID - Reflective Shoe Laces"
BRACKETS = "Sunlite 4 Piece Bicycle Reflector Set with Brackets"
DASH = 'value: null, quoted: true, note: "a dash in the paper"'
METRIC = 'metric: "P@1"\n'
MISTAKES = [
    ("itvreg", "value: 22.50", "value: 22,50", "cells.0.50"),
    ("itvreg", "value: 22.50", "valu: 22.50", "did you mean 'value'?"),
    ("itvreg", "value: 22.50", "value: .nan", "finite"),
    ("itvreg", "value: 22.50", "value: 2250", "is no percent"),
    ("itvreg", "std: 0.14", "std: -0.14", "greater than or equal to 0"),
    ("itvreg", "Amazon1.3M (OOD)", "Amazon131K (IID)", "stands twice"),
    ("itvreg", "tolerance: 1.0", "tolerance: 0", "greater than 0"),
    ("itvreg", NOTE, "", "without a value it takes a note"),
    ("itvreg", "value: null", "std: 1.0", "required, and not there"),
    ("itvreg", f'        - "{SHOES}"\n', "", "as many titles"),
    ("itvreg", SHOES, BRACKETS, "a title stands twice"),
    ("itvreg", "paper: itvreg", "paper: arr", "says it is arr"),
    ("itvreg", METRIC, METRIC + "    " + METRIC, "stands twice"),
    ("scan", "value: 0.9164", "value: 9164", "is no fraction"),
    ("scan", "value: 0.9164", "value: 0,9164", "table2.cells.33"),
    ("scan", DASH, "value: null, quoted: true", "without a value it takes a note"),
    ("scan", "{method: RE2}", "{model: RE2}", "not made like the others"),
    ("scan", "{method: RE2}", "{method: HyperQA}", "stands twice"),
    ("scan", "paper: scan", "paper: itvreg", "says it is itvreg"),
]


@pytest.mark.parametrize("paper, old, new, words", MISTAKES)
def test_mistakes_in_the_file_are_named(tmp_path, paper, old, new, words):
    file = f"expected/{paper}.yaml"
    text = (project_root() / file).read_text("utf-8")
    assert old in text
    (tmp_path / "expected").mkdir()
    (tmp_path / file).write_text(text.replace(old, new), "utf-8")
    with pytest.raises(ConfigError, match=file) as error:
        load_expected(paper, tmp_path)
    assert words in str(error.value)


def table_of(*rows):
    "A table of one column, in which every row has a value."
    cells = [{"row": row, "column": "c", "value": 1. + i} for i, row in enumerate(rows)]
    return ExpectedTable(caption="", metric="", unit="percent", tolerance=1., cells=cells)


def test_row_keys_have_one_order():
    with pytest.raises(ValueError, match="not made like"):
        table_of({"base": "A", "method": "M"}, {"method": "M", "base": "A"})


def test_base_has_no_weight_and_trained_rows_have():
    rows = [{"base": "A", "method": "Base"}, {"base": "A", "method": "M", "weight": "1.0"}]
    assert len(table_of(*rows).cells) == 2
    with pytest.raises(ValueError, match="not made like"):
        table_of(*rows, {"base": "A", "method": "N"})
    with pytest.raises(ValueError, match="not made like"):
        table_of(*rows, {"method": "Base"})
