"Scores that were given in place of models, as tests take them: runs of a search, or two columns of a table of pairs."
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ..checks import ConfigError
from ..data.judgments import tolerated
from ..data.pairs_file import PairFile
from ..data.registry import DataError
from ..data.run_files import MODELS, Run, read_run
from ..files import fingerprint, sha256_file
from .tests import RetrievalTest, Test
from ..measures.rankings import NOWHERE, Levels, candidate_levels

NO_WEIGHTS = "Scores were given, not models: words, averaged weights and what models do not read need the weights (--base and --tuned), and are left out."


@dataclass(frozen=True)
class Given:
    "Where the scores of one model are."
    runs: dict[str, Run]        # of tests of retrieval
    columns: tuple[str, ...]    # of tests of pairs
    source: tuple[str, ...] | None # of the runs, as the command takes them; None: one is in memory

    def name_of(self, test: str) -> str:
        run = self.runs[test]
        return "a run in memory" if isinstance(run, dict) else str(run)

    def facts(self) -> dict: # as of a `Scorer`
        names = map(self.name_of, self.runs)
        hashes = [fingerprint(run) if isinstance(run, dict) else sha256_file(run) for run in self.runs.values()]
        named = ", ".join(dict.fromkeys([*names, *self.columns]))
        return {"name": named, "kind": "scores", "fingerprint": fingerprint(hashes), "prompt": "", "source": self.source and list(self.source)}


def _check_form(name: str, file: PairFile) -> None:
    "Raises `ConfigError` for a test that could not be scored from outside."
    if file.form == "retrieval" and file.ids is None:
        raise ConfigError(f"{name}: its queries and texts have no ids that a run could name; those of a folder with queries, corpus and qrels have")
    if file.form != "retrieval" and file.scores is None:
        found = "candidates can be written as such pairs" if file.form == "candidates" else "these have none"
        raise ConfigError(f"{name}: labeled pairs with two columns of scores are expected, --columns left,right,label,base,tuned; {found}")


def given_scores(scores: dict | None, files: dict[str, PairFile]) -> dict[str, Given]: # scores: of each model a run, or runs by test
    "Where the scores of each model are. Raises `ConfigError` for what is missing."
    for name, file in files.items():
        _check_form(name, file)
    searched = [name for name, file in files.items() if file.form == "retrieval"]
    if searched and (not isinstance(scores, dict) or scores.keys() != {*MODELS}):
        raise ConfigError(f"{searched[0]}: a run of each model is expected: --scores base=FILE --scores tuned=FILE")
    found = {}
    for place, model in enumerate(MODELS):
        own = scores[model] if searched else {}
        by_test = isinstance(own, dict) and own.keys() <= files.keys()
        lacking = [name for name in searched if by_test and name not in own]
        if lacking:
            raise ConfigError(f"{lacking[0]}: a run of each model is expected: --scores {model}:{lacking[0]}=FILE")
        runs = {name: own[name] if by_test else own for name in searched}
        options = dict.fromkeys(f"{model}:{name}={run}" if by_test else f"{model}={run}" for name, run in runs.items())
        in_memory = any(isinstance(run, dict) for run in runs.values())
        columns = dict.fromkeys(file.scores[place] for file in files.values() if file.scores)
        found[model] = Given(runs, tuple(columns), None if in_memory else tuple(options))
    return found


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
    told = []
    if len(outside):
        told.append(f"{test.name}: {len(outside):,} texts that {name} ranks are not in the corpus.")
    others = run["query"][query < 0].nunique()
    if others:
        told.append(f"{test.name}: {others:,} queries of {name} have no relevant text there, and are left out.")
    if "itself" in queries: # which no search by weights ranks either
        itself = queries["itself"].to_numpy()[placed["query"]]
        placed = placed[(itself < 0) | (placed.document != itself)]
    return placed, told


def _levels(test: RetrievalTest, placed: pd.DataFrame) -> Levels:
    "Where the relevant texts of each query stand in a run; those that are not ranked stand nowhere."
    relevant = test.file.frame[["query", "document", "label"]]
    rows = placed.merge(relevant, "outer", ["query", "document"])
    found = candidate_levels(rows["query"].to_numpy(), rows.label.fillna(0).to_numpy(), rows.score.fillna(-np.inf).to_numpy())
    best = placed.sort_values("score", ascending=False, kind="stable").drop_duplicates("query").set_index("query").document
    first = best.reindex(range(len(test.cases)), fill_value=-1).to_numpy()
    return replace(found, first=first[:, None])


def _depths(test: RetrievalTest, placed: dict[str, pd.DataFrame], names: dict[str, str]) -> tuple[list[str], list[str]]: # warnings, notes
    "How much the runs rank. Raises `DataError` where they answer different queries."
    depths = {model: rows["query"].value_counts().reindex(range(len(test.cases)), fill_value=0) for model, rows in placed.items()}
    told = []
    for model, other in zip(MODELS, MODELS[::-1]):
        none = depths[model] == 0
        alone = none & (depths[other] > 0)
        if alone.sum() > tolerated(len(test.cases)):
            query = test.cases.query_id[alone.idxmax()]
            raise DataError(f"{test.name}: {names[model]} ranks nothing for {alone.sum():,} queries that {names[other]} answers, such as {query!r}")
        if none.any():
            told.append(f"{test.name}: {none.sum():,} of {len(none):,} queries have no text in {names[model]}, and count as 0.")
    depth = pd.concat(depths.values())
    least, most, every = depth[depth > 0].min(), depth.max(), len(test.file.corpus)
    ranked = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    note = f"{test.name}: the runs rank {ranked} of {every:,} texts for a query; a relevant text that is not ranked counts as not found."
    return told, [note] if least < every else []


def _ties(test: RetrievalTest) -> list[str]:
    "For how many queries the order of equal scores counts."
    tied = {model: np.unique(found.query[(found.tied > found.right) & (found.above < NOWHERE)]) for model, found in test.scores.items()}
    counts = " and ".join(f"{len(queries):,} queries ({model})" for model, queries in tied.items() if len(queries))
    return [f"{test.name}: another text has the score of a relevant one for {counts}. A metric is the mean over all orders of equal scores; "
            "trec_eval and what is built on it take one, by ids."] if counts else []


def ask_given(test: Test, given: dict[str, Given]) -> tuple[list[str], list[str]]: # warnings, notes
    "Fill the scores of a test. Raises `DataError` for what is no run of this test, and where both models say the same."
    if test.file.form == "pairs":
        test.scores |= {model: test.file.frame[model].to_numpy() for model in MODELS}
        warnings, notes = [], []
        same = np.array_equal(*test.scores.values())
    else:
        names = {model: one.name_of(test.name) for model, one in given.items()}
        runs = {model: read_run(one.runs[test.name], names[model]) for model, one in given.items()}
        found = {model: _placed(test, run, names[model]) for model, run in runs.items()}
        placed = {model: rows for model, (rows, _) in found.items()}
        warnings, notes = _depths(test, placed, names)
        warnings += [text for _, told in found.values() for text in told]
        test.scores |= {model: _levels(test, rows) for model, rows in placed.items()}
        notes += _ties(test)
        same = placed["base"].equals(placed["tuned"])
    if same:
        raise DataError(f"{test.name}: base and tuned have the same scores: one of the names is wrong, or fine-tuning changed nothing")
    return warnings, notes
