"""The configurations for a GPU and for data placed by hand.

They load, and one step of each kind of run that they ask for works on a stand-in.
"""
import pytest

from debias_nb.repro.pages.frame import all_experiments
from debias_nb.runs.records import TrainingFailed
from debias_nb.runs.runner import quiet
from dry import dry_runs, dry_step, stand_in


def of_paper(paper):
    "The experiments of a paper in the profile `paper`, by name."
    return {e.experiment: e for e in all_experiments(paper) if e.profile == "paper"}


def table_ids(experiments):
    return {table.id for e in experiments.values() for table in e.tables}


def trained_methods(experiment):
    return {method.name for method in experiment.methods if method.trained}


PAPER = of_paper("itvreg")
SCAN = of_paper("scan")
ARR = of_paper("arr")
STEPS = {} # tables share ways of training: each is tried once


def step(run):
    # all that a dry step takes from a run
    kind = stand_in(run.encoder), run.encoder.dtype, run.method, run.training, run.corpus.task, run.seed
    if kind not in STEPS:
        STEPS[kind] = dry_step(run)
    return STEPS[kind]


def test_every_table_has_a_configuration():
    assert table_ids(PAPER) >= {f"table{n}" for n in range(1, 18)} - {"table9", "table10"}
    assert table_ids(SCAN) == {f"table{n}" for n in range(1, 7)}
    assert table_ids(ARR) == {"table1", "table2", "table3"}
    assert "table09" in PAPER and "table07" in SCAN and "table04" in ARR


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER)
def test_one_step_of_every_kind_of_run(name):
    quiet()
    runs = dry_runs(PAPER[name])
    assert runs
    assert {r.method.name for r in runs} == trained_methods(PAPER[name])
    for run in runs:
        terms = step(run)
        assert terms["erm"] > 0
        assert ("raw" in terms) == (run.method.regulariser != "none" or run.method.augmentation == "itvaug")


def loses_its_weights(run):
    "The rate that is printed for ANTIQUE is too large for the printed loss over hundreds of features, as on the page of errata."
    scan = run.method.scan
    return scan is not None and scan.weights == "learned" and scan.rate == 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in SCAN if n != "table01"])
def test_one_step_of_every_kind_of_run_on_answers(name):
    quiet()
    runs = dry_runs(SCAN[name])
    assert {r.method.name for r in runs} == trained_methods(SCAN[name])
    assert {r.training.batch_size for r in runs} == {140}
    assert {r.encoder.max_length for r in runs} == {128}
    for run in runs:
        if loses_its_weights(run):
            with pytest.raises(TrainingFailed, match="weights are not finite"):
                step(run)
            continue
        terms = step(run)
        assert terms["sw"] > 0
        assert ("cl" in terms) == (run.method.scan is not None and run.method.scan.debias != "none")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table02", "table03"])
def test_one_step_of_every_kind_of_run_on_authors(name):
    quiet()
    runs = dry_runs(ARR[name])
    assert {r.method.name for r in runs} == trained_methods(ARR[name])
    assert {r.seed for r in ARR[name].runs() if r.method.trained} == {0, 43, 314}
    for run in runs:
        t = run.training
        assert {t.learning_rate, *t.further_rates} == {1e-3, 1e-4, 1e-5}
        assert {t.temperature, *t.further_temperatures} == {.5, .1, .05, .01}
        assert (t.batch_size, t.epochs, t.student_epochs) == (64, 3, 1)
        terms = step(run)
        assert terms["loss"] > 0
        assert ("B" in terms) == (run.method.authors.student == "arr")
        assert ("accuracy" in terms) == (run.method.name == "MLL")


def test_the_papers_settings():
    titles = PAPER["table02"].blocks[0].training
    questions = PAPER["table11"].blocks
    assert (titles.loss, titles.margin, titles.hardest) == ("hinge", 1., 1)
    assert (titles.batch_size, titles.epochs, titles.learning_rate) == (900, 200, 1e-4)
    epochs = {b.corpora[0].name: b.training.epochs for b in questions}
    assert epochs == {"qqp": 4, "askubuntu_shah": 1, "superuser": 1}
    assert {b.training.batch_size for b in questions} == {250}
    assert {b.training.epochs for b in PAPER["table14"].blocks if b.corpora[0].name == "qqp"} == {20}
    assert {b.training.learning_rate for b in PAPER["table17"].blocks} == {1e-5}
    assert {b.training.select for b in PAPER["table17"].blocks} == {"best"}
    for e in PAPER.values():
        assert {x.max_length for x in e.encoders} == {32}
        assert all(len(b.seeds) == 3 for b in e.blocks if e.experiment != "table09")


@pytest.mark.parametrize("name, missing", [
    ("arr/table02", ["amazon2018_reviews", "reddit_pushshift", "pan20_train"]),
    ("arr/table03", ["amazon2018_reviews", "reddit_pushshift"]),
    ("itvreg/table02", ["lf_amazontitles131k"]),
    ("itvreg/table03", ["askubuntu_shah", "superuser", "qqp"]),
    ("scan/table02", ["asnq"]),
])
def test_what_is_missing_is_named_by_corpus_and_all_at_once(name, missing):
    "Whatever a table calls its corpora, and the corpus of a first stage too."
    from debias_nb.repro.pages.cells import reasons
    from debias_nb.repro.pages.frame import stored
    study = stored(name, "paper")
    told = reasons([cell for cell in study.cells if cell.status == "not run"])
    for corpus in missing:
        assert f"{corpus} has no public download: download its files manually (`debias-nb data`)" in told
    for encoder in study.experiment.encoders:
        assert f"the encoder {encoder.name} from the hub (`debias-nb data`)" in told
    assert "a GPU" in told


@pytest.mark.parametrize("name, method, missing", [
    ("scan/table02", "TANDA", ["FacebookAI/roberta-base", "asnq"]),
    ("arr/table02", "CL", ["paraphrase-distilroberta-base-v1", "amazon2018_reviews"]),
    ("itvreg/table03", "OutReg", ["distilbert-base", "askubuntu_shah"]),
])
def test_a_run_tells_all_that_it_lacks(name, method, missing, monkeypatch, tmp_path):
    "Not one thing after another."
    from debias_nb.runs.config import load_experiment
    from debias_nb.runs.tasks.common import lacking, task_of
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(tmp_path))
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    lacking.cache_clear()
    run = next(run for run in load_experiment(name, "paper").runs() if run.method.name.startswith(method))
    told = task_of(run).lacks(run)
    lacking.cache_clear()
    for what in missing:
        assert what in told, told
