"""A title asks for the titles that belong to it. Trained on relevant pairs, tested by retrieval."""
from dataclasses import replace
from functools import lru_cache
from itertools import chain

import numpy as np

from ...checks import ConfigError, check_known
from ...settings import EncoderConfig
from ...encoders.interventions import importance, word_of_token
from ..config import CorpusConfig, RunConfig, TextsConfig
from .common import Tested, base_model, parted, shares_known, text_tokens, vectors
from .held_texts import untested
from .pairs import KEPT_RESAMPLES, MOST, PairTask, importance_shares
from ...measures.retrieval import evaluate_retrieval, top_lists
from ...data.labeled_pairs import planted_catalog, training_texts
from ...data.planted_titles import catalog_titles, mix_catalog
from ...data.titles import TitleTask, join_titles, load_titles, mix_ticks
from ...data.titles import split_titles
from ..training import PairTokens, title_tokens


@lru_cache(maxsize=4)
def title_split(corpus: CorpusConfig):
    """The `titles.TitleSplit` of a corpus of titles.
    Raises `MissingData` when its files are not there, `ValueError` for a split that leaves nothing."""
    if corpus.world:
        split = catalog_titles(planted_catalog(corpus.world))
    else:
        titles, *later = [load_titles(part) for part in corpus.name.split("+")] # of different years
        if later:
            titles = join_titles(titles, *later, corpus.name)
        iid = .2 if titles.published is None else None
        split = split_titles(titles, corpus.by, corpus.until, corpus.held_out, iid, corpus.share)
    if not corpus.holdout:
        return split
    train = split.train
    out, kept = parted(len(train.queries), corpus.holdout, [0, 9]) # of the corpus, whatever the seed of the run
    every = np.arange(len(train.items))
    rest = replace(train, **train.part(kept, every))
    frequency = rest.relevance.getnnz(0)
    held = TitleTask(f"{train.name} heldout", categories=None, frequency=frequency, **train.part(out, every))
    return replace(split, train=rest, tests=split.tests | {"heldout": held})


@lru_cache(maxsize=4)
def title_mix(corpus: CorpusConfig) -> list:
    "The test set in distribution, joined tick by tick by the shifted titles (Figure 5)."
    if not corpus.ticks:
        raise ConfigError(f"corpus {corpus.display!r}: the evaluation set `mix` needs `ticks`")
    if corpus.world:
        return mix_catalog(planted_catalog(corpus.world), corpus.ticks)
    return mix_ticks(title_split(corpus), corpus.ticks)


def title_tasks(name: str, corpus: CorpusConfig) -> dict: # suffix of its metrics -> `titles.TitleTask`
    "The retrieval tasks of an evaluation set. Raises as `title_split`, and `ConfigError` for an unknown name."
    if name == "mix":
        return {f"[tick {i}]": task for i, task in enumerate(title_mix(corpus))}
    tests = title_split(corpus).tests
    check_known("evaluation set", name, [*tests, "mix"], ConfigError)
    return {"": tests[name]}


def unpaired_titles(
    name: str, # of a kind: `ood`, in a planted world of any split
    corpus: CorpusConfig,
) -> list[str]:
    """Titles of that kind which are in no pair, neither as query nor as item; in a synthetic dataset as of `training_texts`.
    Raises as `title_split`, and `ConfigError` for another name."""
    if corpus.world:
        return training_texts(name, corpus.world)
    check_known("titles to hold", name, ("ood",), ConfigError)
    return title_split(corpus).unpaired


@lru_cache(maxsize=8)
def unlabeled_titles(
    asked: TextsConfig,
    evaluate: tuple[str, ...], # names of evaluation sets
    corpus: CorpusConfig,
) -> tuple[str, ...]:
    "The titles that a run is held on, of `untested`. Raises as `unpaired_titles`."
    texts = [unpaired_titles(name, corpus) for name in asked.corpora]
    tasks = [task for name in evaluate for task in title_tasks(name, corpus).values()]
    tested = [task.queries + task.items for task in tasks]
    return untested(asked, chain(*texts), chain(*tested))


def _embedded(model, tasks: list, encoder: EncoderConfig) -> list[tuple]: # of each: (n, d) queries, (m, d) items
    "The embeddings of retrieval tasks. A text that several of them have is embedded once."
    texts = []
    for task in tasks:
        texts += task.queries + task.items
    both = vectors(model, texts, encoder)
    out = []
    for task in tasks:
        n = len(task.queries)
        queries, items, both = both.tensor_split([n, n + len(task.items)])
        out.append((queries, items))
    return out


def related(task: TitleTask) -> tuple[list[str], list[str]]: # queries, and what is relevant to them
    "The relevant pairs of titles."
    rows, columns = task.relevance.nonzero()
    return [task.queries[row] for row in rows], [task.items[column] for column in columns]


