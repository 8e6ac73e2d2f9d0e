"Files that cannot be read are refused with file, line and column; the four formats give the same pairs."
import json
import subprocess
import sys

import pandas as pd
import pytest

from debias_nb.data.registry import DataError
from debias_nb.explain.compare import compare
from debias_nb.explain.diagnose import read_files
from debias_nb.explain.pairs_file import LONGEST, read_pairs_file

ROWS = [("a red lamp", "lamp, red", 1), ("an old \"chair\"", "table", 0), ("größe", "two\nlines", 1)]
FRAME = pd.DataFrame(ROWS, columns=["left", "right", "label"])


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
    found = read_pairs_file(written(tmp_path, kind))
    assert list(zip(found.left, found.right, found.labels.tolist())) == ROWS
    assert found.name == "pairs" and len(found.sha256) == 64 and len(found) == 3


def test_a_line_of_json_ends_at_a_line_feed_alone(tmp_path):
    path = written(tmp_path, "jsonl", FRAME.assign(left=["a\u2028b", "c", "d"]))
    assert "\u2028" in path.read_text("utf-8") and read_pairs_file(path).left[0] == "a\u2028b"


def test_a_data_frame_will_do_and_a_pair_file_is_given_back():
    found = read_pairs_file(FRAME, name="mine")
    assert found.labels.tolist() == [1, 0, 1] and found.path is None
    assert read_pairs_file(found) is found
    assert found.sha256 != read_pairs_file(FRAME.assign(label=[0, 1, 1])).sha256


def test_other_tables_are_as_good_as_a_data_frame():
    from datasets import Dataset
    from pyarrow import Table
    expected = read_pairs_file(FRAME)
    for table in (Dataset.from_pandas(FRAME), Table.from_pandas(FRAME)):
        found = read_pairs_file(table, name="mine")
        assert list(zip(found.left, found.right, found.labels.tolist())) == ROWS
        assert found.name == "mine" and found.path is None and found.sha256 == expected.sha256


@pytest.mark.parametrize("source, kind", [(ROWS, "list"), (None, "NoneType"), ({"left": ["a"]}, "dict")])
def test_what_is_no_table_is_refused(source, kind):
    with pytest.raises(DataError, match=f"^pairs: a path or a data frame is expected, got {kind}$"):
        read_pairs_file(source)
    with pytest.raises(DataError, match=f"^train: a path or a data frame is expected, got {kind}$"):
        read_files(source, {"new": FRAME}, ("left", "right", "label"))
    with pytest.raises(DataError, match=f"^new: a path or a data frame is expected, got {kind}$"):
        read_files(FRAME, {"new": source}, ("left", "right", "label"))


def test_tables_of_datasets_have_the_name_of_their_test():
    from datasets import Dataset
    files = read_files(Dataset.from_pandas(FRAME), {"new": Dataset.from_pandas(FRAME)}, ("left", "right", "label"))
    assert [file.name for file in files.values()] == ["train", "new"]


def test_other_names_and_groups(tmp_path):
    frame = FRAME.rename(columns={"left": "q", "label": "y"}).assign(brand=["x", None, "y"], more=1)
    found = read_pairs_file(written(tmp_path, "csv", frame), ("q", "right", "y"), "brand")
    assert found.left[0] == "a red lamp" and found.frame.group.tolist() == ["x", "(none)", "y"]
    assert found.columns == ("q", "right", "y")


def test_lines_are_where_rows_begin(tmp_path):
    frame = pd.concat([FRAME.iloc[2:], FRAME.iloc[:2]])
    assert read_pairs_file(written(tmp_path, "csv", frame)).frame.line.tolist() == [2, 4, 5]


@pytest.mark.parametrize("labels", [["1", "0"], ["1.0", "0.0"], ["True", "false"], [1, 0], [1., 0.], [True, False]])
def test_labels_may_be_written_in_several_ways(labels):
    frame = pd.DataFrame({"left": ["a", "b"], "right": ["c", "d"], "label": labels})
    assert read_pairs_file(frame).labels.tolist() == [1, 0]


