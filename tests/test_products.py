"""Product offers: cleaning and refusing, and what training has seen.

Offers that ask for their product, and the task on made-up files.
"""
import os

import numpy as np
import pytest

from debias_nb.config import ConfigError
from debias_nb.data import products as p
from debias_nb.data import registry as r
from debias_nb.data.questions import QuestionPairs
from debias_nb.repro.config import CorpusConfig, MethodConfig, RunConfig, TrainConfig
from debias_nb.repro.runs.tasks import pairs as task
from debias_nb.repro.runs.tasks.common import lacking
from made import STATIC

WITHOUT_DATA = "DEBIAS_NB_DATA is not set: the published files are not at hand"
real = pytest.mark.skipif(not os.environ.get("DEBIAS_NB_DATA"), reason=WITHOUT_DATA)


# ---- one title, one file


@pytest.mark.parametrize("published, cleaned", [
    ('"Canon EOS 70D"@en-US "Cameras | EISF"@en-US', "Canon EOS 70D Cameras | EISF"),
    (' " Mens Watch "@nl | Shop.com"@nl', "Mens Watch | Shop.com"),
    ('"Nikon 24" cover", "Null"', "Nikon 24 cover , Null"),
    ('"A"@en, "B"@en', "A , B"),
    ("write to me@shop.com @en", "write to me@shop.com @en"), # no quotation mark before it
    ('"a\u00a0 b"@zh-hant', "a b"),
    ('"@en "@en', ""),
])
def test_titles_lose_tags_and_quotation_marks(published, cleaned):
    assert p.clean_title(published) == cleaned == p.clean_title(cleaned)


def line(left, right, label):
    return f"COL title VAL {left}\tCOL title VAL {right}\t{label}\n"


def write(path, *rows):
    path.write_text("".join(line(*row) for row in rows), "utf-8")
    return path


def test_a_file_is_cleaned_and_counted(tmp_path):
    rows = [
        ('"a lens"@en', '"a lens "@nl', 1),
        ('"b"', '"c" "Null"', 0),
        ('"c" "Null"', '"B"@en', 0),
        ('"@en', '"d"', 1),
    ]
    found = p.read_products(write(tmp_path / "x.txt", *rows))
    assert found.left == ["a lens", "b", "c Null"]
    assert found.right == ["a lens", "c Null", "B"]
    assert found.labels.tolist() == [1, 0, 0]
    assert found.counts == {
        "titles with a language tag": 4,
        "titles with quotation marks": 8,
        "titles that say Null": 2,
        "lines": 4,
        "repeated pairs": 1,
        "identical sides": 1,
        "dropped: a title is empty": 1,
        "pairs": 3,
    }
    assert found.name == "x.txt"


GOOD = line("a", "b", 1).encode()


@pytest.mark.parametrize("bad, words", [
    (b"", "1 column, expected 3"),
    (b"COL title VAL a\tCOL title VAL b", "2 columns"),
    (GOOD[:-1] + b"\tmore", "4 columns"),
    (line("a", "b", 2).encode()[:-1], "'2' is not a label"),
    (line("a", "b", "").encode()[:-1], "'' is not a label"),
    (GOOD[:-1].replace(b"VAL a", b"VAL \xff"), "not UTF-8 at byte 15"),
    (b"\tCOL title VAL b\t1", "the left question is empty"),
])
def test_unusable_lines_are_refused_and_named(tmp_path, bad, words):
    (tmp_path / "x.txt").write_bytes(GOOD + bad + b"\n" + GOOD)
    with pytest.raises(r.DataError, match="x.txt:2: ") as e:
        p.read_products(tmp_path / "x.txt")
    assert words in str(e.value)


@pytest.mark.parametrize("cell, words", [
    ("title VAL a", "does not begin with 'COL title VAL '"),
    ("a", "does not begin"),
    ("COL title VAL a COL brand VAL b", "has more columns than its title: 'COL brand VAL'"),
])
@pytest.mark.parametrize("side", [0, 1])
def test_unusable_offers_are_refused_and_named(tmp_path, cell, words, side):
    cells = ["COL title VAL a", "COL title VAL b", "1"]
    cells[side] = cell
    (tmp_path / "x.txt").write_bytes(GOOD + "\t".join(cells).encode() + b"\n")
    with pytest.raises(r.DataError, match="x.txt:2: an offer ") as e:
        p.read_products(tmp_path / "x.txt")
    assert words in str(e.value)


