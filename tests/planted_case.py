"What `diagnose` finds in planted worlds, those without any shortcut among them."

WORLD = {"p": 0., "brand_match": 0., "decoys": 0., "accessories": 0., "types": 30, "unseen_types": 15,
         "train_pairs": 800, "broad_pairs": 3000, "queries": 150, "items": 400}


def pairs_frame(pairs):
    "Planted pairs as somebody's own."
    frame = pairs.frame()[["left", "right", "label"]]
    return frame.assign(label=frame.label.astype(int))


def planted_case(world, steps: int, seed: int, tests, epochs: int = 3):
    "What `diagnose` finds in a planted world; the world's static encoder is trained on first use."
    from debias_nb.settings import EncoderConfig, PretrainConfig
    from debias_nb.data.worlds import Catalog
    from debias_nb.encoders.planted import planted_encoder
    from debias_nb.diagnosis.methods import read_method, settings_for, tune
    from debias_nb.diagnosis.diagnose import diagnose
    from debias_nb.diagnosis.models import load_model
    from debias_nb.diagnosis.pairs import read_pairs_file
    catalogue = Catalog(world)
    recipe = PretrainConfig(steps=steps, batch_size=64, learning_rate=2e-2)
    encoder = EncoderConfig(name="tiny-static", kind="static", world=world, pretrain=recipe)
    base = load_model(planted_encoder(encoder))
    train = read_pairs_file(pairs_frame(catalogue.labeled_pairs()), name="train")
    settings = settings_for("static", learning_rate=1e-2, epochs=epochs, batch_size=64)
    tuned = tune(base, train, read_method("plain"), settings, seed)
    frames = {name: pairs_frame(catalogue.test_pairs(name)) for name in tests}
    return diagnose(base, tuned, train, frames, seed=seed)


def alarms(diagnosis) -> list[str]:
    "What a diagnosis warns of."
    losers = diagnosis.verdicts[diagnosis.verdicts.decides & (diagnosis.verdicts.verdict == "worse")].test
    short = diagnosis.shortcuts[diagnosis.shortcuts.shortcut].test
    return [f"worse on {name}" for name in losers] + [f"shortcut on {name}" for name in short]
