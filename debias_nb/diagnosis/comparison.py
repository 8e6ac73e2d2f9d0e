"""The parts of a comparison, its recommendation, and the files and page that they are written to."""
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from ..checks import ConfigError, check_known, on_one_line
from .changes import NEW, WHOLE, points
from .pairs import VALIDATION
from .test_sets import figures, level
from .titles import TITLES
from .decision import LIKE, Result, overall, verdict_line
from .methods import HOW, Method
from .page import Section, csv_text, file_notes, filled, json_text, made_section, page, screen, shown, tables
from .page import trade_picture
from .programs import folder_name, training_program
from .recommendation import Recommendation, lowest, recommend, trade_points
from .recommendations import GENERAL, Advice
from .targets import COMPARISON as FILES
from ..data.sentences import GENERAL_TEXTS
from ..runs.settings import TrainConfig
from ..files import package_file
from ..measures.prediction import range_at
from ..measures.several import DRAWS, outside_of_best, paired_together, shared_errors, step_down
from ..measures.stats import judge

COLUMN_DECIMALS = {"difference": 2, "low": 2, "high": 2, "p": 4, "found": 1, "bound": 2}
CHOICE_WARNING = (
    "The method of this program was chosen on {pairs}. The best of several looks better there than it is: confirm it "
    "on other data.")
REFERENCES = {"plain": "plain fine-tuning", "base": "the base"} # what every method is compared with
FEW_SEEDS = 3 # so many find large differences alone
COMPARISON_SCHEMA = 5 # of report.json
COMPARISON_RULE = ( # a line is an item of a list
    "The picture shows what each method gains and loses. Right is better in distribution. Up is better on "
    "the new test that each method changes worst. A dashed line joins the methods that no other method beats on both.\n"
    "Better: the interval does not lie within the margin, and the difference is significant at 5%, corrected for all "
    "comparisons with the base in one metric.\n"
    "A method fits if it is better than the base on a test, and a loss of the margin is ruled out on every test. A "
    "loss is ruled out if the lower end lies above minus the margin, at 97.5% for all methods that gain at once. So in "
    "at most 2.5% of such pages does the method that we name lose the margin somewhere, however many you tried.\n"
    "Use: the method that fits and has the highest mean of the metric that decides, over the validation pairs, or over "
    "the tests if there are none.\n"
    "Your call: no method fits, and each that is better on one test is worse on another.\n"
    "Keep the base: every method is worse on a test, and none is better on any.\n"
    "Either: all intervals lie within the margin.\n"
    "Cannot tell: all other cases.\n"
    "We compare each method with the base and with plain fine-tuning, not with the others. Both corrections use the "
    "errors that methods share, so that near-equal methods count as about one (Westfall and Young 1993).\n"
    "Where some cases of a test share a text with training, the other cases are judged by themselves as well. They "
    "count if they are worse. If they are half of the test or more, they also count if their lower end reaches below "
    "minus the margin.\n"
    "We correct within each metric, once for whole tests and once for their cases without texts of training. If "
    "nothing had changed, each such correction would still find a change in 5% of pages.\n"
    "An interval is of one comparison, over the seeds and resamples of the test that all methods share. Where a "
    "method's seeds agree more than those of the other methods, its variance is raised toward theirs.")
DIFFERENCES = ["method", "metric", "against", "change", "low", "high", "bound", "word", "p", "found"]
WHY = { # of each answer, the program
    "use a method": "{} is recommended above: check it on pairs that had no part in the choice.",
    "cannot tell": "{} is what the answer above names until more is measured. Check it on pairs that had no part in "
                   "the choice.",
}
# of the method that is named
METHOD_ROLES = {"use a method": "Recommended", "your call": "Gains most", "keep the base": "Loses least"}
METHOD_STEPS = { # of each answer
    "use a method": "Train with the program below, and confirm it on data that had no part in the choice.",
    "keep the base": "Keep the base. Must it be fine-tuned, see the program below.",
    "either": "Keep the base, or train with the program below.",
    "your call": "Weigh what is gained against what is lost.",
    "cannot tell": "Measure what is said above to be short. Must it be fine-tuned before, see the program below.",
}


