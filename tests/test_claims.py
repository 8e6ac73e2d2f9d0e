"Claims: what the paper's cells say, recomputed; verdicts on made-up runs; and that a changed number changes them."
import re
from itertools import product

import numpy as np
import pytest

from debias_nb.repro.claims import check_erratum, check_paper, compared, counts, expand, judged, ledger, load_claims, overall, render_claims, render_errata
from debias_nb.config import ConfigError, project_root
from debias_nb.data.registry import Expected, load_expected
from debias_nb.repro.frame import Cell
from debias_nb.repro.pages import all_cells

EXPECTED, CLAIMS = load_expected("itvreg"), load_claims("itvreg")
FORUM = {"a": "AskUbuntu", "s": "SuperUser", "q": "Quora"}
OWN = {id: check_paper(CLAIMS.claim(id), EXPECTED) for id in (c.id for c in CLAIMS.claims)}
ERRATA = {e.id: check_erratum(e, EXPECTED) for e in CLAIMS.errata}


def changed(table, column, value, **row):
    "The expected numbers with one of them printed otherwise."
    raw = EXPECTED.model_dump()
    hits = [c for c in raw["tables"][table]["cells"] if c["row"] == row and c["column"] == column]
    assert len(hits) == 1 and hits[0]["value"] != value
    hits[0]["value"] = value
    if value is None: hits[0] |= dict(std=None, note="blank")
    return Expected.model_validate(raw)


# ---- the paper's own cells

# Differences worked out by hand from the printed tables, in the order of the file.
@pytest.mark.parametrize("id, values", {"A1": [1.94, 2.30], "A2": [-.31], "A3": [.01, .03, 1.06, 1.22], "A4": [.52, .60, 1.68, 1.08], "A5": [.52, 1.68, .43, -1.08], "A7": [-.27, 1.34, -.98, 1.43], "A8": [12.61, 10.48],
    "A9": [.68, 1.23, 1.23], "R-A4": [24.20, 16.18, 5.40, -5.26, 1.26, 1.18, 4.34, 4.04], "R-A5": [14.15, 27.22, 13.17, 28.02], "A12": [1.2, 6.7, 12.1, 16.0, 15.9, 20.8]}.items())
def test_differences_recomputed(id, values): assert [round(r.value, 2) for r in OWN[id].results] == values


def test_counts_recomputed():
    by_label = lambda c, label: [r.holds for x in CLAIMS.claim(c).paper if x.label == label for r in compared(x, EXPECTED)]
    assert (sum(by_label("R-A1", "in distribution")), len(by_label("R-A1", "in distribution"))) == (14, 14)
    assert (sum(by_label("R-A1", "out of it")), len(by_label("R-A1", "out of it"))) == (21, 26)
    misses = {(r.where, round(r.value, 2)) for r in OWN["R-A1"].results if not r.holds}
    assert misses == {("T3 · NLI · SuperUser -> AskUbuntu", -.98), ("T14 · MSMARCO · Quora -> AskUbuntu", -1.03), ("T17 · NLI · SuperUser -> AskUbuntu", -6.9), ("T17 · MSMARCO · Quora -> AskUbuntu", -.1),
                      ("T17 · MSMARCO · SuperUser -> AskUbuntu", -2.6)}
    share = [r.holds for r in OWN["A11"].results]
    assert (sum(share[:8]), sum(share[8:]), len(share[8:])) == (8, 7, 12), "0.15 suits MaskReg in 8 of 8, 0.50 ITVReg in 7 of 12"
    assert [r.where for r in OWN["A6"].results if not r.holds] == ["T8 · Kitchen and Dining"], "where ITVReg is above Base"
    assert [r.where for r in OWN["A10"].results[:4] if r.holds] == ["T3 · MSMARCO · AskUbuntu -> Quora", "T3 · MSMARCO · SuperUser -> Quora"]


def test_numbers_of_the_errata():
    values = lambda id, holds=None: [round(r.value, 2) for r in ERRATA[id].results if r.value is not None and holds in (None, r.holds)]
    assert values(3)[:6] == [.19, -.86, -.76, -.86, -.54, -.73], "only Base is not below its smallest category"
    assert values(5, False) == [.1] and values(10) == [-.89, -1.05, -.17, .70] and values(11) == [15.53, -1.44] and values(12) == [10.60, 3.21]
    assert values(9, False) == [24.20, 16.18, 5.26] and values(13) == [-7.9, 28.0, 36.8] and set(values(4)) == {0}
    assert ERRATA[6].verdict == "text against text, no cells to recompute" and not ERRATA[6].results
    titles = [(r.where, r.value) for r in ERRATA[7].results if r.value is not None]
    assert titles == [("T9 · Base", 4), ("T9 · ITVReg", 5), ("T10 · Base", 2), ("T10 · ITVReg", 1)]


