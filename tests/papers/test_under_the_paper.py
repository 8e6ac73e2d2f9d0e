"""Whatever pages have in a row of *the paper* or a column of what *the paper prints* stands in the paper."""
import re
from pathlib import Path

import pytest

from debias_nb.files import project_root
from debias_nb.papers.pages.as_printed import comparisons_of
from debias_nb.papers.pages.expected import load_expected
from debias_nb.papers.pages.form import UNEXPLAINED
from debias_nb.papers.pages.frame import papers
from debias_nb.papers.pages.tables import with_std

ROOT = project_root(Path(__file__).parent)
PAGES = sorted(path for path in (ROOT / "reports").glob("**/*.md") if path.parent.name in papers())
NUMBER = re.compile(r"[−-]?\d[\d,]*(\.\d+)?( ± [\d.]+)?")
SECTION = re.compile(r"## Table (\d+)\b")


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def foreign(paper, page): # page: Markdown
    "List what stands under the paper's name and is in no cell of its table, or in no printed setting."
    tables = {name: {with_std(cell.value, cell.std, table.decimals) for cell in table.cells if cell.value is not None}
              for name, table in load_expected(paper).tables.items()}
    settings = {item.of_paper for item in comparisons_of(paper)}
    found, table, header = [], "", []
    for before, line in zip(["", *page.splitlines()], page.splitlines()):
        if match := SECTION.match(line):
            table = f"table{match[1]}"
        if not line.startswith("|"):
            continue
        cells = cells_of(line)
        if not before.startswith("|"):
            header = cells
        if len(cells) > 1 and re.match("the paper(:|$)", cells[1]):
            found += [cell for cell in cells[2:] if NUMBER.fullmatch(cell) and cell not in tables[table]]
        if header and header[0] == "setting" and line != before and cells != header and not cells[0].startswith("---"):
            value = cells[header.index("the paper prints")]
            found += [value] * (value not in settings)
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_stands_under_the_papers_name_is_printed(path):
    page = path.read_text("utf-8")
    assert foreign(path.parent.name, page) == []
    assert UNEXPLAINED not in page, "each block of printed cells without one of ours has its reason"


@pytest.mark.parametrize("name, old, new", [
    ("scan/table02", "0.8890", "0.8875"), # a mean of two printed rows
    ("itvreg/table02", "39.71 ± 0.14", "39.71 ± 0.41"),
    ("itvreg/table03", "| NLI-DistilBERT, MSMARCO-DistilBERT-v4 |", "| NLI-DistilBERT |"),
    ("arr/as_printed", "| 0, 43, 314 |", "| 0, 1, 2 |"),
])
def test_what_is_not_printed_is_found(name, old, new):
    page = (ROOT / f"reports/{name}.md").read_text("utf-8")
    assert old in page and foreign(name.partition("/")[0], page.replace(old, new))
