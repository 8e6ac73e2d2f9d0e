"""Your own loss: found by name, tried on one batch, and trained where plain fine-tuning is.

A loss is named as `module:Name`: a subclass of `Regularizer` (or `WordDropout`), which is put around least squares; or
a loss of sentence-transformers' kind that is made from the model alone, or a function of the model that gives one. It
is trained on two texts and a label of 0 or 1.
"""
import copy
import hashlib
import importlib
import inspect
import re
import sys
import tempfile
import weakref
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from ..checks import ConfigError, module_and_name, nearest
from ..encoders.tokens import is_static
from ..losses.regularized import Regularized
from ..losses.regularizers import Changing, Regularizer
from .config import RunConfig
from .runs import runner
from .runs.records import TrainingFailed
from .runs.tasks.common import SMALL_WORLD, Trained, base_encoder, stand_in
from .runs.tasks.pairs import TASK
from .runs.training import PairCollator, columns_of, pair_tokens, pair_trainer


_IMPORTED = weakref.WeakKeyDictionary() # module -> how it was loaded, and the digest of its text then


def _digest(module: ModuleType) -> str: # 8 hex digits
    "Of the module's own file; what it imports is not looked at."
    file = getattr(module, "__file__", None)
    text = Path(file).read_bytes() if file else b""
    return hashlib.sha256(text).hexdigest()[:8]


class ScoreError(ConfigError):
    "A loss that cannot be scored; the message says why."


def _module(name: str):
    "Import a module, also from the current folder. Raises `ScoreError`."
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(name)
    except Exception as error: # whatever somebody's module does while it is imported
        lacks = isinstance(error, ModuleNotFoundError) and error.name
        if lacks and f"{name}.".startswith(f"{lacks}."):
            own = [path.stem for path in Path.cwd().glob("*.py")]
            hint = nearest(name, own) if own else ""
            where = f"neither in {here} nor among what is installed"
            raise ScoreError(f"no module {name!r}, {where}{hint}") from None
        raise ScoreError(f"{name} cannot be imported: {_in_words(error)}") from None
    loaded, _ = _IMPORTED.get(module, (None, ""))
    if loaded is not module.__spec__: # for the first time, or again
        _IMPORTED[module] = module.__spec__, _digest(module)
    return module


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def find_loss(
    spec: str, # `module:Name`
):             # what stands there
    "Raises `ConfigError` for another form, and `ScoreError`, naming the nearest, for a module or a name that is not there."
    module, name = module_and_name(spec)
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise ScoreError(f"{module} is a module of Python itself and holds no loss")
    found = _module(module)
    if not hasattr(found, name):
        public = [own for own in vars(found) if not own.startswith("_")]
        raise ScoreError(f"{module} has no {name!r}{nearest(name, public)}")
    return getattr(found, name)


def _source_at_import(name: str) -> str: # name: of a module; 8 hex digits
    "The digest of the text when the module was asked for here first."
    _, digest = _IMPORTED[_module(name)]
    return digest


def source_of(name: str) -> str: # name: of a module; 8 hex digits
    """A digest of the file that a module is written in, and not of what it imports: who changes a helper gives another
    `--out`. Raises `ScoreError` where it has changed since the module was asked for here first, or was loaded again."""
    digest = _digest(_module(name))
    if digest != _source_at_import(name):
        raise ScoreError(f"{name} has changed since it was imported: start again")
    return digest


PAIRED = "pairs of texts with a label of 0 or 1"


@dataclass(frozen=True)
class Candidate:
    "Your loss."
    spec: str                    # `module:Name`
    weight: float | None = None  # lambda, of what has one; None: its own

    @property
    def source(self) -> str: # 8 hex digits
        "A digest of the text it is written in: another text is another loss. Raises `ScoreError`, as `source_of` does."
        return source_of(self.module)

    @property
    def module(self) -> str:
        "The name of the module that it stands in."
        name, _, _ = self.spec.partition(":")
        return name

    @property
    def file_name(self) -> str:
        "The beginning of the names of its files."
        name = re.sub("[^A-Za-z0-9_.]", "-", self.spec)
        if self.weight is None:
            return name
        weight = str(float(self.weight)).removesuffix(".0")
        return f"{name}-{weight}"

    @property
    def folder(self) -> str:
        "The name of the folder with its records."
        return f"{self.file_name}-{self.source}"

    def look(self): # what stands there; whether it is a regularizer
        "Raises `ScoreError` for what is no loss. Nothing is called."
        found = find_loss(self.spec)
        is_class = isinstance(found, type)
        is_term = issubclass(found if is_class else type(found), (Regularizer, Changing))
        if self.weight is not None and not is_term:
            raise ScoreError(f"{self.spec} is no regulariser: --weight means nothing to it")
        is_function = inspect.isfunction(found) or inspect.ismethod(found)
        if not is_term and not is_function and not (is_class and issubclass(found, torch.nn.Module)):
            kinds = "a subclass of Regularizer, a loss class of sentence-transformers, or a function of a model"
            raise ScoreError(f"{self.spec} is of type {type(found).__name__} and no loss: {kinds} is needed")
        return found, is_term

    def make(
        self,
        model, # the SentenceTransformer that is trained
        base,  # a copy from before training
    ):         # a loss for the trainer
        "Raises `ScoreError` for what is no loss, or cannot be made from a model."
        found, is_term = self.look()
        try:
            if is_term:
                from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
                one: Any = found() if isinstance(found, type) else found
                if self.weight is not None:
                    one = replace(one, weight=self.weight)
                return Regularized(model, CosineSimilarityLoss(model), [one], base=base)
            loss = found(model)
        except Exception as error: # whatever somebody's constructor raises
            raise ScoreError(f"{self.spec} cannot be made from a model alone: {_in_words(error)}") from None
        if not isinstance(loss, torch.nn.Module):
            raise ScoreError(f"{self.spec} gives a {type(loss).__name__}, and no loss")
        return loss


