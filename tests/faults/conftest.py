"Trials of faults are counted by their kinds."
import importlib
from collections import Counter

import pytest

from harness import Tally


def pytest_addoption(parser):
    parser.addoption("--inputs", type=int, default=1000, help="random inputs to each reader")


@pytest.fixture
def tally(request):
    return Tally(request.node.user_properties)


@pytest.fixture(scope="session", autouse=True)
def libraries():
    "Processes that are forked have them, and need not load them again."
    from debias_nb.runs.runner import quiet, settle_libraries
    for name in ("repro.cli", "repro.pages.frame", "repro.pages.tables", "runs.tasks.pairs"):
        importlib.import_module(f"debias_nb.{name}")
    quiet()
    settle_libraries()


TRIED, SURVIVED = Counter(), Counter() # by kind, from all processes


def pytest_runtest_logreport(report):
    if report.when == "call":
        for kind, tried, survived in (value for name, value in report.user_properties if name == "fault"):
            TRIED[kind] += tried
            SURVIVED[kind] += survived


def pytest_terminal_summary(terminalreporter):
    if TRIED:
        terminalreporter.section("faults: tried, lost")
        for kind, tried in TRIED.items():
            terminalreporter.line(f"{kind:<34} {tried:>8,} {tried - SURVIVED[kind]:>5,}")
