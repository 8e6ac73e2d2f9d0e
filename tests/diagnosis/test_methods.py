"Methods by name, their strengths, and how they train an encoder."
import pandas as pd
import pytest

from debias_nb.checks import ConfigError
from debias_nb.data.registry import DataError
from debias_nb.data.sentences import GENERAL_TEXTS
from debias_nb.data.texts import HeldTexts, read_held_texts
from debias_nb.diagnosis.demo import offers, small_encoder
from debias_nb.diagnosis.pairs import PairFile, read_pairs_file
from debias_nb.diagnosis.methods import DEFAULTS, check_loss, check_strength, read_method, read_methods, settings_for
from debias_nb.diagnosis.methods import tune, without_tests
from debias_nb.diagnosis.models import load_model
from debias_nb.diagnosis.programs import usual_loss
from debias_nb.measures.metrics import auc_at

LEAST_SQUARES, RANKING = "CosineSimilarityLoss", "MultipleNegativesRankingLoss"


@pytest.fixture
def texts():
    return read_held_texts(["a text of the new kind", "another one"])


def test_general_texts_that_are_tested_are_left_out_and_others_are_refused():
    file = read_pairs_file(pd.DataFrame({"left": ["Lamps, red!", "a hat"], "right": ["a boot", "a shoe"],
                                         "label": [1, 0]}))
    texts = ["lamps red", "old chairs", "kettles"]
    with pytest.raises(DataError, match="1 of 3 also occur in the test new"):
        without_tests(HeldTexts(texts, "0", "new.txt"), {"new": file})
    kept = without_tests(HeldTexts(texts, "0", GENERAL_TEXTS), {"new": file})
    assert kept.texts == texts[1:] and kept.sha256 != "0"
    assert without_tests(kept, {"new": file}) is kept


@pytest.mark.parametrize("kind, strength, words", [("lora", 1.5, "a rank is a whole number"), ("wise-ft", 2., "share")])
def test_a_strength_that_a_method_does_not_take_is_refused(kind, strength, words):
    with pytest.raises(ValueError, match=words):
        check_strength(kind, strength)
    with pytest.raises(ConfigError, match=kind):
        read_method(f"{kind}:{strength}")


def test_methods_are_read_by_name(texts):
    names = [*DEFAULTS, "l2sp", "outreg:1", "wise-ft:0.25", "outreg-texts"]
    assert [method.name for method in read_methods(names, texts)][-4:] == names[-4:]


def test_a_loss_of_another_module_is_a_method_and_what_is_none_is_refused():
    assert read_method("sentence_transformers.sentence_transformer.losses.ContrastiveLoss").source
    for wrong in ("no_such_module.MyLoss", "os.path", "os.PathLike"):
        with pytest.raises(ConfigError, match=wrong):
            read_method(wrong)


def test_a_default_strength_fits_the_loss_and_a_given_one_stays():
    assert read_method("outreg", loss=RANKING).strength > read_method("outreg").strength
    assert read_method("outreg:1", loss=RANKING).strength == 1


def test_triplets_give_a_ranking_loss_a_negative_with_each_match():
    rows = pd.DataFrame({
        "query": [0, 0, 0, 1, 1], "left": ["a lamp"] * 3 + ["a chair"] * 2,
        "right": ["lamps", "tables", "beds", "chairs", "sofas"], "label": [1, 0, 0, 1, 0]})
    triplets = PairFile("triplets", rows, "", form="candidates")
    assert usual_loss(triplets) == RANKING
    made = triplets.dataset(labeled=False).to_pandas()
    assert made.iloc[:, 1].tolist() == ["lamps", "chairs"]
    assert made.iloc[:, 2].tolist() == ["tables", "sofas"]
    assert made.shape[1] == 3
    matches = PairFile("matches", rows[rows.label == 1], "", form="retrieval")
    with pytest.raises(ConfigError, match="training has none; take MultipleNegativesRankingLoss"):
        check_loss(matches, LEAST_SQUARES)


def test_outreg_gains_less_on_offers_like_those_of_training_and_more_on_new_ones():
    tests = {"in distribution": offers(600, 0, 1, 0), "new": offers(600, 1, .2, .4)}
    train, base = read_pairs_file(offers(600, 2, 1, 0)), load_model(small_encoder())
    settings = settings_for("static", learning_rate=.05, epochs=3, batch_size=50)
    areas = {}
    for method in (read_method("plain"), read_method("outreg:1")):
        model = tune(base, train, method, settings, seed=0).model
        for name, pairs in tests.items():
            left, right = (model.encode(pairs[side].tolist(), normalize_embeddings=True) for side in ("left", "right"))
            areas[method.name, name] = auc_at(pairs.label, (left * right).sum(1))
    assert areas["outreg:1", "in distribution"] < areas["plain", "in distribution"]
    assert areas["outreg:1", "new"] > areas["plain", "new"]