def test_all_refusals_are_counted(tmp_path):
    (tmp_path / "x.txt").write_text("a\tb\t1\n" * 4)
    with pytest.raises(r.DataError, match="x.txt:1: .*x.txt:2: .*and 1 more of 4 lines"):
        p.read_products(tmp_path / "x.txt")
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(r.DataError, match="the file is empty"):
        p.read_products(tmp_path / "x.txt")
    with pytest.raises(FileNotFoundError):
        p.read_products(tmp_path / "nowhere.txt")


# ---- training and tests, on made-up files


PRODUCTS = "lamp chair desk shelf clock vase rug bowl cup fork spoon knife".split()


def offers(category):
    "Of each of twelve products two offers; pairs of the first eight are for training."
    names = [f"{category} {word} {i}" for i, word in enumerate(PRODUCTS)]
    same = [(name, f"{name} from a shop", 1) for name in names]
    other = [(names[i], f"{names[(i + 1) % 12]} from a shop", 0) for i in range(12)]
    train = same[:8] + other[:7]
    test = [*same[6:], *other[6:11], train[0]] # a training pair, pairs of a seen and a new title, pairs of two new ones
    return {"train": train, "valid": [same[8], train[1]], "test": test}


def training_titles(*categories):
    rows = [row for category in categories for row in offers(category)["train"]]
    return {title for left, right, _ in rows for title in (left, right)}


@pytest.fixture
def made(tmp_path, monkeypatch):
    folder = tmp_path / "data" / p.DATASET
    folder.mkdir(parents=True)
    for category in p.CATEGORIES:
        for part, rows in offers(category).items():
            write(folder / f"{category}-{part}.txt", *rows)
    files = tuple(r.DataFile(file=path.name, format="made up") for path in sorted(folder.iterdir()))
    about = dict(title="made up", licence="none", citation="none", by_hand="made here")
    registry = r.Registry(datasets={p.DATASET: r.DataSet(files=files, **about)})
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(r, "load_registry", lambda path=None: registry)
    caches = task.training_pairs, task.evaluation_pairs, task.word_measures, task._training_data, lacking
    for cached in caches:
        cached.cache_clear()
    yield folder
    for cached in caches:
        cached.cache_clear()


def test_training_keeps_no_pair_of_a_test(made):
    train = p.load_products("shoes", "train")
    assert len(train) == 15 - 1 - 4
    assert train.counts["in shoes test"] == 4
    assert train.counts["in shoes valid"] == 1
    test, _ = p.load_test("shoes")
    tested = {frozenset(pair) for pair in zip(test.left, test.right)}
    assert not tested & {frozenset(pair) for pair in zip(train.left, train.right)}
    half = p.load_products("shoes", "train", share=.5)
    assert 4 <= len(half) <= 6
    assert set(half.left) <= set(train.left)
    assert p.load_products("shoes", "valid").labels.tolist() == [1, 1]


def test_titles_that_training_has_seen_are_marked(made):
    test, parts = p.load_test("watches")
    seen = training_titles(*p.CATEGORIES)
    left = [title not in seen for title in test.left]
    right = [title not in seen for title in test.right]
    assert parts["unseen"].tolist() == [a and b for a, b in zip(left, right)]
    assert parts["one unseen"].tolist() == [a or b for a, b in zip(left, right)]
    assert 0 < parts["unseen"].sum() < parts["one unseen"].sum() < len(test)
    titles = {*test.left, *test.right}
    assert test.counts["titles"] == len(titles)
    assert test.counts["titles in training"] == len(titles & seen)


def test_a_title_of_another_category_is_seen_too(made):
    before = p.load_test("shoes")[1]["unseen"].sum()
    as_in_shoes = ("SHOES  cup, 8", "x", 0) # case, blanks and punctuation apart
    write(made / "cameras-train.txt", as_in_shoes, *offers("cameras")["train"])
    assert p.load_test("shoes")[1]["unseen"].sum() < before


def test_offers_that_ask_are_seen_or_unseen(made):
    asking = p.load_offers("shoes")
    seen = training_titles("shoes")
    kinds = ["seen" if query in seen else "unseen" for query in asking.queries]
    assert asking.categories.tolist() == kinds
    assert {*kinds} == {"seen", "unseen"}


@pytest.mark.parametrize("call, words", [
    (lambda: p.load_products("shoe", "train"), "no category of products 'shoe'; did you mean 'shoes'?"),
    (lambda: p.load_products("shoes", "test"), "no part of products 'test'"),
    (lambda: p.load_test("shoe"), "did you mean 'shoes'?"),
    (lambda: p.load_offers("shoe"), "did you mean 'shoes'?"),
    (lambda: p.load_products("shoes", "train", share=0), "share must lie in"),
])
def test_wrong_requests_are_refused(made, call, words):
    with pytest.raises(ValueError, match=words.replace("?", r"\?")):
        call()


