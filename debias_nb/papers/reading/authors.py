"What the notebook on ARR reads and draws: texts of authors who have home topics, encoders, and their scores."
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from datasets import Dataset
from sklearn.feature_extraction.text import TfidfVectorizer

from ...encoders.tokens import embed_texts
from ...losses.author_batches import AuthorPairSampler
from ...losses.authors import topic_bias
from ...settings import AuthorsWorldConfig
from ...trainer import QuietTrainer, training_arguments
from ..pages.plots import Picture
from ..pages.printed import load_expected
from ..pages.reading import picture
from ..tasks.authors import word_table
from ..worlds.planted_authors import author_words, authors_split

READABLE = { # kind of word -> names that readers know, in the order in which they are given away
    "style": "the rather whilst so quite indeed that and but which really just perhaps however of",
    "gardens": "garden roses soil seeds prune lawn spade mulch bloom pots weeds hedge",
    "cars": "engine brakes gears clutch petrol wheels tyres bonnet"}


def reported_r8() -> pd.DataFrame: # method × corpus, percent
    "Return the paper's R@8 across topics."
    corpora = {f"{name} R@8": name for name in ("Amazon", "Reddit", "Fanfiction")}
    cells = load_expected("arr")("table2", method="*", column=list(corpora)).unstack().rename(columns=corpora)
    return cells.loc[["MLL", "MLL + ARR", "CL", "CL + ARR"]].astype(float)


class Authors:
    "Synthetic texts: style is the author's, content the topic's, and in training most texts are on a home topic."

    def __init__(self, seed: int, kappas: tuple[float, ...]): # kappas: how often a text is on its author's home topic
        self.seed = seed
        worlds = {kappa: AuthorsWorldConfig(name="authors", seed=seed, kappa=kappa) for kappa in kappas}
        self.training = {kappa: authors_split(world, "train") for kappa, world in worlds.items()} # the same authors
        splits = {"across topics": "cross", "in distribution": "iid"}
        self.tests = {name: authors_split(worlds[kappas[-1]], split) for name, split in splits.items()}
        self.words = author_words(worlds[kappas[-1]])
        self.style = set(self.words.style)

    def encoder(self):
        "Make a static embedding model with random vectors, one for each word."
        return word_table([*self.words.style, *self.words.content], 64, np.random.default_rng(self.seed))

    def train(self, make_loss, texts):
        "Train an encoder with a loss of it, on pairs of texts by one author."
        model = self.encoder()
        args = training_arguments(
            tempfile.mkdtemp(), num_train_epochs=6, per_device_train_batch_size=64, learning_rate=.01, seed=self.seed,
            use_cpu=True, batch_sampler=AuthorPairSampler)
        data = Dataset.from_dict({"text": texts.text, "label": author_numbers(texts)})
        QuietTrainer(model=model, args=args, train_dataset=data, loss=make_loss(model)).train()
        return model.eval()

    def scores(self, model) -> dict[str, float]:
        "Measure R@8 of both tests, and how many of the eight nearest are on the query's topic."
        return self._scores({name: cosines(model, texts) for name, texts in self.tests.items()})

    def scores_of_style_words(self, texts) -> dict[str, float]:
        "Measure the same of the style words of texts, counted."
        style = TfidfVectorizer(vocabulary=sorted(self.style), token_pattern=r"\S+", lowercase=False).fit(texts.text)
        counts = {name: style.transform(test.text) for name, test in self.tests.items()}
        return self._scores({name: (counted @ counted.T).toarray() for name, counted in counts.items()})

    def _scores(self, by_test: dict[str, np.ndarray]) -> dict[str, float]: # by_test: cosines
        row = {}
        for name, texts in self.tests.items():
            row[f"R@8 {name}"], row[f"on the topic {name}"] = nearest(by_test[name], texts)
        return row

    def misled_query(self, by_kappa: dict[float, np.ndarray]) -> tuple[int, int, int]: # by_kappa: cosines
        "Find a text A, B by its author, C on its topic: of two teachers, the first has B nearer to A, the second C."
        texts = self.tests["across topics"]
        first, second = by_kappa.values()
        for a in range(0, 600, 6):
            b, c = a + 1, next(j for j in range(a + 6, 1200) if texts.topic[j] == texts.topic[a])
            if (texts.topic[b] != texts.topic[a] and first[a, b] - first[a, c] > .1
                    and second[a, b] - second[a, c] < -.1):
                return a, b, c
        raise ValueError("no text is misled: change the seed")


