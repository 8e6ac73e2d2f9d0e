"Pairs laid out as tokenizers lay them out, batches that do not matter, and encoders that are not what they should be."
import copy, json, shutil
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from transformers import BertModel, BertTokenizerFast, RobertaConfig, RobertaModel

from debias_nb import encoders

from debias_nb import cross_encoders as pairs
from debias_nb.config import EncoderConfig, PretrainConfig, WorldConfig
from debias_nb.encoders import EncoderError
from debias_nb.cross_encoders import (AlignmentEncoder, CrossEncoder, LengthSampler, attention, directions, find_transformer, load_pair_encoder, pair_layout, pool,
                             vocabulary, words)
from made import VOCABULARY, WORDS, bert, table

QUESTIONS = ["what old lamp?", "why", "how old lamps for the large table?", "what old lamp?", "a ☃", "the red chairs of the old house"]
ANSWERS = ["the red kettle.", "the red kettle.", "why, what, how", "x" * 30, "chair " * 20, "the"]
LEARNED = EncoderConfig(name="learned", kind="alignment", units=12, embedding=8)

@pytest.fixture(autouse=True)
def one_thread():
    with encoders.single_thread(): yield

@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    "Encoders of three forms: a transformer and a table as sentence-transformers saves them, and a plain folder of transformers."
    folder = tmp_path_factory.mktemp("models")
    bert(folder); table(folder)
    torch.manual_seed(1)
    size = dict(vocab_size=len(VOCABULARY), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    RobertaModel(RobertaConfig(max_position_embeddings=60, pad_token_id=0, **size)).save_pretrained(folder / "plain")
    BertTokenizerFast(vocab=str(folder / "work/vocab.txt")).save_pretrained(folder / "plain")
    return folder

@pytest.fixture
def models(originals, tmp_path, monkeypatch):
    "Copies that a test may damage."
    for name in ("bert", "table", "plain"): shutil.copytree(originals / name, tmp_path / name)
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(tmp_path))
    return tmp_path

CONFIGS = {"bert": EncoderConfig(name="bert", kind="cross"), "plain": EncoderConfig(name="somebody/plain", kind="cross"), "table": EncoderConfig(name="table", kind="alignment", units=12), "learned": LEARNED}
TEXTS = {"learned": QUESTIONS + ANSWERS[:3]} # words of the other answers are unknown

@pytest.fixture(scope="module")
def loaded(originals):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEBIAS_NB_MODELS", str(originals))
        return {name: load_pair_encoder(config, TEXTS.get(name)) for name, config in CONFIGS.items()}

every = pytest.mark.parametrize("name", CONFIGS)

@torch.no_grad()
def hidden(encoder, inputs, rows=slice(None)): return encoder(**inputs.batch(rows))
def alike(a, b): return all(torch.equal(v, b.state_dict()[k]) for k, v in a.state_dict().items()) and a.state_dict().keys() == b.state_dict().keys()

# one interface

@every
def test_alone_as_in_a_batch(loaded, name):
    encoder = loaded[name]
    inputs = encoder.tokenise(QUESTIONS, ANSWERS, 40)
    together = hidden(encoder, inputs)
    assert together.shape == (6, encoder.width) and together.dtype == torch.float32 and together.abs().max() <= 1
    assert len(inputs) == 6 and inputs.lengths.max() <= 40
    for i in range(6): assert torch.allclose(hidden(encoder, inputs, [i])[0], together[i], atol=1e-5)
    for rows in ([5, 2], np.array([5, 2]), torch.tensor([5, 2])): assert torch.allclose(hidden(encoder, inputs, rows), together[[5, 2]], atol=1e-5)
    mask = [False, True, False, False, True, False]
    for rows in (mask, np.array(mask), torch.tensor(mask)): assert torch.allclose(hidden(encoder, inputs, rows), together[[1, 4]], atol=1e-5)
    assert torch.equal(hidden(encoder, inputs, [2, 2])[0], hidden(encoder, inputs, [2, 2])[1])

@every
def test_gradients_of_padded_batches_are_finite(loaded, name):
    encoder = copy.deepcopy(loaded[name]).train()
    encoder(**encoder.tokenise(QUESTIONS, ANSWERS, 40).batch(slice(None))).sum().backward()
    grads = {k: p.grad for k, p in encoder.named_parameters() if p.requires_grad}
    assert all(g is not None and g.isfinite().all() for g in grads.values())
    if name == "table": assert not encoder.vectors.weight.requires_grad and "vectors.weight" in encoder.state_dict()

