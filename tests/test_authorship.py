"""Texts with authors and topics: faults of files, properties of splits over many corpora, what leakage does and does
not see."""
import csv
import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from debias_nb.data import authors
from debias_nb.data.authors import (
    SOURCES, TESTS, AuthorSplit, Texts, clean, describe, leakage, leakage_aware_split, load_texts, nearest_topics,
    paper_split, planted_texts, query_target, read_pan19, read_pan_pairs, read_reviews, read_texts, strip_quotes,
    strip_signatures, topic_clusters)
from debias_nb.config import AuthorsWorldConfig
from debias_nb.data.registry import DataError, MissingData, load_registry

ROOT = Path(__file__).parents[1]
SMALL = {"authors": 80, "test_authors": 60, "tokens": 40, "topics": 6, "unseen_topics": 4}
few = settings(max_examples=40)


@st.composite
def corpora(draw):
    "Up to 60 texts, no two alike."
    row = st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["tea", "sea", "war", "law", "zoo"]))
    rows = draw(st.lists(row, min_size=8, max_size=60))
    written_by, about = [author for author, _ in rows], [topic for _, topic in rows]
    return Texts("drawn", written_by, about, [f"text {i}" for i in range(len(rows))])


def world(part, likeness=0., **dials):
    return planted_texts(AuthorsWorldConfig(name="authors", **(SMALL | dials)), part, likeness)


def rows_of(texts):
    return list(zip(texts.author, texts.topic, texts.text))


def from_rows(*rows):
    "Texts of rows of author, topic and text."
    return Texts("toy", *map(list, zip(*rows)))


def fingerprints(split):
    return [texts.fingerprint for texts in split.parts().values()]


def run_python(code, **variables):
    "What a new process prints."
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | variables, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def jsonl(path, rows):
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


# ---------------------------------------------------------------- the table

@pytest.mark.parametrize("columns, message", [
    ({"author": ["a"]}, "unequal lengths: {'author': 1, 'topic': 2, 'text': 2}"),
    ({"date": ["1993"]}, "'date': 1"),
    ({"text": ["x", ""]}, "text, row 1: empty"),
    ({"text": ["x", None]}, "text, row 1: Input should be a valid string"),
    ({"author": ["\t", "b"]}, "author, row 0: empty"),
    ({"topic": ["t", 3]}, "topic, row 1: Input should be a valid string"),
    ({"date": ["", "93-01-01"]}, "date, row 1: String should match pattern"),
    ({"text": ["x", "y\0y"]}, "text, row 1: a NUL character"),
])
def test_bad_tables_are_refused(columns, message):
    table = {"name": "odd", "author": ["a", "b"], "topic": ["s", "t"], "text": ["x", "y"]}
    with pytest.raises(ValueError, match=f"^odd: .*{message}"):
        Texts(**(table | columns))


def test_texts_do_not_change_with_the_lists_they_were_made_of():
    author = ["a", "b"]
    texts = Texts("two", author, None, ["x", "y"], ["1993", ""])
    before = texts.fingerprint
    author[0] = "c"
    assert texts.author == ["a", "b"]
    assert replace(texts).fingerprint == before != replace(texts, date=None).fingerprint
    with pytest.raises(AttributeError):
        texts.name = "three"


FINGERPRINTS = f"""
from debias_nb.data.authors import paper_split, planted_texts, query_target
from debias_nb.config import AuthorsWorldConfig
texts = planted_texts(AuthorsWorldConfig(name="authors", **{SMALL}), "train")
split = paper_split(texts, .5, .5)
print(*[part.fingerprint for part in split.parts().values()], *query_target(split.tests["cross"]).queries)
"""


def test_fingerprints_are_the_same_in_every_process():
    split = paper_split(world("train"), .5, .5)
    queries = query_target(split.tests["cross"]).queries
    printed = run_python(FINGERPRINTS, PYTHONHASHSEED="77").split()
    assert printed == [*fingerprints(split), *map(str, queries)]


def test_import_is_light():
    heavy = "{'sklearn', 'torch', 'matplotlib', 'transformers'}"
    loaded = run_python(f"import sys, debias_nb.data.authors; print(sorted({heavy} & set(sys.modules)))")
    assert loaded.strip() == "[]"


