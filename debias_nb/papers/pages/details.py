"""What records say beyond their metrics, where several pages ask for it: cases, diaries; a function each."""
import re
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from .cells import REFERENCE, remedy_of
from .frame import Study, only
from ...runs.pairing import config_of


def place(record: dict) -> dict: # panel (its title in a figure), encoder, corpus, method, family, seed
    "Return where a record belongs."
    run = config_of(record)
    encoder = run.encoder.display
    corpus = run.data.display if run.data else ""
    return dict(
        panel=f"{encoder}, {corpus}", encoder=encoder, corpus=corpus, method=run.method.display,
        family=remedy_of(run.method) or run.method.name, seed=record["seed"])


def extras(records: list[dict], key: str) -> Iterator[tuple[dict, dict]]: # record, what it says
    "Yield the records that say something beyond their metrics."
    for record in records:
        if key in record["extra"]:
            yield record, record["extra"][key]


ORDER = ("Base", "TANDA", REFERENCE, "ITVReg", "SCAN", "SCAN, ours") # before it, plain, the paper's method, ours


def in_order(methods: Iterable[str]) -> list[str]: # those of `ORDER`, then others by name
    "Sort methods as all tables of cases have them."
    return sorted(methods, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def first_cases(
    records: list[dict],
) -> dict[tuple, dict[str, list[dict]]]: # (encoder, corpus, evaluate) -> method -> cases
    "Return the cases of each method's first seed, in the first world; methods as `in_order`."
    groups = {}
    by_seed = sorted(records, key=lambda record: (config_of(record).world_seed or 0, record["seed"]))
    for record, tests in extras(by_seed, "cases"):
        own = place(record)
        for test, cases in tests.items():
            group = groups.setdefault((own["encoder"], own["corpus"], test), {})
            group.setdefault(own["method"], cases)
    return {place: {name: group[name] for name in in_order(group)} for place, group in groups.items()}


def which_way(
    as_printed: int, # cases that go as the paper tells it
    reverse: int, # cases that go the other way round
) -> str:
    "Say how most cases go, by an exact sign test at 5% that takes the seed as it is."
    if sign_test(as_printed, reverse) >= .05:
        return "cannot tell"
    return "as the paper tells it" if as_printed > reverse else "against the paper"


def sign_test(wins: int, losses: int) -> float: # p, two-sided
    "Test exactly whether one of two counts is larger; 1 if both are 0."
    return binomtest(wins, max(1, wins + losses)).pvalue


UNSHOWN = ( # beginnings of words of violence or abuse
    "abus", "assault", "kill", "molest", "murder", "porn", "rape", "raping", "rapist", "suicid", "terror", "tortur",
    "violen",
)
NOT_SHOWN = (
    "Cases with a text about violence or abuse are counted and not shown: those in which a word begins with "
    f"{', '.join(UNSHOWN[:-1])} or {UNSHOWN[-1]}."
)


def is_shown(texts: Iterable[str]) -> bool: # all that a page would show of a case
    "Return whether no text has a word of violence or abuse."
    unshown = re.compile(rf"\b({'|'.join(UNSHOWN)})", re.IGNORECASE)
    return not any(map(unshown.search, texts))


def gradient_norms(records: list[dict]) -> pd.DataFrame: # encoder, corpus, family (of a term), norm
    "Average the gradient norm of each raw term at the plainly fine-tuned encoder over seeds."
    rows = []
    for record, norms in extras(records, "gradient norms"):
        rows += [place(record) | {"family": name, "norm": norm} for name, norm in norms.items()]
    keys = ["encoder", "corpus", "family"]
    frame = pd.DataFrame(rows, columns=[*keys, "norm"])
    return frame.groupby(keys, sort=False, as_index=False).norm.mean()


def at_strength(
    differences: pd.DataFrame, # of `tables.differences` from plain fine-tuning
    norms: pd.DataFrame, # of `gradient_norms`
) -> pd.DataFrame: # `differences`, with the norm
    "Place differences along strength: λ times the gradient norm of the raw term, where 1 is OutReg at the paper's λ = 0.1."
    place = ["encoder", "corpus"]
    of_outreg = only(norms, family="OutReg").set_index(place).norm.rename("norm_of_outreg")
    rows = differences.merge(norms).join(.1 * of_outreg, place)
    return rows.assign(strength=rows.strength * rows.norm / rows.pop("norm_of_outreg"))


def nearest_strength(rows: pd.DataFrame) -> pd.DataFrame: # of `at_strength`
    "Select each method at the λ of its path whose strength is nearest to 1."
    positive = rows[rows.strength > 0]
    apart = np.log(positive.strength).abs()
    place = [positive[name] for name in ("encoder", "corpus", "test", "family")]
    return rows.loc[apart.groupby(place, sort=False).idxmin()]


def by_strength(
    study: Study,
    table: str,
) -> tuple[pd.DataFrame, pd.DataFrame]: # panel, test, method, family, value, low, high; the first with a column `strength`
    """Return the path of each method along its strength, and the levels of Base and plain fine-tuning.

    Means over seeds with their 95% intervals; a single run without resamples is its own interval."""
    cells = [cell for cell in study.cells if cell.table == table and cell.n]
    rows = pd.DataFrame(
        cells, columns=["encoder", "corpus", "evaluate", "method", "family", "strength", "value", "low", "high"])
    rows = rows.fillna({"low": rows.value, "high": rows.value}).rename(columns={"evaluate": "test"})
    rows["panel"] = rows.encoder + ", " + rows.corpus
    path = rows[rows.strength > 0]
    return path.assign(method=path.family), only(rows, method=["Base", REFERENCE])


def query_counts(records: list[dict], test: str) -> pd.DataFrame: # a row a corpus
    "Count the queries of a test of authors: fewest and most if there are several splits."
    rows = [place(record) | record["metrics"][test] for record in records if test in record["metrics"]]
    queries = pd.DataFrame(rows, columns=["corpus", "queries"]).astype({"queries": int})
    counts = queries.groupby("corpus", sort=False).queries
    return counts.agg(**{"fewest queries": "min", "most queries": "max"}).reset_index()


DIARY = ("effective size", "largest", "right answers", "conflicting", "fitted loss")
FRESH = ("fresh loss", "fresh loss, shuffled")


def _moments(diary: dict) -> Iterator[tuple[str, np.ndarray, np.ndarray]]: # quantity; part and value at each moment
    "Yield what a diary of weights says of each quantity."
    count = len(diary[DIARY[0]])
    part = np.arange(1, count + 1) / count
    for quantity in DIARY:
        yield quantity, part, np.array(diary[quantity], float)
    step = np.array([moment["step"] for moment in diary["fresh"]], float)
    part = step / (step.max(initial=0) or 1)
    for quantity in FRESH:
        yield quantity, part, np.array([moment.get(quantity) for moment in diary["fresh"]], float)


WEIGHTS = ["part", "quantity", "value", "panel", "encoder", "corpus", "method", "family", "seed"] # these last as `place` has them


def weight_rows(records: list[dict]) -> pd.DataFrame: # `WEIGHTS`
    """Return the diaries of all runs that learned weights, one row a quantity and moment.

    `part` is of the training, in [0, 1]."""
    rows = []
    for record, diary in extras(records, "weights"):
        about = place(record).values()
        for quantity, parts, values in _moments(diary):
            is_number = ~np.isnan(values)
            rows += [(part, quantity, value, *about) for part, value in zip(parts[is_number].tolist(), values[is_number].tolist())]
    return pd.DataFrame(rows, columns=WEIGHTS, dtype=object) # how numbers lie in memory decides the last bit of their means


def late_weights(diaries: pd.DataFrame) -> pd.DataFrame: # of `weight_rows`; runs down, quantities across
    "Average over seeds and the last quarter of training."
    late = diaries[diaries.part > .75]
    means = late.groupby(["panel", "method", "quantity"], sort=False).value.mean().unstack()
    means = means.reindex(columns=[*DIARY, *FRESH]).dropna(axis="columns", how="all")
    texts = means.map("{:.2f}".format, na_action="ignore").fillna("—")
    texts.index = texts.index.map(": ".join)
    return texts.rename_axis("run").reset_index()


BIAS = {
    "B": "B",
    "B_min": "least",
    "B_max": "most",
    "teacher_temperature": "teacher's temperature",
    "entropy": "entropy",
    "batches_without_pairs": "without pairs",
}


def bias_table(records: list[dict]) -> pd.DataFrame:
    "Tabulate B, the teacher's temperature τ / (1 − B), the entropy of what is learned and batches without a pair, mean over seeds."
    rows = []
    for record, history in extras(records, "history"):
        if "teacher_temperature" in history and history["B"] > 0:
            tau = record["extra"]["setting"]["temperature"]
            rows.append(place(record) | {"τ by seed": f"{tau:g}"} | history)
    by_seed = pd.DataFrame(rows, columns=["panel", "method", "seed", "τ by seed", *BIAS]).sort_values("seed", kind="stable")
    own = by_seed.groupby(["panel", "method"], sort=False, as_index=False)
    out = own.agg({"τ by seed": "; ".join} | dict.fromkeys(BIAS, "mean"))
    texts = out[list(BIAS)].map("{:.3f}".format)
    texts["batches_without_pairs"] = out.batches_without_pairs.map("{:.0f}".format)
    return out.drop(columns=list(BIAS)).join(texts).rename(columns=BIAS)


PRINTED_SCAN = ["SCAN", "SCAN (rate 1e-5)"] # as printed; with MiniLM the weights are lost at the printed rate, and a tenth of it counts
SCAN_FORMS = {
    "SCAN (the paper's equations, losses averaged)": PRINTED_SCAN, "SCAN as in the authors' code": "SCAN, released",
    "SCAN with our weights": "SCAN, ours"}
WEIGHTED_SCAN_FORMS = { # where right answers weigh three times
    "SCAN, right answers weighed three times": "SCAN, weighted", "the other two, weighed so": ["SCAN, released, weighted", "SCAN, ours, weighted"]}


def scan_forms(methods: Iterable[str]) -> dict[str, str | list[str]]: # methods: of a table -> title of a form -> its rows
    "List the forms of SCAN, those whose right answers weigh three times where a table has them."
    has_weighted = "SCAN, weighted" in set(methods)
    return SCAN_FORMS | (WEIGHTED_SCAN_FORMS if has_weighted else {})
