"""From a run's configuration to its record; from an experiment to all of its records, one process per core.

What is there is loaded and what is missing is run; every process writes its own record as soon as it has one, so that
a batch that is killed loses only what was under way. A run whose data or encoder is absent is no error: it is listed
with the reason, and so is data that was downloaded manually without a known hash. Records of the planted profile are
made again on every machine, in `_runs/`; those of other profiles are results, in `experiments/`, with a copy of the
planted ones to compare with.
"""
import logging
import os
import signal
import warnings
from concurrent.futures.process import BrokenProcessPool
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ..checks import ConfigError, check_known, check_range, check_seeds, check_whole
from ..files import project_root
from .origin import Start, this_machine
from .records import Store, TrainingFailed, WorkerLost, committed_store, failed_record, latest, make_record
from .schema import Misfit, RecordError, Records
from .config import ExperimentConfig, Profile, RunConfig, load_experiment
from .settings import task_settings
from .tasks import Task


@lru_cache(maxsize=1)
def settle_libraries():
    """Import the libraries underneath and exempt their objects from garbage collection.

    Each training begins with a collection, which would take longer than many a run here.
    """
    import gc
    import datasets, sentence_transformers, transformers # noqa: E401, F401
    gc.collect()
    gc.freeze()


def quiet_libraries():
    "Silence progress bars and advice of the libraries underneath; errors still come through."
    from datasets import disable_progress_bars
    from transformers.utils import logging as of_transformers
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    of_transformers.set_verbosity_error()
    of_transformers.disable_progress_bar()
    disable_progress_bars()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=".*pin_memory.*")


def task_of(run: RunConfig) -> Task:
    "Import the task of a run. Raise `ConfigError` where no package has one."
    return task_settings(run.task).task()


def execute(run: RunConfig) -> dict: # the record
    """Train and test one run.

    Raise `TrainingFailed`, `MissingData` (its training data), `EncoderError` or `ConfigError`.
    """
    import torch
    from ..encoders.tokens import single_thread
    from ..processes import refuse_several
    refuse_several(run.id, "the batch size of its record is that of one; start it without torchrun", ConfigError)
    quiet_libraries()
    settle_libraries()
    task = task_of(run)
    start = Start()
    with single_thread():
        training = task.train(run)
        seconds = start.seconds
        results = task.test(training.model, run)
    extra = {"training": {"seconds": round(seconds, 3)}, "missing": results.missing, **training.extra, **results.extra}
    encoder = {"name": run.encoder.name, "fingerprint": training.identity}
    record = make_record(
        run, results.metrics, start=start, data=training.data | results.data, encoder=encoder, dtype=run.encoder.dtype,
        curve=training.curve, replicates=results.replicates, extra=extra, **this_machine())
    deterministic = torch.are_deterministic_algorithms_enabled()
    if torch.cuda.is_available():
        record["environment"]["cuda"] = torch.version.cuda
    if deterministic or torch.cuda.is_available():
        record["environment"]["deterministic"] = deterministic
    return record


@dataclass
class Outcome:
    "Outcome of a set of runs."
    records: Records      # id -> finished record
    missing: dict[str, str]       # id -> what is absent, and how to get it
    failed: dict[str, str]        # id -> why training stopped
    trained: list[str]            # ids run now; the other records were there

    def keep(self, run_id: str, record: dict | None, failure: str | None):
        "Store what a worker says of a run."
        if failure:
            self.failed[run_id] = failure
        else:
            self.records[run_id] = record


def absent(run: RunConfig) -> str | None:
    "Explain what a run is missing, or return None if it can run."
    return task_of(run).lacks(run)


def run_or_load(
    config: RunConfig,
    train: Callable[[RunConfig], dict], # returns the run's record, from `make_record`
    store: Store,
    fresh: bool = False,                # run even if there is a record; the new one counts once it is there
) -> dict: # the stored record
    """Load the record of a run, running it first if needed.

    Raise `TrainingFailed` after recording it, also for numbers that no record can hold; `RecordError` if it cannot be
    stored or is of another run.
    """
    record_there = store.find(config) # also when fresh: damage is reported before the training, not after it
    if record_there and not fresh:
        return record_there
    start = Start()
    try:
        record = train(config)
        if (record["id"], record["status"]) != (config.id, "finished"):
            raise RecordError(f"{config.id}: training returned the {record['status']} record of {record['id']}")
        try:
            return store.append(record)
        except Misfit as e: # other runs can go on
            raise TrainingFailed(None, str(e)) from None
    except TrainingFailed as e:
        store.append(failed_record(config, start, e.reason, e.step))
        raise


BUSY = "another process is at work on it"


def _work(run: RunConfig, store: Store, fresh: bool, parent: int, wait: bool = False):
    """Make a run in a worker process; return its id, its record, and why there is none.

    The reason is `BUSY` if another process has it.
    """
    from ..processes import end_with
    end_with(parent)
    with store.claimed(run.id, wait) as mine:
        if not mine:
            return run.id, None, BUSY
        try:
            return run.id, run_or_load(run, execute, store, fresh), None
        except TrainingFailed as e:
            return run.id, None, str(e)


