"What the notebook on SCAN reads and draws: two small data sets, pairs of question and answer, and their scores."
import functools
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from sentence_transformers.cross_encoder import CrossEncoder
from sklearn.linear_model import LogisticRegression
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast # pyrefly: ignore[missing-module-attribute]

from ..pages.plots import Picture
from ..pages.reading import picture, plane

# Two small data sets: a label, its cause, a shortcut, and four features of noise.

GRAPHS = { # data set -> what causes what; a line without a direction is a correlation
    "A": [("cause", "label", "-"), ("cause", "shortcut", "--")],
    "B": [("label", "cause", "-"), ("label", "shortcut", "-")],
}


def sample(kind: str, n: int = 700, rho: float = .8, seed=0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    "Draw features (n, 6), labels, and the labels that the shortcut suggests; rho 0 is the test."
    rng = np.random.default_rng(seed)
    if kind == "A":
        cause, noise = rng.normal(size=(2, n))
        shortcut = rho * cause + (1 - rho**2)**.5 * noise
        label, suggested = cause > 0, shortcut > 0
    else:
        label = rng.random(n) < .5
        suggested = np.where(rng.random(n) < (1 + rho) / 2, label, ~label)
        cause = 2 * label - 1 + .8 * rng.normal(size=n)
        shortcut = 2 * suggested - 1 + .5 * rng.normal(size=n)
    x = np.column_stack([cause, shortcut, rng.normal(size=(n, 4))])
    return torch.tensor(x, dtype=torch.float32), torch.tensor(label).long(), torch.tensor(suggested).long()


def pooled() -> torch.Tensor: # (140, 768) in (-1, 1), correlated
    "Draw features as a pooler might give them."
    rng = np.random.default_rng(1)
    latent = rng.normal(size=(140, 8)) @ rng.normal(size=(8, 768)) / 8**.5
    noise = rng.normal(size=(140, 768))
    return torch.tensor(np.tanh(latent + .5 * noise), dtype=torch.float32)


def equal(x, label, suggested, seed):
    "Weight every sample by one."
    return torch.ones(len(x))


@functools.cache
def weights(kind: str, weigh, seed: int, **options) -> torch.Tensor: # weigh: of a sample and a seed
    "Weight the training sample of a data set."
    return weigh(*sample(kind, seed=[seed, 0]), seed, **options)


def accuracy(kind: str, weigh, seed: int = 0, C: float = .01, **options) -> float: # noqa: N803
    "Test a logistic head trained on a weighted sample, in percent; small C: far from convergence."
    train, test = sample(kind, seed=[seed, 0]), sample(kind, 4000, rho=0, seed=[seed, 1])
    w = weights(kind, weigh, seed, **options)
    mean, scale = train[0].mean(0), train[0].std(0)
    head = LogisticRegression(C=C, max_iter=1000).fit((train[0] - mean) / scale, train[1], sample_weight=w)
    return 100 * head.score((test[0] - mean) / scale, test[1])


def mean_accuracy(kind: str, weigh, **options) -> float:
    "Return the mean accuracy over three samples."
    return np.mean([accuracy(kind, weigh, seed, **options) for seed in range(3)])


# Pairs of a question and an answer, whose first word is a shortcut.

MONTHS = "january february march april may june july august".split()
CITIES = "paris london berlin rome madrid vienna oslo prague".split()
THINGS = "bridge museum school station".split()
VOCABULARY = "[PAD] [UNK] [CLS] [SEP] [MASK] yes no when did the open it opened in".split() + MONTHS + CITIES + THINGS
SHAPE = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
    max_position_embeddings=24, num_labels=1) # pyrefly: ignore[unexpected-keyword]
TOKENIZER = BertTokenizerFast(vocab={word: i for i, word in enumerate(VOCABULARY)}, model_max_length=24)


def pairs(n: int, agrees: float, seed: int) -> dict[str, list]:
    "Draw pairs: a month is right and a city wrong, and yes or no goes with the label this often."
    rng = np.random.default_rng(seed)
    label = rng.random(n) < .5
    said = np.where(rng.random(n) < agrees, label, ~label)
    questions = [f"when did the {rng.choice(THINGS)} open" for _ in label]
    answers = [f"{'yes' if yes else 'no'} it opened in {rng.choice(MONTHS if right else CITIES)}"
               for right, yes in zip(label, said)]
    return {"question": questions, "answer": answers, "label": label.astype(float).tolist()}


