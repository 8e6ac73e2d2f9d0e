"""What runs cost, before any of them is made: steps, batch, memory and hours.

At the papers' own scale all is reckoned from `experiments/costs.yaml`: the sizes of the data and the shapes of the
encoders. At other scales the records of like runs say it: how many steps an epoch has on the same data, and how long a
step takes.
"""
import json
import math
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..checks import check_range
from ..files import load_yaml, project_root
from ..runs.config import ExperimentConfig, RunConfig
from ..runs.settings import HingeTraining, MethodConfig, PairMethod
from .settings.answers import first_stage


# regularizer or augmentation -> texts a row: trained; through the frozen encoder in each epoch, and once
TEXTS_A_ROW = {
    "none": (0, 0, 0), "l2sp": (0, 0, 0), "outreg": (0, 0, 1), "maskreg": (1, 0, 0), "simcse": (1, 0, 0),
    "itvreg": (1, 1, 1), "itvaug": (1, 1, 2), "worddropout": (0, 0, 0),
}
# task -> shape of bench/gpu.json
BENCH_SHAPES = {"pairs": "900 x 32", "titles": "900 x 32", "answers": "140 x 128", "authors": "64 x 512"}


def texts_a_row(run: RunConfig) -> tuple[float, int, int]: # trained; frozen in each epoch; frozen once
    "Count the texts that go through the encoders for each row of training."
    method = run.method
    if not isinstance(method, PairMethod):
        return 1, 0, 0
    kind = method.augmentation if method.regularizer == "none" else method.regularizer
    texts, by_epoch, once = TEXTS_A_ROW[kind]
    return 2 + method.rows * texts, by_epoch, once


@dataclass(frozen=True)
class Stage:
    "One training of a run: an earlier stage, a teacher, or the last one."
    corpus: str
    unit: str     # what an epoch passes over, of the sizes in `costs.yaml`; `groups` are authors, two texts each
    epochs: float
    times: int = 1 # with each setting that is searched


def stages(run: RunConfig) -> list[Stage]:
    "List what a run trains, the last stage last."
    training = run.training
    corpus = run.corpus.name
    if run.task == "authors":
        method = run.method.authors
        settings = (1 + len(training.further_rates)) * (1 + len(training.further_temperatures))
        pairs = training.epoch_of or "groups" # full batches of texts
        base = "rows" if method.base == "mll" and not training.epoch_of else pairs
        if method.student == "none":
            return [Stage(corpus, base, method.epochs or training.epochs, settings)]
        epochs = method.epochs or training.student_epochs or training.epochs
        return [Stage(corpus, base, training.epochs, settings), Stage(corpus, pairs, epochs, settings)]
    items = isinstance(training, HingeTraining) and training.epoch_of
    last = Stage(corpus, items or "rows", training.epochs)
    first = first_stage(run)
    return [Stage(first.corpus, "rows", first.epochs), last] if first else [last]


