"Somebody's own loss on the scorecard: what is good, what does nothing, what harms, and what is refused."
import importlib
import shutil
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

import made
from debias_nb.checks import ConfigError
from debias_nb.files import project_root
from debias_nb.repro import candidate
from debias_nb.repro import score as scoring
from debias_nb.repro.cli import app
from debias_nb.repro.config import BlockConfig, CorpusConfig, ExperimentConfig, MethodConfig, TrainConfig
from debias_nb.repro.runs.records import Store, latest
from debias_nb.repro.candidate import Candidate, ScoreError, check
from debias_nb.repro.score import compared, parts, score
from debias_nb.measures.stats import WORDS

MINE = '''
from dataclasses import dataclass
import torch
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
from debias_nb import OutReg, Regularizer


@dataclass
class Near(OutReg):
    "OutReg under another name."


@dataclass
class Nothing(Regularizer):
    def term(self, text):
        return 0 * text.fx.sum()


@dataclass
class Away(Regularizer):
    "As far from the base encoder as can be."
    weight: float = 5.
    needs_base = True

    def term(self, text):
        return -((text.fx - text.f0x) ** 2).sum(-1).mean()


class Breaks(torch.nn.Module):
    "Not a number in its third step."
    def __init__(self, model):
        super().__init__()
        self.loss = CosineSimilarityLoss(model)
        self.model = model
        self.steps = 0

    def forward(self, features, labels):
        self.steps += torch.is_grad_enabled() and self.model.training
        return self.loss(features, labels) * (float("nan") if self.steps == 3 else 1)


class Stumbles(Breaks):
    "An error in its third step."
    def forward(self, features, labels):
        loss = super().forward(features, labels)
        if self.steps == 3:
            raise KeyError("third")
        return loss


class Frozen(Breaks):
    def forward(self, features, labels):
        return (labels * 2.).mean()


class Many(Breaks):
    def forward(self, features, labels):
        return labels


def squares(model):
    return CosineSimilarityLoss(model)


def nothing(model):
    return None


NUMBER = 3
'''
MODULES = ("mine", "needy", "faulty")
BRANDS = "importance of brands (less is better)"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    "A folder with somebody's module, which is the current one."
    (tmp_path / "mine.py").write_text(MINE, "utf-8")
    (tmp_path / "needy.py").write_text("import no_such_package\n", "utf-8")
    (tmp_path / "faulty.py").write_text("1 / 0\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    begun_again()


METHODS = [
    MethodConfig(name="Base", trained=False), MethodConfig(name="Finetuned"),
    MethodConfig(name="OutReg", regulariser="outreg", weight=.1),
]
NAMES = [method.name for method in METHODS]
SMALL = made.WORLD.model_copy(update={"p": 1., "brand_match": .6, "p_attr": .8, "p_noun": .4, "decoys": 1.})


BLOCK = BlockConfig(
    encoders=["tiny-static"], corpora=[CorpusConfig(name="catalogue", world=SMALL)], methods=NAMES,
    training=TrainConfig(learning_rate=2e-2, epochs=3, batch_size=64), seeds=[0, 1, 2],
    evaluate=["iid", "uncoupled", "unseen"])
TOY = ExperimentConfig(
    paper="itvreg", experiment="demo", profile="planted", title="A demonstration", scale="a toy world",
    encoders=[made.STATIC], methods=METHODS, blocks=[BLOCK])


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    "The runs of the methods here, which are the same beside every loss."
    folder = tmp_path_factory.mktemp("ours")
    scoring.our_runs(TOY, folder, 1)
    return folder


@pytest.fixture
def small(mine, ours, monkeypatch):
    "The planted part in a toy world, with a table; what the methods here give there is known."
    monkeypatch.setattr(scoring, "parts", lambda: {"planted": TOY})
    shutil.copytree(ours, mine / "score/methods")
    return TOY


def scored(spec, **more):
    "The rows of a loss, by measure; and what was said."
    said = []
    found = score(spec, on=("planted",), workers=1, say=said.append, **more)
    return found[found.method == spec].set_index("measure"), found, "\n".join(said)


@pytest.mark.slow
def test_outreg_under_another_name_scores_as_outreg_does(mine, small):
    rows, found, said = scored("mine:Near")
    ours = found[found.method == "OutReg"].set_index("measure")
    assert (rows.value - ours.value).abs().max() < 1.5
    assert rows.loc[BRANDS, "difference"] < 0 and rows.loc[BRANDS, "low"] <= rows.loc[BRANDS, "high"]
    assert rows.loc[BRANDS, "value"] - found[found.method == "Finetuned"].set_index("measure").value[BRANDS] < 0
    assert (mine / "score/mine-Near.csv").is_file()
    assert len(pd.read_csv(mine / "score/mine-Near.csv")) == len(found)


def test_on_many_shifts_each_method_is_compared_with_the_base_encoder(mine, monkeypatch):
    known = latest(Store(project_root() / "results").records("itvreg", "matrix", "small"))
    experiment = parts()["matrix"]
    methods = {}
    for run in experiment.runs():
        methods.setdefault(run.method.name, []).append(known[run.id] | {"run": run})
    plain = MethodConfig(name="mine:Same")
    mine_runs = [record["run"].model_copy(update={"method": plain}) for record in methods["Finetuned"]]
    methods["mine:Same"] = [record | {"id": run.id, "run": run} for run, record in zip(mine_runs, methods["Finetuned"])]
    rows, told = scoring.of_shifts(experiment, methods)
    rows = rows[scoring.COLUMNS[1:]]
    same, tuned = (rows[rows.method == name].set_index("measure") for name in ("mine:Same", "Finetuned"))
    pd.testing.assert_frame_equal(same.drop(columns="method"), tuned.drop(columns="method"))
    assert len(same) == 5 * 13 and set(rows.against) == {"Base"} and {"gain", "loss"} <= set(same.word)
    page = pd.read_csv(project_root() / "reports/itvreg/matrix.differences.csv")
    page = page[(page.table == "matrix") & (page.encoder == "potion-base-2M") & (page.metric == "auc05") & (page.against == "Base")]
    ours = page[page.method == "Finetuned"].set_index("evaluate").difference.sort_values()
    assert tuned.difference.sort_values().to_numpy() == pytest.approx(ours.to_numpy(), abs=.001), "the numbers of the page"
    assert "WiSE-FT 0.5" in told and "mine:Same" in told


@pytest.mark.slow
def test_what_does_nothing_makes_no_difference_and_what_harms_is_said_to_harm(mine, small):
    rows, *_ = scored("mine:Nothing")
    assert (rows.difference.abs() < .5).all()
    assert not rows.word.isin(["holds", "reversed"]).any()
    rows, *_ = scored("mine:Away")
    assert rows.loc["titles like training", "difference"] < -1
    assert "reversed" in set(rows.word)


def test_records_stay_in_the_folder_and_are_not_made_again(mine, small, ours, monkeypatch):
    assert len({path.parent for path in ours.rglob("*.json")}) == 1, "the methods here leave theirs in the folder that they are given"
    (mine / "score").rename(mine / "kept")
    _, first, _ = scored("mine:squares", out=mine / "kept")
    plain, squares = (first[first.method == name].set_index("measure") for name in ("Finetuned", "mine:squares"))
    assert (plain.value - squares.value).abs().max() < .5, "least squares is what plain fine-tuning is here"
    files = sorted(path.relative_to(mine).as_posix() for path in {file.parent for file in mine.rglob("*.json")})
    assert len(files) == 2 and files[0].startswith("kept/methods/") and files[1].startswith("kept/mine-squares-")
    monkeypatch.setattr(candidate.runner, "execute", None) # nothing is run again
    _, again, _ = scored("mine:squares", out=mine / "kept")
    pd.testing.assert_frame_equal(first, again)


def begun_again():
    "As in another process, which has imported nothing yet."
    for name in list(sys.modules):
        if name.partition(".")[0] in MODULES:
            del sys.modules[name]


def test_another_text_or_weight_is_another_loss(mine):
    near = [.1, .1000001, 1, 1.0, 1e6, 1000001.]
    assert len({Candidate("mine:Near", weight).folder for weight in near}) == 5
    folder = Candidate("mine:Near").folder
    assert Candidate("mine:Near", weight=2.).folder != folder
    (mine / "mine.py").write_text(MINE + "\n# changed\n", "utf-8")
    begun_again()
    changed = Candidate("mine:Near").folder
    assert changed != folder
    (mine / "mine.py").write_text(MINE + "# changed again\n", "utf-8")
    importlib.reload(sys.modules["mine"])
    assert Candidate("mine:Near").folder not in (folder, changed)


def test_a_text_that_has_changed_since_it_was_imported_is_refused(mine, small):
    scored("mine:squares")
    (mine / "mine.py").write_text(MINE.replace("CosineSimilarityLoss(model)", "nothing(model)"), "utf-8")
    with pytest.raises(ScoreError, match="mine has changed since it was imported: start again"):
        scored("mine:squares")
    kept = list(mine.glob("score/mine-squares-*"))
    assert len(kept) == 1, "under the new text there are no numbers of the old one"


def test_a_worker_that_has_another_text_refuses_it(mine, small):
    with pytest.raises(ScoreError, match="mine:Near has changed since its runs began"):
        candidate.execute(Candidate("mine:Near"), "another", small.runs()[0])


@pytest.mark.parametrize("spec, words", [
    ("mine:Breaks", r"mine:Breaks failed at .*2.*nan.*-s0-"),
    ("mine:Stumbles", r"mine:Stumbles failed at .*2.*KeyError: 'third'"),
])
def test_a_loss_that_breaks_is_named_with_its_step(mine, small, spec, words):
    with pytest.raises(ScoreError, match=words):
        scored(spec)


ST = "sentence_transformers.sentence_transformer.losses"


@pytest.mark.parametrize("spec, words", [
    ("mine", "module:Name"),
    ("mine:", "module:Name"),
    ("mini:Near", "no module 'mini'.*did you mean 'mine'"),
    ("needy:Loss", "needy cannot be imported: .*no_such_package"),
    ("faulty:Loss", "faulty cannot be imported: ZeroDivisionError"),
    ("mine:Naer", "mine has no 'Naer'; did you mean 'Near'"),
    ("os:system", "os is a module of Python itself and holds no loss"),
    ("mine:NUMBER", "mine:NUMBER is of type int and no loss"),
    ("mine:nothing", "gives a NoneType, and no loss"),
    ("mine:Frozen", "has no gradient"),
    ("mine:Many", "no scalar tensor"),
    (f"{ST}:SoftmaxLoss", "cannot be made from a model alone: TypeError"),
    (f"{ST}:TripletLoss", "cannot be computed from pairs of texts with a label of 0 or 1"),
    (f"{ST}:MultipleNegativesRankingLoss", "does not look at the labels"),
    ("torch.nn:Linear", "cannot be made from a model alone"),
])
def test_what_is_no_loss_for_pairs_is_refused_before_anything_is_trained(mine, small, spec, words):
    with pytest.raises((ScoreError, ConfigError), match=words):
        score(spec, on=("planted",), workers=1, say=lambda line: None)
    assert not list(mine.glob("score/mine-*"))


def test_a_part_without_its_data_is_left_out_with_the_reason(mine, small, monkeypatch):
    calls = []

    def second_lacks(run):
        calls.append(run)
        return "no file train.tsv" if len(calls) == 2 else None

    monkeypatch.setattr(scoring, "absent", second_lacks)
    said = []
    with pytest.raises(ScoreError, match="nothing could be run"):
        score("mine:Near", on=("planted",), workers=1, say=said.append)
    assert said == ["planted: not run: no file train.tsv"]


def test_options_that_mean_nothing_are_refused(mine, small):
    with pytest.raises(ScoreError, match="--weight"):
        check(Candidate("mine:squares", weight=1.), small.encoders[0])
    check(Candidate("mine:Near", weight=1.), small.encoders[0])
    with pytest.raises(ScoreError, match="must lie in"):
        check(Candidate("mine:Near", weight=-1.), small.encoders[0])
    with pytest.raises(ScoreError, match="'plantd'.*'planted'"):
        score("mine:Near", on=("plantd",))
    done = CliRunner().invoke(app, ["score", "mine:Naer", "--on", "planted"])
    assert done.exit_code == 2 and "did you mean 'Near'" in done.output
    (mine / "file").touch()
    assert CliRunner().invoke(app, ["score", "mine:Near", "--out", "file"]).exit_code == 2


def test_committed_runs_of_our_methods_stand_beside_it():
    "The parts ask for the very runs of configs/itvreg, which have committed records."
    for experiment in parts().values():
        store = Store(project_root() / "results")
        known = latest(store.records(experiment.paper, experiment.experiment, experiment.profile))
        assert all(run.id in known for run in experiment.runs())


def test_verdicts_of_committed_records_are_words():
    experiment = parts()["planted"]
    known = latest(Store(project_root() / "results").records("itvreg", "table03", "planted"))
    methods = {}
    for run in experiment.runs():
        methods.setdefault(run.method.name, []).append(known[run.id])
    found = compared(methods)
    rows = found[found.method != "Finetuned"]
    assert set(rows.word) <= set(WORDS) and len(rows) == 4 * 3
    base = rows[rows.method == "Base"].set_index("measure")
    assert base.loc[BRANDS, "difference"] < 0 and base.loc[BRANDS, "word"] == "holds", "less is what is hoped for"
    assert base.loc[BRANDS, "low"] < base.loc[BRANDS, "difference"] < base.loc[BRANDS, "high"] < 0
