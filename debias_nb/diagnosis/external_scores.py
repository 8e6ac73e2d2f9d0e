"Scores in place of models: runs of a search, or two columns of a table of pairs."
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..checks import ConfigError, check_known, quoted
from .files.judgments import tolerated
from .files.pairs_file import PairFile, Source, read_pairs_file
from ..data.registry import DataError
from .files.run_files import MODELS, Run, read_run
from ..data.tables import check, floats
from ..files import fingerprint, sha256_file
from ..bars import is_bar_shown
from .diagnose import Findings, Rule, read_inputs, report
from .diagnosis import Diagnosis
from .test_sets import RetrievalTest, Test, part_of
from ..measures.rankings import NOWHERE, Levels, candidate_levels

NO_WEIGHTS = ("Scores were given, not models: words, averaged weights and what models do not read need the weights "
              "(--base and --tuned), and are left out.")


@dataclass(frozen=True)
class ExternalScores:
    "Scores of one model that were computed elsewhere."
    runs: dict[str, Run]     # of tests of retrieval
    names: dict[str, str]    # of these, and the columns of tests of pairs
    source: dict[str, str] | None # runs, by model or MODEL:TEST as the command has them; None: one is in memory

    def facts(self) -> dict:
        "Return what a page says of it, as of a `Scorer`."
        hashes = [fingerprint(run) if isinstance(run, dict) else sha256_file(run) for run in self.runs.values()]
        names = ", ".join(dict.fromkeys(self.names.values()))
        source = None if self.source is None else [f"{name}={run}" for name, run in self.source.items()]
        return {"name": names, "kind": "scores", "fingerprint": fingerprint(hashes), "prompt": "", "source": source}


@dataclass(frozen=True)
class Remarks:
    "Sentences about the scores, for a page."
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    void: dict[str, str] = field(default_factory=dict) # test -> why it decides nothing


def _is_by_test(scores: Run | dict[str, Run] | None, files: dict[str, PairFile]) -> bool:
    "Tell runs by the names of tests, which may be wrong, from a run in memory."
    if not isinstance(scores, dict):
        return False
    has_paths = any(isinstance(run, (str, os.PathLike)) for run in scores.values())
    return has_paths or scores.keys() <= files.keys()


def _of_model(model: str, scores: Run | dict[str, Run] | None, files: dict[str, PairFile],
              searches: list[str]) -> ExternalScores:
    "Find the scores of one model, given as a run, or as runs by test."
    by_test = _is_by_test(scores, files)
    runs = scores if by_test else dict.fromkeys(searches, scores)
    for name in runs:
        check_known("test with queries, corpus and qrels that is called", name, searches, ConfigError)
    missing = [name for name in searches if runs.get(name) is None]
    if missing:
        raise ConfigError(f"{missing[0]}: two models are expected, or a run of each: --scores {model}=FILE, or "
                          f"{model}:{missing[0]}=FILE")
    options = {f"{model}:{name}" if by_test else model: str(run) for name, run in runs.items()}
    in_memory = {name: f"a run of the {model} model" for name, run in runs.items() if isinstance(run, dict)}
    columns = {name: file.scores[MODELS.index(model)] for name, file in files.items() if file.scores}
    return ExternalScores(runs, {name: str(run) for name, run in runs.items()} | in_memory | columns, None if in_memory
                          else options)


def find_scores(scores: dict | None, files: dict[str, PairFile]) -> dict[str, ExternalScores]:
    "Find the scores of each model, and check that every test has them."
    searches = [name for name, file in files.items() if file.form == "retrieval"]
    for name, file in files.items():
        if name in searches and file.ids is None:
            raise ConfigError(f"{name}: a folder with queries, corpus and qrels is expected, whose ids a run can name")
        if name not in searches and file.scores is None:
            raise ConfigError(f"{name}: two models are expected, or labeled pairs with two columns of scores: "
                              "--columns left,right,label,base,tuned")
    runs = scores or {}
    for model in runs:
        check_known("model of scores", model, MODELS, ConfigError)
    if runs and not searches:
        columns = ", ".join(column for file in files.values() for column in file.scores)
        raise ConfigError("scores: a run is for a test with queries, corpus and qrels; the scores of pairs are their "
                          f"columns {columns}")
    return {model: _of_model(model, runs.get(model), files, searches) for model in MODELS}


