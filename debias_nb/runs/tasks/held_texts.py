"Unlabeled texts that an encoder is held on, of which none is tested."
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from numpy.random import default_rng

from ...checks import ConfigError
from ...data.corpora import CorpusConfig
from ...data.labeled_pairs import evaluation_pairs, training_texts
from ...data.pairs import fold
from ...settings import WorldConfig
from ..config import TextsConfig
from .common import lacking


def untested(
    asked: TextsConfig,
    texts: Iterable[str],  # of its corpora
    tested: Iterable[str],
) -> tuple[str, ...]: # at least two
    "The distinct texts in random order, without those that are tested. Raises `ConfigError` where fewer than two are left."
    found = {}
    for text in texts:
        found.setdefault(fold(text, True), text)
    for text in tested:
        found.pop(fold(text, True), None)
    texts = list(found.values())
    if len(texts) < 2:
        names = ", ".join(asked.corpora)
        raise ConfigError(f"texts: {len(texts)} of {names} are not tested, and what is tested is not held: two are needed")
    order = default_rng([0, 13]).permutation(len(texts))
    count = max(2, round(asked.share * len(texts)))
    return tuple(texts[place] for place in order[:count])


@lru_cache(maxsize=8)
def unlabeled_texts(
    asked: TextsConfig,
    evaluate: tuple[str, ...],         # names of evaluation sets
    corpus: CorpusConfig | None = None, # of these
    world: WorldConfig | None = None,
) -> tuple[str, ...]:
    "The texts that a run is held on, of `untested`; a test whose files are not there tests nothing. Raises as `training_texts`."
    texts = [training_texts(name, world) for name in asked.corpora]
    there = [name for name in evaluate if not lacking(evaluation_pairs, name, corpus, world)]
    tested = [evaluation_pairs(name, corpus, world).all_texts for name in there]
    return untested(asked, chain(*texts), chain(*tested))
