"The numbers of the authorship paper: shape, invariants, and relations that its text states."
from itertools import product

import pytest

from debias_nb.data.registry import load_expected

PARTS, DATA = ["Training", "Cross-topic test", "In-distribution-topic test"], ["Amazon", "Reddit", "Fanfiction"]
METHODS = ["BOW", "TF-IDF", "Zero-shot", "MLL", "MLL + ARR", "CL", "CL + ARR"]
RANKED = ["R@8", "MRR"]
COLUMNS = {"table1": [f"{p} {n}" for p in PARTS for n in ("samples", "authors", "topics")], "table2": [f"{d} {m}" for d in DATA for m in RANKED], "table3": [f"{d} {m}" for d in DATA[:2] for m in RANKED]}
CHECKSUMS = {"table1": 3862645, "table2": 12125, "table3": 11089}


@pytest.fixture(scope="module")
def tables(): return load_expected("arr").tables


@pytest.fixture(scope="module")
def v(tables): return lambda n, method, column: tables[f"table{n}"].cell(column, method=method).value


@pytest.fixture(scope="module")
def gain(v): return lambda n, base, column: round(v(n, f"{base} + ARR", column) - v(n, base, column), 4)


def mean(values): return round(sum(values) / len(values), 5)


def test_every_cell_is_there(tables):
    assert list(tables) == list(COLUMNS) and all((t.unit, t.decimals, t.tolerance) == (("count", 0, .5) if n == "table1" else ("fraction", 3, .02)) for n, t in tables.items())
    for n, t in tables.items(): assert [(c.row["method"], c.column) for c in t.cells] == list(product(DATA if n == "table1" else METHODS, COLUMNS[n])), n
    assert [len(t.cells) for t in tables.values()] == [27, 42, 28]


def test_numbers_are_as_printed(tables):
    for n, t in tables.items():
        for c in t.cells: assert c.std is None and (c.value is None or round(c.value, t.decimals) == c.value and (n == "table1" or .01 < c.value < .94)), (n, c)


def test_checksums(tables):
    "Sums of all values in the last printed digit, added up from the paper's own lines: a digit mistyped later changes them."
    assert {n: sum(round(10**t.decimals * (c.value or 0)) for c in t.cells) for n, t in tables.items()} == CHECKSUMS


def test_what_is_not_there_says_why(tables):
    blank = [(n, c.row["method"], c.column) for n, t in tables.items() for c in t.cells if c.value is None]
    assert blank == [("table1", "Fanfiction", f"{PARTS[2]} {n}") for n in ("samples", "authors", "topics")]


def test_doubtful_numbers_say_why(tables):
    doubtful = [(n, c.row["method"], c.column) for n, t in tables.items() for c in t.cells if c.doubtful]
    assert doubtful == [("table1", "Amazon", "Cross-topic test authors"), ("table1", "Amazon", "In-distribution-topic test authors"), ("table1", "Reddit", "Cross-topic test authors"), ("table2", "MLL", "Fanfiction R@8"), ("table2", "MLL", "Fanfiction MRR")]


# ---- Table 1

def test_one_pool_of_authors(v):
    for d in ("Amazon", "Reddit"): assert v(1, d, "Cross-topic test authors") == v(1, d, "Training authors"), "said not to overlap"
    assert v(1, "Amazon", "In-distribution-topic test authors") == v(1, "Amazon", "Training authors") and v(1, "Reddit", "In-distribution-topic test authors") < v(1, "Reddit", "Training authors")
    samples = [v(1, "Amazon", f"{p} samples") for p in PARTS]
    assert sum(samples) == 1640155 and all(abs(s - share * 1640155) <= .5 for s, share in zip(samples, (.8, .1, .1)))


