"""Each loss of sentence-transformers inside `Regularized`, for each type of model and each way to train it.

python tests/library/trainings.py    writes docs/trainings.md again, in some minutes; what a training does decides
"""
import copy
import gc
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import made
import torch
import transformers
from datasets import Dataset
from peft import LoraConfig
from sentence_transformers import CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers import CrossEncoderTrainer, MultiVectorEncoderTrainer, SentenceTransformerTrainer
from sentence_transformers import SparseEncoderTrainer, __version__
from sentence_transformers.base.modules import Router
from sentence_transformers.cross_encoder import losses as _pairs
from sentence_transformers.multi_vector_encoder import losses as _tokens
from sentence_transformers.sentence_transformer import losses as _dense
from sentence_transformers.sparse_encoder import losses as _sparse
from sentence_transformers.sparse_encoder.modules import SparseAutoEncoder, SparseStaticEmbedding, SpladePooling
from transformers import BertForMaskedLM

from needs import cannot_meet
from debias_nb import ITVReg, L2SP, MaskReg, OutReg, Regularized, SimCSE, WordDropout
from debias_nb.losses.gradient_shares import gradient_length
from debias_nb.processes import gather_rows, processes, rank

TEMPLATE = Path(__file__).with_name("trainings.md")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "trainings.md"
WAYS = ("alone", "LoRA", "prompts", "Router", "bf16", "two processes", "resumed")
ROWS = 8 # of a data set
STEPS = 60
LEAST = 1e-3 # share of a term in the gradient: below it `Regularized` warns, too
NEAR = 1e-6 # of weights after a resumed training
TRAINERS = {
    SentenceTransformer: SentenceTransformerTrainer, CrossEncoder: CrossEncoderTrainer,
    SparseEncoder: SparseEncoderTrainer, MultiVectorEncoder: MultiVectorEncoderTrainer,
}

# ---------------------------------------------------------------- models


def of_texts(folder: Path) -> SentenceTransformer:
    return made.load(folder / "bert")


def of_pairs(folder: Path, labels: int = 1) -> CrossEncoder:
    return CrossEncoder(str(folder / f"cross{labels}"), num_labels=labels, device="cpu")


def splade(folder: Path) -> SparseEncoder:
    return SparseEncoder(str(folder / "masked"), device="cpu")


def autoencoder(folder: Path) -> SparseEncoder:
    torch.manual_seed(0)
    return SparseEncoder(modules=[*of_texts(folder), SparseAutoEncoder(32, 64, k=8, k_aux=16)], device="cpu")


def colbert(folder: Path) -> MultiVectorEncoder:
    torch.manual_seed(0)
    return MultiVectorEncoder(str(folder / "plain"), device="cpu")


def save_models(folder: Path) -> None:
    "Save small random models, from which each training starts."
    made.bert(folder)
    model = of_texts(folder)
    model.transformers_model.save_pretrained(folder / "plain")
    model.tokenizer.save_pretrained(folder / "plain")
    for labels in (1, 3):
        made.cross_encoder(folder / f"cross{labels}", labels)
    torch.manual_seed(0)
    BertForMaskedLM(model.transformers_model.config).save_pretrained(folder / "masked")
    model.tokenizer.save_pretrained(folder / "masked")


def with_routes(model):
    "Return a model with a route for queries and one for documents."
    parts = list(model)
    if isinstance(model, CrossEncoder):
        routed = Router({"document": parts}, default_route="document")
        return CrossEncoder(modules=[routed], num_labels=model.num_labels)
    queries = copy.deepcopy(parts)
    if any(isinstance(part, SpladePooling) for part in parts):
        width = model.transformers_model.config.vocab_size
        queries = [SparseStaticEmbedding(model.tokenizer, torch.ones(width))]
    return type(model)(modules=[Router.for_query_document(queries, parts)], device="cpu")


# ---------------------------------------------------------------- data


