"""What a training step of SCAN costs, as a multiple of a step of plain fine-tuning on the same candidates; and how many
tokens batches of like length save. See README.md."""
import copy
import gc
import math
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

from common import (
    THREADS, Clock, Meter, ask_sizes, begin, calm, check_steps, check_two, checked, compare, finish, new_parser,
    planted_pairs, resized, rounded, settings_of, table, telling, training_stretch, variants_table, with_callbacks,
)

RECORD = Path(__file__).resolve().with_suffix(".json")
PLAIN = "plain"
FD = {"weights": "learned", "variant": "fixed", "functions": 5, "class_mass": "keep", "memory": "ema"}
LD = {"debias": "paper"}
VARIANTS = {PLAIN: None, "FD": FD, "LD": {"weights": "uniform"} | LD, "SCAN": FD | LD} # of `ScanConfig`
PAD = 128   # what others pad every pair to
BATCH = 140 # pairs, where tokens of an epoch are counted


@dataclass(frozen=True)
class Size:
    "Of one run, and of the texts in it."
    batch: int    # pairs in a step
    steps: int
    repeats: int
    words: int = 0 # of an answer, where that is not the world's own
    shape: tuple[int, int, int, int] = (12, 768, 12, 3072) # layers, width, heads, inner width of a `roberta-base`


SIZES = {"tiny": Size(140, 30, 9), "learned": Size(140, 60, 9), "roberta-base": Size(8, 2, 3, words=119)}
QUICK = {
    "tiny": Size(8, 2, 2),
    "learned": Size(24, 2, 2),
    "roberta-base": Size(3, 2, 2, words=20, shape=(2, 32, 2, 64)),
}


def planted(n: int, words: int = 0):
    "`qa.Answers`: n planted candidates. words: of an answer; 0: the world's own."
    from debias_nb.config import AnswersWorldConfig
    from debias_nb.data.answers import planted_answers
    length = {"length": words} if words else {}
    world = AnswersWorldConfig(name="answers", questions=math.ceil(n / 6), tests=1, **length)
    return planted_answers(world, "train").take(range(n))


def catalogue(n: int):
    "The same, of planted titles: the words that `tiny` knows whole."
    from debias_nb.data.answers import Answers
    left, right, labels = planted_pairs(n)
    return Answers("titles", left, left, right, labels.astype(int))


def roberta_tokenizer(texts):
    "RoBERTa's special tokens, and the words of these texts as vocabulary."
    from debias_nb.repro.runs.pair_encoders import vocabulary
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast
    words = ["<s>", "<pad>", "</s>", "<unk>", *vocabulary(texts)]
    number = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(number, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>",
        pad_token="<pad>", unk_token="<unk>", model_input_names=["input_ids", "attention_mask"])


def roberta(texts, shape):
    """A `pairs.CrossEncoder` with random weights, in the published shape but for the vocabulary, which is the words of
    these texts."""
    import torch
    from debias_nb.repro.runs.pair_encoders import CrossEncoder
    from transformers import RobertaConfig, RobertaModel
    tokenizer = roberta_tokenizer(texts)
    layers, width, heads, inner = shape
    config = RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=inner, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5)
    torch.manual_seed(0)
    return CrossEncoder(RobertaModel(config), tokenizer)


def pair_encoder(name: str, texts, shape):
    "A pair encoder by name; `learned` and `roberta-base` know the words of these texts."
    from debias_nb.config import EncoderConfig
    from debias_nb.repro.runs.pair_encoders import load_pair_encoder
    from debias_nb.data.planted_encoder import planted_default
    if name == "roberta-base":
        return roberta(texts, shape)
    if name == "tiny":
        return load_pair_encoder(planted_default("tiny").model_copy(update={"kind": "cross"}))
    config = EncoderConfig(name="learned", kind="alignment", units=32, embedding=32)
    return load_pair_encoder(config, texts)


