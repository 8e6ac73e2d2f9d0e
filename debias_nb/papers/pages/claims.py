"""Claims, questions and errata, as `experiments/` states them; one of five words for each claim.

A claim or a question compares two methods or more, and one estimate over all tests answers each difference."""
import math
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Literal

import pandas as pd
from pydantic import Field, field_validator

from ...checks import ConfigError, check_known
from ...files import Names, Settings, Strict, load_config, once_per_state, project_root
from ...measures.pooling import Estimate
from ...measures.stats import estimate_word
from ...runs.pairing import signed
from .compare import BETTER, POINT, WITHIN, WORSE, Compared, Question, are_named, compare, words_of_tests
from .execution import NOT_RUN_HERE
from .frame import PROFILES, Results, Study, only, papers
from .printed import Expected, PrintedCheck, describe_checks, fact, in_part, in_unit, load_expected, truths

# of a claim: Yes; No, and why; It depends; Cannot tell; Not run
YES, REVERSE, NO_CHANGE, LESS, MORE, DEPENDS, UNSURE, NOT_RUN = CLAIM_WORDS = (
    "Yes", "No: the reverse", "No: within a point", "No: less than reported", "No: more than reported", "It depends",
    "Cannot tell", "Not run")


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

    def numbers(self, paper: Expected, default: dict[str, Any]) -> pd.Series | float: # default: names
        """Return the numbers, those of `default` where a name is not given.

        Raises `ValueError` for an unknown name."""
        dropped = {"best", "least", "exception"}
        if {"method", "methods"} & self.names.keys():
            dropped |= {"method", "methods"}
        names = {key: value for key, value in default.items() if key not in dropped} | self.names
        names = {key: value for key, value in names.items() if value is not None} # `null`: without that name
        return paper(**names)


class PrintedFact(Cells):
    "What printed numbers have to be: those of cells, less or over those of others, which have the same names if any."
    label: str = ""
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

    def sizes(self, paper: Expected) -> pd.Series | float:
        "Return the reported numbers, subtracted or divided as asked. Raises `ValueError` for an unknown name."
        numbers = sum(map(math.prod, self.products)) if self.products else self.numbers(paper, {})
        for cells, combine in ((self.minus, operator.sub), (self.over, operator.truediv)):
            if cells:
                numbers = combine(numbers, cells.numbers(paper, self.names))
        return numbers

    def facts(self, paper: Expected) -> list[PrintedCheck]:
        """Compare the reported numbers, place by place.

        Raises `ValueError` for an unknown name or relation, and `KeyError` for an unknown list."""
        if self.titles or self.rows:
            found, asked, holds = self._words(paper)
            return [PrintedCheck(self.label, "", found, asked, bool(holds))]
        numbers = self.sizes(paper)
        if self.items:
            items = self.items.numbers(paper, {}) if isinstance(self.items, Cells) else self.items
            numbers = numbers - 100 * round(numbers * items / 100) / items
        return fact(self.label, numbers, self.relation, self.bound, self.unit, self.place)

    def _words(self, paper: Expected) -> tuple[str, str, bool]:
        "Return what stands there, in titles or names of methods, what the text says, and whether it is so."
        if self.rows:
            rows = paper.frame[paper.frame.table == self.rows]
            methods = [name for name in rows.method.unique() if name != self.exception]
            if self.word:
                return ", ".join(methods), f"a row {self.word}", self.word in methods
            return str(len(methods)), f"{self.bound:g}", len(methods) == self.bound
        titles = paper.lists[self.titles].rows[self.method]
        if not self.word:
            return titles[0], self.first, titles[0] == self.first
        if self.first:
            return titles[0], self.first, self.word in titles[0].lower()
        count = sum(self.word in title.lower() for title in titles)
        return f"{count} of {len(titles)} titles", f"at least {self.bound:g} say “{self.word}”", count >= self.bound


class StatedPart(Settings):
    "One statement, with its tests in the paper's own numbers and in our runs."
    statement: str = ""
    printed: tuple[PrintedFact, ...] = ()
    ours: tuple[Compared, ...] = ()


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


class StatedQuestion(Strict):
    "A question that pages quote by its id: two methods, on some tests."
    id: str
    paper: str
    name: str = ""               # on pages, with λ in braces; default: the two methods
    ours: tuple[Compared, ...]
    reported: tuple[PrintedFact, ...] = () # the differences of the cells that ours stand for
    over: str = ""               # what these are differences from
    strength: float | None = None # λ that they are reported at


