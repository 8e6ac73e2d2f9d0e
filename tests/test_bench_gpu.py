"The bench at the papers' shapes runs at the size of a toy, and measures what it says. No timing is asserted."
import pytest

import common
import gpu
from test_bench import quick


@pytest.fixture(scope="module")
def toy():
    return quick("gpu")


def test_quick_run_prints_a_record(toy):
    printed, record = toy
    assert record["device"] == "cpu" and record["settings"]["sizes"] == "quick"
    assert list(record["shapes"]) == list(gpu.PAPERS)
    for name, found in record["shapes"].items():
        assert name in printed and list(found["variants"]) == list(gpu.VARIANTS[name])
        for figures in found["variants"].values():
            for figure in ("ms", "steps", "peak", "ratio"):
                assert all(value > 0 for value in figures[figure].values())
            shares = figures["shares"]
            assert 0 < shares["collating"] < 1 and 0 <= shares["moving"] < 1 and -.5 < shares["our losses"] < 1


@pytest.mark.parametrize("shape, variant, part", [
    ("900 x 32", "ITVReg", "interventions"),
    ("140 x 128", "SCAN", "weights"),
    ("64 x 512", "ARR", "TF-IDF"),
])
def test_what_a_method_adds_on_the_host_is_seen(shape, variant, part, toy):
    variants = toy[1]["shapes"][shape]["variants"]
    shares = {name: figures["shares"].get(part, 0) for name, figures in variants.items()}
    assert shares[variant] > 0 and shares[variant] > 2 * shares["plain"]


def test_operations_of_a_step():
    "Of the weights that each token is multiplied with, and of attention."
    distilbert = 2 * 42_467_328 * 32 + 4 * 6 * 768 * 32**2 # a text forwards
    pairs = gpu.PAPERS["900 x 32"]
    assert gpu.step_flop("900 x 32", "plain", pairs) == 900 * 2 * 3 * distilbert
    assert gpu.step_flop("900 x 32", "ITVReg", pairs) == 900 * 3 * 3 * distilbert


class Thing:
    "Something with parts that take time."

    def encode(self):
        return 1

    def loss(self):
        return self.encode() + self.encode()


def test_parts_are_timed_once_and_a_frozen_encoder_before_the_first_step_is_not_ours():
    clock = common.Clock()
    encoding = gpu.clocked(Thing, "encode", clock, "encoder", lambda: None)
    with encoding, gpu.clocked(Thing, "loss", clock, "loss", lambda: None):
        Thing().encode()
        assert "encoder" not in clock.seconds
        assert Thing().loss() == 2
    assert 0 < clock.seconds["encoder"] < clock.seconds["loss"]
    assert Thing.encode.__name__ == "encode"


class Collator:
    "A collator that counts the batches it made."
    made = 0

    def __call__(self, features):
        Collator.made += 1
        return {"rows": features}


def test_a_kept_batch_is_made_once():
    with gpu.kept_batch(Collator):
        assert [Collator()([row])["rows"] for row in range(3)] == [[0], [0], [0]]
    assert Collator.made == 1 and Collator()([7])["rows"] == [7]
