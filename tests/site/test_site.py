"""The pages that `make docs` builds, as files and, where there is a Chromium, in a browser: `make docs-check`."""
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from conftest import SITE

PAGES = sorted(SITE.rglob("*.html"))
pytestmark = pytest.mark.skipif(not PAGES, reason="there is no _docs/: make docs builds it")
BUILT = [page for page in PAGES if "diagnose/" not in page.as_posix() and page.name != "404.html"] # by mkdocs
FETCHING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


class Seen(HTMLParser):
    "Addresses, ids and texts of a page."
    def __init__(self, page: Path):
        super().__init__()
        self.links, self.fetched, self.ids, self.terms = [], [], set(), 0
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.update(filter(None, (attrs.get("id"), attrs.get("name") if tag == "a" else None)))
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
            self.terms += attrs.get("class") == "term"
        address = attrs.get(FETCHING.get(tag, ""))
        if address and attrs.get("rel") not in ("canonical", "prev", "next"):
            self.fetched.append(address)


@pytest.fixture(scope="module")
def seen():
    return {page: Seen(page) for page in PAGES}


def named(page: Path) -> str:
    return page.relative_to(SITE).as_posix()


def test_nothing_is_fetched_from_elsewhere(seen):
    outside = {named(page): [one for one in it.fetched if urlsplit(one).netloc] for page, it in seen.items()}
    assert {page: found for page, found in outside.items() if found} == {}


def test_each_link_leads_somewhere(seen):
    dead = []
    for page, it in seen.items():
        for address in it.links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or page.name == "404.html":
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if target.is_dir():
                target /= "index.html"
            part = unquote(parts.fragment)
            if not target.exists() or part and target in seen and part not in seen[target].ids:
                dead.append(f"{named(page)}: {address}")
    assert dead == []


def test_the_start_page_is_light_and_has_four_doors(seen):
    start = SITE / "index.html"
    loaded = [start, *((start.parent / urlsplit(one).path).resolve() for one in seen[start].fetched)]
    size = sum(file.stat().st_size for file in {file for file in loaded if file.suffix in (".html", ".svg", ".css", ".js")})
    assert size < 300_000
    text = start.read_text("utf-8")
    for door in ("Understand the methods", "Check the papers", "Test your own encoder", "See the evidence"):
        assert door in text


def test_no_page_is_heavy():
    assert [named(page) for page in PAGES if page.stat().st_size > 1_500_000] == []
    assert (SITE / "search" / "search_index.json").stat().st_size < 1_500_000


def test_each_page_names_license_citation_and_version():
    for what in ("Apache-2.0 license", "Cite it", "debias-nb 0."):
        assert [named(page) for page in BUILT if what not in page.read_text("utf-8")] == [], what


def test_terms_are_linked_where_they_are_first_said(seen):
    linked = [page for page in BUILT if seen[page].terms]
    assert len(linked) > len(BUILT) / 2
    for page in linked:
        terms = re.findall(r'class="term" href="[^"]*#([^"]+)"', page.read_text("utf-8"))
        assert len(terms) == len(set(terms)), named(page)


def test_the_search_knows_terms():
    index = json.loads((SITE / "search" / "search_index.json").read_text("utf-8"))
    told = "\n".join(f"{one['title']} {one['text']}" for one in index["docs"]).lower()
    terms = ("ITVReg", "OutReg", "Holm", "WiSE-FT", "diagnose", "AUC", "synthetic", "MiniLM")
    assert [term for term in terms if term.lower() not in told] == []


WIDE, NARROW = 1280, 390
ACROSS = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>
    done(document.documentElement.scrollWidth - document.documentElement.clientWidth))))""" # once it is drawn


def test_pages_open_without_errors_or_requests_and_do_not_scroll_sideways(tab, served):
    faults = []
    tab.on("console", lambda message: message.type == "error" and faults.append(f"{tab.url}: {message.text}"))
    tab.on("pageerror", lambda error: faults.append(f"{tab.url}: {error}"))
    tab.on("requestfailed", lambda request: "ABORTED" in request.failure or faults.append(f"{tab.url}: {request.url}"))
    tab.on("request", lambda request: request.url.startswith(served) or faults.append(f"{tab.url}: {request.url}"))
    for page in BUILT:
        tab.set_viewport_size({"width": WIDE, "height": 900})
        tab.goto(f"{served}/{named(page)}")
        for width in (WIDE, NARROW):
            tab.set_viewport_size({"width": width, "height": 900})
            across = tab.evaluate(ACROSS)
            if across > 0:
                faults.append(f"{named(page)} scrolls {across} pixels sideways at {width}")
    assert faults == []


def test_search_finds(tab, searched):
    tab.goto(f"{searched}/index.html")
    for term in ("ITVReg", "Holm", "diagnose"):
        tab.fill("input.md-search__input", term)
        tab.wait_for_selector(".md-search-result__item")


KINDS = {
    "start": "index.html", "contents": "reports/index.html", "page of a table": "reports/itvreg/table03.html",
    "notebook of a page": "papers/itvreg/table03.html", "notebook of a method": "losses/pair_losses.html",
    "notebook to read": "read/itvreg.html", "diagnosis": "reports/diagnose/questions.html", "glossary": "glossary.html",
    "reference": "reference.html", "claims": "reports/CLAIMS.html", "explorer": "explorer.html", "explorer of claims": "explorer.html#view=claims",
}


def serious_faults(tab, **options) -> list[str]:
    "What axe finds on the page that is open, of serious or critical impact. options: of `axe.run`."
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed: make docs-check installs it")
    found = []
    options["resultTypes"] = ["violations"] # of what is right it need not say where
    for fault in axe.Axe().run(tab, options=options).response["violations"]:
        if fault["impact"] in ("serious", "critical"):
            found += [f"{fault['id']}: {node['html'][:120]}" for node in fault["nodes"]]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_everyone_can_read_the_page(tab, served, kind):
    for scheme, options in {"light": {}, "dark": {"runOnly": ["color-contrast"]}}.items(): # the other rules ask for no colors
        tab.emulate_media(color_scheme=scheme)
        tab.goto("about:blank")
        tab.goto(f"{served}/{KINDS[kind]}")
        if kind.startswith("explorer"):
            tab.wait_for_selector("body[data-ready]")
        assert serious_faults(tab, **options) == [], scheme


def test_a_page_that_some_cannot_read_is_noticed(tab):
    tab.set_content('<html lang="en"><title>A page</title><main><p style="color: #aaa; background: #fff">pale</p><img src="data:,"></main>')
    assert [fault.partition(":")[0] for fault in serious_faults(tab)] == ["color-contrast", "image-alt"]
    assert [fault.partition(":")[0] for fault in serious_faults(tab, runOnly=["color-contrast"])] == ["color-contrast"]
