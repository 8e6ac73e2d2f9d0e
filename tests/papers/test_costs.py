"What runs cost, before any is made."
import pytest
from typer.testing import CliRunner

import made
from debias_nb.files import project_root
from debias_nb.commands.cli import app
from debias_nb.checks import ConfigError
from debias_nb.papers import costs
from debias_nb.papers.pages.frame import all_experiments, papers
from debias_nb.runs import runner
from debias_nb.runs.config import load_experiment
from debias_nb.runs.records import committed_store

ROOT = project_root(__file__)
AT_PAPER = [experiment for paper in papers() for experiment in all_experiments(paper) if experiment.profile == "paper"]


def run_with(name, profile, method, corpus):
    runs = load_experiment(name, profile).runs()
    return next(run for run in runs if run.training and run.method.name == method and run.corpus.display == corpus)


@pytest.mark.parametrize("corpus, steps", [("Amazon", 20_501), ("Reddit", 22_773), ("Fanfiction", 2_059)])
def test_an_epoch_of_authors_at_the_papers_scale_is_as_long_as_in_their_code(corpus, steps):
    "Texts over batches of 64, as their sampler counts; three epochs of a teacher, one of a student, twelve settings."
    for method, epochs in (("CL", [3]), ("CL + ARR", [3, 1])):
        run = run_with("arr/table02", "paper", method, corpus)
        assert [(costs.rows(run, stage) / 64, *stage[2:]) for stage in costs.stages(run)] == [
            (steps, number, 12) for number in epochs]


def test_runs_at_the_papers_scale_train_in_single_precision_and_as_printed():
    for experiment in AT_PAPER:
        for run in experiment.runs():
            assert run.encoder.dtype == "fp32", "no paper prints another format"
            unit = {"titles": "items", "authors": "texts"}.get(run.task)
            assert not run.training or getattr(run.training, "epoch_of", None) == unit, run.id


@pytest.mark.parametrize("experiment", AT_PAPER, ids=lambda experiment: experiment.name)
def test_a_dry_run_says_what_runs_cost(experiment, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DEBIAS_NB_DATA", str(ROOT / "experiments")) # where no data are
    monkeypatch.setattr(runner, "run_all", lambda *args: pytest.fail("a dry run starts nothing"))
    runs = experiment.runs()
    took, memory = costs.reckoned(runs)
    run = CliRunner().invoke(app, ["batch", experiment.name, "--profile", "paper", "--dry-run", "--fresh"])
    assert run.exit_code == 0, run.output
    told = f"{experiment.name} at paper: 0 runs to load, {len(runs)} to make, {took}"
    assert run.stdout.startswith(told) and f", {memory} GiB on a GPU, estimated" in run.stdout


def test_a_dry_run_asks_for_no_run_that_is_there(tmp_path, monkeypatch):
    "Runs that no configuration asks for have their records with this machine's own, whatever the profile."
    monkeypatch.setenv("DEBIAS_NB_RUNS", str(tmp_path))
    experiment = runner.load("itvreg/table03", "small", seeds=[0, 777])
    further = [run for run in experiment.runs if run.id in experiment.further_ids]
    before = runner.present_records(experiment).keys()
    assert further and before.isdisjoint(run.id for run in further)
    for run in further[:2]: # such as a run that was made just now
        runner.own_store().append(made.record_of(run, {test: {"auc05": .5} for test in run.evaluate}))
    assert runner.present_records(experiment).keys() == before | {run.id for run in further[:2]}


def test_runs_that_wait_for_data_are_left_out_and_others_take_what_records_say(monkeypatch):
    monkeypatch.chdir(ROOT)
    runs = runner.load("itvreg/table03", "planted", full=False).runs
    seconds = [record["seconds"] for record in runner.newest_records(runs, committed_store()).values()]
    minutes = costs.two_digits(len(runs) * sum(seconds) / len(seconds) / 60)
    told = CliRunner().invoke(app, ["run", "itvreg/table03", "--fresh", "--dry-run"]).stdout
    assert f"0 runs to load, {len(runs)} to make, {minutes} minutes, " in told
    monkeypatch.setattr("debias_nb.runs.runner.absent", lambda run: "a file is missing")
    told = CliRunner().invoke(app, ["run", "itvreg/table03", "--fresh", "--dry-run"]).stdout
    assert f" 0 to make, {len(runs)} without their data" in told


def test_what_nobody_counted_is_named():
    run = run_with("arr/table02", "paper", "CL", "Reddit")
    unknown = run.model_copy(update={"corpus": run.corpus.model_copy(update={"name": "redit"})})
    with pytest.raises(ConfigError, match="redit"):
        costs.operations(unknown)
