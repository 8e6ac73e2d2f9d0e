"Training pairs at another balance."
from collections import Counter

import numpy as np
import pytest

from debias_nb.config import ConfigError
from debias_nb.data.questions import QuestionPairs
from debias_nb.repro.config import CorpusConfig
from debias_nb.repro.runs.tasks.pairs import at_balance

# a, b and c ask the same; so do d and e
PAIRS = QuestionPairs(
    "made", ["a", "b", "d", "f", "g", "a"], ["b", "c", "e", "g", "h", "f"], np.array([1, 1, 1, 0, 0, 0], "int8"))
ALIKE = [{"a", "b", "c"}, {"d", "e"}, {"f"}, {"g"}, {"h"}]


def rows(found):
    return list(zip(found.left, found.right, found.labels.tolist()))


@pytest.mark.parametrize("seed", range(20))
def test_negatives_are_other_texts_each_once(seed):
    found = at_balance(PAIRS, 2, 5, seed)
    assert len(found) == 2 * 6
    given = set(rows(PAIRS))
    for start in (0, 6):
        duplicate, *others = rows(found)[start:start + 6]
        assert duplicate in given and duplicate[2] == 1
        group, = [group for group in ALIKE if duplicate[0] in group]
        drawn = [right for left, right, label in others]
        assert {(left, label) for left, _, label in others} == {(duplicate[0], 0)}
        assert len(set(drawn)) == 5 and not group & set(drawn)


def test_every_text_that_may_be_drawn_is_drawn_as_often():
    counts = Counter(
        right for seed in range(2000) for left, right, label in rows(at_balance(PAIRS, 1, 2, seed))
        if left in ALIKE[0] and not label)
    assert counts.keys() == {"d", "e", "f", "g", "h"}
    assert max(counts.values()) < 1.2 * min(counts.values())


def test_the_seed_alone_decides():
    assert rows(at_balance(PAIRS, 2, 3, 1)) == rows(at_balance(PAIRS, 2, 3, 1))
    assert len({str(rows(at_balance(PAIRS, 2, 3, seed))) for seed in range(5)}) > 1


def test_all_duplicates_where_no_number_is_given():
    assert at_balance(PAIRS, None, 2, 0).labels.sum() == PAIRS.labels.sum()


@pytest.mark.parametrize("duplicates, negatives, says", [(4, 1, "there are 3"), (1, 6, "there are 8 texts")])
def test_more_than_there_is(duplicates, negatives, says):
    with pytest.raises(ConfigError, match=says):
        at_balance(PAIRS, duplicates, negatives, 0)


@pytest.mark.parametrize("settings", [{"duplicates": 5}, {"negatives": 5}, {"duplicates": 5, "negatives": 5, "share": .5}])
def test_settings_that_do_not_go_together(settings):
    with pytest.raises(ValueError, match="`duplicates`"):
        CorpusConfig(name="askubuntu", **settings)
