"""Where each number of the pages that sum up comes from: a fact, its notebook's own words, a file, or a cell.

A line of a page has to be one that a cell of its notebook shows. Its numbers are those of the facts that this cell
names; else they stand in the words of the cell, such as a limit; else another fact or a file beside the pages is
displayed so; else the cell counts them from records."""
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from ...files import project_root
from ...runs.pairing import signed
from .facts import SHOWN, Fact, Facts

PAGES = { # page -> its notebook
    "README.md": "nbs/index.ipynb",
    **{f"reports/{page}.md": f"nbs/papers/{page.lower()}.ipynb" for page in ("FINDINGS", "CLAIMS", "REPORT")}}
NUMBERS_FILE = "numbers.csv"
BESIDE = ("claims.csv", "claims.estimates.csv", "printed.csv", "advice.csv", "finetunes.csv")
NUMBER = re.compile(r"(?<![\w.,@/#-])[+−]?\d+(?:,\d{3})*(?:\.\d+)?%?(?![\w]|\.\d)")
OWN = re.compile(r"(?<!\w)\d+(?:,\d{3})*(?:\.\d+)?%?")
UNSEEN = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)\s]*\)|<!--.*?-->|<[^>]+>|https?://\S+|^    .*?$", re.S | re.M)


class Bound(NamedTuple):
    "A number of a page, and what it comes from."
    page: str
    number: str
    source: str # `fact NAME`, `file NAME`, `text`; empty: nothing


def _plain(number: str) -> str: # without the sign that a verb or a range may say
    return number.lstrip("+−")


def displayed(fact: Fact) -> set[str]:
    "List how a page may display a number of a fact, without sign."
    texts = [str(fact), fact.estimate]
    for number in (fact.value, fact.low, fact.high, fact.mean, fact.mean_low, fact.mean_high):
        if isinstance(number, int | float):
            texts += [SHOWN[fact.unit](number), signed(number), f"{abs(number):g}", f"{number:,}"]
            if fact.unit == "fraction":
                texts.append(f"{number:.0%}")
    texts += [str(count) for count in (fact.tests, fact.better, fact.worse, fact.within, fact.unsure)
              if count is not None]
    return {_plain(number) for text in texts for number in NUMBER.findall(text)}


def _numbers_of_files(root: Path) -> dict[str, str]: # number -> file
    "List how the numbers of the files beside the pages, and of the printed tables, are displayed."
    found = {}
    for name in BESIDE:
        table = pd.read_csv(root / "reports" / name, dtype=str).fillna("")
        for text in pd.unique(table.to_numpy().ravel()):
            for number in NUMBER.findall(text.replace("-", "−")):
                value = float(_plain(number).rstrip("%").replace(",", ""))
                for form in ("{:.1f}", "{:.2f}", "{:,.0f}", "{:g}"):
                    found.setdefault(form.format(value), name)
                found.setdefault(_plain(number), name)
    return found


def _cells(notebook: str, root: Path) -> list[dict]:
    return json.loads((root / notebook).read_text("utf-8"))["cells"]


def _words(source: str, root: Path) -> set[str]:
    "List the words of a cell, with those of cells of other pages that it includes."
    words = {*re.findall(r"[\w-]+", re.sub(r"\]\([^)\s]*\)", "]", source))}
    for notebook, name in re.findall(r'(?:from|include) "([\w/]+)/(\w+)"', source):
        [cell] = [cell for cell in _cells(f"nbs/papers/{notebook}.ipynb", root) if cell["id"] == name]
        words |= _words("".join(cell["source"]), root)
    return words


def _shown_lines(cell: dict) -> set[str]:
    "List the lines that a cell shows, as `_seen` has them."
    texts = ["".join(cell["source"])] if cell["cell_type"] == "markdown" else [
        "".join(output.get("data", {}).get(kind, ())) for output in cell.get("outputs", ())
        for kind in ("text/markdown", "text/plain")] # the latter of pictures
    return {_seen(line) for text in texts for line in text.splitlines() if line.strip()}


def _seen(line: str) -> str:
    return re.sub(r"\W+", " ", re.sub(r"\]\([^)\s]*\)", "]", line)).strip()


def _whole(facts: Facts, names: Iterable[str]) -> dict[str, str]: # text -> name
    "List how facts are displayed as a whole, such as `+1.3 [+0.9, +1.8]`; longer ones first."
    texts = {text: name for name in names for text in (str(facts[name]), facts[name].estimate) if len(text) > 3}
    return {text: texts[text] for text in sorted(texts, key=len, reverse=True)}


def _places(line: str, whole: dict[str, str]) -> dict[int, str]: # of `_whole`; place in the line -> name
    found = {}
    for text, name in whole.items():
        start = line.find(text)
        while start >= 0:
            found = dict.fromkeys(range(start, start + len(text)), name) | found
            start = line.find(text, start + 1)
    return found


def bindings(
    page: str,                # of `PAGES`
    facts: Facts,
    text: str | None = None,  # None: that of the page
) -> Iterator[Bound]:
    "Yield the numbers of a page in order, each with what it comes from."
    root = project_root()
    cells = _cells(PAGES[page], root)
    of_line = {line: cell for cell in cells for line in _shown_lines(cell)}
    any_fact = {number: name for name, fact in facts.items() for number in displayed(fact)}
    every = _whole(facts, facts)
    files = _numbers_of_files(root)
    text = text or (root / page).read_text("utf-8")
    visible = UNSEEN.sub(lambda match: "\n" * match[0].count("\n") or " ", text)
    for line, seen in zip(text.splitlines(), visible.splitlines()):
        cell = of_line.get(_seen(line))
        source = "".join(cell["source"]) if cell else ""
        words = _words(source, root)
        names = [name for name in facts if {*name.split(", ")} - {"outcome"} <= words]
        named = {number: name for name in names for number in displayed(facts[name])}
        whole = _places(seen, every) | _places(seen, _whole(facts, names))
        own = {*map(_plain, OWN.findall(re.sub(r"{[{%].*?[%}]}", " ", source)))}
        for match in NUMBER.finditer(seen):
            number = _plain(match[0])
            if not cell:
                place = ""
            elif match.start() in whole:
                place = f"fact {whole[match.start()]}"
            elif number in own:
                place = "text"
            elif number in named:
                place = f"fact {named[number]}"
            elif number in any_fact:
                place = f"fact {any_fact[number]}"
            else:
                place = f"file {files[number]}" if number in files else f"cell {cell['id']}"
            yield Bound(page, number, place)


def manifest(facts: Facts) -> str: # CSV
    "List every number of every page, in order."
    rows = [row for page in PAGES for row in bindings(page, facts)]
    return pd.DataFrame(rows, columns=Bound._fields).to_csv(index=False, lineterminator="\n")


def fact_sources(number: str) -> dict[str, list[str]]: # number: as a page prints it, or a fact; source -> pages
    "Look up in the manifest what a number comes from."
    rows = pd.read_csv(project_root() / "reports" / NUMBERS_FILE, dtype=str)
    rows = rows[(rows.number == _plain(number.replace("-", "−"))) | (rows.source == f"fact {number}")]
    return {source: list(dict.fromkeys(own.page)) for source, own in rows.groupby("source", sort=False)}