TESTS = {"in distribution": pairs(400, .95, 1), "shifted": pairs(400, .05, 2)}
RULES = { # what a rule looks for -> its score, above 0 for right
    "looks for yes": lambda test: np.array([answer.startswith("yes") for answer in test["answer"]]) - .5,
    "looks for a month": lambda test: np.array([answer.split()[-1] in MONTHS for answer in test["answer"]]) - .5,
}


def cross_encoder() -> CrossEncoder:
    "Make a random transformer of one layer."
    folder = tempfile.mkdtemp()
    torch.manual_seed(0)
    BertForSequenceClassification(SHAPE).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return CrossEncoder(folder, num_labels=1, device="cpu")


def logits(model: CrossEncoder, test: dict[str, list]) -> np.ndarray:
    "Score pairs of question and answer."
    return model.predict(list(zip(test["question"], test["answer"])), activation_fn=torch.nn.Identity())


def accuracies(score) -> dict[str, float]: # score: of a test's pairs, above 0 for right
    "Measure accuracy on both tests, in percent."
    return {name: 100 * np.mean((score(test) > 0) == np.array(test["label"])) for name, test in TESTS.items()}


# Pictures.

def causal_graph(ax, arrows: list[tuple[str, str, str]]) -> None: # from, to, line style
    "Draw what causes what among label, cause and shortcut."
    places = {"label": (.5, .85), "cause": (.15, .2), "shortcut": (.82, .2)}
    for start, end, line in arrows:
        kind = "-" if line == "--" else "-|>"
        ax.annotate("", places[end], places[start], arrowprops=dict(
            arrowstyle=kind, ls=line, color="0.2", shrinkA=18, shrinkB=20, lw=1.3))
    for name, place in places.items():
        ax.text(*place, name, ha="center", va="center")
    ax.axis("off")


DRAWN = 60 # of a sample: each is a shape of its own in the file


def weighted_samples(ways: dict) -> Picture: # name -> weights of a sample; the second is drawn as sizes of dots
    "Draw for both data sets what causes what, a sample as large as its weights, and what each kind of weights gives."
    fig, axes = plt.subplots(2, 3, figsize=(9, 4.8), width_ratios=[.8, 1.2, 1], layout="constrained")
    drawn = list(ways)[1]
    for (left, ax, right), (kind, arrows) in zip(axes, GRAPHS.items()):
        causal_graph(left, arrows)
        left.set_title(f"{kind}: what causes what", weight="bold")
        x, label, _ = sample(kind, seed=[0, 0])
        colors = np.where(label[:DRAWN], "tab:red", "tab:blue")
        ax.scatter(*x[:DRAWN, :2].T, s=12 * weights(kind, ways[drawn], 0)[:DRAWN], c=colors, linewidths=0, alpha=.8)
        ax.set(xlim=(-3, 3), ylim=(-3, 3), xlabel="cause", ylabel="shortcut", title=f"{kind}: {drawn} weights")
        scores = [mean_accuracy(kind, weigh) for weigh in ways.values()]
        bars = right.barh(list(ways), scores, color=["0.65", "tab:blue", "tab:green"])
        right.bar_label(bars, fmt="%.0f%%", padding=3)
        right.set(xlim=(50, 100), title=f"{kind}: right in the test", xlabel="%, chance is 50")
        right.invert_yaxis()
    return picture(fig, "In data set A learned weights are as good as the oracle, in B as equal weights")


def correlation_maps(
    correlations: dict[str, np.ndarray], # kind of weights -> (n, n)
    names: list[str],
) -> Picture:
    "Draw correlations under several weights."
    fig, axes = plt.subplots(1, len(correlations), figsize=(8.6, 2.7), layout="constrained")
    for ax, (name, matrix) in zip(axes, correlations.items()):
        sns.heatmap(abs(matrix), vmin=0, vmax=1, cmap="Blues", annot=matrix, fmt=".2f", cbar=False, square=True,
                    xticklabels=names, yticklabels=names, ax=ax)
        ax.set_title(f"{name} weights")
    return picture(fig, "Correlations of cause, shortcut, noise and label in B, under three kinds of weights")


