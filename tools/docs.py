"""Build the pages in _docs/ from the notebooks and the outputs that they keep: each signature in its place, the links followed, mkdocs makes the pages.

No notebook is run, and nothing is fetched."""
import ast, contextlib, importlib, os, posixpath, re, shutil, subprocess, sys
from pathlib import Path

import latex2mathml.converter, nbformat, yaml
from nbconvert import MarkdownExporter

from notebooks import ROOT, flags, local, notebooks, outside_code, plain, relink, settings, without_flags

BUILD, SITE = ROOT / ".cache" / "docs", ROOT / "_docs"

def module_of(nb) -> str | None:
    "The module that a notebook exports, from `#| default_exp`."
    names = [flags(c)["default_exp"] for c in nb.cells if "default_exp" in flags(c)]
    return f"{settings()['lib_path']}.{names[0]}" if names else None

def with_signatures(nb):
    "The notebook with what nbdev's `show_doc` says of each exported definition behind its cell, unless the notebook shows it itself."
    from nbdev.showdoc import show_doc
    module = module_of(nb)
    shown, cells = {name for c in nb.cells for name in re.findall(r"^show_doc\((\w+)", c.source, flags=re.M)}, []
    for cell in nb.cells:
        cells.append(cell)
        if not flags(cell).keys() & {"export", "exports"}: continue
        defined = [o.name for o in ast.parse(cell.source).body if isinstance(o, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
        for name in defined:
            if name[0] == "_" or name in shown: continue
            said = show_doc(getattr(importlib.import_module(module), name))._repr_markdown_()
            output = nbformat.v4.new_output("display_data", {"text/markdown": said})
            cells.append(nbformat.v4.new_code_cell(f"#| echo: false\nshow_doc({name})", outputs=[output]))
    nb.cells = cells
    return nb

def processed_notebooks() -> Path:
    "Let nbdev process copies of the notebooks: links to symbols, hidden cells, front matter. Returns the folder they are in."
    shutil.rmtree(BUILD, ignore_errors=True)
    source = BUILD / "source"
    source.mkdir(parents=True)
    (source / "settings.ini").write_text((ROOT / "settings.ini").read_text("utf-8").rstrip() + "\nskip_procs = exec_show_docs\n", "utf-8")
    with contextlib.chdir(source): # nbdev reads its settings once, from here; and it passes over a path with a dot in front of any folder: hence relative
        from nbdev.serve import proc_nbs
        for path in notebooks():
            copy = source / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(with_signatures(nbformat.read(path, as_version=4)), copy)
        return proc_nbs("nbs", n_workers=0, force=True).resolve()

def front_matter(nb) -> dict:
    "What nbdev wrote into the first cell: title, description, output-file."
    raw = next((c.source for c in nb.cells if c.cell_type == "raw"), "")
    found = re.fullmatch(r"\s*---\n(.*?)---\s*", raw, flags=re.S)
    return yaml.safe_load(found[1]) if found else {}

def page_names(processed: Path) -> dict[str, str]:
    "From a notebook's path in the project to its page: `nbs/00_config.ipynb` to `config.md`. Raises `SystemExit` when two want the same page."
    names = {}
    for p in sorted(processed.rglob("*.ipynb")):
        relative = p.relative_to(processed)
        output = front_matter(nbformat.read(p, as_version=4)).get("output-file", relative.with_suffix(".html").name)
        names[f"nbs/{relative.as_posix()}"] = relative.with_name(output).with_suffix(".md").as_posix()
    for report in sorted((ROOT / "reports").rglob("*.md")): names[report.relative_to(ROOT).as_posix()] = report.relative_to(ROOT).as_posix()
    twice = [n for n in names if list(names.values()).count(names[n]) > 1]
    if twice: sys.exit(f"these give the same page: {', '.join(twice)}")
    return names

def symbols(processed: Path, names: dict[str, str]) -> dict[str, set[str]]:
    "From a page to the symbols it shows, as addresses within it. nbdev's index knows more: methods and private functions have no heading of their own."
    found = {}
    for source in names:
        if not source.endswith(".ipynb"): continue
        outputs = [o for c in nbformat.read(processed / source.removeprefix("nbs/"), as_version=4).cells for o in c.get("outputs", [])]
        found[names[source]] = {name.lower() for o in outputs for name in _SYMBOL.findall("".join(o.get("data", {}).get("text/markdown", "")))}
    return found

_SYMBOL = re.compile(r"(?<=^### )[\w.]+$", flags=re.M)

def resolver(source: str, names: dict[str, str], shown: dict[str, set[str]]):
    "Where an address in the text of `source` leads once the pages are built."
    here, config = posixpath.dirname(names[source]), settings()
    site = f"{config['doc_host']}{config['doc_baseurl']}/"
    def seen_from_here(page, part): return posixpath.relpath(page, here or ".") + part
    def resolve(address):
        if address.startswith(site) and ".html" in address:
            page, _, part = address.removeprefix(site).partition("#")
            page = re.sub(r"\.html$", ".md", page)
            while part and part not in shown.get(page, ()): part = part.rpartition(".")[0] # a method is shown with its class
            return seen_from_here(page, part and "#" + part)
        folder = posixpath.dirname(source)
        target = local(address, folder)
        if target is None: return address
        as_report = local(address, folder.replace("nbs/papers", "reports", 1)) # a paper notebook is written as a page in reports/
        for name, part in (target, as_report):
            if name in names: return seen_from_here(names[name], part)
        there = [found for found in (target, as_report) if (ROOT / found[0]).exists()]
        if not there: sys.exit(f"{source}: a link leads to {target[0]}, which does not exist")
        target = there[0]
        return f"{config['git_url']}/blob/{config['branch']}/{''.join(target)}"
    return resolve

def symbol_heading(markdown: str) -> str:
    "Give the heading that show_doc writes the address that nbdev's index of symbols has for it."
    return _SYMBOL.sub(lambda m: f"{m[0]} {{ #{m[0].lower()} }}", markdown)

def with_mathml(markdown: str) -> str:
    "Formulas as MathML, which browsers draw by themselves. Raises `SystemExit` with a formula that is not understood."
    def new(m):
        formula = m["block"] or m["inline"]
        try: tree = latex2mathml.converter.convert(formula, display="block" if m["block"] else "inline")
        except Exception as e: sys.exit(f"the formula {formula!r} is not understood: {type(e).__name__} {e}")
        return re.sub(r"[*_^~]", lambda c: f"&#{ord(c[0])};", tree) # Markdown would take these for its own
    return outside_code(r"\$\$(?P<block>.+?)\$\$|(?<![\\$])\$(?P<inline>(?!\s)[^$\n]+?(?<![\s\\]))\$(?!\d)", new, markdown)

def page(source: str, processed: Path, names: dict[str, str], shown: dict[str, set[str]], exporter) -> None:
    "One processed notebook as Markdown, its pictures beside it."
    nb = nbformat.read(processed / source.removeprefix("nbs/"), as_version=4)
    front, target, resolve = front_matter(nb), BUILD / "pages" / names[source], resolver(source, names, shown)
    nb.cells = [c for c in nb.cells if c.cell_type != "raw"]
    for cell in nb.cells:
        if cell.cell_type == "markdown": cell.source = with_mathml(relink(cell.source, resolve))
        if cell.cell_type != "code": continue
        own = flags(cell)
        if own.get("echo") == "false": cell.metadata["transient"] = {"remove_source": True}
        cell.source = without_flags(cell.source)
        cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
        for o in cell.outputs:
            if "text/markdown" in o.get("data", {}): o.data["text/markdown"] = relink(symbol_heading("".join(o.data["text/markdown"])), resolve)
    nb.metadata["language_info"] = {"name": "python"}
    text, resources = exporter.from_notebook_node(nb, resources={"output_files_dir": f"{target.stem}_files"})
    head = "".join(f"{mark} {front[key]}\n\n" for mark, key in (("#", "title"), (">", "description")) if key in front)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(with_mathml(relink(head, resolve)) + plain(text), "utf-8")
    for name, content in resources["outputs"].items():
        (target.parent / name).parent.mkdir(parents=True, exist_ok=True)
        (target.parent / name).write_bytes(content)

def report_pages(names: dict[str, str], shown: dict[str, set[str]]) -> None:
    "The reports as they are, links apart, with the files they show."
    for path in sorted((ROOT / "reports").rglob("*")):
        source = path.relative_to(ROOT).as_posix()
        target = BUILD / "pages" / source
        if path.is_dir(): continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in (".png", ".svg"): shutil.copy(path, target)
        if source in names: target.write_text(with_mathml(relink(path.read_text("utf-8"), _keep_pictures(source, resolver(source, names, shown)))), "utf-8")

def _keep_pictures(source, resolve):
    return lambda address: address if address.endswith((".png", ".svg")) and local(address, posixpath.dirname(source)) else resolve(address)

def contents(names: dict[str, str]) -> list:
    "The contents list: the index, the numbered notebooks in their order, then each folder."
    tree = {}
    for source, name in names.items():
        folder = posixpath.dirname(source).removeprefix("nbs").strip("/")
        tree.setdefault(folder, []).append(name)
    tree[""] = sorted(tree.get("", []), key=lambda n: n != "index.md")
    return tree[""] + [{folder.replace("/", " / "): pages} for folder, pages in tree.items() if folder]

def main() -> int:
    processed = processed_notebooks()
    names = page_names(processed)
    shown = symbols(processed, names)
    for source in names:
        if source.endswith(".ipynb"): page(source, processed, names, shown, MarkdownExporter())
    report_pages(names, shown)
    (BUILD / "mkdocs.yml").write_text(yaml.safe_dump({"INHERIT": os.path.relpath(ROOT / "mkdocs.yml", BUILD), "docs_dir": "pages",
                                                       "site_dir": os.path.relpath(SITE, BUILD), "nav": contents(names)}), "utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(BUILD / "mkdocs.yml")]
    done = subprocess.run(command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}) # Material's notice about its successor; these versions are pinned
    if done.returncode == 0: print(f"{len(names)} pages in {SITE.relative_to(ROOT)}/")
    return done.returncode

if __name__ == "__main__":
    try: sys.exit(main())
    except RuntimeError as e: sys.exit(str(e))
