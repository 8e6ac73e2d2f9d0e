"""Run the library notebooks as nbdev tests them, and keep or compare their outputs.

python tools/outputs.py          run every notebook; say where a stored output is not what the run gave
python tools/outputs.py --keep   run every notebook; store what it gave

Text is compared with a tolerance for numbers on the family of processors that made it, and by its shape elsewhere:
trained numbers differ between processors. Paper notebooks run on the stored records alone, and are compared with the
tolerance everywhere. Pictures are compared by presence. An output whose cell has changed since is
refused everywhere. Cells tagged `real` show what published data and encoders are here, and are compared only where the
same files are;
cells tagged `varies` show what no two runs share (a commit, a date), and are compared by their shape; what cells tagged
`timing` print is not stored.
"""
import argparse
import hashlib
import json
import math
import multiprocessing
import os
import re
import sys
import tempfile
import time
from pathlib import Path

from notebooks import ROOT, notebooks, settings

KEPT = ("text/plain", "text/markdown", "text/html", "image/svg+xml", "image/png")
LARGEST = 60_000                # bytes of a picture
RELATIVE, ABSOLUTE = 1e-3, 1e-3 # tolerance of numbers in text
NUMBER = re.compile(r"[-+−]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")
STAMP = "kept_outputs"          # key of a notebook's metadata: the processor, and the source of each output


def processor() -> str:
    "The family of this machine's processor, as `AuthenticAMD 25/17`."
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        import platform
        return platform.processor() or platform.machine()
    found = {}
    for key in ("vendor_id", "cpu family", "model"):
        match = re.search(rf"^{key}\s*:\s*(.+)$", text, re.M)
        found[key] = match[1] if match else "?"
    return f"{found['vendor_id']} {found['cpu family']}/{found['model']}"


def source_of(cell) -> str:
    return "".join(cell["source"])


def stamp(cell) -> str:
    "Eight digits that stand for the source of a cell."
    return hashlib.sha256(source_of(cell).encode()).hexdigest()[:8]


def joined(value) -> str:
    return value if isinstance(value, str) else "".join(value)


def without_paths(text: str) -> str:
    "Text in which this machine's folders have no names."
    places = [str(ROOT), os.environ.get("DEBIAS_NB_DATA"), os.environ.get("DEBIAS_NB_MODELS"), str(Path.home())]
    for place in filter(None, places):
        text = text.replace(place, "…")
    text = re.sub(r"\bT_[0-9a-f]{5}", "T_", text) # the name that pandas gives a styled table is drawn
    text = re.sub(r" at 0x[0-9a-f]+>", ">", text)
    return re.sub(re.escape(tempfile.gettempdir()) + r"/[\w.-]+", "…", text)


