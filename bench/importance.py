"""What the importance of all tokens costs, beside captum's feature ablation on the same encoder. See README.md."""
import sys
from pathlib import Path

from common import Meter, agreeing, ask_encoders, begin, cell, checked, default_encoders, finish, loaded, measured, parser, table

RECORD = Path(__file__).resolve().with_suffix(".json")
OURS, TOGETHER, SINGLY, STEPWISE = "importance", "captum, one call for all texts", "captum, a call a text", "captum, a call a text, a pass a token"
AGREE = 1e-5 # largest difference between two values of one token

def planted_texts(n): # of one to three titles, so that lengths vary as those of questions do
    import numpy as np
    from debias_nb.config import WorldConfig
    from debias_nb.data.worlds import Catalogue
    titles = [t.text for pair in Catalogue(WorldConfig()).broad() for t in pair]
    rng = np.random.default_rng(0)
    return [" ".join(titles[i] for i in rng.integers(len(titles), size=k)) for k in rng.integers(1, 4, size=n)]

def ablation(model, tokens, at_once): # (n, L), values at special tokens are of no interest
    "Importance from captum: one minus the cosine is the score's loss when a token is ablated. At most `at_once` columns share a forward pass."
    import torch
    from captum.attr import FeatureAblation
    from debias_nb.encoders import Tokens, encode_tokens, is_static, mask_id
    whole, static = encode_tokens(model, tokens), is_static(model)
    def score(x): # ids with some masked, or the mask of a static table with some switched off
        times = len(x) // len(tokens)
        repeated = lambda t: t.repeat(times, 1)
        changed = Tokens(repeated(tokens.ids), x > 0, repeated(tokens.ordinary)) if static else Tokens(x, repeated(tokens.mask), repeated(tokens.ordinary))
        return (encode_tokens(model, changed) * repeated(whole)).sum(1)
    inputs, baseline = (tokens.mask.float(), 0.) if static else (tokens.ids, mask_id(model))
    with torch.no_grad(): return FeatureAblation(score).attribute(inputs, baselines=baseline, perturbations_per_eval=at_once)

def variants(model, tokens) -> dict: # name -> a function that gives (n, L) values
    import torch
    from debias_nb.interventions import importance
    def singly(at_once):
        out = torch.full(tokens.ids.shape, float("nan"))
        for i in range(len(tokens)):
            part = tokens[i : i + 1]
            out[i, : part.ids.shape[1]] = ablation(model, part, at_once or part.ids.shape[1])[0]
        return out
    return {OURS: lambda: importance(model, tokens), TOGETHER: lambda: ablation(model, tokens, 1), SINGLY: lambda: singly(None), STEPWISE: lambda: singly(1)}

def agreement(runs, ordinary) -> float: return agreeing(runs, OURS, AGREE, "values", ordinary) # largest difference to ours, at the tokens that are ordinary

def shown(name, result) -> str:
    rows = [(n, cell(v["ms"]), cell(v["ratio"])) for n, v in result["variants"].items()]
    return table((f"{name} ({result['kind']}, {result['tokens']:.1f} tokens a text, values within {result['difference']:.1g})", "ms", f"ratio to {OURS}"), rows)

def arguments(argv):
    p = parser(__doc__, RECORD, 9, "16 texts, 2 rounds")
    ask_encoders(p)
    p.add_argument("--texts", type=int, default=256, help="how many (%(default)s)")
    o = p.parse_args(argv)
    if o.quick: o.texts, o.repeats = 16, 2
    return checked(p, o, "texts")

def main(argv=None) -> int:
    o, load = arguments(argv), begin()
    from debias_nb.encoders import tokenise
    import captum
    results, meter = {}, Meter()
    for name, encoder, kind in loaded(o.encoder or default_encoders()):
        tokens = tokenise(encoder, planted_texts(o.texts), 32)
        runs = variants(encoder, tokens)
        difference = agreement(runs, tokens.ordinary)
        with meter: timed = measured(runs, OURS, o.repeats, lambda line, name=name: print(f"{name}: {line}", file=sys.stderr))
        results[name] = {"kind": kind, "tokens": float(f"{tokens.mask.sum().item() / len(tokens):.4g}"), "longest": tokens.ids.shape[1], "difference": float(f"{difference:.2g}"),
                         "variants": timed}
        print(shown(name, results[name]), end="\n\n")
    note = f"ratios: medians over {o.repeats} rounds [quartiles]; above 1 {OURS} is the faster one"
    return finish(RECORD, note, o.write, load, meter, {k: getattr(o, k) for k in ("repeats", "texts")}, {"encoders": results, "captum": captum.__version__})

if __name__ == "__main__": sys.exit(main())
