"Which weights of an encoder a method trains: all of them, or those above frozen layers."
from contextlib import contextmanager

from debias_nb.config import ConfigError
from debias_nb.encoders import layers_of


@contextmanager
def trained_part(model, method): # method: a `MethodConfig`
    "Inside, only what a method trains takes a gradient. Raises `EncoderError` and `ConfigError` for layers that are not there."
    if method.frozen_layers is None:
        yield
        return
    weights = lowest_weights(model, method.frozen_layers)
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)


def lowest_weights(model, count: int) -> list: # count: of layers
    "The weights of a transformer's embeddings and of its lowest layers. Dropout there stays on in training."
    layers = layers_of(model, count, "frozen_layers")
    if count == len(layers):
        raise ConfigError(f"`frozen_layers` is {count}: those are all layers, and nothing is left to train")
    parts = [model[0].auto_model.embeddings, *layers[:count]]
    return [weight for part in parts for weight in part.parameters()]
