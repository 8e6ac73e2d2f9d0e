"The article as it is printed, the artifact without names, and when its statements were written down."
import importlib.util
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell

from debias_nb.files import load_yaml
from debias_nb.papers.pages.facts import Facts

from needs import lacks

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
spec = importlib.util.spec_from_file_location("article", ROOT / "tools" / "article.py")
tool = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = tool
spec.loader.exec_module(tool)
sys.path.remove(str(ROOT / "tools"))


def test_links_lead_to_the_repository_and_nothing_of_nbdev_is_printed(tmp_path):
    text = ("[a page](./arr/claims.ipynb#b1) [a file](../../experiments/authors_code.json) [a "
            "reference](https://a.example/b) [here](#x)")
    output = new_output("display_data", {"text/markdown": "[findings](./findings.ipynb)"})
    cells = [new_markdown_cell(f"# A title\n\n{text}"), new_code_cell("secret = 1", outputs=[output]),
             new_raw_cell("---\nskip_exec: true\n---")]
    nbformat.write(new_notebook(cells=cells), tmp_path / "book.ipynb")
    html = tool.article(tmp_path / "book.ipynb", "https://r.example/blob/main")
    for address in ("reports/arr/claims.md#b1", "experiments/authors_code.json", "reports/FINDINGS.md"):
        assert f'href="https://r.example/blob/main/{address}"' in html
    assert 'href="https://a.example/b"' in html and 'href="#x"' in html
    assert "<title>A title</title>" in html and "skip_exec" not in html and "secret" not in html


def test_names_are_taken_from_texts_and_binary_files_stay():
    names = tool.settings()
    text = (f"{names['git_url']}/blob/main by {names['author']}, {names['author_email']}; "
            f"{names['doc_host']}{names['doc_baseurl']}; {names['copyright']}")
    hidden = tool.without_names(text.encode()).decode()
    assert "github" not in hidden and names["author"].lower() not in hidden.lower()
    assert hidden.count(tool.ANONYMOUS) == 2
    assert tool.without_names(b"\xff\xfe" + text.encode()) == b"\xff\xfe" + text.encode()


@pytest.mark.slow
def test_the_artifact_has_all_files_and_no_name(tmp_path):
    settings = tool.settings()
    names_of_us = [settings["git_url"].removeprefix("https://"), settings["doc_host"], settings["author_email"]]
    tool.pack_anonymous(tmp_path / "a.tar.gz")
    process = subprocess.run(["git", "-C", ROOT, "ls-tree", "-r", "--name-only", "HEAD"], capture_output=True,
                             text=True, check=True)
    with tarfile.open(tmp_path / "a.tar.gz") as files:
        names = [file.name.removeprefix("artifact/") for file in files if file.isfile()]
        assert set(process.stdout.splitlines()) == set(names)
        for file in files:
            content = files.extractfile(file).read() if file.isfile() else b""
            assert not any(name.encode() in content for name in names_of_us), file.name


@pytest.mark.slow
def test_the_article_is_printed_on_eight_pages_at_most(tmp_path, capsys):
    if tool.browser() is None:
        lacks("there is no Chromium on the path")
    tool.main(["--out", str(tmp_path)]) # exits where there are more
    assert " pages" in capsys.readouterr().out and (tmp_path / "article.pdf").stat().st_size > 50_000
    html = (tmp_path / "article.html").read_text("utf-8")
    assert "skip_exec" not in html and 'href="./' not in html and 'href="../' not in html


def test_without_a_browser_there_is_the_html_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tool, "browser", lambda: None)
    tool.main(["--out", str(tmp_path)])
    assert "no Chromium" in capsys.readouterr().out and [path.name for path in tmp_path.iterdir()] == ["article.html"]


def test_more_pages_than_allowed_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "browser", lambda: "a browser")
    monkeypatch.setattr(tool, "print_pages", lambda *args: tool.MOST + 1)
    with pytest.raises(SystemExit, match="at most 8 pages"):
        tool.main(["--out", str(tmp_path)])


STATEMENTS = load_yaml(ROOT / "experiments/registered.yaml")["statements"]


def of_git(*arguments: str) -> str | None:
    "What git says; None for what is not there."
    process = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True,
                             env=os.environ | {"TZ": "UTC"})
    return process.stdout if process.returncode == 0 else None


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement["about"])
def test_each_statement_was_written_down_by_the_commit_that_is_named(statement):
    commit, file = statement["commit"], statement["file"]
    date = of_git("show", "-s", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%S", commit)
    if date is None:
        pytest.skip(f"the history does not reach {commit}")
    earlier_text = of_git("show", f"{commit}^:{file}") or ""
    assert statement["phrase"] in of_git("show", f"{commit}:{file}") and statement["phrase"] not in earlier_text
    assert date.strip() == statement["written"]


def test_a_headline_that_was_registered_is_the_one_of_a_grade():
    facts = Facts.read()
    headlines = {statement["headline"] for statement in STATEMENTS if "headline" in statement}
    assert headlines <= {name.removeprefix("certainty_") for name in facts}
    asked = {name.removeprefix("lacks_") for name in facts if name.startswith("lacks_")
             and "headline not registered" not in str(facts[name].value)}
    assert asked <= headlines and "sites" in asked


def shares_after_statements(article: str) -> dict[str, float]:
    "Read what share of the runs began after each statement was written down, from the article's table."
    rows = [line.strip("| ").split(" | ") for line in article.splitlines()
            if re.fullmatch(r"\| \d \|.* of [\d,]+ \|", line)]
    counts = {row[1]: [int(number.replace(",", "")) for number in row[-1].split(" of ")] for row in rows}
    return {subject: later / total for subject, (later, total) in counts.items()}


def test_questions_that_findings_call_asked_before_the_runs_were():
    shares = shares_after_statements((ROOT / "reports/REPORT.md").read_text("utf-8"))
    assert len(shares) == len(STATEMENTS)
    assert min(shares.values()) >= .9 # as the page of findings says


def test_a_question_written_down_late_is_seen():
    row = "| 5 | the topic model against none | f2ca6e78 | 2026-11-20 to 2026-11-22 | 1,215 of 2,240 |"
    assert shares_after_statements(row) == {"the topic model against none": 1215 / 2240}
