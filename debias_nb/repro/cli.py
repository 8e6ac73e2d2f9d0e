"""`debias-nb` runs the notebooks of the experiments, strictly, and shows what they produced; its commands for your models and pairs stand at the end.

An error that a user can mend is one line and exit code 2; a run that failed, or after which there is nothing to show, is
exit code 1.
"""
import os
import re
import shutil
import textwrap
from collections import Counter
from contextlib import contextmanager, suppress
from itertools import chain, groupby
from pathlib import Path
from time import time as now
from typing import Annotated, Literal

import typer
from typer import Argument, Exit, Option
from typer.core import TyperGroup

from ..checks import ConfigError, EncoderError, RunnerError, module_and_name, quoted, visible


def echo(text: str = "", err: bool = False) -> None:
    "What the commands say; what comes from files steers no terminal."
    typer.echo(visible(str(text)), err=err)


def _end(why: str, code: int = 1):
    "Ends the command with a word on why."
    echo(f"debias-nb: {why}", err=True)
    raise Exit(code) from None


def errors_for_users() -> tuple[type[Exception], ...]:
    "Errors whose message a user can act on. Their modules are loaded when there is an error: `--help` waits for none."
    from ..data.registry import DataError
    from .runs.records import WorkerLost
    from .runs.schema import RecordError
    # OSError: a disk that is full, a file that may not be read
    return RunnerError, ConfigError, EncoderError, RecordError, DataError, WorkerLost, OSError


class Told(TyperGroup):
    "Commands whose errors with a message for the user become that message."
    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except (BrokenPipeError, Exit): # who reads the answer has seen enough; a command has said why
            raise
        except KeyboardInterrupt: # where a command has no more to say of it
            _end("interrupted", 130)
        except Exception as e:
            if not isinstance(e, errors_for_users()):
                raise
            _end(str(e), 2)

    def format_commands(self, ctx, formatter):
        rows = {panel: [] for panel in (OWN, REPRODUCTION, MAINTENANCE)}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            rows[command.rich_help_panel].append((name, command.get_short_help_str(90)))
        for panel, own in rows.items():
            with formatter.section(panel):
                formatter.write_dl(own)


