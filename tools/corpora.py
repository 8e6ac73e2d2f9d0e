"""From the files of a corpus as they are published to the files that are read here, with counts and hashes:

`python tools/corpora.py qqp FOLDER`."""
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import pandas as pd
import typer
from numpy.random import default_rng
from pydantic import BaseModel, Field, model_validator

from debias_nb.checks import check_known, check_range, visible
from debias_nb.papers.data.authors import read_pan_pairs
from debias_nb.data.pairs import named_cells, read_pairs
from debias_nb.data.registry import CONVERSION_FILE, Conversion, DataError, Pin, data_folders, json_rows, parsed_lines
from debias_nb.data.registry import sha256_of, without_end
from debias_nb.files import check_regular
from debias_nb.papers.data.titles import LF_FILES, read_lf


class Source:
    "The files of a corpus as published: a folder, or one file. Remembers which of them were used."
    def __init__(self, path: str | Path):
        self.root = Path(path)
        self.used = []
        if not self.root.exists():
            raise DataError(f"{self.root} is not there")
        if not self.root.is_dir():
            check_regular(self.root, DataError)

    def files(self, *patterns: str) -> list[Path]: # patterns: of names, `*` for anything
        "All files with such a name. Raises `DataError` where there is none."
        candidates = [self.root]
        if self.root.is_dir():
            candidates = sorted(path for path in self.root.rglob("*") if path.is_file())
        found = [path for path in candidates if any(map(path.match, patterns))]
        if not found:
            raise DataError(f"{self.root}: there is no file called {' or '.join(patterns)}; unpack archives first")
        self.used += found
        return found

    def file(self, *patterns: str) -> Path:
        "The only file with such a name. Raises `DataError` for none and for several."
        found = self.files(*patterns)
        if len(found) > 1:
            raise DataError(f"{self.root}: {found[0]} and {found[1]} could both be it; name the folder of one of them")
        return found[0]


def write_lines(
    path: Path,
    lines: Iterable[str], # without ends
) -> None:
    "A text file in UTF-8 with LF."
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.writelines(line + "\n" for line in lines)


def convert_forum(source: Source, folder: Path) -> dict[str, float]: # -> counts
    """A forum of Shah et al.

    2018, in the layout that darsh10/qra_code reads. Titles alone; the development part is left out."""
    titles = {}

    def read_question(_, line):
        id, title, *_ = without_end(line).split("\t")
        title = " ".join(title.split())
        if titles.setdefault(id, title) != title:
            raise ValueError(f"the question {id!r} occurs twice, with other titles")

    def read_pair(_, line):
        left, right, *_ = line.split()
        if not {left, right} <= titles.keys():
            raise ValueError(f"the question {left!r} or {right!r} is not in {corpus.name}")
        return titles[left], titles[right]

    corpus = source.file("corpus.tsv.gz", "corpus.tsv")
    list(parsed_lines(corpus, read_question))
    counts = {"questions": len(titles)}
    for part in ("train", "test"):
        rows = []
        for label, sign in ((1, "pos"), (0, "neg")):
            pairs = parsed_lines(source.file(f"{part}.{sign}.txt"), read_pair)
            rows += [(label, *pair) for pair in pairs]
        counts |= _write_pairs(folder, part, rows)
    return counts


def _write_pairs(folder, part, rows) -> dict[str, float]: # rows: label, left, right
    "A file of labeled pairs, read again, and counted; a pair with an empty question is left out."
    complete = [row for row in rows if row[1].strip() and row[2].strip()]
    path = folder / f"{part}.tsv"
    write_lines(path, ("\t".join(map(str, row)) for row in complete))
    positives = int(read_pairs(path).labels.sum())
    return {
        f"{part} pairs": len(complete),
        f"{part} positives": positives,
        f"{part} negatives to a positive": round((len(complete) - positives) / max(1, positives), 2),
        f"{part} pairs with an empty question, left out": len(rows) - len(complete),
    }


def convert_qqp(source: Source, folder: Path) -> dict[str, float]:
    "Quora Question Pairs of GLUE, from the hub's Parquet; the development part becomes the test."
    counts = {}
    for part, name in (("train", "train*.parquet"), ("test", "validation*.parquet")):
        path = source.file(name)
        try:
            table = pd.read_parquet(path, columns=["label", "question1", "question2"])
        except (ValueError, OSError, KeyError) as e:
            raise DataError(f"{path}: {str(e).splitlines()[0]}") from None
        is_wrong = table.isna().any(axis=1) | ~table.label.isin([0, 1])
        if is_wrong.any():
            raise DataError(f"{path}:{is_wrong.argmax() + 1}: a label of 0 or 1 and two texts are expected")
        texts = [table[side].str.split().str.join(" ") for side in ("question1", "question2")]
        counts |= _write_pairs(folder, part, list(zip(table.label, *texts)))
    return counts


