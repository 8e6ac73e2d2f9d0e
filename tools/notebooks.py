"What the tools share: where the notebooks are, how one is run without being changed, and where its links lead."
import configparser
import os
import posixpath
import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

ROOT = Path(__file__).resolve().parents[1]


def notebooks(root: Path = ROOT) -> list[Path]:
    """Every notebook of the project, in the order of the folders' names; folders that start with `_` or `.` are left
    out, as nbdev leaves them out."""
    found = []
    for path in sorted((root / "nbs").rglob("*.ipynb")):
        *folders, _ = path.relative_to(root / "nbs").parts
        if not any(folder[0] in "_." for folder in folders):
            found.append(path)
    return found


def settings(root: Path = ROOT) -> configparser.SectionProxy:
    "What settings.ini says. (nbdev's own `get_config` looks above the current folder, whichever path it is given.)"
    parser = configparser.ConfigParser()
    parser.read(root / "settings.ini", "utf-8")
    return parser["DEFAULT"]


def flags(cell) -> dict[str, str]:
    "The `#|` directives of a cell: `{'export': '', 'eval': 'false'}`."
    if cell.cell_type != "code":
        return {}
    found = re.findall(r"^\s*#\|\s*([\w-]+):?[ \t]*(.*)$", cell.source, flags=re.M)
    return {name: value.strip() for name, value in found}


def take_flags(cell) -> None:
    "Take the `#|` lines out of a code cell, which is shown without its source where they say so."
    if flags(cell).get("echo") == "false":
        cell.metadata["transient"] = {"remove_source": True}
    cell.source = re.sub(r"^\s*#\|.*\n?", "", cell.source, flags=re.M).strip("\n")


def plain(text: str) -> str:
    "Without the colours of a terminal."
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def is_skipped(nb) -> bool:
    "Whether the title cell says `- skip_exec: true`, so that nbdev_test leaves the notebook alone."
    for cell in nb.cells:
        if cell.cell_type == "markdown" and re.search(r"^# ", cell.source, flags=re.M):
            return bool(re.search(r"^-\s+skip_exec:\s*true\s*$", cell.source, flags=re.M))
    return False


def mark_skipped(nb, root: Path) -> None:
    "Tag the cells that are not run: those that say so, and those with a flag that settings.ini keeps out of tests."
    left_out = set(settings(root)["tst_flags"].split())
    for cell in nb.cells:
        own = flags(cell)
        if own.get("eval") == "false" or own.keys() & left_out:
            cell.metadata.setdefault("tags", []).append("skip-execution")


def executed(path: Path, root: Path = ROOT):
    """A copy of the notebook with its outputs, run in its own folder as nbdev_test runs it.
    Raises `RuntimeError` naming a notebook that fails."""
    nb = nbformat.read(path, as_version=4)
    mark_skipped(nb, root)
    client = NotebookClient(
        nb, timeout=900, kernel_name="python3", extra_arguments=["--log-level=40"],
        resources={"metadata": {"path": str(path.parent)}})
    above = [str(root), os.environ.get("PYTHONPATH")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, above))}
    try:
        client.execute(env=environment)
    except (CellExecutionError, DeadKernelError, TimeoutError) as e:
        raise RuntimeError(f"{path.relative_to(root)}: {plain(str(e)).strip()}") from None
    nb.metadata["language_info"] = {"name": "python"} # a cleaned notebook has none; its code would have no language
    return nb


def change_shown(cell, change) -> None:
    "Change the Markdown that a code cell shows. change: a function of a text."
    for output in cell.outputs:
        data = output.get("data", {})
        if "text/markdown" in data:
            data["text/markdown"] = change("".join(data["text/markdown"]))


def outside_code(pattern: str, new, markdown: str) -> str:
    "`re.sub` over the parts of `markdown` that are not code."
    def changed(match):
        return match[0] if match["code"] else new(match)

    return re.sub(rf"(?P<code>^```.*?^```|`[^`\n]*`)|{pattern}", changed, markdown, flags=re.S | re.M)


def relink(markdown: str, resolve) -> str:
    "Every link and picture of `markdown` that is not inside code, its address replaced by `resolve(address)`."
    def changed(match):
        return f"]({resolve(match['address'])})"

    return outside_code(r"\]\((?P<address>[^)\s]+)\)", changed, markdown)


def local(address: str, folder: str) -> tuple[str, str] | None:
    "A relative address seen from `folder`, as (path from the project's root, `#part`); None for any other address."
    if re.match(r"[a-z][a-z0-9+.-]*:|//|#|/", address, flags=re.I):
        return None
    path, hash_, part = address.partition("#")
    return posixpath.normpath(posixpath.join(folder, path)), hash_ + part
