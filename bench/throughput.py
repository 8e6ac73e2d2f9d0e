"""How many sentences a second `train.fine_tune` trains on, beside sentence-transformers' own trainer and loss on the
same texts. See README.md."""
import copy
import gc
import sys
import tempfile
from pathlib import Path

from common import (
    PLAIN, PLANTED, STEPS, THREADS, Clock, Meter, ask_encoders, ask_steps, begin, checked_steps, compare, fine_tuning,
    finish, loaded, new_parser, planted_pairs, rounded, settings_of, telling, tokens_a_text, training_stretch,
    variants_table,
)

RECORD = Path(__file__).resolve().with_suffix(".json")
THEIRS = "sentence-transformers"
OURS = "fine_tune"
AGREE = 1e-3 # largest difference between the cosines of a pair under both tuned encoders, dropout off


def theirs(encoder, texts, training) -> tuple:
    """The usual way: texts in a data set, tokenised by the trainer's collator batch by batch.
    The tuned model; seconds of training; seconds of these in the tokenizer."""
    from datasets import Dataset
    # Their trainer without its model card and printed logs, which are not timed anyway.
    from debias_nb.trainer import QuietTrainer, training_arguments
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
    model = copy.deepcopy(encoder)
    clock = Clock()
    columns = dict(zip(("sentence1", "sentence2", "score"), texts))
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        args = training_arguments(
            folder, num_train_epochs=training.epochs, per_device_train_batch_size=training.batch_size,
            learning_rate=training.learning_rate, seed=0, use_cpu=True)
        trainer = QuietTrainer(
            model=model, args=args, train_dataset=Dataset.from_dict(columns), loss=CosineSimilarityLoss(model),
            callbacks=[training_stretch(clock)])
        collator = trainer.data_collator
        collator.preprocess_fn = clock("tokenising")(collator.preprocess_fn)
        trainer.train()
    return model.eval(), clock.seconds["training"], clock.seconds["tokenising"]


def ours(encoder, texts, training) -> tuple:
    "Texts are tokenised once, before training; that is part of its time. Returns the same as `theirs`."
    from debias_nb.repro.runs.training import pair_tokens
    clock = Clock()
    with clock("tokenising"):
        pairs = pair_tokens(encoder, *texts)
    tokenising = clock.seconds["tokenising"]
    model, total, _ = fine_tuning(PLAIN, encoder, pairs, training)
    return model, total + tokenising, tokenising


RUNS = {THEIRS: theirs, OURS: ours}


def without_dropout(encoder):
    "A copy of an encoder that drops nothing out."
    import torch
    calm = copy.deepcopy(encoder)
    for module in calm.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.
    return calm


def agreement(encoder, texts, training, runs=None) -> float:
    """That both train the same, dropout apart, which falls differently when both sides share a pass: the largest
    difference of a pair's cosines. Raises `RuntimeError` if they do not."""
    from debias_nb.encoders import embed
    from debias_nb.repro.runs.training import pair_tokens
    calm = without_dropout(encoder)
    pairs = pair_tokens(encoder, *texts)
    cosines = {}
    for name, run in (runs or RUNS).items():
        model, *_ = run(calm, texts, training)
        cosines[name] = (embed(model, pairs.left) * embed(model, pairs.right)).sum(1)
    difference = (cosines[OURS] - cosines[THEIRS]).abs().max().item()
    if not difference <= AGREE: # so that NaN is refused, too
        words = f"cosines after training differ by up to {difference:g} from those of {THEIRS}, more than {AGREE:g}"
        raise RuntimeError(f"{OURS}: {words}")
    return difference


def measure(encoder, texts, training, repeats: int, say) -> dict:
    "Name -> sentences a second, the share of the time that tokenising took, and the ratio of the first."
    sentences = 2 * len(texts[0]) * training.epochs

    def once(name):
        _, total, tokenising = RUNS[name](encoder, texts, training)
        return {"per_second": sentences / total, "tokenising": tokenising / total}

    return compare(list(RUNS), once, THEIRS, repeats, say)


def shown(name: str, result: dict) -> str:
    "The table of an encoder."
    head = f"{name} ({result['kind']}, {result['tokens']:.1f} tokens a text)"
    columns = {
        "sentences a second": "per_second",
        "tokenising, share of the time": "tokenising",
        f"ratio to {THEIRS}": "ratio",
    }
    return variants_table(head, result, columns)


def arguments(argv):
    "The options. Ends the program where they make no sense."
    parser = new_parser(__doc__, RECORD, 9, "4 steps, 2 rounds")
    ask_encoders(parser, "tiny and tiny-static")
    ask_steps(parser, f"{OURS} tokenises once for all of them")
    return checked_steps(parser, parser.parse_args(argv))


def main(argv=None) -> int:
    options = arguments(argv)
    load = begin()
    from debias_nb.repro.config import TrainConfig
    from debias_nb.repro.runs.training import pair_tokens
    training = TrainConfig(learning_rate=1e-3, epochs=options.epochs, batch_size=options.batch, threads=THREADS)
    results = {}
    meter = Meter()
    for name, encoder, kind in loaded(options.encoder or PLANTED):
        steps = options.steps or STEPS[kind]
        texts = planted_pairs(steps // options.epochs * options.batch)
        some = [column[: 8 * options.batch] for column in texts]
        difference = agreement(encoder, some, training)
        with meter:
            timed = measure(encoder, texts, training, options.repeats, telling(name))
        results[name] = {
            "kind": kind,
            "tokens": tokens_a_text(pair_tokens(encoder, *texts)),
            "steps": steps,
            "difference": rounded(difference, 2),
            "variants": timed,
        }
        print(shown(name, results[name]), end="\n\n")
    note = f"ratios: medians over {options.repeats} rounds [quartiles]; above 1 {OURS} is the faster one"
    settings = settings_of(options, "repeats", "epochs", "batch")
    return finish(RECORD, note, options, load, meter, settings, {"encoders": results})


if __name__ == "__main__":
    sys.exit(main())
