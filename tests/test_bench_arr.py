"""The benches of authorship regularisation run, compare what is the same, and say so when it is not. No timing is asserted."""
import math
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch

import arr_epoch
from debias_nb.encoders import embed
from test_bench import quick
from test_bench_scan import positive

torch.set_num_threads(1)

SMALL = arr_epoch.Size(authors=10, epochs=1, rate=1e-2, batch=8)

@pytest.fixture(scope="module")
def some(): # encoder, teacher, data
    encoder, data = arr_epoch.material("table", SMALL.authors)
    return encoder, arr_epoch.taught(encoder, data, SMALL), data

# an epoch of ARR

def test_arr_epoch_bench():
    printed, record = quick("arr_epoch", "--encoder", "table")
    assert record["settings"] == dict(repeats=2) and list(record["encoders"]) == ["table"]
    result = record["encoders"]["table"]
    assert (result["texts"], result["batch"], result["epoch"], result["epochs"]) == (72, 8, 3, 2) and 100 < result["tokens"] < 150 and 0 <= result["difference"] <= arr_epoch.AGREE
    assert list(result["variants"]) == list(arr_epoch.NAMES) and ("has paid never" in printed) == (result["paid_after"] is None)
    positive(result["variants"], "step_ms", "once_ms", "to_cl", "to_arr")
    for name, v in result["variants"].items():
        assert name in printed and (v["topics"]["median"] > 0) == (name != arr_epoch.CL) and (v["teacher"]["median"] > 0) == (name == arr_epoch.ANEW)
        assert v["topics"]["q3"] + v["teacher"]["q3"] < 1 and (f"{v['once_ms']['median']:.4g}" in printed or name == arr_epoch.CL), "what is done once is printed"
    assert result["variants"][arr_epoch.CL]["to_cl"] == result["variants"][arr_epoch.ARR]["to_arr"] == dict(median=1., q1=1., q3=1.)


def test_both_ways_give_the_same_losses(some):
    encoder, teacher, data = some
    before = {k: v.clone() for m in (encoder, teacher) for k, v in m.state_dict().items()}
    assert arr_epoch.compared(*some, replace(SMALL, epochs=2)) <= arr_epoch.AGREE
    assert all(torch.equal(v, before[k]) for k, v in teacher.state_dict().items()) and not torch.equal(*(m[0].embedding.weight for m in (encoder, teacher))), "the teacher has learned, and learns no more"
    found = {v: arr_epoch.training_run(v, *some, SMALL)[0] for v in (arr_epoch.ARR, arr_epoch.ANEW)}
    vectors = [embed(loss.model, data.tokens) for loss in found.values()] # not weights: where a gradient is next to nothing, Adam makes much of rounding
    assert torch.allclose(*vectors, atol=1e-4) and not torch.allclose(vectors[0], embed(encoder, data.tokens), atol=1e-2), "both train the same student"


def test_students_that_are_compared_do_not_learn(some):
    assert torch.equal(arr_epoch.training_run(arr_epoch.ARR, *some, SMALL, rate=0.)[0].model[0].embedding.weight, some[0][0].embedding.weight)


def test_other_tables_are_noticed(some):
    encoder, teacher, data = some
    vectors, rows = arr_epoch.tables(teacher, data)
    for wrong in ((arr_epoch.tables(encoder, data)[0], rows), (vectors, rows[::-1])):
        with patch.object(arr_epoch, "tables", lambda *_, wrong=wrong: wrong), pytest.raises(RuntimeError, match="ARR, all anew: the loss of batch 0 is"): arr_epoch.compared(*some, SMALL)


def test_losses_that_differ_are_refused():
    losses = torch.tensor([3., 2., 1.])
    assert arr_epoch.agreement({arr_epoch.ARR: losses, arr_epoch.ANEW: losses + torch.tensor([0, 0, 5e-7])}) == pytest.approx(4.8e-7, rel=.1)
    for wrong in (1e-5, math.nan):
        with pytest.raises(RuntimeError, match="loss of batch 1 is"): arr_epoch.agreement({arr_epoch.ARR: losses, arr_epoch.ANEW: losses + torch.tensor([0, wrong, 0])})


def test_steps_are_counted(some):
    encoder, teacher, data = some
    assert arr_epoch.steps_of(data, SMALL) == 3 and arr_epoch.steps_of(data, replace(SMALL, batch=18, epochs=2)) == 2, "a last batch of one author is left out"
    with patch.object(arr_epoch, "steps_of", lambda *_: 4), pytest.raises(RuntimeError, match="CL: 3 steps instead of 4"): arr_epoch.training_run(arr_epoch.CL, *some, SMALL)


def test_when_tables_have_paid():
    def timed(once, step): return {"once_ms": {"median": once}, "step_ms": {"median": step}}
    paid = lambda with_tables, without: arr_epoch.paid_after({arr_epoch.ARR: timed(*with_tables), arr_epoch.ANEW: timed(*without)}, 10)
    assert paid((130., 5.), (30., 7.)) == 5. and paid((30., 5.), (130., 7.)) == 0. and paid((130., 7.), (30., 7.)) is None

# options

@pytest.mark.parametrize("bench, options, words", [(arr_epoch, ["--authors", "1"], "--authors must be at least 2"), (arr_epoch, ["--epochs", "0"], "--epochs must be at least 1"), (arr_epoch, ["--encoder", "x"], "invalid choice"),
                                                   (arr_epoch, ["--repeats", "0"], "--repeats must be at least 1"), (arr_epoch, ["--quick", "--write"], "worth writing")])
def test_options_that_make_no_sense(bench, options, words, capsys):
    with pytest.raises(SystemExit): bench.arguments(options)
    assert words in capsys.readouterr().err
