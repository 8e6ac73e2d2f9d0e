"""Change the methods, metrics and statistics one place at a time, and say which changes no test notices: `make mutants`.

python tools/mutants.py                      25 places of each module, drawn with seed 0
python tools/mutants.py arr --places 200     more places of one module
python tools/mutants.py --write              also write reports/MUTANTS.md

Places are drawn at random, and at each place one of the changes that are likely mistakes. Changes and runs are cosmic-ray's (extra `mutants`); it works on a
copy of what is committed, and stops at the first test that fails. What survives is listed as a difference of two lines.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "reports" / "MUTANTS.md"
SECONDS = 120  # of a processor, for the tests of one change; one that takes longer runs for ever, which is noticed
LONGEST = 3600 # by the clock, where the machine has other work

# The tests of each module, the quickest first.
TESTS = {
    "itvreg": ("itvreg", "training"),
    "interventions": ("itvreg", "training"),
    "arr": ("arr", "author_losses"),
    "scan": ("scan", "scan_training"),
    "metrics": ("metrics", "ranking"),
    "retrieval": ("retrieval", "ranking"),
    "stats": ("stats", "verdicts"),
}

# Changes that somebody might make by mistake; the others (a sum turned into a shift of bits) end in an error at once.
ARITHMETIC = {"Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul", "FloorDiv_Div", "Mod_Mul"}
OTHERS = (
    "core/ReplaceComparisonOperator", "core/NumberReplacer", "core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue",
    "core/ReplaceAndWithOr", "core/ReplaceOrWithAnd", "core/ReplaceUnaryOperator", "core/AddNot", "core/ZeroIterationForLoop",
    "core/ReplaceBreakWithContinue", "core/ReplaceContinueWithBreak",
)


def is_likely(operator: str) -> bool:
    "Whether a change is one that somebody might make by mistake."
    if operator.startswith("core/ReplaceBinaryOperator_"):
        return operator.removeprefix("core/ReplaceBinaryOperator_") in ARITHMETIC
    return operator.startswith(OTHERS)


def drawn(items: list, places: int, seed: int) -> list:
    "One change at each of so many places."
    by_place = {}
    for item in items:
        mutation = item.mutations[0]
        if is_likely(mutation.operator_name):
            by_place.setdefault(mutation.start_pos, []).append(item)
    draw = random.Random(seed)
    chosen = draw.sample(sorted(by_place), min(places, len(by_place)))
    return [draw.choice(by_place[place]) for place in chosen]


def copy_of_commit(folder: Path) -> Path:
    "What is committed, in a folder of its own."
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(folder)], check=True)
    return folder


def settings(module: str) -> str:
    "What cosmic-ray is told of a module."
    files = " ".join(f"tests/test_{name}.py" for name in TESTS[module])
    tests = f"{sys.executable} -m pytest -x -q -p no:cacheprovider {files}"
    return f"""[cosmic-ray]
module-path = "debias_nb/{module}.py"
timeout = {LONGEST}.0
excluded-modules = []
test-command = "bash -c 'ulimit -t {SECONDS}; exec {tests}'"
[cosmic-ray.distributor]
name = "local"
"""


def tried(module: str, checkout: Path, places: int, seed: int) -> list[tuple[bool, str]]: # whether noticed, and the change
    "Make the changes of a module, and run its tests on each."
    config = checkout.parent / "cosmic-ray.toml"
    session = checkout.parent / f"{module.replace('/', '-')}.sqlite"
    config.write_text(settings(module), "utf-8")
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}

    def cosmic_ray(*arguments):
        command = [str(Path(sys.executable).with_name("cosmic-ray")), *arguments]
        subprocess.run(command, cwd=checkout, env=environment, check=True, stdout=subprocess.DEVNULL)

    cosmic_ray("baseline", str(config))
    cosmic_ray("init", str(config), str(session))
    with use_db(session, WorkDB.Mode.open) as work:
        chosen = drawn(list(work.work_items), places, seed)
        work.clear()
        work.add_work_items(chosen)
    cosmic_ray("exec", str(config), str(session))
    with use_db(session, WorkDB.Mode.open) as work:
        found = []
        for _, result in work.completed_work_items:
            found.append((result.test_outcome != TestOutcome.SURVIVED, change(result.diff)))
    return found


def change(diff: str) -> str:
    "The lines that a change takes away and puts in place."
    lines = diff.splitlines()
    changed = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return "\n".join(line[0] + " " + line[1:].strip() for line in changed)


def page(found: dict[str, list], places: int, seed: int) -> str:
    "The table, and what survived."
    rows = ["| module | changes | noticed | share |", "|---|---:|---:|---:|"]
    survivors = []
    for module, changes in found.items():
        noticed = sum(is_noticed for is_noticed, _ in changes)
        rows.append(f"| `{module}` | {len(changes)} | {noticed} | {noticed / len(changes):.0%} |")
        for is_noticed, text in changes:
            if not is_noticed:
                survivors.append(f"`{module}`\n\n```diff\n{text}\n```\n")
    every = [is_noticed for changes in found.values() for is_noticed, _ in changes]
    rows.append(f"| all | {len(every)} | {sum(every)} | {sum(every) / len(every):.0%} |")
    head = f"""# Changes that tests notice

`make mutants` changes one place of a module at a time as a mistake would (`+` for `-`, `<` for `<=`, 2 for 1), and runs the tests of that module.
At most {places} places of each were drawn with seed {seed}; the tests are those that `tools/mutants.py` names. Notebooks, which test much of this too, did not run.
"""
    return "\n".join([head, *rows, "", "## What no test noticed", "", *survivors]).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"of {', '.join(TESTS)}; without any: all")
    parser.add_argument("--places", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help=f"also write {PAGE.relative_to(ROOT)}")
    given = parser.parse_args()
    unknown = [name for name in given.modules if name not in TESTS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(TESTS)}")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        checkout = copy_of_commit(Path(folder) / "checkout")
        for module in given.modules or TESTS:
            found[module] = tried(module, checkout, given.places, given.seed)
            print(f"{module}: {sum(is_noticed for is_noticed, _ in found[module])} of {len(found[module])} noticed", flush=True)
    text = page(found, given.places, given.seed)
    print(text)
    if given.write:
        PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
