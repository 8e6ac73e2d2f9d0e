"What a search found, in a run of TREC, a table, predictions of mteb 2 or of sentence-transformers, or in a dict: one frame."
import csv
import os
from io import StringIO
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd

from ..checks import ConfigError, check_known, quoted
from ..files import check_regular
from .columns import fold_name
from .judgments import as_id, refuse
from .registry import DataError
from .tables import decoded, ending, floats, in_order, is_rows, json_values, read_table

Run: TypeAlias = str | os.PathLike | dict # as `read_run` takes it
MODELS = ("base", "tuned")
JSON = (".json", ".jsonl", ".ndjson")
TREC = ["query", "Q0", "document", "rank", "score", "tag"]
COLUMNS = { # of a table, folded
    "query": ("query", "queryid", "qid"), "document": ("document", "documentid", "docid", "docno", "corpusid", "pid"), "score": ("score",),
    "rank": ("rank",)}
META = "mteb_model_meta" # stands next to the runs of mteb
WANTED = "one run is expected, as lines of TREC, as a table of query_id, doc_id and score, as {query: {text: score}}, or as query_id and results of sentence-transformers"


def _trec(path: Path) -> pd.DataFrame:
    as_it_is = {"dtype": str, "quoting": csv.QUOTE_NONE, "keep_default_na": False, "skip_blank_lines": False}
    try:
        frame = pd.read_csv(StringIO(decoded(path)), sep=r"\s+", names=[*TREC, "more"], **as_it_is)
    except pd.errors.ParserError as e:
        raise DataError(f"{path}: {str(e).strip()}") from None
    frame = in_order(frame.fillna(""))
    frame = frame[frame["query"] != ""]
    wrong = (frame.score == "") | (frame.more != "")
    refuse(str(path), frame, wrong, lambda row: f"five or six cells are expected, as in a run of TREC: {', '.join(TREC)}")
    return frame


def _table(path: Path) -> pd.DataFrame:
    "Read a run whose columns are named."
    frame = read_table(path)
    names = {name: role for name in frame for role, known in COLUMNS.items() if fold_name(str(name)) in known}
    if not {"query", "document", "score"} <= {*names.values()} or len({*names.values()}) < len(names):
        raise DataError(f"{path}: {WANTED}; found the columns {', '.join(map(quoted, frame))}")
    return frame[[*names]].rename(columns=names)


def _result_lists(name: str, lines: pd.Series) -> pd.DataFrame: # lines: of sentence-transformers, the best result first
    rows = []
    for line, found in lines.items():
        if not is_rows(found["results"]):
            raise DataError(f"{name}:{line}: results are expected, each with corpus_id and score, found {quoted(found['results'])}")
        query = found["query_id"]
        rows += [(line, query, one.get("corpus_id"), rank, one.get("score")) for rank, one in enumerate(found["results"], 1)]
    return pd.DataFrame(rows, columns=["line", "query", "document", "rank", "score"]).set_index("line")


def _runs_in(given: dict) -> list[dict]: # query -> text -> score
    "The runs in dicts of dicts, however deep they are."
    inner = {key: value for key, value in given.items() if key != META and isinstance(value, dict)}
    if not any(isinstance(cell, dict) for value in inner.values() for cell in value.values()):
        return [inner]
    return [run for value in inner.values() for run in _runs_in(value)]


def _rows(name: str, source: Path | dict) -> pd.DataFrame:
    if isinstance(source, Path):
        if ending(source) in (".csv", ".parquet"):
            return _table(source)
        if ending(source) not in JSON:
            return _trec(source)
        values = json_values(name, decoded(source))
        if values.map(lambda value: isinstance(value, dict) and {"query_id", "results"} <= value.keys()).all():
            return _result_lists(name, values)
        source = values.iloc[0] if len(values) == 1 else {}
    try:
        runs = _runs_in(source) if isinstance(source, dict) else []
    except RecursionError:
        runs = []
    if len(runs) != 1:
        raise DataError(f"{name}: {WANTED}; found {len(runs)}")
    rows = [(query, query, text, score) for query, scores in runs[0].items() for text, score in scores.items()]
    return pd.DataFrame(rows, columns=["line", "query", "document", "score"]).set_index("line")


@pd.option_context("mode.string_storage", "python") # as of `read_pairs_file`
def read_run(source: Run, name: str = "run") -> pd.DataFrame: # columns query, document, score; index: line, or the query of a dict
    """What was found for each query; where it has one score alone, by rank (the number of such queries is "by rank" of `attrs`).
    Raises `DataError` naming file and line for what is no score, for a text that stands twice, and for scores that rise from
    rank to rank."""
    if not isinstance(source, dict):
        name, source = str(source), Path(source)
        if not source.is_file():
            raise DataError(f"{name}: no such file")
        check_regular(source, DataError)
    frame = _rows(name, source)
    if frame.empty:
        raise DataError(f"{name}: nothing is ranked")
    read = frame.copy()
    for column in ("query", "document"):
        read[column] = frame[column].map(as_id)
    for column in {"score", "rank"} & {*frame}:
        read[column] = floats(frame[column])
        refuse(name, frame, ~np.isfinite(read[column]), lambda row, column=column: f"a finite {column} is expected, found {quoted(row[column])}")
    refuse(name, frame, read[["query", "document"]].isna().any(axis=1), lambda row: "ids of a query and a text are expected")
    refuse(name, read, read.duplicated(["query", "document"]), lambda row: f"query {row['query']!r} ranks text {row.document!r} twice")
    if "rank" in read:
        of_query = read.groupby("query")
        by_rank = (of_query.score.transform("nunique") == 1) & (of_query["rank"].transform("nunique") > 1)
        read.loc[by_rank, "score"] = -read["rank"]
        read.attrs["by rank"] = read["query"][by_rank].nunique()
        ranked = read.sort_values(["query", "rank"], kind="stable")
        rises = (ranked.score.diff() > 0) & (ranked["query"] == ranked["query"].shift())
        advice = "if scores are distances, write them with a minus sign"
        refuse(name, ranked, rises, lambda row: f"rank {row['rank']:g} of query {row['query']!r} scores higher than the rank before; {advice}")
    return read[["query", "document", "score"]]


def named_runs(given: list[str]) -> dict: # of `base=FILE` or `base:TEST=FILE` -> as `diagnose` takes it
    "Raises `ConfigError` naming the option."
    found = {}
    for text in given:
        key, _, path = text.partition("=")
        model, _, test = key.partition(":")
        check_known("--scores: model", model, MODELS, ConfigError)
        own = found.setdefault(model, {})
        if not path or test in own or "" in own or own and not test:
            raise ConfigError(f"--scores wants base=FILE and tuned=FILE, or base:TEST=FILE, each once, got {text!r}")
        own[test] = path
    return {model: runs.get("", runs) for model, runs in found.items()}
