"What a diagnosis ships with is what the records say: trials of an all-clear, and published fine-tunes."
import json
import lzma

import numpy as np
import pandas as pd
import pytest

import all_clear
import outputs
from cells import defined_in
from debias_nb.diagnosis.published import published_losses
from debias_nb.files import package_file, project_root, sha256_file

FACTS = pd.read_csv(project_root() / "debias_nb/diagnosis/published_tasks.csv", index_col="task")


def shifts(changed, change, size=200, **columns):
    about = {"encoder": "a", "kind": "static", "training": "t", "loss": "mse", "method": "Finetuned", "share": 1.}
    rows = about | {f"changed_{size}": changed, "auc05_change": change, "ndcg10_change": 0.}
    return pd.DataFrame(rows | columns)


def test_the_table_of_the_library_counts_losses_and_asks_for_enough_trials():
    small, large = np.full(60, .1), np.full(60, .2)
    table = all_clear.trial_table(pd.concat([shifts(small, np.zeros(60)), shifts(large, np.linspace(-9, 9, 60))]))
    assert table[["low", "is_clear"]].values.tolist() == [[0, 1], [.15, 0]]
    assert table.sentence[0].startswith("Of 60 trials with as much change (static encoders, 1 training run; 60 plainly "
                                        "fine-tuned, 0 of these with a ranking loss) 0 lost 2 points of AUC(0.05)")
    assert not all_clear.trial_table(shifts(small, [-2, -2] + [0] * 58)).is_clear.any(), "more than one in fifty"
    assert all_clear.trial_table(shifts(small, [-2] + [0] * 59)).is_clear.all(), "one of 60"
    assert not all_clear.trial_table(shifts(small[:49], 0.)).is_clear.any(), "too few"
    assert not all_clear.trial_table(shifts(small, 0., ndcg10_change=-3.)).is_clear.any(), "search counts as well"


def test_averaged_and_regularized_encoders_alone_allow_no_all_clear():
    small, enough = np.full(60, .1), all_clear.SETTINGS["plain"]
    for column, other in {"method": "OutReg", "share": .5}.items():
        plain = np.arange(60) < enough
        rows = shifts(small, 0.).assign(
            **{column: lambda own, column=column, plain=plain, other=other: own[column].where(plain, other)})
        assert all_clear.trial_table(rows).is_clear.all()
        assert not all_clear.trial_table(
            rows.assign(**{column: rows[column].where(plain & (rows.index > 0), other)})).is_clear.any(), "too few"
    lost = shifts(small, [-2.] + [0.] * 59).assign(share=np.where(np.arange(60) < enough, 1., .5))
    assert not all_clear.trial_table(lost).is_clear.any(), "one of 60, but of 20 that are plainly tuned"


def test_the_library_says_what_the_committed_records_say():
    results = project_root() / "experiments"
    source = json.loads((results / "all_clear.json").read_text("utf-8"))["files"]
    for name, about in source.items():
        assert (results / name).stat().st_size < 3 << 20
        assert sha256_file(results / name) == about["sha256"]
        assert lzma.open(results / name, "rt").readline().strip().split(",") == about["columns"]
    records = pd.read_csv(results / "all_clear.csv.xz", keep_default_na=True)
    assert all_clear.trial_table(records).to_csv(index=False, lineterminator="\n") == package_file(
        "diagnosis/all_clear.csv").read_text("utf-8")


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
