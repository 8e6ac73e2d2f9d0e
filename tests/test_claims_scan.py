"Claims of the answer-selection paper: its cells recomputed, differences of differences, and verdicts on made-up runs."
import re

import numpy as np
import pytest

from debias_nb.repro.claims import Minus, check_erratum, check_paper, expand, judged, load_claims, render_claims, render_errata
from debias_nb.config import ConfigError, project_root
from debias_nb.data.registry import Expected, load_expected
from debias_nb.repro.frame import Cell
from debias_nb.repro.pages import all_cells

EXPECTED, CLAIMS = load_expected("scan"), load_claims("scan")
OWN = {c.id: check_paper(c, EXPECTED) for c in CLAIMS.claims}
ERRATA = {e.id: check_erratum(e, EXPECTED) for e in CLAIMS.errata}


def changed(table, method, column, value):
    "The expected numbers with one of them printed otherwise."
    raw = EXPECTED.model_dump()
    hits = [c for c in raw["tables"][table]["cells"] if c["row"] == {"method": method} and c["column"] == column]
    assert len(hits) == 1 and hits[0]["value"] != value
    hits[0]["value"] = value
    if value is None: hits[0] |= dict(note="blank")
    return Expected.model_validate(raw)


# ---- the paper's own cells

# Differences worked out by hand from the printed tables, in points and in the order of the file.
@pytest.mark.parametrize("id, values", {"C1": [1.13, 1.17, 2.16, .49, .48, .69, 2.11, 1.67, 2.0, .5, .86, .97], "C2": [1.13, 1.17, 2.16, .37, .28, .41], "C3": [.49, .48, .69, .73, .61, 1.01], "C4": [3.79, 6.0],
    "C5": [1.60, 1.33, 2.53, .55, 2.38, 4.50, 1.53, 1.37, 2.53, 1.19, 2.13, 3.50, 2.21, 2.18, 4.22, 2.11, 3.79, 6.0, -.27, -.16, .93, 1.0, 1.83, .94, 3.95, 2.31], "C7": [2.13, 2.09, 4.22, 1.67, 1.84, 3.80],
    "C8": [4.19, 4.32, 6.36, 3.74, 4.95, 7.0, 4.84, 4.44, 3.26], "R-C3": [.92, .52, .84, .72, 2.0, -.37], "R-C4": [-.08, -.09, 0, -.54, -.34, -.42], "R-C5": [-.36, -.08, -.36, -.08, 1.68, 1.65, 3.38],
    "R-C6": [.68, .81, 1.69, .92, 1.66, 2.50]}.items())
def test_differences_recomputed(id, values): assert [round(r.value, 2) for r in OWN[id].results] == values


def test_a_difference_of_differences_shows_its_parts():
    r = OWN["R-C4"].results[3]
    assert (r.where, r.a, r.b, r.asked, r.holds) == ("T6 · MAP", "TANDA − TANDA-Noise: +2.03", "SCAN − SCAN-Noise: +2.57", "≥ 0", False)
    blank = check_paper(CLAIMS.claim("R-C4"), changed("table6", "SCAN-Noise", "MAP", None)).results[3]
    assert (blank.value, blank.holds, blank.b) == (None, None, "SCAN − SCAN-Noise: not printed")


def test_numbers_of_the_errata():
    values = lambda id: [round(r.value, 2) for r in ERRATA[id].results if r.value is not None]
    assert values(1) == [3.79, 6] and values(2)[6:] == [-.08, -.09, 0, -.54, -.34, -.42]
    assert values(3) == [.53, .53, .83, .80, 1.65, .30, .27, 0, 0, 0, .53, .53, .83, .80, 1.65], "the last three: 3.04 − 2.21, 2.98 − 2.18, 5.87 − 4.22"
    whole = {(r.a.split(":")[0], r.b.split(":")[0]) for r in ERRATA[4].results if r.asked == "k of 243"}
    assert whole == {("TANDA-re", "199 of 243"), ("ASR", "205 of 243"), ("DAR", "207 of 243"), ("DAR-DRP", "208 of 243")}
    assert [r.b.split(":")[0] for r in ERRATA[4].results if r.where == "T2 · P@1" and r.asked == "k of 237"] == ["179 of 237", "208 of 237"]
    assert [r.b.split(":")[0] for r in ERRATA[5].results if r.asked == "k of 200"] == ["131 of 200", "129 of 200", "153 of 200", "145 of 200", "157 of 200"]
    assert values(6) == [6] and "DAR-DPR" in ERRATA[6].results[1].a and [r.b.split(":")[0] for r in ERRATA[8].results[3:]] == ["208 of 237", "202 of 237", "202 of 237"]


