"What each loss of the library must hold, whatever it is a loss of: its value, its gradient, and its batches."
import copy
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch


class Checked(NamedTuple):
    "A loss, how it is given rows of a batch, and what its value is by hand."
    loss: torch.nn.Module
    batch: Callable        # row numbers, whether more is padded -> columns, labels
    value: Callable | None # row numbers -> the loss by hand
    untouched: str         # part of the names of weights without a gradient


def total(loss, columns, labels) -> torch.Tensor:
    terms = loss(columns, labels)
    return (sum(terms.values()) if isinstance(terms, dict) else terms).float()


def gradients(checked: Checked, rows: list[int]) -> dict[str, torch.Tensor]:
    "Compute the gradient of each weight; none where there is none."
    checked.loss.zero_grad()
    total(checked.loss, *checked.batch(rows)).backward()
    return {name: weight.grad for name, weight in checked.loss.named_parameters() if weight.requires_grad}


def evaluated(checked: Checked, rows: list[int], padded: bool = False) -> torch.Tensor:
    with torch.no_grad():
        return total(checked.loss, *checked.batch(rows, padded))


def check_loss(make: Callable[[], Checked], rows: list[int]) -> None:
    "Check a loss, made anew where a training would change it."
    checked = make()
    before = copy.deepcopy(checked.loss.state_dict())
    draws = [np.random.get_state()[1].copy(), torch.get_rng_state()]
    value = evaluated(checked, rows)
    assert value.isfinite() and value > 1e-4
    if checked.value is not None:
        assert torch.isclose(value, torch.as_tensor(checked.value(rows), dtype=torch.float32), rtol=1e-4, atol=1e-5)
    assert torch.isclose(evaluated(checked, rows[::-1]), value, rtol=1e-4), "the order of a batch says nothing"
    assert torch.isclose(evaluated(checked, rows, padded=True), value, rtol=1e-4), "nor does what is padded"
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.isclose(evaluated(checked, rows), value, rtol=.1, atol=.02)
    assert all(torch.equal(before[name], part) for name, part in checked.loss.state_dict().items())
    assert np.array_equal(draws[0], np.random.get_state()[1]) and torch.equal(draws[1], torch.get_rng_state())
    assert not getattr(checked.loss, "history", None), "an evaluation leaves nothing behind"

    for name, gradient in gradients(checked, rows).items():
        is_reached = gradient is not None and bool(gradient.abs().max() > 0)
        assert is_reached != (checked.untouched in name), name
    for few in (rows[:1], rows[:1] * len(rows)):
        checked = make()
        try:
            found = gradients(checked, few)
        except ValueError as refusal:
            assert len(few) == 1 and "row" in str(refusal) or "two" in str(refusal)
            continue
        assert all(gradient.isfinite().all() for gradient in found.values() if gradient is not None)
