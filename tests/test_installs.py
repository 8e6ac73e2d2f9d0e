"""The printed ways to install, and to run on more than one machine: each resolves, and each command is understood."""
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
UV = [sys.executable, "-m", "uv", "--quiet"]
PRINTED = re.findall(r"^snakemake .+$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), flags=re.M)


def run(command, folder=ROOT):
    "Run a command, and return what it printed; a failure has it as its message."
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout + process.stderr


@pytest.fixture
def checkout(tmp_path):
    "What an installer reads of the project, in another folder."
    for name in ("pyproject.toml", "README.md", "LICENSE", "environment.yml"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("debias_nb", "requirements"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_environment_of_conda_resolves(checkout):
    environment = yaml.safe_load((checkout / "environment.yml").read_text("utf-8"))
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    (checkout / "conda.txt").write_text("\n".join(pip), "utf-8") # conda hands pip such a file, from this folder
    packages = run([*UV, "pip", "compile", "--python-version", "3.11", "conda.txt"], checkout)
    pins = (checkout / "requirements/constraints.txt").read_text("utf-8")
    for name in ("torch", "sentence-transformers", "papermill", "nbdev", "jupyterlab"):
        assert re.search(rf"^{name}==\S+$", pins, flags=re.M)[0] in packages


def test_uv_locks_all_extras_for_all_systems(checkout):
    run([*UV, "lock"], checkout)
    lock = (checkout / "uv.lock").read_text("utf-8")
    assert all(f'name = "{name}"' in lock for name in ("snakemake", "twine", "colorama", "appnope"))


@pytest.mark.parametrize("command", [
    ["sync"], ["pip", "install", "--python", sys.executable, "--reinstall-package", "debias-nb", ".[repro]"],
])
def test_uv_would_install_the_project_and_torch(command, checkout):
    plan = run([sys.executable, "-m", "uv", *command, "--dry-run"], checkout)
    assert re.search(r"debias-nb *(==|@|\()", plan) and (command != ["sync"] or re.search(r"\+ torch==", plan)), plan


@pytest.fixture(scope="module")
def snakemake(tmp_path_factory):
    "An environment with Snakemake besides what is installed here, in a path with a blank."
    folder = tmp_path_factory.mktemp("an environment with blanks")
    run([*UV, "venv", "--clear", "--python", sys.executable, str(folder)])
    run([*UV, "pip", "install", "--python", str(folder), "--constraint", "requirements/constraints.txt",
         "snakemake", "snakemake-executor-plugin-slurm"])
    packages = sysconfig.get_path("purelib", vars={"base": str(folder)})
    here = sysconfig.get_path("purelib")
    (Path(packages) / "here.pth").write_text(f"import site; site.addsitedir({here!r})", "utf-8")
    return folder / "bin/snakemake"


@pytest.mark.parametrize("command", PRINTED)
def test_the_printed_commands_make_jobs(command, snakemake):
    jobs = run([str(snakemake), *command.split()[1:], "--dry-run", "--printshellcmds", "--nolock"])
    assert re.search(r"^run +\d+$", jobs, flags=re.M)
    assert f"'{snakemake.parent}/python' -m debias_nb.commands.cli run itvreg/table03" in jobs


def test_a_table_that_is_not_named_is_asked_for(snakemake):
    command = [str(snakemake), "-s", "experiments/Snakefile", "--cores", "1", "--dry-run", "--nolock"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 1
    assert "which table? For example: --config table=itvreg/table03" in process.stdout + process.stderr


def test_the_head_of_the_snakefile_has_the_same_commands():
    head = (ROOT / "experiments/Snakefile").read_text("utf-8")
    assert PRINTED and re.findall(r"^#   (snakemake .+)$", head, flags=re.M) == PRINTED
