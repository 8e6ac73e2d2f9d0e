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
    for line in ("from .repro import runner", "from debias_nb.repro.runs.records import read", "import debias_nb.repro.cli"):
        (tmp_path / "x.py").write_text(f"def f():\n    {line}\n")
        assert any(name.startswith("debias_nb.repro") for name in imported(tmp_path / "x.py")), line
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x.py").write_text("from ..repro import runner")
    assert list(imported(tmp_path / "data/x.py")) == ["debias_nb.repro"]


NAMES = {"sklearn": "scikit-learn", "yaml": "pyyaml", "sentence_transformers": "sentence-transformers"}
LAZY = {"pooch", "huggingface_hub"} # for downloads; the second comes with transformers
LAZY |= {"markupsafe", "pyarrow"} # come with jinja2 and datasets


def test_the_library_imports_what_it_depends_on_and_no_more():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}
    roots = {name.partition(".")[0] for path in LIBRARY for name in imported(path)}
    foreign = roots - set(sys.stdlib_module_names) - {"debias_nb"} - LAZY
    assert {NAMES.get(name, name) for name in foreign} <= required


SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), flags=re.S)


def standing_in(snippet, encoder):
    "A snippet with another encoder in place of that of the hub, which cannot be asked in a test."
    return re.sub(r'SentenceTransformer\("[^"]+"\)', f'SentenceTransformer("{encoder}")', snippet)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_the_snippets_of_the_readme_run_as_printed(tmp_path, number):
    "Each alone, from an empty folder, but for the encoder."
    folder = tmp_path / "empty"
    folder.mkdir()
    code = standing_in(SNIPPETS[number], table(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_readme_has_snippets():
    assert any("ITVRegLoss" in snippet or "Regularized" in snippet for snippet in SNIPPETS)
    assert standing_in('m = SentenceTransformer("a/b")', "here") == 'm = SentenceTransformer("here")'


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
"""


def test_the_check_of_types_finds_what_is_wrong(tmp_path):
    "With this project's settings, which leave out some kinds."
    (tmp_path / "debias_nb").mkdir()
    (tmp_path / "debias_nb/wrong.py").write_text(WRONG)
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    command = [str(Path(sys.executable).parent / "pyrefly"), "check", "--summary=none", "--output-format", "min-text"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    for words in ("[missing-argument]", "[unexpected-keyword]", "[missing-module-attribute]"):
        assert words in done.stdout, done.stdout
    (tmp_path / "debias_nb/wrong.py").unlink()
    (tmp_path / "debias_nb/stats.py").write_text("def f(a: int): return a\nf('one')\n")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "[bad-argument-type]" in done.stdout, done.stdout
