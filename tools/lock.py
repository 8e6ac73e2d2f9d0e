"""Pin every package that an installation brings, with the hashes of its files: `python tools/lock.py`, or `make lock`.

Writes requirements/common.lock, for Python 3.11 on Linux, and torch apart: requirements/cpu.lock has its CPU build,
requirements/cuda.lock the published one and the libraries that it asks for. Direct dependencies keep the versions of
requirements/constraints.txt. Where no CPU build is at hand (in a folder that `PIP_FIND_LINKS` names),
requirements/cpu.lock stays as it is.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("repro", "dev", "minilm")
SETTINGS = (
    "--constraint", "requirements/constraints.txt", "--generate-hashes", "--no-annotate", "--no-header", "--quiet",
    "--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28",
)
HEAD = "# Made by tools/lock.py: every package of an installation, its version and the hashes of its files.\n"
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def resolved(find_links: str | None) -> dict[str, list[str]]: # name -> version and hashes
    "What uv finds for Python 3.11 on Linux."
    environment = {name: value for name, value in os.environ.items() if not name.endswith("FIND_LINKS")}
    if find_links:
        environment["UV_FIND_LINKS"] = find_links
    extras = [f"--extra={extra}" for extra in EXTRAS]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lock"
        command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", *extras, *SETTINGS]
        subprocess.run([*command, "--output-file", str(file)], cwd=ROOT, env=environment, check=True)
        return parsed(file.read_text("utf-8"))


def parsed(text: str) -> dict[str, list[str]]: # name -> version and hashes
    "The packages of a lock file."
    found = {}
    for block in re.split(r"\n(?=\w)", text):
        first = re.match(r"([\w.-]+)==(\S+)", block)
        if first:
            found[first[1]] = [first[2], *HASH.findall(block)]
    return found


def written(packages: dict[str, list[str]]) -> str:
    "A lock file."
    blocks = [" \\\n    ".join([f"{name}=={version}", *hashes])
              for name, (version, *hashes) in sorted(packages.items())]
    return HEAD + "\n".join(blocks) + "\n"


def split(published: dict, cpu: dict) -> dict[str, dict]: # file -> packages
    "What all installations share, and the two builds of torch, the published one with what it asks for."
    common = {name: parts for name, parts in published.items() if name in cpu and name != "torch"}
    return {
        "requirements/common.lock": common,
        "requirements/cpu.lock": {"torch": cpu["torch"]},
        "requirements/cuda.lock": {name: parts for name, parts in published.items() if name not in common},
    }


def read(file: str) -> dict[str, list[str]]: # name -> version and hashes
    "The packages of one of the project's lock files."
    return parsed((ROOT / file).read_text("utf-8"))


def main() -> None:
    published = resolved(None)
    find_links = os.environ.get("PIP_FIND_LINKS")
    cpu = resolved(find_links) if find_links else read("requirements/common.lock") | read("requirements/cpu.lock")
    for file, packages in split(published, cpu).items():
        (ROOT / file).write_text(written(packages), "utf-8")
        print(f"{file}: {len(packages)} packages")


if __name__ == "__main__":
    main()
