"README.md and the page of the tool are short, and their commands are those that exist."
import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from debias_nb.diagnosis import recommendations
from debias_nb.diagnosis.decision import RETRAIN
from debias_nb.data.texts import HeldTexts
from debias_nb.diagnosis.methods import HELD_GENERAL, read_methods
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
    lines = "\n".join(re.findall(r"```sh\n(.*?)```", PAGES, flags=re.S)).splitlines()
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
    assert run.exit_code == 0 and "runs to make" in run.stdout, run.output


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("make ")])
def test_targets_are_made(line):
    made = subprocess.run([*shlex.split(line), "--dry-run"], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("python ") and " --" in line])
def test_tools_have_the_options_that_they_print(line):
    _, tool, *words = line.split()
    told = subprocess.run([sys.executable, tool, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    options = re.findall(r"--[a-z][a-z-]*", " ".join(words))
    assert all(option in told.stdout for option in options), told.stdout


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("papermill ")])
def test_parameters_of_a_printed_papermill_exist(line):
    words = shlex.split(line)
    notebook = ROOT / next(word for word in words if word.endswith(".ipynb"))
    names = [words[place + 1] for place, word in enumerate(words) if word == "-p"]
    assert names and {*names} <= parameter_types(notebook).keys()


def test_commands_of_all_kinds_are_found():
    kinds = {re.match(PROGRAMS, line)[0].split()[0] for line in COMMANDS}
    assert kinds == {"debias-nb", "make", "python", "papermill"} and any(DRY.match(line) for line in COMMANDS)


def test_the_workflow_to_copy_runs_a_command_that_exists(tmp_path, monkeypatch):
    "Its actions are pinned as those of this repository are, and the page goes up also where the build fails."
    cells = json.loads((ROOT / "nbs/diagnosis/in_ci.ipynb").read_text("utf-8"))["cells"]
    [workflow] = re.findall(r"```yaml\n(.*?)```", "\n".join("".join(cell["source"]) for cell in cells), flags=re.S)
    [job] = yaml.safe_load(workflow)["jobs"].values()
    text = "\n".join(path.read_text("utf-8") for path in (ROOT / ".github/workflows").glob("*.yml"))
    assert all(f"uses: {step['uses']} #" in text for step in job["steps"] if "uses" in step)
    [command] = [step["run"] for step in job["steps"] if step.get("run", "").startswith("debias-nb")]
    folder = tmp_path / "tests/pairs"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    options = understood(command, folder).params
    assert options["fail_on"] == "worse" and job["steps"][-1]["if"] == "always()"
    assert job["steps"][-1]["with"]["path"] == str(options["out"])


def test_the_action_passes_its_inputs_on_and_gives_the_last_line(tmp_path):
    "Its script with a command instead of ours: an option a line, a blank in a name, nothing that a shell would run."
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    text = "\n".join(path.read_text("utf-8") for path in (ROOT / ".github/workflows").glob("*.yml"))
    assert all(f"uses: {step['uses']} #" in text for step in action["runs"]["steps"] if "uses" in step)
    [step] = [step for step in action["runs"]["steps"] if step.get("id") == "diagnose"]
    inputs = {name: re.search(r"inputs\.([\w-]+)", value)[1] for name, value in step["env"].items()}
    assert {*inputs.values()} == {*action["inputs"]}
    inputs_given = {"base": "my base", "tuned": "$(touch ran)", "test": "like=a.csv\nnew=b.csv\n", "fail-on": "worse",
                    "out": "page",
                    "options": "--where=split=test\n\n--margin=2"}
    (tmp_path / "debias-nb").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > asked\necho "VERDICT: worse | '
                                        'metric=ap"\nexit 1\n')
    (tmp_path / "debias-nb").chmod(0o755)
    env = {name: inputs_given.get(options, "") for name, options in inputs.items()} | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path), "GITHUB_OUTPUT": "output",
        "GITHUB_STEP_SUMMARY": "summary"}
    process = subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], cwd=tmp_path, env=env, capture_output=True,
                             text=True)
    assert process.returncode == 1, process.stderr
    assert (tmp_path / "asked").read_text().splitlines() == [
        "diagnose", "--out", "page", "--overwrite", "--where=split=test", "--margin=2", "--base=my base",
        "--tuned=$(touch ran)", "--test=like=a.csv", "--test=new=b.csv", "--fail-on=worse"]
    assert (tmp_path / "output").read_text() == "artifact=page\nverdict=VERDICT: worse | metric=ap\n"
    assert not (tmp_path / "ran").exists()
    for word, code, is_asked in (("True", 1, True), ("false", 1, False), ("maybe", 2, False)):
        (tmp_path / "asked").unlink(missing_ok=True)
        text = env | {name: word for name, template in inputs.items() if template == "verdict-words"}
        process = subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], cwd=tmp_path, env=text,
                                 capture_output=True, text=True)
        options = (tmp_path / "asked").read_text() if (tmp_path / "asked").exists() else ""
        assert process.returncode == code and ("--verdict-words" in options) == is_asked
    [use] = re.findall(r"```yml\n(.*?)```",
                       "\n".join("".join(cell["source"])
                                 for cell in json.loads((ROOT / "nbs/diagnosis/in_ci.ipynb").read_text("utf-8"))[
                                         "cells"]), flags=re.S)
    assert {*yaml.safe_load(use)[0]["with"]} <= {*action["inputs"]}


