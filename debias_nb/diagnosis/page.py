"""A result as HTML that needs nothing else, and its twin as JSON."""
import json
import platform
import re
import shlex
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape
from pydantic_core import to_json

from .. import __version__
from ..checks import ConfigError, visible
from ..files import write_whole
from .pairs import PairFile
from .titles import TITLES
from .verdicts import points
from .words import WORD

RIGHT_TO_LEFT = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc][^\s,;:()<>&`]*")
PACKAGES = ("torch", "sentence-transformers", "transformers", "tokenizers", "numpy", "pandas", "scikit-learn")
LABELS = {"base": "before", "tuned": "after", "found": "detectable (80% power)", "share": "share of tuned",
          "both": "training pairs that both have it", "matches both": "of them matches", "instead": "first now"}
EXACT = ("threshold", "set again", "share", "strength", "seeds", "rank before", "rank after", "p") # neither % nor points
POINTS = ("change", "more", "base change", "bound", "difference")


class Section(NamedTuple):
    "A part of a page."
    title: str
    tables: dict[str, pd.DataFrame] = {} # heading -> rows; `cell` shows them
    sentences: list[str] = []
    program: str = ""


def isolated(text: str) -> Markup:
    "Escape a text: what would steer its reader is named, and words from right to left keep their place."
    return Markup(RIGHT_TO_LEFT.sub(r"<bdi>\g<0></bdi>", str(escape(visible(text)))))


def coded(text: str) -> Markup:
    "Put the names of a sentence in backticks into code font."
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(isolated(text))))


def shaded(text: str, tuned_shares) -> Markup: # tuned_shares: of the text's words, nan for one that is not seen
    "Shade the words of a text that the tuned model looks at."
    out, offset = Markup(), 0
    for match, share in zip(WORD.finditer(text), tuned_shares): # of a text that was cut, the first words
        if share >= .03:
            shade = Markup('<span style="background:rgba(240,150,30,{:.2f})">{}</span>')
            out += isolated(text[offset : match.start()]) + shade.format(min(.5, share), isolated(match.group()))
            offset = match.end()
    return out + isolated(text[offset:])


def number(value, column: str) -> str:
    "Write a number in the unit of its column: points, percent, or as it is."
    if pd.isna(value):
        return "–"
    if column in POINTS or column.endswith((" low", " high")):
        return points(value)
    if isinstance(value, float) and column not in EXACT:
        return "too few" if column == "found" and value >= 1 else f"{100 * value:.1f}%"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}".replace("inf", "not ranked")


def cell(row: dict, column: str) -> str:
    "Write a value in the unit of its column, with its interval if the row has one."
    value = row[column]
    if f"{column} after" in row:
        return shaded(value, row[f"{column} after"])
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        prefix = "" if column == "change" else f"{column} "
        text = number(value, column)
        if f"{prefix}low" in row:
            text += f" ({points(row[f'{prefix}low'])} to {points(row[f'{prefix}high'])})"
        return text
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    return isolated(f"{TITLES.get(value, value) if column == 'metric' else value}")


def is_shown(column: str, row: dict) -> bool:
    "Decide whether a column is shown: it is neither the end of an interval nor the importance of words."
    return column.rpartition(" ")[2] not in ("low", "high") and column.rpartition(" ")[0] not in ("left", "right")


def position(value: float, ends: tuple[float, float]) -> float: # percent of the width
    low, high = ends
    return round(4 + 92 * (value - low) / (high - low), 1) if high > low else 50.


@cache
def environment() -> Environment:
    "Return what fills the template: everything is escaped, and nothing undefined."
    env = Environment(
        loader=PackageLoader("debias_nb.diagnosis", "."), autoescape=select_autoescape(("html.j2",)),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    env.filters |= {"coded": coded, "signed": points}
    env.globals |= {"position": position, "labels": LABELS, "titles": TITLES, "cell": cell, "is_shown": is_shown}
    return env


def page(title: str, answer, screen: str, rows: pd.DataFrame, sections: list[Section], margin: float) -> str:
    """Write a page: an answer with heading, reason and call, the first screen, a picture a row, and its sections.

    rows: `test`, `metric`, `change`, `low`, `high` and `verdict`; margin: a fraction."""
    drawn = rows[rows.decides] if "decides" in rows else rows
    drawn = drawn.dropna(subset="change").to_dict("records")
    ends = [0., margin, -margin, *(row[end] for row in drawn for end in ("low", "high"))]
    parts = [section for section in sections
             if section.sentences or section.program or any(map(len, section.tables.values()))]
    return environment().get_template("page.html.j2").render(
        title=title, answer=answer, rows=drawn,
        screen=[block for block in screen.split("\n\n") if not block.startswith(answer.heading)], ends=(min(ends), max(ends)), sections=parts,
        margin=margin)


def _plain(value): # a frame, or something of numpy
    "Turn a value into one of JSON."
    return value.to_dict("records") if isinstance(value, pd.DataFrame) else value.tolist()


def json_text(values: dict) -> str: # of lists, dicts, frames, dataclasses, strings and numbers
    "Write the twin of a page; a number that is missing or not finite is null."
    exact = to_json({"made by": "debias-nb"} | values, inf_nan_mode="null", fallback=_plain)
    plain = json.loads(exact, parse_float=lambda number: round(float(number), 6))
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def write_page(folder: str | Path, result) -> Path: # of the page; result: with `html` and `json`
    "Write the page and its twin whole, or leave what was there and raise `ConfigError`."
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("index.html", result.html()), ("report.json", result.json())):
        try:
            write_whole(folder / name, text)
        except OSError as e:
            raise ConfigError(f"{folder / name}: not written: {e.strerror}") from None
    return folder / "index.html"


def facts_of(command: str, scorers: dict, files: dict[str, PairFile], options: dict, texts=None) -> dict:
    "Describe what went in, and the command that repeats it if nothing is in memory alone."
    sources = {name: scorer.source for name, scorer in scorers.items()}
    readings = {name: file.reading for name, file in files.items()}
    paths = {name: file.path for name, file in files.items()}
    matching = [{key: value for key, value in reading.items() if key != "columns"} for reading in readings.values()]
    again = None
    is_repeatable = scorers and all(rule == matching[0] for rule in matching)
    if is_repeatable and None not in [*sources.values(), *paths.values(), *([texts.path] if texts else [])]:
        columns = {name: reading["columns"] for name, reading in readings.items() if "columns" in reading}
        tests = {name: path for name, path in paths.items() if name != "train"}
        again = command_line(command, sources | {"train": paths.get("train"), "test": tests, "columns": columns}
                             | matching[0] | {"texts": texts and texts.path} | options)
    versions = ({"debias-nb": __version__, "Python": platform.python_version()}
                | {name: metadata.version(name) for name in PACKAGES})
    described = {name: {"file": name, "path": file.path, "read": file.summary, "rows": len(file), "sha256": file.sha256}
                 for name, file in files.items()}
    return {"files": described, "models": {name: scorer.facts() for name, scorer in scorers.items()},
            "options": options, "texts": texts and texts.facts(), "versions": versions, "command": again}


def command_line(
    command: str,
    options: dict, # name -> value, or a dict with several by name; a list or tuple has commas; None: not given
) -> str:
    "Write a command of `debias-nb` as it is typed."
    parts = ["debias-nb", command]
    for option, values in options.items():
        by_name = values if isinstance(values, dict) else {None: values}
        for name, value in by_name.items():
            if value is not None:
                text = ",".join(value) if isinstance(value, (list, tuple)) else str(value)
                parts += [f"--{option.replace('_', '-')}", f"{name}={text}" if name else text]
    return shlex.join(parts)