def convert_titles(source: Source, folder: Path) -> dict[str, float]:
    "Titles of the Extreme Classification Repository, with `categories.tsv` where the source has one."
    names = list(LF_FILES)
    if source.root.is_dir() and any(source.root.rglob("categories.tsv")):
        names.append("categories.tsv")
    for name in names:
        shutil.copyfile(source.file(name), folder / name)
    titles = read_lf(*(folder / name for name in names), name=source.root.name)
    read = ("queries read", "items read", "pairs read", "queries", "items", "pairs", "queries without a category")
    counts = {key: titles.counts[key] for key in read if key in titles.counts}
    return counts | {"test queries": int(titles.facts.published.sum())}


_ASNQ = {"1": 0, "2": 0, "3": 0, "4": 1}


def convert_asnq(source: Source, folder: Path) -> dict[str, float]:
    "The training file of ASNQ (Garg et al. 2020); a candidate without a text is left out."
    def read(_, line):
        row = named_cells(without_end(line).split("\t"), ("question", "sentence", "label"))
        check_known("label", row["label"], _ASNQ)
        return row["question"], row["sentence"], _ASNQ[row["label"]]

    rows = list(parsed_lines(source.file("train.tsv"), read))
    complete = [row for row in rows if row[0].strip() and row[1].strip()]
    write_lines(folder / "asnq-train.tsv", ("\t".join(map(str, row)) for row in complete))
    return {
        "train questions": len({question for question, *_ in complete}),
        "train candidates": len(complete),
        "train positives": sum(label for *_, label in complete),
        "blank candidates, left out": len(rows) - len(complete),
    }


def convert_pan(source: Source, folder: Path) -> dict[str, float]:
    "Pairs of PAN 2020 or 2021, and their truth."
    truth = source.file("*truth*.jsonl")
    found = [path for path in source.files("*.jsonl") if path != truth]
    if len(found) != 1:
        raise DataError(f"{source.root}: one file of pairs is expected beside {truth.name}, found {len(found)}")
    texts = read_pan_pairs(*found, truth)
    for path, name in zip((*found, truth), ("pairs.jsonl", "truth.jsonl")):
        shutil.copyfile(path, folder / name)
    sizes = {"texts": len(texts), "authors": len(set(texts.author)), "topics": len(set(texts.topic))}
    return texts.counts | sizes


_YEARS = Field(ge=datetime(1, 1, 2, tzinfo=timezone.utc).timestamp(),
               le=datetime(9999, 12, 31, tzinfo=timezone.utc).timestamp())


class _Review(BaseModel):
    reviewerID: str
    reviewText: str | None = None
    unixReviewTime: Annotated[int, _YEARS] | None = None # seconds since 1970


class _Post(BaseModel):
    author: str | None
    subreddit: str | None = None
    selftext: str | None = None
    body: str | None = None
    created_utc: Annotated[float, _YEARS] | None = None # seconds since 1970

    @model_validator(mode="after")
    def _says_something(self):
        if not {"selftext", "body"} & self.model_fields_set:
            raise ValueError("neither 'selftext' nor 'body' is there")
        return self


_GONE = {None, "", "[deleted]", "[removed]"}


def _write_texts(path, rows, share) -> dict[str, float]: # rows: author, topic, text, seconds since 1970
    "A file of texts with author and topic, and counts; what was deleted is left out, and a share of the rest is drawn."
    authors = set()
    topics = set()
    counts = {"texts read": 0, "texts deleted or blank, left out": 0, "texts not drawn": 0, "texts": 0}
    rng = default_rng(0)

    def lines():
        for author, topic, text, seconds in rows:
            counts["texts read"] += 1
            text = (text or "").replace("\0", " ").strip()
            if _GONE & {author, topic, text}:
                counts["texts deleted or blank, left out"] += 1
                continue
            if share < 1 and rng.random() >= share:
                counts["texts not drawn"] += 1
                continue
            authors.add(author)
            topics.add(topic)
            counts["texts"] += 1
            row = {"author": author, "topic": topic, "text": text}
            if seconds is not None:
                row["date"] = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d")
            yield json.dumps(row, ensure_ascii=False)

    write_lines(path, lines())
    return counts | {"authors": len(authors), "topics": len(topics)}


