"When weights are tried on fresh features, in a training without a model."
from types import SimpleNamespace

import pytest
import torch

from debias_nb.papers.tasks.answer_training import AnswerTrainer
from debias_nb.runs.records import TrainingFailed


def trainer_of(weight, steps):
    "As much of a trainer as a step of it looks at."
    def weigher(hidden, labels, rows):
        return torch.full((len(labels),), weight)

    weigher.scan = SimpleNamespace(weights="uniform")
    weigher.fresh_losses = lambda weights, hidden, labels: {}
    model = SimpleNamespace(head=lambda hidden, labels, weights: {"sw": torch.tensor(1.)})
    state = SimpleNamespace(global_step=0, max_steps=steps)
    return SimpleNamespace(model=model, weigher=weigher, state=state, contrast=1., history=[], diary=[], fresh=[])


def steps_of(trainer):
    for trainer.state.global_step in range(trainer.state.max_steps):
        inputs = {"labels": torch.tensor([0, 1]), "row": torch.tensor([0, 1])}
        AnswerTrainer.compute_loss(trainer, lambda inputs: torch.ones(2, 3), inputs)
    return [line["step"] for line in trainer.fresh]


@pytest.mark.parametrize("steps, moments", [(24, [*range(0, 24, 3)]), (4, [0, 1, 2, 3])])
def test_weights_are_tried_at_eight_moments_of_a_training(steps, moments):
    assert steps_of(trainer_of(1., steps)) == moments


def test_weights_that_sum_to_nothing_end_a_training():
    with pytest.raises(TrainingFailed, match="the weights of a batch sum to 0: take a smaller learning rate"):
        steps_of(trainer_of(0., 4))
