"The library stands without the companion, and the README's example runs as printed."
import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from made import table

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "debias_nb"
LIBRARY = [path for path in PACKAGE.rglob("*.py") if "repro" not in path.parts and path.name != "_modidx.py"]


def imported(path):
    "Full names of the modules that a file imports, at any depth of it."
    here = ("debias_nb", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else ()
            yield ".".join([*above, node.module or ""]).strip(".")


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_the_library_imports_nothing_of_the_companion(path):
    assert not [name for name in imported(path) if name.startswith("debias_nb.repro")]


def test_an_import_of_the_companion_would_be_found(tmp_path, monkeypatch):
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "PACKAGE", tmp_path)
    for line in ("from .repro import runner", "from debias_nb.repro.records import read", "import debias_nb.repro.cli"):
        (tmp_path / "x.py").write_text(f"def f():\n    {line}\n")
        assert any(name.startswith("debias_nb.repro") for name in imported(tmp_path / "x.py")), line
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x.py").write_text("from ..repro import runner")
    assert list(imported(tmp_path / "data/x.py")) == ["debias_nb.repro"]


NAMES = {"sklearn": "scikit-learn", "yaml": "pyyaml", "sentence_transformers": "sentence-transformers"}
LAZY = {"pooch", "huggingface_hub"} # for downloads; the second comes with transformers
LAZY |= {"jinja2", "markupsafe", "pyarrow"} # come with torch, jinja2 and datasets


def test_the_library_imports_what_it_depends_on_and_no_more():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}
    roots = {name.partition(".")[0] for path in LIBRARY for name in imported(path)}
    foreign = roots - set(sys.stdlib_module_names) - {"debias_nb"} - LAZY
    assert {NAMES.get(name, name) for name in foreign} <= required


def test_the_example_of_the_readme_runs_as_printed(tmp_path):
    "But for the encoder, which is one made here: the hub cannot be asked in a test."
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), flags=re.S)
    example = next(block for block in blocks if "ITVRegLoss" in block)
    hub = re.search(r'SentenceTransformer\("([^"]+)"\)', example)[1]
    encoder = table(tmp_path)
    code = example.replace(hub, str(encoder))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
