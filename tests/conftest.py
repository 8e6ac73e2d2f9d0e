"What holds for all tests."
import gc
import subprocess
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


HEAVY = """
import sys, {modules}

heavy = ("torch", "pandas", "scipy", "matplotlib", "transformers")
print([module for module in heavy if module in sys.modules])
"""


@pytest.fixture
def heavy_after():
    "Which heavy packages a process of its own has loaded once it has imported some modules, as Python prints a list."
    def printed(*modules):
        program = HEAVY.format(modules=", ".join(modules))
        told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return told.stdout.strip()
    return printed
