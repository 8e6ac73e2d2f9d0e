"""Reading, splitting and drawing question pairs.

Odd bytes, properties on random data, and the facts of the published files.
"""
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from debias_nb.data import questions as q
from debias_nb.data.registry import DataError, MissingData, locate

WITHOUT_DATA = "DEBIAS_NB_DATA is not set: the published files are not at hand"
real = pytest.mark.skipif(not os.environ.get("DEBIAS_NB_DATA"), reason=WITHOUT_DATA)


def pairs(*rows, name="made"):
    labels, left, right = zip(*rows)
    return q.QuestionPairs(name, list(left), list(right), np.array(labels))


def questions(p, hard=True):
    return {q.fold(t, hard) for t in p.left + p.right}


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


# ---- reading


@pytest.mark.parametrize("data, left, right", [
    (b"1\ta\tb", ["a"], ["b"]),                         # no line end at the end
    (b"1\ta\tb\r\n0\tc\td\r\n", ["a", "c"], ["b", "d"]), # CRLF
    (b"1\ta\tb\n0\tc\td\r\n", ["a", "c"], ["b", "d"]),   # one stray CR
    (b"1\ta\r \tb\r\r\n", ["a\r "], ["b\r"]),            # only one CR belongs to the line end
    (b'1\t"a\tb"\n', ['"a'], ['b"']),                    # quotation marks are text
    # none of these ends a line; nothing is stripped
    ("1\ta\u2028\x85\x0b\x0c\x1c z\t b \n".encode(), ["a\u2028\x85\x0b\x0c\x1c z"], [" b "]),
])
def test_files_are_read_to_the_letter(tmp_path, data, left, right):
    got = q.read_pairs(write(tmp_path / "a.tsv", data))
    assert got.left == left
    assert got.right == right


@pytest.mark.parametrize("line, words", [
    ("", "1 column, expected 3"),
    ("1\ta", "2 columns"),
    ("1\ta\tb\tc", "4 columns"),
    ("1\t\tb", "left question is empty"),
    ("1\ta\t \u00a0", "right question is empty"),
    ("2\ta\tb", "'2' is not a label"),
    ("Duplicate\ta\tb", "'Duplicate' is not a label"),
    ("label\tquestion1\tquestion2", "'label' is not a label"),
    ("\ufeff1\ta\tb", "a byte order mark stands before the text"),
    ("1\ta\0\tb", "a NUL byte, at character 4"),
    (b"1\ta\xff\tb", "not UTF-8 at byte 4"),
])
def test_unusable_lines_are_refused_and_named(tmp_path, line, words):
    line = line if isinstance(line, bytes) else line.encode()
    path = write(tmp_path / "a.tsv", b"1\ta\tb\n" + line + b"\n0\tc\td\n")
    with pytest.raises(DataError, match="a.tsv:2: ") as e:
        q.read_pairs(path)
    assert words in str(e.value)


def test_many_refused_lines_are_counted(tmp_path):
    with pytest.raises(DataError, match="a.tsv:1: .*a.tsv:3: .*and 7 more of 10 lines"):
        q.read_pairs(write(tmp_path / "a.tsv", "x\n" * 10))


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="a.tsv: the file is empty"):
        q.read_pairs(write(tmp_path / "a.tsv", ""))