def test_topics_of_the_tests(v):
    assert v(1, "Amazon", f"{PARTS[2]} topics") == v(1, "Amazon", "Training topics") == 4 and v(1, "Reddit", f"{PARTS[2]} topics") < v(1, "Reddit", "Training topics")
    assert [v(1, d, "Training topics") for d in DATA] == [4, 4849, 1200], "few topics for Amazon, many for the others, as the discussion says"
    assert v(1, "Fanfiction", "Cross-topic test samples") == 2 * 19999, "a set of pairs"
    assert max(v(1, d, f"{p} samples") for d in DATA for p in PARTS[1:] if v(1, d, f"{p} samples")) == 206693, "at most about 207,000 samples in a test, says A.3"


# ---- Tables 2 and 3, as the text puts them

def test_four_of_six(gain):
    signs = {(b, d): [gain(2, b, f"{d} {m}") > 0 for m in RANKED] for b in ("MLL", "CL") for d in DATA}
    assert [k for k, s in signs.items() if all(s)] == [("MLL", "Amazon"), ("MLL", "Reddit"), ("MLL", "Fanfiction"), ("CL", "Amazon")] and all(s[0] == s[1] for s in signs.values())


def test_mean_gains_across_topics(gain):
    of = lambda pairs: [mean([gain(2, b, f"{d} {m}") for b, d in pairs]) for m in RANKED]
    assert of([("MLL", "Amazon"), ("CL", "Amazon")]) == [.019, .0225]
    assert of([("MLL", "Reddit"), ("MLL", "Fanfiction")]) == [.0695, .0875], "the text cuts the second to 8.7 points"
    assert of([("CL", "Reddit"), ("CL", "Fanfiction")]) == [-.0145, -.01], "1.4 and 1 points in the text"


def test_losses_in_distribution(gain):
    losses = {b: [mean([-gain(3, b, f"{d} {m}") for d in DATA[:2]]) for m in RANKED] for b in ("MLL", "CL")}
    assert losses == {"MLL": [.012, .012], "CL": [.0105, .012]}
    wrong = (gain(3, "CL", "Reddit R@8") - gain(3, "CL", "Amazon R@8")) / 2
    assert round(wrong, 5) == .0025, "the text's .25 points for CL: one of two losses with the wrong sign"
    cells = [gain(3, b, c) for b in ("MLL", "CL") for c in COLUMNS["table3"]]
    assert all(-.019 <= g <= -.005 for g in cells)


def test_gains_are_larger_across_topics(gain):
    more = {(b, c): round(gain(2, b, c) - gain(3, b, c), 4) for b in ("MLL", "CL") for c in COLUMNS["table3"]}
    assert sum(g > 0 for g in more.values()) == 7 and [k for k, g in more.items() if g == 0] == [("CL", "Reddit MRR")] and max(more.values()) == .05


def test_bases(v):
    assert v(2, "MLL", "Amazon R@8") > v(2, "CL", "Amazon R@8") and all(v(2, "CL", f"{d} R@8") > v(2, "MLL", f"{d} R@8") for d in DATA[1:]) and all(v(3, "CL", c) > v(3, "MLL", c) for c in COLUMNS["table3"])
    assert v(2, "MLL + ARR", "Fanfiction R@8") < v(2, "TF-IDF", "Fanfiction R@8") < v(2, "BOW", "Fanfiction R@8") < v(2, "CL + ARR", "Fanfiction R@8") < v(2, "CL", "Fanfiction R@8")
    assert v(2, "BOW", "Fanfiction MRR") > v(2, "CL + ARR", "Fanfiction MRR")


def test_mrr_against_recall(v):
    "A hit among the first eight adds 1 to R@8 and at least 1/8 to MRR."
    ratio = {(n, m, d): v(n, m, f"{d} MRR") / v(n, m, f"{d} R@8") for n, ds in ((2, DATA), (3, DATA[:2])) for m in METHODS for d in ds}
    assert all(r >= 1 / 8 for r in ratio.values())
    odd = ratio.pop((2, "MLL", "Fanfiction"))
    assert odd < .14 and .6 < min(ratio.values()) and max(ratio.values()) < .95
