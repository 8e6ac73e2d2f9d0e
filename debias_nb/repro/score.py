"""Your own loss or regularizer, trained as the methods here are, on planted and real pairs, with one scorecard next to theirs.

A loss is named as `module:Name`: a subclass of `Regularizer` (or `WordDropout`), which is put around least squares; or
a loss of sentence-transformers' kind that is made from the model alone, or a function of the model that gives one. It
is trained on two texts and a label of 0 or 1. Records are kept under a digest of the text that the loss is written in.
"""
import copy
import hashlib
import importlib
import inspect
import re
import sys
import tempfile
import weakref
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import torch

from ..checks import ConfigError, module_and_name, nearest
from ..files import load_yaml, package_file, project_root
from ..encoders.tokens import is_static
from ..losses.regularized import Regularized
from ..losses.regularizers import Changing, Regularizer
from .config import ColumnConfig, ExperimentConfig, MethodConfig, RunConfig, TableConfig
from .pages.cells import table_cells
from .pages.frame import runs_frame
from .pages.pairing import Made, Side, alike, is_clean, made_by, paired_sides
from .pages.pairing import run_on, scaled, trained_in
from .pages.shifts import standing, with_signs
from .pages.tables import differences, main
from .runs import runner
from .runs.origin import environment, this_machine
from .runs.records import Store, TrainingFailed, latest
from .runs.runner import absent, cores, run_all
from .runs.tasks.common import SMALL_WORLD, Trained, base_encoder, stand_in
from .runs.tasks.pairs import TASK
from .runs.training import PairCollator, columns_of, pair_tokens, pair_trainer
from ..measures.stats import holm, threshold_p, verdict


_IMPORTED = weakref.WeakKeyDictionary() # module -> how it was loaded, and the digest of its text then


def _digest(module: ModuleType) -> str: # 8 hex digits
    "Of the module's own file; what it imports is not looked at."
    file = getattr(module, "__file__", None)
    text = Path(file).read_bytes() if file else b""
    return hashlib.sha256(text).hexdigest()[:8]


class ScoreError(ConfigError):
    "A loss that cannot be scored; the message says why."


def _module(name: str):
    "Import a module, also from the current folder. Raises `ScoreError`."
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(name)
    except Exception as error: # whatever somebody's module does while it is imported
        lacks = isinstance(error, ModuleNotFoundError) and error.name
        if lacks and f"{name}.".startswith(f"{lacks}."):
            own = [path.stem for path in Path.cwd().glob("*.py")]
            hint = nearest(name, own) if own else ""
            where = f"neither in {here} nor among what is installed"
            raise ScoreError(f"no module {name!r}, {where}{hint}") from None
        raise ScoreError(f"{name} cannot be imported: {_in_words(error)}") from None
    loaded, _ = _IMPORTED.get(module, (None, ""))
    if loaded is not module.__spec__: # for the first time, or again
        _IMPORTED[module] = module.__spec__, _digest(module)
    return module


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def find_loss(
    spec: str, # `module:Name`
):             # what stands there
    "Raises `ConfigError` for another form, and `ScoreError`, naming the nearest, for a module or a name that is not there."
    module, name = module_and_name(spec)
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise ScoreError(f"{module} is a module of Python itself and holds no loss")
    found = _module(module)
    if not hasattr(found, name):
        public = [own for own in vars(found) if not own.startswith("_")]
        raise ScoreError(f"{module} has no {name!r}{nearest(name, public)}")
    return getattr(found, name)


def _source_at_import(name: str) -> str: # name: of a module; 8 hex digits
    "The digest of the text when the module was asked for here first."
    _, digest = _IMPORTED[_module(name)]
    return digest


def source_of(name: str) -> str: # name: of a module; 8 hex digits
    """A digest of the file that a module is written in, and not of what it imports: who changes a helper gives another
    `--out`. Raises `ScoreError` where it has changed since the module was asked for here first, or was loaded again."""
    digest = _digest(_module(name))
    if digest != _source_at_import(name):
        raise ScoreError(f"{name} has changed since it was imported: start again")
    return digest