# ---- another number, another verdict

@pytest.mark.parametrize("id, change, verdict", [("C1", ("table4", "BERT-BiG", "P@1", .79), "holds in 11 of 12"), ("C2", ("table2", "ASR", "MAP", .9060), "holds in 5 of 6"), ("C4", ("table4", "SCAN", "MRR", .8655), "holds"),
    ("C5", ("table5", "SCAN", "WikiQA MAP", .9130), "holds"), ("C6", ("table2", "TANDA", "MAP", .8943), "holds in 7 of 11"), ("C7", ("table6", "TANDA-Noise", "MAP", .8908), "holds in 5 of 6"),
    ("C8", ("table2", "TANDA-re", "MAP", .8440), "holds in 8 of 9"), ("R-C1", ("table5", "w/o FD", "WikiQA MAP", .8940), "holds in 11 of 12"), ("R-C3", ("table5", "w/o LD", "ANTIQUE MAP", .6560), "holds in 5 of 6"),
    ("R-C4", ("table6", "SCAN-Perturb", "MAP", .9119), "holds in 2 of 6"), ("R-C5", ("table6", "SCAN-Noise", "MAP", .8890), "holds in 6 of 7"), ("R-C2", ("table5", "w/o FD+LD", "ANTIQUE P@1", .7249), "holds in 7 of 8")])
def test_a_changed_cell_changes_the_verdict(id, change, verdict): assert check_paper(CLAIMS.claim(id), changed(*change)).verdict == verdict


@pytest.mark.parametrize("id, change, verdict", [(1, ("table4", "SCAN", "MRR", .8655), "not contradicted"), (2, ("table6", "SCAN-Noise", "MAP", .8962), "contradicted in 4 of 12"), (3, ("table2", "TANDA", "MAP", .8943), "confirmed in 13 of 15"),
    (4, ("table2", "DAR", "P@1", .8523), "confirmed in 18 of 20"), (5, ("table4", "BERT", "P@1", .71), "confirmed in 8 of 9"), (8, ("table5", "w/o LD", "WikiQA P@1", .8481), "confirmed in 5 of 6"),
    (9, ("table5", "SCAN", "WikiQA MAP", .9130), "not contradicted")])
def test_a_changed_cell_changes_an_erratum(id, change, verdict): assert check_erratum(CLAIMS.errata[id - 1], changed(*change)).verdict == verdict


def test_a_row_less_changes_an_erratum():
    raw = EXPECTED.model_dump()
    raw["tables"]["table4"]["cells"] = tuple(c for c in raw["tables"]["table4"]["cells"] if c["row"]["method"] not in ("aNMM", "BERT"))
    assert check_erratum(CLAIMS.errata[5], Expected.model_validate(raw)).verdict == "contradicted in 1 of 2"


# ---- the file

def project(folder, old="", new=""):
    for name in ("claims", "expected"):
        text = (project_root() / name / "scan.yaml").read_text("utf-8")
        assert name != "claims" or old in text
        (folder / name).mkdir(exist_ok=True); (folder / name / "scan.yaml").write_text(text.replace(old, new, 1) if name == "claims" and old else text, "utf-8")
    return folder


