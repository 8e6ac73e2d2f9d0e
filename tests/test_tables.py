"What people add stands in one table of its kind: the help of the commands, messages and the site have it from there."
import json
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from typer.testing import CliRunner

from debias_nb import DataError, load_questions, read_pairs_file
from debias_nb.checks import ConfigError
from debias_nb.data.forms import FORMS, Columns, Form
from debias_nb.data.labeled_pairs import training_pairs
from debias_nb.data.registry import MissingData, inventory
from debias_nb.data.tables import FORMATS, Format
from debias_nb.explain.methods import METHODS, MethodSpec, read_method, read_methods
from debias_nb.explain.test_sets import FORMS as TESTS, check_metric
from debias_nb.repro.cli import app
from debias_nb.runs.config import CorpusConfig

ROOT = Path(__file__).parents[1]


@pytest.fixture
def help_of(monkeypatch):
    "The help of a command, as one line."
    monkeypatch.setenv("COLUMNS", "400")
    return lambda command: " ".join(CliRunner().invoke(app, [command, "--help"]).output.split())


def shown(notebook: str, what: str, **names) -> str:
    "What a cell of the site shows when it is made: of the cell that has some code, its last value."
    cells = nbformat.read(ROOT / notebook, 4).cells
    code = next(cell.source for cell in cells if cell.cell_type == "code" and what in cell.source)
    lines = code.splitlines()
    first = next(number for number, line in enumerate(lines) if what in line)
    exec("\n".join(lines[first:-1]), names)
    return str(eval(lines[-1], names))


def site_of_forms() -> str:
    return shown("nbs/your_files.ipynb", "FORMS.items()", FORMS=FORMS, FORMATS=FORMATS, Markdown=str)


def test_a_form_of_tests_is_added_in_one_place(monkeypatch, help_of):
    def ways(header):
        return [Columns("ranked", ("topic",), ("list",))] if not header.labels else []

    def read(name, frame, columns, options):
        rows = frame.rename(columns={"topic": "query", "list": "anchor"})
        return FORMS["retrieval"].read(name, rows.assign(positive="x"), Columns("retrieval", ("query",), ("anchor",)), options)

    monkeypatch.setitem(FORMS, "ranked", Form("ranked lists", "these texts are in this order", "`topic` and `list`", ways, read))
    for command in ("diagnose", "compare"):
        assert "ranked: topic and list" in help_of(command)
    assert "| ranked | these texts are in this order | `topic` and `list` |" in site_of_forms()
    rows = pd.DataFrame({"topic": ["eggs", "moles"], "list": ["boil them", "they dig"]})
    file = read_pairs_file(rows)
    assert file.form == "ranked" and file.note == "read as ranked lists: topic, list" and len(file) == 2
    with pytest.raises(DataError, match="did you mean 'ranked'"):
        read_pairs_file(rows, form="rankd")


def test_a_format_of_files_is_added_in_one_place(monkeypatch, help_of, tmp_path):
    def read(path, _split):
        return pd.DataFrame(json.loads(path.read_text()[1:]), [1, 2], ["left", "right", "label"], dtype=object)

    monkeypatch.setitem(FORMATS, ".rows", Format("Rows", read))
    assert "Arrow or Rows." in help_of("diagnose")
    assert "`.rows`" in site_of_forms()
    file = tmp_path / "new.rows"
    file.write_text('#[["an egg", "eggs", 1], ["a mole", "planes", 0]]')
    assert read_pairs_file(file).labels.tolist() == [1, 0]
    with pytest.raises(DataError, match=r"\.rows, with or without"):
        read_pairs_file(tmp_path / "new.row")


def test_the_docstring_names_each_format():
    assert [ending for ending in FORMATS if ending not in read_pairs_file.__doc__] == []
    assert [form for form in FORMS if f'"{form}"' not in read_pairs_file.__doc__] == []


def test_a_method_is_added_in_one_place(monkeypatch, help_of):
    monkeypatch.setitem(METHODS, "madeup", MethodSpec("a method of a test", "Made up, {:g}", .25, (.1, .25, .5, 1)))
    text = help_of("compare")
    assert "madeup:0.25" in text and "wise-ft:0.5" in text and "outreg-texts" in text
    *_, table = shown("nbs/explain/08_methods.ipynb", "METHODS.items() if spec.grid", METHODS=METHODS, pd=pd).splitlines()
    assert table.split() == ["madeup", "0.1,", "0.25,", "0.5,", "1"]
    assert read_method("madeup").title == "Made up, 0.25"
    with pytest.raises(ConfigError, match="did you mean 'madeup'"):
        read_methods("madeupp")


CORPUS = """datasets:
  madeup_forum:
    {title: Made up, licence: none, citation: none, by_hand: ask for it, layout: {reader: questions},
     files: [{file: train.tsv, format: tabs}, {file: test.tsv, format: tabs}]}
"""


def test_a_corpus_is_added_in_one_place(monkeypatch, tmp_path):
    (tmp_path / "datasets.yaml").write_text(CORPUS)
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "400")
    listing = CliRunner().invoke(app, ["data"]).output
    assert "madeup_forum" in listing and "ask for it" in listing
    assert [row["file"] for row in inventory() if row["dataset"] == "madeup_forum"] == ["train.tsv", "test.tsv"], "what the site shows"
    with pytest.raises(MissingData, match="madeup_forum/train.tsv is missing"):
        training_pairs(CorpusConfig(name="madeup_forum"))
    for read in (lambda: training_pairs(CorpusConfig(name="madeup_forun")), lambda: load_questions("madeup_forun", "train")):
        with pytest.raises(ValueError, match="did you mean 'madeup_forum'"):
            read()


def test_a_metric_is_added_to_a_form_in_one_place(monkeypatch, help_of):
    monkeypatch.setattr(TESTS["candidates"], "metrics", ("accuracy", "madeup"))
    for command in ("diagnose", "compare"):
        assert "auc05, ap (pairs); accuracy, madeup (candidates);" in help_of(command)
    file = read_pairs_file([{"anchor": "an egg", "positive": "eggs", "negative": "planes"}])
    with pytest.raises(ConfigError, match="did you mean 'madeup'"):
        check_metric("madeupp", [file])