HEAD = "left,right,label\n"
GOOD = "a lamp,a table,1\nb,c,0\n"
JSON = '{"left": "a", "right": "b", "label": 1}\n{"left": "a", "right": "b", "label": 0}\n'
BAD = { # name of a file, its content, words of the message
    "empty": ("a.csv", "", ("a.csv: no pairs",)),
    "header alone": ("a.csv", HEAD, ("a.csv: no pairs",)),
    "typo": ("a.csv", "lefft,right,label\n" + GOOD, ("a.csv: no column 'left'", "'lefft'")),
    "twice": ("a.csv", "left,right,left,label\na,b,c,1\n", ("a.csv: ", "2 columns", "'left'")),
    "one class": ("a.csv", HEAD + "a,b,1\nc,d,1\n", ("a.csv: ", "2 labels are 1")),
    "numbers": ("a.csv", HEAD + "17,b,1\n18,c,0\n", ("a.csv: ", "'left'", "numbers", "'17'")),
    "label": ("a.csv", HEAD + GOOD + "a,b,2\n", ("a.csv:4: ", "'label'", "'2'")),
    "no label": ("a.csv", HEAD + GOOD + "a,b,\n", ("a.csv:4: ", "'label'", "''")),
    "no text": ("a.csv", HEAD + GOOD + " ,b,1\n", ("a.csv:4: ", "'left'", "' '")),
    "no width": ("a.csv", HEAD + GOOD + "\u200b \u2060\ufeff,c,1\n", ("a.csv:4: ", "'left'")),
    "NUL": ("a.csv", HEAD + GOOD + "a\0b,c,1\n", ("a.csv:4: ",)),
    "ragged": ("a.csv", HEAD + GOOD + "a,b\n", ("a.csv:4: ", "2 cells", "3")),
    "open quote": ("a.csv", HEAD + GOOD + '"a,b,1\nc,d,0\n', ("a.csv:4: ",)),
    "bad quote": ("a.csv", HEAD + GOOD + '"a"x,b,1\n', ("a.csv:4: ",)),
    "semicolons": ("a.csv", '"left";"right";"label"\n"a";"b";"1"\n', ("a.csv:1: semicolons", "pandas.read_csv(")),
    "large": ("a.csv", HEAD + GOOD + "x" * (LONGEST + 1) + ",b,1\n", ("a.csv:4: ", "'left'", "100,001")),
    "huge": ("a.csv", HEAD + GOOD + "x" * 10**6 + ",b,1\n", ("a.csv:4: ",)),
    "no JSON": ("a.jsonl", JSON + "{", ("a.jsonl:3: ",)),
    "no object": ("a.jsonl", JSON + "[1]", ("a.jsonl:3: ", "object", "list")),
    "key twice": ("a.jsonl", JSON + '{"left": "a", "left": "b"}', ("a.jsonl:3: ", "'left'")),
    "key missing": ("a.jsonl", JSON + '{"left": "a", "label": 1}', ("a.jsonl:3: ", "'right'")),
    "number": ("a.jsonl", JSON + '{"left": "a", "right": 7, "label": 1}', ("a.jsonl:3: ", "'right'", "7")),
    "half a character": ("a.jsonl", JSON + '{"left": "a", "right": "b\\ud83d", "label": 1}', ("a.jsonl:3: ", "'right'")),
    "NUL, JSON": ("a.jsonl", JSON + '{"left": "a", "right": "b\\u0000", "label": 1}', ("a.jsonl:3: ", "'right'")),
    "brackets": ("a.jsonl", JSON + "[" * 100_000, ("a.jsonl:3: ",)),
    "no Parquet": ("a.parquet", "PAR0 this is none", ("a.parquet: ",)),
    "another ending": ("a.xlsx", "", ("a.xlsx: ", ".csv")),
}


@pytest.mark.parametrize("name, content, words", BAD.values(), ids=BAD)
def test_what_cannot_be_read_is_named(tmp_path, name, content, words):
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(DataError) as e:
        read_pairs_file(tmp_path / name)
    assert all(word in str(e.value) for word in words), str(e.value)


