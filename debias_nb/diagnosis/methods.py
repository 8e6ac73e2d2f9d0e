"""Methods by name, their strengths, and how they train an encoder."""
import json
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from pydantic import ValidationError

from ..checks import ConfigError, check_known, check_range, quoted
from ..data.pairs import fold
from .pairs import PairFile
from ..data.registry import DataError
from ..data.sentences import GENERAL_TEXTS
from ..data.texts import HeldTexts
from ..encoders.kinds import deep_copy, is_static
from ..encoders.tokens import Tokens, from_features, to_features, tokenize
from ..encoders.trained_part import layers_of
from ..encoders.trained_part import adapters_package
from .programs import BUDGETS, LEAST_SQUARES, LOSSES, OF_MATCHES, has_both_classes
from .models import Scorer
from .recommendations import GENERAL
from ..files import explain, fingerprint, sha256_file
from ..losses.regularizers import Regularizer
from ..runs.names import REGULARIZERS, takes
from ..runs.settings import PairMethod, PairTraining

if TYPE_CHECKING:
    from debias_nb.runs.pair_batches import PairTokens


DEFAULTS = ("base", "plain", "wise-ft", "outreg", "itvreg")
HELD_GENERAL = GENERAL.method # is one of them on general texts
HOW = ("learning_rate", "epochs", "batch_size", "loss") # of a training: what can be asked for
SUFFIX = "-texts" # of a regularizer on other texts than those of training


@dataclass(frozen=True)
class MethodSpec:
    "Description of a kind of method: what help and pages say of it, and the strengths that it takes."
    description: str
    title: str                     # in headings, with a place for its strength
    strength: float | None = None  # where none is given; None: it takes none
    grid: tuple[float, ...] = ()   # what is tried where one is to be chosen, weakest first
    implementation: type | None = None # a regularizer, or a loss of a user's own

    @property
    def is_regularizer(self) -> bool:
        return self.implementation is not None and not issubclass(self.implementation, torch.nn.Module)

    @property
    def takes_texts(self) -> bool: # other ones than those of training
        return self.is_regularizer and issubclass(self.implementation,
                                                  Regularizer) and self.implementation.reads_columns


def spec_of(implementation: type, name: str) -> MethodSpec: # implementation: a regularizer, or a loss of a user's own
    "Describe a class as a kind of method."
    if issubclass(implementation, torch.nn.Module):
        return MethodSpec(getattr(implementation, "about", "fine-tuning with a loss of your own"), name,
                          implementation=implementation)
    return MethodSpec(implementation.about, f"{implementation.__name__}, λ = {{:g}}", fields(implementation)[0].default,
                      implementation.grid, implementation)


METHODS = {
    "base": MethodSpec("the base encoder, not fine-tuned", "the base"),
    "plain": MethodSpec("fine-tuning without a regularizer", "plain fine-tuning"),
    "wise-ft": MethodSpec("weights between the base (0) and plain fine-tuning (1)", "averaged weights, share {:g}", .5,
                          (.8, .6, .4, .2)),
    "lora": MethodSpec(
        "fine-tuning of adapters of this rank in place of a transformer's weights (LoRA, by peft), merged afterwards",
        "LoRA, rank {:.0f}",
        8., (32, 16, 8, 4)),
} | {name: spec_of(entry.load(), name) for name, entry in REGULARIZERS.items() if entry.is_offered}


def spec_for(kind: str) -> MethodSpec: # one of `METHODS`, or `mymodule.Name`, from the current folder or installed
    "Describe a kind of method. Raise `ConfigError` for a class of your own that is none."
    if "." not in kind:
        return METHODS[kind]
    from debias_nb.runs.training import own_class # which takes seconds to import, as a trainer does
    return spec_of(own_class(kind), kind)


