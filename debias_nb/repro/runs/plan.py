"""Which runs go together into a job, how long each job takes and how much memory it needs, before anything is started."""
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pandas as pd
from pydantic import TypeAdapter

from debias_nb.config import ConfigError, NotNegative, Strict, project_root
from debias_nb.hashes import fingerprint
from debias_nb.repro.config import ExperimentConfig, Names, RunConfig, configured, load_experiment
from debias_nb.repro.pages.cost import load_costs, measured, run_cost
from debias_nb.repro.runs.device import outstanding
from debias_nb.repro.runs.records import Store
from debias_nb.repro.runs.runner import finished, narrow, store_for


ASSUMED = {"planted": 60., "small": 600., "paper": 24 * 3600.} # profile -> seconds of a run that nothing is known of
ASSUMED_MEMORY = 2 * 2.**30 # bytes, of the same


@dataclass(frozen=True)
class Estimate:
    "Of one run."
    seconds: float
    memory: float # bytes
    source: str   # where this is from


def _keys(run_id: str, config: dict) -> list: # config: of a record
    "A run's id, and what runs that take about as long share, the closest kind first."
    place = (config["experiment"], config["profile"], config["encoder"]["name"])
    corpus = (config.get("corpus") or {}).get("name")
    return [run_id, (*place, config["method"]["name"], corpus), place]


def _finished(runs: list[RunConfig], root: Path) -> list[dict]:
    "The finished records of the experiments of some runs, those that are committed and those made here."
    folders = {root / "results", *(store_for(run.profile).folder for run in runs)} # one and the same, but for planted runs
    return [record for folder in sorted(folders) for record in finished(runs, Store(folder)).values()]


def _known(runs: list[RunConfig], root: Path) -> dict[tuple, list[dict]]: # id or kind -> records
    "The finished records of the experiments of some runs, by all that they can be asked for."
    found = {}
    for record in _finished(runs, root):
        for key in _keys(record["id"], record["config"]):
            found.setdefault(key, []).append(record)
    return found


def _reckoned(run: RunConfig, root: Path) -> Estimate | None:
    "At the papers' own scale, what the arithmetic says; None where it knows nothing of encoder or corpus."
    if run.profile != "paper":
        return None
    try:
        cost = run_cost(run, load_costs(root), measured(root))
    except ConfigError:
        return None
    return Estimate(cost.seconds, max(cost.memory, ASSUMED_MEMORY), "configs/device/costs.yaml")


SAID = ("its record", "such runs", "runs with its encoder")


def estimates(runs: list[RunConfig], root: str | Path | None = None) -> dict[str, Estimate]: # by id
    "What runs will take. Raises `RecordError`, as `Store` does."
    root = Path(root or project_root())
    known = _known(runs, root)
    found = {}
    for run in runs:
        assumed = Estimate(ASSUMED[run.profile], ASSUMED_MEMORY, "assumed")
        found[run.id] = _recorded(run, known) or _reckoned(run, root) or assumed
    return found


def _recorded(run: RunConfig, known: dict[tuple, list[dict]]) -> Estimate | None: # known: of `_known`
    "What the closest runs on record took; None where there are none."
    config = run.recorded().model_dump(mode="json")
    for key, said in zip(_keys(run.id, config), SAID):
        if key in known:
            return _took(known[key], said)


def _took(records: list[dict], said: str) -> Estimate:
    "What runs of the same kind took."
    seconds = median(record["seconds"] for record in records)
    memory = max(record["peak_memory_bytes"] for record in records)
    return Estimate(seconds, memory, said)


WORTH = 600. # seconds that a job should take at least


class Job(Strict):
    "Runs of one configuration that are made one after the other."
    name: str
    experiment: str         # `paper/experiment`
    profile: str
    ids: Names
    seconds: NotNegative
    memory: NotNegative     # bytes, at most at a time
    sources: Names # of both numbers

    @property
    def minutes(self) -> int: # to ask a cluster for: twice what is expected, and a start
        return math.ceil(2 * self.seconds / 60) + 10

    @property
    def megabytes(self) -> int:
        return math.ceil(1.25 * self.memory / 2**20)


def _job(experiment: ExperimentConfig, runs: list[RunConfig], known: dict[str, Estimate]) -> Job:
    "Some runs as one job."
    ids = tuple(run.id for run in runs)
    mine = [known[i] for i in ids]
    sources = dict.fromkeys(one.source for one in mine)
    name = f"{experiment.paper}-{experiment.experiment}-{experiment.profile}-{fingerprint(ids)[:8]}"
    return Job(
        name=name,
        experiment=experiment.name,
        profile=experiment.profile,
        ids=ids,
        seconds=sum(one.seconds for one in mine),
        memory=max(one.memory for one in mine),
        sources=tuple(sources))


