"The code speaks as its field does: names are nouns, functions are told what to do, and both are short."
import ast
import json
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "debias_nb"
ROOMS = ("", "data", "encoders", "measures", "losses", "runs", "runs/tasks", "explain", "repro", "repro/commands", "repro/pages")
PAPERS = PACKAGE.parent / "nbs" / "papers"
PARTICIPLES = 12 # lone ones of 1,000 names
BODY = 40        # lines of a function
MODULE = 500     # lines

IRREGULAR = set("""told said found known kept held made drawn given shown chosen written seen taken meant heard done gone met put sent
                   brought built lost begun spoken""".split())
NOUNS = set("seed need feed speed embed shared weighted bed indeed exceed proceed".split()) # they end like participles
TERMS = {"tuned", "closed"} # of the field: the tuned model; the closed ends of a range
# Words that begin a description of a scene, and that ruff's D401 lets pass; it refuses articles, "what", and other forms of verbs.
NO_VERBS = set("""whether how which where when who whose why all its as of for in those each every one two no nothing other their they
                  from to with without only more at about after before between names""".split())


def modules(room: str) -> list[Path]:
    "Return the modules that lie in a room itself."
    return [path for path in sorted((PACKAGE / room).glob("*.py")) if path.name != "_modidx.py"]


def nodes_of(room: str) -> list[ast.AST]:
    return [node for path in modules(room) for node in ast.walk(ast.parse(path.read_text("utf-8")))]


def functions(nodes: list[ast.AST]) -> list[ast.FunctionDef]:
    return [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def is_participle(name: str) -> bool:
    word = name.strip("_").lower()
    return "_" not in word and word not in NOUNS | TERMS and (word in IRREGULAR or (len(word) > 4 and word.endswith("ed")))


def names_in(nodes: list[ast.AST]) -> list[str]:
    "Return each name that is bound: variables, arguments and functions. Fields of classes stand in files, and stay."
    fields = {field.target for node in nodes if isinstance(node, ast.ClassDef) for field in node.body if isinstance(field, ast.AnnAssign)}
    variables = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields]
    return variables + [node.arg for node in nodes if isinstance(node, ast.arg)] + [node.name for node in functions(nodes)]


def begins_with_a_verb(docstring: str) -> bool:
    first = re.match(r"\W*([A-Za-z]+)", docstring)
    word = first[1].lower() if first else ""
    return not (word in NO_VERBS or word.endswith(("tion", "ity", "ness")))


def fragments(nodes: list[ast.AST]) -> list[str]:
    "Return the functions whose docstring begins with no verb; properties are what they are."
    commanded = [node for node in functions(nodes) if not any("property" in ast.unparse(one) for one in node.decorator_list)]
    docstrings = {node.name: ast.get_docstring(node) for node in commanded if ast.get_docstring(node)}
    return [name for name, text in docstrings.items() if not begins_with_a_verb(text)]


def long_returns(nodes: list[ast.AST]) -> list[str]:
    "Return the functions that return more than three values, or a starred tuple."
    tuples = [(node.name, one.value.elts) for node in functions(nodes) for one in ast.walk(node)
              if isinstance(one, ast.Return) and isinstance(one.value, ast.Tuple)]
    return [name for name, values in tuples if len(values) > 3 or any(isinstance(value, ast.Starred) for value in values)]


def body_lines(function: ast.FunctionDef, lines: list[str]) -> int:
    "Count the lines of a function below its docstring, without blank ones and comments."
    below = function.body[1:] if ast.get_docstring(function) and len(function.body) > 1 else function.body
    own = (line.strip() for line in lines[below[0].lineno - 1:function.end_lineno])
    return sum(1 for line in own if line and not line.startswith("#"))


def lone_participles(nodes: list[ast.AST]) -> list[str]:
    "Return the names that are lone participles, each once, if these are too many of all that are bound."
    names = names_in(nodes)
    lone = [name for name in names if is_participle(name)]
    return sorted(set(lone)) if len(lone) > PARTICIPLES * len(names) / 1000 else []


@pytest.mark.parametrize("room", ROOMS)
def test_names_are_nouns(room):
    assert lone_participles(nodes_of(room)) == []


def cells_of(notebook: Path) -> list[str]:
    "Return the sources of a notebook's code cells."
    return ["".join(cell["source"]) for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


def test_names_in_the_notebooks_of_papers_are_nouns():
    sources = [source for notebook in sorted(PAPERS.rglob("*.ipynb")) for source in cells_of(notebook)]
    assert len(sources) > 300
    assert lone_participles([node for source in sources for node in ast.walk(ast.parse(source))]) == []


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_of_functions_begin_with_a_verb(room):
    assert fragments(nodes_of(room)) == []


@pytest.mark.parametrize("room", ROOMS)
def test_returned_tuples_are_short(room):
    assert long_returns(nodes_of(room)) == []


@pytest.mark.parametrize("room", ROOMS)
def test_functions_and_modules_are_short(room):
    long = {}
    for path in modules(room):
        lines = path.read_text("utf-8").splitlines()
        long |= {path.name: len(lines)} if len(lines) > MODULE else {}
        sizes = {node.name: body_lines(node, lines) for node in functions(list(ast.walk(ast.parse("\n".join(lines)))))}
        long |= {f"{path.name}:{name}": size for name, size in sizes.items() if size > BODY}
    assert long == {}


def test_the_checks_see_what_is_wrong():
    text = '''
def found(known):
    "Whether it is known."
    told, cases = known
    return 1, 2, 3, 4

def starred(*values):
    "Return them all."
    return *values, 1
'''
    code = ast.parse(text)
    nodes = list(ast.walk(code))
    assert [name for name in names_in(nodes) if is_participle(name)] == ["told", "known", "found", "starred"]
    assert lone_participles(nodes) == ["found", "known", "starred", "told"]
    assert fragments(nodes) == ["found"]
    assert long_returns(nodes) == ["found", "starred"]
    assert body_lines(code.body[0], text.splitlines()) == 2
