"The one form of a page of a printed table: words, print beside ours, what it takes to run, and who may exceed it."
import json
import re
from pathlib import Path

import pytest

from debias_nb.papers.pages.details import SCAN_ROWS
from debias_nb.papers.pages.expected import load_expected
from debias_nb.papers.pages.as_printed import printed_parts, title_of
from debias_nb.papers.pages.form import MOST_WORDS, UNEXPLAINED, blank_reasons, run_table
from debias_nb.papers.pages.form import show_cells, side_by_side, words_seen
from debias_nb.papers.pages.frame import Results, all_experiments, only
from debias_nb.papers.pages.report import arrange, page_of
from debias_nb.papers.pages.tables import main, means, with_std

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in (ROOT / "reports").glob("*/*.md") if re.fullmatch(r"(table|figure)\d+", path.stem))
NAMES = [f"{path.parent.name}/{path.stem}" for path in PAGES]
MOST_LINES = 25 # of code in a cell, MOST_CODE of a notebook of a table
MOST_CODE = 75


@pytest.fixture(scope="module")
def results():
    return Results()


@pytest.mark.parametrize("text, count", [
    ("# Two words", 2), ("| a | 1.5 ± 0.2 | — |\n|---|---:|---:|", 2),
    ("[two words](./a/long_address.md#with-parts)", 2),
    ("![not seen](./a.svg) one", 1), ('<a id="x"></a><details><summary>three are here</summary> and folded</details>',
                                      5), ("**AUC(0.05)** `run it`", 3),
])
def test_words_are_those_that_a_reader_sees(text, count):
    assert words_seen(text) == count


def parts_of(page): # `paper/name`
    paper = page.partition("/")[0]
    parts = {*printed_parts(one for one in all_experiments(paper) if page_of(one) == page)}
    lists = load_expected(paper).lists.keys()
    return parts | lists if parts & lists else parts


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_a_page_has_its_parts_in_few_words(path):
    name = f"{path.parent.name}/{path.stem}"
    page = path.read_text("utf-8")
    assert words_seen(page) <= MOST_WORDS * len(parts_of(name))
    parts = ["# ", "**Answer.** ", "## Claim and runs", "[Run it](", "## What differs", "## Run it"]
    places = [page.index(part) for part in parts]
    assert places == sorted(places) and re.search(rf"## Run it\n\n.*`debias-nb (run|report) {name}\b", page, re.S)


def test_print_and_ours_come_before_what_was_run():
    page = ("# T\n\n> The claim.\n\n**Answer.** No.\n\n## Table 3: print, and "
            "here\n\n" + "| a |\n" * 50 + "\n## What differs\n\nx\n")
    page_text = arrange(page, "[Run it]()", is_table=True)
    assert page_text.startswith("# T\n\n**Answer.** No.\n\n## Table 3: print, and here\n\n| a |")
    assert "<details" not in page_text
    assert page_text.endswith("## Claim and runs\n\n> The claim.\n\n[Run it]()\n\n## What differs\n\nx\n")


def test_all_printed_tables_have_a_place():
    "Those of `experiments/printed/` but none other, each on one page."
    parts = [f"{name.partition('/')[0]}/{part}" for name in NAMES for part in parts_of(name)]
    assert len(parts) == len({*parts})
    for paper in ("itvreg", "arr", "scan"):
        expected = load_expected(paper)
        assert {f"{paper}/{table}" for table in [*expected.tables, *expected.lists]} <= {*parts}


@pytest.mark.parametrize("name, table, like", [("itvreg/table03", "table3", None), ("arr/table02", "table2", None),
                                               ("scan/table03", "table3", {"TANDA-re": "TANDA"})])