# ---- another number, another verdict

@pytest.mark.parametrize("id, change, verdict", [("A2", ("table2", "Amazon1.3M (OOD)", 25.02, dict(method="Finetuned")), "holds"), ("A1", ("table1", "IID", 30., dict(method="Finetuned")), "holds in 1 of 2"),
    ("A3", ("table2", "Amazon131K (IID)", 39.40, dict(method="ITVReg")), "holds in 3 of 4"), ("A3", ("table2", "Amazon131K (IID)", 39.42, dict(method="ITVReg")), "holds"),
    ("A4", ("table2", "AmazonCatOOD (OOD)", 31.30, dict(method="Base")), "holds in 3 of 4"), ("A8", ("table3", "SuperUser -> AskUbuntu", 37.00, dict(base="NLI", method="OutReg")), "holds in 1 of 2"),
    ("A9", ("table3", "SuperUser -> AskUbuntu", 61.80, dict(base="MSMARCO", method="OutReg")), "holds in 2 of 3"), ("A12", ("table7", "Quora -> Quora", .56, dict(base="MSMARCO", method="OutReg", weight="1.0")), "holds in 5 of 6"),
    ("A11", ("table16", "SuperUser -> SuperUser", 85., dict(base="MSMARCO", method="ITVReg (0.50)")), "holds in 14 of 20")])
def test_a_changed_cell_changes_the_verdict(id, change, verdict):
    table, column, value, row = change
    assert check_paper(CLAIMS.claim(id), changed(table, column, value, **row)).verdict == verdict


@pytest.mark.parametrize("id, change, verdict", [(1, ("table2", "Amazon1.3M (OOD)", 25.02, dict(method="Finetuned")), "not contradicted"), (3, ("table2", "AmazonCatOOD (OOD)", 29.5, dict(method="Finetuned")), "contradicted in 4 of 12"),
    (4, ("table7", "Quora -> Quora", .578, dict(base="MSMARCO", method="ITVReg", weight="1.0")), "confirmed in 14 of 15"), (5, ("table17", "AskUbuntu -> SuperUser", .485, dict(base="NLI", method="Base")), "not contradicted"),
    (10, ("table4", "Quora -> Quora", 56.29, dict(base="MSMARCO", method="SimCSE", weight="0.1")), "confirmed in 3 of 4"), (12, ("table2", "AmazonCatOOD (OOD)", 20., dict(method="Base")), "confirmed in 1 of 2")])
def test_a_changed_cell_changes_an_erratum(id, change, verdict):
    table, column, value, row = change
    assert check_erratum(CLAIMS.errata[id - 1], changed(table, column, value, **row)).verdict == verdict


def test_a_changed_title_changes_an_erratum():
    raw = EXPECTED.model_dump()
    rows = raw["lists"]["table10"]["rows"]
    rows["Finetuned"] = ("3M Scotchlite Reflective Tape, Silver, 1-Inch by 36-Inch", *rows["Finetuned"][1:])
    assert check_erratum(CLAIMS.errata[6], Expected.model_validate(raw)).verdict == "contradicted in 4 of 8"


def test_a_number_that_is_not_printed_is_no_verdict():
    own = check_paper(CLAIMS.claim("A2"), changed("table2", "Amazon1.3M (OOD)", None, method="Base"))
    assert own.verdict == "not testable" and own.results[0].b == "Finetuned: 26.02" and own.results[0].a == "Base: not printed"
    several = check_paper(CLAIMS.claim("A5"), changed("table2", "Amazon1.3M (OOD)", None, method="Base")) # the best of several cannot be known either
    assert several.verdict == "holds in 2 of 3" and [r.holds for r in several.results] == [True, True, None, False]


# ---- the files

def project(folder, old="", new="", file="claims"):
    for name in ("claims", "expected"):
        text = (project_root() / name / "itvreg.yaml").read_text("utf-8")
        assert name != file or old in text
        (folder / name).mkdir(exist_ok=True); (folder / name / "itvreg.yaml").write_text(text.replace(old, new) if name == file and old else text, "utf-8")
    return folder


