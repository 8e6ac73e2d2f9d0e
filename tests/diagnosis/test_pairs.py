"A user's files, one row per case: its content, options, and what is read of it, or the words of the refusal."
import gzip
import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from datasets import Dataset, DatasetDict

from debias_nb.data.registry import DataError
from debias_nb.diagnosis.pairs import LABELS, read_named_files, read_pairs_file

TWO = "a lamp,lamps,1\na chair,a table,0\n"
ROWS = [{"left": "a lamp", "right": "lamps", "label": 1}, {"left": "a chair", "right": "a table", "label": 0}]
TRIPLETS = {"one": ["q", "r"], "two": ["p", "s"], "three": ["n", "t"]}
BEIR = {
    "corpus.jsonl": '{"_id": "d1", "title": "T", "text": "x"}\n{"_id": "d2", "text": "y"}\n{"_id": "7", "text": "q"}\n',
    "queries.jsonl": '{"_id": "7", "text": "q"}\n{"_id": "42", "text": "r"}\n{"_id": "9", "text": "s"}\n',
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\n7\td1\t1\n7\t7\t1\n42\td2\t2\n42\td1\t0\n"}
THREE = {"queries": {"7": "q", 42: "r"}, "corpus": {"d1": "x", "d2": "y"}, "relevant_docs": {"7": {"d1"}, 42: ["d2"]}}


def written(folder, content):
    "Where the content stands, as a reader takes it."
    if not isinstance(content, tuple):
        return content
    name, text = content
    path = folder / name.partition(":")[0]
    if callable(text):
        text(path)
    elif isinstance(text, dict):
        for inner, part in text.items():
            (path / inner).parent.mkdir(parents=True, exist_ok=True)
            (path / inner).write_text(part)
    else:
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return f"{folder}/{name}"


READ = { # -> form, left, right, label
    **{f"label called {name}": ({"a": ["x", "y"], "b": ["z", "w"], name: [1, 0]}, {},
                                ("pairs", ["x", "y"], ["z", "w"], [1, 0])) for name in LABELS},
    "a label that comes first": ({"label": [1, 0], "a": ["x", "y"], "b": ["z", "w"]}, {},
                                 ("pairs", ["x", "y"], ["z", "w"], [1, 0])),
    "commas": (("a.csv", "left,right,label\n" + TWO), {}, 
               ("pairs", ["a lamp", "a chair"], ["lamps", "a table"], [1, 0])),
    "semicolons, packed, with a mark": (("a.csv.gz", "\ufeffleft;right;label\na, lamp;lamps;1.0\n\na;b;false\n"), {},
                                        ("pairs", ["a, lamp", "a"], ["lamps", "b"], [1, 0])),
    "tabs and quotation marks": (("a.tsv", 'x\ty\tlabel\n"a\tb\t1\n"c ""d"""\te"\t0\n'), {},
                                 ("pairs", ['"a', 'c "d"'], ["b", 'e"'], [1, 0])),
    "lines of JSON": (("a.jsonl", "\n".join(map(json.dumps, ROWS))), {},
                      ("pairs", ["a lamp", "a chair"], ["lamps", "a table"], [1, 0])),
    "columns of JSON": (("a.json", json.dumps(pd.DataFrame(ROWS).to_dict("list"))), {},
                        ("pairs", ["a lamp", "a chair"], ["lamps", "a table"], [1, 0])),
    "Parquet": (("a.parquet", pd.DataFrame(ROWS).to_parquet), {},
                ("pairs", ["a lamp", "a chair"], ["lamps", "a table"], [1, 0])),
    "a split": (("folder:train", DatasetDict(train=Dataset.from_list(ROWS), test=Dataset.from_list(ROWS[::-1])
                                             ).save_to_disk), {},
                ("pairs", ["a lamp", "a chair"], ["lamps", "a table"], [1, 0])),
    "Quora": (("a.tsv", "id\tqid1\tquestion1\tquestion2\tis_duplicate\n0\t1\ta\tb\t1\n1\t3\td\te\t0\n"),
              {"columns": "question1,question2,is_duplicate"}, ("pairs", ["a", "d"], ["b", "e"], [1, 0])),
    "words": ({"a": ["x", "y"], "b": ["z", "w"], "label": ["Yes", "no"]}, {"match": "yes"},
              ("pairs", ["x", "y"], ["z", "w"], [1, 0])),
    "grades": ({"a": ["x", "y"], "b": ["z", "w"], "score": ["4.5", "2"]}, {"match_from": 4},
               ("pairs", ["x", "y"], ["z", "w"], [1, 0])),
    "triplets": (TRIPLETS, {}, ("candidates", ["q", "q", "r", "r"], ["p", "n", "s", "t"], [1, 0, 1, 0])),
    "triplets of Arrow": (pa.table(TRIPLETS), {}, ("candidates", ["q", "q", "r", "r"], ["p", "n", "s", "t"], [1, 0, 1, 0])),
    "lists": ([{"query": "q", "pos": ["p", "s"], "neg": ["n", "m"]}], {},
              ("candidates", ["q"] * 4, ["p", "s", "n", "m"], [1, 1, 0, 0])),
    "anchor and positive": ({"x": ["q", "r", "q"], "y": ["p", "s", "t"]}, {},
                            ("retrieval", ["q", "q", "r"], ["p", "t", "s"], [1, 1, 1])),
    "BEIR": (("set", BEIR), {}, ("retrieval", ["q", "r"], ["T x", "y"], [1, 2])),
    "three dicts": (THREE, {}, ("retrieval", ["q", "r"], ["x", "y"], [1, 1])),
}
REFUSED = {
    "columns beside": (("a.csv", "id,a,b,label\n1,x,y,0\n2,z,w,1\n"), {}, r"its columns are id \(no texts\), a, b, label.*"
                       "sentence-transformers.*--columns a,b,label"),
    "another name of a label": ({"a": ["x", "y"], "b": ["z", "w"], "is_duplicate": [1, 0]}, {},
                                r"is_duplicate \(no texts\).*--columns a,b,is_duplicate"),
    "a typo": (ROWS, {"columns": "left,rigth,label"}, "one column 'rigth' is expected.*did you mean 'right'"),
    "one class": (ROWS[:1], {}, "all 1 labels are 1"),
    "grades alone": ({"a": ["x", "y"], "b": ["z", "w"], "score": [0, 5]}, {}, "labels are 0 or 1.*--match-from 2.5"),
    "words alone": ({"a": ["x", "y"], "b": ["z", "w"], "label": ["in", "out"]}, {}, "'in' .1.*--match WORD"),
    "an empty text": (("a.csv", "a,b,label\n x,,1\ny,z,0\n"), {}, "a.csv:2: column 'b': a text is expected, found ''"),
    "no label in a row": ({"a": ["x", "y"], "b": ["z", "w"], "label": ["yes", "-"]}, {"match": "yes"},
                          "pairs:2: column 'label': a label is expected"),
    "a short row": (("a.csv", "a,b,label\nx,y,1\nz\n"), {}, "a.csv:3: column 'b': a text is expected, found ''"),
    "a long row": (("a.csv", "a,b,label\nx,y,1\nz,w,0,1\n"), {}, "a.csv: .*Expected 3 fields in line 3, saw 4"),
    "a header without names": (("a.csv", "sep=,\na,b,label\n"), {}, "a.csv: "),
    "rows that are longer than the header": (("a.csv", "a,b,label\nx,y,1,0\nz,w,0,1\n"), {}, "a.csv: Length of header"),
    "half a character": (("a.jsonl", '{"a": "x", "b": "y\\udfff", "label": 1}\n{"a": "x", "b": "y", "label": 0}'), {},
                         "a.jsonl:1: column 'b': a text is expected"),
    "no UTF-8": (("a.csv", lambda path: path.write_bytes(b"a,b,label\n\xff,y,1\n")), {}, "a.csv: 'utf-8' codec"),
    "no file": ("nowhere.csv", {}, "nowhere.csv: no such file"),
    "another ending": ("a.xlsx", {}, "the name must end in one of .csv"),
    "no qrels": (("set", {"corpus.jsonl": BEIR["corpus.jsonl"]}), {}, "no queries and no qrels|qrels"),
    "another split": (("set:dev", BEIR), {}, "no split 'dev'; there are test"),
    "judgments of what is not there": (("set", BEIR | {"qrels/test.tsv": BEIR["qrels/test.tsv"] + "42\td9\t1\n"}), {},
                                       "1 of 5 judgments name .*'42', 'd9'"),
}


@pytest.mark.parametrize("content, options, expected", READ.values(), ids=READ)
def test_what_is_read(tmp_path, content, options, expected):
    file = read_pairs_file(written(tmp_path, content), **options)
    assert (file.form, file.left, file.right, file.labels.tolist()) == expected
    assert len(file.sha256) == len(file.rows_sha256) == 64


@pytest.mark.parametrize("content, options, words", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(tmp_path, content, options, words):
    with pytest.raises(DataError) as e:
        read_pairs_file(written(tmp_path, content), **options)
    assert re.search(words, str(e.value)) and "\n" not in str(e.value), e.value


def test_a_label_is_what_the_collator_of_sentence_transformers_takes_for_one():
    from sentence_transformers.base.data_collator import DEFAULT_LABEL_COLUMNS
    assert LABELS == DEFAULT_LABEL_COLUMNS


def test_a_query_that_stands_in_the_corpus_is_not_its_own_answer(tmp_path):
    file = read_pairs_file(written(tmp_path, ("set", BEIR)))
    assert file.frame["itself"].tolist() == [2, -1] and file.left_out == {
        "judgments with a grade below 1": 1, "judgments of a query's own text": 1, "queries without a relevant text": 1}


def test_negatives_with_the_text_of_a_match_are_left_out():
    rows = pd.DataFrame([("q", "p", "n"), ("q", "n", "p"), ("r", "s", "t")], columns=["a", "b", "c"])
    file = read_pairs_file(rows)
    assert file.left == ["r", "r"] and file.left_out["negatives with the text of a match"] == 2


def test_files_have_columns_by_name():
    files = read_named_files(ROWS, {"new": {"x": ["a", "b"], "y": ["c", "d"], "z": [1, 0]}}, {"new": ("x", "y", "z")})
    assert [*files] == ["train", "new"] and all(np.array_equal(file.labels, [1, 0]) for file in files.values())
    with pytest.raises(ValueError, match="there is no file called 'old'"):
        read_named_files(ROWS, {"new": ROWS}, {"old": ("x", "y")})
