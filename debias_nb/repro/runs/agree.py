"""Whether records that were made here say what the committed ones say, on whichever processor either was made.

How far a share may lie from its record depends on the encoder alone, and a count may differ by nothing. One metric of
one run that lies further off is a fault.
"""
import math
from collections import Counter

import pandas as pd

from debias_nb.repro.pages.pairing import alike, made_by
from debias_nb.repro.runs.records import Records


ALLOWED = {"static": 1e-4, "alignment": 1e-4, "transformer": .01} # kind of encoder -> difference of a share; in every unit
HINGE = .01 # where training looks for the hardest items of a batch: rounding may find another one
COUNTED = ("queries", "targets", "excluded")


def why_not_compared(here: dict, committed: dict) -> str | None: # two records of one run; None: they are compared
    "What processors or versions that are unlike may change without bound: the one rule of what is not compared."
    encoder = committed["config"].get("encoder") or {}
    if alike([made_by(here), made_by(committed)]):
        return None
    is_pretrained = encoder.get("kind") == "transformer" and not encoder.get("pretrain")
    if is_pretrained and encoder.get("dtype") == "bf16":
        return "a pretrained transformer in bf16, recorded on another processor or with other versions"
    if encoder.get("kind") == "alignment" and encoder.get("dtype") != "fp64":
        return "the alignment network in single precision, recorded on another processor or with other versions"
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
    known = {}
    for run, record in records.items():
        for test, metrics in record["metrics"].items():
            known |= {(run, test, metric): value for metric, value in metrics.items()}
    places = pd.MultiIndex.from_tuples(list(known), names=["run", "test", "metric"])
    return pd.Series(list(known.values()), places, float)


def _gap(found: pd.DataFrame) -> pd.Series: # columns reference and here
    "How far the two are apart: without end where one lacks, not at all where both do."
    lacking = found.here.isna() & found.reference.isna()
    gap = (found.here - found.reference).abs()
    return gap.fillna(math.inf).mask(lacking, 0.)


def _allowed(config: dict) -> float: # of a run
    "How far a share may be from its record."
    kind = (config.get("encoder") or {}).get("kind", "static")
    if (config.get("training") or {}).get("loss") == "hinge":
        return max(HINGE, ALLOWED[kind])
    return ALLOWED[kind]


def apart(
    fresh: Records, # id -> record
    reference: Records,
) -> pd.DataFrame: # run, test, metric, reference, here, gap, allowed, apart; the worst first
    "Every metric of the runs that both have, and whether it is further off than `ALLOWED`; what one side lacks is."
    wanted = {run: record for run, record in reference.items() if run in fresh}
    found = _numbers(wanted).to_frame("reference")
    found["here"] = _numbers(fresh)
    found = found.reset_index()
    allowed = {run: _allowed(record["config"]) for run, record in wanted.items()}
    is_count = found.metric.isin(COUNTED) | (found.test == "counts") # numbers that have to be the same
    found["gap"] = _gap(found)
    found["allowed"] = found.run.map(allowed).astype(float).mask(is_count, 0.)
    found["apart"] = ~(found.gap <= found.allowed + 1e-9)
    return found.sort_values(["apart", "gap"], ascending=False, kind="stable")