class StatedErratum(Strict):
    "A place where a paper contradicts itself, or where a reader may stumble."
    id: str = Field(pattern=r"^E-[A-Z]\d+$")
    # `contradiction`: the facts state what the text says; `inconsistency`: a minor one, which the facts state
    kind: Literal["contradiction", "inconsistency"]
    title: str
    text: str
    printed: tuple[PrintedFact, ...] = ()


class Statements(Strict):
    "A file of claims, questions or errata, each id once."
    names: dict[str, Any] = {} # what the file refers to with `*`
    claims: tuple[StatedClaim, ...] = ()
    questions: tuple[StatedQuestion, ...] = ()
    errata: tuple[StatedErratum, ...] = ()

    @property
    def by_id(self) -> dict[str, Any]:
        return {one.id: one for one in (*self.claims, *self.questions, *self.errata)}

    @field_validator("claims", "questions", "errata")
    @classmethod
    def _each_once(cls, items):
        ids = [item.id for item in items]
        if len(ids) > len(set(ids)):
            raise ValueError(f"{next(id for id in ids if ids.count(id) > 1)} occurs twice")
        return items


_read_once = once_per_state(load_config)


def load_statements(name: str) -> Statements: # without a file there are none
    """Read and validate `experiments/<name>.yaml`: `itvreg/claims`, `questions`.

    Raises `ConfigError` naming file, claim and key."""
    source = f"experiments/{name}.yaml"
    path = project_root() / source
    return _read_once(path, Statements, source) if path.is_file() else Statements()


# ---------------------------------------------------------------- from estimates to one word


def answer_of(
    mean: Estimate | None,     # of a − b
    margin: float = 0.,        # points: a is claimed to be at most so much below b; negative: more than so much above
    size: float | None = None, # points that the claim itself gives
    tests: Iterable[str] = (), # of its tests one by one, of `compare.WORDS`
) -> str: # of `CLAIM_WORDS`
    "Answer whether a is above b."
    if mean is None:
        return NOT_RUN
    if {BETTER, WORSE} <= {*tests}:
        return DEPENDS
    word = estimate_word(mean.low, mean.high, POINT)
    if mean.low > -margin if margin else word == BETTER:
        is_outside = size is not None and not mean.low <= size <= mean.high
        return (LESS if size > mean.high else MORE) if is_outside else YES
    if margin > 0:
        return YES if word == WITHIN else REVERSE if mean.high < -margin else UNSURE
    if word in (WITHIN, WORSE):
        return NO_CHANGE if word == WITHIN else REVERSE
    if margin < 0 and mean.high < -margin or size is not None and size > mean.high:
        return LESS
    return MORE if size is not None and size < mean.low else UNSURE


def claim_word(answers: Iterable[str]) -> str: # of `CLAIM_WORDS`
    "Answer a claim of several differences: Yes takes each, and those that contradict each other make it depend."
    answers = {*answers}
    if DEPENDS in answers or {YES, REVERSE} <= answers:
        return DEPENDS
    return next((word for word in (REVERSE, NO_CHANGE, LESS, MORE, UNSURE, YES) if word in answers), NOT_RUN)


# ---------------------------------------------------------------- claims


