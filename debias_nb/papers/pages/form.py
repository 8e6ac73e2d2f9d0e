"""The one form of a page of a printed table: answer, print beside ours, picture, what differs, and how to run it."""
import re
from collections.abc import Mapping, Sequence

import pandas as pd

from ..costs import Reckoning, taken, two_digits
from .as_printed import PRINTED_TABLE, key_deviations, title_of
from .cells import row_name
from .expected import ExpectedTable, load_expected
from .frame import PROFILES, Results, Study, all_experiments
from .plots import difference_plot
from .report import page_of
from .tables import DIGITS, alt_text, background, differences, intervals, main, means, missing, of_replicates
from .tables import provenance, rests_on, show, text_table, with_std
from .verdicts import resting_on


MOST_WORDS = 600 # of a page, for each printed table or figure that it is about


def words_seen(page: str) -> int: # page: Markdown
    """Count the words and numbers that a reader sees, folds and tables included, addresses, tags and pictures not.

    A number and its spread are one."""
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)|<[^>]+>| ± [\d.]+", " ", page)
    text = re.sub(r"\]\([^)]*\)", "] ", text)
    return sum(any(map(str.isalnum, word)) for word in text.split())


def printed_parts(
    page: str, # `paper/name`
) -> list[str]: # e.g. `table3`, `figure2`
    "List the printed tables and figures of a page: of its configurations, of its lists of cases, or of its name."
    parts = {}
    for experiment in all_experiments(page.partition("/")[0]):
        if page_of(experiment) == page:
            own_name = re.sub(r"0+(?=\d)", "", experiment.experiment)
            ids = [table.id for table in experiment.tables if PRINTED_TABLE.fullmatch(table.id)] or [own_name]
            parts |= dict.fromkeys(filter(PRINTED_TABLE.fullmatch, ids))
    lists = load_expected(page.partition("/")[0]).lists
    if lists.keys() & parts.keys():
        parts |= dict.fromkeys(lists)
    return list(parts)


VERDICTS = "*Better*, *worse*, *within a point*, *cannot tell*, *detectable*: [rules](../claims.ipynb#how-we-decided)."


def show_answer(
    results: Results,
    studies: Sequence[Study],  # that the page shows
    answer: str,               # a sentence or two, as `answers.answer`
    comparisons: pd.DataFrame, # of `answers.summarize`
    note: str = "",            # how they are to be read
) -> None:
    "Display the answer of a page, the comparisons behind it, and the paper's claims that rest on the same runs."
    words = f"{note} {VERDICTS}".strip() if "cannot tell" in comparisons else note
    show(f"**Answer.** {answer}", comparisons, words, resting_on(results, *studies, of_paper=True))


Like = Mapping[str, str | tuple[str, ...]] # method or column, the paper's or ours -> its name here, or names
COLUMNS = ["side", "method", "test", "value", "std", "digits", "why"]


def _printed(name: str, table: ExpectedTable, like: Like) -> pd.DataFrame: # `COLUMNS`
    "List the cells of a printed table; a name that another printed one would take stays as it is."
    rows = []
    for cell in table.cells:
        names = dict(cell.row)
        base = names.pop("base", "")
        method = row_name(**names)
        kind = BLANK if cell.value is None else QUOTED if cell.quoted else f"{name} {method} {cell.column}"
        rows.append((f"the paper: {base}".removesuffix(": "), method, cell.column, cell.value, cell.std,
                     table.decimals, kind))
    frame = pd.DataFrame(rows, columns=COLUMNS).astype({"value": float, "std": float})
    for column in ("method", "test"):
        free = {old: new for old, new in like.items() if new not in set(frame[column])}
        frame[column] = [free.get(old, old) for old in frame[column]]
    return frame


