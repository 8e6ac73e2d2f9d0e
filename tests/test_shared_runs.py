"Experiments that share runs, parts that are left out, rows by learning rate, interpolated encoders, cases picked by their rule."
import numpy as np
import pytest

from debias_nb.config import ConfigError

from debias_nb.repro.config import (

    BlockConfig, ColumnConfig, CorpusConfig, ExperimentConfig, MethodConfig, RunConfig, TableConfig, TrainConfig,

)
from debias_nb.repro.runner import execute, narrow, run_all
from debias_nb.repro.records import Store, make_record
from debias_nb.repro.details import case_importance, case_table, case_title, picked_cases
from debias_nb.repro.frame import all_experiments, study_of, found_records, papers
from debias_nb.repro.plots import importance_plot, svg
from made import METHODS, STATIC, WORLD

TITLES = CorpusConfig(name="catalogue", task="titles", world=WORLD, ticks=2)
HINGE = TrainConfig(loss="hinge", margin=.3, hardest=5, temperature=.1, learning_rate=2e-2, epochs=1, batch_size=64)

def experiment(name="one", **block):
    block = dict(encoders=["tiny-static"], corpora=[TITLES], methods=["Base", "Finetuned"], training=HINGE, seeds=[0, 1], evaluate=["iid", "unseen"]) | block
    return ExperimentConfig(paper="itvreg", experiment=name, profile="planted", title="t", scale="s", encoders=[STATIC], methods=[*METHODS, MethodConfig(name="WiSE-FT", interpolate=(.5,))], blocks=[BlockConfig(**block)],
                            tables=[TableConfig(id="ours", metric="p1", columns=[ColumnConfig(label=s, corpus="catalogue", evaluate=s, shift="iid" if s == "iid" else "ood") for s in ("iid", "unseen")], rows={"Finetuned": "ERM"})])

def invented(run, value): return make_record(run, {s: {"p1": value} for s in run.evaluate}, data={"train": {"fingerprint": "ab"}}, encoder={"name": "x", "fingerprint": "cd"}, device="cpu", dtype="fp32", seconds=1., peak_memory=1, curve={})

def test_a_borrowed_run_is_the_owners(tmp_path):
    owner, borrower, store = experiment(), experiment("two", of="one"), Store(tmp_path)
    assert [r.id for r in owner.runs()] == [r.id for r in borrower.runs()] and all(r.experiment == "one" for r in borrower.runs())
    for i, run in enumerate(owner.runs()): store.append(invented(run, .1 * (i + 1)))
    assert [p.name for p in tmp_path.rglob("*.jsonl")] == ["one.planted.jsonl"]
    cells = study_of(borrower, store).cells
    assert {c.method for c in cells} == {"Base", "ERM"} and [round(c.value) for c in cells if c.column == "iid"] == [10, 25] and len(found_records(borrower, store)) == 3

@pytest.mark.parametrize("paper", papers())
def test_every_borrowed_run_of_this_project_has_an_owner(paper):
    for profile in ("planted", "small", "paper"):
        mine = {e.experiment: e for e in all_experiments(paper) if e.profile == profile}
        own = {name: {r.id for r in e.runs() if r.experiment == name} for name, e in mine.items()}
        for e in mine.values():
            for r in e.runs(): assert r.experiment in own and r.id in own[r.experiment], f"{e.experiment}, {profile}: {r.id} belongs to no experiment"

def test_what_takes_long_is_left_out_unless_asked_for():
    e = experiment(full=True)
    assert narrow(e, full=False).runs() == [] and len(narrow(e).runs()) == 3
    assert all(c.command.endswith(" --full") for c in study_of(e, Store("nowhere")).cells)

