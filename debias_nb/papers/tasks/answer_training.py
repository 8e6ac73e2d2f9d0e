"""Train a pair encoder to select answers, then score and evaluate.

The loss is cross-entropy, with SCAN's weights and debiasing on top of it, and transfer before it. Sample weights are
learned again in each batch from the representations that the encoder has at that moment, which stays as it is
meanwhile: `learned`; `shuffled`, the same shuffled within each class, the control that says whether it matters who gets
which; the `oracle`, 1 / P(word overlap | label). The diary tells what they do, relative to a mean of 1.

Processors add up long sums in different orders. In the training of the alignment network such a difference grows about
tenfold every 30 steps, so an encoder of `dtype` fp64 is trained in double precision, and its gradients are rounded
before each step: much more coarsely than the differences, and about as finely as single precision.

Other than in the paper: settings that it leaves open are the configuration's; the best epoch by MAP on the development
set, the earliest of equals; after a transfer the classifier of the first stage goes on, where the public code starts a
new one; batches of similar length, on which scores do not depend and gradients do; a class weight for right answers,
for encoders that start from scratch, which is 1 in the paper's own settings.
"""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from transformers import PrinterCallback, Trainer
from transformers.trainer_pt_utils import LengthGroupedSampler

from .pair_encoders import PairEncoder, PairInputs, load_pair_encoder
from ..data.answers import Answers, high_overlap, overlap_errors
from ...encoders.kinds import device_of
from ...encoders.tokens import autocast, evaluating
from ...measures.metrics import rank_metrics, rank_replicates
from ...processes import refuse_several
from ...runs.config import RunConfig
from ..settings.answers import ScanConfig
from ...runs.records import TrainingFailed
from ...runs.pair_batches import batch_rows
from ...runs.training import BestEpoch, in_stretches, train_with
from ...losses.scan import Memory, weigh
from ...losses.scan_effects import diagnose_weights, effective_size, oracle_weights, shuffle_within_classes
from ...losses.scan_head import ScanHead, joint_loss


class AnswerModel(nn.Module):
    "Pair encoder with the head on it; called, it gives representations."
    def __init__(self, encoder: PairEncoder, head: ScanHead):
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(self, batch: dict) -> torch.Tensor: # of `PairInputs.batch` -> H (n, d)
        return self.encoder(**batch)


PLAIN = ScanConfig(weights="uniform") # cross-entropy alone


def answer_model(
    run: RunConfig,
    texts: list[str] | None = None,  # that the vocabulary of an encoder called `learned` is made of
) -> AnswerModel:
    "Return an untrained model; the seed decides all fresh weights. Raise `EncoderError` as `load_pair_encoder`."
    scan = run.method.scan or PLAIN
    pairs = load_pair_encoder(run.encoder, texts, run.seed)
    with torch.random.fork_rng([]):
        torch.manual_seed(run.seed + 1)
        head = ScanHead(
            pairs.width, temperature=scan.temperature, debias=scan.debias,
            class_weights=(1., run.training.positive_weight))
    model = AnswerModel(pairs, head)
    if run.encoder.dtype == "fp64":
        model.double()
    return model


@dataclass(frozen=True)
class AnswerTokens:
    "Questions with candidate answers, ready for an encoder."
    inputs: PairInputs
    labels: torch.Tensor  # (n,) 0 or 1
    overlap: torch.Tensor # (n,) bool: the answer shares many words with its question

    def __len__(self):
        return len(self.labels)

    @property
    def conflicting(self) -> torch.Tensor: # (n,) bool: shared words speak for the other label
        return self.overlap != (self.labels == 1)


def answer_tokens(
    encoder: PairEncoder,
    answers: Answers,
    max_length: int = 128, # tokens of a pair, special ones included
) -> AnswerTokens:
    "Tokenize candidates. Raise `ValueError` as `PairEncoder.tokenize`."
    inputs = encoder.tokenize(answers.questions, answers.answers, max_length)
    labels = torch.from_numpy(answers.labels.astype(np.int64))
    return AnswerTokens(inputs, labels, torch.from_numpy(high_overlap(answers)))


