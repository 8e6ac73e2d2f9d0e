"""The runs of a comparison: a user's files as a task, a method as a configuration, a record for each training.

A record stands in a file of its own in the user's folder, and its id depends on the rows that were read, what is
measured on them, the encoder and how it cuts texts, method, settings, seed, and the versions of the packages that
train. What is there is not run again, so that a comparison that was stopped goes on where the same is asked again.
Weights between the base and plain fine-tuning take no training of their own.
"""
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from ..checks import ConfigError
from .pairs import PairFile
from ..data.registry import DataError
from ..data.texts import HeldTexts
from ..encoders.kinds import deep_copy
from ..files import fingerprint
from ..measures.metrics import sampling_units
from ..runs.config import OWN_PROFILE, RunConfig
from ..runs.settings import TrainConfig
from .corpus import FilesConfig, FilesCorpus
from ..runs.pairing import record_results
from ..runs.records import Store
from ..runs.runner import Outcome, cores, finished, run_all
from ..runs.tasks import Task, Tested, Trained
from ..runs.training import curve_summary, fine_tune
from ..settings import EncoderConfig
from .changes import WHOLE, parts_of
from .methods import Method, file_tokens, strengths_of
from .models import NO_LIMIT, Scorer, cutting, layers, limit
from .page import versions
from .programs import OF_MATCHES, folder_name
from .test_sets import RESAMPLES, Test, has_one_score

TRAINERS = ("debias-nb", "torch", "transformers", "sentence-transformers") # packages whose versions a run depends on
NO_SETTINGS = ("_name_or_path", "transformers_version", "architectures") # of a transformer: they change no training


def origin_of(base: Scorer) -> str: # 64 hex digits
    "Digest an encoder: its weights, how texts become its tokens, tokens a vector, and the dropout of its transformers."
    from transformers import PreTrainedModel
    settings = []
    for module in base.model.modules():
        if isinstance(module, PreTrainedModel):
            values = {name: value for name, value in module.config.to_dict().items() if name not in NO_SETTINGS}
            settings.append(json.dumps(values, sort_keys=True, default=str))
    return fingerprint([base.fingerprint, cutting(base), layers(base), settings])


def sample(file: PairFile, fraction: float, seed: int) -> PairFile: # fraction: of its pairs, in (0, 1)
    "Take a random sample of the pairs, in whole groups that share texts."
    group = sampling_units(*file.folded).group
    order = np.random.default_rng(seed).permutation(group.max() + 1)
    sizes = np.bincount(group)[order]
    groups = order[np.cumsum(sizes) <= max(fraction * len(group), sizes[0])]
    return replace(file, frame=file.frame[np.isin(group, groups)].reset_index(drop=True))


@dataclass
class TrainingPairs:
    "The training pairs of a task, tokenized once for each random sample of them; the latest one is kept."
    base: Scorer
    file: PairFile
    loss: str
    key: tuple = ()
    latest: tuple = ()

    def tokenize(self, corpus: FilesCorpus) -> tuple: # a `PairTokens`, and what a record says of it
        "Tokenize the pairs that a run trains on."
        key = corpus.share, corpus.share_seed # whatever the method
        if key != self.key:
            file = self.file if corpus.share == 1 else sample(self.file, *key)
            facts = {"path": file.path, "sha256": file.sha256, "fingerprint": file.rows_sha256, "pairs": len(file)}
            self.key, self.latest = key, (file_tokens(self.base, file, self.loss), facts)
        return self.latest


