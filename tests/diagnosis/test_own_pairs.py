"The notebook for one's own pairs: with invented ones it is run as a notebook of the library is, here with files."
import json
from pathlib import Path

import nbformat
import pytest
import torch

import made
from debias_nb.diagnosis.comparison import FILES as COMPARISON

ROOT = Path(__file__).parents[2]
torch.set_num_threads(1)


def run(**parameters) -> dict:
    "Its cells, with parameters in the place of those of the tagged cell; what is known at the end."
    book = nbformat.read(ROOT / "nbs/diagnosis/own_pairs.ipynb", as_version=4)
    nbformat.validate(book)
    known = {}
    tagged = 0
    for cell in book.cells:
        if cell.cell_type != "code":
            continue
        exec(cell.source, known)
        if "parameters" in cell.metadata.get("tags", []):
            tagged += 1
            assert parameters.keys() <= known.keys(), "parameters of the notebook"
            known |= parameters
    assert tagged == 1
    return known


def test_it_runs_on_files_and_writes_pages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"left": "q", "right": "d", "label": "y"}
    for seed, name in enumerate(("train", "new")):
        made.some_pairs(seed=seed).rename(columns=names).to_csv(f"{name}.csv", index=False)
    Path("kind.txt").write_text("blue kettle\nsmall chair for the table\n")
    base = str(made.table(tmp_path / "models"))
    parameters = dict(
        base=base, train="train.csv", tests={"new": "new.csv"}, columns=["q", "d", "y"],
        methods="base,plain,outreg-texts",
        texts="kind.txt", seeds=2, epochs=.5, folder="records")
    for _ in range(2): # pages of ours are written over
        known = run(**parameters)
    assert {path.name for path in Path("records").iterdir()} == {"comparison", "diagnosis", "plain", "runs", ".claims"}
    assert {path.name for path in Path("records/comparison").iterdir()} == set(COMPARISON)
    assert list(known["compared"].means().index) == ["base", "plain", "outreg-texts"]
    twin = json.loads(Path("records/diagnosis/report.json").read_text("utf-8"))
    assert {row["test"] for row in twin["verdicts"]} == {"new"} and "records/plain" in twin["facts"]["command"]


def test_what_belongs_together_is_asked_for_together(tmp_path):
    with pytest.raises(ValueError, match="base, train and tests belong together"):
        run(train="train.csv", folder=str(tmp_path))
