"Which notebooks of `nbs/papers/` are pages."
from pathlib import Path, PurePath

LIBRARY = Path(__file__).parents[1]


def is_of_library(place: PurePath) -> bool: # place: of a notebook in `nbs/papers/`
    "Decide whether a notebook explains a module of this package, in the folder of that name, and is no template."
    return (LIBRARY / place.parts[0]).is_dir()