def without_tests(
    texts: HeldTexts,
    files: dict[str, PairFile], # tests, and pairs to choose strengths on, where such a text looks better than a new one
) -> HeldTexts:
    """Check that no text also occurs in a file, on either side, whatever its case, spaces and punctuation.

    Leave out general texts that do, and raise `DataError` for others."""
    keys = [fold(text, True) for text in texts.texts]
    overlap = set()
    for name, file in files.items():
        test_keys = set().union(*file.folded)
        shared = [text for text, key in zip(texts.texts, keys) if key in test_keys]
        if shared and texts.path != GENERAL_TEXTS:
            raise DataError(
                f"texts: {len(shared):,} of {len(keys):,} also occur in {name} (the first is {quoted(shared[0])}). "
                "A test must not be regularized on: leave them out")
        overlap.update(shared)
    if not overlap:
        return texts
    remaining = [text for text in texts.texts if text not in overlap]
    return replace(texts, texts=remaining, sha256=fingerprint(remaining))


@dataclass(frozen=True)
class Method:
    "One thing that is done with an encoder."
    name: str                      # as it was asked for
    kind: str                      # as `spec_for` takes it
    # lambda, the fraction of words that are dropped, the mixing weight of tuned weights, or a rank
    strength: float | None = None
    texts: HeldTexts | None = None # what a regularizer reads; None: the texts of training

    @property
    def spec(self) -> MethodSpec:
        return spec_for(self.kind)

    @property
    def is_open(self) -> bool: # whether its strength is left to the default, or to validation pairs
        return self.spec.strength is not None and ":" not in self.name

    @property
    def custom_class(self) -> type | None:
        "A loss or a regularizer of a user's own."
        return self.spec.implementation if "." in self.kind else None

    @property
    def source(self) -> str | None: # 64 hex digits
        "A digest of the file of a class of your own."
        return self.custom_class and sha256_file(sys.modules[self.custom_class.__module__].__file__)

    @property
    def adapters(self) -> dict[str, int] | None: # as `trained_part` takes them; None: all weights are trained
        return {"rank": int(self.strength)} if self.kind == "lora" else None

    def training(self, settings: PairTraining) -> PairTraining: # settings: of all methods
        "Replace the loss of all methods by a loss of your own."
        is_loss = self.custom_class and not self.spec.is_regularizer
        return settings.model_copy(update={"loss": self.kind}) if is_loss else settings

    def config(
        self,
        model, # the encoder
        shares: tuple[float, ...] = (), # mixing weights, at which plain fine-tuning is also tested
    ) -> PairMethod:
        """Return the method as the configuration of a run has it; WiSE-FT is that of plain fine-tuning.

        Raise `EncoderError` for adapters of an encoder without layers, `ConfigError` without the package peft."""
        if self.kind in ("plain", "wise-ft"):
            return PairMethod(name="plain", interpolate=shares)
        settings = {"name": self.kind, "trained": self.kind != "base"}
        if self.kind == "lora":
            layers_of(model, 1, self.kind)
            adapters_package()
            settings["lora"] = self.adapters
        elif self.kind == "worddropout":
            settings |= {"augmentation": self.kind, "mask_share": self.strength}
        elif self.spec.is_regularizer:
            settings |= {"regularizer": self.kind, "weight": self.strength}
            if "mask_share" in takes(self.kind):
                settings["mask_share"] = self.spec.implementation.mask_share
        if self.texts is not None:
            settings |= {"name": self.kind + SUFFIX, "texts": {"corpora": ["texts"]}}
        if self.strength is not None:
            settings["name"] += f":{self.strength:g}"
        return PairMethod(**settings)

    @property
    def regularizer(self) -> str | None: # as it is called in a program
        if not self.spec.is_regularizer:
            return None
        arguments = repr(float(self.strength))
        if self.texts is not None:
            arguments += (f", texts={json.dumps(self.texts.path, ensure_ascii=False)}" if self.texts.path
                          else ", texts=...")
        return f"{self.spec.implementation.__name__}({arguments})"

    @property
    def title(self) -> str: # `OutReg, λ = 1, on general texts`
        "The method in words, as headings have it."
        title = self.spec.title.format(self.strength)
        if self.texts is None:
            return title
        path = self.texts.path
        return f"{title}, on {'general texts' if path == GENERAL_TEXTS else Path(path).name if path else 'your texts'}"

    def facts(self) -> dict:
        "Return what a page says of it."
        description = self.spec.description
        if self.texts is not None:
            description += f", on other texts than those of training ({self.texts.path or 'in memory'})"
        return {"name": self.name, "kind": self.kind, "strength": self.strength, "about": description}


