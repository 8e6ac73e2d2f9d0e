"The numbers of the answer-selection paper: shape, invariants, and relations that its text states."
from itertools import product

import pytest

from debias_nb.data.answers import SOURCES
from debias_nb.data.registry import load_expected

DATA = ("WikiQA", "SelQA", "ANTIQUE")
RANKED = ["MAP", "MRR", "P@1"]
GRADED = ["nDCG@1", "nDCG@3", "nDCG@10"]
COLUMNS = {
    "table1": ["Train", "Dev", "Test"],
    "table2": RANKED,
    "table3": RANKED,
    "table4": [*RANKED, *GRADED],
    "table5": [f"{data} {metric}" for data in ("WikiQA", "ANTIQUE") for metric in RANKED],
    "table6": RANKED}
METHODS = {
    "table1": [f"{data} {number}" for data in DATA for number in ("#Q", "#A")],
    "table2": [
        "HyperQA", "RE2", "Comp-Agg", "Comp-Agg (QNLI)", "BERT", "RoBERTa", "TANDA", "TANDA-re", "ASR", "DAR",
        "DAR-DRP", "SCAN"],
    "table3": ["CNN-DAN", "CNN-hinge", "ACNN", "AdaQA", "DRCN", "TANDA-re", "ASR", "DAR", "SCAN"],
    "table4": ["aNMM", "BERT", "RoBERTa", "BERT-CL", "BERT-BiG", "TANDA", "SCAN"],
    "table5": ["SCAN", "w/o FD", "w/o LD", "w/o FD+LD"],
    "table6": ["TANDA", "TANDA-Perturb", "TANDA-Noise", "SCAN", "SCAN-Perturb", "SCAN-Noise"]}
CHANGES = ("Perturb", "Noise")

# sums of all values in the last printed digit, added up from the paper's own lines
CHECKSUMS = {
    "table1": 153162, "table2": 253882, "table3": 203252, "table4": 248546, "table5": 197155, "table6": 158870}


@pytest.fixture(scope="module")
def tables():
    return load_expected("scan").tables


@pytest.fixture(scope="module")
def value(tables):
    "Asks for the value of a method and a column in a table."
    return lambda table, method, column: tables[f"table{table}"].cell(column, method=method).value


def all_cells(tables):
    return [(name, cell) for name, table in tables.items() for cell in table.cells]


def places(cells):
    return [(name, cell.row["method"], cell.column) for name, cell in cells]


def gap(a, b):
    return round(a - b, 4)


def counts(share, n):
    "Which counts of `n` are printed as the share."
    return [count for count in range(n + 1) if round(count / n, 4) == share]


def test_every_cell_is_there(tables):
    assert list(tables) == list(COLUMNS)
    for name, table in tables.items():
        how = ("count", 0, .5) if name == "table1" else ("fraction", 4, .01)
        assert (table.unit, table.decimals, table.tolerance) == how
        rows = [(cell.row["method"], cell.column) for cell in table.cells]
        assert rows == list(product(METHODS[name], COLUMNS[name])), name
    assert len(all_cells(tables)) == 18 + 147


def test_numbers_are_as_printed(tables):
    for name, cell in all_cells(tables):
        assert cell.std is None
        if cell.value is not None:
            assert name == "table1" or .25 < cell.value < .98, (name, cell)
            assert round(cell.value, tables[name].decimals) == cell.value, (name, cell)


def test_dashes_say_so(tables):
    blank = [(name, cell) for name, cell in all_cells(tables) if cell.value is None]
    assert places(blank) == [
        *(("table2", method, "P@1") for method in (*METHODS["table2"][:5], "TANDA")),
        *(("table3", method, "P@1") for method in METHODS["table3"][:5]),
        *(("table4", "BERT-CL", column) for column in ("MAP", *GRADED)),
        ("table4", "BERT-BiG", "MAP")]
    assert all("dash" in cell.note for _, cell in blank)


def test_what_is_quoted_is_marked(tables):
    "Marked in the captions as retrieved from earlier work."
    own = {"table2": ["RoBERTa", "SCAN"], "table3": ["SCAN"], "table4": ["RoBERTa", "TANDA", "SCAN"]}
    for name, cell in all_cells(tables):
        assert cell.quoted == (name in own and cell.row["method"] not in own[name]), (name, cell)


