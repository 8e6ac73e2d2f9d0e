"""Writes README.md as nbs/index.ipynb makes it, which is run first: `python tools/readme.py`."""
import json
import re
import sys
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter
from nbformat.v4.rwbase import rejoin_lines

import outputs
from notebooks import ROOT, change_shown, flags, local, plain, relink, take_flags

SOURCE = "nbs/index.ipynb"
TARGET = "README.md"
PICTURE = "reports/README.svg"
NOTE = f"<!-- Made from {SOURCE} by tools/readme.py: edit the notebook. -->\n\n"


def resolver():
    "Where an address of the notebook leads, seen from the root. Raises `SystemExit` for a file that is not there."
    folder = SOURCE.rpartition("/")[0]

    def resolve(address):
        target = local(address, folder)
        if target is None:
            return address
        if not (ROOT / target[0]).exists():
            sys.exit(f"{SOURCE}: a link leads to {target[0]}, which does not exist")
        return "".join(target)

    return resolve


def place_picture(cell) -> None:
    "Write the picture that a cell shows beside the pages, and show it from there."
    for output in cell.outputs:
        lines = output.get("data", {}).get("image/svg+xml")
        if lines:
            (ROOT / PICTURE).write_text("".join(lines), "utf-8")
            output["data"] = {"text/markdown": f"![{output['data']['text/plain']}]({PICTURE})"}


def readable(nb):
    "The run notebook as a reader sees it: hidden cells gone, `#|` lines gone, links as seen from the root."
    resolve = resolver()
    shown = []
    for cell in nb.cells:
        cell_flags = flags(cell)
        if cell_flags.keys() & {"hide", "default_exp"} or cell_flags.get("include") == "false":
            continue
        if cell.cell_type == "markdown":
            cell.source = relink(cell.source, resolve)
        if cell.cell_type == "code":
            wanted = cell_flags.get("output") != "false"
            cell.outputs = [output for output in cell.outputs if wanted and output.get("name") != "stderr"]
            change_shown(cell, lambda text: relink(text, resolve))
            place_picture(cell)
            take_flags(cell)
        shown.append(cell)
    nb.cells = shown
    return nb


def executed(path: Path):
    "A notebook with the outputs of a run, which it keeps. Raises `SystemExit` with what went wrong."
    [(_, made, error, _)] = outputs.run_apart([path], 1)
    if made is None:
        sys.exit(error)
    outputs.store(path, json.loads(path.read_text("utf-8")), made)
    return rejoin_lines(nbformat.read(path, as_version=4))


def readme() -> str:
    "The text of README.md. Raises `SystemExit` when its notebook fails."
    preferred = ["text/markdown", "text/plain"]
    exporter = MarkdownExporter(config={"NbConvertBase": {"display_data_priority": preferred}})
    nb = executed(ROOT / SOURCE)
    text, _ = exporter.from_notebook_node(readable(nb))
    text = re.sub(r"[ \t]+$", "", plain(text), flags=re.M)
    text = re.sub(r"\n{3,}", "\n\n", text)
    return NOTE + text.strip("\n") + "\n"


if __name__ == "__main__":
    (ROOT / TARGET).write_text(readme(), "utf-8")
