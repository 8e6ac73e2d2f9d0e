"""Which runs may be compared, and the difference between two sides of a comparison."""
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from .config import RunConfig
from ..measures.stats import Interval, Paired, interval, over_splits, paired


def config_of(record: dict) -> RunConfig:
    "Return the configuration of a record's run: in a study with the names that this has for methods."
    return record.get("run") or RunConfig.model_validate(record["config"])


class Made(NamedTuple):
    "Device, versions and processor that a record was made with."
    versions: str         # device, and versions of the packages
    processor: str | None # None: the numbers are the same on every processor


def depends_on_processor(record: dict) -> bool:
    """Return whether another processor gives other numbers.

    Training does, except in double precision, and so does an encoder that was trained here; one that is only read gives
    the same numbers, to 4e-7.
    """
    run = config_of(record)
    encoder = run.encoder
    if encoder.dtype == "fp64":
        return False
    return bool(run.training) or not encoder.has_files


@cache
def _versions(device: str, *packages: tuple[str, str]) -> str:
    "Describe device and versions of the packages; thousands of records have the same."
    versions = [f"{name} {version}" for name, version in sorted(packages) if name != "debias-nb"]
    return ", ".join([device, *versions])


def made_by(record: dict) -> Made:
    "Describe how a record was made; see `alike`."
    environment = record.get("environment", {})
    versions = _versions(record.get("device", "cpu"), *environment.get("packages", {}).items())
    processor = environment.get("cpu") or "processor unknown"
    return Made(versions, processor if depends_on_processor(record) else None)


def alike(origins: list[Made]) -> bool:
    "Return whether records can be pairs: made with the same versions, and on one processor where it matters."
    processors = {origin.processor for origin in origins if origin.processor}
    versions = {origin.versions for origin in origins}
    return len(processors) <= 1 and len(versions) == 1


def overlap_of(record: dict) -> float: # 0 for a corpus that is not divided at random
    "Return the test units for each other one, if replicates are random splits of the same texts."
    data = config_of(record).data
    return data.overlap if data else 0.


def is_clean(record: dict) -> bool:
    "Return whether a record was made from a commit without changes."
    return not record.get("environment", {}).get("dirty", False)


UNIT_SCALES = {"percent": 100., "fraction": 1., "count": 1.}


class Run(NamedTuple):
    "Value of one run on one test, as a comparison needs it."
    key: tuple                # world and seed, of runs that are compared; the seed is None for a run without training
    value: float | np.ndarray # an array where a comparison asks for every question or author
    resampled: np.ndarray | None # the same on resamples of the bootstrap
    made: Made
    clean: bool               # of `is_clean`
    overlap: float = 0.       # of `overlap_of`
    training_data: str = ""   # fingerprint; empty: nothing was trained
    base_encoder: str = ""    # its name
    test_data: str = ""       # fingerprint


def run_of(
    record: dict,
    value: float | np.ndarray,
    replicates: np.ndarray | None = None,
    test: str = "", # evaluation set
) -> Run:
    "Return a record's run with its value of something."
    config = config_of(record)
    key = config.world_seed, record["seed"] if config.training else None
    prints = {name: data.get("fingerprint", "") for name, data in record.get("data", {}).items()}
    training = " ".join(sorted(mark for name, mark in prints.items() if name.startswith("train ")))
    return Run(key, value, replicates, made_by(record), is_clean(record), overlap_of(record), training,
               config.encoder.name, prints.get(f"test {test.partition('@')[0]}", ""))


def record_results(
    record: dict,
    test: str,
    metrics: Iterable[str] | None = None, # those of them that the record has; None: all
    unit: str = "fraction",               # of the values; records hold fractions
) -> Iterator[dict]: # seed, metric, value, resampled
    "Yield what a record says of a test, one row per metric, for the frame of results."
    for metric in metrics or record["metrics"][test]:
        if metric in record["metrics"][test]:
            replicates = record["replicates"].get(test, {}).get(metric)
            if replicates is not None:
                replicates = UNIT_SCALES[unit] * np.array(replicates, float) # nan for None
            value = UNIT_SCALES[unit] * record["metrics"][test][metric]
            yield {"seed": record["seed"], "metric": metric, "value": value, "resampled": replicates}


def run_on(
    record: dict,
    evaluate: str, # evaluation set
    metric: str,
    unit: str, # of a table; records hold fractions
) -> Run:
    "Return what a record says of one metric."
    row, = record_results(record, evaluate, [metric], unit)
    return run_of(record, row["value"], row["resampled"], evaluate)


Side = list[Run] # of one method on one test


def _resamples(runs: list[Run]) -> list | None:
    "Return values on resamples if all runs have them, cut to those that all have: the first ones are the same."
    replicates = [run.resampled for run in runs]
    if any(values is None for values in replicates):
        return None
    common = min(map(len, replicates))
    return [values[:common] for values in replicates]


def each_world(values, worlds: list) -> dict: # (runs,) -> world -> its values
    "Group the runs of each world."
    of_world = {}
    for world, value in zip(worlds, values):
        of_world.setdefault(world, []).append(value)
    return of_world


def by_world(values, worlds: list) -> np.ndarray: # (runs,) -> (worlds,)
    "Average the runs of each world."
    return np.array([math.fsum(own) / len(own) for own in each_world(values, worlds).values()])


