"Facts: how they look, that the file has all of them, and that sentences follow from them."
import json
from dataclasses import replace
from pathlib import Path

import jinja2
import pandas as pd
import pytest

from debias_nb.papers.pages.facts import Fact, Facts

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


def said(text, **changes):
    "Render a text where some facts have other values: a dict of these each."
    facts = Facts(FACTS.values())
    facts |= {name: replace(FACTS[name], **other) for name, other in changes.items()}
    return facts.render(text)


def head(number):
    return f'{{% from "findings/heads" import head{number} %}}{{{{ head{number} }}}}'


