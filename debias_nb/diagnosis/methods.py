"""Methods by name, their strengths, how they train an encoder, and programs to copy."""
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from pydantic import ValidationError

from ..checks import ConfigError, check_known, check_range, quoted, several_texts
from ..data.pairs import fold
from ..data.registry import DataError
from ..data.sentences import GENERAL_TEXTS
from ..data.texts import HeldTexts
from ..encoders.kinds import deep_copy, is_static
from ..encoders.tokens import Tokens, from_features, to_features, tokenize
from ..encoders.trained_part import adapters_package, layers_of
from ..files import explain, fingerprint, sha256_file
from ..losses.regularizers import Regularizer
from ..runs.names import REGULARIZERS, takes
from ..runs.settings import PairMethod, PairTraining
from .models import Scorer
from .pairs import PairFile
from .programs import BUDGETS, LEAST_SQUARES, LOSSES, OF_MATCHES, has_both_classes

if TYPE_CHECKING:
    from debias_nb.runs.pair_batches import PairTokens

DEFAULTS = ("base", "plain", "wise-ft", "outreg", "itvreg")
GENERAL = "outreg-texts:1" # what is tried where general texts are given
SUFFIX = "-texts" # of a regularizer on other texts than those of training
WITH_RANKING = {"outreg": 10., "itvreg": 100.} # default strengths with a ranking loss, whose gradient is larger


@dataclass(frozen=True)
class MethodSpec:
    "Description of a kind of method: what help and pages say of it, and the strength that it takes."
    description: str
    title: str                     # in headings, with a place for its strength
    strength: float | None = None  # where none is given; None: it takes none
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
                      implementation)


METHODS = {
    "base": MethodSpec("the base encoder, not fine-tuned", "the base"),
    "plain": MethodSpec("fine-tuning without a regularizer", "plain fine-tuning"),
    "wise-ft": MethodSpec("weights between the base (0) and plain fine-tuning (1)", "averaged weights, share {:g}", .5),
    "lora": MethodSpec(
        "fine-tuning of adapters of this rank in place of a transformer's weights (LoRA, by peft), merged afterwards",
        "LoRA, rank {:.0f}", 8.),
} | {name: spec_of(entry.load(), name) for name, entry in REGULARIZERS.items() if entry.is_offered}


def spec_for(kind: str) -> MethodSpec: # one of `METHODS`, or `mymodule.Name`, from the current folder or installed
    "Describe a kind of method. Raise `ConfigError` for a class of your own that is none."
    if "." not in kind:
        return METHODS[kind]
    from debias_nb.runs.training import own_class # which takes seconds to import, as a trainer does
    return spec_of(own_class(kind), kind)


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
    def source(self) -> str | None: # 64 hex digits
        "A digest of the file of a class of your own."
        return sha256_file(sys.modules[self.spec.implementation.__module__].__file__) if "." in self.kind else None

    def training(self, settings: PairTraining) -> PairTraining: # settings: of all methods
        "Replace the loss of all methods by a loss of your own."
        is_loss = "." in self.kind and not self.spec.is_regularizer
        return settings.model_copy(update={"loss": self.kind}) if is_loss else settings

    def config(self, model) -> PairMethod: # model: the encoder
        """Return the method as the configuration of a run has it.

        Raise `EncoderError` for adapters of an encoder without layers, `ConfigError` without the package peft."""
        settings = {"name": self.kind, "trained": self.kind != "base"}
        if self.kind == "lora":
            layers_of(model, 1, self.kind)
            adapters_package()
            settings["lora"] = {"rank": int(self.strength)}
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
    def title(self) -> str: # `OutReg, λ = 1, on general texts`
        "The method in words, as headings have it."
        title = self.spec.title.format(self.strength)
        if self.texts is None:
            return title
        path = self.texts.path
        return f"{title}, on {'general texts' if path == GENERAL_TEXTS else Path(path).name if path else 'your texts'}"

    def facts(self) -> dict:
        "Return what a page says of it."
        return {"name": self.name, "title": self.title, "strength": self.strength, "about": self.spec.description}


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
    loss: str = LEAST_SQUARES, # that a default strength fits
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
        return Method(text, kind, WITH_RANKING.get(kind, default) if loss in OF_MATCHES else default, texts)
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
    loss: str = LEAST_SQUARES,
) -> list[Method]:
    """Read methods from their names, with the base and plain fine-tuning among them.

    Raise `ConfigError` as `read_method`, for a name twice, and for texts that no method reads."""
    if names is None:
        names = [*DEFAULTS]
        if texts is not None:
            names.insert(names.index("outreg") + 1, GENERAL if texts.path == GENERAL_TEXTS else "outreg-texts")
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    names = several_texts(names, "methods")
    if len(set(names)) < len(names):
        raise ConfigError(f"methods: a name occurs twice in {', '.join(names)}")
    missing = [name for name in ("base", "plain") if name not in names]
    methods = [read_method(name, texts, loss) for name in [*missing, *names]]
    if texts is not None and not any(method.texts for method in methods):
        raise ConfigError("texts (--texts): no method reads them; add one to methods, such as outreg-texts")
    return methods