def mean_level(runs: list[Run]) -> Interval:
    "Average over seeds; over worlds or splits where there are several, each of which has test items of its own."
    values = [run.value for run in runs]
    worlds = [run.key[0] for run in runs]
    if len(set(worlds)) == 1:
        return interval(values, _resamples(runs))
    of_worlds = by_world(values, worlds)
    mean = interval(of_worlds)
    overlap = max(run.overlap for run in runs)
    if overlap:
        wider = over_splits(each_world(values, worlds).values(), overlap)
        return replace(mean, low=wider.low, high=wider.high, method=wider.method)
    return mean


class Unpaired(ValueError):
    "Reason why two sides cannot be compared."


def is_trained(side: Side) -> bool:
    return any(run.key[1] is not None for run in side)


def pairs_of(sides: list[Side]) -> tuple[dict[tuple, list[Run]], dict[tuple, str]]: # by world and seed
    """Return the replicates that every side has a run of, and why others are left out.

    They stand in the order of the first trained side. Raise `ValueError` if a side has two runs of one replicate.
    """
    by_key = []
    for side in sides:
        runs_by_key = {}
        for run in side:
            world, seed = run.key
            if run.key in runs_by_key:
                raise ValueError(f"two runs of one side have world {world} and seed {seed}: only one of them can "
                                 "be a pair")
            runs_by_key[run.key] = run
        by_key.append(runs_by_key)
    first = next(filter(is_trained, sides), sides[0])
    pairs = {}
    left_out = {}
    for run in first:
        world, seed = run.key
        runs = [runs_by_key.get((world, seed), runs_by_key.get((world, None))) for runs_by_key in by_key]
        if None in runs:
            continue
        if not all(item.clean for item in runs):
            left_out[world, seed] = "made from a tree with uncommitted changes"
        elif not alike([item.made for item in runs]):
            left_out[world, seed] = "made on unlike processors or with unlike versions"
        else:
            pairs[world, seed] = runs
    return pairs, left_out


def is_enough(sides: list[Side], pairs: dict[tuple, list[Run]]) -> bool:
    "Return whether these replicates make a comparison: at least two of trained runs, one where nothing is trained."
    return len(pairs) >= 1 + any(map(is_trained, sides))


def paired_sides(sides: list[Side]) -> Paired: # two, or four
    """Compare sides, a minus b, or (a minus b) minus (c minus d).

    Each world, or each random split, is one replicate where there are several. Raise `Unpaired`, and `ValueError` as
    `stats.paired`.
    """
    pairs, left_out = pairs_of(sides)
    if not is_enough(sides, pairs):
        reason = f"{len(pairs)} common replicates"
        if left_out:
            reasons = "; ".join(dict.fromkeys(left_out.values()))
            reason += f", {len(left_out)} left out: {reasons}"
        raise Unpaired(reason)
    return paired_runs(pairs)


def paired_runs(pairs: dict[tuple, list[Run]]) -> Paired: # of `pairs_of`
    "Return the difference of sides whose pairs are given, as `paired_sides`."
    worlds = [world for world, _ in pairs]
    of_sides = list(zip(*pairs.values()))
    difference = _combine([[run.value for run in side] for side in of_sides])
    trained = next(filter(is_trained, of_sides), of_sides[0])[0]
    if len(set(worlds)) > 1:
        names = dict(keys=tuple(dict.fromkeys(worlds)), training=trained.training_data or trained.test_data, items=None)
        comparison = _over_worlds(difference, worlds, max(run.overlap for side in of_sides for run in side))
        return _named(comparison, **names)
    resamples = _resamples([run for side in of_sides for run in side])
    replicates = [None, None]
    if resamples is not None:
        replicates = _combine(np.reshape(resamples, (len(of_sides), len(pairs), -1)))
        replicates = [replicates, np.zeros_like(replicates)]
    comparison = paired(difference, np.zeros_like(difference), *replicates)
    training = trained.base_encoder, trained.training_data
    names = dict(keys=tuple(pairs), training=training, items=trained.test_data or None)
    return _named(comparison, **names)


def _named(comparison: Paired, **names) -> Paired: # names: as `Sources` has them
    assert comparison.sources # whoever compares gives them
    return replace(comparison, sources=replace(comparison.sources, **names))


def _over_worlds(difference: np.ndarray, worlds: list, overlap: float) -> Paired:
    "Return the difference over worlds, or over random splits, which overlap."
    if overlap:
        return over_splits(each_world(difference, worlds).values(), overlap)
    of_worlds = by_world(difference, worlds)
    comparison = paired(of_worlds, np.zeros_like(of_worlds))
    return replace(comparison, method=f"t over {comparison.n} worlds", seeds_alone=False)


def _combine(of_sides: list) -> np.ndarray: # of each side one row per run
    "Compute a minus b, minus c, plus d, run by run."
    return sum(sign * np.asarray(values, float) for sign, values in zip((1, -1, -1, 1), of_sides))


def scaled(d: Paired, factor: float) -> Paired: # factor: above 0
    "Convert a difference to another unit."
    lengths = {name: factor * getattr(d, name) for name in ("difference", "low", "high", "error", "items_error")}
    return replace(d, **lengths, sources=d.sources and d.sources.scaled(factor))


def signed(x: float, digits: int = 1) -> str:
    "Format a number with its sign; there is no minus zero."
    if not round(x, digits):
        return f"{0:.{digits}f}"
    return f"{x:+.{digits}f}".replace("-", "−")


def bracket(d) -> str: # d: a `Paired`, or a row of `compare.differences`
    "Format a difference with its interval; a ring marks one that covers seeds alone."
    return f"{signed(d.difference)} [{signed(d.low)}, {signed(d.high)}]{'°' * bool(d.seeds_alone)}"