class AnswerCollator:
    "Collator of batches of rows: arguments of the encoder, `labels`, and `row`."
    def __init__(self, data: AnswerTokens):
        self.data = data

    def __call__(self, features: list[dict]) -> dict: # features: [{"row": int, …}, …]
        rows = batch_rows(features)
        batch = self.data.inputs.batch(rows)
        return batch | {"labels": self.data.labels[rows], "row": rows}


class Weigher:
    "Sample weights for the batches of one training run, and a diary of what they did."

    def __init__(self,
        scan: ScanConfig,
        data: AnswerTokens, # the training set
        seed: int = 0,      # of random features and of shuffling
    ):
        self.scan = scan
        self.conflicting = data.conflicting
        self.generator = torch.Generator().manual_seed(seed)
        self.settings = {"variant": scan.variant}
        if scan.variant == "paper" and scan.pairs == "matched":
            self.settings["form"] = "matched"
        if scan.rate:
            self.settings["lr"] = scan.rate
        if scan.optimizer:
            self.settings["optimizer"] = scan.optimizer
        if scan.variant == "fixed":
            self.settings |= {"penalty": scan.penalty, "class_mass": scan.class_mass}
        self.fitted = float("nan")
        self.memory = None # of earlier batches
        if scan.memory != "none" and scan.weights in ("learned", "shuffled"):
            self.memory = Memory(scan.memory, scan.alpha, size=280)
        self.oracle = None
        if scan.weights == "oracle":
            self.oracle = oracle_weights(data.labels, data.overlap.long())

    def __call__(self,
        hidden: torch.Tensor, # (n, d) of the batch
        labels: torch.Tensor, # (n,)
        rows: torch.Tensor,   # (n,) in the training set
    ) -> torch.Tensor | None: # (n,), or None for uniform weights
        "Return the weights of a batch. Raise as `learn_weights`."
        if self.scan.weights == "uniform" or len(rows) < 2:
            return None
        if self.oracle is not None:
            return self.oracle[rows.cpu()].to(hidden.device)
        weights = weigh(hidden, labels, self.memory, generator=self.generator, **self.settings)
        self.fitted = weights.loss
        if self.scan.weights == "learned":
            return weights.values
        return shuffle_within_classes(weights.values, labels, self.generator)

    def diary_line(self, weights, labels, rows) -> dict[str, float]:
        "Summarize the weights of a batch for the diary, relative to mean 1; nan where there are no such samples."
        w = weights / weights.mean()
        conflicting = self.conflicting[rows.cpu()].to(labels.device)
        return {
            "effective size": effective_size(w),
            "largest": float(w.max()),
            "right answers": float(w[labels == 1].mean()),
            "conflicting": float(w[conflicting].mean()),
            "fitted loss": self.fitted,
        }

    def fresh_losses(self, weights, hidden, labels) -> dict[str, float]:
        """Test weights on fresh random features of a batch, as they are and shuffled.

        Return nothing if the samples differ in one feature or none, as after a training has collapsed.
        """
        out = diagnose_weights(weights, hidden, labels, generator=self.generator, draws=1)
        return {key: out[key] for key in ("fresh loss", "fresh loss, shuffled") if np.isfinite(out[key])}


GRADIENT_BITS = 20


def round_gradients(
    optimizer, # of torch; its gradients are changed
    *_,        # so that `register_step_pre_hook` takes it
) -> None:
    """Round each gradient to multiples of 2^-20 of the power of two above its largest number.

    Sums of many numbers differ between processors in their last bits, and a training makes more of that in each step;
    the rounding takes it away before the step.
    """
    for group in optimizer.param_groups:
        for weight in group["params"]:
            if weight.grad is None:
                continue
            largest = weight.grad.abs().max()
            unit = torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent - GRADIENT_BITS)
            weight.grad.div_(unit).round_().mul_(unit)


