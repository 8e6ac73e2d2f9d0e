"""A user's files, one row per case: what it is, its name, its content, options, and what is read of it.

In place of what is read stand the words of the refusal, with file and line, where a file cannot be read. A name without
an ending is a folder, and what has no name is a table in memory.
"""
import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from typer.testing import CliRunner

from debias_nb.checks import ConfigError, visible
from debias_nb.commands.cli import app
from debias_nb.data.registry import DataError
from debias_nb.data.tables import DELIMITERS, FIRST_CHARACTERS, FORMATS
from debias_nb.data.texts import read_held_texts, read_texts
from debias_nb.diagnosis.files.forms import check_header, options_from
from debias_nb.diagnosis.files.mteb_results import declared_sets, read_results
from debias_nb.diagnosis.files.pairs_file import PairFile, read_named_files, read_pairs_file
from debias_nb.diagnosis.files.run_files import read_run
from debias_nb.diagnosis.options import columns_by_name, named_tests
from debias_nb.files import load_yaml, sha256_file

HEAD = "left,right,label\n"
TWO = "a lamp,lamps,1\na chair,a table,0\n"
RECORDS = [{"left": "a lamp", "right": "lamps", "label": 1}, {"left": "a chair", "right": "a table", "label": 0}]
JSON = '{"left": "a", "right": "b", "label": 1}\n{"left": "a", "right": "b", "label": 0}\n'
SIDES = {"left": ["a", "b"], "right": ["c", "d"]}
HALF = "x\udfff" # of a character
DEEP = "[" * 900 + "]" * 900
ESCAPE = "\x1b]0;OWNED\x07" # to a terminal


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def pairs(*label, **more):
    "What is read of labeled pairs."
    return {"form": "pairs", "label": [*label], **more}


def candidates(*label, **more):
    return {"form": "candidates", "label": [*label], **more}


def retrieval(*label, **more):
    return {"form": "retrieval", "label": [*label], **more}


def seen(file: PairFile, what: str):
    "One thing of what was read: a column of its rows, or what else a row of the table below names."
    counts = {"rows": len(file), "queries": "query" in file.frame and file.frame["query"].nunique(),
              "texts": len(file.corpus or ())}
    if what in counts:
        return counts[what]
    return file.frame[what].tolist() if what in file.frame else getattr(file, what)


def placed(folder, name, content):
    "Where the content stands, as a reader takes it."
    if name is None:
        return content
    path = folder / name.partition(":")[0]
    if isinstance(content, dict) and not name.endswith(".parquet"):
        path.mkdir(parents=True)
        for inner, text in content.items():
            placed(path, inner, text)
    elif content is not None: # None: nothing is there
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            pq.write_table(pa.table(content), path)
        elif callable(content):
            content(path)
        else:
            data = content if isinstance(content, bytes) else content.encode()
            path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return f"{folder}/{name}"


# ---------------------------------------------------------------- labeled pairs

QUORA = 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\ta "b\tc\t1\n1\t3\t4\td\te"\t0\n'
MICROSOFT = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\ta\tb\n0\t3\t4\tc\td\n"
MAGELLAN = ("id,left_id,left_title,left_price,right_id,right_title,right_price,label\n"
            "0,1,a lamp,9,2,lamp,,1\n1,1,b,,2,c,8,0\n")
GRADES = "sentence1,sentence2,score\na,b,4.5\nc,d,3.9\ne,f,2\n"
WORDS = HEAD + "a,b,Yes\nc,d,no\n"
SCORED = {"columns": ("left", "right", "label"), "scores": ("old", "mine")}
FILES = {
    "sentence-transformers": ("a.csv", "sentence1,sentence2,label\n" + TWO, {},
                              pairs(1, 0, left=["a lamp", "a chair"], right=["lamps", "a table"])),
    "Quora": ("a.tsv", QUORA, {}, pairs(1, 0, left=['a "b', "d"])),
    "capitals": ("a.tsv", "QuestionID\tQuestion\tSentence\tLabel\nQ0\ta\tb\t1\nQ0\ta\tc\t0\n", {}, pairs(1, 0)),
    "Microsoft's paraphrases": ("a.tsv", MICROSOFT, {}, pairs(1, 0, left=["a", "c"], right=["b", "d"])),
    "SNLI": ("a.jsonl", lines(*({"premise": "a", "hypothesis": "b", "gold_label": word}
                                for word in ("entailment", "neutral", "-"))), {"match": "entailment"},
             pairs(1, 0, left_out={"pairs without a label": 1})),
    "yes and no": ("a.csv", WORDS, {"match": "yes"}, pairs(1, 0, note="a match is labeled yes: 1 of 2")),
    "-1 and 1": ("a.csv", HEAD + "a,b,-1\nc,d,1.0\n", {"match": 1}, pairs(0, 1)),
    "grades": ("a.csv", GRADES, {"match_from": 4}, pairs(1, 0, 0, note="a match has a grade of 4 or more: 1 of 3; read "
                                                         "as labeled pairs: sentence1, sentence2, score")),
    "grades with a gap": ("a.csv", GRADES, {"match_from": 4, "other_to": 2},
                          pairs(1, 0, line=[2, 4], left_out={"pairs with a grade between 2 and 4": 1})),
    "decimal commas": ("a.csv", "left;right;score\na;b;4,25\nc;d;3,5\ne;f;1\n", {"match_from": 4}, pairs(1, 0, 0)),
    "lists of one label": ("a.jsonl", lines(*({"left": "a", "right": "b", "label": [word]} for word in ("yes", "no"))),
                           {"match": "yes"}, pairs(1, 0)),
    "Magellan, joined": ("a.csv", MAGELLAN, {}, pairs(1, 0, left=["a lamp", "b"], right=["lamp", "c"], note=(
        "read as labeled pairs: left_title, right_title, label; not used: left_price, right_price"))),
    "packed": ("a.v2.csv.gz", HEAD + TWO, {}, pairs(1, 0, name="a.v2", note="")),
    "columns named": ("a.csv", "q,p,y\na,b,1\nc,d,0\n", {"columns": ("q", "p", "y")}, pairs(1, 0)),
    "texts named, with a label beside": ("a.csv", "q,p,score\na,b,1\nc,d,0\n", {"columns": ("q", "p")}, pairs(1, 0)),
    "a pair next to a pair of names": (
        "a.jsonl", lines({"fandoms": ["x", "y"], "pair": ["a long text", "b"], "same": 1},
                         {"fandoms": ["x", "z"], "pair": ["c", "d long"], "same": 0}),
        {"columns": ("anchor", "positive", "same")}, pairs(1, 0, left=["a long text", "c"])),
    "columns of scores": (None, SIDES | {"label": [1, 0], "old": [.5, 0], "mine": ["1", "-2e-1"]}, SCORED,
                          pairs(1, 0, base=[.5, 0], tuned=[1, -.2])),
}


def as_written(labels):
    return None, SIDES | {"label": labels}, {}, pairs(1, 0)


FILES |= {f"labels written {labels}": as_written(labels) for labels in (
    ["1", "0"], ["1.0", "0.0"], ["True", "false"], [1., 0.], [True, False], ["1.00", " 0.00"], ["+1.", "-0"],
    ["1.000000000000000000e+00", "0E-3"], [Decimal("1.00"), Decimal("0.00")])}


# ---------------------------------------------------------------- headers

HEADERS = { # -> columns by their roles
    **{header: header for header in (
        "title1,title2,match", "Sentence 1,Sentence 2,Is Duplicate", "Question 1,Question 2,Similarity",
        "name_l,name_r,label", "desc a,desc b,is_match", "LEFT,Right,LABEL", "1 text,2 text,esci_label",
        "anchor,positive,labels", "question,passage,score", "user_input,context,Scores",
        "title_1,vendor_1,title_2,vendor_2,label")},
    "id_left,name_left,id_right,name_right,label": "name_left,name_right,label",
    "name_1,name_2,city,label": "name_1,name_2,label", "id,title_a,title_b,label": "title_a,title_b,label",
    "id,qid1,qid2,question1,question2,is_duplicate": "question1,question2,is_duplicate",
    "left title,right title,left price,label": "left title,right title,label",
}
IN_ORDER = ["query,product_title,esci_label", "document,sentence,relevance", "prompt,reply,label",
            "premise,text2,label"] # their texts have no names of sides
AMBIGUOUS = { # -> words of the refusal
    "left,right,premise,hypothesis,label": "left, right, label, or as labeled pairs: premise, hypothesis, label",
    "text1,text2,score,label": "text1, text2, label, or as labeled pairs: text1, text2, score; name them, e.g. "
                               "--columns text1,text2,label",
    "anchor,positive,negative,labels": "labeled pairs: anchor, positive, labels, or as triplets",
    "question,answer,document": "matches without labels: question, answer, or as",
    "one,two,three,label": "neither two texts .* one, two, three, label; a file needs a header; name the columns",
}


def under(header, labels=("score", "label", "labels")):
    "Two rows under a header."
    return None, {name: [1, 0] if name in labels else [f"{name} 0", f"{name} 1"] for name in header}, {}


for header, roles in (HEADERS | dict(zip(IN_ORDER, IN_ORDER))).items():
    names, columns = header.split(","), tuple(roles.split(","))
    turned = [names[-1], *names[:-1]] if header in IN_ORDER else names[::-1]
    FILES[header] = *under(names, columns[-1:]), pairs(1, 0, columns=columns)
    if len(columns) == 3:
        FILES[f"{header}, turned round"] = *under(turned, columns[-1:]), FILES[header][-1]
FILES |= {header: (*under(header.split(",")), words) for header, words in AMBIGUOUS.items()}

# No list of names decides which numbers next to matches may be their labels.
MATCHES = {"anchor": ["a", "b", "c"], "positive": ["d", "e", "f"]}
ASKED = {"question": ["a", "b", "c"], "passage": ["d", "e", "f"]}
NUMBERS = [[0, 1, 1], ["0", "1.0", ""], [True, False, True], ["true", "False", "true"], [.2, 4.5, 3], ["1", None, "5"],
           [[1], [0], [1]]]
