"""What the HTML of the site gets once a builder of `mkdocs.yml` has made it, whichever that was.

Formulas as MathML, terms of the glossary as links, code and tables that a keyboard can scroll, each id once, a name for
the dialog of the search, and what the search knows.

Of the builder it takes landmarks (`main`, or `role="main"`), the elements in which Markdown's arithmatex leaves
formulas, and the search index of MkDocs or of Zensical. All else of a page stays as it was written."""
import html
import json
import posixpath
import re
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path

import latex2mathml.converter

from notebooks import ROOT, is_of_paper

ENTRY = re.compile(r'^- <a id="(.+?)"></a>\*\*(.+?)\*\*: ', flags=re.M) # of docs/glossary.md
TERMS_ALONE = (ROOT / "docs/glossary.md").read_text("utf-8").partition("## Terms")[2] # "better" is an ordinary word
GLOSSARY = {term: address for address, term in ENTRY.findall(TERMS_ALONE)}
GLOSSARY_PAGE = "glossary.html"
TERMS = re.compile(r"(?<![\w-])(%s)(?![\w-])" % "|".join(map(re.escape, sorted(GLOSSARY, key=len, reverse=True))),
                   re.IGNORECASE)
NO_LINK = {"a", "aside", "button", "code", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "label",
           "math", "nav", "pre",
           "script", "style", "svg", "th"}
# without an end tag
EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
ID = re.compile(r"""\sid=("[^"]*"|'[^']*'|[^\s>]+)""", flags=re.I)
FORMULA = re.compile(r"\\\[(?P<block>.+)\\\]|\\\((?P<inline>.+)\\\)", flags=re.S)

# of MkDocs, of Zensical -> the key of its sections
INDEXES = {"search/search_index.json": "docs", "search.json": "items"}
INDEXED = 300 # characters of a section that the search knows
QUERIES = { # page -> what people type who want it, which the search looks at first and shows with the page
    "index.html": ["check my encoder", "install"],
    "citing.html": ["cite", "how to cite", "citation"],
    "contributing.html": ["contribute", "add a method", "add a measure", "add a corpus", "add a table", "add a claim",
                          "add a file format"],
    "diagnosis/tests.html": ["how many pairs", "how many pairs do I need", "power"],
    "diagnosis/check.html": ["my own files", "my own data", "what to do", "my encoder got worse",
                             "keep my encoder from getting worse", "forgetting", "averaged weights"],
    "reports/FINDINGS.html": ["does ITVReg work", "does ARR work", "does SCAN work", "averaged weights"],
    "reports/studies/strength.html": ["which λ", "which lambda"],
    "reports/studies/new_data.html": ["ranking loss", "MultipleNegativesRankingLoss", "MiniLM"],
}
QUERY_BOOST = 2000. # the title of a page has 1000, its text 1
PAPERS = {"itvreg": "Paper A: ITVReg", "arr": "Paper B: ARR", "scan": "Paper C: SCAN"}
NUMBERED = re.compile(r"reports/(?P<paper>\w+)/(?P<kind>table|figure)0*(?P<number>\d+)\.html")


def mathml(match) -> str: # groups `block` and `inline`, of which one has the formula
    "Return a formula as MathML. Raises `SystemExit` with one that is not understood."
    formula = html.unescape(match["block"] or match["inline"])
    display = "block" if match["block"] else "inline"
    try:
        tree = latex2mathml.converter.convert(formula, display=display)
    except Exception as e:
        sys.exit(f"the formula {formula!r} is not understood: {type(e).__name__} {e}")
    return re.sub(r"[*_^~]", lambda mark: f"&#{ord(mark[0])};", tree) # Markdown would take these for its own


def scrolls(tag: str, attributes: dict[str, str]) -> bool:
    "Whether an element may be wider than a page."
    return tag in ("pre", "table") or tag == "math" and attributes.get("display") == "block"


@dataclass(frozen=True)
class Element:
    "An element that is open at a place of a page."
    tag: str
    start: int        # of its start tag
    is_main: bool     # in the main part of the page
    takes_links: bool
    is_formula: bool


@dataclass(frozen=True)
class Edit:
    "A part of a page, and what takes its place."
    start: int
    end: int
    text: str


