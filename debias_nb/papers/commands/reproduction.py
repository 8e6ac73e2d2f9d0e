"Commands for a reader of the companion: run, batch, report, show, agree."
import os
import re
from contextlib import chdir
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Exit, Option

from ...checks import ConfigError, RunnerError, check_known, check_seeds, counted, quoted
from ...commands.terminal import REPRODUCTION, Full, ProfileOption, Workers, echo, end, interruptible, project_here

app = typer.Typer()


Again = Annotated[bool, Option("--fresh", help="Repeat runs that are already recorded.")]
DryRun = Annotated[bool, Option(
    "--dry-run", help="Say what the runs would cost (steps, memory, hours), and start none.")]
Seeds = Annotated[str | None, Option(help="Seeds, e.g. 0,1,2.")]
SEEDS = re.compile(r"(\s*\d{1,99}\s*,)*\s*\d{1,99}\s*") # Python reads no number of thousands of digits


def parse_seeds(text: str) -> list[int]: # e.g. `0,1,2`
    "Read the value of `--seeds`. Raise `RunnerError`."
    if not SEEDS.fullmatch(text):
        raise RunnerError(f"--seeds takes whole numbers with commas between them, such as 0,1,2; got {text!r}")
    seeds = [int(part) for part in text.split(",")]
    check_seeds("--seeds", seeds, RunnerError)
    return seeds


def parse_parameter(text: str) -> tuple[str, object]: # `name=value`
    "Read one `-p` argument. Raise `RunnerError`."
    from ...files import parse_yaml
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise RunnerError(f"-p takes name=value, got {text!r}")
    try:
        return name, parse_yaml(value, name)
    except ConfigError:
        raise RunnerError(f"-p {name}: {quoted(value)} is no YAML value") from None


METRIC_NAMES = {"auc05": "AUC(0.05)", "auc": "AUC", "psp1": "PSP@1", "psp5": "PSP@5", "p1": "P@1", "p5": "P@5",
                "ap": "average precision", "ndcg10": "nDCG@10", "map": "MAP", "mrr": "MRR", "r8": "R@8"}


def _print_tables(study) -> None:
    "Print the tables of a study, and what they lack."
    from ..pages.tables import markdown, means, missing
    if study.cells:
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


def _by_hand(run) -> bool:
    "Whether a run waits for data that no command can download."
    from ...data.registry import load_registry
    from ...runs.runner import absent
    dataset = load_registry().datasets.get(run.data.name) if run.data else None
    has_address = dataset is None or any(file.url for file in dataset.files)
    return not has_address and absent(run) is not None


def _print_costs(experiments: list, profile: str, fresh: bool) -> None:
    """Print what the runs of some experiments take that have no record.

    Nothing is loaded but configurations and records."""
    from ...runs.records import committed_store
    from ...runs.runner import present_records
    from ..costs import Measurements, Reckoning, forecast, two_digits
    from ..pages.tables import text_table
    source = Reckoning()
    basis = f"estimated for {source.assumptions['device']} from experiments/costs.yaml"
    if profile != "paper":
        committed = committed_store()
        papers = {experiment.asked.paper for experiment in experiments}
        places = [place for place in committed.places() if place.split("/")[0] in papers
                  and place.endswith(f".{profile}")]
        source = Measurements(list(chain(*map(committed.records, places))))
        basis = "as the records of like runs took, step for step, one after the other"
    rows = []
    unknown = {}
    lacking = 0
    is_here = profile != "paper" # which is planned here, and run where its data are
    for experiment in experiments:
        records = {} if fresh else present_records(experiment)
        waiting = {run.id for run in experiment.runs if is_here and run.id not in records and _by_hand(run)}
        lacking += len(waiting)
        costs = forecast(experiment.asked, {*records, *waiting}, source)
        row = costs.row()
        for name in ("steps", "memory (GiB)", "hours"):
            row[name] = "?" if row["without"] == row["runs"] > 0 else two_digits(row[name])
        rows.append(list(map(str, row.values())))
        unknown |= dict.fromkeys(costs.unknown)
    echo(text_table(["experiment", "runs to make", "of these unknown", "steps", "batch", "memory (GiB)", "hours"],
                    rows))
    echo(f"steps, memory and hours {basis}; runs that several experiments share are counted in each")
    if not fresh and not any(row[1] != "0" for row in rows):
        echo("all of these runs have a record; with --fresh this says what it takes to make them again")
    if lacking:
        echo(f"left out: {counted(lacking, 'runs')} on data that you download by hand (debias-nb data)")
    if unknown:
        echo(f"unknown, and left out of the sums: {'; '.join(unknown)}")


