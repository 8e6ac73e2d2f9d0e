"""Build the pages in _docs/ from the notebooks and the outputs that they keep; no notebook is run.

python tools/docs.py                                            with mkdocs
python tools/docs.py zensical build --strict --config-file      with another builder: a command that takes the path of
                                                                a mkdocs.yml

tools/site/mkdocs.yml has the contents and all settings, site.css and site.js what every page
gets. Notebooks of papers have no page of their own: reports/ shows what they show.
"""
import ast
import html
import os
import posixpath
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import latex2mathml.converter
import nbformat
import yaml

import debias_nb
import explorer
from notebooks import ROOT, flags, is_of_paper, local, markdown, notebooks, relink, settings

BUILD = ROOT / ".cache" / "docs"
PAGES = BUILD / "pages"
PARTS = ROOT / "tools" / "site"
BESIDE = (".png", ".svg", ".html") # files of reports and notebooks that the site has as well
PUBLIC = {name: f"{getattr(debias_nb, name).__module__}.{name}" for name in sorted(debias_nb.__all__)}
GLOSSARY = (ROOT / "docs/glossary.md").read_text("utf-8")
ENTRY = re.compile(r'^- <a id="(.+?)"></a>\*\*(.+?)\*\*: ', flags=re.M)
TERMS = {term.lower(): address for address, term in ENTRY.findall(GLOSSARY.partition("## Terms")[2])} # of exact words
# code, headings, links, formulas and HTML, in which no link is made; a name in code; a term
WORDS = re.compile(
    r"^```.*?^```|^#.*?$|^ {4}.*?$|\[[^]]*\]\([^)]*\)|<(?P<tag>table|style|svg|summary|a)\b.*?</(?P=tag)>|<[^>]*>|"
    r"\$\$.*?\$\$|\$[^$\n]+\$|`(?P<name>\w+)`|`[^`\n]*`|(?<![\w-])(?P<term>%s)(?![\w-])"
    % "|".join(map(re.escape, sorted(TERMS, key=len, reverse=True))), re.S | re.M | re.I)
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[([](.*?)\\[)\]]</\1>', re.S)


def page_of(source: str) -> str: # source: a file of the project
    "Return where the site has a file: `losses/steps.md` for nbs/losses/steps.ipynb."
    names = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "docs/glossary.md": "glossary.md"}
    return names.get(source, re.sub(r"\.ipynb$", ".md", source.removeprefix("nbs/")))


def sources() -> list[str]:
    "The files that have a page."
    found = [path for path in notebooks() if not is_of_paper(path) and path.stem != "index"]
    found += [*(ROOT / "reports").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return [path.relative_to(ROOT).as_posix() for path in found]


def signature(node, lines: list[str]) -> list[str]: # lines: of the cell
    "The lines of a definition above its docstring; of a class, those of its fields and of what makes it, too."
    found = lines[node.lineno - 1:max(node.body[0].lineno - 1, node.lineno)]
    for child in node.body if isinstance(node, ast.ClassDef) else []:
        if isinstance(child, ast.AnnAssign):
            found += lines[child.lineno - 1:child.end_lineno]
        elif getattr(child, "name", "") == "__init__":
            found += signature(child, lines)
    return found


def explained(source: str, reference: str) -> str: # source: of an exported cell; reference: the address of that page
    "Markdown: signature and docstring of each public definition, and folded, the code."
    parts, nodes = [], ast.parse(source).body
    if all(isinstance(node, ast.Import | ast.ImportFrom | ast.If) for node in nodes): # the last for types
        return ""
    for node in nodes:
        name = getattr(node, "name", "_")
        if name[0] == "_":
            continue
        lines, said = "\n".join(signature(node, source.splitlines())), ast.get_docstring(node) or ""
        if name in PUBLIC: # whose docstring has sections
            first = said.partition("\n\n")[0]
            said = f"{first} [Parameters and examples]({reference}#{PUBLIC[name]})"
        parts.append(f"### {name} {{ #{name} }}\n\n```python\n{lines}\n```\n\n{said}")
    code = f'<details markdown="1"><summary>Code</summary>\n\n```python\n{source}\n```\n\n</details>'
    return "\n\n".join([*parts, code])


def definitions(source: str) -> set[str]: # source: a notebook
    "The public names that a notebook exports."
    cells = nbformat.read(ROOT / source, as_version=4).cells
    found = [node for cell in cells if "export" in flags(cell) for node in ast.parse(cell.source).body]
    return {node.name for node in found if getattr(node, "name", "_")[0] != "_"}


class Links:
    "Where addresses, names and terms lead from a page."

    def __init__(self, pages: set[str], names: dict[str, str]): # names: exported ones -> page
        self.pages, self.names = pages, names
        self.lost = []

    def resolved(self, source: str, address: str) -> str:
        "An address in the text of `source`: to a page, a file beside the pages, or the code host."
        target = local(address, posixpath.dirname(source))
        if target is None:
            return address
        name, part = target
        page = page_of(name)
        if page not in self.pages and not (ROOT / name).exists():
            self.lost.append(f"{source}: {name}")
        if page in self.pages or name.startswith(("nbs/", "reports/")) and name.endswith(BESIDE):
            return posixpath.relpath(page, posixpath.dirname(page_of(source)) or ".") + part
        return f"{settings()['git_url']}/blob/{settings()['branch']}/{name}{part}"

    def added(self, page: str, text: str) -> str: # text: Markdown
        "A page with links from the names of definitions, and from each term of the glossary where it is first said."
        folder = posixpath.dirname(page) or "."
        said = set()

        def link(match):
            word, term = match["name"], (match["term"] or "").lower()
            if word in self.names:
                return f"[`{word}`]({posixpath.relpath(self.names[word], folder)}#{word})"
            if not term or term in said:
                return match[0]
            said.add(term)
            return f'[{match[0]}]({posixpath.relpath("glossary.md", folder)}#{TERMS[term]}){{ .term }}'

        return WORDS.sub(link, text)


def write(name: str, content: str | bytes) -> None: # name: of a page, or a file beside the pages
    "Write a file that the builder reads."
    target = PAGES / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.encode() if isinstance(content, str) else content)