def test_rows_by_rate_and_columns_by_epochs(tmp_path):
    grid = tuple(HINGE.model_copy(update=dict(learning_rate=r, epochs=n)) for r in (.01, .1) for n in (1, 2))
    e = experiment(methods=["Finetuned"], training=grid, seeds=[0])
    e = e.model_copy(update=dict(tables=(TableConfig(id="ours", metric="p1", columns=[ColumnConfig(label=f"{n} epochs", corpus="catalogue", evaluate="iid", shift="iid", epochs=n) for n in (1, 2)]),)))
    store = Store(tmp_path)
    for run in e.runs(): store.append(invented(run, run.training.learning_rate * run.training.epochs))
    assert {(c.method, c.column): round(c.value, 6) for c in study_of(e, store).cells} == {("Finetuned, 0.01", "1 epochs"): 1, ("Finetuned, 0.01", "2 epochs"): 2, ("Finetuned, 0.1", "1 epochs"): 10, ("Finetuned, 0.1", "2 epochs"): 20}

@pytest.fixture(scope="module")
def titled(tmp_path_factory):
    e = experiment(methods=["Base", "Finetuned", "ITVReg", "WiSE-FT"], seeds=[0], evaluate=["iid", "unseen", "mix"], measure=["cases", "trajectory", "gradients"])
    store = Store(tmp_path_factory.mktemp("titles"))
    return e, store, run_all(e.runs(), store, workers=1, progress=False)

def test_a_run_on_titles_keeps_what_was_asked_for(titled):
    e, store, out = titled
    base, tuned, reg, wise = out.records.values()
    assert not out.failed and not out.missing and {"p1", "p3", "p5", "psp1", "p1[ordinary]", "brand importance", "causal importance", "peak importance"} <= base["metrics"]["iid"].keys()
    assert set(base["metrics"]["mix"]) == {"p1[tick 0]", "p1[tick 1]", "p1[tick 2]"} and base["metrics"]["mix"]["p1[tick 0]"] == base["metrics"]["iid"]["p1[ordinary]"]
    assert wise["metrics"]["iid"] == tuned["metrics"]["iid"] and wise["metrics"]["iid@0.5"] != tuned["metrics"]["iid"]
    points = tuned["extra"]["trajectory"]
    assert points[0]["step"] == 0 and points[0]["iid p1[ordinary]"] == pytest.approx(base["metrics"]["iid"]["p1[ordinary]"], abs=1e-4) and points[-1]["iid p1[ordinary]"] == pytest.approx(tuned["metrics"]["iid"]["p1[ordinary]"], abs=1e-4)
    assert "gradient norms" in tuned["extra"] and "gradient norms" not in reg["extra"] and tuned["extra"]["gradient norms"]["OutReg"] > 0

def test_the_strength_of_a_regulariser_is_no_matter_to_plain_training(titled):
    e, _, out = titled
    zero = RunConfig(**{**e.runs()[2].model_dump(), "method": MethodConfig(name="ITVReg", regulariser="itvreg", weight=0., mask_share=.5).model_dump()})
    plain = list(out.records.values())[1]
    assert execute(zero)["metrics"]["iid"]["p1"] == pytest.approx(plain["metrics"]["iid"]["p1"], abs=.02)

def test_cases_are_picked_by_the_largest_rise(titled):
    e, store, out = titled
    cases = picked_cases(found_records(e, store), most=3)
    base, tuned = (r["extra"]["cases"]["unseen"] for r in list(out.records.values())[:2])
    rises = sorted((max(np.subtract(t["importance"], b["importance"])) for b, t in zip(base, tuned) if any(b["causal"])), reverse=True)
    assert [c["rise"] for c in cases] == pytest.approx(rises[:3]) and {"Base", "Finetuned", "ITVReg", "WiSE-FT"} == cases[0]["methods"].keys()
    assert len(cases[0]["causal"]) == len(cases[0]["tokens"]) == len(cases[0]["methods"]["Base"]["importance"]) and all(len(m["top"]) == 5 for m in cases[0]["methods"].values())
    for case in cases:
        assert case["query"] in case_title(case) and case_table(case).shape == (len(case["methods"]), 5)
        assert svg(importance_plot(case_importance(case))).startswith(b"<?xml")

def test_mix_needs_ticks():
    with pytest.raises(ConfigError, match="needs `ticks`"): execute(RunConfig(paper="itvreg", experiment="one", profile="planted", encoder=STATIC, method=MethodConfig(name="Base", trained=False), evaluate=["mix"], eval_world=WORLD, eval_corpus=TITLES.model_copy(update=dict(ticks=0))))
