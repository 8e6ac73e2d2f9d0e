"""Compare the authors' public code with the variants that we call `released`, on the same random inputs:

git clone https://github.com/xish9/SCAN && git clone https://github.com/jitkapat/TopicReg
python tools/authors_code.py --scan SCAN --arr TopicReg                  print the table
python tools/authors_code.py --scan SCAN --arr TopicReg --record FILE    write the numbers, too, as
                                                                         experiments/authors_code.json has them

You fetch the clones: neither has a license file, so nothing of them is here, and nothing is copied. Functions are taken
by their names from the files of a clone and run on the CPU, with stand-ins for what they import. One clone alone will
do.
"""
import argparse
import ast
import datetime
import hashlib
import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.feature_extraction.text import TfidfVectorizer

from debias_nb import ARR, Memory, learn_weights, load_encoder
from debias_nb.losses.author_losses import gram, supervised_contrastive
from debias_nb.losses.scan import VARIANTS

SCAN, TOPICREG = "https://github.com/xish9/SCAN", "https://github.com/jitkapat/TopicReg"
BATCHES = ((16, 24, 16), (20, 8, 32), (140, 64, 140)) # samples, features, samples in the memory
FUNCTIONS = 5         # of each feature
ALPHA = .9            # of the memory
EARLIER = 10          # batches in it
SEEDS = 3
AUTHORS = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6]) # two have one text
DIMENSIONS = 16       # of a text's vector
TEMPERATURE = .1
BASE_TEMPERATURE = .07 # the default of `SupConLoss`, which their encoder keeps
TEMPERATURES = (BASE_TEMPERATURE, TEMPERATURE)
ARR_STEPS = ("numerical_stability", "compute_teacher_score", "compute_score", "distances_to_prob", "step")


class CloneError(ValueError):
    "A clone that does not hold what is looked for."


@dataclass
class Clone:
    "A clone of an author's repository, and the files of it that were read."
    folder: Path
    repository: str
    files: dict[str, str] = field(default_factory=dict) # path -> sha256

    def commit(self) -> str | None:
        "Return the commit of the clone; None for a folder without one."
        command = ["git", "-C", str(self.folder), "rev-parse", "HEAD"]
        answer = subprocess.run(command, capture_output=True, text=True)
        return answer.stdout.strip() or None

    def read(self, path: str) -> str:
        "Return the text of a file. Raises `CloneError`."
        file = self.folder / path
        if not file.is_file():
            raise CloneError(f"{file}: there is no such file; fetch {self.repository}")
        content = file.read_bytes()
        self.files[path] = hashlib.sha256(content).hexdigest()
        return content.decode("utf-8")

    def facts(self) -> dict:
        return {"repository": self.repository, "commit": self.commit(), "files": self.files}


def added_file(diff: str, path: str) -> str:
    "Return a file that a diff adds. Raises `CloneError`."
    _, found, addition = diff.partition(f"+++ b/{path}\n")
    if not found:
        raise CloneError(f"the diff does not add {path}")
    lines = []
    for line in addition.splitlines()[1:]: # behind the line that counts them
        if not line.startswith("+"):
            break
        lines.append(line[1:])
    return "\n".join(lines)


def definitions(text: str, names: list[str], namespace: dict, methods: tuple[str, ...] = ()) -> SimpleNamespace:
    """Run the functions and classes of these names alone, in a namespace that stands for their imports.

    With methods, a class has these alone and no base. Raises `CloneError` for a name that is not there."""
    nodes = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    missing = [name for name in names if name not in nodes]
    if missing:
        raise CloneError(f"nothing is called {', '.join(missing)} in the authors' file")
    body = [nodes[name] for name in names]
    if methods:
        for node in body:
            node.bases = []
            node.body = [part for part in node.body if getattr(part, "name", "") in methods]
    exec(compile(ast.Module(body, []), "<authors>", "exec"), namespace)
    return SimpleNamespace(**{name: namespace[name] for name in names})


class TorchWithDraws:
    "Torch whose random numbers are those that `random_features` takes from a generator."
    def __init__(self, generator: torch.Generator, features: int):
        self.generator = generator
        self.features = features

    def __getattr__(self, name):
        return getattr(torch, name)

    def randn(self, size):
        frequency = torch.randn(self.features, size[0], generator=self.generator)
        return frequency[:1].T # one for all features

    def rand(self, size):
        return torch.rand(*size, generator=self.generator)

    def set_printoptions(self, **options):
        "Leave this process as it is."


