"""The recipes of CONTRIBUTING.md, followed to the letter in a copy of the project: each gives what it promises, and the
project's own tests pass after all of them."""
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
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell

from debias_nb.data.registry import inventory, load_registry
from debias_nb.papers.pages.frame import Results
from debias_nb.papers.pages.report import write_page
from debias_nb.runs.records import Store
from debias_nb.papers.pages.answers import OF_CLAIMS
from debias_nb.papers.pages.verdicts import read_ledger
from made import shrunk

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
FENCE = re.compile(r"(?P<before>[^\n]+)\n\n```\w+\n(?P<text>.*?)```", re.DOTALL)
FILE = re.compile(r"(?<!\()(?:nbs|experiments|debias_nb)/[\w/.]+\.(?:ipynb|yaml|py)")


# Reading a recipe

def recipe(title: str) -> str:
    "The text of a recipe."
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = text.split(f"## {title}\n")[1]
    return re.split(r"\n## (?=Add|Outputs)", section)[0]


class Block(NamedTuple):
    "A fenced block, and the files that the line before it names."
    files: list[str]
    text: str


def blocks(title: str) -> list[Block]:
    "The blocks of a recipe in their order."
    return [Block(FILE.findall(match["before"]), match["text"]) for match in FENCE.finditer(recipe(title))]


def commands(title: str) -> list[list[str]]:
    "The arguments of each `debias-nb …` of a recipe."
    return [shlex.split(arguments) for arguments in re.findall(r"`debias-nb ([^`]+)`", recipe(title))]


def command(title: str) -> list[str]:
    "The arguments of the first one."
    return commands(title)[0]


# Applying a block

@contextmanager
def open_notebook(path: Path):
    "Yield a notebook, and write it back with its changes."
    nb = nbformat.read(path, 4)
    yield nb
    nbformat.write(nb, path)


def apply_diff(text: str, diff: str) -> str:
    "Return a text after a diff, whose places are separated by lines `@@`; each place must be there."
    for place in diff.split("@@\n"):
        lines = place.splitlines()
        old = "\n".join(line[1:] for line in lines if line[0] in " -")
        new = "\n".join(line[1:] for line in lines if line[0] in " +")
        assert old in text, f"not there: {old}"
        text = text.replace(old, new, 1)
    return text


def change_file(path: Path, diff: str) -> None:
    "Apply a diff to a file; to a notebook place by place, each in the cell that has it."
    if path.suffix != ".ipynb":
        path.write_text(apply_diff(path.read_text("utf-8"), diff), "utf-8")
        return
    with open_notebook(path) as nb:
        for place in diff.split("@@\n"):
            old = "\n".join(line[1:] for line in place.splitlines() if line[0] in " -")
            cell = next(cell for cell in nb.cells if old in cell.source)
            cell.source = apply_diff(cell.source, place)


def insert_below(path: Path, text: str, new: str) -> None:
    "Insert a code cell into a notebook below the last one that has a text."
    with open_notebook(path) as nb:
        last = max(i for i, cell in enumerate(nb.cells) if text in cell.source)
        nb.cells.insert(last + 1, new_code_cell(new))


# The copy

def tool(name, *args, cwd):
    """Run a command of this environment, and return what it printed.

    Raises `RuntimeError` with the end of it when it fails."""
    # nbdev exports nothing where this is set
    env = {key: value for key, value in os.environ.items() if key != "IN_TEST"}
    process = subprocess.run([Path(sys.executable).parent / name, *args], cwd=cwd, env=env, capture_output=True,
                             text=True)
    output = process.stdout + process.stderr
    if process.returncode:
        raise RuntimeError(f"{name} {' '.join(args)}: {output[-3000:]}")
    return output


FOLDERS = ("nbs", "debias_nb", "experiments", "reports", "tests", "tools")
FILES = ("settings.ini", ".gitignore", "pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff")


def copy_to(folder: Path, *extra: str) -> None: # more: folders
    "Copy the project."
    for name in (*FOLDERS, *extra):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for name in FILES:
        shutil.copy(ROOT / name, folder)


def enter(folder: Path, data: Path, patch) -> None: # data: a folder that is there
    "Make a copy the folder and the library of all commands; data and what is cached are looked for outside."
    patch.chdir(folder)
    patch.setenv("PYTHONPATH", str(folder))
    patch.setenv("DEBIAS_NB_CACHE", str(data.with_name("cache")))
    patch.setenv("DEBIAS_NB_DATA", str(data))
    patch.delenv("DEBIAS_NB_RUNS", raising=False)