def jobs_of(
    experiment: ExperimentConfig,
    runs: list[RunConfig],       # of it, those that are to be made
    known: dict[str, Estimate],
    worth: float = WORTH,        # seconds
) -> list[Job]:
    "Bundles of runs. Only the last may be worth less."
    bundles = [[]]
    for run in runs:
        bundles[-1].append(run)
        if sum(known[one.id].seconds for one in bundles[-1]) >= worth:
            bundles.append([])
    return [_job(experiment, bundle, known) for bundle in bundles if bundle]


def named(
    tables: str | Iterable[str] | None, # with commas between, or a list of them; None: all
    profile: str,
    root: str | Path | None = None,
) -> list[str]: # `paper/experiment`
    "The experiments that are asked for. `plan` refuses those without a configuration."
    if isinstance(tables, str):
        tables = tables.split(",")
    if tables:
        return [name.strip() for name in tables]
    return configured(f"*/*.{profile}.yaml", root)


CHECKPOINTS = "checkpoints" # beside the folders of records, one for each version of the code


def folders_of_jobs(folder: Path, version: str = "*") -> list[Path]: # of records
    "Where the jobs of a plan have written."
    return sorted(place for place in folder.glob(f"*/{version}") if place.is_dir() and place.name != CHECKPOINTS)


def settled(folder: Path, version: str) -> set[str]: # folder: of a plan's jobs
    "Ids of the runs that jobs have finished with this version of the code."
    found = set()
    for place in folders_of_jobs(folder, version):
        found |= {record["id"] for record in Store(place).all() if record["status"] == "finished"}
    return found


def plan(
    names: Iterable[str],    # `paper/experiment`
    profile: str,
    full: bool = False,
    worth: float = WORTH,    # seconds
    there: Iterable[str] = (), # ids of runs that have a record elsewhere
    root: str | Path | None = None,
) -> tuple[list[Job], int]: # the jobs, and how many runs have a record
    "What is to be made of some experiments. Raises `ConfigError` or `RecordError`."
    there = set(there)
    planned = set()
    jobs = []
    for name in names:
        experiment = narrow(load_experiment(name, profile, root), full=full)
        known = planned | there
        runs = [run for run in experiment.runs() if run.id not in known]
        todo = outstanding(runs, [store_for(profile)])
        planned |= {run.id for run in todo}
        there |= {run.id for run in runs} - planned
        jobs += jobs_of(experiment, todo, estimates(todo, root), worth)
    return jobs, len(there)


JOBS = TypeAdapter(dict[str, Job]) # by name


def write_plan(jobs: list[Job], path: Path) -> None:
    "One file for all jobs, which each of them reads."
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(JOBS.dump_json({job.name: job for job in jobs}, indent=1))


def read_plan(path: Path) -> dict[str, Job]: # by name
    return JOBS.validate_json(path.read_bytes())


def job_runs(job: Job, root: str | Path | None = None) -> list[RunConfig]:
    "The runs of a job. Raises `ConfigError` where the configuration has changed since it was planned."
    runs = {run.id: run for run in load_experiment(job.experiment, job.profile, root).runs()}
    lost = [i for i in job.ids if i not in runs]
    if lost:
        where = f"configs/{job.experiment}.{job.profile}.yaml"
        raise ConfigError(f"{job.name}: {where} has no run {lost[0]} any more; plan again")
    return [runs[i] for i in job.ids]


def _hours(seconds: float) -> str:
    if seconds < 36000:
        return f"{seconds / 3600:,.2f}"
    return f"{seconds / 3600:,.0f}"


def _gib(memory: float) -> str: # memory: bytes
    return f"{memory / 2**30:.1f}"


def _row(job: Job) -> dict:
    "A job as a row of the plan."
    sources = ", ".join(job.sources)
    return {"runs": len(job.ids), "hours": _hours(job.seconds), "GiB": _gib(job.memory), "from": sources}


def _hours_of(jobs: list[Job]) -> str:
    "How long jobs take, and how long where all run at once."
    seconds = [job.seconds for job in jobs]
    total = sum(seconds)
    longest = max(seconds, default=0.)
    return f"{_hours(total)} hours one after the other, {_hours(longest)} at least"


def described(jobs: list[Job], there: int) -> str: # lines
    "The graph of a plan, with hours and memory of each job, their totals, and what both rest on."
    lines = []
    if jobs:
        table = pd.DataFrame.from_dict({job.name: _row(job) for job in jobs}, "index")
        lines.append(table.rename_axis(columns="job").to_string())
    lines.append("all of them -> merge the records -> render the pages")
    runs = sum(len(job.ids) for job in jobs)
    total = f"{len(jobs)} jobs, {runs} runs; {there} runs have a record"
    memory = max((job.memory for job in jobs), default=0.)
    lines.append(f"{total}; {_hours_of(jobs)}; {_gib(memory)} GiB at most")
    assumed = sum("assumed" in job.sources for job in jobs)
    if assumed:
        lines.append(f"{assumed} jobs have runs of which neither records nor configs/device/costs.yaml know: their hours are assumed")
    return "\n".join(lines)
