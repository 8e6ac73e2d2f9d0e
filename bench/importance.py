"What the importance of all tokens costs, beside captum's feature ablation on the same encoder. See README.md."
import sys

from common import ENCODERS, PLANTED, loaded, measured, print_variants, rounded, run, static_encoders

OURS = "importance"
TOGETHER = "captum, one call for all texts"
SINGLY = "captum, a call a text"
STEPWISE = "captum, a call a text, a pass a token"
AGREE = 1e-5 # largest difference between two values of one token


def planted_texts(n: int) -> list[str]:
    "Texts of one to three titles, so that lengths vary as those of questions do."
    import numpy as np
    from debias_nb.settings import WorldConfig
    from debias_nb.data.worlds import Catalog
    titles = [title.text for pair in Catalog(WorldConfig()).broad() for title in pair]
    rng = np.random.default_rng(0)
    texts = []
    for count in rng.integers(1, 4, size=n):
        rows = rng.integers(len(titles), size=count)
        texts.append(" ".join(titles[row] for row in rows))
    return texts


def changed(model, tokens, given):
    "The tokens with other ids, or in a static table with another mask; once for each time that `given` repeats them."
    from debias_nb.encoders.tokens import Tokens, is_static
    times = len(given) // len(tokens)
    ordinary = tokens.ordinary.repeat(times, 1)
    if is_static(model):
        return Tokens(tokens.ids.repeat(times, 1), given > 0, ordinary)
    return Tokens(given, tokens.mask.repeat(times, 1), ordinary)


def ablation(model, tokens, at_once: int):
    """(n, L) importance from captum, of no interest at special tokens: one minus the cosine is the score's loss when a
    token is ablated. At most `at_once` columns share a forward pass."""
    import torch
    from captum.attr import FeatureAblation
    from debias_nb.encoders.tokens import encode_tokens, is_static, mask_id
    whole = encode_tokens(model, tokens)

    def score(given): # ids with some masked, or the mask of a static table with some switched off
        vectors = encode_tokens(model, changed(model, tokens, given))
        return (vectors * whole.repeat(len(given) // len(tokens), 1)).sum(1)

    if is_static(model):
        inputs, baseline = tokens.mask.float(), 0.
    else:
        inputs, baseline = tokens.ids, mask_id(model)
    with torch.no_grad():
        return FeatureAblation(score).attribute(inputs, baselines=baseline, perturbations_per_eval=at_once)


def ablation_by_text(model, tokens, at_once: int | None):
    "(n, L) the same, a call a text. at_once: None for all columns of a text."
    import torch
    values = torch.full(tokens.ids.shape, float("nan"))
    for row in range(len(tokens)):
        text = tokens[row : row + 1]
        length = text.ids.shape[1]
        values[row, :length] = ablation(model, text, at_once or length)[0]
    return values


def variants(model, tokens) -> dict:
    "Functions by name that give (n, L) values."
    from debias_nb.encoders.interventions import importance
    return {
        OURS: lambda: importance(model, tokens).values,
        TOGETHER: lambda: ablation(model, tokens, 1),
        SINGLY: lambda: ablation_by_text(model, tokens, None),
        STEPWISE: lambda: ablation_by_text(model, tokens, 1),
    }


def agreement(runs: dict, ordinary) -> float:
    "The largest difference to ours, at the tokens that are ordinary. Raises `RuntimeError` naming a variant that disagrees."
    values = {name: run() for name, run in runs.items()}
    differences = {name: (own - values[OURS])[ordinary].abs().max().item() for name, own in values.items()}
    for name, difference in differences.items():
        if not difference <= AGREE: # so that NaN is refused, too
            raise RuntimeError(f"{name}: values differ by up to {difference:g} from those of {OURS}, more than {AGREE:g}")
    return max(differences.values())


def measure(options) -> tuple[dict, dict]:
    from debias_nb.encoders.tokens import tokenize
    import captum
    texts = planted_texts(16 if options.quick else 256)
    results = {}
    for name, encoder, kind in loaded(options.encoder or [PLANTED[0], *static_encoders()]):
        tokens = tokenize(encoder, texts, 32)
        runs = variants(encoder, tokens)
        difference = agreement(runs, tokens.ordinary)
        timed = measured(runs, OURS, options.repeats)
        results[name] = {
            "kind": kind,
            "tokens": rounded(tokens.mask.sum().item() / len(tokens)),
            "longest": tokens.ids.shape[1],
            "difference": rounded(difference, 2),
            "variants": timed,
        }
        head = f"{name} ({kind}, {results[name]['tokens']:.1f} tokens a text, values within {difference:.1g})"
        print_variants(head, timed, {"ms": "ms", f"ratio to {OURS}": "ratio"})
    return {"texts": len(texts)}, {"encoders": results, "captum": captum.__version__}


if __name__ == "__main__":
    sys.exit(run(__file__, __doc__, measure, 9, ENCODERS))
