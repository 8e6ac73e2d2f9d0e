"""From a method and the settings of a training to its loss, with which sentence-transformers fine-tunes an encoder.

How strong a regularizer is shows in the norm of its gradient at one common point, the plainly fine-tuned encoder: at
the start the gradients of ITVReg and OutReg are zero, and at the end of each method's own training they balance the
data term.

Other than in the paper: Adam with a constant rate and no clipping, where the paper names Adam and the rate only; one
CPU thread a run, since sums depend on the number of threads and a record should not depend on the machine's.
"""
import copy
import importlib
import math
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from sentence_transformers.sentence_transformer import losses
from transformers import TrainerCallback

from ..checks import ConfigError
from ..encoders.kinds import device_of, is_static
from ..encoders.tokens import Tokens, single_thread
from ..encoders.trained_part import trained_part
from ..losses.pair_losses import Hinge, LeastSquares, PairLoss, cosines
from ..losses.regularized import Draws, Regularized
from ..losses.regularizers import L2SP, Changing, Intervening, Regularizer
from ..processes import mean_of_rows, mean_over_processes
from ..trainer import QuietTrainer, training_arguments
from .course import CachedBase, Course, FrozenBase
from .names import REGULARIZERS
from .pair_batches import RANKING_LOSSES, PairCollator, PairTokens, batches_of, batch_columns
from .records import TrainingFailed
from .settings import PairMethod, TrainConfig


# as sentence-transformers calls them
THEIRS = dict.fromkeys(RANKING_LOSSES, "MultipleNegativesRankingLoss") | {"cosent": "CoSENTLoss"}


def own_class(name: str) -> type: # `mymodule.Name`, from the current folder or installed
    "Import a loss or a regularizer of a user's own. Raise `ConfigError` for what is neither."
    module, _, class_name = name.rpartition(".")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        value = getattr(importlib.import_module(module), class_name)
    except Exception as e: # whatever somebody's module does while it is imported
        raise ConfigError(f"methods: {name!r}: {type(e).__name__}: {e}") from None
    if not (isinstance(value, type) and issubclass(value, (Regularizer, Changing, torch.nn.Module))):
        raise ConfigError(f"methods: {name!r} is no class of a loss or a Regularizer")
    return value


def base_loss(
    training: TrainConfig | None, # names it; None: least squares
    model,                        # the SentenceTransformer that is trained
) -> torch.nn.Module:
    "Return the loss of a method before its regularizer: ours, a user's, or sentence-transformers' by its defaults."
    kind = "mse" if training is None else training.loss
    if kind == "hinge":
        return Hinge(model, training.margin, training.hardest, training.temperature)
    if kind == "mse":
        return LeastSquares(model)
    if "." in kind:
        return own_class(kind)(model)
    return getattr(losses, THEIRS.get(kind, kind))(model)


class Twins(Intervening):
    "Intervened pairs (X', Z), whose target is the label less what the base says the intervention took away."
    needs_base = True
    name = "itvaug"

    def extra_texts(self, batch):
        x, _ = batch.texts_of(self)
        return [self.changed(x)[0]]

    def of_batch(self, batch):
        x, z = batch.texts_of(self)
        twin, weight = self.changed(x)
        cosine = cosines(x.encode(twin), z.fx)
        given_cosine = cosines(x.f0x, z.f0x)
        twin_cosine = cosines(x.at_base(twin), z.f0x)
        target = (batch.labels[x.rows].float() - (given_cosine - twin_cosine)).clamp(0, 1)
        return mean_of_rows((cosine - target) ** 2, weight)


class ITVAug(Regularized):
    "Least squares on the pairs and on their intervened twins (our reading of the paper's ITVAug); no lambda."
    def __init__(self, model, base, draws=Draws, mask_share: float = .5, intervention: str = "mask"):
        twins = Twins(mask_share=mask_share, intervention=intervention, columns=(0, 1))
        super().__init__(model, LeastSquares(model), [twins], base, draws)

    def weighted(self, batch, terms, raw): # one mean over all pairs, given and intervened
        twins, = self.regularizers
        _, weight = batch.texts_of(twins)[0].changed
        count = mean_over_processes(weight.sum())
        share = count / (len(weight) + count)
        return {"base": (1 - share) * terms["base"], "itvaug": share * raw["itvaug"]}


