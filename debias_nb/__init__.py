"""Reduce spurious correlations in text-matching encoders: regularizers, sample weights, metrics, diagnoses.

The public names stand in `__init__.pyi`, which editors read; each is imported at its first use.
"""
import ast
import importlib
import re
from functools import lru_cache
from pathlib import Path

__version__ = "0.2.0"

_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8"))
_HOMES = {node.names[0].name: node.module for node in _STUB.body if isinstance(node, ast.ImportFrom)}

__all__ = list(_HOMES)


def _numbers(version: str) -> list[int]: # 2.4.0+cpu -> [2, 4, 0]
    return [int(number) for number in re.match(r"[\d.]*\d", version)[0].split(".")]


@lru_cache
def _lowest_versions() -> dict[str, str]:
    "Return the lowest versions that pyproject.toml asks for, or none if the package is not installed."
    from importlib import metadata # takes longer than all else here
    try:
        lines = metadata.requires("debias-nb") or ()
    except metadata.PackageNotFoundError:
        return {}
    return dict(match.groups() for line in lines if (match := re.fullmatch(r"([\w-]+)>=([\d.]+)", line)))


@lru_cache
def _check_versions() -> None:
    "Raise `ImportError` for a package that is older than needed; a missing one is named when it is imported."
    from importlib import metadata
    for package, lowest in _lowest_versions().items():
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        if _numbers(version) < _numbers(lowest):
            needs = f"{package}>={lowest}"
            raise ImportError(f"debias-nb {__version__} needs {needs}, found {version}: pip install --upgrade "
                              f"'{needs}'")


def _hint(name: str) -> str:
    """Return what helps with an unknown name.

    A promised name in another case, the module that defines it, a promised one with the same beginning, or the papers'
    words."""
    from .checks import closest
    folder = Path(__file__).parent
    # asked for by Python itself
    if name.startswith("_") or (folder / name).is_dir() or (folder / f"{name}.py").is_file():
        return ""
    if name.casefold() in map(str.casefold, _HOMES):
        return closest(name, _HOMES)
    defined = re.compile(rf"^(?:def|class) ({re.escape(name)})\b", re.M | re.I)
    for path in sorted(folder.rglob("*.py")):
        match = defined.search(path.read_text("utf-8"))
        if match:
            place = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
            return f"; it is in {place}: from {place} import {match[1]}"
    first = name[0].casefold() # a slip is rarely in the first letter
    candidates = [promised for promised in _HOMES if promised[0].casefold() == first]
    return closest(name, candidates) or "; the papers' words and their names here stand in nbs/names.ipynb"


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_hint(name)}")
    _check_versions()
    attribute = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = attribute
    return attribute


def __dir__() -> list[str]:
    "List the promised names, and those that every module has."
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