@dataclass
class FilesTask(Task):
    """A user's files, read before, as a task.

    It is handed to the runner as it is: pairs and models given in Python have no file to be found by."""
    base: Scorer              # left as it is
    files: dict[str, PairFile] # `train`, and those that tests are made of
    loss: str                 # of the comparison: whether matches alone are trained on
    tests: dict[str, Test]    # those that strengths are chosen on among them
    # of tests that overlap with training, the cases that do not
    disjoint: dict[str, np.ndarray] = field(default_factory=dict)
    texts: HeldTexts | None = None

    def __post_init__(self):
        self.base = replace(self.base, model=deep_copy(self.base.model)) # a training looks at it, and stops its dropout
        self.pairs = TrainingPairs(self.base, self.files["train"], self.loss)

    def data(self, run: RunConfig):
        tokens, facts = self.pairs.tokenize(run.corpus)
        return tokens, {"train": facts}

    def train(self, run: RunConfig) -> Trained:
        "Train the encoder of a run. Raise `TrainingFailed`."
        identity = self.base.fingerprint
        if not run.method.trained:
            return Trained(self.base.model, identity)
        tokens, facts = self.data(run)
        model = deep_copy(self.base.model)
        texts = None
        if run.method.texts:
            texts = self.texts.texts
            facts["held texts"] = self.texts.facts()
        course = fine_tune(model, self.base.model, tokens, run.method, run.training, run.seed, texts=texts, watch=True)
        return Trained(model, identity, curve_summary(course.history), facts, {"prompts": list(self.base.prefixes)})

    def base_of(self, run: RunConfig):
        return self.base.model

    def test_set(self, run: RunConfig, name: str) -> tuple:
        return self.tests.get, (name,)

    def _parts(self, name: str) -> dict[str, tuple]: # name: of a test; key in a record -> metric, and of which cases
        "List what is measured on a test."
        test = self.tests[name]
        keys = {}
        for part, rows in parts_of(test, self.disjoint).items():
            suffix = "" if part == WHOLE else f"[{part}]"
            cases = slice(None) if rows is None else rows
            keys |= {metric + suffix: (metric, cases) for metric in test.metrics}
        return keys

    def evaluate(self, model, run: RunConfig, name: str, test: Test, tested: Tested) -> None:
        "Measure a model on a test: metrics, values on resamples that all runs share, and whether all scores are one."
        title = f"{run.method.name}, seed {run.seed}, on {name}"
        scores = test.score({title: replace(self.base, model=model)})[title]
        flat = tested.extra.setdefault("one score", [])
        if has_one_score(scores):
            flat.append(name)
        values = {key: test.measured(scores, *part) for key, part in self._parts(name).items()}
        tested.metrics[name] = {metric: measurement.value for metric, measurement in values.items()}
        tested.replicates[name] = {metric: _numbers(measurement.resampled) for metric, measurement in values.items()}
        tested.data[f"test {name}"] = {"path": test.file.path, "fingerprint": test.file.rows_sha256}

    def needs(self, run: RunConfig) -> Iterator[tuple]:
        return iter(())


def _numbers(resampled: np.ndarray) -> list[float | None]: # None: a resample has none
    return [None if np.isnan(value) else float(value) for value in resampled]


def rows_of(
    method: Method, record: dict,
) -> list[dict]: # as of `record_results`, with method, strength, test, part and one score
    "Read what a record says of a method: one row per test, part and metric; fractions."
    suffix = f"@{method.strength:g}" if method.kind == "wise-ft" else ""
    rows = []
    for test in record["config"]["evaluate"]:
        keys = {"method": method.name, "strength": method.strength, "seed": record["seed"], "test": test}
        keys["one score"] = test in record["extra"][f"one score{suffix}"]
        for row in record_results(record, test + suffix):
            metric, _, part = row["metric"].removesuffix("]").partition("[")
            rows.append(keys | row | {"part": part or WHOLE, "metric": metric})
    return rows


WORTH_WORKERS = 30 # seconds of training, from which on processes of their own are begun, which takes some seconds each
CHOICE_SEED = 0 # the seed with which strengths are tried
CHOICE_COLUMNS = ["method", "strength", "value"]


