"The search finds what is asked first, in Node without a browser: the worker and the index are the site's own."
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import SITE

NODE = shutil.which("node")
INDEX = SITE / "search" / "search_index.json"
pytestmark = pytest.mark.skipif(not NODE, reason="there is no Node on the path")
FINDINGS, WHAT_TO_DO = "reports/FINDINGS.html", "diagnosis/check.html"
QUERIES = { # query -> the page that answers it, among the first two
    "keep my encoder from getting worse": WHAT_TO_DO,
    "my encoder got worse": WHAT_TO_DO,
    "does ITVReg work": FINDINGS,
    "does ARR work": FINDINGS,
    "does SCAN work": FINDINGS,
    "ranking loss MiniLM": "reports/studies/new_data.html",
    "which lambda": "reports/studies/strength.html",
    "averaged weights": WHAT_TO_DO,
    "my own files": "diagnosis/your_files.html",
    "cite": "citing.html",
    "add a method": "contributing.html",
    "how many pairs": "diagnosis/tests.html",
    "OutReg": "losses/regularized.html", # what nobody asks in a sentence is found by its title
}


@pytest.fixture(scope="module")
def hits():
    "Query -> the pages that it finds, the best first."
    worker, = (SITE / "assets/javascripts/workers").glob("search.*.js")
    command = [NODE, Path(__file__).with_name("search.js"), worker, INDEX, "what to do", "Table 3", "figure 1",
               *QUERIES]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_pages_that_stand_twice_or_are_replaced_are_not_searched():
    places = [section["location"] for section in json.loads(INDEX.read_text("utf-8"))["docs"]]
    assert places and not [place for place in places if place.startswith("papers/itvreg/")]


@pytest.mark.parametrize("query", ["Table 3", "figure 1"])
def test_a_table_is_found_by_its_number_in_each_paper(hits, query):
    kind, number = query.lower().split()
    assert {f"reports/{paper}/{kind}0{number}.html" for paper in ("itvreg", "arr", "scan")} == set(hits[query][:3])


def test_what_to_do_is_first(hits):
    assert hits["what to do"][0] == WHAT_TO_DO


@pytest.mark.parametrize("query", QUERIES)
def test_the_page_that_answers_is_among_the_first_two(hits, query):
    assert QUERIES[query] in hits[query][:2]
