"""Encoders of pairs.

Pairs laid out as tokenizers lay them out, batches that do not matter, and encoders that are not what they should be.
"""
import copy
import shutil

import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import BertModel, BertTokenizerFast, PreTrainedTokenizerFast, RobertaConfig, RobertaModel

from debias_nb.encoders import tokens as encoders
from debias_nb.settings import EncoderConfig
from debias_nb.papers.tasks.pair_encoders import CrossEncoder
from debias_nb.papers.tasks.pair_encoders import load_pair_encoder, special_tokens, words
from debias_nb.encoders.tokens import EncoderError
from made import VOCABULARY, bert, table

LONG_QUESTION = "how old lamps for the large table?"
QUESTIONS = ["what old lamp?", "why", LONG_QUESTION, "what old lamp?", "a ☃", "the red chairs of the old house"]
ANSWERS = ["the red kettle.", "the red kettle.", "why, what, how", "x" * 30, "chair " * 20, "the"]
ALIGNMENT = EncoderConfig(name="learned", kind="alignment", units=12, embedding=8)


@pytest.fixture(autouse=True)
def one_thread():
    with encoders.single_thread():
        yield


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Encoders of three forms.

    A transformer and a table as sentence-transformers saves them, and a plain folder of transformers.
    """
    folder = tmp_path_factory.mktemp("models")
    bert(folder)
    table(folder)
    torch.manual_seed(1)
    size = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    config = RobertaConfig(vocab_size=len(VOCABULARY), max_position_embeddings=60, pad_token_id=0, **size)
    RobertaModel(config).save_pretrained(folder / "plain")
    BertTokenizerFast(str(folder / "work/vocab.txt")).save_pretrained(folder / "plain")
    return folder


@pytest.fixture(scope="module")
def tokenizer(originals):
    return BertTokenizerFast(str(originals / "work/vocab.txt"))


@pytest.fixture
def models(originals, tmp_path, monkeypatch):
    "Copies that a test may damage."
    for name in ("bert", "table", "plain"):
        shutil.copytree(originals / name, tmp_path / name)
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(tmp_path))
    return tmp_path


CONFIGS = {
    "bert": EncoderConfig(name="bert", kind="cross"),
    "plain": EncoderConfig(name="somebody/plain", kind="cross"),
    "table": EncoderConfig(name="table", kind="alignment", units=12),
    "learned": ALIGNMENT,
}
TEXTS = {"learned": QUESTIONS + ANSWERS[:3]} # words of the other answers are unknown


@pytest.fixture(scope="module")
def pair_encoders(originals):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEBIAS_NB_MODELS", str(originals))
        return {name: load_pair_encoder(config, TEXTS.get(name)) for name, config in CONFIGS.items()}


every = pytest.mark.parametrize("name", CONFIGS)


@torch.no_grad()
def hidden(encoder, inputs, rows=slice(None)):
    return encoder(**inputs.batch(rows))


def same_tensors(a, b):
    "Whether two dictionaries hold the same."
    return a.keys() == b.keys() and all(torch.equal(value, b[key]) for key, value in a.items())


def alike(a, b):
    return same_tensors(a.state_dict(), b.state_dict())


# one interface


@every
def test_a_pair_alone_is_encoded_as_in_a_batch(pair_encoders, name):
    encoder = pair_encoders[name]
    inputs = encoder.tokenize(QUESTIONS, ANSWERS, 40)
    batch = hidden(encoder, inputs)
    assert batch.shape == (6, encoder.width)
    assert batch.dtype == torch.float32
    assert batch.abs().max() <= 1
    assert len(inputs) == 6
    assert inputs.lengths.max() <= 40
    for i in range(6):
        assert torch.allclose(hidden(encoder, inputs, [i])[0], batch[i], atol=1e-5)
    assert torch.allclose(hidden(encoder, inputs, torch.tensor([5, 2])), batch[[5, 2]], atol=1e-5)


@every
@pytest.mark.parametrize("questions, answers, message", [
    (["why", "how"], ["the", ""], "row 1: the answer is empty: ''"),
    (["why", " \t"], ["the", "a"], r"row 1: the question is empty: ' \\t'"),
    (["why"], [None], r"answers\[0\] is None, not text"),
])
def test_unusable_pairs_are_refused_and_named(pair_encoders, name, questions, answers, message):
    with pytest.raises(ValueError, match=message):
        pair_encoders[name].tokenize(questions, answers)


@pytest.mark.parametrize("name, special", [("bert", 3), ("plain", 3), ("table", 0), ("learned", 0)])
def test_the_answer_is_cut_and_never_the_question(pair_encoders, name, special):
    encoder = pair_encoders[name]
    questions = [LONG_QUESTION]
    length = int(encoder.tokenize(questions, ["the"]).lengths[0]) # with an answer of one token
    assert encoder.tokenize(questions, ANSWERS[4:5], length).lengths.tolist() == [length]
    assert encoder.tokenize(questions, ANSWERS[4:5], length + 2).lengths.tolist() == [length + 2]
    reason = (f"row 1: a question of {length - special - 1} tokens leaves no room for an answer in max_length "
              f"{length - 1}: 'how old")
    with pytest.raises(ValueError, match=reason):
        encoder.tokenize(["why", LONG_QUESTION], ["the", "the"], length - 1)


def test_more_tokens_than_positions_are_refused(pair_encoders):
    questions = ["why", "why"]
    answers = ["the", "chair " * 44]
    with pytest.raises(ValueError, match="row 1: 48 tokens, but this encoder has 40 positions: give max_length"):
        pair_encoders["bert"].tokenize(questions, answers)
    assert pair_encoders["bert"].tokenize(questions, answers, 40).lengths.tolist() == [5, 40]
    assert pair_encoders["plain"].positions == 59, "RoBERTa counts positions from after its padding"
    hidden(pair_encoders["plain"], pair_encoders["plain"].tokenize(["why"], ["chair " * 90], 59))


# transformers


def laid_out(tokenizer, questions, answers, limit):
    "The pairs as the tokenizer itself lays them out."
    options = dict(truncation="only_second", max_length=limit, padding=True, return_tensors="pt")
    return tokenizer(questions, answers, **options)


@pytest.mark.parametrize("name", ["bert", "plain"])
@pytest.mark.parametrize("limit", [20, 40])
def test_pairs_are_laid_out_as_the_tokenizer_does(pair_encoders, tokenizer, name, limit):
    tokenizer = copy.deepcopy(tokenizer)
    if name == "plain":
        tokenizer.model_input_names = ["input_ids", "attention_mask"]
    encoder = CrossEncoder(copy.deepcopy(pair_encoders[name].transformer), tokenizer)
    its_own = laid_out(tokenizer, QUESTIONS, ANSWERS, limit)
    ours = encoder.tokenize(QUESTIONS, ANSWERS, limit)
    assert ours.lengths.tolist() == its_own["attention_mask"].sum(1).tolist()
    assert same_tensors(ours.batch(slice(None)), its_own)


def test_a_transformer_gets_a_fresh_pooler_on_its_first_token(pair_encoders, originals):
    encoder = pair_encoders["bert"]
    inputs = pair_encoders["bert"].tokenize(QUESTIONS, ANSWERS, 40)
    bert = BertModel.from_pretrained(originals / "bert").eval()
    with torch.no_grad():
        first = bert(**inputs.batch(slice(None))).last_hidden_state[:, 0]
    assert torch.allclose(hidden(encoder, inputs), torch.tanh(encoder.pooler[0](first)), atol=1e-6)
    assert not any("transformer.pooler" in k for k in encoder.state_dict())
    assert not torch.equal(encoder.pooler[0].weight, bert.pooler.dense.weight)


def tokenizer_of(template, **special):
    "Of words, with special tokens where the template has them."
    core = Tokenizer(WordLevel({word: i for i, word in enumerate(["<pad>", "<s>", "</s>", "a", "b"])},
                               unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(pair=template, special_tokens=[("<s>", 1), ("</s>", 2)])
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<pad>", **{"pad_token": "<pad>"} | special)


@pytest.mark.parametrize("template, special, says", [
    ("<s> $A $B </s>", {}, "no token before the first text, or none between two"),
    ("$A </s> $B </s>", {}, "no token before the first text, or none between two"),
    ("<s> $A </s> $B </s>", {"pad_token": None}, "no padding token"),
])
def test_a_tokenizer_that_cannot_lay_out_pairs_is_refused(template, special, says):
    with pytest.raises(EncoderError, match=says):
        special_tokens(tokenizer_of(template, **special))


# the alignment network


def test_unknown_words_share_one_vector():
    assert words("Don't ask: x_1, ÄRGER!") == ["don", "'", "t", "ask", ":", "x_1", ",", "ärger", "!"]
    encoder = load_pair_encoder(ALIGNMENT, ["b a", "A c"])
    assert alike(encoder, load_pair_encoder(ALIGNMENT, ["A c", "b a"] * 2)), "the order of texts does not matter"
    assert encoder.encode(["a b c", "d A"]) == [[2, 3, 4], [1, 2]]
    assert len(encoder.vectors.weight) == 5
    assert torch.allclose(*hidden(encoder, encoder.tokenize(["d"] * 2, ["e", "f"])))


# loading


@every
def test_the_seed_decides_alone(models, pair_encoders, name):
    torch.manual_seed(7)
    state = torch.random.get_rng_state()
    second, third = (load_pair_encoder(CONFIGS[name], TEXTS.get(name), seed) for seed in (0, 1))
    assert alike(second, pair_encoders[name]) and not alike(third, second)
    assert torch.equal(torch.random.get_rng_state(), state) and not second.training


ONE_TEXT = "of kind 'transformer', which encodes single texts; pairs are read by kinds 'alignment' and 'cross'"
NO_PAIRS = "StaticEmbedding is no transformer, and cannot read a pair; use kind 'alignment'"
OTHER_KIND = "encoder 'bert' is a transformer, but its configuration says static"
NO_TEXTS = "'learned' makes its vocabulary of texts, and none were given"


@pytest.mark.parametrize("config, message", [
    (dict(name="bert", kind="transformer"), f"encoder 'bert' is {ONE_TEXT}"),
    (dict(name="table", kind="cross"), NO_PAIRS),
    (dict(name="bert", kind="alignment", units=4), OTHER_KIND),
    (dict(name="nowhere", kind="cross"), "encoder 'nowhere' was not found. Looked in: the folder"),
    (dict(name="learned", kind="alignment", units=4, embedding=4), NO_TEXTS),
])
def test_encoders_that_cannot_be_had_are_named(models, config, message):
    with pytest.raises(EncoderError, match=message):
        load_pair_encoder(EncoderConfig(**config))
