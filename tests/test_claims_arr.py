"Claims of the authorship paper: its cells recomputed, means checked as sums, gains in one place minus gains in another, and verdicts on made-up runs."
import re
from dataclasses import replace

import numpy as np
import pytest

from debias_nb.repro.claims import Elsewhere, Measured, check_erratum, check_paper, expand, judged, load_claims, render_claims, render_errata
from debias_nb.config import ConfigError, project_root
from debias_nb.data.registry import Expected, load_expected
from debias_nb.repro.frame import Cell
from debias_nb.repro.pages import all_cells

EXPECTED, CLAIMS = load_expected("arr"), load_claims("arr")
OWN = {c.id: check_paper(c, EXPECTED) for c in CLAIMS.claims}
ERRATA = {e.id: check_erratum(e, EXPECTED) for e in CLAIMS.errata}


def changed(table, method, column, value):
    "The expected numbers with one of them printed otherwise."
    raw = EXPECTED.model_dump()
    hits = [c for c in raw["tables"][table]["cells"] if c["row"] == {"method": method} and c["column"] == column]
    assert len(hits) == 1 and hits[0]["value"] != value
    hits[0]["value"] = value
    if value is None: hits[0] |= dict(note="blank", doubtful=False)
    return Expected.model_validate(raw)


# ---- the paper's own cells

# Differences worked out by hand from the printed tables, in points and in the order of the file. A mean of two is there as their sum.
@pytest.mark.parametrize("id, values", {"B1": [1.1, 1.4, 1.5, 1.0, 12.4, 16.5, 2.7, 3.1], "B2": [3.8, 4.5], "B3": [13.9, 17.5, 17.5], "B4": [2.9, 2.9, 2.0, 2.0], "B5": [2.4, 2.4], "B6": [2.1, 2.4],
    "B7": [1196, 3.3, 3.6, 5.0, 4.6, -.4, .4, -11.3, -15.1], "B8": [-1.8, -1.8, -.6, -.6, -1.3, -1.9, -.8, -.5], "R-B1": [1.1, 1.4, 1.5, 1.0, 12.4, 16.5, 2.7, 3.1, .6, .5, 2.3, 1.5],
    "R-B3": [2.9, 3.2, 2.1, 1.6, 4.0, 5.0, .2, 0], "R-B4": [8.6, 6.1, 25.3, 25.3, 2.1, 2.3, 1.7, 2.1, 4.7, 3.1]}.items())
def test_differences_recomputed(id, values): assert [round(r.value, 2) for r in OWN[id].results] == values


def test_means_of_the_text_are_half_of_the_sums():
    "The paper's tables, without this file: gains and losses by data set."
    v = lambda t, m, c: 100 * EXPECTED.tables[t].cell(c, method=m).value
    mean = lambda t, base, columns: round(sum(v(t, f"{base} + ARR", c) - v(t, base, c) for c in columns) / len(columns), 4)
    for metric, b2, b3, b4, b5, b6 in (("R@8", 1.9, 6.95, -1.45, -1.2, -1.05), ("MRR", 2.25, 8.75, -1.0, -1.2, -1.2)):
        both, few, forums = [f"{d} {metric}" for d in ("Reddit", "Fanfiction")], f"Amazon {metric}", [f"{d} {metric}" for d in ("Amazon", "Reddit")]
        assert round((mean("table2", "MLL", [few]) + mean("table2", "CL", [few])) / 2, 4) == b2
        assert (mean("table2", "MLL", both), mean("table2", "CL", both), mean("table3", "MLL", forums), mean("table3", "CL", forums)) == (b3, b4, b5, b6)
        sums = {c.id: {round(abs(r.value), 2) for r in OWN[c.id].results} for c in CLAIMS.claims[1:6]}
        for id, m in zip(("B2", "B3", "B4", "B5", "B6"), (b2, b3, b4, b5, b6)): assert round(abs(2 * m), 2) in sums[id], (id, metric)


def test_a_sum_shows_its_parts():
    r = OWN["B6"].results[0]
    assert (r.where, r.a, r.b, r.asked, r.holds) == ("T3", "CL Amazon R@8 − (CL + ARR Amazon R@8): +1.3", "(CL + ARR Reddit R@8) − CL Reddit R@8: −0.8", "= 0.5", False)
    blank = check_paper(CLAIMS.claim("B6"), changed("table3", "CL + ARR", "Reddit R@8", None)).results[0]
    assert (blank.value, blank.holds) == (None, None) and blank.b.endswith("not printed")


