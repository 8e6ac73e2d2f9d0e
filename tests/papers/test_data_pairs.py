"""Reading, cleaning, splitting and drawing pairs of questions and of product offers.

Odd bytes, properties on random data, and the task on made-up offers. The notebook has the published files.
"""
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from debias_nb.checks import ConfigError
from debias_nb.data import pairs as q
from debias_nb.papers.data import products
from debias_nb.data.registry import DataError, UnknownData
from debias_nb.runs.config import RunConfig
from debias_nb.papers.settings.pairs import PairsCorpus
from debias_nb.runs.settings import PairMethod, PairTraining
from debias_nb.papers.tasks import pairs as task
from debias_nb.runs.records import Store
from debias_nb.runs.runner import run_all
from made import STATIC, experiment, forget, pin, register, write


def pairs(*rows, name="made"):
    labels, left, right = zip(*rows)
    return q.QuestionPairs(name, list(left), list(right), np.array(labels))


def questions(p, hard=True):
    return {q.fold(t, hard) for t in p.left + p.right}


# ---- reading


@pytest.mark.parametrize("data, left, right", [
    (b"1\ta\tb", ["a"], ["b"]),                         # no line end at the end
    (b"1\ta\tb\r\n0\tc\td\r\n", ["a", "c"], ["b", "d"]), # CRLF
    (b"1\ta\tb\n0\tc\td\r\n", ["a", "c"], ["b", "d"]),   # one stray CR
    (b"1\ta\r \tb\r\r\n", ["a\r "], ["b\r"]),            # only one CR belongs to the line end
    (b'1\t"a\tb"\n', ['"a'], ['b"']),                    # quotation marks are text
    # none of these ends a line; nothing is stripped
    ("1\ta\u2028\x85\x0b\x0c\x1c z\t b \n".encode(), ["a\u2028\x85\x0b\x0c\x1c z"], [" b "]),
])
def test_files_are_read_to_the_letter(tmp_path, data, left, right):
    got = q.read_pairs(write(tmp_path / "a.tsv", data))
    assert got.left == left
    assert got.right == right


@pytest.mark.parametrize("line, words", [
    ("", "1 columns"),
    ("1\ta\t \u00a0", "right"),
    ("Duplicate\ta\tb", "Duplicate"),
    ("\ufeff1\ta\tb", "a byte order mark"),
    ("1\ta\0\tb", "a NUL byte"),
    (b"1\ta\xff\tb", "not UTF-8 at byte 4"),
])
def test_unusable_lines_are_refused_and_named(tmp_path, line, words):
    line = line if isinstance(line, bytes) else line.encode()
    path = write(tmp_path / "a.tsv", b"1\ta\tb\n" + line + b"\n0\tc\td\n")
    with pytest.raises(DataError, match="a.tsv:2: ") as e:
        q.read_pairs(path)
    assert words in str(e.value)


def test_columns_fit_and_stay():
    with pytest.raises(ValueError, match="odd: unequal lengths"):
        q.QuestionPairs("odd", ["a", "b", "c"], ["a", "b"], [1, 0, 0])
    with pytest.raises(ValueError, match=r"odd: labels\[1\] is 2"):
        q.QuestionPairs("odd", ["a", "b"], ["a", "b"], [1, 2])
    with pytest.raises(ValueError, match="read-only"):
        pairs((1, "a", "b")).labels[0] = 0
    assert len(pairs((1, "a", "b")).take([])) == 0


# ---- keeping apart, splitting, drawing: on random graphs of questions


@st.composite
def graphs(draw):
    n = draw(st.integers(2, 40))
    question = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(st.integers(0, 1), question, question), min_size=1, max_size=60))
    return pairs(*[(label, f"Q{a}?", f"q{b} ?") for label, a, b in edges])


@settings(max_examples=80)
@given(graphs(), graphs())
def test_clean_keeps_apart_and_counts_everything(train, test):
    remaining = q.clean_questions(train, {"t": test})
    keys = q.pair_keys(remaining)
    assert not set(q.pair_keys(remaining, True)) & set(q.pair_keys(test, True))
    assert len(set(keys)) == len(keys)
    assert all(a != b for a, b in keys)
    assert len(train) == len(remaining) + sum(n for reason, n in remaining.counts.items()
                                              if reason.startswith("dropped"))
    given_labels = {(l, r): label for l, r, label in zip(train.left, train.right, train.labels)}
    for left, right, label in zip(remaining.left, remaining.right, remaining.labels):
        assert given_labels[left, right] == label, "a kept pair has the label it was given"


