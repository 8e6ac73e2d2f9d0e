"""What `diagnose_texts` says of unlabeled texts, from the recorded trials: debias_nb/diagnosis/all_clear.csv.

The trials were trained at the commits that experiments/all_clear.json names, by the program that stands there."""
import itertools

import numpy as np
import pandas as pd

from debias_nb.files import load_yaml, project_root

SETTINGS = load_yaml(project_root() / "experiments/all_clear.yaml")
TASKS = {"auc05": "AUC(0.05)", "ndcg10": "nDCG@10 in search"} # columns of changes -> metric
NAMES = {"static": "static encoders", "transformer": "MiniLM"}


def plainly_tuned(shifts: pd.DataFrame) -> pd.DataFrame:
    "Select the shifts of encoders that were neither regularized nor averaged with their base."
    return shifts[(shifts.method == "Finetuned") & (shifts.share == 1)]


def is_allowed(shifts: pd.DataFrame, high: float) -> bool:
    "Decide whether shifts up to a band allow an all-clear in either metric: all of them, and plainly tuned ones."
    parts = {"fewest": shifts, "plain": plainly_tuned(shifts)}
    is_enough = all(len(part) >= SETTINGS[name] for name, part in parts.items())
    is_rare = all(
        (part[f"{task}_change"] <= -SETTINGS["loss"]).mean() <= SETTINGS["often"] for part in parts.values()
        for task in TASKS)
    return high <= SETTINGS["threshold"] and is_enough and is_rare


def sentence_on(shifts: pd.DataFrame) -> str:
    "Say what happened on shifts of one kind of encoder."
    parts = []
    for task, metric in TASKS.items():
        change = shifts[f"{task}_change"]
        lost = int((change <= -SETTINGS["loss"]).sum())
        parts.append(f"{lost} lost {SETTINGS['loss']} points of {metric} ({change.min():+.1f} to "
                     f"{change.max():+.1f})".replace("-", "−"))
    trainings = shifts[["encoder", "training", "loss"]].drop_duplicates()
    kind = NAMES[shifts.kind.iloc[0]]
    runs = f"{len(trainings)} training run{'s' * (len(trainings) > 1)}"
    plain = plainly_tuned(shifts)
    with_ranking = (plain.loss == "ranking").sum()
    return (f"Of {len(shifts)} trials with as much change ({kind}, {runs}; {len(plain)} plainly fine-tuned, "
            f"{with_ranking} of these with a ranking loss) {' and '.join(parts)}.")


def trial_table(
    shifts: pd.DataFrame,
) -> pd.DataFrame: # a row a kind, size of the sample and band: what the library says
    "Sum up the shifts as the library looks them up."
    rows = []
    bands = list(itertools.pairwise(SETTINGS["bands"]))
    for kind, size, (low, high) in itertools.product(NAMES, SETTINGS["samples"], bands):
        changed = shifts.get(f"changed_{size}", pd.Series(np.nan, shifts.index))
        is_inside = (changed > low) | ((low == 0) & (changed == 0))
        matching = shifts[(shifts.kind == kind) & is_inside & (changed <= high)]
        if len(matching):
            rows.append({"kind": kind, "texts": size, "low": low, "is_clear": int(is_allowed(matching, high)),
                         "sentence": sentence_on(matching)})
    return pd.DataFrame(rows, columns=["kind", "texts", "low", "is_clear", "sentence"])
