"Reading, filtering and disturbing candidate answers: odd bytes, properties on random data, and the facts of the published files."
import gzip, json, os, subprocess, sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from debias_nb.data import answers as qa
from debias_nb.config import AnswersWorldConfig
from debias_nb.metrics import rank_metrics
from debias_nb.data import registry
from debias_nb.data.registry import ChangedData, DataError, MissingData, load_registry, locate

real = pytest.mark.skipif(not os.environ.get("DEBIAS_NB_DATA"), reason="DEBIAS_NB_DATA is not set: the published files are not at hand")
TRIPLE = ("question", "answer", "label")
FILTERED = {("wikiqa", "train"): (873, 8672, 1040), ("wikiqa", "dev"): (122, 1126, 136), ("wikiqa", "test"): (237, 2341, 283), ("selqa", "dev"): (785, 9377, 893), ("selqa", "test"): (1590, 19435, 1798),
            ("antique", "dev"): (200, 2193, 1584), ("antique", "test"): (200, 6589, 2530), ("qnli", "dev"): (4100, 5463, 2702)}


def made(*rows, name="made", grades=None, part=None): # rows: id, answer, label
    ids, answers, labels = zip(*rows)
    return qa.Answers(name, list(ids), [f"{i}?" for i in ids], list(answers), list(labels), grades, part=part)


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def load(name, part, **kwargs):
    try: return qa.load_answers(name, part, download=False, **kwargs)
    except MissingData as e: pytest.skip(str(e).splitlines()[0])


def file(dataset, name):
    try: return locate(dataset, name, False)
    except MissingData as e: pytest.skip(str(e).splitlines()[0])


# ---- the columns

@pytest.mark.parametrize("change, words", [
    ({"answers": ["x"]}, "unequal lengths: {'question_ids': 3, 'questions': 3, 'answers': 1, 'labels': 3}"), ({"grades": [4, 1]}, "'labels': 3, 'grades': 2"), ({"labels": [1, 0, 2]}, "labels[2] is 2"), ({"labels": [1, 0, .5]}, "labels[2] is 0.5"),
    ({"labels": [1, 0, float("nan")]}, "labels[2] is nan"), ({"grades": [4, 0, 1]}, "grades[1] is 0, not one of [1, 2, 3, 4]"), ({"grades": [4, 1, 5]}, "grades[2] is 5"), ({"grades": [4, 2.5, 1]}, "grades[1] is 2.5"),
    ({"grades": [2, 1, 1]}, "labels[0] is 1, though grades of 3 and more are relevant"), ({"grades": [4, 3, 1]}, "labels[1] is 0, though grades of 3")])
def test_refused_columns(change, words):
    with pytest.raises(ValueError) as e: replace(made(("a", "x", 1), ("a", "y", 0), ("b", "z", 0)), **change)
    assert words in str(e.value) and str(e.value).startswith("made: ")


def test_columns_cannot_be_changed_and_are_no_views():
    labels = np.array([1, 0]); a = qa.Answers("a", ["q"] * 2, ["q?"] * 2, ["x", "y"], labels); labels[0] = 0
    assert a.labels.tolist() == [1, 0]
    with pytest.raises(ValueError, match="read-only"): a.labels[0] = 0


def test_fingerprint_sees_every_column_and_the_order():
    base = made(("a", "x", 1), ("a", "y", 0), ("b", "z", 1), grades=[4, 2, 3])
    others = [replace(base, **{c: [*getattr(base, c)[:2], new]}) for c, new in (("question_ids", "c"), ("questions", "c?"), ("answers", "w"))]
    others += [replace(base, labels=[1, 0, 0], grades=[4, 2, 2]), replace(base, grades=[4, 1, 3]), replace(base, grades=None), base.take([1, 0, 2]), base.take([0, 1])]
    assert len({a.fingerprint for a in [base, *others]}) == 9
    assert replace(base, name="other", counts={"x": 1}, part="dev").fingerprint == base.fingerprint


def test_groups_are_by_id():
    a = made(("b", "x", 1), ("a", "y", 0), ("b", "z", 0)); a = replace(a, questions=["same?"] * 3)
    assert a.groups().tolist() == [0, 1, 0] and a.frame().columns.tolist() == ["question_id", "question", "answer", "label"]
    assert qa.describe(a)["questions worded as another"] == 2
    empty = a.take([]); assert len(empty) == 0 and empty.groups().shape == (0,) and qa.filter_questions(empty).counts["dropped candidates"] == 0


