"""Build the pages in _docs/ from the notebooks and the outputs that they keep: each signature in its place, the links
followed, mkdocs makes the pages.

No notebook is run, and nothing is fetched."""
import ast
import contextlib
import html
import importlib
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

import latex2mathml.converter
import nbformat
import yaml
from nbconvert import MarkdownExporter

import explorer
from notebooks import ROOT, change_shown, flags, local, notebooks, outside_code, plain, relink, settings, take_flags

BUILD = ROOT / ".cache" / "docs"
SITE = ROOT / "_docs"
PARTS = ROOT / "tools" / "site" # the start page, the glossary and the styles
GLOSSARY = yaml.safe_load((PARTS / "glossary.yaml").read_text("utf-8"))
BESIDE = (".png", ".svg", ".html") # files of reports and notebooks that the site has as well
INDEXED = 300 # characters of a section that the search knows
ASKED = { # page -> what people type who want it, which the search looks at first and shows with the page
    "readme.html": ["check my encoder", "install"],
    "citing.html": ["cite", "how to cite", "citation"],
    "contributing.html": ["contribute", "add a method", "add a measure", "add a corpus", "add a table", "add a claim", "add a file format"],
    "explain/tests.html": ["how many pairs", "how many pairs do I need", "power"],
    "your_files.html": ["my own files", "my own data"],
    "larger.html": ["several GPUs", "multi-GPU", "a million pairs", "Slurm", "accelerate"],
    "reports/WHAT_TO_DO.html": ["what to do", "my encoder got worse", "keep my encoder from getting worse", "forgetting", "averaged weights"],
    "reports/FINDINGS.html": ["does ITVReg work", "does ARR work", "does SCAN work", "averaged weights"],
    "reports/LAMBDA.html": ["which λ", "which lambda"],
    "reports/itvreg/practice.html": ["ranking loss", "MultipleNegativesRankingLoss", "MiniLM"],
}
ASKED_BOOST = 2000. # the title of a page has 1000, its text 1
UNSEARCHED = ("papers/", "reports/answered/") # notebooks that a page of the reports shows, too, and pages that others have replaced
NUMBERED = re.compile(r"reports/(?P<paper>\w+)/(?P<kind>table|figure)0*(?P<number>\d+)\.html")
SYMBOL = re.compile(r"(?<=^### )[\w.]+$", flags=re.M) # the heading that show_doc writes


def module_of(nb) -> str | None:
    "The module that a notebook exports, from `#| default_exp`."
    for cell in nb.cells:
        own = flags(cell)
        if "default_exp" in own:
            return f"{settings()['lib_path']}.{own['default_exp']}"
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
    own = (ROOT / "settings.ini").read_text("utf-8").rstrip()
    (source / "settings.ini").write_text(f"{own}\nskip_procs = exec_show_docs\n", "utf-8")
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
    names["nbs/index.ipynb"] = "readme.md" # the start page is `index.md`
    names["CONTRIBUTING.md"] = "contributing.md"
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
    page = re.sub(r"\.html$", ".md", page)
    while part and part not in shown.get(page, ()):
        part = part.rpartition(".")[0]
    return page, part and "#" + part


def resolver(source: str, names: dict[str, str], shown: dict[str, set[str]]):
    "Where an address in the text of `source` leads once the pages are built."
    config = settings()
    site = f"{config['doc_host']}{config['doc_baseurl']}/"
    folder = posixpath.dirname(source)
    here = posixpath.dirname(names[source]) or "."

    def seen_from_here(page, part):
        return posixpath.relpath(page, here) + part

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


def symbol_heading(markdown: str) -> str:
    "Give the heading that show_doc writes the address that nbdev's index of symbols has for it."
    return SYMBOL.sub(lambda match: f"{match[0]} {{ #{match[0].lower()} }}", markdown)


def mathml(match) -> str:
    "A formula that was found as MathML. Raises `SystemExit` with one that is not understood."
    formula = html.unescape(match["block"] or match["inline"])
    display = "block" if match["block"] else "inline"
    try:
        tree = latex2mathml.converter.convert(formula, display=display)
    except Exception as e:
        sys.exit(f"the formula {formula!r} is not understood: {type(e).__name__} {e}")
    return re.sub(r"[*_^~]", lambda mark: f"&#{ord(mark[0])};", tree) # Markdown would take these for its own


def with_mathml(markdown: str) -> str:
    "Formulas as MathML, which browsers draw by themselves. Raises `SystemExit` with a formula that is not understood."
    block = r"\$\$(?P<block>.+?)\$\$"
    inline = r"(?<![\\$])\$(?P<inline>(?!\s)[^$\n]+?(?<![\s\\]))\$(?!\d)"
    return outside_code(f"{block}|{inline}", mathml, markdown)


def anchor(term: str) -> str:
    "The address of a term within the glossary."
    return re.sub(r"[^a-z0-9λ]+", "-", term.lower()).strip("-")


