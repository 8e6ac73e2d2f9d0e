"Options of the commands: types, help and ranges, and how they are read before PyTorch is imported."
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from ..checks import ConfigError, check_known, output_folder
from .ranges import RANGES
from .titles import TITLES


def number(name: str, help: str): # name: of `RANGES`
    "Return the option of a number, with its range in the help."
    return Option(metavar=f"<{RANGES[name]}>", help=help)


def check_metric_name(metric: str | None) -> None:
    "Check that a metric is one of a form. Raise `ConfigError`; whether a test has it is checked when it is read."
    if metric is not None:
        check_known("metric", metric, [*TITLES], ConfigError)


def texts_of(text: str) -> str: # a file, or `general`
    "Check that a file of texts is there. Raise `DataError`."
    from ..data.sentences import GENERAL_TEXTS
    from ..data.texts import texts_file
    if text != GENERAL_TEXTS:
        texts_file(text)
    return text


def two_prompts(text: str | None) -> tuple[str, str] | None:
    "Read LEFT,RIGHT. Raise `ConfigError`."
    if text is None:
        return None
    if "," not in text:
        raise ConfigError(f"--prompts takes LEFT,RIGHT, got {text!r}; a side without a prompt is left empty")
    left, right = text.split(",", 1)
    return left, right


def _named_values(option: str, arguments: list[str], form: str, needs_name: bool = True) -> dict[str, str]:
    "Return the values of `NAME=VALUE` by name, of `VALUE` by an empty one. Raises `ConfigError` naming the option."
    values = {}
    for text in arguments:
        name, sign, value = text.partition("=") if "=" in text else ("", "", text)
        is_wrong = not value or not name and (sign or needs_name)
        if is_wrong or name in values:
            raise ConfigError(f"{option} takes {form}, each once, got {text!r}")
        values[name] = value
    return values


def named_tests(arguments: list[str]) -> dict[str, str]: # of `NAME=PATH`
    "Return existing files and folders by name. Raises `ConfigError` naming the option, and `DataError`."
    from ..data.tables import check_file
    tests = _named_values("--test", arguments, "NAME=PATH")
    for path in tests.values():
        check_file(path)
    return tests


def columns_by_name(arguments: list[str]) -> dict[str | None, tuple[str, ...]]: # of `a,b,c` or `NAME=a,b,c`
    "Return columns by the name of a file, and by None those of all others. Raises `ConfigError`."
    form = "names separated by commas, or NAME=names"
    by_name = {}
    for name, names in _named_values("--columns", arguments, form, needs_name=False).items():
        columns = tuple(names.split(","))
        if len(columns) < 2 or not all(map(str.strip, columns)):
            raise ConfigError(f"--columns takes {form}, got {names!r}")
        by_name[name or None] = columns
    return by_name


Base = Annotated[str, Option(
    help="Model before fine-tuning: a folder, a name that `debias-nb data` lists, or a hub id (name@commit).")]
Tuned = Annotated[str, Option(help="Model after fine-tuning.")]
Tests = Annotated[list[str], Option(
    "--test", metavar="NAME=FILE", help="A table (.csv, .tsv, .jsonl, .parquet) or a folder of `datasets`: two texts and "
                                        "a label (label, labels, score or scores); anchor, positive and perhaps "
                                        "negatives; the order of columns counts. Or a folder with corpus, queries and "
                                        "qrels, as BEIR has it. Repeatable.")]
Train = Annotated[str | None, Option(help="What the model was trained on, in any form of a test.")]
ColumnNames = Annotated[list[str] | None, Option(
    metavar="A,B[,LABEL]", help="Columns that are read, where others stand beside them; of one file NAME=A,B,LABEL. "
                                "Repeatable.")]
Match = Annotated[str | None, Option(metavar="WORD", help="Label of a match, where labels are not 0 and 1.")]
MatchFrom = Annotated[float | None, Option(metavar="GRADE", help="Lowest grade of a match, where labels are grades.")]
Metric = Annotated[str | None, Option(
    help="Metric that decides, on tests that have it. By default auc05 of labeled pairs, accuracy of triplets, ndcg10 "
         "of retrieval.")]
Margin = Annotated[float, number("margin", "Smallest change that matters, in points.")]
LikeTraining = Annotated[str, Option(metavar="NAME", help="Name of the test in distribution. The others are new data.")]
Threshold = Annotated[float | None, number(
    "threshold", "Score from which you call a pair a match. By default the score with 5% false positives in the base.")]
Sample = Annotated[int | None, number("sample", "Largest number of pairs or queries of a test. By default all.")]
Prompts = Annotated[str | None, Option(
    metavar="LEFT,RIGHT", help="Prompts before left and right texts, or names of prompts. By default the model's own.")]
Seed = Annotated[int, number("seed", "Random seed of samples and bootstrap.")]
Out = Annotated[Path | None, Option(parser=output_folder, help="Folder for the page and report.json.")]
FailOn = Annotated[Literal["worse", "unsure"] | None, Option(
    help="Exit with status 1 if a test got worse. With unsure, also if a test may have got worse.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Overwrite an earlier page.")]
