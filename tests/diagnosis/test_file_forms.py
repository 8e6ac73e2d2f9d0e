"Files in the forms that people's tools write: which form each one is, what comes of it, and what is refused with its line."
import gzip
import json
import os
import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, DatasetDict

from debias_nb.checks import ConfigError, counted
from debias_nb.diagnosis.files.pairs_file import read_named_files, read_pairs_file
from debias_nb.diagnosis.options import columns_by_name, named_tests
from debias_nb.diagnosis.files.run_files import read_run
from debias_nb.data.tables import FORMATS
from debias_nb.data.texts import read_texts_file
from debias_nb.data.registry import DataError
from debias_nb.diagnosis.page import file_notes

HEAD = "left,right,label\n"
TWO = "a lamp,lamps,1\na chair,a table,0\n"


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def placed(folder, files):
    "Files by name: a text, bytes, or rows of a Parquet file."
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            pq.write_table(pa.table(content), path)
        else:
            data = content if isinstance(content, bytes) else content.encode()
            path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return folder


def found(file):
    "Form, rows, matches, queries, texts in the corpus."
    queries = file.frame["query"].nunique() if "query" in file.frame else 0
    return file.form, len(file), int((file.labels > 0).sum()), queries, len(file.corpus or ())


# ---------------------------------------------------------------- labeled pairs


PAIRS = { # name of the file, content, options, labels
    "sentence-transformers": ("a.csv", "sentence1,sentence2,label\n" + TWO, {}, [1, 0]),
    "Quora": ("a.tsv", 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\ta "b\tc\t1\n1\t3\t4\td\te"\t0\n',
              {}, [1, 0]),
    "capitals": ("a.tsv", "QuestionID\tQuestion\tSentence\tLabel\nQ0\ta\tb\t1\nQ0\ta\tc\t0\n", {}, [1, 0]),
    "Microsoft's paraphrases": ("a.tsv", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\ta\tb\n0\t3\t4\tc\td\n",
                                {}, [1, 0]),
    "SNLI": ("a.jsonl",
             lines(*({"premise": "a", "hypothesis": "b", "gold_label": x} for x in ("entailment", "neutral", "-"))),
             {"match": "entailment"}, [1, 0]),
    "yes and no": ("a.csv", HEAD + "a,b,Yes\nc,d,no\n", {"match": "yes"}, [1, 0]),
    "-1 and 1": ("a.csv", HEAD + "a,b,-1\nc,d,1.0\n", {"match": 1}, [0, 1]),
    "grades": ("a.csv", "sentence1,sentence2,score\na,b,4.5\nc,d,3.9\ne,f,0\n", {"match_from": 4}, [1, 0, 0]),
    "grades with a gap": ("a.csv", "sentence1,sentence2,score\na,b,4\nc,d,3.9\ne,f,2\n",
                          {"match_from": 4, "other_to": 2}, [1, 0]),
    "packed": ("a.csv.gz", HEAD + TWO, {}, [1, 0]),
    "JSON": ("a.json", json.dumps([{"left": "a", "right": "b", "label": 1}, {"left": "c", "right": "d", "label": 0}],
                                  indent=1), {}, [1, 0]),
    "lines in a .json": ("a.json", lines({"left": "a", "right": "b", "label": 1},
                                         {"left": "c", "right": "d", "label": 0}), {}, [1, 0]),
    "a list in a .jsonl": ("a.jsonl", '[{"left": "a", "right": "b", "label": 1},\n{"left": "c", "right": "d", "label": '
                                      '0}]', {}, [1, 0]),
    "columns in a .json": ("a.json", '{"left": ["a", "c"], "right": ["b", "d"], "label": [1, 0]}', {}, [1, 0]),
    "tabs in a .txt": ("a.txt", "sentence1\tsentence2\tlabel\na\tb\t1\nc\td\t0\n", {}, [1, 0]),
    "semicolons, packed": ("a.csv.gz", "left;right;label\na, b;c;1\nd;e;0\n", {}, [1, 0]),
    "Magellan, joined": ("a.csv", "id,left_id,left_title,left_price,right_id,right_title,right_price,label\n0,1,a "
                                  "lamp,9,2,lamp,,1\n1,1,b,,2,c,8,0\n", {}, [1, 0]),
    "lists of one label": ("a.jsonl", lines({"left": "a", "right": "b", "label": ["yes"]},
                                            {"left": "c", "right": "d", "label": ["no"]}), {"match": "yes"}, [1, 0]),
    "decimal commas": ("a.csv", "left;right;score\na;b;4,25\nc;d;3,5\ne;f;1\n", {"match_from": 4}, [1, 0, 0]),
    "a pair next to a pair of names": ("a.jsonl",
                                       lines({"fandoms": ["x", "y"], "pair": ["a long text", "b"], "same": 1},
                                             {"fandoms": ["x", "z"], "pair": ["c", "d long"], "same": 0}),
                                       {"columns": ("anchor", "positive", "same")}, [1, 0]),
    "columns named": ("a.csv", "q,p,y\na,b,1\nc,d,0\n", {"columns": ("q", "p", "y")}, [1, 0]),
    "texts named, with a label beside": ("a.csv", "q,p,score\na,b,1\nc,d,0\n", {"columns": ("q", "p")}, [1, 0]),
}


@pytest.mark.parametrize("name, content, options, labels", PAIRS.values(), ids=PAIRS)
def test_labeled_pairs_are_told_by_their_names(tmp_path, name, content, options, labels):
    file = read_pairs_file(placed(tmp_path, {name: content}) / name, **options)
    assert file.form == "pairs" and file.labels.tolist() == labels
    assert all(isinstance(text, str) for text in [*file.left, *file.right])


@pytest.mark.parametrize("label", ["label", "labels", "score", "Scores", "relevance"])
@pytest.mark.parametrize("texts", [
    "anchor,positive", "question,passage", "user_input,context", "document,sentence", "prompt,reply", "premise,text2",
    "id,title_a,title_b"])
def test_a_label_makes_labeled_pairs_whatever_the_texts_are_called(texts, label):
    "As sentence-transformers has it: the label by its name, texts by their order."
    names = texts.split(",")
    rows = dict(zip(names, (["1", "2"], ["an egg", "a mole"], ["eggs", "planes"])[-len(names):]))
    for table in (rows | {label: [1, 0]}, {label: [1, 0]} | rows):
        file = read_pairs_file(table)
        assert file.form == "pairs" and file.labels.tolist() == [1, 0] and {*file.columns} == {*names[-2:], label}
    if "id" not in names:
        assert read_pairs_file(rows, form="retrieval", columns=tuple(names)).form == "retrieval"


COUNTED = {"anchor": ["a", "b", "c"], "positive": ["d", "e", "f"]}


@pytest.mark.parametrize("cells", [[0, 1, 1], ["0", "1.0", ""], [True, False, True], ["true", "False", "true"],
                                   [.2, 4.5, 3], ["1", None, "5"], [[1], [0], [1]]])
@pytest.mark.parametrize("name", [
    "target", "y", "is_dup", "class", "relevant", "rating", "gold", "judgement", "note of a person", "1"])
def test_numbers_next_to_matches_may_be_their_labels(name, cells):
    "No list of names decides: any further column of numbers, or of true and false, is refused."
    for texts in (COUNTED, {"question": COUNTED["anchor"], "passage": COUNTED["positive"]}):
        left, right = texts
        told = (f"matches without labels: {left}, {right}; if '{name}' holds their labels, say --columns "
                f"{left},{right},{name}, else --columns {left},{right}")
        with pytest.raises(DataError, match=re.escape(told)):
            read_pairs_file(texts | {name: cells})
        file = read_pairs_file(texts | {name: cells}, columns=(left, right))
        assert file.form == "retrieval" and f"not used: {name}" in file.note
        assert read_pairs_file(texts | {name: cells}, form="retrieval").form == "retrieval"


@pytest.mark.parametrize("name, cells", [("query_id", [7, 8, 9]), ("id", [0, 1, 2]), ("Unnamed: 0", [0, 1, 1]),
                                         ("qid1", ["0", "1", "2"]), ("site", ["a", "b", "b"]), ("doc_id", [1, 2, 3])])
def test_ids_and_words_next_to_matches_are_no_labels(name, cells):
    file = read_pairs_file(COUNTED | {name: cells})
    told = "; not used: site (a 1, b 2); --where COLUMN=VALUE chooses rows" if name == "site" else ""
    assert file.form == "retrieval" and file.note == f"read as matches without labels: anchor, positive{told}"
    with pytest.raises(DataError, match="if 'valid' holds their labels"):
        read_pairs_file(COUNTED | {"valid": [1, 0, 1]})


