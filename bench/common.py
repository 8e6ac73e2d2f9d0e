"""What the benches share: variants that take turns, medians with quartiles, and no numbers that others disturbed. See README.md."""
import argparse, contextlib, copy, gc, json, os, statistics, sys, time
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

THREADS = 1 # of every bench
LOAD = 1.5  # processes ready to run at the start, for each thread that a bench needs: above it others disturb
SHARE = .95 # of the time in which a bench must have had a core: below it others came along later

def one_thread():
    "torch, imported later, reads these once; waiting threads sleep instead of spinning."
    os.environ["OMP_NUM_THREADS"] = str(THREADS)
    for name, value in {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "TOKENIZERS_PARALLELISM": "false"}.items(): os.environ.setdefault(name, value)

def begin() -> float: # load average of the minute before
    "What every bench does before it imports torch."
    load = os.getloadavg()[0]
    one_thread()
    if why := warning(load): print(f"WARNING: {why}", file=sys.stderr)
    return load

def default_encoders() -> list[str]:
    "The planted ones, and the static ones that lie under DEBIAS_NB_MODELS."
    from debias_nb.encoders import encoder_cards
    root = os.environ.get("DEBIAS_NB_MODELS")
    return ["tiny", "tiny-static", *(n for n, card in encoder_cards().items() if root and card.kind == "static" and (Path(root) / n).is_dir())]

def loaded(names): # yields name, encoder, kind
    "Each encoder in turn, with quiet libraries and as many threads as a bench has."
    from debias_nb.encoders import is_static, load_encoder, single_thread
    from debias_nb.repro.runner import quiet
    quiet()
    with single_thread(THREADS):
        for name in names:
            encoder = load_encoder(name)
            yield name, encoder, "static" if is_static(encoder) else "transformer"

# ---------------------------------------------------------------- measuring

def spread(values) -> dict: # median and quartiles
    q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {k: float(f"{v:.4g}") for k, v in (("median", median), ("q1", q1), ("q3", q3))}

def rounds(names, run, repeats, say) -> list[dict]: # of each round: name -> what `run(name)` returned
    "All variants in turn, `repeats` times; each round begins with another variant, and the first round is thrown away."
    kept = []
    for i in range(-1, repeats): # round -1 warms up
        turn = [names[(i + j) % len(names)] for j in range(len(names))]
        results = {name: run(name) for name in turn}
        if i >= 0: kept.append(results)
        say(f"round {i + 1} of {repeats}")
    return kept

def compare(names, once, reference, repeats, say) -> dict: # name -> each figure of `once(name)`, and the ratio of its first figure to the reference's, with quartiles
    "All variants in turn, and each ratio taken inside a round."
    kept = rounds(names, once, repeats, say)
    figures = list(kept[0][reference])
    return {name: {f: spread([r[name][f] for r in kept]) for f in figures} | {"ratio": spread([r[name][figures[0]] / r[reference][figures[0]] for r in kept])} for name in names}

def measured(runs, reference, repeats, say) -> dict: # runs: name -> function; -> name -> ms and ratio to the reference, each with its quartiles
    def once(name): gc.collect(); return {"ms": 1000 * seconds(runs[name])}
    return compare(list(runs), once, reference, repeats, say)

def agreeing(runs, reference, most, what, where=slice(None)) -> float: # runs: name -> function that gives a tensor; -> largest difference to the reference
    "Raises `RuntimeError` naming the variant that disagrees by more than `most`."
    values = {name: run() for name, run in runs.items()}
    off = {name: (v - values[reference])[where].abs().max().item() for name, v in values.items()}
    for name, d in off.items():
        if not d <= most: raise RuntimeError(f"{name}: {what} differ by up to {d:g} from those of {reference}, more than {most:g}")
    return max(off.values())

