"From the command to the gradient of a regularizer: which modules stand between them, and that λ is handed on as it is."
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import debias_nb
from debias_nb.commands.cli import app
from debias_nb.losses.regularizers import OutReg

PACKAGE = Path(debias_nb.__file__).parent
WALK = [ # modules whose functions call each other, until the last calls a term
    "papers/commands/reproduction.py", "runs/runner.py", "papers/tasks/pairs.py", "runs/training.py",
    "losses/regularized.py", "losses/batches.py"]


class Arrival(Exception):
    "The gradient of a term has been seen."


def modules_above(frame):
    "The modules of the package whose functions are running, from the command on."
    files = []
    while frame:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            files.append(path.relative_to(PACKAGE).as_posix())
        frame = frame.f_back
    files = files[::-1]
    return list(dict.fromkeys(files[files.index(WALK[0]):]))


@pytest.mark.slow
def test_from_the_command_six_modules_lead_to_a_term(monkeypatch, tmp_path):
    term = OutReg.term
    values = {}

    def keep_gradient(gradient):
        values["gradient"] = float(gradient)
        raise Arrival

    def record(self, text):
        values.update(walk=modules_above(sys._getframe()), weight=self.weight)
        value = term(self, text)
        value.register_hook(keep_gradient)
        return value

    monkeypatch.setattr(OutReg, "term", record)
    monkeypatch.setenv("DEBIAS_NB_RUNS", str(tmp_path))
    command = ["run", "itvreg/table11", "-p", "methods=[OutReg]", "-p", "weight=0.37", "--seeds", "0", "--workers", "1"]
    run = CliRunner().invoke(app, command)
    assert isinstance(run.exception, Arrival), run.output
    assert values["walk"] == WALK and values["weight"] == .37
    assert values["gradient"] == pytest.approx(.37), "the gradient of the loss in the term is λ"