@dataclass(frozen=True)
class Claim:
    "One statement, what the paper's own cells say to it, and the comparisons of our runs."
    paper: str
    id: str                # `A1a`
    statement: str
    place: str             # where the paper says so
    facts: tuple[PrintedCheck, ...]
    comparisons: pd.DataFrame # of `compare`

    @property
    def is_papers(self) -> bool:
        return not self.id.startswith(("R-", "Q-"))

    def reported(self, label: str, is_stated: bool = False) -> pd.Series: # points, by column; is_stated: by the claim
        "Return the reported differences of a label."
        facts = [one for one in self.facts if one.label == label and not one.unit and one.holds is not None
                 and one.number is not None and (not is_stated or one.asked.startswith("= "))]
        columns = pd.Index([one.place.rpartition(", ")[2] for one in facts], name="column")
        return pd.Series([one.number for one in facts], columns, dtype=float)

    @cached_property
    def _questions(self) -> dict[str, list[Question]]: # by profile
        found = {profile: [] for profile in PROFILES}
        for (profile, *_), own in self.comparisons.groupby(["profile", "key", "margin"], sort=False):
            found[profile].append(Question(own.name.iloc[0], own, self.reported(own.label.iloc[0])))
        return found

    def questions(self, profile: str = "small") -> list[Question]:
        return self._questions[profile]

    def word(self, profile: str = "small") -> str:
        "Answer the claim in one of its words; its tests are corrected together."
        words, answers = self._words(profile), []
        for question in self.questions(profile):
            first = question.rows.iloc[0]
            stated = self.reported(first.label, is_stated=True)
            size = float(stated.mean()) if len(stated) else None
            answers.append(answer_of(question.mean, first.margin, size, words[question.tests.index]))
        return claim_word(answers)

    def by_tests(self) -> str: # of `CLAIM_WORDS`
        "Answer as four experiments registered it: by what every test says that can tell."
        words = self._words("small")
        decided = {*words} & {BETTER, WORSE, WITHIN}
        return {(): UNSURE, (BETTER,): YES, (WORSE,): REVERSE}.get(tuple(decided), DEPENDS) if len(words) else NOT_RUN

    def _words(self, profile: str) -> pd.Series: # by test
        rows = only(self.comparisons, profile=profile)
        return words_of_tests(rows[rows.difference.notna()])

    @property
    def reported_text(self) -> str: # e.g. `SCAN − w/o FD: +0.02 (2 of 4)`; empty where nothing is reported
        "Give the reported differences, and in how many places they bear the claim out, if not in all."
        numbers = {}
        for one in self.facts:
            if one.holds is not None and one.number is not None:
                numbers.setdefault((one.label, one.unit), []).append(one.number)
        texts = [f"{label}: {in_unit(sum(own) / len(own) + 0., unit)}" for (label, unit), own in numbers.items()]
        hits = truths(self.facts)
        so = "" if all(hits) else f" ({sum(hits)} of {len(hits)})" if any(hits) else " (no)"
        return f"{'; '.join(texts) or 'words'}{so}" if hits else ""

    def ours_text(self, profile: str = "small") -> str: # e.g. `ITVReg − Finetuned: +0.6 [+0.2, +1.0], within a point`
        "Give our estimates, each with its word, and mark those that leave out the reported size."
        return "; ".join(f"{one.name}: {one.estimate}, {one.word}{' †' * one.is_outside}"
                         for one in self.questions(profile) if one.mean)


def read_claims(paper: str, results: Results) -> dict[str, Claim]: # by id
    """Read the claims of a paper, once for some results.

    Raises `ConfigError` naming file and claim."""
    return results.once(("claims", paper), _make_claims, paper, results)


def _make_claims(paper: str, results: Results) -> dict[str, Claim]:
    numbers = load_expected(paper)
    claims = {}
    for entry in load_statements(f"{paper}/claims").claims:
        for letter, part in entry.by_letter.items():
            try:
                facts = tuple(fact for test in part.printed for fact in test.facts(numbers))
            except (ValueError, KeyError) as e:
                raise ConfigError(f"experiments/{paper}/claims.yaml: {entry.id}{letter}: {e}") from None
            claims[entry.id + letter] = Claim(paper, entry.id + letter, part.statement, entry.place, facts,
                                              compare(paper, part.ours, results))
    return claims


def check_names(results: Results) -> None:
    """Check that tables have cells, at some profile, of what claims and questions compare.

    Raises `ConfigError` naming file, claim, table, methods and column."""
    stated = [(paper, f"experiments/{paper}/claims.yaml: {entry.id}{letter}", part.ours)
              for paper in papers() for entry in load_statements(f"{paper}/claims").claims
              for letter, part in entry.by_letter.items()]
    stated += [(one.paper, f"experiments/questions.yaml: {one.id}", one.ours) for one in
               load_statements("questions").questions]
    unknown = [f"{place}: no cell is named so: {one.table}, {one.methods}, {one.column}"
               for paper, place, comparisons in stated for one in comparisons if not are_named(paper, one, results)]
    if unknown:
        raise ConfigError("\n".join(unknown))


CLAIMS_FILE = "claims.csv"


def claims_table(results: Results) -> pd.DataFrame: # a row a claim and profile
    "Tabulate all claims: what is reported, what is ours, and the word. Raises as `check_names`."
    check_names(results)
    claims = [claim for paper in PAPER_LETTERS for claim in read_claims(paper, results).values()]
    rows = []
    for claim, profile in product(claims, PROFILES):
        tables = dict.fromkeys(table for one in claim.questions(profile) if one.mean for table in one.tests.table)
        rows.append({"paper": claim.paper, "claim": claim.id, "statement": claim.statement, "place": claim.place,
                     "profile": profile, "reported": claim.reported_text, "ours": claim.ours_text(profile),
                     "word": claim.word(profile), "tables": "; ".join(tables)})
    return pd.DataFrame(rows)


