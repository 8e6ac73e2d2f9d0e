"Faults of downloads and of files at hand; the registry that the project ships."
import hashlib
import http.server
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from debias_nb.data import registry as r
from debias_nb.config import ConfigError

BY_HAND = {
    "superuser", "askubuntu_shah", "qqp", "asnq", "lf_amazontitles131k", "lf_amazontitles1_3m", "pan20_train",
    "pan20_test", "pan21_test", "amazon2018_reviews", "reddit_pushshift",
}
# the other files of these have addresses
BY_HAND_FILES = {("selqa", "selqa-ass-train.tsv"), ("antique", "scan-train.tsv")}
# made from a published file: no address, but a hash
DERIVED = {"amazon2014_music_alsobought", "pan19_fanfiction", "reddit_tldr_users", "newsgroups20_authors"}

GOOD = b"duplicate\tone?\ttwo?\n" * 2000
WRONG = b"duplicate\tONE?\ttwo?\n" * 2000


def sha256_of(data):
    return hashlib.sha256(data).hexdigest()


SHA = sha256_of(GOOD)


class Site(http.server.BaseHTTPRequestHandler):
    mode = "good"
    hits = 0

    def do_GET(self):
        type(self).hits += 1
        mode = type(self).mode
        self.send_response(404 if mode == "gone" else 200)
        self.send_header("Content-Length", str(len(GOOD)))
        self.end_headers()
        if mode == "broken off":
            self.wfile.write(GOOD[:len(GOOD) // 3])
        elif mode == "wrong":
            self.wfile.write(WRONG)
        elif mode == "good":
            self.wfile.write(GOOD)
        elif mode == "slow":
            self.wfile.write(GOOD[:len(GOOD) // 3])
            self.wfile.flush()
            time.sleep(20)

    def log_message(self, *args):
        pass

    @classmethod
    def locate(cls, file, **options):
        return r.locate("demo", file, registry=cls.registry, **options)

    @classmethod
    def give(cls, file, data):
        "Place a file by hand."
        cls.given.mkdir(parents=True, exist_ok=True)
        (cls.given / file).write_bytes(data)
        return cls.given / file

    @classmethod
    def cached(cls):
        return list(cls.cache.iterdir()) if cls.cache.exists() else []


def demo(*files):
    about = dict(title="Demo", licence="CC0", citation="nobody", by_hand="ask")
    return r.Registry(datasets={"demo": r.DataSet(files=files, **about)})


@pytest.fixture
def world(tmp_path, monkeypatch):
    "A site, an empty cache, an empty data folder, and a registry with one file on the site and one to place by hand."

    class Own(Site):
        mode = "good"
        hits = 0

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Own)
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, args=(.01,), daemon=True).start()
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path / "given"))
    url = f"http://127.0.0.1:{server.server_port}/a.tsv"
    on_the_site = r.DataFile(file="a.tsv", url=url, sha256=SHA, bytes=len(GOOD), format="tsv")
    Own.registry = demo(on_the_site, r.DataFile(file="b.tsv", format="tsv by hand"))
    Own.cache = tmp_path / "cache/data/demo"
    Own.given = tmp_path / "given/demo"
    Own.server = server
    yield Own
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("mode, error, words", [
    ("broken off", r.MissingData, "download failed"),
    ("gone", r.MissingData, "404"),
    ("wrong", r.ChangedData, sha256_of(WRONG)),
])
def test_failed_download_leaves_nothing(world, mode, error, words):
    world.mode = mode
    with pytest.raises(error, match=words) as e:
        world.locate("a.tsv")
    assert not world.cached()
    if error is r.ChangedData:
        assert SHA in str(e.value)
        assert "127.0.0.1" in str(e.value)
    else:
        assert str(world.cache / "a.tsv") in str(e.value)
        assert str(world.given / "a.tsv") in str(e.value)
        assert "place it as demo/a.tsv" in str(e.value)
    world.mode = "good"
    assert world.locate("a.tsv").read_bytes() == GOOD
    assert [p.name for p in world.cached()] == ["a.tsv"]


def test_where_nobody_answers_nothing_is_left(world):
    world.server.shutdown()
    world.server.server_close()
    with pytest.raises(r.MissingData, match="download failed"):
        world.locate("a.tsv")
    assert not world.cached()


LOCATE = """
import sys
from debias_nb.data import registry as r

url, sha256, size = sys.argv[1:]
file = r.DataFile(file="a.tsv", url=url, sha256=sha256, bytes=int(size), format="tsv")
about = r.DataSet(title="D", licence="-", citation="-", files=[file])
r.locate("demo", "a.tsv", registry=r.Registry(datasets={"demo": about}))
"""


