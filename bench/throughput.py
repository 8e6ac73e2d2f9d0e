"""How many sentences a second `train.fine_tune` trains on, beside sentence-transformers' own trainer and loss on the same texts. See README.md."""
import copy, gc, sys, tempfile
from pathlib import Path

from common import (PLAIN, STEPS, THREADS, Clock, Meter, ask_encoders, ask_steps, begin, cell, checked_steps, compare, finish, fine_tuning, loaded, parser, planted_pairs, table,
                    tokens_a_text, training_stretch)

RECORD = Path(__file__).resolve().with_suffix(".json")
THEIRS, OURS = "sentence-transformers", "fine_tune"
AGREE = 1e-3 # largest difference between the cosines of a pair under both tuned encoders, dropout off

def theirs(encoder, texts, training) -> tuple: # the tuned model; seconds of training, and of these in the tokenizer
    "The usual way: texts in a data set, tokenised by the trainer's collator batch by batch."
    from datasets import Dataset
    from debias_nb.encoders import QuietTrainer, training_arguments # their trainer without its model card and printed logs, which are not timed anyway
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
    model, clock = copy.deepcopy(encoder), Clock()
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        args = training_arguments(folder, num_train_epochs=training.epochs, per_device_train_batch_size=training.batch_size, learning_rate=training.learning_rate, seed=0, use_cpu=True)
        trainer = QuietTrainer(model=model, args=args, train_dataset=Dataset.from_dict(dict(zip(("sentence1", "sentence2", "score"), texts))), loss=CosineSimilarityLoss(model),
                               callbacks=[training_stretch(clock)])
        trainer.data_collator.preprocess_fn = clock("tokenising")(trainer.data_collator.preprocess_fn)
        trainer.train()
    return model.eval(), clock.seconds["training"], clock.seconds["tokenising"]

def ours(encoder, texts, training) -> tuple: # the same
    "Texts are tokenised once, before training; that is part of its time."
    from debias_nb.repro.training import pair_tokens
    clock = Clock()
    with clock("tokenising"): pairs = pair_tokens(encoder, *texts)
    model, total, _ = fine_tuning(PLAIN, encoder, pairs, training)
    return model, total + clock.seconds["tokenising"], clock.seconds["tokenising"]

RUNS = {THEIRS: theirs, OURS: ours}

def agreement(encoder, texts, training, runs=None) -> float: # largest difference of cosines
    "That both train the same, dropout apart, which falls differently when both sides share a pass. Raises `RuntimeError` if not."
    import torch
    from debias_nb.encoders import embed
    from debias_nb.repro.training import pair_tokens
    calm = copy.deepcopy(encoder)
    for m in calm.modules():
        if isinstance(m, torch.nn.Dropout): m.p = 0.
    pairs = pair_tokens(encoder, *texts)
    tuned = {name: run(calm, texts, training)[0] for name, run in (runs or RUNS).items()}
    cosines = {name: (embed(m, pairs.left) * embed(m, pairs.right)).sum(1) for name, m in tuned.items()}
    difference = (cosines[OURS] - cosines[THEIRS]).abs().max().item()
    if not difference <= AGREE: raise RuntimeError(f"{OURS}: cosines after training differ by up to {difference:g} from those of {THEIRS}, more than {AGREE:g}")
    return difference

def measure(encoder, texts, training, repeats, say) -> dict: # name -> sentences per second, share of the time that tokenising took, ratio
    sentences = 2 * len(texts[0]) * training.epochs
    def once(name):
        _, total, tokenising = RUNS[name](encoder, texts, training)
        return {"per_second": sentences / total, "tokenising": tokenising / total}
    return compare(list(RUNS), once, THEIRS, repeats, say)

def shown(name, result) -> str:
    rows = [(n, cell(v["per_second"]), cell(v["tokenising"]), cell(v["ratio"])) for n, v in result["variants"].items()]
    return table((f"{name} ({result['kind']}, {result['tokens']:.1f} tokens a text)", "sentences a second", "tokenising, share of the time", f"ratio to {THEIRS}"), rows)

def arguments(argv):
    p = parser(__doc__, RECORD, 9, "4 steps, 2 rounds")
    ask_encoders(p, "tiny and tiny-static")
    ask_steps(p, f"{OURS} tokenises once for all of them")
    return checked_steps(p, p.parse_args(argv))

def main(argv=None) -> int:
    o, load = arguments(argv), begin()
    from debias_nb.repro.config import TrainConfig
    from debias_nb.repro.training import pair_tokens
    training = TrainConfig(learning_rate=1e-3, epochs=o.epochs, batch_size=o.batch, threads=THREADS)
    results, meter = {}, Meter()
    for name, encoder, kind in loaded(o.encoder or ["tiny", "tiny-static"]):
        steps = o.steps or STEPS[kind]
        texts = planted_pairs(steps // o.epochs * o.batch)
        difference = agreement(encoder, [column[: 8 * o.batch] for column in texts], training)
        with meter: timed = measure(encoder, texts, training, o.repeats, lambda line, name=name: print(f"{name}: {line}", file=sys.stderr))
        results[name] = {"kind": kind, "tokens": tokens_a_text(pair_tokens(encoder, *texts)), "steps": steps, "difference": float(f"{difference:.2g}"), "variants": timed}
        print(shown(name, results[name]), end="\n\n")
    note = f"ratios: medians over {o.repeats} rounds [quartiles]; above 1 {OURS} is the faster one"
    return finish(RECORD, note, o.write, load, meter, {k: getattr(o, k) for k in ("repeats", "epochs", "batch")}, {"encoders": results})

if __name__ == "__main__": sys.exit(main())
