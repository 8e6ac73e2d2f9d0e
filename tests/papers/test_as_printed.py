"""What papers print: each row has its place in the text, is read from runs or held by code, differs for a reason."""
import re
import shutil
from pathlib import Path

import pytest
from pydantic import ValidationError

from debias_nb.files import project_root
from debias_nb.papers.pages.as_printed import PrintedSetting, compare_setting, compared_settings
from debias_nb.papers.pages.as_printed import printed_settings
from debias_nb.papers.pages.frame import experiments_of, papers
from debias_nb.runs.config import load_experiment

ROOT = project_root(Path(__file__).parent)


@pytest.fixture(scope="module", params=papers())
def paper(request):
    return request.param


@pytest.fixture(scope="module")
def entries(paper):
    return compared_settings(paper)


def test_a_setting_that_differs_has_a_reason_and_a_reason_has_a_difference(paper, entries):
    assert entries.differs.any() and (entries.why[entries.differs] != "").all()
    for number, setting in enumerate(printed_settings(paper)):
        own = entries[entries.number == number]
        assert {*own.experiment} == {*setting.experiments}, setting.name
        differing = {*own.profile[own.differs]}
        explained = {*setting.why} if isinstance(setting.why, dict) else differing
        assert explained <= differing and bool(differing) >= bool(setting.why), setting.name


NUMBERED = {"itvreg": {1}, "arr": {1, 2, 3, 4}, "scan": {*range(1, 20)}}


def test_every_numbered_equation_has_a_row(paper):
    places = [setting.place for setting in printed_settings(paper) if setting.kind == "equation"]
    assert {int(match[1]) for place in places if (match := re.search(r"Equation (\d+)", place))} == NUMBERED[paper]


@pytest.fixture
def copy(tmp_path, monkeypatch):
    "A copy of the settings and configurations of all papers, which is the current project."
    shutil.copy(ROOT / "settings.ini", tmp_path)
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments", ignore=shutil.ignore_patterns("*.parquet", "*.xz"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def replace_text(path, old, new):
    "Replace a text that a file has."
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def test_a_made_up_difference_is_found(copy):
    setting, = (entry for entry in printed_settings("itvreg") if entry.name == "batch size"
                and "table06" in entry.experiments)
    assert not compare_setting(setting, load_experiment("itvreg/table06", "paper"))["differs"]
    replace_text(copy / "experiments/itvreg/table06.yaml", "batch_size: 250", "batch_size: 249")
    assert compare_setting(setting, load_experiment("itvreg/table06", "paper"))["differs"]


def test_a_run_that_has_none_of_the_values_that_others_try_differs(copy):
    replace_text(copy / "experiments/arr/table02.yaml", "further_rates: [1e-4, 1e-5]", "further_rates: [1e-4]")
    rows = compared_settings("arr", experiments_of("arr/table02"))
    assert rows.name[rows.differs & (rows.why == "")].tolist() == ["learning rates that are tried"]


@pytest.mark.parametrize("changes, message", [
    ({"place": "somewhere"}, "place"),
    ({"read": None}, "either `read` or `told`"),
    ({"told": "64"}, "either `read` or `told`"),
    ({"quote": ""}, "a few words of the paper"),
    ({"read": None, "value": "Adam", "told": "Adam"}, "needs what does it"),
    ({"value": None, "why": {"small": "a reason"}}, "say it in `note`"),
    ({"experiments": ()}, "experiments"),
])
def test_a_setting_says_where_it_is_printed_and_where_it_is_read(changes, message):
    setting = {"name": "batch size", "experiments": ("table03",), "value": 250, "place": "Supplement H.2",
               "quote": "a batch size of 250", "read": "training.batch_size"}
    PrintedSetting(**setting)
    with pytest.raises(ValidationError, match=message):
        PrintedSetting(**setting | changes)


def test_a_setting_stands_once(paper):
    places = [(setting.name, experiment, *map(str, setting.where.items())) for setting in printed_settings(paper)
              for experiment in setting.experiments]
    assert len(places) == len({*places})