def test_a_process_killed_while_downloading_leaves_no_file(world):
    def begun():
        return any(p.stat().st_size for p in world.cached())

    world.mode = "slow"
    url = f"http://127.0.0.1:{world.server.server_port}/a.tsv"
    child = subprocess.Popen([sys.executable, "-c", LOCATE, url, SHA, str(len(GOOD))], stderr=subprocess.DEVNULL)
    deadline = time.time() + 20
    while not begun() and time.time() < deadline:
        time.sleep(.05)
    child.kill()
    child.wait()
    assert begun(), "it was killed in the middle"
    assert not (world.cache / "a.tsv").exists()
    world.mode = "good"
    assert world.locate("a.tsv").read_bytes() == GOOD


def test_many_at_once_get_one_file(world):
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: world.locate("a.tsv"), range(16)))
    assert set(paths) == {world.cache / "a.tsv"}
    assert paths[0].read_bytes() == GOOD
    assert [p.name for p in world.cached()] == ["a.tsv"]


def test_downloads_once_and_only_if_allowed(world):
    with pytest.raises(r.MissingData, match="downloads are off"):
        world.locate("a.tsv", download=False)
    assert world.hits == 0
    for _ in range(3):
        world.locate("a.tsv")
    assert world.hits == 1


@pytest.mark.parametrize("where", ["cache", "given"])
def test_other_contents_are_refused_and_kept(world, where):
    folder = getattr(world, where)
    folder.mkdir(parents=True)
    (folder / "a.tsv").write_bytes(WRONG)
    with pytest.raises(r.ChangedData) as e:
        world.locate("a.tsv")
    for part in (str(folder / "a.tsv"), SHA, sha256_of(WRONG)):
        assert part in str(e.value)
    assert (folder / "a.tsv").read_bytes() == WRONG
    assert world.hits == 0
    row = next(x for x in r.inventory(world.registry) if x["file"] == "a.tsv")
    assert row["status"] == "refused"
    assert row["path"] is None
    assert SHA in row["how"]


def test_a_wrong_file_is_not_passed_over(world):
    "A right file in the cache does not hide a wrong one in DEBIAS_NB_DATA."
    world.locate("a.tsv")
    world.give("a.tsv", WRONG)
    with pytest.raises(r.ChangedData):
        world.locate("a.tsv")
    world.give("a.tsv", GOOD)
    assert world.locate("a.tsv") == world.given / "a.tsv"


def test_a_file_placed_by_hand_is_found_unverified(world):
    with pytest.raises(r.MissingData, match="place it as demo/b.tsv"):
        world.locate("b.tsv")
    world.give("b.tsv", b"anything")
    assert world.locate("b.tsv") == world.given / "b.tsv"
    row = r.inventory(world.registry)[1]
    assert row["status"] == "here, unverified"
    assert row["sha256"] == sha256_of(b"anything")
    assert row["bytes"] == 8


def test_runs_take_nothing_on_trust(world):
    "A file without a hash is read for whoever asks, and is missing where numbers come under the name of its corpus."
    world.give("b.tsv", b"anything")
    with r.only_pinned():
        assert world.locate("a.tsv").read_bytes() == GOOD
        with pytest.raises(r.UnknownData) as e:
            world.locate("b.tsv")
        with pytest.raises(r.MissingData, match="no hash of this file is known"):
            world.locate("b.tsv")
    message = str(e.value)
    assert "demo/b.tsv is not used" in message
    assert str(world.given / "b.tsv") in message
    assert f"`sha256: {sha256_of(b'anything')}` and `bytes: 8`" in message
    assert "'Demo'" in message
    assert world.locate("b.tsv") == world.given / "b.tsv"


def test_runs_do_not_take_nothing_on_trust_for_ever(world):
    "What fails inside leaves no trace outside."
    world.give("b.tsv", b"anything")
    with pytest.raises(KeyError), r.only_pinned():
        raise KeyError
    assert world.locate("b.tsv")


def test_a_name_in_git_is_a_hash_too(world):
    "As `git hash-object` gives it."
    command = ["git", "hash-object", "--stdin"]
    blob = subprocess.run(command, input=GOOD, capture_output=True, check=True).stdout.decode().strip()
    registry = demo(r.DataFile(file="b.tsv", format="tsv by hand", git_blob=blob))
    path = world.give("b.tsv", GOOD)
    with r.only_pinned():
        assert r.locate("demo", "b.tsv", registry=registry) == path
    path.write_bytes(WRONG + b"longer")
    with pytest.raises(r.ChangedData, match=f"b.tsv: git blob [0-9a-f]+ .*, expected {blob}"):
        r.locate("demo", "b.tsv", registry=registry)
    assert r.inventory(registry)[0]["status"] == "refused"


