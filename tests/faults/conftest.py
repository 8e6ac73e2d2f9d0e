"Trials of faults are counted, and `--write` makes the page of their counts."
import importlib
import platform

import pytest

from harness import KINDS, ROOT, Tally

PAGE = ROOT / "reports" / "RELIABILITY.md"


def pytest_addoption(parser):
    parser.addoption("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)} from the counts of this run")
    parser.addoption("--inputs", type=int, help="random inputs to each reader: 1,000, and 10,000 with --write")


@pytest.fixture
def tally(request):
    return Tally(request.node.user_properties)


@pytest.fixture(scope="session", autouse=True)
def libraries():
    "Processes that are forked have them, and need not load them again."
    from debias_nb.repro.runs.runner import quiet, settle_libraries
    for name in ("cli", "pages.frame", "pages.tables", "runs.tasks.pairs"):
        importlib.import_module(f"debias_nb.repro.{name}")
    quiet()
    settle_libraries()


# the page

FOUND = [] # (kind, tried, survived, what is told of it) of every trial, from all processes
LEFT_OUT = [] # (test, why)


def pytest_runtest_logreport(report):
    if report.when == "call" and not report.skipped:
        FOUND.extend(value for name, value in report.user_properties if name == "fault")
    if report.skipped or report.failed and report.when != "call": # a trial that was not made is not counted
        why = report.longrepr[-1] if isinstance(report.longrepr, tuple) else "an error before or after"
        LEFT_OUT.append((report.nodeid, why))


def counted() -> dict[str, list[int]]: # kind -> tried, survived
    counts = {}
    for kind, tried, survived, _ in FOUND:
        known = counts.setdefault(kind, [0, 0])
        known[0] += tried
        known[1] += survived
    return counts


def pytest_terminal_summary(terminalreporter, config):
    counts = counted()
    if not counts:
        return
    terminalreporter.section("faults: tried, survived, lost")
    for kind in KINDS:
        if kind in counts:
            tried, survived = counts[kind]
            terminalreporter.line(f"{kind:<34} {tried:>8,} {survived:>8,} {tried - survived:>5,}")
    if config.getoption("--write"):
        terminalreporter.line(written(counts))


def written(counts) -> str: # what became of it
    "Writes the page, where every kind was tried."
    lacking = [kind for kind in KINDS if kind not in counts]
    if lacking or LEFT_OUT:
        without = lacking or [f"{test}: {why}" for test, why in LEFT_OUT]
        return f"{PAGE.relative_to(ROOT)} is not written: not tried were {'; '.join(without)}"
    PAGE.write_text(page(counts), "utf-8")
    return f"written: {PAGE.relative_to(ROOT)}"


HEAD = """# Reliability

What becomes of records when a run is stopped, a disk is full, a file is damaged or a download goes wrong. The trials are in `tests/faults/`; `make test-faults` makes them again, and `make test-faults WRITE=1` writes this page from what came out.
"""

NOT_TRIED = """## What was not tried

- Power that fails: what a disk has acknowledged and not written, or written in another order.
- File systems of a network, and other systems than Linux. Disks without room are small file systems in memory; folders are made read-only by mounting them so, which holds for root too.
- A clock that is set: it was replaced inside the process, and times of change of files were set back.
- A GPU, trainings of hours, and batches of more than a few runs: the batches that are stopped have a toy world and a static table.
- Memory that is used up by the whole machine: one worker was killed, as a system does then.
- Weights that are altered at the hub under their commit. What comes from the hub is pinned by the commit, not by hashes of the files; its fingerprint is in each record. Files at hand and downloaded data are checked against hashes.
- Random inputs that are large: each is a small valid file or text with a few random edits, so that most of a reader is reached.
- Damage to what a page is made of beyond records, configurations, printed cells and claims: an error in the code of a notebook keeps its traceback.
"""


def page(counts) -> str:
    "The page, from the counts and the notes of the trials."
    rows = ["| what was done | what it means to survive it | tried | survived | lost |", "|---|---|---:|---:|---:|"]
    for kind, meaning in KINDS.items():
        tried, survived = counts[kind]
        rows.append(f"| {kind} | {meaning} | {tried:,} | {survived:,} | {tried - survived:,} |")
    return "\n".join([HEAD, *rows, "", how(), where(), NOT_TRIED])


def ranges(numbers) -> str: # "0-19 and 100-119"
    numbers = sorted(set(numbers))
    parts, first = [], 0
    for i, number in enumerate(numbers):
        if i + 1 == len(numbers) or numbers[i + 1] != number + 1:
            parts.append(str(number) if i == first else f"{numbers[first]}-{number}")
            first = i + 1
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def how() -> str:
    "Seeds, moments and readers."
    stops = [told for _, _, _, told in FOUND if "steps" in told]
    seeds = [told["seed"] for told in stops]
    shares = [told["steps"] / told["all_steps"] for told in stops]
    early = sum(share < 1 / 3 for share in shares)
    late = sum(share >= 2 / 3 for share in shares)
    begun = sum(told["steps"] > 0 for told in stops)
    unfinished = sum(told["records"] < told["all_records"] for told in stops)
    inputs = {told["reader"]: tried for kind, tried, _, told in FOUND if kind == "random inputs"}
    each = " or ".join(f"{count:,}" for count in sorted(set(inputs.values())))
    return f"""## How

Moments were drawn between the first training step and the last record of a batch that nobody stopped, with the seeds {ranges(seeds)}; each was counted in training steps and records, and from the last of them in seconds. Of {len(stops)} batches that were stopped, {begun} had taken a training step and {unfinished} lacked a record. {early} had taken less than a third of all steps, {late} two thirds or more, {len(stops) - early - late} were between.

Random inputs are edits of valid ones by a generator that is seeded with the reader's name and the input's number: {each} for each of {len(inputs)} readers and parsers: {"; ".join(sorted(inputs))}.
"""


def where() -> str:
    from debias_nb.repro.runs.records import processor
    return f"""## Where

{processor()}, {platform.system()} {platform.machine()}, Python {platform.python_version()}.
"""
