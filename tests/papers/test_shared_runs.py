"""Experiments that share runs, and parts that are left out.

Rows by learning rate, interpolated encoders, cases picked by their rule.
"""
from pathlib import Path

import pytest

from debias_nb.runs.config import BlockConfig, ColumnConfig, ExperimentConfig
from debias_nb.papers.settings.pairs import PairsCorpus
from debias_nb.papers.settings.titles import TitlesCorpus
from debias_nb.runs.settings import HingeTraining, PairMethod
from debias_nb.runs.config import TableConfig
from debias_nb.papers.pages.frame import Results, all_experiments, only, papers
from debias_nb.runs.origin import Start
from debias_nb.runs.records import Store, committed_store, make_record
from debias_nb.runs.runner import run_all
from debias_nb.papers.data.labeled_pairs import _part_of, planted_catalog
from debias_nb.papers.tasks.titles import title_split, title_tasks
from made import METHODS, STATIC, WORLD

ROOT = Path(__file__).parents[2]

TITLES = TitlesCorpus(name="catalogue", task="titles", world=WORLD, ticks=2)
TRAINING = HingeTraining(loss="hinge", margin=.3, hardest=5, temperature=.1, learning_rate=2e-2, epochs=1,
                         batch_size=64)
WISE = PairMethod(name="WiSE-FT", interpolate=(.5,))
BLOCK = dict(
    encoders=["tiny-static"], corpora=[TITLES], methods=["Base", "Finetuned"], training=TRAINING, seeds=[0, 1],
    evaluate=["iid", "unseen"],
)


def table(columns, **changes):
    "The table `ours`, with a column for each label and its settings."
    columns_made = [ColumnConfig(label=label, corpus="catalogue", **settings) for label, settings in columns.items()]
    return TableConfig(id="ours", metric="p1", columns=columns_made, **changes)


BY_SPLIT = {"iid": dict(evaluate="iid", shift="iid"), "unseen": dict(evaluate="unseen", shift="ood")}


def experiment(name="one", **block):
    return ExperimentConfig(
        paper="itvreg", experiment=name, profile="planted", title="t", scale="s", encoders=[STATIC],
        methods=[*METHODS, WISE], blocks=[BlockConfig(**(BLOCK | block))],
        tables=[table(BY_SPLIT, rows={"Finetuned": "ERM"})],
    )


def record_of(run, value):
    "A record of a run that never was."
    metrics = {split: {"p1": value} for split in run.evaluate}
    data = {"train": {"fingerprint": "ab"}}
    encoder = {"name": "x", "fingerprint": "cd"}
    spent = dict(start=Start(), device="cpu", dtype="fp32", peak_memory=1)
    return make_record(run, metrics, data=data, encoder=encoder, curve={}, **spent)


def test_a_borrowed_run_is_the_owners(tmp_path):
    owner = experiment()
    borrower = experiment("two", of="one")
    store = Store(tmp_path)
    assert [r.id for r in owner.runs()] == [r.id for r in borrower.runs()]
    assert all(r.experiment == "one" for r in borrower.runs())
    for i, run in enumerate(owner.runs()):
        store.append(record_of(run, .1 * (i + 1)))
    assert {p.parent.name for p in tmp_path.rglob("*.json")} == {"one.planted"}
    cells = Results().study_of(borrower, store).cells
    assert {*cells.method} == {"Base", "ERM"}
    assert [round(value) for value in only(cells, column="iid").value] == [10, 25]
    assert len(Results().records(borrower, store)) == 3


def test_blocks_that_differ_in_seeds_fill_one_cell(tmp_path):
    of_two_blocks = experiment(methods=["Finetuned"])
    further = of_two_blocks.blocks[0].model_copy(update=dict(seeds=(2, 3)))
    longer = further.model_copy(update=dict(training=TRAINING.model_copy(update=dict(epochs=2))))
    of_two_blocks = of_two_blocks.model_copy(update=dict(blocks=(*of_two_blocks.blocks, further, longer)))
    store = Store(tmp_path)
    for run in of_two_blocks.runs():
        store.append(record_of(run, .1 * (run.seed + 1) if run.training.epochs == 1 else .9))
    cells = Results().study_of(of_two_blocks, store).cells
    assert {(cell.n, round(cell.value)) for cell in cells.itertuples()} == {(4, 25)}, (
        "and another training is no part of it")


