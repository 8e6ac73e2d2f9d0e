"README.md and the page of the tool are short, and their commands are those that exist."
import ast
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from debias_nb.commands.cli import app
from debias_nb.papers.pages.execution import parameter_types

from test_links import texts

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text("utf-8")
TOOL = "\n\n".join(texts(ROOT / "nbs/diagnosis/check.ipynb"))
PAGES = TEXT + TOOL + "\n".join(
    path.read_text("utf-8") for path in (ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))))
HEADERS = "\n".join(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
                    for folder in ("tools", "bench") for path in sorted((ROOT / folder).glob("*.py")))
PROGRAMS = r"(?:\.venv/bin/)?(?:debias-nb|make|python (?:tools|bench)/\w+\.py|papermill) "


def printed_commands() -> list[str]:
    "The commands of fenced blocks, of code in a sentence, and of the headers of tools, each once."
    lines = "\n".join(re.findall(r"```sh\n(.*?)```", PAGES, flags=re.S)).replace("\\\n", " ").splitlines()
    lines += re.findall(rf"`({PROGRAMS}[^`]+)`", PAGES)
    lines += re.findall(r"^ *(python \S+(?: (?:--?\w|[A-Z]|[a-z]+\b(?!.*  )).*?)?)(?:  .*)?$", HEADERS, flags=re.M)
    parts = [part.strip() for line in lines for part in line.partition("#")[0].split(" && ")]
    return [*dict.fromkeys(part.removeprefix(".venv/bin/") for part in parts if re.match(PROGRAMS, part))]


COMMANDS = printed_commands()


def understood(line: str, folder: Path):
    "What the command line makes of a line, without running it; files that it names are there."
    for name in re.findall(r"[\w-]+\.csv", line):
        (folder / name).touch()
    command = get_command(app)
    words = shlex.split(line)[1:]
    if len(words) == 1: # a command that is named, not typed
        return command.commands[words[0]]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    return command.make_context(line, words)


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("debias-nb")])
def test_commands_and_their_options_exist(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    understood(line, tmp_path)


DRY = re.compile(r"debias-nb (run|batch) [a-z]+(/\w+)?( |$)")


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in COMMANDS if DRY.match(line) and line in TEXT]) # others: test_recipes
def test_commands_that_make_runs_say_what_these_cost(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    run = CliRunner().invoke(app, [*shlex.split(line)[1:], *["--dry-run"] * ("--dry-run" not in line)])
    assert run.exit_code == 0 and " to make" in run.stdout, run.output


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("papermill ")])
def test_parameters_of_a_printed_papermill_exist(line):
    words = shlex.split(line)
    notebook = ROOT / next(word for word in words if word.endswith(".ipynb"))
    names = [words[place + 1] for place, word in enumerate(words) if word == "-p"]
    assert names and {*names} <= parameter_types(notebook).keys()


def test_targets_of_make_exist():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.M)
    names = re.findall(r"(?:^|&& |`)make ([a-z-]+)", TEXT, flags=re.M)
    assert names and set(names) <= set(targets)
