"""Tables of pairs to label, and the file next to each that records how its pairs were sampled.

A row of the table has two texts, an empty label and an id. Nothing in it tells a score: who sees one is led."""
import csv
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ...files import check_regular, fingerprint
from ...data.pairs import fold
from ...data.registry import DataError
from ...data.tables import check
from .forms import ROW_ID

FORMULA = ("=", "+", "-", "@", "\t", "\r") # what begins one in a spreadsheet


@dataclass(frozen=True, eq=False)
class Sample:
    "Labeled rows of a sample, and the pool that they were sampled from."
    metadata: dict          # as of `sample_files`
    cases: pd.DataFrame  # of each row with a label, by its line: `stratum`, and `query` where queries are drawn
    left_out: dict[str, int] # rows without a label, in words -> how many

    @property
    def sizes(self) -> np.ndarray: # (strata,)
        "Pairs of the pool in each stratum; one stratum of the queries whose first texts differ."
        return np.array(self.metadata["strata"])

    @property
    def counts(self) -> np.ndarray: # (strata,)
        "Rows with a label."
        return np.bincount(self.cases.stratum, minlength=len(self.sizes))

    @property
    def description(self) -> str:
        if "query" in self.cases:
            return f"{self.cases['query'].nunique():,} queries out of {self.sizes.sum():,} whose first texts differ"
        return f"{len(self.cases):,} labels out of a pool of {self.sizes.sum():,} pairs"

    @property
    def differing(self) -> float: # in (0, 1]
        "Fraction of the pool that is drawn from; the rest is the same under both models."
        return float(self.sizes.sum() / self.metadata["size"])


def sidecar_of(path: str | Path) -> Path:
    "Return the path of the file that records how a table was sampled."
    return Path(f"{path}.sample.json")


LETTER = "x" # before the digits of an id, so that no program reads a number


def _ids(metadata: dict, pairs: pd.DataFrame) -> list[str]:
    "Return what rows are known by: their sample and their texts, whatever case and spaces."
    return [LETTER + fingerprint([metadata, fold(left), fold(right)])[:12]
            for left, right in zip(pairs.left, pairs.right)]


def marked(text: str) -> str:
    "Put an apostrophe before what a spreadsheet would take for a formula, or what looks like one so marked."
    return f"'{text}" if text[:1] in FORMULA or text[:1] == "'" and text[1:2] in (*FORMULA, "'") else text


def unmarked(text: str) -> str:
    "Take the apostrophe of `marked` away, where there is one."
    return text[1:] if text[:1] == "'" and text[1:2] in (*FORMULA, "'") else text


def sample_files(
    path: Path,          # of the table
    # `left`, `right`, `stratum` and, where queries are drawn, `query`, in the order in which they are labeled
    pairs: pd.DataFrame,
    metadata: dict, # `size` of the pool, `strata` (sizes), `looks`, and whatever else tells one sample from another
) -> dict[Path, str]:
    "Write a table to label, and a record of how it was sampled."
    ids = _ids(metadata, pairs)
    table = pairs[["left", "right"]].map(marked).assign(label="", **{ROW_ID: ids})
    content = metadata | {"rows": pairs.drop(columns=["left", "right"]).set_axis(ids).to_dict("index")}
    sidecar = json.dumps(content | {"sha256": fingerprint(content)}, indent=1, ensure_ascii=False)
    has_return = pairs[["left", "right"]].map(lambda text: "\r" in text).any(axis=None)
    quoting = csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL
    return {sidecar_of(path): sidecar, path: table.to_csv(index=False, quoting=quoting)}


def _read_sidecar(path: str) -> dict:
    file = sidecar_of(path)
    with suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
        check_regular(file, DataError)
        content = json.loads(file.read_text("utf-8"))
        if content.pop("sha256", None) == fingerprint(content):
            return content
    problem = "was changed" if file.exists() else "is not there"
    raise DataError(f"{path}: `debias-nb label` wrote {file} next to it, which says what a label stands for, and it "
                    f"{problem}")


def read_sample(path: str, table: pd.DataFrame) -> Sample: # table: `left`, `right`, `label` and `ROW_ID`, as texts
    """Read which rows of a table have a label; rows may stand in another order.

    Raise `DataError` naming the line of a row that is not as it was drawn, for a file next to it that is missing or was
    changed, and where there is no label yet."""
    metadata = _read_sidecar(path)
    rows = pd.DataFrame.from_dict(metadata.pop("rows"), "index")
    ids = table[ROW_ID]
    expected = pd.Series(_ids(metadata, table), table.index)
    # of tables that were written before ids had a letter
    expected = expected.where(expected.isin(rows.index), expected.str.removeprefix(LETTER))
    is_drawn = ids.isin(rows.index) & ~ids.duplicated() & (ids == expected)
    check(path, ids, is_drawn, "a row as it was drawn is expected, once and with its two texts")
    cases = rows.loc[ids].set_axis(table.index)
    has_label = table.label.str.strip() != ""
    if "query" in cases: # one counts when it is labeled to its end
        labels = has_label.groupby(cases["query"]).sum()
        has_label &= cases["query"].map(labels.eq(rows["query"].value_counts()))
    if not has_label.any():
        raise DataError(f"{path}: no label yet; write 1 (match) or 0 into the column label, from the top, of queries "
                        "to the end of one")
    cases = cases[has_label]
    if "query" in cases:
        cases = cases.assign(query=pd.factorize(cases["query"])[0])
    last = rows.index.get_indexer(ids[has_label]).max() + 1
    count = int(has_label.sum())
    left_out = {"rows without a label": len(rows) - count, "rows above the last label without one": int(last - count)}
    return Sample(metadata, cases, {reason: number for reason, number in left_out.items() if number})
