"""The one form of a page: answer, estimates, reported numbers beside ours, picture, what differs, and how to run it."""
from collections.abc import Mapping, Sequence

import pandas as pd

from ..costs import reckoned, taken
from ..notebooks import page_of
from .as_printed import key_deviations
from .cells import row_name
from .claims import from_to
from .compare import WORDS, Question, differences, main, words_of_tests
from .execution import NOT_RUN_HERE
from .frame import PROFILES, Results, Study, experiments_of, only
from .plots import IN_POINTS, estimate_alt, estimate_plot, strength_plot
from .printed import ExpectedTable, load_expected
from .report import title_of
from .tables import averages, background, intervals, means, missing
from .tables import provenance, rests_on, show, text_table, with_std


RULES = "[Rules](../studies/decisions.ipynb#the-rules)."
OUTSIDE = "† lies outside our interval."
ALONE = "° covers seeds alone."


def estimates_table(questions: Sequence[Question]) -> str: # Markdown
    "Tabulate what was compared, our estimate, its word, and the reported difference of the same cells."
    rows = [[one.name, one.estimate, one.word, one.reported_text] for one in questions]
    has_reported = any(row[3] for row in rows)
    head = ["", "ours, points", "result", "reported, points"]
    return text_table(head[:3 + has_reported], [row[:3 + has_reported] for row in rows], 1)


def tests_table(questions: Sequence[Question]) -> str: # Markdown
    "Count the tests of each question by their words, and say how far they go."
    rows = []
    for one in questions:
        words = words_of_tests(one.tests)
        rows.append([one.name, *(int((words == word).sum()) for word in WORDS), from_to(one.tests.difference)])
    return text_table(["", *WORDS, "difference, points"], rows, 1)


def show_estimates(
    questions: Sequence[Question],
    note: str = "", # how they are to be read
) -> None:
    "Display estimates, and their tests one by one."
    present = [one for one in questions if len(one.tests)]
    if not present:
        show(NOT_RUN_HERE, note)
        return
    equal = "; ".join(dict.fromkeys(test for one in present for test in one.degenerate))
    notes = [note, f"Both methods score the same there, so it does not count: {equal}." * bool(equal),
             OUTSIDE * any(one.is_outside for one in present),
             ALONE * any(one.mean and one.mean.seeds_alone for one in present), RULES]
    show(estimates_table(questions), " ".join(filter(None, notes)),
         '<details markdown="1"><summary>Tests one by one</summary>\n', tests_table(present), "</details>")


Like = Mapping[str, str | tuple[str, ...]] # method or column, the paper's or ours -> its name on the page, or names
FORM_COLUMNS = ["side", "method", "test", "value", "std", "digits", "why"]


def _printed(name: str, table: ExpectedTable, like: Like) -> pd.DataFrame: # `FORM_COLUMNS`
    "List the cells of a reported table; a name that another reported one would take stays as it is."
    rows = []
    for cell in table.cells:
        names = dict(cell.row)
        base = names.pop("base", "")
        method = row_name(**names)
        kind = BLANK if cell.value is None else QUOTED if cell.quoted else f"{name} {method} {cell.column}"
        rows.append((f"reported: {base}".removesuffix(": "), method, cell.column, cell.value, cell.std,
                     table.decimals, kind))
    frame = pd.DataFrame(rows, columns=FORM_COLUMNS).astype({"value": float, "std": float})
    for column in ("method", "test"):
        free = {old: new for old, new in like.items() if new not in set(frame[column])}
        frame[column] = [free.get(old, old) for old in frame[column]]
    return frame


def _measured(runs: pd.DataFrame, like: Like) -> pd.DataFrame: # runs: of one table; as `_printed`
    "List our means, with standard deviations, as `tables.means` has them, and steps where records say them."
    rows = main(runs)
    rows = rows.assign(**{column: rows[column].map(lambda old: like.get(old, old)) for column in ("method", "test")})
    steps = rows.assign(test=rows.test.str.replace(r"\S+$", "steps", regex=True), value=rows.steps, unit="steps")
    rows = pd.concat([rows, steps.dropna(subset="value")])
    cells = averages(rows)
    return cells.assign(side="ours: " + cells.encoder, why="")[FORM_COLUMNS]


