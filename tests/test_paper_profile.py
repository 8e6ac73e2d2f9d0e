"The configurations for a GPU and for data placed by hand: they load, and one step of each kind of run that they ask for works on a stand-in."
import pytest

from debias_nb.repro.runner import dry_runs, dry_step, quiet
from debias_nb.repro.tasks.common import stand_in
from debias_nb.repro.frame import all_experiments

PAPER = {e.experiment: e for e in all_experiments("itvreg") if e.profile == "paper"}

def test_every_table_has_a_configuration():
    assert {t.id for e in PAPER.values() for t in e.tables} >= {f"table{n}" for n in range(1, 18)} - {"table9", "table10"} and "table09" in PAPER

STEPS = {} # tables share ways of training: each is tried once

def step(run):
    kind = stand_in(run.encoder), run.encoder.dtype, run.method, run.training, run.corpus.task, run.seed # all that a dry step takes from a run
    if kind not in STEPS: STEPS[kind] = dry_step(run)
    return STEPS[kind]

@pytest.mark.parametrize("name", PAPER)
def test_one_step_of_every_kind_of_run(name):
    quiet()
    runs = dry_runs(PAPER[name])
    assert runs and {r.method.name for r in runs} == {m.name for m in PAPER[name].methods if m.trained}
    for run in runs:
        terms = step(run)
        assert terms["erm"] > 0 and ("raw" in terms) == (run.method.regulariser != "none" or run.method.augmentation == "itvaug")

SCAN = {e.experiment: e for e in all_experiments("scan") if e.profile == "paper"}

def test_every_table_of_answer_selection_has_a_configuration():
    assert {t.id for e in SCAN.values() for t in e.tables} == {f"table{n}" for n in range(1, 7)} and "table07" in SCAN

@pytest.mark.parametrize("name", [n for n in SCAN if n != "table01"])
def test_one_step_of_every_kind_of_run_on_answers(name):
    quiet()
    runs = dry_runs(SCAN[name])
    assert {r.method.name for r in runs} == {m.name for m in SCAN[name].methods if m.trained} and {r.training.batch_size for r in runs} == {140} and {r.encoder.max_length for r in runs} == {128}
    for run in runs:
        terms = step(run)
        assert terms["sw"] > 0 and ("cl" in terms) == (run.method.scan is not None and run.method.scan.debias != "none")

ARR = {e.experiment: e for e in all_experiments("arr") if e.profile == "paper"}

def test_every_table_of_authorship_has_a_configuration():
    assert {t.id for e in ARR.values() for t in e.tables} == {"table1", "table2", "table3"} and "table04" in ARR

@pytest.mark.parametrize("name", ["table02", "table03"])
def test_one_step_of_every_kind_of_run_on_authors(name):
    quiet()
    runs = dry_runs(ARR[name])
    assert {r.method.name for r in runs} == {m.name for m in ARR[name].methods if m.trained} and {r.seed for r in ARR[name].runs() if r.method.trained} == {0, 43, 314}
    for run in runs:
        t = run.training
        assert {t.learning_rate, *t.further_rates} == {1e-3, 1e-4, 1e-5} and {t.temperature, *t.further_temperatures} == {.5, .1, .05, .01} and (t.batch_size, t.epochs, t.student_epochs) == (64, 3, 1)
        terms = step(run)
        assert terms["loss"] > 0 and ("B" in terms) == (run.method.authors.student == "arr") and ("accuracy" in terms) == (run.method.name == "MLL")

def test_the_papers_settings():
    titles, questions = PAPER["table02"].blocks[0].training, PAPER["table11"].blocks
    assert (titles.loss, titles.margin, titles.hardest, titles.batch_size, titles.epochs, titles.learning_rate) == ("hinge", 1., 1, 900, 200, 1e-4)
    assert {b.corpora[0].name: b.training.epochs for b in questions} == {"qqp": 4, "askubuntu_shah": 1, "superuser": 1} and {b.training.batch_size for b in questions} == {250}
    assert {b.training.epochs for b in PAPER["table14"].blocks if b.corpora[0].name == "qqp"} == {20}
    assert {b.training.learning_rate for b in PAPER["table17"].blocks} == {1e-5} and {b.training.select for b in PAPER["table17"].blocks} == {"best"}
    for e in PAPER.values(): assert {x.max_length for x in e.encoders} == {32} and all(len(b.seeds) == 3 for b in e.blocks if e.experiment != "table09")
