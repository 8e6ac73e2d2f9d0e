"""Runs on authors: settings chosen on validation texts alone, epochs, bad input.

What runs compute is held by `test_made_again`."""
from functools import partial

import pytest
import torch

import made
from debias_nb.papers.tasks import authors
from debias_nb.papers.tasks.authors import attempts, author_split, chosen_training, evaluate_authors
from debias_nb.papers.data.author_splits import query_target
from debias_nb.papers.data.authors import Texts
from debias_nb.settings import AuthorsWorldConfig, EncoderConfig
from debias_nb.papers.settings.authors import AuthorsConfig, AuthorsCorpus, AuthorsMethod, AuthorsTraining, SplitConfig
from debias_nb.runs.runner import absent, execute
from debias_nb.runs.records import TrainingFailed
from debias_nb.data.registry import MissingData

WORLD = AuthorsWorldConfig(name="authors", authors=40, test_authors=20, tokens=40)
CORPUS = AuthorsCorpus(name="authors", task="authors", world=WORLD, split=SplitConfig())
ENCODER = EncoderConfig(name="learned", kind="static", embedding=16, max_length=80)
NO_SUCH_ENCODER = EncoderConfig(name="no-such", kind="static")
TRAINING = AuthorsTraining(
    loss="authors", temperature=.1, learning_rate=1e-2, epochs=2, batch_size=16, further_temperatures=[.5])
CL = AuthorsMethod(name="CL", authors=AuthorsConfig())
ARR = AuthorsMethod(name="CL + ARR", authors=AuthorsConfig(student="arr"))
MLL = AuthorsMethod(name="MLL", authors=AuthorsConfig(base="mll", epochs=9))
BOW = AuthorsMethod(name="BOW", trained=False, authors=AuthorsConfig(counted="bow"))
run_of = partial(made.run_of, paper="arr", encoder=ENCODER, corpus=CORPUS, training=TRAINING, evaluate=("cross", "iid"))
torch.set_num_threads(1)


# ---- parts


def test_data_that_is_not_here_is_told(data):
    corpus = AuthorsCorpus(name="reddit_pushshift", task="authors", split=SplitConfig())
    with pytest.raises(MissingData, match="reddit_pushshift"):
        author_split(corpus)
    assert "reddit_pushshift" in absent(run_of(CL, corpus=corpus, eval_world=None))
    assert "no-such" in absent(run_of(CL, encoder=NO_SUCH_ENCODER))
    assert absent(run_of(BOW, encoder=NO_SUCH_ENCODER)) is None, "counting words needs no encoder"


def test_what_does_not_fit_is_refused_by_name():
    unknown = AuthorsCorpus(name="reddit_tldr_user", task="authors", split=SplitConfig())
    not_apart = AuthorsCorpus(name="pan20_test", task="authors", split=SplitConfig(scheme="published"))
    of_before = CORPUS.model_copy(update={"split": SplitConfig(validation="across")})
    assert "no longer made" in absent(run_of(CL, corpus=of_before))
    for call, words in (
        (lambda: author_split(unknown), "reddit_tldr_users"),
        (lambda: author_split(not_apart), "pan20_test"),
        (lambda: execute(run_of(CL, evaluate=("open",))), "open"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


# ---- who is found

def test_a_metric_that_a_resample_lacks_has_no_replicates():
    "Among the nearest texts, those of another author stand for one of two authors alone."
    texts, rows = Texts("shelf", [*20 * "a", "b", "b"], 22 * ["x"], 22 * ["text"]), torch.zeros(22, 2)
    rows[:20, 0] = rows[20:, 1] = 1
    metrics, resamples, _ = evaluate_authors(rows, texts, query_target(texts))
    assert metrics["false topic share"] == 1 and resamples.keys() == {"r8", "mrr"}


# ---- training

@pytest.mark.parametrize("method, epochs", [(CL, 6), (ARR, 2)])
def test_an_epoch_of_texts_has_as_many_as_there_are_whatever_the_loss(method, epochs):
    texts = len(author_split(CORPUS).train)
    training = TRAINING.model_copy(
        update={"epoch_of": "texts", "further_temperatures": (), "epochs": 6, "student_epochs": 2})
    assert len(chosen_training(run_of(method, training=training))[1]) == epochs * (texts // 16)
    by_author = training.model_copy(update={"epoch_of": None})
    assert len(chosen_training(run_of(method, training=by_author))[1]) < epochs / 2 * (texts // 16)


@pytest.mark.parametrize("scores, temperature", [([.2, .3], .5), ([.3, .2], .1), ([.2, .2], .1)])
def test_settings_are_chosen_on_validation_texts_alone(monkeypatch, scores, temperature):
    values = iter(scores)

    def next_score(rows, texts, *options):
        assert texts.name == "authors validation"
        return {"r8": next(values)}, {}, []

    monkeypatch.setattr(authors, "evaluate_authors", next_score)
    _, _, details = chosen_training(run_of(CL, seed=5))
    assert [attempt["r8"] for attempt in details["tried"]] == scores
    assert details["setting"] == {"learning_rate": .01, "temperature": temperature}, "of equals the first"


def test_what_a_method_tries():
    training = TRAINING.model_copy(update={"further_rates": (.3,), "student_epochs": 5})

    def tries(method):
        settings = [run.training for run in attempts(run_of(method, training=training))]
        return [(setting.learning_rate, setting.temperature, setting.epochs) for setting in settings]

    assert tries(CL) == [(.01, .1, 2), (.01, .5, 2), (.3, .1, 2), (.3, .5, 2)]
    assert tries(MLL) == [(.01, .1, 9), (.3, .1, 9)], "its loss has no temperature"
    assert {epochs for _, _, epochs in tries(ARR)} == {5}


def test_a_setting_that_diverges_is_noted_and_left(monkeypatch):
    plain = authors.fit_authors

    def diverges_at_half(model, loss, *args, **options):
        if loss.temperature == .5:
            raise TrainingFailed(3, "the loss is nan")
        return plain(model, loss, *args, **options)

    monkeypatch.setattr(authors, "fit_authors", diverges_at_half)
    _, _, details = chosen_training(run_of(CL))
    assert details["setting"]["temperature"] == .1 and "the loss is nan" in details["tried"][1]["failed"]
    half_alone = TRAINING.model_copy(update={"temperature": .5, "further_temperatures": ()})
    with pytest.raises(TrainingFailed, match="step 3"):
        chosen_training(run_of(CL, training=half_alone))