def convert_reviews(source: Source, folder: Path, share: float = 1.) -> dict[str, float]:
    "Amazon's reviews of 2018 (Ni et al. 2019), one file per category."
    paths = {}
    for path in source.files("*.json.gz", "*.json"):
        category = path.name.split(".")[0].removesuffix("_5") # of Books_5.json.gz
        if category in paths or category.startswith(("All_Amazon", "meta_")):
            raise DataError(f"{path}: a file of reviews for each category is expected, once, named after it")
        paths[category] = path

    def rows():
        for category, path in paths.items():
            for review in json_rows(path, _Review):
                yield review.reviewerID, category, review.reviewText, review.unixReviewTime

    return _write_texts(folder / "texts.jsonl", rows(), share)


def convert_posts(source: Source, folder: Path, share: float = 1.) -> dict[str, float]:
    "Posts of Reddit as Pushshift gave them, unpacked (`zstd -d --long=31`) or in .gz."
    paths = {}
    for path in source.files("RS_*", "RC_*", "*.jsonl", "*.json", "*.ndjson", "*.gz"):
        bare = re.sub(r"(\.(jsonl|json|ndjson|gz))+$", "", str(path))
        if bare in paths:
            raise DataError(f"{path}: the same posts as {paths[bare].name}, by its name; leave one of the two out")
        paths[bare] = path

    def rows():
        for path in paths.values():
            for post in json_rows(path, _Post):
                yield post.author, post.subreddit, post.body or post.selftext, post.created_utc

    return _write_texts(folder / "texts.jsonl", rows(), share)


CONVERTERS: dict[str, Callable[..., dict[str, float]]] = {
    "askubuntu_shah": convert_forum,
    "superuser": convert_forum,
    "qqp": convert_qqp,
    "lf_amazontitles131k": convert_titles,
    "lf_amazontitles1_3m": convert_titles,
    "asnq": convert_asnq,
    "pan20_train": convert_pan,
    "pan20_test": convert_pan,
    "pan21_test": convert_pan,
    "amazon2018_reviews": convert_reviews,
    "reddit_pushshift": convert_posts,
}
SHARED = (convert_reviews, convert_posts) # of which a share can be drawn


def convert(
    name: str,           # one of `CONVERTERS`
    source: str | Path,  # the files as published: a folder, unpacked, or one file
    share: float = 1.,   # of the texts by authors, drawn at random, in (0, 1]
) -> Conversion:
    """Write a corpus into the folder of data, in the layout that is read here.
    Raises `DataError` naming file and line for another layout, a share that cannot be drawn, and a file that is there
    with other contents."""
    check_known("corpus that can be converted", name, CONVERTERS, DataError)
    converter = CONVERTERS[name]
    check_range("share", share, high=1, closed="right")
    settings = {"share": share} if converter in SHARED else {}
    if share < 1 and not settings:
        raise DataError(f"share: {name} is converted whole")
    target = data_folders()[0] / name
    if target.is_symlink() and not target.exists():
        raise DataError(f"{target}: a link to a folder that is not there")
    given = Source(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as work:
        try:
            counts = converter(given, Path(work), **settings)
        except DataError as e: # of a copy
            raise DataError(str(e).replace(work, str(source))) from None
        made = sorted(Path(work).iterdir())
        conversion = Conversion(
            dataset=name, settings=settings, counts=counts,
            sources={str(path): Pin.from_path(path) for path in given.used},
            files={path.name: Pin.from_path(path) for path in made})
        for path in made:
            destination = target / path.name
            if destination.exists() and sha256_of(destination) != conversion.files[path.name].sha256:
                raise DataError(f"{destination} is there already, with other contents: move it away")
        target.mkdir(exist_ok=True)
        for path in made:
            os.replace(path, target / path.name)
    (target / CONVERSION_FILE).write_text(conversion.model_dump_json(indent=1), "utf-8")
    return conversion


def main(
    name: Annotated[str, typer.Argument(help="Data set that must be downloaded manually, as `debias-nb data` "
                                             "names it.")],
    source: Annotated[Path, typer.Argument(help="Its files as published: an unpacked folder, or one file.")],
    share: Annotated[float, typer.Option(help="Fraction of the authors' texts to keep, drawn at random, above 0 to "
                                              "1.")] = 1.,
):
    "Convert a manually downloaded corpus to the layout that is read here, with counts and hashes."
    try:
        made = convert(name, source, share)
    except (ValueError, OSError) as e:
        typer.echo(f"corpora: {visible(str(e))}", err=True)
        raise typer.Exit(2) from None
    for label, count in made.counts.items():
        typer.echo(f"{visible(label)}: {count:,}")
    for kind, pins in (("read", made.sources), ("written", made.files)):
        for file, pin in pins.items():
            typer.echo(visible(f"{kind} {file}: {pin.bytes:,} bytes, sha256 {pin.sha256}"))


if __name__ == "__main__":
    typer.run(main)
