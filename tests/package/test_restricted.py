"""Texts of corpora whose terms do not allow it, questions of Quora, are in nothing that is committed.

A question counts by its first `LONG` words, wherever they stand; a shorter one where it stands alone, in quotes, a cell
or a line. Words are letters alone, in lower case. restricted.bin holds six bytes of a digest of each, so that it works
where the corpus is not; `corpus` makes it.
"""
import hashlib
import os
import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
LONG, SHORT = 8, 5 # words
BYTES = 6 # of a digest
FOLDERS = ("reports", "nbs", "experiments", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench")
TEXTS = (".md", ".html", ".json", ".jsonl", ".ipynb", ".csv", ".yaml", ".svg", ".parquet")
APART = re.compile(r'["<>|\n:()\[\]{}`*]|\\n')


def words_of(text):
    return re.findall(r"[^\W\d_]+", text.lower())


def digest(words):
    return hashlib.blake2b(" ".join(words).encode(), digest_size=BYTES).digest()


def keys(question): # none or one
    words = words_of(question)
    return {digest(words[:LONG])} if len(words) >= SHORT else set()


def keys_in(text):
    "What stands for the questions that some text may hold."
    words = words_of(text)
    found = {digest(words[i:i + LONG]) for i in range(len(words) - LONG + 1)}
    parts = map(words_of, APART.split(text))
    return found | {digest(part) for part in parts if SHORT <= len(part) < LONG}


def listed():
    data = (ROOT / "tests/package/restricted.bin").read_bytes()
    return {data[i:i + BYTES] for i in range(0, len(data), BYTES)}


def corpus():
    "The list, from the corpus; a question that another corpus asks in the same words is not known by them."
    def of(*patterns):
        paths = [path for pattern in patterns for path in Path(os.environ["DEBIAS_NB_DATA"]).glob(pattern)]
        cells = (cell for path in paths for line in path.read_text("utf-8", "replace").splitlines()
                 for cell in line.split("\t"))
        return set().union(*map(keys, cells))

    return of("quora/*.tsv") - of("askubuntu/*.t*", "antique/*.t*", "wikiqa/*.tsv", "selqa/*.tsv")


def text_of(path):
    "What a file says, without the tags of a page, which part its words."
    if path.suffix == ".parquet": # of records, whose texts of a corpus stand in `extra`
        return "\n".join(pd.read_parquet(path, columns=["extra"]).extra.dropna())
    text = path.read_text("utf-8", "replace")
    return re.sub(r"</?(?:span|tspan|b|em)\b[^>]*>", "", text) if path.suffix in (".html", ".svg") else text


def committed():
    names = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.splitlines() if name.endswith(TEXTS)]


QUESTION = "Why would a purple giraffe ever want to sing quietly in the winter rain?"
SHORTER = "Do purple giraffes sing quietly?"


@pytest.mark.parametrize("text, is_found", [
    (f"<p>A page.</p><td>{QUESTION}</td>", True), (f'{{"left": "{SHORTER}"}}', True),
    ("It asks: why would a purple giraffe ever want to sing, and so on.", True),
    ("<td><span>Do</span> <span>purple</span> <b>giraffes</b> sing quietly</td>", True),
    ("A purple giraffe would ever want to sing. Do giraffes sing quietly?", False),
])
def test_a_text_is_found_wherever_it_stands_and_others_are_not(tmp_path, text, is_found):
    (tmp_path / "page.html").write_text(text, "utf-8")
    assert bool(keys_in(text_of(tmp_path / "page.html")) & (keys(QUESTION) | keys(SHORTER))) == is_found


@pytest.mark.slow
def test_no_page_or_notebook_holds_a_text_of_a_restricted_corpus():
    pages, known = [path for path in committed() if path.suffix != ".parquet"], listed()
    assert len(pages) > 200
    assert [path for path in pages if keys_in(text_of(path)) & known] == []


def test_no_record_does():
    records, known = [path for path in committed() if path.is_relative_to(ROOT / "experiments")], listed()
    texts = {path: text for path in records for text in [text_of(path)] if '"cases"' in text or '"leaks"' in text}
    assert texts # the others hold no texts
    assert [path for path, text in texts.items() if keys_in(text) & known] == []


@pytest.mark.published
def test_the_list_is_that_of_the_corpus():
    assert corpus() == listed()
