"Methods compared on somebody's own pairs."
import contextlib
import io
import json
import re
import shlex
import sys
from dataclasses import replace
from html import escape
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from joblib.externals.loky import get_reusable_executor
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import RandomSampler
from typer.testing import CliRunner

from debias_nb.checks import ConfigError
from debias_nb.files import package_file
from debias_nb.settings import EncoderConfig, PretrainConfig
from debias_nb.data.registry import DataError
from debias_nb.data.worlds import Catalog
from debias_nb.encoders.planted import planted_encoder
from debias_nb.checks import EncoderError
from debias_nb.encoders.kinds import deep_copy
from debias_nb.encoders.tokens import from_features, tokenize
from debias_nb.diagnosis import trials as trying
from debias_nb.diagnosis.changes import NEW, WHOLE
from debias_nb.diagnosis import comparison as comparing
from debias_nb.diagnosis.compare import TrainingSettings, compare
from debias_nb.diagnosis.comparison import FILES, Comparison
from debias_nb.diagnosis.inputs import with_prompts
from debias_nb.data.texts import HeldTexts
from debias_nb.diagnosis.methods import DEFAULTS, METHODS, RANKING_STRENGTHS, read_method, read_methods
from debias_nb.diagnosis.methods import file_tokens, settings_for, training_rows, tune
from debias_nb.diagnosis.models import load_model, mixed_scorer
from debias_nb.diagnosis.page import coded
from debias_nb.diagnosis.programs import LOSSES, OF_MATCHES
from debias_nb.diagnosis.recommendations import GENERAL
from debias_nb.diagnosis.test_sets import as_test
from debias_nb.diagnosis.pairs import read_pairs_file
from debias_nb.commands.cli import app
from debias_nb.measures import several
from debias_nb.measures.prediction import range_at
from debias_nb.measures.stats import WORDS
from debias_nb.runs.settings import PairMethod
from debias_nb.runs.course import Course
from debias_nb.runs.records import comparable
from debias_nb.runs.runner import execute
from debias_nb.runs.pair_batches import PairCollator, batch_columns
from debias_nb.trainer import ApartMatches
from made import WORLD, asked_of, bert, read_card, read_page, result, some_pairs, table
from made import without_a_vector_for_the_unknown


def frame(pairs):
    left, right = pairs.texts()
    return pd.DataFrame({"left": left, "right": right, "label": [int(label) for label in pairs.labels]})


@pytest.fixture(scope="module")
def pairs():
    world = Catalog(WORLD)
    tests = {name: frame(world.test_pairs(name)) for name in ("iid", "unseen")}
    return frame(world.labeled_pairs()).head(200), tests


@pytest.fixture(scope="module")
def held_out():
    return {"kept": frame(Catalog(WORLD).test_pairs("uncoupled"))}


@pytest.fixture(scope="module")
def encoder():
    recipe = PretrainConfig(steps=60, batch_size=64, learning_rate=2e-2)
    return planted_encoder(EncoderConfig(name="tiny-static", kind="static", world=WORLD, pretrain=recipe))


def compared(encoder, pairs, **changes):
    train, tests = pairs
    asked = {"methods": "base,plain,wise-ft", "seeds": 2, "epochs": 1, "batch_size": 32, "learning_rate": 2e-2}
    return compare(encoder, train, tests, **asked_of(**asked | changes))


@pytest.fixture
def nothing_trained(monkeypatch):
    "Whoever trains fails the test."
    monkeypatch.setattr(trying, "fine_tune", lambda *_, **__: pytest.fail("a training was about to begin"))


def records_in(folder) -> list: # paths
    return sorted(folder.glob("runs/comparison.own/*.json"))


