"Training pairs at another balance, and texts that an encoder is held on."
import copy
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from debias_nb.checks import ConfigError
from debias_nb.settings import EncoderConfig, PretrainConfig, WorldConfig
from debias_nb.data.pairs import QuestionPairs
from debias_nb.data.registry import MissingData
from debias_nb.data.worlds import Catalog
from debias_nb.encoders.loading import load_encoder
from debias_nb.papers.settings.pairs import PairsCorpus
from debias_nb.runs.settings import PairMethod, PairTraining, TextsConfig
from debias_nb.papers.tasks import pairs, regularization_texts
from debias_nb.papers.data import labeled_pairs
from debias_nb.papers.data.labeled_pairs import LabeledPairs, at_balance, ranking_columns
from debias_nb.runs.pair_batches import PairCollator, ranking_tokens
from debias_nb.runs.training import fine_tune

# a, b and c ask the same; so do d and e
PAIRS = QuestionPairs(
    "made", ["a", "b", "d", "f", "g", "a"], ["b", "c", "e", "g", "h", "f"], np.array([1, 1, 1, 0, 0, 0], "int8"))
ALIKE = [{"a", "b", "c"}, {"d", "e"}, {"f"}, {"g"}, {"h"}]


def rows(pairs_found):
    return list(zip(pairs_found.left, pairs_found.right, pairs_found.labels.tolist()))


@pytest.mark.parametrize("seed", range(20))
def test_negatives_are_other_texts_each_once(seed):
    pairs_found = at_balance(PAIRS, 2, 5, seed)
    assert len(pairs_found) == 2 * 6
    arguments = set(rows(PAIRS))
    for start in (0, 6):
        duplicate, *columns = rows(pairs_found)[start:start + 6]
        assert duplicate in arguments and duplicate[2] == 1
        group, = [group for group in ALIKE if duplicate[0] in group]
        samples = [right for left, right, label in columns]
        assert {(left, label) for left, _, label in columns} == {(duplicate[0], 0)}
        assert len(set(samples)) == 5 and not group & set(samples)


# other texts

def _test_texts(name, *arguments):
    if name == "superuser":
        raise MissingData("superuser/test.tsv is missing")
    return SimpleNamespace(all_texts=["why is it"])


@pytest.fixture
def corpora(monkeypatch, nothing_kept):
    "Two corpora of four texts each; one text of `quora` is tested, written otherwise."
    texts = {"quora": ["What?", "Why is it?", "How", "Who"], "askubuntu": ["Ubuntu", "Who", "apt", "sudo"]}
    monkeypatch.setattr(labeled_pairs, "training_pairs", lambda corpus: SimpleNamespace(all_texts=texts[corpus.name]))
    monkeypatch.setattr(regularization_texts, "evaluation_pairs", _test_texts)


def test_texts_of_several_corpora_stand_once_and_what_is_tested_is_never_held(corpora):
    texts = regularization_texts.unlabeled_texts(TextsConfig(corpora=["quora"]), ("superuser", "quora"))
    assert set(texts) == {"What?", "How", "Who"}
    several = regularization_texts.unlabeled_texts(TextsConfig(corpora=["quora", "askubuntu"]), ())
    assert Counter(several) == Counter(["What?", "Why is it?", "How", "Who", "Ubuntu", "apt", "sudo"])
    everything, half = (regularization_texts.unlabeled_texts(TextsConfig(corpora=["quora"], share=share), ())
                        for share in (1, .5))
    assert half == everything[:2]
    with pytest.raises(ConfigError, match="did you mean 'quora'"):
        regularization_texts.unlabeled_texts(TextsConfig(corpora=["qoura"]), ())


def test_texts_of_a_planted_world_are_of_a_split_and_none_of_them_is_tested():
    config = TextsConfig(corpora=["unseen", "uncoupled"])
    texts = regularization_texts.unlabeled_texts(config, ("iid", "unseen"), None, WORLD)
    world = Catalog(WORLD)
    world_texts = [title.text for name in config.corpora for title in world.unlabeled(name)]
    test_texts = {text for name in ("iid", "unseen") for side in world.test_pairs(name).texts() for text in side}
    assert set(texts) == set(world_texts) - test_texts and len(texts) > 300
    with pytest.raises(ConfigError, match="did you mean 'unseen'"):
        regularization_texts.unlabeled_texts(TextsConfig(corpora=["unsen"]), (), None, WORLD)
    with pytest.raises(ConfigError, match="corpus of texts 'unseen'"): # where there is no world
        regularization_texts.unlabeled_texts(TextsConfig(corpora=["unseen"]), ())


WORLD = WorldConfig(types=12, unseen_types=4, train_pairs=200, broad_pairs=200)


# duplicates for a ranking loss

# the first and the third duplicate have a negative of their own, the third by its right text
LABELED_PAIRS = LabeledPairs(
    "made", ["a", "d", "g", "a", "k", "b"], ["b", "e", "h", "f", "h", "a"], np.array([1, 1, 1, 0, 0, 0]))


def group_of(text):
    return next((number for number, group in enumerate(("ab", "de", "gh")) if text in group), text)


