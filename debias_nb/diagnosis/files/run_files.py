"Runs of a search as one frame: lines of TREC, a table, predictions of mteb 2 or of sentence-transformers, or a dict."
import csv
import os
import re
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from ...checks import ConfigError, check_known, quoted
from ...files import check_regular
from .forms import MODELS, fold_name
from .judgments import as_id
from ...data.registry import DataError
from ...data.tables import ending, finite, in_order, is_rows, json_values, named_values, read_table, read_text, refuse

Run: TypeAlias = str | os.PathLike | dict # as `read_run` takes it
JSON = (".json", ".jsonl", ".ndjson")
TREC = ["query", "Q0", "document", "rank", "score", "tag"]
FOLDED_COLUMNS = { # names of a table, folded
    "query": ("query", "queryid", "qid"), "document": ("document", "documentid", "docid", "docno", "corpusid", "pid"),
    "score": ("score",),
    "rank": ("rank",)}
META = "mteb_model_meta" # stands next to the runs of mteb
ONE_RUN = ("one run is expected, as lines of TREC, as a table of query_id, doc_id and score, as {query: {text: "
           "score}}, or as query_id and results of sentence-transformers")


HITS = ( # what an index of Lucene answers
    "answers of Elasticsearch or OpenSearch, which do not name their queries. With the list queries of their ids, a "
    "line each, this makes a run of them: import json, pandas; pandas.DataFrame([[query, hit['_id'], hit['_score']] "
    "for query, line in zip(queries, open({})) for hit in json.loads(line)['hits']['hits']], "
    "columns=['query_id', 'doc_id', 'score']).to_csv('run.csv', index=False)")
BY_QUERY = re.compile(r"(map|gm_map|Rprec|bpref|recip_rank|num_\w+|P|recall|ndcg\w*|iprec\w*|map_cut|success|set_\w+|"
                      r"runid|infAP|relstring)(_.*)?") # names of trec_eval


def _read_trec(path: Path) -> pd.DataFrame:
    as_it_is = {"dtype": str, "quoting": csv.QUOTE_NONE, "keep_default_na": False, "skip_blank_lines": False}
    try:
        frame = pd.read_csv(StringIO(read_text(path)), sep=r"\s+", names=[*TREC, "more"], **as_it_is)
    except pd.errors.ParserError as e:
        raise DataError(f"{path}: {str(e).strip()}") from None
    frame = in_order(frame.fillna(""))
    frame = frame[frame["query"] != ""]
    wrong = (frame.score == "") | (frame.more != "")
    if len(frame) and (frame["rank"] == "").all() and frame["query"].str.fullmatch(BY_QUERY).all():
        raise DataError(f"{path}: values of metrics, as trec_eval writes them, and no run: give the file that it has "
                        "read")
    advice = ""
    if wrong.all() and frame.document.str.fullmatch(r"-?\d+").any():
        advice = (". Lines of query, text and rank, as ColBERT writes them, are read with a header: name the file .csv "
                  "and its columns query_id, doc_id, rank and score")
    refuse(path, frame, wrong, lambda row: f"five or six cells are expected, as in a run of TREC: {', '.join(TREC)}",
           advice)
    return frame


def _read_columns(path: Path) -> pd.DataFrame:
    "Read a run whose columns are named."
    frame = read_table(path)
    names = {column: role for column in frame for role, folded_names in FOLDED_COLUMNS.items()
             if fold_name(column) in folded_names}
    if not {"query", "document", "score"} <= {*names.values()} or len({*names.values()}) < len(names):
        raise DataError(f"{path}: {ONE_RUN}; found the columns {', '.join(map(quoted, frame))}")
    return frame[[*names]].rename(columns=names)


def _result_lists(name: str, lines: pd.Series) -> pd.DataFrame: # lines: of sentence-transformers, the best result first
    results = lines.map(lambda line: line["results"])
    refuse(name, results, ~results.map(is_rows), lambda cell: "results are expected, each with corpus_id and score, "
                                                              f"found {quoted(cell)}")
    rows = [
        (line, row["query_id"], result.get("corpus_id"), rank, result.get("score"))
        for line, row in lines.items() for rank, result in enumerate(row["results"], 1)]
    return pd.DataFrame(rows, columns=["line", "query", "document", "rank", "score"], dtype=object).set_index("line")


def _runs_in(content) -> list[dict]: # query -> text -> score
    "Return the runs in dicts of dicts, however deep they are."
    inner = {key: value for key, value in content.items() if key != META and isinstance(value, dict)}
    if not any(isinstance(cell, dict) for value in inner.values() for cell in value.values()):
        return [inner]
    return [run for value in inner.values() for run in _runs_in(value)]


