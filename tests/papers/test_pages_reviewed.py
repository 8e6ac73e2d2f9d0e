"What pages say of their differences, and on how many replicates."
import pandas as pd
import pytest

from debias_nb.runs.config import Announced, load_experiment
from debias_nb.papers.pages.frame import summary_of
from debias_nb.runs.pairing import Made
from debias_nb.papers.pages.compare import differences
from debias_nb.papers.pages.tables import APART, rests_on

SEEDS = (0, 1, 2)


def runs_of(method, value, encoder="static", seeds=SEEDS, dirty=(), origin=None, worlds=None):
    "The runs of a method on one test; some from a tree with changes, or made elsewhere."
    rows = []
    for i, seed in enumerate(seeds):
        world = worlds[i] if worlds else None
        rows.append(dict(
            encoder=encoder, role=None, corpus="forum", test="Quora", evaluate="quora", shift="ood", method=method,
            family=method,
            strength=None, metric="auc05", unit="percent", against="Finetuned", further=False, complete=True,
            key=(world, seed), value=value + i / 10,
            resampled=None, overlap=0., made=Made("torch 2.13.0", (origin or {}).get(seed, "here")),
            clean=seed not in dirty, training_data=None, base_encoder=None, test_data=None,
        ))
    return pd.DataFrame(rows)


@pytest.fixture
def plain():
    return runs_of("Finetuned", 50.)


def rows_of(text):
    "The cells of a table in Markdown, without its header."
    lines = [line.strip("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")] for line in lines[2:]]


def test_what_is_left_out_is_named_with_its_reason(plain):
    origins = {2: "elsewhere"}
    runs = pd.concat([plain, runs_of("OutReg", 52.), runs_of("SimCSE", 51.), runs_of("ITVReg", 53., dirty=[0])])
    runs = pd.concat([runs, runs_of("MaskReg", 53., origin=origins)])
    text = rests_on(runs)
    assert text.endswith(APART) and rows_of(text) == [
        ["static", "OutReg", "Quora", "3 seeds", ""], ["", "SimCSE", "Quora", "3 seeds", ""],
        ["", "ITVReg", "Quora", "2 seeds", "seed 0: made from a tree with uncommitted changes"],
        ["", "MaskReg", "Quora", "2 seeds", "seed 2: made on unlike processors or with unlike versions"],
    ]


def test_a_comparison_that_cannot_be_made_is_not_silent(plain):
    runs = pd.concat([plain, runs_of("OutReg", 52.), runs_of("ITVReg", 53., dirty=SEEDS)])
    assert set(differences(runs).method) == {"OutReg"}
    left_out = ["too few: 0 seeds", "seed 0, seed 1, seed 2: made from a tree with uncommitted changes"]
    assert rows_of(rests_on(runs)) == [["static", "OutReg", "Quora", "3 seeds", ""], ["", "ITVReg", "Quora", *left_out]]


def test_one_number_for_all_is_said_once_and_a_world_counts_once(plain):
    assert rests_on(pd.concat([plain, runs_of("OutReg", 52.)])) == "Each difference: n = 3 seeds."
    text = rests_on(pd.concat([plain, runs_of("OutReg", 52., seeds=(0, 1))]))
    assert text == f"Each difference: n = 2 seeds.\n\n{APART}"
    worlds = [0, 0, 1]
    runs = pd.concat([runs_of("Finetuned", 50., worlds=worlds), runs_of("OutReg", 52., worlds=worlds)])
    assert rests_on(runs) == "Each difference: n = 2 synthetic datasets."


def test_runs_are_counted_against_those_announced():
    experiment = load_experiment("itvreg/practice", "small")
    plan = Announced(runs=201, commits=("97cce18d",), why="time was short")
    with_plan = experiment.model_copy(update={"announced": plan})
    assert summary_of(with_plan, 41,
                      41) == "41 of 201 announced runs completed (time was short; announced in 97cce18d)."
    assert "keeps 41 of them" in summary_of(with_plan, 40, 41)
    assert summary_of(experiment.model_copy(update={"announced": None}), 41, 41) == "41 of 41 runs completed."
    no_plan = experiment.model_copy(update={"announced": None})
    assert [run.id for run in experiment.runs()] == [run.id for run in no_plan.runs()]
