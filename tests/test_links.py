"Every relative link of the notebooks, of what they show, and of the pages leads to a file."
import json
import re
from functools import cache
from pathlib import Path


ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
# which Lab leaves
PAGES += [page for page in sorted((ROOT / "reports").rglob("*.md")) if ".ipynb_checkpoints" not in page.parts]


def texts(path):
    "The Markdown of a page, or of a notebook with what it shows."
    if path.suffix == ".md":
        yield path.read_text("utf-8")
        return
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "markdown":
            yield "".join(cell["source"])
        for output in cell.get("outputs", []):
            yield "".join(output.get("data", {}).get("text/markdown", ""))


def slug(heading):
    "The anchor that GitHub gives a heading."
    words = re.sub(r"\]\([^)]*\)|<[^>]+>", "", heading).strip().lower()
    return re.sub(r"[^\w -]", "", words).replace(" ", "-")


@cache
def anchors(path):
    "The parts of a page that a link can lead to."
    text = "\n".join(texts(path))
    return {*map(slug, re.findall(r"(?m)^#+ (.+)$", text)), *re.findall(r'<a id="([^"]+)"', text)}


def leads(path, part):
    "Whether a file is there, and the part of it that a link names."
    if not path.exists():
        return False
    return path.suffix not in (".md", ".ipynb") or part.removeprefix("#") in {"", *anchors(path)}


def test_the_glossary_says_each_term_once_in_two_sentences():
    text = (ROOT / "docs/glossary.md").read_text("utf-8")
    entries = re.findall(r'(?m)^- <a id="(.+?)"></a>\*\*(.+?)\*\*: (.+)$', text)
    assert len(entries) == len(re.findall("(?m)^- ", text)) == len({place for place, *_ in entries})
    assert [term for _, term, text in entries if len(re.findall(r"[.?!](?= [A-Z]|$)", text)) not in (1, 2)] == []
