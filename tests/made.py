"Encoders, worlds and experiments that several tests use: small, random, made here."
import gzip
import json
import os
import sys
from html.parser import HTMLParser

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "") # to the last bit, repeats agree on a CPU only
import numpy as np
import pandas as pd
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.cross_encoder import CrossEncoder
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, StaticEmbedding, Transformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizerFast, RobertaConfig
from transformers import RobertaForSequenceClassification

from debias_nb.data import registry
from debias_nb.data.registry import CONVERSION_FILE, Conversion, DataFile, DataSet, Pin
from debias_nb.settings import EncoderConfig, PretrainConfig, WorldConfig

from debias_nb.runs.config import BlockConfig, ExperimentConfig, RunConfig
from debias_nb.runs.settings import PairMethod, PairTraining
from debias_nb.runs.origin import Start
from debias_nb.runs.records import make_record

WORDS = "red blue old new large small kettle lamp chair table for with of the how what why ? . ,".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*dict.fromkeys([*SPECIAL, *WORDS, "##s", "##ing", *LETTERS, *(f"##{letter}" for letter in LETTERS)])]


def bert(folder, layers=1, seed=0):
    "A random BERT in `folder`/bert, as sentence-transformers saves it."
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    work = folder / "work"
    work.mkdir(parents=True)
    vocabulary = work / "vocab.txt"
    vocabulary.write_text("\n".join(VOCABULARY) + "\n", "utf-8")
    shape = BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=32, num_hidden_layers=layers, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=40)
    torch.manual_seed(seed)
    BertModel(shape).save_pretrained(work)
    BertTokenizerFast(str(vocabulary), model_max_length=40).save_pretrained(work)
    modules = [Transformer(str(work), max_seq_length=40), Pooling(32, pooling_mode="mean")]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder / "bert"), create_model_card=False)
    return folder / "bert"


def cross_encoder(folder, labels=1, kind="bert", dropout=.1, width=32):
    "A random cross-encoder in `folder`."
    transformers.utils.logging.set_verbosity_error()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", "utf-8")
    shape = dict(
        vocab_size=len(VOCABULARY), hidden_size=width, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=44, num_labels=labels, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout)
    torch.manual_seed(0)
    if kind == "bert":
        BertForSequenceClassification(BertConfig(**shape)).save_pretrained(folder)
    else:
        RobertaForSequenceClassification(RobertaConfig(**shape, pad_token_id=0, type_vocab_size=2)).save_pretrained(
            folder)
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=40).save_pretrained(folder)
    return CrossEncoder(str(folder), num_labels=labels, device="cpu")


