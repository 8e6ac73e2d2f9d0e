"Texts that several processes encode: the vectors are the same, errors say what to do, and no process stays."
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments

import made
from debias_nb import processes
from debias_nb import EncoderError, diagnose
from debias_nb.checks import ConfigError
from debias_nb.diagnosis import models as scoring
from debias_nb.diagnosis.models import load_model, pair_scores, search_corpus
from debias_nb.diagnosis.pool import encoding_on
from debias_nb.runs.runner import cores
from debias_nb.trainer import training_arguments

TWO = ["cpu", "cpu"]


class Fragile(torch.nn.Module):
    "Last part of a model, which some texts are too much for."
    def forward(self, features):
        if len(features["sentence_embedding"]) == 3:
            raise MemoryError("three texts are too many")
        return features


@pytest.mark.parametrize("devices", [["gpu"], ["cuda:9"], ["cpu", ""], "cpu"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_read(devices):
    with pytest.raises(ConfigError, match="device"):
        diagnose("./nowhere", "./nowhere", tests={"new": "nowhere.csv"}, devices=devices)
    with pytest.raises(ConfigError, match="devices: these need both models"):
        diagnose(tests={"new": "nowhere.csv"}, devices=["cpu"])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoders")
    return {"base": made.bert(folder / "base"), "tuned": made.bert(folder / "tuned", seed=1), "table": made.table(folder / "table")}


class Corpus:
    "Queries and texts."
    corpus = [f"{one} {other}" for one in made.WORDS for other in made.WORDS[:3]]
    frame = made.some_pairs(12).assign(query=range(12), document=range(12), label=1)


@pytest.mark.slow
def test_scores_are_those_of_one_process(folders, monkeypatch):
    monkeypatch.setattr(scoring, "BLOCK", 7)
    scorers = {name: load_model(folder, "cpu") for name, folder in folders.items()}
    scorers |= {"fragile": load_model(SentenceTransformer(modules=[*made.load(folders["base"]), Fragile()], device="cpu"))}
    names = ["tuned", "table"]
    pairs = made.some_pairs(200)
    left, right = ([f"{text} {i}" for i, text in enumerate(pairs[side])] for side in ("left", "right"))
    with encoding_on(scorers, TWO) as several:
        for some in (["base", "tuned", "table"], names):
            expected, scores = (pair_scores({name: them[name] for name in some}, left, right) for them in (scorers, several))
            assert list(scores) == some and all(np.array_equal(scores[name], expected[name]) for name in some)
        expected, levels = (search_corpus({name: them[name] for name in names}, Corpus, first=dict.fromkeys(names, 3)) for them in (scorers, several))
        for name in names:
            assert np.array_equal(levels[name].above, expected[name].above) and np.array_equal(levels[name].first, expected[name].first)
        with pytest.raises(EncoderError, match="devices: cpu: MemoryError: three texts are too many"):
            pair_scores({"fragile": several["fragile"]}, left[:3], left[:3])
        assert pair_scores({"base": several["base"]}, left[:3], left[:3])["base"].tolist() == [1, 1, 1], "its process goes on"
        workers = several["base"].pool.workers["processes"]
        for worker in workers:
            worker.kill()
        with pytest.raises(EncoderError, match="has ended, as where memory runs out; name fewer devices"):
            pair_scores({"base": several["base"]}, left, right)
        numbers = [worker.pid for worker in workers]
    assert not any(map(is_alive, numbers))
    assert pair_scores({"base": scorers["base"]}, left[:3], left[:3])["base"].tolist() == [1, 1, 1], "in this process again"


def is_alive(number: int) -> bool: # a process that ended and that nobody asked for is none
    status = Path(f"/proc/{number}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


SCRIPT = """
import signal
from pathlib import Path
from debias_nb import load_model
from debias_nb.diagnosis.models import pair_scores
from debias_nb.diagnosis.pool import encoding_on
signal.signal(signal.SIGINT, signal.default_int_handler) # also where it was ignored, as in the background
if {condition}:
    model = load_model({folder!r}, "cpu")
    with encoding_on({{"it": model}}, ["cpu", "cpu"]) as scorers:
        while True:
            pair_scores(scorers, ["red lamp"] * 20, ["old table"] * 20)
            Path({out!r}).write_text(" ".join(str(worker.pid) for worker in scorers["it"].pool.workers["processes"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_no_process_stays(folders, tmp_path, end):
    "Ctrl-C reaches all processes of a terminal; what ends a process by force reaches it alone."
    out = tmp_path / "workers"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(condition='__name__ == "__main__"', folder=str(folders["table"]), out=str(out)), "utf-8")
    process = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not out.exists() or not out.read_text():
        assert process.poll() is None, process.stderr.read()
        time.sleep(.1)
    numbers = [int(number) for number in out.read_text().split()]
    assert all(map(is_alive, numbers))
    if end == signal.SIGINT:
        os.killpg(process.pid, end)
    else:
        process.kill()
    _, error = process.communicate(timeout=120)
    assert error.count("KeyboardInterrupt") <= 1, "workers are silent"
    for _ in range(100):
        if not any(map(is_alive, numbers)):
            return
        time.sleep(.2)
    pytest.fail(f"{numbers} are still there")


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_so(folders, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(condition="True", folder=str(folders["table"]), out=str(tmp_path / "workers")), "utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGTERM and done.stderr.startswith("devices: in a script this belongs below")


@pytest.mark.parametrize("visible, taken", [(None, ["0", "1", "0"]), ("5,7", ["5", "7", "5"])])
def test_each_training_process_gets_a_gpu_of_its_own(monkeypatch, visible, taken):
    "The count is made up: what a GPU does with it is not tested."
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for number, name in enumerate(taken, 1):
        monkeypatch.setattr(processes, "current_process", lambda number=number: SimpleNamespace(_identity=(number,)))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        processes.take_gpu()
        assert os.environ["CUDA_VISIBLE_DEVICES"] == name
    assert cores() == 2


def test_one_process_trains_on_one_gpu(monkeypatch, tmp_path):
    "transformers would split its batches over all of them, and take larger ones."
    monkeypatch.setattr(SentenceTransformerTrainingArguments, "n_gpu", 4)
    assert training_arguments(tmp_path)._n_gpu == 1
