"""A title asks for the titles that belong to it. Trained on relevant pairs, tested by retrieval."""
from dataclasses import replace
from functools import lru_cache
from itertools import chain

import numpy as np

from ...checks import ConfigError, check_known
from ...settings import EncoderConfig
from ...encoders.interventions import importance, word_of_token
from ...runs.config import RunConfig
from ...runs.settings import TextsConfig
from ..settings.titles import TitlesCorpus
from ...runs.tasks import Tested, base_model, overlap_shares, random_parts, text_tokens, vectors
from .regularization_texts import without_test_texts
from .pairs import KEPT_RESAMPLES, MOST_TEXTS, PairTask, importance_shares
from .retrieval import evaluate_retrieval, top_lists
from ..data.labeled_pairs import planted_catalog, training_texts
from ..worlds.planted_titles import catalog_titles, change_catalog_items, mix_catalog
from ..data.title_splits import change_items, join_titles, mix_ticks, split_titles
from ..data.titles import TitleTask, load_titles
from ...runs.pair_batches import PairTokens, title_tokens


@lru_cache(maxsize=4)
def title_split(corpus: TitlesCorpus):
    """Load the `titles.TitleSplit` of a corpus of titles.

    Raise `MissingData` if its files are not there, `ValueError` for a split that leaves nothing.
    """
    if corpus.world:
        split = catalog_titles(planted_catalog(corpus.world))
    else:
        names = corpus.name.split("+") # of different years
        titles, *additions = [load_titles(part, require_hash=True) for part in names]
        if additions:
            titles = join_titles(titles, *additions, corpus.name)
        split = split_titles(titles, corpus.by, corpus.until, corpus.held_out, corpus.share)
    if not corpus.holdout:
        return split
    train = split.train
    out, rest_rows = random_parts(len(train.queries), corpus.holdout, [0, 9]) # by the corpus, not the seed of a run
    every = np.arange(len(train.items))
    remaining = replace(train, **train.part(rest_rows, every))
    frequency = remaining.relevance.getnnz(0)
    held_out = TitleTask(f"{train.name} heldout", categories=None, frequency=frequency, **train.part(out, every))
    return replace(split, train=remaining, tests=split.tests | {"heldout": held_out})


COMPOSED = ("mix", "items") # evaluation sets of several tests each, with queries of `iid`


@lru_cache(maxsize=8)
def title_tasks(name: str, corpus: TitlesCorpus) -> dict: # suffix of its metrics -> `titles.TitleTask`
    """Return the retrieval tasks of an evaluation set.

    Of `mix`, the shifted titles join the test in distribution tick by tick (Figure 5); of `items`, its candidates
    change. Raise as `title_split`, and `ConfigError` for an unknown name.
    """
    world = corpus.world and planted_catalog(corpus.world)
    if name == "mix":
        if not corpus.ticks:
            raise ConfigError(f"corpus {corpus.display!r}: the evaluation set `mix` needs `ticks`")
        tasks = mix_catalog(world, corpus.ticks) if world else mix_ticks(title_split(corpus), corpus.ticks)
        return {f"[tick {n}]": task for n, task in enumerate(tasks)}
    if name == "items":
        changes = change_catalog_items(world) if world else change_items(title_split(corpus))
        return {f"[{change}]": task for change, task in changes.items()}
    tests = title_split(corpus).tests
    check_known("evaluation set", name, [*tests, *COMPOSED], ConfigError)
    return {"": tests[name]}


@lru_cache(maxsize=8)
def unlabeled_titles(
    config: TextsConfig,
    evaluate: tuple[str, ...], # names of evaluation sets
    corpus: TitlesCorpus,
) -> tuple[str, ...]:
    """Return the titles that a run is regularized on, of `without_test_texts`.

    They are of the kind `ood` and in no pair, neither as query nor as item; in a synthetic dataset as of
    `training_texts`. Raise as `title_split`, and `ConfigError` for another kind.
    """
    texts = []
    for name in config.corpora:
        if corpus.world:
            texts += training_texts(name, corpus.world)
        else:
            check_known("titles to hold", name, ("ood",), ConfigError)
            texts += title_split(corpus).unpaired
    tasks = [task for name in evaluate for task in title_tasks(name, corpus).values()]
    return without_test_texts(config, texts, chain(*(task.queries + task.items for task in tasks)))


def _embed(model, tasks: list, encoder: EncoderConfig) -> list[tuple]:
    "Embed the queries (n, d) and items (m, d) of retrieval tasks, each text once."
    sides = [texts for task in tasks for texts in (task.queries, task.items)]
    parts = iter(vectors(model, list(chain(*sides)), encoder).split(list(map(len, sides))))
    return list(zip(parts, parts))


def relevant_pairs(task: TitleTask) -> tuple[list[str], list[str]]: # queries, and what is relevant to them
    "Return the relevant pairs of titles."
    rows, columns = task.relevance.nonzero()
    return [task.queries[row] for row in rows], [task.items[column] for column in columns]


