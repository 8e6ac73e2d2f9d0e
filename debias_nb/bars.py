"Bars on standard error: where it is a terminal, or where they are asked for."
import sys

from tqdm.auto import tqdm

PATIENCE = 2 # seconds before a bar is written to what is no terminal, such as the log of a build


def is_bar_shown(progress: bool | None) -> bool: # None: where standard error is a terminal
    "Decide whether bars are shown."
    return sys.stderr.isatty() if progress is None else progress


def with_bar(items, title: str, progress: bool) -> tqdm: # title: the name of the bar
    "Show how many of some items are done, and estimate the time that is left, while they are gone through."
    delay = 0 if sys.stderr.isatty() else PATIENCE
    return tqdm(items, title, disable=not progress, leave=False, delay=delay)