@settings(max_examples=80)
@given(graphs(), st.floats(.05, .95), st.integers(0, 5))
def test_no_question_on_both_sides(p, holdout, seed):
    try:
        training, holdout_pairs = q.split_questions(p, holdout, seed)
    except DataError:
        return
    assert not questions(training) & questions(holdout_pairs)
    assert Counter(q.pair_keys(training)) + Counter(q.pair_keys(holdout_pairs)) == Counter(q.pair_keys(p))
    of_label = np.bincount(p.labels, minlength=2)
    held_of_label = np.bincount(holdout_pairs.labels, minlength=2)
    assert (held_of_label <= np.round(holdout * of_label)).all()
    assert (held_of_label >= holdout * of_label / 2).all()


@settings(max_examples=80)
@given(graphs(), st.floats(.01, 1), st.floats(.01, 1), st.integers(0, 5))
def test_shares_are_nested_and_stratified(p, a, b, seed):
    a, b = sorted((a, b))
    p = replace(p, left=[f"{i} {t}" for i, t in enumerate(p.left)]) # every pair once
    small = q.draw_share(p, a, seed)
    large = q.draw_share(p, b, seed)
    assert set(small.left) <= set(large.left) <= set(p.left)
    for label in (0, 1):
        n = int((p.labels == label).sum())
        assert (small.labels == label).sum() == (max(1, round(a * n)) if n else 0)
    assert sorted(q.draw_share(p, 1, seed).left) == sorted(p.left)


# ---- loading


@pytest.mark.parametrize("call, words", [
    (lambda: q.load_questions("superuser", "dev"), "part"),
    (lambda: q.load_questions("superuser", "test", share=.5), "share"),
    (lambda: q.load_questions("superuser", "heldout"), "holdout"),
    (lambda: q.load_questions("qora", "test"), "did you mean 'quora'"),
    (lambda: products.load_offers("shoe"), "did you mean 'shoes'"),
])
def test_wrong_requests_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


OWN_REGISTRY = """datasets:
  forum:
    {title: mine, licence: mine, citation: me,
     layout: {reader: questions, train: a.tsv, columns: {a.tsv: [left, right, label]}},
     files: [{file: a.tsv, format: tabs}, {file: test.tsv, format: tabs}, {file: dev.tsv, format: tabs}]}
"""


def test_a_data_set_of_ones_own_is_read_by_its_layout(data, tmp_path, nothing_kept):
    write(data / "datasets.yaml", OWN_REGISTRY)
    folder = data / "forum"
    write(folder / "a.tsv", "a\tb\t1\nc\td\t0\nwhere are logs\tis sudo safe\t0\ne\tf\t0\n")
    write(folder / "dev.tsv", "1\te\tf\n")
    write(folder / "test.tsv", "1\tIs sudo safe?\tHow safe is sudo?\n0\tIs sudo safe?\tWhere are logs?\n")
    train = q.load_questions("forum", "train")
    assert sorted(train.left) == ["a", "c"]
    assert train.counts["in forum/test.tsv"] == train.counts["in forum/dev.tsv"] == 1
    assert q.load_questions("forum", "test").left == ["Is sudo safe?"] * 2
    with pytest.raises(UnknownData, match="forum/a.tsv is not used"):
        task.training_pairs(PairsCorpus(name="forum"))
    run = experiment(["Finetuned"], [0]).runs()[0].model_copy(update={"corpus": PairsCorpus(name="forum")})
    store = Store(tmp_path / "records")
    outcome = run_all([run], store, workers=1, progress=False)
    assert "no hash of this file is known" in outcome.missing[run.id] and not outcome.trained and not store.all()
    forget()
    pin(folder)
    assert task.training_pairs(PairsCorpus(name="forum")).left == train.left
    write(data / "datasets.yaml", OWN_REGISTRY.replace("questions", "answers"))
    with pytest.raises(ConfigError, match="datasets.yaml: .*layout.reader"):
        q.load_questions("forum", "test")


# ---- product offers


def line(left, right, label):
    return f"COL title VAL {left}\tCOL title VAL {right}\t{label}\n"


