"""A diagnosis as HTML that needs nothing else, and its twin as JSON."""
import json
import platform
import re
import shlex
from functools import cache
from importlib import metadata
from textwrap import fill, indent
from typing import NamedTuple

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape
from pydantic_core import to_json

from .. import __version__
from ..checks import counted, visible
from .changes import points, side_of
from .pairs import PairFile
from .titles import TITLES
from .words import WORD


def shaded(
    text: str,
    base_shares, tuned_shares, # of the text's words, nan for a word that the model does not see
) -> Markup:
    "Shade the words of a text that the tuned model looks at."
    out = Markup()
    offset = 0
    # of a text that was cut, the first words
    for match, old, new in zip(WORD.finditer(text), base_shares, tuned_shares):
        kind = ' class="up"' if new - old > .1 else ""
        style = f' style="background:rgba(240,150,30,{min(.5, new):.2f})"' if new >= .03 else ""
        word = isolated(match.group())
        out += isolated(text[offset : match.start()])
        out += Markup(f"<span{kind}{style}>{word}</span>")
        offset = match.end()
    return out + isolated(text[offset:])


def position(value: float, low: float, high: float, left: float, right: float) -> float:
    "Place a value from low to high between two ends of a picture."
    share = .5
    if high > low:
        share = (value - low) / (high - low)
    return round(left + share * (right - left), 1)


def scale(rows: list[dict]) -> tuple[float, float]: # rows: each with `low` and `high`
    "Return the ends of a picture that shows all these intervals, and zero."
    ends = [0, *(row[end] for row in rows for end in ("low", "high"))]
    return min(ends), max(ends)