def test_a_cell_beside_a_printed_one_is_of_the_same_row_and_column(results, name, table, like):
    study = results.load(name, "small")
    rows, gaps = side_by_side(study, table, like)
    printed = load_expected(study.experiment.paper).tables[table]
    table_means = means(study[table])
    assert len(gaps) < len(printed.cells)
    for (test, side), cells in rows.iterrows():
        for method, text in cells[cells != "—"].items():
            if test.endswith(" steps"):
                runs = main(only(study[table], method=method, test=test.replace(" steps", " R@8")))
                assert text.partition(" ")[0] == f"{runs.steps.mean():.0f}"
            elif side.startswith("here: "):
                key = method if table_means.index.nlevels == 1 else (side.removeprefix("here: "), method)
                row = table_means.loc[key]
                assert row[test].removesuffix(" (partial)") == text
            else:
                names = {method, *(paper for paper, name in (like or {}).items() if name == method)}
                texts = [with_std(cell.value, cell.std, printed.decimals) for cell in printed.cells
                         if cell.column == test and {*cell.row.values()} & names and cell.value is not None]
                assert text in texts


def test_names_that_nothing_has_leave_nothing_beside(results):
    rows, gaps = side_by_side(results.load("itvreg/table03", "planted"), "table3")
    assert rows.empty and len(gaps) == 84, "synthetic data have other columns"


def test_printed_rows_that_one_name_of_ours_would_take_stay_apart(results):
    rows, gaps = side_by_side(results.load("scan/table02", "small"), "table2", SCAN_ROWS)
    assert rows.loc[("MAP", "the paper"), "TANDA"] == "0.8890" and rows.loc[("P@1", "the paper"), "TANDA"] == "—"
    reasons = blank_reasons(gaps, load_expected("scan").without)
    assert f"{sum(gaps.why == 'quoted from earlier work')} quoted from earlier work (HyperQA, " in reasons
    assert "TANDA-re" in reasons and reasons.endswith("6 blank in print")


def test_columns_that_nothing_of_ours_is_like_stand_apart_where_that_is_asked(results):
    study = results.load("itvreg/table02", "small")
    rows, gaps = side_by_side(study, "table8", all_columns=True)
    assert rows.loc[("Electronics", "the paper"), "OutReg"] == "33.14 ± 0.07" and len(gaps) == 30
    assert set(study["table8"].test) < set(rows.index.get_level_values(0))
    assert side_by_side(study, "table8")[0].empty
    assert UNEXPLAINED in blank_reasons(gaps, {})


def test_what_a_page_takes_is_what_its_records_took(results):
    lines = run_table("itvreg/table03", results).splitlines()[2:5]
    for profile, line in zip(("planted", "small"), lines):
        records = results.load("itvreg/table03", profile).finished
        command, runs, minutes, memory = [cell.strip() for cell in line.strip("|").split("|")]
        assert f"--profile {profile} --fresh" in command and int(runs) == len(records)
        assert float(minutes) == pytest.approx(sum(record["seconds"] for record in records) / 60, rel=.05)
        assert float(memory) == pytest.approx(max(record["peak_memory_bytes"] for record in records) / 2**30, rel=.05)
    assert "estimated for a GPU" in lines[-1]


def test_a_part_has_a_title():
    assert title_of("table12") == "Table 12" and title_of("figure3") == "Figure 3"


TABLES = [name for name in NAMES if "/table" in name]


@pytest.mark.parametrize("name", TABLES)
def test_a_notebook_of_a_table_runs_and_renders(name):
    cells = json.loads((ROOT / f"nbs/papers/{name}.ipynb").read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert all(source.count("\n") < MOST_LINES for source in code)
    assert sum(source.count("\n") + 1 for source in code) <= MOST_CODE
    assert not [source for source in code
                if re.search(r"(?m)^\s*(def|class) ", source)], "what is shared is the library's"
    assert re.match(r"if further\b", code[-1])


@pytest.mark.parametrize("name, table, like", [("arr/table01", "table1", None), ("scan/table02", "table2", SCAN_ROWS)])
def test_cells_are_shown_as_they_stand_on_the_page(results, monkeypatch, name, table, like):
    parts = []
    monkeypatch.setattr("debias_nb.papers.pages.form.show", lambda *shown: parts.extend(shown))
    show_cells(results.load(name, "small"), table, like)
    page = (ROOT / f"reports/{name}.md").read_text("utf-8")
    assert len(parts) == 3 and all(f"{part}\n\n" in page for part in parts), "to their last line"