@pytest.mark.parametrize("title, clean_title", [
    ('"Canon EOS 70D"@en-US "Cameras | EISF"@en-US', "Canon EOS 70D Cameras | EISF"),
    ('"Nikon 24" cover", "Null"', "Nikon 24 cover , Null"),
    ("write to me@shop.com @en", "write to me@shop.com @en"), # no quotation mark before it
    ('"@en "@en', ""),
])
def test_titles_lose_tags_and_quotation_marks(title, clean_title):
    assert products.clean_title(title) == clean_title == products.clean_title(clean_title)


def test_a_file_is_cleaned_and_counted(tmp_path):
    rows = [('"a lens"@en', '"a lens "@nl', 1), ('"b"', '"c" "Null"', 0), ('"c" "Null"', '"B"@en', 0),
            ('"@en', '"d"', 1)]
    result = products.read_products(write(tmp_path / "x.txt", "".join(line(*row) for row in rows)))
    assert (result.left, result.right) == (["a lens", "b", "c Null"], ["a lens", "c Null", "B"])
    assert result.labels.tolist() == [1, 0, 0]
    assert list(result.counts.values()) == [4, 8, 2, 4, 1, 1, 1, 3]


PRODUCTS = "lamp chair desk shelf clock vase rug bowl cup fork spoon knife".split()


def offers(category):
    "Of each of twelve products two offers; pairs of the first eight are for training."
    names = [f"{category} {word} {i}" for i, word in enumerate(PRODUCTS)]
    matches = [(name, f"{name} from a shop", 1) for name in names]
    no_matches = [(names[i], f"{names[(i + 1) % 12]} from a shop", 0) for i in range(12)]
    train = matches[:8] + no_matches[:7]
    test = [*matches[6:], *no_matches[6:11],
            train[0]] # a training pair, pairs of a seen and a new title, pairs of two new ones
    return {"train": train, "valid": [matches[8], train[1]], "test": test}


@pytest.fixture
def folder(data, monkeypatch, nothing_kept):
    folder = data / products.DATASET
    for category in products.CATEGORIES:
        for part, rows in offers(category).items():
            write(folder / f"{category}-{part}.txt", "".join(line(*row) for row in rows))
    register(data, monkeypatch)
    return folder


def test_products_are_what_labels_join():
    rows = [(1, "a", "b"), (1, "B ", "c"), (1, "d", "e"), (0, "c", "d"), (0, "f", "a"), (1, "g", "g")]
    result = products.same_product(pairs(*rows))
    assert result.items == ["a", "B ", "d", "c", "f", "g", "e"], "one offer a title, as first spelled"
    right = {}
    for row, query in enumerate(result.queries):
        right[query] = {result.items[i] for i in result.relevance[row].indices}
    assert right["a"] == {"B ", "c"}
    assert right["c"] == {"a", "B "}, "a chain is one product"
    assert right["d"] == {"e"}
    assert not {"f", "g"} & right.keys(), "who has no other offer does not ask"
    assert [result.items[i] for i in result.itself] == result.queries, "nobody finds itself"


def measure(rows, vectors, training_titles=frozenset()):
    "P@1 where every distinct title has a vector of two."
    few = pairs(*rows)
    offer_pairs = task.LabeledPairs("made", few.left, few.right, few.labels,
                                    offers=products.same_product(few, training_titles))
    vectors_of_all = torch.tensor([vectors[title] for title in few.left + few.right])
    return task.offer_measures(torch.nn.functional.normalize(vectors_of_all, dim=1), offer_pairs)


def test_precision_has_the_values_worked_out_by_hand():
    rows = [(1, "a", "b"), (1, "c", "d"), (0, "a", "c")]
    vectors = {"a": [1., 0], "b": [.9, .1], "c": [0, 1.], "d": [.8, .2]}
    values, resamples = measure(rows, vectors) # a and b find each other, c finds d, and d finds b
    assert values["p1"] == values["p1[unseen]"] == .75
    assert "p1[seen]" not in values
    assert {len(resamples["p1"]), len(resamples["p1[unseen]"])} == {task.KEPT_RESAMPLES}
    values, _ = measure(rows, vectors, {"a", "c"})
    assert (values["p1[seen]"], values["p1[unseen]"], values["p1"]) == (1, .5, .75)
    equal_vectors = dict.fromkeys("abcd", [1., 0])
    for order in (rows[:2], rows[1::-1], [(1, "b", "a"), (1, "d", "c")]): # no order of the file flatters
        assert measure(order, equal_vectors)[0]["p1"] == pytest.approx(1 / 3)


