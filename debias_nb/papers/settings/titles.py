"Settings of titles that lead to titles."
from typing import Annotated, Literal

from pydantic import Field

from ...files import Count, Names, Share
from ...runs.settings import CorpusConfig, HingeTraining, PairMethod, TaskSettings
from ...settings import WorldConfig


class TitlesCorpus(CorpusConfig):
    "Titles to retrieve titles for, and what shifts those of the tests."
    planted = "catalogue"
    task: Literal["titles"]
    world: WorldConfig | None = None
    share: Share = 1.            # share of the training pairs used
    holdout: Annotated[float, Field(ge=0, lt=1)] = 0. # share of training titles held out, as evaluation set `heldout`
    by: Literal["year", "category"] | None = None # what shifts the test titles of a real corpus
    until: int | None = None     # last year of training, where the shift is in time
    held_out: Names = ()         # categories kept for testing, where the shift is in category
    ticks: Count = 0             # steps in which the evaluation set `mix` lets the shifted titles in

    def rules(self):
        yield from super().rules()
        yield (self.world is None) != (self.by is not None), "titles of a real corpus, and these alone, have `by`"
        yield (self.by == "year") != (self.until is not None), "a split by year, and it alone, has `until`"
        yield (self.by == "category") != bool(self.held_out), "a split by category, and it alone, has `held_out`"


SETTINGS = TaskSettings(TitlesCorpus, PairMethod, HingeTraining, "debias_nb.papers.tasks.titles")
