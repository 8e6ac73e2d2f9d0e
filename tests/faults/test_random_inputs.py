"""Random inputs to every reader of files and every parser: no other error than the documented ones comes out.

An input is a valid one with a few random edits, anew at each run. The seed stands in each failure;
`DEBIAS_NB_DRAWS=seed` draws the same again."""
import io
import json
import os
import random
import tempfile
from contextlib import chdir
from pathlib import Path

import pandas as pd
import pytest

from debias_nb.checks import ConfigError
from debias_nb.files import load_yaml, parse_yaml
from debias_nb.papers.data.authors import read_author_texts
from debias_nb.data.registry import DataError, load_registry
from debias_nb.papers.pages.expected import load_expected
from debias_nb.encoders.tokens import EncoderError
from debias_nb.encoders.safe_folders import check_folder
from debias_nb.encoders.loading import encoder_cards
from debias_nb.diagnosis.methods import read_methods
from debias_nb.diagnosis.files.pairs_file import read_pairs_file
from debias_nb.papers.commands.reproduction import parse_parameter, parse_seeds
from debias_nb.papers.pages.execution import RunnerError, check_parameters
from debias_nb.runs.config import load_experiment
from debias_nb.runs.schema import RecordError, encode, read_file
from harness import NOTEBOOK, SEED
from made import record_with

INPUTS = 300 # to each reader

# what is read

LEFT_RIGHT = [
    {"left": "red lamp", "right": "lamp, red", "label": 1, "kind": "x"},
    {"left": "hat", "right": 'a "shoe"', "label": 0, "kind": ""},
]
FRAME = pd.DataFrame(LEFT_RIGHT)
AUTHORS = [{"author": "a", "topic": "b", "text": "c", "date": "2020"}, {"author": 7, "topic": "b", "text": "d"}]
EXPERIMENT = """\
paper: itvreg
experiment: demo
profile: planted
title: Two
scale: invented
encoders: [{name: learned, kind: static, embedding: 8}]
methods: [{name: Base, trained: false}, {name: ITVReg, regularizer: itvreg, weight: 0.1, mask_share: 0.5}]
blocks:
  - {encoders: [learned], methods: [Base], seeds: [0, 1], evaluate: [iid], \
corpora: [{name: catalogue, world: {train_pairs: 10}}],
     training: {learning_rate: 1e-2, epochs: 1, batch_size: 8}}
tables: [{id: demo, columns: [{label: here, corpus: catalogue, evaluate: iid, shift: iid}]}]
"""
SHA = "0" * 64
REGISTRY = f"""\
datasets:
  forum:
    title: A forum
    licence: none
    citation: none
    by_hand: ask
    files: [{{file: a.tsv, format: tsv, bytes: 3, url: 'https://example.org/a', sha256: '{SHA}'}}, \
{{file: b.tsv, format: tsv}}]
"""
CARDS = "mine: {kind: static, hub: a/b, revision: abc, licence: none, trained_on: nothing, zero_shot: true}\n"
PRINTED_CELLS = """\
paper: itvreg
title: A paper
tables:
  table1: {caption: One, metric: AUC, unit: percent, tolerance: 1.0, \
cells: [{row: {method: Base}, column: a, value: 10.0}, {row: {method: ITV}, column: a, value: 2e1, std: 0.1}]}
lists: {}
"""
MODULES = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}]


