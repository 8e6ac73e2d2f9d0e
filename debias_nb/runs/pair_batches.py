"""Pairs as tokens that are prepared once, and how their rows come together in batches.

A sweep trains on the same texts hundreds of times; left to itself the trainer tokenizes them in every step of every
run. Here the trainer's data set holds numbers of rows, which also name the interventions and find what the base
encoder says.
"""
import math
from dataclasses import dataclass, field
from functools import partial
from typing import get_args

import numpy as np
import torch
from sentence_transformers.base.data_collator import BaseDataCollator
from sentence_transformers.base.sampler import DefaultBatchSampler, NoDuplicatesBatchSampler

from ..checks import ConfigError
from ..encoders.tokens import Tokens, to_features, tokenize
from ..settings import OfMatches
from ..trainer import ApartMatches
from .settings import TrainConfig


RANKING_LOSSES = ("ranking", "ranking-hard") # losses of duplicates, whose negatives are the other texts of a batch


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
        negatives = {f"negative{number}": tokens for number, tokens in enumerate(self.negatives)}
        return {"left": self.left, "right": self.right, **negatives}

    def __len__(self):
        return len(self.labels)

    def targets(self, rows):
        "Return (n,) labels, or (n, n) bool: which items of the batch are relevant to which of its queries."
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
    needs_parts = [training.loss in kinds for kinds in (("hinge",), RANKING_LOSSES, get_args(OfMatches))]
    if has_parts != needs_parts and "." not in training.loss: # whose data are the user's own affair
        needs = ("least squares and CoSENT need labels, the hinge what is known to be relevant, ranking losses what "
                 "asks the same")
        raise ValueError(f"loss {training.loss!r}: {needs}")
    if pairs.matches is not None:
        return {"batch_sampler": partial(_apart, matches=pairs.matches)}
    if pairs.relevance is not None:
        return {"batch_sampler": partial(ItemSampler, item=pairs.item)} if training.epoch_of == "items" else {}
    if pairs.asks is None:
        return {}
    different = len(np.unique(pairs.asks[:, 0]))
    if different < training.batch_size:
        raise ConfigError(f"`batch_size` is {training.batch_size}, and only {different} duplicates ask "
                          "different things")
    return {"batch_sampler": partial(_distinct, asks=pairs.asks), "dataloader_drop_last": True}


def batch_rows(features: list[dict]) -> torch.Tensor:
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

    def __call__(self, features: list[dict]) -> dict: # features: of `batch_rows`
        rows = batch_rows(features)
        batch = {"label": self.pairs.targets(rows)}
        for side, tokens in self.pairs.columns.items():
            for name, value in to_features(tokens[rows], self.flat).items():
                batch[f"{side}_{name}"] = value
            if side in self.pairs.prompts:
                batch[f"{side}_prompt_length"] = self.pairs.prompts[side]
            batch[f"{side}_row"] = rows
        return batch


def batch_columns(batch: dict) -> list[dict]:
    "Return the columns of a batch, as losses take them."
    columns = {}
    for name, value in batch.items():
        side, _, part = name.partition("_")
        if part:
            columns.setdefault(side, {})[part] = value
    return list(columns.values())
