"""Whether records that were made here say what the committed ones say, on whichever processor either was made.

How far a share may lie from its record depends on the encoder alone, and a count may differ by nothing. One metric of
one run that lies further off is a fault.
"""
import math
from collections import Counter

import pandas as pd

from ..runs.pairing import alike, config_of, made_by
from ..runs.records import Records


ALLOWED = {"static": 1e-4, "alignment": 1e-4, "transformer": .01} # kind of encoder -> difference of a share; in every unit
HINGE = .01 # where training looks for the hardest items of a batch: rounding may find another one
SLICE = r"^(\w+\[\w+) \d+\]$" # of a test, as in `p1[bin 5]`: all that a test may be off by may stand in one of its slices
COUNTED = ("queries", "targets", "excluded")


def why_not_compared(here: dict, committed: dict) -> str | None: # two records of one run; None: they are compared
    "What processors or versions that are unlike may change without bound: the one rule of what is not compared."
    if alike([made_by(here), made_by(committed)]):
        return None
    encoder = config_of(committed).encoder
    is_pretrained = encoder.kind == "transformer" and not encoder.pretrain
    if is_pretrained and encoder.dtype == "bf16":
        return "a pretrained transformer in bf16, recorded on another processor or with other versions"
    return None


def compared(fresh: Records, reference: Records) -> tuple[list[str], Counter]: # id -> record
    "The runs that both have and that are compared; why others are not, and how many."
    runs = []
    reasons = Counter()
    for run in reference.keys() & fresh.keys():
        why = why_not_compared(fresh[run], reference[run])
        if why:
            reasons[why] += 1
        else:
            runs.append(run)
    return sorted(runs), reasons


def _numbers(records: Records) -> pd.Series: # by run, test and metric
    known = {
        (run, test, metric): value for run, record in records.items()
        for test, metrics in record["metrics"].items() for metric, value in metrics.items()}
    return pd.Series(known.values(), pd.MultiIndex.from_tuples(known, names=["run", "test", "metric"]), float)


def apart(
    fresh: Records, # id -> record
    reference: Records,
) -> pd.DataFrame: # run, test, metric, reference, here, gap, allowed, apart; the worst first
    "Every metric of the runs that both have, and whether it is further off than allowed; what one side lacks is."
    wanted = {run: record for run, record in reference.items() if run in fresh}
    found = _numbers(wanted).to_frame("reference")
    found["here"] = _numbers(fresh)
    found = found.reset_index()
    allowed = {} # how far a share may lie from its record
    for run, record in wanted.items():
        config = config_of(record)
        allowed[run] = ALLOWED[config.encoder.kind]
        if config.training and config.training.loss == "hinge":
            allowed[run] = max(HINGE, allowed[run])
    is_count = found.metric.isin(COUNTED) | (found.test == "counts") # numbers that have to be the same
    gap = (found.here - found.reference).abs().fillna(math.inf) # without end where one lacks, not at all where both do
    found["gap"] = gap.mask(found.here.isna() & found.reference.isna(), 0.)
    found["allowed"] = found.run.map(allowed).astype(float).mask(is_count, 0.)
    kind = found.metric.str.extract(SLICE, expand=False).fillna("")
    slices = found.groupby([found.run, found.test, kind]).metric.transform("size").where(kind != "", 1)
    found["allowed"] *= slices
    found["apart"] = ~(found.gap <= found.allowed + 1e-9)
    return found.sort_values(["apart", "gap"], ascending=False, kind="stable")


WORST = 20 # metrics that are listed


def said(
    here: Records,
    committed: Records,
) -> tuple[list[str], bool]:
    "Lines on how records made here agree with the committed ones, and whether there are some and all do."
    runs, not_compared = compared(here, committed)
    lines = [f"{len(runs)} of {len(committed)} committed planted runs were made here too, and are compared."]
    lines += [f"{count} runs are not compared: {why}." for why, count in not_compared.items()]
    found = apart(here, {run: committed[run] for run in runs})
    wrong = found[found.apart]
    agreeing = len(found) - len(wrong)
    lines.append(f"{agreeing} of their {len(found)} metrics agree, {(found.gap == 0).sum()} are identical.")
    for row in wrong.head(WORST).itertuples():
        values = f"{row.here} here, {row.reference} committed"
        lines.append(f"  {row.run}, {row.test}, {row.metric}: {values}, {row.allowed:g} apart at most")
    if len(wrong) > WORST:
        lines.append(f"  and {len(wrong) - WORST} more")
    return lines, len(wrong) == 0 and not found.empty
