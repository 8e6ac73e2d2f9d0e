"Training pairs at another balance, and texts that an encoder is held on."
import copy
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from debias_nb.config import ConfigError, EncoderConfig, PretrainConfig, WorldConfig
from debias_nb.data.pairs import QuestionPairs
from debias_nb.data.registry import MissingData
from debias_nb.data.worlds import Catalogue
from debias_nb.loading import load_encoder
from debias_nb.repro.config import CorpusConfig, MethodConfig, TextsConfig, TrainConfig
from debias_nb.repro.runs.tasks import pairs
from debias_nb.repro.runs.tasks.pairs import at_balance
from debias_nb.repro.runs.training import fine_tune, pair_tokens

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


def test_the_seed_alone_decides_and_all_duplicates_are_taken_where_no_number_is_given():
    assert rows(at_balance(PAIRS, 2, 3, 1)) == rows(at_balance(PAIRS, 2, 3, 1))
    assert len({str(rows(at_balance(PAIRS, 2, 3, seed))) for seed in range(5)}) > 1
    assert at_balance(PAIRS, None, 2, 0).labels.sum() == PAIRS.labels.sum()


@pytest.mark.parametrize("duplicates, negatives, says", [(4, 1, "there are 3"), (1, 6, "there are 8 texts")])
def test_more_than_there_is(duplicates, negatives, says):
    with pytest.raises(ConfigError, match=says):
        at_balance(PAIRS, duplicates, negatives, 0)


@pytest.mark.parametrize("settings", [{"duplicates": 5}, {"negatives": 5}, {"duplicates": 5, "negatives": 5, "share": .5}])
def test_settings_that_do_not_go_together(settings):
    with pytest.raises(ValueError, match="`duplicates`"):
        CorpusConfig(name="askubuntu", **settings)


# other texts

def _tested(name, *further):
    if name == "superuser":
        raise MissingData("superuser/test.tsv is missing")
    return SimpleNamespace(all_texts=["why is it"])


@pytest.fixture
def corpora(monkeypatch):
    "Two corpora of four texts each; one text of `quora` is tested, written otherwise."
    texts = {"quora": ["What?", "Why is it?", "How", "Who"], "askubuntu": ["Ubuntu", "Who", "apt", "sudo"]}
    monkeypatch.setattr(pairs, "training_pairs", lambda corpus: SimpleNamespace(all_texts=texts[corpus.name]))
    monkeypatch.setattr(pairs, "evaluation_pairs", _tested)
    pairs.held_texts.cache_clear()
    yield
    pairs.held_texts.cache_clear()


def test_texts_of_several_corpora_stand_once_and_what_is_tested_is_never_held(corpora):
    tested = pairs.held_texts(TextsConfig(corpora=["quora"]), ("superuser", "quora"))
    assert set(tested) == {"What?", "How", "Who"}
    several = pairs.held_texts(TextsConfig(corpora=["quora", "askubuntu"]), ())
    assert Counter(several) == Counter(["What?", "Why is it?", "How", "Who", "Ubuntu", "apt", "sudo"])
    everything, half = (pairs.held_texts(TextsConfig(corpora=["quora"], share=share), ()) for share in (1, .5))
    assert half == everything[:2]
    with pytest.raises(ConfigError, match="did you mean 'quora'"):
        pairs.held_texts(TextsConfig(corpora=["qoura"]), ())


@pytest.mark.parametrize("settings", [{}, {"regulariser": "l2sp"}, {"regulariser": "outreg", "rows": .5}])
def test_texts_belong_to_a_regulariser_of_texts(settings):
    with pytest.raises(ValueError, match="`texts` belongs"):
        MethodConfig(name="x", texts={"corpora": ["quora"]}, **settings)


def trained(base, course_seed=0, **method):
    "Weights after an epoch on planted pairs, held on other texts of their world."
    world = Catalogue(WORLD)
    labelled = world.labelled_pairs()
    left, right = labelled.texts()
    texts = [text.text for text in world.split("unseen").items]
    model = copy.deepcopy(base)
    method = MethodConfig(name="x", weight=1., texts={"corpora": ["catalogue"]}, **method)
    training = TrainConfig(learning_rate=1e-2, epochs=1, batch_size=50)
    fine_tune(model, base, pair_tokens(base, left, right, labelled.labels), method, training, course_seed, texts=texts)
    return model[0].embedding.weight.detach()


WORLD = WorldConfig(types=12, unseen_types=4, train_pairs=200, broad_pairs=200)


@pytest.mark.parametrize("method", [{"regulariser": "outreg"}, {"regulariser": "itvreg", "mask_share": .5}])
def test_a_run_with_texts_depends_on_its_seed_alone(method):
    base = load_encoder(EncoderConfig(
        name="tiny", kind="static", world=WORLD, pretrain=PretrainConfig(steps=5, batch_size=16)))
    once = trained(base, **method)
    np.random.seed(5) # of a stream that nothing of a run may read
    assert once.equal(trained(base, **method))
    assert not once.equal(trained(base, course_seed=1, **method))