HEADS = { # a header, its roles
    "title1,title2,match": "title1,title2,match",
    "Sentence 1,Sentence 2,Is Duplicate": "Sentence 1,Sentence 2,Is Duplicate",
    "Question 1,Question 2,Similarity": "Question 1,Question 2,Similarity",
    "name_l,name_r,label": "name_l,name_r,label",
    "title_1,vendor_1,title_2,vendor_2,label": "title_1,vendor_1,title_2,vendor_2,label",
    "desc a,desc b,is_match": "desc a,desc b,is_match",
    "LEFT,Right,LABEL": "LEFT,Right,LABEL", "id_left,name_left,id_right,name_right,label": "name_left,name_right,label",
    "1 text,2 text,esci_label": "1 text,2 text,esci_label",
    "query,product_title,esci_label": "query,product_title,esci_label",
    "name_1,name_2,city,label": "name_1,name_2,label",
    "id,qid1,qid2,question1,question2,is_duplicate": "question1,question2,is_duplicate",
    "left title,right title,left price,label": "left title,right title,label",
}


@pytest.mark.parametrize("head", HEADS)
def test_names_of_sides_are_told_by_one_rule(head):
    right = HEADS[head].split(",")
    table = {name: [1, 0] if name == right[-1] else [f"{name} {i}" for i in range(2)] for name in head.split(",")}
    for names in (list(table), list(table)[::-1 if "query" not in table else 1]):
        file = read_pairs_file({name: table[name] for name in names})
        assert file.form == "pairs" and {*file.columns} == {*right} and file.columns[-1] == right[-1]
        left = [name for name in right[:-1] if re.search("1|left|l$|a$|query|LEFT", name)]
        assert all(name in file.left[0] for name in left)


RANKED = [{"query": "q", "docs": ["a", "b", "c"], "labels": [5, 1, 3]},
          {"query": "r", "docs": ["d", "e"], "labels": [1, 5]}]


def test_lists_of_texts_and_of_their_labels_are_told_with_the_line_that_turns_them():
    frame = pd.DataFrame(RANKED)
    with pytest.raises(DataError) as e:
        read_pairs_file(frame, match_from=4)
    line = str(e.value).partition("labels: ")[2].partition(" makes")[0]
    file = read_pairs_file(eval(line, {"frame": frame}), match_from=4)
    assert file.form == "pairs" and file.labels.tolist() == [1, 0, 0, 0, 1] and file.right == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("names, told", [
    ("left,right,premise,hypothesis,label", "left, right, label, or as labeled pairs: premise, hypothesis, label"),
    ("text1,text2,score,label", "text1, text2, label, or as labeled pairs: text1, text2, score; name them, e.g. "
                                "--columns text1,text2,label"),
    ("anchor,positive,negative,labels", "labeled pairs: anchor, positive, labels, or as triplets"),
    ("question,answer,document", "matches without labels: question, answer, or as"),
    ("one,two,three,label", "neither two texts .* one, two, three, label; a file needs a header; name the columns"),
])
def test_names_that_can_be_read_in_two_ways_are_refused(names, told):
    table = {name: [0, 1] if name in ("label", "labels", "score") else ["an egg", "a mole"]
             for name in names.split(",")}
    with pytest.raises(DataError, match=told):
        read_pairs_file(table)


def test_what_is_read_of_pairs(tmp_path):
    def read(name):
        return read_pairs_file(placed(tmp_path, {PAIRS[name][0]: PAIRS[name][1]}) / PAIRS[name][0], **PAIRS[name][2])
    joined = read("Magellan, joined")
    assert (joined.left, joined.right) == (["a lamp", "b"], ["lamp", "c"]), "prices are no texts"
    assert joined.note.startswith("read as labeled pairs: left_title, right_title, label; not used: left_price")
    graded = read("grades with a gap")
    assert graded.left_out == {"pairs with a grade between 2 and 4": 1} and graded.frame.line.tolist() == [2, 4]
    assert read("SNLI").left_out == {"pairs without a label": 1}
    assert read("a list in a .jsonl").frame.line.tolist() == [1, 2] and read("JSON").frame.line.tolist() == [1, 2]
    assert read_pairs_file(placed(tmp_path, {"a.v2.csv.gz": HEAD + TWO}) / "a.v2.csv.gz").name == "a.v2"
    assert read("yes and no").note == "a match is labeled yes: 1 of 2" and not read("packed").note
    assert read("grades").note.startswith("a match has a grade of 4 or more: 1 of 3; ")


# ---------------------------------------------------------------- the sign between cells


SIGNS = {"commas": ",", "semicolons": ";", "tabs": "\t", "vertical bars": "|"}
GRID = [["one", "two", "label"], ["a lamp", "lamps", "1"], ["a chair, old; red|x", "a table", "0"],
        ["a rug", "rugs", "1"], ["an egg", "a mole", "0"]]


def between(sign, rows, quoting="needed", blanks=""):
    "A table as a spreadsheet writes it."
    def cell(text):
        needs = quoting == "all" or sign in text and sign != "\t"
        return f'"{text}"' if needs else text
    return "".join((sign + blanks).join(map(cell, row)) + "\n" for row in rows)


def grid():
    for word, sign in SIGNS.items():
        for end in (".csv", ".txt", ".tsv"):
            for odd in (",", ";", "|", " , ; | "):
                if sign != "\t" or end != ".csv":
                    yield f"{word} in {end}, {odd.strip()!r} in the header", sign, end, between(sign,
                        [[f"one{odd * 3}", f"two{odd * 3}", "label"], *GRID[1:]])
            yield f"{word} in {end}, a blank line first", sign, end, "\n  \n" + between(sign, GRID)
            yield f"{word} in {end}, empty rows behind", sign, end, between(sign, GRID) + f"{sign * 2}\n\n"
            yield f"{word} in {end}, all in quotes", sign, end, between(sign, GRID, "all")
            yield f"{word} in {end}, with a mark and other ends of lines", sign, end, "\ufeff" + between(sign,
                GRID).replace("\n", "\r\n")
            yield f"{word} in {end}, named in a first line", sign, end, f"sep={sign}\r\n" + between(sign,
                GRID).replace("\n", "\r\n")
            if sign != "\t":
                yield f"{word} in {end}, blanks before quotes", sign, end, between(sign, GRID, "all", " ")
                yield f"{word} in {end}, two lines in a cell", sign, end, between(sign, GRID,
                    "all").replace("rugs", "ru\ngs")


GRID_CASES = {name: case for name, *case in grid()}


@pytest.mark.parametrize("sign, end, content", GRID_CASES.values(), ids=GRID_CASES)
def test_the_sign_between_cells_is_told_by_the_header_and_the_first_rows(tmp_path, sign, end, content):
    name = f"a{end}"
    file = read_pairs_file(placed(tmp_path, {name: content}) / name)
    assert file.left == [row[0] for row in GRID[1:]]
    assert [text.replace("\n", "") for text in file.right] == [row[1] for row in GRID[1:]]
    assert file.labels.tolist() == [1, 0, 1, 0]
    before = content.replace("\r\n", "\n").partition(GRID[1][0])[0].count("\n")
    assert file.frame.line.tolist()[:2] == [before + 1, before + 2]


@pytest.mark.parametrize("word, sign", SIGNS.items())
def test_a_row_with_too_few_cells_is_told_with_the_sign(tmp_path, word, sign):
    content = between(sign, [*GRID, ["short"]])
    with pytest.raises(DataError, match=f"a.csv:6: 1 cell between {word}, the header has 3"):
        read_pairs_file(placed(tmp_path, {"a.csv": content}) / "a.csv")


# ---------------------------------------------------------------- shapes of JSON, rows and splits that are chosen


RECORDS = [{"left": "a lamp", "right": "lamps", "label": 1}, {"left": "a chair", "right": "a table", "label": 0}]
BARE = [[*row.values()] for row in RECORDS]
SHAPES = { # the content of a file of JSON, labels
    "pandas' to_json": pd.DataFrame(RECORDS).to_json(),
    "by row": pd.DataFrame(RECORDS).to_json(orient="index"),
    "rows in another order": json.dumps({"left": {"0": "a lamp", "1": "a chair"},
                                         "right": {"1": "a table", "0": "lamps"}, "label": {"0": 1, "1": 0}}),
    "texts and label": json.dumps([{"texts": row[:2], "label": row[2]} for row in BARE]),
    "lines of texts and label": lines(*({"texts": row[:2], "label": row[2]} for row in BARE)),
    "bare lists": json.dumps(BARE),
    "lines of bare lists": lines(*BARE),
    "an object in each row": lines(*({"pair": row} for row in RECORDS)),
}