def material(name: str, size: Size) -> tuple:
    "A pair encoder, and `answers.AnswerTokens` of one run."
    from debias_nb.repro.runs.answer_training import answer_tokens
    n = size.batch * size.steps
    answers = catalogue(n) if name == "tiny" else planted(n, size.words)
    encoder = pair_encoder(name, answers.questions + answers.answers, size.shape)
    longest = min(encoder.positions or PAD, PAD)
    return encoder, answer_tokens(encoder, answers, longest)


def clocked_weigher(clock):
    """`answers.Weigher` whose time counts as `weights`. What weights do to fresh functions is asked eight times a
    training, however long, and is left out."""
    from debias_nb.repro.runs import answer_training as answers

    class Weigher(answers.Weigher):
        def __call__(self, *args):
            with clock("weights"):
                return super().__call__(*args)

        def asked(self, *_):
            return {}

    return Weigher


def fresh_model(variant: str, encoder, training, scan):
    "A model on a copy of the encoder."
    from debias_nb.config import EncoderConfig
    from debias_nb.repro.runs import answer_training as answers
    from debias_nb.repro.config import MethodConfig
    config = EncoderConfig(name="learned", kind="alignment", units=1, embedding=1)
    method = MethodConfig(name=variant, scan=scan)
    with patch.object(answers, "load_pair_encoder", lambda *_: copy.deepcopy(encoder)):
        return answers.answer_model(config, method, training)


def training_run(variant: str, encoder, data, batch: int) -> dict:
    "One run of `answers.fit_answers`: milliseconds of a step, and of these for the weights."
    from debias_nb.repro.runs import answer_training as answers
    from debias_nb.repro.config import ScanConfig, TrainConfig
    given = VARIANTS[variant]
    scan = None if given is None else ScanConfig(**given)
    training = TrainConfig(loss="cross-entropy", learning_rate=1e-3, epochs=1, batch_size=batch, threads=THREADS)
    model = fresh_model(variant, encoder, training, scan)
    clock = Clock()
    weigher = clocked_weigher(clock)
    trainer = with_callbacks(answers.AnswerTrainer, training_stretch(clock))
    gc.collect()
    with patch.object(answers, "Weigher", weigher), patch.object(answers, "AnswerTrainer", trainer):
        done = answers.fit_answers(model, data, scan, training, seed=0)
    steps = math.ceil(len(data) / batch)
    check_steps(variant, len(done.history), steps)
    has_weights = scan is not None and scan.weights == "learned"
    weights = clock.seconds["weights"] if has_weights else 0.
    return {"step_ms": 1000 * clock.seconds["training"] / steps, "weights_ms": 1000 * weights / steps}


def wikiqa() -> tuple | None:
    "WikiQA's training set and MiniLM, which reads it; None where one of the two is not at hand."
    from debias_nb.config import EncoderConfig
    from debias_nb.repro.runs.pair_encoders import load_pair_encoder
    from debias_nb.data.answers import load_answers
    from debias_nb.data.registry import DataError
    from debias_nb.encoders import EncoderError
    try:
        answers = load_answers("wikiqa", "train", download=False)
        return answers, load_pair_encoder(EncoderConfig(name="minilm", kind="cross", max_length=PAD))
    except (DataError, EncoderError):
        return None


def word_by_word(n: int) -> tuple:
    "n planted answers, and a pair encoder that reads them word by word."
    from debias_nb.config import EncoderConfig
    from debias_nb.repro.runs.pair_encoders import load_pair_encoder
    answers = planted(n)
    config = EncoderConfig(name="learned", kind="alignment", units=1, embedding=1)
    return answers, load_pair_encoder(config, answers.questions + answers.answers)


def epoch_pairs(quick: bool) -> tuple:
    "The name of candidates and of a tokenizer, and how many tokens each pair has."
    found = None if quick else wikiqa()
    name = "minilm" if found else "learned"
    answers, encoder = found or word_by_word(600 if quick else 9000)
    return answers.name, name, encoder.tokenise(answers.questions, answers.answers, PAD).lengths


def tokens_in_batches(lengths, order) -> int:
    "Tokens of an epoch in batches of this order, each padded to its longest pair."
    import numpy as np
    batches = np.split(np.asarray(order), range(BATCH, len(order), BATCH))
    return int(sum(len(rows) * lengths[rows].max() for rows in batches))