def authors_weights(source: str, features, memory: Memory, seed: int) -> SimpleNamespace:
    "Run their learner on a batch next to a memory; return weights of sum 1, and the memory afterwards."
    released = VARIANTS["released"]
    settings = SimpleNamespace(
        lrbl=released["lr"], epochb=released["steps"], lambdap=released["penalty"], num_f=FUNCTIONS, sum=True,
        decay_pow=2,
        lambda_decay_rate=1, lambda_decay_epoch=5, min_lambda_times=.01, first_step_cons=1, presave_ratio=ALPHA)
    generator = torch.Generator().manual_seed(seed)
    namespace = {"torch": TorchWithDraws(generator, features.shape[1]), "nn": torch.nn, "np": np,
                 "Variable": torch.autograd.Variable}
    names = ["weight_learner", "random_fourier_features_gpu", "cov", "lossb_expect", "lr_setter"]
    code = definitions(source, names, namespace)
    with mock.patch.object(torch.Tensor, "cuda", lambda tensor: tensor):
        weights, kept, logits = code.weight_learner(
            features, memory.features.clone(), memory.weights[:, None].clone(), settings, global_epoch=1)
    return SimpleNamespace(weights=weights.detach()[:, 0], features=kept, logits=logits.detach()[:, 0])


def largest(difference: torch.Tensor) -> float:
    return float(difference.detach().abs().max())


def compare_weights(clone: Clone) -> list[dict]:
    "Compare their sample weights with ours, one batch a row."
    source = added_file(clone.read("scan.diff"), "src/sample_weighting.py")
    rows = []
    for seed, (n, d, size) in enumerate(BATCHES):
        generator = torch.Generator().manual_seed(seed)
        features = torch.randn(n, d, generator=generator)
        memory = Memory("ema", alpha=ALPHA)
        for _ in range(EARLIER):
            memory.update(torch.randn(size, d, generator=generator), 1 + torch.randn(size, generator=generator) / 100)
        theirs = authors_weights(source, features, memory, seed)
        ours = learn_weights(
            features, memory=memory, generator=torch.Generator().manual_seed(seed), variant="released", r=FUNCTIONS)
        memory.update(features, ours)
        rows.append({
            "samples": n, "features": d, "memory": size,
            "weights": largest(theirs.weights - ours.values / n),
            "memory_features": largest(theirs.features - memory.features),
            "memory_weights": largest(theirs.logits - memory.weights),
            "spread": float((theirs.weights - 1 / n).square().mean().sqrt())})
    return rows


def texts_of(generator: torch.Generator) -> list[str]:
    "Write a text of eight words for each of the authors' texts."
    return [" ".join(f"word{number}" for number in torch.randint(40, (8,), generator=generator)) for _ in AUTHORS]


@dataclass
class Batch:
    "Texts of authors, and vectors of teacher and student."
    texts: list[str]
    teacher: torch.Tensor # (n, d)
    student: torch.Tensor # (n, d)


