"""What an epoch of ARR costs with tables made once, beside the same epoch without them and beside contrastive training. See README.md."""
import copy, gc, sys, tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from common import THREADS, Clock, Meter, begin, cell, checked, finish, parser, rounds, spread, table, training_stretch

RECORD = Path(__file__).resolve().with_suffix(".json")
CL, ARR, ANEW = "CL", "ARR", "ARR, all anew"
NAMES = (CL, ARR, ANEW)
TEMPERATURE = .1
AGREE = 1e-6 # largest difference between the two losses of a batch

@dataclass(frozen=True)
class Size:
    "Of one run."
    authors: int # of training; six texts each, of which an epoch uses two
    epochs: int
    rate: float  # of learning
    batch: int = 64 # texts

SIZES = {"tiny": Size(320, 3, 1e-3), "table": Size(320, 20, 1e-2)}
QUICK = {"tiny": Size(8, 2, 1e-3, 8), "table": Size(12, 2, 1e-2, 8)}

@dataclass(frozen=True)
class Data:
    "Training texts of planted authors as an encoder reads them."
    texts: list   # (n,) strings
    authors: object # (n,) whole numbers
    tokens: object  # `encoders.Tokens`

def material(name, authors): # an encoder that nobody has fine-tuned, and the data of one run
    from debias_nb.arr import author_ids
    from debias_nb.repro.tasks.authors import learned_table
    from debias_nb.data.authors import planted_texts
    from debias_nb.config import AuthorsWorldConfig
    from debias_nb.encoders import load_encoder, tokenise
    world = AuthorsWorldConfig(name="authors", authors=authors)
    texts = planted_texts(world, "train")
    encoder = load_encoder("tiny") if name == "tiny" else learned_table(texts.text, 64)
    return encoder, Data(texts.text, author_ids(texts.author), tokenise(encoder, texts.text))

# ---------------------------------------------------------------- the losses

def tables(teacher, data): # (n, d) vectors of the teacher, (n, V) TF-IDF rows
    from debias_nb.arr import text_rows
    from debias_nb.encoders import embed
    return embed(teacher, data.tokens), text_rows("tfidf", data.texts)(data.texts)

def anew(model, teacher, data, clock): # a loss
    "ARR as one writes it down: the teacher embeds the batch, and its TF-IDF rows are made of its texts."
    import torch
    from debias_nb.arr import AuthorLoss, distillation, entropy, gram, pair_log_probs, regularised, same_author, sparse_cosines, text_rows, topic_bias
    from debias_nb.encoders import encode_tokens, from_features
    rows_of = text_rows("tfidf", data.texts) # the words and how rare they are, once
    class Anew(AuthorLoss):
        def value(self, column, labels):
            with clock("topics"): h = sparse_cosines(rows_of([data.texts[i] for i in column["row"].tolist()]))
            with clock("teacher"), torch.no_grad(): g = gram(encode_tokens(teacher, from_features(teacher, column)))
            bias = topic_bias(h, labels, TEMPERATURE)
            target = regularised(pair_log_probs(g, TEMPERATURE), bias)
            return distillation(target, pair_log_probs(self.cosines(column), TEMPERATURE)), {"B": bias, "entropy": entropy(target), "pairs": same_author(labels).sum()}
    return Anew(model)

def prepared(variant, model, teacher, data, clock): # a loss
    "What is done once before the first epoch is timed."
    from debias_nb.arr import ARRLoss, ContrastiveAuthorLoss
    with clock("once"):
        if variant == CL: return ContrastiveAuthorLoss(model, TEMPERATURE)
        if variant == ANEW: return anew(model, teacher, data, clock)
        return ARRLoss(model, *tables(teacher, data), TEMPERATURE, data.authors)

# ---------------------------------------------------------------- runs

def training_run(variant, encoder, teacher, data, size, rate=None): # the loss, its model trained, and a clock: `once`, `training`, of this `topics` and `teacher`
    "One training, timed from the first batch to the last update; set-up of the trainer is not part of it."
    from datasets import Dataset
    from debias_nb.arr import AuthorCollator, AuthorPairSampler, TopicLoss
    from debias_nb.encoders import QuietTrainer, training_arguments
    model, clock, look_up = copy.deepcopy(encoder), Clock(), TopicLoss.look_up
    def timed(*args):
        with clock("topics"): return look_up(*args)
    gc.collect()
    with tempfile.TemporaryDirectory() as folder, patch.object(TopicLoss, "look_up", timed):
        loss = prepared(variant, model, teacher, data, clock)
        args = training_arguments(folder, num_train_epochs=size.epochs, per_device_train_batch_size=size.batch, learning_rate=size.rate if rate is None else rate, seed=0, use_cpu=True, batch_sampler=AuthorPairSampler)
        QuietTrainer(model=model, args=args, train_dataset=Dataset.from_dict({"row": range(len(data.texts)), "label": data.authors}), loss=loss,
                     data_collator=AuthorCollator(data.tokens, data.authors), callbacks=[training_stretch(clock)]).train()
    if len(loss.history) != (steps := steps_of(data, size)): raise RuntimeError(f"{variant}: {len(loss.history)} steps instead of {steps}")
    return loss, clock