def data_of(form: str) -> Dataset:
    "Return random texts in columns, as a loss wants them."
    dice = random.Random(form)

    def text():
        return " ".join(dice.choices(made.WORDS, k=dice.randint(2, 5)))

    names = ["anchor", "positive", "negative"][: {"texts": 1, "triplets": 3, "margins": 3, "teachers": 3}.get(form, 2)]
    columns = {name: [text() for _ in range(ROWS)] for name in names}
    if form == "lists":
        columns["positive"] = [[text() for _ in range(3)] for _ in range(ROWS)]
    labels = {
        "texts": lambda: dice.randrange(2), "scores": dice.random, "binary": lambda: dice.randrange(2),
        "classes": lambda: dice.randrange(3), "margins": dice.random,
        "teachers": lambda: [dice.random(), dice.random()],
        "vectors": lambda: [dice.random() for _ in range(32)],
        "words": lambda: [dice.random() for _ in made.VOCABULARY],
        "lists": lambda: [1., 0., float(dice.randrange(2))],
    }
    if form in labels:
        columns["label"] = [labels[form]() for _ in range(ROWS)]
    return Dataset.from_dict(columns)


# ---------------------------------------------------------------- losses: of what, made how, with which data

def _splade(inner):
    return lambda model: _sparse.SpladeLoss(model, inner(model), document_regularizer_weight=1e-3,
                                            query_regularizer_weight=1e-3)


def _guide(kind):
    return lambda model: kind(model, guide=copy.deepcopy(model).requires_grad_(False))


def _each(module, **names_by_form) -> dict:
    return {name: (getattr(module, name), form) for form, names in names_by_form.items() for name in names.split()}


LOSSES = {kind: (of_kind, dict(sorted(losses.items(), key=lambda loss: loss[0]))) for kind, of_kind, losses in (
    ("SentenceTransformer", of_texts, _each(
        _dense, scores="AnglELoss CoSENTLoss CosineSimilarityLoss", binary="ContrastiveLoss OnlineContrastiveLoss",
        texts="BatchAllTripletLoss BatchHardSoftMarginTripletLoss BatchHardTripletLoss BatchSemiHardTripletLoss",
        pairs="CachedMultipleNegativesRankingLoss CachedMultipleNegativesSymmetricRankingLoss "
              "ContrastiveTensionLossInBatchNegatives GlobalOrthogonalRegularizationLoss "
              "MultipleNegativesSymmetricRankingLoss",
        triplets="MultipleNegativesRankingLoss TripletLoss", teachers="DistillKLDivLoss", margins="MarginMSELoss",
        vectors="EmbedDistillLoss MSELoss") | {
            "AdaptiveLayerLoss": (lambda m: _dense.AdaptiveLayerLoss(m, _dense.CoSENTLoss(m)), "scores"),
            "CachedGISTEmbedLoss": (_guide(_dense.CachedGISTEmbedLoss), "pairs"),
            "GISTEmbedLoss": (_guide(_dense.GISTEmbedLoss), "pairs"),
            "Matryoshka2dLoss": (lambda m: _dense.Matryoshka2dLoss(m, _dense.CoSENTLoss(m), [32, 16]), "scores"),
            "MatryoshkaLoss": (
                lambda m: _dense.MatryoshkaLoss(m, _dense.MultipleNegativesRankingLoss(m), [32, 16]), "pairs"),
            "MegaBatchMarginLoss": (lambda m: _dense.MegaBatchMarginLoss(m, use_mini_batched_version=False), "pairs"),
            "SoftmaxLoss": (lambda m: _dense.SoftmaxLoss(m, 32, 3), "classes")}),
    ("CrossEncoder", of_pairs, _each(
        _pairs, lists="ADRMSELoss LambdaLoss ListMLELoss ListNetLoss PListMLELoss RankNetLoss", scores="MSELoss",
        binary="BinaryCrossEntropyLoss", classes="CrossEntropyLoss", margins="MarginMSELoss",
        pairs="MultipleNegativesRankingLoss") | {
            "CachedMultipleNegativesRankingLoss": (
                lambda m: _pairs.CachedMultipleNegativesRankingLoss(m, num_negatives=2, mini_batch_size=3), "pairs")}),
    ("SparseEncoder", splade, {
        f"{name} in SpladeLoss": (_splade(make), form) for name, (make, form) in _each(
            _sparse, scores="SparseAnglELoss SparseCoSENTLoss SparseCosineSimilarityLoss",
            teachers="SparseDistillKLDivLoss", margins="SparseMarginMSELoss",
            triplets="SparseMultipleNegativesRankingLoss SparseTripletLoss").items()
    } | _each(_sparse, pairs="CSRLoss", words="SparseMSELoss") | {
        "CachedSpladeLoss": (lambda m: _sparse.CachedSpladeLoss(
            m, _sparse.SparseMultipleNegativesRankingLoss(m), 1e-3, 1e-3, mini_batch_size=3), "pairs")}),
    ("MultiVectorEncoder", colbert, _each(
        _tokens, teachers="MultiVectorDistillKLDivLoss", margins="MultiVectorMarginMSELoss",
        triplets="MultiVectorMultipleNegativesRankingLoss") | {
            "CachedMultiVectorMultipleNegativesRankingLoss": (
                lambda m: _tokens.CachedMultiVectorMultipleNegativesRankingLoss(m, mini_batch_size=3), "pairs")}))}