def test_checksums(tables):
    "A digit mistyped later changes them."
    sums = {}
    for name, table in tables.items():
        sums[name] = sum(round(10**table.decimals * (cell.value or 0)) for cell in table.cells)
    assert sums == CHECKSUMS


def test_numbers_printed_twice_agree(value):
    for metric in RANKED:
        wikiqa, antique = f"WikiQA {metric}", f"ANTIQUE {metric}"
        assert value(2, "SCAN", metric) == value(5, "SCAN", wikiqa) == value(6, "SCAN", metric)
        assert value(4, "SCAN", metric) == value(5, "SCAN", antique)
        assert value(5, "w/o FD+LD", wikiqa) == value(6, "TANDA", metric), "without both modules it is TANDA"
        assert value(5, "w/o FD+LD", antique) == value(4, "TANDA", metric)


def test_table_1_is_what_the_data_notebook_checks_files_against(value):
    printed = {}
    for data in DATA:
        parts = {}
        for part in ("Train", "Dev", "Test"):
            parts[part.lower()] = value(1, f"{data} #Q", part), value(1, f"{data} #A", part)
        printed[data.lower()] = parts
    assert printed == {name: source.paper for name, source in SOURCES.items() if source.paper}


def test_no_rank_measure_contradicts_another(tables):
    "The first place counts once in MRR too, and MRR is never below MAP where a question may have several answers."
    for name in ("table2", "table3", "table4", "table5", "table6"):
        prefixes = ["WikiQA ", "ANTIQUE "] if name == "table5" else [""]
        for method, prefix in product(METHODS[name], prefixes):
            ap, rr, first = (tables[name].cell(prefix + metric, method=method).value for metric in RANKED)
            assert (ap or 0) <= rr, (name, method)
            assert (first or 0) <= rr <= ((first or 1) + 1) / 2 + 5e-5, (name, method)


# ---- what the text says

@pytest.mark.parametrize("number", [2, 3, 4])
def test_scan_is_first_everywhere(tables, number):
    name = f"table{number}"
    for column in COLUMNS[name]:
        printed = [cell for cell in tables[name].cells if cell.column == column and cell.value is not None]
        assert max(printed, key=lambda cell: cell.value).row["method"] == "SCAN"


def test_gains_of_scan(value):
    assert [gap(value(2, "SCAN", metric), value(2, "DAR-DRP", metric)) for metric in RANKED] == [.0113, .0117, .0216]
    assert [gap(value(3, "SCAN", metric), value(3, "DAR", metric)) for metric in RANKED] == [.0049, .0048, .0069]
    assert gap(value(4, "SCAN", "P@1"), value(4, "TANDA", "P@1")) == .06, "6 % in P@1, as the text says"
    assert gap(value(4, "SCAN", "MRR"), value(4, "TANDA", "MRR")) == .0379, "the text says 3.97 %"


def test_each_module_helps_alone_and_both_help_more(value):
    def lost(module):
        return [gap(value(5, "SCAN", column), value(5, f"w/o {module}", column)) for column in COLUMNS["table5"]]

    fd, ld, both = lost("FD"), lost("LD"), lost("FD+LD")
    assert fd == [.0160, .0133, .0253, .0055, .0238, .0450]
    assert ld == [.0153, .0137, .0253, .0119, .0213, .0350]
    assert both == [.0221, .0218, .0422, .0211, .0379, .0600]
    assert all(0 < max(a, b) < c for a, b, c in zip(fd, ld, both))
    assert fd[0] + ld[0] > both[0]
    assert fd[3] + ld[3] < both[3]
    assert fd[5] + ld[5] > both[5]


