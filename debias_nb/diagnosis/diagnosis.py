"""The parts of a diagnosis, a sentence on each, and the files and pages that they are written to."""
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import pandas as pd

from ..checks import on_one_line
from .changes import WHOLE, points, side_of
from .decision import KEEP, NEW_DATA, Averaged, Decision, Result, cards, listed
from .models import prompt_notes
from .page import Section, csv_text, file_notes, filled, json_text, made_section, page, screen, shown, tables
from .page import trade_picture
from .recommendation import trade_points
from .recommendations import LAST, LIKE_NEW
from .scores import threshold_sentence
from .targets import DIAGNOSIS as FILES
from .targets import write_target

SCHEMA = 3 # of report.json
NO_TRAINING = "Was any of this trained on? With the pairs of training (--train) overlap is counted."
SEED = "A second training run: this is one seed." # what nobody looked at


NAMED = 8 # words
REASON = (
    "{test}: words that gained importance {what} ({named}). Of the training pairs that share such a word, "
    "{training matches:.0%} are matches (of all training pairs: {training mean:.0%}). On this test it is "
    "{test matches:.0%} (of all pairs: {test mean:.0%}). Without these words the tuned model's result changes "
    "by {change} points and the base's by {base change}: a difference of {more} points (95% confidence interval "
    "{more low} to {more high}).")
WHAT = {"matches": "act as a shortcut", "others": "raise the scores of non-matches, in training as on the test"}


def changes_by_share(steps: list[Averaged], results: list[Result]) -> pd.DataFrame: # empty without steps
    "List the change against the base, one row per test and share of the tuned weights, with both ends."
    columns = ["test", "metric", "share", "value", "change", "low", "high"]
    rows = []
    for result in results if steps else []:
        if result.part == WHOLE:
            base = {"share": 0., "value": result.value - result.change, "change": 0., "low": 0., "high": 0.}
            rows.append(vars(result) | base)
            for step in steps:
                rows += [vars(step_result) | {"share": step.share} for step_result in step.results
                         if (step_result.test, step_result.part) == (result.test, WHOLE)]
            rows.append(vars(result) | {"share": 1.})
    return pd.DataFrame(rows, columns=columns)


def reason(row: dict) -> str: # of `shortcuts`
    "Say why a test may have become worse, and how much of what it lost that explains."
    words = row["words"]
    names = ", ".join(words[:NAMED])
    if len(words) > NAMED:
        names += f" and {len(words) - NAMED} more"
    changes = {name: points(row[name]) for name in ("change", "base change", "more", "more low", "more high")}
    text = REASON.format(**row | changes, named=names, what=WHAT[row["goes with"]])
    if row["lost"] > 0:
        text += f" Fine-tuning lost {100 * row['lost']:.1f} points here."
    return text


def slices_sentence(table: pd.DataFrame, margin: float) -> str: # table: of `slices`, of one test; margin: a fraction
    "Say how many slices got better and worse, the lowest and the highest."
    rows = table.sort_values("change")
    sides = [side_of(*ends, margin) for ends in zip(rows.low, rows.high)]
    worst, best = (rows.change.map(points) + " points (" + rows.kind + ": " + rows.slice + ")").iloc[[0, -1]]
    better = sides.count("better")
    return f"{better} of {len(rows)} slices got better, {sides.count('worse')} worse: {worst} to {best}."


def words_sentence(words: dict[str, pd.DataFrame]) -> str:
    "Say which words an encoder looks at more, and which less."
    quoted = {side: [f"“{word}”" for word in table.word.head(5)] for side, table in words.items()}
    gained, lost = (listed(quoted[side] or ["none"]) for side in ("gained", "lost"))
    return f"The tuned encoder looks more at {gained}, and less at {lost}."


def ranks_sentence(moves: dict) -> str: # moves: of `rank_moves`
    "Say how many queries won and lost."
    total = moves["won"] + moves["same"] + moves["lost"]
    return (f"Of {total:,} queries {moves['won']:,} won, {moves['lost']:,} lost and {moves['same']:,} stayed as "
            "they were.")


def flaws_sentence(table: pd.DataFrame) -> str: # of `flaws`
    "Say how many checks of the data found something."
    return f"{(table['count'] > 0).sum()} of {len(table)} checks found something."


