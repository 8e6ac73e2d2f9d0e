"""`debias-nb` runs the notebooks of the experiments, strictly, and shows what they produced; its commands for somebody's own models and pairs stand at the end.

Papermill by itself mentions a parameter that it does not know in a warning, and runs the notebook without it; here a
notebook's parameters are checked before a kernel starts. An error that a user can mend is one line and exit code 2; a
run that failed, or after which there is nothing to show, is exit code 1.
"""
import json
import os
import re
from collections import Counter
from contextlib import chdir, contextmanager
from difflib import get_close_matches
from pathlib import Path
from time import time as now
from typing import Annotated, Literal

import typer
from typer import Argument, Exit, Option
from typer.core import TyperGroup

from debias_nb.config import (
    ConfigError, EncoderConfig, EncoderError, check_known, module_and_name, nearest, parse_yaml, project_root, quoted, visible,
)
from debias_nb.data.registry import DataError, inventory
from debias_nb.repro.config import configured, load_experiment, typed
from debias_nb.repro.runs.records import RecordError, Store, WorkerLost, latest
from debias_nb.repro.runs.runner import cores, narrow, run_all, store_for


class RunnerError(ValueError):
    "A notebook that is not run, because template or parameters are wrong."


class NotebookFailed(RuntimeError):
    "A notebook that was begun and failed."


def echo(text: str = "", err: bool = False) -> None:
    "What the commands say; what comes from files steers no terminal."
    typer.echo(visible(str(text)), err=err)


def _parameters_cell(template: Path) -> str:
    "The source of the one cell that is tagged `parameters`."
    try:
        cells = json.loads(template.read_text("utf-8"))["cells"]
    except (OSError, ValueError, KeyError) as e:
        raise RunnerError(f"{template}: no notebook ({e})") from None
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    tagged = [cell for cell in code if "parameters" in cell["metadata"].get("tags", [])]
    if len(tagged) != 1:
        raise RunnerError(f"{template}: {len(tagged)} code cells are tagged `parameters`, exactly one must be")
    return "".join(tagged[0]["source"])


TYPES = {kind.__name__: kind for kind in (int, float, str, bool, list)}
FORM = "`name: type = literal`, with types made of int, float, str, bool, list and None"


def declared(template: Path) -> dict[str, object]: # name -> type
    "The parameters of a template. Raises `RunnerError` without exactly one tagged cell, or for one of another form."
    from types import ModuleType
    cell = ModuleType("parameters")
    cell.__builtins__ = TYPES # nothing else is known there
    try:
        exec(_parameters_cell(template), vars(cell))
    except SyntaxError as e:
        raise RunnerError(f"{template}: parameters line {e.lineno}: {e.msg}") from None
    except Exception as e:
        raise RunnerError(f"{template}: parameters are lines of the form {FORM}: {e}") from None
    given = {name for name in vars(cell) if not name.startswith("__")}
    for name in given ^ cell.__annotations__.keys():
        raise RunnerError(f"{template}: the line of {name} is not {FORM}")
    kinds = cell.__annotations__
    return {name: kind | None if vars(cell)[name] is None else kind for name, kind in kinds.items()}


def checked(template: Path, given: dict[str, object]) -> dict[str, object]:
    "The given parameters with their declared types. Raises `RunnerError` for an unknown name or a wrong type."
    known = declared(template)
    out = {}
    for name, value in given.items():
        check_known(f"parameter in {template.stem} called", name, known, RunnerError)
        try:
            out[name] = typed(name, value, known[name])
        except ConfigError as e:
            raise RunnerError(f"{template.stem}: {e}") from None
    return out


def parse_parameter(text: str) -> tuple[str, object]: # `name=value`
    "One `-p` argument. Raises `RunnerError`."
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise RunnerError(f"-p wants name=value, got {text!r}")
    try:
        return name, parse_yaml(value, name)
    except ConfigError:
        raise RunnerError(f"-p {name}: {quoted(value)} is no YAML value") from None


SEEDS = re.compile(r"(\s*\d{1,99}\s*,)*\s*\d{1,99}\s*") # Python reads no number of thousands of digits


def parse_seeds(text: str) -> list[int]: # e.g. `0,1,2`
    "The value of `--seeds`. Raises `RunnerError`."
    if not SEEDS.fullmatch(text):
        raise RunnerError(f"--seeds wants whole numbers with commas between them, such as 0,1,2; got {text!r}")
    return [int(part) for part in text.split(",")]


def templates(root: Path) -> list[str]: # `paper/experiment`
    "All templates of the project."
    return sorted(f"{path.parent.name}/{path.stem}" for path in root.glob("nbs/papers/*/*.ipynb"))


def _meant(name: str, known: list[str]) -> str:
    "The experiments of that name in every paper, of the closest one if no paper has it, else the closest name."
    if "/" in name:
        return nearest(name, known)
    stems = sorted({full.rpartition("/")[2] for full in known})
    close = get_close_matches(name, stems, 1, .6)
    same = [repr(full) for full in known if full.rpartition("/")[2] in close]
    if not same:
        return nearest(name, known)
    names = " or ".join(same)
    return f"; did you mean {names}?"


def template_path(name: str, root: Path) -> Path: # name: `paper/experiment`
    "The template of an experiment. Raises `RunnerError` with the closest names when there is none."
    path = root / "nbs" / "papers" / f"{name}.ipynb"
    if not path.is_file():
        raise RunnerError(f"no template {name!r}{_meant(name, templates(root))}")
    return path


