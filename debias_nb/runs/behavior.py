"""Behavior tests of word overlap, as in CheckList, on real answers: words change so that the right answer stays right; does it stay first?

Asked are questions with one right answer. Either a wrong answer gets content words of the question that it lacks, put
before it; or the right answer loses those it shares with the question. As a control it is as many other content words:
of other questions; or its own that it does not share. Those may be what answers the question, so that this control is a
hard one. What is changed depends on the texts alone, and is the same for every model.
"""
import re
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.random import default_rng
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from ..data.answers import Answers, shared_words
from ..measures.metrics import bootstrap_weights

BEHAVIORS = ("words added", "words added, control", "words lost", "words lost, control")
NO_CONTENT = ENGLISH_STOP_WORDS | {"did", "does"} # of the words of a question


def content_words(text: str) -> list[str]: # in lower case, in order, each once
    "The words of a text that are no function words and have two characters or more."
    words = re.findall(r"\w\w+", text.lower())
    return [word for word in dict.fromkeys(words) if word not in NO_CONTENT]


def without(text: str, words: list[str]) -> str:
    "A text without some words, wherever they stand."
    kept = re.sub(r"\w+", lambda found: "" if found[0].lower() in words else found[0], text)
    return " ".join(kept.split())


class Change(NamedTuple):
    "Candidates of a set, as they are after a change: one of each asked question."
    rows: np.ndarray  # (asked,) in the set
    answers: Answers  # (asked,)


class BehaviorTests(NamedTuple):
    "The questions of a set that are asked, and what is changed for them."
    asked: np.ndarray          # (questions,) bool
    changes: dict[str, Change] # one of `BEHAVIORS` -> its candidates; empty without a question


def _changes(question, right, wrong, others, rng): # texts, and words of other questions; -> the texts of `BEHAVIORS`
    "What becomes of the right text or the wrong one; None where there are not enough words."
    words = content_words(question)
    said = content_words(right)
    lacking = [word for word in words if word not in content_words(wrong)]
    shared = [word for word in said if word in words]
    own = [word for word in said if word not in words]
    if not lacking or not shared or len(own) < len(shared):
        return None
    taken = {*words, *content_words(wrong), *said}
    foreign = [word for word in rng.permutation(others).tolist() if word not in taken]
    return (
        " ".join([*lacking, wrong]),
        " ".join([*foreign[:len(lacking)], wrong]),
        without(right, shared),
        without(right, rng.permutation(own)[:len(shared)].tolist()),
    )


def behavior_tests(
    answers: Answers,
    seed: int = 0, # of the words of the controls
) -> BehaviorTests:
    """Change the wrong answer that shares the smallest part of its question (of equals the first), and the right one.
    Asked are questions with one right answer and a wrong one, whose words are enough for all four changes."""
    groups = answers.groups()
    share = shared_words(answers)
    asked_about = dict.fromkeys(answers.questions)
    others = list(dict.fromkeys(chain.from_iterable(map(content_words, asked_about))))
    asked = np.zeros(groups.max() + 1, bool)
    rows = []
    texts = []
    for group, of_group in answers.frame().groupby(groups).indices.items():
        right = of_group[answers.labels[of_group] == 1]
        wrong = of_group[answers.labels[of_group] == 0]
        if len(right) != 1 or not len(wrong):
            continue
        right, wrong = right[0], wrong[np.argmin(share[wrong])]
        changed = _changes(
            answers.questions[right], answers.answers[right], answers.answers[wrong], others, default_rng([seed, group]))
        if changed:
            asked[group] = True
            rows.append((wrong, wrong, right, right))
            texts.append(changed)
    changes = {}
    for behavior, places, made in zip(BEHAVIORS, zip(*rows), zip(*texts)):
        chosen = np.array(places)
        changes[behavior] = Change(chosen, replace(answers.take(chosen), answers=list(made)))
    return BehaviorTests(asked, changes)


def right_first(
    answers: Answers,
    scores: np.ndarray, # (n,)
) -> np.ndarray: # (questions,) bool
    "Whether a right answer is above all wrong ones."
    groups = answers.groups()
    best = np.full((2, groups.max() + 1), -np.inf)
    np.maximum.at(best, (answers.labels.astype(int), groups), scores)
    wrong, right = best
    return right > wrong


def behavior_metrics(
    answers: Answers,
    scores: np.ndarray,   # (n,)
    tests: BehaviorTests, # of these answers
    score,                # Answers -> their scores
    replicates: int,
) -> tuple[dict[str, float], dict[str, list[float]]]: # metrics, and replicates of all but the counts
    """`kept[…]`: of the asked questions whose right answer is first, the share that keep it there; none where it never is.
    Resamples are of the asked questions, the same for every model."""
    first = right_first(answers, scores)[tests.asked]
    means = {"asked": float(len(first)), "asked, right first": float(first.sum())}
    resampled = {}
    if not first.any():
        return means, resampled
    drawn = bootstrap_weights(len(first), replicates, 0)
    counted = drawn @ first.astype(float)
    for behavior, change in tests.changes.items():
        after = scores.copy()
        after[change.rows] = score(change.answers)
        kept = first & right_first(answers, after)[tests.asked]
        name = f"kept[{behavior}]"
        means[name] = float(kept.sum() / first.sum())
        if counted.all():
            resampled[name] = np.round(drawn @ kept.astype(float) / counted, 4).tolist()
    return means, resampled
