"Which pairs to label: samples of a pool, what they stand for, and files that people label and break."
import csv
import json
import os
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from typer.testing import CliRunner

from debias_nb import Pool, diagnose, label, load_model, read_pairs_file
from debias_nb.checks import ConfigError
from debias_nb.data.registry import DataError
from debias_nb.diagnosis.files.samples import sidecar_of
from debias_nb.diagnosis.decision import WORTH
from debias_nb.diagnosis.demo import offers, small_encoder
from debias_nb.diagnosis.methods import read_method, settings_for, tune
from debias_nb.diagnosis.models import pair_scores
from debias_nb.diagnosis.test_sets import as_test, average_precision
from debias_nb.files import project_root
from debias_nb.measures.metrics import auc_at
from debias_nb.measures.stats import paired
from debias_nb.measures.strata import FRACTIONS, LOOK, looking_cost, random_resamples, sampling_order, strata_of
from debias_nb.measures.strata import stratified_weights
from debias_nb.commands.cli import app

LABELS = 200
LOOKS = LABELS // LOOK


def pool(pairs, matches, seed=1):
    "Labels, and the scores of two models of which the second is worse."
    rng = default_rng(seed)
    labels = (rng.random(pairs) < matches).astype(int)
    shared = .8 * rng.normal(size=pairs)
    return labels, *(gap * labels + shared + .6 * rng.normal(size=pairs) for gap in (1.6, 1.3))


def test_each_prefix_is_a_stratified_sample():
    _, base, tuned = pool(3000, .1)
    strata = strata_of(base, tuned)
    order = sampling_order(strata, LABELS, 5)
    assert len(set(order)) == LABELS
    for size in range(20, LABELS + 1):
        counts = np.bincount(strata[order[:size]], minlength=5)
        assert (abs(counts - size * np.array(FRACTIONS)) < 3).all()
    assert (order == sampling_order(strata, LABELS, 5)).all() and (order != sampling_order(strata, LABELS, 6)).any()


def test_a_pool_that_is_used_up_is_drawn_whole():
    strata = np.repeat([0, 1, 4], [40, 5, 3]) # two strata are empty, as where scores tie
    assert sorted(sampling_order(strata, 48)) == list(range(48))
    assert sampling_order(strata, 100).size == 48


def test_weights_are_what_pairs_stand_for():
    strata = np.array([0, 0, 4, 4, 4, 2])
    weights = stratified_weights(strata, np.array([100, 0, 7, 0, 30]), 4000)
    assert weights[0].tolist() == [50, 50, 10, 10, 10, 7]
    assert np.allclose(weights[:, :2].sum(1), 100)
    assert np.allclose(weights[:, 2:5].sum(1), 30)
    assert (weights[:, 5] == 7).all()
    values = np.array([0., 1, 2, 4, 9, 5])
    expected = 100**2 * values[:2].var(ddof=1) / 2 + 30**2 * values[2:5].var(ddof=1) / 3 # of a stratified total
    assert (weights[1:] @ values).var() == pytest.approx(expected, rel=.05)
    assert random_resamples(weights[0], 4000).mean(0) == pytest.approx(6 * weights[0] / weights[0].sum(), rel=.1)


def estimate(labels, base, tuned, weights, metric):
    before, after = (metric(labels, scores, weights) for scores in (base, tuned))
    return paired([after[0]], [before[0]], [after[1:]], [before[1:]], units=len(labels))


def by_area(labels, scores, weights):
    return auc_at(labels, scores, weights=weights)


