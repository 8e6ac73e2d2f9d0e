"A few steps of a run with a random encoder of its width on planted texts: whether its settings fit together."
from unittest import mock

import numpy as np
from torch.nn import Module

from debias_nb.settings import AnswersWorldConfig, AuthorsWorldConfig, EncoderConfig, PretrainConfig, WorldConfig
from debias_nb.papers.data.answers import planted_answers
from debias_nb.papers.settings.answers import AnswersCorpus
from debias_nb.papers.settings.authors import AuthorsCorpus
from debias_nb.papers.settings.pairs import PairsCorpus
from debias_nb.papers.settings.titles import TitlesCorpus
from debias_nb.encoders import planted
from debias_nb.papers.tasks import answers
from debias_nb.runs.runner import task_of

SMALL_WORLD = {"types": 12, "unseen_types": 4}
WIDTH = 768 # of all encoders that the papers name


def corpus_of(task, rows):
    "Planted texts for so many rows of training, or a few more."
    pairs = {**SMALL_WORLD, "negatives": 1, "queries": 20, "items": 60}
    if task == "pairs":
        return PairsCorpus(name="catalogue", world=WorldConfig(**pairs, train_pairs=rows), holdout=.5)
    if task == "titles":
        return TitlesCorpus(name="catalogue", task="titles", world=WorldConfig(**pairs, train_pairs=rows))
    if task == "answers":
        return AnswersCorpus(name="answers", task="answers", world=answers_for(rows))
    return AuthorsCorpus(name="authors", task="authors", world=AuthorsWorldConfig(
        name="authors", authors=rows, test_authors=2, texts=2, tokens=10))


def answers_for(rows):
    return AnswersWorldConfig(name="answers", questions=-(-rows // 6), tests=2)


def stand_in(encoder, width=None):
    "A small planted encoder of the same kind, and of the same length where it can be; of a width, if one is given."
    if encoder.kind == "alignment":
        return EncoderConfig(name="learned", kind="alignment", max_length=encoder.max_length, units=8, embedding=8)
    is_static = encoder.kind == "static"
    pretrain = PretrainConfig(
        steps=2, batch_size=16, learning_rate=1e-3, warmup_steps=0, vocabulary=600, seed=width or 0)
    return EncoderConfig(
        name="tiny-static" if is_static else "tiny", kind=encoder.kind, pretrain=pretrain, dtype=encoder.dtype,
        max_length=encoder.max_length if is_static else min(encoder.max_length, 64), # its positions
        world=WorldConfig(**SMALL_WORLD, broad_pairs=100))


def dry_runs(experiment):
    "One run of each kind that an experiment asks for: every method with every way of training."
    kinds = {}
    for run in experiment.runs():
        if run.method.trained:
            kinds.setdefault((run.encoder.kind, run.method, run.training, run.corpus.task), run)
    return list(kinds.values())


def small(run, steps):
    "A run on planted texts for a few steps, with a random encoder of its width, without a choice of settings."
    changes = {"epochs": 1, "student_epochs": None, "further_rates": (), "further_temperatures": ()}
    changes = {name: value for name, value in changes.items() if name in type(run.training).model_fields}
    method = run.method
    if getattr(run.training, "transfer", None):
        changes["transfer"] = run.training.transfer.model_copy(update={"epochs": 1})
    if getattr(method, "authors", None):
        method = method.model_copy(update={"authors": method.authors.model_copy(update={"epochs": None})})
    return run.model_copy(update={
        "encoder": stand_in(run.encoder, WIDTH), "corpus": corpus_of(run.task, steps * run.training.batch_size),
        "method": method, "measure": (), "training": run.training.model_copy(update=changes)})


def weights_in(model):
    "The weights of what a task trains; that of authors is a function of its encoder."
    return (model if isinstance(model, Module) else model.encoder).state_dict()


def dry_steps(run, folder, steps=3):
    """The terms of the loss in the first steps of the last stage; the model is saved in `folder`, and loaded.

    The encoder has the paper's width; batch, rate and optimizer are the run's. Raises what a real run would, and for a
    term that is not finite."""
    first_stage = planted_answers(answers_for(run.training.batch_size), "train")
    dry = small(run, steps)
    task = task_of(run)
    with (mock.patch.object(answers, "load_answers", lambda name, part, **how: first_stage),
          mock.patch.object(planted, "PLANTED_WIDTH", WIDTH)):
        training = task.train(dry)
        task.save(training.model, folder)
        copy = weights_in(task.load_saved(dry, folder))
    weights = weights_in(training.model)
    assert weights.keys() == copy.keys() and all(weights[name].equal(copy[name].to(weights[name])) for name in copy)
    terms = {name: values for name, values in training.curve.items() if name != "step"}
    assert all(np.isfinite(values).all() for values in terms.values()), terms
    return {name: values[0] for name, values in terms.items()}
