"""What one training step of each regulariser costs, as a multiple of a step of plain fine-tuning on the same pairs. See README.md."""
import argparse, contextlib, copy, gc, json, os, statistics, sys, time
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

RECORD, THREADS = Path(__file__).resolve().with_suffix(".json"), 1
LOAD = 1.5  # processes ready to run at the start, for each thread that the bench needs: above it others disturb
SHARE = .95 # of the time in which this process must have had a core: below it others came along later
STEPS = {"transformer": 60, "static": 400} # of one run, some seconds of the first and about one of the second

@dataclass(frozen=True)
class Variant:
    name: str
    method: dict         # of `MethodConfig`
    cached: bool = True  # base values prepared for the whole training set, as `train.fine_tune` does; else embedded in every step

    @property
    def needs_base(self): return self.method.get("regulariser") in ("itvreg", "outreg")

PLAIN = Variant("plain", {})
VARIANTS = (PLAIN,
            Variant("itvreg", dict(regulariser="itvreg", weight=.1, mask_share=.5)),
            Variant("itvreg, base on the way", dict(regulariser="itvreg", weight=.1, mask_share=.5), cached=False),
            Variant("outreg", dict(regulariser="outreg", weight=.1)),
            Variant("maskreg", dict(regulariser="maskreg", weight=.1, mask_share=.15)))

# ---------------------------------------------------------------- one run, through the trainer

@dataclass
class Clock:
    "Seconds spent in a run, by what they went to; nested stretches of the same name count once."
    seconds: dict = field(default_factory=dict)
    running: set = field(default_factory=set)

    @contextlib.contextmanager
    def __call__(self, name):
        if name in self.running: yield; return
        self.running.add(name)
        start = time.perf_counter()
        try: yield
        finally:
            self.running.discard(name)
            self.seconds[name] = self.seconds.get(name, 0.) + time.perf_counter() - start

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

def clocked_trainer(clock):
    "The trainer, timed from its first batch to its last update; set-up (arguments, data loader, optimiser) is not part of a step."
    from debias_nb.train import MatchingTrainer
    from transformers import TrainerCallback
    stack = contextlib.ExitStack()
    class Stretch(TrainerCallback):
        def on_train_begin(self, *_, **__): stack.enter_context(clock("training"))
        def on_train_end(self, *_, **__): stack.close()
    class Trainer(MatchingTrainer):
        def __init__(self, *args, callbacks=(), **kwargs): super().__init__(*args, callbacks=[Stretch(), *callbacks], **kwargs)
    return Trainer

def run(variant, encoder, pairs, training, steps) -> dict: # milliseconds a step: all of them, and those in the frozen base encoder, preparation included
    "One fine-tuning run."
    from debias_nb import train
    from debias_nb.config import MethodConfig
    model, clock = copy.deepcopy(encoder), Clock()
    gc.collect()
    with patch.object(train, "CachedBase", clocked_base(clock, variant.cached)), patch.object(train, "MatchingTrainer", clocked_trainer(clock)):
        loss = train.fine_tune(model, encoder if variant.needs_base else None, pairs, MethodConfig(name=variant.name, **variant.method), training, seed=0)
    if len(loss.history) != steps: raise RuntimeError(f"{variant.name}: {len(loss.history)} steps instead of {steps}")
    ms = {k: 1000 * v / steps for k, v in clock.seconds.items()}
    return {"step_ms": ms["training"] + ms.get("before", 0.), "base_ms": ms.get("base", 0.)}

# ---------------------------------------------------------------- many runs, interleaved

def spread(values) -> dict: # median and quartiles
    q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {k: float(f"{v:.4g}") for k, v in (("median", median), ("q1", q1), ("q3", q3))}

def measure(encoder, pairs, training, steps, repeats, say) -> dict: # variant -> step_ms, base_ms and ratio, each with its quartiles
    "All variants in turn, `repeats` times; each round begins with another variant, and each ratio is taken inside a round."
    rounds = []
    for i in range(-1, repeats): # round -1 warms up
        turn = [VARIANTS[(i + j) % len(VARIANTS)] for j in range(len(VARIANTS))]
        results = {v.name: run(v, encoder, pairs, training, steps) for v in turn}
        if i >= 0: rounds.append(results)
        say(f"round {i + 1} of {repeats}")
    column = lambda name, what: [r[name][what] for r in rounds]
    return {v.name: {"step_ms": spread(column(v.name, "step_ms")), "base_ms": spread(column(v.name, "base_ms")),
                     "ratio": spread([r[v.name]["step_ms"] / r[PLAIN.name]["step_ms"] for r in rounds])} for v in VARIANTS}

