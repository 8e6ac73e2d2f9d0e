"Configuration of a corpus: its texts, their number, and their split."
from typing import Annotated, Literal

from pydantic import Field

from ..settings import AnswersWorldConfig, AuthorsWorldConfig, WorldConfig
from ..files import Count, Natural, Probability, Settings, Share, Strict


World = WorldConfig | AnswersWorldConfig | AuthorsWorldConfig
Names = tuple[str, ...]


class SplitConfig(Settings):
    """Split of texts by authors (`papers.data.author_splits`).

    Scheme `paper` takes the authors and topics with the most texts; `aware` also has similar topics on the same side;
    `random` samples authors and topics by its seed; `published` takes the parts as published. Validation `inside` takes
    texts of training authors on training topics, as in the paper; `across` is only in earlier records.
    """
    once = {"size": None, "similarity": .1, "linkage": "average", "keep": 1., "each": None}
    scheme: Literal["paper", "aware", "random", "published"] = "paper"
    authors: Share = .5          # fraction of authors for training
    topics: Annotated[float, Field(gt=0, lt=1)] = .5 # fraction of topics for training
    share: Share = .8            # of the candidates, for training
    validation: Literal["inside", "across"] = "inside"
    seed: Count = 0 # of the sample for training, the held-out texts, and a `random` split

    @property
    def drawn(self) -> bool:
        "Whether authors and topics are sampled by its seed."
        return self.scheme == "random"


class FilesConfig(Strict):
    "Inputs of a run on a user's files, each by a digest of its contents, so that a file may be moved."
    train: str                   # rows, as read
    tests: Names                 # rows of each evaluation set, and its measures
    matches: bool = False        # whether training has matches alone, none of them a negative of another
    texts: str | None = None     # unlabeled ones
    own: str | None = None       # the module with a loss or a regularizer of the user's own
    packages: Names = ()         # with their versions


PLANTED_CORPORA = {"catalogue": ("pairs", "titles"), "answers": ("answers",), "authors": ("authors",)} # and their tasks


TASK_SETTINGS = { # task -> its own settings
    "titles": ("by", "until", "held_out", "ticks"), "answers": ("flip",), "authors": ("split", "cleaned", "likeness")}


class CorpusConfig(Settings):
    """Training corpus of a run.

    Tasks: labeled `pairs`; `titles` to retrieve titles for; questions with candidate `answers`; texts by `authors`; a
    user's `files`.
    """
    once = {"noise_seed": 0}
    name: str                    # a corpus of the registry or a category of products; planted: `catalogue`, `answers`, `authors`
    share: Share = 1.            # share of the training pairs used
    share_seed: Count = 0        # draws them: one for all training seeds, unless a block redraws
    whole_groups: bool = False   # whether what shares texts is drawn together (questions and news)
    holdout: Annotated[float, Field(ge=0, lt=1)] = 0. # share of training questions held out, as evaluation set `heldout`
    world: World | None = None   # for planted corpora, also of the test splits
    label: str | None = None     # what the tables call it; default: its name
    task: Literal["pairs", "titles", "answers", "authors", "files"] = "pairs"
    by: Literal["year", "category"] | None = None # what shifts the test titles of a real corpus
    until: int | None = None     # last year of training, where the shift is in time
    held_out: Names = () # categories kept for testing, where the shift is in category
    ticks: Count = 0 # steps in which the evaluation set `mix` lets the shifted titles in
    flip: Probability = 0.       # share of the training labels that are switched (answers)
    split: SplitConfig | None = None # of texts by authors; None for a planted corpus: no validation
    cleaned: tuple[Literal["quotes", "signatures"], ...] = () # what is taken out of texts by authors
    likeness: Probability = 0.   # of the test's topics across topics with those of training (planted authors)
    duplicates: Natural | None = None # so many duplicates instead of the file's pairs (questions) ...
    negatives: Natural | None = None  # ... and for each of them so many other texts at random
    files: FilesConfig | None = None # of a user

    @property
    def display(self) -> str: # the name in tables
        return self.label or self.name

    @property
    def drawn(self) -> World | SplitConfig | None: # its planted world, else its random split; both depend on a seed
        by_split = self.split if self.split and self.split.drawn else None
        return self.world or by_split

    def rules(self):
        world = self.world.name if self.world else None
        tasks = PLANTED_CORPORA.get(self.name, (self.task,))
        is_balanced = self.duplicates is not None
        is_real = world is None
        yield world != (self.name if self.name in PLANTED_CORPORA else None), (
            "`world` belongs to the planted corpora, whose name it bears")
        yield self.task not in tasks, f"task {self.task!r} does not fit"
        yield from self.owner_rules(TASK_SETTINGS, self.task)
        yield is_balanced != (self.negatives is not None), "`duplicates` and `negatives` go together"
        yield is_balanced and self.share < 1, "`duplicates` says how many, a `share` is for the file's pairs"
        yield (self.whole_groups or self.share_seed) and self.share == 1, "`whole_groups` and `share_seed` belong to a `share`"
        yield (self.task == "titles" and is_real) != (self.by is not None), "titles of a real corpus, and these alone, have `by`"
        yield (self.by == "year") != (self.until is not None), "a split by year, and it alone, has `until`"
        yield (self.by == "category") != bool(self.held_out), "a split by category, and it alone, has `held_out`"
        yield self.task == "authors" and is_real and not self.split, "texts by authors need a `split`"
        yield self.likeness and is_real, "`likeness` belongs to planted authors"
