"What a page answers: a word of a claim for its question, and how far differences go, in a sentence."
import re
from dataclasses import replace

import pandas as pd

from ...runs.pairing import signed
from .claims import CLAIM_WORDS, UNSURE, answer_of, claim_word
from .compare import POINT, Question, words_of_tests
from .execution import NOT_RUN_HERE


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