@pytest.mark.parametrize("metric, matches", [(by_area, .1), (by_area, .5), (average_precision, .1)])
def test_intervals_hold_the_pool_also_for_who_looks_after_each_50(metric, matches):
    "Nineteen times in twenty at all looks together, and a sample at random is further off."
    labels, base, tuned = pool(3000, matches)
    strata = strata_of(base, tuned)
    sizes = np.bincount(strata, minlength=5)
    every_pair = np.ones((1, len(labels)))
    change = metric(labels, tuned, every_pair)[0] - metric(labels, base, every_pair)[0]
    draws = 120
    distances = np.zeros((draws, LOOKS)) # in halves of an interval for one look; 0 where too few labels give none
    errors = []
    for seed in range(draws):
        order = sampling_order(strata, LABELS, seed)
        for look in range(LOOKS):
            rows = order[:LOOK * (1 + look)]
            weights = stratified_weights(strata[rows], sizes, 200, seed)
            with suppress(ValueError):
                interval = estimate(labels[rows], base[rows], tuned[rows], weights, metric)
                distances[seed, look] = abs(interval.difference - change) / (interval.high - interval.difference)
        rows = default_rng(seed).permutation(len(labels))[:LABELS]
        at_random = estimate(labels[rows], base[rows], tuned[rows], np.ones((3, LABELS)), metric).difference
        errors.append([interval.difference - change, at_random - change])
    scatter = (.05 * .95 / draws) ** .5
    assert (distances.max(1) <= looking_cost(LOOKS)).mean() > .95 - 2 * scatter
    if matches == .5: # who looks four times at intervals for one look is wrong more often
        assert (distances.max(1) <= 1).mean() < .95 - 2 * scatter
    chosen, at_random = np.square(errors).mean(0)
    assert chosen < at_random


def test_looking_costs_what_pocock_says():
    assert [round(looking_cost(looks), 2) for looks in (1, 2, 4, 10)] == [1, 1.11, 1.2, 1.3]


# ---------------------------------------------------------------- the file that people label

@pytest.fixture(scope="module")
def models(tmp_path_factory):
    "Two encoders, saved, of which the second took the shortcut of `demo`."
    folder = tmp_path_factory.mktemp("models")
    base = load_model(small_encoder())
    settings = settings_for("static", learning_rate=.05, epochs=1, batch_size=50)
    tuned = tune(base, read_pairs_file(offers(600, 1, 1, 0), name="train"), read_method("plain"), settings, 0)
    paths = {"base": folder / "base", "tuned": folder / "tuned"}
    for name, scorer in (("base", base), ("tuned", tuned)):
        scorer.model.save(str(paths[name]), create_model_card=False)
    return paths


POOL = offers(1200, 3, .2, .4).drop_duplicates(["left", "right"])
TRUTH = dict(zip(zip(POOL.left, POOL.right), POOL.label))


@pytest.fixture
def table(models, tmp_path):
    "A table to label, of 100 rows."
    label(**models, pool=POOL, n=100, out=tmp_path / "to_label.csv")
    return tmp_path / "to_label.csv"


def fill(path, rows, change=lambda frame: frame):
    "Label the first rows, then do something else to the table."
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    frame.loc[:rows - 1, "label"] = [str(TRUTH.get(pair, 0)) for pair in zip(frame.left[:rows], frame.right[:rows])]
    change(frame).to_csv(path, index=False)
    return path


def test_a_labeled_part_is_a_test_of_the_pool(models, table):
    diagnosis = diagnose(**models, tests={"new": fill(table, 60)})
    row = diagnosis.verdicts.iloc[0]
    assert (row.cases, row.counted) == (60, "labels")
    whole = diagnose(**models, tests={"new": POOL}).verdicts.iloc[0]
    assert row.low <= whole.change <= row.high
    foot = diagnosis.cards[0]["foot"]
    assert foot.startswith("60 labels out of a pool of 1,200 pairs, about ") and "; worth about " in foot
    assert "look after each 50 labels, for which they are 11% wider" in foot and foot in diagnosis.html()
    assert f"new: {foot}" in repr(diagnosis) and "new: 40 rows without a label were left out." in repr(diagnosis)
    assert {"sample", "left_out"} <= diagnosis.facts["files"]["new"].keys()


def test_a_sample_of_the_whole_pool_has_the_values_of_the_pool(models, tmp_path):
    path = tmp_path / "all.csv"
    assert label(**models, pool=POOL[:300], n=1000, out=path).rows == 300
    chosen, pool = (diagnose(**models, tests={"new": source}) for source in (fill(path, 300), POOL[:300]))
    assert np.allclose(chosen.verdicts[["base", "tuned"]], pool.verdicts[["base", "tuned"]])
    for column in ("wrong before", "wrong after"):
        assert np.allclose(sorted(chosen.flips["new"][column]), sorted(pool.flips["new"][column]))


