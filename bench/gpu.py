"""Training at the shapes of the papers on a GPU, with random weights: steps a second, the share of the device's peak,
what our own losses take, memory, and what is done on the host. Without a GPU the same script runs at `tiny` size, where
host-side costs are what it is for. See README.md."""
import contextlib
import copy
import gc
import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import common
from common import (
    Clock, Meter, ask_busy, begin, calm, cell, checked, compare, finish, new_parser, rounded, table, telling,
    training_stretch, with_callbacks,
)

RECORD = Path(__file__).resolve().with_suffix(".json")
ROOT = RECORD.parents[1]
PLAIN, CACHED, DETERMINISTIC = "plain", "plain, one batch kept", "plain, deterministic"
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
    "900 x 32": {
        PLAIN: {}, CACHED: {}, DETERMINISTIC: {},
        "ITVReg": ITV, "ITVReg, a quarter": ITV | {"rows": .25}, "OutReg": OUTREG,
    },
    "140 x 128": {PLAIN: None, CACHED: None, DETERMINISTIC: None, "SCAN": SCAN},
    "64 x 512": {PLAIN: {}, CACHED: {}, DETERMINISTIC: {}, "ARR": {"student": "arr"}},
}
# Of one text forwards for each row of a step, frozen encoders prepared before.
PASSES = {PLAIN: 6, CACHED: 6, DETERMINISTIC: 6, "ITVReg": 9, "ITVReg, a quarter": 6.75, "OutReg": 6}

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


def kept_batch(owner):
    "A patch of a collator that makes its first batch and gives it again and again."
    made = []
    before = owner.__call__

    def once(self, features):
        if not made:
            made.append(before(self, features))
        return dict(made[0])

    return patch.object(owner, "__call__", once)


def pairs_run(size: Size, device: str) -> tuple:
    "Titles: a function of a variant and callbacks that trains; the parts of it that are timed; the collator."
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
    return run, parts, train.PairCollator


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
    return run, parts, answers.AnswerCollator


def authors_run(size: Size, device: str) -> tuple:
    "Texts by authors, two of each: the same."
    import numpy as np
    import torch
    from sentence_transformers import SentenceTransformer
    from debias_nb.losses import authors as arr
    from debias_nb.encoders.tokens import tokenize
    from debias_nb.repro.config import AuthorsConfig, TrainConfig
    from debias_nb.repro.runs.tasks import authors
    n = size.batch * size.steps
    encoder = sentence_encoder(size, device)
    texts = random_texts(n, size, 0)
    tokens = tokenize(encoder, texts, size.tokens)
    labels = np.arange(n) // 2
    rows = arr.text_rows("tfidf", texts)(texts)
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
        (arr.AuthorCollator, "__call__", "collating"),
        (arr, "sparse_cosines", "TF-IDF"),
        (arr.AuthorLoss, "forward", "loss"),
        (SentenceTransformer, "forward", "encoder"),
    ]
    return run, parts, arr.AuthorCollator


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
    return 2 * 512**3 / min(common.seconds(lambda: matrix @ matrix) for _ in range(8))


def clock_of(device: str):
    "Where there is no GPU one thread does all of it, and its CPU time says something on a busy machine, too."
    if device == "cuda":
        return contextlib.nullcontext()
    cpu = SimpleNamespace(perf_counter=time.process_time, process_time=time.process_time)
    return patch.object(common, "time", cpu)


def timed_run(run, variant: str, size: Size, sync, patches=()) -> tuple:
    "Seconds of a step, from the first batch to the last update; the clock that patches use, functions of it."
    clock = Clock()
    gc.collect()
    with contextlib.ExitStack() as stack:
        for made_with in patches:
            stack.enter_context(made_with(clock))
        run(variant, (training_stretch(clock),))
        sync()
    return clock.seconds["training"] / size.steps, clock


def shares(run, parts, variant: str, size: Size, sync) -> dict:
    "What parts of a step take, of one run in which the device is waited for around each of them."
    from transformers import Trainer
    patches = []
    for owner, name, what in [*parts, (Trainer, "_prepare_inputs", "moving")]:
        patches.append(partial(clocked, owner, name, what=what, sync=sync))
    step, clock = timed_run(run, variant, size, sync, patches)
    found = {what: seconds / size.steps / step for what, seconds in clock.seconds.items() if what != "training"}
    found["our losses"] = found.pop("loss", 0.) - found.pop("encoder", 0.)
    return {what: rounded(share, 3) for what, share in found.items()}


