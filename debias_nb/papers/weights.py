"""Tuned encoders of recorded runs: trained as their records say, saved, loaded again and tested against the record.

No weights are committed. `weights.csv`, next to the records, names some by their sha256, with the processor and the
version of torch that give these bits; another processor may round otherwise, and then the metrics tell whether it is
the same encoder. One with the files skips the training: a folder that is there is tested alone.
"""
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from .reproduce import metric_deviations
from ..checks import RunnerError, closest, quoted
from ..data.registry import DataError
from ..data.tables import read_table
from ..encoders.safe_folders import WEIGHTS_FILE
from ..encoders.tokens import single_thread
from ..files import sha256_file, write_whole
from ..runs.config import Profile, RunConfig
from ..runs.origin import git_state, processor
from ..runs.runner import absent, load, quiet_libraries, store_for, task_of

WEIGHT_COLUMNS = ["table", "profile", "run", "sha256", "cpu", "torch", "commit"]


def _list_file() -> Path:
    return store_for("small").folder / "weights.csv"


def listed_rows() -> pd.DataFrame: # `WEIGHT_COLUMNS`, one row per run
    "Return the rows of `weights.csv`. Raise `RunnerError` naming file and row of what is damaged."
    path = _list_file()
    if not path.is_file():
        return pd.DataFrame(columns=WEIGHT_COLUMNS)
    try:
        rows, *_ = read_table(path)
    except DataError as e:
        raise RunnerError(str(e)) from None
    if [*rows] != WEIGHT_COLUMNS:
        raise RunnerError(f"{path}: the columns {', '.join(WEIGHT_COLUMNS)} are expected")
    is_whole = rows.sha256.str.fullmatch("[0-9a-f]{64}") & rows.commit.str.fullmatch("[0-9a-f]{40}")
    for line in rows.index[~is_whole | (rows == "").any(axis=1)]:
        raise RunnerError(f"{path}:{line}: seven cells are expected, none empty, among them a sha256 and a commit")
    return rows.reset_index(drop=True)


def listed_weights(
    name: str, # `paper/experiment`
    profile: Profile,
) -> pd.DataFrame: # `WEIGHT_COLUMNS`, one row per run
    "Return the rows of `weights.csv` on an experiment."
    rows = listed_rows()
    return rows[(rows.table == name) & (rows.profile == profile)]


def runs_of(name: str, profile: Profile, only: str | None = None) -> list[RunConfig]:
    "Return the listed runs of an experiment, or the one of an id. Raise `RunnerError` if there is none that trains."
    runs = {run.id: run for run in load(name, profile, full=True).runs if run.training}
    if only in runs:
        return [runs[only]]
    if only is not None:
        raise RunnerError(f"{name} at {profile} has no run {quoted(only)} that trains{closest(only, runs)}")
    ids = [run_id for run_id in listed_weights(name, profile).run if run_id in runs]
    if not ids:
        known = listed_rows()[["table", "profile"]].drop_duplicates()
        tables = "; ".join(f"{row.table} --profile {row.profile}" for row in known.itertuples())
        raise RunnerError(f"{_list_file().name} has no run of {name} at {profile}: name one by --only. It has: "
                          f"{tables}")
    return [runs[run_id] for run_id in ids]


def save(run: RunConfig, out: Path) -> Path: # `out/<id>`
    """Return the folder of a run's weights, trained first if it is not there.

    Raise `RunnerError` saying what is missing, otherwise as `Task.train`.
    """
    folder = out / run.id
    if folder.is_dir():
        return folder
    reason = absent(run)
    if reason:
        raise RunnerError(f"{run.id}: {reason}")
    task = task_of(run)
    quiet_libraries()
    with single_thread():
        training = task.train(run)
    out.mkdir(parents=True, exist_ok=True)
    # a folder is there whole, or not at all
    with tempfile.TemporaryDirectory(prefix=f"{run.id}.part-", dir=out) as work:
        task.save(training.model, Path(work) / "model")
        (Path(work) / "model").rename(folder)
    return folder


def record_of(run: RunConfig) -> dict | None:
    "Return the record of a run, this machine's own first."
    stores = (store_for(run.profile), store_for("small"))
    return next(filter(None, (store.find(run) for store in stores)), None)


@dataclass
class PublishedWeights:
    "Weights of a run in a folder, and how the folder's metrics differ from the record's."
    run: RunConfig
    folder: Path
    sha256: str
    differences: pd.DataFrame | None # as of `metric_deviations`; None: the run has no record


def check_weights(run: RunConfig, folder: Path) -> PublishedWeights:
    "Load the weights of a run, and test them as the run was tested. Raise `EncoderError`."
    paths = sorted(folder.rglob(WEIGHTS_FILE), key=lambda path: len(path.parts))
    task = task_of(run)
    with single_thread():
        results = task.test(task.load_saved(run, folder), run)
    record = record_of(run)
    differences = metric_deviations({run.id: {"metrics": results.metrics}}, {run.id: record}) if record else None
    return PublishedWeights(run, folder, sha256_file(paths[0]), differences)


def publish_weights(name: str, profile: Profile, weights: PublishedWeights, root: Path) -> None:
    """Write a run's hash into `weights.csv`.

    Raise `RunnerError` for other metrics than recorded, and for code in no commit."""
    import torch
    if weights.differences is None or weights.differences["apart"].any():
        raise RunnerError(f"{weights.run.id}: not listed, since its metrics are not those of a record")
    state = git_state(root)
    if state["dirty"] is not False:
        raise RunnerError("the hash is not listed: this code stands in no commit")
    row = [name, profile, weights.run.id, weights.sha256, processor(), torch.__version__, state["commit"]]
    rows = listed_rows()
    rows = rows[rows.run != weights.run.id].reset_index(drop=True)
    rows.loc[len(rows)] = row
    write_whole(_list_file(), rows.sort_values(["table", "run"]).to_csv(index=False))
