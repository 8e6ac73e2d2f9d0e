"""From the lines of the record files to one tidy table: a row a run, test and metric."""
import gc
import math
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import get_args

import pandas as pd

from ...checks import UserError, check_known
from ...files import project_root
from ...runs.config import ExperimentConfig, Names, Profile, RunConfig, configured, load_experiment, typed
from .cells import COMPLETE, Cell, table_cells
from ...runs.pairing import results_of, run_of
from ...runs.records import Records, Store, latest


PROFILES = get_args(Profile)


def found_records(
    experiment: ExperimentConfig,
    store: Store,
    runs: list[RunConfig] | None = None, # its runs, where they are known
) -> Records: # id -> record
    """The newest record of every run of an experiment, and as `run` the run itself, whose method has the name that the
    experiment has for it; blocks may take theirs from other experiments."""
    runs = {run.id: run for run in runs or experiment.runs()}
    read = read_so_far() # inside `only_stored()` a file is read once: several experiments may take theirs from it
    found = {}
    for name in dict.fromkeys(run.experiment for run in runs.values()):
        place = f"{experiment.paper}/{name}.{experiment.profile}"
        file = store.folder, place
        if file not in read:
            read[file] = latest(store.records(place, short=read.get("short", False)))
            gc.freeze() # records hold no cycles, and there are many: they are not searched for garbage
        found |= {i: record | {"run": runs[i]} for i, record in read[file].items() if i in runs}
    return {i: found[i] for i in runs if i in found} # in the order of the configuration, whichever they are read in


def profiles_of(
    name: str, # `paper/experiment`
) -> list[str]: # richest last
    "The profiles that an experiment has a configuration for."
    folder = project_root() / "configs"
    return [profile for profile in PROFILES if (folder / f"{name}.{profile}.yaml").is_file()]


def all_experiments(paper: str) -> list[ExperimentConfig]:
    "Every configuration of a paper, in the order of names and profiles."
    names = configured(f"{paper}/*.yaml")
    return [load_experiment(name, profile) for name in names for profile in profiles_of(name)]


def papers() -> list[str]:
    "Papers with numbers in `expected/`."
    files = (project_root() / "expected").glob("*.yaml")
    return sorted(file.stem for file in files)


def results(
    profile: str,
    fresh: bool = False, # planted records of this machine's `_runs/` instead of the committed reference
) -> Store:
    "Where a report reads its records."
    if fresh and profile == "planted":
        from ...runs.runner import store_for
        return store_for(profile)
    return Store(project_root() / "results")


COLUMNS = ["table", "encoder", "corpus", "test", "shift", "method", "family", "strength", "rate", "epochs",
           "texts", "share", "against", "evaluate", "metric", "unit", "further", "seed", "key", "overlap", "complete", "value",
           "resampled", "made", "clean", "record"]


def runs_frame(
    cells: list[Cell],       # of tables at one profile
    found: Records,          # id -> record
    further: dict[str, Names], # table -> metrics listed below it
    own: bool = False,       # records of this machine, which may be paired whatever the state of the tree
) -> pd.DataFrame: # `COLUMNS`; values in the unit of their table
    "A row a run, test and metric."
    rows = []
    for cell in cells:
        metrics = dict.fromkeys([cell.metric, *further.get(cell.table, ())])
        place = vars(cell) | dict(test=cell.column, complete=cell.status in COMPLETE)
        for metric, i in product(metrics, cell.records):
            for row in results_of(found[i], cell.evaluate, [metric], cell.unit):
                run = run_of(found[i], row["value"], row["resampled"])
                rows.append(place | run._asdict() | row | dict(further=metric != cell.metric, record=i))
    frame = pd.DataFrame(rows, columns=COLUMNS)
    frame = frame.astype({"further": bool, "complete": bool} | dict.fromkeys(["strength", "rate", "epochs", "share"], float))
    if own:
        frame["clean"] = True
    return frame


def only(
    rows: pd.DataFrame,
    **where, # column -> the value that is asked for, or several
) -> pd.DataFrame:
    "The rows that are asked for."
    for column, wanted in where.items():
        if pd.api.types.is_scalar(wanted):
            wanted = [wanted]
        rows = rows[rows[column].isin(wanted)]
    return rows


