"""The importance of every word before and after fine-tuning, and how the word goes with the label."""
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from sys import intern

import numpy as np
import pandas as pd
import torch
from scipy.sparse import csr_matrix
from tqdm.auto import tqdm

from ..checks import several_texts
from ..encoders.tokens import EncoderError, embed, is_plain_table, mask_id, table_vectors
from ..encoders.tokens import tokenize
from .models import Scorer
from ..encoders.interventions import intervene, token_owners

_CHARACTERS = map(chr, range(0x20000)) # of all scripts that have marks: accents, signs of vowels
_MARKS = "".join(character for character in _CHARACTERS if unicodedata.category(character).startswith("M"))
_RUN = rf"\w+(?:[{_MARKS}\u200c\u200d]+\w*)*" # letters and digits, marks on them, and the two joiners of scripts
WORD = re.compile(rf"{_RUN}(?:[-'’.]{_RUN})*")
# the same in a text without other characters, five times as fast
_ASCII_WORD = re.compile(r"\w+(?:[-'.]\w+)*", re.ASCII)


def _key(word: str) -> str:
    "Return what two ways to write a word have in common."
    return unicodedata.normalize("NFC", word).casefold()


@lru_cache(maxsize=200_000)
def words_of(text: str) -> tuple[str, ...]:
    "List the words of a text in their order, in lower case."
    # folded, letters as ΐ fall apart
    words = _ASCII_WORD.findall(text.lower()) if text.isascii() else map(_key, WORD.findall(text))
    return tuple(map(intern, words)) # one string a word, in however many texts


def replace_words(
    text: str,
    substitutes: dict[str, str], # word -> what takes its place; nothing does where that is a space
) -> str: # the text itself where it has none of the words
    "Replace words of a text; what is between words stays."
    if substitutes.keys().isdisjoint(words_of(text)):
        return text

    def substitute(match):
        word = match.group()
        return substitutes.get(_key(word), word)

    text_after = (_ASCII_WORD if text.isascii() else WORD).sub(substitute, text)
    return " ".join(text_after.split())


def word_owners(scorer: Scorer, texts: list[str], tokens) -> np.ndarray: # (n, L) number of the word, -1 for none
    """Find which word of its text each token belongs to.

    `texts` have the model's own prompt, and `tokens` are made of them."""
    places = [] # of each character the word's number, -1 between words
    for text in texts:
        owner = [-1] * len(text)
        for number, match in enumerate(WORD.finditer(text, len(scorer.prefix))):
            begin, end = match.span()
            owner[begin:end] = [number] * (end - begin)
        places.append(owner)
    try:
        return token_owners(scorer.model, texts, places, tokens)
    except EncoderError as e:
        raise EncoderError(f"{scorer.name}: {e}") from None


TEXTS_AT_ONCE = 256
WORDS_AT_ONCE = 2**14 # each text counted as the longest beside it


def _stretches(texts: list[str]):
    "Split texts into as many at a time as memory should hold; a long one is alone."
    stretch = []
    longest = 0
    for text in texts:
        words = len(words_of(text))
        longest = max(longest, words)
        if stretch and (len(stretch) == TEXTS_AT_ONCE or longest * (len(stretch) + 1) > WORDS_AT_ONCE):
            yield stretch
            stretch = []
            longest = words
        stretch.append(text)
    if stretch:
        yield stretch


def _table_word_importance(scorer, tokens, owner, max_words: int) -> np.ndarray:
    "Measure importance under a mean of token vectors."
    vectors = table_vectors(scorer.model, tokens).cpu()
    n, _, width = vectors.shape
    slot = np.where(owner < 0, max_words, owner) # the last one takes what belongs to no word
    places = torch.from_numpy(slot)[..., None]
    parts = torch.zeros(n, max_words + 1, width).scatter_add(1, places.expand_as(vectors), vectors)
    total = vectors.sum(1, keepdim=True)
    remainder = total - parts[:, :max_words]
    return (1 - torch.cosine_similarity(total, remainder, dim=2)).numpy()


def _masked_word_importance(scorer, tokens, owner, max_words: int) -> np.ndarray:
    "Measure importance by one forward pass for each word of each text."
    out = np.full((len(owner), max_words), np.nan)
    if not max_words:
        return out
    rows, columns = np.nonzero(owner >= 0)
    row, word = np.unique([rows, owner[rows, columns]], axis=1)
    copies = tokens[torch.from_numpy(row)]
    is_masked = torch.from_numpy((owner[row] == word[:, None])[:, :copies.ids.shape[1]]) # which may be shorter than all
    try:
        mask_id(scorer.model)
        way = "mask"
    except EncoderError: # there is no token for it
        way = "delete"
    masked_vectors = embed(scorer.model, intervene(scorer.model, copies, is_masked, way))
    cosines = (embed(scorer.model, tokens)[row] * masked_vectors).sum(1)
    out[row, word] = 1 - cosines.numpy()
    return out