NAMES = ["y", "is_dup", "class", "relevant", "rating", "gold", "judgement", "note of a person", "1", "valid"]
for texts, name, cells in [*((MATCHES, "target", cells) for cells in NUMBERS), (ASKED, "target", NUMBERS[0]),
                           *((MATCHES, name, NUMBERS[place % 7]) for place, name in enumerate(NAMES))]:
    left, right = texts
    row = f"{name} {cells} next to {left}"
    FILES[row] = None, texts | {name: cells}, {}, (
        f"matches without labels: {left}, {right}; if '{name}' holds their labels, say "
        f"--columns {shlex.quote(f'{left},{right},{name}')}, else --columns {left},{right}$")
    FILES[f"{row}, as advised"] = None, texts | {name: cells}, {"columns": (left, right)}, retrieval(1, 1, 1)
READ_AS = "read as matches without labels: anchor, positive"
FILES |= {f"{name} next to matches": (None, MATCHES | {name: cells}, {}, retrieval(1, 1, 1, note=READ_AS))
          for name, cells in {"query_id": [7, 8, 9], "id": [0, 1, 2], "Unnamed: 0": [0, 1, 1], "qid1": ["0", "1", "2"],
                              "doc_id": [1, 2, 3]}.items()}
FILES |= {
    "words next to matches": (None, MATCHES | {"site": ["a", "b", "b"]}, {}, retrieval(
        1, 1, 1, note=f"{READ_AS}; not used: site (a 1, b 2); --where COLUMN=VALUE chooses rows")),
    "matches and numbers, with the form": (None, MATCHES | {"y": [0, 1, 1]}, {"form": "retrieval"}, retrieval(
        1, 1, 1, note=f"{READ_AS}; not used: y (0 1, 1 2); --where COLUMN=VALUE chooses rows")),
    "pairs that all match": (None, {"prompt": ["a"], "reply": ["b"]},
                             {"form": "retrieval", "columns": ("prompt", "reply")}, retrieval(1)),
}


SIDED = { # further columns of both sides: what is no text is left out
    "numbers": lambda i: (str(4 + i % 2), "5"), "few values": lambda i: (("web", "shop")[i % 2], "shop"),
    "the answer": lambda i: (f"c{i}", f"c{i}" if i % 2 else f"d{i}"), "texts": lambda i: (f"seen {i}", f"told {i}")}
for name, other in (("name1", "name2"), ("left_name", "right_name"), ("name_a", "name_b")):
    more, others = name.replace("name", "more"), other.replace("name", "more")
    for kind, make in SIDED.items():
        is_text = kind == "texts"
        rows = [dict(zip((name, other, more, others, "label"), (f"a lamp {i}", f"lamp {i}, b", *make(i), i % 2)))
                for i in range(20)]
        FILES[f"{kind} in {more} and {others}"] = None, rows, {}, {
            "left": [f"a lamp {i} seen {i}" if is_text else f"a lamp {i}" for i in range(20)],
            "columns": (name, more, other, others, "label") if is_text else (name, other, "label")}

# names of classes that a table carries -> labels of the second class, or the words of the refusal
CLASSES = {("not_equivalent", "equivalent"): 1, ("no", "yes"): 1,
           ("equivalent", "not_equivalent"): "they are 'equivalent' .*--match WORD",
           ("entailment", "neutral", "contradiction"): "they are 'entailment' .*--match WORD"}
for names, expected in CLASSES.items():
    features = Features(dict.fromkeys(("sentence1", "sentence2"), Value("string")) | {
        "label": ClassLabel(names=list(names))})
    table = Dataset.from_dict({"sentence1": ["a", "b"], "sentence2": ["c", "d"], "label": [0, 1]}, features=features)
    for where, source in {"memory": (None, table), "a file": ("a.parquet", table.to_parquet)}.items():
        is_told = expected == 1
        FILES[f"classes {', '.join(names)} in {where}"] = *source, {}, pairs(0, 1) if is_told else expected
        if not is_told:
            FILES[f"classes {', '.join(names)} in {where}, as advised"] = *source, {"match": names[0]}, pairs(1, 0)


# ---------------------------------------------------------------- the sign between cells

GRID = [["one", "two", "label"], ["a lamp", "lamps", "1"], ["a chair, old; red|x", "a table", "0"],
        ["a rug", "rugs", "1"], ["an egg", "a mole", "0"]]


def between(sign, rows, quoting="needed", blanks=""):
    "A table as a spreadsheet writes it."
    def cell(text):
        needs = quoting == "all" or sign in text and sign != "\t"
        return f'"{text}"' if needs else text
    return "".join((sign + blanks).join(map(cell, row)) + "\n" for row in rows)


def ways_to_write(sign):
    "Yield what is odd about a file of the grid, its content, and the lines of its rows."
    plain, all_quoted = between(sign, GRID), between(sign, GRID, "all")
    for odd in (",", ";", "|", " , ; | "):
        yield f"{odd.strip()} in the header", between(sign, [[f"one{odd * 3}", f"two{odd * 3}", "label"], *GRID[1:]]), 2
    yield "a blank line first", "\n  \n" + plain, 4
    yield "empty rows behind", plain + f"{sign * 2}\n\n", 2
    yield "all in quotes", all_quoted, 2
    yield "with a mark and other ends of lines", "\ufeff" + plain.replace("\n", "\r\n"), 2
    yield "named in a first line", f"sep={sign}\r\n" + plain.replace("\n", "\r\n"), 3
    if sign != "\t":
        yield "blanks before quotes", between(sign, GRID, "all", " "), 2
        yield "two lines in a cell", all_quoted.replace("egg", "e\ngg"), 2


for sign, word in DELIMITERS.items():
    for end in (".csv", ".txt", ".tsv"):
        for odd, content, first in ways_to_write(sign):
            left = ["a lamp", "a chair, old; red|x", "a rug", "an e\ngg" if "two lines" in odd else "an egg"]
            FILES[f"{word} in {end}, {odd}"] = f"a{end}", content, {}, pairs(
                1, 0, 1, 0, left=left, right=[row[1] for row in GRID[1:]], line=[*range(first, first + 4)])
    FILES[f"a short row between {word}"] = ("a.csv", between(sign, [*GRID, ["short"]]), {},
                                            f"a.csv:6: 1 cell between {word}, the header has 3")


# ---------------------------------------------------------------- other formats, and what looks wrong and is not

ROWS = [("a red lamp", "lamp, red", 1), ("an old \"chair\"", "table", 0), ("größe", "one line", 1)]
FRAME = pd.DataFrame(ROWS, columns=["left", "right", "label"])
NAMED = FRAME.set_axis(["q", "right", "y"], axis=1).assign(brand=pd.array([1, None, 2], dtype="Int64"), more=1)
WRITERS = {
    "csv": lambda frame: lambda path: frame.to_csv(path, index=False),
    "tsv": lambda frame: lambda path: frame.to_csv(path, sep="\t", index=False),
    "jsonl": lambda frame: lines(*frame.astype(object).replace({pd.NA: None}).to_dict("records")),
    "parquet": lambda frame: frame.to_parquet,
}
for kind, written in WRITERS.items():
    FILES[f"{kind} of pandas"] = f"pairs.{kind}", written(FRAME), {}, pairs(
        1, 0, 1, left=[*FRAME.left], right=[*FRAME.right], name="pairs", note="")
    FILES[f"{kind} of pandas, columns named"] = (
        f"pairs.{kind}", written(NAMED), {"columns": ("q", "right", "y"), "group": "brand"},
        pairs(1, 0, 1, left=[*FRAME.left], group=["1", "(none)", "2"]))
TABBED = 'left\tright\tlabel\n"a\tb\t1\nc\td"\t0\n"e ""f"""\tg\t0\n"h" i\tj\t0\n'
FILES |= {
    "two lines in a cell": ("a.csv", HEAD + '"a\nb",c,1\nd,e,0\n', {}, pairs(1, 0, left=["a\nb", "d"], line=[2, 4])),
    "joiners": ("a.csv", HEAD + "می\u200cخواهم,b,1\n👩\u200d💻,c,0\n", {},
                pairs(1, 0, left=["می\u200cخواهم", "👩\u200d💻"])),
    "a line of JSON ends at a line feed": ("a.jsonl", JSON.replace('"a"', '"a\u2028b"'), {},
                                           pairs(1, 0, left=["a\u2028b"] * 2)),
    "a line of CSV ends there too": ("a.csv", HEAD + "a\u2028b,b,1\nc\x85\x0bd,e,0\n", {},
                                     pairs(1, 0, left=["a\u2028b", "c\x85\x0bd"])),
    "quotation marks between tabs": ("a.tsv", TABBED, {}, pairs(1, 0, 0, 0, left=['"a', "c", 'e "f"', '"h" i'])),
    "NA": ("a.csv", '"left";"right";"label"\n"a, b";"NA";"1"\nNA;b;0\n', {}, pairs(1, 0, left=["a, b", "NA"])),
    "a long cell": ("a.csv", HEAD + f"{'x' * 10**6},b,1\nc,d,0\n", {}, pairs(1, 0, left=["x" * 10**6, "c"])),
    "a semicolon in a header with commas": ("a.csv", "a;b," + HEAD + "x,y,z,1\n" + "x,y,w,0\n", {},
                                            pairs(1, 0, left=["y", "y"])),
}


# ---------------------------------------------------------------- shapes of JSON, splits, and rows that are chosen

