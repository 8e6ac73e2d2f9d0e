"Commands for your own pairs: diagnose, label, demo, compare, data."
import textwrap
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Context, Exit, Option
from typer.core import TyperCommand

from ...checks import ConfigError, EncoderError, visible
from .terminal import OWN, echo, end

app = typer.Typer()


TABLES = {"forms": "data.forms", "methods": "explain.methods", "metrics": "explain.test_sets"} # in helps -> whose module lists them


class TablesCommand(TyperCommand):
    "Command whose help lists what tables of the library have; their modules, and PyTorch, are imported for that alone."
    def get_help(self, ctx):
        for param in self.params:
            for name, module in TABLES.items():
                place = f"{{{name}}}"
                if place in (param.help or ""):
                    describe = getattr(import_module(f"debias_nb.{module}"), f"{name}_help")
                    param.help = param.help.replace(place, describe())
        return super().get_help(ctx)


TEST_HELP = "What to test on, NAME=FILE. Repeatable. {forms} Or a table of `debias-nb label`, labeled as far as you got."
Tests = Annotated[list[str], Option(help=TEST_HELP)]
Columns = Annotated[list[str] | None, Option(
    help="Names of columns, such as question1,question2,is_duplicate: of all files, or of one as in new=q1,q2,label. Repeatable.",
    show_default="recognized by their names")]
MetricName = Annotated[str | None, Option(
    help="Metric that decides, on tests that have it: {metrics}.", show_default="the first of each")]
Prompts = Annotated[str | None, Option(
    help="Prompts before left and right texts, LEFT,RIGHT: names of the model's prompts, or the prompts themselves.",
    show_default="the model's own for queries and documents")]
Sample = Annotated[int | None, Option(min=10, help="Pairs or queries of each test, at most.", show_default="all")]
Match = Annotated[str | None, Option(help="Label that is a match, where labels are words.")]
MatchFrom = Annotated[float | None, Option(help="Lowest grade that is a match, where labels are grades.")]
OtherTo = Annotated[float | None, Option(help="Highest grade that is no match; pairs between are left out.", show_default="below --match-from")]
Where = Annotated[str | None, Option(
    help="COLUMN=VALUE of the rows of tests that are read, such as split=test; of one file, also of training: FILE:COLUMN=VALUE.", show_default="all")]
TEXTS_HELP = "Unlabeled texts: a file with one per line, or a table with a column text, or another one as in new.csv:question; general: the "\
    "general texts of this library, downloaded once."
Margin = Annotated[float, Option(min=0, help="Smallest change that matters, in points.")]
Like = Annotated[str, Option(help="Name of the test that is like training; the others are new data.")]
SCORES_HELP = "In place of models, on tests with queries, corpus and qrels: base=FILE and tuned=FILE, or base:TEST=FILE; runs of TREC, "\
    "predictions of mteb 2 or of sentence-transformers. Pairs have scores as columns: --columns left,right,label,base,tuned."
RESULTS_HELP = "In place of models and tests, scores of public tasks: base=FOLDER and tuned=FOLDER, as `mteb run --output-folder` writes them."
VerdictWords = Annotated[bool, Option("--verdict-words", help="In the last line WIN, MARGINAL or REGRESSION, with score, baseline and delta.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Overwrite page and tables.")]


def _files(test: list[str], columns: list[str] | None, train: str | None, texts: str | None = None) -> tuple[dict, object]:
    "Return the tests by name and the columns as `read_files` takes them, before PyTorch is imported, which takes seconds."
    from ...data.pairs_file import check_file, columns_by_name, named_tests, texts_file
    from ...data.sentences import GENERAL_TEXTS
    if train is not None:
        check_file(Path(train))
    if texts not in (None, GENERAL_TEXTS):
        texts_file(texts)
    usual, by_name = columns_by_name(columns or [])
    return named_tests(test), {None: usual, **by_name} if by_name else usual


def folder(text: str | Path) -> Path: # as help names it; a default is a path
    "Read a folder. Raise `ConfigError` for what is none that can be written to."
    path = Path(text)
    if not str(text).strip() or path.exists() and not path.is_dir():
        raise ConfigError(f"--out: a folder is expected, got {text!r}")
    return path


def _two_prompts(prompts: str | None) -> tuple[str, str] | None:
    if prompts is None:
        return None
    left, comma, right = prompts.partition(",")
    if not comma:
        raise ConfigError(f"--prompts wants LEFT,RIGHT, got {prompts!r}; a side without a prompt is left empty")
    return left, right


