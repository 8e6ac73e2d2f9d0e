"A disk without room: a sentence with the file, nothing half-made that is taken for whole, and the next try succeeds."
import http.server
import resource
import threading
from contextlib import contextmanager

import pytest
import test_downloads
from harness import QUICK, batch, files_of, make_project, records_of

from debias_nb.data import registry
from debias_nb.encoders.planted import planted_encoder
from debias_nb.encoders.tokens import EncoderError


def limit(size: int) -> None: # of a file, in bytes
    _, hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard_limit))


@contextmanager
def no_room(size: int):
    "No file of this process becomes larger."
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit(size)
    try:
        yield
    finally:
        limit(soft_limit)


def test_records(tmp_path):
    project, cache = make_project(tmp_path / "project"), tmp_path / "cache"
    first_batch = batch(make_project(tmp_path / "whole"), cache)
    assert first_batch.end() == 0, first_batch.text
    child = batch(project, cache, preparation=lambda: limit(3000))
    assert child.end() == 2 and "Traceback" not in child.text, child.text
    assert "demo.planted/demo-planted-" in child.text
    assert "could not be written: File too large; what was there stays" in child.text
    assert files_of(project) == {}
    child = batch(project, cache)
    assert child.end() == 0 and records_of(project) == records_of(tmp_path / "whole"), child.text


def test_a_kept_encoder(tmp_path):
    with no_room(3000), pytest.raises(EncoderError, match="File too large") as e:
        planted_encoder(QUICK, tmp_path)
    assert str(tmp_path) in str(e.value)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()], "nothing half-made is left"
    planted_encoder(QUICK, tmp_path)


def test_a_download(tmp_path, monkeypatch):
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("DEBIAS_NB_DATA", raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), test_downloads.Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        demo_registry = test_downloads.registry_of(f"http://127.0.0.1:{server.server_port}")
        with no_room(3000), pytest.raises(registry.MissingData, match="a.tsv(.|\n)*File too large"):
            registry.locate("demo", "a.tsv", registry=demo_registry)
        assert not (tmp_path / "data/demo/a.tsv").exists()
        assert registry.locate("demo", "a.tsv", registry=demo_registry).read_bytes() == test_downloads.GOOD
        server.shutdown()