def test_rows_are_taken_by_mask_and_position():
    texts = Texts("three", list("abc"), list("stu"), list("xyz"))
    assert texts.take([2, 0]).author == ["c", "a"]
    assert texts.take(np.array(texts.topic) == "t").text == ["y"]
    with pytest.raises(IndexError, match="three: boolean index did not match"):
        texts.take([True, False])


def test_what_can_be_asked_about_authors():
    texts = Texts("six", list("aabbcd"), list("ststst"), ["one two"] * 5 + ["one two three"])
    assert describe(texts) == {
        "texts": 6, "authors": 4, "topics": 2, "authors with one text": 2, "authors with several topics": 2,
        "topics with several authors": 2, "texts of an author, least": 1, "texts of an author, median": 1.5,
        "texts of an author, most": 2, "words of a text, median": 2}
    assert describe(replace(texts, topic=None))["topics"] == 0
    assert describe(texts.take([]))["texts"] == 0


# ---------------------------------------------------------------- cleaning

def test_cleaning_refuses_to_leave_nothing():
    texts = Texts("mail", list("ab"), None, ["> Yes.", "> No."])
    nothing = r"mail: nothing is left \({'texts with quoted lines removed': 2, 'dropped: under 1 word': 2,"
    with pytest.raises(ValueError, match=nothing):
        clean(texts, quotes=True)


@few
@given(st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["one", "one two", "one two three", " one", "four five"])),
    min_size=1, max_size=25))
def test_clean_keeps_one_text_of_one_author(rows):
    stripped = [(author, text.strip()) for author, text in rows]
    writers = {}
    for author, text in stripped:
        writers.setdefault(text, set()).add(author)
    wanted = [(author, text) for author, text in dict.fromkeys(stripped) if len(writers[text]) == 1]
    assume(wanted)

    texts = Texts("drawn", [author for author, _ in rows], None, [text for _, text in rows])
    kept = clean(texts)
    assert list(zip(kept.author, kept.text)) == wanted
    dropped = sum(count for kind, count in kept.counts.items() if kind.startswith("dropped"))
    assert len(texts) - len(kept) == dropped
    assert clean(kept).fingerprint == kept.fingerprint


def test_repeats_go_that_appear_when_signatures_or_quotes_go():
    signed = Texts("mail", list("aab"), None, ["Yes.\n-- \nann", "Yes.\n-- \nann, 1993", "No."])
    assert len(clean(signed)) == 3
    assert clean(signed, signatures=True).text == ["Yes.", "No."]
    quoting = Texts("mail", list("aa"), None, ["> yours\nYes.", "> yours"])
    assert clean(quoting, quotes=True).text == ["Yes."]


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

def test_csv_is_read_as_spreadsheets_write_it(tmp_path):
    long, before = "word " * 60_000, csv.field_size_limit()
    buffer = io.StringIO()
    rows = [
        ["id", "topic", "text", "author"],
        [1, "tea", 'He said:\r\n"so", twice', "ann"],
        [2, "sea", long, "bob"]]
    csv.writer(buffer).writerows(rows)
    read = read_texts(write(tmp_path / "a.csv", buffer.getvalue()))
    assert read.text == ['He said:\r\n"so", twice', long]
    assert read.author == ["ann", "bob"] and read.topic == ["tea", "sea"] and read.date is None
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("name, content, named", [
    ("a.csv", "author,text\nann,one\nbob,caf\xe9\n".encode("latin-1"), "a.csv:3: not UTF-8"),
    ("b.csv", 'author,text\nann,"one\ntwo"\nbob,\n', "b.csv:4: text"),
    ("c.csv", "author;text\nann;one\n", "c.csv:2: author"),
    ("d.csv", 'author,text\nann,"one\n', "d.csv:2: wrong quoting"),
    ("d2.csv", 'author,text\nann,"one" two\n', "d2.csv:2: wrong quoting"),
    ("e.csv", "", "e.csv: the file is empty"),
    ("e2.csv", "author,text\n", "e2.csv: only a header"),
    ("f.csv", "author,text,text\na,b,c\n", "f.csv:1: "),
    ("f2.csv", "author,text\na,b\nc\n", "f2.csv:3: "),
    ("f3.csv", "author,text\na,b\nc,d\0d\n", "f3.csv:3: a NUL byte"),
    ("g.jsonl", '{"author": "a", "text": "x", "topic": "t"}\n\n', "g.jsonl:2: "),
    ("h.jsonl", '{"author": true, "text": "x"}\n', "h.jsonl:1: author"),
    ("i.jsonl", '{"author": "a", "text": "x"}\n{"author": "a", "text": "x\\u0000"}\n', "i.jsonl:2: text: a NUL"),
    ("j.jsonl", '{"author": "a", "text": "x", "date": "4/93"}\n', "j.jsonl:1: date"),
    ("k.jsonl", '{"author": "a", "text": "x"}\n{"author": "a", "text": "y", "topic": "t"}\n', "k.jsonl: some texts"),
    ("l.jsonl.gz", b"not gzip", "l.jsonl.gz: the file is damaged"),
])
def test_bad_files_are_named(tmp_path, name, content, named):
    with pytest.raises(DataError, match=named):
        read_texts(write(tmp_path / name, content))