def test_a_mask_of_another_length():
    with pytest.raises(ValueError, match="^made: a mask of 2 for 3 rows$"):
        made(("a", "x", 1), ("a", "y", 0), ("b", "z", 0)).take([True, False])


def test_everything_that_is_odd_is_counted():
    rows = [("a", "s", 1), ("a", "s", 0), ("b", "t", 0), ("c", "u", 1), ("c", "v", 1), ("c", "w&amp;", 1), ("d", "u", 1)]
    odd = replace(made(*rows), questions=["x?"] * 3 + ["y?"] * 3 + ["z?"])
    assert qa.describe(odd) == {
        "questions": 4, "candidates": 7, "relevant": 5, "questions without a relevant candidate": 1,
        "questions with only relevant candidates": 2, "questions with one candidate": 2, "questions worded as another": 2,
        "repeated candidates": 1, "candidates with both labels": 1, "candidates with several grades": 0,
        "rows with HTML entities": 1, "rows with no-break spaces": 0, "first candidate relevant": 3,
        "first candidate relevant, random order": 1 / 2 + 0 + 1 + 1}
    graded = made(("a", "s", 1), ("a", "s", 1), ("a", "u", 0), ("a", "u", 0), grades=[4, 3, 2, 1])
    assert qa.describe(graded)["candidates with several grades"] == 2 > qa.describe(graded)["candidates with both labels"]


# ---- questions that cannot be ranked

def test_one_candidate_is_counted_and_kept():
    a = made(("a", "x", 1), ("b", "y", 1), ("b", "z", 0))
    assert qa.describe(a)["questions with one candidate"] == qa.describe(a)["questions with only relevant candidates"] == 1 and len(qa.filter_questions(a)) == 3
    assert qa.filter_questions(a, only=True).question_ids == ["b", "b"]


def test_questions_without_a_relevant_candidate_are_dropped_and_counted():
    a = made(("a", "x", 0), ("b", "y", 1), ("a", "z", 0), ("c", "u", 0), ("b", "v", 0))
    kept = qa.filter_questions(a)
    assert qa.describe(a)["questions without a relevant candidate"] == 2 and kept.answers == ["y", "v"]
    assert kept.counts == {"dropped questions: no relevant candidate": 2, "dropped questions: only relevant candidates": 0, "dropped candidates": 3}


rows_of = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvwxyz"), st.integers(0, 1)), min_size=1, max_size=40)


@settings(max_examples=80, deadline=None)
@given(rows_of, st.booleans(), st.booleans())
def test_filter_against_pandas(rows, without, only):
    a = made(*rows); kept = qa.filter_questions(a, without, only)
    want = a.frame().groupby("question_id").filter(lambda g: not (without and g.label.sum() == 0) and not (only and g.label.all()))
    assert kept.frame().to_dict("list") == want.to_dict("list")
    assert sum(v for k, v in kept.counts.items() if k.startswith("dropped questions")) == len(set(a.question_ids)) - len(set(kept.question_ids))
    assert qa.describe(a)["repeated candidates"] == len(rows) - len({r[:2] for r in rows})


# ---- reading

@pytest.mark.parametrize("data, answers", [
    (b"q\ta?\tb\t1", ["b"]),                                                   # no line end at the end
    (b"q\ta?\tb\t1\r\nq\ta?\tc\t0\r\n", ["b", "c"]),                            # CRLF
    (b'q\ta?\t"b\t1\nq\ta?\tc"\t0\n', ['"b', 'c"']),                            # quotation marks are text
    ("q\ta?\t b\u2028\x85\x0b\x1c c \t1\n".encode(), [" b\u2028\x85\x0b\x1c c "])]) # none of these ends a line; nothing is stripped
def test_to_the_letter(tmp_path, data, answers):
    assert qa.read_answers(write(tmp_path / "a.tsv", data)).answers == answers
    assert qa.read_answers(write(tmp_path / "a.tsv.gz", gzip.compress(data, mtime=0))).answers == answers


