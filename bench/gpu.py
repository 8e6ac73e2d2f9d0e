"""Training at the shapes of the papers on a GPU, with random weights: steps a second, the share of the device's peak,
what our own losses take, memory, and what is done on the host. Without a GPU the same script runs at `tiny` size, where
host-side costs are what it is for. See README.md."""
import contextlib
import copy
import gc
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

from common import Clock, cell, compare, rounded, run, seconds, training_stretch

ROOT = Path(__file__).resolve().parents[1]
PLAIN = "plain"
ITV = {"regulariser": "itvreg", "weight": .1, "mask_share": .5}


@dataclass(frozen=True)
class Size:
    "Of an encoder with random weights, and of a run."
    layers: int
    width: int
    inner: int
    heads: int
    words: int  # of the vocabulary
    batch: int
    tokens: int
    steps: int


PAPERS = { # texts or pairs in a step x their tokens
    "900 x 32": Size(6, 768, 3072, 12, 30522, 900, 32, 12),   # DistilBERT: titles and questions
    "140 x 128": Size(12, 768, 3072, 12, 50265, 140, 128, 12), # RoBERTa-base: answers
    "64 x 512": Size(6, 768, 3072, 12, 50265, 64, 512, 12),   # distilroberta: authors
}
TINY = {
    "900 x 32": Size(2, 128, 512, 4, 2000, 64, 32, 6),
    "140 x 128": Size(2, 128, 512, 4, 2000, 16, 128, 6),
    "64 x 512": Size(2, 128, 512, 4, 2000, 16, 256, 6),
}
QUICK = {name: Size(1, 32, 64, 2, 200, 8, 16, 2) for name in PAPERS}
OUTREG = {"regulariser": "outreg", "weight": .1}
SCAN = {"weights": "learned", "variant": "fixed", "memory": "ema", "debias": "paper"}
VARIANTS = { # `MethodConfig`, `ScanConfig` or `AuthorsConfig` of each
    "900 x 32": {PLAIN: {}, "ITVReg": ITV, "ITVReg, a quarter": ITV | {"rows": .25}, "OutReg": OUTREG},
    "140 x 128": {PLAIN: None, "SCAN": SCAN},
    "64 x 512": {PLAIN: {}, "ARR": {"student": "arr"}},
}
# Of one text forwards for each row of a step, frozen encoders prepared before.
PASSES = {PLAIN: 6, "ITVReg": 9, "ITVReg, a quarter": 6.75, "OutReg": 6}

DTYPE = {"cuda": "bf16", "cpu": "fp32"} # bf16 is emulated on many a CPU

# ---------------------------------------------------------------- encoders and data


def tokenizer_of(size: Size):
    "BERT's special tokens, and invented words."
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    words = [f"w{i}" for i in range(size.words - len(names))]
    number = {word: i for i, word in enumerate([*names.values(), *words])}
    made = Tokenizer(models.WordLevel(number, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {f"{name}_token": word for name, word in names.items()}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=514, **special)


def transformer(size: Size):
    "Random weights of the published shape, without a pooler."
    import torch
    from transformers import BertConfig, BertModel
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=size.words, hidden_size=size.width, num_hidden_layers=size.layers, num_attention_heads=size.heads,
        intermediate_size=size.inner, max_position_embeddings=514)
    return BertModel(config, add_pooling_layer=False)


def sentence_encoder(size: Size, device: str):
    "A `SentenceTransformer` with random weights, which averages its tokens."
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    with tempfile.TemporaryDirectory() as folder:
        transformer(size).save_pretrained(folder)
        tokenizer_of(size).save_pretrained(folder)
        modules = [Transformer(folder, max_seq_length=size.tokens), Pooling(size.width, pooling_mode="mean")]
    return SentenceTransformer(modules=modules, device=device)


def random_texts(n: int, size: Size, seed: int) -> list[str]:
    "n texts of as many words as fit, few of them common, as in language."
    import numpy as np
    drawn = np.random.default_rng(seed).zipf(1.3, (n, size.tokens - 2)) % (size.words - 5)
    return [" ".join(f"w{i}" for i in row) for row in drawn]

# ---------------------------------------------------------------- one run of each shape


def clocked(owner, name: str, clock, what: str, sync):
    "A patch that times a function or a method, nested calls once. sync: waits for the device."
    before = getattr(owner, name)

    def timed(*args, **kwargs):
        if what == "encoder" and "loss" not in clock.running: # a frozen encoder, before the first step
            return before(*args, **kwargs)
        with clock(what):
            sync()
            result = before(*args, **kwargs)
            sync()
        return result

    return patch.object(owner, name, timed)


def with_callbacks(trainer, *first):
    "A trainer's class whose trainers have some callbacks before those that they are given."
    class Trainer(trainer):
        def __init__(self, *args, callbacks=(), **kwargs):
            super().__init__(*args, callbacks=[*first, *callbacks], **kwargs)
    return Trainer


