"""Hostile and damaged folders of models: none of them runs code, opens a pickle or loads in part.

Each is refused in one sentence that names the file or folder and the field, by every way to load a model.
"""
import json
import os
import pickle
import shutil
import string

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AlbertConfig, AlbertModel

from debias_nb.settings import EncoderConfig
from debias_nb.encoders.safe_folders import _check_growth, check_folder
from debias_nb.encoders.tokens import EncoderError, embed_texts, encoder_fingerprint
from debias_nb.diagnosis.models import load_model
from debias_nb.encoders.loading import load_encoder
from debias_nb.papers.tasks.pair_encoders import load_pair_encoder
from made import VOCABULARY

SETTINGS = "sentence_bert_config.json"
CONFIG = "config.json"
SETTINGS_FILE = "config_sentence_transformers.json"
WEIGHTS = "model.safetensors"
QUERY = "encoder.layer.0.attention.self.query.weight"


@pytest.fixture
def models(originals, tmp_path, monkeypatch):
    "Copies that a test may damage, where DEBIAS_NB_MODELS points."
    for name in ("bert", "table"):
        shutil.copytree(originals / name, tmp_path / name)
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(tmp_path))
    return tmp_path


def put(path, **fields):
    "Fields of a file of JSON, set anew."
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(content | fields))


class Spy:
    "An object that, unpickled, makes a folder."
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


UNSAFE = {"use_safetensors": False, "weights_only": False, "dtype": "auto"}


def place_spy(folder, name):
    "A pickle, and no word of the type of the weights: transformers then opens the file to see it."
    (folder / name).write_bytes(pickle.dumps(Spy(folder.parent / "ran")))
    config = json.loads((folder / CONFIG).read_text())
    config.pop("dtype", None)
    (folder / CONFIG).write_text(json.dumps(config))


def by_settings(folder):
    place_spy(folder, "pytorch_model.bin")
    put(folder / SETTINGS, model_args=UNSAFE)


def by_list_of_pickles(folder):
    place_spy(folder, "weights.model")
    put(folder / SETTINGS, model_args=UNSAFE)
    put(folder / "pytorch_model.bin.index.json", metadata={}, weight_map={"pooler.dense.bias": "weights.model"})


def by_list_of_safetensors(folder):
    "Which transformers takes also with `use_safetensors=True`."
    place_spy(folder, "weights.model")
    (folder / WEIGHTS).rename(folder / "1_Pooling/x.safetensors")
    put(folder / SETTINGS, model_args={"weights_only": False, "dtype": "auto"})
    put(folder / f"{WEIGHTS}.index.json", metadata={}, weight_map={"pooler.dense.bias": "weights.model"})


def by_configuration(folder):
    place_spy(folder, "adapter_model.bin")
    put(folder / SETTINGS, model_args={"weights_only": False, "dtype": "auto"})
    put(folder / CONFIG, transformers_weights="adapter_model.bin")


def by_settings_of_the_configuration(folder):
    place_spy(folder, "adapter_model.bin")
    put(folder / SETTINGS, model_args={"weights_only": False},
        config_args={"transformers_weights": "adapter_model.bin"})


def by_variant(folder):
    place_spy(folder, "pytorch_model.old.bin")
    put(folder / SETTINGS, model_args={"variant": "old", "weights_only": False})


def by_older_settings(folder):
    "sentence-transformers reads them where the newer ones are not there."
    place_spy(folder, "pytorch_model.bin")
    (folder / SETTINGS).unlink()
    put(folder / "sentence_roberta_config.json", model_kwargs=UNSAFE)


def by_adapter(folder):
    place_spy(folder, "adapter_model.bin")
    put(folder / "adapter_config.json", peft_type="LORA", base_model_name_or_path=str(folder))


def only_pickles(folder):
    (folder / WEIGHTS).unlink()
    place_spy(folder, "pytorch_model.bin")


def fields(file, **values):
    return lambda folder: put(folder / file, **values)


def module(change, number=1):
    "Another entry of modules.json."
    def damage(folder):
        path = folder / "modules.json"
        modules = json.loads(path.read_text())
        modules[number] = modules[number] | change
        path.write_text(json.dumps(modules))
        for package in ("foreign", "sentence_transformersx"): # what would run, in the folder and where Python looks
            for place in (folder, folder.parent):
                (place / f"{package}.py").write_text(f"import os; os.mkdir({str(folder.parent / 'ran')!r})")
    return damage


def dense(change):
    "A further module with weights of its own, damaged."
    def damage(folder):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.base.modules import Dense
        model = SentenceTransformer(str(folder), device="cpu")
        model.append(Dense(32, 8))
        model.save(str(folder), create_model_card=False)
        change(folder / "2_Dense")
    return damage


