"Faults of downloads and of files at hand; the registry that the project ships."
import hashlib, http.server, os, subprocess, sys, textwrap, threading, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from debias_nb.data import registry as r
from debias_nb.config import ConfigError

BY_HAND = {"superuser", "askubuntu_shah", "qqp", "asnq", "lf_amazontitles131k", "lf_amazontitles1_3m", "pan20_train", "pan20_test", "pan21_test", "amazon2018_reviews", "reddit_pushshift"}
BY_HAND_FILES = {("selqa", "selqa-ass-train.tsv"), ("antique", "scan-train.tsv")} # the other files of these have addresses
DERIVED = {"amazon2014_music_alsobought", "pan19_fanfiction", "reddit_tldr_users", "newsgroups20_authors"} # made from a published file: no address, but a hash

GOOD, WRONG = b"duplicate\tone?\ttwo?\n" * 2000, b"duplicate\tONE?\ttwo?\n" * 2000
SHA = hashlib.sha256(GOOD).hexdigest()


class Site(http.server.BaseHTTPRequestHandler):
    mode, hits = "good", 0

    def do_GET(self):
        type(self).hits += 1
        mode = type(self).mode
        self.send_response(404 if mode == "gone" else 200)
        self.send_header("Content-Length", str(len(GOOD)))
        self.end_headers()
        if mode == "broken off": self.wfile.write(GOOD[:len(GOOD) // 3])
        elif mode == "wrong": self.wfile.write(WRONG)
        elif mode == "good": self.wfile.write(GOOD)
        elif mode == "slow":
            self.wfile.write(GOOD[:len(GOOD) // 3]); self.wfile.flush(); time.sleep(20)

    def log_message(self, *args): pass


@pytest.fixture
def world(tmp_path, monkeypatch):
    "A site, an empty cache, an empty data folder, and a registry with one file on the site and one to place by hand."
    class Own(Site): mode, hits = "good", 0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Own)
    server.daemon_threads = True; server.block_on_close = False
    threading.Thread(target=server.serve_forever, args=(.01,), daemon=True).start()
    for name in ("no_proxy", "NO_PROXY"): monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache")); monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path / "given"))
    files = [r.DataFile(file="a.tsv", url=f"http://127.0.0.1:{server.server_port}/a.tsv", sha256=SHA, bytes=len(GOOD), format="tsv"), r.DataFile(file="b.tsv", format="tsv by hand")]
    registry = r.Registry(datasets={"demo": r.DataSet(title="Demo", licence="CC0", citation="nobody", by_hand="ask", files=files)})
    Own.registry, Own.cache, Own.given, Own.server = registry, tmp_path / "cache/data/demo", tmp_path / "given/demo", server
    yield Own
    server.shutdown(); server.server_close()


def nothing_left(world): return not world.cache.exists() or not list(world.cache.iterdir())


@pytest.mark.parametrize("mode, error, words", [("broken off", r.MissingData, "download failed"), ("gone", r.MissingData, "404"), ("wrong", r.ChangedData, hashlib.sha256(WRONG).hexdigest())])
def test_failed_download_leaves_nothing(world, mode, error, words):
    world.mode = mode
    with pytest.raises(error, match=words) as e: r.locate("demo", "a.tsv", registry=world.registry)
    assert nothing_left(world)
    if error is r.ChangedData: assert SHA in str(e.value) and "127.0.0.1" in str(e.value)
    else: assert str(world.cache / "a.tsv") in str(e.value) and str(world.given / "a.tsv") in str(e.value) and "place it as demo/a.tsv" in str(e.value)
    world.mode = "good"
    assert r.locate("demo", "a.tsv", registry=world.registry).read_bytes() == GOOD
    assert [p.name for p in world.cache.iterdir()] == ["a.tsv"]


def test_nobody_answers(world):
    world.server.shutdown(); world.server.server_close()
    with pytest.raises(r.MissingData, match="download failed"): r.locate("demo", "a.tsv", registry=world.registry)
    assert nothing_left(world)


def test_killed_while_downloading(world, tmp_path):
    world.mode = "slow"
    code = textwrap.dedent(f"""
        from debias_nb.data import registry as r
        file = r.DataFile(file="a.tsv", url="http://127.0.0.1:{world.server.server_port}/a.tsv", sha256="{SHA}", bytes={len(GOOD)}, format="tsv")
        r.locate("demo", "a.tsv", registry=r.Registry(datasets={{"demo": r.DataSet(title="D", licence="-", citation="-", files=[file])}}))""")
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    deadline = time.time() + 20
    while not (world.cache.exists() and any(p.stat().st_size for p in world.cache.iterdir())) and time.time() < deadline: time.sleep(.05)
    child.kill(); child.wait()
    assert any(p.stat().st_size for p in world.cache.iterdir()), "it was killed in the middle"
    assert not (world.cache / "a.tsv").exists()
    world.mode = "good"
    assert r.locate("demo", "a.tsv", registry=world.registry).read_bytes() == GOOD


def test_many_at_once(world):
    with ThreadPoolExecutor(8) as pool: paths = list(pool.map(lambda _: r.locate("demo", "a.tsv", registry=world.registry), range(16)))
    assert set(paths) == {world.cache / "a.tsv"} and paths[0].read_bytes() == GOOD
    assert [p.name for p in world.cache.iterdir()] == ["a.tsv"]


def test_downloads_once_and_only_if_allowed(world):
    with pytest.raises(r.MissingData, match="downloads are off"): r.locate("demo", "a.tsv", download=False, registry=world.registry)
    assert world.hits == 0
    for _ in range(3): r.locate("demo", "a.tsv", registry=world.registry)
    assert world.hits == 1


@pytest.mark.parametrize("where", ["cache", "given"])
def test_other_contents_are_refused_and_kept(world, where):
    folder = getattr(world, where); folder.mkdir(parents=True)
    (folder / "a.tsv").write_bytes(WRONG)
    with pytest.raises(r.ChangedData) as e: r.locate("demo", "a.tsv", registry=world.registry)
    assert all(part in str(e.value) for part in (str(folder / "a.tsv"), SHA, hashlib.sha256(WRONG).hexdigest()))
    assert (folder / "a.tsv").read_bytes() == WRONG and world.hits == 0
    row = next(x for x in r.inventory(world.registry) if x["file"] == "a.tsv")
    assert row["status"] == "refused" and row["path"] is None and SHA in row["how"]


def test_a_wrong_file_is_not_passed_over(world):
    "A right file in the cache does not hide a wrong one in DEBIAS_NB_DATA."
    r.locate("demo", "a.tsv", registry=world.registry)
    world.given.mkdir(parents=True); (world.given / "a.tsv").write_bytes(WRONG)
    with pytest.raises(r.ChangedData): r.locate("demo", "a.tsv", registry=world.registry)
    (world.given / "a.tsv").write_bytes(GOOD)
    assert r.locate("demo", "a.tsv", registry=world.registry) == world.given / "a.tsv"


def test_by_hand(world):
    with pytest.raises(r.MissingData, match="place it as demo/b.tsv"): r.locate("demo", "b.tsv", registry=world.registry)
    world.given.mkdir(parents=True); (world.given / "b.tsv").write_bytes(b"anything")
    assert r.locate("demo", "b.tsv", registry=world.registry) == world.given / "b.tsv"
    row = r.inventory(world.registry)[1]
    assert (row["status"], row["sha256"], row["bytes"]) == ("here, unverified", hashlib.sha256(b"anything").hexdigest(), 8)


def test_runs_take_nothing_on_trust(world):
    "A file without a hash is read for whoever asks, and is missing where numbers come under the name of its corpus."
    world.given.mkdir(parents=True)
    (world.given / "b.tsv").write_bytes(b"anything")
    with r.only_pinned():
        assert r.locate("demo", "a.tsv", registry=world.registry).read_bytes() == GOOD
        with pytest.raises(r.UnknownData) as e:
            r.locate("demo", "b.tsv", registry=world.registry)
        with pytest.raises(r.MissingData, match="no hash of this file is known"):
            r.locate("demo", "b.tsv", registry=world.registry)
    for words in ("demo/b.tsv is not used", str(world.given / "b.tsv"), f"`sha256: {hashlib.sha256(b'anything').hexdigest()}` and `bytes: 8`", "'Demo'"):
        assert words in str(e.value)
    assert r.locate("demo", "b.tsv", registry=world.registry) == world.given / "b.tsv"


def test_runs_do_not_take_nothing_on_trust_for_ever(world):
    "What fails inside leaves no trace outside."
    world.given.mkdir(parents=True)
    (world.given / "b.tsv").write_bytes(b"anything")
    with pytest.raises(KeyError), r.only_pinned():
        raise KeyError
    assert r.locate("demo", "b.tsv", registry=world.registry)


def test_a_name_in_git_is_a_hash_too(world):
    "As `git hash-object` gives it."
    blob = subprocess.run(["git", "hash-object", "--stdin"], input=GOOD, capture_output=True, check=True).stdout.decode().strip()
    about = world.registry.datasets["demo"]
    pinned = r.DataFile(file="b.tsv", format="tsv by hand", git_blob=blob)
    registry = r.Registry(datasets={"demo": about.model_copy(update={"files": (pinned,)})})
    world.given.mkdir(parents=True)
    path = world.given / "b.tsv"
    path.write_bytes(GOOD)
    with r.only_pinned():
        assert r.locate("demo", "b.tsv", registry=registry) == path
    path.write_bytes(WRONG + b"longer")
    with pytest.raises(r.ChangedData, match=f"b.tsv: git blob [0-9a-f]+ .*, expected {blob}"):
        r.locate("demo", "b.tsv", registry=registry)
    assert r.inventory(registry)[0]["status"] == "refused"


OWN = "datasets:\n  {name}: {{title: Ours, licence: none, citation: none, by_hand: made here, files: [{{file: a.tsv, format: tsv}}]}}\n"


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
    with pytest.raises(ConfigError, match="'superuser' is a data set of the package; data of your own need another name"):
        r.load_registry()
    monkeypatch.delenv("DEBIAS_NB_DATA")
    assert set(r.load_registry().datasets) == known


def test_unset_and_missing_folders_are_named(world, monkeypatch):
    with pytest.raises(r.MissingData, match="no such folder"): r.locate("demo", "b.tsv", registry=world.registry)
    monkeypatch.setenv("DEBIAS_NB_DATA", "")
    with pytest.raises(r.MissingData, match="DEBIAS_NB_DATA is not set"): r.locate("demo", "b.tsv", registry=world.registry)


def test_a_changed_file_is_hashed_again(world):
    path = r.locate("demo", "a.tsv", registry=world.registry)
    changed = path.stat().st_mtime_ns + 1_000_000
    path.write_bytes(WRONG); os.utime(path, ns=(changed, changed)) # the same size
    assert len(GOOD) == len(WRONG)
    with pytest.raises(r.ChangedData): r.locate("demo", "a.tsv", registry=world.registry)


def test_verified_once_in_a_process(world, monkeypatch):
    r.locate("demo", "a.tsv", registry=world.registry); r.locate("demo", "a.tsv", registry=world.registry)
    monkeypatch.setattr(r, "sha256_file", lambda *a, **k: pytest.fail("hashed again"))
    r.locate("demo", "a.tsv", registry=world.registry)


# ---- what the project ships

def test_shipped_registry_is_pinned():
    registry = r.load_registry()
    assert set(registry.datasets) >= {"askubuntu", "quora", "superuser"}
    files = [(name, f) for name, about in registry.datasets.items() for f in about.files if (name, f.file) not in BY_HAND_FILES]
    assert all(registry.entry(*f).url is registry.entry(*f).sha256 is None and registry.entry(*f).git_blob for f in BY_HAND_FILES)
    assert all(f.url.startswith("https://") and f.sha256 and f.bytes for name, f in files if name not in BY_HAND | DERIVED)
    assert all(f.url is None and f.sha256 is None for name, f in files if name in BY_HAND)
    assert all(f.url is None and f.sha256 and f.bytes for name, f in files if name in DERIVED)
    assert len({f.url for _, f in files if f.url}) == len({f.sha256 for _, f in files if f.url}) == sum(f.url is not None for _, f in files)


@pytest.mark.parametrize("line, words", [("sha265: abc", "did you mean 'sha256'"), ("file: ../a.tsv", "should match pattern"), ("bytes: -1", "greater than or equal to 1"),
                                         ("sha256: ABC", "should match pattern"), ("url: ftp://example.org/a", "should match pattern"), ("url: https://github.com/a/b/raw/main/c", "must name a commit")])
def test_mistakes_in_the_registry(tmp_path, line, words):
    entry = dict(file="a.tsv", format="tsv", url="https://example.org/a", sha256="0" * 64, bytes=3) | dict([line.split(": ", 1)])
    (tmp_path / "datasets.yaml").write_text("datasets:\n  demo:\n    title: D\n    licence: L\n    citation: C\n    files:\n      - {" + ", ".join(f"{k}: '{v}'" for k, v in entry.items()).replace("'-1'", "-1").replace("'3'", "3") + "}\n")
    with pytest.raises(ConfigError, match="/datasets.yaml: datasets.demo.files.0") as e: r.load_registry(tmp_path / "datasets.yaml")
    assert words in str(e.value)


def test_light_to_import():
    heavy = subprocess.run([sys.executable, "-c", "import sys, debias_nb.data.registry, debias_nb.data.questions; print([m for m in ('torch', 'pandas', 'scipy', 'matplotlib', 'transformers') if m in sys.modules])"],
                           capture_output=True, text=True, check=True).stdout.strip()
    assert heavy == "[]"


@pytest.mark.skipif(not os.environ.get("DEBIAS_NB_DATA"), reason="DEBIAS_NB_DATA is not set: no published files to verify")
def test_published_files_have_the_hashes():
    rows = [row for row in r.inventory() if row["dataset"] not in BY_HAND and (row["dataset"], row["file"]) not in BY_HAND_FILES and row["status"] != "missing"]
    if not rows: pytest.skip("DEBIAS_NB_DATA holds none of the registered files")
    for row in rows: assert row["status"] == "here" and Path(row["path"]).stat().st_size == row["bytes"], row
