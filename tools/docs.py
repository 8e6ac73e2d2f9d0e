"""Build the pages in _docs/ from the notebooks and the outputs that they keep: each signature in its place, the links
followed, mkdocs makes the pages.

python tools/docs.py                                             with mkdocs
python tools/docs.py zensical build --strict --config-file       with another builder: a command that takes the
                                                                 path of a mkdocs.yml

No notebook is run, and nothing is fetched. What pages need beyond Markdown, html_steps.py does to the HTML, whoever
made it."""
import ast
import contextlib
import importlib
import os
import posixpath
import re
import shutil
import subprocess
import sys
from itertools import chain, count
from pathlib import Path

import nbformat
import yaml
from nbconvert import MarkdownExporter

import explorer
from debias_nb.papers.pages.report import OF_PAPER
from html_steps import PAPERS, change_site, mathml
from notebooks import ROOT, change_shown, flags, is_of_paper, local, notebooks, outside_code, plain, relink, settings
from notebooks import take_flags

BUILD = ROOT / ".cache" / "docs"
SITE = ROOT / "_docs"
PARTS = ROOT / "tools" / "site" # the explorer and the styles
BESIDE = (".png", ".svg", ".html") # files of reports and notebooks that the site has as well
SYMBOL = re.compile(r"(?<=^### )[\w.]+$", flags=re.M) # the heading that show_doc writes


def module_of(nb) -> str | None:
    "The module that a notebook exports, from `#| default_exp`."
    for cell in nb.cells:
        cell_flags = flags(cell)
        if "default_exp" in cell_flags:
            return f"{settings()['lib_path']}.{cell_flags['default_exp']}"
    return None


def defined(cell) -> list[str]:
    "The public functions and classes that an exported cell defines; none for another cell."
    if not flags(cell).keys() & {"export", "exports"}:
        return []
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = [node.name for node in ast.parse(cell.source).body if isinstance(node, kinds)]
    return [name for name in names if name[0] != "_"]


def doc_cell(module: str, name: str):
    "A cell with what nbdev's `show_doc` says of a definition."
    from nbdev.showdoc import show_doc
    home = importlib.import_module(module)
    said = None
    while said is None:
        try:
            said = show_doc(getattr(home, name))._repr_markdown_()
        except NameError as e: # a type that nothing imports, such as SentenceTransformer
            setattr(home, e.name, type(e.name, (), {"__module__": module}))
    output = nbformat.v4.new_output("display_data", {"text/markdown": said})
    return nbformat.v4.new_code_cell(f"#| echo: false\nshow_doc({name})", outputs=[output])


def with_signatures(nb):
    "The notebook with a `doc_cell` for each exported definition behind its cell, unless the notebook shows it itself."
    module = module_of(nb)
    shown = set()
    for cell in nb.cells:
        shown.update(re.findall(r"^show_doc\((\w+)", cell.source, flags=re.M))
    cells = []
    for cell in nb.cells:
        cells.append(cell)
        cells += [doc_cell(module, name) for name in defined(cell) if name not in shown]
    nb.cells = cells
    return nb


def processed_notebooks() -> Path:
    """Let nbdev process copies of the notebooks: links to symbols, hidden cells, front matter.
    Returns the folder they are in."""
    shutil.rmtree(BUILD, ignore_errors=True)
    source = BUILD / "source"
    source.mkdir(parents=True)
    config = (ROOT / "settings.ini").read_text("utf-8").rstrip()
    (source / "settings.ini").write_text(f"{config}\nskip_procs = exec_show_docs\n", "utf-8")
    # nbdev reads its settings once, from here. It passes over a path with a dot in front of a folder: hence relative.
    with contextlib.chdir(source):
        from nbdev.serve import proc_nbs
        for path in notebooks():
            copy = source / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(with_signatures(nbformat.read(path, as_version=4)), copy)
        return proc_nbs("nbs", n_workers=0, force=True).resolve()


