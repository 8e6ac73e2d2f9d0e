"""What a training draws has names, and the base encoder's answers are remembered.

Every method of a seed sees the same interventions, so that a difference between methods is not one of luck: what is
drawn is named by seed, epoch and row, and not by the order in which it is asked for.
"""
from contextlib import contextmanager

import numpy as np
import torch
from transformers import TrainerCallback

from ..encoders.interventions import choose, intervene, random_bits, row_keys
from ..encoders.kinds import device_of, is_static
from ..encoders.tokens import Tokens, embed, encode_tokens, own_dropout
from ..losses.batches import View
from ..losses.gradient_shares import Terms
from ..losses.regularized import Draws


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
        intervened = intervene(self.model, self.left, selection, kind, *name)
        self.changed = self.embed(intervened)
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
