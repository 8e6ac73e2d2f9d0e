"What the committed configurations and records say of each other and of the paper."
import math
import re
import subprocess
import sys
import warnings
from functools import lru_cache
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from debias_nb.checks import ConfigError, check_range
from debias_nb.files import parse_yaml, project_root

from debias_nb.papers.settings.answers import ScanConfig
from debias_nb.papers.settings.authors import AuthorsConfig
from debias_nb.runs.config import BlockConfig, ExperimentConfig, RunConfig, load_experiment
from debias_nb.runs.settings import AnyCorpus, AnyMethod, AnyTraining, all_tasks
from debias_nb.runs.records import Store, latest
from debias_nb.encoders.loading import encoder_cards
from debias_nb.papers.pages.frame import all_experiments, papers
from debias_nb.runs.runner import narrow

ROOT = project_root(Path(__file__).parent)
RECORDS = Store(ROOT / "experiments")


@lru_cache
def runs_by_place():
    "Runs of all configurations by the place of their records: a study may have rows that a table had before."
    by_place = {}
    for paper in papers():
        for experiment in all_experiments(paper):
            for run in experiment.runs():
                by_place.setdefault(run.place, {})[run.id] = run
    return by_place


def test_all_committed_records_are_published():
    assert RECORDS.unpublished() == [], "files of runs in experiments/ go into its Parquet files: debias-nb publish"


@pytest.mark.parametrize("place", RECORDS.places())
def test_committed_records_are_those_of_their_runs_and_of_this_configuration(place):
    "What is no record would be left out with a warning."
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        records = RECORDS.records(place)
    assert records
    runs = runs_by_place()[place]
    for run_id, record in latest(records).items():
        assert run_id in runs, f"{run_id}: no configuration asks for this record"
        config = RunConfig.model_validate(record["config"])
        assert config.as_recorded() == runs[
            run_id].as_recorded(), "settings added since have defaults that mean: as before"
        assert config.id == run_id


@pytest.mark.parametrize("paper", papers())
def test_every_borrowed_run_of_this_project_has_an_owner_or_was_one_of_its_runs(paper):
    for profile in ("planted", "small", "paper"):
        mine = {e.experiment: e for e in all_experiments(paper) if e.profile == profile}
        run_ids = {name: {r.id for r in e.runs() if r.experiment == name} for name, e in mine.items()}
        for e in mine.values():
            for r in e.runs():
                assert r.experiment in run_ids, f"{e.experiment}, {profile}: {r.id} belongs to no experiment"
                has_owner = r.id in run_ids[r.experiment] or RECORDS.find(r)
                assert has_owner, f"{e.experiment}, {profile}: {r.id} belongs to no experiment"


# files of the repository

TEXTS = (".py", ".ipynb", ".md", ".yaml", ".yml", ".toml", ".cff", ".ini", ".jsonl", ".csv", ".tex")


def git_files(*options):
    "The lines of `git ls-files`."
    out = subprocess.run(["git", "ls-files", *options], cwd=ROOT, capture_output=True, text=True)
    if out.returncode:
        pytest.skip("not a git checkout")
    return out.stdout.splitlines()


def test_nothing_committed_is_a_link_or_large_or_knows_this_machine():
    assert not [line for line in git_files("-s") if line.startswith("120000")]
    home = re.compile(r"/(?:home|root|Users|work)/\w")
    paths = [ROOT / file for file in git_files("-co", "--exclude-standard")]
    for path in filter(Path.is_file, paths):
        largest = 3_000_000 if path.suffix == ".parquet" else 1_000_000
        assert path.stat().st_size <= largest, f"{path}: {path.stat().st_size:,} bytes"
        if path.suffix in TEXTS and path != Path(__file__):
            assert not home.search(path.read_text("utf-8")), path


@pytest.mark.parametrize("corpus, field, value", [
    ({"name": "quora"}, "worlds", 1), ({"name": "quora"}, "redraw", True),
    ({"name": "authors", "task": "authors", "world": {"name": "authors", "seed": 1}}, "worlds", 1),
])
def test_replicates_that_cannot_be_are_refused(corpus, field, value):
    with pytest.raises(ValidationError, match=field):
        BlockConfig(encoders=["x"], corpora=[corpus], methods=["y"], training=PLAIN, seeds=[0], evaluate=["iid"],
                    **{field: value})


