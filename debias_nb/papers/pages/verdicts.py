"""Claims and errata of a paper, each with what the paper's own cells say to it, and what our runs say."""
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, product

import numpy as np
import pandas as pd

from ...checks import ConfigError, check_known
from .answers import OF_CLAIMS
from .comparisons import PAIR, ClaimEvidence, Question, add_claim_verdicts, as_claimed, count_words
from .comparisons import LESS, MORE, combined_word, questions, registered
from .frame import PROFILES, Results, Study, only
from .printed import PrintedCheck, PrintedCells, describe_checks, in_part, in_unit, printed_verdict, truths
from .statements import Limit, StatedClaim, load_statements
from .style import replace_names
from .tables import text_table


@dataclass(repr=False)
class Claim:
    "One statement, its verdict in the paper's own cells, and the comparisons of our runs."
    heading: str           # `A1`; R-: a relation that the cells suggest; Q-: a question of ours
    part: str              # a letter, for a claim of several parts
    facts: list[PrintedCheck]
    comparisons: pd.DataFrame # a row each, as `as_claimed` has them
    statement: str = ""
    place: str = ""        # where the paper says so
    repetition: "Claim | None" = None # the claim that asks it again with new seeds
    by_each: bool = False  # whether it was registered to go by every comparison that can tell
    _questions: dict[str, list[Question]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.heading}{self.part}"

    @property
    def is_papers(self) -> bool: # else a relation that its cells suggest, or a question of ours
        return not self.heading.startswith(("R-", "Q-"))

    def __repr__(self) -> str:
        return f"<claim {self.id}>"

    def primary(self, profile: str) -> pd.DataFrame:
        "Return its primary comparisons."
        return only(self.comparisons, primary=True, profile=profile)

    @cached_property
    def sizes(self) -> dict[str, list[float]]: # `a − b`, as ours are named -> points
        "Collect the printed sizes of the differences that ours are."
        sizes = {}
        for one in self.facts:
            if one.number is not None and not one.unit and one.holds is not None:
                name, sign = self._as_ours(one.label)
                sizes.setdefault(name.replace("`", ""), []).append(sign * one.number)
        return sizes

    def questions(self, profile: str) -> list[Question]:
        "Return what the claim asks, each answered from one estimate."
        if profile not in self._questions:
            states_size = any(one.asked.startswith("= ") for one in self.facts)
            self._questions[profile] = questions(self.primary(profile), self.sizes, states_size)
        return self._questions[profile]

    def verdict(self, profile: str) -> str:
        "Return the verdict, and whether it is of a part of the claim: another one was not run, or is open."
        return combined_word(question.word for question in self.questions(profile))

    def registered(self, profile: str) -> str: # empty where it is the answer
        "Say what the rule gives that was written down before the runs, where that is another one and says otherwise."
        word = OF_CLAIMS[registered(self.primary(profile).verdict)]
        same = {word, "Not run"} & {self.word(profile).removesuffix(BY_LESS)}
        return "" if same or not self.by_each else f" (as registered: {word.lower()})"

    def word(self, profile: str) -> str: # one of `OF_CLAIMS`
        "Answer the sentence of the claim."
        return OF_CLAIMS[self.verdict(profile).removesuffix(" in part")]

    def counted_as(self, profile: str) -> str: # one of `COUNTED`
        "Answer in the words of a table of counts, in which a size that was not met is no reverse."
        word = self._said(profile)
        return OTHER_SIZE if word in OTHER_SIZES else word.removesuffix(BY_LESS)

    def answer(self, profile: str) -> str: # e.g. `No, the reverse`
        "Answer the sentence of the claim, as pages do."
        part = ", in part" if self.verdict(profile).endswith(" in part") else ""
        return self._said(profile) + part + self.registered(profile) + self._unrepeated(profile)

    def _said(self, profile: str) -> str:
        "Return its word; the reverse of a difference of at least, or at most, so much is a smaller, or larger one."
        word = self.word(profile)
        of_sizes = {np.sign(margin) for margin in self.primary(profile).margin}
        if word == OF_CLAIMS["the reverse holds"] and len(of_sizes) == 1:
            return REVERSE_OF_SIZE.get(of_sizes.pop(), word)
        return word

    def _unrepeated(self, profile: str) -> str: # empty where nobody asked again, or new seeds say the same
        "Say that new seeds did not repeat what the seeds of its comparisons say."
        word = self.word(profile)
        again = self.repetition.word(profile) if self.repetition else OF_CLAIMS["not run"]
        if not word.startswith(OF_CLAIMS["holds"]) or again in (word, OF_CLAIMS["not run"]):
            return ""
        seeds = self.primary(profile).replicates.dropna()
        return (f" (the {' to '.join(dict.fromkeys(f'{end:.0f}' for end in (seeds.min(), seeds.max())))} seeds that "
                "did not repeat)")

    def summary(self, profile: str) -> str: # e.g. `ITVReg − Finetuned: +1.4 [+0.4, +2.4]; 5 for, 1 cannot tell`
        "Give the estimates, then count the words of its primary comparisons."
        comparisons = self.primary(profile)
        counts = count_words(comparisons.verdict) if len(comparisons) else ""
        return "; ".join(filter(None, [self.measured(profile), f"{counts}{on_few_seeds(comparisons)}"]))

    def measured(self, profile: str) -> str: # e.g. `ITVReg − Finetuned: +0.6 [+0.2, +1.0]; printed size excluded`
        "Give its estimates, and where the printed sizes stand to them."
        asked = [question for question in self.questions(profile) if question.mean]
        texts = [f"{_in_quotes(question.name)}: {question.text().rpartition(': ')[2]}"
                 f"{f', printed size {question.size}' if question.size else ''}" for question in asked]
        return "; ".join(texts)

    @property
    def anchors(self) -> str: # HTML
        "Return where links to the claim lead; those to its heading lead to its first part."
        ids = dict.fromkeys([self.heading, self.id] if self.part in ("", "a") else [self.id])
        return "".join(f'<a id="{id.lower()}"></a>' for id in ids)

    @property
    def printed(self) -> str: # e.g. `SCAN − w/o FD: +0.01 to +0.03 (2 of 4)`; empty where nothing is printed
        """Say how far the printed numbers go, each with its difference and unit.

        Where not all bear the claim out, say how many do. A difference from what ours are taken from is turned
        round."""
        found = [one for one in self.facts if one.holds is not None]
        numbers = {}
        for one in found:
            if one.number is not None:
                name, sign = self._as_ours(one.label)
                numbers.setdefault((name, one.unit), []).append(sign * one.number)
        texts = []
        for (name, unit), values in numbers.items():
            ends = dict.fromkeys([min(values), max(values)])
            extent = " to ".join(in_unit(end + 0., unit) for end in ends)
            texts.append(f"{name}: {extent.replace(f' {unit} to ', ' to ')}")
        verdict = printed_verdict(self.facts)
        so = {"holds": "", "does not hold": " (no)"}.get(verdict, f" ({verdict.removeprefix('holds in ')})")
        return f"{'; '.join(texts) or 'words'}{so}" if found else ""

    def _as_ours(self, label: str) -> tuple[str, int]: # the sign that turns a number round
        "Name a printed difference as the page names ours."
        match = PAIR.match(label)
        if not match:
            return label, 1
        pairs = self.primary("small").comparison.str.extract(PAIR)
        is_reversed = match["a"] in {*pairs.b} - {*pairs.a}
        first, other = (match["b"], match["a"]) if is_reversed else (match["a"], match["b"])
        return f"{_quoted(first)} − {_quoted(other)}", -1 if is_reversed else 1


