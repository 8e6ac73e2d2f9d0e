"""The pairs that runs are trained and tested on: of synthetic datasets and of files, at another balance, and as columns of a
ranking loss. What a name stands for is said once, in `sources`."""
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.random import default_rng

from ..checks import ConfigError, check_known
from ..files import fingerprint
from ..settings import WorldConfig
from .answers import load_answers
from .corpora import CorpusConfig
from .pairs import QuestionPairs, components, load_questions, question_corpora, split_questions
from .products import CATEGORIES, load_offers, load_products, load_test
from .sentences import KINDS, NEWS, TEXTS_ONLY, load_news, load_sentences, sentence_texts
from .titles import TitleTask
from .worlds import Catalog, Pairs


PLANTED = ("iid", "uncoupled", "redealt", "unseen") # splits of the planted catalog


@dataclass(frozen=True)
class LabeledPairs:
    "Pairs to train on or to be tested on."
    name: str
    left: list[str]
    right: list[str]
    labels: np.ndarray                      # (n,) 0 or 1
    groups: np.ndarray | None = None        # (n,) query of each pair, where pairs share queries
    subsets: dict = field(default_factory=dict) # name -> (n,) booleans
    info: dict = field(default_factory=dict)    # fingerprint and counts, for the record
    offers: TitleTask | None = None             # of products: who asks for whom

    @property
    def all_texts(self) -> list[str]:
        "The left ones first."
        return self.left + self.right


@lru_cache(maxsize=4)
def planted_catalog(world: WorldConfig) -> Catalog:
    "A planted catalog, drawn once a process."
    return Catalog(world)


def _of_world(pairs, name: str, is_test: bool) -> LabeledPairs:
    "Planted pairs; in a test they are grouped by query."
    left, right = pairs.texts()
    labels = pairs.labels
    info = {
        "fingerprint": fingerprint([left, right, labels.tolist()]), "pairs": len(labels), "positives": int(labels.sum())}
    if not is_test:
        return LabeledPairs(name, left, right, labels, info=info)
    subsets = {"ordinary": ~pairs.accessory} if pairs.accessory.any() else {}
    return LabeledPairs(name, left, right, labels, pairs.group, subsets, info)


def _of_texts(found: QuestionPairs, name: str, subsets=None, offers=None) -> LabeledPairs:
    info = {
        "fingerprint": found.fingerprint, "pairs": len(found.labels), "positives": int(found.labels.sum()),
        "counts": found.counts}
    return LabeledPairs(name, found.left, found.right, found.labels, None, subsets or {}, info, offers)


def _part_of(pairs, corpus: CorpusConfig, part: str):
    "Planted training pairs, or those held out, by the corpus's own seed; whole queries are drawn."
    queries = np.unique(pairs.group)
    kept = default_rng([0, 7]).permutation(queries)[:round(corpus.holdout * len(queries))]
    if part == "train":
        rest = np.setdiff1d(queries, kept)
        kept = default_rng([0, 8]).permutation(rest)[:round(corpus.share * len(queries))]
    keep = np.isin(pairs.group, kept)
    return Pairs(list(compress(pairs.left, keep)), list(compress(pairs.right, keep)), pairs.group[keep])


def questions_of(
    pairs: LabeledPairs | QuestionPairs,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]: # texts; (n,) left and (n,) right ones; (texts,) what each asks
    "Distinct texts, and which of them ask the same: duplicates, duplicates of these, and so on."
    texts, places = np.unique(np.array(pairs.all_texts, dtype=object), return_inverse=True)
    left, right = places.reshape(2, -1)
    known = pairs.labels == 1
    _, group = components(left[known], right[known], len(texts))
    return texts, left, right, group


