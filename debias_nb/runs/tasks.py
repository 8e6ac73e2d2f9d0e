"""What a task is, and what tasks share: base encoders and their tokens are kept by the process.

A task is imported when a run asks for it: reading records needs no torch. What a run lacks is asked once a process,
since a hub that does not answer takes half a minute to say so.
"""
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..settings import EncoderConfig
from ..data.pairs import KNOWN, fold, known_texts
from ..data.registry import MissingData
from .config import RunConfig


@dataclass
class Trained:
    "Result of training: the model, the hash of the weights it began with, and what a record says of it."
    model: object
    identity: str
    curve: dict = field(default_factory=dict)
    data: dict = field(default_factory=dict)  # name of a data set -> its fingerprint and counts
    extra: dict = field(default_factory=dict) # whatever else the record keeps


@dataclass
class Tested:
    "Results of testing: by evaluation set, and by metric."
    metrics: dict = field(default_factory=dict)
    replicates: dict = field(default_factory=dict)
    data: dict = field(default_factory=dict)
    extra: dict = field(default_factory=dict)
    missing: list = field(default_factory=list) # names of evaluation sets that are not there


class Task:
    """Task on one kind of data. A method is asked with the whole run, and takes of it what it needs.

    To add a task, write a subclass that has the five methods which raise here, with an instance of it called `TASK`;
    write its settings in a module that loads no model, and name these among the entry points `debias_nb.tasks` of
    pyproject.toml. `test`, `is_stale` and `lacks` follow. One whose model is no sentence-transformers encoder has a
    `save` of its own.
    """

    def data(self, run: RunConfig) -> tuple[object, dict]:
        "Return what a run is trained on, as its trainer takes it, and fingerprints and counts for the record."
        raise NotImplementedError

    def train(self, run: RunConfig) -> Trained:
        """Return the model that a run is tested with: fine-tuned, or the base encoder if the method trains nothing.

        Raise `TrainingFailed`, `MissingData`, `EncoderError` or `ConfigError`.
        """
        raise NotImplementedError

    def save(self, model, folder: Path) -> None:
        "Write the weights of what `train` returned; of an encoder, as a folder that sentence-transformers loads."
        model.save(str(folder), create_model_card=False)

    def load_saved(self, run: RunConfig, folder: Path):
        "Load what `save` wrote of a run, as `test` takes it. Raise `EncoderError`."
        from ..encoders.loading import best_device
        from ..encoders.safe_folders import check_folder, load_safely
        return load_safely(check_folder(folder), best_device())

    def test_set(self, run: RunConfig, name: str) -> tuple[Callable, tuple]:
        "Return the function that loads one evaluation set, and its arguments."
        raise NotImplementedError

    def evaluate(self, model, run: RunConfig, name: str, test, results: Tested) -> None:
        "Add to the results what a model does on one evaluation set."
        raise NotImplementedError

    def needs(self, run: RunConfig) -> Iterator[tuple]:
        "Yield what a run cannot do without, each as a function that loads it and its arguments."
        raise NotImplementedError

    def test(self, model, run: RunConfig) -> Tested:
        "Test on all evaluation sets, the tuned encoder and, as `iid@0.5`, those between base and tuned (WiSE-FT)."
        results = self._test(model, run)
        for alpha in run.method.mixing_weights:
            interpolated = self._test(self.between(model, run, alpha), run)
            for kind in ("metrics", "replicates", "extra"):
                entries = getattr(interpolated, kind).items()
                getattr(results, kind).update({f"{name}@{alpha:g}": value for name, value in entries})
        return results

    def between(self, model, run: RunConfig, alpha: float):
        "Return the encoder so far from the base (0) to the tuned one (1)."
        from ..losses.averaging import wise_ft # torch: reading records does without
        return wise_ft(self.base_of(run), model, alpha)

    def base_of(self, run: RunConfig):
        "Return the encoder that a run begins with."
        return base_model(run.encoder)

    def _test(self, model, run: RunConfig) -> Tested:
        "Test on all evaluation sets that are there."
        results = Tested()
        for name in run.evaluate:
            load, arguments = self.test_set(run, name)
            try:
                test = load(*arguments)
            except MissingData:
                results.missing.append(name)
                continue
            self.evaluate(model, run, name, test, results)
        return results

    def is_stale(self, record: dict, run: RunConfig) -> bool:
        "Return whether a record is to be made again: an evaluation set that was missing then is there now."
        missing = [name for name in run.evaluate if name not in record["metrics"]]
        sets = [self.test_set(run, name) for name in missing]
        return any(not lacking(load, *arguments) for load, arguments in sets)

    def lacks(self, run: RunConfig) -> str | None:
        "Explain what a run is missing, each reason once, or return None if it can run."
        if run.is_closed:
            return "it is no longer made: its records name the commit that makes them again"
        reasons = [lacking(*need) for need in self.needs(run)]
        return "; ".join(dict.fromkeys(filter(None, reasons))) or None


@lru_cache(maxsize=3)
def base_encoder(config: EncoderConfig): # a SentenceTransformer, and its fingerprint
    "Load a base encoder and its fingerprint, once a process; it is never trained."
    from ..encoders.tokens import encoder_fingerprint
    from ..encoders.loading import best_device, load_encoder
    model = load_encoder(config, best_device())
    return model, encoder_fingerprint(model)


def base_model(config: EncoderConfig): # a SentenceTransformer, never trained
    "Load a base encoder without its fingerprint."
    return base_encoder(config)[0]


@lru_cache(maxsize=16)
def text_tokens(encoder: EncoderConfig, texts: tuple[str, ...]): # encoders.Tokens, and (n,) rows
    "Tokenize the distinct texts, and return each text's row among them."
    from ..encoders.tokens import tokenize
    unique = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    tokens = tokenize(base_model(encoder), list(unique), encoder.max_length)
    return tokens, np.array([unique[text] for text in texts])


def vectors(model, texts: list[str], encoder: EncoderConfig): # (n, d) tensor of unit vectors
    "Embed texts, each distinct text once. `model` is a state of `encoder`."
    from ..encoders.tokens import embed
    tokens, rows = text_tokens(encoder, tuple(texts))
    return embed(model, tokens, encoder.dtype)[rows]


def shares_of(
    counts: np.ndarray, # (n,) of `known_texts`
) -> dict: # `KNOWN`, in [0, 1]
    "Return the fractions of test items with no, one and two texts that also occur in training."
    return {kind: float((counts == count).mean()) for count, kind in enumerate(KNOWN)}


def overlap_shares(
    training: Iterable[str],
    *columns: list[str], # (n,) each, as of `known_texts`
) -> dict: # of `shares_of`
    "Return the fractions of test items by their overlap with training, as `shares_of`."
    return shares_of(known_texts(frozenset(map(fold, training)), *columns))


def random_parts(n: int, share: float, seed: list[int]) -> tuple[np.ndarray, np.ndarray]: # ascending positions
    "Divide n rows at random into a fraction and the others."
    order = np.random.default_rng(seed).permutation(n)
    sample, remainder = np.split(order, [round(share * n)])
    return np.sort(sample), np.sort(remainder)


@lru_cache(maxsize=None)
def lacking(load, *what) -> str | None:
    "Explain why something cannot be loaded, or return None if it can."
    from ..encoders.tokens import EncoderError
    try:
        load(*what)
    except (EncoderError, MissingData) as e:
        return str(e)
    return None


def encoder_files(encoder: EncoderConfig) -> None:
    "Look for the files of an encoder, if it has any. Raise `EncoderError`."
    from ..encoders.loading import find_folder
    if encoder.has_files:
        find_folder(encoder)
