"""What a training step of sentence-transformers' trainer costs with regularisers added to its loss, as a multiple of the bare loss on the same texts, in CPU time. See README.md."""
import copy, gc, sys, tempfile
from functools import partial
from pathlib import Path

from common import STEPS, Clock, Meter, ask_encoders, ask_steps, begin, cell, checked_steps, compare, finish, loaded, parser, planted_pairs, table, tokens_a_text, training_stretch

RECORD = Path(__file__).resolve().with_suffix(".json")
BARE, OUTREG, QUARTER, ITVREG, MASKREG = "bare loss", "OutReg", "ITVReg, a quarter", "ITVReg", "MaskReg"
VARIANTS = (BARE, OUTREG, QUARTER, ITVREG, MASKREG)

def loss_of(variant, model):
    "In-batch negatives, and what a variant adds to them."
    from debias_nb.regularized import ITVReg, MaskReg, OutReg, Regularized
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    loss = MultipleNegativesRankingLoss(model)
    added = {BARE: None, OUTREG: OutReg(.1), QUARTER: ITVReg(1., rows=.25), ITVREG: ITVReg(1.), MASKREG: MaskReg(1., .5)}[variant]
    return loss if added is None else Regularized(model, loss, [added])

def training_run(variant, encoder, texts, o, steps) -> dict: # ms of a step
    "CPU time of one training, from the first batch to the last update; the frozen copy of the model is made before."
    from datasets import Dataset
    from debias_nb.encoders import QuietTrainer, training_arguments
    model, clock = copy.deepcopy(encoder), Clock("process_time")
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        args = training_arguments(folder, num_train_epochs=o.epochs, per_device_train_batch_size=o.batch, learning_rate=1e-3, seed=0, use_cpu=True)
        data = Dataset.from_dict({"query": texts[0], "item": texts[1]})
        trainer = QuietTrainer(model=model, args=args, train_dataset=data, loss=loss_of(variant, model), callbacks=[training_stretch(clock)])
        trainer.train()
    if trainer.state.global_step != steps: raise RuntimeError(f"{variant}: {trainer.state.global_step} steps instead of {steps}")
    return {"step_ms": 1000 * clock.seconds["training"] / steps}

def shown(name, result) -> str:
    rows = [(n, cell(v["step_ms"]), cell(v["ratio"])) for n, v in result["variants"].items()]
    return table((f"{name} ({result['kind']}, {result['tokens']:.1f} tokens a text)", "CPU ms a step", f"ratio to the {BARE}"), rows)

def arguments(argv):
    p = parser(__doc__, RECORD, 9, "4 steps, 2 rounds")
    ask_encoders(p, "tiny and tiny-static")
    p.add_argument("--busy", action="store_true", help="with --write: also on a busy machine; the record says so")
    ask_steps(p, "the frozen encoder embeds in every step, whatever the epoch")
    return checked_steps(p, p.parse_args(argv))

def main(argv=None) -> int:
    o, load = arguments(argv), begin()
    from debias_nb.repro.training import pair_tokens
    results, meter = {}, Meter()
    for name, encoder, kind in loaded(o.encoder or ["tiny", "tiny-static"]):
        steps = o.steps or STEPS[kind]
        texts = planted_pairs(steps // o.epochs * o.batch)
        with meter: timed = compare(list(VARIANTS), partial(training_run, encoder=encoder, texts=texts, o=o, steps=steps), BARE, o.repeats, lambda line, name=name: print(f"{name}: {line}", file=sys.stderr))
        results[name] = {"kind": kind, "tokens": tokens_a_text(pair_tokens(encoder, *texts)), "steps": steps, "variants": timed}
        print(shown(name, results[name]), end="\n\n")
    note = f"ratios: medians over {o.repeats} rounds [quartiles]; two texts forwards and backwards count 6, a frozen pass 1: OutReg 7 / 6, ITVReg 11 / 6, a quarter of it 7.25 / 6"
    return finish(RECORD, note, o.write, load, meter, {k: getattr(o, k) for k in ("repeats", "epochs", "batch")}, {"clock": "CPU time", "encoders": results}, o.busy)

if __name__ == "__main__": sys.exit(main())
