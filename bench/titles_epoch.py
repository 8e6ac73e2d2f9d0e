"""What an epoch of training on titles costs with each regulariser, as a multiple of plain fine-tuning on the same pairs. See README.md."""
import math, sys
from pathlib import Path

from common import (ITVREG, MASKREG, OUTREG, PLAIN, QUARTER, THREADS, Meter, against_plain, ask_encoders, begin, checked, default_encoders, finish, loaded, parser, shown_against_plain,
                    tokens_a_text)

RECORD = Path(__file__).resolve().with_suffix(".json")
VARIANTS = (PLAIN, ITVREG, QUARTER, OUTREG, MASKREG)
FIGURES = ("epoch_s", "base_s")

def planted_titles(n): # a `titles.TitlePairs`
    "Planted titles of which at least n pairs are relevant: m queries and m items give about m plus m² / 2500 of them."
    from debias_nb.config import WorldConfig
    from debias_nb.data.titles import catalogue_titles
    from debias_nb.data.worlds import Catalogue
    return catalogue_titles(Catalogue(WorldConfig(train_pairs=math.ceil(50 * math.sqrt(n))))).train

def some_pairs(encoder, titles, n): # `train.PairTokens` of n relevant pairs
    "Raises `ValueError` when there are fewer."
    from dataclasses import replace
    import numpy as np
    from debias_nb.repro.training import title_tokens
    whole = title_tokens(encoder, titles, 32)
    if len(whole) < n: raise ValueError(f"{n:,} relevant pairs are wanted and the titles have {len(whole):,}")
    rows = np.random.default_rng(0).permutation(len(whole))[:n]
    return replace(whole, left=whole.left[rows], right=whole.right[rows], labels=whole.labels[rows], query=whole.query[rows], item=whole.item[rows])

def arguments(argv):
    p = parser(__doc__, RECORD, 5, "4 steps, 2 rounds")
    ask_encoders(p, "the static ones, planted or found there")
    p.add_argument("--pairs", type=int, default=80_000, help="relevant pairs of a query and an item in an epoch (%(default)s)")
    p.add_argument("--epochs", type=int, default=1, help="epochs of a run (%(default)s): base values of unchanged texts are prepared once for all of them")
    p.add_argument("--batch", type=int, default=900, help="pairs in a step (%(default)s)")
    o = p.parse_args(argv)
    if o.quick: o.pairs, o.repeats = 4 * o.batch, 2
    checked(p, o, "pairs", "epochs", "batch")
    if o.batch < 2: p.error("--batch must be at least 2")
    return o

def main(argv=None) -> int:
    o, load = arguments(argv), begin()
    from debias_nb.repro.config import TrainConfig
    training = TrainConfig(loss="hinge", margin=.3, hardest=10, temperature=.1, learning_rate=1e-3, epochs=o.epochs, batch_size=o.batch, threads=THREADS)
    results, meter, titles = {}, Meter(), planted_titles(o.pairs)
    for name, encoder, kind in loaded(o.encoder or [n for n in default_encoders() if n != "tiny"]):
        pairs = some_pairs(encoder, titles, o.pairs)
        with meter: variants = against_plain(VARIANTS, encoder, pairs, training, FIGURES, 1 / o.epochs, o.repeats, lambda line, name=name: print(f"{name}: {line}", file=sys.stderr))
        results[name] = {"kind": kind, "tokens": tokens_a_text(pairs), "variants": variants}
        print(shown_against_plain(name, results[name], FIGURES, "s an epoch"), end="\n\n")
    sizes = {"queries": len(titles.queries), "items": len(titles.items)}
    note = f"{o.pairs:,} pairs of {sizes['queries']:,} queries and {sizes['items']:,} items, {o.batch} in a step; ratios: medians over {o.repeats} rounds [quartiles]"
    return finish(RECORD, note, o.write, load, meter, {k: getattr(o, k) for k in ("repeats", "pairs", "epochs", "batch")} | sizes, {"encoders": results})

if __name__ == "__main__": sys.exit(main())
