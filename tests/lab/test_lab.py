"""The notebooks as JupyterLab shows them to whoever has just cloned the repository: `make lab-check`.

A copy of the tree is served by JupyterLab as `make venv` settles it, with no notebook trusted, and opened in a browser
without a window. Where there is no Chromium (Debian: `apt-get install chromium`), all of this is left out."""
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make lab-check installs it")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(not BROWSER, reason="there is no Chromium on the path")

ROOT = Path(__file__).parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]
AUTOSAVE = 3 # seconds
SETTINGS = {
    "docmanager-extension/plugin": {"autosaveInterval": AUTOSAVE},
    "notebook-extension/tracker": {"windowingMode": "none"}, # all cells are drawn, not those in the window alone
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
KINDS = {
    "a table": "papers/itvreg/table03.ipynb",
    "a book": "papers/claims.ipynb",
    "a method": "losses/pair_losses.ipynb",
    "figures": "measures/metrics.ipynb",
    "the index": "index.ipynb",
}
RUN = "papers/itvreg/table03.ipynb" # run as a whole
DIRTY = ".lm-DockPanel-tabBar .jp-mod-dirty"
ERRORS = '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"]'
WARNINGS = '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]'


def git(*args: str, cwd: Path) -> str:
    command = ["git", "-c", "user.name=lab", "-c", "user.email=lab@localhost", *args]
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    "The tree as it would be committed, in a repository of its own."
    folder = tmp_path_factory.mktemp("lab") / "clone"
    for name in git("ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=ROOT).split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    git("init", "-q", cwd=folder)
    git("add", "-A", cwd=folder)
    git("commit", "-q", "-m", "as it is", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def server(clone):
    "The address of a JupyterLab that trusts nothing, with Lab's configuration of this project."
    home = clone.parent
    subprocess.run([sys.executable, clone / "tools/lab.py", home / "prefix"], check=True)
    for name, values in SETTINGS.items():
        file = home / f"settings/@jupyterlab/{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    env = os.environ | {
        "JUPYTER_CONFIG_PATH": str(home / "prefix/etc/jupyter"), "JUPYTER_PATH": str(home / "prefix/share/jupyter"),
        "JUPYTER_CONFIG_DIR": str(home / "config"), "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"), "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"), "IPYTHONDIR": str(home / "ipython"), "PYTHONPATH": str(clone)}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0",
               "--expose-app-in-browser", "--IdentityProvider.token=", f"--ServerApp.root_dir={clone}"]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=clone, env=env, stdout=log, stderr=log)
    try:
        yield address(home / "log", process)
    finally:
        process.terminate()
        process.wait(30)


def address(log: Path, process) -> str:
    "Where the server answers, as its log says."
    for _ in range(240):
        found = re.search(r"http://127\.0\.0\.1:\d+/", log.read_text())
        if found:
            return found[0]
        assert process.poll() is None, log.read_text()
        time.sleep(.5)
    pytest.fail(log.read_text())


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with playwright.sync_playwright() as play:
        context = play.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("browser")), executable_path=BROWSER, headless=True, args=FLAGS,
            viewport={"width": 1440, "height": 900})
        context.set_default_timeout(120_000)
        yield context
        context.close()


@pytest.fixture
def opened(server, browser):
    "Opens a notebook; gives its page, with a kernel that is there."
    pages = []

    def open_it(name: str):
        page = browser.new_page()
        pages.append(page)
        page.goto(f"{server}lab/workspaces/w{len(pages)}/tree/nbs/{name}?reset")
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        page.wait_for_function(IS_IDLE)
        return page

    yield open_it
    for page in pages:
        page.evaluate("window.jupyterapp.commands.execute('kernelmenu:shutdown')")
        page.close()


IS_IDLE = """() => {
    const panel = window.jupyterapp?.shell.currentWidget;
    return panel?.sessionContext?.session?.kernel?.status === "idle"
}"""


def stored(name: str, clone: Path) -> list[set]: # the kinds of each output
    nb = json.loads((clone / "nbs" / name).read_text("utf-8"))
    return [set(output.get("data", {})) for cell in nb["cells"] for output in cell.get("outputs", [])]


def is_picture(kinds: set) -> bool:
    return any(kind.startswith("image/") for kind in kinds)


def snap(page, name: str) -> None:
    "A screenshot, where `LAB_PICTURES` names a folder for them."
    folder = os.environ.get("LAB_PICTURES")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name.replace('/', '_')}.png"))


@pytest.mark.parametrize("name", KINDS.values(), ids=KINDS)
def test_a_notebook_that_is_read_is_drawn_and_stays_as_it_is(name, clone, opened):
    before = (clone / "nbs" / name).read_bytes()
    page = opened(name)
    pictures = sum(map(is_picture, stored(name, clone)))
    drawn = "img => img.complete && img.naturalWidth > 50"
    page.wait_for_function(
        f"[...document.querySelectorAll('.jp-OutputArea-output img')].filter({drawn}).length >= {pictures}")
    assert page.locator(".jp-RenderedSVG").count() == 0, "it is trusted: this shows nothing"
    assert "SVG object" not in page.locator(".jp-NotebookPanel").inner_text()
    assert "skip_exec" not in page.locator(".jp-NotebookPanel").inner_text()
    if page.locator(".jp-OutputArea-output img").count():
        page.locator(".jp-OutputArea-output img").first.scroll_into_view_if_needed()
    snap(page, name)
    page.wait_for_timeout(1000 * (AUTOSAVE + 2))
    assert (clone / "nbs" / name).read_bytes() == before
    assert page.locator(DIRTY).count() == 0


def test_a_page_that_is_run_is_the_page_that_was_read(clone, opened):
    page = opened(RUN)
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_timeout(2000)
    page.wait_for_function(IS_IDLE, timeout=300_000)
    page.wait_for_function("!document.querySelector('.jp-NotebookPanel').innerText.includes('[*]')")
    snap(page, "run")
    assert page.locator(ERRORS).count() == 0, page.locator(ERRORS).all_inner_texts()
    assert page.locator(WARNINGS).count() == 0, page.locator(WARNINGS).all_inner_texts()
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_timeout(1000 * (AUTOSAVE + 2))
    assert page.locator(DIRTY).count() == 0
    assert git("diff", "--unified=0", cwd=clone) == ""