# of the training pairs, and of new data where it is another
Kind = Literal["sentences", "offers", "sentences:offers", "offers:sentences"]
RECORDED = {"plain": "plain", "averaged": "wise-ft:0.5", "general": GENERAL.method} # what a prior names of `prior.csv`
RECORDS = (
    "Prior, no measurement of yours: in our records of {encoder} trained with {loss} on {trained_on}, one training "
    "changes AUC(0.05) on a new kind of {texts} by {plain} points, averaged weights at 0.5 by {averaged}, and {title} "
    "by {general} (95% ranges, at the base and with the error of your new tests).")
NO_PRIOR = "No prior: our records have no such encoder, loss and kind of training, tested on new data by AUC(0.05)."
NO_KIND = ("No prior: name the kind of training, --kind sentences or offers, and our records of this encoder say what "
           "is likely.")
MOSTLY_SEEDS = .5 # of a variance


@dataclass(frozen=True)
class Prior:
    "Conclusion of our records, and the method that they advise, if any."
    sentence: str
    advised: Advice | None = None
    is_found: bool = False


def _span(least: pd.Series) -> str: # in points
    "`1.2`, or `1.2 to 3.4`."
    ends = dict.fromkeys([f"{least.min():.1f}", f"{least.max():.1f}"])
    return " to ".join(ends)


