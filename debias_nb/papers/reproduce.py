"""Whether records that were made here say what the committed ones say, on whichever processor either was made.

How far a share may lie from its record depends on the encoder alone, and a count may differ by nothing. One metric of
one run that lies further off is a fault.
"""
import math
from collections import Counter
from datetime import datetime, timezone

import pandas as pd

from ..runs.origin import run_environment
from ..runs.pairing import alike, config_of, made_by
from ..runs.records import Records


# kind of encoder -> difference of a share; in every unit
TOLERANCE = {"static": 1e-4, "alignment": 1e-4, "transformer": .01}
HINGE = .01 # where training looks for the hardest items of a batch: rounding may find another one
# of a test, as in `p1[bin 5]`: all that a test may be off by may stand in one of its slices
SLICE = r"^(\w+\[\w+) \d+\]$"
COUNTS = ("queries", "targets", "excluded")


def why_not_compared(record: dict, reference: dict) -> str | None: # two records of one run; None: they are compared
    "Explain why two records are not compared: what unlike processors or versions may change without bound."
    if alike([made_by(record), made_by(reference)]):
        return None
    encoder = config_of(reference).encoder
    is_pretrained = encoder.kind == "transformer" and not encoder.pretrain
    if is_pretrained and encoder.dtype == "bf16":
        return "a pretrained transformer in bf16, recorded on another processor or with other versions"
    return None


def _metric_numbers(records: Records) -> pd.Series: # by run, test and metric
    values = {
        (run, test, metric): value for run, record in records.items()
        for test, metrics in record["metrics"].items() for metric, value in metrics.items()}
    return pd.Series(values.values(), pd.MultiIndex.from_tuples(values, names=["run", "test", "metric"]), float)


def _tolerance(record: dict) -> float: # of a fraction
    "Return how far a fraction may lie from its record."
    config = config_of(record)
    tolerance = TOLERANCE[config.encoder.kind]
    return max(HINGE, tolerance) if config.training and config.training.loss == "hinge" else tolerance


def metric_deviations(
    fresh: Records, # id -> record
    reference: Records,
) -> pd.DataFrame: # run, test, metric, reference, here, gap, allowed, apart; the worst first
    "List every metric of the runs that both have, and whether it is further off than allowed, as a missing one is."
    shared = {run: record for run, record in reference.items() if run in fresh}
    table = _metric_numbers(shared).to_frame("reference")
    table["here"] = _metric_numbers(fresh)
    table = table.reset_index()
    is_count = table.metric.isin(COUNTS) | (table.test == "counts") # numbers that have to be the same
    gap = (table.here - table.reference).abs().fillna(math.inf) # without end where one lacks, not at all where both do
    table["gap"] = gap.mask(table.here.isna() & table.reference.isna(), 0.)
    tolerance = table.run.map({run: _tolerance(record) for run, record in shared.items()}).astype(float)
    kind = table.metric.str.extract(SLICE, expand=False).fillna("")
    slices = table.groupby([table.run, table.test, kind]).metric.transform("size").where(kind != "", 1)
    table["allowed"] = tolerance.mask(is_count, 0.) * slices
    table["apart"] = ~(table.gap <= table.allowed + 1e-9)
    return table.sort_values(["apart", "gap"], ascending=False, kind="stable")


WORST = 20 # metrics that are listed


def log_line(agreeing: int, metrics: int) -> str:
    "Return the line of this machine for docs/reproductions.md."
    machine = run_environment()
    commit = (machine["commit"] or "no commit")[:9] + (" with changes" if machine["dirty"] else "")
    versions = f"Python {machine['python']}, torch {machine['packages'].get('torch')}"
    day = datetime.now(timezone.utc).date()
    return f"| {day} | {commit} | {machine['platform']}, {machine['cpu']}, {versions} | {agreeing:,} of {metrics:,} |"


def agreement(
    records: Records, reference: Records,
) -> tuple[list[str], bool]: # lines; whether there are metrics and all agree
    "Say how records of this machine agree with the committed ones."
    reasons = {run: why_not_compared(records[run], reference[run]) for run in sorted(reference.keys() & records.keys())}
    runs = [run for run, reason in reasons.items() if reason is None]
    lines = [f"{len(runs)} of {len(reference)} committed planted runs were made here too, and are compared."]
    lines += [f"{count} runs are not compared: {reason}."
              for reason, count in Counter(filter(None, reasons.values())).items()]
    table = metric_deviations(records, {run: reference[run] for run in runs})
    wrong = table[table.apart]
    lines.append(f"{len(table) - len(wrong)} of their {len(table)} metrics agree, {(table.gap == 0).sum()} are "
                 "identical.")
    for row in wrong.head(WORST).itertuples():
        lines.append(f"  {row.run}, {row.test}, {row.metric}: {row.here} here, {row.reference} committed, "
                     f"{row.allowed:g} apart at most")
    if len(wrong) > WORST:
        lines.append(f"  and {len(wrong) - WORST} more")
    lines += ["Your line for docs/reproductions.md:", log_line(len(table) - len(wrong), len(table))]
    return lines, len(wrong) == 0 and not table.empty
