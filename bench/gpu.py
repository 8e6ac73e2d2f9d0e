"""Training at the shapes of the papers on a GPU, with random weights: steps a second, the share of the device's peak, what our own losses take, memory, and what is
done on the host. Without a GPU the same script runs at `tiny` size, where host-side costs are what it is for. See README.md."""
import contextlib
import copy
import gc
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import common
from common import THREADS, Clock, Meter, begin, cell, checked, compare, finish, parser, table, training_stretch

RECORD = Path(__file__).resolve().with_suffix(".json")
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
VARIANTS = {
    "900 x 32": {PLAIN: {}, CACHED: {}, DETERMINISTIC: {}, "ITVReg": ITV, "ITVReg, a quarter": ITV | {"rows": .25}, "OutReg": {"regulariser": "outreg", "weight": .1}},
    "140 x 128": {PLAIN: None, CACHED: None, DETERMINISTIC: None, "SCAN": {"weights": "learned", "variant": "fixed", "memory": "ema", "debias": "paper"}},
    "64 x 512": {PLAIN: {}, CACHED: {}, DETERMINISTIC: {}, "ARR": {"student": "arr"}},
}
PASSES = {PLAIN: 6, CACHED: 6, DETERMINISTIC: 6, "ITVReg": 9, "ITVReg, a quarter": 6.75, "OutReg": 6} # of one text forwards for each row of a step, frozen encoders prepared before

DTYPE = {"cuda": "bf16", "cpu": "fp32"} # bf16 is emulated on many a CPU

# ---------------------------------------------------------------- encoders and data