def test_a_third_column_is_a_known_negative_where_there_is_one_and_never_asks_the_same():
    (first, second, third), asks, counts = ranking_columns(LABELED_PAIRS, hard=True)
    assert counts == {"duplicates": 3, "with a negative of their own": 2}
    assert list(zip(first, second)) == [("a", "b"), ("d", "e"), ("h", "g")] # the third has changed places
    assert (third[0], third[2]) == ("f", "k") and third[1] in "afhkgb"
    for texts, row in zip(zip(first, third), asks): # numbers are alike where what is asked is
        assert (row[0] == row[1]) == (group_of(texts[0]) == group_of(texts[1]))
    repetition, *_ = ranking_columns(LABELED_PAIRS, hard=True)
    assert repetition == [first, second, third]
    columns, asks, counts = ranking_columns(LABELED_PAIRS, hard=False)
    assert columns == [["a", "d", "g"], ["b", "e", "h"]] and asks.shape == (3, 1) and counts == {"duplicates": 3}


@pytest.fixture(scope="module")
def tiny():
    return load_encoder(EncoderConfig(
        name="tiny", kind="static", world=WORLD, pretrain=PretrainConfig(steps=5, batch_size=16)))


def rank(base, loss="ranking", seed=0, batch_size=8, method=None):
    "Weights after two epochs on duplicates of planted texts that ask in groups of four, and the rows of each batch."
    left, right = Catalog(WORLD).labeled_pairs().texts()
    columns = [left[:60], right[:60]]
    asks = np.arange(60)[:, None] // 4
    if loss == "ranking-hard":
        columns.append(right[60:120])
        asks = np.hstack([asks, (asks + 7) % 15])
    tokens = ranking_tokens(base, columns, asks)
    batches = []

    class Noting(PairCollator):
        def __call__(self, features):
            batches.append([feature["row"] for feature in features])
            return super().__call__(features)

    model = copy.deepcopy(base)
    training = PairTraining(loss=loss, learning_rate=1e-2, epochs=2, batch_size=batch_size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("debias_nb.runs.training.PairCollator", Noting)
        fine_tune(model, base, tokens, method or PairMethod(name="x"), training, seed)
    return model[0].embedding.weight.detach(), batches, asks


@pytest.mark.parametrize("loss, batch_size", [("ranking", 8), ("ranking-hard", 6)])
def test_no_batch_of_a_ranking_loss_has_a_false_negative_and_the_seed_orders_them(tiny, loss, batch_size):
    weights, batches, asks = rank(tiny, loss, batch_size=batch_size)
    assert len(batches) == 2 * (60 // batch_size) and {len(rows) for rows in batches} == {batch_size}
    for rows in batches:
        questions = asks[rows, 0].tolist()
        columns = asks[rows, 1:].ravel().tolist()
        assert len(set(questions)) == batch_size and not set(questions) & set(columns)
    assert not weights.equal(tiny[0].embedding.weight)
    repetition, in_order, _ = rank(tiny, loss, batch_size=batch_size)
    assert repetition.equal(weights) and in_order == batches
    _, otherwise, _ = rank(tiny, loss, seed=1, batch_size=batch_size)
    assert otherwise != batches


@pytest.fixture
def search(monkeypatch, nothing_kept):
    monkeypatch.setattr(pairs, "evaluation_pairs", lambda *arguments: LABELED_PAIRS)
    return pairs.search_of("made", None, None)


def test_left_texts_with_a_duplicate_search_all_right_texts_but_themselves(search):
    assert search.queries == ["a", "d", "g"]
    assert search.items == sorted(set(LABELED_PAIRS.right))
    relevant = [{search.items[item] for item in row.nonzero()[0]} for row in search.relevance.toarray()]
    assert relevant == [{"b"}, {"e"}, {"h"}]
    itself = [[search.items[item] for item in row.nonzero()[0]] for row in search.barred.toarray()]
    assert itself == [["a"], [], []]


def test_each_seed_draws_its_own_pairs_and_what_shares_texts_stays_together(monkeypatch, nothing_kept):
    chains = [(f"{i}{a}", f"{i}{b}", int(a == 0)) for i in range(40) for a, b in ((0, 1), (1, 2))]
    left, right, labels = zip(*chains)
    everything = QuestionPairs("made", list(left), list(right), np.array(labels, "int8"))
    monkeypatch.setattr(labeled_pairs, "load_questions", lambda *names, **options: everything)
    samples = [labeled_pairs.training_pairs(PairsCorpus(name="quora", share=.5, share_seed=seed, whole_groups=True))
               for seed in range(3)]
    assert len({sample.info["fingerprint"] for sample in samples}) == 3
    for sample in samples:
        assert len(sample.labels) == 40 and sample.labels.sum() == 20
        assert set(Counter(text[:-1] for text in sample.left).values()) == {2}


def test_pairs_that_share_texts_are_resampled_together_where_a_run_says_so(monkeypatch):
    test_side = LabeledPairs("made", ["q"] * 30 + [f"l{i}" for i in range(970)], [f"r{i}" for i in range(1000)],
                             np.arange(1000) % 2)
    samples = []
    monkeypatch.setattr(pairs, "vectors",
                        lambda model, texts, encoder: torch.nn.functional.normalize(torch.ones(len(texts), 2)))
    monkeypatch.setattr(pairs, "evaluate_pairs", lambda *arguments, **changes: samples.append(arguments[2])
                        or ({"auc05": 1.}, {"auc05": [1.]}))
    for measure in ((), ("shared texts",)):
        run = SimpleNamespace(encoder=None, measure=measure, data=None, corpus=None, eval_world=None)
        pairs.TASK.evaluate(None, run, "made", test_side, SimpleNamespace(metrics={}, replicates={}, data={}))
    assert samples[0] is None
    assert len(set(samples[1][:30])) == 1 and len(set(samples[1])) == 971
