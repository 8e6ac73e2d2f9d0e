"""Your own tests: labeled pairs, queries with candidates, or queries with a corpus.

Any source becomes one data frame, and the roles of its columns tell the form."""
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import pandas as pd

from ...checks import on_one_line, quoted
from ...files import fingerprint, sha256_file
from .forms import FORMS, Options, Rows, arguments_by_file, columns_of, describe_unused, options_from, roles
from .judgments import read_dicts, read_folder, read_splits
from ...data.pairs import fold
from ...data.registry import DataError
from ...data.tables import check_file, in_memory, is_retrieval, is_text
from ...data.tables import path_and_part, read_table, rows_where, spread
from ...bars import with_bar


MATCHING = ("match", "match_from", "other_to") # what a match is
READING = ("columns", "group", *MATCHING, "scores", "where") # how a file is read


@dataclass(frozen=True, eq=False)
class PairFile:
    "Labeled pairs, candidates of queries or relevant texts, and where they come from."
    name: str           # what messages and the page call them
    frame: pd.DataFrame # columns `left`, `right`, `label`, `line`, and `group` where one was asked for
    sha256: str         # of the file, or the files of a folder; of the rows where they came as a data frame
    columns: tuple[str, ...] = ("left", "right", "label") # what the file calls its columns; none of a folder
    path: str | None = None # as it was given; None for a data frame
    group: str | None = None # what the file calls the column of groups
    note: str = "" # how it was read, and what is unusual in how it is written
    form: str = "pairs" # one of `FORMS`; candidates have `query` too, retrieval `query`, `document` and `itself`
    corpus: list[str] | None = None # of retrieval: every text that is searched
    left_out: dict[str, int] = field(default_factory=dict) # what was left out, in words -> how many
    ids: pd.Index | None = None # of the texts of a corpus, where they have some; those of queries are `query_id`
    # columns of the scores of a base and of a tuned model, `base` and `tuned` of the frame
    scores: tuple[str, str] | None = None
    reading: dict = field(default_factory=dict) # what `read_pairs_file` was asked for: of `READING` what was given

    def __len__(self):
        return len(self.frame)

    @property
    def matching(self) -> dict: # of match, match_from, other_to what was given
        return {name: value for name, value in self.reading.items() if name in MATCHING}

    @property
    def left(self) -> list[str]:
        return self.frame.left.tolist()

    @property
    def right(self) -> list[str]:
        return self.frame.right.tolist()

    @property
    def labels(self) -> np.ndarray: # (rows,) 0 or 1; of retrieval the grade, 1 or more
        return self.frame.label.to_numpy()

    @cached_property
    def folded(self) -> tuple[list[str], list[str]]: # of each row left and right; case, spaces and punctuation apart
        keys = {text: fold(text, True) for text in {*self.left, *self.right}} # texts stand in several pairs
        return tuple([keys[text] for text in texts] for texts in (self.left, self.right))

    @cached_property
    def rows_sha256(self) -> str: # 64 hex digits
        "sha256 of what was read: the same file read by other columns has another one."
        content = [self.left, self.right, self.labels.tolist()]
        if "group" in self.frame:
            content.append(self.frame.group.tolist())
        if self.form != "pairs":
            places = [self.frame[name].tolist() for name in ("query", "document", "itself") if name in self.frame]
            content += [self.form, *places, self.corpus]
        return fingerprint(content)


def unjudged_file(
    queries: list[str], corpus: list[str],
    itself: np.ndarray, # where a query itself stands in the corpus, or −1
) -> PairFile:
    "Make a file of queries and a corpus to search in, with no text that is known to be relevant."
    frame = pd.DataFrame({"query": range(len(queries)), "left": queries, "document": 0, "label": 1, "itself": itself})
    return PairFile("texts", frame, "", form="retrieval", corpus=corpus)


# ---------------------------------------------------------------- any of them

class Tabular(Protocol):
    "A table of `datasets`, Polars or Arrow."
    def to_pandas(self) -> object: ...


Source: TypeAlias = str | Path | pd.DataFrame | Tabular | list[dict] | dict | PairFile # as `read_pairs_file` takes it


