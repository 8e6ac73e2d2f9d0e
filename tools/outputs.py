"""Run notebooks in a kernel, keep what they show, and make the pages that follow from them.

python tools/outputs.py [NOTEBOOK...]          run these, or all of the library, and store their outputs
python tools/outputs.py --papers [NOTEBOOK...] make the pages of papers, store the outputs of their notebooks, and make
                                               README.md; with some named, their pages and those that sum papers up

`nbdev_test` runs those of the library and stores nothing. Those of papers run on the stored records alone, so that
nothing is trained. Cells tagged `real` show what published data and encoders are here, and are stored where there are
some; what cells tagged `timing` print is not stored.
"""
import argparse
import os
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbdev.clean import nbdev_clean

from notebooks import ROOT, flags, is_of_paper, local, markdown, notebooks, relink, settings

BAR = "application/vnd.jupyter.widget-view+json" # of Lab
KEPT = ("text/plain", "text/markdown", "text/html", "image/svg+xml", "image/png")
LARGEST = 65_000 # bytes of a picture
PAPERS = ROOT / "nbs" / "papers"
PLACES = [str(ROOT), os.environ.get("DEBIAS_NB_DATA"), os.environ.get("DEBIAS_NB_MODELS"), str(Path.home())]
PROFILE = re.compile(r'(?m)^(profile: str = )"\w+"') # in the cell of parameters
INDEX = ROOT / "nbs" / "index.ipynb"
PICTURE = "reports/README.svg"


def without_paths(text: str) -> str:
    "Text in which this machine's folders have no names."
    for place in sorted(filter(None, PLACES), key=len, reverse=True): # one may begin as another does
        text = text.replace(place, "…")
    text = re.sub(r"\bT_[0-9a-f]{5}", "T_", text) # the name that pandas gives a styled table is drawn
    return re.sub(re.escape(tempfile.gettempdir()) + r"/[\w.-]+", "…", text)


def kept(outputs: list) -> list:
    "The outputs of a cell as they are stored. Raises `ValueError` for a picture that is too large."
    found = []
    for output in outputs:
        data = output.get("data", {})
        if output.get("name") == "stdout":
            found.append(nbformat.from_dict(output | {"text": without_paths(output.text)}))
        elif not data.keys().isdisjoint(KEPT) and BAR not in data:
            data = {kind: text if kind == "image/png" else without_paths(text) for kind, text in data.items()
                    if kind in KEPT}
            found.append(nbformat.from_dict(output | {"data": data, "metadata": {}}))
        if len(data.get("image/png", "")) > LARGEST:
            raise ValueError(f"a picture of {len(data['image/png']):,} bytes")
    return found


def tags(cell) -> set[str]:
    "The tags of a cell."
    return set(cell.metadata.get("tags", []))


def store(path: Path, executed) -> None: # executed: as papermill or nbclient returns it
    "Store what a notebook showed; of a paper's, the profile of its page in the cell of parameters, too."
    nb = nbformat.read(path, as_version=4)
    profile = executed.metadata.get("papermill", {}).get("parameters", {}).get("profile")
    there_are_data = os.environ.get("DEBIAS_NB_DATA") or os.environ.get("DEBIAS_NB_MODELS")
    not_stored = {"timing"} if there_are_data else {"timing", "real"}
    ran = [cell for cell in executed.cells if "injected-parameters" not in tags(cell)]
    for cell, shown in zip(nb.cells, ran):
        if "parameters" in tags(cell) and profile:
            cell.source = PROFILE.sub(rf'\1"{profile}"', cell.source)
        if cell.cell_type == "code" and not tags(cell) & not_stored:
            cell.outputs = kept(shown.outputs)
    nbformat.write(nb, path)
    nbdev_clean(str(path))


def run(path: Path) -> None:
    "Run a notebook in its own folder, with the cells that nbdev runs, and store its outputs."
    nb = nbformat.read(path, as_version=4)
    left_out = set(settings()["tst_flags"].split())
    for cell in nb.cells:
        said = flags(cell)
        if left_out & said.keys() or said.get("eval") == "false":
            cell.metadata["tags"] = ["skip-execution"]
    try:
        store(path, NotebookClient(nb, timeout=None, resources={"metadata": {"path": path.parent}}).execute())
    except Exception as e:
        e.add_note(f"This was {path.relative_to(ROOT)}")
        raise
    print(path.relative_to(ROOT), flush=True)


def make_pages(paths: list[Path]) -> None: # paths: notebooks; none: all of papers
    "Make the pages of these notebooks of papers, and those that sum them up. Of other notebooks no page follows."
    from debias_nb.papers.commands.reproduction import write_pages
    from debias_nb.papers.pages.report import BOOKS
    names = [path.relative_to(PAPERS).with_suffix("").as_posix() for path in paths if is_of_paper(path)]
    if names or not paths:
        write_pages([*names, *BOOKS] if names else None, ROOT / "reports", False, ROOT, store)


def seen_from_root(address: str) -> str: # of nbs/index.ipynb
    "Where a link leads, seen from README.md. Raises `ValueError` for a file that is not there."
    target = local(address, "nbs")
    if target and not (ROOT / target[0]).exists():
        raise ValueError(f"{INDEX}: a link leads to {target[0]}, which does not exist")
    return "".join(target or address)


def write_readme() -> None:
    "Run its notebook, and write README.md as a reader sees it, with the picture beside the pages."
    run(INDEX)
    nb = nbformat.read(INDEX, as_version=4)
    for output in (output for cell in nb.cells for output in cell.get("outputs", [])):
        data = output.get("data", {})
        if "image/svg+xml" in data:
            (ROOT / PICTURE).write_text(data["image/svg+xml"], "utf-8")
            output.data = {"text/markdown": f"![{data['text/plain']}](../{PICTURE})"}
        data.pop("text/html", None) # which a code host would not show as a table
    text, _ = markdown(nb, "")
    note = "<!-- Made from nbs/index.ipynb by tools/outputs.py: edit the notebook. -->\n\n"
    (ROOT / "README.md").write_text(note + relink(text, seen_from_root), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", help="some notebooks; default: all of the library")
    parser.add_argument("--papers", action="store_true", help="make the pages of papers and README.md")
    args = parser.parse_args()
    known = notebooks()
    asked = [Path(name).resolve() for name in args.notebooks]
    for path in asked:
        if path not in known:
            parser.error(f"{path} is no notebook of this project")
    if args.papers:
        make_pages(asked)
        write_readme()
        return
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool: # of kernels
        list(pool.map(run, [path for path in asked or known if not is_of_paper(path)]))


if __name__ == "__main__":
    main()
