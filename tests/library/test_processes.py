"Two processes with half the batch take the steps of one with the whole batch, or say why they cannot."
import copy
import os
import random
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset
from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers import SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer import losses

import made
from needs import cannot_meet
from debias_nb.losses.author_losses import ContrastiveAuthorLoss, MulticlassLoss
from debias_nb.losses.authors import ARR, ProductOfExperts
from debias_nb.losses.author_batches import AuthorCollator, AuthorPairSampler, NumberedTexts, text_rows
from debias_nb.encoders.tokens import embed_texts, tokenize
from debias_nb.trainer import QuietTrainer, training_arguments
from debias_nb import processes
from debias_nb.processes import gather_rows
from debias_nb.runs.runner import cores
from debias_nb import Hinge, ITVReg, L2SP, LeastSquares, MaskReg, OutReg, Regularized
from debias_nb.runs import training as companion
from debias_nb.runs.pair_batches import pair_tokens
from debias_nb.runs.settings import PairMethod, PairTraining
from debias_nb.losses.scan_loss import SCAN
from test_author_losses import AUTHORS, TEXTS
from test_regularized import OTHER_TEXTS, PAIR, move, rows, train, without_dropout
from made import cross_encoder
from test_scan_training import ANSWERS, LABELS, QUESTIONS

pytestmark = pytest.mark.slow
# in any weight, after two or more steps; single precision adds up in another order, and processors differ
TOLERANCE = 1e-5
STEP = 1e-3      # what the same steps change in one weight at least


def steps(size, **changes):
    "Settings of a training whose order of sums is all that may differ."
    settings = dict(per_device_train_batch_size=size, num_train_epochs=1, optim="sgd", learning_rate=.1, seed=3,
                    use_cpu=True)
    return settings | changes


# ---------------------------------------------------------------- what is trained: name -> (weights before, and after)

METHODS = {
    "plain": dict(),
    "outreg": dict(regularizer="outreg", weight=3.),
    "itvreg": dict(regularizer="itvreg", weight=30., mask_share=.5),
    "maskreg": dict(regularizer="maskreg", weight=3., mask_share=.5),
    "l2sp": dict(regularizer="l2sp", weight=.1),
    "itvaug": dict(augmentation="itvaug", mask_share=.5),
    "worddropout": dict(augmentation="worddropout", mask_share=.5),
}
TRAININGS = [
    ("plain", "bert"), ("outreg", "bert"), ("itvreg", "bert"), ("itvreg", "table"), ("maskreg", "table"),
    ("l2sp", "bert"),
    ("itvaug", "bert"), ("worddropout", "table"),
]


def pairs_of(model):
    "Sixteen pairs; the first ten queries have one word, which no intervention can take."
    dice = random.Random(1)
    left = [dice.choice(made.WORDS) if i < 10 else " ".join(dice.choices(made.WORDS, k=4)) for i in range(16)]
    right = [" ".join(dice.choices(made.WORDS, k=3)) for _ in left]
    return pair_tokens(model, left, right, [dice.random() for _ in left])


def fine_tuned(folder, method, size):
    "As the companion trains, but for the optimizer."
    model = without_dropout(made.load(folder))
    base = move(made.load(folder), .5 if folder.name == "table" else .05)
    start = copy.deepcopy(model)
    settings = PairTraining(learning_rate=.1, epochs=1, batch_size=size)
    companion.TRAINING_OPTIMIZERS["adam"] = torch.optim.SGD
    try:
        companion.fine_tune(model, base, pairs_of(model), PairMethod(name=method, **METHODS[method]), settings, seed=3)
    finally:
        companion.TRAINING_OPTIMIZERS["adam"] = torch.optim.Adam
    return start.state_dict(), model.state_dict()


AUTHOR_LOSSES = {
    "cl": lambda model, teacher, topics: ContrastiveAuthorLoss(model),
    "mll": lambda model, teacher, topics: MulticlassLoss(model, 8),
    "arr": lambda model, teacher, topics: ARR(model, NumberedTexts(topics), teacher),
    "arr by text": lambda model, teacher, topics: ARR(model, TEXTS, teacher),
    "experts by pairs": lambda model, teacher, topics: ProductOfExperts(model, TEXTS),
}


