"""What tests of other kinds of text say of one that nobody has seen.

Where a new change would lie, whether such intervals hold, and what is kept of the gain on data like training."""
import numpy as np
import pandas as pd
from scipy.special import stdtrit

from ...measures.prediction import NODES, SCALE, Prediction, covariance_of, log_odds, predict
from .frame import current_reading, only
from .tables import PLACE, pairs

BASE, PLAIN, GENERAL, OWN = "Base", "Finetuned", "OutReg 1, general mix", "OutReg 1, own texts" # as records call them
SHARES = ("WiSE-FT 0.25", "WiSE-FT 0.5", "WiSE-FT 0.75", PLAIN) # of tuned weights, from weak to strong
OFFERS = ("computers", "cameras", "shoes", "watches") # tests of product offers; all others are of sentences
COARSE = 12 # values of an SD where many predictions are made to be tried
GROUP = ["encoder", "method", "kind"]
SMALLEST = .001 # fraction of plain fine-tuning: what is below, and what is negative, is read as this


def kind_of(name: str) -> str: # name: a training set, or a test, maybe of weights in between (`quora@0.5`)
    return "offers" if name.partition("@")[0] in OFFERS else "sentences"


def changes(
    runs: pd.DataFrame,        # of one table
    metric: str | None = None, # a further one; None: the table's own
) -> pd.DataFrame: # `PLACE`, kind, trained_on, base, difference, paired, seeds (S,), resampled and base_resampled (B,)
    """Return the change from the base encoder, a row each encoder, method and test; what makes no pairs is left out.

    Values are in the table's unit. `kind` is that of the test, `trained_on` that of the training set; where the draw of test items is
    not covered there are no resamples (None)."""
    rows = pairs(runs, BASE, metric)
    rows = rows[rows.paired.notna()].reset_index(drop=True)
    rows["kind"], rows["trained_on"] = rows.evaluate.map(kind_of), rows.corpus.map(kind_of)
    rows["base"] = [run_pairs[0][1].value for run_pairs in rows.kept]
    rows["seeds"] = [np.array([run.value - base.value for run, base in run_pairs]) for run_pairs in rows.kept]
    of_resamples = {"resampled": lambda run, base: run.resampled - base.resampled, "base_resampled": lambda run, base: base.resampled}
    for name, read in of_resamples.items():
        rows[name] = [None if comparison.seeds_alone else np.mean([read(*pair) for pair in run_pairs], axis=0)
                      for run_pairs, comparison in zip(rows.kept, rows.paired)]
    return rows[[*PLACE, "kind", "trained_on", "base", "difference", "paired", "seeds", "resampled", "base_resampled"]]


def in_log_odds(shifts: pd.DataFrame) -> pd.DataFrame: # shifts: of `changes`
    "Turn changes from points into log-odds, those of seeds and resamples too."
    seeds, resampled = ([log_odds(base + change) - log_odds(base) for base, change in zip(shifts[base], shifts[change])]
                        for base, change in (("base", "seeds"), ("base_resampled", "resampled")))
    return shifts.assign(seeds=seeds, resampled=resampled, difference=list(map(np.mean, seeds)))


def prediction_of(
    shifts: pd.DataFrame,   # of `in_log_odds`: one encoder, method and kind
    nodes: int = NODES,     # as `predict`
    scale: float | None = None, # as `predict`; None: `SCALE` points at the bases of the shifts
) -> dict[str, Prediction]:
    "Predict a further change for each kind of training, once inside `only_stored()`: a page, its CSV and FINDINGS need the same."
    training, test, kind = (shifts[name].to_numpy(str) for name in ("corpus", "evaluate", "trained_on"))
    covariance = covariance_of(np.stack(shifts.seeds), np.stack(shifts.resampled), training, test)
    scale = scale or SCALE / (shifts.base * (1 - shifts.base / 100)).mean()
    key = shifts.difference.to_numpy().tobytes(), covariance.tobytes(), *training, *test, *kind, nodes, scale
    return current_reading().once(key, lambda: predict(shifts.difference, covariance, training, test, kind, scale, nodes))


def of_one_training(shifts: pd.DataFrame) -> float:
    "Return the SD of single trainings around the mean of their shift."
    return float(np.sqrt(np.mean([np.var(seeds, ddof=1) for seeds in shifts.seeds])))


def fractions_of_plain(
    values: pd.DataFrame, # (1 + training sets, methods): with all training sets, and without each
    worst: str,           # `min` or `max`
) -> pd.DataFrame: # a row a method: value, low, high, and the worst without a training set, and its name
    "Divide by the values of plain fine-tuning, with 95% intervals over training sets (jackknife of the log), and all leave-outs in them."
    logs = np.log(values.div(values[PLAIN], axis=0).clip(lower=SMALLEST))
    whole, without = logs.iloc[0], logs.iloc[1:]
    freedom = len(without) - 1
    half = stdtrit(freedom, .975) * np.sqrt(freedom * without.var(ddof=0))
    low, high = np.minimum(whole - half, without.min()), np.maximum(whole + half, without.max())
    ends = {"": whole, "_low": low, "_high": high, "_worst": without.agg(worst)}
    return np.exp(pd.DataFrame(ends)).assign(_without=without.agg(f"idx{worst}"))


