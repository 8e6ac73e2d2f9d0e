"Each number of the pages that sum up comes from a fact, and one that is changed on a page or in a record is found."
import random
import shutil

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from debias_nb.commands.cli import app
from debias_nb.files import project_root
from debias_nb.papers.pages.facts import Facts
from debias_nb.papers.pages.numbers import NUMBERS_FILE, NUMBER, PAGES, UNSEEN, bindings, manifest
from debias_nb.runs.records import Store

ROOT = project_root()
FACTS = Facts.read()
TRIALS = 10


@pytest.fixture
def draw():
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}") # shown where a test fails
    return random.Random(seed)


def other(digit, draw):
    "Draw another digit."
    return draw.choice([own for own in "123456789" if own != digit])


def test_every_number_comes_from_somewhere_and_the_manifest_says_from_where():
    assert [row for page in PAGES for row in bindings(page, FACTS) if not row.source] == []
    assert (ROOT / "reports" / NUMBERS_FILE).read_text("utf-8") == manifest(FACTS)


def test_a_number_that_is_changed_on_a_page_is_found(draw):
    for _ in range(TRIALS):
        page = draw.choice([*PAGES])
        text = (ROOT / page).read_text("utf-8")
        visible = UNSEEN.sub(lambda match: "\n" * match[0].count("\n") + " " * (len(match[0]) - match[0].count("\n")),
                             text)
        match = draw.choice([*NUMBER.finditer(visible)])
        place = draw.choice([i for i in range(*match.span()) if text[i].isdigit()])
        changed = text[:place] + other(text[place], draw) + text[place + 1:]
        assert any(not row.source for row in bindings(page, FACTS, changed)), (page, match[0])


def test_a_value_that_is_changed_in_a_record_is_found(draw, tmp_path):
    shutil.copy(ROOT / "experiments/sha256.txt", tmp_path)
    for folder in ("itvreg", "arr", "scan"):
        shutil.copytree(ROOT / "experiments" / folder, tmp_path / folder)
    store = Store(tmp_path)
    assert store.altered_files() == []
    paths = sorted(tmp_path.glob("*/*.parquet"))
    for _ in range(TRIALS):
        path = draw.choice(paths)
        original = path.read_bytes()
        table = pq.read_table(path)
        metrics = table["metrics"].to_pylist()
        row = draw.choice([i for i, text in enumerate(metrics) if text and any(map(str.isdigit, text))])
        place = draw.choice([i for i, character in enumerate(metrics[row]) if character.isdigit()])
        metrics[row] = metrics[row][:place] + other(metrics[row][place], draw) + metrics[row][place + 1:]
        column = table.column_names.index("metrics")
        pq.write_table(table.set_column(column, "metrics", pa.array(metrics, table["metrics"].type)), path)
        assert [str(path) in problem for problem in store.altered_files()] == [True]
        path.write_bytes(original)


def test_a_number_leads_to_its_runs():
    said = CliRunner().invoke(app, ["show", "outreg_ngame"], catch_exceptions=False).output
    for words in (f"outreg_ngame: {FACTS['outreg_ngame']} (README.md", "seeds 0, 1, 2", "commits: ",
                  "again: debias-nb run itvreg/title_losses --profile small --fresh",
                  "settings: experiments/itvreg/title_losses.small.yaml", "with --ids"):
        assert words in said
    number = str(FACTS["outreg_ngame"]).partition(" ")[0]
    assert "outreg_ngame: " in CliRunner().invoke(app, ["show", "--", number], catch_exceptions=False).output
    refused = CliRunner().invoke(app, ["show", "12345.678"])
    assert refused.exit_code != 0


def test_a_cell_of_a_table_leads_to_its_own_runs():
    cells = pd.read_csv(ROOT / "reports/itvreg/table02.csv").query("profile == 'small' and method == 'OutReg'")
    value = cells.value.iloc[0]
    asked = ["show", f"{value:.1f}", "--page", "itvreg/table02"]
    said = CliRunner().invoke(app, asked, catch_exceptions=False).output
    [line] = [line for line in said.splitlines() if f"OutReg, {cells.column.iloc[0]}" in line and "potion" in line]
    assert f"{value:.1f}"[:2] in line and f" {cells.n.iloc[0]} runs of experiments/itvreg/table02.small.parquet" in said
    assert "again: debias-nb run itvreg/table02 --profile small --fresh" in said and "commits: " in said
    for wrong in (["12345.6", "--page", "itvreg/table02"], ["13.1", "--page", "itvreg/nothing"]):
        assert CliRunner().invoke(app, ["show", *wrong]).exit_code != 0