OWN = """datasets:
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
    known = set(r.load_registry().datasets)
    (tmp_path / "datasets.yaml").write_text(OWN.format(name="ours"))
    assert set(r.load_registry().datasets) == known | {"ours"}
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/a.tsv").write_text("x")
    assert r.locate("ours", "a.tsv") == tmp_path / "ours/a.tsv"
    (tmp_path / "datasets.yaml").write_text(OWN.format(name="superuser"))
    message = "'superuser' is a data set of the package; data of your own need another name"
    with pytest.raises(ConfigError, match=message):
        r.load_registry()
    monkeypatch.delenv("DEBIAS_NB_DATA")
    assert set(r.load_registry().datasets) == known


def test_unset_and_missing_folders_are_named(world, monkeypatch):
    with pytest.raises(r.MissingData, match="no such folder"):
        world.locate("b.tsv")
    monkeypatch.setenv("DEBIAS_NB_DATA", "")
    with pytest.raises(r.MissingData, match="DEBIAS_NB_DATA is not set"):
        world.locate("b.tsv")


def test_a_changed_file_is_hashed_again(world):
    path = world.locate("a.tsv")
    changed = path.stat().st_mtime_ns + 1_000_000
    path.write_bytes(WRONG)
    os.utime(path, ns=(changed, changed)) # the same size
    assert len(GOOD) == len(WRONG)
    with pytest.raises(r.ChangedData):
        world.locate("a.tsv")


def test_verified_once_in_a_process(world, monkeypatch):
    world.locate("a.tsv")
    world.locate("a.tsv")
    monkeypatch.setattr(r, "sha256_file", lambda *a, **k: pytest.fail("hashed again"))
    world.locate("a.tsv")


# ---- what the project ships


def test_shipped_registry_is_pinned():
    registry = r.load_registry()
    assert set(registry.datasets) >= {"askubuntu", "quora", "superuser"}
    of_hands = [registry.entry(*name) for name in BY_HAND_FILES]
    assert all(f.url is None and f.sha256 is None and f.git_blob for f in of_hands)

    downloaded = []
    for name, about in registry.datasets.items():
        files = [f for f in about.files if (name, f.file) not in BY_HAND_FILES]
        if name in BY_HAND:
            assert all(f.url is None and f.sha256 is None for f in files)
        elif name in DERIVED:
            assert all(f.url is None and f.sha256 and f.bytes for f in files)
        else:
            assert all(f.url.startswith("https://") and f.sha256 and f.bytes for f in files)
            downloaded += files
    assert len({f.url for f in downloaded}) == len({f.sha256 for f in downloaded}) == len(downloaded)


ENTRY = {"file": "a.tsv", "format": "tsv", "url": "https://example.org/a", "sha256": "'" + "0" * 64 + "'", "bytes": "3"}
ABOUT = """datasets:
  demo:
    title: D
    licence: L
    citation: C
    files:
"""


@pytest.mark.parametrize("line, words", [
    ("sha265: abc", "did you mean 'sha256'"),
    ("file: ../a.tsv", "should match pattern"),
    ("bytes: -1", "greater than or equal to 1"),
    ("sha256: ABC", "should match pattern"),
    ("url: ftp://example.org/a", "should match pattern"),
    ("url: https://github.com/a/b/raw/main/c", "must name a commit"),
])
def test_mistakes_in_the_registry_are_named(tmp_path, line, words):
    key, value = line.split(": ", 1)
    entry = ", ".join(f"{k}: {v}" for k, v in (ENTRY | {key: value}).items())
    (tmp_path / "datasets.yaml").write_text(ABOUT + "      - {" + entry + "}\n")
    with pytest.raises(ConfigError, match="/datasets.yaml: datasets.demo.files.0") as e:
        r.load_registry(tmp_path / "datasets.yaml")
    assert words in str(e.value)


def test_importing_loads_no_heavy_package(heavy_after):
    assert heavy_after("debias_nb.data.questions", "debias_nb.data.registry") == "[]"


def is_by_hand(row):
    return row["dataset"] in BY_HAND or (row["dataset"], row["file"]) in BY_HAND_FILES


WITHOUT_DATA = "DEBIAS_NB_DATA is not set: no published files to verify"


@pytest.mark.skipif(not os.environ.get("DEBIAS_NB_DATA"), reason=WITHOUT_DATA)
def test_published_files_have_the_hashes():
    rows = [row for row in r.inventory() if not is_by_hand(row) and row["status"] != "missing"]
    if not rows:
        pytest.skip("DEBIAS_NB_DATA holds none of the registered files")
    for row in rows:
        assert row["status"] == "here", row
        assert Path(row["path"]).stat().st_size == row["bytes"], row
