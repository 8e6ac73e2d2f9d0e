"A file that is labeled pair by pair: saved after each, with its form as it was, and no label of a person is lost."
import pytest

from debias_nb.data.registry import DataError
from debias_nb.diagnosis.labeling import LabelFile

PAIRS = 'left,right,label,weight,why\nred lamp,"lamp, red",,1.5,near\nred lamp,"two\nlines ""quoted""",,0.50,\nNA,007,1,1,far\nold chair,,  ,2,\n'


def label_next(file, label):
    "Label the first row without a label, if there is one."
    for line in file.todo.index[:1]:
        file.label(line, label)


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "to_label.csv"
    file.write_text(PAIRS, newline="")
    return file


def test_each_label_is_saved_and_all_else_stays(path):
    file = LabelFile(path)
    label_next(file, "1")
    assert path.read_text() == PAIRS.replace(',"lamp, red",,', ',"lamp, red",1,')
    label_next(file, "0")
    assert len(file.todo) == 1 and path.read_text() == PAIRS.replace(',"lamp, red",,', ',"lamp, red",1,').replace('quoted""",,', 'quoted""",0,')
    label_next(file, "0")
    label_next(file, "1")
    assert file.todo.empty and LabelFile(path).rows.label.tolist() == ["1", "0", "1", "0"], "a label that was there stays"


def test_undo_takes_back_labels_of_this_session_alone(path):
    file = LabelFile(path)
    label_next(file, "1")
    label_next(file, "1")
    for _ in range(3):
        file.undo()
    assert path.read_text() == PAIRS.replace("old chair,,  ,", "old chair,,  ,") and file.todo.right.iloc[0] == "lamp, red"
    label_next(file, "0")
    again = LabelFile(path)
    again.undo()
    assert again.rows.label.tolist()[0] == "0" and again.todo.right.iloc[0].startswith("two"), "taken up where it was left"


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_the_form_of_a_spreadsheet_stays(path, mark, delimiter, ends):
    before = mark + ends.join([delimiter.join(row) for row in (["left", "right", "label"], ["für", "“für”", ""], ["a", "b", "0"], [])]).encode()
    path.write_bytes(before)
    label_next(LabelFile(path), "1")
    assert path.read_bytes() == before.replace("“für”".encode() + delimiter.encode(), "“für”".encode() + delimiter.encode() + b"1")


def test_a_line_that_has_a_label_keeps_it(path):
    file = LabelFile(path)
    [labeled] = file.rows.index[file.rows.label == "1"]
    file.label(labeled, "0")
    assert path.read_text() == PAIRS and file.history == []


def test_a_second_writer_is_noticed_and_wins(path):
    file, other = LabelFile(path), LabelFile(path)
    label_next(other, "0")
    written = path.read_text()
    for step in (lambda: label_next(file, "1"), lambda: label_next(file, "1")):
        with pytest.raises(DataError, match="to_label.csv: another program has changed this file, and this label is not saved"):
            step()
    assert path.read_text() == written and file.history == []
    again = LabelFile(path)
    label_next(again, "1")
    assert again.rows.label.tolist()[:2] == ["0", "1"]


def test_a_disk_that_is_full_leaves_the_file(path, monkeypatch):
    file = LabelFile(path)

    def refuse(*_):
        raise OSError("No space left on device")
    monkeypatch.setattr("debias_nb.diagnosis.labeling.write_whole", refuse)
    with pytest.raises(OSError, match="No space left"):
        label_next(file, "1")
    monkeypatch.undo()
    assert path.read_text() == PAIRS and len(file.todo) == 3, "the pair is still to be labeled"
    label_next(file, "0")
    assert path.read_text() == PAIRS.replace(',"lamp, red",,', ',"lamp, red",0,')


@pytest.mark.parametrize("name, text", [
    ("a.jsonl", '{"left": "a", "right": "b", "label": ""}\n'), ("a.csv", "left|right|label\na|b|\n"), ("a.csv", "sep=;\nleft;right;label\na;b;\n"),
])
def test_a_form_that_labels_would_change_is_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=f"{name}: this form is not kept when labels are written"):
        LabelFile(tmp_path / name)
    assert (tmp_path / name).read_text() == text


@pytest.mark.parametrize("text, message", [
    ("left,right,weight\na,b,1\n", "columns left, right and label are expected, found left, right, weight"),
    ("", "columns left, right and label are expected"),
    ("left,right,label\na,b,,\n", "to_label.csv:2: 4 cells between commas"),
    ('left,right,label\na,"b,\n', "to_label.csv:2"),
])
def test_a_file_of_another_form_is_refused(path, text, message):
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        LabelFile(path)
    assert path.read_text() == text