@every
def test_bf16_gives_fp32(loaded, name):
    inputs = loaded[name].tokenise(QUESTIONS, ANSWERS, 40)
    with torch.autocast("cpu", torch.bfloat16): found = hidden(loaded[name], inputs)
    assert found.dtype == torch.float32 and (found - hidden(loaded[name], inputs)).abs().max() < .1

@every
def test_a_batch_depends_on_its_answers_and_questions(loaded, name):
    encoder = loaded[name]
    found = hidden(encoder, encoder.tokenise(["what lamp?", "why lamp?", "what lamp?"], ["the red chair"] * 2 + ["the old chair"], 40))
    assert min(float((found[0] - found[i]).abs().max()) for i in (1, 2)) > 1e-5

@every
def test_each_distinct_text_is_tokenised_once(loaded, name):
    encoder, seen = copy.copy(loaded[name]), []
    original = encoder.encode
    encoder.encode = lambda texts: (seen.extend(texts), original(texts))[1]
    inputs = encoder.tokenise(QUESTIONS * 3, ANSWERS * 3, 40)
    assert sorted(seen) == sorted([*set(QUESTIONS), *set(ANSWERS)]) and len(inputs) == 18
    once = loaded[name].tokenise(QUESTIONS, ANSWERS, 40)
    assert inputs.lengths.tolist() == once.lengths.tolist() * 3 and all(torch.equal(v, once.batch([3])[k]) for k, v in inputs.batch([9]).items())

@every
@pytest.mark.parametrize("questions, answers, message", [
    (["why", "how"], ["the"], "2 questions and 1 answers: the lengths must agree"),
    (["why", "how"], ["the", ""], "row 1: the answer is empty: ''"),
    (["why", " \t"], ["the", "a"], r"row 1: the question is empty: ' \\t'"),
    (["why"], [None], "row 0: the answer is empty: None"),
    (["why", "how"], [float("nan"), "the"], "row 0: the answer is empty: nan")])
def test_unusable_pairs(loaded, name, questions, answers, message):
    with pytest.raises(ValueError, match=message): loaded[name].tokenise(questions, answers)

def test_a_text_of_which_no_token_is_left(loaded):
    with pytest.raises(ValueError, match=r"row 1: the answer is empty: '\\x00'"): loaded["bert"].tokenise(["why", "how"], ["the", "\0"])

@every
def test_no_pairs(loaded, name):
    inputs = loaded[name].tokenise([], [])
    assert len(inputs) == 0 and inputs.lengths.tolist() == []
    assert all(v.shape[0] == 0 for v in inputs.batch([]).values())

@every
def test_rows_that_are_not_there(loaded, name):
    inputs = loaded[name].tokenise(QUESTIONS, ANSWERS, 40)
    with pytest.raises(IndexError): inputs.batch([6])
    with pytest.raises(IndexError): inputs.batch([True] * 5)
    assert all(torch.equal(v, inputs.batch([5])[k]) for k, v in inputs.batch([-1]).items())

@pytest.mark.parametrize("name, special", [("bert", 3), ("plain", 3), ("table", 0), ("learned", 0)])
def test_the_answer_is_cut_and_never_the_question(loaded, name, special):
    encoder = loaded[name]
    length = int(encoder.tokenise(QUESTIONS[2:3], ["the"]).lengths[0]) # with an answer of one token
    assert encoder.tokenise(QUESTIONS[2:3], ANSWERS[4:5], length).lengths.tolist() == [length]
    assert encoder.tokenise(QUESTIONS[2:3], ANSWERS[4:5], length + 2).kept.tolist() == [3]
    with pytest.raises(ValueError, match=f"row 1: the question has {length - special - 1} tokens, which with {special} special ones leaves no room for an answer in max_length {length - 1}: 'how old"):
        encoder.tokenise(["why", QUESTIONS[2]], ["the", "the"], length - 1)

def test_more_tokens_than_positions(loaded):
    with pytest.raises(ValueError, match="row 1: 48 tokens, but this encoder has 40 positions; give max_length=40"): loaded["bert"].tokenise(["why"] * 2, ["the", "chair " * 44])
    assert loaded["bert"].tokenise(["why"] * 2, ["the", "chair " * 44], 40).lengths.tolist() == [5, 40]
    assert loaded["plain"].positions == 59, "RoBERTa counts positions from after its padding"
    hidden(loaded["plain"], loaded["plain"].tokenise(["why"], ["chair " * 90], 59))

# transformers

