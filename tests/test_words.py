"Texts say things in the field's words: those of tools/words.yaml."
import ast
import re
from pathlib import Path

import nbformat
import pytest
import typer
import yaml

from debias_nb.repro.cli import app

ROOT = Path(__file__).parents[1]
RULES = yaml.safe_load((ROOT / "tools/words.yaml").read_text("utf-8"))


def patterns(words):
    "What looks for each word, or for a pattern between slashes."
    found = {}
    for word in words:
        if word.startswith("/"):
            found[word] = re.compile(word[1:-1])
        else:
            found[word] = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])", re.IGNORECASE)
    return found


PATTERNS = patterns(RULES["words"])
OF_PAGES = patterns(RULES["words of pages"])
FIRST = patterns(RULES["words there"])
NO_PROSE = re.compile(r"```.*?```|`[^`]*`|\$[^$]*\$|\]\([^)]*\)|https?://\S+", re.S) # code, formulas and addresses
PAGES = sorted((ROOT / "reports").rglob("*.md"))
NOTEBOOKS = sorted((ROOT / "nbs").rglob("*.ipynb"))
CHECKED = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES, *NOTEBOOKS]
OF_PAPERS = [path for path in NOTEBOOKS if path.is_relative_to(ROOT / "nbs/papers") or path.parent.name == "read"]


def prose(path: Path) -> str:
    "What a text says, without code; of a notebook its text cells."
    if path.suffix != ".ipynb":
        return path.read_text("utf-8")
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def coined(text: str, kind: str = "words") -> list[str]: # kind: of words, in tools/words.yaml
    "Words that have a better one, each with that."
    text = NO_PROSE.sub(" ", text)
    found = {word: pattern.search(text) for word, pattern in {"words": PATTERNS, "words of pages": OF_PAGES}[kind].items()}
    return [f"{match[0]} → {RULES[kind][word]}" for word, match in found.items() if match]


@pytest.mark.parametrize("path", [*PAGES, *OF_PAPERS], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_have_no_words_of_the_code(path):
    assert coined(prose(path), "words of pages") == []


@pytest.mark.parametrize("name", RULES["first"])
def test_pages_that_are_read_first_say_it_in_plain_words(name):
    "Claims and questions in tables are as they were registered."
    text = re.sub(r"^\| \[.*$", "", (ROOT / name).read_text("utf-8"), flags=re.M)
    text = re.sub(r"<details.*?</details>", lambda fold: re.sub(r"^\|.*$", "", fold[0], flags=re.M), text, flags=re.S)
    text = NO_PROSE.sub(" ", text)
    found = {word: pattern.search(text) for word, pattern in FIRST.items()}
    assert [f"{text[max(0, at.start() - 40):at.end() + 20]} → {RULES['words there'][word]}" for word, at in found.items() if at] == []


def docstrings(path: Path) -> str:
    "What the docstrings of a module say, without examples, quoted values and ranges of numbers."
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    said = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
    return re.sub(r"^ *(>>>|\.\.\.) .*$|\"\w+\"|-(?=\d)", "", "\n\n".join(said), flags=re.M)


def template_text(path: Path) -> str:
    "What a template writes, a number in the place of each value; of a program its comments."
    text = re.sub(r"<style>.*?</style>|{#.*?#}|{%.*?%}", "", path.read_text("utf-8"), flags=re.S)
    text = re.sub(r"{{.*?}}", "0", text, flags=re.S)
    if path.name.endswith(".py.j2"):
        return "\n".join(re.findall(r"^ *#(.*)$", text, flags=re.M))
    return re.sub(r"<[^>]+>", " ", text)


def sentences(path: Path) -> str:
    "What a module may print: its texts of three words or more, without docstrings, patterns and names."
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    quiet = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    patterns = {id(argument) for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") for argument in node.args}
    texts = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in quiet | patterns]
    return "\n\n".join(node.value for node in texts if len(node.value.split()) > 2)


def helps(command) -> str:
    "What a command and those below it say of themselves and their options."
    below = getattr(command, "commands", {}).values()
    said = [command.help, *(getattr(option, "help", None) for option in command.params), *map(helps, below)]
    return "\n\n".join(filter(None, said))


EXPLAIN = ROOT / "debias_nb/explain"
MODULES = [path for path in sorted((ROOT / "debias_nb").rglob("*.py")) if path.name != "_modidx.py"]
TEXTS = [ # how a file is read, files
    *((prose, path) for path in CHECKED),
    *((docstrings, path) for path in MODULES),
    *((template_text, path) for path in sorted(EXPLAIN.glob("*.html.j2"))),
    *((sentences, path) for path in MODULES),
]


@pytest.mark.parametrize("read, path", TEXTS, ids=[f"{read.__name__} of {path.relative_to(ROOT)}" for read, path in TEXTS])
def test_words_are_the_fields(read, path):
    assert coined(read(path)) == []


def test_help_has_the_words_of_the_field():
    said = helps(typer.main.get_command(app))
    assert "Repeatable." in said
    assert coined(said) == []


def test_a_coined_word_is_noticed():
    assert coined("Each remedy stands beside it (-3), 5 % better.") == [
        "remedy → method, or regularizer", "beside → next to, together with", "5 % → 95%, without a space", "(-3 → a minus sign, −"]
    assert coined("Each remedy") == ["remedy → method, or regularizer"]
    assert coined("Ten draws, held near the base, held out; ✓ Held in Kansas", "words of pages") == ["draws → a sample", "held  → regularized toward, or fixed"]
    assert coined("`beside` in code, [a link](beside.md), a dialog") == []