OWN = "Your own pairs"
REPRODUCTION = "Reproduction"
MAINTENANCE = "Maintenance"
app = typer.Typer(cls=Told, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


def _version(asked: bool):
    if asked:
        from .. import __version__
        echo(f"debias-nb {__version__}")
        raise Exit()


def project_here() -> Path:
    """The root of the clone around the current folder. Raises `RunnerError` outside of one: a command that writes never
    writes into a clone somewhere else."""
    from ..files import project_root
    try:
        return project_root(Path.cwd())
    except ConfigError:
        what = "this command works on the experiments of a clone of the debias-nb repository"
        raise RunnerError(f"{what}, and {Path.cwd()} is not in one") from None


def settle_folders():
    """Variables that name a folder as seen from here go on to name that one: a notebook is executed in another folder.
    Raises `RunnerError` where there is no folder of data or models."""
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
    "Diagnose fine-tuned text encoders, and reproduce three papers on spurious correlations in text matching."
    from .. import _check_versions
    try:
        _check_versions()
    except ImportError as e:
        _end(str(e), 2)
    settle_folders()


def _experiments(incomplete: str) -> list[str]: # for the shell
    from .notebooks import templates
    try:
        return [name for name in templates(project_here()) if name.startswith(incomplete)]
    except RunnerError:
        return []


Profile = Annotated[Literal["planted", "small", "paper"], Option(
    help="planted (synthetic data, minutes), small (real data, CPU hours) or paper (the paper's setting, GPU).")]
Fresh = Annotated[bool, Option(
    "--fresh", help="Read your own synthetic-data runs from _runs/ instead of the committed ones.")]
Again = Annotated[bool, Option("--fresh", help="Repeat runs that are already recorded.")]
Full = Annotated[bool, Option("--full", help="Include the parts that take long.")]
Seeds = Annotated[str | None, Option(help="Seeds, e.g. 0,1,2.")]
Workers = Annotated[int | None, Option(min=1, help="Number of processes; default: one per core.")]
SEEDS = re.compile(r"(\s*\d{1,99}\s*,)*\s*\d{1,99}\s*") # Python reads no number of thousands of digits


def parse_seeds(text: str) -> list[int]: # e.g. `0,1,2`
    "The value of `--seeds`. Raises `RunnerError`."
    if not SEEDS.fullmatch(text):
        raise RunnerError(f"--seeds wants whole numbers with commas between them, such as 0,1,2; got {text!r}")
    return [int(part) for part in text.split(",")]


def parse_parameter(text: str) -> tuple[str, object]: # `name=value`
    "One `-p` argument. Raises `RunnerError`."
    from ..files import parse_yaml
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise RunnerError(f"-p wants name=value, got {text!r}")
    try:
        return name, parse_yaml(value, name)
    except ConfigError:
        raise RunnerError(f"-p {name}: {quoted(value)} is no YAML value") from None


@contextmanager
def _interruptible():
    "Ctrl-C ends the command with a word on what has become of the runs."
    try:
        yield
    except KeyboardInterrupt:
        _end("interrupted; finished runs are kept, and the same command goes on from there", 130)


def _study(name: str, profile: str, **asked): # asked: as `narrow` takes it
    "What this machine's records say of an experiment, or of the part of it that is asked for."
    from .config import load_experiment
    from .pages.frame import study_of
    from .runs.runner import narrow, store_for
    study = study_of(narrow(load_experiment(name, profile), **asked), store_for(profile))
    study.own = True
    return study


METRIC_NAMES = {"auc05": "AUC(0.05)", "auc": "AUC", "psp1": "PSP@1", "psp5": "PSP@5", "p1": "P@1", "p5": "P@5",
                "ap": "average precision", "ndcg10": "nDCG@10", "map": "MAP", "mrr": "MRR", "r8": "R@8"}


def _print_tables(study) -> None:
    "The tables of what was asked for, and what they lack."
    from .pages.frame import ONE_SEED
    from .pages.tables import markdown, means, missing
    if study.cells:
        echo(f"\n{study.experiment.title} ({study.experiment.scale})")
    if study.unlike:
        echo(f"not the settings of the configuration: {study.unlike}")
    if study.is_of_one_seed:
        echo(ONE_SEED.replace("**", ""))
    for table, runs in study.runs.groupby("table", sort=False):
        rows = means(runs)
        if len(rows):
            metric = runs.metric.iloc[0].partition("[")[0]
            echo(f"\n{table}, {METRIC_NAMES.get(metric, metric)}, {runs.unit.iloc[0]}\n{markdown(rows)}")
    lacking = missing(study)
    if lacking:
        echo(f"\n{lacking}")


@app.command(rich_help_panel=REPRODUCTION)
def run(
    name: Annotated[str, Argument(help="Paper and experiment, e.g. itvreg/table03.", autocompletion=_experiments)],
    profile: Profile = "planted",
    p: Annotated[list[str] | None, Option(
        "-p", help="Set a parameter of the notebook, name=value (YAML). Repeatable.")] = None,
    seeds: Seeds = None,
    fresh: Again = False,
    full: Full = False,
    workers: Workers = None,
):
    "Execute one notebook; load the runs that are recorded."
    root = project_here()
    from .notebooks import ASKED, NotebookFailed, execute, made
    from .pages.frame import RunsFailed
    given = [("profile", profile)]
    given += [(key, value) for key, value in (("fresh", fresh), ("full", full), ("workers", workers)) if value]
    if seeds is not None:
        given.append(("seeds", parse_seeds(seeds)))
    given += map(parse_parameter, p or [])
    for key, count in Counter(key for key, _ in given).items():
        if count > 1:
            raise RunnerError(f"{key} is given twice")
    parameters = dict(given[1:])
    try:
        with _interruptible():
            study = made(name, profile, parameters, root, lambda words: echo(words, err=True))
            if study:
                parameters.pop("fresh", None) # they have just been made
            out = execute(name, profile, parameters, root)
    except (NotebookFailed, RunsFailed) as e:
        _end(f"{name} at {profile} failed: {e}")
    echo(f"executed: {os.path.relpath(out)}")
    study = study or _study(name, profile, **{key: value for key, value in parameters.items() if key in ASKED})
    _print_tables(study)
    trained = {run.id for run in study.experiment.runs() if run.training}
    if trained and trained.isdisjoint(record["id"] for record in study.finished):
        _end(f"nothing of {name} at {profile} that was asked for has been run")


Tables = Annotated[list[str] | None, Argument(
    help="Tables or papers, e.g. itvreg/table05 scan; default: all.", show_default=False)]


def _chosen(asked: list[str] | None, known: list[str]) -> list[str]: # asked: tables, or papers for all of theirs; None: all
    "What is asked for, in the order of all. Raises `RunnerError` with the closest names."
    from .notebooks import meant
    wanted = set()
    for name in asked or known:
        own = [one for one in known if one == name or one.startswith(f"{name}/")]
        if not own:
            raise RunnerError(f"no table or paper {name!r}{meant(name, known)}")
        wanted.update(own)
    return [name for name in known if name in wanted]


def _counted(name: str, profile: str, asked: dict) -> tuple[int | None, str]: # None: it has no table
    "How many cells of an experiment have a number, also in words. asked: as `narrow` takes it."
    from .pages.cells import reasons
    try:
        cells = _study(name, profile, **asked).cells
    except ConfigError as e:
        return 0, str(e)
    if not cells:
        return None, "no table"
    empty = [cell for cell in cells if cell.value is None]
    lacking = f"; not run: {'; '.join(reasons(empty))}" if empty else ""
    filled = len(cells) - len(empty)
    return filled, f"{filled} of {len(cells)} cells{lacking}"


def _print_failed(failed: dict[str, str]) -> None: # name or id -> why
    for name, why in failed.items():
        echo(f"failed: {name}: {why}", err=True)


@app.command(rich_help_panel=REPRODUCTION)
def batch(
    tables: Tables = None,
    profile: Profile = "planted",
    seeds: Seeds = None,
    fresh: Again = False,
    full: Full = False,
    workers: Workers = None,
    runs: Annotated[bool, Option("--runs", help="Only make the runs; `debias-nb report` executes the notebooks.")] = False,
):
    """Make all runs of a profile, then execute its notebooks, whatever fails.

    With names of tables or papers, only theirs."""
    from .config import configured, load_experiment
    from .notebooks import execute_all
    from .pages.report import has_notebook
    from .runs.runner import cores, narrow, run_all, store_for
    asked = {"full": full}
    if seeds is not None:
        asked["seeds"] = parse_seeds(seeds)
    root = project_here()
    known = configured(f"*/*.{profile}.yaml", root)
    if not known:
        raise RunnerError(f"no notebook has a configuration at profile {profile}")
    names = _chosen(tables, known)
    first = {} # all runs in one pool of processes, each of which loads its libraries once
    for name in names:
        with suppress(ConfigError): # its notebook says so
            first |= {run.id: run for run in narrow(load_experiment(name, profile), **asked).runs()}
    with _interruptible():
        failed = run_all(list(first.values()), store_for(profile), fresh, workers).failed
        if not runs: # a notebook tells of its own runs that failed
            parameters = asked | ({"workers": workers} if workers else {})
            shown = [name for name in names if has_notebook(name)]
            failed = execute_all(shown, profile, parameters, root, workers or cores())
    filled = []
    for name in names:
        count, words = _counted(name, profile, asked)
        filled.append(count)
        echo(f"{name}: {words}")
    if not runs:
        echo(f"\n{len(shown) - len(failed)} of {len(shown)} notebooks at profile {profile} executed")
    _print_failed(failed)
    if 0 in filled and not any(filled):
        _end(f"not one cell at profile {profile} has a number")
    if failed:
        raise Exit(1)


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
    from .runs import device as devices
    from .runs.runner import store_for
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
    _print_failed(outcome.failed)
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
    from .runs.device import Merged, merge as merged
    from .runs.records import Store
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
    from .runs.records import Store
    store = Store(folder)
    every = [store.publish(*place) for place in store.unpublished()]
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
    from .config import configured
    from .runs.device import publish as published
    root = project_here()
    for name in _chosen(tables, configured(f"*/*.{profile}.yaml", root)):
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
    from .runs.records import Store
    store = Store(folder or project_here() / "results")
    told = [one for place in store.with_lines() for one in store.convert(*place)]
    for one in told:
        echo(one, err=True)
    is_whole = folder is not None or _publish(store.folder)
    if told or not is_whole:
        raise Exit(1)


@contextmanager
def _inside(folder: Path):
    "The current folder is another one meanwhile; `contextlib.chdir` is there from Python 3.11 on."
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _write_pages(names: list[str], folder: Path, fresh: bool, here: Path) -> list[Path]: # what was written
    "Some pages of the project in `here`: a worker may have begun elsewhere. What has no notebook yet is left out."
    from .config import configured
    from .pages.frame import only_stored
    from .pages.report import has_notebook, write_notebook, write_page
    written = []
    with _inside(here), only_stored(fresh):
        for name in filter(has_notebook, names):
            if configured(f"{name}.*.yaml"):
                written += write_page(name, folder, fresh)
            else:
                written += write_notebook(name, folder, {"folder": str(folder)})
    return written


@app.command(rich_help_panel=REPRODUCTION)
def report(
    names: Annotated[list[str] | None, Argument(
        help="Pages, or papers for all of theirs; default: all.", show_default=False)] = None,
    fresh: Fresh = False,
    out: Annotated[Path | None, Option(
        help="Output folder; default: reports/, or _runs/reports/ with --fresh.")] = None,
):
    """Write the pages with their tables and figures from records.

    Notebooks are executed; nothing is trained."""
    from joblib import Parallel, cpu_count, delayed
    from .config import configured
    from .pages.frame import papers
    from .pages.report import BOOKS
    root = project_here()
    folder = out.absolute() if out else root / ("_runs/reports" if fresh else "reports")
    groups = [[*configured(f"{paper}/*.yaml"), f"{paper}/claims", f"{paper}/errata"] for paper in papers()] # claims rest on tables
    if names:
        written = [_write_pages(_chosen(names, [*chain(*groups), *BOOKS]), folder, fresh, root)]
    else: # papers side by side; the books speak of all of them
        pool = Parallel(min(cpu_count(), len(groups)))
        written = pool(delayed(_write_pages)(group, folder, fresh, root) for group in groups)
        written.append(_write_pages(list(BOOKS), folder, fresh, root))
    for path in chain(*written):
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
    Console(width=max(Console().width, WIDE)).print(table)


@app.command(rich_help_panel=REPRODUCTION)
def status(
    paper: Annotated[str | None, Argument(help="itvreg, arr or scan; default: all.")] = None,
    json_: Annotated[bool, Option("--json", help="Print every cell as a JSON list.")] = False,
    fresh: Fresh = False,
):
    """Say which cells of which tables have a number, and why others have none.

    Exits with status 1 if records in results/ were made by code that is not in the history of this clone."""
    from .pages.report import all_cells, status_json
    from .runs.origin import NO_HISTORY, history
    from .runs.records import Store
    root = project_here()
    cells = all_cells(fresh=fresh, paper=paper)
    if json_:
        echo(status_json(cells))
    else:
        _print_status(cells)
    commits = history(root)
    if commits is None:
        echo(NO_HISTORY, err=True)
        return
    unfounded = Store(root / "results").unfounded(commits, paper)
    for told in unfounded:
        echo(told, err=True)
    if unfounded:
        raise Exit(1)


def _print_status(cells):
    "A row a table."
    from .pages.cells import reasons
    tables = {}
    for cell in cells:
        tables.setdefault((cell.paper, cell.table, cell.profile), []).append(cell)
    rows = []
    for key, own in tables.items():
        counts = ", ".join(f"{count} {kind}" for kind, count in Counter(cell.status for cell in own).items())
        lacking = reasons([cell for cell in own if cell.status in ("not run", "failed", "partial")])
        rows.append([*key, str(len(own)), counts, "; ".join(lacking)])
    _print(rows, "paper", "table", "profile", "cells", "status", "why not")


@app.command(rich_help_panel=REPRODUCTION)
def agree(
    untrained: Annotated[bool, Option(
        "--untrained", help="Recompute what needs no training on real data, which is the same on any processor.")] = False,
):
    """Compare this machine's synthetic-data records with the committed ones.

    Exit code 1 where there is nothing to compare, or where one metric of one run is further from its record than its kind
    of encoder may be on any processor; every count has to be the same."""
    from .pages.frame import results
    from .runs.records import latest
    from .agree import SAME, compute_untrained, said
    project_here()
    if untrained:
        here, committed = compute_untrained()
        lines, do_agree = said(here, committed, "committed runs that train nothing", SAME)
    else:
        sides = []
        for store in (results("planted", fresh=True), results("planted")):
            places = [place for place in store.places() if place[2] == "planted"]
            sides.append(latest(record for place in places for record in store.records(*place, short=True)))
        lines, do_agree = said(*sides, "committed planted runs")
    for line in lines:
        echo(line)
    if not do_agree:
        raise Exit(1)


data_app = typer.Typer(invoke_without_command=True)
app.add_typer(data_app, name="data", rich_help_panel=OWN)


@data_app.callback()
def data(ctx: typer.Context):
    """List data files and base encoders: where they are, and how to get the others.

    Exits with status 1 if a file differs from the published one."""
    if ctx.invoked_subcommand:
        return
    from ..data.registry import inventory
    from ..encoders.loading import encoder_cards, find_folder
    from ..settings import EncoderConfig
    found = inventory()
    for dataset, files in groupby(found, key=lambda one: one["dataset"]):
        echo(visible(dataset))
        for one in files:
            size = f", {one['bytes']:,} bytes" if one["bytes"] else ""
            _print_entry(f"{one['file']}: {one['status']}{size}", one["path"] or one["how"])
    echo("\nbase encoders")
    for name, card in encoder_cards().items():
        try:
            place = str(find_folder(EncoderConfig(name=name, kind=card.kind), download=False))
        except EncoderError as e: # how to get it
            place = str(e)
        zero_shot = "" if card.zero_shot else ", not for zero-shot use"
        _print_entry(f"{name}: {card.kind}{zero_shot}, trained on {card.trained_on}", place)
    for name, kind in (("tiny", "transformer"), ("tiny-static", "static")):
        _print_entry(f"{name}: {kind}, trained on synthetic data", "trained here when first used")
    refused = [f"{one['dataset']}/{one['file']}" for one in found if one["status"] == "refused"]
    if refused:
        _end(f"other contents than the registry's: {', '.join(refused)}")


def _print_entry(what: str, where) -> None: # where: a path or words, or nothing
    "A line, and where it is below it: words are wrapped to the terminal, and a path is left whole to be copied."
    width = shutil.get_terminal_size().columns - 1
    for text, indent in ((what, "  "), (str(where or ""), "      ")):
        for line in text.splitlines():
            wrapped = textwrap.wrap(
                visible(line), width, initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False,
                break_on_hyphens=False)
            for part in wrapped:
                echo(part)


@app.command("list", rich_help_panel=REPRODUCTION)
def list_names():
    "List methods, and the experiments of a clone of the repository. Data sets and encoders: `data`."
    from typing import get_args
    from .config import AuthorsConfig, Intervention, MethodConfig, ScanConfig, REGULARIZER_NAMES
    from .notebooks import templates
    values = {
        "augmentations of pairs": MethodConfig.model_fields["augmentation"].annotation,
        "interventions": Intervention,
        "losses of authors": AuthorsConfig.model_fields["base"].annotation,
        "students of authors": AuthorsConfig.model_fields["student"].annotation,
        "sample weights of answers": ScanConfig.model_fields["weights"].annotation,
        "language debiasing of answers": ScanConfig.model_fields["debias"].annotation,
    }
    rows = [("regularisers of pairs", ", ".join(REGULARIZER_NAMES))]
    for what, kind in values.items():
        rows.append((what, ", ".join(name for name in get_args(kind) if name != "none")))
    _print(rows, "method", "names")
    try:
        experiments = [(name,) for name in templates(project_here())]
    except RunnerError:
        echo("experiments: those of a clone of the repository, and this folder is not in one")
    else:
        _print(experiments, "experiment")


FORMS_HELP = (
    "Labeled pairs, triplets or query/pos/neg rows, anchor and positive alone, or a folder with queries, corpus and qrels; CSV, "
    "TSV, JSON, JSONL or Parquet, told by names of columns.")
TEST_HELP = f"What to test on, NAME=FILE. Repeatable. {FORMS_HELP}"
Tests = Annotated[list[str], Option(help=TEST_HELP)]
Columns = Annotated[list[str] | None, Option(
    help="Names of columns, such as question1,question2,is_duplicate: of all files, or of one as in new=q1,q2,label. Repeatable.",
    show_default="told by their names")]
MetricName = Annotated[str | None, Option(
    help="Metric that decides, on tests that have it: auc05, ap (pairs); accuracy, mrr (candidates); ndcg10, mrr10, recall10, "
    "recall100, map (retrieval).", show_default="the first of each")]
Prompts = Annotated[str | None, Option(
    help="Prompts before left and right texts, LEFT,RIGHT: names of the model's prompts, or the prompts themselves.",
    show_default="the model's own for queries and documents")]
Sample = Annotated[int | None, Option(min=10, help="Pairs or queries of each test, at most.", show_default="all")]
Match = Annotated[str | None, Option(help="Label that is a match, where labels are words.")]
MatchFrom = Annotated[float | None, Option(help="Lowest grade that is a match, where labels are grades.")]
OtherTo = Annotated[float | None, Option(help="Highest grade that is no match; pairs between are left out.", show_default="below --match-from")]
Margin = Annotated[float, Option(min=0, help="Smallest change that matters, in points.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Overwrite page and tables.")]
GONE = {"--html": "--out FOLDER writes index.html", "--json": "--out FOLDER writes report.json",
        "--fail-if": "--fail-on worse, or unsure, ends with status 1; all figures are in report.json"}


def _gone(option: str):
    "An option of before, which names the one that took its place."
    def refuse(value):
        if value:
            raise ConfigError(f"{option} is gone: {GONE[option]}")
    return Option(option, hidden=True, callback=refuse)


HtmlGone = Annotated[list[str] | None, _gone("--html")]
JsonGone = Annotated[list[str] | None, _gone("--json")]
FailIfGone = Annotated[list[str] | None, _gone("--fail-if")]


def _files(test: list[str], columns: list[str] | None, train: str | None) -> tuple[dict, object]:
    "The tests by name, and the columns as `read_files` takes them; all before PyTorch is imported, which takes seconds."
    from ..data.pairs_file import check_file, columns_by_name, named_tests
    if train is not None:
        check_file(Path(train))
    usual, by_name = columns_by_name(columns or [])
    return named_tests(test), {None: usual, **by_name} if by_name else usual


def _two_prompts(prompts: str | None) -> tuple[str, str] | None:
    if prompts is None:
        return None
    left, comma, right = prompts.partition(",")
    if not comma:
        raise ConfigError(f"--prompts wants LEFT,RIGHT, got {prompts!r}; a side without a prompt is left empty")
    return left, right


@app.command(rich_help_panel=OWN)
def diagnose(
    base: Annotated[str, Option(help="Model before fine-tuning: a folder, a name, or a hub id (name@commit).")],
    tuned: Annotated[str, Option(help="Model after fine-tuning.")],
    test: Tests,
    train: Annotated[str | None, Option(help="What it was trained on, in any of these forms.")] = None,
    columns: Columns = None,
    group: Annotated[str | None, Option(help="Column of the test files; report each of its values separately.")] = None,
    metric: MetricName = None,
    prompts: Prompts = None,
    match: Match = None,
    match_from: MatchFrom = None,
    other_to: OtherTo = None,
    sample: Sample = None,
    out: Annotated[Path | None, Option(file_okay=False, help="Folder for page, numbers and tables.")] = None,
    fail_on: Annotated[Literal["worse", "unsure"] | None, Option(
        help="Exit with status 1 if a test got worse; with unsure also if it may have, or is too small to tell.")] = None,
    margin: Margin = 1.,
    like: Annotated[str, Option(help="Name of the test that is like training; the others are new data.")] = "like",
    seed: Annotated[int, Option(min=0, help="Random seed for sampling and bootstrap.")] = 0,
    overwrite: Overwrite = False,
    html: HtmlGone = None,
    json: JsonGone = None,
    fail_if: FailIfGone = None,
):
    "Report whether, where and why fine-tuning made a model worse."
    tests, names = _files(test, columns, train)
    from ..explain import diagnose as diagnosing
    from ..explain.page import check_targets
    if out is not None and out.is_dir():
        check_targets([out / name for name in diagnosing.FILES], overwrite)
    with _vectors_in(out) as vectors:
        found = diagnosing.diagnose(
            base, tuned, train, tests, names, group, seed, metric=metric, prompts=_two_prompts(prompts), sample=sample,
            match=match, match_from=match_from, other_to=other_to, margin=margin, like=like, folder=vectors)
        _answer(found, {out / name: text for name, text in found.files().items()} if out else {})
    _fail(fail_on, found, margin / 100)


@contextmanager
def _vectors_in(out: Path | None):
    """A folder for vectors, which is gone when the page is written; after Ctrl-C the same command goes on from there. Raises
    `ConfigError` where others keep something in it."""
    if out is None:
        yield None
        return
    folder = out / "vectors"
    for path in folder.glob("*"):
        if not re.fullmatch(r"[0-9a-f]{16}\.(safetensors|part)", path.name):
            raise ConfigError(f"{path}: the file exists, and is none of debias-nb; give another --out")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    except KeyboardInterrupt:
        if any(folder.iterdir()):
            _end(f"interrupted; vectors are kept in {folder}, and the same command goes on from there", 130)
        raise
    else:
        shutil.rmtree(folder)
    finally:
        with suppress(OSError): # they are not empty
            folder.rmdir()
            out.rmdir()


def _fail(fail_on: str | None, found, margin: float) -> None:
    "End with status 1 where a test fails."
    failing = found.failing(fail_on, margin) if fail_on else []
    if failing:
        echo(f"--fail-on {fail_on}: {', '.join(failing)}")
        raise Exit(1)


def _answer(found, pages: dict[Path, str]) -> None:
    "Say what was found, and write it also where nobody reads the answer to its end."
    from ..explain.page import write_whole
    try:
        echo(repr(found))
    finally:
        for path, text in pages.items():
            write_whole(path, text)
    for path in pages:
        echo(f"written: {path}")


@app.command(rich_help_panel=OWN)
def demo(
    out: Annotated[Path, Option(file_okay=False, help="Folder for page, numbers and tables.")] = Path("demo"),
    overwrite: Overwrite = False,
):
    "Diagnose a small encoder that took a planted shortcut: no data, no download."
    from ..explain.page import check_targets
    from ..explain import demo as demonstrating, diagnose as diagnosing
    if out.is_dir():
        check_targets([out / name for name in diagnosing.FILES], overwrite)
    found = demonstrating.demo(progress=False)
    out.mkdir(parents=True, exist_ok=True)
    _answer(found, {out / name: text for name, text in found.files().items()})


METHODS_HELP = (
    "Methods, separated by commas: base, plain, wise-ft, outreg, itvreg, maskreg, simcse, l2sp, worddropout; a weight follows a "
    "colon, e.g. outreg:1 (default 0.1; of wise-ft 0.5, of l2sp 1e-6). With --texts also outreg-texts, itvreg-texts, "
    "maskreg-texts, simcse-texts.")
SETTING_HELP = "Default: what suits the kind of encoder."


@app.command(rich_help_panel=OWN)
def compare(
    base: Annotated[str, Option(help="Base encoder: a folder, a name, or a hub id (name@commit).")],
    train: Annotated[str, Option(help=f"What to train on. {FORMS_HELP}")],
    test: Tests,
    columns: Columns = None,
    methods: Annotated[str | None, Option(
        help=METHODS_HELP, show_default="base,plain,wise-ft,outreg,itvreg; with --texts outreg-texts too")] = None,
    seeds: Annotated[int, Option(
        min=2, help="Number of training runs of each method. 2 or 3 find large differences only: the page says how large. "
        "What rests on 2 is provisional.")] = 3,
    seed: Annotated[int, Option(min=0, help="The first seed.")] = 0,
    learning_rate: Annotated[float | None, Option(help=SETTING_HELP)] = None,
    epochs: Annotated[float | None, Option(help=SETTING_HELP)] = None,
    batch_size: Annotated[int | None, Option(help=SETTING_HELP)] = None,
    loss: Annotated[str | None, Option(
        help="Loss of sentence-transformers. MultipleNegativesRankingLoss trains on matches only, with negatives of their own "
        "where there are some. Weights that suit one loss may not suit another.",
        show_default="CosineSimilarityLoss; without labels MultipleNegativesRankingLoss")] = None,
    validation: Annotated[list[str] | None, Option(
        help="Validation data, NAME=FILE, used to choose every weight that you do not set. Repeatable.",
    )] = None,
    texts: Annotated[str | None, Option(
        help="Unlabeled texts of the kind that the encoder will meet and not from the tests: a file with one per line, or a "
        "table with a column text, or another one as in new.csv:question. Methods such as outreg-texts keep the encoder close "
        "to its base on them.")] = None,
    metric: MetricName = None,
    prompts: Prompts = None,
    match: Match = None,
    match_from: MatchFrom = None,
    other_to: OtherTo = None,
    sample: Sample = None,
    out: Annotated[Path, Option(
        file_okay=False,
        help="Output folder for trials, tables and page. Finished trials found there are reused.")] = Path("comparison"),
    fail_on: Annotated[Literal["worse", "unsure"] | None, Option(
        help="Exit with status 1 if every trained method is worse than the base on a test; with unsure also if it may be.")] = None,
    margin: Margin = 1.,
    workers: Annotated[int | None, Option(min=1, help="Trainings at a time.", show_default="as many as cores")] = None,
    overwrite: Overwrite = False,
):
    "Train each method on your pairs and report which differences are significant."
    tests, names = _files(test, columns, train)
    from ..data.pairs_file import named_tests, texts_file
    if fail_on and methods is not None and "base" not in [name.strip() for name in methods.split(",")]:
        raise ConfigError("--fail-on compares with the base: add base to --methods")
    kept = named_tests(validation or [], "--validation")
    if texts is not None:
        texts_file(texts)
    from ..explain import compare as comparing
    from ..explain.page import check_targets
    if out.is_dir():
        check_targets([out / name for name in comparing.FILES], overwrite)
    try:
        found = comparing.compare(
            base, train, tests, names, methods, seeds, learning_rate, epochs, batch_size, out, loss=loss, validation=kept,
            texts=texts, metric=metric, prompts=_two_prompts(prompts), sample=sample, match=match, match_from=match_from,
            other_to=other_to, seed=seed, workers=workers)
    except KeyboardInterrupt:
        _end(f"interrupted; finished trials are kept in {out}, and the same command goes on from there", 130)
    _answer(found, {out / name: text for name, text in found.files().items()})
    _fail(fail_on, found, margin)


@app.command(rich_help_panel=OWN)
def score(
    loss: Annotated[str, Argument(
        help="Your loss as module:Name, from the current folder or installed, e.g. mymodule:MyLoss.")],
    weight: Annotated[float | None, Option(min=0, help="Weight (lambda) of a regularizer; default: its own.")] = None,
    on: Annotated[str | None, Option(
        help="planted, questions or products, separated by commas; default: all, which take hours; planted takes most of one.")] = None,
    small: Annotated[bool, Option(
        "--small", help="The small half: questions and products with three seeds, in less than 15 minutes on two cores.")] = False,
    out: Annotated[Path, Option(
        file_okay=False, help="Output folder for records and scorecard. Runs found there are reused.")] = Path("score"),
    workers: Workers = None,
):
    "Train your own loss as the methods here are trained, and compare it with them."
    module_and_name(loss) # refuses another form before PyTorch is imported, which takes seconds
    from .score import score as scored
    asked = None if on is None else tuple(part.strip() for part in on.split(","))
    with _interruptible():
        scored(loss, weight, asked, small, out, workers, say=echo)


if __name__ == "__main__":
    app()
