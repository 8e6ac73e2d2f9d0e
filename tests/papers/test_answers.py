"""Training on answers: shuffled weights, a first stage, and bad input.

What runs compute is held by `test_made_again`."""
from functools import partial

import numpy as np
import pytest
import torch

import made
from debias_nb.checks import ConfigError
from debias_nb.losses.scan_weights import Weights
from debias_nb.papers.tasks import answer_training, answers as task
from debias_nb.papers.tasks.answer_training import Weigher, answer_model, answer_tokens
from debias_nb.papers.tasks.answer_training import evaluate_answers, fit_answers
from debias_nb.papers.tasks.answer_training import train_stages
from debias_nb.settings import AnswersWorldConfig, EncoderConfig
from debias_nb.runs.settings import PairTraining
from debias_nb.papers.settings.answers import AnswersCorpus, AnswersMethod, AnswersTraining, ScanConfig, TransferConfig
from debias_nb.runs.runner import execute
from debias_nb.papers.data.answers import Answers, planted_answers
from debias_nb.runs.records import TrainingFailed

WORLD = AnswersWorldConfig(name="answers", questions=60, tests=30)
CORPUS = AnswersCorpus(name="answers", task="answers", world=WORLD)
SMALL = EncoderConfig(name="learned", kind="alignment", units=8, embedding=8)
TRAINING = AnswersTraining(loss="cross-entropy", learning_rate=1e-2, epochs=2, batch_size=70)
TOO_FAST = TRAINING.model_copy(update={"learning_rate": 1e38})
PLAIN = AnswersMethod(name="Finetuned")
run_of = partial(
    made.run_of, paper="scan", encoder=SMALL, corpus=CORPUS, training=TRAINING, evaluate=("iid", "shifted"))
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def train():
    return planted_answers(WORLD, "train")


def model_for(method, answers, **changes):
    return answer_model(run_of(method, **changes), answers.questions + answers.answers)


def fit(method, answers, **changes):
    "A trained model, and its trainer."
    model = model_for(method, answers, **changes)
    return model, fit_answers(model, answer_tokens(model.encoder, answers), run_of(method, **changes))


# weights

def test_shuffled_weights_are_the_learned_ones_in_other_hands(train):
    model = model_for(PLAIN, train)
    data, rows = answer_tokens(model.encoder, train), torch.arange(120)
    hidden, labels = model(data.inputs.batch(rows)).detach(), data.labels[rows]
    weights, shuffle = (
        Weigher(ScanConfig(weights=kind), data)(hidden, labels, rows) for kind in ("learned", "shuffled"))
    for label in (0, 1):
        of_class = labels == label
        assert torch.equal(weights[of_class].sort()[0], shuffle[of_class].sort()[0])
    assert not torch.equal(weights, shuffle)


def test_weights_that_sum_to_nothing_end_a_training(train, monkeypatch):
    nothing = torch.zeros(TRAINING.batch_size)
    monkeypatch.setattr(answer_training, "weigh", lambda *_, **__: Weights(nothing, nothing, 1.))
    with pytest.raises(TrainingFailed, match="the weights of a batch sum to 0: take a smaller learning rate"):
        fit(AnswersMethod(name="SCAN", scan=ScanConfig()), train)


# bad input

def test_a_loss_that_is_not_finite_stops_training_with_its_step(train):
    with pytest.raises(TrainingFailed) as error:
        fit(PLAIN, train, training=TOO_FAST)
    assert error.value.step >= 1 and "the loss is" in str(error.value)


def as_printed(rate):
    "The paper's weights, learned at a rate."
    return AnswersMethod(name="SCAN", scan=ScanConfig(variant="paper", class_mass="free", memory="ema", rate=rate))


def test_weights_that_are_lost_stop_training_and_name_the_setting(train):
    with pytest.raises(TrainingFailed, match="`rate`") as error:
        fit(as_printed(1000.), train)
    assert error.value.step == 0


def test_what_does_not_fit_is_refused_by_name(train):
    tanda = AnswersMethod(name="TANDA", transfer=True)
    stage = TransferConfig(corpus="qnli", part="dev", learning_rate=1e-3, epochs=1)
    model = model_for(PLAIN, train)
    data = answer_tokens(model.encoder, train)
    training = TRAINING.model_copy(update={"transfer": stage})
    another_loss = PairTraining(learning_rate=1e-2, epochs=1, batch_size=2)
    for call, words in (
        (lambda: train_stages(model, data, run_of(tanda), transfer=data), "TANDA"),
        (lambda: train_stages(model, data, run_of(tanda, training=training)), "TANDA"),
        (lambda: fit(PLAIN, train, training=another_loss), "loss"),
        (lambda: task.training_answers(AnswersCorpus(name="wikiq", task="answers")), "wikiqa"),
        (lambda: task.evaluation_answers("shiftet", CORPUS), "shifted"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_the_first_stage_knows_nothing_of_scan(train):
    "Debiasing and weights begin with the second stage, from the same weights as without them."
    stage = TransferConfig(corpus="elsewhere", learning_rate=1e-2, epochs=1)
    training = TRAINING.model_copy(update={"transfer": stage, "epochs": 1}) # six steps, fewer than `MOMENTS`

    def stages(scan):
        method = AnswersMethod(name="x", transfer=True, scan=scan)
        model = model_for(method, train, training=training)
        data = answer_tokens(model.encoder, train)
        first, last = train_stages(model, data, run_of(method, training=training), transfer=data)
        assert set(first.history[0]) == {"sw"}
        assert ("cl" in last.history[0]) == (scan is not None)
        assert (model.head.debiasing is None) == (scan is None)
        return first

    assert stages(None).history == stages(ScanConfig(debias="paper")).history


def test_questions_without_a_right_answer_are_excluded_and_counted():
    ids, questions = ["1", "1", "2", "2", "3"], ["q"] * 2 + ["r"] * 2 + ["s"]
    toy = Answers("toy", ids, questions, list("abcde"), np.array([1, 0, 0, 0, 1]))
    values, resamples, by_question = evaluate_answers(np.array([1., 0, 1, 0, 3]), toy)
    assert values["excluded"] == 1 and len(by_question) == 2 and values["map"] == 1.
    assert set(resamples) >= {"map", "mrr", "p1"}


def test_a_run_and_its_answers_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    run = made.experiment().runs()[0]
    with pytest.raises(ConfigError, match="cannot be trained in 2 processes: the batch size of its record is "
                                          "that of one"):
        execute(run)
    training = AnswersTraining(loss="cross-entropy", learning_rate=.1, epochs=1, batch_size=4)
    run = run.model_copy(update={"training": training})
    with pytest.raises(ValueError, match="answers as runs train them cannot be trained in 2 processes"):
        fit_answers(None, None, run)
