"""Random inputs to every reader of files and every parser: no other error than the documented ones comes out.

An input is a valid one with a few random edits, drawn by a generator that is seeded with the reader's name and the input's number."""
import gzip
import io
import json
import os
import random
import tarfile
import tempfile
import warnings
from pathlib import Path

import pandas as pd
import pytest

from debias_nb.config import ConfigError, load_yaml, parse_yaml
from debias_nb.data.answers import read_answers, read_qrels, read_queries
from debias_nb.data.authors import read_pan19, read_pan_pairs, read_reviews, read_texts
from debias_nb.data.products import read_products
from debias_nb.data.questions import read_pairs
from debias_nb.data.registry import DataError, load_expected, load_registry
from debias_nb.data.titles import LF_FILES, read_aan, read_lf, read_music
from debias_nb.encoders import EncoderError, check_folder, encoder_cards
from debias_nb.explain.compare import read_methods, read_trials
from debias_nb.explain.diagnose import read_condition
from debias_nb.explain.new import read_experiment
from debias_nb.explain.pairs_file import read_pairs_file
from debias_nb.repro.cli import RunnerError, checked, parse_parameter, parse_seeds
from debias_nb.repro.config import load_experiment
from debias_nb.repro.device import load_manifest
from debias_nb.repro.records import RecordError, encode, read
from harness import NOTEBOOK

# what is read

PAIRS = "duplicate\tHow do I boot?\tWhat boots it?\n" "0\tred lamp\tblue lämp\n" "1\ta\tb\n"
LEFT_RIGHT = [{"left": "red lamp", "right": "lamp, red", "label": 1, "kind": "x"}, {"left": "hat", "right": 'a "shoe"', "label": 0, "kind": ""}]
ANSWERS = "q1\tWho?\tHe did.\t1\t4\nq1\tWho?\tNobody.\t0\t1\nq2\tWhy?\tBecause.\t0\t2\n"
TEXTS = "author,topic,text,date\nann,tea,\"I like tea, and\nmilk\",2020-01-02\nbob,tea,No tea.,2021-03\n"
REVIEW = {"review_full": "Good <br> book", "timestamp_ms": 1.5e12}
REVIEWER = {"user_id": "u1", "category": "Books", "history": [REVIEW], "heldout": REVIEW}
PAN = {"id": "p1", "fandoms": ["A", "B"], "pair": ["a text", "another text"]}
PAN_TRUTH = {"id": "p1", "same": False, "authors": ["1", "2"]}
AAN = "id = {P05-1001}\nauthor = {Somebody}\ntitle = {On words}\nvenue = {ACL}\nyear = {2005}\n\nid = {P06-1001}\ntitle = {More words}\nyear = {2006}\n"
ALBUM = {"asin": "B1", "title": "Songs &amp; more", "categories": [["CDs & Vinyl", "Jazz"]], "related": {"also_bought": ["B2"]}}
LF = {
    "trn.json.gz": [{"uid": "a", "title": "red lamp", "target_ind": [0, 1], "target_rel": [1.0]}],
    "tst.json.gz": [{"uid": "b", "title": "blue hat", "target_ind": [1]}],
    "lbl.json.gz": [{"uid": "c", "title": "lamp"}, {"uid": "d", "title": "hat"}],
}
RECORD = {"schema": 1, "id": "a", "status": "finished", "config": {}, "metrics": {"iid": {"auc": 0.5}}, "curve": [1, 2]}
TRIAL = {"id": "abc", "method": "plain", "seed": 0, "tests": {}}
EXPERIMENT = """\
paper: itvreg
experiment: demo
profile: planted
title: Two
scale: invented
encoders: [{name: learned, kind: static, embedding: 8}]
methods: [{name: Base, trained: false}, {name: ITVReg, regulariser: itvreg, weight: 0.1, mask_share: 0.5}]
blocks:
  - {encoders: [learned], methods: [Base], seeds: [0, 1], evaluate: [iid], corpora: [{name: catalogue, world: {train_pairs: 10}}],
     training: {learning_rate: 1e-2, epochs: 1, batch_size: 8}}
tables: [{id: demo, columns: [{label: here, corpus: catalogue, evaluate: iid, shift: iid}]}]
"""
REGISTRY = """\
datasets:
  forum:
    title: A forum
    licence: none
    citation: none
    by_hand: ask
    files: [{file: a.tsv, format: tsv, bytes: 3, url: 'https://example.org/a', sha256: '%s'}, {file: b.tsv, format: tsv}]
""" % ("0" * 64)
CARDS = "mine: {kind: static, hub: a/b, revision: abc, licence: none, trained_on: nothing, zero_shot: true}\n"
PRINTED = """\
paper: itvreg
title: A paper
tables:
  table1: {caption: One, metric: AUC, unit: percent, tolerance: 1.0, cells: [{row: {method: Base}, column: a, value: 10.0}, {row: {method: ITV}, column: a, value: 2e1, std: 0.1}]}
lists: {}
"""
MANIFEST = "title: Some\nruns:\n  - {experiment: itvreg/demo, profile: small, seeds: [0, 1], why: first}\n  - {grid: grid.yaml, methods: [Base]}\n"
OWN = "base: model\ntrain: a.csv\ntests: {like: b.csv}\nmethods: [base, plain, 'outreg:0.5']\nseeds: 3\nepochs: 1.5\nrecords: out\n"
MODULES = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}]


