"What the notebook on ITVReg reads and draws: titles of products whose brands mislead, encoders, and their scores."
import copy
import tempfile
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from datasets import Dataset

from ...encoders.tokens import embed_texts
from ...encoders.planted import planted_encoder
from ...settings import EncoderConfig, PretrainConfig, WorldConfig
from ...trainer import QuietTrainer, training_arguments
from ..pages.plots import Picture
from ..pages.printed import load_expected
from ..pages.reading import COLORS, picture, plane
from ...data.worlds import Catalog, strong_world

READABLE = { # role of a word -> names of the field, in the order in which they are given away
    "brand": ["Rowe", "Acme", "Lunex"], "noun": ["wrench", "spanner", "kettle", "lamp"],
    "attribute": ["steel", "chrome", "spoke", "metric", "10-inch", "magnetic", "folding", "red"],
    "filler": ["USA", "bagged", "pro", "new", "set", "pack", "home", "kit"]}

SHORTCUTS = strong_world(
    types=30, unseen_types=15, train_pairs=1500, broad_pairs=8000, queries=150, items=400, accessories=0.)


def reported_titles() -> pd.DataFrame: # method × first result, results that fit, P@1
    "Return the paper's example of a query, with its P@1 on categories of training and on others."
    paper = load_expected("itvreg")
    categories = {"AmazonCatRemoved (IID)": "known categories", "AmazonCatOOD (OOD)": "unseen categories"}
    p1 = paper("table2", method="*", column=list(categories)).unstack().rename(columns=categories)
    methods = ["Base", "Finetuned", "ITVReg"]
    titles = pd.Series({method: paper.lists["table9"].rows[method] for method in methods})
    wrenches = titles.map(lambda found: sum("wrench" in title.lower() for title in found))
    return pd.DataFrame({"first of five": titles.str[0], "of five a wrench": wrenches}).join(p1).astype(object)


class Products:
    "Synthetic products, an encoder trained on all kinds of pairs of them, and three tests of what fine-tuning changes."

    def __init__(self, config: WorldConfig = SHORTCUTS):
        self.seed = config.seed
        self.world = Catalog(config)
        recipe = PretrainConfig(steps=500, batch_size=96, learning_rate=1e-2)
        self.base = planted_encoder(EncoderConfig(name="tiny-static", kind="static", world=config, pretrain=recipe))
        pairs = self.world.labeled_pairs()
        left, right = pairs.texts()
        self.pairs = Dataset.from_dict({"left": left, "right": right, "label": pairs.labels.tolist()})
        self.matches = self.pairs.filter(bool, input_columns="label").remove_columns("label")
        splits = {"in distribution": "iid", "random brands": "uncoupled", "unseen types": "unseen"}
        self.tests = {name: self.world.split(split) for name, split in splits.items()}

    def train(self, make_loss, data: Dataset | None = None, epochs: int = 3, rate: float = .04, **settings):
        "Train a copy of the base encoder with a loss of it, on all pairs or on others; return it and its trainer."
        model = copy.deepcopy(self.base)
        args = training_arguments(
            tempfile.mkdtemp(), num_train_epochs=epochs, per_device_train_batch_size=250, learning_rate=rate,
            seed=self.seed, use_cpu=True, **settings)
        trainer = QuietTrainer(model=model, args=args, train_dataset=data or self.pairs, loss=make_loss(model))
        trainer.train()
        return model.eval(), trainer

    def fine_tune(self, make_loss, *data, **settings):
        "Return the encoder of a training."
        return self.train(make_loss, *data, **settings)[0]

    def precision(self, model) -> dict[str, float]: # test -> percent
        "Measure P@1: how often the first item is relevant."
        return {name: 100 * np.mean([item in hits for item, hits in zip(first_items(model, test), test.relevant)])
                for name, test in self.tests.items()}


