"Scores that were given in place of models, as tests take them: runs of a search, or two columns of a table of pairs."
import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..checks import ConfigError, check_known, quoted
from ..data.judgments import tolerated
from ..data.pairs_file import PairFile, Source, read_pairs_file
from ..data.registry import DataError
from ..data.run_files import MODELS, Run, read_run
from ..data.tables import check, floats
from ..files import fingerprint, sha256_file
from .test_sets import RetrievalTest, Test
from ..measures.rankings import NOWHERE, Levels, candidate_levels

NO_WEIGHTS = "Scores were given, not models: words, averaged weights and what models do not read need the weights (--base and --tuned), and are left out."


@dataclass(frozen=True)
class Given:
    "Where the scores of one model are."
    runs: dict[str, Run]    # of tests of retrieval
    names: dict[str, str]   # of these, and the columns of tests of pairs
    source: list[str] | None # as the command takes the runs; None: one is in memory

    def facts(self) -> dict: # as of a `Scorer`
        hashes = [fingerprint(run) if isinstance(run, dict) else sha256_file(run) for run in self.runs.values()]
        named = ", ".join(dict.fromkeys(self.names.values()))
        return {"name": named, "kind": "scores", "fingerprint": fingerprint(hashes), "prompt": "", "source": self.source}


def given_scores(scores: dict | None, files: dict[str, PairFile]) -> dict[str, Given]: # scores: of each model a run, or runs by test
    "Find where the scores of each model are. Raises `ConfigError` for what is missing, or has no use."
    searched = [name for name, file in files.items() if file.form == "retrieval"]
    for name, file in files.items():
        if name in searched and file.ids is None:
            raise ConfigError(f"{name}: a folder with queries, corpus and qrels is expected, whose ids a run can name")
        if name not in searched and file.scores is None:
            raise ConfigError(f"{name}: two models are expected, or labeled pairs with two columns of scores: --columns left,right,label,base,tuned")
    for model in scores or {}:
        check_known("model of scores", model, MODELS, ConfigError)
    if scores and not searched:
        columns = ", ".join(column for file in files.values() for column in file.scores)
        raise ConfigError(f"scores: a run is for a test with queries, corpus and qrels; the scores of pairs are their columns {columns}")
    found = {}
    for place, model in enumerate(MODELS):
        own = (scores or {}).get(model)
        by_test = isinstance(own, dict) and (own.keys() <= files.keys() or any(isinstance(run, (str, os.PathLike)) for run in own.values()))
        runs = own if by_test else dict.fromkeys(searched, own)
        for name in runs:
            check_known("test with queries, corpus and qrels that is called", name, searched, ConfigError)
        lacking = [name for name in searched if runs.get(name) is None]
        if lacking:
            raise ConfigError(f"{lacking[0]}: two models are expected, or a run of each: --scores {model}=FILE, or {model}:{lacking[0]}=FILE")
        in_memory = any(isinstance(run, dict) for run in runs.values())
        options = dict.fromkeys(f"{model}:{name}={run}" if by_test else f"{model}={run}" for name, run in runs.items())
        names = {name: f"a run of the {model} model" if isinstance(run, dict) else str(run) for name, run in runs.items()}
        names |= {name: file.scores[place] for name, file in files.items() if file.scores}
        found[model] = Given(runs, names, None if in_memory else [*options])
    return found


def score_pairs(
    test: Source, scorers: dict[str, Callable[[list[str], list[str]], ArrayLike]], columns: tuple[str, ...] | None = None, *,
    match: str | None = None, match_from: float | None = None, other_to: float | None = None,
) -> PairFile:
    """Score a test with any two functions, such as cross-encoders or APIs, as `diagnose` takes it.

    Parameters
    ----------
    test : str, Path, table or PairFile
        Labeled pairs, or queries with candidates, in any form that `read_pairs_file` takes.
    scorers : dict of callable
        `base` and `tuned`: each takes two lists of n texts, left and right, and returns n finite scores; the higher, the more
        likely a match. Only their order counts, so the two may have different scales.
    columns, match, match_from, other_to : optional
        As in `diagnose`.

    Returns
    -------
    PairFile
        The test with its scores, as one of the `tests` of `diagnose`.

    Raises
    ------
    ConfigError
        For other names than `base` and `tuned`.
    DataError
        For a test that cannot be read or searches a corpus, and for what is not one finite score a pair.

    Examples
    --------
    >>> from debias_nb import diagnose, score_pairs
    >>> from debias_nb.explain.demo import offers
    >>> def equal_words(left, right):
    ...     return [len({*one.split()} & {*other.split()}) for one, other in zip(left, right)]
    >>> def equal_letters(left, right):
    ...     return [len({*one} & {*other}) for one, other in zip(left, right)]
    >>> test = score_pairs(offers(300, 1, .2, .4), {"base": equal_words, "tuned": equal_letters})
    >>> diagnose(tests={"new": test}, progress=False).verdicts.verdict.tolist()
    ['worse', 'worse']
    """
    if {*scorers} != {*MODELS}:
        raise ConfigError(f"scorers: functions called {' and '.join(MODELS)} are expected, got {', '.join(map(quoted, scorers))}")
    file = read_pairs_file(test, columns, match=match, match_from=match_from, other_to=other_to)
    if file.form == "retrieval":
        raise DataError(f"{file.name}: a corpus is searched; give the run of a search (scores={{'base': RUN, 'tuned': RUN}})")
    frame = file.frame.copy()
    for model, score in scorers.items():
        cells = pd.Series([*score(file.left, file.right)], dtype=object, name=model)
        if len(cells) != len(file):
            raise DataError(f"{file.name}: {model} gives {len(cells):,} scores for {len(file):,} pairs of texts")
        frame[model] = floats(cells)
        check(file.name, cells.set_axis(file.frame.line), np.isfinite(frame[model]), "a finite score is expected")
    return replace(file, frame=frame, path=None, scores=MODELS)


