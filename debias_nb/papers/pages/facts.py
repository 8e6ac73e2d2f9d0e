"""What pages state, by name, with the records that it rests on; and Markdown that names such facts.

`%load_ext debias_nb.papers.pages.facts` lets a cell that begins with `%%markdown` name them: `{{ tuned_sites }}`."""
import csv
import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path

import jinja2
import numpy as np
import pandas as pd

from ...files import project_root
from ...runs.pairing import signed
from .claims import extent
from .compare import WORDS, Question, words_of_tests
from .execution import NOT_RUN_HERE, run_notebook
from .frame import Results, all_experiments
from .tables import show

FACTS_FILE = "facts.csv"
FACTS_KEY = "facts", # in `Results.values`
SHOWN = {"points": signed, "fraction": "{:.0%}".format, "times": "{:.1f}".format, "": "{:,}".format} # by unit
FACT_DIGITS = 6 # that are stored of a number


@dataclass(frozen=True)
class Fact:
    "A number or a word that pages state; of a question its estimate and word, and how far its tests go."
    name: str
    value: float | str | None = None # None: the smallest and the largest of several alone
    low: float | None = None         # the end of its interval, or the smallest of several
    high: float | None = None
    unit: str = ""                   # one of `SHOWN`; empty: a count, or words
    tests: int | None = None
    better: int | None = None
    worse: int | None = None
    within: int | None = None        # a point
    open: int | None = None
    records: str = ""                # experiments and tables, `itvreg/table03.small:table3`
    mean: float | None = None        # of a question, its estimate with its 95% interval
    mean_low: float | None = None
    mean_high: float | None = None
    word: str = ""                   # of `compare.WORDS`
    reported: str = ""               # `+2.2 over plain fine-tuning †`

    def __str__(self) -> str: # `34% [26%, 43%]`, `−1.8 to +0.1`, `1,440`
        if isinstance(self.value, str):
            return self.value
        value, *ends = ("" if number is None else SHOWN[self.unit](number)
                        for number in (self.value, self.low, self.high))
        if self.low is None:
            return value
        return f"{value} [{', '.join(ends)}]" if value else " to ".join(dict.fromkeys(ends))

    @property
    def extent(self) -> str: # `lost 0.9 to 26.5 points`
        return extent(pd.Series([self.value, self.value] if self.low is None else [self.low, self.high]))

    @property
    def listed(self) -> str: # `a, b, c` -> `a, b and c`
        return " and ".join(self.value.rsplit(", ", 1))

    @property
    def estimate(self) -> str: # `+1.3 [+0.9, +1.8]`; empty where there is none
        if self.mean is None:
            return ""
        return f"{signed(self.mean)} [{signed(self.mean_low)}, {signed(self.mean_high)}]"


@cache
def _experiments_of(paper: str) -> dict[tuple[str, str], str]: # table, profile -> experiment
    return {(table.id, one.profile): f"{one.name}.{one.profile}" for one in all_experiments(paper)
            for table in one.tables}


def records_of(tests: pd.DataFrame) -> str: # of `compare`
    "Name the experiments and tables that comparisons rest on."
    places = tests[["paper", "table", "profile"]].drop_duplicates()
    places = places.assign(table=places.table.str.split("; ")).explode("table")
    return "; ".join(f"{_experiments_of(one.paper)[one.table, one.profile]}:{one.table}" for one in places.itertuples())


def _stored(number):
    return float(f"{number:.{FACT_DIGITS}g}") + 0. if isinstance(number, float) else number


class Facts(dict): # name -> `Fact`
    "Facts by name; `questions` has those behind them, and `frames` tables."
    def __init__(self, facts: Iterable[Fact] = ()):
        super().__init__((fact.name, fact) for fact in facts)
        self.questions: dict[str, Question] = {}
        self.frames: dict[str, pd.DataFrame] = {}

    def add(
        self,
        name: str,
        value: float | str | None = None,
        ends: Iterable[float] = (), # whose smallest and largest are the ends
        unit: str = "",
        records: str = "",
        **more: float | str | None, # of tests, as `Fact` has them
    ) -> None:
        """Add a fact; of nothing that was run there is none.

        Raises `ValueError` for a name that is there."""
        if name in self:
            raise ValueError(f"fact {name} occurs twice")
        value = value.item() if isinstance(value, np.generic) else value
        ends = [float(end) for end in ends]
        if value is None and not ends and not more or value != value:
            return
        low, high = (min(ends), max(ends)) if ends else (None, None)
        self[name] = Fact(name, _stored(value), _stored(low), _stored(high), unit, records=records,
                          **{key: _stored(number) for key, number in more.items()})

    def ask(self, name: str, question: Question) -> None:
        "Add the fact of a question."
        tests = question.tests
        if tests.empty or not question.mean:
            return
        words = words_of_tests(tests)
        counts = {key: int((words == word).sum()) for key, word in zip(("better", "worse", "within", "open"), WORDS)}
        mean = {"mean": question.mean.difference, "mean_low": question.mean.low, "mean_high": question.mean.high}
        self.add(name, None, tests.difference, "points", records_of(tests), tests=len(tests), **counts, **mean,
                 word=question.word, reported=question.reported_text)
        self.questions[name] = question

    def asked(self, *names: str) -> list[Question]:
        "Return the questions of facts that were run."
        return [self.questions[name] for name in names if name in self.questions]

    def csv(self) -> str:
        rows = pd.DataFrame(map(astuple, self.values()), columns=[field.name for field in fields(Fact)], dtype=object)
        return rows.to_csv(index=False, lineterminator="\n")

    @classmethod
    def read(cls, folder: str | Path | None = None) -> "Facts": # folder: of the pages; None: those of the project
        "Read the facts next to the pages."
        text = (Path(folder or project_root() / "reports") / FACTS_FILE).read_text("utf-8")
        rows = csv.DictReader(text.splitlines())
        return cls(Fact(**{name: _read(cell) for name, cell in row.items() if cell}) for row in rows)

    @classmethod
    def of(cls, results: Results, folder: str | None = None) -> "Facts": # folder: as `read`
        "Compute the facts of some records, once, as `nbs/papers/facts.ipynb` does."
        if FACTS_KEY not in results.values:
            with results.shared():
                run_notebook(project_root() / "nbs/papers/facts.ipynb", {"folder": folder or ""})
        return results.values[FACTS_KEY]

    def render(
        self,
        text: str, # Markdown that names facts
        **names,   # that it may name as well
    ) -> str:
        "Put the values of facts in their places; one that is not there says so."
        def claim(name):
            return f"[{name}](./claims.ipynb#{name.lower()}): *{self.get(name, NOT_RUN_HERE)}*"

        environment = jinja2.Environment(undefined=Absent, trim_blocks=True, lstrip_blocks=True)
        return environment.from_string(text).render(names | self | {"claim": claim})


class Absent(jinja2.ChainableUndefined):
    "A fact that no run gives, and whatever is asked of it."
    def __str__(self) -> str:
        return NOT_RUN_HERE


NUMBER = re.compile(r"(?<![\w.,@/#-])[+−]?\d+(?:,\d{3})*(?:\.\d+)?%?(?![\w]|\.\d)") # of a sentence


def _read(text: str) -> int | float | str: # of the file
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def load_ipython_extension(shell) -> None:
    "Let cells of Markdown name the facts that the notebook calls `facts`, and what else it has."
    def markdown(line, cell):
        show(shell.user_ns["facts"].render(cell, **shell.user_ns))

    shell.register_magic_function(markdown, "cell")