def part_name(test: str, part: str = NEW) -> str:
    "Name a part of a test."
    return test if part == WHOLE else f"{test}, {part}"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results of all runs; its methods give frames, a page and its numbers.

    Parameters
    ----------
    results : DataFrame
        One row per method, seed, test, part and metric: `method`, `seed`, `test`, `part`, `metric`, `value`, its values
        on resamples (`resampled`), and whether all scores are one (`one score`). A part is all of a test, or what is
        disjoint from training. Fractions.
    methods : list of Method
        The methods, in the order of the page.
    settings : TrainConfig
        How all of them were trained.
    facts : dict
        What the page says of files, models and versions.
    tried : DataFrame, optional
        Where strengths were chosen: `method`, `strength`, `value` of the metric that decides on the validation pairs.
    units : dict
        How many units the resamples of each test draw; many for one that is not there.
    deciding : dict
        Test to the metric that decides; AUC(0.05) for one that is not there.
    margin : float
        The smallest change that matters, in points.
    like : str
        The test in distribution; all others are new data.
    kind : str, optional
        What the training pairs are of: sentences or offers.
    """
    results: pd.DataFrame
    methods: list[Method]
    settings: TrainConfig
    facts: dict = field(default_factory=dict)
    tried: pd.DataFrame | None = None
    units: dict[str, int] = field(default_factory=dict)
    deciding: dict[str, str] = field(default_factory=dict)
    margin: float = 1.
    like: str = LIKE
    kind: Kind | None = None
    _differences: dict = field(init=False, default_factory=dict) # of each call of `differences`: it draws many errors

    @property
    def tests(self) -> list[str]:
        return [test for test in self.results.test.unique() if not test.startswith(VALIDATION)]

    @property
    def validation(self) -> list[str]:
        "The pairs on which strengths and the method are chosen, none of them a test."
        return [test for test in self.results.test.unique() if test.startswith(VALIDATION)]

    @property
    def seeds(self) -> int:
        return self.results.seed.nunique()

    @property
    def titles(self) -> dict[str, str]:
        "The methods in words."
        return {method.name: method.title for method in self.methods}

    @property
    def scores(self) -> pd.DataFrame:
        "The `results` without resamples."
        return self.results[["method", "seed", "test", "part", "metric", "value"]]

    def metrics(self, test: str) -> list[str]:
        "List the metrics of a test, the one that decides first."
        names = self.results.metric[self.results.test == test].unique().tolist()
        first = self.deciding.get(test, names[0])
        return sorted(names, key=lambda metric: metric != first)

    def first_metric(self, test: str) -> str:
        "Return the metric that decides on a test."
        return self.metrics(test)[0]

    def _decides(self, rows: pd.DataFrame) -> pd.Series: # of booleans
        "Mark the rows in the metric that decides on their test."
        return rows.metric == rows.test.map(self.first_metric)

    @property
    def best(self) -> pd.DataFrame: # as `scores`
        "The rows of `scores` that decide, of whole tests."
        return self._deciding(self.tests)

    def _deciding(self, tests: list[str]) -> pd.DataFrame: # as `scores`
        "Select the rows of `scores` that decide on some tests."
        scores = self.scores[self.scores.test.isin(tests) & (self.scores.part == WHOLE)]
        return scores[self._decides(scores)]

    def means(self) -> pd.DataFrame: # one row per method, one column per test
        "Show mean and standard deviation over seeds of what decides, in percent; one trial has no spread."
        def cell(values):
            spread = f" ± {100 * values.std():.1f}" if len(values) > 1 else ""
            return f"{100 * values.mean():.1f}{spread}"

        table = self.best.pivot_table("value", "method", "test", cell, sort=False)
        return table.loc[list(self.titles)]

    def differences(
        self,
        reference: str = "plain",    # a method
        metric: str | None = None, # None: the one that decides on each test
        part: str = WHOLE,         # of the tests; `NEW`: what is disjoint from training, on tests that overlap with it
    ) -> pd.DataFrame: # method, test, metric, difference, low, high, p, word and those below; points
        """Subtract one method from each other one.

        The intervals are t over seeds and resampled cases, where the methods on one test say together how much seeds
        vary; `word` is one of `stats.WORDS` for the claim that the other is above. p-values are corrected over all rows
        (`step_down`). `bound`: the lower end for whichever method is picked (`outside_of_best`); `found`: the
        detectable difference (80% power); `found at best`: with seeds without end; `provisional`: of `Paired`."""
        check_known("method", reference, list(self.titles))
        if metric is not None:
            check_known("metric", metric, list(self.scores.metric.unique()), ConfigError)
        key = reference, metric, part
        if key not in self._differences:
            self._differences[key] = self._subtract(*key)
        return self._differences[key].copy()

    def _subtract(self, reference: str, metric: str | None, part: str) -> pd.DataFrame: # as `differences`
        names = list(self.titles)
        rng = np.random.default_rng(0)
        rows, changes, errors = [], [], [np.empty((DRAWS, 0))]
        for test in self.tests:
            test_metric = metric or self.first_metric(test)
            place = self.results[(self.results.test == test) & (self.results.part == part)
                                 & (self.results.metric == test_metric)]
            measurements = {name: (seeds.value.tolist(), seeds.resampled.tolist())
                            for name, seeds in place.groupby("method")}
            rivals = [name for name in names if name in measurements and name != reference]
            if rivals:
                sides = [(measurements[name][0], measurements[reference][0], measurements[name][1],
                          measurements[reference][1]) for name in rivals]
                pairs = paired_together(sides, units=self.units.get(part_name(test, part)))
                resamples = np.array([np.mean(np.subtract(*sides[2:]), axis=0) for sides in sides])
                rows += [{"method": name, "test": test, "metric": test_metric} for name in rivals]
                changes += pairs
                errors.append(shared_errors(resamples, pairs, rng))
        table = pd.DataFrame(rows, columns=["method", "test", "metric"])
        ends = pd.DataFrame(map(figures, changes),
                            columns=["change", "low", "high"]).rename(columns={"change": "difference"})
        errors = np.hstack(errors)
        verdicts = judge(changes, self.margin / 100, correct=partial(step_down, errors=errors))
        distance = pd.Series([(change.difference + self.margin / 100) / max(change.error, 1e-12) for change in changes],
                             dtype=float)
        gaining = table.method.isin(table.method[verdicts.word == "better"])
        candidates = distance[gaining if gaining.any() else distance.index]
        is_outside = outside_of_best(errors[:, candidates.groupby(table.method).idxmin()])
        verdicts["bound"] = [change.difference - stdtrit(change.freedom, 1 - is_outside) * change.error
                             for change in changes]
        verdicts[["found", "found at best", "bound"]] *= 100
        frame = pd.concat([table, 100 * ends,
                           verdicts[["p", "word", "found", "found at best", "provisional", "bound"]]], axis=1)
        return frame.sort_values("method", key=lambda column: column.map(names.index), kind="stable", ignore_index=True)

    def every_difference(self) -> pd.DataFrame: # as `differences`, with `against` and `part`
        "Return all differences: from plain fine-tuning and the base, by each metric, on each part of the tests."
        metrics = dict.fromkeys(metric for test in self.tests for metric in self.metrics(test)[1:])
        frames = []
        for reference, part, metric in product(REFERENCES, (WHOLE, NEW), (None, *metrics)):
            table = self.differences(reference, metric, part=part)
            if metric is not None: # where it decides it is there already
                table = table[~self._decides(table)]
            frames.append(table.assign(against=reference, part=part))
        return pd.concat([table for table in frames if len(table)], ignore_index=True)

    def levels(self) -> pd.DataFrame: # one row per method, test, part and metric; fractions
        "Compute the level of each method, with intervals over seeds and resampled cases."
        rows = []
        results = self.results[self.results.test.isin(self.tests)]
        for (method, test, part, metric), group in results.groupby(["method", "test", "part", "metric"], sort=False):
            interval = level(group.value.tolist(), group.resampled.tolist(), self.units.get(part_name(test, part)))
            rows.append({"method": method, "metric": metric, "test": test, "part": part} | interval)
        return pd.DataFrame(rows)

    def found(self) -> dict[str, str]: # of each test
        "Say which difference each test can detect, and with few seeds which one it could with more."
        sentences = {}
        for test, rows in self.differences().groupby("test", sort=False):
            title = TITLES[self.first_metric(test)]
            sentences[test] = (f"On `{test}`, the detectable difference (80% power) is {_span(rows['found'])} points "
                               f"of {title}.")
            if self.seeds <= FEW_SEEDS:
                best = _span(rows["found at best"])
                sentences[test] += (f" More seeds than these {self.seeds} would bring this to {best} at best; below, "
                                    "it takes more test data.")
        return sentences

    def warnings(self) -> list[str]:
        "Say what to know before a result is believed."
        constant = self.results[self.results["one score"] & self.results.test.isin(self.tests)]
        sentences = [f"{test}: all pairs have the same score in a trial of {', '.join(rows.method.unique())}."
                     for test, rows in constant.groupby("test", sort=False)]
        if self.differences().provisional.any():
            few = f"{self.seeds} seeds of one method" if len(self.methods) == 2 else f"{self.seeds} seeds"
            reason = f"{few} say too little of how much trainings differ, so intervals can be too narrow"
            sentences.append(f"Provisional: {reason}. Five (--seeds 5) say enough.")
        return sentences + self.facts.get("doubts", [])

    @property
    def notes(self) -> list[str]:
        "Say how files and models were read."
        return file_notes(self.facts.get("files", {})) + self.facts.get("notes", [])

    def _means(self, tests: list[str]) -> dict[str, float]: # method -> fraction
        "Average what decides over tests and seeds."
        return self._deciding(tests).groupby("method").value.mean().to_dict()

    @cached_property
    def recommendation(self) -> Recommendation:
        "Which method to use, with the base among the candidates."
        cases = self.facts.get("cases", {})
        every = self.every_difference()
        against_base = every[every.against == "base"].assign(decides=self._decides(every))
        values = self.scores.groupby(["method", "test", "part", "metric"]).value.mean()
        results, secondary = ({method.name: [] for method in self.methods if method.kind != "base"} for _ in range(2))
        for row in against_base.sort_values("test", key=lambda tests: tests.map(self.tests.index),
                                            kind="stable").to_dict("records"):
            fractions = [row[key] / 100 for key in ("difference", "low", "high", "found")]
            bound = row["bound"] / 100
            test, part = row["test"], row["part"]
            share = cases[part_name(test)] / cases[test] if part == NEW and test in cases else 1.
            value = values[row["method"], test, part, row["metric"]]
            result = Result(test, row["word"], *fractions, part=part, like=test == self.like, share=share,
                            metric=row["metric"], value=value, bound=bound)
            (results if row["decides"] else secondary)[row["method"]].append(result)
        picked_on = "the validation pairs" if self.validation else "these tests, which flatters it"
        means = self._means(self.validation or self.tests)
        is_general = (self.facts.get("texts") or {}).get("path") == GENERAL_TEXTS
        general_method = GENERAL.method if is_general and self.prior.advised else None
        answer = recommend(
            results, means, picked_on, self.margin / 100, secondary, self.titles, general_method, self.short)
        if answer.call != "cannot tell":
            return answer
        advice = ""
        if answer.method == general_method:
            advice = f" So until more is measured, take {self.titles[answer.method]}."
        elif self.prior.is_found and not self.prior.advised:
            advice = " So they advise none of the three."
        return replace(answer, reason=f"{answer.reason} {self.prior.sentence}{advice}")

    @property
    def short(self) -> str:
        "Say whether seeds or test data are too few, by what makes up the errors of what cannot be told."
        open_ones = self.differences("base").query("word == 'cannot tell'")
        ratio = open_ones["found at best"] / open_ones.found # of errors, with and without those of seeds
        if not (1 - ratio**2 > MOSTLY_SEEDS).any():
            return "More test data may tell; more seeds would change little."
        if (open_ones["found at best"] <= self.margin).all():
            return "More seeds may tell."
        return "More seeds and more test data may tell."

    def verdict(self) -> str:
        "Return the line that a monitor reads, of the method that the recommendation names."
        method = self.recommendation.method
        results = self.recommendation.results[method]
        return f"{verdict_line(results, overall(results, self.margin / 100))} | method={method}"

    @cached_property
    def prior(self) -> Prior:
        "What our records of this kind of training make likely, at the base and with the error of the new tests."
        trained_on, _, texts = (self.kind or "").partition(":")
        source = self.facts.get("models", {}).get("base", {}).get("source") or ""
        names = {"encoder": Path(source).name.partition("@")[0], "loss": self.settings.loss, "trained_on": trained_on,
                 "texts": texts or trained_on}
        rows = pd.read_csv(package_file("diagnosis/prior.csv")).merge(pd.DataFrame([names])).set_index("method")
        new = self.differences("base").query("method == 'plain' and test != @self.like and metric == 'auc05'")
        if rows.empty or new.empty:
            records = pd.read_csv(package_file("diagnosis/prior.csv"))
            is_known = ((records.encoder == names["encoder"]) & (records.loss == names["loss"])).any()
            lacks_kind = is_known and len(new) > 0 and self.kind is None
            return Prior(NO_KIND if lacks_kind else NO_PRIOR)
        level = 100 * self.best[(self.best.method == "base") & self.best.test.isin(new.test)].value.mean()
        low, high = range_at(level, rows["mean"], rows.low, rows.high, (new.high - new.low).max() / 2 / 1.96)
        spans = {name: f"{points(low[method] / 100)} to {points(high[method] / 100)}"
                 for name, method in RECORDED.items()}
        general_advice = GENERAL if low[GENERAL.method] > low["plain"] else None
        return Prior(RECORDS.format(**names, **spans, title=GENERAL.title), general_advice, is_found=True)

    def snippet(self) -> str:
        "Write a program that trains with the method that the recommendation names."
        answer = self.recommendation
        [best] = [method for method in self.methods if method.name == answer.method]
        reason = WHY.get(
            answer.call, "If it is to be fine-tuned: {}. Check it on pairs that had no part in the choice.",
        ).format(best.title)
        base = self.facts["models"]["base"]
        folder = f"{folder_name(base['source'])}-{best.name.partition(':')[0]}"
        settings = {name: getattr(self.settings, name) for name in HOW}
        custom = best.custom_class and best.kind
        train = self.facts["files"]["train"]
        program = training_program(
            reason, base["source"], train, best.regularizer, folder, prompt=base["prompt"], part=best.adapters,
            custom_class=custom, seed=int(self.results.seed.min()),
            **settings)
        if best.kind != "wise-ft":
            return program
        mixing = filled("mixed.py.j2", base=base["source"], tuned=f"{folder}/model", share=best.strength, folder=folder,
                        choice="")
        return f"{program}\n{mixing}"

    @property
    def cards(self) -> list[dict]: # as of `decision.cards`
        "What the first screen says of the recommended method, the one that loses least, and plain fine-tuning."
        answer = self.recommendation
        mildest = max(answer.results, key=lambda name: lowest(answer.results[name]))
        roles = {METHOD_ROLES.get(answer.call, "Named above"): answer.method, "Loses least": mildest,
                 "For comparison": "plain"}
        cards = {}
        for role, name in roles.items():
            if name in answer.results and name not in cards:
                card = {"word": "", "pick": role == "Recommended", "notes": [], "foot": "Points against the base."}
                cards[name] = {"role": role, "name": self.titles[name], "results": answer.results[name]} | card
        return list(cards.values())

    def html(self) -> str:
        "Write one self-contained page."
        answer = self.recommendation
        base = self.facts["models"]["base"]["name"]
        subtitle = f"`{base}`, trained with each method, {self.seeds} seeds each."
        metrics = [self.first_metric(test) for test in self.tests]
        not_tested = [f"More than {self.seeds} seeds of each training.", "Other strengths than those that were tried."]
        return page(
            self.sections(), metrics, title=f"Methods compared: {base}", about=subtitle, decision=answer,
            cards=self.cards, steps=[METHOD_STEPS[answer.call]],
            not_tested=not_tested, warnings=self.warnings(), margin=self.margin / 100)

    def sections(self) -> list[Section]:
        "Return the parts of the page."
        # the base first, and what decides
        differences = self.every_difference().rename(columns={"difference": "change"})
        differences[["change", "low", "high", "found", "bound"]] /= 100
        differences["decides"] = self._decides(differences)
        differences = differences.sort_values(["against", "decides", "change"], ascending=[True, False, False])
        frames = {"differences": differences, "levels": self.levels()}
        for name, frame in frames.items():
            frame["test"] = [part_name(*place) for place in zip(frame.test, frame.part)]
            frames[name] = tables(frame.drop(columns="part"))
        trade = trade_points(self.recommendation.results)
        picture = ""
        if trade:
            pick = self.recommendation.method if self.recommendation.call == "use a method" else None
            picture = trade_picture(trade, self.margin / 100, "Each method", pick)
        inputs = {"methods": pd.DataFrame(self.facts["methods"])[["name", "about", "strength"]]}
        if self.tried is not None:
            inputs["strengths that were tried, on validation pairs, which are no test"] = self.tried
        settings = self.settings
        training = (f"Trained with {settings.epochs:g} epochs, batches of {settings.batch_size} pairs, learning rate "
                    f"{settings.learning_rate:g}; the loss is {settings.loss}.")
        choice = CHOICE_WARNING.format(pairs="the validation pairs" if self.validation else "these tests")
        return [
            Section("differences", "How did each method do?", [*self.found().values()],
                    shown(frames["differences"], DIFFERENCES), picture, note=COMPARISON_RULE),
            Section("levels", "What did each method reach?", tables=shown(frames["levels"])),
            Section("next", "If it is fine-tuned, how?", [choice], program=self.snippet()),
            made_section(self.facts, [*self.notes, training], **inputs)]

    def _repr_html_(self) -> str:
        "Show the recommendation in a notebook."
        return screen(self.recommendation, self.cards)

    def __repr__(self):
        "Show the recommendation, warnings, levels and differences in the terminal."
        sentences = [f"{self.recommendation.heading} {self.recommendation.reason}", *self.warnings(), *self.notes]
        parts = [*map(on_one_line, sentences)]
        if self.tried is not None:
            parts.append(f"\nStrengths on the validation pairs\n{self.tried.round(3).to_string(index=False)}")
        parts.append(f"\nWhat decides, in percent, mean ± standard deviation over {self.seeds} "
                     f"seeds\n{self.means().to_string()}")
        for reference, title in REFERENCES.items():
            table = self.differences(reference).drop(columns=["found at best", "provisional"]).round(COLUMN_DECIMALS)
            parts.append(f"\nMinus {title}, in points\n{table.to_string(index=False)}")
        return "\n".join([*parts, "", *self.found().values()])

    def files(self) -> dict[str, str]: # of `FILES`: what is in them
        "Write the page, its twin and both tables."
        frames = map(csv_text, (self.scores, self.every_difference()))
        return dict(zip(FILES, (self.html(), self.json(), *frames)))

    def json(self) -> str:
        "Write the same numbers: levels as fractions, differences in points."
        return json_text({
            "schema": COMPARISON_SCHEMA, "verdict": self.verdict(), "recommendation": self.recommendation,
            "warnings": self.warnings(),
            "found": self.found(), "levels": self.levels(), "differences": self.every_difference(),
            "tried": self.tried, "next": self.snippet(), "facts": self.facts,
        })
