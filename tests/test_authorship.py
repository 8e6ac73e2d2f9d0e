"Texts with authors and topics: faults of files, properties of splits over many corpora, what leakage does and does not see."
import csv, gzip, io, json, os, subprocess, sys, tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from debias_nb.data import authors
from debias_nb.data.authors import (SOURCES, TESTS, AuthorSplit, Texts, clean, describe, leakage, leakage_aware_split, load_texts, nearest_topics, paper_split, planted_texts, query_target, read_pan19, read_pan_pairs,
                                  read_reviews, read_texts, strip_quotes, strip_signatures, topic_clusters)
from debias_nb.config import AuthorsWorldConfig
from debias_nb.data.registry import DataError, MissingData, load_registry

ROOT = Path(__file__).parents[1]
few = settings(max_examples=40, deadline=None)

@st.composite
def corpora(draw):
    "Up to 60 texts, no two alike."
    rows = draw(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["tea", "sea", "war", "law", "zoo"])), min_size=8, max_size=60))
    return Texts("drawn", [a for a, _ in rows], [t for _, t in rows], [f"text {i}" for i in range(len(rows))])

def world(part, likeness=0., **dials):
    return planted_texts(AuthorsWorldConfig(name="authors", **{**dict(authors=80, test_authors=60, tokens=40, topics=6, unseen_topics=4), **dials}), part, likeness)

def fingerprints(split): return [texts.fingerprint for texts in split.parts().values()]

def write(path, content): path.write_bytes(content if isinstance(content, bytes) else content.encode()); return path

def jsonl(path, rows): return write(path, "".join(json.dumps(r) + "\n" for r in rows))

# ---------------------------------------------------------------- the table
@pytest.mark.parametrize("columns, message", [
    (dict(author=["a"]), "unequal lengths: {'author': 1, 'topic': 2, 'text': 2}"), (dict(date=["1993"]), "'date': 1"), (dict(text=["x", ""]), "text, row 1: empty"), (dict(text=["x", None]), "text, row 1: Input should be a valid string"),
    (dict(author=["\t", "b"]), "author, row 0: empty"), (dict(topic=["t", 3]), "topic, row 1: Input should be a valid string"), (dict(date=["", "93-01-01"]), "date, row 1: String should match pattern"), (dict(text=["x", "y\0y"]), "text, row 1: a NUL character")])
def test_bad_tables_are_refused(columns, message):
    with pytest.raises(ValueError, match=f"^odd: .*{message}"): Texts(**{**dict(name="odd", author=["a", "b"], topic=["s", "t"], text=["x", "y"]), **columns})

def test_texts_do_not_change_with_the_lists_they_were_made_of():
    author = ["a", "b"]
    texts = Texts("two", author, None, ["x", "y"], ["1993", ""])
    before = texts.fingerprint; author[0] = "c"
    assert texts.author == ["a", "b"] and replace(texts).fingerprint == before != replace(texts, date=None).fingerprint
    with pytest.raises(AttributeError): texts.name = "three"

def test_fingerprints_are_the_same_in_every_process():
    code = ("from debias_nb.data.authors import *; from debias_nb.config import AuthorsWorldConfig\n"
            "t = planted_texts(AuthorsWorldConfig(name='authors', authors=80, test_authors=60, tokens=40, topics=6, unseen_topics=4), 'train')\n"
            "s = paper_split(t, .5, .5); print(*[p.fingerprint for p in s.parts().values()], *query_target(s.tests['cross']).queries)")
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": "77"}, cwd=ROOT, capture_output=True, text=True, check=True)
    split = paper_split(world("train"), .5, .5)
    assert done.stdout.split() == [*[p.fingerprint for p in split.parts().values()], *map(str, query_target(split.tests["cross"]).queries)]

def test_import_is_light():
    code = "import sys, debias_nb.data.authors; print(sorted({'sklearn', 'torch', 'matplotlib', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip() == "[]"

def test_rows_by_mask_and_position():
    texts = Texts("three", list("abc"), list("stu"), list("xyz"))
    assert texts.take([2, 0]).author == ["c", "a"] and texts.take(np.array(texts.topic) == "t").text == ["y"]
    with pytest.raises(ValueError, match="^three: a mask of 2 for 3 rows$"):
        texts.take([True, False])

def test_what_can_be_asked_about_authors():
    texts = Texts("six", list("aabbcd"), list("ststst"), ["one two"] * 5 + ["one two three"])
    assert describe(texts) == {
        "texts": 6, "authors": 4, "topics": 2, "authors with one text": 2, "authors with several topics": 2,
        "topics with several authors": 2, "texts of an author, least": 1, "texts of an author, median": 1.5,
        "texts of an author, most": 2, "words of a text, median": 2}
    assert describe(replace(texts, topic=None))["topics"] == 0 == describe(texts.take([]))["texts"]

