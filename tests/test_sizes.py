"The library as a whole keeps to its budget, in tests/sizes.yaml."
import ast
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
BUDGET = yaml.safe_load((ROOT / "tests/sizes.yaml").read_text("utf-8"))


def nodes_of(patterns: list[str]) -> int:
    files = {path for pattern in patterns for path in ROOT.glob(pattern) if path.name != "_modidx.py"}
    assert files, patterns
    return sum(1 for path in files for _ in ast.walk(ast.parse(path.read_text("utf-8"))))


@pytest.mark.parametrize("whole", BUDGET)
def test_the_whole_keeps_to_its_budget(whole):
    allowed = BUDGET[whole]
    nodes = nodes_of(allowed["files"])
    print(f"{whole}: {nodes:,} nodes of {allowed['nodes']:,}")
    assert nodes <= allowed["nodes"]