@pytest.mark.parametrize("old, new, words", [("b: {method: SCAN-Perturb}}, relation", "b: {method: SCAN-Pertrub}}, relation", ["has no method 'SCAN-Pertrub'", "did you mean 'SCAN-Perturb'?"]),
    ("b: {method: SCAN-Perturb}}, relation", "c: {method: SCAN-Perturb}}, relation", ["minus.c: unknown key", "minus.b: required"]), ('n: {table: table1, method: "WikiQA #Q", column: Test}', 'n: {table: table1, method: "WikiQA #A1", column: Test}', ["erratum 4: table1 has no method"]),
    ('n: {table: table1, method: "WikiQA #Q", column: Test}', "n: {table: table2, method: SCAN, column: MAP}", ["erratum 4: table2 × 'MAP': not a number of questions"]), ("n: 243", "n: 0", ["greater than or equal to 1"]),
    ("rows: table4, but: SCAN, number: 4", "rows: table4, but: SCNA, number: 4", ["erratum 6: table4 has no method 'SCNA'"]), ("rows: table2, row: DAR-DPR", "rows: table22, row: DAR-DPR", ["erratum 6: no table 'table22'"]),
    ("rows: table2, row: DAR-DPR", "rows: table2, row: DAR-DPR, number: 1", ["a `number` or for one `row`"]), ("planted: Finetuned-Noise", "plantde: Finetuned-Noise", ["plantde: unknown key", "did you mean 'planted'?"]),
    ('minus: {metric: "map[led]"}', "minus: {}", ["another `order` or another `metric`"]), ("order: [base, base-Noise], minus", "order: [base, base-Noise, SCAN], minus", ["is of two methods"]),
    ("table: weights, order: [FD paper", "table: wieghts, order: [FD paper", ["R-C6: no table 'wieghts'", "did you mean 'weights'?"]), ('relation: "=", by: 3.97', 'relation: "==", by: 3.97', ["'='"]), ("order: [SCAN, w/o FD]}", "order: [SCAN, w/o FD], margins: 1}", ["margins: unknown key", "did you mean 'margin'?"])])
def test_mistakes_in_the_file(tmp_path, old, new, words):
    with pytest.raises(ConfigError, match="claims/scan.yaml") as e: load_claims("scan", project(tmp_path, old, new))
    for word in words: assert word in str(e.value)


# ---- our runs

RANKED = {"MAP": "map", "MRR": "mrr", "P@1": "p1"}
COLUMNS = {"table2": list(RANKED), "table6": list(RANKED), "table5": [f"iid {m}" for m in RANKED], "weights": ["iid MAP", "shifted MAP"]}


def made(levels, table, profile="planted", seeds=(0, 1, 2), common=.05, own=.0005, metrics=None, untrained=()):
    "Cells and records of methods around a level; what seeds and test items do is the same for all methods, but for a little noise."
    shared, found, cells = np.random.default_rng(0), {}, []
    by_seed, by_item = common * shared.standard_normal(len(seeds)), common * shared.standard_normal(60)
    for k, (m, level) in enumerate(levels.items()):
        rng, mine = np.random.default_rng(k + 1), seeds[:1] if m in untrained else seeds
        for s in mine:
            shift = (0. if m in untrained else by_seed[seeds.index(s)]) + own * rng.standard_normal()
            at = {k: (level.get(k, 0.) if isinstance(level, dict) else level) + shift for k in [*RANKED.values(), *(metrics or [])]}
            found[f"{m} {s}"] = dict(id=f"{m} {s}", seed=s, config={"training": None if m in untrained else {}}, metrics={"set": at},
                                     replicates={"set": {k: (v + by_item + own * rng.standard_normal(60)).tolist() for k, v in at.items()}})
        cells += [Cell("scan", table, profile, "demo", m, column, "iid", "made", "set", RANKED[column.split()[-1]], unit="fraction", status="measured", n=len(mine), records=[f"{m} {s}" for s in mine]) for column in COLUMNS[table]]
    return cells, found