RULE = ( # a line is an item of a list
    "Each test gets one of four words. Within the margin: the whole 95% confidence interval lies within the margin of "
    "zero, however significant the change is.\n"
    "Better, or worse: the interval reaches beyond the margin, and the change is significant at 5%, after Holm's "
    "correction for the number of tests.\n"
    "Cannot tell: none of these. There may still be a change.\n"
    "The verdict follows from these words. Ship: a test is better, no test is worse, and no interval reaches below "
    "minus the margin.\n"
    "Either: no test is better, and all intervals lie within the margin.\n"
    "Ship averaged: neither Ship nor Either holds, but a share of averaged weights is better on a test, and rules out "
    "a loss of the margin on every test. This is corrected for all shares and tests at once.\n"
    "Do not ship: a test is worse, and no share of averaged weights meets that rule.\n"
    "Cannot tell: all other cases.\n"
    "Where some cases of a test share a text with training, the other cases are judged by themselves as well. They "
    "count if they are worse. If they are half of the test or more, they also count if their interval reaches below "
    "minus the margin.\n"
    "We correct for several tests within each metric, once for whole tests and once for their cases without texts of "
    "training. If nothing had changed, one such correction would still find a change in 5% of pages, and several would "
    "find one in more.\n"
    "A test decides nothing where both models score matches below non-matches, where both find next to nothing, where "
    "a model gives all pairs one score, or where all pairs occur in training. The other tests decide.\n"
    "Intervals are 95% confidence intervals over resamples that both models share. The gray band is a change within "
    "the margin. A page that finds no harm does not rule harm out.\n"
    "Each model is one training run: the page does not cover another seed.")
HOW_TO_READ = { # part of the page -> what its details say
    "verdicts": RULE,
    "averaged":
        "Each dot is a share. Higher is better on the new test that lost most at that share. Further right is better "
        "on the test in distribution. Whiskers are 95% confidence intervals against the base. The gray band is a "
        "loss within the margin.",
    "thresholds":
        "A pair passes if its score is at or above the cut-off. Kept is the cut-off in use. By default it is the one "
        "at which 5% of the non-matches pass in the base. Set again is the cut-off at which as many non-matches pass "
        "as in the base. Parentheses hold 95% confidence intervals. Where matches are rarer than in the test, fewer of "
        "the pairs that pass are matches. The other two rates do not depend on that.",
    "slices":
        "A row has the metric that decides, on the pairs or queries of one slice. Intervals are not corrected for the "
        "number of slices. Take one slice as a hint, and a pattern as a finding.",
    "words":
        "The numbers are a word's share of the importance of the texts that have it: means over a sample of the texts "
        "of training and tests.",
    "shortcuts":
        "All of these words gained importance. In training some of them occur in matches more often than in "
        "non-matches, and others less often. A word misleads on a test if pairs that share it are matches there no "
        "more often than all pairs are. We pick such words by the labels of one half of a test, and drop them from the "
        "other half. They explain part of a loss if the tuned model scores higher without them, and gains more than "
        "the base on the same pairs.",
    "flips":
        "Wrong says how far a pair is on the wrong side. For a match it is the share of non-matches that score above "
        "it. For a non-match it is the share of matches that score below it. The rank is that of a query's first "
        "relevant text. The tuned model looks at shaded words, and at underlined words more than the base did.",
}


class Part(NamedTuple):
    "Part of the page that a field of `Diagnosis` fills."
    key: str # the field
    title: str
    sentence: Callable | None = None # on each of its tables
    columns: list[str] | None = None # that are shown; None: all


PAGE_PARTS = (
    Part("verdicts", "What happened on each test?",
         columns=["metric", "part", "cases", "base", "tuned", "change", "low", "high", "verdict", "found"]),
    Part("averaged", "What should I do?", columns=["share", "value", "change", "low", "high"]),
    Part("thresholds", "What happens at my threshold?", threshold_sentence),
    Part("ranks", "How did the ranks move?", ranks_sentence),
    Part("slices", "Where did it change?"),
    Part("words", "Because of which words?", columns=["word", "base", "tuned", "both", "matches both"]),
    Part("shortcuts", "Do these words mislead?",
         columns=["goes with", "words", "lost", "change", "low", "high", "base change", "more", "more low",
                  "more high"]),
    Part("flips", "Which pairs were lost?"),
    Part("flaws", "Can I trust the data?", flaws_sentence, ["file", "what", "count", "examples"]),
    Part("scores", "How good is each scorer?"),
)
URGENT_REASONS = ("Repair this first", NEW_DATA) # reasons that say themselves what to do next
STEPS = { # of each answer
    "ship": "Set your threshold again: the page says below what passes at the old one.",
    "do not ship": "Train again with the program below, on a file of unlabeled texts like the new data. Without such "
    "texts, or without training, average the weights. General texts come last. Then compare (`debias-nb compare`).",
    "ship averaged": "Confirm the share on data that had no part in choosing it, and set your threshold again.",
    "either": "Ship either. If you keep the base, you need to replace nothing.",
    "cannot tell": "Get more {cases}, of the kind that the encoder will meet. Until then keep the base, unless you can "
    "bear the loss that the tests do not rule out.",
}


