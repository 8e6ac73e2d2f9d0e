"""Fine-tune an encoder on labeled pairs through sentence-transformers' trainer, with tokens, interventions and base values prepared once.

A sweep trains on the same texts hundreds of times; left to itself the trainer tokenizes them in every step of every
run. Here the trainer's data set holds numbers of rows, which also name the interventions and find what the base
encoder says.

How strong a regularizer is shows in the norm of its gradient at one common point, the plainly fine-tuned encoder: at
the start the gradients of ITVReg and OutReg are zero, and at the end of each method's own training they balance the
data term.

Other than in the paper: Adam with a constant rate and no clipping, where the paper names Adam and the rate only; one
CPU thread a run, since sums depend on the number of threads and a record should not depend on the machine's.
"""
import copy
import math
import tempfile
from dataclasses import dataclass, field
from functools import partial
from typing import get_args

import numpy as np
import torch
from sentence_transformers.base.data_collator import BaseDataCollator
from sentence_transformers.base.sampler import DefaultBatchSampler, NoDuplicatesBatchSampler
from transformers import TrainerCallback

from ..checks import ConfigError
from ..encoders.kinds import device_of, is_static
from ..encoders.tokens import Tokens, single_thread, to_features, tokenize
from ..encoders.trained_part import trained_part
from ..losses.pair_losses import PairLoss
from ..trainer import ApartMatches, QuietTrainer, training_arguments
from .matching import RANKING, Course, FrozenBase, base_for, make_loss
from .records import TrainingFailed
from .settings import PairMethod, TrainConfig
from ..settings import OfMatches


@dataclass(frozen=True)
class PairTokens:
    """Labeled pairs as token ids; or relevant pairs, with what else is known to be relevant.

    Then `relevance` is a scipy CSR matrix (queries, items), and `query` and `item` are the row and the column of each
    pair in it. Or duplicates for a ranking loss: `asks` says what the texts of each row ask, and rows that share one of
    these are never in one batch, where one would be a negative of the other; `negatives` are further columns. Or
    matches of a user, which `ApartMatches` spreads over batches by their texts, `matches`.
    """
    left: Tokens
    right: Tokens
    labels: torch.Tensor            # (n,) float in [0, 1]
    relevance: object = None
    query: np.ndarray | None = None # (n,)
    item: np.ndarray | None = None  # (n,)
    asks: np.ndarray | None = None  # (n, 1), of both texts of a duplicate; (n, 2) where there is a third column
    negatives: tuple[Tokens, ...] = ()
    matches: object = None          # a `datasets.Dataset`, its first two columns the left and the right texts
    prompts: dict[str, int] = field(default_factory=dict) # column -> tokens at its head that are no words of a text

    @property
    def columns(self) -> dict[str, Tokens]:
        further = {f"negative{number}": tokens for number, tokens in enumerate(self.negatives)}
        return {"left": self.left, "right": self.right, **further}

    def __len__(self):
        return len(self.labels)

    def targets(self, rows): # (n,) labels, or (n, n) bool: which items of the batch are relevant to which of its queries
        if self.relevance is None:
            return self.labels[rows]
        of_queries = self.relevance[self.query[rows]]
        relevant = of_queries[:, self.item[rows]]
        return torch.from_numpy(relevant.toarray() > 0)


def pair_tokens(
    model,
    left: list[str], right: list[str], # queries and items, row by row
    labels,                            # (n,) in [0, 1]
    max_length: int | None = None,
) -> PairTokens:
    "Tokenize pairs."
    labels = torch.from_numpy(np.asarray(labels, dtype=np.float32))
    return PairTokens(tokenize(model, left, max_length), tokenize(model, right, max_length), labels)


def title_tokens(
    model,
    train,                          # a `titles.Titles`: `queries`, `items`, `relevance`, and `rows()`, one a pair
    max_length: int | None = None,
) -> PairTokens:
    "Tokenize the relevant pairs of a set of titles."
    query, item = train.rows().T
    left = tokenize(model, train.queries, max_length)
    right = tokenize(model, train.items, max_length)
    relevance = {"relevance": train.relevance.tocsr(), "query": query, "item": item}
    return PairTokens(left[query], right[item], torch.ones(len(query)), **relevance)


def ranking_tokens(
    model,
    columns: list[list[str]], # questions and duplicates, and perhaps texts that are none
    asks: np.ndarray,         # as of `PairTokens`
    max_length: int | None = None,
) -> PairTokens:
    "Tokenize duplicates for a ranking loss."
    left, right, *negatives = [tokenize(model, texts, max_length) for texts in columns]
    return PairTokens(left, right, torch.ones(len(asks)), asks=asks, negatives=tuple(negatives))


class Distinct(list):
    "Questions of each row, in the form in which sentence-transformers' sampler looks for duplicates within a batch."
    @property
    def column_names(self) -> list[int]:
        return list(self[0])


def _distinct(dataset, seed, asks, **settings):
    "Make a sampler for the trainer; a checkpoint pickles the settings, so this is no function inside another."
    rows = Distinct(dict(enumerate(row)) for row in asks.tolist())
    return NoDuplicatesBatchSampler(rows, seed=seed, **settings)


def _apart(dataset, matches, **settings):
    return ApartMatches(matches, **settings)