@pytest.mark.parametrize("content", SHAPES.values(), ids=SHAPES)
def test_shapes_of_json(tmp_path, content):
    file = read_pairs_file(placed(tmp_path, {"a.json": content}) / "a.json")
    assert file.form == "pairs"
    assert [*zip(file.left, file.right, file.labels)] == [("a lamp", "lamps", 1), ("a chair", "a table", 0)]


def test_bare_lists_of_three_texts_are_triplets_and_of_two_are_matches(tmp_path):
    triplets = placed(tmp_path, {"a.jsonl": lines(["q", "p", "n"], ["r", "s", "t"]),
                                 "b.jsonl": lines(["q", "p"], ["r", "s"])})
    assert found(read_pairs_file(triplets / "a.jsonl")) == ("candidates", 4, 2, 2, 0)
    assert found(read_pairs_file(triplets / "b.jsonl")) == ("retrieval", 2, 2, 2, 2)


def turned(path, folder, monkeypatch):
    "The table that the line of Python in the message makes of a file."
    with pytest.raises(DataError) as e:
        read_pairs_file(path)
    monkeypatch.chdir(folder)
    exec(re.search("This makes .* of (it|them): (.*)", str(e.value))[2], {})
    return read_pairs_file("pairs.csv")


def test_other_shapes_are_told_with_the_line_that_turns_them(tmp_path, monkeypatch):
    def pair(*records):
        return {"__class__": "tuple", "__value__": [dict(zip(("name", "price"), record)) for record in records]}
    dedupe = {"distinct": [pair(("red lamp", None), ("hat", 7))], "match": [pair(("lamp", 3), ("a lamp", None))]}
    placed(tmp_path, {"training.json": json.dumps(dedupe), "split.json": pd.DataFrame(RECORDS).to_json(orient="split")})
    file = turned(tmp_path / "training.json", tmp_path, monkeypatch)
    assert [*zip(file.left, file.right, file.labels)] == [("red lamp", "hat 7", 0), ("lamp 3", "a lamp", 1)]
    file = turned(tmp_path / "split.json", tmp_path, monkeypatch)
    assert [*zip(file.left, file.right, file.labels)] == [("a lamp", "lamps", 1), ("a chair", "a table", 0)]


SPLIT = pd.DataFrame([*RECORDS, *RECORDS]).assign(split=["train", "test", "test", "test "], lang="en")


def test_a_column_that_is_not_used_is_told_and_chooses_rows(tmp_path):
    SPLIT.to_csv(tmp_path / "a.csv", index=False)
    file = read_pairs_file(tmp_path / "a.csv")
    assert len(file) == 4
    assert file.note == "not used: split (train 1, test 3), lang (en 4); --where COLUMN=VALUE chooses rows"
    asked = [read_pairs_file(f"{tmp_path}/a.csv:split=test"), read_pairs_file(tmp_path / "a.csv", where="split=test"),
             read_pairs_file(SPLIT, where="split=test")]
    for one in asked:
        assert one.labels.tolist() == [0, 1, 0] and one.note == "3 of 4 rows, where split=test; not used: lang (en 3)"
    assert asked[0].frame.line.tolist() == [3, 4, 5]
    assert read_pairs_file(f"{tmp_path}/a.csv:split=test",
                           where="split=train").note == asked[0].note, "what stands with the file counts"
    for where, words in (("split=dev", "no row where split=dev .train 1, test 3.$"),
                         ("splt=test", "did you mean 'split'"), ("test", "COLUMN=VALUE")):
        with pytest.raises(DataError, match=words):
            read_pairs_file(tmp_path / "a.csv", where=where)
    with pytest.raises(DataError, match="a.csv:test: .*no such file|a.csv:test: the name must end"):
        read_pairs_file(f"{tmp_path}/a.csv:test")
    with pytest.raises(DataError, match="where reads labels or rows of a table, and there are none"):
        read_pairs_file(THREE, where="split=test")


def test_rows_are_chosen_in_tests_and_not_in_training():
    files = read_named_files(SPLIT, {"new": SPLIT}, where="split=test")
    assert [len(file) for file in files.values()] == [4, 3]


def test_data_sets_on_disk_are_read_by_split(tmp_path):
    train, test = (Dataset.from_list(rows) for rows in (RECORDS * 3, RECORDS))
    DatasetDict(train=train, test=test).save_to_disk(tmp_path / "several")
    test.save_to_disk(tmp_path / "one")
    (tmp_path / "hub/data").mkdir(parents=True)
    for split, table in (("train", train), ("test", test)):
        table.to_parquet(tmp_path / f"hub/data/{split}-00000-of-00001.parquet")
    placed(tmp_path / "lines", {"train.jsonl": lines(*RECORDS * 3), "test.jsonl": lines(*RECORDS)})
    placed(tmp_path, {"a.json": json.dumps({"train": RECORDS * 3, "test": RECORDS})})
    for name in ("several", "hub", "lines", "a.json"):
        assert len(read_pairs_file(f"{tmp_path}/{name}:train")) == 6
        assert len(read_pairs_file(f"{tmp_path}/{name}:test")) == 2
        with pytest.raises(DataError, match=f"{name}: no split 'dev'; there are (test, train|train, test): name one"):
            read_pairs_file(f"{tmp_path}/{name}:dev")
        assert len(read_pairs_file(tmp_path / name)) == 2, "the test"
    assert read_pairs_file(tmp_path / "a.json").note == "read from the split test"
    assert len(read_pairs_file(tmp_path / "one")) == 2
    assert read_pairs_file(tmp_path / "one").note == "read from data-00000-of-00001.arrow"
    assert named_tests([f"new={tmp_path}/a.json:test"]) == {"new": f"{tmp_path}/a.json:test"}


# ---------------------------------------------------------------- candidates


N_TUPLE = {"anchor": "q", "positive": "p", "negative_1": "n", "negative_2": "m"}
PASSAGES = {"query_id": "1", "query": "q", "positive_passages": [{"docid": "d1", "title": "T", "text": "p"}],
            "negative_passages": [{"docid": "d2", "title": "", "text": "n"}, {"docid": "d3", "text": "m"}]}
CANDIDATES = { # name of the file, content, options, rows, queries
    "triplets": ("a.csv", "anchor,positive,negative\nq,p,n\nr,s,t\n", {}, 4, 2),
    "n-tuples": ("a.jsonl", lines(N_TUPLE, N_TUPLE | {"anchor": "r"}), {}, 6, 2),
    "a tuple that is shorter": ("a.jsonl", lines(N_TUPLE, {"anchor": "r", "positive": "p", "negative_1": "n"}),
                                {}, 5, 2),
    "lists": ("a.jsonl", lines({"anchor": "q", "positive": ["p", "s"], "negative": ["n", "m"]}), {}, 4, 1),
    "FlagEmbedding": ("a.jsonl",
                      lines({"query": "q", "pos": ["p"], "neg": ["n", "m"], "pos_scores": [1], "neg_scores": [0, 0],
                             "prompt": "x", "type": "normal"}), {}, 3, 1),
    "AnglE": ("a.jsonl", lines({"query": "q", "positive": "p", "negative": ["n", "m"]}), {}, 3, 1),
    "Tevatron": ("a.jsonl", lines(PASSAGES), {}, 3, 1),
    "Parquet with lists": ("a.parquet", {"query": ["q", "r"], "pos": [["p"], ["s"]], "neg": [["n", "m"], ["t"]]},
                           {}, 5, 2),
    "the same query twice": ("a.csv", "anchor,positive,negative\nq,p,n\nq,s,t\n", {}, 4, 2),
    "columns named, of texts": ("a.csv", "q,p,y\na b,c d,e f\ng h,i j,k l\n", {"columns": ("q", "p", "y")}, 4, 2),
    "columns named, with the form": ("a.csv", "q,p,y\na,b,c\nd,e,f\n",
                                     {"columns": ("q", "p", "y"), "form": "candidates"}, 4, 2),
    "four columns named": ("a.csv", "q,p,y,z\na,b,c,d\n", {"columns": ("q", "p", "y", "z")}, 3, 1),
}