def test_a_record_that_is_damaged_is_named_and_made_again(encoder, pairs, tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr(trying, "fine_tune", lambda *asked, **_: trained.append(asked[5]) or Course(0))
    first = compared(encoder, pairs, methods="base,plain", folder=tmp_path)
    path = next(path for path in records_in(tmp_path) if "-plain-s1-" in path.name)
    whole = json.loads(path.read_text())
    path.unlink()
    path.write_text(json.dumps(whole)[:-1])
    with pytest.warns(UserWarning, match=f"{re.escape(str(path))} is left out"):
        again = compared(encoder, pairs, methods="base,plain", folder=tmp_path)
    assert trained == [0, 1, 1] and comparable(json.loads(path.read_text())) == comparable(whole)
    pd.testing.assert_frame_equal(again.every_difference(), first.every_difference())


# ---- names and settings

def test_a_strength_stands_behind_the_name():
    strengths = {"outreg": .1, "outreg:2": 2, "wise-ft:0.25": .25, "base": None}
    assert {name: read_method(name).strength for name in strengths} == strengths
    assert [method.name for method in read_methods("base, outreg")] == ["plain", "base", "outreg"]
    assert [method.name for method in read_methods("outreg")] == ["base", "plain", "outreg"]
    strengths = {name: spec.strength for name, spec in METHODS.items() if spec.strength is not None}
    assert ({name: strength for name, strength in strengths.items() if strength != .1}
            == {"wise-ft": .5, "l2sp": 1e-6, "lora": 8})
    regularizers = [spec for spec in METHODS.values() if spec.is_regularizer]
    assert all(spec.strength in spec.grid for spec in regularizers), "what is tried has the default"
    grids = {name: (*METHODS[name].grid, *RANKING_STRENGTHS.get(name, (0, ()))[1]) for name in strengths}
    assert all(read_method(f"{name}:{one!r}").strength == one for name, grid in grids.items() for one in grid)


@pytest.mark.parametrize("name, words", [
    ("outregg", "'outreg'"), ("plain:1", "plain"), ("outreg:much", "'outreg:much'"), ("wise-ft:2", "share"),
    ("outreg:-1", "lambda"), ("frozen", "'frozen'"), ("outreg:nan", "lambda"), ("worddropout:1", "share"),
    ("plain,plain", "plain, plain"),
])
def test_names_that_are_none(name, words):
    with pytest.raises(ConfigError, match=words):
        read_methods(name)


# ---- trials

def test_every_method_is_tried_with_every_seed_and_none_twice(encoder, pairs, tmp_path, monkeypatch):
    model = deep_copy(encoder).train()
    before = load_model(model).fingerprint
    asked = {"methods": "base,plain,wise-ft,wise-ft:0,outreg:1", "folder": tmp_path}
    found = compared(model, pairs, **asked)
    assert load_model(model).fingerprint == before and all(part.training for part in model.modules()), "left as it was"
    counts = found.scores.query("metric == 'auc05' and test == 'iid'").groupby("method").size()
    assert counts.to_dict() == {"base": 1, "plain": 2, "wise-ft": 2, "wise-ft:0": 2, "outreg:1": 2}
    means = found.means()
    assert list(means.index) == ["base", "plain", "wise-ft", "wise-ft:0", "outreg:1"]
    assert list(means.columns) == ["iid", "unseen"]
    decides = found.scores.query("metric == 'auc05' and part == 'all' and method == 'base'")
    assert means.loc["base"].tolist() == [f"{100 * value:.1f}"
                                          for value in decides.value], "what decides, no other metric"
    base, none_of_tuned = (found.scores.query("method == @name").value.to_numpy() for name in ("base", "wise-ft:0"))
    assert np.allclose(np.tile(base, 2), none_of_tuned)
    differences = found.differences()
    assert len(differences) == 4 * 2 and set(differences.word) <= set(WORDS)
    assert (differences.found > 1).all(), "in points: these tests are small"
    assert (differences.low <= differences.difference).all() and (differences.difference <= differences.high).all()
    fresh = compared(encoder, pairs, methods=asked["methods"])
    pd.testing.assert_frame_equal(fresh.scores, found.scores)
    monkeypatch.setattr(trying, "fine_tune", lambda *_, **__: pytest.fail("trained again"))
    pd.testing.assert_frame_equal(compared(encoder, pairs, **asked).scores, found.scores)
    assert len(records_in(tmp_path)) == 5, "of both mixtures and plain fine-tuning one for each seed"


def test_what_changes_a_run_makes_another_one(encoder, pairs, monkeypatch):
    train = read_pairs_file(pairs[0])
    turned = read_pairs_file(pairs[0].assign(label=1 - pairs[0].label))
    other = load_model(without_a_vector_for_the_unknown())
    held, fewer = (HeldTexts(texts, "0") for texts in (["a", "b", "c"], ["a", "b"]))

    def named(base=load_model(encoder), train=train, test=train, method="plain", seed=0, loss=None, texts=None,
              **settings):
        settings = settings_for("static", loss=loss, **settings)
        task = trying.FilesTask(base, {"train": train}, settings.loss, {"new": as_test("new", test)})
        return trying.Trials(task, settings, "nowhere").run(read_method(method, texts), seed, ["new"], ()).id

    assert named() == named(epochs=5.) == named(epochs=5) == named(texts=held), "the command line reads 5 as 5.0"
    assert named(method="outreg") == named(method="outreg:0.1") == named(method="outreg", texts=held)
    ids = {named(), named(base=other), named(train=turned), named(test=turned), named(method="outreg"), named(seed=1),
           named(epochs=6), named(loss="CoSENTLoss")}
    ids |= {named(method="outreg-texts", texts=texts) for texts in (held, fewer)}
    own = "sentence_transformers.sentence_transformer.losses.ContrastiveLoss" # on all pairs, or on matches
    ids |= {named(method=own, loss=loss) for loss in (None, OF_MATCHES[0])}
    for package in trying.TRAINERS:
        monkeypatch.setattr(trying, "versions", lambda found=trying.versions() | {package: "0.0.0"}: found)
        ids.add(named())
    assert len(ids) == 16


def test_a_name_is_a_method_of_a_configuration(encoder):
    said = {
        "base": {"trained": False}, "wise-ft:0.25": {}, "outreg:1": {"regularizer": "outreg", "weight": 1.},
        "itvreg:2": {"regularizer": "itvreg", "weight": 2., "mask_share": .5},
        "maskreg:2": {"regularizer": "maskreg", "weight": 2., "mask_share": .15},
        "worddropout:0.2": {"augmentation": "worddropout", "mask_share": .2},
    }
    for name, fields in said.items():
        config = read_method(name).config(encoder)
        assert config == PairMethod(name="plain" if "wise" in name else name, **fields)


def test_what_cannot_work_is_refused_before_training(encoder, pairs, nothing_trained, tmp_path):
    train, tests = pairs
    calm = SentenceTransformer(str(bert(tmp_path)), device="cpu")
    for module in calm.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.
    for model, changes, words in (
        (encoder, {"seeds": 1}, "seeds .* 1"), (encoder, {"seeds": "0,1"}, "seeds .* '0,1'"),
        (encoder, {"seed": 2**32}, "seed .* 4294967296"),
        (encoder, {"methods": "plain,outre"}, "'outreg'"),
        (encoder, {"batch_size": 0}, "batch_size must be a whole number from 1 to 1048576, got 0"),
        (encoder, {"learning_rate": 0}, r"learning_rate must lie in \(0, inf\), got 0"),
        (encoder, {"epochs": float("nan")}, "epochs .* nan"), (encoder, {"margin": 0}, "margin .* 0"),
        (calm, {"methods": "plain,simcse"}, "methods: simcse"),
    ):
        with pytest.raises(ConfigError, match=words):
            compared(model, pairs, **changes)
    few = {"few": train.head(4).assign(label=[0, 1, 0, 1])}, {"few": train.head(40).assign(label=[1] + 39 * [0])}, {}
    for asked, words in zip((*few, {"new": tests["iid"], "new@0.5": tests["iid"]}),
                            ("few: 4 pairs", "few is too small", "no test", "'new@0.5'")):
        with pytest.raises(DataError, match=words):
            compared(encoder, (train, asked))


@pytest.mark.parametrize("files", ["new.csv", ["new.csv"], pd.DataFrame({"left": []})], ids=["path", "list", "frame"])
def test_tests_and_validation_need_names(pairs, nothing_trained, files):
    train, tests = pairs
    for asked, option in (((train, files), "tests"), ((train, tests), "validation")):
        with pytest.raises(DataError, match=f"^{option}: "):
            compared("no model", asked, validation=files)


@pytest.mark.slow
def test_numbers_do_not_depend_on_how_many_train_at_a_time(pairs, own_module, monkeypatch):
    model = SentenceTransformer(str(bert(own_module.parent)), device="cpu",
                                prompts={"query": "why ", "document": "how "})
    asked = {"methods": f"base,wise-ft,itvreg,lora:2,{own_module.stem}.Still", "epochs": .2}
    alone = compared(model, pairs, **asked)
    monkeypatch.setattr(trying, "WORTH_WORKERS", 0)
    get_reusable_executor().shutdown() # workers of an earlier test stand in its folder, and find no module of this one
    pd.testing.assert_frame_equal(compared(model, pairs, workers=2, **asked).scores, alone.scores)


def test_a_training_that_diverges_is_named(encoder, pairs):
    with pytest.raises(ConfigError, match="plain, seed 0: step 1: the loss is nan; plain, seed 1: step 1"):
        compared(encoder, pairs, methods="base,plain", learning_rate=1e38)


# ---- prompts

@pytest.mark.parametrize("asked, left, right", [
    ({"prompts": {"query": "why 'how' {what} "}, "default_prompt_name": "query"}, "why 'how' {what} ",
     "why 'how' {what} "),
    ({"prompts": {"query": "why ", "document": "how "}}, "why ", "how "),
])
def test_an_encoder_with_prompts_of_its_own_is_trained_behind_them(tmp_path, monkeypatch, asked, left, right):
    "As its texts are read on the tests, and as the program says."
    model = SentenceTransformer(str(bert(tmp_path)), device="cpu", **asked)
    read = set()
    forward = type(model[0]).forward

    def watched(module, features, **options):
        if module.training:
            read.update(text.split()[1] for text in model.tokenizer.batch_decode(features["input_ids"]))
        return forward(module, features, **options)

    monkeypatch.setattr(type(model[0]), "forward", watched)
    found = compare(model, some_pairs(), {"new": some_pairs(seed=1)},
                    **asked_of(methods="plain,outreg", seeds=2, epochs=.2, batch_size=30))
    assert read == {left.split()[0], right.split()[0]}
    prompt = left if left == right else {"left": left, "right": right}
    assert f"prompts={prompt!r}," in found.snippet() and any(left.strip() in note for note in found.facts["notes"])
    compile(found.snippet(), "program", "exec")


@pytest.mark.parametrize("kind", [bert, table])
def test_words_of_a_prompt_are_none_of_a_text(kind, tmp_path):
    base = with_prompts(load_model(str(kind(tmp_path))), ("why red ", "how old "))
    train = read_pairs_file(some_pairs())
    pairs = file_tokens(base, train, "CosineSimilarityLoss")
    alone = tokenize(base.model, train.right)
    assert pairs.right.ordinary.sum(1).tolist() == alone.ordinary.sum(1).tolist()
    assert (pairs.right.mask.sum(1) - alone.mask.sum(1) == 2).all()
    column = batch_columns(PairCollator(pairs)([{"row": 3}, {"row": 0}]))[1]
    assert torch.equal(from_features(base.model, column).ordinary,
                       pairs.right[[3, 0]].ordinary), "as a regularizer sees them"
    tuned = tune(base, train, read_method("plain"), settings_for(base.kind, epochs=.1, batch_size=30), 0)
    assert tuned.prefixes == mixed_scorer(base, tuned, .5).prefixes == ("why red ", "how old ")


# ---- words

def of_values(values, spread=.001, seeds=3, in_ap=None, offsets=None):
    """A comparison on one test of methods with given values, in average precision others where they are given; offsets:
    what the seeds of a method add, in the place of what differs from method to method."""
    rng = np.random.default_rng(0)
    noise = rng.normal(0, .002, 200)
    rows = []
    for name, level in values.items():
        for seed in range(seeds):
            by_seed = spread * ((seed + len(name)) % 3) # seeds differ, and not in the same way for two methods
            if offsets is not None:
                by_seed = offsets[name][seed]
            reached = {"auc05": level + by_seed, "ap": (in_ap or values)[name] + by_seed}
            rows += [result(name, seed, "new", metric, value, value + (name != "plain") * noise)
                     for metric, value in reached.items()]
    return Comparison(pd.DataFrame(rows), [read_method(name) for name in values], settings_for("static"))


@pytest.mark.parametrize("level, word",
                         [(.5, "better"), (.3, "worse"), (.4, "within the margin"), (.41, "cannot tell")])
def test_words_say_what_the_numbers_say(level, word):
    found = of_values({"plain": .4, "outreg": level}, spread=.01 if word == "cannot tell" else .001)
    (row,) = found.differences().to_dict("records")
    assert row["difference"] == pytest.approx(100 * (level - .4)) and row["word"] == word


def test_intervals_end_where_nothing_can_be():
    (row,) = of_values({"plain": .02, "outreg": .98}, spread=.3).differences().to_dict("records")
    assert -100 <= row["low"] <= row["difference"] <= row["high"] == 100


CALM = {"plain": (0, 0, 0), "outreg": (0, 0, 0), "simcse": (.02, -.02, 0), "itvreg": (-.02, .02, 0),
        "l2sp": (.02, .02, -.04)}


def test_a_method_whose_seeds_agree_is_judged_with_the_others():
    values = {"plain": .4, "outreg": .42}
    alone = of_values(values, offsets=CALM).differences().set_index("method").loc["outreg"]
    together = of_values(dict.fromkeys(CALM, .4) | values, offsets=CALM).differences().set_index("method").loc["outreg"]
    assert alone.word == "better" and together.word == "cannot tell"
    assert together.difference == pytest.approx(alone.difference)
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_what_few_seeds_do_not_find_is_told():
    values = {"plain": .4, "outreg": .5, "itvreg": .5}
    two, three, four = (of_values(values, seeds=seeds, spread=.01) for seeds in (2, 3, 4))
    rows = {found.seeds: found.differences() for found in (two, three, four)}
    assert rows[2].found.min() > rows[3].found.max() > rows[3]["found at best"].max() > 0
    assert rows[3].found.min() > rows[4].found.max()
    assert f"(80% power) is {rows[2].found.min():.1f}" in two.found()["new"]
    assert "than these 2 would" in two.found()["new"]
    assert "than these 3 would" in three.found()["new"] and "More seeds" not in four.found()["new"]
    said = [found.warnings() for found in (two, three, four)]
    assert said[0][0].startswith("Provisional: 2 seeds say too little") and said[1:] == [[], []]
    one_method = of_values({"plain": .4, "outreg": .5})
    assert one_method.warnings()[0].startswith("Provisional: 3 seeds of one method")
    assert rows[2].provisional.all() and not rows[3].provisional.any()


def is_recommended(rows) -> bool: # rows: the differences from the base
    "Tell whether a method is recommended, as `Comparison.recommendation` does."
    return bool({*rows.method[rows.word == "better"]}
                & {*rows.method[rows.groupby("method").bound.transform("min") > -1]})


def tried_methods(rng, count, new, shared):
    "Methods that gain on one test and change another by so many points, with half or all of the items' error shared."
    rows = [result("base", 0, test, "auc05", .4, np.full(200, .4)) for test in ("like", "new")]
    for test, change in (("like", .1), ("new", new / 100)):
        common = rng.normal(size=201)
        for name in METHOD_NAMES[:count]:
            items = .01 * (shared**.5 * common + (1 - shared)**.5 * rng.normal(size=201))
            for seed in range(5):
                value = .4 + change + items[0] + .005 * rng.normal()
                rows.append(result(name, seed, test, "auc05", value, value + items[1:]))
    methods = [read_method(name) for name in ("base", *METHOD_NAMES[:count])]
    return Comparison(pd.DataFrame(rows), methods, settings_for("static"))


METHOD_NAMES = ("plain", "wise-ft", "outreg", "outreg:1", "outreg:10", "itvreg", "itvreg:1", "simcse", "l2sp")


@pytest.fixture
def fewer_draws(monkeypatch):
    for module in (several, comparing):
        monkeypatch.setattr(module, "DRAWS", 2_000)


@pytest.mark.usefixtures("fewer_draws")
@pytest.mark.parametrize("shared", [.3, .95])
def test_a_method_that_loses_the_margin_is_seldom_recommended_however_many_are_tried(shared):
    rng = np.random.default_rng(0)
    tries = [tried_methods(rng, 9, -1., shared).differences("base") for _ in range(80)]
    errors = sum(map(is_recommended, tries))
    uncorrected = sum((rows.low[rows.test == "new"] > -1).any() for rows in tries)
    assert errors <= 6, "2.5% of 80 are 2; 6 or fewer in 99 of 100 such tests"
    assert uncorrected > errors and (shared > .9 or uncorrected > 8)


@pytest.mark.usefixtures("fewer_draws")
def test_two_methods_are_recommended_about_as_often_as_before():
    rng = np.random.default_rng(0)
    tries = [tried_methods(rng, 2, 1.5, .9).differences("base") for _ in range(60)]
    before = [bool((rows.groupby("method").low.min() > -1).any()) for rows in tries]
    assert sum(map(is_recommended, tries)) >= sum(before) - 4 and sum(before) > 30


def test_near_equal_methods_do_not_make_each_other_undecidable():
    together = tried_methods(np.random.default_rng(0), 5, 2.2, .98)
    results = together.results
    alone = [replace(together, methods=[together.methods[0], method],
                     results=results[results.method.isin(["base", method.name])]) for method in together.methods[1:]]
    ps = together.differences("base").query("test == 'new'").p.tolist()
    ps_alone = [found.differences("base").query("test == 'new'").p.item() for found in alone]
    assert min(ps) < 4 * min(ps_alone) and min(
        ps_alone) > .0002, "by Holm five times, and ten times with another test that does not tell"


# ---- page

@pytest.fixture(scope="module")
def files(pairs, encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    train, tests = pairs
    for name, rows in {"train": train, **tests}.items():
        rows.to_csv(folder / f"{name}.csv", index=False)
    encoder.save(str(folder / "base"), create_model_card=False)
    return folder


WRITTEN = {*FILES, "runs", ".claims"}
QUICK = ("--seeds", 2, "--epochs", .1, "--batch-size", 100, "--methods", "base,plain")


def written_in(folder) -> set[str]: # names
    return {path.name for path in folder.iterdir()}


def bytes_in(folder) -> dict:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def shell(folder, *words):
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, ["compare", "--base", "base", "--train", "train.csv", *map(str, words)])


@pytest.fixture(scope="module")
def reported(files):
    asked = {"methods": "base,plain,wise-ft,outreg", "seeds": 2, "epochs": 1, "learning_rate": 2e-2}
    options = [word for name, value in asked.items() for word in (f"--{name.replace('_', '-')}", value)]
    done = shell(files, "--test", "like=iid.csv", "--test", "<i>new</i>=unseen.csv", *options, "--out", "out")
    with contextlib.chdir(files):
        tests = {"like": "iid.csv", "<i>new</i>": "unseen.csv"}
        found = compare("base", "train.csv", tests, folder="out", **asked_of(**asked))
    assert done.exit_code == 0 and done.stdout.startswith(repr(found)), done.output
    vars(found)["last_line"] = done.stdout.splitlines()[-1]
    return found


def test_page_twin_and_tables_are_written(reported, files):
    out = files / "out"
    assert written_in(out) == WRITTEN
    page = (out / "index.html").read_text("utf-8")
    read_page(page)
    assert len(re.findall(r'<h2 id="[a-z]+">[^<]+\?</h2>', page)) == 4
    assert page.count("<table") == page.count('"scroll" tabindex="0"><table')
    assert "<i>" not in page and "&lt;i&gt;new" in page and "Verdict: " in page
    told = read_card(reported._repr_html_())
    assert f"{reported.recommendation.heading} {escape(reported.recommendation.reason)}".replace("`", "") in told
    assert "&lt;i&gt;new&lt;/i&gt;" in told
    twin = json.loads((out / "report.json").read_text("utf-8"))
    parts = {"schema", "verdict", "recommendation", "warnings", "found", "levels", "differences", "tried",
             "next", "facts"}
    assert set(twin) == parts | {"made by"} and coded(twin["recommendation"]["heading"]) in page
    assert "was chosen on these tests" in page
    told = pd.DataFrame(twin["differences"])
    assert told.columns.tolist() == reported.every_difference().columns.tolist()
    assert pd.read_csv(out / "differences.csv").columns.tolist() == told.columns.tolist()
    assert set(told.against) == {"plain", "base"} and set(told.metric) == {"auc05", "ap"}
    for row in told.to_dict("records"):
        assert row["word"] in WORDS and f"{row['difference']:+.1f}".replace("-", "−") in page
        assert f"{row['p']:.4f}" in page and f"<td class=\"n\">{row['found']:.1f}</td>" in page
    said = [*twin["found"].values(), *twin["warnings"]]
    assert all(text in repr(reported) for text in said)
    assert all(coded(text) in page for text in said) and "<code>&lt;i&gt;new&lt;/i&gt;</code>" in page
    for row in reported.levels().to_dict("records"):
        assert row["low"] <= row["value"] <= row["high"] and f"{100 * row['value']:.1f}" in page


LINE = re.compile(
    r"VERDICT: (better|worse|within-margin|cannot-tell) \| metric=auc05 \| base=(.*) \| tuned=(.*) \| change=(.*) "
    r"\[(.*), (.*)\] \| test=(.*) \| method=(.*)")


def test_the_last_line_is_the_verdict_on_the_method_that_is_recommended(reported, files):
    first, twin = reported.last_line, json.loads((files / "out/report.json").read_text("utf-8"))
    assert first == reported.verdict() == twin["verdict"]
    word, base, tuned, change, low, high, test, method = LINE.fullmatch(first).groups()
    assert method == reported.recommendation.method
    name = test.removesuffix(" without texts of training")
    part = WHOLE if name == test else NEW
    (row,) = reported.differences("base", part=part).query("method == @method and test == @name").to_dict("records")
    assert row["word"].replace("within the", "within").replace(" ", "-") == word
    shown = [100 * float(number) for number in (change, low, high)]
    assert shown == pytest.approx([row["difference"], row["low"], row["high"]], abs=.01)
    means = reported.scores.query("part == @part and metric == 'auc05' and test == @name").groupby(
        "method").value.mean()
    assert (float(base), float(tuned)) == pytest.approx((means["base"], means[method]), abs=1e-4)


def of_base(found, **changes):
    "The same comparison of another base."
    return replace(found, facts=found.facts | {"models": {"base": found.facts["models"]["base"] | changes}})


POTION = "minishlab/potion-base-2M"


@pytest.mark.parametrize("call, source, kind, words", [
    ("cannot tell", POTION, "sentences", "on sentences, one training changes AUC(0.05) on a new kind of sentences by"),
    ("cannot tell", f"{POTION}@86db09", "sentences:offers", "on a new kind of offers by"),
    ("cannot tell", POTION, None, "No prior: name the kind of training, --kind sentences or offers"),
    ("cannot tell", "base", None, "No prior: our"),
    ("cannot tell", "base", "offers", "No prior: "), ("your call", POTION, "sentences", None)])
def test_where_it_cannot_tell_a_prior_says_what_records_make_likely(reported, call, source, kind, words):
    found = replace(with_changes(of_base(reported, source=source), *CALLS[call]), kind=kind)
    answer = found.recommendation
    assert (answer.call == call and (words or "prior") in answer.reason or words is None
            and "prior" not in answer.reason.lower())
    if words:
        assert found.prior.sentence in repr(found)
        assert json.loads(found.json())["recommendation"]["reason"] == answer.reason
        by_ap = replace(found, deciding=dict.fromkeys(found.tests, "ap"), results=found.results.assign(metric="ap"))
        assert by_ap.prior.sentence.startswith("No prior: ")
    if words and words.startswith("on "):
        other = replace(found, settings=settings_for("static", loss=OF_MATCHES[0]))
        assert f"trained with {OF_MATCHES[0]} on sentences" in other.prior.sentence != found.prior.sentence


def test_a_prior_stands_at_the_base_and_the_error_of_the_new_tests(reported):
    found = replace(with_changes(of_base(reported, source=POTION), *CALLS["cannot tell"]), kind="sentences")
    records = pd.read_csv(package_file("diagnosis/prior.csv")).query(
        "encoder == 'potion-base-2M' and loss == 'CosineSimilarityLoss' and trained_on == texts == "
        "'sentences'").set_index("method")
    low, high = range_at(50, records["mean"], records.low, records.high)
    shown = re.search(r"new kind of sentences by (\S+) to (\S+) points", found.prior.sentence)
    ends = [float(end.replace("−", "-")) for end in shown.groups()]
    assert ends[0] < low["plain"] - .05 and ends[1] > high["plain"] + .05, "widened by the error of a test"
    assert ends == pytest.approx([low["plain"], high["plain"]], abs=4)
    assert found.prior.advised is GENERAL and found.recommendation.reason.endswith(f"take {GENERAL.title}.")


def test_records_advise_what_was_run_and_is_not_measured_to_lose(reported):
    "Own texts are no general ones; another method that gains, or a loss that is measured, comes before records."
    cannot_tell = replace(with_changes(of_base(reported, source=POTION), *CALLS["cannot tell"]), kind="sentences")
    texts = HeldTexts(["a lamp"], "0", "own.txt")
    own = replace(cannot_tell, facts=cannot_tell.facts | {"texts": texts.facts()},
                  methods=[read_method(one.name, texts) for one in cannot_tell.methods])
    lost = replace(with_changes(of_base(reported, source=POTION), .003, -.02), kind="sentences")
    for found in (own, lost):
        answer = found.recommendation
        assert "take OutReg" not in answer.reason and f"| method={answer.method}" in found.verdict()
        assert found.titles[answer.method] in " ".join(found.snippet().replace("# ", "").split())


def test_what_is_short_is_counted(reported):
    found = with_changes(reported, *CALLS["cannot tell"])
    assert found.short == "More test data may tell; more seeds would change little."
    assert found.short in found.recommendation.reason
    rng = np.random.default_rng(0)
    seeds = {key: rng.normal(0, .04) for key in product(found.results.method.unique(), range(3), found.tests)}
    moved = [0 if row.method == "base" else seeds[row.method, row.seed, row.test] for row in found.results.itertuples()]
    drawn = [row.value + move + rng.normal(0, .0005, 200) for row, move in zip(found.results.itertuples(), moved)]
    apart = replace(found, results=found.results.assign(value=found.results.value + moved, resampled=drawn))
    assert apart.short == "More seeds may tell."


def test_the_command_on_the_page_gives_the_same_trials(reported, files):
    name, *command = shlex.split(reported.facts["command"])
    before = bytes_in(files / "out/runs")
    with contextlib.chdir(files):
        refused = CliRunner().invoke(app, command)
        done = CliRunner().invoke(app, [*command, "--overwrite"])
    assert refused.exit_code == 2 and "out/index.html: the file exists" in refused.output
    assert done.exit_code == 0 and name == "debias-nb" and bytes_in(files / "out/runs") == before


def test_general_texts_are_among_the_methods_where_they_can_be_had(files, tmp_path, monkeypatch):
    def no_network(*_, **__):
        raise OSError("no network")

    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path))
    monkeypatch.setattr("pooch.retrieve", no_network)
    monkeypatch.setattr("debias_nb.data.registry.cache_dir", lambda _: tmp_path / "cache")
    options = ("--test", "like=iid.csv", *QUICK[:-2], "--out", tmp_path)
    done = shell(files, *options)
    lines = [line for line in done.stdout.splitlines() if "was left out: nli/qnli-dev.tsv is missing: the download "
                                                          "failed. " in line]
    assert done.exit_code == 0 and "general_texts()'` gets them." in lines[0], done.output
    twin = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert lines[0] in twin["warnings"] and coded(lines[0]) in (tmp_path / "index.html").read_text("utf-8")
    refused = shell(files, *options, "--texts", "general", "--overwrite")
    assert refused.exit_code == 2 and "qnli-dev.tsv is missing" in refused.output

    monkeypatch.setattr("debias_nb.data.texts.general_texts", lambda: ["an old lamp", "red chairs", "a kettle"])
    done = shell(files, *options, "--overwrite")
    both = json.loads((tmp_path / "report.json").read_text("utf-8"))["facts"]
    assert done.exit_code == 0 and "left out" not in done.stdout and both["texts"]["path"] == "general", done.output
    assert [row["name"] for row in twin["facts"]["methods"]] == list(DEFAULTS)
    assert [row["name"] for row in both["methods"]] == [*DEFAULTS[:4], "outreg-texts:1", "itvreg"]
    assert both["command"].endswith("--texts general")