class Titles(Products):
    "Titles that name their brand, and few of them the product; in training, each type of product has its own brands."

    def __init__(self, brands: float, seed: int): # brands: the share of matching pairs whose brands agree
        super().__init__(WorldConfig(
            seed=seed, p=1, brand_match=brands, decoys=1, p_noun=.4, p_attr=.8, accessories=0, types=30,
            unseen_types=15, train_pairs=1500, broad_pairs=8000, queries=400, items=1000))
        self.names = {role: iter(words) for role, words in READABLE.items()}
        self.shown_as = {} # word -> the name that a reader sees

    def brand_share(self, model) -> float:
        "Return the brand's share of a title's importance, in percent, over a hundred queries."
        of_queries = [importance(model, query.words) for query in self.tests["in distribution"].queries[:100]]
        return 100 * float(np.mean([of_words[0] / of_words.sum() for of_words in of_queries]))

    def misled_query(self, base, tuned) -> int: # its place in the test with random brands
        "Find the first query that fine-tuning leads from a match to a wrong item of the query's own brand."
        test = self.tests["random brands"]
        firsts = zip(test.queries, test.relevant, first_items(base, test), first_items(tuned, test))
        return next(q for q, (query, hits, base_item, tuned_item) in enumerate(firsts)
                    if base_item in hits and tuned_item not in hits and test.items[tuned_item].brand == query.brand)

    def readable(self, title) -> list[str]:
        "Name each word of a title for readers: the next name of its role."
        for word, role in zip(title.words, title.roles):
            if word not in self.shown_as:
                self.shown_as[word] = next(self.names.get(role, iter(())), word)
        return [self.shown_as[word] for word in title.words]

    def first_results(self, q: int, models: dict) -> pd.DataFrame: # encoder × title, whether it matches
        "Return a query and what each encoder finds first, in readable words."
        test = self.tests["random brands"]
        query = test.queries[q]
        rows = {"query": (" ".join(self.readable(query)), "")}
        for name, model in models.items():
            j = first_items(model, test)[q]
            wrong = "no match, but the query's brand" if test.items[j].brand == query.brand else "no match"
            rows[name] = " ".join(self.readable(test.items[j])), "a match" if j in test.relevant[q] else wrong
        return pd.DataFrame(rows, ["title", "verdict"]).T

    def grid(self) -> tuple[list[str], np.ndarray, np.ndarray]: # titles, and the number of type and brand of each
        "Write titles of three types, each with the first brand of each type."
        kinds = [0, 5, 11] # types of training
        titles, places = [], []
        for kind, maker, n in product(range(3), range(3), range(12)):
            brand = self.world.brands[self.world.brands_of[kinds[maker]][0]]
            attributes = [self.world.attribute_words[slot][0][n % 2] for slot in self.world.slots_of[kinds[kind]]]
            titles.append(" ".join([brand, self.world.nouns[kinds[kind]][n % 4], *attributes, self.world.fillers[n]]))
            places.append((kind, maker))
        return titles, *np.array(places).T


def first_items(model, test) -> list[int]:
    "Return the first item that an encoder finds for each query of a test."
    queries, items = test.texts()
    return (embed_texts(model, queries) @ embed_texts(model, items).T).argmax(1).tolist()


def importance(model, words: list[str]) -> np.ndarray:
    "Return 1 - cosine of the text with and without each word (Section 3.2)."
    shortened = [words[:j] + words[j + 1:] for j in range(len(words))]
    f = embed_texts(model, [" ".join(kept) for kept in [words, *shortened]])
    return 1 - (f[1:] @ f[0]).numpy()


def shared_brand(vectors: torch.Tensor, types: np.ndarray, brands: np.ndarray) -> float:
    "Return how much cosine a shared brand adds to titles of different types."
    cosines = (vectors @ vectors.T).numpy()
    is_other_type, is_same_brand = types[:, None] != types, brands[:, None] == brands
    return float(cosines[is_other_type & is_same_brand].mean() - cosines[is_other_type & ~is_same_brand].mean())