def _kernel_manager():
    "A kernel manager whose kernels are the Python that runs this, talk encrypted, and end without an alarm."
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    class ThisPython(AsyncKernelManager):
        transport_encryption = "auto"
        shutdown_wait_time = 2.

        @property
        def kernel_spec(self): # a kernel that somebody has named `python3` may be another Python
            return KernelSpecManager(kernel_dirs=[]).get_kernel_spec("python3")

        async def _async_interrupt_kernel(self):
            if not self.shutting_down:
                await super()._async_interrupt_kernel()

    return ThisPython


SLEEPING_THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "TOKENIZERS_PARALLELISM": "false"}


def _settle_kernels():
    "Papermill says errors alone; the threads of kernels that wait sleep."
    import logging
    logging.getLogger("papermill").setLevel(logging.ERROR)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL) # a cell that Ctrl-C stopped is an error that nobody asks for
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning") # of workers that end with their kernel
    for name, value in SLEEPING_THREADS.items():
        os.environ.setdefault(name, value)


def run_notebook(
    template: Path,
    output: Path,               # the executed copy
    parameters: dict[str, object],
    cwd: Path | None = None,    # the kernel's folder
) -> Path:
    """Check parameters, then execute a template.
    Raises `RunnerError` before a kernel starts, `NotebookFailed` after."""
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    parameters = checked(template, parameters)
    _settle_kernels()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        papermill.execute_notebook(
            str(template), str(output), parameters=parameters, kernel_name="python3",
            kernel_manager_class=_kernel_manager(), cwd=str(cwd or template.parent),
            progress_bar=False, log_output=False, stderr_file=None)
    except (PapermillExecutionError, DeadKernelError) as e:
        name = getattr(e, "ename", type(e).__name__)
        raise NotebookFailed(f"{name}: {getattr(e, 'evalue', e)}".strip()) from None
    except OSError as e: # a disk that is full, a folder that is read-only
        raise RunnerError(f"{output}: not executed: {e.strerror or e}") from None
    return output


def _end(why: str, code: int = 1):
    "Ends the command with a word on why."
    echo(f"debias-nb: {why}", err=True)
    raise Exit(code) from None


class Told(TyperGroup):
    "Commands whose errors with a message for the user become that message."
    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except BrokenPipeError: # who reads the answer has seen enough
            raise
        except KeyboardInterrupt: # where a command has no more to say of it
            _end("interrupted", 130)
        except (RunnerError, ConfigError, EncoderError, RecordError, DataError, WorkerLost, OSError) as e:
            # OSError: a disk that is full, a file that may not be read
            _end(str(e), 2)


app = typer.Typer(cls=Told, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


def _version(asked: bool):
    if asked:
        from debias_nb import __version__
        echo(f"debias-nb {__version__}")
        raise Exit()


@app.callback()
def options(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="the version")] = False,
):
    "Run, render and check the experiments of three papers on text matching."
    settle_folders()


def _experiments(incomplete: str) -> list[str]: # for the shell
    try:
        return [name for name in templates(project_here()) if name.startswith(incomplete)]
    except RunnerError:
        return []


Profile = Annotated[Literal["planted", "small", "paper"], Option(
    help="planted (made here, minutes), small (real data, CPU hours) or paper (the paper's setting, GPU)")]
Fresh = Annotated[bool, Option(
    "--fresh", help="read planted records from _runs/ instead of the committed reference")]
Again = Annotated[bool, Option("--fresh", help="run again what has a record")]
Full = Annotated[bool, Option("--full", help="with the parts that take long and are left out otherwise")]
Seeds = Annotated[str | None, Option(help="seeds, e.g. 0,1,2")]
Workers = Annotated[int | None, Option(min=1, help="processes; default: one a core")]


def project_here() -> Path:
    """The root of the clone around the current folder. Raises `RunnerError` outside of one: a command that writes never
    writes into a clone somewhere else."""
    try:
        return project_root(Path.cwd())
    except ConfigError:
        what = "this command works on the experiments of a clone of the debias-nb repository"
        raise RunnerError(f"{what}, and {Path.cwd()} is not in one") from None


FOLDERS = ("DEBIAS_NB_DATA", "DEBIAS_NB_MODELS")


def settle_folders():
    "Variables that name a folder as seen from here go on to name that one: a notebook is executed in another folder."
    for variable in (*FOLDERS, "DEBIAS_NB_RUNS", "DEBIAS_NB_CACHE"):
        value = os.environ.get(variable)
        if value:
            os.environ[variable] = os.path.abspath(os.path.expanduser(value))


def check_folders():
    "Raises `RunnerError` for a variable that names no folder."
    for variable in FOLDERS:
        value = os.environ.get(variable)
        if value and not Path(value).is_dir():
            raise RunnerError(f"{variable} names {value}, which is no folder")


ASKED = ("seeds", "methods", "encoders", "weight")
LONGEST = 100 # letters of a file's name that say what was asked for


def executed_path(
    root: Path,
    name: str,       # `paper/experiment`
    profile: str,
    parameters: dict[str, object],
) -> Path:
    "Where an executed copy goes: what it was asked for stands in its name, so that none is written over another."
    from debias_nb.hashes import fingerprint
    parts = [name, profile]
    for key in ASKED:
        value = parameters.get(key)
        if value is not None:
            words = ",".join(map(str, value)) if isinstance(value, list) else f"{value:g}"
            parts.append(f"{key}={re.sub('[^0-9A-Za-z.,+-]+', '-', words)}")
    file = ".".join(parts)
    if len(file) > LONGEST:
        file = f"{file[:LONGEST]}-{fingerprint(parts)[:8]}"
    return root / f"_runs/notebooks/{file}.ipynb"