def pickled_module(place):
    torch.save(load_file(place / WEIGHTS), place / "pytorch_model.bin")
    (place / WEIGHTS).rename(place / "other.safetensors")


def weights(change):
    "Other weights."
    def damage(folder):
        tensors = load_file(folder / WEIGHTS)
        save_file(change(tensors), folder / WEIGHTS, metadata={"format": "pt"})
    return damage


def remove_weights(*names):
    return weights(lambda tensors: {name: value for name, value in tensors.items() if name not in names})


def remove(*names):
    return lambda folder: [(folder / name).unlink(missing_ok=True) for name in names]


def halve(name):
    def damage(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:len(content) // 2])
    return damage


def link_out(folder):
    "The folder of a module is a link to another model's."
    shutil.move(folder / "1_Pooling", folder.parent / "elsewhere")
    (folder / "1_Pooling").symlink_to(folder.parent / "elsewhere")


def linked_file(name):
    def damage(folder):
        shutil.move(folder / name, folder.parent / f"elsewhere {name}")
        (folder / name).symlink_to(folder.parent / f"elsewhere {name}")
    return damage


def normalizer(*parts):
    def damage(folder):
        content = json.loads((folder / "tokenizer.json").read_text())
        content["normalizer"] = {"type": "Sequence", "normalizers": list(parts)}
        (folder / "tokenizer.json").write_text(json.dumps(content))
    return damage


def replacing(content, **pattern):
    return {"type": "Replace", "pattern": pattern, "content": content}


def waiting(folder):
    os.mkfifo(folder / "README.md")


def with_template(text):
    "A transformer that writes each text into a chat template."
    def damage(folder):
        put(folder / "tokenizer_config.json", chat_template=text)
        way = {"method": "forward", "method_output_name": "last_hidden_state"}
        put(folder / SETTINGS, modality_config={"text": way, "message": way | {"format": "flat"}},
            module_output_name="token_embeddings")
    return damage


def larger_tokenizer(folder):
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["vocab"]["kettles"] = 5000
    (folder / "tokenizer.json").write_text(json.dumps(content))


def quantize(tensors):
    return tensors | {QUERY: (100 * tensors[QUERY]).round().to(torch.int8)}


ESCAPE = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
LOADING_OPTIONS = [ # how files would be read, from where, by which code, onto which device
    {"model_args": {"trust_remote_code": True}}, {"model_kwargs": {"gguf_file": "x.gguf"}},
    {"model_args": [1]}, {"tokenizer_args": {"tokenizer_file": "/etc/passwd"}}, {"config_kwargs": {"subfolder": ".."}},
    {"modality_config": {"text": {"method": "save_pretrained"}}},
]
BERT = { # what is done -> the damage, and the file and the field that an error names
    "model_args": (by_settings, SETTINGS, "model_args: use_safetensors"),
    "list of pickles": (by_list_of_pickles, "pytorch_model.bin.index.json"),
    "list of safetensors": (by_list_of_safetensors, f"{WEIGHTS}.index.json", "pooler.dense.bias"),
    "configuration": (by_configuration, CONFIG, "transformers_weights"),
    "config_args": (by_settings_of_the_configuration, SETTINGS, "model_args: weights_only"),
    "variant": (by_variant, SETTINGS, "model_args: variant"),
    "older settings": (by_older_settings, "sentence_roberta_config.json", "model_kwargs: use_safetensors"),
    "adapter": (by_adapter, "adapter_config.json"),
    "only pickles": (only_pickles, "pytorch_model.bin", "pickles"),
    "pickles of one module": (dense(pickled_module), "2_Dense", "pytorch_model.bin"),
    **{json.dumps(options): (fields(SETTINGS, **options), f"{SETTINGS}: {next(iter(options))}")
       for options in LOADING_OPTIONS},
    **{kind: (module({"type": kind}), "modules.json", kind)
       for kind in ("foreign.Module", "os.system", "sentence_transformersx.Transformer")},
    "no module of an encoder": (module({"type": "sentence_transformers.base.model.torch"}), "modules.json", "torch"),
    "a module above": (module({"path": "../1_Pooling"}), "modules.json", "../1_Pooling"),
    "auto_map": (fields(CONFIG, auto_map={"AutoModel": "modeling.Own"}), CONFIG, "auto_map"),
    "a kernel": (fields(CONFIG, attn_implementation="somebody/kernel"), CONFIG, "attn_implementation"),
    "quantized": (fields(CONFIG, quantization_config={"quant_method": "x"}), CONFIG, "quantization_config"),
    "a function of a layer": (dense(fields(CONFIG, activation_function="torch.initial_seed")),
                              "2_Dense/config.json: activation_function", "torch.initial_seed"),
    "a prompt that is a number": (fields(SETTINGS_FILE, prompts={"query": 7}), f"{SETTINGS_FILE}: prompts: query"),
    "another family": (fields(SETTINGS_FILE, model_type="SparseEncoder"), f"{SETTINGS_FILE}: model_type"),
    "a path that is too long": (module({"path": "p" * 300}), "ppp"),
    "no list of modules": (lambda folder: (folder / "modules.json").write_text("[1]"), "modules.json: 0"),
    "no settings": (lambda folder: (folder / CONFIG).write_text("[1]"), f"{CONFIG}: "),
    "no weights": (remove(WEIGHTS), "no weights"),
    "half the weights": (halve(WEIGHTS), "cannot be loaded"),
    "missing": (remove_weights(QUERY, "encoder.layer.0.output.dense.bias"), QUERY, "encoder.layer.0.output.dense.bias"),
    "renamed": (weights(lambda tensors: {f"other.{name}": tensor for name, tensor in tensors.items()}),
                "embeddings.LayerNorm.bias"),
    "a layer without its bias": (dense(remove_weights("linear.bias")), "linear.bias"),
    "a link to a module elsewhere": (link_out, "1_Pooling: a link out of the folder"),
    "a link for a file": (linked_file("tokenizer.json"), "tokenizer.json: a link out of the folder"),
    "a letter becomes many in steps": (normalizer(*4 * [replacing(20 * "a", String="a")]), "tokenizer.json: normalizer",
                                       "may make a text more than 100 times as long"),
    "many letters, whatever stands between": (
        normalizer(replacing(20 * "a", String="a"), replacing("", Regex="."), replacing(20 * "a", String="a")),
        "may make a text more than 100 times as long"),
    "steps without end": (normalizer(*40_000 * [replacing("b", String="a")]),
                          "40,000 replacements of up to 2 characters; at most 200"),
    "what is neither file nor folder": (waiting, "README.md: neither"),
    **{f"{count} layers": (fields(CONFIG, num_hidden_layers=count), reason) for count, reason in {
        0: "the number of layers in config.json leaves out 16 weights (encoder.layer.0.",
        2: "lacks 16 weights (encoder.layer.1.",
        10**6: f"{CONFIG}: num_hidden_layers: Input should be less than or equal to 1000, found 1000000"}.items()},
    "no module with weights": (lambda folder: (folder / "modules.json").write_text(json.dumps(
        json.loads((folder / "modules.json").read_text())[1:])), "bert"),
    "the number of a class": (fields(CONFIG, architectures=[1]), f"{CONFIG}: architectures: 0"),
    "whole numbers": (weights(quantize), f"{QUERY} is quantized (I8)"),
    "no number": (weights(lambda tensors: tensors | {QUERY: tensors[QUERY] * float("nan")}),
                  f"{QUERY} has values that are not finite"),
}
SENTENCES = { # damage to what makes a vector of a text, which no cross-encoder asks
    **{f"{count} tokens": (fields(SETTINGS, max_seq_length=count), f"reads {count} tokens of a text")
       for count in (-1, 0, 2)},
    "one vector for all texts": (
        fields(SETTINGS, modality_config={"text": {"method": "forward", "method_output_name": "pooler_output"}}),
        "bert"),
    "a template that leaves its sandbox": (with_template(ESCAPE), "SecurityError"),
    "fewer numbers than none": (fields(SETTINGS_FILE, truncate_dim=-8), "truncate_dim: ", "found -8"),
    "another width": (fields("1_Pooling/config.json", embedding_dimension=24), "32 numbers, and its settings say 24"),
    "no vocabulary": (remove("tokenizer.json", "vocab.txt"), "tokenizer"),
}
TABLE = {
    "only pickles": (lambda folder: (folder / WEIGHTS).rename(folder / "weights.pkl"), "weights.pkl", "pickles"),
    "no modules": (remove("modules.json"), "modules.json"),
    "half the weights": (halve(WEIGHTS), "cannot be loaded"),
    "half a tokenizer": (halve("tokenizer.json"), "tokenizer.json: Invalid JSON"),
    "another similarity": (fields(SETTINGS_FILE, similarity_fn_name="cos"), "similarity_fn_name: ", "found 'cos'"),
    "a long prompt": (fields(SETTINGS_FILE, prompts={"query": "who " * 500}), "prompts: query: "),
    "no numbers": (weights(lambda tensors: {name: values[:, :0].clone() for name, values in tensors.items()}),
                   "0 numbers"),
    "a token without a row": (larger_tokenizer, "a token with the number 5000"),
    "weights of another name": (weights(lambda tensors: {"other": tensors["embedding.weight"]}), "cannot be loaded"),
}


def as_encoder(folder):
    return load_encoder(EncoderConfig(name=folder.name, kind="static" if folder.name == "table" else "transformer"))


def as_scorer(folder):
    return load_model(str(folder), "cpu").model


def as_pairs(folder):
    return load_pair_encoder(EncoderConfig(name=folder.name, kind="cross"))


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("model, name",
                         [("bert", name) for name in BERT | SENTENCES] + [("table", name) for name in TABLE])
def test_no_folder_runs_code_opens_a_pickle_or_loads_in_part(models, monkeypatch, model, name):
    folder = models / model
    monkeypatch.syspath_prepend(str(models))
    change, *words = (BERT | SENTENCES if model == "bert" else TABLE)[name]
    change(folder)
    files = contents(folder)
    ways = [as_encoder, as_scorer, as_pairs]
    if model == "table" or name in SENTENCES or "2_Dense" in files or "2_Dense/config.json" in files:
        ways.remove(as_pairs) # which takes a transformer alone
    for load in ways:
        with pytest.raises(EncoderError) as error:
            load(folder)
        message = str(error.value)
        assert all(word in message for word in (str(folder), *words)), message
        assert "\n" not in message and len(message) < 2000, message
        assert contents(folder) == files and not (models / "ran").exists(), "nothing is changed, nothing was run"


def test_no_message_shows_what_stands_in_a_file(models):
    (models / "bert/tokenizer.json").write_text("root:x:0:0")
    with pytest.raises(EncoderError, match="tokenizer.json: Invalid JSON") as error:
        as_encoder(models / "bert")
    assert "x:0" not in str(error.value)


def test_links_of_the_hub_s_client_are_read(models):
    blobs, snapshot = models / "models--me--bert/blobs", models / "models--me--bert/snapshots/1"
    shutil.copytree(models / "bert", blobs)
    for path in [path for path in blobs.rglob("*") if path.is_file()]:
        link = snapshot / path.relative_to(blobs)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(path, link.parent))
    assert check_folder(snapshot) == snapshot
    (snapshot / "vocab.txt").unlink(missing_ok=True)
    (snapshot / "vocab.txt").symlink_to("/etc/hostname")
    with pytest.raises(EncoderError, match="vocab.txt: a link out of the folder"):
        check_folder(snapshot)


