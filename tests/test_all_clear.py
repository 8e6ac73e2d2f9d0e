"An all-clear without labels: what changed, what ranks allow, and that its sentences are those of the records."
import itertools
import json
import lzma

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import labels
from debias_nb import DiagnosisEvaluator, auc_at, diagnose
from debias_nb.checks import ConfigError, EncoderError
from debias_nb.data.registry import DataError
from debias_nb.explain.all_clear import all_clear, neighbor_churn, largest_loss, neighbors, read_unlabeled, what_trials_say
from debias_nb.explain.demo import offers, small_encoder
from debias_nb.explain.models import load_model
from debias_nb.files import load_yaml, package_file, project_root, sha256_file
from debias_nb.losses.averaging import wise_ft
from debias_nb.repro.cli import app

PAIRS = offers(400, 3, .2, .4)
TEXTS = PAIRS.left.tolist()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    base, other = small_encoder(0), small_encoder(1)
    for name, model in {"base": base, "near": wise_ft(base, other, .001), "far": other}.items():
        model.save(str(folder / name))
    return folder


def scorers(models, tuned):
    return {"base": load_model(models / "base"), "tuned": load_model(models / tuned)}


# What is refused.

SCORED = PAIRS[["left", "right"]].assign(base=np.linspace(0, 1, len(PAIRS)), tuned=np.linspace(0, 1, len(PAIRS)) ** 2)


@pytest.mark.parametrize("texts, message", [
    (SCORED[:3].assign(tuned=[.3, .2, .1]), "pairs or more are needed, got 3"),
    (SCORED.assign(base=.5), "all scores are the same in the base model"), (SCORED.assign(tuned=SCORED.base), "base and tuned have the same scores"),
    (pd.DataFrame([["a", "b"]] * 20, columns=["text", "text"]), "one column 'text' is expected, found 2"), (pd.DataFrame(), "texts are expected"),
])
def test_texts_that_say_nothing_are_refused(texts, message):
    with pytest.raises(DataError, match=message):
        diagnose(texts=texts, progress=False)


@pytest.mark.parametrize("option", [{"metric": "ap"}, {"where": "a=b"}, {"sample": 50}, {"threshold": .5}, {"match": "yes"}, {"columns": ("a", "b")}, {"train": PAIRS}])
def test_an_option_that_does_nothing_with_texts_alone_is_refused(option):
    [name] = option
    with pytest.raises(ConfigError, match=f"^{name}: with texts and no test this does nothing"):
        diagnose(texts=SCORED, progress=False, **option)


def test_texts_that_a_model_crowds_are_told(models):
    "A model whose vectors share a large part hardly tells texts apart."
    crowded = small_encoder(1)
    with torch.no_grad():
        crowded[0].embedding.weight += 20 * crowded[0].embedding.weight.std()
    found = diagnose(models / "base", crowded, texts=TEXTS, progress=False)
    [line] = [text for text in found.sentences if text.startswith("Two random texts")]
    assert "hardly tells texts apart" in line
    [line] = [text for text in diagnose(models / "base", models / "near", texts=TEXTS, progress=False).sentences if text.startswith("Two random texts")]
    assert "hardly" not in line


# What is measured.

def test_the_bound_of_ranks_is_reached_and_never_passed():
    rng = np.random.default_rng(0)
    for _ in range(30):
        base, tuned = rng.integers(0, 6, (2, 7))
        losses = {matches: max(
            auc_at(np.isin(range(7), rows), base, 1) - auc_at(np.isin(range(7), rows), tuned, 1)
            for rows in itertools.combinations(range(7), matches)) for matches in range(1, 7)}
        for matches, loss in losses.items():
            assert largest_loss(base, tuned, matches / 7, matches / 7) == pytest.approx(max(0, loss))
        assert largest_loss(base, tuned, 2 / 7, 4 / 7) == pytest.approx(max(0, losses[2], losses[3], losses[4]))


def test_neighbors_are_those_of_all_cosines(models):
    texts = list(dict.fromkeys(TEXTS))
    near = neighbors(load_model(models / "base"), texts)
    vectors = small_encoder(0).encode(texts, normalize_embeddings=True)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    tenth = np.sort(cosines, 1)[:, -10]
    assert (np.take_along_axis(cosines, near, 1) >= tenth[:, None] - 1e-5).all()
    assert all(len({*row}) == 10 for row in near.tolist())


