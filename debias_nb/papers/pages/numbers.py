"""Where each number of the pages that sum up comes from: `bindings` leads from it to the fact that it is of.

A number that a sentence has by a fact's name is bound to a fact that the cell of this sentence names; one in a table
that a cell computes, to any fact that is displayed so, or to a row of the files beside the pages; one that stands in
the text of a notebook, such as a limit, to that notebook."""
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from ...files import project_root
from ...runs.pairing import signed
from .facts import SHOWN, Fact, Facts

PAGES = { # page -> its notebook
    "README.md": "nbs/index.ipynb",
    **{f"reports/{page}.md": f"nbs/papers/{page.lower()}.ipynb" for page in ("FINDINGS", "CLAIMS", "REPORT")}}
FILE = "numbers.csv"
BESIDE = ("claims.csv", "claims.estimates.csv", "printed.csv", "advice.csv", "finetunes.csv")
NUMBER = re.compile(r"(?<![\w.,@/#-])[+−]?\d+(?:,\d{3})*(?:\.\d+)?%?(?![\w]|\.\d)")
OWN = re.compile(r"(?<!\w)\d+(?:,\d{3})*(?:\.\d+)?%?")
UNSEEN = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)\s]*\)|<!--.*?-->|<[^>]+>|https?://\S+|^    .*?$", re.S | re.M)


class Bound(NamedTuple):
    "A number of a page, and what it comes from."
    page: str
    section: str
    number: str
    source: str # `fact NAME`, `file NAME`, `text`; empty: nothing


def numbers_in(text: str) -> list[str]: # text: Markdown
    "List the numbers that a reader sees, in order; code and addresses have none."
    return NUMBER.findall(UNSEEN.sub(" ", text))


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
    words = {*re.findall(r"[\w-]+", source)}
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


def bindings(page: str, facts: Facts, root: Path | None = None) -> Iterator[Bound]: # page: of `PAGES`
    "Yield the numbers of a page in order, each with what it comes from."
    root = root or project_root()
    cells = _cells(PAGES[page], root)
    of_line = {line: cell for cell in cells for line in _shown_lines(cell)}
    any_fact = {number: name for name, fact in facts.items() for number in displayed(fact)}
    files = _numbers_of_files(root)
    section, text = "", (root / page).read_text("utf-8")
    visible = UNSEEN.sub(lambda match: "\n" * match[0].count("\n") or " ", text)
    for line, seen in zip(text.splitlines(), visible.splitlines()):
        if line.startswith("#"):
            section = _seen(line)
        cell = of_line.get(_seen(line))
        source = "".join(cell["source"]) if cell else ""
        words = _words(source, root)
        named = {number: name for name in facts if {*name.split(", ")} - {"outcome"} <= words
                 for number in displayed(facts[name])}
        own = {*map(_plain, OWN.findall(re.sub(r"{[{%].*?[%}]}", " ", source)))}
        for number in map(_plain, NUMBER.findall(seen)):
            if not cell:
                place = ""
            elif number in named:
                place = f"fact {named[number]}"
            elif number in own:
                place = "text"
            elif number in any_fact:
                place = f"fact {any_fact[number]}"
            else:
                place = f"file {files[number]}" if number in files else f"cell {cell['id']}"
            yield Bound(page, section, number, place)
