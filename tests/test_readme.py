"README.md is short, and its commands are those that exist."
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from debias_nb.repro.cli import app

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text("utf-8")
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", TEXT, flags=re.S))
COMMANDS = [line.partition("#")[0].strip() for line in SHELL.splitlines()]


def understood(line: str, folder: Path):
    "What the command line makes of a line, without running it; files that it names are there."
    for name in re.findall(r"[\w-]+\.csv", line):
        (folder / name).touch()
    command = get_command(app)
    rest = shlex.split(line)[1:]
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    return command.make_context(line, rest)


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("debias-nb")])
def test_commands_and_their_options_exist(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    understood(line, tmp_path)


def test_an_option_that_does_not_exist_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match="--tunde"):
        understood("debias-nb diagnose --base a --tunde b", tmp_path)


def test_targets_of_make_exist():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.M)
    named = [line.split()[1] for line in COMMANDS if line.startswith("make ")]
    assert named and set(named) <= set(targets)


def test_it_is_read_in_a_few_minutes():
    assert len(TEXT.splitlines()) <= 120
    assert TEXT.count("![") == 1 # one picture


def test_a_finding_is_short():
    "At most 90 words and 8 numbers each, without links at the foot, pictures, and what λ or a level is."
    text = (ROOT / "reports/FINDINGS.md").read_text("utf-8")
    findings = re.split(r"^## ", text, flags=re.M)[1:]
    assert len(findings) == 6
    for finding in findings:
        told = [line for line in finding.splitlines()[1:] if line and not line.startswith(("![", "["))]
        prose = re.sub(r"\]\([^)]*\)", "]", " ".join(told))
        numbers = re.findall(r"\d+(?:\.\d+)?", re.sub(r"AUC\(0\.05\)|R@8|P@1", "", prose))
        assert len(prose.split()) <= 90 and len(numbers) <= 8, finding.splitlines()[0]
