"Corpora placed by hand: from a miniature of the published files to a run of the paper profile that lacks no data."
import warnings

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from debias_nb.papers.data import answers, authors
from debias_nb.data import pairs, registry
import corpora
from corpora import convert
from debias_nb.data.registry import CONVERSION_FILE, ChangedData, DataError, MissingData
from debias_nb.data.registry import locate
from debias_nb.runs.config import load_experiment
from debias_nb.runs.runner import task_of
from dry import stand_in
from made import forget, write


pytestmark = pytest.mark.usefixtures("data", "nothing_kept")


def put(folder, files):
    "Write files by name."
    for name, content in files.items():
        write(folder / name, content)
    return folder


def forum(folder, negatives=100):
    "Shah et al.: questions, and one duplicate to many other pairs."
    texts = [f"question number {i}" for i in range(250)]
    files = {"corpus.tsv.gz": "".join(f"{i}\t{text}\tbody\n" for i, text in enumerate(texts))}
    for part, first in (("train", 0), ("dev", 0), ("test", 120)):
        files[f"{part}.pos.txt"] = f"{first} {first + 1}\n"
        files[f"{part}.neg.txt"] = "".join(f"{first} {first + i}\n" for i in range(2, 2 + negatives))
    return put(folder, files)


def glue(folder):
    "QQP: 4 duplicates to 7 others."
    folder.mkdir(parents=True, exist_ok=True)
    for part, name in (("train", "train-00000-of-00001"), ("dev", "validation-00000-of-00001")):
        rows = [{"label": int(i < 4), "question1": f"what is  {part} {i}", "question2": f"why is {part} {i}"}
                for i in range(11)]
        pd.DataFrame(rows).to_parquet(folder / f"{name}.parquet")
    return folder


def extreme(folder):
    "The extreme classification repository; the name of the folder makes the titles."
    labels = [{"uid": f"L{i}", "title": f"item {i}", "content": ""} for i in range(6)]
    files = {"lbl.json.gz": labels, "filter_labels_train.txt": "0 5\n", "filter_labels_test.txt": ""}
    for part, n in (("trn", 8), ("tst", 4)):
        files[f"{part}.json.gz"] = [
            {"uid": f"{part}{i}", "title": f"{folder.name} {part} {i}", "target_ind": [i % 5], "target_rel": [1.]}
            for i in range(n)]
    held_out = load_experiment("itvreg/table02", "paper").blocks[1].corpora[0].held_out
    names = [*held_out, "Books"] * 2
    files["categories.tsv"] = "".join(f"{part}{i}\t{names[i]}\n" for part, n in (("trn", 8), ("tst", 4))
                                      for i in range(n)) + "tst9\tBooks\n"
    files["categories.tsv"] = files["categories.tsv"].replace("tst0\t" + names[0], "tst0\tBooks")
    return put(folder, files)


def pan(folder, first=0):
    "PAN: pairs, and who wrote them."
    pairs, truth = [], []
    for i in range(first, first + 3):
        pairs.append({"id": f"p{i}", "fandoms": [f"f{i}", f"g{i}"], "pair": [f"text {i} one", f"text {i} two"]})
        truth.append({"id": f"p{i}", "same": True, "authors": [str(i), str(i)]})
    name = "pan20-authorship-verification-training-small"
    return put(folder, {f"{name}.jsonl": pairs, f"{name}-truth.jsonl": truth})


def reviews(folder):
    "Amazon 2018: one file per category; the first author and the first topics have the most texts."
    files = {}
    for c, name in enumerate(["Books_5", "Toys_and_Games_5", "Software", "Prime_Pantry", "Luxury_Beauty"]):
        rows = []
        for reviewer in range(10):
            for n in range(12 - c if reviewer == 0 else 4):
                text = f"review {n} of {reviewer} on {name}"
                rows.append({"reviewerID": f"A{reviewer}", "asin": "B0", "overall": 5., "reviewText": text,
                             "unixReviewTime": 1514764800})
        files[f"{name}.json.gz"] = [*rows, {"reviewerID": "A1", "asin": "B1", "overall": 1., "unixReviewTime": 1}]
    return put(folder, files)


