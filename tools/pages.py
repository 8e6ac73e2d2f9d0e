"""Make the pages of papers that are not as their sources are now, and keep the others.

python tools/pages.py [--fresh]     as `debias-nb report` does it for all pages

A page is kept where everything that it can read is what it was when the page was made: all files of the project but
other tables' notebooks and pages, records in `_runs/`, packages, and where data lie; and where its files are still
those that were written. What was read and written is noted in `_runs/pages.json`; without it all pages are made.
"""
import argparse
import json
import os
import sys
from importlib import metadata
from pathlib import Path

from notebooks import ROOT, git_files, is_of_paper, joined

from debias_nb.files import fingerprint, sha256_file

NOT_READ = ("tests/", ".github/", ".ci/", "_runs/reports/", "_runs/pages.json") # nothing there is a source of a page
PLACES = ("DEBIAS_NB_DATA", "DEBIAS_NB_MODELS")


def file_hash(path: Path) -> str: # "" where there is no file
    "Hash the bytes of a file."
    return sha256_file(path) if path.is_file() else ""


def notebook_hash(path: Path) -> str:
    "Hash the sources of a notebook's cells, without what they showed."
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return fingerprint([[cell["cell_type"], joined(cell["source"]), cell["metadata"]] for cell in cells])


SOURCES = ("bench", "debias_nb", "experiments", "nbs", "requirements", "_runs") # folders that a page may read


def project_files(root: Path) -> list[str]: # relative paths
    "List the files that git has or would take, and those in folders of sources that git is told to look away from."
    names = {*git_files(root)}
    for folder in SOURCES:
        there = [path for path in (root / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        names.update(path.relative_to(root).as_posix() for path in there if ".ipynb_checkpoints" not in path.parts)
    return sorted(name for name in names if not name.startswith(NOT_READ))


def page_keys(root: Path, folder: Path, tables: set[str], pages: list[str], *about) -> dict[str, str]:
    """Hash what each page in a folder can read.

    tables: pages that read no other table's notebook; about: what else decides. What is written into the folder follows
    from the rest, and is no source."""
    made = f"{folder.relative_to(root).as_posix()}/"
    versions = sorted({f"{package.name} {package.version}" for package in metadata.distributions()})
    notebooks, others = {}, {}
    for name in project_files(root):
        if name.startswith(made):
            continue
        path = root / name
        is_notebook = path.suffix == ".ipynb" and name.startswith("nbs/")
        if is_notebook and is_of_paper(path, root) and path.is_file():
            notebooks[name.removeprefix("nbs/papers/").removesuffix(".ipynb")] = notebook_hash(path)
        elif not is_notebook: # those of the library are read as modules
            others[name] = file_hash(path)
    common = fingerprint([others, versions, sys.version, [os.environ.get(place) for place in PLACES], about])
    keys = {}
    for page in pages:
        own = {name: value for name, value in notebooks.items() if page not in tables or name == page
               or name not in tables}
        keys[page] = fingerprint([common, own])
    return keys


def page_of(path: Path, folder: Path, pages: dict[str, Path]) -> str: # "" for a file that several pages may have
    "Find the page that a written file belongs to; pages: where each one lies in the folder."
    relative = path.relative_to(folder)
    for page, place in pages.items():
        if relative.parent == place.parent and relative.name.startswith(f"{place.stem}."):
            return page
    return ""


def stale_pages(note: dict, keys: dict[str, str], folder: Path, places: dict[str, Path]) -> list[str]:
    "List the pages whose sources or files are other ones than noted."
    changed = {page_of(folder / name, folder, places) for name, value in note.get("files", {}).items()
               if file_hash(folder / name) != value}
    if "" in changed:
        return list(keys)
    return [page for page, key in keys.items() if note.get("keys", {}).get(page) != key or page in changed]


def make(root: Path, folder: Path, is_fresh: bool, keep=None) -> list[str]: # names of the pages that were made
    "Make the pages that are stale, and note what all of them rest on. keep: as of `write_pages`."
    from debias_nb.papers.commands.reproduction import write_pages
    from debias_nb.papers.pages.frame import papers
    from debias_nb.papers.pages.report import BOOKS, OF_PAPER, has_notebook, page_path
    from debias_nb.runs.config import configured
    tables = {name for paper in papers() for name in configured(f"{paper}/*.yaml") if has_notebook(name)}
    others = [f"{paper}/{name}" for paper in papers() for name in OF_PAPER] + [*BOOKS]
    pages = [*sorted(tables), *filter(has_notebook, others)]
    places = {page: Path(page_path(page)) for page in pages}
    note_file = root / "_runs" / "pages.json"
    notes = json.loads(note_file.read_text("utf-8")) if note_file.is_file() else {}
    kind = f"{folder.relative_to(root)}{', outputs kept' * bool(keep)}"
    note = notes.get(kind, {})
    keys = page_keys(root, folder, tables, pages, kind, is_fresh)
    stale = stale_pages(note, keys, folder, places)
    written = write_pages(stale if len(stale) < len(pages) else None, folder, is_fresh, root, keep) if stale else []
    files = {name: value for name, value in note.get("files", {}).items() if page_of(folder / name, folder, places)
             not in {*stale, ""}}
    files |= {Path(path).relative_to(folder).as_posix(): file_hash(Path(path)) for path in written}
    notes[kind] = {"keys": keys, "files": files}
    note_file.parent.mkdir(exist_ok=True)
    note_file.write_text(json.dumps(notes), "utf-8")
    return stale


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true",
                        help="read your own synthetic-data runs in place of the committed ones")
    is_fresh = parser.parse_args().fresh
    folder = ROOT / ("_runs/reports" if is_fresh else "reports")
    stale = make(ROOT, folder, is_fresh)
    print(f"{len(stale)} pages made in {folder.relative_to(ROOT)}; the others are as their sources are")
    return 0


if __name__ == "__main__":
    sys.exit(main())
