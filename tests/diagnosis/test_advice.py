"""Every advice that the readers of files can print is pasted, and read again, until nothing is advised any more.

`pytest -s tests/diagnosis/test_advice.py` prints what came of each."""
import ast
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from advice import MESSAGES, counts, follow, ways
from debias_nb.data.registry import DataError
from debias_nb.data.texts import read_texts_file
from debias_nb.diagnosis.files.pairs_file import read_pairs_file
from debias_nb.diagnosis.files.run_files import read_run

ROOT = Path(__file__).parents[2]
READERS = [ROOT / "debias_nb/data" / name for name in ("tables.py", "texts.py")] + sorted(
    (ROOT / "debias_nb/diagnosis/files").glob("*.py"))
IS_ADVICE = re.compile(r" ?--(columns|match|match-from|where)\b|name one of them|:COLUMN\b|-rank\b|explode\(|query_id, "
                       r"doc_id, rank and score|with a minus sign")


# What can be printed.

def printable(path):
    "The pieces of a module's messages that advise something; neither docstrings nor a command line's options."
    tree = ast.parse(path.read_text("utf-8"))
    documented = {id(node.body[0].value) for node in ast.walk(tree)
                  if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and node.body
                  and isinstance(node.body[0], ast.Expr)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in documented and IS_ADVICE.search(node.value):
            yield node.value


NOT_ADVICE = {" --columns ", ",", "--columns", "--columns takes "} # parts of others, and names of options
PRINTABLE = sorted({piece for path in READERS for piece in printable(path)} - NOT_ADVICE)


# What is done with it.

CAME = [] # what was pasted, and what came of it


def lamp(number, which=""):
    return f"a {'red' if number % 3 else 'blue'} lamp number {number} {which}".strip()


def rows_of(make, count=40):
    return [make(number, number % 2) for number in range(count)]


def texts(number, one="text1", other="text2"):
    return {one: lamp(number), other: lamp(number, "b")}


TABLES = { # rows -> what may be read in the end: form, matches, other rows
    "a label of another name": (rows_of(lambda i, y: texts(i) | {"choice": "Same" if y else "Different"}),
                                {("pairs", 20, 20)}),
    "a name with blanks": (rows_of(lambda i, y: texts(i, "first text", "second text")
                                   | {"who said": "yes" if y else "no"}), {("pairs", 20, 20)}),
    "no label": (rows_of(lambda i, y: texts(i, "sentence1", "sentence2")), {("retrieval", 40, 0)}),
    "two forms": (rows_of(lambda i, y: texts(i, "sentence1", "sentence2") | texts(i, "anchor", "positive")
                          | {"negative": lamp(i, "c"), "label": y}), {("pairs", 20, 20), ("candidates", 40, 40)}),
    "numbers beside matches": (rows_of(lambda i, y: texts(i, "anchor", "positive") | {"overlap": y}),
                               {("pairs", 20, 20), ("retrieval", 40, 0)}),
    "classes": (rows_of(lambda i, y: texts(i, "left", "right") | {"label": i % 4}),
                {("pairs", 10, 30), ("pairs", 20, 20), ("pairs", 30, 10)}),
    "words": (rows_of(lambda i, y: texts(i, "left", "right") | {"label": ("near", "far")[y]}), {("pairs", 20, 20)}),
    "grades": (rows_of(lambda i, y: texts(i, "left", "right") | {"label": (i % 20) / 4}), {("pairs", 20, 20)}),
    "two kinds of rows": (
        rows_of(lambda i, y: texts(i, "left", "right") | {"label": int(i % 3 == 0), "split": ("a", "b")[y]}),
        {("pairs", 14, 26)}),
    "names of tables": (rows_of(lambda i, y: texts(i, "ltable_name", "rtable_name") | {"gold": y}),
                        {("pairs", 20, 20)}),
    "an annotator beside labels": (rows_of(lambda i, y: texts(i) | {"choice": "Same" if y else "Different",
                                                                    "annotator": i % 3}), {("pairs", 20, 20)}),
    "lists of two texts": (rows_of(lambda i, y: {"id": f"{i}x", "fandoms": ["a", "b"], "pair": [lamp(i), lamp(i, "b")],
                                                 "same": bool(y)}), {("pairs", 20, 20), ("retrieval", 40, 0)}),
    "a negative of another name": (rows_of(lambda i, y: texts(i, "question", "response") | {
        "rejected_response": lamp(i, "c")}), {("candidates", 40, 40)}),
    "one text and a number": (rows_of(lambda i, y: {"name": lamp(i), "price": i, "label": y}), set()),
}


def check_ways(name, source, names, wanted, **given):
    came = []
    for options, file in follow(source, names, given):
        came.append(counts(file))
        CAME.append((name,
                     " ".join(f"--{key.replace('_', '-')} {','.join(value) if isinstance(value, tuple) else value}"
                              for key, value in options.items()), came[-1]))
    assert came and {*came} <= wanted, (came, MESSAGES[-3:])


@pytest.mark.parametrize("name", [name for name, (_, wanted) in TABLES.items() if wanted])
def test_what_is_advised_of_a_table_works_when_it_is_pasted(tmp_path, name):
    rows, wanted = TABLES[name]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    check_ways(name, path, list(rows[0]), wanted)


def test_one_of_two_labels_is_named():
    rows = rows_of(lambda i, y: texts(i, "one", "two") | {"label": y, "gold_label": 1 - y})
    check_ways("two labels beside named texts", rows, list(rows[0]), {("pairs", 20, 20)}, columns=("one", "two"))


def test_where_too_few_texts_are_no_columns_are_advised(tmp_path):
    rows, _ = TABLES["one text and a number"]
    pd.DataFrame(rows).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError) as e:
        read_pairs_file(tmp_path / "a.csv")
    assert "--columns" not in str(e.value) and "two columns of texts are needed" in str(e.value)
    numbers = [{"left": f"{i}", "right": f"{i + 1}", "label": i % 2} for i in range(20)]
    with pytest.raises(DataError, match="column 'left' holds only numbers") as e:
        read_pairs_file(numbers)
    assert "--columns" not in str(e.value), "of names that are not in the file"


