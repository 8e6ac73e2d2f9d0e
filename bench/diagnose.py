"What a diagnosis costs, beside encoding the same pairs once by each of its two models, in CPU time. See README.md."
import copy
import sys
from pathlib import Path

from common import (
    Meter, ask_busy, ask_encoders, begin, checked, finish, loaded, measured, new_parser, settings_of, static_encoders,
    telling, variants_table,
)

RECORD = Path(__file__).resolve().with_suffix(".json")
OURS = "diagnose"
ENCODING = "encoding, embed_texts"
DEFAULT = "encoding, sentence-transformers' encode"
TESTS = {"iid": .3, "new": .3} # share of the pairs; the rest is training


def planted_pairs(n: int) -> tuple:
    """Files of n pairs by name, training first: titles of one to three products each, a quarter of the pairs matches.
    Besides all of their texts."""
    import numpy as np
    import pandas as pd
    from debias_nb.settings import WorldConfig
    from debias_nb.data.worlds import Catalog
    catalogue = Catalog(WorldConfig(train_pairs=max(50, n // 4), negatives=3))
    pairs = catalogue.labeled_pairs().frame()[["left", "right", "label"]][:n]
    pairs["label"] = pairs.label.astype(int)
    ends = np.cumsum([round(share * n) for share in TESTS.values()])
    tests = {name: pairs[start:end] for name, start, end in zip(TESTS, [0, *ends], ends)}
    texts = pd.concat([pairs.left, pairs.right]).tolist()
    return {"train": pairs[ends[-1]:], **tests}, texts


def neighbor(model):
    "A model of the same make with other weights."
    import torch
    other = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in other.parameters():
            weight += .1 * weight.std() * torch.randn(weight.shape, generator=generator)
    return other


def variants(base, tuned, files: dict, texts: list[str]) -> dict:
    "What is timed, by name: functions."
    from debias_nb.encoders.tokens import embed_texts
    from debias_nb.explain.diagnose import diagnose
    models = (base, tuned)
    tests = {name: files[name] for name in TESTS}
    return {
        ENCODING: lambda: [embed_texts(model, texts) for model in models],
        DEFAULT: lambda: [model.encode(texts, show_progress_bar=False) for model in models],
        OURS: lambda: diagnose(base, tuned, files["train"], tests, progress=False),
    }


def shown(name: str, result: dict) -> str:
    "The table of an encoder."
    head = f"{name} ({result['kind']}, {result['pairs']:,} pairs)"
    return variants_table(head, result, {"CPU ms": "ms", "ratio to encode": "ratio"})


def arguments(argv):
    "The options. Ends the program where they make no sense."
    parser = new_parser(__doc__, RECORD, 5, "200 pairs, 2 rounds")
    ask_encoders(parser, "tiny-static and the static ones found there")
    ask_busy(parser)
    pairs = "how many, training and both tests together (%(default)s)"
    parser.add_argument("--pairs", type=int, default=10_000, help=pairs)
    options = parser.parse_args(argv)
    if options.quick:
        options.pairs = 200
        options.repeats = 2
    return checked(parser, options, "pairs")


def main(argv=None) -> int:
    options = arguments(argv)
    load = begin()
    names = options.encoder or static_encoders()
    results = {}
    meter = Meter()
    files, texts = planted_pairs(options.pairs)
    for name, base, kind in loaded(names):
        runs = variants(base, neighbor(base), files, texts)
        with meter: # CPU time, which others disturb less than the clock's
            timed = measured(runs, DEFAULT, options.repeats, telling(name), "process_time")
        results[name] = {"kind": kind, "pairs": options.pairs, "variants": timed}
        print(shown(name, results[name]), end="\n\n")
    note = (
        f"ratios: medians over {options.repeats} rounds [quartiles]; "
        "CPU time beside that of encoding all pairs once by each model"
    )
    settings = settings_of(options, "repeats", "pairs")
    return finish(RECORD, note, options, load, meter, settings, {"clock": "CPU time", "encoders": results})


if __name__ == "__main__":
    sys.exit(main())