def draw_batch(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    shape = len(AUTHORS), DIMENSIONS
    teacher = torch.randn(shape, generator=generator)
    student = teacher + torch.randn(shape, generator=generator)
    return Batch(texts_of(generator), teacher, student)


@dataclass
class Step:
    "A loss and its gradient by the student's vectors."
    loss: float
    gradient: torch.Tensor


def step_of(loss: torch.Tensor, student: torch.Tensor) -> Step:
    return Step(loss.item(), torch.autograd.grad(loss, student)[0])


def authors_step(encoder: type, topics: type, batch: Batch) -> Step:
    "Take their step of ARR from given vectors."
    student = batch.student.clone().requires_grad_()

    class Model(encoder):
        target, temperature, eps, device = "author", TEMPERATURE, 1e-12, torch.device("cpu")
        teacher = SimpleNamespace(encode=lambda texts: batch.teacher)
        bias_model = topics(SimpleNamespace(texts=batch.texts))

        def __call__(self, texts):
            return student

    return step_of(Model().step((batch.texts, AUTHORS, None), 0), student)


def our_step(batch: Batch, variant: str) -> Step:
    student = batch.student.clone().requires_grad_()
    arr = ARR(load_encoder("tiny-static"), batch.texts, batch.teacher, TEMPERATURE, variant=variant)
    loss, _ = arr.value(student, AUTHORS, torch.arange(len(AUTHORS)))
    return step_of(loss, student)


def compare_arr(clone: Clone) -> list[dict]:
    "Compare their loss of ARR and its gradient with ours, one batch a row."
    source = clone.read("authorship/traditional_modules.py")
    topics = definitions(source, ["TFIDFEncoder"], {"torch": torch, "TfidfVectorizer": TfidfVectorizer})
    source = clone.read("authorship/ensemble_modules.py")
    encoder = definitions(source, ["DistanceRegularizedEncoderCL"], {"torch": torch, "F": F}, ARR_STEPS)
    rows = []
    for seed in range(SEEDS):
        batch = draw_batch(seed)
        theirs = authors_step(encoder.DistanceRegularizedEncoderCL, topics.TFIDFEncoder, batch)
        ours = our_step(batch, "released")
        rows.append({
            "texts": len(AUTHORS), "dimensions": DIMENSIONS, "theirs": theirs.loss, "ours": ours.loss,
            "printed": our_step(batch, "paper").loss, "gradient": largest(theirs.gradient - ours.gradient),
            "largest_gradient": largest(theirs.gradient)})
    return rows


def compare_contrastive(clone: Clone) -> list[dict]:
    "Compare their contrastive loss with ours, a row a temperature, and with what divisor and base temperature explain."
    source = clone.read("authorship/losses.py")
    code = definitions(source, ["SupConLoss"], {"torch": torch, "nn": torch.nn})
    vectors = F.normalize(draw_batch(0).student)
    with_partner = int((AUTHORS.bincount()[AUTHORS] > 1).sum())
    rows = []
    for temperature in TEMPERATURES:
        theirs = float(code.SupConLoss(temperature=temperature)(vectors.unsqueeze(1), AUTHORS))
        ours = float(supervised_contrastive(gram(vectors), AUTHORS, temperature))
        factor = with_partner / len(AUTHORS) * temperature / BASE_TEMPERATURE
        rows.append({"texts": len(AUTHORS), "with_partner": with_partner, "temperature": temperature, "theirs": theirs,
                     "ours": ours, "factor": factor, "difference": theirs - factor * ours})
    return rows


@dataclass
class Comparison:
    "What was compared when, and how far apart it came out."
    date: str
    sources: dict[str, dict] = field(default_factory=dict)
    weights: list[dict] = field(default_factory=list)
    arr: list[dict] = field(default_factory=list)
    contrastive: list[dict] = field(default_factory=list)


def compare(scan: Path | None, arr: Path | None) -> Comparison:
    "Compare what the clones hold. Raises `CloneError`."
    comparison = Comparison(datetime.date.today().isoformat())
    if scan:
        clone = Clone(scan, SCAN)
        comparison.weights = compare_weights(clone)
        comparison.sources["scan"] = clone.facts()
    if arr:
        clone = Clone(arr, TOPICREG)
        comparison.arr = compare_arr(clone)
        comparison.contrastive = compare_contrastive(clone)
        comparison.sources["arr"] = clone.facts()
    return comparison


def table(comparison: Comparison) -> str:
    "Write the comparison as a Markdown table."
    lines = ["| what | inputs | theirs against ours |", "|---|---|---|"]
    for row in comparison.weights:
        lines.append(
            f"| SCAN's sample weights | {row['samples']} × {row['features']} with {row['memory']} in memory "
            f"| weights {row['weights']:.0e} apart, memory {row['memory_features']:.0e} and "
            f"{row['memory_weights']:.0e}; standard deviation of theirs around 1/n: {row['spread']:.0e} |")
    for row in comparison.arr:
        lines.append(
            f"| ARR's step | {row['texts']} texts × {row['dimensions']} | loss {row['theirs']:.9f} and "
            f"{row['ours']:.9f}; gradients {row['gradient']:.0e} apart of {row['largest_gradient']:.0e}; as printed "
            f"(Eq. 3): {row['printed']:.2f} |")
    for row in comparison.contrastive:
        lines.append(
            f"| contrastive base loss | {row['texts']} texts, {row['with_partner']} with a partner, τ = "
            f"{row['temperature']} | {row['theirs']:.4f} and {row['ours']:.4f}: {row['factor']:.3f} times that "
            f"explains all but {abs(row['difference']):.0e} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scan", type=Path, help=f"folder of a clone of {SCAN}")
    parser.add_argument("--arr", type=Path, help=f"folder of a clone of {TOPICREG}")
    parser.add_argument("--record", type=Path, help="a JSON file for the numbers")
    args = parser.parse_args(arguments)
    if not (args.scan or args.arr):
        parser.error("give the folder of a clone: --scan or --arr")
    try:
        comparison = compare(args.scan, args.arr)
    except CloneError as error:
        sys.exit(str(error))
    print(table(comparison))
    if args.record:
        args.record.write_text(json.dumps(asdict(comparison), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