def newest_records(runs: list[RunConfig], store: Store) -> Records: # id -> its newest finished record, else its failure
    "Return the records of some runs; each file is read once."
    places = dict.fromkeys(run.place for run in runs)
    return latest(record for place in places for record in store.records(place))


def finished(runs: list[RunConfig], store: Store) -> Records: # id -> its newest finished record
    "Return the finished records of some runs."
    return {run_id: record for run_id, record in newest_records(runs, store).items() if record["status"] == "finished"}


def _plan(runs: list[RunConfig], records: Records, fresh: bool, out: Outcome) -> list[tuple[RunConfig, bool]]:
    "List the runs to make, each with whether its record replaces one; present records and missing runs go to `out`."
    todo = []
    for run in runs:
        record = records.get(run.id)
        # then no task is imported, which takes seconds
        is_complete = record and record["metrics"].keys() >= set(run.evaluate)
        if is_complete or record and not task_of(run).is_stale(record, run):
            out.records[run.id] = record # it has every evaluation set that is there
            continue
        reason = absent(run)
        if not reason:
            todo.append((run, fresh or record is not None))
        elif record:
            out.records[run.id] = record
        else:
            out.missing[run.id] = reason
    return todo


def run_all(
    runs: list[RunConfig],
    store: Store,
    fresh: bool = False,          # run again what is there
    workers: int | None = None,   # processes; default: one a core, or one on each GPU
    progress: bool = True,
) -> Outcome:
    """Run what has no record yet.

    Ctrl-C keeps finished runs. Runs of another process are left to it, and waited for at the end. Raise `ConfigError`
    for fewer than one worker, `WorkerLost` for one that was killed.
    """
    from tqdm.auto import tqdm
    check_workers(workers)
    out = Outcome({}, {}, {}, [])
    records = {} if fresh else finished(runs, store)
    todo = _plan(runs, records, fresh, out)
    places = {} # runs on the same data stand together, and share what a task keeps of them: texts, teachers
    todo.sort(key=lambda job: places.setdefault((job[0].encoder, job[0].data, job[0].seed), len(places)))
    results = _parallel([(run, store, fresh) for run, fresh in todo], workers)
    busy = []
    for run_id, record, failure in tqdm(results, total=len(todo), disable=not (progress and todo), unit="run"):
        if failure == BUSY:
            busy.append(run_id)
            continue
        out.keep(run_id, record, failure)
        if not failure:
            out.trained.append(run_id)
    for run in runs:
        if run.id in busy: # whoever claimed it has finished it by now, or was killed
            out.keep(*_work(run, store, False, os.getpid(), wait=True))
    out.records = {run.id: out.records[run.id] for run in runs if run.id in out.records}
    return out


def _parallel(todo: list[tuple], workers: int | None):
    "Yield results as they come, from one process or several."
    if not todo:
        return
    workers = min(workers or cores(), len(todo))
    if workers == 1:
        for job in todo:
            yield _work(*job, os.getpid())
        return
    from joblib import Parallel, delayed, parallel_config
    from ..processes import take_gpu
    # loky renews a worker whose memory has grown; its finished jobs are kept
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
    # of what is left when this process is killed
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")
    try:
        with parallel_config("loky", n_jobs=workers, inner_max_num_threads=1, initializer=take_gpu):
            pool = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch=workers)
            # Workers that are started meanwhile never hear a Ctrl-C, which a terminal sends to all: this process ends
            # them.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            try:
                results = pool(delayed(_work)(*job, os.getpid()) for job in todo)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            yield from results
    except BrokenProcessPool:
        reason = "a worker process was ended from outside, as a system does that runs out of memory"
        raise WorkerLost(f"{reason}; finished runs are kept, and the same command goes on from there") from None


def cores() -> int: # processes that work side by side: one on each GPU
    import torch
    from joblib import cpu_count
    return torch.cuda.device_count() or cpu_count()


def narrow(
    experiment: ExperimentConfig,
    seeds: list[int] | None = None,       # default: the configuration's
    methods: list[str] | None = None,     # names; default: all
    encoders: list[str] | None = None,    # labels, as in the tables
    weight: float | None = None,          # lambda of every method that has one
    full: bool = True,                    # with what takes long and is left out by default: blocks, and further worlds
) -> ExperimentConfig:
    "Narrow an experiment to fewer runs, or to other ones. Raise `ConfigError` for a name or a seed it cannot have."
    for kind, values in (("seeds", seeds), ("methods", methods), ("encoders", encoders)):
        if values == []:
            raise ConfigError(f"{kind}: an empty list asks for no runs; leave it out for those of the configuration")
    for kind, names in (("methods", methods), ("encoders", encoders)):
        for name in names or []:
            check_known(f"{kind[:-1]} in {experiment.name} called", name, experiment.by_name(kind), ConfigError)
    if seeds:
        check_seeds("seeds", seeds)
    if weight is not None:
        check_range("weight (lambda)", weight, closed="left")
    blocks = []
    for block in experiment.blocks:
        if block.full and not full:
            continue
        blocks.append(block.model_copy(update={
            "methods": tuple(name for name in block.methods if not methods or name in methods),
            "encoders": tuple(name for name in block.encoders if not encoders or name in encoders),
            "seeds": tuple(seeds or block.seeds),
            "worlds": block.worlds if full else 0,
        }))
    methods_asked = (experiment.methods if weight is None
                     else tuple(method.with_weight(weight) for method in experiment.methods))
    return experiment.model_copy(update={"blocks": tuple(blocks), "methods": methods_asked})