def side_by_side(
    study: Study,
    table: str,               # its name in `experiments/printed/` and in the configuration
    like: Like | None = None,
    all_columns: bool = False, # also the printed columns that have none of ours
) -> tuple[pd.DataFrame, pd.DataFrame]: # test and side down, methods across; the printed cells without one of ours
    "Put what a paper prints beside our means, in the rows and columns that both have; tests of ours alone come last."
    like = like or {}
    cells = _printed(table, load_expected(study.experiment.paper).tables[table], like)
    printed = cells.explode("method")
    ours = _measured(study[table], like)
    is_beside = pd.MultiIndex.from_frame(printed[["method", "test"]]).isin(
        pd.MultiIndex.from_frame(ours[["method", "test"]])) & printed.value.notna()
    visible = printed[printed.method.isin(ours.method) if all_columns else is_beside]
    ours = ours[ours.method.isin(visible.method)]
    rows = pd.concat([visible, ours[ours.test.isin(visible.test)], ours[~ours.test.isin(printed.test)]])
    texts = [with_std(*cell) for cell in rows[["value", "std", "digits"]].itertuples(index=False)]
    wide = rows.assign(text=texts).set_index(["test", "side", "method"]).text.unstack("method", sort=False).fillna("—")
    for cell in only(study.cells, table=table, status="failed").itertuples():
        place = like.get(cell.column, cell.column), f"ours: {cell.encoder}"
        method = like.get(cell.method, cell.method)
        if wide.get(method, {}).get(place) == "—":
            wide.loc[place, method] = "failed"
    order = pd.MultiIndex.from_product([rows.test.unique(), rows.side.unique()]) # as printed
    wide = wide.reindex(order[order.isin(wide.index)], columns=visible.method.unique())
    return wide, cells[~is_beside.groupby(level=0).any()]


BLANK, QUOTED, UNEXPLAINED = "left blank", "quoted from earlier work", "that no run of ours makes"


def blank_reasons(
    cells: pd.DataFrame, # printed cells, of `side_by_side`
    reasons: Mapping[str, str], # what a cell is of -> why no run of ours makes it
) -> str: # `56 with SuperUser, whose pairs have no public address`
    "Say why printed cells have none of ours beside them, and name the rows that the paper quotes."
    blocks = {}
    for row in cells.itertuples():
        block = row.why
        if block not in (BLANK, QUOTED):
            fits = [reason for name, reason in reasons.items() if name.casefold() in block.casefold()]
            block = fits[0] if fits else UNEXPLAINED
        blocks.setdefault(block, []).append(row.method)
    names = ", ".join(dict.fromkeys(blocks.get(QUOTED, ())))
    return "; ".join(f"{len(methods)} {block}{f' ({names})' * (block == QUOTED)}" for block, methods in blocks.items())


CAPTION_UNITS = {"percent": " in percent, means", "fraction": " as fractions, means", "count": ""}


def show_cells(
    study: Study, table: str, like: Like | None = None, all_columns: bool = False, # as `side_by_side`
    note: str = "", # a line of words
) -> None:
    "Display what a paper reports and ours, cell by cell, and say why reported cells have none of ours."
    expected = load_expected(study.experiment.paper)
    printed = expected.tables[table]
    rows, without = side_by_side(study, table, like, all_columns)
    metric = "Counts" if printed.unit == "count" else f"{printed.metric}{CAPTION_UNITS[printed.unit]}"
    spread = " ± deviation over seeds" if "±" in rows.to_string() else ""
    words = (f"{metric}{spread}; {len(printed.cells) - len(without)} of {len(printed.cells)} reported cells have "
             f"ours beside them.{f' Without: {blank_reasons(without, expected.without)}.' * bool(len(without))}")
    if rows.empty: # other data than the paper's, or none
        show(f"## {title_of(table)}", f"{words} {note}", means(study[table]), missing(study, table))
        return
    lines, previous = [], ""
    for (test, side), cells in zip(rows.index, rows.to_numpy().tolist()):
        lines.append(["" if test == previous else test, side, *cells])
        previous = test
    show(f"## {title_of(table)}: reported, and ours", f"{words} {note}".strip(),
         text_table(["", "", *rows.columns], lines, 2))