def test_weights_count_for_how_wrong_a_pair_is(models, table):
    "A match above half of the others by number is above more of them by weight, where those below stand for more."
    file = read_pairs_file(fill(table, 100))
    test = as_test("new", file)
    test.add_scores({name: load_model(path) for name, path in models.items()})
    weights = test.all_weights[0]
    others = file.labels == 0
    match = np.flatnonzero(~others)[0]
    scores = test.scores["tuned"]
    above = weights[others & (scores > scores[match])].sum() + weights[others & (scores == scores[match])].sum() / 2
    assert test.wrong(scores)[match] == pytest.approx(above / weights[others].sum())


def test_nothing_in_the_table_tells_a_score_and_rows_may_be_sorted(models, table):
    assert [*pd.read_csv(table)] == ["left", "right", "label", "sample_id"]
    fill(table, 70)
    before = diagnose(**models, tests={"new": table}).verdicts
    fill(table, 0, lambda frame: frame.sort_values("left"))
    after = diagnose(**models, tests={"new": table}).verdicts
    assert np.allclose(before[["base", "tuned"]], after[["base", "tuned"]])
    frame = pd.read_csv(table)
    with pytest.raises(DataError, match="give the path of their file"):
        diagnose(**models, tests={"new": frame})


def edited(column, value, row=2):
    def change(frame):
        frame.loc[row, column] = value
        return frame
    return change


def doubled(frame):
    return pd.concat([frame, frame[3:4]])


def added(frame):
    return pd.concat([frame, pd.DataFrame([["a lamp", "a desk", "1", "0123456789ab"]], columns=frame.columns)])


@pytest.mark.parametrize("change, message", [
    (edited("left", "another lamp"), r"to_label.csv:4: column 'sample_id': a row as it was drawn is expected, once and "
                                     r"with its two texts"),
    (added, r"to_label.csv:102: column 'sample_id': a row as it was drawn"),
    (doubled, r"to_label.csv:102: column 'sample_id': a row as it was drawn"),
    (edited("label", "yes"), r"to_label.csv:4: column 'label': labels are 0 or 1, found 'yes'.*--match WORD"),
    (lambda frame: frame.assign(label=""), "no label yet; write 1 .match. or 0 into the column label"),
    (lambda frame: frame.assign(label="1"), "all 100 labels are 1; both classes are needed"),
    (lambda frame: frame.drop(columns="label"), "one column 'label' is expected, found 0 among left, right, sample_id"),
])
def test_a_table_that_was_broken_is_refused_with_its_line(models, table, change, message):
    fill(table, 100, change)
    with pytest.raises(DataError, match=message):
        diagnose(**models, tests={"new": table})


def test_what_is_harmless_is_counted(models, table):
    "Rows that are gone or passed over, another spacing, labels in words, and other models."
    fill(table, 90, lambda frame: edited("left", f" {frame.left[2].upper()}")(frame).drop(index=[5, 6]))
    words = pd.read_csv(table, dtype=str, keep_default_na=False).replace({"label": {"0": "no", "1": "yes"}})
    words.to_csv(table, index=False)
    diagnosis = diagnose(models["base"], small_encoder(3), tests={"new": read_pairs_file(table, match="yes")})
    assert diagnosis.facts["files"]["new"]["left_out"] == {"rows without a label": 12,
                                                           "rows above the last label without one": 2}
    assert "it was drawn for other models, for which it is worth more" in repr(diagnosis)


def test_too_few_labels_are_told_to_go_on(models, table):
    with pytest.raises(DataError, match="are too few to draw an interval|label on from the top"):
        diagnose(**models, tests={"new": fill(table, 8)})
    frame = pd.read_csv(table, dtype=str, keep_default_na=False)
    rows = json.loads(sidecar_of(table).read_text("utf-8"))["rows"]
    low = frame.sample_id.map(lambda row: rows[row]["stratum"] == 0)
    fill(table, 100, lambda frame: frame.assign(label=frame.label.where(~low, "")))
    with pytest.raises(DataError, match="do not reach each of its 5 strata twice; label on from the top"):
        diagnose(**models, tests={"new": table})


