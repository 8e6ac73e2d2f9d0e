"Files that cannot be read are refused with file, line and column; the four formats give the same pairs."
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from debias_nb.data.texts import read_texts
from debias_nb.checks import ConfigError
from debias_nb.files import load_yaml
from debias_nb.data.registry import DataError
from debias_nb.data.sentences import GENERAL_TEXTS
from debias_nb.data.tables import FIRST_CHARACTERS
from debias_nb.data.texts import HeldTexts, read_held_texts
from debias_nb.diagnosis.compare import compare
from debias_nb.diagnosis.methods import general_notes, without_tests
from debias_nb.diagnosis.files.forms import check_header, options_from
from debias_nb.diagnosis.files.pairs_file import read_pairs_file
from debias_nb.diagnosis.options import named_tests
from debias_nb.files import sha256_file
from debias_nb.losses.regularizers import OutReg

ROWS = [("a red lamp", "lamp, red", 1), ("an old \"chair\"", "table", 0), ("größe", "two\nlines", 1)]
FRAME = pd.DataFrame(ROWS, columns=["left", "right", "label"])


def rows_of(file):
    return list(zip(file.left, file.right, file.labels.tolist()))


def written(folder, kind, frame=FRAME):
    path = folder / f"pairs.{kind}"
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True, force_ascii=False)
    else:
        frame.to_csv(path, sep="\t" if kind == "tsv" else ",", index=False)
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_all_formats_give_the_same_pairs(tmp_path, kind):
    frame = FRAME.replace("two\nlines", "one line") if kind == "tsv" else FRAME # tabs leave no way to write two
    found = read_pairs_file(written(tmp_path, kind, frame))
    assert rows_of(found) == list(frame.itertuples(index=False, name=None))
    assert found.name == "pairs" and len(found.sha256) == 64 and not found.note
    named = frame.rename(columns={"left": "q", "label": "y"}).assign(brand=[1, None, 2],
        more=1).astype({"brand": "Int64"})
    found = read_pairs_file(written(tmp_path, kind, named), ("q", "right", "y"), "brand")
    assert found.left[0] == "a red lamp" and found.frame.group.tolist() == ["1", "(none)", "2"]


def test_rows_are_told_by_what_was_read():
    frame = FRAME.assign(label2=1 - FRAME.label)
    asked = [(("left", "right", "label"), None), (("right", "left", "label"), None),
             (("left", "right", "label2"), None),
             (("left", "right", "label"), "label2")]
    assert len({read_pairs_file(frame, columns, group).rows_sha256 for columns, group in asked}) == 4


@pytest.mark.parametrize("labels", [
    ["1", "0"], ["1.0", "0.0"], ["True", "false"], [1, 0], [1., 0.], [True, False], ["1.00", " 0.00"], ["+1.", "-0"],
    ["1.000000000000000000e+00", "0E-3"], [Decimal("1.00"), Decimal("0.00")]])
def test_labels_may_be_written_in_several_ways(labels):
    frame = pd.DataFrame({"left": ["a", "b"], "right": ["c", "d"], "label": labels})
    assert read_pairs_file(frame).labels.tolist() == [1, 0]


HEAD = "left,right,label\n"
GOOD = "a lamp,a table,1\nb,c,0\n"
JSON = '{"left": "a", "right": "b", "label": 1}\n{"left": "a", "right": "b", "label": 0}\n'
ODD = { # name of a file, its content, the texts on the left: what looks wrong and is not
    "a mark first": ("a.csv", "\ufeff" + HEAD + GOOD, ["a lamp", "b"]),
    "joiners": ("a.csv", HEAD + "می\u200cخواهم,b,1\n👩\u200d💻,c,0\n", ["می\u200cخواهم", "👩\u200d💻"]),
    "a line of JSON ends at a line feed": ("a.jsonl", JSON.replace('"a"', '"a\u2028b"'), ["a\u2028b"] * 2),
    "a line of CSV ends there too": ("a.csv", HEAD + "a\u2028b,b,1\nc\x85\x0bd,e,0\n", ["a\u2028b", "c\x85\x0bd"]),
    "quotation marks between tabs": (
        "a.tsv", 'left\tright\tlabel\n"a\tb\t1\nc\td"\t0\n"e ""f"""\tg\t0\n"h" i\tj\t0\n',
        ['"a', "c", 'e "f"', '"h" i']),
    "semicolons": ("a.csv", '"left";"right";"label"\n"a, b";"NA";"1"\nNA;b;0\n', ["a, b", "NA"]),
    "tabs in a .csv": ("a.csv", "left\tright\tlabel\na, b\tc\t1\nd\te\t0\n", ["a, b", "d"]),
    "a long cell": ("a.csv", HEAD + f"{'x' * 10**6},b,1\nc,d,0\n", ["x" * 10**6, "c"]),
    "a semicolon in a header with commas": ("a.csv", "a;b," + HEAD + "x,y,z,1\n" + "x,y,w,0\n", ["y", "y"]),
}