def score_pairs(
    test: Source, scorers: dict[str, Callable[[list[str], list[str]], ArrayLike]],
    columns: tuple[str, ...] | None = None, *,
    match: str | None = None, match_from: float | None = None, other_to: float | None = None,
) -> PairFile:
    """Score a test with any two functions, such as cross-encoders or APIs, as `diagnose_scores` takes it.

    Parameters
    ----------
    test : str, Path, table or PairFile
        Labeled pairs, or queries with candidates, in any form that `read_pairs_file` takes.
    scorers : dict of callable
        `base` and `tuned`: each takes two lists of n texts, left and right, and returns n finite scores; the higher,
        the more likely a match. Only their order counts, so the two may have different scales.
    columns, match, match_from, other_to : optional
        As in `read_pairs_file`.

    Returns
    -------
    PairFile
        The test with its scores, as one of the `tests` of `diagnose_scores`.

    Raises
    ------
    ConfigError
        For other names than `base` and `tuned`.
    DataError
        For a test that cannot be read or searches a corpus, and for what is not one finite score a pair.

    Examples
    --------
    >>> from debias_nb import diagnose_scores, score_pairs
    >>> from debias_nb.diagnosis.demo import offers
    >>> def equal_words(left, right):
    ...     return [len({*one.split()} & {*other.split()}) for one, other in zip(left, right)]
    >>> def equal_letters(left, right):
    ...     return [len({*one} & {*other}) for one, other in zip(left, right)]
    >>> test = score_pairs(offers(300, 1, .2, .4), {"base": equal_words, "tuned": equal_letters})
    >>> diagnose_scores({"new": test}).verdicts.verdict.tolist()
    ['worse', 'worse']
    """
    if {*scorers} != {*MODELS}:
        raise ConfigError(f"scorers: functions called {' and '.join(MODELS)} are expected, got "
                          f"{', '.join(map(quoted, scorers))}")
    file = read_pairs_file(test, columns, match=match, match_from=match_from, other_to=other_to)
    if file.form == "retrieval":
        raise DataError(f"{file.name}: a corpus is searched; give the run of a search (scores={{'base': RUN, "
                        f"'tuned': RUN}})")
    frame = file.frame.copy()
    for model, score in scorers.items():
        values = score(file.left, file.right)
        if isinstance(values, (str, dict)) or not isinstance(values, Iterable) or np.ndim(values) == 0:
            raise DataError(f"{file.name}: {model} gives {quoted(values)}, and a list of {len(file):,} scores is "
                            "expected, one a pair of texts")
        cells = pd.Series([*values], dtype=object, name=model)
        if len(cells) != len(file):
            raise DataError(f"{file.name}: {model} gives {len(cells):,} scores for {len(file):,} pairs of texts")
        frame[model] = floats(cells)
        check(file.name, cells.set_axis(file.frame.line), np.isfinite(frame[model]), "a finite score is expected")
    return replace(file, frame=frame, path=None, scores=MODELS)


def _placements(test: RetrievalTest, run: pd.DataFrame, name: str, remarks: Remarks) -> pd.DataFrame:
    "Place the queries and texts of a run where a test has them: query, document (−1: not in the corpus), score."
    queries = test.file.frame.drop_duplicates("query")
    numbers = pd.Index(queries.query_id).get_indexer(run["query"])
    rows = run[numbers >= 0]
    if rows.empty:
        raise DataError(f"{name}:{run.index[0]}: query {run['query'].iloc[0]!r} is not in {test.name}, and no other of "
                        "the run is")
    placements = pd.DataFrame({
        "query": numbers[numbers >= 0], "document": test.file.ids.get_indexer(rows.document),
        "score": rows.score.to_numpy()})
    misses = rows[placements.document.to_numpy() < 0]
    if len(misses) > tolerated(len(rows)):
        raise DataError(f"{name}:{misses.index[0]}: text {misses.document.iloc[0]!r} is not in the corpus of "
                        f"{test.name}; {len(misses):,} of {len(rows):,} are not")
    counts = {f"texts that {name} ranks are not in the corpus": len(misses),
              f"queries of {name} have no relevant text there, and are left out": run["query"][numbers < 0].nunique()}
    remarks.warnings.extend(f"{test.name}: {count:,} {problem}." for problem, count in counts.items() if count)
    if "itself" in queries: # which no search by weights ranks either
        itself = queries["itself"].to_numpy()[placements["query"]]
        placements = placements[(itself < 0) | (placements.document != itself)]
    return placements