def test_missing_files_and_formats(tmp_path):
    with pytest.raises(ValueError, match="the name own.txt does not tell"):
        read_texts("own.txt")
    with pytest.raises(FileNotFoundError, match="none.jsonl"):
        read_texts(tmp_path / "none.jsonl")
    numbers = jsonl(tmp_path / "a.jsonl", [{"author": 1, "text": "x", "date": 1993}])
    assert read_texts(numbers, "mine").date == ["1993"]
    with_a_rate = write(tmp_path / "a.csv", "author,text,rate\na,b,3\n")
    assert read_texts(with_a_rate).author == ["a"], "a column that is read over"


def review(text):
    return {"review_full": text, "timestamp_ms": 1e12}


def reviews(user, heldout, *history):
    "A line of a file of reviews."
    return {
        "user_id": user, "category": "Tea",
        "history": [review(text) for text in history], "heldout": review(heldout)}


def test_reviews_of_several_files(tmp_path):
    one = jsonl(tmp_path / "a.jsonl", [reviews("u", "x", "y")])
    two = jsonl(tmp_path / "b.jsonl", [reviews("v", "z &amp; z")])
    assert read_reviews(one, two).text == ["y", "x", "z & z"]
    assert read_reviews(two, one).author == ["v", "u", "u"]


def as_bytes(content):
    if isinstance(content, bytes):
        return content
    return (content if isinstance(content, str) else json.dumps(content)).encode()