def test_numbers_of_the_errata():
    values = lambda id, digits=2: [round(r.value, digits) for r in ERRATA[id].results if r.value is not None]
    assert values(1) == [2.1, 2.4, .5] and values(2) == [.6, .5, -2.7, -3.1, -2.3, -1.5] and values(4) == [0, 0, 0]
    ratios = [r.value for r in ERRATA[3].results if r.ratio]
    assert ratios[0] == ratios[1] and round(ratios[0], 4) == .1375 and len(ratios) == 2 + 6 + 2 * 14 and (round(min(ratios[2:]), 2), round(max(ratios[2:]), 2)) == (.61, .94)
    assert values(5, 5)[:4] == [8.00002, 8.00002, 7.99998, 7.99998] and values(5)[4:] == [7.05, 3.3, 1.0]
    assert values(8) == [.6, .5, 2.3, 1.5, .6, .5, 2.3, .2, 1.0, 1.3]


def test_one_pool_of_texts_by_hand():
    "The check of erratum 5 asks for ratios; to one text the shares are eighty, ten and ten per cent."
    n = [EXPECTED.tables["table1"].cell(f"{p} samples", method="Amazon").value for p in ("Training", "Cross-topic test", "In-distribution-topic test")]
    assert all(abs(k - share * sum(n)) <= .5 for k, share in zip(n, (.8, .1, .1)))


# ---- another number, another verdict

@pytest.mark.parametrize("id, change, verdict", [("B1", ("table2", "MLL + ARR", "Reddit R@8", .167), "holds in 7 of 8"), ("B2", ("table2", "CL + ARR", "Amazon R@8", .727), "holds in 1 of 2"),
    ("B3", ("table2", "MLL", "Fanfiction MRR", .100), "holds in 2 of 3"), ("B4", ("table2", "CL", "Fanfiction R@8", .330), "holds in 3 of 4"), ("B5", ("table3", "MLL", "Reddit MRR", .182), "holds in 1 of 2"),
    ("B6", ("table3", "CL + ARR", "Reddit R@8", .308), "holds"), ("B7", ("table2", "MLL", "Fanfiction MRR", .176), "holds in 7 of 9"), ("B8", ("table3", "CL + ARR", "Amazon MRR", .852), "holds in 7 of 8"),
    ("R-B1", ("table2", "CL + ARR", "Reddit MRR", .176), "holds in 11 of 12"), ("R-B2", ("table3", "MLL + ARR", "Reddit MRR", .183), "holds in 15 of 16"), ("R-B3", ("table3", "CL + ARR", "Reddit MRR", .208), "holds"),
    ("R-B4", ("table2", "MLL", "Amazon R@8", .699), "holds in 9 of 10")])
def test_a_changed_cell_changes_the_verdict(id, change, verdict): assert check_paper(CLAIMS.claim(id), changed(*change)).verdict == verdict


@pytest.mark.parametrize("id, change, verdict", [(1, ("table3", "CL + ARR", "Reddit R@8", .308), "contradicted in 1 of 3"), (2, ("table2", "CL + ARR", "Amazon MRR", .559), "contradicted in 3 of 6"),
    (3, ("table2", "MLL", "Fanfiction MRR", .055), "confirmed in 39 of 40"), (4, ("table1", "Reddit", "Cross-topic test authors", 37516), "confirmed in 2 of 3"), (5, ("table1", "Amazon", "Training samples", 1312224), "confirmed in 5 of 7"),
    (8, ("table2", "CL + ARR", "Fanfiction R@8", .334), "confirmed in 7 of 10")])
def test_a_changed_cell_changes_an_erratum(id, change, verdict): assert check_erratum(CLAIMS.errata[id - 1], changed(*change)).verdict == verdict


def test_an_mrr_below_its_bound_is_seen():
    low = check_erratum(CLAIMS.errata[2], changed("table2", "MLL", "Fanfiction MRR", .009)).results[0]
    assert not low.holds and round(low.value, 4) == .1125 and low.asked == "ratio ≥ 0.125"


# ---- the file

def project(folder, old="", new=""):
    for name in ("claims", "expected"):
        text = (project_root() / name / "arr.yaml").read_text("utf-8")
        assert name != "claims" or old in text
        (folder / name).mkdir(exist_ok=True); (folder / name / "arr.yaml").write_text(text.replace(old, new, 1) if name == "claims" and old else text, "utf-8")
    return folder


