"""What the notebooks to read draw: numbers and axes in, a figure out."""
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
import transformers

from .execution import NOT_RUN_HERE
from .facts import Facts

COLORS = {"base": "0.65", "fine-tuned": "tab:red", "ITVReg": "tab:blue", "OutReg": "tab:green", "MaskReg": "tab:orange"}


def quiet() -> None:
    "Set small figures, one thread, and no bars of progress."
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    plt.rcParams |= {"figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False, "font.size": 9}


def ours(name: str) -> str: # of a question
    "Say what our runs give for a question: its estimate in points, and its word."
    fact = Facts.read().get(name)
    return f"{fact.estimate} points: {fact.word}" if fact else NOT_RUN_HERE


def plane(color: str, degrees: float, label: str, ax, offset: tuple[float, float] = (1.18, 1.13)) -> None:
    "Draw a unit vector by its angle."
    tip = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    ax.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "->", "color": color, "lw": 2})
    ax.text(offset[0] * tip[0], offset[1] * tip[1], label, color=color, ha="center", va="center")


def principal(vectors: torch.Tensor) -> torch.Tensor: # (n, d) -> (2, n)
    "Return the two principal components of embeddings."
    centered = vectors - vectors.mean(0)
    return (centered @ torch.linalg.svd(centered, full_matrices=False).Vh[:2].T).T


# ITVReg