class EpochSampler(LengthGroupedSampler):
    """Sampler of pairs of like length, with its batches in random order.

    Seed and epoch alone decide the order. A last, shorter batch stays where it is.
    """
    def __init__(self, batch_size: int, lengths: list[int], seed: int):
        super().__init__(batch_size, lengths=lengths, generator=torch.Generator())
        self.seed = seed
        self.set_epoch(0)

    def __iter__(self):
        order = torch.tensor(list(super().__iter__()))
        full = len(order) // self.batch_size
        *batches, remainder = order.tensor_split(self.batch_size * torch.arange(1, full + 1))
        for place in torch.randperm(full, generator=self.generator):
            yield from batches[place].tolist()
        yield from remainder.tolist()

    def set_epoch(self, epoch: int): # the trainer calls this
        state = np.random.SeedSequence([self.seed, epoch]).generate_state(1)[0]
        self.generator.manual_seed(int(state))


MOMENTS = 8 # of a training, at which weights are tried on fresh features


class AnswerTrainer(Trainer):
    """transformers' trainer with sample weights and the terms of `ScanHead`.

    It keeps a dict a step in `history` and, of the weights, in `diary`. Raise `TrainingFailed` with the step.
    """

    def __init__(self, *args, weigher: Weigher, contrast: float, has_rounding: bool, **kwargs):
        super().__init__(*args, **kwargs)
        self.has_rounding = has_rounding
        self.remove_callback(PrinterCallback)
        self.weigher = weigher
        self.contrast = contrast
        self.history = []
        self.diary = []
        self.fresh = []

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        rows = inputs.pop("row")
        hidden = model(inputs)
        step = self.state.global_step
        if self.weigher.scan.weights != "uniform" and not hidden.isfinite().all():
            raise TrainingFailed(step, "the representations that weights are learned on are not finite")
        try:
            weights = self.weigher(hidden.detach(), labels, rows)
        except FloatingPointError as e:
            raise TrainingFailed(step, f"{e} (`rate` of the method's `scan`)") from None
        if weights is not None and not weights.sum() > 0:
            problem = f"the weights of a batch sum to {float(weights.sum()):.3g}"
            remedy = "take a smaller learning rate for them (`rate` of the method's `scan`)"
            raise TrainingFailed(step, f"{problem}: {remedy}")
        terms = self.model.head(hidden, labels, weights)
        loss = joint_loss(terms, cl=self.contrast)
        if not torch.isfinite(loss):
            raise TrainingFailed(step, f"the loss is {loss.item()}")

        self.history.append({key: value.item() for key, value in terms.items()})
        if weights is not None:
            self.diary.append(self.weigher.diary_line(weights, labels, rows))
            if step % max(1, self.state.max_steps // MOMENTS) == 0:
                self.fresh.append({"step": step} | self.weigher.fresh_losses(weights, hidden, labels))
        return loss

    def create_optimizer(self, *args, **kwargs):
        optimizer = super().create_optimizer(*args, **kwargs)
        if self.has_rounding:
            optimizer.register_step_pre_hook(round_gradients)
        return optimizer

    def _get_train_sampler(self, train_dataset=None):
        lengths = self.data_collator.data.inputs.lengths
        return EpochSampler(self.args.train_batch_size, lengths.tolist(), self.args.seed)


def fit_answers(
    model: AnswerModel,       # trained in place
    data: AnswerTokens,
    run: RunConfig,           # its seed decides batches, dropout, random features; `dtype` fp64 rounds gradients
    # model -> score, higher is better: the best epoch's weights are kept, the earliest of equals
    validate=None,
) -> AnswerTrainer: # with `history`, `diary`, `fresh` and, after validation, `scores` by epoch
    "Train a model. Raise `TrainingFailed` if the loss is not finite."
    training = run.training
    reason = "weights and memory are those of one process's batches; debias_nb.SCAN trains over several"
    refuse_several("answers as runs train them", reason)
    scan = run.method.scan or PLAIN
    best = BestEpoch(model, validate)
    dtype = run.encoder.dtype
    trainer = train_with(
        AnswerTrainer, model, {"row": range(len(data))}, AnswerCollator(data), training, run.seed, dtype,
        {"remove_unused_columns": False}, weigher=Weigher(scan, data, run.seed), contrast=scan.contrast,
        has_rounding=dtype == "fp64", callbacks=[best] if validate else [])
    trainer.scores = best.scores
    return trainer


def diary_summary(
    diary: list[dict], # one dict of numbers a step, nan where a batch had nothing to tell
) -> dict[str, list[float | None]]: # a list a name: means over stretches of equal length, None where one tells nothing
    "Summarize the diary of weights in at most ten stretches."
    def mean(values):
        return None if np.isnan(values).all() else float(f"{np.nanmean(values):.4g}")

    return in_stretches(diary, 10, mean) if diary else {}


@torch.no_grad()
def answer_scores(
    model: AnswerModel,
    inputs: PairInputs,
    dtype: str = "fp32",  # bf16 is autocast
) -> np.ndarray: # (n,) log-odds of being an answer
    "Score candidates, in the order given."
    device = device_of(model)
    out = torch.empty(len(inputs))
    order = torch.from_numpy(np.argsort(-inputs.lengths, kind="stable"))
    with evaluating(model), autocast(dtype, device):
        for rows in order.split(256):
            batch = {key: value.to(device) for key, value in inputs.batch(rows).items()}
            out[rows] = model.head.scores(model(batch)).float().cpu()
    return out.numpy()


def train_stages(
    model: AnswerModel,
    data: AnswerTokens,                       # of the run's own corpus
    run: RunConfig,
    validate=None,                            # as in `fit_answers`, for the last stage
    transfer: AnswerTokens | None = None,     # of the first stage's corpus, for methods with `transfer`
) -> tuple[AnswerTrainer | None, AnswerTrainer]: # of the first stage and of the last
    """Train in one stage or two; the first one is plain.

    Raise `ValueError` if the first stage lacks settings or data, otherwise as `fit_answers`.
    """
    first = None
    if run.method.transfer:
        stage = run.training.transfer
        if stage is None or transfer is None:
            reason = "`transfer` needs a training with `transfer`, and the answers of that stage"
            raise ValueError(f"method {run.method.name!r}: {reason}")
        training = run.training.model_copy(update={"learning_rate": stage.learning_rate, "epochs": stage.epochs})
        plain = run.method.model_copy(update={"scan": None})
        debiasing = model.head.debiasing
        model.head.debiasing = None
        first = fit_answers(model, transfer, run.model_copy(update={"training": training, "method": plain}))
        model.head.debiasing = debiasing
    last = fit_answers(model, data, run, validate)
    return first, last


REPLICATE_METRICS = ("map", "mrr", "p1")      # metrics with bootstrap replicates
GRADE_METRICS = ("ndcg1", "ndcg3", "ndcg10")  # the same, where relevance has grades
REPLICATES = 100                              # records hold them, for every set and metric


def evaluate_answers(
    scores: np.ndarray, # (n,) finite
    answers: Answers,
) -> tuple[dict[str, float], dict[str, list[float]], list[float]]: # metrics, replicates, average precision by question
    """Compute all metrics of a set of candidates, also on misled questions and on the others.

    Raise `ValueError` naming set and question.
    """
    means, values, ids = rank_metrics(
        answers.labels, scores, answers.question_ids, answers.grades, name=answers.name, unanswered="exclude")
    names = REPLICATE_METRICS if answers.grades is None else REPLICATE_METRICS + GRADE_METRICS
    replicates = rank_replicates({key: values[key] for key in names}, REPLICATES, 0)
    precision = values["map"]
    # whether the largest overlap is a wrong candidate's
    wrong = dict(zip(answers.question_ids, overlap_errors(answers).tolist()))
    is_misled = np.array([wrong[i] for i in ids])
    for k, (name, mask) in enumerate({"misled": is_misled, "led": ~is_misled}.items(), 1):
        if mask.sum() < 2:
            continue
        subset = precision[mask]
        means[f"map[{name}]"] = float(subset.mean())
        means[f"p1[{name}]"] = float(values["p1"][mask].mean())
        replicates |= rank_replicates({f"map[{name}]": subset}, REPLICATES, k) # other questions, other draws
    means["misled"] = float(is_misled.mean())
    rounded_replicates = {key: np.round(resamples, 4).tolist() for key, resamples in replicates.items()}
    return means, rounded_replicates, np.round(precision, 4).tolist()
