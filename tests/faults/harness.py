"What trials of faults share: small projects, and the command line in a process that can be killed."
import json
import multiprocessing
import os
import secrets
import signal
import subprocess
import sys
import time
import traceback
import warnings
from contextlib import ExitStack
from pathlib import Path

import yaml

from debias_nb.settings import EncoderConfig, PretrainConfig, WorldConfig
from debias_nb.runs.records import Store, comparable
from made import METHODS, STATIC, WORLD

ROOT = Path(__file__).parents[2]


# the seed of what is drawn anew at each run; one of before draws the same again
SEED = int(os.environ.get("DEBIAS_NB_DRAWS") or secrets.randbelow(2**32))


# a small project

SEEDS = (0, 1)
PARAMETERS = """\
profile: str = "planted"
seeds: list[int] = None
fresh: bool = False
workers: int = None"""
CELL = {
    "cell_type": "code", "id": "a", "metadata": {"tags": ["parameters"]}, "execution_count": None, "outputs": [],
    "source": PARAMETERS,
}
KERNEL = {"name": "python3", "display_name": "python3", "language": "python"}
NOTEBOOK = {"cells": [CELL], "metadata": {"kernelspec": KERNEL}, "nbformat": 4, "nbformat_minor": 5}

# An encoder that is made in a moment.
QUICK = EncoderConfig(
    name="tiny-static", kind="static", world=WorldConfig(types=8, unseen_types=4, broad_pairs=200),
    pretrain=PretrainConfig(steps=5, batch_size=32, learning_rate=2e-2))


def settings_of(**changes) -> dict:
    "A toy experiment as its file has it: a planted catalogue, a static table, three methods, two seeds."
    world = WORLD.model_dump() | {"train_pairs": 200, "queries": 20, "items": 60, "test_negatives": 5}
    encoder = STATIC.model_dump(mode="json", exclude_defaults=True) | {"kind": "static"}
    names = ["Base", "Finetuned", "ITVReg", "OutReg"]
    methods = [method.model_dump(mode="json", exclude_defaults=True) for method in METHODS if method.name in names]
    block = {
        "encoders": ["tiny-static"], "methods": names, "seeds": list(SEEDS), "evaluate": ["unseen"],
        "corpora": [{"name": "catalogue", "world": world}],
        "training": {"learning_rate": 2e-2, "epochs": 1.0, "batch_size": 32},
    }
    column = {"label": "to unseen types", "corpus": "catalogue", "evaluate": "unseen", "shift": "ood"}
    return {
        "title": "A demonstration", "scale": "a toy world",
        "encoders": [encoder], "methods": methods, "blocks": [block],
        "tables": [{"id": "demo", "columns": [column]}],
    } | changes


