"""A page is a notebook of `papers/`, executed on stored records and written as Markdown with figures and tables."""
import posixpath
import re
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pandas as pd

from ...files import project_root, sha256_file
from ...runs.config import configured, file_of
from ..notebooks import is_of_library
from .cells import frame_of, printed_place
from .claims import PAPER_LETTERS
from .compare import differences
from .execution import declared, run_notebook
from .frame import Results, all_experiments, only, papers, profiles_of
from .printed import load_expected

if TYPE_CHECKING:
    from nbformat import NotebookNode


OUTPUT_KINDS = ("text/markdown", "image/svg+xml", "text/plain") # the richest first


Output = tuple[str, str, str] # one of `OUTPUT_KINDS`; text; what a reader who cannot see a figure is told


def richest_output(data: dict[str, str], alt: str = "") -> Output: # data: kind -> text
    """Return the richest form of an output.

    Raises `ValueError` for one that has none of `OUTPUT_KINDS`."""
    for kind in OUTPUT_KINDS:
        if kind in data:
            return kind, data[kind], alt
    raise ValueError(f"nothing of {', '.join(data)} can stand on a page")


Keep = Callable[[Path, "NotebookNode"], None] # what is done with a notebook, and it executed


def page_outputs(notebook: "NotebookNode") -> list[Output]: # notebook: executed
    "Return what a notebook displays on its page, text included."
    outputs = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            outputs.append(("text/markdown", cell.source, ""))
        for one in cell.get("outputs", ()):
            if one.output_type == "stream":
                outputs.append(("text/plain", one.text, ""))
            else:
                outputs.append(richest_output(one.data, one.metadata.get("alt", "")))
    return outputs


def richest(
    name: str, # `paper/experiment`
    results: Results,
) -> str: # a profile
    "Return the profile that a page begins with: real data before planted ones; the richest if it needs no records."
    return (results.scales(name) or profiles_of(name))[0]


PICTURE = re.compile(r"!\[[^\]]*\]\((?:\./)?([\w.-]+\.svg)\)") # a file next to the notebook


def page_files(
    name: str,           # of the page
    outputs: list[Output],
    folder: Path,        # where the notebook lies
) -> dict[str, bytes]:   # file -> content
    "Return a page, its figures, and the pictures that lie next to the notebook."
    parts = []
    files = {}
    for kind, data, alt in outputs:
        if kind == "image/svg+xml":
            file = f"{name}.{len(files) + 1}.svg"
            files[file] = data.encode()
            parts.append(f"![{alt}](./{file})")
        elif kind == "text/plain":
            parts.append(f"```\n{data.strip()}\n```")
        else:
            parts.append(data.strip())
            there = [folder / picture for picture in PICTURE.findall(data)]
            # others lie next to the page
            files |= {picture.name: picture.read_bytes() for picture in there if picture.is_file()}
    text = "\n\n".join(filter(None, parts))
    return {f"{name}.md": f"{text}\n".encode()} | files


NUMBER_COLUMNS = ["expected", "value", "low", "high"]
CELL_COLUMNS = ["paper", "table", "profile", "encoder", "method", "column", "shift", "metric", *NUMBER_COLUMNS, "n"]
DIFFERENCE = ["paper", "profile", "table", "encoder", "test", "shift", "method", "against", "metric", "difference",
              "low", "high", "n", "p", "seeds_alone"]


def write_tables(folder: Path, results: Results) -> list[Path]: # what was written
    "Write all cells with a number and all differences, in points, of every table and profile."
    cells, changes = [], []
    for paper in papers():
        for experiment in all_experiments(paper):
            study = results.load(experiment.name, experiment.profile)
            cells.append(study.cells.dropna(subset="value")[CELL_COLUMNS])
            changes += [differences(runs).assign(paper=paper, profile=experiment.profile, table=table)
                        for table, runs in study.runs.groupby("table", sort=False)]
    frames = {"cells": pd.concat(cells).astype(dict.fromkeys(NUMBER_COLUMNS, float)),
              "differences": pd.concat(changes)[DIFFERENCE]}
    paths = [folder / f"{name}.csv" for name in frames]
    for path, frame in zip(paths, frames.values()):
        frame.to_csv(path, index=False, float_format="%.3f", lineterminator="\n")
    return paths


