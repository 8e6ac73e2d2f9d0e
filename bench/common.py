"""What the benches share: variants that take turns, medians with quartiles, and no numbers that others disturbed.
See README.md."""
import argparse
import gc
import json
import math
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

THREADS = 1 # of every bench
LOAD = 1.5  # processes ready to run at the start, for each thread that a bench needs: above it others disturb
SHARE = .95 # of the time in which a bench must have had a core: below it others came along later
PLANTED = ("tiny", "tiny-static") # encoders


def begin() -> float:
    """Settings that torch reads once, when it is imported: one thread, and threads that wait sleep instead of spinning.
    The load average of the minute before."""
    os.environ["OMP_NUM_THREADS"] = str(THREADS)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    load = os.getloadavg()[0]
    why = warning(load)
    if why:
        print(f"WARNING: {why}", file=sys.stderr)
    return load


def static_encoders() -> list[str]:
    "The planted table, and the static ones that lie under DEBIAS_NB_MODELS."
    from debias_nb.encoders.loading import encoder_cards
    root = os.environ.get("DEBIAS_NB_MODELS")
    found = [name for name, card in encoder_cards().items() if root and card.kind == "static"
             and (Path(root) / name).is_dir()]
    return ["tiny-static", *found]


def loaded(names):
    "Each encoder in turn: its name, itself, and its kind, `static` or `transformer`."
    from debias_nb.encoders.tokens import is_static
    from debias_nb.encoders.loading import load_encoder
    for name in names:
        encoder = load_encoder(name)
        yield name, encoder, "static" if is_static(encoder) else "transformer"


def rounded(value, digits: int = 4) -> float:
    "A number with so many significant digits."
    return float(f"{value:.{digits}g}")


# ---------------------------------------------------------------- measuring


def cpu_seconds() -> float:
    "CPU time of this process, and of those that it started and that have ended."
    return sum(os.times()[:4])


@dataclass
class Meter:
    "Wall and CPU time of what is measured, added up, in seconds."
    wall: float = 0.
    cpu: float = 0.

    def __enter__(self):
        self.wall -= time.perf_counter()
        self.cpu -= cpu_seconds()

    def __exit__(self, *_):
        self.wall += time.perf_counter()
        self.cpu += cpu_seconds()


METER = Meter() # of this process


def spread(values: list[float]) -> dict:
    "Median and quartiles."
    if len(values) > 1:
        q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive")
    else:
        q1 = median = q3 = values[0]
    return {"median": rounded(median), "q1": rounded(q1), "q3": rounded(q3)}


def rounds(names: list[str], once, repeats: int) -> list[dict]:
    """All variants in turn, `repeats` times; each round begins with another variant, and the first one is thrown away.
    For each round kept: name -> what `once(name)` returned."""
    kept = []
    for turn in range(-1, repeats): # -1 warms up
        order = [names[(turn + i) % len(names)] for i in range(len(names))]
        with METER:
            results = {name: once(name) for name in order}
        if turn >= 0:
            kept.append(results)
        print(f"round {turn + 1} of {repeats}", file=sys.stderr)
    return kept


def compare(names, once, reference: str, repeats: int) -> dict:
    """All variants in turn. Name -> each figure of `once(name)`, and the `ratio` of its first figure to that of the
    reference in the same round; medians with quartiles."""
    kept = rounds(list(names), once, repeats)
    first = next(iter(kept[0][reference]))
    found = {}
    for name in names:
        found[name] = {figure: spread([results[name][figure] for results in kept]) for figure in kept[0][name]}
        found[name]["ratio"] = spread([results[name][first] / results[reference][first] for results in kept])
    return found


def seconds(run, now=time.perf_counter) -> float: # now: the clock, as `time.process_time`
    "How long a function takes."
    start = now()
    run()
    return now() - start


def measured(runs: dict, reference: str, repeats: int, now=time.perf_counter) -> dict:
    "Functions by name in turn. Name -> `ms`, and `ratio` to the reference; medians with quartiles."
    def once(name):
        gc.collect()
        return {"ms": 1000 * seconds(runs[name], now)}
    return compare(runs, once, reference, repeats)


# ---------------------------------------------------------------- training


def training_stretch():
    """A trainer's callback whose `seconds` are the CPU time from the first batch to the last update. Set-up (arguments,
    data loader, optimizer) is no part of it."""
    from transformers import TrainerCallback

    class Stretch(TrainerCallback):
        def on_train_begin(self, *_, **__):
            self.begun = time.process_time()

        def on_train_end(self, *_, **__):
            self.seconds = time.process_time() - self.begun

    return Stretch()


