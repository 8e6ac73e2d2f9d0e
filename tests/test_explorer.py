"What the explorer of results is given: titles of pages, and differences of methods."
import explorer
import pytest
from notebooks import ROOT

from debias_nb.runs.config import load_experiment

KEYS = ("paper", "profile", "table", "encoder", "method", "column", "metric")
CELLS = [
    ("itvreg", "small", "table3", "MiniLM", "Finetuned", "quora -> askubuntu", "auc05"),
    ("itvreg", "small", "table3", "MiniLM", "OutReg", "quora -> askubuntu", "auc05"),
]
HEAD = "profile,table,encoder,corpus,test,evaluate,shift,method,metric,unit,against,difference,low,high,n,p,seeds_alone\n"
ROW = "small,table3,MiniLM,quora,quora -> askubuntu,askubuntu,ood,{},{},percent,Finetuned,25.4,{},30.1,3,0.001,False\n"


@pytest.fixture
def pages(tmp_path):
    (tmp_path / "itvreg").mkdir()
    lines = HEAD + ROW.format("OutReg", "auc05", 20.7) + ROW.format("OutReg", "ap", 1) + ROW.format("SimCSE", "auc05", 1)
    (tmp_path / "itvreg/table03.differences.csv").write_text(lines)
    return tmp_path


def test_a_difference_belongs_to_the_cell_of_its_method_and_measure(pages):
    cells = {name: list(column) for name, column in zip(KEYS, zip(*CELLS))}
    assert explorer.differences(cells, pages) == {
        "cell": [1], "against": ["Finetuned"], "difference": [25.4], "low": [20.7], "high": [30.1], "n": [3.]}


def test_a_table_is_called_as_its_page_with_the_papers_number():
    question = (ROOT / "reports/itvreg/table03.md").read_text("utf-8").splitlines()[0].removeprefix("# ")
    assert explorer.titled(load_experiment("itvreg/table03", "small"), "table3") == f"Table 3: {question}"