def make_project(folder: Path) -> Path:
    "A project of one experiment, with nothing run yet."
    for name in ("experiments/studies/itvreg", "nbs/papers/itvreg", "experiments/printed"):
        (folder / name).mkdir(parents=True)
    (folder / "settings.ini").write_text((ROOT / "settings.ini").read_text("utf-8"))
    (folder / "experiments/printed/itvreg.yaml").write_text(
        (ROOT / "experiments/printed/itvreg.yaml").read_text("utf-8"))
    settings = settings_of() | {"planted": {}}
    (folder / "experiments/studies/itvreg/demo.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    (folder / "nbs/papers/itvreg/demo.ipynb").write_text(json.dumps(NOTEBOOK))
    return folder


def store_of(project: Path) -> Store:
    return Store(project / "_runs")


def files_of(project: Path) -> dict[str, bytes]: # of runs; what a writer has begun is none
    return {path.name: path.read_bytes() for path in (project / "_runs/studies/itvreg/demo.planted").glob("*.json")}


def records_of(project: Path) -> dict: # id -> what two honest repeats have in common
    "All records. Fails on a warning, which a file gives that holds none."
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        records = store_of(project).all()
    return {record["id"]: comparable(record) for record in records}


# a process that can be killed

FORK = multiprocessing.get_context("fork") # the libraries are loaded once, here
EXIT_RAISED = 70 # exit code of a function that raised something
PATIENCE = 180 # seconds until what is waited for counts as hanging; a batch takes two where nothing else runs
AFTER_A_TEST = ExitStack() # ends what a test has started


def start(command: list[str], **options) -> subprocess.Popen:
    "A program in a process of its own, which outlives no test."
    program = subprocess.Popen(command, **options)
    AFTER_A_TEST.callback(lambda: program.poll() is None and kill_all(program.pid))
    return program


class Child:
    "A function in a process of its own, with what it prints in a file."
    def __init__(self, function, *args, said: Path):
        self.said = said
        self.process = FORK.Process(target=self._run, args=(function, args))
        self.process.start()
        self.pid = self.process.pid
        AFTER_A_TEST.callback(self.kill)

    def _run(self, function, args):
        os.setsid() # a terminal sends its signals to all of a session
        with self.said.open("ab", 0) as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", 1, closefd=False), os.fdopen(2, "w", 1, closefd=False)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = EXIT_RAISED
        try:
            function(*args)
            code = 0
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else int(bool(e.code))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def kill(self) -> None:
        if self.process.is_alive():
            kill_all(self.pid)
            self.process.join()

    def end(self, seconds: float = PATIENCE) -> int: # the exit code; minus the signal of one that was killed
        "Waits for its end. Fails after some seconds, and then nothing of it is left."
        self.process.join(seconds)
        if self.process.exitcode is None:
            self.kill()
            raise AssertionError(f"it hung for {seconds:.0f} seconds:\n{self.text}")
        return self.process.exitcode

    @property
    def text(self) -> str:
        return self.said.read_text("utf-8", "replace")


def command(project: Path, cache: Path, args: list[str], preparation=None) -> None:
    "`debias-nb` with its arguments, in this process; `before` is called first."
    os.chdir(project)
    os.environ["DEBIAS_NB_CACHE"] = str(cache)
    os.environ.pop("DEBIAS_NB_RUNS", None)
    from joblib.externals.loky.backend import context
    context.set_start_method("fork", force=True) # workers have the libraries, too
    if preparation:
        preparation()
    from debias_nb.commands.cli import app
    app([str(arg) for arg in args])


def batch(project: Path, cache: Path, workers: int = 1, preparation=None, said: Path | None = None) -> Child:
    "The batch of a project, begun."
    args = ["batch", "--profile", "planted", "--workers", workers]
    return Child(command, project, cache, args, preparation, said=said or project / f"said-{time.monotonic_ns()}.txt")


# what a batch does, and when

STEP = "step"       # of a training, begun
RECORD = "record"   # begun to be written


def note_events(project: Path) -> None:
    "From now on this process and its workers note in a file what they do: each training step, each record."
    from transformers import Trainer
    notes = os.open(project / "events", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def noting(event, function):
        def note(*args, **options):
            os.write(notes, f"{event} {time.monotonic()}\n".encode())
            return function(*args, **options)
        return note

    Trainer.training_step = noting(STEP, Trainer.training_step)
    Store.append = noting(RECORD, Store.append)


def events_of(project: Path) -> list[tuple[str, float]]: # event, when; the clock is the same in all processes
    path = project / "events"
    lines = path.read_text().splitlines() if path.exists() else []
    pairs = map(str.split, lines)
    return [(event, float(time)) for event, time in pairs]


def steps_of(project: Path) -> int:
    return sum(event == STEP for event, _ in events_of(project))


# processes and their clocks

def children(pid: int) -> list[int]:
    "The processes that a process has started."
    numbers = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            numbers += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            pass
    return numbers


def kill_all(pid: int) -> None:
    "Kill a process and all that it has started."
    try:
        os.kill(pid, signal.SIGSTOP) # it starts no more of them
        for child in children(pid):
            kill_all(child)
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _command_line(pid: int) -> bytes: # nothing of one that has ended
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def workers_of(pid: int) -> list[int]:
    "The workers among its children: they are forks of it, and what keeps account of their semaphores is not."
    own_line = _command_line(pid)
    return [child for child in children(pid) if _command_line(child) == own_line]


def at_work(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition, event: str, seconds: float = PATIENCE, every: float = .002) -> None: # what: is waited for
    "Waits, and fails when it takes much longer than on a machine that has other things to do."
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:.0f} seconds for {event}"
        time.sleep(every)
