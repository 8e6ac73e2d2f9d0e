"What counts the trials."
import pytest

from harness import Tally, wait_until


def test_a_trial_without_the_error_that_it_waits_for_is_lost():
    found = []
    with pytest.raises(pytest.fail.Exception):
        with Tally(found).trial("disk full"), pytest.raises(OSError):
            pass
    assert found == [("fault", ("disk full", 1, 0, {}))]


def test_a_trial_that_is_left_out_is_none():
    found = []
    with pytest.raises(pytest.skip.Exception):
        with Tally(found).trial("disk full"):
            pytest.skip("nothing can be mounted here")
    assert found == []


def test_a_trial_is_survived_and_told_of():
    found = []
    with Tally(found).trial("Ctrl-C") as told:
        told["seed"] = 1
    assert found == [("fault", ("Ctrl-C", 1, 1, {"seed": 1}))]


def test_waiting_in_vain_fails():
    with pytest.raises(AssertionError, match="waited 0 seconds for nothing"):
        wait_until(lambda: False, "nothing", seconds=0)
