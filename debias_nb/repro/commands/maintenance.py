"Commands for a maintainer of records: publish."
import os
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Exit, Option

from .terminal import MAINTENANCE, Profile, chosen, echo, project_here

app = typer.Typer()


def _publish(folder: Path) -> bool: # whether every file was a record
    "Puts records into the Parquet files next to them, and says what is left out."
    from ...runs.config import configured, load_experiment
    from ...runs.records import Store
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
    from ...runs.config import configured
    from ...runs.publish import publish as published
    root = project_here()
    for name in chosen(tables, configured(f"*/*.{profile}.yaml", root)):
        added, known = published(name, profile, root, replace)
        echo(f"{name}: {len(added)} records added, {len(known)} were there")
    if not _publish(root / "results"):
        raise Exit(1)