class Reckoning:
    "What runs cost on the device of `costs.yaml`, from the sizes of the data and the shapes of the encoders."
    def __init__(self, root: Path | None = None): # of the project; default: found from here
        root = root or project_root()
        self.assumptions = load_yaml(root / "experiments/costs.yaml")
        check_range("experiments/costs.yaml: utilisation", self.assumptions["utilisation"], high=1, closed="right")
        bench = root / "bench/gpu.json"
        self.peak_shares = {} # task -> share of the device's peak, where it was measured
        measurement = json.loads(bench.read_text("utf-8")) if bench.is_file() else {"device": "cpu"}
        if measurement["device"] != "cpu":
            medians = {name: shape["variants"]["plain"]["peak"]["median"]
                       for name, shape in measurement["shapes"].items()}
            self.peak_shares = {task: medians[name] for task, name in BENCH_SHAPES.items() if name in medians}

    def size(self, corpus: str) -> dict:
        "Return the sizes of a corpus. Raise `KeyError` for one that nobody counted."
        return self.assumptions["corpora"][corpus]

    def rows(self, stage: Stage, run: RunConfig) -> float:
        "Count the rows that an epoch passes over. Raise as `size`."
        size = self.size(stage.corpus)
        if stage.unit == "groups":
            return 2 * size["groups"]
        if stage.unit == "texts":
            return size["rows"] - size["rows"] % run.training.batch_size
        share = getattr(run.corpus, "share", 1) if stage.corpus == run.corpus.name else 1
        return share * size[stage.unit]

    def steps(self, run: RunConfig) -> float:
        "Count the steps of all stages, 0 where nothing is trained. Raise as `size`."
        if not run.training:
            return 0.
        batch = run.training.batch_size
        return sum(stage.times * stage.epochs * math.ceil(self.rows(stage, run) / batch) for stage in stages(run))

    def shape(self, run: RunConfig) -> dict:
        "Return the shape of a transformer, by a part of its name. Raise `KeyError` for one without."
        name = run.encoder.name.lower()
        shapes = [shape for part, shape in self.assumptions["encoders"].items() if part in name]
        if not shapes:
            raise KeyError(run.encoder.name)
        return shapes[0]

    def operations(self, run: RunConfig) -> float:
        "Count the operations of training and testing; none where no encoder is asked. Raise as `size` and `shape`."
        if "counts" in run.evaluate or not run.data: # or it is tested beside another run
            return 0.
        shape = self.shape(run)
        tokens = run.encoder.max_length
        weights = shape["layers"] * (4 * shape["width"]**2 + 2 * shape["width"] * shape["inner"])
        forward = 2 * weights * tokens + 4 * shape["layers"] * shape["width"] * tokens**2 # a text forwards
        passes = self.size(run.data.name)["texts"] * len(run.evaluate) * (1 + len(run.method.mixing_weights))
        if run.method.trained:
            texts, by_epoch, once = texts_a_row(run)
            for stage in stages(run):
                passes += stage.times * self.rows(stage, run) * (stage.epochs * (3 * texts + by_epoch) + once)
        return forward * passes

    def memory(self, run: RunConfig) -> float:
        "Reckon the bytes of the device's memory that training takes. Raise as `shape`."
        if not run.method.trained:
            return 0.
        shape = self.shape(run)
        tokens = run.encoder.max_length
        texts, by_epoch, once = texts_a_row(run)
        state = (20 if by_epoch or once else 16) * shape["parameters"]
        activations = (34 + 5 * shape["heads"] * tokens / shape["width"]) * (1 if run.encoder.dtype == "bf16" else 2)
        return state + activations * tokens * texts * run.training.batch_size * shape["layers"] * shape["width"]

    def seconds(self, run: RunConfig, dtype: str | None = None) -> float: # dtype: default: the configuration's
        "Reckon how long a run takes, all of its stages and tests. Raise as `operations`."
        share = self.peak_shares.get(run.task, self.assumptions["utilisation"])
        peak = self.assumptions["peak"][dtype or run.encoder.dtype]
        return self.assumptions["overhead"] + self.operations(run) / (share * peak)


class CostKind(NamedTuple):
    "What decides how long a step of a run takes, or its test where nothing is trained; None: anything."
    encoder: str
    corpus: str | None
    method: MethodConfig | None # without its name
    batch_size: int | None


def _kinds(run: RunConfig) -> list[CostKind]:
    "List the kinds of a run, the strictest first: the same on another corpus, then another method on the same."
    method = run.method.model_copy(update={"name": "", "setting": None, "was": None})
    exact = CostKind(run.encoder.name, run.data and run.data.name, method, run.training and run.training.batch_size)
    return [exact, exact._replace(corpus=None), exact._replace(method=None)]


