"Texts say things in the field's words: those of tools/words.yaml."
import re
from pathlib import Path

import nbformat
import pytest
import yaml

ROOT = Path(__file__).parents[1]
RULES = yaml.safe_load((ROOT / "tools/words.yaml").read_text("utf-8"))
PATTERNS = {}
for word in RULES["words"]:
    if word.startswith("/"):
        PATTERNS[word] = re.compile(word[1:-1])
    else:
        PATTERNS[word] = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])", re.IGNORECASE)
NO_PROSE = re.compile(r"```.*?```|`[^`]*`|\$[^$]*\$|\]\([^)]*\)|https?://\S+", re.S) # code, formulas and addresses
CHECKED = sorted({path for pattern in RULES["checked"] for path in ROOT.glob(pattern)})


def prose(path: Path) -> str:
    "What a text says, without code; of a notebook its text cells."
    if path.suffix != ".ipynb":
        return path.read_text("utf-8")
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def coined(text: str) -> list[str]:
    "Words that have a better one, each with that."
    text = NO_PROSE.sub(" ", text)
    return [f"{word} → {RULES['words'][word]}" for word, pattern in PATTERNS.items() if pattern.search(text)]


@pytest.mark.parametrize("path", CHECKED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_words_are_the_fields(path):
    assert coined(prose(path)) == []


def test_a_coined_word_is_noticed():
    assert coined("Each remedy stands beside it (-3), 5 % better.") == [
        "remedy → method, or regularizer", "beside → next to, together with", r"/\d %/ → 95%, without a space",
        r"/[\[ (]-\d/ → a minus sign, −"]
    assert coined("`beside` in code, [a link](beside.md), a dialog") == []
