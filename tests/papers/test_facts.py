"Facts: that the file has all of them, and that pages and the heads of findings follow from them."
import json
import random
import re
from pathlib import Path

import pandas as pd
import pytest

from debias_nb.files import sha256_file
from debias_nb.papers.pages.claims import ask
from debias_nb.papers.pages.compare import BETTER, OPEN, WITHIN, WORSE
from debias_nb.papers.pages.facts import NUMBER, Facts
from debias_nb.papers.pages.frame import Results
from debias_nb.papers.pages.tables import replace_names

ROOT = Path(__file__).parents[2]
FACTS = Facts.read()


def test_the_file_has_what_was_added(tmp_path):
    facts = Facts()
    facts.add("sites", "MiniLM, potion")
    facts.add("gain", None, [.25, -1.], "points", "itvreg/table03.small:table3", tests=2)
    facts.add("nothing", None)
    facts.ask("itvreg_titles", ask("itvreg_titles", Results()))
    assert facts["itvreg_titles"] == FACTS["itvreg_titles"]
    (tmp_path / "facts.csv").write_text(facts.csv())
    assert dict(Facts.read(tmp_path)) == dict(facts) and "nothing" not in facts
    with pytest.raises(ValueError, match="gain occurs twice"):
        facts.add("gain", 3)


def test_a_fact_that_no_run_gives_says_so_whatever_is_asked_of_it():
    text = "{{ lost }} {{ lost.estimate }} {{ lost.extent.a }} {{ claim('X') }}"
    assert Facts().render(text) == " ".join(["*not run here*"] * 3) + " [X](./claims.ipynb#x): **not run here**"


@pytest.mark.parametrize("name", ["read/itvreg", "read/arr", "read/scan", "diagnosis/check"])
def test_a_notebook_outside_of_papers_shows_the_estimates_of_today(name):
    claims = pd.read_csv(ROOT / "reports/claims.csv").fillna("")
    today = " ".join([*(str(fact.estimate) for fact in FACTS.values()), *claims.ours])
    cells = json.loads((ROOT / f"nbs/{name}.ipynb").read_text("utf-8"))["cells"]
    shown = re.findall(r"[+−]?\d+\.\d+ \[[+−]?\d+\.\d+, [+−]?\d+\.\d+\]", json.dumps(
        [cell.get("outputs") for cell in cells], ensure_ascii=False))
    assert shown and [estimate for estimate in shown if estimate not in today] == []


def parts_of(name: str) -> list[str]: # name: of a notebook in `nbs/`
    "Return what cells that name facts say today, without addresses of links: they differ where a text is read."
    parts = []
    for cell in json.loads((ROOT / f"nbs/{name}.ipynb").read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if source.startswith("%%markdown"):
            parts.append(replace_names(FACTS.render(source.partition("\n")[2])))
        elif name == "index" and "facts.render" in source:
            exec(source, {"facts": FACTS, "Markdown": lambda text: parts.extend(text.split("\n\n"))})
    return [without_addresses(part) for part in parts]


def without_addresses(text: str) -> str:
    return re.sub(r"\]\([^)]*\)", "]", text).strip()


def turned(number: str, draw: random.Random) -> str:
    "Return a number with another sign or another digit."
    sign = {"+": "−", "−": "+"}.get(number[0])
    if sign and draw.random() < .5:
        return sign + number[1:]
    place = draw.choice([place for place, letter in enumerate(number) if letter.isdigit()])
    return number[:place] + draw.choice("0123456789".replace(number[place], "")) + number[place + 1:]


@pytest.mark.parametrize("name, page", [
    ("index", "README.md"), ("papers/findings", "reports/FINDINGS.md"),
    ("papers/studies/new_data", "reports/studies/new_data.md")])
def test_a_page_says_what_its_facts_say_and_each_turned_number_is_seen(name, page):
    text, parts, draw = without_addresses((ROOT / page).read_text("utf-8")), parts_of(name), random.Random(0)
    assert parts and [part for part in parts if part not in text] == []
    numbers = [(part, match) for part in parts for match in NUMBER.finditer(part)]
    for part, match in draw.sample(numbers, min(60, len(numbers))):
        changed = part[:match.start()] + turned(match.group(), draw) + part[match.end():]
        assert any(one not in text.replace(part, changed) for one in parts), (part, changed)


def test_a_changed_digit_of_a_table_is_noticed():
    lines = [line.split("  ") for line in (ROOT / "reports/sha256.txt").read_text("utf-8").splitlines()]
    assert {"claims.csv", "cells.csv", "differences.csv", "facts.csv", "../experiments/weights.csv"} <= {
        name for _, name in lines}
    assert [name for hashed, name in lines if sha256_file(ROOT / "reports" / name) != hashed] == []


HEADS = { # a finding -> what its head rests on
    1: {"tuned_sites": [WORSE], "tuned_offers": [BETTER], "tuned_titles": [BETTER]},
    2: {"averaged_sites": [BETTER], "averaged_offers": [WORSE]},
    4: {"itvreg_titles": [WITHIN], "itvreg_sites": [WITHIN], "itvreg_offers": [WITHIN], "outreg_titles": [BETTER],
        "outreg_offers": [WORSE]},
    5: {"topics": [OPEN, WITHIN]}, 6: {"scan_again": [OPEN, WITHIN, WORSE]}}


@pytest.mark.parametrize("finding", HEADS)
def test_heads_of_findings_follow_from_their_questions(finding):
    assert [name for name, words in HEADS[finding].items() if FACTS[name].word not in words] == []


def words_seen(page: str) -> int: # page: Markdown
    """Count the words and numbers that a reader sees, folds and tables included, addresses, tags and pictures not.

    A number and its spread are one."""
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)|<[^>]+>| ± [\d.]+", " ", page)
    text = re.sub(r"\]\([^)]*\)", "] ", text)
    return sum(any(map(str.isalnum, word)) for word in text.split())


def test_findings_are_six_of_150_words_each_with_its_picture():
    _, *findings = re.split(r"(?m)^## ", (ROOT / "reports/FINDINGS.md").read_text("utf-8"))
    assert len(findings) == 6 and all(finding.count("![") == 1 for finding in findings)
    assert max(map(words_seen, findings)) <= 150, [*map(words_seen, findings)]