def importance_and_precision(
    names: list[str],                  # of a query's words, the brand first
    importance: dict[str, np.ndarray], # encoder -> of each word
    scores: dict[str, list[float]],    # encoder -> P@1 of each test
    tests: list[str],
) -> None:
    "Draw the importance of a query's words beside the scores of all queries."
    fig, (ax, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    for n, (name, of_words) in enumerate(importance.items()):
        ax.barh(np.arange(len(names)) + .27 * n, 100 * of_words, .25, color=COLORS[name], label=name)
        right.bar(np.arange(len(tests)) + .27 * n, scores[name], .25, color=COLORS[name], label=name)
    ax.set(yticks=np.arange(len(names)) + .27, yticklabels=names, title="One query: importance of its words")
    ax.set_xlabel("importance: 100 · (1 − cosine without the word)")
    ax.invert_yaxis()
    ax.get_yticklabels()[0].set_color("tab:red")
    right.set(xticks=np.arange(len(tests)) + .27, xticklabels=tests, ylabel="P@1, %", title="All queries")
    right.legend(frameon=False)


def angles_of_encoders(
    angles: pd.DataFrame, # encoder × (from f(X) to f(X'), from f0(X) to f(X)), degrees; the base first
) -> None:
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


def map_of_brands(
    vectors: dict[str, torch.Tensor], # encoder -> (n, d)
    types: np.ndarray, makers: np.ndarray, # of each title
) -> dict[str, float]: # encoder -> cosine that a shared brand adds to titles of different types
    "Draw titles in two dimensions, by type and brand."
    kinds = [*dict.fromkeys(types.tolist())]
    fig, axes = plt.subplots(1, len(vectors), figsize=(9, 3), layout="constrained")
    added = {}
    for ax, (name, embeddings) in zip(axes, vectors.items()):
        cosines = (embeddings @ embeddings.T).numpy()
        is_other_type, is_same_maker = types[:, None] != types, makers[:, None] == makers
        added[name] = cosines[is_other_type & is_same_maker].mean() - cosines[is_other_type & ~is_same_maker].mean()
        x, y = principal(embeddings)
        for maker, marker in zip(kinds, "o^s"):
            colors = [f"C{kinds.index(kind)}" for kind in types[makers == maker]]
            ax.scatter(x[makers == maker], y[makers == maker], s=20, c=colors, marker=marker, linewidths=0)
        ax.set(title=name, xticks=[], yticks=[], xlabel=f"same brand, other type: +{added[name]:.2f} cosine")
    return added


def by_strength(
    dial: pd.DataFrame,              # (method, λ) × (tests, the brand's share)
    levels: dict[str, pd.Series], # encoders without a regularizer
) -> None:
    "Draw scores over λ."
    fig, axes = plt.subplots(1, 4, figsize=(9.6, 2.5), layout="constrained")
    for ax, column in zip(axes, dial):
        for name in dial.index.unique("method"):
            ax.plot(dial.loc[name].index, dial.loc[name, column], "o-", color=COLORS[name], label=name, ms=4)
        for name, style in (("base", ":"), ("fine-tuned", "--")):
            ax.axhline(levels[name][column], color=COLORS[name], ls=style, label=name, zorder=0)
        ax.set(xscale="log", xlabel="λ", title=column, ylim=0, xticks=[.1, 10], xticklabels=["0.1", "10"])
        ax.minorticks_off()
    axes[0].set_ylabel("P@1, %")
    axes[3].set(title="importance of brands", ylabel="share, %")
    axes[0].legend(frameon=False, fontsize=7)


# ARR

def texts_and_topics(
    texts: list[tuple[str, list[tuple[str, bool]]]], # a heading, and words with whether each is style
    by_kappa: pd.DataFrame,
) -> None:
    "Draw three texts by their words, and what training on home topics does."
    fig, (ax, right) = plt.subplots(1, 2, figsize=(9.2, 2.7), width_ratios=[2, 1], layout="constrained")
    for row, (heading, marked_words) in enumerate(texts):
        ax.text(0, -3 * row, heading, weight="bold")
        start = 0
        for word, is_style in marked_words:
            color = "tab:blue" if is_style else "tab:orange"
            ax.text(start, -3 * row - 1.2, word, color=color, family="monospace", fontsize=9)
            start += len(word) + 1
    ax.set(xlim=(0, 68), ylim=(-7.8, 1))
    ax.axis("off")
    for column, color, name in (("R@8 across topics", "tab:blue", "authors found (R@8)"),
                                ("on the topic across topics", "tab:orange", "neighbors on the topic")):
        right.plot(by_kappa.index, by_kappa[column], "o-", color=color, label=name)
    right.set(xlabel="κ in training", ylabel="%, test across topics", ylim=(0, 80), xticks=by_kappa.index)
    right.legend(frameon=False, loc="lower right")


def targets_of_one(
    targets: dict[float, np.ndarray], # B -> target of the nearest texts
    warmer: dict[float, np.ndarray],  # B -> softmax at τ / (1 - B)
    is_author: np.ndarray,
    biases: pd.DataFrame,             # κ × τ
) -> None:
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


def shares_of_pairs(
    maps: dict[str, torch.Tensor], # (n, n) each
    names: list[str],
) -> None:
    "Draw matrices of shares side by side."
    fig, axes = plt.subplots(1, len(maps), figsize=(9.2, 3.1), layout="constrained")
    for ax, (name, shares) in zip(axes, maps.items()):
        image = ax.imshow(shares, cmap="Blues", vmin=0, vmax=.8)
        ax.set_xticks(range(len(names)), [label[:2] for label in names], fontsize=8)
        ax.set_yticks(range(len(names)), names if ax is axes[0] else [], fontsize=8)
        ax.set_title(name)
    fig.colorbar(image, ax=axes, label="probability")


def by_bias(
    dial: pd.DataFrame,   # B × columns of a look
    references: pd.DataFrame, # teacher, ARR, product of experts
    mean_bias: float,
) -> None:
    "Draw students over a fixed B beside what they are compared with."
    fig, axes = plt.subplots(1, 3, figsize=(9.2, 2.7), layout="constrained")
    titles = {
        "R@8 across topics": "authors found across topics",
        "R@8 in distribution": "authors found in distribution",
        "on the topic across topics": "neighbors on the topic, across topics",
    }
    for ax, (column, title) in zip(axes, titles.items()):
        ax.plot(dial.index, dial[column], "o-", color="tab:blue", label="student at fixed B")
        ax.plot(mean_bias, references.loc["ARR", column], "D", color="tab:red", label="ARR (at its mean B)")
        ax.axhline(references.loc["teacher", column], color="0.5", ls="--", label="teacher")
        ax.axhline(references.loc["product of experts, γ = 1.0", column], color="tab:green",
                   label="product of experts, γ = 1")
        ax.set(ylim=(0, 100), xlabel="B", title=title)
    axes[0].set_ylabel("%")
    axes[0].legend(frameon=False, fontsize=8, loc="upper right")


# SCAN

def answers_and_rules(
    question: str,
    answers: dict[str, tuple[str, float]],  # answer -> what is true of it, and its score
    marked: dict[str, str],                 # word -> color
    by_rule: pd.DataFrame,                  # test × rule
) -> None:
    "Draw answers by their words, and the accuracy of rules."
    fig, (ax, right) = plt.subplots(1, 2, figsize=(9.2, 2.7), width_ratios=[1.3, 1], layout="constrained")
    ax.text(0, 0, question + "?", weight="bold", fontsize=11)
    for row, (text, (note, score)) in enumerate(answers.items(), 1):
        ax.text(0, -3 * row, f"{note}: score {score:+.1f}", fontsize=9)
        start = 0
        for word in text.split():
            ax.text(start, -3 * row - 1.3, word, color=marked.get(word, "0.4"), family="monospace", fontsize=11)
            start += len(word) + 1
    ax.set(xlim=(0, 54), ylim=(-11, 1))
    ax.axis("off")
    by_rule.plot.bar(ax=right, color=["tab:red", "tab:orange", "tab:blue"], width=.8, rot=0, ylabel="accuracy, %")
    right.set_ylim(0, 150)
    right.set_yticks([0, 50, 100])
    right.legend(frameon=False, fontsize=8, loc="upper left")


def causal_graph(ax, arrows: list[tuple[str, str, str]]) -> None: # from, to, line style
    "Draw what causes what among label, cause and shortcut."
    places = {"label": (.5, .85), "cause": (.12, .2), "shortcut": (.85, .2)}
    for start, end, line in arrows:
        kind = "-" if line == "--" else "-|>"
        ax.annotate("", places[end], places[start], arrowprops=dict(
            arrowstyle=kind, ls=line, color="0.2", shrinkA=18, shrinkB=20, lw=1.3))
    for name, place in places.items():
        ax.text(*place, name, ha="center", va="center", fontsize=9)
    ax.axis("off")


def weighted_samples(
    samples: dict[str, tuple[torch.Tensor, torch.Tensor]],      # data set -> features and labels
    weights: dict[str, dict[str, tuple[torch.Tensor, float]]],  # data set -> kind -> weights, accuracy in the test
) -> None:
    "Draw samples by cause and shortcut, as large as their weights, beside the causal graphs."
    graphs = {"A": [("cause", "label", "-"), ("cause", "shortcut", "--")],
              "B": [("label", "cause", "-"), ("label", "shortcut", "-")]}
    fig = plt.figure(figsize=(8.4, 3.9), dpi=60, layout="constrained")
    axes = fig.subplots(2, 4, width_ratios=[.8, 1, 1, 1])
    for line, (kind, (x, label)) in zip(axes, samples.items()):
        causal_graph(line[0], graphs[kind])
        line[0].set_title(f"{kind}: causal graph", fontsize=9)
        for ax, (name, (w, right)) in zip(line[1:], weights[kind].items()):
            colors = np.where(label[:80], "tab:red", "tab:blue")
            ax.scatter(*x[:80, :2].T, s=9 * w[:80], c=colors, linewidths=0)
            ax.set_title(f"{kind}, {name}: {right:.0f}% in the test", fontsize=9)
            ax.set(xlim=(-3, 3), ylim=(-3, 3))
        line[1].set_ylabel("shortcut")
    for ax in axes[1, 1:]:
        ax.set_xlabel("cause")


def correlation_maps(
    correlations: dict[str, np.ndarray], # kind of weights -> (n, n)
    names: list[str],
) -> None:
    "Draw correlations under several weights."
    fig, axes = plt.subplots(1, len(correlations), figsize=(8.6, 2.7), layout="constrained")
    for ax, (name, matrix) in zip(axes, correlations.items()):
        image = ax.imshow(abs(matrix), cmap="Blues", vmin=0, vmax=1)
        for i, j in np.ndindex(matrix.shape):
            ax.text(j, i, f"{matrix[i, j]:.2f}", ha="center", va="center", color="w" if abs(matrix[i, j]) > .6 else "k",
                    fontsize=8)
        ax.set_xticks(range(len(names)), names, fontsize=8)
        ax.set_yticks(range(len(names)), names if ax is axes[0] else [], fontsize=8)
        ax.set_title(f"{name} weights")
    fig.colorbar(image, ax=axes, label="|correlation|")


def by_penalty(
    dial: pd.DataFrame,                # penalty × remaining dependence, sample size, accuracy in A and B
    at_uniform: dict[str, float],      # data set -> accuracy
    by_head: dict[str, list[float]], strengths: tuple[float, ...], # kind of weights -> accuracy at each C
) -> None:
    "Draw what the penalty on uneven weights does."
    fig, axes = plt.subplots(1, 4, figsize=(9.8, 2.5), layout="constrained")
    axes[0].plot(dial[["learned", "shuffled"]], "o-", ms=4, label=["learned", "shuffled"])
    axes[0].set(title="remaining dependence", ylim=(0, 1.5), ylabel="of that at uniform weights")
    axes[1].plot(dial["sample size"], "o-", ms=4, color="0.4")
    axes[1].set(title="effective sample size, %", ylim=(0, 105))
    for kind, color in zip(at_uniform, ("tab:green", "tab:purple")):
        axes[2].plot(dial[kind], "o-", ms=4, color=color, label=f"{kind}, learned")
        axes[2].axhline(at_uniform[kind], color=color, ls="--", lw=1)
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


def angles_of_parts(
    cosines: dict[str, list[float]], # when -> cosines of H with H^d and with H^bias
) -> None:
    "Draw a representation beside its debiased part and its bias."
    fig, axes = plt.subplots(1, len(cosines), figsize=(7.4, 2.6), layout="constrained")
    for ax, (label, angles) in zip(axes, cosines.items()):
        to_debiased, to_bias = np.degrees(np.arccos(angles))
        for name, degrees, color in (("$H$", 90, "k"), ("$H^d$", 90 + to_debiased, "tab:blue"),
                                     ("$H^{bias}$", 90 - to_bias, "tab:orange")):
            plane(color, degrees, name, ax)
        ax.set(xlim=(-1.5, 1.5), ylim=(-1.2, 1.3), aspect="equal", title=label)
        ax.axis("off")
