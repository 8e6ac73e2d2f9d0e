"""What the tools share: where the notebooks are, how they lie in their files, and where their links lead.

python tools/notebooks.py    clean every notebook as nbdev_clean does, with JupyterLab's kernel and folded cells
"""
import ast
import configparser
import json
import posixpath
import re
import subprocess
from pathlib import Path

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


def git_files(root: Path) -> list[str]: # relative paths
    "List the files that git has or would take."
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    return [*filter(None, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0"))]


def is_of_paper(path: Path, root: Path = ROOT) -> bool:
    "Whether a notebook is a paper's page, which papermill executes; the library's stand in the package's folders."
    place = path.relative_to(root / "nbs")
    return place.parts[0] == "papers" and not (root / "debias_nb" / "papers" / place.parts[1]).is_dir()


def settings(root: Path = ROOT) -> configparser.SectionProxy:
    "What settings.ini says. (nbdev's own `get_config` looks above the current folder, whichever path it is given.)"
    parser = configparser.ConfigParser()
    parser.read(root / "settings.ini", "utf-8")
    return parser["DEFAULT"]


def joined(value) -> str:
    "Text that is one string, or several."
    return value if isinstance(value, str) else "".join(value)


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
    "Without the colors of a terminal."
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def is_skipped(nb) -> bool: # nb: as it lies in its file, or as nbformat reads it
    """Whether the front matter, a raw cell at the end, says `skip_exec: true`.

    nbdev_test leaves such a notebook to papermill: it is a paper's."""
    for cell in nb["cells"]:
        if cell["cell_type"] == "raw" and "skip_exec: true" in "".join(cell["source"]).splitlines():
            return True
    return False


# As JupyterLab writes them in the project's environment, so that opening a notebook there changes nothing in it.
KERNEL = {"display_name": "python3", "language": "python", "name": "python3"} # with the name that nbdev gives it
LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
    "version": "3.11.7",
}
FOLDED = {"hide", "default_exp", "echo"} # the `#|` lines of cells whose source is not shown
LONG = 15 # lines of code between what a reader of a page came for


def imports_alone(line: ast.stmt) -> bool:
    "Whether a statement is an import, or holds nothing else, as what stands below `if TYPE_CHECKING:`."
    if isinstance(line, ast.If):
        return not line.orelse and all(map(imports_alone, line.body))
    return isinstance(line, ast.Import | ast.ImportFrom)


def is_plumbing(cell, of_paper: bool) -> bool:
    """Whether a reader can do without the source of a code cell.

    Imports alone, what only nbdev reads, and what is shown without its source (`#| echo: false`); in a paper notebook
    also what is long, or imports or defines something on the way to a table, unless it is tagged `shown`."""
    source = "".join(cell["source"])
    directives = set(re.findall(r"^#\|\s*([\w-]+)", source, flags=re.M))
    if "shown" in cell["metadata"].get("tags", []):
        return False
    if directives & FOLDED or "parameters" in cell["metadata"].get("tags", []):
        return not directives.isdisjoint(FOLDED)
    try:
        lines = ast.parse(source).body
    except SyntaxError: # a command of IPython
        return False
    imports = [imports_alone(line) for line in lines]
    if not of_paper:
        return bool(lines) and all(imports)
    defines = any(isinstance(line, ast.FunctionDef | ast.ClassDef) for line in lines)
    return any(imports) or defines or len(source.splitlines()) > LONG


def settle(nb: dict) -> None: # nb: as it lies in its file
    "The metadata that all notebooks have: kernel and language as JupyterLab writes them, and plumbing folded."
    nb["metadata"] |= {"kernelspec": dict(KERNEL), "language_info": dict(LANGUAGE)}
    of_paper = is_skipped(nb)
    for cell in nb["cells"]:
        cell["metadata"].pop("jupyter", None)
        if cell["cell_type"] == "raw" or (cell["cell_type"] == "code" and is_plumbing(cell, of_paper)):
            cell["metadata"]["jupyter"] = {"source_hidden": True}


def cleaned(nb: dict) -> str: # nb: as it lies in its file
    "A notebook's text without counts, with its outputs, and with the metadata that settings.ini allows and all have."
    from execnb.nbio import nb2str
    from nbdev.clean import clean_nb
    config = settings()
    allowed = [config[f"allowed_{kind}metadata_keys"].split() for kind in ("", "cell_")]
    clean_nb(nb, False, *allowed, config.getboolean("clean_ids"))
    settle(nb)
    return nb2str(nb)


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
        if match["picture"]:
            return match["tag"] + resolve(match["picture"])
        return f"]({resolve(match['address'])})"

    return outside_code(r'\]\((?P<address>[^)\s]+)\)|(?P<tag><img\b[^>]*?\bsrc=")(?P<picture>[^"]+)', changed, markdown)


def local(address: str, folder: str) -> tuple[str, str] | None:
    "A relative address seen from `folder`, as (path from the project's root, `#part`); None for any other address."
    if re.match(r"[a-z][a-z0-9+.-]*:|//|#|/", address, flags=re.I):
        return None
    path, hash_, part = address.partition("#")
    return posixpath.normpath(posixpath.join(folder, path)), hash_ + part


if __name__ == "__main__":
    for notebook in notebooks():
        notebook.write_text(cleaned(json.loads(notebook.read_text("utf-8"))), "utf-8")