A_COPY = "In JupyterLab, save it under another name: this notebook keeps the outputs of its page."
@dataclass
class Study:
    "One experiment at one profile: its runs as a tidy frame, and the records behind them."
    experiment: ExperimentConfig
    found: Records   # id -> its newest record
    cells: list[Cell]        # of all its tables
    came: str = ""           # what was loaded and what was run
    own: bool = False        # whether the records are of this machine alone
    asked: dict[str, object] = field(default_factory=dict) # parameters by which it is not what the configuration says

    @property
    def unlike(self) -> str: # empty where it is just that
        return ", ".join(f"{key} = {value}" for key, value in self.asked.items())

    @property
    def options(self) -> str: # of the command that makes it
        return "".join(f' -p "{key}={value}"' for key, value in self.asked.items())

    @cached_property
    def runs(self) -> pd.DataFrame:
        "All of its runs, as `runs_frame` has them."
        further = {table.id: table.also for table in self.experiment.tables}
        runs = runs_frame(self.cells, self.found, further, self.own)
        runs.attrs["study"] = self.experiment.name, self.experiment.profile # parts of it keep that
        return runs

    @property
    def records(self) -> list[dict]:
        return list(self.found.values())

    @property
    def finished(self) -> list[dict]:
        return [record for record in self.records if record["status"] == "finished"]

    def __getitem__(self, table: str) -> pd.DataFrame:
        "The runs of one table. Raises `KeyError` for a table that the configuration does not have."
        check_known("table", table, [one.id for one in self.experiment.tables], KeyError)
        return only(self.runs, table=table)

    def __contains__(self, table: str) -> bool:
        return any(one.id == table for one in self.experiment.tables)

    def _repr_markdown_(self) -> str:
        words = f"**Profile `{self.experiment.profile}`:** {self.experiment.scale}. {self.came}"
        if self.cells and all(cell.unit == "fraction" for cell in self.cells):
            words += " Scores are fractions: times 100 they are points."
        if self.unlike:
            words = f"**Not the settings of the configuration:** {self.unlike}. {A_COPY}\n\n{words}"
        return words


_reading = ContextVar("reading", default=None) # `fresh`, and the studies read so far; None: runs are made


def read_so_far() -> dict: # one of its own where runs are made
    return _reading.get() or {}


@contextmanager
def only_stored(
    fresh: bool = False, # as in `results`
    short: bool = False, # without what tables of means do not need; see `Store.records`
):
    "Inside, `study` runs nothing and reads what is stored, once; what lies inside another shares its reading."
    known = read_so_far()
    if known.get("fresh") == fresh and known["short"] <= short:
        yield
        return
    token = _reading.set({"fresh": fresh, "short": short})
    try:
        yield
    finally:
        _reading.reset(token)


def study_of(
    experiment: ExperimentConfig,
    *stores: Store, # where its records are; those of a later one count
) -> Study:
    "What records say of an experiment."
    runs = experiment.runs()
    found = {}
    for store in stores:
        found |= found_records(experiment, store, runs)
    cells = [cell for table in experiment.tables for cell in table_cells(experiment, table, found)]
    study = Study(experiment, found, cells)
    study.came = came_of(experiment, len(study.finished), len(runs))
    return study


def came_of(experiment: ExperimentConfig, finished: int, configured: int) -> str:
    "How many runs completed; of those that were announced, where these were more."
    plan = experiment.announced
    if plan is None:
        return f"{finished:,} of {configured:,} runs completed."
    words = f"{finished:,} of {plan.runs:,} announced runs completed ({plan.why}; announced in {', '.join(plan.commits)})."
    if finished < configured:
        words += f" The configuration keeps {configured:,} of them."
    return words


def stored(
    name: str,    # `paper/experiment`
    profile: str,
) -> Study:
    "What the stored records say of an experiment; nothing is run. Inside `only_stored()` they are read once."
    known = read_so_far()
    if (name, profile) not in known:
        store = results(profile, fresh=known.get("fresh", False))
        known[name, profile] = study_of(load_experiment(name, profile), store)
    return known[name, profile]


NARROWING = ("seeds", "methods", "encoders", "weight") # parameters by which a study is not what its configuration says


class RunsFailed(UserError, RuntimeError):
    "Runs whose training stopped."


