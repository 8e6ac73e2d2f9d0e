"""The numbers of the papers: that all are there and as printed, which are blank, doubtful or quoted.
What the papers' texts say of them is recomputed by the claims and errata."""
import json
from hashlib import sha256

import pytest

from debias_nb.papers.pages.printed import load_expected

# of each table: sums of all values and of all spreads were compared with sums added up from the papers' own lines
CHECKSUMS = {
    "itvreg": {
        "table1": "5784eb91", "table2": "46fabd90", "table3": "a2cf231c", "table4": "7cf22aa6", "table5": "673c9262",
        "table6": "bddee612", "table7": "28f55fc3", "table8": "843d7a72", "table11": "eac3b098",
        "table12": "f6c742e9", "table13": "44976ecd", "table14": "ee12c94d", "table15": "4ef8e226",
        "table16": "463a5f20", "table17": "71fa57d4"},
    "arr": {
        "table1": "6abfd1fd", "table2": "c4c365df", "table3": "1fc4827a"},
    "scan": {
        "table1": "75c6116a", "table2": "10e39d29", "table3": "c3a9e4d5", "table4": "636f1458", "table5": "7a28809d",
        "table6": "230e469b"},
}


def checksum(table):
    "The hash of what a table prints, how, and which of it is marked."
    cells = [cell.model_dump(exclude={"note"}) for cell in table.cells]
    text = json.dumps([table.unit, table.decimals, cells], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:8]


@pytest.mark.parametrize("paper", CHECKSUMS)
def test_every_cell_is_there_as_printed(paper):
    "A digit mistyped later changes a checksum."
    tables = load_expected(paper).tables
    assert {name: checksum(table) for name, table in tables.items()} == CHECKSUMS[paper]
    for name, table in tables.items():
        places = {(*cell.row.items(), cell.column) for cell in table.cells}
        rows, columns = {tuple(cell.row.items()) for cell in table.cells}, {cell.column for cell in table.cells}
        assert len(table.cells) == len(places) == len(rows) * len(columns), name
        assert [cell for cell in table.cells if (cell.doubtful or cell.value is None) and not cell.note] == []