@pytest.mark.parametrize("name, content, options, rows, queries", CANDIDATES.values(), ids=CANDIDATES)
def test_candidates_are_told_by_their_names(tmp_path, name, content, options, rows, queries):
    file = read_pairs_file(placed(tmp_path, {name: content}) / name, **options)
    assert found(file)[:2] + found(file)[3:] == ("candidates", rows, queries, 0)
    assert file.frame["query"].is_monotonic_increasing
    for _, some in file.frame.groupby("query"):
        assert some.label.is_monotonic_decreasing and set(some.label) == {0, 1}, "positives first"


def test_what_is_read_of_candidates(tmp_path):
    file = read_pairs_file(placed(tmp_path, {"a.jsonl": lines(PASSAGES)}) / "a.jsonl")
    assert file.right == ["T p", "n", "m"]
    assert file.note == "read as triplets: query, positive_passages, negative_passages"
    rows = [("q", "p", "n", "x"), ("q", "n", "p", "y"), ("r", "p", "p", "x"), ("r", "s", "t", "z")]
    file = read_pairs_file(pd.DataFrame(rows, columns=["anchor", "positive", "negative", "kind"]), group="kind")
    assert file.left_out == {"negatives with the text of a match": 3, "queries without a negative": 3}
    assert list(zip(file.left, file.right, file.labels, file.frame.line, file.frame.group)) == [
        ("r", "s", 1, 4, "z"), ("r", "t", 0, 4, "z")]


# ---------------------------------------------------------------- retrieval


CORPUS = lines({"_id": "d1", "title": "T", "text": "x"}, {"_id": "d2", "title": "", "text": "y"},
               {"_id": "d3", "text": "z"})
QUERIES = lines({"_id": "0042", "text": "q"}, {"_id": "42", "text": "r"}, {"_id": "7", "text": "s"})
QRELS = "query-id\tcorpus-id\tscore\n0042\td1\t1\n0042\td2\t0\n42\td2\t2\n42\td3\t1\n"
BEIR = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels/test.tsv": QRELS}
FOLDERS = { # files, what is given behind the folder, options
    "BEIR": (BEIR, "", {}),
    "grades written 1.0": (BEIR | {"qrels/test.tsv": QRELS.replace("\t1\n", "\t1.0\n")}, "", {}),
    "BEIR packed": ({"corpus.jsonl.gz": CORPUS, "queries.jsonl.gz": QUERIES, "qrels/test.tsv.gz": QRELS}, "", {}),
    "another split": (BEIR | {"qrels/dev.tsv": QRELS, "qrels/test.tsv": ""}, ":dev", {}),
    "the only split": ({"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels/mine.tsv": QRELS}, "", {}),
    "id": ({name: text.replace("_id", "id") for name, text in BEIR.items()}, "", {}),
    "MTEB's Parquet": ({
        "corpus/corpus-00000-of-00002.parquet": {"_id": ["d1"], "title": ["T"], "text": ["x"]},
        "corpus/corpus-00001-of-00002.parquet": {"_id": ["d2", "d3"], "title": ["", ""], "text": ["y", "z"]},
        "queries/queries-00000-of-00001.parquet": {"_id": ["0042", "42", "7"], "text": ["q", "r", "s"]},
        "data/test-00000-of-00001.parquet": {"query-id": ["0042", "0042", "42", "42"],
                                             "corpus-id": ["d1", "d2", "d2", "d3"], "score": [1, 0, 2, 1]}}, "", {}),
    "another place for judgments":
    ({"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "default/test-00000-of-00001.parquet": {
        "query-id": ["0042", "42", "42"], "corpus-id": ["d1", "d2", "d3"], "score": [1, 2, 1]}}, "", {}),
}


@pytest.mark.parametrize("files, behind, options", FOLDERS.values(), ids=FOLDERS)
def test_folders_of_queries(tmp_path, files, behind, options):
    folder = placed(tmp_path / "set", files)
    file = read_pairs_file(f"{folder}{behind}", **options)
    assert file.form == "retrieval" and file.corpus == ["T x", "y", "z"] and file.name == "set"
    frame = file.frame
    assert list(zip(file.left, file.right, frame["query"], frame.document, frame.itself)) == [
        ("q", "T x", 0, 0, -1), ("r", "y", 1, 1, -1), ("r", "z", 1, 2, -1)]
    assert named_tests([f"new={folder}{behind}"]) == {"new": f"{folder}{behind}"}
    again = placed(tmp_path / "elsewhere", files)
    assert file.sha256 == read_pairs_file(f"{again}{behind}", **options).sha256


# 42 and "42" are one id
THREE = {"queries": {"0042": "q", 42: "r"}, "corpus": {"d1": "x", "d2": {"title": "T", "text": "y"}},
         "relevant_docs": {"0042": {"d1"}, "42": ["d2", "d1"]}}


def test_three_dicts(tmp_path):
    file = read_pairs_file(THREE, name="mine")
    assert found(file) == ("retrieval", 3, 3, 2, 2) and file.corpus == ["x", "T y"] and file.name == "mine"
    written = THREE | {"relevant_docs": {"0042": ["d1"], "42": ["d2", "d1"]}, "mode": "text"}
    for indent in (None, 1):
        path = placed(tmp_path, {"a.json": json.dumps(written, indent=indent)}) / "a.json"
        assert read_pairs_file(path).frame.drop(columns="line").equals(file.frame.drop(columns="line"))
    assert found(read_pairs_file(THREE | {"relevant_docs": {"0042": {"d1": 1, "d2": 0}, 42: ["d2", "d1"]}})) == found(
        file)
    for documents in ("d1", 7):
        with pytest.raises(DataError, match="relevant_docs:0042: ids of texts are expected"):
            read_pairs_file(THREE | {"relevant_docs": {"0042": documents}})
    with pytest.raises(DataError, match="corpus: a dict is expected"):
        read_pairs_file(THREE | {"corpus": ["x", "y"]})
    with pytest.raises(DataError, match="mine: relevant_docs:42: text 'd9' is not in mine: corpus"):
        read_pairs_file(THREE | {"relevant_docs": {42: ["d9"]}}, name="mine")


def test_what_is_left_out_of_retrieval_is_counted(tmp_path):
    corpus = CORPUS + lines({"_id": "d4", "title": "", "text": " "}, {"_id": "7", "title": "", "text": "s"},
                            {"_id": "8", "text": "other"})
    queries = QUERIES + lines({"_id": "8", "text": "t"})
    qrels = QRELS + "7\td1\t1\n7\t7\t1\n8\td1\t1\n8\td1\t1\n7\td2\t0\n"
    folder = placed(tmp_path / "set",
                    {"corpus.jsonl": corpus, "queries.jsonl": queries + lines({"_id": "9", "text": "u"}),
                     "qrels/test.tsv": qrels})
    file = read_pairs_file(folder)
    assert file.left_out == {
        "judgments with a grade below 1": 2, "judgments with the texts of another": 1,
        "judgments of a query's own text": 1,
        "queries without a judgment": 1, "texts of the corpus with nothing to read": 1}
    assert file.corpus == ["T x", "y", "z", "s", "other"]
    assert dict(zip(file.left, file.frame.itself)) == {"q": -1, "r": -1, "s": 3, "t": -1}, "same id and same text"
    assert file.frame.line.tolist() == [2, 4, 5, 6, 8] and file.labels.tolist() == [1, 2, 1, 1, 1]
    strict = read_pairs_file(folder, match_from=2)
    assert strict.left == ["r"] and strict.left_out["queries without a grade of 2 or more"] == 3


def published(folder, wrong, queries=120):
    "A set whose judgments hold some wrong lines."
    many = range(queries)
    judgments = "".join(f"q{i}\td{i}\t1\n" for i in many) + "".join(f"{line}\n" for line in wrong)
    return placed(folder, {
        "corpus.jsonl": lines({"_id": "blank", "text": "\u200b"},
                              *({"_id": f"d{i}", "text": f"text {i}"} for i in many)),
        "queries.jsonl": lines(*({"_id": f"q{i}", "text": f"query {i}"} for i in many),
                               {"_id": "none", "text": "no match"}),
        "qrels/test.tsv": f"query-id\tcorpus-id\tscore\n{judgments}"})