@pytest.mark.parametrize("old, new, words", [("table: table1, column: IID", "table: tabel1, column: IID", ["A1: no table 'tabel1'", "did you mean 'table1'?"]), ("table: table1, column: IID", "table: table1, column: IDD", ["A1: table1 has no column 'IDD'"]),
    ("a: {method: Finetuned}, b: {method: Base}, ratio", "a: {method: Finetunde}, b: {method: Base}, ratio", ["A1: table1 has no method 'Finetunde'", "did you mean 'Finetuned'?"]),
    ("base: NLI, column: [\"AskUbuntu -> SuperUser\"", "base: NIL, column: [\"AskUbuntu -> SuperUser\"", ["has no base 'NIL'", "did you mean 'NLI'?"]), ('a: {weight: "0.01"}', 'a: {weight: "0.02"}', ["has no weight '0.02'"]),
    ("table: lambda_path", "table: lambda_paht", ["R-A6: no table 'lambda_paht'", "did you mean 'lambda_path'?"]), ("statement: Fine-tuning is worse", "statment: Fine-tuning is worse", ["claims.1.statment: unknown key", "did you mean 'statement'?"]),
    ("id: A2", "id: A1", ["claim A1 stands twice"]), ("id: 2\n", "id: 1\n", ["erratum 1 stands twice"]), ("paper: itvreg\n", "paper: arr\n", ["says it is arr"]), ("shift: iid, margin: 0.3", "shift: idd, margin: 0.3", ["'iid', 'ood' or 'any'"]),
    ("a: {method: Base}, b: {method: Finetuned}}", "a: {}, b: {method: Finetuned}}", ["2 cells fit", "one is meant"]), ("titles: table10", "titles: table8", ["erratum 7: no list 'table8'"]), ("margin: 0.3", "margin: .nan", ["finite"]),
    ("by: 1.8", "by: 1.8\n      by: 2", ["claims/itvreg.yaml"])])
def test_mistakes_in_the_file(tmp_path, old, new, words):
    with pytest.raises(ConfigError, match="claims/itvreg.yaml") as e: load_claims("itvreg", project(tmp_path, old, new))
    for word in words: assert word in str(e.value)


def test_no_file(tmp_path):
    (tmp_path / "claims").mkdir()
    with pytest.raises(ConfigError, match="no claims/itvreg.yaml"): load_claims("itvreg", tmp_path)


# ---- our runs

def runs(name, level, spread=.001, seeds=(0, 1, 2), noise=.002):
    "Invented records: around `level` with a small spread over seeds and over resamples."
    rng = np.random.default_rng(sum(map(ord, name)))
    values = [level + spread * (s - 1) for s in seeds]
    return {f"{name}-{s}": dict(id=f"{name}-{s}", seed=s, metrics={"set": {"auc05": v}}, replicates={"set": {"auc05": (v + noise * rng.standard_normal(50)).tolist()}}) for s, v in zip(seeds, values)}


def cell(method, records=(), table="table3", profile="small", column="AskUbuntu -> Quora", **more):
    about = dict(encoder="demo", shift="ood", corpus="askubuntu", evaluate="set", role="weak", status="measured" if records else "not run", why=None if records else "has not been run", records=list(records))
    return Cell("itvreg", table, profile, method=method, column=column, **(about | more))


A10 = CLAIMS.claim("A10") # Base above OutReg above ITVReg where the shift is large


def verdicts(levels, columns=("AskUbuntu -> Quora",), **more):
    found, cells = {}, []
    for m, column in product(levels, columns):
        mine = runs(m + column, levels[m]); found |= mine; cells.append(cell(m, mine, column=column, **more))
    return [judged(c, found) for c in expand(A10, cells, CLAIMS.groups)]


def test_verdicts_follow_the_runs():
    assert [c.verdict for c in verdicts(dict(Base=.8, OutReg=.7, ITVReg=.6))] == ["holds", "holds"]
    assert [c.verdict for c in verdicts(dict(Base=.6, OutReg=.7, ITVReg=.6))] == ["does not", "holds"]
    assert [c.verdict for c in verdicts(dict(Base=.7, OutReg=.7, ITVReg=.6))] == ["within noise", "holds"]
    first = verdicts(dict(Base=.8, OutReg=.7, ITVReg=.6))[0]
    assert abs(first.difference.difference - 10) < 1e-9 and first.difference.low < 10 < first.difference.high and first.difference.n == 3, "in percentage points, three pairs of runs"


def test_differences_of_fractions_are_in_points_as_well():
    found = runs("a", .8) | runs("b", .7)
    cells = [cell("Base", [i for i in found if i[0] == "a"], unit="fraction"), cell("OutReg", [i for i in found if i[0] == "b"], unit="fraction"), cell("ITVReg", unit="fraction")]
    assert abs(judged(expand(A10, cells, CLAIMS.groups)[0], found).difference.difference - 10) < 1e-9