def check_strength(kind: str, strength: float) -> None: # kind: as `spec_for` takes it
    "Raise `ValueError` for a strength that a method does not take."
    if kind == "wise-ft":
        check_range("share", strength, high=1, closed="both")
    elif kind == "lora":
        if not (strength >= 1 and strength == int(strength)):
            raise ValueError(f"a rank is a whole number of 1 or more, got {strength:g}")
    else:
        spec_for(kind).implementation(strength)


def read_method(
    text: str, # `plain`, `outreg`, `outreg:1`, `wise-ft:0.25`, `outreg-texts:1`
    texts: HeldTexts | None = None,
) -> Method:
    """Read a method from its name, which may be that of a loss or a regularizer of your own.

    A loss is made from the model alone, as those of sentence-transformers are. Raise `ConfigError` with the nearest
    name, for a strength that the method does not take, and for one on texts if it takes none or there are none."""
    name, colon, number = text.partition(":")
    kind = name
    if "." not in name:
        names = [*METHODS, *(method + SUFFIX for method, spec in METHODS.items() if spec.takes_texts)]
        check_known("method called", name, names, ConfigError)
        kind = name.removesuffix(SUFFIX)
    if kind == name:
        texts = None
    elif texts is None:
        raise ConfigError(f"methods: {text!r} regularizes on other texts: give texts (--texts) too")
    default = spec_for(kind).strength
    if not colon:
        return Method(text, kind, default, texts)
    if default is None:
        raise ConfigError(f"methods: {kind} has no strength, got {text!r}")
    try:
        strength = float(number)
        check_strength(kind, strength)
    except ValueError as e:
        raise ConfigError(f"methods: {text!r}: {e}") from None
    return Method(text, kind, strength, texts)


def read_methods(
    names, # names, or one text with commas; None: `DEFAULTS`, and OutReg on texts where there are some
    texts: HeldTexts | None = None,
) -> list[Method]:
    """Read methods from their names, with the base and plain fine-tuning among them.

    Raise `ConfigError` as `read_method`, for a name twice, and for texts that no method reads."""
    if names is None:
        names = [*DEFAULTS]
        if texts is not None:
            names.insert(names.index("outreg") + 1, HELD_GENERAL if texts.path == GENERAL_TEXTS else "outreg-texts")
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    names = list(names)
    if len(set(names)) < len(names):
        raise ConfigError(f"methods: a name occurs twice in {', '.join(names)}")
    missing = [name for name in ("base", "plain") if name not in names]
    methods = [read_method(name, texts) for name in [*missing, *names]]
    if texts is not None and not any(method.texts for method in methods):
        raise ConfigError("texts (--texts): no method reads them; add one to methods, such as outreg-texts")
    return methods


def settings_for(
    kind: str,  # static or transformer
    **settings, # learning_rate, epochs, batch_size, loss; None: what fits the kind
) -> PairTraining:
    """Return how every method is trained: the given settings, and for the others what fits the kind of encoder.

    Raise `ConfigError` for another kind, a value not above 0, or a loss that is not among `LOSSES`."""
    if kind not in BUDGETS:
        raise ConfigError(f"a {kind} encoder cannot be compared here: its pairs have no embeddings of their own")
    values = ({"loss": LEAST_SQUARES} | BUDGETS[kind]
              | {name: value for name, value in settings.items() if value is not None})
    check_known("loss", values["loss"], LOSSES, ConfigError)
    if float(values["epochs"]).is_integer():
        values["epochs"] = int(values["epochs"]) # 5 epochs are 5.0 epochs
    try:
        return PairTraining(**values)
    except ValidationError as e:
        raise ConfigError(explain(e, "training").partition("\n")[0]) from None


# With a ranking loss, whose gradient is larger: the default, as `compare` measures it on a planted world, and what is
# tried.
RANKING_STRENGTHS = {"outreg": (10., (1, 3, 10, 30)), "itvreg": (100., (10, 30, 100, 300))}


