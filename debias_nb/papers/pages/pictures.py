"""A figure as files: the same bytes each time, in a style of our own, as lines and as dots."""
import io
import re
from base64 import b64encode
from hashlib import sha256

import seaborn as sns
from IPython.display import SVG
from PIL import Image
from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.text import Text

from ...files import load_yaml, package_file
from .tables import replace_names


STYLE = sns.axes_style("whitegrid") | sns.plotting_context("paper") | load_yaml(package_file("styles.yaml"))["figures"]


def our_style():
    "Set Matplotlib's settings to ours inside, and the caller's again afterwards."
    return style.context(STYLE, after_reset=True)


FONTS = "font-family: 'DejaVu Sans', 'Verdana', sans-serif"
NEEDLESS = ( # pattern, and what takes its place
    (rf"(<text[^>]*) {FONTS};", r"\1"),
    (r"<style type=\"text/css\">", f"<style>text{{{FONTS}}} "),
    (r' transform="rotate\(-0 [^"]*"', ""),
    (r'<g id="[^"]*">', "<g>"),
    (r"(<use [^>]*fill: #\w+); stroke: #ffffff; stroke-width: 0.5(; stroke-linejoin: miter)?", r"\1"),
    (r"(?m)^ +| +$", ""),
)


def _shorten(match) -> str: # the words of a text and what ends it, or a number of many decimals
    """Round a place on the page to a tenth of a point and the shape of a marker finer, and keep words.

    It is rounded to a ten-thousandth first: a place that lies between two tenths has last digits of the processor."""
    text = match.group()
    if text.startswith(">"):
        return text
    number = round(float(text), 4)
    if abs(number) >= 10:
        return f"{number:.1f}"
    return f"{number:.2f}"


def _saved(figure: Figure, form: str, dots: int, **metadata: None) -> io.BytesIO:
    "Save a figure in our style, without metadata that would differ each time."
    out = io.BytesIO()
    with our_style():
        figure.savefig(out, format=form, dpi=dots, metadata=metadata)
    return out


def svg(
    figure: Figure,
) -> bytes: # an SVG file, the same each time and on every processor
    """Draw a figure as an SVG file, without what says nothing and without needless decimals.

    Clips and markers, which Matplotlib names by a hash of all digits of their places, are named by what is written."""
    text = _saved(figure, "svg", DOTS, Date=None, Creator=None).getvalue().decode()
    text = re.sub(r">[^<]*</text>|-?\d+\.\d{3,}", _shorten, text)
    for pattern, substitute in NEEDLESS:
        text = re.sub(pattern, substitute, text)
    names = dict.fromkeys(re.findall(r'id="([mp][0-9a-f]{10})"', text))
    picture = sha256(re.sub("|".join(names) or "$^", "", text).encode()).hexdigest()[:8]
    for number, name in enumerate(names):
        text = text.replace(name, f"{name[0]}{picture}{number}")
    return text.encode()


DOTS = 100   # an inch, of a PNG file: 830 across
PNG_COLORS = 64 # of a PNG file, which so takes a third of the bytes


def png(
    figure: Figure,
    dots: int = DOTS,
) -> bytes: # a PNG file, the same each time on one machine
    "Draw a figure as a PNG file."
    image = Image.open(_saved(figure, "png", dots, Software=None)).convert("RGB").quantize(PNG_COLORS)
    small = io.BytesIO()
    image.save(small, "PNG", optimize=True)
    return small.getvalue()


class Picture:
    """A figure as a notebook keeps it: lines, which pages take, and dots.

    JupyterLab draws no lines in a notebook that it does not trust, and a clone is never trusted; code hosts draw dots
    alone."""
    def __init__(
        self,
        figure: Figure,
        alt: str = "", # what a reader who cannot see a figure is told
        dots: int = DOTS, # an inch of the bitmap
    ):
        for text in figure.findobj(Text):
            text.set_text(replace_names(text.get_text()))
        self.figure = figure
        self.alt = alt
        self.dots = dots

    def __repr__(self) -> str:
        return self.alt or "a figure"

    def _repr_mimebundle_(self, include=None, exclude=None): # what it is shown as, and the metadata of that
        lines = SVG(svg(self.figure)).data # without the declaration of a file, as pages have it
        dots = b64encode(png(self.figure, self.dots)).decode()
        return {"image/svg+xml": lines, "image/png": dots, "text/plain": repr(self)}, {"alt": self.alt}
