"Commands for a reader of the companion: run, batch, report, show, agree."
import os
import re
from contextlib import chdir
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Exit, Option

from ...checks import ConfigError, RunnerError, check_known, counted, quoted
from ...commands.terminal import REPRODUCTION, Full, ProfileOption, Workers, echo, end, interruptible, project_here

app = typer.Typer()


Again = Annotated[bool, Option("--fresh", help="Repeat runs that are already recorded.")]
DryRun = Annotated[bool, Option("--dry-run", help="Say how many runs there are and what they take, and start none.")]


def _parameters(texts: list[str], **options) -> dict[str, object]: # texts: `name=value`; options: False is not given
    "Read the parameters of a notebook. Raise `RunnerError` for what is none, is also an option, or is given twice."
    from ...files import parse_yaml
    values = {name: value for name, value in options.items() if value}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise RunnerError(f"-p takes name=value, got {text!r}")
        if name == "profile":
            raise RunnerError("-p profile: the profile is an option of its own, such as --profile small")
        if name in values:
            raise RunnerError(f"{name} is given twice")
        try:
            values[name] = parse_yaml(value, name)
        except ConfigError:
            raise RunnerError(f"-p {name}: {quoted(value)} is no YAML value") from None
    return values


METRIC_NAMES = {"auc05": "AUC(0.05)", "auc": "AUC", "psp1": "PSP@1", "psp5": "PSP@5", "p1": "P@1", "p5": "P@5",
                "ap": "average precision", "ndcg10": "nDCG@10", "map": "MAP", "mrr": "MRR", "r8": "R@8"}


def _print_tables(study) -> None:
    "Print the tables of a study, and what they lack."
    from ..pages.tables import markdown, means, missing
    if len(study.cells):
        echo(f"\n{study.experiment.title} ({study.experiment.scale})")
    if study.unlike:
        echo(f"not the settings of the configuration: {study.unlike}")
    for table, runs in study.runs.groupby("table", sort=False):
        rows = means(runs)
        if len(rows):
            metric = runs.metric.iloc[0].partition("[")[0]
            echo(f"\n{table}, {METRIC_NAMES.get(metric, metric)}, {runs.unit.iloc[0]}\n{markdown(rows)}")
    gaps = missing(study)
    if gaps:
        echo(f"\n{gaps}")


def _plan(experiment, profile: str, fresh: bool) -> None: # experiment: of `runner.load`
    "Say how many runs a command loads and makes, which it leaves out, and what runs like these took."
    from ...runs.records import committed_store
    from ...runs.runner import absent, newest_records, present_records
    from ..costs import reckoned, taken
    records = {} if fresh else present_records(experiment)
    others = [run for run in experiment.runs if run.id not in records]
    waiting = [run for run in others if profile != "paper" and absent(run)]
    failed = sum(record["status"] == "failed" for record in records.values())
    parts = [f"{counted(len(records) - failed, 'runs to load')}", f"{len(others) - len(waiting)} to make"]
    parts += [f"{failed} that failed before, to repeat with --fresh alone"] * bool(failed)
    parts += [f"{len(waiting)} without their data or encoders (debias-nb data)"] * bool(waiting)
    committed = newest_records(experiment.runs, committed_store())
    measured = [record for record in committed.values() if record["status"] == "finished"]
    if len(others) > len(waiting) and (measured or profile == "paper"):
        took, memory = reckoned(others) if profile == "paper" else taken(measured, len(others) - len(waiting))
        parts.append(f"{took}, {memory} GiB {'on a GPU, estimated' if profile == 'paper' else 'as records took'}")
    echo(f"{experiment.asked.name} at {profile}: {', '.join(parts)}")


def _run_one(name: str, profile: str, run_id: str, fresh: bool) -> None:
    "Make the run of an id, and execute no notebook."
    from ...runs.runner import load, run_all, store_for
    runs = {run.id: run for run in load(name, profile, full=True).runs}
    check_known(f"run of {name} at {profile}", run_id, runs, RunnerError)
    outcome = run_all([runs[run_id]], store_for(profile), fresh, workers=1, progress=False)
    for reason in (outcome.missing | outcome.failed).values():
        end(f"{run_id}: {reason}")