def test_the_records_have_the_neighbors_of_the_library(models):
    import torch
    texts = list(dict.fromkeys(TEXTS))
    vectors = {name: load_model(models / name).model.encode(texts, normalize_embeddings=True) for name in ("base", "near", "far")}
    for tuned in ("near", "far"):
        own = neighbor_churn(*(labels.nearest(torch.tensor(vectors[name])) for name in ("base", tuned)))
        library = neighbor_churn(*(neighbors(load_model(models / name), texts) for name in ("base", tuned)))
        assert own == pytest.approx(library, abs=.01), "but for equally near ones"


def test_equal_vectors_are_no_all_clear(models):
    flat = small_encoder(0)
    flat[0].embedding.weight.data[:] = 1.
    with pytest.raises(EncoderError, match="all texts have the same vector"):
        neighbors(load_model(flat), list(dict.fromkeys(TEXTS)))


# What is said.

def table_of(tmp_path, monkeypatch, rows):
    path = tmp_path / "all_clear.csv"
    pd.DataFrame(rows, columns=["kind", "texts", "low", "is_clear", "sentence"]).to_csv(path, index=False)
    monkeypatch.setitem(what_trials_say.__globals__, "package_file", lambda name: path)


def test_the_sentence_is_of_the_band_and_the_next_smaller_sample(tmp_path, monkeypatch):
    rows = [("static", 200, 0, 1, "small"), ("static", 200, .15, 0, "more"), ("static", 500, 0, 1, "large"), ("transformer", 200, .3, 0, "other")]
    table_of(tmp_path, monkeypatch, rows)
    assert what_trials_say("static", 499, .1) == (True, "small") and what_trials_say("static", 200, .2) == (False, "more")
    assert what_trials_say("static", 500, .05) == (True, "large") and what_trials_say("transformer", 9999, .9) == (False, "other")
    none = False, "We have no trials like this."
    assert what_trials_say("static", 199, 0) == none and what_trials_say("transformer", 300, .1) == none


def test_all_clear_or_label_and_never_an_alarm(models, tmp_path, monkeypatch):
    table_of(tmp_path, monkeypatch, [("static", 11, 0, 1, "None lost."), ("static", 11, .15, 0, "Some lost.")])
    near, far = (all_clear(scorers(models, tuned), *read_unlabeled(TEXTS)) for tuned in ("near", "far"))
    assert near.is_clear and near.sentences[0].startswith("All clear: ") and near.sentences[0].endswith("None lost.")
    assert not far.is_clear and far.sentences[0].startswith("Label: ") and "This is no alarm" in far.sentences[1]


def test_diagnose_takes_texts_beside_and_instead_of_tests(models):
    both = diagnose(models / "base", models / "far", tests={"new": PAIRS}, texts=TEXTS, progress=False)
    alone = diagnose(models / "base", models / "far", texts=TEXTS, progress=False)
    assert both.all_clear.churn == alone.churn and alone.sentences[0] in repr(both) and alone.sentences[0] in both.html()
    assert json.loads(both.json())["all_clear"]["churn"] == pytest.approx(alone.churn, abs=1e-6)
    assert alone.facts["texts"]["texts"] == len(TEXTS) and list(alone.files()) == ["report.json"]
    assert diagnose(models / "base", models / "far", tests={"new": PAIRS}, progress=False).all_clear is None


def test_pairs_have_a_bound_and_scores_need_no_models(models):
    pairs = PAIRS[["left", "right"]]
    answer = diagnose(models / "base", models / "near", texts=pairs, progress=False)
    assert 0 < answer.bound < .01 and "exclude a loss of more than" in answer.sentences[1]
    scores = np.random.default_rng(0).normal(size=len(pairs))
    same = diagnose(texts=pairs.assign(base=scores, tuned=np.exp(scores)))
    assert same.bound == 0 and same.is_clear and np.isnan(same.churn)
    other = diagnose(texts=pairs.assign(base=scores, tuned=-scores))
    assert other.bound > .5 and other.sentences[0].startswith("Label: ")


def test_the_evaluator_counts_changed_neighbors(models):
    evaluator = DiagnosisEvaluator({"new": PAIRS}, base=models / "base", texts=TEXTS)
    assert evaluator(small_encoder(0))["changed_neighbors"] == 0 < evaluator(small_encoder(1))["changed_neighbors"]


@pytest.mark.parametrize("content, message", [
    ("one text", "must be two or more, got 1"),
    ("\n \n\n", "must be two or more, got 0"),
    ("the same\n" * 50, "12 different ones or more are needed, got 1"),
    ("\n\n".join(TEXTS[:9]), "12 different ones or more are needed, got 9"),
])
def test_too_few_texts_are_refused(models, tmp_path, content, message):
    file = tmp_path / "new.txt"
    file.write_text(content)
    with pytest.raises(DataError, match=message):
        diagnose(models / "base", models / "near", texts=file, progress=False)