def verdicts(id, levels, table, **more):
    cells, found = made(levels, table, **more)
    return [judged(c, found) for c in expand(CLAIMS.claim(id), cells, CLAIMS.groups, CLAIMS.methods)]


ROBUST = {"Finetuned": .80, "Finetuned-Perturb": .76, "Finetuned-Noise": .74, "SCAN": .90, "SCAN-Perturb": .83, "SCAN-Noise": .79}


def test_level_and_loss_are_two_things():
    "SCAN above its base at equal noise, and losing more: 7 and 11 points for 4 and 6."
    level, loss = verdicts("C7", ROBUST, "table6"), verdicts("R-C4", ROBUST, "table6")
    assert {c.verdict for c in level} == {"holds"} and {c.verdict for c in loss} == {"does not"} and len(level) == len(loss) == 6
    assert [round(c.difference.difference) for c in level] == [7] * 3 + [5] * 3 and [round(c.difference.difference) for c in loss] == [-3] * 3 + [-5] * 3, "in points, although the table is of fractions"
    assert loss[0].text == "(Finetuned − Finetuned-Perturb) − (SCAN − SCAN-Perturb)"
    less = ROBUST | {"SCAN-Perturb": .88, "SCAN-Noise": .87}
    assert {c.verdict for c in verdicts("R-C4", less, "table6")} == {"holds"}
    equal = ROBUST | {"SCAN-Perturb": .86, "SCAN-Noise": .84}
    assert {c.verdict for c in verdicts("R-C4", equal, "table6", own=.005)} <= {"within noise"}


def test_what_seeds_and_items_have_in_common_falls_out():
    wide = verdicts("R-C4", ROBUST, "table6", common=.2)[0].difference
    assert wide.high - wide.low < 1 and wide.n == 3, "20 points of common noise, an interval of less than one"
    alone = made(ROBUST, "table6", common=.2)[1]
    for i, r in alone.items(): # each run's items drawn apart
        rng = np.random.default_rng(sum(map(ord, i)))
        r["replicates"]["set"] = {k: (v + .05 * rng.standard_normal(60)).tolist() for k, v in r["metrics"]["set"].items()}
    apart = judged(expand(CLAIMS.claim("R-C4"), made(ROBUST, "table6", common=.2)[0], CLAIMS.groups, CLAIMS.methods)[0], alone)
    assert apart.difference.high - apart.difference.low > 10 and apart.verdict == "within noise"


def test_the_interval_of_a_difference_of_differences_by_hand():
    "One resample apart from the mean in each of two, no spread over seeds: the standard error is that of the resamples."
    a = {"Finetuned": .5, "Finetuned-Perturb": .4, "Finetuned-Noise": .4, "SCAN": .5, "SCAN-Perturb": .45, "SCAN-Noise": .4}
    cells, found = made(a, "table6", common=0, own=0)
    for r in found.values(): r["replicates"]["set"]["map"] = [r["metrics"]["set"]["map"]] * 4
    for s in range(3): found[f"SCAN-Perturb {s}"]["replicates"]["set"]["map"] = [.44, .46, .44, .46]
    c = judged(expand(CLAIMS.claim("R-C4"), cells, CLAIMS.groups, CLAIMS.methods)[0], found)
    se = np.std([4, 6, 4, 6], ddof=1) # (.5 − .4) − (.5 − .44), in points; over 3 degrees of freedom
    assert abs(c.difference.difference - 5) < 1e-9 and abs((c.difference.high - c.difference.low) / 2 - 3.182446 * se) < 1e-4


@pytest.mark.parametrize("gains, verdict", [((.10, .02), "holds"), ((.02, .10), "does not"), ((.05, .05), "within noise")])
def test_gain_on_misled_questions(gains, verdict):
    m, led = gains
    levels = {"Word overlap": {"map[misled]": .1, "map[led]": .9}, "Finetuned": {"map[misled]": .40, "map[led]": .80}, "SCAN": {"map[misled]": .40 + m, "map[led]": .80 + led}}
    found = verdicts("R-C7", levels, "table2", metrics=["map[misled]", "map[led]"], own=.004, untrained=("Word overlap",))
    assert [c.verdict for c in found] == [verdict] and abs(found[0].difference.difference - 100 * (m - led)) < 1.5
    assert found[0].text == "(SCAN − Finetuned, map[misled]) − (SCAN − Finetuned, map[led])"
    without = verdicts("R-C7", levels, "table2", metrics=["map[misled]"], untrained=("Word overlap",))[0]
    assert (without.verdict, without.why) == ("not run", "the records have no map[led]")


