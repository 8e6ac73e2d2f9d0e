"Why a test changed: words, shortcuts, lost cases, overlap with training, and what makes its numbers say nothing."
import numpy as np
import pandas as pd

from ..data.pairs import fold
from ..encoders.kinds import has_template
from ..measures.stats import interval
from .models import Scorer, pair_scores
from .pairs import PairFile
from .test_sets import FEWEST_UNITS, Measured, Test, difference, figures
from .titles import TITLES
from .verdicts import MARGIN, judge_changes, points
from .words import WordPairs, importance_by_word, label_ties, replace_words, shared_tie, word_importance, word_pairs
from .words import words_of

SAMPLE = {"static": 4000, "transformer": 1000} # texts whose words are looked at
SAMPLE_WORDS = {"static": np.inf, "transformer": 20_000} # a transformer reads a text once for each of its words
WORDS_READ = 512 # words of a text that count: few models read more
TOP = 20         # words of a list
CANDIDATES = 100 # words that gained importance
LEAST_PAIRS = 3  # training pairs that have a candidate on both sides, at least
MOST_LOST = 20   # cases of a test that a page shows
LONGEST_SHOWN = 400 # characters of a text on the page


# ---------------------------------------------------------------- what makes numbers say nothing

def below_chance(test: Test) -> dict[str, float]: # model -> how many of the others a match scores above, in [0, 1]
    "Find the models that score matches significantly below other pairs, in each form over all ranks."
    values = {}
    for model in ("base", "tuned"):
        separation = test.separation(model)
        if separation.units >= FEWEST_UNITS and interval(
                [separation.value], [separation.resampled], units=separation.units).high < .5:
            values[model] = separation.value
    return values


def reversal(test: Test) -> str: # "" where no model is below chance
    "Explain which models score matches below other pairs."
    values = below_chance(test)
    if not values:
        return ""
    match, nonmatch = test.classes
    shares = " and ".join(map("{:.1%}".format, values.values()))
    advice = " Are the scores distances, or the labels the other way round?" if len(values) == 2 else ""
    if "base" in values:
        advice += (f" If {nonmatch} were picked by a model for their nearness, they lie above the {match} by "
                   "construction: test on the corpus that they are from.")
    return (f"{test.name}: by {' and '.join(values)} {match} score below {nonmatch} (above {shares} of them; chance is "
            f"50%).{advice}")


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


def at_floor(test: Test, margin: float) -> str: # "" where a loss of the margin could show
    "Say that both models find next to nothing, so that no loss can show."
    values = [test.measure(model, test.metric).value for model in ("base", "tuned")]
    if not max(values) <= margin:
        return ""
    alternatives = [metric for metric in test.metrics if metric != test.metric
                    and test.measure("base", metric).value > margin]
    advice = f"; to decide by another metric: --metric {alternatives[0]}" if alternatives else ""
    levels = " and ".join(f"{100 * value:.1f}" for value in values)
    return (f"{test.name}: both models find next to nothing ({TITLES[test.metric]} {levels} of 100), so that no loss "
            f"can show{advice}.")


def unusable_tests(
    tests: list[Test], overlap: pd.DataFrame, cosines: list[str], margin: float = MARGIN,
) -> tuple[dict[str, str], bool]:
    "Find the tests that show a broken encoder, and whether there are any; else those that say nothing, with reasons."
    void, broken = {}, {}
    copies = dict(zip(overlap.test, overlap.pairs))
    for test in tests:
        flat = flat_scores(test, cosines)
        reasons = [flat.get("base", "")]
        if copies.get(test.name) == len(test.file):
            reasons.append(f"{test.name}: all of its pairs also occur in the training file.")
        reasons += [reversal(test) if len(below_chance(test)) == 2 else "", at_floor(test, margin)]
        reason = next(filter(None, reasons), "")
        if reason:
            void[test.name] = reason
        elif flat:
            broken[test.name] = flat["tuned"]
    return broken or void, bool(broken)


# ---------------------------------------------------------------- overlap with training

def folded_pairs(file: PairFile) -> list[tuple[str, ...]]: # both texts of each; order of the two apart
    return [tuple(sorted(pair)) for pair in zip(*file.folded)]


def overlap_with(train: PairFile | None, tests: list[Test]) -> pd.DataFrame: # one row per test
    "Count the pairs of each test that are also in training, whatever their labels, and those that share a text."
    columns = ["test", "of", "pairs", "share a text"]
    if train is None:
        return pd.DataFrame(columns=columns)
    pairs, texts = set(folded_pairs(train)), set().union(*train.folded)
    rows = []
    for test in tests:
        keys = folded_pairs(test.file)
        rows.append((test.name, len(keys), sum(key in pairs for key in keys),
                     sum(not texts.isdisjoint(key) for key in keys)))
    return pd.DataFrame(rows, columns=columns)


