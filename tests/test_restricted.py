"Texts of corpora whose terms do not allow it are in nothing that is committed."

import pytest

import restricted

QUESTION = "Why would a purple giraffe ever want to sing quietly in the winter rain?"
SHORT = "Do purple giraffes sing quietly?"
KEYS = restricted.keys(QUESTION) | restricted.keys(SHORT)


@pytest.mark.parametrize("text", [
    f"<td>{QUESTION}</td>", f'{{"left": "{SHORT}"}}', "It asks: why would a purple giraffe ever want to sing, "
                                                      "and so on.",
    "<td><span>Do</span> <span>purple</span> <b>giraffes</b> sing quietly</td>",
])
def test_a_text_is_found_wherever_it_stands(tmp_path, text):
    (tmp_path / "page.html").write_text(f"<p>A page.</p>{text}<p>Its end.</p>", "utf-8")
    assert restricted.holding([tmp_path / "page.html"], KEYS)


def test_other_texts_are_not(tmp_path):
    (tmp_path / "page.md").write_text("A purple giraffe would ever want to sing. Do giraffes sing quietly?", "utf-8")
    assert not restricted.holding([tmp_path / "page.md"], KEYS)


@pytest.mark.slow
def test_no_page_or_notebook_holds_a_text_of_a_restricted_corpus():
    pages = [path for path in restricted.committed() if path.suffix != ".parquet"]
    assert len(pages) > 300
    assert restricted.holding(pages, restricted.listed()) == []


def test_no_record_does():
    records = [path for path in restricted.committed() if path.is_relative_to(restricted.ROOT / "experiments")]
    texts = {path: restricted.text_of(path) for path in records}
    paths = [path for path, text in texts.items() if '"cases"' in text or '"leaks"' in text] # the others hold no texts
    assert paths
    assert restricted.holding(paths, restricted.listed()) == []


@pytest.mark.published
def test_the_list_is_that_of_the_corpus():
    assert restricted.corpus() == restricted.listed()


