"""Hostile and damaged folders of models: none of them runs code, opens a pickle, loads in part, or hangs.

Each is refused in one sentence that names the file or folder and the field, by every way to load a model.
"""
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from functools import partial

import pytest
import torch
from safetensors.torch import load_file, save_file

from debias_nb.config import EncoderConfig
from debias_nb.repro.runs.pair_encoders import load_pair_encoder
from debias_nb.data.planted_encoder import planted_encoder
from debias_nb.encoders import EncoderError, embed_texts, encoder_fingerprint
from debias_nb.loading import load_encoder
from debias_nb.explain.models import load_model
from made import STATIC, some_pairs

SETTINGS = "sentence_bert_config.json"
CONFIG = "config.json"
WEIGHTS = "model.safetensors"


@pytest.fixture
def models(originals, tmp_path, monkeypatch):
    "Copies that a test may damage, where DEBIAS_NB_MODELS points."
    for name in ("bert", "table"):
        shutil.copytree(originals / name, tmp_path / name)
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(tmp_path))
    return tmp_path


def put(path, **fields):
    "Fields of a file of JSON, set anew."
    known = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(known | fields))


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


def by_settings(name, folder):
    place_spy(folder, "pytorch_model.bin")
    put(folder / SETTINGS, **{name: UNSAFE})


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
    put(folder / SETTINGS, model_args={"weights_only": False}, config_args={"transformers_weights": "adapter_model.bin"})


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


PICKLED = { # what is done -> file, field
    "model_args": (partial(by_settings, "model_args"), SETTINGS, "model_args: use_safetensors"),
    "model_kwargs": (partial(by_settings, "model_kwargs"), SETTINGS, "model_kwargs: use_safetensors"),
    "list of pickles": (by_list_of_pickles, "pytorch_model.bin.index.json", "a list of pickles"),
    "list of safetensors": (by_list_of_safetensors, f"{WEIGHTS}.index.json", "pooler.dense.bias: safetensors beside"),
    "configuration": (by_configuration, CONFIG, "transformers_weights"),
    "config_args": (by_settings_of_the_configuration, SETTINGS, "model_args: weights_only"),
    "variant": (by_variant, SETTINGS, "model_args: variant"),
    "older settings": (by_older_settings, "sentence_roberta_config.json", "model_kwargs: use_safetensors"),
    "adapter": (by_adapter, "adapter_config.json", "an adapter"),
}


def as_encoder(folder):
    return load_encoder(EncoderConfig(name=folder.name, kind="static" if folder.name == "table" else "transformer"))


def as_scorer(folder):
    return load_model(str(folder), "cpu").model


def as_pairs(folder):
    return load_pair_encoder(EncoderConfig(name=folder.name, kind="cross"))


WAYS = {"load_encoder": as_encoder, "load_model": as_scorer, "load_pair_encoder": as_pairs}


def refused(load, folder, *words, within=10.):
    "One sentence, soon."
    start = time.perf_counter()
    with pytest.raises(EncoderError) as error:
        load(folder)
    said = str(error.value)
    for word in (str(folder), *words):
        assert word in said, said
    assert "\n" not in said and len(said) < 2000, said
    assert time.perf_counter() - start < within, "refused before anything is built"
    return said


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PICKLED)
def test_no_way_to_ask_for_a_pickle_leads_to_one(models, tally, name, way):
    change, file, field = PICKLED[name]
    with tally.trial("damaged models"):
        change(models / "bert")
        refused(WAYS[way], models / "bert", file, field)
        assert not (models / "ran").exists(), "the pickle's code was run"


@pytest.mark.parametrize("asked", [
    {"model_args": {"trust_remote_code": True}}, {"model_kwargs": {"gguf_file": "x.gguf"}},
    {"model_args": {"device_map": {"": "disk"}}}, {"model_args": {"state_dict": {}}}, {"model_args": [1]}, {"tokenizer_args": {"tokenizer_file": "/etc/passwd"}},
    {"processor_kwargs": {"subfolder": ".."}}, {"config_kwargs": {"subfolder": ".."}},
    {"tokenizer_name_or_path": "/elsewhere"}, {"modality_config": {"text": {"method": "save_pretrained"}}},
], ids=json.dumps)
def test_settings_that_say_how_files_are_read_are_refused(models, asked):
    put(models / "bert" / SETTINGS, **asked)
    name = next(iter(asked))
    for load in WAYS.values():
        refused(load, models / "bert", f"{SETTINGS}: {name}")


