"Commands for your own pairs: diagnose, label, demo, compare, data."
import inspect
import textwrap
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Exit, Option
from typer.core import TyperCommand

from ...checks import ConfigError, EncoderError, visible
from ...explain.parameters import Parameter, parameters, plain_arguments
from .terminal import OWN, echo, end, interruptible

app = typer.Typer()


class TablesCommand(TyperCommand):
    "Command whose help lists what tables of the library have; their modules, and PyTorch, are imported for that alone."
    def get_help(self, ctx):
        for param in self.params:
            module, function = TERMINAL[param.name].table
            if module:
                param.help += " " + getattr(import_module(f"debias_nb.{module}"), function)()
        return super().get_help(ctx)


def _named_tests(texts: list[str], option: str = "--test") -> dict:
    from ...data.pairs_file import named_tests
    return named_tests(texts, option)


def _columns(texts: list[str] | str) -> dict | str: # a text: of the one file of `label`
    from ...data.pairs_file import columns_by_name
    return columns_by_name(texts) if isinstance(texts, list) else texts


def _labeled_file(text: str) -> str:
    from ...data.pairs_file import check_file
    check_file(Path(text))
    return text


def _texts_file(text: str) -> str:
    from ...data.pairs_file import texts_file
    from ...data.sentences import GENERAL_TEXTS
    if text != GENERAL_TEXTS:
        texts_file(text)
    return text


def _runs(texts: list[str]) -> dict:
    from ...data.run_files import named_runs
    return named_runs(texts)


def _results(texts: list[str]) -> dict:
    from ...data.tables import named_values
    return named_values("--results", texts, "base=FOLDER and tuned=FOLDER")


def _two_prompts(text: str) -> tuple[str, str]:
    if "," not in text:
        raise ConfigError(f"--prompts wants LEFT,RIGHT, got {text!r}; a side without a prompt is left empty")
    return tuple(text.split(",", 1))


def _list(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


@dataclass(frozen=True)
class Terminal:
    "What a terminal alone needs of a parameter: how its text looks and is read, before PyTorch is imported, which takes seconds."
    metavar: str | None = None
    read: Callable = lambda text: text
    more: str = ""                       # behind the parameter's own help
    flag: str | None = None
    table: tuple[str, str] = ("", "")    # module and function whose text ends the help


TERMINAL = defaultdict(Terminal, {
    "tests": Terminal(
        "NAME=FILE", _named_tests, "A table of `debias-nb label` is one, too, labeled as far as you got.", "--test", ("data.forms", "forms_help")),
    "validation": Terminal("NAME=FILE", partial(_named_tests, option="--validation")),
    "train": Terminal(read=_labeled_file),
    "pool": Terminal(read=_labeled_file),
    "texts": Terminal(read=_texts_file),
    "columns": Terminal("COLUMN,COLUMN", _columns),
    "metric": Terminal(more="Metrics:", table=("explain.test_sets", "metrics_help")),
    "methods": Terminal(table=("explain.methods", "methods_help")),
    "prompts": Terminal("LEFT,RIGHT", _two_prompts),
    "scores": Terminal(
        "MODEL=FILE", _runs, "base=FILE and tuned=FILE, or base:TEST=FILE. Pairs have scores as columns: --columns left,right,label,base,tuned."),
    "results": Terminal("MODEL=FOLDER", _results, "base=FOLDER and tuned=FOLDER."),
    "trained": Terminal("NAME,NAME", _list),
    "devices": Terminal("DEVICE,DEVICE", _list),
})
NUMBERS = {"int": int, "float": float}


def _option(name: str, parameter: Parameter) -> inspect.Parameter:
    "Make the option of a command from a parameter of its function; what the function takes by name is repeatable."
    terminal = TERMINAL[name]
    kind = NUMBERS.get(parameter.annotation.split()[0], str)
    sentences = [parameter.help, terminal.more]
    if "dict" in parameter.annotation:
        kind = list[str]
        sentences.append("Repeatable.")
    metavar = terminal.metavar or parameter.bounds and f"<{parameter.kind}>"
    option = Option(terminal.flag or f"--{name.replace('_', '-')}", help=" ".join(filter(None, sentences)), metavar=metavar)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=parameter.default, annotation=Annotated[kind | None, option])


def command(function: Callable) -> Callable:
    "Register a command; `**options` of its function stand for the parameters of the library's function of that name."
    own = inspect.signature(function).parameters
    options = [_option(name, one) for name, one in parameters(function.__name__).items() if name not in {"progress", *own}]
    function.__signature__ = inspect.Signature([*options, *(one for one in own.values() if one.kind is not one.VAR_KEYWORD)])
    return app.command(rich_help_panel=OWN, cls=TablesCommand)(function)


def arguments_of(function: str, options: dict) -> dict:
    "Read the options of a command as its function takes them. Raise `ConfigError`, and `DataError` for a file that is not there."
    plain_arguments(function, options)
    return {name: None if value is None else TERMINAL[name].read(value) for name, value in options.items()}


SMALL = 5_000_000 # bytes of a file that is read twice