@pytest.mark.parametrize("old, new, words", [("minus: {table: table3}}", "minus: {table: tabel3}}", ["R-B3: no table 'tabel3'", "did you mean 'table3'?"]), ("than: {table: beyond}", "than: {table: beynd}", ["Q-B6: no table 'beynd'", "did you mean 'beyond'?"]),
    ("than: {table: beyond}", "than: {}", ["`than` takes another `table`, `column` or `metric`"]), ("minus: {table: table3}}", "minus: {}}", ["`minus` takes another `order` or another `metric`"]),
    ("minus: {table: table3}}", "minus: {tabel: table3}}", ["minus.tabel: unknown key", "did you mean 'table'?"]), ("order: [CL, CL], column: kappa 0 R@8, than", "order: [CL, CL, CL], column: kappa 0 R@8, than", ["`than` is of two methods"]),
    ("than: {column: kappa 0.9 R@8}", "than: {column: kappa 0.9 R@8}, minus: {table: table3}", ["`than` is of two methods, and without `minus`"]), ("id: Q-B1", "id: X-B1", ["should match pattern"]), ("id: Q-B2", "id: Q-B1", ["claim Q-B1 stands twice"]),
    ("a: {method: MLL + ARR}", "a: {method: MLL + AAR}", ["B1: table2 has no method 'MLL + AAR'", "did you mean 'MLL + ARR'?"]), ("table: leakage, order", "table: leakages, order", ["R-B5: no table 'leakages'", "did you mean 'leakage'?"]),
    ("column: Cross-topic test authors", "column: Cross-topic authors", ["erratum 4: table1 has no column"])])
def test_mistakes_in_the_file(tmp_path, old, new, words):
    with pytest.raises(ConfigError, match="claims/arr.yaml") as e: load_claims("arr", project(tmp_path, old, new))
    for word in words: assert word in str(e.value)


# ---- our configurations

REAL = [replace(c, value=None, status="not run", records=[]) for c in all_cells() if c.paper == "arr"] # whatever has been run of them
def alone(claim, what): return claim.model_copy(update=dict(measured=(what,)))
def expanded(claim, cells=REAL): return expand(claim, cells, CLAIMS.groups, CLAIMS.methods)


def test_every_selector_fits_the_tables_of_this_project():
    "Each selector finds comparisons of ours, complete ones, at each of its profiles that has the table, and every table of ours is made by a configuration."
    for claim, what in ((c, w) for c in CLAIMS.claims for w in c.measured):
        found = expanded(alone(claim, what))
        lack = {c.profile for c in REAL if c.table == what.table and c.profile in what.profiles} - {c.profile for c in found if all(c.cells)}
        assert not lack or (what.column == "many" and lack == {"planted"}) or ("Amazon *" in what.column and lack == {"planted"}), (claim.id, what.formula, what.table, lack)
    assert {*CLAIMS.ours} <= {c.table for c in REAL} and {what.table for c in CLAIMS.claims for what in c.measured} == {"table2", "table3", *CLAIMS.ours}


def test_every_profile_is_asked():
    profiles = {c.id: {x.profile for x in expanded(c) if all(x.cells)} for c in CLAIMS.claims}
    assert all(p >= {"small"} for id, p in profiles.items() if id != "Q-B5") and profiles["Q-B5"] == {"planted"}
    assert {id for id, p in profiles.items() if "planted" not in p} == {"B3", "B4", "B7", "Q-B6"}, "of Reddit, Fanfiction and settings"


def test_what_cannot_be_run_is_one_encoder():
    "Comparisons without a configuration are those of MiniLM, which has neither MLL nor CL longer."
    lacking = {(x.claim, x.profile, x.encoder, x.column) for c in CLAIMS.claims for x in expanded(c) if not all(x.cells)}
    assert {x[1:] for x in lacking} == {("small", "minilm", f"Amazon {m}") for m in ("R@8", "MRR")} and {x[0] for x in lacking} == {"B2", "R-B4", "Q-B2"}


def test_without_configurations_nothing_is_a_mistake():
    "Of a paper's cells alone, as in a copy without our configurations, no method of ours is asked for."
    quoted = [Cell("arr", name, "paper", "", c.row["method"], c.column, "", "", "", "") for name, t in EXPECTED.tables.items() for c in t.cells]
    assert all(not c.encoder for id in ("B1", "Q-B1", "Q-B3", "R-B3") for c in expanded(CLAIMS.claim(id), quoted))
    with pytest.raises(ValueError, match="Q-B1: table2 has no method 'CL . distillation'"): expanded(CLAIMS.claim("Q-B1"), [*quoted, Cell("arr", "table2", "paper", "sBERT", "CL", "Amazon R@8", "ood", "Amazon", "cross", "r8")])


