"The summary that opens the page of claims: every row exists, every sentence rests on rows, and no sentence outlives them."
import pytest

from debias_nb.repro.frame import all_found
from debias_nb.repro.pages import all_cells
from debias_nb.repro.summary import compared, load_summary, render_summary, stands

@pytest.fixture(scope="module")
def committed(): return all_cells(), all_found()

def test_every_row_names_cells_that_some_configuration_makes(committed):
    for remedy in load_summary().rows.values():
        for column in (remedy.out, remedy.within):
            mine = {c.method for c in committed[0] if (c.paper, c.profile, c.table, c.encoder, c.column) == (remedy.paper, remedy.profile, remedy.table, remedy.encoder, column)}
            assert {remedy.method, remedy.against} <= mine, (remedy, column)

def test_every_row_is_of_use():
    summary = load_summary()
    used = {name for a in summary.advice for name in a.rests}
    assert {r.shift != "the same" or i > 0 for i, r in enumerate(summary.rows.values())} == {True} and len(used) >= len(summary.rows) - 3
    assert {r.paper for r in summary.rows.values()} == {"itvreg", "scan", "arr"}

def test_sentences_stand_and_fall_with_their_rows(committed):
    page, summary = render_summary(*committed), load_summary()
    readings = {name: tuple(compared(r, c, *committed)[1] for c in (r.out, r.within)) for name, r in summary.rows.items()}
    for a in summary.advice: assert (a.text in page) == stands(a, readings)
    assert any(a.text in page for a in summary.advice) and len(page.split("|")[0].split()) < 400, "half a page"
    opposite = {"gains": "loses", "loses": "gains", "level": "gains", "undecided": "gains", "not run": "not run"}
    turned = {k: tuple(map(opposite.get, v)) for k, v in readings.items()}
    for a in summary.advice: assert not stands(a, turned) or all(asked == "*, *" for asked in a.rests.values())
