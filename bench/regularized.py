"""What a training step of sentence-transformers' trainer costs with regularisers added to its loss, as a multiple of
the bare loss on the same texts, in CPU time. See README.md."""
import copy
import gc
import sys
import tempfile
from functools import partial
from pathlib import Path

from common import (
    PLANTED, STEPS, Clock, Meter, ask_busy, ask_encoders, ask_steps, begin, check_steps, checked_steps, compare, finish,
    loaded, new_parser, planted_pairs, settings_of, telling, tokens_a_text, training_stretch, variants_table,
)

RECORD = Path(__file__).resolve().with_suffix(".json")
BARE, OUTREG, QUARTER, ITVREG, MASKREG = "bare loss", "OutReg", "ITVReg, a quarter", "ITVReg", "MaskReg"
OTHERS, FEWER = "OutReg, other texts", "OutReg, a quarter as many"
VARIANTS = (BARE, OUTREG, QUARTER, ITVREG, MASKREG, OTHERS, FEWER)
BLOCKS = 10 # the other texts are ten times those of a step: what the base makes of them is soon known


def other_texts(count: int) -> list[str]:
    "Titles of the broad corpus."
    from debias_nb.settings import WorldConfig
    from debias_nb.data.worlds import Catalog
    pairs = Catalog(WorldConfig(broad_pairs=count)).broad()
    return [title.text for title, _ in pairs]


def loss_of(variant: str, model, batch: int):
    "In-batch negatives, and what a variant adds to them."
    from debias_nb import ITVReg, MaskReg, OutReg, Regularized
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    loss = MultipleNegativesRankingLoss(model)
    if variant == BARE:
        return loss
    added = {
        OUTREG: OutReg(.1),
        QUARTER: ITVReg(1., rows=.25),
        ITVREG: ITVReg(1.),
        MASKREG: MaskReg(1., .5),
        OTHERS: OutReg(.1, texts=other_texts(BLOCKS * batch)),
        FEWER: OutReg(.1, texts=other_texts(BLOCKS * batch // 4), texts_per_batch=batch // 4 or 1),
    }
    return Regularized(model, loss, [added[variant]])


def training_run(variant: str, encoder, texts, options, steps: int) -> dict:
    """Milliseconds of a step: CPU time of one training, from the first batch to the last update; the frozen copy of the
    model is made before."""
    from datasets import Dataset
    from debias_nb.trainer import QuietTrainer, training_arguments
    model = copy.deepcopy(encoder)
    clock = Clock("process_time")
    data = Dataset.from_dict({"query": texts[0], "item": texts[1]})
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        args = training_arguments(
            folder, num_train_epochs=options.epochs, per_device_train_batch_size=options.batch, learning_rate=1e-3,
            seed=0, use_cpu=True)
        trainer = QuietTrainer(
            model=model, args=args, train_dataset=data, loss=loss_of(variant, model, options.batch),
            callbacks=[training_stretch(clock)])
        trainer.train()
    check_steps(variant, trainer.state.global_step, steps)
    return {"step_ms": 1000 * clock.seconds["training"] / steps}


def shown(name: str, result: dict) -> str:
    "The table of an encoder."
    head = f"{name} ({result['kind']}, {result['tokens']:.1f} tokens a text)"
    return variants_table(head, result, {"CPU ms a step": "step_ms", f"ratio to the {BARE}": "ratio"})


def arguments(argv):
    "The options. Ends the program where they make no sense."
    parser = new_parser(__doc__, RECORD, 9, "4 steps, 2 rounds")
    ask_encoders(parser, "tiny and tiny-static")
    ask_busy(parser)
    ask_steps(parser, "the frozen encoder embeds in every step, whatever the epoch")
    return checked_steps(parser, parser.parse_args(argv))


def main(argv=None) -> int:
    options = arguments(argv)
    load = begin()
    from debias_nb.repro.runs.training import pair_tokens
    results = {}
    meter = Meter()
    for name, encoder, kind in loaded(options.encoder or PLANTED):
        steps = options.steps or STEPS[kind]
        texts = planted_pairs(steps // options.epochs * options.batch)
        once = partial(training_run, encoder=encoder, texts=texts, options=options, steps=steps)
        with meter:
            timed = compare(VARIANTS, once, BARE, options.repeats, telling(name))
        tokens = tokens_a_text(pair_tokens(encoder, *texts))
        results[name] = {"kind": kind, "tokens": tokens, "steps": steps, "variants": timed}
        print(shown(name, results[name]), end="\n\n")
    note = (
        f"ratios: medians over {options.repeats} rounds [quartiles]; two texts forwards and backwards count 6, "
        "a frozen pass 1: OutReg 7 / 6, ITVReg 11 / 6, a quarter of it 7.25 / 6, OutReg on other texts 9 / 6, on a quarter "
        "6.75 / 6"
    )
    settings = settings_of(options, "repeats", "epochs", "batch")
    return finish(RECORD, note, options, load, meter, settings, {"clock": "CPU time", "encoders": results})


if __name__ == "__main__":
    sys.exit(main())
