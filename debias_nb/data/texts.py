"Texts without labels, to regularize or compare models on: a list, a file, a column of a table, or general ones."
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..checks import check_regular, nearest, quoted, several_texts
from ..files import fingerprint, sha256_file
from .registry import DataError, MissingData
from .sentences import GENERAL_TEXTS, general_texts
from .tables import ENDINGS, VISIBLE, check_file, ending, is_text, path_and_part, read_table, read_text


def texts_file(source: str | os.PathLike) -> tuple[Path, str | None]: # source: a path, or `table.csv:column`
    "Return a file of texts that is there, and the column that holds them; None: one text per line. Raises `DataError`."
    path, column = path_and_part(source)
    if ending(path) in ENDINGS:
        check_file(path)
        return path, column or "text"
    check_regular(path, DataError)
    if not path.exists():
        raise DataError(f"texts of {path}: no such file")
    return path, None


def read_texts_file(source: str | os.PathLike) -> list[str]: # source: as of `texts_file`
    "Read texts without labels; lines with nothing to be seen are left out. Raises `DataError` naming the file."
    path, column = texts_file(source)
    if column is None:
        try:
            return [line for line in read_text(path).splitlines() if VISIBLE.search(line)]
        except (ValueError, OSError, EOFError) as e:
            raise DataError(f"texts of {path}: {e}") from None
    table, *_ = read_table(path)
    if column not in table:
        advice = f"name the column that holds the texts, as in {shlex.quote(f'{path}:COLUMN')}"
        raise DataError(f"{path}: no column {column!r}{nearest(column, list(table))}; {advice}")
    return table[column].tolist()


def _general_texts() -> list[str]:
    "Load the general texts. Where a file of theirs is missing, the error begins with what may take their place."
    try:
        return general_texts()
    except MissingData as e:
        problem, _, remedy = str(e).partition("\n")
        substitute = f"give unlabeled texts of your own in place of {GENERAL_TEXTS!r}"
        raise MissingData(f"{problem}\n  {substitute}, or\n{remedy}") from e


def read_texts(
    # a list, a column of `datasets`, a file as `read_texts_file` takes it, or `general`
    texts: Iterable[str] | str | Path,
) -> list[str]: # two or more, without the empty lines of a file
    """Read unlabeled texts, on which an encoder is regularized toward its base instead of on those of a batch.

    Raises `ValueError`, `OSError`.
    """
    if isinstance(texts, str) and texts == GENERAL_TEXTS:
        return _general_texts()
    prefix = "texts"
    if isinstance(texts, (str, Path)):
        prefix = f"texts of {texts}"
        texts = read_texts_file(texts)
    names = getattr(texts, "column_names", getattr(texts, "columns", texts))
    if isinstance(texts, Mapping) or names is not texts: # a table
        names = [str(name) for name in names] if isinstance(names, Iterable) else []
        name = "text" if "text" in names or not names else names[0]
        raise ValueError(f"texts is a {type(texts).__name__} with columns: pass one of them, such as data[{name!r}]")
    texts = several_texts(texts)
    for number, text in enumerate(texts):
        if not is_text(text):
            fault = "nothing to be seen in it, or NUL or half of a character"
            raise ValueError(f"{prefix}: number {number} has {fault}: {quoted(text)}")
    if len(texts) < 2:
        raise ValueError(f"{prefix} must be two or more, got {len(texts)}")
    return texts


@dataclass(frozen=True, eq=False)
class HeldTexts:
    "Unlabeled texts to regularize an encoder on, and their source."
    texts: list[str]
    sha256: str            # of the file; of the texts where they are in memory
    path: str | None = None # as it was given; None: they are in memory

    def facts(self) -> dict:
        "Return what a page says of them."
        return {"name": self.path or "texts", "path": self.path, "texts": len(self.texts), "sha256": self.sha256}


def read_held_texts(texts) -> HeldTexts: # as `read_texts` takes them
    "Read unlabeled texts. Raise `DataError` for what are no texts, and for a file that cannot be read."
    try:
        lines = read_texts(texts)
    except (ValueError, OSError) as e:
        raise DataError(str(e)) from None
    if isinstance(texts, str) and texts == GENERAL_TEXTS:
        return HeldTexts(lines, fingerprint(lines), GENERAL_TEXTS)
    if isinstance(texts, (str, Path)):
        path, _ = texts_file(texts)
        return HeldTexts(lines, sha256_file(path), str(texts))
    return HeldTexts(lines, fingerprint(lines))