TERMS = re.compile(r"(?<![\w-])(%s)(?![\w-])" % "|".join(map(re.escape, sorted(GLOSSARY, key=len, reverse=True))), re.IGNORECASE)
SCROLLING = re.compile(r'<(pre|table|math(?=[^>]* display="block"))(?=[ >])') # what may be wider than a page
NO_LINK = {"a", "code", "pre", "math", "script", "style", "h1", "h2", "h3", "h4", "h5", "h6", "th", "button"}


def with_glossary(content: str, glossary: str) -> str: # of a page, as HTML; where the glossary is
    "Terms of the glossary as links, each where a page first says it in its text."
    known = {term.lower(): term for term in GLOSSARY}
    inside = [] # elements around a place that take no links
    parts = re.split(r"(<[^>]+>)", content)

    def linked(match):
        term = known.pop(match[0].lower(), None)
        return f'<a class="term" href="{glossary}#{anchor(term)}">{match[0]}</a>' if term else match[0]

    for place, part in enumerate(parts):
        tag = re.match(r"<(/?)(\w+)", part)
        if tag is None:
            if not inside:
                parts[place] = TERMS.sub(linked, part)
        elif tag[2] in NO_LINK:
            if not tag[1]:
                inside.append(tag[2])
            elif inside:
                inside.pop()
    return "".join(parts)


def on_page_content(content: str, page, **_) -> str:
    """What mkdocs calls for each page: formulas of docstrings, which mkdocstrings has put there, as MathML; terms of the
    glossary as links; and code, tables and formulas that a keyboard can scroll."""
    block = r'<div class="arithmatex">\\\[(?P<block>.+?)\\\]</div>'
    inline = r'<span class="arithmatex">\\\((?P<inline>.+?)\\\)</span>'
    content = re.sub(f"{block}|{inline}", mathml, content, flags=re.S)
    if page.file.src_uri != "glossary.md":
        content = with_glossary(content, posixpath.relpath("glossary.html", posixpath.dirname(page.file.dest_uri) or "."))
    return SCROLLING.sub(r'<\1 tabindex="0"', content)


def on_post_page(output: str, **_) -> str:
    "What mkdocs calls for each page when it is whole: the dialog of the search has a name."
    return output.replace('data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"')


def numbered(place: str, title: str) -> str: # place: of a section on the site
    "Return the title of a page with the number that its table or figure has in its paper: `Table 3 of paper A: …`."
    match = NUMBERED.fullmatch(place)
    if match is None:
        return title
    number = f"{match['kind'].capitalize()} {match['number']}"
    paper = PAPERS[match["paper"]].partition(":")[0]
    return f"{number} of p{paper[1:]}: {title.removeprefix(f'{number}: ')}"


def on_post_build(config, **_) -> None:
    """What mkdocs calls at the end: the search knows the beginning of each section, which makes its index small, of a page its
    answer, the number of its table, and what people ask who want it, in which no word is too common to count. What stands on
    the site twice, or is replaced, is not searched."""
    file = Path(config["site_dir"]) / "search" / "search_index.json"
    index = json.loads(file.read_text("utf-8"))
    index["config"]["pipeline"] = [] # `what to do` has nothing but words that lunr leaves out
    index["config"]["fields"]["tags"]["boost"] = ASKED_BOOST
    index["docs"] = [section for section in index["docs"] if not section["location"].startswith(UNSEARCHED)]
    for section in index["docs"]:
        place, text = section["location"], section["text"]
        beginning = text[max(0, text.find("Answer.")):][:INDEXED]
        section["text"] = re.sub(r"<[^>]*$", "", beginning) # no half of a tag
        if place in ASKED:
            section["tags"] = ASKED[place]
        section["title"] = numbered(place, section["title"])
    file.write_text(json.dumps(index, ensure_ascii=False), "utf-8")


def citing() -> str:
    "The page that says how to cite, from CITATION.cff."
    about = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    lines = [f"# How to cite\n\n{about['message']}\n", cited(about)]
    lines += [cited(reference) for reference in about["references"]]
    return "\n".join([*lines, ""])


NAME = ("given-names", "family-names", "name") # of an author in CITATION.cff; a group has the last alone


def cited(work: dict) -> str: # an entry of CITATION.cff
    "One line of a list of references."
    authors = ", ".join(" ".join(one[part] for part in NAME if part in one) for one in work["authors"])
    year = f" {work['year']}." if "year" in work else f" Version {work['version']}."
    link = f" <{work['url']}>" if "url" in work else ""
    note = f" ({work['notes']})" if "notes" in work else ""
    return f"- {authors}: *{work['title']}*.{year}{link}{note}"


def start(names: dict[str, str], shown: dict[str, set[str]]) -> str:
    "The start page, with what README.md shows first: how to check an encoder, and what comes."
    readme = (ROOT / "README.md").read_text("utf-8")
    first = readme[readme.index("[!["):readme.index("\n## Why measure")]
    first = relink(first, resolver("README.md", {**names, "README.md": "index.md"}, shown))
    return (PARTS / "start.md").read_text("utf-8").replace("{{ README }}", first.strip())