def _made(name: str, profile: str, parameters: dict): # a `Study`; None where the notebook asks for no runs of its own
    "The runs that a notebook will ask for, made in this process, which has a terminal for their progress."
    root = project_here()
    template = template_path(name, root)
    known = declared(template)
    given = checked(template, parameters)
    load_experiment(name, profile, root)
    if "own" not in known or given.get("own") is False:
        return None
    from debias_nb.repro.pages.frame import made
    asked = {key: given.get(key) for key in ASKED} | {"full": given.get("full", False)}
    return made(name, profile, asked, given.get("workers"), given.get("fresh", False), lambda words: echo(words, err=True))


def _execute(name: str, profile: str, parameters: dict) -> Path:
    "Execute the notebook of an experiment at a profile; the executed copy."
    root = project_here()
    template = template_path(name, root)
    load_experiment(name, profile, root)
    given = checked(template, {"profile": profile} | parameters)
    if "own" in declared(template):
        given.setdefault("own", True)
    return run_notebook(template, executed_path(root, name, profile, given), given, cwd=root)


@contextmanager
def _interruptible():
    "Ctrl-C ends the command with a word on what has become of the runs."
    try:
        yield
    except KeyboardInterrupt:
        _end("interrupted; finished runs are kept, and the same command goes on from there", 130)


def _given(p: list[str] | None, seeds: str | None, **options) -> dict:
    "The parameters of a notebook from the options of `run`. Raises `RunnerError` for one that is given twice."
    given = {name: value for name, value in options.items() if value}
    if seeds is not None:
        given["seeds"] = parse_seeds(seeds)
    for text in p or []:
        name, value = parse_parameter(text)
        if name == "profile":
            raise RunnerError("profile is given twice, as -p and as --profile")
        if name in given:
            raise RunnerError(f"{name} is given twice")
        given[name] = value
    return given


NAME_HELP = "paper/experiment, e.g. itvreg/table03"


@app.command()
def run(
    name: Annotated[str, Argument(help=NAME_HELP, autocompletion=_experiments)],
    profile: Profile = "planted",
    p: Annotated[list[str] | None, Option(
        "-p", help="a parameter of the notebook, name=value (YAML); may be repeated")] = None,
    seeds: Seeds = None,
    fresh: Again = False,
    full: Full = False,
    workers: Workers = None,
):
    "Execute one notebook; runs that have a record are loaded."
    project_here()
    check_folders()
    from debias_nb.repro.pages.frame import RunsFailed
    parameters = _given(p, seeds, fresh=fresh, full=full, workers=workers)
    try:
        with _interruptible():
            study = _made(name, profile, parameters)
            if study:
                parameters.pop("fresh", None) # they have just been made
            out = _execute(name, profile, parameters)
    except (NotebookFailed, RunsFailed) as e:
        _end(f"{name} at {profile} failed: {e}")
    echo(f"executed: {os.path.relpath(out)}")
    if study is None:
        asked = {key: value for key, value in parameters.items() if key in ASKED}
        study = _study(name, profile, **asked)
    _print_tables(study)
    if not _any_finished(study):
        _end(f"nothing of {name} at {profile} that was asked for has been run")


def _narrowed(name: str, profile: str, **asked): # asked: as `narrow` takes it
    "An experiment, or the part of it that is asked for."
    return narrow(load_experiment(name, profile), **asked)


def _study(name: str, profile: str, **asked):
    "What this machine's records say of it."
    from debias_nb.repro.pages.frame import study_of
    study = study_of(_narrowed(name, profile, **asked), store_for(profile))
    study.own = True
    return study


METRIC_NAMES = {"auc05": "AUC(0.05)", "auc": "AUC", "psp1": "PSP@1", "psp5": "PSP@5", "p1": "P@1", "p5": "P@5",
           "ap": "average precision", "ndcg10": "nDCG@10", "map": "MAP", "mrr": "MRR", "r8": "R@8"}


def metric_name(metric: str) -> str:
    "A metric as a reader knows it."
    head = metric.partition("[")[0]
    return METRIC_NAMES.get(head, head)


def _print_tables(study) -> None:
    "The tables of what was asked for, on the terminal."
    from debias_nb.repro.pages.tables import missing
    if study.cells:
        echo(f"\n{study.experiment.title} ({study.experiment.scale})")
    if study.unlike:
        echo(f"not the settings of the configuration: {study.unlike}")
    for table, runs in study.runs.groupby("table", sort=False):
        _print_table(table, runs)
    lacking = missing(study)
    if lacking:
        echo(f"\n{lacking}")


def _print_table(table: str, runs) -> None: # runs: of the table, as `frame.study_of` gives them
    "One of them."
    from debias_nb.repro.pages.tables import markdown, means
    rows = means(runs)
    if len(rows):
        first = runs.iloc[0]
        echo(f"\n{table}, {metric_name(first.metric)}, {first.unit}\n{markdown(rows)}")


def _any_finished(study) -> bool:
    "Whether any training that was asked for has finished; yes where none was."
    trained = {run.id for run in study.experiment.runs() if run.training}
    finished = {record["id"] for record in study.finished}
    return not trained or bool(trained & finished)


def _run_first(names: list[str], profile: str, asked: dict, fresh: bool, workers: int | None) -> dict[str, str]:
    """All runs of several experiments in one pool of processes, each of which loads its libraries once.
    asked: as `narrow` takes it. Which of them failed, and why."""
    runs = {}
    for name in names:
        try:
            experiment = _narrowed(name, profile, **asked)
        except ConfigError: # its notebook says so
            continue
        runs |= {run.id: run for run in experiment.runs()}
    outcome = run_all(list(runs.values()), store_for(profile), fresh, workers)
    return outcome.failed


