"""What an epoch of ARR costs with tables made once, beside the same epoch without them and beside contrastive training.
See README.md."""
import copy
import gc
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

from common import (
    Clock, Meter, ask_sizes, begin, calm, cell, check_steps, check_two, checked, finish, medians, new_parser, ratio,
    resized, rounded, rounds, settings_of, table, telling, training_stretch,
)

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
    texts: list     # (n,) strings
    authors: object # (n,) whole numbers
    tokens: object  # `encoders.Tokens`


def material(name: str, authors: int) -> tuple:
    "An encoder that nobody has fine-tuned, and the data of one run."
    from debias_nb.arr import author_ids
    from debias_nb.config import AuthorsWorldConfig
    from debias_nb.data.authors import planted_texts
    from debias_nb.encoders import tokenise
    from debias_nb.loading import load_encoder
    from debias_nb.repro.runs.tasks.authors import learned_table
    world = AuthorsWorldConfig(name="authors", authors=authors)
    texts = planted_texts(world, "train")
    encoder = load_encoder("tiny") if name == "tiny" else learned_table(texts.text, 64)
    return encoder, Data(texts.text, author_ids(texts.author), tokenise(encoder, texts.text))


# ---------------------------------------------------------------- the losses


def tables(teacher, data: Data) -> tuple:
    "(n, d) vectors of the teacher, (n, V) TF-IDF rows."
    from debias_nb.arr import text_rows
    from debias_nb.encoders import embed
    return embed(teacher, data.tokens), text_rows("tfidf", data.texts)(data.texts)


def anew(model, teacher, data: Data, clock):
    "A loss: ARR as one writes it down. The teacher embeds the batch, and its TF-IDF rows are made of its texts."
    import torch
    from debias_nb import arr
    from debias_nb.encoders import encode_tokens, unit_rows
    rows_of = arr.text_rows("tfidf", data.texts) # the words and how rare they are, once

    def topic_cosines(rows):
        texts = [data.texts[row] for row in rows.tolist()]
        return arr.sparse_cosines(rows_of(texts))

    def teacher_cosines(rows):
        return arr.gram(encode_tokens(teacher, data.tokens[rows]))

    class Anew(arr.AuthorLoss):
        def rows_of(self, columns):
            return columns[0]["row"]

        def value(self, z, authors, rows):
            with clock("topics"):
                topics = topic_cosines(rows)
            with clock("teacher"), torch.no_grad():
                cosines = teacher_cosines(rows)
            bias = arr.topic_bias(topics, authors, TEMPERATURE)
            target = arr.regularised(arr.pair_log_probs(cosines, TEMPERATURE), bias)
            student = arr.pair_log_probs(arr.gram(unit_rows(z)), TEMPERATURE)
            pairs = arr.same_author(authors).sum()
            return arr.distillation(target, student), {"B": bias, "entropy": arr.entropy(target), "pairs": pairs}

    return Anew(model)


def prepared(variant: str, model, teacher, data: Data, clock):
    "A loss, and what it does once, before the first epoch is timed."
    from debias_nb.arr import ARR as ARRLoss, ContrastiveAuthorLoss, NumberedTexts
    with clock("once"):
        if variant == CL:
            return ContrastiveAuthorLoss(model, TEMPERATURE)
        if variant == ANEW:
            return anew(model, teacher, data, clock)
        vectors, topics = tables(teacher, data)
        return ARRLoss(model, NumberedTexts(topics, data.authors), vectors, TEMPERATURE)


# ---------------------------------------------------------------- runs


def timed_look_up(clock):
    "A patch by which looking topics up counts as `topics`."
    from debias_nb.arr import NumberedTexts
    cosines = NumberedTexts.cosines

    def timed(*args):
        with clock("topics"):
            return cosines(*args)

    return patch.object(NumberedTexts, "cosines", timed)


