"""What one training step of each regulariser costs, as a multiple of a step of plain fine-tuning on the same pairs. See README.md."""
import sys
from pathlib import Path

from common import (ITVREG, MASKREG, ON_THE_WAY, OUTREG, PLAIN, QUARTER, STEPS, THREADS, Meter, against_plain, ask_encoders, ask_steps, begin, checked_steps, default_encoders,
                    finish, loaded, parser, planted_pairs, shown_against_plain, tokens_a_text)

RECORD = Path(__file__).resolve().with_suffix(".json")
VARIANTS = (PLAIN, ITVREG, ON_THE_WAY, QUARTER, OUTREG, MASKREG)
FIGURES = ("step_ms", "base_ms")

def arguments(argv):
    p = parser(__doc__, RECORD, 9, "4 steps, 2 rounds")
    ask_encoders(p)
    ask_steps(p, "base values of unchanged texts are prepared once for all of them")
    return checked_steps(p, p.parse_args(argv))

def main(argv=None) -> int:
    o, load = arguments(argv), begin()
    from debias_nb.repro.config import TrainConfig
    from debias_nb.repro.training import pair_tokens
    training = TrainConfig(learning_rate=1e-3, epochs=o.epochs, batch_size=o.batch, threads=THREADS)
    results, meter = {}, Meter()
    for name, encoder, kind in loaded(o.encoder or default_encoders()):
        steps = o.steps or STEPS[kind]
        pairs = pair_tokens(encoder, *planted_pairs(steps // o.epochs * o.batch), 32)
        with meter: variants = against_plain(VARIANTS, encoder, pairs, training, FIGURES, 1000 / steps, o.repeats, lambda line, name=name: print(f"{name}: {line}", file=sys.stderr))
        results[name] = {"kind": kind, "tokens": tokens_a_text(pairs), "steps": steps, "variants": variants}
        print(shown_against_plain(name, results[name], FIGURES, "ms a step"), end="\n\n")
    note = f"ratios: medians over {o.repeats} rounds [quartiles]; three passes instead of two: 1.5, a quarter of the third: 1.125"
    return finish(RECORD, note, o.write, load, meter, {k: getattr(o, k) for k in ("repeats", "epochs", "batch")}, {"encoders": results})

if __name__ == "__main__": sys.exit(main())
