"""The pages that `make docs` builds, in a Chromium where there is one: `pytest tests/site`."""
import posixpath
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from conftest import SITE, package

PAGES = sorted(SITE.rglob("*.html"))
FOLDERS = sorted({page.parent for page in PAGES if page.parent.name != "diagnosis"})
# of each folder of mkdocs' pages
LARGEST = [max(folder.glob("*.html"), key=lambda page: page.stat().st_size) for folder in FOLDERS]


def name_of(page: Path) -> str:
    return page.relative_to(SITE).as_posix()


def test_terms_are_linked_where_they_are_first_said():
    terms = re.findall(r'class="term" href="[^"]*#([^"]+)"', (SITE / "read/itvreg.html").read_text("utf-8"))
    assert len(terms) == len(set(terms)) > 5


class Places(HTMLParser):
    "The links of a page, its pictures and scripts, and the places that links may lead to: how often each stands."

    def __init__(self, page: str):
        super().__init__()
        self.links, self.places = [], Counter({"": 1})
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if "id" in attributes:
            self.places[attributes["id"]] += 1
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if "src" in attributes:
            self.links.append(attributes["src"])


def lost_links(pages: dict[str, str]) -> list[str]: # address within the site -> HTML
    "The links and pictures within the site that lead to no file of it, or to no place of a page."
    read = {name: Places(page) for name, page in pages.items()}
    links = []
    for name, page in read.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            path = posixpath.join(posixpath.dirname(name), unquote(address.path)) if address.path else name
            target, place = posixpath.normpath(path), unquote(address.fragment)
            is_view = target == "explorer.html" and "=" in place # what is chosen there
            is_there = place in read[target].places or is_view if target in read else (SITE / target).is_file()
            if not is_there:
                links.append(f"{name}: {link}")
    return links


def places_that_stand_twice(pages: dict[str, str]) -> list[str]: # address within the site -> HTML
    "The ids that several elements of a page have, so that a link leads to one and a reader wants another."
    twice = []
    for name, page in pages.items():
        twice += [f"{name}: {place}" for place, count in Places(page).places.items() if count > 1]
    return twice


@pytest.fixture(scope="module")
def pages():
    return {name_of(page): page.read_text("utf-8") for page in PAGES if page.name != "404.html"}


def test_links_within_the_site_lead_somewhere(pages):
    "Whatever built it: mkdocs looks at links too, another builder may not."
    assert lost_links(pages) == []


def test_no_place_of_a_page_stands_twice(pages):
    assert places_that_stand_twice(pages) == []


WIDE, NARROW = 1280, 390
OVERFLOW = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>
    done(document.documentElement.scrollWidth - document.documentElement.clientWidth))))""" # once it is drawn


def test_pages_open_without_errors_or_requests_and_do_not_scroll_sideways(tab, served):
    "The start page, and of each folder the largest."
    faults = []
    tab.on("console", lambda message: message.type == "error" and faults.append(f"{tab.url}: {message.text}"))
    tab.on("pageerror", lambda error: faults.append(f"{tab.url}: {error}"))
    tab.on("requestfailed", lambda request: "ABORTED" in request.failure or faults.append(f"{tab.url}: {request.url}"))
    tab.on("request", lambda request: request.url.startswith(served) or faults.append(f"{tab.url}: {request.url}"))
    for page in (SITE / "index.html", *LARGEST):
        tab.set_viewport_size({"width": WIDE, "height": 900})
        tab.goto(f"{served}/{name_of(page)}")
        for width in (WIDE, NARROW):
            tab.set_viewport_size({"width": width, "height": 900})
            overflow = tab.evaluate(OVERFLOW)
            if overflow > 0:
                faults.append(f"{name_of(page)} scrolls {overflow} pixels sideways at {width}")
    assert faults == []


def test_search_finds(tab, searched):
    tab.goto(f"{searched}/index.html")
    for term in ("ITVReg", "Holm", "diagnose"):
        tab.fill("input.md-search__input", term)
        tab.wait_for_selector(".md-search-result__item")


KINDS = {
    "start": "index.html", "page of a table": "reports/itvreg/table03.html", "notebook": "losses/pair_losses.html",
    "diagnosis": "reports/diagnosis/questions.html", "explorer": "explorer.html",
    "explorer of claims": "explorer.html#view=claims",
}


def serious_faults(tab, **options) -> list[str]:
    "What axe finds on the page that is open, of serious or critical impact. options: of `axe.run`."
    axe = package("axe_playwright_python.sync_playwright")
    faults = []
    options["resultTypes"] = ["violations"] # of what is right it need not say where
    for fault in axe.Axe().run(tab, options=options).response["violations"]:
        if fault["impact"] in ("serious", "critical"):
            faults += [f"{fault['id']}: {node['html'][:120]}" for node in fault["nodes"]]
    return faults


@pytest.mark.parametrize("kind", KINDS)
def test_everyone_can_read_the_page(tab, served, kind):
    # the other rules ask for no colors
    for scheme, options in {"light": {}, "dark": {"runOnly": ["color-contrast"]}}.items():
        tab.emulate_media(color_scheme=scheme)
        tab.goto("about:blank")
        tab.goto(f"{served}/{KINDS[kind]}")
        if kind.startswith("explorer"):
            tab.wait_for_selector("body[data-ready]")
        assert serious_faults(tab, **options) == [], scheme