@dataclass
class GOR(Regularizer):
    """Spread of the texts of each column over the sphere.

    As sentence-transformers' GlobalOrthogonalRegularizationLoss by its defaults: the squared mean of the cosines of
    different texts, and what the mean of their squares has above 1/d.
    """
    columns: int | tuple[int, ...] | str = field(default="all", kw_only=True)

    spread = losses.GlobalOrthogonalRegularizationLoss(None)

    def term(self, text):
        return sum(self.spread.compute_loss_from_embeddings([text.fx]).values())


def regularizer_class(method: PairMethod): # of `REGULARIZERS` or a user's; None for plain fine-tuning
    name = method.addition
    if "." in name:
        return own_class(name)
    return None if name == "none" else REGULARIZERS[name].load()


def base_for(method: PairMethod, base, columns: list[Tokens], dtype: str):
    "Return the base encoder as a method uses it, for `make_loss`, or None if it does not or there is none."
    kind = regularizer_class(method)
    if base is None or kind is None or not kind.needs_base:
        return None
    if method.texts: # what is kept of them is kept with the texts
        return base
    if kind is L2SP: # it reads the weights; others embeddings that can be kept
        return FrozenBase(base, dtype)
    return CachedBase(base, columns, dtype)


def interventions_of(method: PairMethod) -> dict:
    "Return mask_share and intervention; nothing for methods that intervene on nothing."
    return {} if method.mask_share is None else {"mask_share": method.mask_share, "intervention": method.intervention}


def regularizer_of(
    method: PairMethod,
    texts: list[str] | None, # on which the encoder is regularized, of a method that says so
    seed: int,               # draws these texts
) -> Regularizer:
    "Return the regularizer of a method with its lambda, `weight`."
    settings = interventions_of(method)
    if method.rows < 1:
        settings["rows"] = method.rows
    if method.texts:
        settings |= {"texts": texts, "seed": seed}
    kind = regularizer_class(method)
    return kind(weight=method.weight, **settings)


def make_loss(
    method: PairMethod,
    model,                               # the SentenceTransformer that is trained
    # a `FrozenBase`, or None for methods that need none; with texts the model itself
    base,
    course: Course,                      # of the training
    training: TrainConfig | None = None, # names the objective; default: least squares
    texts: list[str] | None = None,      # as of `regularizer_of`
    # whether a regularizer without effect is warned of; a table trains with every strength
    watch: bool = False,
) -> torch.nn.Module:
    "Return the loss of a method. Raise `ConfigError` for ITVAug with another loss than least squares."
    kind = regularizer_class(method)
    changes = kind is not None and issubclass(kind, Changing)
    draws = partial(course.draws, model, changes)
    loss = base_loss(training, model)
    if kind is Twins and not isinstance(loss, LeastSquares):
        reason = f"ITVAug changes the labels of least squares, and the loss is {training.loss!r}"
        raise ConfigError(f"method {method.name!r}: {reason}")
    if kind is Twins:
        loss = ITVAug(model, base, draws, **interventions_of(method))
    elif changes:
        loss = Regularized(model, loss, [kind(method.mask_share or method.weight)], draws=draws)
    elif kind:
        loss = Regularized(model, loss, [regularizer_of(method, texts, course.seed)], base, draws)
    if isinstance(loss, Regularized) and not watch:
        loss.watch = None
    ahead = method.rows == 1 or is_static(model) # a table embeds all rows at once sooner than a few in every step
    if method.mask_share is not None and kind.needs_base and ahead and isinstance(base, CachedBase):
        course.prepare = partial(base.prepare, method.mask_share, method.intervention)
    loss.register_forward_hook(course.note)
    return loss