def _counted(name: str, profile: str, asked: dict) -> tuple[int | None, str]: # None: it has no table
    "How many cells of an experiment have a number, also in words. asked: as `narrow` takes it."
    from debias_nb.repro.pages.frame import reasons
    try:
        cells = _study(name, profile, **asked).cells
    except ConfigError as e:
        return 0, str(e)
    if not cells:
        return None, "no table"
    empty = [cell for cell in cells if cell.value is None]
    lacking = ""
    if empty:
        lacking = f"; not run: {'; '.join(reasons(empty))}"
    filled = len(cells) - len(empty)
    return filled, f"{filled} of {len(cells)} cells{lacking}"


def _attempt(name: str, profile: str, parameters: dict) -> tuple[str, str | None]: # name, why it failed
    "Execute one notebook, in a process of its own."
    try:
        known = declared(template_path(name, project_here()))
        own = {key: value for key, value in parameters.items() if key in known} # a search has one seed of its own
        _execute(name, profile, own)
    except (NotebookFailed, RunnerError, ConfigError) as e:
        return name, str(e)
    return name, None


def _execute_all(names: list[str], profile: str, asked: dict, workers: int | None) -> dict[str, str]:
    "Execute several notebooks side by side; the names of those that failed, and why. asked: parameters of each."
    from joblib import Parallel, delayed
    from rich.console import Console
    from rich.progress import track
    parameters = dict(asked)
    if workers:
        parameters["workers"] = workers
    pool = Parallel(min(workers or cores(), len(names)), return_as="generator_unordered")
    done = pool(delayed(_attempt)(name, profile, parameters) for name in names)
    why = dict(track(done, "notebooks", total=len(names), console=Console(stderr=True)))
    return {name: why[name] for name in names if why[name]}


Tables = Annotated[list[str] | None, Argument(
    help="some tables or papers, as `itvreg/table05 scan`; default: all", show_default=False)]
Alone = Annotated[bool, Option("--runs", help="make the runs alone: `debias-nb report` executes the notebooks")]


def _chosen(asked: list[str] | None, known: list[str]) -> list[str]: # asked: tables, or papers for all of theirs; None: all
    "What is asked for, in the order of all. Raises `RunnerError` with the closest names."
    wanted = set()
    for name in asked or known:
        own = [one for one in known if one == name or one.startswith(f"{name}/")]
        if not own:
            raise RunnerError(f"no table or paper {name!r}{_meant(name, known)}")
        wanted.update(own)
    return [name for name in known if name in wanted]


def _configured(profile: str, asked: list[str] | None = None) -> list[str]: # asked: as `_chosen`
    "The experiments with a configuration at a profile. Raises `RunnerError` where there is none."
    names = configured(f"*/*.{profile}.yaml", project_here())
    if not names:
        raise RunnerError(f"no notebook has a configuration at profile {profile}")
    return _chosen(asked, names)


def _print_counts(names: list[str], profile: str, asked: dict) -> bool: # whether there are cells, and none is filled
    "How many cells of each experiment have a number. asked: as `narrow` takes it."
    filled = []
    for name in names:
        count, words = _counted(name, profile, asked)
        filled.append(count)
        echo(f"{name}: {words}")
    return not any(filled) and 0 in filled


def _print_failed(failed: dict[str, str]) -> None: # name or id -> why
    for name, why in failed.items():
        echo(f"failed: {name}: {why}", err=True)


@app.command()
def batch(
    tables: Tables = None,
    profile: Profile = "planted",
    seeds: Seeds = None,
    fresh: Again = False,
    full: Full = False,
    workers: Workers = None,
    runs: Alone = False,
):
    """Make every run of this profile, then execute every notebook that has a configuration there, whatever fails.
    With names of tables or papers, theirs alone."""
    check_folders()
    asked = {"full": full}
    if seeds is not None:
        asked["seeds"] = parse_seeds(seeds)
    names = _configured(profile, tables)
    with _interruptible():
        failed = _run_first(names, profile, asked, fresh, workers)
        if not runs: # a notebook tells of its own runs that failed
            failed = _execute_all(names, profile, asked, workers)
    empty = _print_counts(names, profile, asked)
    if not runs:
        echo(f"\n{len(names) - len(failed)} of {len(names)} notebooks at profile {profile} executed")
    _print_failed(failed)
    if empty:
        _end(f"not one cell at profile {profile} has a number")
    if failed:
        raise Exit(1)


TIME_HELP = "seconds until all has to be written; what is under way then is kept, and goes on another time"
DEVICE_HELP = "cuda, or cpu for the same runs on the CPU"


def _print_outcome(outcome, store, end: float) -> None: # end: of the time, in seconds since 1970
    "What a batch on a device came to."
    left = end - now()
    echo(f"{len(outcome.trained)} runs made, {left:.0f} s left; records in {os.path.relpath(store.folder)}")
    if outcome.later:
        echo(f"{len(outcome.later)} runs are left; the same command goes on with them")
    for why, count in Counter(outcome.missing.values()).items():
        echo(f"{count} runs lack what they need: {why}", err=True)
    _print_failed(outcome.failed)


@app.command("device-batch")
def device_batch(
    runs: Annotated[str, Argument(
        help="a YAML file that names runs, most valuable first, e.g. configs/device/itvreg.yaml; or a table, e.g. itvreg/table03",
        metavar="MANIFEST")],
    time: Annotated[float, Option(min=0, help=TIME_HELP)] = 540.,
    out: Annotated[Path | None, Option(
        help="folder for records and checkpoints; default: _runs/device/")] = None,
    device: Annotated[str, Option(help=DEVICE_HELP)] = "cuda",
    workers: Annotated[int | None, Option(
        min=1, help="processes that share the device; default: 4 where runs are small, else 1")] = None,
    deterministic: Annotated[bool, Option(
        "--deterministic", help="refuse algorithms whose sums depend on chance")] = False,
    profile: Profile = "planted",
    full: Full = False,
    part: Annotated[str | None, Option(
        help="the runs of one job of several, e.g. 3/10; exit code 1 where its time was up")] = None,
    list_: Annotated[bool, Option("--list", help="list the runs that have no record, and make none")] = False,
):
    "Make the runs of a manifest or a table on a device, most valuable first, and stop before the time is up."
    begun = now()
    check_folders()
    root = project_here()
    from debias_nb.repro.runs import device as devices
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
    _print_outcome(outcome, store, begun + time)
    unfinished = outcome.later if part else outcome.failed # a job is taken up again; one run that fails stops no cluster
    if unfinished or outcome.missing:
        raise Exit(1)


