"""Write the explorer of results into a folder: one page over all published cells and claims, which works from a file.

A cell comes with the runs that it rests on, the settings of the first, their commits, and the command that makes it
again; and with its differences from other methods, where a page has them with an interval. A cell whose record is not
there ends the program with its name."""
import base64
import csv
import gzip
import json
import math
import re
import shutil
import sys
from pathlib import Path

from debias_nb import __version__
from debias_nb.papers.commands.reproduction import METRIC_NAMES
from debias_nb.papers.pages.frame import Results, all_experiments, papers
from debias_nb.papers.pages.claims import read_claims
from debias_nb.papers.notebooks import page_of
from debias_nb.papers.pages.report import has_notebook

PARTS = Path(__file__).parent / "site"
REPORTS = Path(__file__).parents[1] / "reports"
PAPERS = sorted(papers(), key=["itvreg", "arr", "scan"].index)
COLUMNS = ("paper", "table", "profile", "encoder", "method", "column", "shift", "metric", "unit", "value", "std", "low",
           "high", "n")
IDENTITY = ("profile", "table", "encoder", "method", "column", "metric") # of a cell, within its paper
DIFFERENCE = ("difference", "low", "high", "n")
FILES = ("explorer.html", "explorer.js", "explorer.css")


class Numbered(dict):
    "Values by their number, each once."
    def of(self, value) -> int:
        return self.setdefault(value, len(self))


def written(value):
    "Return a value of a cell as JSON has it: nothing where it is not known."
    if isinstance(value, float):
        return round(value, 5) if math.isfinite(value) else None
    return value


def settings_of(record: dict) -> str:
    "What a record's configuration sets, as JSON."
    return json.dumps(record["run"].model_dump(mode="json", exclude_defaults=True), sort_keys=True)


def cells_and_runs(results: Results) -> dict:
    "All cells with a number, as columns, and what they rest on. Raises `SystemExit` for one that has no record."
    columns = {name: [] for name in (*COLUMNS, "page", "runs", "commits", "settings", "command")}
    runs, commits, settings = Numbered(), Numbered(), Numbered()
    for paper in PAPERS:
        for experiment in all_experiments(paper):
            study = results.load(experiment.name, experiment.profile)
            page = page_of(experiment) if has_notebook(page_of(experiment)) else ""
            for cell in study.cells.dropna(subset="value").itertuples():
                records = [study.records_by_id.get(run) for run in cell.records]
                if not records or None in records:
                    sys.exit(f"{experiment.name}, {cell.profile}, {cell.encoder}, {cell.method}, {cell.column}: "
                             "a record of this cell is not there")
                for name in COLUMNS:
                    columns[name].append(written(getattr(cell, name)))
                columns["page"].append(page)
                columns["runs"].append([runs.of(run) for run in cell.records])
                known = {(record["environment"]["commit"] or "none")[:10] for record in records}
                columns["commits"].append([commits.of(commit) for commit in sorted(known)])
                columns["settings"].append(settings.of(settings_of(records[0])))
                columns["command"].append(cell.command)
    return {"cells": columns, "runs": list(runs), "commits": list(commits), "settings": list(settings)}


def differences(cells: dict) -> dict: # cells: columns of `cells_and_runs`
    "Differences of methods, in points, as columns; `cell` is the number of the method's cell."
    keys = zip(*(cells[name] for name in ("paper", *IDENTITY)))
    places = {key: place for place, key in enumerate(keys)}
    found = {name: [] for name in ("cell", "against", *DIFFERENCE)}
    with (REPORTS / "differences.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            row["column"] = row["test"]
            place = places.get(tuple(row[name] for name in ("paper", *IDENTITY)))
            if place is not None: # else of a measure that has no cell
                found["cell"].append(place)
                found["against"].append(row["against"])
                for name in DIFFERENCE:
                    found[name].append(float(row[name]) if row[name] else None)
    return found


def heading(name: str) -> str | None: # of an experiment, as `itvreg/table03`
    "The title of its page; None without a page."
    page = REPORTS / f"{name}.md"
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ") if page.exists() else None


def table_title(table: str) -> str: # `table3`
    "Return `Table 3`, and for a table of ours its name in words."
    name = table.replace("table", "Table ").replace("figure", "Figure ")
    return name.replace("_once", ", one split").replace("_", " ")


def titled(experiment, table: str) -> str: # table: its id
    "What a table is called: the title of its page, with its own name where it is the paper's, or the page has several."
    name = table_title(table.removeprefix(f"{experiment.experiment}_"))
    page = heading(page_of(experiment)) or experiment.title
    if of_paper(table):
        return f"{name}: {page.removeprefix(f'{name}: ')}"
    if len(experiment.tables) == 1 or table == experiment.experiment:
        return page
    return f"{page} ({name})"


def of_paper(table: str) -> bool:
    "Whether a table is a table or figure of the paper."
    return table_title(table)[0].isupper()


def titles() -> dict[str, dict[str, str]]: # paper -> table -> what it is called
    "Of all tables: those of the paper by number, then ours by title."
    found = {}
    for paper in PAPERS:
        called = {table.id: titled(experiment, table.id) for experiment in all_experiments(paper)
                  for table in experiment.tables}
        tables = sorted(called, key=lambda table: (not of_paper(table), *in_parts(called[table])))
        found[paper] = {table: called[table] for table in tables}
    return found


def in_parts(text: str) -> list: # `Table 11: ...` after `Table 3: ...`
    "Words and numbers of a title, to sort by."
    return [(part.isdigit(), int(part) if part.isdigit() else part) for part in re.split(r"(\d+)", text)]


def claims(results: Results) -> list[dict]:
    "The rows of the claims table."
    rows = []
    for paper in PAPERS:
        for claim in read_claims(paper, results).values():
            rows.append({
                "id": claim.id, "paper": paper, "claim": claim.statement, "reported": claim.reported_text,
                "real": claim.ours_text() or "not run", "synthetic": claim.ours_text("planted") or "not run",
                "answer": claim.word(), "page": f"reports/CLAIMS.html#{claim.id.lower()}"})
    return rows


def write(folder: Path) -> int: # bytes of the data
    "The page and all it needs."
    results = Results()
    data = cells_and_runs(results)
    data |= {"differences": differences(data["cells"]), "claims": claims(results), "metrics": METRIC_NAMES,
             "tables": titles()}
    packed = base64.b64encode(gzip.compress(json.dumps(data, ensure_ascii=False).encode(), mtime=0)).decode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "explorer.data.js").write_text(f'window.PACKED = "{packed}";\n', "utf-8")
    for name in FILES:
        text = (PARTS / name).read_text("utf-8")
        (folder / name).write_text(text.replace("VERSION", __version__), "utf-8")
    shutil.copytree(PARTS / "vendor", folder / "vendor", dirs_exist_ok=True)
    return len(packed)