# ---- our runs

AUTHORS, METRICS = 60, ("r8", "mrr", "false topic share")


def made(levels, columns, profile="planted", seeds=(0, 43, 314), own=.0005, common=.05):
    "Cells and records. `levels` is {method: {test: level, or one a metric}}, `columns` {(table, column): test}. A test has its own items, the same for all methods; what a seed does is the same for all, but for a little noise."
    items = {t: common * np.random.default_rng([7, i]).standard_normal(AUTHORS) for i, t in enumerate(dict.fromkeys(columns.values()))}
    by_seed, found, cells = common * np.random.default_rng(0).standard_normal(len(seeds)), {}, []
    for k, (m, tests) in enumerate(levels.items()):
        rng = np.random.default_rng([1, k])
        for s, both in zip(seeds, by_seed):
            at = {t: {x: (v[x] if isinstance(v, dict) else v) + both + own * rng.standard_normal() for x in METRICS} for t, v in tests.items()}
            found[f"{m} {s}"] = dict(id=f"{m} {s}", seed=s, config={"training": {}}, metrics=at, replicates={t: {x: (v + items[t]).tolist() for x, v in xs.items()} for t, xs in at.items()})
        cells += [Cell("arr", table, profile, "demo", m, c, "ood", "made", t, "mrr" if c.endswith("MRR") else "r8", unit="fraction", status="measured", n=len(seeds), records=[f"{m} {s}" for s in seeds])
                  for (table, c), t in columns.items() if t in tests]
    return cells, found


def verdicts(id, levels, columns, keep=lambda w: True, **more):
    cells, found = made(levels, columns, **more)
    claim = CLAIMS.claim(id)
    return [judged(c, found) for c in expanded(claim.model_copy(update=dict(measured=tuple(w for w in claim.measured if keep(w)))), cells)]


BOTH = {("table2", "kappa 0.9 R@8"): "cross", ("table3", "kappa 0.9 R@8"): "iid"}
PAIR = {"MLL": dict(cross=.40, iid=.70), "MLL + ARR": dict(cross=.43, iid=.69), "CL": dict(cross=.50, iid=.80), "CL + ARR": dict(cross=.48, iid=.75)}


def test_a_gain_across_topics_minus_the_gain_in_distribution():
    "CL loses two points across topics and five in distribution: no gain in either, and still more across."
    found = {c.a: c for c in verdicts("R-B3", PAIR, BOTH)}
    assert {a: (c.verdict, round(c.difference.difference)) for a, c in found.items()} == {"MLL + ARR": ("holds", 4), "CL + ARR": ("holds", 3)}
    assert found["CL + ARR"].text == "((CL + ARR) − CL) − ((CL + ARR) − CL, T3)" and [x.table for x in found["CL + ARR"].cells] == ["table2"] * 2 + ["table3"] * 2
    b1, b8 = verdicts("B1", PAIR, BOTH), verdicts("B8", PAIR, BOTH)
    assert {c.a: c.verdict for c in b1} == {"MLL + ARR": "holds", "CL + ARR": "does not"} and {c.a: c.verdict for c in b8} == {"MLL + ARR": "holds", "CL + ARR": "does not"}, "one point is small, five are not"
    turned = {m: dict(cross=v["iid"], iid=v["cross"]) for m, v in PAIR.items()}
    assert {c.verdict for c in verdicts("R-B3", turned, BOTH)} == {"does not"}
    equal = PAIR | {"MLL + ARR": dict(cross=.42, iid=.72), "CL + ARR": dict(cross=.48, iid=.78)}
    assert {c.verdict for c in verdicts("R-B3", equal, BOTH, own=.005)} == {"within noise"}


def test_one_test_missing():
    cells, found = made(PAIR, BOTH)
    only = [c for c in cells if c.table == "table2"]
    assert not expanded(alone(CLAIMS.claim("R-B3"), CLAIMS.claim("R-B3").measured[0]), only), "Fanfiction of the paper has no test in distribution"
    for r in found.values(): r["metrics"].pop("iid")
    assert {judged(c, found).why for c in expanded(CLAIMS.claim("R-B3"), cells)} == {"the records have no r8"}
    for c in cells:
        if (c.table, c.method) == ("table3", "CL"): c.status, c.why, c.records = "not run", "has not been run", []
    assert [c.why for c in (judged(x, made(PAIR, BOTH)[1]) for x in expanded(CLAIMS.claim("R-B3"), cells))] == [None, "has not been run"]