def show_picture(
    questions: Sequence[Question],
    label: str = IN_POINTS,
) -> None:
    "Display the estimates beside their tests and the reported numbers; nothing where there are none."
    present = [one for one in questions if one.mean]
    if present:
        show(estimate_plot(present, label), alt=estimate_alt(present))


def show_along(
    changes: pd.DataFrame, # of `compare.differences`, of tests with a number in their names
    label: str,
    places: str,           # what the numbers are
) -> None:
    "Display differences from plain fine-tuning along the numbers of their tests."
    rows = changes[changes.method != "Base"]
    rows = rows.assign(panel=rows.encoder, test="", value=rows.difference,
                       strength=rows.test.str.extract(r"(\d+)", expand=False).astype(float))
    show(strength_plot(rows, label=label, axis_label=places, is_log=False),
         alt=f"{label}, by {places}, with 95% intervals")


def run_table(page: str, results: Results) -> str: # page: `paper/name`; Markdown
    "Tabulate how all runs of a page are made again, and what that takes by their records; at paper scale, estimated."
    rows = []
    on_page = experiments_of(page)
    for profile in PROFILES:
        experiments = [experiment for experiment in on_page if experiment.profile == profile]
        runs = {run.id: run for experiment in experiments for run in experiment.runs()}
        command = f"`debias-nb run {page} --profile {profile} --fresh"
        command += f"{' --full' * any(block.full for experiment in experiments for block in experiment.blocks)}`"
        if profile == "paper":
            if runs:
                took, memory = reckoned(runs.values())
                rows.append([command, f"{len(runs)}, estimated{' for a GPU' * (memory != '0')}", took, memory])
            continue
        records = {}
        for experiment in experiments:
            records |= results.load(experiment.name, profile).records_by_id
        finished = [record for record in records.values() if record["status"] == "finished"]
        if finished:
            rows.append([command, len(finished), *taken(finished)])
    if not rows:
        return f"`debias-nb report {page}`: nothing is trained, and it takes seconds."
    return text_table(["command", "runs", "time", "memory, GiB"], rows, 1)


def show_table(
    studies: Sequence[Study],       # that the page shows
    answer: str,                    # a sentence or two, as `answers.answer`
    questions: Sequence[Question],
    note: str = "",                 # how they are to be read
    cells: Mapping[str, Like | None] | None = None, # reported table -> as `like` of `side_by_side`; of the first study
    all_columns: Sequence[str] = (), # reported tables whose columns without ours are shown, too
) -> None:
    "Display the page of a table: its answer, its estimates and their picture, and its cells."
    show(f"**Answer.** {answer}")
    show_estimates(questions, note)
    show_picture(questions)
    for table, like in (cells or {}).items():
        study = next((one for one in studies if table in one), None)
        if study:
            show_cells(study, table, like, table in all_columns)
        else:
            show(f"## {title_of(table)}", NOT_RUN_HERE)


def show_foot(results: Results, study: Study) -> None:
    "Display which reported settings differ in a way that may change the answer, and how to run the page."
    page = page_of(study.experiment)
    show("## What differs", key_deviations(page, study.experiment.profile))
    show("## Run it", run_table(page, results))


def show_further(study: Study) -> None:
    "Display what pages leave out: all means, comparisons with what each rests on, what lacks, and what made the runs."
    show(study)
    for table in dict.fromkeys(study.runs.table):
        runs = study[table]
        show(f"## {study.experiment.experiment}, {table}", means(runs), intervals(differences(runs)), rests_on(runs))
    show(background(study), missing(study), provenance(study))
