"""Training on answers: methods share their start, weights reach the loss, checkpoints hold everything, runs repeat, bad
input is told."""

import numpy as np
import pytest
import torch

import made
from debias_nb.checks import ConfigError
from debias_nb.papers.tasks import answers as task
from debias_nb.papers.tasks.answer_training import EpochSampler, Weigher, answer_model, answer_tokens
from debias_nb.papers.tasks.answer_training import evaluate_answers, fit_answers, round_gradients
from debias_nb.papers.tasks.answer_training import train_stages
from debias_nb.settings import AnswersWorldConfig, EncoderConfig
from debias_nb.runs.config import RunConfig
from debias_nb.runs.settings import PairTraining
from debias_nb.papers.settings.answers import AnswersCorpus, AnswersMethod, AnswersTraining, ScanConfig, TransferConfig
from debias_nb.runs.runner import execute
from debias_nb.papers.data.answers import Answers, planted_answers, shared_words
from debias_nb.runs.records import TrainingFailed

WORLD = AnswersWorldConfig(name="answers", questions=60, tests=30)
CORPUS = AnswersCorpus(name="answers", task="answers", world=WORLD)
SMALL = EncoderConfig(name="learned", kind="alignment", units=8, embedding=8)
TRAINING = AnswersTraining(loss="cross-entropy", learning_rate=1e-2, epochs=2, batch_size=70)
TOO_FAST = TRAINING.model_copy(update={"learning_rate": 1e38})
PLAIN, SCAN = AnswersMethod(name="Finetuned"), AnswersMethod(name="SCAN", scan=ScanConfig(debias="paper"))
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def train():
    return planted_answers(WORLD, "train")


@pytest.fixture(scope="module")
def tokens(train):
    "The answers as an untrained encoder reads them."
    return answer_tokens(model_for(PLAIN, train).encoder, train)


def model_for(method, answers, **changes):
    return answer_model(run_of(method, **changes), answers.questions + answers.answers)


def fit(method, answers, **changes):
    "A trained model, and its trainer."
    model = model_for(method, answers, **changes)
    return model, fit_answers(model, answer_tokens(model.encoder, answers), run_of(method, **changes))


def with_scan(**settings):
    return AnswersMethod(name="x", scan=ScanConfig(**settings))


def run_of(method, **changes):
    settings = {
        "paper": "scan", "experiment": "demo", "profile": "planted", "encoder": SMALL, "method": method,
        "evaluate": ("iid", "shifted")}
    parts = {"corpus": CORPUS, "training": TRAINING} if method.trained else {"eval_corpus": CORPUS}
    return RunConfig(**(settings | parts | changes))


# the same steps on every processor

def noisy(dtype, noise, train, method=SCAN):
    "The weights after a training in which a sum differs in its last bits, as it does on another processor."
    encoder = SMALL.model_copy(update={"dtype": dtype})
    model = model_for(method, train, encoder=encoder)
    model.encoder.aggregate.weight.register_hook(lambda gradient: gradient * (1 + noise))
    model.encoder.vectors.weight.register_hook(lambda gradient: gradient * (1 - noise))
    fit_answers(model, answer_tokens(model.encoder, train), run_of(method, encoder=encoder))
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


@pytest.mark.slow
def test_in_double_precision_the_last_bits_of_a_sum_change_nothing(train):
    plain = noisy("fp64", 0., train)
    assert plain.dtype == torch.float64
    assert torch.equal(plain, noisy("fp64", 1e-15, train))
    single = noisy("fp32", 0., train)
    assert not torch.equal(single, noisy("fp32", 1e-7, train)) # the last bit of single precision


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_gradients_are_rounded_to_the_same_share_of_their_largest_whatever_its_size(scale):
    weight = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    weight.grad = scale * torch.tensor([.9, .3, 1e-9], dtype=torch.float64)
    exact = weight.grad.clone()
    round_gradients(torch.optim.SGD([weight]))
    assert weight.grad[2] == 0
    distance = (weight.grad - exact).abs()
    assert 0 < distance.max() <= exact[0] * 2**-20