def author_numbers(texts) -> list[int]:
    "Return the number of each text's author, from 0."
    return np.unique(texts.author, return_inverse=True)[1].tolist()


def cosines(model, texts) -> np.ndarray:
    "Return the cosines of texts with each other."
    vectors = embed_texts(model, texts.text).numpy()
    return vectors @ vectors.T


def nearest(similarities: np.ndarray, texts) -> tuple[float, float]:
    "Return R@8 (a text of the author among the eight nearest), and how many of the eight share the topic; percent."
    query = np.arange(len(texts.author)) % 6 < 3 # half of each author's six texts
    order = np.argsort(-similarities[query][:, ~query], axis=1, kind="stable")[:, :8]
    author, topic = np.array(texts.author), np.array(texts.topic)
    of_author = author[~query][order] == author[query][:, None]
    on_topic = topic[~query][order] == topic[query][:, None]
    return 100 * of_author.any(1).mean(), 100 * on_topic.mean()


def mean_bias(texts, temperature: float) -> float:
    "Return B, the mean over the batches of one pass over the authors."
    labels = torch.tensor(author_numbers(texts))
    counted = TfidfVectorizer().fit_transform(texts.text)
    biases = []
    for rows in AuthorPairSampler(Dataset.from_dict({"label": labels.tolist()}), 64, drop_last=True):
        similarities = torch.from_numpy((counted[rows] @ counted[rows].T).toarray().astype("float32"))
        biases.append(float(topic_bias(similarities, labels[rows], temperature)))
    return np.mean(biases)


def two_by_each(labels: np.ndarray, topics: np.ndarray) -> np.ndarray: # (8,) places in the batch
    "Choose two texts by each of four authors; two of the authors write about one topic, the others each about another."
    pairs = [np.flatnonzero(labels == author)[:2] for author in dict.fromkeys(labels.tolist())]
    pairs = [pair for pair in pairs if len(pair) == 2 and topics[pair[0]] == topics[pair[1]]]
    common = max(dict.fromkeys(topics.tolist()), key=[topics[pair[0]] for pair in pairs].count)
    on_it = [pair for pair in pairs if topics[pair[0]] == common]
    return np.concatenate(on_it[:2] + [pair for pair in pairs if topics[pair[0]] != common][:2])


def texts_and_topics(
    authors: Authors,
    chosen: tuple[int, int, int], # A, B, C
    by_kappa: pd.DataFrame,
) -> Picture:
    "Draw three texts by their words, and what training on home topics does."
    texts = authors.tests["across topics"]
    names = {kind: iter(words.split()) for kind, words in READABLE.items()}
    shown_as = {} # word -> the name that a reader sees
    headings = ["A, the query: author 1, on gardens", "B: the same author, on cars",
                "C: another author, on gardens"]
    fig, (ax, right) = plt.subplots(1, 2, figsize=(9.2, 2.7), width_ratios=[2, 1], layout="constrained")
    for row, (place, heading) in enumerate(zip(chosen, headings)):
        ax.text(0, -3 * row, heading, weight="bold")
        start = 0
        for word in texts.text[place].split()[:10]:
            kind = "style" if word in authors.style else heading.split()[-1]
            if word not in shown_as:
                shown_as[word] = next(names[kind]) if word.isalpha() else word
            color = "tab:blue" if kind == "style" else "tab:orange"
            ax.text(start, -3 * row - 1.2, shown_as[word], color=color, family="monospace", fontsize=9)
            start += len(shown_as[word]) + 1
    ax.set(xlim=(0, 68), ylim=(-7.8, 1))
    ax.axis("off")
    for column, color, name in (("R@8 across topics", "tab:blue", "authors found (R@8)"),
                                ("on the topic across topics", "tab:orange", "neighbors on the topic")):
        right.plot(by_kappa.index, by_kappa[column], "o-", color=color, label=name)
    right.set(xlabel="κ in training", ylabel="%, test across topics", ylim=(0, 80), xticks=by_kappa.index)
    right.legend(frameon=False, loc="lower right")
    return picture(fig, "Left: three texts, style words blue and content words orange. Right: with more home topics in "
                        "training, fewer authors are found and more neighbors share the topic")


