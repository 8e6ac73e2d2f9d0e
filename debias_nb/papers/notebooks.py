"""The notebooks of `nbs/papers/`: their parameters are checked, and copies of them executed.

Papermill by itself mentions a parameter that it does not know in a warning, and runs the notebook without it; here
parameters are checked before a kernel starts.
"""
import ast
import logging
import os
from difflib import get_close_matches
from pathlib import Path

from ..checks import ConfigError, RunnerError, check_known, nearest
from ..files import fingerprint
from ..runs.config import ExperimentConfig, configured, load_experiment, typed
from .pages.places import ANY_EXPERIMENT, STUDIES, STUDY_OF, is_of_library


class NotebookFailed(RuntimeError):
    "A notebook that was begun and failed."


SINGLE = (int, float, str, bool)
TYPES = {kind.__name__: kind for kind in SINGLE} | {f"list[{kind.__name__}]": list[kind] for kind in SINGLE}


def parameter_types(template: Path) -> dict[str, object]:
    """Read the parameters of a template, lines `name: type = literal` of its cell that is tagged `parameters`.

    Raise `RunnerError` for another form."""
    from papermill import inspect_notebook
    from papermill.iorw import load_notebook_node
    logging.getLogger("papermill").setLevel(logging.ERROR)
    try:
        cells = load_notebook_node(str(template)).cells
        (source,) = [cell.source for cell in cells if "parameters" in cell.metadata.get("tags", [])]
        parameters = inspect_notebook(str(template))
        types = {}
        for name, parameter in parameters.items():
            kind = TYPES[parameter["inferred_type_name"]]
            types[name] = kind | None if ast.literal_eval(parameter["default"]) is None else kind
        lines = ast.parse(source).body
        if len(lines) != len(types):
            raise ValueError(f"{len(types)} of {len(lines)} lines are `name: type = literal`")
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


def templates(root: Path) -> list[str]: # `paper/experiment`
    "List what can be executed: the notebooks of papers, and the experiments that studies sum up."
    folder = root / "nbs/papers"
    places = [path.relative_to(folder) for path in folder.glob("*/*.ipynb")]
    executed = {place.with_suffix("").as_posix() for place in places if not is_of_library(place)}
    return sorted((executed | {*STUDY_OF}) - {*STUDIES, ANY_EXPERIMENT})


def suggest(name: str, names: list[str]) -> str:
    "Suggest the experiments of that name in every paper, of the closest one if no paper has it, or else the closest name."
    stems = sorted({full.rpartition("/")[2] for full in names})
    close = get_close_matches(name, stems, 1, .6)
    matches = [repr(full) for full in names if full.rpartition("/")[2] in close]
    if "/" in name or not matches:
        return nearest(name, names)
    return f"; did you mean {' or '.join(matches)}?"


def select(names: list[str] | None, all_names: list[str]) -> list[str]: # names: tables, or papers for all of theirs; None: all
    "Return the tables that are asked for, in the order of all. Raise `RunnerError` with the closest names."
    tables = set()
    for name in names or all_names:
        matches = {table for table in all_names if table == name or table.startswith(f"{name}/")}
        if not matches:
            raise RunnerError(f"no table or paper {name!r}{suggest(name, all_names)}")
        tables |= matches
    return [name for name in all_names if name in tables]


def configuration_of(name: str, profile: str, root: Path) -> ExperimentConfig: # name: `paper/experiment`
    "Load the configuration of an experiment. Raise `RunnerError` with the closest names if there is none."
    if name not in [*templates(root), *configured("*/*.yaml", root)]:
        raise RunnerError(f"no template {name!r}{suggest(name, templates(root))}")
    return load_experiment(name, profile, root)


def template_path(place: str, root: Path) -> Path: # place: a page, or an experiment that a study sums up
    "Return the path of the notebook that shows runs; those that studies sum up have one in common."
    return root / "nbs/papers" / f"{ANY_EXPERIMENT if place in STUDY_OF else place}.ipynb"


