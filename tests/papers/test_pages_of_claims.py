"Pages that print claims, made from the records of a project that is made here: a column of numbers for each verdict."
import re
import shutil
from itertools import permutations
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from debias_nb.checks import ConfigError
from debias_nb.papers.commands.reproduction import write_pages
from debias_nb.papers.pages.cells import row_name
from debias_nb.papers.pages.expected import load_expected
from debias_nb.papers.pages.frame import Results, only
from debias_nb.papers.pages.report import all_cells, arrange, richest_output, write_page
from debias_nb.papers.pages.claims import ESTIMATES_FILE, VERDICTS, read_book
from debias_nb.papers.pages.claims import resting_on
from debias_nb.papers.pages.printed import POINTS
from debias_nb.runs.config import load_experiment
from debias_nb.runs.records import Start, Store, make_record

from cells import a_run

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
SHOWN = ("from IPython.display import Markdown\nfrom debias_nb.papers.pages.claims import errata_page\n"
         "Markdown(*errata_page('itvreg'))",)
PAGE = ("""
from debias_nb.papers.pages.answers import answer, summarize
from debias_nb.papers.pages.frame import only
from debias_nb.papers.pages.plots import estimate_plot
from debias_nb.papers.pages.tables import differences, show
from debias_nb.papers.pages.claims import resting_on
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
    (folder / "errata.ipynb").write_text(notebook("# Errata", RESULTS_CELL, SHOWN), "utf-8")
    (folder / "demo.ipynb").write_text(notebook("# Does it help?\n\n[Claims](../claims.ipynb#a1)", RESULTS_CELL, PAGE,
                                                "## Where\n\n" + "a line\n" * 50), "utf-8")
    return root


@pytest.fixture
def in_project(project, monkeypatch):
    monkeypatch.chdir(project)
    return project


def test_each_claim_gets_the_answer_of_its_numbers(in_project):
    results = Results()
    book = read_book("itvreg", results)
    assert book is read_book("itvreg", results), "read once"
    assert ("itvreg/demo", "small") in results.values
    assert {id: book.verdict(id) for id in CLAIMS} == {id: answer for id, (_, _, answer) in CLAIMS.items()}
    assert book.measured("A1").startswith("ITVReg − Finetuned: +5.0 [") and book.measured("A5") == ""
    estimates = only(book.estimates, profile="small").drop_duplicates("claim").set_index("claim")
    assert estimates.loc["A1", "printed_size"] == "excluded" and estimates.loc["A7a", "place"] == "Section 2"
    assert estimates.loc["A1", "printed"] == "ITVReg − Finetuned: +10.00"
    assert estimates.loc["A2", "printed"] == "OutReg − Finetuned: −10.00 (no)" and estimates.loc["A3", "printed"] == ""
    assert estimates.loc[["A7a", "A7b"], "verdict"].tolist() == ["Yes", "Yes"]
    assert estimates.loc["A7b", "statement"] == "SimCSE is above OutReg."
    assert set(book.estimates.claim) == {*CLAIMS, "A7a", "A7b"} and set(book.estimates.verdict) <= {*VERDICTS}


def test_a_page_is_written_with_its_answer_first(in_project, tmp_path):
    results = Results(is_page=True, pages=tmp_path)
    read_book("itvreg", Results()).estimates.to_csv(tmp_path / ESTIMATES_FILE)
    names = {path.name for path in write_page("itvreg/demo", tmp_path, results)}
    assert names == {"demo.md", "demo.1.svg", "demo.csv", "demo.differences.csv"}
    page = (tmp_path / "itvreg/demo.md").read_text("utf-8")
    title, answer, *_ = page.split("\n\n")
    assert title == "# Does it help?"
    assert answer.startswith("**Answer.** Yes: ITVReg is ")
    assert "points above plain fine-tuning [+" in answer
    assert "[A1](../CLAIMS.md#a1) (**Yes**)" in page
    assert "```\nsix seeds\n```" in page
    assert "![dots](./demo.1.svg)" in page
    assert ("[Run it](../../nbs/papers/itvreg/demo.ipynb) · with data: `debias-nb run itvreg/demo --profile "
            "small`" in page)
    assert ("[Claims](../CLAIMS.md#a1)" in page
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
    assert {path.stem for path in paths if path.suffix == ".md"} == {"demo", "errata"}
    assert "**Verdict:** contradicted" in (tmp_path / "itvreg/errata.md").read_text("utf-8")
    broken = in_project / "nbs/papers/itvreg/more.ipynb"
    broken.write_text(notebook(("1 / 0",)), "utf-8")
    with pytest.raises(ZeroDivisionError) as error:
        write_pages(["itvreg/more"], tmp_path, False, in_project)
    assert error.value.__notes__ == ["in more.ipynb: 1 / 0"]
    broken.unlink()
    with pytest.raises(ValueError, match="nothing of text/latex can stand on a page"):
        richest_output({"text/latex": "x"})
    assert arrange("# T\n\nabout\n\n## Other scales\n\nx", "line").count("<details") == 1


def test_a_page_names_the_claims_that_rest_on_it_and_unknown_names_are_refused(in_project, tmp_path):
    results = Results()
    study = results.load("itvreg/demo", "small")
    results.pages = tmp_path
    assert resting_on(results, study) == "", "no table of claims"
    read_book("itvreg", results).estimates.to_csv(tmp_path / ESTIMATES_FILE)
    assert resting_on(results, study).startswith("Claims on these runs, each judged over all of its comparisons: [A1]")
    path = in_project / "experiments/itvreg/claims.yaml"
    content = path.read_text("utf-8")
    path.write_text(content.replace("table: demo", "table: dem"), "utf-8")
    with pytest.raises(ConfigError, match="claims.yaml: A1: no table 'dem'"):
        read_book("itvreg", Results())
    path.write_text(content, "utf-8")


# ---------------------------------------------------------------- what records say beyond their metrics


def weight_record(method="ITVReg", seed=0, **extra):
    "A record with something beyond its metrics."
    return {"run": a_run(method), "seed": seed, "extra": extra, "metrics": {"cross": {"queries": 5 + seed}}}


# ---------------------------------------------------------------- what is printed, and what is ours beside it


ESTIMATES = pd.read_csv(ROOT / "reports" / ESTIMATES_FILE).query("profile == 'small'").fillna("")
PRINTED_PART = re.compile(r"(?P<name>.+?): (?P<low>[+−]?[\d.,]+)(?: to (?P<high>[+−]?[\d.,]+))?(?P<unit> times| "
                          r"topics)?(?: \((?:no|\d+ of \d+)\))?")
NAMES = r"`?(?P<a>.+?)`? (?P<sign>[−/]) `?(?P<b>.+?)`?"
SUM = "sum of "


def mismatch(paper_text, ours, values=()): # values: as `printed_differences`
    "Say where a printed number is no named difference, or has another direction or other names than ours."
    sums = [name for part in ours.split("; ") if (name := part.partition(": ")[0]).startswith(SUM)]
    pairs = [re.fullmatch(NAMES, part.partition(": ")[0]) for part in ours.split("; ") if ours
             and not part.startswith(SUM)]
    firsts, seconds = {pair["a"] for pair in pairs}, {pair["b"] for pair in pairs}
    for part in paper_text.split("; "):
        match = PRINTED_PART.fullmatch(part)
        if match and match["name"].startswith(SUM): # of two differences, which has one name here and there
            if sums and match["name"] not in sums or match["unit"]:
                return f"{part}: another sum, or unit"
            continue
        pair = match and re.fullmatch(NAMES, match["name"])
        if not pair:
            return f"{part}: no difference is named"
        ends = [match["low"], match["high"] or match["low"]]
        if ((pair["sign"] == "/") != (match["unit"] == " times")
            or any((end[0] in "+−") == bool(match["unit"]) for end in ends)):
            return f"{part}: another unit"
        if pair["a"] in seconds - firsts:
            return f"{part}: ours are taken from {pair['a']}"
        numbers = values and values.get((pair["a"], pair["b"], pair["sign"]))
        if numbers and not {float(end.replace("−", "-").replace(",", "")) for end in ends} <= numbers:
            return f"{part}: not what the two differ by"
    return ""


def printed_differences(paper):
    "Return each pair of methods of a paper, with all their differences in points and ratios, cell by cell."
    problem = {}
    for table in load_expected(paper).tables.values():
        cells = {}
        for cell in table.cells:
            names = dict(cell.row)
            place = (names.pop("base", ""), cell.column)
            if cell.value:
                cells.setdefault(place, {})[row_name(**names)] = cell.value * POINTS[table.unit]
        for values in cells.values():
            for (a, value), (b, second_value) in permutations(values.items(), 2):
                problem.setdefault((a, b, "−"), set()).add(round(value - second_value, 2))
                problem.setdefault((a, b, "/"), set()).add(round(value / second_value, 2))
    return problem


