"""What the tools share: where the notebooks are, where their links lead, and how a reader sees them."""
import configparser
import posixpath
import re
from pathlib import Path

from nbconvert import MarkdownExporter

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


def is_of_paper(path: Path, root: Path = ROOT) -> bool:
    "Whether a notebook is a paper's page, which papermill executes; the library's stand in the package's folders."
    place = path.relative_to(root / "nbs")
    return place.parts[0] == "papers" and not (root / "debias_nb" / "papers" / place.parts[1]).is_dir()


def settings(root: Path = ROOT) -> configparser.SectionProxy:
    "What settings.ini says. (nbdev's own `get_config` looks above the current folder, whichever path it is given.)"
    parser = configparser.ConfigParser()
    parser.read(root / "settings.ini", "utf-8")
    return parser["DEFAULT"]


def flags(cell) -> dict[str, str]:
    "The `#|` directives of a cell: `{'export': '', 'eval': 'false'}`."
    if cell.cell_type != "code":
        return {}
    return dict(re.findall(r"^#\|[ \t]*([\w-]+):?[ \t]*(.*)$", cell.source, flags=re.M))


def markdown(
    nb,                           # as nbformat reads it; its cells are changed
    pictures: str,                # the folder of the pictures that it shows
    explained=lambda source: "",  # Markdown in place of an exported cell
) -> tuple[str, dict[str, bytes]]: # the text; pictures by name
    "A notebook as a reader sees it: hidden cells gone, `#|` lines gone."
    shown = []
    for cell in nb.cells:
        said = flags(cell)
        if cell.cell_type == "raw" or said.keys() & {"hide", "default_exp"}:
            continue
        cell.source = re.sub(r"^#\|.*\n?", "", cell.source, flags=re.M).strip("\n")
        if said.keys() & {"echo", "hide_input"}:
            cell.metadata["transient"] = {"remove_source": True}
        if "export" in said:
            cell.cell_type, cell.source = "markdown", explained(cell.source)
        shown.append(cell)
    nb.cells = shown
    preferred = ["text/markdown", "text/html", "image/svg+xml", "image/png", "text/plain"]
    exporter = MarkdownExporter(config={"NbConvertBase": {"display_data_priority": preferred}})
    text, resources = exporter.from_notebook_node(nb, resources={"output_files_dir": pictures})
    text = re.sub(r"[ \t]+$", "", text, flags=re.M)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n", resources["outputs"]


def relink(text: str, resolve) -> str: # text: Markdown
    "Replace the address of every link and picture that is not inside code by `resolve(address)`."
    def changed(match):
        if match["code"]:
            return match[0]
        return match["before"] + resolve(match["address"])

    return re.sub(r'(?P<code>^```.*?^```|`[^`\n]*`)|(?P<before>\]\(|<img\b[^>]*?\bsrc=")(?P<address>[^)"\s]+)',
                  changed, text, flags=re.S | re.M)


def local(address: str, folder: str) -> tuple[str, str] | None:
    "A relative address seen from `folder`, as (path from the project's root, `#part`); None for any other address."
    if re.match(r"[a-z][a-z0-9+.-]*:|//|#|/", address, flags=re.I):
        return None
    path, hash_, part = address.partition("#")
    return posixpath.normpath(posixpath.join(folder, path)), hash_ + part


def is_skipped(nb) -> bool:
    """Whether the front matter, a raw cell at the end, says `skip_exec: true`.

    nbdev_test leaves such a notebook to papermill: it is a paper's."""
    return any(cell.cell_type == "raw" and "skip_exec: true" in cell.source.splitlines() for cell in nb.cells)
