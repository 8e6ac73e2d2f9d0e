"""The pages of _docs/, served, and a Chromium to look at them."""
import importlib
import json
import shutil
import sys
import socketserver
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))
from needs import lacks # noqa: E402

SITE = Path(__file__).parents[2] / "_docs"


def chromium_on_path() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)



@pytest.fixture(scope="session", autouse=True)
def built():
    if not (SITE / "index.html").exists():
        lacks("there is no _docs/: make docs builds it")


def package(name: str):
    "A package of the extra `lab`."
    try:
        return importlib.import_module(name)
    except ImportError:
        lacks(f"{name.partition('.')[0]} is not installed: pip install -e .[lab]")


@pytest.fixture(scope="session")
def browser():
    playwright = package("playwright.sync_api")
    chromium = chromium_on_path()
    if not chromium:
        lacks("there is no Chromium on the path")
    with playwright.sync_playwright() as started:
        yield started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])


class Quiet(SimpleHTTPRequestHandler):
    "Serves the pages, and the search index that each opened page builds: an empty one if `searched` is false."
    searched = False

    def do_GET(self):
        if self.searched or not self.path.endswith("/search_index.json"):
            return super().do_GET()
        index = json.loads((SITE / "search" / "search_index.json").read_text("utf-8"))
        body = json.dumps(index | {"docs": []}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Searched(Quiet):
    searched = True


@contextmanager
def serving(handler):
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), partial(handler, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.fixture(scope="session")
def served():
    with serving(Quiet) as address:
        yield address


@pytest.fixture(scope="session")
def searched():
    with serving(Searched) as address:
        yield address


@pytest.fixture
def tab(browser):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    yield page
    page.close()
