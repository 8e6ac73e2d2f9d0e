"What all commands share: how they speak, how they end, where they work, and options that several of them have."
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Exit, Option
from typer.core import TyperGroup

from ...checks import ConfigError, EncoderError, RunnerError, leave, visible


def echo(text: str = "", err: bool = False) -> None:
    "What the commands say; what comes from files steers no terminal."
    typer.echo(visible(str(text)), err=err)


def end(why: str, code: int = 1):
    "Ends the command with a word on why."
    echo(f"debias-nb: {why}", err=True)
    raise Exit(code) from None


def errors_for_users() -> tuple[type[Exception], ...]:
    "Errors whose message a user can act on. Their modules are loaded when there is an error: `--help` waits for none."
    from ...data.registry import DataError
    from ...runs.records import WorkerLost
    from ...runs.schema import RecordError
    # OSError: a disk that is full, a file that may not be read
    return RunnerError, ConfigError, EncoderError, RecordError, DataError, WorkerLost, OSError, MemoryError


OWN = "Your own pairs"
REPRODUCTION = "Reproduction"
MAINTENANCE = "Maintenance"


class Told(TyperGroup):
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
            if not isinstance(e, errors_for_users()):
                raise
            end(str(e) or "there is not enough memory", 2)

    def format_commands(self, ctx, formatter):
        rows = {panel: [] for panel in (OWN, REPRODUCTION, MAINTENANCE)}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            rows[command.rich_help_panel].append((name, command.get_short_help_str(90)))
        for panel, own in rows.items():
            with formatter.section(panel):
                formatter.write_dl(own)


@contextmanager
def interruptible():
    "Ctrl-C ends the command with a word on what has become of the runs."
    try:
        yield
    except KeyboardInterrupt:
        end("interrupted; finished runs are kept, and the same command goes on from there", 130)


def project_here() -> Path:
    """The root of the clone around the current folder. Raises `RunnerError` outside of one: a command that writes never
    writes into a clone somewhere else."""
    from ...files import project_root
    try:
        return project_root(Path.cwd())
    except ConfigError:
        what = "this command works on the experiments of a clone of the debias-nb repository"
        raise RunnerError(f"{what}, and {Path.cwd()} is not in one") from None


Profile = Annotated[Literal["planted", "small", "paper"], Option(
    help="planted (synthetic data, minutes), small (real data, CPU hours) or paper (the paper's setting, GPU).")]
Full = Annotated[bool, Option("--full", help="Include the parts that take long.")]
Workers = Annotated[int | None, Option(min=1, help="Number of processes; default: one per core.")]


def chosen(asked: list[str] | None, known: list[str]) -> list[str]: # asked: tables, or papers for all of theirs; None: all
    "What is asked for, in the order of all. Raises `RunnerError` with the closest names."
    from ..notebooks import meant
    wanted = set()
    for name in asked or known:
        own = [one for one in known if one == name or one.startswith(f"{name}/")]
        if not own:
            raise RunnerError(f"no table or paper {name!r}{meant(name, known)}")
        wanted.update(own)
    return [name for name in known if name in wanted]
