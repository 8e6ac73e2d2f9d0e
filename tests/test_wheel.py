"The package as others get it: a wheel, unpacked into a folder of its own, in an empty folder far from the repository."
import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

import debias_nb

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
PACKAGE = ROOT / "debias_nb"
VARIABLES = ("DEBIAS_NB_DATA", "DEBIAS_NB_MODELS", "DEBIAS_NB_RUNS", "DEBIAS_NB_CACHE", "PYTHONPATH")


def copy_package(folder):
    "Copy what a wheel is built from; the folder."
    shutil.copytree(PACKAGE, folder / "debias_nb", ignore=shutil.ignore_patterns("__pycache__", "_modidx.py"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    "The wheel, built from a copy, so that nothing is left in the repository; a template stands in for later ones."
    folder = tmp_path_factory.mktemp("wheel")
    copy = copy_package(folder / "source")
    for place in ("papers/page.html.j2", "data/deeper/page.html"):
        (copy / "debias_nb" / place).parent.mkdir(exist_ok=True)
        (copy / "debias_nb" / place).write_text("a template")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir",
             str(folder)]
    process = subprocess.run([*build, str(copy)], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def run_away(wheel, tmp_path_factory):
    "What runs Python with the wheel alone: from an empty folder, which stays empty."
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    empty = tmp_path_factory.mktemp("empty")
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    env |= {"PYTHONPATH": str(folder), "DEBIAS_NB_CACHE": str(tmp_path_factory.mktemp("cache"))}

    def go(*args, **variables):
        process = subprocess.run([sys.executable, *args], cwd=empty, env=env | variables, capture_output=True,
                                 text=True)
        assert not list(empty.iterdir())
        return process

    origin = go("-c", "import debias_nb; print(debias_nb.__file__)").stdout.strip()
    assert origin == str(folder / "debias_nb/__init__.py")
    return go


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*") if path.is_file()
             and path.suffix != ".pyc"}
    files.discard("debias_nb/_modidx.py") # nbdev's index, which git does not have
    assert names == files | {"debias_nb/papers/page.html.j2", "debias_nb/data/deeper/page.html"}
    assert {"debias_nb/py.typed", "debias_nb/__init__.pyi", "debias_nb/encoders.yaml",
            "debias_nb/data/datasets.yaml"} <= names


LIBRARY = """
import debias_nb
for name in debias_nb.__all__: getattr(debias_nb, name)
print(debias_nb.load_encoder("minilm").encode(["How do I mend a kettle?"]).shape)
from debias_nb.data.registry import MissingData
try: debias_nb.load_questions("superuser", "train")
except MissingData as e: print(e)
"""


def test_names_encoders_and_data_are_there(run_away):
    "In one process, since all of it loads torch."
    process = run_away("-c", LIBRARY)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("(1, 384)\nsuperuser/train.tsv is missing: it cannot be downloaded")


COMMANDS = """
import contextlib, io, json, sys
from debias_nb.commands.entry import main

done = {}
for command in sys.argv[1:]:
    sys.argv = ["debias-nb", *command.split()]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stopped:
            done[command] = [stopped.code or 0, out.getvalue(), err.getvalue()]
print(json.dumps(done))
"""
OF_A_CLONE = ("run table03", "report", "agree")
EVERYWHERE = {"--version": debias_nb.__version__, "list": "those of a clone", "data": "antique"} # what they print


def test_commands_that_need_the_repository_say_so_and_others_do_not(run_away):
    "In one process, one after the other."
    process = run_away("-c", COMMANDS, *OF_A_CLONE, *EVERYWHERE, COLUMNS="200")
    assert process.returncode == 0, process.stderr
    outcomes = json.loads(process.stdout)
    for command in OF_A_CLONE:
        code, output, message = outcomes[command]
        assert code == 2 and output == ""
        assert len(message.splitlines()) == 1 and "works on the experiments of a clone" in message
    for command, words in EVERYWHERE.items():
        code, output, message = outcomes[command]
        assert code == 0 and words in output, message


@pytest.mark.parametrize("args, package", [(["--help"], "typer"), (["list"], "pydantic")])
def test_without_the_packages_of_the_command_line(run_away, args, package):
    code = f"import sys; sys.modules[{package!r}] = None; from debias_nb.commands.entry import main; main()"
    process = run_away("-c", code, *args)
    assert process.returncode == 2 and process.stdout == ""
    assert process.stderr == f"debias-nb: this needs the package {package}: pip install 'debias-nb[repro]'\n"


def test_an_editable_installation_is_a_path_that_editors_follow(tmp_path):
    "Pyright and Pylance read the lines of .pth files; hooks of the import system they do not know."
    copy = copy_package(tmp_path / "source")
    code = f"from setuptools import build_meta; build_meta.build_editable({str(tmp_path)!r})"
    process = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    [path] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".pth")]
        lines = archive.read(name).decode().split()
    spec = PathFinder.find_spec("debias_nb", lines)
    assert spec and Path(spec.origin) == copy / "debias_nb/__init__.py"