# sign of the margins of a claim -> its answer where the reverse holds
REVERSE_OF_SIZE = {1: "No: by more", -1: "No: by less"}
OTHER_SIZE = "No: by more or less"
OTHER_SIZES = (*REVERSE_OF_SIZE.values(), OF_CLAIMS[LESS], OF_CLAIMS[MORE])
BY_LESS = ", by less than a point"
COUNTED = [word for word in OF_CLAIMS.values() if not word.endswith(BY_LESS) and word not in OTHER_SIZES]
COUNTED.insert(COUNTED.index(OF_CLAIMS["the reverse holds"]) + 1, OTHER_SIZE)


def on_few_seeds(comparisons: pd.DataFrame) -> str: # e.g. ` (2 of them on few seeds)`; empty where none is
    "Say how many of some comparisons rest on few seeds."
    is_few = comparisons.provisional[comparisons.difference.notna()].astype(bool)
    if not is_few.any():
        return ""
    return " (all on few seeds)" if is_few.all() and len(is_few) > 1 else f" ({is_few.sum()} of them on few seeds)"


def _quoted(name: str) -> str: # of a method
    "Quote a name that holds a plus, so that it cannot be read as a sum."
    return f"`{name}`" if " + " in name and "`" not in name else name


def _in_quotes(comparison: str) -> str: # a sum has one name
    "Name the two methods of a comparison, those quoted that hold a plus."
    match = PAIR.match(comparison)
    return f"{_quoted(match['a'])} − {_quoted(match['b'])}" if match else comparison


