"""Means and paired differences as tables of Markdown, and the words and footers around them."""
import re

import pandas as pd

from ...files import load_yaml, package_file
from ...runs.config import file_of
from ...runs.pairing import bracket, by_world, is_clean
from ...runs.parameters import check_injected
from .compare import BETTER, WORSE, main, pairs, words_of_tests
from .frame import Study, only


NAME_PATTERNS = ( # patterns of what records call encoders and methods, and what pages do
    (r"(?<=\d) %", "%"),
    ("MiniLM, 10% of the pairs", "MiniLM"), # the line of the scale has the fraction
    ("general mix", "general texts"),
    ("no known text", "disjoint pairs"),
)


def replace_names(text: str) -> str:
    "Replace the names of records by those of pages."
    for pattern, name in NAME_PATTERNS:
        text = re.sub(pattern, name, text)
    return text


DIGITS = {"percent": 1, "fraction": 3, "count": 0}


def _list(title: str, lines: list[str]) -> str:
    "Return a Markdown list with a title; a single line stands next to the title, and without lines it is empty."
    if len(lines) > 1:
        return "\n".join([title, "", *lines])
    return "".join(f"{title} {line.removeprefix('- ')}" for line in lines)


def text_table(
    header: list[str],
    rows: list[list],
    left: int | None = None, # columns of words, the others are numbers; None: all
) -> str:
    "Return a Markdown table."
    if left is None:
        left = len(header)
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in (header, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    lines.insert(1, "|" + "---|" * left + "---:|" * (len(header) - left))
    return "\n".join(lines)


def markdown(frame: pd.DataFrame) -> str:
    "Return a data frame as a Markdown table: words to the left, numbers to the right, a repeated first name once."
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


def wide(rows: pd.DataFrame) -> pd.DataFrame: # rows: encoder, method, test, text
    "Pivot to one column per test; the encoder is left out if there is only one."
    keys = ["method", "test"]
    if rows.encoder.nunique() > 1:
        keys = ["encoder", *keys]
    texts = rows.set_index(keys).text
    return texts.unstack("test", sort=False).fillna("—")


def with_std(value: float, std: float | None, digits: int) -> str: # std: None or nan where there is none
    "Return `73.9 ± 0.1`."
    text = f"{value:.{digits}f}"
    if pd.isna(std):
        return text
    return f"{text} ± {std:.{digits}f}"


def of_replicates(rows: pd.DataFrame) -> pd.Series: # rows: runs of one method on one test
    "Return one value per seed; of several worlds or splits one for each, the mean of its runs."
    worlds = rows.key.str[0]
    if worlds.nunique() > 1:
        return pd.Series(by_world(rows.value.to_numpy(), worlds))
    return rows.value


def averages(runs: pd.DataFrame) -> pd.DataFrame: # encoder, method, test, value, std, digits, complete
    "Average over seeds, or over synthetic datasets or random splits if there are several, with the standard deviation."
    keys = ["encoder", "method", "test"]
    rows = []
    for place, group in runs.groupby(keys, sort=False):
        values = of_replicates(group)
        rows.append((*place, values.mean(), values.std(), DIGITS.get(group.unit.iloc[0], 0), group.complete.all()))
    return pd.DataFrame(rows, columns=[*keys, "value", "std", "digits", "complete"])


def means(
    runs: pd.DataFrame, # of one table
) -> pd.DataFrame: # encoders and methods down, tests across
    "Return averages as text."
    rows = averages(main(runs))
    if rows.empty:
        return pd.DataFrame()
    texts = [with_std(row.value, row.std, row.digits) + " (partial)" * (not row.complete) for row in rows.itertuples()]
    return wide(rows.assign(text=texts))


def _method_names(differences: pd.DataFrame) -> pd.Series:
    "Name methods, with what they are compared with if that is not one for all."
    if differences.against.nunique() > 1:
        return differences.method + ", minus " + differences.against
    return differences.method


def intervals(differences: pd.DataFrame) -> pd.DataFrame: # of `differences`
    "Return differences as text, in the shape of `means`, bold where the tests of the whole table decide."
    if differences.empty:
        return pd.DataFrame()
    texts = []
    for row, word in zip(differences.itertuples(), words_of_tests(differences)):
        text = bracket(row)
        texts.append(f"**{text}**" if word in (BETTER, WORSE) else text)
    return wide(differences.assign(method=_method_names(differences), text=texts))


def strength_of(runs: pd.DataFrame, method: str | list[str]) -> str: # method: one, or several that are one elsewhere
    "Name the λ that a method was run with."
    strengths = only(runs, method=method).strength.dropna().unique()
    return f"λ = {' and '.join(map('{:g}'.format, strengths))}" if len(strengths) else "a λ that was not run"


FEW_SEEDS_NOTE = "On two or three seeds intervals can be too narrow."


APART = ("Means use all runs of a method, and differences only paired runs. So two means may lie further apart than "
         "their difference, or closer together.")


def rests_on(
    runs: pd.DataFrame, # of one table
) -> str:
    """Say as Markdown how many replicates differences rest on, and what was left out.

    Empty where nothing is compared."""
    comparisons = pairs(runs)
    if comparisons.empty:
        return ""
    if comparisons.replicates.nunique() == 1 and not comparisons.left_out.any():
        text = f"Each difference: n = {comparisons.replicates.iloc[0]}."
    else:
        names = {"encoder": "encoder", "method": "method", "test": "tests", "replicates": "n", "left_out": "left out"}
        table = comparisons.assign(method=_method_names(comparisons))[[*names]].rename(columns=names)
        text = f"Replicates of each difference:\n\n{markdown(table)}"
    if any(pair is not None and pair.provisional for pair in comparisons.paired):
        text += f"\n\n{FEW_SEEDS_NOTE}"
    if comparisons.all_runs.all():
        return text
    return f"{text}\n\n{APART}"


def missing(
    study: Study,
    *tables: str, # their names; none: all
) -> str:
    "Say as Markdown how many cells lack a number, in which rows and columns, if not all, why, and what fills them."
    alike = {} # what is lacking -> tables
    for table in study.experiment.tables:
        if tables and table.id not in tables:
            continue
        cells = only(study.cells, table=table.id)
        empty = cells[cells.value.isna()]
        if len(empty):
            reasons = sorted({part for why in empty.why.dropna() for part in why.split("; ")})
            lack = f": {'; '.join(reasons)}. `{empty.command.iloc[0]}{study.options}`"
            for part in ("column", "method"):
                names = empty[part].unique()
                if len(names) < cells[part].nunique():
                    lack = f" ({'; '.join(names)}){lack}"
            alike.setdefault(lack, []).append(f"{table.id}, {len(empty)} of {len(cells)} cells")
    lines = [f"- {'; '.join(counts)}{lack}" for lack, counts in alike.items()]
    return _list(f"Not run at profile `{study.experiment.profile}`:", lines)


def background(study: Study) -> str:
    "Say as Markdown, with its heading, which test data base encoders saw in pretraining; empty if none."
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


def commit_of(environment: dict) -> str: # of a record
    "Return the commit that made a record."
    short = (environment["commit"] or "none")[:10]
    if environment.get("dirty"):
        short += " with changes"
    return short


def _each_once(values) -> str:
    "List each value once, in order."
    return ", ".join(sorted(set(filter(None, values))))


def provenance(study: Study) -> str:
    "Say as Markdown what runs cost and which devices, settings and command made them."
    records = study.finished
    if not records:
        return ""
    profile = study.experiment.profile
    name = study.experiment.name
    environments = [record["environment"] for record in records]
    devices = (f"{record['device']} {record['dtype']}" for record in records)
    processors = (environment.get("cpu") for environment in environments)
    machines = ", ".join(filter(None, [_each_once(devices), _each_once(processors)]))
    modified = sum(not is_clean(record) for record in records)
    seconds = pd.Series([record["seconds"] for record in records])
    minutes = round(seconds.sum() / 60)
    cost = f"{minutes} minute{'s' * (minutes != 1)} of one core, median run {seconds.median():.0f} s"
    lines = [f"- `{profile}`: {len(records)} runs, {cost}; {machines}.",
             f"Settings: `{file_of(name)}`; command: `debias-nb run {name} --profile {profile}{study.options}`."]
    if modified and not study.own:
        lines.append(f"{modified} of these runs came from a tree with uncommitted changes, and are in no comparison.")
    return "\n  ".join(lines)


def show(
    *parts,        # text, DataFrame, Study or figure; what is empty is left out
    alt: str = "", # what a reader who cannot see a figure is told
) -> None:
    "Display the parts of a page. Raises `RunnerError` for an unknown parameter of papermill's."
    from IPython.display import Markdown, display
    check_injected()
    for part in parts:
        if isinstance(part, Study):
            part = part._repr_markdown_()
        elif isinstance(part, pd.DataFrame):
            part = markdown(part) if len(part) else ""
        if not isinstance(part, str):
            from .plots import Picture
            display(Picture(part, replace_names(alt)))
        elif part:
            display(Markdown(replace_names(part)))
