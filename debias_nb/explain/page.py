"""A diagnosis as HTML that needs nothing else, and its twin as JSON."""
import json
import math
import os
import platform
import re
import shlex
from dataclasses import asdict, is_dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from .. import __version__, files
from ..checks import ConfigError, counted
from .changes import points, side_of
from ..data.pairs_file import PairFile
from .test_sets import TITLES
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


def percent(value: float) -> str:
    "A fraction in hundredths; a dash for what is not known."
    if pd.isna(value):
        return "–"
    return f"{100 * value:.1f}".replace("-", "−")


def exact(value: float) -> str:
    "A number as it is; a dash for what is not known."
    return "–" if pd.isna(value) else f"{value:g}".replace("inf", "not ranked")


def detectable(value: float) -> str:
    "A change that a test would find; of one beyond the scale, that there is none."
    return "too few to tell" if value >= 1 else percent(value)


def signed(value: float) -> str:
    "A difference of fractions in points; a dash for what is not known."
    if pd.isna(value):
        return "–"
    return points(value)


def examples(rows: list[dict]) -> str: # of `flaws`
    return "; ".join(f"{row['line']} ({row['label']}): {row['left'][:80]} | {row['right'][:80]}" for row in rows)


class Section(NamedTuple):
    "A part of a page."
    key: str                             # its address
    title: str
    sentences: list[str] = []            # its answer
    tables: dict[str, pd.DataFrame] = {} # heading -> rows; `cell` shows them
    picture: str = ""                    # HTML
    program: str = ""
    note: str = ""                       # how to read it


def tables(found) -> dict: # found: a frame, or frames by name; the rows of each test by themselves
    "The tables of a part of a page, by their headings."
    if isinstance(found, dict):
        return found
    if "test" not in found:
        return {"": found} if len(found) else {}
    return dict(iter(found.groupby("test", sort=False)))


def shown(found: dict, columns: list[str] | None = None) -> dict[str, pd.DataFrame]: # found: of `tables`; columns: None for all
    "What a page shows of tables; of ranks how many moved how far."
    frames = {name: pd.DataFrame(table["moves"].items(), columns=["first relevant text", "queries"]) if isinstance(table, dict) else table
              for name, table in found.items()}
    return {name: frame.filter(items=columns or frame.columns.drop("test", errors="ignore")) for name, frame in frames.items() if len(frame)}


LABELS = { # of columns whose names say too little
    "base": "before, %", "tuned": "after, %", "value": "%", "change": "change, points", "share": "share of tuned", "threshold": "at",
    "false positives": "others that pass, %", "recall": "matches found, %", "precision": "right when it says match, %",
    "both": "training pairs that both have it",
    "matches both": "of them matches, %", "wrong before": "wrong before, %", "wrong after": "after, %", "instead": "first now",
    "found": "smallest found, points", "kept": "gain kept, %",
}
UNITS = dict.fromkeys(("change", "more", "base change"), signed) # of other columns: a count, or a share in percent
UNITS |= {"threshold": "{:.3f}".format}
UNITS |= dict.fromkeys(("share", "strength", "rank before", "rank after"), exact)
UNITS |= {"metric": TITLES.get, "found": detectable, "p": "{:.4f}".format, "words": len, "examples": examples}


def is_shown(column: str, value) -> bool:
    "Whether a column stands for itself, and not for an end of an interval or the importance of words."
    return column.rpartition(" ")[2] not in ("low", "high") and (column in UNITS or not isinstance(value, list))


def cell(row: dict, column: str) -> str:
    "A value in the unit of its column, and the interval that the row has for it."
    value = row[column]
    if f"{column} after" in row:
        return shaded(value, row[f"{column} before"], row[f"{column} after"])
    unit = UNITS.get(column) or {int: "{:,}".format, float: percent}.get(type(value), str)
    begin = "" if column == "change" or column == "value" and "change" not in row else f"{column} "
    if f"{begin}low" not in row:
        return f"{unit(value)}"
    ends = [unit(row[begin + end]) for end in ("low", "high")]
    return Markup('{} <span class="soft">({} to {})</span>').format(unit(value), *ends)


