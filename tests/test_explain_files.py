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


def test_long_texts_that_are_nearly_numbers_are_read_at_once(tmp_path):
    "Once each digit was tried as the first one behind the point: hours for a text like these."
    frame = FRAME.assign(left=["9" * LONGEST, "9" * (LONGEST - 1) + "x", "1"])
    assert read_pairs_file(written(tmp_path, "csv", frame)).left == frame.left.tolist()
    with pytest.raises(DataError, match="holds numbers alone"):
        read_pairs_file(written(tmp_path, "csv", FRAME.assign(left=["-1.5e3", ".5", "+7"])))


HEAD = "left,right,label\n"
GOOD = "a lamp,a table,1\nb,c,0\n"
BAD = { # content of a CSV, what the message says
    "empty": ("", "pairs.csv: the file is empty"),
    "blanks": (" \n\n", "the file is empty"),
    "a mark of byte order alone": ("\ufeff\n", "the file is empty"),
    "header alone": (HEAD, "no pairs, only a header ('left', 'right', 'label')"),
    "typo": ("lefft,right,label\n" + GOOD, "no column 'left'; did you mean 'lefft'?"),
    "twice": ("left,right,left,label\na,b,c,1\n", "2 columns are called 'left'"),
    "one class": (HEAD + "a,b,1\nc,d,1\n", "all 2 labels are 1"),
    "numbers": (HEAD + "17,b,1\n18,c,0\n", "column 'left' holds numbers alone (the first is '17')"),
    "label": (HEAD + GOOD + "a,b,2\n", "pairs.csv:4: column 'label': labels are 0 or 1, found '2'"),
    "no label": (HEAD + GOOD + "a,b,\n", "pairs.csv:4: column 'label': labels are 0 or 1, found ''"),
    "no text": (HEAD + GOOD + " ,b,1\n", "pairs.csv:4: column 'left': the text is empty"),
    "ragged": (HEAD + GOOD + "a,b\n", "pairs.csv:4: 2 cells, the header has 3"),
    "open quote": (HEAD + GOOD + '"a,b,1\nc,d,0\n', "pairs.csv:4: a quotation mark is opened here and never closed"),
    "bad quote": (HEAD + GOOD + '"a"x,b,1\n', "pairs.csv:4: a cell that begins with a quotation mark ends with one"),
    "semicolons": ("left;right;label\na;b;1\n", "semicolons stand between the cells; convert the file, e.g. with `pandas.read_csv("),
    "quoted semicolons": ('"left";"right";"label"\n"a";"b";"1"\n', "pairs.csv:1: semicolons stand between the cells"),
    "no header": (GOOD, "no column 'left' (known: 'a lamp', 'a table', '1'); is there no header line?"),
    "other names": ("question1,question2,label\na,b,1\n", "'label'); one set of names holds for all files"),
    "words": (HEAD + "a,b,yes\nc,d,no\n", "found 'no'; write 1 for a match and 0 for none, e.g. with pandas `frame.label =="),
    "huge": (HEAD + GOOD + "x" * 10**6 + ",b,1\n", f"pairs.csv:4: a cell has more than {LONGEST:,} characters"),
    "large": (HEAD + GOOD + "x" * (LONGEST + 1) + ",b,1\n", "pairs.csv:4: column 'left': the text has 100,001 characters"),
}


@pytest.mark.parametrize("content, message", BAD.values(), ids=BAD)
def test_refusals_of_a_csv_file(tmp_path, content, message):
    path = tmp_path / "pairs.csv"
    path.write_text(content, "utf-8")
    with pytest.raises(DataError) as e:
        read_pairs_file(path)
    assert message in str(e.value) and "pairs.csv" in str(e.value)


def test_a_line_in_another_encoding_is_named(tmp_path):
    path = tmp_path / "mixed.csv"
    path.write_bytes((HEAD + "größe,b,1\n").encode() + "größe,b,0\n".encode("latin1"))
    with pytest.raises(DataError, match=r"mixed.csv:3: not UTF-8 at byte 3 of the line"):
        read_pairs_file(path)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_told_by_its_first_bytes(tmp_path, encoding):
    path = tmp_path / "pairs.csv"
    path.write_bytes(f"\ufeff{HEAD}{GOOD}".encode(encoding))
    with pytest.raises(DataError, match="pairs.csv: UTF-16, .* `iconv -f utf-16 -t utf-8`"):
        read_pairs_file(path)


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