def pairs_run(size: Size, device: str) -> tuple:
    "Titles: a function of a variant and callbacks that trains; the parts of it that are timed."
    import numpy as np
    import scipy.sparse
    import torch
    from sentence_transformers import SentenceTransformer
    from debias_nb.encoders.tokens import tokenize
    from debias_nb.losses import regularized
    from debias_nb.repro.runs import training as train
    from debias_nb.repro.config import MethodConfig, TrainConfig
    n = size.batch * size.steps
    encoder = sentence_encoder(size, device)
    left, right = (tokenize(encoder, random_texts(n, size, seed), size.tokens) for seed in (0, 1))
    row = np.arange(n)
    pairs = train.PairTokens(left, right, torch.ones(n), scipy.sparse.identity(n, format="csr"), row, row)
    settings = TrainConfig(
        loss="hinge", margin=.3, hardest=1, learning_rate=1e-4, epochs=1, batch_size=size.batch)

    def run(variant, callbacks):
        method = MethodConfig(name=variant, **VARIANTS["900 x 32"][variant])
        model = copy.deepcopy(encoder)
        train.fine_tune(model, encoder, pairs, method, settings, 0, DTYPE[device], callbacks=callbacks)

    parts = [
        (train.PairCollator, "__call__", "collating"),
        (regularized, "choose", "interventions"),
        (regularized, "intervene", "interventions"),
        (regularized.Regularized, "forward", "loss"),
        (SentenceTransformer, "forward", "encoder"),
    ]
    return run, parts


