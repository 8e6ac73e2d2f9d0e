"What runs cost, before any is made."
import pytest
from typer.testing import CliRunner

import made
from debias_nb.files import project_root
from debias_nb.commands.cli import app
from debias_nb.papers.costs import Measurements, Reckoning, forecast, stages, two_digits
from debias_nb.papers.pages.frame import all_experiments, papers
from debias_nb.runs import runner
from debias_nb.runs.config import load_experiment
from debias_nb.runs.records import Store

ROOT = project_root(__file__)
AT_PAPER = [experiment for paper in papers() for experiment in all_experiments(paper) if experiment.profile == "paper"]


def run_with(name, profile, method, corpus):
    runs = load_experiment(name, profile).runs()
    return next(run for run in runs if run.training and run.method.name == method and run.corpus.display == corpus)


@pytest.mark.parametrize("corpus, steps", [("Amazon", 20_501), ("Reddit", 22_773), ("Fanfiction", 2_059)])
def test_an_epoch_of_authors_at_the_papers_scale_is_as_long_as_in_their_code(corpus, steps):
    "Texts over batches of 64, as their sampler counts; three epochs of a teacher, one of a student, twelve settings."
    reckoning = Reckoning()
    assert reckoning.steps(run_with("arr/table02", "paper", "CL", corpus)) == 12 * 3 * steps
    assert reckoning.steps(run_with("arr/table02", "paper", "CL + ARR", corpus)) == 12 * (3 + 1) * steps
    of_authors = run_with("arr/table02", "paper", "CL", corpus)
    training = of_authors.training.model_copy(update={"epoch_of": None})
    assert reckoning.steps(of_authors.model_copy(update={"training": training})) < 12 * 3 * steps / 2


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
    reckoning = Reckoning()
    runs = experiment.runs()
    hours = two_digits(sum(map(reckoning.seconds, runs)) / 3600)
    memory = two_digits(max(map(reckoning.memory, runs)) / 2**30)
    steps = two_digits(sum(map(reckoning.steps, runs)))
    run = CliRunner().invoke(app, ["batch", experiment.name, "--profile", "paper", "--dry-run", "--fresh"])
    assert run.exit_code == 0, run.output
    batches = sorted({run.training.batch_size for run in runs if run.training})
    row = [experiment.name, str(len(runs)), "0", steps, ", ".join(map(str, batches)), memory, hours]
    assert f"| {' | '.join(row)} |" in run.stdout


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


def test_runs_that_wait_for_data_by_hand_are_left_out_and_counted(monkeypatch, tmp_path):
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path))
    told = CliRunner().invoke(app, ["run", "itvreg/table03", "--profile", "small", "--fresh", "--dry-run"]).stdout
    runs = runner.load("itvreg/table03", "small", full=False).runs
    of_superuser = sum(run.data is not None and run.data.name == "superuser" for run in runs)
    assert of_superuser and f"left out: {of_superuser} runs on data that you download by hand" in told
    assert f"| itvreg/table03 | {len(runs) - of_superuser} |" in told


def test_what_nobody_counted_is_named_and_left_out():
    reckoning = Reckoning()
    experiment = load_experiment("arr/table02", "paper")
    complete = forecast(experiment, (), reckoning).row()
    del reckoning.assumptions["corpora"]["pan20_train"]
    part = forecast(experiment, (), reckoning)
    assert part.unknown == ["pan20_train"]
    row = part.row()
    assert 0 < row["hours"] < complete["hours"] and 0 < row["without"] < row["runs"]


def test_records_of_like_runs_say_what_a_run_takes():
    experiment = load_experiment("arr/table02", "planted")
    records = Store(ROOT / "experiments").records("arr/table02.planted")
    by_id = {record["id"]: record for record in records}
    measurements = Measurements(records)
    runs = [run for run in experiment.runs() if run.training and run.method.authors.student == "none"]
    for run in runs[:40]:
        [stage] = stages(run)
        assert (measurements.steps(run)
                == by_id[run.id]["curve"]["step"][-1] * stage.times), "as its record counted, for each setting"
    complete = forecast(experiment, (), measurements)
    assert not complete.unknown
    seconds = sum(by_id[run.id]["seconds"] for run in experiment.runs())
    assert complete.costs.seconds.sum() == pytest.approx(seconds, rel=.2)
    assert forecast(experiment, by_id, measurements).row()["runs"] == 0, "what has a record is not made again"
