"Trials end, whatever they try: what hangs is ended within seconds, with all that it has started."
import os
import signal
import subprocess
import sys
import time

import pytest
from harness import AFTER_A_TEST, FORK, Child, at_work, children, said_by, start, wait_until

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]


def hang() -> None:
    "Wait for a process that does not end, and hear no signal that asks to."
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    FORK.Process(target=time.sleep, args=(600,)).start()
    print("it hangs here", flush=True)
    time.sleep(600)


@pytest.fixture
def hanging(tmp_path):
    "A child that hangs, and the processes that should end."
    child = Child(hang, said=tmp_path / "said.txt")
    wait_until(lambda: (tmp_path / "said.txt").exists() and "hangs" in child.text, "the hanging child", 20)
    return child, [child.pid, *children(child.pid)]


def test_the_end_of_a_child_that_hangs_comes_in_seconds(hanging):
    child, processes = hanging
    assert len(processes) == 2
    start = time.monotonic()
    with pytest.raises(AssertionError, match="it hung for 1 seconds:\nit hangs here"):
        child.end(1)
    wait_until(lambda: not any(map(at_work, processes)), "the hanging processes to end", 5)
    assert time.monotonic() - start < 10


def test_nobody_has_waited_for_a_child_that_hangs(hanging):
    "As after a failed assertion: pytest itself would wait for it at its end."
    child, processes = hanging
    AFTER_A_TEST.close()
    wait_until(lambda: not any(map(at_work, processes)), "the hanging processes to end", 5)
    assert child.end(1) == -signal.SIGKILL


def test_a_program_that_hangs():
    program = start(SLEEPS, stderr=subprocess.PIPE, text=True)
    with pytest.raises(AssertionError, match="it hung for 1 seconds"):
        said_by(program, 1)
    assert program.poll() == -signal.SIGKILL
    sleeper = start(SLEEPS)
    AFTER_A_TEST.close()
    assert sleeper.wait(5) == -signal.SIGKILL


def test_what_has_ended_by_itself_is_left_alone(tmp_path):
    child = Child(os.getpid, said=tmp_path / "said.txt")
    assert child.end() == 0
    child.kill()
    assert child.end(1) == 0
