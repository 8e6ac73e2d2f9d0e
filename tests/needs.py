"What tests want that not every machine has."
import os

import pytest


def lacks(need: str):
    "Skip a test for want of something. In CI it fails: nobody reads there what was skipped."
    say = pytest.fail if os.environ.get("CI") else pytest.skip
    say(need)