def tokenizer_of(size):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    number = {word: i for i, word in enumerate([*special, *(f"w{i}" for i in range(size.words - len(special)))])}
    made = Tokenizer(models.WordLevel(number, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=514, **{f"{name}_token": word for name, word in names.items()})

def transformer(size):
    "Random weights of the published shape, without a pooler."
    import torch
    from transformers import BertConfig, BertModel
    torch.manual_seed(0)
    return BertModel(BertConfig(
        vocab_size=size.words, hidden_size=size.width, num_hidden_layers=size.layers, num_attention_heads=size.heads, intermediate_size=size.inner,
        max_position_embeddings=514), add_pooling_layer=False)

def sentence_encoder(size, device):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    with tempfile.TemporaryDirectory() as folder:
        transformer(size).save_pretrained(folder)
        tokenizer_of(size).save_pretrained(folder)
        modules = [Transformer(folder, max_seq_length=size.tokens), Pooling(size.width, pooling_mode="mean")]
    return SentenceTransformer(modules=modules, device=device)

def random_texts(n, size, seed):
    "Texts of as many words as fit, few of them common, as in language."
    import numpy as np
    drawn = np.random.default_rng(seed).zipf(1.3, (n, size.tokens - 2)) % (size.words - 5)
    return [" ".join(f"w{i}" for i in row) for row in drawn]

# ---------------------------------------------------------------- one run of each shape

def clocked(owner, name, clock, what, sync):
    "A patch that times a function or a method, nested calls once."
    before = getattr(owner, name)
    def timed(*args, **kwargs):
        if what == "encoder" and "loss" not in clock.running: return before(*args, **kwargs) # a frozen encoder, before the first step
        with clock(what):
            sync()
            result = before(*args, **kwargs)
            sync()
        return result
    return patch.object(owner, name, timed)

def kept_batch(owner):
    "A patch of a collator that makes its first batch and gives it again and again."
    made, before = [], owner.__call__
    def once(self, features):
        if not made: made.append(before(self, features))
        return dict(made[0])
    return patch.object(owner, "__call__", once)

def pairs_run(size, device):
    "Titles: -> run(variant), what is timed in it."
    import numpy as np
    import scipy.sparse
    import torch
    from sentence_transformers import SentenceTransformer
    from debias_nb import itvreg
    from debias_nb.encoders import tokenise
    from debias_nb.repro import training as train
    from debias_nb.repro.config import MethodConfig, TrainConfig
    encoder, n = sentence_encoder(size, device), size.batch * size.steps
    sides = [tokenise(encoder, random_texts(n, size, seed), size.tokens) for seed in (0, 1)]
    row = np.arange(n)
    pairs = train.PairTokens(*sides, torch.ones(n), scipy.sparse.identity(n, format="csr"), row, row)
    settings = TrainConfig(loss="hinge", margin=.3, hardest=1, learning_rate=1e-4, epochs=1, batch_size=size.batch, threads=THREADS)
    def run(variant, callbacks):
        method = MethodConfig(name=variant, **VARIANTS["900 x 32"][variant])
        train.fine_tune(copy.deepcopy(encoder), encoder, pairs, method, settings, 0, DTYPE[device], callbacks=callbacks)
    parts = [(train.PairCollator, "__call__", "collating"), (itvreg, "choose", "interventions"), (itvreg, "intervene", "interventions"),
             (itvreg.MatchingLoss, "forward", "loss"), (SentenceTransformer, "forward", "encoder")]
    return run, parts, train.PairCollator

def answers_run(size, device):
    import torch
    from debias_nb.config import EncoderConfig
    from debias_nb.cross_encoders import CrossEncoder
    from debias_nb.repro import answer_training as answers
    from debias_nb.repro.config import MethodConfig, ScanConfig, TrainConfig
    encoder = CrossEncoder(transformer(size), tokenizer_of(size))
    n = size.batch * size.steps
    half = Size(**{**vars(size), "tokens": size.tokens // 2})
    inputs = encoder.tokenise(random_texts(n, half, 0), random_texts(n, half, 1), size.tokens)
    labels = (torch.arange(n) % 6 == 0).long()
    data = answers.AnswerTokens(inputs, labels, labels.bool())
    settings = TrainConfig(loss="cross-entropy", learning_rate=1e-5, epochs=1, batch_size=size.batch, threads=THREADS)
    def run(variant, callbacks):
        given = VARIANTS["140 x 128"][variant]
        scan = None if given is None else ScanConfig(**given)
        fresh = EncoderConfig(name="learned", kind="alignment", units=1, embedding=1)
        with patch.object(answers, "load_pair_encoder", lambda *_: copy.deepcopy(encoder)):
            model = answers.answer_model(fresh, MethodConfig(name=variant, scan=scan), settings).to(device)
        kept = answers.AnswerTrainer
        class Trainer(kept):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                for one in callbacks: self.add_callback(one)
        with patch.object(answers, "AnswerTrainer", Trainer): answers.fit_answers(model, data, scan, settings, 0, DTYPE[device])
    parts = [(answers.AnswerCollator, "__call__", "collating"), (answers.Weigher, "__call__", "weights"),
             (answers.AnswerTrainer, "compute_loss", "loss"), (answers.AnswerModel, "forward", "encoder")]
    return run, parts, answers.AnswerCollator

def authors_run(size, device):
    import numpy as np
    import torch
    from sentence_transformers import SentenceTransformer
    from debias_nb import arr
    from debias_nb.encoders import tokenise
    from debias_nb.repro.config import AuthorsConfig, TrainConfig
    from debias_nb.repro.tasks import authors
    encoder, n = sentence_encoder(size, device), size.batch * size.steps
    texts = random_texts(n, size, 0)
    tokens, labels = tokenise(encoder, texts, size.tokens), np.arange(n) // 2
    rows = arr.text_rows("tfidf", texts)(texts)
    teacher = torch.nn.functional.normalize(torch.randn(n, size.width, generator=torch.Generator().manual_seed(0)), dim=1)
    settings = TrainConfig(loss="authors", temperature=.1, learning_rate=1e-4, epochs=1, batch_size=size.batch, threads=THREADS)
    def run(variant, callbacks):
        model = copy.deepcopy(encoder)
        method = AuthorsConfig(**VARIANTS["64 x 512"][variant])
        loss = authors.author_loss(method, model, labels, .1, lambda: rows, teacher)
        kept = authors.QuietTrainer
        class Trainer(kept):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                for one in callbacks: self.add_callback(one)
        with patch.object(authors, "QuietTrainer", Trainer): authors.fit_authors(model, loss, tokens, labels, settings, 1, 0, DTYPE[device])
    parts = [(arr.AuthorCollator, "__call__", "collating"), (arr, "sparse_cosines", "TF-IDF"),
             (arr.AuthorLoss, "forward", "loss"), (SentenceTransformer, "forward", "encoder")]
    return run, parts, arr.AuthorCollator

RUNS = {"900 x 32": pairs_run, "140 x 128": answers_run, "64 x 512": authors_run}

# ---------------------------------------------------------------- measuring

def step_flop(name, variant, size):
    "Operations of a step, as `debias-nb cost` counts them: frozen encoders prepared before are not in a step."
    from debias_nb.repro.cost import Shape, forward_flop
    shape = Shape(layers=size.layers, width=size.width, inner=size.inner, heads=size.heads, parameters=1)
    passes = PASSES[variant] if name == "900 x 32" else 3
    return size.batch * passes * forward_flop(shape, size.tokens)

def matrix_peak():
    "FLOP a second of a product of matrices in fp32, where nobody states the peak."
    import torch
    a = torch.randn(512, 512)
    return 2 * 512**3 / min(common.seconds(lambda: a @ a) for _ in range(8))

def peak_flop(device):
    from debias_nb.repro.cost import load_costs
    return load_costs().peak["bf16"] if device == "cuda" else matrix_peak()

def clock_of(device):
    "Where there is no GPU one thread does all of it, and its CPU time says something on a busy machine, too."
    import time
    if device == "cuda": return contextlib.nullcontext()
    return patch.object(common, "time", SimpleNamespace(perf_counter=time.process_time, process_time=time.process_time))

def synchroniser(device):
    import torch
    return torch.cuda.synchronize if device == "cuda" else lambda: None

def peak_memory(device):
    from debias_nb.repro.records import this_machine
    return this_machine()["peak_memory"]

def timed_run(run, variant, size, sync, patches=()):
    "Seconds of a step, from the first batch to the last update; the clock that other patches use."
    clock = Clock()
    gc.collect()
    with contextlib.ExitStack() as stack:
        for one in patches: stack.enter_context(one(clock))
        run(variant, (training_stretch(clock),))
        sync()
    return clock.seconds["training"] / size.steps, clock

def shares(run, parts, variant, size, sync):
    "What parts of a step take, of one run in which the device is waited for around each of them."
    from transformers import Trainer
    places = [*parts, (Trainer, "_prepare_inputs", "moving")]
    patches = [lambda clock, place=place: clocked(*place[:2], clock, place[2], sync) for place in places]
    step, clock = timed_run(run, variant, size, sync, patches)
    found = {what: seconds / size.steps / step for what, seconds in clock.seconds.items() if what != "training"}
    inside = found.pop("loss", 0.) - found.pop("encoder", 0.)
    return {what: float(f"{value:.3g}") for what, value in (found | {"our losses": inside}).items()}

@contextlib.contextmanager
def deterministic():
    import torch
    torch.use_deterministic_algorithms(True)
    try: yield
    finally: torch.use_deterministic_algorithms(False)

def measure(name, size, device, repeats, say):
    run, parts, collator = RUNS[name](size, device)
    sync, peak = synchroniser(device), peak_flop(device)
    def once(variant):
        around = {CACHED: lambda: kept_batch(collator), DETERMINISTIC: deterministic}.get(variant, contextlib.nullcontext)
        with around(): seconds, _ = timed_run(run, variant, size, sync)
        return {"ms": 1000 * seconds, "steps": 1 / seconds, "peak": step_flop(name, variant, size) / seconds / peak}
    timed = compare(list(VARIANTS[name]), once, PLAIN, repeats, say)
    for variant in timed: timed[variant]["shares"] = shares(run, parts, variant, size, sync)
    return {"size": vars(size), "flop": {variant: step_flop(name, variant, size) for variant in timed}, "peak_flop": peak, "variants": timed, "peak_memory_bytes": peak_memory(device)}

def shared(workers):
    "Small runs a minute, from several processes on one device."
    import time
    from debias_nb.repro.config import load_experiment
    from debias_nb.repro.records import Store
    from debias_nb.repro.runner import narrow, run_all
    experiment = narrow(load_experiment("itvreg/table03", "planted"), methods=["Finetuned"], encoders=["tiny"], seeds=list(range(8)))
    runs, found = experiment.runs()[:16], {}
    for count in workers:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            out = run_all(runs, Store(folder), workers=count, progress=False)
            found[str(count)] = float(f"{60 * len(out.trained) / (time.perf_counter() - start):.4g}")
    return found

# ---------------------------------------------------------------- saying

def shown(name, found):
    rows = []
    for variant, v in found["variants"].items():
        parts = ", ".join(f"{what} {share:.1%}" for what, share in v["shares"].items())
        rows.append((variant, cell(v["ms"]), f"{v['steps']['median']:.3g}", f"{v['peak']['median']:.1%}", cell(v["ratio"]), parts))
    return table((name, "ms a step", "steps/s", "of the peak", "ratio to plain", "shares of a step"), rows)

def arguments(argv):
    p = parser(__doc__, RECORD, 5, "2 steps of a toy, 2 rounds")
    p.add_argument("--shape", action="append", choices=list(PAPERS), help="may be repeated (default: all)")
    p.add_argument("--tiny", action="store_true", help="the small sizes, which are taken where there is no GPU")
    p.add_argument("--busy", action="store_true", help="with --write: also where others disturb; the record says so")
    p.add_argument("--share", type=int, nargs="*", default=[], metavar="N", help="runs a minute from so many processes, e.g. --share 1 2 4 8")
    o = checked(p, p.parse_args(argv))
    if o.quick: o.repeats = 2
    return o

def main(argv=None) -> int:
    o, load = arguments(argv), begin()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8") # what deterministic algorithms ask for, before CUDA begins
    import torch
    from debias_nb.encoders import single_thread
    from debias_nb.repro.runner import quiet
    quiet()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = QUICK if o.quick else TINY if o.tiny or device == "cpu" else PAPERS
    results, meter = {}, Meter()
    with single_thread(THREADS), clock_of(device):
        for name in o.shape or sizes:
            if device == "cuda": torch.cuda.reset_peak_memory_stats()
            with meter: results[name] = measure(name, sizes[name], device, o.repeats, lambda line, name=name: print(f"{name}: {line}", file=sys.stderr))
            print(shown(name, results[name]), end="\n\n")
        sharing = shared(o.share)
    for count, rate in sharing.items(): print(f"{count} processes: {rate:g} small runs a minute")
    note = "share of the peak: operations of a step (2 N n + 4 L d n² a text forwards, three times that with backwards) over time, over the device's rate in bf16; on a CPU over that of a product of matrices in fp32"
    named = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    sizes_of = "quick" if o.quick else "tiny" if sizes is TINY else "papers"
    return finish(RECORD, note, o.write, load, meter, {"repeats": o.repeats, "sizes": sizes_of}, {"device": named, "shapes": results, "sharing": sharing}, o.busy)

if __name__ == "__main__": sys.exit(main())
