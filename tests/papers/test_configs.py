"What the committed configurations and records say of each other and of the paper."
import math
import re
import subprocess
import sys
import warnings
from functools import lru_cache
from pathlib import Path

import pandas as pd
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
from debias_nb.papers.pages.frame import Results, all_experiments, only, papers
from debias_nb.runs.runner import narrow
from debias_nb.runs.runner import task_of
from debias_nb.runs.tasks import lacking as lacking_of
from debias_nb.settings import EncoderConfig

ROOT = project_root(Path(__file__).parent)
PROFILES = ("planted", "small")


def gaps(cells):
    """Return the cells without all of their runs.

    A method none of whose runs is there is new: its row is in no page before its first runs are published. MiniLM
    takes hours of a CPU, and is made over several days."""
    is_new = ~cells.method.isin(cells.method[cells.status != "not run"])
    may_lack = cells.encoder.str.startswith("MiniLM") & (cells.status != "failed")
    return cells[(cells.status != "measured") & ~is_new & ~may_lack]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_committed_grid_is_complete(profile):
    cells = only(Results().load("itvreg/table03", profile).cells, table="table3")
    cells = cells[(cells.corpus != "superuser") & (cells.evaluate != "superuser")]
    assert {*cells.method} >= {"Base", "Finetuned", "ITVReg"}
    assert gaps(cells).empty, gaps(cells)[["encoder", "method", "column", "status"]]


def test_a_cell_without_its_runs_is_noticed_unless_its_method_is_new():
    cells = only(Results().load("itvreg/table03", "planted").cells, table="table3")
    lacking = cells.assign(status=["not run", *cells.status[1:]])
    assert gaps(lacking).index.tolist() == [cells.index[0]]
    assert gaps(pd.concat([cells, cells.assign(method="MeanZero", status="not run")])).empty


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


# What a row of the answer-selection paper runs: the paper's formulas, these with its random functions matched one to
# one, its public code, or our own weights.

FORMS = {
    "": {"variant": "paper", "pairs": "each", "class_mass": "free", "debias": "paper"},
    ", matched": {"variant": "paper", "pairs": "matched", "class_mass": "free", "debias": "paper"},
    ", released": {"variant": "released", "class_mass": "free", "debias": "released"},
    ", ours": {"variant": "fixed", "class_mass": "keep", "debias": "paper"},
}
SCAN = [experiment for experiment in all_experiments("scan") if any(method.scan for method in experiment.methods)]
SCAN_METHODS = [(experiment, method) for experiment in SCAN for method in experiment.methods if method.scan]


PARTS = { # what of a form a row runs
    "SCAN": lambda form: form | {"weights": "learned", "memory": "ema"},
    "w/o LD": lambda form: form | {"weights": "learned", "memory": "ema", "debias": "none"},
    "w/o FD": lambda form: {"weights": "uniform", "debias": form["debias"]},
}
# without its weights ours is the printed one
NOT_THERE = {("w/o LD", ", matched"), ("w/o FD", ", matched"), ("w/o FD", ", ours")}


def check_scan(method, settings):
    assert {key: getattr(method.scan, key) for key in settings} == settings


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("part", PARTS)
def test_a_row_named_after_the_papers_method_runs_it(part, form):
    "Or what is left of it; behind its name may stand, in brackets, a data set, settings, or that answers are weighed."
    name = re.compile(rf"{part}{form}( \(.+\)|, weighted)?")
    rows = [method for _, method in SCAN_METHODS if name.fullmatch(method.name)]
    assert rows or (part, form) in NOT_THERE
    for method in rows:
        check_scan(method, PARTS[part](FORMS[form]))


def test_rows_that_were_renamed_find_their_records():
    results = Results()
    records = results.records(load_experiment("scan/table02", "small"), results.store("small"))
    names = {run_id: record["run"].method.name for run_id, record in records.items()}
    assert {*names.values()} >= {"SCAN, ours", "w/o LD, ours", "w/o FD, losses averaged", "w/o LD, released"}
    for run_id, record in records.items():
        assert record["id"] == run_id
    run_ids = [run_id for run_id, name in names.items() if name == "w/o LD, released"]
    assert run_ids and all("-fd-released-s" in run_id for run_id in run_ids)


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


# further planted worlds

