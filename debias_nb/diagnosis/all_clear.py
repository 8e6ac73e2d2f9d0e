"""How much fine-tuning can have changed on unlabeled texts, by neighbors that moved and by ranks of candidate pairs."""
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from ..checks import ConfigError, on_one_line
from .files.forms import MODELS, fold_name, roles
from .files.pairs_file import PairFile, read_pairs_file, unjudged_file
from ..data.registry import DataError
from ..data.tables import read_table
from ..data.texts import HeldTexts, read_held_texts, texts_file
from ..encoders.tokens import EncoderError
from .inputs import load_pair, made_of
from .models import Model, Scorer, pair_scores, search_corpus
from .page import json_text
from .ranges import check_numbers
from ..files import package_file

NEIGHBORS = 10
TEXTS = 1000 # of a sample, as most of the trials have


def sample_distinct(texts: list[str], seed: int = 0) -> list[str]:
    "Sample different texts. Raise `DataError` where there are too few."
    distinct = np.array(list(dict.fromkeys(texts)), dtype=object)
    if len(distinct) <= NEIGHBORS + 1:
        raise DataError(f"texts: {NEIGHBORS + 2} different ones or more are needed, got {len(distinct)}")
    return np.random.default_rng([seed, 2]).permutation(distinct)[:TEXTS].tolist()


def neighbors(scorer: Scorer, texts: list[str]) -> np.ndarray: # (n, NEIGHBORS)
    "Find the nearest others of each text. Raise `EncoderError` for a model that tells no texts apart."
    levels = search_corpus({"it": scorer}, unjudged_file(texts, texts, np.arange(len(texts))),
                           first={"it": NEIGHBORS})["it"]
    if np.median(levels.tied) > len(texts) / 2: # as near as the first text
        raise EncoderError(f"{scorer.name}: all texts have the same vector")
    return levels.first


def neighbor_churn(base: np.ndarray, tuned: np.ndarray) -> float: # of `neighbors`
    "Compute the fraction of neighbors that are no longer among them."
    return 1 - (base[:, :, None] == tuned[:, None]).any(2).mean()


def largest_loss(base: ArrayLike, tuned: ArrayLike, low: float, high: float) -> float: # fraction; 0 or more
    r"""Bound how much AUC can have fallen between two scores of the same n pairs, whichever of them are matches.

    With the ranks $r_i$ and $s_i$ of a pair (equal scores share their mean rank) AUC changes by
    $$\frac{1}{m (n - m)} \sum_{i \in M} (s_i - r_i)$$
    where $M$ are the m matches. The sum is smallest for the m pairs that fell most, so their sum is the bound for m
    matches, and some labels reach it. It is the largest over all m from `low` to `high`, fractions of n.
    """
    moves = np.sort(rankdata(tuned) - rankdata(base))
    n = len(moves)
    matches = np.arange(max(1, round(low * n)), min(n - 1, round(high * n)) + 1)
    changes = np.cumsum(moves)[matches - 1] / (matches * (n - matches))
    return max(0., -changes.min())


LOSS = .02 # of AUC, that ranks must exclude where there are no models
CROWDED = .9 # cosine of two random texts, from which on texts are hardly told apart
MATCH_RATES = (.05, .5) # of matches among pairs, for which ranks bound a loss


def read_unlabeled(source) -> tuple[HeldTexts, PairFile | None]: # the pairs, where texts came as pairs
    """Read a file of texts, a table with a column `text` or with several rows of two texts, or a list.

    Raise `DataError`."""
    is_file = isinstance(source, (str, Path))
    name, table = str(source) if is_file else "texts", source
    if is_file:
        path, column = texts_file(source)
        table = read_table(path) if column == "text" else None
    if isinstance(table, dict) or isinstance(table, pd.DataFrame) and table.empty:
        raise DataError(f"{name}: texts are expected, one a line, in a column text, or two a row")
    if isinstance(table, pd.DataFrame):
        table = table.rename(columns={column: fold_name(column) for column in table if fold_name(column) in MODELS})
    columns = [*getattr(table, "columns", ["text"])]
    twice = [column for column in columns if columns.count(column) > 1]
    if twice:
        raise DataError(f"{name}: one column {twice[0]!r} is expected, found {columns.count(twice[0])}")
    if "text" in columns or not roles([*columns, "label"]) or len(table) == 1:
        return read_held_texts(source), None
    rows = table.assign(label=np.arange(len(table)) % 2) # the reader of pairs wants labels; they are not used
    pairs = read_pairs_file(rows, name=name, scores=MODELS if {*MODELS} <= {*columns} else None)
    return replace(read_held_texts([*pairs.left, *pairs.right]), path=name if is_file else None), pairs


def what_trials_say(kind: str, texts: int, churn: float) -> tuple[bool, str]: # whether all is clear
    "Look up what so many changed neighbors allowed, on encoders of a kind and with the next smaller sample."
    table = pd.read_csv(package_file("diagnosis/all_clear.csv"))
    rows = table[(table.kind == kind) & (table.texts <= texts) & (table.low <= churn)]
    if rows.empty:
        return False, "We have no trials like this."
    row = rows.sort_values(["texts", "low"]).iloc[-1]
    return bool(row.is_clear), row.sentence


@dataclass(frozen=True, eq=False)
class AllClear:
    """What unlabeled data say of a fine-tuning: all clear, or label.

    Parameters
    ----------
    is_clear : bool
        Whether hardly a trial like this one lost two points, or the ranks exclude it; if not, nobody knows.
    sentences : list of str
        The answer and what it rests on.
    churn : float
        Fraction of the ten nearest neighbors that changed; nan without models.
    bound : float
        The largest loss of AUC that the ranks of the pairs allow, a fraction; nan without pairs.
    facts : dict
        Texts, models, versions, command.
    """
    is_clear: bool
    sentences: list[str]
    churn: float = np.nan
    bound: float = np.nan
    facts: dict = field(default_factory=dict)

    def __repr__(self):
        return "\n".join(map(on_one_line, self.sentences))

    def files(self) -> dict[str, str]: # name -> text
        "Write the numbers."
        return {"report.json": json_text(vars(self))}