def _call(function: Callable, options: dict, **changes):
    "Call a function with the options of a command that it takes, and others in their place."
    arguments = signature(function).parameters
    return function(**{name: value for name, value in options.items() if name in arguments} | changes)


@app.command(rich_help_panel=OWN, cls=TablesCommand)
def diagnose(
    ctx: Context,
    base: Annotated[str | None, Option(help="Model before fine-tuning: a folder, a name, or a hub id (name@commit).")] = None,
    tuned: Annotated[str | None, Option(help="Model after fine-tuning.")] = None,
    scores: Annotated[list[str] | None, Option(help=SCORES_HELP)] = None,
    results: Annotated[list[str] | None, Option(help=RESULTS_HELP)] = None,
    trained: Annotated[str | None, Option(
        help="With --results: tasks or data that it was trained on, NAME,NAME.", show_default="as its model_meta.json declares")] = None,
    test: Annotated[list[str] | None, Option(help=TEST_HELP)] = None,
    train: Annotated[str | None, Option(help="What it was trained on, in any of these forms.")] = None,
    columns: Columns = None,
    group: Annotated[str | None, Option(help="Column of the test files; report each of its values separately.")] = None,
    metric: MetricName = None,
    prompts: Prompts = None,
    match: Match = None,
    match_from: MatchFrom = None,
    other_to: OtherTo = None,
    where: Where = None,
    sample: Sample = None,
    out: Annotated[Path | None, Option(parser=folder, help="Folder for page, numbers and tables.")] = None,
    fail_on: Annotated[Literal["worse", "unsure"] | None, Option(
        help="Exit with status 1 if a test got worse; with unsure also if it may have, or is too small to tell.")] = None,
    margin: Margin = 1.,
    like: Like = "like",
    threshold: Annotated[float | None, Option(
        help="Score from which on you call a pair a match.", show_default="5% false positives in the base")] = None,
    seed: Annotated[int, Option(min=0, help="Random seed for sampling and bootstrap.")] = 0,
    verdict_words: VerdictWords = False,
    overwrite: Overwrite = False,
    texts: Annotated[str | None, Option(
        help="Unlabeled texts of the new data, next to tests or in their place: one per line, a column text (or FILE:COLUMN), or two columns "
        "of texts, perhaps with scores in columns base and tuned. The answer is all clear, or label.")] = None,
    devices: Annotated[str | None, Option(
        help="One process that encodes texts for each device, such as cuda:0,cuda:1 or cpu,cpu.", show_default="this process alone")] = None,
):
    "Report whether, where and why fine-tuning made a model worse."
    from ...data.run_files import named_runs
    from ...data.tables import named_values
    runs = named_runs(scores) if scores else None
    folders = named_values("--results", results or [], "base=FOLDER and tuned=FOLDER")
    tests, names = _files(test or [], columns, train, texts)
    from ...explain import diagnose as diagnosing
    from ...explain.diagnosis import FILES
    _check_free(out, FILES, overwrite)
    diagnosis = _call(
        diagnosing.diagnose, ctx.params, tests=tests or None, columns=names, prompts=_two_prompts(prompts), scores=runs, results=folders or None,
        trained=trained and trained.split(","), devices=devices and devices.split(","))
    _answer(diagnosis, out)
    if texts and not tests:
        raise Exit(fail_on == "unsure" and not diagnosis.is_clear)
    failures = diagnosis.failing(fail_on, margin / 100) if fail_on else []
    if failures:
        echo(f"--fail-on {fail_on}: {', '.join(failures)}")
    echo(diagnosis.decision.verdict(verdict_words)) # what a monitor reads comes last
    if failures:
        raise Exit(1)


@app.command(rich_help_panel=OWN)
def label(
    ctx: Context,
    base: Annotated[str, Option(help="Model before fine-tuning: a folder, a name, or a hub id (name@commit).")],
    tuned: Annotated[str, Option(help="Model after fine-tuning.")],
    pool: Annotated[str | None, Option(help="Table with a pair of texts a row, such as your own candidates; labels are not read.")] = None,
    texts: Annotated[str | None, Option(help="In place of a pool, texts, one a line or as new.csv:question, whose nearest neighbors are candidates.")] = None,
    folder: Annotated[str | None, Option(help="In place of a pool, a folder with queries and corpus, as BEIR writes them, without judgments.")] = None,
    n: Annotated[int, Option("--n", min=10, help="How many to label, at most.")] = 200,
    out: Annotated[str, Option(help="Table to label, a new CSV file.")] = "to_label.csv",
    columns: Annotated[str | None, Option(help="Names of the pool's two columns of texts, such as name1,name2.", show_default="recognized by their names")] = None,
    prompts: Prompts = None,
    seed: Annotated[int, Option(min=0, help="Another one draws another sample.")] = 0,
):
    "Choose which pairs to label, for who has few labels or none: those that say most."
    _files([], None, pool, texts)
    from ...explain import label as labeling
    echo(repr(_call(labeling.label, ctx.params, columns=columns, prompts=_two_prompts(prompts))))