@pytest.fixture
def project(tmp_path, monkeypatch):
    "Make a copy of the project, which is the current folder."
    folder = tmp_path / "project"
    copy_to(folder)
    (tmp_path / "data").mkdir()
    enter(folder, tmp_path / "data", monkeypatch)
    return folder


# The steps of each recipe that change files

def add_method(project: Path) -> None:
    method, row = blocks("Add a method")
    insert_below(project / method.files[0], "\n@dataclass\nclass ", method.text)
    change_file(project / row.files[0], row.text)


def add_corpus(project: Path) -> None:
    [block] = blocks("Add a corpus")
    registry = project / block.files[0]
    registry.write_text(registry.read_text("utf-8") + block.text, "utf-8")


def add_table(project: Path) -> None:
    runs, page = blocks("Add a table")
    (project / runs.files[0]).write_text(runs.text, "utf-8")
    source, target, *_ = page.files
    shutil.copy(project / source, project / target)
    with open_notebook(project / target) as nb:
        [parameters] = [i for i, cell in enumerate(nb.cells) if "parameters" in cell.metadata.get("tags", [])]
        nb.cells[parameters + 1 : -1] = [new_code_cell(page.text)]
        nb.cells[0].source = "# Two remedies\n\n> Do they help?"


def add_claim(project: Path) -> None:
    [block] = blocks("Add a claim")
    path = project / block.files[0]
    path.write_text(path.read_text("utf-8") + block.text, "utf-8")


def add_measure(project: Path) -> None:
    function, title, names = blocks("Add a measure")
    insert_below(project / function.files[0], "\ndef ", function.text)
    for block in (title, names):
        change_file(project / block.files[0], block.text)


def add_format(project: Path) -> None:
    [diff] = blocks("Add a file format")
    change_file(project / diff.files[0], diff.text)


RECIPES = {
    "Add a method": add_method, "Add a corpus": add_corpus, "Add a table": add_table, "Add a claim": add_claim,
    "Add a measure": add_measure, "Add a file format": add_format,
}


def commit(message: str) -> None:
    "Commit everything in the current folder, which becomes a repository if it is none."
    git = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "core.hooksPath=/dev/null"]
    for step in (["init", "--quiet"], ["add", "."], [*git, "commit", "--quiet", f"--message={message}"]):
        subprocess.run(["git", *step], check=True)


@pytest.fixture(scope="module")
def recipes_copy(tmp_path_factory):
    "Make a copy of the project in which all recipes are followed."
    folder = tmp_path_factory.mktemp("extended") / "project"
    data = folder.with_name("data")
    copy_to(folder, "bench")
    data.mkdir()
    for add in RECIPES.values():
        add(folder)
    with pytest.MonkeyPatch.context() as patch:
        enter(folder, data, patch)
        tool("nbdev_export", cwd=folder)
        commit("All recipes")
        yield folder


