"""Build what a release uploads, and try it: `python tools/dist.py`, or `make dist`. Writes dist/.

From what is committed: a source distribution, and a wheel made of it. Both are checked by `twine check --strict`, and
each is installed into an empty environment, where a small `debias-nb diagnose` must write its page without anything of
a notebook stack.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
NOT_NEEDED = ("matplotlib", "papermill", "nbformat", "ipykernel", "nbdev")
CASE = """
import torch
from debias_nb import Catalog, WorldConfig, load_encoder
base = load_encoder("tiny-static")
base.save("base")
generator = torch.Generator().manual_seed(0)
with torch.no_grad():
    for weight in base.parameters():
        weight += weight.std() * torch.randn(weight.shape, generator=generator)
base.save("tuned")
pairs = Catalog(WorldConfig(train_pairs=200)).labeled_pairs().frame()
pairs["label"] = pairs.label.astype(int)
pairs[:300].to_csv("train.csv", index=False)
pairs[300:600].to_csv("test.csv", index=False)
"""


def run(*command, **settings) -> str: # what it printed
    "Run a command. Raises `SystemExit` with its output where it fails."
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **settings)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def sources(folder: Path) -> None:
    "What is committed, without what is not. Raises `SystemExit` where something is changed."
    if run("git", "status", "--porcelain", cwd=ROOT):
        raise SystemExit("there are changes that are not committed: commit or stash them")
    archive = folder / "source.tar"
    run("git", "archive", "--output", archive, "HEAD", cwd=ROOT)
    shutil.unpack_archive(archive, folder / "source")


def built(folder: Path) -> list[Path]: # the source distribution and the wheel
    "Both files, checked as the index checks them."
    out = ROOT / "dist"
    shutil.rmtree(out, ignore_errors=True)
    run(BIN / "uv", "build", "--quiet", "--out-dir", out, folder / "source")
    files = sorted([*out.glob("*.tar.gz"), *out.glob("*.whl")])
    run(BIN / "twine", "check", "--strict", *files)
    return files


def diagnosed(programs: Path, folder: Path, env: dict[str, str]) -> None: # programs: of an environment; folder: empty
    "Diagnose with what is installed. Raises `SystemExit`."
    run(programs / "python", "-c", CASE, cwd=folder, env=env)
    run(programs / "debias-nb", "diagnose", "--base", "./base", "--tuned", "./tuned", "--train", "train.csv", "--test",
        "new=test.csv", "--out", "report", cwd=folder, env=env)
    if "<html" not in (folder / "report/index.html").read_text("utf-8"):
        raise SystemExit("diagnose wrote no page")


def tried(file: Path, folder: Path) -> str: # what to say of it
    "Install a file alone, with the versions of requirements/constraints.txt, and diagnose with it in an empty folder."
    begun = time.time()
    place, empty = folder / f"environment{file.suffix}", folder / f"empty{file.suffix}"
    empty.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("DEBIAS_NB_", "PYTHONPATH"))}
    env |= {"DEBIAS_NB_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    if "PIP_FIND_LINKS" in os.environ: # where a CPU build of torch may lie
        env["UV_FIND_LINKS"] = os.environ["PIP_FIND_LINKS"]
    run(BIN / "uv", "venv", "--quiet", "--python", sys.executable, place)
    python = place / "bin/python"
    run(BIN / "uv", "pip", "install", "--quiet", "--python", python, "--constraint",
        ROOT / "requirements/constraints.txt", file, env=env)
    listed = run(BIN / "uv", "pip", "list", "--format", "freeze", "--quiet", "--python", python).splitlines()
    present = {line.partition("==")[0] for line in listed}.intersection(NOT_NEEDED)
    if present:
        raise SystemExit(f"{file.name} brings {', '.join(sorted(present))}, which the library does not need")
    diagnosed(place / "bin", empty, env)
    return (f"{file.name}: {file.stat().st_size / 1000:.0f} KB, {len(listed)} packages, diagnosed in "
            f"{time.time() - begun:.0f} s")


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sources(folder)
        for file in built(folder):
            print(tried(file, folder), flush=True)


if __name__ == "__main__":
    main()