def _refuse_without_records(folder: Path) -> None:
    "Raises `RunnerError` for a folder that holds no files of records, naming those below it that do."
    if any(folder.glob("*/*.jsonl")):
        return
    below = sorted({path.parents[1] for path in folder.glob("*/*/*.jsonl")})
    hint = f"; did you mean {' or '.join(map(str, below))}?" if below else ""
    raise RunnerError(f"{folder} holds no records{hint}")


@app.command()
def merge(
    folder: Annotated[Path, Argument(help="a folder of records that device-batch wrote")],
    jobs: Annotated[bool, Option("--jobs", help="the folder is that of the jobs of workflow/Snakefile")] = False,
):
    """Add the records of a device to results/. Those of code that this clone does not know are kept apart, in
    _runs/apart/. Exit code 1 where a record differs from one that is there, or a line is not the record of a run."""
    from debias_nb.repro.runs.device import Merged, merge as merged
    root = project_here()
    if not folder.is_dir():
        raise RunnerError(f"{folder} is no folder")
    if jobs: # each has its own, for each version of the code
        folders = sorted({path.parents[1] for path in folder.glob("*/*/*/*.jsonl")})
    else:
        _refuse_without_records(folder)
        folders = [folder]
    apart = root / "_runs" / "apart"
    done = Merged()
    for one in folders:
        merged(Store(one), apart, root, done=done)
    _print_merged(done, apart)
    is_whole = _publish(root / "results")
    if done.differing or done.left_out or not is_whole:
        raise Exit(1)


def _publish(folder: Path) -> bool: # whether every line was a record
    "Puts lines of records into the Parquet files beside them, and says what is left out."
    store = Store(folder)
    every = [store.publish(*place) for place in store.unpublished()]
    rows = sum(one.rows for one in every)
    trimmed = sum(one.trimmed for one in every)
    unsealed = sum(one.unsealed for one in every)
    if every:
        echo(f"{len(every)} Parquet files written in {os.path.relpath(folder)}, with {rows} records")
    if trimmed:
        echo(f"{trimmed} of them are of further worlds: without bootstrap replicates and single values of questions")
    if unsealed:
        echo(f"{unsealed} lines had no checksum, and are those of runs")
    for one in every:
        for run_id in one.replaced:
            echo(f"left out, since a newer record of the run is there: {run_id}")
        for told in one.left_out:
            echo(told, err=True)
    return not any(one.left_out for one in every)


@app.command()
def convert(
    folder: Annotated[Path | None, Argument(help="a folder of records; default: results/")] = None,
):
    """Put records that are lines, as runs and earlier versions leave them, into the Parquet files beside them. Exit code 1
    where a line is no record; it stays."""
    place = folder or project_here() / "results"
    if not place.is_dir():
        raise RunnerError(f"{place} is no folder")
    if not _publish(place):
        raise Exit(1)


def _print_merged(done, apart: Path) -> None: # apart: where records of other code are
    "What became of the records of a device."
    echo(f"{len(done.added)} records added, {len(done.known)} were there")
    for version, ids in done.apart.items():
        echo(f"kept apart in {os.path.relpath(apart / version)}: {len(ids)} records of code {version}")
    for told in done.left_out:
        echo(told, err=True)
    for run_id in done.differing:
        echo(f"differs from the record that is there, which stays: {run_id}", err=True)


LETTERS = {"itvreg": "A", "arr": "B", "scan": "C"}


def _listed(paper: str) -> list[list[str]]:
    "The pages of a paper, each with the profiles that it has records of."
    from debias_nb.repro.pages.frame import all_experiments
    from debias_nb.repro.pages.report import with_records
    letter = LETTERS.get(paper, paper)
    titles = {experiment.name: experiment.title for experiment in all_experiments(paper)}
    rows = []
    for name, title in titles.items():
        known = with_records(name)
        profiles = reversed(known)
        rows.append([f"[{letter} · {title}]({name}.md)", ", ".join(profiles)])
    return rows


def _contents() -> str:
    "The list of all pages."
    from debias_nb.repro.pages.frame import papers
    from debias_nb.repro.pages.tables import text_table
    rows = [row for paper in papers() for row in _listed(paper)]
    table = text_table(["page", "records at"], rows)
    head = (
        "# Pages\n\nThe pages of the table below are notebooks of `nbs/papers/`, executed on the stored records by "
        "`debias-nb report`. `planted`: invented data, whose causes are known; `small`: real data, small encoders; `paper`: the "
        "papers' own settings, which hardly anything was run at. A diagnosis of one's own pairs looks like [these](diagnose/README.md).")
    books = [f"{letter} ([claims]({paper}/claims.md), [errata]({paper}/errata.md))" for paper, letter in LETTERS.items()]
    ledger = (
        "What to do, and which of the papers' claims hold: [CLAIMS](CLAIMS.md); claim by claim and erratum by erratum: "
        f"{', '.join(books)}. Five findings, each with a figure: [FINDINGS](FINDINGS.md). What it costs: [SPEED](SPEED.md), "
        "and at the papers' own scale [COST](COST.md). What becomes of records when a run is killed, a disk is full or a file "
        "is damaged: [RELIABILITY](RELIABILITY.md). Which mistakes in the code the tests notice: [MUTANTS](MUTANTS.md). "
        "What trains nothing, computed again: [REPEATS](REPEATS.md)."
    )
    return f"{head}\n\n{ledger}\n\n{table}\n"


