"Batches that are stopped in the middle of their trainings, and what the same command makes of what they left."
import os
import random
import signal
import time
from functools import partial

import pytest

from harness import (
    STEP, at_work, batch, children, cpu_seconds, events_of, lines_of, make_project, note_events, records_of,
    steps_of, wait_until, workers_of,
)

RUNS = 7        # of the project: an encoder that is not trained, and three methods with two seeds
DRAWS = 5       # of a moment; a batch that comes to its end before is begun anew


class Reference:
    "A batch that nobody stops: its records, and when it does what, by the number of its workers."
    def __init__(self, folder):
        self.cache = folder / "cache"
        batch_of(make_project(folder / "warm"), self.cache, 1).end() # makes the encoder
        self.records, self.steps = None, None
        self.times, self.first_step = {}, {}
        for workers in (1, 2):
            project = make_project(folder / f"whole{workers}")
            child = batch_of(project, self.cache, workers)
            assert child.end() == 0, child.text
            found, steps = records_of(project), steps_of(project)
            assert len(found) == RUNS and steps > 0
            if self.records is not None:
                assert (found, steps) == (self.records, self.steps), "as many workers as one likes"
            self.records, self.steps = found, steps
            events = events_of(project)
            self.times[workers] = sorted(when for _, when in events) # two workers note theirs in any order
            self.first_step[workers] = min(when for event, when in events if event == STEP)

    def moment(self, workers, rng, until): # how many events have come by then, and seconds since the last of them
        "A random moment between the first training step and the last record, or a share `until` of this span."
        times = self.times[workers]
        first = self.first_step[workers]
        moment = rng.uniform(first, first + until * (times[-1] - first))
        events = sum(when <= moment for when in times)
        return events, moment - times[events - 1]


def batch_of(project, cache, workers):
    return batch(project, cache, workers, before=lambda: note_events(project))


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return Reference(tmp_path_factory.mktemp("reference"))


def has_come(child, project, events: int) -> bool:
    "Whether a batch has done so much, or is at its end."
    return len(events_of(project)) >= events or not child.process.is_alive()


def begun(reference, folder, workers, rng, until: float = 1.): # until: share of the span that moments are drawn from
    """A batch at a random moment of its trainings: its project and its process. The moment is counted in what the
    batch does, and only from there in seconds: a machine that has other things to do does not miss it."""
    for draw in range(DRAWS):
        project = make_project(folder / f"draw{draw}")
        events, pause = reference.moment(workers, rng, until)
        child = batch_of(project, reference.cache, workers)
        wait_until(partial(has_come, child, project, events), "the moment", every=.001)
        time.sleep(pause)
        if child.process.is_alive() and len(lines_of(project)) < RUNS:
            return project, child
        child.end()
    raise AssertionError(f"{DRAWS} batches came to their end before the moment that was drawn")


def whole(lines) -> list[bytes]:
    return [line for line in lines if line.endswith(b"\n")]


def comes_to_its_end(reference, project, workers, before):
    "The same command once more: nothing is lost, every run has one record, with the metrics it should have."
    child = batch_of(project, reference.cache, workers)
    assert child.end() == 0 and "Traceback" not in child.text, child.text
    assert lines_of(project)[:len(before)] == before
    assert records_of(project) == reference.records


def hears_interrupts(pid: int) -> bool: # one that has ended does not
    try:
        with open(f"/proc/{pid}/status") as lines:
            blocked = next(line for line in lines if line.startswith("SigBlk"))
    except (FileNotFoundError, ProcessLookupError):
        return False
    return not int(blocked.split()[1], 16) & 1 << signal.SIGINT - 1


def workers_are_deaf(pid: int) -> bool:
    "Whether no worker hears an interrupt. A program that is being started is a fork for a moment, too, and does."
    return not any(map(hears_interrupts, workers_of(pid)))


def kill(pid): os.kill(pid, signal.SIGKILL)
def terminate(pid): os.kill(pid, signal.SIGTERM)
def interrupt(pid): os.killpg(pid, signal.SIGINT) # a terminal sends it to the workers, too


CODES = {kill: -signal.SIGKILL, terminate: -signal.SIGTERM, interrupt: 130}


def trial(tally, kind, reference, folder, workers, seed, stop):
    with tally.trial(kind):
        project, child = begun(reference, folder, workers, random.Random(seed))
        started = children(child.pid)
        assert workers == 1 or workers_of(child.pid), "workers that are not seen cannot be found at work"
        wait_until(partial(workers_are_deaf, child.pid), "workers that print nothing when interrupted", seconds=20)
        stop(child.pid)
        assert child.end() == CODES[stop], child.text
        if stop is interrupt:
            assert "interrupted; finished runs are kept" in child.text and "Traceback" not in child.text, child.text
        before = whole(lines_of(project))
        if seed % 2: # every second time the next command does not find workers that are still there
            wait_until(lambda: not any(map(at_work, started)), "workers to end")
        comes_to_its_end(reference, project, workers, before)
        wait_until(lambda: not any(map(at_work, started)), "workers to end")


STOPS = { # kind -> how a batch is stopped, workers, seeds
    "SIGKILL, one worker": (kill, (1,), range(20)),
    "SIGKILL, two workers": (kill, (2,), range(100, 120)),
    "SIGTERM": (terminate, (1, 2), range(200, 204)),
    "Ctrl-C": (interrupt, (1, 2), range(300, 304)),
}


@pytest.mark.parametrize("kind, seed", [(kind, seed) for kind, (*_, seeds) in STOPS.items() for seed in seeds])
def test_stopped(reference, tally, tmp_path, kind, seed):
    stop, workers, _ = STOPS[kind]
    trial(tally, kind, reference, tmp_path, workers[seed % len(workers)], seed, stop)


@pytest.mark.parametrize("seed", range(4))
def test_a_worker_is_killed(reference, tally, tmp_path, seed):
    with tally.trial("a worker killed"):
        project, child = begun(reference, tmp_path, 2, random.Random(400 + seed))
        worker = max(workers_of(child.pid), key=cpu_seconds)
        kill(worker)
        code = child.end()
        before = whole(lines_of(project))
        assert code == 2 and "Traceback" not in child.text and "the same command goes on" in child.text, child.text
        comes_to_its_end(reference, project, 2, before)


@pytest.mark.parametrize("seed", range(4))
def test_two_batches_at_once(reference, tally, tmp_path, seed):
    with tally.trial("two batches at once"):
        workers = 1 + seed // 2
        rng = random.Random(500 + seed)
        project, one = begun(reference, tmp_path, workers, rng, until=.5) # there is work left for two
        records = len(lines_of(project))
        other = batch_of(project, reference.cache, workers)
        killed = seed % 2 == 1
        if killed:
            wait_until(lambda: len(lines_of(project)) > records, "another record")
            kill(one.pid)
        assert other.end() == 0 and "Traceback" not in other.text, other.text
        assert one.end() == (-signal.SIGKILL if killed else 0), one.text
        assert records_of(project) == reference.records
        if not killed:
            assert steps_of(project) == reference.steps, "each run is made once"