def _kernel_manager():
    "Return a class of kernel managers whose kernels are the Python that runs this, talk encrypted, and end without an alarm."
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    class ThisPython(AsyncKernelManager):
        transport_encryption = "auto"
        shutdown_wait_time = 2.

        @property
        def kernel_spec(self): # a kernel that somebody has named `python3` may be another Python
            return KernelSpecManager(kernel_dirs=[]).get_kernel_spec("python3")

        async def _async_interrupt_kernel(self):
            if not self.shutting_down:
                await super()._async_interrupt_kernel()

    return ThisPython


SLEEPING_THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "TOKENIZERS_PARALLELISM": "false"}


def run_notebook(
    template: Path,
    output: Path,               # the executed copy
    parameters: dict[str, object],
    cwd: Path | None = None,    # the kernel's folder
) -> Path:
    """Check parameters, then execute a template.

    Raise `RunnerError` before a kernel starts, `NotebookFailed` after."""
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    parameters = check_parameters(template, parameters)
    logging.getLogger("papermill").setLevel(logging.ERROR)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL) # a cell that Ctrl-C stopped is an error that nobody asks for
    for name, value in SLEEPING_THREADS.items():
        os.environ.setdefault(name, value)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        papermill.execute_notebook(
            str(template), str(output), parameters=parameters, kernel_name="python3",
            kernel_manager_class=_kernel_manager(), cwd=str(cwd or template.parent),
            progress_bar=False, log_output=False, stderr_file=None)
    except (PapermillExecutionError, DeadKernelError) as e:
        name = getattr(e, "ename", type(e).__name__)
        raise NotebookFailed(f"{name}: {getattr(e, 'evalue', e)}".strip()) from None
    except OSError as e: # a disk that is full, a folder that is read-only
        raise RunnerError(f"{output}: not executed: {e.strerror or e}") from None
    return output


NARROWING = ("seeds", "methods", "encoders", "weight") # parameters that say which runs are asked for


def executed_path(root: Path, name: str, profile: str, parameters: dict[str, object]) -> Path: # name: `paper/experiment`
    "Return the path of an executed copy: a digest of which runs it asks for is in its name, so that none is written over another."
    narrowing = {key: parameters[key] for key in NARROWING if parameters.get(key) is not None}
    digest = f".{fingerprint(narrowing)[:8]}" if narrowing else ""
    return root / f"_runs/notebooks/{name}.{profile}{digest}.ipynb"


def runs_itself(template: Path, parameters: dict) -> bool:
    "Return whether a notebook makes the runs that it shows: it has a parameter `own`, which nobody has set to False."
    return "own" in parameter_types(template) and parameters.get("own") is not False


def execute_notebook(template: Path, name: str, profile: str, parameters: dict, root: Path) -> Path: # of the executed copy
    "Execute the notebook that shows an experiment at a profile."
    values = {"profile": profile} | parameters
    if "name" in parameter_types(template):
        values["name"] = name
    if runs_itself(template, values):
        values["own"] = True
    return run_notebook(template, executed_path(root, name, profile, values), values, cwd=root)


def _attempt(name: str, profile: str, parameters: dict, root: Path) -> tuple[str, str | None]: # name, why it failed
    "Execute one notebook, in a process of its own, with those parameters that it declares."
    template = template_path(name, root)
    try:
        types = parameter_types(template)
        declared = {key: value for key, value in parameters.items() if key in types} # a search has one seed of its own
        execute_notebook(template, name, profile, declared, root)
    except (NotebookFailed, RunnerError, ConfigError) as e:
        return name, str(e)
    return name, None


def execute_all(names: list[str], profile: str, parameters: dict, root: Path, workers: int) -> dict[str, str]: # name -> why it failed
    "Execute several notebooks in parallel, and return the failures."
    from joblib import Parallel, delayed
    from rich.console import Console
    from rich.progress import track
    pool = Parallel(min(workers, len(names)), return_as="generator_unordered")
    attempts = pool(delayed(_attempt)(name, profile, parameters, root) for name in names)
    errors = dict(track(attempts, "notebooks", total=len(names), console=Console(stderr=True)))
    return {name: errors[name] for name in names if errors[name]}
