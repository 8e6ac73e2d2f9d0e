"""The usual settings of a training, and programs to copy, with the names of your own files in them."""
import json
import re
from pathlib import Path
from textwrap import fill, indent
from typing import get_args

from ..settings import OfLabels, OfMatches
from .models import Scorer
from .pairs import PairFile

OF_MATCHES = get_args(OfMatches)
LOSSES = get_args(OfLabels) + OF_MATCHES
LEAST_SQUARES = LOSSES[0] # by default
BUDGETS = { # of a training by default
    "static": {"learning_rate": 1e-1, "epochs": 5, "batch_size": 250},
    "transformer": {"learning_rate": 5e-5, "epochs": 3, "batch_size": 64},
}
RETRAIN = """\
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import {loss}
from debias_nb import OutReg, Regularized, load_model, read_pairs_file

pairs = read_pairs_file({train})
rows = pairs.dataset(labeled={labeled}) # of `datasets`
model = load_model({base}).model
loss = Regularized(model, {loss}(model), [OutReg(1.0, texts="new.txt")])
args = SentenceTransformerTrainingArguments(
    {folder!r}, num_train_epochs={epochs}, per_device_train_batch_size={batch_size}, learning_rate={learning_rate:g},
    lr_scheduler_type="constant", {sampler}save_strategy="no", report_to="none")
SentenceTransformerTrainer(model=model, args=args, train_dataset=rows, loss=loss).train()
model.save({folder!r})
"""
AVERAGE = """\
from debias_nb import load_model, wise_ft

mixed = wise_ft(load_model({base}).model, load_model({tuned}).model, {share:g})
mixed.save({folder!r})
"""
WHY_RETRAIN = (
    "Train again with OutReg, λ = 1, on unlabeled texts like the new data: put a file of such texts, one a line, in the "
    "place of new.txt. `texts` must hold no text of the tests. Put your own loss and settings in, as long as before: a "
    "shorter training keeps a model near its base whatever its loss.")
WHY_AVERAGE = "Average the weights, which takes no training. Check it on pairs that had no part in the choice."
NO_HARM = "No test shows harm: nothing needs a fix. What follows keeps a model near its base, and gives up some gain."


def has_both_classes(file: PairFile) -> bool:
    "Decide whether a file has pairs that are no match."
    return bool((file.labels == 0).any())


def usual_loss(train: PairFile) -> str: # one of `LOSSES`
    "Return the loss where none is asked for: of labels, or where training has none, of matches."
    return LEAST_SQUARES if train.form == "pairs" and has_both_classes(train) else OF_MATCHES[0]


def commented(text: str) -> str:
    "Write a text as comments of a program."
    return indent(fill(text, 110), "# ") + "\n"


def folder_name(source: str | None) -> str: # of a model, which may be a path or a hub id; None: it is in memory
    "Make a folder's name of that of a model."
    return re.sub(r"[^\w.-]", "-", Path(source or "").name) or "mine"


def _source(scorer: Scorer) -> str:
    return repr(scorer.source) if scorer.source else "..."


def average_program(base: Scorer, tuned: Scorer, share: float) -> str:
    folder = f"{folder_name(tuned.source)}-{share:g}"
    return commented(WHY_AVERAGE) + AVERAGE.format(base=_source(base), tuned=_source(tuned), share=share, folder=folder)


def both_programs(scorers: dict[str, Scorer], train: PairFile | None, share: float | None, is_harmed: bool) -> str:
    "Write what to try next: training with a regularizer, and averaging where weights can be averaged."
    base, tuned = scorers["base"], scorers["tuned"]
    parts = [] if is_harmed else [commented(NO_HARM)]
    if train is not None:
        loss = usual_loss(train)
        reading = [repr(train.path) if train.path else "...", *(f"{name}={value!r}" for name, value in
                                                                train.reading.items())]
        program = RETRAIN.format(
            loss=loss, train=", ".join(reading), labeled=loss not in OF_MATCHES, base=_source(base),
            folder=f"{folder_name(tuned.source)}-outreg", **BUDGETS[base.kind],
            sampler='batch_sampler="no_duplicates", ' if loss in OF_MATCHES else "")
        left, right = base.prefixes
        if left or right:
            prompts = json.dumps(dict(zip(("left", "right"), (left, right))), ensure_ascii=False)
            program = program.replace("save_strategy", f"prompts={prompts}, save_strategy")
        parts.append(commented(WHY_RETRAIN) + program)
    if share is not None:
        parts.append(average_program(base, tuned, share))
    return "\n".join(parts)