def write_pages() -> None:
    "All pages and what they need. Raises `SystemExit` with the links that lead nowhere."
    shutil.rmtree(BUILD, ignore_errors=True)
    paths = {source: page_of(source) for source in sources()}
    names, twice = {}, set()
    for source in filter(lambda name: name.endswith(".ipynb"), paths):
        found = definitions(source)
        twice |= found & names.keys()
        names |= dict.fromkeys(found, paths[source])
    pages = {*paths.values(), "reference.md", "glossary.md"}
    links = Links(pages, {name: names[name] for name in names.keys() - twice})
    for source, page in paths.items():
        if source.endswith(".md"):
            text, pictures = (ROOT / source).read_text("utf-8"), {}
        else:
            reference = posixpath.relpath("nbs/reference.ipynb", posixpath.dirname(source))
            nb = nbformat.read(ROOT / source, as_version=4)
            text, pictures = markdown(nb, f"{Path(page).stem}_files", partial(explained, reference=reference))
        text = relink(text, partial(links.resolved, source))
        write(page, links.added(page, text))
        for name, picture in pictures.items():
            write(posixpath.join(posixpath.dirname(page), name), picture)
    for path in (path for folder in ("reports", "nbs") for path in (ROOT / folder).rglob("*")):
        if path.suffix in BESIDE:
            write(page_of(path.relative_to(ROOT).as_posix()), path.read_bytes())
    write("glossary.md", GLOSSARY)
    write("reference.md", "\n\n".join(["# Reference", "The names of `debias_nb`; versions promise these and no others.",
                                       *(f"::: {place}" for place in PUBLIC.values())]))
    for name in ("site.css", "site.js"):
        write(name, (PARTS / name).read_bytes())
    explorer.write(PAGES)
    if links.lost:
        sys.exit("these links lead to no file:\n" + "\n".join(links.lost))


def contents(entry, named: set[str]): # entry: of `nav`, in which `losses/*.md` stands for all pages that no entry names
    "The contents with the pages that a pattern stands for, each once."
    if isinstance(entry, dict):
        return {title: contents(part, named) for title, part in entry.items()}
    if isinstance(entry, list):
        parts = [contents(part, named) for part in entry]
        return [one for part in parts for one in (part if isinstance(part, list) else [part])]
    if "*" not in entry:
        return entry
    found = [path.relative_to(PAGES).as_posix() for path in sorted(PAGES.glob(entry))]
    return [page for page in found if page not in named]


def build(builder: list[str]) -> int: # -> the exit code of the builder
    "Let a builder make the HTML, put MathML in place of formulas, and move it to _docs/."
    config = yaml.safe_load((PARTS / "mkdocs.yml").read_text("utf-8"))
    named = set(re.findall(r"[\w/]+\.md", yaml.safe_dump(config["nav"])))
    config |= {"nav": contents(config["nav"], named), "docs_dir": "pages", "site_dir": "site"}
    (BUILD / "mkdocs.yml").write_text(yaml.safe_dump(config), "utf-8")
    # a builder of another environment reads docstrings, too; Material announces its successor, and is pinned
    env = os.environ | {"PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run([*builder, str(BUILD / "mkdocs.yml")], env=env)
    if done.returncode == 0:
        for path in (BUILD / "site").rglob("*.html"):
            path.write_text(FORMULA.sub(mathml, path.read_text("utf-8")), "utf-8")
        shutil.rmtree(ROOT / "_docs", ignore_errors=True)
        (BUILD / "site").rename(ROOT / "_docs")
    return done.returncode


def mathml(match) -> str: # of `FORMULA`
    "A formula as MathML, which browsers draw by themselves."
    display = "block" if match[1] == "div" else "inline"
    return latex2mathml.converter.convert(html.unescape(match[2]).strip(), display=display)


if __name__ == "__main__":
    write_pages()
    sys.exit(build(sys.argv[1:] or [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file"]))