@pytest.mark.parametrize("name", ["bert", "plain"])
@pytest.mark.parametrize("limit", [20, 40])
def test_as_the_tokenizer_lays_out_a_pair(loaded, originals, name, limit):
    tokenizer = BertTokenizerFast(vocab=str(originals / "work/vocab.txt"))
    if name == "plain": tokenizer.model_input_names = ["input_ids", "attention_mask"]
    encoder = CrossEncoder(copy.deepcopy(loaded[name].transformer), tokenizer)
    its_own = tokenizer(QUESTIONS, ANSWERS, truncation="only_second", max_length=limit, padding=True, return_tensors="pt")
    ours = encoder.tokenise(QUESTIONS, ANSWERS, limit)
    assert set(ours.batch(slice(None))) == set(its_own) and ours.lengths.tolist() == its_own["attention_mask"].sum(1).tolist()
    assert all(torch.equal(v, its_own[k]) for k, v in ours.batch(slice(None)).items())

word = st.sampled_from([*WORDS, "lamps", "zq", "☃", "KETTLE"])
text = st.lists(word, min_size=1, max_size=8).map(" ".join)

@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(text, text), min_size=1, max_size=5), st.integers(30, 60))
def test_any_pairs_as_the_tokenizer_lays_them_out(loaded, originals, drawn, limit):
    tokenizer = BertTokenizerFast(vocab=str(originals / "work/vocab.txt"))
    questions, answers = map(list, zip(*drawn))
    its_own = tokenizer(questions, answers, truncation="only_second", max_length=limit, padding=True, return_tensors="pt")
    class Tokeniser(pairs.PairEncoder): layout, encode = pair_layout(tokenizer), staticmethod(partial(pairs._by_transformer, tokenizer))
    ours = Tokeniser().tokenise(questions, answers, limit).batch(slice(None))
    assert all(torch.equal(v, its_own[k]) for k, v in ours.items())

def test_a_fresh_pooler_on_the_first_token(loaded, originals):
    encoder, inputs = loaded["bert"], loaded["bert"].tokenise(QUESTIONS, ANSWERS, 40)
    saved = BertModel.from_pretrained(originals / "bert").eval()
    with torch.no_grad(): first = saved(**inputs.batch(slice(None))).last_hidden_state[:, 0]
    assert torch.allclose(hidden(encoder, inputs), torch.tanh(encoder.pooler[0](first)), atol=1e-6)
    assert not any("transformer.pooler" in k for k in encoder.state_dict()) and not torch.equal(encoder.pooler[0].weight, saved.pooler.dense.weight)

def test_a_tokenizer_that_runs_as_python():
    class Slow: pad_token_id, is_fast, name_or_path = 0, False, "slow"
    with pytest.raises(EncoderError, match="the tokenizer slow does not say which tokens"): pair_layout(Slow())

def test_segments_of_another_kind(originals):
    class Odd:
        pad_token_id, is_fast, name_or_path, model_input_names = 0, True, "odd", ["input_ids", "token_type_ids"]
        def __call__(self, *texts, **_):
            class Pair(dict):
                def sequence_ids(self): return [None, 0, None, 1, None]
            return Pair(input_ids=[1, 5, 2, 6, 2], token_type_ids=[2, 0, 0, 1, 1])
    with pytest.raises(EncoderError, match=r"the tokenizer odd numbers segments \[2, 0, 0, 1, 1\]"): pair_layout(Odd())

# the alignment network

def test_attention_of_words_that_matter_and_of_padding():
    g = torch.Generator().manual_seed(0)
    left, right, weight = torch.randn(3, 4, 5, generator=g), torch.randn(3, 6, 5, generator=g), torch.rand(3, 6, generator=g) + .1
    weight[1, 2:] = 0
    found = attention(left, right, weight, torch.tensor(.2))
    cosine = torch.stack([torch.nn.functional.cosine_similarity(left[:, :, None], right[:, None], dim=-1)])[0]
    direct = weight[:, None] * (cosine / .2).exp()
    assert torch.allclose(found, direct / direct.sum(2, keepdim=True), atol=1e-6) and (found[1, :, 2:] == 0).all()
    assert torch.allclose(found, attention(3 * left, right / 7, 5 * weight, torch.tensor(.2)), atol=1e-6), "lengths of vectors and the scale of weights do not matter"

@settings(max_examples=30, deadline=None)
@given(st.integers(0, 99), st.integers(1, 6), st.integers(0, 4))
def test_padding_is_never_pooled(seed, length, padding):
    rng = np.random.default_rng(seed)
    values, weight = torch.tensor(rng.random((1, length, 3))), torch.tensor(rng.random((1, length)) + .01)
    pad = lambda t, value: torch.cat([t, torch.full((1, padding, *t.shape[2:]), value, dtype=t.dtype)], 1)
    mask = torch.arange(length + padding)[None] < length
    assert torch.allclose(pool(pad(values, 9.), pad(weight, 7.), mask), torch.cat([(values * weight[..., None]).sum(1) / weight.sum(), values.amax(1)], -1))

