"The numbers of the answer-selection paper: shape, invariants, and relations that its text states."
from itertools import product

import pytest

from debias_nb.data.registry import load_expected

RANKED = ["MAP", "MRR", "P@1"]
COLUMNS = {"table1": ["Train", "Dev", "Test"], "table2": RANKED, "table3": RANKED, "table4": [*RANKED, "nDCG@1", "nDCG@3", "nDCG@10"], "table5": [f"{d} {m}" for d in ("WikiQA", "ANTIQUE") for m in RANKED], "table6": RANKED}
METHODS = {"table1": [f"{d} {n}" for d in ("WikiQA", "SelQA", "ANTIQUE") for n in ("#Q", "#A")], "table2": ["HyperQA", "RE2", "Comp-Agg", "Comp-Agg (QNLI)", "BERT", "RoBERTa", "TANDA", "TANDA-re", "ASR", "DAR", "DAR-DRP", "SCAN"],
           "table3": ["CNN-DAN", "CNN-hinge", "ACNN", "AdaQA", "DRCN", "TANDA-re", "ASR", "DAR", "SCAN"], "table4": ["aNMM", "BERT", "RoBERTa", "BERT-CL", "BERT-BiG", "TANDA", "SCAN"],
           "table5": ["SCAN", "w/o FD", "w/o LD", "w/o FD+LD"], "table6": ["TANDA", "TANDA-Perturb", "TANDA-Noise", "SCAN", "SCAN-Perturb", "SCAN-Noise"]}
CHECKSUMS = {"table1": 153162, "table2": 253882, "table3": 203252, "table4": 248546, "table5": 197155, "table6": 158870}


@pytest.fixture(scope="module")
def tables(): return load_expected("scan").tables


@pytest.fixture(scope="module")
def v(tables): return lambda n, method, column: tables[f"table{n}"].cell(column, method=method).value


def gap(a, b): return round(a - b, 4)
def counts(value, n): return [k for k in range(n + 1) if round(k / n, 4) == value]


def test_every_cell_is_there(tables):
    assert list(tables) == list(COLUMNS) and all((t.unit, t.decimals, t.tolerance) == (("count", 0, .5) if n == "table1" else ("fraction", 4, .01)) for n, t in tables.items())
    for n, t in tables.items(): assert [(c.row["method"], c.column) for c in t.cells] == list(product(METHODS[n], COLUMNS[n])), n
    assert sum(len(t.cells) for t in tables.values()) == 18 + 147


def test_numbers_are_as_printed(tables):
    for n, t in tables.items():
        for c in t.cells: assert c.std is None and (c.value is None or (.25 < c.value < .98 or n == "table1") and round(c.value, t.decimals) == c.value), (n, c)


def test_dashes(tables):
    blank = [(n, c.row["method"], c.column) for n, t in tables.items() for c in t.cells if c.value is None]
    assert blank == [("table2", m, "P@1") for m in (*METHODS["table2"][:5], "TANDA")] + [("table3", m, "P@1") for m in METHODS["table3"][:5]] \
        + [("table4", "BERT-CL", c) for c in ("MAP", "nDCG@1", "nDCG@3", "nDCG@10")] + [("table4", "BERT-BiG", "MAP")]
    assert all("dash" in tables[n].cell(c, method=m).note for n, m, c in blank)


def test_what_is_quoted(tables):
    "Marked in the captions as retrieved from earlier work."
    own = {"table2": ["RoBERTa", "SCAN"], "table3": ["SCAN"], "table4": ["RoBERTa", "TANDA", "SCAN"]}
    for n, t in tables.items():
        for c in t.cells: assert c.quoted == (n in own and c.row["method"] not in own[n]), (n, c)


def test_checksums(tables):
    "Sums of all values in the last printed digit, added up from the paper's own lines: a digit mistyped later changes them."
    assert {n: sum(round(10**t.decimals * (c.value or 0)) for c in t.cells) for n, t in tables.items()} == CHECKSUMS


