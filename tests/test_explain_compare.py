"Methods compared on somebody's own pairs."
import contextlib
import io
import json
import re
import resource
import shlex
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sentence_transformers import SentenceTransformer
from typer.testing import CliRunner

from debias_nb.config import ConfigError, EncoderConfig, PretrainConfig
from debias_nb.data.registry import DataError
from debias_nb.data.worlds import Catalogue
from debias_nb.data.planted_encoder import planted_encoder
from debias_nb.encoders import EncoderError, copied
from debias_nb.explain import compare as comparing
from debias_nb.explain.compare import (
    GRIDS, STRENGTH, Comparison, compare, read_method, read_methods, settings_for,
)
from debias_nb.explain.models import load_model
from debias_nb.explain.page import write_whole
from debias_nb.explain.pairs_file import read_pairs_file
from debias_nb.repro.cli import METHODS_HELP, app
from debias_nb.stats import WORDS
from made import WORLD, bert, read_page, some_pairs, without_a_vector_for_the_unknown


def frame(pairs):
    left, right = pairs.texts()
    return pd.DataFrame({"left": left, "right": right, "label": [int(label) for label in pairs.labels]})


@pytest.fixture(scope="module")
def pairs():
    world = Catalogue(WORLD)
    tests = {name: frame(world.test_pairs(name)) for name in ("iid", "unseen")}
    return frame(world.labelled_pairs()).head(200), tests


@pytest.fixture(scope="module")
def encoder():
    recipe = PretrainConfig(steps=60, batch_size=64, learning_rate=2e-2)
    return planted_encoder(EncoderConfig(name="tiny-static", kind="static", world=WORLD, pretrain=recipe))


def compared(encoder, pairs, **changes):
    train, tests = pairs
    asked = {"methods": "base,plain,wise-ft", "seeds": 2, "epochs": 1, "batch_size": 32, "learning_rate": 2e-2, "progress": False}
    return compare(encoder, train, tests, **asked | changes)


# ---- names

def test_a_strength_stands_behind_the_name():
    assert read_method("outreg").strength == .1
    assert read_method("outreg:2").strength == 2
    assert read_method("wise-ft:0.25").strength == .25
    assert read_method("base").strength is None


@pytest.mark.parametrize("name, message", [
    ("outregg", "did you mean 'outreg'"),
    ("plain:1", "plain has no strength"),
    ("outreg:much", "'outreg:much'"),
    ("wise-ft:2", "share"),
    ("outreg:-1", r"weight \(lambda\)"),
    ("outreg:nan", r"weight \(lambda\)"),
    ("worddropout:1", "share"),
])
def test_names_that_are_none(name, message):
    with pytest.raises(ValueError, match=message):
        read_method(name)


def test_plain_is_always_there_and_nothing_twice():
    assert [method.name for method in read_methods("base, outreg")] == ["plain", "base", "outreg"]
    with pytest.raises(ValueError, match="stands twice"):
        read_methods(["plain", "plain"])


def test_the_help_says_how_strong_a_method_is_by_default():
    others = {name: strength for name, strength in STRENGTH.items() if strength != .1}
    assert others == {"wise-ft": .5, "l2sp": 1e-6}
    assert "without one 0.1; of wise-ft 0.5, of l2sp 1e-6" in METHODS_HELP


# ---- settings

def test_kinds_of_encoder_have_settings_of_their_own():
    assert settings_for("static").learning_rate > 100 * settings_for("transformer").learning_rate
    assert settings_for("static", epochs=2).epochs == 2
    with pytest.raises(ValueError, match="learning_rate must be above 0, got 0"):
        settings_for("static", learning_rate=0)
    with pytest.raises(ValueError, match="a cross encoder cannot be compared"):
        settings_for("cross")


# ---- trials

def test_every_method_is_tried_with_every_seed(encoder, pairs):
    found = compared(encoder, pairs, methods="base,plain,wise-ft,wise-ft:0,outreg:1")
    counts = found.scores.query("metric == 'auc05' and test == 'iid'").groupby("method").size()
    assert counts.to_dict() == {"base": 1, "plain": 2, "wise-ft": 2, "wise-ft:0": 2, "outreg:1": 2}
    means = found.means()
    assert list(means.index) == ["base", "plain", "wise-ft", "wise-ft:0", "outreg:1"]
    assert list(means.columns) == ["iid", "unseen"]
    base, none_of_tuned = (found.scores.query("method == @name").value.to_numpy() for name in ("base", "wise-ft:0"))
    assert np.allclose(np.tile(base, 2), none_of_tuned)
    differences = found.differences()
    assert len(differences) == 4 * 2 and set(differences.word) <= set(WORDS)
    assert (differences.low <= differences.difference).all() and (differences.difference <= differences.high).all()