def glossary() -> str:
    "The page that explains terms."
    lines = [f"- **{term}**{{ #{anchor(term)} }}: {meaning}" for term, meaning in sorted(GLOSSARY.items(), key=lambda one: one[0].lower())]
    return "\n".join(["# Glossary", "", *lines, ""])


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
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            cell.source = with_mathml(relink(cell.source, resolve))
        if cell.cell_type == "code":
            take_flags(cell)
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            change_shown(cell, lambda text: relink(symbol_heading(text), resolve))
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
    "Reports and CONTRIBUTING.md as they are, links apart; and the files that reports and notebooks show."
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
    "Losses": ["losses"], "Measures": ["measures"], "Encoders": ["encoders"], "Data": ["data"], "Diagnose and compare": ["explain"],
}
PAPERS = {"itvreg": "Paper A: ITVReg", "arr": "Paper B: ARR", "scan": "Paper C: SCAN"}


def contents(names: dict[str, str]) -> list:
    "The contents in the order in which a reader would ask."
    by_folder = {}
    for source, name in names.items():
        by_folder.setdefault(posixpath.dirname(source), []).append(name)
    reports = {name: f"reports/{name}.md" for name in ("WHAT_TO_DO", "LAMBDA", "FINETUNES", "LABELS", "FINDINGS", "CLAIMS", "REPORT", "README", "SPEED", "COST", "RELIABILITY")}
    papers = []
    for folder, title in PAPERS.items():
        pages = by_folder[f"reports/{folder}"]
        first = [page for page in pages if page.endswith(("claims.md", "errata.md"))]
        papers.append({title: first + [page for page in pages if page not in first]})
    own = ["readme.md", *(names[f"nbs/{name}.ipynb"] for name in (
        "your_files", "label", "recipes", "in_ci", "larger", "from_sentence_transformers", "own_pairs", "losses/regularized"))]
    rooms = []
    for title, folders in ROOMS.items():
        pages = [page for folder in folders for page in by_folder[f"nbs/{folder}".rstrip("/")]]
        rooms.append({title: [page for page in pages if page not in own]})
    notebooks = [name for folder, pages in by_folder.items() if folder.startswith("nbs/papers") for name in pages]
    return [
        {"Start": "index.md"},
        {"Your own pairs": [{"Check your own encoder": own[0]}, reports["WHAT_TO_DO"], reports["LAMBDA"], *own[1:], *by_folder["reports/diagnose"], "reference.md"]},
        {"Understand": [*by_folder["nbs/read"], "glossary.md"]},
        {"Check the papers": [reports["FINDINGS"], reports["CLAIMS"], reports["REPORT"], *papers]},
        {"Evidence": [{"Explore the results": "explorer.html"}, *(reports[name] for name in ("FINETUNES", "LABELS", "README", "SPEED", "COST", "RELIABILITY")), {"Answered questions": by_folder["reports/answered"]}]},
        {"How it is made": [names["CONTRIBUTING.md"], "citing.md", *rooms, {"Notebooks behind the pages": notebooks}]},
    ]


def main() -> int:
    processed = processed_notebooks()
    names = page_names(processed)
    shown = symbols(processed, names)
    for source in names:
        if source.endswith(".ipynb"):
            page(source, processed, names, shown, MarkdownExporter())
    report_pages(names, shown)
    (BUILD / "pages" / "reference.md").write_text(reference(), "utf-8")
    (BUILD / "pages" / "glossary.md").write_text(glossary(), "utf-8")
    (BUILD / "pages" / "citing.md").write_text(citing(), "utf-8")
    (BUILD / "pages" / "index.md").write_text(start(names, shown), "utf-8")
    shutil.copy(PARTS / "site.css", BUILD / "pages")
    explorer.write(BUILD / "pages")
    own = settings()
    config = {
        "INHERIT": os.path.relpath(ROOT / "tools/site/mkdocs.yml", BUILD),
        "docs_dir": "pages",
        "site_dir": os.path.relpath(SITE, BUILD),
        "nav": contents(names),
        "copyright": f'debias-nb {own["version"]} · <a href="{own["git_url"]}/blob/{own["branch"]}/LICENSE">Apache-2.0 license</a> · '
                     f'<a href="{own["git_url"]}/blob/{own["branch"]}/CITATION.cff">Cite it</a> · <a href="{own["git_url"]}">Source</a>',
        "hooks": [os.path.relpath(__file__, BUILD)],
    }
    file = BUILD / "mkdocs.yml"
    file.write_text(yaml.safe_dump(config), "utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(file)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"} # Material's notice about its successor; these are pinned
    done = subprocess.run(command, env=environment)
    if done.returncode == 0:
        print(f"{len(names)} pages in {SITE.relative_to(ROOT)}/")
    return done.returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as e:
        sys.exit(str(e))
