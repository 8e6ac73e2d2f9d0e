"Downloads that are killed or come all at once, hashes, registries of one's own; the registry that the project ships."
import hashlib
import http.server
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from debias_nb.checks import ConfigError
from debias_nb.data import registry as r

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
SHA = hashlib.sha256(GOOD).hexdigest()


def demo(*files):
    about = dict(title="Demo", licence="CC0", citation="nobody", by_hand="ask")
    return r.Registry(datasets={"demo": r.DataSet(files=files, **about)})


@pytest.fixture
def site(tmp_path, monkeypatch):
    "A site with one file, an empty cache, an empty data folder, and a registry of the file."

    class Site(http.server.BaseHTTPRequestHandler):
        hits = 0
        slow = False

        def do_GET(self):
            Site.hits += 1
            self.send_response(200)
            self.send_header("Content-Length", str(len(GOOD)))
            self.end_headers()
            self.wfile.write(GOOD[:len(GOOD) // 3])
            if Site.slow:
                self.wfile.flush()
                time.sleep(20)
            self.wfile.write(GOOD[len(GOOD) // 3:])

        def log_message(self, *args):
            pass

        @classmethod
        def locate(cls, **options):
            return r.locate("demo", "a.tsv", registry=cls.registry, **options)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, args=(.01,), daemon=True).start()
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path / "given"))
    Site.url = f"http://127.0.0.1:{server.server_port}/a.tsv"
    Site.registry = demo(r.DataFile(file="a.tsv", url=Site.url, sha256=SHA, bytes=len(GOOD), format="tsv"))
    Site.cache = tmp_path / "cache/data/demo"
    Site.given = tmp_path / "given/demo"
    Site.given.mkdir(parents=True)
    yield Site
    server.shutdown()
    server.server_close()


LOCATE = """
import sys
from debias_nb.data import registry as r

url, sha256, size = sys.argv[1:]
file = r.DataFile(file="a.tsv", url=url, sha256=sha256, bytes=int(size), format="tsv")
about = r.DataSet(title="D", licence="-", citation="-", files=[file])
r.locate("demo", "a.tsv", registry=r.Registry(datasets={"demo": about}))
"""


def test_a_process_killed_while_downloading_leaves_no_file(site):
    def begun():
        return site.cache.exists() and any(path.stat().st_size for path in site.cache.iterdir())

    site.slow = True
    child = subprocess.Popen([sys.executable, "-c", LOCATE, site.url, SHA, str(len(GOOD))], stderr=subprocess.DEVNULL)
    deadline = time.time() + 20
    while not begun() and time.time() < deadline:
        time.sleep(.05)
    child.kill()
    child.wait()
    assert begun(), "it was killed in the middle"
    assert not (site.cache / "a.tsv").exists()
    site.slow = False
    assert site.locate().read_bytes() == GOOD


def test_a_file_is_downloaded_once_and_only_if_allowed(site):
    with pytest.raises(r.MissingData, match="a.tsv"):
        site.locate(download=False)
    assert site.hits == 0
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: site.locate(), range(16)))
    assert set(paths) == {site.cache / "a.tsv"}
    assert paths[0].read_bytes() == GOOD
    assert [path.name for path in site.cache.iterdir()] == ["a.tsv"]
    hits = site.hits
    site.locate()
    assert site.hits == hits


def test_a_file_is_hashed_again_when_it_has_changed(site, monkeypatch):
    path = site.locate()
    changed = path.stat().st_mtime_ns + 1_000_000
    path.write_bytes(WRONG)
    os.utime(path, ns=(changed, changed)) # the same size
    with pytest.raises(r.ChangedData) as e:
        site.locate()
    for part in (str(path), SHA, hashlib.sha256(WRONG).hexdigest()):
        assert part in str(e.value)
    assert path.read_bytes() == WRONG
    row = r.inventory(site.registry)[0]
    assert (row["status"], row["path"]) == ("refused", None) and SHA in row["how"]
    monkeypatch.setattr(r, "sha256_file", lambda *a, **k: pytest.fail("hashed again"))
    with pytest.raises(r.ChangedData):
        site.locate()


def test_a_name_in_git_is_a_hash_too(site):
    "As `git hash-object` gives it. What fails inside `only_pinned` leaves no trace outside."
    command = ["git", "hash-object", "--stdin"]
    blob = subprocess.run(command, input=GOOD, capture_output=True, check=True).stdout.decode().strip()
    registry = demo(r.DataFile(file="b.tsv", format="tsv", git_blob=blob), r.DataFile(file="c.tsv", format="tsv"))
    path = site.given / "b.tsv"
    path.write_bytes(GOOD)
    (site.given / "c.tsv").write_bytes(GOOD)
    with pytest.raises(r.UnknownData, match="c.tsv"), r.only_pinned():
        assert r.locate("demo", "b.tsv", registry=registry) == path
        r.locate("demo", "c.tsv", registry=registry)
    assert r.locate("demo", "c.tsv", registry=registry)
    path.write_bytes(WRONG + b"longer")
    with pytest.raises(r.ChangedData, match=blob):
        r.locate("demo", "b.tsv", registry=registry)


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
    with pytest.raises(ConfigError, match="superuser"):
        r.load_registry()
    monkeypatch.delenv("DEBIAS_NB_DATA")
    assert set(r.load_registry().datasets) == known


# ---- what the project ships


def test_shipped_registry_is_pinned():
    registry = r.load_registry()
    of_hands = [registry.entry(*name) for name in BY_HAND_FILES]
    assert all(f.url is None and f.sha256 is None and f.git_blob for f in of_hands)
    downloaded = []
    for name, about in registry.datasets.items():
        files = [f for f in about.files if (name, f.file) not in BY_HAND_FILES]
        assert about.by_hand or all(f.url for f in about.files), "how to come by them"
        if name in BY_HAND:
            assert all(f.url is None and f.sha256 is None for f in files)
        elif name in DERIVED:
            assert all(f.url is None and f.sha256 and f.bytes for f in files)
        else:
            assert all(f.url.startswith("https://") and f.sha256 and f.bytes for f in files)
            downloaded += files
        assert len({f.file for f in about.files}) == len(about.files)
    assert len({f.url for f in downloaded}) == len({f.sha256 for f in downloaded}) == len(downloaded)


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
