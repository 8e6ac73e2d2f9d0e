"An all-clear without labels: what changed, what ranks allow, and that its sentences are those of the records."
import itertools
import json

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from debias_nb import DiagnosisEvaluator, diagnose, diagnose_texts
from debias_nb.checks import ConfigError, EncoderError
from debias_nb.data.registry import DataError
from debias_nb.diagnosis.all_clear import all_clear, largest_loss, neighbors, read_unlabeled, what_trials_say
from debias_nb.diagnosis.demo import offers, small_encoder
from debias_nb.diagnosis.models import load_model
from debias_nb.files import load_yaml, project_root, sha256_file
from debias_nb.losses.averaging import wise_ft
from debias_nb.commands.cli import app

PAIRS = offers(400, 3, .2, .4)
TEXTS = PAIRS.left.tolist()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    base, other = small_encoder(0), small_encoder(1)
    for name, model in {"base": base, "near": wise_ft(base, other, .001), "far": other}.items():
        model.save(str(folder / name))
    return folder


def scorers(models, tuned):
    return {"base": load_model(models / "base"), "tuned": load_model(models / tuned)}


# What is refused.

SCORED = PAIRS[["left", "right"]].assign(base=np.linspace(0, 1, len(PAIRS)), tuned=np.linspace(0, 1, len(PAIRS)) ** 2)


@pytest.mark.parametrize("texts, message", [
    (SCORED[:3].assign(tuned=[.3, .2, .1]), "pairs or more are needed, got 3"),
    (SCORED.assign(base=.5), "all scores are the same in the base model"),
    (SCORED.assign(tuned=SCORED.base), "base and tuned have the same scores"),
    (pd.DataFrame([["a", "b"]] * 20, columns=["text", "text"]), "one column 'text' is expected, found 2"),
    (pd.DataFrame(), "texts are expected"),
])
def test_texts_that_say_nothing_are_refused(texts, message):
    with pytest.raises(DataError, match=message):
        diagnose_texts(texts)


def test_texts_that_a_model_crowds_are_told(models):
    "A model whose vectors share a large part hardly tells texts apart."
    crowded = small_encoder(1)
    with torch.no_grad():
        crowded[0].embedding.weight += 20 * crowded[0].embedding.weight.std()
    found = diagnose_texts(TEXTS, models / "base", crowded)
    [line] = [text for text in found.sentences if text.startswith("Two random texts")]
    assert "hardly tells texts apart" in line
    [line] = [text for text in diagnose_texts(TEXTS, models / "base", models / "near").sentences
              if text.startswith("Two random texts")]
    assert "hardly" not in line


# What is measured.

def area(rows: tuple[int, ...], scores: np.ndarray) -> float:
    "How often a match, of these rows, is above another; a tie is half of it."
    is_match = np.isin(range(len(scores)), rows)
    apart = scores[is_match][:, None] - scores[~is_match]
    return ((apart > 0) + (apart == 0) / 2).mean()


def test_the_bound_of_ranks_is_reached_and_never_passed():
    rng = np.random.default_rng(0)
    for _ in range(30):
        base, tuned = rng.integers(0, 6, (2, 7))
        losses = {matches: max(area(rows, base) - area(rows, tuned)
                               for rows in itertools.combinations(range(7), matches))
                  for matches in range(1, 7)}
        for matches, loss in losses.items():
            assert largest_loss(base, tuned, matches / 7, matches / 7) == pytest.approx(max(0, loss))
        assert largest_loss(base, tuned, 2 / 7, 4 / 7) == pytest.approx(max(0, losses[2], losses[3], losses[4]))


def test_neighbors_are_those_of_all_cosines(models):
    texts = list(dict.fromkeys(TEXTS))
    near = neighbors(load_model(models / "base"), texts)
    vectors = small_encoder(0).encode(texts, normalize_embeddings=True)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    tenth = np.sort(cosines, 1)[:, -10]
    assert (np.take_along_axis(cosines, near, 1) >= tenth[:, None] - 1e-5).all()
    assert all(len({*row}) == 10 for row in near.tolist())


def test_equal_vectors_are_no_all_clear(models):
    flat = small_encoder(0)
    flat[0].embedding.weight.data[:] = 1.
    with pytest.raises(EncoderError, match="all texts have the same vector"):
        neighbors(load_model(flat), list(dict.fromkeys(TEXTS)))


# What is said.

def table_of(tmp_path, monkeypatch, rows):
    path = tmp_path / "all_clear.csv"
    pd.DataFrame(rows, columns=["kind", "texts", "low", "is_clear", "sentence"]).to_csv(path, index=False)
    monkeypatch.setitem(what_trials_say.__globals__, "package_file", lambda name: path)


def test_the_sentence_is_of_the_band_and_the_next_smaller_sample(tmp_path, monkeypatch):
    rows = [("static", 200, 0, 1, "small"), ("static", 200, .15, 0, "more"), ("static", 500, 0, 1, "large"),
            ("transformer", 200, .3, 0, "other")]
    table_of(tmp_path, monkeypatch, rows)
    assert what_trials_say("static", 499, .1) == (True, "small")
    assert what_trials_say("static", 200, .2) == (False, "more")
    assert what_trials_say("static", 500, .05) == (True, "large")
    assert what_trials_say("transformer", 9999, .9) == (False, "other")
    none = False, "We have no trials like this."
    assert what_trials_say("static", 199, 0) == none and what_trials_say("transformer", 300, .1) == none


def test_all_clear_or_label_and_never_an_alarm(models, tmp_path, monkeypatch):
    table_of(tmp_path, monkeypatch, [("static", 11, 0, 1, "None lost."), ("static", 11, .15, 0, "Some lost.")])
    near, far = (all_clear(scorers(models, tuned), *read_unlabeled(TEXTS)) for tuned in ("near", "far"))
    assert near.is_clear and near.sentences[0].startswith("All clear: ") and near.sentences[0].endswith("None lost.")
    assert not far.is_clear and far.sentences[0].startswith("Label: ") and "This is no alarm" in far.sentences[1]


