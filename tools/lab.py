"""What JupyterLab is told in the environment of this project: `python tools/lab.py`, or `make venv`.

Opening a notebook, reading it and closing it changes no byte, and neither does running one whose words and numbers are
those that it has stored: Lab writes counts, times and the version of Python into what it saves, and here they are taken
out again, as nbdev_clean takes them out; its tables break, and its pictures are drawn, as no other program's. The
kernel has the name that nbdev writes into notebooks. No language server is started, which would check the types of the
whole tree. Whichever notebook or folder of the clone it is begun with, Lab's root is the clone, so that links between
notebooks, pages and pictures lead there. Begun without a notebook it opens README.md; Markdown is shown as it is meant,
not as its source, and nothing is asked about news.
"""
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import outputs
import notebooks
from notebooks import ROOT, joined

CONFIGURATION = """\
# Written by tools/lab.py.
import sys
sys.path.insert(0, {tools!r})
for name in ("lab", "outputs", "notebooks"): # of another clone, whose configuration was read before this one
    sys.modules.pop(name, None)
from lab import clean_before_saving, root_of
root = root_of(sys.argv[1:])
if root:
    c.ServerApp.root_dir = root
    c.LabApp.default_url = "/lab/tree/README.md" # a notebook that is named goes before it
c.FileContentsManager.pre_save_hook = clean_before_saving
c.LanguageServerManager.autodetect = False # a type checker would take a gigabyte; those that you configure are started
"""


LOOK = {
    "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Markdown Preview"}},
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
}


def root_of(words: list[str]) -> str: # words: of the command; "" for Jupyter's own choice
    "Return the clone as Lab's root where the file that it is to open is in it, or where it is begun there without one."
    files = [Path(word) for word in words if Path(word).is_file()]
    folders = [file.resolve().parent for file in files] or [Path.cwd()]
    is_inside = all(folder.is_relative_to(ROOT) for folder in folders)
    return str(ROOT) if is_inside else ""


def is_here(file: Path) -> bool:
    "Whether a file is one of this project's notebooks."
    return file.suffix == ".ipynb" and file.is_relative_to(ROOT / "nbs")


def shown(found: list[dict]) -> tuple[list[str], int]: # found: outputs of a cell
    "The words and numbers in outputs, wherever lines break, and how many pictures there are."
    texts = []
    pictures = 0
    for output in found:
        data = output.get("data", {"text/plain": output.get("text", "")})
        pictures += any(kind.startswith("image/") for kind in data)
        texts.append(joined(next((data[kind] for kind in ("text/html", "text/markdown", "text/plain") if kind in data),
                                 "")))
    return re.sub(r"(?s)<style.*?</style>|<[^>]+>", " ", " ".join(texts)).split(), pictures


def cleaned(content: dict, stored: dict) -> dict: # of a notebook, and of its file
    "The notebook as notebooks.py cleans it, with what outputs.py keeps; stored outputs stay where they show the same."
    nb = json.loads(json.dumps(content))
    known = {cell.get("id"): cell.get("outputs", []) for cell in stored["cells"]}
    for cell in nb["cells"]:
        cell["source"] = joined(cell["source"])
        if cell["cell_type"] == "code":
            made = outputs.all_kept(cell["outputs"])
            earlier_outputs = known.get(cell.get("id"), [])
            cell["outputs"] = earlier_outputs if shown(earlier_outputs) == shown(made) else made
    return json.loads(notebooks.cleaned(nb))


@dataclass
class First:
    "A notebook as it was read first, and as it was saved last."
    read: dict
    saved: dict


FIRST: dict[Path, First] = {}


def with_joined_lines(content):
    "The same content with each list of lines as one text: Jupyter holds it so, and a file as lines."
    if isinstance(content, dict):
        return {key: with_joined_lines(value) for key, value in content.items()}
    if isinstance(content, list):
        is_text = bool(content) and all(isinstance(line, str) for line in content)
        return "".join(content) if is_text else [with_joined_lines(value) for value in content]
    return content


def first_read(file: Path) -> First:
    """Return what a notebook held before this server saved it.

    While a long notebook runs, Lab saves it without the outputs that are still to come; so these are compared with
    what was read first, unless another program has written the file since."""
    on_disk = json.loads(file.read_text("utf-8")) if file.is_file() else {"cells": []}
    first = FIRST.get(file)
    if first is None or on_disk["cells"] and with_joined_lines(
            json.loads(notebooks.cleaned(on_disk))) != with_joined_lines(first.saved):
        first = FIRST[file] = First(on_disk, {})
    return first


def clean_before_saving(model: dict, path: str, contents_manager, **options) -> None: # as Jupyter calls it
    "Clean a notebook of this project that is about to be saved; any other file is left as it is."
    file = Path(contents_manager.root_dir) / path.strip("/")
    if model["type"] == "notebook" and is_here(file):
        first = first_read(file)
        model["content"] = cleaned(model["content"], first.read)
        first.saved = json.loads(json.dumps(model["content"]))


def settle() -> None:
    "Write Lab's configuration into this environment, and name the kernel."
    kernel = [sys.executable, "-m", "ipykernel", "install", "--prefix", sys.prefix, "--name", "python3",
              "--display-name", "python3"]
    subprocess.run(kernel, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = Path(sys.prefix) / "etc" / "jupyter"
    folder.mkdir(parents=True, exist_ok=True)
    text = CONFIGURATION.format(tools=str(ROOT / "tools"))
    (folder / "jupyter_server_config.py").write_text(text, "utf-8")
    look = Path(sys.prefix) / "share" / "jupyter" / "lab" / "settings"
    look.mkdir(parents=True, exist_ok=True)
    (look / "overrides.json").write_text(json.dumps(LOOK, indent=1), "utf-8")


if __name__ == "__main__":
    settle()