@app.command(rich_help_panel=REPRODUCTION)
def run(
    name: Annotated[str, Argument(help="Paper and experiment, e.g. itvreg/table03.")],
    profile: ProfileOption = "planted",
    p: Annotated[list[str] | None, Option(
        "-p", help="Set a parameter of the notebook, name=value (YAML), as 'seeds=[0, 1]'. Repeatable.")] = None,
    fresh: Again = False,
    full: Full = False,
    only: Annotated[str | None, Option(help="Make the run of this id, and execute no notebook.")] = None,
    dry_run: DryRun = False,
):
    "Execute one notebook; load the runs that are recorded."
    root = project_here()
    if only is not None:
        if p or full:
            raise RunnerError("--only makes the run of an id, whose settings are fixed: leave out -p and --full")
        return _run_one(name, profile, only, fresh)
    from ...runs import runner
    from ...runs.config import NARROWING
    from ..notebooks import configuration_of, execute_notebook, runs_itself, template_of
    from ..pages.execution import check_parameters
    from ..pages.frame import Results, RunsFailed, page
    parameters = _parameters(p or [], fresh=fresh, full=full)
    template = template_of(configuration_of(name, profile, root), root)
    values = check_parameters(template, parameters)
    is_own = runs_itself(template, values)
    narrowing = {key: values.get(key) for key in NARROWING}
    runner.check_workers(values.get("workers"))
    experiment = runner.load(name, profile, full=values.get("full", not is_own), **narrowing)
    _plan(experiment, profile, fresh)
    if dry_run:
        return
    try:
        with interruptible():
            study = None
            if is_own: # in this process, which has a terminal for their progress
                outcome = runner.run(experiment, fresh=values.pop("fresh", False), workers=values.get("workers"))
                study = page(experiment, outcome)
            out = execute_notebook(template, name, profile, values, root)
    except RunsFailed as e:
        end(f"{name} at {profile} failed: {e}")
    echo(f"executed: {os.path.relpath(out)}")
    if not study: # the notebook has made its own
        study = Results().study_of(experiment.asked, runner.store_for(profile))
        study.own = True
    _print_tables(study)
    trainings = {planned.id for planned in experiment.runs if planned.training}
    if trainings and trainings.isdisjoint(record["id"] for record in study.finished):
        end(f"nothing of {name} at {profile} that was asked for has been run")


@app.command(rich_help_panel=REPRODUCTION)
def batch(
    tables: Annotated[list[str] | None, Argument(
        help="Tables or papers, e.g. itvreg/table05 scan; default: all.", show_default=False)] = None,
    profile: ProfileOption = "planted",
    seeds: Annotated[list[int] | None, Option(help="A seed; default: all. Repeatable.", show_default=False)] = None,
    fresh: Again = False,
    full: Full = False,
    workers: Workers = None,
    dry_run: DryRun = False,
):
    """Make all runs of a profile, whatever fails; `report` makes the pages.

    With names of tables or papers, only theirs."""
    root = project_here()
    from ...runs import runner
    from ...runs.config import configured
    from ..notebooks import select_notebooks
    configurations = configured(f"*/*.{profile}.yaml", root)
    if not configurations:
        raise RunnerError(f"nothing has a configuration at profile {profile}")
    experiments = [runner.load(name, profile, seeds=seeds or None, full=full)
                   for name in select_notebooks(tables, configurations)]
    if dry_run:
        for experiment in experiments:
            _plan(experiment, profile, fresh)
        return
    with interruptible():
        outcome = runner.run(*experiments, fresh=fresh, workers=workers) # all in one pool of processes
    for name, reason in outcome.failed.items():
        echo(f"failed: {name}: {reason}", err=True)
    for reason in dict.fromkeys(outcome.missing.values()):
        echo(f"not run: {reason}", err=True)
    if outcome.missing and not outcome.records:
        end(f"not one run at profile {profile} can be made")
    if outcome.failed or profile == "planted" and outcome.missing: # which needs nothing that another machine has
        raise Exit(1)


