"""Inputs that are drawn at random from families of files and calls, anew at each run.

What is right is read as it is meant, and what is wrong is refused in words. The seed stands in each failure;
`DEBIAS_NB_DRAWS=seed` draws the same again."""
import json
import random
from dataclasses import dataclass
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from advice import counts, follow
from debias_nb.checks import RunnerError
from debias_nb.data.registry import DataError
from debias_nb.data.texts import read_texts_file
from debias_nb.diagnosis.files.mteb_results import declared_sets, read_results
from debias_nb.diagnosis.files.pairs_file import read_pairs_file
from debias_nb.diagnosis.files.run_files import read_run
from debias_nb.measures.stats import paired, verdict
from debias_nb.runs.parameters import check_injected
from harness import SEED

DRAWS = 36 # of each family; every third one is wrong


@dataclass
class Draw:
    "One input: how it is read, and what must come of it."
    read: Callable            # of no argument
    is_right: Callable = None # of what is read; None: it must be refused
    words: str = ""           # which the refusal has
    error: type = DataError
    then: Callable = None     # what a refused one's reader does next; true where it works


# Pairs of texts in a table

def text_of(rng, number, side):
    return f"{rng.choice(('red', 'blue', 'old'))} {rng.choice(('lamp', 'chair', 'rug'))} {number} {side}"


SIDES = [("text1", "text2"), ("text_a", "text_b"), ("ltable_title", "rtable_title"), ("name_l", "name_r"),
         ("question1", "question2"), ("left", "right")]
WORDS = [("Same", "Different"), ("accept", "reject"), ("equivalent", "apart"), ("near", "far"), ("x1", "x2")]


def table_of(rng, labels):
    "Rows with two texts, a label and perhaps columns that are neither; the names of the columns."
    left, right = rng.choice(SIDES)
    label = rng.choice(("label", "gold_label", "is_match"))
    rows = [{left: text_of(rng, i, "a"), right: text_of(rng, i, "b"), label: value} for i, value in enumerate(labels)]
    for extra in rng.sample(("id", "annotator", "seconds"), rng.randrange(4)):
        for i, row in enumerate(rows):
            row[extra] = {"id": f"{i}x", "annotator": i % 3, "seconds": round(rng.random() * 9, 2)}[extra]
    order = rng.sample(list(rows[0]), len(rows[0]))
    return [{name: row[name] for name in order} for row in rows], order


def save(rng, folder, rows):
    "A file of rows in one of the formats."
    kind = rng.choice(("jsonl", "json", "csv", "tsv", "parquet"))
    path = folder / f"a.{kind}"
    frame = pd.DataFrame(rows)
    write = {
        "jsonl": lambda: frame.to_json(path, orient="records", lines=True),
        "json": lambda: frame.to_json(path, orient="records"),
        "csv": lambda: frame.to_csv(path, index=False), "tsv": lambda: frame.to_csv(path, index=False, sep="\t"),
        "parquet": lambda: frame.to_parquet(path)}
    write[kind]()
    return path


def drawn_labels(rng, values):
    "Each value at least ten times."
    labels = [value for value in values for _ in range(rng.randrange(10, 25))]
    return rng.sample(labels, len(labels))


def labels_in_words(rng, folder, is_wrong):
    values = rng.choice(WORDS if is_wrong else [(1, 0), (True, False), ("true", "false"), ("1", "0")])
    labels = drawn_labels(rng, values)
    rows, names = table_of(rng, labels)
    path = save(rng, folder, rows)
    files = {("pairs", labels.count(match), labels.count(no_match)) for match, no_match in (values, values[::-1])}
    if is_wrong:
        return Draw(lambda: read_pairs_file(path), words="say which one is a match, --match WORD",
                    then=lambda: {counts(file) for _, file in follow(path, names)} == files)
    return Draw(lambda: read_pairs_file(path),
                lambda file: counts(file) == ("pairs", labels.count(values[0]), labels.count(values[1])))


def classes(rng, folder, is_wrong):
    values = range(rng.randrange(3, 6)) if is_wrong else (0, 1)
    labels = drawn_labels(rng, values)
    rows, _ = table_of(rng, labels)
    path = save(rng, folder, rows)
    match = rng.choice(values)

    def of_one():
        return counts(read_pairs_file(path, match=str(match)))[1] == labels.count(match)

    if is_wrong:
        return Draw(lambda: read_pairs_file(path), words=f"'{match}' ({labels.count(match):,})", then=of_one)
    return Draw(lambda: read_pairs_file(path), lambda file: counts(file)[1] == labels.count(1))