PAIRED = "pairs of texts with a label of 0 or 1"


@dataclass(frozen=True)
class Candidate:
    "Your loss."
    spec: str                    # `module:Name`
    weight: float | None = None  # lambda, of what has one; None: its own

    @property
    def source(self) -> str: # 8 hex digits
        "A digest of the text it is written in: another text is another loss. Raises `ScoreError`, as `source_of` does."
        return source_of(self.module)

    @property
    def module(self) -> str:
        "The name of the module that it stands in."
        name, _, _ = self.spec.partition(":")
        return name

    @property
    def file_name(self) -> str:
        "The beginning of the names of its files."
        name = re.sub("[^A-Za-z0-9_.]", "-", self.spec)
        if self.weight is None:
            return name
        weight = str(float(self.weight)).removesuffix(".0")
        return f"{name}-{weight}"

    @property
    def folder(self) -> str:
        "The name of the folder with its records."
        return f"{self.file_name}-{self.source}"

    def look(self): # what stands there; whether it is a regularizer
        "Raises `ScoreError` for what is no loss. Nothing is called."
        found = find_loss(self.spec)
        is_class = isinstance(found, type)
        is_term = issubclass(found if is_class else type(found), (Regularizer, Changing))
        if self.weight is not None and not is_term:
            raise ScoreError(f"{self.spec} is no regulariser: --weight means nothing to it")
        is_function = inspect.isfunction(found) or inspect.ismethod(found)
        if not is_term and not is_function and not (is_class and issubclass(found, torch.nn.Module)):
            kinds = "a subclass of Regularizer, a loss class of sentence-transformers, or a function of a model"
            raise ScoreError(f"{self.spec} is of type {type(found).__name__} and no loss: {kinds} is needed")
        return found, is_term

    def make(
        self,
        model, # the SentenceTransformer that is trained
        base,  # a copy from before training
    ):         # a loss for the trainer
        "Raises `ScoreError` for what is no loss, or cannot be made from a model."
        found, is_term = self.look()
        try:
            if is_term:
                from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
                one: Any = found() if isinstance(found, type) else found
                if self.weight is not None:
                    one = replace(one, weight=self.weight)
                return Regularized(model, CosineSimilarityLoss(model), [one], base=base)
            loss = found(model)
        except Exception as error: # whatever somebody's constructor raises
            raise ScoreError(f"{self.spec} cannot be made from a model alone: {_in_words(error)}") from None
        if not isinstance(loss, torch.nn.Module):
            raise ScoreError(f"{self.spec} gives a {type(loss).__name__}, and no loss")
        return loss


def _total(value) -> torch.Tensor:
    "The sum of what a loss gives. Raises `ScoreError` for anything but a number, or a dictionary of numbers."
    parts = [value]
    if isinstance(value, dict):
        parts = list(value.values())
    if not parts or any(not torch.is_tensor(part) or part.numel() != 1 for part in parts):
        raise ScoreError(f"gives a {type(value).__name__}, and no scalar tensor or dictionary of them")
    return sum(part.sum() for part in parts)


def check(
    candidate: Candidate,
    encoder, # an `EncoderConfig`, of which a stand-in is made
) -> None:
    "Try a loss on one batch of sixteen planted pairs. Raises `ScoreError` for what cannot be trained with it."
    from ..settings import WorldConfig
    from ..data.worlds import Catalog
    candidate.look() # before an encoder is made, which takes a minute
    base, _ = base_encoder(stand_in(encoder))
    model = copy.deepcopy(base)
    loss = candidate.make(model, copy.deepcopy(base))
    world = WorldConfig(**SMALL_WORLD, train_pairs=8, negatives=1, queries=20, items=60)
    drawn = Catalog(world).labeled_pairs()

    def value(switched):
        pairs = pair_tokens(model, *drawn.texts(), drawn.labels)
        batch = PairCollator(pairs, is_static(model))([{"row": i} for i in range(len(pairs))])
        labels = batch["label"]
        torch.manual_seed(0)
        return _total(loss(columns_of(batch), 1 - labels if switched else labels))

    try:
        total = value(switched=False)
        looks = isinstance(loss, Regularized)
        if not looks:
            model.eval()
            with torch.no_grad():
                looks = not torch.allclose(value(switched=False), value(switched=True))
    except ScoreError as error:
        raise ScoreError(f"{candidate.spec} {error}") from None
    except Exception as error: # whatever somebody's loss raises
        raise ScoreError(f"{candidate.spec} cannot be computed from {PAIRED}: {_in_words(error)}") from None
    if not total.requires_grad:
        raise ScoreError(f"{candidate.spec} has no gradient: it does not depend on the model")
    if not looks:
        why = "it needs pairs that all match, and half of the pairs here do not"
        raise ScoreError(f"{candidate.spec} does not look at the labels: {why}")