def test_selectors_take_what_fits_and_nothing_else():
    fits = dict(Base=.8, OutReg=.7, ITVReg=.6)
    assert len(verdicts(fits, columns=("AskUbuntu -> Quora", "Quora -> AskUbuntu", "strong -> unseen"))) == 6
    assert verdicts(fits, columns=("AskUbuntu -> Quora", "AskUbuntu -> SuperUser"))[-1].column == "AskUbuntu -> Quora", "near is not far"
    assert verdicts(fits, shift="iid") == [] and len(verdicts(fits, role="strong")) == len(verdicts(fits, role=None)) == 2
    weak = CLAIMS.claim("A8")
    cells = [cell(m, column="SuperUser -> AskUbuntu", role=role, encoder=role) for m, role in product(("ITVReg", "OutReg"), ("weak", "strong"))]
    assert [c.encoder for c in expand(weak, cells, CLAIMS.groups)] == ["weak"]
    apart = [cell(m, encoder=e) for m, e in (("Base", "x"), ("OutReg", "y"), ("ITVReg", "y"))]
    assert [(c.encoder, c.a, c.cells[0] is None) for c in expand(A10, apart, CLAIMS.groups)] == [("x", "Base", False), ("y", "Base", True), ("y", "OutReg", False)], "two encoders are never compared with each other"


def test_margins():
    found = runs("ITVReg", .60, noise=.0002) | runs("Finetuned", .602, noise=.0002)
    cells = lambda: [cell(m, [i for i in found if i.startswith(m)], table="table2", column="x (IID)", shift="iid") for m in ("ITVReg", "Finetuned")]
    level = CLAIMS.claim("A3").model_copy(update=dict(measured=CLAIMS.claim("A3").measured[:1]))
    one = judged(expand(level, cells(), CLAIMS.groups)[0], found)
    assert one.what.margin == .3 and one.difference.high < 0 and one.difference.low > -.3 and one.verdict == "holds", "0.2 points below is level"
    found |= runs("ITVReg", .59, noise=.0002)
    assert judged(expand(level, cells(), CLAIMS.groups)[0], found).verdict == "does not"


@pytest.mark.parametrize("status, why, said", [("partial", "2 of 3 runs are there", "2 of 3 runs are there"), ("failed", "training stopped: nan", "training stopped: nan"), ("not run", "has not been run", "has not been run"), ("not run", None, "not run")])
def test_no_verdict_without_complete_runs(status, why, said):
    found = runs("Base", .8)
    cells = [cell("Base", found), cell("OutReg", status=status, why=why), cell("ITVReg")]
    c = judged(expand(A10, cells, CLAIMS.groups)[0], found)
    assert (c.verdict, c.why, c.difference) == ("not run", said, None)


def test_no_verdict_without_an_interval_or_with_other_seeds():
    one = {i: r | {"replicates": {}} for i, r in (runs("Base", .8, seeds=(0,)) | runs("OutReg", .7, seeds=(0,))).items()}
    cells = [cell("Base", ["Base-0"]), cell("OutReg", ["OutReg-0"]), cell("ITVReg")]
    c = judged(expand(A10, cells, CLAIMS.groups)[0], one)
    assert c.verdict == "no interval" and "one run" in c.why and overall([c.verdict]) == "not run" and counts([c.verdict]) == "1 without interval"
    found = runs("Base", .8, seeds=(0, 1)) | runs("OutReg", .7)
    cells = [cell("Base", ["Base-0", "Base-1"]), cell("OutReg", [i for i in found if i[0] == "O"]), cell("ITVReg")]
    assert judged(expand(A10, cells, CLAIMS.groups)[0], found).why == "the sides were run with other seeds"


def test_an_untrained_encoder_is_one_run():
    found = runs("Base", .8, seeds=(0,)) | runs("OutReg", .7)
    c = judged(expand(A10, [cell("Base", ["Base-0"]), cell("OutReg", [i for i in found if i[0] == "O"]), cell("ITVReg")], CLAIMS.groups)[0], found)
    assert c.verdict == "holds" and c.difference.n == 3


def test_names_that_no_cell_has():
    with pytest.raises(ValueError, match="A10: table3 has no method 'ITVReg'"): expand(A10, [cell("Base"), cell("OutReg")], CLAIMS.groups)
    with pytest.raises(ValueError, match="A10: table3 has no column"): expand(A10, [cell(m, column="x -> y") for m in ("Base", "OutReg", "ITVReg")], CLAIMS.groups)


