"""Settings of runs, told apart by their task: a corpus, a method, and a training.

What all tasks have in common stands here, and the settings of fine-tuning an encoder of texts, which several tasks and
`compare` share. Each task adds its own in a module that loads no model, an entry point `debias_nb.tasks`. In a file a
corpus says its task, a training its loss, and a method is of the class that has its settings. A default is no part of a
run's id.
"""
import importlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import BaseModel, BeforeValidator, Field, SerializeAsAny

from ..checks import ConfigError, check_known, nearest
from ..files import Count, Names, Natural, NotNegative, Positive, Probability, Settings, Share, Strict
from ..plugins import plugins
from ..settings import OfLabels, OfMatches
from .names import REGULARIZERS, takes

ClassPath = Annotated[str, Field(pattern=r"^\w[\w.]*\.\w+$")] # `mymodule.Name`, a class of a user's own

Intervention = Literal["mask", "delete", "pad", "random"]
Augmentation = Literal["none", "itvaug", "worddropout"]
REGULARIZER_NAMES = [name for name in REGULARIZERS if name not in get_args(Augmentation)]


class CorpusConfig(Settings):
    "Training corpus of a run, as all tasks have it."
    planted: ClassVar[str | None] = None # name of the task's synthetic corpus
    name: str                    # a corpus of the registry or a category of products, or the planted one
    label: str | None = None     # what the tables call it; default: its name
    task: str = "pairs"
    world: None = None           # of the planted corpus, also of the test splits

    @property
    def display(self) -> str: # the name in tables
        return self.label or self.name

    @property
    def drawn_part(self) -> str | None: # the setting whose seed draws the texts, or their split
        return "world" if self.world else None

    @property
    def drawn(self) -> Strict | None: # its planted world or its random split
        return getattr(self, self.drawn_part) if self.drawn_part else None

    @property
    def overlap(self) -> float: # test units for each other one, where replicates are random splits of the same texts
        return 0.

    @property
    def is_closed(self) -> bool:
        "Whether its runs are not made any more: a question that is answered leaves its records and pages."
        return False

    def with_seed(self, seed: int) -> "CorpusConfig":
        "Return the corpus in another synthetic dataset or split, or itself where nothing is drawn."
        if not self.drawn:
            return self
        return self.model_copy(update={self.drawn_part: self.drawn.model_copy(update={"seed": seed})})

    def rules(self):
        is_planted = self.name == self.planted
        yield is_planted != (self.world is not None), "`world` belongs to the planted corpora, whose name it bears"


class MethodConfig(Settings):
    "One row of a table, as all tasks have it: plain training, or none."
    of_training: ClassVar[Names] = () # settings that an encoder which is not trained cannot have
    name: str
    setting: str | None = None   # of a search that tries several of one method: what rows say of it in brackets
    was: str | None = None       # its name in ids and records, where runs were made before the row was renamed
    trained: bool = True         # False: the base encoder as it is

    @property
    def display(self) -> str: # the name in tables, and in ids and records where `was` says no other
        return f"{self.name} ({self.setting})" if self.setting else self.name

    @property
    def mixing_weights(self) -> tuple[float, ...]: # at which weights between base and tuned encoder are also tested
        return ()

    def with_weight(self, weight: float) -> "MethodConfig":
        "Return the method with another lambda, or itself where it has none."
        return self

    @property
    def is_closed(self) -> bool: # as of `CorpusConfig`
        return False

    def rules(self):
        trains = self.non_defaults(*self.of_training)
        yield not self.trained and trains, f"an encoder that is not trained has no `{'`, `'.join(trains)}`"


class TextsConfig(Strict):
    "Unlabeled texts on which an encoder is regularized, instead of a batch's."
    # Whose training texts, without those that a run is tested on. Or evaluation sets of titles (`ood`) and of a planted
    # world: texts of the same kind in no test.
    corpora: Annotated[Names, Field(min_length=1)]
    share: Share = 1.            # of these texts, drawn once


