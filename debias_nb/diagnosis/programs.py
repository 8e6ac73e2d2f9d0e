"""The usual settings of a training, and a program with the names of your own files in it."""
import re
from pathlib import Path
from typing import get_args

from .pairs import PairFile
from .models import Scorer
from .page import commented, file_facts, filled
from .recommendations import GENERAL, LIKE_NEW, LIMITS
from ..settings import OfLabels, OfMatches

OF_MATCHES = get_args(OfMatches)
LOSSES = get_args(OfLabels) + OF_MATCHES
LEAST_SQUARES = LOSSES[0] # by default
BUDGETS = { # of a training by default
    "static": {"learning_rate": 1e-1, "epochs": 5, "batch_size": 250},
    "transformer": {"learning_rate": 5e-5, "epochs": 3, "batch_size": 64},
}
NO_HARM = """\
# No test shows harm: nothing needs a fix. Both methods below regularize a model toward its base, \
and give up some of the gain.
"""
CHOICE = { # whether a share meets the rule -> why it is this one
    True: "Of the shares that meet the rule, this one has the highest mean over the tests above, and is the smallest "
          "of those that tie. ",
    False: "No share meets the rule; this one has the highest mean above. ",
}


def has_both_classes(file: PairFile) -> bool:
    "Decide whether a file has pairs that are no match."
    return bool((file.labels == 0).any())


def usual_loss(train: PairFile) -> str: # one of `LOSSES`
    "Return the loss where none is asked for: of labels, or where training has none, of matches."
    return LEAST_SQUARES if train.form == "pairs" and has_both_classes(train) else OF_MATCHES[0]


def training_program(
    purpose: str,            # the first line
    base: str | None,    # what `load_model` takes; None: a model in memory
    train: dict,         # of `file_facts`
    regularizer: str | None, # as it is called, e.g. `OutReg(0.1)`; None: the bare loss
    folder: str,         # where the model goes
    loss: str = LEAST_SQUARES, # one of `LOSSES`
    prompt: str | dict = "", # what the encoder is given before texts, by which the trainer does not go by itself
    part: dict[str, int] | None = None, # of `trained_part`; None: all weights are trained
    custom_class: str | None = None, # `mymodule.Name` of a loss or regularizer of your own
    seed: int = 0,
    fallback: str = "",  # a regularizer in place of the other one for who lacks its texts
    tests: dict[str, dict] | None = None, # of `file_facts`: none of their texts may be in new.txt
    is_usual: bool = False, # whether the settings are those of `BUDGETS`
    **settings,          # learning_rate, epochs, batch_size
) -> str:
    "Write a program that trains on your file."
    purpose = commented(f"{purpose} Put your own loss and settings into it.")
    return filled(
        "training.py.j2", why=purpose, base=base, train=train, regularizer=regularizer, folder=folder, loss=loss,
        prompt=prompt, part=part, own=custom_class, seed=seed, fallback=fallback,
        tests=tests, is_usual=is_usual, of_matches=OF_MATCHES, tuple=tuple, **settings)


def folder_name(source: str | None) -> str: # of a model, which may be a path or a hub id; None: it is in memory
    "Make a folder's name of that of a model."
    return re.sub(r"[^\w.-]", "-", Path(source or "").name) or "mine"

def snippet(
    scorers: dict[str, Scorer],
    files: dict[str, PairFile], # `train` among them, if it was given
    share: float | None,    # mixing weight of the tuned weights; None: models that cannot be mixed
    is_harmed: bool,        # whether a test shows harm
    meets_rule: bool,       # whether the share meets the rule of the decision
) -> str:
    "Write a program to try next."
    models = {name: scorer.facts() for name, scorer in scorers.items()}
    facts = {name: file_facts(file) for name, file in files.items()}
    loss = usual_loss(files["train"]) if "train" in files else LEAST_SQUARES
    return program_of(models, facts, share, is_harmed, meets_rule, loss)


def program_of(
    models: dict[str, dict], # of `Scorer.facts`: base and tuned
    files: dict[str, dict],  # of `file_facts`
    share: float | None,     # this and the next two as `snippet`
    is_harmed: bool,
    meets_rule: bool,
    loss: str = LEAST_SQUARES,
) -> str:
    "Write the same from what a page says of models and files."
    base, source = models["base"], models["tuned"]["source"]
    folder = folder_name(source)
    parts = []
    tests = {name: file for name, file in files.items() if name != "train" and file["path"]}
    if not is_harmed:
        parts.append(NO_HARM)
    if "train" in files:
        parts.append(training_program(
            f"Fine-tune again with {LIKE_NEW.title}: name a file of such texts, one a line and none of them of a "
            "test, in the place of new.txt. Train as long as before, with the same epochs, batches and rate: a shorter "
            f"training keeps a model near its base whatever its loss. {LIMITS}",
            base["source"], files["train"], LIKE_NEW.program, f"{folder}-outreg", loss, prompt=base["prompt"],
            fallback=GENERAL.program, tests=tests, is_usual=True, **BUDGETS[base["kind"]]))
    if share is not None:
        parts.append(filled("mixed.py.j2", base=base["source"], tuned=source, share=share, folder=folder,
                            choice=CHOICE[meets_rule]))
    return "\n".join(parts)