def _check_free(out: Path | None, files, overwrite: bool) -> None: # files: names
    "Check that no file of the answer would be written over."
    from ...explain.page import check_targets
    if out is not None and out.is_dir():
        check_targets([out / name for name in files], overwrite)


def _answer(result, out: Path | None) -> None: # result: a `Diagnosis` or a `Comparison`
    "Print the answer, and write its files also if nobody reads it to its end."
    from ...explain.page import write_whole
    pages = result.files() if out else {}
    try:
        echo(repr(result))
    finally:
        for name, text in pages.items():
            out.mkdir(parents=True, exist_ok=True)
            write_whole(out / name, text)
    for name in pages:
        echo(f"written: {out / name}")


@app.command(rich_help_panel=OWN)
def demo(
    out: Annotated[Path, Option(parser=folder, help="Folder for page, numbers and tables.")] = Path("demo"),
    overwrite: Overwrite = False,
):
    "Diagnose a small encoder that took a planted shortcut: no data, no download."
    from ...explain import demo as demonstrating
    from ...explain.diagnosis import FILES
    _check_free(out, FILES, overwrite)
    diagnosis = demonstrating.demo()
    _answer(diagnosis, out)
    echo(diagnosis.decision.verdict())


SETTING_HELP = "Default: what suits the kind of encoder."


@app.command(rich_help_panel=OWN, cls=TablesCommand)
def compare(
    ctx: Context,
    base: Annotated[str, Option(help="Base encoder: a folder, a name, or a hub id (name@commit).")],
    train: Annotated[str, Option(help="What to train on, in one of the forms of tests.")],
    test: Tests,
    columns: Columns = None,
    methods: Annotated[str | None, Option(
        help="{methods}", show_default="base,plain,wise-ft,outreg,outreg-texts,itvreg; without --texts with outreg-texts:1 on the general ones")] = None,
    seeds: Annotated[int, Option(
        min=2, help="Number of training runs of each method. 2 or 3 find large differences only: the page says how large. "
        "What rests on 2 is provisional.")] = 3,
    seed: Annotated[int, Option(min=0, help="The first seed.")] = 0,
    redraw: Annotated[float | None, Option(
        help="Each seed trains on a random sample of its own, this fraction of the pairs, such as 0.8, so that intervals cover the sample.")] = None,
    learning_rate: Annotated[float | None, Option(help=SETTING_HELP)] = None,
    epochs: Annotated[float | None, Option(help=SETTING_HELP)] = None,
    batch_size: Annotated[int | None, Option(min=1, max=2**20, help=SETTING_HELP)] = None,
    loss: Annotated[str | None, Option(
        help="Loss of sentence-transformers. MultipleNegativesRankingLoss trains on matches only, with negatives of their own "
        "where there are some. Weights that suit one loss may not suit another.",
        show_default="CosineSimilarityLoss; without labels MultipleNegativesRankingLoss")] = None,
    validation: Annotated[list[str] | None, Option(
        help="Validation data, NAME=FILE, used to choose every weight that you do not set. Repeatable.",
    )] = None,
    texts: Annotated[str | None, Option(
        help=f"{TEXTS_HELP} Of the kind that the encoder will meet, and not from the tests; methods such as outreg-texts "
        "regularize the encoder toward its base on them.")] = None,
    metric: MetricName = None,
    prompts: Prompts = None,
    match: Match = None,
    match_from: MatchFrom = None,
    other_to: OtherTo = None,
    where: Where = None,
    sample: Sample = None,
    out: Annotated[Path, Option(
        parser=folder,
        help="Output folder for trials, tables and page. Finished trials found there are reused, so that the same command goes on "
        "where it was stopped.")] = Path("comparison"),
    margin: Margin = 1.,
    like: Like = "like",
    kind: Annotated[str | None, Option(
        help="What the training pairs are of: sentences or offers; sentences:offers and offers:sentences where new data are of the other kind. Where "
        "nothing can be told, records of this encoder, loss and kind say what is likely.")] = None,
    verdict_words: VerdictWords = False,
    workers: Annotated[int | None, Option(min=1, help="Trainings at a time, each on a GPU of its own where there are several.", show_default="as many as cores or GPUs")] = None,
    overwrite: Overwrite = False,
):
    "Train each method on your pairs and report which differences are significant."
    tests, names = _files(test, columns, train, texts)
    from ...data.pairs_file import named_tests
    validation_tests = named_tests(validation or [], "--validation")
    from ...explain import compare as comparing
    from ...explain.comparison import FILES
    _check_free(out, FILES, overwrite)
    try:
        comparison = _call(
            comparing.compare, ctx.params, tests=tests, columns=names, folder=out, validation=validation_tests, prompts=_two_prompts(prompts))
    except KeyboardInterrupt:
        end(f"interrupted; finished trials are kept in {out}, and the same command goes on from there", 130)
    _answer(comparison, out)
    echo(comparison.verdict(verdict_words))