PAPER_LETTERS = {"itvreg": "A", "arr": "B", "scan": "C"}


# ---------------------------------------------------------------- questions


def ask(
    name: str, # of a question, or of a claim of one difference
    results: Results,
    profile: str = "small",
) -> Question:
    """Return the one estimate of a question.

    Raises `ValueError` for a name that nothing has, and for a claim of several differences."""
    stated = load_statements("questions").by_id
    if name not in stated:
        claims = {id: claim for paper in papers() for id, claim in read_claims(paper, results).items()}
        check_known("question", name, [*stated, *claims], ConfigError)
        questions = claims[name].questions(profile)
        if len(questions) > 1:
            raise ValueError(f"claim {name} has {len(questions)} differences: each needs a question of its own")
        return questions[0]
    one = stated[name]
    rows = compare(one.paper, one.ours, results, (profile,))
    strengths = {*rows.strength.dropna()}
    sizes = None
    if one.reported and (one.strength is None or strengths <= {one.strength}):
        numbers = load_expected(one.paper)
        parts = [cells.sizes(numbers) for cells in one.reported]
        sizes = pd.concat([part if isinstance(part, pd.Series) else pd.Series([part]) for part in parts])
    text = one.name or (rows.name.iloc[0] if len(rows) else name)
    strength = " and ".join(map("{:g}".format, sorted(strengths))) or "?"
    return Question(text.replace("{λ}", strength), rows, sizes, one.over)


def ask_all(
    names: Iterable[str],
    results: Results,
    *studies: Study, # of one page: they take the place of stored ones
) -> list[Question]: # those that are asked at their profile
    "Return the estimates of a page's questions. Raises as `ask`."
    own = {(one.experiment.name, one.experiment.profile): one for one in studies if one.own}
    if own:
        results = replace(results, values=own)
    profile, stated = studies[0].experiment.profile, load_statements("questions").by_id
    return [ask(name, results, profile) for name in names
            if name not in stated or any(profile in one.profiles for one in stated[name].ours)]


# ---------------------------------------------------------------- errata


ERRATA = { # kind -> what an erratum is that its facts bear out, one without any, and whether they do where they hold
    "contradiction": ("contradicted", "text against text", False),
    "inconsistency": ("confirmed", "of the text alone", True),
}


def errata_of(paper: str) -> pd.DataFrame: # a row each: id, kind, title, text, verdict, checks; facts
    """Recompute the errata of a paper from its printed numbers.

    Raises `ConfigError` naming file and erratum."""
    numbers = load_expected(paper)
    rows = []
    for entry in load_statements(f"{paper}/errata").errata:
        try:
            facts = [fact for test in entry.printed for fact in test.facts(numbers)]
        except (ValueError, KeyError) as e:
            raise ConfigError(f"experiments/{paper}/errata.yaml: {entry.id}: {e}") from None
        word, alone, so = ERRATA[entry.kind]
        hits = [holds is so for holds in truths(facts)]
        verdict = in_part(hits, word, f"not {word}") if hits else f"{alone}, no cells to recompute"
        rows.append(dict(paper=paper, id=entry.id, kind=entry.kind, title=entry.title, text=entry.text, facts=facts,
                         verdict=verdict, checks=describe_checks(facts, so)))
    return pd.DataFrame(rows)


def errata_page(paper: str) -> list[str]: # Markdown, a part each
    "Tell each erratum, with its verdict and the checks that bear it out."
    parts = []
    for row in errata_of(paper).itertuples():
        told = ": ".join(filter(None, [f"**Result:** {row.verdict}", row.checks]))
        parts.append(f"## {row.id}. {row.title}\n\n{row.text}\n{told}.")
    return parts


# ---------------------------------------------------------------- sentences


SHIFTS = {"iid": "in distribution", "ood": "out of distribution"}
ON_SITES = {"iid": "on the site of training", "ood": "on the other site"}
WHOLE_SCALE = 100. # points


