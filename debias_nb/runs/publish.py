"Records of this machine become records of the project, and what these must hold."
import json
import re
import subprocess
import warnings
from collections import Counter
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from ..checks import quoted
from ..files import parse_yaml
from .config import ExperimentConfig, Profile, load_experiment
from .origin import NO_HISTORY, git, history, unknown_code
from .parquet import published, published_columns
from .records import Store, comparable
from .runner import own_store
from .schema import RecordError


def publish(
    name: str,             # `paper/experiment`
    profile: Profile,
    root: Path,            # of the clone
    replace: bool = False, # records that are there and say otherwise
) -> tuple[list[str], list[str]]: # ids: added, and there already
    """Add this machine's records of an experiment to those in `results/`, all of them or none: nothing that is there is left
    out. Raises `RecordError` naming the runs of which another record is there, or whose code is in no commit, and files in
    `results/` that something else has changed."""
    source = own_store()
    target = Store(root / "results")
    commits = history(root)
    if commits is None:
        warnings.warn(NO_HISTORY, stacklevel=2)
    wrong = target.altered()
    known = []
    added = []
    for run in load_experiment(name, profile, root).runs():
        record = source.find(run)
        if not record:
            continue
        there = target.find(run)
        if there and comparable(published(there)) == comparable(published(record)):
            known.append(run.id)
            continue
        added.append(record)
        why = unknown_code(record["environment"], commits) if commits is not None else ""
        if why:
            wrong.append(f"{run.id}: its records {why}; commit, and run it again with --fresh")
        elif there and not replace:
            wrong.append(f"{run.id}: another record is there; --replace takes this one")
    if wrong:
        raise RecordError("\n".join([f"{name} at {profile}: nothing is published", *wrong]))
    for record in added:
        target.append(record)
    return [record["id"] for record in added], known


WORLDS = re.compile(r"worlds: \[.*?(\d+)\]") # earlier configurations listed what is counted now


@lru_cache(maxsize=None)
def announced(commit: str, place: str, root: Path) -> frozenset[str]:
    "Ids of the runs that the configuration of an experiment named at a commit; none where there was no such file."
    try:
        text = git(root, "show", f"{commit}:configs/{place}.yaml")
    except subprocess.CalledProcessError:
        return frozenset()
    said = parse_yaml(WORLDS.sub(r"worlds: \1", text), f"configs/{place}.yaml at {commit[:8]}")
    of_runs = {name: said[name] for name in ExperimentConfig.model_fields if name in said and name != "tables"}
    return frozenset(run.id for run in ExperimentConfig.model_validate(of_runs).runs())


def _too_early(started: str, seconds: float, commit: str, committed: int) -> str: # committed: its time in seconds
    "Explain that a run ended before its commit was made; empty where it did not."
    try:
        ended = datetime.fromisoformat(started).timestamp() + seconds
    except ValueError:
        return f"say that they were started at {quoted(started)}, which is no time"
    return f"ended before their commit, {commit[:8]}, was made" if ended < committed else ""


def unfounded(
    root: Path,                # of the clone
    known: dict[str, int],     # as of `history`
    paper: str | None = None,  # None: all
) -> list[str]:
    """Sentences on published records that are not as they were published, whose code nobody can look up, that ended before
    the commit which they name, or of runs that no configuration named at that commit."""
    store = Store(root / "results")
    found = [told for told in store.altered() if paper in (None, Path(told.partition(":")[0]).parent.name)]
    for path in sorted(filter(Path.is_file, store.folder.glob("*/*.parquet"))):
        if paper not in (None, path.parent.name):
            continue
        names = ["id", "started", "seconds", "environment"]
        columns = published_columns(path, names)
        wrong = Counter()
        for run, started, seconds, environment in zip(*map(columns.get, names)):
            made = json.loads(environment)
            commit = made["commit"]
            why = unknown_code(made, known)
            if not why and run not in announced(commit, f"{path.parent.name}/{path.stem}", root):
                why = f"are of runs that the configuration did not name at their commit, {commit[:8]}"
            if not why:
                why = _too_early(started, seconds, commit, known[commit])
            wrong[why] += 1
        found += [f"{path}: {count} records {why}" for why, count in wrong.items() if why]
    return found