def seconds(run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start

@dataclass
class Meter:
    "Wall and CPU time of what is measured, added up."
    wall: float = 0.
    cpu: float = 0.

    def __enter__(self): self.wall, self.cpu = self.wall - time.perf_counter(), self.cpu - time.process_time(); return self
    def __exit__(self, *_): self.wall, self.cpu = self.wall + time.perf_counter(), self.cpu + time.process_time()
    @property
    def share(self) -> float: return self.cpu / self.wall # of the time in which this process had a core

# ---------------------------------------------------------------- training

STEPS = {"transformer": 60, "static": 400} # of one run, some seconds of the first and about one of the second

@dataclass(frozen=True)
class Variant:
    name: str
    method: dict = field(default_factory=dict) # of `MethodConfig`
    cached: bool = True # base values prepared for the whole training set, as `train.fine_tune` does; else embedded in every step

ITV = dict(regulariser="itvreg", weight=.1, mask_share=.5)
PLAIN, ITVREG, QUARTER = Variant("plain"), Variant("itvreg", ITV), Variant("itvreg, a quarter", ITV | dict(rows=.25))
ON_THE_WAY = Variant("itvreg, base on the way", ITV, cached=False)
OUTREG, MASKREG = Variant("outreg", dict(regulariser="outreg", weight=.1)), Variant("maskreg", dict(regulariser="maskreg", weight=.1, mask_share=.15))

@dataclass
class Clock:
    "Seconds spent in a run, by what they went to; nested stretches of the same name count once."
    of: str = "perf_counter" # or `process_time`: CPU time of this process
    seconds: dict = field(default_factory=dict)
    running: set = field(default_factory=set)

    @contextlib.contextmanager
    def __call__(self, name):
        if name in self.running: yield; return
        self.running.add(name)
        now = getattr(time, self.of)
        start = now()
        try: yield
        finally:
            self.running.discard(name)
            self.seconds[name] = self.seconds.get(name, 0.) + now() - start

def training_stretch(clock):
    "A trainer callback that times from the first batch to the last update; set-up (arguments, data loader, optimiser) is not part of it."
    from transformers import TrainerCallback
    stack = contextlib.ExitStack()
    class Stretch(TrainerCallback):
        def on_train_begin(self, *_, **__): stack.enter_context(clock("training"))
        def on_train_end(self, *_, **__): stack.close()
    return Stretch()

def clocked_trainer(clock):
    "A stand-in for `MatchingTrainer` that times its training."
    from debias_nb.repro.training import MatchingTrainer
    class Trainer(MatchingTrainer):
        def __init__(self, *args, callbacks=(), **kwargs): super().__init__(*args, callbacks=[training_stretch(clock), *callbacks], **kwargs)
    return Trainer

def clocked_base(clock, cached):
    "A stand-in for `CachedBase` that times all it does: itself (cached), or a `FrozenBase` that prepares nothing."
    from debias_nb.itvreg import CachedBase, FrozenBase
    class Base(CachedBase if cached else FrozenBase):
        def __init__(self, model, left, right, dtype):
            with clock("before"), clock("base"): super().__init__(*(model, left, right, dtype) if cached else (model, dtype))
        def __call__(self, *args):
            with clock("base"): return super().__call__(*args)
        def prepare(self, *args):
            with clock("base"): return super().prepare(*args)
    return Base

def fine_tuning(variant, encoder, pairs, training) -> tuple: # the tuned model; seconds of training, and of these in the frozen base encoder, preparation included
    "One run of `train.fine_tune`, timed."
    from debias_nb.repro import training as train
    from debias_nb.repro.config import MethodConfig
    model, clock, method = copy.deepcopy(encoder), Clock(), MethodConfig(name=variant.name, **variant.method)
    gc.collect()
    with patch.object(train, "CachedBase", clocked_base(clock, variant.cached)), patch.object(train, "MatchingTrainer", clocked_trainer(clock)):
        loss = train.fine_tune(model, encoder, pairs, method, training, seed=0)
    if len(loss.history) != (steps := -(-len(pairs) // training.batch_size) * training.epochs): raise RuntimeError(f"{variant.name}: {len(loss.history)} steps instead of {steps}")
    return model, clock.seconds["training"] + clock.seconds.get("before", 0.), clock.seconds.get("base", 0.)

def against_plain(variants, encoder, pairs, training, figures, scale, repeats, say) -> dict: # variant -> both figures and the ratio; figures: names of whole and base encoder's time
    "Training with each variant beside plain fine-tuning. A second counts `scale`: 1000 by the number of steps for milliseconds a step."
    by_name = {v.name: v for v in variants}
    def once(name): return {f: scale * s for f, s in zip(figures, fine_tuning(by_name[name], encoder, pairs, training)[1:])}
    return compare(list(by_name), once, PLAIN.name, repeats, say)

def shown_against_plain(name, result, figures, label) -> str:
    total, base = figures
    rows = [(n, cell(v[total]), cell(v[base]) if v[base]["median"] else "-", cell(v["ratio"])) for n, v in result["variants"].items()]
    return table((f"{name} ({result['kind']}, {result['tokens']:.1f} tokens a text)", label, "of these, base encoder", "ratio to plain"), rows)

def planted_pairs(n): # left, right, labels
    "n labelled pairs of the mild planted world as the planted table is trained on them, one that is relevant and one that is not for each query."
    import numpy as np
    from debias_nb.config import WorldConfig
    from debias_nb.data.worlds import Catalogue
    pairs = Catalogue(WorldConfig(train_pairs=-(-n // 2), negatives=1)).labelled_pairs()
    rows = np.random.default_rng(0).permutation(len(pairs))[:n]
    left, right = pairs.texts()
    return [left[i] for i in rows], [right[i] for i in rows], pairs.labels[rows]

def tokens_a_text(pairs) -> float: return float(f"{float((pairs.left.mask.sum() + pairs.right.mask.sum()) / (2 * len(pairs))):.4g}")

# ---------------------------------------------------------------- saying

def warning(load: float, share: float = 1., threads: int = THREADS) -> str | None: # load: average of the minute before; share: CPU time by wall time
    "Why the numbers must not be quoted; None if they may."
    why = [f"the load average was {load:.2f} at the start, above {LOAD * threads:g}"] if load > LOAD * threads else []
    if share < SHARE: why.append(f"this process had a core for {share:.0%} of the time only, less than {SHARE:.0%}")
    return f"other processes disturbed, do not quote these numbers: {' and '.join(why)}" if why else None

def cell(s: dict) -> str: return f"{s['median']:.4g} [{s['q1']:.4g}, {s['q3']:.4g}]"

def table(head, rows) -> str:
    widths = [max(len(r[i]) for r in (head, *rows)) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in (head, tuple("-" * w for w in widths), *rows))

def keep(record: dict, path: Path, busy: bool = False) -> int: # busy: also with a warning; -> exit status
    "Write a record that may be quoted."
    if record["warning"] and not busy: print(f"nothing was written: {record['warning']}", file=sys.stderr); return 1
    path.write_text(json.dumps(record) + "\n", "utf-8")
    return 0

def finish(path: Path, note: str, write: bool, load: float, meter: Meter, settings: dict, results: dict, busy: bool = False) -> int: # load: average at the start
    "Print the record as the last line, and keep it if that is wanted."
    from debias_nb.repro.records import environment
    why = warning(load, meter.share)
    record = {"bench": path.stem, "warning": why, "load": {"start": round(load, 2), "end": round(os.getloadavg()[0], 2)}, "cpu_share": round(meter.share, 3), "threads": THREADS,
              "omp": {k: os.environ.get(k) for k in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}, "settings": settings, **results, "environment": environment()}
    print(note + (f"\nWARNING: {why}" if why else ""))
    print(json.dumps(record))
    return keep(record, path, busy) if write else 0

# ---------------------------------------------------------------- asking

def parser(doc: str, path: Path, repeats: int, quick: str) -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=doc, epilog="The last line printed is the record, as JSON.")
    p.add_argument("--repeats", type=int, default=repeats, help="rounds, each with a run of every variant (%(default)s)")
    p.add_argument("--quick", action="store_true", help=f"{quick}: to see that it works")
    p.add_argument("--write", action="store_true", help=f"write {path.name}, unless other processes disturbed")
    return p

def ask_encoders(p: argparse.ArgumentParser, default: str = "the planted ones and the static ones found there"):
    p.add_argument("--encoder", action="append", help=f"tiny, tiny-static, or a folder under DEBIAS_NB_MODELS; may be repeated (default: {default})")

def ask_steps(p: argparse.ArgumentParser, epochs: str): # epochs: why their number matters
    p.add_argument("--steps", type=int, help="steps of one run (default: " + ", ".join(f"{n} for a {k} encoder" for k, n in STEPS.items()) + ")")
    p.add_argument("--epochs", type=int, default=1, help=f"epochs these steps are spread over (%(default)s): {epochs}")
    p.add_argument("--batch", type=int, default=32, help="pairs in a step (%(default)s)")

def checked_steps(p: argparse.ArgumentParser, o):
    if o.quick: o.steps, o.repeats = 4, 2
    checked(p, o, "steps", "epochs", "batch")
    for steps in [o.steps] if o.steps else STEPS.values():
        if steps % o.epochs: p.error(f"--steps ({steps}) must be a multiple of --epochs ({o.epochs})")
    if o.batch < 2: p.error("--batch must be at least 2")
    return o

def checked(p: argparse.ArgumentParser, o, *positive: str):
    for name in ("repeats", *positive):
        if getattr(o, name) is not None and getattr(o, name) < 1: p.error(f"--{name} must be at least 1, got {getattr(o, name)}")
    if o.write and o.quick: p.error("--quick measures nothing worth writing")
    return o
