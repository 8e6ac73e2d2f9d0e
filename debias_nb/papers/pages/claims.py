"""Claims and errata of a paper, as `experiments/<paper>/claims.yaml` and `errata.yaml` state them.

A claim asks for one difference or more; one estimate over all comparisons answers each, in one of seven words.
`Book.estimates` is the table of them, a row each; pages are made from that table."""
import math
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import pandas as pd
from pydantic import Field, field_validator

from ...checks import ConfigError
from ...files import Names, Settings, Strict, load_config, project_root
from ...measures import stats
from ...measures.pooling import Estimate, estimate, printed_size
from ...measures.stats import LEVEL, is_within
from ...runs.pairing import bracket
from .comparisons import ClaimEvidence, Line, above, add_claim_verdicts
from .frame import PROFILES, Results, Study, all_experiments, only
from .printed import PrintedCells, PrintedCheck, describe_checks, fact, in_part, in_unit, printed_verdict, text_fact
from .printed import truths

YES, REVERSE, SIZE, WITHIN, DEPENDS, UNSURE, NOT_RUN = VERDICTS = (
    "Yes", "No, the reverse", "No: by more or less", "No: within a point", "It depends", "Cannot tell", "Not run")


# ---------------------------------------------------------------- what files state


class Cells(Strict):
    "Printed numbers, by the names of their cells."
    table: str | Names | None = None
    number: Literal["value", "std"] | None = None
    base: str | Names | None = None
    method: str | Names | None = None
    methods: tuple[str, str] | None = None         # one minus the other
    column: str | Names | None = None
    weight: str | None = None
    mask_share: str | None = None
    rate: str | None = None
    best: Literal["method", "column"] | None = None # the largest of the cells that differ in it
    least: bool = False                             # the smallest
    exception: str | None = None                    # a method that does not count

    @property
    def names(self) -> dict[str, Any]: # those that are given
        return self.model_dump(include=set(Cells.model_fields), exclude_unset=True)

    def numbers(self, paper: PrintedCells, default: dict[str, Any]) -> pd.Series | float: # default: names
        """Return the numbers, those of `default` where a name is not given.

        Raises `ValueError` for an unknown name."""
        dropped = {"best", "least", "exception"}
        if {"method", "methods"} & self.names.keys():
            dropped |= {"method", "methods"}
        names = {key: value for key, value in default.items() if key not in dropped} | self.names
        names = {key: value for key, value in names.items() if value is not None} # `null`: without that name
        methods = names.pop("methods", None)
        if methods:
            return paper.gap(names.pop("table"), *methods, **names)
        if "best" in names:
            return paper.best(names.pop("best"), but=names.pop("exception", None), **names)
        return paper(**names)


class PrintedFact(Cells):
    "What printed numbers have to be: those of cells, less or over those of others, which have the same names if any."
    label: str
    minus: Cells | None = None
    over: Cells | None = None
    items: Cells | float | None = None # the numbers are percentages of so many: how far from a whole number of them
    titles: str | None = None # a list: the `first` title of the `method`, or how many titles say a `word`
    rows: str | None = None   # a table: how many methods it has, or whether a `word` is one
    first: str | None = None
    word: str | None = None
    products: tuple[tuple[float, ...], ...] = () # of printed numbers, whose sum counts
    relation: str = ">"
    bound: float = 0.
    unit: str = ""
    place: str = ""

    def facts(self, paper: PrintedCells) -> list[PrintedCheck]:
        """Compare the printed numbers, place by place.

        Raises `ValueError` for an unknown name or relation, and `KeyError` for an unknown list."""
        if self.titles or self.rows:
            return text_fact(self.label, *self._words(paper))
        numbers = sum(map(math.prod, self.products)) if self.products else self.numbers(paper, {})
        for cells, combine in ((self.minus, operator.sub), (self.over, operator.truediv)):
            if cells:
                numbers = combine(numbers, cells.numbers(paper, self.names))
        if self.items:
            items = self.items.numbers(paper, {}) if isinstance(self.items, Cells) else self.items
            numbers = numbers - 100 * round(numbers * items / 100) / items
        return fact(self.label, numbers, self.relation, self.bound, self.unit, self.place)

    def _words(self, paper: PrintedCells) -> tuple[str, str, bool]:
        "Return what stands there, in titles or names of methods, what the text says, and whether it is so."
        if self.rows:
            rows = paper.frame[paper.frame.table == self.rows]
            methods = [name for name in rows.method.unique() if name != self.exception]
            if self.word:
                return ", ".join(methods), f"a row {self.word}", self.word in methods
            return str(len(methods)), f"{self.bound:g}", len(methods) == self.bound
        titles = paper.expected.lists[self.titles].rows[self.method]
        if not self.word:
            return titles[0], self.first, titles[0] == self.first
        if self.first:
            return titles[0], self.first, self.word in titles[0].lower()
        count = sum(self.word in title.lower() for title in titles)
        return f"{count} of {len(titles)} titles", f"at least {self.bound:g} say “{self.word}”", count >= self.bound