@pytest.mark.parametrize("file, call", [
    ("shoes-test.txt", lambda: p.load_test("shoes")),
    ("watches-train.txt", lambda: p.load_test("shoes")),
    ("watches-test.txt", lambda: p.load_products("shoes", "train")),
    ("shoes-valid.txt", lambda: p.load_products("shoes", "valid")),
])
def test_missing_files_say_so(made, file, call):
    (made / file).unlink()
    with pytest.raises(r.MissingData, match=f"wdc_products/{file} is missing"):
        call()


# ---- each offer finds its product


def pairs(*rows):
    left, right, labels = zip(*rows)
    return QuestionPairs("made", list(left), list(right), np.array(labels))


def test_products_are_what_labels_join():
    rows = [("a", "b", 1), ("B ", "c", 1), ("d", "e", 1), ("c", "d", 0), ("f", "a", 0), ("g", "g", 1)]
    found = p.same_product(pairs(*rows))
    assert found.items == ["a", "B ", "d", "c", "f", "g", "e"], "one offer a title, as first spelled"
    right = {}
    for row, query in enumerate(found.queries):
        right[query] = {found.items[i] for i in found.relevance[row].indices}
    assert right["a"] == {"B ", "c"}
    assert right["c"] == {"a", "B "}, "a chain is one product"
    assert right["d"] == {"e"}
    assert not {"f", "g"} & right.keys(), "who has no other offer does not ask"
    assert [found.items[i] for i in found.own] == found.queries, "nobody finds itself"


@pytest.mark.parametrize("rows, words", [
    ([("a", "b", 1), ("b", "A", 0)], "made: 'b' and 'A' are labelled different, and other pairs make them one product"),
    ([("a", "b", 1), ("b", "c", 1), ("a", "c", 0)], "'a' and 'c' are labelled different"),
    ([("a", "b", 1), ("c", "C ", 0)], "'c' and 'C ' are labelled different"),
    ([("a", "b", 0), ("c", "c", 1)], "made: no offer has another one of its product"),
])
def test_labels_that_make_no_products_are_refused(rows, words):
    with pytest.raises(r.DataError, match=words):
        p.same_product(pairs(*rows))


def measured(rows, vectors, seen=frozenset()):
    "P@1 where every distinct title has a vector of two."
    import torch
    few = pairs(*rows)
    offers = p.same_product(few, seen)
    labelled = task.LabelledPairs("made", few.left, few.right, few.labels, offers=offers)
    both = torch.tensor([vectors[title] for title in few.left + few.right])
    return task.offer_measures(torch.nn.functional.normalize(both, dim=1), labelled)


def test_precision_has_the_values_worked_out_by_hand():
    rows = [("a", "b", 1), ("c", "d", 1), ("a", "c", 0)]
    near = {"a": [1., 0], "b": [.9, .1], "c": [0, 1.], "d": [.8, .2]}
    values, resampled = measured(rows, near) # a and b find each other, c finds d, and d finds b
    assert values["p1"] == values["p1[unseen]"] == .75
    assert "p1[seen]" not in values
    assert set(resampled) == {"p1", "p1[unseen]"}
    assert {len(kept) for kept in resampled.values()} == {task.KEPT_RESAMPLES}
    values, _ = measured(rows, near, {"a", "c"})
    assert values["p1[seen]"] == 1
    assert values["p1[unseen]"] == .5
    assert values["p1"] == .75


def test_no_order_of_the_file_flatters():
    rows = [("a", "b", 1), ("c", "d", 1)]
    same = dict.fromkeys("abcd", [1., 0])
    swapped = [(right, left, label) for left, right, label in rows]
    for shuffled in (rows, rows[::-1], swapped):
        assert measured(shuffled, same)[0]["p1"] == pytest.approx(1 / 3)


# ---- words


def test_every_word_has_a_role():
    title = p.worded("D-Link  DCS-2332L CANON (Tweakers) camera™ SHOP.com é 70")
    assert title.text == "D-Link DCS-2332L CANON (Tweakers) camera™ SHOP.com é 70" == " ".join(title.words)
    assert title.roles == ("brand", "number", "brand", "shop", "other", "shop", "other", "number")
    assert not p.BRANDS & p.SHOPS
    assert {*title.roles} == {*p.ROLES}


def test_the_share_of_words_that_training_has():
    assert p.seen_words(["A lens, 24 mm"], ["lens 24", "a b LENS"]) == .75
    assert p.seen_words([], ["a"]) == 0 == p.seen_words(["a"], ["?", ""])
    assert p.word_overlap(["a b", "a", "", "?"], ["B c", "A a", "", "x"]).tolist() == [1 / 3, 1, 0, 0]


