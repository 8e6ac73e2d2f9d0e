"""The one form of a page of a printed table: answer, print beside ours, picture, what differs, and how to run it."""
import re
from collections.abc import Mapping, Sequence

import pandas as pd

from ..costs import Reckoning, taken, two_digits
from .as_printed import PRINTED_TABLE, key_deviations
from .cells import row_name
from .expected import ExpectedTable, load_expected
from .frame import PROFILES, Results, Study, all_experiments
from .plots import difference_plot
from .report import page_of
from .tables import DIGITS, alt_text, background, differences, intervals, main, means, missing, provenance, rests_on
from .tables import show
from .tables import text_table
from .verdicts import resting_on


MOST_WORDS = 600 # of a page, for each printed table or figure that it is about


def words_seen(page: str) -> int: # page: Markdown
    "Count the words and numbers that a reader sees, folds and tables included, addresses, tags and pictures not."
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)|<[^>]+>", " ", page)
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


def _printed(table: ExpectedTable) -> pd.DataFrame: # side, method, test, value, digits
    "List the cells of a printed table."
    rows = []
    for cell in table.cells:
        names = dict(cell.row)
        base = names.pop("base", "")
        rows.append((f"the paper: {base}".removesuffix(": "), row_name(**names), cell.column, cell.value,
                     table.decimals))
    return pd.DataFrame(rows, columns=["side", "method", "test", "value", "digits"]).astype({"value": float})


def _measured(runs: pd.DataFrame) -> pd.DataFrame: # runs: of one table; as `_printed`
    "List the runs of a table as cells of ours, and how many steps they took, where records say so."
    rows = main(runs)
    rows = rows.assign(side="here: " + rows.encoder, digits=rows.unit.map(DIGITS))
    steps = rows.assign(test=rows.test.str.rpartition(" ")[0] + " steps", value=rows.steps, digits=0)
    return pd.concat([rows, steps.dropna(subset="value")])[["side", "method", "test", "value", "digits"]]


def side_by_side(
    study: Study,
    table: str,                            # its name in `experiments/printed/` and in the configuration
    # method or column, the paper's or ours -> its name here, or names; several of one name are averaged
    like: Mapping[str, str | tuple[str, ...]] | None = None,
) -> tuple[pd.DataFrame, int]: # test and side down, methods across; how many printed cells stand there
    "Put what a paper prints beside our means, in the rows and columns that both have; tests of ours alone come last."
    tables = [_printed(load_expected(study.experiment.paper).tables[table]), _measured(study[table])]
    names = like or {}
    for rows in tables:
        rows[["method", "test"]] = rows[["method", "test"]].map(lambda name: names.get(name, name))
    tables = [rows.reset_index(names="cell").explode("method") for rows in tables]
    places = [rows[["test", "method"]].drop_duplicates() for rows in tables]
    printed, ours = (rows.merge(cells_there) for rows, cells_there in zip(tables, reversed(places)))
    is_alone = ~tables[1].test.isin(tables[0].test) & tables[1].method.isin(printed.method)
    rows = pd.concat([printed, ours, tables[1][is_alone]])
    cells = rows.groupby(["test", "method", "side"], sort=False).agg({"value": "mean", "digits": "first"})
    texts = [f"{value:.{digits:.0f}f}" for value, digits in cells.itertuples(index=False)]
    wide = pd.Series(texts, cells.index, dtype=object).replace("nan", "—").unstack("method", sort=False).fillna("—")
    for cell in study.cells:
        place = names.get(cell.column, cell.column), f"here: {cell.encoder}"
        method = names.get(cell.method, cell.method)
        if (cell.table, cell.status) == (table, "failed") and place in wide.index and wide.get(method, {}).get(
                place) == "—":
            wide.loc[place, method] = "failed"
    order = pd.MultiIndex.from_product([rows.test.unique(), rows.side.unique()]) # as printed
    return wide.reindex(order[order.isin(wide.index)], columns=printed.method.unique()), printed.cell.nunique()


UNITS = {"percent": " in percent, means", "fraction": " as fractions, means", "count": ""}


def title_of(part: str) -> str: # part: `table3`
    return re.sub(r"(\d)", r" \1", part, count=1).capitalize()


def show_cells(
    study: Study, table: str, like: Mapping[str, str] | None = None, # as `side_by_side`
    note: str = "", # a line of words
) -> None:
    "Display what a paper prints and ours, cell by cell, and say how many printed cells have none of ours."
    printed = load_expected(study.experiment.paper).tables[table]
    rows, count = side_by_side(study, table, like)
    metric = "Counts" if printed.unit == "count" else f"{printed.metric}{UNITS[printed.unit]}"
    if rows.empty: # other data than the paper's, or none
        words = f"{metric}: none of its {len(printed.cells)} cells has one of ours beside it."
        show(f"## {title_of(table)}", f"{words} {note}", means(study[table]), missing(study, table))
        return
    lines, previous = [], ""
    for (test, side), cells in zip(rows.index, rows.to_numpy().tolist()):
        lines.append(["" if test == previous else test, side, *cells])
        previous = test
    words = f"{metric}; {count} of the {len(printed.cells)} printed cells have one of ours beside them."
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
    cells: Mapping[str, Mapping[str, str] | None], # printed table -> as `like` of `side_by_side`
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