RIGHT_TO_LEFT = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc][^\s,;:()<>&`]*")


def isolated(text: str) -> Markup:
    "Escape a text: what would steer its reader is named, and words from right to left keep their place."
    return Markup(RIGHT_TO_LEFT.sub(r"<bdi>\g<0></bdi>", str(escape(visible(text)))))


def coded(text: str) -> Markup:
    "Put the names of a sentence in backticks into code font."
    html = re.sub("`([^`]+)`", r"<code>\1</code>", str(isolated(text)))
    return Markup(html.replace("λ = ", "λ&nbsp;=&nbsp;")) # on one line


def percent(value: float) -> str:
    "Write a fraction in hundredths, or a dash for a missing one."
    if pd.isna(value):
        return "–"
    return f"{100 * value:.1f}".replace("-", "−")


def commented(text: str) -> str:
    "Write a text as comments of a program."
    return indent(fill(text, 110), "# ")


def exact(value: float) -> str:
    "Write a number as it is, or a dash for a missing one."
    return "–" if pd.isna(value) else f"{value:g}".replace("inf", "not ranked")


def detectable_size(value: float) -> str:
    "Write a detectable difference, or that there is none on the scale."
    return "too few to tell" if value >= 1 else percent(value)


def signed_points(value: float) -> str:
    "Write a difference of fractions in points, or a dash for a missing one."
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


def tables(frames) -> dict: # frames: a frame, or frames by name; the rows of each test by themselves
    "Return the tables of a part of a page by their headings."
    if isinstance(frames, dict):
        return frames
    if "test" not in frames:
        return {"": frames} if len(frames) else {}
    return dict(iter(frames.groupby("test", sort=False)))


def shown(
    tables: dict,                     # of `tables`
    columns: list[str] | None = None, # None for all
) -> dict[str, pd.DataFrame]:
    "Select the columns of tables that a page shows; of ranks, count how many moved how far."
    frames = {name: pd.DataFrame(table["moves"].items(), columns=["first relevant text", "queries"])
              if isinstance(table, dict) else table
              for name, table in tables.items()}
    return {name: frame.filter(items=columns or frame.columns.drop("test", errors="ignore"))
            for name, frame in frames.items() if len(frame)}


COLUMN_LABELS = { # of columns whose names say too little
    "base": "before, %", "tuned": "after, %", "value": "%", "change": "change, points", "share": "share of tuned",
    "threshold": "at",
    "false positives": "non-matches that pass, %", "recall": "matches that pass, %",
    "precision": "matches among all that pass, %",
    "both": "training pairs that both have it",
    "matches both": "of them matches, %", "wrong before": "wrong before, %", "wrong after": "after, %",
    "instead": "first now",
    "found": "detectable, points", "kept": "gain kept, %", "error": "largest error, points",
    "bound": "lower end if picked, points",
    "lost": "lost by fine-tuning (below 0: gained), points", "base change": "change of the base, points",
    "more": "difference, points", "score before": "score before, %", "score after": "score after, %",
}
# of other columns: a count, or a fraction in percent
UNITS = dict.fromkeys(("change", "more", "base change", "bound"), signed_points)
UNITS |= {"threshold": "{:.3f}".format}
UNITS |= dict.fromkeys(("share", "strength", "rank before", "rank after", "items"), exact)
UNITS |= {"metric": TITLES.get, "found": detectable_size, "p": "{:.4f}".format, "words": len, "examples": examples}


def is_shown(column: str, value) -> bool:
    "Decide whether a column is shown: it is neither the end of an interval nor the importance of words."
    return column.rpartition(" ")[2] not in ("low", "high") and (column in UNITS or not isinstance(value, list))


def cell(row: dict, column: str) -> str:
    "Write a value in the unit of its column, with its interval if the row has one."
    value = row[column]
    if f"{column} after" in row:
        return shaded(value, row[f"{column} before"], row[f"{column} after"])
    unit = UNITS.get(column) or {int: "{:,}".format, float: percent}.get(type(value), str)
    begin = "" if column == "change" or column == "value" and "change" not in row else f"{column} "
    if f"{begin}low" not in row:
        return isolated(f"{unit(value)}")
    ends = [unit(row[begin + end]) for end in ("low", "high")]
    return Markup('{} <span class="soft">({} to {})</span>').format(unit(value), *ends)


@cache
def environment() -> Environment:
    "Return what fills the templates: on pages everything is escaped, and nothing undefined."
    env = Environment(
        loader=PackageLoader("debias_nb.diagnosis", "."), autoescape=select_autoescape(("html.j2",)),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    env.filters |= {"percent": percent, "signed": signed_points, "repr": repr, "coded": coded, "commented": commented,
                    "counted": counted}
    env.globals |= {"between": position, "scale": scale, "side_of": side_of, "labels": COLUMN_LABELS, "cell": cell,
                    "is_shown": is_shown}
    return env


def filled(template: str, **values) -> str:
    "Fill a template: a page, or a program to copy."
    return environment().get_template(template).render(values)


def screen(decision, cards: list[dict], **values) -> str: # decision: a `Decision` or a `Recommendation`
    "Write the answer and its cards, as a notebook shows them; with more values, the page that begins with them."
    results = [vars(result) for card in cards for result in card["results"]]
    template = "page.html.j2" if values else "cards.html.j2"
    return filled(template, decision=decision, cards=cards, shared_scale=scale(results), alone=not values, **values)


MEANING = { # of metrics that decide
    "auc05": "the area under the ROC curve up to 5% false positives, in percent of the largest possible; chance is 2.5",
    "ap": "the mean precision down to each match", "accuracy": "how often a relevant text stands first",
    "ndcg10": "how high relevant texts stand among the first ten; 100 is best",
}


def page(sections: list[Section], metrics, **values) -> str: # metrics: those that decide; values: those of the template
    "Write a page of the sections that are not empty; the answer and its cards come first."
    parts = [section for section in sections if section.sentences or section.tables or section.program]
    meaning = " ".join(f"{TITLES[metric]}: {MEANING.get(metric, 'in percent of the best possible')}."
                       for metric in dict.fromkeys(metrics))
    return screen(sections=parts, meaning=meaning, **values)


def trade_picture(*values) -> str: # as the macro takes them
    "Draw what is gained on one kind of data for what is lost on another."
    return environment().get_template("pictures.html.j2").module.trade(*values)


FORMULA = ("=", "+", "-", "@", "\t", "\r") # what begins one in a spreadsheet


def _plain(value): # a frame, or something of numpy
    "Turn a value into one of JSON."
    return value.to_dict("records") if isinstance(value, pd.DataFrame) else value.tolist()


def json_text(values: dict) -> str: # of lists, dicts, frames, dataclasses, strings and numbers
    "Write the twin of a page; a number that is missing or not finite is null."
    exact = to_json({"made by": "debias-nb"} | values, inf_nan_mode="null", fallback=_plain)
    plain = json.loads(exact, parse_float=lambda number: round(float(number), 6))
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def csv_text(table: pd.DataFrame) -> str:
    "Write a table for spreadsheets: a text that one would take for a formula begins with an apostrophe."
    texts = table.map(lambda cell: f"'{cell}" if isinstance(cell, str) and cell[:1] in FORMULA else cell)
    return texts.to_csv(index=False)


PACKAGES = ("torch", "sentence-transformers", "transformers", "tokenizers", "numpy", "pandas", "scikit-learn")


def versions() -> dict[str, str]:
    "Return the versions of what computes."
    return ({"debias-nb": __version__, "Python": platform.python_version()}
            | {name: metadata.version(name) for name in PACKAGES})


def file_facts(file: PairFile) -> dict:
    "Return what a page says of a file."
    matches = file.labels > 0
    facts = {
        "name": file.path or file.name, "path": file.path, "form": file.form, "pairs": len(file),
        "matches": int(matches.sum()),
        "mean": float(matches.mean()), "sha256": file.sha256, "columns": list(file.columns),
    }
    if file.form != "pairs":
        facts["queries"] = int(file.frame["query"].nunique())
    if file.corpus is not None:
        facts["corpus"] = len(file.corpus)
    return facts | {name: getattr(file, name) for name in ("note", "left_out", "matching") if getattr(file, name)}


def file_notes(files: dict[str, dict]) -> list[str]: # of `file_facts`, by name
    "Say which files are written otherwise than their names say, and what was left out."
    notes = [f"{name}: {file['note']}." for name, file in files.items() if "note" in file]
    for name, file in files.items():
        notes += [f"{name}: {counted(count, reason)} {'was' if count == 1 else 'were'} left out."
                  for reason, count in file.get("left_out", {}).items()]
    return notes


def made_section(facts: dict, notes: list[str], **tables: pd.DataFrame) -> Section: # facts: of `made_of`
    "Return the section on inputs, versions, and the command."
    files = facts["files"] | ({"unlabeled": facts["texts"]} if facts.get("texts") else {})
    for name, entries in {"files": files, "models": facts["models"]}.items():
        if not entries:
            continue
        omitted_columns = ["path", "source", "mean", "columns", "note", "left_out", "matching"]
        frame = pd.DataFrame(entries.values()).drop(columns=omitted_columns, errors="ignore")
        frame.insert(0, name, [*entries])
        tables[name] = frame
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return Section("made", "How was this made?", notes, tables, program=facts["command"] or "", note=f"{versions}.")


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