@pytest.mark.parametrize("wrong, left_out", [
    ("q3\tgone\t1", "judgments of a text that is not there"), ("gone\td3\t2", "judgments of a query that is not there"),
    ("q3\tblank\t1", "judgments of a text that is not there"), ("none\td3\t0", "queries without a grade of 1 or more"),
])
def test_sets_as_they_are_published(tmp_path, wrong, left_out):
    "Up to one judgment in a hundred may be wrong; more are refused, with what reads them where there is something."
    folder = published(tmp_path / "set", [wrong])
    file = read_pairs_file(folder)
    assert len(file) == 120 and file.left_out[left_out] == 1 and len(file.corpus) == 120
    with pytest.raises(DataError, match="set/qrels/test.tsv:(4[12]|42): "):
        read_pairs_file(published(tmp_path / "set", [wrong], 40))
    tables = {"queries": {"q": "an egg", "r": "a mole"}, "corpus": {"d": "eggs"},
              "relevant_docs": {"q": ["d"], "r": ["e"]}}
    with pytest.raises(DataError, match="text 'e' is not in .*one in a hundred"):
        read_pairs_file(tables)


def test_copies_beside_the_files_of_a_set_are_left_alone(tmp_path):
    beside = {"corpus-backup.jsonl": CORPUS, "queries2.jsonl": QUERIES, "qrels/test copy.tsv": QRELS,
              "qrels/._test.tsv": "x", "before/corpus.jsonl": CORPUS}
    usual, crowded = placed(tmp_path / "one/set", BEIR), placed(tmp_path / "two/set", BEIR | beside)
    one, two = read_pairs_file(usual), read_pairs_file(crowded)
    assert two.frame.equals(one.frame)
    assert two.corpus == one.corpus
    assert two.sha256 == one.sha256
    assert two.note == one.note


@pytest.mark.parametrize("grades, advice", [
    ([0, 1, 2, 3], "--match-from 1.5 (match_from=1.5)"), ([5, 4, 1], "--match-from 3 (match_from=3)"),
    ([.25, .75, .8], "--match-from 0.5 (match_from=0.5)"), ([-1, 0, 2], "--match-from 1 (match_from=1)"),
    ([i / 5 for i in range(26)], "--match-from 2.5 (match_from=2.5)"),
    ([10, 30, 40], "--match-from 20 (match_from=20)"),
    ([2.4, 2.5, 2.6], "--match-from 2.55 (match_from=2.55)"), ([0, .1, .5, 1], "--match-from 0.8 (match_from=0.8)"),
])
def test_the_advice_on_grades_is_a_round_number_that_no_pair_has(grades, advice):
    table = {"left": [f"an egg {i}" for i in grades], "right": ["eggs"] * len(grades), "label": grades}
    with pytest.raises(DataError, match=re.escape(f"; grades are read by {advice}")):
        read_pairs_file(table)
    least = float(advice.split()[1])
    assert read_pairs_file(table, match_from=least).labels.tolist() == [int(grade >= least) for grade in grades]
    with pytest.raises(DataError) as e:
        read_pairs_file(table | {"label": [3] * len(grades)})
    assert "--match-from" not in str(e.value), "one grade alone has no other side"
    with pytest.raises(DataError, match="labels are 0 or 1, found 10000000"):
        read_pairs_file(table | {"label": [10**7 + place for place in range(len(grades))]})


ALONE = { # name, content, options
    "anchor and positive": ("a.csv", "anchor,positive\nq,p\nr,s\nq,t\nr,q\nq,q\n", {}),
    "a list of answers": ("a.jsonl", lines({"query": "q", "positive": ["p", "t", "q"]},
                                           {"query": "r", "positive": ["s", "q"]}), {}),
    "FlagEmbedding without negatives": ("a.jsonl", lines({"query": "q", "pos": ["p", "t", "q"]},
        {"query": "r", "pos": ["s", "q"]}), {}),
    "RAGAS": ("a.jsonl", lines({"user_input": "q", "reference_contexts": ["p", "t", "q"]},
                               {"user_input": "r", "reference_contexts": ["s", "q"]}), {}),
    "two columns named": ("a.csv", "one,two\nq,p\nr,s\nq,t\nr,q\nq,q\n", {"columns": ("one", "two")}),
    "pairs that all match": ("a.csv", "sentence1,sentence2\nq,p\nr,s\nq,t\nr,q\nq,q\n", {"form": "retrieval"}),
}


@pytest.mark.parametrize("name, content, options", ALONE.values(), ids=ALONE)
def test_anchors_search_the_matches_of_all(tmp_path, name, content, options):
    file = read_pairs_file(placed(tmp_path, {name: content}) / name, **options)
    assert found(file) == ("retrieval", 4, 4, 2, 4) and file.note.startswith("read as matches without labels: ")
    assert file.left_out == {"pairs of a text with itself": 1}
    rows = {(left, right, file.corpus[place], itself) for left, right, place, itself in zip(file.left, file.right,
        file.frame.document, file.frame.itself)}
    at = file.corpus.index("q")
    assert rows == {("q", "p", "p", at), ("q", "t", "t", at), ("r", "s", "s", -1), ("r", "q", "q", -1)}


def test_an_id_with_the_same_text_twice_is_one_text(tmp_path):
    once = read_pairs_file(placed(tmp_path / "once", BEIR))
    file = read_pairs_file(placed(tmp_path / "twice",
                                  BEIR | {"corpus.jsonl": CORPUS * 3, "queries.jsonl": QUERIES * 2}))
    told = {"texts of the corpus with the id and the text of another": 6,
            "queries with the id and the text of another": 3}
    assert file.frame.equals(once.frame) and file.corpus == once.corpus and file.left_out == once.left_out | told


@pytest.mark.parametrize("count, what, words", [
    (1, "judgments of a text that is not there", "1 judgment of a text that is not there"),
    (1, "queries without a negative", "1 query without a negative"),
    (2, "queries", "2 queries"), (1, "cells", "1 cell"), (1000, "texts of the corpus with nothing to read",
        "1,000 texts of the corpus with nothing to read")])
def test_one_is_said_in_the_singular(count, what, words):
    assert counted(count, what) == words
    notes = file_notes({"new": {"left_out": {what: count}}})
    assert notes == [f"new: {words} {'was' if count == 1 else 'were'} left out."]


# ---------------------------------------------------------------- runs and texts


RUN = {"q0": {"d1": .5, "d2": .25}, "q1": {"d1": 1.}}
RUN_ROWS = pd.DataFrame([(query, text, score) for query, own in RUN.items() for text, score in own.items()],
                        columns=["q_id", "doc_id", "score"])
RUNS = { # name of a file, its content
    "ranx, CSV": ("a.csv", RUN_ROWS.to_csv(index=False)), "ranx, Parquet": ("a.parquet", RUN_ROWS.to_dict("list")),
    "other names": ("a.csv", RUN_ROWS.set_axis(["query-id", "corpus-id", "Score"], axis=1).to_csv()),
    "five cells": ("a.trec", "".join(f"{row.q_id} Q0 {row.doc_id} 1 {row.score}\n" for row in RUN_ROWS.itertuples())),
    "other ends of lines": ("a.trec", "".join(f"{row.q_id} Q0 {row.doc_id} 1 {row.score} me\r\n"
                                              for row in RUN_ROWS.itertuples())),
}


@pytest.mark.parametrize("name, content", RUNS.values(), ids=RUNS)
def test_runs_of_other_tools(tmp_path, name, content):
    if "Q0" in content: # their ranks are all 1
        content = re.sub(" 1 (?=0.25)", " 2 ", content)
    run = read_run(placed(tmp_path, {name: content}) / name)
    assert run.values.tolist() == RUN_ROWS.values.tolist()


DEEP = "[" * 900 + "]" * 900
BAD_RUNS = { # name of a file, its content, words
    "ids without scores": ("a.json", '{"q0": ["d1", "d2"], "q1": ["d1"]}',
                           "ids of texts without scores; write ranks as scores"),
    "ColBERT's lines": ("a.tsv", "0\t17\t1\t23.5\n0\t4\t2\t22.5\n", "as ColBERT writes them, are read with a header"),
    "columns of something else": ("a.csv", "query,text,grade\nq,d,1\n",
                                  "one run is expected, .*found the columns 'query', 'text', 'grade'"),
    "two ids of queries": ("a.csv", "query,query_id,doc_id,score\nan egg,q,d,1\n", "found the columns"),
    "objects in objects": ("a.json", '{"a":' * 900 + "1" + "}" * 900, "one run is expected"),
    "a list as an id": ("a.jsonl", lines({"query_id": ["q"], "results": [{"corpus_id": "d", "score": 1}]}),
                        "a.jsonl:1: ids of a query and a text are expected"),
    "lists as an id": ("a.jsonl", '{"query_id": "q", "results": [{"corpus_id": %s, "score": 1}]}' % DEEP,
                       "a.jsonl:1: ids of a query and a text"),
    "half a character in an id": ("a.jsonl",
                                  lines({"query_id": "q\ud800", "results": [{"corpus_id": "d", "score": 1}]}),
                                  "a.jsonl:1: ids of a query and a text"),
    "a number without end": ("a.json", '{"q": {"d": 1%s}}' % ("0" * 400),
                             "a.json:q: a finite score is expected, found 1000"),
    "true": ("a.json", '{"q": {"d": true}}', "a.json:q: a finite score is expected, found True"),
}


