"Settings of texts by authors: their split, and how representations of authors are made."
from typing import Annotated, Literal

from pydantic import Field

from ...files import Count, Natural, NotNegative, Positive, Probability, Settings, Share, Strict
from ...runs.settings import CorpusConfig, MethodConfig, TaskSettings, TrainConfig
from ...settings import AuthorsWorldConfig


class SplitConfig(Strict):
    """Split of texts by authors (`papers.data.author_splits`).

    Scheme `paper` takes the authors and topics with the most texts; `aware` also has similar topics on the same side;
    `random` samples authors and topics by its seed; `published` takes the parts as published. Validation `inside` takes
    texts of training authors on training topics, as in the paper; `across` is only in earlier records.
    """
    scheme: Literal["paper", "aware", "random", "published"] = "paper"
    authors: Share = .5          # fraction of authors for training
    topics: Annotated[float, Field(gt=0, lt=1)] = .5 # fraction of topics for training
    share: Share = .8            # of the candidates, for training
    validation: Literal["inside", "across"] = "inside"
    seed: Count = 0 # of the sample for training, the held-out texts, and a `random` split


class AuthorsCorpus(CorpusConfig):
    "Texts by authors on topics, and their split."
    planted = "authors"
    task: Literal["authors"]
    world: AuthorsWorldConfig | None = None
    split: SplitConfig | None = None # None for a planted corpus: no validation
    cleaned: tuple[Literal["quotes", "signatures"], ...] = () # what is taken out of the texts
    likeness: Probability = 0.   # of the test's topics across topics with those of training (planted)

    @property
    def drawn_part(self) -> str | None:
        is_random = self.split and self.split.scheme == "random"
        return super().drawn_part or ("split" if is_random else None)

    @property
    def overlap(self) -> float:
        """Return the authors tested for each one that is not, if replicates are random splits of the same texts.

        Or topics, if a larger fraction of them is tested. Tests take those that training leaves.
        """
        if self.drawn_part != "split":
            return 0.
        fraction = 1 - min(self.split.authors, self.split.topics)
        return fraction / (1 - fraction)

    @property
    def is_closed(self) -> bool:
        return self.split is not None and self.split.validation == "across"

    def rules(self):
        yield from super().rules()
        yield self.world is None and not self.split, "texts by authors need a `split`"
        yield self.likeness and self.world is None, "`likeness` belongs to planted authors"


class AuthorsConfig(Settings):
    """Making of a representation of authors: counted, or trained by a base loss, and perhaps by a student of that.

    Base `cl` is contrastive, `mll` goes over all authors. Student `arr` is the paper's, `corrected` has a teacher less
    the topic (ours).
    """
    counted: Literal["bow", "tfidf", "char", "function words"] | None = None # what is counted; nothing is trained
    base: Literal["cl", "mll"] = "cl"
    student: Literal["none", "arr", "corrected"] = "none"
    variant: Literal["paper", "released"] = "paper" # of Eq. 3 (ARR)
    bias: Probability | None = None # B of all batches; None: Eq. 2 (ARR); 0: plain self-distillation
    gamma: NotNegative = 0.      # strength of the topic model, in a product of experts or a corrected teacher
    epochs: Natural | None = None # of what is kept, where they are others than the block's

    def rules(self):
        has_changes = self.variant != "paper" or self.bias is not None
        product = self.student == "none" and self.base == "cl"
        yield self.counted and self.model_copy(update={"counted": None}) != AuthorsConfig(), (
            "what is counted takes no loss and no student")
        yield self.student != "arr" and has_changes, "`variant` and `bias` belong to the student `arr`"
        yield self.student == "corrected" and not self.gamma, "a corrected teacher needs `gamma`"
        yield self.gamma and not product and self.student != "corrected", (
            "`gamma` belongs to a corrected teacher, or to the base `cl` without a student (product of experts)")


class AuthorsMethod(MethodConfig):
    "Method of authors, by its base loss and student; None: the encoder as it is."
    authors: AuthorsConfig | None = None

    @property
    def is_counted(self) -> bool:
        return self.authors is not None and self.authors.counted is not None

    def rules(self):
        yield self.authors and self.trained == self.is_counted, (
            "what is counted is not trained, and what is not trained has no loss")


class AuthorsTraining(TrainConfig):
    "Settings of training on authors, with the loss that the method names."
    loss: Literal["authors"]
    temperature: Positive        # tau
    epoch_of: Literal["texts"] | None = None # what an epoch has as many of as there are; None: authors
    student_epochs: Natural | None = None # of a distilled student; None: as many as its teacher had
    # Learning rates to try beside `learning_rate`; kept is the best by R@8 on the validation texts.
    further_rates: tuple[Positive, ...] = ()
    further_temperatures: tuple[Positive, ...] = () # the same for `temperature`; each rate meets each temperature


SETTINGS = TaskSettings(AuthorsCorpus, AuthorsMethod, AuthorsTraining, "debias_nb.papers.tasks.authors")
