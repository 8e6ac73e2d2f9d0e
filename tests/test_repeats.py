"What trains nothing is computed again: a number that is apart is found and named."

import pytest

import repeats
from debias_nb.repro.pages.pairing import depends_on_processor
from debias_nb.repro.runs.records import processor


def record(auc, cpu="elsewhere"):
    return {"metrics": {"quora": {"auc": auc}}, "environment": {"cpu": cpu}, "config": {"paper": "itvreg", "training": None}}


@pytest.mark.parametrize("here, wrong", [(.5, 0), (.5 + 4e-7, 0), (.50001, 1), (float("nan"), 1), (None, 1)])
def test_what_is_apart_is_found(here, wrong):
    found = repeats.compared({"a": record(.5)}, {"a": record(here)})
    assert len(found) == 1
    assert found.apart.sum() == wrong


def test_the_page_says_what_was_compared_and_names_what_is_apart():
    committed = {"a": record(.5), "b": record(.6, processor()), "c": record(.7)}
    here = {"a": record(.5), "b": record(.61, processor())}
    found = repeats.compared(committed, here)
    text = repeats.page(committed, here, found)
    assert "| itvreg | 2 | 1 | 2 | 1 | 0.01 | 1 |" in text
    assert "| b | quora | auc | 0.6 | 0.61 |" in text
    assert "1 runs could not be computed" in text


@pytest.mark.parametrize("config, depends", [
    ({"training": None, "encoder": {"name": "minilm"}}, False),
    ({"training": {"epochs": 1}, "encoder": {"name": "minilm"}}, True),
    ({"training": None, "encoder": {"name": "tiny", "pretrain": {"steps": 200}}}, True),
    ({"training": None, "encoder": {"name": "learned"}}, True),
    ({"training": None}, False),
])
def test_what_is_trained_here_depends_on_the_processor(config, depends):
    assert depends_on_processor({"config": config}) == depends
