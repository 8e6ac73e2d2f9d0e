"What people add stands in one table of its kind: the help of the commands, messages and the site have it from there."
import importlib.util
import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from typer.testing import CliRunner

from debias_nb import DataError, load_questions, read_pairs_file
from debias_nb.checks import ConfigError
from debias_nb.diagnosis.files.forms import FORMS, Columns, Form
from debias_nb.papers.data.labeled_pairs import training_pairs
from debias_nb.data.registry import MissingData, inventory
from debias_nb.data.tables import FORMATS, Format
from debias_nb.diagnosis import parameters as parameters_module
from debias_nb.diagnosis.methods import METHODS, MethodSpec, read_method, read_methods
from debias_nb.diagnosis.parameters import parameters
from debias_nb.diagnosis.test_sets import FORMS as TESTS, check_metric
from debias_nb.commands.cli import app
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
    return shown("nbs/diagnosis/your_files.ipynb", "FORMS.items()", FORMS=FORMS, FORMATS=FORMATS, Markdown=str)


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
    *_, table = shown("nbs/diagnosis/compare.ipynb", "METHODS.items() if spec.grid", METHODS=METHODS, pd=pd).splitlines()
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


OPTION = """    madeup : int in [2, 5]
        A made-up number. In Python, too.
"""


@pytest.fixture
def package_with_an_option(tmp_path, monkeypatch):
    "A copy of the package in which `label` has one more parameter, in its signature and its docstring."
    package = shutil.copytree(ROOT / "debias_nb", tmp_path / "debias_nb", ignore=shutil.ignore_patterns("__pycache__"))
    module = package / "diagnosis" / "label.py"
    text = module.read_text()
    for place, addition in (("seed: int = 0, progress", "madeup: int = 3, "), ("    seed : int in", OPTION)):
        assert text.count(place) == 1
        text = text.replace(place, addition + place)
    module.write_text(text)
    monkeypatch.setattr(parameters_module, "__file__", str(package / "diagnosis" / "parameters.py"))
    parameters.cache_clear()
    yield package
    parameters.cache_clear()


def test_an_option_is_added_in_one_place(package_with_an_option):
    "The signature and docstring of its function: the command, its help and the check of its range are made from there."
    def command(*arguments):
        environment = os.environ | {"PYTHONPATH": str(package_with_an_option.parent), "COLUMNS": "400"}
        call = [sys.executable, "-m", "debias_nb.commands.cli", "label", *arguments]
        return subprocess.run(call, cwd=package_with_an_option.parent, env=environment, capture_output=True, text=True)

    assert "--madeup <int in [2, 5]> A made-up number. [default: 3]" in " ".join(command("--help").stdout.split())
    refused = command("--base", "a", "--tuned", "b", "--madeup", "6")
    assert refused.returncode == 2 and refused.stderr == "debias-nb: madeup must be a whole number from 2 to 5, got 6\n"
    assert "madeup" in command("--base", "a", "--tuned", "b", "--madeup", "many").stderr


def test_an_option_reaches_python_and_the_site_from_the_same_place(package_with_an_option, monkeypatch):
    docs = pytest.importorskip("docs") # which makes the site
    name = "debias_nb.diagnosis.label"
    spec = importlib.util.spec_from_file_location(name, package_with_an_option / "diagnosis" / "label.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert inspect.signature(module.label).parameters["madeup"].default == 3
    with pytest.raises(ConfigError, match="madeup must be a whole number from 2 to 5, got 1"):
        module.label("a", "b", "pool.csv", out="new.csv", madeup=1)
    monkeypatch.setitem(sys.modules, name, module)
    page = docs.doc_cell(name, "label").outputs[0].data["text/markdown"]
    assert "A made-up number." in page and "madeup" in page


@pytest.mark.parametrize("function", ["diagnose", "compare", "label"])
def test_each_whole_number_has_a_range_and_each_range_can_be_read(function):
    for name, parameter in parameters(function).items():
        assert parameter.help.endswith("."), name
        assert bool(parameter.bounds) == (" in " in parameter.kind), name
        assert parameter.bounds or not parameter.annotation.startswith("int"), name
