"""Write the explorer of results into a folder: one page over all published cells and claims, which works from a file.

A cell comes with the runs that it rests on, the settings of the first, their commits, and the command that makes it
again. A cell whose record is not there ends the program with its name."""
import base64
import gzip
import json
import shutil
import sys
from pathlib import Path

from debias_nb import __version__
from debias_nb.repro.cli import METRIC_NAMES
from debias_nb.repro.pages.frame import all_experiments, only_stored, papers, stored
from debias_nb.repro.pages.printed import printed_verdict
from debias_nb.repro.pages.report import has_notebook
from debias_nb.repro.pages.verdicts import _title, read_ledger

PARTS = Path(__file__).parent / "site"
PAPERS = sorted(papers(), key=["itvreg", "arr", "scan"].index)
COLUMNS = ("paper", "table", "profile", "encoder", "method", "column", "shift", "metric", "unit", "value", "std", "low", "high", "n")
FILES = ("explorer.html", "explorer.js", "explorer.css")


class Numbered(dict):
    "Values by their number, each once."
    def of(self, value) -> int:
        return self.setdefault(value, len(self))


def settings_of(record: dict) -> str:
    "What a record's configuration sets, as JSON."
    said = {name: part for name, part in record["config"].items() if part not in (None, {}, [])}
    return json.dumps(said, sort_keys=True)


def cells_and_runs() -> dict:
    "All cells with a number, as columns, and what they rest on. Raises `SystemExit` for one that has no record."
    columns = {name: [] for name in (*COLUMNS, "page", "runs", "commits", "settings", "command")}
    runs, commits, settings = Numbered(), Numbered(), Numbered()
    for paper in PAPERS:
        for experiment in all_experiments(paper):
            study = stored(experiment.name, experiment.profile)
            page = experiment.name if has_notebook(experiment.name) else ""
            for cell in study.cells:
                if cell.value is None:
                    continue
                records = [study.found.get(run) for run in cell.records]
                if not records or None in records:
                    sys.exit(f"{experiment.name}, {cell.profile}, {cell.row}, {cell.column}: a record of this cell is not there")
                for name in COLUMNS:
                    value = getattr(cell, name)
                    columns[name].append(round(value, 5) if isinstance(value, float) else value)
                columns["page"].append(page)
                columns["runs"].append([runs.of(run) for run in cell.records])
                known = {(record["environment"]["commit"] or "none")[:10] for record in records}
                columns["commits"].append([commits.of(commit) for commit in sorted(known)])
                columns["settings"].append(settings.of(settings_of(records[0])))
                columns["command"].append(cell.command)
    return {"cells": columns, "runs": list(runs), "commits": list(commits), "settings": list(settings)}


def titled(experiment, table: str) -> str: # table: its id
    "What a table is called: the title of its page, with the paper's number of it, or its own name where a page has several."
    name = _title(table.removeprefix(f"{experiment.experiment}_"))
    if name[0].isupper(): # a table or a figure of the paper
        return f"{name}: {experiment.title.rpartition(': ')[2]}"
    if len(experiment.tables) == 1 or table == experiment.experiment:
        return experiment.title
    return f"{experiment.title} ({name})"


def titles() -> dict[str, dict[str, str]]: # paper -> table -> what it is called
    "Of all tables."
    every = {paper: all_experiments(paper) for paper in PAPERS}
    return {paper: {table.id: titled(one, table.id) for one in some for table in one.tables} for paper, some in every.items()}


def claims() -> list[dict]:
    "The rows of the claims table."
    rows = []
    for paper in PAPERS:
        for claim in read_ledger(paper).claims.values():
            rows.append({
                "id": claim.id, "paper": paper, "claim": claim.statement, "printed": printed_verdict(claim.facts),
                "real": claim.outcome("small") or "not run", "synthetic": claim.outcome("planted") or "not run",
                "sure": claim.how_sure().replace("**", ""), "page": f"reports/{paper}/claims.html#{claim.id.lower()}"})
    return rows


def write(folder: Path) -> int: # bytes of the data
    "The page and all it needs."
    with only_stored():
        data = cells_and_runs() | {"claims": claims(), "metrics": METRIC_NAMES, "tables": titles()}
    packed = base64.b64encode(gzip.compress(json.dumps(data, ensure_ascii=False).encode(), mtime=0)).decode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "explorer.data.js").write_text(f'window.PACKED = "{packed}";\n', "utf-8")
    for name in FILES:
        text = (PARTS / name).read_text("utf-8")
        (folder / name).write_text(text.replace("VERSION", __version__), "utf-8")
    shutil.copytree(PARTS / "vendor", folder / "vendor", dirs_exist_ok=True)
    return len(packed)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "_docs")
    print(f"{write(target):,} bytes of cells in {target}/explorer.data.js")
