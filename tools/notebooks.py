"""What the tools share: where the notebooks are, how one is run without being changed, and where its links lead."""
import configparser, os, posixpath, re
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

ROOT = Path(__file__).resolve().parents[1]

def notebooks(root: Path = ROOT) -> list[Path]:
    "Every notebook of the project, in the order of the folders' names; folders that start with `_` or `.` are left out, as nbdev leaves them out."
    found = (p for p in (root / "nbs").rglob("*.ipynb") if not any(part[0] in "_." for part in p.relative_to(root / "nbs").parts[:-1]))
    return sorted(found)

def settings(root: Path = ROOT) -> configparser.SectionProxy:
    "What settings.ini says. (nbdev's own `get_config` always looks above the current folder, whichever path it is given.)"
    parser = configparser.ConfigParser()
    parser.read(root / "settings.ini", "utf-8")
    return parser["DEFAULT"]

def flags(cell) -> dict[str, str]:
    "The `#|` directives of a cell: `{'export': '', 'eval': 'false'}`."
    found = re.findall(r"^\s*#\|\s*([\w-]+):?[ \t]*(.*)$", cell.source, flags=re.M) if cell.cell_type == "code" else []
    return {name: value.strip() for name, value in found}

def without_flags(source: str) -> str: return re.sub(r"^\s*#\|.*\n?", "", source, flags=re.M).strip("\n")

def plain(text: str) -> str:
    "Without the colours of a terminal."
    return re.sub(r"\x1b\[[0-9;]*m", "", text)

def is_skipped(nb) -> bool:
    "Whether the title cell says `- skip_exec: true`, so that nbdev_test leaves the notebook alone."
    title = next((c.source for c in nb.cells if c.cell_type == "markdown" and re.search(r"^# ", c.source, flags=re.M)), "")
    return bool(re.search(r"^-\s+skip_exec:\s*true\s*$", title, flags=re.M))

def executed(path: Path, root: Path = ROOT, timeout: int = 900, prepare=lambda nb: nb):
    "A copy of the notebook with its outputs, run in its own folder as nbdev_test runs it. Raises `RuntimeError` naming a notebook that fails."
    nb = prepare(nbformat.read(path, as_version=4))
    for cell in nb.cells:
        own = flags(cell)
        if own.get("eval") == "false" or own.keys() & set(settings(root)["tst_flags"].split()): cell.metadata.setdefault("tags", []).append("skip-execution")
    client = NotebookClient(nb, timeout=timeout, kernel_name="python3", extra_arguments=["--log-level=40"], resources={"metadata": {"path": str(path.parent)}})
    above = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    try: client.execute(env={**os.environ, "PYTHONPATH": os.pathsep.join(above)})
    except (CellExecutionError, DeadKernelError, TimeoutError) as e:
        raise RuntimeError(f"{path.relative_to(root)}: {plain(str(e)).strip()}") from None
    nb.metadata["language_info"] = {"name": "python"} # a cleaned notebook has none, and its code would be fenced without a language
    return nb

def outside_code(pattern: str, new, markdown: str) -> str:
    "`re.sub` over the parts of `markdown` that are not code."
    return re.sub(rf"(?P<code>^```.*?^```|`[^`\n]*`)|{pattern}", lambda m: m[0] if m["code"] else new(m), markdown, flags=re.S | re.M)

def relink(markdown: str, resolve) -> str:
    "Every link and picture of `markdown` that is not inside code, its address replaced by `resolve(address)`."
    return outside_code(r"\]\((?P<address>[^)\s]+)\)", lambda m: f"]({resolve(m['address'])})", markdown)

def local(address: str, folder: str) -> tuple[str, str] | None:
    "A relative address seen from `folder`, as (path from the project's root, `#part`); None for any other address."
    if re.match(r"[a-z][a-z0-9+.-]*:|//|#|/", address, flags=re.I): return None
    path, hash_, part = address.partition("#")
    return posixpath.normpath(posixpath.join(folder, path)), hash_ + part
