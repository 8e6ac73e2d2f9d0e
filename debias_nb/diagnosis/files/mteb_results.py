"Results of mteb: the main scores of one model, and what it is declared to be trained on."
from pathlib import Path

import pandas as pd

from ...data.registry import DataError
from ...data.tables import floats, json_values, read_text

TEST = "test" # the split that is read; all others where a task has none
META = "model_meta.json"
PREDICTIONS = "_predictions.json" # end of the names of files with what was ranked
KEY = ["task", "split", "subset", "revision"] # levels of the index: what must be the same in both folders


def read_results(folder: str | Path) -> pd.Series: # index: `KEY`; nan for what is no number
    "Read the main scores of one model: the folder of its files, or one above it. Raises `DataError` naming folder or file."
    paths = [path for path in sorted(Path(folder).rglob("*.json")) if not path.name.endswith((META, PREDICTIONS))]
    places = {str(path.parent) for path in paths}
    if len(places) != 1:
        names = ", ".join(sorted(places))
        raise DataError(f"{folder}: results of one model are expected, in one folder MODEL/REVISION of mteb; found {len(places)}: {names}")
    scores = {}
    for path in paths:
        values = json_values(path, read_text(path))
        try:
            content = values.iloc[0]
            splits = content.get("scores") or {} # the oldest files have none
            for split in splits.keys() & {TEST} or splits:
                for row in splits[split]:
                    scores[path.stem, split, row["hf_subset"], content["dataset_revision"]] = row["main_score"]
        except (LookupError, AttributeError, TypeError):
            expectation = "scores by split are expected, each with hf_subset and main_score"
            raise DataError(f"{path}: no result of mteb: {expectation}") from None
    return floats(pd.Series([*scores.values()], pd.MultiIndex.from_tuples([*scores], names=KEY), object))


def declared_sets(folder: str | Path) -> list[str]:
    "Return what a model is declared to be trained on, as mteb writes it next to its results."
    files = [json_values(path, read_text(path)).iloc[0] for path in Path(folder).rglob(META)]
    return [name for file in files for name in file.get("training_datasets") or ()]


def is_same_data(one: str, other: str) -> bool:
    "Return whether two names are of the same data: versions and translations begin with the name of their source."
    first, second = sorted([one.lower(), other.lower()])
    return second.startswith(first)