PLAIN = {"learning_rate": 1e-3, "epochs": 1, "batch_size": 8}
ITVREG = {"regularizer": "itvreg", "mask_share": .5}


@pytest.mark.parametrize("kind, settings, field", [
    (AnyCorpus, {"name": "catalogue"}, "world"),
    (AnyCorpus, {"name": "quora", "world": {"name": "catalogue"}}, "world"),
    (AnyCorpus, {"name": "catalogue", "world": {"name": "catalogue"}, "task": "answers"}, "world"),
    (AnyCorpus, {"name": "quora", "flip": .1}, "flip"),
    (AnyCorpus, {"name": "aan_citations", "task": "titles"}, "by"),
    (AnyCorpus, {"name": "aan_citations", "task": "titles", "by": "year"}, "until"),
    (AnyCorpus, {"name": "aan_citations", "task": "titles", "by": "category"}, "held_out"),
    (AnyCorpus, {"name": "quora", "ticks": 2}, "ticks"),
    (AnyCorpus, {"name": "newsgroups20_authors", "task": "authors"}, "split"),
    (AnyCorpus, {"name": "quora", "split": {}}, "split"),
    (AnyCorpus, {"name": "quora", "likeness": .5}, "likeness"),
    (AnyCorpus, {"name": "askubuntu", "duplicates": 5}, "`duplicates`"),
    (AnyCorpus, {"name": "askubuntu", "negatives": 5}, "`duplicates`"),
    (AnyCorpus, {"name": "askubuntu", "duplicates": 5, "negatives": 5, "share": .5}, "`duplicates`"),
    (ScanConfig, {"pairs": "each"}, "pairs"),
    (AuthorsConfig, {"counted": "bow", "student": "arr"}, "counted"),
    (AuthorsConfig, {"bias": 0}, "bias"),
    (AuthorsConfig, {"student": "corrected"}, "gamma"),
    (AuthorsConfig, {"base": "mll", "gamma": 1}, "gamma"),
    (AnyMethod, {"name": "x", "regularizer": "itvreg", "weight": 1}, "mask_share"),
    (AnyMethod, {"name": "x", "mask_share": .5}, "mask_share"),
    (AnyMethod, {"name": "x", "regularizer": "outreg", "trained": False}, "not trained"),
    (AnyMethod, {"name": "x", **ITVREG, "augmentation": "itvaug"}, "augmentation"),
    (AnyMethod, {"name": "x", "weight": 1}, "weight"),
    (AnyMethod, {"name": "x", "rows": .5}, "rows"),
    (AnyMethod, {"name": "x", "texts": {"corpora": ["quora"]}}, "`texts`"),
    (AnyMethod, {"name": "x", "texts": {"corpora": ["quora"]}, "regularizer": "outreg", "rows": .5}, "`texts` belongs"),
    (AnyMethod, {"name": "x", "authors": {"counted": "bow"}}, "counted"),
    (AnyCorpus, {"name": "wikiqa", "task": "anwers"}, "did you mean 'answers'"),
    (AnyMethod, {"name": "x", "scan": {}, "trained": False}, "not trained has no `scan`"),
    (AnyMethod, {"name": "x", "weight": 1, "scan": {}}, "unknown key"),
    (AnyTraining, {**PLAIN, "loss": "hinge"}, "margin"),
    (AnyTraining, {**PLAIN, "temperature": 1}, "temperature"),
    (AnyTraining, {**PLAIN, "loss": "authors"}, "temperature"),
    (AnyTraining, {**PLAIN, "further_rates": (1e-2,)}, "further_rates"),
    (AnyTraining, {**PLAIN, "positive_weight": 3}, "positive_weight"),
    (AnyTraining, {**PLAIN, "epoch_of": "items"}, "epoch_of"),
    (AnyTraining, {**PLAIN, "loss": "hinge", "margin": 1, "hardest": 1, "epoch_of": "texts"}, "epoch_of"),
])
def test_settings_that_do_not_belong_together_are_refused(kind, settings, field):
    with pytest.raises(ValidationError, match=field):
        TypeAdapter(kind).validate_python(settings)