def _intended(experiment, profile: str, fresh: bool) -> str: # experiment: of `runner.load`
    "Say how many runs a command loads and how many it makes, and which it leaves out."
    from ...runs.runner import absent, present_records
    records = {} if fresh else present_records(experiment)
    others = [run for run in experiment.runs if run.id not in records]
    lacking = [run for run in others if absent(run)]
    failed = sum(record["status"] == "failed" for record in records.values())
    parts = [f"{counted(len(records) - failed, 'runs to load')}", f"{len(others) - len(lacking)} to make"]
    parts += [f"{failed} that failed before, to repeat with --fresh alone"] * bool(failed)
    parts += [f"{len(lacking)} without their data or encoders (debias-nb data)"] * bool(lacking)
    return f"{experiment.asked.name} at {profile}: {', '.join(parts)}"


def _run_one(
    name: str, profile: str, run_id: str, fresh: bool,
    options: dict[str, object], # those given, which change nothing
) -> None:
    "Make the run of an id, and execute no notebook. Raise `RunnerError` for other options."
    from ...runs.runner import load, run_all, store_for
    superfluous = [option for option, value in options.items() if value is not None]
    if superfluous:
        raise RunnerError("--only makes the run of an id, whose settings are fixed: leave out "
                          f"{', '.join(superfluous)}")
    runs = {run.id: run for run in load(name, profile, full=True).runs}
    check_known(f"run of {name} at {profile}", run_id, runs, RunnerError)
    outcome = run_all([runs[run_id]], store_for(profile), fresh, workers=1, progress=False)
    for reason in (outcome.missing | outcome.failed).values():
        end(f"{run_id}: {reason}")


def _parameters(p: list[str], **options) -> dict[str, object]: # options: None and False are not given
    "Read the parameters of a notebook. Raise `RunnerError` for one that is also an option, or is given twice."
    values = {name: value for name, value in options.items() if value not in (None, False)}
    for name, value in map(parse_parameter, p):
        if name == "profile":
            raise RunnerError("-p profile: the profile is an option of its own, such as --profile small")
        if name in values:
            raise RunnerError(f"{name} is given twice")
        values[name] = value
    return values


