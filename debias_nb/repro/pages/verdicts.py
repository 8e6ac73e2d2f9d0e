"""Claims and errata of a paper, each with what the paper's own cells say to it, and what our runs say."""
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from ...checks import ConfigError, check_known
from ...files import project_root
from .answers import OF_CLAIMS, from_to
from .comparisons import DECIDED, PAIR, SIGNS, Evidence, Line, as_claimed, counted, is_slight, judge, overall
from .frame import PROFILES, Study, only, read_so_far
from ...runs.pairing import bracket
from .printed import Fact, PrintedCells, answers, in_part, in_words, printed_verdict
from .tables import text_table


@dataclass(repr=False)
class Claim:
    "One statement, what the paper's own cells say to it, and what our runs say."
    heading: str           # `A1`; R-: a relation that the cells suggest; Q-: a question of ours
    part: str              # a letter, for a claim of several parts
    facts: list[Fact]
    comparisons: pd.DataFrame # a row each, as `as_claimed` has them
    pages: dict[str, str]  # table -> the page that shows it
    statement: str = "As above." # this and the next are filled in by `Ledger.state`
    note: str = ""         # where the paper says so, and how words are read

    @property
    def id(self) -> str:
        return f"{self.heading}{self.part}"

    def __repr__(self) -> str:
        return f"<claim {self.id}>"

    def primary(self, profile: str) -> pd.DataFrame:
        "Its primary comparisons."
        return only(self.comparisons, primary=True, profile=profile)

    def shown(self, profile: str) -> str:
        "The verdict, and whether it is of a part of what was asked: one line of the claim or more was not run."
        found = self.primary(profile)
        word = overall(found.verdict)
        if word == "depends" and is_slight(found[found.difference.notna()]):
            word = "within the margin"
        is_in_part = "not run" in found.groupby("line", sort=False).verdict.agg(overall).tolist()
        return f"{word} in part" if is_in_part and word in DECIDED else word

    def answer(self, profile: str) -> str: # e.g. `No, the reverse`
        "Answer the sentence of the claim, as pages do."
        word = self.shown(profile)
        part = ", in part" if word.endswith(" in part") else ""
        return OF_CLAIMS[word.removesuffix(" in part")] + part

    def outcome(self, profile: str) -> str: # e.g. `5 for, 1 cannot tell; ITVReg − Finetuned: +0.4 to +7.9`
        "Count the words of its primary comparisons, and say how far their differences go."
        found = self.primary(profile)
        return _outcome(found, f"; {measured(found)}") if len(found) else ""

    def rows(self, profiles: list[str]) -> list[list[str]]: # of `claim_table`
        "The claim with its verdicts, and each thing that was asked with what came out."
        analogues = dict.fromkeys(line.analogue for line in self.comparisons.line if line.analogue)
        ours = f" In our runs: {'; '.join(analogues)}." if analogues else ""
        printed = printed_verdict(self.facts)
        so = printed == "holds" # where the printed cells deny the claim, those are told that do
        cells = f"**{printed}**"
        told = in_words(self.facts, so)
        if told:
            cells += (": " if so else "; not so: ") + told
        verdicts = [f"**{self.answer(profile)}**" for profile in profiles]
        ids = dict.fromkeys([self.heading, self.id] if self.part in ("", "a") else [self.id])
        anchors = "".join(f'<a id="{id.lower()}"></a>' for id in ids)
        name = f"{anchors}**{self.id}**"
        rows = [[name, f"**{self.statement}** {self.note}{ours}", cells, *verdicts]]
        for (line, direction), found in only(self.comparisons, primary=True).groupby(["line", "direction"], sort=False):
            outcomes = [_outcome(own, f": {_extent(own)}") for own in (only(found, profile=profile) for profile in profiles)]
            if any(outcomes):
                place = line.where(self.pages.get(line.table, line.table))
                rows.append(["", f"{place}: {line.text(direction)}", "", *outcomes])
        return rows


class Claims(list):
    "The parts of a claim, shown as a table."
    def _repr_markdown_(self) -> str:
        return claim_table(self)


def _outcome(found: pd.DataFrame, extent: str) -> str: # found: comparisons at one profile; extent: how far they go, in words
    "Say how many comparisons got which word, and how far their differences go."
    if found.empty:
        return ""
    return counted(found.verdict) + (on_few_seeds(found) + extent if found.difference.notna().any() else "")


def on_few_seeds(found: pd.DataFrame) -> str: # e.g. ` (2 on few seeds)`; empty where none is
    "Say how many of some comparisons rest on few seeds."
    few = int(found.provisional[found.difference.notna()].sum())
    return f" ({few} on few seeds)" if few else ""


