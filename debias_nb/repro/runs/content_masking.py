"A later method for authorship, which goes at the texts in place of the loss; the page on it compares it with ARR."
import numpy as np
import torch

from ...losses.authors import ContrastiveAuthorLoss
from ...checks import check_range
from ...encoders.tokens import Tokens, from_features, pooled, tokenize
from ...encoders.interventions import intervene, random_bits, row_keys
from ...processes import unwrapped

KIM = """
@inproceedings{kim2025leveraging,
    title={Leveraging Multilingual Training for Authorship Representation: Enhancing Generalization across Languages and Domains},
    author={Kim, Junghwan and Zhang, Haotian and Jurgens, David},
    booktitle={Proceedings of EMNLP},
    year={2025}
}
"""


class ContentMasking(ContrastiveAuthorLoss):
    """Contrastive loss on texts whose less frequent tokens are masked at random (PCM, after Kim et al. 2025).

    As `ContrastiveAuthorLoss`, on texts in which each ordinary token that is not among the most frequent is masked with
    a probability, drawn again in each step by seed, step and text. A text that would lose every token stays whole. Without
    gradients, as in a test, nothing is masked.

    Parameters
    ----------
    model : SentenceTransformer
        The model that is trained.
    texts : list of str or Tokens
        Training texts, in which tokens are counted.
    temperature : float, above 0
        Temperature τ.
    frequent : int, 0 or more
        Number of different tokens that are never masked, the most frequent in `texts`.
    probability : float, in [0, 1]
        Of each other token to be masked.
    seed : int, 0 or more
        Random seed of the draws.

    Raises
    ------
    ValueError
        For no texts, and settings out of range.

    Examples
    --------
    >>> import torch
    >>> from debias_nb import load_encoder
    >>> from debias_nb.repro.runs.content_masking import ContentMasking
    >>> texts = ["kuzmal fezbum", "fezbum gozbok", "gozbok lazgan", "lazgan rezgen"]
    >>> model = load_encoder("tiny-static")
    >>> loss = ContentMasking(model, texts, frequent=2)
    >>> loss([model.preprocess(texts)], torch.tensor([0, 0, 1, 1])).item() > 0
    True
    """
    citation = KIM

    def __init__(
        self, model, texts, temperature: float = .1, frequent: int = 300, probability: float = .4, seed: int = 0,
    ):
        super().__init__(model, temperature)
        check_range("probability", probability, "[]", 1)
        if frequent < 0:
            raise ValueError(f"frequent must be 0 or more, got {frequent}")
        if isinstance(texts, str) or not len(texts):
            raise ValueError("texts: a list of the training texts is needed, to count tokens in")
        tokens = texts if isinstance(texts, Tokens) else tokenize(unwrapped(model), texts)
        counts = torch.bincount(tokens.ids[tokens.ordinary])
        ranked = counts.argsort(descending=True, stable=True)
        seen = int((counts > 0).sum())
        self.kept = ranked[:min(frequent, seen)]
        self.frequent = frequent
        self.probability = probability
        self.seed = seed

    def masked(self, tokens: Tokens) -> Tokens: # of a batch; another draw after each step
        ids = tokens.ids.cpu()
        ordinary = tokens.ordinary.cpu()
        bits = random_bits(self.seed, len(self.history), row_keys(tokens), ids.shape[1], stream=2)
        drawn = torch.from_numpy((bits >> np.uint64(11)) * 2.**-53 < self.probability)
        content = ordinary & ~torch.isin(ids, self.kept)
        chosen = content & drawn
        rest = ordinary & ~chosen
        chosen &= rest.any(1, keepdim=True)
        return intervene(unwrapped(self.model), tokens, chosen.to(tokens.ids.device))

    def embedded(self, column):
        if not torch.is_grad_enabled():
            return super().embedded(column)
        tokens = from_features(unwrapped(self.model), column)
        return pooled(self.model, self.masked(tokens))

    def get_config_dict(self) -> dict:
        "What the model card says of the loss."
        return {"temperature": self.temperature, "frequent": self.frequent, "probability": self.probability}
