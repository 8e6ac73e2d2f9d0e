"The files that an answer is written to, checked before the work begins and before PyTorch is imported."
import os
import re
from pathlib import Path

from .. import files
from ..checks import ConfigError

DIAGNOSIS = ("index.html", "report.json", "verdicts.csv", "scores.csv", "slices.csv")
COMPARISON = ("index.html", "report.json", "scores.csv", "differences.csv")
OURS = re.compile( # how each file begins that is written here
    rb'<!doctype html>.{,400}<meta name="generator" content="debias-nb">|\{\n "made by": '
    rb'"debias-nb",\n|method,seed,test,(part,)?metric,value\n'
    rb"|method,test,(metric,)?difference,low,high,p,word|test,form,tests,counted,cases,"
    rb"|test,part,metric,decides,|test,scorer,metric,value,low,high\n"
    rb'|test,kind,slice,cases,matches,|task,test,base,tuned,', re.DOTALL)


def is_ours(path: Path) -> bool:
    "Decide whether a file was written by a command of this package."
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return OURS.match(file.read(2000)) is not None


def write_target(path: Path, text: str) -> None:
    "Write a file whole, or leave what was there and raise `ConfigError`. A link stays one."
    try:
        files.write_whole(path, text)
    except OSError as e:
        raise ConfigError(f"{path}: not written: {e.strerror}") from None


def check_target_folder(path: Path) -> None:
    "Check that a folder is there, or can be made. Raise `ConfigError`."
    place = next(folder for folder in (path.absolute(), *path.absolute().parents) if os.path.lexists(folder))
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"{path}: {place} is no folder that may be written to")


def check_targets(paths: list[Path], overwrite: bool = False) -> None: # overwrite: whether files of ours may be there
    """Check, before the work begins, that files can be written and that nothing is lost.

    A file that was not written here, as one that is read, is never written over. Raise `ConfigError`."""
    for path in paths:
        if not os.access(path.parent, os.W_OK):
            raise ConfigError(f"{path}: there is no folder {path.parent} that may be written to")
        if path.exists() and not is_ours(path):
            raise ConfigError(f"{path}: the file exists, and is no page of debias-nb; give another name")
        if path.exists() and not overwrite:
            raise ConfigError(f"{path}: the file exists; remove it, give another name, or add --overwrite")
