"""What an epoch of training on titles costs with each regulariser, as a multiple of plain fine-tuning on the same
pairs. See README.md."""
import math
import sys
from pathlib import Path

from common import (
    ITVREG, MASKREG, OUTREG, PLAIN, QUARTER, THREADS, Meter, against_plain, ask_encoders, begin, check_two, checked,
    finish, loaded, new_parser, settings_of, shown_against_plain, static_encoders, telling, tokens_a_text,
)

RECORD = Path(__file__).resolve().with_suffix(".json")
VARIANTS = (PLAIN, ITVREG, QUARTER, OUTREG, MASKREG)
FIGURES = ("epoch_s", "base_s")


def planted_titles(n: int):
    """`titles.Titles` of which at least n pairs are relevant: m queries and m items give about m plus m² / 2500 of
    them."""
    from debias_nb.config import WorldConfig
    from debias_nb.data.titles import catalogue_titles
    from debias_nb.data.worlds import Catalogue
    world = WorldConfig(train_pairs=math.ceil(50 * math.sqrt(n)))
    return catalogue_titles(Catalogue(world)).train


def some_pairs(encoder, titles, n: int):
    "`train.PairTokens` of n relevant pairs. Raises `ValueError` when there are fewer."
    from dataclasses import replace
    import numpy as np
    from debias_nb.repro.runs.training import title_tokens
    whole = title_tokens(encoder, titles, 32)
    if len(whole) < n:
        raise ValueError(f"{n:,} relevant pairs are wanted and the titles have {len(whole):,}")
    rows = np.random.default_rng(0).permutation(len(whole))[:n]
    columns = ("left", "right", "labels", "query", "item")
    return replace(whole, **{column: getattr(whole, column)[rows] for column in columns})


def arguments(argv):
    "The options. Ends the program where they make no sense."
    parser = new_parser(__doc__, RECORD, 5, "4 steps, 2 rounds")
    ask_encoders(parser, "the static ones, planted or found there")
    pairs = "relevant pairs of a query and an item in an epoch (%(default)s)"
    epochs = "epochs of a run (%(default)s): base values of unchanged texts are prepared once for all of them"
    parser.add_argument("--pairs", type=int, default=80_000, help=pairs)
    parser.add_argument("--epochs", type=int, default=1, help=epochs)
    parser.add_argument("--batch", type=int, default=900, help="pairs in a step (%(default)s)")
    options = parser.parse_args(argv)
    if options.quick:
        options.pairs = 4 * options.batch
        options.repeats = 2
    checked(parser, options, "pairs", "epochs", "batch")
    check_two(parser, "batch", options.batch)
    return options


def main(argv=None) -> int:
    options = arguments(argv)
    load = begin()
    from debias_nb.repro.config import TrainConfig
    training = TrainConfig(
        loss="hinge", margin=.3, hardest=10, temperature=.1, learning_rate=1e-3, epochs=options.epochs,
        batch_size=options.batch, threads=THREADS)
    results = {}
    meter = Meter()
    titles = planted_titles(options.pairs)
    scale = 1 / options.epochs
    for name, encoder, kind in loaded(options.encoder or static_encoders()):
        pairs = some_pairs(encoder, titles, options.pairs)
        with meter:
            timed = against_plain(VARIANTS, encoder, pairs, training, FIGURES, scale, options.repeats, telling(name))
        results[name] = {"kind": kind, "tokens": tokens_a_text(pairs), "variants": timed}
        print(shown_against_plain(name, results[name], FIGURES, "s an epoch"), end="\n\n")
    queries = len(titles.queries)
    items = len(titles.items)
    note = (
        f"{options.pairs:,} pairs of {queries:,} queries and {items:,} items, {options.batch} in a step; "
        f"ratios: medians over {options.repeats} rounds [quartiles]"
    )
    settings = settings_of(options, "repeats", "pairs", "epochs", "batch") | {"queries": queries, "items": items}
    return finish(RECORD, note, options, load, meter, settings, {"encoders": results})


if __name__ == "__main__":
    sys.exit(main())
