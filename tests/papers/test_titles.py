"""Reading, merging and splitting titles, and runs on them: bad input, properties on random data, damaged files.

Its notebook has the published files."""
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.sparse import csr_matrix

from debias_nb.checks import ConfigError
from debias_nb.data.registry import DataError
from debias_nb.papers.data import title_splits as s, titles as t
from debias_nb.papers.settings.titles import TitlesCorpus
from debias_nb.papers.tasks import titles
from debias_nb.runs.config import RunConfig
from debias_nb.runs.records import comparable
from debias_nb.runs.runner import execute
from debias_nb.runs.settings import HingeTraining, PairMethod, TextsConfig
from made import STATIC, WORLD, write


def library(n=40, seed=0, **changes):
    "`n` papers of which each cites three earlier ones; five papers a year, four categories."
    rng = np.random.default_rng(seed)
    names = [f"Paper {i}" for i in range(n)]
    pairs = [(i, j) for i in range(4, n) for j in rng.choice(i, 3, replace=False)]
    facts = {"year": 2000 + np.arange(n) // 5, "category": [f"kind {i % 4}" for i in range(n)]}
    return t.make_titles("library", names, names, pairs, facts | changes)


def pairs_of(titles, matrix):
    "The titles that a matrix of queries and items pairs."
    return {(titles.queries[q], titles.items[i]) for q, i in zip(*matrix.nonzero())}


# ---- readers

RECORDS = [
    {"uid": "A", "title": "Blue cup", "target_ind": [0, 1]},
    {"uid": "B", "title": "Saucer", "target_ind": [0]},
    {"uid": "C", "title": "Rake", "target_ind": [2]},
]
LABELS = [{"uid": "A", "title": "Blue cup"}, {"uid": "B", "title": "Saucer"}, {"uid": "E", "title": "Spade"}]
LF_FILES = {
    "trn.json.gz": RECORDS,
    "tst.json.gz": [{"uid": "D", "title": "Garden rake", "target_ind": [2]}],
    "lbl.json.gz": LABELS,
    "filter_labels_train.txt": ["0 0"],
    "filter_labels_test.txt": [],
}


@pytest.mark.parametrize("file, lines, words", [
    ("trn.json.gz", [RECORDS[0], b'{"uid": "B", "title"'], "trn.json.gz:2: "),
    ("trn.json.gz", [{"uid": "A", "title": "x"}], "trn.json.gz:1: target_ind"),
    ("trn.json.gz", [RECORDS[0], RECORDS[0]], "trn.json.gz:2: the id 'A'"),
    ("tst.json.gz", [{"uid": "A", "title": "x", "target_ind": [-1]}], "tst.json.gz:1: target_ind must lie in"),
    ("filter_labels_train.txt", ["0 0", "1 x"], "filter_labels_train.txt:2: "),
    ("filter_labels_train.txt", ["0 3"], "filter_labels_train.txt:1: label must lie in [0, 3), got 3"),
    ("categories.tsv", ["A\tKitchen", "A\tx\ty"], "categories.tsv:2: "),
])
def test_damaged_lf_files_are_named_with_their_line(tmp_path, file, lines, words):
    files = [write(tmp_path / name, content) for name, content in (LF_FILES | {file: lines}).items()]
    with pytest.raises(DataError, match=re.escape(words)):
        t.read_lf(*files, name="x")


def test_files_that_are_cut_short_are_damaged(tmp_path):
    entries = [{"uid": str(i), "title": f"Title {i * i}"} for i in range(5000)]
    long = write(tmp_path / "tst.json.gz", entries)
    long.write_bytes(long.read_bytes()[:-1000])
    with pytest.raises(DataError, match=r"tst.json.gz: the file is damaged after line [\d,]{3,5} "):
        list(t.text_lines(long))


THREE_PAPERS = [
    "id = {P00-1}", "title = {Zeta}", "year = {2005}", "",
    "id = {P01-1}", b"title = {na\xefve}", "year = {1999}", "",
    "id = {P02-1}", "title = {ZETA }", "year = {2001}", "",
]


def test_the_earlier_of_two_papers_with_a_title_is_kept_and_cp1252_undone(tmp_path):
    papers = write(tmp_path / "m.txt", THREE_PAPERS)
    citations = write(tmp_path / "c.txt", ["P00-1 , P01-1", "P02-1 , P01-1", "P01-1 , P01-1", "X12-1 , P01-1"])
    titles = t.read_aan(papers, citations)
    assert titles.queries == ["ZETA"] and titles.facts.year.tolist() == [2001] and titles.items == ["naïve"]
    assert titles.counts["queries merged"] == 1
    write(tmp_path / "c.txt", ["X1 , P00-1"])
    with pytest.raises(DataError, match="aan_citations"):
        t.read_aan(papers, tmp_path / "c.txt")


def test_titles_of_no_pair_are_kept_apart_and_follow_the_split(tmp_path):
    papers = write(tmp_path / "m.txt", [*THREE_PAPERS, "id = {E09-1}", "title = {Alone}", "year = {2009}", ""])
    titles = t.read_aan(papers, write(tmp_path / "c.txt", ["P00-1 , P01-1", "P02-1 , P01-1", "E09-2 , P01-1"]))
    assert titles.unpaired.to_dict("records") == [{"text": "Alone", "year": 2009, "category": "E"}]

    shelf = library()
    assert s.split_titles(shelf, until=2004).unpaired == [] # of a collection that says nothing of them
    shelf.unpaired = pd.DataFrame({"text": ["early", "late"], "year": [2004, 2005], "category": ["kind 1", "kind 2"]})
    assert s.split_titles(shelf, until=2004).unpaired == ["late"]
    assert s.split_titles(shelf, "category", held_out=["kind 1"]).unpaired == ["early"]


# ---- splits

HELD_OUT = ["kind 1", "kind 3"]


def check_rows(split, titles, is_shifted):
    "The parts share no query, lose none, and the shifted queries are the ood ones."
    train, iid, ood = (set(split.rows[part]) for part in ("train", "iid", "ood"))
    assert not train & iid and not ood & (train | iid)
    parts = [len(split.rows[part]) for part in ("train", "iid", "ood")]
    assert sum(parts) + split.counts["queries not drawn"] == len(titles.queries)
    assert (np.flatnonzero(is_shifted) == split.rows["ood"]).all() and not is_shifted[split.rows["train"]].any()


def check_test(task, titles, queries, times):
    "A test set agrees with the titles it was split from, and with how often training saw each item."
    assert [times.get(item, 0) for item in task.items] == task.frequency.tolist()
    of_these = {(query, item) for query, item in pairs_of(titles, titles.relevance) if query in queries}
    assert pairs_of(task, task.relevance) == of_these, "no relevant item is lost"
    own = {(query, query) for query in set(task.queries) & set(task.items)}
    assert pairs_of(task, task.barred) == own, "a query is no candidate of itself"


@settings(max_examples=60)
@given(st.integers(2001, 2006), st.floats(.05, 1), st.floats(.05, 1), st.booleans())
def test_splits_are_disjoint_nested_and_complete(until, one_share, other_share, by_year):
    titles = library()
    options = {"by": "year", "until": until} if by_year else {"by": "category", "held_out": HELD_OUT}
    is_shifted = titles.facts.year > until if by_year else titles.facts.category.isin(HELD_OUT)
    small, large = (s.split_titles(titles, **options, share=share) for share in sorted((one_share, other_share)))

    check_rows(large, titles, is_shifted)
    assert set(small.rows["train"]) <= set(large.rows["train"])
    for part in ("iid", "ood"):
        assert (small.rows[part] == large.rows[part]).all(), "a share moves training alone"

    assert large.train.relevance.getnnz(0).all() and large.train.relevance.getnnz(1).all()
    times = dict(zip(large.train.items, large.train.relevance.getnnz(0).tolist()))
    for name, task in large.tests.items():
        check_test(task, titles, {titles.queries[row] for row in large.rows[name]}, times)
    assert len(large.tests["ood"].items) == len(titles.items)
    if not by_year:
        assert large.tests["iid"].items == titles.items


@pytest.mark.parametrize("options, words", [
    ({}, "until"),
    ({"until": 2007}, "no ood query"),
    ({"by": "month", "until": 2004}, "month"),
    ({"by": "category", "held_out": ["knd 1"]}, "did you mean 'kind 1'"),
    ({"until": 1999}, "no training query"),
])
def test_wrong_splits_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        s.split_titles(library(), **options)
    with pytest.raises(ValueError, match="no split of library 'year'"):
        s.split_titles(t.make_titles("library", ["a"], ["b"], [(0, 0)]), until=2004)


def test_the_published_test_set_is_the_iid_one():
    marks = np.arange(40) % 5 == 0
    split = s.split_titles(library(published=marks), until=2005)
    assert set(split.tests["iid"].queries) == {f"Paper {i}" for i in range(4, 30) if marks[i]}
    is_early = (split.titles.facts.year <= 2005).to_numpy()
    until_2005 = {split.titles.items[i] for i in split.titles.relevance[is_early].nonzero()[1]}
    assert (set(split.tests["iid"].items) == until_2005
            and "Paper 39" not in until_2005), "candidates are those of the training years"


# ---- test sets made by hand

def matrix(*rows):
    return csr_matrix(np.array(rows, bool))


def task(**changes):
    arguments = {
        "name": "hand", "queries": ["a", "b"], "items": ["x", "b"], "relevance": matrix([1, 1], [1, 0]),
        "itself": np.array([-1, 1]), "categories": None, "frequency": np.array([2, 0])}
    return t.TitleTask(**(arguments | changes))


WITH_A_STORED_FALSE = csr_matrix((np.array([True, False, True]), ([0, 1, 0], [0, 0, 1])), shape=(2, 2))


@pytest.mark.parametrize("changes, query", [
    ({"excluded": matrix([0, 0], [1, 0])}, "query 1"),
    ({"relevance": matrix([0, 0], [1, 0])}, "query 0"),
    ({"relevance": WITH_A_STORED_FALSE}, "query 1"),
    ({"itself": np.array([0, 1])}, "query 0"),
])
def test_tasks_that_cannot_be_scored_are_refused(changes, query):
    with pytest.raises(ValueError, match=f"hand: {query}"):
        task(**changes)


# ---- runs

YEARS = TitlesCorpus(name="aan_citations", task="titles", by="year", until=2003)


@pytest.fixture
def shelf(monkeypatch, nothing_kept):
    "The library in the place of a corpus, and titles of no pair: one is early, one is that of a tested paper."
    shelf = library()
    shelf.unpaired = pd.DataFrame(
        {"text": ["Early", "New one", "New two", "paper: 39"], "year": [2001, 2005, 2006, 2007]})
    monkeypatch.setattr(titles, "load_titles", lambda name, **options: shelf)


def test_held_are_titles_of_later_years_that_nobody_is_tested_with(shelf):
    config = TextsConfig(corpora=["ood"])
    assert set(titles.unlabeled_titles(config, ("iid", "ood"), YEARS)) == {"New one", "New two"}


def test_a_run_on_titles_is_held_on_other_titles_and_says_so():
    settings = dict(
        paper="itvreg", experiment="x", profile="planted", encoder=STATIC, evaluate=["unseen"], eval_world=WORLD,
        corpus=TitlesCorpus(name="catalogue", task="titles", world=WORLD),
        training=HingeTraining(loss="hinge", margin=.3, hardest=5, learning_rate=2e-2, epochs=1, batch_size=64))
    runs = [RunConfig(method=PairMethod(name="x", regularizer="outreg", weight=10, texts=texts), **settings)
            for texts in (None, {"corpora": ["unseen"]})]
    plain, held = map(execute, runs)
    assert "held texts" not in plain["data"] and held["data"]["held texts"]["texts"] > 1
    assert plain["metrics"] != held["metrics"]
    np.random.seed(5) # of a stream that nothing of a run may read
    assert comparable(execute(runs[1])) == comparable(held)


def test_a_test_says_how_many_of_its_titles_training_has(shelf):
    run = RunConfig(
        paper="itvreg", experiment="x", profile="small", encoder=STATIC, eval_corpus=YEARS, evaluate=["iid", "ood"],
        method=PairMethod(name="Base", trained=False), measure=["known texts"])
    metrics = execute(run)["metrics"]
    split = titles.title_split(YEARS)
    training_titles = {text for side in titles.relevant_pairs(split.train) for text in side}
    for name in run.evaluate:
        counts = [(query in training_titles) + (item in training_titles)
                  for query, item in zip(*titles.relevant_pairs(split.tests[name]))]
        shares = [metrics[name][part] for part in ("no known text", "one known text", "two known texts")]
        assert shares == [counts.count(count) / len(counts) for count in range(3)]
    assert metrics["iid"]["two known texts"] > metrics["ood"]["two known texts"]


def test_items_change_and_queries_stay(shelf):
    tests = titles.title_tasks("items", YEARS)
    iid = titles.title_split(YEARS).tests["iid"]
    original, joint, other_items = (tests[f"[{change}]"] for change in ("before", "joined", "replaced"))
    for task in tests.values():
        assert task.queries == iid.queries
        assert sorted(zip(*titles.relevant_pairs(task))) == sorted(zip(*titles.relevant_pairs(iid)))
    assert {*original.items} <= {*iid.items} and {*joint.items} == {*original.items, *other_items.items}
    assert len(original.items) == len(other_items.items) and {*other_items.items} - {*iid.items}
    assert not {*other_items.items} & ({*original.items}
                                       - {*titles.relevant_pairs(iid)[1]}), "no old item but what is relevant"
    with pytest.raises(ConfigError, match="no evaluation set 'item'.*'items'"):
        titles.title_tasks("item", YEARS)