def cases(
    model,
    run: RunConfig,
    name: str, # an evaluation set
) -> list[dict]: # query, tokens, importance, top, relevant; causal in a planted world
    """Token importance and top five items of some queries, the same for every method: the first ones of the set,
    accessories apart."""
    task = title_tasks(name, run.data)[""]
    asked = np.arange(len(task.queries))
    if task.accessory is not None:
        asked = asked[~task.accessory]
    asked = asked[:MOST]
    queries, items = _embedded(model, [task], run.encoder)[0]
    tops = top_lists(queries, items, task, asked.tolist(), 5)
    distinct, rows = text_tokens(run.encoder, tuple(task.queries[i] for i in asked))
    tokens = distinct[rows]
    spelled = importance(model, tokens, dtype=run.encoder.dtype).spelled
    out = []
    for i, top, of_tokens in zip(asked, tops, spelled):
        words, shares = zip(*of_tokens)
        relevant = task.relevance[i].indices[:3]
        out.append({
            "query": task.queries[i],
            "top": [[task.items[item], right] for item, _, right in top],
            "relevant": [task.items[item] for item in relevant],
            "tokens": list(words),
            "importance": [round(share, 4) for share in shares],
        })
    if run.data.world: # whether each ordinary token is of a word that causes relevance
        planted = planted_catalog(run.data.world).split(name).queries
        planted = [planted[i] for i in asked]
        owner = word_of_token(model, [list(query.words) for query in planted], tokens)
        for case, query, words in zip(out, planted, owner):
            case["causal"] = [bool(query.causal[word]) for word in words[words >= 0]]
    return out


@lru_cache(maxsize=4)
def _tokens(encoder: EncoderConfig, corpus: CorpusConfig) -> PairTokens:
    return title_tokens(base_model(encoder), title_split(corpus).train, encoder.max_length)


class TitlesTask(PairTask):
    "Titles that lead to titles: P@k, propensity-scored P@k, P@1 by category and by item frequency."
    def data(self, run: RunConfig) -> tuple[PairTokens, dict]:
        split = title_split(run.corpus)
        about = {"fingerprint": split.train.fingerprint, "counts": split.counts}
        return _tokens(run.encoder, run.corpus), {f"train {run.corpus.name}": about}

    def test_set(self, run: RunConfig, name: str) -> tuple:
        return title_tasks, name, run.data

    def evaluate(self, model, run: RunConfig, name: str, test: dict[str, TitleTask], tested: Tested) -> None:
        values = {}
        resampled = {}
        embedded = _embedded(model, list(test.values()), run.encoder)
        for (suffix, task), (queries, items) in zip(test.items(), embedded):
            found, replicates = evaluate_retrieval(queries, items, task)
            shown = self._shown(found, task, run, name, suffix)
            values |= {new: found[old] for new, old in shown.items()}
            main = _main(shown.values())
            parts = "mix" in run.evaluate or run.data.by == "category" # where a table shows parts of a set
            for new, old in shown.items():
                is_part = parts and old in replicates and (name == "iid" or "bin" not in old)
                if (old == main or is_part) and np.isfinite(replicates[old]).all():
                    most = None if new == main else KEPT_RESAMPLES
                    resampled[new] = np.round(replicates[old][:most], 4).tolist()
            tested.data[f"test {name}{suffix}"] = task.info
        if "known texts" in run.measure:
            values |= shares_known(chain(*related(title_split(run.data).train)), *related(task))
        if name != "mix":
            queries = task.queries
            if run.data.world: # whose words have roles
                queries = planted_catalog(run.data.world).split(name).queries
            values |= importance_shares(model, run.encoder, queries)
        tested.metrics[name] = values
        tested.replicates[name] = resampled

    def _shown(self, found, task, run, name, suffix) -> dict[str, str]: # name in the record -> name of the metric
        "The metrics that a record keeps. Categories are of interest where they are held out."
        if suffix:
            return {f"p1{suffix}": _main(found)}
        dropped = set()
        if task.categories is not None and (name == "iid" or run.data.by == "year"):
            dropped = {f"p1[{category}]" for category in task.categories}
        return {key: key for key in found if key not in dropped}

    def test(self, model, run: RunConfig) -> Tested:
        tested = super().test(model, run)
        if "cases" in run.measure:
            without = ("iid", "mix", *tested.missing)
            names = [name for name in run.evaluate if name not in without]
            tested.extra["cases"] = {name: cases(model, run, name) for name in names}
        return tested

    def unlabeled(self, run: RunConfig) -> tuple[str, ...]:
        return unlabeled_titles(run.method.texts, run.evaluate, run.corpus)

    load = staticmethod(title_split)


def _main(metrics) -> str:
    "The metric that counts: accessories are left out where there are any."
    return "p1[ordinary]" if "p1[ordinary]" in metrics else "p1"


TASK = TitlesTask()
