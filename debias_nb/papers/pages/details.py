"""What records say beyond their metrics, where several pages ask for it; a function each."""
from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np
import pandas as pd

from .claims import answer, distance_from, place_of
from .cells import REFERENCE
from .compare import ENDS, Question, differences
from .frame import Study, only
from .printed import POINTS, load_expected
from ...runs.pairing import config_of


def place(record: dict) -> dict[str, str]: # encoder, corpus and method
    "Return where a record belongs."
    run = config_of(record)
    corpus = run.data.display if run.data else ""
    return dict(encoder=run.encoder.display, corpus=corpus, method=run.method.display)


def extras(records: list[dict], key: str) -> Iterator[tuple[dict, dict]]: # record, what it says
    "Yield the records that say something beyond their metrics."
    for record in records:
        if key in record["extra"]:
            yield record, record["extra"][key]


def strength_path(
    study: Study,
    table: str,
# panel, test, method, family, value, low, high; the first with a column `strength`
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the path of each method along its strength, and the levels of Base and plain fine-tuning.

    Means over seeds with their 95% intervals; a single run without resamples is its own interval."""
    numbers = dict.fromkeys(["strength", "value", *ENDS[1:]], float)
    rows = only(study.cells, table=table).astype(numbers).dropna(subset="value")
    rows = rows.fillna({"low": rows.value, "high": rows.value})
    rows = rows.assign(test=rows.evaluate, panel=rows.encoder + ", " + rows.corpus)
    path = rows[rows.strength > 0]
    return path.assign(method=path.family), only(rows, method=["Base", REFERENCE])


def trade_of(
    runs: pd.DataFrame, # of one table, with a path along λ
    panel: str,
) -> pd.DataFrame: # as `plots.trade_plot` takes it
    "Follow each method along λ: what it changes in distribution and out of it, means over tests; it starts at plain."
    changes = differences(runs)
    means = changes[changes.strength > 0].pivot_table("difference", ["family", "strength"], "shift").reset_index()
    starts = means.drop_duplicates("family").assign(strength=0., iid=0., ood=0.)
    rows = pd.concat([starts, means]).sort_values(["family", "strength"])
    names = {"strength": "step", "iid": "inside", "ood": "outside"}
    return rows.assign(panel=panel).rename(columns=names)


def between(runs: pd.DataFrame, low: str, high: str, share: float, name: str) -> pd.DataFrame:
    "Return the runs of a method whose numbers lie between those of two others, seed by seed and resample by resample."
    keys = ["encoder", "test", "seed"]
    above = only(runs, method=high).set_index(keys)
    rows = only(runs, method=low)
    others = above.loc[pd.MultiIndex.from_frame(rows[keys])]
    mixed = {column: [(1 - share) * np.asarray(one) + share * np.asarray(other)
                      for one, other in zip(rows[column], others[column])] for column in ("value", "resampled")}
    return rows.assign(**mixed, method=name)


def at_equal_cost(
    runs: pd.DataFrame, # of one table, with a path along λ
    family: str,
    other: str,
    panel: str = "",    # what it is about, in words
) -> tuple[float, float, Question]: # λ of the other, points that it loses in distribution; out of distribution
    """Compare two methods at the cost in distribution of the other one, where that gains most.

    The other has the λ where it gains most, and the first lies between its last two λ with costs on either side. The
    cost is taken as measured."""
    trade = trade_of(runs, panel)
    best = trade.loc[only(trade, family=other).outside.idxmax()]
    path = only(trade, family=family)
    crossed = [(one, two) for one, two in pairwise(path.itertuples()) if one.inside >= best.inside > two.inside]
    one, two = crossed[-1]
    methods = runs.drop_duplicates("method")

    def named(own, strength):
        return only(methods, family=own, strength=strength).method.item() if strength else REFERENCE

    share = (one.inside - best.inside) / (one.inside - two.inside)
    mixed = between(runs, named(family, one.step), named(family, two.step), share, f"{family} at equal cost")
    changes = differences(pd.concat([runs, mixed]), named(other, best.step))
    rows = only(changes, method=f"{family} at equal cost", shift="ood")
    question = Question(f"{family} − {other} at λ = {best.step:g}, at its cost, {panel}", rows)
    return best.step, -best.inside, question


FEW_QUERIES = 30 # with fewer, one query moves a score by more than three points


def small_tests(records: list[dict], test: str) -> dict[str, int]: # records: of one table; corpus -> its fewest queries
    "Find the corpora whose test of authors has so few queries that its scores mean little."
    rows = [place(record) | record["metrics"][test] for record in records if test in record["metrics"]]
    fewest = pd.DataFrame(rows, columns=["corpus", "queries"]).groupby("corpus", sort=False).queries.min()
    return fewest[fewest < FEW_QUERIES].astype(int).to_dict()


def degenerate_tests(records: list[dict], test: str) -> str: # as `small_tests`; empty where there is none
    "Say which tests of authors mean little, and why."
    return " ".join(
        f"The test of {corpus} is degenerate, one of its {count} queries is {100 / count:.1f} points: it is shown, and "
        "counts in no mean."
        for corpus, count in small_tests(records, test).items())


def late_weights(records: list[dict], corpus: str) -> pd.DataFrame: # a row a method, a column a quantity
    "Average what diaries of weights say over seeds and the last quarter of training."
    late = []
    for record, diary in extras(records, "weights"):
        steps = pd.DataFrame({name: diary[name] for name in ("effective size", "right answers")}, dtype=float)
        late.append(steps.iloc[len(steps) * 3 // 4:].assign(**place(record)))
    return only(pd.concat(late), corpus=corpus).groupby("method")[["effective size", "right answers"]].mean()


def bias_by_corpus(records: list[dict]) -> pd.DataFrame: # of Eq. 2: mean, least and most of a batch
    "Say how large B was on each corpus, and by how much it raises the temperature of the teacher."
    rows = [place(record) | history for record, history in extras(records, "history")
            if record["run"].method.authors.bias is None and history.get("B", 0) > 0]
    groups = pd.DataFrame(rows).groupby("corpus", sort=False)
    out = groups.agg(runs=("B", "size"), B=("B", "mean"), least=("B_min", "min"), most=("B_max", "max"))
    texts = out[["B", "least", "most"]].map("{:.3f}".format).assign(runs=out.runs)
    texts["temperature"] = (100 / (1 - out.B) - 100).map("+{:.0f}%".format)
    return texts.rename(columns={"least": "least batch", "most": "most"}).reset_index()


REPORTED = "SCAN, as reported"
IN_SMALL_BATCHES = f"{REPORTED} (batches of 32)" # MiniLM
BY_ADAM = "SCAN, losses averaged (weights by Adam)"
# with MiniLM the printed rate loses the weights by SGD, and a tenth of it stands beside
BY_SGD = ["SCAN, losses averaged (weights by SGD)", "SCAN, losses averaged (weights by SGD at rate 1e-5)"]
# as pages call them
SCAN_ROWS = {"RoBERTa": "plain fine-tuning", "Finetuned": "plain fine-tuning", "TANDA-re": "TANDA",
             "SCAN": (REPORTED, IN_SMALL_BATCHES, BY_ADAM, *BY_SGD)}


def scan_answer(questions: list[Question]) -> str: # the first is of SCAN as reported
    "Answer whether SCAN as reported selects better answers, with each encoder."
    text = answer(questions[0], "MAP of SCAN as reported", "that of plain fine-tuning")
    with_minilm = [distance_from(one, "") for one in questions if one.name.startswith(IN_SMALL_BATCHES) and one.mean]
    return " ".join([text, *(f"With MiniLM, in batches of 32, it is {distance}." for distance in with_minilm)])


def _by_setting(runs: pd.DataFrame) -> pd.Series: # index encoder, epochs, rate
    return runs.groupby(["encoder", "epochs", "rate"], sort=False).value.mean()


def more_epochs(runs: pd.DataFrame) -> tuple[int, int]: # runs: of a table of epochs and learning rates
    "Count the steps to more epochs that raise a mean, and all steps."
    steps = _by_setting(runs).unstack("epochs").diff(axis=1).iloc[:, 1:] > 0
    return int(steps.to_numpy().sum()), steps.size


def epoch_steps(runs: pd.DataFrame) -> list[Question]: # runs: of a table of epochs and learning rates
    "Compare each number of epochs with the next smaller one, rate by rate."
    named = runs.assign(method=runs.method + ", " + runs.test, test="in distribution")
    steps = pairwise(runs.sort_values("epochs").test.unique())
    return [Question(f"{more} − {fewer}, in distribution", pd.concat([
        only(differences(named, f"{rate}, {fewer}"), method=f"{rate}, {more}") for rate in runs.method.unique()]))
        for fewer, more in steps]


def spread_of_rates(runs: pd.DataFrame) -> pd.DataFrame: # encoders down, epochs across
    "Measure how many points lie between the means of the best and the worst learning rate."
    rates = _by_setting(runs).groupby(["encoder", "epochs"], sort=False)
    return (rates.max() - rates.min()).unstack("epochs", sort=False).rename(columns="{:g} epochs".format).rename_axis(
        "test", axis=1)


def by_epochs(inside: pd.DataFrame, outside: pd.DataFrame) -> pd.DataFrame: # as `plots.trade_plot` takes it
    "Follow each learning rate along the number of epochs, in distribution and out of it."
    scores = pd.concat({"inside": _by_setting(inside), "outside": _by_setting(outside)}, axis=1).dropna().reset_index()
    return scores.assign(panel=scores.encoder, family=scores.rate.map("rate {:g}".format), step=scores.epochs)


def in_percent_of_plain(
    runs: pd.DataFrame, # of one table
) -> pd.DataFrame: # as `compare.differences`, without those of Base
    "Return differences from plain fine-tuning as percentages of its mean, test by test."
    changes = differences(runs)
    changes = changes[changes.method != "Base"]
    plain = only(runs, method=REFERENCE, further=False).groupby(["encoder", "test"], observed=True).value.mean()
    of_row = plain.reindex(pd.MultiIndex.from_frame(changes[["encoder", "test"]])).to_numpy()
    return changes.assign(**{name: 100 * changes[name] / of_row for name in ENDS})


LEARNED = .1 # points above the base encoder, at least, where plain fine-tuning has learned something


def untaught(runs: pd.DataFrame) -> pd.MultiIndex: # runs: of one table; encoder, corpus
    "Find where plain fine-tuning is not above the base encoder in distribution: nothing was learned there."
    places = ["encoder", "corpus", "unit"]
    levels = only(runs, shift="iid", further=False).groupby([*places, "method"]).value.mean().unstack()
    points = levels.index.get_level_values("unit").map(POINTS)
    gain = (levels[REFERENCE] - levels["Base"]) * points
    return gain[gain < LEARNED].index.droplevel("unit")


# with the fraction of tokens that it masks
MASKED = {"ITVReg, half masked": ["ITVReg", "ITVReg (0.50)"], "ITVReg, 15% masked": ["ITVReg (0.15)"],
          "OutReg": ["OutReg"]}


def of_settings(
    tables: dict[str, pd.DataFrame], # setting of training -> the runs of one table
) -> list[Question]:
    """Compare ITVReg and OutReg with plain fine-tuning in several settings, each out of distribution and in it.

    Where nothing was learned (`untaught`), nothing is compared."""
    printed = load_expected("itvreg")
    questions = []
    for (method, names), shift, (setting, runs) in product(MASKED.items(), ("ood", "iid"), tables.items()):
        if not {*names} & {*runs.method}:
            continue
        changes = only(differences(runs), method=names, shift=shift)
        changes = changes[~pd.MultiIndex.from_frame(changes[["encoder", "corpus"]]).isin(untaught(runs))]
        table, = runs.table.unique() if len(runs) else [""]
        gaps = [printed(table, methods=(name, REFERENCE), base="*", column="*")
                for name in names if name in {*changes.method}]
        questions.append(Question(f"{method}, {setting}, {place_of(runs, shift)}", changes,
                                  pd.concat(gaps) if gaps else None, "plain fine-tuning"))
    return questions
