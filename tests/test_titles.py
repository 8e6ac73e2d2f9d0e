"Reading, merging and splitting titles: bad input, properties on random data, damaged files, and the facts of the published files."
import gzip, json, os, subprocess, sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.sparse import csr_matrix

from debias_nb.data import titles as t
from debias_nb.config import WorldConfig
from debias_nb.data.registry import ChangedData, DataError, MissingData, load_registry, locate
from debias_nb.data.worlds import SPLITS, Catalogue

real = pytest.mark.skipif(not os.environ.get("DEBIAS_NB_DATA"), reason="DEBIAS_NB_DATA is not set: the published files are not at hand")


def put(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join((line if isinstance(line, bytes) else line.encode() if isinstance(line, str) else json.dumps(line).encode()) + b"\n" for line in lines)
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def library(n=40, seed=0, **changed):
    rng = np.random.default_rng(seed)
    names = [f"Paper {i}" for i in range(n)]
    pairs = [(i, j) for i in range(4, n) for j in rng.choice(i, 3, replace=False)]
    return t.make_titles("library", names, names, pairs, **{**dict(years=2000 + np.arange(n) // 5, categories=[f"kind {i % 4}" for i in range(n)]), **changed})


# ---- bad input of make_titles

@pytest.mark.parametrize("relevance, words", [
    ([(0, 3)], "relevance of query 0 ('Cup') names item 3, and there are 3 items"), ([(1, -1)], "relevance of query 1 ('Pot') names item -1"), ([(2, 0)], "names query 2"),
    (np.zeros((2, 3)), "must be an (n, 2) array"), ([("0", "1")], "array of integers"), ([], "none of 2 queries has a relevant item")])
def test_bad_relevance(relevance, words):
    with pytest.raises(ValueError) as e: t.make_titles("shelf", ["Cup", "Pot"], ["Lid", "Spout", "Rim"], relevance)
    assert words in str(e.value) and "shelf" in str(e.value)


@pytest.mark.parametrize("column, words", [
    (dict(categories=["a"]), "1 categories for 2 queries, the first without is query 1 ('Pot')"), (dict(categories=["a"] * 3), "3 categories for 2 queries"),
    (dict(years=[2001]), "1 years for 2 queries"),
    (dict(published=[True]), "1 published for 2 queries"), (dict(excluded=[(0, 7)]), "excluded of query 0 ('Cup') names item 7")])
def test_bad_columns(column, words):
    with pytest.raises(ValueError) as e: t.make_titles("shelf", ["Cup", "Pot"], ["Lid"], [(0, 0), (1, 0)], **column)
    assert words in str(e.value)


@pytest.mark.parametrize("wrong", [None, float("nan"), 3])
def test_titles_must_be_texts(wrong):
    with pytest.raises(ValueError, match=f"shelf: title 1 is no text: {wrong}"):
        t.make_titles("shelf", ["Cup", wrong], ["Lid"], [(0, 0)])
    with pytest.raises(ValueError, match=f"shelf: title 1 is no text: {wrong}"):
        t.make_titles("shelf", ["Cup"], ["Lid", wrong], [(0, 0)])


def test_files_in_which_nothing_is_relevant_are_no_data(tmp_path):
    with pytest.raises(DataError, match="aan_citations: none of 0 queries has a relevant item"):
        t.read_aan(put(tmp_path / "m.txt", "id = {P1}", "title = {x}", "year = {2001}"), put(tmp_path / "c.txt", "X1 , P1"))


def test_a_query_that_leads_to_itself_alone():
    with pytest.raises(ValueError, match="alone: none of 1 queries has a relevant item"):
        t.make_titles("alone", ["Guest towel"], ["guest towel"], [(0, 0)])


# ---- what make_titles does

names = st.sampled_from(["a", "A", " a", "b", "B ", "c", "", " ", "d", "É", "é"])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_merging_accounts_for_everything(data):
    queries, items = data.draw(st.lists(names, min_size=1, max_size=8)), data.draw(st.lists(names, min_size=1, max_size=8))
    position = st.tuples(st.integers(0, len(queries) - 1), st.integers(0, len(items) - 1))
    pairs, barred = data.draw(st.lists(position, min_size=1, max_size=20)), data.draw(st.none() | st.lists(position, max_size=4))
    fold = lambda x: x.strip().lower()
    out = {(fold(queries[q]), fold(items[i])) for q, i in barred or []}
    expected = {(fold(queries[q]), fold(items[i])) for q, i in pairs if fold(queries[q]) and fold(items[i]) and fold(queries[q]) != fold(items[i])} - out
    if not expected:
        with pytest.raises(ValueError, match="has a relevant item"): t.make_titles("x", queries, items, pairs, excluded=barred)
        return
    made = t.make_titles("x", queries, items, pairs, years=np.arange(len(queries)), excluded=barred)
    found = {(made.queries[q].lower(), made.items[i].lower()) for q, i in zip(*made.relevance.nonzero())}
    assert found == expected and made.relevance.nnz == len(expected) and made.relevance.dtype == bool
    assert {i.lower() for i in made.items} == {fold(i) for i in items} - {""} and len({i.lower() for i in made.items}) == len(made.items)
    assert all((made.items[o].lower() == q.lower()) if o >= 0 else q.lower() not in {i.lower() for i in made.items} for q, o in zip(made.queries, made.own))
    assert all(y == [fold(q) for q in queries].index(name.lower()) for y, name in zip(made.years, made.queries)), "the year of the first"
    c = made.counts
    assert c["queries read"] == sum(c[k] for k in ("queries without a title", "queries merged", "queries without a relevant item", "queries"))
    assert c["items read"] == sum(c[k] for k in ("items without a title", "items merged", "items"))
    assert c["pairs read"] == sum(c[k] for k in ("pairs without a title", "pairs merged", "pairs to the own title", "pairs excluded", "pairs"))
    if barred: assert {(made.queries[q].lower(), made.items[i].lower()) for q, i in zip(*made.excluded.nonzero())} == {(q, i) for q, i in out if q in {x.lower() for x in made.queries} and i}


def test_columns_cannot_be_changed():
    made = library()
    for column in (made.years, made.categories, made.own):
        with pytest.raises(ValueError): column[0] = column[1]


def test_fingerprints():
    made = library()
    assert made.fingerprint == library().fingerprint != library(seed=1).fingerprint
    code = "import numpy as np\nfrom debias_nb.data.titles import *\nprint(make_titles('x', ['Cup', 'Pot'], ['Lid', 'cup', 'Rim'], [(0, 0), (1, 1), (1, 2)]).fingerprint)"
    out = {subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": s}, capture_output=True, text=True, check=True).stdout for s in "12"}
    assert out == {t.make_titles("y", ["Cup", "Pot"], ["Lid", "cup", "Rim"], [(0, 0), (1, 1), (1, 2)]).fingerprint + "\n"}, "the same in every process, whatever the name"


# ---- readers

RECORDS = [dict(uid="A", title="Blue cup", target_ind=[0, 1]), dict(uid="B", title="Saucer", target_ind=[0]), dict(uid="C", title="Rake", target_ind=[2])]


def lf(folder, **changed):
    files = {"trn.json.gz": RECORDS, "tst.json.gz": [dict(uid="D", title="Garden rake", target_ind=[2])],
             "lbl.json.gz": [dict(uid=u, title=x) for u, x in zip("ABE", ("Blue cup", "Saucer", "Spade"))], "filter_labels_train.txt": ["0 0"], "filter_labels_test.txt": []}
    for file, lines in {**files, **changed}.items():
        if lines is not None: put(folder / file, *lines)
    return folder


def test_lf_without_categories(tmp_path):
    made = t.read_lf(lf(tmp_path), year=2013)
    assert made.name == tmp_path.name and made.categories is None and made.published.tolist() == [False, False, False, True] and set(made.years) == {2013}
    assert made.counts["pairs to the own title"] == 1 and t.read_lf(tmp_path).years is None


@pytest.mark.parametrize("file, lines, words", [
    ("trn.json.gz", [RECORDS[0], b'{"uid": "B", "title"'], "trn.json.gz:2: Invalid JSON"), ("trn.json.gz", [RECORDS[0], b""], "trn.json.gz:2: Invalid JSON"),
    ("trn.json.gz", [RECORDS[0], b'{"uid": "B\xff", "title": "x", "target_ind": [0]}'], "trn.json.gz:2: not UTF-8"),
    ("trn.json.gz", [RECORDS[0], [1]], "trn.json.gz:2: Input should be an object"), ("trn.json.gz", [dict(uid="A", title="x")], "trn.json.gz:1: target_ind: Field required"),
    ("trn.json.gz", [dict(uid="A", title=3, target_ind=[0])], "trn.json.gz:1: title: Input should be a valid string"), ("trn.json.gz", [RECORDS[0], RECORDS[0]], "trn.json.gz:2: the id 'A' stands twice, first in line 1"),
    ("trn.json.gz", [dict(uid="A", title="x", target_ind=[3])], "trn.json.gz:1: target_ind 3 is not there, lbl.json.gz has 3 labels"),
    ("tst.json.gz", [dict(uid="A", title="x", target_ind=[-1])], "tst.json.gz:1: target_ind -1"), ("tst.json.gz", [dict(uid="A", title="x", target_ind=[True])], "tst.json.gz:1: target_ind.0: Input should be a valid integer"), ("tst.json.gz", [dict(uid="A", title="x", target_ind=["1"])], "tst.json.gz:1: target_ind.0: Input should be a valid integer"),
    ("tst.json.gz", [dict(uid="A", title="x", target_ind=[None])], "tst.json.gz:1: target_ind.0: Input should be a valid integer"), ("filter_labels_train.txt", ["0 0", "1 x"], "filter_labels_train.txt:2: two whole numbers are expected, found '1 x'"),
    ("categories.tsv", ["A\tKitchen", "A\tx\ty"], "categories.tsv:2: a uid, a tab and a category are expected, found 'A\\tx\\ty'"),
    ("tst.json.gz", [dict(uid="A", title="x", target_ind=[10**30])], "tst.json.gz:1: target_ind 1000"), ("tst.json.gz", [], "tst.json.gz: the file is empty"),
    ("lbl.json.gz", [dict(uid="A", title="x"), dict(uid="A", title="y")], "lbl.json.gz:2: the id 'A' stands twice"), ("lbl.json.gz", [dict(title="x")], "lbl.json.gz:1: uid: Field required"),
    ("filter_labels_train.txt", ["0 0", "0"], "filter_labels_train.txt:2: two whole numbers"), ("filter_labels_train.txt", ["0 0", ""], "filter_labels_train.txt:2: two whole numbers"),
    ("filter_labels_train.txt", ["0 0 1"], "filter_labels_train.txt:1: two whole numbers"), ("filter_labels_train.txt", ["0 " + "9" * 30], "filter_labels_train.txt:1: two whole numbers"),
    ("filter_labels_test.txt", ["1 0"], "filter_labels_test.txt:1: row 1, label 0 is not there, rows end at 0"), ("filter_labels_train.txt", ["0 3"], "labels at 2"),
    ("categories.tsv", ["A Kitchen"], "categories.tsv:1: a uid, a tab and a category are expected, found 'A Kitchen'"), ("categories.tsv", ["A\tKitchen", "A\tGarden"], "categories.tsv:2: the id 'A' stands twice"),
    ("lbl.json.gz", None, "there is no lbl.json.gz")])
def test_bad_lf(tmp_path, file, lines, words):
    with pytest.raises(DataError) as e: t.read_lf(lf(tmp_path, **{file: lines}))
    assert words in str(e.value)


def test_not_gzip_and_cut_short(tmp_path):
    lf(tmp_path); (tmp_path / "tst.json.gz").write_bytes(b'{"uid": "A"}\n')
    with pytest.raises(DataError, match="tst.json.gz: the file is damaged after line 0"): t.read_lf(tmp_path)
    whole = put(tmp_path / "long.json.gz", *[dict(uid=str(i), title=f"Title {i * i}") for i in range(5000)]).read_bytes()
    (tmp_path / "long.json.gz").write_bytes(whole[:len(whole) // 2])
    with pytest.raises(DataError, match=r"long.json.gz: the file is damaged after line [\d,]{3,5} "): t._json_lines(tmp_path / "long.json.gz", t._Entry)


@pytest.mark.parametrize("lines, words", [
    (["id = {A1}", "title = {x}", "year = {2001}", "", "id = {A1}"], "m.txt:5: the id 'A1' stands twice, first in line 1"), (["id = {A1}", "year = 2001"], "m.txt:2: neither"),
    (["id = {A1}", "pages = {3}"], "m.txt:2: neither"), (["id = {A1}", "year = {01}"], "m.txt:1: the paper A1 has no year"), (["id = {A1}", "title = {x}"], "m.txt:1: the paper A1 has no year"),
    (["title = {x}"], "m.txt:1: title of what"), ([], "m.txt: the file is empty")])
def test_bad_metadata(tmp_path, lines, words):
    with pytest.raises(DataError) as e: t.read_aan(put(tmp_path / "m.txt", *lines), put(tmp_path / "c.txt", "A1 , A2"))
    assert words in str(e.value)


def test_citations(tmp_path):
    meta = put(tmp_path / "m.txt", *[line for i, (y, x) in enumerate([(2005, "Zeta"), (1999, b"na\xefve"), (2001, "ZETA ")]) for line in
                                     (f"id = {{P0{i}-1}}", b"title = {" + (x if isinstance(x, bytes) else x.encode()) + b"}", f"year = {{{y}}}", "")])
    made = t.read_aan(meta, put(tmp_path / "c.txt", "P00-1 , P01-1", "P02-1 , P01-1", "P01-1 , P01-1", "X12-1 , P01-1"))
    assert made.queries == ["ZETA"] and made.years.tolist() == [2001] and made.items == ["naïve"], "the earlier of two papers with a title, cp1252 undone"
    assert made.counts["citations of itself"] == made.counts["citations of or by an unknown paper"] == made.counts["queries merged"] == 1
    for line in ("P00-1,P01-1", "P00-1 , P01-1 , P02-1", "", " , P01-1"):
        with pytest.raises(DataError, match="c.txt:2: `citing , cited`"): t.read_aan(meta, put(tmp_path / "c.txt", "P00-1 , P01-1", line))


@pytest.mark.parametrize("record, words", [(b"{'asin': '1'}", "music.jsonl.gz:2: Invalid JSON"), (dict(title="x"), "music.jsonl.gz:2: asin: Field required"),
                                           (dict(asin="0", title="x"), "music.jsonl.gz:2: the id '0' stands twice"), (dict(asin="1", related=["2"]), "music.jsonl.gz:2: related: Input should be an object"),
                                           (dict(asin="1", related={"also_bought": "2"}), "music.jsonl.gz:2: related.also_bought: Input should be a valid array")])
def test_bad_music(tmp_path, record, words):
    with pytest.raises(DataError) as e: t.read_music(put(tmp_path / "music.jsonl.gz", dict(asin="0", title="Tides"), record))
    assert words in str(e.value)


def test_genres():
    assert t._genre([["Movies", "Jazz"], ["CDs & Vinyl"], "CDs & Vinyl", ["CDs & Vinyl", "Pop", "Soft"], ["Digital Music", "Rock"]]) == "Pop" and t._genre([]) == ""


# ---- splits

@settings(max_examples=60, deadline=None)
@given(st.integers(2001, 2006), st.floats(.1, .9), st.floats(.05, 1), st.floats(.05, 1), st.integers(0, 5), st.booleans())
def test_splits_are_disjoint_nested_and_complete(until, test_share, a, b, seed, by_year):
    made, (a, b) = library(), sorted((a, b))
    how = dict(by="year", until=until) if by_year else dict(by="category", held_out=["kind 1", "kind 3"])
    small, large = (t.split_titles(made, **how, test_share=test_share, share=s, share_seed=seed) for s in (a, b))
    rows = large.rows
    assert not set(rows["train"]) & set(rows["iid"]) and not set(rows["ood"]) & {*rows["train"], *rows["iid"]}
    assert len(rows["train"]) + len(rows["iid"]) + len(rows["ood"]) + large.counts["queries not drawn"] == len(made.queries)
    assert set(small.rows["train"]) <= set(rows["train"]) and all((small.rows[p] == rows[p]).all() for p in ("iid", "ood")), "a share moves training alone"
    shifted = made.years > until if by_year else np.isin(made.categories, ["kind 1", "kind 3"])
    assert (np.flatnonzero(shifted) == rows["ood"]).all() and not shifted[rows["train"]].any()
    train = large.train
    assert train.relevance.getnnz(0).all() and train.relevance.getnnz(1).all() and len(train.rows()) == train.relevance.nnz
    times = dict(zip(train.items, train.relevance.getnnz(0).tolist()))
    for name, task in large.tests.items():
        assert [times.get(i, 0) for i in task.items] == task.frequency.tolist() and task.info["new items"] == (task.frequency == 0).sum()
        assert task.info["pairs that point to new items"] == sum(times.get(task.items[i], 0) == 0 for i in task.relevance.nonzero()[1])
        assert {(q, i) for q, i in zip(*((np.array(x, object)[n]) for x, n in zip((task.queries, task.items), task.relevance.nonzero())))} \
            == {(made.queries[q], made.items[i]) for q, i in zip(*made.relevance.nonzero()) if q in set(rows[name])}, "no relevant item is lost"
        assert all(task.items[o] == q if o >= 0 else q not in task.items for q, o in zip(task.queries, task.own))
        assert task.barred.toarray()[np.arange(len(task.own))[task.own >= 0], task.own[task.own >= 0]].all()
    assert len(large.tests["ood"].items) == len(made.items)
    if not by_year: assert large.tests["iid"].items == made.items


def test_candidates_of_the_training_years():
    made = library(); split = t.split_titles(made, until=2004)
    then = {made.items[i] for i in made.relevance[made.years <= 2004].nonzero()[1]}
    assert set(split.tests["iid"].items) == then and "Paper 39" not in then


@pytest.mark.parametrize("how, words", [
    (dict(), "until=None: the last year of training"), (dict(until=1999), "until=1999: the last year of training"), (dict(until=2007), "until=2007: the last year of training is expected, for library a year from 2000 to 2006"),
    (dict(until=2004, held_out=["kind 1"]), "held_out=['kind 1']: a split is by 'year', with `until`"), (dict(by="month", until=2004), "by='month'"),
    (dict(by="category"), "held_out=[] leaves no ood query"), (dict(by="category", held_out="kind 1"), "no category 'k'"), (dict(by="category", held_out=["kind 1"], until=2004), "by='category', until=2004"),
    (dict(by="category", held_out=["knd 1"]), "no category 'knd 1'; did you mean 'kind 1'?"), (dict(by="category", held_out=[f"kind {i}" for i in range(4)]), "leaves no training query"),
    (dict(until=2004, share=0), "share must be in (0, 1], got 0"), (dict(until=2004, share=1.01), "share must be"), (dict(until=2004, share=-.1), "share must be"),
    (dict(until=2004, share=float("nan")), "share must be"), (dict(until=2004, test_share=0), "test_share must be in (0, 1), got 0"),
    (dict(until=2004, test_share=1), "test_share must be"), (dict(until=2004, test_share=.001), "test_share=0.001 leaves no iid query"),
    (dict(until=2004, test_share=.999), "test_share=0.999 leaves no training query"), (dict(until=2004, test_share=None), "library has none")])
def test_wrong_splits(how, words):
    with pytest.raises(ValueError) as e: t.split_titles(library(), **how)
    assert words in str(e.value)


def test_without_years_or_categories():
    bare = library(years=None, categories=None)
    with pytest.raises(ValueError, match="library has no years"): t.split_titles(bare, until=2004)
    with pytest.raises(ValueError, match="library has no categories"): t.split_titles(bare, "category", held_out=["kind 1"])


def test_the_published_test_set():
    marks = np.arange(40) % 5 == 0
    made = library(published=marks); split = t.split_titles(made, until=2005, test_share=None)
    assert set(split.tests["iid"].queries) == {f"Paper {i}" for i in range(4, 30) if marks[i]}


def test_excluded_pairs_follow():
    made = library(excluded=[(i, 0) for i in range(5, 40)])
    split = t.split_titles(made, until=2005)
    for part in (split.train, *split.tests.values()): assert part.excluded.shape == part.relevance.shape and part.relevance.multiply(part.excluded).nnz == 0
    ood = split.tests["ood"]
    assert ood.barred[:, [ood.items.index("Paper 0")]].toarray().all() if "Paper 0" in ood.items else True


# ---- test sets made by hand

def task(**changed):
    given = dict(name="hand", queries=["a", "b"], items=["x", "b"], relevance=csr_matrix(np.array([[1, 1], [1, 0]], bool)), own=np.array([-1, 1]), categories=None, years=None, frequency=np.array([2, 0]))
    return t.TitleTask(**{**given, **changed})


@pytest.mark.parametrize("changed, words", [
    (dict(excluded=csr_matrix(np.array([[0, 0], [1, 0]], bool))), "query 1 ('b') has no candidates (1 of 2 queries)"), (dict(relevance=csr_matrix(np.array([[0, 0], [1, 0]], bool))), "query 0 ('a') has no relevant item"),
    (dict(relevance=csr_matrix((np.array([True, False, True]), ([0, 1, 0], [0, 0, 1])), shape=(2, 2))), "query 1 ('b') has no relevant item"), (dict(own=np.array([0, 1])), "query 0 ('a') has a relevant item that is no candidate"),
    (dict(categories=np.array(["k"])), "categories is (1,), expected (2,)"), (dict(frequency=np.array([1])), "frequency is (1,), expected (2,)"), (dict(relevance=csr_matrix(np.ones((2, 3), bool))), "relevance is (2, 3), expected (2, 2)")])
def test_tasks_that_cannot_be_scored(changed, words):
    with pytest.raises(ValueError) as e: task(**changed)
    assert words in str(e.value) and str(e.value).startswith("hand")


def test_info():
    made = task(info={"tick": 3})
    assert {k: v for k, v in made.info.items() if k != "fingerprint"} == {"tick": 3, "queries": 2, "items": 2, "pairs": 3, "new items": 1, "pairs that point to new items": 1}
    assert replace(made, own=np.array([-1, -1])).info["fingerprint"] != made.info["fingerprint"] == task(relevance=np.array([[1, 1], [1, 0]], bool)).info["fingerprint"]


# ---- growing test sets

@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(0, 3))
def test_ticks_grow(ticks, split_seed):
    split = t.split_titles(library(), until=2005, share_seed=split_seed)
    tasks = t.mix_ticks(split, ticks)
    iid, ood = split.tests["iid"], split.tests["ood"]
    assert len(tasks) == ticks + 1 and tasks[0].fingerprint == iid.fingerprint and set(tasks[-1].queries) == {*iid.queries, *ood.queries}
    full = dict(zip(ood.items, ood.frequency))
    for a, b in zip(tasks, tasks[1:]):
        assert b.queries[:len(a.queries)] == a.queries and set(a.items) <= set(b.items) and len(b.queries) > len(a.queries)
        brought = {b.items[i] for i in b.relevance[len(a.queries):].nonzero()[1]}
        assert set(b.items) == set(a.items) | brought, "no item comes without a query"
    for task in tasks:
        assert (np.diff(task.years[len(iid.queries):]) >= 0).all() and [full[i] for i in task.items] == task.frequency.tolist()
        assert all(task.items[o] == q if o >= 0 else q not in task.items for q, o in zip(task.queries, task.own))


@pytest.mark.parametrize("ticks", [0, -1, 1000])
def test_wrong_ticks(ticks):
    with pytest.raises(ValueError, match="ticks must be a number from 1 to 10, "):
        t.mix_ticks(t.split_titles(library(), until=2005), ticks)
    with pytest.raises(ValueError, match="ticks must be a number from 1 to 40, "):
        t.mix_catalogue(SMALL, ticks)


def test_only_years_tick():
    with pytest.raises(ValueError, match="the split is by category"): t.mix_ticks(t.split_titles(library(), "category", held_out=["kind 1"]), 2)
    with pytest.raises(ValueError, match="the split is by catalogue"): t.mix_ticks(t.catalogue_titles(SMALL), 2)


def test_joined_collections():
    early = library(20, years=np.full(20, 2013), categories=None); late = library(40, seed=1, years=np.full(40, 2014), categories=None)
    both = t.join_titles(early, late, "both")
    assert both.counts["queries of the later collection that the earlier one has"] == len(early.queries) and set(both.queries) == set(late.queries)
    old = {(both.queries[q], both.items[i]) for q, i in zip(*both.relevance[both.years == 2013].nonzero())}
    assert old == {(early.queries[q], early.items[i]) for q, i in zip(*early.relevance.nonzero())}, "training is what the earlier collection says, and nothing more"
    assert t.split_titles(both, until=2013).tests["ood"].queries == [q for q in late.queries if q not in early.queries]
    with pytest.raises(ValueError, match="not after"): t.join_titles(late, early, "backwards")
    with pytest.raises(ValueError, match="has no query that"): t.join_titles(late, library(20, years=np.full(20, 2015), categories=None), "nothing new")
    with pytest.raises(ValueError, match="library has no years"): t.join_titles(early, library(years=None), "timeless")


# ---- the planted catalogue

SMALL = Catalogue(WorldConfig(types=12, unseen_types=7, train_pairs=300, queries=40, items=120))


def test_catalogue_relevance_is_the_worlds():
    split, pairs = t.catalogue_titles(SMALL), SMALL.train_pairs()
    concepts = [x.concept for x in pairs.right]
    assert split.train.relevance.toarray().tolist() == [[a.concept == c for c in concepts] for a in pairs.left]
    for name, task in split.tests.items():
        part = SMALL.split(name)
        assert all(task.relevance[q].indices.tolist() == hits.tolist() for q, hits in enumerate(part.relevant)) and task.queries == part.texts()[0] and task.items == part.texts()[1]
        assert task.frequency.tolist() == [concepts.count(i.concept) for i in part.items] and (task.own == -1).all() and (task.accessory == part.accessory).all()
    unseen = split.tests["unseen"]
    types = {}
    for q, group in zip(SMALL.split("unseen").queries, unseen.categories): types.setdefault(q.type, set()).add(group)
    assert all(groups == {f"group {(kind - 12) % 5 + 1}"} for kind, groups in types.items())
    assert unseen.relevance.nnz == unseen.info["pairs that point to new items"] and [split.tests[s].categories is None for s in SPLITS] == [True, True, True, False]


def test_the_catalogue_grows():
    tasks, iid, new = t.mix_catalogue(SMALL, 4), SMALL.split("iid"), SMALL.split("uncoupled")
    assert tasks[0].fingerprint == t.catalogue_titles(SMALL).tests["iid"].fingerprint and [len(x.queries) for x in tasks] == [40, 50, 60, 70, 80]
    everything = [*iid.items, *new.items]
    assert sorted(tasks[-1].items) == sorted(i.text for i in everything) and tasks[-1].relevance.nnz == sum(a.concept == b.concept for a in [*iid.queries, *new.queries] for b in everything)
    for task in tasks:
        n, there = len(task.queries) - 40, set(task.items)
        assert all({new.items[i].text for i in hits} <= there for hits in new.relevant[:n]) and all(new.items[d].text in there for d in new.decoy[:n] if d >= 0)
    sizes = np.diff([len(x.items) for x in tasks])
    assert (sizes > 10).all(), "items come with every tick"
    assert [x.fingerprint for x in tasks] == [x.fingerprint for x in t.mix_catalogue(SMALL, 4)] and set(t.catalogue_titles(SMALL, 2).tests) == {*SPLITS, "tick 0", "tick 1", "tick 2"}


# ---- loading

@pytest.fixture
def places(tmp_path, monkeypatch):
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path / "given")); monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_loading_follows_the_files(places):
    folder = lf(places / "given/lf_amazontitles131k")
    first = t.load_titles("lf_amazontitles131k")
    assert t.load_titles("lf_amazontitles131k") is first and list(first.files) == [f"lf_amazontitles131k/{f}" for f in t.LF_FILES] and first.categories is None
    put(folder / "categories.tsv", "A\tKitchen")
    second = t.load_titles("lf_amazontitles131k")
    assert second.categories.tolist() == ["Kitchen", "", "", ""] and second.counts["queries without a category"] == 3
    with pytest.raises(ValueError, match="did you mean 'Kitchen'"): t.split_titles(second, "category", held_out=["kitchen"])
    put(folder / "tst.json.gz", dict(uid="D", title="Hoe", target_ind=[1]))
    assert t.load_titles("lf_amazontitles131k").queries[-1] == "Hoe"


def test_propensities_are_those_of_the_corpus():
    for name, ab in (("lf_amazontitles131k+lf_amazontitles1_3m", (.6, 2.6)), ("lf_amazontitles1_3m", (.6, 2.6)), ("library", (.55, 1.5))):
        made = library(); object.__setattr__(made, "name", name)
        assert t.split_titles(made, until=2004).tests["ood"].propensity == ab


def test_missing_files_say_so(places):
    for name in t.SOURCES:
        with pytest.raises(MissingData, match="is missing"): t.load_titles(name, download=False)
    with pytest.raises(MissingData, match=r"zlib.decompressobj\(31\)"): t.load_titles("music")
    with pytest.raises(ValueError, match="did you mean 'music'"): t.load_titles("musik")
    lf(places / "given/lf_amazontitles1_3m", **{"filter_labels_test.txt": None})
    with pytest.raises(MissingData, match="filter_labels_test.txt is missing"): t.load_titles("lf_amazontitles1_3m")
    lf(places / "cache/data/lf_amazontitles1_3m")
    with pytest.raises(DataError, match="the files must be in one folder"): t.load_titles("lf_amazontitles1_3m")


def test_changed_files_are_refused(places):
    put(places / "given/amazon2014_music_alsobought/amazon2014_music_meta.jsonl.gz", dict(asin="1", title="x"))
    with pytest.raises(ChangedData, match="amazon2014_music_meta.jsonl.gz: sha256"): t.load_titles("music")


def test_registered_files():
    datasets = load_registry().datasets
    assert all(source.dataset in datasets and {*source.files, *source.optional} <= {f.file for f in datasets[source.dataset].files} for source in t.SOURCES.values())
    assert all(f.url and f.sha256 and f.bytes for f in datasets["aan_citations"].files)
    music = datasets["amazon2014_music_alsobought"]
    assert music.by_hand and all(f.url is None and f.sha256 and f.bytes for f in music.files)
    for name in ("lf_amazontitles131k", "lf_amazontitles1_3m"): assert datasets[name].by_hand and all(f.url is None and f.sha256 is None for f in datasets[name].files)


# ---- facts of the published files

def load(name):
    try: return t.load_titles(name, download=False)
    except MissingData as e: pytest.skip(str(e).splitlines()[0])


@real
def test_aan():
    made = load("aan_citations"); c = made.counts
    assert (c["papers"], c["citations"], c["pairs read"], c["queries read"], c["items read"]) == (18041, 94973, 82898, 13849, 10301)
    assert (len(made.queries), len(made.items)) == (13793, 10255) and made.years.min() == 1967 and made.years.max() == 2011
    assert set(made.categories) == set("WPCNDEHJLIASMXT") and not any("&eacute;" in q for q in made.queries)
    split = t.split_titles(made, until=2008)
    assert abs(split.tests["ood"].info["queries"] - 3455) < 10 and split.counts["training queries"] + split.counts["iid queries"] + split.counts["ood queries"] == 13793
    assert .3 < split.tests["ood"].info["pairs that point to new items"] / split.tests["ood"].info["pairs"] < .36


@real
def test_music():
    made = load("music"); c = made.counts
    assert (c["albums"], c["albums with a title"], c["pairs read"], c["queries read"], c["items read"]) == (7419, 7321, 45040, 4912, 3502) and made.years is None and len(made.queries) == 4705
    records = t._json_lines(locate("amazon2014_music_alsobought", "amazon2014_music_meta.jsonl.gz", False), t._Album)
    titled = {r.uid: r for r in records if r.title}
    genres = [t._genre(r.categories) for r in titled.values() if any(b in titled for b in r.related.also_bought)]
    assert {g: genres.count(g) for g in ("Alternative Rock", "Pop", "Blues", "Jazz", "Children's Music")} == {"Alternative Rock": 1508, "Pop": 774, "Blues": 660, "Jazz": 425, "Children's Music": 2}
