"""Change the library in one place at a time, and print the changes that no quick test and no notebook notices.

python tools/mutants.py [--count 100] [--seed 7] [--least 0.95]     `make mutants` measures first which test runs what

Of losses, measures, decisions and rules of pages a place is drawn, then one of the changes that cosmic-ray has for it.
In a copy of the project the tests that run this line meet it, then the module's notebook. What fails must pass without
the change, or does not count. Lines of tools/equivalent.txt are not drawn: no result depends on what they would become.
Fails where fewer are noticed than `--least`.
"""
import argparse
import ast
import difflib
import importlib
import importlib.util
import multiprocessing
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path

from leaves import copy_of, share_encoders
from notebooks import ROOT

CHANGED = ("losses/*.py", "measures/*.py", "diagnosis/changes.py", "diagnosis/decision.py", "papers/pages/*.py")
NO_RULES = {"__init__", "plots", "pictures", "reading", "style"} # modules that draw, or name styles
OPERATORS = re.compile(r"""core/(AddNot|NumberReplacer|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|
    ReplaceOrWithAnd|ReplaceBreakWithContinue|ReplaceContinueWithBreak|ExceptionReplacer|ZeroIterationForLoop|
    ReplaceUnaryOperator_Delete_\w+|ReplaceComparisonOperator_(Is_IsNot|IsNot_Is|(?!Is)\w+?_(?!Is)\w+)|
    ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Mul|Mod_Mul|Pow_Mul|BitAnd_BitOr|BitOr_BitAnd))""",
                       re.VERBOSE)
PATIENCE = 120 # seconds of a test, and of a notebook thrice as many: one that takes longer never ends
FORK = multiprocessing.get_context("fork") # the libraries are loaded once, here
OPTIONS = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov",
           "-o", f"faulthandler_timeout={PATIENCE}", "-o", "faulthandler_exit_on_timeout=true"]


# What is changed

def code_of(source: str) -> str:
    "Return what a module does: its syntax tree without annotations."
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for name in {"annotation", "returns"} & {*node._fields}:
            setattr(node, name, None)
    return ast.dump(tree)


def changes_of(path: Path) -> dict[tuple[int, int], list]: # line and column -> operators, each with its occurrence
    "List the places of a module that can be changed."
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names
    tree = get_ast(path.read_text("utf-8"))
    places = {}
    for name in filter(OPERATORS.fullmatch, operator_names()):
        operator = get_operator(name)()
        starts = (start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node))
        for occurrence, start in enumerate(starts):
            places.setdefault(start, []).append((operator, occurrence))
    return places


def lines_changed(before: str, after: str) -> list[str]:
    "Return the lines that differ, with a sign."
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if re.match(r"[+-](?![+-]{2} ?$)", line)]


def drawn(rng: random.Random): # yields a module, a line, what the module becomes, and how that differs
    "Draw places, and a change for each."
    from cosmic_ray.mutating import mutate_code
    equivalent = set((ROOT / "tools/equivalent.txt").read_text("utf-8").splitlines())
    modules = sorted(path for pattern in CHANGED for path in (ROOT / "debias_nb").glob(pattern)
                     if path.stem not in NO_RULES)
    places = [(path, line, changes) for path in modules for (line, _), changes in changes_of(path).items()]
    for path, line, changes in rng.sample(places, len(places)):
        operator, occurrence = rng.choice(changes)
        before = path.read_text("utf-8")
        after = mutate_code(before, operator, occurrence)
        lines = lines_changed(before, after)
        is_known = "TYPE_CHECKING" in lines[-1] or f"{path.stem}: {lines[-1]}" in equivalent
        if code_of(after) != code_of(before) and not is_known:
            yield path, line, after, lines


# What meets it

@cache
def contexts_of(path: Path) -> dict[int, set[str]]: # line -> the tests that run it
    "Read what pytest-cov has measured of a module of the project."
    from coverage import CoverageData
    data = CoverageData(ROOT / ".coverage")
    data.read()
    [measured] = [file for file in data.measured_files() if file.endswith(f"/{path.relative_to(ROOT)}")]
    return {line: {context.rpartition("|")[0] for context in contexts}
            for line, contexts in data.contexts_by_lineno(measured).items()}


def tests_of(path: Path, line: int) -> list[set[str]]:
    """Return the tests that run a line, or the last one above it that any runs; of what runs at import, all.

    Those of the file that has most of them stand apart: where one fails, no other file is imported."""
    contexts = contexts_of(path)
    found = contexts.get(max((other for other in contexts if other <= line), default=None), set())
    tests = (found if any(found) else set().union(*contexts.values())) - {""}
    files = Counter(name.partition("::")[0] for name in tests)
    nearest = {name for name in tests if name.startswith(f"{max(files, key=files.get)}::")} if files else set()
    return [nearest, tests - nearest]


