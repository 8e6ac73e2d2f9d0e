"""A manifest names runs, most valuable first; one command makes as many of them as fit into the time, and their records are merged afterwards.

Each entry narrows an experiment, or names single runs. Within an entry the first seed of every run comes before the
second, so that a batch that is stopped leaves whole comparisons with fewer seeds. Records of one commit go into a
folder of that name. Merging keeps the record that is there, names one that says otherwise, and keeps records of code
apart that is not in the history of this clone, or was changed when they were made.
"""
import os
import re
import time
import warnings
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ...checks import ConfigError, check_known, nearest
from ...files import Strict, load_config, project_root
from ..config import ExperimentConfig, Names, Profile, RunConfig, Settings, configured, load_experiment
from ..config import slug
from .origin import NO_HISTORY, bundled, git_state, history, processor, this_machine, unknown_code
from .parquet import published
from .records import Store, comparable
from .runner import Outcome, cores, execute_within, narrow, own_store, run_all, store_for
from .schema import RecordError


Some = Annotated[Names, Field(min_length=1)]


class Wanted(Settings):
    "Some runs of an experiment, or of a grid that has no page yet."
    experiment: str | None = None   # `paper/experiment`
    profile: Profile = "small"
    grid: str | None = None         # a file like those of experiments, as seen from the manifest
    why: str | None = None          # for the reader
    seeds: tuple[int, ...] | None = None      # default: the configuration's, as of what follows
    methods: Names | None = None
    encoders: Names | None = None   # labels
    corpora: Some | None = None     # labels
    weight: float | None = None     # lambda of every method that has one
    ids: Some | None = None         # of single runs

    def rules(self):
        yield (self.experiment is None) == (self.grid is None), "`experiment` or `grid`, one of the two"

    def made(self, folder: Path, root: Path | None) -> list[RunConfig]: # folder: of the manifest; root: of the project
        "The runs, seed by seed. Raises `ConfigError` for what there is not."
        if self.grid:
            experiment = load_config(folder / self.grid, ExperimentConfig)
        else:
            experiment = load_experiment(self.experiment, self.profile, root)
        asked = self.model_dump(include={"seeds", "methods", "encoders", "weight"}, exclude_none=True)
        runs = narrow(experiment, **asked).runs()
        corpora = {run.data.display for run in runs if run.data}
        for run_id in self.ids or ():
            check_known("run has the id", run_id, [run.id for run in runs], ConfigError)
        for name in self.corpora or ():
            check_known("run is about a corpus", name, corpora, ConfigError)
        if self.ids:
            runs = [run for run in runs if run.id in self.ids]
        if self.corpora:
            runs = [run for run in runs if run.data is None or run.data.display in self.corpora]
        seeds = list(dict.fromkeys(run.seed for run in runs))
        return sorted(runs, key=lambda run: seeds.index(run.seed))


class Manifest(Strict):
    "Runs for a device, most valuable first."
    title: str
    runs: Annotated[tuple[Wanted, ...], Field(min_length=1)]


def manifest_runs(path: str | Path, root: Path | None = None) -> list[RunConfig]: # each once, most valuable first
    "The runs that a manifest names. Raises `ConfigError` naming file and entry, or key."
    found = {}
    for number, wanted in enumerate(load_config(path, Manifest).runs, 1):
        try:
            runs = wanted.made(Path(path).parent, root)
        except ConfigError as e:
            raise ConfigError(f"{path}: entry {number}: {e}") from None
        if not runs:
            raise ConfigError(f"{path}: entry {number} ({wanted.grid or wanted.experiment}) leaves no run")
        for run in runs:
            found.setdefault(run.id, run)
    return list(found.values())


def asked_runs(
    name: str,                # of a manifest, a YAML file; else `paper/experiment`
    profile: Profile,         # of the latter
    full: bool = False,       # of the latter: with what takes long and is left out otherwise
    root: Path | None = None, # of the project
) -> list[RunConfig]:
    "The runs of a manifest, or of a table. Raises `ConfigError`."
    if name.endswith((".yaml", ".yml")):
        return manifest_runs(name, root)
    return narrow(load_experiment(name, profile, root), full=full).runs()