def _placed(test: RetrievalTest, run: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[str]]: # query, document, score by place
    "What a run ranks for the queries of a test, a text that is not in the corpus at no place, and what to know of the rest."
    queries = test.file.frame.drop_duplicates("query")
    query = pd.Index(queries.query_id).get_indexer(run["query"])
    known = run[query >= 0]
    if known.empty:
        raise DataError(f"{name}:{run.index[0]}: query {run['query'].iloc[0]!r} is not in {test.name}, and no other of the run is")
    placed = pd.DataFrame({"query": query[query >= 0], "document": test.file.ids.get_indexer(known.document), "score": known.score.to_numpy()})
    outside = np.flatnonzero(placed.document < 0)
    if len(outside) > tolerated(len(placed)):
        row = known.iloc[outside[0]]
        raise DataError(f"{name}:{row.name}: text {row.document!r} is not in the corpus of {test.name}; {len(outside):,} of {len(known):,} are not")
    counts = {"texts that {} ranks are not in the corpus": len(outside),
              "queries of {} have no relevant text there, and are left out": run["query"][query < 0].nunique()}
    if "itself" in queries: # which no search by weights ranks either
        itself = queries["itself"].to_numpy()[placed["query"]]
        placed = placed[(itself < 0) | (placed.document != itself)]
    return placed, [f"{test.name}: {count:,} {what.format(name)}." for what, count in counts.items() if count]


def _levels(test: RetrievalTest, placed: pd.DataFrame) -> Levels:
    "Where the relevant texts of each query stand in a run; those that are not ranked stand nowhere."
    relevant = test.file.frame[["query", "document", "label"]]
    rows = placed.merge(relevant, "outer", ["query", "document"])
    found = candidate_levels(rows["query"].to_numpy(), rows.label.fillna(0).to_numpy(), rows.score.fillna(-np.inf).to_numpy())
    best = placed.sort_values("score", ascending=False, kind="stable").drop_duplicates("query").set_index("query").document
    first = best.reindex(range(len(test.cases)), fill_value=-1).to_numpy()
    return replace(found, first=first[:, None])


def _depths(test: RetrievalTest, placed: dict[str, pd.DataFrame], names: dict[str, str]) -> tuple[list[str], list[str]]: # warnings, notes
    "How much the runs rank, and what ties. Raises `DataError` where they answer different queries."
    depths = {model: rows["query"].value_counts().reindex(range(len(test.cases)), fill_value=0) for model, rows in placed.items()}
    warnings, notes = [], []
    for model, other in zip(MODELS, MODELS[::-1]):
        none = depths[model] == 0
        alone = none & (depths[other] > 0)
        if alone.sum() > tolerated(len(none)):
            query = test.cases.query_id[alone.idxmax()]
            raise DataError(f"{test.name}: {names[model]} ranks nothing for {alone.sum():,} queries that {names[other]} answers, such as {query!r}")
        if none.any():
            warnings.append(f"{test.name}: {none.sum():,} of {len(none):,} queries have no text in {names[model]}, and count as 0.")
        found = test.scores[model]
        tied = found.query[(found.tied > found.right) & (found.above < NOWHERE)]
        if len(tied):
            notes.append(f"{test.name}: in {names[model]} another text has the score of a relevant one for {len(set(tied)):,} queries. A metric is the "
                         "mean over all orders of equal scores; trec_eval and what is built on it take one, by ids.")
        if depths[model].min() < len(test.file.corpus):
            notes.append(f"{test.name}: {names[model]} ranks {depths[model].min():,} to {depths[model].max():,} of {len(test.file.corpus):,} texts "
                         "for a query; a relevant text that is not ranked counts as not found.")
    return warnings, notes


def ask_given(test: Test, given: dict[str, Given]) -> tuple[list[str], list[str]]: # warnings, notes
    "Fill the scores of a test. Raises `DataError` for what is no run of this test, and where both models say the same."
    warnings, notes = [], []
    if test.file.scores:
        placed = {model: test.file.frame[model] for model in MODELS}
        test.scores |= {model: scores.to_numpy() for model, scores in placed.items()}
    else:
        names = {model: one.names[test.name] for model, one in given.items()}
        placed, told = {}, []
        for model, one in given.items():
            run = read_run(one.runs[test.name], names[model])
            if run.attrs.get("by rank"):
                told.append(f"{test.name}: {names[model]} has one score for all texts of {run.attrs['by rank']:,} queries: these are in the order of ranks.")
            placed[model], strange = _placed(test, run, names[model])
            test.scores[model] = _levels(test, placed[model])
            told += strange
        warnings, notes = _depths(test, placed, names)
        warnings += told
    if np.array_equal(placed["base"], placed["tuned"]):
        raise DataError(f"{test.name}: base and tuned have the same scores: one of the names is wrong, or fine-tuning changed nothing")
    return warnings, notes