def front_matter(nb) -> dict:
    "What nbdev wrote into the first cell: title, description, output-file."
    raw = next((cell.source for cell in nb.cells if cell.cell_type == "raw"), "")
    found = re.fullmatch(r"\s*---\n(.*?)---\s*", raw, flags=re.S)
    return yaml.safe_load(found[1]) if found else {}


def page_names(processed: Path) -> dict[str, str]:
    """From a notebook's path in the project to its page: `nbs/00_config.ipynb` to `config.md`.
    Raises `SystemExit` when two want the same page."""
    names = {}
    for path in sorted(processed.rglob("*.ipynb")):
        relative = path.relative_to(processed)
        front = front_matter(nbformat.read(path, as_version=4))
        output = front.get("output-file", relative.with_suffix(".html").name)
        names[f"nbs/{relative.as_posix()}"] = relative.with_name(output).with_suffix(".md").as_posix()
    names["nbs/index.ipynb"] = "index.md"
    names["CONTRIBUTING.md"] = "contributing.md"
    names["docs/glossary.md"] = "glossary.md"
    for report in sorted((ROOT / "reports").rglob("*.md")):
        name = report.relative_to(ROOT).as_posix()
        names[name] = name
    pages = list(names.values())
    twice = [source for source, page in names.items() if pages.count(page) > 1]
    if twice:
        sys.exit(f"these give the same page: {', '.join(twice)}")
    return names


def shown_symbols(nb) -> set[str]:
    "The symbols that a notebook shows, in small letters."
    found = set()
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            markdown = "".join(output.get("data", {}).get("text/markdown", ""))
            found.update(name.lower() for name in SYMBOL.findall(markdown))
    return found


def symbols(processed: Path, names: dict[str, str]) -> dict[str, set[str]]:
    """From a page to the symbols it shows, as addresses within it. nbdev's index knows more: methods and private
    functions have no heading of their own."""
    found = {}
    for source, page in names.items():
        if source.endswith(".ipynb"):
            nb = nbformat.read(processed / source.removeprefix("nbs/"), as_version=4)
            found[page] = shown_symbols(nb)
    return found


def symbol_page(address: str, shown: dict[str, set[str]]) -> tuple[str, str]:
    "The page and the `#part` of an address within the site; a method is shown with its class."
    page, _, part = address.partition("#")
    if page in explorer.FILES: # made without Markdown
        return page, part and "#" + part
    page = re.sub(r"\.html$", ".md", page)
    while part and part not in shown.get(page, ()):
        part = part.rpartition(".")[0]
    return page, part and "#" + part


def resolver(source: str, names: dict[str, str], shown: dict[str, set[str]]):
    "Where an address in the text of `source` leads once the pages are built."
    config = settings()
    site = f"{config['doc_host']}{config['doc_baseurl']}/"
    folder = posixpath.dirname(source)
    page_folder = posixpath.dirname(names[source]) or "."

    def seen_from_here(page, part):
        return posixpath.relpath(page, page_folder) + part

    def resolve(address):
        if address.startswith(site) and ".html" in address:
            return seen_from_here(*symbol_page(address.removeprefix(site), shown))
        target = local(address, folder)
        if target is None:
            return address
        name, part = target
        if name in names:
            return seen_from_here(names[name], part)
        if name.startswith(("nbs/", "reports/")) and name.endswith(BESIDE) and (ROOT / name).exists():
            return seen_from_here(name.removeprefix("nbs/"), part)
        if (ROOT / name).exists():
            return f"{config['git_url']}/blob/{config['branch']}/{name}{part}"
        sys.exit(f"{source}: a link leads to {name}, which does not exist")

    return resolve


def symbol_heading(
    markdown: str,
    taken: set[str], # addresses of the headings above, to which it is added
) -> str:
    """Give the heading that show_doc writes the address that nbdev's index of symbols has for it, or one of its own:

    `hinge`, `hinge_1`."""
    def with_address(match):
        name = match[0].lower()
        numbered = (f"{name}_{number}" for number in count(1))
        address = next(candidate for candidate in chain([name], numbered) if candidate not in taken)
        taken.add(address)
        return f"{match[0]} {{ #{address} }}"

    return SYMBOL.sub(with_address, markdown)