@app.command(rich_help_panel=REPRODUCTION)
def run(
    name: Annotated[str, Argument(help="Paper and experiment, e.g. itvreg/table03.")],
    profile: ProfileOption = "planted",
    p: Annotated[list[str] | None, Option(
        "-p", help="Set a parameter of the notebook, name=value (YAML). Repeatable.")] = None,
    seeds: Seeds = None,
    fresh: Again = False,
    full: Full = False,
    workers: Workers = None,
    only: Annotated[str | None, Option(help="Make the run of this id, and execute no notebook.")] = None,
    dry_run: DryRun = False,
):
    "Execute one notebook; load the runs that are recorded."
    root = project_here()
    if only is not None:
        return _run_one(name, profile, only, fresh,
                        {"-p": p, "--seeds": seeds, "--full": full or None, "--workers": workers})
    from ...runs import runner
    from ...runs.config import NARROWING
    from ..notebooks import configuration_of, execute_notebook, runs_itself, template_path
    from ..pages.execution import NotebookFailed, check_parameters
    from ..pages.frame import Results, RunsFailed, page
    from ..pages.places import executed_place
    seed_list = None if seeds is None else parse_seeds(seeds)
    parameters = _parameters(p or [], seeds=seed_list, fresh=fresh, full=full, workers=workers)
    configuration = configuration_of(name, profile, root)
    template = template_path(executed_place(configuration), root)
    values = check_parameters(template, parameters)
    is_own = runs_itself(template, values)
    narrowing = {key: values.get(key) for key in NARROWING}
    runner.check_workers(values.get("workers"))
    experiment = runner.load(name, profile, full=values.get("full", not is_own), **narrowing)
    if dry_run:
        return _print_costs([experiment], profile, fresh)
    echo(_intended(experiment, profile, fresh))
    try:
        with interruptible():
            study = None
            if is_own: # in this process, which has a terminal for their progress
                outcome = runner.run(experiment, fresh=values.pop("fresh", False), workers=values.get("workers"))
                study = page(experiment, outcome)
            out = execute_notebook(template, name, profile, values, root)
    except (NotebookFailed, RunsFailed) as e:
        end(f"{name} at {profile} failed: {e}")
    echo(f"executed: {os.path.relpath(out)}")
    if not study: # the notebook has made its own
        study = Results().study_of(experiment.asked, runner.store_for(profile))
        study.own = True
    _print_tables(study)
    trainings = {planned.id for planned in experiment.runs if planned.training}
    if trainings and trainings.isdisjoint(record["id"] for record in study.finished):
        end(f"nothing of {name} at {profile} that was asked for has been run")


Tables = Annotated[list[str] | None, Argument(
    help="Tables or papers, e.g. itvreg/table05 scan; default: all.", show_default=False)]


@app.command(rich_help_panel=REPRODUCTION)
def batch(
    tables: Tables = None,
    profile: ProfileOption = "planted",
    seeds: Seeds = None,
    fresh: Again = False,
    full: Full = False,
    workers: Workers = None,
    runs: Annotated[bool, Option(
        "--runs", help="Only make the runs; `debias-nb report` executes the notebooks.")] = False,
    dry_run: DryRun = False,
):
    """Make all runs of a profile, then execute its notebooks, whatever fails.

    With names of tables or papers, only theirs."""
    root = project_here()
    from ...runs import runner
    from ...runs.config import configured
    from ..notebooks import select_notebooks
    options = {"full": full}
    if seeds is not None:
        options["seeds"] = parse_seeds(seeds)
    configurations = configured(f"*/*.{profile}.yaml", root)
    if not configurations:
        raise RunnerError(f"no notebook has a configuration at profile {profile}")
    names = select_notebooks(tables, configurations)
    experiments, unreadable = {}, {}
    for name in names:
        try:
            experiments[name] = runner.load(name, profile, **options)
        except ConfigError as e:
            unreadable[name] = str(e)
    if dry_run:
        return _print_costs(list(experiments.values()), profile, fresh)
    with interruptible():
        outcome = runner.run(*experiments.values(), fresh=fresh, workers=workers) # all in one pool of processes
        failures = outcome.failed
        if not runs: # a notebook tells of its own runs that failed
            from ..notebooks import execute_all
            from ..pages.places import STUDY_OF, executed_place
            from ..pages.report import has_notebook
            pages = [executed_place(experiment.configuration) for experiment in experiments.values()]
            executable = [page for page in dict.fromkeys(pages) if page in STUDY_OF or has_notebook(page)]
            failures = execute_all(executable, profile, options | ({"workers": workers} if workers else {}), root,
                                   workers or runner.cores())
            executable += [*unreadable]
            failures |= unreadable
            echo(f"{len(executable) - len(failures)} of {len(executable)} notebooks at profile {profile} executed")
    for name, reason in failures.items():
        echo(f"failed: {name}: {reason}", err=True)
    for reason in dict.fromkeys(outcome.missing.values()):
        echo(f"not run: {reason}", err=True)
    if outcome.missing and not outcome.records:
        end(f"not one run at profile {profile} can be made")
    if failures or profile == "planted" and outcome.missing: # synthetic data need nothing that another machine has
        raise Exit(1)


