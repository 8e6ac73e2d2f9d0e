"""What a task is, and what tasks share: base encoders and their tokens are kept by the process.

A task is imported when a run asks for it: reading records needs no torch. What a run lacks is asked once a process,
since a hub that does not answer takes half a minute to say so.
"""
import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ...settings import EncoderConfig
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


class Task:
    """What is done with one kind of data. A method is asked with the whole run, and takes of it what it needs.

    To add a task, write a module `runs/tasks/<name>.py` with a subclass that has the five methods which raise here and an
    instance of it called `TASK`, and name it among the tasks of `CorpusConfig`. `test`, `is_stale` and `lacks` follow from them."""

    def data(self, run: RunConfig) -> tuple[object, dict]:
        "What a run is trained on, as its trainer takes it; of each data set in it, fingerprint and counts for the record."
        raise NotImplementedError

    def train(self, run: RunConfig) -> Trained:
        """The model that a run is tested with: fine-tuned, or the base encoder where the method trains nothing.
        Raises `TrainingFailed`, `MissingData`, `EncoderError` or `ConfigError`."""
        raise NotImplementedError

    def test_set(self, run: RunConfig, name: str) -> tuple:
        "What loads one evaluation set: a function and its arguments."
        raise NotImplementedError

    def evaluate(self, model, run: RunConfig, name: str, test, tested: Tested) -> None: # test: what was loaded
        "Add to `tested` what a model does on one evaluation set."
        raise NotImplementedError

    def needs(self, run: RunConfig) -> Iterator[tuple]:
        "What a run cannot do without, each as a function that loads it and its arguments."
        raise NotImplementedError

    def test(self, model, run: RunConfig) -> Tested:
        "All evaluation sets that are there."
        tested = Tested()
        for name in run.evaluate:
            load, *what = self.test_set(run, name)
            try:
                test = load(*what)
            except MissingData:
                tested.missing.append(name)
                continue
            self.evaluate(model, run, name, test, tested)
        return tested

    def is_stale(self, record: dict, run: RunConfig) -> bool:
        "Whether a record is to be made again: an evaluation set that was missing when it was made is there now."
        missing = [name for name in run.evaluate if name not in record["metrics"]]
        return any(not lacking(*self.test_set(run, name)) for name in missing)

    def lacks(self, run: RunConfig) -> str | None:
        "All that a run needs and does not find, in words, each once; None when it can run."
        if run.of_before:
            return run.of_before
        reasons = [lacking(*need) for need in self.needs(run)]
        return "; ".join(dict.fromkeys(filter(None, reasons))) or None


def task_of(run: RunConfig) -> Task:
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


def encoder_files(encoder: EncoderConfig) -> None:
    "Look for the files of an encoder. Raises `EncoderError`; planted and `learned` ones need none."
    from ...encoders.safe_folders import check_folder
    from ...encoders.loading import find_folder
    from ..pair_encoders import transformer_folder
    if not encoder.pretrain and encoder.name != "learned":
        find_folder(encoder, check=transformer_folder if encoder.kind == "cross" else check_folder)