def _extent(found: pd.DataFrame) -> str:
    "Say how far differences go; of a single one with its interval."
    made = found[found.difference.notna()]
    return bracket(made.iloc[0]) if len(made) == 1 else from_to(made.difference)


AHEAD = "the side put ahead − the other" # where a claim compares several methods with several


def measured(found: pd.DataFrame) -> str: # e.g. `Finetuned − Base: +5.4 to +19.0`; empty where nothing was compared
    "Say how far differences go, with their names: + means that the first name scored higher."
    made = found[found.difference.notna()]
    sides = made.comparison.str.extract(PAIR)
    names = sides.a + " − " + sides.b
    if names.nunique() > 2:
        firsts, others = set(sides.a), set(sides.b)
        name = f"{sides.a.iloc[0]} − others" if len(firsts) == 1 else f"others − {sides.b.iloc[0]}" if len(others) == 1 else AHEAD
        if name == AHEAD:
            made = made.assign(difference=made.difference * made.direction.map(SIGNS))
        names = pd.Series(name, made.index)
    return "; ".join(f"{name}: {_extent(own)}" for name, own in made.groupby(names, sort=False))


def claim_table(claims: list[Claim]) -> str: # empty without claims
    "Markdown: a row a claim, and below it a row for each thing that was asked of our runs."
    if not claims:
        return ""
    found = pd.concat([claim.comparisons for claim in claims])
    ran = set(found.profile[found.difference.notna()])
    profiles = [profile for profile in reversed(PROFILES) if profile in ran]
    header = ["", "claim, and what was asked of our runs", "printed cells", *(f"`{profile}`" for profile in profiles)]
    rows = [row for claim in claims for row in claim.rows(profiles)]
    return text_table(header, rows)


ERRATA = { # kind -> what an erratum is that its facts bear out, one without any, and whether they do where they hold
    "contradiction": ("contradicted", "text against text", False),
    "inconsistency": ("confirmed", "of the text alone", True),
}


@dataclass(repr=False)
class Erratum:
    "A place where a paper contradicts itself, or where a reader may stumble."
    id: str                # `E-A2`
    kind: str              # `contradiction`: the facts state what the text says; `inconsistency`: a minor one, which the facts state
    facts: list[Fact]
    title: str = ""        # filled in by `read_ledger`

    def __repr__(self) -> str:
        return f"<erratum {self.id}>"

    @property
    def verdict(self) -> str:
        word, alone, so = ERRATA[self.kind]
        hits = [holds is so for holds in answers(self.facts)]
        if not hits:
            return f"{alone}, no cells to recompute"
        return in_part(hits, word, f"not {word}")

    def _repr_markdown_(self) -> str:
        told = [f"**Verdict:** {self.verdict}", in_words(self.facts, ERRATA[self.kind][-1])]
        return f"{': '.join(filter(None, told))}."


class Ledger:
    "The claims and errata of one paper."
    def __init__(
        self,
        paper: str,                       # `itvreg`, `arr` or `scan`
        evidence: Evidence | None = None, # default: of the stored records, read when it is first needed
    ):
        self.paper = paper
        self.printed = PrintedCells(paper)
        if evidence:
            self.evidence = evidence
        self.claims: dict[str, Claim] = {}
        self.errata: dict[str, Erratum] = {}

    @cached_property
    def evidence(self) -> Evidence:
        return Evidence.of(self.paper)

    def claim(
        self,
        id: str,
        printed: list[Fact] | dict[str, list[Fact]] = (), # by the letter of the part, for a claim of several
        ours: list[Line] | dict[str, list[Line]] = (),  # likewise
    ) -> Claims:
        """Judge a claim and keep its parts, whose comparisons are corrected together.
        Raises `ValueError` for an id that stands twice and for names that nothing has."""
        if not isinstance(ours or printed, dict):
            printed, ours = {"": printed}, {"": ours}
        printed, ours = dict(printed), dict(ours)
        parts = sorted(printed | ours)
        found = []
        for letter in parts:
            if f"{id}{letter}" in self.claims:
                raise ValueError(f"claim {id}{letter} stands twice")
            try:
                found.append(self.evidence.compare(ours.get(letter, ())).assign(part=letter))
            except ValueError as e:
                raise ValueError(f"{id}{letter}: {e}") from None
        judged = as_claimed(judge(pd.concat(found, ignore_index=True)))
        made = Claims(
            Claim(id, letter, list(printed.get(letter, ())), only(judged, part=letter), self.evidence.pages)
            for letter in parts)
        self.claims |= {claim.id: claim for claim in made}
        return made

    def state(self):
        "Give each claim its statement. Raises `ConfigError` for one that no heading states."
        headings = _headings(self.paper, "claims")
        for claim in self.claims.values():
            _, statement, note = headings.get(claim.heading, ("", "", ""))
            if claim.part: # `- **a** Statement of this part.`, and the note below the last
                listed = dict(STATED.findall(f"{statement}{note}"))
                statement = listed.get(claim.part)
                note = STATED.sub("", note)
            if not statement:
                raise ConfigError(f"nbs/papers/{self.paper}/claims.ipynb: no heading states {claim.id}")
            claim.statement = statement
            claim.note = " ".join(note.split())

    @property
    def comparisons(self) -> pd.DataFrame: # paper, claim, and the columns of `as_claimed`
        "Every comparison of the paper's claims."
        found = [claim.comparisons.assign(paper=self.paper, claim=claim.id) for claim in self.claims.values()]
        return pd.concat(found, ignore_index=True)

    def outcomes(self, *headings: str) -> pd.DataFrame: # claim, verdict, comparisons
        "What real data say of some claims, part by part."
        rows = []
        for claim in self.claims.values():
            if claim.heading in headings:
                about = f"{claim.id}. {claim.statement}"
                rows.append({"claim": about, "answer": claim.answer("small"), "comparisons": claim.outcome("small")})
        return pd.DataFrame(rows).set_index("claim")

    def table(self, begin: str) -> str: # begin: of their names
        "Markdown: some claims, as `claim_table`. Raises as `state`."
        self.state()
        return claim_table([claim for claim in self.claims.values() if claim.id.startswith(begin)])

    def erratum(self, id: str, kind: str, facts: list[Fact] = ()) -> Erratum:
        "Recompute an erratum and keep it. Raises `ValueError` for another kind and for an id that stands twice."
        check_known("kind of erratum", kind, ERRATA)
        if id in self.errata:
            raise ValueError(f"erratum {id} stands twice")
        self.errata[id] = Erratum(id, kind, list(facts))
        return self.errata[id]


