"Which runs are pairs: one place says it, and whoever pairs asks there."
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from debias_nb.measures.metrics import randomization_test
from debias_nb.repro.pages.details import first_cases, question_tests
from debias_nb.repro.pages.pairing import Made, Run, depends_on_processor, pairs_of

MADE = Made("torch 2.13.0", "here")


def record(method, world, seed, values, cpu="here", **extra):
    "What a planted run says of single questions."
    corpus = {"name": "planted", "label": None, "world": {"seed": world}}
    encoder = {"name": "alignment", "label": None}
    config = {"corpus": corpus, "encoder": encoder, "training": {"epochs": 1}, "method": {"name": method}}
    said = {"questions": {"iid": list(values)}} | extra
    return {"config": config, "seed": seed, "environment": {"cpu": cpu}, "extra": said}


def rows_of(records):
    "The rows of the page, by method."
    experiment = SimpleNamespace(tables=[SimpleNamespace(against={})])
    rows = question_tests(SimpleNamespace(experiment=experiment, records=records, own=False))
    return rows.set_index("method")


def values_of(method, world, seed):
    "A value a question, of another size in every world."
    drawn = np.random.default_rng([world, seed, len(method)])
    return drawn.random(40) + 10 * world + .2 * (method == "SCAN")


@pytest.mark.parametrize("last", [0, 29], ids=["world 0 last", "world 29 last"])
def test_questions_are_compared_within_one_world(last):
    "Every world has questions of its own; a method's worlds may be recorded in any order."
    places = {"Finetuned": [(0, 0), (0, 1), (29, 0), (89, 0)], "SCAN": [(0, 0), (0, 1), (89, 0), (29, 0)]}
    records = [record(method, *place, values_of(method, *place)) for method, own in places.items() for place in own]
    records.sort(key=lambda one: one["config"]["corpus"]["world"]["seed"] == last)
    a, b = (np.mean([values_of(method, 0, seed) for seed in (0, 1)], axis=0) for method in ("SCAN", "Finetuned"))
    row = rows_of(records).loc["SCAN, minus Finetuned"]
    assert row.seeds == 2
    assert float(row.difference.replace("−", "-")) == pytest.approx((a - b).mean(), abs=6e-4)
    assert row.p == round(randomization_test(a, b), 4)


def test_questions_of_unlike_processors_are_no_pairs():
    records = [record("Finetuned", 0, seed, values_of("Finetuned", 0, seed)) for seed in (0, 1)]
    records += [record("SCAN", 0, seed, values_of("SCAN", 0, seed), cpu) for seed, cpu in enumerate(("here", "there"))]
    assert rows_of(records).seeds.tolist() == [1]


def test_two_runs_at_one_place_are_an_error():
    with pytest.raises(ValueError, match="world 0 and seed 1"):
        pairs_of([[Run((0, 1), .5, None, MADE, True)] * 2, [Run((0, 1), .4, None, MADE, True)]])
    records = [record(method, 0, 1, values_of(method, 0, 1)) for method in ("SCAN", "Finetuned")]
    with pytest.raises(ValueError, match="world 0 and seed 1"):
        rows_of(records + records[:1])


def test_cases_of_all_methods_are_of_the_first_world():
    records = []
    for method, world in product(("Base", "Finetuned"), (5, 0)):
        cases = {"iid": [{"query": f"asked in world {world}"}]}
        records.append(record(method, world, 0, [], cases=cases))
    records.insert(0, records.pop())
    (methods,) = first_cases(records).values()
    assert {cases[0]["query"] for cases in methods.values()} == {"asked in world 0"}


@pytest.mark.parametrize("config, depends", [
    ({"training": None, "encoder": {"name": "minilm"}}, False),
    ({"training": {"epochs": 1}, "encoder": {"name": "minilm"}}, True),
    ({"training": None, "encoder": {"name": "tiny", "pretrain": {"steps": 200}}}, True),
    ({"training": None, "encoder": {"name": "learned"}}, True),
    ({"training": None}, False),
])
def test_what_is_trained_here_depends_on_the_processor(config, depends):
    assert depends_on_processor({"config": config}) == depends
