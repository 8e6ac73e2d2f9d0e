"Settings of a user's files as a corpus of runs."
from typing import Literal

from ..files import Count, Names, Share, Strict
from ..runs.settings import CorpusConfig, TaskSettings


class FilesConfig(Strict):
    "Inputs of a run on a user's files, each by a digest of its contents, so that a file may be moved."
    train: str                   # rows, as read
    tests: Names                 # rows of each evaluation set, and its measures
    matches: bool = False        # whether training has matches alone, none of them a negative of another
    texts: str | None = None     # unlabeled ones
    own: str | None = None       # the module with a loss or a regularizer of the user's own
    packages: Names = ()         # with their versions


class FilesCorpus(CorpusConfig):
    "A user's files to train and test on."
    task: Literal["files"]
    files: FilesConfig
    share: Share = 1.            # share of the training pairs used
    share_seed: Count = 0        # draws them


SETTINGS = TaskSettings(FilesCorpus)