class ItemSampler(DefaultBatchSampler):
    "Sampler that visits each item once per epoch, in a random one of the rows that contain it."
    def __init__(self, dataset, batch_size, drop_last=False, valid_label_columns=(), generator=None, seed=0, *, item):
        if generator is not None: # as `AuthorPairSampler`
            seed = generator.initial_seed()
        super().__init__(dataset, batch_size, drop_last, valid_label_columns, generator, seed)
        self.item = item

    def __iter__(self):
        rng = np.random.default_rng([self.seed, self.epoch, 1])
        rows = rng.permutation(len(self.item))
        _, first = np.unique(self.item[rows], return_index=True)
        rows = rng.permutation(rows[first])
        for batch in np.split(rows, range(self.batch_size, len(rows), self.batch_size)):
            yield batch.tolist()

    def __len__(self):
        return math.ceil(len(np.unique(self.item)) / self.batch_size)


def batches_of(pairs: PairTokens, training: TrainConfig) -> dict: # settings of the trainer
    """Choose how rows come together in batches, in an order that the seed decides.

    Of duplicates full batches in which no two rows ask the same, each epoch without another part of them; of a user's
    matches as `ApartMatches`. Raise `ConfigError` for a batch larger than there are questions, `ValueError` for data
    that a loss does not take.
    """
    has_parts = [part is not None for part in (pairs.relevance, pairs.asks, pairs.matches)]
    needs_parts = [training.loss in those for those in (("hinge",), RANKING, get_args(OfMatches))]
    if has_parts != needs_parts and "." not in training.loss: # whose data are the user's own affair
        needs = "least squares and CoSENT need labels, the hinge what is known to be relevant, ranking losses what asks the same"
        raise ValueError(f"loss {training.loss!r}: {needs}")
    if pairs.matches is not None:
        return {"batch_sampler": partial(_apart, matches=pairs.matches)}
    if pairs.relevance is not None:
        return {"batch_sampler": partial(ItemSampler, item=pairs.item)} if training.epoch_of == "items" else {}
    if pairs.asks is None:
        return {}
    different = len(np.unique(pairs.asks[:, 0]))
    if different < training.batch_size:
        raise ConfigError(f"`batch_size` is {training.batch_size}, and only {different} duplicates ask different things")
    return {"batch_sampler": partial(_distinct, asks=pairs.asks), "dataloader_drop_last": True}


def rows_of(features: list[dict]) -> torch.Tensor:
    "Return the rows of a batch."
    return torch.tensor([feature["row"] for feature in features])


class PairCollator(BaseDataCollator):
    "Collator of sentence-transformers batches of already tokenized pairs."
    def __init__(
        self,
        pairs: PairTokens,
        flat: bool = False, # True: tokens as a static table itself reads them; losses of pairs do without
    ):
        super().__init__(preprocess_fn=None)
        self.pairs = pairs
        self.flat = flat

    def __call__(self, features: list[dict]) -> dict: # features: of `rows_of`
        rows = rows_of(features)
        batch = {"label": self.pairs.targets(rows)}
        for side, tokens in self.pairs.columns.items():
            for name, value in to_features(tokens[rows], self.flat).items():
                batch[f"{side}_{name}"] = value
            if side in self.pairs.prompts:
                batch[f"{side}_prompt_length"] = self.pairs.prompts[side]
            batch[f"{side}_row"] = rows
        return batch


def columns_of(batch: dict) -> list[dict]:
    "Return the columns of a batch, as losses take them."
    columns = {}
    for name, value in batch.items():
        side, _, what = name.partition("_")
        if what:
            columns.setdefault(side, {})[what] = value
    return list(columns.values())


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


OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


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
    optimizer = OPTIMIZERS[training.optimizer], {"lr": training.learning_rate, "fused": True}
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
    further = batches_of(pairs, training)
    if method.regularizer == "l2sp": # it trains all weights
        further["ddp_find_unused_parameters"] = False
    course = Course(seed)
    loss = make_loss(method, model, base_for(method, base, list(pairs.columns.values()), dtype), course, training, texts, watch)
    inner = getattr(loss, "loss", loss)
    flat = is_static(model) and not isinstance(inner, PairLoss) # it is called with the tokens as a static table reads them
    adapters = {"rank": method.lora.rank, "alpha": method.lora.alpha} if method.lora else {}
    with trained_part(model, seed, method.frozen_layers, **adapters):
        train_with(
            MatchingTrainer, model, {"row": range(len(pairs))}, PairCollator(pairs, flat), training, seed, dtype, further, loss=loss,
            callbacks=[course, *callbacks])
    return course


BATCHES = 8 # of the training set; gradient norms are averaged over them


def _gradient_norm(loss, batch: dict, parameters: list, seed: int) -> float:
    "Compute the norm of the gradient of the term that a method adds (its own loss, if none), raw, dropout on."
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        loss.model.train()
        term = loss(columns_of(batch), batch["label"])
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


POINTS = 20 # of a curve, at most


def curve_summary(
    history: list[dict], # one dict of scalars a step
) -> dict[str, list[float]]: # `step` (last step of each stretch) and one list a term
    "Summarize the history of a loss in stretches of equal length."
    if not history:
        return {"step": []}
    steps = np.array_split(np.arange(1, len(history) + 1), min(POINTS, len(history)))
    return {"step": [int(stretch[-1]) for stretch in steps]} | in_stretches(history, POINTS, lambda stretch: float(f"{stretch.mean():.5g}"))


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
            rest = 1 - out["B"]
            out["teacher_temperature"] = temperature / rest if rest > 0 else math.inf
    return {key: float(value) for key, value in out.items()}
