"""A method of a configuration becomes the loss that its run trains with; what is drawn has names, and the base encoder's answers are remembered.

Every method of a seed sees the same interventions, so that a difference between methods is not one of luck: what is
drawn is named by seed, epoch and row, and not by the order in which it is asked for.
"""
import importlib
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from sentence_transformers.sentence_transformer import losses
from transformers import TrainerCallback

from ..losses.batches import View
from ..checks import ConfigError
from ..encoders.kinds import device_of, is_static
from ..encoders.tokens import Tokens, embed, encode_tokens, own_dropout
from ..encoders.interventions import choose, intervene, random_bits, row_keys
from ..losses.pair_losses import Hinge, LeastSquares, cosines
from ..processes import mean_of_rows, mean_over_processes
from ..losses.gradient_shares import Terms
from ..losses.regularized import Draws, Regularized
from ..losses.regularizers import L2SP, REGULARIZERS, Changing, Intervening, Regularizer, WordDropout
from .settings import PairMethod, TrainConfig


RANKING = ("ranking", "ranking-hard") # losses of duplicates, whose negatives are the other texts of a batch
THEIRS = dict.fromkeys(RANKING, "MultipleNegativesRankingLoss") | {"cosent": "CoSENTLoss"} # as sentence-transformers calls them


def own_class(name: str) -> type: # `mymodule.Name`, from the current folder or installed
    "Import a loss or a regularizer of a user's own. Raise `ConfigError` for what is neither."
    module, _, class_name = name.rpartition(".")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        own = getattr(importlib.import_module(module), class_name)
    except Exception as e: # whatever somebody's module does while it is imported
        raise ConfigError(f"methods: {name!r}: {type(e).__name__}: {e}") from None
    if not (isinstance(own, type) and issubclass(own, (Regularizer, Changing, torch.nn.Module))):
        raise ConfigError(f"methods: {name!r} is no class of a loss or a Regularizer")
    return own


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


class FrozenBase:
    "Embeddings of the base encoder, computed when asked."
    def __init__(self, model, dtype: str = "fp32"):
        self.model = model
        self.dtype = dtype

    @torch.no_grad()
    def __call__(
        self,
        text: View,
        tokens: Tokens, # its own, or others in their place
    ) -> torch.Tensor: # (n, d)
        device = tokens.ids.device
        if is_static(self.model): # nothing to sort or cut for a table
            return encode_tokens(self.model, tokens.to(device_of(self.model))).to(device)
        return self.embed(tokens).to(device)

    def embed(self, tokens: Tokens) -> torch.Tensor: # (n, d)
        "Embed tokens without `truncate_dim`, which the model in training does not apply either."
        with self.model.truncate_embeddings(None):
            return embed(self.model, tokens, self.dtype)


class CachedBase(FrozenBase):
    """Frozen base with f0(X) computed once for a whole training set, and f0(X') once an epoch.

    Those of other columns are computed at their first use: ITVReg and OutReg have none.
    """
    def __init__(self, model, columns: list[Tokens], dtype: str = "fp32"):
        super().__init__(model, dtype)
        self.columns = columns
        self.left = left = columns[0]
        # a query stands in several pairs and is embedded once
        _, first, row = np.unique(row_keys(left), return_index=True, return_inverse=True)
        distinct = self.embed(left[first])
        self.values = {0: distinct[row]} # column -> f0 of its rows
        self.changed = None # f0(X') of every row
        self.kept = None    # what the interventions behind it were drawn with

    def prepare(self, share: float, kind: str, seed: int, epoch: int) -> None:
        "Compute f0(X') of every row for one epoch's interventions."
        if self.kept == (share, kind, seed, epoch):
            return
        name = (seed, epoch, np.arange(len(self.left)))
        selection, _ = choose(self.left, share, *name)
        others = intervene(self.model, self.left, selection, kind, *name)
        self.changed = self.embed(others)
        self.kept = (share, kind, seed, epoch)

    def __call__(self, text, tokens):
        rows = text.batch.draws.names[text.rows].cpu()
        if tokens is text.tokens:
            if text.place not in self.values:
                self.values[text.place] = self.embed(self.columns[text.place])
            return self.values[text.place][rows].to(tokens.ids.device)
        if self.changed is None: # not prepared
            return super().__call__(text, tokens)
        return self.changed[rows].to(tokens.ids.device)