def test_a_base_that_is_not_there_is_told_before_general_texts_are_asked_for(pairs, monkeypatch):
    monkeypatch.setattr("debias_nb.data.texts.general_texts", lambda: pytest.fail("texts were asked for"))
    for texts in (None, "general"):
        with pytest.raises(EncoderError, match="was not found"):
            compare("no-such-model", *pairs, texts=texts)


def test_each_seed_draws_its_own_pairs_where_that_is_asked_for(encoder, pairs, tmp_path):
    found = compared(encoder, pairs, methods="base,plain,outreg", redraw=.5, folder=tmp_path)
    records = [json.loads(path.read_text()) for path in records_in(tmp_path)]
    trained = {record["id"]: record["data"]["train"] for record in records if record["config"]["method"]["trained"]}
    drawn = {tuple(own.values()) for own in trained.values()}
    assert (len(trained) == 4 and len({own["fingerprint"] for own in trained.values()}) == len(drawn)
            == 2), "two seeds, two draws"
    assert all(90 <= own["pairs"] <= 100 for own in trained.values()), "of 200"
    assert any("random sample of its own, 50%" in note for note in found.notes)
    on_all = compared(encoder, pairs, methods="base,plain,outreg")
    assert any("same pairs" in note for note in on_all.notes)
    assert not np.allclose(found.results.value, on_all.results.value)
    with pytest.raises(ValueError, match="redraw"):
        compared(encoder, pairs, redraw=1.)


