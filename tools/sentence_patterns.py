"""Print each pattern of a sentence that pages are made from once, with real values, for whoever edits them:

python tools/sentence_patterns.py                 all pages of reports/, and the page of each published diagnosis
python tools/sentence_patterns.py PAGE...         the pages named

Sentences that differ in numbers, names in code and names of methods, encoders and corpora alone have one pattern. A
line has how often the pattern occurs, the page of its first occurrence, and the sentence there: read them aloud. Mend a
sentence where it is generated; `git grep` finds a phrase of it.
"""
import argparse
import html
import re
from pathlib import Path

from debias_nb.papers.pages.frame import all_experiments, papers
from notebooks import ROOT

LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
TAG = re.compile(r"<[^>]+>")
CODE_BLOCK = re.compile(r"^```.*?^```", re.S | re.M)
UNSEEN = re.compile(r"<(style|script|svg)\b.*?</\1>|<!--.*?-->", re.S)
BREAK = re.compile(r"</?(?:p|li|td|th|tr|h\d|div|summary|details|figcaption|section|table)\b[^>]*>")
SENTENCE_END = re.compile(r"(?<=[.?!:;])\s+(?=[A-Z*`(0-9])")
NUMBER = re.compile(r"[+−-]?\d[\d,.]*(?:e[+−-]?\d+)?%?")
CODE = re.compile(r"`[^`]+`")


def paragraphs(page: Path) -> list[str]:
    "Return the paragraphs, list items and table cells of a page as plain text."
    text = UNSEEN.sub("", page.read_text("utf-8"))
    if page.suffix == ".html":
        lines = BREAK.sub("\n", text).splitlines()
    else:
        lines = CODE_BLOCK.sub("", text).replace("|", "\n").splitlines()
    plain = (html.unescape(TAG.sub("", LINK.sub(r"\1", line))).replace("**", "") for line in lines)
    return [line.strip(" #>-*") for line in plain]


def sentences(page: Path) -> list[str]:
    "Return the sentences of a page that have four words or more."
    found = (sentence for line in paragraphs(page) for sentence in SENTENCE_END.split(line))
    return [sentence for sentence in found if len(re.findall(r"[A-Za-z]{2,}", sentence)) >= 4]


def experiment_names() -> re.Pattern:
    "Match every name of a method, and every label of an encoder or corpus, in the configurations."
    names = set()
    for experiment in (found for paper in papers() for found in all_experiments(paper)):
        corpora = [corpus for block in experiment.blocks for corpus in block.corpora]
        named = [*experiment.methods, *experiment.encoders, *corpora]
        names.update(getattr(part, key, None) for part in named for key in ("name", "label"))
    longest_first = sorted(filter(None, names), key=len, reverse=True)
    return re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in longest_first))


def pattern(sentence: str, names: re.Pattern) -> str:
    "Return a sentence with numbers and names in place of which others could stand."
    for part, placeholder in ((CODE, "◦"), (names, "◦"), (NUMBER, "#")):
        sentence = part.sub(placeholder, sentence)
    return sentence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path)
    pages = parser.parse_args().pages or [*sorted((ROOT / "reports").rglob("*.md")),
                                          *sorted((ROOT / "reports").rglob("*.html"))]
    names = experiment_names()
    found: dict[str, list[tuple[Path, str]]] = {}
    for page in pages:
        for sentence in sentences(page):
            found.setdefault(pattern(sentence, names), []).append((page, sentence))
    for occurrences in found.values():
        page, sentence = occurrences[0]
        place = page.resolve().relative_to(ROOT) if page.resolve().is_relative_to(ROOT) else page
        print(f"{len(occurrences)} · {place} · {sentence}")


if __name__ == "__main__":
    main()
