"What counts the trials."
import pytest

from harness import Tally, wait_until


@pytest.mark.parametrize("body, raised, counted", [
    (lambda: None, None, [1]), # waits for an error in vain
    (lambda: pytest.skip("nothing can be mounted here"), pytest.skip.Exception, []),
])
def test_a_trial_without_its_error_is_lost_and_one_that_is_left_out_is_none(body, raised, counted):
    found = []
    with pytest.raises(raised or pytest.fail.Exception):
        with Tally(found).trial("disk full"), pytest.raises(OSError):
            body()
    assert found == [("fault", ("disk full", 1, 0))] * len(counted)


def test_waiting_in_vain_fails():
    with pytest.raises(AssertionError, match="waited 0 seconds for nothing"):
        wait_until(lambda: False, "nothing", seconds=0)