def answers_run(size: Size, device: str) -> tuple:
    "Pairs of a question and an answer, every sixth of which is labeled 1: the same."
    import torch
    from debias_nb.settings import EncoderConfig
    from debias_nb.repro.runs.pair_encoders import CrossEncoder
    from debias_nb.repro.runs import answer_training as answers
    from debias_nb.repro.config import MethodConfig, ScanConfig, TrainConfig
    encoder = CrossEncoder(transformer(size), tokenizer_of(size))
    n = size.batch * size.steps
    half = replace(size, tokens=size.tokens // 2)
    inputs = encoder.tokenize(random_texts(n, half, 0), random_texts(n, half, 1), size.tokens)
    labels = (torch.arange(n) % 6 == 0).long()
    data = answers.AnswerTokens(inputs, labels, labels.bool())
    settings = TrainConfig(loss="cross-entropy", learning_rate=1e-5, epochs=1, batch_size=size.batch)
    fresh = EncoderConfig(name="learned", kind="alignment", units=1, embedding=1)

    def run(variant, callbacks):
        given = VARIANTS["140 x 128"][variant]
        scan = None if given is None else ScanConfig(**given)
        method = MethodConfig(name=variant, scan=scan)
        with patch.object(answers, "load_pair_encoder", lambda *_: copy.deepcopy(encoder)):
            model = answers.answer_model(fresh, method, settings).to(device)
        trainer = with_callbacks(answers.AnswerTrainer, *callbacks)
        with patch.object(answers, "AnswerTrainer", trainer):
            answers.fit_answers(model, data, scan, settings, 0, DTYPE[device])

    parts = [
        (answers.AnswerCollator, "__call__", "collating"),
        (answers.Weigher, "__call__", "weights"),
        (answers.AnswerTrainer, "compute_loss", "loss"),
        (answers.AnswerModel, "forward", "encoder"),
    ]
    return run, parts


def authors_run(size: Size, device: str) -> tuple:
    "Texts by authors, two of each: the same."
    import numpy as np
    import torch
    from sentence_transformers import SentenceTransformer
    from debias_nb.losses import author_batches, authors as arr
    from debias_nb.encoders.tokens import tokenize
    from debias_nb.repro.config import AuthorsConfig, TrainConfig
    from debias_nb.repro.runs.tasks import authors
    n = size.batch * size.steps
    encoder = sentence_encoder(size, device)
    texts = random_texts(n, size, 0)
    tokens = tokenize(encoder, texts, size.tokens)
    labels = np.arange(n) // 2
    rows = author_batches.text_rows("tfidf", texts)(texts)
    dice = torch.Generator().manual_seed(0)
    teacher = torch.nn.functional.normalize(torch.randn(n, size.width, generator=dice), dim=1)
    settings = TrainConfig(
        loss="authors", temperature=.1, learning_rate=1e-4, epochs=1, batch_size=size.batch)

    def run(variant, callbacks):
        model = copy.deepcopy(encoder)
        method = AuthorsConfig(**VARIANTS["64 x 512"][variant])
        loss = authors.author_loss(method, model, labels, .1, lambda: rows, teacher)
        trainer = with_callbacks(authors.QuietTrainer, *callbacks)
        with patch.object(authors, "QuietTrainer", trainer):
            authors.fit_authors(model, loss, tokens, labels, settings, 1, 0, DTYPE[device])

    parts = [
        (author_batches.AuthorCollator, "__call__", "collating"),
        (author_batches, "sparse_cosines", "TF-IDF"),
        (arr.AuthorLoss, "forward", "loss"),
        (SentenceTransformer, "forward", "encoder"),
    ]
    return run, parts


RUNS = {"900 x 32": pairs_run, "140 x 128": answers_run, "64 x 512": authors_run}

# ---------------------------------------------------------------- measuring


def step_flop(name: str, variant: str, size: Size) -> float:
    "Operations of a step, as reports/COST.md counts them: frozen encoders prepared before are not in a step."
    weights = size.layers * (4 * size.width**2 + 2 * size.width * size.inner)
    forwards = 2 * weights * size.tokens + 4 * size.layers * size.width * size.tokens**2 # of a text
    passes = PASSES[variant] if name == "900 x 32" else 3
    return size.batch * passes * forwards


def peak_flop(device: str) -> float:
    "FLOP a second that a device has at most; of a CPU, of which nobody states it, those of a product of matrices in fp32."
    import torch
    from debias_nb.files import load_yaml
    if device == "cuda":
        return load_yaml(ROOT / "configs/device/costs.yaml")["peak"]["bf16"]
    matrix = torch.randn(512, 512)
    return 2 * 512**3 / min(seconds(lambda: matrix @ matrix, time.process_time) for _ in range(8))


def timed_run(train, variant: str, size: Size, device: str, sync, parts=()) -> dict:
    """Seconds of a step, from the first batch to the last update, as `training`, and of its parts. Where there is no GPU
    one thread does all of it, and its CPU time says something on a busy machine, too."""
    clock = Clock(time.perf_counter if device == "cuda" else time.process_time)
    gc.collect()
    with contextlib.ExitStack() as stack:
        for owner, name, what in parts:
            stack.enter_context(clocked(owner, name, clock, what, sync))
        train(variant, (training_stretch(clock),))
        sync()
    return {what: spent / size.steps for what, spent in clock.seconds.items()}


def shares(step: dict) -> dict:
    "What parts of a step take, of one run in which the device is waited for around each of them."
    whole = step.pop("training")
    step["our losses"] = step.pop("loss", 0.) - step.pop("encoder", 0.)
    return {what: rounded(spent / whole, 3) for what, spent in step.items()}


def measured(name: str, size: Size, device: str, repeats: int) -> dict:
    """What a record says of a shape. Of each variant: milliseconds of a step, steps a second, the share of the peak,
    and the shares of its parts."""
    import torch
    from transformers import Trainer
    from debias_nb.repro.runs.origin import this_machine
    train, parts = RUNS[name](size, device)
    parts = [*parts, (Trainer, "_prepare_inputs", "moving")]
    sync = torch.cuda.synchronize if device == "cuda" else lambda: None # waits for the device
    peak = peak_flop(device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()

    def once(variant):
        step = timed_run(train, variant, size, device, sync)["training"]
        return {"ms": 1000 * step, "steps": 1 / step, "peak": step_flop(name, variant, size) / step / peak}

    timed = compare(VARIANTS[name], once, PLAIN, repeats)
    for variant in timed:
        timed[variant]["shares"] = shares(timed_run(train, variant, size, device, sync, parts))
    return {
        "size": vars(size),
        "flop": {variant: step_flop(name, variant, size) for variant in timed},
        "peak_flop": peak,
        "variants": timed,
        "peak_memory_bytes": this_machine()["peak_memory"],
    }


def print_shape(name: str, variants: dict) -> None:
    "A line for each variant."
    for variant, found in variants.items():
        parts = ", ".join(f"{what} {share:.1%}" for what, share in found["shares"].items())
        times = f"{cell(found['ms'])} ms a step, {found['peak']['median']:.1%} of the peak, ratio to plain {cell(found['ratio'])}"
        print(f"{name}, {variant}: {times}; {parts}")


def measure(options) -> tuple[dict, dict]:
    """Share of the peak: operations of a step (2 N n + 4 L d n² a text forwards, three times that with backwards) over
    time, over the device's rate in bf16; on a CPU over that of a product of matrices in fp32."""
    import torch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    named, sizes = ("papers", PAPERS) if device == "cuda" else ("tiny", TINY)
    if options.quick:
        named, sizes = "quick", QUICK
    results = {}
    for name in options.shape or sizes:
        results[name] = measured(name, sizes[name], device, options.repeats)
        print_shape(name, results[name]["variants"])
    about = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    return {"sizes": named}, {"device": about, "shapes": results}


if __name__ == "__main__":
    shape = {"action": "append", "choices": list(PAPERS), "help": "may be repeated (default: all)"}
    sys.exit(run(__file__, __doc__, measure, 5, {"shape": shape}))
