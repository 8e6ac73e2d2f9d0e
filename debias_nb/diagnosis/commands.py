"Commands for your own pairs: diagnose, label, demo, compare."
import inspect
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Exit, Option
from typer.core import TyperCommand

from ..checks import ConfigError
from .parameters import Parameter, parameters, plain_arguments
from ..commands.terminal import OWN, echo, interruptible

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
    from .files.pairs_file import named_tests
    return named_tests(texts, option)


def _columns(texts: list[str] | str) -> dict | str: # a text: of the one file of `label`
    from .files.pairs_file import columns_by_name
    return columns_by_name(texts) if isinstance(texts, list) else texts


def _labeled_file(text: str) -> str:
    from .files.pairs_file import check_file
    check_file(Path(text))
    return text


def _texts_file(text: str) -> str:
    from ..data.texts import texts_file
    from ..data.sentences import GENERAL_TEXTS
    if text != GENERAL_TEXTS:
        texts_file(text)
    return text


def _runs(texts: list[str]) -> dict:
    from .files.run_files import named_runs
    return named_runs(texts)


def _results(texts: list[str]) -> dict:
    from ..data.tables import named_values
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
        "NAME=FILE", _named_tests, "A table of `debias-nb label` is one, too, labeled as far as you got.", "--test", ("diagnosis.files.forms", "forms_help")),
    "validation": Terminal("NAME=FILE", partial(_named_tests, option="--validation")),
    "train": Terminal(read=_labeled_file),
    "pool": Terminal(read=_labeled_file),
    "texts": Terminal(read=_texts_file),
    "columns": Terminal("COLUMN,COLUMN", _columns),
    "metric": Terminal(more="Metrics:", table=("diagnosis.test_sets", "metrics_help")),
    "methods": Terminal(table=("diagnosis.methods", "methods_help")),
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
    from .files.pairs_file import read_named_file
    how = {name: arguments[name] for name in ("group", "where", "match", "match_from", "other_to")}
    columns = arguments["columns"] or {}
    for name, path in ({"train": arguments["train"]} | (arguments["tests"] or {})).items():
        if path is None or not Path(path).is_file() or Path(path).stat().st_size > SMALL:
            continue
        read_named_file(name, path, columns, scored=arguments["base"] is None, **how)


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
    if not arguments["results"]: # which go with no files of pairs, and are told so
        _check_files(arguments)
    from . import diagnose as diagnosing
    from .diagnosis import FILES
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
    from . import label as labeling
    echo(repr(labeling.label(**arguments)))


def _check_free(out: Path | None, files, overwrite: bool) -> None: # files: names
    "Check that no file of the answer would be written over."
    from .page import check_targets
    if out is not None and out.is_dir():
        check_targets([out / name for name in files], overwrite)


def _answer(result, out: Path | None) -> None: # result: a `Diagnosis` or a `Comparison`
    "Print the answer, and write its files also if nobody reads it to its end."
    from .page import write_whole
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
    from . import demo as demonstrating
    from .diagnosis import FILES
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
    from . import compare as comparing
    from .comparison import FILES
    _check_free(folder, FILES, overwrite)
    with interruptible(f"finished trials are kept in {folder}"):
        comparison = comparing.compare(folder=folder, **arguments)
    _answer(comparison, folder)
    echo(comparison.verdict(verdict_words))
