"Texts that several processes encode: the vectors are the same, and errors say what to do."
import os
import subprocess
import sys
from dataclasses import replace
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments

import made
from debias_nb import processes
from debias_nb import EncoderError
from debias_nb.checks import ConfigError
from debias_nb.diagnosis import models as scoring
from debias_nb.encoders.tokens import single_thread
from debias_nb.diagnosis.models import load_model, pair_scores, search_corpus
from debias_nb.runs.runner import cores
from debias_nb.trainer import training_arguments

TWO = ["cpu", "cpu"]


class Fragile(torch.nn.Module):
    "Last part of a model, which some texts are too much for."
    def forward(self, features):
        if len(features["sentence_embedding"]) == 3:
            raise MemoryError("three texts are too many")
        return features


@pytest.mark.parametrize("devices", [["gpu"], ["cuda:9"], ["cpu", ""]])
def test_a_device_that_is_not_there_is_refused_before_a_model_is_read(devices):
    with pytest.raises(ConfigError, match="device"):
        load_model("./nowhere", devices)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoders")
    return {"base": made.bert(folder / "base"), "tuned": made.bert(folder / "tuned", seed=1),
            "table": made.table(folder / "table")}


class Corpus:
    "Queries and texts."
    corpus = [f"{one} {other}" for one in made.WORDS for other in made.WORDS[:3]]
    frame = made.some_pairs(12).assign(query=range(12), document=range(12), label=1)


@pytest.fixture
def forked(monkeypatch):
    "Processes begin as copies of this one, with its libraries: those of sentence-transformers take seconds to start."
    context = get_context("fork")
    monkeypatch.setattr(torch.multiprocessing, "get_context", lambda method=None: context)
    with single_thread(): # a copy has no threads of its parent's
        yield


PAIRS = made.some_pairs(200)
LEFT, RIGHT = ([f"{text} {i}" for i, text in enumerate(PAIRS[side])] for side in ("left", "right"))


@pytest.mark.slow
def test_processes_that_import_their_libraries_give_the_same_scores(folders):
    alone, several = (pair_scores({"table": load_model(folders["table"], device)}, LEFT[:20], RIGHT[:20])["table"]
                      for device in ("cpu", TWO))
    np.testing.assert_allclose(several, alone, atol=2e-6)


def test_scores_are_those_of_one_process(folders, forked, monkeypatch):
    "Up to the last decimal of a score: other batches round otherwise."
    monkeypatch.setattr(scoring, "BLOCK", 70)
    alone = {name: load_model(folder, "cpu") for name, folder in folders.items()}
    several = {name: load_model(folder, TWO) for name, folder in folders.items()}
    expected, scores = (pair_scores(scorers, LEFT, RIGHT) for scorers in (alone, several))
    assert list(scores) == list(folders)
    for name, values in scores.items():
        np.testing.assert_allclose(values, expected[name], atol=2e-6)
    expected, levels = (search_corpus(scorers, Corpus, first=dict.fromkeys(folders, 3)) for scorers in (alone, several))
    for name in folders:
        assert np.array_equal(levels[name].n_better, expected[name].n_better)
        assert np.array_equal(levels[name].first, expected[name].first)
    assert (pair_scores({"base": alone["base"]}, LEFT[:3], LEFT[:3])["base"].tolist()
            == [1, 1, 1]), "in this process again"


def test_what_a_process_cannot_do_is_told(folders, forked):
    fragile = SentenceTransformer(modules=[*made.load(folders["base"]), Fragile()], device="cpu")
    scorer = load_model(fragile, TWO)
    with pytest.raises(EncoderError, match="devices: cpu, cpu: MemoryError: three texts are too many"):
        pair_scores({"fragile": scorer}, ["a", "b", "c"], ["a", "b", "c"])
    assert pair_scores({"fragile": replace(scorer, devices=())}, ["a", "b"], ["a", "b"])["fragile"].tolist() == [1, 1]


SCRIPT = """
from debias_nb import load_model
from debias_nb.diagnosis.models import pair_scores
pair_scores({{"it": load_model({folder!r}, ["cpu", "cpu"])}}, ["red lamp"] * 20, ["old table"] * 20)
"""


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_so(folders, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(folder=str(folders["table"])), "utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "In a script the call belongs below `if __name__" in done.stderr.splitlines()[-1]


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
