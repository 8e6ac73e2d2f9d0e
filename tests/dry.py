"One training step of a run on a stand-in of its encoder and a few planted texts: whether its settings fit together."
import copy
import math

import numpy as np

from debias_nb.settings import AnswersWorldConfig, AuthorsWorldConfig, WorldConfig
from debias_nb.data.answers import planted_answers
from debias_nb.runs.answer_training import answer_model, answer_tokens, train_stages
from debias_nb.runs.config import AuthorsConfig, CorpusConfig
from debias_nb.runs.tasks.authors import tuned
from debias_nb.runs.tasks.common import SMALL_WORLD, base_model, stand_in, task_of
from debias_nb.runs.training import fine_tune


def dry_runs(experiment):
    "One run of each kind that an experiment asks for: every method with every way of training."
    kinds = {}
    for run in experiment.runs():
        if run.method.trained:
            kinds.setdefault((run.encoder.kind, run.method, run.training, run.corpus.task), run)
    return list(kinds.values())


def dry_step(run):
    "The terms of the loss in the first step of the last stage. Raises what a real run would, and for a term that is not finite."
    stages, samples = STEPS[run.task](run)
    for history in stages:
        assert len(history) == math.ceil(samples / run.training.batch_size)
        terms = {key: float(value) for key, value in history[0].items()}
        assert np.isfinite(list(terms.values())).all(), terms
    return terms


def of_pairs(run):
    "The history of the one stage on sixteen planted pairs or eight planted titles, and how many there are."
    world = WorldConfig(**SMALL_WORLD, train_pairs=8, negatives=1, queries=20, items=60)
    encoder = stand_in(run.encoder)
    tokens, _ = task_of(run).data(encoder, CorpusConfig(name="catalogue", task=run.task, world=world))
    base = base_model(encoder)
    training = run.training.model_copy(update={"epochs": 1})
    loss = fine_tune(copy.deepcopy(base), base, tokens, run.method, training, run.seed, run.encoder.dtype)
    return [loss.history], len(tokens)


def of_answers(run):
    "The history of each stage on four planted questions, and how many candidates they have."
    few = planted_answers(AnswersWorldConfig(name="answers", questions=4, tests=2), "train")
    training = run.training.model_copy(update={"epochs": 1})
    if training.transfer:
        transfer = training.transfer.model_copy(update={"epochs": 1})
        training = training.model_copy(update={"transfer": transfer})
    encoder = stand_in(run.encoder)
    model = answer_model(encoder, run.method, training, few.questions + few.answers, run.seed)
    data = answer_tokens(model.encoder, few, encoder.max_length)
    stages = train_stages(model, data, run.method, training, run.seed, run.encoder.dtype, transfer=data)
    return [stage.history for stage in stages if stage], len(data)


def of_authors(run):
    "The history of what is kept, after a training of its teacher, on sixteen planted texts."
    world = AuthorsWorldConfig(name="authors", authors=8, test_authors=2, texts=2, tokens=20)
    corpus = CorpusConfig(name="authors", task="authors", world=world)
    once = {"epochs": 1, "student_epochs": None, "further_rates": (), "further_temperatures": ()}
    training = run.training.model_copy(update=once)
    method = (run.method.authors or AuthorsConfig()).model_copy(update={"epochs": None})
    done = tuned(corpus, stand_in(run.encoder), training, method, run.seed)
    return [done.history], 16


STEPS = {"pairs": of_pairs, "titles": of_pairs, "answers": of_answers, "authors": of_authors}