def test_the_order_of_words_matters_to_their_neighbours_alone():
    number = vocabulary(QUESTIONS + ANSWERS)
    torch.manual_seed(0)
    encoder = AlignmentEncoder(torch.randn(len(number) + 2, 8), partial(pairs._by_word, number), 6).eval()
    told = {}
    for neighbours in (True, False):
        if not neighbours: encoder.neighbours.weight.data[..., [0, 2]] = 0
        a, b = hidden(encoder, encoder.tokenise(["why the lamp"] * 2, ["red the old chair", "chair old the red"]))
        told[neighbours] = torch.allclose(a, b, atol=1e-6)
    assert told == {True: False, False: True}

def test_words_and_unknown_ones():
    assert words("Don't ask: x_1, ÄRGER!") == ["don", "'", "t", "ask", ":", "x_1", ",", "ärger", "!"]
    encoder = load_pair_encoder(LEARNED, ["b a", "A c"])
    assert encoder.encode(["a b c", "d A"]) == [[2, 3, 4], [1, 2]] and len(encoder.vectors.weight) == 5
    assert torch.allclose(*hidden(encoder, encoder.tokenise(["d"] * 2, ["e", "f"])))

def test_directions_of_a_table(loaded):
    vectors, weight = directions(torch.tensor([[3., 4.], [0., 0.], [0., 1.]]))
    assert torch.allclose(vectors.square().mean(1), torch.tensor([1., 0., 1.])) and torch.allclose(weight, torch.tensor([5 / 3, .01, 1 / 3]))
    assert loaded["table"].weight.min() > 0 and torch.allclose(loaded["table"].vectors.weight.square().mean(1), torch.ones(len(VOCABULARY)))

# lengths

@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 128), min_size=1, max_size=300), st.integers(1, 40), st.integers(0, 3))
def test_an_epoch_of_batches_of_like_length(lengths, size, seed):
    lengths = np.array(lengths)
    def order(): return list(LengthSampler(size, lengths=lengths.tolist(), generator=torch.Generator().manual_seed(seed)))
    rows = order()
    assert sorted(rows) == list(range(len(lengths))) and rows == order()

def test_the_batches_of_transformers_trainer_dealt_anew():
    from transformers.trainer_pt_utils import LengthGroupedSampler
    lengths = np.random.default_rng(0).integers(5, 128, 990).tolist()
    cut = lambda order: [order[i:i + 7] for i in range(0, len(order), 7)]
    torch.manual_seed(5); theirs = cut(list(LengthGroupedSampler(7, lengths=lengths)))
    torch.manual_seed(5); ours = cut(list(LengthSampler(7, lengths=lengths)))
    assert sorted(ours) == sorted(theirs) and ours != theirs and ours[-1] == theirs[-1] and len(ours[-1]) == 3
    assert ours == cut(list(LengthSampler(7, lengths=lengths, generator=torch.Generator().manual_seed(5)))), "a generator and torch's own draw alike"
    longest = lambda batches: np.array([max(lengths[i] for i in b) for b in batches[:-1]])
    trend = lambda batches: abs(np.corrcoef(np.arange(35), longest(batches)[:35])[0, 1])
    assert trend(theirs) > .95 and trend(ours) < .5

# loading

@every
def test_the_seed_decides_alone(models, loaded, name):
    torch.manual_seed(7); state = torch.random.get_rng_state()
    again, other = (load_pair_encoder(CONFIGS[name], TEXTS.get(name), seed) for seed in (0, 1))
    assert alike(again, loaded[name]) and not alike(other, again) and torch.equal(torch.random.get_rng_state(), state) and not again.training
    inputs = again.tokenise(QUESTIONS, ANSWERS, 40)
    assert not torch.allclose(hidden(other, inputs), hidden(again, inputs), atol=1e-3)
    other.load_state_dict(again.state_dict())
    assert torch.equal(hidden(other, inputs), hidden(again, inputs))

@every
def test_state_through_a_safetensors_file(loaded, tmp_path, name):
    from safetensors.torch import load_file, save_file
    save_file(loaded[name].state_dict(), tmp_path / "state.safetensors")
    other = copy.deepcopy(loaded[name])
    for p in other.parameters(): p.data.zero_()
    other.load_state_dict(load_file(tmp_path / "state.safetensors"))
    assert alike(other, loaded[name])

