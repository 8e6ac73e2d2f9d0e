"Records of this machine become records of the project, and what these must hold."
import re
import subprocess
from collections import Counter
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, Json, ValidationError

from ..files import explain, parse_yaml
from .config import ExperimentConfig, Profile, file_of, load_experiment, sections_of
from .origin import git, history, unknown_code
from .parquet import published, published_columns
from .records import comparable, committed_store
from .runner import own_store
from .schema import Environment, Number, RecordError, Time


def publish(
    name: str,             # `paper/experiment`
    profile: Profile,
    root: Path,            # of the clone
    replace: bool = False, # records that are there and say otherwise
) -> tuple[list[str], list[str]]: # ids: added, and there already
    """Add this machine's records of an experiment to those in `experiments/`, all or none; those that are there stay.

    Raise `RecordError` naming the runs of which another record is there, or whose code is in no commit, and files in
    `experiments/` that something else has changed.
    """
    source = own_store()
    target = committed_store(root)
    commits = history(root)
    wrong = target.altered_files()
    present = []
    records = []
    for run in load_experiment(name, profile, root).runs():
        record = source.find(run)
        if not record:
            continue
        earlier = target.find(run)
        if earlier and comparable(published(earlier)) == comparable(published(record)):
            present.append(run.id)
            continue
        records.append(record)
        reason = unknown_code(record["environment"], commits) if commits is not None else ""
        if reason:
            wrong.append(f"{run.id}: its records {reason}; commit, and run it again with --fresh")
        elif earlier and not replace:
            wrong.append(f"{run.id}: another record is there; --replace takes this one")
    if wrong:
        raise RecordError("\n".join([f"{name} at {profile}: nothing is published", *wrong]))
    for record in records:
        target.append(record)
    return [record["id"] for record in records], present


FOLDERS = ("configs", "experiments") # of configurations: until 29 November 2026, and since
WORLDS = re.compile(r"worlds: \[.*?(\d+)\]") # earlier configurations listed what is counted now,
SPELLING = re.compile(r"\bregulariser:") # and spelled this setting otherwise


@lru_cache(maxsize=None)
def announced_runs(commit: str, place: str, root: Path) -> frozenset[str]:
    "Return the ids of the runs that an experiment's configuration named at a commit; none if there was no file."
    name, _, profile = place.partition(".")
    for file in (file_of(name), f"experiments/{name}.yaml", *(f"{folder}/{place}.yaml" for folder in FOLDERS)):
        with suppress(subprocess.CalledProcessError):
            text = git(root, "show", f"{commit}:{file}")
            break
    else:
        return frozenset()
    text = SPELLING.sub("regularizer:", WORLDS.sub(r"worlds: \1", text))
    settings = parse_yaml(text, f"{file} at {commit[:8]}")
    if isinstance(settings.get(profile), dict): # before, `paper` was the name of one
        settings = sections_of(settings, Path(file))[profile]
    of_runs = {name: settings[name] for name in ExperimentConfig.model_fields if name in settings and name != "tables"}
    return frozenset(run.id for run in ExperimentConfig.model_validate(of_runs).runs())


class _Start(BaseModel):
    "What a published record says of when, and by which code, its run was made."
    id: str
    started: Time
    seconds: Annotated[Number, Field(ge=0)]
    environment: Json[Environment]


def _too_early(start: str, seconds: float, commit: str, commit_time: int) -> str: # commit_time: in seconds
    "Explain that a run ended before its commit was made; empty where it did not."
    end = datetime.fromisoformat(start).timestamp() + seconds
    return f"ended before their commit, {commit[:8]}, was made" if end < commit_time else ""


def unfounded(
    root: Path,                # of the clone
    commits: dict[str, int],   # as of `history`
) -> list[str]:
    """Describe published records whose file has changed, or whose code does not stand behind them.

    Their code cannot be looked up, they ended before their commit, or no configuration named their run at that commit.
    """
    store = committed_store(root)
    problems = store.altered_files()
    for path in sorted(filter(Path.is_file, store.folder.glob("**/*.parquet"))):
        try:
            columns = published_columns(path, [*_Start.model_fields])
        except RecordError as e:
            problems.append(str(e))
            continue
        wrong = Counter()
        for number, cells in enumerate(zip(*columns.values()), 1):
            try:
                run, start, seconds, environment = vars(_Start.model_validate(dict(zip(columns, cells)))).values()
            except ValidationError as e:
                problems.append(explain(e, f"{path}: row {number}").partition("\n")[0])
                continue
            origin = environment.model_dump()
            commit = origin["commit"]
            reason = unknown_code(origin, commits)
            if not reason and run not in announced_runs(commit, f"{path.parent.name}/{path.stem}", root):
                reason = f"are of runs that the configuration did not name at their commit, {commit[:8]}"
            if not reason:
                reason = _too_early(start, seconds, commit, commits[commit])
            wrong[reason] += 1
        problems += [f"{path}: {count} of {wrong.total()} records {reason}"
                     for reason, count in wrong.items() if reason]
    return problems
