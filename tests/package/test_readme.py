"Commands that are printed exist, and programs of README.md and of the page of the tool run as printed."
import ast
import contextlib
import re
import runpy
import shlex
import shutil
from pathlib import Path

import nbformat
import pytest
from made import some_pairs, table
from sentence_transformers import SentenceTransformer
from typer.main import get_command
from typer.testing import CliRunner

from debias_nb.commands.cli import app

from cells import texts

ROOT = Path(__file__).parents[2]
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


def test_the_page_that_a_number_leads_to_has_it():
    numbers = re.findall(r"\[([−+]\d[^|\n]*?\])\]\((reports/[^)#]+)", TEXT)
    assert len(numbers) == 4
    for number, page in numbers:
        assert number in (ROOT / page).read_text("utf-8"), f"{page} has no {number}"


def test_targets_of_make_exist():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.M)
    names = re.findall(r"(?:^|&& |`)make ([a-z-]+)", TEXT, flags=re.M)
    assert names and set(names) <= set(targets)


# What stands there as a program.

SNIPPETS = [
    snippet for path in ("README.md", "nbs/diagnosis/check.ipynb") for text in texts(ROOT / path)
    for snippet in re.findall(r"```python\n(.*?)```", text, flags=re.S)]


def standing_in(snippet, encoder):
    "A snippet with another encoder instead of the hub's, and texts instead of downloads, which a test cannot ask for."
    return snippet.replace('"minishlab/potion-base-2M"', repr(str(encoder))).replace(
        '"new.txt"', '["an old lamp", "red chairs"]')


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_the_snippets_of_the_readme_and_the_page_of_the_tool_run_as_printed(tmp_path, number):
    "Each alone as a program, in a folder with the files that it names, except the encoder; libraries are loaded once."
    folder = tmp_path / "empty"
    (folder / "mine").mkdir(parents=True)
    base = table(tmp_path)
    tuned = SentenceTransformer(str(base))
    tuned[0].embedding.weight.data[3] += 1
    tuned.save(str(folder / "mine"), create_model_card=False)
    for seed, name in enumerate(("test", "other")):
        some_pairs(seed=seed).to_csv(folder / f"{name}.csv", index=False)
    code = standing_in(SNIPPETS[number], base)
    assert str(base) in code or "minishlab" not in SNIPPETS[number]
    program = tmp_path / "program.py"
    program.write_text(code, "utf-8")
    with contextlib.chdir(folder):
        runpy.run_path(str(program), run_name="__main__")


@pytest.mark.slow
def test_the_table_of_the_guide_is_made_as_printed(tmp_path, monkeypatch):
    "In a project of its own: the runs of its configuration, and its page from these."
    guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Add a table")[2]
    settings, code = (re.search(rf"```{kind}\n(.*?)```", guide, flags=re.S)[1] for kind in ("yaml", "python"))
    notebook = nbformat.read(ROOT / "nbs/papers/itvreg/table03.ipynb", as_version=4)
    place = next(i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", []))
    notebook.cells[place + 1:-1] = [nbformat.v4.new_code_cell(code)]
    for folder in ("experiments/studies/itvreg", "nbs/papers/itvreg"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "settings.ini", tmp_path)
    shutil.copytree(ROOT / "experiments/printed", tmp_path / "experiments/printed")
    (tmp_path / "experiments/studies/itvreg/remedies.yaml").write_text(settings, "utf-8")
    nbformat.write(notebook, tmp_path / "nbs/papers/itvreg/remedies.ipynb")
    monkeypatch.chdir(tmp_path)
    for line in ("run itvreg/remedies", "report itvreg/remedies --fresh"):
        run = CliRunner().invoke(app, line.split())
        assert run.exit_code == 0, run.output
    page = (tmp_path / "_runs/reports/itvreg/remedies.md").read_text("utf-8")
    assert "**Answer.** " in page and "| OutReg − plain fine-tuning | " in page and "## Claim and runs" in page
