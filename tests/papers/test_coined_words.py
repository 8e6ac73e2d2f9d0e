"Words that only their writers understood stay out of what pages say."
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ELSEWHERE = ("contents", "cost") # notebooks
SOURCES = sorted(
    {path for path in (ROOT / "nbs/papers").rglob("*.ipynb") if path.stem not in ELSEWHERE}
    | {*(ROOT / "debias_nb").glob("*/pages/*.py"), *(ROOT / "experiments/printed").glob("*.yaml"),
       ROOT / "tools/site/glossary.yaml", ROOT / "CONTRIBUTING.md", ROOT / "bench/aims.yaml",
       *(ROOT / "debias_nb").glob("diagnosis/recommendations.py"), ROOT / "nbs/index.ipynb"}) # a leaf can be taken off
COINED = re.compile("|".join([
    r"put ahead", r"law of forums", r"multi-negative", r"[Kk]eep those near", r"not one to one", r"over the latter",
    r"advise nothing",
    r"proud of something", r"[Aa]sked before the runs", r"narrow what", r"can be read downwards", r"held to its base",
    r"which is compared with", r"what it says of", r"records? conclude", r"\bit was\b\"",
    r"(?:encoders|OutReg|ITVReg|weights) changed by",
    r"lottery", r"have another one", r"tell the printed story", r"cannot be told\.",
    r"asks: \"the same[:,]", r"it does not, and the difference", r"goes so in", r"is there \{distance", r"\"came out\"",
    r"settings its forms want",
]))


def prose(path: Path) -> str:
    "Return what a file says, without stored outputs."
    if path.suffix != ".ipynb":
        return path.read_text("utf-8")
    return "\n".join("".join(cell["source"]) for cell in json.loads(path.read_text("utf-8"))["cells"])


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_use_no_coined_words(path):
    assert not COINED.findall(prose(path))


def test_coined_words_are_seen():
    assert len(SOURCES) > 50
    assert COINED.search("the side put ahead − the other") and COINED.search("OutReg changed by −1.0 to +2.0 points")
    assert COINED.search('- {asks: "the same: its largest memory"}')
    assert COINED.search("cannot be told. So")
    assert COINED.search("3 have another one")
    assert not COINED.search("OutReg moved scores by −1.0 to +2.0 points")
