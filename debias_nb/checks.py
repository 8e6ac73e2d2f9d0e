"""Errors and checks: a wrong value gets one sentence that names it, and its nearest neighbor where it is a name."""
import difflib
import os
import re
import reprlib
from collections import Counter
from collections.abc import Iterable
from contextlib import contextmanager
from numbers import Integral, Real
from pathlib import Path


class UserError(Exception):
    "Error whose message says everything: a notebook shows no traceback of it."
    def _render_traceback_(self): # asked by IPython
        return [f"{type(self).__name__}: {self}"]


class Interrupted(UserError):
    "What a person stopped."


@contextmanager
def stoppable(activity: str):
    "Say in a sentence that a cell was stopped, and what comes then. Raises `Interrupted`."
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(
            f"{activity} was interrupted; finished runs are kept, and the same cell goes on from there") from None


class ConfigError(UserError, ValueError):
    "Configuration that cannot be used; the message names the file and the key."


class RunnerError(UserError, ValueError):
    "Command that does nothing because its arguments are wrong."


class EncoderError(UserError, RuntimeError):
    """An encoder cannot be found, trusted or used; the message says what to do.

    Examples
    --------
    >>> from debias_nb import EncoderError, load_model
    >>> try:
    ...     load_model("./nowhere")
    ... except EncoderError as error:
    ...     print(error)
    ./nowhere: no such folder
    """


class DataError(ValueError):
    """Data cannot be used; the message names file, line and reason.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from debias_nb import DataError, read_pairs
    >>> file = pathlib.Path(tempfile.mkdtemp(), "pairs.tsv")
    >>> _ = file.write_text("1\\tred shoe\\tshoe in red\\n2\\twool hat\\tbelt\\n")
    >>> try:
    ...     read_pairs(file)
    ... except DataError as error:
    ...     print(str(error).rpartition("/")[2])
    pairs.tsv:2: no label '2' (known: 'duplicate', 'non-duplicate', '1', '0')
    """


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
quoted = _SHORT.repr # a value as a message shows it: what is long is cut, and nothing in it steers a terminal

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    "Escape the characters of a text that would steer a terminal or turn the order of others."
    return STEERING.sub(lambda match: repr(match.group())[1:-1], text)


def on_one_line(text: str) -> str:
    "Escape also what would begin another line, or look like one."
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def counted(count: int, noun: str) -> str: # noun: begins with a plural
    "Return a count and what is counted, in the singular for one."
    word, _, qualifier = noun.partition(" ")
    if count == 1:
        word = word.removesuffix("ies") + "y" if word.endswith("ies") else word.removesuffix("s")
    return f"{count:,} {word} {qualifier}".rstrip()


def closest(word: str, names) -> str:
    "Return `; did you mean …?` with the closest known name, whatever its case; empty where none is close."
    by_fold = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(word.casefold(), by_fold, 1, .6)
    return f"; did you mean {by_fold[close[0]]!r}?" if close else ""


def nearest(word: str, names) -> str:
    "Return what `closest` does, else the names there are."
    names = list(names)
    return closest(word, names) or f" (known: {', '.join(map(repr, names))})"


def check_known(kind: str, name, names, error: type[Exception] = ValueError) -> None:
    "Raise `error` with the nearest name if a name is none of the known ones."
    if name not in names:
        raise error(f"no {kind} {quoted(name)}{nearest(str(name), names)}")


BRACKETS = {"both": "[]", "left": "[)", "right": "(]", "neither": "()"}


def check_range(
    name: str,
    value: float,
    low: float = 0,
    high: float = float("inf"),
    closed: str = "both", # which ends belong to the range: `left`, `right`, `both` or `neither`
) -> None:
    "Raise `ConfigError` for a setting that is no number (in quotation marks, `None`, True), or out of range."
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ConfigError(f"{name} must be a number, got {value!r}")
    is_inside = low < value < high
    if closed in ("both", "left"):
        is_inside |= value == low
    if closed in ("both", "right"):
        is_inside |= value == high
    if not is_inside:
        begin, end = BRACKETS[closed]
        raise ConfigError(f"{name} must lie in {begin}{low:g}, {high:g}{end}, got {value}")


LARGEST_SEED = 2**32 - 1 # that NumPy takes


def check_whole(
    name: str,
    value: int,
    low: int,
    high: int | None = None, # both ends belong to the range
    error: type[Exception] = ConfigError,
) -> None:
    "Check that a setting is a whole number in its range. Raises `error`."
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < low or (high is not None and value > high):
        end = "" if high is None else f" to {high}"
        raise error(f"{name} must be a whole number from {low}{end}, got {quoted(value)}")


MOST_SEEDS = 1000 # of one grid of runs