def authors_told(folder, out, name, size):
    model = without_dropout(made.load(folder))
    start = copy.deepcopy(model)
    teacher = embed_texts(move(made.load(folder), .05), TEXTS)
    loss = AUTHOR_LOSSES[name](model, teacher, text_rows("tfidf", TEXTS)(TEXTS))
    arguments = {"train_dataset": Dataset.from_dict({"text": TEXTS, "label": AUTHORS})}
    batching = {"batch_sampler": AuthorPairSampler}
    if "by pairs" in name:
        arguments = {"train_dataset": Dataset.from_dict({"anchor": TEXTS[::4], "positive": TEXTS[1::4]})}
        batching = {}
        size //= 2
    elif "by text" not in name:
        arguments = {
            "train_dataset": Dataset.from_dict({"row": range(len(TEXTS)), "label": AUTHORS}),
            "data_collator": AuthorCollator(tokenize(model, TEXTS), AUTHORS),
        }
    args = training_arguments(out, **steps(size, **batching))
    QuietTrainer(model=model, args=args, loss=loss, **arguments).train()
    weights = [start.state_dict(), model.state_dict()]
    if name == "mll":
        weights[0] |= {"classifier": MulticlassLoss(start, 8).classifier.weight.detach()}
        weights[1] |= {"classifier": loss.classifier.weight.detach()}
    return weights


def answers_told(folder, out, size):
    model = CrossEncoder(str(folder), num_labels=1, device="cpu")
    torch.manual_seed(int(os.environ.get("RANK", 0))) # weights of its own would begin apart
    loss = SCAN(model, memory=6)
    start = copy.deepcopy(loss)
    data = Dataset.from_dict({"question": QUESTIONS * 2, "answer": ANSWERS[::-1] + ANSWERS, "label": LABELS * 2})
    args = CrossEncoderTrainingArguments(
        str(out), report_to="none", save_strategy="no", disable_tqdm=True, **steps(size, num_train_epochs=2))
    trainer = CrossEncoderTrainer(model=model, args=args, train_dataset=data, loss=loss)
    trainer.train()
    end = {f"debiasing.{key}": value for key, value in loss.debiasing.state_dict().items()}
    end |= {"memory": loss.memory.features, "weights": loss.memory.weights}
    return start.model.state_dict(), model.state_dict() | end


