"""What papers print: each row has its place in the text, is read from runs or held by code, differs for a reason."""
import re
import shutil
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from pydantic import ValidationError

from debias_nb.checks import ConfigError
from debias_nb.files import project_root
from debias_nb.papers.pages.as_printed import READERS, PrintedSetting, compare_setting, constant, deviations
from debias_nb.papers.pages.as_printed import setting_comparisons
from debias_nb.papers.pages.as_printed import faults, in_short, key_deviations, printed_settings
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
    return setting_comparisons(paper)


def test_a_setting_that_differs_has_a_reason_and_a_reason_has_a_difference(entries):
    assert faults(entries) == []
    assert any(entry.differing for entry in entries)


def test_what_is_told_to_be_as_printed_is_done_by_code_that_is_there(paper):
    for setting in printed_settings(paper):
        if setting.by and setting.by.startswith("tests/"):
            file, _, test = setting.by.partition("::")
            assert re.search(rf"^def {test}\(", (ROOT / file).read_text("utf-8"), re.M), setting.name
        elif setting.by:
            assert callable(constant(setting.by)), setting.name


NUMBERED = {"itvreg": {1}, "arr": {1, 2, 3, 4}, "scan": {*range(1, 20)}}


def test_every_numbered_equation_has_a_row(paper):
    places = [setting.place for setting in printed_settings(paper) if setting.kind == "equation"]
    assert {int(match[1]) for place in places if (match := re.search(r"Equation (\d+)", place))} == NUMBERED[paper]


def test_each_notebook_with_deviations_lists_those_of_the_rows():
    "And every notebook that a row names has the section."
    named = {notebook for paper in papers() for setting in printed_settings(paper) for notebook in setting.notebooks}
    for notebook in named:
        cells = nbformat.read(ROOT / f"nbs/{notebook}.ipynb", 4).cells
        calls = [cell for cell in cells if f'deviations("{notebook}")' in cell.source]
        assert len(calls) == 1, notebook
        assert calls[0].outputs[0].data["text/markdown"] == deviations(notebook).data, notebook
    sections = {path.relative_to(ROOT / "nbs").with_suffix("").as_posix() for path in (ROOT / "nbs").glob("**/*.ipynb")
                if "## Deviations from the paper" in path.read_text("utf-8")}
    assert sections == named


def test_every_table_of_a_paper_has_settings_and_every_reader_is_used(paper, entries):
    notebooks = {path.stem for path in NOTEBOOKS if path.parent.name == paper}
    with_settings = {entry.experiment for entry in entries}
    assert {name for name in notebooks if name.startswith("table")} <= with_settings
    of_all = {setting.read for name in papers() for setting in printed_settings(name)}
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
    setting, = (entry for entry in printed_settings("itvreg") if entry.name == "batch size"
                and "table06" in entry.experiments)
    variant = setting.model_copy(update={"experiments": ("table06",), "why": {}})
    experiments = [load_experiment("itvreg/table06", profile)]
    assert faults([compare_setting(variant, experiments)]) == [fault]


def test_a_run_that_has_none_of_the_values_that_others_try_differs(copy):
    replace_text(copy / "experiments/arr/table02.paper.yaml", "further_rates: [1e-4, 1e-5]", "further_rates: [1e-4]")
    place = "learning rates that are tried of table02"
    assert faults(setting_comparisons("arr", ["table02"])) == [f"{place}: differs at paper without a reason"]


def test_a_word_of_ours_alone_is_no_proof(entries):
    entry = next(entry for entry in entries if entry.setting.by and entry.is_printed and not entry.differing)
    variant = replace(entry, setting=entry.setting.model_copy(update={"by": None}))
    assert faults([variant])[0].endswith("told to be as printed, and nothing is named that does it (`by`)")


def test_a_reason_that_explains_nothing_is_found(entries):
    entry = next(entry for entry in entries if entry.is_printed and not entry.differing and "small" in entry.here)
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
    replace_text(copy / "experiments/as_printed.yaml", old, new)
    with pytest.raises(ConfigError, match=message):
        setting_comparisons("itvreg")


@pytest.mark.parametrize("changes, message", [
    ({"place": "somewhere"}, "place"),
    ({"read": None}, "either `read` or `told`"),
    ({"told": "250"}, "either `read` or `told`"),
    ({"quote": None}, "a few words of the paper"),
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_page_of_a_table_tells_which_settings_differ(path):
    name = f"{path.parent.name}/{path.stem}"
    page = (ROOT / "reports" / page_path(name)).read_text("utf-8")
    profile = re.search(r"differs? at `(\w+)`", page)[1]
    assert key_deviations(name, profile).partition(" ([all")[0] in page
    comparisons = setting_comparisons(path.parent.name,
                                 [entry.experiment for entry in all_experiments(path.parent.name)
                                  if page_of(entry) == name])
    mattering = {entry.setting.name for entry in comparisons if entry.setting.matters and profile in entry.differing}
    section = page.partition("## What differs")[2].partition("\n## ")[0]
    assert {line.split("|")[1].strip() for line in section.partition("|---")[2].splitlines()[1:]
            if line.startswith("| ")} == mattering


def test_a_setting_is_listed_where_it_differs_and_matters(copy):
    row = "| base encoder | NLI-DistilBERT |"
    assert row in key_deviations("itvreg/table06", "small")
    assert row not in key_deviations("itvreg/table06", "paper")
    replace_text(copy / "experiments/as_printed.yaml", "{name: base encoder, matters: true, experiments: [table06]",
                 "{name: base encoder, experiments: [table06]")
    assert row not in key_deviations("itvreg/table06", "small")


def test_the_article_names_what_differs_on_public_data(paper):
    sentence = in_short(setting_comparisons(paper))
    printed = [entry for entry in setting_comparisons(paper) if entry.is_printed]
    at_small = [entry for entry in printed if "small" in entry.differing]
    important = {entry.setting.name for entry in printed if "paper" in entry.differing or entry in at_small
                 and entry.setting.matters}
    assert all(name in sentence for name in important)
    settings = {entry.setting.name for entry in at_small if entry.setting.kind == "setting"}
    assert sentence.startswith(f"{len(settings)} of the ")
