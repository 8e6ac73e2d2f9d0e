"Texts with authors and topics: faults of files, signatures, splits without leakage."
import numpy as np
import pytest

from debias_nb.settings import AuthorsWorldConfig
from debias_nb.papers.data.author_splits import AuthorSplit, leakage_aware_split
from debias_nb.papers.data.author_splits import paper_split
from debias_nb.papers.data.authors import Texts, planted_texts, read_pan_pairs
from debias_nb.papers.data.authors import read_author_texts, strip_quotes, strip_signatures
from debias_nb.data.registry import DataError
from made import write


def from_rows(*rows):
    "Texts of rows of author, topic and text."
    return Texts("toy", *map(list, zip(*rows)))


@pytest.fixture(scope="module")
def training():
    "The texts that a planted world trains on."
    return planted_texts(AuthorsWorldConfig(name="authors", authors=80, tokens=40, topics=6), "train")


# ---------------------------------------------------------------- cleaning


def test_signatures_end_where_a_text_is_its_own():
    tail = "\n".join(f"line {i}" for i in range(9))
    texts = [f"first\n{tail}", f"second\n{tail}"]
    six_lines_less = ["first\nline 0\nline 1\nline 2", "second\nline 0\nline 1\nline 2"]
    assert strip_signatures(["a", "a"], texts) == six_lines_less, "six lines at most"
    assert strip_signatures(["a", "b"], texts) == texts
    assert strip_signatures(["a"], ["--\nall"]) == [""]
    assert strip_quotes("") == ""
    assert strip_quotes("a > b\nc: d") == "a > b\nc: d"


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize("content, words", [
    ('{"author": "a", "text": "x"}\n{"author": "a", "text": "caf\xe9"}\n'.encode("latin-1"), "a.jsonl:2: "),
    ('{"author": "a", "text": "x", "topic": "t"}\n\n', "a.jsonl:2: "),
    (4 * '{"autor": "a", "text": "x"}\n', "a.jsonl:1: author.* and 1 more of 4 lines"),
    ('{"author": "a", "text": "x"}\n{"author": "a", "text": "x\\u0000"}\n', "a.jsonl:2: text"),
    ('{"author": "a", "text": "x", "date": "4/93"}\n', "a.jsonl:1: date"),
    ('{"author": "a", "text": "x"}\n{"author": "a", "text": "y", "topic": "t"}\n', "a.jsonl: "),
])
def test_bad_files_are_named(tmp_path, content, words):
    with pytest.raises(DataError, match=words):
        read_author_texts(write(tmp_path / "a.jsonl", content))


PAIR = {"id": "x", "fandoms": ["t", "s"], "pair": ["One.", "Two."]}
TRUTH = {"id": "x", "authors": [1, 2]}


@pytest.mark.parametrize("pairs, truths, words", [
    ([PAIR | {"fandoms": ["t"]}], [TRUTH], "pairs.jsonl:1: fandoms.1"),
    ([PAIR], [TRUTH | {"authors": [1, True]}], "truth.jsonl:1: authors.1"),
    ([PAIR | {"id": "y"}], [TRUTH], "pairs.jsonl, .*truth.jsonl: the id 'x'"),
    ([PAIR, PAIR], [TRUTH], "pairs.jsonl:2: the id 'x'"),
])
def test_bad_pairs_are_named(tmp_path, pairs, truths, words):
    with pytest.raises(DataError, match=words):
        read_pan_pairs(write(tmp_path / "pairs.jsonl", pairs), write(tmp_path / "truth.jsonl", truths))


# ---------------------------------------------------------------- splits


def test_the_order_of_a_corpus_does_not_choose_authors_and_topics(training):
    shuffle = training.take(np.random.default_rng(0).permutation(len(training)))
    for split, options in ((paper_split, {"share": 1.}), (leakage_aware_split, {})):
        of_order, of_shuffle = (split(texts, .5, .5, **options) for texts in (training, shuffle))
        for test, texts in of_order.tests.items():
            assert sorted(texts.text) == sorted(of_shuffle.tests[test].text)
        known, second = (sorted(split.train.text + split.validation.text) for split in (of_order, of_shuffle))
        assert known == second


@pytest.mark.parametrize("split, parameters, words", [
    (paper_split, {"authors": 0.}, "authors"),
    (paper_split, {"share": float("nan")}, "share"),
    (leakage_aware_split, {"similarity": -.99}, "similarity"),
    (leakage_aware_split, {"authors": 1.}, "no texts"),
])
def test_bad_parameters_of_a_split_are_refused(training, split, parameters, words):
    with pytest.raises(ValueError, match=words):
        split(training, **({"authors": .5, "topics": .5} | parameters))


@pytest.mark.parametrize("test, row, message", [
    ("cross", ("b", "war", "Four."), "the author 'b' is in train and in cross"),
    ("iid", ("c", "war", "Four."), "the topic 'war' is in iid and not in training"),
    ("cross", ("c", "war", "Two."), "the text 'Two.' is in train and in cross"),
    ("iid", ("d", "tea", "Five."), "the author 'd' is in validation and in iid"),
    ("croß", ("c", "war", "Four."), "no test 'croß'; did you mean 'cross'"),
    ("cross", ("c", "law", "Four."), "the topic 'law' is in validation and in cross"),
])
def test_what_may_not_stand_in_a_test(test, row, message):
    train = from_rows(("a", "tea", "One."), ("a", "sea", "Two."), ("b", "tea", "Three" * 20))
    validation = from_rows(("d", "tea", "Six."), ("d", "law", "Seven."))
    with pytest.raises(ValueError, match=f"^(toy: )?{message}"):
        AuthorSplit("toy", train, validation, {test: from_rows(row)})