def seal(folder: Path) -> None:
    "Write the hashes of the tables beside the pages and of the hashes of weights: a changed digit is noticed."
    tables = [*sorted(folder.glob("*.csv")), folder.parent / "experiments/weights.csv"]
    lines = [f"{sha256_file(path)}  {posixpath.relpath(path, folder)}\n" for path in tables if path.is_file()]
    (folder / "sha256.txt").write_text("".join(lines), "utf-8")


STUDIES = ("new_data", "strength", "averaging", "parts", "titles", "decisions") # of ours, in the order of the contents
BOOKS = { # notebooks next to the papers' folders -> their pages, in the order in which one reads another
    "claims": "CLAIMS", "finetunes": "diagnosis/FINETUNES",
    "findings": "FINDINGS", **{f"studies/{name}": f"studies/{name}" for name in STUDIES}, "contents": "README",
}
OF_PAPER = ("errata", "as_printed") # further notebooks in the folder of each paper
# of a file of this project, and not its part behind a #
ADDRESS = re.compile(r'(\]\(|<img src=")([^")\s#:]+)(?=[")]|#[^")\s]*[")])')


def page_path(name: str) -> PurePosixPath: # name: of a notebook in `nbs/papers/`
    "Return where the page of a notebook lies in `reports/`."
    return PurePosixPath(BOOKS.get(name, name) + ".md")


def seen_from_page(
    text: str, # Markdown of a notebook, whose links lead to notebooks and other files as seen from itself
    name: str, # of the notebook in `nbs/papers/`
) -> str: # the same as seen from its page in `reports/`, with pages for the notebooks of papers
    "Rewrite links so that they are right where they are read."
    here = posixpath.dirname(name)

    def other(match):
        before, address = match.groups()
        place = posixpath.join("nbs/papers", here, address)
        target = PurePosixPath(posixpath.normpath(place))
        if target.is_relative_to("nbs/papers") and target.suffix != ".ipynb":
            return match[0] # a picture, which is copied
        is_below = target.is_relative_to("nbs/papers")
        if is_below and not is_of_library(target.relative_to("nbs/papers")): # a reader of pages is sent to the page
            target = "reports" / page_path(str(target.relative_to("nbs/papers").with_suffix("")))
        address = posixpath.relpath(target, "reports" / page_path(name).parent)
        if not address.startswith("."):
            address = f"./{address}"
        return f"{before}{address}"

    return ADDRESS.sub(other, text)


def _notebooks() -> Path:
    "Return where the notebooks of papers lie: in the project, else in the checkout of this library."
    own = project_root() / "nbs/papers"
    if own.is_dir():
        return own
    return Path(__file__).resolve().parents[3] / "nbs/papers"


def has_notebook(name: str) -> bool: # of `nbs/papers/`
    return (_notebooks() / f"{name}.ipynb").is_file()


def write_notebook(
    name: str,             # of a notebook in `nbs/papers/`
    out: Path,             # folder for the pages, one folder per paper inside
    results: Results,      # that the notebook reads
    parameters: dict[str, object], # of which it takes those that it declares
    keep: Keep | None = None,
) -> list[Path]: # what was written
    """Write what a notebook displays as a page.

    Raises as `run_notebook`."""
    notebook = _notebooks() / f"{name}.ipynb"
    page = page_path(name)
    names = {}
    with results.shared():
        executed = run_notebook(notebook, declared(notebook, parameters), names=names)
    names.clear() # what it has made is not kept for the next page
    if keep:
        keep(notebook, executed)
    outputs = [(kind, seen_from_page(data, name) if kind == "text/markdown" else data, alt)
               for kind, data, alt in page_outputs(executed)]
    files = page_files(page.stem, outputs, notebook.parent)
    if "profile" in parameters:
        files[page.name] = arrange(files[page.name].decode(), doors(name)).encode()
    folder = (out / page).parent
    folder.mkdir(parents=True, exist_ok=True)
    for file, data in files.items():
        (folder / file).write_bytes(data)
    return [folder / file for file in files]


def doors(name: str) -> str: # name: `paper/experiment`; Markdown, a line
    "Link to where a reader of a page goes on."
    return " · ".join([f"[Run it](../../nbs/papers/{name}.ipynb)", "[all differences](../differences.csv)",
                       "[all numbers](../cells.csv)", f"[settings](../../{file_of(name)})"])


