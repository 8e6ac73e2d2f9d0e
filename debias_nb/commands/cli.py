"""`debias-nb` runs the notebooks of the experiments, strictly, and shows what they produced.

Its commands for your models and pairs come first. The commands come from the leaves of the package, as entry points.
An error that a user can mend is one line and exit code 2; a run that failed, or after which there is nothing to show,
is exit code 1.
"""
import os
from typing import Annotated

import typer
from typer import Exit, Option

from ..checks import RunnerError
from ..plugins import plugins
from .terminal import UserGroup, echo

app = typer.Typer(cls=UserGroup, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
for part in plugins("debias_nb.commands"):
    app.add_typer(part.load())


def _version(is_wanted: bool):
    if is_wanted:
        from .. import __version__
        echo(f"debias-nb {__version__}")
        raise Exit()


def settle_folders():
    """Make the folders in variables absolute: a notebook is executed in another folder.

    Raise `RunnerError` where there is no folder of data or models."""
    for name in ("DATA", "MODELS", "RUNS", "CACHE"):
        variable = f"DEBIAS_NB_{name}"
        value = os.environ.get(variable)
        if value:
            folder = os.path.abspath(os.path.expanduser(value))
            if name in ("DATA", "MODELS") and not os.path.isdir(folder):
                raise RunnerError(f"{variable} names {value}, which is no folder")
            os.environ[variable] = folder


@app.callback()
def options(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
):
    "Reproduce three papers on spurious correlations in text matching, and diagnose fine-tuned text encoders."
    settle_folders()


if __name__ == "__main__":
    app()
