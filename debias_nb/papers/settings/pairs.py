"Settings of labeled pairs: duplicate questions, offers of one product, planted products."
from typing import Annotated, Literal

from pydantic import Field

from ...files import Count, Natural, Share, Strict
from ...runs.settings import CorpusConfig, PairMethod, TaskSettings
from ...settings import WorldConfig


class PairsCorpus(CorpusConfig):
    "Labeled pairs of texts to train on."
    planted = "catalogue"
    task: Literal["pairs"] = "pairs"
    world: WorldConfig | None = None
    share: Share = 1.            # share of the training pairs used
    share_seed: Count = 0        # draws them: one for all training seeds, unless a block redraws
    whole_groups: bool = False   # whether what shares texts is drawn together (questions and news)
    # share of training questions held out, as evaluation set `heldout`
    holdout: Annotated[float, Field(ge=0, lt=1)] = 0.
    duplicates: Natural | None = None # so many duplicates instead of the file's pairs (questions) ...
    negatives: Natural | None = None  # ... and for each of them so many other texts at random

    def rules(self):
        yield from super().rules()
        is_balanced = self.duplicates is not None
        yield is_balanced != (self.negatives is not None), "`duplicates` and `negatives` go together"
        yield is_balanced and self.share < 1, "`duplicates` says how many, a `share` is for the file's pairs"
        yield ((self.whole_groups or self.share_seed) and self.share == 1,
               "`whole_groups` and `share_seed` belong to a `share`")


class ReplayConfig(Strict):
    "General pairs among the batches of a run."
    corpus: str                  # whose relevant pairs they are
    share: float                 # of all batches


class PairsMethod(PairMethod):
    "Method of pairs; one with `replay` is not run any more, and its records stay."
    of_training = (*PairMethod.of_training, "replay")
    replay: ReplayConfig | None = None

    @property
    def is_closed(self) -> bool:
        return self.replay is not None


SETTINGS = TaskSettings(PairsCorpus, PairsMethod, module="debias_nb.papers.tasks.pairs")
