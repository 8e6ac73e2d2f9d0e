"Weights between base and fine-tuned encoder."
from typing import TYPE_CHECKING

import torch

from ..checks import check_range
from ..encoders.kinds import check_model, check_same_make, deep_copy, has_adapter

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def refuse_adapters(
    name: str, # for the message
    model,     # a SentenceTransformer
) -> None:
    """Check that PEFT has put no adapter around a layer: a mixture of its factors is no mixture of the weights.

    Raises `ValueError`.
    """
    if has_adapter(model):
        raise ValueError(f"{name} has an adapter: merge the adapter first (PEFT's `merge_and_unload`)")


def wise_ft(base: "SentenceTransformer", tuned: "SentenceTransformer", share: float) -> "SentenceTransformer":
    r"""Interpolate between base and fine-tuned weights (WiSE-FT, Wortsman et al. 2022).

    $$\theta_\alpha = (1 - \alpha) \theta_0 + \alpha \theta$$

    All else is that of the tuned encoder: its limit of tokens, its pooling, its prompts, its device. It may be any of
    the four types of models of sentence-transformers, whose own `merge` averages several.

    Parameters
    ----------
    base : SentenceTransformer
        The base encoder.
    tuned : SentenceTransformer
        A tuned copy of it.
    share : float, in [0, 1]
        α; 0 gives the base weights, 1 the tuned ones.

    Returns
    -------
    SentenceTransformer
        A new encoder, in evaluation mode.

    Raises
    ------
    ValueError
        For a share outside [0, 1], encoders of different make, an adapter that is not merged.

    Examples
    --------
    >>> from debias_nb import load_encoder, wise_ft
    >>> base, tuned = load_encoder("tiny-static"), load_encoder("tiny-static")
    >>> wise_ft(base, tuned, share=.5).encode(["kuzmal"]).shape
    (1, 128)
    """
    check_range("share", share, high=1, closed="both")
    check_model("base", base)
    check_model("tuned", tuned)
    refuse_adapters("base", base)
    refuse_adapters("tuned", tuned)
    check_same_make(base, tuned)
    start = base.state_dict()
    weights = {}
    for name, end in tuned.state_dict().items():
        weights[name] = end # whole numbers are the tuned encoder's
        if end.is_floating_point():
            base_weight = start[name].to(end.device)
            weights[name] = torch.lerp(base_weight.float(), end.float(), share).to(end.dtype)
    encoder = deep_copy(tuned)
    encoder.load_state_dict(weights)
    return encoder.eval()
