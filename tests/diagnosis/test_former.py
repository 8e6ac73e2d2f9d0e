"Calls as they were spelled before: each warns, names the present one, and gives the same."
import pytest
from debias_nb.diagnosis.demo import offers, small_encoder

from debias_nb import TrainingSettings, compare, diagnose, diagnose_scores, diagnose_texts, label, read_pairs_file
from debias_nb.checks import ConfigError
from debias_nb.diagnosis.former import ARGUMENTS
from debias_nb.diagnosis.label import Pool

MODELS = {"base": small_encoder(0), "tuned": small_encoder(1)}
PAIRS = offers(300, 1, .2, .4)
WORDS = PAIRS.assign(label=PAIRS.label.map({0: "no", 1: "yes"})).rename(columns={"left": "one", "right": "two"})
COLUMNS = ("one", "two", "label")
SCORED = PAIRS.assign(base=PAIRS.label + .1 * PAIRS.left.str.len(), tuned=PAIRS.left.str.len())


def test_options_of_files_go_into_the_file():
    with pytest.warns(FutureWarning, match=r"read_pairs_file\(FILE, columns=..., match=...\) in place of FILE"):
        found = diagnose(*MODELS.values(), None, {"new": WORDS}, COLUMNS, match="yes")
    file = read_pairs_file(WORDS, COLUMNS, match="yes")
    assert found.json() == diagnose(*MODELS.values(), tests={"new": file}).json()


@pytest.mark.parametrize("given", [{}, {"scores": {"base": {"q": {"d": 1.}}, "tuned": {"q": {"d": 2.}}}}])
def test_scores_have_a_door(given):
    columns = ("left", "right", "label", "base", "tuned")
    with pytest.warns(FutureWarning, match="diagnose_scores"):
        if given:
            with pytest.raises(ConfigError, match="a run is for a test with queries"):
                diagnose(tests={"new": SCORED}, columns=columns, **given)
            return
        found = diagnose(tests={"new": SCORED}, columns=columns)
    file = read_pairs_file(SCORED, columns[:3], scores=columns[3:])
    assert found.json() == diagnose_scores({"new": file}).json()


def test_texts_have_a_door():
    texts = PAIRS.left.tolist()
    with pytest.warns(FutureWarning, match=r"diagnose_texts\(texts, base, tuned\)"):
        found = diagnose(**MODELS, texts=texts, seed=3, progress=False)
    assert found.sentences == diagnose_texts(texts, **MODELS, seed=3).sentences


def test_results_have_a_door():
    with (pytest.warns(FutureWarning, match="diagnose_results"),
          pytest.raises(Exception, match="nowhere: results of one model are expected")):
        diagnose(results={"base": "nowhere", "tuned": "nowhere"}, trained=["NQ"])


@pytest.mark.parametrize("asked, message", [
    ({"base": MODELS["base"], "tests": {}}, "tuned: a model is expected, or scores of both"),
    ({**MODELS, "scores": {}}, "base and tuned, or scores: one of them is expected"),
    ({"tests": {"new": SCORED}, "prompts": ("", "")}, "prompts: these need both models"),
    ({"results": {"before": "a"}}, "results: folders called base and tuned are expected"),
    ({"results": {"base": "a", "tuned": "b"}, "tests": {}, "metric": "ap"},
     "tests, metric: diagnose_results has no such arguments"),
    ({"texts": SCORED, "threshold": .5}, "threshold: diagnose_texts has no such argument"),
])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_what_did_nothing_is_refused(asked, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        diagnose(**asked)


def test_settings_of_a_training_are_one_object(tmp_path):
    asked = {"methods": "base", "seeds": 2, "folder": tmp_path, "workers": 1}
    with pytest.warns(FutureWarning, match=r"training=TrainingSettings\(epochs=...\)"):
        found = compare(MODELS["base"], PAIRS, {"new": PAIRS}, epochs=1, validation={"held": offers(200, 5, 1, 0)},
                        progress=False, **asked)
    now = compare(
        MODELS["base"], PAIRS, {"new": PAIRS}, training=TrainingSettings(epochs=1),
        validation={"held": offers(200, 5, 1, 0)}, **asked)
    assert found.json() == now.json()


def test_a_pool_is_one_object(tmp_path):
    (tmp_path / "new.txt").write_text("\n".join(PAIRS.left))
    with pytest.warns(FutureWarning, match=r"label\(base, tuned, Pool.texts\(...\)\)"):
        label(**MODELS, texts=tmp_path / "new.txt", out=tmp_path / "a.csv")
    label(**MODELS, pool=Pool.texts(tmp_path / "new.txt"), out=tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
    with pytest.warns(FutureWarning, match="Pool.pairs"):
        label(**MODELS, pool=WORDS, columns=COLUMNS[:2], out=tmp_path / "c.csv")
    assert (tmp_path / "c.csv").exists()


@pytest.mark.parametrize("function", [diagnose, compare, label])
def test_a_name_that_nobody_knows_is_a_type_error(function):
    assert "zzz" not in ARGUMENTS[function.__name__]
    with pytest.raises(TypeError):
        function(zzz=1)