def planted_pairs(n: int) -> tuple:
    """Left texts, right texts and labels of n pairs of the mild planted world, as the planted table is trained on them:
    one that is relevant and one that is not for each query."""
    import numpy as np
    from debias_nb.settings import WorldConfig
    from debias_nb.data.worlds import Catalog
    world = WorldConfig(train_pairs=math.ceil(n / 2), negatives=1)
    pairs = Catalog(world).labeled_pairs()
    rows = np.random.default_rng(0).permutation(len(pairs))[:n]
    left, right = pairs.texts()
    return [left[i] for i in rows], [right[i] for i in rows], pairs.labels[rows]


# ---------------------------------------------------------------- saying


def warning(load: float, share: float = 1.) -> str | None:
    """Why the numbers must not be quoted; None if they may.
    load: average of the minute before; share: CPU time by wall time."""
    why = []
    if load > LOAD * THREADS:
        why.append(f"the load average was {load:.2f} at the start, above {LOAD * THREADS:g}")
    if share < SHARE:
        why.append(f"this process had a core for {share:.0%} of the time only, less than {SHARE:.0%}")
    return f"other processes disturbed, do not quote these numbers: {' and '.join(why)}" if why else None


def cell(figure: dict) -> str:
    "Median and quartiles of a figure."
    return f"{figure['median']:.4g} [{figure['q1']:.4g}, {figure['q3']:.4g}]"


def print_variants(head: str, variants: dict, columns: dict) -> None: # columns: what stands above -> the figure
    "A row for each variant."
    import pandas as pd
    rows = {name: {above: cell(figures[figure]) for above, figure in columns.items()}
            for name, figures in variants.items()}
    print(f"{head}\n{pd.DataFrame.from_dict(rows, orient='index').to_string()}\n")


def keep(record: dict, path: Path, busy: bool = False) -> int:
    "Write a record that may be quoted, or with `busy` any; the exit status."
    if record["warning"] and not busy:
        print(f"nothing was written: {record['warning']}", file=sys.stderr)
        return 1
    path.write_text(json.dumps(record) + "\n", "utf-8")
    return 0


# ---------------------------------------------------------------- a bench


def asked(about: str, repeats: int, further: dict, argv):
    """The options of a bench.

    Ends the program where they make no sense. further: other options, with what argparse takes."""
    parser = argparse.ArgumentParser(description=about, epilog="The last line printed is the record, as JSON.")
    parser.add_argument("--repeats", type=int, default=repeats,
                        help="rounds, each with a run of every variant (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="a toy and 2 rounds: to see that it works")
    parser.add_argument("--write", action="store_true", help="keep the record, unless other processes disturbed")
    parser.add_argument("--busy", action="store_true", help="with --write: also on a busy machine; the record says so")
    for name, settings in further.items():
        parser.add_argument(f"--{name}", **settings)
    options = parser.parse_args(argv)
    if options.repeats < 1:
        parser.error(f"--repeats must be at least 1, got {options.repeats}")
    if options.write and options.quick:
        parser.error("--quick measures nothing worth writing")
    if options.quick:
        options.repeats = 2
    return options


ENCODERS = {"encoder": {"action": "append", "help": "tiny, tiny-static, or a folder under DEBIAS_NB_MODELS; may be "
                                                    "repeated"}}


def run(file: str, about: str, measure, repeats: int, further: dict | None = None, argv=None) -> int:
    """Measure, print the record as the last line, and keep it if the options say so; the exit status.
    measure: gives, of the options, the settings and results of the record."""
    path = Path(file).resolve().with_suffix(".json")
    options = asked(about, repeats, further or {}, argv)
    load = begin()
    from debias_nb.encoders.tokens import single_thread
    from debias_nb.runs.origin import run_environment
    from debias_nb.runs.runner import quiet_libraries, settle_libraries
    quiet_libraries()
    settle_libraries()
    with single_thread(THREADS):
        settings, results = measure(options)
    share = METER.cpu / METER.wall
    record = {
        "bench": path.stem,
        "warning": warning(load, share),
        "load": {"start": round(load, 2), "end": round(os.getloadavg()[0], 2)},
        "cpu_share": round(share, 3),
        "threads": THREADS,
        "omp": {name: os.environ.get(name) for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")},
        "settings": {"repeats": options.repeats} | settings,
        **results,
        "environment": run_environment(),
    }
    print(f"medians over {options.repeats} rounds [quartiles]")
    if record["warning"]:
        print(f"WARNING: {record['warning']}")
    print(json.dumps(record))
    return keep(record, path, options.busy) if options.write else 0
