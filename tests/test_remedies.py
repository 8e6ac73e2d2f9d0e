"What practitioners do against forgetting, as settings of runs: a part of the layers, adapters, other losses beside the loss."
import pytest
import torch

from debias_nb.config import EncoderConfig, EncoderError
from debias_nb.encoders import embed_texts, encoder_fingerprint, token_vectors, tokenise
from debias_nb.loading import load_encoder
from debias_nb.repro.config import RunConfig
from debias_nb.repro.runs.tasks.common import stand_in

TINY = stand_in(EncoderConfig(name="minilm", kind="transformer"))
TEXTS = ["kuzmal fezbum gozbok", "lazgan"]


def run_of(encoder, **method):
    return RunConfig(
        paper="itvreg", experiment="x", profile="planted", encoder=encoder, method={"name": "x"} | method, evaluate=["iid"])


# the first layers

def first_of(config, count):
    return config.model_copy(update={"first_layers": count})


def test_the_first_layers_alone_give_what_the_whole_encoder_has_there():
    whole, first = load_encoder(TINY), load_encoder(first_of(TINY, 1))
    transformer = whole[0].auto_model
    tokens = tokenise(whole, TEXTS)
    with torch.no_grad():
        read = transformer(tokens.ids, tokens.mask.long(), output_hidden_states=True)
        found = token_vectors(first, tokens)
    assert len(read.hidden_states) == 3 and torch.allclose(found, read.hidden_states[1], atol=1e-6)
    assert not torch.allclose(embed_texts(first, TEXTS), embed_texts(whole, TEXTS), atol=1e-3)
    everything = load_encoder(first_of(TINY, 2))
    assert encoder_fingerprint(everything) == encoder_fingerprint(whole) != encoder_fingerprint(first)


def test_an_encoder_of_the_first_layers_is_saved_and_read_as_one(tmp_path):
    from sentence_transformers import SentenceTransformer
    first = load_encoder(first_of(TINY, 1))
    first.save(str(tmp_path), create_model_card=False)
    read = SentenceTransformer(str(tmp_path), device="cpu")
    assert encoder_fingerprint(read) == encoder_fingerprint(first)


def test_first_layers_are_told_by_label_and_id():
    whole = EncoderConfig(name="minilm", kind="transformer")
    assert [first_of(whole, count).display for count in (None, 1, 2)] == [
        "minilm", "minilm, first 1 layer", "minilm, first 2 layers"]
    assert EncoderConfig(name="minilm", kind="transformer", first_layers=2, label="two").display == "two"
    assert run_of(first_of(whole, 2)).id != run_of(whole).id


def test_layers_that_are_not_there_are_refused():
    with pytest.raises(EncoderError, match="`first_layers` is 3, and the encoder has 2 layers"):
        load_encoder(first_of(TINY, 3))
    for kind in ({"kind": "static"}, {"kind": "cross"}):
        with pytest.raises(ValueError, match="`first_layers` belongs to transformers"):
            EncoderConfig(name="x", first_layers=2, **kind)