def posts(folder):
    "Pushshift: submissions and comments."
    subs = ["art", "bread", "cars", "dogs", "eggs"]
    rows = [{"author": f"u{author}", "subreddit": sub, "selftext": f"post {n} of {author} in {sub}",
             "created_utc": "1514764800"}
            for s, sub in enumerate(subs) for author in range(10) for n in range(12 - s if author == 0 else 4)]
    deletions = [{"author": "[deleted]", "subreddit": "art", "selftext": "[removed]", "created_utc": 1}]
    comments = [{"author": "u3", "subreddit": "art", "body": "a comment", "created_utc": 1514764800}]
    return put(folder, {"RS_2018-01": rows + deletions, "RC_2018-01": comments})


def asnq(folder):
    lines = [f"who {q} ?\tsentence {i} of {q} .\t{i}\n" for q in range(2) for i in range(1, 5)]
    return put(folder / "data" / "asnq", {"train.tsv": "".join(lines) + "who 1 ?\t \t1\n"})


ARCHIVES = {
    "askubuntu_shah": forum, "superuser": forum, "qqp": glue, "lf_amazontitles131k": extreme,
    "lf_amazontitles1_3m": extreme, "asnq": asnq, "pan20_train": pan, "pan20_test": lambda folder: pan(folder, 10),
    "pan21_test": lambda folder: pan(folder, 20), "amazon2018_reviews": reviews, "reddit_pushshift": posts,
}


def convert_archive(name, tmp_path):
    archive = ARCHIVES[name](tmp_path / name)
    return convert(name, tmp_path / name if name == "asnq" else archive)


RUNS = [ # corpora, a table, what tells the run
    (["askubuntu_shah", "qqp", "superuser"], "itvreg/table03", ()),
    (["qqp"], "itvreg/table06", ()),
    (["lf_amazontitles131k", "lf_amazontitles1_3m"], "itvreg/table02", ()),
    (["amazon2018_reviews"], "arr/table02", ("Amazon",)),
    (["reddit_pushshift"], "arr/table02", ("Reddit",)),
    (["pan20_train", "pan20_test", "pan21_test"], "arr/table02", ("Fanfiction",)),
]


@pytest.mark.parametrize("names, table, labels", RUNS)
def test_a_converted_corpus_makes_the_papers_runs(names, table, labels, tmp_path):
    runs = [r for r in load_experiment(table, "paper").runs() if not labels or r.data and r.data.display in labels]
    runs = {r.data: r.model_copy(update={"encoder": stand_in(r.encoder)}) for r in runs if r.corpus}
    assert runs
    assert all(names[0].split("_")[0] in task_of(r).lacks(r) for r in runs.values() if r.data.name.startswith(names[0]))
    forget()
    for name in names:
        convert_archive(name, tmp_path)
    with warnings.catch_warnings(): # a miniature has its balance
        warnings.simplefilter("error")
        for run in runs.values():
            assert task_of(run).lacks(run) is None


def test_asnq_is_what_a_run_of_paper_c_lacked(tmp_path, monkeypatch):
    def no_download(*_):
        raise MissingData("no net")

    monkeypatch.setattr(registry, "_download", no_download) # nor is the run's own corpus here
    run = next(r for r in load_experiment("scan/table02", "paper").runs() if r.method.name == "TANDA")
    run = run.model_copy(update={"encoder": stand_in(run.encoder)})
    assert "asnq-train.tsv is missing" in task_of(run).lacks(run)
    forget()
    conversion = convert_archive("asnq", tmp_path)
    assert task_of(run).lacks(run) == "no net"
    assert conversion.counts == {
        "train questions": 2, "train candidates": 8, "train positives": 2, "blank candidates, left out": 1}
    assert answers.load_answers("asnq", "train").labels.tolist() == [0, 0, 0, 1] * 2