# ---------------------------------------------------------------- cleaning
def test_cleaning_refuses():
    texts = Texts("mail", list("ab"), None, ["Yes.", "No."])
    with pytest.raises(ValueError, match=r"mail: nothing is left \({'texts with quoted lines removed': 2, 'dropped: under 1 word': 2,"):
        clean(replace(texts, text=["> Yes.", "> No."]), quotes=True)

@few
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["one", "one two", "one two three", " one", "four five"])), min_size=1, max_size=25))
def test_clean_keeps_one_text_of_one_author(rows):
    texts, stripped = Texts("drawn", [a for a, _ in rows], None, [t for _, t in rows]), [(a, t.strip()) for a, t in rows]
    wanted = [r for r in dict.fromkeys(stripped) if len({a for a, t in stripped if t == r[1]}) == 1]
    assume(wanted)
    kept = clean(texts)
    assert list(zip(kept.author, kept.text)) == wanted and len(texts) - len(kept) == sum(v for k, v in kept.counts.items() if k.startswith("dropped")) and clean(kept).fingerprint == kept.fingerprint

def test_repeats_that_appear_when_signatures_go():
    texts = Texts("mail", list("aab"), None, ["Yes.\n-- \nann", "Yes.\n-- \nann, 1993", "No."])
    assert len(clean(texts)) == 3 and clean(texts, signatures=True).text == ["Yes.", "No."]
    assert clean(Texts("mail", list("aa"), None, ["> yours\nYes.", "> yours"]), quotes=True).text == ["Yes."]

def test_signatures_end_where_a_text_is_its_own():
    tail = "\n".join(f"line {i}" for i in range(9))
    texts = Texts("long", list("aa"), None, [f"first\n{tail}", f"second\n{tail}"])
    assert strip_signatures(texts)[0] == ["first\nline 0\nline 1\nline 2", "second\nline 0\nline 1\nline 2"], "six lines at most"
    assert strip_signatures(replace(texts, author=["a", "b"])) == (texts.text, 0)
    assert strip_signatures(Texts("t", ["a"], None, ["--\nall"]))[0] == [""] and strip_quotes("") == "" and strip_quotes("a > b\nc: d") == "a > b\nc: d"

# ---------------------------------------------------------------- reading
def test_csv_as_spreadsheets_write_it(tmp_path):
    long, buffer, before = "word " * 60_000, io.StringIO(), csv.field_size_limit()
    csv.writer(buffer).writerows([["id", "topic", "text", "author"], [1, "tea", 'He said:\r\n"so", twice', "ann"], [2, "sea", long, "bob"]])
    read = read_texts(write(tmp_path / "a.csv", buffer.getvalue()))
    assert read.text == ['He said:\r\n"so", twice', long] and read.author == ["ann", "bob"] and read.topic == ["tea", "sea"] and read.date is None
    assert csv.field_size_limit() == before

@pytest.mark.parametrize("name, content, message", [
    ("a.csv", "author,text\nann,one\nbob,caf\xe9\n".encode("latin-1"), "a.csv:3: not UTF-8 at byte 8: "),
    ("b.csv", 'author,text\nann,"one\ntwo"\nbob,\n', "b.csv:4: text: empty"), ("c.csv", "author;text\nann;one\n", "c.csv:2: author: Field required"), ("d.csv", 'author,text\nann,"one\n', "d.csv:2: wrong quoting"),
    ("e.csv", "", "e.csv: the file is empty"), ("f.jsonl", '{"author": "a", "text": "x", "topic": "t"}\n\n', "f.jsonl:2: Invalid JSON"), ("g.jsonl", "[1]\n", "g.jsonl:1: Input should be an object"), ("g2.jsonl", "7.5\n", "g2.jsonl:1: Input should be an object"),
    ("h.jsonl", '{"author": true, "text": "x"}\n', "h.jsonl:1: author: Input should be a valid string"), ("i.jsonl", '{"author": "a", "text": 3}\n', "i.jsonl:1: text: Input should be a valid string"), ("j.jsonl", '{"author": "a", "text": "x", "date": 1993.5}\n', "j.jsonl:1: date: Input should be a valid string"),
    ("k.jsonl", '{"author": "a", "text": "x"}\n{"author": "a", "text": "y", "topic": "t"}\n', "k.jsonl: some texts have a topic and some have none"), ("l.jsonl.gz", b"not gzip", "l.jsonl.gz: the file is damaged")])