class Ranked(Strict):
    "Methods as the mean of their scores in another table ranks them, best first; as they stand, if one has none."
    ranking: Names
    table: str
    column: str | Names

    def order(self, evidence: ClaimEvidence, profile: str) -> Names:
        place = above(self.table, *self.ranking[:2], column=self.column, profiles=(profile,))[0]
        values = {method: [] for method in self.ranking}
        for cell in filter(place.fits, evidence.cells(self.table)):
            if cell.value is not None and cell.method in values:
                values[cell.method].append(cell.value)
        means = pd.Series({method: sum(scores) / len(scores) for method, scores in values.items() if scores})
        return tuple(means.sort_values(ascending=False).index) if len(means) == len(self.ranking) else self.ranking


def _fill(value, names: dict[str, str]):
    "Fill names in braces into the texts of a value."
    if isinstance(value, dict):
        return {key: _fill(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_fill(item, names) for item in value)
    return value.format_map(names) if isinstance(value, str) else value


class Comparisons(Strict):
    "Comparisons of methods in our runs, each above the next one, as `above` takes them; options are those of `Line`."
    table: str
    methods: Ranked | tuple[str | Names, ...]
    column: str | Names = "*"
    metric: str = ""
    minus: dict[str, str | Names | tuple[str | Names, ...]] = {}
    shift: Literal["iid", "ood", "any"] = "any"
    role: Literal["weak", "strong", "any"] = "any"
    profiles: Names = PROFILES
    margin: float = 0.
    analogue: str = ""
    printed: str = ""
    primary: bool = True
    cases: dict[str, Names] = {} # name in braces -> its values: a comparison for each

    def lines(self, evidence: ClaimEvidence) -> Iterator[Line]:
        "Yield the lines. Raises `ValueError` as `above`, and for a name in braces that has no value."
        options = self.model_dump(exclude_unset=True, exclude={"methods", "cases"})
        for values in zip(*self.cases.values(), strict=True) if self.cases else [()]:
            names = dict(zip(self.cases, values))
            settings = _fill(options, names)
            ranked = isinstance(self.methods, Ranked)
            methods = self.methods.order(evidence, self.profiles[0]) if ranked else _fill(self.methods, names)
            yield from above(settings.pop("table"), *methods, **settings)


class StatedPart(Settings):
    "One statement, with its tests in the paper's own numbers and in our runs."
    statement: str = ""
    printed: tuple[PrintedFact, ...] = ()
    ours: tuple[Comparisons, ...] = ()


class StatedClaim(StatedPart):
    "A claim, or the parts of one by letter, whose comparisons are corrected together."
    id: str = Field(pattern=r"^([RQ]-)?[A-Z]\d+$") # R- and Q-: not the paper's, and registered before its runs
    place: str = ""
    note: str = ""             # how words are read
    parts: dict[str, StatedPart] = {}

    def rules(self):
        yield not self.statement and not self.parts, "a claim has a `statement`, or `parts` by letter"
        yield bool(self.statement and self.parts), "a claim of several parts has no `statement` of its own"
        yield any(not part.statement for part in self.parts.values()), "each of the `parts` has a `statement`"

    @property
    def by_letter(self) -> dict[str, StatedPart]:
        return dict(sorted(self.parts.items())) or {"": self}


class StatedErratum(Strict):
    "A place where a paper contradicts itself, or where a reader may stumble."
    id: str = Field(pattern=r"^E-[A-Z]\d+$")
    # `contradiction`: the facts state what the text says; `inconsistency`: a minor one, which the facts state
    kind: Literal["contradiction", "inconsistency"]
    title: str
    text: str
    printed: tuple[PrintedFact, ...] = ()


class Statements(Strict):
    "A file of claims or errata, each id once."
    names: dict[str, Any] = {} # what the file refers to with `*`
    claims: tuple[StatedClaim, ...] = ()
    errata: tuple[StatedErratum, ...] = ()

    @field_validator("claims", "errata")
    @classmethod
    def _each_once(cls, items):
        ids = [item.id for item in items]
        if len(ids) > len(set(ids)):
            raise ValueError(f"{next(id for id in ids if ids.count(id) > 1)} occurs twice")
        return items


def load_statements(paper: str, kind: Literal["claims", "errata"]) -> Statements: # without a file there are none
    """Read and validate `experiments/<paper>/<kind>.yaml`.

    Raises `ConfigError` naming file, claim and key."""
    source = f"experiments/{paper}/{kind}.yaml"
    path = project_root() / source
    return load_config(path, Statements, source) if path.is_file() else Statements()


# ---------------------------------------------------------------- from comparisons to one word


PAIR = re.compile(r"^(?P<metric>.*: )?(?P<a>.+) − (?P<b>.+?)$")


def _named(comparisons: pd.DataFrame) -> pd.DataFrame: # of `ClaimEvidence.compare`
    "Sign each difference as its names say: plain fine-tuning and what else is a reference is subtracted."
    sign = comparisons.direction.map({"above": 1, "below": -1})
    ends = comparisons[["difference", "low", "high"]].mul(sign, axis=0) + 0.
    turned = comparisons.comparison.str.replace(PAIR, r"\g<metric>\g<b> − \g<a>", regex=True)
    return comparisons.assign(difference=ends.difference, low=ends.min(axis=1), high=ends.max(axis=1), sign=sign,
                              comparison=comparisons.comparison.where(sign > 0, turned))


def verdict(
    mean: Estimate | None, corrected: Estimate | None, # of the side that a claim puts ahead; at the level of all its
    words: set[str],          # of its comparisons one by one, of `stats.WORDS`; questions
    margin: float, delta: float,
    size: str,                # of `pooling.SIZES`, or empty
    states_size: bool,        # whether the claim is about the size that is printed
) -> str: # of `VERDICTS`
    "Answer one question from its estimate."
    if mean is None:
        return UNSURE if "cannot tell" in words else NOT_RUN
    if {"better", "worse"} <= words:
        return DEPENDS
    if mean.low > -margin:
        return YES
    if corrected.high < -margin:
        return SIZE if margin else REVERSE
    if is_within(corrected.low + margin, corrected.high + margin, delta):
        return WITHIN
    if size == "excluded" and (states_size or mean.high < 1 or mean.low > -1):
        return SIZE
    return UNSURE


def combined(verdicts: list[str]) -> str: # of the questions of a claim
    "Answer a claim: *Yes* takes each of its questions; answers that differ in kind make it depend."
    decided = {*verdicts} - {UNSURE, NOT_RUN}
    if len(decided) > 1:
        return DEPENDS
    if not decided or decided == {YES} and UNSURE in verdicts:
        return UNSURE if UNSURE in verdicts else NOT_RUN
    return decided.pop()


def _quoted(name: str) -> str: # of a method
    "Quote a name that holds a plus, so that it cannot be read as a sum."
    return f"`{name}`" if " + " in name and "`" not in name else name


@dataclass(frozen=True)
class Claim:
    "One statement, what the paper's own cells say to it, and the comparisons of our runs."
    paper: str
    id: str                # `A1a`
    statement: str
    place: str             # where the paper says so
    facts: list[PrintedCheck]
    comparisons: pd.DataFrame # a row each

    @property
    def is_papers(self) -> bool:
        return not self.id.startswith(("R-", "Q-"))

    def primary(self, profile: str) -> pd.DataFrame:
        return only(self.comparisons, primary=True, profile=profile)

    def _as_ours(self, label: str) -> tuple[str, int]: # the sign that turns a number round
        "Name a printed difference as the page names ours."
        match = PAIR.match(label)
        if not match:
            return label, 1
        pairs = self.primary("small").comparison.str.extract(PAIR)
        is_reversed = match["a"] in {*pairs.b} - {*pairs.a}
        first, other = (match["b"], match["a"]) if is_reversed else (match["a"], match["b"])
        return f"{_quoted(first)} − {_quoted(other)}", -1 if is_reversed else 1

    def _numbers(self) -> dict[tuple[str, str], list[float]]: # name and unit -> printed numbers
        found = {}
        for one in self.facts:
            if one.holds is not None and one.number is not None:
                name, sign = self._as_ours(one.label)
                found.setdefault((name, one.unit), []).append(sign * one.number)
        return found

    @property
    def printed(self) -> str: # e.g. `SCAN − w/o FD: +0.01 to +0.03 (2 of 4)`; empty where nothing is printed
        "Say how far the printed numbers go, and in how many places they bear the claim out, if not in all."
        texts = []
        for (name, unit), values in self._numbers().items():
            extent = " to ".join(in_unit(end + 0., unit) for end in dict.fromkeys([min(values), max(values)]))
            texts.append(f"{name}: {extent.replace(f' {unit} to ', ' to ')}")
        so = {"holds": "", "does not hold": " (no)"}.get(
            printed_verdict(self.facts), f" ({printed_verdict(self.facts).removeprefix('holds in ')})")
        return f"{'; '.join(texts) or 'words'}{so}" if truths(self.facts) else ""

    def estimates(self, profile: str) -> list[dict]: # a row a question; one without numbers where nothing was run
        "Answer each question from one estimate, and the claim from all of them."
        rows = self.primary(profile)
        asked = [(*((side.names, side.metric) for side in line.sides), line.names, line.margin) for line in rows.line]
        groups = [own for _, own in rows.groupby(pd.Series(asked, rows.index, dtype=object), sort=False)]
        made = [[pair for pair in own.paired if pair and pair.sources and not math.isnan(pair.error)] for own in groups]
        level = 1 - (1 - LEVEL) / max(sum(map(bool, made)), 1)
        out = [self._question(own, pairs, level) for own, pairs in zip(groups, made)]
        word = combined([one["answer"] for one in out])
        tables = "; ".join(rows.table[rows.difference.notna()].unique())
        about = {"paper": self.paper, "claim": self.id, "statement": self.statement, "place": self.place,
                 "printed": self.printed, "profile": profile, "verdict": word, "tables": tables}
        return [about | one for one in out if "difference" in one] or [about]

    def _question(self, rows: pd.DataFrame, pairs: list[stats.Paired], level: float) -> dict:
        first = rows.iloc[0]
        words = {*rows.verdict}
        if not pairs:
            return {"answer": verdict(None, None, words, 0., 0., "", False)}
        mean = estimate(pairs)
        label = first.line.printed or PAIR.sub(r"\g<a> − \g<b>", first.comparison)
        sizes = {name.replace("`", ""): values for (name, unit), values in self._numbers().items() if not unit}
        sizes = [first.sign * number for number in sizes.get(label, ())]
        size = printed_size(mean, sizes, 1.) if sizes else ""
        word = verdict(mean, estimate(pairs, level), words, first.margin, first.delta, size,
                       any(one.asked.startswith("= ") for one in self.facts))
        ends = sorted(first.sign * end + 0. for end in (mean.low, mean.high))
        reasons = "; ".join(dict.fromkeys(filter(None, (line.analogue for line in rows.line))))
        pair = PAIR.match(first.comparison)
        name = f"{_quoted(pair['a'])} − {_quoted(pair['b'])}" if pair else first.comparison
        return {"question": f"{pair['metric'] or ''}{name}" if pair else name, "tests": mean.n,
                "difference": first.sign * mean.difference + 0., "low": ends[0], "high": ends[1], "p": mean.p,
                "seeds_alone": mean.seeds_alone, "printed_size": size, "answer": word, "reason": reasons}


ESTIMATES_FILE = "claims.estimates.csv"
ESTIMATE = ["paper", "claim", "statement", "place", "printed", "profile", "question", "tests", "difference", "low",
            "high", "p", "seeds_alone", "printed_size", "answer", "verdict", "tables", "reason"]


class Book:
    "The claims of one paper, and the table of their estimates."
    def __init__(self, paper: str, evidence: ClaimEvidence):
        self.paper, self.evidence, self.printed = paper, evidence, PrintedCells(paper)
        self.claims = {one.id: one for entry in load_statements(paper, "claims").claims for one in self._parts(entry)}
        rows = [row for claim, profile in product(self.claims.values(), PROFILES) for row in claim.estimates(profile)]
        self.estimates = pd.DataFrame(rows, columns=ESTIMATE)

    def _parts(self, entry: StatedClaim) -> Iterator[Claim]:
        "Yield the parts of a claim, whose comparisons are corrected together. Raises `ConfigError` naming the part."
        facts, found = {}, []
        for letter, part in entry.by_letter.items():
            try:
                facts[letter] = [fact for test in part.printed for fact in test.facts(self.printed)]
                lines = [line for test in part.ours for line in test.lines(self.evidence)]
                found.append(self.evidence.compare(lines).assign(part=letter))
            except (ValueError, KeyError) as e:
                raise ConfigError(f"experiments/{self.paper}/claims.yaml: {entry.id}{letter}: {e}") from None
        rows = _named(add_claim_verdicts(pd.concat(found, ignore_index=True)))
        for letter, part in entry.by_letter.items():
            yield Claim(self.paper, entry.id + letter, part.statement, entry.place, facts[letter],
                        only(rows, part=letter))

    def verdict(self, claim: str, profile: str = "small") -> str:
        return only(self.estimates, claim=claim, profile=profile).verdict.iloc[0]

    def measured(self, claim: str, profile: str = "small") -> str:
        return measured(only(self.estimates, claim=claim, profile=profile))


def read_book(paper: str, results: Results) -> Book:
    """Read the claims of a paper, once for some results.

    Raises `ConfigError` naming file and claim."""
    return results.once(("claims", paper), _make_book, paper, results)


def _make_book(paper: str, results: Results) -> Book:
    cells, records = [], {}
    for experiment in all_experiments(paper):
        study = results.load(experiment.name, experiment.profile)
        cells += study.cells
        records |= study.records_by_id
    return Book(paper, ClaimEvidence(cells, records))


def measured(estimates: pd.DataFrame) -> str: # of one claim; e.g. `ITVReg − Finetuned: +0.6 [+0.2, +1.0], …`
    "Give estimates, and where the printed sizes stand to them."
    rows = estimates.dropna(subset="difference").itertuples()
    return "; ".join(f"{row.question}: {bracket(row)}{f', printed size {row.printed_size}' * bool(row.printed_size)}"
                     for row in rows)


def resting_on(results: Results, *studies: Study) -> str: # Markdown, a line; empty for runs of one's own
    "Answer the claims that rest on the studies of a page, from the table of estimates beside the pages."
    experiment = studies[0].experiment
    folders = filter(None, (results.pages, project_root() / "reports"))
    path = next((folder / ESTIMATES_FILE for folder in folders if (folder / ESTIMATES_FILE).is_file()), None)
    if studies[0].own or path is None:
        return ""
    tables = {table.id for study in studies for table in study.experiment.tables}
    by_word = {}
    rows = results.once((path,), pd.read_csv, path)
    for row in only(rows, paper=experiment.paper, profile=experiment.profile).drop_duplicates("claim").itertuples():
        if isinstance(row.tables, str) and tables & {*row.tables.split("; ")}:
            by_word.setdefault(row.verdict, []).append(f"[{row.claim}](../claims.ipynb#{row.claim.lower()})")
    lines = [f"{', '.join(ids)} (**{word}**)" for word, ids in by_word.items()]
    return f"Claims on these runs, each judged over all of its comparisons: {'; '.join(lines)}." if lines else ""


# ---------------------------------------------------------------- errata


ERRATA = { # kind -> what an erratum is that its facts bear out, one without any, and whether they do where they hold
    "contradiction": ("contradicted", "text against text", False),
    "inconsistency": ("confirmed", "of the text alone", True),
}


def errata_of(paper: str) -> pd.DataFrame: # a row each: id, kind, title, text, verdict, checks; facts
    """Recompute the errata of a paper from its printed numbers.

    Raises `ConfigError` naming file and erratum."""
    numbers = PrintedCells(paper)
    rows = []
    for entry in load_statements(paper, "errata").errata:
        try:
            facts = [fact for test in entry.printed for fact in test.facts(numbers)]
        except (ValueError, KeyError) as e:
            raise ConfigError(f"experiments/{paper}/errata.yaml: {entry.id}: {e}") from None
        word, alone, so = ERRATA[entry.kind]
        hits = [holds is so for holds in truths(facts)]
        rows.append(dict(paper=paper, id=entry.id, kind=entry.kind, title=entry.title, text=entry.text, facts=facts,
                         verdict=in_part(hits, word, f"not {word}") if hits else f"{alone}, no cells to recompute",
                         checks=describe_checks(facts, so)))
    return pd.DataFrame(rows)


def errata_page(paper: str) -> list[str]: # Markdown, a part each
    "Tell each erratum, with its verdict and the checks that bear it out."
    parts = []
    for row in errata_of(paper).itertuples():
        told = ": ".join(filter(None, [f"**Verdict:** {row.verdict}", row.checks]))
        parts.append(f"## {row.id}. {row.title}\n\n{row.text}\n{told}.")
    return parts


def printed_checks(books: dict[str, Book]) -> pd.DataFrame: # a row each
    "List every printed number that a claim or an erratum asks about."
    of_claims = [(paper, claim.id, claim.facts) for paper, book in books.items() for claim in book.claims.values()]
    of_errata = [(row.paper, row.id, row.facts) for paper in books for row in errata_of(paper).itertuples()]
    rows = [dict(paper=paper, of=name, **vars(one)) for paper, name, facts in of_claims + of_errata for one in facts]
    return pd.DataFrame(rows)[["paper", "of", "label", "place", "found", "asked", "holds"]]
