"""What a training step of sentence-transformers' trainer costs with regularizers added to its loss, as a multiple of
the bare loss on the same texts, in CPU time. See README.md."""
import copy
import gc
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from unittest.mock import patch

from common import ENCODERS, PLANTED, compare, loaded, planted_pairs, print_variants, rounded, run, training_stretch

BARE, OUTREG, QUARTER, ITVREG, MASKREG = "bare loss", "OutReg", "ITVReg, a quarter", "ITVReg", "MaskReg"
OTHERS, FEWER = "OutReg, other texts", "OutReg, a quarter as many"
VARIANTS = (BARE, OUTREG, QUARTER, ITVREG, MASKREG, OTHERS, FEWER)
STEPS = {"transformer": 60, "static": 400} # of one run, some seconds of the first and about one of the second
BATCH = 32
BLOCKS = 10 # the other texts are ten times those of a step: what the base makes of them is soon known


def other_texts(count: int) -> list[str]:
    "Titles of the broad corpus."
    from debias_nb.settings import WorldConfig
    from debias_nb.data.worlds import Catalog
    pairs = Catalog(WorldConfig(broad_pairs=count)).broad()
    return [title.text for title, _ in pairs]


def loss_of(variant: str, model):
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
        OTHERS: OutReg(.1, texts=other_texts(BLOCKS * BATCH)),
        FEWER: OutReg(.1, texts=other_texts(BLOCKS * BATCH // 4), texts_per_batch=BATCH // 4),
    }
    return Regularized(model, loss, [added[variant]])


def timed(function, part: str, spent: dict):
    "The function, whose CPU time is added to that of a part."
    @wraps(function)
    def run(*args, **kwargs):
        start = time.process_time()
        try:
            return function(*args, **kwargs)
        finally:
            spent[part] += time.process_time() - start
    return run


@contextmanager
def timed_parts():
    "CPU seconds by part of what `Regularized` adds to a step; its backward pass is none of them."
    from debias_nb.losses import batches, gradient_shares, regularized
    owners = {
        "reading columns": (regularized, "read_columns"), "interventions": (regularized.Draws, "intervention"),
        "base encoder": (batches.Batch, "at_base"), "encoder on other texts": (batches.View, "encode"),
        "gradient shares": (gradient_shares.Watch, "start_batch"),
    }
    spent = dict.fromkeys(owners, 0.)
    with ExitStack() as patches:
        for part, (owner, name) in owners.items():
            patches.enter_context(patch.object(owner, name, timed(getattr(owner, name), part, spent)))
        yield spent


def training_run(variant: str, encoder, texts) -> dict:
    """Milliseconds of a step: CPU time of one training, from the first batch to the last update; the frozen copy of the
    model is made before. And the share of that in each part of `timed_parts`."""
    from datasets import Dataset
    from debias_nb.trainer import QuietTrainer, training_arguments
    model = copy.deepcopy(encoder)
    data = Dataset.from_dict({"query": texts[0], "item": texts[1]})
    stretch = training_stretch()
    gc.collect()
    with tempfile.TemporaryDirectory() as folder, timed_parts() as spent:
        args = training_arguments(
            folder, num_train_epochs=1, per_device_train_batch_size=BATCH, learning_rate=1e-3, seed=0, use_cpu=True)
        trainer = QuietTrainer(
            model=model, args=args, train_dataset=data, loss=loss_of(variant, model), callbacks=[stretch])
        trainer.train()
    shares = {part: seconds / stretch.seconds for part, seconds in spent.items()}
    return {"step_ms": 1000 * stretch.seconds / trainer.state.global_step, **shares}


def measure(options) -> tuple[dict, dict]:
    from debias_nb.encoders.tokens import tokenize
    results = {}
    for name, encoder, kind in loaded(options.encoder or PLANTED):
        steps = 4 if options.quick else STEPS[kind]
        left, right, _ = planted_pairs(steps * BATCH)
        timed = compare(VARIANTS, partial(training_run, encoder=encoder, texts=(left, right)), BARE, options.repeats)
        tokens = rounded(float(tokenize(encoder, left + right).mask.sum()) / (2 * len(left)))
        results[name] = {"kind": kind, "tokens": tokens, "steps": steps, "variants": timed}
        head = f"{name} ({kind}, {tokens:.1f} tokens a text)"
        print_variants(head, timed, {"CPU ms a step": "step_ms", f"ratio to the {BARE}": "ratio"})
    return {"epochs": 1, "batch": BATCH}, {"clock": "CPU time", "encoders": results}


if __name__ == "__main__":
    sys.exit(run(__file__, __doc__, measure, 9, ENCODERS))
