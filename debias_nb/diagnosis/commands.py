"""Commands for your own pairs: one for each question.

A wrong option, file or header is told before PyTorch is imported, which takes seconds."""
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from typer import Exit, Option

from ..checks import LARGEST_SEED, ConfigError, check_known, check_whole
from ..commands.terminal import OWN_PAIRS_PANEL, echo, interruptible
from ..settings import OfLabels, OfMatches
from ..bars import is_bar_shown
from .options import Base, ColumnNames, FailOn, LikeTraining, Margin, Match, MatchFrom, Metric, Out, Overwrite
from .options import Prompts, Sample, Seed, Tests, Threshold, Train, Tuned, Validation
from .options import check_metric_name, columns_by_name, folder, named_tests, number, texts_of, two_prompts
from .ranges import check_numbers
from .targets import COMPARISON, DIAGNOSIS, check_target_folder, check_targets, write_target

if TYPE_CHECKING:
    from .pairs import PairFile

app = typer.Typer()


VALIDATION = "validation " # as of `pairs`


def _read_files(
    train: str | None, tests: list[str], columns: list[str] | None, validation: list[str] | None = None, **matching,
) -> "dict[str, PairFile]": # `train` first if there is one
    "Read the files of a command. Raise `ConfigError` and `DataError`."
    from ..data.tables import check_file
    paths = named_tests(tests)
    paths |= {VALIDATION + name: path for name, path in named_tests(validation or [], "--validation").items()}
    if train is not None:
        check_file(train)
    by_name = columns_by_name(columns or [])
    from .pairs import read_named_files
    return read_named_files(train, paths, by_name, is_bar_shown(None), **matching)


def _answer(result, out: Path | None) -> None: # result: a `Diagnosis`, `AllClear` or `Comparison`
    "Print the answer, and write its files also if nobody reads it to its end."
    pages = result.files() if out else {}
    try:
        echo(repr(result))
    finally:
        for name, text in pages.items():
            out.mkdir(parents=True, exist_ok=True)
            write_target(out / name, text)
    for name in pages:
        echo(f"written: {out / name}")


def _check_free(out: Path | None, files, overwrite: bool) -> None: # files: names
    "Check that the files of the answer can be written, and that none would be written over."
    if out is not None:
        check_target_folder(out)
        check_targets([out / name for name in files if out.is_dir()], overwrite)


@app.command(rich_help_panel=OWN_PAIRS_PANEL)
def diagnose(
    base: Base, tuned: Tuned, test: Tests, train: Train = None,
    columns: ColumnNames = None, match: Match = None, match_from: MatchFrom = None,
    metric: Metric = None, margin: Margin = 1., like: LikeTraining = "like", threshold: Threshold = None,
    prompts: Prompts = None, sample: Sample = None, seed: Seed = 0,
    out: Out = None, fail_on: FailOn = None, overwrite: Overwrite = False,
):
    "Report whether, where and why fine-tuning made a model worse."
    check_numbers(seed=seed, sample=sample, margin=margin, threshold=threshold)
    check_metric_name(metric)
    both_prompts = two_prompts(prompts)
    _check_free(out, DIAGNOSIS, overwrite)
    files = _read_files(train, test, columns, match=match, match_from=match_from)
    from . import diagnose as diagnosing
    diagnosis = diagnosing.diagnose(
        base, tuned, files.pop("train", None), files, metric=metric, margin=margin, like=like, threshold=threshold,
        prompts=both_prompts, sample=sample, seed=seed)
    _answer(diagnosis, out)
    failures = diagnosis.failing(fail_on) if fail_on else []
    if failures:
        echo(f"--fail-on {fail_on}: {', '.join(failures)}")
    echo(diagnosis.decision.verdict()) # what a monitor reads comes last
    if failures:
        raise Exit(1)


@app.command(rich_help_panel=OWN_PAIRS_PANEL)
def demo(
    out: Out = Path("demo"),
    overwrite: Overwrite = False,
):
    "Diagnose a small encoder that took a planted shortcut: no data, no download."
    _check_free(out, DIAGNOSIS, overwrite)
    from . import demo as demonstrating
    diagnosis = demonstrating.demo()
    _answer(diagnosis, out)
    echo(diagnosis.decision.verdict())


