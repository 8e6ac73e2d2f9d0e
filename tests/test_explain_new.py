"`new`: a notebook and settings that run as they are; nothing is written over, and nothing is left half-written."
import json
import os

import pandas as pd
import pytest
import torch
import yaml
from made import table

from debias_nb.config import ConfigError
from debias_nb.data.registry import DataError
from debias_nb.encoders import EncoderError
from debias_nb.explain import new as module
from debias_nb.explain.new import new, read_experiment

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    new("mine", folder=folder)
    return folder


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def changed(path, **values):
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text("utf-8")) | values), "utf-8")


def test_notebook_settings_and_pairs_are_written(planted):
    found = names(planted)
    assert {"mine.ipynb", "mine.yaml", "mine/train.csv", "mine/like.csv", "mine/new.csv", "mine/base/modules.json"} <= set(found)
    assert not [name for name in found if name.startswith(".")]
    assert len(pd.read_csv(planted / "mine/train.csv")) == 1600


def test_the_notebook_runs_as_it_is(planted, tmp_path, monkeypatch):
    import nbformat
    import shutil
    shutil.copytree(planted, tmp_path, dirs_exist_ok=True)
    changed(tmp_path / "mine.yaml", seeds=2, epochs=1)
    book = nbformat.read(tmp_path / "mine.ipynb", as_version=4)
    nbformat.validate(book)
    monkeypatch.chdir(tmp_path)
    names_there = {}
    for cell in book.cells:
        if cell.cell_type == "code":
            exec(cell.source, names_there)
    records = set(path.name for path in (tmp_path / "mine-records").iterdir())
    assert records == {"comparison.html", "comparison.json", "diagnosis.html", "diagnosis.json", "plain", "trials.jsonl"}
    assert list(names_there["compared"].means().index) == ["base", "plain", "wise-ft", "outreg"]
    twin = json.loads((tmp_path / "mine-records/diagnosis.json").read_text("utf-8"))
    assert set(twin["tests"]) == {"like", "new"} and "mine-records/plain" in twin["facts"]["command"]


def test_files_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = pd.DataFrame({"q": ["red lamp", "old table"] * 3, "d": ["lamp", "new lamp"] * 3, "y": [1, 0] * 3})
    pairs.to_csv("train.csv", index=False)
    pairs.to_csv("new.csv", index=False)
    base = str(table(tmp_path / "models"))
    new("own", base, "train.csv", {"new": "new.csv"}, ("q", "d", "y"))
    found = read_experiment("own.yaml")
    assert (found.base, found.train, found.tests) == (base, "train.csv", {"new": "new.csv"})
    assert found.columns == ("q", "d", "y") and not (tmp_path / "own").exists()
    for wrong, error, message in [
        ({"train": None}, ConfigError, "belong together"),
        ({"columns": ("qq", "d", "y")}, DataError, "did you mean 'q'"),
        ({"base": "./nowhere"}, EncoderError, "./nowhere: no such folder"),
        ({"tests": {"new": "nwe.csv"}}, DataError, "did you mean 'new.csv'"),
    ]:
        given = {"base": base, "train": "train.csv", "tests": {"new": "new.csv"}, "columns": ("q", "d", "y")} | wrong
        with pytest.raises(error, match=message):
            new("other", **given)
        assert not list(tmp_path.glob("*other*"))


@pytest.mark.parametrize("is_link", [False, True])
def test_paths_hold_from_where_the_settings_lie(tmp_path, monkeypatch, is_link):
    here = tmp_path / "here"
    (here / "data").mkdir(parents=True)
    monkeypatch.chdir(here)
    pairs = pd.DataFrame({"left": ["red lamp", "old table"], "right": ["lamp", "new lamp"], "label": [1, 0]})
    for name in ("train", "near", "far"):
        pairs.to_csv(f"data/{name}.csv", index=False)
    table(here / "data")
    folder = here / "experiments"
    if is_link:
        elsewhere = tmp_path / "a/b/c"
        elsewhere.mkdir(parents=True)
        folder.symlink_to(elsewhere)
    else:
        folder.mkdir()
    tests = {"near": "data/near.csv", "far": str(here / "data/far.csv")}
    new("own", "data/table", "data/train.csv", tests, folder="experiments")
    written = yaml.safe_load((folder / "own.yaml").read_text("utf-8"))
    assert not os.path.isabs(written["train"]) and written["tests"]["far"] == tests["far"]
    for place in (here, folder):
        monkeypatch.chdir(place)
        found = read_experiment(os.path.relpath(folder.resolve() / "own.yaml"))
        assert os.path.samefile(found.base, here / "data/table")
        assert os.path.samefile(found.train, here / "data/train.csv")
        for name, test in found.tests.items():
            assert os.path.samefile(test, here / f"data/{name}.csv")
        assert os.path.samefile(os.path.dirname(found.records) or ".", folder)


@pytest.mark.parametrize("there", ["mine", "mine.yaml", "mine.ipynb", "mine-records"])
def test_what_is_there_is_left_alone(tmp_path, monkeypatch, there):
    monkeypatch.setattr(module, "write_planted", lambda *_: pytest.fail("something was made"))
    (tmp_path / there).write_text("kept")
    with pytest.raises(ConfigError, match=f"{there} exists; nothing was written"):
        new("mine", folder=tmp_path)
    assert names(tmp_path) == [there] and (tmp_path / there).read_text() == "kept"


@pytest.mark.parametrize("name", ["a/b", "..", "", "my notebook", "-x"])
def test_names_that_are_none(tmp_path, name):
    with pytest.raises(ConfigError, match="is no name"):
        new(name, folder=tmp_path)
    assert not names(tmp_path)


def test_nothing_is_left_where_something_fails(tmp_path, monkeypatch):
    def fails(folder):
        (folder / "train.csv").write_text("a part")
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(module, "write_planted", fails)
    with pytest.raises(ConfigError, match="not written: No space left on device"):
        new("mine", folder=tmp_path)
    assert not names(tmp_path)


WRONG = {
    "key": ({"seed": 3}, "seed: unknown key; did you mean 'seeds'?"),
    "method": ({"methods": ["outregg"]}, "did you mean 'outreg'?"),
    "seeds": ({"seeds": 1}, "seeds: Input should be greater than or equal to 2, got 1"),
    "base": ({"base": "9" * 300}, "mine.yaml: base: File name too long"),
    "tests": ({"tests": {}}, "tests: Dictionary should have at least 1 item"),
    "columns": ({"columns": ["left", "right"]}, "columns.2: required, and not there"),
}


@pytest.mark.parametrize("change, message", WRONG.values(), ids=WRONG)
def test_settings_that_are_wrong(planted, tmp_path, change, message):
    path = tmp_path / "mine.yaml"
    path.write_text((planted / "mine.yaml").read_text("utf-8"), "utf-8")
    changed(path, **change)
    with pytest.raises(ConfigError) as e:
        read_experiment(path)
    assert message in str(e.value) and "mine.yaml" in str(e.value)


def test_the_shell(tmp_path, monkeypatch):
    from typer.testing import CliRunner
    from debias_nb.repro.cli import app
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "write_planted", lambda folder: None)
    done = CliRunner().invoke(app, ["new", "mine"])
    assert done.exit_code == 0 and "next: jupyter lab mine.ipynb" in done.output
    done = CliRunner().invoke(app, ["new", "mine"])
    assert done.exit_code == 2 and len(done.output.splitlines()) == 1 and "exists; nothing was written" in done.output
    done = CliRunner().invoke(app, ["new", "other", "--train", "x.csv"])
    assert done.exit_code == 2 and "belong together" in done.output
