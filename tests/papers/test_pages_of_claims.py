"Pages that print claims, made from the records of a project that is made here: a column of numbers for each verdict."
import shutil
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from debias_nb.checks import ConfigError
from debias_nb.papers.commands.reproduction import write_pages
from debias_nb.papers.pages.frame import Results
from debias_nb.papers.pages.report import all_cells, arrange, richest_output, write_page
from debias_nb.papers.pages.verdicts import COUNTED, claim_counts, errata_counts, read_ledger
from debias_nb.papers.pages.verdicts import resting_on
from debias_nb.runs.config import load_experiment
from debias_nb.runs.records import Start, Store, make_record


ROOT = Path(__file__).parents[2]
REGULARIZERS = {"ITVReg": "itvreg", "OutReg": "outreg", "SimCSE": "simcse", "MaskReg": "maskreg", "L2-SP": "l2sp"}
MASKING = dict.fromkeys(("itvreg", "maskreg"), {"mask_share": .5})
METHODS = ["Base", "Finetuned", *REGULARIZERS, "ITVAug"]
TESTS = ("askubuntu", "quora")
LEVELS = { # method -> what it adds to plain fine-tuning on either test, and how far seeds scatter
    "Base": (-.1, -.1, 0), "Finetuned": (0, 0, .001), "ITVReg": (.05, .05, .001), "OutReg": (-.05, -.05, .001),
    "SimCSE": (0, 0, .001),
    "MaskReg": (.01, .01, .05), "L2-SP": (.05, -.05, .001),
}
CLAIMS = { # id -> statement, what is compared, and what the answer is
    "A1": ("ITVReg is above plain fine-tuning.", ("ITVReg", "Finetuned"), "Yes"),
    "A2": ("OutReg is above plain fine-tuning.", ("OutReg", "Finetuned"), "No, the reverse"),
    "A3": ("SimCSE is above plain fine-tuning.", ("SimCSE", "Finetuned"), "No: within a point"),
    "A4": ("MaskReg is above plain fine-tuning.", ("MaskReg", "Finetuned"), "Cannot tell"),
    "A5": ("ITVAug is above plain fine-tuning.", ("ITVAug", "Finetuned"), "Not run"),
    "A6": ("L2-SP is above plain fine-tuning.", ("L2-SP", "Finetuned"), "It depends"),
}


def ours(table, *methods, **options):
    "Comparisons of methods, as a file of claims has them."
    return {"table": table, "methods": list(methods)} | options


def configuration(name, **changes):
    "The configuration of an experiment with a column for each verdict, at real data."
    table = {"id": name, "columns": [
        {"label": f"Quora -> {test}", "corpus": "quora", "evaluate": test, "shift": "iid" if test == "quora" else "ood"}
        for test in TESTS]}
    methods = [{"name": method, "regularizer": kind, "weight": .1} | MASKING.get(kind, {})
               for method, kind in REGULARIZERS.items()]
    return {
        "paper": "itvreg", "experiment": name, "profile": "small", "title": f"Does {name} help?",
        "scale": "numbers that were made up",
        "encoders": [{"name": "potion-base-2M", "kind": "static"}],
        "methods": [{"name": "Base", "trained": False}, {"name": "Finetuned"}, *methods,
                    {"name": "ITVAug", "augmentation": "itvaug", "mask_share": .5}],
        "blocks": [{"encoders": ["potion-base-2M"], "corpora": [{"name": "quora"}], "methods": METHODS,
                    "evaluate": list(TESTS),
                    "training": {"learning_rate": .1, "epochs": 1, "batch_size": 8}, "seeds": [0, 1, 2, 3, 4, 5]}],
        "tables": [table]} | changes


def record_of(run, rng):
    "A record of a run that nobody made."
    *levels, spread = LEVELS[run.method.name]
    values = {test: .5 + level + rng.normal(0, spread) for test, level in zip(TESTS, levels)}
    replicates = {test: {"auc05": (value + np.random.default_rng(7).normal(0, .001, 20)).tolist()}
                  for test, value in values.items()}
    record = make_record(
        run, {test: {"auc05": value} for test, value in values.items()}, start=Start(), replicates=replicates,
        data={"train": {"fingerprint": "ab" * 32}}, encoder={"name": run.encoder.name, "fingerprint": "cd" * 32},
        device="cpu", dtype="fp32", peak_memory=1, curve={})
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
SHOWN = ("from IPython.display import Markdown\nfrom debias_nb.papers.pages.verdicts import read_ledger\n"
         "Markdown(read_ledger('itvreg', results).page())",)
