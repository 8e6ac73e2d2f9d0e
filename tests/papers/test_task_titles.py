"Titles that an encoder is held on: of the kind of a test, and never tested."
import numpy as np
import pandas as pd
import pytest

from debias_nb.checks import ConfigError
from debias_nb.papers.data import titles as t
from debias_nb.runs.config import RunConfig
from debias_nb.papers.settings.titles import TitlesCorpus
from debias_nb.runs.settings import HingeTraining, PairMethod, TextsConfig
from debias_nb.runs.records import comparable
from debias_nb.runs.runner import execute
from debias_nb.papers.tasks import titles
from made import STATIC, WORLD

NEW = TextsConfig(corpora=["ood"])
YEARS = TitlesCorpus(name="aan_citations", task="titles", by="year", until=2003)
PLANTED_TITLES = TitlesCorpus(name="catalogue", task="titles", world=WORLD)


@pytest.fixture
def library(monkeypatch):
    "Forty papers, five a year, and four of no pair, of which one is early and one has the title of a tested paper."
    names = [f"Paper {n}" for n in range(40)]
    pairs = [(n, n - step) for n in range(4, 40) for step in (1, 2)]
    title_set = t.make_titles("library", names, names, pairs, {"year": 2000 + np.arange(40) // 5})
    texts = ["Early", "New one", "New two", "paper: 39"]
    title_set.unpaired = pd.DataFrame({"text": texts, "year": [2001, 2005, 2006, 2007]})
    monkeypatch.setattr(titles, "load_titles", lambda name, **options: title_set)
    for function in (titles.title_split, titles.unlabeled_titles, titles.changed_items):
        function.cache_clear()
    yield title_set
    for function in (titles.title_split, titles.unlabeled_titles, titles.changed_items):
        function.cache_clear()


def test_held_are_titles_of_later_years_that_nobody_is_tested_with(library):
    assert set(titles.unlabeled_titles(NEW, ("iid", "ood"), YEARS)) == {"New one", "New two"}


def test_a_run_on_titles_is_held_on_other_titles_and_says_so():
    training = HingeTraining(loss="hinge", margin=.3, hardest=5, learning_rate=2e-2, epochs=1, batch_size=64)
    settings = dict(
        paper="itvreg", experiment="x", profile="planted", encoder=STATIC, corpus=PLANTED_TITLES, training=training,
        evaluate=["unseen"], eval_world=WORLD)
    metrics = {}
    for texts in (None, {"corpora": ["unseen"]}):
        method = PairMethod(name="x", regularizer="outreg", weight=10, texts=texts)
        run = RunConfig(method=method, **settings)
        record = execute(run)
        assert record["status"] == "finished"
        metrics[texts is None] = record
    assert "held texts" not in metrics[True]["data"]
    assert metrics[False]["data"]["held texts"]["texts"] > 1
    np.random.seed(5) # of a stream that nothing of a run may read
    assert comparable(execute(run)) == comparable(metrics[False])
    assert metrics[True]["metrics"] != metrics[False]["metrics"]


def test_a_test_says_how_many_of_its_titles_training_has(library):
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


def test_items_change_and_queries_stay(library):
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
