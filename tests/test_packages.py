"The library stands without the companion, and the README's example runs as printed."
import ast
import contextlib
import re
import runpy
import subprocess
import sys
from functools import cache
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


NAMES = {
    "sklearn": "scikit-learn", "yaml": "pyyaml", "sentence_transformers": "sentence-transformers",
    "pydantic_core": "pydantic", "lazy_loader": "lazy-loader"}
LAZY = {"huggingface_hub"} # comes with transformers
LAZY |= {"markupsafe", "pyarrow"} # come with jinja2 and datasets
LAZY |= {"peft"} # for the method lora alone, which asks for it


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


WRONG = """
from os import getcwdd
def f(a: int): return a
f()
f(a=1, b=2)
f('one')
"""