@pytest.mark.parametrize("harm, problem", [
    (lambda file: file.unlink(), "is not there"),
    (lambda file: file.write_text(file.read_text("utf-8").replace('"stratum": 0', '"stratum": 4', 1), "utf-8"),
     "was changed"),
    (lambda file: file.write_text("{", "utf-8"), "was changed"),
    (lambda file: file.write_text("[]", "utf-8"), "was changed"),
    (lambda file: file.write_text("[" * 100_000, "utf-8"), "was changed"),
    (lambda file: (file.unlink(), os.mkfifo(file)), "was changed"),
])
def test_a_sidecar_that_is_missing_or_changed(models, table, harm, problem):
    fill(table, 100)
    harm(sidecar_of(table))
    with pytest.raises(DataError, match=f"wrote .*to_label.csv.sample.json next to it, .* and it {problem}"):
        diagnose(**models, tests={"new": table})


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_labeled_table_of_another_format_is_read(models, table, form):
    "With labels that are whole numbers there, and none where a cell is empty."
    before = diagnose(**models, tests={"new": fill(table, 60)}).verdicts
    frame = pd.read_csv(table, dtype={"sample_id": str}, keep_default_na=False)
    frame["label"] = [int(label) if label else None for label in frame.label.astype(str)]
    other = table.with_suffix(f".{form}")
    {"csv": frame.to_csv, "jsonl": lambda path, **_: frame.to_json(path, orient="records", lines=True),
     "parquet": frame.to_parquet}[form](other, index=False)
    if other != table:
        sidecar_of(table).rename(sidecar_of(other))
    assert np.allclose(diagnose(**models, tests={"new": other}).verdicts[["base", "tuned"]], before[["base", "tuned"]])


def test_what_takes_a_table_for_something_else_is_refused(models, table):
    "Without its ids it would be a random sample; rows that are chosen stand for no pool."
    with pytest.raises(DataError, match="--?where|chooses rows"):
        diagnose(**models, tests={"new": read_pairs_file(fill(table, 60), where="label=1")})
    fill(table, 0, lambda frame: frame.drop(columns="sample_id"))
    with pytest.raises(DataError, match="its column sample_id, which says what a label stands for, is gone"):
        diagnose(**models, tests={"new": table})


def test_where_most_pairs_match_average_precision_decides(models, tmp_path):
    "Of few labels that are no match, intervals of AUC(0.05) do not hold."
    by_label = dict(tuple(POOL.groupby("label")))
    pool = pd.concat([by_label[1][:240], by_label[0][:80]]).sample(frac=1, random_state=0)
    for rows, metrics in ((60, {"ap"}), (320, {"ap"})):
        label(**models, pool=pool, n=rows, out=tmp_path / f"{rows}.csv")
        found = diagnose(**models, tests={"new": fill(tmp_path / f"{rows}.csv", rows)})
        assert {*found.verdicts.metric} == metrics and "AUC(0.05) is left out, since it takes 100 labels" in repr(found)


def test_a_label_that_says_nothing_counts_in_no_weight(models, table):
    fill(table, 80)
    without, unsure = (pd.read_csv(table, dtype=str, keep_default_na=False) for _ in range(2))
    rows = [3, 20, 41]
    unsure.loc[rows, "label"], without.loc[rows, "label"] = "none", ""
    for frame in (unsure, without):
        frame.replace({"label": {"0": "no", "1": "yes"}}).to_csv(table, index=False)
        found = read_pairs_file(table, match="yes")
        assert len(found) == found.sample.counts.sum() == 77


HARD = ["=1+1", "@home", "'quoted", "'=x", "-5 percent", "a\rb", 'say "so"', "+49, and more"]


@pytest.mark.parametrize("seed", range(3))
def test_texts_that_a_spreadsheet_or_a_reader_would_change_come_back(models, tmp_path, seed):
    rng = np.random.default_rng(seed)
    pool = POOL[["left", "right"]].reset_index(drop=True)[:120].copy()
    pool["left"] = [f"{HARD[rng.integers(len(HARD))]} {text} {number}" for number, text in enumerate(pool.left)]
    label(**models, pool=pool, n=60, out=tmp_path / "hard.csv")
    frame = pd.read_csv(tmp_path / "hard.csv", dtype=str, keep_default_na=False, lineterminator="\n")
    assert not frame.left.str.startswith(("=", "@", "+", "-")).any()
    assert not pd.to_numeric(frame.sample_id, errors="coerce").notna().any()
    frame["label"] = np.arange(len(frame)) % 2
    # as a spreadsheet keeps a break in a cell
    frame.to_csv(tmp_path / "hard.csv", index=False, quoting=csv.QUOTE_ALL, lineterminator="\n")
    found = read_pairs_file(tmp_path / "hard.csv")
    assert {*found.left} <= {*pool.left} and len(found) == len(frame)