def by_penalty(
    dial: pd.DataFrame,                # penalty × remaining dependence, sample size, accuracy in A and B
    at_equal: dict[str, float],        # data set -> accuracy
    by_head: dict[str, list[float]], strengths: tuple[float, ...], # kind of weights -> accuracy at each C
) -> Picture:
    "Draw what the penalty on uneven weights does."
    fig, axes = plt.subplots(1, 4, figsize=(9.8, 2.5), layout="constrained")
    axes[0].plot(dial[["learned", "shuffled"]], "o-", ms=4, label=["learned", "shuffled"])
    axes[0].set(title="remaining dependence", ylim=(0, 1.5), ylabel="of that at equal weights")
    axes[1].plot(dial["sample size"], "o-", ms=4, color="0.4")
    axes[1].set(title="effective sample size, %", ylim=(0, 105))
    for kind, color in zip(at_equal, ("tab:green", "tab:purple")):
        axes[2].plot(dial[kind], "o-", ms=4, color=color, label=f"{kind}, learned")
        axes[2].axhline(at_equal[kind], color=color, ls="--", lw=1)
    axes[2].set(title="accuracy in the test, %", ylim=(60, 101))
    for name, scores in by_head.items():
        axes[3].plot(strengths, scores, "o-", ms=4, label=name)
    axes[3].set(title="A: accuracy by head, %", ylim=(60, 101), xlabel="C of the head")
    for ax in axes:
        ax.set(xscale="log")
        ax.minorticks_off()
    for ax in axes[:3]:
        ax.set(xlabel="penalty", xticks=[.01, 1], xticklabels=["0.01", "1"])
    for ax, place in ((axes[0], "center right"), (axes[2], "lower right"), (axes[3], "lower right")):
        ax.legend(frameon=False, fontsize=8, loc=place)
    return picture(fig, "Remaining dependence, effective sample size and accuracy, by the penalty on uneven weights")


def answers_and_rules(
    question: str,
    answers: dict[str, tuple[str, float]], # answer -> what is true of it, and its score
    by_rule: pd.DataFrame,                 # test × rule
) -> Picture:
    "Draw answers by their words, and the accuracy of rules."
    colors = dict.fromkeys(MONTHS + CITIES, "tab:blue") | {"yes": "tab:orange", "no": "tab:orange"}
    fig, (ax, right) = plt.subplots(1, 2, figsize=(9.2, 2.7), width_ratios=[1.3, 1], layout="constrained")
    ax.text(0, 0, question + "?", weight="bold", fontsize=11)
    for row, (text, (note, score)) in enumerate(answers.items(), 1):
        ax.text(0, -3 * row, f"{note}: score {score:+.1f}", fontsize=9)
        start = 0
        for word in text.split():
            ax.text(start, -3 * row - 1.3, word, color=colors.get(word, "0.4"), family="monospace", fontsize=11)
            start += len(word) + 1
    ax.set(xlim=(0, 54), ylim=(-11, 1))
    ax.axis("off")
    by_rule.plot.bar(ax=right, color=["tab:red", "tab:orange", "tab:blue"], width=.8, rot=0, ylabel="accuracy, %")
    right.set(ylim=(0, 150), yticks=[0, 50, 100])
    right.legend(frameon=False, fontsize=8, loc="upper left")
    return picture(fig, "Left: three answers and their scores. Right: the trained model beside two rules, on two tests")


def angles_of_parts(
    cosines: dict[str, list[float]], # when -> cosines of H with H^d and with H^bias
) -> Picture:
    "Draw a representation beside its debiased part and its bias."
    fig, axes = plt.subplots(1, len(cosines), figsize=(7.4, 2.6), layout="constrained")
    for ax, (label, angles) in zip(axes, cosines.items()):
        to_debiased, to_bias = np.degrees(np.arccos(angles))
        for name, degrees, color in (("$H$", 90, "k"), ("$H^d$", 90 + to_debiased, "tab:blue"),
                                     ("$H^{bias}$", 90 - to_bias, "tab:orange")):
            plane(color, degrees, name, ax)
        ax.set(xlim=(-1.5, 1.5), ylim=(-1.2, 1.3), aspect="equal", title=label)
        ax.axis("off")
    return picture(fig, "The angles of a representation to its debiased part and its bias, before and after training")
