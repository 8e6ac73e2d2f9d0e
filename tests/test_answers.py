"Training on answers: methods share their start, weights reach the loss, checkpoints hold everything, runs repeat, bad input is told."
import json, os, subprocess, sys
from pathlib import Path

import numpy as np
import pytest
import torch

from debias_nb.repro.tasks import answers as task
from debias_nb.repro.answer_training import (AnswerCollator, Weigher, answer_model, answer_scores, answer_tokens, diary_summary, evaluate_answers, fit_answers, train_stages)
from debias_nb.config import AnswersWorldConfig, EncoderConfig
from debias_nb.repro.config import CorpusConfig, MethodConfig, RunConfig, ScanConfig, TrainConfig, TransferConfig
from debias_nb.repro.runner import absent, dry_step, execute, run_all
from debias_nb.data.answers import Answers, planted_answers
from debias_nb.repro.records import Store, TrainingFailed, comparable
from debias_nb.data.registry import MissingData

ROOT = Path(__file__).parents[1]
WORLD = AnswersWorldConfig(name="answers", questions=60, tests=30)
SMALL = EncoderConfig(name="learned", kind="alignment", units=8, embedding=8)
TRAINING = TrainConfig(loss="cross-entropy", learning_rate=1e-2, epochs=2, batch_size=70)
PLAIN, SCAN = MethodConfig(name="Finetuned"), MethodConfig(name="SCAN", scan=ScanConfig(debias="paper"))
torch.set_num_threads(1)

@pytest.fixture(scope="module")
def train(): return planted_answers(WORLD, "train")

def model_for(method, answers, seed=0, training=TRAINING): return answer_model(SMALL, method, training, answers.questions + answers.answers, seed)

def fitted(method, answers, seed=0, training=TRAINING, **options):
    model = model_for(method, answers, seed, training)
    return model, fit_answers(model, answer_tokens(model.encoder, answers), method.scan, training, seed, **options)

def run_of(method, **changes):
    own = dict(corpus=CorpusConfig(name="answers", task="answers", world=WORLD), training=TRAINING) if method.trained else dict(eval_corpus=CorpusConfig(name="answers", task="answers", world=WORLD))
    return RunConfig(**(dict(paper="scan", experiment="demo", profile="planted", encoder=SMALL, method=method, evaluate=("iid", "shifted"), **own) | changes))

# what the weights do to the loss

def test_uniform_weights_are_plain_training(train):
    "No weights, or none yet, change no step."
    plain, history = fitted(PLAIN, train)
    for scan in (ScanConfig(weights="uniform"), ScanConfig(from_epoch=99)):
        other, t = fitted(MethodConfig(name="other", scan=scan), train)
        assert t.history == history.history, scan

def test_learned_weights_and_debiasing_change_the_encoder(train):
    plain = fitted(PLAIN, train)[0].encoder.state_dict()
    for scan in (ScanConfig(), ScanConfig(weights="oracle"), ScanConfig(weights="shuffled"), ScanConfig(weights="uniform", debias="paper"), ScanConfig(weights="uniform", debias="released")):
        assert any(not torch.equal(v, plain[k]) for k, v in fitted(MethodConfig(name="x", scan=scan), train)[0].encoder.state_dict().items()), scan

def test_contrast_zero_leaves_the_second_classification_loss(train):
    with_, without = (fitted(MethodConfig(name="x", scan=ScanConfig(weights="uniform", debias="paper", contrast=c)), train)[1].history for c in (1., 0.))
    assert set(without[0]) == {"sw", "ce", "cl"} and without[0] == with_[0] and without[-1] != with_[-1]

def test_shuffled_weights_are_the_learned_ones_in_other_hands(train):
    model = model_for(PLAIN, train)
    data, rows = answer_tokens(model.encoder, train), torch.arange(120)
    hidden = model(**data.inputs.batch(rows)).detach()
    learned, shuffled = (Weigher(ScanConfig(weights=w), data)(hidden, data.labels[rows], rows, 0.) for w in ("learned", "shuffled"))
    for label in (0, 1): assert torch.equal(learned[data.labels[rows] == label].sort()[0], shuffled[data.labels[rows] == label].sort()[0])
    assert not torch.equal(learned, shuffled)

