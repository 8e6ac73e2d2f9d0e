"Pages that are made from the records of a project that is made here; some of its runs have failed, some are not there."
import shutil
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from typer.testing import CliRunner

from debias_nb.checks import ConfigError
from debias_nb.commands.cli import app
from debias_nb.papers.commands.reproduction import write_pages
from debias_nb.papers.pages.claims import check_names
from debias_nb.papers.pages.execution import _lacks_runs
from debias_nb.papers.pages.frame import Results
from debias_nb.papers.pages.report import all_cells, arrange, richest_output, write_some, write_tables
from debias_nb.runs.config import load_experiment
from debias_nb.runs.origin import Start
from debias_nb.runs.records import Store, failed_record
from made import record_of


ROOT = Path(__file__).parents[2]
TESTS = ("askubuntu", "quora")
LEVELS = {"Base": -.1, "Finetuned": 0, "ITVReg": .05} # method -> what it adds to plain fine-tuning; ITVAug has failed


def configuration(name, **changes):
    "The configuration of an experiment on real data."
    table = {"id": name, "columns": [
        {"label": f"Quora -> {test}", "corpus": "quora", "evaluate": test, "shift": "iid" if test == "quora" else "ood"}
        for test in TESTS]}
    methods = [{"name": "Base", "trained": False}, {"name": "Finetuned"},
               {"name": "ITVReg", "regularizer": "itvreg", "weight": .1, "mask_share": .5},
               {"name": "ITVAug", "augmentation": "itvaug", "mask_share": .5}]
    return {
        "title": f"Does {name} help?",
        "scale": "numbers that were made up",
        "encoders": [{"name": "potion-base-2M", "kind": "static"}],
        "methods": methods,
        "blocks": [{"encoders": ["potion-base-2M"], "corpora": [{"name": "quora"}],
                    "methods": [method["name"] for method in methods], "evaluate": list(TESTS),
                    "training": {"learning_rate": .1, "epochs": 1, "batch_size": 8}, "seeds": [0, 1, 2, 3, 4, 5]}],
        "tables": [table], "small": {}} | changes


def record_with_its_level(run, rng):
    "A record of a run that nobody made; those without a level have failed."
    if run.method.name not in LEVELS:
        return failed_record(run, Start(), "the loss is nan", 7)
    values = {test: .5 + LEVELS[run.method.name] + rng.normal(0, .001) for test in TESTS}
    replicates = {test: {"auc05": (value + np.random.default_rng(7).normal(0, .001, 20)).tolist()}
                  for test, value in values.items()}
    record = record_of(run, {test: {"auc05": value} for test, value in values.items()}, replicates=replicates)
    record["environment"]["dirty"] = False # whatever the state of this checkout
    return record


def notebook(*cells):
    "A notebook whose third cell has the parameters: texts are Markdown unless they are given as code."
    cells_of = [new_markdown_cell(cell) if type(cell) is str else new_code_cell(*cell) for cell in cells]
    parameters = new_code_cell("# Nothing can be set.", metadata={"tags": ["parameters"]})
    nb = new_notebook(cells=[*cells_of[:2], parameters, *cells_of[2:]],
                      metadata={"kernelspec": {"name": "python3", "language": "python", "display_name": "python3"}})
    return nbformat.writes(nb)


RESULTS_CELL = ("from debias_nb.papers.pages.frame import Results\nresults = Results.current()",)
SHOWN = ("from IPython.display import Markdown\nfrom debias_nb.papers.pages.claims import errata_page\n"
         "Markdown(*errata_page('itvreg'))",)
PAGE = ("""
from debias_nb.papers.pages.claims import answer
from debias_nb.papers.pages.compare import Question, differences
from debias_nb.papers.pages.form import show_table
from debias_nb.papers.pages.frame import only
runs = results.study("itvreg/demo", "small")
question = Question("ITVReg − plain", only(differences(runs["demo"]), method="ITVReg"))
show_table([runs], answer(question, "ITVReg"), [question])
print("six seeds")
""",)
LACKING = ("""
nothing, = only(differences(runs["demo"]), method="nobody").paired
""",)
AFTER = ("print(nothing.difference)",)
PAPER_VALUES = {"ITVReg": 60., "OutReg": 40., "Finetuned": 50.}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    "A project of one paper, with two experiments on one page, a claim and an erratum."
    root = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "settings.ini", root)
    for folder in ("experiments/itvreg", "experiments/studies/itvreg", "experiments/printed", "nbs/papers/itvreg"):
        (root / folder).mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, settings in (("demo", {}), ("more", {"page": "itvreg/demo"})):
        path = root / f"experiments/studies/itvreg/{name}.yaml"
        path.write_text(yaml.safe_dump(configuration(name, **settings)), "utf-8")
        for run in load_experiment(f"itvreg/{name}", "small", root).runs():
            Store(root / "experiments").append(record_with_its_level(run, rng))
    printed_cells = [{"row": {"method": name}, "column": "Quora -> quora", "value": value}
                     for name, value in PAPER_VALUES.items()]
    table = {"caption": "made up", "metric": "auc05", "unit": "percent", "cells": printed_cells}
    (root / "experiments/printed/itvreg.yaml").write_text(
        yaml.safe_dump({"paper": "itvreg", "title": "A paper", "tables": {"demo": table}}), "utf-8")
    claim = {"id": "A1", "statement": "ITVReg is above plain fine-tuning.", "place": "Section 1",
             "ours": [{"table": "demo", "methods": ["ITVReg", "Finetuned"]}]}
    erratum = {"id": "E-A1", "kind": "contradiction", "title": "A number", "text": "The text says otherwise.\n",
               "printed": [{"label": "the text", "rows": "demo", "bound": 4}]}
    for name, content in {"claims": [claim], "errata": [erratum]}.items():
        (root / f"experiments/itvreg/{name}.yaml").write_text(yaml.safe_dump({name: content}), "utf-8")
    folder = root / "nbs/papers/itvreg"
    (folder / "errata.ipynb").write_text(notebook("# Errata", RESULTS_CELL, SHOWN), "utf-8")
    (folder / "demo.ipynb").write_text(notebook("# Does it help?\n\n[Claims](../claims.ipynb#a1)", RESULTS_CELL, PAGE,
                                                LACKING, AFTER,
                                                "## Where"), "utf-8")
    return root


