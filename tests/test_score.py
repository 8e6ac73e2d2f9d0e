"Somebody's own loss on the scorecard: what is good, what does nothing, what harms, and what is refused."
import importlib
import shutil
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

import made
from debias_nb.config import ConfigError, project_root
from debias_nb.repro import score as scoring
from debias_nb.repro.cli import app
from debias_nb.repro.config import BlockConfig, CorpusConfig, ExperimentConfig, MethodConfig, TrainConfig
from debias_nb.repro.runs.records import Store, latest
from debias_nb.repro.score import Candidate, ScoreError, check, compared, parts, score
from debias_nb.stats import WORDS

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


class Centred(Regularizer):
    def term(self, text):
        return text.fx.mean(0).square().sum()


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


def test_outreg_under_another_name_scores_as_outreg_does(mine, small):
    rows, found, said = scored("mine:Near")
    ours = found[found.method == "OutReg"].set_index("measure")
    assert (rows.value - ours.value).abs().max() < 1.5
    assert rows.loc[BRANDS, "difference"] < 0 and rows.loc[BRANDS, "low"] <= rows.loc[BRANDS, "high"]
    assert rows.loc[BRANDS, "value"] - found[found.method == "Finetuned"].set_index("measure").value[BRANDS] < 0
    assert (mine / "score/mine-Near.csv").is_file()
    assert len(pd.read_csv(mine / "score/mine-Near.csv")) == len(found)


def test_what_does_nothing_makes_no_difference(mine, small):
    rows, *_ = scored("mine:Nothing")
    assert (rows.difference.abs() < .5).all()
    assert not rows.word.isin(["holds", "reversed"]).any()


def test_what_harms_is_said_to_harm(mine, small):
    rows, _, said = scored("mine:Away")
    assert rows.loc["titles like training", "difference"] < -1
    assert "reversed" in set(rows.word)


def test_records_stay_in_the_folder_and_are_not_made_again(mine, small, ours, monkeypatch):
    assert len(list(ours.rglob("*.jsonl"))) == 1, "the methods here leave theirs in the folder that they are given"
    (mine / "score").rename(mine / "kept")
    before = sorted((project_root() / "results").rglob("*")) if (project_root() / "results").is_dir() else []
    _, first, _ = scored("mine:squares", out=mine / "kept")
    files = sorted(path.relative_to(mine).as_posix() for path in mine.rglob("*.jsonl"))
    assert files[0].startswith("kept/methods/") or files[0].startswith("kept/mine-squares-")
    assert all(file.startswith("kept/") for file in files) and len(files) == 2
    monkeypatch.setattr(scoring.runner, "execute", None) # nothing is run again
    _, again, _ = scored("mine:squares", out=mine / "kept")
    pd.testing.assert_frame_equal(first, again)
    assert before == (sorted((project_root() / "results").rglob("*")) if before else [])


def begun_again():
    "As in another process, which has imported nothing yet."
    for name in list(sys.modules):
        if name.partition(".")[0] in MODULES:
            del sys.modules[name]


def test_another_text_of_the_module_is_another_loss(mine):
    folder = Candidate("mine:Near").folder
    (mine / "mine.py").write_text(MINE + "\n# changed\n", "utf-8")
    begun_again()
    assert Candidate("mine:Near").folder != folder
    assert Candidate("mine:Near", weight=2.).folder != Candidate("mine:Near").folder


def test_a_text_that_has_changed_since_it_was_imported_is_refused(mine, small):
    scored("mine:squares")
    (mine / "mine.py").write_text(MINE.replace("CosineSimilarityLoss(model)", "nothing(model)"), "utf-8")
    with pytest.raises(ScoreError, match="mine has changed since it was imported: start again"):
        scored("mine:squares")
    kept = list(mine.glob("score/mine-squares-*"))
    assert len(kept) == 1, "under the new text there are no numbers of the old one"


def test_a_module_that_was_loaded_again_is_its_new_text(mine):
    before = Candidate("mine:Near").source
    (mine / "mine.py").write_text(MINE + "# changed\n", "utf-8")
    importlib.reload(sys.modules["mine"])
    assert Candidate("mine:Near").source != before


def test_a_worker_that_has_another_text_refuses_it(mine, small):
    with pytest.raises(ScoreError, match="mine:Near has changed since its runs began"):
        scoring.execute(Candidate("mine:Near"), "another", small.runs()[0])


def test_near_weights_have_folders_of_their_own(mine):
    near = [.1, .1000001, 1, 1.0, 1e6, 1000001.]
    assert len({Candidate("mine:Near", weight).folder for weight in near}) == 5


def test_another_weight_and_a_part_named_twice_spoil_no_scorecard(mine, small):
    said = []
    for weight in (1., 2.):
        found = score("mine:Near", weight, ("planted", "planted"), workers=1, say=said.append)
        assert not found.duplicated(["part", "measure", "method"]).any()
        pd.testing.assert_series_equal(pd.read_csv(mine / f"score/mine-Near-{weight:.0f}.csv").value, found.value)
    assert "written: score/mine-Near-2.csv" in said


def test_a_loss_of_the_recipe_and_a_function_are_scored(mine, small):
    rows, *_ = scored("mine:Centred")
    assert rows.value.notna().all()
    plain, found, _ = scored("mine:squares")
    ours = found[found.method == "Finetuned"].set_index("measure")
    assert (plain.value - ours.value).abs().max() < .5, "least squares is what plain fine-tuning is here"


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
    ("needy:Loss", "needy cannot be imported: it needs the module no_such_package"),
    ("faulty:Loss", "faulty cannot be imported: ZeroDivisionError"),
    ("mine:Naer", "mine has no 'Naer'; did you mean 'Near'"),
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


def test_the_words_are_explained_and_said_of_every_measure(mine, small):
    rows, _, said = scored("mine:Away")
    _, own = said.split("mine:Away")[-2:]
    for row in rows.itertuples():
        line, = [line for line in own.splitlines() if row.Index in line]
        _, figures = line.split(row.Index)
        value, difference, low, high, word = figures.split(maxsplit=4)
        assert (float(difference), word) == (round(row.difference, 1), row.word)
    assert "each minus that of\nFinetuned in points" in said


def test_a_weight_belongs_to_a_regulariser(mine, small):
    with pytest.raises(ScoreError, match="--weight means nothing"):
        check(Candidate("mine:squares", weight=1.), small.encoders[0])
    check(Candidate("mine:Near", weight=1.), small.encoders[0])
    with pytest.raises(ScoreError, match="must lie in"):
        check(Candidate("mine:Near", weight=-1.), small.encoders[0])


def test_a_part_that_is_none_is_refused(mine):
    with pytest.raises(ScoreError, match="no part 'plantd'; did you mean 'planted'"):
        score("mine:Near", on=("plantd",))


def test_the_command_says_it_and_ends_with_2(mine):
    done = CliRunner().invoke(app, ["score", "mine:Naer"])
    assert done.exit_code == 2 and "did you mean 'Near'" in done.output


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
    found = compared("planted", methods, ["catalogue"])
    rows = found[found.method != "Finetuned"]
    assert set(rows.word) <= set(WORDS) and len(rows) == 4 * 3
    base = rows[rows.method == "Base"].set_index("measure")
    assert base.loc[BRANDS, "difference"] < 0 and base.loc[BRANDS, "word"] == "holds", "less is what is hoped for"
    assert base.loc[BRANDS, "low"] < base.loc[BRANDS, "difference"] < base.loc[BRANDS, "high"] < 0