def _book(name: str, folder: Path) -> list[Path]: # what was written
    "The page of a notebook that is no experiment's, where there is such a notebook."
    from debias_nb.repro.pages.report import has_notebook, write_notebook
    if not has_notebook(name):
        return []
    return write_notebook(name, folder, {"folder": str(folder)})


def _names_of(paper: str) -> list[str]:
    "The pages of one paper, in the order in which they are made: claims rest on tables."
    return [*configured(f"{paper}/*.yaml"), f"{paper}/claims", f"{paper}/errata"]


def _page_of(name: str, folder: Path, fresh: bool) -> list[Path]: # what was written
    "One page: of an experiment, or a book."
    from debias_nb.repro.pages.report import write_page
    if configured(f"{name}.*.yaml"):
        return write_page(name, folder, fresh)
    return _book(name, folder)


def _pages_of(paper: str, folder: Path, fresh: bool, here: Path) -> list[Path]: # what was written
    "The pages of one paper of the project in `here`: a worker may have begun elsewhere."
    from debias_nb.repro.pages.frame import only_stored
    written = []
    with chdir(here), only_stored(fresh):
        for name in _names_of(paper):
            written += _page_of(name, folder, fresh)
    return written


def _of_all(folder: Path) -> list[Path]: # what was written
    "What to do, the findings, what was measured and what the papers' own scale costs, and the list of pages."
    from debias_nb.repro.pages.report import BOOKS
    written = [path for name in BOOKS for path in _book(name, folder)]
    contents = folder / "README.md"
    contents.write_text(_contents(), "utf-8")
    return [*written, contents]


@app.command()
def report(
    names: Annotated[list[str] | None, Argument(
        help="some pages, or papers for all of theirs; default: all", show_default=False)] = None,
    fresh: Fresh = False,
    out: Annotated[Path | None, Option(
        help="folder; default: reports/, or _runs/reports/ with --fresh")] = None,
):
    """Write all pages, or those that are named, with their tables and figures, from records alone: notebooks are executed,
    and nothing is run."""
    from joblib import Parallel, cpu_count, delayed
    from debias_nb.repro.pages.frame import only_stored, papers
    from debias_nb.repro.pages.report import BOOKS
    root = project_here()
    folder = root / "reports"
    if fresh:
        folder = root / "_runs/reports"
    if out:
        folder = out.absolute()
    known = papers()
    if names:
        pages = [page for paper in known for page in _names_of(paper)]
        with only_stored(fresh):
            for name in _chosen(names, [*pages, *BOOKS]):
                _print_paths(_page_of(name, folder, fresh))
        return
    pool = Parallel(min(cpu_count(), len(known)), return_as="generator")
    for written in pool(delayed(_pages_of)(paper, folder, fresh, root) for paper in known):
        _print_paths(written)
    with only_stored(fresh):
        _print_paths(_of_all(folder))


def _print_paths(written: list[Path]) -> None: # as seen from here
    for path in written:
        echo(os.path.relpath(path))


WIDE = 120 # characters of a line, at least: narrower, names would be cut


def _print(rows, *columns):
    "A table on the terminal. Nothing is cut: the first column is as wide as it must be, the others go on in further lines."
    from rich.console import Console
    from rich.table import Column, Table
    first, *others = columns
    table = Table(Column(first, no_wrap=True), *(Column(name, overflow="fold") for name in others), box=None)
    for row in rows:
        table.add_row(*map(visible, row))
    width = max(Console().width, WIDE)
    Console(width=width).print(table)


@app.command()
def status(
    paper: Annotated[str | None, Argument(help="itvreg, arr or scan; default: all")] = None,
    json_: Annotated[bool, Option("--json", help="every cell as a JSON list")] = False,
    fresh: Fresh = False,
):
    "Every cell of every table and profile: what is there, what is not, and why."
    from debias_nb.repro.pages.report import all_cells, status_json
    project_here()
    cells = all_cells(fresh=fresh, paper=paper)
    if json_:
        echo(status_json(cells))
    else:
        _print_status(cells)


def _print_status(cells: list):
    "A line a table and profile."
    groups = {}
    for cell in cells:
        groups.setdefault((cell.paper, cell.table, cell.profile), []).append(cell)
    rows = [(*key, *_summed_up(mine)) for key, mine in groups.items()]
    _print(rows, "paper", "table", "profile", "cells", "status", "why not")


def _summed_up(cells: list) -> tuple[str, str, str]: # how many, how many of each status, why not
    "The cells of one table and profile."
    from debias_nb.repro.pages.frame import reasons
    kinds = Counter(cell.status for cell in cells)
    lacking = reasons([cell for cell in cells if cell.status in ("not run", "failed", "partial")])
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return str(len(cells)), counts, "; ".join(lacking)


WORST = 20 # metrics that are listed


def _planted(store) -> dict: # id -> record
    "The newest record of every planted run."
    planted = [place for place in store.places() if place[2] == "planted"]
    return latest([record for place in planted for record in store.records(*place, short=True)])