def write_pages(
    names: list[str] | None, folder: Path, fresh: bool, root: Path, keep=None,
) -> list[Path]: # what was written
    "Write pages, or those of papers; None: all. keep: as of `report.write_notebook`."
    from joblib import Parallel, cpu_count, delayed
    from tqdm.auto import tqdm
    from ...runs.config import configured
    from ..notebooks import select_notebooks
    from ..pages.frame import Results, papers
    from ..pages.report import BOOKS, OF_PAPER, seal, write_some, write_tables
    groups = [[*configured(f"{paper}/*.yaml"), *(f"{paper}/{name}" for name in OF_PAPER)] for paper in papers()]
    results = Results(fresh, is_page=True) # what is read for the pages of a paper serves the books, too
    with chdir(root):
        if names:
            paths = write_some(select_notebooks(names, [*chain(*groups), *BOOKS]), folder, results, root, keep)
        else: # papers side by side; the books speak of all of them, and pages link claims and tables
            paths = [*write_some(["claims"], folder, results, root, keep), *write_tables(folder, results)]
            pool = Parallel(min(cpu_count(), len(groups)), return_as="generator")
            written = pool(delayed(write_some)(group, folder, Results(fresh, True), root, keep)
                           for group in groups)
            paths += chain(*tqdm(written, desc="papers", total=len(groups)))
            paths += write_some([name for name in BOOKS if name != "claims"], folder, results, root, keep)
        seal(folder)
    return paths


@app.command(rich_help_panel=REPRODUCTION)
def report(
    names: Annotated[list[str] | None, Argument(
        help="Pages, or papers for all of theirs; default: all.", show_default=False)] = None,
    fresh: Annotated[bool, Option(
        "--fresh", help="Read your own synthetic-data runs from _runs/ instead of the committed ones.")] = False,
    out: Annotated[Path | None, Option(
        help="Output folder; default: reports/, or _runs/reports/ with --fresh.")] = None,
):
    """Write the pages with their tables and figures from records.

    Notebooks are executed; nothing is trained."""
    root = project_here()
    folder = out.absolute() if out else root / ("_runs/reports" if fresh else "reports")
    pages = [path for path in write_pages(names, folder, fresh, root) if path.suffix == ".md"]
    first = next((page for page in pages if page == folder / "README.md"), pages[0])
    echo(f"{counted(len(pages), 'pages')} written: begin with {os.path.relpath(first)}")


@app.command(rich_help_panel=REPRODUCTION)
def agree():
    """Compare this machine's synthetic-data records with the committed ones, and check these.

    Exit code 1 where there is nothing to compare, or where one metric of one run is further from its record than its
    kind of encoder may be on any processor; every count has to be the same. The same where committed records are not as
    they were published, or were made by code that is not in the history of this clone, before their commit, or of runs
    that its configurations did not name."""
    root = project_here()
    from ..pages.frame import Results
    from ...runs.origin import NO_HISTORY, history
    from ...runs.publish import unfounded
    from ...runs.records import latest
    from ..reproduce import agreement
    sides = []
    for store in (Results(fresh=True).store("planted"), Results().store("planted")):
        places = [place for place in store.places() if place.endswith(".planted")]
        sides.append(latest(record for place in places for record in store.records(place)))
    lines, do_agree = agreement(*sides)
    for line in lines:
        echo(line)
    commits = history(root)
    faults = [NO_HISTORY] if commits is None else unfounded(root, commits)
    for fault in faults:
        echo(fault, err=True)
    if not do_agree or faults and commits is not None:
        raise Exit(1)


SHOWN_IDS = 10


