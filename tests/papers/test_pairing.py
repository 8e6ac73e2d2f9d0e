"Which runs are pairs: one place says it, and whoever pairs asks there."
from itertools import product

import numpy as np
import pytest

from cells import a_run
from debias_nb.settings import PretrainConfig
from debias_nb.papers.settings.authors import AuthorsCorpus
from debias_nb.papers.pages.cases import first_cases
from debias_nb.runs.pairing import Made, Run, Unpaired, depends_on_processor, mean_level, overlap_of, paired_sides
from debias_nb.runs.pairing import pairs_of

ORIGIN = Made("torch 2.13.0", "here")


def test_two_runs_at_one_place_are_an_error():
    with pytest.raises(ValueError, match="world 0 and seed 1"):
        pairs_of([[Run((0, 1), .5, None, ORIGIN, True)] * 2, [Run((0, 1), .4, None, ORIGIN, True)]])


def test_cases_of_all_methods_are_of_the_first_world():
    records = []
    for method, world in product(("Base", "Finetuned"), (5, 0)):
        cases = {"iid": [{"query": f"asked in world {world}"}]}
        records.append({"run": a_run(method, world=world, seed=0), "seed": 0, "extra": {"cases": cases}})
    records.insert(0, records.pop())
    ((query,),) = first_cases(records).values()
    assert {case["query"] for case in query.values()} == {"asked in world 0"}


@pytest.mark.parametrize("is_trained, encoder, depends", [
    (False, {}, False), (True, {}, True), (True, {"dtype": "fp64"}, False),
    (False, {"pretrain": PretrainConfig()}, True),
    (False, {"name": "learned"}, True),
])
def test_what_is_trained_here_depends_on_the_processor(is_trained, encoder, depends):
    run = a_run(is_trained=is_trained)
    run = run.model_copy(update={"encoder": run.encoder.model_copy(update=encoder)})
    assert depends_on_processor({"run": run}) == depends


SEEDS = [(None, 0), (None, 1), (None, 2)]
WORLDS = [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)]


def side(values, keys, origin=ORIGIN, clean=True, overlap=0.):
    "A side without resamples."
    return [Run(key, value, None, origin, clean, overlap) for key, value in zip(keys, values)]


TUNED = side([.5, .6, .7], SEEDS)


@pytest.mark.parametrize("side_b", [
    side([.4] * 3, SEEDS, Made("torch 2.13.0", "elsewhere")), side([.4], [(None, None)], Made("torch 2.12.0", None)),
    side([.4] * 3, SEEDS, clean=False), side([.4] * 2, [(None, 2), (None, 3)]),
], ids=["processor", "versions", "changes", "one seed in common"])
def test_sides_that_are_no_pairs(side_b):
    with pytest.raises(Unpaired):
        paired_sides([TUNED, side_b])


def test_what_a_difference_rests_on():
    assert paired_sides([TUNED, side([.4], [(None, None)])]).difference == pytest.approx(.2), "Base is one run"
    assert paired_sides([TUNED, side([.4], [(None, None)], Made("torch 2.13.0", None))]).n == 3, "and made anywhere"
    assert paired_sides([TUNED, side([.4] * 2, SEEDS[1:])]).n == 2, "common seeds alone"
    values = [.1, .2, .3, .5, .8]
    comparison = paired_sides([side(values, WORLDS), side([0] * 5, WORLDS)])
    assert (comparison.n, comparison.difference) == (3, pytest.approx(.5)), "a world counts once"
    assert mean_level(side(values, WORLDS)).n == 3
    splits = paired_sides([side(values, WORLDS, overlap=1.), side([0] * 5, WORLDS)])
    assert splits.error == pytest.approx(2 * comparison.error), "random splits share their texts"


@pytest.mark.parametrize("split, overlap", [
    ({"authors": .5, "topics": .5}, 1), ({"authors": .8, "topics": .6}, 2 / 3), ({"scheme": "paper"}, 0)])
def test_how_much_splits_overlap(split, overlap):
    data = AuthorsCorpus(name="reddit", task="authors", split={"scheme": "random", "authors": .5, "topics": .5} | split)
    for run in (a_run(corpus=data), a_run(is_trained=False, eval_corpus=data)):
        assert overlap_of({"run": run}) == pytest.approx(overlap)


def test_where_fewer_resamples_were_kept_those_that_both_have_are_compared():
    "A difference never loses its test items in silence: without them its interval would be far too narrow."
    rng = np.random.default_rng(0)
    items = rng.normal(scale=.1, size=200)

    def side(value, count):
        return [Run((None, seed), value + .001 * seed, value + items[:count] + rng.normal(size=count, scale=.01),
                    ORIGIN, True)
                for seed in range(3)]

    few = side(.5, 80)
    for many in (side(.4, 200), side(.4, 200)[:1] + side(.4, 80)[1:]):
        cut = [run._replace(resampled=run.resampled[:80]) for run in many]
        assert paired_sides([few, many]) == paired_sides([few, cut])
        assert paired_sides([few, many]).items_error > 0
    assert mean_level(many).low == mean_level(cut).low, "of runs with more and with fewer"
