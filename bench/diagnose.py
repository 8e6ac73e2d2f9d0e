"What a diagnosis costs, beside encoding the same pairs once by each of its two models, in CPU time. See README.md."
import copy
import sys
import time

from common import ENCODERS, loaded, measured, print_variants, run, static_encoders

OURS = "diagnose"
ENCODING = "encoding, embed_texts"
DEFAULT = "encoding, sentence-transformers' encode"
TESTS = {"iid": .3, "new": .3} # share of the pairs; the rest is training


def planted_files(n: int) -> tuple:
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
    from debias_nb.diagnosis.diagnose import diagnose
    models = (base, tuned)
    tests = {name: files[name] for name in TESTS}
    return {
        ENCODING: lambda: [embed_texts(model, texts) for model in models],
        DEFAULT: lambda: [model.encode(texts, show_progress_bar=False) for model in models],
        OURS: lambda: diagnose(base, tuned, files["train"], tests),
    }


def measure(options) -> tuple[dict, dict]:
    "CPU time, which others disturb less than the clock's."
    pairs = 200 if options.quick else 10_000
    files, texts = planted_files(pairs)
    results = {}
    for name, base, kind in loaded(options.encoder or static_encoders()):
        timed = measured(variants(base, neighbor(base), files, texts), DEFAULT, options.repeats, time.process_time)
        results[name] = {"kind": kind, "pairs": pairs, "variants": timed}
        print_variants(f"{name} ({kind}, {pairs:,} pairs)", timed, {"CPU ms": "ms", "ratio to encode": "ratio"})
    return {"pairs": pairs}, {"clock": "CPU time", "encoders": results}


if __name__ == "__main__":
    sys.exit(run(__file__, __doc__, measure, 5, ENCODERS))
