"""The runs of a comparison: a user's files as a task, a method as a configuration, a record for each training.

A record stands in a file of its own in the user's folder, and its id depends on the rows that were read, what is measured on
them, the encoder and how it cuts texts, method, settings, seed, and the versions of the packages that train. What is there is
not run again, so that a comparison that was stopped goes on where the same is asked again. Weights between the base and plain
fine-tuning take no training of their own.
"""
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from ..checks import ConfigError
from ..data.pairs_file import PairFile
from ..data.registry import DataError
from ..encoders.kinds import deep_copy
from ..files import fingerprint
from ..measures.metrics import sampling_units
from ..runs.config import OWN, RunConfig, TrainConfig
from ..data.corpora import CorpusConfig, FilesConfig
from ..runs.pairing import results_of
from ..runs.records import Store
from ..runs.runner import Outcome, cores, finished, run_all
from ..runs.tasks.common import Tested, Trained
from ..runs.tasks.pairs import PairTask
from ..runs.training import curve_summary, fine_tune
from ..settings import EncoderConfig
from .changes import WHOLE, parts_of
from .methods import HeldTexts, Method, file_tokens, grid_of
from .models import NO_LIMIT, Scorer, cutting, layers, limit
from .page import versions
from .programs import OF_MATCHES, folder_name
from .test_sets import RESAMPLES, Test, has_one_score

TRAINERS = ("debias-nb", "torch", "transformers", "sentence-transformers") # packages whose versions a run depends on
NO_SETTINGS = ("_name_or_path", "transformers_version", "architectures") # of a transformer: they change no training


def origin_of(
    base: Scorer,
) -> str: # 64 hex digits
    "A digest of an encoder: its weights, how texts become its tokens, tokens a vector, and the dropout of its transformers."
    from transformers import PreTrainedModel
    settings = []
    for module in base.model.modules():
        if isinstance(module, PreTrainedModel):
            told = {name: value for name, value in module.config.to_dict().items() if name not in NO_SETTINGS}
            settings.append(json.dumps(told, sort_keys=True, default=str))
    return fingerprint([base.fingerprint, cutting(base), layers(base), settings])


def drawn(
    file: PairFile,
    share: float, # of its pairs, in (0, 1)
    seed: int,
) -> PairFile:
    "About this share of the pairs, drawn in whole groups that share texts."
    group = sampling_units(*file.folded).group
    order = np.random.default_rng(seed).permutation(group.max() + 1)
    sizes = np.bincount(group)[order]
    kept = order[np.cumsum(sizes) <= max(share * len(group), sizes[0])]
    return replace(file, frame=file.frame[np.isin(group, kept)].reset_index(drop=True))


_TOKENS = {} # encoder and rows -> of a training, and what a record says of them; all runs of a process share them


