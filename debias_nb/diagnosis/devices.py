"Texts encoded by several models here, or by one in several processes or on several GPUs."
from contextlib import contextmanager
from dataclasses import replace

import torch

from ..checks import ConfigError, EncoderError, check_known
from ..encoders.kinds import device_of
from ..encoders.loading import present_devices
from ..encoders.tokens import embed, tokenize

ENDED = (
    "devices: a process that encodes has ended, as where memory runs out: name fewer devices. "
    'In a script the call belongs below `if __name__ == "__main__":`, since each process imports the script')


def check_devices(devices) -> tuple[str, ...]:
    "Check that there are such devices. Raise `ConfigError`."
    for device in devices:
        check_known("device", device, present_devices(), ConfigError)
    return tuple(devices)


def encode_block(
    models: list, # which cut texts alike
    texts: list[str],
    prompt: str,  # before each text
) -> list[torch.Tensor]: # (n, d) of each model, unit vectors if it compares by cosine
    "Encode texts with each model; they are cut into tokens once."
    tokens = tokenize(models[0], texts, prompt=prompt)
    return [embed(model, tokens, unit=model.similarity_fn_name == "cosine") for model in models]


@contextmanager
def started(scorers: dict): # name -> `Scorer`; yields them with processes that wait for texts, where they have devices
    "Start the processes of scorers for a block in which each encodes several times, and end them behind it."
    homes = {name: device_of(scorer.model) for name, scorer in scorers.items()}
    pools = {name: scorer.model.start_multi_process_pool([*scorer.devices]) for name, scorer in scorers.items()
             if scorer.devices}
    try:
        yield {name: replace(scorer, pool=pools.get(name)) for name, scorer in scorers.items()}
    finally:
        for name, pool in pools.items():
            scorers[name].model.stop_multi_process_pool(pool)
            scorers[name].model.to(homes[name])


def encode_on(
    scorer, # a `Scorer` with devices
    texts: list[str], prompt: str,
    block: int, # texts at a time
) -> torch.Tensor: # (n, d)
    """Encode texts with one process for each device.

    Raise `EncoderError` for what a process cannot do, and where one has ended."""
    model, devices = scorer.model, scorer.devices
    home = device_of(model)
    places = {"pool": scorer.pool} if scorer.pool else {"device": [*devices]}
    try:
        vectors = model.encode(
            texts, prompt=prompt, **places, chunk_size=block, convert_to_tensor=True, show_progress_bar=False,
            normalize_embeddings=model.similarity_fn_name == "cosine")
    except RuntimeError as e:
        is_lost = "died" in str(e) or "bootstrapping" in str(e)
        raise EncoderError(ENDED if is_lost else f"devices: {', '.join(devices)}: {e}") from None
    except MemoryError as e:
        raise EncoderError(f"devices: {', '.join(devices)}: {type(e).__name__}: {e}") from None
    finally:
        model.to(home) # from where its weights were shared
    return vectors.float().cpu()