MODELS = {"CrossEntropyLoss": lambda folder: of_pairs(folder, 3), "CSRLoss": autoencoder}

# ---------------------------------------------------------------- a training


def mean_of_processes(value: torch.Tensor) -> float: # the same in each: all must come to the same end
    return float(gather_rows(value.detach()[None]).mean())


class Watch(transformers.TrainerCallback):
    "What a training shows: the loss in each step, and each term's gradient as a share of the whole, at most."
    def __init__(self):
        self.losses, self.lengths, self.shares = [], {}, {}

    def see(self, loss, inputs, output) -> None:
        "Follow each forward pass of a loss."
        terms = output if isinstance(output, dict) else {"base": output}
        self.losses.append(mean_of_processes(sum(terms.values())))
        if len(self.losses) % 10 == 0 and isinstance(loss, Regularized):
            weights = [weight for weight in loss.encoder.parameters() if weight.requires_grad]
            self.lengths = {name: mean_of_processes(gradient_length(terms[name], weights)) for name in loss.terms}

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs) -> None:
        gradients = [weight.grad.norm() for weight in model.parameters() if weight.grad is not None]
        whole = float(torch.stack(gradients).norm())
        for name, length in self.lengths.items():
            self.shares[name] = max(self.shares.get(name, 0.), length / max(whole, NEAR))
        self.lengths = {}


def outputs_of(model) -> torch.Tensor:
    "Return what a model computes of some texts, by each of its routes."
    if isinstance(model, CrossEncoder):
        return torch.as_tensor(model.predict([["red lamp", "old chair"], ["a kettle", "why"]]))
    outputs = []
    for encode in (model.encode_query, model.encode_document):
        outputs += [torch.as_tensor(encode(text)).to_dense().flatten() for text in ("red lamp", "the old chair")]
    return torch.cat(outputs)