@pytest.mark.parametrize("line, words", [
    ("", "1 column, expected 5"), ("q\ta?\tb\t1", "4 columns, expected 5"), ("q\ta?\tb\t1\t4\t5", "6 columns"), ("q\t\tb\t1\t4", "the question is empty"), ("q\ta?\t \u00a0\t1\t4", "the answer is empty"),
    (" \ta?\tb\t1\t4", "the question_id is empty"), ("q\ta?\tb\tyes\t4", "'yes' is not a label"), ("q\ta?\tb\t1\t0", "the grade '0' is not 1, 2, 3 or 4"), ("q\ta?\tb\t1\t5", "the grade '5'"), ("q\ta?\tb\t1\t", "the grade ''"),
    ("q\ta?\tb\t0\t3", "label 0, but the grade is 3"), ("q0\tother?\tb\t0\t1", "question 'q0' has another text than in line 1"), ("\ufeffq\ta?\tb\t1\t4", "byte order mark"), (b"q\ta\xff\tb\t1\t4", "not UTF-8 at byte 4"), ("q\ta?\tb\0c\t1\t4", "a NUL byte, at character 7")])
def test_refused_lines(tmp_path, line, words):
    line = line if isinstance(line, bytes) else line.encode()
    with pytest.raises(DataError, match="a.tsv:2: ") as e: qa.read_answers(write(tmp_path / "a.tsv", b"q0\tx?\ty\t1\t4\n" + line + b"\nq0\tx?\tz\t0\t2\n"))
    assert words in str(e.value)


def test_refused_files_and_parameters(tmp_path):
    with pytest.raises(DataError, match="a.tsv:1: .*a.tsv:3: .*and 7 more of 10 lines"): qa.read_answers(write(tmp_path / "a.tsv", "x\n" * 10))
    with pytest.raises(DataError, match="the file is empty"): qa.read_answers(write(tmp_path / "a.tsv", ""))
    with pytest.raises(DataError, match="only a header"): qa.read_answers(write(tmp_path / "a.tsv", "\t".join(qa.COLUMNS) + "\n"), header=True)
    with pytest.raises(DataError, match="a.tsv:1: a header is expected, but this is a row of data"): qa.read_answers(write(tmp_path / "a.tsv", "q\ta?\tb\t1\n"), header=True)
    with pytest.raises(DataError, match="a.tsv:1: 'label' is not a label"): qa.read_answers(write(tmp_path / "a.tsv", "\t".join(qa.COLUMNS[:4]) + "\n"))
    with pytest.raises(DataError, match="a.tsv.gz: the file is damaged"): qa.read_answers(write(tmp_path / "a.tsv.gz", gzip.compress(b"q\ta?\tb\t1\n" * 99, mtime=0)[:30]))
    with pytest.raises(FileNotFoundError, match="nowhere.tsv"): qa.read_answers(tmp_path / "nowhere.tsv")
    good = write(tmp_path / "good.tsv", "a?\tb\t1\n")
    for kwargs, words in [(dict(columns=("question", "label")), "'answer' must be there once"), (dict(columns=("question", "answer")), "'label' or 'grade'"),
                          (dict(columns=TRIPLE), "needed without the column 'question_id'"), (dict(group_by="run"), "and only then"), (dict(columns=TRIPLE, group_by="rum"), "'run', 'text' or None, got 'rum'")]:
        with pytest.raises(ValueError) as e: qa.read_answers(good, **kwargs)
        assert words in str(e.value), kwargs


