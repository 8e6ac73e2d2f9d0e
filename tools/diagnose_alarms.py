"""How often `diagnose` raises an alarm where there is nothing to find: planted worlds without any shortcut, an encoder
fine-tuned on each, a test drawn as the training pairs were. An alarm is a verdict of harm, or a shortcut.

    python tools/diagnose_alarms.py            # twenty worlds
    python tools/diagnose_alarms.py --seeds 3
"""
import argparse
import sys

WORLD = {"p": 0., "brand_match": 0., "decoys": 0., "accessories": 0., "types": 30, "unseen_types": 15,
         "train_pairs": 800, "broad_pairs": 3000, "queries": 150, "items": 400}


def pairs_frame(pairs):
    "Planted pairs as somebody's own."
    frame = pairs.frame()[["left", "right", "label"]]
    return frame.assign(label=frame.label.astype(int))


def planted_case(world, steps: int, seed: int, tests, epochs: int = 3):
    "What `diagnose` finds in a planted world; the world's static encoder is trained on first use."
    from debias_nb.config import EncoderConfig, PretrainConfig
    from debias_nb.data.worlds import Catalogue
    from debias_nb.data.planted_encoder import planted_encoder
    from debias_nb.explain.compare import Settings, fine_tune, read_method
    from debias_nb.explain.diagnose import diagnose
    from debias_nb.explain.models import load_model
    from debias_nb.explain.pairs_file import read_pairs_file
    catalogue = Catalogue(world)
    recipe = PretrainConfig(steps=steps, batch_size=64, learning_rate=2e-2)
    encoder = EncoderConfig(name="tiny-static", kind="static", world=world, pretrain=recipe)
    base = load_model(planted_encoder(encoder))
    train = read_pairs_file(pairs_frame(catalogue.labelled_pairs()), name="train")
    settings = Settings(learning_rate=1e-2, epochs=epochs, batch_size=64)
    tuned = fine_tune(base, train, read_method("plain"), settings, seed)
    frames = {name: pairs_frame(catalogue.test_pairs(name)) for name in tests}
    return diagnose(base, tuned, train, frames, seed=seed, progress=False)


def alarms(found) -> list[str]:
    "What a diagnosis warns of."
    harmed = found.verdicts[found.verdicts.verdict == "harm"].test
    short = found.shortcuts[found.shortcuts.shortcut].test
    return [f"harm on {name}" for name in harmed] + [f"shortcut on {name}" for name in short]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="how many worlds (%(default)s)")
    count = parser.parse_args().seeds
    import torch
    import transformers
    from debias_nb.config import WorldConfig
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    false = 0
    for seed in range(count):
        found = planted_case(WorldConfig(seed=seed, **WORLD), 100, seed, ["iid"])
        raised = alarms(found)
        false += bool(raised)
        print(f"world {seed}: {'; '.join(raised) or 'no alarm'}. {found.sentences[0]}", flush=True)
    print(f"{false} of {count} worlds without a shortcut raised an alarm")
    return int(false > max(1, count // 20))


if __name__ == "__main__":
    sys.exit(main())
