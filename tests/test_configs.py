"What the committed configurations and records say of each other and of the paper."
import re, subprocess
from pathlib import Path

import pytest

from debias_nb.config import project_root

from debias_nb.repro.config import RunConfig, load_experiment
from debias_nb.repro.records import latest
from debias_nb.repro.frame import COMPLETE, all_experiments, papers, results
from debias_nb.repro.pages import all_cells
from debias_nb.repro.search import best_training

ROOT = project_root(Path(__file__).parent)

@pytest.mark.parametrize("profile", ["planted", "small"])
def test_settings_are_those_the_search_chose(profile):
    search, table = load_experiment("itvreg/table03_search", profile), load_experiment("itvreg/table03", profile)
    records = results(profile).records("itvreg", "table03_search", profile)
    kinds = {e.display: e.kind for e in table.encoders}
    for block in table.blocks:
        for encoder in block.encoders: assert block.training == best_training(search, records, kinds[encoder]), encoder

def test_the_search_reads_no_test_data():
    for profile in ("planted", "small"):
        for block in load_experiment("itvreg/table03_search", profile).blocks:
            assert block.evaluate == ("heldout",) and all(c.holdout > 0 for c in block.corpora) and block.methods == ("Finetuned",)

def test_paper_profile_holds_the_papers_settings():
    e = load_experiment("itvreg/table03", "paper")
    methods = {m.name: m for m in e.methods}
    assert [e.name.split("/")[1] for e in e.encoders] == ["nli-distilbert-base", "msmarco-distilbert-base-v4"] and {x.max_length for x in e.encoders} == {32}
    assert all(m.weight == .1 for m in e.methods if m.regulariser != "none")
    assert (methods["ITVReg"].mask_share, methods["MaskReg"].mask_share) == (.5, .15)
    (block,) = e.blocks
    assert (block.training.learning_rate, block.training.epochs, block.training.batch_size, block.training.optimizer) == (1e-4, 5, 250, "adam")
    assert len(block.seeds) == 3 and {c.share for c in block.corpora} == {.1} and {c.name for c in block.corpora} == {"askubuntu_shah", "superuser"}

def test_title_settings_are_those_the_search_chose():
    chosen = best_training(load_experiment("itvreg/table02_search", "small"), results("small").records("itvreg", "table02_search", "small"), "static")
    for name in ("table02", "table09", "lambda_titles"): assert {b.training for b in load_experiment(f"itvreg/{name}", "small").blocks} == {chosen}

@pytest.fixture(scope="module")
def every_cell(): return all_cells()

@pytest.mark.parametrize("profile", ["planted", "small"])
def test_the_committed_grid_is_complete(profile, every_cell):
    cells = [c for c in every_cell if c.paper == "itvreg" and c.table == "table3" and c.profile == profile and "superuser" not in (c.corpus, c.evaluate)]
    apart = [(c.row, c.column, c.status) for c in cells if c.status not in COMPLETE and not (c.encoder.startswith("MiniLM") and c.status in ("partial", "not run"))] # hours of a CPU, and made over several days
    assert cells and not apart, apart

@pytest.mark.parametrize("paper, name, profile", [(p, e.experiment, e.profile) for p in papers() for e in all_experiments(p) if e.profile != "paper"])
def test_committed_records_are_of_this_configuration(paper, name, profile):
    asked = {r.id: r for r in load_experiment(f"{paper}/{name}", profile).runs()}
    for run_id, record in latest(results(profile).records(paper, name, profile)).items():
        assert run_id in asked, f"{run_id}: no configuration asks for this record"
        assert RunConfig.model_validate(record["config"]) == asked[run_id], "settings added since have defaults that mean: as before"

def committed():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if out.returncode: pytest.skip("not a git checkout")
    return [ROOT / f for f in out.stdout.splitlines() if (ROOT / f).is_file()]

def test_nothing_committed_is_large_or_knows_this_machine():
    home = re.compile(r"/(?:home|root|Users|work)/\w")
    for path in committed():
        assert path.stat().st_size <= 1_000_000, f"{path}: {path.stat().st_size:,} bytes"
        if path.suffix in (".py", ".ipynb", ".md", ".yaml", ".yml", ".toml", ".cff", ".ini", ".jsonl", ".csv", ".tex") and path != Path(__file__):
            assert not (found := home.search(path.read_text("utf-8"))), f"{path}: {found[0]}"