def regularize(folder, out, size):
    """Two steps with a loss of sentence-transformers, which gathers from all processes.

    The BERT has a pooler, which no embedding uses and whose weights `L2SP` reads."""
    model = without_dropout(made.load(folder))
    start = copy.deepcopy(model)
    base_loss = losses.MultipleNegativesRankingLoss(model, gather_across_devices=True)
    base = move(made.load(folder), .5 if folder.name == "table" else .05)
    on_texts = [OutReg(3., texts=OTHER_TEXTS), ITVReg(300., texts=OTHER_TEXTS, texts_per_batch=size // 2)]
    held = [OutReg(3.), ITVReg(300.), MaskReg(30., .5, columns=1), L2SP(.1), *on_texts]
    loss = Regularized(model, base_loss, held, base=base)
    settings = dict(per_device_train_batch_size=size, max_steps=2, optim="sgd", learning_rate=.1)
    if "RANK" in os.environ:
        settings["ddp_backend"] = "gloo"
    train(model, loss, rows(PAIR), out, **settings)
    return start.state_dict(), model.state_dict()


def fail_on_sizes(name):
    "Batches of two and of three rows."
    try:
        gather_rows(torch.zeros(2 + int(os.environ["RANK"])))
    except ValueError as error:
        return str(error)


def everything(folder, out, size):
    "Every case by its name: weights before and after, or the error."
    cases = {f"{method}, {kind}": (fine_tuned, folder / kind, method, size) for method, kind in TRAININGS}
    cases |= {f"{name}, bert": (authors_told, folder / "bert", out, name, size) for name in AUTHOR_LOSSES}
    cases |= {f"regularized, {kind}": (regularize, folder / kind, out, size) for kind in ("bert", "table")}
    cases["scan"] = (answers_told, folder / "cross", out, size)
    if "RANK" in os.environ:
        cases["apart"] = (fail_on_sizes, "apart")
    outcomes = {}
    for name, (work, *arguments) in cases.items():
        try:
            outcomes[name] = work(*arguments)
        except Exception:
            outcomes[name] = traceback.format_exc()
    return outcomes


SCRIPT = """
import gc
import sys
sys.path[:0] = {tests!r}
import os
from pathlib import Path
import test_processes as t
gc.collect()
gc.freeze() # each of many trainings begins with a collection of garbage
found = t.everything(Path({folder!r}), Path({out!r}), 4)
t.torch.save(found, {saved!r} + os.environ["RANK"])
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    "What one process gives, and what each of two does."
    if cannot_meet():
        pytest.skip(cannot_meet())
    folder = tmp_path_factory.mktemp("processes")
    made.bert(folder)
    made.table(folder)
    cross_encoder(folder / "cross", dropout=0.)
    names = dict(tests=[str(Path(__file__).parent), str(Path(made.__file__).parent)], folder=str(folder),
                 out=str(folder / "two"), saved=str(folder / "saved"))
    script = folder / "train.py"
    script.write_text(textwrap.dedent(SCRIPT.format(**names)), "utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(script)]
    process = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
                             timeout=300)
    assert process.returncode == 0, process.stderr[-3000:]
    two = [torch.load(folder / f"saved{rank}", weights_only=False) for rank in range(2)]
    return everything(folder, folder / "one", 8), *two


NAMES = [f"{method}, {kind}" for method, kind in TRAININGS] + [f"{name}, bert" for name in AUTHOR_LOSSES] + ["scan"]
REGULARIZATIONS = ["regularized, bert", "regularized, table"]


def largest(a, b, keys=None):
    return max(float((a[key].float() - b[key].float()).abs().max()) for key in keys or a)


def check_same_steps(results, name, moved_by, tolerance):
    """One process with twice the batch moves, and each of two ends where it does.

    Two leave the weights of a pooler alone, which no embedding uses."""
    single, first, second = (outcomes[name] for outcomes in results)
    for result in (single, first, second):
        assert not isinstance(result, str), result
    start, end = single
    assert largest(start, end) > moved_by
    used = [key for key in end if "pooler" not in key]
    for pair in (first, second):
        assert largest(end, pair[1], used) < tolerance


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_take_the_steps_of_one_with_twice_the_batch(results, name):
    check_same_steps(results, name, STEP, TOLERANCE)


@pytest.mark.parametrize("name", REGULARIZATIONS)
def test_a_regularized_loss_takes_the_steps_of_one_with_twice_the_batch(results, name):
    check_same_steps(results, name, 1e-3, 1e-6)


def test_batches_of_different_sizes_are_refused(results):
    for outcomes in results[1:]:
        assert "processes with batches of 2, 3 rows" in outcomes["apart"]


# ---------------------------------------------------------------- what cannot span processes

@pytest.fixture
def in_two(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return made.load(made.table(tmp_path_factory.mktemp("table")))


def test_the_hinge_is_refused(table, in_two):
    features = [table.preprocess(["red kettle", "old lamp"]) for _ in range(2)]
    with pytest.raises(ValueError, match="the hinge cannot be trained in 2 processes: .*gather_across_devices=True"):
        Hinge(table)(features, torch.eye(2, dtype=torch.bool))
    LeastSquares(table)(features, torch.ones(2))


@pytest.mark.parametrize("visible, taken", [(None, ["0", "1", "0"]), ("5,7", ["5", "7", "5"])])
def test_each_training_process_gets_a_gpu_of_its_own(monkeypatch, visible, taken):
    "The count is made up: what a GPU does with it is not tested."
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for number, name in enumerate(taken, 1):
        monkeypatch.setattr(processes, "current_process", lambda number=number: SimpleNamespace(_identity=(number,)))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        processes.take_gpu()
        assert os.environ["CUDA_VISIBLE_DEVICES"] == name
    assert cores() == 2


def test_one_process_trains_on_one_gpu(monkeypatch, tmp_path):
    "transformers would split its batches over all of them, and take larger ones."
    monkeypatch.setattr(SentenceTransformerTrainingArguments, "n_gpu", 4)
    assert training_arguments(tmp_path)._n_gpu == 1
