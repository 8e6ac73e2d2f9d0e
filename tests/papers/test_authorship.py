"Texts with authors and topics: faults of files, properties of splits of many corpora, what leakage sees and does not."
import gzip
import io
import json
import tarfile
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from debias_nb.settings import AuthorsWorldConfig
from debias_nb.papers.data.author_splits import TESTS, AuthorSplit, leakage, leakage_aware_split, nearest_topics
from debias_nb.papers.data.author_splits import paper_split
from debias_nb.papers.data.author_splits import query_target, topic_model
from debias_nb.papers.data.authors import Texts, clean, describe, load_texts, planted_texts, read_pan19, read_pan_pairs
from debias_nb.papers.data.authors import read_author_texts, strip_quotes, strip_signatures
from debias_nb.data.registry import DataError, MissingData

SMALL = {"authors": 80, "test_authors": 60, "tokens": 40, "topics": 6, "unseen_topics": 4}
few = settings(max_examples=40)


@st.composite
def corpora(draw):
    "Up to 60 texts, no two alike."
    row = st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["tea", "sea", "war", "law", "zoo"]))
    rows = draw(st.lists(row, min_size=8, max_size=60))
    written_by, topics = [author for author, _ in rows], [topic for _, topic in rows]
    return Texts("drawn", written_by, topics, [f"text {i}" for i in range(len(rows))])


def world(part, likeness=0., **dials):
    return planted_texts(AuthorsWorldConfig(name="authors", **(SMALL | dials)), part, likeness)


def rows_of(texts):
    return list(zip(texts.author, texts.topic, texts.text))


def from_rows(*rows):
    "Texts of rows of author, topic and text."
    return Texts("toy", *map(list, zip(*rows)))


def fingerprints(split):
    return [texts.fingerprint for texts in split.parts().values()]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def jsonl(path, rows):
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def training():
    "The texts that a planted world trains on."
    return world("train")


@pytest.fixture(scope="module")
def cross():
    "The texts of other authors on other topics."
    return world("cross")


def test_what_can_be_asked_about_authors():
    texts = Texts("six", list("aabbcd"), list("ststst"), ["one two"] * 5 + ["one two three"])
    assert describe(texts) == {
        "texts": 6, "authors": 4, "topics": 2, "authors with one text": 2, "authors with several topics": 2,
        "topics with several authors": 2, "texts of an author, least": 1, "texts of an author, median": 1.5,
        "texts of an author, most": 2, "words of a text, median": 2}
    assert describe(replace(texts, topic=None))["topics"] == 0
    assert describe(texts.take([]))["texts"] == 0


# ---------------------------------------------------------------- cleaning


def test_repeats_go_that_appear_when_signatures_or_quotes_go():
    mails = Texts("mail", list("aab"), None, ["Yes.\n-- \nann", "Yes.\n-- \nann, 1993", "No."])
    assert len(clean(mails)) == 3
    assert clean(mails, signatures=True).text == ["Yes.", "No."]
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


@pytest.mark.parametrize("content, words", [
    ('{"author": "a", "text": "x"}\n{"author": "a", "text": "caf\xe9"}\n'.encode("latin-1"), "a.jsonl:2: "),
    ("", "a.jsonl"),
    ('{"author": "a", "text": "x", "topic": "t"}\n\n', "a.jsonl:2: "),
    ('{"autor": "a", "text": "x"}\n', "a.jsonl:1: author"),
    ('{"author": true, "text": "x"}\n', "a.jsonl:1: author"),
    ('{"author": "a", "text": " "}\n', "a.jsonl:1: text"),
    ('{"author": "a", "text": "x"}\n{"author": "a", "text": "x\\u0000"}\n', "a.jsonl:2: text"),
    ('{"author": "a", "text": "x", "date": "4/93"}\n', "a.jsonl:1: date"),
    ('{"author": "a", "text": "x"}\n{"author": "a", "text": "y", "topic": "t"}\n', "a.jsonl: "),
])
def test_bad_files_are_named(tmp_path, content, words):
    with pytest.raises(DataError, match=words):
        read_author_texts(write(tmp_path / "a.jsonl", content))