def _levels(test: RetrievalTest, placements: pd.DataFrame) -> Levels:
    "Find where a run ranks the relevant texts of each query; those that are not ranked stand nowhere."
    rows = placements.merge(test.file.frame[["query", "document", "label"]], "outer", ["query", "document"])
    levels = candidate_levels(rows["query"].to_numpy(), rows.label.fillna(0).to_numpy(),
                              rows.score.fillna(-np.inf).to_numpy())
    best = placements.sort_values("score", ascending=False, kind="stable").drop_duplicates("query").set_index(
        "query").document
    first = best.reindex(range(len(test.cases)), fill_value=-1).to_numpy()
    return replace(levels, first=first[:, None])


def _remark_on_depths(test: RetrievalTest, placements: dict[str, pd.DataFrame], names: dict[str, str],
                      remarks: Remarks) -> None:
    "Say how much the runs rank, and what ties; they must answer the same queries."
    depths = {model: np.bincount(rows["query"], minlength=len(test.cases)) for model, rows in placements.items()}
    for model, rival in zip(MODELS, MODELS[::-1]):
        depth, name = depths[model], names[model]
        one_sided = np.flatnonzero((depth == 0) & (depths[rival] > 0))
        if len(one_sided) > tolerated(len(depth)):
            query = test.cases.query_id[one_sided[0]]
            raise DataError(f"{test.name}: {name} ranks nothing for {len(one_sided):,} queries that {names[rival]} "
                            f"answers, such as {query!r}")
        if not depth.all():
            remarks.warnings.append(f"{test.name}: {(depth == 0).sum():,} of {len(depth):,} queries have no text in "
                                    f"{name}, and count as 0.")
        levels = test.scores[model]
        ties = levels.query[(levels.tied > levels.right) & (levels.n_better < NOWHERE)]
        if len(ties):
            remarks.notes.append(f"{test.name}: in {name} another text has the score of a relevant one for "
                                 f"{len(set(ties)):,} queries. A metric is the mean over all orders of equal scores; "
                                 "trec_eval and what is built on it take one, by ids.")
        if depth.min() < len(test.file.corpus):
            remarks.notes.append(f"{test.name}: {name} ranks {depth.min():,} to {depth.max():,} of "
                                 f"{len(test.file.corpus):,} texts for a query; a relevant text that is not ranked "
                                 "counts as not found.")


def _of_one_depth(test: RetrievalTest, runs: dict[str, pd.DataFrame], names: dict[str, str],
                  remarks: Remarks) -> dict[str, pd.DataFrame]:
    "Cut both runs to the texts that the shorter one ranks for a query at most."
    depths = {model: int(run.groupby("query").size().max()) for model, run in runs.items()}
    depth = min(depths.values())
    if depth == max(depths.values()):
        return runs
    ranked = " and ".join(f"{names[model]} up to {rank:,}" for model, rank in depths.items())
    remarks.warnings.append(f"{test.name}: the runs rank to different depths for a query ({ranked}): both are cut to "
                            f"the first {depth:,}.")
    ranks = {model: run.groupby("query").score.rank(method="min", ascending=False) for model, run in runs.items()}
    return {model: run[ranks[model] <= depth] for model, run in runs.items()}


def _answered(
    test: RetrievalTest, placements: dict[str, pd.DataFrame], remarks: Remarks,
) -> tuple[RetrievalTest, dict[str, pd.DataFrame]]:
    "Leave out the queries that neither run answers; a test that lacks most of them decides nothing."
    answers = np.isin(np.arange(len(test.cases)), pd.concat(placements.values())["query"])
    unanswered, queries = int((~answers).sum()), len(answers)
    if not unanswered:
        return test, placements
    text = f"{test.name}: {unanswered:,} of {queries:,} queries have no text in either run"
    if unanswered > queries / 2:
        remarks.void[test.name] = f"{text}: search for all of them."
        return test, placements
    remarks.warnings.append(f"{text}, and are left out.")
    numbers = answers.cumsum() - 1
    kept = {model: rows.assign(query=numbers[rows["query"]]) for model, rows in placements.items()}
    return part_of(test, answers[test.file.frame["query"].to_numpy()]), kept