def test_the_oracle_makes_overlap_say_nothing(train):
    data = answer_tokens(model_for(PLAIN, train).encoder, train)
    w = Weigher(ScanConfig(weights="oracle"), data).oracle
    share = [float(w[(data.labels == y) & data.overlap].sum() / w[data.labels == y].sum()) for y in (0, 1)]
    assert share[0] == pytest.approx(share[1]) == pytest.approx(.5), "half of each class's weight is on candidates that share many words"

def test_a_batch_of_one_class_has_weights(train):
    data = answer_tokens(model_for(PLAIN, train).encoder, train)
    w = Weigher(ScanConfig(class_mass="keep"), data)(torch.randn(20, 4), torch.zeros(20, dtype=torch.long), torch.arange(20), 0.)
    assert w.isfinite().all() and float(w.mean()) == pytest.approx(1., abs=1e-5)

def test_a_batch_of_one_sample_has_none(train):
    data = answer_tokens(model_for(PLAIN, train).encoder, train)
    assert Weigher(ScanConfig(), data)(torch.randn(1, 4), torch.ones(1, dtype=torch.long), torch.arange(1), 0.) is None

def test_positive_weight_counts_right_answers_more(train):
    one, three = (fitted(PLAIN, train, training=TRAINING.model_copy(update=dict(positive_weight=w)))[1].history[0]["sw"] for w in (1., 3.))
    assert three > 1.1 * one

# bad input

def test_a_loss_that_is_not_finite_stops_training_with_its_step(train):
    with pytest.raises(TrainingFailed) as e: fitted(PLAIN, train, training=TRAINING.model_copy(update=dict(learning_rate=1e38)))
    assert e.value.step >= 1 and "the loss is" in str(e.value)

def printed(rate): return MethodConfig(name="SCAN", scan=ScanConfig(variant="paper", class_mass="free", memory="ema", rate=rate))

def test_weights_that_are_lost_stop_training_and_name_the_setting(train):
    with pytest.raises(TrainingFailed, match=r"not finite after 20 steps at lr=1000 \(variant 'paper'\): take a smaller one \(`rate` of the method's `scan`\)") as e: fitted(printed(1000.), train)
    assert e.value.step == 0
    with pytest.raises(TrainingFailed, match=r"sum to -[0-9.]+: take a smaller learning rate for them \(`rate`"): fitted(printed(1.), train)
    with pytest.raises(TrainingFailed, match="representations that weights are learned on are not finite"): fitted(SCAN, train, training=TRAINING.model_copy(update=dict(learning_rate=1e38)))

def test_a_run_that_lost_its_weights_is_on_record_as_failed(tmp_path):
    lost = run_of(printed(1000.))
    out = run_all([lost, run_of(PLAIN)], Store(tmp_path), workers=1, progress=False)
    assert "take a smaller one" in out.failed[lost.id] and len(out.records) == 1
    assert [(r["status"], "`rate`" in r.get("error", "")) for r in Store(tmp_path).all()] == [("failed", True), ("finished", False)]

def test_another_loss_is_refused(train):
    with pytest.raises(ValueError, match="cross-entropy, got loss 'mse'"): fitted(PLAIN, train, training=TrainConfig(learning_rate=1e-2, epochs=1, batch_size=2))

def test_transfer_without_data_or_settings_is_refused(train):
    method, stage = MethodConfig(name="TANDA", transfer=True), TransferConfig(corpus="qnli", part="dev", learning_rate=1e-3, epochs=1)
    model = model_for(PLAIN, train); data = answer_tokens(model.encoder, train)
    with pytest.raises(ValueError, match="'TANDA' transfers"): train_stages(model, data, method, TRAINING, 0, transfer=data)
    with pytest.raises(ValueError, match="'TANDA' transfers"): train_stages(model, data, method, TRAINING.model_copy(update=dict(transfer=stage)), 0)

def test_the_first_stage_knows_nothing_of_scan(train):
    "Debiasing and weights begin with the second stage, from the same weights as without them."
    stage = TRAINING.model_copy(update=dict(transfer=TransferConfig(corpus="elsewhere", learning_rate=1e-2, epochs=1)))
    firsts = []
    for scan in (None, ScanConfig(debias="paper")):
        method = MethodConfig(name="x", transfer=True, scan=scan)
        model = model_for(method, train, training=stage); data = answer_tokens(model.encoder, train)
        first, last = train_stages(model, data, method, stage, 0, transfer=data)
        firsts.append(first.history)
        assert set(first.history[0]) == {"sw"} and ("cl" in last.history[0]) == (scan is not None) and (model.head.debiasing is None) == (scan is None)
    assert firsts[0] == firsts[1]