def test_numbers_printed_twice_agree(v):
    for m in RANKED:
        assert v(2, "SCAN", m) == v(5, "SCAN", f"WikiQA {m}") == v(6, "SCAN", m) and v(4, "SCAN", m) == v(5, "SCAN", f"ANTIQUE {m}")
        assert v(5, "w/o FD+LD", f"WikiQA {m}") == v(6, "TANDA", m) and v(5, "w/o FD+LD", f"ANTIQUE {m}") == v(4, "TANDA", m), "without both modules it is TANDA"


def test_table_1_is_what_the_data_notebook_checks_files_against(tables):
    from debias_nb.data.answers import SOURCES
    printed = {d.lower(): {p.lower(): tuple(tables["table1"].cell(p, method=f"{d} {n}").value for n in ("#Q", "#A")) for p in ("Train", "Dev", "Test")} for d in ("WikiQA", "SelQA", "ANTIQUE")}
    assert printed == {n: s.paper for n, s in SOURCES.items() if s.paper}


def test_no_rank_measure_contradicts_another(tables):
    "The first place counts once in MRR too, and MRR is never below MAP where a question may have several answers."
    for n, t in list(tables.items())[1:]:
        for m, prefix in product(METHODS[n], ["WikiQA ", "ANTIQUE "] if n == "table5" else [""]):
            ap, rr, p1 = (t.cell(prefix + c, method=m).value for c in RANKED)
            assert (ap or 0) <= rr and (p1 or 0) <= rr <= ((p1 or 1) + 1) / 2 + 5e-5, (n, m)


# ---- what the text says

@pytest.mark.parametrize("n", [2, 3, 4])
def test_scan_is_first_everywhere(tables, n):
    for c in COLUMNS[f"table{n}"]: assert max((x for x in tables[f"table{n}"].cells if x.column == c and x.value is not None), key=lambda x: x.value).row["method"] == "SCAN"


def test_gains(v):
    assert [gap(v(2, "SCAN", m), v(2, "DAR-DRP", m)) for m in RANKED] == [.0113, .0117, .0216] and [gap(v(3, "SCAN", m), v(3, "DAR", m)) for m in RANKED] == [.0049, .0048, .0069]
    assert gap(v(4, "SCAN", "P@1"), v(4, "TANDA", "P@1")) == .06, "6 % in P@1, as the text says"
    assert gap(v(4, "SCAN", "MRR"), v(4, "TANDA", "MRR")) == .0379, "the text says 3.97 %"


def test_ablation(v):
    lost = {w: [gap(v(5, "SCAN", c), v(5, f"w/o {w}", c)) for c in COLUMNS["table5"]] for w in ("FD", "LD", "FD+LD")}
    assert lost == {"FD": [.0160, .0133, .0253, .0055, .0238, .0450], "LD": [.0153, .0137, .0253, .0119, .0213, .0350], "FD+LD": [.0221, .0218, .0422, .0211, .0379, .0600]}
    assert all(0 < max(a, b) < c for a, b, c in zip(*lost.values())), "each module helps alone, both help more"
    assert lost["FD"][0] + lost["LD"][0] > lost["FD+LD"][0] and lost["FD"][3] + lost["LD"][3] < lost["FD+LD"][3] and lost["FD"][5] + lost["LD"][5] > lost["FD+LD"][5]


def test_robust_in_level_not_in_loss(v):
    drops = {(m, k): [gap(v(6, m, c), v(6, f"{m}-{k}", c)) for c in RANKED] for m in ("TANDA", "SCAN") for k in ("Perturb", "Noise")}
    assert drops == {("TANDA", "Perturb"): [.0045, .0044, .0084], ("TANDA", "Noise"): [.0203, .0192, .0295], ("SCAN", "Perturb"): [.0053, .0053, .0084], ("SCAN", "Noise"): [.0257, .0226, .0337]}
    for k, c in product(("Perturb", "Noise"), RANKED): assert v(6, f"SCAN-{k}", c) > v(6, f"TANDA-{k}", c)
    more = [a - b for k in ("Perturb", "Noise") for a, b in zip(drops["SCAN", k], drops["TANDA", k])]
    assert sum(d > 0 for d in more) == 5 and sum(d == 0 for d in more) == 1, "SCAN loses more in five of six cells, as much in one"
    assert v(6, "SCAN-Noise", "MAP") < v(6, "TANDA", "MAP") < v(6, "SCAN-Perturb", "MAP")


