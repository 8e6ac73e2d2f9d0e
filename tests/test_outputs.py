"Stored outputs: what is kept, and what is refused."
import json
import os
import shutil
import sys
from functools import partial
from pathlib import Path

import execnb.shell # noqa: F401 (once, for all processes that the tool forks)
import nbdev.process # noqa: F401
import nbformat
import outputs
import pytest

from debias_nb.papers.commands import reproduction
from debias_nb.papers.pages.report import BOOKS

ROOT = Path(__file__).parents[1]


def stream(text):
    return {"name": "stdout", "output_type": "stream", "text": [text]}


def result(**data):
    return {"data": data, "metadata": {}, "output_type": "execute_result", "execution_count": None}


def test_what_is_kept_names_no_folder_and_no_error_stream(tmp_path):
    assert outputs.kept({"output_type": "stream", "name": "stderr", "text": ["a warning"]}) is None
    assert outputs.kept(result(**{"application/vnd.jupyter.widget-view+json": {}})) is None
    assert outputs.kept(stream(f"{ROOT}/nbs and {Path.home()}"))["text"] == ["…/nbs and …"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    "A project of one notebook, for the tool."
    shutil.copy(ROOT / "settings.ini", tmp_path)
    (tmp_path / "nbs").mkdir()
    cells = [
        nbformat.v4.new_markdown_cell("# One\n\n> First."),
        nbformat.v4.new_code_cell("x = 1 / 3"),
        nbformat.v4.new_code_cell("print('third', x)"),
        nbformat.v4.new_code_cell("print('a time')", metadata={"tags": ["timing"]}),
        nbformat.v4.new_code_cell("print('of data')", metadata={"tags": ["real"]}),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "nbs/00_one.ipynb")
    monkeypatch.setattr(outputs, "ROOT", tmp_path)
    monkeypatch.setattr(outputs, "notebooks", partial(outputs.notebooks, tmp_path))
    monkeypatch.setattr(outputs, "is_of_paper", partial(outputs.is_of_paper, root=tmp_path))
    return tmp_path


@pytest.fixture
def tool(project, monkeypatch, capsys):
    "The tool as a function of its arguments: its exit code, and what it printed."
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["outputs.py", "--workers", "1", *arguments])
        wrong = outputs.main()
        return int(wrong), capsys.readouterr().out
    return call


def change_cells(project, **source):
    "Rewrites cells of the notebook: cell2='print(x)'."
    path = project / "nbs/00_one.ipynb"
    nb = json.loads(path.read_text())
    for name, text in source.items():
        nb["cells"][int(name[-1])]["source"] = [text]
    path.write_text(json.dumps(nb))


def test_outputs_are_stored_and_a_cell_that_raises_is_named(project, tool, monkeypatch):
    def outputs_of():
        return [cell["outputs"] for cell in json.loads((project / "nbs/00_one.ipynb").read_text())["cells"][1:]]

    monkeypatch.delenv("DEBIAS_NB_DATA", raising=False)
    monkeypatch.delenv("DEBIAS_NB_MODELS", raising=False)
    assert tool()[0] == 0 and outputs_of() == [[], [], [], []], "run, and nothing stored"
    assert tool("--keep")[0] == 0
    assert outputs_of() == [[], [stream("third 0.3333333333333333\n")], [], []]
    monkeypatch.setenv("DEBIAS_NB_DATA", str(project))
    change_cells(project, cell1="x = 2 / 3")
    assert tool("--keep")[0] == 0
    assert outputs_of() == [[], [stream("third 0.6666666666666666\n")], [], [stream("of data\n")]]

    change_cells(project, cell2="raise ValueError('the loss of nerve')")
    original = outputs_of()
    for arguments in ((), ("--keep",)):
        code, message = tool(*arguments)
        assert code == 1 and "the loss of nerve" in message and "0 passed, 1 failed" in message
    assert outputs_of() == original


def test_each_notebook_runs_in_a_process_of_its_own_and_one_that_dies_is_told(monkeypatch, tmp_path):
    def run(path):
        if path.name == "b":
            os._exit(3)
        return path, os.getpid(), "", 0.

    monkeypatch.setattr(outputs, "run", run)
    results = {path.name: (pid, error) for path, pid, error,
               _ in outputs.run_apart([tmp_path / name for name in "abc"], 2)}
    assert results["b"] == (None, "its process ended with 3")
    assert len({results["a"][0], results["c"][0], os.getpid()}) == 3


def test_notebooks_side_by_side_share_the_cores_and_start_no_further_processes(monkeypatch, tmp_path):
    monkeypatch.delenv("LOKY_MAX_CPU_COUNT", raising=False)
    monkeypatch.setattr(outputs.os, "sched_getaffinity", lambda _: range(4))
    monkeypatch.setattr(outputs, "run", lambda path: (path, int(os.environ["LOKY_MAX_CPU_COUNT"]), "", 0.))
    for workers, cores in ((1, 4), (2, 2), (4, 1), (8, 1)):
        assert [row[1] for row in outputs.run_apart([tmp_path / "a"], workers)] == [cores]
    assert "LOKY_MAX_CPU_COUNT" not in os.environ, "of a notebook's process alone"


def test_pages_that_follow_from_some_notebooks_are_made_and_no_others(monkeypatch):
    calls = []
    monkeypatch.setattr(reproduction, "write_pages", lambda names, *options: calls.append(names))
    monkeypatch.setattr(outputs, "write_prior", lambda root: calls.append("prior"))
    monkeypatch.setattr(outputs, "write_published", lambda root: calls.append("published"))
    outputs.make_pages([ROOT / "nbs/losses/scan.ipynb"])
    assert calls == [], "a notebook of the library makes no page"
    outputs.make_pages([ROOT / "nbs/losses/scan.ipynb", ROOT / "nbs/papers/itvreg/claims.ipynb"])
    assert calls == [["itvreg/claims", *BOOKS]]
    outputs.make_pages(None)
    assert calls[1:] == [None, "prior", "published"], "all pages"