def test_settings_that_do_no_harm_are_kept(models):
    before = encoder_fingerprint(as_encoder(models / "bert"))
    harmless = {"add_pooling_layer": True, "attn_implementation": "eager", "dtype": "float32"}
    put(models / "bert" / SETTINGS, max_seq_length=12, model_args=harmless, tokenizer_args={"padding_side": "left"})
    model = as_encoder(models / "bert")
    assert encoder_fingerprint(model) == before and model.max_seq_length == 12
    assert model[0].auto_model.config._attn_implementation == "eager" and model.tokenizer.padding_side == "left"


def dense(folder, **settings):
    "A further module with weights of its own."
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense
    model = SentenceTransformer(str(folder), device="cpu")
    model.append(Dense(32, 8))
    model.save(str(folder), create_model_card=False)
    put(folder / "2_Dense/config.json", **settings)
    return folder / "2_Dense"


def test_weights_lie_beside_their_module(models):
    place = dense(models / "bert")
    assert as_encoder(models / "bert").get_embedding_dimension() == 8
    torch.save(load_file(place / WEIGHTS), place / "pytorch_model.bin")
    (place / WEIGHTS).rename(place / "other.safetensors")
    for load in (as_encoder, as_scorer):
        refused(load, models / "bert", "2_Dense: only pytorch_model.bin, which are pickles")
    (place / "pytorch_model.bin").unlink()
    refused(as_encoder, models / "bert", f"2_Dense: no weights at all; they must be safetensors, in {WEIGHTS}")


@pytest.mark.parametrize("function", ["os.getcwd", "torch.initial_seed", "sentence_transformers.util.fullname"])
def test_functions_from_outside_torch_nn_are_not_called(models, function):
    dense(models / "bert", activation_function=function)
    refused(as_encoder, models / "bert", f"2_Dense/config.json: activation_function: {function} is no function of torch.nn")


@pytest.mark.parametrize("kind", [
    "sentence_transformers.base.model.torch", "sentence_transformers.sentence_transformer.modules.WordEmbeddings"])
def test_only_modules_of_encoders_are_read(models, kind):
    listed = models / "bert/modules.json"
    modules = json.loads(listed.read_text())
    modules[1]["type"] = kind
    listed.write_text(json.dumps(modules))
    refused(as_encoder, models / "bert", "modules.json", "is no module of an encoder that is read here")


# what is missing

def weights(folder, change):
    "The weights of a folder, changed."
    kept = load_file(folder / WEIGHTS)
    save_file(change(kept), folder / WEIGHTS, metadata={"format": "pt"})


QUERY = "encoder.layer.0.attention.self.query.weight"


def without(*names):
    return lambda kept: {name: value for name, value in kept.items() if name not in names}


def renamed(kept):
    return {f"other.{name}": value for name, value in kept.items()}


def narrow(kept):
    return kept | {QUERY: kept[QUERY][:, :16].clone()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change, says", [
    (without(QUERY, "encoder.layer.0.output.dense.bias"), "encoder.layer.0.attention.self.query.weight, encoder.layer.0.output"),
    (renamed, "embeddings.LayerNorm.bias"),
    (narrow, f"{QUERY} [32, 16] for [32, 32]"),
], ids=["missing", "renamed", "narrow"])
def test_missing_weights_are_named_and_not_drawn(models, tally, way, change, says):
    with tally.trial("damaged models"):
        weights(models / "bert", change)
        refused(WAYS[way], models / "bert", says)


def test_weights_of_another_model_are_told(models):
    shutil.copy(models / "table" / WEIGHTS, models / "bert" / WEIGHTS)
    refused(as_encoder, models / "bert", "lacks the weights")
    weights(models / "table", lambda kept: {"other": kept["embedding.weight"]})
    refused(as_encoder, models / "table", f"{WEIGHTS}: lacks embedding.weight; there are other")


def test_a_layer_that_lacks_weights_is_told(models):
    place = dense(models / "bert")
    weights(place, without("linear.bias"))
    refused(as_encoder, models / "bert", "linear.bias")


