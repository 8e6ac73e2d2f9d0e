"""What a training step of SCAN costs, as a multiple of a step of plain fine-tuning on the same candidates; and how many tokens batches of like length save. See README.md."""
import copy, gc, sys
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from common import THREADS, Clock, Meter, begin, cell, checked, compare, finish, parser, planted_pairs, table, training_stretch

RECORD = Path(__file__).resolve().with_suffix(".json")
PLAIN = "plain"
FD, LD = dict(weights="learned", variant="fixed", functions=5, class_mass="keep", memory="ema"), dict(debias="paper")
VARIANTS = {PLAIN: None, "FD": FD, "LD": dict(weights="uniform") | LD, "SCAN": FD | LD} # of `ScanConfig`
PAD = 128 # what others pad every pair to

@dataclass(frozen=True)
class Size:
    "Of one run, and of the texts in it."
    batch: int    # pairs in a step
    steps: int
    repeats: int
    words: int = 0 # of an answer, where that is not the world's own
    shape: tuple[int, int, int, int] = (12, 768, 12, 3072) # layers, width, heads, inner width of a `roberta-base`

SIZES = {"tiny": Size(140, 30, 9), "learned": Size(140, 60, 9), "roberta-base": Size(8, 2, 3, words=119)}
QUICK = {"tiny": Size(8, 2, 2), "learned": Size(24, 2, 2), "roberta-base": Size(3, 2, 2, words=20, shape=(2, 32, 2, 64))}