ABOUT, BELOW = "Claim and runs", "What differs" # a section, and the one below it, or the end


def arrange(
    page: str, # Markdown
    line: str, # of `doors`
) -> str:
    "Put the answer of a page on top, and what it is about, with links, below what is reported and ours."
    top, *sections = re.split(r"(?m)^## ", page)
    title, _, rest = top.partition("\n\n")
    about, answer, rest_of_answer = rest.partition("**Answer.**")
    place = next((i for i, section in enumerate(sections) if section.startswith(BELOW)), len(sections))
    sections.insert(place, f"{ABOUT}\n{about.strip()}\n\n{line}")
    parts = [title, f"{answer}{rest_of_answer}".strip()]
    for section in sections:
        title, _, text = section.partition("\n")
        parts.append(f"## {title}\n\n{text.strip()}")
    return "\n\n".join(filter(None, parts)) + "\n"


def write_some(
    names: list[str], # of notebooks in `nbs/papers/`; what has none yet is left out
    out: Path, results: Results, root: Path, keep: Keep | None = None, # as `write_notebook`, with the project's folder
) -> list[Path]: # what was written
    "Write pages of a project: a worker may have begun elsewhere."
    paths = []
    out.mkdir(parents=True, exist_ok=True)
    with chdir(root):
        for name in filter(has_notebook, names):
            is_table = "/" in name and configured(f"{name}.*.yaml")
            parameters = {"profile": richest(name, results)} if is_table else {"folder": str(out)}
            paths += write_notebook(name, out, results, parameters, keep)
    return paths


def reported_alone(paper: str, own: pd.DataFrame) -> pd.DataFrame: # own: all cells of ours for the paper
    "Return the reported cells that no configuration makes, each with the reason."
    cells = []
    for name, table in load_expected(paper).tables.items():
        made = only(own, profile="paper", table=name)
        elsewhere = "no configuration makes this table" if made.empty else "quoted by the paper from earlier work"
        places = {(base, row.method, row.column) for row in made.itertuples() for base in (row.encoder, "")}
        for one in table.cells:
            encoder, method, column = place = printed_place(one)
            if place not in places:
                cells.append({"paper": paper, "table": name, "profile": "paper", "encoder": encoder, "method": method,
                              "column": column, "expected": one.value,
                              "why": one.note if one.value is None else elsewhere})
    return frame_of(cells)


def all_cells() -> pd.DataFrame: # as `cells.CELL`
    "Return every cell of every table and profile, and the reported cells that no configuration makes."
    results = Results()
    cells = []
    for name in papers():
        studies = [results.load(one.name, one.profile) for one in all_experiments(name)]
        own = pd.concat([frame_of([]), *(study.cells for study in studies)])
        own = pd.concat([own, reported_alone(name, own)], ignore_index=True)
        number = own.table.str.replace(r"\D", "", regex=True).replace("", "99").astype(int)
        cells.append(own.loc[number.sort_values(kind="stable").index])
    return pd.concat(cells, ignore_index=True)


def not_reproduced() -> list[list[str]]: # what is lacking, and the number of cells with their tables; the most first
    "List what the reported cells lack that have no run at the paper's own scale."
    cells = only(all_cells(), profile="paper")
    cells = cells[cells.expected.notna() & (cells.status != "measured")]
    reasons = cells.why.fillna(cells.status).str.split("; ").explode()
    reasons = reasons.str.replace("the encoder .* from the hub.*", "the paper's encoder, from the hub", regex=True)
    lacking = cells.join(reasons.str.partition(": download")[0].rename("reason"))
    rows = []
    for reason, own in sorted(lacking.groupby("reason", sort=False), key=lambda item: -len(item[1])):
        texts = []
        for paper, of_paper in own.groupby("paper"):
            tables = of_paper.table.str.removeprefix("table").unique()
            texts.append(f"{PAPER_LETTERS[paper]}, Table{'s' * (len(tables) > 1)} {', '.join(tables)}")
        rows.append([reason, "; ".join(sorted(texts)), len(own)])
    return rows


def title_of(part: str) -> str: # part: `table3`
    return re.sub(r"(\d+)", r" \1", part).capitalize()
