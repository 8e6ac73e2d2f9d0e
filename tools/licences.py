"""Write LICENCES.md: what the locked packages, the data sets and the encoders are licensed under."""
import importlib.metadata
import json
from pathlib import Path

import yaml

from lock import read

ROOT = Path(__file__).resolve().parents[1]
HEAD = """# Licences

Made by `tools/licences.py` from what the packages, `debias_nb/data/datasets.yaml`, `debias_nb/encoders.yaml`, \
`experiments/finetunes.json` and `experiments/authors_code.json` say of themselves. \
debias-nb itself: Apache-2.0, see [LICENSE](LICENSE).
"""
NVIDIA = """\
The published torch brings NVIDIA's libraries (requirements/cuda.lock), which are under NVIDIA's own licence; \
triton is MIT.
"""
NO_LICENCE = "no licence file: nothing of it is copied"


def of_package(name: str) -> str: # "" where nothing is told
    "The licence that an installed package names."
    told = importlib.metadata.metadata(name)
    expression = told.get("License-Expression")
    if expression:
        return expression
    classifiers = [line for line in told.get_all("Classifier", []) if line.startswith("License ::")]
    if classifiers:
        return ", ".join(line.rpartition(" :: ")[2] for line in classifiers)
    return (told.get("License") or "").strip().partition("\n")[0]


def table(head: list[str], rows: list[list[str]]) -> str: # Markdown
    "A table."
    cells = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def packages(lock: dict[str, list[str]]) -> list[list[str]]: # name, version, licence
    "The packages of a lock that are installed here."
    installed = set()
    for distribution in importlib.metadata.distributions():
        installed.add(distribution.name.lower().replace("_", "-").replace(".", "-"))
    return [[name, parts[0], of_package(name)] for name, parts in sorted(lock.items()) if name in installed]


def described(file: str) -> dict:
    "A registry of the library."
    return yaml.safe_load((ROOT / "debias_nb" / file).read_text("utf-8"))


def render() -> str:
    "The file."
    lock = read("requirements/common.lock")
    lock["torch"] = read("requirements/cuda.lock")["torch"]
    data = described("data/datasets.yaml")["datasets"]
    encoders = described("encoders.yaml")
    source = json.loads((ROOT / "experiments/finetunes.json").read_text("utf-8"))
    scores = [source["name"], source["license"]]
    code = json.loads((ROOT / "experiments/authors_code.json").read_text("utf-8"))["sources"].values()
    parts = [
        HEAD,
        "## Data sets\n",
        table(["data", "licence"], [*([entry["title"], entry["licence"]] for entry in data.values()), scores]),
        "## Encoders\n",
        table(["encoder", "licence"], [[name, entry["licence"]] for name, entry in encoders.items()]),
        "## Code that is compared with, and is not here\n",
        table(["code", "licence"], [[f"{origin['repository']}, commit {origin['commit'][:7]}", NO_LICENCE]
                                    for origin in code]),
        "## Packages\n",
        NVIDIA,
        table(["package", "version", "licence"], packages(lock)),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    (ROOT / "LICENCES.md").write_text(render(), "utf-8")