def test_tables_that_are_no_texts_are_refused(models, tmp_path):
    file = tmp_path / "new.csv"
    for table, message in {"name\na\nb\n": "new.csv: no column 'text'", "left,right\na,b\n": "new.csv: no column 'text'"}.items():
        file.write_text(table)
        with pytest.raises(DataError, match=message):
            diagnose(models / "base", models / "near", texts=file, progress=False)
    with pytest.raises(ConfigError, match="two models are expected, or pairs with two columns of scores"):
        diagnose(texts=PAIRS[["left", "right"]])
    with pytest.raises(EncoderError, match="are the same model"):
        diagnose(models / "base", models / "base", texts=TEXTS)


def test_the_command_answers_and_can_fail_a_build(models, tmp_path):
    file = tmp_path / "new.txt"
    file.write_text("\n\n".join(TEXTS))
    command = ["diagnose", "--base", str(models / "base"), "--tuned", str(models / "far"), "--texts", str(file)]
    for options, status in {(): 0, ("--fail-on", "worse"): 0, ("--fail-on", "unsure", "--out", str(tmp_path / "out")): 1}.items():
        result = CliRunner().invoke(app, [*command, *options])
        assert result.exit_code == status and result.output.startswith("Label: ")
    assert json.loads((tmp_path / "out/report.json").read_text())["facts"]["command"].endswith(f"--texts {file}")


def test_texts_are_read_from_each_form(tmp_path):
    file = tmp_path / "new.csv"
    PAIRS.to_csv(file, index=False)
    held, pairs = read_unlabeled(file)
    assert len(held.texts) == 2 * len(pairs) == 800 and held.path == str(file), "labels are not used"
    assert read_unlabeled(f"{file}:left")[0].texts == TEXTS and read_unlabeled(f"{file}:left")[1] is None
    PAIRS.rename(columns={"left": "text"}).to_csv(file, index=False)
    for source in (file, f"{file}:text", TEXTS):
        assert read_unlabeled(source)[0].texts == TEXTS


# The records.

def shifts(changed, change, size=200, **columns):
    about = {"encoder": "a", "kind": "static", "training": "t", "loss": "mse", "method": "Finetuned", "share": 1.}
    rows = about | {f"changed_{size}": changed, "auc05_change": change, "ndcg10_change": 0.}
    return pd.DataFrame(rows | columns)


def test_the_table_of_the_library_counts_losses_and_asks_for_enough_trials():
    small, large = np.full(60, .1), np.full(60, .2)
    table = labels.trial_table(pd.concat([shifts(small, np.zeros(60)), shifts(large, np.linspace(-9, 9, 60))]))
    assert table[["low", "is_clear"]].values.tolist() == [[0, 1], [.15, 0]]
    assert table.sentence[0].startswith("Of 60 trials with as much change (static encoders, 1 training run; 60 plainly fine-tuned) 0 lost 2 points of AUC(0.05)")
    assert not labels.trial_table(shifts(small, [-2, -2] + [0] * 58)).is_clear.any(), "more than one in fifty"
    assert labels.trial_table(shifts(small, [-2] + [0] * 59)).is_clear.all(), "one of 60"
    assert not labels.trial_table(shifts(small[:49], 0.)).is_clear.any(), "too few"
    assert not labels.trial_table(shifts(small, 0., ndcg10_change=-3.)).is_clear.any(), "search counts as well"


def test_averaged_and_regularized_encoders_alone_allow_no_all_clear():
    small, enough = np.full(60, .1), labels.SETTINGS["plain"]
    for column, other in {"method": "OutReg", "share": .5}.items():
        plain = np.arange(60) < enough
        rows = shifts(small, 0.).assign(**{column: lambda own, column=column, plain=plain, other=other: own[column].where(plain, other)})
        assert labels.trial_table(rows).is_clear.all()
        assert not labels.trial_table(rows.assign(**{column: rows[column].where(plain & (rows.index > 0), other)})).is_clear.any(), "too few"
    lost = shifts(small, [-2.] + [0.] * 59).assign(share=np.where(np.arange(60) < enough, 1., .5))
    assert not labels.trial_table(lost).is_clear.any(), "one of 60, but of 20 that are plainly tuned"


