"""A title asks for the titles that belong to it. Trained on relevant pairs, tested by retrieval."""
from dataclasses import replace
from functools import lru_cache

import numpy as np

from debias_nb.config import ConfigError, EncoderConfig, check_known
from debias_nb.interventions import importance, word_of_token
from debias_nb.repro.config import CorpusConfig, RunConfig
from debias_nb.repro.runs.tasks.common import Tested, Trained, base_model, parted, text_tokens, vectors
from debias_nb.repro.runs.tasks.pairs import KEPT_RESAMPLES, MOST, PairTask, catalogue, importance_shares
from debias_nb.data.retrieval import evaluate_retrieval, top_lists
from debias_nb.data.titles import (
    TitleTask, catalogue_titles, join_titles, load_titles, mix_catalogue, mix_ticks, split_titles,
)
from debias_nb.repro.runs.training import title_tokens


def _with_held_out(split, corpus: CorpusConfig):
    "A split with a share of the training queries kept as evaluation set `heldout`, by the corpus's own seed."
    train = split.train
    out, kept = parted(len(train.queries), corpus.holdout, [0, 9])
    every = np.arange(len(train.items))
    rest = replace(train, **train.part(kept, every))
    frequency = rest.relevance.getnnz(0)
    held = TitleTask(f"{train.name} heldout", categories=None, frequency=frequency, **train.part(out, every))
    tests = split.tests | {"heldout": held}
    return replace(split, train=rest, tests=tests)


def _collection(name: str):
    "A real collection; those of different years are joined by `+`."
    titles, *later = [load_titles(part) for part in name.split("+")]
    if later:
        return join_titles(titles, *later, name)
    return titles


def _real_split(corpus: CorpusConfig):
    "The split of a real collection."
    titles = _collection(corpus.name)
    iid = .2 if titles.published is None else None
    return split_titles(titles, corpus.by, corpus.until, corpus.held_out, iid, corpus.share)


@lru_cache(maxsize=4)
def title_split(corpus: CorpusConfig):
    """The `titles.TitleSplit` of a corpus of titles.
    Raises `MissingData` when its files are not there, `ValueError` for a split that leaves nothing."""
    if corpus.world:
        split = catalogue_titles(catalogue(corpus.world))
    else:
        split = _real_split(corpus)
    if corpus.holdout:
        return _with_held_out(split, corpus)
    return split


@lru_cache(maxsize=4)
def title_mix(corpus: CorpusConfig) -> list:
    "The test set in distribution, joined tick by tick by the shifted titles (Figure 5)."
    if not corpus.ticks:
        raise ConfigError(f"corpus {corpus.display!r}: the evaluation set `mix` needs `ticks`")
    if corpus.world:
        return mix_catalogue(catalogue(corpus.world), corpus.ticks)
    return mix_ticks(title_split(corpus), corpus.ticks)


def _ticks(tasks: list[TitleTask]) -> dict[str, TitleTask]:
    "Tests that grow, by their suffixes."
    return {f"[tick {i}]": task for i, task in enumerate(tasks)}


def title_tasks(name: str, corpus: CorpusConfig) -> dict: # suffix of its metrics -> `titles.TitleTask`
    "The retrieval tasks of an evaluation set. Raises as `title_split`, and `ConfigError` for an unknown name."
    if name == "mix":
        return _ticks(title_mix(corpus))
    tests = title_split(corpus).tests
    check_known("evaluation set", name, [*tests, "mix"], ConfigError)
    return {"": tests[name]}


def _embedded(model, tasks: list, encoder: EncoderConfig) -> list[tuple]: # of each: (n, d) queries, (m, d) items
    "The embeddings of retrieval tasks. A text that several of them have is embedded once."
    texts = []
    for task in tasks:
        texts += task.queries + task.items
    both = vectors(model, texts, encoder)
    out = []
    for task in tasks:
        n = len(task.queries)
        m = len(task.items)
        queries, items, both = both.tensor_split([n, n + m])
        out.append((queries, items))
    return out


def cases(
    model,
    run: RunConfig,
    name: str, # an evaluation set
) -> list[dict]: # query, tokens, importance, top, relevant; causal in a planted world
    """Token importance and top five items of some queries, the same for every method: the first ones of the set,
    accessories apart."""
    task = title_tasks(name, run.data)[""]
    asked = _first_queries(task)
    out = _top_items(model, run, task, asked)

    texts = tuple(case["query"] for case in out)
    distinct, rows = text_tokens(run.encoder, texts)
    tokens = distinct[rows]
    for case, shares in zip(out, _token_shares(model, tokens, run.encoder.dtype)):
        case.update(shares)
    for case, known in zip(out, _causal_tokens(model, run, name, asked, tokens)):
        case["causal"] = known
    return out


