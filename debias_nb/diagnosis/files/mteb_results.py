"Results of mteb: the main scores of one model, and what it is declared to be trained on."
from pathlib import Path

import pandas as pd

from ...checks import quoted
from ...data.registry import DataError
from ...data.tables import floats, json_values, read_text

TEST = "test" # the split that is read; all others where a task has none
MODEL_FILE = "model_meta.json"
PREDICTIONS = "_predictions.json" # end of the names of files with what was ranked
KEY = ["task", "split", "subset", "revision"] # levels of the index: what must be the same in both folders
UNKNOWN_REVISION = "" # revision of data whose version nobody noted
NO_REVISION = {"", "no_revision_available", "unknown", "none", "null"}


def read_results(folder: str | Path) -> pd.Series: # index: `KEY`; nan for what is no number
    """Read the main scores of one model: the folder of its files, or one above it.

    Raises `DataError` naming folder or file."""
    paths = [path for path in sorted(Path(folder).rglob("*.json")) if not path.name.endswith((MODEL_FILE, PREDICTIONS))]
    places = {str(path.parent) for path in paths}
    if len(places) != 1:
        listing = f": {', '.join(sorted(places))}" if places else _files_found(Path(folder))
        raise DataError(f"{folder}: results of one model are expected, in one folder MODEL/REVISION of mteb; found "
                        f"{len(places)}{listing}")
    scores = {}
    for path in paths:
        content = _only_value(path)
        try:
            splits = content.get("scores") or {} # the oldest files have none
            for split in splits.keys() & {TEST} or splits:
                for row in splits[split]:
                    revision = str(content["dataset_revision"] or UNKNOWN_REVISION)
                    known_revision = UNKNOWN_REVISION if revision.lower() in NO_REVISION else revision
                    key = path.stem, split, row["hf_subset"], known_revision
                    score = row["main_score"]
                    if scores.setdefault(key, score) is not score and scores[key] != score:
                        raise DataError(f"{path}: {split} has two scores of the subset {row['hf_subset']!r}, "
                                        f"{scores[key]} and {score}")
                    if isinstance(score, str) or isinstance(score, (int, float)) and abs(score) > 1:
                        raise DataError(f"{path}: a main score is a number, a fraction from -1 to 1, found "
                                        f"{quoted(score)} ({split}, {row['hf_subset']}); write percent as fractions, "
                                        "without quotation marks")
        except (LookupError, AttributeError, TypeError):
            expectation = "scores by split are expected, each with hf_subset and main_score"
            old = ("; it is a result of mteb 1, evaluate again with mteb 2"
                   if isinstance(content, dict) and "mteb_dataset_name" in content else "")
            raise DataError(f"{path}: no result of mteb: {expectation}{old}") from None
    return floats(pd.Series([*scores.values()], pd.MultiIndex.from_tuples([*scores], names=KEY), object))


def _only_value(path: Path):
    "Return the value of a file of JSON. Raise `DataError` for several."
    values = json_values(path, read_text(path))
    if len(values) != 1:
        raise DataError(f"{path}: one object is expected, found {len(values):,}")
    return values.iloc[0]


def _files_found(folder: Path) -> str:
    "Say what a folder without results holds."
    names = sorted(path.name for path in folder.rglob("*") if path.is_file())
    if any(name.endswith(".csv") for name in names):
        return (f"; {names[0]} and {len(names) - 1} other files are there. What an evaluator of sentence-transformers "
                "writes as CSV has no scores by task")
    return f"; {len(names)} files are there, such as {names[0]}" if names else "; no file is there"


def with_known_revisions(
    scores: dict[str, pd.Series], # of `read_results`, by folder
) -> tuple[pd.DataFrame, int]: # one column per folder, and how many were matched so
    "Put the scores of two folders side by side; an unknown version of the data is the other's, if it has just one."
    count = 0
    named = {}
    for name, table in scores.items():
        rival_keys = pd.concat([rival for key, rival in scores.items() if key != name]).index.to_frame(index=False)
        rival_keys = rival_keys[rival_keys.revision != UNKNOWN_REVISION].drop_duplicates()
        revisions_by_key = rival_keys.groupby(KEY[:3]).revision.agg(list).to_dict()
        keys = []
        for key in table.index:
            revisions = revisions_by_key.get(key[:3], [])
            is_lone = len(revisions) == 1 and (*key[:3], revisions[0]) not in table.index
            is_taken = key[3] == UNKNOWN_REVISION and is_lone
            count += is_taken
            keys.append((*key[:3], revisions[0]) if is_taken else key)
        named[name] = table.set_axis(pd.MultiIndex.from_tuples(keys, names=KEY))
    return pd.concat(named, axis=1), count


def names_in(names: list[str]) -> list[str]:
    "Strip names, and drop empty ones."
    return [name.strip() for name in names if name.strip()]


def declared_sets(folder: str | Path) -> list[str]:
    """Return what a model is declared to be trained on, as mteb writes it next to its results.

    Raises `DataError` for what are no names."""
    sets = []
    for path in Path(folder).rglob(MODEL_FILE):
        content = _only_value(path)
        declared = isinstance(content, dict) and (content.get("training_datasets") or [])
        if not isinstance(declared, (list, dict)) or not all(isinstance(name, str) for name in declared):
            raise DataError(f"{path}: an object is expected, whose training_datasets are a list of names, or an object "
                            "by names")
        sets += names_in([*declared])
    return sets


def is_same_data(left: str, right: str) -> bool:
    "Return whether two names are of the same data: versions and translations begin with the name of their source."
    first, second = sorted([left.lower(), right.lower()])
    return second.startswith(first)