@pytest.fixture
def in_project(project, monkeypatch):
    monkeypatch.chdir(project)
    return project


@pytest.mark.parametrize("error, lacks_runs, goes_on", [
    (KeyError("x"), True, True), (KeyError("x"), False, False), (TypeError("x"), True, False)])
def test_an_error_is_a_lack_only_where_runs_lack(error, lacks_runs, goes_on):
    assert _lacks_runs(error, {"results": Results(lacks_runs=lacks_runs)}) is goes_on


def test_a_page_is_written_with_its_answer_first_and_goes_on_where_runs_lack(in_project, tmp_path):
    results = Results(is_page=True)
    names = {path.name for path in write_some(["itvreg/demo"], tmp_path, results, in_project)}
    assert names == {"demo.md", "demo.1.svg"}
    page = (tmp_path / "itvreg/demo.md").read_text("utf-8")
    title, answer, *_ = page.split("\n\n")
    assert title == "# Does it help?" and answer.startswith("**Answer.** Yes. ITVReg is ")
    assert "points above plain fine-tuning [+" in answer
    assert "```\nsix seeds\n```" in page and "](./demo.1.svg)" in page
    assert "[Run it](../../nbs/papers/itvreg/demo.ipynb) · [all differences](../differences.csv)" in page
    assert "[Claims](../CLAIMS.md#a1)" in page, "links lead to pages"
    assert page.count("*not run here*") == 2
    write_tables(tmp_path, results)
    rows, cells = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("differences", "cells"))
    assert set(rows.table) == {"demo", "more"} and set(rows.method) == {*LEVELS} - {"Finetuned"}
    assert {*cells.method} == {*LEVELS} and cells.value.notna().all()
    everything = all_cells()
    assert {*everything.status} == {"measured", "failed", "not run"} and (everything.profile == "paper").sum() == 3
    assert everything.why.str.contains("training stopped: the loss is nan").any()
    assert "nan" not in page.replace("the loss is nan", "") and "None" not in page
    assert "from debias_nb" not in page and str(in_project) not in page, "code and places are left out"


def test_pages_of_a_paper_and_what_fails_in_one(in_project, tmp_path):
    paths = write_pages(["itvreg"], tmp_path, False, in_project)
    assert {path.stem for path in paths if path.suffix == ".md"} == {"demo", "errata"}
    assert "**Result:** contradicted" in (tmp_path / "itvreg/errata.md").read_text("utf-8")
    broken = in_project / "nbs/papers/itvreg/more.ipynb"
    broken.write_text(notebook(("None + 0",)), "utf-8")
    with pytest.raises(TypeError) as error:
        write_pages(["itvreg/more"], tmp_path, False, in_project)
    assert error.value.__notes__ == ["in more.ipynb: None + 0"]
    broken.unlink()
    with pytest.raises(ValueError, match="nothing of text/latex can stand on a page"):
        richest_output({"text/latex": "x"})
    assert arrange("# T\n\nabout\n\n## Where\n\nx", "line").endswith("x\n\n## Claim and runs\n\nabout\n\nline\n")


def test_unknown_names_of_claims_are_refused(in_project):
    path = in_project / "experiments/itvreg/claims.yaml"
    content = path.read_text("utf-8")
    check_names(Results())
    path.write_text(content.replace("table: demo", "table: dem"), "utf-8")
    with pytest.raises(ConfigError, match="^experiments/itvreg/claims.yaml: A1: no cell is named so: dem, "):
        check_names(Results())
    path.write_text(content, "utf-8")


def test_records_of_an_experiment_of_ours_are_published(in_project):
    told = CliRunner().invoke(app, ["publish", "itvreg/demo", "--profile", "small"])
    assert "demo.small.parquet: 19 records" in told.output, told.output
    assert (in_project / "experiments/studies/itvreg/demo.small.parquet").is_file()