def train(candidate: Candidate, run: RunConfig) -> Trained:
    "Train an encoder with your loss, as a run says. Raises `TrainingFailed` with the step, `ScoreError`."
    base, identity = base_encoder(run.encoder)
    pairs, data = TASK.data(run.encoder, run.corpus)
    model = copy.deepcopy(base)
    loss = candidate.make(model, copy.deepcopy(base))
    with tempfile.TemporaryDirectory() as folder:
        trainer = pair_trainer(
            model, loss, pairs, run.training, run.seed, run.encoder.dtype, folder, flat=is_static(model))
        try:
            trainer.train()
        except TrainingFailed:
            raise
        except Exception as error: # whatever somebody's loss raises later than in its first batch
            raise TrainingFailed(trainer.state.global_step, _in_words(error)) from error
    return Trained(model.eval(), identity, data=data)


def execute(
    candidate: Candidate,
    source: str, # as of `source_of`, when its runs began
    run: RunConfig,
) -> dict: # the record
    "Train and test one run with your loss. Raises as `train`, and `ScoreError` for a text that has changed."
    if _source_at_import(candidate.module) != source: # a worker that has begun later has imported another text
        raise ScoreError(f"{candidate.spec} has changed since its runs began: start again")
    told = {"loss": candidate.spec, "source": source, "weight": candidate.weight}
    return runner.execute(run, partial(train, candidate), told)


def own_runs(
    candidate: Candidate,
    runs: list[RunConfig], # of plain fine-tuning
    folder: Path,          # of the candidate's records
    workers: int,
) -> list[dict]: # records
    """Train with your loss wherever plain fine-tuning was; the first run alone, since a loss that fails mostly
    does so there. Raises `ScoreError` for a run that fails."""
    method = MethodConfig(name=candidate.spec)
    mine = [run.model_copy(update={"method": method}) for run in runs]
    work = partial(execute, candidate, candidate.source)
    records = []
    for some in (mine[:1], mine[1:]):
        outcome = run_all(some, Store(folder), workers=workers, work=work)
        for run_id, why in outcome.failed.items():
            raise ScoreError(f"{candidate.spec} failed at {why} ({run_id})")
        records += outcome.records.values()
    return records


def our_runs(
    experiment: ExperimentConfig,
    folder: Path, # for those that are not committed
    workers: int,
) -> dict[str, list[dict]]: # method -> records
    "The runs of our methods: committed ones that can be paired with runs of this machine. Raises `ScoreError` where one fails."
    known = {}
    try:
        committed = Store(project_root(Path.cwd()) / "results")
    except ConfigError: # outside of a clone
        pass
    else:
        here = trained_in(environment(), this_machine()["device"])
        place = (experiment.paper, experiment.experiment, experiment.profile)
        for run_id, record in latest(committed.records(*place)).items():
            if record["status"] == "finished" and is_clean(record) and alike([made_by(record), here]):
                known[run_id] = record
    runs = experiment.runs()
    outcome = run_all([run for run in runs if run.id not in known], Store(folder), workers=workers)
    if outcome.failed:
        raise ScoreError(next(iter(outcome.failed.values())))
    known = known | outcome.records
    found = {}
    for run in runs:
        if run.id in known:
            found.setdefault(run.method.name, []).append(known[run.id] | {"run": run})
    return found


