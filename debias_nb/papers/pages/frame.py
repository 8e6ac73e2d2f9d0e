"""From the lines of the record files to one tidy table: one row per run, test and metric."""
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import get_args

import pandas as pd

from ...checks import UserError, check_known, counted, stoppable
from ...files import once_per_state, project_root
from ...runs.config import NARROWING, ExperimentConfig, Profile, configured, file_of, load_experiment, sections, typed
from ..notebooks import page_of
from .cells import frame_of, table_cells
from ...runs.pairing import record_results, run_of
from ...runs.parameters import check_injected
from ...runs.records import Records, Store, committed_store, latest


PROFILES = get_args(Profile)
_sections_once = once_per_state(lambda path: list(sections(path)))


def profiles_of(
    name: str, # `paper/experiment`
) -> list[str]: # richest last
    "List the profiles that an experiment has a configuration for."
    path = project_root() / file_of(name)
    return _sections_once(path) if path.is_file() else []


def all_experiments(paper: str) -> list[ExperimentConfig]:
    "Load every configuration of a paper, in the order of names and profiles."
    names = configured(f"{paper}/*.yaml")
    return [load_experiment(name, profile) for name in names for profile in profiles_of(name)]


def experiments_of(page: str) -> list[ExperimentConfig]: # page: a notebook of `nbs/papers/`
    "Load every configuration that a page shows, and no other one."
    folder = page.partition("/")[0]
    of_papers = papers() if folder == "studies" else [folder]
    return [one for paper in of_papers for one in all_experiments(paper) if page_of(one) == page]


def papers() -> list[str]:
    "List the papers with numbers in `experiments/printed/`."
    files = (project_root() / "experiments/printed").glob("*.yaml")
    return sorted(file.stem for file in files)


RUN_COLUMNS = ["table", "encoder", "role", "corpus", "test", "shift", "method", "family", "strength", "rate", "epochs",
           "texts", "share", "against", "evaluate", "metric", "unit", "further", "seed", "key", "overlap",
           "complete", "value", "steps",
           "resampled", "made", "clean", "training_data", "base_encoder", "test_data"]


def only(
    rows: pd.DataFrame,
    **where, # column -> the value that is asked for, or several
) -> pd.DataFrame:
    "Select rows by the values of columns."
    for column, values in where.items():
        if pd.api.types.is_scalar(values):
            values = [values]
        rows = rows[rows[column].isin(values)]
    return rows


A_COPY = "In JupyterLab, save it under another name: this notebook keeps the outputs of its page."
@dataclass
class Study:
    "One experiment at one profile: its runs as a tidy frame, and the records behind them."
    experiment: ExperimentConfig
    records_by_id: Records # the newest of each run
    cells: pd.DataFrame    # of all its tables, as `cells.CELL`
    summary: str = ""      # what was loaded and what was run
    own: bool = False      # whether the records are of this machine alone
    changes: dict[str, object] = field(default_factory=dict) # parameters that differ from the configuration

    @property
    def unlike(self) -> str: # empty where it is just that
        return ", ".join(f"{key} = {value}" for key, value in self.changes.items())

    @property
    def options(self) -> str: # of the command that makes it
        return "".join(f' -p "{key}={value}"' for key, value in self.changes.items())

    @cached_property
    def runs(self) -> pd.DataFrame: # `RUN_COLUMNS`; values in the unit of their table
        "One row per run, test and metric."
        further = {table.id: table.also for table in self.experiment.tables}
        rows = []
        for cell in self.cells.to_dict("records"):
            place = cell | dict(test=cell["column"], complete=cell["status"] == "measured")
            for metric, i in product(dict.fromkeys([cell["metric"], *further[cell["table"]]]), cell["records"]):
                record = self.records_by_id[i]
                for row in record_results(record, cell["evaluate"], [metric], cell["unit"]):
                    run = run_of(record, row["value"], row["resampled"], cell["evaluate"])
                    fields = dict(further=metric != cell["metric"], steps=record["extra"].get("steps"))
                    rows.append(place | run._asdict() | row | fields)
        frame = pd.DataFrame(rows, columns=RUN_COLUMNS)
        frame = frame.astype({"further": bool, "complete": bool}
                             | dict.fromkeys(["strength", "rate", "epochs", "share", "steps"], float))
        if self.own: # records of this machine may be paired whatever the state of the tree
            frame["clean"] = True
        frame.attrs["study"] = self.experiment.name, self.experiment.profile # parts of it keep that
        return frame

    @property
    def records(self) -> list[dict]:
        return list(self.records_by_id.values())

    @property
    def finished(self) -> list[dict]:
        return [record for record in self.records if record["status"] == "finished"]

    def __getitem__(self, table: str) -> pd.DataFrame:
        """Return the runs of one table.

        Raises `KeyError` for a table that the configuration does not have."""
        check_known("table", table, [one.id for one in self.experiment.tables], KeyError)
        return only(self.runs, table=table)

    def __contains__(self, table: str) -> bool:
        return any(one.id == table for one in self.experiment.tables)

    def _repr_markdown_(self) -> str:
        words = f"**Profile `{self.experiment.profile}`:** {self.experiment.scale}. {self.summary}"
        if {*self.cells.unit} == {"fraction"}:
            words += " Scores are fractions: times 100 they are points."
        if self.unlike:
            words = f"**Not the settings of the configuration:** {self.unlike}. {A_COPY}\n\n{words}"
        return words