@pytest.mark.parametrize("name, content, left", ODD.values(), ids=ODD)
def test_what_looks_wrong_and_is_not_is_read(tmp_path, name, content, left):
    (tmp_path / name).write_text(content, "utf-8")
    assert read_pairs_file(tmp_path / name).left == left


BAD = { # name of a file, its content, words of the message
    "empty": ("a.csv", "", "a.csv: no pairs"),
    "header alone": ("a.csv", HEAD, "a.csv: no pairs"),
    "typo": ("a.csv", "left,right,lable\n" + GOOD, "a.csv: ", "two texts with a label", "left, right, lable"),
    "twice": ("a.csv", "left,right,left,label\na,b,c,1\n", "a.csv: ", "found 2", "'left'"),
    "one class": ("a.csv", HEAD + "a,b,1\nc,d,1\n", "a.csv: ", "2 labels are 1"),
    "numbers": ("a.csv", HEAD + "17,b,1\n18,c,0\n", "a.csv: ", "'left'", "'17'"),
    "label": ("a.csv", HEAD + GOOD + "a,b,2\n", "a.csv:4: ", "'label'", "'2'"),
    "no label": ("a.csv", HEAD + GOOD + "a,b,\n", "a.csv:4: ", "'label'", "''"),
    "no text": ("a.csv", HEAD + GOOD + " ,b,1\n", "a.csv:4: ", "'left'", "' '"),
    "no width": ("a.csv", HEAD + GOOD + "\u200b \u2060\ufeff,c,1\n", "a.csv:4: ", "'left'"),
    "NUL": ("a.csv", HEAD + GOOD + "a\0b,c,1\n", "a.csv:4: "),
    "ragged": ("a.csv", HEAD + GOOD + "a,b\n", "a.csv:4: ", "2 cells", "3"),
    "open quote": ("a.csv", HEAD + GOOD + '"a,b,1\nc,d,0\n', "a.csv:4: "),
    "bad quote": ("a.csv", HEAD + GOOD + '"a"x,b,1\n', "a.csv:4: "),
    "a cell of two lines between tabs": (
        "a.tsv", 'left\tright\tlabel\na\tb\t1\n"c\nd"\te\t0\n', "a.tsv:3: 1 cell ", "Between tabs", "CSV or JSONL"),
    "a tab between quotation marks": ("a.tsv", 'left\tright\tlabel\n"a\tb"\tc\t1\n', "a.tsv:2: 4 cells",
                                      "Between tabs"),
    "nearly 0": ("a.csv", HEAD + GOOD + "a,b,1e-400\n", "a.csv:4: ", "'1e-400'"),
    "digits of another script": ("a.csv", HEAD + GOOD + "a,b,١\n", "a.csv:4: "),
    "another encoding": ("a.csv", (HEAD + "größe,b,1\n").encode() + "größe,b,0\n".encode("latin1"),
                         "a.csv:3: not UTF-8"),
    "UTF-16": ("a.csv", (HEAD + GOOD).encode("utf-16"), "a.csv:1: "),
    "no JSON": ("a.jsonl", JSON + "{", "a.jsonl:3: "),
    "no object": ("a.jsonl", JSON + "[1]", "a.jsonl:3: ", "list"),
    "key twice": ("a.jsonl", JSON + '{"left": "a", "left": "b"}', "a.jsonl:3: ", "'left'"),
    "key missing": ("a.jsonl", JSON + '{"left": "a", "label": 1}', "a.jsonl:3: ", "'right'"),
    "number": ("a.jsonl", JSON + '{"left": "a", "right": 7, "label": 1}', "a.jsonl:3: ", "'right'", "7"),
    "half a character": ("a.jsonl", JSON + '{"left": "a", "right": "b\\ud83d", "label": 1}', "a.jsonl:3: ", "'right'"),
    "half a character in a name": ("a.jsonl", JSON.replace("right", "right\\udc00"), "a.jsonl: ", "cannot be printed"),
    "brackets": ("a.jsonl", JSON + "[" * 100_000, "a.jsonl:3: "),
    "no Parquet": ("a.parquet", "PAR0 this is none", "a.parquet: "),
}