text = st.text(st.characters(exclude_characters="\t\n\r\ufeff\0", exclude_categories=["Cs"]), min_size=1, max_size=12).filter(str.strip)
rows_read = st.lists(st.tuples(st.sampled_from(["q1", "q2", "q3"]), text, st.integers(1, 4)), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None)
@given(rows_read)
def test_what_is_written_is_read(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("a")
    tsv = write(folder / "a.tsv", "".join(f"{i}\tWhat of {i}?\t{a}\t{int(g >= 3)}\t{g}\n" for i, a, g in rows))
    got = qa.read_answers(tsv)
    assert list(zip(got.question_ids, got.answers, got.grades.tolist())) == rows
    assert got.counts["questions read"] == len({r[0] for r in rows}) == got.groups().max() + 1


def test_quoting_is_asked_for(tmp_path):
    path = write(tmp_path / "a.tsv", 'a?\t"say ""yes"""\t1\n')
    read = lambda **kw: qa.read_answers(path, columns=TRIPLE, group_by="run", **kw).answers[0]
    assert read(quoting=True) == 'say "yes"' and read() == '"say ""yes"""'
    with pytest.raises(DataError, match="a.tsv:1: wrong quoting"): qa.read_answers(write(tmp_path / "a.tsv", 'a?\t"one\ntwo"\t1\n'), columns=TRIPLE, group_by="run", quoting=True)


@pytest.mark.parametrize("read, line, words", [("read_queries", "7", "an id, a tab"), ("read_queries", "1\twhy?", "the id '1' stands twice"), ("read_queries", "2\thow?", "a question stands twice"),
                                               ("read_qrels", "1 Q0 x", "3 columns, expected 4"), ("read_qrels", "1 Q0 x 5", "the grade '5'"),
                                               ("read_qrels", "1 Q0 x 2", "query 1 and passage x have the grade 2, and 4 before"), ("read_qrels", "1 Q0 \xff 2", "not UTF-8 at byte 6"), ("read_queries", "2\t\xff", "not UTF-8 at byte 3"),
                                               ("read_queries", "2\tw\0", "a NUL byte, at character 4")])
def test_refused_judgements(tmp_path, read, line, words):
    first = "1\thow?" if read == "read_queries" else "1\tU0\tx\t4"
    with pytest.raises(DataError, match="j.txt:2: ") as e: getattr(qa, read)(write(tmp_path / "j.txt", f"{first}\n{line}\n".encode("latin-1")))
    assert words in str(e.value)


def test_identified_by_their_wording_and_grades(tmp_path):
    answers = qa.Answers("judged", ["a", "a"], ["Why?"] * 2, ["So.", "No."], [1, 0], [4, 2])
    queries = qa.read_queries(write(tmp_path / "q.txt", "31\tWhy?\n32\tHow?\n"))
    judged = qa.read_qrels(write(tmp_path / "a.qrel", "31 U0\t31_0 4\n31 Q0 77_1 2\n"))
    assert qa.identify(answers, queries, judged).question_ids == ["31", "31"]
    with pytest.raises(DataError, match=r"query 31 has the grades \[2, 4\], judged were \[4, 2\]"):
        qa.identify(answers.take([1, 0]), queries, judged)
    with pytest.raises(DataError, match="judged: no query reads 'Why\\?'"):
        qa.identify(answers, {"32": "How?"}, judged)


@pytest.mark.parametrize("name, part, words", [("wikiQA", "test", "did you mean 'wikiqa'?"), ("antiqueqa", "dev", "did you mean 'antique'?"), ("nowhere", "dev", "known: 'wikiqa', 'selqa', 'antique', 'asnq', 'qnli'"), ("selqa", "tset", "did you mean 'test'?"), ("qnli", "train", "no part of qnli called 'train'")])
def test_unknown_names(name, part, words):
    with pytest.raises(ValueError) as e: qa.load_answers(name, part)
    assert words in str(e.value)


def test_texts_by_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path)); monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    for name, part, file in (("selqa", "train", "selqa-ass-train.tsv"), ("antique", "train", "scan-train.tsv")):
        with pytest.raises(MissingData) as e: qa.load_answers(name, part)
        assert f"place it as {name}/{file}" in str(e.value) and "git hash-object" in str(e.value) and "columns question" in str(e.value)
    (tmp_path / "selqa").mkdir()
    write(tmp_path / "selqa/selqa-ass-train.tsv", "a?\tx\t1\n")
    with pytest.raises(ChangedData, match="expected 7bed75a72cf73df0fc74cbd5a8506584c4de03ea"): qa.load_answers("selqa", "train")
    monkeypatch.setattr(registry, "verified", lambda path, entry: path)
    write(tmp_path / "selqa/selqa-ass-train.tsv", "a?\tx\t1\na?\ty\t0\nb?\tz\t1\na?\tu\t0\n")
    got = qa.load_answers("selqa", "train")
    assert got.groups().tolist() == [0, 0, 1, 2] and got.counts["questions in the paper"] == 5529 and got.counts["questions without a relevant candidate"] == 1, "the paper drops none here"


def test_sources_are_registered():
    registry = load_registry()
    for name, s in qa.SOURCES.items():
        for p, f in s.files.items(): registry.entry(s.dataset or name, f); [registry.entry(name, x) for x in s.judged.get(p, ())]
        assert set(s.drops) | set(s.judged) | set(s.paper) <= set(s.files)


