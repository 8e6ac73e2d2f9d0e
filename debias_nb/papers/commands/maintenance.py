"Commands for a maintainer of records: publish."
import os
from typing import Annotated

import typer
from typer import Argument, Exit, Option

from ...checks import counted
from ...commands.terminal import MAINTENANCE, ProfileOption, echo, project_here

app = typer.Typer()


@app.command(rich_help_panel=MAINTENANCE)
def publish(
    tables: Annotated[list[str], Argument(help="Tables or papers, e.g. itvreg/table05 scan.")],
    profile: ProfileOption = "planted",
    replace: Annotated[bool, Option(
        "--replace", help="Replace records that differ from those of this machine.")] = False,
):
    """Add this machine's records of a table, in _runs/, to those in experiments/, from which pages are made.

    No record in experiments/ is left out. Records made with uncommitted changes are refused."""
    root = project_here()
    from ..notebooks import select_notebooks
    from ...runs.config import configured, load_experiment, name_of
    from ...runs.origin import NO_HISTORY, history
    from ...runs.publish import publish as published
    from ...runs.records import committed_store
    if history(root) is None:
        echo(NO_HISTORY, err=True)
    for name in select_notebooks(tables, configured(f"*/*.{profile}.yaml", root)):
        new, present = published(name, profile, root, replace)
        echo(f"{name}: {counted(len(new), 'records added')}, {counted(len(present), 'records there already')}")
    store = committed_store(root)
    left_out = []
    for place in store.unpublished():
        name, _, profile = name_of(place).rpartition(".")
        # None: runs are kept whole
        resamples = load_experiment(name, profile).resamples if configured(f"{place}.yaml") else None
        rows, odd = store.publish(place, resamples)
        echo(f"{os.path.relpath(store.folder / place)}.parquet: {counted(rows, 'records')}")
        left_out += odd
    for line in left_out:
        echo(line, err=True)
    if left_out:
        raise Exit(1)