def _of_dict(name: str, content) -> pd.DataFrame:
    "Return the one run of a dict. Raises `DataError` for none, and for several."
    runs = []
    with suppress(RecursionError):
        runs = _runs_in(content) if isinstance(content, dict) else []
    if isinstance(content, dict) and content and all(isinstance(texts, list) for texts in content.values()):
        raise DataError(f"{name}: ids of texts without scores; write ranks as scores, as in {{query: {{text: -rank}}}}")
    if len(runs) != 1:
        raise DataError(f"{name}: {ONE_RUN}; found {len(runs)}")
    rows = [(query, query, text, score) for query, scores in runs[0].items() for text, score in scores.items()]
    return pd.DataFrame(rows, columns=["line", "query", "document", "score"], dtype=object).set_index("line")


def _read_file(path: Path) -> pd.DataFrame:
    check_regular(path, DataError)
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if ending(path) in (".csv", ".parquet"):
        return _read_columns(path)
    if ending(path) not in JSON:
        return _read_trec(path)
    values = json_values(path, read_text(path))
    if values.map(lambda value: isinstance(value, dict) and {"query_id", "results"} <= value.keys()).all():
        return _result_lists(str(path), values)
    if len(values) and all(isinstance(value, dict) and isinstance(value.get("hits"), dict) for value in values):
        raise DataError(f"{path}: {HITS.format(repr(str(path)))}")
    return _of_dict(str(path), values.iloc[0] if len(values) == 1 else None)


@pd.option_context("mode.string_storage", "python") # as of `read_pairs_file`
def read_run(
    source: Run,
    name: str = "run",
) -> pd.DataFrame: # columns query, document, score; index: line, or the query of a dict
    """Read what was ranked for each query; where it has one score alone, by rank.

    `attrs` has the number of such queries, "by rank". Raises `DataError` naming file and line for what is no score, for
    a text that is ranked twice, and for scores that rise from rank to rank."""
    if isinstance(source, dict):
        frame = _of_dict(name, source)
    else:
        name, frame = str(source), _read_file(Path(source))
    if frame.empty:
        raise DataError(f"{name}: nothing is ranked")
    run = frame.assign(query=frame["query"].map(as_id), document=frame.document.map(as_id))
    for column in {"score", "rank"} & {*frame}:
        run[column] = finite(name, frame[column], f"a finite {column} is expected")
    refuse(name, run, run[["query", "document"]].isna().any(axis=1),
           lambda row: "ids of a query and a text are expected")
    refuse(name, run, run.duplicated(["query", "document"]),
           lambda row: f"query {row['query']!r} ranks text {row.document!r} twice")
    if "rank" in run:
        run = _by_rank(name, run)
    return run[["query", "document", "score"]]


def _by_rank(name: str, run: pd.DataFrame) -> pd.DataFrame:
    """Order the texts of queries with one score alone by their ranks.

    Raises `DataError` for scores that rise from rank to rank."""
    of_query = run.groupby("query")
    is_flat = (of_query.score.transform("nunique") == 1) & (of_query["rank"].transform("nunique") > 1)
    run["score"] = run.score.where(~is_flat, -run["rank"])
    run.attrs["by rank"] = run["query"][is_flat].nunique()
    by_rank = run.sort_values(["query", "rank"], kind="stable")
    rises = (by_rank.score.diff() > 0) & (by_rank["query"] == by_rank["query"].shift())
    advice = "if scores are distances, write them with a minus sign"
    refuse(name, by_rank, rises, lambda row: f"rank {row['rank']:g} of query {row['query']!r} scores higher than the "
                                             f"rank before; {advice}")
    return run


def named_runs(arguments: list[str]) -> dict: # of `base=FILE` or `base:TEST=FILE`
    "Return runs as `diagnose` takes them. Raises `ConfigError` naming the option."
    runs = {}
    for key, path in named_values("--scores", arguments, "base=FILE and tuned=FILE, or base:TEST=FILE").items():
        model, _, test = key.partition(":")
        check_known("--scores: model", model, MODELS, ConfigError)
        by_test = runs.setdefault(model, {})
        by_test[test] = path
        if len(by_test) > 1 and "" in by_test:
            raise ConfigError(f"--scores takes a run for all tests, or one for each, each once, got '{key}={path}'")
    return {model: by_test.get("", by_test) for model, by_test in runs.items()}
