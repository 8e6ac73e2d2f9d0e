"""Slices, shortcuts, what is wrong with the data, and the pairs that fine-tuning lost."""
import numpy as np
import pandas as pd

from ..data.pairs import word_overlap
from .titles import TITLES
from .test_sets import (
    FEWEST_UNITS, FALSE_POSITIVES, PAIR_COLUMNS, Measured, QueryTest, Test, TooSmall, difference, figures, level,
)
from .test_sets import split_halves
from ..bars import with_bar
from .models import Scorer, pair_scores
from .pairs import PairFile
from .words import WordPairs, label_ties, replace_words, shared_tie, word_pairs, words_of
from .changes import MARGIN
from ..measures.stats import judge

FEWEST_CASES = 10 # pairs of either class, or queries, in a slice


def range_names(values: np.ndarray) -> pd.Categorical: # (n,) of up to three ranges, whose names are in order
    "Name the third of the values that each one is in; fewer parts where many are equal."
    edges = np.unique(np.quantile(values, [0, 1 / 3, 2 / 3, 1]))
    place = np.searchsorted(edges[1:-1], values, side="left")
    if len(edges) < 3: # most are equal
        place = (values > values.min()).astype(int)
    ranges = {}
    for part in np.unique(place):
        ends = values[place == part].min(), values[place == part].max()
        ranges[part] = " to ".join(f"{end:.2g}" if end < 10 else f"{end:.0f}" for end in ends)
    return pd.Categorical([ranges[part] for part in place], dict.fromkeys(ranges.values()))


def share_unseen(left: list[str], right: list[str], training_words: set[str]) -> np.ndarray: # (n,) in [0, 1]
    "Compute for each pair the fraction of its distinct words that no training text has."
    words = [{*words_of(left_text), *words_of(right_text)} for left_text, right_text in zip(left, right)]
    return np.array([len(vocabulary - training_words) / max(1, len(vocabulary)) for vocabulary in words])


def kinds_of_cases(
    test: Test, training_words: set[str] | None,
) -> dict[str, np.ndarray]: # kind -> (n,) name of each one's slice
    "Cut the cases of a test into slices, a query by its first relevant text."
    left = test.cases.left.tolist()
    right = test.cases.right.tolist()
    lengths = [len(words_of(f"{left_text} {right_text}")) for left_text, right_text in zip(left, right)]
    kinds = {"word overlap": range_names(word_overlap(left, right, words_of))}
    kinds["words of both texts together"] = range_names(np.array(lengths, float))
    if training_words is not None:
        kinds["share of words unseen in training"] = range_names(share_unseen(left, right, training_words))
    return kinds


def _slice_row(test: Test, rows: np.ndarray) -> dict | None:
    "Measure the change on some of the cases, or return None where they, or one of their classes, are too few."
    matches = int((test.cases.label[rows] > 0).sum())
    cases = int(rows.sum())
    smallest = min(matches, cases - matches) if test.file.form == "pairs" else cases
    if smallest < FEWEST_CASES:
        return None
    try:
        test.check_rows(rows)
    except TooSmall:
        return None
    base, tuned = (test.measure(model, test.metric, rows) for model in ("base", "tuned"))
    return {"cases": cases, "matches": matches, "base": base.value, "tuned": tuned.value,
            **figures(difference(tuned, base))}


SLICE_COLUMNS = ["test", "kind", "slice", "cases", "matches", "base", "tuned", "change", "low", "high"]


def training_vocabulary(train: PairFile | None) -> set[str] | None:
    "Collect the words of training."
    return None if train is None else {word for text in (*train.left, *train.right) for word in words_of(text)}


def slices(
    tests: list[Test],
    smaller: list[Test], # `sampled` of each: those whose words are looked at
    training_words: set[str] | None,
) -> pd.DataFrame: # one row per test, kind and slice
    "Measure the change in each slice that is large enough; a kind with one slice alone is left out."
    rows = []
    for test, sample in zip(tests, smaller):
        for kind, names in kinds_of_cases(sample, training_words).items():
            ranges = pd.Series(names).value_counts(sort=False).index # in their order
            for name in ranges if len(ranges) > 1 else []:
                row = _slice_row(sample, names == name)
                if row:
                    rows.append({"test": test.name, "kind": kind, "slice": str(name)} | row)
    return pd.DataFrame(rows, columns=SLICE_COLUMNS)


TOP = 20 # words of a list