def _ends(values: pd.Series) -> tuple[float, float, list[str]]:
    "Return the smallest and the largest as displayed, without minus zero, and their sizes from small to large."
    low, high = round(values.min(), 1) + 0., round(values.max(), 1) + 0.
    return low, high, [f"{size:.1f}" for size in sorted({abs(low), abs(high)})]


def distance(
    values: pd.Series, # differences in points
    reference: str,    # what they are from; empty where the sentence has said it
) -> str: # `0.8 to 8.4 points above plain fine-tuning`
    "Say how far differences go."
    low, high, sizes = _ends(values)
    if low == high == 0:
        return f"0.0 points from {reference}".removesuffix(" from ")
    if low < 0 < high:
        return f"between {-low:.1f} points below and {high:.1f} above {reference}".strip()
    return f"{' to '.join(sizes)} points {'below' if low < 0 else 'above'} {reference}".strip()


def distance_from(
    question: Question,
    reference: str = "plain fine-tuning", # as `distance`
) -> str: # `1.3 points above plain fine-tuning [+0.9, +1.8], the mean of 6 tests`
    "Give the estimate of a question and the number of its tests, or say that there are none."
    values, mean = question.tests.difference, question.mean
    if values.empty:
        return NOT_RUN_HERE
    if mean is None:
        return distance(values, reference)
    side = "above" if mean.difference > 0 else "below"
    text = f"{abs(mean.difference):.1f} points {side} {reference}".strip()
    text = f"{text} [{signed(mean.low)}, {signed(mean.high)}]"
    return text if mean.n == 1 else f"{text}, the mean of {mean.n} tests"


def question_word(
    *questions: Question,
    yes: str = "better", # the word that says yes: `better`, or `worse` where the question is whether something hurts
) -> str: # of `CLAIM_WORDS`
    "Answer a page's question from its estimates, as a claim is answered."
    answers = []
    for one in questions:
        mean = one.mean
        if mean and yes == "worse":
            mean = replace(mean, difference=-mean.difference, low=-mean.high, high=-mean.low)
        answers.append(answer_of(mean, tests=words_of_tests(one.tests)))
    return claim_word(answers)


def answer(
    question: Question,
    subject: str,        # what was changed, in words
    reference: str = "plain fine-tuning", # what it is compared with
    yes: str = "better", # as `question_word`
) -> str: # it begins with one of `CLAIM_WORDS`
    "Answer a question in a word, and give its estimate."
    word = question_word(question, yes=yes)
    text = f"{word}. {subject[:1].upper()}{subject[1:]}"
    if question.tests.empty:
        has_one_seed = question.rows.attrs.get("seeds") == 1
        return f"{text} was {'run with one seed, and a comparison takes two' if has_one_seed else NOT_RUN_HERE}."
    note = ""
    if word == UNSURE:
        size = question.detectable
        note = f"; the detectable difference (80% power) is {size:.1f} points" if size <= WHOLE_SCALE else ""
    return f"{text} is {distance_from(question, reference)}{note}."


def place_of(runs: pd.DataFrame, shift: str) -> str: # runs: of a table whose real data are of two question sites
    "Name where a test is: synthetic data have no sites."
    _, profile = runs.attrs["study"]
    return (SHIFTS if profile == "planted" else ON_SITES)[shift]


def from_to(values: pd.Series) -> str:
    "Return the smallest and the largest, `−0.1 to +8.4`: one number if they are the same, nothing without values."
    values = values.dropna()
    return " to ".join(dict.fromkeys([signed(values.min()), signed(values.max())])) if len(values) else ""


def answer_word(page: str) -> str: # page: Markdown
    "Return the word that answers a page, or nothing for a page without one."
    words = "|".join(sorted(map(re.escape, (*CLAIM_WORDS, "No")), key=len, reverse=True))
    match = re.search(rf"^\*\*Answer\.\*\* ({words})\b", page, re.M)
    return match[1] if match else ""


def extent(differences: pd.Series) -> str: # `lost 0.9 to 26.5 points`
    "Say how far differences go, with a verb that has their sign."
    low, high, sizes = _ends(differences)
    if low < 0 < high:
        ends = f"{signed(low)} to {signed(high)}"
        return f"stayed within a point ({ends})" if max(-low, high) <= POINT else f"moved scores by {ends} points"
    verb = "gained" if high > 0 else "lost"
    if len(sizes) == 2 and not low * high:
        return f"{verb} up to {sizes[1]} points"
    return f"{verb} {' to '.join(sizes)} points"
