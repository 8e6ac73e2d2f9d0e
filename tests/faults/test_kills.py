"Batches that are stopped in the middle of their trainings, and what the same command makes of what they left."
import os
import random
import signal
import time

import pytest
from tqdm.auto import tqdm

from harness import (
    at_work, batch, children, events_of, files_of, make_project, note_events, records_of, steps_of, wait_until,
    workers_of,
)

RUNS = 7 # of the project: an encoder that is not trained, and three methods with two seeds


def batch_of(project, cache, workers):
    return batch(project, cache, workers, preparation=lambda: note_events(project))


class Reference:
    "A batch that nobody stops: its records, and how much it does."
    def __init__(self, folder):
        self.cache = folder / "cache"
        batch_of(make_project(folder / "warm"), self.cache, 1).end() # makes the encoder
        project = make_project(folder / "whole")
        child = batch_of(project, self.cache, 2)
        assert child.end() == 0, child.text
        self.records = records_of(project)
        self.steps = steps_of(project)
        self.events = len(events_of(project))
        assert len(self.records) == RUNS and self.steps > 0


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return Reference(tmp_path_factory.mktemp("reference"))


def begin(reference, folder, workers, seed, until: float = .9): # until: share of what a batch does
    "A batch in the middle of its trainings, counted in what it does: its project and its process."
    project = make_project(folder / "project")
    events = random.Random(seed).randrange(2, int(until * reference.events))
    child = batch_of(project, reference.cache, workers)
    wait_until(lambda: len(events_of(project)) >= events or not child.process.is_alive(), "the moment", every=.001)
    assert child.process.is_alive(), child.text
    return project, child


def comes_to_its_end(reference, project, workers, files):
    "The same command once more: nothing is lost, every run has one record, with the metrics it should have."
    child = batch_of(project, reference.cache, workers)
    assert child.end() == 0 and "Traceback" not in child.text, child.text
    assert files.items() <= files_of(project).items()
    assert records_of(project) == reference.records


def kill(pid): os.kill(pid, signal.SIGKILL)
def terminate(pid): os.kill(pid, signal.SIGTERM)
def interrupt(pid): os.killpg(pid, signal.SIGINT) # a terminal sends it to the workers, too


CODES = {kill: -signal.SIGKILL, terminate: -signal.SIGTERM, interrupt: 130}
STOPS = { # kind -> how a batch is stopped, workers of each trial
    "SIGKILL, one worker": (kill, (1, 1)),
    "SIGKILL, two workers": (kill, (2, 2)),
    "SIGTERM": (terminate, (1, 2)),
    "Ctrl-C": (interrupt, (1, 2)),
}


@pytest.mark.parametrize("kind, seed",
                         [(kind, seed) for kind, (_, workers) in STOPS.items() for seed in range(len(workers))])
def test_stopped(reference, tmp_path, kind, seed):
    stop, workers = STOPS[kind][0], STOPS[kind][1][seed]
    project, child = begin(reference, tmp_path, workers, seed)
    pids = children(child.pid)
    assert workers == 1 or workers_of(child.pid), "workers that are not seen cannot be found at work"
    stop(child.pid)
    assert child.end() == CODES[stop], child.text
    if stop is interrupt:
        assert "interrupted; finished runs are kept" in child.text and "Traceback" not in child.text, child.text
    files = files_of(project)
    if seed % 2: # every second time the next command does not find workers that are still there
        wait_until(lambda: not any(map(at_work, pids)), "workers to end")
        files = files_of(project)
    assert len(files) < RUNS
    comes_to_its_end(reference, project, workers, files)
    wait_until(lambda: not any(map(at_work, pids)), "workers to end")


def test_a_worker_is_killed(reference, tmp_path):
    project, child = begin(reference, tmp_path, 2, 400)
    kill(workers_of(child.pid)[0])
    code = child.end()
    files = files_of(project)
    assert code == 2 and "Traceback" not in child.text and "the same command goes on" in child.text, child.text
    comes_to_its_end(reference, project, 2, files)


def hold_the_lock_of_bars(project) -> None:
    "From now on each training step of this process and its workers keeps the lock of progress bars, and says so."
    from transformers import Trainer

    def keep(*_, **__):
        with tqdm.get_lock():
            (project / f"held-{os.getpid()}").touch()
            time.sleep(600)

    Trainer.training_step = keep


def test_a_worker_is_killed_that_holds_a_lock(reference, tmp_path):
    "The batch itself closes its bar, and does not wait for a lock that nobody gives back."
    project = make_project(tmp_path / "project")
    child = batch(project, reference.cache, 2, preparation=lambda: hold_the_lock_of_bars(project))
    wait_until(lambda: list(project.glob("held-*")), "a worker that has the lock")
    kill(int(next(project.glob("held-*")).name.removeprefix("held-")))
    assert child.end(20) == 2 and "the same command goes on" in child.text, child.text


@pytest.mark.parametrize("is_killed", [False, True])
def test_two_batches_at_once(reference, tmp_path, is_killed):
    project, first = begin(reference, tmp_path, 1, 500, until=.3) # there is work left for two
    records = len(files_of(project))
    second = batch_of(project, reference.cache, 1)
    if is_killed:
        wait_until(lambda: len(files_of(project)) > records, "another record")
        kill(first.pid)
    assert second.end() == 0 and "Traceback" not in second.text, second.text
    assert first.end() == (-signal.SIGKILL if is_killed else 0), first.text
    assert records_of(project) == reference.records
    if not is_killed:
        assert steps_of(project) == reference.steps, "each run is made once"
