"Base encoders on published question pairs: figures of an independent script, which the library must give too."

import numpy as np
import pytest

from debias_nb.settings import EncoderConfig
from debias_nb.data.registry import MissingData
from debias_nb.encoders.tokens import EncoderError
from debias_nb.encoders.loading import load_encoder
from debias_nb.measures.metrics import evaluate_pairs
from debias_nb.papers.data.labeled_pairs import evaluation_pairs
from debias_nb.papers.tasks.pairs import score

pytestmark = pytest.mark.published

EXPECTED = { # AUC(0.05), percent
    ("potion-base-2M", "askubuntu"): 44.38,
    ("potion-base-2M", "quora"): 13.99,
    ("m2v-bge-base-64d-vq128", "askubuntu"): 27.38,
    ("m2v-bge-base-64d-vq128", "quora"): 6.86,
}
TOLERANCE = .01 # the figures have two decimals


def static(name):
    return EncoderConfig(name=name, kind="static", max_length=32)


def load_pair(name, forum):
    try:
        return load_encoder(static(name)), evaluation_pairs(forum, None, None)
    except (EncoderError, MissingData) as e:
        pytest.skip(str(e).splitlines()[0])


@pytest.mark.parametrize("name, forum", EXPECTED)
def test_auc05_of_the_base_encoder(name, forum):
    model, pairs = load_pair(name, forum)
    values, replicates = evaluate_pairs(pairs.labels, score(model, pairs, static(name)), name=forum)
    expected = EXPECTED[name, forum]
    spread = 100 * np.std(replicates["auc05"])
    assert abs(100 * values["auc05"] - expected) < TOLERANCE
    assert abs(100 * np.mean(replicates["auc05"]) - expected) < 3 * spread
