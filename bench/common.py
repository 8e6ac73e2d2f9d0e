"""What the benches share: variants that take turns, medians with quartiles, and no numbers that others disturbed.
See README.md."""
import argparse
import contextlib
import gc
import json
import math
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

THREADS = 1 # of every bench
LOAD = 1.5  # processes ready to run at the start, for each thread that a bench needs: above it others disturb
SHARE = .95 # of the time in which a bench must have had a core: below it others came along later
PLANTED = ("tiny", "tiny-static") # encoders


def one_thread() -> None:
    "Settings that torch reads once, when it is imported; waiting threads sleep instead of spinning."
    os.environ["OMP_NUM_THREADS"] = str(THREADS)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def begin() -> float:
    "What every bench does before it imports torch; the load average of the minute before."
    load = os.getloadavg()[0]
    one_thread()
    why = warning(load)
    if why:
        print(f"WARNING: {why}", file=sys.stderr)
    return load


def static_encoders() -> list[str]:
    "The planted table, and the static ones that lie under DEBIAS_NB_MODELS."
    from debias_nb.encoders.loading import encoder_cards
    root = os.environ.get("DEBIAS_NB_MODELS")
    found = [name for name, card in encoder_cards().items() if root and card.kind == "static" and (Path(root) / name).is_dir()]
    return ["tiny-static", *found]


@contextlib.contextmanager
def calm():
    "Quiet libraries, which no collection of garbage looks through, and as many threads as a bench has."
    from debias_nb.encoders.tokens import single_thread
    from debias_nb.repro.runs.runner import quiet, settle_libraries
    quiet()
    settle_libraries()
    with single_thread(THREADS):
        yield


def loaded(names):
    "Each encoder in turn, in calm: its name, itself, and its kind, `static` or `transformer`."
    from debias_nb.encoders.tokens import is_static
    from debias_nb.encoders.loading import load_encoder
    with calm():
        for name in names:
            encoder = load_encoder(name)
            yield name, encoder, "static" if is_static(encoder) else "transformer"


def rounded(value, digits: int = 4) -> float:
    "A number with so many significant digits."
    return float(f"{value:.{digits}g}")


# ---------------------------------------------------------------- measuring


def spread(values: list[float]) -> dict:
    "Median and quartiles."
    if len(values) > 1:
        q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive")
    else:
        q1 = median = q3 = values[0]
    return {"median": rounded(median), "q1": rounded(q1), "q3": rounded(q3)}


def telling(name: str):
    "A function that says on stderr what is done of something with a name."
    def say(line):
        print(f"{name}: {line}", file=sys.stderr)
    return say


def rounds(names, run, repeats: int, say) -> list[dict]:
    """All variants in turn, `repeats` times; each round begins with another variant, and the first one is thrown away.
    For each round kept: name -> what `run(name)` returned."""
    kept = []
    for turn in range(-1, repeats): # -1 warms up
        order = [names[(turn + i) % len(names)] for i in range(len(names))]
        results = {name: run(name) for name in order}
        if turn >= 0:
            kept.append(results)
        say(f"round {turn + 1} of {repeats}")
    return kept


def compare(names, once, reference: str, repeats: int, say) -> dict:
    """All variants in turn. Name -> each figure of `once(name)`, and the `ratio` of its first figure to that of the
    reference in the same round; medians with quartiles."""
    kept = rounds(names, once, repeats, say)
    first = next(iter(kept[0][reference]))
    found = {}
    for name in names:
        found[name] = {figure: spread([results[name][figure] for results in kept]) for figure in kept[0][name]}
        found[name]["ratio"] = spread([results[name][first] / results[reference][first] for results in kept])
    return found


def seconds(run, clock: str = "perf_counter") -> float:
    "How long a function takes. clock: of the module `time`; `process_time` is CPU time of this process."
    now = getattr(time, clock)
    start = now()
    run()
    return now() - start


def measured(runs: dict, reference: str, repeats: int, say, clock: str = "perf_counter") -> dict:
    "Functions by name in turn. Name -> `ms`, and `ratio` to the reference; medians with quartiles."
    def once(name):
        gc.collect()
        return {"ms": 1000 * seconds(runs[name], clock)}
    return compare(list(runs), once, reference, repeats, say)