def notebook_of(path: Path) -> str | None: # relative to the project
    "Return the notebook that a module is exported from."
    found = re.search(r"^# AUTOGENERATED! DO NOT EDIT! File to edit: (.*)\.$", path.read_text("utf-8"), re.MULTILINE)
    return found and str((path.parent / found[1]).resolve().relative_to(ROOT))


class Chosen:
    "A plugin of pytest that runs some tests alone, and tells which is at work."
    def __init__(self, names, sender):
        self.names = names
        self.sender = sender

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if item.nodeid in self.names]

    def pytest_runtest_logstart(self, nodeid, location):
        self.sender.send(nodeid)

    def pytest_collectreport(self, report):
        if report.failed:
            self.sender.send(report.nodeid)


def attempt(names: set[str], path: Path, sender) -> None: # in a process of its own
    "Run a notebook, or tests; the exit code says whether all passed."
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    [first, *_] = names
    if first.endswith(".ipynb"):
        import outputs
        sender.send(first)
        signal.alarm(3 * PATIENCE)
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        _, shown, _, _ = outputs.run(ROOT / first, vars(importlib.import_module(module)))
        os._exit(shown is None)
    import pytest
    files = {name.partition("::")[0] for name in names}
    code = pytest.main([*OPTIONS, *sorted(files)], plugins=[Chosen(names, sender)])
    os._exit(code != pytest.ExitCode.NO_TESTS_COLLECTED and code)


def first_failure(names: set[str], path: Path) -> str | None: # names: of a notebook, or of tests
    "Return the test that fails first, or the notebook; None where all pass."
    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=attempt, args=(names, path, sender))
    process.start()
    sender.close()
    last = min(names) # where none begins
    with suppress(EOFError):
        while True:
            last = receiver.recv()
    process.join()
    return last if process.exitcode else None


def write(path: Path, source: str) -> None:
    "Write a module. Python would take the compiled one of as many bytes in the same second."
    path.write_text(source, "utf-8")
    Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)


def noticed_by(path: Path, line: int, after: str, unfit: set[str]) -> str | None: # unfit: fails without a change
    "Return the test or the notebook that fails where a module is changed, and passes where it is not."
    before = path.read_text("utf-8")
    for names in (*tests_of(path, line), {notebook_of(path)} - {None}):
        while kept := names - unfit:
            write(path, after)
            failed = first_failure(kept, path)
            write(path, before)
            if failed is None:
                break
            if first_failure({failed}, path) is None:
                return failed
            print(f"fails without a change, too: {failed}", flush=True)
            unfit.add(failed)
    return None


def load_libraries() -> None:
    "Import what all tests need besides the library, so that the processes that are forked from this one need not."
    import datasets, execnb.shell, hypothesis, nbdev.process, pytest # noqa: E401, F401
    import scipy.stats, sentence_transformers, sklearn.metrics, transformers # noqa: E401, F401


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="changes to try")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="of what is drawn; default: new")
    parser.add_argument("--least", type=float, default=.95, help="share that must be noticed")
    parser.add_argument("--here", action="store_true", help="change this very copy")
    args = parser.parse_args()
    if not args.here:
        with tempfile.TemporaryDirectory() as folder:
            copy_of(ROOT, Path(folder))
            share_encoders(ROOT, Path(folder))
            shutil.copy(ROOT / ".coverage", folder)
            options = [f"--count={args.count}", f"--seed={args.seed}", f"--least={args.least}", "--here"]
            return subprocess.run([sys.executable, Path(folder) / "tools/mutants.py", *options], cwd=folder,
                                  env=os.environ | {"PYTHONPATH": folder}).returncode
    load_libraries()
    unfit, survivors = set(), 0
    for number, (path, line, after, lines) in enumerate(drawn(random.Random(args.seed)), 1):
        killer = noticed_by(path, line, after, unfit)
        survivors += killer is None
        print(f"{number} {path.relative_to(ROOT)}: {killer or 'SURVIVED'}", *lines, sep="\n    ", flush=True)
        if number == args.count:
            break
    print(f"seed {args.seed}: {number - survivors} of {number} noticed, {survivors} survived")
    return number - survivors < args.least * number


if __name__ == "__main__":
    sys.exit(main())