@pytest.mark.parametrize("name, content, words", BAD_RUNS.values(), ids=BAD_RUNS)
def test_what_is_no_run_is_told_in_one_sentence(tmp_path, name, content, words):
    with pytest.raises(DataError, match=words) as e:
        read_run(placed(tmp_path, {name: content}) / name)
    assert "\n" not in str(e.value)


TABLE_ROWS = [["left", "right", "label"], ["a lamp, boxed", "lamps", "1"], ["a chair", "a table; old", "0"],
              ["a rug", "rugs | mats", "1"]]
AS_TEXTS = {f"{word}{', without a header' * bare}{', without labels' * short}": between(sign,
    [row[:-1] if short else row for row in TABLE_ROWS[bare:]], "all" if sign != "\t" else "needed")
            for word, sign in SIGNS.items() for bare in (0, 1) for short in (0, 1)}
AS_TEXTS |= {"objects": lines(*RECORDS), "lists": lines(*BARE),
             "anchors": "anchor,positive\r\na lamp,lamps\r\na rug,rugs\r\n"}


@pytest.mark.parametrize("content", AS_TEXTS.values(), ids=AS_TEXTS)
def test_rows_of_a_table_are_no_texts(tmp_path, content):
    path = placed(tmp_path, {"new.txt": content}) / "new.txt"
    with pytest.raises(DataError, match="new.txt: its lines look like rows of a table.*write one text per line, or "
                                        "give it the ending of a table"):
        read_texts_file(path)


@pytest.mark.parametrize("texts", [
    ["a lamp, red", "a chair, old", "a rug, new"], ["one; two", "three; four"], ["a|b"], ["[1] a reference", "another"],
    ["'a', \"b\"", "c"],
    ["no sign", "1,000 lamps", "a lamp\tof two"], ["[a] b", "c"], ["a, b, c", "d, e, f", "g, h, i"]])
def test_texts_with_signs_are_texts(tmp_path, texts):
    assert read_texts_file(placed(tmp_path, {"new.txt": "\n".join(texts)}) / "new.txt") == texts


# ---------------------------------------------------------------- tables in Python


TRIPLETS = {"anchor": ["q", "r"], "positive": ["p", "s"], "negative": ["n", "t"]}


@pytest.mark.parametrize("table", [
    TRIPLETS, pd.DataFrame(TRIPLETS), Dataset.from_dict(TRIPLETS), pa.table(TRIPLETS),
    pd.DataFrame(TRIPLETS).to_dict("records"),
    {key: pd.Series(cells) for key, cells in TRIPLETS.items()},
], ids=["dict of lists", "pandas", "datasets", "Arrow", "list of dicts", "dict of series"])
def test_tables_are_as_good_as_files(table):
    file = read_pairs_file(table, name="mine")
    assert found(file) == ("candidates", 4, 2, 2, 0) and file.right == ["p", "n", "s", "t"]
    assert file.sha256 == read_pairs_file(TRIPLETS).sha256 and file.rows_sha256 == read_pairs_file(TRIPLETS).rows_sha256


def test_rows_of_each_form_have_their_own_sha256():
    others = [read_pairs_file({"anchor": ["q", "q"], "positive": ["p", "s"]}), read_pairs_file(TRIPLETS),
              read_pairs_file(TRIPLETS | {"negative": ["n", "u"]}), read_pairs_file(THREE),
              read_pairs_file(THREE | {"corpus": THREE["corpus"] | {"d3": "z"}})]
    assert len({file.rows_sha256 for file in others}) == len({file.sha256 for file in others}) == 5


# ---------------------------------------------------------------- what is refused