def table(folder, seed=0):
    "A random static table in `folder`/table, as sentence-transformers saves it."
    ids = {word: i for i, word in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    weights = np.random.default_rng(seed).normal(size=(len(VOCABULARY), 16)).astype("float32")
    static = StaticEmbedding(tokenizer, embedding_weights=weights)
    SentenceTransformer(modules=[static], device="cpu").save(str(folder / "table"), create_model_card=False)
    return folder / "table"


def without_a_vector_for_the_unknown():
    """A static encoder that scales to length 1 itself, and whose unknown words have a row of zeros, as published ones
    do."""
    words = {"[UNK]": 0, "red": 1, "shoe": 2}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = np.array([[0, 0], [1, 2], [2, -1]], "float32")
    static = StaticEmbedding(tokenizer, embedding_weights=weights)
    return SentenceTransformer(modules=[static, Normalize()], device="cpu")


def load(folder):
    return SentenceTransformer(str(folder), device="cpu").eval()


WORLD = WorldConfig(
    types=16, unseen_types=6, train_pairs=400, broad_pairs=800, queries=60, items=200, test_negatives=10)
STATIC = EncoderConfig(
    name="tiny-static", kind="static", world=WORLD,
    pretrain=PretrainConfig(steps=60, batch_size=64, learning_rate=2e-2))
METHODS = [
    PairMethod(name="Base", trained=False),
    PairMethod(name="Finetuned"),
    PairMethod(name="ITVReg", regularizer="itvreg", weight=1., mask_share=.5),
    PairMethod(name="OutReg", regularizer="outreg", weight=1.),
    PairMethod(name="ITVAug", augmentation="itvaug", mask_share=.5)]


def experiment(methods=("Base", "Finetuned", "ITVReg"), seeds=(0, 1), **training):
    "A toy world, a static table."
    settings = PairTraining(**({"learning_rate": 2e-2, "epochs": 2, "batch_size": 128} | training))
    block = BlockConfig(
        encoders=["tiny-static"], corpora=[{"name": "catalogue", "world": WORLD}], methods=methods,
        training=settings, seeds=seeds, evaluate=["iid", "unseen"])
    return ExperimentConfig(
        paper="itvreg", experiment="demo", profile="planted", title="A demonstration", scale="a toy world",
        encoders=[STATIC], methods=METHODS, blocks=[block])


class Page(HTMLParser):
    "Which tags a page has, that they are closed, and where its links lead."
    VOID = {"meta", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links, self.ids = [], set(), [], set()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.ids |= {f"#{value}" for name, value in attributes if name == "id"}
        self.links += [value for name, value in attributes if name in ("src", "href", "srcset", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.getpos())


def write(path, content):
    "Write a file: bytes, a text, or a list of lines, those that are neither as JSON; packed where its name says so."
    def encoded(part):
        if isinstance(part, bytes):
            return part
        return (part if isinstance(part, str) else json.dumps(part)).encode()

    data = b"".join(encoded(line) + b"\n" for line in content) if isinstance(content, list) else encoded(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def forget():
    "Clear what functions of the papers keep, and of those that they import."
    for name in [name for name in sys.modules if name.startswith("debias_nb.papers.")]:
        for value in vars(sys.modules[name]).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def pin(folder):
    "Write the hashes of a folder's files next to them, as a conversion does: runs take no others."
    pins = {path.name: Pin.from_path(path) for path in folder.iterdir()}
    note = Conversion(dataset=folder.name, settings={}, counts={}, sources={}, files=pins)
    (folder / CONVERSION_FILE).write_text(note.model_dump_json())


def register(root, monkeypatch):
    "Make each folder of `root` a data set of made-up files, and these the only ones."
    datasets = {}
    for folder in root.iterdir():
        files = tuple(DataFile(file=path.name, format="made up") for path in sorted(folder.iterdir()))
        datasets[folder.name] = DataSet(
            files=files, title="made up", licence="none", citation="none", by_hand="made here")
    made_up = registry.Registry(datasets=datasets)
    monkeypatch.setenv("DEBIAS_NB_DATA", str(root))
    monkeypatch.setattr(registry, "load_registry", lambda: made_up)


def read_page(text):
    "A page that is closed, runs nothing and loads nothing."
    page = Page()
    page.feed(text)
    assert not page.open and set(page.links) <= page.ids
    assert not page.tags & {"script", "link", "img", "iframe", "object"}
    assert "url(" not in text and "@import" not in text
    return page


def some_pairs(n=120, seed=0):
    "Random pairs of `WORDS`, as a data frame; each third one is a match."
    rng = np.random.default_rng(seed)
    words = [word for word in WORDS if word.isalpha()]

    def texts():
        return [" ".join(rng.choice(words, size=rng.integers(2, 7))) for _ in range(n)]

    left = texts()
    label = np.arange(n) % 3 == 0
    right = [match if is_match else no_match for match, no_match, is_match in zip(left, texts(), label)]
    return pd.DataFrame({"left": left, "right": right, "label": label.astype(int)})


def run_of(method, **settings):
    "The configuration of a planted run; a method without training has its corpus for evaluation alone."
    if not method.trained:
        settings["eval_corpus"] = settings.pop("corpus")
        del settings["training"]
    return RunConfig(experiment="demo", profile="planted", method=method, **settings)


def record_of(run, metrics, **details):
    "A record of a run that nobody made."
    fields = {
        "data": {"train": {"fingerprint": "ab" * 32}}, "encoder": {"name": run.encoder.name, "fingerprint": "cd" * 32},
        "start": Start(), "device": "cpu", "dtype": "fp32", "peak_memory": 1, "curve": {}}
    return make_record(run, metrics, **(fields | details))