def decimal_commas(rng, folder, is_wrong):
    grades = [rng.randrange(0, 500) for _ in range(40)]
    cells = [f"{grade // 100},{grade % 100:02}" for grade in grades]
    if is_wrong:
        cells[rng.randrange(40)] = rng.choice(("4,2,5", "many", "1;5", "3,x"))
    rows, _ = table_of(rng, cells)
    path = folder / "a.tsv"
    pd.DataFrame(rows).to_csv(path, index=False, sep="\t")
    right = sum(grade >= 250 for grade in grades)
    return Draw(lambda: read_pairs_file(path, match_from=2.5),
                None if is_wrong else lambda file: counts(file)[1] == right, "a grade is expected")


def names_of_classes(rng, folder, is_wrong):
    from datasets import ClassLabel, Dataset, Features, Value
    usual, reverse = ["no", "yes"], rng.choice((["equivalent", "not_equivalent"], ["alpha", "beta"], ["same", "other"]))
    names = reverse if is_wrong else rng.choice((usual, ["not_duplicate", "duplicate"], ["false", "true"]))
    values = [rng.randrange(2) for _ in range(30)] + [0, 1]
    columns = {"sentence1": [text_of(rng, i, "a") for i in range(32)],
               "sentence2": [text_of(rng, i, "b") for i in range(32)], "label": values}
    table = Dataset.from_dict(columns,
                              features=Features({"sentence1": Value("string"), "sentence2": Value("string"),
                                                 "label": ClassLabel(names=names)}))
    if rng.random() < .5:
        table.to_parquet(folder / "a.parquet")
        table = folder / "a.parquet"
    if is_wrong:
        return Draw(lambda: read_pairs_file(table), words="--match WORD",
                    then=lambda: counts(read_pairs_file(table, match=names[0]))[1] == values.count(0))
    return Draw(lambda: read_pairs_file(table), lambda file: file.labels.tolist() == values)


def columns_of_sides(rng, folder, is_wrong):
    left, right = rng.choice((("{}1", "{}2"), ("left_{}", "right_{}"), ("{}_a", "{}_b")))
    labels = drawn_labels(rng, (0, 1))
    kind = rng.choice(("numbers", "few values") if is_wrong else ("numbers", "few values", "the answer"))
    rows = []
    for i, label in enumerate(labels):
        extra = {"numbers": (str(rng.randrange(9)), "5"), "few values": (rng.choice(("web", "shop")), "shop"),
                 "the answer": (f"c{i}", f"c{i}" if label else f"d{i}")}[kind]
        texts = (str(i), str(i + 1)) if is_wrong else (text_of(rng, i, "a"), text_of(rng, i, "b"))
        rows.append(dict(zip((left.format("name"), right.format("name"), left.format("more"), right.format("more"),
                              "label"), (*texts, *extra, label))))
    path = folder / "a.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    side_texts = [row[left.format("name")] for row in rows]
    return Draw(lambda: read_pairs_file(path), None if is_wrong else lambda file: file.left == side_texts
                and left.format("more") in file.note, "")


def candidates(rng, folder, is_wrong):
    names = rng.choice((("query", "pos", "neg"), ("question", "positive_ctxs", "hard_negative_ctxs"),
                        ("query", "positive_passages", "negative_passages"), ("query", "positive", "negatives")))
    numbers = [(rng.randrange(1, 3), rng.randrange(1, 4)) for _ in range(20)]
    kind = rng.choice(("ids", "names", "instructions")) if is_wrong else ""

    def texts(i, n, side):
        if kind == "ids":
            return [100 * i + j for j in range(n)]
        lines = [f"d{i}{j}{side}7" if kind == "names" else text_of(rng, 10 * i + j, side) for j in range(n)]
        return ([{"title": "t", "text": text} for text in lines] if names[1].endswith(("ctxs", "passages"))
                and not kind else lines)

    rows = [dict(zip(names, (f"q {i}", texts(i, n, "p"), texts(i, m, "n")))) for i, (n, m) in enumerate(numbers)]
    if kind == "instructions":
        rows = [row | {names[0]: ["find", row[names[0]]]} for row in rows]
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    right = ("candidates", sum(n for n, _ in numbers), sum(m for _, m in numbers))
    return Draw(lambda: read_pairs_file(path), None if is_wrong else lambda file: counts(file) == right,
                "holds lists" if kind == "instructions" else "ids of documents")