def _measured(runs: pd.DataFrame, like: Like) -> pd.DataFrame: # runs: of one table; as `_printed`
    "List our means, with standard deviations, as `tables.means` has them."
    rows = main(runs)
    rows = rows.assign(**{column: rows[column].map(lambda old: like.get(old, old)) for column in ("method", "test")})
    cells = []
    for (encoder, *names), group in rows.groupby(["encoder", "method", "test"], sort=False):
        values = of_replicates(group)
        cells.append((f"here: {encoder}", *names, values.mean(), values.std(), DIGITS[group.unit.iloc[0]], ""))
    return pd.DataFrame(cells, columns=COLUMNS)


def side_by_side(
    study: Study,
    table: str,               # its name in `experiments/printed/` and in the configuration
    like: Like | None = None,
    apart: bool = False,      # also the printed columns that have none of ours
) -> tuple[pd.DataFrame, pd.DataFrame]: # test and side down, methods across; the printed cells without one of ours
    "Put what a paper prints beside our means, in the rows and columns that both have; tests of ours alone come last."
    like = like or {}
    cells = _printed(table, load_expected(study.experiment.paper).tables[table], like)
    printed = cells.explode("method")
    ours = _measured(study[table], like)
    is_beside = pd.MultiIndex.from_frame(printed[["method", "test"]]).isin(
        pd.MultiIndex.from_frame(ours[["method", "test"]])) & printed.value.notna()
    shown = printed[printed.method.isin(ours.method) if apart else is_beside]
    ours = ours[ours.method.isin(shown.method)]
    rows = pd.concat([shown, ours[ours.test.isin(shown.test)], ours[~ours.test.isin(printed.test)]])
    texts = [with_std(*cell) for cell in rows[["value", "std", "digits"]].itertuples(index=False)]
    wide = rows.assign(text=texts).set_index(["test", "side", "method"]).text.unstack("method", sort=False).fillna("—")
    for cell in study.cells:
        place = like.get(cell.column, cell.column), f"here: {cell.encoder}"
        method = like.get(cell.method, cell.method)
        if (cell.table, cell.status) == (table, "failed") and wide.get(method, {}).get(place) == "—":
            wide.loc[place, method] = "failed"
    order = pd.MultiIndex.from_product([rows.test.unique(), rows.side.unique()]) # as printed
    wide = wide.reindex(order[order.isin(wide.index)], columns=shown.method.unique())
    return wide, cells[~is_beside.groupby(level=0).any()]


BLANK, QUOTED, UNEXPLAINED = "blank in print", "quoted from earlier work", "that no run of ours makes"


def lacking(
    cells: pd.DataFrame, # printed cells, of `side_by_side`
    reasons: Mapping[str, str], # what a cell is of -> why no run of ours makes it
) -> str: # `56 with SuperUser, whose pairs have no public address`
    "Say why printed cells have none of ours beside them, and name the rows that the paper quotes."
    blocks = {}
    for row in cells.itertuples():
        block = row.why
        if block not in (BLANK, QUOTED):
            fits = [why for of, why in reasons.items() if of.casefold() in block.casefold()]
            block = fits[0] if fits else UNEXPLAINED
        blocks.setdefault(block, []).append(row.method)
    names = ", ".join(dict.fromkeys(blocks.get(QUOTED, ())))
    return "; ".join(f"{len(methods)} {block}{f' ({names})' * (block == QUOTED)}" for block, methods in blocks.items())


UNITS = {"percent": " in percent, means", "fraction": " as fractions, means", "count": ""}


def show_cells(
    study: Study, table: str, like: Like | None = None, apart: bool = False, # as `side_by_side`
    note: str = "", # a line of words
) -> None:
    "Display what a paper prints and ours, cell by cell, and say why printed cells have none of ours."
    expected = load_expected(study.experiment.paper)
    printed = expected.tables[table]
    rows, without = side_by_side(study, table, like, apart)
    metric = "Counts" if printed.unit == "count" else f"{printed.metric}{UNITS[printed.unit]}"
    spread = " ± deviation over seeds" if "±" in rows.to_string() else ""
    words = (f"{metric}{spread}; {len(printed.cells) - len(without)} of {len(printed.cells)} printed cells have "
             f"ours beside them.{f' Without: {lacking(without, expected.without)}.' * bool(len(without))}")
    if rows.empty: # other data than the paper's, or none
        show(f"## {title_of(table)}", f"{words} {note}", means(study[table]), missing(study, table))
        return
    lines, previous = [], ""
    for (test, side), cells in zip(rows.index, rows.to_numpy().tolist()):
        lines.append(["" if test == previous else test, side, *cells])
        previous = test
    show(f"## {title_of(table)}: print, and here", f"{words} {note}".strip(),
         text_table(["", "", *rows.columns], lines, 2))


