"""The notebooks of `nbs/papers/`: which show what, and the copies of them that commands execute."""
from difflib import get_close_matches
from pathlib import Path, PurePath

from ..checks import RunnerError, nearest
from ..files import fingerprint
from ..runs.config import NARROWING, ExperimentConfig, configured, load_experiment
from .pages.execution import parameter_types, run_notebook


LIBRARY = Path(__file__).parent
ANY_EXPERIMENT = "studies/experiment" # the notebook that shows all that an experiment of a study has


def is_of_library(place: PurePath) -> bool: # place: of a notebook in `nbs/papers/`
    "Decide whether a notebook explains a module of this package, in the folder of that name, and is no template."
    return (LIBRARY / place.parts[0]).is_dir()


def page_of(experiment: ExperimentConfig) -> str: # a notebook of `nbs/papers/`
    "Name the page that shows an experiment."
    return experiment.page or experiment.name


def suggest(name: str, names: list[str]) -> str:
    "Suggest the experiments of that name in every paper, or of the closest one, or else the closest full name."
    stems = sorted({full.rpartition("/")[2] for full in names})
    close = get_close_matches(name, stems, 1, .6)
    matches = [repr(full) for full in names if full.rpartition("/")[2] in close]
    if "/" in name or not matches:
        return nearest(name, names)
    return f"; did you mean {' or '.join(matches)}?"


def select_notebooks(
    names: list[str] | None, # tables, or papers for all of theirs; None: all
    all_names: list[str],
) -> list[str]:
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
    names = configured("*/*.yaml", root)
    if name not in names:
        raise RunnerError(f"no experiment {name!r}{suggest(name, names)}")
    return load_experiment(name, profile, root)


def template_of(experiment: ExperimentConfig, root: Path) -> Path:
    "Return the path of the notebook that shows an experiment; those that studies sum up have one in common."
    page = page_of(experiment)
    return root / "nbs/papers" / f"{ANY_EXPERIMENT if page.startswith('studies/') else page}.ipynb"


def executed_path(
    root: Path,
    name: str, # `paper/experiment`
    profile: str, parameters: dict[str, object],
) -> Path:
    "Return the path of an executed copy, with a digest of which runs it asks for: none is written over another."
    narrowing = {key: parameters[key] for key in NARROWING if parameters.get(key) is not None}
    digest = f".{fingerprint(narrowing)[:8]}" if narrowing else ""
    return root / f"_runs/notebooks/{name}.{profile}{digest}.ipynb"


def runs_itself(template: Path, parameters: dict) -> bool:
    "Return whether a notebook makes the runs that it shows: it has a parameter `own`, which nobody has set to False."
    return "own" in parameter_types(template) and parameters.get("own") is not False


def execute_notebook(
    template: Path, name: str, profile: str, parameters: dict, root: Path,
) -> Path: # of the executed copy
    "Execute the notebook that shows an experiment at a profile."
    values = {"profile": profile} | parameters
    if "name" in parameter_types(template):
        values["name"] = name
    if runs_itself(template, values):
        values["own"] = True
    copy = executed_path(root, name, profile, values)
    run_notebook(template, values, copy, root)
    return copy