def test_what_does_no_harm_is_kept(models):
    expected = embed_texts(as_encoder(models / "bert"), ["red lamp"])
    place_spy(models / "bert", "pytorch_model.bin") # beside safetensors
    harmless = {"add_pooling_layer": True, "attn_implementation": "eager", "dtype": "float32"}
    put(models / "bert" / SETTINGS, max_seq_length=12, model_args=harmless, tokenizer_args={"padding_side": "left"})
    model = as_encoder(models / "bert")
    assert torch.allclose(embed_texts(model, ["red lamp"]), expected, atol=1e-6) and model.max_seq_length == 12
    assert model[0].auto_model.config._attn_implementation == "eager" and model.tokenizer.padding_side == "left"
    assert not (models / "ran").exists()


def test_a_pooler_that_nobody_asks_is_zero_and_no_chance(models):
    "Checkpoints of masked words have none; a vector for a sentence is made of the states of its tokens."
    expected = embed_texts(as_encoder(models / "bert"), ["red lamp", "old table"])
    remove_weights("pooler.dense.weight", "pooler.dense.bias")(models / "bert")
    first, second = (as_encoder(models / "bert") for _ in range(2))
    assert encoder_fingerprint(first) == encoder_fingerprint(second)
    assert torch.equal(embed_texts(first, ["red lamp", "old table"]), expected)