def json_lines(*rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def archive() -> bytes:
    "A collection of one problem, as a tar file."
    files = {
        "collection-info.json": json.dumps([{"problem-name": "p1", "language": "en"}]),
        "p1/fandom-info.json": json.dumps([{"true-author": "c1", "known-text": "k1.txt", "fandom": "F"}]),
        "p1/ground-truth.json": json.dumps({"ground_truth": [{"true-author": "c1", "unknown-text": "u1.txt"}]}),
        "p1/c1/k1.txt": "a known text", "p1/unknown/u1.txt": "an unknown text",
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"top/{name}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def parquet() -> bytes:
    out = io.BytesIO()
    pd.DataFrame(LEFT_RIGHT).to_parquet(out)
    return out.getvalue()


# edits

TOKENS = [
    b"", b"\t", b"\n", b"\r", b"\r\n", b" ", b'"', b"'", b",", b":", b"\\", b"\0", b"\xff", b"\xc3", b"\xef\xbb\xbf", "\u2028".encode(), "ü".encode(), b"[", b"]",
    b"{", b"}", b"[" * 200, b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"-1", b"0", b"7", b"9" * 30, b"9" * 5000, b"1e18", b"2001-02-30", b'"\\ud800"', b'""', b"&a", b"*a", b"<<", b"!!python/name:os.system",
    b"- ", b"? ", b"|", b">", b"%", b"#", b"inf", b"__import__('os')", b"../../x",
]


def edited(data: bytes, rng: random.Random) -> bytes:
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
    how = rng.randrange(6)
    if how == 0: # a line goes, comes twice or changes places
        lines = data.splitlines(keepends=True)
        if lines:
            line = lines.pop(rng.randrange(len(lines)))
            lines[rng.randrange(len(lines) + 1):0] = [line] * rng.choice((0, 1, 2))
        return b"".join(lines)
    if how == 1: # a word gives way
        words = data.split(b" ") if rng.random() < .5 else data.split(b"\t")
        words[rng.randrange(len(words))] = new
        return (b" " if b"\t" not in data else b"\t").join(words)
    at = rng.randrange(len(data) + 1)
    gone = rng.choice((0, 1, 1, 2, 8)) if how < 5 else 0
    return data[:at] + new + data[at + gone:]


def zipped(data: bytes, rng: random.Random) -> bytes:
    "Edited before it is compressed, or after."
    if rng.random() < .9:
        return gzip.compress(edited(data, rng), 1)
    return edited(gzip.compress(data, 1), rng)


# readers: what is edited, how it is read, and which errors may come out

def of_file(name: str, content: bytes, call):
    "A reader of one file."
    def one(folder, rng):
        path = folder / name
        path.write_bytes(zipped(content, rng) if name.endswith(".gz") else edited(content, rng))
        call(path)
    return one


def of_text(content: str, call):
    "A parser of a text."
    def one(folder, rng):
        call(edited(content.encode(), rng).decode("utf-8", "surrogateescape" if rng.random() < .1 else "replace"))
    return one


def of_files(contents: dict, call):
    "A reader of several files, of which one is edited."
    def one(folder, rng):
        chosen = rng.choice(sorted(contents))
        for name, content in contents.items():
            change = zipped if name.endswith(".gz") else edited
            whole = gzip.compress(content, 1) if name.endswith(".gz") else content
            (folder / name).write_bytes(change(content, rng) if name == chosen else whole)
        call(folder)
    return one


def of_archive(folder, rng):
    path = folder / "pan.tar.gz"
    path.write_bytes(zipped(archive(), rng))
    read_pan19(path)


def of_project(name: str, content: str, call):
    "A reader of a file in a project."
    def one(folder, rng):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(edited(content.encode(), rng))
        call(folder)
    return one


def own_cards(folder, rng):
    (folder / "encoders.yaml").write_bytes(edited(CARDS.encode(), rng))
    encoder_cards()


def template(folder, rng):
    path = folder / "t.ipynb"
    if not path.exists():
        path.write_text(json.dumps(NOTEBOOK))
    text = edited(b"seeds=[1, 2]", rng).decode("utf-8", "replace")
    name, value = parse_parameter(text)
    checked(path, {name: value})


def records(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read(path)


FOLDER = {"modules.json": json.dumps(MODULES).encode(), "config.json": b'{"model_type": "bert", "a": 1}', "model.safetensors": b"weights"}
READERS = {
    "question pairs": (of_file("a.tsv", PAIRS.encode(), read_pairs), DataError),
    "question pairs, repaired": (of_file("a.tsv", PAIRS.encode(), lambda path: read_pairs(path, encoding_errors="replace")), DataError),
    "offers": (of_file("a.txt", b"COL title VAL red lamp\tCOL title VAL lamp\t1\nCOL title VAL a\tCOL title VAL b\t0\n", read_products), DataError),
    "own pairs, CSV": (of_file("a.csv", pd.DataFrame(LEFT_RIGHT).to_csv(index=False).encode(), lambda path: read_pairs_file(path, group="kind")), DataError),
    "own pairs, TSV": (of_file("a.tsv", pd.DataFrame(LEFT_RIGHT).to_csv(index=False, sep="\t").encode(), read_pairs_file), DataError),
    "own pairs, JSONL": (of_file("a.jsonl", json_lines(*LEFT_RIGHT), lambda path: read_pairs_file(path, group="kind")), DataError),
    "own pairs, Parquet": (of_file("a.parquet", parquet(), read_pairs_file), DataError),
    "answers": (of_file("a.tsv", ANSWERS.encode(), read_answers), DataError),
    "answers, quoted and zipped": (of_file("a.tsv.gz", ANSWERS.encode(), lambda path: read_answers(path, quoting=True)), DataError),
    "queries": (of_file("a.txt", b"1\tWho?\n2\tWhy?\n", read_queries), DataError),
    "judgements": (of_file("a.qrel", b"1 Q0 a 4\n1 Q0 b 1\n2 U0 c 3\n", read_qrels), DataError),
    "texts, CSV": (of_file("a.csv", TEXTS.encode(), read_texts), DataError),
    "texts, JSONL": (of_file("a.jsonl", json_lines({"author": "a", "topic": "b", "text": "c", "date": "2020"}, {"author": 7, "topic": "b", "text": "d"}), read_texts), DataError),
    "reviews": (of_file("a.jsonl", json_lines(REVIEWER, REVIEWER | {"user_id": "u2"}), read_reviews), DataError),
    "fan fiction": (of_archive, DataError),
    "verification pairs": (of_files({"pairs.jsonl": json_lines(PAN, PAN | {"id": "p2"}), "truth.jsonl": json_lines(PAN_TRUTH, PAN_TRUTH | {"id": "p2"})},
                                    lambda folder: read_pan_pairs(folder / "pairs.jsonl", folder / "truth.jsonl")), DataError),
    "citations": (of_files({"meta.txt": AAN.encode(), "acl.txt": b"P06-1001 , P05-1001\n"}, lambda folder: read_aan(folder / "meta.txt", folder / "acl.txt")), DataError),
    "titles": (of_files({file: json_lines(*LF[file]) if file in LF else b"0 1\n" for file in LF_FILES} | {"categories.tsv": b"a\tlamps\n"}, lambda folder: read_lf(folder, "lf")), DataError),
    "albums": (of_file("a.jsonl.gz", json_lines(ALBUM, ALBUM | {"asin": "B2", "title": "More songs"}), read_music), DataError),
    "records": (of_file("a.jsonl", encode(RECORD) + encode(RECORD | {"id": "b"}), records), RecordError),
    "trials": (of_file("trials.jsonl", json_lines(TRIAL, TRIAL | {"id": "b"}), read_trials), ConfigError),
    "model folders": (of_files(FOLDER, check_folder), EncoderError),
    "YAML texts": (of_text(EXPERIMENT, lambda text: parse_yaml(text, "here")), ConfigError),
    "YAML files": (of_file("a.yaml", EXPERIMENT.encode(), load_yaml), ConfigError),
    "configurations": (of_project("configs/itvreg/demo.planted.yaml", EXPERIMENT, lambda folder: load_experiment("itvreg/demo", "planted", folder)), ConfigError),
    "registries": (of_file("datasets.yaml", REGISTRY.encode(), load_registry), ConfigError),
    "encoder cards": (own_cards, ConfigError),
    "printed cells": (of_project("expected/itvreg.yaml", PRINTED, lambda folder: load_expected("itvreg", folder)), ConfigError),
    "manifests": (of_file("m.yaml", MANIFEST.encode(), load_manifest), ConfigError),
    "own experiments": (of_file("own.yaml", OWN.encode(), read_experiment), ConfigError),
    "parameters": (of_text("weight=[1e-1, {a: 2020-01-01}]", parse_parameter), RunnerError),
    "parameters of a notebook": (template, RunnerError),
    "seeds": (of_text("0, 1,22", parse_seeds), RunnerError),
    "methods": (of_text("plain,wise-ft:0.25, outreg:1", read_methods), ConfigError),
    "conditions": (of_text("new.change.high<=-0.5e1", lambda text: read_condition(text, ["new", "new.er"])), ConfigError),
}


@pytest.fixture
def folder(tmp_path):
    "In memory, where there is a file system in memory: a disk takes longer than a reader."
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path) as path:
        yield Path(path)


@pytest.fixture
def count(request) -> int: # inputs to each reader
    config = request.config
    return config.getoption("--inputs") or (10_000 if config.getoption("--write") else 1_000)


@pytest.mark.parametrize("reader", READERS)
def test_what_is_edited_is_valid(reader, folder, monkeypatch):
    "Of what is refused as it is, no edit would come further than the first check."
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(folder))
    monkeypatch.setattr("test_random_inputs.edited", lambda data, rng: data)
    one, _ = READERS[reader]
    one(folder, random.Random(0))


@pytest.mark.parametrize("reader", READERS)
def test_random_inputs(reader, count, tally, folder, monkeypatch):
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(folder))
    one, documented = READERS[reader]
    lost, refused = [], 0
    for number in range(count):
        try:
            one(folder, random.Random(f"{reader} {number}"))
        except documented as e:
            refused += 1
            if not str(e):
                lost.append(f"input {number}: an error without a word")
        except Exception as e:
            lost.append(f"input {number}: {type(e).__name__}: {e}"[:300])
    tally.add("random inputs", count, count - len(lost), reader=reader)
    assert not lost, f"{len(lost)} of {count}: " + "; ".join(lost[:8])
    assert 0 < refused < count, "some edits do harm, and some do none"
