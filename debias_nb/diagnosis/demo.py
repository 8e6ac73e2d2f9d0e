"""A small world with a planted shortcut, an encoder that learns it, and the page that shows it."""
import pandas as pd
from numpy.random import default_rng

from .diagnose import Diagnosis, diagnose
from .methods import read_method, settings_for, tune
from .models import load_model
from .pairs import read_pairs_file

BRANDS = "acme bolt coda dune echo flux gale husk iris jade kite luna".split()
THINGS = (
    "lamp chair table kettle clock shelf mirror basket desk rug vase bench fan stool sofa bed tray bowl cup jug "
    "toaster blender drill hammer saw ladder tent bike helmet glove").split()
SORTS = "red blue green black small large old new plain round tall light".split()


def offers(pairs: int, seed: int, brand_of_match: float, brand_of_other: float) -> pd.DataFrame: # left, right, label
    "Make pairs of offers, a third of them matches; matches and other pairs share the brand with these probabilities."
    rng = default_rng(seed)
    rows = []
    for number in range(pairs):
        label = int(number % 3 == 0)
        thing, other_thing = rng.choice(THINGS, 2, replace=False)
        brand, other_brand = rng.choice(BRANDS, 2, replace=False)
        sorts = rng.choice(SORTS, 4)
        shares = rng.random() < (brand_of_match if label else brand_of_other)
        left = f"{sorts[0]} {sorts[1]} {thing} {brand}"
        right = f"{sorts[2]} {sorts[3]} {thing if label else other_thing} {brand if shares else other_brand}"
        rows.append((left, right, label))
    return pd.DataFrame(rows, columns=["left", "right", "label"])


def small_encoder(seed: int = 0):
    "Make a static embedding model in which brands weigh little."
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers
    words = ["[UNK]", *BRANDS, *THINGS, *SORTS]
    width = 16
    vectors = default_rng(seed).normal(size=(len(words), width)) / width**.5
    vectors[[words.index(brand) for brand in BRANDS]] *= .4
    vectors[[words.index(sort) for sort in SORTS]] *= .6
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    table = StaticEmbedding(tokenizer, embedding_weights=vectors.astype("float32"))
    return SentenceTransformer(modules=[table], device="cpu")


def demo(seed: int = 0, progress: bool = False) -> Diagnosis:
    "Fine-tune a small encoder on a shop whose brands mislead on new data, and diagnose it."
    train = offers(1500, seed + 1, 1, 0)
    tests = {"like": offers(1500, seed + 2, 1, 0), "new": offers(1500, seed + 3, .2, .4)}
    base = load_model(small_encoder(seed))
    settings = settings_for("static", learning_rate=.05, epochs=3, batch_size=50)
    tuned = tune(base, read_pairs_file(train, name="train"), read_method("plain"), settings, seed)
    return diagnose(base.model, tuned.model, train, tests, seed=seed, progress=progress)
