"A page that is kept is what it would be if it were made again: whatever it can read is looked at."
import json
import subprocess
from pathlib import Path

import pages
import pytest

TABLES = {"itvreg/table03", "itvreg/table05"}
NAMES = [*sorted(TABLES), "itvreg/claims", "report"]
PLACES = {name: Path("REPORT.md" if name == "report" else f"{name}.md") for name in NAMES}


def notebook(source: str, output: str = "") -> str:
    outputs = [{"output_type": "stream", "name": "stdout", "text": output}]
    return json.dumps({"cells": [{"cell_type": "code", "source": source, "metadata": {}, "outputs": outputs}]})


@pytest.fixture
def project(tmp_path):
    "A project of four pages that are made."
    for name in NAMES:
        files = tmp_path / "reports" / PLACES[name]
        for file, text in ((tmp_path / f"nbs/papers/{name}.ipynb", notebook(name)), (files, name),
                           (files.with_suffix(".1.svg"), "<svg/>")):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    for name in ("debias_nb/a.py", "experiments/a.yaml", "_runs/records/a.json", "reports/itvreg/plan.svg",
                 "nbs/papers/itvreg/plan.svg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / ".gitignore").write_text("_runs/\n")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


def keys(root: Path, *details) -> dict[str, str]:
    return pages.page_keys(root, root / "reports", TABLES, NAMES, *details)


def note_pages(root: Path) -> dict:
    folder = root / "reports"
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {"keys": keys(root), "files": {path.relative_to(folder).as_posix(): pages.file_hash(path)
                                          for path in files}}


@pytest.mark.parametrize("change, text, stale", [
    ("README.md", None, []),                                                     # nothing
    ("tests/test_a.py", "", []),                                                 # no page reads a test
    ("nbs/papers/itvreg/table03.ipynb", notebook("itvreg/table03", "1"), []),    # what a cell showed is no source
    ("nbs/papers/itvreg/table03.ipynb", notebook("x"), ["itvreg/table03", "itvreg/claims", "report"]),
    ("nbs/papers/itvreg/claims.ipynb", notebook("x"), NAMES),                    # a page may tell of claims
    ("nbs/papers/itvreg/plan.svg", "<svg/>", NAMES),
    ("debias_nb/a.py", "x = 1", NAMES),
    ("debias_nb/new.py", "", NAMES),                                             # that git does not have yet
    ("debias_nb/a.py", None, NAMES),                                             # gone
    ("experiments/a.yaml", "x: 1", NAMES),
    ("_runs/records/a.json", "{'x': 1}", NAMES),                                 # a record of this machine
    ("_runs/records/b.json", "{}", NAMES),
    ("_runs/reports/itvreg/table03.md", "x", []),                                # made, and read by nothing
    ("reports/itvreg/table03.md", "by hand", ["itvreg/table03"]),
    ("reports/itvreg/table05.1.svg", None, ["itvreg/table05"]),
    ("reports/REPORT.md", None, ["report"]),
    ("reports/itvreg/plan.svg", "x", NAMES),                                     # which several pages may have
])
def test_a_page_is_made_again_exactly_where_something_that_it_rests_on_changed(project, change, text, stale):
    note = note_pages(project)
    path = project / change
    if text is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert pages.stale_pages(note, keys(project), project / "reports", PLACES) == stale


def test_a_source_that_git_is_told_to_look_away_from_counts(project):
    keys_before = keys(project)
    (project / ".git/info/exclude").write_text("experiments/\ndebias_nb/__pycache__/\n")
    (project / "experiments/b.yaml").write_text("x: 1")
    assert not set(keys_before.values()) & set(keys(project).values())
    keys_before = keys(project)
    (project / "debias_nb/__pycache__").mkdir()
    (project / "debias_nb/__pycache__/a.pyc").write_text("")
    assert keys(project) == keys_before, "what Python compiles is no source"


def test_other_packages_data_and_ways_to_make_a_page_make_all_again(project, monkeypatch):
    note = note_pages(project)
    folder = project / "reports"
    assert pages.stale_pages(note, keys(project, "with own runs"), folder, PLACES) == NAMES
    assert pages.stale_pages({}, keys(project), folder, PLACES) == NAMES
    monkeypatch.setenv("DEBIAS_NB_DATA", "/elsewhere")
    assert pages.stale_pages(note, keys(project), folder, PLACES) == NAMES
    monkeypatch.undo()
    monkeypatch.setattr(pages.metadata, "distributions", lambda: [])
    assert pages.stale_pages(note, keys(project), folder, PLACES) == NAMES


def test_committed_pages_are_sources_of_those_of_own_runs(project):
    reports = project / "_runs/reports"
    keys_before = pages.page_keys(project, reports, TABLES, NAMES)
    assert keys_before == pages.page_keys(project, reports, TABLES, NAMES)
    (project / "reports/itvreg/table03.md").write_text("other")
    assert keys_before.keys() == {page for page, key in pages.page_keys(project, reports, TABLES, NAMES).items()
                                  if key != keys_before[page]}


def test_only_pages_that_are_stale_are_made_and_what_fails_is_not_noted(project, monkeypatch):
    from debias_nb.papers.commands import reproduction
    from debias_nb.papers.pages import frame, report
    from debias_nb.runs import config
    calls = []

    def write(names, folder, fresh, root, keep=None):
        calls.append(names)
        return [folder / PLACES[name] for name in names or NAMES]

    monkeypatch.setattr(reproduction, "write_pages", write)
    monkeypatch.setattr(frame, "papers", lambda: ["itvreg"])
    monkeypatch.setattr(config, "configured", lambda _: sorted(TABLES))
    monkeypatch.setattr(report, "BOOKS", {"report": "REPORT"})
    monkeypatch.setattr(report, "has_notebook", lambda name: name in NAMES)
    folder = project / "reports"
    assert pages.make(project, folder, False) == NAMES and calls == [None], "all at once, papers side by side"
    assert pages.make(project, folder, False) == [] and calls == [None], "nothing is executed"
    (folder / "itvreg/table03.md").write_text("by hand")
    assert pages.make(project, folder, False) == ["itvreg/table03"] == calls[-1]
    (folder / "itvreg/table03.md").write_text("by another hand")
    monkeypatch.setattr(reproduction, "write_pages", lambda *_: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            pages.make(project, folder, False)