@torch.no_grad()
def word_importance(
    scorer: Scorer,     # a sentence encoder
    texts: list[str],
    title: str = "",         # the name of the progress bar
    progress: bool = False, # show it
) -> list[np.ndarray]: # of each text (words,), shares that sum to 1; nan for words that the model does not see
    "Measure the fraction of a text's importance that falls on each of its words, in the order of `words_of`."
    texts = several_texts(texts)
    out = []
    measure = _table_word_importance if is_plain_table(scorer.model) else _masked_word_importance
    with tqdm(total=len(texts), desc=title, unit=" texts", disable=not progress, leave=False) as bar:
        for stretch in _stretches(texts):
            tokens = tokenize(scorer.model, stretch, prompt=scorer.prefix)
            owners = word_owners(scorer, [scorer.prefix + text for text in stretch], tokens)
            longest = int(owners.max(initial=-1)) + 1 # words of the longest text, as far as tokens belong to them
            values = measure(scorer, tokens, owners, longest)
            for text, row, owner in zip(stretch, values, owners):
                shares = np.full(len(words_of(text)), np.nan)
                visible = np.unique(owner[owner >= 0])
                visible = visible[visible < len(shares)]
                shares[visible] = np.maximum(row[visible], 0)
                total = np.nansum(shares)
                out.append(shares / total if total > 0 else shares)
            bar.update(len(stretch))
    return out


LEAST = 5 # places that a word must stand in


def importance_by_word(
    texts: list[str],
    base: list[np.ndarray], # shares of each text's words, by the base
    tuned: list[np.ndarray],  # and by the tuned model
) -> pd.DataFrame: # rows: words, the largest gain first; `places`, `base`, `tuned`, `change`, `moved`
    "Average the fraction of a text's importance that falls on each word."
    words = list(chain.from_iterable(map(words_of, texts)))
    empty = np.empty(0)
    shares = {"base": np.concatenate([*base, empty]), "tuned": np.concatenate([*tuned, empty])}
    by_word = pd.DataFrame({"word": words, **shares}).dropna().groupby("word")
    table = by_word.mean()
    table.insert(0, "places", by_word.size())
    table = table[table.places >= LEAST].copy()
    table["change"] = table.tuned - table.base
    table["moved"] = table.change * np.sqrt(table.places)
    return table.sort_values(["moved", "places"], ascending=False).reset_index()


@dataclass(frozen=True, eq=False)
class WordPairs:
    "Words of pairs: which pairs have which words on which sides."
    vocabulary: dict[str, int]
    left: csr_matrix   # (pairs, words) 1 where the left text has the word
    right: csr_matrix
    labels: np.ndarray # (pairs,) 0 or 1


def word_pairs(left: list[str], right: list[str], labels: np.ndarray) -> WordPairs:
    "Find the words of pairs."
    words = []
    ends = [0]
    for text in (*left, *right): # a set of each text at once would be the largest thing of a diagnosis
        words += set(words_of(text))
        ends.append(len(words))
    numbers, vocabulary = pd.factorize(np.array(words, dtype=object))
    has = csr_matrix((np.ones(len(numbers), int), numbers, ends), shape=(len(ends) - 1, len(vocabulary)))
    return WordPairs({word: number for number, word in enumerate(vocabulary)}, has[:len(left)], has[len(left):], labels)


def label_ties(
    pairs: WordPairs,
    words: list[str],
) -> pd.DataFrame: # one row per word: pairs that have it on `both` sides or `one`, and the fraction of matches
    "Count how words go with the label; the fraction is nan where there is no such pair."
    shared = pairs.left.multiply(pairs.right).tocsr()
    singles = pairs.left + pairs.right - 2 * shared
    table = pd.DataFrame(index=list(pairs.vocabulary))
    for name, has in (("both", shared), ("one", singles)):
        total = has.T @ np.ones(len(pairs.labels))
        table[name] = total
        table[f"matches {name}"] = (has.T @ pairs.labels) / np.where(total, total, np.nan)
    return table.reindex(words).fillna({"both": 0, "one": 0}).astype({"both": int, "one": int})


def shared_tie(pairs: WordPairs, words: list[str]) -> tuple[int, float]: # pairs; share of matches, nan for none
    "Count the pairs that share at least one of some words, and the fraction of matches among them."
    places = [pairs.vocabulary[word] for word in words if word in pairs.vocabulary]
    shared = pairs.left[:, places].multiply(pairs.right[:, places])
    count = shared @ np.ones(len(places))
    labels = pairs.labels[count > 0]
    return len(labels), float(labels.mean()) if len(labels) else np.nan