def part_of(runs: list[RunConfig], part: str) -> list[RunConfig]: # part: `3/10`, the third job of ten
    "Every so-manieth run, whatever has a record meanwhile. Raises `ConfigError`."
    found = re.fullmatch(r"(\d+)/(\d+)", part)
    k, n = map(int, found.groups()) if found else (0, 0)
    if not 1 <= k <= n:
        raise ConfigError(f"--part wants the number of a job and of all jobs, such as 3/10; got {part!r}")
    return runs[k - 1::n]


def code_version(
    state: dict | None = None, # commit and dirty; default: of the code that runs here
) -> str: # 12 hex digits, perhaps with `-changed`; or `unknown`
    "A name for some code: its commit, and whether it was changed since."
    state = state or git_state()
    if state["commit"] is None:
        return "unknown"
    return state["commit"][:12] + ("-changed" if state["dirty"] else "")


TESTING = .1 # share of the time that is left for testing and writing
SHARING = 4  # processes that share an accelerator, where runs are small


def check_device(device: str) -> None: # device: `cuda` or `cpu`
    "Use that device from now on. Raises `ConfigError` where it is not there."
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = "" # before torch looks
        return
    if device != "cuda":
        raise ConfigError(f"device {device!r} is not known{nearest(device, ['cuda', 'cpu'])}")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8") # what deterministic algorithms ask for
    import torch
    if not torch.cuda.is_available():
        raise ConfigError("no CUDA device is visible here; `--device cpu` makes the same runs on the CPU")


def outstanding(runs: list[RunConfig], stores: list[Store]) -> list[RunConfig]:
    "Runs without a finished record in any of the stores, or in the clone that a bundle was made of."
    there = set(bundled().get("finished", ()))
    return [run for run in runs if run.id not in there and not any(store.find(run) for store in stores)]