BARE = [[*row.values()] for row in RECORDS]
SHAPES = {
    "objects in a list": json.dumps(RECORDS, indent=1), "lines in a .json": lines(*RECORDS),
    "objects in a list of lines": '[{"left": "a lamp", "right": "lamps", "label": 1},\n' + json.dumps(RECORDS[1]) + "]",
    "columns": json.dumps(pd.DataFrame(RECORDS).to_dict("list")), "pandas' to_json": pd.DataFrame(RECORDS).to_json(),
    "by row": pd.DataFrame(RECORDS).to_json(orient="index"),
    "rows in another order": json.dumps({"left": {"0": "a lamp", "1": "a chair"},
                                         "right": {"1": "a table", "0": "lamps"}, "label": {"0": 1, "1": 0}}),
    "texts and label": json.dumps([{"texts": row[:2], "label": row[2]} for row in BARE]),
    "lines of texts and label": lines(*({"texts": row[:2], "label": row[2]} for row in BARE)),
    "bare lists": json.dumps(BARE), "lines of bare lists": lines(*BARE),
    "an object in each row": lines(*({"pair": row} for row in RECORDS)),
}
FILES |= {f"JSON: {shape}": ("a.json", content, {}, pairs(1, 0, left=["a lamp", "a chair"], right=["lamps", "a table"],
                                                          line=[1, 2])) for shape, content in SHAPES.items()}
FILES |= {
    "a list in a .jsonl": ("a.jsonl", SHAPES["objects in a list of lines"], {}, pairs(1, 0, line=[1, 2])),
    "bare lists of three texts": ("a.jsonl", lines(["q", "p", "n"], ["r", "s", "t"]), {}, candidates(1, 0, 1, 0)),
    "bare lists of two texts": ("a.jsonl", lines(["q", "p"], ["r", "s"]), {}, retrieval(1, 1, corpus=["p", "s"])),
}

SPLIT = pd.DataFrame([*RECORDS, *RECORDS]).assign(split=["train", "test", "test", "test "], lang="en")
SPLIT_FILE = SPLIT.to_csv(index=False)
CHOSEN = pairs(0, 1, 0, line=[3, 4, 5], note="3 of 4 rows, where split=test; not used: lang (en 3)")
FILES |= {
    "a column that is not used": ("a.csv", SPLIT_FILE, {}, pairs(1, 0, 1, 0, note=(
        "not used: split (train 1, test 3), lang (en 4); --where COLUMN=VALUE chooses rows"))),
    "rows chosen behind the name": ("a.csv:split=test", SPLIT_FILE, {}, CHOSEN),
    "rows chosen by an option": ("a.csv", SPLIT_FILE, {"where": "split=test"}, CHOSEN),
    "what stands with the file counts": ("a.csv:split=test", SPLIT_FILE, {"where": "split=train"}, CHOSEN),
    "rows chosen in memory": (None, SPLIT, {"where": "split=test"}, CHOSEN | {"line": [2, 3, 4]}),
    "no row of a value": ("a.csv", SPLIT_FILE, {"where": "split=dev"}, r"no row where split=dev \(train 1, test 3\)$"),
    "a column with a typo": ("a.csv", SPLIT_FILE, {"where": "splt=test"}, "did you mean 'split'"),
    "a value alone": ("a.csv", SPLIT_FILE, {"where": "test"}, "COLUMN=VALUE"),
    "a value alone behind the name": ("a.csv:test", SPLIT_FILE, {}, "a.csv:test: the name must end"),
}
TRAIN, TEST = (Dataset.from_list(rows) for rows in (RECORDS * 3, RECORDS))
ON_DISK = {
    "several": DatasetDict(train=TRAIN, test=TEST).save_to_disk,
    "hub": {"data/train-00000-of-00001.parquet": TRAIN.to_parquet, "data/test-00000-of-00001.parquet": TEST.to_parquet},
    "lines": {"train.jsonl": lines(*RECORDS * 3), "test.jsonl": lines(*RECORDS)},
    "a.json": json.dumps({"train": RECORDS * 3, "test": RECORDS}),
}
for name, content in ON_DISK.items():
    FILES |= {f"{name}: splits": (name, content, {}, pairs(1, 0)),
              f"{name}: the test": (f"{name}:test", content, {}, pairs(1, 0)),
              f"{name}: training": (f"{name}:train", content, {}, pairs(*[1, 0] * 3)),
              f"{name}: no such split": (f"{name}:dev", content, {}, (
                  f"{name}: no split 'dev'; there are (test, train|train, test): name one"))}
FILES |= {
    "one of several in a file": ("a.json", ON_DISK["a.json"], {}, pairs(1, 0, note="read from the split test")),
    "one on disk": ("one", TEST.save_to_disk, {}, pairs(1, 0, note="read from data-00000-of-00001.arrow")),
    "splits without a test": ("a.json", json.dumps({"train": {"left": ["a"]}, "dev": {"left": ["b"]}}), {},
                              "no split 'test'; there are train, dev: name one of them, e.g. .*a.json:train"),
}


# ---------------------------------------------------------------- candidates

TRIPLETS = {"anchor": ["q", "r"], "positive": ["p", "s"], "negative": ["n", "t"]}
TRIPLES = candidates(1, 0, 1, 0, right=["p", "n", "s", "t"], query=[0, 0, 1, 1])
N_TUPLE = {"anchor": "q", "positive": "p", "negative_1": "n", "negative_2": "m"}
PASSAGES = {"query_id": "1", "query": "q", "positive_passages": [{"docid": "d1", "title": "T", "text": "p"}],
            "negative_passages": [{"docid": "d2", "title": "", "text": "n"}, {"docid": "d3", "text": "m"}]}
CONTEXTS = [{"title": "a", "text": "b"}, {"title": "c", "text": "d"}]
FLAG = {"query": "q", "pos": ["p"], "neg": ["n", "m"], "pos_scores": [1], "neg_scores": [0, 0], "prompt": "x",
        "type": "normal"}
COPIES = pd.DataFrame([("q", "p", "n", "x"), ("q", "n", "p", "y"), ("r", "p", "p", "x"), ("r", "s", "t", "z")],
                      columns=["anchor", "positive", "negative", "kind"])
SHUFFLED = {name: pd.Series(cells, ["x", "y"])[::-1 if name == "positive" else 1] for name, cells in TRIPLETS.items()}
FILES |= {
    "triplets": ("a.csv", pd.DataFrame(TRIPLETS).to_csv(index=False), {}, TRIPLES),
    "n-tuples": ("a.jsonl", lines(N_TUPLE, N_TUPLE | {"anchor": "r"}), {}, candidates(1, 0, 0, 1, 0, 0)),
    "a tuple that is shorter": ("a.jsonl", lines(N_TUPLE, {"anchor": "r", "positive": "p", "negative_1": "n"}), {},
                                candidates(1, 0, 0, 1, 0, query=[0, 0, 0, 1, 1])),
    "lists": ("a.jsonl", lines({"anchor": "q", "positive": ["p", "s"], "negative": ["n", "m"]}), {},
              candidates(1, 1, 0, 0, query=[0] * 4)),
    "FlagEmbedding": ("a.jsonl", lines(FLAG), {}, candidates(1, 0, 0)),
    "AnglE": ("a.jsonl", lines({"query": "q", "positive": "p", "negative": ["n", "m"]}), {}, candidates(1, 0, 0)),
    "Tevatron": ("a.jsonl", lines(PASSAGES), {}, candidates(
        1, 0, 0, right=["T p", "n", "m"], note="read as triplets: query, positive_passages, negative_passages")),
    "DPR": ("a.jsonl", lines({"question": "q", "answers": ["x"], "positive_ctxs": CONTEXTS[:1],
                              "hard_negative_ctxs": CONTEXTS[1:]}), {}, candidates(1, 0, right=["a b", "c d"])),
    "reranking": (None, [{"query": f"q {i}", "positive": "p", "documents": ["p", "m", "n"]} for i in range(3)], {},
                  candidates(*[1, 0, 0] * 3, right=["p", "m", "n"] * 3)),
    "Parquet with lists": ("a.parquet", {"query": ["q", "r"], "pos": [["p"], ["s"]], "neg": [["n", "m"], ["t"]]}, {},
                           candidates(1, 0, 0, 1, 0, query=[0, 0, 0, 1, 1])),
    "the same query twice": ("a.csv", "anchor,positive,negative\nq,p,n\nq,s,t\n", {}, TRIPLES),
    "columns named, of texts": ("a.csv", "q,p,y\na b,c d,e f\ng h,i j,k l\n", {"columns": ("q", "p", "y")},
                                candidates(1, 0, 1, 0)),
    "columns named, with the form": ("a.csv", "q,p,y\na,b,c\nd,e,f\n",
                                     {"columns": ("q", "p", "y"), "form": "candidates"}, candidates(1, 0, 1, 0)),
    "four columns named": ("a.csv", "q,p,y,z\na,b,c,d\n", {"columns": ("q", "p", "y", "z")}, candidates(1, 0, 0)),
    "negatives with the text of a match": (None, COPIES, {"group": "kind"}, candidates(
        1, 0, left=["r", "r"], right=["s", "t"], line=[4, 4], group=["z", "z"],
        left_out={"negatives with the text of a match": 3, "queries without a negative": 3})),
}
OF_DATASETS = Dataset.from_dict(TRIPLETS)
LIBRARIES = {
    "dict of lists": TRIPLETS, "pandas": pd.DataFrame(TRIPLETS), "datasets": OF_DATASETS, "Arrow": pa.table(TRIPLETS),
    "list of dicts": pd.DataFrame(TRIPLETS).to_dict("records"), "columns of datasets": {
        name: OF_DATASETS[name] for name in TRIPLETS},
    "dict of series": {key: pd.Series(cells) for key, cells in TRIPLETS.items()}, "series in several orders": SHUFFLED}
FILES |= {f"{library} in memory": (None, table, {"name": "mine"}, TRIPLES | {"name": "mine"})
          for library, table in (LIBRARIES | {"an iterator": TRIPLETS | {"positive": iter("ps")}}).items()}


# ---------------------------------------------------------------- retrieval

CORPUS = lines({"_id": "d1", "title": "T", "text": "x"}, {"_id": "d2", "title": "", "text": "y"},
               {"_id": "d3", "text": "z"})