def test_what_shares_texts_is_drawn_together():
    chains = [(f"lamp {i}{a}", f"lamp {i}{b}", i % 2) for i in range(40) for a, b in ((0, 1), (1, 2))]
    file = read_pairs_file(pd.DataFrame(chains, columns=["left", "right", "label"]))
    some, others = (trying.sample(file, .5, seed) for seed in (0, 1))
    assert len(some) == len(others) == 40 and some.rows_sha256 != others.rows_sha256
    for own in (some, others):
        assert pd.Series(own.left).str[:-1].value_counts().eq(2).all()


def won_by(best, found):
    "The same comparison, with a method that is the best."
    return replace(found, results=found.results.assign(value=(found.results.method == best).astype(float)))


CALLS = { # answer -> what all methods change on both tests, and what outreg-texts:1 does on the new one
    "use a method": (.1, .2), "keep the base": (-.1, -.1), "your call": (.1, -.1), "either": (0., 0.),
    "cannot tell": (.003, .003)}


def with_changes(found, like, new):
    "The same comparison with OutReg on general texts instead, and with changes of a method on both tests."
    rows = []
    rng = np.random.default_rng(0)
    noise = {test: rng.normal(0, .015 if like == .003 else .0005, 200) for test in ("like", "<i>new</i>")}
    for name, seed, (test, far) in product(("base", "plain", "outreg-texts:1"), range(3),
                                           (("like", like), ("<i>new</i>", new))):
        far = 0. if name == "base" else far - (.0001 * (name == "plain"))
        rows.append(result(name, seed, test, "auc05", .5 + far + rng.normal(0, 1e-4),
                           .5 + far + noise[test] * (1 + (name != "base"))))
    texts = HeldTexts(["a lamp"], "0", "general")
    methods = [read_method(name, texts) for name in ("base", "plain", "outreg-texts:1")]
    facts = found.facts | {"texts": texts.facts(), "methods": [method.facts() for method in methods], "cases": {}}
    return replace(found, results=pd.DataFrame(rows), methods=methods, facts=facts)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("source", ["base", POTION])
