"What a table is said to cost rests on one file of assumptions, or on what was measured."
import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from debias_nb.config import ConfigError
from debias_nb.repro.pages import cost
from debias_nb.repro.cli import app
from debias_nb.repro.config import load_experiment
from debias_nb.repro.pages.frame import all_experiments, papers

ROOT = Path(__file__).parents[1]
TABLE = load_experiment("scan/table02", "paper")


@pytest.mark.parametrize("change, words", [
    ({"utilisation": 1.5}, "utilisation"),
    ({"price": 0}, "price"),
    ({"prise": 1}, "prise"),
    ({"corpora": {"wikiqa": {"rows": 0, "texts": 1, "bytes": 1, "source": ""}}}, "corpora.wikiqa.rows"),
])
def test_assumptions_that_cannot_be_are_named(change, words, tmp_path):
    place = tmp_path / "configs/device/costs.yaml"
    place.parent.mkdir(parents=True)
    assumed = yaml.safe_load((ROOT / "configs/device/costs.yaml").read_text("utf-8"))
    place.write_text(yaml.safe_dump(assumed | change))
    with pytest.raises(ConfigError, match=f"configs/device/costs.yaml.*{words}"):
        cost.load_costs(tmp_path)


def test_every_table_of_the_papers_has_a_cost():
    experiments = [e for paper in papers() for e in all_experiments(paper) if e.profile == "paper"]
    found = cost.cost_table(experiments)
    assert len(found) == len(experiments)
    assert (found.hours > 0).all()
    assert (found.USD > 0).all()


def test_what_was_measured_on_a_gpu_takes_the_place_of_what_is_assumed(tmp_path):
    (tmp_path / "bench").mkdir()
    assert cost.measured(tmp_path) == {}
    record = {"device": "cpu", "shapes": {"140 x 128": {"variants": {"plain": {"peak": {"median": .2}}}}}}
    path = tmp_path / "bench/gpu.json"
    path.write_text(json.dumps(record))
    assert cost.measured(tmp_path) == {}
    path.write_text(json.dumps(record | {"device": "NVIDIA H200"}))
    reached = cost.measured(tmp_path)
    assert reached == {"140 x 128": .2}
    costs = cost.load_costs()
    assumed = cost.table_cost(TABLE, costs, {})
    found = cost.table_cost(TABLE, costs, reached)
    fixed = costs.overhead * assumed.runs
    assert found.seconds - fixed == pytest.approx((assumed.seconds - fixed) * costs.utilisation / .2)


def test_a_transfer_from_a_large_corpus_is_most_of_a_run():
    costs = cost.load_costs()
    by_name = {run.method.name: cost.run_flop(run, costs) for run in TABLE.runs()}
    assert by_name["TANDA"] > 10 * by_name["RoBERTa"]


def test_the_command_tells_hours_and_refuses_unknown_tables():
    done = CliRunner().invoke(app, ["cost", "itvreg/table02", "--profile", "paper"])
    assert done.exit_code == 0
    assert "hours: " in done.output
    assert "assumed to be 40%" in done.output
    misspelt = CliRunner().invoke(app, ["cost", "itvreg/table2"])
    assert "did you mean 'itvreg/table02.paper'?" in misspelt.output
    done = CliRunner().invoke(app, ["cost", "itvreg/table03", "--profile", "small"])
    assert done.exit_code == 2
    assert "is not listed" in done.output
