"Downloads that are cut off, altered or sent elsewhere by a server on this machine."
import hashlib
import http.server
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import huggingface_hub
import pytest

from debias_nb.settings import EncoderConfig
from debias_nb.data import registry as r
from debias_nb.encoders.tokens import EncoderError
from debias_nb.encoders.loading import load_encoder
from harness import start, wait_until
from made import table

GOOD = b"duplicate\tone?\ttwo?\n" * 3000
CHANGED_FILE = GOOD.replace(b"one", b"ONE")
SHA = hashlib.sha256(GOOD).hexdigest()


def registry_of(address: str) -> r.Registry:
    "One data set of one file, which lies at an address."
    file = r.DataFile(file="a.tsv", url=f"{address}/a.tsv", sha256=SHA, bytes=len(GOOD), format="tsv")
    demo = r.DataSet(title="Demo", licence="CC0", citation="nobody", files=(file,))
    return r.Registry(datasets={"demo": demo})


class Site(http.server.BaseHTTPRequestHandler):
    "What it does with a request depends on `mode`."
    mode, hits, elsewhere = "good", 0, ""

    def answer(self, body, length=None, status=200, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        type(self).hits += 1
        mode = type(self).mode
        if mode == "good" or self.path == "/other":
            self.answer(CHANGED_FILE if self.path == "/other" else GOOD)
        elif mode == "cut off":
            self.answer(GOOD[:len(GOOD) // 3], len(GOOD))
        elif mode == "slow":
            self.answer(GOOD[:len(GOOD) // 3], len(GOOD))
            time.sleep(20)
        elif mode == "cut off without a length":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(GOOD[:len(GOOD) // 2])
        elif mode == "one byte altered":
            self.answer(GOOD[:-2] + b"!" + GOOD[-1:])
        elif mode == "nothing":
            self.answer(b"")
        elif mode == "longer than it should be":
            self.answer(GOOD + GOOD)
        elif mode == "sent elsewhere":
            self.answer(b"", status=302, Location=f"{type(self).elsewhere}/other")
        elif mode == "sent in a circle":
            self.answer(b"", status=302, Location=self.path)
        elif mode == "sent to a file":
            self.answer(b"", status=302, Location="file:///etc/hostname")
        elif mode.isdigit():
            self.answer(b"no", status=int(mode))
        elif mode == "hung up":
            self.connection.close()

    do_HEAD = do_GET

    def log_message(self, *args):
        pass

    def handle(self):
        try:
            super().handle()
        except (OSError, ValueError): # whoever asked has gone, or the connection was closed above
            pass


@pytest.fixture
def site(tmp_path, monkeypatch):
    "A server, an empty cache, and a registry with one file of the server."
    class OwnSite(Site):
        mode, hits = "good", 0

    servers = []
    for _ in range(2):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OwnSite)
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, args=(.01,), daemon=True).start()
        servers.append(server)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DEBIAS_NB_DATA", raising=False)
    address = [f"http://127.0.0.1:{server.server_port}" for server in servers]
    OwnSite.registry = registry_of(address[0])
    OwnSite.elsewhere, OwnSite.folder, OwnSite.address = address[1], tmp_path / "cache/data/demo", address[0]
    yield OwnSite
    for server in servers:
        server.shutdown()
        server.server_close()


MODES = {
    "cut off": r.MissingData, "cut off without a length": r.ChangedData, "one byte altered": r.ChangedData,
    "longer than it should be": r.ChangedData, "nothing": r.ChangedData, "sent elsewhere": r.ChangedData,
    "sent in a circle": r.MissingData, "sent to a file": r.MissingData, "hung up": r.MissingData,
    "404": r.MissingData, "503": r.MissingData,
}


@pytest.mark.parametrize("mode", MODES)
def test_a_file_of_data(mode, site):
    site.mode = mode
    with pytest.raises(r.DataError) as e:
        r.locate("demo", "a.tsv", registry=site.registry)
    assert type(e.value) is MODES[mode], repr(e.value)
    assert site.address in str(e.value) and ("a.tsv" in str(e.value))
    assert not site.folder.exists() or not list(site.folder.iterdir()), "nothing is left"
    site.mode = "good"
    assert r.locate("demo", "a.tsv", registry=site.registry).read_bytes() == GOOD
    assert [path.name for path in site.folder.iterdir()] == ["a.tsv"]


LOCATE = """
import sys
from debias_nb.data.registry import locate
from test_downloads import registry_of
locate("demo", "a.tsv", registry=registry_of(sys.argv[1]))
"""


def test_a_process_killed_while_downloading_leaves_no_file(site, monkeypatch):
    def has_begun():
        return site.folder.exists() and any(path.stat().st_size for path in site.folder.iterdir())

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    site.mode = "slow"
    child = start([sys.executable, "-c", LOCATE, site.address], stderr=subprocess.DEVNULL)
    wait_until(has_begun, "the first bytes", every=.05)
    child.kill()
    child.wait()
    assert not (site.folder / "a.tsv").exists()
    site.mode = "good"
    assert r.locate("demo", "a.tsv", registry=site.registry).read_bytes() == GOOD


def test_a_file_is_downloaded_once_and_only_if_allowed(site):
    with pytest.raises(r.MissingData, match="a.tsv"):
        r.locate("demo", "a.tsv", download=False, registry=site.registry)
    assert site.hits == 0
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: r.locate("demo", "a.tsv", registry=site.registry), range(16)))
    assert {*paths} == {site.folder / "a.tsv"} and paths[0].read_bytes() == GOOD
    assert [path.name for path in site.folder.iterdir()] == ["a.tsv"]
    hits = site.hits
    r.locate("demo", "a.tsv", registry=site.registry)
    assert site.hits == hits


# encoders: the hub, asked for one commit

COMMIT = "ab" * 20


@pytest.fixture
def hub(tmp_path, monkeypatch):
    "A hub of one encoder, whose files can be changed on their way."
    source = table(tmp_path / "source")
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    place = f"kind: static, hub: me/pinned, revision: {COMMIT}"
    card = f"pinned: {{{place}, licence: none, trained_on: nothing, zero_shot: true}}\n"
    (tmp_path / "own/encoders.yaml").write_text(card)

    def sends(change):
        def download(name, revision, **options):
            assert (name, revision) == ("me/pinned", COMMIT)
            folder = tmp_path / "snapshot"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(source, folder)
            change(folder)
            return str(folder)
        monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return sends


def shorter(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


RESPONSES = {
    "weights cut off": (shorter, "cannot be loaded"),
    "pickles instead": (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), "pickles"),
    "a page of a login": (lambda folder: (folder / "modules.json").write_text("<html>"), "modules.json"),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_an_encoder(name, hub):
    change, sentence = RESPONSES[name]
    hub(change)
    with pytest.raises(EncoderError) as e:
        load_encoder(EncoderConfig(name="pinned", kind="static"))
    assert sentence in str(e.value), e.value
    hub(lambda folder: None)
    assert load_encoder(EncoderConfig(name="pinned", kind="static")) is not None
