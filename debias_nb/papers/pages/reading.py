"""What the notebooks to read share: settings, what our records say, and how a figure is kept."""
import matplotlib.pyplot as plt
import numpy as np
import torch
import transformers
from matplotlib.figure import Figure

from .execution import NOT_RUN_HERE
from .facts import Facts
from .plots import Picture

DOTS = 160 # an inch of a bitmap: twice those of the figures
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


def picture(figure: Figure, alt: str) -> Picture: # alt: what a reader who cannot see it is told
    "Return a figure as lines and as dots, and close it, so that it is shown once."
    plt.close(figure)
    return Picture(figure, alt, DOTS)