@contextlib.contextmanager
def surroundings(variant: str, collator):
    "What a variant changes around a run."
    import torch
    with kept_batch(collator) if variant == CACHED else contextlib.nullcontext():
        torch.use_deterministic_algorithms(variant == DETERMINISTIC) # whose sums do not depend on chance
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(False)


def measure(name: str, size: Size, device: str, repeats: int, say) -> dict:
    """What a record says of a shape. Of each variant: milliseconds of a step, steps a second, the share of the peak,
    and the shares of its parts."""
    from debias_nb.repro.runs.records import this_machine
    import torch
    run, parts, collator = RUNS[name](size, device)
    sync = torch.cuda.synchronize if device == "cuda" else lambda: None # waits for the device
    peak = peak_flop(device)

    def once(variant):
        with surroundings(variant, collator):
            seconds, _ = timed_run(run, variant, size, sync)
        return {"ms": 1000 * seconds, "steps": 1 / seconds, "peak": step_flop(name, variant, size) / seconds / peak}

    timed = compare(list(VARIANTS[name]), once, PLAIN, repeats, say)
    for variant in timed:
        timed[variant]["shares"] = shares(run, parts, variant, size, sync)
    return {
        "size": vars(size),
        "flop": {variant: step_flop(name, variant, size) for variant in timed},
        "peak_flop": peak,
        "variants": timed,
        "peak_memory_bytes": this_machine()["peak_memory"],
    }


def shared(workers: list[int]) -> dict:
    "Small runs a minute, from several processes on one device. Their number -> runs a minute."
    from debias_nb.repro.config import load_experiment
    from debias_nb.repro.runs.records import Store
    from debias_nb.repro.runs.runner import narrow, run_all
    whole = load_experiment("itvreg/table03", "planted")
    runs = narrow(whole, methods=["Finetuned"], encoders=["tiny"], seeds=list(range(8))).runs()[:16]
    found = {}
    for count in workers:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            out = run_all(runs, Store(folder), workers=count, progress=False)
            minutes = (time.perf_counter() - start) / 60
        found[str(count)] = rounded(len(out.trained) / minutes)
    return found


# ---------------------------------------------------------------- saying


def shown(name: str, found: dict) -> str:
    "The table of a shape."
    rows = []
    for variant, v in found["variants"].items():
        parts = ", ".join(f"{what} {share:.1%}" for what, share in v["shares"].items())
        steps = f"{v['steps']['median']:.3g}"
        peak = f"{v['peak']['median']:.1%}"
        rows.append((variant, cell(v["ms"]), steps, peak, cell(v["ratio"]), parts))
    return table((name, "ms a step", "steps/s", "of the peak", "ratio to plain", "shares of a step"), rows)


def arguments(argv):
    "The options. Ends the program where they make no sense."
    parser = new_parser(__doc__, RECORD, 5, "2 steps of a toy, 2 rounds")
    ask_busy(parser)
    parser.add_argument("--shape", action="append", choices=list(PAPERS), help="may be repeated (default: all)")
    parser.add_argument("--tiny", action="store_true", help="the small sizes, which are taken where there is no GPU")
    parser.add_argument(
        "--share", type=int, nargs="*", default=[], metavar="N",
        help="runs a minute from so many processes, e.g. --share 1 2 4 8")
    options = checked(parser, parser.parse_args(argv))
    if options.quick:
        options.repeats = 2
    return options


def main(argv=None) -> int:
    options = arguments(argv)
    load = begin()
    # What deterministic algorithms ask for, before CUDA begins.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    named, sizes = "papers", PAPERS
    if options.quick:
        named, sizes = "quick", QUICK
    elif options.tiny or device == "cpu":
        named, sizes = "tiny", TINY
    results = {}
    meter = Meter()
    with calm(), clock_of(device):
        for name in options.shape or sizes:
            if device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            with meter:
                results[name] = measure(name, sizes[name], device, options.repeats, telling(name))
            print(shown(name, results[name]), end="\n\n")
        sharing = shared(options.share)
    for count, rate in sharing.items():
        print(f"{count} processes: {rate:g} small runs a minute")
    note = (
        "share of the peak: operations of a step (2 N n + 4 L d n² a text forwards, three times that with backwards) "
        "over time, over the device's rate in bf16; on a CPU over that of a product of matrices in fp32"
    )
    found = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "shapes": results,
        "sharing": sharing,
    }
    return finish(RECORD, note, options, load, meter, {"repeats": options.repeats, "sizes": named}, found)


if __name__ == "__main__":
    sys.exit(main())
