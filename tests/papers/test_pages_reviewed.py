"What pages say of their differences, and on how many replicates."
import pandas as pd

from debias_nb.runs.config import load_experiment
from debias_nb.papers.pages.frame import only, summary_of
from debias_nb.runs.pairing import Made
from debias_nb.papers.pages.compare import Question, differences, pairs
from debias_nb.papers.pages.tables import APART, rests_on

def rows_of(text):
    "The cells of a table in Markdown, without its header."
    lines = [line.strip("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")] for line in lines[2:]]


def runs_of(method, value, dirty=(), elsewhere=()): # seeds
    "The runs of a method on one test; some from a tree with changes, or made elsewhere."
    place = dict(
        encoder="static", role=None, corpus="forum", test="Quora", evaluate="quora", shift="ood", method=method,
        family=method, strength=None, metric="auc05", unit="percent", against="Finetuned", further=False,
        complete=True, resampled=None, overlap=0., training_data=None, base_encoder=None, test_data=None)
    return pd.DataFrame([place | {
        "key": (None, seed), "value": value + seed / 10, "clean": seed not in dirty,
        "made": Made("torch 2.13.0", "elsewhere" if seed in elsewhere else "here")} for seed in range(3)])


def test_what_is_left_out_is_named_with_its_reason():
    runs = pd.concat([
        runs_of("Finetuned", 50.), runs_of("OutReg", 52.), runs_of("ITVReg", 53., dirty=[0]),
        runs_of("MaskReg", 53., elsewhere=[2]), runs_of("SimCSE", 51., dirty=[0, 1, 2])])
    text = rests_on(runs)
    assert text.endswith(APART) and rows_of(text) == [
        ["static", "OutReg", "Quora", "3 seeds", ""],
        ["", "ITVReg", "Quora", "2 seeds", "seed 0: made from a tree with uncommitted changes"],
        ["", "MaskReg", "Quora", "2 seeds", "seed 2: made on unlike processors or with unlike versions"],
        ["", "SimCSE", "Quora", "too few: 0 seeds",
         "seed 0, seed 1, seed 2: made from a tree with uncommitted changes"],
    ]
    assert set(differences(runs).method) == {"OutReg", "ITVReg", "MaskReg"}
    assert Question("", only(pairs(runs), method="SimCSE")).estimate == "not run here"
    assert pairs(runs.assign(complete=False)).empty


def test_runs_that_have_been_left_out_since_they_were_announced_are_counted():
    experiment = load_experiment("itvreg/practice", "small")
    assert "keeps 40 of them" in summary_of(experiment, 39, 40)
