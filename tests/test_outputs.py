"Stored outputs: what is kept, what is compared, and what is refused."
import json
import shutil
import sys
from functools import partial
from pathlib import Path

import execnb.shell # noqa: F401 (once, for all processes that the tool forks)
import nbdev.process # noqa: F401
import nbformat
import outputs
import pytest

ROOT = Path(__file__).parents[1]


def stream(text):
    return {"name": "stdout", "output_type": "stream", "text": [text]}


def result(**data):
    return {"data": data, "metadata": {}, "output_type": "execute_result", "execution_count": None}


@pytest.mark.parametrize("old, new, same", [
    ("AUC 0.50012 of 3", "AUC 0.50013 of 3", True), ("loss   1.0", "loss 1.0", True), ("torch 2.13.0", "torch 2.13.0", True),
    ("AUC 0.50", "AUC 0.52", False), ("AUC 0.50", "P@1 0.50", False), ("1 2", "1 2 3", False), ("1,234.5", "1,334.5", False),
    ("-0.25", "0.25", False), ("−0.25", "-0.35", False), ("1e-1", "1e-2", False), ("3/4", "3/5", False)])
def test_words_are_compared_exactly_and_numbers_nearly(old, new, same):
    assert outputs.same_text(old, new) == same


def test_on_another_processor_only_the_shape_counts():
    old = result(**{"text/plain": "0.1"})
    new = result(**{"text/plain": "0.9"})
    assert outputs.differs([old], [new], exactly=True).startswith("text/plain differs")
    assert outputs.differs([old], [new], exactly=False) == ""
    table = "<tr><th>method</th></tr><tr><td>1</td></tr>"
    other = table.replace("method", "encoder")
    longer = table + "<tr><td>2</td></tr>"
    for changed in (other, longer):
        assert outputs.differs([result(**{"text/html": table})], [result(**{"text/html": changed})], exactly=False)


def test_outputs_that_come_or_go_are_found_everywhere():
    picture = result(**{"image/png": "aGk="})
    assert outputs.differs([picture], [result(**{"image/png": "eW91"})], exactly=True) == "", "pictures by presence"
    assert "0 outputs are stored, 1 were made" in outputs.differs([], [picture], exactly=False)
    assert "image/png is stored" in outputs.differs([picture], [stream("x")], exactly=False)


def test_what_is_kept_names_no_folder_and_no_error_stream(tmp_path):
    assert outputs.kept({"output_type": "stream", "name": "stderr", "text": ["a warning"]}) is None
    assert outputs.kept(result(**{"application/vnd.jupyter.widget-view+json": {}})) is None
    assert outputs.kept(stream(f"{ROOT}/nbs and {Path.home()}"))["text"] == ["…/nbs and …"]


@pytest.fixture
def paper_notebook(tmp_path, monkeypatch):
    "A paper notebook beside its page, as they are committed."
    monkeypatch.setattr(outputs, "ROOT", tmp_path)
    monkeypatch.setattr(outputs, "name_profile", lambda path, nb: "") # it reads records
    notebook = Path("nbs/papers/scan/weights.ipynb")
    page = [path.relative_to(ROOT) for path in ROOT.glob("reports/scan/weights.*")]
    for name in (notebook, *page):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path / notebook


def test_what_a_paper_notebook_has_stored_is_what_its_page_shows(paper_notebook):
    assert outputs.compared_with_page(paper_notebook) == []
    page = outputs.ROOT / "reports/scan/weights.md"
    text = page.read_text()
    page.write_text(text.replace("0.", "1.", 1))
    assert outputs.compared_with_page(paper_notebook) == ["reports/scan/weights.md: the stored outputs make another page"]
    page.write_text(text)
    (outputs.ROOT / "reports/scan/weights.1.svg").write_text("<svg></svg>")
    assert outputs.compared_with_page(paper_notebook) == ["reports/scan/weights.1.svg: the stored picture is another one"]
    page.unlink()
    assert "reports/scan/weights.md: there is no such page" in outputs.compared_with_page(paper_notebook)

    nb = json.loads(paper_notebook.read_text())
    next(cell for cell in nb["cells"] if cell.get("outputs"))["source"] = ["show('something else')"]
    paper_notebook.write_text(json.dumps(nb))
    assert any("belongs to another source" in words for words in outputs.compared_with_page(paper_notebook))


@pytest.fixture
def project(tmp_path, monkeypatch):
    "A project of one notebook, for the tool."
    shutil.copy(ROOT / "settings.ini", tmp_path)
    (tmp_path / "nbs").mkdir()
    cells = [
        nbformat.v4.new_markdown_cell("# One\n\n> First."),
        nbformat.v4.new_code_cell("x = 1 / 3"),
        nbformat.v4.new_code_cell("print('third', x)"),
        nbformat.v4.new_code_cell("import os\nos.getpid()", metadata={"tags": ["varies"]}),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "nbs/00_one.ipynb")
    monkeypatch.setattr(outputs, "ROOT", tmp_path)
    monkeypatch.setattr(outputs, "notebooks", partial(outputs.notebooks, tmp_path))
    return tmp_path


