"""Texts that may not be offered here, found in what is committed: questions of Quora, whose terms do not allow it.

python tools/restricted.py           name the files that hold some
python tools/restricted.py --write   make tests/restricted.bin anew, from the files under DEBIAS_NB_DATA

A question counts by its first `LONG` words, wherever they stand; a shorter one where it stands alone, in quotes, a cell
or a line. Words are letters alone, in lower case. The list holds six bytes of a digest of each, so that it works where
the corpus is not.
"""
import argparse
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd

from notebooks import ROOT

LIST = ROOT / "tests" / "restricted.bin"
LONG, SHORT = 8, 5 # words
BYTES = 6 # of a digest
FOLDERS = ("reports", "nbs", "experiments", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench")
TEXTS = (".md", ".html", ".json", ".jsonl", ".ipynb", ".csv", ".yaml", ".svg", ".parquet")
WORD = re.compile(r"[^\W\d_]+")
APART = re.compile(r'["<>|\n:()\[\]{}`*]|\\n')


def words_of(text: str) -> list[str]:
    return WORD.findall(text.lower())


def digest(words: list[str]) -> bytes:
    return hashlib.blake2b(" ".join(words).encode(), digest_size=BYTES).digest()


def keys(question: str) -> set[bytes]: # none or one
    "What stands for a question in the list."
    words = words_of(question)
    return {digest(words[:LONG])} if len(words) >= SHORT else set()


def keys_in(text: str) -> set[bytes]:
    "What stands for the texts that some text may hold."
    words = words_of(text)
    found = {digest(words[i:i + LONG]) for i in range(len(words) - LONG + 1)}
    for part in APART.split(text):
        part_words = words_of(part)
        if SHORT <= len(part_words) < LONG:
            found.add(digest(part_words))
    return found


def listed() -> set[bytes]:
    "The committed list."
    data = LIST.read_bytes()
    return {data[i:i + BYTES] for i in range(0, len(data), BYTES)}


def corpus() -> set[bytes]:
    "The list, from the corpus; a question that another corpus asks in the same words is not known by them."
    folder = Path(os.environ["DEBIAS_NB_DATA"])

    def of(pattern):
        found = set()
        for path in sorted(folder.glob(pattern)):
            for line in path.read_text("utf-8", "replace").splitlines():
                for cell in line.split("\t"):
                    found |= keys(cell)
        return found

    return of("quora/*.tsv") - of("askubuntu/*.t*") - of("antique/*.t*") - of("wikiqa/*.tsv") - of("selqa/*.tsv")


def committed() -> list[Path]:
    "The files that a reader is offered."
    names = subprocess.run(["git", "ls-files", "-z", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in names.stdout.split("\0") if name.endswith(TEXTS)]


def text_of(path: Path) -> str:
    "What a file says, without the tags of a page, which part its words."
    if path.suffix == ".parquet": # of records, whose texts of a corpus stand in `extra`
        return "\n".join(pd.read_parquet(path, columns=["extra"]).extra.dropna())
    text = path.read_text("utf-8", "replace")
    if path.suffix in (".html", ".svg"):
        text = re.sub(r"</?(?:span|tspan|b|em)\b[^>]*>", "", text)
    return text


def holding(paths: list[Path], known: set[bytes]) -> list[str]: # sentences
    "The files that hold restricted texts."
    found = []
    for path in paths:
        many = len(keys_in(text_of(path)) & known)
        if many:
            found.append(f"{path}: {many} texts of Quora")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make the list anew")
    if parser.parse_args().write:
        LIST.write_bytes(b"".join(sorted(corpus())))
    found = holding(committed(), listed())
    print("\n".join(found) or "no text of a restricted corpus is committed")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