def with_mathml(markdown: str) -> str:
    "Formulas as MathML, which browsers draw by themselves. Raises `SystemExit` with a formula that is not understood."
    block = r"\$\$(?P<block>.+?)\$\$"
    inline = r"(?<![\\$])\$(?P<inline>(?!\s)[^$\n]+?(?<![\s\\]))\$(?!\d)"
    return outside_code(f"{block}|{inline}", mathml, markdown)


def citing() -> str:
    "The page that says how to cite, from CITATION.cff."
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    lines = [f"# How to cite\n\n{citation['message']}\n", cited(citation)]
    lines += [cited(reference) for reference in citation["references"]]
    return "\n".join([*lines, ""])


NAME = ("given-names", "family-names", "name") # of an author in CITATION.cff; a group has the last alone


def cited(work: dict) -> str: # an entry of CITATION.cff
    "One line of a list of references."
    authors = ", ".join(" ".join(author[part] for part in NAME if part in author) for author in work["authors"])
    year = f" {work['year']}." if "year" in work else f" Version {work['version']}."
    link = f" <{work['url']}>" if "url" in work else ""
    note = f" ({work['notes']})" if "notes" in work else ""
    return f"- {authors}: *{work['title']}*.{year}{link}{note}"


def reference() -> str:
    "The page of the promised names; mkdocstrings fills in what their docstrings say."
    import debias_nb
    text = "# Reference\n\nThe names of `debias_nb`; versions promise these and no others.\n"
    for name in sorted(debias_nb.__all__):
        text += f"\n::: {getattr(debias_nb, name).__module__}.{name}\n"
    return text


def prepare(nb, resolve) -> None:
    "Make the cells of a processed notebook those of its page."
    nb.cells = [cell for cell in nb.cells if cell.cell_type != "raw"]
    taken = set()
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            cell.source = with_mathml(relink(cell.source, resolve))
        if cell.cell_type == "code":
            take_flags(cell)
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            change_shown(cell, lambda text: relink(symbol_heading(text, taken), resolve))
    nb.metadata["language_info"] = {"name": "python"}


def page(source: str, processed: Path, names: dict[str, str], shown: dict[str, set[str]], exporter) -> None:
    "One processed notebook as Markdown, its pictures beside it."
    nb = nbformat.read(processed / source.removeprefix("nbs/"), as_version=4)
    front = front_matter(nb)
    target = BUILD / "pages" / names[source]
    resolve = resolver(source, names, shown)
    prepare(nb, resolve)
    text, resources = exporter.from_notebook_node(nb, resources={"output_files_dir": f"{target.stem}_files"})
    head = ""
    for mark, key in (("#", "title"), (">", "description")):
        if key in front:
            head += f"{mark} {front[key]}\n\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(with_mathml(relink(head, resolve)) + plain(text), "utf-8")
    for name, content in resources["outputs"].items():
        picture = target.parent / name
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(content)


def report_pages(names: dict[str, str], shown: dict[str, set[str]]) -> None:
    "Reports, CONTRIBUTING.md and the glossary as they are, links apart; and the files that reports and notebooks show."
    for source, name in names.items():
        if source.endswith(".md"):
            target = BUILD / "pages" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            text = (ROOT / source).read_text("utf-8")
            target.write_text(with_mathml(relink(text, resolver(source, names, shown))), "utf-8")
    for folder, base in ((ROOT / "reports", ROOT), (ROOT / "nbs", ROOT / "nbs")):
        for path in folder.rglob("*"):
            if path.suffix in BESIDE:
                target = BUILD / "pages" / path.relative_to(base)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)


ROOMS = { # of the part of the contents that says how the library is made -> folders of notebooks
    "Losses": ["losses"], "Measures": ["measures"], "Encoders": ["encoders"],
    "Data": ["data", "papers/data", "papers/worlds", "papers/tasks"], "Diagnose and compare": ["diagnosis"],
}


