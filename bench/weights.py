"""What learning the weights of a batch costs, beside the same objective with d × d covariances and autograd.
See README.md."""
import sys
from functools import partial
from pathlib import Path
from unittest.mock import patch

from common import (
    Meter, agreeing, begin, calm, cell, check_two, checked, finish, measured, new_parser, rounded, settings_of, table,
    telling,
)

RECORD = Path(__file__).resolve().with_suffix(".json")
OURS, GRAM, DIRECT, AUTOGRAD = "learn_weights", "gram", "direct", "autograd, d × d"
WIDTHS = (32, 64, 128, 256, 384, 768) # d: numbers in a representation
FUNCTIONS = 5                         # r, of both kinds each
AGREE = 1e-4                          # largest difference between two weights of one sample, which are 1 on average


def samples(batch: int, width: int) -> tuple:
    """Features and labels of a batch, and a memory that three batches before it have left.
    Features are as a pooler might give them: numbers in (-1, 1), correlated."""
    import torch
    from debias_nb.scan import Memory, learn_weights
    dice = torch.Generator().manual_seed(0)
    memory = Memory("ema")
    mix = torch.randn(8, width, generator=dice) / 8**.5
    labels = (torch.arange(batch) % 6 == 0).long()
    batches = []
    for _ in range(4):
        latent = torch.randn(batch, 8, generator=dice)
        noise = .5 * torch.randn(batch, width, generator=dice)
        batches.append((latent @ mix + noise).tanh())
    *before, last = batches
    for features in before:
        learned = learn_weights(features, labels, memory, generator=dice, class_mass="keep", r=FUNCTIONS)
        memory.update(features, learned)
    return last, labels, memory


def squared_covariances(probabilities, values):
    """Half the squared covariances of different features, summed over functions.
    probabilities: (n, 1); values: (n, d) of each function."""
    total = 0.
    for value in values: # one after the other: its matrices then stay in the processor's cache
        weighted = probabilities * value
        mean = weighted.sum(0)
        squared = (weighted.T @ value - mean[:, None] * mean).square()
        total = total + squared.sum() - squared.diagonal().sum()
    return total / 2


def by_autograd(features, labels, memory):
    """(n,) weights of the batch by the objective of `fixed` as one writes it down: a softmax in each class,
    a covariance for each function, autograd, Adam."""
    import torch
    from debias_nb.scan import VARIANTS, random_features, standardise
    settings = VARIANTS["fixed"]
    z = standardise(torch.cat([features, memory.features]))
    member = torch.nn.functional.one_hot(labels).float()
    functions = random_features(z, FUNCTIONS, torch.Generator().manual_seed(0), settings["kinds"])
    values = [value.contiguous() for value in functions.unbind(2)]
    theta = torch.ones(len(features), requires_grad=True)

    def local():
        in_class = theta[:, None].masked_fill(member == 0, float("-inf")).softmax(0)
        return in_class @ member.sum(0)

    def loss(weights):
        whole = torch.cat([weights, memory.weights])[:, None]
        return squared_covariances(whole / whole.sum(), values)

    with torch.no_grad():
        uniform = loss(local())
    optimiser = torch.optim.Adam([theta], settings["lr"])
    for _ in range(settings["steps"]):
        optimiser.zero_grad()
        weights = local()
        size = weights.square().mean() - 1
        (loss(weights) / uniform + settings["penalty"] * size).backward()
        optimiser.step()
    return local().detach()


def by_closed_form(features, labels, memory, through: str):
    "(n,) weights. through: `gram`, `direct`, or what is `auto`."
    import torch
    from debias_nb import scan
    dice = torch.Generator().manual_seed(0)
    with patch.object(scan, "decorrelation", partial(scan.decorrelation, through=through)):
        learned = scan.learn_weights(features, labels, memory, generator=dice, class_mass="keep", r=FUNCTIONS)
    return learned.values


def variants(data) -> dict:
    "Functions by name that give weights."
    return {
        OURS: partial(by_closed_form, *data, "auto"),
        GRAM: partial(by_closed_form, *data, "gram"),
        DIRECT: partial(by_closed_form, *data, "direct"),
        AUTOGRAD: partial(by_autograd, *data),
    }


def chosen(features, memory) -> str:
    "What `auto` takes for these numbers of samples and features, `gram` or `direct`."
    from debias_nb.scan import quicker_way
    return quicker_way(len(features) + len(memory.features), features.shape[1], "moment")


def agreement(runs: dict) -> float:
    "The largest difference of a weight from ours. Raises `RuntimeError` as `agreeing` does."
    return agreeing(runs, OURS, AGREE, "weights")


def shown(results: dict, samples: int) -> str:
    "The table. results: width -> what was found for it."
    ways = (GRAM, DIRECT, AUTOGRAD)
    rows = []
    for width, result in results.items():
        timed = result["variants"]
        times = [f"{timed[way]['ms']['median']:.4g}" for way in ways]
        rows.append((width, *times, result["auto"], cell(timed[AUTOGRAD]["ratio"]), f"{result['difference']:.1g}"))
    columns = [f"ms, {way}" for way in ways]
    last = ("auto takes", f"{AUTOGRAD}, ratio to {OURS}", "weights within")
    return table((f"features of {samples} samples", *columns, *last), rows)


def arguments(argv):
    "The options. Ends the program where they make no sense."
    parser = new_parser(__doc__, RECORD, 7, "20 samples and 20 before them, 16 and 32 features, 2 rounds")
    batch = "samples of a batch, and of the memory beside it (%(default)s)"
    width = f"features of a sample; may be repeated (default: {', '.join(map(str, WIDTHS))})"
    parser.add_argument("--batch", type=int, default=140, help=batch)
    parser.add_argument("--width", type=int, action="append", help=width)
    options = parser.parse_args(argv)
    if options.quick:
        options.batch = 20
        options.width = [16, 32]
        options.repeats = 2
    checked(parser, options, "batch")
    options.width = options.width or list(WIDTHS)
    if options.batch < 12:
        parser.error("--batch must be at least 12, so that there are two samples of each class")
    check_two(parser, "width", min(options.width))
    return options


def main(argv=None) -> int:
    options = arguments(argv)
    load = begin()
    results = {}
    meter = Meter()
    with calm():
        for width in options.width:
            data = samples(options.batch, width)
            features, _, memory = data
            runs = variants(data)
            difference = agreement(runs)
            with meter:
                timed = measured(runs, OURS, options.repeats, telling(f"{width} features"))
            results[str(width)] = {
                "auto": chosen(features, memory),
                "difference": rounded(difference, 2),
                "variants": timed,
            }
    print(shown(results, 2 * options.batch), end="\n\n")
    note = f"medians over {options.repeats} rounds [quartiles]; ratio above 1: {OURS} is the faster one"
    settings = settings_of(options, "repeats", "batch") | {"functions": FUNCTIONS}
    return finish(RECORD, note, options, load, meter, settings, {"widths": results})


if __name__ == "__main__":
    sys.exit(main())