def cases(
    model,
    run: RunConfig,
    name: str, # an evaluation set
) -> list[dict]: # query, tokens, importance, top, relevant; causal in a planted world
    """Return token importance and top five items of some queries, the same for every method.

    They are the first ones of the set, without accessories.
    """
    task = title_tasks(name, run.data)[""]
    rows = np.arange(len(task.queries))
    if task.accessory is not None:
        rows = rows[~task.accessory]
    rows = rows[:MOST_TEXTS].tolist()
    queries, items = _embed(model, [task], run.encoder)[0]
    texts = [task.queries[row] for row in rows]
    distinct, places = text_tokens(run.encoder, tuple(texts))
    tokens = distinct[places]
    importances = importance(model, tokens, dtype=run.encoder.dtype).spelled
    out = []
    for row, query, top, of_tokens in zip(rows, texts, top_lists(queries, items, task, rows), importances):
        words, shares = zip(*of_tokens)
        relevant = task.relevance[row].indices.tolist()
        out.append({
            "query": query,
            "top": [[task.items[item], item in relevant] for item in top],
            "relevant": [task.items[item] for item in relevant[:3]],
            "tokens": list(words),
            "importance": [round(share, 4) for share in shares],
        })
    if run.data.world: # whether each ordinary token is of a word that causes relevance
        queries_of_world = planted_catalog(run.data.world).split(name).queries
        queries_of_world = [queries_of_world[row] for row in rows]
        owner = word_of_token(model, [list(query.words) for query in queries_of_world], tokens)
        for case, query, words in zip(out, queries_of_world, owner):
            case["causal"] = [bool(query.causal[word]) for word in words[words >= 0]]
    return out


@lru_cache(maxsize=4)
def _tokens(encoder: EncoderConfig, corpus: TitlesCorpus) -> PairTokens:
    return title_tokens(base_model(encoder), title_split(corpus).train, encoder.max_length)


class TitlesTask(PairTask):
    "Task of titles that lead to titles: P@k, propensity-scored P@k, P@1 by category and by item frequency."
    def data(self, run: RunConfig) -> tuple[PairTokens, dict]:
        split = title_split(run.corpus)
        facts = {"fingerprint": split.train.fingerprint, "counts": split.counts}
        return _tokens(run.encoder, run.corpus), {f"train {run.corpus.name}": facts}

    def test_set(self, run: RunConfig, name: str) -> tuple:
        return title_tasks, (name, run.data)

    def evaluate(self, model, run: RunConfig, name: str, test: dict[str, TitleTask], results: Tested) -> None:
        values = {}
        replicates_of = {}
        keeps_parts = "mix" in run.evaluate or run.data.by == "category" # where a table shows parts of a set
        for (suffix, task), (queries, items) in zip(test.items(), _embed(model, list(test.values()), run.encoder)):
            metrics, replicates = evaluate_retrieval(queries, items, task)
            # the metric that counts: accessories are left out where there are any
            main = "p1[ordinary]" if "p1[ordinary]" in metrics else "p1"
            hidden = set() # categories are of interest where they are held out
            if task.categories is not None and (name == "iid" or run.data.by == "year"):
                hidden = {f"p1[{category}]" for category in task.categories}
            recorded = {f"p1{suffix}": main} if suffix else {key: key for key in metrics if key not in hidden}
            values |= {new: metrics[old] for new, old in recorded.items()}
            for new, old in recorded.items():
                is_part = keeps_parts and old in replicates and (name == "iid" or "bin" not in old)
                if (old == main or is_part) and np.isfinite(replicates[old]).all():
                    limit = None if new == main else KEPT_RESAMPLES
                    replicates_of[new] = np.round(replicates[old][:limit], 4).tolist()
            results.data[f"test {name}{suffix}"] = task.info
        if "known texts" in run.measure:
            values |= overlap_shares(chain(*relevant_pairs(title_split(run.data).train)), *relevant_pairs(task))
        if name not in COMPOSED:
            queries = task.queries
            if run.data.world and name != "heldout": # a split of the world, whose words have roles
                queries = planted_catalog(run.data.world).split(name).queries
            values |= importance_shares(model, run.encoder, queries)
        results.metrics[name] = values
        results.replicates[name] = replicates_of

    def test(self, model, run: RunConfig) -> Tested:
        results = super().test(model, run)
        if "cases" in run.measure:
            excluded = ("iid", *COMPOSED, *results.missing)
            names = [name for name in run.evaluate if name not in excluded]
            results.extra["cases"] = {name: cases(model, run, name) for name in names}
        return results

    def unlabeled(self, run: RunConfig) -> tuple[str, ...]:
        return unlabeled_titles(run.method.texts, run.evaluate, run.corpus)

    load = staticmethod(title_split)


TASK = TitlesTask()