@app.command()
def agree():
    """Compare this machine's planted records with the committed ones, run by run and metric by metric.
    Exit code 1 where there is nothing to compare, or where one metric of one run is further from its record than its kind
    of encoder may be on any processor; every count has to be the same."""
    from debias_nb.repro.pages.frame import results
    from debias_nb.repro.runs.agree import apart, compared
    project_here()
    committed = results("planted")
    reference = _planted(committed)
    made = results("planted", fresh=True)
    here = _planted(made)
    runs, not_compared = compared(here, reference)
    echo(f"{len(runs)} of {len(reference)} committed planted runs were made here too, and are compared.")
    for why, count in not_compared.items():
        echo(f"{count} runs are not compared: {why}.")
    found = apart(here, {run: reference[run] for run in runs})
    identical = int((found.gap == 0).sum())
    wrong = found[found.apart]
    echo(f"{len(found) - len(wrong)} of their {len(found)} metrics agree, {identical} are identical.")
    _print_worst(wrong)
    if len(wrong) or found.empty:
        raise Exit(1)


def _print_worst(wrong) -> None: # of `agree.apart`
    "Metrics that are apart, the worst ones first."
    for row in wrong.head(WORST).itertuples():
        values = f"{row.here} here, {row.reference} committed"
        echo(f"  {row.run}, {row.test}, {row.metric}: {values}, {row.allowed:g} apart at most")
    if len(wrong) > WORST:
        echo(f"  and {len(wrong) - WORST} more")


data_app = typer.Typer(invoke_without_command=True)
app.add_typer(data_app, name="data")


@data_app.callback()
def data(ctx: typer.Context):
    """Which data files are needed, where they were found, and how to get the others.
    Exit code 1 where a file has other contents than the published ones."""
    check_folders()
    if ctx.invoked_subcommand:
        return
    found = inventory()
    rows = [_file_row(r) for r in found]
    _print(rows, "data set", "file", "bytes", "status", "where, or how to get it")
    refused = [f"{r['dataset']}/{r['file']}" for r in found if r["status"] == "refused"]
    if refused:
        names = ", ".join(refused)
        _end(f"other contents than the registry's: {names}")


@data_app.command("convert")
def convert_data(
    name: Annotated[str, Argument(help="a data set that is placed by hand, as `debias-nb data` names it")],
    source: Annotated[Path, Argument(help="its files as published: a folder, unpacked, or one file")],
    share: Annotated[float, Option(help="of the texts by authors, drawn at random")] = 1.,
):
    "Write a corpus that was placed by hand in the layout that is read here; counts, and hashes that later runs check."
    from debias_nb.data.convert import compared, convert as convert_corpus
    made = convert_corpus(name, source, share)
    rows = [(what, f"{here:,}", "" if printed is None else f"{printed:,}", said)
            for what, here, printed, said in compared(made)]
    _print(rows, "count", "here", "the paper", "")
    for kind, pins in (("read", made.sources), ("written", made.files)):
        for file, pin in pins.items():
            echo(f"{kind} {file}: {pin.bytes:,} bytes, sha256 {pin.sha256}")


def _file_row(r: dict) -> tuple[str, ...]: # r: of `inventory`
    "A data file as a row of the table."
    size = f"{r['bytes']:,}" if r["bytes"] else ""
    return r["dataset"], r["file"], size, r["status"], str(r["path"] or r["how"] or "")


PLANTED_ENCODERS = (("tiny", "transformer"), ("tiny-static", "static"))


def _place(name: str, kind: str) -> str:
    "Where an encoder was found, or how to get it."
    from debias_nb.loading import find_folder
    encoder = EncoderConfig(name=name, kind=kind)
    try:
        return str(find_folder(encoder, download=False))
    except EncoderError as e:
        return str(e)


def _card_row(name: str, card) -> tuple[str, ...]: # card: of `encoder_cards`
    "A base encoder as a row of the table."
    zero_shot = "yes" if card.zero_shot else "no"
    return name, card.kind, zero_shot, card.trained_on, _place(name, card.kind)


@app.command()
def models():
    "Which base encoders are known, what they were trained on, and where they were found."
    check_folders()
    from debias_nb.loading import encoder_cards
    rows = [_card_row(name, card) for name, card in encoder_cards().items()]
    for name, kind in PLANTED_ENCODERS:
        rows.append((name, kind, "yes", "the planted world's broad corpus", "trained here when first used"))
    _print(rows, "encoder", "kind", "zero-shot", "trained on", "where, or how to get it")


def _methods() -> list[tuple[str, str]]: # of what task, names
    "What a row of a table may ask for."
    from typing import get_args
    from debias_nb.repro.config import AuthorsConfig, Intervention, MethodConfig, ScanConfig, regularisers
    values = {
        "augmentations of pairs": MethodConfig.model_fields["augmentation"].annotation,
        "interventions": Intervention,
        "losses of authors": AuthorsConfig.model_fields["base"].annotation,
        "students of authors": AuthorsConfig.model_fields["student"].annotation,
        "sample weights of answers": ScanConfig.model_fields["weights"].annotation,
        "language debiasing of answers": ScanConfig.model_fields["debias"].annotation,
    }
    rows = [("regularisers of pairs", ", ".join(regularisers()))]
    for what, kind in values.items():
        names = [name for name in get_args(kind) if name != "none"]
        rows.append((what, ", ".join(names)))
    return rows


@app.command("list")
def list_names():
    "Methods by name; experiments where there is a clone of the repository. Encoders: `models`; data sets: `data`."
    check_folders()
    _print(_methods(), "method", "names")
    try:
        experiments = [(name,) for name in templates(project_here())]
    except RunnerError:
        echo("experiments: those of a clone of the repository, and this folder is not in one")
    else:
        _print(experiments, "experiment")


TEST_HELP = "a test, NAME=FILE; may be repeated"
Columns = Annotated[str, Option(
    help="names of the columns of left text, right text and label in all files, with commas between")]

Page = Annotated[Path | None, Option(dir_okay=False, help="where to write the page")]
Numbers = Annotated[Path | None, Option(dir_okay=False, help="where to write its numbers")]


