"What a diagnosis ships with is what the studies of labels and of published fine-tunes say: records, tables, pages."
import json
import lzma

import numpy as np
import pandas as pd
import pytest

import labels
import outputs
from cells import defined_in
from debias_nb.diagnosis.all_clear import neighbor_churn, neighbors
from debias_nb.diagnosis.demo import offers, small_encoder
from debias_nb.diagnosis.models import load_model
from debias_nb.diagnosis.published import published_losses
from debias_nb.files import package_file, project_root, sha256_file
from debias_nb.losses.averaging import wise_ft

TEXTS = offers(400, 3, .2, .4).left.tolist()
FACTS = pd.read_csv(project_root() / "debias_nb/diagnosis/published_tasks.csv", index_col="task")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    base, other = small_encoder(0), small_encoder(1)
    for name, model in {"base": base, "near": wise_ft(base, other, .001), "far": other}.items():
        model.save(str(folder / name))
    return folder


def test_the_records_have_the_neighbors_of_the_library(models):
    import torch
    texts = list(dict.fromkeys(TEXTS))
    vectors = {name: load_model(models / name).model.encode(texts, normalize_embeddings=True)
               for name in ("base", "near", "far")}
    for tuned in ("near", "far"):
        own = neighbor_churn(*(labels.nearest(torch.tensor(vectors[name])) for name in ("base", tuned)))
        library = neighbor_churn(*(neighbors(load_model(models / name), texts) for name in ("base", tuned)))
        assert own == pytest.approx(library, abs=.01), "but for equally near ones"


def shifts(changed, change, size=200, **columns):
    about = {"encoder": "a", "kind": "static", "training": "t", "loss": "mse", "method": "Finetuned", "share": 1.}
    rows = about | {f"changed_{size}": changed, "auc05_change": change, "ndcg10_change": 0.}
    return pd.DataFrame(rows | columns)


def test_the_table_of_the_library_counts_losses_and_asks_for_enough_trials():
    small, large = np.full(60, .1), np.full(60, .2)
    table = labels.trial_table(pd.concat([shifts(small, np.zeros(60)), shifts(large, np.linspace(-9, 9, 60))]))
    assert table[["low", "is_clear"]].values.tolist() == [[0, 1], [.15, 0]]
    assert table.sentence[0].startswith("Of 60 trials with as much change (static encoders, 1 training run; 60 plainly "
                                        "fine-tuned) 0 lost 2 points of AUC(0.05)")
    assert not labels.trial_table(shifts(small, [-2, -2] + [0] * 58)).is_clear.any(), "more than one in fifty"
    assert labels.trial_table(shifts(small, [-2] + [0] * 59)).is_clear.all(), "one of 60"
    assert not labels.trial_table(shifts(small[:49], 0.)).is_clear.any(), "too few"
    assert not labels.trial_table(shifts(small, 0., ndcg10_change=-3.)).is_clear.any(), "search counts as well"


def test_averaged_and_regularized_encoders_alone_allow_no_all_clear():
    small, enough = np.full(60, .1), labels.SETTINGS["plain"]
    for column, other in {"method": "OutReg", "share": .5}.items():
        plain = np.arange(60) < enough
        rows = shifts(small, 0.).assign(
            **{column: lambda own, column=column, plain=plain, other=other: own[column].where(plain, other)})
        assert labels.trial_table(rows).is_clear.all()
        assert not labels.trial_table(
            rows.assign(**{column: rows[column].where(plain & (rows.index > 0), other)})).is_clear.any(), "too few"
    lost = shifts(small, [-2.] + [0.] * 59).assign(share=np.where(np.arange(60) < enough, 1., .5))
    assert not labels.trial_table(lost).is_clear.any(), "one of 60, but of 20 that are plainly tuned"


def test_a_small_shift_is_measured_in_all_ways():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=200)
    pairs = labels.LabeledPairs("t", [str(n) for n in range(200)], [f"{n}!" for n in range(200)],
                                (scores > .5).astype(int))
    near = {200: rng.integers(0, 200, (200, 10))}
    base, tuned = labels.State(scores, near, .5), labels.State(-scores, near, .4)
    row = labels.shift_row(pairs, base, tuned)
    assert row["auc_change"] == pytest.approx(-100)
    assert row["bound"] == pytest.approx(100)
    assert row["ndcg10_change"] == pytest.approx(-10)
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
    assert labels.labeling(rare, np.zeros(1000, int),
                           [np.arange(1, 101)])["intervals"] == 0, "one match makes no interval"