@pytest.mark.parametrize("name, content, words", [(name, content, words) for name, content, *words in BAD.values()],
                         ids=BAD)
def test_what_cannot_be_read_is_named(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as e:
        read_pairs_file(tmp_path / name)
    assert all(word in str(e.value) for word in words), str(e.value)


@pytest.mark.parametrize("damaged", ["größe", "left"])
def test_parquet_that_is_damaged_or_has_a_column_twice(tmp_path, damaged):
    path = written(tmp_path, "parquet")
    path.write_bytes(path.read_bytes().replace(damaged.encode(), b"\xc3(" + damaged.encode()[2:]))
    with pytest.raises(DataError, match="pairs.parquet: "):
        read_pairs_file(path)
    columns = [pa.array(["a", "b"]), pa.array(["a", "b"]), pa.array(["c", "d"]), pa.array([1, 0])]
    pq.write_table(pa.table(columns, names=["left", "left", "right", "label"]), path)
    with pytest.raises(DataError, match="one column 'left' is expected, found 2"):
        read_pairs_file(path)


def texts_of(folder, name, content):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


FIVE = pd.DataFrame({"id": range(5), "text": ["a lamp, boxed", "a chair", "NA", "two desks", "a rug"]})
TABLES = { # of five texts: the ending, how a frame is written
    "csv": lambda path: FIVE.to_csv(path, index=False), "tsv": lambda path: FIVE.to_csv(path, sep="\t", index=False),
    "jsonl": lambda path: FIVE.to_json(path, orient="records", lines=True),
    "parquet": lambda path: FIVE.to_parquet(path),
}


@pytest.mark.parametrize("kind", TABLES)
def test_texts_are_a_column_of_a_table(tmp_path, kind):
    path = tmp_path / f"texts.{kind}"
    TABLES[kind](path)
    assert read_texts(path) == FIVE.text.tolist() and OutReg(.1, texts=f"{path}:text").texts == FIVE.text.tolist()
    with pytest.raises(DataError, match=r"no column 'words'.* 'id', 'text'.*name the column"):
        read_texts(f"{path}:words")
    held = read_held_texts(f"{path}:text")
    assert held.path == f"{path}:text" and held.sha256 == sha256_file(path)


def test_parquet_is_read_with_its_checksums(tmp_path):
    "Bits that flip in a page are noticed where the page has a checksum."
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"left": ["aaaa", "bbbb"], "right": ["cccc", "dddd"], "label": [1, 0]}), path,
                   compression="none", use_dictionary=False, write_page_checksum=True, write_statistics=False)
    whole = path.read_bytes()
    assert read_pairs_file(path).left == ["aaaa", "bbbb"] and whole.count(b"aaaa") == 1
    path.write_bytes(whole.replace(b"aaaa", b"aaba"))
    with pytest.raises(DataError, match="a.parquet: .*checksum|a.parquet: .*CRC"):
        read_pairs_file(path)


def test_a_text_ends_where_a_line_does(tmp_path):
    lines = ["a\u2028b", "c\x0cd", "e\x85f\x1cg"]
    for end in ("\n", "\r\n", "\r"):
        assert read_texts(texts_of(tmp_path, "new.txt",
                                   "\ufeff" + end.join([*lines, " ", "\u200b\u2060", ""]))) == lines


@pytest.mark.parametrize("name, content, said", [
    ("new.csv", HEAD + GOOD, "no column 'text' .*'left', 'right', 'label'"), ("new.tsv", "a\nb\n", "no column 'text'"),
    ("new.csv", "text\n", "no texts"), ("new.csv", "text\na\n\u200b\n", "new.csv:3: "),
    ("new.txt", b"a\nb\n\xff\n", "txt:3: not UTF-8"),
    ("new.txt", "a\nb\0\n", "NUL"),
])
def test_texts_that_are_none_are_refused(tmp_path, name, content, said):
    with pytest.raises(ValueError, match=said):
        read_texts(texts_of(tmp_path, name, content))