def test_where_chooses_the_rows_of_a_value():
    rows, _ = TABLES["two kinds of rows"]
    file = read_pairs_file(rows)
    MESSAGES.append(file.note)
    parts = [read_pairs_file(rows, **way) for way in ways(file.note, [])]
    assert len(parts) == 2 and sum(len(part) for part in parts) == len(file)
    CAME.append(("two kinds of rows", "--where split=a, --where split=b", [counts(part) for part in parts]))


def test_a_split_is_named(tmp_path):
    rows = rows_of(lambda i, y: texts(i, "left", "right") | {"label": y})
    columns = pd.DataFrame(rows).to_dict("list")
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"train": columns, "dev": columns}))
    check_ways("several splits", path, list(rows[0]), {("pairs", 20, 20)})


JUDGED = {"queries": {"1": "q", "2": "r", "3": "s"}, "corpus": {"a": "x", "b": "y", "c": "z"},
          "relevant_docs": {"1": {"a": 1}, "2": {"b": 2}, "3": {"c": 0}}}


def test_queries_without_a_match_are_left_out():
    with pytest.raises(DataError) as e:
        read_pairs_file(JUDGED)
    MESSAGES.append(str(e.value))
    [way] = ways(str(e.value), [])
    assert counts(read_pairs_file(JUDGED, **way)) == ("retrieval", 2, 0)
    CAME.append(("a query without a match", "--match-from 1", ("retrieval", 2, 0)))


def test_lists_are_turned_as_advised():
    rows = [{"query": f"q {i}", "docs": ["a b", "c d", "e f"], "labels": [0, 1, 0]} for i in range(9)]
    with pytest.raises(DataError) as e:
        read_pairs_file(rows)
    MESSAGES.append(str(e.value))
    line = re.search(r"frame\.explode\(\[.*?\]\)", str(e.value))[0]
    file = read_pairs_file(eval(line, {"frame": pd.DataFrame(rows)}))
    assert counts(file) == ("pairs", 9, 18)
    CAME.append(("lists of texts and labels", line, counts(file)))


def of_dedupe(*records):
    return {"__class__": "tuple", "__value__": [dict(zip(("name", "price"), record)) for record in records]}


TURNED = { # name of a file -> its content, and the pairs that a line of Python makes of it
    "training.json": ({"distinct": [of_dedupe(("red lamp", None), ("hat", 7))],
                       "match": [of_dedupe(("lamp", 3), ("a lamp", None))]},
                      [("red lamp", "hat 7", 0), ("lamp 3", "a lamp", 1)]),
    "split.json": (pd.DataFrame([texts(0) | {"label": 1}, texts(1) | {"label": 0}]).to_dict("split"),
                   [(lamp(0), lamp(0, "b"), 1), (lamp(1), lamp(1, "b"), 0)]),
}


@pytest.mark.parametrize("name", TURNED)
def test_files_are_turned_as_advised(tmp_path, monkeypatch, name):
    content, right = TURNED[name]
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(json.dumps(content))
    with pytest.raises(DataError) as e:
        read_pairs_file(name)
    exec(re.search("This makes .* of (it|them): (.*)", str(e.value))[2], {})
    file = read_pairs_file("pairs.csv")
    assert [*zip(file.left, file.right, file.labels)] == right


@pytest.mark.parametrize("name, content", [("t.csv", "name,told\na lamp,red\na chair,blue\n"),
                                           ("t.txt", "name,told\na lamp,red\na chair,blue\na rug,green\n")])