def planted(n, words=0): # `qa.Answers`: n planted candidates
    from debias_nb.config import AnswersWorldConfig
    from debias_nb.data.answers import planted_answers
    world = AnswersWorldConfig(name="answers", questions=-(-n // 6), tests=1, **({"length": words} if words else {}))
    return planted_answers(world, "train").take(range(n))

def catalogue(n): # the same, of planted titles: the words that `tiny` knows whole
    from debias_nb.data.answers import Answers
    left, right, labels = planted_pairs(n)
    return Answers("titles", left, left, right, labels.astype(int))

def roberta(texts, shape): # a `pairs.CrossEncoder` with random weights
    "The published shape but for the vocabulary, which is the words of these texts."
    import torch
    from debias_nb.cross_encoders import CrossEncoder, vocabulary
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    number = {w: i for i, w in enumerate([*special, *vocabulary(texts)])}
    tokenizer = Tokenizer(models.WordLevel(number, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", pad_token="<pad>", unk_token="<unk>",
                                   model_input_names=["input_ids", "attention_mask"])
    layers, width, heads, inner = shape
    torch.manual_seed(0)
    return CrossEncoder(RobertaModel(RobertaConfig(vocab_size=len(number), hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner, max_position_embeddings=514,
                                                   type_vocab_size=1, layer_norm_eps=1e-5)), fast)

def material(name, size): # a pair encoder, and `answers.AnswerTokens` of one run
    from debias_nb.repro.answer_training import answer_tokens
    from debias_nb.config import EncoderConfig
    from debias_nb.encoders import planted_default
    from debias_nb.cross_encoders import load_pair_encoder
    n = size.batch * size.steps
    answers = catalogue(n) if name == "tiny" else planted(n, size.words)
    texts = answers.questions + answers.answers
    if name == "roberta-base": encoder = roberta(texts, size.shape)
    elif name == "tiny": encoder = load_pair_encoder(planted_default("tiny").model_copy(update=dict(kind="cross")))
    else: encoder = load_pair_encoder(EncoderConfig(name="learned", kind="alignment", units=32, embedding=32), texts)
    return encoder, answer_tokens(encoder, answers, encoder.positions if encoder.positions and encoder.positions < PAD else PAD)

def training_run(variant, encoder, data, batch) -> dict: # ms of a step, and of these for the weights
    "One run of `answers.fit_answers`, timed. What weights do to fresh functions is asked eight times a training, however long, and is left out."
    from debias_nb.repro import answer_training as answers
    from debias_nb.config import EncoderConfig
    from debias_nb.repro.config import MethodConfig, ScanConfig, TrainConfig
    scan, clock = None if VARIANTS[variant] is None else ScanConfig(**VARIANTS[variant]), Clock()
    training = TrainConfig(loss="cross-entropy", learning_rate=1e-3, epochs=1, batch_size=batch, threads=THREADS)
    class Weigher(answers.Weigher):
        def __call__(self, *args):
            with clock("weights"): return super().__call__(*args)
        def asked(self, *_): return {}
    class Trainer(answers.AnswerTrainer):
        def __init__(self, *args, callbacks=(), **kwargs): super().__init__(*args, callbacks=[training_stretch(clock), *callbacks], **kwargs)
    with patch.object(answers, "load_pair_encoder", lambda *_: copy.deepcopy(encoder)):
        model = answers.answer_model(EncoderConfig(name="learned", kind="alignment", units=1, embedding=1), MethodConfig(name=variant, scan=scan), training)
    gc.collect()
    with patch.object(answers, "Weigher", Weigher), patch.object(answers, "AnswerTrainer", Trainer): trainer = answers.fit_answers(model, data, scan, training, seed=0)
    if len(trainer.history) != (steps := -(-len(data) // batch)): raise RuntimeError(f"{variant}: {len(trainer.history)} steps instead of {steps}")
    return {"step_ms": 1000 * clock.seconds["training"] / steps, "weights_ms": 1000 * clock.seconds["weights"] / steps if scan and scan.weights == "learned" else 0.}

def epoch_tokens(quick) -> dict: # of which candidates and tokenizer; pairs; tokens padded to `PAD`, in batches of like length, in batches at random; the shares of the first
    "WikiQA's training set as MiniLM reads it, or planted answers, read word by word, where one of the two is not at hand."
    import numpy as np
    from debias_nb.config import EncoderConfig
    from debias_nb.encoders import EncoderError
    import torch
    from debias_nb.cross_encoders import LengthSampler, load_pair_encoder
    from debias_nb.data.answers import load_answers
    from debias_nb.data.registry import DataError
    try:
        if quick: raise DataError("the small ones are wanted")
        answers, name = load_answers("wikiqa", "train", download=False), "minilm"
        encoder = load_pair_encoder(EncoderConfig(name=name, kind="cross", max_length=PAD))
    except (DataError, EncoderError):
        answers, name = planted(600 if quick else 9000), "learned"
        encoder = load_pair_encoder(EncoderConfig(name=name, kind="alignment", units=1, embedding=1), answers.questions + answers.answers)
    lengths = encoder.tokenise(answers.questions, answers.answers, PAD).lengths
    order = np.random.default_rng(0).permutation(len(lengths))
    alike = list(LengthSampler(140, lengths=lengths.tolist(), generator=torch.Generator().manual_seed(0)))
    def tokens_of(order): return int(sum(len(rows) * lengths[rows].max() for rows in np.split(np.asarray(order), range(140, len(order), 140))))
    tokens = {"padded": PAD * len(lengths), "random": tokens_of(order), "like": tokens_of(alike)}
    return {"candidates": answers.name, "tokenizer": name, "pairs": len(lengths), "tokens": tokens, "share": {k: float(f"{v / tokens['padded']:.4g}") for k, v in tokens.items()}}

def shown(name, result) -> str:
    rows = [(n, cell(v["step_ms"]), cell(v["weights_ms"]) if v["weights_ms"]["median"] else "-", cell(v["ratio"])) for n, v in result["variants"].items()]
    return table((f"{name} ({result['width']} numbers, {result['tokens']:.1f} tokens a pair, {result['batch']} pairs)", "ms a step", "of these, weights", "ratio to plain"), rows)

def shown_tokens(found) -> str:
    names = {"padded": f"every pair padded to {PAD}", "random": "batches of 140 at random", "like": "batches of 140 of like length"}
    return table((f"{found['candidates']}, {found['pairs']:,} pairs, tokenizer {found['tokenizer']}", "tokens an epoch", "share"),
                 [(names[k], f"{v:,}", f"{found['share'][k]:.1%}") for k, v in found["tokens"].items()])

def arguments(argv):
    p = parser(__doc__, RECORD, 9, "2 steps of small batches and a small `roberta-base`, 2 rounds")
    p.add_argument("--encoder", action="append", choices=list(SIZES), help="may be repeated (default: all); the last one makes a third of the rounds")
    for what, text in (("steps", "of one run"), ("batch", "pairs in a step")):
        p.add_argument(f"--{what}", type=int, help=f"{text} (default: " + ", ".join(f"{getattr(s, what)} for {n}" for n, s in SIZES.items()) + ")")
    o = checked(p, p.parse_args(argv), "steps", "batch")
    if o.batch == 1: p.error("--batch must be at least 2")
    if o.quick: o.repeats = 2
    return o

def main(argv=None) -> int:
    o, load = arguments(argv), begin()
    from dataclasses import replace
    from debias_nb.encoders import single_thread
    from debias_nb.repro.runner import quiet
    quiet()
    results, meter = {}, Meter()
    with single_thread(THREADS):
        for name in o.encoder or SIZES:
            size = (QUICK if o.quick else SIZES)[name]
            size = replace(size, steps=o.steps or size.steps, batch=o.batch or size.batch, repeats=o.repeats if o.quick else max(1, o.repeats * size.repeats // 9))
            encoder, data = material(name, size)
            def once(variant, encoder=encoder, data=data, batch=size.batch): return training_run(variant, encoder, data, batch)
            with meter: timed = compare(list(VARIANTS), once, PLAIN, size.repeats, lambda line, name=name: print(f"{name}: {line}", file=sys.stderr))
            results[name] = {"width": encoder.width, "tokens": float(f"{data.inputs.lengths.mean():.4g}"), "batch": size.batch, "steps": size.steps, "rounds": size.repeats, "variants": timed}
            print(shown(name, results[name]), end="\n\n")
        tokens = epoch_tokens(o.quick)
    print(shown_tokens(tokens), end="\n\n")
    note = "ratios: medians over rounds [quartiles]; FD: weights are learned, LD: language debiasing, SCAN: both"
    return finish(RECORD, note, o.write, load, meter, {"repeats": o.repeats}, {"encoders": results, "epoch": tokens})

if __name__ == "__main__": sys.exit(main())