LINES = { # a third line of JSON, what the message says
    "no JSON": ("{", ":3: no JSON"),
    "no object": ("[1]", ":3: an object is expected, found list"),
    "key twice": ('{"left": "a", "left": "b"}', ":3: the key 'left' stands twice"),
    "key missing": ('{"left": "a", "label": 1}', ":3: no 'right'"),
    "number": ('{"left": "a", "right": 7, "label": 1}', ":3: column 'right': a text is expected, found 7, a int"),
    "nothing": ('{"left": "a", "right": null, "label": 1}', ":3: column 'right': a text is expected, found nothing"),
    "half a character": ('{"left": "a", "right": "b\\ud83d", "label": 1}',
                         ":3: column 'right': half of a character, '\\ud83d', at character 2"),
    "brackets": ("[" * 100_000, ":3: too many brackets within brackets"),
    "label": ('{"left": "a", "right": "b", "label": "yes"}', ":3: column 'label': labels are 0 or 1, found 'yes'"),
}


@pytest.mark.parametrize("line, message", LINES.values(), ids=LINES)
def test_refusals_of_json_lines(tmp_path, line, message):
    good = [json.dumps(dict(left="a", right="b", label=label)) for label in (0, 1)]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join([*good, line]))
    with pytest.raises(DataError) as e:
        read_pairs_file(path)
    assert f"pairs.jsonl{message}" in str(e.value)


def test_half_a_character_names_no_group(tmp_path):
    path = tmp_path / "pairs.jsonl"
    rows = [dict(left="a", right="b", label=label, brand="x\ud83d"[: 2 - label]) for label in (1, 0)]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert read_pairs_file(path).left == ["a", "a"]
    with pytest.raises(DataError, match="pairs.jsonl:2: column 'brand': half of a character"):
        read_pairs_file(path, group="brand")


def test_cells_that_pandas_calls_missing_are_missing():
    missing = pd.array(["x", None, "y"], dtype="string")
    assert missing[1] is pd.NA
    assert read_pairs_file(FRAME.assign(brand=missing), group="brand").frame.group.tolist() == ["x", "(none)", "y"]
    with pytest.raises(DataError, match="mine:2: column 'right': a text is expected, found nothing"):
        read_pairs_file(FRAME.assign(right=missing), name="mine")
    with pytest.raises(DataError, match="mine:2: column 'label': labels are 0 or 1, found <NA>"):
        read_pairs_file(FRAME.assign(label=pd.array([1, None, 0], dtype="Int64")), name="mine")


@pytest.mark.parametrize("damaged, message", [
    ("größe", ":3: column 'left': 'utf-8' codec can't decode"), # the third row
    ("left", ": the name of a column is not UTF-8"),
])
def test_parquet_that_holds_no_text(tmp_path, damaged, message):
    path = written(tmp_path, "parquet")
    word = damaged.encode()
    broken = b"\xc3(" + word[2:]
    path.write_bytes(path.read_bytes().replace(word, broken))
    with pytest.raises(DataError) as e:
        read_pairs_file(path)
    assert f"pairs.parquet{message}" in str(e.value)


def test_other_refusals(tmp_path):
    with pytest.raises(DataError, match="the name must end in one of .csv"):
        read_pairs_file(tmp_path / "pairs.xlsx")
    written(tmp_path, "csv")
    with pytest.raises(DataError, match="no such file; did you mean 'pairs.csv'"):
        read_pairs_file(tmp_path / "pair.csv")
    (tmp_path / "pairs.parquet").write_bytes(b"PAR0 this is none")
    with pytest.raises(DataError, match="pairs.parquet: no Parquet"):
        read_pairs_file(tmp_path / "pairs.parquet")
    twice = pd.DataFrame([["a", "b", "c", 1]], columns=["left", "left", "right", "label"])
    with pytest.raises(DataError, match="2 columns are called 'left'"):
        read_pairs_file(twice)
    with pytest.raises(DataError, match="three different names"):
        read_pairs_file(FRAME, ("left", "left", "label"))
    with pytest.raises(DataError, match="no column 'brnd'"):
        read_pairs_file(FRAME, group="brnd")


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
