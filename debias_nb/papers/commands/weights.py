"A command for tuned encoders: weights."
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from ...commands.terminal import REPRODUCTION, ProfileOption, echo, end, interruptible, project_here

app = typer.Typer()


@app.command(rich_help_panel=REPRODUCTION)
def weights(
    name: Annotated[str, Argument(help="Paper and experiment, e.g. itvreg/table02.")],
    out: Annotated[Path, Option(file_okay=False, help="Folder in which each run gets a folder of its weights.")],
    profile: ProfileOption = "planted",
    only: Annotated[str | None, Option(help="The run of this id; default: the runs that weights.csv lists.")] = None,
    publish: Annotated[bool, Option(
        "--publish", help="Write the hashes into weights.csv. Refused with uncommitted changes, or where a metric is "
                          "not as recorded.")] = False,
):
    """Train runs of a table as recorded, and save their tuned encoders as safetensors.

    If the folder exists, it is not trained again. Each is loaded and tested, and its hash printed. Exits with status 1
    if a metric is further from the run's record than its kind of encoder may be on any processor."""
    root = project_here()
    from .. import weights as saved
    from ...runs.records import TrainingFailed
    from ...runs.origin import processor
    hashes = saved.listed_weights(name, profile).set_index("run")
    wrong = []
    with interruptible("finished encoders are kept"):
        for run in saved.runs_of(name, profile, only):
            try:
                result = saved.check_weights(run, saved.save(run, out))
            except TrainingFailed as e:
                end(f"{run.id}: {e}")
            echo(f"{result.folder}: sha256 {result.sha256}")
            if run.id in hashes.index:
                row = hashes.loc[run.id]
                here = "" if row.cpu == processor() else f"; this is {processor()}"
                echo("  as listed" if row.sha256 == result.sha256 else f"  listed: {row.sha256}, by {row.cpu}, torch "
                                                                       f"{row.torch}{here}")
            echo(f"  {_in_words(result)}")
            if result.differences is not None and result.differences.apart.any():
                wrong.append(run.id)
            if publish:
                saved.publish_weights(name, profile, result, root)
    if wrong:
        end(f"further from their records than they may be: {', '.join(wrong)}")


def _in_words(result) -> str:
    table = result.differences
    if table is None:
        return "the run has no record to compare with"
    close = (~table.apart).sum()
    return (f"{close} of {len(table)} metrics as recorded; the largest difference is {table.gap.max():.2g} "
            f"({table.loc[table.gap.idxmax(), 'metric']})")
