"The numbers of the authorship paper: shape, invariants, and relations that its text states."
from itertools import product

import pytest

from debias_nb.data.registry import load_expected

PARTS, DATA = ["Training", "Cross-topic test", "In-distribution-topic test"], ["Amazon", "Reddit", "Fanfiction"]
METHODS = ["BOW", "TF-IDF", "Zero-shot", "MLL", "MLL + ARR", "CL", "CL + ARR"]
BASES = ("MLL", "CL")
RANKED = ["R@8", "MRR"]
COLUMNS = {
    "table1": [f"{part} {number}" for part in PARTS for number in ("samples", "authors", "topics")],
    "table2": [f"{data} {metric}" for data in DATA for metric in RANKED],
    "table3": [f"{data} {metric}" for data in DATA[:2] for metric in RANKED]}

# sums of all values in the last printed digit, added up from the paper's own lines
CHECKSUMS = {"table1": 3862645, "table2": 12125, "table3": 11089}


@pytest.fixture(scope="module")
def tables():
    return load_expected("arr").tables


@pytest.fixture(scope="module")
def value(tables):
    "Asks for the value of a method and a column in a table."
    return lambda table, method, column: tables[f"table{table}"].cell(column, method=method).value


@pytest.fixture(scope="module")
def gain(value):
    "Asks for what ARR adds to a base in a table."
    return lambda table, base, column: round(value(table, f"{base} + ARR", column) - value(table, base, column), 4)


def mean(values):
    return round(sum(values) / len(values), 5)


def all_cells(tables):
    return [(name, cell) for name, table in tables.items() for cell in table.cells]


def places(cells):
    return [(name, cell.row["method"], cell.column) for name, cell in cells]


def test_every_cell_is_there(tables):
    assert list(tables) == list(COLUMNS)
    for name, table in tables.items():
        how = ("count", 0, .5) if name == "table1" else ("fraction", 3, .02)
        assert (table.unit, table.decimals, table.tolerance) == how
        rows = [(cell.row["method"], cell.column) for cell in table.cells]
        assert rows == list(product(DATA if name == "table1" else METHODS, COLUMNS[name])), name
    assert [len(table.cells) for table in tables.values()] == [27, 42, 28]


def test_numbers_are_as_printed(tables):
    for name, cell in all_cells(tables):
        assert cell.std is None
        if cell.value is not None:
            assert name == "table1" or .01 < cell.value < .94, (name, cell)
            assert round(cell.value, tables[name].decimals) == cell.value, (name, cell)


def test_checksums(tables):
    "A digit mistyped later changes them."
    sums = {}
    for name, table in tables.items():
        sums[name] = sum(round(10**table.decimals * (cell.value or 0)) for cell in table.cells)
    assert sums == CHECKSUMS


def test_what_is_not_there(tables):
    blank = [(name, cell) for name, cell in all_cells(tables) if cell.value is None]
    missing = [f"{PARTS[2]} {number}" for number in ("samples", "authors", "topics")]
    assert places(blank) == [("table1", "Fanfiction", column) for column in missing]


def test_doubtful_numbers(tables):
    doubtful = [(name, cell) for name, cell in all_cells(tables) if cell.doubtful]
    assert places(doubtful) == [
        ("table1", "Amazon", "Cross-topic test authors"),
        ("table1", "Amazon", "In-distribution-topic test authors"),
        ("table1", "Reddit", "Cross-topic test authors"),
        ("table2", "MLL", "Fanfiction R@8"),
        ("table2", "MLL", "Fanfiction MRR")]


# ---- Table 1

def test_training_and_tests_have_one_pool_of_authors(value):
    for data in ("Amazon", "Reddit"):
        training = value(1, data, "Training authors")
        assert value(1, data, "Cross-topic test authors") == training, "said not to overlap"
    in_distribution = "In-distribution-topic test authors"
    assert value(1, "Amazon", in_distribution) == value(1, "Amazon", "Training authors")
    assert value(1, "Reddit", in_distribution) < value(1, "Reddit", "Training authors")

    samples = [value(1, "Amazon", f"{part} samples") for part in PARTS]
    assert sum(samples) == 1640155
    for count, share in zip(samples, (.8, .1, .1)):
        assert abs(count - share * 1640155) <= .5