def test_the_order_of_texts_does_not_matter():
    assert alike(load_pair_encoder(LEARNED, QUESTIONS + ANSWERS), load_pair_encoder(LEARNED, (QUESTIONS + ANSWERS)[::-1] * 2))

@pytest.mark.parametrize("name, kind", [("tiny", "cross"), ("tiny-static", "alignment")])
def test_planted_encoders_cached_or_not(tmp_path, monkeypatch, name, kind):
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path))
    world, pretrain = WorldConfig(types=8, unseen_types=4, broad_pairs=100), PretrainConfig(steps=2, batch_size=8)
    config = EncoderConfig(name=name, kind=kind, world=world, pretrain=pretrain, units=4 if kind == "alignment" else None)
    first = load_pair_encoder(config)
    assert alike(first, load_pair_encoder(config)) and len([p for p in (tmp_path / "encoders").iterdir() if p.is_dir()]) == 1
    base = encoders.load_encoder(EncoderConfig(name=name, kind="transformer" if kind == "cross" else "static", world=world, pretrain=pretrain))
    assert len([p for p in (tmp_path / "encoders").iterdir() if p.is_dir()]) == 1, "it is the encoder of single texts that stands there already"
    if kind == "cross": assert all(torch.equal(v, base[0].auto_model.state_dict()[k]) for k, v in first.transformer.state_dict().items())
    else: assert torch.allclose(torch.nn.functional.normalize(base[0].embedding.weight.detach(), dim=1), torch.nn.functional.normalize(first.vectors.weight, dim=1), atol=1e-5)

@pytest.mark.parametrize("config, message", [
    (dict(name="bert", kind="transformer"), "encoder 'bert' is of kind 'transformer', which encodes single texts; pairs are read by kinds 'alignment' and 'cross'"),
    (dict(name="table", kind="static"), "of kind 'static'"),
    (dict(name="table", kind="cross"), "StaticEmbedding is no transformer, and cannot read a pair; use kind 'alignment'"),
    (dict(name="bert", kind="alignment", units=4), "encoder 'bert' is a transformer, but its configuration says static"),
    (dict(name="nowhere", kind="cross"), "encoder 'nowhere' was not found. Looked in: the folder"),
    (dict(name="nowhere", kind="alignment", units=4), "encoder 'nowhere' was not found"),
    (dict(name="somebody/nowhere", kind="cross"), "no revision is pinned"),
    (dict(name="learned", kind="alignment", units=4, embedding=4), "'learned' makes its vocabulary of texts, and none were given")])
def test_encoders_that_cannot_be_had(models, config, message):
    with pytest.raises(EncoderError, match=message): load_pair_encoder(EncoderConfig(**config))

def test_plain_folders_that_are_not_safe(models):
    plain, config = models / "plain", CONFIGS["plain"]
    settings_ = json.loads((plain / "config.json").read_text())
    (plain / "config.json").write_text(json.dumps(settings_ | {"auto_map": {"AutoModel": "modeling.Own"}}))
    with pytest.raises(EncoderError, match="auto_map names code of the repository, which is not run"): load_pair_encoder(config)
    (plain / "config.json").write_text(json.dumps(settings_))
    (plain / "model.safetensors").rename(plain / "pytorch_model.bin")
    with pytest.raises(EncoderError, match="plain: no safetensors"): load_pair_encoder(config)
    (plain / "config.json").unlink()
    with pytest.raises(EncoderError, match="plain: neither modules.json nor config.json"): load_pair_encoder(config)

def test_another_file_than_the_card_says(models, monkeypatch):
    card = encoders.EncoderCard(kind="transformer", hub="somebody/plain", sha256="53aa", licence="none", trained_on="nothing", zero_shot=True)
    monkeypatch.setattr(encoders, "encoder_cards", lambda: {"somebody/plain": card})
    with pytest.raises(EncoderError, match="sha256 is .*, expected 53aa"): find_transformer(CONFIGS["plain"])

def test_a_pinned_revision_is_asked_of_the_hub(models, monkeypatch, tmp_path):
    asked = []
    def snapshot(hub, revision, looked): asked.append((hub, revision, looked)); return models / "plain"
    monkeypatch.setattr(encoders, "_snapshot", snapshot)
    assert find_transformer(EncoderConfig(name="somebody/roberta", kind="cross", revision="abc")) == models / "plain"
    assert asked == [("somebody/roberta", "abc", [f"the folder {tmp_path / 'roberta'}"])]
    assert find_transformer(CONFIGS["plain"]) == models / "plain" and len(asked) == 1, "what is here is not asked for"
