"What people add stands in one table of its kind: the help of the commands, messages and the site have it from there."
import inspect
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from debias_nb import DataError, TrainingSettings, compare, diagnose, diagnose_results, diagnose_scores, diagnose_texts
from debias_nb import load_questions, read_pairs_file
from debias_nb.checks import ConfigError
from debias_nb.diagnosis.files.forms import FORMS, Columns, Form
from debias_nb.papers.data.labeled_pairs import training_pairs
from debias_nb.data.registry import MissingData, inventory
from debias_nb.data.tables import FORMATS, Format
from debias_nb.diagnosis.methods import METHODS, MethodSpec, read_method, read_methods
from debias_nb.diagnosis.ranges import RANGES, check_numbers
from debias_nb.diagnosis.test_sets import TEST_FORMS as TESTS, check_metric
from debias_nb.commands.cli import app
from debias_nb.papers.settings.pairs import PairsCorpus

ROOT = Path(__file__).parents[1]


@pytest.fixture
def list_names():
    "What a command lists, as one line."
    return lambda command: " ".join(CliRunner().invoke(app, [command]).output.split())


def show_table(notebook: str, marker: str, **names) -> str:
    "What a cell of the site shows when it is made: of the cell that has some code, its last value."
    cells = nbformat.read(ROOT / notebook, 4).cells
    code = next(cell.source for cell in cells if cell.cell_type == "code" and marker in cell.source)
    lines = code.splitlines()
    first = next(number for number, line in enumerate(lines) if marker in line)
    exec("\n".join(lines[first:-1]), names)
    return str(eval(lines[-1], names))


def site_of_forms() -> str:
    return show_table("nbs/diagnosis/your_files.ipynb", "FORMS.items()", FORMS=FORMS, FORMATS=FORMATS, Markdown=str)


def test_a_form_of_tests_is_added_in_one_place(monkeypatch, list_names):
    def ways(header):
        return [Columns("ranked", ("topic",), ("list",))] if not header.labels else []

    def read(name, frame, columns, options):
        rows = frame.rename(columns={"topic": "query", "list": "anchor"})
        return FORMS["retrieval"].read(name, rows.assign(positive="x"), Columns("retrieval", ("query",), ("anchor",)),
                                       options)

    monkeypatch.setitem(FORMS, "ranked", Form("ranked lists", "these texts are in this order", "`topic` and `list`",
                                              ways, read))
    assert "ranked: topic and list" in list_names("forms")
    assert "| ranked | these texts are in this order | `topic` and `list` |" in site_of_forms()
    rows = pd.DataFrame({"topic": ["eggs", "moles"], "list": ["boil them", "they dig"]})
    file = read_pairs_file(rows)
    assert file.form == "ranked" and file.note == "read as ranked lists: topic, list" and len(file) == 2
    with pytest.raises(DataError, match="did you mean 'ranked'"):
        read_pairs_file(rows, form="rankd")


def test_a_format_of_files_is_added_in_one_place(monkeypatch, list_names, tmp_path):
    def read(path, _split):
        return pd.DataFrame(json.loads(path.read_text()[1:]), [1, 2], ["left", "right", "label"], dtype=object)

    monkeypatch.setitem(FORMATS, ".rows", Format("Rows", read))
    assert list_names("forms").endswith("Arrow or Rows")
    assert "`.rows`" in site_of_forms()
    file = tmp_path / "new.rows"
    file.write_text('#[["an egg", "eggs", 1], ["a mole", "planes", 0]]')
    assert read_pairs_file(file).labels.tolist() == [1, 0]
    with pytest.raises(DataError, match=r"\.rows, with or without"):
        read_pairs_file(tmp_path / "new.row")


def test_the_docstring_names_each_format():
    assert [ending for ending in FORMATS if ending not in read_pairs_file.__doc__] == []
    assert [form for form in FORMS if f'"{form}"' not in read_pairs_file.__doc__] == []


def test_a_method_is_added_in_one_place(monkeypatch, list_names):
    monkeypatch.setitem(METHODS, "madeup", MethodSpec("a method of a test", "Made up, {:g}", .25, (.1, .25, .5, 1)))
    text = list_names("methods")
    assert "madeup:0.25" in text and "wise-ft:0.5" in text and "outreg-texts" in text
    *_, table = show_table("nbs/diagnosis/compare.ipynb", "METHODS.items() if spec.grid", METHODS=METHODS,
                           pd=pd).splitlines()
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
    assert ([row["file"] for row in inventory() if row["dataset"] == "madeup_forum"]
            == ["train.tsv", "test.tsv"]), "what the site shows"
    with pytest.raises(MissingData, match="madeup_forum/train.tsv is missing"):
        training_pairs(PairsCorpus(name="madeup_forum"))
    for read in (lambda: training_pairs(PairsCorpus(name="madeup_forun")),
                 lambda: load_questions("madeup_forun", "train")):
        with pytest.raises(ValueError, match="did you mean 'madeup_forum'"):
            read()