def summary_of(experiment: ExperimentConfig, completed: int, total: int) -> str:
    "Say how many runs completed; of those that were announced, if these were more."
    plan = experiment.announced
    if plan is None:
        return f"{completed:,} of {total:,} runs completed."
    words = (f"{completed:,} of {plan.runs:,} announced runs completed ({plan.why}; announced in "
             f"{', '.join(plan.commits)}).")
    if completed < total:
        words += f" The configuration keeps {total:,} of them."
    return words


def failures_of(study: Study) -> str:
    "Say how many runs failed, and why the first of them did; empty if none."
    errors = [record["error"] for record in study.records if record["status"] == "failed"]
    return f" {len(errors):,} failed: {errors[0].split(': ')[0].replace(' -', ' −')}." if errors else ""


class RunsFailed(UserError, RuntimeError):
    "Runs whose training stopped."


def page(experiment, outcome) -> Study: # an `Experiment`, and the `Outcome` of its runs
    """Return the study that an experiment's records make once it has been run.

    Raises `RunsFailed` naming the runs that failed."""
    from ...runs.runner import own_store, store_for
    if outcome.failed:
        raise RunsFailed("; ".join(f"{run}: {why}" for run, why in outcome.failed.items()))
    study = Results().study_of(experiment.asked, store_for(experiment.asked.profile), own_store())
    study.own = True
    study.changes = experiment.changes
    missing = outcome.missing.values()
    summary = (f"{counted(len(outcome.records), 'records')}, {len(outcome.trained)} of them run now; "
               f"{counted(len(missing), 'runs without what they need')}.")
    if missing and not outcome.records:
        summary += ' Synthetic data need nothing: set `profile = "planted"` and `own = True`.'
    study.summary = "\n".join([summary, *(f"- {why}" for why in dict.fromkeys(missing))])
    return study


def _read_records(store: Store, place: str) -> Records:
    records = latest(store.records(place))
    gc.freeze() # records hold no cycles, and there are many: they are not searched for garbage
    return records


