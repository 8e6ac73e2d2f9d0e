"""Your own loss or regularizer, trained as the methods here are, on planted and real pairs, with one scorecard next to theirs.

Records are kept under a digest of the text that the loss is written in.
"""
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from ..checks import ConfigError, nearest
from ..files import load_yaml, package_file, project_root
from .candidate import Candidate, ScoreError, check, execute
from .config import ColumnConfig, ExperimentConfig, MethodConfig, RunConfig, TableConfig
from .pages.cells import table_cells
from .pages.frame import runs_frame
from .pages.pairing import Made, Side, alike, is_clean, made_by, paired_sides
from .pages.pairing import run_on, scaled, trained_in
from .pages.shifts import standing, with_signs
from .pages.tables import differences, main
from .runs.origin import environment, this_machine
from .runs.records import Store, latest
from .runs.runner import absent, cores, run_all
from ..measures.stats import holm, threshold_p, verdict


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