@dataclass(eq=False)
class Diagnosis:
    """Diagnosis of a fine-tuning, part by part.

    Metrics, rates and their changes are fractions; `html` and `json` write all parts.

    Parameters
    ----------
    decision : Decision
        Whether to ship the tuned encoder, and why.
    verdicts : DataFrame
        One row per test, part and metric, the one that decides first: both models' values, the change with its 95%
        interval, p after Holm, and the word; `planned` is the change that the size of the test alone was expected to
        find, `found` the one by its resamples. The part is all of the test, or what shares no text with training, where
        the rest does.
    sentences : list of str
        The same in words.
    warnings : list of str
        What to know before a verdict is believed.
    reasons : list of str
        What a verdict may come from, where it can be told.
    scores : DataFrame
        One row per test, scorer and metric.
    words : dict
        Words that `gained` and `lost` importance, a frame each; empty where scores were given.
    slices : DataFrame
        Where the change sits.
    shortcuts : DataFrame
        One row per test and what the words go with in training: what becomes of the test without words that mislead
        there.
    flaws : DataFrame
        What is wrong with the data.
    flips : dict
        Test to the pairs or queries that fine-tuning lost most, a frame each.
    snippet : str
        A program to try next.
    facts : dict
        Files, models, versions, command.
    notes : list of str
        What was left out, and why.
    left_out : dict
        Test that is too small for an interval to what is too small about it.
    averaged : DataFrame
        One row per test and share of the tuned weights: `value`, and `change` against the base with its interval.
    thresholds : DataFrame
        One row per test of pairs, model and cut-off (`kept` or `set again`): false positives, recall and precision.
    ranks : dict
        Test of queries to how their ranks moved.
    """
    decision: Decision
    verdicts: pd.DataFrame
    sentences: list[str]
    warnings: list[str]
    reasons: list[str]
    scores: pd.DataFrame
    words: dict[str, pd.DataFrame]
    slices: pd.DataFrame
    shortcuts: pd.DataFrame
    flaws: pd.DataFrame
    flips: dict[str, pd.DataFrame]
    snippet: str
    facts: dict
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    averaged: pd.DataFrame = field(default_factory=pd.DataFrame)
    thresholds: pd.DataFrame = field(default_factory=pd.DataFrame)
    ranks: dict[str, dict] = field(default_factory=dict)

    @property
    def cards(self) -> list[dict]:
        "What the first screen of the page says of each test, and what becomes of its use as it is today."
        use = {test: threshold_sentence(rows).partition(". ")[0] + "."
               for test, rows in tables(self.thresholds).items()}
        use |= {test: ranks_sentence(moves) for test, moves in self.ranks.items()}
        return cards(self.verdicts, self.decision, use)

    def sections(self) -> list[Section]:
        "Return the parts of the page."
        margin = self.decision.margin
        answers = {"verdicts": self.sentences, "shortcuts": self.reasons, "words": [words_sentence(self.words)]
                   if self.words else []}
        answers["slices"] = [f"{name}: {slices_sentence(part, margin)}" for name, part in tables(self.slices).items()]
        programs = {"averaged": self.snippet}
        trade = self.trade()
        pick = self.decision.share and f"{self.decision.share:g}"
        pictures = {"averaged": trade_picture(trade, margin, "Each share of the tuned weights", pick)} if trade else {}
        moments = {"base": "score before", "tuned": "score after"}
        lost = {name: rows.rename(columns=moments) for name, rows in self.flips.items()}
        frames = vars(self) | {"flips": lost, "flaws": self.flaws.sort_values("count", ascending=False, kind="stable")}
        sections = []
        for key, title, sentence, columns in PAGE_PARTS:
            by_name = tables(frames[key])
            texts = answers.get(key, [])
            if sentence:
                texts = [f"{name}: {sentence(table)}" if name else sentence(table) for name, table in by_name.items()]
            note = self.facts.get(key) or HOW_TO_READ.get(key, "")
            sections.append(Section(key, title, texts, shown(by_name, columns), pictures.get(key, ""),
                                    programs.get(key, ""), note))
        return [*sections, made_section(self.facts, self.notes)]

    def html(self) -> str:
        "Write one self-contained page."
        names = [model["name"] for model in self.facts["models"].values()] or ["base", "tuned"]
        base, tuned = names
        subtitle = (f"`{base}` before, `{tuned}` after." if base != tuned
                    else "The encoder before and after fine-tuning.")
        decision = self.decision
        call = decision.call
        cases = listed([result.counted for result in decision.results] or ["pairs"])
        step = decision.reason if decision.reason.startswith(URGENT_REASONS) else STEPS[call].format(cases=cases)
        if decision.is_void:
            step = "Repair what the first sentence names, and diagnose again: the numbers below are not to be used."
        elif decision.reason.endswith(KEEP):
            step = KEEP
        elif call == "do not ship" and not self.snippet:
            step = f"Train again (`debias-nb compare`) with {LIKE_NEW.title}; if you have none, on {LAST}."
        return page(
            self.sections(),
            [result.metric for result in decision.results],
            title=f"{call.capitalize()}: {base}, fine-tuned",
            about=subtitle,
            decision=decision,
            cards=self.cards,
            steps=[step],
            not_tested=decision.not_tested,
            warnings=self.warnings,
            checks=self.facts.get("checks", []),
            margin=decision.margin,
        )

    def trade(self) -> list[dict]: # as of `trade_points`
        "List what each share gains on the test in distribution, and on the new test that lost most."
        like = {result.test for result in self.decision.results if result.like}
        results = {}
        for row in self.averaged.to_dict("records"):
            if row["share"] > 0:
                name = "tuned" if row["share"] == 1 else f"{row['share']:g}"
                results.setdefault(name, []).append(Result(
                    row["test"], "", row["change"], row["low"], row["high"], like=row["test"] in like))
        return trade_points(results) if results else []

    def files(self) -> dict[str, str]: # of `FILES`: what is in them
        "Write the page, its numbers, and three tables."
        frames = map(csv_text, (self.verdicts, self.scores, self.slices))
        return dict(zip(FILES, (self.html(), self.json(), *frames)))

    def json(self) -> str:
        "Write the same numbers, as fractions."
        return json_text({"schema": SCHEMA, "verdict": self.decision.verdict()} | vars(self))

    def to_model_card(self, folder: str | Path) -> None: # of a saved model
        "Put the decision and a table of the tests into the card of a model, in place of those that are there."
        path = Path(folder) / "README.md"
        block = filled("card.md.j2", decision=self.decision, cards=self.cards,
                       base=self.facts["models"]["base"]["name"],
                      version=self.facts["versions"]["debias-nb"])
        card = path.read_text("utf-8") if path.exists() else ""
        head, _, remainder = card.partition("<!-- debias-nb -->")
        tail = remainder.partition("<!-- /debias-nb -->")[2].lstrip("\n")
        write_target(path, f"{head.rstrip()}\n\n{block.strip()}\n{tail}".lstrip())

    def __repr__(self):
        prompts = {name: model["prompt"] for name, model in self.facts["models"].items()}
        sentences = [*self.warnings, *file_notes(self.facts["files"]), *prompt_notes(prompts), *self.sentences,
                     *self.reasons]
        if self.facts["files"] and "train" not in self.facts["files"]:
            sentences.append(NO_TRAINING)
        return "\n".join(map(on_one_line, [f"{self.decision.heading} {self.decision.reason}", *sentences]))

    def _repr_html_(self) -> str:
        "Show the decision and one card per test, as a notebook does."
        return screen(self.decision, self.cards)

    def save(self, folder: str | Path) -> Path: # of the page
        "Write page, numbers and tables into a folder, which may be there."
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files().items():
            write_target(folder / name, text)
        return folder / FILES[0]

    def failing(self, fail_on: Literal["worse", "unsure"], margin: float | None = None) -> list[str]: # names of tests
        """Name the tests that got worse in the metric that decides.

        That is on all that is tested or on what shares no text with training. With unsure also those that may have lost
        the margin or more, on all of it or where half of it or more shares no text with training, and those that are
        too small for an interval. Where numbers are not to be used, the tests that are unusable, as the verdict line
        has it. By default the margin is that of the decision, a fraction."""
        margin = self.decision.margin if margin is None else margin
        names = self.decision.failing(fail_on == "unsure", margin)
        return [*dict.fromkeys(names), *(self.left_out if fail_on == "unsure" else ())]
