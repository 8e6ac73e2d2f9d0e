"""What JupyterLab is told in the environment of this project: `python tools/lab.py [FOLDER]`, or `make venv`.

Opening a notebook, reading it and closing it changes no byte, and neither does running a paper notebook whose numbers
are those that it has stored: Lab writes counts, times and the version of Python into what it saves, and here they are
taken out again, as nbdev_clean takes them out. The kernel has the name that nbdev writes into notebooks.
"""
import json
import subprocess
import sys
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
from lab import clean_before_saving
c.FileContentsManager.pre_save_hook = clean_before_saving
"""


def is_here(file: Path) -> bool:
    "Whether a file is one of this project's notebooks."
    return file.suffix == ".ipynb" and file.is_relative_to(ROOT / "nbs")


def cleaned(content: dict) -> dict: # of a notebook
    "The notebook as notebooks.py cleans it, with the outputs that outputs.py keeps."
    nb = json.loads(json.dumps(content))
    for cell in nb["cells"]:
        cell["source"] = joined(cell["source"])
        if cell["cell_type"] == "code":
            cell["outputs"] = outputs.all_kept(cell["outputs"])
    return json.loads(notebooks.cleaned(nb))


def clean_before_saving(model: dict, path: str, contents_manager, **more) -> None: # as Jupyter calls it
    "Clean a notebook of this project that is about to be saved; any other file is left as it is."
    file = Path(contents_manager.root_dir) / path.strip("/")
    if model["type"] == "notebook" and is_here(file):
        model["content"] = cleaned(model["content"])


def settle(prefix: Path = Path(sys.prefix)) -> None: # prefix: of an environment
    "Write Lab's configuration into an environment, and name the kernel."
    kernel = [sys.executable, "-m", "ipykernel", "install", "--prefix", str(prefix), "--name", "python3",
              "--display-name", "python3"]
    subprocess.run(kernel, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = prefix / "etc" / "jupyter"
    folder.mkdir(parents=True, exist_ok=True)
    text = CONFIGURATION.format(tools=str(ROOT / "tools"))
    (folder / "jupyter_server_config.py").write_text(text, "utf-8")


if __name__ == "__main__":
    settle(*map(Path, sys.argv[1:]))