def targets_of_one(
    targets: dict[float, np.ndarray], # B -> target of the nearest texts
    warmer: dict[float, np.ndarray],  # B -> softmax at τ / (1 - B)
    is_author: np.ndarray,
    biases: pd.DataFrame,             # κ × τ
) -> Picture:
    "Draw the target of one text at several B, and B by κ and τ."
    fig, axes = plt.subplots(1, 4, figsize=(9.6, 2.6), layout="constrained", width_ratios=[1, 1, 1, 1.2])
    for ax, (strength, shares) in zip(axes, targets.items()):
        ax.bar(range(8), shares, color=np.where(is_author, "tab:blue", "0.75"))
        ax.plot(range(8), warmer[strength], "k.", label="softmax at τ / (1 − B)")
        ax.set(ylim=(0, .7), xticks=[], title=f"B = {strength:.2f}", xlabel="the 8 nearest of the batch")
    axes[0].set_ylabel("target $S_{ij}$ of one text")
    axes[1].set_yticklabels([]), axes[2].set_yticklabels([])
    axes[2].legend(frameon=False)
    for tau in biases:
        axes[3].plot(biases.index, biases[tau], "o-", ms=4, label=f"τ = {tau}")
    axes[3].set(xlabel="κ in training", title="B by κ and τ", xticks=biases.index)
    axes[3].legend(frameon=False, fontsize=8)
    return picture(fig, "ARR's target of one text at three B; dots of a softmax at a higher temperature lie on bars")


def shares_of_pairs(maps: dict[str, torch.Tensor]) -> Picture: # (8, 8) each: two texts by each of four authors
    "Draw matrices of shares side by side."
    names = [f"{author}{n}" for author in "abcd" for n in (1, 2)]
    fig, axes = plt.subplots(1, len(maps), figsize=(9.2, 3.1), layout="constrained")
    for ax, (name, shares) in zip(axes, maps.items()):
        sns.heatmap(shares, vmin=0, vmax=.8, cmap="Blues", cbar=ax is axes[-1], square=True,
                    xticklabels=names, yticklabels=names, ax=ax)
        ax.set_title(name)
    return picture(fig, "Shares of pairs of eight texts: the teacher's, TF-IDF's, and ARR's target, a paler teacher")


def by_bias(
    dial: pd.DataFrame,       # B × columns of scores
    references: pd.DataFrame, # teacher, ARR, product of experts
    bias: float,              # of ARR, a mean
) -> Picture:
    "Draw students over a fixed B beside what they are compared with."
    fig, axes = plt.subplots(1, 3, figsize=(9.2, 2.7), layout="constrained")
    titles = {
        "R@8 across topics": "authors found across topics",
        "R@8 in distribution": "authors found in distribution",
        "on the topic across topics": "neighbors on the topic",
    }
    for ax, (column, title) in zip(axes, titles.items()):
        ax.plot(dial.index, dial[column], "o-", color="tab:blue", label="student at fixed B")
        ax.plot(bias, references.loc["ARR", column], "D", color="tab:red", label="ARR (at its mean B)")
        ax.axhline(references.loc["teacher", column], color="0.5", ls="--", label="teacher")
        ax.axhline(references.loc["product of experts, γ = 1.0", column], color="tab:green",
                   label="product of experts, γ = 1")
        ax.set(ylim=(0, 100), xlabel="B", title=title)
    axes[0].set_ylabel("%")
    axes[0].legend(frameon=False, fontsize=8, loc="upper right")
    return picture(fig, "Students at fixed B, ARR, its teacher, and a product of experts, on three measures")
