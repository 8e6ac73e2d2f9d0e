"""The recipes of CONTRIBUTING.md, followed to the letter in a copy of the project: each gives what it promises."""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from debias_nb.data.registry import inventory, load_registry
from debias_nb.repro.pages.frame import only_stored
from debias_nb.repro.pages.report import write_page
from debias_nb.runs.records import Store
from debias_nb.repro.pages.answers import OF_CLAIMS
from debias_nb.repro.pages.verdicts import read_ledger
from made import shrunk

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
FENCED = re.compile(r"(?P<before>[^\n]+)\n\n```\w+\n(?P<text>.*?)```", re.DOTALL)
FILE = re.compile(r"(?<!\()(?:nbs|configs|debias_nb)/[\w/.]+\.(?:ipynb|yaml|py)")


# Reading a recipe

def recipe(title: str) -> str:
    "The text of a recipe."
    whole = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    after = whole.split(f"## {title}\n")[1]
    return re.split(r"\n## (?=Add|Outputs)", after)[0]


class Block(NamedTuple):
    "A fenced block, and the files that the line before it names."
    files: list[str]
    text: str


def blocks(title: str) -> list[Block]:
    "The blocks of a recipe in their order."
    return [Block(FILE.findall(match["before"]), match["text"]) for match in FENCED.finditer(recipe(title))]


def commands(title: str) -> list[list[str]]:
    "The arguments of each `debias-nb …` of a recipe."
    return [shlex.split(arguments) for arguments in re.findall(r"`debias-nb ([^`]+)`", recipe(title))]


def command(title: str) -> list[str]:
    "The arguments of the first one."
    return commands(title)[0]


# Applying a block

@contextmanager
def opened(path: Path):
    "A notebook, which is written back with its changes."
    nb = nbformat.read(path, 4)
    yield nb
    nbformat.write(nb, path)


def changed(text: str, diff: str) -> str:
    "A text after a diff, whose places are parted by lines `@@`; each place must be there."
    for place in diff.split("@@\n"):
        lines = place.splitlines()
        old = "\n".join(line[1:] for line in lines if line[0] in " -")
        new = "\n".join(line[1:] for line in lines if line[0] in " +")
        assert old in text, f"not there: {old}"
        text = text.replace(old, new, 1)
    return text


# The copy

def tool(name, *args, cwd):
    "Run a command of this environment. Raises `RuntimeError` with what it printed when it fails."
    env = {key: value for key, value in os.environ.items() if key != "IN_TEST"} # nbdev exports nothing where this is set
    done = subprocess.run([Path(sys.executable).parent / name, *args], cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name} {' '.join(args)}: {(done.stdout + done.stderr)[-3000:]}")