@dataclass(frozen=True)
class Measure:
    "One row of the scorecard of the planted part."
    name: str
    metric: str
    test: str
    sign: int = 1 # -1: less is what is hoped for


MEASURES = (
    Measure("titles like training", "auc05[ordinary]", "iid"),
    Measure("brands no longer go with types", "auc05[ordinary]", "uncoupled"),
    Measure("unseen types", "auc05[ordinary]", "unseen"),
    Measure("importance of brands (less is better)", "brand importance", "uncoupled", -1),
)
PLAIN = "Finetuned"


def side(records: list[dict], measure: Measure) -> Side:
    "The values of a measure, a world and seed each."
    made_here = Made("", None) # all runs of a scorecard are
    runs = [run_on(record, measure.test, measure.metric, "fraction") for record in records]
    return [run._replace(made=made_here, clean=True, overlap=0.) for run in runs]


def compared(
    methods: dict[str, list[dict]], # name -> records; `Finetuned` among them
    delta: float = .01,             # the smallest difference that matters
) -> pd.DataFrame: # measure, method, value, difference, low, high, p, word; in percent and points
    """Each method's values, and the claim that it is better than plain fine-tuning: p-values have Holm's correction over
    the measures of a method."""
    plain = [side(methods[PLAIN], measure) for measure in MEASURES]
    rows = []
    for name, records in methods.items():
        mine = [side(records, measure) for measure in MEASURES]
        own = []
        for measure, runs in zip(MEASURES, mine):
            value = 100 * float(np.mean([run.value for run in runs]))
            own.append({"measure": measure.name, "method": name, "value": value})
        rows += own
        if name == PLAIN:
            continue
        # what plain fine-tuning has more of is the gain where less is hoped for
        gains = [paired_sides([a, b][::measure.sign]) for measure, a, b in zip(MEASURES, mine, plain)]
        adjusted = holm(list(map(threshold_p, gains)))
        for row, measure, gain, p in zip(own, MEASURES, gains, adjusted):
            points = scaled(gain, 100)
            low, high = sorted([measure.sign * points.low, measure.sign * points.high])
            row |= {"difference": measure.sign * points.difference, "low": low, "high": high}
            row |= {"p": p, "word": verdict(gain, delta=delta, p=p)}
    return pd.DataFrame(rows)


SHIFTS = "matrix" # the part of many shifts, which has its own statistics
BASE = "Base"
SIGNS = {1: "gain", -1: "loss", 0: "not told"}


def with_loss(experiment: ExperimentConfig, spec: str) -> ExperimentConfig: # spec: of your loss
    "The same with your loss as a method wherever plain fine-tuning is, and a table of all shifts."
    blocks = []
    columns = []
    for block in experiment.blocks:
        if PLAIN in block.methods:
            block = block.model_copy(update={"methods": (*block.methods, spec)})
            for corpus, test in product(block.corpora, block.evaluate):
                shift = "iid" if test == corpus.name else "ood"
                label = f"{corpus.display} -> {test}"
                columns.append(ColumnConfig(label=label, corpus=corpus.display, evaluate=test, shift=shift))
        blocks.append(block)
    averaged = {f"{PLAIN} {share}": f"WiSE-FT {share}" for share in experiment.by_name("methods")[PLAIN].interpolate}
    table = TableConfig(id=SHIFTS, metric="auc05", unit="percent", tuned=True, rows=averaged, columns=tuple(columns))
    methods = (*experiment.methods, MethodConfig(name=spec))
    return experiment.model_copy(update={"methods": methods, "blocks": tuple(blocks), "tables": (table,)})


