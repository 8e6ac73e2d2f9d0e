"""Which runs may be compared, and how far two sides of a comparison lie apart."""
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from .config import RunConfig
from ..measures.stats import Interval, Paired, interval, over_splits, paired


def config_of(record: dict) -> RunConfig:
    "What a record's run was: in a study as its configuration has it, with the names that this has for methods."
    return record.get("run") or RunConfig.model_validate(record["config"])


class Made(NamedTuple):
    "What a record was made with."
    versions: str         # device, and versions of the packages
    processor: str | None # None: the numbers are the same on every processor


def depends_on_processor(record: dict) -> bool:
    """Whether another processor gives other numbers. Training does, except in double precision, and so does an encoder
    that was trained here; one that is only read gives the same numbers, as `reports/REPEATS.md` shows."""
    run = config_of(record)
    encoder = run.encoder
    if encoder.dtype == "fp64":
        return False
    return bool(run.training or encoder.pretrain or encoder.name == "learned")


@cache
def _versions(device: str, *packages: tuple[str, str]) -> str: # packages: names with versions
    "Device and versions of the packages in words; thousands of records have the same."
    versions = [f"{name} {version}" for name, version in sorted(packages) if name != "debias-nb"]
    return ", ".join([device, *versions])


def made_by(record: dict) -> Made:
    "How a record was made; see `alike`."
    environment = record.get("environment", {})
    versions = _versions(record.get("device", "cpu"), *environment.get("packages", {}).items())
    processor = environment.get("cpu") or "processor unknown"
    return Made(versions, processor if depends_on_processor(record) else None)


def alike(made: list[Made]) -> bool:
    "Whether records that were made so can be pairs: with the same versions, on one processor where it matters."
    processors = {one.processor for one in made if one.processor}
    versions = {one.versions for one in made}
    return len(processors) <= 1 and len(versions) == 1


def overlap_of(record: dict) -> float: # 0 for a corpus that is not divided at random
    """Authors tested for each one that is not, where the replicates are random splits of the same texts; or topics, if a
    larger share of them is tested. Tests take those that training leaves."""
    config = config_of(record)
    split = config.data.split if config.data else None
    if not split or not split.drawn:
        return 0.
    tested = 1 - min(split.authors, split.topics)
    return tested / (1 - tested)


def is_clean(record: dict) -> bool:
    "Whether a record was made from a commit without changes."
    return not record.get("environment", {}).get("dirty", False)


SCALE = {"percent": 100., "fraction": 1., "count": 1.}


class Run(NamedTuple):
    "What a comparison asks of one run on one test."
    key: tuple                # world and seed, of runs that are compared; the seed is None for a run without training
    value: float | np.ndarray # an array where a comparison asks for every question or author
    resampled: np.ndarray | None # the same on resamples of the bootstrap
    made: Made
    clean: bool               # of `is_clean`
    overlap: float = 0.       # of `overlap_of`


def run_of(
    record: dict,
    value: float | np.ndarray,
    resampled: np.ndarray | None = None,
) -> Run:
    "A record next to what it says of something."
    config = config_of(record)
    key = config.world_seed, record["seed"] if config.training else None
    return Run(key, value, resampled, made_by(record), is_clean(record), overlap_of(record))


def results_of(
    record: dict,
    test: str,
    metrics: Iterable[str] | None = None, # those of them that the record has; None: all
    unit: str = "fraction",               # of the values; records hold fractions
) -> Iterator[dict]: # seed, metric, value, resampled
    "What a record says of a test, a row a metric: the frame of results of papers and of a user's files is made of these."
    for metric in metrics or record["metrics"][test]:
        if metric in record["metrics"][test]:
            resampled = record["replicates"].get(test, {}).get(metric)
            if resampled is not None:
                resampled = SCALE[unit] * np.array(resampled, float) # nan for None
            yield {"seed": record["seed"], "metric": metric, "value": SCALE[unit] * record["metrics"][test][metric], "resampled": resampled}


def run_on(
    record: dict,
    evaluate: str, # evaluation set
    metric: str,
    unit: str, # of a table; records hold fractions
) -> Run:
    "What a record says of one metric."
    row, = results_of(record, evaluate, [metric], unit)
    return run_of(record, row["value"], row["resampled"])


Side = list[Run] # of one method on one test


def _resamples(runs: list[Run]) -> list | None:
    "Values on resamples, where all runs have them: the first ones, as many as each has, which are the same wherever fewer were kept."
    resampled = [run.resampled for run in runs]
    if any(one is None for one in resampled):
        return None
    common = min(map(len, resampled))
    return [one[:common] for one in resampled]


def by_world(values, worlds: list) -> np.ndarray: # (runs,) -> (worlds,)
    "The mean over the runs of each world."
    of_world = {}
    for world, value in zip(worlds, values):
        of_world.setdefault(world, []).append(value)
    return np.array([math.fsum(own) / len(own) for own in of_world.values()])