def _total(value) -> torch.Tensor:
    "The sum of what a loss gives. Raises `ScoreError` for anything but a number, or a dictionary of numbers."
    parts = [value]
    if isinstance(value, dict):
        parts = list(value.values())
    if not parts or any(not torch.is_tensor(part) or part.numel() != 1 for part in parts):
        raise ScoreError(f"gives a {type(value).__name__}, and no scalar tensor or dictionary of them")
    return sum(part.sum() for part in parts)


def check(
    candidate: Candidate,
    encoder, # an `EncoderConfig`, of which a stand-in is made
) -> None:
    "Try a loss on one batch of sixteen planted pairs. Raises `ScoreError` for what cannot be trained with it."
    from ..settings import WorldConfig
    from ..data.worlds import Catalog
    candidate.look() # before an encoder is made, which takes a minute
    base, _ = base_encoder(stand_in(encoder))
    model = copy.deepcopy(base)
    loss = candidate.make(model, copy.deepcopy(base))
    world = WorldConfig(**SMALL_WORLD, train_pairs=8, negatives=1, queries=20, items=60)
    drawn = Catalog(world).labeled_pairs()

    def value(switched):
        pairs = pair_tokens(model, *drawn.texts(), drawn.labels)
        batch = PairCollator(pairs, is_static(model))([{"row": i} for i in range(len(pairs))])
        labels = batch["label"]
        torch.manual_seed(0)
        return _total(loss(columns_of(batch), 1 - labels if switched else labels))

    try:
        total = value(switched=False)
        looks = isinstance(loss, Regularized)
        if not looks:
            model.eval()
            with torch.no_grad():
                looks = not torch.allclose(value(switched=False), value(switched=True))
    except ScoreError as error:
        raise ScoreError(f"{candidate.spec} {error}") from None
    except Exception as error: # whatever somebody's loss raises
        raise ScoreError(f"{candidate.spec} cannot be computed from {PAIRED}: {_in_words(error)}") from None
    if not total.requires_grad:
        raise ScoreError(f"{candidate.spec} has no gradient: it does not depend on the model")
    if not looks:
        why = "it needs pairs that all match, and half of the pairs here do not"
        raise ScoreError(f"{candidate.spec} does not look at the labels: {why}")


def train(candidate: Candidate, run: RunConfig) -> Trained:
    "Train an encoder with your loss, as a run says. Raises `TrainingFailed` with the step, `ScoreError`."
    base, identity = base_encoder(run.encoder)
    pairs, data = TASK.data(run.encoder, run.corpus)
    model = copy.deepcopy(base)
    loss = candidate.make(model, copy.deepcopy(base))
    with tempfile.TemporaryDirectory() as folder:
        trainer = pair_trainer(
            model, loss, pairs, run.training, run.seed, run.encoder.dtype, folder, flat=is_static(model))
        try:
            trainer.train()
        except TrainingFailed:
            raise
        except Exception as error: # whatever somebody's loss raises later than in its first batch
            raise TrainingFailed(trainer.state.global_step, _in_words(error)) from error
    return Trained(model.eval(), identity, data=data)


def execute(
    candidate: Candidate,
    source: str, # as of `source_of`, when its runs began
    run: RunConfig,
) -> dict: # the record
    "Train and test one run with your loss. Raises as `train`, and `ScoreError` for a text that has changed."
    if _source_at_import(candidate.module) != source: # a worker that has begun later has imported another text
        raise ScoreError(f"{candidate.spec} has changed since its runs began: start again")
    told = {"loss": candidate.spec, "source": source, "weight": candidate.weight}
    return runner.execute(run, partial(train, candidate), told)