def test_one_method_is_named_by_heading_program_and_last_line(reported, call, source):
    found = replace(with_changes(of_base(reported, source=source), *CALLS[call]), kind="sentences")
    answer = found.recommendation
    said = f"{answer.heading} {answer.reason}"
    assert answer.call == call, said
    titles = {method.name: method.title for method in found.methods if method.kind != "base"}
    others = [title for name, title in titles.items() if name != answer.method]
    if (call, source) == ("cannot tell", POTION):
        assert answer.method == GENERAL.method and answer.heading == f"Cannot tell yet: until then {GENERAL.title}."
        others = [] # the records are of both
    assert titles[answer.method] in said and not any(title in said for title in others)
    assert found.verdict().endswith(f"| method={answer.method}")
    program = " ".join(found.snippet().replace("# ", "").split())
    assert titles[answer.method] in program and (GENERAL.program in program) == (answer.method == GENERAL.method)
    assert "outreg-texts:1" not in said and found.cards[0]["name"] == titles[answer.method]


def level_of(program: str, folder: str, tests: dict) -> dict[str, float]: # of each test
    "What the encoder reaches that a program trains and saves in a folder."
    with contextlib.redirect_stdout(io.StringIO()):
        exec(program, {})
    model = load_model(folder)
    measured = {name: as_test(name, read_pairs_file(path, match="same")) for name, path in tests.items()}
    return {name: test.measured(test.score({"it": model})["it"], test.metric, slice(None)).value
            for name, test in measured.items()}