# Results, label tables, texts and runs

def results(rng, folder, is_wrong):
    tasks = {f"Task{i}": rng.random() for i in range(rng.randrange(1, 9))}
    wrong = rng.choice(sorted(tasks))
    fault = rng.choice(("percent", "inf", "below", "huge", "twice", "no rows", "names"))
    place = folder / "model" / "rev"
    place.mkdir(parents=True)
    for task, score in tasks.items():
        rows = [{"hf_subset": "default", "main_score": score}]
        if is_wrong and task == wrong:
            bad = {"percent": 1.5 + 98 * score, "inf": float("inf"), "below": -3, "huge": 1e300}.get(fault, score)
            rows = [rows[0] | {"main_score": bad}] + [rows[0] | {"main_score": score / 2 + .4}] * (fault == "twice")
        content = {"dataset_revision": rng.choice(("a", None)),
                   "scores": {"test": "none" if is_wrong and task == wrong and fault == "no rows" else rows}}
        (place / f"{task}.json").write_text(json.dumps(content))
    sets = rng.choice((7, "text", None, ["a", 1])) if is_wrong and fault == "names" else ["A ", ""]
    (place / "model_meta.json").write_text(
        json.dumps([sets] if sets is None else {"training_datasets": sets}))

    def read():
        return read_results(folder), declared_sets(folder)

    def is_right(result):
        return result[0].droplevel([1, 2, 3]).to_dict() == tasks and result[1] == ["A"]

    return Draw(read, None if is_wrong else is_right, "model_meta.json" if fault == "names" else f"{wrong}.json")


def texts(rng, folder, is_wrong):
    lines = [text_of(rng, i, rng.choice(("ü", "\u202e", "=", "x"))) for i in range(rng.randrange(1, 20))]
    if not is_wrong:
        kind = rng.choice(("txt", "csv", "jsonl"))
        path = folder / f"t.{kind}"
        frame = pd.DataFrame({"text": lines, "n": range(len(lines))})
        {"txt": lambda: path.write_text("\n".join(lines) + "\n\n"), "csv": lambda: frame.to_csv(path, index=False),
         "jsonl": lambda: frame.to_json(path, orient="records", lines=True)}[kind]()
        return Draw(lambda: read_texts_file(path), lambda result: result == lines)
    name, content = rng.choice((
        ("t.json", "{}"), ("t.json", json.dumps({"corpus": {"1": lines[0]}, "queries": {}})),
        ("t.csv", "text,text\na,b\n"), ("t.csv", "word\n" + lines[0] + "\n"),
        ("t.jsonl", json.dumps({"text": 7}) + "\n"), ("t.jsonl", json.dumps({"text": {"a": lines[0]}}) + "\n"),
        ("t.csv", "")))
    path = folder / name
    path.write_text(content)
    return Draw(lambda: read_texts_file(path), words="t.")


def runs(rng, folder, is_wrong):
    run = {f"q{i}": {f"d{j}": 1 - rng.random() / 9 - j / 4 for j in range(rng.randrange(1, 5))}
           for i in range(rng.randrange(1, 6))}
    rows = [(query, text, score) for query, scores in run.items() for text, score in scores.items()]
    if is_wrong:
        fault = rng.choice(("ids", "ColBERT", "twice", "nan", "rising"))
        twice = [f"{q},{t},{s}" for q, t, s in rows] + ["q0,d0,.5"]
        content = {
            "ids": ("r.json", json.dumps({query: [*scores] for query, scores in run.items()}), "write ranks as scores"),
            "ColBERT": ("r.tsv", "".join(f"{i}\t{rng.randrange(10, 99)}\t{i + 1}\n" for i in range(5)),
                        "as ColBERT writes them"),
            "twice": ("r.csv", "\n".join(["query_id,doc_id,score", *twice]), "ranks text 'd0' twice"),
            "nan": ("r.csv", "query_id,doc_id,score\nq,d,nan\n", "a finite score is expected"),
            "rising": ("r.csv", "query_id,doc_id,rank,score\nq,d,1,.1\nq,e,2,.4\n", "with a minus sign")}[fault]
        (folder / content[0]).write_text(content[1])
        return Draw(lambda: read_run(folder / content[0]), words=content[2])
    kind = rng.choice(("dict", "json", "trec", "csv"))
    path = folder / f"r.{kind}"
    if kind == "json":
        path.write_text(json.dumps(run))
    if kind == "trec":
        path.write_text("".join(f"{query} Q0 {text} {rank} {score!r} me\n"
                                for rank, (query, text, score) in enumerate(rows, 1)))
    if kind == "csv":
        pd.DataFrame(rows, columns=["qid", "docno", "score"]).to_csv(path, index=False)
    source = run if kind == "dict" else path

    def is_right(result):
        read = {(query, text): score for query, text, score in result.itertuples(index=False, name=None)}
        return len(result) == len(rows) and read == pytest.approx({(query, text): score for query, text, score in rows})

    return Draw(lambda: read_run(source), is_right)


