"How certain findings are, and what the advice on a diagnosis rests on: pages that take facts of both leaves."
from pathlib import Path

import pandas as pd
import pytest

from cells import defined_in, is_effect, tables_of
from test_links import texts

FACTS = defined_in("facts")


def grade_of(words, contradictions=0, is_announced=True, columns=("a", "b"), encoders=("x", "y"), replicates=8):
    "How certain a finding is whose tests have these words; the first ones that can tell contradict it."
    rows = [(word, column, encoder) for word in words for column in columns for encoder in encoders]
    tests = pd.DataFrame(rows, columns=["verdict", "column", "encoder"]).assign(table="shifts", replicates=replicates)
    contradicts = pd.Series(range(len(tests)), tests.index) < contradictions
    grade, gaps = FACTS.certainty(tests, (tests.verdict == "worse") & ~contradicts, against=contradicts,
                                     before=is_announced)
    assert bool(gaps) == (grade != "high")
    return grade


@pytest.mark.parametrize("certain, options", [
    ("high", {}), ("moderate", {"is_announced": False}), ("moderate", {"columns": ("a",)}),
    ("moderate", {"replicates": 4}), ("moderate", {"contradictions": 5}),
    ("low", {"is_announced": False, "columns": ("a",)}), ("low", {"columns": ("a",), "encoders": ("x",)}),
])
def test_certainty_follows_one_rule(certain, options):
    assert grade_of(["worse"] * 5, **options) == certain
    assert grade_of(["worse"] * 5 + ["cannot tell"] * 100,
                    **options) == certain, "small tests are no reason against large ones"
    assert grade_of(["worse"] + ["cannot tell"] * 100) == "low", "fewer than five can tell"


def test_results_of_what_to_do_are_those_of_their_estimates():
    page = "\n\n".join(texts(Path(__file__).parents[1] / "nbs/diagnosis/check.ipynb"))
    rows = [row for table in tables_of(page) for row in table if "result" in row]
    assert len(rows) == 20
    for row in rows:
        is_mixed = bool(int(row["better"]) and int(row["worse"]))
        word = row["result"].strip("*")
        assert is_mixed == (word == "depends")
        assert is_mixed or is_effect(word, row["estimate"]), row