class NamedDraws(Draws):
    "Random draws of one step, named by seed, epoch and row, or by seed and step."
    def __init__(
        self,
        features: list[dict], # of each column; the first has the names of the rows, `row`
        seed: int,
        epoch: int,
        step: int,
        static: bool,         # whether the encoder is a table
        has_sides: bool,      # whether the two texts of a row have names of their own
    ):
        super().__init__()
        self.names = features[0]["row"]
        self.number = self.seed = seed # nothing is taken from NumPy's own generator
        self.epoch = epoch
        self.step = step
        self.static = static
        self.has_sides = has_sides

    def block(self, blocks, seed):
        bits, = self._bits(1, stream=4)
        return int(np.random.default_rng([seed, bits]).integers(blocks))

    def intervention_key(self, n, rows, place):
        names = None # other texts than those of a row: made of their tokens
        if place is not None:
            names = self.names[rows].cpu().numpy()
        if self.has_sides:
            names = 2 * names + place
        return self.seed, self.epoch, names

    def order(self, n):
        return self._bits(n, stream=3).argsort(kind="stable")

    @contextmanager
    def aside(self, device):
        "Seed dropout for a transformer's further pass; a table drops entries from torch's common stream."
        if self.static:
            yield
            return
        bits, = self._bits(1, stream=2)
        with own_dropout(device, int(bits) >> 1):
            yield

    def _bits(self, n: int, stream: int) -> np.ndarray: # (n,)
        return random_bits(self.seed, self.step, [0], n, stream=stream)[0]


class Course(TrainerCallback):
    "State of a training: it names random draws, and keeps the terms of each step."

    def __init__(self, seed: int):
        self.seed = seed
        self.epoch = 0
        self.history = []   # of each step `erm`, and of a regularizer `raw` and `weighted`
        self.prepare = None # what is done when an epoch begins, called with seed and epoch

    def draws(self, encoder, has_sides: bool, features: list[dict]) -> NamedDraws:
        return NamedDraws(features, self.seed, self.epoch, len(self.history), is_static(encoder), has_sides)

    def on_epoch_begin(self, args, state, control, **_):
        self.begin_epoch(int((state.epoch or 0) + 1e-6)) # taken up in the middle of an epoch, too

    def begin_epoch(self, epoch: int) -> None:
        "Start an epoch with interventions of its own."
        self.epoch = epoch
        if self.prepare:
            self.prepare(self.seed, epoch)

    def note(self, loss, inputs, terms) -> None: # a forward hook
        "Record the terms of a training step, not those of an evaluation."
        if not torch.is_grad_enabled():
            return
        if not isinstance(terms, Terms): # one number, or several of a loss of its own
            self.history.append({"erm": terms.detach() if torch.is_tensor(terms) else sum(terms.values()).detach()})
            return
        step = {"erm": terms.raw["base"].detach()}
        for name in terms.raw.keys() - {"base"}:
            step |= {"raw": terms.raw[name].detach(), "weighted": terms[name].detach()}
        self.history.append(step)


class Twins(Intervening):
    "Intervened pairs (X', Z), whose target is the label less what the base says the intervention took away."
    needs_base = True
    name = "itvaug"

    def extra_texts(self, batch):
        x, _ = batch.texts_of(self)
        return [self.changed(x)[0]]

    def of_batch(self, batch):
        x, z = batch.texts_of(self)
        other, weight = self.changed(x)
        cosine = cosines(x.encode(other), z.fx)
        before = cosines(x.f0x, z.f0x)
        after = cosines(x.at_base(other), z.f0x)
        target = (batch.labels[x.rows].float() - (before - after)).clamp(0, 1)
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


def regularizer_class(method: PairMethod): # of `REGULARIZERS`, `GOR`, `Twins` or a user's; None for plain fine-tuning
    kinds = {"itvaug": Twins, "worddropout": WordDropout, "none": None}
    if "." in method.regularizer:
        return own_class(method.regularizer)
    if method.regularizer != "none":
        return (REGULARIZERS | {"gor": GOR})[method.regularizer]
    return kinds[method.augmentation]


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


def interventions_of(method: PairMethod) -> dict: # mask_share, intervention; empty for methods that intervene on nothing
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
    base,                                # a `FrozenBase`, or None for methods that need none; with texts the model itself
    course: Course,                      # of the training
    training: TrainConfig | None = None, # names the objective; default: least squares
    texts: list[str] | None = None,      # as of `regularizer_of`
    watch: bool = False,                 # whether a regularizer without effect is warned of; a table trains with every strength
) -> torch.nn.Module:
    "Return the loss of a method. Raise `ConfigError` for ITVAug with another loss than least squares."
    kind = regularizer_class(method)
    changes = kind is not None and issubclass(kind, Changing)
    draws = partial(course.draws, model, changes)
    loss = base_loss(training, model)
    if kind is Twins and not isinstance(loss, LeastSquares):
        why = f"ITVAug changes the labels of least squares, and the loss is {training.loss!r}"
        raise ConfigError(f"method {method.name!r}: {why}")
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
