"""Make the records of reports/diagnosis/LABELS.md, as experiments/labels.yaml states them:

python tools/labels.py shifts     train, and measure each shift with and without labels; one file a training in
                                  _runs/labels/
python tools/labels.py pools      label samples of pools of these shifts, by the scores that are kept there
python tools/labels.py collect    write experiments/all_clear.csv.xz, experiments/labels.csv.xz and
                                  experiments/labels.json, and what the library says of them,
                                  debias_nb/diagnosis/all_clear.csv

What is there is not made again. The code must be that of a commit; `--out FOLDER` of collect writes elsewhere.
"""
import argparse
import copy
import hashlib
import itertools
import json
import lzma
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.random import default_rng
from scipy.stats import rankdata

from debias_nb.papers.data.labeled_pairs import LabeledPairs, evaluation_pairs
from debias_nb.diagnosis.all_clear import NEIGHBORS, neighbor_churn, largest_loss
from debias_nb.diagnosis.changes import side_of
from debias_nb.files import load_yaml, project_root, sha256_file, write_whole
from debias_nb.losses.averaging import wise_ft
from debias_nb.measures.metrics import auc_at, rank_metrics
from debias_nb.measures.stats import Paired, is_within, paired
from debias_nb.measures.strata import sampling_order, strata_of, stratified_weights
from debias_nb.papers.settings.pairs import PairsCorpus
from debias_nb.runs.settings import PairMethod, PairTraining
from debias_nb.runs.origin import run_environment, git
from debias_nb.runs.tasks import base_encoder, vectors
from debias_nb.papers.tasks.pairs import search_among, search_measures, side_cosines, training_tokens
from debias_nb.papers.tasks.regularization_texts import unlabeled_texts
from debias_nb.runs.training import fine_tune
from debias_nb.settings import EncoderConfig

ROOT = project_root()
SETTINGS = load_yaml(ROOT / "experiments/labels.yaml")
LABELS = SETTINGS["labels"]
PARTS = ROOT / "_runs/labels"
RESULTS = ROOT / "experiments"
DECIMALS = 4 # of percents and fractions in the files
GENERAL = ["qnli", "sundry"] # corpora of the general texts


def is_kept_back(name: str) -> bool:
    "Return whether a training set or a test is kept back for the trial."
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % SETTINGS["modulus"] == 0


@dataclass(frozen=True)
class Training:
    "One training of an encoder, and what is tested of it."
    encoder: EncoderConfig
    corpus: PairsCorpus
    settings: PairTraining
    shares: tuple[float, ...] # of tuned weights
    tests: tuple[str, ...]
    is_regularized: bool      # whether OutReg is trained as well

    @property
    def name(self) -> str:
        return f"{self.encoder.name}.{self.corpus.name}.{self.settings.loss}"

    @property
    def most_pairs(self) -> int | None: # of a test
        return SETTINGS["most_pairs"] if self.encoder.kind == "transformer" else None


def trainings() -> list[Training]:
    "Return all trainings in the order of the statement: each training set with all encoders of its group."
    plans = []
    for group in SETTINGS["groups"]:
        shares = tuple(group.get("shares", SETTINGS["shares"]))
        tests = tuple(group.get("tests", SETTINGS["tests"]))
        for plan in group["trainings"]:
            corpus, settings = PairsCorpus(**plan["corpus"]), PairTraining(**plan["training"])
            encoders = [EncoderConfig(**encoder) for encoder in group["encoders"]]
            plans += [Training(encoder, corpus, settings, shares, tests, group["regularized"]) for encoder in encoders]
    return plans


# ---------------------------------------------------------------- shifts

def test_pairs(name: str, limit: int | None) -> LabeledPairs:
    "Load a test, or a random sample of its pairs."
    pairs = evaluation_pairs(name, None, None)
    if limit is None or len(pairs.labels) <= limit:
        return pairs
    rows = np.sort(default_rng([SETTINGS["seed"], 1]).permutation(len(pairs.labels))[:limit])
    left, right = ([side[row] for row in rows] for side in (pairs.left, pairs.right))
    return LabeledPairs(name, left, right, pairs.labels[rows])


ROWS = 1024 # vectors that are compared with all at a time
SCORE_DECIMALS = 6 # of a cosine, that float32 can tell


def nearest(vectors: torch.Tensor) -> np.ndarray: # unit vectors -> (n, NEIGHBORS) places
    """Find the nearest others of each vector; of equally near ones the first.

    It is `neighbors` of the library, for vectors."""
    places = []
    for block in torch.arange(len(vectors)).split(ROWS):
        scores = (vectors[block] @ vectors.T).double().round(decimals=SCORE_DECIMALS)
        scores -= 1e-12 * torch.arange(len(vectors))
        scores[range(len(block)), block] = -torch.inf
        places.append(scores.topk(NEIGHBORS).indices)
    return torch.cat(places).numpy()