PAGE = ("""
from debias_nb.papers.pages.answers import answer, summarize
from debias_nb.papers.pages.frame import only
from debias_nb.papers.pages.plots import estimate_plot
from debias_nb.papers.pages.tables import differences, show
from debias_nb.papers.pages.verdicts import resting_on
runs = results.study("itvreg/demo", "small")
changes = differences(runs["demo"])
compared = summarize({'all': changes})
show(f"**Answer.** {answer(only(changes, method='ITVReg'), 'ITVReg')}", compared)
show(resting_on(results, runs))
show(estimate_plot(compared.attrs["rows"]), alt="dots")
print("six seeds")
""",)
PAPER_VALUES = {"ITVReg": 60., "OutReg": 40., "Finetuned": 50.}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    "A project of one paper, with two experiments on one page, six claims and two errata."
    root = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "settings.ini", root)
    for folder in ("experiments/itvreg", "experiments/printed", "nbs/papers/itvreg"):
        (root / folder).mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, settings in (("demo", {}), ("more", {"page": "demo"})):
        path = root / f"experiments/itvreg/{name}.small.yaml"
        path.write_text(yaml.safe_dump(configuration(name, **settings)), "utf-8")
        for run in load_experiment(f"itvreg/{name}", "small", root).runs():
            if run.method.name in LEVELS:
                Store(root / "experiments").append(record_of(run, rng))
    printed_cells = [{"row": {"method": name}, "column": "Quora -> quora", "value": value}
                     for name, value in PAPER_VALUES.items()]
    table = {"caption": "made up", "metric": "auc05", "unit": "percent", "tolerance": 1., "cells": printed_cells}
    (root / "experiments/printed/itvreg.yaml").write_text(
        yaml.safe_dump({"paper": "itvreg", "title": "A paper", "tables": {"demo": table}}), "utf-8")
    claims = []
    for id, (statement, methods, _) in CLAIMS.items():
        fact = {"label": " − ".join(methods), "table": "demo", "methods": methods, "column": "Quora -> quora"}
        claims.append({"id": id, "statement": statement, "place": "Section 1", "ours": [ours("demo", *methods)],
                       "printed": [fact] if id in ("A1", "A2") else []})
    claims.append({"id": "A7", "place": "Section 2", "parts": {
        "a": {"statement": "ITVReg is above OutReg.", "ours": [ours("more", "ITVReg", "OutReg")]},
        "b": {"statement": "SimCSE is above OutReg.", "ours": [ours("more", "SimCSE", "OutReg", "ITVAug")]}}})
    erratum = {"id": "E-A1", "kind": "contradiction", "title": "A number", "text": "The text says otherwise.\n",
               "printed": [{"label": "the text", "rows": "demo", "bound": 4}]}
    for name, content in {"claims": claims, "errata": [erratum]}.items():
        (root / f"experiments/itvreg/{name}.yaml").write_text(yaml.safe_dump({name: content}), "utf-8")
    folder = root / "nbs/papers/itvreg"
    (folder / "claims.ipynb").write_text(notebook("# Claims", RESULTS_CELL, SHOWN), "utf-8")
    (folder / "demo.ipynb").write_text(notebook("# Does it help?\n\n[Claims](./claims.ipynb#a1)", RESULTS_CELL, PAGE,
                                                "## Where\n\n" + "a line\n" * 50), "utf-8")
    return root


@pytest.fixture
def in_project(project, monkeypatch):
    monkeypatch.chdir(project)
    return project


def test_each_claim_gets_the_answer_of_its_numbers(in_project):
    results = Results()
    book = read_ledger("itvreg", results)
    assert book is read_ledger("itvreg", results), "read once"
    assert ("itvreg/demo", "small") in results.values
    assert ({id: book.claims[id].answer("small") for id in CLAIMS}
            == {id: answer for id, (_, _, answer) in CLAIMS.items()})
    assert book.claims["A1"].summary("small").endswith("; 2 for")
    assert book.claims["A1"].measured("small").startswith("ITVReg − Finetuned: +5.0 [")
    assert book.claims["A5"].summary("small") == "2 not run"
    assert book.claims["A6"].summary("small").endswith("; 1 for, 1 against")
    estimates = book.estimates.set_index("claim")
    assert estimates.protocol.eq("proxy").all() and estimates.loc["A1", "page"] == "itvreg/claims.md#a1"
    assert (estimates.loc["A1", "answer"], estimates.loc["A2", "disputed_by"]) == ("holds", "the paper's own cells")
    assert estimates.loc["A1", "printed_size"] == "excluded" and estimates.loc["A7a", "place"] == "Section 2"
    assert [book.claims[id].answer("small") for id in ("A7a", "A7b")] == ["Yes", "Yes, in part"]
    assert book.claims["A7b"].statement == "SimCSE is above OutReg." and book.claims["A7a"].place == "Section 2"
    assert set(book.comparisons.claim) == {*CLAIMS, "A7a", "A7b"}
    assert repr(book.claims["A1"]) == "<claim A1>"


