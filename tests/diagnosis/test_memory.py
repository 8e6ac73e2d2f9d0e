"""Nothing is remembered between calls: the values of a module are constants.

A call that fills a table of a module, or sets a switch of it, changes what a later call gives. A function whose results
are cached (`lru_cache`, `once_per_state`) is a constant too, also without a bound: what it returns hangs on its
arguments and on files alone.
"""
import ast
from pathlib import Path

import pandas as pd
import pytest
from made import STATIC, WORLD, asked_of

from debias_nb import Catalog, compare
from debias_nb.encoders.planted import planted_encoder

PACKAGE = Path(__file__).parents[2] / "debias_nb"
CHANGES = set("""
    append extend insert update setdefault add pop popitem popleft appendleft clear remove discard sort reverse
    intersection_update difference_update symmetric_difference_update set reset __setitem__ __next__ send
""".split())
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
MUTABLE = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp, ast.Call)
PROCESS = {"os.environ", "sys.path"} # of the process, which libraries underneath read
ALLOWED = {
    "__init__.py": ["globals()[name] ="], # a promised name, imported at its first use
    "papers/pages/frame.py": ["_SHARED.reset(token)", "_SHARED.set(self)"], # for the length of a `with`
}


def names_stored(code: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(code) if isinstance(node, ast.Name)
            and isinstance(node.ctx, (ast.Store, ast.Del))}


def arguments(function: ast.AST) -> set[str]:
    "Return the arguments of a function, and of those within it."
    return {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}


def names_of(module: ast.Module) -> tuple[set[str], set[str]]:
    "Return the names of a module's values and classes, also of imported ones; and those of imported modules."
    values, modules = set(), set()
    for node in module.body:
        if isinstance(node, ast.Import):
            modules |= {one.asname or one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            values |= {one.asname or one.name for one in node.names}
        elif isinstance(node, ast.ClassDef):
            values.add(node.name)
        elif not isinstance(node, FUNCTIONS):
            values |= names_stored(node)
    return values, modules


def owner(node: ast.AST) -> str | None:
    "Return the name that an attribute or an item belongs to, however deep."
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def changed_by(node: ast.AST) -> ast.AST | None:
    "Return what a step of a program changes in place, if it changes anything."
    if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        return node.func.value
    if (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        and node.func.id in ("setattr", "delattr", "next")):
        return node.args[0]
    return None


def memory_of(text: str) -> list[str]:
    "Return how the functions of a module change what outlives their call."
    module = ast.parse(text)
    values, modules = names_of(module)
    ways = []
    for function in (node for node in ast.walk(module) if isinstance(node, FUNCTIONS)):
        own = arguments(function) | names_stored(function)
        ways += [f"{ast.unparse(default)} as a default"
                 for default in [*function.args.defaults, *function.args.kw_defaults]
                 if isinstance(default, MUTABLE[:-1])]
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                ways += [f"global {name}" for name in node.names]
            changed = changed_by(node)
            if changed is None or ast.unparse(changed) in PROCESS:
                continue
            is_value = (owner(changed) in values - own or owner(changed) in modules - own
                        and not isinstance(changed, ast.Name))
            if is_value or owner(changed) == "cls" or ast.unparse(changed) == "globals()":
                ways.append(ast.unparse(node) + (" =" if not isinstance(node, ast.Call) else ""))
    return sorted(set(ways))


def test_the_values_of_modules_are_constants():
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    ways = {name: memory_of(path.read_text("utf-8")) for name, path in sorted(paths.items())}
    assert {name: one for name, one in ways.items() if not set(one) <= set(ALLOWED.get(name, ()))} == {}


@pytest.mark.parametrize("code, ways", [
    ("KNOWN = {}\ndef f(x):\n    KNOWN[x] = 1", ["KNOWN[x] ="]),
    ("KNOWN = {}\ndef f(x):\n    del KNOWN[x].y", ["KNOWN[x].y ="]),
    ("from .here import KNOWN\ndef f(x):\n    g(lambda: KNOWN.parts.append(x))", ["KNOWN.parts.append(x)"]),
    ("import here\ndef f(x):\n    here.KNOWN.update(x)", ["here.KNOWN.update(x)"]),
    ("ONLY = ContextVar('only')\ndef f():\n    ONLY.set(True)", ["ONLY.set(True)"]),
    ("COUNT = count()\ndef f():\n    return next(COUNT)", ["next(COUNT)"]),
    ("def f():\n    global LAST\n    LAST = 1", ["global LAST"]),
    ("class A:\n    known = []\n    def f(self, x):\n        A.known.append(x)", ["A.known.append(x)"]),
    ("class A:\n    @classmethod\n    def f(cls, x):\n        cls.last = x", ["cls.last ="]),
    ("def f(x, known={}):\n    return known", ["{} as a default"]),
    ("import numpy as np\nKNOWN = {}\ndef f(KNOWN):\n    KNOWN['a'] = np.sort(1)\n    self.known.append(1)", []),
])
def test_the_check_sees_what_is_remembered(code, ways):
    assert memory_of(code) == ways


OWN = """
from dataclasses import dataclass
from debias_nb import Regularizer

@dataclass
class Still(Regularizer):
    "Each embedding near that of the base."
    about = "each embedding stays where it was"
    needs_base = True

    def term(self, text):
        return (text.fx - text.f0x).square().sum()
"""


def frame(pairs) -> pd.DataFrame:
    left, right = pairs.texts()
    return pd.DataFrame({"left": left, "right": right, "label": pairs.labels.astype(int)})


def files_of(comparisons: list, encoder, train: pd.DataFrame, tests: dict) -> dict:
    "Return what each comparison writes, in their order."
    how = {"seeds": 2, "epochs": 1, "batch_size": 32, "learning_rate": 2e-2}
    return {str(settings): compare(encoder, train, tests, **asked_of(**how, **settings)).files()
            for settings in comparisons}


@pytest.mark.slow
def test_two_comparisons_in_either_order_write_the_same(tmp_path, monkeypatch):
    (tmp_path / "still.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    world = Catalog(WORLD)
    data = frame(world.labeled_pairs()).head(200), {name: frame(world.test_pairs(name)) for name in ("iid", "unseen")}
    encoder = planted_encoder(STATIC)
    comparisons = [{"methods": "base,plain,outreg:1,still.Still:100", "seed": 3}, {
        "methods": "base,plain,wise-ft,itvreg", "loss": "MultipleNegativesRankingLoss", "sample": 50, "margin": 2.}]
    assert files_of(comparisons, encoder, *data) == files_of(comparisons[::-1], encoder, *data)