class MatchingTrainer(QuietTrainer):
    "sentence-transformers' trainer, stopped by a loss that is not finite. Raise `TrainingFailed` with the step."

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        out = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        loss = out
        if return_outputs:
            loss = out[0]
        if not torch.isfinite(loss):
            raise TrainingFailed(self.state.global_step, f"the loss is {float(loss.detach())}")
        return out

    def track_loss_components(self, loss):
        "Keep nothing: a `Course` keeps the terms of each step."


class BestEpoch(TrainerCallback):
    "Callback that keeps the weights of the epoch with the highest validation score, the earliest of equals."

    def __init__(self, model, validate): # validate: model -> score, higher is better
        self.model = model
        self.validate = validate
        self.scores = []
        self.kept = None

    def on_epoch_end(self, args, state, control, **_):
        score = float(self.validate(self.model))
        if score > max(self.scores, default=-np.inf):
            self.kept = copy.deepcopy(self.model.state_dict())
        self.scores.append(score)

    def on_train_end(self, args, state, control, **_):
        self.model.load_state_dict(self.kept)


TRAINING_OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def train_with(
    kind,                  # of transformers' trainers
    model,                 # trained in place
    rows: dict,            # column -> numbers, by which the collator finds a batch
    collate,               # rows -> batch
    training: TrainConfig,
    seed: int,             # of batches and dropout
    dtype: str,            # bf16 is autocast
    arguments: dict,       # further ones, as the trainer calls them
    **parts,               # of the trainer
): # the trainer, when all is done
    "Train as a configuration says. The trainer lets biases and norms not decay."
    from datasets import Dataset
    settings = dict(
        num_train_epochs=training.epochs, per_device_train_batch_size=training.batch_size, seed=seed,
        learning_rate=training.learning_rate, bf16=dtype == "bf16",
        use_cpu=device_of(model).type == "cpu")
    optimizer = TRAINING_OPTIMIZERS[training.optimizer], {"lr": training.learning_rate, "fused": True}
    with tempfile.TemporaryDirectory() as folder, single_thread():
        trainer = kind(
            model=model, args=training_arguments(folder, **settings | arguments), train_dataset=Dataset.from_dict(rows),
            data_collator=collate, optimizer_cls_and_kwargs=optimizer, **parts)
        trainer.train()
    model.eval()
    return trainer


def fine_tune(
    model,                    # trained in place
    base,                     # the base encoder, left as it is; None will do for methods that need none
    pairs: PairTokens,
    method: PairMethod,
    training: TrainConfig,
    seed: int,                # of batches, dropout and interventions
    dtype: str = "fp32",      # bf16 is autocast
    callbacks: tuple = (),    # more of them, e.g. `BestEpoch`
    texts: list[str] | None = None, # on which the encoder is regularized, of a method that says so
    watch: bool = False,      # as in `make_loss`
) -> Course: # with the history of its terms
    "Train `model` on `pairs`. Raise `TrainingFailed` if the loss is not finite."
    settings = batches_of(pairs, training)
    course = Course(seed)
    loss = make_loss(method, model, base_for(method, base, list(pairs.columns.values()), dtype), course, training,
                     texts, watch)
    inner = getattr(loss, "loss", loss)
    # it is called with the tokens as a static table reads them
    flat = is_static(model) and not isinstance(inner, PairLoss)
    adapters = {"rank": method.lora.rank, "alpha": method.lora.alpha} if method.lora else {}
    with trained_part(model, seed, method.frozen_layers, **adapters):
        train_with(
            MatchingTrainer, model, {"row": range(len(pairs))}, PairCollator(pairs, flat), training, seed, dtype,
            settings, loss=loss,
            callbacks=[course, *callbacks])
    return course


BATCHES = 8 # of the training set; gradient norms are averaged over them


