"What the committed configurations and records say of each other and of the paper."
import re, subprocess
from pathlib import Path

import numpy as np
import pytest

from debias_nb.config import ConfigError, load_yaml, project_root

from debias_nb.repro.config import BlockConfig, RunConfig, load_experiment
from debias_nb.repro.records import latest
from debias_nb.repro.frame import COMPLETE, all_experiments, found_records, papers, results, study_of
from debias_nb.repro.pages import all_cells
from debias_nb.repro.runner import dry_runs, dry_step, narrow
from debias_nb.repro.search import best_settings, best_training, search_table

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

    for profile in ("planted", "small"):
        (block,) = load_experiment("scan/settings", profile).blocks
        assert block.evaluate == ("dev",)

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
        config = RunConfig.model_validate(record["config"])
        assert config.recorded() == asked[run_id].recorded(), "settings added since have defaults that mean: as before"
        assert config.id == run_id

# What a row of the answer-selection paper runs: the paper's formulas, its public code, or our own weights.
FORMS = {
    "": {"variant": "paper", "class_mass": "free", "debias": "paper"},
    ", released": {"variant": "released", "class_mass": "free", "debias": "released"},
    ", ours": {"variant": "fixed", "class_mass": "keep", "debias": "paper"},
}
SCAN = [e for e in all_experiments("scan") if any(m.scan for m in e.methods)]
SCAN_METHODS = [(e, m) for e in SCAN for m in e.methods if m.scan]

def rows_of(part, form):
    "Methods called SCAN, or SCAN without a part of it, in a form; a data set or settings may stand behind, in brackets."
    name = re.compile(rf"{part}{form}( \(.+\))?")
    return [pytest.param(m, id=f"{e.experiment}.{e.profile} {m.name}") for e, m in SCAN_METHODS if name.fullmatch(m.name)]

@pytest.mark.parametrize("form", FORMS)
def test_every_experiment_knows_the_row(form):
    assert rows_of("SCAN", form) and rows_of("w/o LD", form) and (form == ", ours" or rows_of("w/o FD", form))

@pytest.mark.parametrize("method, form", [pytest.param(*p.values, form, id=p.id) for form in FORMS for p in rows_of("SCAN", form)])
def test_a_row_named_after_the_papers_method_runs_it(method, form):
    wanted = FORMS[form] | {"weights": "learned", "memory": "ema"}
    assert {key: getattr(method.scan, key) for key in wanted} == wanted

@pytest.mark.parametrize("method, form", [pytest.param(*p.values, form, id=p.id) for form in FORMS for p in rows_of("w/o LD", form)])
def test_without_debiasing_the_weights_are_those_of_the_row(method, form):
    wanted = FORMS[form] | {"weights": "learned", "memory": "ema", "debias": "none"}
    assert {key: getattr(method.scan, key) for key in wanted} == wanted

@pytest.mark.parametrize("method, form", [pytest.param(*p.values, form, id=p.id) for form in FORMS for p in rows_of("w/o FD", form)])
def test_without_decorrelation_the_debiasing_is_that_of_the_row(method, form):
    assert (method.scan.weights, method.scan.debias) == ("uniform", FORMS[form]["debias"])

def test_rows_are_called_after_what_they_run():
    "Nothing else begins with the name of the paper's method, and the learned weights of the page on weights say whose they are."
    called = re.compile(r"(SCAN|w/o (FD|LD))(, released|, ours)?( \(.+\))?")
    for e, m in SCAN_METHODS:
        assert called.fullmatch(m.name) or m.name.startswith(("FD ", "LD", "Oracle")), (e.experiment, e.profile, m.name)
        if m.name in ("FD paper", "FD released", "FD ours"):
            form = {"FD paper": "", "FD released": ", released", "FD ours": ", ours"}[m.name]
            assert (m.scan.variant, m.scan.class_mass) == (FORMS[form]["variant"], FORMS[form]["class_mass"])

@pytest.mark.parametrize("profile", ["planted", "small"])
def test_what_runs_twice_under_two_names_is_one_run(profile):
    "The same settings on the same data have one id, whatever the tables call them."
    seen = {}
    for e in SCAN:
        for run in e.runs() if e.profile == profile else ():
            plain = run.model_copy(update={"method": run.method.model_copy(update={"name": "", "was": None}), "experiment": ""})
            seen.setdefault(plain.model_dump_json(), set()).add(run.id)
    assert not [ids for ids in seen.values() if len(ids) > 1]

@pytest.mark.parametrize("profile", ["planted", "small"])
def test_all_forms_have_as_many_settings_to_choose_from(profile):
    tried = [m.name.partition(" (")[0] for m in load_experiment("scan/settings", profile).methods]
    assert {name: tried.count(name) for name in tried} == {f"SCAN{form}": 4 for form in FORMS}
    for run in dry_runs(load_experiment("scan/settings", profile)): assert all(np.isfinite(v) for v in dry_step(run).values())

@pytest.mark.parametrize("profile", ["planted", "small"])
def test_every_table_has_the_settings_of_one(profile):
    "Temperature, memory and learner of a form are the same in all tables, and in the rows that lack a part of it."
    def settings(scan): return scan.temperature, scan.alpha, scan.rate, scan.penalty
    for form in FORMS:
        mine = [m for e, m in SCAN_METHODS if e.profile == profile and e.experiment != "settings"]
        whole = {settings(m.scan) for m in mine if m.name == f"SCAN{form}"}
        assert len(whole) == 1 and {settings(m.scan)[1:] for m in mine if m.name == f"w/o LD{form}"} == {s[1:] for s in whole}
        assert {m.scan.temperature for m in mine if m.name == f"w/o FD{form}"} <= {s[0] for s in whole}

