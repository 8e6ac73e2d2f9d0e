"""What tests of other kinds of text say of one that nobody has seen.

Where a new change would lie, whether such intervals hold, and what is kept of the gain in distribution."""
import numpy as np
import pandas as pd
from scipy.special import stdtrit

from ...measures.prediction import NODES, PRIOR_SCALE, Prediction, covariance_of, log_odds, predict
from .compare import PLACE, pairs
from .frame import Results, only

BASE, PLAIN, GENERAL, OWN = "Base", "Finetuned", "OutReg 1, general mix", "OutReg 1, own texts" # as records call them
OFFERS = ("computers", "cameras", "shoes", "watches") # tests of product offers; all others are of sentences
COARSE = 12 # values of an SD where many predictions are made to be tried
GROUP = ["encoder", "method", "kind"]
SMALLEST = .001 # fraction of plain fine-tuning: what is below, and what is negative, is read as this


def shift_kind(name: str) -> str: # name: a training set, or a test, maybe of weights in between (`quora@0.5`)
    return "offers" if name.partition("@")[0] in OFFERS else "sentences"


def changes(
    runs: pd.DataFrame, # of one table
# `PLACE`, kind, trained_on, base, difference, seeds (S,), resampled and base_resampled (B,) or None
) -> pd.DataFrame:
    """Return the change from the base encoder, a row each encoder, method and test.

    Values are in the table's unit. What makes no pairs is left out. `kind` is that of the test, `trained_on` that of
    the training set."""
    rows = pairs(runs, BASE)
    rows = rows[rows.paired.notna()].reset_index(drop=True)
    rows["kind"], rows["trained_on"] = rows.evaluate.map(shift_kind), rows.corpus.map(shift_kind)
    rows["base"] = [run_pairs[0][1].value for run_pairs in rows.kept]
    rows["seeds"] = [np.array([run.value - base.value for run, base in run_pairs]) for run_pairs in rows.kept]
    of_resamples = {"resampled": lambda run, base: run.resampled - base.resampled,
                    "base_resampled": lambda run, base: base.resampled}
    for name, read in of_resamples.items():
        rows[name] = [None if comparison.seeds_alone else np.mean([read(*pair) for pair in run_pairs], axis=0)
                      for run_pairs, comparison in zip(rows.kept, rows.paired)]
    return rows[[*PLACE, "kind", "trained_on", "base", "difference", "seeds", *of_resamples]]


def in_log_odds(shifts: pd.DataFrame) -> pd.DataFrame: # shifts: of `changes`
    "Turn changes from points into log-odds, those of seeds and resamples too."
    seeds, resampled = ([log_odds(base + change) - log_odds(base) for base, change in zip(shifts[start], shifts[name])]
                        for start, name in (("base", "seeds"), ("base_resampled", "resampled")))
    return shifts.assign(seeds=seeds, resampled=resampled, difference=list(map(np.mean, seeds)))


def prediction_of(
    shifts: pd.DataFrame,   # of `in_log_odds`: one encoder, method and kind
    results: Results,       # in which it is made once: a page, its CSV and FINDINGS need the same
    nodes: int = NODES,     # as `predict`
) -> dict[str, Prediction]:
    "Predict a further change for each kind of training, with a prior of `PRIOR_SCALE` points at the bases."
    training, test, kind = (shifts[name].to_numpy(str) for name in ("corpus", "evaluate", "trained_on"))
    covariance = covariance_of(np.stack(shifts.seeds), np.stack(shifts.resampled), training, test)
    scale = PRIOR_SCALE / (shifts.base * (1 - shifts.base / 100)).mean()
    key = shifts.difference.to_numpy().tobytes(), covariance.tobytes(), *training, *test, *kind, nodes, scale
    return results.once(key, predict, shifts.difference, covariance, training, test, kind, scale, nodes)


def over_sets(value: float, leave_outs: list[float]) -> tuple[float, float]: # leave_outs: without each training set
    "Return the 95% interval of a fraction over training sets: the jackknife of its log, and all leave-outs in it."
    logs = np.log(np.maximum([value, *leave_outs], SMALLEST))
    freedom = len(leave_outs) - 1
    half = stdtrit(freedom, .975) * freedom**.5 * logs[1:].std()
    return np.exp(min(logs[0] - half, *logs[1:])), np.exp(max(logs[0] + half, *logs[1:]))


def predictions(
    shifts_of_all: pd.DataFrame, # of `changes`
    results: Results,            # as `prediction_of`
) -> pd.DataFrame: # `GROUP`, trained_on, mean, low and high
    """Predict what a new kind of text would bring, after one training on a new training set of each kind.

    Ranges are in log-odds."""
    rows = []
    for place, shifts in only(shifts_of_all, shift="ood").groupby(GROUP, sort=False):
        shifts = in_log_odds(shifts)
        of_run = np.sqrt(np.mean([np.var(seeds, ddof=1) for seeds in shifts.seeds]))
        for trained_on, new in prediction_of(shifts, results).items():
            low, high = new.interval(error=of_run)
            rows.append(dict(zip(GROUP, place), trained_on=trained_on, mean=new.mean, low=low, high=high))
    return pd.DataFrame(rows)