def test_a_column_of_texts_is_named(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError) as e:
        read_texts_file(path)
    MESSAGES.append(str(e.value))
    source = str(path.rename(path.with_suffix(".csv"))) if name.endswith("txt") else str(path)
    assert read_texts_file(f"{source}:told")[:2] == ["red", "blue"]
    CAME.append((f"texts of {name}", "FILE.csv:told", "read"))


def test_runs_are_written_as_advised(tmp_path):
    with pytest.raises(DataError, match="write ranks as scores") as e:
        read_run({"q": ["a", "b"], "r": ["b"]})
    MESSAGES.append(str(e.value))
    assert read_run({"q": {"a": -1, "b": -2}, "r": {"b": -1}}).document.tolist() == ["a", "b", "b"]
    path = tmp_path / "run.trec"
    path.write_text("q\t7\t1\nq\t8\t2\n")
    with pytest.raises(DataError, match="as ColBERT writes them") as e:
        read_run(path)
    MESSAGES.append(str(e.value))
    table = tmp_path / "run.csv"
    table.write_text("query_id,doc_id,rank,score\nq,7,1,.5\nq,8,2,.25\n")
    assert read_run(table).document.tolist() == ["7", "8"]
    table.write_text("query_id,doc_id,rank,score\nq,7,1,.25\nq,8,2,.5\n")
    with pytest.raises(DataError, match="scores higher than the rank before") as e:
        read_run(table)
    MESSAGES.append(str(e.value))
    table.write_text("query_id,doc_id,rank,score\nq,7,1,-.25\nq,8,2,-.5\n")
    assert read_run(table).score.tolist() == [-.25, -.5]
    CAME.extend([("ids without scores", "{query: {text: -rank}}", "read"),
                 ("lines of ColBERT", "a header, .csv", "read"), ("distances", "a minus sign", "read")])


ANSWERS = [{"took": 3, "hits": {"max_score": 1., "hits": [{"_id": "a", "_score": 1.}, {"_id": "b", "_score": .5}]}},
           {"took": 2, "hits": {"max_score": .4, "hits": [{"_id": "b", "_score": .4}]}}]


@pytest.mark.parametrize("count", [1, 2])
def test_answers_of_an_index_are_turned_as_advised(tmp_path, monkeypatch, count):
    monkeypatch.chdir(tmp_path)
    Path("it's.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in ANSWERS[:count]))
    with pytest.raises(DataError, match="answers of Elasticsearch") as e:
        read_run("it's.jsonl")
    exec(re.search("this makes a run of them: (.*)", str(e.value))[1], {"queries": ["q", "r"]})
    run = read_run("run.csv")
    assert [*zip(run["query"], run.document, run.score)] == [("q", "a", 1.), ("q", "b", .5), ("r", "b", .4)][:count + 1]


def test_values_of_metrics_are_no_run(tmp_path):
    path = tmp_path / "base.eval"
    path.write_text("map                   \tq0\t0.2000\nndcg_cut_10           \tq0\t0.3869\nP_5\tall\t1.0\n")
    with pytest.raises(DataError, match="values of metrics, as trec_eval writes them, and no run: give the file that"):
        read_run(path)


CHAT = [{"messages": [{"role": "user", "content": lamp(i)}, {"role": "assistant", "content": lamp(i, "b")}],
         "positive_messages": [[{"role": "user", "content": lamp(i, "c")}]], "negative_messages": [[]]}
        for i in range(9)]


def test_no_name_is_said_that_a_file_does_not_have():
    "Lists of turns are no texts; where lists get columns, these are explained."
    with pytest.raises(DataError, match="among the columns messages, positive_messages, negative_messages; .*; two "
                                        "columns of texts are needed$"):
        read_pairs_file(CHAT)
    triplets = [{"pair": [lamp(i), lamp(i, "b"), "so"], "note": i} for i in range(9)]
    with pytest.raises(DataError, match=r"^pairs \(its lists as anchor, positive, negative\): form 'pairs'"):
        read_pairs_file(triplets, form="pairs")


def test_a_link_that_leads_nowhere_is_called_so(tmp_path):
    for name, read in {"a.csv": read_pairs_file, "t.txt": read_texts_file, "run.trec": read_run}.items():
        (tmp_path / name).symlink_to(tmp_path / "gone")
        with pytest.raises(DataError, match=f"{name}: a link to '.*gone', where no file is$"):
            read(tmp_path / name)


def test_every_advice_was_met():
    "Below all others: an advice that no test brings out would be pasted by nobody before a user."
    assert len(PRINTABLE) >= 9, "the pieces are found"
    missed = [piece for piece in PRINTABLE
              if not any(all(part in said for part in re.split(r"\{\d?\}", piece)) for said in MESSAGES)]
    for name, paste, came in CAME:
        print(f"| {name} | `{paste}` | {came} |")
    assert MESSAGES and not missed, missed