ERRATA = { # kind -> what an erratum is that its facts bear out, one without any, and whether they do where they hold
    "contradiction": ("contradicted", "text against text", False),
    "inconsistency": ("confirmed", "of the text alone", True),
}


@dataclass(repr=False)
class Erratum:
    "A place where a paper contradicts itself, or where a reader may stumble."
    id: str                # `E-A2`
    # `contradiction`: the facts state what the text says; `inconsistency`: a minor one, which the facts state
    kind: str
    facts: list[PrintedCheck]
    title: str = ""
    text: str = ""         # what the paper says, and what is wrong with it: Markdown

    def __repr__(self) -> str:
        return f"<erratum {self.id}>"

    @property
    def verdict(self) -> str:
        word, alone, so = ERRATA[self.kind]
        hits = [holds is so for holds in truths(self.facts)]
        if not hits:
            return f"{alone}, no cells to recompute"
        return in_part(hits, word, f"not {word}")

    def __str__(self) -> str: # Markdown
        parts = [f"**Verdict:** {self.verdict}", describe_checks(self.facts, ERRATA[self.kind][-1])]
        return f"## {self.id}. {self.title}\n\n{self.text}\n{': '.join(filter(None, parts))}."


CSV_COLUMNS = [
    "paper", "claim", "primary", "profile", "table", "encoder", "column", "comparison", "direction", "margin", "delta",
    "difference",
    "low", "high", "replicates", "provisional", "p", "detectable", "verdict", "why",
]
ESTIMATE = [
    "paper", "claim", "profile", "question", "direction", "n", "difference", "low", "high", "next_low", "next_high",
    "p", "answer", "claim_answer", "printed_low", "printed_high", "printed_size", "page", "place", "protocol", "reason",
    "disputed_by",
]
FOLDED = {"R-": "relations that the printed cells suggest", "Q-": "questions of ours"}
LEAST, FEWEST_WORDS = 3, 4 # claims that share their setting, and words that they share, from which on it stands once


def common_start(statements: Iterable[str]) -> int:
    "Count the words that all statements begin with; commas make no difference."
    count = 0
    for words in zip(*(statement.split() for statement in statements)):
        if len({word.strip(",") for word in words}) > 1:
            break
        count += 1
    return count


def groups_of(claims: list[Claim]) -> list[list[Claim]]:
    "Group neighbors that share their setting: the parts of a claim, then claims that begin alike."
    groups, may_grow = [], False
    for _, parts in groupby(claims, key=lambda claim: claim.heading):
        parts = list(parts)
        is_small = len(parts) < LEAST
        if may_grow and is_small and common_start([claim.statement for claim in groups[-1] + parts]) >= FEWEST_WORDS:
            groups[-1] += parts
        else:
            groups.append(parts)
        may_grow = is_small
    return groups


