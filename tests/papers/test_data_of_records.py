"What committed records say of their data, fingerprints and counts, is what is read, cleaned and made up today."
import json
from contextlib import suppress
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from debias_nb.data.registry import MissingData
from debias_nb.runs.config import RunConfig
from debias_nb.runs.origin import NO_HISTORY, history
from debias_nb.runs.publish import unfounded
from debias_nb.data import pairs, sentences
from debias_nb.papers.data import labeled_pairs, products
from debias_nb.papers.tasks import answers, authors, titles

RESULTS = Path(__file__).parents[2] / "experiments"
PLACES = sorted(f"{path.parent.name}/{path.stem}" for path in RESULTS.glob("*/*.parquet"))
QUICK = {"itvreg/table02.small", "itvreg/table03.small", "scan/table02.small", "arr/table02.small"} # of real data
# Its clusters of topics hang on the last digits of cosines: the code that made the records makes others on another
# processor.
OTHER_CLUSTERS = "Reddit, aware"


def of_pairs(run):
    facts = {}
    for name in run.evaluate:
        with suppress(MissingData): # one that cannot be downloaded
            facts[f"test {name}"] = labeled_pairs.evaluation_pairs(name, run.corpus, run.eval_world).info
    if run.corpus:
        train = labeled_pairs.training_pairs(run.corpus)
        facts[f"train {train.name}"] = train.info
    return facts


def of_titles(run):
    tasks = [(name, *task) for name in run.evaluate for task in titles.title_tasks(name, run.data).items()]
    return {f"test {name}{suffix}": task.info for name, suffix, task in tasks}


def of_answers(run):
    facts = {f"test {name}": answers._data_facts(answers.evaluation_answers(name, run.data)) for name in run.evaluate}
    return facts | {f"train {run.data.name}": answers._data_facts(answers.training_answers(run.data))}


def of_authors(run):
    parts = {name: authors._data_facts(texts) for name, texts in authors.author_split(run.data).parts().items()}
    return {f"test {name}": parts[name] for name in run.evaluate} | {f"train {run.data.name}": parts["train"]}


# of files alone
READERS = ("load_questions", "load_products", "load_test", "load_offers", "load_news", "load_sentences")


@pytest.fixture
def read_once(monkeypatch):
    "What is read and cleaned for one record is there for the next, as the question that texts are compared by is."
    for name in READERS:
        monkeypatch.setattr(labeled_pairs, name, cache(getattr(labeled_pairs, name)))
    for module in (pairs, products, sentences):
        monkeypatch.setattr(module, "fold", cache(pairs.fold))


DATA = {"pairs": of_pairs, "titles": of_titles, "answers": of_answers, "authors": of_authors}


def first_of_each_corpus(place):
    "Configuration and data of the first finished record of each data set, in the first of its synthetic worlds."
    configs = {}
    for row in pq.read_table(RESULTS / f"{place}.parquet", columns=["config", "data"]).to_pylist():
        config = json.loads(row["config"])
        corpus = config.get("corpus") or config.get("eval_corpus")
        other_world = corpus and (corpus.get("world") or {}).get("seed")
        is_of_texts = "counts" not in config["evaluate"] and corpus and corpus.get("label") != OTHER_CLUSTERS
        if row["data"] and is_of_texts and not other_world:
            configs.setdefault((corpus["name"], corpus.get("label")), (row["config"], json.loads(row["data"])))
    return configs.values()


def once(places):
    "The fewest runs that can be made, with their data, which together have what the records of these places say."
    data_facts = {}
    for config, data in (pair for place in places for pair in first_of_each_corpus(place)):
        for name, facts in data.items():
            facts.pop("ranked", None) # what the loss makes of the pairs
            data_facts.setdefault((name, json.dumps(facts)), (config, data))
    runs = [(RunConfig.model_validate_json(config), data) for config, data in dict(data_facts.values()).items()]
    return [(run, data) for run, data in runs if not run.is_closed]


@pytest.mark.parametrize("places", [
    [place for place in PLACES if place.endswith(".planted") or place in QUICK],
    pytest.param([place for place in PLACES if not place.endswith(".planted") and place not in QUICK],
                 marks=[pytest.mark.slow, pytest.mark.nightly]),
], ids=["quick", "further"])
def test_the_data_of_committed_records_are_made_again(places, read_once):
    count = 0
    for run, record_data in once(places):
        try:
            data_now = json.loads(json.dumps(DATA[run.task](run), default=int))
        except MissingData:
            continue
        equal_facts = {name: data_now[name] for name in record_data if name in data_now}
        count += bool(equal_facts)
        assert equal_facts == {name: record_data[name] for name in equal_facts}, run.id
    if not count:
        pytest.skip("its data are not here")


def test_every_record_can_be_traced_to_a_commit_that_names_it():
    commits = history(RESULTS.parent)
    assert commits, NO_HISTORY
    assert unfounded(RESULTS.parent, commits) == []