def test_light_to_import():
    heavy = subprocess.run([sys.executable, "-c", "import sys, debias_nb.data.answers; print([m for m in ('torch', 'pandas', 'scipy', 'matplotlib', 'transformers') if m in sys.modules])"], capture_output=True, text=True, check=True).stdout.strip()
    assert heavy == "[]"


# ---- noise and perturbation

@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.floats(0, 1), st.integers(0, 5))
def test_exactly_so_many_labels_are_switched(n, share, seed):
    a = made(*((str(i % 7), f"x{i}", i % 3 == 0) for i in range(n)), part="train")
    noisy, flipped = qa.flip_labels(a, share, seed)
    assert len(flipped) == round(share * n) == noisy.counts["switched labels"] and (np.diff(flipped) > 0).all()
    assert ((noisy.labels != a.labels) == np.isin(np.arange(n), flipped)).all() and noisy.answers == a.answers and noisy.question_ids == a.question_ids
    assert qa.flip_labels(a, share, seed).answers.fingerprint == noisy.fingerprint and not a.counts


def test_every_position_is_as_likely():
    drawn = Counter(i for seed in range(400) for i in qa.flip_labels(made(*((str(i), "x", 1) for i in range(10))), .3, seed).flipped.tolist())
    assert sum(drawn.values()) == 1200 and all(80 < drawn[i] < 160 for i in range(10)), "120 each; one standard deviation is 9"


@pytest.mark.parametrize("share", [-.1, 1.1, 20, float("nan")])
def test_shares_outside(share):
    with pytest.raises(ValueError, match="share must be in"): qa.flip_labels(made(("a", "x", 1)), share, 0)
    with pytest.raises(ValueError, match="share must be in"): qa.perturb(["a"], share, 0)


@pytest.mark.parametrize("part", ["dev", "test"])
def test_evaluation_labels_are_never_switched(part):
    with pytest.raises(ValueError, match="made is for evaluation"): qa.flip_labels(made(("a", "x", 1), part=part), .2, 0)


def redo(text, edit):
    at, c = edit.at, edit.characters
    if edit.kind == "insert": assert len(c) == 1 and 0 <= at <= len(text); return text[:at] + c + text[at:]
    assert text[at:at + len(c)] == c, "the record says what stood there"
    if edit.kind == "delete": assert len(c) == 1; return text[:at] + text[at + 1:]
    assert len(c) == 2 and c[0] != c[1]; return text[:at] + c[1] + c[0] + text[at + 2:]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=15).filter(str.strip), max_size=30), st.floats(0, 1), st.integers(0, 5), st.integers(1, 3))
def test_exactly_what_is_recorded_changes(texts, share, seed, n):
    before = list(texts); changed, edits = qa.perturb(texts, share, seed, n)
    again = list(texts)
    for e in edits: again[e.text] = redo(again[e.text], e)
    assert again == changed and texts == before
    assert set(Counter(e.text for e in edits).values()) <= {n} and len(edits) == n * round(share * len(texts))
    assert all(t.strip() for t in changed) and (n > 1 or sum(a != b for a, b in zip(texts, changed)) == len(edits))


def test_all_kinds_and_places_occur():
    edits = qa.perturb(["abcd"] * 3000, 1., 0).edits
    kinds, places = Counter(e.kind for e in edits), {k: {e.at for e in edits if e.kind == k} for k in ("swap", "insert", "delete")}
    assert all(900 < kinds[k] < 1100 for k in places) and places == {"swap": {0, 1, 2}, "insert": {0, 1, 2, 3, 4}, "delete": {0, 1, 2, 3}}
    assert {e.kind for e in qa.perturb(["a"] * 50, 1., 0).edits} == {"insert"} and {e.kind for e in qa.perturb(["aa"] * 50, 1., 0).edits} == {"insert", "delete"}


def test_an_edit_depends_on_seed_and_place_alone():
    texts = [f"sentence number {i}" for i in range(20)]
    some, more = qa.perturb(texts, .3, 1), qa.perturb(texts, .6, 1)
    assert set(some.edits) <= set(more.edits) and some != qa.perturb(texts, .3, 2)
    with pytest.raises(ValueError, match="edits must be at least 1"): qa.perturb(texts, .3, 0, 0)
    with pytest.raises(ValueError, match=r"texts\[2\] is blank"): qa.perturb(["a", "b", "\t"], .3, 0)


# ---- words in common

