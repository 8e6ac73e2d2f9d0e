"""Errors and checks: a wrong value gets one sentence that names it, and its nearest neighbor where it is a name."""
import difflib
import os
import re
import reprlib
from numbers import Real


class UserError(Exception):
    "Error whose message says everything: a notebook shows no traceback of it."
    def _render_traceback_(self): # asked by IPython
        return [f"{type(self).__name__}: {self}"]


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


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
quoted = _SHORT.repr # a value as a message shows it: what is long is cut, and nothing in it steers a terminal

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    "Escape the characters of a text that would steer a terminal or turn the order of others."
    return STEERING.sub(lambda match: repr(match.group())[1:-1], text)


def nearest(word: str, names) -> str:
    "Return `; did you mean …?` with the closest known name, else the names there are."
    names = list(names)
    close = difflib.get_close_matches(word, names, 1, .6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f" (known: {', '.join(map(repr, names))})"


def check_known(what: str, name, names, error: type[Exception] = ValueError) -> None:
    "Raise `error` with the nearest name if a name is none of the known ones."
    if name not in names:
        raise error(f"no {what} {quoted(name)}{nearest(str(name), names)}")


CLOSED = {"both": "[]", "left": "[)", "right": "(]", "neither": "()"}


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
        begin, end = CLOSED[closed]
        raise ConfigError(f"{name} must lie in {begin}{low:g}, {high:g}{end}, got {value}")


def check_finite(
    name: str, # of the rows, in the message
    rows,      # (n, d) tensor
) -> None:
    "Raise `ValueError` naming the first row that is not finite."
    bad = (~rows.isfinite().all(1)).nonzero()
    if len(bad):
        raise ValueError(f"{name}: row {int(bad[0])} is not finite")


EXIT_INTERRUPTED = 130 # exit code, as a shell has it for a program that Ctrl-C has ended


def leave(*_):
    "Exit on Ctrl-C before a command begins, while nothing is at stake."
    os.write(2, b"debias-nb: interrupted\n")
    os._exit(EXIT_INTERRUPTED)