@pytest.mark.parametrize("loss", LOSSES[:1] + OF_MATCHES[:1])
def test_whoever_runs_the_printed_program_gets_what_the_page_says(files, loss):
    "The very encoder of the first seed; with a falling rate, as trainers have it, what is gained lies below all seeds."
    folders = ("base-plain/model", "base-outreg/model", "base-outreg-texts/model", "base-wise-ft-0.5")
    methods = dict(zip(("plain", "outreg", "outreg-texts:1", "wise-ft:0.5"), folders))
    tests = {"like": "iid words.csv", "new": "unseen words.csv"}
    with contextlib.chdir(files):
        for name in ("train", "iid", "unseen"):
            words = pd.read_csv(f"{name}.csv").replace({"label": {0: "other", 1: "same"}})
            words.to_csv(f"{name} words.csv", index=False)
        (files / "texts.txt").write_text("an old lamp\nred chairs\na kettle\n")
        read = {name: read_pairs_file(path, match="same") for name, path in tests.items()}
        settings = TrainingSettings(.02, epochs=3, batch_size=20, loss=loss)
        found = compare(
            "base", read_pairs_file("train words.csv", match="same"), read, ["base", *methods], seeds=2,
            training=settings, folder="kept",
            texts="texts.txt", seed=1)
        seeds = found.best.sort_values("method").set_index(["method", "test", "seed"]).value
        for method, folder in methods.items():
            program = won_by(method, found).snippet()
            assert level_of(program, folder, tests) == pytest.approx({test: seeds[method, test, 1] for test in tests},
                                                                     abs=1e-6), method
        falling = won_by("plain", found).snippet().replace('lr_scheduler_type="constant"', 'lr_scheduler_type="linear"')
        lower = level_of(falling, methods["plain"], tests)
        assert any(lower[test] < seeds["plain", test].min() for test in tests)


def test_what_is_in_memory_has_no_name_in_program_and_command(encoder, pairs, files):
    asked = {"methods": "base,wise-ft", "epochs": .1, "batch_size": 100}
    found = compared(encoder, pairs, **asked)
    program = won_by("wise-ft", found).snippet()
    assert "model = ... # the encoder before fine-tuning\n" in program and "base = ... #" in program
    assert "frame = ... # the pairs to train on, a data frame\npairs = read_pairs_file(frame, columns=" in program
    assert "tuned = load_model('mine-wise-ft/model').model" in program
    assert "in memory" not in program
    assert ".csv" not in program
    assert found.facts["command"] is None and "debias-nb compare" not in found.html()
    compile(program, "program", "exec")
    named = compared(encoder, (str(files / "train.csv"), {"new": str(files / "unseen.csv")}), **asked)
    assert named.facts["command"] is None and f"read_pairs_file({str(files / 'train.csv')!r}, " in named.snippet()


def test_after_an_interruption_the_same_command_goes_on(files, tmp_path, monkeypatch):
    trained = []

    def interrupted_at_the_second(*asked, **_):
        trained.append(asked[5])
        if len(trained) == 2:
            raise KeyboardInterrupt
        return Course(0)

    monkeypatch.setattr(trying, "fine_tune", interrupted_at_the_second)
    command = ("--test", "new=unseen.csv", *QUICK, "--workers", 1, "--out", tmp_path)
    stopped = shell(files, *command)
    assert stopped.exit_code == 130
    assert f"kept in {tmp_path}, and the same command goes on" in stopped.stderr.splitlines()[-1]
    kept = bytes_in(tmp_path / "runs")
    assert len(records_in(tmp_path)) == 2, "of the base, and of the first seed"
    done = shell(files, *command)
    assert done.exit_code == 0 and trained == [0, 1, 1], done.output
    assert len(records_in(tmp_path)) == 3
    assert kept.items() <= bytes_in(tmp_path / "runs").items()
    assert written_in(tmp_path) == WRITTEN


def test_without_a_folder_finished_trials_are_kept_until_all_are_done(encoder, pairs, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path))
    seeds = []

    def interrupted_at_the_second(*asked, **_):
        seeds.append(asked[5])
        if len(seeds) == 2:
            raise KeyboardInterrupt
        return Course(0)

    monkeypatch.setattr(trying, "fine_tune", interrupted_at_the_second)
    options = {"methods": "base,plain", "workers": 1, "progress": True}
    with pytest.raises(KeyboardInterrupt):
        compared(encoder, pairs, **options)
    [folder] = (tmp_path / "comparisons").iterdir()
    assert f"kept in {folder} until all are done" in capsys.readouterr().err and len(records_in(folder)) == 2
    compared(encoder, pairs, **options)
    assert seeds == [0, 1, 1] and not folder.exists()


# ---- strengths that are chosen

@pytest.mark.slow
def test_a_strength_that_is_not_given_is_the_best_on_the_validation_pairs(
        encoder, pairs, held_out, tmp_path, monkeypatch):
    "With all labels turned round, what is worst is best."
    kept = str(tmp_path / "kept.csv")
    held_out["kept"].to_csv(kept, index=False)
    asked = {"methods": "base,plain,wise-ft,outreg,outreg:1", "validation": {"kept": kept}, "folder": tmp_path}
    found = compared(encoder, pairs, **asked)
    assert found.tried.groupby("method", sort=False).strength.apply(list).to_dict() == {
        "wise-ft": list(METHODS["wise-ft"].grid), "outreg": list(METHODS["outreg"].grid)}
    best = found.tried.sort_values("value", ascending=False, kind="stable").drop_duplicates("method")
    strengths = {method.name: method.strength for method in found.methods}
    assert strengths == dict(zip(best.method, best.strength)) | {"base": None, "plain": None, "outreg:1": 1.}
    turned = {"kept": held_out["kept"].assign(label=1 - held_out["kept"].label)}
    other = compared(encoder, pairs, methods="plain,wise-ft", validation=turned)
    assert other.methods[-1].strength == other.tried.loc[other.tried.value.idxmax()].strength
    assert other.tried.value.tolist() != found.tried.value[:4].tolist()
    monkeypatch.setattr(trying, "fine_tune", None) # nothing is left to train
    again = compared(encoder, pairs, **asked)
    assert again.tried.equals(found.tried) and again.scores.equals(found.scores)


