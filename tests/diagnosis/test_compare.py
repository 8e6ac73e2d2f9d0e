"A comparison of methods: each is trained, tested as `diagnose` tests, and one is recommended."
import re

import pytest

import made
from debias_nb.checks import ConfigError, EncoderError
from debias_nb.data.registry import DataError
from debias_nb.diagnosis.compare import compare
from debias_nb.diagnosis.demo import offers, small_encoder
from debias_nb.diagnosis.diagnose import diagnose
from debias_nb.diagnosis.methods import read_method, settings_for, tune
from debias_nb.diagnosis.models import load_model
from debias_nb.diagnosis.pairs import read_pairs_file

SHORT = {"learning_rate": .05, "epochs": 1, "batch_size": 50, "seeds": 2, "progress": False}
TRAIN, TESTS = offers(300, 1, 1, 0), {"like": offers(300, 2, 1, 0), "new": offers(300, 3, .2, .4)}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return compare(small_encoder(), TRAIN, TESTS, "base,wise-ft:0.25,plain,outreg", **SHORT,
                   folder=tmp_path_factory.mktemp("models"))


def test_plain_has_the_numbers_of_diagnose(found):
    base = load_model(small_encoder())
    settings = settings_for("static", learning_rate=.05, epochs=1, batch_size=50)
    tuned = tune(base, read_pairs_file(TRAIN), read_method("plain"), settings, 0)
    own = diagnose(base.model, tuned.model, TRAIN, TESTS).verdicts.query("part == 'all'").set_index(["test", "metric"])
    rows = found.scores.query("part == 'all' and seed == 0").set_index(["method", "test", "metric"]).value
    for test, metric in own.index:
        assert rows["plain", test, metric] == pytest.approx(own.tuned[test, metric])
        assert rows["base", test, metric] == pytest.approx(own.base[test, metric])


def test_page_and_line_name_one_method(found):
    made.read_page(found.html())
    method = found.recommendation.method
    assert re.fullmatch(rf"VERDICT: .* \| method={re.escape(method)}", found.verdict())
    assert found.recommendation.heading in repr(found)
    assert found.facts["next"][method] in found.html().replace("&#39;", "'")
    program = {}
    exec(found.facts["next"]["plain"], program)
    assert program["model"][0].embedding.weight.shape == small_encoder()[0].embedding.weight.shape


def test_what_was_trained_is_trained_no_more(found, monkeypatch, tmp_path):
    folder = tmp_path / "out"
    first = compare(small_encoder(), TRAIN, TESTS, "plain", **SHORT, folder=folder)
    monkeypatch.setattr("debias_nb.diagnosis.compare.tune", None)
    again = compare(small_encoder(), TRAIN, TESTS, "plain", **SHORT, folder=folder)
    assert again.scores.equals(first.scores)


@pytest.mark.parametrize("change, error, words", [
    ({"methods": "outrog"}, ConfigError, "did you mean 'outreg'"),
    ({"methods": "outreg-texts"}, ConfigError, "give texts"),
    ({"texts": TESTS["new"].left.tolist()}, DataError, "A test must not be regularized on"),
    ({"base": "nowhere"}, EncoderError, "nowhere"), ({"seeds": 1}, ConfigError, "seeds must"),
    ({"loss": "CosineSimilarityLoss", "train": TRAIN[["left", "right"]]}, ConfigError, "no match")])
def test_what_cannot_be_compared_is_refused_before_any_training(change, error, words):
    arguments = {"base": small_encoder(), "train": TRAIN, "tests": TESTS} | SHORT | change
    with pytest.raises(error, match=words):
        compare(**arguments)