def grouped_rows(claims: list[Claim]) -> list[list[str]]: # id, statement, verdict
    "Return the rows of claims, with a row for a setting that several of them share."
    rows = []
    for group in groups_of(claims):
        own = [[f"{claim.anchors}{claim.id}", claim.statement, claim.answer("small")] for claim in group]
        statements = [claim.statement.removesuffix(".") for claim in group]
        start = common_start(statements)
        words = statements[0].split()
        while start and words[start - 1] == "=": # a name and its number stay together
            start -= 2
        end = common_start([" ".join(statement.split()[start:][::-1]) for statement in statements])
        if len(group) >= LEAST and start > 1 and start + end >= FEWEST_WORDS:
            setting = " ".join([*words[:start], "…", *words[len(words) - end:]]).removesuffix(" …")
            rows.append(["", f"**{setting.rstrip(',')}**", ""])
            for row, statement in zip(own, statements):
                rest = statement.split()
                row[1] = f"… {' '.join(rest[start:len(rest) - end]).rstrip(',')}"
        rows += own
    return rows


class Ledger:
    "The claims and errata of one paper."
    def __init__(
        self,
        paper: str,         # `itvreg`, `arr` or `scan`
        evidence: ClaimEvidence, # that claims rest on
    ):
        self.paper = paper
        self.printed = PrintedCells(paper)
        self.evidence = evidence
        self.claims: dict[str, Claim] = {}
        self.errata: dict[str, Erratum] = {}

    def claim(self, entry: StatedClaim):
        """Give verdicts on a claim and keep its parts, whose comparisons are corrected together.

        Raises `ConfigError` naming the part, for names that nothing has."""
        comparisons, facts = [], {}
        for letter, part in entry.by_letter.items():
            try:
                self._check(entry.at_most)
                facts[letter] = [fact for test in part.printed for fact in test.facts(self.printed)]
                lines = [line for test in part.ours for line in test.lines(self.evidence)]
                comparisons.append(self.evidence.compare(lines).assign(part=letter))
            except (ValueError, KeyError) as e:
                raise ConfigError(f"experiments/{self.paper}/claims.yaml: {entry.id}{letter}: {e}") from None
        verdicts = as_claimed(add_claim_verdicts(pd.concat(comparisons, ignore_index=True)))
        for letter, part in entry.by_letter.items():
            claim = Claim(entry.id, letter, facts[letter], only(verdicts, part=letter), part.statement, entry.place,
                          by_each=entry.by_each)
            self.claims[claim.id] = claim

    def _check(self, limit: Limit | None):
        "Raise `ValueError` for a recorded number above a limit, and for none where its corpus has other records."
        for cell in self.evidence.cells(limit.table) if limit else []:
            if (cell.profile, cell.column) != (limit.profile, limit.column):
                continue
            if cell.value is None and self.evidence.has_records(cell.profile, cell.corpus):
                raise ValueError(f"{limit.column}: nothing is recorded; {limit.value:g} is the limit: {cell.command}")
            if cell.value is not None and cell.value > limit.value:
                raise ValueError(f"{limit.column}: {cell.value:.3f} is recorded, and {limit.value:g} is the limit")

    @property
    def comparisons(self) -> pd.DataFrame: # `CSV_COLUMNS`
        "Every comparison of the paper's claims."
        comparisons = [claim.comparisons.assign(paper=self.paper, claim=claim.id) for claim in self.claims.values()]
        return pd.concat(comparisons, ignore_index=True)[CSV_COLUMNS]

    @property
    def estimates(self) -> pd.DataFrame: # `ESTIMATE`, one row per question and profile
        "Every estimate of the paper's claims, with its answer, what is printed, and how far our runs are the paper's."
        rows = []
        for claim, profile in product(self.claims.values(), PROFILES):
            for question in claim.questions(profile):
                if question.mean:
                    rows.append(vars(question.mean) | self._about(claim, profile, question))
        return pd.DataFrame(rows, columns=ESTIMATE)

    def _about(self, claim: Claim, profile: str, question: Question) -> dict: # what `ESTIMATE` has beside the estimate
        "Say what a question is about."
        reasons = dict.fromkeys(filter(None, (line.analogue for line in question.tests.line)))
        is_exact = profile == "paper" and not reasons
        denied = "the paper's own cells" if any(one.holds is False for one in claim.facts) else ""
        return {
            "paper": self.paper, "claim": claim.id, "profile": profile, "question": question.name,
            "direction": question.direction, "answer": question.word, "claim_answer": claim.answer(profile),
            "printed_low": min(question.printed, default=None), "printed_high": max(question.printed, default=None),
            "printed_size": question.size, "page": f"{self.paper}/claims.md#{claim.id.lower()}",
            "place": claim.place, "disputed_by": denied,
            "protocol": "exact" if is_exact else "proxy",
            "reason": "" if is_exact else "; ".join(reasons) or "other encoders, data or sizes, see as_printed.md"}

    def page(self) -> str: # Markdown
        "Tabulate all claims, a row each: those of the paper, and folded the relations and questions of ours."
        own = [claim for claim in self.claims.values() if claim.is_papers]
        rows = []
        for claim in own:
            here, planted = (claim.answer(profile) for profile in ("small", "planted"))
            rows.append([f"{claim.anchors}{claim.id}", claim.statement, claim.printed, claim.measured("small"),
                         f"**{here}**", planted])
        parts = [text_table(["", "claim", "the paper prints", "here, `small`", "verdict, `small`", "`planted`"], rows)]
        for begin, what in FOLDED.items():
            others = [claim for claim in self.claims.values() if claim.id.startswith(begin)]
            if others:
                table = text_table(["", "claim", "verdict, `small`"], grouped_rows(others))
                parts.append(f'<details markdown="1"><summary>{len(others)} {what}</summary>\n\n{table}\n\n</details>')
        return replace_names("\n\n".join(parts))