def test_bad_files_are_named(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message): read_texts(write(tmp_path / name, content))

@pytest.mark.parametrize("name, content, message", [
    ("a.csv", "\ufeffauthor,text\n", "a.csv:1: a byte order mark stands before the text"),
    ("b.csv.gz", gzip.compress(b"author,text\na,b\n", mtime=0)[:-4], "b.csv.gz: the file is damaged after line 2"),
    ("c.csv", "author,text,text\na,b,c\n", "c.csv:1: a column stands twice"),
    ("d.csv", 'author,text\nann,"one" two\n', "d.csv:2: wrong quoting: ',' expected after"),
    ("e.csv", "author,text\na,b\nc\n", "e.csv:3: another number of columns than the header has"),
    ("f.csv", "author,text\n", "f.csv: only a header"),
    ("g.jsonl", '{"author": "a", "text": "x", "date": "4/93"}\n', "g.jsonl:1: date: String should match pattern"),
    ("h.csv", "author,topik,text\na,b,c\n", "h.csv:2: no column 'topic', but 'topik'; did you mean 'topic'"),
    ("i.csv", "Author,text\na,b\n", "did you mean 'author'"),
    ("j.jsonl", '{"author": "a", "text": "x", "topics": "t"}\n', "j.jsonl:1: no column 'topic', but 'topics'"),
    ("k.csv", "author,text\na,b\nc,d\0d\n", "k.csv:3: a NUL byte, at character 4"),
    ("l.jsonl", '{"author": "a", "text": "x"}\n{"author": "a", "text": "x\\u0000"}\n', "l.jsonl:2: text: a NUL character")])