def test_targets_of_make_exist():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.M)
    names = re.findall(r"(?:^|&& |`)make ([a-z-]+)", TEXT, flags=re.M)
    assert names and set(names) <= set(targets)


def test_the_versions_are_those_of_pyproject():
    "The lowest versions that its last line names."
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lowest = dict(line.split(">=") for line in project["dependencies"])
    library = dict(re.findall(r"([\w-]+) (\d[\d.]*)", TEXT.splitlines()[-1].partition(", or newer")[0]))
    assert f">={library.pop('Python')}" == project["requires-python"]
    assert len(library) == 4 and library.items() <= lowest.items()


def paragraph(text: str, words: str) -> str:
    "The first line of a page that has these words."
    return next(line for line in text.splitlines() if words in line)


def test_every_place_advises_the_same_method():
    "Both pages of advice, a diagnosis with its program, and the default methods of `compare`."
    strength = (ROOT / "reports/studies/strength.md").read_text("utf-8")
    for text, words in ((TOOL, "**Do not ship**"), (TOOL, "| Train again with"), (strength, "**Answer.**")):
        advice = paragraph(text, words)
        assert recommendations.GENERAL.program in advice and "OutReg(0.1)" not in advice, words
    [share] = re.findall(r"on sentences with (\d+%)", TOOL)
    assert share == f"{recommendations.SHARE:.0%}" and f"λ from {recommendations.USUAL_STRENGTHS}," in TOOL
    for page in (TOOL, TEXT):
        [call] = re.findall(r"OutReg\([^)]*\)", paragraph(page, "loss = Regularized"))
        assert call == recommendations.LIKE_NEW.program
    assert f"Next: train again with {recommendations.LIKE_NEW.title}." in RETRAIN
    assert HELD_GENERAL == recommendations.GENERAL.method
    texts_held = HeldTexts(["a text"], "0", "general")
    [method] = [method_read for method_read in read_methods(None, texts_held) if method_read.texts]
    assert (method.name, method.regularizer, method.title) == tuple(vars(recommendations.GENERAL).values())


def test_every_place_has_the_steps_in_one_order():
    "Texts like the new data first, averaging without them or without training, and general texts last."
    to_do = TOOL.partition("\n| your case |")[2]
    twin = json.loads((ROOT / "reports/diagnosis/questions.json").read_text("utf-8"))
    places = [paragraph(TOOL, "**Do not ship**"), to_do, twin["decision"]["reason"], recommendations.LIMITS]
    steps = (r"(like|regularize on) (the new data|them|your new data|those)|new\.txt", r"\b[Aa]verage\W", r"[Gg]eneral")
    for text in places:
        first = [re.search(step, text.replace("averaged", "").replace("*", "")).start() for step in steps]
        assert first == sorted(first), text
    assert twin["snippet"].index("new.txt") < twin["snippet"].index("wise_ft")
    assert recommendations.LIKE_NEW.program in twin["snippet"]