@pytest.mark.parametrize("text", ["", " \u200b", "a\0", "b\ud83d"])
def test_a_list_of_texts_is_read_as_strictly(text):
    with pytest.raises(ValueError, match="number 1 has"):
        OutReg(.1, texts=["a lamp", text])


def waiting(path): # nobody ever writes into it
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("read", [
    read_pairs_file, read_texts, read_held_texts, lambda path: named_tests([f"new={path}"]), load_yaml],
    ids=["pairs", "texts", "held texts", "tests", "YAML"])
@pytest.mark.parametrize("name", ["train.tsv", "zero.tsv"])
def test_what_never_ends_is_no_file(tmp_path, monkeypatch, read, name):
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path / "data"))
    (tmp_path / "zero.tsv").symlink_to("/dev/zero")
    waiting(tmp_path / "train.tsv")
    with pytest.raises((DataError, ConfigError), match=f"{name}: a file is expected"):
        read(tmp_path / name)


HALF = "x\udfff"
HALVES = { # a table in which half of a character stands, how it is read, what is said of it
    "a label": ({"left": ["a", "b"], "right": ["c", "d"], "label": ["1", HALF]}, "'label'.*found"),
    "a match": ({"anchor": ["a", "b"], "positive": ["c", HALF]}, "'positive'"),
    "a list of negatives": ({"anchor": ["a", "b"], "positive": ["c", "d"], "negative": [["e"], ["f", HALF]]},
                            "'negative'"),
    "a query": ({"queries": {"q": HALF}, "corpus": {"d": "x"}, "relevant_docs": {"q": ["d"]}},
                "query 'q' is not in .*has nothing to read"),
    "an id": ({"queries": {"q": "a"}, "corpus": {"d": "x"}, "relevant_docs": {"q": [HALF]}}, "is not in"),
}


@pytest.mark.parametrize("table, told", HALVES.values(), ids=HALVES)
def test_half_a_character_is_told_wherever_it_stands(tmp_path, table, told):
    for source in (table, texts_of(tmp_path, "a.json", json.dumps(table))):
        with pytest.raises(DataError, match=told):
            read_pairs_file(source)


def test_half_a_character_in_a_group(tmp_path):
    path = texts_of(tmp_path, "a.jsonl", JSON.replace("}", ', "kind": "b\\udc00"}', 1))
    with pytest.raises(DataError, match="a.jsonl:1: column 'kind': a name of a group is expected"):
        read_pairs_file(path, group="kind")


MISSING = pd.array(["x", None, "y"], dtype="string")
REFUSED = [ # a table, how it is read, words
    (ROWS, {}, "pairs: .* list"), (None, {"name": "new"}, "new: .* NoneType"),
    (FRAME.assign(right=MISSING), {"name": "mine"}, "mine:2: column 'right'"),
    (FRAME.assign(label=pd.array([1, None, 0], dtype="Int64")), {"name": "mine"}, "mine:2: column 'label'"),
    (pd.DataFrame([["a", "b", "c", 1]], columns=["left", "left", "right", "label"]), {}, "'left'"),
    (FRAME, {"group": "brnd"}, "'brnd'"), (FRAME, {"columns": ("left", "left", "label")}, "three different names"),
]


@pytest.mark.parametrize("source, options, words", REFUSED)
def test_tables_that_cannot_be_read_are_named(source, options, words):
    with pytest.raises(DataError, match=words):
        read_pairs_file(source, **options)


@pytest.mark.parametrize("tests", ["new.csv", ["new.csv"], FRAME], ids=["path", "list", "frame"])
def test_tests_need_names(tests):
    with pytest.raises(DataError, match="^tests: "):
        compare("no model", FRAME, tests)
    with pytest.raises(DataError, match="^validation: "):
        compare("no model", FRAME, {"new": FRAME}, validation=tests)


BEFORE_PANDAS = """
import sys
from debias_nb.commands.cli import app
for command in sys.argv[1:]:
    print(app(command.split(), standalone_mode=False))
print("pandas" in sys.modules or "torch" in sys.modules)
"""


def test_a_file_that_is_not_there_is_told_before_pandas_is_loaded(tmp_path):
    path = written(tmp_path, "csv")
    question = f"--base ./none --train {path} --test new={tmp_path}/pair.csv"
    commands = [f"diagnose {question} --tuned ./none", f"compare {question}"]
    commands.append(f"compare --base ./none --train {path} --test new={path} --validation kept={tmp_path}/pair.csv")
    commands.append(f"compare --base ./none --train {path} --test new={path} --texts {tmp_path}/pair.csv:left")
    done = subprocess.run([sys.executable, "-c", BEFORE_PANDAS, *commands], capture_output=True, text=True)
    assert done.stdout.split() == ["2", "2", "2", "2", "False"], done.stderr
    assert done.stderr.count("pair.csv: no such file; did you mean 'pairs.csv'?") == 4