def test_topics_and_samples_of_the_tests(value):
    in_distribution = f"{PARTS[2]} topics"
    assert value(1, "Amazon", in_distribution) == value(1, "Amazon", "Training topics") == 4
    assert value(1, "Reddit", in_distribution) < value(1, "Reddit", "Training topics")
    topics = [value(1, data, "Training topics") for data in DATA]
    assert topics == [4, 4849, 1200], "few topics for Amazon, many for the others, as the discussion says"

    assert value(1, "Fanfiction", "Cross-topic test samples") == 2 * 19999, "a set of pairs"
    samples = [value(1, data, f"{part} samples") for data in DATA for part in PARTS[1:]]
    most = max(count for count in samples if count)
    assert most == 206693, "at most about 207,000 samples in a test, says A.3"


# ---- Tables 2 and 3, as the text puts them

def test_arr_helps_in_four_of_six(gain):
    helped = []
    for base, data in product(BASES, DATA):
        by_recall, by_mrr = (gain(2, base, f"{data} {metric}") > 0 for metric in RANKED)
        assert by_recall == by_mrr
        if by_recall:
            helped.append((base, data))
    assert helped == [("MLL", "Amazon"), ("MLL", "Reddit"), ("MLL", "Fanfiction"), ("CL", "Amazon")]


def test_mean_gains_across_topics(gain):
    def mean_gains(*pairs):
        return [mean([gain(2, base, f"{data} {metric}") for base, data in pairs]) for metric in RANKED]

    assert mean_gains(("MLL", "Amazon"), ("CL", "Amazon")) == [.019, .0225]
    many_topics = mean_gains(("MLL", "Reddit"), ("MLL", "Fanfiction"))
    assert many_topics == [.0695, .0875], "the text cuts the second to 8.7 points"
    many_topics = mean_gains(("CL", "Reddit"), ("CL", "Fanfiction"))
    assert many_topics == [-.0145, -.01], "1.4 and 1 points in the text"


def test_losses_in_distribution(gain):
    def mean_losses(base):
        return [mean([-gain(3, base, f"{data} {metric}") for data in DATA[:2]]) for metric in RANKED]

    assert mean_losses("MLL") == [.012, .012]
    assert mean_losses("CL") == [.0105, .012]
    wrong = (gain(3, "CL", "Reddit R@8") - gain(3, "CL", "Amazon R@8")) / 2
    assert round(wrong, 5) == .0025, "the text's .25 points for CL: one of two losses with the wrong sign"
    for base, column in product(BASES, COLUMNS["table3"]):
        assert -.019 <= gain(3, base, column) <= -.005


def test_gains_are_larger_across_topics(gain):
    more = {}
    for base, column in product(BASES, COLUMNS["table3"]):
        more[base, column] = round(gain(2, base, column) - gain(3, base, column), 4)
    assert sum(difference > 0 for difference in more.values()) == 7
    assert [place for place, difference in more.items() if difference == 0] == [("CL", "Reddit MRR")]
    assert max(more.values()) == .05


def test_cl_is_the_stronger_base_but_on_amazon_across_topics(value):
    assert value(2, "MLL", "Amazon R@8") > value(2, "CL", "Amazon R@8")
    for data in DATA[1:]:
        assert value(2, "CL", f"{data} R@8") > value(2, "MLL", f"{data} R@8")
    for column in COLUMNS["table3"]:
        assert value(3, "CL", column) > value(3, "MLL", column)
    rising = [value(2, method, "Fanfiction R@8") for method in ("MLL + ARR", "TF-IDF", "BOW", "CL + ARR", "CL")]
    assert all(lower < higher for lower, higher in zip(rising, rising[1:]))
    assert value(2, "BOW", "Fanfiction MRR") > value(2, "CL + ARR", "Fanfiction MRR")


def test_mrr_against_recall(value):
    "A hit among the first eight adds 1 to R@8 and at least 1/8 to MRR."
    ratio = {}
    for table, columns in ((2, DATA), (3, DATA[:2])):
        for method, data in product(METHODS, columns):
            ratio[table, method, data] = value(table, method, f"{data} MRR") / value(table, method, f"{data} R@8")
    assert all(share >= 1 / 8 for share in ratio.values())
    odd = ratio.pop((2, "MLL", "Fanfiction"))
    assert odd < .14 and .6 < min(ratio.values()) and max(ratio.values()) < .95
