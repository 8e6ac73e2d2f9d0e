"The notebook for labeling in JupyterLab, in a real browser: keys are pressed, and the file on disk has the labels."
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parents[2]
PAIRS = "left,right,label,weight\nred lamp,lamp in red,,1.5\nred lamp,old chair,,0.5\n<b>chair</b>,chair (used),1,1\nblue rug,green rug,,2\n"


@pytest.fixture(scope="session", autouse=True)
def built():
    "The pages are not needed here."


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(holds, seconds=240): # a JupyterLab begins slowly next to other tests
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(.2)


def answers(address: str) -> bool:
    try:
        return urlopen(f"{address}/api").status == 200
    except (URLError, ConnectionError):
        return False


@pytest.fixture
def lab(tmp_path, browser):
    "A JupyterLab on a copy of the notebook, with a file of pairs next to it."
    work = tmp_path / "work"
    work.mkdir()
    shutil.copy(ROOT / "nbs/label.ipynb", work)
    (work / "to_label.csv").write_text(PAIRS)
    own = {name: str(tmp_path / name) for name in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    port = free_port()
    options = ["--no-browser", "--allow-root", f"--ServerApp.port={port}", "--IdentityProvider.token=", "--ServerApp.password=",
               "--ServerApp.disable_check_xsrf=True", "--LanguageServerManager.autodetect=False", "--LabApp.expose_app_in_browser=True"]
    env = os.environ | own | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    server = subprocess.Popen([sys.executable, "-m", "jupyterlab", *options], cwd=work, env=env, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: answers(address) or server.poll() is not None)
        assert server.poll() is None, "JupyterLab has ended"
        yield work, address
    finally:
        server.terminate()
        server.wait(20)


def labels(work: Path) -> list[str]:
    return [line.rsplit(",", 2)[1] for line in (work / "to_label.csv").read_text().splitlines()[1:]]


def run_all(page):
    "Run all cells, and return the box for keys."
    page.evaluate("void jupyterapp.commands.execute('notebook:run-all-cells')")
    box = page.get_by_placeholder("y, n, s or u")
    box.wait_for(timeout=60_000)
    return box


def test_keys_label_the_file_and_it_is_taken_up_again(tab, lab):
    work, address = lab
    tab.goto(f"{address}/lab/tree/label.ipynb")
    tab.get_by_text("python3 | Idle").wait_for(timeout=90_000)
    box = run_all(tab)
    box.focus()
    for key, expected in (("y", ["1", "", "1", ""]), ("u", ["", "", "1", ""]), ("n", ["0", "", "1", ""]), ("Y", ["0", "1", "1", ""])):
        tab.keyboard.press(key)
        wait_for(lambda expected=expected: labels(work) == expected, 20)
    tab.get_by_text("3 of 4").wait_for()
    tab.get_by_role("paragraph").get_by_text("green rug").wait_for() # the last cell shows the whole table
    tab.get_by_role("button", name="Undo (u)").click()
    wait_for(lambda: labels(work) == ["0", "", "1", ""], 20)
    assert (work / "to_label.csv").read_text() == PAIRS.replace("red,,1.5", "red,0,1.5")
    text = (work / "to_label.csv").read_text()
    (work / "to_label.csv").write_text(text.replace("green rug,,2", "green rug,1,2")) # a spreadsheet saves it
    box.focus()
    tab.keyboard.press("y")
    tab.get_by_role("alert").get_by_text("another program has changed this file").wait_for()
    assert labels(work) == ["0", "", "1", "1"], "what was written there stays"
    box = run_all(tab)
    tab.get_by_text("3 of 4").wait_for()
    box.focus()
    tab.keyboard.press("n")
    wait_for(lambda: labels(work) == ["0", "0", "1", "1"], 20)
    tab.get_by_text("All pairs have a label.", exact=True).wait_for()