def test_other_items_do_not_cancel():
    "Within a test items fall out of a difference of methods; of one method in two tests they do so only if these have the same items."
    cells, found = made({"CL": dict(a=.57, b=.50)}, {("table2", "kappa 0 R@8"): "a", ("table2", "kappa 0.9 R@8"): "b"})
    compared = lambda: judged(expanded(alone(CLAIMS.claim("Q-B5"), CLAIMS.claim("Q-B5").measured[0]), cells)[0], found)
    other = compared()
    for r in found.values(): r["replicates"]["b"] = {k: [x - r["metrics"]["a"][k] + r["metrics"]["b"][k] for x in v] for k, v in r["replicates"]["a"].items()}
    same, width = compared(), lambda c: c.difference.high - c.difference.low
    assert other.text == same.text == "CL − (CL, kappa 0.9 R@8)" and round(other.difference.difference) == round(same.difference.difference) == 7
    assert (other.verdict, same.verdict) == ("within noise", "holds") and width(other) > 20 > 1 > width(same), "five points of spread in either test"


def test_one_method_in_two_tables():
    places = {("across", "Amazon: R@8 across"): "chosen across", ("beyond", "Amazon: R@8 across"): "chosen inside"}
    found = verdicts("Q-B6", {m: {"chosen across": .55, "chosen inside": .50} for m in ("CL", "CL + ARR", "CL + distillation", "Product of experts")}, places, profile="small", common=.005)
    assert [(c.a, c.b, c.verdict, [x.evaluate for x in c.cells]) for c in found] == [(m, m, "holds", ["chosen across", "chosen inside"]) for m in ("CL", "CL + ARR", "CL + distillation", "Product of experts")]
    assert found[1].text == "(CL + ARR) − (CL + ARR, beyond)" and found[1].what.formula == "CL + ARR > CL + ARR (beyond)"


@pytest.mark.parametrize("gains, verdict", [((.05, .00), "holds"), ((.00, .05), "does not"), ((.02, .02), "within noise")])
def test_gain_at_less_leakage_minus_gain_at_more(gains, verdict):
    little, much = gains
    places = {("leakage", f"likeness {x}: R@8"): f"{x}" for x in ("0", "0.5", "1")}
    levels = {"CL": {"0": .40, "0.5": .60, "1": .80}, "CL + ARR": {"0": .40 + little, "0.5": .60 + (little + much) / 2, "1": .80 + much}}
    found = verdicts("R-B5", levels, places, own=.004)
    assert [c.column for c in found] == [f"likeness {x}: R@8" for x in ("0", "0", "0.5")] and found[0].verdict == verdict
    assert abs(found[0].difference.difference - 100 * (little - much)) < 1.5 and round(found[1].difference.difference + found[2].difference.difference, 6) == round(found[0].difference.difference, 6)


def test_a_smaller_share_is_the_better_one():
    places, share = {("table2", "kappa 0.9 R@8"): "cross", ("table2", "kappa 0.9 MRR"): "cross"}, lambda x: {"r8": .5, "mrr": .5, "false topic share": x}
    levels = {"CL": dict(cross=share(.62)), "CL + ARR": dict(cross=share(.65)), "MLL": dict(cross=share(.62)), "MLL + ARR": dict(cross=share(.55))}
    found = verdicts("R-B6", levels, places)
    assert [(c.text, c.column, c.verdict) for c in found] == [("CL − (CL + ARR), false topic share", "kappa 0.9 R@8", "does not"), ("MLL − (MLL + ARR), false topic share", "kappa 0.9 R@8", "holds")], "once a data set, not once a metric"


def test_a_sum_over_two_data_sets():
    "A gain of one point on one and of seven on the other: the mean is four, the sum eight. And a loss that the gain outweighs."
    places = {("table2", "Reddit R@8"): "r", ("table2", "Fanfiction R@8"): "f"}
    two = lambda r, f: verdicts("B3", {"MLL": dict(r=.20, f=.10), "MLL + ARR": dict(r=.20 + r, f=.10 + f)}, places, lambda w: "R@8" in w.column, profile="small")[0]
    assert (two(.01, .07).verdict, round(two(.01, .07).difference.difference)) == ("holds", 8) and two(-.02, .07).verdict == "holds" and two(-.07, .02).verdict == "does not"