def test_every_selector_fits_the_tables_of_this_project():
    "Each selector finds cells of ours, in a table that has its methods and columns."
    cells = all_cells()
    for claim, what in ((c, w) for c in CLAIMS.claims for w in c.measured):
        found = expand(claim.model_copy(update=dict(measured=(what,))), cells, CLAIMS.groups)
        assert found, (claim.id, what)
        assert what.profiles == ("planted",) or {c.profile for c in found} - {"planted"}, (claim.id, what)


# ---- pages

def page_cells():
    found = {i: r for m, level in dict(Base=.8, Finetuned=.5, MaskReg=.5, SimCSE=.5, OutReg=.7, ITVAug=.5, ITVReg=.6).items() for i, r in runs(m, level).items()}
    columns = [(f"{FORUM[a]} -> {FORUM[b]}", "iid" if a == b else "ood") for a, b in product("as", "asq")]
    cells = [cell(m, [i for i in found if i.rsplit("-", 1)[0] == m], column=c, shift=s) for m in ("Base", "Finetuned", "MaskReg", "SimCSE", "OutReg", "ITVAug", "ITVReg") for c, s in columns]
    return cells, found


def test_the_page_of_claims(tmp_path):
    root, (cells, found) = project(tmp_path), page_cells()
    page = render_claims(cells, found, root)
    line = lambda p, id: next(x for x in p.splitlines() if x.startswith(f"| [{id}](#"))
    assert line(page, "A10").endswith("| holds in 5 of 8 | not run | **holds** (4 of 4 hold) | not run |") and line(page, "A2").endswith("| does not | not run | not run | not run |")
    assert line(page, "A7").endswith("| **does not** (16 of 24 hold, 8 do not) | not run |")
    for claim in CLAIMS.claims: assert f"\n### {claim.id}\n" in page and claim.statement in page
    assert "not adjusted for the number of comparisons" in page and page.count("<details>") == page.count("</details>") and "nan" not in page.lower()
    for i in found: # every method's level turned round
        found[i]["metrics"]["set"]["auc05"] = 1 - found[i]["metrics"]["set"]["auc05"]; found[i]["replicates"]["set"]["auc05"] = [1 - x for x in found[i]["replicates"]["set"]["auc05"]]
    assert line(render_claims(cells, found, root), "A10").endswith("| **does not** (0 of 4 hold, 4 do not) | not run |")
    assert line(render_claims([], {}, root), "A10").endswith("| not run | not run | not run |")


def test_a_number_of_the_paper_reaches_the_pages(tmp_path):
    root = project(tmp_path, 'column: "Amazon1.3M (OOD)", value: 26.02', 'column: "Amazon1.3M (OOD)", value: 25.02', "expected")
    before, after = render_claims([], {}), render_claims([], {}, root)
    assert "base encoder for items of a later time, too. | does not |" in before and "base encoder for items of a later time, too. | holds |" in after
    before, after = render_errata("itvreg"), render_errata("itvreg", root)
    assert "| contradicted in 1 of 2 |" in before.split("### 1.")[0] and "−0.31" in before and "| not contradicted |" in after and "+0.69" in after


def test_the_pages_are_the_same_twice():
    assert render_errata("itvreg") == render_errata("itvreg")
    cells, found = page_cells()
    assert render_claims(cells, found) == render_claims(cells, dict(reversed(found.items())))


def test_links_lead_to_headings():
    page = render_errata("itvreg")
    heading = lambda text: re.sub(r"[^\w-]", "", text.lower().replace(" ", "-"))
    anchors = {heading(x[4:]) for x in page.splitlines() if x.startswith("### ")}
    links = re.findall(r"\]\(#([^)]+)\)", page)
    assert len(links) == len(CLAIMS.errata) and set(links) == anchors
    page = render_claims([], {})
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) == {heading(x.lstrip("# ")) for x in page.splitlines() if re.match("##+ ", x)}


def test_one_claim_at_each_profile():
    cells, found = page_cells()
    entries = ledger("itvreg", cells, found)
    assert len(entries) == 3 * len(CLAIMS.claims) and [e.profile for e in entries[:3]] == ["planted", "small", "paper"]
    a8 = {e.profile: e for e in entries if e.claim.id == "A8"}
    assert a8["small"].verdict == "does not" and a8["small"].counts == "0 of 2 hold, 2 do not" and a8["paper"].verdict == "not run"