def _write_some(
    names: list[str], folder: Path, results, root: Path, keep=None, bar=None,
) -> list[Path]: # what was written
    """Write some pages of the project in `root`: a worker may have begun elsewhere.

    What has no notebook yet is left out."""
    from ...runs.config import configured
    from ..pages.report import has_notebook, write_notebook, write_page
    paths = []
    folder.mkdir(parents=True, exist_ok=True)
    with chdir(root):
        for name in filter(has_notebook, names):
            if bar is not None:
                bar.update()
            if "/" in name and configured(f"{name}.*.yaml"):
                paths += write_page(name, folder, results, keep)
            else:
                paths += write_notebook(name, folder, results, {"folder": str(folder)}, keep=keep)
    return paths


def write_pages(
    names: list[str] | None, folder: Path, fresh: bool, root: Path, keep=None,
) -> list[Path]: # what was written
    "Write pages, or those of papers; None: all. keep: as of `report.write_notebook`."
    from ..pages.report import seal
    paths = _write_pages(names, folder, fresh, root, keep)
    seal(folder)
    return paths


def _write_pages(names: list[str] | None, folder: Path, fresh: bool, root: Path, keep) -> list[Path]:
    from joblib import Parallel, cpu_count, delayed
    from tqdm.auto import tqdm
    from ...runs.config import configured
    from ..notebooks import select_notebooks
    from ..pages.frame import Results, papers
    from ..pages.report import BOOKS, OF_PAPER, has_notebook, write_tables
    groups = [[*configured(f"{paper}/*.yaml"), *(f"{paper}/{name}" for name in OF_PAPER)] for paper in papers()]
    results = Results(fresh, is_page=True, pages=folder) # what is read for the pages of a paper serves the books, too
    if names:
        return _write_some(select_notebooks(names, [*chain(*groups), *BOOKS]), folder, results, root, keep)
    # papers side by side, the largest one here; the books speak of all of them, and pages link claims and tables
    largest, *smaller_groups = sorted(groups, key=len, reverse=True)
    others = [name for name in BOOKS if name != "claims"]
    pool = Parallel(min(cpu_count(), len(smaller_groups)), return_as="generator") # which begins at once
    write = delayed(_write_some)
    total = sum(has_notebook(name) for name in chain(*groups, BOOKS))
    with tqdm(total=total, desc="pages") as bar:
        paths = [*_write_some(["claims"], folder, results, root, keep, bar), *write_tables(folder, results)]
        elsewhere = pool(write(group, folder, Results(fresh, True, folder), root, keep) for group in smaller_groups)
        paths += _write_some(largest, folder, results, root, keep, bar)
        for group, written in zip(smaller_groups, elsewhere):
            paths += written
            bar.update(sum(map(has_notebook, group)))
        return paths + _write_some(others, folder, results, root, keep, bar)


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


def _runs_of(study, ids: list[str], with_ids: bool, table: str = "") -> list[str]: # ids: of its runs
    "Say which runs a number rests on: how many, seeds, settings, commits, the command that makes them again, and ids."
    from ..pages.tables import commit_of
    name, profile = study.experiment.name, study.experiment.profile
    place = f"{name}.{profile}"
    records = [study.records_by_id[run] for run in ids]
    seeds = ", ".join(map(str, sorted({record["seed"] for record in records})))
    commits = ", ".join(sorted({commit_of(record["environment"]) for record in records}))
    shown = ids if with_ids else ids[:3]
    more = f" and {len(ids) - len(shown)} more, with --ids" * (len(shown) < len(ids))
    return [f"{place}{f', {table}' * bool(table)}: {len(ids)} runs of experiments/{place}.parquet, seeds {seeds}",
            f"  settings: experiments/{name}.yaml; commits: {commits}",
            f"  again: debias-nb run {name} --profile {profile} --fresh",
            f"  runs: {', '.join(shown)}{more}"]


def _as_typed(text: str) -> str:
    "Return a number or an estimate with the minus of a keyboard, and without a plus."
    return re.sub(r"(?<![\d.])\+", "", text.strip().replace("−", "-"))