def test_questions_without_a_right_answer_are_excluded_and_counted():
    a = Answers("toy", ["1", "1", "2", "2", "3"], ["q"] * 2 + ["r"] * 2 + ["s"], list("abcde"), np.array([1, 0, 0, 0, 1]))
    values, resampled, each = evaluate_answers(np.array([1., 0, 1, 0, 3]), a)
    assert values["excluded"] == 1 and len(each) == 2 and values["map"] == 1. and set(resampled) >= {"map", "mrr", "p1"}

def test_bad_scores_name_set_and_question(train):
    scores = np.zeros(len(train)); scores[7] = np.nan
    with pytest.raises(ValueError, match=rf"answers train: scores\[7\] \(question '{train.question_ids[7]}'\)"): evaluate_answers(scores, train)
    with pytest.raises(ValueError, match="vectors of one length"): evaluate_answers(scores[1:], train)

def test_a_diary_tells_nothing_where_nothing_was_seen(): assert diary_summary([{"a": float("nan")}] * 3, 2) == {"a": [None, None]}

# scores

def test_scores_do_not_depend_on_batches_or_mode(train):
    model, _ = fitted(PLAIN, train)
    inputs = answer_tokens(model.encoder, train).inputs
    model.train()
    assert np.allclose(answer_scores(model, inputs, 7), answer_scores(model, inputs, 512), atol=1e-5) and model.training

def test_batches_hold_rows_in_the_order_asked_for(train):
    data = answer_tokens(model_for(PLAIN, train).encoder, train)
    batch = AnswerCollator(data)([{"row": i} for i in (5, 2, 9)])
    assert batch["row"].tolist() == [5, 2, 9] and batch["labels"].tolist() == data.labels[[5, 2, 9]].tolist()

# runs

def test_a_run_repeats_in_another_process(tmp_path):
    run = run_of(SCAN, measure=("cases",))
    here = comparable(execute(run))
    code = "import json, sys\nfrom debias_nb.repro.config import RunConfig\nfrom debias_nb.repro.runner import execute\nprint(json.dumps(execute(RunConfig.model_validate_json(sys.argv[1]))))"
    env = os.environ | {"PYTHONHASHSEED": "5", "DEBIAS_NB_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code, run.model_dump_json()], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert comparable(json.loads(done.stdout.splitlines()[-1])) == here

def test_noise_belongs_to_the_corpus_and_not_to_the_seed():
    noisy = CorpusConfig(name="answers", task="answers", world=WORLD, flip=.2)
    prints = {execute(run_of(PLAIN, corpus=noisy, seed=s))["data"]["train answers"]["fingerprint"] for s in (0, 1)}
    assert len(prints) == 1 and prints != {execute(run_of(PLAIN))["data"]["train answers"]["fingerprint"]}

def test_counting_words_needs_no_encoder():
    run = run_of(MethodConfig(name="Word overlap", trained=False), encoder=EncoderConfig(name="nowhere", kind="cross"))
    assert absent(run) is None and execute(run)["metrics"]["iid"]["map"] > execute(run)["metrics"]["shifted"]["map"]

def test_missing_data_and_encoders_are_told(monkeypatch, tmp_path):
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path)); monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path))
    wikiqa = CorpusConfig(name="asnq", task="answers")
    with pytest.raises(MissingData): task.training_answers.__wrapped__(wikiqa)
    assert "nowhere" in absent(run_of(PLAIN, encoder=EncoderConfig(name="nowhere", kind="cross", max_length=64)))

def test_dry_steps_train_what_they_say():
    terms = dry_step(run_of(SCAN, encoder=EncoderConfig(name="FacebookAI/roberta-base", kind="cross", max_length=128)))
    assert set(terms) == {"sw", "ce", "cl"} and all(np.isfinite(v) for v in terms.values())

def test_the_weights_have_a_learning_rate_of_their_own(train):
    from debias_nb.repro.answer_training import Weigher
    data = answer_tokens(model_for(MethodConfig(name="plain"), train).encoder, train)
    rows, hidden = torch.arange(24), torch.randn(24, 6, generator=torch.Generator().manual_seed(0))
    spread = lambda **s: float(Weigher(ScanConfig(memory="none", **s), data, 0)(hidden, data.labels[rows], rows, 1.).std())
    assert spread(rate=1e-3) < .1 * spread() and spread(rate=.1) == spread()