def test_what_is_collected_says_where_it_is_from(tmp_path, monkeypatch):
    monkeypatch.setattr(labels, "PARTS", tmp_path / "parts")
    rows = shifts(np.full(60, .1), 0.).to_dict("records")
    labels.write_part(tmp_path / "parts/shifts/one.json", rows, {"commit": "c"})
    labels.collect(tmp_path)
    source = json.loads((tmp_path / "labels.json").read_text())["files"]["all_clear.csv.xz"]
    assert source["sha256"] == sha256_file(tmp_path / "all_clear.csv.xz")
    assert source["environments"] == [{"commit": "c"}]
    assert source["rows"] == 60
    assert pd.read_csv(tmp_path / "all_clear.csv").is_clear.tolist() == [1]


def test_the_library_says_what_the_committed_records_say():
    results = project_root() / "experiments"
    source = json.loads((results / "labels.json").read_text("utf-8"))["files"]
    for name, about in source.items():
        assert (results / name).stat().st_size < 3 << 20
        assert sha256_file(results / name) == about["sha256"]
        assert lzma.open(results / name, "rt").readline().strip().split(",") == about["columns"]
    records = pd.read_csv(results / "all_clear.csv.xz", keep_default_na=True)
    assert labels.trial_table(records).to_csv(index=False, lineterminator="\n") == package_file(
        "diagnosis/all_clear.csv").read_text("utf-8")


def test_the_page_decides_as_it_was_stated():
    page = defined_in("labels")
    fifty, losses = np.full(50, .1), [-2.] + [0.] * 49
    assert page.verdict_on_clear(shifts(fifty, losses), "auc05") == "holds", "one in fifty"
    assert page.verdict_on_clear(shifts(fifty, [-2.] * 2 + [0.] * 48), "auc05") == "refuted"
    assert page.verdict_on_clear(shifts(fifty[:49], 0.), "auc05") == "cannot tell"
    assert page.verdict_on_clear(shifts(fifty[:3], -9.), "auc05") == "cannot tell"
    assert len(page.below(shifts([.15, .1501, np.nan], 0.), 200)) == 1 and page.below(shifts([.1], 0.), 5000).empty
    rows = pd.DataFrame({"way": ["random", "chosen", "disagreement"], "squared_error": [8., 2., 16.], "covered": 9,
                         "intervals": 10, "decided": 1})
    rows = rows.assign(encoder="e", training="t", test="u", kept_back=0, rate=.2, labels=100, length=4.)
    assert page.worth_of("chosen", rows).tolist() == [4] and page.worth_of("disagreement", rows).tolist() == [.5]
    assert [verdict for _, _, verdict in page.verdicts_on_labels(rows)] == ["holds", "holds", "holds"]
    assert page.cover_of(rows, "chosen").tolist() == [.9]
    assert page.decisions_of(rows, "chosen").tolist() == [1 / page.LABELS["intervals"]]


def test_what_is_shipped_of_published_fine_tunes_is_what_their_file_gives(tmp_path):
    root = project_root()
    page = defined_in("finetunes")
    scores = page.eligible(page.read_changes())
    changes = scores[~scores.base.isin(page.bases_without_embeddings(page.read_changes()))]
    (tmp_path / "experiments").symlink_to(root / "experiments")
    for name in ("reports", "debias_nb/diagnosis"):
        (tmp_path / name).mkdir(parents=True)
    other = changes[changes.trained != "yes"]
    page.kind_losses(other).to_csv(tmp_path / "reports/finetunes.losses.csv", index=False)
    outputs.write_published(tmp_path)
    for name in ("published.csv", "published_tasks.csv"):
        assert (tmp_path / "debias_nb/diagnosis" / name).read_text() == (
            root / "debias_nb/diagnosis" / name).read_text(), name
    counts = pd.read_csv(root / "reports/finetunes.csv", index_col="name")
    kinds = [*dict.fromkeys(FACTS.kind)]
    assert published_losses(kinds, False).mean() == pytest.approx(counts.loses["other"], abs=5e-5)
    assert published_losses(kinds, True).mean() == pytest.approx(counts.loses["english"], abs=5e-5)
    assert published_losses(["STS"], False).mean() == pytest.approx(counts.loses["sts"], abs=5e-5)
