"What holds for all tests."
import gc
import sys

import pytest

SET_ASIDE = [0] # modules loaded by then


@pytest.fixture(autouse=True)
def libraries_are_set_aside():
    """Every training begins with a collection of garbage, which would look through all that torch and transformers keep
    in memory: longer than a short training takes."""
    if len(sys.modules) > SET_ASIDE[-1] + 100:
        gc.collect()
        gc.freeze()
        SET_ASIDE.append(len(sys.modules))