def _check_files(arguments: dict) -> None: # of `diagnose`
    "Read small files of pairs before PyTorch is imported, so that a wrong column or label is told at once. Raise `DataError`."
    from ...data.pairs_file import read_pairs_file
    how = {name: arguments[name] for name in ("match", "match_from", "other_to")}
    columns = arguments["columns"] or {}
    for name, path in ({"train": arguments["train"]} | (arguments["tests"] or {})).items():
        if path is None or not Path(path).is_file() or Path(path).stat().st_size > SMALL:
            continue
        own = columns.get(name, columns.get(None))
        scores = own[3:] if arguments["base"] is None and own is not None and len(own) == 5 else None
        of_test = {} if name == "train" else {"group": arguments["group"], "where": arguments["where"], "scores": scores}
        read_pairs_file(path, own[:3] if scores else own, **of_test, **how)


def folder(text: str | Path) -> Path: # as help names it; a default is a path
    "Read a folder. Raise `ConfigError` for what is none that can be written to."
    path = Path(text)
    if not str(text).strip() or path.exists() and not path.is_dir():
        raise ConfigError(f"--out: a folder is expected, got {text!r}")
    return path


Out = Annotated[Path | None, Option(parser=folder, help="Folder for page, numbers and tables.")]
VerdictWords = Annotated[bool, Option("--verdict-words", help="In the last line WIN, MARGINAL or REGRESSION, with score, baseline and delta.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Overwrite page and tables.")]


@command
def diagnose(
    *,
    out: Out = None,
    fail_on: Annotated[Literal["worse", "unsure"] | None, Option(
        help="Exit with status 1 if a test got worse; with unsure also if it may have, or is too small to tell.")] = None,
    verdict_words: VerdictWords = False,
    overwrite: Overwrite = False,
    **options,
):
    "Report whether, where and why fine-tuning made a model worse."
    arguments = arguments_of("diagnose", options)
    _check_files(arguments)
    from ...explain import diagnose as diagnosing
    from ...explain.diagnosis import FILES
    _check_free(out, FILES, overwrite)
    diagnosis = diagnosing.diagnose(**arguments)
    _answer(diagnosis, out)
    if arguments["texts"] and not arguments["tests"]:
        raise Exit(fail_on == "unsure" and not diagnosis.is_clear)
    failures = diagnosis.failing(fail_on) if fail_on else []
    if failures:
        echo(f"--fail-on {fail_on}: {', '.join(failures)}")
    echo(diagnosis.decision.verdict(verdict_words)) # what a monitor reads comes last
    if failures:
        raise Exit(1)


@command
def label(**options):
    "Choose which pairs to label, for who has few labels or none: those that say most."
    arguments = arguments_of("label", options)
    from ...explain import label as labeling
    echo(repr(labeling.label(**arguments)))


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
    out: Out = Path("demo"),
    overwrite: Overwrite = False,
):
    "Diagnose a small encoder that took a planted shortcut: no data, no download."
    from ...explain import demo as demonstrating
    from ...explain.diagnosis import FILES
    _check_free(out, FILES, overwrite)
    diagnosis = demonstrating.demo()
    _answer(diagnosis, out)
    echo(diagnosis.decision.verdict())


@command
def compare(
    *,
    folder: Annotated[Path, Option(
        "--out",
        parser=folder,
        help="Output folder for trials, tables and page. Finished trials found there are reused, so that the same command goes on "
        "where it was stopped.")] = Path("comparison"),
    verdict_words: VerdictWords = False,
    overwrite: Overwrite = False,
    **options,
):
    "Train each method on your pairs and report which differences are significant."
    arguments = arguments_of("compare", options)
    from ...explain import compare as comparing
    from ...explain.comparison import FILES
    _check_free(folder, FILES, overwrite)
    with interruptible(f"finished trials are kept in {folder}"):
        comparison = comparing.compare(folder=folder, **arguments)
    _answer(comparison, folder)
    echo(comparison.verdict(verdict_words))


def _write_shifts(folder: Path) -> None:
    "Write training sets and tests of shifts between kinds of text, and synthetic ones, as files that `compare` and `diagnose` read."
    from ...data.products import CATEGORIES
    from ...data.registry import MissingData
    from ...data.sentences import KINDS, NEWS
    from ...settings import WorldConfig
    from ...runs.config import CorpusConfig
    from ...data.labeled_pairs import PLANTED_SPLITS, evaluation_pairs, training_pairs
    questions = ("quora", "askubuntu")
    planted = CorpusConfig(name="catalogue", world=WorldConfig())
    sources = {"planted/train": partial(training_pairs, planted)}
    sources |= {f"train/{name}": partial(training_pairs, CorpusConfig(name=name)) for name in (*questions, NEWS, "computers", "shoes")}
    sources |= {f"planted/{name}": partial(evaluation_pairs, name, planted, planted.world) for name in PLANTED_SPLITS}
    sources |= {f"test/{name}": partial(evaluation_pairs, name, None, None) for name in (*questions, *KINDS, *CATEGORIES)}
    for name, read in sources.items():
        try:
            pairs = read()
        except MissingData as e:
            echo(f"left out: {str(e).splitlines()[0]}", err=True)
            continue
        file = folder / f"{name}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        pairs.frame()[["left", "right", "label"]].to_csv(file, index=False)
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