@pd.option_context("mode.string_storage", "python") # which takes half of a character, so that its line can be told
def read_pairs_file(
    source: Source, columns: tuple[str, ...] | None = None, group: str | None = None, name: str | None = None, *,
    form: str | None = None, match: str | int | None = None, match_from: float | None = None,
    other_to: float | None = None,
    scores: tuple[str, str] | None = None, where: str | None = None,
) -> PairFile:
    """Read a test or training data: labeled pairs, candidates of queries, or retrieval.

    The names of the columns tell which one it is:

    - labeled pairs: two texts and a label, which is told by its name (`label`, `labels`, `score`, `is_duplicate`, ...);
      texts by theirs (`left, right`, `question, answer`, ...), also by their beginning or ending (`left_name,
      right_name`, `Title 1, Title 2`, `name_a, name_b`), else by their order, where there are two; case, blanks and
      signs do not count;
    - candidates: `anchor, positive, negative` (and `negative_1`, ...), also with lists; `query, pos, neg`; or `query,
      positive_passages, negative_passages`;
    - retrieval: a folder with `corpus`, `queries` and `qrels`, as BEIR and MTEB write them (`FOLDER:dev` for another
      split than `test`); `queries`, `corpus` and `relevant_docs` in one file of JSON or in a dict; or `anchor,
      positive` alone, where all positives are searched; a column of numbers next to them may hold labels, and is
      refused unless `columns` are named. Up to one judgment in a hundred may name what is not there: these are left out
      and counted.

    A folder may also hold tables by split, as `datasets` writes them (`FOLDER:train` for another one than `test`).
    Columns that are not used are listed in the note.

    Parameters
    ----------
    source : str, Path, table, dict or PairFile
        A folder, or a file that ends in .csv, .tsv, .jsonl, .ndjson, .json, .parquet, .arrow or .txt, packed with gzip
        or not, in UTF-8 and with a header, whose cells may also stand between semicolons, tabs or vertical bars. Or a
        data frame, a table of `datasets`, Polars or Arrow, a list of dicts, a dict of lists, or a dict with queries,
        corpus and relevant_docs. A `PairFile` is given back as it is.
    columns : tuple of str, optional
        What the file calls its columns, where the names do not tell: left text, right text and label; anchor, positive
        and negatives; or two texts, next to a label that is told by its name, else anchor and positive. A label is 0 or
        1, also written 1.00 or true.
    group : str, optional
        A column that says what kind of pair each one is; of a folder a column of its queries.
    name : str, optional
        What messages call a table; a file is called by its path.
    form : {"pairs", "candidates", "retrieval"}, optional
        The form that is expected; another one is an error.
    match : str or int, optional
        The label of a match, where labels are words, or -1 and 1; all other labels say that a pair is none.
    match_from : float, optional
        The grade from which on a pair is a match, or a text relevant.
    other_to : float, optional
        The grade up to which a pair is no match; pairs between are left out and counted. Default: all below
        `match_from`.
    scores : tuple of two str, optional
        Columns of labeled pairs with the scores of a base and of a tuned model.
    where : str, optional
        `COLUMN=VALUE` of the rows of a table that are read; `FILE:COLUMN=VALUE` as source says the same.

    Returns
    -------
    PairFile
        The rows, with the line of the file where each begins.

    Raises
    ------
    DataError
        Naming file, line and column of what is no text or no label; where a column or a class is missing, or columns
        can be read in several ways; where many judgments name what is not there, or many queries have no relevant text.

    Examples
    --------
    >>> import pandas as pd
    >>> from debias_nb import read_pairs_file
    >>> rows = pd.DataFrame({"left": ["an egg", "a mole"], "right": ["eggs", "planes"], "label": [1, 0]})
    >>> file = read_pairs_file(rows)
    >>> len(file), file.labels.tolist()
    (2, [1, 0])
    >>> file = read_pairs_file([{"anchor": "an egg", "positive": "eggs", "negative": "planes"}])
    >>> file.form, file.frame["query"].tolist(), file.labels.tolist()
    ('candidates', [0, 0], [1, 0])
    """
    if isinstance(source, PairFile):
        return source
    options = options_from(columns, group, form, match, match_from, other_to, scores, where)
    is_path = isinstance(source, (str, os.PathLike))
    file = _read_file(str(source), options) if is_path else _read_table(source, name, options)
    values = {option: getattr(options, option) for option in READING}
    return replace(file, reading={option: value for option, value in values.items() if value not in (None, ())})


def _read_table(source, name: str | None, options: Options) -> PairFile:
    "Read what is in memory."
    title = name or "pairs"
    table = in_memory(title, source)
    rows = _rows(title, table, options)
    content = [rows.frame.drop(columns="query_id", errors="ignore").to_numpy().tolist(), rows.texts]
    return _pair_file(rows, name or ("data frame" if rows.columns else "queries"), None, fingerprint(content), options)


def _read_file(path: str, options: Options) -> PairFile:
    "Read a file or a folder."
    check_file(path)
    place, part = path_and_part(path)
    if part and "=" in part:
        options, part = replace(options, where=part), None
    if place.is_dir():
        rows = _of_folder(place, path, part, options)
        sha256 = fingerprint({file.relative_to(place).as_posix(): sha256_file(file) for file in rows.files})
        return _pair_file(rows, place.name, path, sha256, options)
    table = read_table(place, part)
    name, sha256 = Path(place.name.removesuffix(".gz")).stem, sha256_file(place)
    return _pair_file(_rows(path, table, options), name, path, sha256, options)