def disjoint_cases(train: PairFile | None, tests: list[Test]) -> dict[str, np.ndarray]: # of tests that overlap with it
    "Mark the cases of each test that are disjoint from training."
    if train is None:
        return {}
    texts = set().union(*train.folded)
    disjoint = {test.name: test.disjoint_from(texts) for test in tests}
    return {name: rows for name, rows in disjoint.items() if not rows.all()}


def overlap_warnings(overlap: pd.DataFrame) -> list[str]:
    return [f"{row.test}: {row.pairs:,} of {row.of:,} pairs also occur in the training file, and say nothing of new "
            "data." for row in overlap.itertuples() if row.pairs]


# ---------------------------------------------------------------- copies of a match

BOTH_LABELS = "pairs whose texts stand there with both labels"


def with_copies(file: PairFile) -> PairFile:
    """Mark in column `copy` what equals a match, or the left text of what is no match, except for case and spaces.

    Among candidates and in a corpus a copy of a match is relevant, too."""
    left, right = (pd.Series(map(fold, side), dtype=object) for side in (file.left, file.right))
    is_match = file.frame.label > 0
    of_match = is_match.groupby([left, right]).transform("any")
    frame = file.frame.assign(copy=~is_match & (of_match | (left == right)))
    if file.form == "candidates":
        frame["label"] = of_match.astype(int)
    elif file.form == "retrieval":
        texts = pd.DataFrame({"key": map(fold, file.corpus), "document": range(len(file.corpus)), "right": file.corpus,
                              "copy": True})
        copies = frame[frame.columns.difference(["document", "right", "copy"])].assign(key=right).merge(texts)
        frame = pd.concat([frame, copies[copies.document != copies.get("itself")].drop(columns="key")])
        frame = frame.drop_duplicates(["query", "document"]).sort_values("query", kind="stable", ignore_index=True)
    return file.with_frame(frame)


def without_contradictions(file: PairFile) -> PairFile:
    "Leave out the labeled pairs whose two texts stand there with both labels."
    if file.form != "pairs":
        return file
    keys = pd.Series([tuple(sorted(pair)) for pair in zip(file.left, file.right)])
    is_doubtful = file.frame.label.reset_index(drop=True).groupby(keys).transform("nunique") > 1
    if not is_doubtful.any():
        return file
    return file.with_frame(file.frame[~is_doubtful.to_numpy()].reset_index(drop=True), BOTH_LABELS)


# ---------------------------------------------------------------- words

def knows_words(scorers: dict[str, Scorer]) -> bool:
    "Tell whether each model says which of its tokens are those of a word, and reads all texts alike."
    return bool(scorers) and not any(has_template(scorer.model) or scorer.has_routes for scorer in scorers.values())