@cache
def environment() -> Environment:
    "How the templates are filled: on pages everything is escaped, and nothing undefined."
    env = Environment(
        loader=PackageLoader("debias_nb.explain", "."), autoescape=select_autoescape(("html.j2",)),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    env.filters |= {"percent": percent, "signed": signed, "repr": repr, "coded": coded}
    env.globals |= {"between": between, "scale": scale, "side_of": side_of, "labels": LABELS, "cell": cell, "is_shown": is_shown}
    return env


def filled(template: str, **values) -> str:
    "A page, or a program to copy."
    return environment().get_template(template).render(values)


def screen(decision, cards: list[dict], **values) -> str: # decision: a `Decision` or a `Recommendation`
    "The answer and its cards, as a notebook shows them; with more values, the page that begins with them."
    results = [vars(result) for card in cards for result in card["results"]]
    template = "page.html.j2" if values else "cards.html.j2"
    return filled(template, decision=decision, cards=cards, shared_scale=scale(results), alone=not values, **values)


MEANING = { # of metrics that decide
    "auc05": "the area under the ROC curve up to 5% false positives, in percent of the largest possible; chance is 2.5",
    "ap": "the mean precision down to each match", "accuracy": "how often a relevant text stands first",
    "ndcg10": "how high relevant texts stand among the first ten; 100 is best",
}


def page(sections: list[Section], metrics, **values) -> str: # metrics: those that decide; values: those of the template
    "A page of the sections that have something to say; the answer and its cards come first."
    filled_ones = [section for section in sections if section.sentences or section.tables or section.program]
    meaning = " ".join(f"{TITLES[metric]}: {MEANING.get(metric, 'in percent of the best possible')}." for metric in dict.fromkeys(metrics))
    return screen(sections=filled_ones, meaning=meaning, **values)


def trade_picture(*values) -> str: # as the macro takes them
    "What is gained on one kind of data for what is lost on another."
    return environment().get_template("pictures.html.j2").module.trade(*values)


def _known(value):
    "A value that JSON can hold; what is not known is None."
    if is_dataclass(value):
        value = asdict(value)
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
    return told | {name: getattr(file, name) for name in ("note", "left_out", "matching") if getattr(file, name)}


def file_notes(files: dict[str, dict]) -> list[str]: # of `file_facts`, by name
    "What is said of files that are written otherwise than their names say, and of what was left out."
    told = [f"{name}: {file['note']}." for name, file in files.items() if "note" in file]
    for name, file in files.items():
        told += [f"{name}: {counted(count, what)} {'was' if count == 1 else 'were'} left out." for what, count in file.get("left_out", {}).items()]
    return told


def made_section(facts: dict, notes: list[str], **tables: pd.DataFrame) -> Section: # facts: of `made_of`
    "What went in, the versions, and the command."
    files = facts["files"] | ({"unlabeled": facts["texts"]} if facts.get("texts") else {})
    for name, about in {"files": files, "models": facts["models"]}.items():
        frame = pd.DataFrame(about.values()).drop(columns=["path", "source", "mean", "columns", "note", "left_out", "matching"], errors="ignore")
        frame.insert(0, name, [*about])
        tables[name] = frame
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return Section("made", "How was this made?", notes, tables, program=facts["command"] or "", note=f"{versions}.")


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


def check_targets(paths: list[Path], overwrite: bool = False) -> None: # overwrite: whether files of ours may be there
    """Raises `ConfigError`, before the work begins, where a file cannot be written, and for what would be lost: a file that was
    not written here, which one that is read never was."""
    for path in paths:
        if not os.access(path.parent, os.W_OK):
            raise ConfigError(f"{path}: there is no folder {path.parent} that may be written to")
        if path.exists() and not is_ours(path):
            raise ConfigError(f"{path}: the file exists, and is no page of debias-nb; give another name")
        if path.exists() and not overwrite:
            raise ConfigError(f"{path}: the file exists; remove it, give another name, or add --overwrite")