def test_a_sidecar_of_another_pool(models, table, tmp_path):
    label(**models, pool=POOL[:600], n=100, out=tmp_path / "other.csv")
    sidecar_of(tmp_path / "other.csv").replace(sidecar_of(table))
    with pytest.raises(DataError, match=r"to_label.csv:2: column 'sample_id': a row as it was drawn is expected.*and "
                                        r"97 more of 100 rows"):
        diagnose(**models, tests={"new": fill(table, 100)})


# ---------------------------------------------------------------- what is drawn from

def test_labels_are_never_overwritten(models, table):
    fill(table, 5)
    before = table.read_bytes()
    with pytest.raises(ConfigError, match="a new file that ends in .csv is expected; labels that are there are never "
                                          "overwritten"):
        label(**models, pool=POOL, out=table)
    assert table.read_bytes() == before
    table.unlink() # what says how they were drawn is still there
    with pytest.raises(ConfigError, match="sample.json: the file exists"):
        label(**models, pool=POOL, out=table)


def test_a_pool_with_pairs_twice_and_both_ways(models, tmp_path):
    turned = POOL[:30].rename(columns={"left": "right", "right": "left"})
    pool = pd.concat([POOL[:200], POOL[:20], turned, POOL[:5].assign(right=POOL.left)])
    path = tmp_path / "pool.csv"
    pool.drop(columns="label").to_csv(path, index=False)
    written = label(**models, pool=path, n=500, out=tmp_path / "to_label.csv")
    assert written.rows == 200
    assert repr(written).startswith(
"200 pairs to label, out of 200 pairs (55 that repeat another, also the other way round, or one text, are left "
"out), are in ")
    assert repr(written).endswith(f"debias-nb diagnose --base {models['base']} --tuned {models['tuned']} --test "
                                  f"new={tmp_path / 'to_label.csv'}")


@pytest.mark.parametrize("sources, message", [
    ({"pool": POOL[:6]}, "6 of 6 are to be labeled, which is too few"),
    ({"pool": POOL.assign(third=POOL.left)[["label", "third"]]}, "two columns of texts are needed"),
    ({"pool": POOL, "n": 3}, "n must be a whole number from 10, got 3"),
    ({"pool": Pool.texts("nowhere.txt")}, "nowhere.txt"),
])
def test_what_cannot_be_drawn_from(models, tmp_path, sources, message):
    with pytest.raises((ConfigError, DataError), match=message):
        label(**models, out=tmp_path / "to_label.csv", **sources)
    assert not [*tmp_path.iterdir()]


def test_texts_are_paired_with_their_neighbors(models, tmp_path):
    texts = POOL.left.drop_duplicates()[:150]
    (tmp_path / "new.txt").write_text("\n".join(texts), "utf-8")
    label(**models, pool=Pool.texts(tmp_path / "new.txt"), n=5000, out=tmp_path / "to_label.csv")
    frame = pd.read_csv(tmp_path / "to_label.csv")
    pairs = {frozenset(pair) for pair in zip(frame.left, frame.right)}
    assert len(pairs) == len(frame) and all(len(pair) == 2 for pair in pairs)
    for path in models.values():
        vectors = load_model(path).model.encode(texts.tolist(), normalize_embeddings=True)
        scores = vectors @ vectors.T - 2 * np.eye(150)
        assert {frozenset([texts.iloc[i], texts.iloc[scores[i].argmax()]]) for i in range(150)} <= pairs


@pytest.fixture
def folder(tmp_path):
    "Eighty queries and three hundred texts, without judgments."
    folder = tmp_path / "search"
    folder.mkdir()
    for name, texts in (("queries", POOL.left[:80]), ("corpus", POOL.right[80:380])):
        lines = [json.dumps({"_id": f"{name}{number}", "text": text}) for number, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines), "utf-8")
    return folder