QUERIES = lines({"_id": "0042", "text": "q"}, {"_id": "42", "text": "r"}, {"_id": "7", "text": "s"})
QRELS = "query-id\tcorpus-id\tscore\n0042\td1\t1\n0042\td2\t0\n42\td2\t2\n42\td3\t1\n"
BEIR = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels/test.tsv": QRELS}
SET = retrieval(1, 2, 1, left=["q", "r", "r"], right=["T x", "y", "z"], query=[0, 1, 1], document=[0, 1, 2],
                itself=[-1] * 3, corpus=["T x", "y", "z"], name="set")
BESIDE = {"corpus-backup.jsonl": CORPUS, "queries2.jsonl": QUERIES, "qrels/test copy.tsv": QRELS,
          "qrels/._test.tsv": "x", "before/corpus.jsonl": CORPUS}
JUDGED = {"query-id": ["0042", "42", "42"], "corpus-id": ["d1", "d2", "d3"], "score": [1, 2, 1]}
MTEB = {"corpus/corpus-00000-of-00002.parquet": {"_id": ["d1"], "title": ["T"], "text": ["x"]},
        "corpus/corpus-00001-of-00002.parquet": {"_id": ["d2", "d3"], "title": ["", ""], "text": ["y", "z"]},
        "queries/queries-00000-of-00001.parquet": {"_id": ["0042", "42", "7"], "text": ["q", "r", "s"]},
        "data/test-00000-of-00001.parquet": JUDGED}
NOT_JUDGED = {"queries without a judgment": 1}
LEFT_OUT = {"corpus.jsonl": CORPUS + lines({"_id": "d4", "title": "", "text": " "}, {"_id": "7", "text": "s"},
                                           {"_id": "8", "text": "other"}),
            "queries.jsonl": QUERIES + lines({"_id": "8", "text": "t"}, {"_id": "9", "text": "u"}),
            "qrels/test.tsv": QRELS + "7\td1\t1\n7\t7\t1\n8\td1\t1\n8\td1\t1\n7\td2\t0\n"}
FILES |= {
    "BEIR": ("set", BEIR, {}, SET | {"left_out": NOT_JUDGED | {"judgments with a grade below 1": 1}}),
    "grades written 1.0": ("set", BEIR | {"qrels/test.tsv": QRELS.replace("\t1\n", "\t1.0\n")}, {}, SET),
    "BEIR packed": ("set", {f"{name}.gz": text for name, text in BEIR.items()}, {}, SET),
    "another split": ("set:dev", BEIR | {"qrels/dev.tsv": QRELS, "qrels/test.tsv": ""}, {}, SET),
    "the only split": ("set", {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels/mine.tsv": QRELS}, {}, SET | {
        "note": "read as queries, corpus and judgments of the split mine"}),
    "id": ("set", {name: text.replace("_id", "id") for name, text in BEIR.items()}, {}, SET),
    "MTEB's Parquet": ("set", MTEB, {}, SET),
    "a hidden copy beside Parquet": ("set", MTEB | {"corpus/._corpus.parquet": "x"}, {}, SET),
    "another place for judgments": ("set", {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES,
                                            "default/test-00000-of-00001.parquet": JUDGED}, {}, SET),
    "copies beside the files of a set": ("set", BEIR | BESIDE, {}, SET),
    "an id with the same text twice": (
        "set", BEIR | {"corpus.jsonl": CORPUS * 3, "queries.jsonl": QUERIES * 2}, {}, SET | {"left_out": {
            "judgments with a grade below 1": 1, "queries with the id and the text of another": 3,
            "texts of the corpus with the id and the text of another": 6} | NOT_JUDGED}),
    "what is left out of retrieval": ("set", LEFT_OUT, {}, retrieval(
        1, 2, 1, 1, 1, corpus=["T x", "y", "z", "s", "other"], left=["q", "r", "r", "s", "t"], line=[2, 4, 5, 6, 8],
        itself=[-1, -1, -1, 3, -1], left_out=NOT_JUDGED | { # the query itself has its id and its text
            "judgments with a grade below 1": 2, "judgments with the texts of another": 1,
            "judgments of a query's own text": 1, "texts of the corpus with nothing to read": 1})),
    "few relevant texts": ("set", LEFT_OUT, {"match_from": 2}, retrieval(2, left=["r"], left_out=NOT_JUDGED | {
        "judgments with the texts of another": 1, "judgments with a grade below 2": 7,
        "queries without a grade of 2 or more": 3, "texts of the corpus with nothing to read": 1})),
    "a group of queries": ("set", BEIR | {"queries.jsonl": QUERIES.replace("}", ', "kind": "x"}', 1)},
                           {"group": "kind"}, SET | {"group": ["x", "(none)", "(none)"]}),
    "a group that queries do not have": ("set", BEIR, {"group": "kind"}, "queries.jsonl: no column 'kind'"),
}

# 42 and "42" are one id
THREE = {"queries": {"0042": "q", 42: "r"}, "corpus": {"d1": "x", "d2": {"title": "T", "text": "y"}},
         "relevant_docs": {"0042": {"d1"}, "42": ["d2", "d1"]}}
IN_JSON = THREE | {"relevant_docs": {"0042": ["d1"], "42": ["d2", "d1"]}, "mode": "text"}
OF_THREE = retrieval(1, 1, 1, left=["q", "r", "r"], right=["x", "x", "T y"], query=[0, 1, 1], document=[0, 0, 1],
                     corpus=["x", "T y"], line=[1, 2, 3])
FILES |= {
    "three dicts": (None, THREE, {"name": "mine"}, OF_THREE | {"name": "mine"}),
    "three dicts in JSON of many lines": ("a.json", json.dumps(IN_JSON, indent=1), {}, OF_THREE),
    "three dicts with grades": (None, THREE | {"relevant_docs": {"0042": {"d1": 1, "d2": 0}, 42: ["d2", "d1"]}}, {},
                                OF_THREE),
    "an id in place of a list": (None, THREE | {"relevant_docs": {"0042": "d1"}}, {},
                                 "relevant_docs:0042: ids of texts are expected"),
    "a number in place of a list": (None, THREE | {"relevant_docs": {"0042": 7}}, {},
                                    "relevant_docs:0042: ids of texts are expected"),
    "a corpus without ids": (None, THREE | {"corpus": ["x", "y"]}, {}, "corpus: a dict is expected"),
    "no relevant_docs": (None, {"queries": {}, "corpus": {}}, {}, "queries and corpus without relevant_docs"),
    "a text that is not there": (None, THREE | {"relevant_docs": {42: ["d9"]}}, {"name": "mine"},
                                 "mine: relevant_docs:42: text 'd9' is not in mine: corpus.*one in a hundred"),
    "rows of three dicts": (None, THREE, {"where": "split=test"},
                            "where reads labels or rows of a table, and there are none"),
}