def sample_texts(
    train: PairFile | None,
    tests: list[Test],
    size: int,             # texts
    seed: int,
    words: float = np.inf, # that all of them have together
) -> list[str]:
    "Sample distinct texts, half of them of training as far as there are so many."
    test_texts = [text for test in tests for text in (*test.left, *test.right)]
    training_texts = test_texts if train is None else [*train.left, *train.right]
    rng = np.random.default_rng([seed, 2])
    texts = {}
    for pool in (training_texts, test_texts):
        distinct = list(dict.fromkeys(pool))
        order = rng.permutation(len(distinct))
        sample = [distinct[i] for i in order[: size // 2]]
        lengths = [min(len(words_of(text)), WORDS_READ) for text in sample]
        fitting = int((np.cumsum(lengths) <= words / 2).sum())
        texts |= dict.fromkeys(sample[: max(1, fitting)])
    return list(texts)


def moved_words(
    scorers: dict[str, Scorer], train: PairFile | None, tests: list[Test], seed: int, progress: bool,
) -> pd.DataFrame: # as of `importance_by_word`
    "Compare how much of the importance of texts falls on each word, before and after fine-tuning."
    kind = scorers["tuned"].kind
    texts = sample_texts(train, tests, SAMPLE[kind], seed, SAMPLE_WORDS[kind])
    fractions = {name: word_importance(scorer, texts, f"importance, {name}", progress)
                 for name, scorer in scorers.items()}
    return importance_by_word(texts, fractions["base"], fractions["tuned"])


def ranked_words(importance: pd.DataFrame) -> dict[str, pd.DataFrame]: # of `importance_by_word`
    "List the words that gained importance most, and those that lost most."
    gained, lost = importance[importance.moved > 0], importance[importance.moved < 0]
    return {"gained": gained.head(TOP).reset_index(drop=True), "lost": lost.tail(TOP)[::-1].reset_index(drop=True)}


# ---------------------------------------------------------------- shortcuts

def candidate_words(
    importance: pd.DataFrame, # of `importance_by_word`
    training: WordPairs,
) -> dict[str, list[str]]:
    "Sort words that gained importance by what they go with in training: `matches`, or `others`, which are no match."
    ties = label_ties(training, importance.word[importance.moved > 0].head(CANDIDATES).tolist())
    ties = ties[ties.both >= LEAST_PAIRS]
    tied = ties["matches both"] > training.labels.mean()
    return {"matches": ties.index[tied].tolist(), "others": ties.index[~tied].tolist()}


def split_halves(group: np.ndarray, seed: int) -> np.ndarray: # (n,) booleans
    "Pick one half of the groups at random; a group stays together."
    names, unit = np.unique(group, return_inverse=True)
    order = np.random.default_rng([seed, 4]).permutation(len(names))
    return (order < len(names) // 2)[unit]


def without_misleading(test: Test, test_pairs: WordPairs, words: list[str]) -> tuple[list[str], list[str], list[str]]:
    "Drop the words that the other half of a test finds misleading, and return both texts and these words."
    first_half = split_halves(test.drawn_with, test.seed)
    left, right = test.left, test.right
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


def _rescored(test: Test, scorers: dict[str, Scorer], left: list[str], right: list[str], progress: bool) -> dict:
    "Score a test with other texts; pairs whose texts stay keep their scores."
    now = pd.DataFrame({"left": left, "right": right})
    rows = np.flatnonzero((now != test.file.frame[["left", "right"]]).any(axis=1))
    fresh = pair_scores(scorers, now.left[rows].tolist(), now.right[rows].tolist(), f"{test.name}: without shortcuts",
                        progress)
    scores = {name: test.scores[name].copy() for name in fresh}
    for name, values in fresh.items():
        scores[name][rows] = values
    return scores


def _change_to(test: Test, model: str, scores: np.ndarray) -> Measured:
    "Measure the change of a model from its own scores to others."
    original = test.measure(model, test.metric)
    rescored = test.measured(scores, test.metric)
    return Measured(rescored.value - original.value, rescored.resampled - original.resampled, rescored.units)


def _without_words(
    test: Test, test_pairs: WordPairs, scorers: dict[str, Scorer], training: WordPairs, words: list[str],
    progress: bool,
) -> dict:
    "Measure a test without those of some words that mislead there."
    left, right, misleading = without_misleading(test, test_pairs, words)
    scores = _rescored(test, scorers, left, right, progress)
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
        judged = judge_changes([row.pop("paired") for row in of_kind], margin)
        for test, row, p, word in zip(tests, of_kind, judged.p, judged.word):
            shortcut = word == "better" and row["change"] > 0
            rows.append({"test": test.name, "goes with": kind, **row, "p": p, "shortcut": shortcut})
    return pd.DataFrame(rows)


def shortcut_sentence(row: dict) -> str: # of `shortcuts`
    "Say why a test may have become worse, and how much of what it lost that explains."
    named = ", ".join(row["words"][:8]) + f" and {len(row['words']) - 8} more" * (len(row["words"]) > 8)
    text = (f"{row['test']}: shortcut words ({named}). Of the training pairs that share one, {row['training matches']:.0%} "
            f"are matches (of all: {row['training mean']:.0%}); on this test {row['test matches']:.0%} (of all: "
            f"{row['test mean']:.0%}). Without them the tuned model changes by {points(row['change'])} points, the base "
            f"by {points(row['base change'])}: a difference of {points(row['more'])} ({points(row['more low'])} to "
            f"{points(row['more high'])}).")
    return text + f" Fine-tuning lost {100 * row['lost']:.1f} points here." * (row["lost"] > 0)


# ---------------------------------------------------------------- lost cases

def lost_cases(tests: list[Test], scorers: dict[str, Scorer]) -> dict[str, pd.DataFrame]:
    "List the cases of each test that fine-tuning lost most, with the importance of their words to each model."
    tables = {test.name: test.largest_losses(MOST_LOST) for test in tests}
    for table in tables.values():
        for side in ("left", "right"):
            texts = table[side].tolist()
            for scorer, moment in zip(scorers.values(), ("before", "after")):
                table[f"{side} {moment}"] = [row.tolist() for row in word_importance(scorer, texts)]
        for column in {"left", "right", "instead"} & set(table):
            table[column] = [text[:LONGEST_SHOWN] for text in table[column]]
    return tables
