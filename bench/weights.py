"""What learning the weights of a batch costs, beside the same objective with d × d covariances and autograd. See README.md."""
import sys
from functools import partial
from pathlib import Path
from unittest.mock import patch

from common import THREADS, Meter, agreeing, begin, cell, checked, finish, measured, parser, table

RECORD = Path(__file__).resolve().with_suffix(".json")
OURS, GRAM, DIRECT, AUTOGRAD = "learn_weights", "gram", "direct", "autograd, d × d"
WIDTHS = (32, 64, 128, 256, 384, 768) # d: numbers in a representation
FUNCTIONS = 5                         # r, of both kinds each
AGREE = 1e-4                          # largest difference between two weights of one sample, which are 1 on average

def samples(batch, width): # features and labels of a batch, and a memory that three batches before it have left
    "As a pooler might give them: numbers in (-1, 1), correlated."
    import torch
    from debias_nb.scan import Memory, learn_weights
    dice, memory = torch.Generator().manual_seed(0), Memory("ema")
    mix, labels = torch.randn(8, width, generator=dice) / 8**.5, (torch.arange(batch) % 6 == 0).long()
    batches = [(torch.randn(batch, 8, generator=dice) @ mix + .5 * torch.randn(batch, width, generator=dice)).tanh() for _ in range(4)]
    for features in batches[:3]: memory.update(features, learn_weights(features, labels, memory, generator=dice, class_mass="keep", r=FUNCTIONS))
    return batches[3], labels, memory

def by_autograd(features, labels, memory): # (n,) weights of the batch
    "The objective of `fixed` as one writes it down: a softmax in each class, a covariance for each function, autograd, Adam."
    import torch
    from debias_nb.scan import VARIANTS, fourier, standardise
    form, steps, lr, penalty, kinds, scale = VARIANTS["fixed"].values()
    z, member = standardise(torch.cat([features, memory.features])), torch.nn.functional.one_hot(labels).float()
    values = [f.contiguous() for f in fourier(z.shape[1], FUNCTIONS, torch.Generator().manual_seed(0))(z, kinds).unbind(2)]
    theta = torch.ones(len(features), requires_grad=True)
    def local(): return theta[:, None].masked_fill(member == 0, float("-inf")).softmax(0) @ member.sum(0)
    def loss(w):
        p, total = torch.cat([w, memory.weights])[:, None], 0.
        p = p / p.sum()
        for f in values: # one after the other: its matrices then stay in the processor's cache
            weighted = p * f
            mean = weighted.sum(0)
            squared = (weighted.T @ f - mean[:, None] * mean).square()
            total = total + squared.sum() - squared.diagonal().sum()
        return total / 2
    with torch.no_grad(): uniform = loss(local())
    optimiser = torch.optim.Adam([theta], lr)
    for _ in range(steps):
        optimiser.zero_grad()
        w = local()
        (loss(w) / uniform + penalty * (w.square().mean() - 1)).backward()
        optimiser.step()
    return local().detach()

def by_closed_form(features, labels, memory, through): # (n,); through: `gram`, `direct`, or what is `auto`
    import torch
    from debias_nb import scan
    with patch.object(scan, "decorrelation", partial(scan.decorrelation, through=through)):
        return scan.learn_weights(features, labels, memory, generator=torch.Generator().manual_seed(0), class_mass="keep", r=FUNCTIONS).values

def variants(data) -> dict: # name -> a function that gives weights
    closed = {name: partial(by_closed_form, *data, through) for name, through in ((OURS, "auto"), (GRAM, "gram"), (DIRECT, "direct"))}
    return closed | {AUTOGRAD: partial(by_autograd, *data)}

def chosen(features, memory) -> str: # gram or direct
    "What `auto` takes for these numbers of samples and features."
    from debias_nb.scan import quicker_way
    return quicker_way(len(features) + len(memory.features), features.shape[1], "moment")

def agreement(runs) -> float: return agreeing(runs, OURS, AGREE, "weights") # largest difference of a weight from ours

def shown(result, samples) -> str: # result: width -> what was found for it
    median = lambda v, what: f"{v[what]['median']:.4g}"
    rows = [(d, *(median(r["variants"][n], "ms") for n in (GRAM, DIRECT, AUTOGRAD)), r["auto"], cell(r["variants"][AUTOGRAD]["ratio"]), f"{r['difference']:.1g}") for d, r in result.items()]
    return table((f"features of {samples} samples", *(f"ms, {n}" for n in (GRAM, DIRECT, AUTOGRAD)), "auto takes", f"{AUTOGRAD}, ratio to {OURS}", "weights within"), rows)

def arguments(argv):
    p = parser(__doc__, RECORD, 7, "20 samples and 20 before them, 16 and 32 features, 2 rounds")
    p.add_argument("--batch", type=int, default=140, help="samples of a batch, and of the memory beside it (%(default)s)")
    p.add_argument("--width", type=int, action="append", help=f"features of a sample; may be repeated (default: {', '.join(map(str, WIDTHS))})")
    o = p.parse_args(argv)
    if o.quick: o.batch, o.width, o.repeats = 20, [16, 32], 2
    checked(p, o, "batch")
    o.width = o.width or list(WIDTHS)
    if o.batch < 12: p.error("--batch must be at least 12, so that there are two samples of each class")
    if min(o.width) < 2: p.error("--width must be at least 2")
    return o

def main(argv=None) -> int:
    o, load = arguments(argv), begin()
    from debias_nb.encoders import single_thread
    results, meter = {}, Meter()
    with single_thread(THREADS):
        for width in o.width:
            data = samples(o.batch, width)
            runs = variants(data)
            difference = agreement(runs)
            with meter: timed = measured(runs, OURS, o.repeats, lambda line, width=width: print(f"{width} features: {line}", file=sys.stderr))
            results[str(width)] = {"auto": chosen(data[0], data[2]), "difference": float(f"{difference:.2g}"), "variants": timed}
    print(shown(results, 2 * o.batch), end="\n\n")
    note = f"medians over {o.repeats} rounds [quartiles]; ratio above 1: {OURS} is the faster one"
    return finish(RECORD, note, o.write, load, meter, {k: getattr(o, k) for k in ("repeats", "batch")} | {"functions": FUNCTIONS}, {"widths": results})

if __name__ == "__main__": sys.exit(main())