def _check_order(pairs: PairFile, scores: dict[str, np.ndarray]) -> None:
    "Refuse pairs that are too few, and scores that order nothing or are the same. Raise `DataError`."
    if len(pairs) <= NEIGHBORS + 1:
        raise DataError(f"{pairs.name}: {NEIGHBORS + 2} pairs or more are needed, got {len(pairs)}")
    for model, values in scores.items():
        if np.ptp(values) == 0:
            raise DataError(f"{pairs.name}: all scores are the same in the {model} model")
    if np.array_equal(*scores.values()):
        raise DataError(f"{pairs.name}: base and tuned have the same scores: one of the names is wrong, or fine-tuning "
                        "changed nothing")


def _crowding(scorers: dict[str, Scorer], sample: list[str]) -> str: # sample: different texts
    "Say how near to each other random texts are in both models."
    half = len(sample) // 2
    scores = pair_scores(scorers, sample[:half], sample[half:2 * half])
    base, tuned = (scores[model].mean() for model in MODELS)
    text = (f"Two random texts have a {scorers['tuned'].similarity} of {tuned:.2f} on average, before fine-tuning "
            f"{base:.2f}")
    if scorers["tuned"].similarity == "cosine" and tuned > CROWDED > base:
        text += ": the tuned model hardly tells texts apart, which labels would show"
    return f"{text}."


def all_clear(scorers: dict[str, Scorer], texts: HeldTexts, pairs: PairFile | None = None, seed: int = 0) -> AllClear:
    """Say how much can have changed on unlabeled data.

    Raise `ConfigError` for no models and no scores, `DataError` for few texts."""
    churn, bound, sentences = np.nan, np.nan, []
    if pairs is not None and (scorers or pairs.scores):
        scores = pairs.frame if pairs.scores else pair_scores(scorers, pairs.left, pairs.right)
        _check_order(pairs, {model: np.asarray(scores[model]) for model in MODELS})
        bound = largest_loss(scores["base"], scores["tuned"], *MATCH_RATES)
        sentences.append(
            f"The ranks of {len(pairs):,} pairs exclude a loss of more than {100 * bound:.1f} points of AUC, the "
            f"whole curve, if {MATCH_RATES[0]:.0%} to {MATCH_RATES[1]:.0%} of them are matches.")
    elif not scorers:
        raise ConfigError("texts: two models are expected, or pairs with two columns of scores, base and tuned")
    is_clear = bound < LOSS
    if scorers:
        sample = sample_distinct(texts.texts, seed)
        churn = neighbor_churn(*(neighbors(scorer, sample) for scorer in scorers.values()))
        is_clear, sentence = what_trials_say(scorers["tuned"].kind, len(sample), churn)
        sentences.insert(0, f"{churn:.0%} of the {NEIGHBORS} nearest neighbors among {len(sample):,} texts changed. "
                            f"{sentence}")
    sentences[0] = f"{'All clear' if is_clear else 'Label'}: {sentences[0]}"
    if not is_clear:
        sentences.append("This is no alarm: without labels nobody can tell. Label pairs that are drawn at random.")
    if scorers:
        sentences.append(_crowding(scorers, sample))
    return AllClear(bool(is_clear), sentences, churn, bound)


def diagnose_texts(
    texts: str | Path | Iterable[str], base: "Model | None" = None, tuned: "Model | None" = None, *,
    prompts: tuple[str, str] | None = None, seed: int = 0,
) -> AllClear:
    """Say how much fine-tuning can have changed on unlabeled texts of new data: all clear, or label.

    Parameters
    ----------
    texts : str, Path, list or table
        Unlabeled texts: one per line of a file, a column text (or FILE:COLUMN), a list, or pairs of texts in two
        columns.
    base, tuned : str, Path or SentenceTransformer, optional
        As in `diagnose`. They may be left out where pairs have scores of both, in columns `base` and `tuned`.
    prompts : tuple of two str, optional
        As in `diagnose`.
    seed : int in [0, 4294967295]
        Seed of the sample of texts.

    Returns
    -------
    AllClear
        Printed, it is the answer. All clear where so few nearest neighbors changed that hardly a trial of ours lost two
        points, which it counts, or where the ranks of pairs exclude such a loss; else label. It is never an alarm.

    Raises
    ------
    ConfigError
        For one model alone, and for no models and no scores.
    DataError
        For texts that cannot be read, or are fewer than 12.
    EncoderError
        As `diagnose`.

    Examples
    --------
    >>> from debias_nb import diagnose_texts
    >>> from debias_nb.diagnosis.demo import offers, small_encoder
    >>> found = diagnose_texts(offers(300, 1, .2, .4).left.tolist(), small_encoder(0), small_encoder(1))
    >>> found.is_clear, bool(found.churn > .5)
    (False, True)
    """
    check_numbers(seed=seed)
    if (base is None) != (tuned is None):
        raise ConfigError(f"{'base' if base is None else 'tuned'}: a model is expected, or scores of both")
    if base is None and prompts is not None:
        raise ConfigError("prompts: these need both models, base and tuned")
    data = read_unlabeled(texts)
    scorers = {} if base is None else load_pair(base, tuned, prompts)
    facts = made_of("diagnose-texts", scorers, {}, (), {"seed": seed, "prompts": prompts}, {}, data[0])
    return replace(all_clear(scorers, *data, seed), facts=facts)