def test_scan_is_robust_in_level_not_in_loss(value):
    def lost(method, change):
        return [gap(value(6, method, metric), value(6, f"{method}-{change}", metric)) for metric in RANKED]

    assert lost("TANDA", "Perturb") == [.0045, .0044, .0084]
    assert lost("TANDA", "Noise") == [.0203, .0192, .0295]
    assert lost("SCAN", "Perturb") == [.0053, .0053, .0084]
    assert lost("SCAN", "Noise") == [.0257, .0226, .0337]
    for change, metric in product(CHANGES, RANKED):
        assert value(6, f"SCAN-{change}", metric) > value(6, f"TANDA-{change}", metric)

    more = [ours - theirs for change in CHANGES for ours, theirs in zip(lost("SCAN", change), lost("TANDA", change))]
    assert sum(difference > 0 for difference in more) == 5, "SCAN loses more in five of six cells"
    assert sum(difference == 0 for difference in more) == 1, "as much in one"
    assert value(6, "SCAN-Noise", "MAP") < value(6, "TANDA", "MAP") < value(6, "SCAN-Perturb", "MAP")


# ---- what the numbers themselves say

def test_first_places_are_counts_of_questions(value):
    wikiqa = [
        value(2, "RoBERTa", "P@1"), value(2, "SCAN", "P@1"),
        *(value(5, method, "WikiQA P@1") for method in METHODS["table5"]),
        *(value(6, method, "P@1") for method in METHODS["table6"])]
    selqa = [value(3, method, "P@1") for method in METHODS["table3"][5:]]
    antique = [
        *(value(4, method, "P@1") for method in METHODS["table4"][2:]),
        *(value(5, method, "ANTIQUE P@1") for method in METHODS["table5"])]
    for questions, shares in ((237, wikiqa), (1590, selqa), (200, antique)):
        assert all(len(counts(share, questions)) == 1 for share in shares)

    earlier = {"TANDA-re": 199, "ASR": 205, "DAR": 207, "DAR-DRP": 208}
    for method, count in earlier.items():
        share = value(2, method, "P@1")
        assert counts(share, 243) == [count] and not counts(share, 237)
    assert not counts(value(4, "aNMM", "P@1"), 200)
    assert not counts(value(4, "BERT", "P@1"), 200)
    assert counts(value(5, "w/o FD", "WikiQA P@1"), 237) == counts(value(5, "w/o LD", "WikiQA P@1"), 237) == [202]


def test_ndcg_at_1_has_linear_gains(value):
    """Every question has a passage of grade 4, so nDCG@1 is a mean of (grade - 1) / 3 over 200 questions: a multiple of
    1/600. Exponential gains would make it one of 1/1400."""
    own = {"RoBERTa": 401, "BERT-BiG": 450, "TANDA": 430, "SCAN": 453}
    for method, count in own.items():
        assert counts(value(4, method, "nDCG@1"), 600) == [count]
    for method in ("RoBERTa", "TANDA"):
        assert not counts(value(4, method, "nDCG@1"), 1400)
    for method in ("aNMM", "BERT"):
        assert not counts(value(4, method, "nDCG@1"), 600)


def test_doubtful_numbers_say_why(tables, value):
    doubtful = [(name, cell) for name, cell in all_cells(tables) if cell.doubtful]
    assert places(doubtful) == [
        ("table2", "TANDA", "MAP"), ("table2", "TANDA", "MRR"),
        *(("table2", "TANDA-re", column) for column in RANKED),
        *(("table2", method, "P@1") for method in ("ASR", "DAR", "DAR-DRP")),
        ("table4", "aNMM", "P@1"), ("table4", "BERT", "MAP"), ("table4", "BERT", "P@1")]
    for method, metric in product(("TANDA", "TANDA-re"), ("MAP", "MRR")):
        assert value(2, method, metric) < value(6, "TANDA", metric), "the strongest TANDA is not in Table 2"

    printed = [(name, cell) for name, cell in all_cells(tables) if name != "table1" and cell.value is not None]
    noted = [(name, cell) for name, cell in printed if cell.note and not cell.doubtful]
    assert places(noted) == [
        *product(["table2"], ("ASR", "DAR", "DAR-DRP"), ("MAP", "MRR")),
        *(("table4", "aNMM", column) for column in ("MAP", "MRR", *GRADED)),
        *(("table4", "BERT", column) for column in ("MRR", *GRADED)),
        ("table4", "TANDA", "MRR"), ("table4", "SCAN", "MRR"),
        *(("table5", "w/o FD+LD", f"WikiQA {column}") for column in RANKED),
        *(("table6", "TANDA", column) for column in RANKED)]