def test_questions_of_ours():
    columns = {("table2", "kappa 0.9 R@8"): "cross"}
    level = {"CL": .50, "CL + ARR": .54, "CL + distillation": .54, "CL longer": .57, "MLL": .40, "MLL + ARR": .45, "MLL + distillation": .42}
    asked = {id: {(c.a, c.b): c.verdict for c in verdicts(id, {m: dict(cross=v) for m, v in level.items()}, columns, lambda w: w.table == "table2", own=.004)} for id in ("Q-B1", "Q-B2")}
    assert asked["Q-B1"] == {("CL + ARR", "CL + distillation"): "within noise", ("MLL + ARR", "MLL + distillation"): "holds"}
    assert asked["Q-B2"] == {("CL + ARR", "CL longer"): "does not", ("CL + distillation", "CL longer"): "does not"}
    places = {("beyond", "kappa 0.9: R@8 across"): "cross", ("beyond", "kappa 0.9: R@8 in distribution"): "iid"}
    experts = verdicts("Q-B4", {"CL": dict(cross=.50, iid=.90), "Product of experts": dict(cross=.53, iid=.80)}, places, lambda w: w.table == "beyond")
    assert [(c.a, c.column, c.verdict) for c in experts] == [("Product of experts", "kappa 0.9: R@8 across", "holds"), ("CL", "kappa 0.9: R@8 in distribution", "holds")]


@pytest.mark.parametrize("what, words", [(dict(order=("CL", "CL"), than=Elsewhere(table="table3")), "table3 has no method 'CL'"), (dict(order=("CL", "CL"), than=Elsewhere(column="kappa 1 R@8")), "table2 has no column 'kappa 1 R@8'")])
def test_names_that_are_not_elsewhere(what, words):
    cells = [c for c in made(PAIR, BOTH)[0] if (c.table, c.method) != ("table3", "CL")]
    with pytest.raises(ValueError, match=words): expanded(alone(CLAIMS.claim("Q-B5"), Measured(table="table2", **what)), cells)


# ---- pages

def test_the_page_of_claims(tmp_path):
    root, (cells, found) = project(tmp_path), made(PAIR, BOTH)
    page = render_claims(cells + [c for c in REAL if (c.profile, c.column) != ("planted", "kappa 0.9 R@8")], found, root)
    line = lambda id: next(x for x in page.splitlines() if x.startswith(f"| [{id}](#"))
    assert line("R-B3").endswith("| holds in 7 of 8 | **holds** (2 of 2 hold, 6 not run) | not run | not run |")
    assert "**does not**" in line("B1") and line("R-B5").endswith("| not testable | not run | not run | not run |")
    assert "8 claims, 6 relations, 6 own questions, [errata](arr/ERRATA.md)" in page and "Q-: a question of ours, which the paper does not ask." in page
    for claim in CLAIMS.claims: assert f"\n### {claim.id}\n" in page and claim.statement in page
    assert re.search(r"\| \(\(CL \+ ARR\) − CL\) − \(\(CL \+ ARR\) − CL, T3\) \| \+(2\.9|3\.0)", page) and "nan" not in page.lower() and page.count("<details>") == page.count("</details>")


def test_no_question_of_ours_where_there_is_none(tmp_path):
    page = render_claims([], {})
    a, b = page.index(f"## {EXPECTED.title}"), page.index(f"## {load_expected('itvreg').title}")
    assert page[a:b].count("Q-: a question of ours") == 1 and page.count("Q-: a question of ours") == 1


def test_the_page_of_errata():
    page = render_errata("arr")
    heading = lambda text: re.sub(r"[^\w-]", "", text.lower().replace(" ", "-"))
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) == {heading(x[4:]) for x in page.splitlines() if x.startswith("### ")}
    assert "| T3 | CL Amazon R@8 − (CL + ARR Amazon R@8): +1.3 | (CL + ARR Reddit R@8) − CL Reddit R@8: −0.8 | +2.1 | = 0.5 | no |" in page
    assert "| T2 · MLL | MLL Fanfiction MRR: 1.1 | MLL Fanfiction R@8: 8.0 | ratio 0.14 | ratio < 0.1667 | yes |" in page
    assert "| T1 · Amazon | Amazon In-distribution-topic test samples: 164016 | Amazon Cross-topic test samples: 164015 | 1 | = 1 | yes |" in page