def test_a_small_shift_is_measured_in_all_ways():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=200)
    pairs = labels.LabeledPairs("t", [str(n) for n in range(200)], [f"{n}!" for n in range(200)], (scores > .5).astype(int))
    near = {200: rng.integers(0, 200, (200, 10))}
    base, tuned = labels.State(scores, near, .5), labels.State(-scores, near, .4)
    row = labels.shift_row(pairs, base, tuned)
    assert row["auc_change"] == pytest.approx(-100) and row["bound"] == pytest.approx(100) and row["ndcg10_change"] == pytest.approx(-10)
    assert row["changed_200"] == 0 and row["auc05_base"] == 100


def test_labels_are_bought_in_three_ways():
    rng = np.random.default_rng(0)
    truth = (rng.random(1000) < .3).astype(int)
    base = truth + rng.normal(size=1000)
    pool = labels.thinned(labels.Pool(truth, base, base + rng.normal(size=1000)), .2)
    assert pool.labels.mean() == pytest.approx(.2, abs=.002) and labels.thinned(pool, .0001) is None
    for strata in labels.strata_by_way(pool).values():
        row = labels.labeling(pool, strata, labels.orders_of(strata, [100]))
        assert row["intervals"] == labels.LABELS["intervals"] >= row["covered"] > 0 < row["squared_error"]
    rare = labels.Pool(np.eye(1, 1000, dtype=int)[0], base, base)
    assert labels.labeling(rare, np.zeros(1000, int), [np.arange(1, 101)])["intervals"] == 0, "one match makes no interval"


def test_what_is_collected_says_where_it_is_from(tmp_path, monkeypatch):
    monkeypatch.setattr(labels, "PARTS", tmp_path / "parts")
    rows = shifts(np.full(60, .1), 0.).to_dict("records")
    labels.write_part(tmp_path / "parts/shifts/one.json", rows, {"commit": "c"})
    labels.collect(tmp_path)
    source = json.loads((tmp_path / "labels.json").read_text())["files"]["all_clear.csv.xz"]
    assert source["sha256"] == sha256_file(tmp_path / "all_clear.csv.xz") and source["environments"] == [{"commit": "c"}] and source["rows"] == 60
    assert pd.read_csv(tmp_path / "all_clear.csv").is_clear.tolist() == [1]


def test_the_library_says_what_the_committed_records_say():
    results = project_root() / "results"
    source = json.loads((results / "labels.json").read_text("utf-8"))["files"]
    for name, about in source.items():
        assert (results / name).stat().st_size < 3 << 20
        assert sha256_file(results / name) == about["sha256"]
        assert lzma.open(results / name, "rt").readline().strip().split(",") == about["columns"]
    records = pd.read_csv(results / "all_clear.csv.xz", keep_default_na=True)
    assert labels.trial_table(records).to_csv(index=False, lineterminator="\n") == package_file("explain/all_clear.csv").read_text("utf-8")


def test_the_library_has_the_numbers_of_the_statement():
    from debias_nb.explain import all_clear as library
    settings = load_yaml(project_root() / "configs/labels.yaml")
    assert (library.NEIGHBORS, 100 * library.LOSS) == (settings["neighbors"], settings["loss"])
    assert library.TEXTS in settings["samples"]


# What the page counts.

def test_the_page_decides_as_it_was_stated():
    from cells import defined_in
    page = defined_in("labels")
    fifty, losses = np.full(50, .1), [-2.] + [0.] * 49
    assert page.verdict_on_clear(shifts(fifty, losses), "auc05") == "holds", "one in fifty"
    assert page.verdict_on_clear(shifts(fifty, [-2.] * 2 + [0.] * 48), "auc05") == "refuted"
    assert page.verdict_on_clear(shifts(fifty[:49], 0.), "auc05") == "cannot tell"
    assert page.verdict_on_clear(shifts(fifty[:3], -9.), "auc05") == "cannot tell"
    assert len(page.below(shifts([.15, .1501, np.nan], 0.), 200)) == 1 and page.below(shifts([.1], 0.), 5000).empty
    rows = pd.DataFrame({"way": ["random", "chosen", "disagreement"], "squared_error": [8., 2., 16.], "covered": 9, "intervals": 10, "decided": 1})
    rows = rows.assign(encoder="e", training="t", test="u", kept_back=0, rate=.2, labels=100, length=4.)
    assert page.worth_of("chosen", rows).tolist() == [4] and page.worth_of("disagreement", rows).tolist() == [.5]
    assert [verdict for _, _, verdict in page.verdicts_on_labels(rows)] == ["holds", "holds", "holds"]
    assert page.cover_of(rows, "chosen").tolist() == [.9] and page.decisions_of(rows, "chosen").tolist() == [1 / page.LABELS["intervals"]]