def test_diagnose_takes_texts_beside_and_instead_of_tests(models, tmp_path):
    both = diagnose(models / "base", models / "far", tests={"new": PAIRS}, texts=TEXTS)
    alone = diagnose_texts(TEXTS, models / "base", models / "far")
    assert both.all_clear.churn == alone.churn
    assert alone.sentences[0] in repr(both)
    assert alone.sentences[0] in both.html()
    assert json.loads(both.json())["all_clear"]["churn"] == pytest.approx(alone.churn, abs=1e-6)
    assert alone.facts["texts"]["texts"] == len(TEXTS) and list(alone.files()) == ["report.json"]
    assert diagnose(models / "base", models / "far", tests={"new": PAIRS}).all_clear is None
    file = tmp_path / "new.txt"
    file.write_text("\n".join(TEXTS))
    of_file = diagnose(models / "base", models / "far", tests={"new": PAIRS}, texts=file).facts["texts"]
    assert of_file["path"] == str(file) and of_file["sha256"] == sha256_file(file)


def test_pairs_have_a_bound_and_scores_need_no_models(models):
    pairs = PAIRS[["left", "right"]]
    answer = diagnose_texts(pairs, models / "base", models / "near")
    assert 0 < answer.bound < .01 and "exclude a loss of more than" in answer.sentences[1]
    scores = np.random.default_rng(0).normal(size=len(pairs))
    same = diagnose_texts(pairs.assign(base=scores, tuned=np.exp(scores)))
    assert same.bound == 0 and same.is_clear and np.isnan(same.churn)
    other = diagnose_texts(pairs.assign(base=scores, tuned=-scores))
    assert other.bound > .5 and other.sentences[0].startswith("Label: ")


def test_the_evaluator_counts_changed_neighbors(models):
    evaluator = DiagnosisEvaluator({"new": PAIRS}, base=models / "base", texts=TEXTS)
    assert evaluator(small_encoder(0))["changed_neighbors"] == 0 < evaluator(small_encoder(1))["changed_neighbors"]


@pytest.mark.parametrize("content, message", [
    ("one text", "must be two or more, got 1"),
    ("\n \n\n", "must be two or more, got 0"),
    ("the same\n" * 50, "12 different ones or more are needed, got 1"),
    ("\n\n".join(TEXTS[:9]), "12 different ones or more are needed, got 9"),
])
def test_too_few_texts_are_refused(models, tmp_path, content, message):
    file = tmp_path / "new.txt"
    file.write_text(content)
    with pytest.raises(DataError, match=message):
        diagnose_texts(file, models / "base", models / "near")


def test_tables_that_are_no_texts_are_refused(models, tmp_path):
    file = tmp_path / "new.csv"
    for table, message in {"name\na\nb\n": "new.csv: no column 'text'",
                           "left,right\na,b\n": "new.csv: no column 'text'"}.items():
        file.write_text(table)
        with pytest.raises(DataError, match=message):
            diagnose_texts(file, models / "base", models / "near")
    with pytest.raises(ConfigError, match="two models are expected, or pairs with two columns of scores"):
        diagnose_texts(PAIRS[["left", "right"]])
    with pytest.raises(EncoderError, match="are the same model"):
        diagnose_texts(TEXTS, models / "base", models / "base")


def test_the_command_answers_and_can_fail_a_build(models, tmp_path):
    file = tmp_path / "new.txt"
    file.write_text("\n\n".join(TEXTS))
    command = ["diagnose-texts", "--base", str(models / "base"), "--tuned", str(models / "far"), "--texts", str(file)]
    for options, status in {(): 0, ("--fail-on", "worse"): 0,
                            ("--fail-on", "unsure", "--out", str(tmp_path / "out")): 1}.items():
        result = CliRunner().invoke(app, [*command, *options])
        assert result.exit_code == status and result.output.startswith("Label: ")
    assert json.loads((tmp_path / "out/report.json").read_text())["facts"]["command"].startswith(
        "debias-nb diagnose-texts --base ")


def test_texts_are_read_from_each_form(tmp_path):
    file = tmp_path / "new.csv"
    PAIRS.to_csv(file, index=False)
    held, pairs = read_unlabeled(file)
    assert len(held.texts) == 2 * len(pairs) == 800 and held.path == str(file), "labels are not used"
    assert read_unlabeled(f"{file}:left")[0].texts == TEXTS and read_unlabeled(f"{file}:left")[1] is None
    PAIRS.rename(columns={"left": "text"}).to_csv(file, index=False)
    for source in (file, f"{file}:text", TEXTS):
        assert read_unlabeled(source)[0].texts == TEXTS


def test_names_of_columns_are_read_in_any_case():
    scores = np.random.default_rng(0).normal(size=(2, len(PAIRS)))
    table = PAIRS.drop(columns="label").assign(base=scores[0], tuned=scores[1])
    answers = [diagnose_texts(rows) for rows in (table, table.rename(columns=str.title))]
    assert answers[0].bound == answers[1].bound > 0
    with pytest.raises(DataError, match="one column 'base' is expected, found 2"):
        diagnose_texts(table.assign(Base=scores[0]))


def test_the_library_has_the_numbers_of_the_statement():
    from debias_nb.diagnosis import all_clear as library
    settings = load_yaml(project_root() / "experiments/all_clear.yaml")
    assert (library.NEIGHBORS, 100 * library.LOSS) == (settings["neighbors"], settings["loss"])
    assert library.TEXTS in settings["samples"]