@pytest.mark.parametrize("profile", ["planted", "small"])
def test_scan_settings_are_those_the_search_chose(profile):
    search = load_experiment("scan/settings", profile)
    found = found_records(search, results(profile))
    if len(found) < len(search.runs()): pytest.skip("the search has not been run")
    tried, used = ({m.name: m.scan for m in e.methods} for e in (search, load_experiment("scan/table02", profile)))
    chosen = best_settings(study_of(search, results(profile))["settings"])
    chosen.pop("SCAN, ours") # stays as its records were made; the page of settings says what the search prefers
    assert {method: used[method] for method in chosen} == {method: tried[name] for method, name in chosen.items()}

def test_rows_that_were_renamed_find_their_records():
    e = load_experiment("scan/table02", "small")
    found = found_records(e, results("small"))
    assert {"SCAN, ours", "w/o LD, ours", "w/o FD", "w/o LD, released"} <= {record["config"]["method"]["name"] for record in found.values()}
    for run_id, record in found.items():
        assert record["id"] == run_id
        if record["config"]["method"]["name"] == "SCAN, ours": assert "-scan-s" in run_id and record["config"]["method"]["scan"]["variant"] == "fixed"

def committed():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if out.returncode: pytest.skip("not a git checkout")
    return [ROOT / f for f in out.stdout.splitlines() if (ROOT / f).is_file()]

def test_nothing_committed_is_a_link():
    out = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True)
    if out.returncode: pytest.skip("not a git checkout")
    assert not [line for line in out.stdout.splitlines() if line.startswith("120000")]

def test_nothing_committed_is_large_or_knows_this_machine():
    home = re.compile(r"/(?:home|root|Users|work)/\w")
    for path in committed():
        assert path.stat().st_size <= 1_000_000, f"{path}: {path.stat().st_size:,} bytes"
        if path.suffix in (".py", ".ipynb", ".md", ".yaml", ".yml", ".toml", ".cff", ".ini", ".jsonl", ".csv", ".tex") and path != Path(__file__):
            assert not (found := home.search(path.read_text("utf-8"))), f"{path}: {found[0]}"

# further planted worlds

def test_further_worlds_are_drawn_with_the_first_seed_and_in_the_full_grid_alone():
    e = load_experiment("arr/table02", "planted")
    block = next(block for block in e.blocks if block.worlds)
    runs = e.block_runs(block)
    worlds = {}
    for run in runs:
        worlds.setdefault(run.data.world.seed, set()).add(run.seed if run.training else None)
    assert worlds[0] >= set(block.seeds) and set(worlds) == {0, *range(1, block.worlds + 1)}
    assert all(seeds <= {block.seeds[0], None} for world, seeds in worlds.items() if world)
    quick = narrow(e, full=False)
    assert {run.data.world.seed for run in quick.runs()} == {0}, "`make reports` stays quick"

def test_another_world_is_another_run_with_everything_of_that_world():
    run = next(run for run in load_experiment("itvreg/table03", "planted").runs() if run.training and run.encoder.pretrain)
    other = run.in_world(7)
    assert other.id != run.id and run.in_world(run.corpus.world.seed).id == run.id
    seeds = (other.corpus.world.seed, other.eval_world.seed, other.encoder.world.seed, other.encoder.pretrain.seed)
    assert seeds == (7, 7, 7, 7) and other.seed == run.seed

@pytest.mark.parametrize("corpus, worlds, message", [
    (dict(name="quora"), 1, "`worlds` belongs to planted corpora"),
    (dict(name="authors", task="authors", world=dict(name="authors", seed=1)), 1, "counts a world that the block has already"),
    (dict(name="authors", task="authors", world=dict(name="authors")), -1, "greater than or equal to 0"),
])
def test_worlds_that_cannot_be(corpus, worlds, message):
    training = dict(learning_rate=1e-3, epochs=1, batch_size=2)
    with pytest.raises(ValueError, match=message):
        BlockConfig(encoders=["x"], corpora=[corpus], methods=["y"], training=training, seeds=[0], evaluate=["iid"], worlds=worlds)

def test_a_search_that_is_left_out_has_no_settings():
    e = load_experiment("itvreg/table03_search", "planted")
    assert narrow(e, full=False).blocks == () and search_table(narrow(e, full=False), []) == []
    assert len(search_table(e, [])) == len(e.blocks) * len(e.blocks[0].trainings)


@pytest.mark.parametrize("raw, says", [
    ("größe: 1".encode("latin-1"), "byte 3 is not UTF-8"), ("a: 1".encode("utf-16"), "byte 1 is not UTF-8"),
    (b"? [1, 2]\n: 3", ""), (b"? {a: 1}\n: 3", ""), (b"a: " + b"[" * 3000 + b"]" * 3000, "nested too deeply"), (b"a: " + b"[" * 10**5, "nested too deeply"), (b"- " * 10**5, "nested too deeply"),
    (b"a: 2026-02-31", "no value of YAML"), (b"a: " + b"1" * 5000, "no value of YAML"), (b"a: 1\0", "")])
def test_yaml_that_cannot_be_read_is_one_sentence(tmp_path, raw, says):
    path = tmp_path / "odd.yaml"; path.write_bytes(raw)
    with pytest.raises(ConfigError) as e: load_yaml(path)
    assert str(e.value).startswith(str(path)) and says in str(e.value)
