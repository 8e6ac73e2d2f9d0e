"What the notebooks of papers define, without running them, and runs for made-up records."
import ast
import json
import re
from pathlib import Path
from types import SimpleNamespace

from debias_nb.settings import AnswersWorldConfig, EncoderConfig
from debias_nb.papers.settings.answers import AnswersCorpus
from debias_nb.papers.settings.pairs import PairsCorpus
from debias_nb.runs.config import RunConfig
from debias_nb.runs.settings import MethodConfig

PAPERS = Path(__file__).resolve().parents[1] / "nbs/papers"


def python_of(cell):
    "The Python of a cell, without the commands of IPython; empty for one of Markdown."
    source = "".join(cell["source"])
    return "" if source.startswith("%%") else re.sub(r"(?m)^%.*$", "", source)


def is_definition(statement):
    "An import, a function, or a constant."
    if isinstance(statement, ast.Assign):
        return all(isinstance(name, ast.Name) and name.id.isupper() for name in statement.targets)
    return isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef)


def defined_in(name):
    "Functions and constants of a notebook, `itvreg/table09`."
    cells = json.loads((PAPERS / f"{name}.ipynb").read_text("utf-8"))["cells"]
    code = "\n".join(python_of(cell) for cell in cells if cell["cell_type"] == "code")
    statements = [statement for statement in ast.parse(code).body if is_definition(statement)]
    names = {}
    exec(compile(ast.Module(statements, []), name, "exec"), names)
    return SimpleNamespace(**names)


# by task
TRAININGS = {"pairs": {}, "answers": {"loss": "cross-entropy"}, "authors": {"loss": "authors", "temperature": .1}}


def a_run(method="Finetuned", corpus="real", encoder="encoder", is_trained=True, seed=0, world=None, **changes):
    "The configuration of a made-up run; `world` is the seed of a planted one."
    data = PairsCorpus(name=corpus) if isinstance(corpus, str) else corpus
    if world is not None:
        data = AnswersCorpus(name="answers", task="answers", label="planted",
                             world=AnswersWorldConfig(name="answers", seed=world))
    parts = dict(corpus=data, training=TRAININGS[data.task] | {"learning_rate": .1, "epochs": 1, "batch_size": 8})
    return RunConfig(
        paper="itvreg", experiment="made_up", profile="small", encoder=EncoderConfig(name=encoder, kind="static"),
        method=MethodConfig(name=method, trained=is_trained), evaluate=["test"], seed=seed,
        **(parts if is_trained else {"eval_corpus": data}) | changes)


# What stands on pages.

NUMBER = r"[+−]?\d+\.\d"
def rows_of(table: str) -> list[dict[str, str]]: # table: Markdown
    "Read the rows of a table by the names of its columns."
    header, _, *lines = [[cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split(" |")]
                         for line in table.splitlines()]
    return [dict(zip(header, line)) for line in lines]


def number(text: str) -> float:
    return float(text.replace("−", "-"))