@dataclass(frozen=True)
class State:
    "What one encoder does on one test."
    scores: np.ndarray        # (n,) cosines of the pairs
    neighbors: dict           # size of the sample -> places
    ndcg: float


def state_of(model, encoder: EncoderConfig, pairs: LabeledPairs) -> State:
    "Measure one encoder on one test."
    embeddings = vectors(model, pairs.all_texts, encoder)
    place = {text: row for row, text in enumerate(pairs.all_texts)}
    rows = np.array(list(place.values()))
    order = rows[default_rng([SETTINGS["seed"], 2]).permutation(len(rows))]
    sizes = [size for size in SETTINGS["samples"] if size <= len(rows)]
    neighbors = {size: nearest(embeddings[order[:size]]) for size in sizes}
    search = search_measures(embeddings, pairs, search_among(pairs))
    return State(side_cosines(embeddings).round(6), neighbors, search["ndcg10"])


def shift_row(pairs: LabeledPairs, base: State, tuned: State) -> dict:
    "Compare two encoders on one test: changes in points, neighbors and the bound of ranks."
    labels = pairs.labels
    row = {"pairs": len(labels), "matches": labels.mean()}
    for name, measure in {"auc05": .05, "auc": 1.}.items():
        values = [100 * auc_at(labels, state.scores, measure) for state in (base, tuned)]
        row |= {f"{name}_base": values[0], f"{name}_change": values[1] - values[0]}
    one_list = np.zeros(len(labels), int)
    ap = [100 * rank_metrics(labels, state.scores, one_list)[0]["map"] for state in (base, tuned)]
    row |= {"ap_change": ap[1] - ap[0]}
    row |= {"ndcg10_base": 100 * base.ndcg, "ndcg10_change": 100 * (tuned.ndcg - base.ndcg)}
    row["bound"] = 100 * largest_loss(base.scores, tuned.scores, labels.mean() - 1e-9, labels.mean() + 1e-9)
    for size, neighbors in base.neighbors.items():
        row[f"changed_{size}"] = neighbor_churn(neighbors, tuned.neighbors[size])
    return row


def tuned_models(plan: Training): # yields method, share, model
    "Train, and yield each state that is tested."
    base, _ = base_encoder(plan.encoder)
    tokens, _ = training_tokens(plan.encoder, plan.corpus, plan.settings.loss)
    model = copy.deepcopy(base)
    fine_tune(model, base, tokens, PairMethod(name="Finetuned"), plan.settings, SETTINGS["seed"])
    for share in plan.shares:
        yield "Finetuned", share, wise_ft(base, model, share)
    if plan.is_regularized:
        method = PairMethod(name="OutReg", regularizer="outreg", weight=1, texts={"corpora": GENERAL})
        texts = list(unlabeled_texts(method.texts, plan.tests))
        model = copy.deepcopy(base)
        fine_tune(model, base, tokens, method, plan.settings, SETTINGS["seed"], texts=texts)
        yield "OutReg", 1, model


def shifts_of(plan: Training) -> tuple[list[dict], dict]: # rows; scores by test and model
    "Train, and compare each state with the base on each test."
    base, _ = base_encoder(plan.encoder)
    tests = {name: test_pairs(name, plan.most_pairs) for name in plan.tests}
    base_states = {name: state_of(base, plan.encoder, pairs) for name, pairs in tests.items()}
    rows, scores = [], {f"{name} base": state.scores for name, state in base_states.items()}
    labels = {"encoder": plan.encoder.name, "kind": plan.encoder.kind, "training": plan.corpus.name,
              "loss": plan.settings.loss}
    for method, share, model in tuned_models(plan):
        for name, pairs in tests.items():
            tuned_state = state_of(model, plan.encoder, pairs)
            is_trial = is_kept_back(plan.corpus.name) or is_kept_back(name)
            of_shift = {"method": method, "share": share, "test": name, "kept_back": int(is_trial)}
            rows.append(labels | of_shift | shift_row(pairs, base_states[name], tuned_state))
            if (method, share) == ("Finetuned", 1):
                scores[f"{name} tuned"] = tuned_state.scores
    return rows, scores


def clean_environment() -> dict:
    "Describe code and machine. Raise `SystemExit` where the code is not that of a commit."
    origin = run_environment()
    if origin["dirty"] is not False or git(ROOT, "status", "--porcelain", "--", "tools/labels.py"):
        sys.exit("the code has changes that stand in no commit: commit them first")
    return {name: origin[name] for name in ("python", "packages", "commit", "platform", "cpu")}


