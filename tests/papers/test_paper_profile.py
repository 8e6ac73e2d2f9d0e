"""The configurations for a GPU and for data placed by hand.

They load, and three steps of each kind of run that they ask for work with a random encoder of the paper's width.
"""
import pytest

from debias_nb.papers.pages.frame import all_experiments, papers
from debias_nb.runs.records import TrainingFailed
from debias_nb.runs.runner import quiet_libraries
from dry import dry_runs, dry_steps


EXPERIMENTS = {
    f"{paper}/{config.experiment}": config for paper in papers() for config in all_experiments(paper)
    if config.profile == "paper"}
TAKEN = {} # tables share ways of training: each is tried once


def take_steps(run, folder):
    # all that these steps take from a run; a strength is only a factor
    method = run.method.with_weight(1.).model_copy(update={"name": "", "setting": None, "was": None})
    kind = run.encoder.kind, run.encoder.dtype, method, run.training
    if kind not in TAKEN:
        TAKEN[kind] = dry_steps(run, folder / run.id)
    return TAKEN[kind]


def test_every_table_has_a_configuration():
    numbers = {"itvreg": [*range(1, 9), *range(11, 18)], "scan": range(1, 7), "arr": range(1, 4)}
    for paper, table_numbers in numbers.items():
        tables = {table.id for name, config in EXPERIMENTS.items() if name.startswith(paper) for table in config.tables}
        assert tables >= {f"table{number}" for number in table_numbers}
    assert {"itvreg/table09", "scan/table07", "arr/table04"} <= EXPERIMENTS.keys(), "cases, without a table of numbers"


def loses_its_weights(run):
    "By SGD the rate printed for ANTIQUE is too large for the printed loss over hundreds of features (errata)."
    scan = getattr(run.method, "scan", None)
    return scan is not None and scan.weights == "learned" and scan.optimizer != "adam" and scan.rate == 1e-3


def expected_terms(run):
    "The terms of the loss of the first step, those that may be there."
    method = run.method
    if run.task == "answers":
        return {"sw"} | ({"ce", "cl"} if method.scan and method.scan.debias != "none" else set())
    if run.task == "authors":
        return ({"loss"} | ({"B"} if method.authors.student == "arr" else set())
                | ({"accuracy"} if method.name == "MLL" else set()))
    return {"erm"} | ({"raw", "weighted"} if method.regularizer != "none" or method.augmentation == "itvaug" else set())


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name",
                         [name for name, config in EXPERIMENTS.items()
                          if any(method.trained for method in config.methods)])
def test_three_steps_of_every_kind_of_run(name, tmp_path):
    quiet_libraries()
    runs = dry_runs(EXPERIMENTS[name])
    assert {run.method.name for run in runs} == {method.name for method in EXPERIMENTS[name].methods if method.trained}
    for run in runs:
        if loses_its_weights(run):
            with pytest.raises(TrainingFailed, match="weights"):
                take_steps(run, tmp_path)
            continue
        terms = take_steps(run, tmp_path)
        named = {"erm", "raw", "weighted", "sw", "ce", "cl", "loss", "B", "accuracy"} & terms.keys()
        assert named == expected_terms(run) and terms[min(named & {"erm", "sw", "loss"})] > 0


@pytest.mark.parametrize("name, method, missing", [
    ("scan/table02", "TANDA", ["FacebookAI/roberta-base", "asnq"]),
    ("arr/table02", "CL", ["paraphrase-distilroberta-base-v1", "amazon2018_reviews"]),
    ("itvreg/table03", "OutReg", ["distilbert-base", "askubuntu_shah"]),
])
def test_a_run_tells_all_that_it_lacks(name, method, missing, monkeypatch, tmp_path, nothing_kept):
    "Not one thing after another."
    from debias_nb.runs.config import load_experiment
    from debias_nb.runs.runner import task_of
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(tmp_path))
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    run = next(run for run in load_experiment(name, "paper").runs() if run.method.name.startswith(method))
    message = task_of(run).lacks(run)
    for word in missing:
        assert word in message, message