@pytest.fixture
def project(tmp_path, monkeypatch):
    "A copy of the project, which is the current folder; its data, and what is made there, stay there."
    for name in ("nbs", "debias_nb", "configs", "expected", "reports", "tests", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for name in ("settings.ini", ".gitignore", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("DEBIAS_NB_RUNS", raising=False)
    return tmp_path


def test_a_method_becomes_a_row(project):
    method, row = blocks("Add a method")
    with opened(project / method.files[0]) as nb:
        [registry] = [i for i, cell in enumerate(nb.cells) if "\nREGULARIZERS = {" in cell.source]
        nb.cells.insert(registry + 1, new_code_cell(method.text))
    config = project / row.files[0]
    config.write_text(shrunk(changed(config.read_text("utf-8"), row.text)), "utf-8")
    tool("nbdev_export", cwd=project)

    few = ["--seeds", "7,8", "-p", "encoders=[tiny]", "--workers", "1"]
    tool("debias-nb", *command("Add a method"), *few, cwd=project)

    files = (project / "_runs/itvreg/table03.planted").glob("*.json")
    records = [json.loads(file.read_text("utf-8")) for file in files] # this process knows no such method, and would leave its runs out
    of = {record["config"]["method"]["name"]: record for record in records}
    assert of.keys() == {"Base", "Finetuned", "MeanZero"}
    assert of["MeanZero"]["status"] == "finished"
    assert of["MeanZero"]["metrics"].keys() == {"iid", "uncoupled", "unseen"}
    assert min(of["MeanZero"]["curve"]["raw"]) > 0
    [executed] = (project / "_runs/notebooks/itvreg").glob("table03.planted.*.ipynb")
    page = executed.read_text("utf-8")
    assert "| MeanZero |" in page
    assert ">MeanZero</text>" in page


FORUM = { # the files whose hashes the recipe has
    "train.tsv": "1\tHow do I mend a kettle?\tMy kettle leaks\n0\tHow do I mend a kettle?\tWho buys lamps?\n",
    "test.tsv": "1\tWho buys old chairs?\tWhere can I sell a chair?\n0\tWho buys old chairs?\tWho mends tables?\n",
}
READ = """
from debias_nb.data.pairs import load_questions
train = load_questions("forum", "train")
test = load_questions("forum", "test")
assert sorted(train.labels) == [0, 1] and train.left[0] == "How do I mend a kettle?"
assert len(test.labels) == 2 and test.left[0] == "Who buys old chairs?"
"""


def inventory_of_forum(registry: Path) -> dict[str, str]: # file -> status
    "What `debias-nb data` says of the files."
    return {row["file"]: row["status"] for row in inventory(load_registry(registry)) if row["dataset"] == "forum"}


def test_a_corpus_is_found_and_read(project):
    [about] = blocks("Add a corpus")
    registry = project / about.files[0]
    registry.write_text(registry.read_text("utf-8") + about.text, "utf-8")
    folder = project / "data/forum"
    folder.mkdir(parents=True)
    for file, text in FORUM.items():
        (folder / file).write_text(text, "utf-8")

    assert inventory_of_forum(registry) == {"train.tsv": "here", "test.tsv": "here"}
    tool("python", "-c", READ, cwd=project)

    (folder / "train.tsv").write_text("1\tanother\tfile\n", "utf-8")
    assert inventory_of_forum(registry) == {"train.tsv": "refused", "test.tsv": "here"}
    with pytest.raises(RuntimeError, match="ChangedData.*train.tsv.*move it away"):
        tool("python", "-c", READ, cwd=project)


def test_a_table_becomes_a_page(project):
    runs, page = blocks("Add a table")
    (project / runs.files[0]).write_text(runs.text, "utf-8")
    source, target, *_ = page.files
    shutil.copy(project / source, project / target)
    with opened(project / target) as nb:
        [parameters] = [i for i, cell in enumerate(nb.cells) if "parameters" in cell.metadata.get("tags", [])]
        nb.cells[parameters + 1 : -1] = [new_code_cell(page.text)]
        nb.cells[0].source = "# Two remedies\n\n> Do they help?"
    git = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "core.hooksPath=/dev/null"]
    for step in (["init", "--quiet"], ["add", "."], [*git, "commit", "--quiet", "--message=a table"]):
        subprocess.run(["git", *step], check=True)
    run, publish = commands("Add a table")
    tool("debias-nb", *run, "--workers", "1", cwd=project)
    assert "itvreg/remedies.planted" not in Store(project / "results").places()
    tool("debias-nb", *publish, cwd=project)
    assert len(Store(project / "results").records("itvreg/remedies.planted")) == 4

    written = write_page("itvreg/remedies", project / "reports")
    assert {"remedies.md", "remedies.csv", "remedies.differences.csv"} <= {path.name for path in written}
    text = written[0].read_text("utf-8")
    assert "4 of 4 runs completed" in text
    assert re.search(r"\| OutReg \| [\d.]+ ± [\d.]+ \|", text)
    assert re.search(r"\| OutReg \| .*\[.*\]", text)


def test_a_claim_gets_a_verdict(project):
    (project / "results").symlink_to(ROOT / "results")
    heading, code = blocks("Add a claim")
    with opened(project / code.files[0]) as nb:
        nb.cells[-3:-3] = [new_markdown_cell(heading.text), new_code_cell(code.text)]
        nb.cells[4:-5] = [] # the other claims take long, and define nothing that it needs

    with only_stored(short=True):
        book = read_ledger("itvreg")
    claim = list(book.claims.values())[-1]
    assert claim.statement == heading.text.splitlines()[2]
    assert claim.facts
    assert f"**{claim.statement}**" in book.table(claim.id)
    for profile in ("planted", "small"):
        assert claim.answer(profile).removesuffix(", in part") in OF_CLAIMS.values()