def test_a_name_of_an_experiment_stands_once_and_for_something():
    table = load_experiment("itvreg/table03", "planted").model_copy()
    column = table.tables[0].columns[0].model_copy(update={"corpus": "mid"})
    for change, words in (({"methods": (*table.methods, table.methods[0])}, "methods: a name occurs twice"),
                          ({"tables": [table.tables[0].model_copy(update={"columns": (column,)})]}, "'mid'.*'mild'")):
        with pytest.raises(ValidationError, match=words):
            ExperimentConfig(**(dict(table) | change))


def test_a_method_and_a_training_belong_to_the_task_of_the_run():
    run = load_experiment("scan/table02", "planted").runs()[0]
    plain = run.model_dump() | {"method": {"name": "Finetuned"}}
    assert type(RunConfig.model_validate(plain).method) is all_tasks()["answers"].method
    with pytest.raises(ValidationError, match=r"method[\s\S]*regularizer[\s\S]*unknown key"):
        RunConfig.model_validate(plain | {"method": {"name": "OutReg", "regularizer": "outreg", "weight": 1.}})
    with pytest.raises(ValidationError, match=r"training[\s\S]*loss"):
        RunConfig.model_validate(plain | {"corpus": run.data, "training": PLAIN})


@pytest.mark.parametrize("bracket", ["[", "- ", "? ", "{a: "])
def test_brackets_within_brackets_end_no_process(bracket):
    "libyaml reads them by recursion, and the process would be gone; so the deepest are read in one of their own."
    with pytest.raises(ConfigError, match="here: line 1: more than 50"):
        parse_yaml(bracket * 60, "here")
    code = f"from debias_nb.files import parse_yaml\nparse_yaml({bracket!r} * 50_000, 'here')"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 1 and "ConfigError: here: line 1: more than 50" in process.stderr


@pytest.mark.parametrize("value", ["12:30:45", "1:30", "1:30.5", "010", "0x10", "0b11", "-190:20"])
def test_a_number_that_yaml_would_read_as_another_is_refused(value):
    with pytest.raises(ConfigError, match=f"here: {value!r} is no number in decimal digits"):
        parse_yaml(f"weight: {value}", "here")
    assert parse_yaml(f"weight: '{value}'", "here") == {"weight": value}


def test_decimal_numbers_are_read():
    assert parse_yaml("[0, -7, +12, 1_000, 0.5, .5, 1., 2e-2, 1e3, -1.5e+3, .inf]", "here") == [
        0, -7, 12, 1000, .5, .5, 1., .02, 1e3, -1500., math.inf]


def test_a_copy_has_an_id_and_runs_of_its_own():
    "Both are made once of each configuration, and kept."
    experiment = load_experiment("itvreg/table03", "planted")
    run = experiment.runs()[-1]
    copied_run = run.model_copy(update={"seed": 77})
    assert run.id != copied_run.id == RunConfig.model_validate(copied_run.model_dump()).id
    quick = narrow(load_experiment("arr/table02", "planted"), full=False)
    assert {run.data.world.seed for run in quick.runs()} == {0}, "further worlds are of the full grid alone"
    selection = narrow(experiment, seeds=[77], full=False)
    assert {run.seed for run in selection.runs() if run.training} == {77}
    assert experiment.runs() == load_experiment("itvreg/table03", "planted").runs()


@pytest.mark.parametrize("ends_in, low_is_in, high_is_in, ends", [
    ("both", True, True, "[2, 3]"), ("left", True, False, "[2, 3)"), ("right", False, True, "(2, 3]"),
    ("neither", False, False, "(2, 3)")])
def test_a_range_says_which_of_its_ends_belong_to_it(ends_in, low_is_in, high_is_in, ends):
    check_range("share", 2.5, 2, 3, ends_in)
    for value, is_in in ((2, low_is_in), (3, high_is_in), (1.9, False), (3.1, False)):
        if is_in:
            check_range("share", value, 2, 3, ends_in)
        else:
            with pytest.raises(ConfigError) as e:
                check_range("share", value, 2, 3, ends_in)
            assert str(e.value) == f"share must lie in {ends}, got {value}"


def test_every_encoder_that_a_configuration_names_has_a_card():
    cards = encoder_cards()
    names = {
        encoder.name for paper in papers() for experiment in all_experiments(paper) for encoder in experiment.encoders
        if not encoder.pretrain and encoder.name != "learned"}
    assert names and names <= cards.keys(), "`debias-nb data` lists the cards"