@app.command()
def diagnose(
    base: Annotated[str, Option(help="the model before fine-tuning: a folder, a name, or a hub id (name@commit)")],
    tuned: Annotated[str, Option(help="the model after")],
    train: Annotated[str, Option(help="what it was trained on: CSV, TSV, JSONL or Parquet")],
    test: Annotated[list[str], Option(help=TEST_HELP)],
    columns: Columns = "left,right,label",
    group: Annotated[str | None, Option(help="a column of the tests: each of its values is reported by itself")] = None,
    html: Page = None,
    json: Numbers = None,
    fail_if: Annotated[list[str] | None, Option(
        help="exit with 1 where this holds, in the points that are printed, e.g. new.change.high<-1; may be repeated",
    )] = None,
    seed: Annotated[int, Option(min=0, help="of samples and resamples")] = 0,
    overwrite: Annotated[bool, Option("--overwrite", help="write over page and numbers that are there")] = False,
):
    "Whether, where and why fine-tuning made a model worse."
    from debias_nb.explain.pairs_file import kind_of_file, named_tests
    tests = named_tests(test)
    for path in (train, *tests.values()): # before PyTorch is imported, which takes seconds
        kind_of_file(Path(path))
    from debias_nb.explain import diagnose as diagnosing
    from debias_nb.explain.page import check_targets, write_whole
    for condition in fail_if or []:
        diagnosing.read_condition(condition, tests)
    check_targets([html, json], overwrite)
    found = diagnosing.diagnose(base, tuned, train, tests, columns.split(","), group, seed)
    pages = {html: found.html, json: found.json}
    try:
        echo(repr(found))
    finally: # also where nobody reads the answer to its end
        for path, text in pages.items():
            if path:
                write_whole(path, text())
    for path in filter(None, pages):
        echo(f"written: {path}")
    broken = list(filter(found.holds, fail_if or []))
    for condition in broken:
        echo(f"it holds that {condition}")
    raise Exit(int(bool(broken)))


METHODS_HELP = (
    "base, plain, wise-ft, outreg, itvreg, maskreg, simcse, l2sp, worddropout; a strength stands behind a colon, as in outreg:1 "
    "(without one 0.1; of wise-ft 0.5, of l2sp 1e-6)")
SETTING_HELP = "default: what fits the kind of encoder"


@app.command()
def compare(
    base: Annotated[str, Option(help="the encoder to start from: a folder, a name, or a hub id (name@commit)")],
    train: Annotated[str, Option(help="what to train on: CSV, TSV, JSONL or Parquet")],
    test: Annotated[list[str], Option(help=TEST_HELP)],
    columns: Columns = "left,right,label",
    methods: Annotated[str, Option(help=METHODS_HELP)] = "base,plain,wise-ft,outreg,itvreg",
    seeds: Annotated[int, Option(min=2, help="how often each method is trained")] = 3,
    learning_rate: Annotated[float | None, Option(help=SETTING_HELP)] = None,
    epochs: Annotated[float | None, Option(help=SETTING_HELP)] = None,
    batch_size: Annotated[int | None, Option(help=SETTING_HELP)] = None,
    loss: Annotated[str, Option(
        help="of sentence-transformers; MultipleNegativesRankingLoss trains on matches alone; strengths that suit one "
        "may not suit another")] = "CosineSimilarityLoss",
    validation: Annotated[list[str] | None, Option(
        help="pairs that are no test, NAME=FILE; each strength that is not given is chosen there. May be repeated",
    )] = None,
    out: Annotated[Path, Option(
        file_okay=False,
        help="the folder for trials, tables and page; trials that are there are not run again")] = Path("comparison"),
    overwrite: Annotated[bool, Option("--overwrite", help="write over page and tables that are there")] = False,
):
    "Train with each method on somebody's own pairs, and say which differences are beyond chance."
    from debias_nb.explain.pairs_file import kind_of_file, named_tests
    tests = named_tests(test)
    kept = named_tests(validation or [], "--validation")
    for path in (train, *tests.values(), *kept.values()): # before PyTorch is imported, which takes seconds
        kind_of_file(Path(path))
    from debias_nb.explain import compare as comparing
    from debias_nb.explain.page import check_targets, write_whole
    if out.is_dir():
        check_targets([out / name for name in comparing.FILES], overwrite)
    try:
        found = comparing.compare(
            base, train, tests, columns.split(","), methods, seeds, learning_rate, epochs, batch_size, out, loss=loss,
            validation=kept)
    except KeyboardInterrupt:
        count = len(comparing.read_trials(out / "trials.jsonl"))
        _end(f"interrupted; trials that are kept in {out}: {count}. The same command goes on from there", 130)
    try:
        echo(repr(found))
    finally: # also where nobody reads the answer to its end
        for name, text in found.files().items():
            write_whole(out / name, text)
    for name in comparing.FILES:
        echo(f"written: {out / name}")


@app.command()
def score(
    loss: Annotated[str, Argument(
        help="module:Name, from the current folder or what is installed, e.g. mymodule:MyLoss")],
    weight: Annotated[float | None, Option(min=0, help="lambda of a regulariser; default: its own")] = None,
    on: Annotated[str, Option(
        help="planted, questions and products, or some of them, with commas between; all take hours, planted most of one")] = "planted,questions,products",
    out: Annotated[str, Option(help="the folder for records and scorecard; runs that are there are not made again")] = "score",
    workers: Workers = None,
):
    "Train with somebody's own loss as the methods here are trained, and say what it does beside them."
    check_folders()
    module_and_name(loss) # refuses another form before PyTorch is imported, which takes seconds
    from debias_nb.repro.score import score as scored
    asked = tuple(part.strip() for part in on.split(","))
    with _interruptible():
        scored(loss, weight, asked, out, workers, say=echo)


#| eval: false
if __name__ == "__main__":
    app()
