"What a diagnosis ships with is what the records say: trials of an all-clear, and published fine-tunes."
import json
import lzma

import pandas as pd
import pytest

import outputs
from cells import defined_in
from debias_nb.diagnosis.published import published_losses
from debias_nb.files import project_root, sha256_file

FACTS = pd.read_csv(project_root() / "debias_nb/diagnosis/published_tasks.csv", index_col="task")


def test_the_library_says_what_the_committed_records_say():
    results = project_root() / "experiments"
    source = json.loads((results / "all_clear.json").read_text("utf-8"))
    for name, about in source["files"].items():
        assert (results / name).stat().st_size < 3 << 20
        assert sha256_file(results / name) == about["sha256"]
        assert lzma.open(results / name, "rt").readline().strip().split(",") == about["columns"]
    assert sha256_file(project_root() / source["table"]["file"]) == source["table"]["sha256"]


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
