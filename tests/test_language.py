"Names are nouns of what they hold, in the library, in the notebooks and in the tests."
import ast
import re

import pytest

from notebooks import ROOT, notebooks
from test_notebooks import code

# Words that need another word beside them, and participles without their noun.
CLOSED = """
above across after again against ago all alone along among anew another any apart around at away before behind below
beside between beyond both but by each earlier either else enough far few fewer from further here how inside instead its
later less likewise more most near neither none nothing of on one ones only other others outside own rest same so some
such than that then there these this those thus to together what when where which who whole whom whose why with without
yet
begun brought built chosen done drawn found given gone heard held kept known lost made meant met said seen sent shown
spoken taken told written
""".split()
NOUNS = ["embed", "expected", "feed", "need", "seed", "shared", "speed", "tuned", "weighted"]

# Of 1,000 names at most: 16, or as many as a folder had when they were last counted.
LIMITS = {
    "debias_nb": 25, "nbs": 106, "nbs/diagnosis": 161, "nbs/losses": 38, "nbs/papers": 121, "nbs/read": 69,
    "tests/diagnosis": 156, "tests/library": 19, "tests/papers": 18, "tests/site": 46,
}


def lacks_noun(name: str) -> bool:
    word = name.strip("_").lower()
    return word in CLOSED or word not in NOUNS and bool(re.fullmatch(r"[a-z]{3,}ed", word))


def names_in(source: str) -> list[str]:
    "List the names that a source gives, to variables, arguments, functions and classes."
    tree = list(ast.walk(ast.parse(source)))
    names = [node.id for node in tree if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names += [node.arg for node in tree if isinstance(node, ast.arg)]
    names += [node.name for node in tree if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return [name for name in names if not name.startswith("__")]


def source_of(path) -> str: # of a notebook what it does not export, without magics
    if path.suffix == ".py":
        return path.read_text("utf-8")
    return re.sub(r"^[%!].*", "", "\n".join(cell for cell in code(path) if cell[:9] != "#| export"), flags=re.M)


FOLDERS = {} # `debias_nb`, `tests/library`, `nbs/losses`, ... -> its files
for path in [*notebooks(), *ROOT.glob("debias_nb/**/*.py"), *ROOT.glob("tests/**/*.py")]:
    folder = path.relative_to(ROOT).parent.as_posix()
    name = re.match(r"debias_nb|nbs/\w+|[^/]+(/\w+)?", folder)[0]
    FOLDERS.setdefault(name, []).append(path)


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_are_nouns(folder):
    names = [name for path in FOLDERS[folder] for name in names_in(source_of(path))]
    share = 1000 * sum(map(lacks_noun, names)) / len(names)
    assert share <= LIMITS.get(folder, 16), f"{share:.1f} of 1,000"


def test_a_name_without_a_noun_is_seen():
    names = names_in("def told(of, cells):\n    found, __all__ = [kept for kept in cells], []\nclass Own: pass")
    assert sorted(filter(lacks_noun, names)) == ["Own", "found", "kept", "of", "told"]
