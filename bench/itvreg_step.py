"""What one training step of each regulariser costs, as a multiple of a step of plain fine-tuning on the same pairs.
See README.md."""
import sys
from pathlib import Path

from common import (
    ITVREG, MASKREG, ON_THE_WAY, OUTREG, PLAIN, QUARTER, STEPS, Meter, against_plain, ask_encoders, ask_steps,
    begin, checked_steps, default_encoders, finish, loaded, new_parser, planted_pairs, settings_of, shown_against_plain,
    telling, tokens_a_text,
)

RECORD = Path(__file__).resolve().with_suffix(".json")
VARIANTS = (PLAIN, ITVREG, ON_THE_WAY, QUARTER, OUTREG, MASKREG)
FIGURES = ("step_ms", "base_ms")


def arguments(argv):
    "The options. Ends the program where they make no sense."
    parser = new_parser(__doc__, RECORD, 9, "4 steps, 2 rounds")
    ask_encoders(parser)
    ask_steps(parser, "base values of unchanged texts are prepared once for all of them")
    return checked_steps(parser, parser.parse_args(argv))


def main(argv=None) -> int:
    options = arguments(argv)
    load = begin()
    from debias_nb.repro.config import TrainConfig
    from debias_nb.repro.runs.training import pair_tokens
    training = TrainConfig(learning_rate=1e-3, epochs=options.epochs, batch_size=options.batch)
    results = {}
    meter = Meter()
    for name, encoder, kind in loaded(options.encoder or default_encoders()):
        steps = options.steps or STEPS[kind]
        texts = planted_pairs(steps // options.epochs * options.batch)
        pairs = pair_tokens(encoder, *texts, 32)
        scale = 1000 / steps
        with meter:
            timed = against_plain(VARIANTS, encoder, pairs, training, FIGURES, scale, options.repeats, telling(name))
        results[name] = {"kind": kind, "tokens": tokens_a_text(pairs), "steps": steps, "variants": timed}
        print(shown_against_plain(name, results[name], FIGURES, "ms a step"), end="\n\n")
    note = (
        f"ratios: medians over {options.repeats} rounds [quartiles]; "
        "three passes instead of two: 1.5, a quarter of the third: 1.125"
    )
    settings = settings_of(options, "repeats", "epochs", "batch")
    return finish(RECORD, note, options, load, meter, settings, {"encoders": results})


if __name__ == "__main__":
    sys.exit(main())