def write_part(file: Path, rows: list[dict], facts: dict) -> None:
    "Write the rows of one training, whole or not at all."
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps({"environment": facts, "rows": rows}, default=float))


def make_shifts() -> None:
    "Make what is missing of all shifts."
    for plan in trainings():
        file = PARTS / "shifts" / f"{plan.name}.json"
        if file.exists():
            continue
        origin = clean_environment()
        rows, scores = shifts_of(plan)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file.with_suffix(".npz"), **scores)
        write_part(file, rows, origin)
        print(f"{plan.name}: {len(rows)} shifts", flush=True)


# ---------------------------------------------------------------- pools

@dataclass(frozen=True)
class Pool:
    "Pairs with scores of two encoders, whose labels are known here and bought one by one."
    labels: np.ndarray # (N,) 0 or 1
    base: np.ndarray   # (N,) scores
    tuned: np.ndarray  # (N,) scores

    def change(self, rows=slice(None), weights=None): # a number, or one a row of weights
        "Compute the change of AUC(0.05)."
        labels = self.labels[rows]
        base_areas, tuned_areas = (auc_at(labels, scores[rows], weights=weights) for scores in (self.base, self.tuned))
        return tuned_areas - base_areas


def thinned(pool: Pool, rate: float) -> Pool | None: # None: there are too few matches
    "Leave out matches or others at random, so that the rate is met, and no more pairs are there than a pool has."
    matches, negatives = (np.flatnonzero(pool.labels == label) for label in (1, 0))
    size = int(min(LABELS["pool"], len(matches) / rate, len(negatives) / (1 - rate)))
    count = round(rate * size)
    if count < LABELS["fewest_matches"]:
        return None
    rng = default_rng([SETTINGS["seed"], 3])
    rows = np.sort(np.concatenate([rng.permutation(matches)[:count], rng.permutation(negatives)[:size - count]]))
    return Pool(pool.labels[rows], pool.base[rows], pool.tuned[rows])


def strata_by_way(pool: Pool) -> dict[str, np.ndarray]: # (N,) each
    "Sort the pairs of a pool into strata, one way of drawing after the other."
    moves = np.abs(rankdata(pool.tuned) - rankdata(pool.base))
    random = np.full(len(pool.labels), len(LABELS["fractions"]) - 1)
    return {"random": random, "chosen": strata_of(pool.base, pool.tuned), "disagreement": strata_of(moves)}


def interval_of(
    pool: Pool, rows: np.ndarray, strata: np.ndarray, sizes: np.ndarray, seed: int,
) -> Paired | None: # None: too few
    "Estimate the change of a pool from labels of some of its pairs."
    matches = pool.labels[rows].sum()
    if min(matches, len(rows) - matches) < LABELS["fewest_matches"]:
        return None
    weights = stratified_weights(strata[rows], sizes, LABELS["resamples"], seed)
    labels = pool.labels[rows]
    values = [auc_at(labels, scores[rows], weights=weights) for scores in (pool.tuned, pool.base)]
    (tuned_value, *resampled_after), (base_value, *resampled_before) = values
    with suppress(ValueError): # too many resamples lack a class
        return paired([tuned_value], [base_value], [resampled_after], [resampled_before], units=len(rows))
    return None


def point_changes(
    pool: Pool, orders: list[np.ndarray], strata: np.ndarray, sizes: np.ndarray,
) -> np.ndarray: # (orders,) nan: one class alone
    "Estimate the change of a pool by each of several samples, without intervals."
    weights = np.zeros((len(orders), len(pool.labels)))
    for weight, rows in zip(weights, orders):
        weight[rows] = stratified_weights(strata[rows], sizes, 0)[0]
    return pool.change(weights=weights)


def labeling(pool: Pool, strata: np.ndarray, orders: list[np.ndarray]) -> dict:
    "Label samples in one way: errors in points, cover, length of intervals and decisions."
    sizes = np.bincount(strata, minlength=len(LABELS["fractions"]))
    truth = pool.change()
    errors = point_changes(pool, orders, strata, sizes) - truth
    intervals = [interval_of(pool, rows, strata, sizes, seed) for seed, rows in enumerate(orders[:LABELS["intervals"]])]
    made = [interval for interval in intervals if interval]
    words = [decision_of(interval) for interval in made]
    return {
        "squared_error": 1e4 * pd.Series(errors).pow(2).mean(),
        "without_value": int(np.isnan(errors).sum()), "intervals": len(made),
        "covered": sum(interval.low <= truth <= interval.high for interval in made),
        "length": 100 * pd.Series([interval.high - interval.low for interval in made], dtype=float).median(),
        "decided": sum(word != "cannot tell" for word in words),
        "wrong": sum(is_wrong(word, truth) for word in words)}