def test_every_recipe_is_followed_here():
    "A recipe that is written later belongs into `RECIPES`."
    titles = re.findall(r"^## (Add .+)$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), flags=re.M)
    assert titles == [*RECIPES]


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
    add_corpus(project)
    registry = project / blocks("Add a corpus")[0].files[0]
    folder = project.with_name("data") / "forum"
    folder.mkdir(parents=True)
    for file, text in FORUM.items():
        (folder / file).write_text(text, "utf-8")

    assert inventory_of_forum(registry) == {"train.tsv": "here", "test.tsv": "here"}
    tool("python", "-c", READ, cwd=project)

    (folder / "train.tsv").write_text("1\tanother\tfile\n", "utf-8")
    assert inventory_of_forum(registry) == {"train.tsv": "refused", "test.tsv": "here"}
    with pytest.raises(RuntimeError, match="ChangedData.*train.tsv.*move it away"):
        tool("python", "-c", READ, cwd=project)


def test_a_claim_gets_a_verdict(project):
    add_claim(project)
    [block] = blocks("Add a claim")
    path = project / block.files[0]
    names, _, _ = path.read_text("utf-8").partition("\nclaims:")
    path.write_text(f"{names}\nclaims:\n{block.text}", "utf-8") # the other claims take long

    book = read_ledger("itvreg", Results())
    claim, = book.claims.values()
    assert claim.facts and claim.statement in block.text
    assert f"{claim.id} | {claim.statement} |" in book.page()
    for profile in ("planted", "small"):
        assert claim.word(profile) in OF_CLAIMS.values()


# All recipes in one copy

def test_a_method_becomes_a_row(recipes_copy):
    config = recipes_copy / blocks("Add a method")[1].files[0]
    original = config.read_text("utf-8")
    config.write_text(shrunk(original), "utf-8")
    few = ["--seeds", "7,8", "-p", "encoders=[tiny]", "--workers", "1"]
    tool("debias-nb", *command("Add a method"), *few, cwd=recipes_copy)
    config.write_text(original, "utf-8")

    files = (recipes_copy / "_runs/itvreg/table03.planted").glob("*.json")
    # this process knows no such method, and would leave its runs out
    records = [json.loads(file.read_text("utf-8")) for file in files]
    by_method = {record["config"]["method"]["name"]: record for record in records}
    assert by_method.keys() == {"Base", "Finetuned", "MeanZero"}
    assert by_method["MeanZero"]["status"] == "finished"
    assert by_method["MeanZero"]["metrics"].keys() == {"iid", "uncoupled", "unseen"}
    assert min(by_method["MeanZero"]["curve"]["raw"]) > 0
    [notebook] = (recipes_copy / "_runs/notebooks/itvreg").glob("table03.planted.*.ipynb")
    page = notebook.read_text("utf-8")
    assert "| MeanZero |" in page
    assert re.search(r">MeanZero at λ[^<]*<", page), "in the figure, too"


def test_a_table_becomes_a_page(recipes_copy):
    run, publish = commands("Add a table")
    tool("debias-nb", *run, "--workers", "1", cwd=recipes_copy)
    assert "itvreg/remedies.planted" not in Store(recipes_copy / "experiments").places()
    tool("debias-nb", *publish, cwd=recipes_copy)
    assert len(Store(recipes_copy / "experiments").records("itvreg/remedies.planted")) == 4

    paths = write_page("itvreg/remedies", recipes_copy / "reports", Results(is_page=True))
    assert {"remedies.md", "remedies.csv", "remedies.differences.csv"} <= {path.name for path in paths}
    text = paths[0].read_text("utf-8")
    assert "4 of 4 runs completed" in text
    assert re.search(r"\| OutReg \| [\d.]+ ± [\d.]+ \|", text)
    assert re.search(r"\| OutReg \| .*\[.*\]", text)


USE_MEASURE = """
import numpy as np
from debias_nb.diagnosis.test_sets import as_test
from debias_nb.diagnosis.titles import TITLES
from debias_nb.diagnosis.pairs import read_pairs_file
from debias_nb.measures.rankings import candidate_levels, precision
query, labels = np.repeat([0, 1], 6), np.array([1, 1, 0, 0, 0, 0] * 2)
assert np.allclose(precision(candidate_levels(query, labels, np.arange(12.)[::-1])), [.4, .4])
tied = precision(candidate_levels(query, labels, np.zeros(12)))
assert np.allclose(tied, [1 / 3, 1 / 3]), "the mean over all orders of a tie"
queries = {str(n): f"question {n}" for n in range(12)}
corpus = {str(n): f"answer {n}" for n in range(12)}
file = read_pairs_file({"queries": queries, "corpus": corpus, "relevant_docs": {n: {n} for n in queries}})
assert as_test("new", file, metric="precision5").metric == "precision5" and TITLES["precision5"] == "precision@5"
"""


def test_a_measure_has_values_and_decides_a_test(recipes_copy):
    tool("python", "-c", USE_MEASURE, cwd=recipes_copy)


READ_PAIRS = """
from debias_nb import DataError, read_pairs_file
pairs = read_pairs_file("new.feather")
assert list(pairs.left) == ["a kettle", "a lamp"] and list(pairs.labels) == [1, 0]
try:
    read_pairs_file("damaged.feather")
except DataError as error:
    assert "damaged.feather" in str(error)
else:
    raise AssertionError("a damaged file is read")
"""


def test_a_file_format_is_read_and_a_damaged_file_of_it_is_refused(recipes_copy, tmp_path):
    frame = pd.DataFrame({"left": ["a kettle", "a lamp"], "right": ["my kettle", "a chair"], "label": [1, 0]})
    frame.to_feather(tmp_path / "new.feather")
    (tmp_path / "damaged.feather").write_bytes(b"no table")
    tool("python", "-c", READ_PAIRS, cwd=tmp_path)


@pytest.mark.nightly
def test_the_tests_of_the_project_pass_after_all_recipes(recipes_copy):
    """The quick ones; its table's runs are published by then, and the method's are not, as in a pull request.
    What a process loads that imports a module follows from who imports whom, which is asked too."""
    files = [f"tests/{name}.py" for name in ("papers/test_configs", "library/test_registry", "test_notebooks",
                                             "test_packages", "test_names")]
    left_out = ["-m", "not slow", "-k", "not an_import_loads_no_module"]
    tool("pytest", *files, *left_out, "-p", "no:cacheprovider", "-q", cwd=recipes_copy)