def test_further_worlds_are_drawn_with_the_first_seed_and_in_the_full_grid_alone():
    table = load_experiment("arr/table02", "planted")
    block = next(block for block in table.blocks if block.worlds)
    worlds = {}
    for run in table.block_runs(block):
        worlds.setdefault(run.data.world.seed, set()).add(run.seed if run.training else None)
    assert worlds[0] >= set(block.seeds) and set(worlds) == {0, *range(1, block.worlds + 1)}
    assert all(seeds <= {block.seeds[0], None} for world, seeds in worlds.items() if world)
    quick = narrow(table, full=False)
    assert {run.data.world.seed for run in quick.runs()} == {0}, "`make reports` stays quick"


def test_another_world_is_another_run_with_everything_of_that_world():
    runs = load_experiment("itvreg/table03", "planted").runs()
    run = next(run for run in runs if run.training and run.encoder.pretrain)
    second = run.in_world(7)
    assert second.id != run.id and run.in_world(run.corpus.world.seed).id == run.id
    seeds = (second.corpus.world.seed, second.eval_world.seed, second.encoder.world.seed, second.encoder.pretrain.seed)
    assert seeds == (7, 7, 7, 7) and second.seed == run.seed


@pytest.mark.parametrize("corpus, worlds", [
    ({"name": "quora"}, 1),
    ({"name": "authors", "task": "authors", "world": {"name": "authors", "seed": 1}}, 1),
])
def test_worlds_that_cannot_be_are_refused(corpus, worlds):
    with pytest.raises(ValidationError, match="worlds"):
        BlockConfig(
            encoders=["x"], corpora=[corpus], methods=["y"], training=PLAIN, seeds=[0], evaluate=["iid"], worlds=worlds)


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


def test_a_setting_that_was_spelled_otherwise_keeps_its_name_in_ids():
    run = next(run for run in load_experiment("itvreg/table03", "small").runs() if run.method.regularizer == "outreg")
    assert run.model_dump(mode="json")["method"]["regularizer"] == "outreg"
    assert run.model_dump(mode="json", by_alias=True)["method"]["regulariser"] == "outreg"
    assert run.id == "table03-small-potion-base-2m-askubuntu-outreg-s0-80739dead1"


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


def test_an_untrained_encoder_has_the_corpus_that_its_pairs_are_told_apart_by():
    experiment = load_experiment("itvreg/known_texts", "small")
    base = [run for run in experiment.runs() if not run.method.trained]
    assert {run.eval_corpus.name for run in base} == {corpus.name for block in experiment.blocks
                                                      for corpus in block.corpora}
    assert all(run.eval_corpus is None for run in load_experiment("itvreg/table03", "small").runs())
    block = experiment.blocks[0]
    no_measure = block.model_copy(update={"measure": ()})
    assert [run.eval_corpus for run in experiment.block_runs(no_measure) if not run.method.trained] == [None, None]


def test_a_copy_has_an_id_and_runs_of_its_own():
    "Both are made once of each configuration, and kept."
    experiment = load_experiment("itvreg/table03", "planted")
    run = experiment.runs()[-1]
    copied_run = run.model_copy(update={"seed": 77})
    assert run.id != copied_run.id == RunConfig.model_validate(copied_run.model_dump()).id
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


def test_every_run_on_synthetic_data_has_its_encoder_on_any_machine(monkeypatch, tmp_path):
    "It is trained here: nothing is looked for."
    for variable in ("DEBIAS_NB_DATA", "DEBIAS_NB_MODELS"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    runs = [run for paper in papers() for experiment in all_experiments(paper) if experiment.profile == "planted"
            for run in narrow(experiment, seeds=[0]).runs()]
    needs = {need for run in runs for need in task_of(run).needs(run) if isinstance(need[1], EncoderConfig)}
    messages = {lacking_of(*need) for need in needs}
    assert {"answers", "authors", "pairs", "titles"} == {run.task for run in runs} and messages <= {None}


def test_every_encoder_that_a_configuration_names_has_a_card():
    cards = encoder_cards()
    names = {
        encoder.name for paper in papers() for experiment in all_experiments(paper) for encoder in experiment.encoders
        if not encoder.pretrain and encoder.name != "learned"}
    assert names and names <= cards.keys(), "`debias-nb data` lists the cards"