def test_a_line_in_another_encoding_is_named(tmp_path):
    path = tmp_path / "mixed.csv"
    path.write_bytes((HEAD + "größe,b,1\n").encode() + "größe,b,0\n".encode("latin1"))
    with pytest.raises(DataError, match="mixed.csv:3: not UTF-8"):
        read_pairs_file(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32-be"])
def test_two_or_four_bytes_a_character_are_refused(tmp_path, encoding):
    for name, text in (("a.csv", HEAD + GOOD), ("a.jsonl", JSON)):
        (tmp_path / name).write_bytes(text.encode(encoding))
        with pytest.raises(DataError, match=name):
            read_pairs_file(tmp_path / name)


def test_a_semicolon_in_a_header_with_commas_is_none_between_cells(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("a;b,right,label\nx,y,1\nz,y,0\n")
    assert read_pairs_file(path, ("a;b", "right", "label")).left == ["x", "z"]


@pytest.mark.parametrize("tests", ["new.csv", ["new.csv"], FRAME], ids=["path", "list", "frame"])
def test_tests_need_names(tests):
    with pytest.raises(DataError, match="^tests: files by name are expected, e.g. tests={'new': 'new.csv'}, got "):
        read_files(FRAME, tests, ("left", "right", "label"))
    with pytest.raises(DataError, match="^tests: files by name are expected"):
        compare("no model", FRAME, tests, progress=False)


def test_a_mark_at_the_beginning_is_no_part_of_a_name(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text(HEAD + GOOD, "utf-8-sig")
    assert len(read_pairs_file(path)) == 2


def test_half_a_character_names_no_group(tmp_path):
    path = tmp_path / "pairs.jsonl"
    rows = [dict(left="a", right="b", label=label, brand="x\ud83d"[: 2 - label]) for label in (1, 0)]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert read_pairs_file(path).left == ["a", "a"]
    with pytest.raises(DataError, match="pairs.jsonl:2: column 'brand'"):
        read_pairs_file(path, group="brand")


def test_cells_that_pandas_calls_missing_are_missing():
    missing = pd.array(["x", None, "y"], dtype="string")
    assert missing[1] is pd.NA
    assert read_pairs_file(FRAME.assign(brand=missing), group="brand").frame.group.tolist() == ["x", "(none)", "y"]
    with pytest.raises(DataError, match="mine:2: column 'right': a text is expected, found <NA>"):
        read_pairs_file(FRAME.assign(right=missing), name="mine")
    with pytest.raises(DataError, match="mine:2: column 'label': labels are 0 or 1, found <NA>"):
        read_pairs_file(FRAME.assign(label=pd.array([1, None, 0], dtype="Int64")), name="mine")


@pytest.mark.parametrize("damaged, message", [
    ("größe", ": 'utf-8' codec can't decode"),
    ("left", ": "),
])
def test_parquet_that_holds_no_text(tmp_path, damaged, message):
    path = written(tmp_path, "parquet")
    word = damaged.encode()
    broken = b"\xc3(" + word[2:]
    path.write_bytes(path.read_bytes().replace(word, broken))
    with pytest.raises(DataError) as e:
        read_pairs_file(path)
    assert f"pairs.parquet{message}" in str(e.value)


def test_names_that_are_not_there_or_stand_twice(tmp_path):
    written(tmp_path, "csv")
    twice = pd.DataFrame([["a", "b", "c", 1]], columns=["left", "left", "right", "label"])
    for source, options, words in (
        (tmp_path / "pair.csv", {}, "'pairs.csv'"), (twice, {}, "'left'"), (FRAME, {"group": "brnd"}, "'brnd'"),
        (FRAME, {"columns": ("left", "left", "label")}, "three different names"),
    ):
        with pytest.raises(DataError, match=words):
            read_pairs_file(source, **options)


BEFORE_TORCH = """
import sys
from debias_nb.repro.cli import app
for command in sys.argv[1:]:
    print(app(command.split(), standalone_mode=False))
print("torch" in sys.modules)
"""


def test_a_file_that_is_not_there_is_told_before_torch_is_imported(tmp_path):
    path = written(tmp_path, "csv")
    question = f"--base ./none --train {path} --test new={tmp_path}/pair.csv"
    commands = [f"diagnose {question} --tuned ./none", f"compare {question}"]
    commands.append(f"compare --base ./none --train {path} --test new={path} --validation kept={tmp_path}/pair.csv")
    done = subprocess.run([sys.executable, "-c", BEFORE_TORCH, *commands], capture_output=True, text=True)
    assert done.stdout.split() == ["2", "2", "2", "False"], done.stderr
    assert done.stderr.count("pair.csv: no such file; did you mean 'pairs.csv'?") == 3