def of_shifts(
    experiment: ExperimentConfig,
    methods: dict[str, list[dict]], # name -> records; yours is the last
) -> tuple[pd.DataFrame, str]: # a row a method and test, in percent and points; and what is told of it
    "Each method minus the base encoder on every test, as the page of the matrix compares them."
    *_, spec = methods
    known = {record["id"]: record for records in methods.values() for record in records}
    asked = with_loss(experiment, spec)
    table, = asked.tables
    runs = runs_frame(table_cells(asked, table, known), known, {}, own=True)
    found = with_signs(differences(runs, BASE))
    told = standing(found).drop(columns="encoder").set_index("method")
    values = main(runs).groupby(["test", "method"]).value.mean().rename("value")
    rows = found.join(values, on=["test", "method"]).rename(columns={"test": "measure"})
    rows = rows.assign(word=found.sign.map(SIGNS))
    return rows, f"{SHIFTS_LEGEND}\n\n{told.round(1).to_string()}"


def of_measures(experiment: ExperimentConfig, methods: dict[str, list[dict]]) -> tuple[pd.DataFrame, str]: # as `of_shifts`
    "Each method minus plain fine-tuning on every measure of the planted part."
    rows = compared(methods).assign(against=PLAIN)
    told = rows.set_index(["method", "measure"])[["value", "difference", "low", "high", "word"]]
    return rows, f"{LEGEND}\n\n{told.round(1).astype(object).fillna('').to_string()}"


CARDS = {"planted": of_measures, SHIFTS: of_shifts} # of each part


@lru_cache(maxsize=None)
def parts() -> dict[str, ExperimentConfig]:
    "What a loss is tried on."
    known = load_yaml(package_file("repro/score.yaml"))
    return {name: ExperimentConfig.model_validate(part) for name, part in known.items()}


def score(
    spec: str,                     # `module:Name`
    weight: float | None = None,   # lambda, of a regulariser; None: its own
    on: tuple[str, ...] | None = None, # parts; None: all
    out: str | Path = "score",     # folder for records and scorecard
    workers: int | None = None,    # processes; None: one a core
    say=print,                     # what takes the lines of the answer
) -> pd.DataFrame: # `COLUMNS`, of all parts
    "Score your loss. Raises `ScoreError` for what cannot be scored, before anything is trained where that can be known."
    known = parts()
    on = on or tuple(known)
    for name in on:
        if name not in known:
            raise ScoreError(f"no part {name!r}{nearest(name, known)}")
    folder = Path(out)
    candidate = Candidate(spec, weight)
    check(candidate, known[on[0]].encoders[0])
    found = []
    for name in dict.fromkeys(on):
        experiment = known[name]
        plain = [run for run in experiment.runs() if run.method.name == PLAIN]
        lacking = next(filter(None, map(absent, plain)), None)
        if lacking:
            say(f"{name}: not run: {lacking}")
            continue
        say(f"{name}: {experiment.scale}; first the methods here, where they have not run yet, then {len(plain)} runs of yours")
        methods = our_runs(experiment, folder / "methods", workers or cores())
        methods[spec] = own_runs(candidate, plain, folder / candidate.folder, workers or cores())
        rows, told = CARDS[name](experiment, methods)
        say(f"\n{told}\n")
        found.append(rows.assign(part=name)[COLUMNS])
    if not found:
        raise ScoreError("nothing could be run")
    together = pd.concat(found, ignore_index=True)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{candidate.file_name}.csv"
    together.to_csv(path, index=False)
    say(f"written: {path}")
    return together


COLUMNS = ["part", "measure", "method", "value", "against", "difference", "low", "high", "p", "word"] # of the file
LEGEND = f"""Of the planted part the methods here, and yours last: values in percent (AUC(0.05), or importance), each minus that of
{PLAIN} in points, the ends of the 95% interval, and whether the method is better there than plain fine-tuning.
  holds          it is better          no difference  less than a point lies between them
  reversed       it is worse           inconclusive      these runs cannot say"""
SHIFTS_LEGEND = """Of the matrix of shifts the methods here, and yours last, each minus the base encoder in points of AUC(0.05): on how many
shifts it is significantly below it (losses) and above it (gains), at 5% after Holm's correction over the shifts of a
method; the worst shift and their mean; and the mean on tests of the kind that was trained on (own), with significant
gains there. WiSE-FT is weights between base and plainly fine-tuned ones. The file has every shift."""