def test_it_is_read_in_a_few_minutes_and_begins_with_what_was_found():
    prose = re.sub(r"<!--.*?-->|!\[[^\]]*\]\([^)]*\)", "", TEXT, flags=re.S)
    assert len(re.sub(r"\]\([^)]*\)", "]", prose).split()) <= 650
    order = ("![Left: ARR", "ARR is a temperature", "SCAN's weights", "does the work", "Ours", "pip install",
             "    tensor(", "Bansal", "Sawatphol", "Zhong", "debias-nb run", "debias-nb show",
             "debias-nb diagnose", "@software")
    places = [TEXT.index(words) for words in order]
    assert places == sorted(places) and TEXT.count("![") == 1
    assert all(len(cell) <= 40 for line in TEXT.splitlines() if line.startswith("|")
               for cell in re.sub(r"\]\([^)]*\)", "]", line).split("|")) # a phone shows them
    weights = re.search(r"tensor\(\[(.*?)\]", TEXT, re.S)[1].split(",")
    assert len(weights) == 12 and len({float(weight) for weight in weights}) == 1 # the output says what the text says


def links_of(path: Path) -> set[Path]:
    "The files that a page or notebook links to, with what it shows."
    return {(path.parent / address).resolve() for text in texts(path)
            for address in re.findall(r"\]\(([^)\s#:]+)", text)}


@pytest.mark.parametrize("folder", ["read", "losses", "measures", "encoders", "data", "diagnosis", "papers/data",
                                    "papers/worlds", "papers/tasks"])
def test_links_lead_from_it_to_every_notebook(folder):
    reached, ahead = set(), [ROOT / "README.md"]
    while ahead:
        path = ahead.pop()
        if path not in reached and path.suffix in (".md", ".ipynb") and path.is_file():
            reached.add(path)
            ahead += links_of(path)
    assert {*(ROOT / "nbs" / folder).glob("*.ipynb")} <= reached


PAGE = (ROOT / "reports/FINDINGS.md").read_text("utf-8")
FINDINGS = re.split(r"^## ", PAGE, flags=re.M)[1:]
GRADE = r"(high|moderate|low)(?: for [^,()]+)?(?: \([^()]+\))?" # what it is for, and what is lacking
CERTAIN = re.compile(rf"^\*Certainty: {GRADE}(?:, {GRADE})*\. Registered before the runs: .+\*$", re.M)
MEASUREMENT = re.compile(r"^\*\*Measured\.\*\* Loss: (.+?)\. Encoders: (.+)\. Data: (.+?)\. "
                         r"(?:Strongest alternative|Compared with): (.+)\.$", re.M)


def open_text(text: str) -> str:
    "What is read before anything is clicked: neither what is folded nor what a picture is called."
    return re.sub(r"<details.*?</details>|!\[[^\]]*\]\([^)]*\)", "", text, flags=re.S)


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding[15:16])
def test_a_finding_answers_first_and_says_how_certain_it_is_and_how_it_was_measured(finding):
    head, certain, picture, *_ = (part for part in finding.split("\n\n") if part)
    assert CERTAIN.fullmatch(certain) and picture.startswith("![") and len(head.split()) < 32
    assert "**Do:**" in open_text(finding)
    [details] = re.findall(r"<details.*?</details>", finding, flags=re.S)
    assert "**Objections.**" in details
    losses, encoders, data, alternative = MEASUREMENT.search(details).groups()
    assert re.fullmatch(r"(.+ \(\d+( to \d+)? seeds\)(, )?)+", encoders)
    assert all((losses, data, alternative))


def test_the_findings_are_read_in_minutes():
    assert len(FINDINGS) == 6 and len(open_text(PAGE).split()) <= 1_750


def test_what_its_table_takes_is_what_the_records_took():
    page = (ROOT / "reports/COST.md").read_text("utf-8")
    took = re.search(r"`debias-nb run itvreg/table03 --profile small[^`]*` \| [\d,]+ \| ([\d.]+) \| ([\d.]+) \|", page)
    assert re.search(r"took (\d+) minutes and ([\d.]+) GiB", TEXT).groups() == took.groups()
