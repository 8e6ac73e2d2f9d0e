"""Damage of every kind of file: what is done to it, and the sentence that is expected.

Each row of a table is a name, a change, and words of the sentence. Nothing may be lost: the files stay as they are."""
import gzip
import json
import re
import shutil
import warnings
from contextlib import contextmanager

import pytest
import yaml
from typer.testing import CliRunner

from debias_nb.config import ConfigError, EncoderConfig
from debias_nb.data.answers import read_answers
from debias_nb.data.authors import read_texts
from debias_nb.data.pairs import load_questions, read_pairs
from debias_nb.data.registry import DataError, load_expected, load_registry, locate, only_pinned
from debias_nb.data.planted_encoder import planted_encoder
from debias_nb.encoders import EncoderError
from debias_nb.loading import load_encoder
from debias_nb.hashes import sha256_file
from debias_nb.repro.cli import app
from debias_nb.repro.config import ExperimentConfig
from debias_nb.repro.runs.records import Store, encode, make_record
from debias_nb.repro.pages.verdicts import read_ledger
from harness import QUICK, ROOT, make_project, settings_of


def contents(folder) -> dict[str, bytes]: # of all files but locks
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@contextmanager
def unchanged(folder):
    "What is there stays as it is, and nothing is added."
    before = contents(folder)
    yield
    assert contents(folder) == before