def _runs_of(study, ids: list[str], table: str = "") -> list[str]: # ids: of its runs
    "Say which runs a number rests on: how many, seeds, settings, commits, the command that makes them again, and ids."
    from ...runs.config import file_of, place_of
    from ..pages.tables import commit_of
    name, profile = study.experiment.name, study.experiment.profile
    records = [study.records_by_id[run] for run in ids]
    seeds = ", ".join(map(str, sorted({record["seed"] for record in records})))
    commits = ", ".join(sorted({commit_of(record["environment"]) for record in records}))
    more = f" and {len(ids) - SHOWN_IDS} more" * (SHOWN_IDS < len(ids))
    file = f"experiments/{place_of(name)}.{profile}.parquet"
    return [f"{name}.{profile}{f', {table}' * bool(table)}: {len(ids)} runs of {file}, seeds {seeds}",
            f"  settings: {file_of(name)}; commits: {commits}",
            f"  again: debias-nb run {name} --profile {profile} --fresh",
            f"  runs: {', '.join(ids[:SHOWN_IDS])}{more}"]


def _as_typed(text: str) -> str:
    "Return a number or an estimate with the minus of a keyboard, and without a plus."
    return re.sub(r"(?<![\d.])\+", "", text.strip().replace("−", "-"))


def _matching_cells(number: str, page: str) -> list: # study and cell
    "Find the cells of a page's tables that show a number. Raise `RunnerError` for a page that is none."
    from ..notebooks import page_of
    from ..pages.frame import Results, all_experiments, experiments_of, papers
    experiments = experiments_of(page)
    if not experiments:
        pages = {page_of(one) for paper in papers() for one in all_experiments(paper)}
        check_known("page", page, sorted(pages), RunnerError)
    digits = len(number.partition(".")[2])
    found = []
    for one in experiments:
        study = Results().load(one.name, one.profile)
        found += [(study, cell) for cell in study.cells.dropna(subset="value").itertuples()
                  if f"{cell.value:.{digits}f}" == number]
    return found


def _matching_facts(what: str, page: str | None) -> list:
    "Find the facts of that name, or that show a number or an estimate, sign included; on a page those of its records."
    from ..pages.facts import NUMBER, Facts
    found = []
    for name, fact in Facts.read().items():
        shown = [*filter(None, (str(fact), fact.estimate))]
        numbers = [number for text in shown for number in NUMBER.findall(text)]
        is_there = page is None or any(f"{page}." in place for place in fact.records.split("; "))
        if is_there and (what == name or _as_typed(what) in map(_as_typed, [*shown, *numbers])):
            found.append(fact)
    return found


@app.command(rich_help_panel=REPRODUCTION)
def show(
    what: Annotated[str, Argument(
        help="A name of reports/facts.csv, or a number or an estimate of a page, e.g. 26.5 or '+1.3 [+0.9, +1.8]'.")],
    page: Annotated[str | None, Option(help="The page that it stands on, e.g. itvreg/table02.")] = None,
):
    """Lead from a number of README, the findings, the claims or a table to its runs.

    It says value, interval, records, seeds, settings and commits, and the command that makes the runs again."""
    project_here()
    from ..pages.frame import Results, only
    cells = _matching_cells(_as_typed(what), page) if page else []
    facts = _matching_facts(what, page)
    if not facts and not cells:
        raise RunnerError(f"{what!r} is neither a cell of ours on {page} nor an estimate with a name" if page else
                          f"{what!r} is no fact of reports/facts.csv, and none shows it; with --page also cells count")
    for study, cell in cells:
        ends = f" [{cell.low:.6g}, {cell.high:.6g}]" * (cell.n > 1)
        echo("\n".join([f"{cell.table}, {cell.method}, {cell.column}, {cell.encoder}: {cell.value:.6g}{ends}",
                        *_runs_of(study, cell.records, cell.table)]))
    places = {}
    for fact in facts:
        echo(f"{fact.name}: {' by test: '.join(filter(None, (fact.estimate, str(fact))))}")
        echo(f"  {fact.records or 'counted by nbs/papers/facts.ipynb from all records'}")
        places |= dict.fromkeys(filter(None, fact.records.split("; ")))
    for place in [place for place in places if not place.startswith("experiments/")]:
        experiment, _, table = place.partition(":")
        name, _, profile = experiment.rpartition(".")
        study = Results().load(name, profile)
        cells = only(study.cells, table=table) if table else study.cells
        runs = dict.fromkeys(run for own in cells.records for run in own)
        for line in _runs_of(study, list(runs), table):
            echo(line)