@pytest.mark.parametrize("paper", papers())
def test_every_borrowed_run_of_this_project_has_an_owner_or_was_one_of_its_runs(paper):
    committed = committed_store(ROOT)
    for profile in ("planted", "small", "paper"):
        mine = {e.experiment: e for e in all_experiments(paper) if e.profile == profile}
        run_ids = {name: {r.id for r in e.runs() if r.experiment == name} for name, e in mine.items()}
        for e in mine.values():
            for r in e.runs():
                assert r.experiment in run_ids, f"{e.experiment}, {profile}: {r.id} belongs to no experiment"
                has_owner = r.id in run_ids[r.experiment] or committed.find(r)
                assert has_owner, f"{e.experiment}, {profile}: {r.id} belongs to no experiment"


def test_rows_by_rate_and_columns_by_epochs(tmp_path):
    grid = []
    for rate in (.01, .1):
        for epochs in (1, 2):
            grid.append(TRAINING.model_copy(update=dict(learning_rate=rate, epochs=epochs)))
    by_epochs = {f"{n} epochs": dict(evaluate="iid", shift="iid", epochs=n) for n in (1, 2)}
    e = experiment(methods=["Finetuned"], training=tuple(grid), seeds=[0])
    e = e.model_copy(update=dict(tables=(table(by_epochs),)))
    store = Store(tmp_path)
    for run in e.runs():
        store.append(record_of(run, run.training.learning_rate * run.training.epochs))
    assert {(c.method, c.column): round(c.value, 6) for c in Results().study_of(e, store).cells.itertuples()} == {
        ("Finetuned, 0.01", "1 epochs"): 1,
        ("Finetuned, 0.01", "2 epochs"): 2,
        ("Finetuned, 0.1", "1 epochs"): 10,
        ("Finetuned, 0.1", "2 epochs"): 20,
    }


@pytest.fixture(scope="module")
def titles_run(tmp_path_factory):
    settings = dict(evaluate=["iid", "unseen", "mix"], measure=["cases", "gradients"])
    e = experiment(methods=["Base", "Finetuned", "ITVReg", "WiSE-FT"], seeds=[0], **settings)
    store = Store(tmp_path_factory.mktemp("titles"))
    return e, store, run_all(e.runs(), store, workers=1, progress=False)


def test_a_run_on_titles_keeps_what_was_asked_for(titles_run):
    _, _, out = titles_run
    base, tuned, reg, wise = out.records.values()
    assert not out.failed
    assert not out.missing
    precision = {"p1", "p3", "p5", "psp1", "p1[ordinary]"}
    importance = {"brand importance", "causal importance", "peak importance"}
    assert precision | importance <= base["metrics"]["iid"].keys()
    assert set(base["metrics"]["mix"]) == {"p1[tick 0]", "p1[tick 1]", "p1[tick 2]"}
    assert base["metrics"]["mix"]["p1[tick 0]"] == base["metrics"]["iid"]["p1[ordinary]"]
    assert wise["metrics"]["iid"] == tuned["metrics"]["iid"]
    assert wise["metrics"]["iid@0.5"] != tuned["metrics"]["iid"]
    assert "gradient norms" in tuned["extra"]
    assert "gradient norms" not in reg["extra"]
    assert tuned["extra"]["gradient norms"]["OutReg"] > 0
    cases, task = base["extra"]["cases"]["unseen"], title_tasks("unseen", TITLES)[""]
    assert {len(case["top"]) for case in cases} == {5}
    ordinary = [query for query, is_accessory in zip(task.queries, task.accessory) if not is_accessory]
    assert [case["query"] for case in cases] == ordinary[:len(cases)]


def test_queries_that_are_held_out_are_not_trained_on():
    complete = title_split(TITLES).train
    split = title_split(TITLES.model_copy(update={"holdout": .25}))
    holdout = split.tests["heldout"]
    total = len(complete.queries)
    assert len(holdout.queries) == round(.25 * total) == total - len(split.train.queries)
    assert not set(holdout.queries) & set(split.train.queries)
    corpus = PairsCorpus(name="catalogue", world=WORLD, holdout=.2)
    pairs = planted_catalog(WORLD).labeled_pairs()
    parts = [_part_of(pairs, corpus, part) for part in ("train", "heldout")]
    assert not set(parts[0].group) & set(parts[1].group)
    assert len(set(parts[1].group)) == round(.2 * len(set(pairs.group)))