def shell(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def refused(done, *words):
    "A sentence on standard error, exit code 2, no traceback."
    assert isinstance(done.exception, SystemExit), (done.output, repr(done.exception))
    assert done.exit_code == 2 and done.stderr.startswith("debias-nb: "), done.output
    for word in words:
        assert word in done.stderr, (word, done.stderr)


# records

RUNS = ExperimentConfig.model_validate(settings_of()).runs()
SAME = dict(data={}, encoder={"name": "x"}, device="cpu", dtype="fp32", seconds=1., peak_memory=1, curve={})


def line_of(run, auc=.5) -> bytes:
    return encode(make_record(run, {"unseen": {"auc05": auc}}, **SAME))


def unsealed(line: bytes) -> bytes:
    record = json.loads(line)
    del record["checksum"]
    return json.dumps(record).encode() + b"\n"


DAMAGED_LINES = { # the second of three lines -> what stands there instead
    "a metric changed": (
        lambda line: line.replace(b'"auc05": 0.5', b'"auc05": 0.9'),
        "line 2 is left out: checksum: it is not that of the content"),
    "a time changed": (
        lambda line: line.replace(b'"seconds": 1.0', b'"seconds": 2.0'), "line 2 is left out: checksum"),
    "a setting changed": (
        lambda line: unsealed(line).replace(b'"batch_size": 32', b'"batch_size": 33'),
        "line 2 is left out: its configuration is that of"),
    "an impossible setting": (
        lambda line: unsealed(line).replace(b'"epochs": 1,', b'"epochs": "x",'),
        "line 2 is left out: config.training.epochs: Input should be a valid integer"),
    "a fraction above 1": (
        lambda line: unsealed(line).replace(b'"auc05": 0.5', b'"auc05": 7.0'),
        "line 2 is left out: metrics: unseen: auc05 is 7, and a fraction"),
    "infinity": (
        lambda line: unsealed(line).replace(b'"auc05": 0.5', b'"auc05": 1e999'),
        "line 2 is left out: metrics.unseen.auc05: Input should be a finite number"),
    "a word for a number": (
        lambda line: unsealed(line).replace(b'"auc05": 0.5', b'"auc05": "high"'),
        "line 2 is left out: metrics.unseen.auc05: Input should be a valid number, got 'high'"),
    "a line that stands twice": (lambda line: line + line, "line 3 is left out: it repeats line 2"),
    "half a line": (lambda line: line[:len(line) // 2] + b"\n", "line 2 is left out: damaged"),
    "bytes that are no text": (lambda line: line[:40] + b"\xff\xfe" + line[40:], "line 2 is left out: damaged"),
    "NaN": (lambda line: line.replace(b'"auc05": 0.5', b'"auc05": NaN'), "line 2 is left out: checksum"),
    "marks of a merge": (lambda line: b"<<<<<<< HEAD\n" + line, "line 2 is left out: damaged"),
    "a key that stands twice": (
        lambda line: line.replace(b'"seed": ', b'"seed": 5, "seed": ', 1),
        "line 2 is left out: damaged (the key 'seed' stands twice"),
    "a hundred thousand brackets": (lambda line: b"[" * 100_000 + b"\n", "line 2 is left out: damaged (nested too deeply)"),
    "two lines in one": (lambda line: line[:-1] + line, "line 2 is left out: damaged"),
    "another schema": (lambda line: line.replace(b'"schema": 1', b'"schema": 2'), "line 2 is left out: checksum"),
    "no status": (
        lambda line: line.replace(b'"status": "finished"', b'"status": null'), "line 2 is left out: checksum"),
    "a list": (lambda line: b"[1, 2]\n", "line 2 is left out: Input should be a valid dictionary"),
    "UTF-16": (lambda line: line.decode().encode("utf-16"), "is left out: damaged"),
    "compressed": (lambda line: gzip.compress(line) + b"\n", "is left out: damaged"), # its bytes may hold no end of a line
}


@pytest.mark.parametrize("name", DAMAGED_LINES)
def test_records(name, tally, tmp_path, monkeypatch):
    change, sentence = DAMAGED_LINES[name]
    with tally.trial("damaged records"):
        project = make_project(tmp_path)
        trained = [run for run in RUNS if run.training][:3]
        store = Store(project / "results")
        path = store.path(trained[0])
        path.parent.mkdir(parents=True)
        first, second, third = map(line_of, trained)
        assert change(second) != second
        path.write_bytes(first + change(second) + third)
        monkeypatch.chdir(project)
        with unchanged(project), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            done = shell("agree")
            said = [str(one.message) for one in told]
            assert done.exit_code == 1 and f"{path}: {sentence}" in " ".join(said) or sentence.startswith("is "), (done.output, said)
            assert sentence in " ".join(said)
            assert {record["id"] for record in store.all()} >= {trained[0].id} | ({trained[2].id} if "UTF" not in name else set())


# configurations

def replaced(old, new):
    def change(text):
        assert old in text, old
        return text.replace(old, new, 1)
    return change


DAMAGED_SETTINGS = {
    "an unknown key": (replaced("title:", "titel:"), "titel: unknown key; did you mean 'title'?"),
    "a key that is not there": (replaced("scale: a toy world\n", ""), "scale: required, and not there"),
    "a key that stands twice": (lambda text: text + "title: Another\n", "the key 'title' stands twice"),
    "an unknown key deep inside": (
        replaced("batch_size: 32", "batchsize: 32"), "batchsize: unknown key; did you mean 'batch_size'?"),
    "a word for a number": (replaced("batch_size: 32", "batch_size: many"), "batch_size: "),
    "a negative rate": (
        replaced("learning_rate: 0.02\n    epochs", "learning_rate: -0.02\n    epochs"), "learning_rate: "),
    "no number": (replaced("learning_rate: 0.02\n    epochs", "learning_rate: .nan\n    epochs"), "learning_rate: "),
    "a share above 1": (replaced("mask_share: 0.5", "mask_share: 1.5"), "mask_share: "),
    "an unknown method": (replaced("- Finetuned\n", "- Finetund\n"), "did you mean 'Finetuned'?"),
    "an unknown regulariser": (replaced("regulariser: itvreg", "regulariser: itvregg"), "no regulariser 'itvregg'; did you mean 'itvreg'?"),
    "another experiment": (replaced("experiment: demo", "experiment: other"), "says it is itvreg/other at planted"),
    "a list at the top": (lambda text: "- a\n- b\n", "a mapping is expected at the top, found list"),
    "nothing": (lambda text: "", "a mapping is expected at the top, found NoneType"),
    "a tab": (replaced("title: A", "title:\tA:\t b: A"), "line 4"),
    "a bracket left open": (replaced("scale: a toy world", "scale: [a"), "line "),
    "latin-1": (lambda text: text.replace("A demonstration", "Übung").encode("latin-1"), "is not UTF-8"),
    "UTF-16": (lambda text: text.encode("utf-16"), "is not UTF-8"),
    "five thousand digits": (replaced("scale: a toy world", "scale: " + "9" * 5000), "no value of YAML"),
    "an impossible date": (replaced("scale: a toy world", "scale: 2001-02-30"), "no value of YAML"),
    "a list as a key": (replaced("scale: a toy world", "? [1, 2]\n: a"), "no value of YAML"),
    "code": (
        replaced("scale: a toy world", "scale: !!python/object/apply:os.system [touch never]"),
        "could not determine a constructor"),
}


@pytest.mark.parametrize("name", DAMAGED_SETTINGS)
def test_configurations(name, tally, tmp_path, monkeypatch):
    change, sentence = DAMAGED_SETTINGS[name]
    with tally.trial("damaged configurations"):
        project = make_project(tmp_path)
        path = project / "configs/itvreg/demo.planted.yaml"
        changed = change(path.read_text())
        path.write_bytes(changed if isinstance(changed, bytes) else changed.encode())
        monkeypatch.chdir(project)
        with unchanged(project):
            refused(shell("run", "itvreg/demo"), "configs/itvreg/demo.planted.yaml", sentence)


# claims and printed cells

def cells(number, **changes) -> str:
    "The printed tables with one cell changed."
    found = yaml.safe_load((ROOT / "expected/itvreg.yaml").read_text("utf-8"))
    cell = found["tables"]["table1"]["cells"][number]
    cell.update(changes)
    return yaml.safe_dump(found, sort_keys=False)


def twice():
    found = yaml.safe_load((ROOT / "expected/itvreg.yaml").read_text("utf-8"))
    found["tables"]["table1"]["cells"].append(found["tables"]["table1"]["cells"][0])
    return yaml.safe_dump(found, sort_keys=False)


DAMAGED_CELLS = {
    "a cell that stands twice": (twice, "stands twice"),
    "a percentage above 100": (lambda: cells(0, value=120.0), "is no percent"),
    "a negative deviation": (lambda: cells(0, std=-1.0), "std"),
    "a word for a number": (lambda: cells(0, value="high"), "value"),
    "no number and no note": (lambda: cells(0, value=None), "takes a note"),
    "a row of another make": (lambda: cells(1, row={"model": "Finetuned"}), "is not made like the others"),
    "an unknown key": (lambda: cells(0, vlaue=1.0), "vlaue: unknown key; did you mean 'value'?"),
    "another paper": (lambda: (ROOT / "expected/arr.yaml").read_text("utf-8"), "says it is arr"),
    "half a file": (lambda: cells(0)[:5000] + "\n  [", "line "),
}


@pytest.mark.parametrize("name", DAMAGED_CELLS)
def test_printed_cells(name, tally, tmp_path):
    change, sentence = DAMAGED_CELLS[name]
    with tally.trial("damaged claims and printed cells"):
        project = make_project(tmp_path)
        (project / "expected/itvreg.yaml").write_text(change(), "utf-8")
        with unchanged(project), pytest.raises(ConfigError) as e:
            load_expected("itvreg", project)
        assert "expected/itvreg.yaml" in str(e.value) and sentence in str(e.value), e.value


CLAIM = """book.claim("A1", printed=fact("Base", paper("table1", method="Base", column="IID"), ">="))"""
IN_JSON = json.dumps(CLAIM)[1:-1]
DAMAGED_CLAIMS = {
    "half a notebook": (lambda text: text[:len(text) // 2], "claims.ipynb: no notebook"),
    "a notebook without cells": (lambda text: '{"nbformat": 4}', "claims.ipynb: no notebook"),
    "a claim without a heading": (replaced("## A1", "A1"), "claims.ipynb: no heading states A1"),
    "a claim that stands twice": (replaced(IN_JSON, f"{IN_JSON}\\n{IN_JSON}"), "claim A1 stands twice"),
    "a cell that is not printed": (replaced('column=\\"IID\\"', 'column=\\"OOF\\"'), "OOF"),
}


BEGIN = """\
from debias_nb.repro.pages.printed import fact
from debias_nb.repro.pages.verdicts import Ledger
book = Ledger("itvreg")
paper = book.printed"""


def cell(kind, source) -> dict:
    return {"cell_type": kind, "metadata": {}, "source": source}


def claims_notebook() -> str:
    shown = [cell("code", BEGIN), cell("markdown", "## A1\n\nA claim."), cell("code", CLAIM)]
    return json.dumps({"cells": shown, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})


@pytest.mark.parametrize("name", DAMAGED_CLAIMS)
def test_claims(name, tally, tmp_path, monkeypatch):
    change, sentence = DAMAGED_CLAIMS[name]
    with tally.trial("damaged claims and printed cells"):
        project = make_project(tmp_path)
        text = claims_notebook()
        changed = change(text)
        assert changed != text
        (project / "nbs/papers/itvreg/claims.ipynb").write_text(changed)
        (project / "nbs/papers/itvreg/errata.ipynb").write_text(text.replace(IN_JSON, ""))
        monkeypatch.chdir(project)
        with unchanged(project), pytest.raises(ValueError) as e:
            read_ledger("itvreg")
        said = " ".join([str(e.value), *getattr(e.value, "__notes__", ())])
        assert sentence in said and "claims.ipynb" in said, said


# models

def cut(path, share=2):
    path.write_bytes(path.read_bytes()[:path.stat().st_size // share])


def modules(folder, change):
    path = folder / "modules.json"
    found = json.loads(path.read_text())
    path.write_text(json.dumps(change(found)))


def with_type(kind):
    return lambda found: [found[0] | {"type": kind}, *found[1:]]


def beyond_the_table(folder):
    "A word whose id has no vector."
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["model"]["vocab"]["red"] = 10**6
    path.write_text(json.dumps(tokenizer))


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def one_bit(folder):
    "In an encoder whose hash is known."
    path = folder / "model.safetensors"
    said = {"licence": "none", "trained_on": "nothing", "zero_shot": True}
    card = {"kind": "static", "sha256": sha256_file(path)} | said
    (folder.parent / "encoders.yaml").write_text(yaml.safe_dump({folder.name: card}))
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)


DAMAGED_MODELS = {
    "half of modules.json": ("table", lambda folder: cut(folder / "modules.json"), "modules.json: Invalid JSON"),
    "modules.json of numbers": (
        "table", lambda folder: modules(folder, lambda found: [1, 2]),
        "modules.json: 0: Input should be an object, found 1"),
    "modules.json without types": (
        "table", lambda folder: modules(folder, lambda found: [{"path": ""}]),
        "modules.json: 0: type: Field required"),
    "no modules.json": ("table", lambda folder: (folder / "modules.json").unlink(), "no modules.json"),
    "foreign code as a module": (
        "table", lambda folder: modules(folder, with_type("evil.Module")), "is code from outside"),
    "a module outside of the folder": (
        "bert", lambda folder: modules(folder, lambda found: [found[0], found[1] | {"path": "../../1_Pooling"}]),
        "modules.json: the module ../../1_Pooling lies outside"),
    "an unknown module": (
        "table", lambda folder: modules(folder, with_type("sentence_transformers.models.Nothing")),
        "modules.json: Nothing is no module of an encoder that is read here"),
    "pickled weights": ("table", pickled, "which are pickles"),
    "no weights": ("table", lambda folder: (folder / "model.safetensors").unlink(), "no weights at all"),
    "half of the weights": (
        "table", lambda folder: cut(folder / "model.safetensors"), "cannot be loaded (SafetensorError"),
    "weights that are none": (
        "table", lambda folder: (folder / "model.safetensors").write_bytes(b"\xff" * 100),
        "cannot be loaded (SafetensorError"),
    "a bit of pinned weights": ("table", one_bit, "model.safetensors: sha256 is"),
    "half of the tokenizer": ("table", lambda folder: cut(folder / "tokenizer.json"), "cannot be loaded ("),
    "a word beyond the table": ("table", beyond_the_table, "gives 'red' the id 1000000, and there are vectors for"),
    "code of the repository": (
        "bert", lambda folder: (folder / "config.json").write_text('{"auto_map": {"AutoModel": "evil.Model"}}'),
        "auto_map names code"),
    "half of a configuration": (
        "bert", lambda folder: cut(folder / "config.json"), "config.json: Invalid JSON"),
    "a configuration of a list": (
        "bert", lambda folder: (folder / "config.json").write_text("[1]"), "config.json: Input should be an object, found [1]"),
}


@pytest.mark.parametrize("name", DAMAGED_MODELS)
def test_models(name, originals, tally, tmp_path, monkeypatch):
    kind, change, sentence = DAMAGED_MODELS[name]
    with tally.trial("damaged models"):
        folder = tmp_path / kind
        shutil.copytree(originals / kind, folder)
        change(folder)
        monkeypatch.setenv("DEBIAS_NB_MODELS", str(tmp_path))
        with unchanged(tmp_path), pytest.raises(EncoderError) as e:
            load_encoder(EncoderConfig(name=kind, kind="static" if kind == "table" else "transformer"))
        assert sentence in str(e.value) and str(folder) in str(e.value), e.value
        if name == "a bit of pinned weights": # whoever gives a folder asks for no name
            return
        pairs = write_pairs(tmp_path / "a.csv")
        done = shell("compare", "--base", folder, "--train", pairs, "--test", f"t={pairs}", "--out", tmp_path / "out")
        refused(done, str(folder))


DAMAGED_CACHE = {
    "half of planted.json": (lambda home: cut(home / "planted.json"), "what is kept of it cannot be read"),
    "no planted.json": (lambda home: (home / "planted.json").unlink(), "what is kept of it cannot be read"),
    "half of the vocabulary": (
        lambda home: cut(home / "vocab.txt"), "the vocabulary are not those it was trained with"),
    "half of the kept weights": (
        lambda home: cut(home / "model/model.safetensors"), "cannot be loaded (SafetensorError"),
    "half of the kept tokenizer": (lambda home: cut(home / "model/tokenizer.json"), "cannot be loaded ("),
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    planted_encoder(QUICK, folder)
    return folder


@pytest.mark.parametrize("name", DAMAGED_CACHE)
def test_kept_encoders(name, planted, tally, tmp_path):
    change, sentence = DAMAGED_CACHE[name]
    with tally.trial("damaged models"):
        shutil.copytree(planted, tmp_path / "cache")
        home = next(path for path in (tmp_path / "cache").iterdir() if path.is_dir())
        change(home)
        with unchanged(tmp_path), pytest.raises(EncoderError) as e:
            planted_encoder(QUICK, tmp_path / "cache")
        assert str(home) in str(e.value) and sentence in str(e.value), e.value


# data

GOOD = "left,right,label\n" + "".join(f"red lamp {i},lamp number {i},{i % 2}\n" for i in range(6))


def write_pairs(path, text: str | bytes = GOOD):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


DAMAGED_PAIRS = { # name of the file, its content, words
    "a third label": (
        "a.csv", GOOD.replace("lamp 2,lamp number 2,0", "lamp 2,lamp number 2,2"),
        ":4: column 'label': labels are 0 or 1, found '2'"),
    "latin-1": ("a.csv", GOOD.replace("red lamp 2", "rôt lamp 2").encode("latin-1"), ":4: not UTF-8"),
    "a cell too many": ("a.csv", GOOD.replace("red lamp 2", "red, lamp 2"), ":4: 4 cells, the header has 3"),
    "a quotation mark left open": (
        "a.csv", GOOD.replace("red lamp 2", '"red lamp 2'), ":4: unexpected end of data"),
    "a header that is misspelt": ("a.csv", GOOD.replace("left", "lefft", 1), "no column 'left'; did you mean 'lefft'?"),
    "one class": ("a.csv", re.sub(r",0\n", ",1\n", GOOD), "both classes are needed"),
    "only a header": ("a.csv", "left,right,label\n", "no pairs"),
    "nothing": ("a.csv", "", "no pairs"),
    "a mark of byte order alone": ("a.csv", b"\xef\xbb\xbf\n", "a.csv: "),
    "an empty text": ("a.csv", GOOD.replace("red lamp 2", "  "), ":4: column 'left': a text is expected"),
    "ids for texts": ("a.csv", "left,right,label\n1,2,1\n3,4,0\n", "holds numbers alone"),
    "a key that stands twice": (
        "a.jsonl", '{"left": "a", "left": "b", "right": "c", "label": 1}\n', ":1: the key 'left' stands twice"),
    "a line that is no object": (
        "a.jsonl", '{"left": "a", "right": "c", "label": 1}\n7\n', ":2: an object is expected, found int"),
    "half a line": ("a.jsonl", '{"left": "a", "right": "c", "label": 1}\n{"left": "a"', ":2: Expecting"),
    "Parquet that is none": ("a.parquet", b"PAR1 and no more PAR1", "a.parquet: "),
    "another ending": ("a.xlsx", GOOD, "the name must end in one of"),
}


@pytest.mark.parametrize("name", DAMAGED_PAIRS)
def test_pairs_of_ones_own(name, tally, tmp_path, monkeypatch):
    file, text, sentence = DAMAGED_PAIRS[name]
    with tally.trial("damaged data"):
        bad, good = write_pairs(tmp_path / file, text), write_pairs(tmp_path / "good.csv")
        monkeypatch.chdir(tmp_path)
        with unchanged(tmp_path):
            refused(shell("compare", "--base", "x", "--train", bad, "--test", f"t={good}"), str(bad), sentence)


DAMAGED_CORPORA = {
    "a label that is none": ("a.tsv", b"duplicate\ta\tb\nmaybe\tc\td\n", read_pairs, ":2: 'maybe' is not a label"),
    "a NUL byte": ("a.tsv", b"1\ta\tb\n0\tc\0\td\n", read_pairs, ":2: a NUL byte"),
    "a mark of byte order": ("a.tsv", b"\xef\xbb\xbf1\ta\tb\n", read_pairs, ":1: a byte order mark"),
    "a column too few": ("a.tsv", b"1\ta\tb\n0\tc\n", read_pairs, ":2: 2 columns, expected 3"),
    "half a compressed file": (
        "a.tsv.gz", gzip.compress(b"q1\tWho?\tHe.\t1\n" * 99)[:-20], read_answers, "the file is damaged"),
    "a question with two texts": (
        "a.tsv", b"q1\tWho?\tHe.\t1\nq1\tWhat?\tIt.\t0\n", read_answers,
        ":2: question 'q1' has another text than in line 1"),
    "a column that is missing": ("a.csv", b"autor,text\na,b\n", read_texts, ":2: author: Field required"),
}


@pytest.mark.parametrize("name", DAMAGED_CORPORA)
def test_corpora(name, tally, tmp_path):
    file, content, reader, sentence = DAMAGED_CORPORA[name]
    with tally.trial("damaged data"):
        path = write_pairs(tmp_path / file, content)
        with unchanged(tmp_path), pytest.raises(DataError) as e:
            reader(path)
        assert str(path) in str(e.value) and sentence in str(e.value), e.value


def test_a_published_file_that_was_changed(tally, tmp_path, monkeypatch):
    with tally.trial("damaged data"):
        (tmp_path / "quora").mkdir()
        path = write_pairs(tmp_path / "quora/nlx-quora_train.tsv", "1\ta\tb\n")
        monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path))
        sentence = "sha256 .* expected .* the file was left as it is"
        with unchanged(tmp_path), pytest.raises(DataError, match=sentence) as e:
            load_questions("quora", "train", download=False)
        assert str(path) in str(e.value)


def test_a_file_that_nobody_knows(tally, tmp_path, monkeypatch):
    with tally.trial("damaged data"):
        (tmp_path / "superuser").mkdir()
        path = write_pairs(tmp_path / "superuser/train.tsv", "1\ta\tb\n")
        monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path))
        with unchanged(tmp_path), only_pinned(), pytest.raises(DataError, match="no hash of this file is known") as e:
            locate("superuser", "train.tsv")
        assert str(path) in str(e.value)


def test_a_registry_of_ones_own(tally, tmp_path, monkeypatch):
    with tally.trial("damaged data"):
        path = tmp_path / "datasets.yaml"
        files = "[{file: ../../etc/passwd, format: x}]"
        path.write_text(f"datasets:\n  ours: {{title: a, licence: b, citation: c, by_hand: d, files: {files}}}\n")
        monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path))
        with unchanged(tmp_path), pytest.raises(ConfigError, match="datasets.ours.files.0.file") as e:
            load_registry()
        assert str(path) in str(e.value)
