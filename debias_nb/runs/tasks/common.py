"""A task is one object that knows how to train, to test, and what a run lacks; base encoders and their tokens are kept by the process.

A task is imported when a run asks for it: reading records needs no torch. What a run lacks is asked once a process,
since a hub that does not answer takes half a minute to say so.
"""
import importlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ...settings import EncoderConfig, PretrainConfig, WorldConfig
from ...data.pairs import KNOWN, fold, known_texts
from ...data.registry import MissingData
from ..config import RunConfig


@dataclass
class Trained:
    "What training gives: the model, the hash of the weights it began with, and what a record says of it."
    model: object
    identity: str
    curve: dict = field(default_factory=dict)
    data: dict = field(default_factory=dict)  # name of a data set -> its fingerprint and counts
    extra: dict = field(default_factory=dict) # whatever else the record keeps


@dataclass
class Tested:
    "What testing gives: by evaluation set, and by metric."
    metrics: dict = field(default_factory=dict)
    replicates: dict = field(default_factory=dict)
    data: dict = field(default_factory=dict)
    extra: dict = field(default_factory=dict)
    missing: list = field(default_factory=list) # names of evaluation sets that are not there


def unmeasured(record: dict, run: RunConfig) -> list[str]: # names of evaluation sets
    "What a record lacks of its run."
    return [name for name in run.evaluate if name not in record["metrics"]]


class Task:
    """One kind of experiment. Each task also has
    `train(run) -> Trained`, `test(run, trained) -> Tested` and `lacks(run) -> str | None` (what a run needs and does not
    find, in words)."""
    def stale(self, record: dict, run: RunConfig) -> bool:
        "Whether an evaluation set that was missing when the record was made is there now. Most come with their corpus."
        return False


def task_of(run: RunConfig) -> Task:
    "The task of a run."
    return importlib.import_module(f"debias_nb.runs.tasks.{run.task}").TASK


@lru_cache(maxsize=3)
def base_encoder(config: EncoderConfig): # a SentenceTransformer, and its fingerprint
    "A base encoder and its fingerprint, loaded once a process and never trained."
    from ...encoders.tokens import encoder_fingerprint
    from ...encoders.loading import best_device, load_encoder
    model = load_encoder(config, best_device())
    return model, encoder_fingerprint(model)


def base_model(config: EncoderConfig): # a SentenceTransformer, never trained
    "A base encoder, where nobody asks for its fingerprint."
    return base_encoder(config)[0]


@lru_cache(maxsize=16)
def text_tokens(encoder: EncoderConfig, texts: tuple[str, ...]): # encoders.Tokens, and (n,) rows
    "Tokens of the distinct texts, and each text's row among them."
    from ...encoders.tokens import tokenize
    unique = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    tokens = tokenize(base_model(encoder), list(unique), encoder.max_length)
    return tokens, np.array([unique[text] for text in texts])


def vectors(model, texts: list[str], encoder: EncoderConfig): # (n, d) tensor of unit vectors
    "Embeddings of texts, each distinct text computed once. `model` is a state of `encoder`."
    from ...encoders.tokens import embed
    tokens, rows = text_tokens(encoder, tuple(texts))
    return embed(model, tokens, encoder.dtype)[rows]


def shares_of(
    known: np.ndarray, # (n,) of `known_texts`
) -> dict: # `KNOWN`, in [0, 1]
    "The share of what is tested that has no, one and two known texts."
    return {what: float((known == count).mean()) for count, what in enumerate(KNOWN)}


def shares_known(
    trained: Iterable[str],
    *tested: list[str], # (n,) each, as of `known_texts`
) -> dict: # of `shares_of`
    "How many texts of each tested item stand in training."
    return shares_of(known_texts(frozenset(map(fold, trained)), *tested))


def parted(n: int, share: float, seed: list[int]) -> tuple[np.ndarray, np.ndarray]: # ascending positions of both parts
    "A share of n rows, drawn at random, and the others."
    order = np.random.default_rng(seed).permutation(n)
    drawn, others = np.split(order, [round(share * n)])
    return np.sort(drawn), np.sort(others)


@lru_cache(maxsize=None)
def lacking(load, *what) -> str | None:
    "Why something cannot be loaded, in words; None when it can."
    from ...encoders.tokens import EncoderError
    try:
        load(*what)
    except (EncoderError, MissingData) as e:
        return str(e)
    return None


def together(*reasons: str | None) -> str | None:
    "All that is lacking, each once; None when nothing is."
    return "; ".join(dict.fromkeys(filter(None, reasons))) or None


def encoder_files(encoder: EncoderConfig) -> None:
    "Look for the files of an encoder. Raises `EncoderError`; planted and `learned` ones need none."
    from ...encoders.safe_folders import check_folder
    from ...encoders.loading import find_folder
    from ..pair_encoders import transformer_folder
    if not encoder.pretrain and encoder.name != "learned":
        find_folder(encoder, check=transformer_folder if encoder.kind == "cross" else check_folder)


SMALL_WORLD = {"types": 12, "unseen_types": 4}
MOST_POSITIONS = 64 # of the planted transformer


def stand_in(encoder: EncoderConfig) -> EncoderConfig:
    "A small planted encoder of the same kind, and of the same length where it can be."
    if encoder.kind == "alignment":
        return EncoderConfig(name="learned", kind="alignment", max_length=encoder.max_length, units=8, embedding=8)
    if encoder.kind == "static":
        name = "tiny-static"
        length = encoder.max_length
    else:
        name = "tiny"
        length = min(encoder.max_length, MOST_POSITIONS)
    world = WorldConfig(**SMALL_WORLD, broad_pairs=100)
    pretrain = PretrainConfig(steps=2, batch_size=16, learning_rate=1e-3, warmup_steps=0, vocabulary=600)
    return EncoderConfig(name=name, kind=encoder.kind, max_length=length, world=world, pretrain=pretrain)