def test_a_metric_is_added_to_a_form_in_one_place(monkeypatch, list_names):
    monkeypatch.setattr(TESTS["candidates"], "metrics", ("accuracy", "madeup"))
    assert "metrics: auc05, ap candidates:" in list_names("forms")
    assert "metrics: accuracy, madeup retrieval:" in list_names("forms")
    file = read_pairs_file([{"anchor": "an egg", "positive": "eggs", "negative": "planes"}])
    with pytest.raises(ConfigError, match="did you mean 'madeup'"):
        check_metric("madeupp", [file])


COMMANDS = {command.callback.__name__: command for command in typer.main.get_command(app).commands.values()}
DOORS = [diagnose, diagnose_scores, diagnose_results, diagnose_texts, compare]
OF_FILES = {"columns", "group", "where", "match", "match_from", "other_to"} # read_pairs_file has them in Python


def numbers_of(function) -> set[str]:
    "The arguments of a door that are numbers."
    hints = {name: str(parameter.annotation) for name, parameter in inspect.signature(function).parameters.items()}
    return {name for name, hint in hints.items()
            if hint in ("<class 'int'>", "<class 'float'>", "int | None", "float | None")}


@pytest.mark.parametrize("function", DOORS, ids=lambda function: function.__name__)
def test_a_door_and_its_command_take_the_same(function):
    "And few: what is one question has one type of answer."
    arguments = {*inspect.signature(function).parameters}
    assert len(arguments) <= (18 if function is compare else 13)
    assert isinstance(inspect.signature(function).return_annotation, type)
    settings = {*inspect.signature(TrainingSettings).parameters}
    options = {option.name for option in COMMANDS[function.__name__].params} - OF_FILES - {
        "fail_on", "verdict_words", "overwrite", "help"}
    if function is compare:
        arguments = arguments - {"training"} | settings
    new_names = {"test": "tests", "out": "folder"} if function is compare else {"test": "tests"}
    names = {new_names.get(name, name) for name in options}
    assert names - {"out"} == arguments - {"progress"}


@pytest.mark.parametrize("function", [*DOORS, TrainingSettings], ids=lambda function: function.__name__)
def test_each_number_has_a_range_that_its_help_names_and_that_is_checked(function):
    for name in numbers_of(function):
        match = re.search(rf"^(?:    )?{name} : (.*)", inspect.getdoc(function), flags=re.MULTILINE)
        assert match is None or str(RANGES[name]) in match[1] or RANGES[name].low == -math.inf, name
        arguments = {key: "nowhere" for key, parameter in inspect.signature(function).parameters.items()
                     if parameter.default is parameter.empty}
        for wrong in (True, "many", RANGES[name].low - 1 if RANGES[name].low > -math.inf else math.inf):
            with pytest.raises(ConfigError, match=f"^{name} must"):
                function(**arguments | {name: wrong})
            with pytest.raises(ConfigError, match=f"^{name} must"):
                check_numbers(**{name: wrong})


def test_a_wrong_number_is_refused_by_the_command():
    run = CliRunner().invoke(app, ["diagnose", "--base", "a", "--tuned", "b", "--test", "n=nowhere.csv",
                                   "--sample", "9"])
    assert run.exit_code == 2 and run.output == "debias-nb: sample must be a whole number from 10, got 9\n"


@pytest.mark.slow
@pytest.mark.parametrize("words", [
    ["diagnose", "--help"], ["compare", "--help"], ["diagnose", "--nosuch"],
    ["compare", "--base", "a", "--train", "t", "--test", "n=t", "--out", "README.md"],
    ["diagnose-scores", "--test", "n={table}"]])
def test_help_and_refusals_wait_for_no_pytorch(words, tmp_path):
    (tmp_path / "t.csv").write_text("one,two,three\na,b,c\n")
    program = ("import sys; from debias_nb.commands.cli import app; sys.argv[1:] = {}\ntry:\n app()\nfinally:\n assert "
               "'torch' not in sys.modules and 'pandas' not in sys.modules")
    words = [word.format(table=tmp_path / "t.csv") for word in words]
    process = subprocess.run([sys.executable, "-c", program.format(words)], capture_output=True, text=True)
    assert process.returncode in (0, 2) and "AssertionError" not in process.stderr, process.stderr
