"What the page of published fine-tunes counts, and that the committed file is the one that is described."
import json
import lzma
import shutil

import numpy as np
import pandas as pd
import pytest

from cells import defined_in
from debias_nb.files import project_root, sha256_file


def test_the_committed_file_is_the_one_that_is_described():
    folder = project_root() / "experiments"
    source = json.loads((folder / "finetunes.json").read_text("utf-8"))
    file = folder / "finetunes.csv.xz"
    assert sha256_file(file) == source["sha256"] and file.stat().st_size == source["bytes"] <= 150_000
    header = lzma.open(file, "rt").readline().strip().split(",")
    assert header == [name for names in source["columns"] for name in names.split(", ")]


# What the page counts.

PAGE = defined_in("finetunes")


def of_tuned(tuned, base, changes, **columns):
    "Rows of a fine-tune with these changes."
    rows = pd.DataFrame({"tuned": tuned, "base": base, "change": changes,
                         "task": [f"t{n}" for n in range(len(changes))]})
    return rows.assign(is_loss=rows.change <= -1, is_gain=rows.change >= 1, **columns)


def test_a_file_of_scores_that_was_changed_is_refused(tmp_path, monkeypatch):
    for name in ("finetunes.json", "finetunes.csv.xz"):
        shutil.copy(project_root() / "experiments" / name, tmp_path)
    monkeypatch.setitem(PAGE.read_changes.__globals__, "RESULTS", tmp_path)
    assert len(PAGE.read_changes()) == json.loads((tmp_path / "finetunes.json").read_text())["rows"]
    (tmp_path / "finetunes.csv.xz").write_bytes(lzma.compress(b"tuned,base\n"))
    with pytest.raises(ValueError, match="its sha256 differs"):
        PAGE.read_changes()


def test_copies_in_another_precision_are_told_by_their_names():
    names = [("a/x-bf16", "a/x"), ("b/y", "a/z-BF16"), ("b/w-int8", "a/z-BF16"), ("c/v-INT8", "a/x"), ("c/v", "a/x"),
             ("d/point8", "a/x")]
    scores = pd.DataFrame(names, columns=["tuned", "base"])
    assert PAGE.copies_in(scores) == ["a/x-bf16", "c/v-INT8"]
    assert PAGE.precision_pairs(scores) == [("a/x-bf16", "a/x"), ("c/v-INT8", "c/v")]


def test_text_fine_tunes_of_the_same_size_count():
    row = {"tuned": "b/y", "base": "a/x", "text": "yes", "same_size": "yes", "kind": "sts", "base_score": 70.,
           "task": "t"}
    others = [{"text": "no"}, {"same_size": "no"}, {"kind": "aggregated_tasks"}, {"tuned": "b/y-int8"}]
    scores = pd.DataFrame([row, *(row | other for other in others)])
    assert PAGE.eligible(scores).index.tolist() == [0]
    scores = pd.DataFrame([row, row | {"base": "a/bert", "base_score": 30.},
                           row | {"base": "a/bert", "base_score": 60., "task": "u"}])
    assert PAGE.bases_without_embeddings(scores) == ["a/bert"]


def test_a_fine_tune_counts_once_however_many_tasks_it_has():
    many = of_tuned("m", "a", [-2.] * 95 + [2.] * 5)
    few = of_tuned("f", "b", [0., 0., 0., 0., 2.])
    too_few = of_tuned("t", "c", [-9.] * 4)
    row = PAGE.counts_of(pd.concat([many, few, too_few]))
    assert (row["fine_tunes"], row["bases"], row["tasks"]) == (2, 2, 105)
    assert (row["loses"], row["gains"], row["mean"]) == pytest.approx((.475, .125, (-1.8 + .4) / 2))
    assert row["loses_low"] == 0 and row["loses_high"] > .9, "either base may be drawn twice"
    assert PAGE.counts_of(many) == {"fine_tunes": 1, "bases": 1, "tasks": 100}


def test_fine_tunes_of_one_base_are_resampled_together():
    rng = np.random.default_rng(0)
    parts = [of_tuned(f"{base}{n}", str(base), rng.normal(effect, .1, 50)) for base, effect in enumerate([-2, 2, -2, 2])
             for n in range(9)]
    together = pd.concat(parts)
    apart = together.assign(base=together.tuned)
    spread, spread_apart = (PAGE.resample_means(rows, ["change"]).std() for rows in (together, apart))
    assert spread == pytest.approx(2 / 4**.5, rel=.1) and spread_apart == pytest.approx(2 / 36**.5, rel=.1)


def test_a_range_weighs_fine_tunes_alike_and_is_tried_on_others():
    rows = pd.concat([of_tuned("m", "a", np.zeros(1000)), of_tuned("f", "b", np.linspace(-10, 10, 101))])
    low, high = PAGE.weighted_ends(rows)
    assert (low, high) == pytest.approx((-9, 9), abs=.3)
    inside = PAGE.trial(pd.concat([of_tuned("u", "c", [0.] * 95 + [20.] * 5), of_tuned("v", "d", [0.] * 4 + [20.])]),
                        (low, high))
    assert (inside["tried_on"], inside["inside"]) == (2, pytest.approx((.95 + .8) / 2))
    assert "inside" not in PAGE.trial(of_tuned("u", "c", [0.] * 9), (low, high)), "one base is no trial"


def test_three_words_of_a_statement():
    assert ([PAGE.verdict_above(*case, .2) for case in ((.3, .21), (.3, .19), (.19, .1))]
            == ["holds", "cannot tell", "refuted"])


def test_the_gain_on_trained_tasks_is_compared_with_others_of_the_same_fine_tune():
    trained = pd.concat([of_tuned(f"m{n}", f"b{n // 2}", [float(n)] * 5) for n in range(8)])
    elsewhere = pd.concat([of_tuned(f"m{n}", f"b{n // 2}", [-float(n)] * 6) for n in range(7)])
    pairs = PAGE.trained_and_other(trained, elsewhere)
    assert [len(of_base) for of_base in pairs] == [2, 2, 2, 1]
    correlations = np.array(PAGE.resampled_correlations(pairs))
    assert correlations[~np.isnan(correlations)] == pytest.approx(-1), "none where one fine-tune alone was drawn"