def without_tests(texts: HeldTexts, files: dict[str, PairFile]) -> HeldTexts: # files: tests
    """Check that no text also occurs in a test, on either side, whatever its case, spaces and punctuation.

    Leave out general texts that do, and raise `DataError` for others."""
    keys = [fold(text, True) for text in texts.texts]
    overlap = set()
    for name, file in files.items():
        test_keys = set().union(*file.folded)
        shared = [text for text, key in zip(texts.texts, keys) if key in test_keys]
        if shared and texts.path != GENERAL_TEXTS:
            raise DataError(
                f"texts: {len(shared):,} of {len(keys):,} also occur in the test {name} (the first is "
                f"{quoted(shared[0])}). A test must not be regularized on: leave them out")
        overlap.update(shared)
    if not overlap:
        return texts
    remaining = [text for text in texts.texts if text not in overlap]
    return replace(texts, texts=remaining, sha256=fingerprint(remaining))


# ---------------------------------------------------------------- one training

def check_loss(train: PairFile, loss: str) -> None:
    "Raise `ConfigError` for a loss of labels where all pairs are matches."
    if loss not in OF_MATCHES and not has_both_classes(train):
        raise ConfigError(f"loss: {loss} needs pairs that are no match, and training has none; take {OF_MATCHES[0]}")


def settings_for(
    kind: str,  # static or transformer
    **settings, # learning_rate, epochs, batch_size, loss; None: what fits the kind
) -> PairTraining:
    """Return how every method is trained: the given settings, and for the others what fits the kind of encoder.

    Raise `ConfigError` for a value not above 0, or a loss that is not among `LOSSES`."""
    values = ({"loss": LEAST_SQUARES} | BUDGETS[kind]
              | {name: value for name, value in settings.items() if value is not None})
    check_known("loss", values["loss"], LOSSES, ConfigError)
    if float(values["epochs"]).is_integer():
        values["epochs"] = int(values["epochs"]) # 5 epochs are 5.0 epochs
    try:
        return PairTraining(**values)
    except ValidationError as e:
        raise ConfigError(explain(e, "training").partition("\n")[0]) from None


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
    "Tokenize the pairs as they are trained on."
    from debias_nb.runs.pair_batches import PairTokens
    of_matches = loss in OF_MATCHES
    rows = train.dataset(labeled=not of_matches)
    texts = [name for name in rows.column_names if name != "label"]
    left_prompt, right_prompt = base.prefixes
    columns = [_behind_prompt(base.model, list(rows[name]), right_prompt if place else left_prompt)
               for place, name in enumerate(texts)]
    left, right, *negatives = [tokens for tokens, _ in columns]
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
        method.training(settings), seed, texts=texts)
    return replace(base, name=method.name, model=model, source=None)