def test_bad_tables_in_files_are_named(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        read_texts(write(tmp_path / name, content))

def test_the_first_bad_lines_are_named_and_the_others_counted(tmp_path):
    good, blank = {"author": "a", "text": "So."}, {"author": "a", "text": " "}
    lines = [json.dumps(good), "oops", json.dumps(blank), "[]", "{}", json.dumps(good)]
    with pytest.raises(DataError) as e:
        read_texts(write(tmp_path / "a.jsonl", "\n".join(lines)))
    for message in ("a.jsonl:2: Invalid JSON", "a.jsonl:3: text: empty", "a.jsonl:4: Input should be an object", "and 1 more of 6 lines"):
        assert message in str(e.value)

def test_missing_files_and_formats(tmp_path):
    with pytest.raises(ValueError, match="the name own.txt does not tell"):
        read_texts("own.txt")
    with pytest.raises(FileNotFoundError, match="none.jsonl"): read_texts(tmp_path / "none.jsonl")
    assert read_texts(jsonl(tmp_path / "a.jsonl", [dict(author=1, text="x", date=1993)]), "mine").date == ["1993"]
    assert read_texts(write(tmp_path / "a.csv", "author,text,rate\na,b,3\n")).author == ["a"], "a column that is read over"

def test_reviews_of_several_files(tmp_path):
    line = lambda user, *texts: dict(user_id=user, category="Tea", history=[dict(review_full=t, timestamp_ms=1e12) for t in texts[1:]], heldout=dict(review_full=texts[0], timestamp_ms=1e12))
    one, two = jsonl(tmp_path / "a.jsonl", [line("u", "x", "y")]), jsonl(tmp_path / "b.jsonl", [line("v", "z &amp; z")])
    assert read_reviews(one, two).text == ["y", "x", "z & z"] and read_reviews(two, one).author == ["v", "u", "u"]
    with pytest.raises(DataError, match="c.jsonl:1: heldout"): read_reviews(one, jsonl(tmp_path / "c.jsonl", [dict(line("u", "x"), heldout=3)]))
    with pytest.raises(DataError, match="d.jsonl:1: history.0.review_full: Input should be a valid string"): read_reviews(jsonl(tmp_path / "d.jsonl", [dict(line("u", "x"), history=[dict(review_full=None, timestamp_ms=0)])]))
    with pytest.raises(DataError, match="e.jsonl:2: not UTF-8"): read_reviews(write(tmp_path / "e.jsonl", json.dumps(line("u", "x")).encode() + b"\n\xff"))

    with pytest.raises(DataError, match="f.jsonl:1: category: Field required"):
        read_reviews(jsonl(tmp_path / "f.jsonl", [{"user_id": "u1"}]))
    with pytest.raises(DataError, match="no files: no reviews"):
        read_reviews()

def packed(path, files):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content if isinstance(content, bytes) else json.dumps(content).encode()
            member = tarfile.TarInfo(f"set/{name}"); member.size = len(data); tar.addfile(member, io.BytesIO(data))
    return path

def problem(p, known, unknown): # known: (candidate, fandom, text), unknown: (candidate, text)
    return {f"{p}/fandom-info.json": [{"true-author": c, "known-text": f"known{i}", "fandom": f} for i, (c, f, _) in enumerate(known)],
            f"{p}/ground-truth.json": {"ground_truth": [{"unknown-text": f"unknown{i}.txt", "true-author": c} for i, (c, _) in enumerate(unknown)]},
            **{f"{p}/{c}/known{i}.txt": t for i, (c, _, t) in enumerate(known)}, **{f"{p}/unknown/unknown{i}.txt": t for i, (_, t) in enumerate(unknown)}}

INFO = {"collection-info.json": [{"problem-name": p, "language": "en"} for p in ("p1", "p2", "p3")]}

def test_candidates_are_merged_through_others(tmp_path):
    files = {**INFO, **problem("p1", [("c1", "tea", "A")], [("c1", "B"), ("<UNK>", "Z")]), **problem("p2", [("c2", "sea", "B")], [("c2", "C")]), **problem("p3", [("c3", "war", "C"), ("c1", "sea", "Z")], [("c1", "Y")])}
    texts = read_pan19(packed(tmp_path / "a.tar.gz", files))
    assert set(texts.author) == {"p1/c1", "p3/c1"} and Counter(texts.author)["p1/c1"] == 5, "c1 of p1, c2 and c3 share texts in a chain; the impostor's text joins nobody"
    assert texts.counts["candidates merged into others"] == 2 and texts.counts["texts without an author"] == 1

def test_an_impostor_tells_the_target_fandom(tmp_path):
    files = {**INFO, **problem("p1", [("c1", "tea", "A")], [("c1", "B"), ("<UNK>", "Z")]), **problem("p2", [("c2", "law", "Z")], [("c2", "C")]), **problem("p3", [("c3", "war", "D")], [("c4", "E")])}
    texts = read_pan19(packed(tmp_path / "a.tar.gz", files))
    assert dict(zip(texts.text, texts.topic)) == {"A": "tea", "B": "law", "Z": "law", "C": "target of p2", "D": "war", "E": "target of p3"} and texts.counts["candidates without a known text"] == 1

@pytest.mark.parametrize("change, message", [({"p1/fandom-info.json": "{"}, "p1/fandom-info.json: Invalid JSON"), ({"p1/fandom-info.json": [{"true-author": "c1"}]}, "p1/fandom-info.json: 0.known-text: Field required"), ({"p1/unknown/unknown0.txt": b"\xff"}, "unknown0.txt: not UTF-8"),
                                             ({"p1/ground-truth.json": {"ground_truth": [{"unknown-text": "none.txt", "true-author": "c1"}]}}, "p1/unknown/none.txt is not in the archive"), ({"collection-info.json": []}, "a.tar.gz: no texts with an author"),
                                             ({"collection-info.json": [{"problem-name": "p1", "language": "fr"}]}, "a.tar.gz: no texts with an author"), ({"p1/c1/known0.txt": b"A\n\xff"}, "p1/c1/known0.txt: not UTF-8 at byte 3"),
                                             ({"p1/fandom-info.json": [], "p1/ground-truth.json": {"ground_truth": []}}, "a.tar.gz: no texts with an author")])
def test_bad_archives_are_named(tmp_path, change, message):
    files = {"collection-info.json": INFO["collection-info.json"][:1], **problem("p1", [("c1", "tea", "A")], [("c1", "B")]), **change}
    with pytest.raises(ValueError, match=message): read_pan19(packed(tmp_path / "a.tar.gz", files))

def test_unknown_texts_of_several_fandoms(tmp_path):
    first = problem("p1", [("c1", "tea", "A")], [("c1", "B"), ("<UNK>", "Z")])
    second = problem("p2", [("c1", "sea", "B"), ("c2", "war", "Z")], [("c1", "C")])
    info = {"collection-info.json": INFO["collection-info.json"][:2]}
    with pytest.raises(DataError, match="the unknown texts of p1 are of several fandoms: sea, war"):
        read_pan19(packed(tmp_path / "a.tar.gz", info | first | second))

def test_what_is_no_archive(tmp_path):
    archive = packed(tmp_path / "b.tar.gz", INFO)
    with pytest.raises(DataError, match="c.tar.gz: the archive is damaged"):
        read_pan19(write(tmp_path / "c.tar.gz", archive.read_bytes()[:60]))
    with pytest.raises(DataError, match="the archive is damaged"): read_pan19(write(tmp_path / "a.tar.gz", b"nothing"))

GOOD = {"id": "x", "fandoms": ["t", "s"], "pair": ["One.", "Two."]}, {"id": "x", "same": False, "authors": [1, 2]}

@pytest.mark.parametrize("pair, truth, message", [
    ({"fandoms": ["t"]}, {}, "pairs.jsonl:1: fandoms.1: Field required"), ({"pair": ["One.", " "]}, {}, "pairs.jsonl:1: pair.1: empty"), ({"id": 5}, {}, "pairs.jsonl:1: id: Input should be a valid string"),
    ({"pair": ["One.", "T\0"]}, {}, "pairs.jsonl:1: pair.1: a NUL character"), ({"pair": ["One.", "Two.", "Three."]}, {}, "pairs.jsonl:1: pair: Tuple should have at most 2"),
    ({}, {"authors": [1, True]}, "truth.jsonl:1: authors.1: Input should be a valid string"), ({}, {"same": "no"}, "truth.jsonl:1: same: Input should be a valid boolean"), ({}, {"same": True}, "'same' is True, the authors are 1 and 2"), ({"id": "y"}, {}, "pairs.jsonl: the id 'y' is not in truth.jsonl")])
def test_bad_pairs_are_named(tmp_path, pair, truth, message):
    with pytest.raises(DataError, match=message): read_pan_pairs(jsonl(tmp_path / "pairs.jsonl", [GOOD[0] | pair]), jsonl(tmp_path / "truth.jsonl", [GOOD[1] | truth]))

def test_pairs_without_their_truth(tmp_path):
    truth = jsonl(tmp_path / "truth.jsonl", [GOOD[1], GOOD[1] | {"id": "y"}])
    with pytest.raises(DataError, match="pairs.jsonl:2: the id 'x' stands twice"):
        read_pan_pairs(jsonl(tmp_path / "pairs.jsonl", [GOOD[0], GOOD[0]]), truth)
    with pytest.raises(DataError, match="truth.jsonl: 2 ids, pairs.jsonl has 1 of them"):
        read_pan_pairs(jsonl(tmp_path / "pairs.jsonl", [GOOD[0]]), truth)

def test_pairs_are_read_once_each(tmp_path):
    pairs = [{"id": str(i), "fandoms": ["t", "s"], "pair": [f"text {i}", f"text {i + 1}"]} for i in range(50)]
    truth = [{"id": str(i), "same": True, "authors": ["7", "7"]} for i in range(50)][::-1] # in another order
    texts = read_pan_pairs(jsonl(tmp_path / "pairs.jsonl", pairs), jsonl(tmp_path / "truth.jsonl", truth))
    assert texts.text == [f"text {i}" for i in range(51)] and texts.topic == ["t"] + ["s"] * 50 and texts.counts == {"pairs read": 50, "texts read": 100, "texts that stand in several pairs": 49}

# ---------------------------------------------------------------- corpora of the registry
def test_every_corpus_is_in_the_registry():
    registry = load_registry()
    for name, source in SOURCES.items(): assert [registry.entry(name, f).file for f in source.files] == list(source.files)

def test_a_corpus_or_a_part_nobody_knows():
    with pytest.raises(ValueError, match="no corpus 'newsgroup20_authors'; did you mean 'newsgroups20_authors'"):
        load_texts("newsgroup20_authors")
    with pytest.raises(ValueError, match="no split 'test'"):
        world("test")

def test_placed_by_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path)); monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(MissingData, match="pan20_train/pairs.jsonl is missing(.|\n)*ask the organisers"): load_texts("pan20_train")
    (tmp_path / "pan20_train").mkdir(); jsonl(tmp_path / "pan20_train/pairs.jsonl", [GOOD[0]]); jsonl(tmp_path / "pan20_train/truth.jsonl", [GOOD[1]])
    texts = load_texts("pan20_train")
    assert texts.author == ["1", "2"] and set(texts.files) == {"pan20_train/pairs.jsonl", "pan20_train/truth.jsonl"}
    with pytest.raises(MissingData, match="newsgroups20_authors.jsonl.gz is missing"): load_texts("newsgroups20_authors", download=False)

