"Libraries that all trials share."
import importlib

import pytest


@pytest.fixture(scope="session", autouse=True)
def libraries():
    "Processes that are forked have them, and need not load them again."
    from debias_nb.runs.runner import quiet, settle_libraries
    for name in ("repro.cli", "repro.pages.frame", "repro.pages.tables", "runs.tasks.pairs"):
        importlib.import_module(f"debias_nb.{name}")
    quiet()
    settle_libraries()