def test_queries_are_judged_by_what_both_models_put_first(models, folder, tmp_path):
    "With all queries labeled, metrics by the pool are those by hand; a query that is labeled in part is left out."
    path = tmp_path / "to_label.csv"
    written = label(**models, pool=Pool.folder(folder), n=5000, out=path)
    frame = pd.read_csv(path)
    frame["label"] = [int(left.split()[2] == right.split()[2]) for left, right in zip(frame.left, frame.right)]
    frame.to_csv(path, index=False)
    diagnosis = diagnose(**models, tests={"new": path})
    table = diagnosis.verdicts.set_index("metric")
    differing = frame.left.nunique()
    changes = []
    for _, rows in frame.groupby("left"):
        first = {}
        for name, model in models.items():
            scores = pair_scores({"it": load_model(model)}, rows.left.tolist(), rows.right.tolist())["it"]
            first[name] = rows.label.to_numpy()[np.argsort(-scores, kind="stable")[:10]].mean()
        changes.append(first["tuned"] - first["base"])
    assert table.loc["p10", "change"] == pytest.approx(sum(changes) / 80, abs=.005) # but for ties at place 10
    assert (f"{differing} queries out of {differing} whose first texts differ; of all 80 the others have the "
            "same" in diagnosis.cards[0]["foot"])
    assert written.rows == len(frame) and table.loc["ndcg10", "cases"] == differing
    frame.loc[0, "label"] = None
    frame.astype({"label": "Int64"}).to_csv(path, index=False)
    assert diagnose(**models, tests={"new": path}).verdicts.cases[0] == differing - 1


def test_queries_that_are_texts_of_the_corpus_keep_all_that_is_first(models, tmp_path):
    "Also where each of two is among the first texts of the other, and where two texts differ in case."
    texts = [*POOL.left[:40], POOL.left.iloc[0].upper(), POOL.left.iloc[1].upper()]
    for name in ("queries", "corpus"):
        lines = [json.dumps({"_id": str(number), "text": text}) for number, text in enumerate(texts)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), "utf-8")
    path = tmp_path / "to_label.csv"
    label(**models, pool=Pool.folder(tmp_path), n=5000, out=path)
    frame = pd.read_csv(path).assign(label=lambda frame: np.arange(len(frame)) % 2)
    pairs = {*zip(frame.left, frame.right)}
    assert any((right, left) in pairs for left, right in pairs) and frame.sample_id.is_unique
    assert frame.left.nunique() <= 40 and frame.groupby("left").size().min() >= 9
    frame.to_csv(path, index=False)
    assert read_pairs_file(path).form == "pooled"


def test_whole_queries_are_drawn_and_of_other_models_refused(models, folder, tmp_path):
    path = tmp_path / "to_label.csv"
    label(**models, pool=Pool.folder(folder), n=200, out=path)
    frame = pd.read_csv(path)
    assert 180 < len(frame) <= 200 and (frame.left != frame.left.shift()).sum() == frame.left.nunique()
    frame.assign(label=np.arange(len(frame)) % 2).to_csv(path, index=False)
    with pytest.raises(DataError, match="other models were compared when it was drawn"):
        diagnose(models["base"], small_encoder(3), tests={"new": path})


def test_the_command(models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    POOL.rename(columns={"left": "name a", "right": "offer"})[["name a", "offer"]].to_csv("pool.csv", index=False)
    arguments = ["label", "--base", str(models["base"]), "--tuned", str(models["tuned"]), "--pool", "pool.csv",
                 "--n", "50"]
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code == 2 and "name the columns" in refused.output
    done = CliRunner().invoke(app, [*arguments, "--columns", "name a,offer"])
    assert done.exit_code == 0, done.output
    assert len(pd.read_csv("to_label.csv")) == 50
    assert "50 pairs to label, out of 1,200 pairs, are in to_label.csv." in done.output


def test_a_chosen_label_is_worth_what_sentences_count_on():
    "In three of four pools of the trial, of all sizes of a sample, where it is measured by the error of AUC(0.05)."
    labelings = pd.read_csv(project_root() / "experiments/labels.csv.xz")
    errors = labelings.pivot_table(index=["encoder", "training", "test", "rate", "labels"], columns="way",
                                   values="squared_error")
    worth = errors.random / errors.chosen
    assert worth.quantile(.25) >= WORTH > worth.quantile(.05)