def test_a_pooler_that_nobody_asks_is_zero_and_no_chance(models):
    "Checkpoints of masked words have none; a vector for a sentence is made of the states of its tokens."
    expected = embed_texts(as_encoder(models / "bert"), ["red lamp", "old table"])
    weights(models / "bert", without("pooler.dense.weight", "pooler.dense.bias"))
    one, other = (as_encoder(models / "bert") for _ in range(2))
    assert encoder_fingerprint(one) == encoder_fingerprint(other)
    assert torch.equal(embed_texts(one, ["red lamp", "old table"]), expected)


def test_a_classifier_that_is_not_there_is_told(models):
    "A cross-encoder whose head would be drawn at random."
    put(models / "bert" / CONFIG, architectures=["BertForSequenceClassification"])
    (models / "bert/modules.json").unlink()
    refused(as_scorer, models / "bert", "lacks the weights", "classifier.weight")


# what is odd

@pytest.mark.parametrize("file, fields, says", [
    (CONFIG, {"num_hidden_layers": 10**6}, "num_hidden_layers is 1000000"),
    (CONFIG, {"hidden_size": 10**9}, "hidden_size is 1000000000"),
    (CONFIG, {"vocab_size": 10**9}, "vocab_size is 1000000000"),
    (CONFIG, {"max_position_embeddings": 10**12}, "max_position_embeddings is 1000000000000"),
    (CONFIG, {"architectures": [1]}, "architectures"),
    (CONFIG, {"architectures": 5}, "architectures"),
    (CONFIG, {"quantization_config": {"quant_method": "x"}}, "quantization_config"),
    (CONFIG, {"attn_implementation": "somebody/kernel"}, "attn_implementation: somebody/kernel is code"),
    (SETTINGS, {"model_args": {"attn_implementation": "somebody/kernel"}}, "attn_implementation: somebody/kernel is code"),
    ("config_sentence_transformers.json", {"prompts": {"query": 7}}, "prompts: query"),
    ("config_sentence_transformers.json", {"prompts": [7]}, "prompts"),
    ("config_sentence_transformers.json", {"default_prompt_name": 7}, "default_prompt_name"),
    ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}, "model_type"),
], ids=lambda value: value if isinstance(value, str) else json.dumps(value))
def test_odd_fields_are_named_soon(models, tally, file, fields, says):
    with tally.trial("damaged models"):
        put(models / "bert" / file, **fields)
        for load in (as_encoder, as_scorer):
            refused(load, models / "bert", f"{file}: {says}")


def test_a_module_with_a_path_that_no_folder_can_have_is_refused(models):
    listed = models / "bert/modules.json"
    modules = json.loads(listed.read_text())
    for path in ("p" * 5000, "p" * 300):
        modules[1]["path"] = path
        listed.write_text(json.dumps(modules))
        for load in WAYS.values():
            assert len(refused(load, models / "bert", "ppp")) < 500


@pytest.mark.parametrize("fields", [{"in_features": 10**6}, {"out_features": 10**12}], ids=json.dumps)
def test_a_layer_wider_than_its_weights_is_not_built(models, fields):
    dense(models / "bert", **fields)
    name, value = next(iter(fields.items()))
    refused(as_encoder, models / "bert", f"2_Dense/config.json: {name} is {value}")


def test_commands_refuse_in_a_sentence(models, tmp_path):
    some_pairs(40).to_csv(tmp_path / "pairs.csv", index=False)
    weights(models / "bert", without(QUERY))
    command = [
        sys.executable, "-m", "debias_nb.repro.cli", "diagnose", "--base", models / "bert", "--tuned", models / "table",
        "--train", tmp_path / "pairs.csv", "--test", f"new={tmp_path / 'pairs.csv'}"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 2, done
    assert QUERY in done.stderr and "Traceback" not in done.stderr


def test_planted_encoders_are_loaded_like_others(tmp_path):
    planted_encoder(STATIC, tmp_path)
    home = next(path for path in tmp_path.iterdir() if path.is_dir())
    put(home / "model/pytorch_model.bin.index.json", weight_map={})
    with pytest.raises(EncoderError, match="a list of pickles"):
        planted_encoder(STATIC, tmp_path)
