"""Make README.md from nbs/index.ipynb, which is run first; with --check only say whether README.md is what it would be."""
import argparse, difflib, re, sys
from pathlib import Path

from nbconvert import MarkdownExporter

from notebooks import ROOT, executed, flags, local, plain, relink, without_flags

SOURCE, TARGET = "nbs/index.ipynb", "README.md"
NOTE = f"<!-- Made from {SOURCE} by tools/readme.py: edit the notebook. -->\n\n"

def readable(nb, root: Path = ROOT):
    "The run notebook as a reader sees it: hidden cells gone, `#|` lines gone, links as seen from the root. Raises `SystemExit` for what README.md cannot show."
    def resolve(address):
        target = local(address, posix_folder)
        if target is None: return address
        if not (root / target[0]).exists(): sys.exit(f"{SOURCE}: a link leads to {target[0]}, which does not exist")
        return "".join(target)
    posix_folder = SOURCE.rpartition("/")[0]
    shown = []
    for i, cell in enumerate(nb.cells):
        own = flags(cell)
        if own.keys() & {"hide", "default_exp"} or own.get("include") == "false": continue
        if cell.cell_type == "markdown": cell.source = relink(cell.source, resolve)
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr" and own.get("output") != "false"]
            if any(kind.startswith("image/") for o in cell.outputs for kind in o.get("data", {})):
                sys.exit(f"{SOURCE}: cell {i} shows a picture, and README.md has no place to keep one")
            for o in cell.outputs:
                if "text/markdown" in o.get("data", {}): o["data"]["text/markdown"] = relink("".join(o["data"]["text/markdown"]), resolve)
            cell.source = without_flags(cell.source)
            if own.get("echo") == "false": cell.metadata["transient"] = {"remove_source": True}
        shown.append(cell)
    nb.cells = shown
    return nb

def readme(root: Path = ROOT) -> str:
    "The text of README.md. Raises `SystemExit` when there is no index notebook or when it fails."
    if not (root / SOURCE).is_file(): sys.exit(f"{SOURCE}: there is no such notebook")
    exporter = MarkdownExporter(config={"NbConvertBase": {"display_data_priority": ["text/markdown", "text/plain"]}})
    text, _ = exporter.from_notebook_node(readable(executed(root / SOURCE, root), root))
    text = re.sub(r"[ \t]+$", "", plain(text), flags=re.M)
    return NOTE + re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"

def difference(root: Path = ROOT) -> list[str]:
    "A unified diff from README.md to what the notebook gives; empty when they agree."
    old = (root / TARGET).read_text("utf-8") if (root / TARGET).is_file() else ""
    return list(difflib.unified_diff(old.splitlines(), readme(root).splitlines(), TARGET, SOURCE, lineterm="", n=1))

def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; print the difference and exit with 1 when there is one")
    if not parser.parse_args().check:
        (ROOT / TARGET).write_text(readme(), "utf-8")
        return 0
    found = difference()
    print("\n".join(found) if found else f"{TARGET} is what {SOURCE} gives")
    return bool(found)

if __name__ == "__main__":
    try: sys.exit(main())
    except RuntimeError as e: sys.exit(str(e))
