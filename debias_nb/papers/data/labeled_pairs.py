"Pairs for training and tests of runs: of synthetic datasets and of files, or as columns of a ranking loss."
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import compress

import numpy as np
from numpy.random import default_rng

from ...checks import ConfigError, check_known
from ...files import fingerprint
from ...settings import WorldConfig
from .answers import load_answers
from ..settings.pairs import PairsCorpus
from ...data.pairs import QuestionPairs, components, load_questions, question_corpora, split_questions
from .products import CATEGORIES, load_offers, load_products, load_test
from ...data.sentences import SENTENCE_KINDS, NEWS, TEXTS_ONLY, load_news, load_sentences, sentence_texts
from .titles import TitleTask
from ...data.lexicon import SPLITS
from ...data.worlds import Catalog, Pairs


@dataclass(frozen=True)
class LabeledPairs:
    "Pairs for training or for a test."
    name: str
    left: list[str]
    right: list[str]
    labels: np.ndarray                      # (n,) 0 or 1
    groups: np.ndarray | None = None        # (n,) query of each pair, where pairs share queries
    subsets: dict = field(default_factory=dict) # name -> (n,) booleans
    fingerprint: str = ""
    counts: dict | None = None              # of files
    offers: TitleTask | None = None         # of products, as retrieval

    @property
    def all_texts(self) -> list[str]:
        "The left ones first."
        return self.left + self.right

    @property
    def info(self) -> dict:
        "Fingerprint and counts, for the record."
        info = {"fingerprint": self.fingerprint, "pairs": len(self.labels), "positives": int(self.labels.sum())}
        return info if self.counts is None else info | {"counts": self.counts}


@lru_cache(maxsize=4)
def planted_catalog(world: WorldConfig) -> Catalog:
    "Make a planted catalog, once a process."
    return Catalog(world)


def _of_world(pairs: Pairs, name: str, is_test: bool) -> LabeledPairs:
    "Convert planted pairs; those of a test are grouped by query."
    left, right = pairs.texts()
    converted = LabeledPairs(
        name, left, right, pairs.labels, fingerprint=fingerprint([left, right, pairs.labels.tolist()]))
    if not is_test:
        return converted
    subsets = {"ordinary": ~pairs.accessory} if pairs.accessory.any() else {}
    return replace(converted, groups=pairs.group, subsets=subsets)


def _of_texts(pairs: QuestionPairs, name: str, **parts) -> LabeledPairs: # parts: `subsets` and `offers`
    return LabeledPairs(
        name, pairs.left, pairs.right, pairs.labels, fingerprint=pairs.fingerprint, counts=pairs.counts, **parts)


def _part_of(pairs, corpus: PairsCorpus, part: str):
    "Sample whole queries of planted pairs for training or held-out pairs, by a fixed seed."
    queries = np.unique(pairs.group)
    selection = default_rng([0, 7]).permutation(queries)[:round(corpus.holdout * len(queries))]
    if part == "train":
        remaining = np.setdiff1d(queries, selection)
        selection = default_rng([0, 8]).permutation(remaining)[:round(corpus.share * len(queries))]
    keep = np.isin(pairs.group, selection)
    return Pairs(list(compress(pairs.left, keep)), list(compress(pairs.right, keep)), pairs.group[keep])


def questions_of(
    pairs: LabeledPairs | QuestionPairs,
) -> tuple[np.ndarray, ...]: # (texts,) distinct ones; (n,) places of left and right; (texts,) numbers of questions
    "Group the distinct texts of pairs by question: duplicates, duplicates of these, and so on have the same."
    texts, places = np.unique(np.array(pairs.all_texts, dtype=object), return_inverse=True)
    left, right = places.reshape(2, -1)
    is_duplicate = pairs.labels == 1
    _, group = components(left[is_duplicate], right[is_duplicate], len(texts))
    return texts, left, right, group


def at_balance(
    pairs: QuestionPairs,    # with labels of both classes
    duplicates: int | None,  # size of the sample; None: all of them
    negatives: int,          # of each duplicate
    seed: int,
) -> QuestionPairs: # each duplicate in front of its negatives
    """Sample pairs at another balance, as in the data of paper A (1:100).

    The left text of a duplicate is paired with a random sample of all texts of these pairs, each at most once a
    duplicate, and none with the same question. Raises `ConfigError` when there are too few duplicates or texts.
    """
    rng = default_rng([seed, 11])
    matches = np.flatnonzero(pairs.labels)
    count = len(matches) if duplicates is None else duplicates
    if count > len(matches):
        raise ConfigError(f"{pairs.name}: `duplicates` is {count:,}, and there are {len(matches):,}")
    sample = rng.permutation(matches)[:count]
    texts, left, right, group = questions_of(pairs)
    alike = np.bincount(group)[group[left[sample]]]
    if negatives > len(texts) - alike.max(initial=0):
        raise ConfigError(f"{pairs.name}: `negatives` is {negatives:,}, and there are {len(texts):,} texts")

    negative_texts = np.empty((count, negatives), int)
    for row, first in zip(negative_texts, left[sample]):
        choice = {} # distinct texts in their random order
        while len(choice) < negatives:
            candidates = rng.integers(len(texts), size=negatives)
            choice |= dict.fromkeys(candidates[group[candidates] != group[first]].tolist())
        row[:] = list(choice)[:negatives]

    seconds = np.column_stack([right[sample], negative_texts])
    labels = np.zeros(seconds.shape, "int8")
    labels[:, 0] = 1
    firsts = np.repeat(left[sample], 1 + negatives)
    return QuestionPairs(
        f"{pairs.name} at 1:{negatives}", texts[firsts].tolist(), texts[seconds.ravel()].tolist(), labels.ravel(),
        pairs.counts | {"duplicates drawn": count, "negatives each": negatives})


