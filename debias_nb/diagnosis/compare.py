"Train an encoder on your own pairs with each method, and say which one to use: each is tested as `diagnose` tests one."
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from ..bars import is_bar_shown, with_bar
from ..checks import LARGEST_SEED, EncoderError, check_whole, on_one_line
from ..data.texts import read_held_texts
from ..files import fingerprint
from ..measures.several import DRAWS, outside_of_best, paired_together, shared_errors, step_down
from ..measures.stats import judge
from .changes import NEW, WHOLE, parts_of
from .decision import LIKE, Result, overall, verdict_line
from .evidence import doubts, shared_pairs
from .inputs import apart_of, made_of, read_files, with_prompts
from .methods import HOW, Method, fitting, read_methods, settings_for, training_rows, tune, without_tests
from .models import ROUTER, Model, Scorer, has_routes, load_model, mixed_scorer, reading_warnings, scoring_notes
from .page import Section, csv_text, file_notes, json_text, made_section, page, screen, shown, tables, trade_picture
from .pairs import Source
from .programs import folder_name, training_program, usual_loss
from .ranges import check_numbers
from .recommendation import Recommendation, recommend, trade_points
from .targets import COMPARISON as FILES
from .test_sets import Test, as_test, check_metric, figures

FEW_SEEDS = "With 2 or 3 seeds only large differences are found; five say how much trainings differ."
RULE = (
    "Better: the interval does not lie within the margin, and the difference from the base is significant at 5%, "
    "corrected for all methods and tests. A method fits if it is better than the base on a test, and a loss of the "
    "margin is ruled out on every test. Use: the method that fits and has the highest mean over the tests.")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results of all trainings; printed, it is the recommendation and the differences.

    Parameters
    ----------
    results : DataFrame
        One row per method, seed, test, part and metric: `value`, and its values on resamples (`resampled`); fractions.
    methods : list of Method
        The methods, in the order of the page.
    tests : dict of Test
        What they were tested on.
    """
    results: pd.DataFrame
    methods: list[Method]
    tests: dict[str, Test]
    facts: dict = field(default_factory=dict)
    margin: float = 1. # points
    like: str = LIKE
    _cache: dict = field(default_factory=dict)

    @property
    def titles(self) -> dict[str, str]: # the methods in words
        return {method.name: method.title for method in self.methods}

    @property
    def scores(self) -> pd.DataFrame:
        return self.results.drop(columns="resampled")

    def _deciding(self) -> pd.DataFrame:
        "Select the results that decide, of whole tests."
        metrics = {name: test.metric for name, test in self.tests.items()}
        return self.results[(self.results.metric == self.results.test.map(metrics)) & (self.results.part == WHOLE)]

    def means(self) -> pd.DataFrame: # one row per method, one column per test; percent
        return 100 * self._deciding().pivot_table("value", "method", "test", sort=False).loc[[*self.titles]]

    def differences(self, reference: str = "plain", part: str = WHOLE) -> pd.DataFrame: # fractions
        """Subtract one method from each other one, in the metric that decides.

        The intervals are over seeds and resampled cases, p-values are corrected over all rows (`step_down`), and
        `bound` is the lower end for whichever method is picked (`outside_of_best`)."""
        if (reference, part) in self._cache:
            return self._cache[reference, part]
        rng = np.random.default_rng(0)
        rows, changes, errors = [], [], [np.empty((DRAWS, 0))]
        for name, test in self.tests.items():
            place = self.results[(self.results.test == name) & (self.results.part == part)
                                 & (self.results.metric == test.metric)]
            values = {method: (group.value.tolist(), group.resampled.tolist())
                      for method, group in place.groupby("method", sort=False)}
            rivals = [method for method in self.titles if method in values and method != reference]
            if rivals:
                sides = [(values[method][0], values[reference][0], values[method][1], values[reference][1])
                         for method in rivals]
                pairs = paired_together(sides, units=test.units.count())
                resamples = np.array([np.mean(np.subtract(*side[2:]), axis=0) for side in sides])
                rows += [{"method": method, "test": name, "metric": test.metric} for method in rivals]
                changes += pairs
                errors.append(shared_errors(resamples, pairs, rng))
        table = pd.DataFrame(rows, columns=["method", "test", "metric"])
        ends = pd.DataFrame(map(figures, changes), columns=["change", "low", "high"])
        together = np.hstack(errors)
        judged = judge(changes, self.margin / 100, correct=partial(step_down, errors=together))
        distance = pd.Series([(change.difference + self.margin / 100) / max(change.error, 1e-12) for change in changes],
                             dtype=float)
        gaining = table.method.isin(table.method[judged.word == "better"])
        candidates = distance[gaining if gaining.any() else distance.index]
        is_outside = outside_of_best(together[:, candidates.groupby(table.method).idxmin()]) if len(table) else 0
        judged["bound"] = [change.difference - stdtrit(change.freedom, 1 - is_outside) * change.error
                           for change in changes]
        frame = pd.concat([table, ends, judged[["p", "word", "found", "bound", "provisional"]]], axis=1)
        self._cache[reference, part] = frame
        return frame

    @cached_property
    def recommendation(self) -> Recommendation:
        "Which method to use, with the base among the candidates."
        values = self.results.groupby(["method", "test", "part", "metric"]).value.mean()
        results = {method.name: [] for method in self.methods if method.kind != "base"}
        for part in (WHOLE, NEW):
            for row in self.differences("base", part).to_dict("records"):
                test = self.tests[row["test"]]
                share = self.facts["cases"].get((row["test"], part), len(test.cases)) / len(test.cases)
                results[row["method"]].append(Result(
                    row["test"], row["word"], row["change"], row["low"], row["high"], row["found"], part=part,
                    like=row["test"] == self.like, share=share, metric=row["metric"], bound=row["bound"],
                    value=values[row["method"], row["test"], part, row["metric"]]))
        means = self._deciding().groupby("method").value.mean().to_dict()
        return recommend(results, means, "these tests, which flatters it", self.margin / 100, titles=self.titles)

    def verdict(self) -> str:
        "Return the line that a monitor reads, of the method that the recommendation names."
        results = self.recommendation.results[self.recommendation.method]
        return f"{verdict_line(results, overall(results, self.margin / 100))} | method={self.recommendation.method}"

    def warnings(self) -> list[str]:
        return [FEW_SEEDS] * bool(self.differences("base").provisional.any()) + self.facts["doubts"]

    def snippet(self) -> str:
        "Write a program that trains with the method that the recommendation names."
        [best] = [method for method in self.methods if method.name == self.recommendation.method]
        base, train = self.facts["models"]["base"], self.facts["files"]["train"]
        return training_program(
            f"{best.title}. Check it on pairs that had no part in the choice.", base["source"], train,
            best.regularizer, f"{folder_name(base['source'])}-{best.name.partition(':')[0]}", prompt=base["prompt"],
            part=best.adapters, custom_class=best.custom_class and best.kind, **self.facts["settings"])

    def sections(self) -> list[Section]:
        differences = pd.concat([self.differences(reference).assign(against=reference)
                                 for reference in ("base", "plain")], ignore_index=True)
        trade = trade_points(self.recommendation.results)
        picture = trade_picture(trade, self.margin / 100, "Each method", self.recommendation.method) if trade else ""
        columns = ["method", "metric", "against", "change", "low", "high", "bound", "word", "p", "found"]
        about = pd.DataFrame(self.facts["methods"])[["name", "about", "strength"]]
        notes = file_notes(self.facts["files"]) + self.facts["notes"]
        return [Section("differences", "How did each method do?", [], shown(tables(differences), columns), picture,
                        note=RULE),
                Section("next", "If it is fine-tuned, how?", program=self.snippet()),
                made_section(self.facts, notes, methods=about)]

    def html(self) -> str:
        "Write one self-contained page."
        answer, base = self.recommendation, self.facts["models"]["base"]["name"]
        return page(
            self.sections(), [test.metric for test in self.tests.values()], title=f"Methods compared: {base}",
            about=f"`{base}`, trained with each method.", decision=answer, cards=self.cards,
            steps=["Check the method on data that had no part in the choice."], not_tested=["Other strengths."],
            warnings=self.warnings(), margin=self.margin / 100)

    @property
    def cards(self) -> list[dict]:
        answer = self.recommendation
        return [{"role": "Recommended" if answer.call == "use a method" else "Named above", "name": self.titles[name],
                 "results": answer.results[name], "word": "", "pick": answer.call == "use a method", "notes": [],
                 "foot": "Points against the base."} for name in dict.fromkeys((answer.method, "plain"))]

    def _repr_html_(self) -> str:
        return screen(self.recommendation, self.cards)

    def __repr__(self):
        parts = [f"{self.recommendation.heading} {self.recommendation.reason}", *self.warnings()]
        parts = [*map(on_one_line, parts), f"\nWhat decides, in percent\n{self.means().round(1).to_string()}"]
        for reference in ("plain", "base"):
            table = self.differences(reference).drop(columns="provisional")
            table[["change", "low", "high", "found", "bound"]] *= 100
            parts.append(f"\nMinus {reference}, in points\n{table.round(2).to_string(index=False)}")
        return "\n".join(parts)

    def files(self) -> dict[str, str]: # of `FILES`: what is in them
        told = {"verdict": self.verdict(), "recommendation": self.recommendation, "warnings": self.warnings(),
                "differences": self.differences("base"), "next": self.snippet(), "facts": {
                    name: value for name, value in self.facts.items() if name != "cases"}}
        return dict(zip(FILES, (self.html(), json_text(told), csv_text(self.scores),
                                csv_text(self.differences("base")))))


def _trained(base: Scorer, train, method: Method, settings, seed: int, folder: Path | None) -> Scorer:
    "Train an encoder, or load the one that an earlier call has left in the folder."
    texts = method.texts and fingerprint(method.texts.texts)
    key = fingerprint([base.fingerprint, base.prefixes, train.rows_sha256, method.name, method.strength, method.source,
                       texts, settings.model_dump(), seed])
    place = folder and folder / "models" / f"{method.name.replace(':', '-')}-{seed}-{key[:12]}"
    if place and place.is_dir():
        return replace(load_model(place), prompts=base.prompts)
    tuned = tune(base, train, method, settings, seed)
    if place:
        tuned.model.save(str(place), create_model_card=False)
    return tuned


def compare(
    base: "Model",
    train: Source,
    tests: dict,
    methods: str | list[str] | None = None,
    *,
    texts: str | Path | Iterable[str] | None = None,
    seeds: int = 3,
    seed: int = 0,
    learning_rate: float | None = None,
    epochs: float | None = None,
    batch_size: int | None = None,
    loss: str | None = None,
    metric: str | None = None,
    margin: float = 1.,
    like: str = LIKE,
    prompts: tuple[str, str] | None = None,
    sample: int | None = None,
    folder: str | Path | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Train an encoder with each method and seed, test it on each test, and say which method to use.

    Parameters
    ----------
    base, train, tests, metric, margin, like, prompts, sample, progress
        As in `diagnose`.
    methods : list of str, or str, optional
        Such as base,plain,wise-ft,outreg:1; with `texts` also outreg-texts, and `mymodule.Name`, a loss or regularizer
        of your own. base and plain are among them in any case.
    texts : list of str, str or Path, optional
        Unlabeled texts of the kind that the encoder will meet, none of a test; `general` stands for general texts.
    seeds, seed : int
        How many trainings of each method, and the first seed.
    learning_rate, epochs, batch_size, loss : optional
        By default what suits the kind of encoder.
    folder : str or Path, optional
        Where trained models are kept: the same call goes on where it was stopped.
    """
    check_numbers(seeds=seeds, seed=seed, margin=margin, sample=sample, learning_rate=learning_rate, epochs=epochs,
                  batch_size=batch_size)
    check_whole("seed", seed, 0, LARGEST_SEED + 1 - seeds)
    bars = is_bar_shown(progress)
    files = read_files(train, tests, bars)
    check_metric(metric, [file for name, file in files.items() if name != "train"])
    training = files["train"]
    held = None if texts is None else without_tests(read_held_texts(texts), {
        name: file for name, file in files.items() if name != "train"})
    scorer = with_prompts(load_model(base), prompts)
    if has_routes(scorer): # a training takes one
        raise EncoderError(ROUTER)
    loss = loss or usual_loss(training)
    chosen = [fitting(method, loss) for method in read_methods(methods, held)]
    settings = settings_for(scorer.kind, learning_rate=learning_rate, epochs=epochs, batch_size=batch_size, loss=loss)
    training_rows(training, loss)
    tested = {name: as_test(name, file, metric=metric) for name, file in files.items() if name != "train"}
    tested = {name: test if sample is None else test.subsample(sample) for name, test in tested.items()}
    disjoint = apart_of([*tested.values()], training)
    place = None if folder is None else Path(folder)
    rows = []
    in_order = sorted(chosen, key=lambda method: method.kind != "plain") # which averages are made of
    todo = [(number, method) for number in range(seed, seed + seeds) for method in in_order
            if number == seed or method.kind != "base"]
    plain = {}
    for number, method in with_bar(todo, "trainings", bars):
        if method.kind == "base":
            model = scorer
        elif method.kind == "wise-ft":
            model = mixed_scorer(scorer, plain[number], method.strength)
        else:
            model = _trained(scorer, training, method, settings, number, place)
        if method.kind == "plain":
            plain[number] = model
        for test in tested.values():
            scores = test.score({"it": model})["it"]
            for (part, cases), name in product(parts_of(test, disjoint).items(), test.metrics):
                measured = test.measured(scores, name, slice(None) if cases is None else cases)
                rows.append({"method": method.name, "seed": number, "test": test.name, "part": part, "metric": name,
                             "value": measured.value, "resampled": measured.resampled})
    warnings = [text for test in tested.values()
                for text in doubts(test, shared_pairs(test.file, training), ("base",))]
    options = {name: getattr(settings, name) for name in HOW}
    facts = made_of("compare", {"base": scorer}, files, tested, {"seeds": seeds, "seed": seed} | options | {
        "metric": metric, "margin": margin, "like": like, "prompts": prompts, "sample": sample,
        "methods": [method.name for method in chosen], "out": folder}, {}, held)
    facts |= {"methods": [method.facts() for method in chosen], "settings": options, "cases": {
        (name, NEW): int(part.sum()) for name, part in disjoint.items()},
        "doubts": [*warnings, *reading_warnings({"base": scorer}, tested.values())],
        "notes": scoring_notes({"base": scorer})}
    return Comparison(pd.DataFrame(rows), chosen, tested, facts, margin, like)