# what training begins with

def weights_of(module):
    return torch.cat([weight.detach().flatten() for weight in module.parameters()])


def test_the_seed_alone_decides_and_methods_share_their_start(train):
    first = model_for(PLAIN, train)
    torch.rand(7)
    assert torch.equal(weights_of(first), weights_of(model_for(PLAIN, train)))
    assert torch.equal(weights_of(first.encoder), weights_of(model_for(SCAN, train).encoder))
    assert not torch.equal(weights_of(first.encoder), weights_of(model_for(PLAIN, train, seed=1).encoder))


def test_batches_of_like_length_in_an_order_that_seed_and_epoch_alone_decide():
    lengths = np.random.default_rng(0).integers(5, 128, 990)
    sampler = EpochSampler(7, lengths.tolist(), seed=0)
    first = list(sampler)
    sampler.set_epoch(1)
    second = list(sampler)
    sampler.set_epoch(0)
    assert list(sampler) == first != second
    assert sorted(first) == sorted(second) == list(range(990))
    batches = lengths[first[:987]].reshape(-1, 7) # the last one is shorter
    assert batches.std(1).mean() < .2 * lengths.std()
    assert abs(np.corrcoef(np.arange(35), batches[:35].max(1))[0, 1]) < .5, "transformers' own go from long to short"


# what the weights do to the loss

@pytest.mark.parametrize("settings", [
    {}, {"weights": "oracle"}, {"weights": "uniform", "debias": "released"}])
def test_learned_weights_and_debiasing_change_the_encoder(train, settings):
    plain, variant = (fit(method, train)[0].encoder.state_dict() for method in (PLAIN, with_scan(**settings)))
    assert any(not torch.equal(values, plain[name]) for name, values in variant.items())


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


def test_the_oracle_makes_overlap_say_nothing(tokens):
    "Half of each class's weight is on candidates that share many words."
    weights = Weigher(ScanConfig(weights="oracle"), tokens).oracle
    assert tokens.conflicting.tolist() == [shared != label for shared, label in zip(tokens.overlap, tokens.labels)]
    for label in (0, 1):
        of_class = tokens.labels == label
        share = weights[of_class & tokens.overlap].sum() / weights[of_class].sum()
        assert float(share) == pytest.approx(.5)


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
    training = TRAINING.model_copy(update={"transfer": stage})

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


def test_questions_are_split_by_whether_counting_words_misleads():
    answers = planted_answers(WORLD, "iid")
    values, _, by_question = evaluate_answers(shared_words(answers), answers)
    misled_part = values["misled"]
    assert values["map"] == pytest.approx(misled_part * values["map[misled]"] + (1 - misled_part) * values["map[led]"])
    assert np.mean(by_question) == pytest.approx(values["map"], abs=1e-4)
    assert values["map[led]"] > values["map[misled]"]


# runs

def test_labels_are_switched_in_training_alone_and_texts_are_perturbed_in_tests():
    noisy = CORPUS.model_copy(update={"flip": .2})
    for part, share in (("train", .2), ("dev", 0)):
        clean, flipped_labels = (task.training_answers(corpus, part).labels for corpus in (CORPUS, noisy))
        assert (clean != flipped_labels).sum() == round(share * len(clean))
    complete, bent = (task.evaluation_answers(name, CORPUS) for name in ("iid", "iid perturbed"))
    changes = sum(text != bent_text for text, bent_text in zip(complete.answers, bent.answers))
    assert changes == bent.counts["perturbed candidates"] == round(.3 * len(complete))
    assert complete.questions == bent.questions and (complete.labels == bent.labels).all()
    counts_of, _ = task.counts(CORPUS)
    assert counts_of["planted #Q Train"] == WORLD.questions
    assert counts_of["planted #A Test"] == WORLD.tests * WORLD.candidates


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
