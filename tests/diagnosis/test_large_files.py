"What a large file of pairs keeps in memory."
import random
import tracemalloc

import numpy as np
import pandas as pd

from debias_nb import read_pairs_file
from debias_nb.diagnosis.words import word_pairs, words_of


def test_words_of_pairs_are_no_set_a_text():
    "A set of seven words takes 700 bytes, as much as all else of a pair."
    rng = random.Random(0)
    words = [f"w{number}" for number in range(500)]
    left, right = ([" ".join(rng.choices(words, k=7)) for _ in range(2000)] for _ in range(2))
    for text in left + right: # whose words are remembered
        words_of(text)
    tracemalloc.start()
    pairs = word_pairs(left, right, np.ones(len(left)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 900 * (len(left) + len(right))
    assert [pairs.left[0, pairs.vocabulary[word]] for word in words_of(left[0])] == [1] * 7


def test_copies_of_a_text_are_folded_to_one():
    file = read_pairs_file(pd.DataFrame({"left": ["An egg", "An egg"], "right": ["eggs", "planes"], "label": [1, 0]}))
    (first, second), right = file.folded
    assert (first, right) == ("anegg", ["eggs", "planes"]) and first is second