def ranking_columns(
    pairs: LabeledPairs,
    hard: bool, # whether there is a third column
) -> tuple[list[list[str]], np.ndarray, dict]: # columns; the questions of their texts, as of `PairTokens`; counts
    """Make columns of duplicates for a ranking loss, the third one a hard negative.

    The negative is the other text of a pair that is labeled as no duplicate. If only the right text of a duplicate is
    in such a pair, the two change places; if neither is, the negative is a random text of such pairs. Raises
    `ConfigError` if there is no such pair.
    """
    texts, left, right, group = questions_of(pairs)
    is_duplicate = pairs.labels == 1
    first, second = left[is_duplicate], right[is_duplicate]
    if not hard:
        return [texts[first].tolist(), texts[second].tolist()], group[first][:, None], {"duplicates": len(first)}

    rng = default_rng([0, 17])
    negatives = np.column_stack([left, right])[~is_duplicate]
    negatives = negatives[group[negatives[:, 0]] != group[negatives[:, 1]]]
    if not len(negatives):
        raise ConfigError(f"{pairs.name}: `ranking-hard` needs pairs that are no duplicates, but there are none")
    both_ways = np.concatenate([negatives, negatives[:, ::-1]])
    negative_of = np.full(len(texts), -1)
    anchors, opposites = rng.permutation(both_ways).T
    negative_of[anchors] = opposites
    turn = (negative_of[first] < 0) & (negative_of[second] >= 0)
    first, second = np.where(turn, [second, first], [first, second])
    third = negative_of[first]
    matched = int((third >= 0).sum())
    missing = np.flatnonzero(third < 0)
    while len(missing):
        third[missing] = rng.choice(negatives.ravel(), len(missing))
        missing = missing[group[third[missing]] == group[first[missing]]]
    columns = [texts[column].tolist() for column in (first, second, third)]
    counts = {"duplicates": len(first), "with a negative of their own": matched}
    return columns, group[np.column_stack([first, third])], counts


def _test_products(name: str) -> LabeledPairs:
    test, subsets = load_test(name)
    return _of_texts(test, name, subsets=subsets, offers=load_offers(name))


def _texts_of_answers(name: str) -> list[str]:
    general = load_answers(name, "dev", require_hash=True)
    return [*general.questions, *general.answers]


def _read(kind: str, name: str, readers: dict[str, Callable]):
    "Call the reader of a name. Raises `ConfigError` for an unknown one."
    check_known(kind, name, readers, ConfigError)
    return readers[name]()


@lru_cache(maxsize=4)
def training_pairs(corpus: PairsCorpus, part: str = "train") -> LabeledPairs:
    """Load the `train` or `heldout` pairs of a corpus.

    Raises `MissingData` when its files are not there, `ConfigError` for an unknown name."""
    if corpus.name == "catalogue":
        planted_pairs = planted_catalog(corpus.world).labeled_pairs()
        return _of_world(_part_of(planted_pairs, corpus, part), corpus.name, is_test=False)
    share = 1. if corpus.whole_groups else corpus.share
    if corpus.holdout and corpus.name in (*CATEGORIES, NEWS):
        raise ConfigError(f"corpus {corpus.name!r} takes no `holdout`")
    readers = dict.fromkeys(question_corpora(), lambda: load_questions(
        corpus.name, part, share, corpus.share_seed, corpus.holdout, require_hash=True))
    readers |= dict.fromkeys(CATEGORIES, lambda: load_products(
        corpus.name, "valid" if part == "heldout" else "train", share, corpus.share_seed))
    readers[NEWS] = lambda: load_news(share, corpus.share_seed)
    pairs = _read("corpus", corpus.name, readers)
    if corpus.whole_groups:
        _, pairs = split_questions(pairs, corpus.share, corpus.share_seed)
    if corpus.negatives:
        pairs = at_balance(pairs, corpus.duplicates if part == "train" else None, corpus.negatives, 0)
    return _of_texts(pairs, corpus.name)


@lru_cache(maxsize=16)
def evaluation_pairs(name: str, corpus: PairsCorpus | None, world: WorldConfig | None) -> LabeledPairs:
    "Load an evaluation set. Raises as `training_pairs`."
    readers = {"heldout": lambda: training_pairs(corpus, "heldout")}
    readers |= dict.fromkeys(SPLITS, lambda: _of_world(planted_catalog(world).test_pairs(name), name, is_test=True))
    readers |= dict.fromkeys(
        question_corpora(), lambda: _of_texts(load_questions(name, "test", require_hash=True), name))
    readers |= dict.fromkeys(CATEGORIES, lambda: _test_products(name))
    readers |= dict.fromkeys(SENTENCE_KINDS, lambda: _of_texts(load_sentences(name), name))
    return _read("evaluation set", name, readers)


def training_texts(
    name: str, # of a corpus, or of a split of `world`
    world: WorldConfig | None = None,
) -> list[str]:
    """Load the training texts of a corpus, or titles like those of a synthetic split.

    There are as many of these as training pairs have, disjoint from training and tests. Raises as `training_pairs`.
    """
    readers = dict.fromkeys(SPLITS if world else (), lambda: [
        title.text for title in planted_catalog(world).unlabeled(name)])
    readers |= dict.fromkeys(
        (*question_corpora(), *CATEGORIES), lambda: training_pairs(PairsCorpus(name=name)).all_texts)
    readers |= dict.fromkeys((*SENTENCE_KINDS, *TEXTS_ONLY), lambda: sentence_texts(name))
    readers["qnli"] = lambda: _texts_of_answers(name)
    return _read("corpus of texts", name, readers)