def _score_by_runs(
    test: RetrievalTest, models: dict[str, ExternalScores], remarks: Remarks,
) -> tuple[RetrievalTest, dict[str, pd.DataFrame]]:
    "Fill the scores of a test from runs, and return it with what these rank."
    names = {model: model_scores.names[test.name] for model, model_scores in models.items()}
    runs = {model: read_run(models[model].runs[test.name], name) for model, name in names.items()}
    for run, name in zip(runs.values(), names.values()):
        if run.attrs.get("by rank"):
            remarks.warnings.append(
                f"{test.name}: {name} has one score for all texts of {run.attrs['by rank']:,} queries: these are in "
                "the order of ranks.")
    runs = _of_one_depth(test, runs, names, remarks)
    placements = {model: _placements(test, run, names[model], remarks) for model, run in runs.items()}
    test, placements = _answered(test, placements, remarks)
    test.scores |= {model: _levels(test, rows) for model, rows in placements.items()}
    _remark_on_depths(test, placements, names, remarks)
    return test, placements


def score_test(test: Test, models: dict[str, ExternalScores], remarks: Remarks) -> Test:
    "Fill a test with external scores, which must differ, and return it without queries that neither answers."
    if test.file.scores:
        scores = {model: test.file.frame[model].to_numpy() for model in MODELS}
        test.scores |= scores
    else:
        test, scores = _score_by_runs(test, models, remarks)
    if np.array_equal(scores["base"], scores["tuned"]):
        raise DataError(f"{test.name}: base and tuned have the same scores: one of the names is wrong, or fine-tuning "
                        "changed nothing")
    return test


def findings_of(models: dict[str, ExternalScores], tests: list[Test]) -> Findings:
    "Fill the scores of the tests with external ones; `smaller` are the tests, without what was not scored."
    remarks = Remarks()
    scored = [score_test(test, models, remarks) for test in tests]
    return Findings(scored, remarks.warnings, [*remarks.notes, NO_WEIGHTS], void=remarks.void)


def diagnose_scores(
    tests: dict,
    scores: dict | None = None,
    train: Source | None = None,
    *,
    metric: str | None = None,
    margin: float = 1.,
    like: str = "like",
    threshold: float | None = None,
    sample: int | None = None,
    texts: str | Path | Iterable[str] | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Diagnosis:
    """Report whether and where fine-tuning made scores worse, without models: of cross-encoders, APIs, searches.

    Parameters
    ----------
    tests : dict
        Name to what is tested on: pairs or candidates with the scores of both models, as `score_pairs` or
        `read_pairs_file(..., scores=("base", "tuned"))` return them, or queries with a corpus, whose `scores` are
        given.
    scores : dict, optional
        Of a search: `base` and `tuned`, each a run (lines of TREC, a table, predictions of mteb 2 or of
        sentence-transformers, or a dict of query, text and score), or runs by test. A text that is not ranked counts as
        not found.
    train, metric, margin, like, threshold, sample, seed, progress : optional
        As in `diagnose`.
    texts : str, Path or table, optional
        Pairs of the new data without labels, with scores in columns `base` and `tuned`, as in `diagnose_texts`.

    Returns
    -------
    Diagnosis
        As of `diagnose`, without what needs the weights: words, averaged weights, what models do not read.

    Raises
    ------
    ConfigError
        For a test without scores, and for scores without a test.
    DataError
        As `diagnose`, and for what is no score, naming file and line.

    Examples
    --------
    >>> from debias_nb import diagnose_scores, read_pairs_file
    >>> from debias_nb.diagnosis.demo import offers
    >>> pairs = offers(300, 1, .2, .4)
    >>> scored = pairs.assign(base=pairs.label + .1 * pairs.left.str.len(), tuned=pairs.left.str.len())
    >>> test = read_pairs_file(scored, ("left", "right", "label"), scores=("base", "tuned"))
    >>> diagnose_scores({"new": test}).verdicts.verdict.tolist()
    ['worse', 'worse']
    """
    rule = Rule(seed, metric, sample, margin, like, threshold)
    bars = is_bar_shown(progress)
    inputs = read_inputs(train, tests, texts, rule, bars)
    models = find_scores(scores, inputs.test_files)
    findings = findings_of(models, inputs.tests)
    return report("diagnose-scores", models, inputs, findings.smaller, findings, rule, bars)
