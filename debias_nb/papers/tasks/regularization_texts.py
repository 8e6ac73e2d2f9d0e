"Unlabeled texts on which an encoder is regularized, disjoint from the tests."
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from numpy.random import default_rng

from ...checks import ConfigError
from ..settings.pairs import PairsCorpus
from ..data.labeled_pairs import evaluation_pairs, training_texts
from ...data.pairs import fold
from ...settings import WorldConfig
from ...runs.settings import TextsConfig
from ...runs.tasks import lacking


def without_test_texts(
    config: TextsConfig,
    texts: Iterable[str],  # of its corpora
    test_texts: Iterable[str],
) -> tuple[str, ...]: # at least two
    """Return the distinct texts in random order, without those that are tested.

    Raise `ConfigError` if fewer than two are left.
    """
    by_fold = {}
    for text in texts:
        by_fold.setdefault(fold(text, True), text)
    for text in test_texts:
        by_fold.pop(fold(text, True), None)
    texts = list(by_fold.values())
    if len(texts) < 2:
        names = ", ".join(config.corpora)
        raise ConfigError(f"texts: {len(texts)} of {names} are in no test, and the others are not regularized on: two "
                          "are needed")
    order = default_rng([0, 13]).permutation(len(texts))
    count = max(2, round(config.share * len(texts)))
    return tuple(texts[place] for place in order[:count])


@lru_cache(maxsize=8)
def unlabeled_texts(
    config: TextsConfig,
    evaluate: tuple[str, ...],         # names of evaluation sets
    corpus: PairsCorpus | None = None, # of these
    world: WorldConfig | None = None,
) -> tuple[str, ...]:
    """Return the texts that a run is regularized on, of `without_test_texts`; a test without files tests nothing.

    Raise as `training_texts`.
    """
    texts = [training_texts(name, world) for name in config.corpora]
    available = [name for name in evaluate if not lacking(evaluation_pairs, name, corpus, world)]
    test_texts = [evaluation_pairs(name, corpus, world).all_texts for name in available]
    return without_test_texts(config, chain(*texts), chain(*test_texts))