class Cell:
    "Training of a loss with one type of model in one way."
    def __init__(self, folder: Path, kind: str, name: str, way: str):
        self.folder, self.kind, self.name, self.way = folder, kind, name, way
        of_kind, losses = LOSSES[kind]
        self.make_model = MODELS.get(name, of_kind) if kind in ("CrossEncoder", "SparseEncoder") else of_kind
        self.make_loss, self.form = losses[name]

    def model(self):
        model = self.make_model(self.folder)
        for part in model.modules():
            if isinstance(part, torch.nn.Dropout): # so that a step is no chance
                part.p = 0.
        torch.manual_seed(1)
        if self.way == "LoRA":
            of_pairs = self.kind == "CrossEncoder"
            task, head = ("SEQ_CLS", ["classifier"]) if of_pairs else ("FEATURE_EXTRACTION", None)
            model.add_adapter(LoraConfig(task_type=task, r=4, target_modules=["query", "value"], modules_to_save=head))
        return with_routes(model) if self.way == "Router" else model

    def regularizers(self) -> list:
        return [OutReg(1.)] if self.kind == "CrossEncoder" else [OutReg(1.), ITVReg(1.)]

    def arguments(self, out: Path):
        settings = {"save_strategy": "no"}
        columns = [name for name in data_of(self.form).column_names if name != "label"]
        if self.way == "prompts":
            by_column = dict(zip(columns, ("why ", "the table ", "a lamp ")))
            settings["prompts"] = "why " if self.kind == "CrossEncoder" else by_column
        if self.way == "Router":
            settings["router_mapping"] = dict(zip(columns, ("query", "document", "document")))
            if self.kind == "CrossEncoder":
                settings["router_mapping"] = {"all": "document"} # of a data set, since columns make pairs
        if self.kind == "CrossEncoder" and self.way == "two processes": # otherwise none of its losses trains
            settings["ddp_find_unused_parameters"] = False
        if self.way == "resumed":
            settings |= {"save_strategy": "steps", "save_steps": STEPS // 2}
        trainer = TRAINERS[globals()[self.kind]]
        return trainer.training_args_class(
            str(out), use_cpu=True, bf16=self.way == "bf16", per_device_train_batch_size=ROWS // processes(),
            max_steps=STEPS, seed=3, learning_rate=1e-2, max_grad_norm=0., report_to="none", disable_tqdm=True,
            **settings)

    def train(self, out: Path, alone: bool = False, resume=None):
        "Return the trained model, and what was watched."
        model = self.model()
        loss, watch = self.make_loss(model), Watch()
        if not alone:
            loss = Regularized(model, loss, self.regularizers())
        loss.register_forward_hook(watch.see)
        data = data_of(self.form)
        if self.kind == "CrossEncoder" and self.way == "Router":
            data = {"all": data}
        trainer = TRAINERS[globals()[self.kind]](
            model=model, args=self.arguments(out), train_dataset=data, loss=loss, callbacks=[watch])
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train(resume_from_checkpoint=resume)
        return trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False).eval(), watch

    def problem(self, alone: bool = False) -> str | None: # None: it trains; alone: without regularizers
        "Train, and say what is wrong with it."
        with tempfile.TemporaryDirectory() as out:
            model, watch = self.train(Path(out), alone)
            first, *_, last = watch.losses # of all rows
            if not last < first:
                return f"the loss goes from {first:.4g} to {last:.4g} in {STEPS} steps"
            for name, share in watch.shares.items():
                if not share > LEAST:
                    return f"{name} has at most {share:.1g} of the gradient"
            if rank() == 0: # which alone saves a model
                model.save_pretrained(str(Path(out) / "saved"), create_model_card=False)
                loaded = type(model)(str(Path(out) / "saved"), device="cpu")
                if not torch.allclose(outputs_of(loaded), outputs_of(model), atol=1e-5):
                    return "the saved model gives other outputs"
            if self.way == "resumed":
                again, _ = self.train(Path(out), alone, resume=str(Path(out) / f"checkpoint-{STEPS // 2}"))
                states = zip(model.state_dict().values(), again.state_dict().values(), strict=True)
                furthest = max(float((one - other).abs().max()) for one, other in states)
                if furthest > NEAR:
                    return f"after a resume weights differ by {furthest:g}"
        return None

    def outcome(self, alone: bool) -> list: # [word, message]
        try:
            problem = self.problem(alone)
            outcomes = [["runs", problem] if problem else ["trains", ""]]
        except Exception as e: # whatever is raised is what a user sees
            outcomes = [["refused", f"{type(e).__name__}: {e}"]]
        if torch.distributed.is_initialized():
            torch.distributed.broadcast_object_list(outcomes)
        return outcomes[0]

    def result(self) -> list: # [word, message]
        "Return `trains`, `runs` or `refused`; with `alone` where the loss without regularizers does no better."
        word, message = self.outcome(False)
        if word == "trains":
            return [word, message]
        word_alone, message_alone = self.outcome(True)
        return [f"alone {word}", message_alone] if word_alone == word else [word, message]