@dataclass
class FilesTask(PairTask):
    """What is done with a user's files, which were read before. It is handed to the runner as it is: pairs and models given in
    Python have no file to be found by."""
    base: Scorer              # left as it is
    files: dict[str, PairFile] # `train`, and those that tests are made of
    loss: str                 # of the comparison: whether matches alone are trained on
    tests: dict[str, Test]    # those that strengths are chosen on among them
    apart: dict[str, np.ndarray] = field(default_factory=dict) # of tests that share texts with training, the cases that do not
    texts: HeldTexts | None = None

    def __post_init__(self):
        self.base = replace(self.base, model=deep_copy(self.base.model)) # a training looks at it, and stops its dropout

    def data(self, run: RunConfig):
        corpus = run.corpus
        key = run.encoder, corpus.files.train, corpus.files.matches, corpus.share, corpus.share_seed # whatever the method
        if key not in _TOKENS:
            file = self.files["train"]
            if corpus.share < 1:
                file = drawn(file, corpus.share, corpus.share_seed)
            about = {"path": file.path, "sha256": file.sha256, "fingerprint": file.rows_sha256, "pairs": len(file)}
            _TOKENS.clear()
            _TOKENS[key] = file_tokens(self.base, file, self.loss), about
        tokens, about = _TOKENS[key]
        return tokens, {"train": about}

    def train(self, run: RunConfig) -> Trained:
        "Raises `TrainingFailed`."
        identity = self.base.fingerprint
        if not run.method.trained:
            return Trained(self.base.model, identity)
        tokens, about = self.data(run)
        model = deep_copy(self.base.model)
        texts = None
        if run.method.texts:
            texts = self.texts.texts
            about["held texts"] = self.texts.facts()
        course = fine_tune(model, self.base.model, tokens, run.method, run.training, run.seed, texts=texts, watch=True)
        return Trained(model, identity, curve_summary(course.history), about, {"prompts": list(self.base.prefixes)})

    def base_of(self, run: RunConfig):
        return self.base.model

    def test_set(self, run: RunConfig, name: str) -> tuple:
        return self.tests.get, (name,)

    def _asked(self, name: str) -> dict[str, tuple]: # name: of a test; key in a record -> metric, and of which cases
        "What is measured on a test."
        test = self.tests[name]
        found = {}
        for part, rows in parts_of(test, self.apart).items():
            behind = "" if part == WHOLE else f"[{part}]"
            cases = slice(None) if rows is None else rows
            found |= {metric + behind: (metric, cases) for metric in test.metrics}
        return found

    def evaluate(self, model, run: RunConfig, name: str, test: Test, tested: Tested) -> None:
        "Metrics of a test, their values on resamples, which all runs share, and whether all scores are one."
        said = f"{run.method.name}, seed {run.seed}, on {name}"
        scores = test.asked({said: replace(self.base, model=model)})[said]
        same = tested.extra.setdefault("one score", [])
        if has_one_score(scores):
            same.append(name)
        measured = {key: test.measured(scores, *asked) for key, asked in self._asked(name).items()}
        tested.metrics[name] = {metric: one.value for metric, one in measured.items()}
        tested.replicates[name] = {
            metric: [None if np.isnan(value) else float(value) for value in one.resampled] for metric, one in measured.items()}
        tested.data[f"test {name}"] = {"path": test.file.path, "fingerprint": test.file.rows_sha256}

    def needs(self, run: RunConfig) -> Iterator[tuple]:
        return iter(())


def rows_of(method: Method, record: dict) -> list[dict]: # as of `results_of`, with method, strength, test, part and one score
    "What a record says of a method: a row a test, part and metric; fractions."
    suffix = f"@{method.strength:g}" if method.kind == "wise-ft" else ""
    rows = []
    for test in record["config"]["evaluate"]:
        about = {"method": method.name, "strength": method.strength, "seed": record["seed"], "test": test}
        about["one score"] = test in record["extra"][f"one score{suffix}"]
        for row in results_of(record, test + suffix):
            metric, _, part = row["metric"].removesuffix("]").partition("[")
            rows.append(about | {"part": part or WHOLE} | row | {"metric": metric})
    return rows


WORTH_WORKERS = 30 # seconds of training, from which on processes of their own are begun, which takes some seconds each
FIRST = 0 # the seed with which strengths are tried