def test_a_known_text_is_the_same_but_for_case_and_spacing():
    is_known = q.known_texts({"wool hat", "c#"}, ["Wool  HAT", "wool hat!", "c"], ["C#", "c#", "c"])
    assert is_known.tolist() == [2, 1, 0], "punctuation may be the question"


def test_what_training_has_of_words():
    assert not products.PRODUCT_BRANDS & products.SHOPS
    assert q.seen_words(["A lens, 24 mm"], ["lens 24", "a b LENS"]) == .75
    assert q.seen_words([], ["a"]) == 0 == q.seen_words(["a"], ["?", ""])


PARTS = ["auc05", "auc", "ap", "p1", "p1[seen]", "p1[unseen]", "auc05[one unseen]", "auc05[unseen]"]
WORDS = ["overlap auc05", "peak importance", *(f"{role} importance" for role in products.TOKEN_ROLES)]


def test_a_run_on_products_measures_every_part(folder):
    run = RunConfig(
        paper="itvreg", experiment="demo", profile="small", encoder=STATIC, corpus=PairsCorpus(name="shoes"),
        method=PairMethod(name="Finetuned"), training=PairTraining(learning_rate=2e-2, epochs=1, batch_size=8),
        evaluate=("shoes", "watches"), measure=("words",))
    assert task.TASK.lacks(run) is None
    training = task.TASK.train(run)
    outcome = task.TASK.test(training.model, run)
    assert not outcome.missing
    assert list(outcome.metrics) == ["shoes", "watches"]
    assert set(outcome.metrics["watches"]) == {*PARTS, *WORDS, "seen words"}
    assert outcome.metrics["shoes"]["seen words"] > outcome.metrics["watches"]["seen words"] > 0
    assert all(0 <= value <= 1 for metrics in outcome.metrics.values() for value in metrics.values())
    lengths = {key: len(values) for key, values in outcome.replicates["shoes"].items()}
    assert (lengths["auc05"], lengths["p1"]) == (200, task.KEPT_RESAMPLES) and "auc" not in lengths
    assert training.data["train shoes"]["pairs"] == 10, "fifteen without those of tests"
    assert outcome.data["test shoes"]["counts"]["titles in training"] > 0

    base = run.model_copy(update=dict(corpus=None, training=None, method=PairMethod(name="Base", trained=False)))
    (folder / "watches-test.txt").unlink()
    forget()
    base_outcome = task.TASK.test(task.TASK.train(base).model, base)
    assert set(base_outcome.metrics["shoes"]) == {*PARTS, *WORDS}, "no training, no words that it has seen"
    assert base_outcome.missing == ["watches"]


KNOWN_PAIRS = pairs((1, "a", "B"), (0, "a", "x"), (1, "y", "b"), (0, "x", "y"), (1, "x", "z"), (1, "y", "z"))


def test_pairs_are_told_apart_by_the_texts_that_training_has(monkeypatch):
    monkeypatch.setattr(task, "training_set", lambda corpus: {"a", "b"})
    pairs = task.LabeledPairs("made", KNOWN_PAIRS.left, KNOWN_PAIRS.right, KNOWN_PAIRS.labels)
    values, parts = task.overlap_parts(pairs, None)
    assert values == {
        "no known text": 3 / 6, "one known text": 2 / 6, "two known texts": 1 / 6,
        "matches[no known text]": 2 / 3, "matches[known text]": 2 / 3}
    assert not parts, "too few"
    monkeypatch.setattr(task, "FEWEST_APART", 3)
    _, parts = task.overlap_parts(pairs, None)
    assert {name: part.tolist() for name, part in parts.items()} == {
        "no known text": [False, False, False, True, True, True], "known text": [True, True, True, False, False, False]}
    monkeypatch.setattr(task, "training_set", lambda corpus: {"z"})
    monkeypatch.setattr(task, "FEWEST_APART", 1)
    assert list(task.overlap_parts(pairs, None)[1]) == ["no known text"], "the others are matches, all of them"
