"The bench at the papers' shapes runs at the size of a toy, and measures what it says. No timing is asserted."
import pytest

import common
import gpu
from debias_nb.repro.cost import Shape, forward_flop
from test_bench import quick


@pytest.fixture(scope="module")
def toy(): return quick("gpu")


def test_quick_run_prints_a_record(toy):
    printed, record = toy
    assert record["device"] == "cpu" and record["settings"]["sizes"] == "quick" and list(record["shapes"]) == list(gpu.PAPERS)
    for name, found in record["shapes"].items():
        assert name in printed and list(found["variants"]) == list(gpu.VARIANTS[name])
        for v in found["variants"].values():
            assert all(x > 0 for what in ("ms", "steps", "peak", "ratio") for x in v[what].values())
            assert 0 < v["shares"]["collating"] < 1 and 0 <= v["shares"]["moving"] < 1 and -.5 < v["shares"]["our losses"] < 1


@pytest.mark.parametrize("shape, variant, part", [("900 x 32", "ITVReg", "interventions"), ("140 x 128", "SCAN", "weights"), ("64 x 512", "ARR", "TF-IDF")])
def test_what_a_method_adds_on_the_host_is_seen(shape, variant, part, toy):
    shares = {name: v["shares"].get(part, 0) for name, v in toy[1]["shapes"][shape]["variants"].items()}
    assert shares[variant] > 0 and shares[variant] > 2 * shares["plain"]


def test_operations_of_a_step():
    size = gpu.PAPERS["900 x 32"]
    one = forward_flop(Shape(layers=6, width=768, inner=3072, heads=12, parameters=1), 32)
    assert gpu.step_flop("900 x 32", "plain", size) == 900 * 2 * 3 * one
    assert gpu.step_flop("900 x 32", "ITVReg", size) == 900 * 3 * 3 * one
    assert gpu.step_flop("140 x 128", "SCAN", gpu.PAPERS["140 x 128"]) == 140 * 3 * forward_flop(Shape(layers=12, width=768, inner=3072, heads=12, parameters=1), 128)


def test_parts_are_timed_once_and_a_frozen_encoder_before_the_first_step_is_not_ours():
    class Thing:
        def encode(self): return 1
        def loss(self): return self.encode() + self.encode()
    clock = common.Clock()
    with gpu.clocked(Thing, "encode", clock, "encoder", lambda: None), gpu.clocked(Thing, "loss", clock, "loss", lambda: None):
        Thing().encode()
        assert "encoder" not in clock.seconds
        assert Thing().loss() == 2
    assert 0 < clock.seconds["encoder"] < clock.seconds["loss"]
    assert Thing.encode.__name__ == "encode"


def test_a_kept_batch_is_made_once():
    class Collator:
        made = 0
        def __call__(self, features): Collator.made += 1; return {"rows": features}
    with gpu.kept_batch(Collator): assert [Collator()([i])["rows"] for i in range(3)] == [[0], [0], [0]]
    assert Collator.made == 1 and Collator()([7])["rows"] == [7]