class Trials:
    "The runs of one comparison."
    def __init__(
        self, task: FilesTask, settings: TrainConfig, folder: Path, methods: Sequence[Method] = (), seeds: range = range(0),
        validation: Sequence[str] = (), # those of its tests that strengths are chosen on
        redraw: float | None = None, # the share of the training pairs that each seed draws anew; None: all train on all
    ):
        self.task = task
        self.settings = settings
        self.methods = methods
        self.seeds = seeds
        self.validation = validation
        self.redraw = redraw
        self.store = Store(folder)
        installed = versions()
        self.packages = [f"{name} {installed[name]}" for name in TRAINERS]
        base = task.base
        origin = origin_of(base)
        self.encoder = EncoderConfig(
            name=f"{folder_name(base.source)}@{origin[:12]}", kind=base.kind, revision=origin, max_length=limit(base) or NO_LIMIT)

    def run(self, method: Method, seed: int, tests: list[str], shares: tuple[float, ...]) -> RunConfig:
        "The configuration of one method with one seed; WiSE-FT shares that of plain fine-tuning."
        task = self.task
        measured = [fingerprint([task.tests[name].file.rows_sha256, task.tests[name].metrics, RESAMPLES]) for name in tests]
        texts = method.texts and fingerprint(method.texts.texts)
        files = FilesConfig(
            train=task.files["train"].rows_sha256, tests=measured, matches=self.settings.loss in OF_MATCHES, texts=texts, own=method.source,
            packages=self.packages)
        corpus = CorpusConfig(name="files", task="files", files=files)
        config = method.config(task.base.model, shares)
        trained = {"eval_corpus": corpus}
        if config.trained:
            draw = {} if self.redraw is None else {"share": self.redraw, "share_seed": seed}
            trained = {"corpus": corpus.model_copy(update=draw), "training": method.training(self.settings)}
        return RunConfig(
            paper="runs", experiment="comparison", profile=OWN, encoder=self.encoder, method=config, evaluate=tests, seed=seed,
            **trained)

    def _tries(self) -> list[tuple[Method, int]]: # method and seed
        "Methods with each strength that may be chosen; none without validation pairs."
        asked = [method for method in self.methods if method.is_open and self.validation]
        loss = self.settings.loss
        return [(replace(method, strength=strength), FIRST) for method in asked for strength in grid_of(method, loss)]

    def _todo(self, methods: Sequence[Method]) -> list[tuple[Method, int]]:
        "All methods with one seed before the next; an encoder that is not trained has one."
        first = self.seeds.start
        return [(method, seed) for seed in self.seeds for method in methods if seed == first or method.kind != "base"]

    def _runs(self, todo: list[tuple[Method, int]], tests: Sequence[str]) -> list[RunConfig]:
        "The run of each."
        shares = tuple(sorted({method.strength or 0. for method, _ in todo if method.kind == "wise-ft"}))
        for name, share in product(tests, shares):
            if f"{name}@{share:g}" in tests:
                raise DataError(f"a test is called '{name}@{share:g}', which is the name of weights in between on the test {name}")
        return [self.run(method, seed, tests, shares) for method, seed in todo]

    def finish(self, progress: bool, workers: int | None = None) -> tuple[Sequence[Method], pd.DataFrame | None, pd.DataFrame]:
        "The methods, with the strengths that were chosen; what was tried, where something was; all results, as of `rows_of`."
        methods, tried = self._chosen(progress, workers)
        return methods, tried, self._results(self._todo(methods), list(self.task.tests), progress, workers)

    def _chosen(self, progress: bool, workers: int | None) -> tuple[Sequence[Method], pd.DataFrame | None]: # method, strength, value
        "The methods with the strengths that did best on validation pairs, the weakest of equals, and what was tried."
        columns = ["method", "strength", "value"]
        todo = self._tries()
        if not todo:
            return self.methods, pd.DataFrame(columns=columns) if self.validation else None
        found = self._results(todo, self.validation, progress, workers)
        decides = found.metric == found.test.map({name: self.task.tests[name].metric for name in self.validation})
        own = found[decides & (found.part == WHOLE)]
        table = own.groupby(columns[:2], sort=False, as_index=False).value.mean()[columns]
        best = table.loc[table.groupby("method").value.idxmax()].set_index("method").strength
        return [replace(method, strength=best.get(method.name, method.strength)) for method in self.methods], table

    def _results(
        self, todo: list[tuple[Method, int]], tests: Sequence[str], progress: bool, workers: int | None,
    ) -> pd.DataFrame: # as of `rows_of`
        "What methods come to with seeds, in their order. Raises `ConfigError` for trainings that stopped, once the others are done."
        runs = self._runs(todo, tests)
        out = self._make_all(list({run.id: run for run in runs}.values()), progress, workers)
        if out.failed:
            stopped = [f"{run.method.name}, seed {run.seed}: {out.failed[run.id]}" for run in runs if run.id in out.failed]
            raise ConfigError(f"{'; '.join(dict.fromkeys(stopped))}: a lower learning rate may help")
        return pd.DataFrame([row for run, (method, _) in zip(runs, todo) for row in rows_of(method, out.records[run.id])])

    def _make_all(self, runs: list[RunConfig], progress: bool, workers: int | None) -> Outcome:
        "The first training here; the others at the same time, where they take longer than it takes to begin."
        known = finished(runs, self.store)
        missing = [run for run in runs if run.id not in known]
        trained = [run for run in missing if run.method.trained]
        workers = workers or cores()
        if trained:
            before = missing[:missing.index(trained[0]) + 1]
            first = run_all(before, self.store, workers=1, progress=False, task=self.task)
            seconds = max((record["seconds"] for record in first.records.values()), default=0.)
            if seconds * (len(trained) - 1) < WORTH_WORKERS:
                workers = 1
        return run_all(runs, self.store, workers=workers, progress=progress, task=self.task)