def epoch_tokens(quick: bool) -> dict:
    """Tokens of an epoch: every pair padded to `PAD`, in batches at random, in batches of like length; their shares of
    the first; and of which candidates and tokenizer."""
    import numpy as np
    import torch
    from debias_nb.repro.runs.pair_encoders import LengthSampler
    candidates, tokenizer, lengths = epoch_pairs(quick)
    order = np.random.default_rng(0).permutation(len(lengths))
    dice = torch.Generator().manual_seed(0)
    alike = list(LengthSampler(BATCH, lengths=lengths.tolist(), generator=dice))
    tokens = {
        "padded": PAD * len(lengths),
        "random": tokens_in_batches(lengths, order),
        "like": tokens_in_batches(lengths, alike),
    }
    share = {name: rounded(count / tokens["padded"]) for name, count in tokens.items()}
    return {
        "candidates": candidates, "tokenizer": tokenizer, "pairs": len(lengths), "tokens": tokens, "share": share,
    }


def shown(name: str, result: dict) -> str:
    "The table of an encoder."
    about = f"{result['width']} numbers, {result['tokens']:.1f} tokens a pair, {result['batch']} pairs"
    columns = {"ms a step": "step_ms", "of these, weights": "weights_ms", "ratio to plain": "ratio"}
    return variants_table(f"{name} ({about})", result, columns)


def shown_tokens(found: dict) -> str:
    "The table of an epoch's tokens."
    names = {
        "padded": f"every pair padded to {PAD}",
        "random": f"batches of {BATCH} at random",
        "like": f"batches of {BATCH} of like length",
    }
    rows = [(names[key], f"{count:,}", f"{found['share'][key]:.1%}") for key, count in found["tokens"].items()]
    head = f"{found['candidates']}, {found['pairs']:,} pairs, tokenizer {found['tokenizer']}"
    return table((head, "tokens an epoch", "share"), rows)


def arguments(argv):
    "The options. Ends the program where they make no sense."
    parser = new_parser(__doc__, RECORD, 9, "2 steps of small batches and a small `roberta-base`, 2 rounds")
    encoder = "may be repeated (default: all); the last one makes a third of the rounds"
    parser.add_argument("--encoder", action="append", choices=list(SIZES), help=encoder)
    ask_sizes(parser, SIZES, steps="of one run", batch="pairs in a step")
    options = checked(parser, parser.parse_args(argv), "steps", "batch")
    check_two(parser, "batch", options.batch)
    if options.quick:
        options.repeats = 2
    return options


def size_of(name: str, options) -> Size:
    "What is run with an encoder. Of the rounds that are asked for `roberta-base` makes a third."
    size = resized((QUICK if options.quick else SIZES)[name], options, "steps", "batch")
    repeats = options.repeats
    if not options.quick:
        repeats = max(1, repeats * size.repeats // 9)
    return replace(size, repeats=repeats)


def main(argv=None) -> int:
    options = arguments(argv)
    load = begin()
    results = {}
    meter = Meter()
    with calm():
        for name in options.encoder or SIZES:
            size = size_of(name, options)
            encoder, data = material(name, size)
            once = partial(training_run, encoder=encoder, data=data, batch=size.batch)
            with meter:
                timed = compare(list(VARIANTS), once, PLAIN, size.repeats, telling(name))
            results[name] = {
                "width": encoder.width,
                "tokens": rounded(data.inputs.lengths.mean()),
                "batch": size.batch,
                "steps": size.steps,
                "rounds": size.repeats,
                "variants": timed,
            }
            print(shown(name, results[name]), end="\n\n")
        tokens = epoch_tokens(options.quick)
    print(shown_tokens(tokens), end="\n\n")
    note = "ratios: medians over rounds [quartiles]; FD: weights are learned, LD: language debiasing, SCAN: both"
    found = {"encoders": results, "epoch": tokens}
    return finish(RECORD, note, options, load, meter, settings_of(options, "repeats"), found)


if __name__ == "__main__":
    sys.exit(main())