def kept(output: dict) -> dict | None:
    "An output as it is stored; None for one that is not."
    if output["output_type"] == "stream":
        if output["name"] != "stdout":
            return None
        text = without_paths(joined(output["text"]))
        return {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
    data = {}
    for kind, value in output.get("data", {}).items():
        if kind in KEPT:
            value = joined(value)
            data[kind] = value if kind == "image/png" else without_paths(value).splitlines(keepends=True)
    if not data:
        return None
    stored = {"data": data, "metadata": {}, "output_type": output["output_type"]}
    if output["output_type"] == "execute_result":
        stored["execution_count"] = None
    return stored


def run(path: Path) -> tuple[Path, list | None, str, float]: # path, outputs by cell, what went wrong, seconds
    "Run a notebook in its own folder, with the cells that nbdev runs."
    from execnb.shell import CaptureShell
    from nbdev.frontmatter import FrontmatterProc
    from nbdev.process import NBProcessor
    os.environ["IN_TEST"] = "1"
    sys.path.insert(0, str(ROOT))
    os.chdir(path.parent)
    nb = NBProcessor(path, procs=FrontmatterProc, process=True).nb
    left_out = set(settings()["tst_flags"].split())

    def is_left_out(cell):
        flags = getattr(cell, "directives_", None) or {}
        off = flags.get("eval:", [""])[0].lower() == "false"
        return cell.cell_type != "code" or off or "nbdev_export(" in cell.source or bool(left_out & flags.keys())

    started = time.monotonic()
    shell = CaptureShell(path, mpl_format="png")
    try:
        shell.run_all(nb, exc_stop=True, preproc=is_left_out)
    except BaseException:
        return path, None, shell.prettytb(fname=path.relative_to(ROOT)), time.monotonic() - started
    outputs = [json.loads(json.dumps(cell.get("outputs", []))) for cell in nb.cells]
    return path, outputs, "", time.monotonic() - started


def run_paper(path: Path) -> tuple[Path, list | None, str, float]:
    "Run a paper notebook on the stored records, as its page is made: at the richest profile, and nothing is trained."
    from debias_nb.repro.frame import only_stored
    from debias_nb.repro.pages import pages, richest, run_cells
    os.chdir(ROOT)
    name = path.relative_to(ROOT / "nbs" / "papers").with_suffix("").as_posix()
    has_runs = "/" in name and name in pages(name.partition("/")[0])
    parameters = {"profile": richest(name)} if has_runs else {}
    started = time.monotonic()
    outputs = []
    try:
        with only_stored():
            for _, printed, shown in run_cells(path, parameters):
                made = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
                made += [{"output_type": "display_data", "data": dict(o.data), "metadata": {}} for o in shown]
                outputs.append(made)
    except BaseException as e:
        notes = "; ".join(getattr(e, "__notes__", []))
        return path, None, f"{type(e).__name__}: {e} ({notes})", time.monotonic() - started
    return path, outputs, "", time.monotonic() - started


def is_of_paper(path: Path) -> bool:
    return path.is_relative_to(ROOT / "nbs" / "papers")


def run_together(paths: list[Path]) -> list[tuple]: # paper notebooks, which read the records once; or one of the library
    "What `run` or `run_paper` says of each."
    if not is_of_paper(paths[0]):
        return [run(path) for path in paths]
    from debias_nb.repro.frame import only_stored
    with only_stored():
        return [run_paper(path) for path in paths]


def groups_of(paths: list[Path]) -> list[list[Path]]:
    "Paper notebooks together, and first, since they take longest; each of the library alone, since it trains and sets things."
    papers = [path for path in paths if is_of_paper(path)]
    alone = [[path] for path in paths if not is_of_paper(path)]
    return [papers, *alone] if papers else alone


def numbers(text: str) -> list[float]:
    found = []
    for number in NUMBER.findall(text):
        try:
            found.append(float(number.replace("−", "-").replace(",", "")))
        except ValueError: # 1.2.3 is a version
            found.append(math.nan)
    return found


def same_text(old: str, new: str) -> bool:
    "Whether two texts are the same but for small differences of their numbers."
    squeeze = re.compile(r"\s+|-{2,}")
    if squeeze.sub(" ", NUMBER.sub("#", old)) != squeeze.sub(" ", NUMBER.sub("#", new)):
        return False
    pairs = zip(numbers(old), numbers(new))
    return all(math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE) or math.isnan(a) for a, b in pairs)


def headings(html: str) -> list[str]:
    return re.findall(r"<th>(.*?)</th>", html)


def same_kind(kind: str, old: str, new: str, exactly: bool) -> bool:
    "Whether one kind of output agrees: text by its words and numbers, or by its shape alone; a picture by being there."
    if kind.startswith("image/"):
        return True
    if exactly:
        return same_text(old, new)
    if kind == "text/html":
        return headings(old) == headings(new) and old.count("<tr") == new.count("<tr")
    return True


def by_kind(output: dict) -> dict[str, str]:
    data = output.get("data", {"stream": output.get("text", "")})
    return {kind: joined(value) for kind, value in data.items()}


def differs(old: list, new: list, exactly: bool) -> str:
    "What differs between the stored and the new outputs of a cell, in words; empty where nothing does."
    if len(old) != len(new):
        return f"{len(old)} outputs are stored, {len(new)} were made"
    for one, other in zip(map(by_kind, old), map(by_kind, new)):
        if one.keys() != other.keys():
            return f"{', '.join(one)} is stored, {', '.join(other)} was made"
        for kind in one:
            if not same_kind(kind, one[kind], other[kind], exactly):
                return f"{kind} differs:\n      stored: {one[kind][:300]!r}\n      made:   {other[kind][:300]!r}"
    return ""


def stale(nb: dict) -> list[str]:
    "The cells whose stored outputs belong to another source."
    known = nb["metadata"].get(STAMP, {}).get("sources", {})
    found = []
    for n, cell in enumerate(nb["cells"]):
        if cell["cell_type"] == "code" and cell["outputs"] and known.get(cell["id"]) != stamp(cell):
            found.append(f"cell {n} ({cell['id']}): its output belongs to another source")
    return found


def stale_outputs(root: Path = ROOT) -> list[str]:
    "The stale cells of all notebooks. Nothing is run."
    found = []
    for path in notebooks(root):
        nb = json.loads(path.read_text("utf-8"))
        found += [f"{path.relative_to(root)}: {words}" for words in stale(nb)]
    return found