# ---- the task


BASE = MethodConfig(name="Base", trained=False)


def run(**changes):
    settings = dict(
        paper="itvreg", experiment="demo", profile="small", encoder=STATIC, corpus=CorpusConfig(name="shoes"),
        method=MethodConfig(name="Finetuned"), training=TrainConfig(learning_rate=2e-2, epochs=1, batch_size=8),
        evaluate=("shoes", "watches"), measure=("words",),
    )
    return RunConfig(**settings | changes)


PARTS = ["auc05", "auc", "ap", "p1", "p1[seen]", "p1[unseen]", "auc05[one unseen]", "auc05[unseen]"]
WORDS = ["overlap auc05", "peak importance", *(f"{role} importance" for role in p.ROLES)]


def test_a_run_on_products_measures_every_part(made):
    asked = run()
    assert task.TASK.lacks(asked) is None
    trained = task.TASK.train(asked)
    tested = task.TASK.test(asked, trained)
    assert not tested.missing
    assert list(tested.metrics) == ["shoes", "watches"]
    assert set(tested.metrics["watches"]) == {*PARTS, *WORDS, "seen words"}
    assert tested.metrics["shoes"]["seen words"] > tested.metrics["watches"]["seen words"] > 0
    assert all(0 <= value <= 1 for metrics in tested.metrics.values() for value in metrics.values())
    kept = {key: len(values) for key, values in tested.replicates["shoes"].items()}
    assert kept["auc05"] == 200
    assert kept["p1"] == task.KEPT_RESAMPLES
    assert "auc" not in kept
    assert trained.data["train shoes"]["pairs"] == 10
    assert tested.data["test shoes"]["counts"]["titles in training"] > 0


def test_an_encoder_that_is_not_trained_has_seen_no_words(made):
    base = run(corpus=None, training=None, method=BASE)
    tested = task.TASK.test(base, task.TASK.train(base))
    assert set(tested.metrics["shoes"]) == {*PARTS, *WORDS}, "no training, no words that it has seen"
    without_words = run(corpus=None, training=None, method=BASE, measure=())
    plain = task.TASK.test(without_words, task.TASK.train(base))
    assert set(plain.metrics["shoes"]) == {*PARTS}
    assert plain.metrics["shoes"]["p1"] == tested.metrics["shoes"]["p1"]


def test_the_validation_file_chooses_an_epoch(made):
    held = task.training_pairs(CorpusConfig(name="shoes"), "heldout")
    assert held.info["pairs"] == 2 == len(held.left)
    with pytest.raises(ConfigError, match="'shoes': products have a validation file and take no `holdout`"):
        task.training_pairs(CorpusConfig(name="shoes", holdout=.1))
    with pytest.raises(ConfigError, match="did you mean 'shoes'"):
        task.training_pairs(CorpusConfig(name="shoe"))
    with pytest.raises(ConfigError, match="did you mean 'shoes'"):
        task.evaluation_pairs("shoe", None, None)


def test_a_missing_test_is_named(made):
    (made / "watches-test.txt").unlink()
    base = run(corpus=None, training=None, method=BASE)
    tested = task.TASK.test(base, task.TASK.train(base))
    assert tested.missing == ["watches"]
    assert list(tested.metrics) == ["shoes"]
    assert "watches-test.txt is missing" in task.TASK.lacks(run()), "training looks at all tests"


# ---- facts of the published files


@real
@pytest.mark.parametrize("category, n, titles", [
    ("cameras", 1057, 1044),
    ("computers", 1098, 1183),
    ("shoes", 1084, 962),
    ("watches", 1012, 1007),
])
def test_tests_are_complete(category, n, titles):
    try:
        test, parts = p.load_test(category, download=False)
        train = p.load_products(category, "train", download=False)
    except r.MissingData as e:
        pytest.skip(str(e).splitlines()[0])
    assert len(test) == n == test.counts["lines"]
    assert test.counts["titles"] == titles
    assert test.counts["dropped: a title is empty"] == 0
    assert 0 < parts["unseen"].sum() < parts["one unseen"].sum() < n / 2
    assert test.labels[parts["unseen"]].any()
    dropped = sum(count for why, count in train.counts.items() if why.startswith("dropped"))
    assert 0 < dropped < 60
    assert len(train) == train.counts["lines"] - dropped
    assert not any('"' in title or '"@' in title for title in test.left + train.left)
    assert {*p.load_offers(category, download=False).categories} == {"seen", "unseen"}
