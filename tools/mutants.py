"""Change methods, metrics and statistics one place at a time, and say which changes no test notices: `make mutants`.

python tools/mutants.py                      30 places of each module, drawn with seed 0
python tools/mutants.py arr --places 200     more places of one module
python tools/mutants.py --again              after writing tests: what was noticed before counts as noticed
python tools/mutants.py --write              also write reports/MUTANTS.md

Places are drawn at random, and at each place one of the changes that are likely mistakes. cosmic-ray (extra `mutants`)
makes them in a copy of what is committed. The tests of each run in a process of its own, until one fails: forked from
a process that has imported what is slow to import, but nothing of the library. What survives is listed as a difference
of two lines. A change that makes no difference has its reason in tools/mutants.yaml.
"""
import argparse
import compileall
import gc
import hashlib
import importlib
import os
import py_compile
import random
import resource
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "reports" / "MUTANTS.md"
REASONS = ROOT / "tools" / "mutants.yaml"
NOTICED = ROOT / ".cache" / "mutants.txt" # hashes of changed modules that a test has noticed
SECONDS = 120  # of a processor, for the tests of one change; one that takes longer runs for ever, which is noticed
LONGEST = 3600 # by the clock, where the machine has other work

# The tests of each module, the quickest first.
TESTS = {
    "itvreg": ("itvreg",),
    "interventions": ("interventions",),
    "arr": ("arr",),
    "scan": ("scan",),
    "metrics": ("metrics", "ranking"),
    "data/retrieval": ("retrieval", "ranking"),
    "stats": ("stats",),
}

# Tests that take seconds and ask of these modules nothing that quicker ones do not ask.
SLOW = (
    "test_memory_and_time_of_ten_thousand_pairs", "test_memory_is_bounded", "test_every_text_of_an_author_is_as_likely",
    "test_learning_lowers_the_loss_on_fresh_functions_and_repeats", "test_the_student_learns_the_shrunken_teacher",
)

# What is slow to import, and imports nothing of the library.
WARM = (
    "hypothesis", "pandas", "pydantic", "pytest", "scipy.stats", "sentence_transformers", "sklearn.metrics", "torch",
    "transformers",
)

# Changes that somebody might make by mistake; others (a sum turned into a shift of bits) end in an error at once.
ARITHMETIC = {"Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul", "FloorDiv_Div", "Mod_Mul"}
OTHERS = (
    "core/ReplaceComparisonOperator", "core/NumberReplacer", "core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue",
    "core/ReplaceAndWithOr", "core/ReplaceOrWithAnd", "core/ReplaceUnaryOperator", "core/AddNot",
    "core/ZeroIterationForLoop", "core/ReplaceBreakWithContinue", "core/ReplaceContinueWithBreak",
)


@dataclass
class Change:
    "One change of a module, and what became of it."
    line: str     # as it was
    becomes: str
    noticed: bool # whether a test failed
    why: str = "" # why none has to


def is_likely(operator: str) -> bool:
    "Whether a change is one that somebody might make by mistake."
    if operator.startswith("core/ReplaceBinaryOperator_"):
        return operator.removeprefix("core/ReplaceBinaryOperator_") in ARITHMETIC
    return operator.startswith(OTHERS)


def is_read_only(leaf) -> bool: # of a syntax tree of parso
    "Whether a place belongs to a message or a type, which readers see and no result depends on."
    node = leaf
    while node.parent is not None:
        parent = node.parent
        if parent.type in ("fstring", "raise_stmt", "tfpdef"): # the last: a parameter's name and type
            return True
        if parent.type == "annassign" and node is parent.children[1]:
            return True
        if parent.type == "funcdef" and node is parent.annotation:
            return True
        if parent.get_code(include_prefix=False).startswith("warnings.warn("):
            return True
        node = parent
    return False


def changes_of(module: Path) -> dict[tuple, list[tuple[str, int]]]:
    "By place, line and column: what may be done there, an operator and which of its occurrences in the module it is."
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.plugins import get_operator, operator_names
    tree = get_ast_from_path(module)
    nodes = list(ast_nodes(tree))
    by_place = {}
    for name in filter(is_likely, operator_names()):
        operator = get_operator(name)()
        places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, place in enumerate(places):
            by_place.setdefault(place, []).append((name, occurrence))
    read_only = [place for place in by_place if is_read_only(tree.get_leaf_for_position(place))]
    for place in read_only:
        del by_place[place]
    return by_place


def drawn(module: Path, places: int, seed: int) -> list[tuple[str, int]]:
    "One change at each of so many places."
    by_place = changes_of(module)
    draw = random.Random(seed)
    chosen = draw.sample(sorted(by_place), min(places, len(by_place)))
    return [draw.choice(by_place[place]) for place in chosen]


def copy_of_commit(folder: Path) -> Path:
    "What is committed, in a folder of its own, compiled so that Python looks at a file's text and not at its time."
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(folder)], check=True)
    by_text = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(folder / "debias_nb", quiet=1, invalidation_mode=by_text)
    return folder


def warm_up() -> None:
    "Import what is slow, and let no collection of garbage in a forked process look through it."
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in WARM:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def has_failure(module: str) -> bool:
    "Whether a test of a module fails, in a process forked here."
    import pytest
    files = [f"tests/test_{name}.py" for name in TESTS[module]]
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        signal.alarm(LONGEST)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        outcome = 1
        try:
            outcome = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-k", f"not ({' or '.join(SLOW)})", *files])
        finally:
            os._exit(outcome)
    _, status = os.waitpid(child, 0)
    return status != 0