@app.command(rich_help_panel=OWN_PAIRS_PANEL)
def compare(
    base: Base,
    train: Annotated[str, Option(help="What to train on: labeled pairs, or matches with or without negatives.")],
    test: Tests,
    methods: Annotated[str | None, Option(
        help="Methods with commas between them, such as base,plain,outreg:1. "
             "mymodule.Name is a loss or regularizer of your own. By default "
             "base,plain,wise-ft,outreg,outreg-texts,itvreg.")] = None,
    validation: Validation = None,
    texts: Annotated[str | None, Option(
        help="Unlabeled texts of the kind that the encoder will meet, none of them from the tests. A file has one per "
             "line, or is named with a column, as in new.csv:question; general stands for general texts. Methods such "
             "as outreg-texts keep the encoder near its base on them.")] = None,
    columns: ColumnNames = None, match: Match = None, match_from: MatchFrom = None,
    seeds: Annotated[int, number(
        "seeds", "Number of training runs of each method. With 2 or 3 only large differences are found.")] = 3,
    seed: Annotated[int, number("seed", "First seed. The last seed must be below 2**32.")] = 0,
    learning_rate: Annotated[float | None, number(
        "learning_rate", "Learning rate. By default one that suits the kind of encoder.")] = None,
    epochs: Annotated[float | None, number("epochs", "Passes over the training data. Fractions are allowed.")] = None,
    batch_size: Annotated[int | None, number("batch_size", "Number of pairs in a batch.")] = None,
    loss: Annotated[str | None, Option(
        help="Loss of sentence-transformers. By default CosineSimilarityLoss; without labels "
             "MultipleNegativesRankingLoss, which trains on matches only.")] = None,
    redraw: Annotated[float | None, number(
        "redraw", "Fraction of the pairs that a seed trains on; each seed draws its own. Intervals then say what other "
                  "pairs would change.")] = None,
    metric: Metric = None, margin: Margin = 1., like: LikeTraining = "like", prompts: Prompts = None,
    sample: Sample = None,
    kind: Annotated[str | None, Option(
        help="Kind of the training pairs: sentences or offers. If new data is of the other kind: sentences:offers or "
             "offers:sentences.")] = None,
    workers: Annotated[int | None, number(
        "workers", "Number of trainings at a time. By default one on each core, or one on each GPU.")] = None,
    out: Annotated[Path, Option(
        parser=folder, help="Folder for trials, tables and page. Finished trials in it are used again: the same "
                            "command goes on where it was stopped.",
    )] = Path("comparison"),
    overwrite: Overwrite = False,
):
    "Train each method on your pairs and report which differences are significant."
    check_numbers(
        seeds=seeds, seed=seed, sample=sample, margin=margin, workers=workers, learning_rate=learning_rate,
        epochs=epochs, batch_size=batch_size,
        redraw=redraw)
    check_whole("seed", seed, 0, LARGEST_SEED + 1 - seeds)
    check_metric_name(metric)
    check_known("loss", loss or "CosineSimilarityLoss", get_args(OfLabels) + get_args(OfMatches), ConfigError)
    both_prompts = two_prompts(prompts)
    new_texts = texts and texts_of(texts)
    _check_free(out, COMPARISON, overwrite)
    files = _read_files(train, test, columns, validation, match=match, match_from=match_from)
    from . import compare as comparing
    training = files.pop("train")
    held = {name.removeprefix(VALIDATION): file for name, file in files.items() if name.startswith(VALIDATION)}
    tests = {name: file for name, file in files.items() if not name.startswith(VALIDATION)}
    settings = comparing.TrainingSettings(learning_rate, epochs, batch_size, loss, redraw)
    with interruptible(f"finished trials are kept in {out}"):
        comparison = comparing.compare(
            base, training, tests, methods, validation=held, texts=new_texts, training=settings, seeds=seeds, seed=seed,
            metric=metric, margin=margin,
            like=like, prompts=both_prompts, sample=sample, kind=kind, folder=out, workers=workers)
    _answer(comparison, out)
    echo(comparison.verdict())