def packed(path, files):
    "An archive of the files, each in the folder `set`."
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            data = as_bytes(content)
            member = tarfile.TarInfo(f"set/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def problem(name, known, unknown):
    "The files of a problem; `known` are rows of candidate, fandom and text, `unknown` of candidate and text."
    infos, truths, files = [], [], {}
    for i, (candidate, fandom, text) in enumerate(known):
        infos.append({"true-author": candidate, "known-text": f"known{i}", "fandom": fandom})
        files[f"{name}/{candidate}/known{i}.txt"] = text
    for i, (candidate, text) in enumerate(unknown):
        truths.append({"unknown-text": f"unknown{i}.txt", "true-author": candidate})
        files[f"{name}/unknown/unknown{i}.txt"] = text
    return {f"{name}/fandom-info.json": infos, f"{name}/ground-truth.json": {"ground_truth": truths}, **files}


def info(*problems, language="en"):
    return {"collection-info.json": [{"problem-name": name, "language": language} for name in problems]}


INFO = info("p1", "p2", "p3")
FIRST = problem("p1", [("c1", "tea", "A")], [("c1", "B"), ("<UNK>", "Z")])


def test_candidates_are_merged_through_others(tmp_path):
    "c1 of p1, c2 and c3 share texts in a chain; the impostor's text joins nobody."
    second = problem("p2", [("c2", "sea", "B")], [("c2", "C")])
    third = problem("p3", [("c3", "war", "C"), ("c1", "sea", "Z")], [("c1", "Y")])
    texts = read_pan19(packed(tmp_path / "a.tar.gz", INFO | FIRST | second | third))
    assert set(texts.author) == {"p1/c1", "p3/c1"} and Counter(texts.author)["p1/c1"] == 5
    assert texts.counts["candidates merged into others"] == 2
    assert texts.counts["texts without an author"] == 1


def test_an_impostor_tells_the_target_fandom(tmp_path):
    second = problem("p2", [("c2", "law", "Z")], [("c2", "C")])
    third = problem("p3", [("c3", "war", "D")], [("c4", "E")])
    texts = read_pan19(packed(tmp_path / "a.tar.gz", INFO | FIRST | second | third))
    assert dict(zip(texts.text, texts.topic)) == {
        "A": "tea", "B": "law", "Z": "law", "C": "target of p2", "D": "war", "E": "target of p3"}
    assert texts.counts["candidates without a known text"] == 1


NO_TEXTS = "a.tar.gz: no texts with an author"
NOT_THERE = {"ground_truth": [{"unknown-text": "none.txt", "true-author": "c1"}]}


PAIR = {"id": "x", "fandoms": ["t", "s"], "pair": ["One.", "Two."]}
TRUTH = {"id": "x", "same": False, "authors": [1, 2]}


@pytest.mark.parametrize("pair, truth, message", [
    ({"fandoms": ["t"]}, {}, "pairs.jsonl:1: fandoms.1: Field required"),
    ({"pair": ["One.", " "]}, {}, "pairs.jsonl:1: pair.1: empty"),
    ({"id": 5}, {}, "pairs.jsonl:1: id: Input should be a valid string"),
    ({"pair": ["One.", "T\0"]}, {}, "pairs.jsonl:1: pair.1: a NUL character"),
    ({"pair": ["One.", "Two.", "Three."]}, {}, "pairs.jsonl:1: pair: Tuple should have at most 2"),
    ({}, {"authors": [1, True]}, "truth.jsonl:1: authors.1: Input should be a valid string"),
    ({}, {"same": "no"}, "truth.jsonl:1: same: Input should be a valid boolean"),
    ({}, {"same": True}, "'same' is True, the authors are 1 and 2"),
    ({"id": "y"}, {}, "pairs.jsonl: the id 'y' is not in truth.jsonl"),
])
def test_bad_pairs_are_named(tmp_path, pair, truth, message):
    pairs = jsonl(tmp_path / "pairs.jsonl", [PAIR | pair])
    truths = jsonl(tmp_path / "truth.jsonl", [TRUTH | truth])
    with pytest.raises(DataError, match=message):
        read_pan_pairs(pairs, truths)


def test_pairs_without_their_truth_are_refused(tmp_path):
    truth = jsonl(tmp_path / "truth.jsonl", [TRUTH, TRUTH | {"id": "y"}])
    with pytest.raises(DataError, match="pairs.jsonl:2: the id 'x' stands twice"):
        read_pan_pairs(jsonl(tmp_path / "pairs.jsonl", [PAIR, PAIR]), truth)
    with pytest.raises(DataError, match="truth.jsonl: 2 ids, pairs.jsonl has 1 of them"):
        read_pan_pairs(jsonl(tmp_path / "pairs.jsonl", [PAIR]), truth)


def test_texts_of_several_pairs_are_read_once_each(tmp_path):
    pairs = [{"id": str(i), "fandoms": ["t", "s"], "pair": [f"text {i}", f"text {i + 1}"]} for i in range(50)]
    truth = [{"id": str(i), "same": True, "authors": ["7", "7"]} for i in range(50)]
    in_another_order = truth[::-1]
    texts = read_pan_pairs(jsonl(tmp_path / "pairs.jsonl", pairs), jsonl(tmp_path / "truth.jsonl", in_another_order))
    assert texts.text == [f"text {i}" for i in range(51)]
    assert texts.topic == ["t"] + ["s"] * 50
    assert texts.counts == {"pairs read": 50, "texts read": 100, "texts that stand in several pairs": 49}


# ---------------------------------------------------------------- corpora of the registry

def test_every_corpus_is_in_the_registry():
    registry = load_registry()
    for name, source in SOURCES.items():
        assert [registry.entry(name, file).file for file in source.files] == list(source.files)


def test_a_corpus_or_a_part_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="no corpus 'newsgroup20_authors'; did you mean 'newsgroups20_authors'"):
        load_texts("newsgroup20_authors")
    with pytest.raises(ValueError, match="no split 'test'"):
        world("test")


