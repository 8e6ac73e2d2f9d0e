"Which weights of an encoder are trained: all, those above frozen layers, or adapters that are merged later."
from contextlib import contextmanager

import torch

from ..checks import ConfigError, EncoderError
from ..processes import unwrap
from .kinds import is_static


@contextmanager
def trained_part(
    model,
    seed: int,                 # of the first values of adapters
    frozen: int | None = None, # the lowest layers that stay as they are; None: none
    rank: int | None = None,   # of adapters (LoRA) in place of the weights; None: no adapters
    alpha: int = 8,            # of adapters: peft's default
):
    """Let only a part of a model take gradients inside the block.

    Raise `ConfigError` or `EncoderError` for what cannot be trained so.
    """
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    adapters = None
    if rank is not None:
        adapters = with_adapters(model, rank, alpha, seed)
    elif frozen is not None:
        freeze(model, frozen)
    try:
        yield
    finally:
        if adapters:
            adapters.merge_and_unload()
        for weight in weights:
            weight.requires_grad_(True)


def layers_of(model, count: int, setting: str) -> torch.nn.ModuleList:
    "Return all layers of a transformer. Raise `EncoderError` for a static model, and for one with fewer layers."
    if is_static(model):
        raise EncoderError(f"`{setting}` belongs to transformers, and a static embedding model has no layers")
    transformer = unwrap(model)[0].auto_model
    total = transformer.config.num_hidden_layers
    if count > total:
        raise EncoderError(f"`{setting}` is {count}, and the encoder has {total} layers")
    lists = (part for part in transformer.modules() if isinstance(part, torch.nn.ModuleList))
    layers = next((part for part in lists if len(part) == total), None)
    if layers is None:
        raise EncoderError(f"`{setting}`: a {type(transformer).__name__} keeps no list of its layers")
    return layers


def freeze(model, count: int) -> None: # count: of layers
    "Freeze the embeddings of a transformer and its lowest layers. Dropout there stays on in training."
    layers = layers_of(model, count, "frozen_layers")
    if count == len(layers):
        raise ConfigError(f"`frozen_layers` is {count}: those are all layers, and nothing is left to train")
    for part in (model[0].auto_model.embeddings, *layers[:count]):
        part.requires_grad_(False)


def adapters_package():
    "Import peft. Raise `ConfigError` if it is not installed."
    try:
        import peft
    except ImportError:
        raise ConfigError("`lora` needs the package peft: pip install peft") from None
    return peft


def with_adapters(model, rank: int, alpha: int, seed: int):
    "Add adapters to a transformer and freeze its own weights; return the `peft.PeftModel`."
    layers_of(model, 1, "lora")
    peft = adapters_package()
    settings = peft.LoraConfig(r=rank, lora_alpha=alpha)
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        try:
            return peft.get_peft_model(model[0].auto_model, settings)
        except ValueError as e: # a kind of transformer for which peft has no default
            raise EncoderError(f"`lora`: {e}") from None
