"Hashes, registries of one's own; the registry that the project ships."
import hashlib
import os
import subprocess

import pytest

from debias_nb.checks import ConfigError
from debias_nb.data import registry as r
from debias_nb.data.sentences import GENERAL_TEXTS
from debias_nb.data.texts import read_texts

GOOD = b"duplicate\tone?\ttwo?\n" * 2000
WRONG = b"duplicate\tONE?\ttwo?\n" * 2000
SHA = hashlib.sha256(GOOD).hexdigest()


def demo(*files):
    description = dict(title="Demo", licence="CC0", citation="nobody", by_hand="ask")
    return r.Registry(datasets={"demo": r.DataSet(files=files, **description)})


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    "A folder of data."
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path / "given"))
    folder = tmp_path / "given/demo"
    folder.mkdir(parents=True)
    return folder


def test_a_file_is_hashed_again_when_it_has_changed(data_folder, monkeypatch):
    registry = demo(r.DataFile(file="a.tsv", sha256=SHA, format="tsv"))
    path = data_folder / "a.tsv"
    path.write_bytes(GOOD)
    assert r.locate("demo", "a.tsv", registry=registry) == path
    later = path.stat().st_mtime_ns + 1_000_000
    path.write_bytes(WRONG)
    os.utime(path, ns=(later, later)) # the same size
    with pytest.raises(r.ChangedData) as e:
        r.locate("demo", "a.tsv", registry=registry)
    for part in (str(path), SHA, hashlib.sha256(WRONG).hexdigest()):
        assert part in str(e.value)
    assert path.read_bytes() == WRONG
    row = r.inventory(registry)[0]
    assert (row["status"], row["path"]) == ("refused", None) and SHA in row["how"]
    monkeypatch.setattr(r, "sha256_file", lambda *a, **k: pytest.fail("hashed again"))
    with pytest.raises(r.ChangedData):
        r.locate("demo", "a.tsv", registry=registry)


def _unreachable(*_, **__):
    raise OSError("a pool of connections " + "and what stands in it " * 30)


def test_a_missing_file_is_told_with_the_way_out_first(data_folder, monkeypatch):
    monkeypatch.setattr("pooch.retrieve", _unreachable)
    registry = demo(r.DataFile(file="a.tsv", sha256=SHA, bytes=len(GOOD), format="tsv", url="https://example.org/a"))
    with pytest.raises(r.MissingData) as e:
        r.locate("demo", "a.tsv", registry=registry)
    problem, way, *_, last = str(e.value).splitlines()
    assert problem == "demo/a.tsv is missing: the download failed (OSError)"
    assert "place it as demo/a.tsv" in way and "https://example.org/a" in way and "a pool of connections" in last


def test_general_texts_that_are_not_here_may_be_given(data_folder, monkeypatch):
    monkeypatch.setattr("pooch.retrieve", _unreachable)
    with pytest.raises(r.MissingData) as e:
        read_texts(GENERAL_TEXTS)
    problem, own_texts, way, *_ = str(e.value).splitlines()
    assert "is missing" in problem and "texts of your own" in own_texts and "place it as" in way


def test_a_name_in_git_is_a_hash_too(data_folder):
    "As `git hash-object` gives it. One that has none is refused where a hash is required, and nowhere else."
    command = ["git", "hash-object", "--stdin"]
    blob = subprocess.run(command, input=GOOD, capture_output=True, check=True).stdout.decode().strip()
    registry = demo(r.DataFile(file="b.tsv", format="tsv", git_blob=blob), r.DataFile(file="c.tsv", format="tsv"))
    path = data_folder / "b.tsv"
    path.write_bytes(GOOD)
    (data_folder / "c.tsv").write_bytes(GOOD)
    assert r.locate("demo", "b.tsv", registry=registry, require_hash=True) == path
    with pytest.raises(r.UnknownData, match="c.tsv"):
        r.locate("demo", "c.tsv", registry=registry, require_hash=True)
    assert r.locate("demo", "c.tsv", registry=registry)
    path.write_bytes(WRONG + b"longer")
    with pytest.raises(r.ChangedData, match=blob):
        r.locate("demo", "b.tsv", registry=registry)


OWN_REGISTRY = """datasets:
  {name}:
    title: Ours
    licence: none
    citation: none
    by_hand: made here
    files: [{{file: a.tsv, format: tsv}}]
"""


def test_a_registry_of_ones_own(tmp_path, monkeypatch):
    "Beside the data, with names of its own."
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path))
    names = set(r.load_registry().datasets)
    (tmp_path / "datasets.yaml").write_text(OWN_REGISTRY.format(name="ours"))
    assert set(r.load_registry().datasets) == names | {"ours"}
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/a.tsv").write_text("x")
    assert r.locate("ours", "a.tsv") == tmp_path / "ours/a.tsv"
    (tmp_path / "datasets.yaml").write_text(OWN_REGISTRY.format(name="superuser"))
    with pytest.raises(ConfigError, match="superuser"):
        r.load_registry()
    monkeypatch.delenv("DEBIAS_NB_DATA")
    assert set(r.load_registry().datasets) == names


# ---- what the project ships


@pytest.mark.parametrize("name", r.load_registry().datasets)
def test_a_shipped_data_set_is_pinned_or_says_how_to_come_by_it(name):
    "A corpus that is added needs no line here."
    dataset = r.load_registry().datasets[name]
    assert dataset.by_hand or all(file.url for file in dataset.files), "how to come by them"
    assert all(file.bytes for file in dataset.files if file.sha256)
    assert all(file.url.startswith("https://") for file in dataset.files if file.url)
    assert len({file.file for file in dataset.files}) == len(dataset.files)


def test_no_two_downloads_are_the_same():
    downloads = [file for dataset in r.load_registry().datasets.values() for file in dataset.files if file.url]
    assert downloads and all(file.sha256 for file in downloads)
    assert len({file.url for file in downloads}) == len({file.sha256 for file in downloads}) == len(downloads)


ENTRY = {"file": "a.tsv", "format": "tsv", "url": "https://example.org/a", "sha256": "0" * 64, "bytes": 3}


@pytest.mark.parametrize("mistake, field", [
    ({"file": "../a.tsv"}, "file"),
    ({"bytes": -1}, "bytes"),
    ({"sha256": "ABC"}, "sha256"),
    ({"sha256": None}, "sha256"),
    ({"url": "ftp://example.org/a"}, "url"),
    ({"url": "https://github.com/a/b/raw/main/c"}, "commit"),
])
def test_mistakes_in_the_registry_are_named(mistake, field):
    with pytest.raises(ValueError, match=field):
        r.DataFile(**ENTRY | mistake)