class Steps(HTMLParser):
    "The edits that a page needs."

    def __init__(self, source: str, glossary: str | None): # glossary: its address; None: the page links no terms
        super().__init__(convert_charrefs=False)
        self.source = source
        self.glossary = glossary
        self.terms = {} if glossary is None else {term.lower(): term for term in GLOSSARY} # not yet said on this page
        self.lines = [0, *accumulate(len(line) for line in source.split("\n"))]
        self.open = [Element("", 0, is_main=False, takes_links=True, is_formula=False)]
        self.edits = []
        self.ids = set()
        self.feed(source)
        self.close()

    def place(self) -> int:
        "Return where the parser is, in characters of the page."
        line, column = self.getpos()
        return self.lines[line - 1] + line - 1 + column

    def edit(self, start: int, end: int, text: str):
        "Put a text in place of a part of the page."
        self.edits.append(Edit(start, end, text))

    def leave_one(self, id: str, start: int):
        "Take the id from an element if another has it: links lead to the first."
        if id in self.ids:
            written = ID.search(self.get_starttag_text())
            self.edit(start + written.start(), start + written.end(), "")
        self.ids.add(id)

    def handle_starttag(self, tag, attrs):
        start, parent = self.place(), self.open[-1]
        attributes = {name: value or "" for name, value in attrs}
        if "id" in attributes:
            self.leave_one(attributes["id"], start)
        is_formula = "arithmatex" in attributes.get("class", "").split()
        element = Element(
            tag, start, parent.is_main or tag == "main" or attributes.get("role") == "main",
            parent.takes_links and tag not in NO_LINK and not is_formula, is_formula)
        behind_name = start + 1 + len(tag)
        if element.is_main and scrolls(tag, attributes) and "tabindex" not in attributes:
            self.edit(behind_name, behind_name, ' tabindex="0"')
        is_search = (attributes.get("role") == "dialog"
                     and "search" in attributes.get("data-md-component", attributes.get("class", "")))
        if is_search and not attributes.keys() & {"aria-label", "aria-labelledby"}:
            self.edit(behind_name, behind_name, ' aria-label="Search"')
        if tag not in EMPTY:
            self.open.append(element)

    def handle_endtag(self, tag):
        depth = max((depth for depth, opened in enumerate(self.open) if opened.tag == tag), default=0)
        if depth == 0: # it closes nothing
            return
        element = self.open[depth]
        del self.open[depth:]
        if element.is_formula:
            self.formula(element.start, self.source.index(">", self.place()) + 1)

    def formula(self, start: int, end: int):
        "Put MathML in place of an element with a formula; one with anything else stays."
        content = self.source[self.source.index(">", start) + 1:self.source.rindex("<", start, end)]
        match = FORMULA.fullmatch(content.strip())
        if match is not None:
            self.edit(start, end, mathml(match).replace(' display="block"', ' display="block" tabindex="0"', 1))

    def handle_data(self, data):
        element = self.open[-1]
        if not (self.terms and element.is_main and element.takes_links):
            return
        start = self.place()
        for match in TERMS.finditer(data):
            term = self.terms.get(match[0].lower())
            if term == match[0] or term and not term.isupper(): # a map is no MAP
                del self.terms[term.lower()]
                link = f'<a class="term" href="{self.glossary}#{GLOSSARY[term]}">{match[0]}</a>'
                self.edit(start + match.start(), start + match.end(), link)


def changed_page(source: str, address: str) -> str: # source: its HTML; address: within the site
    "Return a page with formulas as MathML, linked terms of the glossary, and parts that a keyboard scrolls."
    glossary = None if address == GLOSSARY_PAGE else posixpath.relpath(GLOSSARY_PAGE, posixpath.dirname(address) or ".")
    parts, end = [], 0
    for edit in sorted(Steps(source, glossary).edits, key=lambda step: (step.start, step.end)):
        parts += [source[end:edit.start], edit.text]
        end = edit.end
    return "".join([*parts, source[end:]])


def numbered(place: str, title: str) -> str: # place: of a section on the site
    "Return the title of a page with the number that its table or figure has in its paper: `Table 3 of paper A: …`."
    match = NUMBERED.fullmatch(place)
    if match is None:
        return title
    number = f"{match['kind'].capitalize()} {match['number']}"
    paper = PAPERS[match["paper"]].partition(":")[0]
    return f"{number} of p{paper[1:]}: {title.removeprefix(f'{number}: ')}"


def beginning(text: str) -> str: # HTML
    "Return the words that a text begins with, or its answer; without tags, of which some searches want none left open."
    words = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    cut = words[max(0, words.find("Answer.")):][:INDEXED]
    return re.sub(r"&[^;\s]*$", "", cut) # no half of a character


def is_searched(place: str) -> bool: # place: a page's address
    "Whether no page of the reports shows a notebook, too."
    return not is_of_paper(ROOT / "nbs" / place)


def searched(sections: list[dict], has_tags: bool) -> list[dict]: # each with its location, title and text
    """Return what the search knows.

    The beginning of each section, which makes its index small, of a page its answer, the number of its table, and what
    people ask who want it: as tags, or behind the text where a search looks into no tags. What stands on the site
    twice, or is replaced, is not searched."""
    sections = [section for section in sections if is_searched(section["location"])]
    for section in sections:
        place = section["location"]
        queries = QUERIES.get(place, [])
        section["text"] = beginning(section["text"])
        if has_tags and queries:
            section["tags"] = queries
        elif queries:
            section["text"] += f" ({', '.join(queries)})"
        section["title"] = numbered(place, section["title"])
    return sections


def change_search(site: Path) -> None:
    "Change the search index of a built site; of a builder that makes another one, say that its search is as it was."
    found = [(site / name, key) for name, key in INDEXES.items() if (site / name).exists()]
    if not found:
        print(f"none of {', '.join(INDEXES)} is there: the search knows what its builder gave it")
    for file, key in found:
        index = json.loads(file.read_text("utf-8"))
        fields = index["config"].get("fields", {}) # which Material has
        index[key] = searched(index[key], "tags" in fields)
        if "tags" in fields:
            fields["tags"]["boost"] = QUERY_BOOST
            index["config"]["pipeline"] = [] # no word is too common to count: `what to do` has no other
        file.write_text(json.dumps(index, ensure_ascii=False), "utf-8")


def change_site(site: Path, sources: Path) -> None: # sources: the Markdown that its pages were made from
    "Take all steps on a built site. Raises `SystemExit` with a page that its builder did not make."
    for source in sorted(sources.rglob("*.md")):
        made = source.with_stem("index") if source.stem == "README" else source # as builders have it
        address = made.relative_to(sources).with_suffix(".html").as_posix()
        page = site / address
        if not page.exists():
            sys.exit(f"the builder made no {address} of {source.relative_to(sources)}")
        page.write_text(changed_page(page.read_text("utf-8"), address), "utf-8")
    change_search(site)