def cells(ways=WAYS, kinds=LOSSES) -> list[tuple]:
    return [(kind, name, way) for kind in kinds for name in LOSSES[kind][1] for way in ways]


def results_of(folder: Path, places: list[tuple]) -> dict:
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    gc.freeze() # each training begins with a collection of garbage
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {cell: Cell(folder, *cell).result() for cell in places}


def in_two_processes(folder: Path, places: list[tuple]) -> dict:
    "Return the results of trainings that two processes have made together."
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    started = []
    for number in "01":
        variables = os.environ | {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                  "MASTER_PORT": port}
        command = [sys.executable, __file__, str(folder), json.dumps(places)]
        started.append(subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL))
    assert [process.wait(timeout=900) for process in started] == [0, 0]
    first, second = (json.loads((folder / f"{number}.json").read_text()) for number in "01")
    return {tuple(cell): max(one, other) if one[0] == other[0] else ["refused", "the processes differ"]
            for cell, one, other in zip(places, first, second, strict=True)}


def all_results(kinds=LOSSES) -> dict:
    with tempfile.TemporaryDirectory() as made_in:
        folder = Path(made_in)
        save_models(folder)
        results = results_of(folder, cells([way for way in WAYS if way != "two processes"], kinds))
        together = cells(["two processes"], kinds)
        if cannot_meet():
            return results | dict.fromkeys(together, ["not tried", cannot_meet()])
        return results | in_two_processes(folder, together)


# ---------------------------------------------------------------- the page


def regularizer_rows(folder: Path) -> list[list[str]]:
    "Return which regularizers each type of model takes."
    rows = []
    for kind, (make, losses) in LOSSES.items():
        words = []
        for regularizer in (OutReg, ITVReg, MaskReg, SimCSE, WordDropout, L2SP):
            model = make(folder)
            try:
                Regularized(model, next(iter(losses.values()))[0](model), [regularizer()])
                words.append("yes")
            except ValueError:
                words.append("no")
        rows.append([kind, *words, "yes"])
    return rows


def table_of(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(results: dict) -> str:
    "Return the page of all results."
    sense = [word for word, _ in results.values() if word != "alone refused"]
    parts, reasons = [], []
    for kind, (_, losses) in LOSSES.items():
        rows = []
        for name in losses:
            words = []
            for way in WAYS:
                word, message = results[kind, name, way]
                if word not in ("trains", "alone refused"):
                    reason = re.sub(r"^\w+Error: ", "", message.replace(name, "the loss"))
                    reason += ", without regularizers" * word.startswith("alone")
                    reasons += [reason] * (reason not in reasons)
                    word = f"{word.removeprefix('alone ')} ({reasons.index(reason) + 1})"
                words.append("—" if word == "alone refused" else word)
            rows.append([name, *words])
        parts.append(f"## {kind}\n\n{table_of(['loss', *WAYS], rows)}\n")
    parts.append("\n".join(f"{place}. {reason}." for place, reason in enumerate(reasons, 1)) + "\n")
    with tempfile.TemporaryDirectory() as made_in:
        save_models(Path(made_in))
        head = ["model", "OutReg", "ITVReg", "MaskReg", "SimCSE", "WordDropout", "L2SP", "`wise_ft`"]
        regularizers = table_of(head, regularizer_rows(Path(made_in)))
    return TEMPLATE.read_text("utf-8").format(
        trained=sense.count("trains"), all=len(sense), steps=STEPS, version=".".join(__version__.split(".")[:2]),
        tables="\n".join(parts), regularizers=regularizers)


if __name__ == "__main__":
    if "RANK" in os.environ:
        folder, places = Path(sys.argv[1]), json.loads(sys.argv[2])
        results = results_of(folder, [tuple(cell) for cell in places])
        (folder / f"{os.environ['RANK']}.json").write_text(json.dumps(list(results.values())))
    else:
        PAGE.write_text(page(all_results()), "utf-8")