def test_the_encoder_is_left_as_it_was_and_a_repeat_gives_the_same(encoder, pairs):
    before = load_model(encoder).fingerprint
    first = compared(encoder, pairs, methods="plain,itvreg:1")
    assert load_model(encoder).fingerprint == before
    again = compared(encoder, pairs, methods="plain,itvreg:1")
    pd.testing.assert_frame_equal(first.scores, again.scores)
    assert first.scores.query("method == 'plain'").value.nunique() > 4, "seeds and tests differ"


def test_trials_that_are_there_are_not_run_again(encoder, pairs, tmp_path, monkeypatch):
    first = compared(encoder, pairs, folder=tmp_path)
    lines = (tmp_path / "trials.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 1 + 2 + 2
    monkeypatch.setattr(comparing, "fine_tune", lambda *_: pytest.fail("trained again"))
    again = compared(encoder, pairs, folder=tmp_path)
    pd.testing.assert_frame_equal(first.scores, again.scores)
    monkeypatch.undo()
    compared(encoder, pairs, folder=tmp_path, epochs=2)
    assert len((tmp_path / "trials.jsonl").read_text("utf-8").splitlines()) == 10, "other settings are other trials"


@pytest.mark.parametrize("changes, message", [
    ({"seeds": 1}, "seeds must be 2 or more, got 1"),
    ({"methods": "plain,outre"}, "did you mean 'outreg'"),
    ({"batch_size": 0}, "batch_size must be above 0"),
])
def test_what_cannot_work_is_refused_before_training(encoder, pairs, changes, message, monkeypatch):
    monkeypatch.setattr(comparing, "fine_tune", lambda *_: pytest.fail("trained"))
    with pytest.raises(ValueError, match=message):
        compared(encoder, pairs, **changes)


@pytest.fixture
def nothing_trained(monkeypatch):
    "Whoever trains fails the test."
    monkeypatch.setattr(comparing, "fine_tune", lambda *args: pytest.fail("a training was about to begin"))


def test_a_test_that_is_too_small_is_named_before_anything_is_trained(encoder, pairs, nothing_trained):
    train, _ = pairs
    with pytest.raises(DataError, match="tiny: 4 pairs are too few to draw an interval from"):
        compare(encoder, train, {"tiny": train.head(4).assign(label=[0, 1, 0, 1])}, methods="base,plain", progress=False)
    one_match = train.head(40).assign(label=[1] + 39 * [0])
    with pytest.raises(DataError, match="few is too small for an interval: .* of 200 resamples have no match, or nothing else"):
        compare(encoder, train, {"few": one_match}, methods="base,plain", progress=False)


def test_what_cannot_be_compared_is_refused_before_anything_is_trained(encoder, pairs, nothing_trained, tmp_path):
    with pytest.raises(ConfigError, match="plain fine-tuning alone"):
        compared(encoder, pairs, methods="plain")
    calm = SentenceTransformer(str(bert(tmp_path)), device="cpu")
    for module in calm.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.
    with pytest.raises(ConfigError, match="methods: simcse: SimCSE needs dropout"):
        compared(calm, pairs, methods="plain,simcse")


def test_a_training_that_diverges_is_named(encoder, pairs):
    with pytest.raises(EncoderError, match="plain, seed 0, on iid: .* scores are not finite"):
        compared(encoder, pairs, methods="base,plain", learning_rate=1e38)


def test_no_tests_are_refused(encoder, pairs):
    with pytest.raises(ValueError, match="no test"):
        compare(encoder, pairs[0], {})


# ---- prompts

def test_an_encoder_with_a_prompt_of_its_own_is_trained_behind_it(tmp_path, monkeypatch):
    "As its texts are read on the tests."
    model = SentenceTransformer(
        str(bert(tmp_path)), device="cpu", prompts={"query": "why how what "}, default_prompt_name="query")
    read = []
    forward = type(model[0]).forward

    def watched(module, features, **options):
        if module.training:
            read.extend(model.tokenizer.batch_decode(features["input_ids"]))
        return forward(module, features, **options)

    monkeypatch.setattr(type(model[0]), "forward", watched)
    settings = settings_for("transformer", epochs=1, batch_size=8)
    for method in ("plain", "outreg"):
        comparing.fine_tune(load_model(model), read_pairs_file(some_pairs(16)), read_method(method), settings, 0)
    assert read and all(text.startswith("[CLS] why how what ") for text in read)


def test_the_snippet_trains_behind_the_prompt_of_the_encoder(tmp_path):
    model = SentenceTransformer(
        str(bert(tmp_path)), device="cpu", prompts={"query": "why 'how' {what} "}, default_prompt_name="query")
    with_prompt, without = tmp_path / "prompted", tmp_path / "bare"
    model.save(str(with_prompt), create_model_card=False)
    model.default_prompt_name = None
    model.save(str(without), create_model_card=False)
    tests = {"new": some_pairs(seed=1)}
    asked = {"methods": "plain,base", "seeds": 2, "epochs": .1, "batch_size": 30, "progress": False}
    found = compare(str(with_prompt), some_pairs(), tests, **asked)
    assert """prompts="why 'how' {what} ",""" in found.snippet() and "texts behind <code>why" in found.html()
    compile(found.snippet(), "program", "exec")
    bare = compare(str(without), some_pairs(), tests, **asked)
    assert "prompt" not in bare.snippet() and "texts behind" not in bare.html()


# ---- words

def of_values(values, spread=.001):
    "A comparison of two methods with given values of three seeds."
    rng = np.random.default_rng(0)
    noise = rng.normal(0, .002, 200)
    trials = []
    for name, level in values.items():
        for seed in range(3):
            value = level + spread * ((seed + len(name)) % 3) # seeds differ, and not in the same way for two methods
            metrics = {"new": {"auc05": value}}
            resampled = {"new": {"auc05": (value + noise).tolist()}}
            trials.append({"method": name, "seed": seed, "metrics": metrics, "resampled": resampled})
    return Comparison(trials, [read_method(name) for name in values], settings_for("static"))


@pytest.mark.parametrize("level, word", [(.5, "holds"), (.3, "reversed"), (.4, "no difference"), (.41, "undecided")])
def test_words_say_what_the_numbers_say(level, word):
    found = of_values({"plain": .4, "outreg": level}, spread=.01 if word == "undecided" else .001).differences()
    (row,) = found.to_dict("records")
    assert row["difference"] == pytest.approx(100 * (level - .4))
    assert row["word"] == word


def test_unknown_names_are_refused_with_the_nearest():
    found = of_values({"plain": .4, "outreg": .5})
    with pytest.raises(ValueError, match="did you mean 'auc05'"):
        found.differences(metric="auc5")
    with pytest.raises(ValueError, match="did you mean 'outreg'"):
        found.differences(against="outregs")
    with pytest.raises(ValueError, match="did you mean 'auc05'"):
        found.means("auc5")


# ---- page

@pytest.fixture(scope="module")
def files(pairs, encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    train, tests = pairs
    for name, rows in {"train": train, **tests}.items():
        rows.to_csv(folder / f"{name}.csv", index=False)
    encoder.save(str(folder / "base"), create_model_card=False)
    return folder


WRITTEN = {"report.html", "report.json", "scores.csv", "differences.csv", "trials.jsonl"}


def written_in(folder) -> set[str]: # names; of locks none
    return {path.name for path in folder.iterdir() if path.suffix != ".lock"}


def shell(*words):
    return CliRunner().invoke(app, ["compare", *map(str, words)])


QUICK = ("--seeds", 2, "--epochs", .1, "--batch-size", 100, "--methods", "base,plain")


@pytest.fixture(scope="module")
def reported(files):
    with contextlib.chdir(files):
        done = shell(
            "--base", "base", "--train", "train.csv", "--test", "like=iid.csv", "--test", "<i>new</i>=unseen.csv", "--methods",
            "base,plain,wise-ft,outreg", "--seeds", 2, "--epochs", 1, "--learning-rate", 2e-2, "--out", "out")
        found = compare(
            "base", "train.csv", {"like": "iid.csv", "<i>new</i>": "unseen.csv"}, methods="base,plain,wise-ft,outreg", seeds=2,
            epochs=1, learning_rate=2e-2, folder="out", progress=False)
    assert done.exit_code == 0 and done.stdout.startswith(repr(found)), done.output
    return found, files / "out", done.stdout.splitlines()


def test_page_twin_and_tables_are_written(reported):
    found, out, said = reported
    assert written_in(out) == WRITTEN
    page = (out / "report.html").read_text("utf-8")
    read_page(page)
    assert [int(number) for number in re.findall(r"<h2>(\d)\.", page)] == [1, 2, 3, 4]
    assert "<i>" not in page and "&lt;i&gt;new" in page and page.count("<svg") == 2
    for before in re.findall(r"(.{30})<table>", page, flags=re.S):
        assert '<div class="scroll">' in before
    twin = json.loads((out / "report.json").read_text("utf-8"))
    assert set(twin) == {"warnings", "sentences", "levels", "differences", "choices", "next", "facts", "made by"}
    for row in found.differences().to_dict("records"):
        assert row["word"] in WORDS and f"{row['difference']:+.1f}".replace("-", "−") in page
        assert row["method"] in twin["sentences"][row["test"]]
    for row in found.levels().to_dict("records"):
        assert row["low"] <= row["value"] <= row["high"] and f"{100 * row['value']:.1f}" in page


def test_five_epochs_are_five_whole_ones(pairs):
    "The command line reads 5 as 5.0, the defaults say 5."
    train = read_pairs_file(pairs[0])
    ids = {comparing.trial_id("b", train, {}, read_method("plain"), settings_for("static", epochs=n), 0) for n in (5, 5., 6)}
    assert len(ids) == 2


def test_the_command_on_the_page_gives_the_same_trials(reported, files):
    command = shlex.split(reported[0].facts["command"])
    before = (files / "out/trials.jsonl").read_bytes()
    with contextlib.chdir(files):
        refused = CliRunner().invoke(app, command[1:])
        done = CliRunner().invoke(app, [*command[1:], "--overwrite"])
    assert refused.exit_code == 2
    assert "out/report.html: the file exists; remove it, give another name, or add --overwrite" in refused.output
    assert done.exit_code == 0 and command[0] == "debias-nb"
    assert (files / "out/trials.jsonl").read_bytes() == before


def test_the_command_names_loss_and_validation_pairs(files, held_out, tmp_path):
    held_out["kept"].to_csv(tmp_path / "kept.csv", index=False)
    tests = {"new": str(files / "unseen.csv")}
    found = compare(
        str(files / "base"), str(files / "train.csv"), tests, methods="base,wise-ft", seeds=2, epochs=.1, batch_size=100,
        progress=False, loss="CoSENTLoss", validation={"kept": str(tmp_path / "kept.csv")})
    command = found.facts["command"]
    assert "--loss CoSENTLoss" in command and f"--validation kept={tmp_path / 'kept.csv'}" in command
    assert command.replace("'", "&#39;") in found.html()


def won_by(best, found):
    "The same comparison, with a method that is the best."
    trials = [trial | {"metrics": {test: {"auc05": float(trial["method"] == best)} for test in trial["metrics"]}}
              for trial in found.trials]
    return Comparison(trials, found.methods, found.settings, found.facts)


def test_what_is_in_memory_has_no_name_in_program_and_command(encoder, pairs, files):
    train, tests = pairs
    asked = {"methods": "base,wise-ft", "seeds": 2, "epochs": .1, "batch_size": 100, "progress": False}
    found = compare(encoder, train, tests, **asked)
    program = won_by("wise-ft", found).snippet()
    assert "model = ... # the encoder before fine-tuning\n" in program
    assert "frame = ... # the pairs to train on, a data frame\npairs = read_pairs_file(frame, columns=" in program
    assert "base = ... #" in program and "tuned = load_model('mine-wise-ft/model').model" in program
    assert "in memory" not in program and ".csv" not in program
    assert found.facts["command"] is None and "debias-nb compare" not in found.html()
    compile(program, "program", "exec")
    one_named = compare(encoder, str(files / "train.csv"), {"new": str(files / "unseen.csv")}, **asked)
    assert one_named.facts["command"] is None
    assert f"pairs = read_pairs_file({str(files / 'train.csv')!r}, " in one_named.snippet()


def test_an_encoder_in_memory_stays_in_its_mode(encoder, pairs):
    model = copied(encoder).train()
    compared(model, pairs, methods="base,plain,wise-ft,outreg")
    assert model.training and all(part.training for part in model.modules())


@pytest.mark.parametrize("best", ["wise-ft", "outreg", "plain"])
def test_the_snippet_runs(reported, files, best):
    found, _, _ = reported
    program = won_by(best, found).snippet()
    assert program.startswith(f"# {best} had the highest mean")
    with contextlib.chdir(files), contextlib.redirect_stdout(io.StringIO()):
        exec(program, {})
    assert (files / f"base-{best}/model/modules.json").is_file()
    assert (files / "base-wise-ft-0.5/modules.json").is_file() or best != "wise-ft"


def test_a_disk_that_fills_leaves_what_was_there(reported, files):
    "A limit on the size of files stands in for the full disk."
    before = {path.name: path.read_bytes() for path in (files / "out").iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(ConfigError, match="report.html: not written: File too large"):
            write_whole(files / "out/report.html", "x" * 5000)
        with pytest.raises(ConfigError, match="trials.jsonl: not written"):
            comparing._keep(files / "out/trials.jsonl", {"id": "y" * 5000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {path.name: path.read_bytes() for path in (files / "out").iterdir()} == before


def test_a_file_in_the_place_of_the_folder_is_refused(files):
    with contextlib.chdir(files):
        done = shell("--base", "base", "--train", "train.csv", "--test", "like=iid.csv", "--out", "train.csv")
    assert done.exit_code == 2 and "--out" in done.stderr


# ---- strengths that are chosen

@pytest.fixture(scope="module")
def held_out():
    return {"kept": frame(Catalogue(WORLD).test_pairs("uncoupled"))}


def test_a_strength_that_is_not_given_is_the_best_on_the_validation_pairs(encoder, pairs, held_out, tmp_path, monkeypatch):
    asked = {"methods": "base,plain,wise-ft,outreg,outreg:1", "validation": held_out, "folder": tmp_path}
    found = compared(encoder, pairs, **asked)
    assert found.tried.groupby("method", sort=False).strength.apply(list).to_dict() == {
        "wise-ft": list(GRIDS["wise-ft"]), "outreg": list(GRIDS["outreg"])}
    best = found.tried.sort_values("auc05", ascending=False, kind="stable").drop_duplicates("method")
    strengths = {method.name: method.strength for method in found.methods}
    assert strengths == dict(zip(best.method, best.strength)) | {"base": None, "plain": None, "outreg:1": 1.}
    page = found.html()
    assert "pairs that are no test" in page and "0.01: " in page
    monkeypatch.setattr(comparing, "fine_tune", None) # nothing is left to train
    again = compared(encoder, pairs, **asked)
    assert again.tried.equals(found.tried) and again.scores.equals(found.scores)


def test_the_choice_follows_the_validation_pairs(encoder, pairs, held_out):
    "With all labels turned round, what is worst is best."
    turned = {"kept": held_out["kept"].assign(label=1 - held_out["kept"].label)}
    found = [compared(encoder, pairs, methods="plain,wise-ft", validation=given) for given in (held_out, turned)]
    one, other = (dict(zip(each.tried.strength, each.tried.auc05)) for each in found)
    assert one != other
    for each in found:
        best = each.tried.loc[each.tried.auc05.idxmax()]
        assert each.methods[1].strength == best.strength


def test_the_edge_of_what_was_tried_is_told():
    trials = of_values({"plain": .4, "outreg": .5}).trials
    tried = pd.DataFrame({"method": "outreg", "strength": GRIDS["outreg"], "auc05": (.1, .3, .2, .2)})
    for strength, at_edge in ((.01, True), (.1, False), (10., True)):
        methods = [read_method("plain"), replace(read_method("outreg"), strength=strength)]
        choice, = Comparison(trials, methods, settings_for("static"), {}, tried).choices()
        assert choice["strength"] == strength and choice["at_edge"] == at_edge


def test_without_validation_pairs_the_defaults_hold(encoder, pairs, held_out):
    found = compared(encoder, pairs, methods="plain,outreg")
    assert found.methods[1].strength == STRENGTH["outreg"] and found.choices() == []
    given = compared(encoder, pairs, methods="plain,outreg:1", validation=held_out)
    assert given.methods[1].strength == 1 and given.choices() == [], "what is given is not chosen"


def test_strengths_are_not_chosen_on_a_test(encoder, pairs, held_out, nothing_trained):
    train, tests = pairs
    with pytest.raises(DataError, match="a test is called 'validation kept'"):
        compared(encoder, (train, {"validation kept": tests["iid"]}), validation={"kept": tests["unseen"]})
    other = tests["unseen"].sample(frac=1, random_state=0).assign(label=lambda rows: 1 - rows.label)
    count = len(other)
    with pytest.raises(DataError, match=f"validation kept: {count} of {count} pairs stand in the test unseen too"):
        compared(encoder, pairs, validation={"kept": other})
    swapped = tests["iid"].head(2).rename(columns={"left": "right", "right": "left"})
    some = pd.concat([held_out["kept"], swapped])
    with pytest.raises(DataError, match=f"validation kept: 2 of {len(some)} pairs stand in the test iid too"):
        compared(encoder, pairs, validation={"kept": some})


def test_strengths_are_not_chosen_on_what_was_trained_on(encoder, pairs, nothing_trained):
    train, _ = pairs
    count = len(train)
    with pytest.raises(DataError, match=f"validation kept: {count} of {count} pairs stand in the training file too"):
        compared(encoder, pairs, validation={"kept": train.sample(frac=1, random_state=0)})


def test_a_test_with_pairs_of_training_says_so(encoder, pairs, files, tmp_path):
    train, tests = pairs
    half = pd.concat([train.head(100), tests["unseen"]])
    found = compared(encoder, (train, {"leaked": half, "unseen": tests["unseen"]}), methods="base,plain")
    said = f"leaked: 100 of {len(half):,} pairs stand in the training file too"
    (warning,) = found.warnings()
    assert warning.startswith(said)
    assert said in found.html() and warning in json.loads(found.json())["warnings"]
    with contextlib.chdir(files):
        done = shell("--base", "base", "--train", "train.csv", "--test", "same=train.csv", *QUICK, "--out", tmp_path / "out")
    shared, _, small, *_ = done.stdout.splitlines()
    assert shared.startswith("same: 200 of 200 pairs stand in the training file too"), "before any figure"
    assert small.startswith("same: 200 pairs are few. With fewer than 300 the 95 % interval is too short")


def test_a_model_that_gives_all_pairs_one_score_is_told(reported):
    found, _, _ = reported
    assert found.warnings() == []
    trials = [trial | {"one score": ["like"] * (trial["method"] == "plain")} for trial in found.trials]
    dead = Comparison(trials, found.methods, found.settings, found.facts)
    assert dead.warnings() == ["like: all pairs have the same score in a trial of plain."]
    assert dead.warnings()[0] in dead.html()
    test = comparing.Test("new", read_pairs_file(some_pairs()), {})
    with torch.no_grad():
        zero = without_a_vector_for_the_unknown()
        zero[0].embedding.weight.zero_()
    assert comparing._tested(load_model(zero), {"new": test}, "zero")["one score"] == ["new"]


def test_files_are_written_also_where_nobody_reads_the_answer(files, tmp_path, monkeypatch):
    def closed(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr("debias_nb.repro.cli.echo", closed)
    with contextlib.chdir(files):
        shell("--base", "base", "--train", "train.csv", "--test", "new=unseen.csv", *QUICK, "--out", tmp_path)
    assert written_in(tmp_path) == WRITTEN


def test_an_interruption_says_how_many_trials_are_kept(files, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(comparing, "fine_tune", interrupted)
    with contextlib.chdir(files):
        done = shell("--base", "base", "--train", "train.csv", "--test", "new=unseen.csv", *QUICK, "--out", tmp_path)
    assert done.exit_code == 130
    said = f"debias-nb: interrupted; trials that are kept in {tmp_path}: 1. The same command goes on from there"
    assert done.stderr.splitlines()[-1].endswith(said)


def test_intervals_end_where_nothing_can_be():
    found = of_values({"plain": .02, "outreg": .98}, spread=.3)
    (row,) = found.differences().to_dict("records")
    assert -100 <= row["low"] <= row["difference"] <= row["high"] == 100