class LoraConfig(Strict):
    """Adapters of low rank (LoRA) in place of the weights of a transformer, made by `peft` with its own defaults.

    Of a BERT they stand next to the queries and values of every layer, without dropout and biases, and are scaled by
    alpha / rank. Modules after the transformer are trained as ever. After training the adapters are merged into the
    weights.
    """
    rank: Natural
    alpha: Natural = 8           # peft's default, whatever the rank


class WeightsConfig(MethodConfig):
    "Which weights of an encoder fine-tuning changes, and which are tested."
    of_training = ("interpolate", "frozen_layers", "lora")
    # WiSE-FT: also test weights so far from the base encoder's (0) to the tuned (1)
    interpolate: tuple[Probability, ...] = ()
    frozen_layers: Count | None = None # of a transformer: the embeddings and so many layers above them are not trained
    lora: LoraConfig | None = None # adapters are trained in place of the weights of a transformer

    @property
    def mixing_weights(self) -> tuple[float, ...]:
        return self.interpolate


class PairMethod(WeightsConfig):
    "Fine-tuning on pairs of texts with at most one regularizer or augmentation."
    of_training = ("regularizer", "augmentation", *WeightsConfig.of_training)
    regularizer: str = Field("none", serialization_alias="regulariser") # of `REGULARIZER_NAMES`, or `mymodule.Name`
    weight: NotNegative = 0.     # the paper's lambda
    mask_share: Annotated[float, Field(gt=0, lt=1)] | None = None # share of ordinary tokens intervened on
    intervention: Intervention = "mask"
    augmentation: Augmentation = "none"
    rows: Share = 1.             # share of each batch that is regularized
    texts: TextsConfig | None = None # other texts that are regularized, as many as a batch has rows

    @property
    def addition(self) -> str: # to plain fine-tuning: its regularizer or augmentation
        return self.augmentation if self.regularizer == "none" else self.regularizer

    def with_weight(self, weight: float) -> "PairMethod":
        return self if self.regularizer == "none" else self.model_copy(update={"weight": weight})

    def rules(self):
        if "." not in self.regularizer:
            check_known("regularizer", self.regularizer, ["none", *REGULARIZER_NAMES])
        has_regularizer = self.regularizer != "none"
        has_augmentation = self.augmentation != "none"
        yield has_regularizer and has_augmentation, "a regularizer or an augmentation, not both"
        settings = takes(self.addition)
        yield ("mask_share" in settings) != (self.mask_share is not None), (
            "`mask_share` belongs to what intervenes on tokens, as itvreg, itvaug and worddropout, and is "
            "required there")
        yield from super().rules()
        of_regularizer = self.non_defaults("weight", "rows", "texts")
        yield not has_regularizer and of_regularizer, f"`{'`, `'.join(of_regularizer)}` belongs to a regularizer"
        yield self.texts and ("texts" not in settings or self.rows < 1), (
            "`texts` belongs to a regularizer of texts, without `rows`")
        yield self.lora and (self.frozen_layers is not None or self.regularizer == "l2sp"), (
            "`lora` leaves the weights as they are: it goes neither with `frozen_layers` nor with l2sp")


class TrainConfig(Settings):
    """Settings of a training that all tasks have, the same for every method of a block.

    `select`: the encoder after the last epoch, or after the one that did best on held-out training data (answers: on
    the development set, by MAP).
    """
    loss: str
    learning_rate: Positive
    epochs: Annotated[int | float, Field(gt=0)]
    batch_size: Natural
    optimizer: Literal["adam", "adamw"] = "adam"
    select: Literal["last", "best"] = "last"


class PairTraining(TrainConfig):
    """Settings of fine-tuning on labeled pairs, or on duplicates.

    Losses: `mse` of cosine and label; `cosent`, sentence-transformers' CoSENTLoss of the same; `ranking`, its
    MultipleNegativesRankingLoss on the duplicates alone; `ranking-hard`, the same with a text that is no duplicate as
    third column; others of sentence-transformers by their own names, or `mymodule.Name`.
    """
    loss: Literal["mse", "cosent", "ranking", "ranking-hard"] | OfLabels | OfMatches | ClassPath = "mse"