def _matching_cells(number: str, page: str) -> list: # study and cell
    "Find the cells of a page's tables that show a number. Raise `RunnerError` for a page that is none."
    import pandas as pd
    from ..pages.frame import Results, all_experiments
    from ..pages.places import page_of
    paper, _, _ = page.partition("/")
    check_known("paper", paper, ("itvreg", "arr", "scan"), RunnerError)
    tables = {(table.id, one.profile): one for one in all_experiments(paper) for table in one.tables
              if page_of(one) == page}
    check_known("page", page, {page_of(one) for one in all_experiments(paper)}, RunnerError)
    cells = pd.read_csv(project_here() / "reports/cells.csv", usecols=["paper", "table", "profile", "value"])
    digits = len(number.partition(".")[2])
    rows = cells[(cells.paper == paper) & cells.value.map(lambda value: f"{value:.{digits}f}" == number)]
    studies = [tables[place] for place in dict.fromkeys(zip(rows.table, rows.profile)) if place in tables]
    found = []
    for one in {one.profile + one.name: one for one in studies}.values():
        study = Results().load(one.name, one.profile)
        found += [(study, cell) for cell in study.cells
                  if cell.level and f"{cell.value:.{digits}f}" == number and page_of(one) == page]
    return found


def _matching_facts(what: str, page: str | None) -> list:
    "Find the facts of that name, or that show a number or an estimate, sign included; on a page those of its records."
    from ..pages.facts import NUMBER, Facts
    found = []
    for name, fact in Facts.read().items():
        shown = [str(fact), fact.estimate]
        numbers = [number for text in shown for number in NUMBER.findall(text)]
        is_there = page is None or any(f"{page}." in place for place in fact.records.split("; "))
        if is_there and (what == name or _as_typed(what) in map(_as_typed, [*shown, *numbers])):
            found.append(fact)
    return found


@app.command(rich_help_panel=REPRODUCTION)
def show(
    what: Annotated[str, Argument(
        help="A name of reports/facts.csv, or a number or an estimate of a page, e.g. 26.5 or '+1.3 [+0.9, +1.8]'.")],
    ids: Annotated[bool, Option("--ids", help="List the ids of all runs.")] = False,
    page: Annotated[str | None, Option(help="The page that it stands on, e.g. itvreg/table02.")] = None,
):
    """Lead from a number of README, the findings, the claims or a table to its runs.

    It says value, interval, records, seeds, settings and commits, and the command that makes the runs again."""
    project_here()
    from ..pages.frame import Results
    cells = _matching_cells(_as_typed(what), page) if page else []
    facts = _matching_facts(what, page)
    if not facts and not cells:
        raise RunnerError(f"{what!r} is neither a cell of ours on {page} nor an estimate with a name" if page else
                          f"{what!r} is no fact of reports/facts.csv, and none shows it; with --page also cells count")
    for study, cell in cells:
        ends = f" [{cell.level.low:.6g}, {cell.level.high:.6g}]" * (cell.level.n > 1)
        echo("\n".join([f"{cell.table}, {cell.method}, {cell.column}, {cell.encoder}: {cell.value:.6g}{ends}",
                        *_runs_of(study, cell.records, ids, cell.table)]))
    places = {}
    for fact in facts:
        echo(f"{fact.name}: {' by test: '.join(filter(None, (fact.estimate, str(fact))))}")
        echo(f"  {fact.records or 'counted by nbs/papers/facts.ipynb from all records'}")
        places |= dict.fromkeys(filter(None, fact.records.split("; ")))
    for place in [place for place in places if not place.startswith("experiments/")]:
        experiment, _, table = place.partition(":")
        name, _, profile = experiment.rpartition(".")
        study = Results().load(name, profile)
        runs = dict.fromkeys(run for cell in study.cells if table in ("", cell.table) for run in cell.records)
        for line in _runs_of(study, list(runs), ids, table):
            echo(line)