def make_study(
    name: str,             # `paper/experiment`
    profile: str,
    asked: dict,           # seeds, methods, encoders, weight, full, as `study` has them
    workers: int | None,   # processes; None: one a core
    fresh: bool,           # run again what has a record
) -> Study:
    """Run what is missing, load what exists. What the configuration does not ask for, and what is run again, goes to this
    machine's own records. Raises `RunsFailed` naming the runs that failed."""
    from ...runs.runner import narrow, own_store, run_all, store_for
    configuration = load_experiment(name, profile)
    experiment = narrow(configuration, **asked)
    known = {run.id for run in configuration.runs()} if profile != "planted" and not fresh else ()
    kept = []
    others = []
    for run in experiment.runs():
        (kept if run.id in known else others).append(run)
    outcomes = [run_all(kept, store_for(profile), workers=workers),
                run_all(others, own_store(), fresh=fresh, workers=workers)]
    failed = [f"{run}: {why}" for one in outcomes for run, why in one.failed.items()]
    if failed:
        raise RunsFailed("; ".join(failed))
    study = study_of(experiment, store_for(profile), own_store())
    study.own = True
    study.asked = {key: asked[key] for key in NARROWING if asked[key] is not None}
    records = sum(len(one.records) for one in outcomes)
    trained = sum(len(one.trained) for one in outcomes)
    missing = [why for one in outcomes for why in one.missing.values()]
    came = [f"{records} records, {trained} of them run now; {len(missing)} runs lack something."]
    if missing and not records:
        came[0] += ' Synthetic data need nothing: set `profile = "planted"` and `own = True`.'
    study.came = "\n".join(came + [f"- {why}" for why in dict.fromkeys(missing)])
    return study


def study(
    name: str,                         # `paper/experiment`
    profile: str,                      # planted, small or paper
    seeds: list[int] | None = None,    # None: those of the configuration
    methods: list[str] | None = None,  # names; None: all
    encoders: list[str] | None = None, # labels; None: all
    weight: float | None = None,       # another lambda for every method that has one
    full: bool = False,                # with the parts that take long
    workers: int | None = None,        # processes; None: one a core
    fresh: bool = False,               # run again what has a record
    own: bool = False,                 # run here what has no record, instead of reading what is stored
) -> Study:
    """What is stored, where nothing else is asked for; else what is missing is run and what exists loaded.
    Raises `RunsFailed` naming the runs that failed, `ConfigError` for a parameter that is unknown or of another type."""
    if _reading.get() is not None:
        return stored(name, profile)
    given = dict(seeds=seeds, methods=methods, encoders=encoders, weight=weight, full=full, workers=workers,
                 fresh=fresh, own=own)
    given = {key: typed(key, value, study.__annotations__[key]) for key, value in given.items()}
    asked = {key: given[key] for key in (*NARROWING, "full")}
    differs = given["own"] or given["fresh"] or full or any(asked[key] is not None for key in NARROWING)
    if not differs:
        known = stored(name, profile)
        if known.finished:
            return known
    try:
        return make_study(name, profile, asked, given["workers"], given["fresh"])
    except KeyboardInterrupt:
        raise RunsFailed(f"{name} was interrupted; finished runs are kept, and the same cell goes on from there") from None


def scales(
    name: str, # `paper/experiment`
) -> list[str]: # richest first
    "The profiles at which some run has finished."
    known = profiles_of(name)
    return [profile for profile in reversed(known) if stored(name, profile).finished]


def best_settings(
    runs: pd.DataFrame, # of a table with several settings of each method
) -> dict[str, str]: # family -> the method with the highest mean, the first of equals
    "The setting of each method that did best, of those whose runs have all finished."
    means = runs[runs.complete].groupby(["family", "method"], sort=False).value.mean()
    return dict(means.groupby("family", sort=False).idxmax().tolist())


def nearest(
    runs: pd.DataFrame, # of one table and one base encoder
    methods: list[str], # a method in several strengths
    to: str,            # another method
) -> str:
    "The strength that scores most nearly as the other method does in distribution; the first of equals, or where none has run."
    inside = only(runs, shift="iid").groupby("method", sort=False).value.mean()
    away = (inside.reindex(methods) - inside.get(to, math.nan)).abs()
    return away.fillna(math.inf).idxmin()