BAD = { # files, what is given, options, words of the message
    "an unknown query": (BEIR | {"qrels/test.tsv": QRELS + "9\td1\t1\n"}, "", {},
                         "test.tsv:6: query '9' is not in .*queries.jsonl"),
    "an unknown text": (BEIR | {"qrels/test.tsv": QRELS + "7\td9\t1\n"}, "", {},
                        "test.tsv:6: text 'd9' is not in .*corpus.jsonl"),
    "an unknown text that is not relevant": (BEIR | {"qrels/test.tsv": QRELS + "7\td9\t0\n"}, "", {},
                                             "test.tsv:6: text 'd9'"),
    "nothing relevant": (BEIR | {"qrels/test.tsv": QRELS + "7\td1\t0\n"}, "", {},
                         "test.tsv:6: query '7' has no relevant text.*--match-from 1"),
    "two grades": (BEIR | {"qrels/test.tsv": QRELS + "42\td2\t1\n"}, "", {}, "test.tsv:6: .*judged twice, .*line 4"),
    "a grade in words": (BEIR | {"qrels/test.tsv": QRELS + "7\td1\tyes\n"}, "", {},
                         "test.tsv:6: a grade is expected, found 'yes'"),
    "a grade without bounds": (BEIR | {"qrels/test.tsv": QRELS + "7\td1\t1e7\n"}, "", {},
                               "test.tsv:6: a grade is expected, found '1e7'"),
    "half a grade": (BEIR | {"qrels/test.tsv": QRELS + "7\td1\t0.5\n"}, "", {},
                     "test.tsv:6: grades are whole numbers.*--match-from"),
    "a run": (BEIR | {"qrels/test.tsv": "7 Q0 d1 1 17.3 me\n"}, "", {}, "test.tsv: no judgments"),
    "two cells": (BEIR | {"qrels/test.tsv": QRELS + "7\td1\n"}, "", {},
                  "test.tsv:6: 2 cells between tabs, the header has 3"),
    "no header": (BEIR | {"qrels/test.tsv": QRELS.partition("\n")[2]}, "", {},
                  "test.tsv: judgments are expected, in columns query-id, corpus-id, score; found '0042'"),
    "an empty corpus": (BEIR | {"corpus.jsonl": ""}, "", {}, "corpus.jsonl: no texts"),
    "no corpus": ({"queries.jsonl": QUERIES, "qrels/test.tsv": QRELS}, "", {},
                  "no corpus among its files .*qrels, queries.jsonl"),
    "no judgments": ({"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES}, "", {}, "no judgments among its files"),
    "an empty file of judgments": (BEIR | {"qrels/test.tsv": ""}, "", {}, "test.tsv: no judgments"),
    "no such split": (BEIR, ":dev", {}, "no split 'dev'; there are test"),
    "several splits": ({"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels/dev.tsv": QRELS,
                        "qrels/train.tsv": QRELS}, "", {},
                       "there are dev, train: name one of them, e.g. .*set:dev"),
    "an id twice": (BEIR | {"corpus.jsonl": CORPUS + CORPUS.replace('"x"', '"w"')}, "", {},
                    "corpus.jsonl:4: the id 'd1' occurs twice, first in line 1, with another text"),
    "no id": (BEIR | {"queries.jsonl": QUERIES + lines({"text": "t"})}, "", {},
              "queries.jsonl:4: column '_id': an id is expected"),
    "no text": (BEIR | {"corpus.jsonl": CORPUS.replace('"x"', '7')}, "", {},
                "corpus.jsonl:1: column 'text': a text is expected, found 7"),
    "a relevant text without a letter": (BEIR | {"corpus.jsonl": CORPUS.replace('"y"', '" "')}, "", {},
                                         "test.tsv:4: text 'd2' is not in .*corpus.jsonl, or has nothing to "
                                         "read there"),
    "a folder of something else": ({"a.txt": HEAD + TWO}, "", {},
                                   "no corpus and no queries and no judgments among its files"),
    "mixed rows": ({"a.jsonl": lines(N_TUPLE, {"left": "a", "right": "b", "label": 1})}, "/a.jsonl", {},
                   "can be read in several ways"),
    "columns of another form": ({"a.csv": "anchor,positive,negative\nq,p,n\n"}, "/a.csv",
                                {"columns": ("left", "right", "label")},
                                "one column 'left' is expected, found 0 among anchor, positive, negative"),
    "a header that is data": ({"a.csv": "a lamp,lamps,1\na chair,a table,0\n"}, "/a.csv", {},
                              "among the columns a lamp, lamps, 1; a file needs a header"),
    "no label": ({"a.csv": "sentence1,sentence2\na,b\n"}, "/a.csv", {},
                 "neither two texts with a label.*if all pairs match, --columns sentence1,sentence2"),
    "queries alone": ({"a.csv": "query,postive\na,b\n"}, "/a.csv", {},
                      "nor an anchor with its positive among the columns query, postive"),
    "another form": ({"a.csv": "anchor,positive,negative\nq,p,n\n"}, "/a.csv", {"form": "retrieval"},
                     "form 'retrieval' is requested, and it looks like 'candidates' .*triplets: anchor, positive, "
                     "negative"),
    "a folder asked as pairs": (BEIR, "", {"form": "pairs"},
                                "form 'pairs' is requested, and it looks like 'retrieval'"),
    "a query without a match":
    ({"a.jsonl": lines({"query": "q", "pos": ["p"], "neg": ["n"]}, {"query": "r", "pos": [], "neg": ["n"]})},
     "/a.jsonl", {},
                                "a.jsonl:2: column 'pos': a query without a match"),
    "an empty text in a list": ({"a.jsonl": lines({"query": "q", "pos": ["p"], "neg": ["n", ""]})}, "/a.jsonl", {},
                                "a.jsonl:1: column 'neg'"),
    "no negative at all": ({"a.jsonl": lines({"query": "q", "pos": ["p"], "neg": []})}, "/a.jsonl", {},
                           "no query with a negative"),
    "ids of documents": ({"a.jsonl": lines(*({"query": f"q {i}", "pos": [i], "neg": [i + 1]} for i in range(9)))},
                         "/a.jsonl", {}, "column 'pos' holds ids of documents, such as 0, not texts"),
    "names of documents":
    ({"a.jsonl": lines(*({"query": f"q {i}", "pos": [f"d{i}"], "neg": [f"d{i + 1}"]} for i in range(9)))}, "/a.jsonl",
     {}, "holds ids of documents, such as 'd0'"),
    "an instruction": ({"a.jsonl": lines({"query": ["find", "q"], "pos": [["find", "p"]], "neg": [["find", "n"]]})},
                       "/a.jsonl", {}, "column 'query' holds lists, such as of an instruction and a text.*--prompts"),
    "words": ({"a.csv": HEAD + "a,b,yes\nc,d,no\n"}, "/a.csv", {},
              "a.csv:2: .*found 'yes'.*they are 'yes' \\(1\\), 'no' \\(1\\): say which one is a match, --match WORD$"),
    "-1 and 1": ({"a.csv": HEAD + "a,b,-1\nc,d,1\n"}, "/a.csv", {}, "a.csv:2: .*--match WORD$"),
    "grades": ({"a.csv": HEAD + "a,b,4.5\nc,d,1\n"}, "/a.csv", {},
               "a.csv:2: .*found '4.5'; grades are read by --match-from 3 "),
    "no label at all": ({"a.csv": HEAD + "a,b,-\nc,d,\n"}, "/a.csv", {"match": "yes"},
                        "a.csv: none of 2 pairs is left: 2 pairs without a label"),
    "a word that is no label": ({"a.csv": HEAD + "a,b,yes\nc,d,no\n"}, "/a.csv", {"match": "true"},
                                "all 2 labels are 0.*labels are 'no', 'yes'"),
    "blanks for no match": ({"a.csv": HEAD + "a,b,x\nc,d,\ne,f,\n"}, "/a.csv", {"match": "x"},
                            "all 1 labels are 1; both classes are needed .*; 2 pairs without a label left out"),
    "no grade": ({"a.csv": HEAD + "a,b,5\nc,d,x\n"}, "/a.csv", {"match_from": 4},
                 "a.csv:3: column 'label': a grade is expected, found 'x'"),
    "a match of triplets": ({"a.csv": "anchor,positive,negative\nq,p,n\n"}, "/a.csv", {"match": "yes"},
                            "match reads labels .*, and there are none .triplets: "),
    "JSON that is cut off": ({"a.json": '[{"left": "a"},\n {"left": "b"}\n'}, "/a.json", {}, "a.json:3: Expecting"),
    "columns of several lengths": ({"a.json": '{"left": ["a"], "right": ["b", "c"]}'}, "/a.json", {}, "same length"),
    "splits in a file": ({"a.json": json.dumps({"train": {"left": ["a"]}, "dev": {"left": ["b"]}})}, "/a.json", {},
                         "no split 'test'; there are train, dev: name one of them, e.g. .*a.json:train"),
    "a packed file that is cut off": ({"a.csv": gzip.compress((HEAD + TWO).encode())[:-5]}, "/a.csv", {}, "a.csv"),
    "lists as an id": (BEIR | {"corpus.jsonl": CORPUS.replace('"d1"', DEEP)}, "", {},
                       "corpus.jsonl:1: column '_id': an id is expected"),
    "half a character in an id": (BEIR | {"corpus.jsonl": CORPUS.replace("d1", "d1\\ud800")}, "", {},
                                  "corpus.jsonl:1: column '_id': an id is expected"),
    "lists among "
    "ids": ({"a.json": json.dumps({"queries": {"q": "a"}, "corpus": {"d": "x"}, "relevant_docs": {"q": [["d"]]}})},
            "/a.json", {}, "text None is not in"),
    "a label of lists": ({"a.jsonl": '{"left": "a", "right": "b", "label": %s}\n' % DEEP}, "/a.jsonl", {},
                         "a.jsonl:1: column 'label'"),
    "a file that unpacks without end": ({"a.csv.gz": b"\0" * 2**28}, "/a.csv.gz", {},
                                        "a.csv.gz: the file is damaged: unpacked it is 200 times as large"),
    "a name without an ending": ({"pairs": HEAD + TWO}, "/pairs", {}, "the name must end in one of"),
}


@pytest.mark.parametrize("files, given, options, words", BAD.values(), ids=BAD)
def test_what_cannot_be_read_is_told_in_one_sentence(tmp_path, files, given, options, words):
    folder = placed(tmp_path / "set", files)
    with pytest.raises(DataError) as e:
        read_pairs_file(f"{folder}{given}", **options)
    assert re.search(words, str(e.value)), str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("options, words", [
    ({"form": "triplets"}, "no form 'triplets'"), ({"match": "yes", "match_from": 3}, "got both"),
    ({"other_to": 2}, "needs match_from"), ({"match_from": 2, "other_to": 2}, "must be below"),
    ({"match_from": "4"}, "a number is expected"),
    ({"columns": ("left",)}, "left, right and label"),
])
def test_options_that_do_not_fit(options, words):
    with pytest.raises(DataError, match=words):
        read_pairs_file({"left": ["a", "b"], "right": ["c", "d"], "label": [1, 0]}, **options)


def many(make, count=40):
    "Rows of both kinds, each made of its number and whether its two texts match."
    return [make(number, number % 2) for number in range(count)]


def lamp(number, which=""):
    return f"a {'red' if number % 3 else 'blue'} lamp number {number} {which}".strip()


ADVISED = { # rows, form, matches and other rows that what is advised reads in the end
    "Label Studio": (many(lambda i, y: {"text1": lamp(i), "text2": lamp(i, "b"), "choice": "Same" if y else "Different",
                                        "annotator": i % 3}), "pairs", 20, 20),
    "Prodigy": (many(lambda i, y: {"text_a": lamp(i), "text_b": lamp(i, "b"), "answer": ("reject", "accept")[y]}),
                "pairs", 20, 20),
    "Magellan": (many(lambda i, y: {"ltable_name": lamp(i), "rtable_name": lamp(i, "b"), "gold": y}), "pairs", 20, 20),
    "authorship": (many(lambda i, y: {"id": f"{i}x", "fandoms": ["a", "b"], "pair": [lamp(i), lamp(i, "b")],
                                      "same": bool(y)}), "pairs", 20, 20),
    "made names": (many(lambda i, y: {"question": lamp(i), "response": lamp(i, "b"),
                                      "rejected_response": lamp(i, "c")}), "candidates", 40, 40),
    "classes of inference": (many(lambda i, y: {"left": lamp(i), "right": lamp(i, "b"), "label": i % 3}, 60),
                             "pairs", 20, 40),
    "classes in words": (many(lambda i, y: {"left": lamp(i), "right": lamp(i, "b"), "label": ("near", "far")[y]}),
                         "pairs", 20, 20),
}


@pytest.mark.parametrize("rows, form, matches, others", ADVISED.values(), ids=ADVISED)
def test_what_is_advised_works_when_it_is_pasted(tmp_path, rows, form, matches, others):
    path = placed(tmp_path, {"a.jsonl": lines(*rows)}) / "a.jsonl"
    options = {}
    for _ in range(4):
        try:
            file = read_pairs_file(path, **options)
            break
        except DataError as e:
            said = str(e)
            columns = re.search(r"--columns ([\w,]+)", said) # none of these has a blank
            match = re.search(r"--match (\w+)", said)
            assert columns or match, said
            if match:
                word = match[1] if match[1] != "WORD" else re.search(r"they are '(\w+)'", said)[1]
                options["match"] = word
            else:
                assert {*filter(None, columns[1].split(","))} <= {*rows[0], "anchor", "positive"}, said
                options["columns"] = tuple(filter(None, columns[1].split(",")))
    assert file.form == form and (int((file.labels > 0).sum()), int((file.labels == 0).sum())) == (matches, others)
    assert all("lamp" in text for text in [*file.left, *file.right])


CONTEXTS = [{"title": "a", "text": "b"}, {"title": "c", "text": "d"}]
QUERIED = { # a row -> how many candidates of a query match, and how many do not
    "DPR": ({"question": "q", "answers": ["x"], "positive_ctxs": CONTEXTS[:1], "hard_negative_ctxs": CONTEXTS[1:]}, 1,
            1),
    "reranking": ({"query": "q", "positive": "p", "documents": ["p", "m", "n"]}, 1, 2),
    "lists": ({"query": "q", "positive": ["p", "s"], "negative": ["m", "n"]}, 2, 2),
}


@pytest.mark.parametrize("row, matches, others", QUERIED.values(), ids=QUERIED)
def test_candidates_are_told_by_what_stands_next_to_the_matches(row, matches, others):
    file = read_pairs_file([row | {key: f"{row[key]} {number}" for key in ("question", "query") if key in row}
                            for number in range(3)])
    assert file.form == "candidates" and (file.labels.sum(), (file.labels == 0).sum()) == (3 * matches, 3 * others)


@pytest.mark.parametrize("kind, extra", {
    "numbers": lambda i, y: (str(4 + y), "5"), "few values": lambda i, y: (("web", "shop")[i % 2], "shop"),
    "the answer": lambda i, y: (f"c{i}", f"c{i}" if y else f"d{i}"),
}.items(), ids=lambda kind: kind if isinstance(kind, str) else "")
@pytest.mark.parametrize("names", [("{}1", "{}2"), ("left_{}", "right_{}"), ("{}_a", "{}_b")])
def test_columns_of_sides_that_are_no_texts_are_left_out_and_named(kind, extra, names):
    rows = many(lambda i, y: dict(zip((names[0].format("name"), names[1].format("name"), names[0].format("more"),
                                       names[1].format("more"), "label"),
                                      (lamp(i), lamp(i, "b"), *extra(i, y), y))))
    file = read_pairs_file(rows)
    assert file.left == [row[names[0].format("name")] for row in rows] and names[0].format("more") in file.note
    text = read_pairs_file([row | {names[0].format("more"): f"seen {i}", names[1].format("more"): f"told {i}"}
                            for i, row in enumerate(rows)])
    assert text.left[3].endswith("seen 3"), "further texts are joined"


@pytest.mark.parametrize("names, told_of", [(["equivalent", "not_equivalent"], True),
                                            (["not_equivalent", "equivalent"], False), (["no", "yes"], False),
                                            (["entailment", "neutral", "contradiction"], True)])
@pytest.mark.parametrize("place", ["memory", "file"])
def test_names_of_classes_that_a_table_carries_are_read(tmp_path, names, told_of, place):
    from datasets import ClassLabel, Dataset, Features, Value
    columns = {"sentence1": [lamp(i) for i in range(20)], "sentence2": [lamp(i, "b") for i in range(20)],
               "label": [i % 2 for i in range(20)]}
    features = Features({"sentence1": Value("string"), "sentence2": Value("string"), "label": ClassLabel(names=names)})
    source = Dataset.from_dict(columns, features=features)
    if place == "file":
        source.to_parquet(tmp_path / "a.parquet")
        source = tmp_path / "a.parquet"
    if told_of:
        with pytest.raises(DataError, match=f"they are '{names[0]}' .*--match WORD"):
            read_pairs_file(source)
    file = read_pairs_file(source, match=names[0] if told_of else None)
    assert file.labels.tolist() == [int(i % 2 == 0) if told_of else i % 2 for i in range(20)]


def test_series_are_put_together_by_their_keys():
    rows = pd.DataFrame({"anchor": ["q", "r", "s"], "positive": ["p", "t", "u"], "negative": ["m", "n", "o"]},
                        index=["x", "y", "z"])
    mixed = {name: rows[name].sample(frac=1, random_state=place) for place, name in enumerate(rows)}
    file = read_pairs_file(mixed)
    assert {*zip(file.left, file.right, file.labels)} == {*zip([*rows.anchor] * 2, [*rows.positive, *rows.negative],
        [1] * 3 + [0] * 3)}
    with pytest.raises(DataError, match="a text is expected"):
        read_pairs_file(mixed | {"positive": pd.Series({"x": "p", "y": "t", "w": "u"})})
    for cells in ("q", 7, {"x": "p"}):
        with pytest.raises(DataError, match="a list of cells is expected, and 'positive' is a"):
            read_pairs_file(mixed | {"positive": cells})


def test_columns_of_other_libraries():
    table = Dataset.from_dict({"left": ["a", "b"], "right": ["c", "d"], "label": [1, 0]})
    for columns in ({name: table[name] for name in table.column_names},
                    {"left": ["a", "b"], "right": iter("cd"), "label": table["label"]}):
        file = read_pairs_file(columns)
        assert (file.left, file.right, file.labels.tolist()) == (["a", "b"], ["c", "d"], [1, 0])
    for nothing in ({}, [], {"left": [], "right": [], "label": []}, pd.DataFrame(columns=["anchor", "positive"]),
                    table.select([])):
        with pytest.raises(DataError, match="no pairs"):
            read_pairs_file(nothing)


@pytest.mark.parametrize("name", ["a\0.csv", "a\udc80.csv", f"{'long' * 80}.csv"])
def test_names_of_files_that_cannot_be(tmp_path, name):
    with pytest.raises(DataError, match="no such file"):
        read_pairs_file(tmp_path / name)


@pytest.mark.parametrize("read", [read_pairs_file, read_texts_file, read_run])
def test_a_name_that_is_not_utf8_is_told(tmp_path, read):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.csv")
    try:
        Path(path).write_text("text\na lamp\n")
    except OSError:
        pytest.skip("no such names on this file system")
    with pytest.raises(DataError, match=r"/a\\udcff.csv: the name of the file is not UTF-8; rename it"):
        read(path)


def test_splits_are_named():
    table = Dataset.from_dict(TRIPLETS)
    with pytest.raises(DataError, match=r"mine: a list of cells is expected, and 'train' is a Dataset; a table is "
                                        r"passed alone, as in ds\['train'\]"):
        read_pairs_file(DatasetDict(train=table, test=table), name="mine")


def test_columns_by_the_name_of_a_file():
    assert columns_by_name([]) == {}
    assert columns_by_name(["a,b", "new=question1,question2,is_duplicate"]) == {None: ("a", "b"),
        "new": ("question1", "question2", "is_duplicate")}
    for given in (["a,b", "c,d"], ["new=a,b", "new=c,d"], ["a"], ["=a,b"], ["new=a,"]):
        with pytest.raises(ConfigError, match="--columns"):
            columns_by_name(given)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_test_may_be_any_file_or_folder(tmp_path, kind):
    for name in (f"a{kind}", f"a{kind}.gz", "a.txt"):
        Path(tmp_path / name).touch()
        assert named_tests([f"new={tmp_path / name}"]) == {"new": str(tmp_path / name)}
    assert named_tests([f"new={tmp_path}"]) == {"new": str(tmp_path)}
    with pytest.raises(DataError, match="no such file"):
        named_tests([f"new={tmp_path}/none{kind}"])
