"""The pages of _docs/, served, and a Chromium to look at them."""
import json
import shutil
import socketserver
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "_docs"


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make docs-check installs it")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        pytest.skip("there is no Chromium on the path")
    with playwright.sync_playwright() as started:
        yield started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])


@pytest.fixture(scope="session")
def served():
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


INDEX = "**/search_index.json"


@pytest.fixture
def tab(browser):
    "A page without an index of the search, which each page that is opened would build: `tab.unroute(INDEX)` gives it one."
    index = json.loads((SITE / "search" / "search_index.json").read_text("utf-8"))
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.route(INDEX, lambda route: route.fulfill(json=index | {"docs": []}))
    yield page
    page.close()