@dataclass
class Trials:
    "The runs of one comparison."
    task: FilesTask
    settings: TrainConfig
    folder: Path
    methods: Sequence[Method] = ()
    seeds: range = range(0)
    validation: Sequence[str] = ()   # those of its tests that strengths are chosen on
    # the fraction of the training pairs in the random sample of each seed; None: all train on all
    redraw: float | None = None
    progress: bool = False
    workers: int | None = None       # trainings at a time; None: one per core

    def __post_init__(self):
        self.store = Store(self.folder)
        packages = versions()
        self.packages = [f"{name} {packages[name]}" for name in TRAINERS]
        base = self.task.base
        origin = origin_of(base)
        self.encoder = EncoderConfig(
            name=f"{folder_name(base.source)}@{origin[:12]}", kind=base.kind, revision=origin, max_length=limit(base)
            or NO_LIMIT)

    def run(self, method: Method, seed: int, tests: list[str], shares: tuple[float, ...]) -> RunConfig:
        "Return the configuration of one method with one seed; WiSE-FT shares that of plain fine-tuning."
        task = self.task
        digests = [fingerprint([task.tests[name].file.rows_sha256, task.tests[name].metrics, RESAMPLES])
                   for name in tests]
        texts = method.texts and fingerprint(method.texts.texts)
        files = FilesConfig(
            train=task.files["train"].rows_sha256, tests=digests, matches=self.settings.loss in OF_MATCHES, texts=texts,
            own=method.source,
            packages=self.packages)
        corpus = FilesCorpus(name="files", task="files", files=files)
        config = method.config(task.base.model, shares)
        training = {"eval_corpus": corpus}
        if config.trained:
            sampling = {} if self.redraw is None else {"share": self.redraw, "share_seed": seed}
            training = {"corpus": corpus.model_copy(update=sampling), "training": method.training(self.settings)}
        return RunConfig(
            paper="runs", experiment="comparison", profile=OWN_PROFILE, encoder=self.encoder, method=config,
            evaluate=tests, seed=seed, **training)

    def _runs(self, todo: list[tuple[Method, int]], tests: Sequence[str]) -> list[RunConfig]:
        "Return the run of each method and seed."
        shares = tuple(sorted({method.strength or 0. for method, _ in todo if method.kind == "wise-ft"}))
        for name, share in product(tests, shares):
            if f"{name}@{share:g}" in tests:
                raise DataError(f"a test is called '{name}@{share:g}', which is the name of weights in between on the "
                                f"test {name}")
        return [self.run(method, seed, tests, shares) for method, seed in todo]

    def choose(self) -> pd.DataFrame | None: # method, strength, value; None without validation pairs
        "Give open methods the strength that does best in validation, the weakest of equals; return what was tried."
        if not self.validation:
            return None
        todo = [(replace(method, strength=strength), CHOICE_SEED) for method in self.methods if method.is_open
                for strength in strengths_of(method, self.settings.loss)[1]]
        if not todo:
            return pd.DataFrame(columns=CHOICE_COLUMNS)
        results = self._results(todo, self.validation)
        decides = results.metric == results.test.map({name: self.task.tests[name].metric for name in self.validation})
        table = results[decides & (results.part == WHOLE)].groupby(
            CHOICE_COLUMNS[:2], sort=False, as_index=False).value.mean()[CHOICE_COLUMNS]
        best = table.loc[table.groupby("method").value.idxmax()].set_index("method").strength
        self.methods = [replace(method, strength=best.get(method.name, method.strength)) for method in self.methods]
        return table

    def results(self) -> pd.DataFrame: # as of `rows_of`
        "Run all methods with one seed before the next; an encoder that is not trained has one."
        first = self.seeds.start
        todo = [(method, seed) for seed in self.seeds for method in self.methods if seed == first
                or method.kind != "base"]
        return self._results(todo, list(self.task.tests))

    def _results(self, todo: list[tuple[Method, int]], tests: Sequence[str]) -> pd.DataFrame: # as of `rows_of`
        """Run methods with seeds, in their order.

        Raise `ConfigError` for trainings that stopped, once the others are done."""
        runs = self._runs(todo, tests)
        out = self._make_all(list({run.id: run for run in runs}.values()))
        if out.failed:
            failures = [f"{run.method.name}, seed {run.seed}: {out.failed[run.id]}" for run in runs
                        if run.id in out.failed]
            raise ConfigError(f"{'; '.join(dict.fromkeys(failures))}: a lower learning rate may help")
        return pd.DataFrame([row for run, (method, _) in zip(runs, todo)
                             for row in rows_of(method, out.records[run.id])])

    def _make_all(self, runs: list[RunConfig]) -> Outcome:
        "Make the first training here, and the others at the same time if that saves more than processes cost."
        records = finished(runs, self.store)
        missing = [run for run in runs if run.id not in records]
        trainings = [run for run in missing if run.method.trained]
        workers = self.workers or cores()
        if trainings:
            preceding = missing[:missing.index(trainings[0]) + 1]
            first = run_all(preceding, self.store, workers=1, progress=False, task=self.task)
            seconds = max((record["seconds"] for record in first.records.values()), default=0.)
            if seconds * (len(trainings) - 1) < WORTH_WORKERS:
                workers = 1
        return run_all(runs, self.store, workers=workers, progress=self.progress, task=self.task)