@pytest.mark.parametrize("options, words", [
    (dict(columns=("label", "left")), "columns: 'right' must be there once, got ('label', 'left')"),
    (dict(columns=("label", "left", "left", "right")), "columns: 'left' must be there once"),
    (dict(encoding_errors="ignore"), "no kind of encoding_errors 'ignore'"),
])
def test_wrong_options_are_refused(tmp_path, options, words):
    with pytest.raises(ValueError) as e:
        q.read_pairs(write(tmp_path / "a.tsv", "1\ta\tb\n"), **options)
    assert words in str(e.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.tsv"):
        q.read_pairs(tmp_path / "nowhere.tsv")


def can_be_a_question(text):
    return text.strip() and not text.endswith("\r")


characters = st.characters(exclude_characters="\t\n\0\ufeff", exclude_categories=["Cs"])
text = st.text(characters, min_size=1, max_size=12).filter(can_be_a_question)
rows = st.lists(st.tuples(st.integers(0, 1), text, text), min_size=1, max_size=20)


@settings(max_examples=60)
@given(rows)
def test_what_is_written_is_read(tmp_path_factory, rows):
    lines = [f"{label}\t{left}\t{right}\n" for label, left, right in rows]
    got = q.read_pairs(write(tmp_path_factory.mktemp("p") / "a.tsv", "".join(lines)))
    assert list(zip(got.labels.tolist(), got.left, got.right)) == rows
    assert got.fingerprint == pairs(*rows).fingerprint


def test_fingerprint_sees_labels_sides_and_order():
    first = (1, "a", "b")
    second = (0, "c", "d")
    base = pairs(first, second)
    others = [
        pairs((0, "a", "b"), second),
        pairs((1, "b", "a"), second),
        pairs(second, first),
        pairs((1, "ab", "b"), second),
        pairs(first),
    ]
    assert len({p.fingerprint for p in [base, *others]}) == 6
    assert replace(base, name="other", counts={"x": 1}).fingerprint == base.fingerprint


@pytest.mark.parametrize("left, right, labels, words", [
    (["a", "b", "c"], ["a", "b"], [1, 0, 0], "odd: unequal lengths: {'labels': 3, 'left': 3, 'right': 2}"),
    (["a"], ["b"], [1, 0], "odd: unequal lengths: {'labels': 2, 'left': 1, 'right': 1}"),
    (["a", "b"], ["a", "b"], [1, 2], "odd: labels[1] is 2, not one of [0, 1]"),
])
def test_columns_that_do_not_fit_are_refused(left, right, labels, words):
    with pytest.raises(ValueError) as e:
        q.QuestionPairs("odd", left, right, labels)
    assert words in str(e.value)


def test_pairs_are_taken_by_numbers_or_a_mask():
    three = q.QuestionPairs("three", ["a", "b", "c"], ["d", "e", "f"], [1, 0, 0])
    for idx in ([0, 2], np.array([0, 2]), np.array([True, False, True]), [True, False, True]):
        taken = three.take(idx)
        assert taken.left == ["a", "c"]
        assert taken.right == ["d", "f"]
        assert taken.labels.tolist() == [1, 0]
    assert len(three.take([])) == 0
    with pytest.raises(IndexError, match="three: boolean index did not match"):
        three.take([True, False])


def test_labels_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        pairs((1, "a", "b")).labels[0] = 0


# ---- keeping apart, splitting, drawing: on random graphs of questions


@st.composite
def graphs(draw):
    n = draw(st.integers(2, 40))
    question = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(st.integers(0, 1), question, question), min_size=1, max_size=60))
    return pairs(*[(label, f"Q{a}?", f"q{b} ?") for label, a, b in edges])


@settings(max_examples=80)
@given(graphs(), graphs())
def test_clean_keeps_apart_and_counts_everything(train, test):
    kept = q.clean(train, {"t": test})
    keys = q.pair_keys(kept)
    assert not set(q.pair_keys(kept, True)) & set(q.pair_keys(test, True))
    assert len(set(keys)) == len(keys)
    assert all(a != b for a, b in keys)
    assert len(train) == len(kept) + sum(n for why, n in kept.counts.items() if why.startswith("dropped"))
    given_labels = {(l, r): label for l, r, label in zip(train.left, train.right, train.labels)}
    for left, right, label in zip(kept.left, kept.right, kept.labels):
        assert given_labels[left, right] == label, "a kept pair has the label it was given"


@settings(max_examples=80)
@given(graphs(), st.floats(.05, .95), st.integers(0, 5))
def test_no_question_on_both_sides(p, holdout, seed):
    try:
        rest, held = q.split_questions(p, holdout, seed)
    except DataError:
        return
    assert not questions(rest) & questions(held)
    assert Counter(q.pair_keys(rest)) + Counter(q.pair_keys(held)) == Counter(q.pair_keys(p))
    of_label = np.bincount(p.labels, minlength=2)
    held_of_label = np.bincount(held.labels, minlength=2)
    assert (held_of_label <= np.round(holdout * of_label)).all()
    assert (held_of_label >= holdout * of_label / 2).all()


@settings(max_examples=80)
@given(graphs(), st.floats(.01, 1), st.floats(.01, 1), st.integers(0, 5))
def test_shares_are_nested_and_stratified(p, a, b, seed):
    a, b = sorted((a, b))
    p = replace(p, left=[f"{i} {t}" for i, t in enumerate(p.left)]) # every pair once
    small = q.draw_share(p, a, seed)
    large = q.draw_share(p, b, seed)
    assert set(small.left) <= set(large.left) <= set(p.left)
    for label in (0, 1):
        n = int((p.labels == label).sum())
        assert (small.labels == label).sum() == (max(1, round(a * n)) if n else 0)
    assert sorted(q.draw_share(p, 1, seed).left) == sorted(p.left)


@pytest.mark.parametrize("share", [0, 10, -.5, float("nan")])
def test_wrong_shares_are_refused(share):
    some = pairs((1, "a", "b"), (0, "c", "d"))
    with pytest.raises(ValueError, match=r"share must lie in \(0, 1\], got"):
        q.draw_share(some, share, seed=0)
    with pytest.raises(ValueError, match=r"holdout must lie in \(0, 1\), got"):
        q.split_questions(some, share, seed=0)


def test_questions_that_hang_together_cannot_be_held_out():
    chain = pairs(*[(i % 2, f"q{i}", f"q{i + 1}") for i in range(50)], name="chain")
    with pytest.raises(DataError) as e:
        q.split_questions(chain, .2, seed=0)
    assert "chain: no 20% of 50 pairs" in str(e.value)
    assert "the largest group of connected questions has 50 pairs" in str(e.value)


