"""Calls as they were spelled until 0.2: they warn, say how they are spelled now, and give the same.

They go with the next version.

`diagnose` had four modes, and options of files stood next to those of the question."""
import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import ParamSpec, TypeVar

from ..checks import ConfigError

P = ParamSpec("P")
R = TypeVar("R")

ARGUMENTS = { # of each function, in their order; those by name alone stand last
    "diagnose": (
        "base", "tuned", "train", "tests", "columns", "group", "seed", "progress", "metric", "prompts", "sample",
        "match", "match_from", "other_to",
        "margin", "like", "threshold", "scores", "where", "results", "trained", "texts", "devices"),
    "compare": (
        "base", "train", "tests", "columns", "methods", "seeds", "learning_rate", "epochs", "batch_size", "folder",
        "progress", "loss", "validation",
        "texts", "metric", "prompts", "sample", "match", "match_from", "other_to", "seed", "redraw", "workers",
        "margin", "like", "kind", "where"),
    "label": ("base", "tuned", "pool", "n", "out", "texts", "folder", "columns", "prompts", "seed", "progress"),
}
FILE_OPTIONS = ("columns", "group", "where", "match", "match_from", "other_to")
READ_FIRST = "read_pairs_file(FILE, {options}) in place of FILE"


def _asks_otherwise(name: str, arguments: dict) -> bool: # name: of a function
    "Decide whether a call asks what another function answers now."
    lacks_a_model = arguments.get("base") is None or arguments.get("tuned") is None
    return name == "diagnose" and (lacks_a_model or arguments.get("texts") is not None and not arguments.get("tests"))


def accepts_former(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]: # name: of a function
    "Let a function take the calls of its former spelling."
    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters
        positional = sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters.values())
        removed = {*ARGUMENTS[name]} - {*parameters}

        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> R:
            arguments = dict(zip(parameters, args)) | options
            is_former = len(args) > positional or removed & options.keys() or _asks_otherwise(name, arguments)
            if not is_former or not options.keys() <= {*ARGUMENTS[name]}: # what nobody knows is refused there
                return function(*args, **options)
            former = dict(zip(ARGUMENTS[name], args)) | options
            return getattr(import_module(f"{__package__}.former_calls"),
                           name)({key: value for key, value in former.items() if value is not None})

        return call
    return decorate


def warn(call: str, better: str) -> None:
    "Warn of a former spelling and name the present one."
    warnings.warn(f"{call} is spelled {better} now; the former spelling goes with the next version", FutureWarning,
                  stacklevel=5)


def refuse_others(door: str, former: dict) -> None:
    "Refuse arguments that a door has not."
    if former:
        raise ConfigError(f"{', '.join(former)}: {door} has "
                          f"{'no such arguments' if len(former) > 1 else 'no such argument'}")