@pytest.mark.parametrize("load", [as_encoder, as_scorer])
def test_a_cross_encoder_is_no_encoder_and_is_diagnosed_by_its_scores(models, load):
    from sentence_transformers import CrossEncoder
    reader = CrossEncoder(str(models / "bert"), num_labels=1, device="cpu")
    reader.save(str(models / "cross"))
    with pytest.raises(EncoderError, match="cross: a cross-encoder, .*; in Python `diagnose` takes functions"):
        load(models / "cross")
    with pytest.raises(EncoderError, match="got CrossEncoder; in Python `diagnose` takes functions"):
        load_model(reader)


def test_layers_may_share_their_weights(models):
    shape = AlbertConfig(
        vocab_size=len(VOCABULARY), embedding_size=16, hidden_size=32, num_hidden_layers=3, num_attention_heads=2,
        intermediate_size=64)
    AlbertModel(shape).save_pretrained(models / "bert")
    assert as_encoder(models / "bert").encode("red lamp").shape == (32,)


def test_spaces_around_punctuation_are_no_growth():
    "As model2vec writes them, a step for each sign."
    signs = [replacing(f" {sign} ", String=sign) for sign in string.punctuation]
    assert _check_growth({"type": "Sequence", "normalizers": signs})["normalizers"] == signs
