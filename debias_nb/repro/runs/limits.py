"""Until when a run may go on, and in how many pieces a batch goes through the encoder: what a machine lent for ten minutes asks for, and what no record shows.

Limits are no part of a run's settings: one that was stopped and taken up again is the same run, to the last bit. The
trainers' checkpoints hold weights, optimizer and the state of chance; what a loss or a callback has gathered is
written next to them, last, so that a checkpoint without it was broken off.

Where a batch does not fit into memory, a smaller one would be another training: its negatives, weights of samples and
gradient are those of fewer rows. So the batch goes through the encoder in pieces, of which only what the encoder gives
is kept, and the loss sees all of it.
"""
import math
import os
import shutil
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.checkpoint import checkpoint
from transformers import TrainerCallback


class TimeUp(Exception):
    "The time is up in the middle of a training, which goes on from its checkpoint another time."


@dataclass(frozen=True)
class Limits:
    "What a run keeps to on this machine."
    end: float = math.inf        # when trainings stop, in the seconds of `time.time()`
    folder: Path | None = None   # where checkpoints go; None: there are none
    pieces: int = 1              # in which a batch goes through the encoder
    deterministic: bool = False  # whether algorithms whose sums depend on chance are refused

    @property
    def reached(self) -> bool:
        return time.time() >= self.end


@dataclass
class Work:
    "A run under way. Its trainings are counted, so that each finds its own checkpoint."
    limits: Limits
    name: str
    trainings: int = 0


_UNDER_WAY = ContextVar("under_way", default=Work(Limits(), "")) # without limits


@contextmanager
def within(
    limits: Limits,
    name: str, # of the run
):
    "Trainings inside keep to the limits. The checkpoints go when the run has come to its end."
    token = _UNDER_WAY.set(Work(limits, name))
    try:
        yield
    finally:
        _UNDER_WAY.reset(token)
    if limits.folder:
        shutil.rmtree(limits.folder / name, ignore_errors=True)


EVERY = 120 # seconds between checkpoints


def newest(
    folder: Path, # of one training
) -> Path | None:
    "The newest checkpoint that is whole."
    whole = [path.parent for path in folder.glob("checkpoint-*/kept.pt")]
    return max(whole, key=lambda path: int(path.name.partition("-")[2]), default=None)


class Keeper(TrainerCallback):
    "Writes checkpoints. Raises `TimeUp` when the time is up and the last one is written."
    def __init__(self,
        limits: Limits,
        kept: list,           # (object, name of an attribute) each
        found: Path | None,   # the checkpoint that the training goes on from
    ):
        self.limits = limits
        self.kept = kept
        self.found = found
        self.saved = time.time()

    @property
    def due(self) -> bool:
        "Whether a checkpoint is to be written now."
        return self.limits.reached or time.time() - self.saved > EVERY

    def on_train_begin(self, args, state, control, **_):
        if self.found:
            states = torch.load(self.found / "kept.pt", weights_only=True)
            for (owner, name), state in zip(self.kept, states):
                value = getattr(owner, name)
                if isinstance(value, torch.Generator):
                    value.set_state(state)
                elif hasattr(value, "load_state_dict"):
                    value.load_state_dict(state)
                else:
                    setattr(owner, name, state)

    def on_step_end(self, args, state, control, **_):
        ends_epoch = abs(state.epoch - round(state.epoch)) < 1e-6
        control.should_save = self.due and not ends_epoch

    def on_epoch_end(self, args, state, control, **_):
        control.should_save = self.due

    def on_save(self, args, state, control, **_):
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        states = []
        for owner, name in self.kept:
            value = getattr(owner, name)
            if isinstance(value, torch.Generator):
                value = value.get_state()
            elif hasattr(value, "state_dict"):
                value = value.state_dict()
            states.append(value) # tensors, numbers, text, and lists and dicts of them
        torch.save(states, folder / "kept.new")
        os.replace(folder / "kept.new", folder / "kept.pt") # whole or not at all
        self.saved = time.time()
        if self.limits.reached:
            raise TimeUp(f"step {state.global_step} of {state.max_steps}")


@contextmanager
def divided(
    model,       # called with a dict of columns
    pieces: int, # 1: nothing is changed
):
    "Batches of rows go through the model in pieces. A static embedding model, which needs no memory, is left as it is."
    if pieces == 1:
        yield
        return
    whole = model.forward
    pending = [True]

    def forward(columns):
        if not pending or "offsets" in columns:
            return whole(columns)
        tensors = {name: value for name, value in columns.items() if torch.is_tensor(value)}
        n = max(map(len, tensors.values()))
        by_rows = {name: value.chunk(pieces) for name, value in tensors.items() if len(value) == n} # others all rows share
        parts = [columns | dict(zip(by_rows, part)) for part in zip(*by_rows.values())]
        outs = [checkpoint(whole, part, use_reentrant=False) for part in parts]
        if torch.is_tensor(outs[0]):
            return torch.cat(outs)
        given = [name for name, value in outs[0].items() if torch.is_tensor(value)]
        return {name: torch.cat([out[name] for out in outs]) for name in given}

    model.forward = forward
    try:
        yield
    finally:
        pending.clear() # the trainer may have put its own wrapper around this one
        if model.forward is forward:
            del model.forward


def fit(
    trainer, # of transformers or sentence-transformers
    *parts,  # losses and callbacks; `gathers` names what a checkpoint has to hold of each
) -> None:
    "Train to the end, from a checkpoint where there is one. Raises `TimeUp` where the time is up before."
    work = _UNDER_WAY.get()
    found = None
    if work.limits.folder:
        work.trainings += 1
        folder = work.limits.folder / work.name / str(work.trainings)
        found = newest(folder)
        kept = [(part, name) for part in parts for name in getattr(part, "gathers", ())]
        trainer.args.output_dir = str(folder)
        trainer.args.save_total_limit = 2 # the newest may be broken off
        trainer.add_callback(Keeper(work.limits, kept, found))
    with divided(trainer.model, work.limits.pieces):
        trainer.train(resume_from_checkpoint=str(found) if found else None)
