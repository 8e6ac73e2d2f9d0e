"What the notebooks of papers define, without running them."
import ast
import json
from pathlib import Path
from types import SimpleNamespace

PAPERS = Path(__file__).resolve().parents[1] / "nbs/papers"


def is_definition(statement):
    "An import, a function, or a constant."
    if isinstance(statement, ast.Assign):
        return all(isinstance(name, ast.Name) and name.id.isupper() for name in statement.targets)
    return isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef)


def defined_in(name):
    "Functions and constants of a notebook, `itvreg/table09`."
    cells = json.loads((PAPERS / f"{name}.ipynb").read_text("utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    kept = [statement for statement in ast.parse(code).body if is_definition(statement)]
    found = {}
    exec(compile(ast.Module(kept, []), name, "exec"), found)
    return SimpleNamespace(**found)
