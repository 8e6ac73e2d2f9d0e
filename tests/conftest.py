"What holds for all tests."
import gc
import sys

import pytest
from hypothesis import settings

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