def _token_shares(model, tokens, dtype: str) -> list[dict]: # of each text: tokens, importance
    "The ordinary tokens of texts, and the importance of each."
    out = []
    for spelled in importance(model, tokens, dtype=dtype).spelled:
        words, shares = zip(*spelled)
        out.append({"tokens": list(words), "importance": [round(share, 4) for share in shares]})
    return out


def _first_queries(task) -> np.ndarray: # positions
    "The first queries of a test, accessories apart."
    asked = np.arange(len(task.queries))
    if task.accessory is not None:
        asked = asked[~task.accessory]
    return asked[:MOST]


def _top_items(model, run: RunConfig, task, asked: np.ndarray) -> list[dict]: # query, top, relevant
    "The five items nearest to each of some queries, and three that belong to it."
    queries, items = _embedded(model, [task], run.encoder)[0]
    tops = top_lists(queries, items, task, asked.tolist(), 5)
    out = []
    for i, top in zip(asked, tops):
        nearest = [[task.items[item], right] for item, _, right in top]
        belong = task.relevance[i].indices[:3]
        relevant = [task.items[j] for j in belong]
        out.append({"query": task.queries[i], "top": nearest, "relevant": relevant})
    return out


def _causal_tokens(model, run: RunConfig, name: str, asked, tokens) -> list[list[bool]]: # [] for a real corpus
    "Whether each ordinary token is of a word that causes relevance, where that is known."
    if not run.data.world:
        return []
    planted = catalogue(run.data.world).split(name).queries
    queries = [planted[i] for i in asked]
    said = [list(query.words) for query in queries]
    owner = word_of_token(model, said, tokens)
    out = []
    for query, words in zip(queries, owner):
        spoken = words[words >= 0]
        out.append([bool(query.causal[word]) for word in spoken])
    return out


def _about(split) -> dict: # for the record
    return {"fingerprint": split.train.fingerprint, "counts": split.counts}


class TitlesTask(PairTask):
    "Titles that lead to titles: P@k, propensity-scored P@k, P@1 by category and by item frequency."
    def data(self, encoder: EncoderConfig, corpus: CorpusConfig):
        split = title_split(corpus)
        tokens = title_tokens(base_model(encoder), split.train, encoder.max_length)
        return tokens, {f"train {corpus.name}": _about(split)}

    def evaluation_set(self, model, run: RunConfig, name: str) -> tuple[dict, dict, dict]:
        values = {}
        resampled = {}
        data = {}
        tasks = title_tasks(name, run.data)
        embedded = _embedded(model, list(tasks.values()), run.encoder)
        for (suffix, task), (queries, items) in zip(tasks.items(), embedded):
            found, replicates = evaluate_retrieval(queries, items, task)
            shown = self._shown(found, task, run, name, suffix)
            values |= {new: found[old] for new, old in shown.items()}
            resampled |= self._resampled(shown, replicates, run, name)
            data[f"test {name}{suffix}"] = task.info
        if name != "mix":
            queries = self._queries(task, run.data.world, name)
            values |= importance_shares(model, run.encoder, queries)
        return values, resampled, data

    def _queries(self, task, planted, name: str) -> list: # planted: a world or None
        "The queries of a test; those of a planted world know their words' roles."
        if planted:
            return catalogue(planted).split(name).queries
        return task.queries

    def _shown(self, found, task, run, name, suffix) -> dict[str, str]: # name in the record -> name of the metric
        "The metrics that a record keeps. Categories are of interest where they are held out."
        if suffix:
            return {f"p1{suffix}": _main(found)}
        of_interest = name != "iid" and run.data.by != "year"
        categories = task.categories
        if of_interest or task.categories is None:
            categories = []
        dropped = {f"p1[{category}]" for category in categories}
        return {key: key for key in found if key not in dropped}

    def _resampled(self, shown, replicates, run, name) -> dict[str, list]:
        "Replicates of the main metric, and of parts of a set where a table shows them."
        main = _main(shown.values())
        parts = "mix" in run.evaluate or run.data.by == "category"
        out = {}
        for new, old in shown.items():
            is_part = parts and old in replicates and (name == "iid" or "bin" not in old)
            if (old == main or is_part) and np.isfinite(replicates[old]).all():
                most = None if new == main else KEPT_RESAMPLES
                kept = np.round(replicates[old][:most], 4)
                out[new] = kept.tolist()
        return out

    def test(self, run: RunConfig, trained: Trained) -> Tested:
        tested = super().test(run, trained)
        if "cases" in run.measure:
            without = ("iid", "mix", *tested.missing)
            names = [name for name in run.evaluate if name not in without]
            tested.extra["cases"] = {name: cases(trained.model, run, name) for name in names}
        return tested

    load = staticmethod(title_split)

    def stale(self, record: dict, run: RunConfig) -> bool: # titles come with their test sets
        return False


def _main(metrics) -> str:
    "The metric that counts: accessories are left out where there are any."
    if "p1[ordinary]" in metrics:
        return "p1[ordinary]"
    return "p1"


TASK = TitlesTask()
