"""Whatever pages have in a row of *the paper* or a column of what *the paper prints* stands in the paper."""
import re
from pathlib import Path

import pytest

from debias_nb.files import project_root
from debias_nb.papers.pages.as_printed import setting_comparisons
from debias_nb.papers.pages.expected import load_expected
from debias_nb.papers.pages.form import UNEXPLAINED
from debias_nb.papers.pages.frame import papers
from debias_nb.papers.pages.tables import with_std

REPORTS = project_root(Path(__file__).parent) / "reports"
PAGES = [path.relative_to(REPORTS) for path in sorted(REPORTS.glob("*/*.md")) if path.parent.name in papers()]
NUMBER = re.compile(r"[−-]?\d[\d,]*(\.\d+)?( ± [\d.]+)?")


def strangers(paper, page): # page: Markdown
    "List what stands under the paper's name and is in no cell of its table, or in no printed setting."
    settings = {item.of_paper for item in setting_comparisons(paper)}
    cells_found = []
    for section in re.split(r"^## ", page, flags=re.M):
        title = re.match(r"Table (\d+)\b", section)
        numbers = ()
        if title and (table := load_expected(paper).tables.get(f"table{title[1]}")):
            numbers = [with_std(cell.value, cell.std, table.decimals) for cell in table.cells if cell.value]
        for rows in re.findall(r"(?:^\|.*\n?)+", section, re.M):
            header, _, *lines = [re.split(r" ?(?<!\\)\| ?", line)[1:-1] for line in rows.splitlines()]
            for cells in lines:
                if re.match("the paper(:|$)", cells[1]):
                    cells_found += [cell for cell in cells[2:] if NUMBER.fullmatch(cell) and cell not in numbers]
                if header[0] == "setting":
                    cells_found += {cells[header.index("the paper prints")].replace("\\|", "|")} - settings
    return cells_found


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_what_stands_under_the_papers_name_is_printed(path):
    page = (REPORTS / path).read_text("utf-8")
    assert strangers(path.parent.name, page) == []
    assert UNEXPLAINED not in page, "each block of printed cells without one of ours has its reason"


@pytest.mark.parametrize("name, old, new", [
    ("scan/table02", "0.8890", "0.8875"), # a mean of two printed rows
    ("itvreg/table02", "39.71 ± 0.14", "39.71 ± 0.41"),
    ("itvreg/table03", "| NLI-DistilBERT, MSMARCO-DistilBERT-v4 |", "| NLI-DistilBERT or MSMARCO |"),
    ("arr/as_printed", "| 0, 43, 314 |", "| 0, 1, 2 |"),
])
def test_what_is_not_printed_is_found(name, old, new):
    page = (REPORTS / f"{name}.md").read_text("utf-8")
    assert old in page and strangers(name.partition("/")[0], page.replace(old, new))
