"What pages say of their differences: on how many replicates each rests, and what was left out of it."
import re
from pathlib import Path

import pandas as pd
import pytest

from debias_nb.repro.config import load_experiment
from debias_nb.repro.frame import only_stored
from debias_nb.repro.pairing import Made
from debias_nb.repro.pages import write_notebook
from debias_nb.repro.runner import narrow
from debias_nb.repro.tables import APART, differences, pairs, rests_on, tally, told

ROOT = Path(__file__).parents[1]
SEEDS = (0, 1, 2)


def runs_of(method, value, encoder="static", seeds=SEEDS, dirty=(), made=None, worlds=None):
    "The runs of a method on one test; some from a tree with changes, or made elsewhere."
    rows = []
    for i, seed in enumerate(seeds):
        world = worlds[i] if worlds else None
        rows.append(dict(
            encoder=encoder, corpus="forum", test="Quora", evaluate="quora", shift="ood", method=method, metric="auc05",
            unit="percent", against="Finetuned", further=False, complete=True, key=(world, seed), value=value + i / 10,
            replicates=None, overlap=0., made=Made("torch 2.13.0", (made or {}).get(seed, "here")), clean=seed not in dirty,
        ))
    return pd.DataFrame(rows)


@pytest.fixture
def plain():
    return runs_of("Finetuned", 50.)


def test_the_same_n_everywhere_is_said_once(plain):
    runs = pd.concat([plain, runs_of("OutReg", 52.)])
    assert rests_on(runs) == "Each difference rests on n = 3 seeds."


def rows_of(said):
    "The cells of a table in Markdown, without its header."
    lines = [line.strip("|") for line in said.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")] for line in lines[2:]]


def test_what_is_left_out_is_named_with_its_reason(plain):
    made = {2: "elsewhere"}
    runs = pd.concat([plain, runs_of("OutReg", 52.), runs_of("SimCSE", 51.), runs_of("ITVReg", 53., dirty=[0])])
    runs = pd.concat([runs, runs_of("MaskReg", 53., made=made)])
    said = rests_on(runs)
    assert said.endswith(APART) and rows_of(said) == [
        ["OutReg; SimCSE", "3 seeds", ""],
        ["ITVReg", "2 seeds", "seed 0: made from a tree with uncommitted changes"],
        ["MaskReg", "2 seeds", "seed 2: made on unlike processors or with unlike versions"],
    ]


def test_a_comparison_that_cannot_be_made_is_not_silent(plain):
    runs = pd.concat([plain, runs_of("OutReg", 52.), runs_of("ITVReg", 53., dirty=SEEDS)])
    assert set(differences(runs).method) == {"OutReg"}
    left_out = ["too few: 0 seeds", "seed 0, seed 1, seed 2: made from a tree with uncommitted changes"]
    assert rows_of(rests_on(runs)) == [["OutReg", "3 seeds", ""], ["ITVReg", *left_out]]
    assert rows_of(rests_on(runs, method="ITVReg")) == [left_out]


def test_fewer_seeds_of_a_method_are_said_though_nothing_is_left_out(plain):
    runs = pd.concat([plain, runs_of("OutReg", 52., seeds=(0, 1))])
    assert rests_on(runs) == f"Each difference rests on n = 2 seeds.\n\n{APART}"


def test_a_world_counts_once():
    worlds = [0, 0, 1]
    runs = pd.concat([runs_of("Finetuned", 50., worlds=worlds), runs_of("OutReg", 52., worlds=worlds)])
    assert rests_on(runs) == "Each difference rests on n = 2 worlds or splits."


def test_n_is_that_of_the_difference_itself(plain):
    runs = pd.concat([plain, runs_of("OutReg", 52., dirty=[1]), runs_of("SimCSE", 51.), runs_of("ITVReg", 5., dirty=SEEDS)])
    found = differences(runs)
    assert pairs(runs).replicates.tolist() == ["2 seeds", "3 seeds", "too few: 0 seeds"] and found.n.tolist() == [2, 3]
    assert "n = 2 to 3" in told(found) and told(found, method="OutReg").endswith("(n = 2)")
    assert tally(found).n.tolist() == ["2", "3"]


def test_encoders_and_tests_are_named_where_they_differ(plain):
    other = [runs_of(method, 40., "transformer", seeds=(0, 1)) for method in ("Finetuned", "OutReg", "SimCSE")]
    runs = pd.concat([plain, runs_of("OutReg", 52.), *other])
    assert rows_of(rests_on(runs)) == [["static", "OutReg", "3 seeds"], ["transformer", "OutReg; SimCSE", "2 seeds"]]
    again = [runs_of(method, 60., seeds=(0, 1)).assign(test="AskUbuntu") for method in ("Finetuned", "OutReg")]
    runs = pd.concat([plain, runs_of("OutReg", 52.), *again])
    assert rows_of(rests_on(runs)) == [["Quora", "3 seeds"], ["AskUbuntu", "2 seeds"]]


@pytest.fixture
def one_seed(tmp_path, monkeypatch):
    "The planted records of one seed alone, as `make reports` makes them, in the place of this machine's own."
    runs = tmp_path / "runs"
    for path in ROOT.glob("results/*/*.planted*.jsonl"):
        name, _, _ = path.name.partition(".")
        experiment = load_experiment(f"{path.parent.name}/{name}", "planted")
        asked = {run.id.encode() for run in narrow(experiment, seeds=[0]).runs()}
        lines = path.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if re.search(rb'"id": "([^"]+)"', line)[1] in asked]
        copy = runs / path.parent.name / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(b"".join(kept))
    monkeypatch.setenv("DEBIAS_NB_RUNS", str(runs))


def test_findings_are_written_from_one_planted_seed_too(one_seed, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    with only_stored(fresh=True):
        write_notebook("findings", tmp_path)
    page = (tmp_path / "FINDINGS.md").read_text()
    assert "## 5. On real questions" in page
    assert "In planted worlds" not in page # one run of each method says nothing of the next
