"What people add stands in one table of its kind: the help of the commands, messages and the site have it from there."
import inspect
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from debias_nb import compare, diagnose
from debias_nb.checks import ConfigError
from debias_nb.diagnosis.ranges import RANGES, check_numbers
from debias_nb.commands.cli import app

ROOT = Path(__file__).parents[2]


COMMANDS = {command.callback.__name__: command for command in typer.main.get_command(app).commands.values()}
DOORS = [diagnose, compare]
OF_FILES = {"columns", "match", "match_from"} # read_pairs_file has them in Python


def numbers_of(function) -> set[str]:
    "The arguments of a door that are numbers."
    hints = {name: str(parameter.annotation) for name, parameter in inspect.signature(function).parameters.items()}
    return {name for name, hint in hints.items()
            if hint in ("<class 'int'>", "<class 'float'>", "int | None", "float | None")}


@pytest.mark.parametrize("function", DOORS, ids=lambda function: function.__name__)
def test_a_door_and_its_command_take_the_same(function):
    arguments = {*inspect.signature(function).parameters}
    assert len(arguments) <= (19 if function is compare else 12)
    options = {option.name for option in COMMANDS[function.__name__].params} - OF_FILES - {
        "fail_on", "overwrite", "help"}
    new_names = {"test": "tests", "out": "folder"} if function is compare else {"test": "tests"}
    names = {new_names.get(name, name) for name in options}
    assert names - {"out"} == arguments - {"progress"}


def test_the_demonstration_asks_for_nothing():
    assert {option.name for option in COMMANDS["demo"].params} <= {"help"}


@pytest.mark.parametrize("function", DOORS, ids=lambda function: function.__name__)
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
    ["diagnose", "--base", "a", "--tuned", "b", "--test", "n=t.xlsx"]])
def test_help_and_refusals_wait_for_no_pytorch(words):
    program = ("import sys; from debias_nb.commands.cli import app; sys.argv[1:] = {}\ntry:\n app()\nfinally:\n assert "
               "'torch' not in sys.modules and 'pandas' not in sys.modules")
    process = subprocess.run([sys.executable, "-c", program.format(words)], capture_output=True, text=True)
    assert process.returncode in (0, 2) and "AssertionError" not in process.stderr, process.stderr