def at_balance(
    pairs: QuestionPairs,    # with labels of both classes
    duplicates: int | None,  # how many are drawn; None: all of them
    negatives: int,          # texts for each of them that are no duplicates of it
    seed: int,
) -> QuestionPairs: # each duplicate in front of its negatives
    """Duplicates at another balance, as in the data of paper A (1:100): the left text of a duplicate next to texts drawn
    at random from all texts of these pairs, each text once a duplicate, none that is known to ask the same.
    Raises `ConfigError` when there are fewer duplicates or texts than asked for."""
    rng = default_rng([seed, 11])
    known = np.flatnonzero(pairs.labels)
    count = len(known) if duplicates is None else duplicates
    if count > len(known):
        raise ConfigError(f"{pairs.name}: `duplicates` is {count:,}, and there are {len(known):,}")
    drawn = rng.permutation(known)[:count]
    texts, left, right, group = questions_of(pairs)
    alike = np.bincount(group)[group[left[drawn]]]
    if negatives > len(texts) - alike.max(initial=0):
        raise ConfigError(f"{pairs.name}: `negatives` is {negatives:,}, and there are {len(texts):,} texts")

    others = np.empty((count, negatives), int)
    for row, first in zip(others, left[drawn]):
        found = {} # texts in the order in which they are drawn, each once
        while len(found) < negatives:
            more = rng.integers(len(texts), size=negatives)
            found |= dict.fromkeys(more[group[more] != group[first]].tolist())
        row[:] = list(found)[:negatives]

    seconds = np.column_stack([right[drawn], others])
    labels = np.zeros(seconds.shape, "int8")
    labels[:, 0] = 1
    firsts = np.repeat(left[drawn], 1 + negatives)
    return QuestionPairs(
        f"{pairs.name} at 1:{negatives}", texts[firsts].tolist(), texts[seconds.ravel()].tolist(), labels.ravel(),
        pairs.counts | {"duplicates drawn": count, "negatives each": negatives})


def ranking_columns(
    pairs: LabeledPairs,
    hard: bool, # whether there is a third column
) -> tuple[list[list[str]], np.ndarray, dict]: # columns; what their texts ask, as of `PairTokens`; counts
    """Duplicates for a ranking loss, and a text that asks something else: the other text of a pair that is known to be no
    duplicate. Where only the right text of a duplicate stands in such a pair, the two change places; where neither does,
    the third text is drawn from all such pairs. Raises `ConfigError` where there is no such pair."""
    texts, left, right, group = questions_of(pairs)
    known = pairs.labels == 1
    first, second = left[known], right[known]
    if not hard:
        return [texts[first].tolist(), texts[second].tolist()], group[first][:, None], {"duplicates": len(first)}

    rng = default_rng([0, 17])
    others = np.column_stack([left, right])[~known]
    others = others[group[others[:, 0]] != group[others[:, 1]]]
    if not len(others):
        raise ConfigError(f"{pairs.name}: `ranking-hard` needs pairs that are no duplicates, and there are none")
    both_ways = np.concatenate([others, others[:, ::-1]])
    beside = np.full(len(texts), -1)
    of, what = rng.permutation(both_ways).T
    beside[of] = what
    turn = (beside[first] < 0) & (beside[second] >= 0)
    first, second = np.where(turn, [second, first], [first, second])
    third = beside[first]
    own = int((third >= 0).sum())
    lacking = np.flatnonzero(third < 0)
    while len(lacking):
        third[lacking] = rng.choice(others.ravel(), len(lacking))
        lacking = lacking[group[third[lacking]] == group[first[lacking]]]
    columns = [texts[column].tolist() for column in (first, second, third)]
    return columns, group[np.column_stack([first, third])], {"duplicates": len(first), "with a negative of their own": own}


class Source(NamedTuple):
    "How the texts of one name are read; None for what it does not have."
    train: Callable[[CorpusConfig, str, float], QuestionPairs] | None = None # of a corpus, a part and a share of it
    test: Callable[[str], LabeledPairs] | None = None
    texts: Callable[[str], list[str]] | None = None # unlabeled


def _train_questions(corpus: CorpusConfig, part: str, share: float) -> QuestionPairs:
    return load_questions(corpus.name, part, share, corpus.share_seed, corpus.holdout)


