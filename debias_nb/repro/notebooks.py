"""The notebooks of `nbs/papers/`: their parameters are checked, and copies of them executed.

Papermill by itself mentions a parameter that it does not know in a warning, and runs the notebook without it; here
parameters are checked before a kernel starts.
"""
import json
import logging
import os
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from ..checks import ConfigError, RunnerError, check_known, nearest
from ..files import fingerprint
from ..runs.config import load_experiment, typed


class NotebookFailed(RuntimeError):
    "A notebook that was begun and failed."


TYPES = {kind.__name__: kind for kind in (int, float, str, bool, list)}


def declared(template: Path) -> dict[str, object]: # name -> type
    """The parameters of a template, lines `name: type = literal` of its one cell that is tagged `parameters`.
    Raises `RunnerError` for another form."""
    try:
        cells = json.loads(template.read_text("utf-8"))["cells"]
        (source,) = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
        cell = ModuleType("parameters")
        cell.__builtins__ = TYPES # nothing else is known there
        exec(source, vars(cell))
        kinds = cell.__annotations__
        return {name: kind | None if vars(cell)[name] is None else kind for name, kind in kinds.items()}
    except Exception as e:
        raise RunnerError(f"{template}: no notebook with one cell of parameters ({e})") from None


def checked(template: Path, given: dict[str, object]) -> dict[str, object]:
    "The given parameters with their declared types. Raises `RunnerError` for an unknown name or a wrong type."
    known = declared(template)
    out = {}
    for name, value in given.items():
        check_known(f"parameter in {template.stem} called", name, known, RunnerError)
        try:
            out[name] = typed(name, value, known[name])
        except ConfigError as e:
            raise RunnerError(f"{template.stem}: {e}") from None
    return out


def templates(root: Path) -> list[str]: # `paper/experiment`
    "All templates of the project."
    return sorted(f"{path.parent.name}/{path.stem}" for path in root.glob("nbs/papers/*/*.ipynb"))


def meant(name: str, known: list[str]) -> str:
    "The experiments of that name in every paper, of the closest one if no paper has it, else the closest name."
    stems = sorted({full.rpartition("/")[2] for full in known})
    close = get_close_matches(name, stems, 1, .6)
    same = [repr(full) for full in known if full.rpartition("/")[2] in close]
    if "/" in name or not same:
        return nearest(name, known)
    return f"; did you mean {' or '.join(same)}?"


def template_path(name: str, root: Path) -> Path: # name: `paper/experiment`
    "The template of an experiment. Raises `RunnerError` with the closest names when there is none."
    path = root / "nbs" / "papers" / f"{name}.ipynb"
    if not path.is_file():
        raise RunnerError(f"no template {name!r}{meant(name, templates(root))}")
    return path


def _kernel_manager():
    "A kernel manager whose kernels are the Python that runs this, talk encrypted, and end without an alarm."
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
    Raises `RunnerError` before a kernel starts, `NotebookFailed` after."""
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    parameters = checked(template, parameters)
    logging.getLogger("papermill").setLevel(logging.ERROR)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL) # a cell that Ctrl-C stopped is an error that nobody asks for
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning") # of workers that end with their kernel
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


ASKED = ("seeds", "methods", "encoders", "weight")


def executed_path(
    root: Path,
    name: str,       # `paper/experiment`
    profile: str,
    parameters: dict[str, object],
) -> Path:
    "Where an executed copy goes: a digest of what it was asked for stands in its name, so that none is written over another."
    asked = {key: parameters[key] for key in ASKED if parameters.get(key) is not None}
    digest = f".{fingerprint(asked)[:8]}" if asked else ""
    return root / f"_runs/notebooks/{name}.{profile}{digest}.ipynb"


def make_runs(name: str, profile: str, parameters: dict, root: Path): # a `Study`; None where it asks for no runs of its own
    "The runs that a notebook will ask for, made in this process, which has a terminal for their progress."
    template = template_path(name, root)
    given = checked(template, parameters)
    load_experiment(name, profile, root)
    if "own" not in declared(template) or given.get("own") is False:
        return None
    from .pages.frame import make_study
    asked = {key: given.get(key) for key in ASKED} | {"full": given.get("full", False)}
    return make_study(name, profile, asked, given.get("workers"), given.get("fresh", False))


def execute_notebook(name: str, profile: str, parameters: dict, root: Path) -> Path:
    "Execute the notebook of an experiment at a profile; the executed copy."
    template = template_path(name, root)
    load_experiment(name, profile, root)
    given = checked(template, {"profile": profile} | parameters)
    if "own" in declared(template):
        given.setdefault("own", True)
    return run_notebook(template, executed_path(root, name, profile, given), given, cwd=root)


def _attempt(name: str, profile: str, parameters: dict, root: Path) -> tuple[str, str | None]: # name, why it failed
    "Execute one notebook, in a process of its own, with those parameters that it declares."
    try:
        known = declared(template_path(name, root))
        own = {key: value for key, value in parameters.items() if key in known} # a search has one seed of its own
        execute_notebook(name, profile, own, root)
    except (NotebookFailed, RunnerError, ConfigError) as e:
        return name, str(e)
    return name, None


def execute_all(names: list[str], profile: str, parameters: dict, root: Path, workers: int) -> dict[str, str]:
    "Execute several notebooks side by side; the names of those that failed, and why."
    from joblib import Parallel, delayed
    from rich.console import Console
    from rich.progress import track
    pool = Parallel(min(workers, len(names)), return_as="generator_unordered")
    done = pool(delayed(_attempt)(name, profile, parameters, root) for name in names)
    why = dict(track(done, "notebooks", total=len(names), console=Console(stderr=True)))
    return {name: why[name] for name in names if why[name]}
