"Commands for a maintainer of records: device-batch, merge, publish, convert."
import os
from collections import Counter
from pathlib import Path
from time import time as now
from typing import Annotated

import typer
from typer import Argument, Exit, Option

from ...checks import RunnerError
from .terminal import MAINTENANCE, Full, Profile, chosen, echo, print_failed, project_here

app = typer.Typer()


@app.command("device-batch", rich_help_panel=MAINTENANCE)
def device_batch(
    runs: Annotated[str, Argument(
        help="YAML file that names runs, most valuable first, e.g. configs/device/itvreg.yaml; or a table, e.g. itvreg/table03.",
        metavar="MANIFEST")],
    time: Annotated[float, Option(
        min=0, help="Stop after this many seconds. Unfinished runs are checkpointed and resume next time.")] = 540.,
    out: Annotated[Path | None, Option(help="Folder for records and checkpoints; default: _runs/device/.")] = None,
    device: Annotated[str, Option(help="cuda, or cpu for the same runs on the CPU.")] = "cuda",
    workers: Annotated[int | None, Option(
        min=1, help="Number of processes that share the device; default: 4 if runs are small, else 1.")] = None,
    deterministic: Annotated[bool, Option(
        "--deterministic", help="Use deterministic algorithms only; fail if an operation has none.")] = False,
    profile: Profile = "planted",
    full: Full = False,
    part: Annotated[str | None, Option(
        help="Make the runs of one job of several, e.g. 3/10; exit with status 1 if its time is up.")] = None,
    list_: Annotated[bool, Option("--list", help="List the runs that are not recorded, and make none.")] = False,
):
    "Make runs on a GPU, most valuable first, and stop before the time is up."
    begun = now()
    root = project_here()
    from ..runs import device as devices
    from ..runs.runner import store_for
    asked = devices.asked_runs(runs, profile, full, root)
    if part:
        asked = devices.part_of(asked, part)
    clones = [store_for(profile) for profile in dict.fromkeys(run.profile for run in asked)]
    todo = devices.outstanding(asked, clones)
    echo(f"{runs}: {len(asked)} runs, {len(todo)} without a record here")
    if list_:
        for run in todo:
            echo(run.id)
        return
    where = out or root / "_runs" / "device"
    outcome, store = devices.device_batch(todo, time, where, device, workers, deterministic, begun)
    left = begun + time - now()
    echo(f"{len(outcome.trained)} runs made, {left:.0f} s left; records in {os.path.relpath(store.folder)}")
    if outcome.later:
        echo(f"{len(outcome.later)} runs are left; the same command goes on with them")
    for why, count in Counter(outcome.missing.values()).items():
        echo(f"{count} runs lack what they need: {why}", err=True)
    print_failed(outcome.failed)
    unfinished = outcome.later if part else outcome.failed # a job is taken up again; one run that fails stops no cluster
    if unfinished or outcome.missing:
        raise Exit(1)


@app.command(rich_help_panel=MAINTENANCE)
def merge(
    folder: Annotated[Path, Argument(exists=True, file_okay=False, help="Folder of records that device-batch wrote.")],
    jobs: Annotated[bool, Option("--jobs", help="The folder is that of the jobs of workflow/Snakefile.")] = False,
):
    """Add the records of a GPU machine to results/.

    Those of code that this clone does not know go to _runs/apart/. Exits with status 1 if a record differs from one that is
    there, or a file is not the record of a run."""
    from ..runs.device import Merged, merge as merged
    from ..runs.records import Store
    root = project_here()
    folders = [folder]
    if jobs: # each has its own, for each version of the code
        folders = _record_folders(folder, "*/*")
    elif not Store(folder).places():
        below = _record_folders(folder, "*")
        hint = f"; did you mean {' or '.join(map(str, below))}?" if below else ""
        raise RunnerError(f"{folder} holds no records{hint}")
    apart = root / "_runs" / "apart"
    done = Merged()
    for one in folders:
        merged(Store(one), apart, root, done=done)
    echo(f"{len(done.added)} records added, {len(done.known)} were there")
    for version, ids in done.apart.items():
        echo(f"kept apart in {os.path.relpath(apart / version)}: {len(ids)} records of code {version}")
    for told in done.left_out:
        echo(told, err=True)
    for run_id in done.differing:
        echo(f"differs from the record that is there, which stays: {run_id}", err=True)
    is_whole = _publish(root / "results")
    if done.differing or done.left_out or not is_whole:
        raise Exit(1)


def _record_folders(folder: Path, depth: str) -> list[Path]: # depth: `*/*`
    "Folders of records so far below, also of an earlier version, which says so when it is read."
    runs = {path.parents[2] for path in folder.glob(f"{depth}/*/*.*/*.json")}
    lines = {path.parents[1] for path in folder.glob(f"{depth}/*/*.jsonl")}
    return sorted(runs | lines)


def _publish(folder: Path) -> bool: # whether every file was a record
    "Puts records into the Parquet files next to them, and says what is left out."
    from ..config import configured, load_experiment
    from ..runs.records import Store
    store = Store(folder)
    every = []
    for paper, experiment, profile in store.unpublished():
        resamples = None # runs of no configuration are kept whole
        if configured(f"{paper}/{experiment}.{profile}.yaml"):
            resamples = load_experiment(f"{paper}/{experiment}", profile).resamples
        every.append(store.publish(paper, experiment, profile, resamples))
    rows, trimmed = (sum(getattr(one, what) for one in every) for what in ("rows", "trimmed"))
    if every:
        echo(f"{len(every)} Parquet files written in {os.path.relpath(folder)}, with {rows} records")
    if trimmed:
        echo(f"{trimmed} of them are of further worlds: without bootstrap replicates and single values of questions")
    for one in every:
        for run_id in one.replaced:
            echo(f"left out, since a newer record of the run is there: {run_id}")
        for told in one.left_out:
            echo(told, err=True)
    return not any(one.left_out for one in every)


@app.command(rich_help_panel=MAINTENANCE)
def publish(
    tables: Annotated[list[str], Argument(help="Tables or papers, e.g. itvreg/table05 scan.")],
    profile: Profile = "planted",
    replace: Annotated[bool, Option("--replace", help="Replace records that differ from those of this machine.")] = False,
):
    """Add this machine's records of a table, in _runs/, to those in results/, from which pages are made.

    No record in results/ is left out. Records made with uncommitted changes are refused."""
    from ..config import configured
    from ..runs.device import publish as published
    root = project_here()
    for name in chosen(tables, configured(f"*/*.{profile}.yaml", root)):
        added, known = published(name, profile, root, replace)
        echo(f"{name}: {len(added)} records added, {len(known)} were there")
    if not _publish(root / "results"):
        raise Exit(1)


@app.command(rich_help_panel=MAINTENANCE)
def convert(
    folder: Annotated[Path | None, Argument(
        exists=True, file_okay=False, help="Folder of records; default: results/.")] = None,
):
    """Convert records: JSON lines of an earlier version to a file per run, and those in results/ to Parquet.

    Exits with status 1 if a line or a file is not a record; such a file is kept, and all lines are, in .jsonl.old."""
    from ..runs.records import Store
    store = Store(folder or project_here() / "results")
    told = [one for place in store.with_lines() for one in store.convert(*place)]
    for one in told:
        echo(one, err=True)
    is_whole = folder is not None or _publish(store.folder)
    if told or not is_whole:
        raise Exit(1)
