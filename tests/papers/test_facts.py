"Facts: how they look, that the file has all of them, and that sentences follow from them."
import json
from dataclasses import replace
from pathlib import Path

import jinja2
import pandas as pd
import pytest

from debias_nb.papers.pages.facts import Fact, Facts
from debias_nb.papers.pages.style import replace_names

ROOT = Path(__file__).parents[2]
FACTS = Facts.read()


@pytest.mark.parametrize("fact, text", [
    (Fact("a", 1440), "1,440"), (Fact("a", "Quora"), "Quora"), (Fact("a"), ""),
    (Fact("a", None, -1.84, .12, "points"), "−1.8 to +0.1"), (Fact("a", None, .04, -.04, "points"), "0.0"),
    (Fact("a", .343, .262, .429, "fraction"), "34% [26%, 43%]"),
    (Fact("a", -.54, -1.6, .6, "points"), "−0.5 [−1.6, +0.6]"),
])
def test_a_fact_is_shown_by_its_unit(fact, text):
    assert str(fact) == text


def test_the_file_has_what_was_added(tmp_path):
    facts = Facts()
    facts.add("sites", "MiniLM, potion")
    facts.add("gain", None, [.25, -1.], "points", "itvreg/table03.small:table3", tests=2)
    tests = pd.DataFrame({"table": "table3", "difference": [1., 3.], "verdict": ["better", "cannot tell"]})
    facts.compare("compared", tests)
    (tmp_path / "facts.csv").write_text(facts.csv())
    assert dict(Facts.read(tmp_path)) == dict(facts)
    assert facts["compared"] == Fact("compared", None, 1., 3., "points", 2, 1, 0, 0, 1, "itvreg/table03.small:table3")
    with pytest.raises(ValueError, match="gain occurs twice"):
        facts.add("gain", 3)
    assert facts.render("{{ gain | extent }}; {{ compared.better }} of {{ compared.tests }}; {{ sites | list }}") == (
        "stayed within a point (−1.0 to +0.2); 1 of 2; MiniLM and potion")
    with pytest.raises(jinja2.UndefinedError, match="nothing"):
        facts.render("{{ nothing }}")


def texts_of(notebook):
    "Read the cells of Markdown that name facts: text and what it shows."
    for cell in json.loads((ROOT / f"nbs/papers/{notebook}.ipynb").read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if source.startswith("%%markdown"):
            yield source.partition("\n")[2], "".join(cell["outputs"][0]["data"]["text/markdown"])


def test_the_findings_say_what_the_file_says():
    texts = [*texts_of("findings")]
    assert len(texts) > 30
    for text, page in texts:
        assert replace_names(FACTS.render(text)) == page


def said(text, **changes):
    "Render a text where some facts have other values: a dict of these each."
    facts = Facts(FACTS.values())
    facts |= {name: replace(FACTS[name], **other) for name, other in changes.items()}
    return facts.render(text)


def head(number):
    return f'{{% from "findings/heads" import head{number} %}}{{{{ head{number} }}}}'


TURNED = {"low": 3., "high": 9., "better": 7, "worse": 0} # losses that are gains


@pytest.mark.parametrize("number, phrase, turned, changes", [
    (1, "got worse on the other site", "helped on other product offers and titles", {"tuned_sites": TURNED}),
    (1, "helped on other product offers", "got worse on the other site.", {"tuned_items": dict(better=0, worse=13)}),
    (2, "losses and gains alike", "gives up part of the gain", {"averaged_sites": dict(better=0, worse=7)}),
    (2, "losses and gains alike", "repairs part", {"averaged_offers": dict(better=4, worse=0)}),
    (3, "registered rule was met in", "at most half as much", {"rule_failed": dict(value=0)}),
    (3, "changed less on new", "depends on the encoder", {"general_width": dict(high=1.2)}),
    (4, "changes almost nothing", "depends on the data", {"itvreg_offers": dict(low=-1.2)}),
    (4, "for better and for worse", "changes almost nothing.", {"outreg": dict(worse=0)}),
    (5, "made no difference", "helped in some places", {"topics": dict(better=1)}),
    (5, "made no difference", "depends on the corpus", {"topics": dict(better=1, worse=1)}),
    (6, "new seeds did not repeat it", "new seeds repeat it", {"confirmed": dict(value=1)}),
    (6, "SCAN gained once", "showed no gain", {"answers": dict(better=0)}),
])
def test_a_headline_follows_from_its_numbers(number, phrase, turned, changes):
    assert phrase in said(head(number))
    assert turned in said(head(number), **changes) and phrase not in said(head(number), **changes)


@pytest.mark.parametrize("cell, phrase, turned, changes", [
    ("findings/text1", "fine-tuning lost", "fine-tuning gained 3.0 to 9.0 points", {"tuned_sites": TURNED}),
    ("findings/text3", "Every range reaches", "Some ranges reach", {"general_lows": dict(high=.1)}),
    ("findings/objections2", "cost at most a point", "cost something", {"averaged_disjoint_like": dict(worse=1)}),
    ("findings/objections6", "is lower than with averaged", "is higher than with averaged",
     {"sums_planted_averaged": dict(value=2., low=1., high=3.)}),
    ("report/generalizes", "so the statement is refuted", "On neither site do",
     {"outreg_refuted_on": dict(value=None)}),
])
def test_a_sentence_follows_from_its_numbers(cell, phrase, turned, changes):
    text = f'{{% include "{cell}" %}}'
    assert phrase in said(text) and turned not in said(text)
    assert turned in said(text, **changes) and phrase not in said(text, **changes)
