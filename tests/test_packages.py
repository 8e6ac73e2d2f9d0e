"The library stands without the companion, and the README's example runs as printed."
import ast
import contextlib
import re
import runpy
import subprocess
import sys
import tomllib
import warnings
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from made import some_pairs, table
from sentence_transformers import SentenceTransformer

from test_links import texts

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "debias_nb"
LIBRARY = [path for path in PACKAGE.rglob("*.py") if "papers" not in path.parts and path.name != "_modidx.py"]


@cache
def imports_of(path):
    "Full names of the modules that a file imports, at any depth of it."
    package = ("debias_nb", *path.relative_to(PACKAGE).parent.parts)
    names = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else ()
            names.append(".".join([*parents, node.module or ""]).strip("."))
    return names


# Who may import whom: the trunk, then each leaf. A room imports what stands before it, and nothing behind; what stands
# on one line, or in one room, stands in no order.
TRUNK = (("debias_nb",), ("data",), ("encoders",), ("measures",), ("losses",), ("runs",), ("commands",))
LEAVES = {
    "diagnosis": (("diagnosis.files",), ("diagnosis",)),
    "papers": (("papers.settings",), ("papers.data", "papers.worlds"), ("papers.tasks",), ("papers.costs",),
               ("papers.pages",), ("papers",)),
}
FLOORS = {room: floor for leaf in LEAVES.values() for floor, rooms in enumerate(TRUNK + leaf) for room in rooms}


def room(module):
    "The room of a module: the longest that its name begins with."
    path = module.removeprefix("debias_nb").removeprefix(".")
    rooms = [name for name in FLOORS if f"{path}.".startswith(f"{name}.")]
    return max(rooms, key=len, default="debias_nb")


def modules(package):
    "Each module with those of the package that it imports."
    names = {}
    for path in package.rglob("*.py"):
        if path.name != "_modidx.py":
            name = ".".join(("debias_nb", *path.relative_to(package).with_suffix("").parts))
            names[name.removesuffix(".__init__")] = path
    return {name: {target for target in imports_of(path) if target in names} for name, path in names.items()}


def against_the_order(imports):
    "Imports of a room that stands behind, or in another leaf."
    def is_wrong(name, target):
        floor, target_floor = room(name), room(target)
        leaf, other_leaf = floor.partition(".")[0], target_floor.partition(".")[0]
        return FLOORS[target_floor] > FLOORS[floor] or other_leaf in LEAVES and leaf != other_leaf

    return [(name, target) for name, targets in imports.items() for target in targets if is_wrong(name, target)]


def test_imports_go_one_way_and_from_no_leaf_to_the_other():
    assert against_the_order(modules(PACKAGE)) == []


@pytest.mark.parametrize("name, target", [
    ("runs.tasks", "papers.tasks.pairs"), ("files", "diagnosis.page"), ("papers.costs", "diagnosis.page"),
    ("diagnosis.page", "papers.costs"),
    ("losses.scan", "runs.config"), ("papers.data.titles", "papers.tasks.titles")])
def test_an_import_against_the_order_is_found(name, target):
    assert against_the_order({f"debias_nb.{name}": {f"debias_nb.{target}"}})


REPORT_MODULES = """
import importlib, os, sys
import sentence_transformers # which most of them load: once for all
for module in sys.argv[1:]:
    child = os.fork()
    if not child:
        importlib.import_module(module)
        print(module, *(name for name in sys.modules if name.startswith("debias_nb.")), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
ABSENT = {
    "debias_nb": ("diagnosis", "papers", "runs"),
    "debias_nb.commands.cli": ("papers.pages", "papers.tasks", "runs"),
    "debias_nb.diagnosis.diagnose": ("papers", "runs", "commands", "encoders.planted"),
    "debias_nb.diagnosis.compare": ("papers", "commands"),
    "debias_nb.runs.runner": ("papers", "diagnosis", "commands"),
}


@pytest.fixture(scope="module")
def modules_of():
    "The modules of the package that each import loads, in a process of its own."
    process = subprocess.run([sys.executable, "-c", REPORT_MODULES, *ABSENT], capture_output=True, text=True,
                             check=True)
    return {module: names for module, *names in map(str.split, process.stdout.splitlines())}


@pytest.mark.parametrize("module", ABSENT)
def test_an_import_loads_no_module_of(modules_of, module):
    assert module in ("debias_nb", *modules_of[module])
    assert not [name for name in modules_of[module]
                if name.startswith(tuple(f"debias_nb.{room}" for room in ABSENT[module]))]


def test_modules_import_each_other_in_no_circle():
    list(TopologicalSorter(modules(PACKAGE)).static_order()) # raises CycleError


NAMES = {
    "sklearn": "scikit-learn", "yaml": "pyyaml", "sentence_transformers": "sentence-transformers",
    "pydantic_core": "pydantic", "lazy_loader": "lazy-loader"}
LAZY = {"huggingface_hub"} # comes with transformers
LAZY |= {"markupsafe", "pyarrow"} # come with jinja2 and datasets
LAZY |= {"peft"} # for the method lora alone, which asks for it


def test_the_library_imports_what_it_depends_on_and_no_more():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}
    roots = {name.partition(".")[0] for path in LIBRARY for name in imports_of(path)}
    foreign = roots - set(sys.stdlib_module_names) - {"debias_nb", "__main__"} - LAZY
    assert {NAMES.get(name, name) for name in foreign} <= requirements


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


def test_the_changelog_begins_with_the_version_at_hand():
    "The newest release of CHANGELOG.md is that of the package, and its form is kept."
    from debias_nb import __version__
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## \[(.+?)\]", text, flags=re.M)
    assert versions[0] == "Unreleased"
    assert versions[1] == __version__
    kinds = set(re.findall(r"^### (.+)$", text, flags=re.M))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


WRONG = """
from os import getcwdd
def f(a: int): return a
f()
f(a=1, b=2)
f('one')
"""


@pytest.mark.slow
def test_the_check_of_types_finds_what_is_wrong(tmp_path):
    "With this project's settings, which leave out some kinds."
    (tmp_path / "debias_nb/measures").mkdir(parents=True)
    (tmp_path / "debias_nb/measures/stats.py").write_text(WRONG)
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    command = [str(Path(sys.executable).parent / "pyrefly"), "check", "--summary=none", "--output-format", "min-text"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 1
    for words in ("[missing-argument]", "[unexpected-keyword]", "[missing-module-attribute]", "[bad-argument-type]"):
        assert words in process.stdout, process.stdout


def test_what_our_own_lines_take_from_a_package_that_drops_it_fails_a_test_and_what_others_take_does_not():
    options = {"message": "it goes", "category": DeprecationWarning, "filename": "a.py", "lineno": 1}
    with pytest.raises(DeprecationWarning):
        warnings.warn_explicit(**options, module="debias_nb.data.pairs")
    with warnings.catch_warnings(record=True): # heard or ignored, as the environment says
        warnings.warn_explicit(**options, module="pandas.core.frame")