def planted_pairs(encoder, n):
    "n labelled pairs of the mild planted world as the planted table is trained on them, one that is relevant and one that is not for each query."
    import numpy as np
    from debias_nb.config import WorldConfig
    from debias_nb.train import pair_tokens
    from debias_nb.worlds import Catalogue
    pairs = Catalogue(WorldConfig(train_pairs=-(-n // 2), negatives=1)).labelled_pairs()
    rows = np.random.default_rng(0).permutation(len(pairs))[:n]
    left, right = pairs.texts()
    return pair_tokens(encoder, [left[i] for i in rows], [right[i] for i in rows], pairs.labels[rows], 32)

# ---------------------------------------------------------------- the record

def warning(load: float, share: float = 1., threads: int = THREADS) -> str | None: # load: average of the minute before; share: CPU time by wall time
    "Why the numbers must not be quoted; None if they may."
    why = [f"the load average was {load:.2f} at the start, above {LOAD * threads:g}"] if load > LOAD * threads else []
    if share < SHARE: why.append(f"this process had a core for {share:.0%} of the time only, less than {SHARE:.0%}")
    return f"other processes disturbed, do not quote these numbers: {' and '.join(why)}" if why else None

def keep(record: dict, path: Path = RECORD) -> int: # exit status
    "Write a record that may be quoted."
    if record["warning"]: print(f"nothing was written: {record['warning']}", file=sys.stderr); return 1
    path.write_text(json.dumps(record) + "\n", "utf-8")
    return 0

def table(name, result) -> str:
    cell = lambda s: f"{s['median']:.4g} [{s['q1']:.4g}, {s['q3']:.4g}]"
    rows = [(n, cell(v["step_ms"]), cell(v["base_ms"]) if v["base_ms"]["median"] else "-", cell(v["ratio"])) for n, v in result["variants"].items()]
    head = (f"{name} ({result['kind']}, {result['tokens']:.1f} tokens a text)", "ms a step", "of these, base encoder", "ratio to plain")
    widths = [max(len(r[i]) for r in (head, *rows)) for i in range(4)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in (head, tuple("-" * w for w in widths), *rows))

def default_encoders() -> list[str]:
    "The planted ones, and the static ones that lie under DEBIAS_NB_MODELS."
    from debias_nb.encoders import encoder_cards
    root = os.environ.get("DEBIAS_NB_MODELS")
    return ["tiny", "tiny-static", *(n for n, card in encoder_cards().items() if root and card.kind == "static" and (Path(root) / n).is_dir())]

def arguments(argv):
    p = argparse.ArgumentParser(description=__doc__, epilog="The last line printed is the record, as JSON.")
    p.add_argument("--encoder", action="append", help="tiny, tiny-static, or a folder under DEBIAS_NB_MODELS; may be repeated (default: the planted ones and the static ones found there)")
    p.add_argument("--steps", type=int, help="steps of one run (default: " + ", ".join(f"{n} for a {k} encoder" for k, n in STEPS.items()) + ")")
    p.add_argument("--repeats", type=int, default=9, help="rounds, each with a run of every variant (%(default)s)")
    p.add_argument("--epochs", type=int, default=1, help="epochs these steps are spread over (%(default)s): base values of unchanged texts are prepared once for all of them")
    p.add_argument("--batch", type=int, default=32, help="pairs in a step (%(default)s)")
    p.add_argument("--quick", action="store_true", help="4 steps, 2 rounds: to see that it works")
    p.add_argument("--write", action="store_true", help="write itvreg_step.json, unless other processes disturbed")
    o = p.parse_args(argv)
    if o.quick: o.steps, o.repeats = 4, 2
    for name in ("steps", "repeats", "epochs", "batch"):
        if getattr(o, name) is not None and getattr(o, name) < 1: p.error(f"--{name} must be at least 1, got {getattr(o, name)}")
    for steps in [o.steps] if o.steps else STEPS.values():
        if steps % o.epochs: p.error(f"--steps ({steps}) must be a multiple of --epochs ({o.epochs})")
    if o.batch < 2: p.error("--batch must be at least 2")
    if o.write and o.quick: p.error("--quick measures nothing worth writing")
    return o

def main(argv=None) -> int:
    o, load = arguments(argv), os.getloadavg()[0]
    os.environ["OMP_NUM_THREADS"] = str(THREADS) # torch, imported below, reads these once; waiting threads sleep instead of spinning
    for name, value in {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "TOKENIZERS_PARALLELISM": "false"}.items(): os.environ.setdefault(name, value)
    if why := warning(load): print(f"WARNING: {why}", file=sys.stderr)
    from debias_nb.config import TrainConfig
    from debias_nb.encoders import is_static, load_encoder, single_thread
    from debias_nb.experiments import quiet
    from debias_nb.records import environment
    quiet()
    training = TrainConfig(learning_rate=1e-3, epochs=o.epochs, batch_size=o.batch, threads=THREADS)
    results, wall, cpu = {}, 0., 0.
    with single_thread(THREADS):
        for name in o.encoder or default_encoders():
            encoder = load_encoder(name)
            kind = "static" if is_static(encoder) else "transformer"
            steps = o.steps or STEPS[kind]
            pairs = planted_pairs(encoder, steps // o.epochs * o.batch)
            start, used = time.perf_counter(), time.process_time()
            variants = measure(encoder, pairs, training, steps, o.repeats, lambda line, name=name: print(f"{name}: {line}", file=sys.stderr))
            wall, cpu = wall + time.perf_counter() - start, cpu + time.process_time() - used
            tokens = float(f"{float((pairs.left.mask.sum() + pairs.right.mask.sum()) / (2 * len(pairs))):.4g}")
            results[name] = {"kind": kind, "tokens": tokens, "steps": steps, "variants": variants}
            print(table(name, results[name]), end="\n\n")
    why = warning(load, cpu / wall)
    record = {"bench": "itvreg_step", "warning": why, "load": {"start": round(load, 2), "end": round(os.getloadavg()[0], 2)}, "cpu_share": round(cpu / wall, 3), "threads": THREADS,
              "omp": {k: os.environ.get(k) for k in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")},
              "settings": {k: getattr(o, k) for k in ("repeats", "epochs", "batch")}, "encoders": results, "environment": environment()}
    print(f"ratios: medians over {o.repeats} rounds [quartiles]; three passes instead of two: 1.5" + (f"\nWARNING: {why}" if why else ""))
    print(json.dumps(record))
    return keep(record) if o.write else 0

if __name__ == "__main__": sys.exit(main())