def test_what_is_read_is_what_was_there(tmp_path):
    conversion = convert_archive("askubuntu_shah", tmp_path)
    train = pairs.load_questions("askubuntu_shah", "train")
    assert (len(train), train.labels.sum()) == (101, 1)
    assert conversion.counts["train negatives to a positive"] == 100

    posts = convert_archive("reddit_pushshift", tmp_path)
    texts = authors.load_texts("reddit_pushshift")
    assert len(texts) == posts.counts["texts"] == posts.counts["texts read"] - 1
    assert "a comment" in texts.text and set(texts.date) == {"2018-01-01"}
    (tmp_path / "data/reddit_pushshift/texts.jsonl").unlink()
    half = convert("reddit_pushshift", tmp_path / "reddit_pushshift", .5)
    assert 60 < half.counts["texts"] < 180
    assert convert("reddit_pushshift", tmp_path / "reddit_pushshift",
                   .5).files == half.files, "drawn the same each time"
    with pytest.raises(ValueError, match="share"):
        convert("asnq", tmp_path, .5)


def test_what_changes_later_is_refused(tmp_path, data):
    convert_archive("qqp", tmp_path)
    path = data / "qqp" / "test.tsv"
    assert locate("qqp", "test.tsv") == path
    path.write_bytes(path.read_bytes() + b"0\ta\tb\n")
    with pytest.raises(ChangedData, match="test.tsv"):
        locate("qqp", "test.tsv")
    with pytest.raises(DataError, match="test.tsv is there already"):
        convert("qqp", tmp_path / "qqp") # and what is there is not lost
    assert path.read_bytes().endswith(b"0\ta\tb\n")
    (data / "qqp" / CONVERSION_FILE).write_text("{}")
    with pytest.raises(DataError, match=CONVERSION_FILE):
        locate("qqp", "test.tsv")


@pytest.mark.parametrize("name, file, change, words", [
    ("askubuntu_shah", "train.pos.txt", "0\n", "train.pos.txt:1: "),
    ("askubuntu_shah", "train.neg.txt", "0 1\n0 999\n", "train.neg.txt:2: .*'999'"),
    ("askubuntu_shah", "test.pos.txt", None, "test.pos.txt"),
    ("qqp", "train-00000-of-00001.parquet", "PAR1 junk", "train-00000-of-00001.parquet: "),
    ("asnq", "train.tsv", "q\ta\t5\n", "train.tsv:1: no label '5'"),
    ("pan20_train", "pan20-authorship-verification-training-small-truth.jsonl", [{"id": "p0"}],
     "small-truth.jsonl:1: "),
    ("amazon2018_reviews", "Books_5.json.gz", [{"asin": "B"}], "Books_5.json.gz:1: reviewerID"),
    ("reddit_pushshift", "RS_2018-01", [{"author": "a", "subreddit": "b"}], "RS_2018-01:1: .*'selftext'"),
    ("reddit_pushshift", "RS_2018-01", [{"author": "a", "selftext": "b", "created_utc": 1e300}],
     "RS_2018-01:1: created_utc"),
    ("askubuntu_shah", "corpus.tsv.gz", "0\ta\tb\n0\tc\td\n", "corpus.tsv.gz:2: .*'0' occurs twice"),
])
def test_another_layout_is_refused_and_nothing_is_written(name, file, change, words, tmp_path, data):
    folder = ARCHIVES[name](tmp_path / name)
    if change is None:
        (folder / file).unlink()
    else:
        put(folder, {file: change})
    with pytest.raises(DataError, match=words):
        convert(name, tmp_path / name)
    assert list(data.iterdir()) == []


def test_the_command_says_counts_and_hashes(tmp_path):
    command = typer.Typer()
    command.command()(corpora.main)
    shell = CliRunner()
    run = shell.invoke(command, ["qqp", str(glue(tmp_path / "qqp"))])
    assert run.exit_code == 0, run.output
    assert "sha256" in run.output
    assert shell.invoke(command, ["qpq", str(tmp_path)]).exit_code == 2
    assert shell.invoke(command, ["qqp", str(tmp_path / "nowhere")]).exit_code == 2
