"One epoch of a run on a stand-in of its encoder and a few planted texts: whether its settings fit together."
from unittest import mock

import numpy as np

from debias_nb.settings import AnswersWorldConfig, AuthorsWorldConfig, EncoderConfig, PretrainConfig, WorldConfig
from debias_nb.papers.data.answers import planted_answers
from debias_nb.papers.settings.answers import AnswersCorpus
from debias_nb.papers.settings.authors import AuthorsCorpus
from debias_nb.papers.settings.pairs import PairsCorpus
from debias_nb.papers.settings.titles import TitlesCorpus
from debias_nb.papers.tasks import answers
from debias_nb.runs.runner import task_of

SMALL_WORLD = {"types": 12, "unseen_types": 4}
PAIRS = WorldConfig(**SMALL_WORLD, train_pairs=8, negatives=1, queries=20, items=60)
ANSWERS = AnswersWorldConfig(name="answers", questions=4, tests=2)
AUTHORS = AuthorsWorldConfig(name="authors", authors=8, test_authors=2, texts=2, tokens=20)
CORPORA = {
    "pairs": PairsCorpus(name="catalogue", world=PAIRS, holdout=.5),
    "titles": TitlesCorpus(name="catalogue", task="titles", world=PAIRS),
    "answers": AnswersCorpus(name="answers", task="answers", world=ANSWERS),
    "authors": AuthorsCorpus(name="authors", task="authors", world=AUTHORS)}


def stand_in(encoder):
    "A small planted encoder of the same kind, and of the same length where it can be."
    if encoder.kind == "alignment":
        return EncoderConfig(name="learned", kind="alignment", max_length=encoder.max_length, units=8, embedding=8)
    is_static = encoder.kind == "static"
    pretrain = PretrainConfig(steps=2, batch_size=16, learning_rate=1e-3, warmup_steps=0, vocabulary=600)
    return EncoderConfig(
        name="tiny-static" if is_static else "tiny", kind=encoder.kind, pretrain=pretrain,
        max_length=encoder.max_length if is_static else min(encoder.max_length, 64), # its positions
        world=WorldConfig(**SMALL_WORLD, broad_pairs=100))


def dry_runs(experiment):
    "One run of each kind that an experiment asks for: every method with every way of training."
    kinds = {}
    for run in experiment.runs():
        if run.method.trained:
            kinds.setdefault((run.encoder.kind, run.method, run.training, run.corpus.task), run)
    return list(kinds.values())


def small(run):
    "A run on few texts, with a stand-in, for an epoch a stage, without a choice of settings."
    changes = {"epochs": 1, "student_epochs": None, "further_rates": (), "further_temperatures": ()}
    changes = {name: value for name, value in changes.items() if name in type(run.training).model_fields}
    method = run.method
    if getattr(run.training, "transfer", None):
        changes["transfer"] = run.training.transfer.model_copy(update={"epochs": 1})
    if getattr(method, "authors", None):
        method = method.model_copy(update={"authors": method.authors.model_copy(update={"epochs": None})})
    return run.model_copy(update={
        "encoder": stand_in(run.encoder), "corpus": CORPORA[run.task], "method": method, "measure": (),
        "training": run.training.model_copy(update=changes)})


def dry_step(run):
    """The terms of the loss in the first step of the last stage.

    Raises what a real run would, and for a term that is not finite."""
    first_stage = planted_answers(ANSWERS, "train")
    with mock.patch.object(answers, "load_answers", lambda name, part, **options: first_stage):
        curve = task_of(run).train(small(run)).curve
    terms = {name: values[0] for name, values in curve.items() if name != "step"}
    assert np.isfinite(list(terms.values())).all(), terms
    return terms