CLAIM_KINDS = {"": "claims", "R-": "relations", "Q-": "questions of ours"} # how ids begin -> what these are


def claim_counts(
    books: dict[str, Ledger], # letter of a paper -> its claims
) -> pd.DataFrame: # one row per paper and kind, one column per word
    "Count how claims came out on real data."
    rows = {}
    for letter, book in books.items():
        for begin, kind in CLAIM_KINDS.items():
            own = [claim for claim in book.claims.values()
                   if (claim.is_papers if not begin else claim.id.startswith(begin))]
            words = pd.Series([claim.counted_as("small") for claim in own]).value_counts()
            rows[f"{letter}, {kind}"] = words.reindex(COUNTED, fill_value=0)
    return pd.DataFrame(rows).T.rename_axis("method").rename_axis("test", axis=1)


def comparison_counts(
    comparisons: pd.DataFrame, # as `Ledger.comparisons`
) -> pd.DataFrame: # one row per profile
    "Count primary comparisons: decided ones, those that more seeds cannot decide, and how far the others reach."
    made = comparisons[comparisons.primary & comparisons.difference.notna()]
    rows = []
    for profile, own in made.groupby("profile"):
        unsure = own[own.verdict == "cannot tell"]
        hopeless = unsure.why.str.contains("test items", na=False).sum()
        ends = [f"{unsure.detectable.quantile(q):.1f}" for q in (.25, .75)]
        rows.append({
            "profile": f"`{profile}`", "comparisons": len(own),
            "of claims": own.claim.str.replace("[a-z]$", "", regex=True).nunique(),
            "decided": f"{len(own) - len(unsure)} ({1 - len(unsure) / len(own):.0%})", "too few test items": hopeless,
            "detectable, points (half of them)": " to ".join(ends)})
    return pd.DataFrame(rows)


