"Each room keeps to its budget, in tests/sizes.yaml."
import ast
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
BUDGET = yaml.safe_load((ROOT / "tests/sizes.yaml").read_text("utf-8"))


def size_of(patterns: list[str]) -> dict[str, int]:
    files = {path for pattern in patterns for path in ROOT.glob(pattern) if path.name != "_modidx.py"}
    assert files, patterns
    texts = [path.read_text("utf-8") for path in files]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return {
        "nodes": sum(1 for text in texts for _ in ast.walk(ast.parse(text))),
        "lines": sum(1 for line in lines if line and not line.startswith("#")),
    }


@pytest.mark.parametrize("room", BUDGET)
def test_a_room_keeps_to_its_budget(room):
    allowed = BUDGET[room]
    size = size_of(allowed.pop("files"))
    print(f"{room}: {size}, of {allowed}")
    assert {kind: number for kind, number in allowed.items() if size[kind] > number} == {}