def ranked_words(importance: pd.DataFrame) -> dict[str, list[str]]: # importance: of `importance_by_word`
    "List the words that gained importance most, and those that lost most."
    losses = importance.word[importance.moved < 0].tail(TOP)
    return {"gained": importance.word[importance.moved > 0].head(TOP).tolist(), "lost": losses.tolist()[::-1]}


def _rescore(
    test: Test, scorers: dict[str, Scorer], left: list[str], right: list[str], progress: bool,
) -> dict[str, np.ndarray]:
    "Score a test with other texts; pairs whose texts stay keep their scores."
    now = pd.DataFrame({"left": left, "right": right})
    rows = np.flatnonzero((now != test.file.frame[["left", "right"]]).any(axis=1))
    fresh = pair_scores(scorers, now.left[rows].tolist(), now.right[rows].tolist(), f"{test.name}: without shortcuts",
                        progress)
    scores = {}
    for name, values in fresh.items():
        scores[name] = test.scores[name].copy()
        scores[name][rows] = values
    return scores


def _change_to(test: Test, model: str, scores: np.ndarray) -> Measured:
    "Measure the change of a model from its own scores to others."
    original = test.measure(model, test.metric)
    rescored = test.measured(scores, test.metric)
    return Measured(rescored.value - original.value, rescored.resampled - original.resampled, rescored.units)


CANDIDATES = 100 # words that gained importance
LEAST_PAIRS = 3  # training pairs that have a candidate on both sides, at least


def candidate_words(
    importance: pd.DataFrame, # of `importance_by_word`
    training: WordPairs,
) -> dict[str, list[str]]:
    "Sort words that gained importance by what they go with in training: `matches`, or `others`, which are no match."
    ties = label_ties(training, importance.word[importance.moved > 0].head(CANDIDATES).tolist())
    ties = ties[ties.both >= LEAST_PAIRS]
    tied = ties["matches both"] > training.labels.mean()
    return {"matches": ties.index[tied].tolist(), "others": ties.index[~tied].tolist()}


def without_misleading(test: Test, test_pairs: WordPairs, words: list[str]) -> tuple[list[str], list[str], list[str]]:
    "Drop the words that the other half of a test finds misleading, and return both texts and these words."
    first_half = split_halves(test.drawn_with, test.seed)
    left = test.left
    right = test.right
    misleading_words = set()
    for half in (first_half, ~first_half):
        part = WordPairs(test_pairs.vocabulary, test_pairs.left[~half], test_pairs.right[~half],
                         test_pairs.labels[~half])
        ties = label_ties(part, words)
        misleading = ties["matches both"] <= part.labels.mean() # False where no pair has the word
        substitutes = dict.fromkeys(ties.index[misleading], " ")
        misleading_words.update(substitutes)
        for i in np.flatnonzero(half):
            left[i] = replace_words(left[i], substitutes)
            right[i] = replace_words(right[i], substitutes)
    return left, right, [word for word in words if word in misleading_words]


def _without_words(
    test: Test, test_pairs: WordPairs, scorers: dict[str, Scorer], training: WordPairs, words: list[str],
    progress: bool,
) -> dict:
    "Measure a test without those of some words that mislead there."
    left, right, misleading = without_misleading(test, test_pairs, words)
    scores = _rescore(test, scorers, left, right, progress)
    base, tuned = (_change_to(test, model, scores[model]) for model in ("base", "tuned"))
    zero = Measured(0., np.zeros_like(tuned.resampled), tuned.units)
    excess = difference(tuned, base)
    row = {"words": misleading}
    for name, pairs in (("training", training), ("test", test_pairs)):
        count, fraction = shared_tie(pairs, misleading)
        row |= {f"{name} pairs": count, f"{name} matches": fraction, f"{name} mean": float(pairs.labels.mean())}
    row |= figures(difference(tuned, zero)) | {"base change": base.value, "more": excess.difference,
                                               "more low": excess.low, "more high": excess.high}
    loss = test.measure("base", test.metric).value - test.measure("tuned", test.metric).value
    return row | {"lost": loss, "paired": excess}


def shortcuts(
    tests: list[Test],
    scorers: dict[str, Scorer],     # `base` and `tuned`
    training: WordPairs,
    words: dict[str, list[str]],    # of `candidate_words`
    margin: float = MARGIN,
    progress: bool = False,
) -> pd.DataFrame: # one row per test and what the words go with in training
    """Find out whether the tuned model gains more than the base without words that mislead on a test.

    `more` is its change minus the base's on the same pairs, and `p`, corrected for the tests, is for it; `lost` is what
    fine-tuning lost on the whole test, below zero where it gained."""
    rows = []
    test_pairs = [word_pairs(test.left, test.right, test.labels) for test in tests]
    for kind, candidates in words.items():
        of_kind = [_without_words(test, pairs, scorers, training, candidates, progress)
                   for test, pairs in zip(tests, test_pairs)]
        judgments = judge([row.pop("paired") for row in of_kind], margin)
        for test, row, p, word in zip(tests, of_kind, judgments.p, judgments.word):
            shortcut = word == "better" and row["change"] > 0
            rows.append({"test": test.name, "goes with": kind, **row, "p": p, "shortcut": shortcut})
    return pd.DataFrame(rows)


