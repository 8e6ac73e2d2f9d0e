"""Commands for one's own pairs and models: nothing is lost, no traceback is seen, and no wrong number is taken.

Pages are never written over what somebody else made, trials are what was written, and files say what is wrong with
them."""
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from typer.testing import CliRunner

import made
from harness import PATIENCE, start
from debias_nb.data.registry import DataError
from debias_nb.diagnosis import diagnose as diagnosing
from debias_nb.commands.cli import app

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {"base": made.table(folder / "a"), "tuned": made.table(folder / "b", seed=1)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    "A folder with pairs, which is the current one."
    monkeypatch.chdir(tmp_path)
    made.some_pairs().to_csv("train.csv", index=False)
    made.some_pairs(seed=1).to_csv("new.csv", index=False)
    return tmp_path


def shell(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def run_diagnose(models, *options):
    return shell(
        "diagnose", "--base", models["base"], "--tuned", models["tuned"], "--train", "train.csv", "--test",
        "new=new.csv", *options)


def check_refusal(run, *words):
    "One sentence on standard error, and exit code 2."
    assert run.exit_code == 2 and isinstance(run.exception, SystemExit), (run.output, repr(run.exception))
    for word in words:
        assert word in run.stderr, (word, run.stderr)


def contents(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---- pages

@pytest.mark.parametrize("name", ["new\ud83d", "\0", "", " ", 7])
def test_a_test_has_a_name_that_can_be_written(folder, models, name):
    with pytest.raises(DataError, match="^tests: files by name are expected"):
        diagnosing.diagnose(models["base"], models["tuned"], tests={name: "new.csv"})
    long = diagnosing.diagnose(models["base"], models["tuned"], tests={"long" * 80: "new.csv"})
    assert (long.save(folder / "out").exists())


def _hard_link(folder):
    (folder / "out").mkdir()
    os.link(folder / "train.csv", folder / "out/index.html")


def _link(folder):
    (folder / "out").mkdir()
    (folder / "out/report.json").symlink_to("../train.csv")


def _foreign(folder):
    (folder / "out").mkdir()
    (folder / "out/index.html").write_text("<h1>my own page</h1>")


def _quote(folder):
    (folder / "out").mkdir()
    (folder / "out/report.json").write_text('{"notes": "my own", "read": {"made by": "debias-nb"}}')


def _keep(folder):
    pass


TARGETS = { # what is there, the folder for the page, words
    "the training file": (_keep, "train.csv", "train.csv"),
    "a hard link to a file": (_hard_link, "out", "out/index.html: the file exists, and is no page"),
    "a link to a file": (_link, "out", "out/report.json: the file exists, and is no page"),
    "somebody's own page": (_foreign, "out", "out/index.html: the file exists, and is no page"),
    "notes that quote a page": (_quote, "out", "out/report.json: the file exists, and is no page"),
    "weights": (_keep, "{model}/model.safetensors", "model.safetensors"),
    "a device": (_keep, "/dev/null", "/dev/null"),
    "no folder": (_keep, "train.csv/out", "train.csv/out"),
}


@pytest.mark.parametrize("prepare, out, words", TARGETS.values(), ids=TARGETS)
def test_a_page_is_written_over_nothing_else(folder, models, prepare, out, words):
    prepare(folder)
    listing = contents(folder)
    check_refusal(run_diagnose(models, "--out", out.format(model=models["base"]), "--overwrite"), words)
    assert contents(folder) == listing


def test_pages_of_ours_may_be_written_over_and_links_stay(folder, models):
    (folder / "kept").mkdir()
    (folder / "out").mkdir()
    (folder / "out/index.html").symlink_to("../kept/page.html")
    (folder / "kept/page.html").write_text('<!doctype html>\n<meta name="generator" content="debias-nb">')
    check_refusal(run_diagnose(models, "--out", "out"), "out/index.html: the file exists; remove it")
    for _ in range(2):
        run = run_diagnose(models, "--out", "out", "--overwrite")
        assert run.exit_code == 0, run.output
        assert (folder / "out/index.html").is_symlink()
        assert 'id="verdict"' in (folder / "kept/page.html").read_text("utf-8")
        assert "verdicts" in json.loads((folder / "out/report.json").read_text("utf-8"))
        assert {path.name for path in (folder / "out").iterdir()} == {"index.html", "report.json"}


def test_the_verdict_is_said_also_where_the_page_cannot_be_written(folder, models, monkeypatch):
    def full(*_, **__):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    run = run_diagnose(models, "--out", "out")
    check_refusal(run, "out/index.html: not written: No space left on device")
    assert "\nnew: " in run.stdout and not list(folder.glob("out/*"))


# ---- YAML

# ---- Ctrl-C

ANNOUNCING = """
import os, sys
from debias_nb.commands.entry import main
sys.argv = ["debias-nb", *sys.argv[1:]]
os.write(1, b"begun\\n")
main()
"""


@pytest.mark.parametrize("seconds", [.05, 1, 4])
def test_ctrl_c_ends_with_one_line_at_any_moment(folder, models, seconds):
    "Packages are imported for some seconds, and what comes then is work."
    command = [
        "diagnose", "--base", str(models["base"]), "--tuned", str(models["tuned"]), "--train", "train.csv", "--test",
        "new=new.csv"]
    child = start(
        [sys.executable, "-c", ANNOUNCING, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begun\n"
    time.sleep(seconds)
    child.send_signal(signal.SIGINT)
    out, text = child.communicate(timeout=PATIENCE)
    if "VERDICT" not in out: # it has not come to its end before
        assert child.returncode == 130
        assert text.strip().splitlines()[-1].endswith("debias-nb: interrupted") and "Traceback" not in text, text
