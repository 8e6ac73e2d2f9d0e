"""The numbers of the papers: that all are there and as printed, which are blank, doubtful or quoted.
What the papers' texts say of them is recomputed by the claims and errata."""
import pytest

from debias_nb.checks import ConfigError
from debias_nb.files import project_root
from debias_nb.papers.pages.printed import load_expected

SHAPES = { # rows and columns of each table of numbers, in order; what it is printed in
    "itvreg": {
        "table1": (2, 2), "table2": (6, 4), "table3": (14, 6), "table4": (3, 3), "table5": (6, 4), "table6": (3, 3),
        "table7": (7, 3), "table8": (6, 5), "table11": (14, 3), "table12": (14, 3), "table13": (14, 3),
        "table14": (14, 3), "table15": (14, 3), "table16": (14, 3), "table17": (12, 9)},
    "arr": {"table1": (3, 9), "table2": (7, 6), "table3": (7, 4)},
    "scan": {"table1": (6, 3), "table2": (12, 3), "table3": (9, 3), "table4": (7, 6), "table5": (4, 6),
             "table6": (6, 3)},
}
PRINTED_IN = { # unit, decimals
    "itvreg": ("percent", 2), "arr": ("fraction", 3), "scan": ("fraction", 4),
}
OTHERWISE = {
    ("itvreg", "table7"): ("fraction", 3), ("itvreg", "table17"): ("fraction", 3),
    ("arr", "table1"): ("count", 0), ("scan", "table1"): ("count", 0),
}
RANGES = {"percent": (10, 90), "fraction": (.01, .98), "count": (0, 1e7)}

# sums of all values and of all spreads in the last printed digit, added up from the papers' own lines
CHECKSUMS = {
    "itvreg": {
        "table1": (11767, 0), "table2": (76652, 233), "table3": (414078, 7102), "table4": (64408, 0),
        "table5": (142755, 2747), "table6": (46582, 0), "table7": (8525, 188), "table8": (93715, 374),
        "table11": (146229, 4361), "table12": (226712, 1772), "table13": (204453, 4354), "table14": (115559, 4371),
        "table15": (218077, 2138), "table16": (187927, 5117), "table17": (50704, 849)},
    "arr": {"table1": (3862645, 0), "table2": (12125, 0), "table3": (11089, 0)},
    "scan": {
        "table1": (153162, 0), "table2": (253882, 0), "table3": (203252, 0), "table4": (248546, 0),
        "table5": (197155, 0), "table6": (158870, 0)},
}


def last_digits(numbers, decimals):
    return sum(round(10**decimals * (number or 0)) for number in numbers)


@pytest.mark.parametrize("paper", SHAPES)
def test_every_cell_is_there_as_printed(paper):
    "A digit mistyped later changes the checksums."
    tables = load_expected(paper).tables
    assert list(tables) == list(SHAPES[paper])
    for name, table in tables.items():
        rows = {tuple(cell.row.items()) for cell in table.cells}
        columns = {cell.column for cell in table.cells}
        assert (len(rows), len(columns)) == SHAPES[paper][name], name
        assert len(table.cells) == len(rows) * len(columns), name
        form = OTHERWISE.get((paper, name), PRINTED_IN[paper])
        assert (table.unit, table.decimals) == form, name
        low, high = RANGES[table.unit]
        for cell in table.cells:
            assert cell.value is None or low < cell.value < high, (name, cell)
            for number in (cell.value or 0, cell.std or 0):
                assert round(number, table.decimals) == number
            assert cell.note or not (cell.doubtful or cell.value is None)
        values = last_digits((cell.value for cell in table.cells), table.decimals)
        spreads = last_digits((cell.std for cell in table.cells), table.decimals)
        assert (values, spreads) == CHECKSUMS[paper][name], name


def test_doubtful_and_quoted_numbers_are_marked():
    doubtful = {paper: sum(cell.doubtful for table in load_expected(paper).tables.values() for cell in table.cells)
                for paper in SHAPES}
    assert doubtful == {"itvreg": 37, "arr": 5, "scan": 11}
    quotations = {"table2": ["RoBERTa", "SCAN"], "table3": ["SCAN"], "table4": ["RoBERTa", "TANDA", "SCAN"]}
    for name, table in load_expected("scan").tables.items():
        for cell in table.cells:
            assert cell.quoted == (name in quotations and cell.row["method"] not in quotations[name]), (name, cell)


MISTAKES = [ # paper, what stands there, what is mistyped, what the error names
    ("itvreg", "value: 22.50", "value: 22,50", "cells.0.50"),
    ("itvreg", "Amazon1.3M (OOD)", "Amazon131K (IID)", "occurs twice"),
    ("itvreg", "paper: itvreg", "paper: arr", "arr"),
]


@pytest.mark.parametrize("paper, old, new, words", MISTAKES)
def test_mistakes_in_the_file_are_named(tmp_path, monkeypatch, paper, old, new, words):
    file = f"experiments/printed/{paper}.yaml"
    text = (project_root() / file).read_text("utf-8")
    assert old in text
    (tmp_path / "experiments/printed").mkdir(parents=True)
    (tmp_path / file).write_text(text.replace(old, new), "utf-8")
    (tmp_path / "settings.ini").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=file) as error:
        load_expected(paper)
    assert words in str(error.value)