def level(runs: list[Run]) -> Interval:
    "The mean over seeds; over worlds or splits where there are several, each of which has test items of its own."
    values = [run.value for run in runs]
    worlds = [run.key[0] for run in runs]
    if len(set(worlds)) == 1:
        return interval(values, _resamples(runs))
    of_worlds = by_world(values, worlds)
    mean = interval(of_worlds)
    overlap = max(run.overlap for run in runs)
    if overlap:
        wider = over_splits(of_worlds, overlap)
        return replace(mean, low=wider.low, high=wider.high, method=wider.method)
    return mean


class Unpaired(ValueError):
    "Why two sides cannot be compared."


def is_trained(side: Side) -> bool:
    return any(run.key[1] is not None for run in side)


def pairs_of(sides: list[Side]) -> tuple[dict[tuple, list[Run]], dict[tuple, str]]: # by world and seed
    """The replicates that every side has a run of, in the order of the first trained side: the runs of those whose runs
    are pairs, and why others are left out. Raises `ValueError` where a side has two runs of one replicate."""
    by_key = []
    for side in sides:
        known = {}
        for run in side:
            world, seed = run.key
            if run.key in known:
                raise ValueError(f"two runs of one side have world {world} and seed {seed}: only one of them can be a pair")
            known[run.key] = run
        by_key.append(known)
    first = next(filter(is_trained, sides), sides[0])
    kept = {}
    left_out = {}
    for run in first:
        world, seed = run.key
        runs = [known.get((world, seed), known.get((world, None))) for known in by_key]
        if None in runs:
            continue
        if not all(one.clean for one in runs):
            left_out[world, seed] = "made from a tree with uncommitted changes"
        elif not alike([one.made for one in runs]):
            left_out[world, seed] = "made on unlike processors or with unlike versions"
        else:
            kept[world, seed] = runs
    return kept, left_out


def is_enough(sides: list[Side], kept: dict[tuple, list[Run]]) -> bool: # kept: of `pairs_of`
    "Whether these replicates make a comparison: at least two of trained runs, one where nothing is trained."
    return len(kept) >= 1 + any(map(is_trained, sides))


def paired_sides(sides: list[Side]) -> Paired: # two, or four
    """a minus b, or (a minus b) minus (c minus d); each world, or each random split, is one replicate where there are
    several. Raises `Unpaired`, and `ValueError` as `stats.paired`."""
    kept, left_out = pairs_of(sides)
    if not is_enough(sides, kept):
        told = f"{len(kept)} common replicates"
        if left_out:
            reasons = "; ".join(dict.fromkeys(left_out.values()))
            told += f", {len(left_out)} left out: {reasons}"
        raise Unpaired(told)
    return paired_runs(kept)


def paired_runs(kept: dict[tuple, list[Run]]) -> Paired: # of `pairs_of`
    "The difference of sides whose pairs are known, as `paired_sides`."
    worlds = [world for world, _ in kept]
    of_sides = list(zip(*kept.values()))
    difference = _combined([[run.value for run in side] for side in of_sides])
    if len(set(worlds)) > 1:
        of_worlds = by_world(difference, worlds)
        overlap = max(run.overlap for side in of_sides for run in side)
        if overlap:
            return over_splits(of_worlds, overlap)
        found = paired(of_worlds, np.zeros_like(of_worlds))
        return replace(found, method=f"t over {found.n} worlds", seeds_alone=False)
    resamples = _resamples([run for side in of_sides for run in side])
    if resamples is None:
        return paired(difference, np.zeros_like(difference))
    resampled = _combined(np.reshape(resamples, (len(of_sides), len(kept), -1)))
    return paired(difference, np.zeros_like(difference), resampled, np.zeros_like(resampled))


def _combined(of_sides: list) -> np.ndarray: # of each side a row a run
    "a minus b, minus c, plus d, run by run."
    return sum(sign * np.asarray(values, float) for sign, values in zip((1, -1, -1, 1), of_sides))


def scaled(d: Paired, by: float) -> Paired: # by: above 0
    "A difference in another unit."
    lengths = {name: by * getattr(d, name) for name in ("difference", "low", "high", "error", "items_error")}
    return replace(d, **lengths)


def signed(x: float, digits: int = 1) -> str:
    "A number with its sign; there is no minus zero."
    if not round(x, digits):
        return f"{0:.{digits}f}"
    return f"{x:+.{digits}f}".replace("-", "−")


def bracket(
    d, # a `Paired`, or a row of `tables.differences`
    digits: int = 1,
) -> str:
    "A difference with its interval; a ring marks one that covers seeds alone."
    low = signed(d.low, digits)
    high = signed(d.high, digits)
    ring = ""
    if d.seeds_alone:
        ring = "°"
    return f"{signed(d.difference, digits)} [{low}, {high}]{ring}"