def test_the_base_has_another_name_at_each_profile():
    both = made({"Finetuned": .7, "TANDA": .75, "SCAN": .8, "Word overlap": .5}, "table2", profile="small", untrained=("Word overlap",))
    paper = made({"RoBERTa": .7, "TANDA": .75, "SCAN": .8}, "table2", profile="paper")
    cells = both[0] + paper[0]
    pairs = lambda id: list(dict.fromkeys((c.profile, c.a, c.b) for c in expand(CLAIMS.claim(id), cells, CLAIMS.groups, CLAIMS.methods)))
    assert pairs("C1") == [("small", "SCAN", "Finetuned"), ("paper", "SCAN", "TANDA"), ("small", "SCAN", "Word overlap")] and pairs("C8") == [("small", "TANDA", "Finetuned"), ("paper", "TANDA", "RoBERTa")]
    with pytest.raises(ValueError, match="C1: table2 has none of Finetuned, TANDA, TANDA-re, for which 'base' stands"): expand(CLAIMS.claim("C1"), [c for c in cells if c.method == "SCAN"], CLAIMS.groups, CLAIMS.methods)


def test_counting_words_is_one_run():
    found = verdicts("C1", {"Word overlap": .3, "Finetuned": .7, "SCAN": .9}, "table2", untrained=("Word overlap",))
    assert {(c.b, c.verdict, c.difference.n) for c in found} == {("Finetuned", "holds", 3), ("Word overlap", "holds", 3)}
    cells, other = made({"Word overlap": .3, "Finetuned": .7, "SCAN": .9}, "table2", untrained=("Word overlap",))
    other["Word overlap 0"]["config"]["training"] = {} # a single run of a trained method is not set beside three
    assert {c.why for c in (judged(c, other) for c in expand(CLAIMS.claim("C1"), cells, CLAIMS.groups, CLAIMS.methods)) if c.b == "Word overlap"} == {"the sides were run with other seeds"}


def test_sub_additive_losses():
    "Each removal costs 4 points, both together 6."
    found = verdicts("R-C3", {"SCAN": .80, "w/o FD": .76, "w/o LD": .76, "Finetuned": .74}, "table5")
    assert [(c.column, c.verdict, round(c.difference.difference)) for c in found] == [(f"iid {m}", "holds", 2) for m in RANKED]


@pytest.mark.parametrize("missing, why", [("SCAN-Noise", "no configuration makes one of the cells"), ("Finetuned-Noise", "no configuration makes one of the cells")])
def test_no_verdict_where_one_of_four_is_missing(missing, why):
    cells, found = made(ROBUST, "table6")
    cells = [c for c in cells if c.method != missing] + [Cell("scan", "table6", "planted", "other", missing, "MAP", "iid", "made", "set", "map")]
    mine = [judged(c, found) for c in expand(CLAIMS.claim("R-C4"), cells, CLAIMS.groups, CLAIMS.methods) if "Noise" in c.text and c.encoder == "demo"]
    assert {(c.verdict, c.why) for c in mine} == {("not run", why)} and len(mine) == 3


def test_other_seeds_on_one_of_four():
    cells, found = made(ROBUST, "table6")
    for c in cells:
        if c.method == "SCAN-Noise": c.records = c.records[:2]
    loss = [judged(c, found) for c in expand(CLAIMS.claim("R-C4"), cells, CLAIMS.groups, CLAIMS.methods)]
    assert {c.why for c in loss if "Noise" in c.text} == {"the sides were run with other seeds"} and {c.verdict for c in loss if "Perturb" in c.text} == {"does not"}


