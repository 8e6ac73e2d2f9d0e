"""A search of settings is an experiment like any other, evaluated on training questions that were held out.

A learning rate that suits a transformer hardly moves a static token table, and one that suits the table wrecks the
transformer. Whoever chooses it on the test set, or for each method until it looks right, decides the comparison. Here the
search has plain fine-tuning alone, so that no method is favored, and a setting is judged by its mean over the encoders and
corpora of one kind of encoder. Where a method has settings of its own each is a row of the search, as
`SCAN (tau 1, alpha 0.9)`, and all methods get equally many.
"""
from collections.abc import Iterator

import pandas as pd

from ...checks import ConfigError
from ...runs.config import ExperimentConfig, TrainConfig
from ...runs.records import latest


TIE = .001 # of AUC(0.05) or P@1
SETTING = ["kind", "training", "learning_rate", "epochs", "batch_size"]


def search_table(
    experiment: ExperimentConfig,
    records: list[dict],
) -> pd.DataFrame: # kind, training, learning_rate, epochs, batch_size, mean, n, complete, chosen
    """Every setting of a search with its mean P@1 (titles) or AUC(0.05) (pairs) on held-out training data, best first. Of
    the settings that tie with the best of a kind, the one with the fewest epochs is chosen."""
    found = latest(records)
    rows = []
    for run in experiment.runs():
        training = run.training
        metric = "p1" if run.task == "titles" else "auc05"
        metrics = found.get(run.id, {}).get("metrics", {})
        value = metrics.get("heldout", {}).get(metric)
        rows.append((run.encoder.kind, training, training.learning_rate, training.epochs, training.batch_size, value))
    runs = pd.DataFrame(rows, columns=[*SETTING, "value"]).astype({"value": float})
    table = runs.groupby(SETTING, sort=False).value.agg(mean="mean", n="count", asked="size").reset_index()
    table["complete"] = table.n == table.pop("asked")
    table["rank"] = table["mean"].where(table.complete)
    table = table.sort_values(["kind", "rank"], ascending=[True, False], ignore_index=True)
    best = table.groupby("kind")["rank"].transform("max")
    tied = table[table["rank"] >= best - TIE]
    table["chosen"] = table.index.isin(tied.groupby("kind").epochs.idxmin())
    return table.drop(columns="rank")


def best_training(experiment: ExperimentConfig, records: list[dict], kind: str) -> TrainConfig: # static, transformer
    "The chosen setting. Raises `ConfigError` when a run of that kind is missing."
    table = search_table(experiment, records)
    own = table[table.kind == kind]
    missing = (~own.complete).sum()
    if missing or own.empty:
        raise ConfigError(f"{experiment.name}: {missing} of {len(own)} settings for {kind} encoders are not complete")
    return own.training[own.chosen].item()


def best_settings(
    runs: pd.DataFrame, # of the table of a search
) -> dict[str, str]: # family -> the method with the highest mean, the first of equals
    "The setting of each method that did best, of those whose runs have all finished."
    means = runs[runs.complete].groupby(["family", "method"], sort=False).value.mean()
    return dict(means.groupby("family", sort=False).idxmax().tolist())


def tried_settings(
    experiment: ExperimentConfig,
    records: list[dict],
) -> pd.DataFrame: # a row a setting, the chosen ones in bold
    "Every setting of a search, best first within each kind of encoder."
    found = search_table(experiment, records)
    mean = (100 * found["mean"]).map("{:.2f}".format, na_action="ignore").fillna("—")
    bold = found.chosen.map({True: "**", False: ""})
    return pd.DataFrame({
        "encoders": bold + found.kind + bold,
        "learning rate": found.learning_rate.map("{:g}".format),
        "epochs": found.epochs,
        "batch size": found.batch_size,
        "held-out mean (%)": bold + mean + bold,
        "runs": found.n,
    })


def edges(experiment: ExperimentConfig, records: list[dict]) -> Iterator[str]: # sentences
    "Where a chosen setting has no neighbor on one side; one epoch is the fewest there can be, and has none to lack."
    settings = search_table(experiment, records)
    for kind, own in settings[settings.n > 0].groupby("kind", sort=False):
        ends = []
        for key in ("learning_rate", "epochs"):
            tried = sorted(set(own[key]))
            for chosen in own[key][own.chosen]:
                is_fewest = key == "epochs" and chosen == 1
                at_end = chosen in (tried[0], tried[-1])
                if len(tried) > 1 and at_end and not is_fewest:
                    ends.append(f"{key.replace('_', ' ')} {chosen:g}")
        if ends:
            yield f"{kind}: the chosen setting lies at the edge of what was tried ({', '.join(ends)})."