def orders_of(strata: np.ndarray, numbers: list[int]) -> list[np.ndarray]:
    "Draw what is labeled, once a repetition; fewer labels are the first of them."
    return [sampling_order(strata, max(numbers), seed) for seed in range(LABELS["repetitions"])] if numbers else []


def decision_of(comparison: Paired) -> str: # one of `stats.WORDS`
    "Decide by an interval alone as the statement does: it excludes zero, or else lies within the margin."
    side = side_of(comparison.low, comparison.high, margin=0.)
    return side or ("within the margin" if is_within(comparison.low, comparison.high, LABELS["margin"] / 100)
                    else "cannot tell")


def is_wrong(word: str, truth: float) -> bool:
    "Tell whether a decision contradicts the whole pool."
    margin = LABELS["margin"] / 100
    return {"better": truth <= 0, "worse": truth >= 0, "within the margin": abs(truth) > margin}.get(word, False)


def pools_of(plan: Training) -> list[dict]:
    "Label samples of all pools of one training."
    scores = np.load(PARTS / "shifts" / f"{plan.name}.npz")
    rows = []
    for test in [name for name in LABELS["tests"] if name in plan.tests]:
        full_pool = Pool(test_pairs(test, plan.most_pairs).labels, scores[f"{test} base"], scores[f"{test} tuned"])
        is_trial = is_kept_back(plan.corpus.name) or is_kept_back(test)
        for rate in LABELS["rates"]:
            pool = thinned(full_pool, rate)
            if pool is None:
                continue
            facts = {
                "encoder": plan.encoder.name, "training": plan.corpus.name, "test": test, "kept_back": int(is_trial),
                "rate": rate,
                "pairs": len(pool.labels), "change": 100 * pool.change()}
            numbers = [number for number in LABELS["numbers"] if number <= len(pool.labels) / 2]
            for way, strata in strata_by_way(pool).items():
                orders = orders_of(strata, numbers)
                for number in numbers:
                    samples = [order[:number] for order in orders]
                    rows.append(facts | {"labels": number, "way": way} | labeling(pool, strata, samples))
    return rows


def make_pools() -> None:
    "Make what is missing of all pools."
    for plan in trainings():
        file = PARTS / "pools" / f"{plan.name}.json"
        if plan.corpus.name in LABELS["trainings"] and plan.settings.loss == "mse" and not file.exists():
            origin = clean_environment()
            write_part(file, pools_of(plan), origin)
            print(f"{plan.name}: pools", flush=True)


# ---------------------------------------------------------------- the files

def collected(folder: str) -> tuple[pd.DataFrame, list[dict]]: # rows; environments, each once
    "Read all parts of a folder."
    parts = [json.loads(file.read_text()) for file in sorted((PARTS / folder).glob("*.json"))]
    environments = {json.dumps(part["environment"], sort_keys=True): part["environment"] for part in parts}
    return pd.DataFrame([row for part in parts for row in part["rows"]]), list(environments.values())


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
    plain = f"{len(plainly_tuned(shifts))} plainly fine-tuned"
    return f"Of {len(shifts)} trials with as much change ({kind}, {runs}; {plain}) {' and '.join(parts)}."


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


def collect(out: Path) -> None:
    "Write the files of results, and where they are from."
    source = {"made_by": "python tools/labels.py shifts, pools, collect", "seed": SETTINGS["seed"], "files": {}}
    for folder, name in {"shifts": "all_clear.csv.xz", "pools": "labels.csv.xz"}.items():
        table, environments = collected(folder)
        if table.empty:
            continue
        table = table.round(DECIMALS)
        if folder == "shifts":
            place = ROOT / "debias_nb/diagnosis" if out == RESULTS else out
            trial_table(table).to_csv(place / "all_clear.csv", index=False, lineterminator="\n")
        text = table.to_csv(index=False, lineterminator="\n")
        file = out / name
        file.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
        facts = {"sha256": sha256_file(file), "bytes": file.stat().st_size, "rows": len(table),
                 "columns": [*table.columns]}
        source["files"][name] = facts | {"environments": environments}
        print(f"{file}: {len(table):,} rows")
    (out / "labels.json").write_text(json.dumps(source, indent=1, ensure_ascii=False) + "\n", "utf-8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["shifts", "pools", "collect"])
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the files that collect writes")
    args = parser.parse_args(arguments)
    if args.what == "collect":
        collect(args.out)
    else:
        {"shifts": make_shifts, "pools": make_pools}[args.what]()


if __name__ == "__main__":
    main()
