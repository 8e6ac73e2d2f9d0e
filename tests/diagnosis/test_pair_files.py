"A user's files, one row a case: its content and options, and what is read of it, or the words of the refusal."
import gzip
import json
import re
import shlex
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from datasets import ClassLabel, Dataset, DatasetDict

from debias_nb.data.registry import DataError
from debias_nb.diagnosis.pairs import LABELS, read_named_files, read_pairs_file

LEFT, RIGHT = ["a lamp", "a red chair"], ["lamps of old", "the table"]
TWO = "a lamp,lamps of old,1\na red chair,the table,0\n"
ROWS = [{"left": left, "right": right, "label": label} for left, right, label in zip(LEFT, RIGHT, [1, 0])]
PAIRS = ("pairs", LEFT, RIGHT, [1, 0])
TRIPLETS = {"one": LEFT, "two": RIGHT, "three": ["no lamp", "no chair"]}
READ_TRIPLETS = ("candidates", np.repeat(LEFT, 2).tolist(), ["lamps of old", "no lamp", "the table", "no chair"],
                 [1, 0, 1, 0])
BEIR = {
    "corpus.jsonl": '{"_id": "d1", "title": "T", "text": "x"}\n{"_id": "d2", "text": "y"}\n{"_id": "7", "text": "q"}\n',
    "queries.jsonl": '{"_id": "7", "text": "q"}\n{"_id": "42", "text": "r"}\n{"_id": "9", "text": "s"}\n',
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\n7\td1\t1\n7\t7\t1\n42\td2\t2\n42\td1\t0\n"}
MANY = [f"a question {number}" for number in range(20)] # of which no two are the same


def frame(**columns):
    return pd.DataFrame(columns)


def pairs(labels, name="label", **columns):
    return pd.DataFrame(columns | {"a": MANY[:len(labels)], "b": MANY[::-1][:len(labels)], name: labels})


def with_names_of_classes(path):
    data = Dataset.from_dict({"a": LEFT, "b": RIGHT, "label": [1, 0]})
    data.cast_column("label", ClassLabel(names=["other", "equivalent"])).to_parquet(path)


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


def zipped(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", "left,right,label\n" + TWO)


READ = { # content, options -> form, left, right, label
    **{f"label called {name}": (pd.DataFrame({"a": LEFT, "b": RIGHT, name: [1, 0]}), {}, PAIRS) for name in LABELS},
    "a label that comes first": (frame(label=[1, 0], a=LEFT, b=RIGHT), {}, PAIRS),
    "commas": (("a.csv", "left,right,label\n" + TWO), {}, PAIRS),
    "semicolons, packed, with a mark": (
        ("a.csv.gz", "\ufeffleft;right;label\na, lamp;lamps;1.0\n\nNA;null b;false\n"), {},
        ("pairs", ["a, lamp", "NA"], ["lamps", "null b"], [1, 0])),
    "decimals": (("a.csv", "a,b,label\na lamp,lamps of old,1.00\na red chair,the table,0.000e+00\n"), {}, PAIRS),
    "tabs and quotation marks": (("a.tsv", 'x\ty\tlabel\n"a x\tb y\t1\n"c ""d"""\te f"\t0\n'), {},
                                 ("pairs", ['"a x', 'c "d"'], ["b y", 'e f"'], [1, 0])),
    "lines of JSON": (("a.jsonl", "\n".join(map(json.dumps, ROWS))), {}, PAIRS),
    "Parquet": (("a.parquet", pd.DataFrame(ROWS).to_parquet), {}, PAIRS),
    "a Dataset": (Dataset.from_list(ROWS), {}, PAIRS),
    "a split": (("folder:train", DatasetDict(train=Dataset.from_list(ROWS), test=Dataset.from_list(ROWS[::-1])
                                             ).save_to_disk), {}, PAIRS),
    "Quora": (("a.tsv", "id\tqid1\tquestion1\tquestion2\tis_duplicate\n0\t1\ta b\tc d\t1\n1\t3\td e\tf g\t0\n"),
              {"columns": "question1,question2,is_duplicate"}, ("pairs", ["a b", "d e"], ["c d", "f g"], [1, 0])),
    "single words, when they are named": (frame(x=["lamp", "chair"], y=["lamps", "table"], z=[1, 0]),
                                          {"columns": ("x", "y", "z")},
                                          ("pairs", ["lamp", "chair"], ["lamps", "table"], [1, 0])),
    "names that are numbers": (pd.DataFrame({0: LEFT, 1: RIGHT, 2: [1, 0]}), {"columns": (0, 1, 2)}, PAIRS),
    "words": (frame(a=LEFT, b=RIGHT, label=["Match", "no match"]), {"match": "match"}, PAIRS),
    "grades": (frame(a=LEFT, b=RIGHT, score=["4.5", "2"]), {"match_from": 4}, PAIRS),
    "names of classes": (("a.parquet", with_names_of_classes), {"match": "equivalent"}, PAIRS),
    "triplets": (frame(**TRIPLETS), {}, READ_TRIPLETS),
    "triplets of Arrow": (pa.table(TRIPLETS), {}, READ_TRIPLETS),
    "triplets of which one has no second negative": (frame(**TRIPLETS, four=["", "a stool"]), {}, (
        "candidates", np.repeat(LEFT, [2, 3]).tolist(),
        ["lamps of old", "no lamp", "the table", "no chair", "a stool"], [1, 0, 1, 0, 0])),
    "the same in lines of JSON": (("a.jsonl", '{"x": "a b", "y": "c d", "n": "e f"}\n{"x": "g h", "y": "i j"}'), {},
                                  ("candidates", ["a b", "a b"], ["c d", "e f"], [1, 0])),
    "anchor and positive": (frame(x=["a q", "a r", "a q"], y=["a p", "a s", "a t"]), {},
                            ("retrieval", ["a q", "a q", "a r"], ["a p", "a t", "a s"], [1, 1, 1])),
    "BEIR": (("set", BEIR), {}, ("retrieval", ["q", "r"], ["T x", "y"], [1, 2])),
    "BEIR, from a grade on": (("set:test", BEIR), {"match_from": 2}, ("retrieval", ["r"], ["y"], [2])),
}
REFUSED = { # content, options -> words
    "ids beside": (("a.csv", "id,a,b,label\n1,x y,y z,0\n2,z x,w y,1\n"), {}, r"are id \(no texts\), a, b, label\."),
    "ids of letters": (frame(key=["q1", "q2"], a=LEFT, b=RIGHT), {}, r"key \(ids\), a, b"),
    "dates": (frame(when=["2024-01-01", "2024-01-02"], a=LEFT, b=RIGHT), {}, r"when \(no texts\)"),
    "a third column of few values": (pairs(["in", "out"] * 10, "gold"), {}, r"gold \(few values\)"),
    "another name of a label": (frame(a=LEFT, b=RIGHT, is_duplicate=[1, 0]), {}, r"is_duplicate \(no texts\)"),
    "lists": (frame(a=LEFT, b=[["x"], ["y", "z"]]), {}, r"b \(lists\).*give each text of a list a row of its own"),
    "lists that were written": (frame(a=LEFT, b=["['x', 'y']", "['z']"]), {}, r"b \(lists\).* ast.literal_eval"),
    "messages": (("a.jsonl", '{"said": [{"role": "user", "content": "x"}], "b": "y z"}'), {}, r"said \(lists\)"),
    "one column": (frame(text=LEFT), {}, r"its columns are text\. The order of columns counts"),
    "a typo": (pd.DataFrame(ROWS), {"columns": "left,rigth,label"}, "column 'rigth' is expected.*did you mean 'right'"),
    "one class": (pd.DataFrame(ROWS[:1]), {}, "all 1 labels are 1"),
    "a match that no label is": (pairs([0, 1]), {"match": "yes"}, r"\(a match is labeled yes\): .* has '0' 1 times"),
    "grades alone": (pairs([0, 5]), {}, "labels are 0 or 1, found 5; they are '0' 1 times, '5' 1 times"),
    "words alone": (pairs(["match", "no match"]), {}, "'match' 1 times, 'no match' 1 times"),
    "names of classes alone": (("a.parquet", with_names_of_classes), {}, "'equivalent' 1 times"),
    "an empty text": (("a.csv", "a,b,label\n x,,1\ny z,z,0\n"), {}, "a.csv:2: column 'b': a text is expected"),
    "no label in a row": (pairs(["yes", "-"]), {"match": "yes"}, "pairs:2: column 'label': a label is expected"),
    "a short row": (("a.csv", "a,b,label\nx a,y,1\nz\n"), {}, "a.csv:3: column 'b': a text is expected, found ''"),
    "a long row": (("a.csv", "a,b,label\nx,y,1\nz,w,0,1\n"), {}, "a.csv: .*Expected 3 fields in line 3, saw 4"),
    "a header without names": (("a.csv", "sep=,\na,b,label\n"), {}, "a.csv: "),
    "half a character": (("a.jsonl", '{"a": "x x", "b": "y z\\udfff"}\n{"a": "x y", "b": "y x"}'), {},
                         "a.jsonl:1: column 'b': a text is expected"),
    "a key twice": (("a.jsonl", '{"a": "x", "a": "y"}'), {}, "a.jsonl: "),
    "lists of JSON": (("a.jsonl", '["x y", "z w"]'), {}, "an object is expected in each line"),
    "no UTF-8": (("a.csv", lambda path: path.write_bytes(b"a,b,label\n\xff,y,1\n")), {}, "a.csv: 'utf-8' codec"),
    "an archive": (("a.csv", zipped), {}, "a.csv: a zip archive; unpack it first"),
    "packed twice": (("a.csv.gz", lambda path: path.write_bytes(gzip.compress(gzip.compress(b"a")))), {},
                     r"a.csv.gz: packed by gzip \(once more"),
    "not packed": (("a.csv.gz", lambda path: path.write_bytes(b"a,b")), {}, "a.csv.gz: Not a gzipped file"),
    "no file": ("nowhere.csv", {}, "nowhere.csv: no such file"),
    "another ending": ("a.json", {}, "the name must end in one of .csv"),
    "no table": ([{"a": "x"}], {}, "a path, a data frame or a Dataset is expected, got"),
    "no qrels": (("set", {"corpus.jsonl": BEIR["corpus.jsonl"]}), {}, "no queries|qrels"),
    "another split": (("set:dev", BEIR), {}, "no split 'dev'; there are test"),
    "a match where there is no label": (frame(a=LEFT, b=RIGHT), {"match": "x"}, "name it last in columns"),
    "two grades of a text": (("set", BEIR | {"qrels/test.tsv": BEIR["qrels/test.tsv"] + "42\td2\t1\n"}), {},
                             "set:6: one grade"),
    "judgments of what is not there": (("set", BEIR | {"qrels/test.tsv": BEIR["qrels/test.tsv"] + "42\td9\t1\n"}), {},
                                       "1 of 5 judgments name .*'42', 'd9'"),
}


@pytest.mark.parametrize("content, options, expected", READ.values(), ids=READ)
def test_what_is_read(tmp_path, content, options, expected):
    file = read_pairs_file(written(tmp_path, content), **options)
    assert (file.form, file.left, file.right, file.labels.tolist()) == expected
    assert len(file.sha256) == len(file.rows_sha256) == 64
    assert all(f"{column}" in file.summary for column in file.columns), "the screen names the columns"


@pytest.mark.parametrize("content, options, words", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(tmp_path, content, options, words):
    with pytest.raises(DataError) as e:
        read_pairs_file(written(tmp_path, content), **options)
    assert re.search(words, str(e.value)) and "\n" not in str(e.value), e.value


ADVISED = { # content -> what its advice reads; None: there is none
    "an id beside": (pairs([0, 1], id=[1, 2]), ("pairs", ["a", "b", "label"])),
    "names that are numbers": (pairs([1, 0]).set_axis([0, 1, 2], axis=1), ("pairs", ["0", "1", "2"])),
    "the longest texts, not the first": (
        pairs([0, 1] * 5, "same", key=[f"k{i}" for i in range(10)], kind=["x y"] * 10),
        ("pairs", ["a", "b", "same"])),
    "a label of words": (pairs(["in", "out"] * 10, "gold"), ("pairs", ["a", "b", "gold"])),
    "words of a label": (pairs(["in", "out"]), ("pairs", ["a", "b", "label"])),
    "three grades": (pairs([0, 1, 2]), ("pairs", ["a", "b", "label"])),
    "two texts and a number": (frame(a=LEFT, b=RIGHT, price=[3.5, 4]), ("pairs", None)),
    "a split beside": (pairs([0, 1] * 10, split=["test"] * 20), ("pairs", ["a", "b", "label"])),
    "lists": (frame(a=LEFT, b=[["x"], ["y"]]), None),
    "numbers alone": (frame(a=[1, 2], b=[3, 4], label=[0, 1]), None),
    "a name with a comma": (pd.DataFrame({"a,b": LEFT, "c": RIGHT, "n": [1, 2]}), None),
}


@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize("content, expected", ADVISED.values(), ids=ADVISED)
def test_what_is_advised_is_pasted_and_reads_what_it_names(tmp_path, content, expected, as_file):
    source = content
    if as_file:
        source = tmp_path / "a.parquet"
        content.set_axis([*map(str, content.columns)], axis=1).to_parquet(source)
    options = {}
    for _ in range(2): # a second advice may say what a match is
        try:
            file = read_pairs_file(source, **options)
            break
        except DataError as e:
            message = str(e)
        form = r"--(columns|match) ('[^']+'|\S+)" if as_file else r"(columns|match)=('[^']*')"
        given = dict(re.findall(form, message))
        given = {name: shlex.split(value.rstrip(",;"))[0] for name, value in given.items()}
        if not given:
            assert expected is None, message
            return
        if "match" in given: # VALUE is one of those that are listed
            assert given["match"] == "VALUE"
            values = re.findall(r"'([^']+)' [\d,]+ times", message)
            assert len(values) > 1
            given["match"] = values[0]
        options |= given
    assert expected and file.form == expected[0], message
    assert expected[1] is None or list(file.columns) == expected[1]


def test_a_label_is_what_the_collator_of_sentence_transformers_takes_for_one():
    from sentence_transformers.base.data_collator import DEFAULT_LABEL_COLUMNS
    assert LABELS == DEFAULT_LABEL_COLUMNS


def test_a_query_that_stands_in_the_corpus_is_not_its_own_answer(tmp_path):
    file = read_pairs_file(written(tmp_path, ("set", BEIR)))
    assert file.frame["itself"].tolist() == [2, -1] and file.left_out == {
        "judgments with a grade below 1": 1, "judgments of a query's own text": 1, "queries without a relevant text": 1}


def test_negatives_with_the_text_of_a_match_are_left_out():
    file = read_pairs_file(frame(q=["a q", "a q"], p=["a p", "a r"], n=["a r", "a x"]))
    assert file.left_out["negatives with the text of a match"] == 1
    assert "1 negative with the text of a match left out" in file.summary


def test_each_file_of_a_command_has_columns_of_its_own(tmp_path):
    table = frame(id=[1, 2], a=LEFT, b=RIGHT, same=[1, 0])
    files = read_named_files(table, {"new": pd.DataFrame(ROWS)}, {"train": ("a", "b", "same")})
    assert [*files] == ["train", "new"] and files["train"].columns == ("a", "b", "same")
    for wrong in ({}, {"train": table}, {"a\nb": table}, table, "new.csv"):
        with pytest.raises(DataError):
            read_named_files(None, wrong)


@pytest.mark.parametrize("path", sorted((Path(__file__).parent / "own_cases").glob("*")), ids=lambda path: path.name)
def test_files_that_people_have(path):
    "Small files in shapes that were met; own_cases.json says what is read of each, or the words of its refusal."
    expected = json.loads((Path(__file__).parent / "own_cases.json").read_text())[path.name]
    try:
        file = read_pairs_file(path, **expected.get("options", {}))
        found = [file.form, len(file), int((file.labels > 0).sum()), ",".join(file.columns)]
    except DataError as e:
        found = str(e).replace(str(path), path.name)
    assert found == expected["read"] if isinstance(found, list) else expected["refused"] in found
