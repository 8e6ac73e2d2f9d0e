"""Three diagnoses of real fine-tuning, written to reports/diagnose/: pages, their twins, and a README.md that says what each found.

questions   Quora's duplicate questions, tested on their own test and on AskUbuntu
products    offers of computers, tested on all four categories
forum       AskUbuntu's duplicate questions, tested on their own test and on Quora

    python tools/diagnose_cases.py               # all, with the published data under DEBIAS_NB_DATA
    python tools/diagnose_cases.py questions
    python tools/diagnose_cases.py --list        # README.md alone, from the twins that are there

The static encoder potion-base-2M, at the rates and epochs of the tables in configs/itvreg. Files of pairs are written
to a folder of their own first, since `diagnose` reads what anybody would give it.
"""
import argparse
import json
import os
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from notebooks import ROOT

OUT = ROOT / "reports" / "diagnose"
ENCODER = "potion-base-2M"
CASES = { # training corpus, tests, rate, epochs, longest text in tokens
    "questions": ("quora", ("quora", "askubuntu"), 1e-1, 5, 32),
    "products": ("computers", ("computers", "cameras", "shoes", "watches"), 2e-1, 10, 64),
    "forum": ("askubuntu", ("askubuntu", "quora"), 1e-1, 5, 32),
}


def written(pairs, path: Path) -> str:
    "A CSV file of pairs."
    import pandas as pd
    frame = pd.DataFrame({"left": pairs.left, "right": pairs.right, "label": pairs.labels.astype(int)})
    frame.to_csv(path, index=False)
    return path.name


def fine_tuned(base, pairs, rate: float, epochs: int, longest: int):
    "A copy of the encoder, fine-tuned as the tables do."
    import copy
    from debias_nb.repro.config import MethodConfig, TrainConfig
    from debias_nb.repro.training import fine_tune, pair_tokens
    model = copy.deepcopy(base)
    tokens = pair_tokens(base, pairs.left, pairs.right, pairs.labels, longest)
    training = TrainConfig(learning_rate=rate, epochs=epochs, batch_size=250)
    fine_tune(model, base, tokens, MethodConfig(name="Finetuned"), training, seed=0)
    return model


def make(name: str, folder: Path) -> None:
    "One case: the model trained, its page and twin written."
    from debias_nb.encoders import load_encoder
    from debias_nb.explain.diagnose import diagnose_command
    from debias_nb.repro.config import CorpusConfig
    from debias_nb.repro.tasks.pairs import evaluation_pairs, training_pairs
    corpus, tests, rate, epochs, longest = CASES[name]
    pairs = training_pairs(CorpusConfig(name=corpus))
    base = load_encoder(ENCODER)
    fine_tuned(base, pairs, rate, epochs, longest).save(str(folder / "tuned"), create_model_card=False)
    train = written(pairs, folder / f"{corpus}_train.csv")
    named = []
    for test in tests:
        file = written(evaluation_pairs(test, None, None), folder / f"{test}.csv")
        named.append(f"{test}={file}")
    OUT.mkdir(exist_ok=True)
    page = str(OUT / f"{name}.html")
    twin = str(OUT / f"{name}.json")
    with chdir(folder): # so that the page says `tuned` and `train.csv`, and no path of this machine
        diagnose_command(ENCODER, "tuned", train, named, html=page, json=twin, overwrite=True, progress=False)


HEAD = """# Three diagnoses

Each page is one HTML file with its figures inside, as `debias-nb diagnose` writes it: a code host shows its source, so download it and open it in a browser. The JSON file beside it has the same numbers. {encoder} was fine-tuned on one set of pairs and tested on several; `tools/diagnose_cases.py` makes the pages and this list.
"""


def listed(folder: Path = OUT) -> str:
    "Markdown: what each diagnosis says of its tests, and where its page is."
    parts = [HEAD.format(encoder=ENCODER)]
    for name, (corpus, *_) in CASES.items():
        twin = json.loads((folder / f"{name}.json").read_text("utf-8"))
        sentences = "\n".join(f"- {sentence}" for sentence in twin["sentences"])
        parts.append(f"## {name}: trained on {corpus}\n\n[Page](./{name}.html), [numbers](./{name}.json).\n\n{sentences}\n")
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"some of {', '.join(CASES)}; default: all")
    parser.add_argument("--list", action="store_true", help="write README.md alone")
    args = parser.parse_args()
    asked = [] if args.list else args.cases or list(CASES)
    unknown = [name for name in asked if name not in CASES]
    if unknown:
        parser.error(f"no case is called {unknown[0]!r} (known: {', '.join(CASES)})")
    if asked:
        make_all(asked)
    (OUT / "README.md").write_text(listed(), "utf-8")
    return 0


def make_all(asked: list[str]) -> None:
    "Some cases, on one thread."
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch
    import transformers
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    for name in asked:
        with tempfile.TemporaryDirectory() as folder:
            make(name, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
