"""A notebook of `nbs/papers/` is executed by papermill, in this process: what one imports is there for the next.

Papermill by itself mentions a parameter that it does not know in a warning, and runs the notebook without it; here
parameters are checked before a cell runs.
"""
import ast
import atexit
import gc
import logging
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ...checks import ConfigError, RunnerError, UserError, check_known
from ...runs.config import typed

if TYPE_CHECKING:
    from nbformat import NotebookNode


NOT_RUN_HERE = "*not run here*"
LACKING = LookupError, ValueError, ArithmeticError # what a cell raises where runs lack that it reads


SINGLE = (int, float, str, bool)
TYPES = {kind.__name__: kind for kind in SINGLE} | {f"list[{kind.__name__}]": list[kind] for kind in SINGLE}


def parameter_types(template: Path) -> dict[str, object]:
    """Read the parameters of a template, lines `name: type = literal` of its cell that is tagged `parameters`.

    Raise `RunnerError` for another form."""
    import nbformat
    try:
        cells = nbformat.read(template, as_version=4).cells
        (source,) = [cell.source for cell in cells if "parameters" in cell.metadata.get("tags", [])]
        types = {}
        for line in ast.parse(source).body:
            kind = TYPES[ast.unparse(line.annotation)]
            types[line.target.id] = kind | None if ast.literal_eval(line.value) is None else kind
    except Exception as e:
        raise RunnerError(f"{template}: no notebook with one cell of parameters ({e})") from None
    return types


def check_parameters(template: Path, parameters: dict[str, object]) -> dict[str, object]:
    "Give parameters their declared types. Raise `RunnerError` for an unknown name or a wrong type."
    types = parameter_types(template)
    for name in parameters:
        check_known(f"parameter in {template.stem} called", name, types, RunnerError)
    try:
        return {name: typed(name, value, types[name]) for name, value in parameters.items()}
    except ConfigError as e:
        raise RunnerError(f"{template.stem}: {e}") from None


def declared(template: Path, parameters: dict[str, object]) -> dict[str, object]:
    "Keep the parameters that a template declares. Raise `RunnerError` as `parameter_types`."
    types = parameter_types(template)
    return {name: value for name, value in parameters.items() if name in types}


def _shell(names: dict[str, object]):
    "Return a shell whose cells define these names, in a module that is not the program's `__main__`."
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config
    config = Config(HistoryManager=dict(enabled=False))
    # the one that `display` asks for; in a kernel it is there
    InteractiveShell.instance(config=config, user_module=ModuleType("page"))
    names["__name__"] = "page"
    shell = InteractiveShell(config=config, user_ns=names)
    atexit.unregister(shell.atexit_operations) # which would keep it until the end
    return shell


def _run_cell(shell, source: str) -> list["NotebookNode"]:
    "Run a cell, and return what it printed, then what it displayed. Raise what it raises."
    from IPython.utils.capture import capture_output
    from nbformat.v4 import new_output
    with capture_output() as capture:
        shell.display_trap.hook = sys.displayhook # a bare last line is captured too
        result = shell.run_cell(source)
    result.raise_error()
    printed = [new_output("stream", text=capture.stdout)] if capture.stdout else []
    return printed + [new_output("display_data", one.data, metadata=one.metadata) for one in capture.outputs]


def _assigned(source: str) -> set[str]:
    "Return the names that a cell would have defined."
    if source.startswith("%%"):
        return set()
    nodes = list(ast.walk(ast.parse(re.sub(r"(?m)^%.*$", "", source))))
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names | {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def _lacks_runs(error: Exception, names: dict[str, object]) -> bool:
    "Return whether a cell may have raised an error for want of runs: some lack in what its notebook has loaded."
    from .frame import Results
    results = [Results.current(), *(value for value in names.values() if isinstance(value, Results))]
    is_of_this_kind = isinstance(error, LACKING) and not isinstance(error, UserError)
    return is_of_this_kind and any(one.lacks_runs for one in results)


def _not_run(reason: str) -> list["NotebookNode"]:
    "Return what a cell shows that needs runs which are not there; the reason is logged."
    from nbformat.v4 import new_output
    logging.getLogger(__name__).info("not run here: %s", reason)
    return [new_output("display_data", {"text/markdown": NOT_RUN_HERE, "text/plain": NOT_RUN_HERE})]


@cache
def _this_process() -> str:
    """Register an engine with papermill that needs no kernel: what one notebook imports is there for the next.

    Return its name."""
    from papermill.engines import Engine, papermill_engines

    class ThisProcess(Engine):
        @classmethod
        def execute_managed_notebook(cls, nb_man, kernel_name, *, names, input_path, **_):
            gc.freeze() # what is in memory by then is not searched for garbage again
            shell, lost = _shell(names), set()
            for index, cell in enumerate(nb_man.nb.cells):
                if cell.cell_type != "code":
                    continue
                nb_man.cell_start(cell, index)
                try:
                    cell.outputs = _run_cell(shell, cell.source)
                except Exception as error:
                    if _lacks_runs(error, shell.user_ns) or isinstance(error, NameError) and error.name in lost:
                        lost |= _assigned(cell.source)
                        cell.outputs = _not_run(f"{Path(input_path).stem}, cell {cell.id}: {error!r}")
                        nb_man.cell_complete(cell, index)
                        continue
                    nb_man.cell_exception(cell, index)
                    error.add_note(f"in {Path(input_path).name}: {cell.source.splitlines()[0]}")
                    raise
                nb_man.cell_complete(cell, index)

    papermill_engines.register(ThisProcess.__name__, ThisProcess)
    return ThisProcess.__name__


def run_notebook(
    template: Path,
    parameters: dict[str, object],
    output: Path | None = None, # the executed copy; None: none is written
    cwd: Path | None = None,    # where it is executed; None: here
    names: dict[str, object] | None = None, # what it defines
) -> "NotebookNode":
    """Check parameters, then execute a template with papermill, and return the executed notebook.

    Raise `RunnerError` before a cell runs, and after that what the cell raises, with the notebook's name as a note."""
    import papermill
    parameters = check_parameters(template, parameters)
    logging.getLogger("papermill").setLevel(logging.ERROR)
    try:
        if output:
            output.parent.mkdir(parents=True, exist_ok=True)
        return papermill.execute_notebook(
            template, output, parameters=parameters, kernel_name="python3", language="python", cwd=cwd,
            progress_bar=False, log_output=False, engine_name=_this_process(), names={} if names is None else names)
    except OSError as e: # a disk that is full, a folder that is read-only
        if output is None:
            raise
        raise RunnerError(f"{output}: not executed: {e.strerror or e}") from None
