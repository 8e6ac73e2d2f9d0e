"Records of this machine become records of the project."
import warnings
from pathlib import Path

from ..config import Profile, configured, load_experiment
from .origin import NO_HISTORY, history, unknown_code
from .parquet import published
from .records import Store, comparable
from .runner import own_store
from .schema import RecordError


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
