"""The benches of authorship regularisation run, compare what is the same, and say so when it is not. No timing is
asserted."""
import math
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch

import arr_epoch
from debias_nb.encoders import embed
from test_bench import NO_SPREAD, only_encoder, quick
from test_bench_scan import positive

torch.set_num_threads(1)

SMALL = arr_epoch.Size(authors=10, epochs=1, rate=1e-2, batch=8)


@pytest.fixture(scope="module")
def some():
    "An encoder, its teacher, and data."
    encoder, data = arr_epoch.material("table", SMALL.authors)
    return encoder, arr_epoch.taught(encoder, data, SMALL), data


# an epoch of ARR

def test_arr_epoch_bench():
    printed, record = quick("arr_epoch", "--encoder", "table")
    assert record["settings"] == {"repeats": 2}
    result = only_encoder(record, "table")
    assert (result["texts"], result["batch"], result["epoch"], result["epochs"]) == (72, 8, 3, 2)
    assert 100 < result["tokens"] < 150 and 0 <= result["difference"] <= arr_epoch.AGREE
    assert ("has paid never" in printed) == (result["paid_after"] is None)

    variants = result["variants"]
    assert list(variants) == list(arr_epoch.NAMES)
    positive(variants, "step_ms", "once_ms", "to_cl", "to_arr")
    for name, figures in variants.items():
        assert name in printed
        assert (figures["topics"]["median"] > 0) == (name != arr_epoch.CL)
        assert (figures["teacher"]["median"] > 0) == (name == arr_epoch.ANEW)
        assert figures["topics"]["q3"] + figures["teacher"]["q3"] < 1
        if name != arr_epoch.CL:
            assert f"{figures['once_ms']['median']:.4g}" in printed, "what is done once is printed"
    assert variants[arr_epoch.CL]["to_cl"] == variants[arr_epoch.ARR]["to_arr"] == NO_SPREAD


def test_both_ways_give_the_same_losses(some):
    encoder, teacher, data = some
    before = {name: weights.clone() for name, weights in teacher.state_dict().items()}
    assert arr_epoch.compared(*some, replace(SMALL, epochs=2)) <= arr_epoch.AGREE
    assert not torch.equal(encoder[0].embedding.weight, teacher[0].embedding.weight), "the teacher has learned"
    for name, weights in teacher.state_dict().items():
        assert torch.equal(weights, before[name]), "and learns no more"

    # vectors and not weights: where a gradient is next to nothing, Adam makes much of rounding
    losses = [arr_epoch.training_run(variant, *some, SMALL)[0] for variant in (arr_epoch.ARR, arr_epoch.ANEW)]
    kept, anew = (embed(loss.model, data.tokens) for loss in losses)
    assert torch.allclose(kept, anew, atol=1e-4), "both train the same student"
    assert not torch.allclose(kept, embed(encoder, data.tokens), atol=1e-2)


def test_students_that_are_compared_do_not_learn(some):
    loss = arr_epoch.training_run(arr_epoch.ARR, *some, SMALL, rate=0.)[0]
    assert torch.equal(loss.model[0].embedding.weight, some[0][0].embedding.weight)


def test_other_tables_are_noticed(some):
    encoder, teacher, data = some
    vectors, rows = arr_epoch.tables(teacher, data)
    untaught = arr_epoch.tables(encoder, data)[0], rows
    other_way_round = vectors, rows[::-1]
    for wrong in (untaught, other_way_round):
        with patch.object(arr_epoch, "tables", lambda *_, wrong=wrong: wrong):
            with pytest.raises(RuntimeError, match="ARR, all anew: the loss of batch 0 is"):
                arr_epoch.compared(*some, SMALL)


def test_losses_that_differ_are_refused():
    losses = torch.tensor([3., 2., 1.])

    def difference(*errors):
        return arr_epoch.agreement({arr_epoch.ARR: losses, arr_epoch.ANEW: losses + torch.tensor(errors)})

    assert difference(0, 0, 5e-7) == pytest.approx(4.8e-7, rel=.1)
    for wrong in (1e-5, math.nan):
        with pytest.raises(RuntimeError, match="loss of batch 1 is"):
            difference(0, wrong, 0)


def test_steps_are_counted(some):
    data = some[2]
    assert arr_epoch.steps_of(data, SMALL) == 3
    assert arr_epoch.steps_of(data, replace(SMALL, batch=18, epochs=2)) == 2, "a last batch of one author is left out"
    with patch.object(arr_epoch, "steps_of", lambda *_: 4):
        with pytest.raises(RuntimeError, match="CL: 3 steps instead of 4"):
            arr_epoch.training_run(arr_epoch.CL, *some, SMALL)


def timed(once, step):
    return {"once_ms": {"median": once}, "step_ms": {"median": step}}


def test_when_tables_have_paid():
    def paid(with_tables, without):
        return arr_epoch.paid_after({arr_epoch.ARR: timed(*with_tables), arr_epoch.ANEW: timed(*without)}, 10)

    assert paid((130., 5.), (30., 7.)) == 5.
    assert paid((30., 5.), (130., 7.)) == 0.
    assert paid((130., 7.), (30., 7.)) is None


# options

@pytest.mark.parametrize("options, words", [
    (["--authors", "1"], "--authors must be at least 2"),
    (["--epochs", "0"], "--epochs must be at least 1"),
    (["--encoder", "x"], "invalid choice"),
    (["--repeats", "0"], "--repeats must be at least 1"),
    (["--quick", "--write"], "worth writing"),
])
def test_options_that_make_no_sense_are_refused(options, words, capsys):
    with pytest.raises(SystemExit):
        arr_epoch.arguments(options)
    assert words in capsys.readouterr().err
