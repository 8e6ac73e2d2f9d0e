"Which notebooks of `nbs/papers/` are pages, and which page shows an experiment."
from pathlib import Path, PurePath

from ...runs.config import ExperimentConfig

LIBRARY = Path(__file__).parents[1]
OF_NEW_DATA = ( # in the order in which the page asks
    "shifts", "products", "minilm", "items", "other_texts", "draws", "draws_minilm", "known_texts", "balance", "losses",
    "losses_rate", "practice")
STUDIES = { # a page of ours -> the experiments that it sums up
    "studies/new_data": tuple(f"itvreg/{name}" for name in OF_NEW_DATA),
    "studies/strength": ("itvreg/lambda_titles", "itvreg/interventions"),
    "studies/averaging": ("itvreg/beyond",),
    "studies/decisions": (),
    "studies/parts": ("arr/beyond", "arr/short_student", "arr/leakage", "scan/settings", "scan/weights"),
}
STUDY_OF = {name: study for study, names in STUDIES.items() for name in names}
ANY_EXPERIMENT = "studies/experiment" # the notebook that shows all that an experiment of a study has


def is_of_library(place: PurePath) -> bool: # place: of a notebook in `nbs/papers/`
    "Decide whether a notebook explains a module of this package, in the folder of that name, and is no template."
    return (LIBRARY / place.parts[0]).is_dir()


def page_of(experiment: ExperimentConfig) -> str: # a notebook of `nbs/papers/`
    "Name the page that shows an experiment."
    return STUDY_OF.get(experiment.name) or f"{experiment.paper}/{experiment.page or experiment.experiment}"