def test_files_placed_by_hand_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path))
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(MissingData, match="pan20_train/pairs.jsonl is missing(.|\n)*ask the organisers"):
        load_texts("pan20_train")
    (tmp_path / "pan20_train").mkdir()
    jsonl(tmp_path / "pan20_train/pairs.jsonl", [PAIR])
    jsonl(tmp_path / "pan20_train/truth.jsonl", [TRUTH])
    texts = load_texts("pan20_train")
    assert texts.author == ["1", "2"]
    with pytest.raises(MissingData, match="newsgroups20_authors.jsonl.gz is missing"):
        load_texts("newsgroups20_authors", download=False)


# ---------------------------------------------------------------- splits

TOO_LITTLE = (
    "no texts are left for the test", "some are needed for training", "picked for training", "needs at least 2 topics")


def by_frequency(values):
    return sorted(set(values), key=lambda value: (-values.count(value), value))


def first_of(values, share):
    "The most frequent values, as many as a share of all that differ."
    return by_frequency(values)[:round(share * len(set(values)))]


@few
@given(
    corpora(), st.floats(.2, .8), st.floats(.2, .8), st.floats(.3, 1), st.integers(0, 5),
    st.one_of(st.none(), st.integers(1, 9)))
def test_the_papers_split_follows_the_definition(texts, authors, topics, share, seed, size):
    try:
        split = paper_split(texts, authors, topics, share=share, size=size, seed=seed)
    except ValueError as error:
        assert any(words in str(error) for words in TOO_LITTLE)
        return
    mine, on = first_of(texts.author, authors), first_of(texts.topic, topics)
    rows = rows_of(texts)
    inside = {row for row in rows if row[0] in mine and row[1] in on}
    others = {row for row in rows if row[0] not in mine}
    blocks = {
        "cross": {row for row in others if row[1] not in on},
        "iid": {row for row in others if row[1] in split.train.topic}}

    held = {part: set(rows_of(texts)) for part, texts in split.parts().items()}
    picked = round(share * len(inside))
    assert held["train"] | held["validation"] <= inside and not held["train"] & held["validation"]
    assert len(held["train"]) + len(held["validation"]) == picked
    for test in TESTS:
        assert held[test] <= blocks[test] and len(held[test]) == min(size or 99, len(blocks[test]))
        places = [texts.text.index(text) for text in split.tests[test].text]
        assert places == sorted(places)
    assert len(split.validation) == min(picked // 5, size or 99, len(blocks["cross"]))

    train = split.train
    assert split.table().loc["train"].tolist() == [len(train), len(set(train.author)), len(set(train.topic))]


@pytest.fixture(scope="module")
def training():
    "The texts that a planted world trains on."
    return world("train")


@pytest.fixture(scope="module")
def cross():
    "The texts of other authors on other topics."
    return world("cross")


def test_a_split_needs_topics():
    texts = Texts("drawn", list("aabb"), None, list("wxyz"))
    for split in (paper_split, leakage_aware_split):
        with pytest.raises(ValueError, match="drawn: .* needs at least . topics, got 0"):
            split(texts)
    for compare in (leakage, nearest_topics):
        with pytest.raises(ValueError, match="drawn: .* needs at least . topics, got 0"):
            compare(texts, texts)


def test_the_order_of_a_corpus_does_not_choose_authors_and_topics(training):
    turned = training.take(np.random.default_rng(0).permutation(len(training)))
    for split, options in ((paper_split, {"share": 1.}), (leakage_aware_split, {})):
        straight = split(training, .5, .5, validation=0, **options).parts()
        other = split(turned, .5, .5, validation=0, **options).parts()
        for part, texts in straight.items():
            assert sorted(texts.text) == sorted(other[part].text)


def test_a_part_has_a_stream_of_its_own(training):
    long = paper_split(training, .5, .5, validation=3, size=20)
    short = paper_split(training, .5, .5, validation=3, size=10)
    assert long.train.fingerprint == short.train.fingerprint
    for test in TESTS:
        assert set(short.tests[test].text) < set(long.tests[test].text)
    another = paper_split(training, .5, .5, validation=3, size=20, seed=1)
    assert all(x != y for x, y in zip(fingerprints(long), fingerprints(another)))


@pytest.mark.parametrize("parameters, message", [
    ({"authors": 0.}, r"authors must lie in \(0, 1\)"),
    ({"authors": 1.}, r"authors must lie in \(0, 1\)"),
    ({"authors": .001}, "authors: 0.001 of 80 is 0"),
    ({"topics": 20}, r"topics must lie in \(0, 1\)"),
    ({"topics": .01}, "topics: 0.01 of 6 is 0"),
    ({"share": 0.}, "share must lie in"),
    ({"share": float("nan")}, "share must lie in"),
    ({"validation": -1}, "validation: -1 texts"),
    ({"size": 0}, "size must be at least 1"),
])
def test_bad_parameters_of_a_split_are_refused(training, parameters, message):
    with pytest.raises(ValueError, match=message):
        paper_split(training, **({"authors": .5, "topics": .5} | parameters))


@pytest.mark.parametrize("parameters, message", [
    ({"authors": 0.}, r"authors must lie in \(0, 1\]"),
    ({"authors": 1.5}, r"authors must lie in \(0, 1\]"),
    ({"topics": 1.}, r"topics must lie in \(0, 1\)"),
    ({"similarity": 1.}, "similarity must be in"),
    ({"linkage": "ward"}, "(?i)ward"),
    ({"similarity": -.99}, "are one cluster"),
    ({"authors": 1.}, "no texts are left for the test 'cross'"),
])
def test_bad_parameters_of_an_aware_split_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        leakage_aware_split(world("train", kappa=0.), **parameters)


def test_a_split_made_by_hand_is_checked_as_well():
    train, none = from_rows(("a", "tea", "One."), ("a", "sea", "Two.")), Texts("none", [], [], [])
    validation = from_rows(("a", "tea", "Six."))

    of_train = from_rows(("c", "tea", "X"), ("d", "war", "Y"))
    with pytest.raises(ValueError, match="the topic 'tea' is in train and in cross"):
        AuthorSplit("s", train, none, {"cross": of_train})
    with pytest.raises(ValueError, match="the topic 'law' is in validation and in cross"):
        AuthorSplit("s", train, from_rows(("a", "law", "Six.")), {"cross": from_rows(("c", "law", "X"))})
    with pytest.raises(ValueError, match="the text 'Six.' is in validation and in iid"):
        AuthorSplit("s", train, validation, {"iid": from_rows(("c", "tea", "Six."))})
    with pytest.raises(ValueError, match="no texts in cross"):
        AuthorSplit("s", train, validation, {"cross": none})

    tests = {test: from_rows(("c", "war" if test == "cross" else "tea", test)) for test in TESTS}
    assert set(AuthorSplit("s", train, validation, tests).tests) == set(TESTS)


@pytest.mark.parametrize("test, row, message", [
    ("cross", ("b", "war", "Four."), "the author 'b' is in train and in cross"),
    ("iid", ("c", "war", "Four."), "the topic 'war' is in iid and not in training"),
    ("cross", ("c", "war", "Two."), "the text 'Two.' is in train and in cross"),
    ("iid", ("d", "tea", "Five."), "the author 'd' is in validation and in iid"),
    ("croß", ("c", "war", "Four."), "no test 'croß'; did you mean 'cross'"),
    ("cross", ("c", "war", "Three" * 20), "the text '(Three){12}' is in train"),
])
def test_what_may_not_stand_in_a_test(test, row, message):
    train = from_rows(("a", "tea", "One."), ("a", "sea", "Two."), ("b", "tea", "Three" * 20))
    validation = from_rows(("d", "tea", "Six."))
    with pytest.raises(ValueError, match=f"^(toy: )?{message}"):
        AuthorSplit("toy", train, validation, {test: from_rows(row)})


def test_a_split_needs_texts():
    texts = from_rows(("a", "tea", "One."))
    bare, none = replace(texts, topic=None), texts.take([])
    with pytest.raises(ValueError, match="the text 'One.' is in train and in validation"):
        AuthorSplit("toy", texts, texts, {})
    with pytest.raises(ValueError, match="toy: a test needs at least 1 topics, got 0"):
        AuthorSplit("toy", bare, none, {"cross": bare})
    with pytest.raises(ValueError, match="no texts in training"):
        AuthorSplit("toy", none, none, {})
    thirty = Texts("t", list("ab") * 15, list("stu") * 10, [f"{i}" for i in range(30)])
    with pytest.raises(ValueError, match="validation: 99 texts are asked for, of 10 picked for training"):
        paper_split(thirty, .5, .67, share=1., validation=99)


def test_no_pair_across_a_split_by_single_linkage_is_more_alike():
    texts = world("train", topics=14, authors=150, kappa=0., concentration=.3)
    for similarity in (.05, .2):
        clusters = topic_clusters(texts, similarity, "single")
        numbers = set(clusters.values())
        assert set(clusters) == set(texts.topic) and sorted(numbers) == list(range(len(numbers)))
        split = leakage_aware_split(texts, similarity=similarity, linkage="single", share=1., validation=0)
        inside = {clusters[topic] for topic in split.train.topic}
        outside = {cluster for topic, cluster in clusters.items() if topic not in split.train.topic}
        assert not outside & inside


# ---------------------------------------------------------------- leakage

def test_topics_that_mean_nothing_leak_by_chance_a_half(training):
    cross = world("cross", test_authors=120)
    found = []
    for seed in range(6):
        shuffled = np.random.default_rng(seed).permutation(cross.topic).tolist()
        found.append(leakage(training, replace(cross, topic=shuffled), draws=3000))
    assert abs(np.mean(found) - .5) < .02
    assert max(abs(value - .5) for value in found) < .05


def words_of(texts):
    return set(" ".join(texts.text).split())


def rename_words(text, words):
    "Each of the words becomes one that no other text has."
    return " ".join(word[::-1] + "x" if word in words else word for word in text.split())


def test_a_style_is_no_topic(monkeypatch):
    """Authors that differ much by style, and topics without a word in common with training: an author keeps to one
    topic, so style would tell topics if an author's own texts were compared."""
    train, test = world("train", style=2.), world("iid", style=2., kappa=1.)
    content = words_of(test) - words_of(world("train", style=2., about=0.))
    test = replace(
        test, topic=[f"new {topic}" for topic in test.topic],
        text=[rename_words(text, content) for text in test.text])
    monkeypatch.setattr(authors, "COMMON", 1.)
    assert abs(leakage(train, test) - .5) < .06


def fifteen_words(texts):
    return replace(texts, text=[" ".join(text.split()[:15]) for text in texts.text])


def test_leakage_grows_with_likeness(training, cross):
    tests = [fifteen_words(world("cross", likeness)) for likeness in (0., .4, .8)]
    low, middle, high = (leakage(training, test, draws=4000) for test in tests)
    assert low + .03 < middle and middle + .03 < high
    assert [low, middle, high] == [leakage(training, test, draws=4000) for test in tests]
    assert leakage(training, cross, seed=1, draws=500) != leakage(training, cross, draws=500)


def test_leakage_does_not_depend_on_the_order_or_names_of_training_topics(training, cross):
    backwards = training.take(range(len(training))[::-1])
    turned = replace(backwards, topic=[topic[::-1] for topic in backwards.topic])
    assert abs(leakage(training, cross) - leakage(turned, cross)) < .005


def test_leakage_needs_draws(training, cross):
    with pytest.raises(ValueError, match="draws must be at least 1"):
        leakage(training, cross, draws=0)


def test_triples_are_drawn_evenly():
    topic, author = np.repeat([0, 1, 2], [4, 2, 2]), np.array([0, 0, 1, 2, 3, 3, 4, 5])
    first, same, other = authors._triples(topic, author, 4000, np.random.default_rng(0))
    assert (topic[first] == topic[same]).all() and (author[first] != author[same]).all()
    assert (topic[first] != topic[other]).all() and (author[first] != author[other]).all()
    assert set(first) == {0, 1, 2, 3, 6, 7}, "topic 1 has one author"
    drawn = np.bincount(same[first == 2], minlength=8) / (first == 2).sum()
    assert np.flatnonzero(drawn).tolist() == [0, 1, 3]
    assert (abs(drawn[[0, 1, 3]] - 1 / 3) < .06).all()


def test_leakage_of_what_cannot_be_told_is_refused(training, cross):
    one_topic = training.take([topic == "topic 0" for topic in training.topic])
    with pytest.raises(ValueError, match="a model of topics needs at least 2 topics, got 1"):
        leakage(one_topic, cross)
    one_topic = cross.take([topic == "unseen 0" for topic in cross.topic])
    with pytest.raises(ValueError, match="leakage needs at least 2 topics, got 1"):
        leakage(training, one_topic)
    one_author = cross.take([author == "cross 0" for author in cross.author])
    with pytest.raises(ValueError, match="topic cannot be told from author"):
        leakage(training, one_author)
    wordless = replace(training, text=["."] * len(training))
    with pytest.raises(ValueError, match="no words to tell topics by"):
        leakage(wordless, cross)


def test_nearest_topics_are_those_that_were_mixed_in(training):
    alike = world("cross", .7)
    found = nearest_topics(training, alike, 99)
    mixed_in = {f"unseen {number}": f"topic {number}" for number in range(4)}
    assert len(found) == 4 and dict(zip(found["test topic"], found["training topic"])) == mixed_in
    assert found.cosine.is_monotonic_decreasing
    assert nearest_topics(training, alike, 2).equals(found.head(2))
    with pytest.raises(ValueError, match="pairs must be at least 1, got 0"):
        nearest_topics(training, alike, 0)

    others = replace(training, author=[f"{author}x" for author in training.author])
    same = nearest_topics(training, others, 99)
    assert (same["test topic"] == same["training topic"]).all()
    assert (same.cosine > .999).all(), "a topic of the same name on the other side is another topic"


# ---------------------------------------------------------------- queries and targets

@few
@given(corpora(), st.integers(0, 9))
def test_halves_follow_the_definition(texts, seed):
    assume(len(set(texts.author)) < len(texts))
    halves, written = query_target(texts, seed), Counter(texts.author)
    assert sorted([*halves.queries, *halves.targets]) == list(range(len(texts)))
    asks = Counter(texts.author[row] for row in halves.queries)
    assert asks == {author: count // 2 for author, count in written.items() if count > 1}

    author = np.array(texts.author)
    same = author[halves.queries][:, None] == author[halves.targets]
    assert (halves.relevance().toarray() == same).all()
    assert (halves.relevance().sum(1) >= 1).all()


def test_every_text_may_ask():
    texts = Texts("t", list("aaaa"), None, list("wxyz"))
    asked = np.bincount(np.concatenate([query_target(texts, seed).queries for seed in range(400)]))
    assert (abs(asked - 200) < 50).all()
    with pytest.raises(ValueError):
        query_target(texts, seed=-1)
    with pytest.raises(ValueError, match="t: no author has two texts, so nobody can be asked for"):
        query_target(texts.take([0]))


def test_gzip_and_plain_are_the_same(tmp_path):
    rows = [{"author": "a", "topic": "t", "text": "é"}, {"author": "b", "topic": "t", "text": "x\u2028y"}]
    plain = jsonl(tmp_path / "a.jsonl", rows)
    zipped = write(tmp_path / "a.jsonl.gz", gzip.compress(plain.read_bytes(), mtime=0))
    assert read_texts(plain).fingerprint == read_texts(zipped).fingerprint

    raw = write(tmp_path / "b.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    assert read_texts(raw).text == ["é", "x\u2028y"], "a line ends at a line feed and nowhere else"
