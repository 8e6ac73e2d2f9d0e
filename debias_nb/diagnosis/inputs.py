"""Files by name, two models that fit each other, and the command that gives the same again."""
from dataclasses import replace

import numpy as np
import pandas as pd

from ..checks import EncoderError, quoted
from ..data.pairs import fold
from .pairs import PairFile, Source, read_named_files, reading_options
from ..data.registry import DataError
from ..data.texts import HeldTexts
from ..encoders.kinds import check_apart
from .models import Scorer, layers, limit, load_model, prompts_by_name
from .page import command_line, file_facts, versions
from .test_sets import Test


def read_files(
    train: Source | None, tests: dict, progress: bool = False,
) -> dict[str, PairFile]: # `train` first if there is one
    """Read all files of a door; in those but `train` mark copies of matches, and leave out pairs with both labels.

    Raise `DataError` also for names that are no names of files."""
    files = read_named_files(train, tests, progress=progress)
    return {name: file if name == "train" else without_contradictions(with_copies(file))
            for name, file in files.items()}


BOTH_LABELS = "pairs whose texts stand there with both labels"


def without_contradictions(file: PairFile) -> PairFile:
    "Leave out the labeled pairs whose two texts stand there with both labels."
    if file.form != "pairs":
        return file
    keys = pd.Series([tuple(sorted(pair)) for pair in zip(file.left, file.right)])
    is_doubtful = file.frame.label.reset_index(drop=True).groupby(keys).transform("nunique") > 1
    if not is_doubtful.any():
        return file
    frame = file.frame[~is_doubtful.to_numpy()].reset_index(drop=True)
    if frame.label.nunique() < 2:
        raise DataError(f"{file.name}: {is_doubtful.sum():,} {BOTH_LABELS}: without them there is one class alone")
    return replace(file, frame=frame, left_out=file.left_out | {BOTH_LABELS: int(is_doubtful.sum())})


def with_copies(file: PairFile) -> PairFile:
    """Mark in column `copy` what equals a match, or the left text of what is no match, except for case and spaces.

    Among candidates and in a corpus a copy of a match is relevant, too."""
    left, right = (pd.Series(map(fold, side), dtype=object) for side in (file.left, file.right))
    is_match = file.frame.label > 0
    of_match = is_match.groupby([left, right]).transform("any")
    frame = file.frame.assign(copy=~is_match & (of_match | (left == right)))
    if file.form == "candidates":
        frame["label"] = of_match.astype(int)
    elif file.form == "retrieval":
        texts = pd.DataFrame({"key": map(fold, file.corpus), "document": range(len(file.corpus)), "right": file.corpus,
                              "copy": True})
        copies = frame[frame.columns.difference(["document", "right", "copy"])].assign(key=right).merge(texts)
        frame = pd.concat([frame, copies[copies.document != copies.get("itself")].drop(columns="key")])
        frame = frame.drop_duplicates(["query", "document"]).sort_values("query", kind="stable", ignore_index=True)
    return replace(file, frame=frame)


def apart_of(tests: list[Test], train: PairFile | None) -> dict[str, np.ndarray]: # of tests that overlap with it
    "Mark the cases of each test that are disjoint from training."
    if train is None:
        return {}
    texts = set().union(*train.folded)
    disjoint = {test.name: test.disjoint_from(texts) for test in tests}
    return {name: rows for name, rows in disjoint.items() if not rows.all()}


def settings_of(scorer: Scorer) -> dict:
    "Name what decides, besides its weights, which vector a text gets."
    modules = layers(scorer)
    names = {"kind": scorer.kind, "tokenizer": scorer.rules[:8], "prompts": scorer.prefixes,
             "longest text": limit(scorer), "modules": [kind for kind, _ in modules]}
    return names | {f"{kind}, {key}": value for kind, config in modules for key, value in config.items()}


def setting_differences(base: Scorer, tuned: Scorer) -> str: # "" where none differs
    "Say in which settings two models of one kind differ; tokenizers have a note of their own."
    base_settings, tuned_settings = settings_of(base), settings_of(tuned)
    keys = [key for key in base_settings | tuned_settings if base_settings.get(key) != tuned_settings.get(key)
            and key != "tokenizer"]
    if base.kind != tuned.kind or not keys:
        return ""
    values = "; ".join(f"{key}: {quoted(base_settings.get(key))} before, {quoted(tuned_settings.get(key))} after"
                       for key in keys)
    return f" The two models differ in settings, and a part of each change may come from that ({values})."


def load_pair(base, tuned, prompts: tuple[str, str] | None = None) -> dict[str, Scorer]: # what `load_model` takes
    """Load both models.

    Raise `EncoderError` for the same model twice, `ValueError` where one computes with the weights of the other."""
    models = load_model(base), load_model(tuned)
    names = {name for scorer in models for name in getattr(scorer.model, "prompts", None) or {}}
    base_scorer, tuned_scorer = (with_prompts(scorer, prompts, names) for scorer in models)
    check_apart(base_scorer.model, tuned_scorer.model)
    same_weights = base_scorer.kind == tuned_scorer.kind and base_scorer.fingerprint == tuned_scorer.fingerprint
    if same_weights and settings_of(base_scorer) == settings_of(tuned_scorer):
        raise EncoderError(
            f"base ({base_scorer.name}) and tuned ({tuned_scorer.name}) are the same model: fine-tuning changed "
            "nothing, or one of the names is wrong")
    return {"base": base_scorer, "tuned": tuned_scorer}


def with_prompts(scorer: Scorer, prompts: tuple[str, str] | None, names=()) -> Scorer: # None: those of its settings
    "Let a model read left and right texts behind other prompts, as of `prompts_by_name`."
    if prompts is None:
        return scorer
    return replace(scorer, prompts=prompts_by_name(scorer.model, prompts, names))


def made_of(
    command: str,                 # of `debias-nb`
    scorers: dict,                # a `Scorer` each
    files: dict[str, PairFile],   # tests, `train` where it is given, and others
    tests,                        # names of those that are tests
    options: dict,                # further ones of the command
    details: dict,                # what else went in
    texts: HeldTexts | None = None, # without labels
) -> dict:
    "Describe what went in, and the command that repeats it if nothing is in memory alone."
    sources = {name: scorer.source for name, scorer in scorers.items()}
    train = files["train"].path if "train" in files else None
    reading = reading_options(files)
    inputs = {"train": train, "test": {name: files[name].path for name in tests}, **options, **(reading or {}),
              "texts": texts and texts.path}
    paths = [*sources.values(), *(file.path for file in files.values())]
    if texts is not None:
        paths.append(texts.path)
    command_again = None
    if None not in paths and reading is not None:
        command_again = command_line(command, sources | inputs)
    return {
        "files": {name: file_facts(file) for name, file in files.items()},
        "models": {name: scorer.facts() for name, scorer in scorers.items()},
        **details,
        "texts": texts and texts.facts(),
        "versions": versions(),
        "command": command_again,
    }
