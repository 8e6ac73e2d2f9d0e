"""Test one leaf of the package where the other leaf is gone: in a clone of the project without its folders.

The trunk's own tests run beside the diagnosis, without the papers; no module of the trunk imports one of either leaf,
which tests/test_packages.py looks up in every line.

python tools/leaves.py diagnosis|papers [OPTION OF PYTEST...]
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from notebooks import ROOT, git_files

OTHER = {"diagnosis": "papers", "papers": "diagnosis"}
PLACES = ("debias_nb", "nbs", "tests")
TESTED = {"diagnosis": ("tests/library", "tests/diagnosis"), "papers": ("tests/papers",)}


def copy_of(root: Path, copy: Path) -> None:
    "Clone a project with its history, and take what is changed or new in it."
    subprocess.run(["git", "clone", "--quiet", root, copy], check=True)
    for name in git_files(root):
        if (root / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, copy / name)
        else: # deleted, and not committed yet
            (copy / name).unlink(missing_ok=True)


def copy_without(leaf: str, root: Path, copy: Path) -> None: # leaf: the one that is left out
    "Copy a project, and drop the folders of a leaf."
    copy_of(root, copy)
    for place in PLACES:
        shutil.rmtree(copy / place / leaf, ignore_errors=True)


def share_encoders(root: Path, copy: Path) -> None:
    "Let a clone take the encoders that tests train from those of the project, so that each is trained once."
    encoders = root / ".cache" / "encoders"
    encoders.mkdir(parents=True, exist_ok=True)
    (copy / ".cache").mkdir()
    (copy / ".cache" / "encoders").symlink_to(encoders)


def main(leaf: str, *options: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        copy_without(OTHER[leaf], ROOT, Path(folder))
        share_encoders(ROOT, Path(folder))
        command = [sys.executable, "-m", "pytest", *TESTED[leaf], *options]
        return subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": folder}).returncode


if __name__ == "__main__":
    if sys.argv[1:2] not in ([leaf] for leaf in OTHER):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
