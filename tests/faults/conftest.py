"What all trials share: libraries, and that nothing of a trial is left."
import importlib
import os
import threading

import pytest
from tqdm import tqdm

from harness import AFTER_A_TEST

tqdm.set_lock(threading.RLock()) # the first: all kinds of bars take it from here
# By default a lock for all forks: one that is killed while it has it would stop the others, which users' processes do
# not share.
os.register_at_fork(after_in_child=lambda: tqdm.set_lock(threading.RLock()))


@pytest.fixture(scope="session", autouse=True)
def libraries():
    "Processes that are forked have them, and need not load them again."
    from debias_nb.runs.runner import quiet_libraries, settle_libraries
    for name in ("commands.cli", "papers.pages.frame", "papers.pages.tables", "papers.tasks.pairs"):
        importlib.import_module(f"debias_nb.{name}")
    quiet_libraries()
    settle_libraries()


@pytest.fixture(autouse=True)
def nothing_left():
    "Processes that a test has not waited for are ended with it."
    yield
    AFTER_A_TEST.close()
