"""What one training step of each regulariser costs, as a multiple of a step of plain fine-tuning on the same pairs. See README.md."""
import contextlib, copy, gc, os, sys, time
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from common import THREADS, Meter, cell, checked, default_encoders, finish, one_thread, parser, rounds, spread, table, warning

RECORD = Path(__file__).resolve().with_suffix(".json")
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

def measure(encoder, pairs, training, steps, repeats, say) -> dict: # variant -> step_ms, base_ms and ratio, each with its quartiles
    "All variants in turn, and each ratio taken inside a round."
    variants = {v.name: v for v in VARIANTS}
    kept = rounds(list(variants), lambda name: run(variants[name], encoder, pairs, training, steps), repeats, say)
    column = lambda name, what: [r[name][what] for r in kept]
    return {name: {"step_ms": spread(column(name, "step_ms")), "base_ms": spread(column(name, "base_ms")),
                   "ratio": spread([r[name]["step_ms"] / r[PLAIN.name]["step_ms"] for r in kept])} for name in variants}

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

# ---------------------------------------------------------------- all encoders

def shown(name, result) -> str:
    rows = [(n, cell(v["step_ms"]), cell(v["base_ms"]) if v["base_ms"]["median"] else "-", cell(v["ratio"])) for n, v in result["variants"].items()]
    return table((f"{name} ({result['kind']}, {result['tokens']:.1f} tokens a text)", "ms a step", "of these, base encoder", "ratio to plain"), rows)

def arguments(argv):
    p = parser(__doc__, RECORD, 9, "4 steps, 2 rounds")
    p.add_argument("--encoder", action="append", help="tiny, tiny-static, or a folder under DEBIAS_NB_MODELS; may be repeated (default: the planted ones and the static ones found there)")
    p.add_argument("--steps", type=int, help="steps of one run (default: " + ", ".join(f"{n} for a {k} encoder" for k, n in STEPS.items()) + ")")
    p.add_argument("--epochs", type=int, default=1, help="epochs these steps are spread over (%(default)s): base values of unchanged texts are prepared once for all of them")
    p.add_argument("--batch", type=int, default=32, help="pairs in a step (%(default)s)")
    o = p.parse_args(argv)
    if o.quick: o.steps, o.repeats = 4, 2
    checked(p, o, "steps", "epochs", "batch")
    for steps in [o.steps] if o.steps else STEPS.values():
        if steps % o.epochs: p.error(f"--steps ({steps}) must be a multiple of --epochs ({o.epochs})")
    if o.batch < 2: p.error("--batch must be at least 2")
    return o

def main(argv=None) -> int:
    o, load = arguments(argv), os.getloadavg()[0]
    one_thread()
    if why := warning(load): print(f"WARNING: {why}", file=sys.stderr)
    from debias_nb.config import TrainConfig
    from debias_nb.encoders import is_static, load_encoder, single_thread
    from debias_nb.experiments import quiet
    quiet()
    training = TrainConfig(learning_rate=1e-3, epochs=o.epochs, batch_size=o.batch, threads=THREADS)
    results, meter = {}, Meter()
    with single_thread(THREADS):
        for name in o.encoder or default_encoders():
            encoder = load_encoder(name)
            kind = "static" if is_static(encoder) else "transformer"
            steps = o.steps or STEPS[kind]
            pairs = planted_pairs(encoder, steps // o.epochs * o.batch)
            with meter: variants = measure(encoder, pairs, training, steps, o.repeats, lambda line, name=name: print(f"{name}: {line}", file=sys.stderr))
            tokens = float(f"{float((pairs.left.mask.sum() + pairs.right.mask.sum()) / (2 * len(pairs))):.4g}")
            results[name] = {"kind": kind, "tokens": tokens, "steps": steps, "variants": variants}
            print(shown(name, results[name]), end="\n\n")
    note = f"ratios: medians over {o.repeats} rounds [quartiles]; three passes instead of two: 1.5"
    return finish(RECORD, note, o.write, load, meter, {k: getattr(o, k) for k in ("repeats", "epochs", "batch")}, {"encoders": results})

if __name__ == "__main__": sys.exit(main())
