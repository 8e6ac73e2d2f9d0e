"Texts of corpora whose terms do not allow it are in nothing that is committed."
import os

import pytest

import diagnose_cases
import restricted

QUESTION = "Why would a purple giraffe ever want to sing quietly in the winter rain?"
SHORT = "Do purple giraffes sing quietly?"
KNOWN = restricted.keys(QUESTION) | restricted.keys(SHORT)


@pytest.mark.parametrize("text", [
    f"<td>{QUESTION}</td>", f'{{"left": "{SHORT}"}}', "It asks: why would a purple giraffe ever want to sing, and so on.",
    "<td><span>Do</span> <span>purple</span> <b>giraffes</b> sing quietly</td>",
])
def test_a_text_is_found_wherever_it_stands(tmp_path, text):
    (tmp_path / "page.html").write_text(f"<p>A page.</p>{text}<p>Its end.</p>", "utf-8")
    assert restricted.holding([tmp_path / "page.html"], KNOWN)


def test_other_texts_are_not(tmp_path):
    (tmp_path / "page.md").write_text("A purple giraffe would ever want to sing. Do giraffes sing quietly?", "utf-8")
    assert not restricted.holding([tmp_path / "page.md"], KNOWN)


def test_no_page_or_notebook_holds_a_text_of_a_restricted_corpus():
    pages = [path for path in restricted.committed() if not path.is_relative_to(restricted.ROOT / "results")]
    assert len(pages) > 300
    assert restricted.holding(pages, restricted.listed()) == []


def test_no_record_does():
    records = [path for path in restricted.committed() if path.is_relative_to(restricted.ROOT / "results")]
    said = {path: restricted.text_of(path) for path in records}
    told = [path for path, text in said.items() if '"cases"' in text or '"leaks"' in text] # the others hold no texts
    assert told
    assert restricted.holding(told, restricted.listed()) == []


@pytest.mark.skipif(not os.path.isdir(os.path.join(os.environ.get("DEBIAS_NB_DATA", ""), "quora")), reason="no Quora here")
def test_the_list_is_that_of_the_corpus():
    assert restricted.corpus() == restricted.listed()


def test_pages_name_restricted_texts_by_their_place():
    case = diagnose_cases.CASES["questions"]
    twin = {"flips": [], "data": [
        {"file": "quora", "examples": [{"line": 7, "label": 0, "left": QUESTION, "right": SHORT}]},
        {"file": "askubuntu", "examples": [{"line": 7, "label": 0, "left": "How to mount?", "right": "How to boot?"}]},
    ]}
    rows = "".join(
        f'<tr><td>{row["file"]}</td><td>what<p class="soft">7 (0): {e["left"]} | {e["right"]}</p></td></tr>'
        for row in twin["data"] for e in row["examples"])
    html, changed = diagnose_cases.without_texts(rows, twin, case)
    assert "giraffe" not in html + str(changed)
    assert "7 (0): [quora, line 7, left] | [quora, line 7, right]" in html
    assert "How to mount? | How to boot?" in html
    assert changed["data"][0]["examples"][0]["right"] == "[quora, line 7, right]"
