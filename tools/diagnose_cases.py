"""Diagnoses of real fine-tuning, written to reports/diagnosis/: pages, their twins, and a README.md with their finds.

questions     Quora's duplicate questions, tested on their own test and on AskUbuntu
products      offers of computers, tested on all four categories
forum         AskUbuntu's duplicate questions, tested on their own test and on Quora
transformer   a tenth of Quora's duplicate questions, tested as `questions` is, with MiniLM
search        `questions` again, tested by retrieval: each question is to find its duplicate among all of them

    python tools/diagnose_cases.py               # all, with the published data under DEBIAS_NB_DATA
    python tools/diagnose_cases.py questions
    python tools/diagnose_cases.py --pages       # pages and README.md in today's words, from the twins that are there

Texts of a corpus whose terms do not allow it (`RESTRICTED`) are not shown: their place in the file stands for them.

Encoders, rates and epochs are those of the tables in experiments/itvreg. Files of pairs are written to a folder of
their own first, since `diagnose` reads what anybody would give it.
"""
import argparse
import json
import math
import os
import sys
import tempfile
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from notebooks import ROOT

OUT = ROOT / "reports" / "diagnosis"


@dataclass(frozen=True)
class Case:
    "What is fine-tuned, and on what it is tested."
    corpus: str
    tests: tuple[str, ...]
    rate: float
    epochs: int
    longest: int               # text in tokens
    batch: int = 250
    share: float = 1.          # of the training pairs
    encoder: str = "potion-base-2M"
    dtype: str = "fp32"
    search: bool = False       # matches alone: each left text is to find its right one among all


CASES = {
    "questions": Case("quora", ("quora", "askubuntu"), 1e-1, 5, 32),
    "products": Case("computers", ("computers", "cameras", "shoes", "watches"), 2e-1, 10, 64),
    "forum": Case("askubuntu", ("askubuntu", "quora"), 1e-1, 5, 32),
    "transformer": Case(
        "quora", ("quora", "askubuntu"), 3e-5, 2, 32, batch=64, share=.1, encoder="minilm", dtype="bf16"),
    "search": Case("quora", ("quora", "askubuntu"), 1e-1, 5, 32, search=True),
}


RESTRICTED = ("quora",) # corpora whose texts may not be offered here; see LICENCES.md
OF_WORDS = [f"{side} {moment}" for side in ("left", "right") for moment in ("before", "after")] # columns of `lost`


def without_texts(found, case: Case) -> None: # found: a `Diagnosis`, which is changed
    "Write the places of texts of restricted corpora instead of these texts, and leave out what is told of their words."
    for test, rows in found.lost.items():
        if test in RESTRICTED:
            for side in rows.columns.intersection(["left", "right", "instead"]):
                rows[side] = [f"[{test}, line {line}, {side}]" for line in rows.line]
            for column in rows.columns.intersection(OF_WORDS):
                rows[column] = [[]] * len(rows)


def written(pairs, path: Path, search: bool = False) -> str:
    "A CSV file of pairs, or of matches to be searched."
    import pandas as pd
    frame = pd.DataFrame({"left": pairs.left, "right": pairs.right, "label": pairs.labels.astype(int)})
    if search:
        frame = frame[frame.label == 1].rename(columns={"left": "anchor", "right": "positive"})[["anchor", "positive"]]
    frame.to_csv(path, index=False)
    return path.name


def fine_tuned(base, pairs, case: Case):
    "A copy of the encoder, fine-tuned as the tables do."
    import copy
    from debias_nb.runs.settings import PairMethod, PairTraining
    from debias_nb.runs.pair_batches import pair_tokens
    from debias_nb.runs.training import fine_tune
    model = copy.deepcopy(base)
    tokens = pair_tokens(base, pairs.left, pairs.right, pairs.labels, case.longest)
    training = PairTraining(learning_rate=case.rate, epochs=case.epochs, batch_size=case.batch)
    fine_tune(model, base, tokens, PairMethod(name="Finetuned"), training, seed=0, dtype=case.dtype)
    return model