def _write_shifts(folder: Path) -> None:
    "Write training sets and tests of shifts between kinds of text, and synthetic ones, as files that `compare` and `diagnose` read."
    import pandas as pd
    from ...data.products import CATEGORIES
    from ...data.registry import MissingData
    from ...data.sentences import KINDS, NEWS
    from ...settings import WorldConfig
    from ...runs.config import CorpusConfig
    from ...data.labeled_pairs import PLANTED_SPLITS, evaluation_pairs, training_pairs
    questions = ("quora", "askubuntu")
    planted = CorpusConfig(name="catalogue", world=WorldConfig())
    corpora = {f"train/{name}": CorpusConfig(name=name) for name in (*questions, NEWS, "computers", "shoes")}
    sources = {name: (training_pairs, (corpus,)) for name, corpus in ({"planted/train": planted} | corpora).items()}
    sources |= {f"planted/{name}": (evaluation_pairs, (name, planted, planted.world)) for name in PLANTED_SPLITS}
    sources |= {f"test/{name}": (evaluation_pairs, (name, None, None)) for name in (*questions, *KINDS, *CATEGORIES)}
    for name, (read, about) in sources.items():
        try:
            pairs = read(*about)
        except MissingData as e:
            echo(f"left out: {str(e).splitlines()[0]}", err=True)
            continue
        file = folder / f"{name}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame({"left": pairs.left, "right": pairs.right, "label": pairs.labels}).to_csv(file, index=False)
        echo(f"{file}: {len(pairs.labels):,} pairs")


@app.command(rich_help_panel=OWN)
def data(
    shifts: Annotated[Path | None, Option(
        file_okay=False, help="Write the pairs of shifts between kinds of text, and synthetic ones, into this folder as CSV files.")] = None,
):
    """List data files and base encoders: where they are, and how to get the others.

    Exits with status 1 if a file differs from the published one."""
    if shifts:
        return _write_shifts(shifts)
    from ...data.registry import inventory
    from ...encoders.loading import encoder_cards, find_folder
    from ...settings import EncoderConfig
    entries = inventory()
    for dataset, files in groupby(entries, key=lambda one: one["dataset"]):
        echo(visible(dataset))
        for one in files:
            size = f", {one['bytes']:,} bytes" if one["bytes"] else ""
            _print_entry(f"{one['file']}: {one['status']}{size}", str(one["path"] or one["how"] or ""))
    echo("\nbase encoders")
    for name, card in encoder_cards().items():
        try:
            place = str(find_folder(EncoderConfig(name=name, kind=card.kind), download=False))
        except EncoderError as e: # how to get it
            place = str(e)
        zero_shot = "" if card.zero_shot else ", not for zero-shot use"
        _print_entry(f"{name}: {card.kind}{zero_shot}, trained on {card.trained_on}", place)
    for name, kind in (("tiny", "transformer"), ("tiny-static", "static")):
        _print_entry(f"{name}: {kind}, trained on synthetic data", "trained here when first used")
    wrong_files = [f"{one['dataset']}/{one['file']}" for one in entries if one["status"] == "refused"]
    if wrong_files:
        end(f"other contents than the registry's: {', '.join(wrong_files)}")


def _print_entry(what: str, where: str) -> None: # where: a path or words, or nothing
    "Print a line, and where it is below it."
    echo(f"  {what}")
    if where:
        echo(textwrap.indent(where, "      "))