def steps_of(data, size) -> int: # of one run; a last batch of a single author is left out
    pairs, most = len(set(data.authors.tolist())), size.batch // 2
    return size.epochs * (pairs // most + (pairs % most > 1))

def taught(encoder, data, size): # a frozen teacher
    return training_run(CL, encoder, None, data, size)[0].model.eval().requires_grad_(False)

def agreement(losses) -> float: # variant -> (steps,) losses of untrained students, batch by batch; -> the largest difference
    "Raises `RuntimeError` naming the first batch on whose loss the two disagree."
    import torch
    off = (losses[ANEW].double() - losses[ARR].double()).abs()
    if len(bad := (~(off <= AGREE)).nonzero()): raise RuntimeError(f"{ANEW}: the loss of batch {int(bad[0])} is {losses[ANEW][bad[0, 0]]:.7f}, with tables it is {losses[ARR][bad[0, 0]]:.7f}")
    return float(torch.max(off))

def compared(encoder, teacher, data, size) -> float:
    "The losses of every batch, with students that do not learn, so that differences are not carried from batch to batch."
    import torch
    def of(variant): return torch.stack([h["loss"] for h in training_run(variant, encoder, teacher, data, size, rate=0.)[0].history])
    return agreement({v: of(v) for v in (ARR, ANEW)})

def figures(variant, encoder, teacher, data, size) -> dict:
    "Milliseconds of a step and of what is done once; the share of a step that is topics, or the teacher."
    clock = training_run(variant, encoder, teacher, data, size)[1].seconds
    part = lambda name: clock.get(name, 0.)
    return {"step_ms": 1000 * part("training") / steps_of(data, size), "once_ms": 1000 * part("once"), "topics": part("topics") / part("training"), "teacher": part("teacher") / part("training")}

def measure(once, epoch, repeats, say) -> dict: # once: variant -> `figures`; epoch: its steps; -> variant -> each figure and its ratios, with quartiles
    kept = rounds(list(NAMES), once, repeats, say)
    out = {v: {f: spread([r[v][f] for r in kept]) for f in kept[0][v]} | {f"to_{to.lower()}": spread([r[v]["step_ms"] / r[to]["step_ms"] for r in kept]) for to in (CL, ARR)} for v in NAMES}
    return {"variants": out, "paid_after": paid_after(out, epoch)}

def paid_after(variants, epoch) -> float | None: # epochs, of medians; None where an epoch without tables takes no longer
    "When what tables save has made up for what they cost before."
    once, step = (variants[ANEW][f]["median"] - variants[ARR][f]["median"] for f in ("once_ms", "step_ms"))
    return float(f"{max(0., -once) / (epoch * step):.4g}") if step > 0 else None

def shown(name, result) -> str:
    share = lambda s: f"{s['median']:.2%}" if s["median"] else "-"
    rows = [(v, cell(f["step_ms"]), cell(f["to_cl"]), cell(f["to_arr"]), share(f["topics"]), share(f["teacher"]), cell(f["once_ms"]) if v != CL else "-") for v, f in result["variants"].items()]
    head = f"{name} ({result['texts']:,} texts, {result['tokens']:.1f} tokens a text, {result['batch']} texts a step)"
    paid = "never" if result["paid_after"] is None else f"after {result['paid_after']:.3g} epochs of {result['epoch']} steps"
    return table((head, "ms a step", "ratio to CL", "ratio to ARR", "of these, TF-IDF", "teacher", "ms once, before"), rows) + f"\nwhat {ARR} prepares once has paid {paid}"

def arguments(argv):
    p = parser(__doc__, RECORD, 7, "a dozen authors, batches of 8 texts, 2 rounds")
    p.add_argument("--encoder", action="append", choices=list(SIZES), help="may be repeated (default: all)")
    for what, text in (("authors", "of training, six texts each"), ("epochs", "of one run")):
        p.add_argument(f"--{what}", type=int, help=f"{text} (default: " + ", ".join(f"{getattr(s, what)} for {n}" for n, s in SIZES.items()) + ")")
    o = checked(p, p.parse_args(argv), "authors", "epochs")
    if o.authors == 1: p.error("--authors must be at least 2")
    if o.quick: o.repeats = 2
    return o

def main(argv=None) -> int:
    o, load = arguments(argv), begin()
    from dataclasses import replace
    from debias_nb.encoders import single_thread
    from debias_nb.repro.runner import quiet
    quiet()
    results, meter = {}, Meter()
    with single_thread(THREADS):
        for name in o.encoder or SIZES:
            size = (QUICK if o.quick else SIZES)[name]
            size = replace(size, authors=o.authors or size.authors, epochs=o.epochs or size.epochs)
            encoder, data = material(name, size.authors)
            teacher, epoch = taught(encoder, data, size), steps_of(data, replace(size, epochs=1))
            difference = compared(encoder, teacher, data, size)
            def once(variant, encoder=encoder, teacher=teacher, data=data, size=size): return figures(variant, encoder, teacher, data, size)
            with meter: timed = measure(once, epoch, o.repeats, lambda line, name=name: print(f"{name}: {line}", file=sys.stderr))
            results[name] = {"texts": len(data.texts), "tokens": float(f"{data.tokens.mask.sum(1).float().mean():.4g}"), "batch": size.batch, "epoch": epoch, "epochs": size.epochs, "difference": float(f"{difference:.2g}")} | timed
            print(shown(name, results[name]), end="\n\n")
    note = f"medians over {o.repeats} rounds [quartiles]"
    return finish(RECORD, note, o.write, load, meter, {"repeats": o.repeats}, {"encoders": results})

if __name__ == "__main__": sys.exit(main())