def make(name: str, folder: Path) -> None:
    "The model of a case trained, its page and twin written."
    from debias_nb.encoders.loading import load_encoder
    from debias_nb.diagnosis.diagnose import diagnose
    from debias_nb.files import write_whole
    from debias_nb.papers.settings.pairs import PairsCorpus
    from debias_nb.papers.data.labeled_pairs import evaluation_pairs, training_pairs
    case = CASES[name]
    pairs = training_pairs(PairsCorpus(name=case.corpus, share=case.share))
    base = load_encoder(case.encoder)
    fine_tuned(base, pairs, case).save(str(folder / "tuned"), create_model_card=False)
    train = written(pairs, folder / f"{case.corpus}_train.csv")
    tests = {test: written(evaluation_pairs(test, None, None), folder / f"{test}.csv", case.search)
             for test in case.tests}
    OUT.mkdir(exist_ok=True)
    with chdir(folder): # so that the page says `tuned` and `train.csv`, and no path of this machine
        found = diagnose(case.encoder, "tuned", train, tests, like=case.corpus)
    without_texts(found, case)
    write_whole(OUT / f"{name}.json", found.json())
    reword(name) # the page is what the twin gives


def from_twin(twin: dict, like: str): # like: the test in distribution
    "Return the `Diagnosis` that a twin's numbers give, in the words of now; of averaged weights it has the best share."
    import pandas as pd
    from debias_nb.diagnosis.decision import Averaged, Result, decide, results_of
    from debias_nb.diagnosis.diagnose import Diagnosis
    parts = {name: value for name, value in twin.items() if name not in ("made by", "schema", "verdict")}
    parts |= {name: pd.DataFrame(twin[name]) for name in ("verdicts", "averaged", "thresholds", "shortcuts", "overlap")}
    parts |= {name: {key: pd.DataFrame(rows) for key, rows in twin[name].items()} for name in ("words", "lost")}
    for rows in parts["lost"].values(): # nan for a word that a model does not see
        for column in rows.columns.intersection(OF_WORDS):
            rows[column] = [[math.nan if share is None else share for share in shares] for shares in rows[column]]
    best = twin["decision"]["averaged"]
    results = [Result(**row | {"like": row["test"] == like}) for row in best["results"]] if best else []
    shares = [Averaged(best["share"], best["mean"], results)] if best else []
    decision = decide(results_of(parts["verdicts"], like), shares, margin=twin["decision"]["margin"])
    return Diagnosis(**parts | {"decision": decision})


def reword(name: str) -> None:
    "Write a case's page and twin again as templates and sentences are now; no number changes."
    from debias_nb.files import write_whole
    found = from_twin(json.loads((OUT / f"{name}.json").read_text("utf-8")), CASES[name].corpus)
    write_whole(OUT / f"{name}.html", found.html())
    write_whole(OUT / f"{name}.json", found.json())


HEAD = """# Diagnoses

Five encoders, each fine-tuned on one set of pairs and tested on several, as `debias-nb diagnose` reports them. \
A page is one HTML file with its figures inside; \
a code host shows its source, so download it and open it in a browser. \
`tools/diagnose_cases.py` makes the pages and this list. \
Quora's terms do not allow its questions here: where one would stand, the page names its file and line."""


def listed() -> str:
    "Markdown: what each diagnosis decides, where its page is, and folded, what it says of its tests."
    import pandas as pd
    from debias_nb.diagnosis.verdicts import lines
    parts = [HEAD]
    for name, case in CASES.items():
        twin = json.loads((OUT / f"{name}.json").read_text("utf-8"))
        trained = case.corpus if case.share == 1 else f"{100 * case.share:.0f}% of {case.corpus}"
        addition = ", tested by retrieval" if case.search else ""
        parts.append(f"## {case.encoder}, trained on {trained}{addition}")
        parts.append(f"**{twin['decision']['heading']}** [Page](./{name}.html) · [numbers](./{name}.json)")
        if (OUT / f"{name}.png").exists():
            parts.append(f"[![The first screen of this diagnosis](./{name}.png)](./{name}.html)")
        sentences = "\n".join(f"- {line}" for line in lines(pd.DataFrame(twin["verdicts"])))
        parts.append(f'<details markdown="1"><summary>What each test found</summary>\n\n{sentences}\n\n</details>')
    return "\n\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"some of {', '.join(CASES)}; default: all")
    parser.add_argument("--pages", action="store_true", help="write pages and README.md again from the twins, without "
                                                             "training")
    args = parser.parse_args()
    asked = args.cases or list(CASES)
    unknown = [name for name in asked if name not in CASES]
    if unknown:
        parser.error(f"no case is called {unknown[0]!r} (known: {', '.join(CASES)})")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    for name in asked:
        if args.pages:
            reword(name)
            continue
        import torch
        import transformers
        torch.set_num_threads(1)
        transformers.utils.logging.set_verbosity_error()
        with tempfile.TemporaryDirectory() as folder:
            make(name, Path(folder))
    (OUT / "README.md").write_text(listed(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
