"""Commands for your own pairs: one for each question.

A wrong option, file or header is told before PyTorch is imported, which takes seconds."""
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from typer import Exit, Option

from ..checks import ConfigError, check_known, output_folder
from ..commands.terminal import OWN_PAIRS_PANEL, echo, interruptible
from .options import Base, ColumnNames, FailOn, LikeTraining, Margin, Match, MatchFrom, Metric, Out, Overwrite
from .options import Prompts, Sample, Seed, Tests, Threshold, Train, Tuned
from .options import check_metric_name, columns_by_name, named_tests, number, texts_of
from .options import two_prompts
from .ranges import check_numbers

if TYPE_CHECKING:
    from .pairs import PairFile

FILES = ("index.html", "report.json")
OURS = re.compile(rb'<!doctype html>.{,400}<meta name="generator" content="debias-nb">|\{\n "made by": "debias-nb"',
                  re.DOTALL) # how each file begins that is written here
app = typer.Typer()


def _check_free(out: Path | None, overwrite: bool) -> None:
    "Check, before the work begins, that the answer can be written, and that nothing is lost. Raise `ConfigError`."
    if out is None:
        return
    place = next(folder for folder in (out.absolute(), *out.absolute().parents) if os.path.lexists(folder))
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"{out}: {place} is no folder that may be written to")
    for path in (out / name for name in FILES):
        if path.exists() and not (path.is_file() and OURS.match(path.read_bytes()[:2000])):
            raise ConfigError(f"{path}: the file exists, and is no page of debias-nb; give another name")
        if path.exists() and not overwrite:
            raise ConfigError(f"{path}: the file exists; remove it, give another name, or add --overwrite")


def _read_files(
    train: str | None, tests: list[str], columns: list[str] | None, **matching,
) -> "dict[str, PairFile]": # `train` first if there is one
    "Read the files of a command. Raise `ConfigError` and `DataError`."
    from ..data.tables import check_file
    paths = named_tests(tests)
    if train is not None:
        check_file(train)
    by_name = columns_by_name(columns or [])
    from ..bars import is_bar_shown
    from .pairs import read_named_files
    return read_named_files(train, paths, by_name, is_bar_shown(None), **matching)


def _answer(result, out: Path | None) -> None: # result: a `Diagnosis` or a `Comparison`
    "Print the answer, and write its page also if nobody reads it to its end."
    try:
        echo(repr(result))
    finally:
        page = result.save(out) if out else None
    echo()
    if page:
        echo(f"Page: {page}")


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
    _check_free(out, overwrite)
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
def demo():
    "Diagnose a small encoder that took a planted shortcut, and write its page to demo: no data, no download."
    out = Path("demo")
    _check_free(out, overwrite=True)
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
        help="Methods with commas between them: base, plain, wise-ft, lora, outreg, itvreg, ...; outreg:1 has a strength, "
             "outreg-texts reads --texts, mymodule.Name is your own. By default base,plain,wise-ft,outreg,itvreg.")] = None,
    texts: Annotated[str | None, Option(
        help="Unlabeled texts of the kind that the encoder will meet, none of them from the tests: one per line, or "
             "new.csv:COLUMN; general stands for general texts.")] = None,
    columns: ColumnNames = None, match: Match = None, match_from: MatchFrom = None,
    seeds: Annotated[int, number("seeds", "Number of trainings of each method.")] = 3,
    learning_rate: Annotated[float | None, number("learning_rate", "By default what suits the kind of encoder.")] = None,
    epochs: Annotated[float | None, number("epochs", "Passes over the training data.")] = None,
    batch_size: Annotated[int | None, number("batch_size", "Number of pairs in a batch.")] = None,
    loss: Annotated[str | None, Option(
        help="Loss of sentence-transformers. By default CosineSimilarityLoss; without labels "
             "MultipleNegativesRankingLoss.")] = None,
    metric: Metric = None, margin: Margin = 1., like: LikeTraining = "like", prompts: Prompts = None,
    sample: Sample = None,
    seed: Annotated[int, number("seed", "First seed.")] = 0,
    out: Annotated[Path, Option(
        parser=output_folder, help="Folder for models and page. Models in it are used again.")] = Path("comparison"),
    overwrite: Overwrite = False,
):
    "Train each method on your pairs and say which one to use."
    numbers = {"seeds": seeds, "seed": seed, "sample": sample, "margin": margin}
    training = {"learning_rate": learning_rate, "epochs": epochs, "batch_size": batch_size}
    check_numbers(**numbers, **training)
    check_metric_name(metric)
    if loss is not None:
        from ..settings import OfLabels, OfMatches
        check_known("loss", loss, get_args(OfLabels) + get_args(OfMatches), ConfigError)
    both_prompts, new_texts = two_prompts(prompts), texts and texts_of(texts)
    _check_free(out, overwrite)
    files = _read_files(train, test, columns, match=match, match_from=match_from)
    from . import compare as comparing
    with interruptible(f"finished models are kept in {out}"):
        comparison = comparing.compare(
            base, files.pop("train"), files, methods, texts=new_texts, loss=loss, metric=metric, like=like,
            prompts=both_prompts, folder=out, **numbers, **training)
    _answer(comparison, out)
    echo(comparison.verdict())
