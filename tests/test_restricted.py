"Texts of corpora whose terms do not allow it are in nothing that is committed."
import json
import os

import pytest
from PIL import Image

import diagnose_cases
import pictures
import restricted
from debias_nb.diagnosis.diagnose import diagnose
from debias_nb.diagnosis.recommendations import GENERAL
from made import some_pairs, table

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


@pytest.mark.skipif(not os.path.isdir(os.path.join(os.environ.get("DEBIAS_NB_DATA", ""), "quora")),
                    reason="no Quora here")
def test_the_list_is_that_of_the_corpus():
    assert restricted.corpus() == restricted.listed()


def test_pages_name_restricted_texts_by_their_place(tmp_path):
    base, tuned = (str(table(tmp_path / str(seed), seed)) for seed in (0, 1))
    pairs = some_pairs()
    pairs["left"] = [f"{QUESTION} {text}" for text in pairs.left]
    diagnosis = diagnose(base, tuned, pairs, {"quora": pairs})
    diagnose_cases.without_texts(diagnosis, diagnose_cases.CASES["products"])
    assert all("giraffe" in text for text in (diagnosis.flips["quora"].left[0], diagnosis.json()))
    diagnose_cases.without_texts(diagnosis, diagnose_cases.CASES["questions"])
    for text in (diagnosis.html(), diagnosis.json()):
        assert "a purple giraffe" not in text and f"[quora, line {diagnosis.flips['quora'].line[0]}, left]" in text
        assert "[quora, line 1, right]" in text, "of a pair that stands in the training file"


@pytest.mark.parametrize("name", diagnose_cases.CASES)
def test_each_published_diagnosis_has_one_test_like_training_and_the_program_of_now(name):
    case = diagnose_cases.CASES[name]
    twin = json.loads((diagnose_cases.OUT / f"{name}.json").read_text("utf-8"))
    diagnosis = diagnose_cases.from_twin(twin, case.corpus)
    names = [card["name"] for card in diagnosis.cards if card["role"] == "In distribution"]
    assert names == [f"`{case.corpus}`"] and GENERAL.program in diagnosis.snippet
    page = diagnosis.html().partition('<nav aria-label="Parts of this page">')[0]
    assert page.count("In distribution") == 1 and "held to" not in page


@pytest.mark.parametrize("name", diagnose_cases.CASES)
def test_a_picture_says_what_its_page_says(name):
    twin = json.loads((diagnose_cases.OUT / f"{name}.json").read_text("utf-8"))
    with Image.open(diagnose_cases.OUT / f"{name}.png") as image:
        assert image.text["Description"] == pictures.first_screen(twin), "make it again: python tools/pictures.py"
    twin["decision"]["results"][0]["like"] ^= True
    assert image.text["Description"] != pictures.first_screen(twin)