def _gradient_norm(loss, batch: dict, parameters: list, seed: int) -> float:
    "Compute the norm of the gradient of the term that a method adds (its own loss, if none), raw, dropout on."
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        loss.model.train()
        term = loss(batch_columns(batch), batch["label"])
    if not torch.is_tensor(term):
        *_, term = term.raw.values()
    gradients = torch.autograd.grad(term, parameters, allow_unused=True) # None for weights that are not used
    squares = [(part**2).sum() for part in gradients if part is not None]
    return float(sum(squares).sqrt())


def gradient_norms(
    model,                        # the plainly fine-tuned encoder
    base,                         # its base encoder
    pairs: PairTokens,
    methods: dict[str, PairMethod], # regularizers; their weights do not matter
    training: TrainConfig,
    seed: int,
) -> dict[str, float]: # `erm` and each method: norm of the gradient of the raw term, over all weights
    "Compute gradient norms of every regularizer at one point, dropout on."
    size = training.batch_size
    order = np.random.default_rng([seed, 11]).permutation(len(pairs))
    rows = [{"row": int(row)} for row in order]
    collate = PairCollator(pairs)
    count = min(BATCHES, max(1, len(pairs) // size))
    batches = [collate(rows[start : start + size]) for start in range(0, count * size, size)]
    parameters = [p for p in model.parameters() if p.requires_grad]
    plain = {"erm": PairMethod(name="erm")}
    out = {}
    for name, method in (plain | methods).items():
        loss = make_loss(method, model, FrozenBase(base), Course(seed), training)
        norms = [_gradient_norm(loss, batch, parameters, seed) for batch in batches]
        out[name] = float(np.mean(norms))
    model.eval()
    return out


def in_stretches(
    steps: list[dict], # one dict of scalars a step
    points: int,       # stretches at most
    summary,           # (values of a stretch) -> their summary
) -> dict[str, list]:  # a list a name
    "Summarize steps over stretches of equal length."
    count = min(points, len(steps))
    out = {}
    for name in steps[0]:
        values = [float(step[name]) for step in steps]
        out[name] = [summary(stretch) for stretch in np.array_split(values, count)]
    return out


CURVE_POINTS = 20 # of a curve, at most


def curve_summary(
    history: list[dict], # one dict of scalars a step
) -> dict[str, list[float]]: # `step` (last step of each stretch) and one list a term
    "Summarize the history of a loss in stretches of equal length."
    if not history:
        return {"step": []}
    steps = np.array_split(np.arange(1, len(history) + 1), min(CURVE_POINTS, len(history)))
    means = in_stretches(history, CURVE_POINTS, lambda stretch: float(f"{stretch.mean():.5g}"))
    return {"step": [int(stretch[-1]) for stretch in steps]} | means


def history_summary(
    history: list[dict], # one dict of numbers a batch, from a loss's `history`
    temperature: float | None = None, # tau; adds the teacher's temperature tau / (1 - B), at the mean B
) -> dict[str, float]: # means over all batches; `loss_last` over the last tenth; smallest and largest B
    "Summarize a training in a few numbers. Raises `ValueError` for a loss without a batch."
    if not history:
        raise ValueError("the history is empty: the loss has seen no batch")
    numbers = {key: np.array([float(step[key]) for step in history]) for key in history[0]}
    out = {"batches": len(history)}
    for key, values in numbers.items():
        out[key] = values.mean()
    tenth = max(1, len(history) // 10)
    out["loss_last"] = numbers["loss"][-tenth:].mean()
    if "pairs" in numbers:
        out["batches_without_pairs"] = (numbers["pairs"] == 0).sum()
    if "entropy" in numbers: # the smallest value of the loss, for targets that sum to 1
        out["excess"] = out["loss"] - out["entropy"]
    if "B" in numbers:
        out["B_min"] = numbers["B"].min()
        out["B_max"] = numbers["B"].max()
        if temperature is not None:
            remainder = 1 - out["B"]
            out["teacher_temperature"] = temperature / remainder if remainder > 0 else math.inf
    return {key: float(value) for key, value in out.items()}