def written_facts(books: dict[str, Ledger]) -> pd.DataFrame: # paper -> its claims and errata
    "List every printed number that was asked about."
    rows = []
    for paper, book in books.items():
        for name, one in (book.claims | book.errata).items():
            rows += [dict(paper=paper, of=name, **vars(fact)) for fact in one.facts]
    return pd.DataFrame(rows)[["paper", "of", "label", "place", "found", "asked", "holds"]]


def errata_counts(books: dict[str, Ledger]) -> pd.DataFrame: # name of a paper -> its errata
    "Count errata by kind and verdict."
    rows = {}
    for name, book in books.items():
        words = {kind: pd.Series([one.verdict for one in book.errata.values() if one.kind == kind]) for kind in ERRATA}
        rows[name] = {
            kind: f"{len(verdicts)}: " + ", ".join(
                f"{count} {word}"
                for word, count in verdicts.str.replace(DETAIL, "", regex=True).value_counts().items())
            for kind, verdicts in words.items() if len(verdicts)}
    return pd.DataFrame(rows).T.rename_axis("paper").reset_index()


DETAIL = re.compile(r", no cells to recompute| in \d+ of \d+") # of a verdict


def read_ledger(paper: str, results: Results) -> Ledger:
    """Read the claims and errata of a paper, once for some results.

    Raises `ConfigError` naming file and claim."""
    return results.once(("claims", paper), _make_ledger, paper, results)


def _make_ledger(paper: str, results: Results) -> Ledger:
    book = Ledger(paper, ClaimEvidence.of(paper, results))
    claims = load_statements(paper, "claims").claims
    for entry in claims:
        book.claim(entry)
    for entry in claims:
        for letter, part in entry.by_letter.items():
            if part.repetition:
                kind = f"claim in experiments/{paper}/claims.yaml that repeats {entry.id}{letter} called"
                check_known(kind, part.repetition, book.claims, ConfigError)
                book.claims[entry.id + letter].repetition = book.claims[part.repetition]
    book.errata = read_errata(paper)
    return book


def read_errata(paper: str) -> dict[str, Erratum]: # by id
    """Recompute the errata of a paper from its printed numbers.

    Raises `ConfigError` naming file and erratum."""
    numbers = PrintedCells(paper)
    errata = {}
    for entry in load_statements(paper, "errata").errata:
        try:
            facts = [fact for test in entry.printed for fact in test.facts(numbers)]
        except (ValueError, KeyError) as e:
            raise ConfigError(f"experiments/{paper}/errata.yaml: {entry.id}: {e}") from None
        errata[entry.id] = Erratum(entry.id, entry.kind, facts, entry.title, entry.text)
    return errata


def resting_on(
    results: Results,
    *studies: Study,
    of_paper: bool = False, # only what the paper itself claims
) -> str: # Markdown, a line; empty for runs of one's own, which no claim knows
    "Answer the claims that rest on the studies of a page, each over all of its comparisons, wherever they are."
    paper, profile = studies[0].experiment.paper, studies[0].experiment.profile
    tables = [table.id for study in studies for table in study.experiment.tables]
    by_answer = {}
    for claim in read_ledger(paper, results).claims.values() if not studies[0].own else ():
        if of_paper and not claim.is_papers:
            continue
        if only(claim.primary(profile), table=tables).difference.notna().any():
            by_answer.setdefault(claim.answer(profile), []).append(f"[{claim.id}](./claims.ipynb#{claim.id.lower()})")
    lines = [f"{', '.join(ids)} (**{answer}**)" for answer, ids in by_answer.items()]
    begin = "Claims on these runs, each judged over all of its comparisons" if of_paper else (
        "Claims that use these runs, each judged over all of its comparisons, here and elsewhere")
    return f"{begin}: {'; '.join(lines)}." if lines else ""