def agreeing(runs: dict, reference: str, most: float, what: str, where=slice(None)) -> float:
    """The largest difference between the tensors that functions by name give and that of the reference, at some places.
    Raises `RuntimeError` naming the variant that disagrees by more than `most`."""
    values = {name: run() for name, run in runs.items()}
    largest = 0.
    for name, own in values.items():
        difference = (own - values[reference])[where].abs().max().item()
        if not difference <= most: # so that NaN is refused, too
            words = f"{what} differ by up to {difference:g} from those of {reference}, more than {most:g}"
            raise RuntimeError(f"{name}: {words}")
        largest = max(largest, difference)
    return largest


@dataclass
class Meter:
    "Wall and CPU time of what is measured, added up, in seconds."
    wall: float = 0.
    cpu: float = 0.

    def __enter__(self):
        self.wall -= time.perf_counter()
        self.cpu -= time.process_time()
        return self

    def __exit__(self, *_):
        self.wall += time.perf_counter()
        self.cpu += time.process_time()

    @property
    def share(self) -> float:
        "Of the time, in which this process had a core."
        return self.cpu / self.wall


# ---------------------------------------------------------------- training

STEPS = {"transformer": 60, "static": 400} # of one run, some seconds of the first and about one of the second


@dataclass
class Clock:
    "Seconds spent in a run, by what they went to; nested stretches of the same name count once."
    of: str = "perf_counter" # or `process_time`: CPU time of this process
    seconds: dict = field(default_factory=dict)
    running: set = field(default_factory=set)

    @contextlib.contextmanager
    def __call__(self, name):
        if name in self.running:
            yield
            return
        self.running.add(name)
        now = getattr(time, self.of)
        start = now()
        try:
            yield
        finally:
            self.running.discard(name)
            self.seconds[name] = self.seconds.get(name, 0.) + now() - start


def training_stretch(clock):
    """A trainer's callback that times from the first batch to the last update. Set-up (arguments, data loader,
    optimizer) is no part of it."""
    from transformers import TrainerCallback
    stack = contextlib.ExitStack()

    class Stretch(TrainerCallback):
        def on_train_begin(self, *_, **__):
            stack.enter_context(clock("training"))

        def on_train_end(self, *_, **__):
            stack.close()

    return Stretch()


def with_callbacks(trainer, *first):
    "A trainer's class whose trainers have some callbacks before those that they are given."
    class Trainer(trainer):
        def __init__(self, *args, callbacks=(), **kwargs):
            super().__init__(*args, callbacks=[*first, *callbacks], **kwargs)
    return Trainer


def check_steps(name: str, made: int, wanted: int) -> None:
    "Raises `RuntimeError` for a run that made another number of steps than were reckoned with."
    if made != wanted:
        raise RuntimeError(f"{name}: {made} steps instead of {wanted}")


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


def tokens_a_text(pairs) -> float:
    "How many tokens a text of `train.PairTokens` has on average."
    tokens = float(pairs.left.mask.sum() + pairs.right.mask.sum())
    return rounded(tokens / (2 * len(pairs)))


# ---------------------------------------------------------------- saying


def warning(load: float, share: float = 1., threads: int = THREADS) -> str | None:
    """Why the numbers must not be quoted; None if they may.
    load: average of the minute before; share: CPU time by wall time."""
    why = []
    if load > LOAD * threads:
        why.append(f"the load average was {load:.2f} at the start, above {LOAD * threads:g}")
    if share < SHARE:
        why.append(f"this process had a core for {share:.0%} of the time only, less than {SHARE:.0%}")
    if not why:
        return None
    return f"other processes disturbed, do not quote these numbers: {' and '.join(why)}"


def cell(figure: dict) -> str:
    "Median and quartiles of a figure."
    return f"{figure['median']:.4g} [{figure['q1']:.4g}, {figure['q3']:.4g}]"