def spelled(text): # the words of a text, character by character
    words, current = set(), ""
    for c in text.lower() + " ":
        if c.isalnum() or c == "_": current += c
        elif current: words.add(current); current = ""
    return words


texts_of = st.lists(st.sampled_from(["Why", "why?", "the", "The-kettle", "kettle's", "whistles!", "x_1", "?", "Über", "naïve", "3.5", "42"]), min_size=1, max_size=6).map(" ".join)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), texts_of, st.integers(0, 1)), min_size=1, max_size=20), st.lists(texts_of, min_size=3, max_size=3))
def test_words_in_common_by_their_definitions(rows, questions):
    a = made(*rows); a = replace(a, questions=[questions["abc".index(i)] for i in a.question_ids])
    share = qa.shared_words(a)
    want = [len(spelled(q) & spelled(t)) / len(spelled(q)) if spelled(q) else 0 for q, t in zip(a.questions, a.answers)]
    assert share.tolist() == want and share.min() >= 0 and share.max() <= 1
    lost = set()
    for q in set(a.question_ids):
        mine = [(s, y) for i, s, y in zip(a.question_ids, want, a.labels) if i == q]
        if any(y for _, y in mine) and not any(y for s, y in mine if s == max(s for s, _ in mine)): lost.add(q)
    assert qa.misled(a).tolist() == [q in lost for q in a.question_ids]
    high = qa.high_overlap(a)
    assert high.dtype == bool and high.any() == (len(set(want)) > 1) and not high.all() and (not high.any() or share[high].min() > share[~high].max())


def test_nothing_to_share():
    a = made(("a", "x", 1), ("a", "y", 0)); silent = replace(a, questions=["?!"] * 2)
    assert qa.shared_words(silent).tolist() == [0, 0] and not qa.misled(silent).any() and not qa.high_overlap(silent).any()
    empty = a.take([])
    assert [f(empty).tolist() for f in (qa.shared_words, qa.misled, qa.high_overlap)] == [[]] * 3 and qa.misled(empty).dtype == qa.high_overlap(empty).dtype == bool


@pytest.mark.parametrize("n", [1, 3, 7, 100, 999])
def test_equal_shares_are_none_of_them_high(n):
    "The mean of equal numbers may differ from them in the last digit."
    for m in (3, 5, 7, 11): assert not qa.high_overlap(qa.Answers("equal", ["q"] * n, [" ".join(f"w{i}" for i in range(m))] * n, ["w0"] * n, [1] * n)).any()


def test_own_files(tmp_path):
    rows = [("1", "Which kettle whistles?", "the one which whistles", 0), ("2", "Why?", "So.", 1), ("1", "Which kettle whistles?", "this kettle", 1), ("2", "Why?", "No.", 0)]
    tsv = write(tmp_path / "own.tsv", "".join("\t".join(map(str, r)) + "\n" for r in rows))
    a = qa.read_answers(tsv)
    assert qa.shared_words(a).tolist() == [2 / 3, 0, 1 / 3, 0] and qa.misled(a).tolist() == [True, False, True, False] and qa.high_overlap(a).tolist() == [True, False, True, False]


# ---- planted answers

@pytest.mark.parametrize("dials", [{}, dict(rho=-1), dict(rho=1), dict(rho=0, seed=4), dict(rho=.6, candidates=2), dict(asked=9, many=2, few=0, candidates=12), dict(asked=4, many=4, few=3)])
def test_planted_answers_are_what_was_planted(dials):
    from debias_nb.data.worlds import ANSWER_SPLITS, answers_split
    config = AnswersWorldConfig(name="answers", **{**dict(questions=150, tests=120), **dials})
    for part in ANSWER_SPLITS:
        a, made_of = qa.planted_answers(config, part), answers_split(config, part)
        assert (a.question_ids, a.questions, a.answers) == made_of[1:4] and (a.labels == made_of.labels).all() and a.name == f"answers {part}" and a.part == (part if part in ("train", "dev") else "test")
        shares = config.few / (config.asked + 1), config.many / (config.asked + 1)
        assert qa.shared_words(a).tolist() == np.array(shares)[made_of.many.astype(int)].tolist()
        assert (qa.high_overlap(a) == made_of.many).all()
        right, wrong = (np.where(made_of.labels == y, made_of.many, False).reshape(-1, config.candidates).any(1) for y in (1, 0))
        assert (qa.misled(a).reshape(-1, config.candidates).T == (~right & wrong)).all()
        assert a.counts["questions"] == len(set(a.question_ids)) == (150 if part == "train" else 120) == a.counts["relevant"] and a.counts["candidates that share many words"] == made_of.many.sum()
        assert a.counts["questions without a relevant candidate"] == a.counts["questions with only relevant candidates"] == 0 and a.counts["candidates with a cue of the question's type"] == made_of.cued.sum()


