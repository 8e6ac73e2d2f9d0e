"What all commands share: how they speak, how they end, where they work, and options that several of them have."
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Exit, Option
from typer.core import TyperGroup

from ..checks import ConfigError, DataError, EncoderError, RunnerError, leave, visible


def echo(text: str = "", err: bool = False) -> None:
    "Print what a command says; what comes from files steers no terminal."
    typer.echo(visible(str(text)), err=err)


def end(message: str, code: int = 1):
    "End the command with a word on why."
    echo(f"debias-nb: {message}", err=True)
    raise Exit(code) from None


def is_for_users(error: Exception) -> bool:
    "Decide whether a user can act on an error's message. A module is loaded only where the error may be of it."
    # OSError: a disk is full, a file may not be read
    if isinstance(error, (RunnerError, ConfigError, DataError, EncoderError, OSError, MemoryError)):
        return True
    from ..runs.records import WorkerLost
    from ..runs.schema import RecordError
    return isinstance(error, (RecordError, WorkerLost))


OWN_PAIRS_PANEL = "Your own pairs"
REPRODUCTION = "The three papers"
MAINTENANCE = "Maintenance"


class UserGroup(TyperGroup):
    "Commands whose errors with a message for the user become that message."
    def invoke(self, ctx):
        if signal.getsignal(signal.SIGINT) is leave:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        except (BrokenPipeError, Exit): # who reads the answer has seen enough; a command has said why
            raise
        except KeyboardInterrupt: # where a command has no more to say of it
            end("interrupted", 130)
        except Exception as e:
            if not is_for_users(e):
                raise
            end(str(e) or "there is not enough memory", 2)

    def format_commands(self, ctx, formatter):
        rows = {panel: [] for panel in (REPRODUCTION, OWN_PAIRS_PANEL, MAINTENANCE)}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            rows[command.rich_help_panel].append((name, command.get_short_help_str(90)))
        for panel, commands in rows.items():
            if commands: # a leaf that is not here has none
                with formatter.section(panel):
                    formatter.write_dl(commands)


@contextmanager
def interruptible(state: str = "finished runs are kept"):
    "End the command at Ctrl-C with a word on what has become of the runs."
    try:
        yield
    except KeyboardInterrupt:
        end(f"interrupted; {state}, and the same command goes on from there", 130)


def project_here() -> Path:
    """Return the root of the clone around the current folder.

    Raise `RunnerError` outside of one: a command that writes never writes into a clone somewhere else."""
    from ..files import project_root
    try:
        return project_root(Path.cwd())
    except ConfigError:
        problem = "this command works on the experiments of a clone of the debias-nb repository"
        raise RunnerError(f"{problem}, and {Path.cwd()} is not in one") from None


ProfileOption = Annotated[Literal["planted", "small", "paper"], Option(
    help="planted (synthetic data, minutes), small (real data, CPU hours) or paper (the paper's setting, GPU).")]
Full = Annotated[bool, Option("--full", help="Include the parts that take long.")]
Workers = Annotated[int | None, Option(min=1, help="Number of processes; default: one per core.")]