def fit(model, loss, data: Data, size: Size, rate: float, clock) -> None:
    "Train with sentence-transformers' trainer. What it takes counts as `training`; its set-up is no part of that."
    from datasets import Dataset
    from debias_nb.arr import AuthorCollator, AuthorPairSampler
    from debias_nb.trainer import QuietTrainer, training_arguments
    rows = Dataset.from_dict({"row": range(len(data.texts)), "label": data.authors})
    with tempfile.TemporaryDirectory() as folder:
        args = training_arguments(
            folder, num_train_epochs=size.epochs, per_device_train_batch_size=size.batch, learning_rate=rate, seed=0,
            use_cpu=True, batch_sampler=AuthorPairSampler)
        trainer = QuietTrainer(
            model=model, args=args, train_dataset=rows, loss=loss,
            data_collator=AuthorCollator(data.tokens, data.authors), callbacks=[training_stretch(clock)])
        trainer.train()


def training_run(variant: str, encoder, teacher, data: Data, size: Size, rate: float | None = None) -> tuple:
    """One training: the loss, its model trained; and a clock with seconds `once`, `training` (from the first batch to
    the last update), and of this `topics` and `teacher`."""
    model = copy.deepcopy(encoder)
    clock = Clock()
    gc.collect()
    with timed_look_up(clock):
        loss = prepared(variant, model, teacher, data, clock)
        fit(model, loss, data, size, size.rate if rate is None else rate, clock)
    check_steps(variant, len(loss.history), steps_of(data, size))
    return loss, clock


def steps_of(data: Data, size: Size) -> int:
    "Steps of one run; a last batch of a single author is left out."
    authors = len(set(data.authors.tolist()))
    most = size.batch // 2 # two texts of each
    full, left = divmod(authors, most)
    return size.epochs * (full + (left > 1))


def taught(encoder, data: Data, size: Size):
    "A frozen teacher."
    loss, _ = training_run(CL, encoder, None, data, size)
    return loss.model.eval().requires_grad_(False)


def agreement(losses: dict) -> float:
    """The largest difference between both kinds of ARR. losses: variant -> (steps,) of students that do not learn.
    Raises `RuntimeError` naming the first batch on whose loss the two disagree."""
    import torch
    off = (losses[ANEW].double() - losses[ARR].double()).abs()
    bad = (~(off <= AGREE)).nonzero().flatten().tolist() # so that NaN is refused, too
    if bad:
        batch = bad[0]
        words = f"the loss of batch {batch} is {losses[ANEW][batch]:.7f}, with tables it is {losses[ARR][batch]:.7f}"
        raise RuntimeError(f"{ANEW}: {words}")
    return float(torch.max(off))


def compared(encoder, teacher, data: Data, size: Size) -> float:
    """The largest difference between the losses of a batch, with students that do not learn, so that differences are
    not carried from batch to batch."""
    import torch
    losses = {}
    for variant in (ARR, ANEW):
        loss, _ = training_run(variant, encoder, teacher, data, size, rate=0.)
        losses[variant] = torch.stack([seen["loss"] for seen in loss.history])
    return agreement(losses)


def figures(variant: str, encoder, teacher, data: Data, size: Size) -> dict:
    "Milliseconds of a step and of what is done once; the share of a step that is topics, or the teacher."
    _, clock = training_run(variant, encoder, teacher, data, size)
    training = clock.seconds["training"]
    return {
        "step_ms": 1000 * training / steps_of(data, size),
        "once_ms": 1000 * clock.seconds.get("once", 0.),
        "topics": clock.seconds.get("topics", 0.) / training,
        "teacher": clock.seconds.get("teacher", 0.) / training,
    }