def own_store() -> Store:
    "Return the store of this machine's records: `_runs/`, or `$DEBIAS_NB_RUNS`."
    folder = os.environ.get("DEBIAS_NB_RUNS")
    return Store(folder or project_root() / "_runs")


def store_for(profile: str) -> Store:
    "Return the store of a profile's records: this machine's own for planted ones, `experiments/` for others."
    if profile == "planted":
        return own_store()
    return committed_store()


def check_workers(workers: int | None) -> None:
    "Check a number of processes. Raise `ConfigError`."
    if workers is not None:
        check_whole("workers", workers, 1)


@dataclass(frozen=True)
class Experiment:
    "An experiment, or the part of it that is asked for: its configuration is parsed, and its runs are listed, once."
    configuration: ExperimentConfig # as its file has it
    asked: ExperimentConfig         # the part that is asked for
    changes: dict[str, object]      # settings that differ from the configuration's

    @classmethod
    def of(cls, configuration: ExperimentConfig, full: bool = False, **settings) -> "Experiment":
        "Narrow a configuration, as `narrow`; a setting that is None is the configuration's."
        changes = {name: value for name, value in settings.items() if value is not None}
        return cls(configuration, narrow(configuration, full=full, **changes), changes)

    @cached_property
    def runs(self) -> list[RunConfig]:
        return self.asked.runs()

    def is_own(self, config: RunConfig) -> bool:
        "Whether the record of a run is this machine's own, and none of the project's."
        return config.profile == "planted" or config.id in self.further_ids

    @cached_property
    def further_ids(self) -> frozenset[str]: # of runs that the configuration does not ask for
        if not self.changes.keys() & {"seeds", "weight"}:
            return frozenset()
        configured_ids = {run.id for run in self.configuration.runs()}
        return frozenset(run.id for run in self.runs if run.id not in configured_ids)


def load(
    name: str,                         # `paper/experiment`, e.g. `itvreg/table03`
    profile: Profile,
    seeds: list[int] | None = None,    # None: those of the configuration
    methods: list[str] | None = None,  # names; None: all
    encoders: list[str] | None = None, # labels; None: all
    weight: float | None = None,       # another lambda for every method that has one
    full: bool = False,                # with the parts that take long
) -> Experiment:
    "Load an experiment at a profile. Raise `ConfigError` for an unknown name, and as `narrow`."
    return Experiment.of(
        load_experiment(name, profile), full, seeds=seeds, methods=methods, encoders=encoders, weight=weight)


def _divided(*experiments: Experiment, fresh: bool = False) -> tuple[list[RunConfig], list[RunConfig]]:
    "Divide the runs of some experiments into those whose records are the project's, and this machine's own."
    kept_runs, own_runs = {}, {}
    for experiment in experiments:
        for config in experiment.runs:
            (own_runs if fresh or experiment.is_own(config) else kept_runs)[config.id] = config
    return list(kept_runs.values()), list(own_runs.values())


def present_records(experiment: Experiment) -> Records: # id -> its record
    "Return the records of the runs that `run` does not make again."
    kept_runs, own_runs = _divided(experiment)
    return newest_records(kept_runs, store_for(experiment.asked.profile)) | finished(own_runs, own_store())


def run(
    *experiments: Experiment,     # of one profile
    fresh: bool = False,          # run again what there is a record of
    workers: int | None = None,   # as of `run_all`
) -> Outcome:
    """Run what is missing of some experiments, and load what exists; a run that several have is made once.

    A failure that is on record is a result, and is not tried again. What their configurations do not ask for, and what
    is run again, goes to this machine's own records. Raise as `run_all`.
    """
    kept_runs, own_runs = _divided(*experiments, fresh=fresh)
    profile = next((experiment.asked.profile for experiment in experiments), "planted")
    store = store_for(profile)
    records = newest_records(kept_runs, store)
    kept_runs = [run for run in kept_runs if records.get(run.id, {}).get("status") != "failed"]
    kept = run_all(kept_runs, store, workers=workers)
    outcome = run_all(own_runs, own_store(), fresh=fresh, workers=workers)
    return Outcome(kept.records | outcome.records, kept.missing | outcome.missing, kept.failed | outcome.failed,
                   kept.trained + outcome.trained)