@dataclass
class Results:
    """Stored records, of which each file is read once, and what is computed of them.

    Notebooks ask for the `current` ones: pages that are made together share them; a notebook that is opened has its
    own."""
    fresh: bool = False   # planted records of this machine's `_runs/` instead of the committed reference
    is_page: bool = False # whether pages are made: `study` runs nothing
    values: dict = field(default_factory=dict) # of `once`
    lacks_runs: bool = False # whether a study that was loaded has fewer runs than its configuration

    @contextmanager
    def shared(self) -> Iterator[None]:
        "Make these the `current` ones of each notebook that is executed meanwhile in this process."
        token = _SHARED.set(self)
        try:
            yield
        finally:
            _SHARED.reset(token)

    @classmethod
    def current(cls) -> "Results":
        "Return those that are shared, or else new ones."
        return _SHARED.get() or cls()

    def once(self, key: tuple, make: Callable, *arguments):
        "Return what a function makes of its arguments, at the first use of a key and from then on."
        if key not in self.values:
            self.values[key] = make(*arguments)
        return self.values[key]

    def store(self, profile: str) -> Store:
        "Return where the records of a profile are."
        if self.fresh and profile == "planted":
            from ...runs.runner import store_for
            return store_for(profile)
        return committed_store()

    def records(self, experiment: ExperimentConfig, store: Store) -> Records: # id -> record
        """Return the newest record of every run of an experiment, and as `run` the run itself.

        The run's method has the name that the experiment has for it; blocks may take theirs from other experiments."""
        runs = {run.id: run for run in experiment.runs()}
        by_id = {} # a file is read once: several experiments may take theirs from it
        for place in dict.fromkeys(run.place for run in runs.values()):
            by_id |= self.once((store.folder, place), _read_records, store, place)
        return {i: by_id[i] | {"run": run} for i, run in runs.items() if i in by_id}

    def study_of(
        self,
        experiment: ExperimentConfig,
        *stores: Store, # where its records are; those of a later one count
    ) -> Study:
        "Return the study that the records of an experiment make."
        records = {}
        for store in stores:
            records |= self.records(experiment, store)
        cells = [cell for table in experiment.tables for cell in table_cells(experiment, table, records)]
        study = Study(experiment, records, frame_of(cells))
        total = len(experiment.runs())
        self.lacks_runs |= len(study.finished) < total
        study.summary = summary_of(experiment, len(study.finished), total) + failures_of(study)
        return study

    def load(
        self,
        name: str, # `paper/experiment`
        profile: str,
    ) -> Study:
        "Return the study that the stored records of an experiment make. Nothing is run."
        return self.once((name, profile), lambda: self.study_of(load_experiment(name, profile), self.store(profile)))

    def with_table(self, paper: str, table: str, profile: str) -> Study | None: # None: no experiment makes it
        "Return the study that has a table."
        names = self.once(("tables", paper), lambda: {
            (own.id, one.profile): one.name for one in all_experiments(paper) for own in one.tables})
        return self.load(names[table, profile], profile) if (table, profile) in names else None

    def scales(
        self,
        name: str, # `paper/experiment`
    ) -> list[str]: # richest first
        "List the profiles at which some run has finished."
        return [profile for profile in reversed(profiles_of(name)) if self.load(name, profile).finished]

    def study(
        self,
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
        """Load what is stored if nothing else is asked for, else run what is missing and load what exists.

        Raises `RunsFailed` naming the runs that failed, `RunnerError` for an unknown parameter of papermill's,
        `ConfigError` for one of another type."""
        if self.is_page:
            return self.load(name, profile)
        check_injected()
        parameters = dict(seeds=seeds, methods=methods, encoders=encoders, weight=weight, full=full, workers=workers,
                          fresh=fresh, own=own)
        parameters = {key: typed(key, value, Results.study.__annotations__[key]) for key, value in parameters.items()}
        if all(value is None or value is False for key, value in parameters.items() if key != "workers"):
            stored = self.load(name, profile)
            if stored.finished:
                return stored
        with stoppable(name):
            from ...runs.runner import load, run
            experiment = load(name, profile, **{key: parameters[key] for key in (*NARROWING, "full")})
            return page(experiment, run(experiment, fresh=parameters["fresh"], workers=parameters["workers"]))

    def part(
        self, name: str, profile: str, methods: list[str] | None, encoders: list[str] | None,
        **others, # as `study`
    ) -> Study:
        """Load a study, or run those of the requested methods and encoders that it has; of a page with several.

        Raises as `study`."""
        experiment = load_experiment(name, profile)
        asked = {"methods": methods, "encoders": encoders}
        own = {kind: names and [one for one in names if one in experiment.by_name(kind)]
               for kind, names in asked.items()}
        return self.load(name, profile) if [] in own.values() else self.study(name, profile, **own, **others)


_SHARED: ContextVar[Results | None] = ContextVar("results that notebooks share", default=None)


def best_settings(
    runs: pd.DataFrame, # of a table with several settings of each method
) -> dict[str, str]: # family -> the method with the highest mean, the first of equals
    "Choose the setting of each method that did best, of those whose runs have all finished."
    means = runs[runs.complete].groupby(["family", "method"], sort=False).value.mean()
    return dict(means.groupby("family", sort=False).idxmax().tolist())