def tags(cell) -> list[str]:
    return cell["metadata"].get("tags", [])


def data_here() -> str:
    "Eight digits that stand for the files in the folders of data and encoders; empty where neither is set."
    folders = [Path(os.environ[name]) for name in ("DEBIAS_NB_DATA", "DEBIAS_NB_MODELS") if os.environ.get(name)]
    files = [f"{p.relative_to(folder)} {p.stat().st_size}" for folder in folders for p in folder.rglob("*") if p.is_file()]
    return hashlib.sha256("\n".join(sorted(files)).encode()).hexdigest()[:8] if files else ""


def is_left_as_it_is(cell, same_data: bool) -> bool: # same_data: as when the outputs were stored; to store, any data
    "Whether nothing can be said here of a cell's outputs."
    return cell["cell_type"] != "code" or "timing" in tags(cell) or ("real" in tags(cell) and not same_data)


def compared(path: Path, outputs: list) -> list[str]:
    "Where the stored outputs of a notebook are not what a run gave."
    nb = json.loads(path.read_text("utf-8"))
    exactly = is_of_paper(path) or nb["metadata"].get(STAMP, {}).get("processor") == processor()
    same_data = nb["metadata"].get(STAMP, {}).get("data") == data_here()
    found = stale(nb)
    for n, (cell, new) in enumerate(zip(nb["cells"], outputs)):
        if is_left_as_it_is(cell, same_data):
            continue
        words = differs(cell["outputs"], [o for o in map(kept, new) if o], exactly and "varies" not in tags(cell))
        if words:
            found.append(f"cell {n} ({cell['id']}): {words}")
    return found


def stamped(nb: dict, data: str) -> dict: # data: of `data_here`, where the outputs depend on it
    "A notebook with the metadata that says where its outputs are from."
    sources = {cell["id"]: stamp(cell) for cell in nb["cells"] if cell["cell_type"] == "code" and cell["outputs"]}
    nb["metadata"].pop(STAMP, None)
    if sources:
        nb["metadata"][STAMP] = {"processor": processor(), "sources": sources}
        if any("real" in tags(cell) for cell in nb["cells"]):
            nb["metadata"][STAMP]["data"] = data
    return nb


def keep(path: Path, outputs: list) -> list[str]:
    "Store what a run gave. Refuses a picture that is too large."
    from execnb.nbio import nb2str
    nb = json.loads(path.read_text("utf-8"))
    refused = []
    data = data_here() or nb["metadata"].get(STAMP, {}).get("data", "")
    for n, (cell, new) in enumerate(zip(nb["cells"], outputs)):
        if is_left_as_it_is(cell, bool(data_here())):
            continue
        cell["outputs"] = [o for o in map(kept, new) if o]
        for output in cell["outputs"]:
            sizes = [len(v) for kind, v in by_kind(output).items() if kind.startswith("image/")]
            if sizes and max(sizes) > LARGEST:
                refused.append(f"cell {n} ({cell['id']}): a picture of {max(sizes):,} bytes")
    path.write_text(nb2str(stamped(nb, data)), "utf-8")
    return refused


def warm() -> None:
    "Import what most notebooks import, so that each process has it."
    import datasets, sentence_transformers, torch, transformers # noqa: E401, F401


def chosen(names: list[str]) -> list[Path]:
    "The notebooks that are run: all but the index, which shows what README.md checks, or those that are named."
    found = [path for path in notebooks() if path.name != "index.ipynb"]
    if names:
        wanted = {Path(name).resolve() for name in names}
        found = [path for path in found if path in wanted]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", help="some notebooks; default: all")
    parser.add_argument("--keep", action="store_true", help="store the outputs")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    paths = chosen(args.notebooks)
    if not paths:
        parser.error("no such notebook is run")
    if len(paths) > 1:
        warm()
    wrong = 0
    context = multiprocessing.get_context("fork")
    with context.Pool(args.workers, maxtasksperchild=1) as pool: # a notebook's `__main__` takes the place of this one
        for done in pool.imap_unordered(run_together, groups_of(paths), chunksize=1):
            for path, outputs, error, seconds in done:
                name = path.relative_to(ROOT)
                found = [error] if outputs is None else (keep if args.keep else compared)(path, outputs)
                wrong += bool(found)
                print(f"{'failed' if found else 'ok':<7}{seconds:6.1f} s  {name}" + "".join(f"\n    {f}" for f in found), flush=True)
    print(f"{len(paths) - wrong} passed, {wrong} failed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