def _widths(groups: dict[tuple, pd.DataFrame]) -> pd.DataFrame: # groups: as of `prediction_of`
    "Return the width of each range as a fraction of that of plain fine-tuning, with `fractions_of_plain`."
    rows = []
    for place, shifts in groups.items():
        for name in ("", *shifts.corpus.unique()):
            new = prediction_of(shifts[shifts.corpus != name], COARSE)
            rows += [(*place, trained_on, name, np.ptp(one.interval())) for trained_on, one in new.items()]
    widths = pd.DataFrame(rows, columns=[*GROUP, "trained_on", "without", "width"])
    table = widths.pivot(index=["encoder", "kind", "trained_on", "without"], columns="method", values="width")
    return pd.concat({place: fractions_of_plain(own.droplevel([0, 1, 2]), "max") for place, own in table.groupby(level=[0, 1, 2])})


def _kept(gains: pd.DataFrame) -> pd.DataFrame: # gains: of all methods, on the own tests of training sets
    "Return the fraction of the gain of plain fine-tuning that each method keeps, of each encoder, with `fractions_of_plain`."
    table = gains.pivot(index=["encoder", "corpus"], columns="method", values="difference")
    kept = {}
    for encoder, own in table.groupby(level=0):
        own = own.droplevel(0)
        means = pd.DataFrame({"": own.mean()} | {name: own.drop(name).mean() for name in own.index}).T
        kept[encoder] = fractions_of_plain(means, "min").assign(gain=own.mean())
    return pd.concat(kept)


def predictions(
    shifts_of_all: pd.DataFrame, # of `changes`
    kinds: tuple[str, ...] = ("sentences", "offers"),
) -> pd.DataFrame: # its columns: the page of shifts says what they are
    """Predict what a new kind of text would bring, after training on a new training set of each kind.

    Ranges are in log-odds; widths and gains that are kept are fractions of those of plain fine-tuning."""
    kept = _kept(only(shifts_of_all, shift="iid"))
    groups = {place: in_log_odds(own) for place, own in only(shifts_of_all, shift="ood", kind=kinds).groupby(GROUP, sort=False)}
    widths = _widths(groups)
    rows = []
    for (encoder, method, kind), shifts in groups.items():
        of_run = of_one_training(shifts)
        for trained_on, new in prediction_of(shifts).items():
            own = shifts[shifts.trained_on == trained_on]
            row = {"encoder": encoder, "method": method, "kind": kind, "trained_on": trained_on, "shifts": len(own)}
            row |= {"sets": own.corpus.nunique(), "seeds": own.seeds.map(len).min(), "base": own.base.mean(), "mean": new.mean, "error": new.error}
            row |= dict(zip(("low", "high", "low_one", "high_one"), (*new.interval(), *new.interval(error=of_run))))
            row |= {"of_training": new.of_training, "of_test": new.of_test, "of_shift": new.of_shift, "of_run": of_run}
            row["worse"] = float(new.below(log_odds(row["base"] - 1) - log_odds(row["base"]), of_run))
            row |= kept.loc[encoder, method].rename(lambda name: name if name == "gain" else f"kept{name}").to_dict()
            rows.append(row | widths.loc[encoder, kind, trained_on, method].add_prefix("width").to_dict())
    return pd.DataFrame(rows)


def left_out(
    shifts_of_all: pd.DataFrame, # of `changes`, or of `in_log_odds`
    sides: dict[str, str],       # column, whose values are left out in turn -> what they are
    **model,                     # as `prediction_of`
) -> pd.DataFrame: # encoder, method, kind, left out, name, held, cases, held_one (single trainings), runs
    "Count the changes in the range that the others give."
    rows = []
    for place, shifts in only(shifts_of_all, shift="ood").groupby(GROUP, sort=False):
        for (column, side), name in ((one, name) for one in sides.items() for name in shifts[one[0]].unique()):
            rest = shifts[shifts[column] != name]
            new = prediction_of(rest, COARSE, **model)
            own = shifts[(shifts[column] == name) & shifts.trained_on.isin(new)]
            counts = np.zeros(4, int)
            for kind, change, seeds, resampled in zip(own.trained_on, own.difference, own.seeds, own.resampled):
                of_items = np.nanvar(resampled)
                of_mean = new[kind].below([change], np.sqrt(np.var(seeds, ddof=1) / len(seeds) + of_items))
                of_each = new[kind].below(seeds, np.hypot(of_one_training(rest), np.sqrt(of_items)))
                counts += [number for below in (of_mean, of_each)
                           for number in (((below > .025) & (below < .975)).sum(), len(below))]
            rows.append((*place, side, name, *counts))
    return pd.DataFrame(rows, columns=[*GROUP, "left out", "name", "held", "cases", "held_one", "runs"])