def show_picture(
    differences: pd.DataFrame, # of `tables.differences`
    label: str,                # what is subtracted from what
) -> None:
    "Display differences with their intervals; nothing where there are none."
    if len(differences):
        show(difference_plot(differences, label), alt=alt_text(differences, label))


def run_table(page: str, results: Results) -> str: # page: `paper/name`; Markdown
    "Tabulate how all runs of a page are made again, and what that takes by their records; at paper scale, estimated."
    rows = []
    reckoning = Reckoning()
    on_page = [experiment for experiment in all_experiments(page.partition("/")[0]) if page_of(experiment) == page]
    for profile in PROFILES:
        experiments = [experiment for experiment in on_page if experiment.profile == profile]
        runs = {run.id: run for experiment in experiments for run in experiment.runs()}
        command = f"`papermill nbs/papers/{page}.ipynb out.ipynb -p profile {profile} -p fresh True"
        command += f"{' -p full True' * any(block.full for experiment in experiments for block in experiment.blocks)}`"
        if profile == "paper":
            if runs:
                minutes = sum(map(reckoning.seconds, runs.values())) / 60
                memory = max(map(reckoning.memory, runs.values())) / 2**30
                took = f"{minutes / 60:,.0f} hours" if minutes > 600 else two_digits(minutes)
                rows.append([command, f"{len(runs)}, estimated{' for a GPU' * bool(memory)}", took, two_digits(memory)])
            continue
        records = {}
        for experiment in experiments:
            records |= results.load(experiment.name, profile).records_by_id
        finished = [record for record in records.values() if record["status"] == "finished"]
        if finished:
            rows.append([command, len(finished), *taken(finished)])
    if not rows:
        return (f"`papermill nbs/papers/{page}.ipynb out.ipynb -p profile planted`: nothing is trained, and it takes "
                "seconds.")
    note = ("Without `fresh` it shows stored records, in seconds; `-p further True` adds all means, comparisons and "
            "replicates.")
    return f"{text_table(['command', 'runs', 'minutes', 'memory, GiB'], rows, 1)}\n\n{note}"


def show_foot(
    page: str, # `paper/name`
    profile: str,
    results: Results,
) -> None:
    "Display which printed settings differ in a way that may change the answer, and how to run the page."
    show("## What differs", key_deviations(page, profile))
    show("## Run it", run_table(page, results))


def show_form(
    results: Results,
    study: Study,
    answer: str, comparisons: pd.DataFrame, note: str, # as `show_answer`
    cells: Mapping[str, Like | None], # printed table -> as `like` of `side_by_side`
    points: pd.DataFrame, label: str, # as `show_picture`
) -> None:
    "Display a page of one study in the one form."
    show_answer(results, [study], answer, comparisons, note)
    for table, like in cells.items():
        show_cells(study, table, like)
    show_picture(points, label)
    show_foot(page_of(study.experiment), study.experiment.profile, results)


def show_further(
    *studies: Study,
) -> None:
    "Display what pages leave out: all means, comparisons with what each rests on, what lacks, and what made the runs."
    for study in studies:
        show(study)
        for table in dict.fromkeys(study.runs.table):
            runs = study[table]
            changes = differences(runs)
            show(f"## {study.experiment.experiment}, {table}", means(runs), intervals(changes), rests_on(runs))
        show(background(study), missing(study), provenance(study))