class Measurements:
    "What runs of planted and real data took, by the records of like ones."
    def __init__(self, records: list[dict]):
        self.runs = [(RunConfig.model_validate(record["config"]), record) for record in records
                     if record["status"] == "finished"]
        self.reckoning = Reckoning()

    def _data(self, stage: Stage, run: RunConfig) -> tuple:
        return run.corpus if stage.corpus == run.corpus.name else stage.corpus, stage.unit, run.training.batch_size

    @cached_property
    def epoch_steps(self) -> dict[tuple, float]:
        "The steps of an epoch, by corpus, what it passes over, and batch."
        steps = {}
        for run, record in self.runs:
            done = run.training and record["curve"].get("step")
            if not done:
                continue
            *_, last = stages(run)
            steps[self._data(last, run)] = done[-1] / last.epochs
            first = first_stage(run)
            if first:
                pairs = record["data"][f"transfer {first.corpus}"]["counts"]["candidates"]
                steps[first.corpus, "rows", run.training.batch_size] = math.ceil(pairs / run.training.batch_size)
        return steps

    def steps(self, run: RunConfig) -> float:
        """Count the steps of all stages, 0 where nothing is trained.

        Raise `KeyError` for a corpus without a record or a count."""
        total = 0.
        for stage in stages(run) if run.training else ():
            data = self._data(stage, run)
            if data in self.epoch_steps:
                an_epoch = self.epoch_steps[data]
            else:
                an_epoch = math.ceil(self.reckoning.rows(stage, run) / run.training.batch_size)
            total += stage.times * stage.epochs * an_epoch
        return total

    @cached_property
    def _like(self) -> dict[CostKind, list[tuple[float, int]]]: # seconds of one step, bytes
        like = defaultdict(list)
        for run, record in self.runs:
            try:
                took = record["seconds"] / (self.steps(run) or 1), record["peak_memory_bytes"]
            except KeyError: # a first stage that nobody counted
                continue
            for kind in _kinds(run):
                like[kind].append(took)
        return like

    def _of_like(self, run: RunConfig) -> np.ndarray: # (runs, 2)
        like = next(filter(None, map(self._like.get, _kinds(run))), None)
        if not like:
            raise KeyError(f"{run.encoder.display} on {run.data.display if run.data else 'its tests'}")
        return np.array(like)

    def seconds(self, run: RunConfig) -> float:
        "Return the mean of like runs, step for step. Raise `KeyError` where there is none, and as `steps`."
        return (self.steps(run) or 1) * self._of_like(run)[:, 0].mean()

    def memory(self, run: RunConfig) -> float:
        "Return the most that a like run took, in bytes. Raise as `seconds`."
        return self._of_like(run)[:, 1].max()


MEASURES = ("steps", "memory", "seconds")


def costs_of(runs: list[RunConfig], source: Reckoning | Measurements) -> tuple[pd.DataFrame, list[str]]:
    "Return a row of `MEASURES` for each run, NaN where it is not known, and what nobody counted or measured."
    rows = []
    unknown = {}
    for run in runs:
        values = {}
        for name in MEASURES:
            try:
                values[name] = getattr(source, name)(run)
            except KeyError as e:
                unknown[e.args[0]] = None
        rows.append(values)
    return pd.DataFrame(rows, columns=MEASURES, dtype=float), list(unknown)


@dataclass
class Forecast:
    "What some runs of an experiment will take."
    experiment: str
    runs: list[RunConfig]
    costs: pd.DataFrame # of `costs_of`, one row per run
    unknown: list[str]

    def row(self) -> dict[str, object]:
        "Return the row of a table; `without` are runs of which not all is known, which its sums leave out."
        batches = {run.training.batch_size for run in self.runs if run.training}
        complete = self.costs.dropna()
        return {
            "experiment": self.experiment, "runs": len(self.runs), "without": len(self.runs) - len(complete),
            "steps": complete.steps.sum(), "batch": ", ".join(map(str, sorted(batches))),
            "memory (GiB)": complete.memory.max() / 2**30 if len(complete) else 0.,
            "hours": complete.seconds.sum() / 3600}


def forecast(experiment: ExperimentConfig, ids: Collection[str], source: Reckoning | Measurements) -> Forecast:
    "Return what the runs of an experiment take but those of these ids, which have a record."
    runs = [run for run in experiment.runs() if run.id not in ids and not run.is_closed]
    return Forecast(experiment.name, runs, *costs_of(runs, source))


def two_digits(value: float) -> str:
    "Write a number with two digits that count."
    digits = max(0, 1 - math.floor(math.log10(value))) if value else 0
    return f"{round(value, digits):,.{min(digits, 2)}f}"


def taken(records: Collection[dict]) -> tuple[str, str]: # of finished runs, at least one
    "Say how many minutes some runs took, one after the other, and the most memory that one of them held, in GiB."
    minutes = sum(record["seconds"] for record in records) / 60
    return two_digits(minutes), two_digits(max(record["peak_memory_bytes"] for record in records) / 2**30)