def test_files_are_read_to_the_letter(tmp_path):
    rows = [{"author": 1, "date": 1993, "text": "é"}, {"author": "b", "text": "x\u2028y"}]
    plain = write(tmp_path / "a.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    archive = write(tmp_path / "a.jsonl.gz", gzip.compress(jsonl(tmp_path / "b.jsonl", rows).read_bytes()))
    assert read_author_texts(plain).fingerprint == read_author_texts(archive).fingerprint
    read = read_author_texts(plain)
    assert read.text == ["é", "x\u2028y"], "a line ends at a line feed and nowhere else"
    assert (read.author, read.date, read.topic) == (["1", "b"], ["1993", ""], None)


def as_bytes(content):
    if isinstance(content, bytes):
        return content
    return (content if isinstance(content, str) else json.dumps(content)).encode()


def pack(path, files):
    "An archive of the files, each in the folder `set`."
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            data = as_bytes(content)
            member = tarfile.TarInfo(f"set/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def problem(name, candidates, unknown):
    "The files of a problem; `known` are rows of candidate, fandom and text, `unknown` of candidate and text."
    infos, truths, files = [], [], {}
    for i, (candidate, fandom, text) in enumerate(candidates):
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
    texts = read_pan19(pack(tmp_path / "a.tar.gz", INFO | FIRST | second | third))
    assert set(texts.author) == {"p1/c1", "p3/c1"} and Counter(texts.author)["p1/c1"] == 5
    assert texts.counts["candidates merged into others"] == 2
    assert texts.counts["texts without an author"] == 1


def test_an_impostor_tells_the_target_fandom(tmp_path):
    second = problem("p2", [("c2", "law", "Z")], [("c2", "C")])
    third = problem("p3", [("c3", "war", "D")], [("c4", "E")])
    texts = read_pan19(pack(tmp_path / "a.tar.gz", INFO | FIRST | second | third))
    assert dict(zip(texts.text, texts.topic)) == {
        "A": "tea", "B": "law", "Z": "law", "C": "target of p2", "D": "war", "E": "target of p3"}
    assert texts.counts["candidates without a known text"] == 1


PAIR = {"id": "x", "fandoms": ["t", "s"], "pair": ["One.", "Two."]}
TRUTH = {"id": "x", "authors": [1, 2]}


@pytest.mark.parametrize("pairs, truths, words", [
    ([PAIR | {"fandoms": ["t"]}], [TRUTH], "pairs.jsonl:1: fandoms.1"),
    ([PAIR | {"pair": ["One.", " "]}], [TRUTH], "pairs.jsonl:1: pair.1"),
    ([PAIR], [TRUTH | {"authors": [1, True]}], "truth.jsonl:1: authors.1"),
    ([PAIR | {"id": "y"}], [TRUTH], "pairs.jsonl, .*truth.jsonl: the id 'x'"),
    ([PAIR], [TRUTH, TRUTH | {"id": "y"}], "pairs.jsonl, .*truth.jsonl: the id 'y'"),
    ([PAIR, PAIR], [TRUTH], "pairs.jsonl:2: the id 'x'"),
])
def test_bad_pairs_are_named(tmp_path, pairs, truths, words):
    with pytest.raises(DataError, match=words):
        read_pan_pairs(jsonl(tmp_path / "pairs.jsonl", pairs), jsonl(tmp_path / "truth.jsonl", truths))


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


def test_the_order_of_a_corpus_does_not_choose_authors_and_topics(training):
    shuffle = training.take(np.random.default_rng(0).permutation(len(training)))
    for split, options in ((paper_split, {"share": 1.}), (leakage_aware_split, {})):
        straight = split(training, .5, .5, validation=0, **options).parts()
        second = split(shuffle, .5, .5, validation=0, **options).parts()
        for part, texts in straight.items():
            assert sorted(texts.text) == sorted(second[part].text)


def test_a_seed_and_a_part_have_streams_of_their_own(training):
    split = paper_split(training, .5, .5, validation=3)
    assert fingerprints(paper_split(training, .5, .5, validation=3)) == fingerprints(split)
    larger = paper_split(training, .5, .5, validation=9)
    assert set(larger.validation.text) > set(split.validation.text)
    assert larger.tests["cross"].fingerprint == split.tests["cross"].fingerprint
    second = paper_split(training, .5, .5, validation=3, seed=1)
    assert second.train.fingerprint != split.train.fingerprint


@pytest.mark.parametrize("split, parameters, words", [
    (paper_split, {"authors": 0.}, "authors"),
    (paper_split, {"authors": .001}, "authors"),
    (paper_split, {"topics": 20}, "topics"),
    (paper_split, {"share": float("nan")}, "share"),
    (paper_split, {"validation": -1}, "validation"),
    (paper_split, {"validation": 9999}, "validation"),
    (leakage_aware_split, {"authors": 1.5}, "authors"),
    (leakage_aware_split, {"topics": 1.}, "topics"),
    (leakage_aware_split, {"similarity": -.99}, "similarity"),
    (leakage_aware_split, {"authors": 1.}, "no texts"),
])
def test_bad_parameters_of_a_split_are_refused(training, split, parameters, words):
    with pytest.raises(ValueError, match=words):
        split(training, **({"authors": .5, "topics": .5} | parameters))


def test_what_lacks_topics_authors_or_words_is_refused(training, cross):
    bare, none = replace(training, topic=None), training.take([])
    one_topic = cross.take([topic == "unseen 0" for topic in cross.topic])
    one_author = cross.take([author == "cross 0" for author in cross.author])
    for refused in (
        lambda: paper_split(bare), lambda: leakage_aware_split(bare), lambda: nearest_topics(bare, cross),
        lambda: leakage(bare, cross), lambda: leakage(training, one_topic), lambda: leakage(training, one_author),
        lambda: AuthorSplit("toy", bare, none, {"cross": cross}), lambda: AuthorSplit("toy", none, none, {}),
        lambda: AuthorSplit("toy", training, none, {"cross": none}),
    ):
        with pytest.raises(ValueError, match="topic"):
            refused()
    with pytest.raises(ValueError, match="mail: nothing is left"):
        clean(Texts("mail", list("ab"), None, ["> Yes.", "> No."]), quotes=True)
    with pytest.raises(ValueError, match="t: no author"):
        query_target(Texts("t", list("ab"), None, list("wx")))


@pytest.mark.parametrize("test, row, message", [
    ("cross", ("b", "war", "Four."), "the author 'b' is in train and in cross"),
    ("iid", ("c", "war", "Four."), "the topic 'war' is in iid and not in training"),
    ("cross", ("c", "war", "Two."), "the text 'Two.' is in train and in cross"),
    ("iid", ("d", "tea", "Five."), "the author 'd' is in validation and in iid"),
    ("croß", ("c", "war", "Four."), "no test 'croß'; did you mean 'cross'"),
    ("cross", ("c", "law", "Four."), "the topic 'law' is in validation and in cross"),
    ("cross", ("c", "war", "Three" * 20), "the text '(Three){12}' is in train"),
])
def test_what_may_not_stand_in_a_test(test, row, message):
    train = from_rows(("a", "tea", "One."), ("a", "sea", "Two."), ("b", "tea", "Three" * 20))
    validation = from_rows(("d", "tea", "Six."), ("d", "law", "Seven."))
    with pytest.raises(ValueError, match=f"^(toy: )?{message}"):
        AuthorSplit("toy", train, validation, {test: from_rows(row)})


def test_what_is_apart_is_a_split():
    train, validation = from_rows(("a", "tea", "One."), ("a", "sea", "Two.")), from_rows(("a", "tea", "Six."))
    tests = {test: from_rows(("c", "war" if test == "cross" else "tea", test)) for test in TESTS}
    assert set(AuthorSplit("s", train, validation, tests).tests) == set(TESTS)
    with pytest.raises(ValueError, match="the text 'One.' is in train and in validation"):
        AuthorSplit("s", train, train, tests)


# ---------------------------------------------------------------- leakage


def test_leakage_does_not_depend_on_the_order_or_names_of_training_topics(training, cross):
    backwards = training.take(range(len(training))[::-1])
    turned = replace(backwards, topic=[topic[::-1] for topic in backwards.topic])
    assert abs(leakage(training, cross) - leakage(turned, cross)) < .005


def test_a_topic_of_the_same_name_on_the_other_side_is_another_topic(training):
    others = replace(training, author=[f"{author}x" for author in training.author])
    same = nearest_topics(training, others, 99)
    assert (same["test topic"] == same["training topic"]).all() and (same.cosine > .999).all()
    assert same.cosine.is_monotonic_decreasing and nearest_topics(training, others, 2).equals(same.head(2))


def test_a_topic_model_knows_the_topics_of_training_and_no_others(training):
    points = topic_model(training)(training.text)
    assert points.shape == (len(training), len(set(training.topic)))
    words = np.array(sorted(set(training.topic)))[points.argmax(1)]
    assert (words == np.array(training.topic)).mean() > .8
    assert not topic_model(training)(["zzz yyy"]).any()


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