@pytest.fixture
def tool(project, monkeypatch, capsys):
    "The tool as a function of its arguments: its exit code, and what it printed."
    def called(*arguments):
        monkeypatch.setattr(sys, "argv", ["outputs.py", "--workers", "1", *arguments])
        wrong = outputs.main()
        return int(wrong), capsys.readouterr().out
    return called


def changed(project, **source):
    "Rewrites cells of the notebook: cell2='print(x)'."
    path = project / "nbs/00_one.ipynb"
    nb = json.loads(path.read_text())
    for name, text in source.items():
        nb["cells"][int(name[-1])]["source"] = [text]
    path.write_text(json.dumps(nb))


def test_outputs_are_stored_compared_and_refused(project, tool):
    assert tool()[0] == 1, "nothing is stored yet"
    assert tool("--keep")[0] == 0
    cell = json.loads((project / "nbs/00_one.ipynb").read_text())["cells"][2]
    assert cell["outputs"] == [stream("third 0.3333333333333333\n")] and cell["execution_count"] is None
    code, said = tool()
    assert code == 0 and "1 passed, 0 failed" in said

    changed(project, cell1="x = 2 / 3")
    code, said = tool()
    assert code == 1 and "cell 2" in said and "stream differs" in said

    changed(project, cell1="x = 1 / 3", cell2="print('third',  x)")
    code, said = tool()
    assert code == 1 and "its output belongs to another source" in said

    changed(project, cell2="raise ValueError('the loss of nerve')")
    code, said = tool()
    assert code == 1 and "the loss of nerve" in said and "Cell #" in said


def test_each_group_runs_in_a_process_of_its_own_and_one_that_dies_is_told(monkeypatch, tmp_path):
    import os
    groups = [[tmp_path / "a"], [tmp_path / "b"], [tmp_path / "c"]]

    def run(paths):
        if paths == groups[1]:
            os._exit(3)
        return [(path, os.getpid(), "", 0.) for path in paths]

    monkeypatch.setattr(outputs, "run_together", run)
    found = {path.name: (by, error) for done in outputs.run_apart(groups, 2) for path, by, error, _ in done}
    assert found["b"] == (None, "its process ended with 3")
    assert len({found["a"][0], found["c"][0], os.getpid()}) == 3


@pytest.fixture
def another_processor(tmp_path, monkeypatch):
    "A notebook whose outputs another processor has stored, as the tool keeps it; call it to store what a run gives."
    path = tmp_path / "nbs/demo.ipynb"
    path.parent.mkdir()
    cell = {"cell_type": "code", "id": "a1", "metadata": {}, "execution_count": None, "source": ["f()"]}
    cell["outputs"] = [stream("AUC 51.8 of 60\n"), result(**{"image/png": "eW91"})]
    stamp = {"processor": "Other 1/1", "sources": {"a1": outputs.stamp(cell)}}
    nb = {"cells": [cell], "metadata": {outputs.STAMP: stamp}, "nbformat": 4, "nbformat_minor": 5}
    monkeypatch.setattr(outputs, "is_of_paper", lambda path: False)

    def run(text, source="f()", picture="bWU="):
        nb["cells"][0]["source"] = [source]
        path.write_text(json.dumps(nb), "utf-8")
        before = path.read_text("utf-8")
        assert outputs.keep(path, [[stream(text), result(**{"image/png": picture})]]) == []
        after = json.loads(path.read_text("utf-8"))
        return path.read_text("utf-8") == before, after["metadata"][outputs.STAMP]["processor"]

    return run


@pytest.mark.parametrize("text, source, kept", [
    ("AUC 51.7 of 60\n", "f()", True), ("AUC 40.2 of 60\n", "f()", False), ("P@1 51.8 of 60\n", "f()", False),
    ("AUC 51.8 of 60\n", "g()", False),
], ids=["nearly the same", "other numbers", "other words", "an edited cell"])
def test_what_another_processor_stored_stays_where_nothing_has_changed(another_processor, text, source, kept):
    assert another_processor(text, source) == (kept, "Other 1/1" if kept else outputs.processor())


def test_what_papers_show_is_stored_as_made_under_the_name_of_whoever_made_it_first(another_processor, monkeypatch):
    monkeypatch.setattr(outputs, "is_of_paper", lambda path: True)
    monkeypatch.setattr(outputs, "name_profile", lambda path, nb: "")
    assert another_processor("AUC 51.8 of 60\n", picture="eW91")[1] == "Other 1/1"
    assert another_processor("AUC 51.7 of 60\n", picture="eW91") == (False, outputs.processor())
