"""The settings that the papers print: each has its place in the text, is read from runs, and differs for a reason."""
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from debias_nb.checks import ConfigError
from debias_nb.files import load_yaml, project_root
from debias_nb.papers.pages.as_printed import READERS, compare, comparisons_of, faults, in_short, is_printed
from debias_nb.papers.pages.as_printed import key_deviations, unmet
from debias_nb.papers.pages.expected import PrintedSetting, load_expected
from debias_nb.papers.pages.frame import all_experiments, papers
from debias_nb.papers.pages.report import page_of, page_path
from debias_nb.runs.config import load_experiment

ROOT = project_root(Path(__file__).parent)
NOTEBOOKS = sorted((ROOT / "nbs/papers").glob("*/table*.ipynb")) + sorted((ROOT / "nbs/papers").glob("*/figure*.ipynb"))


@pytest.fixture(scope="module", params=papers())
def paper(request):
    return request.param


@pytest.fixture(scope="module")
def entries(paper):
    return comparisons_of(paper)


def test_a_setting_that_differs_has_a_reason_and_a_reason_has_a_difference(entries):
    assert faults(entries) == []
    assert any(entry.differing for entry in entries)


def test_at_the_papers_own_profile_nothing_differs_but_what_is_marked(entries):
    "What is marked is listed on the page, with its reason."
    assert {entry.setting.name for entry in unmet(entries)} == {entry.setting.name for entry in entries
                                                                if entry.setting.unmet}


def test_every_table_of_a_paper_has_settings_and_every_reader_is_used(paper, entries):
    notebooks = {path.stem for path in NOTEBOOKS if path.parent.name == paper}
    with_settings = {entry.experiment for entry in entries}
    assert {name for name in notebooks if name.startswith("table")} <= with_settings
    of_all = {setting.read for name in papers() for setting in load_expected(name).settings}
    assert READERS.keys() <= of_all


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


@pytest.mark.parametrize("profile, fault", [
    ("planted", "batch size of table06: differs at planted without a reason"),
    ("paper", "batch size of table06: differs at paper without a reason"),
])
def test_a_made_up_difference_is_found(copy, profile, fault):
    batch = {"planted": 64, "paper": 250}[profile]
    replace_text(copy / f"experiments/itvreg/table06.{profile}.yaml", f"batch_size: {batch}", "batch_size: 249")
    setting, = (entry for entry in load_expected("itvreg").settings if entry.name == "batch size"
                and "table06" in entry.experiments)
    variant = setting.model_copy(update={"experiments": ("table06",), "why": {}})
    names = [entry.setting.name for entry in comparisons_of("itvreg", ["table06"]) if profile in entry.differing]
    assert "batch size" in names
    experiments = [load_experiment("itvreg/table06", profile)]
    assert faults([compare(variant, experiments)]) == [fault]


def test_a_run_that_has_none_of_the_values_that_others_try_differs(copy):
    replace_text(copy / "experiments/arr/table02.paper.yaml", "further_rates: [1e-4, 1e-5]", "further_rates: [1e-4]")
    differing = {entry.setting.name for entry in unmet(comparisons_of("arr", ["table02"])) if not entry.setting.unmet}
    assert differing == {"learning rates that are tried"}


def test_a_reason_that_explains_nothing_is_found(entries):
    entry = next(entry for entry in entries if is_printed(entry) and not entry.differing and "small" in entry.here)
    setting = entry.setting.model_copy(update={"why": {"small": "a reason"}})
    variant = replace(entry, setting=setting)
    names = ", ".join(setting.experiments)
    assert faults([variant]) == [f"{setting.name} of {names}: a reason for small, where nothing differs"]


@pytest.mark.parametrize("old, new, message", [
    ("experiments: [table06]", "experiments: [table60]", "table60"),
    ("read: training.margin", "read: training.margins", "margin"),
    ("where: {data.by: [year]}", "where: {data.by: [decade]}",
     "last year of training: no run of itvreg/table02 has it"),
])
def test_a_made_up_place_is_refused(copy, old, new, message):
    replace_text(copy / "experiments/printed/itvreg.yaml", old, new)
    with pytest.raises(ConfigError, match=message):
        comparisons_of("itvreg")


@pytest.mark.parametrize("changes, message", [
    ({"place": "somewhere"}, "place"),
    ({"read": None}, "either `read` or `told`"),
    ({"told": "250"}, "either `read` or `told`"),
    ({"value": None, "why": {"small": "a reason"}}, "say it in `note`"),
    ({"experiments": ()}, "experiments"),
])
def test_a_setting_says_where_it_is_printed_and_where_it_is_read(changes, message):
    setting = {"name": "batch size", "experiments": ("table03",), "value": 250, "place": "Supplement H.2",
               "read": "training.batch_size"}
    PrintedSetting(**setting)
    with pytest.raises(ValidationError, match=message):
        PrintedSetting(**setting | changes)


def test_a_setting_stands_once(copy):
    line = re.search(r"  - \{name: margin,.*\n", (copy / "experiments/printed/itvreg.yaml").read_text("utf-8"))[0]
    repetition = re.sub(r", why: .*", "}", line)
    replace_text(copy / "experiments/printed/itvreg.yaml", line, line + repetition)
    with pytest.raises(ConfigError, match="'margin' of table02 occurs twice"):
        load_expected("itvreg")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_page_of_a_table_tells_which_settings_differ(path):
    name = f"{path.parent.name}/{path.stem}"
    page = (ROOT / "reports" / page_path(name)).read_text("utf-8")
    profile = re.search(r"differs? at `(\w+)`", page)[1]
    assert key_deviations(name, profile).partition(" ([all")[0] in page
    comparisons = comparisons_of(path.parent.name,
                                 [entry.experiment for entry in all_experiments(path.parent.name)
                                  if page_of(entry) == name])
    mattering = {entry.setting.name for entry in comparisons if entry.setting.matters and is_printed(entry)
                 and profile in entry.differing}
    section = page.partition("## What differs")[2].partition("\n## ")[0]
    assert {line.split("|")[1].strip() for line in section.partition("|---")[2].splitlines()[1:]
            if line.startswith("| ")} == mattering


def test_a_setting_is_listed_where_it_differs_and_matters(copy):
    row = "| base encoder | NLI-DistilBERT |"
    assert row in key_deviations("itvreg/table06", "small")
    assert row not in key_deviations("itvreg/table06", "paper")
    replace_text(copy / "experiments/printed/itvreg.yaml", "{name: base encoder, matters: true, experiments: [table06]",
                 "{name: base encoder, experiments: [table06]")
    assert row not in key_deviations("itvreg/table06", "small")


def test_the_article_names_what_differs_on_public_data(paper):
    sentence = in_short(paper)
    entries_printed = [entry for entry in comparisons_of(paper) if is_printed(entry)]
    at_small = [entry for entry in entries_printed if "small" in entry.differing]
    important = {entry.setting.name for entry in [*unmet(entries_printed), *at_small] if entry.setting.matters
                 or "paper" in entry.differing}
    assert all(name in sentence for name in important)
    assert sentence.startswith(f"{len({entry.setting.name for entry in at_small})} of the ")
    assert load_yaml(ROOT / "experiments/printed" / f"{paper}.yaml")["settings"]
