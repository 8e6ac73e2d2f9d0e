"What holds for all tests."
import contextlib
import gc
import os
import sys

import pytest
from hypothesis import settings

# What runs with every Python and with the lowest versions, in an environment without a notebook stack: -m library.
LIBRARY = """
answers arr author_losses authorship compare_losses encoders explain_compare explain_diagnose explain_files interventions
itvreg metrics names own_cases qa ranking registry regularized retrieval scan scan_training small_numbers stats titles worlds
""".split()


def pytest_ignore_collect(collection_path, config):
    "With `-m library`, files of the companion are not even imported: they need packages that are not there."
    if config.option.markexpr.startswith("library") and collection_path.suffix == ".py":
        return collection_path.stem.removeprefix("test_") not in LIBRARY or None


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.stem.removeprefix("test_") in LIBRARY:
            item.add_marker("library")


if sys.version_info < (3, 11):
    @contextlib.contextmanager
    def chdir(folder):
        before = os.getcwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)

    contextlib.chdir = chdir


settings.register_profile("no deadline", deadline=None) # a busy machine is no failure
settings.load_profile("no deadline")

SET_ASIDE = [0] # modules loaded by then


@pytest.fixture(autouse=True)
def libraries_are_set_aside():
    """Every training begins with a collection of garbage, which would look through all that torch and transformers keep
    in memory: longer than a short training takes."""
    if len(sys.modules) > SET_ASIDE[-1] + 100:
        gc.collect()
        gc.freeze()
        SET_ASIDE.append(len(sys.modules))


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    "A folder with one encoder of each kind; nothing in it is ever changed."
    from made import bert, table
    folder = tmp_path_factory.mktemp("models")
    bert(folder)
    table(folder)
    return folder