def check_seeds(name: str, seeds, error: type[Exception] = ConfigError) -> None:
    "Check that seeds are whole numbers, each once, one or more and not too many. Raises `error`."
    if not 1 <= len(seeds) <= MOST_SEEDS:
        raise error(f"{name}: 1 to {MOST_SEEDS} are expected, got {len(seeds):,}")
    for seed in seeds:
        check_whole(name, seed, 0, LARGEST_SEED, error)
    if len({*seeds}) < len(seeds):
        raise error(f"{name}: each once, got {quoted([*seeds])}")


def check_finite(
    name: str, # of the rows, in the message
    rows,      # (n, d) tensor
) -> None:
    "Raise `ValueError` naming the first row that is not finite."
    bad = (~rows.isfinite().all(1)).nonzero()
    if len(bad):
        raise ValueError(f"{name}: row {int(bad[0])} is not finite")


def several_texts(texts, name: str = "texts") -> list:
    "Return a list of texts. Raise `ValueError` for one text or none instead of a list, and for what is no text."
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise ValueError(f"{name}: a list of texts is needed, got {texts!r:.60}")
    texts = list(texts)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{name}[{i}] is {text!r}, not text")
    return texts


def check_one_each(
    name: str,
    values, # tensor
    n: int,
    item: str, # what there are n of
) -> None:
    "Check that values have shape (n,). Raises `ValueError`."
    if values.shape != (n,):
        got = tuple(values.shape)
        raise ValueError(f"{name} must have shape ({n},), one for each {item}, got {got}")


def check_aligned(**arrays) -> None: # name -> array; None is left out
    """Check that arrays that carry labels carry the same ones in the same order, since they are matched by place.

    Raises `ValueError` naming the two."""
    labels = [(name, values.index) for name, values in arrays.items()
              if hasattr(getattr(values, "index", None), "equals")] # a list has a method `index`
    for (first, index), (name, other) in zip(labels, labels[1:]):
        if not index.equals(other):
            raise ValueError(f"{first} and {name} are matched by place, and their labels differ: take "
                             f"{name}.loc[{first}.index], or .to_numpy() of both")


def tensor_of(
    name: str,
    values, # an array, a frame, a list or a tensor
):
    "Return real numbers as a tensor, whatever holds them. Raises `ValueError` for what holds none."
    import numpy as np
    import torch
    try:
        tensor = torch.as_tensor(np.array(values) if hasattr(values, "to_numpy") else values)
    except (TypeError, ValueError, RuntimeError) as e: # as PyTorch has it
        raise ValueError(f"{name}: numbers are expected ({e})") from None
    if tensor.is_complex() or tensor.is_sparse:
        raise ValueError(f"{name}: real numbers are expected, got a tensor of {tensor.dtype}, {tensor.layout}")
    return tensor


def check_features(
    features,      # (n, d) tensor
    labels=None,   # (n,) class numbers
) -> None:
    """Check features and labels.

    Raises `ValueError` for features that are no matrix of at least 2 rows, not finite (naming the row), or labels that
    do not fit.
    """
    shape = tuple(features.shape)
    if features.ndim != 2 or len(features) < 2 or not shape[1]:
        raise ValueError(f"features must be a matrix of at least 2 samples, got shape {shape}")
    check_finite("features", features)
    if labels is not None:
        check_one_each("labels", labels, len(features), "row of features")
        if labels.is_floating_point() or labels.min() < 0:
            got = f"{labels.dtype} from {float(labels.min()):g} on"
            raise ValueError(f"labels must be class numbers 0, 1, …, got {got}")


EXIT_INTERRUPTED = 130 # exit code, as a shell has it for a program that Ctrl-C has ended


def leave(*_):
    "Exit on Ctrl-C before a command begins, while nothing is at stake."
    os.write(2, b"debias-nb: interrupted\n")
    os._exit(EXIT_INTERRUPTED)


def each_key_once(pairs: list[tuple]) -> dict: # pairs: as `json.loads` gives them to an `object_pairs_hook`
    "Return an object of JSON. Raise `ValueError` naming a key that stands in it twice."
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {quoted(twice)} occurs twice")
    return values


def output_folder(text: str | Path) -> Path:
    "Return the path of a folder. Raise `ConfigError` for what is none that can be written to."
    path = Path(text)
    if not str(text).strip() or path.exists() and not path.is_dir():
        raise ConfigError(f"the output: a folder is expected, got {str(text)!r}")
    return path


def check_regular(path: str | Path, error: type[Exception]) -> None:
    """Refuse a folder, a pipe or a device, which never ends or cannot be read twice, and a name that no page can print.

    A link that leads nowhere is named; of another missing file nothing is said."""
    is_there = os.path.exists(path) # False for names that cannot be
    if os.path.islink(path) and not is_there:
        raise error(f"{path}: a link to {quoted(os.readlink(path))}, where no file is")
    if is_there and not os.path.isfile(path):
        raise error(f"{path}: a file is expected")
    if is_there and re.search("[\ud800-\udfff]", str(path)):
        raise error(f"{visible(str(path))}: the name of the file is not UTF-8; rename it")