# ---- what the numbers themselves say

def test_first_places_are_counts_of_questions(v):
    own = {237: [v(2, "RoBERTa", "P@1"), v(2, "SCAN", "P@1"), *(v(5, m, "WikiQA P@1") for m in METHODS["table5"]), *(v(6, m, "P@1") for m in METHODS["table6"])],
           1590: [v(3, m, "P@1") for m in METHODS["table3"][5:]], 200: [*(v(4, m, "P@1") for m in METHODS["table4"][2:]), *(v(5, m, "ANTIQUE P@1") for m in METHODS["table5"])]}
    assert all(len(counts(x, n)) == 1 for n, xs in own.items() for x in xs)
    earlier = {m: v(2, m, "P@1") for m in ("TANDA-re", "ASR", "DAR", "DAR-DRP")}
    assert {m: counts(x, 243) for m, x in earlier.items()} == {"TANDA-re": [199], "ASR": [205], "DAR": [207], "DAR-DRP": [208]} and not any(counts(x, 237) for x in earlier.values())
    assert not counts(v(4, "aNMM", "P@1"), 200) and not counts(v(4, "BERT", "P@1"), 200)
    assert counts(v(5, "w/o FD", "WikiQA P@1"), 237) == counts(v(5, "w/o LD", "WikiQA P@1"), 237) == [202]


def test_ndcg_at_1_has_linear_gains(v):
    "Every question has a passage of grade 4, so nDCG@1 is a mean of (grade - 1) / 3 over 200 questions: a multiple of 1/600. Exponential gains would make it one of 1/1400."
    own = {m: v(4, m, "nDCG@1") for m in ("RoBERTa", "BERT-BiG", "TANDA", "SCAN")}
    assert {m: counts(x, 600) for m, x in own.items()} == {"RoBERTa": [401], "BERT-BiG": [450], "TANDA": [430], "SCAN": [453]} and not counts(own["RoBERTa"], 1400) and not counts(own["TANDA"], 1400)
    assert not counts(v(4, "aNMM", "nDCG@1"), 600) and not counts(v(4, "BERT", "nDCG@1"), 600)


def test_doubtful_numbers_say_why(tables):
    doubtful = [(n, c.row["method"], c.column) for n, t in tables.items() for c in t.cells if c.doubtful]
    assert doubtful == [("table2", "TANDA", "MAP"), ("table2", "TANDA", "MRR"), *(("table2", "TANDA-re", c) for c in RANKED), *(("table2", m, "P@1") for m in ("ASR", "DAR", "DAR-DRP")),
                        ("table4", "aNMM", "P@1"), ("table4", "BERT", "MAP"), ("table4", "BERT", "P@1")]
    for m, c in product(("TANDA", "TANDA-re"), RANKED[:2]): assert tables["table2"].cell(c, method=m).value < tables["table6"].cell(c, method="TANDA").value, "the strongest TANDA is not in Table 2"
    noted = [(n, c.row["method"], c.column) for n, t in list(tables.items())[1:] for c in t.cells if c.note and not c.doubtful and c.value is not None]
    assert noted == [("table2", m, c) for m in ("ASR", "DAR", "DAR-DRP") for c in RANKED[:2]] + [("table4", "aNMM", c) for c in ("MAP", "MRR", "nDCG@1", "nDCG@3", "nDCG@10")] + [("table4", "BERT", c) for c in ("MRR", "nDCG@1", "nDCG@3", "nDCG@10")] \
        + [("table4", "TANDA", "MRR"), ("table4", "SCAN", "MRR")] + [("table5", "w/o FD+LD", f"WikiQA {c}") for c in RANKED] + [("table6", "TANDA", c) for c in RANKED]