def device_batch(
    runs: list[RunConfig],         # most valuable first
    seconds: float,                # until all has to be written
    out: Path,                     # records go to `<out>/<code version>/`, checkpoints to `<out>/checkpoints/`
    device: str = "cuda",
    workers: int | None = None,    # processes; default: one a core on a CPU; on a GPU one where models are the papers'
    deterministic: bool = False,
    begun: float | None = None,    # seconds since 1970; default: now
    progress: bool = True,
) -> tuple[Outcome, Store]: # the store that the records are in
    """Make as many of the runs as the time allows; a training goes on with the code, and on the processor, that it began
    with. Raises `ConfigError` for a device that is not there."""
    begun = begun or time.time()
    check_device(device)
    from .limits import Limits
    version = code_version()
    kind = this_machine()["device"] if device == "cuda" else processor()
    limits = Limits(
        end=begun + (1 - TESTING) * seconds, folder=out / "checkpoints" / version / slug(kind), deterministic=deterministic)
    if workers is None:
        workers = 1
        if device == "cpu":
            workers = cores()
        elif all(run.profile != "paper" for run in runs):
            workers = min(SHARING, max(1, (os.cpu_count() or 1) // 2))
    store = Store(out / version)
    return run_all(runs, store, workers=workers, progress=progress, work=partial(execute_within, limits=limits)), store


@dataclass
class Merged:
    "What became of the records of a device, by id."
    added: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)    # the same record was there
    differing: list[str] = field(default_factory=list) # another one was there, and stays
    apart: dict[str, list[str]] = field(default_factory=dict) # code version -> ids
    left_out: list[str] = field(default_factory=list) # sentences: file and row, and why it is not the record of a run


def known_places(root: Path) -> set[tuple[str, str, str]]: # paper, experiment, profile
    "What the project's configurations make runs of, with the grids that have no page yet."
    configs = root / "configs"
    places = set()
    for path in configs.glob("*/*.*.yaml"):
        experiment, profile, _ = path.name.split(".")
        places.add((path.parent.name, experiment, profile))
    for path in configs.glob("device/grids/*.yaml"):
        grid = load_config(path, ExperimentConfig)
        places |= {(grid.paper, block.of or grid.experiment, grid.profile) for block in grid.blocks}
    return places


def merge(
    source: Store,
    apart: Path,        # folder for what is of other code
    root: Path | None = None, # of the clone whose history counts
    target: Store | None = None, # default: `store_for` the profile of each
    done: Merged | None = None,  # what became of earlier records, to which this is added
) -> Merged:
    """Add finished records to those that are there, of a run that was made twice with code of one kind the newest; what is
    not the record of a run of this project is named, and left out. Raises `RecordError`, as `Store` does."""
    root = root or project_root()
    commits = history(root)
    if commits is None:
        warnings.warn(NO_HISTORY, stacklevel=2)
    done = done or Merged()
    places = known_places(root)
    newest = {}
    for entry in source.entries():
        why = entry.why
        if entry.record:
            place = tuple(entry.record["config"][name] for name in ("paper", "experiment", "profile"))
            if place not in places:
                why = f"config: there is no configuration {'/'.join(place)}"
        if why:
            done.left_out.append(f"{entry.where} is left out: {why}")
        elif entry.record["status"] == "finished":
            made = entry.record["environment"]
            version = code_version(made) if unknown_code(made, commits or frozenset()) else ""
            newest[version, entry.record["id"]] = entry.record

    for (version, run_id), record in newest.items():
        store = Store(apart / version) if version else target or store_for(record["config"]["profile"])
        there = store.find(run_id)
        if there and comparable(published(there)) != comparable(published(record)):
            done.differing.append(run_id)
            continue
        if not there:
            store.append(record)
        if version:
            done.apart.setdefault(version, []).append(run_id)
        elif there:
            done.known.append(run_id)
        else:
            done.added.append(run_id)
    return done


def ready(
    name: str,         # `paper/experiment`
    profile: Profile,
    root: Path,        # of the clone
) -> tuple[list[str], list[tuple]]: # ids whose record is there; else the record, and that of the run that is there or None
    "The finished records of this machine that an experiment asks for."
    source, target = own_store(), Store(root / "results")
    known = []
    new = []
    for run in load_experiment(name, profile, root).runs():
        record = source.find(run)
        there = target.find(run) if record else None
        if there and comparable(published(there)) == comparable(published(record)):
            known.append(run.id)
        elif record:
            new.append((record, there))
    return known, new


def unpublished(root: Path) -> dict[str, int]: # experiment -> runs
    "Planted runs of this machine of which `results/` has no record."
    own = own_store()
    found = {}
    for name in configured("*/*.planted.yaml", root):
        experiment = load_experiment(name, "planted", root)
        if own.live(experiment.paper, experiment.experiment, experiment.profile).is_dir():
            _, new = ready(name, "planted", root)
            count = sum(there is None for _, there in new)
            if count:
                found[name] = count
    return found


def publish(
    name: str,             # `paper/experiment`
    profile: Profile,
    root: Path,            # of the clone
    replace: bool = False, # records that are there and say otherwise
) -> tuple[list[str], list[str]]: # ids: added, and there already
    """Add this machine's records of an experiment to those in `results/`, all of them or none: nothing that is there is left
    out. Raises `RecordError` naming the runs of which another record is there, or whose code is in no commit."""
    known, new = ready(name, profile, root)
    commits = history(root)
    if commits is None:
        warnings.warn(NO_HISTORY, stacklevel=2)
    wrong = []
    for record, there in new:
        why = unknown_code(record["environment"], commits) if commits is not None else ""
        if why:
            wrong.append(f"{record['id']}: its records {why}; commit, and run it again with --fresh")
        elif there and not replace:
            wrong.append(f"{record['id']}: another record is there; --replace takes this one")
    if wrong:
        raise RecordError("\n".join([f"{name} at {profile}: nothing is published", *wrong]))
    target = Store(root / "results")
    for record, _ in new:
        target.append(record)
    return [record["id"] for record, _ in new], known