def table(head, rows) -> str:
    "A table of texts, a dashed line below its head."
    columns = list(zip(head, *rows))
    widths = [max(map(len, column)) for column in columns]
    rows = [head, ["-" * width for width in widths], *rows]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def variants_table(head: str, result: dict, columns: dict) -> str:
    "A row for each of a result's `variants`. columns: what stands above -> the figure."
    rows = [
        (name, *(cell(figures[figure]) for figure in columns.values())) for name, figures in result["variants"].items()]
    return table((head, *columns), rows)


def keep(record: dict, path: Path, busy: bool = False) -> int:
    "Write a record that may be quoted, or with `busy` any; the exit status."
    if record["warning"] and not busy:
        print(f"nothing was written: {record['warning']}", file=sys.stderr)
        return 1
    path.write_text(json.dumps(record) + "\n", "utf-8")
    return 0


def finish(path: Path, note: str, options, load: float, meter: Meter, settings: dict, results: dict) -> int:
    """Print the record as the last line, and keep it if the options say so; the exit status.
    load: average of the minute before the start."""
    from debias_nb.repro.runs.records import environment
    why = warning(load, meter.share)
    end = os.getloadavg()[0]
    record = {
        "bench": path.stem,
        "warning": why,
        "load": {"start": round(load, 2), "end": round(end, 2)},
        "cpu_share": round(meter.share, 3),
        "threads": THREADS,
        "omp": {name: os.environ.get(name) for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")},
        "settings": settings,
        **results,
        "environment": environment(),
    }
    print(note)
    if why:
        print(f"WARNING: {why}")
    print(json.dumps(record))
    if not options.write:
        return 0
    return keep(record, path, getattr(options, "busy", False))


# ---------------------------------------------------------------- asking


def new_parser(doc: str, path: Path, repeats: int, quick: str) -> argparse.ArgumentParser:
    "The options of every bench. path: of its record; repeats: how many rounds by default; quick: what `--quick` makes."
    parser = argparse.ArgumentParser(description=doc, epilog="The last line printed is the record, as JSON.")
    rounds_of = "rounds, each with a run of every variant (%(default)s)"
    parser.add_argument("--repeats", type=int, default=repeats, help=rounds_of)
    parser.add_argument("--quick", action="store_true", help=f"{quick}: to see that it works")
    parser.add_argument("--write", action="store_true", help=f"write {path.name}, unless other processes disturbed")
    return parser


def ask_encoders(parser, default: str = "the planted ones and the static ones found there") -> None:
    "An option for encoders by name."
    names = "tiny, tiny-static, or a folder under DEBIAS_NB_MODELS"
    parser.add_argument("--encoder", action="append", help=f"{names}; may be repeated (default: {default})")


def ask_busy(parser) -> None:
    "An option to write a record on a busy machine."
    parser.add_argument("--busy", action="store_true", help="with --write: also on a busy machine; the record says so")


def ask_steps(parser, epochs: str) -> None:
    "Options for the length of a run. epochs: why their number matters."
    steps = ", ".join(f"{count} for a {kind} encoder" for kind, count in STEPS.items())
    spread_over = f"epochs these steps are spread over (%(default)s): {epochs}"
    parser.add_argument("--steps", type=int, help=f"steps of one run (default: {steps})")
    parser.add_argument("--epochs", type=int, default=1, help=spread_over)
    parser.add_argument("--batch", type=int, default=32, help="pairs in a step (%(default)s)")


def checked(parser, options, *positive: str):
    "The options, of which some must be at least 1 where they are given. Ends the program where one is not."
    for name in ("repeats", *positive):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name} must be at least 1, got {value}")
    if options.write and options.quick:
        parser.error("--quick measures nothing worth writing")
    return options


def checked_steps(parser, options):
    "The options of `ask_steps`. Ends the program where they do not fit."
    if options.quick:
        options.steps = 4
        options.repeats = 2
    checked(parser, options, "steps", "epochs", "batch")
    for steps in [options.steps] if options.steps else STEPS.values():
        if steps % options.epochs:
            parser.error(f"--steps ({steps}) must be a multiple of --epochs ({options.epochs})")
    if options.batch < 2:
        parser.error("--batch must be at least 2")
    return options


def settings_of(options, *names: str) -> dict:
    "Some of the options, as the settings of a record."
    return {name: getattr(options, name) for name in names}