def test_no_pairs_stay_none():
    none = pairs((1, "a", "b")).take([])
    assert len(q.clean(none, {"t": none})) == len(q.draw_share(none, .5, seed=0)) == 0
    assert [len(part) for part in q.split_questions(none, .5, seed=0)] == [0, 0]


# ---- loading, on invented SuperUser pairs


@pytest.fixture
def superuser(tmp_path, monkeypatch):
    folder = tmp_path / "superuser"
    folder.mkdir()
    duplicates = [f"duplicate\tHow do I open file {i}?\tWhat opens file {i}?\n" for i in range(200)]
    others = [f"non-duplicate\tHow do I open file {i}?\tWhat prints page {i}?\n" for i in range(200)]
    write(folder / "train.tsv", "".join(duplicates + others))
    write(folder / "test.tsv", "1\tIs sudo safe?\tHow safe is sudo?\n0\tIs sudo safe?\tWhere are logs?\n")
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path))
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    return folder


def test_the_place_of_a_pair_does_not_tell_its_label(superuser):
    labels = q.load_questions("superuser", "train").labels
    runs = 1 + (np.diff(labels) != 0).sum()
    assert len(labels) == 400
    assert abs(labels[:100].mean() - .5) < .15
    assert 150 < runs < 250, "neither sorted (2 runs) nor alternating (400)"


FINGERPRINTS = """
from debias_nb.data.questions import load_questions

for part in ("train", "heldout"):
    print(load_questions("superuser", part, .3, 7, .2).fingerprint)
"""


def test_every_process_draws_the_same(superuser):
    here = [q.load_questions("superuser", part, .3, 7, .2).fingerprint for part in ("train", "heldout")]
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", FINGERPRINTS]
        there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        assert there.split() == here


def test_missing_files_say_so(superuser):
    (superuser / "test.tsv").unlink()
    with pytest.raises(MissingData, match="superuser/test.tsv is missing"):
        q.load_questions("superuser", "train")
    with pytest.raises(MissingData, match="downloads are off"):
        q.load_questions("quora", "test", download=False)


@pytest.mark.parametrize("call, words", [
    (dict(part="dev"), "no part 'dev'"),
    (dict(part="test", share=.5), "used as published"),
    (dict(part="test", holdout=.5), "used as published"),
    (dict(part="heldout"), "nothing is held out"),
    (dict(part="train", share=0), "share must lie"),
    (dict(part="train", holdout=1.), "holdout must lie"),
    (dict(name="qora", part="test"), "no question pairs 'qora'; did you mean 'quora'"),
])
def test_wrong_requests_are_refused(superuser, call, words):
    with pytest.raises(ValueError, match=words):
        q.load_questions(**{"name": "superuser", **call})


# ---- facts of the published files


def load(*args, **kw):
    try:
        return q.load_questions(*args, download=False, **kw)
    except MissingData as e:
        pytest.skip(str(e).splitlines()[0])


@real
@pytest.mark.parametrize("name, n, damaged", [("askubuntu", 6000, 0), ("quora", 10000, 72)])
def test_evaluation_sets_are_complete(name, n, damaged):
    test = load(name, "test")
    assert len(test) == n
    assert test.labels.sum() == n / 2
    assert test.counts == {"lines": n, "refused lines": 0, "undecodable lines": damaged, "pairs": n}


@real
def test_askubuntu_training_loses_little():
    train = load("askubuntu", "train")
    assert train.counts["dropped: in an evaluation set"] == 7
    assert train.counts["dropped: identical sides"] == 18
    assert train.counts["dropped: repeated"] == 5
    assert len(train) == 24000 - 30
    assert train.counts["questions shared with evaluation sets"] == 2334
    training = q.read_pairs(locate("askubuntu", "nlx-noclue-train_titles.tsv", False))
    softly = set(q.pair_keys(load("askubuntu", "test"))) & set(q.pair_keys(training))
    assert len(softly) == 1, "folding case and spacing alone finds one of them"


@real
def test_quora_training_is_freed_of_every_other_part():
    train = load("quora", "train")
    assert {k: v for k, v in train.counts.items() if k.startswith("in ")} == {
        "in quora/test.tsv": 624,
        "in quora/nlx-quora_test.tsv": 3,
        "in quora/dev.tsv": 658,
        "in quora/bimpm-test.ketm.txt": 616,
    }
    assert len(train) == 22134
    assert 24000 == len(train) + sum(v for k, v in train.counts.items() if k.startswith("dropped"))


@real
@pytest.mark.parametrize("name", ["askubuntu", "quora"])
def test_held_out_questions_are_not_in_training(name):
    train = load(name, "train", holdout=.1)
    held = load(name, "heldout", holdout=.1)
    assert not questions(train) & questions(held)
    assert abs(len(held) / (len(train) + len(held)) - .1) < .002
    assert abs(held.labels.mean() - .5) < .02


@real
def test_forums_share_no_pair():
    train = load("askubuntu", "train")
    test = load("quora", "test")
    assert not set(q.pair_keys(train, True)) & set(q.pair_keys(test, True))