def tried(
    name: str,
    places: int,
    seed: int,
    noticed: set[str], # hashes of the changed modules that a test notices, kept up to date here
    again: bool,       # whether these are believed
) -> list[Change]:
    "Change a module of the checkout that one is in, and run its tests on each change."
    from cosmic_ray.mutating import use_mutation
    from cosmic_ray.plugins import get_operator
    if has_failure(name):
        raise SystemExit(f"{name}: a test fails before anything is changed")
    found = []
    module = Path("debias_nb") / f"{name}.py"
    for operator, occurrence in drawn(module, places, seed):
        with use_mutation(module, get_operator(operator)(), occurrence) as (before, after):
            changed = hashlib.sha256(after.encode()).hexdigest()
            if not (again and changed in noticed):
                noticed.discard(changed)
                if has_failure(name):
                    noticed.add(changed)
            line, becomes = difference(before, after)
            found.append(Change(line, becomes, changed in noticed))
    return found


def difference(before: str, after: str) -> tuple[str, str]:
    "The line that a change takes away, and the one that it puts in place."
    pairs = zip(before.splitlines(), after.splitlines(), strict=True)
    for line, becomes in pairs:
        if line != becomes:
            return line.strip(), becomes.strip()
    raise ValueError("nothing was changed")


def lines_of(name: str) -> set[str]:
    "The lines of a module, without their indentation."
    text = (ROOT / "debias_nb" / f"{name}.py").read_text("utf-8")
    return {line.strip() for line in text.splitlines()}


def reasons(path: Path = REASONS) -> dict[str, list[dict]]: # module -> `line`, what it `becomes`, and `why`
    "Why no test has to notice some changes. Refuses a reason for a line that is no more."
    known = yaml.safe_load(path.read_text("utf-8")) or {}
    for name, entries in known.items():
        lines = lines_of(name)
        for entry in entries:
            if entry["line"] not in lines:
                raise SystemExit(f"{path.name}: {name} has no line {entry['line']!r}")
    return known


def explain(changes: list[Change], entries: list[dict]) -> None:
    "Give each change its reason. Refuses a reason for what a test notices."
    why = {(entry["line"], entry["becomes"]): entry["why"] for entry in entries}
    for change in changes:
        change.why = why.get((change.line, change.becomes), "")
        if change.why and change.noticed:
            raise SystemExit(f"{REASONS.name}: a test notices {change.becomes!r}, which needs no reason")


def row(name: str, changes: list[Change]) -> str:
    "A line of the table."
    killed = sum(change.noticed for change in changes)
    explained = sum(bool(change.why) for change in changes)
    viable = len(changes) - explained
    share = f"{killed / viable:.0%}" if viable else ""
    return f"| {name} | {len(changes)} | {killed} | {explained} | {viable - killed} | {share} |"


def page(found: dict[str, list[Change]], places: int, seed: int) -> str:
    "The table, and what survived."
    rows = [row(f"`{name}`", changes) for name, changes in found.items()]
    rows.append(row("all", [change for changes in found.values() for change in changes]))
    explained = []
    open_ones = []
    for name, changes in found.items():
        for change in changes:
            text = f"`{name}`\n\n```diff\n- {change.line}\n+ {change.becomes}\n```\n"
            if change.why:
                explained.append(f"{text}\n{change.why}\n")
            elif not change.noticed:
                open_ones.append(text)
    parts = [
        "# Changes that tests notice",
        f"""
`make mutants` changes one place of a module at a time as a mistake would (`+` for `-`, `<` for `<=`, 2 for 1), and runs
the tests of that module. At most {places} places of each were drawn with seed {seed}, none in messages or types.
The tests are those that `tools/mutants.py` names; notebooks, which test much of this too, did not run.
The share is of the changes that make a difference: those explained do not.
Most of what survived a first time got a test or a reason since; how many changes of other places are noticed, another `--seed` says.
""",
        "| module | places tried | killed | survived and explained | survived and not explained | share killed |",
        "|---|---:|---:|---:|---:|---:|",
        *rows,
        "\n## Survived and explained\n", *(explained or ["None.\n"]),
        "## Survived and not explained\n", *(open_ones or ["None.\n"]),
    ]
    return "\n".join(parts).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"of {', '.join(TESTS)}; without any: all")
    parser.add_argument("--places", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="what was noticed before counts as noticed")
    parser.add_argument("--write", action="store_true", help=f"also write {PAGE.relative_to(ROOT)}")
    given = parser.parse_args()
    unknown = [name for name in given.modules if name not in TESTS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(TESTS)}")
    known = reasons()
    warm_up()
    noticed = set()
    if NOTICED.exists():
        noticed.update(NOTICED.read_text("utf-8").split())
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        checkout = copy_of_commit(Path(folder) / "checkout")
        os.chdir(checkout)
        sys.path.insert(0, str(checkout))
        for name in given.modules or TESTS:
            found[name] = tried(name, given.places, given.seed, noticed, given.again)
            NOTICED.parent.mkdir(exist_ok=True)
            NOTICED.write_text("\n".join(sorted(noticed)) + "\n", "utf-8")
            explain(found[name], known.get(name, []))
            print(row(name, found[name]), flush=True)
        os.chdir(ROOT)
    text = page(found, given.places, given.seed)
    print(text)
    if given.write:
        PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