def measure(once, epoch: int, repeats: int, say) -> dict:
    "Each variant's figures and its ratios, medians with quartiles. once: variant -> `figures`; epoch: its steps."
    kept = rounds(NAMES, once, repeats, say)
    variants = {}
    for name in NAMES:
        to_cl = ratio(kept, name, CL, "step_ms")
        to_arr = ratio(kept, name, ARR, "step_ms")
        variants[name] = medians(kept, name) | {"to_cl": to_cl, "to_arr": to_arr}
    return {"variants": variants, "paid_after": paid_after(variants, epoch)}


def paid_after(variants: dict, epoch: int) -> float | None:
    """When what tables save has made up for what they cost before, in epochs, by medians; None where an epoch without
    tables takes no longer."""
    spent = variants[ARR]["once_ms"]["median"] - variants[ANEW]["once_ms"]["median"]
    saved = variants[ANEW]["step_ms"]["median"] - variants[ARR]["step_ms"]["median"]
    if saved <= 0:
        return None
    return rounded(max(0., spent) / (epoch * saved))


def shown(name: str, result: dict) -> str:
    "The table of an encoder, and when tables have paid."
    rows = []
    for variant, figures in result["variants"].items():
        ratios = [cell(figures[figure]) for figure in ("step_ms", "to_cl", "to_arr")]
        shares = [percent(figures[figure]["median"]) for figure in ("topics", "teacher")]
        once = "-" if variant == CL else cell(figures["once_ms"])
        rows.append((variant, *ratios, *shares, once))
    about = f"{result['texts']:,} texts, {result['tokens']:.1f} tokens a text, {result['batch']} texts a step"
    columns = ("ms a step", "ratio to CL", "ratio to ARR", "of these, TF-IDF", "teacher", "ms once, before")
    paid = "never"
    if result["paid_after"] is not None:
        paid = f"after {result['paid_after']:.3g} epochs of {result['epoch']} steps"
    return table((f"{name} ({about})", *columns), rows) + f"\nwhat {ARR} prepares once has paid {paid}"


def percent(share: float) -> str:
    "A share of a step; `-` for none."
    return f"{share:.2%}" if share else "-"


def arguments(argv):
    "The options. Ends the program where they make no sense."
    parser = new_parser(__doc__, RECORD, 7, "a dozen authors, batches of 8 texts, 2 rounds")
    parser.add_argument("--encoder", action="append", choices=list(SIZES), help="may be repeated (default: all)")
    ask_sizes(parser, SIZES, authors="of training, six texts each", epochs="of one run")
    options = checked(parser, parser.parse_args(argv), "authors", "epochs")
    check_two(parser, "authors", options.authors)
    if options.quick:
        options.repeats = 2
    return options


def measured_encoder(name: str, size: Size, repeats: int, meter: Meter) -> dict:
    "What a record says of an encoder."
    encoder, data = material(name, size.authors)
    teacher = taught(encoder, data, size)
    difference = compared(encoder, teacher, data, size)
    once = partial(figures, encoder=encoder, teacher=teacher, data=data, size=size)
    epoch = steps_of(data, replace(size, epochs=1))
    with meter:
        timed = measure(once, epoch, repeats, telling(name))
    tokens = data.tokens.mask.sum(1).float().mean()
    return {
        "texts": len(data.texts),
        "tokens": rounded(tokens),
        "batch": size.batch,
        "epoch": epoch,
        "epochs": size.epochs,
        "difference": rounded(difference, 2),
        **timed,
    }


def main(argv=None) -> int:
    options = arguments(argv)
    load = begin()
    sizes = QUICK if options.quick else SIZES
    results = {}
    meter = Meter()
    with calm():
        for name in options.encoder or SIZES:
            size = resized(sizes[name], options, "authors", "epochs")
            results[name] = measured_encoder(name, size, options.repeats, meter)
            print(shown(name, results[name]), end="\n\n")
    note = f"medians over {options.repeats} rounds [quartiles]"
    return finish(RECORD, note, options, load, meter, settings_of(options, "repeats"), {"encoders": results})


if __name__ == "__main__":
    sys.exit(main())
