"Settings of questions with candidate answers, and of SCAN."
from typing import Annotated, Literal

from pydantic import Field

from ...files import Natural, NotNegative, Positive, Probability, Settings, Strict
from ...runs.config import RunConfig
from ...runs.settings import CorpusConfig, MethodConfig, TaskSettings, TrainConfig
from ...settings import AnswersWorldConfig


class AnswersCorpus(CorpusConfig):
    "Questions with candidate answers to train on."
    planted = "answers"
    task: Literal["answers"]
    world: AnswersWorldConfig | None = None
    flip: Probability = 0.       # share of the training labels that are switched


class ScanConfig(Settings):
    """Settings that SCAN adds to plain training with cross-entropy.

    Weights `shuffled` are the learned ones, shuffled within classes; `oracle` ones are 1 / P(word overlap | label).
    """
    weights: Literal["uniform", "learned", "shuffled", "oracle"] = "learned" # of samples
    variant: Literal["paper", "released", "fixed"] = "fixed" # of the learner
    pairs: Literal["matched", "each"] = "matched" # of random functions; as printed is `paper` with `each`
    penalty: NotNegative = .3    # on the spread of weights (`fixed`)
    rate: Positive | None = None # learning rate of the weights; None: the variant's own
    optimizer: Literal["sgd", "adam"] | None = None # of the weights; None: the variant's own
    class_mass: Literal["free", "keep"] = "keep" # whether each class keeps its share of all weight
    memory: Literal["none", "ema", "queue"] = "queue" # of samples and weights of earlier batches
    alpha: Annotated[float, Field(ge=0, lt=1)] = .9 # how much of the old an `ema` keeps
    debias: Literal["none", "paper", "released"] = "none" # language debiasing
    contrast: NotNegative = 1.   # strength of the contrastive loss; 0 leaves a second classification loss alone
    temperature: Positive = 1.   # tau of the contrastive loss

    def rules(self):
        yield self.pairs == "each" and self.variant != "paper", "`pairs: each` belongs to the variant `paper`"


class AnswersMethod(MethodConfig):
    "Training on answers with sample weights and language debiasing, or after another corpus."
    of_training = ("scan", "transfer")
    scan: ScanConfig | None = None # None: cross-entropy alone
    transfer: bool = False       # whether training on another corpus comes first


class TransferConfig(Strict):
    "Training on another corpus before that on a run's own (TANDA)."
    corpus: str                  # of answers
    part: Literal["train", "dev"] = "train"
    learning_rate: Positive
    epochs: Natural


class AnswersTraining(TrainConfig):
    "Settings of training a classifier of pairs with cross-entropy."
    loss: Literal["cross-entropy"]
    positive_weight: Positive = 1. # of right answers in the cross-entropy
    transfer: TransferConfig | None = None # the first stage, of methods that ask for one


def first_stage(run: RunConfig) -> TransferConfig | None:
    "Return the training on another corpus that a run begins with, if it has one."
    has_transfer = run.training and isinstance(run.method, AnswersMethod) and run.method.transfer
    return run.training.transfer if has_transfer else None


SETTINGS = TaskSettings(AnswersCorpus, AnswersMethod, AnswersTraining, "debias_nb.papers.tasks.answers")