# ---------------------------------------------------------------- splits
@few
@given(corpora(), st.floats(.2, .8), st.floats(.2, .8), st.floats(.3, 1), st.integers(0, 5), st.one_of(st.none(), st.integers(1, 9)))
def test_the_papers_split_follows_the_definition(texts, authors, topics, share, seed, size):
    try: s = paper_split(texts, authors, topics, share, size=size, seed=seed)
    except ValueError as e:
        assert any(m in str(e) for m in ("no texts are left for the test", "some are needed for training", "picked for training", "needs at least 2 topics")); return
    rank = lambda values: sorted(set(values), key=lambda v: (-values.count(v), v))
    mine, on = rank(texts.author)[:round(authors * len(set(texts.author)))], rank(texts.topic)[:round(topics * len(set(texts.topic)))]
    rows = list(zip(texts.author, texts.topic, texts.text))
    held = {p: set(zip(t.author, t.topic, t.text)) for p, t in s.parts().items()}
    inside = {r for r in rows if r[0] in mine and r[1] in on}
    assert held["train"] | held["validation"] <= inside and not held["train"] & held["validation"] and len(held["train"]) + len(held["validation"]) == round(share * len(inside))
    blocks = {"cross": {r for r in rows if r[0] not in mine and r[1] not in on}, "iid": {r for r in rows if r[0] not in mine and r[1] in s.train.topic}}
    for t in TESTS: assert held[t] <= blocks[t] and len(held[t]) == min(size or 99, len(blocks[t])) and [texts.text.index(x) for x in s.tests[t].text] == sorted(texts.text.index(x) for x in s.tests[t].text)
    assert len(s.validation) == min(round(share * len(inside)) // 5, size or 99, len([r for r in rows if r[0] not in mine and r[1] not in on]))
    assert s.table().loc["train"].tolist() == [len(s.train), len(set(s.train.author)), len(set(s.train.topic))]

def test_a_split_needs_topics():
    texts = Texts("drawn", list("aabb"), None, list("wxyz"))
    for call in (paper_split, leakage_aware_split, lambda t: leakage(t, t), lambda t: nearest_topics(t, t)):
        with pytest.raises(ValueError, match="drawn has no topics"): call(texts)

def test_the_order_of_a_corpus_does_not_choose_authors_and_topics():
    texts = world("train")
    turned = texts.take(np.random.default_rng(0).permutation(len(texts)))
    for make in (lambda t: paper_split(t, .5, .5, share=1., validation=0), lambda t: leakage_aware_split(t, .5, .5, validation=0)):
        a, b = make(texts), make(turned)
        assert all(sorted(x.text) == sorted(b.parts()[p].text) for p, x in a.parts().items())

def test_a_part_has_a_stream_of_its_own():
    texts = world("train")
    a, b = paper_split(texts, .5, .5, validation=3, size=20), paper_split(texts, .5, .5, validation=3, size=10)
    assert a.train.fingerprint == b.train.fingerprint and all(set(b.tests[t].text) < set(a.tests[t].text) for t in TESTS)
    c = paper_split(texts, .5, .5, validation=3, size=20, seed=1)
    assert all(x != y for x, y in zip(fingerprints(a), fingerprints(c)))

@pytest.mark.parametrize("parameters, message", [
    (dict(authors=0.), "authors must be above 0"), (dict(authors=1.), "authors must be above 0 and below 1"), (dict(authors=.001), "authors: 0.001 of 80 is 0"), (dict(topics=20), "topics must be above 0"), (dict(topics=.01), "topics: 0.01 of 6 is 0"),
    (dict(share=0.), "share must be in"), (dict(share=float("nan")), "share must be in"), (dict(validation=-1), "validation: -1 texts"),
    (dict(size=0), "size must be at least 1")])
def test_bad_parameters_of_a_split(parameters, message):
    with pytest.raises(ValueError, match=message): paper_split(world("train"), **{**dict(authors=.5, topics=.5), **parameters})

@pytest.mark.parametrize("parameters, message", [(dict(authors=0.), "authors must be in"), (dict(authors=1.5), "authors must be in"), (dict(topics=1.), "topics must be above 0 and below 1"), (dict(similarity=1.), "similarity must be in"), (dict(linkage="ward"), "(?i)ward"),
                                                 (dict(similarity=-.99), "are one cluster"), (dict(authors=1.), "no texts are left for the test 'cross'")])
def test_bad_parameters_of_an_aware_split(parameters, message):
    with pytest.raises(ValueError, match=message): leakage_aware_split(world("train", kappa=0.), **parameters)

def test_a_split_made_by_hand_is_checked_as_well():
    toy = lambda *rows: Texts("toy", *map(list, zip(*rows)))
    train, validation, none = toy(("a", "tea", "One."), ("a", "sea", "Two.")), toy(("a", "tea", "Six.")), Texts("none", [], [], [])
    with pytest.raises(ValueError, match="the topic 'tea' is in train and in cross"): AuthorSplit("s", train, none, {"cross": toy(("c", "tea", "X"), ("d", "war", "Y"))})
    with pytest.raises(ValueError, match="the topic 'law' is in validation and in cross"): AuthorSplit("s", train, toy(("a", "law", "Six.")), {"cross": toy(("c", "law", "X"))})
    with pytest.raises(ValueError, match="the text 'Six.' is in validation and in iid"): AuthorSplit("s", train, validation, {"iid": toy(("c", "tea", "Six."))})
    with pytest.raises(ValueError, match="no texts in cross"): AuthorSplit("s", train, validation, {"cross": none})
    assert set(TESTS) == set(AuthorSplit("s", train, validation, {t: toy(("c", "war" if t == "cross" else "tea", t)) for t in TESTS}).tests)

@pytest.mark.parametrize("test, row, message", [
    ("cross", ("b", "war", "Four."), "the author 'b' is in train and in cross"),
    ("iid", ("c", "war", "Four."), "the topic 'war' is in iid and not in training"),
    ("cross", ("c", "war", "Two."), "the text 'Two.' is in train and in cross"),
    ("iid", ("d", "tea", "Five."), "the author 'd' is in validation and in iid"),
    ("croß", ("c", "war", "Four."), "no test 'croß'; did you mean 'cross'"),
    ("cross", ("c", "war", "Three" * 20), "the text '(Three){12}' is in train")])
def test_what_may_not_stand_in_a_test(test, row, message):
    train = Texts("toy", ["a", "a", "b"], ["tea", "sea", "tea"], ["One.", "Two.", "Three" * 20])
    validation = Texts("toy", ["d"], ["tea"], ["Six."])
    with pytest.raises(ValueError, match=f"^(toy: )?{message}"):
        AuthorSplit("toy", train, validation, {test: Texts("toy", *([value] for value in row))})

def test_a_split_needs_texts_and_topics():
    texts = Texts("toy", ["a"], ["tea"], ["One."])
    bare, none = replace(texts, topic=None), texts.take([])
    with pytest.raises(ValueError, match="the text 'One.' is in train and in validation"):
        AuthorSplit("toy", texts, texts, {})
    with pytest.raises(ValueError, match="toy has no topics"):
        AuthorSplit("toy", bare, none, {"cross": bare})
    with pytest.raises(ValueError, match="no texts in training"):
        AuthorSplit("toy", none, none, {})
    with pytest.raises(ValueError, match="validation: 99 texts are asked for, of 10 picked for training"):
        paper_split(Texts("t", list("ab") * 15, list("stu") * 10, [f"{i}" for i in range(30)]), .5, .67, share=1., validation=99)

def test_no_pair_across_a_split_by_single_linkage_is_more_alike():
    texts = world("train", topics=14, authors=150, kappa=0., concentration=.3)
    for similarity in (.05, .2):
        s, clusters = leakage_aware_split(texts, similarity=similarity, linkage="single", share=1., validation=0), topic_clusters(texts, similarity, "single")
        assert set(clusters) == set(texts.topic) and sorted(set(clusters.values())) == list(range(len(set(clusters.values()))))
        outside = {c for t, c in clusters.items() if t not in s.train.topic}
        assert not outside & {clusters[t] for t in s.train.topic}

# ---------------------------------------------------------------- leakage
def test_chance_is_a_half():
    train, cross = world("train"), world("cross", test_authors=120)
    shuffled = lambda seed: replace(cross, topic=np.random.default_rng(seed).permutation(cross.topic).tolist())
    found = [leakage(train, shuffled(s), draws=3000) for s in range(6)]
    assert abs(np.mean(found) - .5) < .02 and max(abs(f - .5) for f in found) < .05, "topics that mean nothing"

def test_a_style_is_no_topic(monkeypatch):
    "Authors that differ much by style, and topics without a word in common with training: an author keeps to one topic, so style would tell topics if an author's own texts were compared."
    train, test = world("train", style=2.), world("iid", style=2., kappa=1.)
    content = {w for w in " ".join(test.text).split()} - {w for w in " ".join(world("train", style=2., about=0.).text).split()}
    test = replace(test, topic=[f"new {t}" for t in test.topic], text=[" ".join(w[::-1] + "x" if w in content else w for w in t.split()) for t in test.text])
    monkeypatch.setattr(authors, "COMMON", 1.)
    assert abs(leakage(train, test) - .5) < .06

def test_leakage_grows_with_likeness():
    train = world("train")
    found = [leakage(train, replace(c, text=[" ".join(t.split()[:15]) for t in c.text]), draws=4000) for l in (0., .4, .8) for c in [world("cross", l)]]
    assert found[0] + .03 < found[1] and found[1] + .03 < found[2] and found == [leakage(train, replace(c, text=[" ".join(t.split()[:15]) for t in c.text]), draws=4000) for l in (0., .4, .8) for c in [world("cross", l)]]
    assert leakage(train, world("cross"), seed=1, draws=500) != leakage(train, world("cross"), draws=500)

def test_leakage_does_not_depend_on_the_order_or_names_of_training_topics():
    train, cross = world("train"), world("cross")
    turned = replace(train.take(range(len(train))[::-1]), topic=[f"{t[::-1]}" for t in train.topic[::-1]])
    assert abs(leakage(train, cross) - leakage(turned, cross)) < .005

def test_leakage_needs_draws():
    with pytest.raises(ValueError, match="draws must be at least 1"): leakage(world("train"), world("cross"), draws=0)

def test_triples_are_drawn_evenly():
    topic, author = np.repeat([0, 1, 2], [4, 2, 2]), np.array([0, 0, 1, 2, 3, 3, 4, 5])
    first, same, other = authors._triples(topic, author, 4000, np.random.default_rng(0))
    assert (topic[first] == topic[same]).all() and (author[first] != author[same]).all()
    assert (topic[first] != topic[other]).all() and (author[first] != author[other]).all()
    assert set(first) == {0, 1, 2, 3, 6, 7}, "topic 1 has one author"
    drawn = np.bincount(same[first == 2], minlength=8) / (first == 2).sum()
    assert np.flatnonzero(drawn).tolist() == [0, 1, 3] and (abs(drawn[[0, 1, 3]] - 1 / 3) < .06).all()

def test_leakage_of_what_cannot_be_told():
    train, cross = world("train"), world("cross")
    with pytest.raises(ValueError, match="a model of topics needs at least 2 topics, got 1"): leakage(train.take([t == "topic 0" for t in train.topic]), cross)
    with pytest.raises(ValueError, match="leakage needs at least 2 topics, got 1"): leakage(train, cross.take([t == "unseen 0" for t in cross.topic]))
    with pytest.raises(ValueError, match="topic cannot be told from author"): leakage(train, cross.take([a == "cross 0" for a in cross.author]))
    with pytest.raises(ValueError, match="no words to tell topics by"): leakage(replace(train, text=["."] * len(train)), cross)

def test_nearest_topics_are_those_that_were_mixed_in():
    train, cross = world("train"), world("cross", .7)
    found = nearest_topics(train, cross, 99)
    assert len(found) == 4 and dict(zip(found["test topic"], found["training topic"])) == {f"unseen {t}": f"topic {t}" for t in range(4)} and found.cosine.is_monotonic_decreasing
    with pytest.raises(ValueError, match="pairs must be at least 1, got 0"):
        nearest_topics(train, cross, 0)
    assert nearest_topics(train, cross, 2).equals(found.head(2))
    same = nearest_topics(train, replace(train, author=[f"{a}x" for a in train.author]), 99)
    assert (same["test topic"] == same["training topic"]).all() and (same.cosine > .999).all(), "a topic of the same name on the other side is another topic"

# ---------------------------------------------------------------- queries and targets
@few
@given(corpora(), st.integers(0, 9))
def test_halves_follow_the_definition(texts, seed):
    assume(len(set(texts.author)) < len(texts))
    h, n = query_target(texts, seed), Counter(texts.author)
    asks = Counter(texts.author[i] for i in h.queries)
    assert sorted([*h.queries, *h.targets]) == list(range(len(texts))) and asks == {a: k // 2 for a, k in n.items() if k > 1} and h.distractors == sum(k == 1 for k in n.values()) and h.seed == seed
    assert (h.relevance().toarray() == [[texts.author[i] == texts.author[j] for j in h.targets] for i in h.queries]).all() and (h.relevance().sum(1) >= 1).all()

def test_every_text_may_ask():
    texts = Texts("t", list("aaaa"), None, list("wxyz"))
    asked = np.bincount(np.concatenate([query_target(texts, s).queries for s in range(400)]))
    assert (abs(asked - 200) < 50).all()
    with pytest.raises(ValueError): query_target(texts, seed=-1)
    with pytest.raises(ValueError, match="t: no author has two texts, so nobody can be asked for"):
        query_target(texts.take([0]))

def test_gzip_and_plain_are_the_same(tmp_path):
    rows = [dict(author="a", topic="t", text="é"), dict(author="b", topic="t", text="x\u2028y")]
    plain = jsonl(tmp_path / "a.jsonl", rows)
    assert read_texts(plain).fingerprint == read_texts(write(tmp_path / "a.jsonl.gz", gzip.compress(plain.read_bytes(), mtime=0))).fingerprint
    raw = write(tmp_path / "b.jsonl", "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))
    assert read_texts(raw).text == ["é", "x\u2028y"], "a line ends at a line feed and nowhere else"