HEADERS = { # further words of a command -> how its refusal begins
    "": "wrong.csv: neither two texts with a label nor an anchor with its positive",
    "--columns one,two,label": "wrong.csv: one column 'label' is expected, found 0 among",
    "--group kind": "wrong.csv: neither two texts with a label",
    "--columns one,two,three --group kind": "wrong.csv: one column 'kind' is expected, found 0 among",
    "--columns one,two,three --where four=a": "wrong.csv: where: COLUMN=VALUE is expected, got 'four=a'",
    "--columns old=one,two,three": "columns: there is no file called 'old'",
}


def test_headers_and_folders_are_refused_before_pandas_is_loaded(tmp_path):
    path, page = tmp_path / "wrong.csv", tmp_path / "index.html"
    path.write_text("one,two,three\nan egg,eggs,1\na mole,planes,0\n")
    page.write_text("mine")
    question = f"diagnose --base none --tuned none --test new={path}"
    commands = [f"{question} {words}" for words in HEADERS] + [f"{question} --out {tmp_path}",
        f"label --base a --tuned b --pool {path} --out {path}"]
    done = subprocess.run([sys.executable, "-c", BEFORE_PANDAS, *commands], capture_output=True, text=True)
    assert done.stdout.split() == ["2"] * len(commands) + ["False"], done.stderr
    *headers, out, table = done.stderr.splitlines()
    assert all(said in line for said, line in zip(HEADERS.values(), headers, strict=True))
    assert "index.html: the file exists, and is no page of debias-nb" in out
    assert "labels that are there are never overwritten" in table


BROKEN_AT_ONCE = '"left"s,right,label\n' + "a,b,1\n" * (FIRST_CHARACTERS // 6) # and larger than what is looked at first


@pytest.mark.parametrize("text", [
    "one,two,three\na,b,c\n", "a,b,a\n1,2,3\n", "left,right,label\na,b\n", "left,right,label\na,b,1\nc,d,0\n",
    "left\tright\n", "",
    pytest.param(BROKEN_AT_ONCE, id="broken at once"),
])
def test_a_header_is_refused_as_its_file_is(text, tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text(text)

    def refusal(function):
        try:
            function(str(path))
        except DataError as e:
            return str(e)

    early = refusal(lambda path: check_header(path, options_from()))
    assert early in (None, refusal(read_pairs_file))
    assert (early is None) == (not text.startswith("one"))


def test_general_texts_that_are_tested_are_left_out_and_others_are_refused():
    file = read_pairs_file(pd.DataFrame({"left": ["Lamps, red!", "a hat"], "right": ["a boot", "a shoe"],
                                         "label": [1, 0]}))
    texts = ["lamps red", "old chairs", "kettles"]
    with pytest.raises(DataError, match="1 of 3 also occur in new"):
        without_tests(HeldTexts(texts, "0", "new.txt"), {"new": file})
    kept = without_tests(HeldTexts(texts, "0", GENERAL_TEXTS), {"new": file})
    assert kept.texts == texts[1:] and kept.sha256 != "0"
    assert without_tests(kept, {"new": file}) is kept
    (note,) = general_notes(kept)
    assert "2" in note and "QNLI" in note and "Semantic Textual Similarity" in note
    assert general_notes(None) == general_notes(HeldTexts(texts, "0", "new.txt")) == []


def test_general_texts_are_questions_with_answers_and_sundry_sentences(monkeypatch, tmp_path):
    asked = texts_of(tmp_path, "qnli-dev.tsv",
                     "index\tquestion\tsentence\tlabel\n0\twhy?\tso\tentailment\n1\thow?\tthus\tentailment\n")
    monkeypatch.setattr("debias_nb.data.sentences.locate", lambda dataset, file, download: asked)
    monkeypatch.setattr("debias_nb.data.sentences._left_over", lambda kind, download: ["a man", "so", "a word"])
    assert read_texts("general") == ["why?", "how?", "so", "thus", "a man", "a word"]
    with pytest.raises((OSError, ValueError)):
        read_texts(Path("general")) # a file of this name
