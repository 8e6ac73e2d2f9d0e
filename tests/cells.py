"What the notebooks of papers define, without running them, and runs for made-up records."
import json
import re

from debias_nb.settings import AnswersWorldConfig, EncoderConfig
from debias_nb.papers.settings.answers import AnswersCorpus
from debias_nb.papers.settings.pairs import PairsCorpus
from debias_nb.runs.config import RunConfig
from debias_nb.runs.settings import MethodConfig


def python_of(cell):
    "The Python of a cell, without the commands of IPython; empty for one of Markdown."
    source = "".join(cell["source"])
    return "" if source.startswith("%%") else re.sub(r"(?m)^%.*$", "", source)


def texts(path):
    "The Markdown of a page, or of a notebook with what it shows."
    if path.suffix == ".md":
        yield path.read_text("utf-8")
        return
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "markdown":
            yield "".join(cell["source"])
        for output in cell.get("outputs", []):
            yield "".join(output.get("data", {}).get("text/markdown", ""))


# by task
TRAININGS = {"pairs": {}, "answers": {"loss": "cross-entropy"}, "authors": {"loss": "authors", "temperature": .1}}


def a_run(method="Finetuned", corpus="real", encoder="encoder", is_trained=True, seed=0, world=None, **changes):
    "The configuration of a made-up run; `world` is the seed of a planted one."
    data = PairsCorpus(name=corpus) if isinstance(corpus, str) else corpus
    if world is not None:
        data = AnswersCorpus(name="answers", task="answers", label="planted",
                             world=AnswersWorldConfig(name="answers", seed=world))
    parts = dict(corpus=data, training=TRAININGS[data.task] | {"learning_rate": .1, "epochs": 1, "batch_size": 8})
    return RunConfig(
        paper="itvreg", experiment="made_up", profile="small", encoder=EncoderConfig(name=encoder, kind="static"),
        method=MethodConfig(name=method, trained=is_trained), evaluate=["test"], seed=seed,
        **(parts if is_trained else {"eval_corpus": data}) | changes)