EXAMPLES = 3 # of each kind
OF_TRAINING = "pairs of the training file"
COPIES = "texts are nearly the same as a match or their left text (except for case and spaces), and "


def folded_pairs(
    file: PairFile,
) -> list[tuple[str, ...]]: # both texts of each; case, spaces, punctuation and order of the two apart
    "Return what tells whether two pairs are the same: both texts, folded and sorted."
    return [tuple(sorted(pair)) for pair in zip(*file.folded)]


def shared_pairs(file: PairFile, second: PairFile) -> int:
    "Count the pairs of a file that also occur in another one, whatever their labels."
    theirs = set(folded_pairs(second))
    return sum(key in theirs for key in folded_pairs(file))


def below_chance(test: Test) -> dict[str, float]: # model -> how many of the others a match scores above, in [0, 1]
    "Find the models that score matches significantly below other pairs, in each form over all ranks."
    separations = {model: test.separation(model) for model in ("base", "tuned") if model in test.scores}
    return {model: separation.value for model, separation in separations.items()
            if separation.units >= FEWEST_UNITS
            and level([separation.value], [separation.resampled], separation.units)["high"] < .5}


MINED = (" If {} were picked by a model for their nearness, they lie above the matches by construction: test on the "
         "corpus that they are from.")


def reversal(
    test: Test,
    cosines=(), # models whose scores are cosines, and no distances
) -> str: # "" where no model is below chance
    "Explain which models score matches below other pairs."
    values = below_chance(test)
    if not values:
        return ""
    models = " and ".join(values)
    match, nonmatch = test.classes
    shares = " and ".join(map("{:.1%}".format, values.values()))
    advice = ""
    if len(values) == 2:
        advice = f" {'L' if cosines else 'The scores are distances, or l'}abels the other way round?"
    if "base" in values:
        advice += MINED.format(nonmatch)
    return f"{test.name}: by {models} {match} score below {nonmatch} (above {shares} of them; chance is 50%).{advice}"


def flat_scores(
    test: Test,
    cosines=("base", "tuned"), # models whose scores are cosines; of other scores the order alone counts
) -> dict[str, str]: # model -> what is said of it
    "Find models whose scores say nothing: all equal, or cosines that vary by 0.001, or by 1% of the other model's."
    spreads = {model: test.spread(test.scores[model]) for model in ("base", "tuned")}
    scope = " of a query" * (test.file.form != "pairs")
    messages = {}
    for (model, spread), reference in zip(spreads.items(), (spreads["tuned"], spreads["base"])):
        if spread == 0:
            messages[model] = f"{test.name}: all scores{scope} are the same in the {model} model."
        elif model in cosines and spread <= min(.001, .01 * reference):
            messages[model] = (f"{test.name}: all scores{scope} of the {model} model lie within {spread:.2g} of "
                               "each other.")
    return messages


def same_words(test: Test) -> int:
    "Count the pairs of two texts that have the same words in another order."
    words = ((words_of(left), words_of(right)) for left, right in zip(test.left, test.right))
    return sum(left != right and sorted(left) == sorted(right) for left, right in words)


def crowded_top(
    test: Test,
    cosines=(), # models that are left out, since texts of the same words have a cosine of 1
) -> list[str]: # one text a model
    "Say where so many pairs share the highest score that a strict threshold cannot tell them apart."
    texts = []
    models = [model for model in ("base", "tuned") if model in test.scores and model not in cosines
              and test.file.form == "pairs"]
    for model in models:
        scores = test.scores[model]
        top = int((scores == scores.max()).sum())
        if top > max(FEWEST_CASES, FALSE_POSITIVES * len(scores)):
            texts.append(f"{test.name}: {top:,} of {len(scores):,} scores of the {model} model are {scores.max():g}, "
                         f"the highest, and it has {len(np.unique(scores)):,} values in all: were they rounded or cut "
                         "off? What ties has no order.")
    return texts


