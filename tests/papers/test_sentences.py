"Sentences by kind of text: what is tested, what may be held, and what of a shift can be said before training."
import pytest

from debias_nb.checks import ConfigError
from debias_nb.data import sentences as s
from debias_nb.data.pairs import fold
from debias_nb.papers.settings.pairs import PairsCorpus
from debias_nb.papers.data import labeled_pairs as task
from made import register

GRADE_FILE = "4.0\ta cat\ta kitten\n2\ta cat\ta dog\n3.9\ta mouse\tA CAT!\n\ta {kind}\ta mouse\n"
NEWS = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n{rows}"


@pytest.fixture
def files(tmp_path, monkeypatch, nothing_kept):
    "Files of every kind, made up: `a cat` is tested in all of them."
    folders = {name: tmp_path / name for name in ("sts", "msr_paraphrase")}
    for folder in folders.values():
        folder.mkdir()
    names = {name for kind in s.SEMEVAL.values() for name in (*kind.tests, *kind.untested)} | {"2014-deft-news"}
    for name in names:
        (folders["sts"] / f"{name}.tsv").write_text(GRADE_FILE.format(kind=name), encoding="utf-8")
    parts = {
        "train": '1\t1\t2\tShares "rose".\tShares went up.\r\n0\t3\t4\tIt rains.\tA cat.\r\n0\t5\t6\tNo one won.\tHe '
                 'lost.\r\n',
        "val": "0\t3\t4\tit rains\ta cat\r\n", "test": "1\t7\t8\tShe won.\tShe lost.\r\n0\t7\t9\tShe won.\tHe "
                                                       "lost.\r\n",
    }
    for part, rows in parts.items():
        (folders["msr_paraphrase"] / f"{part}.tsv").write_bytes(NEWS.format(rows=rows).encode())
    register(tmp_path, monkeypatch)


def test_grades_from_four_match_and_up_to_two_do_not(files):
    test = s.load_sentences("captions")
    assert list(zip(test.left, test.right, test.labels.tolist())) == [("a cat", "a kitten", 1), ("a cat", "a dog", 0)]
    assert test.counts == {"lines": 4, "not graded": 1, "between": 1, "pairs": 2}


@pytest.mark.parametrize("kind", [*s.SENTENCE_KINDS, *s.TEXTS_ONLY])
def test_no_text_that_may_be_held_is_tested(files, kind):
    texts = s.sentence_texts(kind)
    assert "a mouse" in texts, "half of it is between match and no match, half is not graded"
    assert not {fold(text, True) for text in texts} & {"acat", "akitten", "adog", "shewon", "helost"}
    assert len({fold(text, True) for text in texts}) == len(texts)


def test_news_are_read_to_the_letter_and_trained_without_their_tests(files):
    train = task.training_pairs(PairsCorpus(name="news"))
    assert sorted(zip(train.left, train.right, train.labels.tolist())) == [
        ("No one won.", "He lost.", 0), ('Shares "rose".', "Shares went up.", 1)]
    assert task.evaluation_pairs("news", None, None).labels.tolist() == [1, 0]
    with pytest.raises(ConfigError, match="takes no `holdout`"):
        task.training_pairs(PairsCorpus(name="news", holdout=.1))