def test_planted_answers_can_be_disturbed_and_filtered():
    config = AnswersWorldConfig(name="answers", questions=50, tests=50); train, test = qa.planted_answers(config, "train"), qa.planted_answers(config, "shifted")
    assert qa.flip_labels(train, .2, 0).answers.counts["switched labels"] == 60 and qa.filter_questions(test, only=True).fingerprint == test.fingerprint
    with pytest.raises(ValueError, match="is for evaluation"): qa.flip_labels(test, .2, 0)
    assert (qa.shared_words(replace(test, answers=qa.perturb(test.answers, 1., 0, 3).texts)) <= .6).all()


@pytest.mark.parametrize("dials, part, words", [({}, "shiftd", "did you mean 'shifted'"), ({}, "test", "no split 'test'"), (dict(seed=-2), "dev", "seed: -2 is negative"), (dict(content=20, length=30), "dev", "content: 20 words are too few")])
def test_planted_answers_that_cannot_be(dials, part, words):
    with pytest.raises(ValueError, match=words): qa.planted_answers(AnswersWorldConfig(name="answers", **dials), part)


# ---- the published files

@real
@pytest.mark.parametrize("name, part", FILTERED)
def test_sizes_are_those_of_the_paper(name, part):
    a = load(name, part)
    assert (a.counts["questions"], a.counts["candidates"], a.counts["relevant"]) == FILTERED[name, part] and a.part == part
    if name != "qnli": assert (a.counts["questions in the paper"], a.counts["candidates in the paper"]) == FILTERED[name, part][:2] == qa.SOURCES[name].paper[part]


@real
def test_wikiqa_filters():
    unfiltered = {p: load("wikiqa", p, filtered=False) for p in ("train", "dev", "test")}
    size = lambda a: (len(set(a.question_ids)), len(a))
    assert {p: size(a) for p, a in unfiltered.items()} == {"train": (2118, 20360), "dev": (296, 2733), "test": (633, 6165)} and sum(len(set(a.question_ids)) for a in unfiltered.values()) == 3047
    assert sum(len(a) for a in unfiltered.values()) == 29258, "as the paper says of the original"
    assert {p: size(qa.filter_questions(a)) for p, a in unfiltered.items()} == {"train": (873, 8672), "dev": (126, 1130), "test": (243, 2351)}
    assert {p: size(qa.filter_questions(a, only=True)) for p, a in unfiltered.items()} == {"train": (857, 8651), "dev": (122, 1126), "test": (237, 2341)}
    assert unfiltered["dev"].counts["questions with one candidate"] == 10 and "questions in the paper" not in unfiltered["dev"].counts


@real
@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_wikiqa_is_the_papers_own(part):
    theirs = qa.read_answers(file("wikiqa", f"scan-{part}.tsv"), columns=TRIPLE, group_by="run"); ours = load("wikiqa", part)
    assert ours.frame()[["question", "answer", "label"]].equals(theirs.frame()[["question", "answer", "label"]]) and (ours.groups() == theirs.groups()).all()


@real
@pytest.mark.parametrize("part, empty, paraphrases", [("dev", 42, 394), ("test", 84, 789)])
def test_selqa_groups_are_those_of_the_json(part, empty, paraphrases):
    a, objects = load("selqa", part), json.loads(file("selqa", f"selqa-ass-{part}.json").read_bytes())
    there = [(i, int(k in o["answers"])) for i, o in enumerate(objects) for k, c in enumerate(o["candidates"]) if c.strip()]
    assert list(zip(a.groups().tolist(), a.labels.tolist())) == there and sum(not c.strip() for o in objects for c in o["candidates"]) == empty and sum(o["is_paraphrase"] for o in objects) == paraphrases
    assert a.counts["questions worded as another"] == (2 if part == "dev" else 0)


