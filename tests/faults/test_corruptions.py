"""Damage of every kind of file: what is done to it, and the sentence that is expected.

Each row of a table is a name, a change, and words of the sentence. Nothing may be lost: the files stay as they are."""
import re
import shutil
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from debias_nb.encoders.planted import planted_encoder
from debias_nb.encoders.tokens import EncoderError
from debias_nb.commands.cli import app
from harness import QUICK, make_project


def contents(folder) -> dict[str, bytes]: # of all files but locks
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@contextmanager
def no_change(folder):
    "What is there stays as it is, and nothing is added."
    files = contents(folder)
    yield
    assert contents(folder) == files


def shell(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def check_refusal(run, *words):
    "A sentence on standard error, exit code 2, no traceback."
    assert isinstance(run.exception, SystemExit), (run.output, repr(run.exception))
    assert run.exit_code == 2 and run.stderr.startswith("debias-nb: "), run.output
    for word in words:
        assert word in run.stderr, (word, run.stderr)


# configurations

def replacement(old, new):
    def change(text):
        assert old in text, old
        return text.replace(old, new, 1)
    return change


def seeds(text):
    "Other seeds in the block."
    return lambda settings: re.sub(r"seeds:\n(\s+- \d+\n)+", f"seeds: {text}\n", settings)


SEEDS = {"-1": "-1", "true": "True", "'1'": "'1'", "1.0": "1.0", "1" + 22 * "0": "1" + 22 * "0"}
DAMAGED_SETTINGS = {
    **{f"the seed {text}": (seeds(f"[0, {text}]"), f"blocks.0.seeds: seeds must be a whole number from 0 to "
                                                   f"4294967295, got {shown}") for text, shown in SEEDS.items()},
    "a seed twice": (seeds("[0, 0]"), "seeds: each once, got [0, 0]"),
    "no seeds": (seeds("[]"), "seeds: 1 to 1000 are expected, got 0"),
    "seeds without end": (seeds(str([*range(10**4)])), "seeds: 1 to 1000 are expected, got 10,000"),
    "worlds without end": (replacement("    evaluate:", "    worlds: 1000000000\n    evaluate:"), "worlds: "),
    "an unknown key": (replacement("title:", "titel:"), "titel: unknown key; did you mean 'title'?"),
    "a key that is not there": (replacement("scale: a toy world\n", ""), "scale: "),
    "a key that occurs twice": (lambda text: text + "title: Another\n", "the key 'title' occurs twice"),
    "an unknown key deep inside": (replacement("batch_size: 32", "batchsize: 32"), "did you mean 'batch_size'?"),
    "a word for a number": (replacement("batch_size: 32", "batch_size: many"), "batch_size: "),
    "no number": (replacement("learning_rate: 0.02\n    epochs", "learning_rate: .nan\n    epochs"), "learning_rate: "),
    "an unknown method": (replacement("- Finetuned\n", "- Finetund\n"), "did you mean 'Finetuned'?"),
    "an unknown regularizer": (replacement("regularizer: itvreg", "regularizer: itvregg"), "did you mean 'itvreg'?"),
    "nothing": (lambda text: "", "a mapping is expected"),
    "a bracket left open": (replacement("scale: a toy world", "scale: [a"), "line "),
    "latin-1": (lambda text: text.replace("A demonstration", "Übung").encode("latin-1"), "UTF-8"),
    "code": (replacement("scale: a toy world", "scale: !!python/object/apply:os.system [touch never]"), "constructor"),
}


@pytest.mark.parametrize("name", DAMAGED_SETTINGS)
def test_configurations(name, tmp_path, monkeypatch):
    change, sentence = DAMAGED_SETTINGS[name]
    project = make_project(tmp_path)
    path = project / "experiments/studies/itvreg/demo.yaml"
    damaged_text = change(path.read_text())
    path.write_bytes(damaged_text if isinstance(damaged_text, bytes) else damaged_text.encode())
    monkeypatch.chdir(project)
    with no_change(project):
        check_refusal(shell("run", "itvreg/demo"), "experiments/studies/itvreg/demo.yaml", sentence)


@pytest.mark.parametrize("given, words", [
    (("-p", "workers=0"), "workers must be a whole number from 1, got 0"),
    (("-p", "seeds=[0, 0]"), "seeds: each once, got [0, 0]"),
    (("-p", "seeds=[-1]"), "seeds must be a whole number"), (("-p", "seeds=[true]"), "seeds must be list[int]"),
    (("-p", f"seeds={[*range(1001)]}"), "seeds: 1 to 1000 are expected, got 1,001"),
])
def test_parameters_that_a_run_would_refuse_are_refused_by_its_dry_run(tmp_path, monkeypatch, given, words):
    monkeypatch.chdir(make_project(tmp_path))
    for option in ((), ("--dry-run",)):
        check_refusal(shell("run", "itvreg/demo", *given, *option), words)


# records

@pytest.mark.parametrize("content, words", [
    ("", "weights.csv"),
    ("\0", "weights.csv"), ('table,profile\n"a,b\n', "weights.csv"),
    ("table,profile,run,sha256,cpu,torch,commit\na,b,c\n", "weights.csv"),
    *((f"table,profile,run,sha256,cpu,torch,commit\n{line}\n", "weights.csv:2: seven cells are expected, none empty")
      for line in (f"a,b,c,d,e,f,{40 * '0'}", f"a,b,,{64 * '0'},e,f,{40 * '0'}", f"a,b,c,{64 * '0'},e,f,{39 * '0'}")),
])
def test_a_damaged_list_of_weights_is_named(tmp_path, monkeypatch, content, words):
    project = make_project(tmp_path)
    (project / "experiments/weights.csv").write_text(content)
    monkeypatch.chdir(project)
    with no_change(project):
        check_refusal(shell("weights", "itvreg/demo", "--out", tmp_path / "out"), words)


# claims

# encoders that are kept; of folders tests/library/test_safe_folders.py asks

def cut(path, share=2):
    path.write_bytes(path.read_bytes()[:path.stat().st_size // share])


DAMAGED_CACHE = {
    "half of planted.json": (lambda home: cut(home / "planted.json"), "cannot be read"),
    "half of the kept weights": (lambda home: cut(home / "model/model.safetensors"), "cannot be loaded"),
}


@pytest.fixture(scope="module")
def planted_cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    planted_encoder(QUICK, folder)
    return folder


@pytest.mark.parametrize("name", DAMAGED_CACHE)
def test_kept_encoders(name, planted_cache, tmp_path):
    change, sentence = DAMAGED_CACHE[name]
    shutil.copytree(planted_cache, tmp_path / "cache")
    home = next(path for path in (tmp_path / "cache").iterdir() if path.is_dir())
    change(home)
    with no_change(tmp_path), pytest.raises(EncoderError) as e:
        planted_encoder(QUICK, tmp_path / "cache")
    assert str(home) in str(e.value) and sentence in str(e.value), e.value


# data
