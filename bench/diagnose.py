"""What a diagnosis costs, beside encoding the same pairs once by each of its two models, in CPU time. See README.md."""
import copy
import gc
import sys
import time
from pathlib import Path

from common import Meter, begin, cell, checked, compare, default_encoders, finish, loaded, parser, table

RECORD = Path(__file__).resolve().with_suffix(".json")
OURS, ENCODING, DEFAULT = "diagnose", "encoding, embed_texts", "encoding, sentence-transformers' encode"
TESTS = {"iid": .3, "new": .3} # share of the pairs; the rest is training

def planted_pairs(n):
    "Files of pairs, training first: titles of one to three products each, a quarter of the pairs matches."
    import numpy as np
    import pandas as pd
    from debias_nb.config import WorldConfig
    from debias_nb.data.worlds import Catalogue
    catalogue = Catalogue(WorldConfig(train_pairs=max(50, n // 4), negatives=3))
    pairs = catalogue.labelled_pairs().frame()[["left", "right", "label"]][:n]
    pairs["label"] = pairs.label.astype(int)
    ends = np.cumsum([round(share * n) for share in TESTS.values()])
    tests = {name: pairs[start:end] for name, start, end in zip(TESTS, [0, *ends], ends)}
    return {"train": pairs[ends[-1]:], **tests}, pd.concat([pairs.left, pairs.right]).tolist()

def neighbour(model):
    "A model of the same make with other weights."
    import torch
    other = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in other.parameters():
            weight += .1 * weight.std() * torch.randn(weight.shape, generator=generator)
    return other

def variants(base, tuned, files, texts) -> dict: # name -> function
    from debias_nb.encoders import embed_texts
    from debias_nb.explain.diagnose import diagnose
    tests = {name: files[name] for name in TESTS}
    return {
        ENCODING: lambda: [embed_texts(model, texts) for model in (base, tuned)],
        DEFAULT: lambda: [model.encode(texts, show_progress_bar=False) for model in (base, tuned)],
        OURS: lambda: diagnose(base, tuned, files["train"], tests, progress=False),
    }

def cpu_ms(run) -> float:
    "Milliseconds of this process, which others disturb less than those of the clock."
    gc.collect()
    start = time.process_time()
    run()
    return 1000 * (time.process_time() - start)

def shown(name, result) -> str:
    rows = [(n, cell(v["ms"]), cell(v["ratio"])) for n, v in result["variants"].items()]
    return table((f"{name} ({result['kind']}, {result['pairs']:,} pairs)", "CPU ms", "ratio to encode"), rows)

def arguments(argv):
    p = parser(__doc__, RECORD, 5, "200 pairs, 2 rounds")
    p.add_argument("--encoder", action="append", help="tiny, tiny-static, or a folder under DEBIAS_NB_MODELS; may be repeated (default: tiny-static and the static ones found there)")
    p.add_argument("--busy", action="store_true", help="with --write: also on a busy machine; the record says so")
    p.add_argument("--pairs", type=int, default=10_000, help="how many, training and both tests together (%(default)s)")
    o = p.parse_args(argv)
    if o.quick: o.pairs, o.repeats = 200, 2
    return checked(p, o, "pairs")

def main(argv=None) -> int:
    o, load = arguments(argv), begin()
    names = o.encoder or [name for name in default_encoders() if name != "tiny"]
    results, meter = {}, Meter()
    files, texts = planted_pairs(o.pairs)
    for name, base, kind in loaded(names):
        runs = variants(base, neighbour(base), files, texts)
        say = lambda line, name=name: print(f"{name}: {line}", file=sys.stderr)
        with meter: timed = compare(list(runs), lambda variant, runs=runs: {"ms": cpu_ms(runs[variant])}, DEFAULT, o.repeats, say)
        results[name] = {"kind": kind, "pairs": o.pairs, "variants": timed}
        print(shown(name, results[name]), end="\n\n")
    note = f"ratios: medians over {o.repeats} rounds [quartiles]; CPU time beside that of encoding all pairs once by each model"
    return finish(RECORD, note, o.write, load, meter, {k: getattr(o, k) for k in ("repeats", "pairs")}, {"clock": "CPU time", "encoders": results}, o.busy)

if __name__ == "__main__": sys.exit(main())