@real
def test_quirks_are_counted():
    got = lambda name, part, *keys: tuple(load(name, part).counts[k] for k in keys)
    odd = ("repeated candidates", "candidates with both labels", "candidates with several grades")
    assert got("selqa", "dev", *odd[:2]) == (10, 2) and got("selqa", "test", *odd[:2]) == (43, 6) and got("antique", "test", *odd) == (14, 4, 5) and got("wikiqa", "test", *odd[:2]) == (1, 0)
    first = ("first candidate relevant", "first candidate relevant, random order")
    assert {(n, p): tuple(map(round, got(n, p, *first))) for n, p in FILTERED if n != "qnli"} == {("wikiqa", "train"): (378, 168), ("wikiqa", "dev"): (62, 22), ("wikiqa", "test"): (106, 44),
        ("selqa", "dev"): (186, 97), ("selqa", "test"): (384, 192), ("antique", "dev"): (200, 147), ("antique", "test"): (200, 77)}
    assert got("antique", "dev", "questions with only relevant candidates") == (37,) and got("antique", "test", "questions with only relevant candidates") == (1,) and got("wikiqa", "train", "questions with only relevant candidates") == (16,)
    assert sum(got("antique", p, "rows with no-break spaces", "rows with HTML entities") != (0, 0) for p in ("dev", "test")) == 2


@real
def test_what_parts_share():
    shared = lambda name, a, b, column: len(set(getattr(load(name, a), column)) & set(getattr(load(name, b), column)))
    for name, a, b, n in (("wikiqa", "train", "dev", 165), ("wikiqa", "train", "test", 151), ("wikiqa", "dev", "test", 23), ("selqa", "dev", "test", 4379)): assert (shared(name, a, b, "questions"), shared(name, a, b, "answers")) == (0, n)
    assert shared("antique", "dev", "test", "questions") == 0


@real
def test_antique_grades_and_ids():
    for part, grades, queries in (("dev", [101, 508, 633, 951], "train"), ("test", [1642, 2417, 1196, 1334], "test")):
        a, asked = load("antique", part), qa.read_queries(file("antique", f"antique-{queries}-queries.txt"))
        assert np.bincount(a.grades).tolist() == [0, *grades] and all(asked[i] == q for i, q in zip(a.question_ids, a.questions)) and len(a.files) == 3
    judged, dev = qa.read_qrels(file("antique", "antique-train.qrel")), set(load("antique", "dev").question_ids)
    rest = [j for q, j in judged.items() if q not in dev]
    assert (len(judged), len(rest), sum(map(len, rest)), sum(g >= 3 for j in rest for _, g in j)) == (2426, 2226, 25229, 18229) and (2226, 25229) == qa.SOURCES["antique"].paper["train"]


@real
def test_antique_must_be_read_with_quoting():
    path = file("antique", "scan-dev.tsv"); columns = (*TRIPLE, "grade")
    letter, quoted = (qa.read_answers(path, columns=columns, group_by="text", quoting=q) for q in (False, True))
    assert sum(a != b for x, y in ((letter.questions, quoted.questions), (letter.answers, quoted.answers)) for a, b in zip(x, y)) == 341
    assert len(set(letter.questions) - set(quoted.questions)) == 11


@real
def test_qnli_questions_are_scattered():
    a = load("qnli", "dev"); runs = 1 + sum(x != y for x, y in zip(a.questions, a.questions[1:]))
    assert (runs, a.counts["questions"], a.counts["questions with one candidate"], a.counts["questions without a relevant candidate"]) == (5462, 4100, 2738, 1398)


@real
@pytest.mark.parametrize("name, expected", [("wikiqa", (.60, .61, .44)), ("selqa", (.79, .80, .70)), ("antique", (.48, .64, .46))])
def test_words_in_common_on_published_files(name, expected):
    "What counting words gets there, ties in the mean over their orders; which characters make a word moves the third digit."
    a = load(name, "test"); means, _, _ = rank_metrics(qa.shared_words(a), a.labels, a.question_ids)
    got = [means[k] for k in ("map", "mrr", "p1")]
    assert np.allclose(got, expected, rtol=0, atol=.012)


@real
def test_misled_questions_are_those_that_counting_loses():
    for name, n in (("wikiqa", 81), ("selqa", 317), ("antique", 77)):
        a = load(name, "test"); _, values, ids = rank_metrics(qa.shared_words(a), a.labels, a.question_ids)
        assert set(ids[values["p1"] == 0]) == set(a.take(qa.misled(a)).question_ids) and (values["p1"] == 0).sum() == n