def published(wrong, queries):
    "A set with one wrong judgment."
    many = range(queries)
    return {
        "corpus.jsonl": lines({"_id": "blank", "text": "\u200b"}, *({"_id": f"d{i}", "text": f"x {i}"} for i in many)),
        "queries.jsonl": lines(*({"_id": f"q{i}", "text": f"y {i}"} for i in many), {"_id": "none", "text": "no"}),
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\n" + "".join(f"q{i}\td{i}\t1\n" for i in many) + wrong + "\n"}


for wrong, reason in { # up to one in a hundred may be wrong
    "q3\tgone\t1": "judgments of a text that is not there", "gone\td3\t2": "judgments of a query that is not there",
    "q3\tblank\t1": "judgments of a text that is not there", "none\td3\t0": "queries without a grade of 1 or more",
}.items():
    counts = {reason: 1, "texts of the corpus with nothing to read": 1} | (
        {"judgments with a grade below 1": 1} if wrong.endswith("0") else NOT_JUDGED)
    FILES[f"one judgment in 120: {wrong}"] = "set", published(wrong, 120), {}, {
        "rows": 120, "texts": 120, "left_out": counts}
    FILES[f"one judgment in 40: {wrong}"] = "set", published(wrong, 40), {}, "set/qrels/test.tsv:42: "

ANSWERS = ["anchor,positive\nq,p\nr,s\nq,t\nr,q\nq,q\n", [("q", ["p", "t", "q"]), ("r", ["s", "q"])]]
FOUND = retrieval(1, 1, 1, 1, left=["q", "q", "r", "r"], queries=2, left_out={"pairs of a text with itself": 1})
IN_TURN = FOUND | {"right": ["p", "t", "s", "q"], "corpus": ["p", "s", "t", "q"], "document": [0, 2, 1, 3],
                   "itself": [3, 3, -1, -1]}
IN_LISTS = FOUND | {"right": ["p", "t", "s", "q"], "corpus": ["p", "t", "q", "s"], "document": [0, 1, 3, 2],
                    "itself": [2, 2, -1, -1]}
FILES |= {
    "anchor and positive": ("a.csv", ANSWERS[0], {}, IN_TURN | {"note": READ_AS}),
    "two columns named": ("a.csv", ANSWERS[0].replace("anchor,positive", "one,two"), {"columns": ("one", "two")},
                          IN_TURN),
    "sentences that all match": ("a.csv", ANSWERS[0].replace("anchor,positive", "sentence1,sentence2"),
                                 {"form": "retrieval"}, IN_TURN),
}
FILES |= {f"lists of {right}": ("a.jsonl", lines(*({left: query, right: texts} for query, texts in ANSWERS[1])), {},
                                IN_LISTS)
          for left, right in (("query", "positive"), ("query", "pos"), ("user_input", "reference_contexts"))}


# ---------------------------------------------------------------- grades, of which a round number is advised

for grades, least in {(0, 1, 2, 3): 1.5, (5, 4, 1): 3, (.25, .75, .8): .5, (-1, 0, 2): 1,
                      tuple(i / 5 for i in range(26)): 2.5, (10, 30, 40): 20, (2.4, 2.5, 2.6): 2.55,
                      (0, .1, .5, 1): .8}.items():
    table = {"left": [f"an egg {i}" for i in grades], "right": ["eggs"] * len(grades), "label": grades}
    FILES[f"grades {grades[:4]}"] = (None, table, {},
                                     f"; grades are read by --match-from {least} [(]match_from={least}[)]")
    FILES[f"grades {grades[:4]}, as advised"] = None, table, {"match_from": least}, pairs(
        *(int(grade >= least) for grade in grades))
FILES |= {
    "one grade alone": (None, SIDES | {"label": [3, 3]}, {}, "^(?!.*--match-from)"), # it has no other side
    "no grades": (None, SIDES | {"label": [10**7, 10**7 + 1]}, {}, "labels are 0 or 1, found 10000000"),
}


# ---------------------------------------------------------------- what is refused

BAD_JUDGMENTS = { # added to judgments -> words
    "9\td1\t1": "test.tsv:6: query '9' is not in .*queries.jsonl",
    "7\td9\t1": "test.tsv:6: text 'd9' is not in .*corpus.jsonl",
    "7\td9\t0": "test.tsv:6: text 'd9'",
    "7\td1\t0": "test.tsv:6: query '7' has no relevant text.*--match-from 1",
    "42\td2\t1": "test.tsv:6: .*judged twice, .*line 4",
    "7\td1\tyes": "test.tsv:6: a grade is expected, found 'yes'",
    "7\td1\t1e7": "test.tsv:6: a grade is expected, found '1e7'",
    "7\td1\t0.5": "test.tsv:6: grades are whole numbers.*--match-from",
    "7\td1": "test.tsv:6: 2 cells between tabs, the header has 3",
}
FILES |= {f"judgment {line}": ("set", BEIR | {"qrels/test.tsv": f"{QRELS}{line}\n"}, {}, words)
          for line, words in BAD_JUDGMENTS.items()}
FILES |= {name: ("set", BEIR | files, {}, words) for name, (files, words) in {
    "a run": ({"qrels/test.tsv": "7 Q0 d1 1 17.3 me\n"}, "test.tsv: no judgments"),
    "no header": ({"qrels/test.tsv": QRELS.partition("\n")[2]},
                  "test.tsv: judgments are expected, in columns query-id, corpus-id, score; found '0042'"),
    "an empty corpus": ({"corpus.jsonl": ""}, "corpus.jsonl: no texts"),
    "an id twice": ({"corpus.jsonl": CORPUS + CORPUS.replace('"x"', '"w"')},
                    "corpus.jsonl:4: the id 'd1' occurs twice, first in line 1, with another text"),
    "no id": ({"queries.jsonl": QUERIES + lines({"text": "t"})}, "queries.jsonl:4: column '_id': an id is expected"),
    "a number for a text": ({"corpus.jsonl": CORPUS.replace('"x"', '7')},
                            "corpus.jsonl:1: column 'text': a text is expected, found 7"),
    "a relevant text without a letter": (
        {"corpus.jsonl": CORPUS.replace('"y"', '" "')},
        "test.tsv:4: text 'd2' is not in .*corpus.jsonl, or has nothing to read there"),
    "lists as an id": ({"corpus.jsonl": CORPUS.replace('"d1"', DEEP)},
                       "corpus.jsonl:1: column '_id': an id is expected"),
    "half a character in an id": ({"corpus.jsonl": CORPUS.replace("d1", "d1\\ud800")},
                                  "corpus.jsonl:1: column '_id': an id is expected"),
}.items()}
SPLITS = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels/dev.tsv": QRELS, "qrels/train.tsv": QRELS}
FILES |= {
    "no corpus": ("set", {"queries.jsonl": QUERIES, "qrels/test.tsv": QRELS}, {},
                  "no corpus among its files .*qrels, queries.jsonl"),
    "no judgments": ("set", {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES}, {}, "no judgments among its files"),
    "no such split": ("set:dev", BEIR, {}, "no split 'dev'; there are test"),
    "several splits": ("set", SPLITS, {}, "there are dev, train: name one of them, e.g. .*set:dev"),
    "a folder of something else": ("set", {"a.txt": HEAD + TWO}, {},
                                   "no corpus and no queries and no judgments among its files"),
    "no query with a relevant text": ("set", BEIR, {"match_from": 3}, "test.tsv: no query with a relevant text"),
    "a folder asked as pairs": ("set", BEIR, {"form": "pairs"},
                                "form 'pairs' is requested, and it looks like 'retrieval'"),
    "lists among ids": ("a.json", json.dumps({"queries": {"q": "a"}, "corpus": {"d": "x"}, "relevant_docs": {
        "q": [["d"]]}}), {}, "text None is not in"),
}
TRIPLET = "anchor,positive,negative\nq,p,n\n"
LEFT_TWICE = pa.table([["a", "b"], ["a", "b"], ["c", "d"], [1, 0]], names=["left", "left", "right", "label"])
FILES |= {
    # columns
    "mixed rows": ("a.jsonl", lines(N_TUPLE, {"left": "a", "right": "b", "label": 1}), {},
                   "can be read in several ways"),
    "columns of another form": ("a.csv", TRIPLET, {"columns": ("left", "right", "label")},
                                "one column 'left' is expected, found 0 among anchor, positive, negative"),
    "a header that is data": ("a.csv", TWO, {}, "among the columns a lamp, lamps, 1; a file needs a header"),
    "no label": ("a.csv", "sentence1,sentence2\na,b\n", {},
                 "neither two texts with a label.*if all pairs match, --columns sentence1,sentence2"),
    "queries alone": ("a.csv", "query,postive\na,b\n", {},
                      "nor an anchor with its positive among the columns query, postive"),
    "another form": ("a.csv", TRIPLET, {"form": "retrieval"},
                     "form 'retrieval' is requested, and it looks like 'candidates' .*triplets: anchor, positive, "
                     "negative"),
    "a column twice": ("a.csv", "left,right,left,label\na,b,c,1\n", {},
                       "a.csv: one column 'left' is expected, found 2"),
    "a column twice in memory": (None, LEFT_TWICE.to_pandas(), {}, "one column 'left' is expected, found 2"),
    "a name that cannot be printed": ("a.jsonl", JSON.replace("right", "right\\udc00"), {},
                                      "a.jsonl: .*cannot be printed"),
    "a group with a typo": (None, FRAME, {"group": "brnd"}, "'brnd'"),
    "a group with half a character": ("a.jsonl", JSON.replace("}", ', "kind": "b\\udc00"}', 1), {"group": "kind"},
                                      "a.jsonl:1: column 'kind': a name of a group is expected"),
    # candidates
    "a query without a match": ("a.jsonl", lines({"query": "q", "pos": ["p"], "neg": ["n"]},
                                                 {"query": "r", "pos": [], "neg": ["n"]}), {},
                                "a.jsonl:2: column 'pos': a query without a match"),
    "an empty text in a list": ("a.jsonl", lines({"query": "q", "pos": ["p"], "neg": ["n", ""]}), {},
                                "a.jsonl:1: column 'neg'"),
    "texts beside themselves": ("a.csv", "anchor,positive\nq,q\n", {}, "a.csv: no pair of two different texts"),
    "no negative at all": ("a.jsonl", lines({"query": "q", "pos": ["p"], "neg": []}), {},
                           "no query with a negative"),
    "ids of documents": ("a.jsonl", lines(*({"query": f"q {i}", "pos": [i], "neg": [i + 1]} for i in range(9))), {},
                         "column 'pos' holds ids of documents, such as 0, not texts"),
    "names of documents": ("a.jsonl", lines(*({"query": f"q {i}", "pos": [f"d{i}"], "neg": [f"d{i + 1}"]}
                                              for i in range(9))), {}, "holds ids of documents, such as 'd0'"),
    "an instruction": ("a.jsonl", lines({"query": ["find", "q"], "pos": [["find", "p"]], "neg": [["find", "n"]]}), {},
                       "column 'query' holds lists, such as of an instruction and a text.*--prompts"),
    "a match of triplets": ("a.csv", TRIPLET, {"match": "yes"},
                            "match reads labels .*, and there are none .triplets: "),
    # labels
    "words": ("a.csv", HEAD + "a,b,yes\nc,d,no\n", {}, (
        r"a.csv:2: .*found 'yes'.*they are 'yes' \(1\), 'no' \(1\): say which one is a match, --match WORD$")),
    "-1 and 1 alone": ("a.csv", HEAD + "a,b,-1\nc,d,1\n", {}, "a.csv:2: .*--match WORD$"),
    "grades alone": ("a.csv", HEAD + "a,b,4.5\nc,d,1\n", {},
                     "a.csv:2: .*found '4.5'; grades are read by --match-from 3 "),
    "no label at all": ("a.csv", HEAD + "a,b,-\nc,d,\n", {"match": "yes"},
                        "a.csv: none of 2 pairs is left: 2 pairs without a label"),
    "a word that is no label": ("a.csv", WORDS, {"match": "true"}, "all 2 labels are 0.*labels are 'Yes', 'no'"),
    "blanks for no match": ("a.csv", HEAD + "a,b,x\nc,d,\ne,f,\n", {"match": "x"},
                            "all 1 labels are 1; both classes are needed .*; 2 pairs without a label left out"),
    "one class": ("a.csv", HEAD + "a,b,1\nc,d,1\n", {}, "a.csv: .*2 labels are 1"),
    "no grade": ("a.csv", HEAD + "a,b,5\nc,d,x\n", {"match_from": 4},
                 "a.csv:3: column 'label': a grade is expected, found 'x'"),
    "a label of lists": ("a.jsonl", '{"left": "a", "right": "b", "label": %s}\n' % DEEP, {},
                         "a.jsonl:1: column 'label'"),
    "another number": ("a.csv", HEAD + TWO + "a,b,2\n", {}, "a.csv:4: .*'label'.*'2'"),
    "no label in a row": ("a.csv", HEAD + TWO + "a,b,\n", {}, "a.csv:4: .*'label'.*''"),
    "nearly 0": ("a.csv", HEAD + TWO + "a,b,1e-400\n", {}, "a.csv:4: .*'1e-400'"),
    "digits of another script": ("a.csv", HEAD + TWO + "a,b,١\n", {}, "a.csv:4: "),
    "a missing label": (None, FRAME.assign(label=pd.array([1, None, 0], dtype="Int64")), {"name": "mine"},
                        "mine:2: column 'label'"),
    # texts
    "numbers": ("a.csv", HEAD + "17,b,1\n18,c,0\n", {}, "a.csv: .*'left'.*'17'"),
    "no text": ("a.csv", HEAD + TWO + " ,b,1\n", {}, "a.csv:4: .*'left'.*' '"),
    "no width": ("a.csv", HEAD + TWO + "\u200b \u2060\ufeff,c,1\n", {}, "a.csv:4: .*'left'"),
    "NUL": ("a.csv", HEAD + TWO + "a\0b,c,1\n", {}, "a.csv:4: "),
    "a key that is missing": ("a.jsonl", JSON + '{"left": "a", "label": 1}', {}, "a.jsonl:3: .*'right'"),
    "a number": ("a.jsonl", JSON + '{"left": "a", "right": 7, "label": 1}', {}, "a.jsonl:3: .*'right'.*7"),
    "half a character": ("a.jsonl", JSON + '{"left": "a", "right": "b\\ud83d", "label": 1}', {},
                         "a.jsonl:3: .*'right'"),
    "a missing text": (None, FRAME.assign(right=pd.array(["x", None, "y"], dtype="string")), {"name": "mine"},
                       "mine:2: column 'right'"),
    "series without a row": (None, SHUFFLED | {"positive": pd.Series({"x": "p", "w": "u"})}, {}, "a text is expected"),
    # cells
    "an open quote": ("a.csv", HEAD + TWO + '"a,b,1\nc,d,0\n', {}, "a.csv:4: "),
    "a bad quote": ("a.csv", HEAD + TWO + '"a"x,b,1\n', {}, "a.csv:4: "),
    "broken at once": ("a.csv", '"left"s,right,label\n' + "a,b,1\n" * (FIRST_CHARACTERS // 6), {}, "a.csv:1: "),
    "a cell of two lines between tabs": ("a.tsv", 'left\tright\tlabel\na\tb\t1\n"c\nd"\te\t0\n', {},
                                         "a.tsv:3: 1 cell .*Between tabs.*CSV or JSONL"),
    "a tab between quotation marks": ("a.tsv", 'left\tright\tlabel\n"a\tb"\tc\t1\n', {},
                                      "a.tsv:2: 4 cells.*Between tabs"),
    # files
    "empty": ("a.csv", "", {}, "a.csv: no pairs"),
    "a header alone": ("a.csv", HEAD, {}, "a.csv: no pairs"),
    "another encoding": ("a.csv", (HEAD + "größe,b,1\n").encode() + "größe,b,0\n".encode("latin1"), {},
                         "a.csv:3: not UTF-8"),
    "UTF-16": ("a.csv", (HEAD + TWO).encode("utf-16"), {}, "a.csv:1: "),
    "JSON that is cut off": ("a.json", '[{"left": "a"},\n {"left": "b"}\n', {}, "a.json:3: Expecting"),
    "no JSON": ("a.jsonl", JSON + "{", {}, "a.jsonl:3: "),
    "no object": ("a.jsonl", JSON + "[1]", {}, "a.jsonl:3: .*list"),
    "a key twice": ("a.jsonl", JSON + '{"left": "a", "left": "b"}', {}, "a.jsonl:3: .*'left'"),
    "brackets": ("a.jsonl", JSON + "[" * 100_000, {}, "a.jsonl:3: "),
    "columns of several lengths": ("a.json", '{"left": ["a"], "right": ["b", "c"]}', {}, "same length"),
    "no Parquet": ("a.parquet", "PAR0 this is none", {}, "a.parquet: "),
    "a packed file that is cut off": (
        "a.csv.gz", lambda path: path.write_bytes(gzip.compress((HEAD + TWO).encode())[:-5]), {},
        "a.csv.gz: the file is damaged"),
    "a file that unpacks without end": ("a.csv.gz", lambda path: path.write_bytes(gzip.compress(bytes(2**24)) * 16), {},
                                        "a.csv.gz: the file is damaged: unpacked it is 200 times as large"),
    "a name without an ending": ("set/pairs", HEAD + TWO, {}, "the name must end in one of"),
    "a pipe": ("a.tsv", os.mkfifo, {}, "a.tsv: a file is expected"), # nobody ever writes into it
    "a device": ("a.tsv", lambda path: path.symlink_to("/dev/zero"), {}, "a.tsv: a file is expected"),
    "no file": ("a.csv", None, {}, "a.csv: no such file"),
    **{f"the name {name[:9]!r}": (name, None, {}, "no such file") for name in (
        "a\0.csv", "a\udc80.csv", f"{'long' * 80}.csv")},
    # what stands in a file does not steer a terminal
    **{f"an escape: {text[:9]!r}": ("a.csv", text, {}, "a.csv") for text in (
        f"le{ESCAPE}ft,right,label\na,b\n", f"left,le{ESCAPE}ft,lable\n{TWO}", f"l{ESCAPE}e,a,b\n",
        f"{HEAD}{TWO}a,b,{ESCAPE}\n", f"\x1b[2J\x00\x7f{HEAD}{TWO}")},
    "an escape in a name": ("a.jsonl", json.dumps({"left": "a", f"x{ESCAPE}": 1, f"x{ESCAPE}y": 2}), {}, "a.jsonl"),
    # what is in memory
    "rows without names": (None, ROWS, {}, "pairs: .* list"),
    "nothing to read": (None, None, {"name": "new"}, "new: .* NoneType"),
    **{f"no rows: {table!r:.9}": (None, table, {}, "no pairs") for table in (
        {}, [], {"left": [], "right": [], "label": []}, pd.DataFrame(columns=["anchor", "positive"]), TEST.select([]))},
    **{f"a column that is {cells!r}": (
        None, TRIPLETS | {"positive": cells}, {}, "a list of cells is expected, and 'positive' is a")
       for cells in ("q", 7, {"x": "p"})},
    "splits by name": (None, DatasetDict(train=TEST, test=TEST), {"name": "mine"}, (
        r"mine: a list of cells is expected, and 'train' is a Dataset; a table is passed alone, as in ds\['train'\]")),
    **{f"a score {score!r:.9}": (None, SIDES | {"label": [1, 0], "old": [0, 1], "mine": [score, 0]}, SCORED,
                                 "column 'mine': a finite score is expected, found")
       for score in (True, float("nan"), 10**400, None, "high")},
}
for what, (table, words) in { # where half of a character may stand
    "a label": (SIDES | {"label": ["1", HALF]}, "'label'.*found"),
    "a match": ({"anchor": ["a", "b"], "positive": ["c", HALF]}, "'positive'"),
    "a list of negatives": ({"anchor": ["a", "b"], "positive": ["c", "d"], "negative": [["e"], ["f", HALF]]},
                            "'negative'"),
    "a query": ({"queries": {"q": HALF}, "corpus": {"d": "x"}, "relevant_docs": {"q": ["d"]}},
                "query 'q' is not in .*has nothing to read"),
    "an id": ({"queries": {"q": "a"}, "corpus": {"d": "x"}, "relevant_docs": {"q": [HALF]}}, "is not in"),
}.items():
    FILES |= {f"half of {what} in memory": (None, table, {}, words),
              f"half of {what} in a file": ("a.json", json.dumps(table), {}, words)}
FILES |= {f"options {options}": (None, SIDES | {"label": [1, 0]}, options, words) for options, words in (
    ({"form": "triplets"}, "no form 'triplets'"), ({"match": "yes", "match_from": 3}, "got both"),
    ({"other_to": 2}, "needs match_from"), ({"match_from": 2, "other_to": 2}, "must be below"),
    ({"match_from": "4"}, "a number is expected"), ({"columns": ("left",)}, "left, right and label"),
    ({"columns": ("left", "left", "label")}, "three different names"))}


def with_checksum(first):
    "Parquet whose page of left texts, aaaa and bbbb, is changed behind its checksum."
    def write(path):
        pq.write_table(pa.table({"left": ["aaaa", "bbbb"], "right": ["cccc", "dddd"], "label": [1, 0]}), path,
                       compression="none", use_dictionary=False, write_page_checksum=True, write_statistics=False)
        path.write_bytes(path.read_bytes().replace(b"aaaa", first))
    return write


def damaged(name):
    "Parquet in which a name or a cell is no UTF-8 any more."
    def write(path):
        FRAME.to_parquet(path)
        path.write_bytes(path.read_bytes().replace(name.encode(), b"\xc3(" + name.encode()[2:]))
    return write


FILES |= {
    "Parquet with a checksum": ("a.parquet", with_checksum(b"aaaa"), {}, pairs(1, 0, left=["aaaa", "bbbb"])),
    "Parquet with a bit that flipped": ("a.parquet", with_checksum(b"aaba"), {}, "a.parquet: .*(checksum|CRC)"),
    "Parquet with a damaged text": ("a.parquet", damaged("größe"), {}, "a.parquet: "),
    "Parquet with a damaged name": ("a.parquet", damaged("left"), {}, "a.parquet: "),
    "Parquet with a column twice": ("a.parquet", lambda path: pq.write_table(LEFT_TWICE, path), {},
                                    "one column 'left' is expected, found 2"),
}


# ---------------------------------------------------------------- texts without labels

FIVE = pd.DataFrame({"id": range(5), "text": ["a lamp, boxed", "a chair", "NA", "two desks", "a rug"]})
ODD_TEXTS = ["a\u2028b", "c\x0cd", "e\x85f\x1cg"]
TEXTS = {f"texts, a column of {kind}{part}": (f"texts.{kind}{part}", written(FIVE), {}, [*FIVE.text])
         for kind, written in WRITERS.items() for part in ("", ":text")}
TEXTS |= {f"texts between {end!r}": ("new.txt", "\ufeff" + end.join([*ODD_TEXTS, " ", "\u200b\u2060", ""]), {},
                                     ODD_TEXTS) for end in ("\n", "\r\n", "\r")}
TEXTS |= {f"texts with signs: {texts[0]}": ("new.txt", "\n".join(texts), {}, texts) for texts in (
    ["a lamp, red", "a chair, old", "a rug, new"], ["one; two", "three; four"], ["a|b", "c"],
    ["[1] a reference", "another"], ["'a', \"b\"", "c"], ["no sign", "1,000 lamps", "a lamp\tof two"], ["[a] b", "c"],
    ["a, b, c", "d, e, f", "g, h, i"])}
TABLE_ROWS = [["left", "right", "label"], ["a lamp, boxed", "lamps", "1"], ["a chair", "a table; old", "0"],
              ["a rug", "rugs | mats", "1"]]
NO_TEXTS = { # rows of a table
    "objects": lines(*RECORDS), "lists": lines(*BARE), "anchors": "anchor,positive\r\na lamp,lamps\r\na rug,rugs\r\n",
    **{f"{word}{', without a header' * bare}{', without labels' * short}": between(
        sign, [row[:-1] if short else row for row in TABLE_ROWS[bare:]], "all" if sign != "\t" else "needed")
       for sign, word in DELIMITERS.items() for bare in (0, 1) for short in (0, 1)}}
TEXTS |= {f"texts that are {what}": ("new.txt", content, {}, (
    "new.txt: its lines look like rows of a table.*write one text per line, or give it the ending of a table"))
    for what, content in NO_TEXTS.items()}
TEXTS |= {
    "texts of a column that is not there": ("texts.csv:words", WRITERS["csv"](FIVE), {},
                                            "no column 'words'.* 'id', 'text'.*name the column"),
    "texts of pairs": ("new.csv", HEAD + TWO, {}, "no column 'text' .*'left', 'right', 'label'"),
    "texts without a header": ("new.tsv", "a\nb\n", {}, "no column 'text'"),
    "texts of a header alone": ("new.csv", "text\n", {}, "no texts"),
    "a text without width": ("new.csv", "text\na\n\u200b\n", {}, "new.csv:3: "),
    "texts of another encoding": ("new.txt", b"a\nb\n\xff\n", {}, "txt:3: not UTF-8"),
    "a text with NUL": ("new.txt", "a\nb\0\n", {}, "NUL"),
    "texts of a pipe": ("new.txt", os.mkfifo, {}, "new.txt: a file is expected"),
    "texts of a device": ("new.tsv", lambda path: path.symlink_to("/dev/zero"), {}, "new.tsv: a file is expected"),
    **{f"a list with the text {text!r}": (None, ["a lamp", text], {}, "number 1 has") for text in (
        "", " \u200b", "a\0", "b\ud83d")},
}


# ---------------------------------------------------------------- runs of a search

RUN = [["q0", "d1", .5], ["q0", "d2", .25], ["q1", "d1", 1.]]
RUN_ROWS = pd.DataFrame(RUN, columns=["q_id", "doc_id", "score"])
LINES = "q0 Q0 d1 1 0.5 me\nq0 Q0 d2 2 0.25 me\nq1 Q0 d1 1 1.0 me\n"
RESULTS_OF = lines({"query_id": "q0", "results": [{"corpus_id": "d1", "score": .5}, {"corpus_id": "d2", "score": .25}]},
                   {"query_id": "q1", "results": [{"corpus_id": "d1", "score": 1}]})
RUNS = {
    "ranx, CSV": ("a.csv", RUN_ROWS.to_csv(index=False), {}, RUN),
    "ranx, Parquet": ("a.parquet", RUN_ROWS.to_dict("list"), {}, RUN),
    "other names": ("a.csv", RUN_ROWS.set_axis(["query-id", "corpus-id", "Score"], axis=1).to_csv(), {}, RUN),
    "TREC": ("a.trec", LINES, {}, RUN), "five cells": ("a.trec", LINES.replace(" me", ""), {}, RUN),
    "other ends of lines": ("a.trec", LINES.replace("\n", "\r\n"), {}, RUN),
    "results of sentence-transformers": ("a.jsonl", RESULTS_OF, {}, RUN),
    "runs in dicts": (None, {"q0": {"d1": .5, "d2": .25}, "q1": {"d1": 1.}}, {}, RUN),
    "ids without scores": ("a.json", '{"q0": ["d1", "d2"], "q1": ["d1"]}', {},
                           "ids of texts without scores; write ranks as scores"),
    "ColBERT's lines": ("a.tsv", "0\t17\t1\t23.5\n0\t4\t2\t22.5\n", {},
                        "as ColBERT writes them, are read with a header"),
    "columns of something else": ("a.csv", "query,text,grade\nq,d,1\n", {},
                                  "one run is expected, .*found the columns 'query', 'text', 'grade'"),
    "two ids of queries": ("a.csv", "query,query_id,doc_id,score\nan egg,q,d,1\n", {}, "found the columns"),
    "objects in objects": ("a.json", '{"a":' * 900 + "1" + "}" * 900, {}, "one run is expected"),
    "no results": ("a.jsonl", lines({"query_id": "q", "results": [1]}), {}, "a.jsonl:1: results are expected"),
    **{f"{what} as an id of a run": ("a.jsonl", content, {}, "a.jsonl:1: ids of a query and a text are expected")
       for what, content in {
           "a list": lines({"query_id": ["q"], "results": [{"corpus_id": "d", "score": 1}]}),
           "lists": '{"query_id": "q", "results": [{"corpus_id": %s, "score": 1}]}' % DEEP,
           "half a character": lines({"query_id": "q\ud800", "results": [{"corpus_id": "d", "score": 1}]})}.items()},
    "a number without end": ("a.json", '{"q": {"d": 1%s}}' % ("0" * 400), {},
                             "a.json:q: a finite score is expected, found 1000"),
    "true": ("a.json", '{"q": {"d": true}}', {}, "a.json:q: a finite score is expected, found True"),
    "nothing is ranked": ("a.trec", "", {}, "nothing is ranked"),
    "no run": ("a.trec", None, {}, "a.trec: no such file"),
    **{f"the line of a run {line[:30]!r}": ("a.trec", line, {}, f"a.trec:{words}") for line, words in {
        "q0 Q0 d1 1 1" + 400 * "0" + " x\n": "1: a finite score is expected, found '10000",
        "q0 Q0 d1 1 true x\n": "1: a finite score is expected, found 'true'",
        "q0 Q0 d1 1\n": "1: five or six cells are expected",
        "q0 Q0 d1 1 nan x\nq0 Q0 d2 2 inf x\n": "1: a finite score is expected, found 'nan'; .*:2: .* found 'inf'",
        "q0 Q0 d1 1 .5 x\n\nq0 Q0 d1 2 .4 x\n": "3: query 'q0' ranks text 'd1' twice",
        "q0 Q0 d1 1 .5 x\nq1 Q0 d1 1 .9 x\nq0 Q0 d2 2 .6 x\n":
            "3: rank 2 of query 'q0' scores higher than the rank before; if scores are distances",
        "q0 Q0 d1 first .5 x\n": "1: a finite rank is expected, found 'first'"}.items()},
}


# ---------------------------------------------------------------- results of mteb

def result(*scores, split="test", **also):
    "A file as mteb writes it; another split than the test is read where there is no test."
    rows = [{"hf_subset": "default", "main_score": score} for score in scores]
    both = {split: rows} | ({} if split == "dev" else {"dev": [{"hf_subset": "default", "main_score": .9}]})
    return json.dumps({"task_name": "A", "dataset_revision": "a", "scores": both} | also)


RESULTS = {
    "results of a model": ("base", {"m/1/A.json": result(.5), "m/1/B.json": result(.6, split="dev"),
                                    "m/1/C_predictions.json": "[]", "m/1/model_meta.json": "{}"}, {},
                           {"A": .5, "B": .6}),
    "no results of mteb": ("base", {"similarity_evaluation_results.csv": "epoch,steps\n"}, {},
                           "base: .* found 0; similarity_evaluation_results.csv and 0 other files"),
    "other files": ("base", {"a.txt": ""}, {}, "found 0; 1 files are there, such as a.txt"),
    "an empty folder": ("base", {}, {}, "base: results of one model are expected, .* found 0; no file is there"),
    "results of two models": ("base", {"m/1/A.json": result(.5), "n/1/A.json": result(.5)}, {},
                              "base: results of one model are expected, .* found 2: .*m/1, .*n/1"),
    "results of two revisions": ("base", {"m/1/A.json": result(.5), "m/2/A.json": result(.5)}, {},
                                 "found 2: .*m/1, .*m/2"),
    "percent": ("base", {"A.json": result(58.)}, {},
                "A.json: a main score is a number, a fraction from -1 to 1, found 58.0"),
    "two scores of a subset": ("base", {"A.json": result(.5, .6)}, {},
                               "A.json: test has two scores of the subset 'default', 0.5 and 0.6"),
    "mteb 1": ("base", {"A.json": result(scores=[1], mteb_dataset_name="A")}, {},
               "A.json: no result of mteb: .* it is a result of mteb 1"),
    "results that are cut off": ("base", {"A.json": '{"scores": {"test": ['}, {}, "A.json:1: "),
    "the oldest form": ("base", {"A.json": result(scores={"test": {"cos_sim": .5}})}, {},
                        "A.json: no result of mteb: scores by split are expected"),
    "no subset": ("base", {"A.json": result(scores={"test": [{"main_score": .5}]})}, {}, "A.json: no result of mteb"),
}
DECLARED = {f"declared {content}": ("base", {"model_meta.json": content}, {}, expected) for content, expected in {
    '{"training_datasets": ["A ", ""]}': ["A"], '{"training_datasets": {"B": ["train"]}}': ["B"], "{}": [],
    **dict.fromkeys(('"a"', "3", "null", "[1]", '{"training_datasets": 3}', '{"training_datasets": [3]}'),
                    "model_meta.json: an object is expected")}.items()}


# ---------------------------------------------------------------- each row is read

def texts_of(source):
    return read_held_texts(source).texts


def run_of(source):
    return read_run(source).to_numpy().tolist()


def scores_of(folder):
    return read_results(folder).droplevel([1, 2, 3]).to_dict()


TABLES = [(read_pairs_file, FILES), (texts_of, TEXTS), (run_of, RUNS), (scores_of, RESULTS), (declared_sets, DECLARED)]
ROWS_OF_ALL = {name: (read, *row) for read, table in TABLES for name, row in table.items()}
READ = {name: row for name, row in ROWS_OF_ALL.items() if not isinstance(row[-1], str)}
REFUSED = {name: row for name, row in ROWS_OF_ALL.items() if isinstance(row[-1], str)}


def looked_at(source, options):
    "What a command looks at before pandas is loaded."
    if isinstance(source, str):
        assert named_tests([f"new={source}"]) == {"new": source}
        check_header(source, options_from(**options))


@pytest.mark.parametrize("read, name, content, options, expected", READ.values(), ids=READ)
def test_what_is_read(tmp_path, read, name, content, options, expected):
    source = placed(tmp_path, name, content)
    found = read(source, **options)
    if read is read_pairs_file:
        assert all(isinstance(text, str) for text in [*found.left, *found.right])
        looked_at(source, options)
        found = {what: seen(found, what) for what in expected}
    assert found == expected


@pytest.mark.parametrize("read, name, content, options, words", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(tmp_path, read, name, content, options, words):
    source = placed(tmp_path, name, content)
    with pytest.raises(DataError) as e:
        read(source, **options)
    said = str(e.value)
    assert re.search(words, said) and "\n" not in said, said
    if read is read_pairs_file:
        try:
            looked_at(source, options)
        except DataError as early:
            assert str(early) == said


def is_of_the_sample(place, read, name, content, options, words):
    "Of what a command can name each third file, and all whose bytes are odd."
    can_be_named = read is read_pairs_file and isinstance(content, (str, bytes, dict)) and name is not None
    is_odd = isinstance(content, bytes) or "\x1b" in str(content)
    return can_be_named and options.keys().isdisjoint({"form", "scores"}) and (place % 3 == 0 or is_odd)


SAMPLE = {key: row[1:] for place, (key, row) in enumerate(REFUSED.items()) if is_of_the_sample(place, *row)}


@pytest.mark.parametrize("name, content, options, words", SAMPLE.values(), ids=SAMPLE)
def test_a_command_refuses_it_in_one_line(tmp_path, name, content, options, words):
    source = placed(tmp_path, name, content)
    there = sorted(tmp_path.rglob("*"))
    given = [f"--{option.replace('_', '-')}={','.join(value) if isinstance(value, tuple) else value}"
             for option, value in options.items()]
    command = ["diagnose", "--base=none", "--tuned=none", f"--test=new={source}", *given]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit) and not done.stdout
    assert re.search(words, done.stderr.rstrip("\n")) and done.stderr.count("\n") == 1, done.stderr
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", done.stderr), repr(done.stderr)
    assert sorted(tmp_path.rglob("*")) == there


def test_what_is_the_same_has_the_same_sha256(tmp_path):
    folders = [placed(tmp_path / str(place), "set", BEIR | beside) for place, beside in enumerate(({}, {}, BESIDE))]
    assert len({read_pairs_file(folder).sha256 for folder in folders}) == 1
    libraries = map(read_pairs_file, LIBRARIES.values())
    assert len({(file.sha256, file.rows_sha256) for file in libraries}) == 1


def test_what_was_read_otherwise_has_another_sha256(tmp_path):
    others = [read_pairs_file(table) for table in (
        {"anchor": ["q", "q"], "positive": ["p", "s"]}, TRIPLETS, TRIPLETS | {"negative": ["n", "u"]}, THREE,
        THREE | {"corpus": THREE["corpus"] | {"d3": "z"}})]
    assert len({file.sha256 for file in others}) == 5
    frame = FRAME.assign(label2=1 - FRAME.label)
    others += [read_pairs_file(frame, columns, group) for columns, group in (
        (("left", "right", "label"), None), (("right", "left", "label"), None), (("left", "right", "label2"), None),
        (("left", "right", "label"), "label2"))]
    assert len({file.rows_sha256 for file in others}) == 9
    texts = placed(tmp_path, "texts.csv:text", WRITERS["csv"](FIVE))
    held = read_held_texts(texts)
    assert held.path == texts and held.sha256 == sha256_file(tmp_path / "texts.csv")


# ---------------------------------------------------------------- what is said before a file is read

BEFORE_PANDAS = """
import sys
from debias_nb.commands.cli import app
for command in sys.argv[1:]:
    print(app(command.split(), standalone_mode=False))
print("pandas" in sys.modules or "torch" in sys.modules)
"""
NO_FILE = "pair.csv: no such file; did you mean 'pairs.csv'?"
DIAGNOSE = "diagnose --base none --tuned none --test new=wrong.csv"
COMPARE = "compare --base none --train pairs.csv --test new=pairs.csv"
EARLY = { # a command -> words of its refusal
    "diagnose --base none --tuned none --train pairs.csv --test new=pair.csv": NO_FILE,
    "compare --base none --train pairs.csv --test new=pair.csv": NO_FILE,
    f"{COMPARE} --validation kept=pair.csv": NO_FILE, f"{COMPARE} --texts pair.csv:left": NO_FILE,
    DIAGNOSE: "wrong.csv: neither two texts with a label nor an anchor with its positive",
    f"{DIAGNOSE} --columns one,two,label": "wrong.csv: one column 'label' is expected, found 0 among",
    f"{DIAGNOSE} --group kind": "wrong.csv: neither two texts with a label",
    f"{DIAGNOSE} --columns one,two,three --group kind": "wrong.csv: one column 'kind' is expected, found 0 among",
    f"{DIAGNOSE} --columns one,two,three --where four=a": "wrong.csv: where: one column 'four' is expected, found 0",
    f"{DIAGNOSE} --columns old=one,two,three": "columns: there is no file called 'old'",
    f"{DIAGNOSE} --out .": "index.html: the file exists, and is no page of debias-nb",
}


def test_files_headers_and_folders_are_refused_before_pandas_is_loaded(tmp_path):
    placed(tmp_path, "pairs.csv", HEAD + TWO)
    placed(tmp_path, "wrong.csv", "one,two,three\nan egg,eggs,1\na mole,planes,0\n")
    placed(tmp_path, "index.html", "mine")
    done = subprocess.run([sys.executable, "-c", BEFORE_PANDAS, *EARLY], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == ["2"] * len(EARLY) + ["False"], done.stderr
    assert all(words in line for words, line in zip(EARLY.values(), done.stderr.splitlines(), strict=True))


def test_signs_that_steer_a_terminal_are_told_by_their_numbers():
    assert visible("größe\t\u200d\n\x9b\u202e\ud83d") == "größe\t\u200d\n\\x9b\\u202e\\ud83d"


@pytest.mark.parametrize("read", [read_pairs_file, read_texts, read_run])
def test_a_name_that_is_not_utf8_is_told(tmp_path, read):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.csv")
    try:
        Path(path).write_text("text\na lamp\n")
    except OSError:
        pytest.skip("no such names on this file system")
    with pytest.raises(DataError, match=r"/a\\udcff.csv: the name of the file is not UTF-8; rename it"):
        read(path)


@pytest.mark.parametrize("source", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_a_configuration_that_never_ends_is_no_file(tmp_path, source):
    with pytest.raises(ConfigError, match="a.yaml: a file is expected"):
        load_yaml(Path(placed(tmp_path, "a.yaml", source)))


def test_columns_by_the_name_of_a_file():
    assert columns_by_name([]) == {}
    assert columns_by_name(["a,b", "new=question1,question2,is_duplicate"]) == {
        None: ("a", "b"), "new": ("question1", "question2", "is_duplicate")}
    for given in (["a,b", "c,d"], ["new=a,b", "new=c,d"], ["a"], ["=a,b"], ["new=a,"]):
        with pytest.raises(ConfigError, match="--columns"):
            columns_by_name(given)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_test_may_be_a_file_of_any_format(tmp_path, kind):
    for name in (f"a{kind}", f"a{kind}.gz"):
        path = placed(tmp_path, name, "")
        assert named_tests([f"new={path}"]) == {"new": path}
    with pytest.raises(DataError, match="no such file"):
        named_tests([f"new={tmp_path}/none{kind}"])


def test_what_was_read_is_read_no_more():
    file = read_pairs_file(TRIPLETS)
    assert read_pairs_file(file) is file


def test_copies_of_a_text_are_folded_to_one():
    (first, second), right = read_pairs_file(SIDES | {"left": ["An egg", "An egg"], "label": [1, 0]}).folded
    assert (first, right) == ("anegg", ["c", "d"]) and first is second


def test_rows_are_chosen_in_tests_and_not_in_training():
    files = read_named_files(SPLIT, {"new": SPLIT}, where="split=test")
    assert [len(file) for file in files.values()] == [4, 3]


def test_general_texts_are_questions_with_answers_and_sundry_sentences(monkeypatch, tmp_path):
    rows = "index\tquestion\tsentence\tlabel\n0\twhy?\tso\tentailment\n1\thow?\tthus\tentailment\n"
    asked = placed(tmp_path, "qnli-dev.tsv", rows)
    monkeypatch.setattr("debias_nb.data.sentences.locate", lambda dataset, file, download: Path(asked))
    monkeypatch.setattr("debias_nb.data.sentences._left_over", lambda kind, download: ["a man", "so", "a word"])
    assert read_texts("general") == ["why?", "how?", "so", "thus", "a man", "a word"]
    with pytest.raises((OSError, ValueError)):
        read_texts(Path("general")) # a file of this name