STATED = re.compile(r"^- \*\*([a-z])\*\* (.*)$", re.M)
HEADING = re.compile(r"## (?P<id>[\w-]+)\.? ?(?P<title>.*)\n\n(?P<first>.*)(?P<rest>(?s:.*))")


def read_ledger(paper: str) -> Ledger:
    """The claims and errata of a paper, from its notebooks; read once inside `only_stored()`.
    Raises what a cell raises, and `ConfigError` for a claim that no heading states."""
    known = read_so_far()
    if ("claims", paper) not in known:
        book = known["claims", paper] = _executed(paper, "claims")
        book.state()
        book.errata = _executed(paper, "errata").errata
        headings = _headings(paper, "errata")
        for erratum in book.errata.values():
            erratum.title, *_ = headings[erratum.id]
    return known["claims", paper]


def resting_on(study: Study) -> str: # Markdown, a line; empty for runs of one's own, which no claim knows
    "Answer the claims that rest on an experiment, each over all of its comparisons, wherever they are."
    paper, profile = study.experiment.name.partition("/")[0], study.experiment.profile
    tables = [table.id for table in study.experiment.tables]
    by_answer = {}
    is_known = not study.own and _notebook(paper, "claims").is_file() # a project of one's own may have no claims
    for claim in read_ledger(paper).claims.values() if is_known else ():
        if only(claim.primary(profile), table=tables).difference.notna().any():
            by_answer.setdefault(claim.answer(profile), []).append(f"[{claim.id}](./claims.ipynb#{claim.id.lower()})")
    lines = [f"**{answer}** to {', '.join(ids)}" for answer, ids in by_answer.items()]
    return f"Claims that rest on this, each over all of its comparisons, here and elsewhere: {'; '.join(lines)}." if lines else ""


def _notebook(paper: str, name: str) -> Path:
    return project_root() / "nbs" / "papers" / paper / f"{name}.ipynb"


def _sources(paper: str, name: str, kind: str) -> list[str]: # kind: of cell
    "The cells of a notebook. Raises `ConfigError` for what is none."
    path = _notebook(paper, name)
    try:
        cells = json.loads(path.read_text("utf-8"))["cells"]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise ConfigError(f"{path}: no notebook ({e})") from None
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def _headings(paper: str, name: str) -> dict[str, list[str]]: # id -> title, first paragraph, rest
    "What the headings of a notebook say."
    matches = map(HEADING.match, _sources(paper, name, "markdown"))
    return {match["id"]: match.groups()[1:] for match in matches if match}


def _executed(paper: str, name: str) -> Ledger: # what it calls `book`
    "Run the code of a notebook."
    names = {}
    for source in _sources(paper, name, "code"):
        try:
            exec(compile(source, f"{name}.ipynb", "exec"), names)
        except Exception as e:
            e.add_note(f"in {name}.ipynb: {source.splitlines()[0]}")
            raise
    return names["book"]