def query_and_scores(titles: Titles, q: int, models: dict, scores: pd.DataFrame) -> Picture:
    "Draw the importance of a query's words beside the P@1 of all queries."
    query = titles.tests["random brands"].queries[q]
    names = [f"{name} ({role})" for name, role in zip(titles.readable(query), query.roles)]
    of_words = pd.DataFrame({name: 100 * importance(model, query.words) for name, model in models.items()}, names)
    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    of_words.plot.barh(
        ax=left, color=COLORS, width=.8, legend=False, title="One query: importance of its words",
        xlabel="importance: 100 · (1 − cosine without the word)")
    left.invert_yaxis()
    left.get_yticklabels()[0].set_color("tab:red")
    scores.T.plot.bar(ax=right, color=COLORS, width=.8, rot=0, title="All queries", ylabel="P@1, %")
    right.legend(frameon=False)
    return picture(fig, "Left: the importance of each word of one query, by encoder. Right: P@1 on three tests")


def angles_of_encoders(
    angles: pd.DataFrame, # encoder × (from f(X) to f(X'), from f0(X) to f(X)), degrees; the base first
) -> Picture:
    "Draw how each encoder has moved a text, and the text without a word."
    fig, axes = plt.subplots(1, len(angles) - 1, figsize=(9, 2.9), layout="constrained")
    start = angles.loc["base"].iloc[0]
    for ax, name in zip(axes, angles.index[1:]):
        angle, moved = angles.loc[name]
        for degrees, label in ((0, "$f_0(X)$"), (start, "$f_0(X')$")):
            plane("0.65", degrees, label if name == "fine-tuned" else "", ax, (1.13, 1.1))
        plane(COLORS[name], moved, "$f(X)$", ax, (1.13, 1.1))
        plane(COLORS[name], moved + angle, "$f(X')$", ax, (1.13, 1.1))
        ax.set(xlim=(-.55, 1.3), ylim=(-.1, 1.2), aspect="equal")
        ax.set_title(f"{name}: angle {start:.0f}° → {angle:.0f}°, moved {moved:.0f}°", fontsize=9)
        ax.axis("off")
    return picture(fig, "The angle between a text and the text without its brand, before and after fine-tuning")


def map_of_brands(
    vectors: dict[str, torch.Tensor],      # encoder -> (n, d)
    types: np.ndarray, brands: np.ndarray, # of each title
) -> Picture:
    "Draw titles by their two principal components: type as color, brand as shape."
    frames = []
    for name, embeddings in vectors.items():
        centered = embeddings - embeddings.mean(0)
        x, y = (centered @ torch.linalg.svd(centered, full_matrices=False).Vh[:2].T).T
        title = f"{name}: a shared brand\nadds {shared_brand(embeddings, types, brands):.2f} to the cosine"
        frames.append(pd.DataFrame({
            "encoder": title, "type": types + 1, "brand": brands + 1, "1st principal component": x.numpy(),
            "2nd principal component": y.numpy()}))
    grid = sns.relplot(
        pd.concat(frames), x="1st principal component", y="2nd principal component", hue="type", style="brand",
        col="encoder", markers=["o", "^", "s"], palette="tab10", s=22, alpha=.8, linewidth=0, height=2.9,
        facet_kws={"subplot_kws": {"aspect": "equal"}})
    grid.set_titles("{col_name}")
    return picture(
        grid.figure, "Titles in two dimensions: in clusters by type in the base encoder, by type and brand if tuned")


def by_strength(
    dial: pd.DataFrame,           # (method, λ) × (tests, the brand's share)
    levels: dict[str, pd.Series], # encoders without a regularizer
) -> Picture:
    "Draw scores over λ."
    fig, axes = plt.subplots(1, 4, figsize=(9.6, 2.5), layout="constrained")
    for ax, column in zip(axes, dial):
        dial[column].unstack("method").plot(ax=ax, style="o-", color=COLORS, ms=4, legend=False)
        for name, style in (("base", ":"), ("fine-tuned", "--")):
            ax.axhline(levels[name][column], color=COLORS[name], ls=style, label=name, zorder=0)
        ax.set(xscale="log", xlabel="λ", title=column, ylim=0, xticks=[.1, 10], xticklabels=["0.1", "10"])
        ax.minorticks_off()
    axes[0].set_ylabel("P@1, %")
    axes[3].set(title="importance of brands", ylabel="share, %")
    axes[0].legend(frameon=False, fontsize=7)
    return picture(fig, "P@1 on three tests and the importance of brands, by method and λ")