def strengths_of(method: Method, loss: str) -> tuple[float | None, tuple[float, ...]]: # loss: one of `LOSSES`
    "Return the default strength of a method with a loss, and those that are tried, weakest first."
    usual = method.spec.strength, method.spec.grid
    return RANKING_STRENGTHS.get(method.kind, usual) if loss in OF_MATCHES else usual


def fitting(method: Method, loss: str) -> Method: # loss: one of `LOSSES`
    "Give a method without a strength of its own the one that fits a loss."
    return replace(method, strength=strengths_of(method, loss)[0]) if method.is_open else method


def _matches(train: PairFile): # -> a data frame of left and right, and of candidates the negatives of each row
    "Return what a ranking loss trains on: a match a row, each with as many negatives as the row with the fewest."
    frame = train.frame
    matches = frame[frame.label > 0]
    if train.form != "candidates":
        return matches[["left", "right"]].reset_index(drop=True)
    negatives = frame[frame.label == 0].groupby("query").right.agg(list)
    fewest = int(negatives.str.len().min())
    rows = matches[["query", "left", "right"]].reset_index(drop=True)
    for number in range(fewest):
        rows[f"negative_{number + 1}"] = rows["query"].map(negatives.str[number])
    return rows.drop(columns="query")


def training_rows(
    train: PairFile,
    loss: str, # one of `LOSSES`
): # a `datasets.Dataset`
    """Return the pairs as a loss takes them: with their labels, or the matches alone, with their negatives if any.

    Raise `ConfigError` for a loss of labels where all pairs are matches."""
    from datasets import Dataset
    if loss in OF_MATCHES:
        return Dataset.from_pandas(_matches(train), preserve_index=False)
    if not has_both_classes(train):
        raise ConfigError(f"loss: {loss} needs pairs that are no match, and training has none; take {OF_MATCHES[0]}")
    rows = train.frame[["left", "right", "label"]].astype({"label": float})
    return Dataset.from_pandas(rows, preserve_index=False)


def _behind_prompt(model, texts: list[str], prompt: str) -> tuple[Tokens, int]: # the second: tokens of the prompt
    "Tokenize texts behind a prompt, which no intervention changes."
    tokens = tokenize(model, texts, prompt=prompt)
    if not prompt:
        return tokens, 0
    if is_static(model):
        length = int(tokenize(model, [prompt]).mask.sum())
    else:
        length = model.preprocess(texts[:1], prompt=prompt).get("prompt_length", 0)
    return from_features(model, to_features(tokens, False) | {"prompt_length": length}), length


def file_tokens(base: Scorer, train: PairFile, loss: str) -> "PairTokens": # loss: one of `LOSSES`
    "Tokenize the pairs as they are trained on. Raise `ConfigError` as `training_rows`."
    from debias_nb.runs.pair_batches import PairTokens
    rows = training_rows(train, loss)
    texts = [name for name in rows.column_names if name != "label"]
    left_prompt, right_prompt = base.prefixes
    columns = [_behind_prompt(base.model, list(rows[name]), right_prompt if place else left_prompt)
               for place, name in enumerate(texts)]
    left, right, *negatives = [tokens for tokens, _ in columns]
    of_matches = loss in OF_MATCHES
    labels = torch.ones(len(rows)) if of_matches else torch.tensor(rows["label"])
    pairs = PairTokens(left, right, labels, negatives=tuple(negatives), matches=rows if of_matches else None)
    pairs.prompts.update({name: length for name, (_, length) in zip(pairs.columns, columns) if length})
    return pairs


def tune(
    base: Scorer,            # left as it is
    train: PairFile,
    method: Method,
    settings: PairTraining,
    seed: int,               # of batches, dropout and interventions
) -> Scorer:
    "Return a tuned copy of an encoder. Raise `TrainingFailed`."
    from debias_nb.runs.training import fine_tune
    model = deep_copy(base.model)
    texts = method.texts and method.texts.texts
    fine_tune(
        model, deep_copy(base.model), file_tokens(base, train, settings.loss), method.config(model),
        method.training(settings), seed,
        texts=texts)
    return replace(base, name=method.name, model=model, source=None)