def contents(names: dict[str, str]) -> list:
    "The contents in the order in which a reader would ask."
    told = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    by_folder = {}
    for source, name in sorted(names.items(), key=lambda item: told.find(f"({item[0]})")): # notebooks in its order
        by_folder.setdefault(posixpath.dirname(source), []).append(name)
    reports = {name: f"reports/{name}.md" for name in ("FINDINGS", "CLAIMS", "README")}
    papers = []
    for folder, title in PAPERS.items():
        pages = by_folder[f"reports/{folder}"]
        first = [page for page in pages if page.endswith(tuple(f"{name}.md" for name in OF_PAPER))]
        papers.append({title: first + [page for page in pages if page not in first]})
    leading = [names[f"nbs/{name}.ipynb"] for name in (
        "diagnosis/check", "losses/regularized")]
    advice = ["reports/studies/strength.md"]
    rooms = []
    for title, folders in ROOMS.items():
        pages = [page for folder in folders for page in by_folder[f"nbs/{folder}".rstrip("/")]]
        rooms.append({title: [page for page in pages if page not in leading]})
    notebooks = [name for source, name in names.items() if source.startswith("nbs/papers/")
                 and is_of_paper(ROOT / source)]
    diagnoses = [page for page in by_folder["reports/diagnosis"] if page not in advice]
    return [
        {"Start": "index.md"},
        {"Your own pairs": [leading[0], *advice, *leading[1:], *diagnoses, "reference.md"]},
        {"Understand": [*(f"read/{paper}.md" for paper in PAPERS), names["nbs/names.ipynb"], "glossary.md"]},
        {"Check the papers": [reports["FINDINGS"], reports["CLAIMS"], *papers,
                              *(page for page in by_folder["reports/studies"] if page not in advice)]},
        {"Evidence": [{"Explore the results": "explorer.html"},
                      reports["README"]]},
        {"How it is made": [names["CONTRIBUTING.md"], "citing.md", *rooms, {"Notebooks behind the pages": notebooks}]},
    ]


def configuration(names: dict[str, str]) -> dict:
    "What `mkdocs.yml` says of this version, beside what tools/site/mkdocs.yml says of all."
    config = settings()
    blob = f"{config['git_url']}/blob/{config['branch']}"
    return {
        "INHERIT": os.path.relpath(PARTS / "mkdocs.yml", BUILD),
        "docs_dir": "pages",
        "site_dir": "site",
        "nav": contents(names),
        "copyright": f'debias-nb {config["version"]} · <a href="{blob}/LICENSE">Apache-2.0 license</a> · '
                     f'<a href="{blob}/CITATION.cff">Cite it</a> · <a href="{config["git_url"]}">Source</a>',
    }


def build(builder: list[str], config: dict) -> int:
    "Let a builder make the HTML, take our steps on it, and put it in _docs/. Returns the exit code of the builder."
    file = BUILD / "mkdocs.yml"
    file.write_text(yaml.safe_dump(config), "utf-8")
    # a builder of another environment reads docstrings, too
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    notice = {"NO_MKDOCS_2_WARNING": "1"} # Material's about its successor; these are pinned
    done = subprocess.run([*builder, str(file)], env={**os.environ, **notice, "PYTHONPATH": os.pathsep.join(paths)})
    if done.returncode == 0:
        site = BUILD / "site"
        change_site(site, BUILD / "pages")
        shutil.rmtree(SITE, ignore_errors=True)
        site.rename(SITE)
    return done.returncode


def main() -> int:
    processed = processed_notebooks()
    names = page_names(processed)
    shown = symbols(processed, names)
    for source in names:
        if source.endswith(".ipynb"):
            page(source, processed, names, shown, MarkdownExporter())
    report_pages(names, shown)
    (BUILD / "pages" / "reference.md").write_text(reference(), "utf-8")
    (BUILD / "pages" / "citing.md").write_text(citing(), "utf-8")
    shutil.copy(PARTS / "site.css", BUILD / "pages")
    explorer.write(BUILD / "pages")
    builder = sys.argv[1:] or [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file"]
    code = build(builder, configuration(names))
    if code == 0:
        print(f"{len(names)} pages in {SITE.relative_to(ROOT)}/")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as e:
        sys.exit(str(e))
