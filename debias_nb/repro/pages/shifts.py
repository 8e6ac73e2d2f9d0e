"""What tests of other kinds of text say of one that nobody has seen.

Where a new change would lie, whether such intervals hold, and what is kept of the gain on data like training."""
import numpy as np
import pandas as pd

from ...measures.prediction import NODES, Prediction, covariance_of, predict
from ...measures.stats import threshold_p
from .frame import current_reading, only
from .tables import PLACE, pairs

BASE, PLAIN, GENERAL, OWN = "Base", "Finetuned", "OutReg 1, general mix", "OutReg 1, own texts" # as records call them
SHARES = ("WiSE-FT 0.25", "WiSE-FT 0.5", "WiSE-FT 0.75", PLAIN) # of tuned weights, from weak to strong
OFFERS = ("computers", "cameras", "shoes", "watches") # tests of product offers; all others are of sentences
SIDES = {"evaluate": "test", "corpus": "training set"}
COARSE = 12 # values of an SD where many predictions are made to be tried
GROUP = ["encoder", "method", "kind"]


def kind_of(evaluate: str) -> str: # evaluate: a test, maybe of weights in between (`quora@0.5`)
    return "offers" if evaluate.partition("@")[0] in OFFERS else "sentences"


def changes(
    runs: pd.DataFrame,        # of one table
    metric: str | None = None, # a further one; None: the table's own
    against: str = BASE,       # a method
) -> pd.DataFrame: # `PLACE`, kind, difference, error, paired, seeds (S,), resampled (B,) or None
    """Return the change from the base encoder, or from another method, a row each encoder, method and test.

    Values are in the table's unit. What makes no pairs is left out."""
    rows = pairs(runs, against, metric)
    rows = rows[rows.paired.notna()].reset_index(drop=True)
    rows["error"] = [comparison.error for comparison in rows.paired]
    rows["kind"] = rows.evaluate.map(kind_of)
    rows["seeds"] = [np.array([run.value - base.value for run, base in run_pairs]) for run_pairs in rows.kept]
    resamples = [[run.resampled - base.resampled for run, base in run_pairs] if not comparison.seeds_alone else None
                 for run_pairs, comparison in zip(rows.kept, rows.paired)]
    rows["resampled"] = [None if one is None else np.mean(one, axis=0) for one in resamples]
    return rows[[*PLACE, "kind", "difference", "error", "paired", "seeds", "resampled"]]


def prediction_of(
    shifts: pd.DataFrame, # of `changes`: one encoder, method and kind
    nodes: int = NODES,   # as `predict`
) -> Prediction:
    "Predict a further change, once inside `only_stored()`: a page, its CSV and FINDINGS need the same."
    training, test = shifts.corpus.to_numpy(str), shifts.evaluate.to_numpy(str)
    covariance = covariance_of(np.stack(shifts.seeds), np.stack(shifts.resampled), training, test)
    key = shifts.difference.to_numpy().tobytes(), covariance.tobytes(), *training, *test, nodes
    return current_reading().once(key, lambda: predict(shifts.difference, covariance, training, test, nodes))


def predictions(
    shifts_of_all: pd.DataFrame, # of `changes`
    kinds: tuple[str, ...] = ("sentences", "offers"),
) -> pd.DataFrame: # encoder, method, kind, shifts, sets (of training), seeds, mean, error, low, high, sd, worse (the probability of losing more than a point), gain, kept (share)
    """Predict what a new kind of text would bring, after training on a new training set.

    With the mean gain on the training sets' own tests, and its fraction of that of plain fine-tuning."""
    gains = only(shifts_of_all, shift="iid").groupby(["encoder", "method"]).difference.mean()
    rows = []
    for place, shifts in only(shifts_of_all, shift="ood", kind=kinds).groupby(GROUP, sort=False):
        encoder, method, _ = place
        new = prediction_of(shifts)
        low, high = new.interval()
        gain = gains[encoder, method]
        row = dict(zip(GROUP, place), shifts=len(shifts), sets=shifts.corpus.nunique(), seeds=shifts.seeds.map(len).min())
        row |= {"mean": new.mean, "error": new.error, "low": low, "high": high}
        row |= {name: getattr(new, name) for name in ("sd", "of_training", "of_test", "of_shift")}
        rows.append(row | {"worse": new.below(-1), "gain": gain, "kept": gain / gains[encoder, PLAIN]})
    return pd.DataFrame(rows)


def hypotheses(
    new: pd.DataFrame, # of `predictions`: one kind
) -> pd.DataFrame: # a row an encoder: widths as shares of that of plain fine-tuning, gains kept, and words
    "Test (a), (b) and (c) as `configs/itvreg/shifts.small.yaml` states them."
    rows = []
    for encoder, own in new.groupby("encoder", sort=False):
        own = own.set_index("method")
        width = own.high - own.low
        width = width / width[PLAIN]
        nearest = (own.kept[list(SHARES)] - own.kept[GENERAL]).abs().idxmin()
        is_narrow = width[GENERAL] <= .5 and own.kept[GENERAL] >= .85
        is_as_good = width[OWN] <= .75 and own.kept[OWN] >= .85
        rows.append({
            "encoder": encoder, "width": width[GENERAL], "kept": own.kept[GENERAL], "a": "holds" if is_narrow else "refuted",
            "nearest": nearest, "width_nearest": width[nearest], "b": "holds" if width[nearest] > width[GENERAL] else "refuted",
            "width_own": width[OWN], "kept_own": own.kept[OWN], "c": "refuted" if is_as_good else "holds"})
    return pd.DataFrame(rows)


def left_out(
    shifts_of_all: pd.DataFrame, # of `changes`
) -> pd.DataFrame: # encoder, method, kind, left out (test or training set), name, held, cases
    "Count the changes in the interval that the others give, each test and each training set left out in turn."
    rows = []
    for place, shifts in only(shifts_of_all, shift="ood").groupby(GROUP, sort=False):
        for column, side in SIDES.items():
            for name, own in shifts.groupby(column, sort=False):
                new = prediction_of(shifts[shifts[column] != name], COARSE)
                below = np.array([new.below(*case) for case in zip(own.difference, own.error)])
                inside = int(((below > .025) & (below < .975)).sum())
                rows.append(dict(zip(GROUP, place)) | {"left out": side, "name": name, "held": inside, "cases": len(own)})
    return pd.DataFrame(rows)


def is_loss_excluded(
    shifts: pd.DataFrame, # of `changes`
    loss: float,         # in points
) -> pd.Series: # booleans
    "Return on which shifts a loss of so many points is excluded at 5%, one by one."
    is_above = shifts.difference > -loss
    return is_above & pd.Series([threshold_p(one, -loss) / 2 < .05 for one in shifts.paired], shifts.index)