def _test_questions(name: str) -> LabeledPairs:
    return _of_texts(load_questions(name, "test"), name)


def _train_products(corpus: CorpusConfig, part: str, share: float) -> QuestionPairs:
    return load_products(corpus.name, "valid" if part == "heldout" else "train", share, corpus.share_seed)


def _test_products(name: str) -> LabeledPairs:
    test, subsets = load_test(name)
    return _of_texts(test, name, subsets, load_offers(name))


def _train_news(corpus: CorpusConfig, part: str, share: float) -> QuestionPairs:
    return load_news(share, corpus.share_seed)


def _test_sentences(name: str) -> LabeledPairs:
    return _of_texts(load_sentences(name), name)


def _texts_of_training(name: str) -> list[str]:
    return training_pairs(CorpusConfig(name=name)).all_texts


def _texts_of_answers(name: str) -> list[str]:
    general = load_answers(name, "dev")
    return [*general.questions, *general.answers]


def sources() -> dict[str, Source]:
    "Every name of real texts that a run may be trained on, tested on or held on."
    return {
        **dict.fromkeys(question_corpora(), Source(_train_questions, _test_questions, _texts_of_training)),
        **dict.fromkeys(CATEGORIES, Source(_train_products, _test_products, _texts_of_training)),
        **dict.fromkeys(KINDS, Source(None, _test_sentences, sentence_texts)),
        **dict.fromkeys(TEXTS_ONLY, Source(None, None, sentence_texts)),
        NEWS: Source(_train_news, _test_sentences, sentence_texts),
        "qnli": Source(None, None, _texts_of_answers), # sentences of no corpus that anybody trains on here
    }


def source(what: str, name: str, kind: str, others: tuple[str, ...] = ()) -> Source: # kind: a field; others: known, not read here
    "The source of a name. Raises `ConfigError` for a name that has none of this kind."
    known = {one: source for one, source in sources().items() if getattr(source, kind)}
    check_known(what, name, (*known, *others), ConfigError)
    return known[name]


@lru_cache(maxsize=4)
def training_pairs(corpus: CorpusConfig, part: str = "train") -> LabeledPairs: # part: `train` or `heldout`
    "The pairs of a corpus. Raises `MissingData` when its files are not there, `ConfigError` for an unknown name."
    if corpus.name == "catalogue":
        drawn = planted_catalog(corpus.world).labeled_pairs()
        return _of_world(_part_of(drawn, corpus, part), corpus.name, is_test=False)
    own = source("corpus", corpus.name, "train", ("catalogue",))
    if corpus.holdout and corpus.name not in question_corpora():
        raise ConfigError(f"corpus {corpus.name!r} takes no `holdout`")
    pairs = own.train(corpus, part, 1. if corpus.whole_groups else corpus.share)
    if corpus.whole_groups:
        _, pairs = split_questions(pairs, corpus.share, corpus.share_seed)
    if corpus.negatives:
        pairs = at_balance(pairs, corpus.duplicates if part == "train" else None, corpus.negatives, 0)
    return _of_texts(pairs, corpus.name)


@lru_cache(maxsize=16)
def evaluation_pairs(name: str, corpus: CorpusConfig | None, world: WorldConfig | None) -> LabeledPairs:
    "An evaluation set. Raises as `training_pairs`."
    if name == "heldout":
        return training_pairs(corpus, "heldout")
    if name in PLANTED:
        return _of_world(planted_catalog(world).test_pairs(name), name, is_test=True)
    return source("evaluation set", name, "test", (*PLANTED, "heldout")).test(name)


def training_texts(
    name: str, # of a corpus; of a split, where there is a world
    world: WorldConfig | None = None,
) -> list[str]:
    """Its training texts; in a synthetic dataset as many titles of a split's kind, drawn apart from training and tests.
    Raises as `training_pairs`."""
    if world and name in PLANTED:
        return [title.text for title in planted_catalog(world).unlabeled(name)]
    return source("corpus of texts", name, "texts", PLANTED if world else ()).texts(name)