def test_a_page_of_claims_has_a_row_a_claim(in_project):
    book = read_ledger("itvreg", Results())
    page = book.page()
    lines = {line.partition("|")[2].partition("|")[0].rpartition(">")[2].strip(): line for line in page.splitlines()
             if "</a>" in line}
    assert [lines[id].split("|")[5].strip(" *") for id in CLAIMS] == [answer for *_, answer in CLAIMS.values()]
    assert "| ITVReg − Finetuned: +10.00 |" in lines["A1"]
    assert "| OutReg − Finetuned: −10.00 (no) |" in lines["A2"]
    assert "|  |" in lines["A3"]
    assert '<a id="a7"></a><a id="a7a"></a>A7a' in lines["A7a"] and '<a id="a7b"></a>A7b' in lines[
        "A7b"], "old links find their row"
    assert "ITVReg − Finetuned: +" in lines["A1"] and "<details" not in page, "no relation, no fold"


def test_counts_of_claims_are_those_of_their_words(in_project):
    counts = claim_counts({"A": read_ledger("itvreg", Results())})
    words = [answer.removesuffix(", in part") for *_, answer in CLAIMS.values()] + ["Yes", "Yes"]
    assert counts.loc["A, claims"].to_dict() == {word: words.count(word) for word in COUNTED}
    assert not counts.loc["A, relations"].any()
    assert errata_counts({"A": read_ledger("itvreg", Results())}).contradiction.tolist() == ["1: 1 contradicted"]


def test_a_page_is_written_with_its_answer_first(in_project, tmp_path):
    results = Results(is_page=True)
    names = {path.name for path in write_page("itvreg/demo", tmp_path, results)}
    assert names == {"demo.md", "demo.1.svg", "demo.csv", "demo.differences.csv"}
    assert ("claims", "itvreg") in results.values, "what a page reads is there for the next one"
    page = (tmp_path / "itvreg/demo.md").read_text("utf-8")
    title, answer, *_ = page.split("\n\n")
    assert title == "# Does it help?"
    assert answer.startswith("**Answer.** Yes: ITVReg is ")
    assert "points above plain fine-tuning [+" in answer
    assert "[A1](./claims.md#a1) (**Yes**)" in page
    assert "```\nsix seeds\n```" in page
    assert "![dots](./demo.1.svg)" in page
    assert ("[Run it](../../nbs/papers/itvreg/demo.ipynb) · with data: `debias-nb run itvreg/demo --profile "
            "small`" in page)
    assert ("[Claims](./claims.md#a1)" in page
            and "<summary>Where</summary>" in page), "links lead to pages, long sections are folded"
    rows = pd.read_csv(tmp_path / "itvreg/demo.differences.csv")
    assert set(rows.table) == {"demo", "more"}, "all experiments of a page"
    assert set(rows.method) == {*LEVELS} - {"Finetuned"}
    cells = all_cells("itvreg")
    assert {cell.status for cell in cells} == {"measured", "not run"}
    assert len([cell for cell in cells if cell.profile == "paper"]) == 3
    with pytest.raises(ConfigError, match="no paper 'itvre'; did you mean 'itvreg'"):
        all_cells("itvre")


def test_pages_of_a_paper_and_what_fails_in_one(in_project, tmp_path):
    paths = write_pages(["itvreg"], tmp_path, False, in_project)
    assert {path.stem for path in paths if path.suffix == ".md"} == {"demo", "claims"}
    assert "| **Yes** |" in (tmp_path / "itvreg/claims.md").read_text("utf-8")
    broken = in_project / "nbs/papers/itvreg/more.ipynb"
    broken.write_text(notebook(("1 / 0",)), "utf-8")
    with pytest.raises(ZeroDivisionError) as error:
        write_pages(["itvreg/more"], tmp_path, False, in_project)
    assert error.value.__notes__ == ["in more.ipynb: 1 / 0"]
    broken.unlink()
    with pytest.raises(ValueError, match="nothing of text/latex can stand on a page"):
        richest_output({"text/latex": "x"})
    assert arrange("# T\n\nabout\n\n## Other scales\n\nx", "line").count("<details") == 1


def test_a_page_names_the_claims_that_rest_on_it_and_unknown_names_are_refused(in_project):
    results = Results()
    study = results.load("itvreg/demo", "small")
    assert resting_on(results, study).startswith("Claims that use these runs, each judged over all of its comparisons, "
                                                 "here and elsewhere: [A1]")
    path = in_project / "experiments/itvreg/claims.yaml"
    content = path.read_text("utf-8")
    path.write_text(content.replace("table: demo", "table: dem"), "utf-8")
    with pytest.raises(ConfigError, match="claims.yaml: A1: no table 'dem'"):
        read_ledger("itvreg", Results())
    path.write_text(content, "utf-8")


# ---------------------------------------------------------------- what records say beyond their metrics


# ---------------------------------------------------------------- what is printed, and what is ours beside it


PAGES = {f"{path.parent.name}/{path.stem}": path
         for path in sorted((ROOT / "reports").glob("*/claims.md"))}
NAMES = r"`?(?P<a>.+?)`? (?P<sign>[−/]) `?(?P<b>.+?)`?"