def at_floor(test: Test, margin: float) -> str: # "" where a loss of the margin could show
    "Say that both models find next to nothing, so that no loss can show."
    values = [test.measure(model, test.metric).value for model in ("base", "tuned")]
    if not max(values) <= margin:
        return ""
    alternatives = [metric for metric in test.metrics if metric != test.metric
                    and test.measure("base", metric).value > margin]
    advice = f"; to decide by another metric: --metric {alternatives[0]}" if alternatives else ""
    title = TITLES[test.metric]
    levels = " and ".join(f"{100 * value:.1f}" for value in values)
    return f"{test.name}: both models find next to nothing ({title} {levels} of 100), so that no loss can show{advice}."


def open_ties(test: Test, margin: float, flat: dict[str, str]) -> str: # flat: of `flat_scores`
    "Say where the order of texts with one score, which nobody knows, decides a metric by more than the margin."
    ends = {}
    for model in {"base", "tuned"} - flat.keys() if isinstance(test, QueryTest) else ():
        worst, best = test.tie_ends(model)
        if best - worst > margin:
            ends[model] = f"from {100 * worst:.1f} to {100 * best:.1f} by {model}"
    if not ends:
        return ""
    return (f"{test.name}: so many texts have one score that {TITLES[test.metric]} may be anything "
            f"{', '.join(ends[model] for model in sorted(ends))}: give scores before they are rounded, or minus the "
            "rank of each text as its score.")


def doubts(
    test: Test,
    shared: int, # comparisons that stand in the training file too
    cosines=(),  # of `reversal`
) -> list[str]:
    "Warn of what to know before a result on a test is believed."
    warning = reversal(test, cosines)
    fate = "count as no match" if test.file.form == "pairs" else "count as a match where that is one"
    counts = {COPIES + fate: test.file.frame.get("copy", np.zeros(1)).sum()}
    for model in ("base", "tuned"):
        counts[f"texts of the corpus have no vector in the {model} model"] = getattr(test.scores.get(model), "empty", 0)
    if test.file.matching.get("match_from") is not None and test.file.form == "pairs" and test.separation(
            "base").value == 1:
        counts["pairs are ordered by the base just as by their grades: are these its own scores? They say nothing of "
               "it"] = len(test.file)
    counts[f"of {len(test.file):,} pairs also occur in the training file, and say nothing of new data"] = shared
    repeats = len(test.file) - len({*folded_pairs(test.file)}) if test.file.form == "pairs" else 0
    if repeats > FALSE_POSITIVES * len(test.file):
        counts[f"of {len(test.file):,} pairs repeat another one"] = repeats
    findings = [f"{test.name}: {count:,} {doubt}." for doubt, count in counts.items() if count]
    return [warning] * bool(warning) + findings + crowded_top(test, cosines)


def flaws(
    train: PairFile | None, tests: list[Test],
    suspects: np.ndarray, # rows of training
    progress: bool = False,
) -> pd.DataFrame:
    "Count what is wrong with the data, one row per finding and file, with its first lines."
    files = [("train", train, suspects)] if train is not None else []
    training = {} # pair -> its label, None where it has both; a set for each would take more memory than all texts
    for _, file, _ in files:
        for pair, label in zip(folded_pairs(file), file.labels > 0):
            training[pair] = label if training.get(pair, label) == label else None
    texts = set().union(*training)
    table = []
    files += [(test.name, test.file, test.suspects()) for test in tests]
    for name, file, suspicious in with_bar(files, "flaws of the data", progress):
        pairs = pd.Series(folded_pairs(file))
        is_match = pd.Series(file.labels > 0)
        findings = {
            "repeated pairs": np.flatnonzero(pairs.duplicated()),
            "pairs with both labels": np.flatnonzero(is_match.groupby(pairs).transform("nunique") > 1),
            "labels that both models find wrong": suspicious,
        }
        if training and file is not train:
            other_label = [training.get(pair, label) != label for pair, label in zip(pairs, is_match)]
            shares_text = [not texts.isdisjoint(pair) for pair in pairs]
            findings |= {
                OF_TRAINING: np.flatnonzero(pairs.isin(training)),
                f"{OF_TRAINING} with another label there": np.flatnonzero(other_label),
                "pairs with a text of the training file": np.flatnonzero(shares_text),
            }
        for finding, rows in findings.items():
            examples = file.frame.iloc[rows[:EXAMPLES]][PAIR_COLUMNS].to_dict("records")
            table.append({"file": name, "what": finding, "count": len(rows), "share": len(rows) / len(file),
                          "examples": examples})
    return pd.DataFrame(table, columns=["file", "what", "count", "share", "examples"])


MOST_LOST = 20 # cases of a test that a page shows