def json_lines(*rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet() -> bytes:
    out = io.BytesIO()
    FRAME.to_parquet(out)
    return out.getvalue()


# edits

TOKENS = [
    b"", b"\t", b"\n", b"\r", b"\r\n", b" ", b'"', b"'", b",", b":", b"\\",
    b"\0", b"\xff", b"\xc3", b"\xef\xbb\xbf", "\u2028".encode(), "ü".encode(), b"[", b"]", b"{", b"}", b"[" * 200,
    b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"-1", b"0", b"7", b"9" * 30, b"9" * 5000, b"1e18", b"2001-02-30",
    b'"\\ud800"', b'""', b"&a", b"*a", b"<<", b"!!python/name:os.system",
    b"- ", b"? ", b"|", b">", b"%", b"#", b"inf", b"__import__('os')", b"../../x",
]


def edit(data: bytes, rng: random.Random) -> bytes:
    "A few random edits, or something else altogether."
    kind = rng.random()
    if kind < .03:
        return rng.randbytes(rng.randrange(60))
    if kind < .05:
        return data[:rng.randrange(len(data) + 1)]
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = _one_edit(data, rng)
    return data


def _one_edit(data: bytes, rng: random.Random) -> bytes:
    new = rng.choice(TOKENS) if rng.random() < .9 else rng.randbytes(rng.randrange(1, 5))
    kind = rng.randrange(6)
    if kind == 0: # a line goes, comes twice or changes places
        lines = data.splitlines(keepends=True)
        if lines:
            line = lines.pop(rng.randrange(len(lines)))
            lines[rng.randrange(len(lines) + 1):0] = [line] * rng.choice((0, 1, 2))
        return b"".join(lines)
    if kind == 1: # a word gives way
        words = data.split(b" ") if rng.random() < .5 else data.split(b"\t")
        words[rng.randrange(len(words))] = new
        return (b" " if b"\t" not in data else b"\t").join(words)
    place = rng.randrange(len(data) + 1)
    length = rng.choice((0, 1, 1, 2, 8)) if kind < 5 else 0
    return data[:place] + new + data[place + length:]


# readers: what is edited, how it is read, and which errors may come out

def of_file(name: str, content: str | bytes, call):
    "A reader of one file."
    data = content.encode() if isinstance(content, str) else content

    def read_one(folder, rng):
        path = folder / name
        path.write_bytes(edit(data, rng))
        call(path)

    return read_one


def of_text(content: str, call):
    "A parser of a text."
    def read_one(folder, rng):
        data = edit(content.encode(), rng)
        call(data.decode("utf-8", "surrogateescape" if rng.random() < .1 else "replace"))

    return read_one


def of_files(contents: dict[str, bytes], call):
    "A reader of several files, of which one is edited."
    def read_one(folder, rng):
        target = rng.choice(sorted(contents))
        for name, content in contents.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(edit(content, rng) if name == target else content)
        call(folder)

    return read_one


PASSAGES = (
    {"query": "q", "positive_passages": [{"docid": "1", "title": "T", "text": "p"}],
     "negative_passages": [{"text": "n"}, {"text": "m"}]},
    {"query": "r", "positive_passages": [{"text": "s"}], "negative_passages": []})
QUERIES = {
    "corpus.jsonl": b'{"_id": "1", "title": "T", "text": "x"}\n{"_id": "2", "text": "y"}\n', 
    "queries.jsonl": b'{"_id": "1", "text": "q"}\n{"_id": "2", "text": "r"}\n',
    "qrels/test.tsv": b"query-id\tcorpus-id\tscore\n1\t1\t1\n2\t2\t3\n2\t1\t0\n"}
THREE = {"queries": {"1": "q", "2": "r"}, "corpus": {"1": "x", "2": {"title": "T", "text": "y"}},
         "relevant_docs": {"1": ["2"], "2": {"1": 1}}}


def read_grades(path):
    return read_pairs_file(path, match_from=1, other_to=.5)


def of_project(name: str, content: str, call):
    "A reader of a file in a project."
    def read_one(folder, rng):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(edit(content.encode(), rng))
        call(folder)

    return read_one


def read_groups(path):
    return read_pairs_file(path, group="kind")


def yaml_text(text):
    return parse_yaml(text, "here")


def configuration(project):
    return load_experiment("itvreg/demo", "planted", project)


def printed_cells(project):
    (project / "settings.ini").touch()
    (project / "experiments").mkdir(exist_ok=True)
    with chdir(project): # which is one, by these two
        return load_expected("itvreg")


def own_cards(path):
    return encoder_cards() # of the folder that DEBIAS_NB_MODELS names


def template(folder, rng):
    "A parameter, and a notebook that it has to suit."
    path = folder / "t.ipynb"
    if not path.exists():
        path.write_text(json.dumps(NOTEBOOK))
    text = edit(b"seeds=[1, 2]", rng).decode("utf-8", "replace")
    name, value = parse_parameter(text)
    check_parameters(path, {name: value})


MODEL_FILES = {
    "modules.json": json.dumps(MODULES).encode(),
    "config.json": b'{"model_type": "bert", "a": 1}',
    "model.safetensors": b"weights",
}
CONFIGURATION = "experiments/itvreg/demo.planted.yaml"

READERS = {
    "own pairs, CSV": (of_file("a.csv", FRAME.to_csv(index=False), read_groups), DataError),
    "own pairs, TSV": (of_file("a.tsv", FRAME.to_csv(index=False, sep="\t"), read_pairs_file), DataError),
    "own pairs, JSONL": (of_file("a.jsonl", json_lines(*LEFT_RIGHT), read_groups), DataError),
    "own pairs, Parquet": (of_file("a.parquet", parquet(), read_pairs_file), DataError),
    "own pairs, JSON": (of_file("a.json", json.dumps([*LEFT_RIGHT], indent=1), read_pairs_file), DataError),
    "grades": (of_file("a.csv", FRAME.to_csv(index=False), read_grades), DataError),
    "candidates": (of_file("a.jsonl", json_lines(*PASSAGES), read_pairs_file), DataError),
    "matches alone": (of_file("a.tsv", "query\tanswer\nq\tp\nr\ts\n", read_pairs_file), DataError),
    "queries, a folder": (of_files(QUERIES, read_pairs_file), DataError),
    "queries, one file": (of_file("a.json", json.dumps(THREE), read_pairs_file), DataError),
    "texts, JSONL": (of_file("a.jsonl", json_lines(*AUTHORS), read_author_texts), DataError),
    "records": (of_file("a.json", encode(record_with(0)), read_file), RecordError),
    "model folders": (of_files(MODEL_FILES, check_folder), EncoderError),
    "YAML texts": (of_text(EXPERIMENT, yaml_text), ConfigError),
    "YAML files": (of_file("a.yaml", EXPERIMENT, load_yaml), ConfigError),
    "configurations": (of_project(CONFIGURATION, EXPERIMENT, configuration), ConfigError),
    "registries": (of_file("datasets.yaml", REGISTRY, load_registry), ConfigError),
    "encoder cards": (of_file("encoders.yaml", CARDS, own_cards), ConfigError),
    "printed cells": (of_project("experiments/printed/itvreg.yaml", PRINTED_CELLS, printed_cells), ConfigError),
    "parameters": (of_text("weight=[1e-1, {a: 2020-01-01}]", parse_parameter), RunnerError),
    "parameters of a notebook": (template, RunnerError),
    "seeds": (of_text("0, 1,22", parse_seeds), RunnerError),
    "methods": (of_text("plain,wise-ft:0.25, outreg:1", read_methods), ConfigError),
}


@pytest.fixture
def folder(tmp_path):
    "In memory, where there is a file system in memory: a disk takes longer than a reader."
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path) as path:
        yield Path(path)


@pytest.mark.parametrize("reader", READERS)
def test_what_is_edited_is_valid(reader, folder, monkeypatch):
    "Of what is refused as it is, no edit would come further than the first check."
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(folder))
    monkeypatch.setitem(globals(), "edit", lambda data, rng: data)
    read_one, _ = READERS[reader]
    read_one(folder, random.Random(0))


@pytest.mark.parametrize("reader", READERS)
def test_random_inputs(reader, folder, monkeypatch):
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(folder))
    read_one, errors = READERS[reader]
    failures, refusals = [], 0
    for number in range(INPUTS):
        try:
            read_one(folder, random.Random(f"{SEED} {reader} {number}"))
        except errors as e:
            refusals += 1
            if not str(e):
                failures.append(f"input {number}: an error without a word")
        except Exception as e:
            failures.append(f"input {number}: {type(e).__name__}: {e}"[:300])
    assert not failures, f"DEBIAS_NB_DRAWS={SEED} draws again {len(failures)} of {INPUTS}: " + "; ".join(failures[:8])
    assert 0 < refusals < INPUTS, "some edits do harm, and some do none"