# Parameters, and differences

BESIDE = ("", 'PAPERMILL_INPUT_PATH = "in.ipynb"\nPAPERMILL_OUTPUT_PATH = "out.ipynb"\n') # of papermill --inject-paths


def parameters(rng, folder, is_wrong):
    "What papermill sets, among the parameters that a notebook declares."
    import __main__
    names = ["profile", "seeds", "methods", "encoders", "weight"]
    name = rng.choice(names)
    place = rng.randrange(1, len(name))
    slip = rng.choice((name[:place] + name[place + 1:], name[:place] + "x" + name[place:], name.upper()))
    cells = ["import os", "\n".join(f"{declaration}: str = None" for declaration in names),
             f"# Parameters\n{slip if is_wrong else name} = 3\n{rng.choice(BESIDE)}", "%pylab"]

    def check():
        original = getattr(__main__, "In", None)
        __main__.In = cells
        try:
            return check_injected()
        finally:
            del __main__.In
            if original is not None:
                __main__.In = original

    return Draw(check, None if is_wrong else lambda result: result is None,
                f"no parameter called {slip!r}; did you mean {name!r}?", RunnerError)


FAMILIES = [labels_in_words, classes, decimal_commas, names_of_classes, columns_of_sides, candidates, results,
            texts, runs, parameters]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_what_is_drawn_is_read_as_it_is_meant_or_refused(tmp_path, family):
    failures = []
    for number in range(DRAWS):
        is_wrong = number % 3 == 0
        folder = tmp_path / str(number)
        folder.mkdir()
        draw = family(random.Random(f"{SEED} {family.__name__} {number}"), folder, is_wrong)
        assert (draw.is_right is None) == is_wrong, "every third one must be refused"
        try:
            result = draw.read()
        except draw.error as e:
            if not is_wrong:
                failures.append(f"{number}, which is right, was refused: {e}")
            elif draw.words not in str(e):
                failures.append(f"{number} was refused without {draw.words!r}: {e}")
            elif draw.then and not draw.then():
                failures.append(f"{number}: what comes after the refusal does not hold ({e})")
            continue
        if is_wrong:
            failures.append(f"{number}, which is wrong, was read")
        elif not draw.is_right(result):
            failures.append(f"{number} was read as something else")
    assert not failures, f"DEBIAS_NB_DRAWS={SEED} draws again: " + "; ".join(failures[:6])


def test_equivalence_comes_before_significance():
    "A difference whose whole interval lies inside the margin is no gain and no loss, however sure it is."
    rng = np.random.default_rng(SEED)
    words = []
    for _ in range(6 * DRAWS):
        size, spread = rng.uniform(-.03, .03), rng.uniform(.0005, .01)
        base = rng.uniform(.2, .8, 8)
        comparison = paired(base + size + rng.normal(0, spread, 8), base)
        words.append(verdict(comparison))
        is_inside = -.01 < comparison.low and comparison.high < .01
        expected = ("within the margin" if is_inside else "cannot tell" if comparison.p >= .05 else "better"
                    if comparison.difference > 0 else "worse")
        assert words[-1] == expected, (SEED, comparison)
    assert {*words} == {"within the margin", "cannot tell", "better", "worse"}, "each is drawn"