class HingeTraining(TrainConfig):
    "Settings of fine-tuning on relevant pairs with a hinge, contrastive with hard negatives of the batch."
    loss: Literal["hinge"]
    margin: Annotated[float, Field(gt=0, le=2)]
    hardest: Natural             # negatives of a query
    temperature: Positive | None = None # of these negatives' weights; None: equal weights
    epoch_of: Literal["items"] | None = None # what an epoch has as many of as there are; None: pairs


@dataclass(frozen=True)
class TaskSettings:
    "Classes of a task's settings, and the module whose `TASK` makes its runs; None: the runner is handed it."
    corpus: type[CorpusConfig] = CorpusConfig
    method: type[MethodConfig] = PairMethod
    training: type[TrainConfig] = PairTraining
    module: str | None = None

    def fit(self, part: BaseModel | None, name: str) -> BaseModel | None: # name: of its class here
        """Return a part of a run in the class that the task has for it.

        Raise `ValidationError` for settings of another task."""
        kind = getattr(self, name)
        return part if part is None or type(part) is kind else _fit_class(part, kind)

    def task(self):
        "Import the task itself, which loads torch. Raise `ConfigError` where no package has one."
        if self.module is None:
            raise ConfigError("the task of this run has no runs of its own here; where code is newer than its "
                              "installation: pip install --editable .")
        return importlib.import_module(self.module).TASK


@lru_cache(maxsize=4096)
def _fit_class(part: BaseModel, kind: type[BaseModel]) -> BaseModel:
    return kind.model_validate(part.model_dump(exclude_defaults=True))


PAIRS = "pairs" # the task of what says no other


@lru_cache
def all_tasks() -> dict[str, TaskSettings]: # by their names
    "Load the settings of all tasks. Raise `ConfigError` where the installation is older than the code."
    tasks = {point.name: point.load() for point in plugins("debias_nb.tasks")}
    if not all(isinstance(task, TaskSettings) for task in tasks.values()):
        raise ConfigError("tasks: code is newer than its installation: pip install --editable .")
    return {PAIRS: TaskSettings()} | tasks # without the leaf that has pairs: the settings that all have


def task_settings(task: str) -> TaskSettings:
    "Return the settings of a task. Raise `ConfigError` where no package has one."
    tasks = all_tasks()
    if task not in tasks:
        hint = (f"is installed{nearest(str(task), tasks)}; where code is newer than its installation: pip install "
                "--editable .")
        raise ConfigError(f"no task {task!r} {hint}")
    return tasks[task]


def read_corpus(values):
    "Read a corpus in the class of its task."
    if isinstance(values, CorpusConfig):
        return task_settings(values.task).fit(values, "corpus")
    if not isinstance(values, dict):
        return values
    return task_settings(values.get("task", PAIRS)).corpus.model_validate(values)


def validate_method(values):
    "Read a method in the class that has most of its settings; one without settings of a task is of any."
    if not isinstance(values, dict):
        return values
    kinds = dict.fromkeys([MethodConfig, *(task.method for task in all_tasks().values())])
    kind = max(kinds, key=lambda kind: len(values.keys() & kind.model_fields.keys())) # the first of equals
    return kind.model_validate(values)


@lru_cache
def _by_loss() -> dict[str, type[TrainConfig]]: # those of losses that name no class
    kinds = {}
    for task in all_tasks().values():
        annotation = task.training.model_fields["loss"].annotation
        for part in (annotation, *get_args(annotation)):
            kinds |= {name: task.training for name in get_args(part) if isinstance(name, str)}
    return kinds


def read_training(values):
    "Read a training in the class that has its loss."
    if not isinstance(values, dict):
        return values
    loss = values.get("loss", "mse")
    kind = _by_loss().get(loss, PairTraining) if isinstance(loss, str) else PairTraining
    return kind.model_validate(values)


AnyCorpus = Annotated[SerializeAsAny[CorpusConfig], BeforeValidator(read_corpus)]
AnyMethod = Annotated[SerializeAsAny[MethodConfig], BeforeValidator(validate_method)]
AnyTraining = Annotated[SerializeAsAny[TrainConfig], BeforeValidator(read_training)]
