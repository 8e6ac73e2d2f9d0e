"""The files around the library agree with each other, and the tools that keep it whole find what is wrong."""
import ast
import json
import re
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from notebooks import is_of_paper, is_skipped, notebooks, settings

ROOT = Path(__file__).resolve().parents[2]


def read(name):
    return (ROOT / name).read_text("utf-8")


def read_yaml(name):
    return yaml.safe_load(read(name))


PYPROJECT = tomllib.loads(read("pyproject.toml"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
INI = settings(ROOT)
PAPERS = [path for path in notebooks(ROOT) if is_of_paper(path)]


def read_pins(lines):
    "The versions that each name may have."
    versions = {}
    for line in lines:
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        assert name not in versions, f"{name} is named twice"
        versions[name] = requirement.specifier
    return versions


def as_text(versions):
    return {name: str(specifier) for name, specifier in versions.items()}


def pins():
    lines = read("requirements/constraints.txt").splitlines()
    return read_pins(line for line in lines if line and line[0] != "#")


def with_extras(*extras):
    "What the project requires, with some of its extras."
    lines = [line for extra in extras for line in EXTRAS[extra]]
    return read_pins(PROJECT["dependencies"] + lines)


def test_every_direct_dependency_has_one_pin_inside_its_range():
    ranges, exact = with_extras(*EXTRAS), pins()
    assert ranges.keys() == exact.keys()
    for name, pin in exact.items():
        assert re.fullmatch(r"==[\w.]+", str(pin)), f"{name}{pin} is no exact version"
        within = ranges[name].contains(str(pin)[2:])
        assert within, f"requirements/constraints.txt has {name}{pin}, pyproject.toml {name}{ranges[name]}"


LOCKS = ("requirements/common.lock", "requirements/cpu.lock", "requirements/cuda.lock")


def locked(name):
    "The packages of a lock file, with their versions."
    blocks = re.findall(r"(?m)^([\w.-]+)(==\S+) \\\n +--hash=sha256:", read(name))
    assert len(blocks) == len(re.findall(r"(?m)^\w", read(name))), f"{name}: a package has no hash"
    return dict(blocks)


def test_the_locks_hold_what_is_pinned_and_name_no_host():
    lock, cpu, cuda = map(locked, LOCKS)
    exact = as_text(pins())
    assert {name: (lock | cuda)[name] for name in with_extras("repro", "dev", "minilm")}.items() <= exact.items()
    assert cpu.keys() == {"torch"} and cpu["torch"].partition("+")[0] == cuda["torch"]
    assert not lock.keys() & cuda.keys()
    assert not any("://" in read(name) for name in LOCKS)


def test_one_version_and_one_description():
    cff, site = read_yaml("CITATION.cff"), read_yaml("tools/site/mkdocs.yml")
    version = re.search(r'^__version__ = "(.+)"$', read("debias_nb/__init__.py"), flags=re.M)[1]
    assert version == INI["version"] == str(cff["version"]) and PROJECT["dynamic"] == ["version"]
    assert PROJECT["description"] == INI["description"] == site["site_description"] == cff["abstract"]
    assert PROJECT["urls"]["Repository"] == INI["git_url"] == cff["repository-code"]
    assert (PROJECT["urls"]["Documentation"] == INI["doc_host"] + INI["doc_baseurl"] == site["site_url"].rstrip("/")
            == cff["url"])
    assert PROJECT["license"] == cff["license"] == "Apache-2.0"
    assert INI.getboolean("update_pyproject") is False, "an export would rewrite pyproject.toml"
    meta = json.loads(read("codemeta.json"))
    assert (meta["version"], meta["description"]) == (version, PROJECT["description"])
    assert (meta["codeRepository"], meta["softwareHelp"]) == (cff["repository-code"], cff["url"])
    assert [(paper["name"], paper["url"]) for paper in meta["referencePublication"]] == [
        (paper["title"], paper["url"]) for paper in cff["references"][:3]]


@pytest.mark.parametrize("path", PAPERS, ids=lambda p: p.relative_to(ROOT / "nbs").as_posix())
def test_paper_notebook_has_one_parameters_cell_and_is_left_to_papermill(path):
    nb = nbformat.read(path, as_version=4)
    parameter_cells = [cell for cell in nb.cells if "parameters" in cell.metadata.get("tags", [])]
    assert [cell.cell_type for cell in parameter_cells] == ["code"]
    for line in ast.parse(parameter_cells[0].source).body:
        assert isinstance(line, ast.AnnAssign)
        ast.literal_eval(line.value)
    assert is_skipped(nb), "a raw cell must say `skip_exec: true`"
    assert "skip_exec" not in nb.cells[0].source, "no reader sees it"
