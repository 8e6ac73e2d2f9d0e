"""Means, paired differences and the paper's own cells as data frames, and the words and footers around them."""
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from ...files import load_yaml, package_file
from ...data.pairs import KNOWN
from .cells import UNTRAINED, is_printed, reasons, row_name
from .expected import load_expected
from .frame import Study, only, stored
from ...runs.pairing import Run, bracket, by_world, is_clean, is_enough, is_trained, paired_runs
from ...runs.pairing import pairs_of, signed
from ...measures.stats import significant, threshold_p


DIGITS = {"percent": 1, "fraction": 3, "count": 0}


def _list(title: str, lines: list[str]) -> str:
    "A list in Markdown, with a title; a single line stands next to the title, and without lines it is empty."
    if len(lines) > 1:
        return "\n".join([title, "", *lines])
    return "".join(f"{title} {line.removeprefix('- ')}" for line in lines)


def text_table(
    header: list[str],
    rows: list[list],
    left: int | None = None, # columns of words, the others are numbers; None: all
) -> str:
    "A Markdown table."
    if left is None:
        left = len(header)
    escaped = [[str(cell).replace("|", "\\|") for cell in row] for row in (header, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in escaped]
    lines.insert(1, "|" + "---|" * left + "---:|" * (len(header) - left))
    return "\n".join(lines)


def markdown(frame: pd.DataFrame) -> str:
    "A data frame as a Markdown table: words to the left, numbers to the right, a repeated first name once."
    left = None
    if frame.columns.name == "test":
        left = frame.index.nlevels
    if any(frame.index.names):
        frame = frame.reset_index()
    frame = frame.astype(object).where(frame.notna(), "")
    if frame.columns[0] == "encoder":
        frame["encoder"] = frame.encoder.mask(frame.encoder == frame.encoder.shift(), "")
    header = ["" if name in ("method", "encoder") else str(name) for name in frame.columns]
    return text_table(header, frame.to_numpy().tolist(), left)


def main(runs: pd.DataFrame, metric: str | None = None) -> pd.DataFrame:
    "The rows of a table's own metric, or of a further one, where something was trained."
    own = runs[~runs.further]
    if metric is not None:
        own = runs[runs.metric == metric]
    is_trained = ~own.method.isin(UNTRAINED)
    return own[is_trained.groupby([own.encoder, own.test]).transform("any")]


def wide(rows: pd.DataFrame) -> pd.DataFrame: # rows: encoder, method, test, text
    "One column a test; the encoder is left out where there is one."
    keys = ["method", "test"]
    if rows.encoder.nunique() > 1:
        keys = ["encoder", *keys]
    texts = rows.set_index(keys).text
    return texts.unstack("test", sort=False).fillna("—")


def _with_std(value: float, std: float | None, digits: int) -> str: # std: None or nan where there is none
    "`73.9 ± 0.1`."
    text = f"{value:.{digits}f}"
    if pd.isna(std):
        return text
    return f"{text} ± {std:.{digits}f}"


def of_replicates(rows: pd.DataFrame) -> pd.Series: # rows: runs of one method on one test
    "A value a seed; where several worlds or splits are drawn one for each, the mean of its runs."
    worlds = rows.key.str[0]
    if worlds.nunique() > 1:
        return pd.Series(by_world(rows.value.to_numpy(), worlds))
    return rows.value


def means(
    runs: pd.DataFrame, # of one table
) -> pd.DataFrame: # encoders and methods down, tests across
    "Mean ± standard deviation over seeds, or over synthetic datasets or random splits if there are several."
    keys = ["encoder", "method", "test"]
    texts = []
    for place, own in main(runs).groupby(keys, sort=False):
        values = of_replicates(own)
        text = _with_std(values.mean(), values.std(), DIGITS[own.unit.iloc[0]])
        if not own.complete.all():
            text += " (partial)"
        texts.append([*place, text])
    if not texts:
        return pd.DataFrame()
    return wide(pd.DataFrame(texts, columns=[*keys, "text"]))


PLACE = ["encoder", "corpus", "test", "evaluate", "shift", "method", "family", "strength", "metric", "unit"]
DIFFERENCES = [*PLACE, "against", "difference", "low", "high", "n", "p", "seeds_alone"]


def differences(
    runs: pd.DataFrame,         # of one table
    against: str | None = None, # a method; None: the one that each row names
    metric: str | None = None,  # a further one; None: the table's own
) -> pd.DataFrame: # one row per encoder, test and method; in the table's unit; 95% intervals and p-values, not corrected; `paired`
    """Paired differences, over the same seeds and the same resampled test items; only of what is complete.
    What cannot be paired is left out, and `rests_on` says so."""
    found = pairs(runs, against, metric)
    found = found.loc[found.difference.notna(), [*DIFFERENCES, "paired"]].reset_index(drop=True)
    found = found.astype({"n": int, "seeds_alone": bool})
    found.attrs = runs.attrs
    return found


def compared(
    runs: pd.DataFrame, against: str | None, metric: str | None, # as `differences`
) -> Iterator[tuple]: # place, the other method, the runs of both
    "Every comparison of a table, whether its runs are pairs or not."
    rows = main(runs, metric)
    complete = rows.loc[rows.complete, [*PLACE, "against", *Run._fields]]
    of_tests = {} # encoder and test -> method -> its rows
    for row in complete.itertuples(index=False):
        of_test = of_tests.setdefault((row.encoder, row.test), {})
        of_test.setdefault(row.method, []).append(row)
    for methods in of_tests.values():
        sides = {method: [Run(*row[-len(Run._fields):]) for row in own] for method, own in methods.items()}
        for method, (first, *_) in methods.items():
            base = against or first.against
            if base != method and base in methods:
                yield list(first[:len(PLACE)]), base, [sides[method], sides[base]]


def _minus(found: pd.DataFrame) -> pd.Series:
    "`OutReg, minus Finetuned`."
    return found.method + ", minus " + found.against


def _named(found: pd.DataFrame) -> pd.Series:
    "Methods, with what they are compared with where that is not one for all."
    if found.against.nunique() > 1:
        return _minus(found)
    return found.method


def intervals(found: pd.DataFrame) -> pd.DataFrame: # of `differences`
    "Differences as text, in the shape of `means`; bold if significant, as `gains_and_losses` of the whole table."
    if found.empty:
        return pd.DataFrame()
    texts = []
    for row, is_significant in zip(found.itertuples(), gains_and_losses(found) != 0):
        text = bracket(row, DIGITS[row.unit])
        texts.append(f"**{text}**" if is_significant else text)
    return wide(found.assign(method=_named(found), text=texts))


def gains_and_losses(found: pd.DataFrame) -> pd.Series: # of `differences`; 1, -1 or 0 for each
    "Gains (1) and losses (-1) that are significant at 5% after Holm's correction over these differences."
    return np.sign(found.difference).where(significant(found.p.fillna(1).tolist()), 0).astype(int)


def strength_of(runs: pd.DataFrame, method: str | list[str]) -> str: # method: one, or several that are one elsewhere
    "The λ that a method was run with, in words."
    found = only(runs, method=method).strength.dropna().unique()
    return f"λ = {' and '.join(map('{:g}'.format, found))}" if len(found) else "a λ that was not run"


def alt_text(found: pd.DataFrame, what: str) -> str: # found: of `differences`
    "Say what a figure of differences shows, for a reader who cannot see it: which method lies highest, and which lowest."
    if found.empty:
        return what
    digits = DIGITS[found.unit.iloc[0]]
    ends = found.difference.groupby(_named(found), sort=False).agg(["mean", "min", "max"]).sort_values("mean", kind="stable")
    said = [f"{name} ({signed(low, digits)} to {signed(high, digits)})" for name, _, low, high in ends.itertuples()]
    return f"{what}: of {len(said)} methods {said[-1]} lies highest on average, and {said[0]} lowest" if len(said) > 1 else f"{what}: {said[0]}"


FEW_SEEDS = "On two or three seeds intervals can be too narrow."


def pairs(
    runs: pd.DataFrame,         # of one table
    against: str | None = None, # as `differences`
    metric: str | None = None,
    # `DIFFERENCES`, missing where its runs make no pairs; paired, kept (runs), replicates (words), is_few, left_out (words), all_runs
) -> pd.DataFrame: # a row a comparison
    """Every comparison, and how many replicates it rests on (`10 seeds`, `5 synthetic datasets`,
    `too few: 1 seeds`), and what is left out of it (`seed 0, seed 1: made on unlike processors`)."""
    rows = []
    for place, base, sides in compared(runs, against, metric):
        kept, left_out = pairs_of(sides)
        drawn = "splits" if any(run.overlap for side in sides for run in side) else "synthetic datasets"
        worlds = {world for world, _ in kept}
        words = f"{len(worlds)} {drawn}" if len(worlds) > 1 else f"{len(kept)} seeds"
        row = dict(zip(PLACE, place), against=base, paired=None, is_few=False, kept=list(kept.values()))
        if is_enough(sides, kept):
            d = paired_runs(kept)
            p = math.nan if math.isnan(d.error) else threshold_p(d)
            row = vars(d) | row | {"p": p, "paired": d, "is_few": d.provisional} # the method is that of the row
        else:
            words = f"too few: {words}"
        by_reason = {}
        for (world, seed), reason in left_out.items():
            name = f"seed {seed}" if world is None else f"seed {seed} on number {world} of the {drawn}"
            by_reason.setdefault(reason, []).append(name)
        without = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
        all_runs = all(len(side) == len(kept) for side in sides if is_trained(side))
        rows.append(row | {"replicates": words, "left_out": without, "all_runs": all_runs})
    numbers = dict.fromkeys(["difference", "low", "high", "p"], float)
    return pd.DataFrame(rows, columns=[*DIFFERENCES, "paired", "kept", "replicates", "is_few", "left_out", "all_runs"]).astype(numbers)


APART = "Means use all runs of a method, differences only pairs of runs, so two means may lie further apart than their difference says, or less far."


def rests_on(
    runs: pd.DataFrame,         # of one table
    against: str | None = None, # as `differences`
    metric: str | None = None,
    **where,                    # as `only`
) -> str:
    """Markdown: how many replicates differences rest on, in a table where that is not one number for all, with those
    that were left out, and why; empty where nothing is compared."""
    known = only(pairs(runs, against, metric), **where)
    if known.empty:
        return ""
    numbers = known.replicates.unique()
    if len(numbers) == 1 and not known.left_out.any():
        said = f"Each difference: n = {numbers[0]}."
    else:
        names = ["encoder", "method", "test"]
        table = known.assign(method=_named(known))[[*names, "replicates", "left_out"]]
        for name in reversed(names): # those that rest on alike replicates share a row
            others = [column for column in table if column != name]
            table = table.groupby(others, sort=False)[name].agg(lambda names: "; ".join(sorted(set(names)))).reset_index()
        shown = [name for name in names if table[name].nunique() > 1] + ["replicates"]
        if known.left_out.any():
            shown.append("left_out")
        table = table[shown].rename(columns={"test": "tests", "replicates": "n", "left_out": "left out"})
        said = f"Replicates of each difference:\n\n{markdown(table)}"
    if known.is_few.any():
        said += f"\n\n{FEW_SEEDS}"
    if known.all_runs.all():
        return said
    return f"{said}\n\n{APART}"


def printed(
    paper: str,
    table: str,   # its name in `expected/`
    study: Study, # at profile `paper`: ours stand before the paper's
) -> pd.DataFrame: # base encoders and methods down, columns across
    "The paper's own numbers, as printed, and ours on the paper's own data where there are any."
    expected = load_expected(paper).tables[table]
    known = [cell for cell in study.cells if cell.table == table and cell.value is not None]
    rows = []
    for one in expected.cells:
        text = "not printed"
        if one.value is not None:
            text = _with_std(one.value, one.std, expected.decimals)
        for ours in known:
            if is_printed(ours, one):
                text = f"{_with_std(ours.value, ours.std, expected.decimals)} / {text} / {ours.status}"
        method = row_name(**one.row)
        if one.quoted:
            method += " (quoted)"
        rows.append(dict(encoder=one.row.get("base", ""), method=method, test=one.column, text=text))
    return wide(pd.DataFrame(rows))


def missing(
    study: Study,
    *tables: str, # their names; none: all
) -> str:
    "Markdown: how many cells lack a number, in which rows and columns where these are not all, why, and what fills them."
    alike = {} # what is lacking -> tables
    for table in study.experiment.tables:
        if tables and table.id not in tables:
            continue
        cells = [cell for cell in study.cells if cell.table == table.id]
        empty = [cell for cell in cells if cell.value is None]
        if empty:
            what = f": {'; '.join(sorted(reasons(empty)))}. `{empty[0].command}{study.options}`"
            for part in ("column", "method"):
                named = dict.fromkeys(getattr(cell, part) for cell in empty)
                if len(named) < len({getattr(cell, part) for cell in cells}):
                    what = f" ({'; '.join(named)}){what}"
            alike.setdefault(what, []).append(f"{table.id}, {len(empty)} of {len(cells)} cells")
    lines = [f"- {'; '.join(counts)}{what}" for what, counts in alike.items()]
    return _list(f"Not run at profile `{study.experiment.profile}`:", lines)


def background(study: Study) -> str:
    "Markdown, with its heading: what base encoders saw before that touches on the test sets, from their cards; else empty."
    cards = load_yaml(package_file("encoders.yaml"))
    used = {record["run"].encoder.name for record in study.records}
    lines = []
    for encoder in study.experiment.encoders:
        card = cards.get(encoder.name, {"zero_shot": True})
        if encoder.name in used and not card["zero_shot"]:
            lines.append(f"- {encoder.display}: {card['trained_on']}")
    if not lines:
        return ""
    return f"## Before you rely on it\n\n{_list('Base figures here are not zero-shot:', lines)}"


DISPLAYED = {"askubuntu": "AskUbuntu", "quora": "Quora"} # corpora whose names are others in texts


def known_shares(study: Study) -> pd.DataFrame: # corpus, task, test, size, `KNOWN`; and matches of both parts, where there are any
    "How many of the texts of each tested pair stand in training, as records of untrained encoders say; each pair of corpora once."
    rows = {}
    for record in study.finished:
        corpus = record["run"].eval_corpus
        for test, values in record["metrics"].items():
            if corpus and set(KNOWN) <= set(values):
                matches = {part: values.get(f"matches[{part}]") for part in ("no known text", "known text")}
                known = record["data"][f"test {test}"]
                counts = known | known.get("counts", {})
                size = next(counts[unit] for unit in ("pairs", "candidates", "texts") if unit in counts)
                about = {"corpus": corpus.display, "task": corpus.task, "test": test, "size": size}
                rows[corpus.display, test] = about | {what: values[what] for what in KNOWN} | {
                    f"matches, {part}": share for part, share in matches.items()}
    return pd.DataFrame(list(rows.values()))


def shared_texts(
    corpora: dict[str, str], # corpus that is trained on -> what tests it in distribution
) -> str: # empty where no record says it
    "Markdown, a line: how many pairs of these tests hold a text that stands in training."
    shares = known_shares(stored("itvreg/known_texts", "small"))
    if shares.empty:
        return ""
    none = shares.set_index(["corpus", "test"])["no known text"]
    there = [place for place in corpora.items() if place in none]
    said = [f"{1 - none[place]:.0%} ({DISPLAYED.get(place[1], place[1])})" for place in there]
    if not said:
        return ""
    listed = " and ".join(filter(None, [", ".join(said[:-1]), said[-1]]))
    return f"Of the test pairs in distribution, {listed} hold a text that stands in training. [What that changes](./known_texts.ipynb)."


VERSIONS = ("torch", "transformers", "sentence-transformers", "numpy")


def commit_of(environment: dict) -> str: # of a record
    "The commit that made a record."
    short = (environment["commit"] or "none")[:10]
    if environment.get("dirty"):
        short += " with changes"
    return short


def _seen(values) -> str:
    "Each once, in order."
    return ", ".join(sorted(set(filter(None, values))))


def provenance(study: Study) -> str:
    "Markdown: cost, device, commits, versions, settings, and the command."
    records = study.finished
    if not records:
        return ""
    profile = study.experiment.profile
    name = study.experiment.name
    environments = [record["environment"] for record in records]
    devices = _seen(f"{record['device']} {record['dtype']}" for record in records)
    processors = _seen(one.get("cpu") for one in environments)
    machines = ", ".join(filter(None, [devices, processors]))
    packages = {part for one in environments for part in one["packages"].items()}
    versions = _seen(f"{package} {version}" for package, version in packages if package in VERSIONS)
    changed = sum(not is_clean(record) for record in records)
    seconds = pd.Series([record["seconds"] for record in records])
    minutes = round(seconds.sum() / 60)
    cost = f"{minutes} minute{'s' * (minutes != 1)} of one core, median run {seconds.median():.0f} s"
    lines = [
        f"- `{profile}`: {len(records)} runs, {cost}; {machines}.",
        f"Commits {_seen(map(commit_of, environments))}. {versions}.",
    ]
    networks = [record["run"].encoder for record in records if record["dtype"] == "fp32"]
    single = _seen(network.display for network in networks if network.kind == "alignment")
    if single:
        lines.append(f"In single precision, in which another processor gives other numbers: {single}.")
    lines.append(f"Records have the hashes of encoders and data. Settings: `configs/{name}.{profile}.yaml`; command: `debias-nb run {name} --profile {profile}{study.options}`.")
    if changed and not study.own:
        lines.append(f"{changed} of these runs came from a tree with uncommitted changes, and are in no comparison.")
    return "\n  ".join(lines)


SHOWN = ("MiniLM, 10 % of the pairs", "MiniLM") # what records call an encoder, and what pages do, whose line of the scale has the share


def show(
    *parts,        # text, DataFrame, Study or figure; what is empty is left out
    alt: str = "", # what a reader who cannot see a figure is told
) -> None:
    "Display the parts of a page."
    from IPython.display import Markdown, display
    for part in parts:
        if isinstance(part, Study):
            part = part._repr_markdown_()
        elif isinstance(part, pd.DataFrame):
            part = markdown(part) if len(part) else ""
        if not isinstance(part, str):
            from .pictures import Picture
            display(Picture(part, alt))
        elif part:
            display(Markdown(part.replace(*SHOWN)))
