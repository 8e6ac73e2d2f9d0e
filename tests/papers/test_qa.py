"Candidate answers: odd bytes, properties on random data, and the paper's own WikiQA."
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from debias_nb.data.registry import DataError, MissingData, load_registry, locate
from debias_nb.papers.data import answers as qa
from made import write

TRIPLE = ("question", "answer", "label")
GRADE_COLUMNS = (*qa.COLUMNS, "grade")


def answers_of(*rows, name="made", grades=None, part=None):
    "Answers of rows (question id, answer, label)."
    ids, answers, labels = zip(*rows)
    questions = [f"{i}?" for i in ids]
    return qa.Answers(name, list(ids), questions, list(answers), list(labels), grades, part=part)


def or_skip(find, *args, **kwargs):
    "What is found; the test is skipped where the published file is not at hand."
    try:
        return find(*args, **kwargs)
    except MissingData as e:
        pytest.skip(str(e).splitlines()[0])


def load(name, part):
    return or_skip(qa.load_answers, name, part, download=False)


def file(dataset, name):
    return or_skip(locate, dataset, name, False)


TWO = answers_of(("a", "x", 1), ("a", "y", 0))


@pytest.mark.parametrize("make, words", [
    (lambda: replace(TWO, answers=["x"]), "answers"),
    (lambda: replace(TWO, grades=[4, 5]), r"grades\[1\]"),
    (lambda: replace(TWO, grades=[2, 1]), r"labels\[0\]"),
    (lambda: qa.load_answers("selqa", "tset"), "test"),
    (lambda: qa.flip_labels(TWO, float("nan"), 0), "share"),
    (lambda: qa.flip_labels(replace(TWO, part="test"), .2, 0), "made"),
])
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# ---- questions and their candidates


def test_everything_that_is_odd_is_counted():
    rows = [
        ("a", "s", 1),
        ("a", "s", 0),
        ("b", "t", 0),
        ("c", "u", 1),
        ("c", "v", 1),
        ("c", "w&amp;", 1),
        ("d", "u", 1),
    ]
    odd = replace(answers_of(*rows), questions=["x?"] * 3 + ["y?"] * 3 + ["z?"])
    assert qa.describe(odd) == {
        "questions": 4,
        "candidates": 7,
        "relevant": 5,
        "questions without a relevant candidate": 1,
        "questions with only relevant candidates": 2,
        "questions with one candidate": 2,
        "questions worded as another": 2,
        "repeated candidates": 1,
        "candidates with both labels": 1,
        "candidates with several grades": 0,
        "rows with HTML entities": 1,
        "rows with no-break spaces": 0,
        "first candidate relevant": 3,
        "first candidate relevant, random order": 1 / 2 + 0 + 1 + 1,
    }
    grades = answers_of(("a", "s", 1), ("a", "s", 1), ("a", "u", 0), ("a", "u", 0), grades=[4, 3, 2, 1])
    description = qa.describe(grades)
    assert description["candidates with several grades"] == 2 > description["candidates with both labels"]


# ---- reading


@pytest.mark.parametrize("line, words", [
    (b"q\ta?\tb\t1\t4\t5", "6 columns"),
    (b"q\ta?\tb\t1\t5", "'5'"),
    (b"q\ta\xff\tb\t1\t4", "UTF-8"),
    (b'q\ta?\t"torn\t1\t4', "quoting"),
])
def test_unusable_lines_are_refused_and_named(tmp_path, line, words):
    path = write(tmp_path / "a.tsv", b"q0\tx?\ty\t1\t4\n" + line + b"\nq0\tx?\tz\t0\t2\n")
    with pytest.raises(DataError, match=f"a.tsv:2: .*{words}"):
        qa.read_answers(path, GRADE_COLUMNS, quoting=words == "quoting")


def test_quotation_marks_are_syntax_only_where_asked_for(tmp_path):
    path = write(tmp_path / "a.tsv", 'a?\t"say ""yes"""\t1\n')
    triple = dict(columns=TRIPLE, group_by="run")
    assert qa.read_answers(path, quoting=True, **triple).answers[0] == 'say "yes"'
    assert qa.read_answers(path, **triple).answers[0] == '"say ""yes"""'


def test_sources_are_registered():
    registry = load_registry()
    for name, source in qa.SOURCES.items():
        for part, file_name in source.files.items():
            registry.entry(source.dataset or name, file_name)
        for file_name in source.queries.values():
            registry.entry(name, file_name)
        assert set(source.drops) | set(source.queries) | set(source.paper) <= set(source.files)


# ---- noise and perturbation


texts_to_perturb = st.lists(st.text(min_size=1, max_size=15).filter(str.strip), max_size=30)


@settings(max_examples=30)
@given(texts_to_perturb, st.floats(0, 1), st.integers(0, 5))
def test_exactly_a_share_changes(texts, share, seed):
    original = list(texts)
    edits = qa.perturb(texts, share, seed)
    assert texts == original and len(edits) == len(texts)
    assert all(t.strip() for t in edits)
    assert sum(a != b for a, b in zip(texts, edits)) == round(share * len(texts))


# ---- words in common


def test_equal_shares_are_none_of_them_high(n=7):
    "The mean of equal numbers may differ from them in the last digit."
    for m in (3, 5, 7, 11):
        question = " ".join(f"w{i}" for i in range(m))
        equal = qa.Answers("equal", ["q"] * n, [question] * n, ["w0"] * n, [1] * n)
        assert not qa.high_overlap(equal).any()


# ---- the published files


@pytest.mark.published
@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_wikiqa_is_the_papers_own(part):
    theirs = qa.read_answers(file("wikiqa", f"scan-{part}.tsv"), columns=TRIPLE, group_by="run")
    ours = load("wikiqa", part)
    columns = ["question", "answer", "label"]
    assert ours.frame()[columns].equals(theirs.frame()[columns])
    assert (ours.groups() == theirs.groups()).all()
