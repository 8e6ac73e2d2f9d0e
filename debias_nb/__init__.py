"""Reduce spurious correlations in text-matching encoders: regularizers, sample weights, metrics, diagnoses.

The public names stand in `__init__.pyi`, which editors read; each is imported at its first use."""
import ast
import importlib
import warnings
from pathlib import Path

__version__ = "0.1.0"

_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8"))
_HOMES = {node.names[0].name: node.module for node in _STUB.body if isinstance(node, ast.ImportFrom)}

__all__ = list(_HOMES)

_FORMER = {"Catalogue": "Catalog", "tokenise": "tokenize"} # kept for one version


def __getattr__(name: str):
    if name in _FORMER:
        warnings.warn(f"debias_nb.{name} is called {_FORMER[name]}", FutureWarning, stacklevel=2)
        name = _FORMER[name]
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as e:
        raise ImportError(f"debias_nb.{name} needs the package {(e.name or '?').partition('.')[0]}") from e
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
