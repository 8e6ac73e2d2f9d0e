"""A diagnosis as HTML that needs nothing else, and its twin as JSON."""
import json
import math
import os
import platform
import re
import shlex
from functools import cache
from importlib import metadata
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from .. import __version__, files
from ..checks import ConfigError
from .changes import points, side_of
from ..data.pairs_file import PairFile
from .tests import TITLES
from .words import WORD


def shaded(text: str, before, after) -> Markup: # shares of the text's words, nan for a word that the model does not see
    "A text whose words show what the tuned model looks at."
    out = Markup()
    at = 0
    for match, old, new in zip(WORD.finditer(text), before, after): # of a text that was cut, the first words
        kind = ' class="up"' if new - old > .1 else ""
        style = f' style="background:rgba(240,150,30,{min(.5, new):.2f})"' if new >= .03 else ""
        word = escape(match.group())
        out += escape(text[at : match.start()])
        out += Markup(f"<span{kind}{style}>{word}</span>")
        at = match.end()
    return out + escape(text[at:])


def between(value: float, low: float, high: float, left: float, right: float) -> float:
    "Where a value from low to high stands between two ends of a picture."
    share = .5
    if high > low:
        share = (value - low) / (high - low)
    return round(left + share * (right - left), 1)


def scale(rows: list[dict]) -> tuple[float, float]: # rows: each with `low` and `high`
    "The ends of a picture on which all these intervals stand, and zero."
    ends = [0, *(row[end] for row in rows for end in ("low", "high"))]
    return min(ends), max(ends)


def coded(text: str) -> Markup:
    "A sentence whose names in backticks stand in code font."
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def percent(value: float, digits: int = 1) -> str:
    "A fraction in hundredths; a dash for what is not known."
    if pd.isna(value):
        return "–"
    return f"{100 * value:.{digits}f}".replace("-", "−")


def signed(value: float) -> str:
    "A difference of fractions in points; a dash for what is not known."
    if pd.isna(value):
        return "–"
    return points(value)


@cache
def environment() -> Environment:
    "How the templates are filled: on pages everything is escaped, and nothing undefined."
    env = Environment(
        loader=PackageLoader("debias_nb.explain", "."), autoescape=select_autoescape(("html.j2",)),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    env.filters |= {"percent": percent, "signed": signed, "repr": repr, "coded": coded}
    env.globals |= {"shaded": shaded, "titles": TITLES, "between": between, "scale": scale, "side_of": side_of, "file_size": file_size}
    return env


def filled(template: str, **values) -> str: # values: frames become lists of their rows
    "A page, or a program to copy."
    for name, value in values.items():
        if isinstance(value, pd.DataFrame):
            values[name] = value.to_dict("records")
    return environment().get_template(template).render(values)


def _known(value):
    "A value that JSON can hold; what is not known is None."
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, pd.DataFrame):
        value = value.to_dict("records")
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _known(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_known(v) for v in value]
    return value


FORMULA = ("=", "+", "-", "@", "\t", "\r") # what begins one in a spreadsheet


def json_text(values: dict) -> str: # of lists, dicts, frames, strings and numbers
    "The twin of a page."
    marked = {"made by": "debias-nb"} | values
    return json.dumps(_known(marked), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def csv_text(table: pd.DataFrame) -> str:
    "A table for spreadsheets: a text that one would take for a formula begins with an apostrophe."
    texts = table.map(lambda cell: f"'{cell}" if isinstance(cell, str) and cell[:1] in FORMULA else cell)
    return texts.to_csv(index=False)


PACKAGES = ("torch", "sentence-transformers", "transformers", "tokenizers", "numpy", "pandas", "scikit-learn")


def versions() -> dict[str, str]:
    "Of what computes."
    found = {"debias-nb": __version__, "Python": platform.python_version()}
    return found | {name: metadata.version(name) for name in PACKAGES}


def file_facts(file: PairFile) -> dict:
    "What a page says of a file."
    matches = file.labels > 0
    told = {
        "name": file.path or file.name, "path": file.path, "form": file.form, "pairs": len(file), "matches": int(matches.sum()),
        "mean": float(matches.mean()), "sha256": file.sha256, "columns": list(file.columns),
    }
    if file.form != "pairs":
        told["queries"] = int(file.frame["query"].nunique())
    if file.corpus is not None:
        told["corpus"] = len(file.corpus)
    return told | {name: getattr(file, name) for name in ("note", "left_out") if getattr(file, name)}


def file_size(told: dict) -> str: # of `file_facts`
    "How much a file has, in words."
    if told["form"] == "pairs":
        return f"{told['pairs']:,} pairs"
    if "corpus" in told:
        return f"{told['queries']:,} queries, {told['corpus']:,} texts"
    return f"{told['queries']:,} queries, {told['pairs']:,} candidates"


def file_notes(files: dict[str, dict]) -> list[str]: # of `file_facts`, by name
    "What is said of files that are written otherwise than their names say, and of what was left out."
    told = [f"{name}: {file['note']}." for name, file in files.items() if "note" in file]
    for name, file in files.items():
        told += [f"{name}: {count:,} {what} left out." for what, count in file.get("left_out", {}).items()]
    return told


def command_line(
    command: str,
    options: dict, # name -> value, or a list of them; None: not given
) -> str:
    "A command of `debias-nb` as it is typed."
    parts = ["debias-nb", command]
    for name, values in options.items():
        for value in values if isinstance(values, list) else [values]:
            if value is not None:
                parts += [f"--{name}", str(value)]
    return shlex.join(parts)


OURS = re.compile( # how each file begins that is written here
    rb'<!doctype html>.{,400}<meta name="generator" content="debias-nb">|\{\n "made by": "debias-nb",\n|method,seed,test,(part,)?metric,value\n'
    rb"|method,test,(metric,)?difference,low,high,p,word|test,form,tests,counted,cases,|test,part,metric,decides,|test,scorer,metric,value,low,high\n"
    rb'|test,kind,slice,cases,matches,', re.DOTALL)


def is_ours(path: Path) -> bool:
    "Whether a file was written by a command of this package."
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return OURS.match(file.read(2000)) is not None


def write_whole(path: Path, text: str) -> None:
    "Raises `ConfigError` where a file cannot be written, and leaves what was there. A link stays one."
    try:
        files.write_whole(path, text)
    except OSError as e:
        raise ConfigError(f"{path}: not written: {e.strerror}") from None


def check_targets(
    targets,                 # paths; None: nothing is written
    overwrite: bool = False, # whether files of ours may be there
) -> None:
    """Raises `ConfigError`, before the work begins, for a place that is no place for a file, two files in one place, and
    what would be lost: a file that was not written here, which one that is read never was."""
    taken = set()
    for path in filter(None, targets):
        real = Path(os.path.realpath(path))
        for wrong, why in (
            (not os.access(real.parent, os.W_OK), f"there is no folder {real.parent} that may be written to"),
            (real in taken, "another file goes there too"),
            (real.exists() and not is_ours(real), "the file exists, and is no page of debias-nb; give another name"),
            (real.exists() and not overwrite, "the file exists; remove it, give another name, or add --overwrite"),
        ):
            if wrong:
                raise ConfigError(f"{path}: {why}")
        taken.add(real)