def check_names(option: str, files) -> None:
    "Check that files have names that can be printed. Raise `DataError`."
    if not isinstance(files, dict):
        raise DataError(f"{option}: files by name are expected, e.g. {option}={{'new': 'new.csv'}}, got "
                        f"{type(files).__name__}")
    for name in files:
        if not is_text(name) or name != on_one_line(name):
            raise DataError(f"{option}: a name that can be printed is expected, got {quoted(name)}")


def named_sources(train: Source | None, tests) -> dict[str, Source]: # `train` first if there is one
    "Return what is read by name. Raise `DataError` for no test, and for names that are none."
    check_names("tests", tests)
    if not tests:
        raise DataError("no test: at least one is needed, e.g. tests={'new': 'new.csv'}")
    if "train" in tests:
        raise DataError("a test is called 'train', which is the name of the training file")
    return tests if train is None else {"train": train} | tests


def read_named_files(
    train: Source | None,
    tests: dict[str, Source],
    # as of `arguments_by_file`, and what follows
    columns: tuple[str, ...] | dict[str | None, tuple[str, ...]] | None = None,
    has_scores: bool = False,
    progress: bool = False,
    group: str | None = None, where: str | None = None,
    **match_rules,            # match, match_from, other_to
) -> dict[str, PairFile]: # `train` first if there is one
    "Read files with one set of options, as a command has it. Raise as `read_pairs_file` and `named_sources`."
    sources = named_sources(train, tests)
    arguments = arguments_by_file([*sources], columns, has_scores, group, where)
    files = {}
    for name, source in with_bar(sources.items(), "reading", progress):
        file = read_pairs_file(source, name=name, **arguments[name], **match_rules)
        files[name] = replace(file, name=name) if file.path is None else file # of a table that was read without a name
    return files


def reading_options(
    files: dict[str, PairFile], # as of `read_named_files`
) -> dict | None: # None: a command has no options that say it
    "Return the options of a command that reads files as they were read."
    columns = {name: (*file.reading.get("columns", ()), *file.reading.get("scores", ()))
               for name, file in files.items()}
    options = {"columns": {name: names for name, names in columns.items() if names}}
    if len({*columns.values()}) == 1:
        options = {"columns": next(iter(columns.values())) or None}
    for option in ("group", "where", *MATCHING):
        values = [file.reading.get(option) for name, file in files.items() if option in MATCHING or name != "train"]
        if any(value != values[0] for value in values):
            return None
        options[option] = values[0] if values else None
    return options


def _of_folder(folder: Path, name: str, split: str | None, options: Options) -> Rows:
    "Read a folder of queries, or of tables by split."
    table = read_splits(folder, split)
    if table is None:
        options.check_form(name, None)
        return read_folder(folder, split, options)
    return replace(_rows(name, table, options), files=tuple(table.attrs["files"]))


def _rows(name: str, table: pd.DataFrame | dict, options: Options) -> Rows:
    "Read the rows of a table, whose columns tell its form, or of queries with a corpus."
    if is_retrieval(table):
        options.check_form(name, None)
        return read_dicts(name, table, options)
    if table.empty:
        raise DataError(f"{name}: no pairs")
    notes = [table.attrs.get("note")]
    if options.where is not None:
        rows = rows_where(name, table, options.where)
        notes.append(f"{len(rows):,} of {len(table):,} rows, where {options.where}")
        table = rows
    if not {*options.columns} <= {*table} or not options.columns and not roles([*table]):
        table = spread(table)
        name += table.attrs.get("spread", "") # whose names the file does not have
    columns = columns_of(name, table, options)
    options.check_form(name, columns)
    if columns.form != "pairs" or not options.columns and columns.names != ("left", "right", "label"):
        notes.append(f"read as {columns.description}")
    notes.append(describe_unused(table, columns, options))
    rows = FORMS[columns.form].read(name, table, columns, options)
    return replace(rows, note="; ".join(filter(None, notes)), columns=columns)


def _pair_file(rows: Rows, name: str, path: str | None, sha256: str, options: Options) -> PairFile:
    form, columns = (rows.columns.form, rows.columns.names) if rows.columns else ("retrieval", ())
    note = "; ".join(filter(None, [options.describe(rows), rows.note]))
    left_out = {reason: int(count) for reason, count in rows.left_out.items() if count}
    ids = rows.corpus.index if "query_id" in rows.frame else None
    return PairFile(
        name, rows.frame, sha256, columns, path, options.group, note, form, rows.texts, left_out, ids,
        options.scores or None)