def test_strengths_are_chosen_neither_on_a_test_nor_on_what_was_trained_on(encoder, pairs, held_out, nothing_trained):
    train, tests = pairs
    turned = tests["unseen"].sample(frac=1, random_state=0).assign(label=lambda rows: 1 - rows.label)
    swapped = tests["iid"].head(2).rename(columns={"left": "right", "right": "left"})
    for kept, words in (
        (turned, f"{len(turned)} of {len(turned)} pairs also occur in the test unseen"),
        (pd.concat([held_out["kept"], swapped]), "validation kept: 2 of .* the test iid"),
        (train.sample(frac=1, random_state=0), f"{len(train)} of {len(train)} pairs also occur in the training file"),
    ):
        with pytest.raises(DataError, match=words):
            compared(encoder, pairs, validation={"kept": kept})
    with pytest.raises(DataError, match="'validation kept'"):
        compared(encoder, (train, {"validation kept": tests["iid"]}), validation={"kept": tests["unseen"]})


# ---- regularizers on other texts

@pytest.fixture(scope="module")
def new_kind():
    """An encoder that knows which two words of the kinds a and b mean the same, training pairs that say so of c and d
    and mislead on a and b, a test of a and b, and further texts of that kind."""
    count = 12
    rng = np.random.default_rng(0)
    vectors = {kind: rng.normal(size=(count, 32)) for kind in "acd"}
    vectors["b"] = vectors["a"] + .3 * rng.normal(size=(count, 32))
    words = ["[UNK]", *(f"{kind}{number}" for kind in vectors for number in range(count))]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    # short, so that training turns them
    weights = .1 * np.vstack([np.zeros((1, 32)), *vectors.values()]).astype("float32")
    encoder = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")
    rows = []
    for _ in range(300):
        i, j, other, another = rng.permutation(count)[:4]
        rows += [(f"c{i} a{j}", f"d{i} b{other}", 1), (f"c{i} a{j}", f"d{another} b{j}", 0)]
    train = pd.DataFrame(rows, columns=["left", "right", "label"])
    combined = [(i, j) for i in range(count) for j in range(i)]
    tested = [(i, j) for i, j in combined if (i + j) % 2]
    new = pd.DataFrame(
        [(f"a{i} a{j}", f"b{k} b{m}", int((i, j) == (k, m))) for i, j in tested for k, m in tested],
        columns=["left", "right", "label"])
    texts = [f"{kind}{i} {kind}{j}" for i, j in combined if (i + j) % 2 == 0 for kind in "ab"]
    return encoder, train, {"new": new}, texts


def held(new_kind, **changes):
    encoder, train, tests, texts = new_kind
    return compared(encoder, (train, tests), **{"methods": "outreg-texts", "texts": texts} | changes)


def test_what_was_lost_on_another_kind_is_won_back_on_texts_of_that_kind(new_kind):
    methods = "base,outreg:1,outreg-texts:1"
    found = held(new_kind, methods=methods)
    pd.testing.assert_frame_equal(held(new_kind, methods=methods).scores, found.scores)
    level = found.scores.query("metric == 'auc05'").groupby("method").value.mean()
    assert level["base"] - level["plain"] > .5, "fine-tuning harms there"
    won = level - level["plain"]
    assert won["outreg-texts:1"] > .8 * won["base"] and won["outreg:1"] < .5 * won["base"]
    assert found.differences().set_index("method").word["outreg-texts:1"] == "better"


def test_methods_on_texts_are_of_regularizers_and_have_texts():
    texts = HeldTexts(["a", "b"], "0")
    one = read_method("outreg-texts:2", texts)
    assert (one.kind, one.strength, one.texts) == ("outreg", 2, texts) and one.regularizer == "OutReg(2.0, texts=...)"
    assert read_method("outreg", texts).texts is None
    assert read_method("itvreg-texts", replace(texts, path="it's.txt")).regularizer == 'ITVReg(0.1, texts="it\'s.txt")'
    assert [method.name for method in read_methods(None, texts)] == [
        "base", "plain", "wise-ft", "outreg", "outreg-texts", "itvreg"]
    assert [method.name for method in read_methods(None)] == list(DEFAULTS)
    for name, given, said in (
        ("l2sp-texts", texts, "no method called 'l2sp-texts'"), ("worddropout-texts:0.2", texts, "no method"),
        ("plain-texts", texts, "no method"),
        ("outreg-texts-texts", texts, "'outreg-texts'"), ("outregg-texts", texts, "'outreg"),
        ("outreg-text", texts, "'outreg-texts'"),
        ("outreg-texts", None, r"give texts \(--texts\)"), ("base,outreg", texts, r"^texts \(--texts\): no method"),
        ("outreg-texts:-1", texts, "lambda"),
    ):
        with pytest.raises(ConfigError, match=said):
            read_methods(name, given)


def test_texts_that_are_none_or_tested_are_refused_before_training(new_kind, held_out, nothing_trained, tmp_path):
    tests, texts = new_kind[2:]
    kept = held_out["kept"]
    for given, changes, said in (
        ([*texts, "A11, A0"], {}, r"^texts: 1 of \d+ also occur in the test new \(the first is 'A11, A0'\)"),
        ([*texts, "b11 b0", "a1  a0"], {}, "^texts: 2 of .* the test new "),
        ([*texts, kept.right[0]], {"validation": {"kept": kept}}, "^texts: 1 of .* validation kept "),
        (["one"], {}, "two or more"),
        ([*texts, "half \ud83d"], {}, f"number {len(texts)} has nothing to be seen in it, or NUL or half"),
        (tmp_path / "none.txt", {}, "none.txt"), (pd.DataFrame({"text": texts}), {}, "one of them"),
    ):
        with pytest.raises(DataError, match=said):
            held(new_kind, texts=given, **changes)


def test_adapters_of_a_transformer_alone_are_trained(tmp_path):
    pytest.importorskip("peft")
    base = SentenceTransformer(str(bert(tmp_path)), device="cpu")
    found = compare(base, some_pairs(), {"new": some_pairs(seed=1)}, methods="plain,lora:2", seeds=2,
                    training=TrainingSettings(epochs=.5), folder=tmp_path)
    assert "trained_part(model, seed=0, rank=2)" in won_by("lora:2", found).snippet()
    configs = [json.loads(path.read_text())["config"]["method"] for path in records_in(tmp_path)]
    assert [config["lora"]["rank"] for config in configs if config["lora"]] == [2, 2]


@pytest.mark.parametrize("name, why", [
    ("lora:1.5", "a rank is a whole number"), ("lora", "belongs to transformers"),
    ("lora", "pip install peft")])
def test_a_part_that_cannot_be_trained_is_refused(encoder, pairs, nothing_trained, tmp_path, monkeypatch, name, why):
    if "peft" in why:
        monkeypatch.setitem(sys.modules, "peft", None)
        encoder = SentenceTransformer(str(bert(tmp_path)), device="cpu")
        pairs = some_pairs(), {"new": some_pairs(seed=1)}
    with pytest.raises(ConfigError, match=f"methods: .*{why}"):
        compared(encoder, pairs, methods=f"base,plain,{name}")