def test_minus_takes_a_margin():
    claim, (cells, found) = CLAIMS.claim("R-C4"), made(ROBUST, "table6")
    within = claim.measured[0].model_copy(update=dict(margin=4.))
    assert {judged(c, found).verdict for c in expand(claim.model_copy(update=dict(measured=(within,))), cells, CLAIMS.groups, CLAIMS.methods)} == {"holds"}, "three points more, four are allowed"
    assert within.formula == "base − base-Perturb > SCAN − SCAN-Perturb − 4" and Minus(metric="p1").order is None


# ---- our configurations

def test_every_selector_fits_the_tables_of_this_project():
    "Each selector finds cells of ours at each of its profiles that has the table, unless a name of it stands for nothing there."
    cells = [c for c in all_cells() if c.paper == "scan"]
    assert len(expand(CLAIMS.claim("C1"), cells, CLAIMS.groups, CLAIMS.methods)) > 6
    for claim, what in ((c, w) for c in CLAIMS.claims for w in c.measured):
        found = expand(claim.model_copy(update=dict(measured=(what,))), cells, CLAIMS.groups, CLAIMS.methods)
        lack = {c.profile for c in cells if c.table == what.table and c.profile in what.profiles} - {c.profile for c in found if all(c.cells)}
        assert not lack or (what.table, lack) == ("table3", {"paper"}), (claim.id, what.formula, what.table, lack) # at profile paper Table 3 has SCAN alone


# ---- pages

def test_the_page_of_claims(tmp_path):
    root, (cells, found) = project(tmp_path), made(ROBUST, "table6")
    page = render_claims(cells, found, root)
    line = lambda id: next(x for x in page.splitlines() if x.startswith(f"| [{id}](#"))
    assert line("C7").endswith("| holds | **holds** (6 of 6 hold) | not run | not run |") and line("R-C4").endswith("| holds in 1 of 6 | **does not** (0 of 6 hold, 6 do not) | not run | not run |")
    assert line("C2").endswith("| holds | — | — | — |") and line("R-C7").endswith("| not testable | not run | not run | not run |")
    for claim in CLAIMS.claims: assert f"\n### {claim.id}\n" in page and claim.statement in page
    assert "base − base-Perturb > SCAN − SCAN-Perturb, T6" in page and "| (Finetuned − Finetuned-Noise) − (SCAN − SCAN-Noise) | −5." in page
    assert "(planted: `Finetuned`; small: `Finetuned`; paper: `TANDA` or `TANDA-re`)" in page and "nan" not in page.lower() and page.count("<details>") == page.count("</details>")


def test_all_papers_on_one_page():
    page, papers = render_claims([], {}), sorted(p.stem for p in (project_root() / "claims").glob("*.yaml"))
    assert [x[3:] for x in page.splitlines() if x.startswith("## ")] == [load_expected(p).title for p in papers] and "8 claims, 7 relations, [errata](scan/ERRATA.md)" in page
    ids = re.findall(r"^### (.*)$", page, re.M)
    assert len(ids) == len(set(ids)) == sum(len(load_claims(p).claims) for p in papers) and {"scan", "itvreg"} < {*papers}


def test_the_page_of_errata(tmp_path):
    page = render_errata("scan")
    heading = lambda text: re.sub(r"[^\w-]", "", text.lower().replace(" ", "-"))
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) == {heading(x[4:]) for x in page.splitlines() if x.startswith("### ")}
    assert "| T4 · MRR | SCAN: 86.37 | TANDA: 82.58 | +3.79 | = 3.97 | no |" in page and "| T2 · P@1 | DAR-DRP: 85.60 | 208 of 243: 85.597 | +0.003 | k of 243 | yes |" in page
    assert "| T4 | 6 rows besides SCAN | aNMM, BERT, RoBERTa, BERT-CL, BERT-BiG, TANDA | 6 | 4 rows | no |" in page
