"What the leaves of the package add to its trunk, by entry points: commands of `debias-nb`, and tasks of runs."
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec


def _is_here(module: str) -> bool: # a leaf may be taken off
    leaf = ".".join(module.split(".")[:2])
    return find_spec(leaf) is not None


@lru_cache
def plugins(group: str) -> tuple[EntryPoint, ...]: # in the order of their names
    "List the entry points of a group whose package is here."
    points = [point for point in entry_points(group=group) if _is_here(point.module)]
    return tuple(sorted(points, key=lambda point: point.name))