def test_the_method_is_picked_on_validation_pairs_and_the_base_may_stay(reported):
    def judged(**values): # of each method its level on the test and on the validation pairs
        own = reported.results[reported.results.method.isin(values)]
        parts = [own.assign(value=own.method.map(lambda name: values[name][0]))]
        parts.append(own[own.test == "like"].assign(test="validation kept",
                                                    value=own.method.map(lambda name: values[name][1])))
        methods = [method for method in reported.methods if method.name in values]
        return replace(reported, results=pd.concat(parts, ignore_index=True), methods=methods)

    both = judged(base=(.5, .5), plain=(.9, .1), outreg=(.8, .7))
    assert both.recommendation.method == "outreg" and both.validation == ["validation kept"]
    shown = {*both.means().columns, *both.levels().test}
    assert shown == set(both.tests) and "the validation pairs" in both.recommendation.reason
    worse = judged(base=(.9, .9), plain=(.5, .5), outreg=(.8, .7))
    assert worse.recommendation.call == "keep the base" and coded(worse.recommendation.heading) in worse.html()


# ---- what is told

def test_what_to_know_of_a_test_is_told(reported, encoder, pairs):
    provisional, = reported.warnings()
    assert provisional.startswith("Provisional: 2 seeds")
    results = reported.results
    dead = replace(reported,
                   results=results.assign(**{"one score": (results.test == "like") & (results.method == "plain")}))
    assert dead.warnings() == ["like: all pairs have the same score in a trial of plain.", provisional]
    assert dead.warnings()[0] in dead.html()
    zero = without_a_vector_for_the_unknown()
    with torch.no_grad():
        zero[0].embedding.weight.zero_()
    new = as_test("new", read_pairs_file(some_pairs()))
    task = trying.FilesTask(load_model(zero), {"train": new.file}, "CosineSimilarityLoss", {"new": new})
    run = trying.Trials(task, settings_for("static"), "nowhere").run(read_method("base"), 0, ["new"], ())
    assert execute(run, task)["extra"]["one score"] == ["new"]
    train, tests = pairs
    half = pd.concat([train.head(100), tests["unseen"].head(100)])
    found = compared(encoder, (train, {"leaked": half}), methods="base,plain")
    told = found.warnings()
    assert told[0].startswith("Provisional: 2 seeds")
    assert told[1].startswith("leaked: 100 of 200 pairs also occur in the training file")
    assert told[0] in repr(found) and json.loads(found.json())["warnings"] == told
    some = compared(encoder, (train, {"leaked": half}), methods="base,plain", sample=120).warnings()
    shared, of = next(map(int, re.findall(r"\d+", text)) for text in some if "also occur in the training file" in text)
    assert shared < .8 * of <= .8 * 120, "of those that are drawn"


# ---- other losses

@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_trains_bare_and_with_a_regularizer(encoder, pairs, loss):
    train, tests = pairs
    train = pd.concat([train, train[train.label > 0].head(1).assign(right="another match")])
    found = compared(encoder, (train, tests), methods="plain,outreg:10", loss=loss)
    scores = found.scores.query("metric == 'auc05' and test == 'iid'")
    assert len(scores) == 5 and np.isfinite(scores.value).all()
    program = found.snippet()
    assert f"import {loss}" in program and loss in found.html()
    assert ("batch_sampler=ApartMatches" in program) == (loss in OF_MATCHES)


def test_matches_alone_are_learned_from_where_a_loss_takes_no_labels(encoder, pairs):
    file = read_pairs_file(pairs[0])
    rows = training_rows(file, OF_MATCHES[0])
    assert rows.column_names == ["left", "right"] and len(rows) == file.labels.sum()
    assert training_rows(file, "CoSENTLoss").column_names == ["left", "right", "label"]
    tokens = file_tokens(load_model(encoder), file, OF_MATCHES[0])
    assert tokens.matches[:] == rows[:]
    assert len(tokens) == len(rows)
    assert file_tokens(load_model(encoder), file, LOSSES[0]).matches is None
    with pytest.raises(ConfigError, match="did you mean 'CoSENTLoss'"):
        settings_for("static", loss="CoSENTLos")


MATCHES = [(f"q{i}", f"a{i} {k}") for i in range(6) for k in range(4)] # each text on the left has four
MATCHES += [("a0 0", "b0"), ("q1", "b0"), *((f"left {i}", f"right {i}") for i in range(14))]


def falsely_negative(batch):
    "Texts of a batch that stand there as a negative of themselves or of one of their matches."
    together = {frozenset(pair) for pair in MATCHES}
    rows = [MATCHES[row] for row in batch]
    return [(left, other) for left, right in rows for _, other in rows
            if other != right and (left == other or frozenset((left, other)) in together)]


def test_no_batch_of_a_ranking_loss_has_a_match_as_a_negative():
    data = Dataset.from_list([{"left": left, "right": right} for left, right in MATCHES])
    settings = {"batch_size": 4, "drop_last": False, "generator": torch.Generator()}
    sampler = ApartMatches(data, **settings, seed=0)
    epochs = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert not any(map(falsely_negative, batches))
        assert sorted(row for batch in batches for row in batch) == list(range(len(MATCHES)))
        assert len(batches) == len(sampler) == 10
        epochs.append(batches)
    assert epochs[0] != epochs[1] and sum(map(sampler.shares, range(len(sampler.left)))) == 26
    by_chance = DefaultBatchSampler(RandomSampler(data, generator=torch.Generator()), **settings, seed=0)
    assert any(map(falsely_negative, by_chance)), "such matches would meet"


# ---- a method of one's own

OWN = """
from dataclasses import dataclass
import torch
from debias_nb import Regularizer
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

@dataclass
class Still(Regularizer):
    "Holds every embedding where the base has it."
    needs_base = True

    def term(self, text):
        return (text.fx - text.f0x).square().sum()

class Plain(CosineSimilarityLoss):
    "Least squares by another name."

class Two(torch.nn.Module):
    def __init__(self, model, temperature):
        super().__init__()

number = 3
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    "The current folder has a module of one's own, which no other test sees."
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "own_losses_of_a_test.py"
    file.write_text(OWN)
    yield file
    sys.modules.pop(file.stem, None)


def test_a_loss_and_a_regularizer_of_ones_own_stand_beside_ours(encoder, pairs, own_module):
    still, plain = f"{own_module.stem}.Still:1000", f"{own_module.stem}.Plain"
    found = compared(encoder, pairs, methods=["base", "plain", still, plain], folder=own_module.parent / "out")
    value = found.best.pivot_table("value", "method", "test")
    assert value.loc[plain].equals(value.loc["plain"]), "trained as plain fine-tuning is, with the same seeds"
    change = (value - value.loc["base"]).abs().max(axis=1)
    assert change[still] < change["plain"] / 2
    kept = len(records_in(own_module.parent / "out"))
    own_module.write_text(OWN + "\n# another version")
    compared(encoder, pairs, methods=["base", "plain", still], folder=own_module.parent / "out")
    assert len(records_in(own_module.parent / "out")) == kept + 2, "another file is another method: trained again"


@pytest.mark.parametrize("name, why", [
    ("Nowhere", "has no attribute 'Nowhere'"), ("number", "no class of a loss"), ("Two", "temperature"),
    ("more.Mine", "No module named")])
def test_what_is_no_loss_of_ones_own_is_refused_before_training(encoder, pairs, own_module, nothing_trained, name, why):
    with pytest.raises(ConfigError, match=f"{own_module.stem}.{name}.*{why}"):
        compared(encoder, pairs, methods=f"base,{own_module.stem}.{name}")
