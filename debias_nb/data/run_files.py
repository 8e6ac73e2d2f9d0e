"What a search found, in a run of TREC, in predictions of mteb 2 or of sentence-transformers, or in a dict: one frame."
import csv
import os
from io import StringIO
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd

from ..checks import ConfigError, nearest, quoted
from ..files import check_regular
from .judgments import as_id
from .registry import DataError, bad_lines
from .tables import decoded, ending, in_order, is_rows, json_values

Run: TypeAlias = str | os.PathLike | dict # as `read_run` takes it
MODELS = ("base", "tuned")
JSON = (".json", ".jsonl", ".ndjson")
TREC = ["query", "Q0", "document", "rank", "score", "tag"]
META = "mteb_model_meta" # stands beside the runs of mteb
OF_MTEB = "mteb writes {subset: {split: {query: {text: score}}}}"
WANTED = f"a run of TREC, or predictions of mteb or sentence-transformers, are expected; {OF_MTEB}, sentence-transformers query_id and results"


def _trec(path: Path) -> pd.DataFrame:
    text = StringIO(decoded(path))
    as_it_is = {"dtype": str, "quoting": csv.QUOTE_NONE, "keep_default_na": False, "skip_blank_lines": False}
    try:
        frame = pd.read_csv(text, sep=r"\s+", names=[*TREC, "more"], **as_it_is)
    except pd.errors.ParserError as e:
        raise DataError(f"{path}: {str(e).strip()}") from None
    frame = in_order(frame.fillna(""))
    frame = frame[frame["query"] != ""]
    wrong = (frame.tag == "") | (frame.more != "")
    if wrong.any():
        raise DataError(f"{path}:{wrong.idxmax()}: six cells are expected, as in a run of TREC: {', '.join(TREC)}")
    return frame


def _result_lists(name: str, lines: pd.Series) -> pd.DataFrame: # lines: of sentence-transformers, each with results, the best first
    rows = []
    for line, found in lines.items():
        query = found["query_id"]
        if not is_rows(found["results"]):
            raise DataError(f"{name}:{line}: results are expected, each with corpus_id and score, found {quoted(found['results'])}")
        rows += [(line, query, one.get("corpus_id"), rank, one.get("score")) for rank, one in enumerate(found["results"], 1)]
    return pd.DataFrame(rows, columns=["line", "query", "document", "rank", "score"]).set_index("line")


def _runs_in(given: dict, place: str = "") -> dict[str, dict]: # place in the dict -> query -> text -> score
    "The runs in dicts of dicts, however deep they are."
    inner = {key: value for key, value in given.items() if key != META and isinstance(value, dict)}
    if not any(isinstance(cell, dict) for value in inner.values() for cell in value.values()):
        return {place: inner}
    found = {}
    for key, value in inner.items():
        found |= _runs_in(value, f"{place}/{key}".strip("/"))
    return found


def _dict(name: str, given: dict) -> pd.DataFrame:
    runs = {place: run for place, run in _runs_in(given).items() if run}
    if len(runs) != 1:
        raise DataError(f"{name}: one run is expected, found {', '.join(map(quoted, runs)) or 'none'}; {OF_MTEB}")
    rows = [(query, query, text, score) for run in runs.values() for query, scores in run.items() for text, score in scores.items()]
    return pd.DataFrame(rows, columns=["line", "query", "document", "score"]).set_index("line")


def _rows(name: str, source: Path | dict) -> pd.DataFrame:
    if isinstance(source, dict):
        return _dict(name, source)
    if ending(source) not in JSON:
        return _trec(source)
    values = json_values(source, decoded(source))
    if values.map(lambda value: isinstance(value, dict) and {"query_id", "results"} <= value.keys()).all():
        return _result_lists(name, values)
    if len(values) == 1 and isinstance(values.iloc[0], dict):
        return _dict(name, values.iloc[0])
    raise DataError(f"{name}: {WANTED}")


def _check(name: str, frame: pd.DataFrame, wrong, told) -> None: # wrong: (rows,) booleans; told: a row -> what is wrong with it
    bad = [(line, told(row)) for line, row in frame[np.asarray(wrong, bool)].iterrows()]
    if bad:
        raise bad_lines(name, bad, len(frame))


def read_run(source: Run, name: str = "run") -> pd.DataFrame: # columns query, document, score; index: line, or the query of a dict
    """What was found for each query. Raises `DataError` naming file and line for what is no score, for a text that stands
    twice, and for scores that rise from rank to rank."""
    if not isinstance(source, dict):
        name, source = str(source), Path(source)
        check_regular(source, DataError)
        if not source.exists():
            raise DataError(f"{name}: no such file")
    frame = _rows(name, source)
    if frame.empty:
        raise DataError(f"{name}: nothing is ranked")
    read = frame.assign(**{column: frame[column].map({cell: as_id(cell) for cell in frame[column].unique()}) for column in ("query", "document")})
    read["score"] = pd.to_numeric(frame.score, errors="coerce").astype(float)
    _check(name, frame, read[["query", "document"]].isna().any(axis=1), lambda row: "ids of a query and a text are expected")
    _check(name, frame, ~np.isfinite(read.score), lambda row: f"a finite score is expected, found {quoted(row.score)}")
    twice = read.duplicated(["query", "document"])
    _check(name, read, twice, lambda row: f"query {row['query']!r} ranks text {row.document!r} twice")
    if "rank" in read:
        read["rank"] = pd.to_numeric(frame["rank"], errors="coerce")
        _check(name, frame, read["rank"].isna(), lambda row: f"a rank is expected, found {quoted(row['rank'])}")
        ranked = read.sort_values(["query", "rank"], kind="stable")
        rises = (ranked.score.diff() > 0) & (ranked["query"] == ranked["query"].shift())
        advice = "if scores are distances, write them with a minus sign"
        _check(name, ranked, rises, lambda row: f"rank {row['rank']:g} of query {row['query']!r} scores higher than the rank before; {advice}")
    return read[["query", "document", "score"]]


def named_runs(given: list[str]) -> dict: # of `base=FILE` or `base:TEST=FILE` -> as `diagnose` takes it
    "Raises `ConfigError` naming the option."
    found = {}
    for text in given:
        key, sign, path = text.partition("=")
        model, colon, test = key.partition(":")
        if not (sign and path) or colon and not test:
            raise ConfigError(f"--scores wants base=FILE and tuned=FILE, or base:TEST=FILE, got {text!r}")
        if model not in MODELS:
            raise ConfigError(f"--scores: no model is called {model!r}{nearest(model, MODELS)}")
        of_model = found.setdefault(model, {})
        if (test or None) in of_model:
            raise ConfigError(f"--scores {key} is given twice")
        of_model[test or None] = path
    return {model: runs[None] if [*runs] == [None] else runs for model, runs in found.items()}
