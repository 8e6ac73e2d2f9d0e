"""Run notebooks and keep what they show.

python tools/outputs.py                        run every notebook of the library; fails where a cell raises
python tools/outputs.py --keep [NOTEBOOK...]   run these, or all of the library, and store their outputs
python tools/outputs.py --papers [NOTEBOOK...] make the pages of papers, and store the outputs of their notebooks;
                                               with some named, the pages of these and those that sum them up

Those of the library run as nbdev tests them; those of papers on the stored records alone, so that nothing is trained.
Cells tagged `real` show what published data and encoders are here, and are stored where there are some; what cells
tagged `timing` print is not stored.
"""
import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import re
import sys
import tempfile
import time
from pathlib import Path

from notebooks import ROOT, cleaned, is_of_paper, joined, notebooks, settings

KEPT = ("text/plain", "text/markdown", "text/html", "image/svg+xml", "image/png")
LARGEST = 65_000                # bytes of a picture
PAPERS = ROOT / "nbs" / "papers"


def without_paths(text: str) -> str:
    "Text in which this machine's folders have no names."
    places = [str(ROOT), os.environ.get("DEBIAS_NB_DATA"), os.environ.get("DEBIAS_NB_MODELS"), str(Path.home())]
    for place in sorted(filter(None, places), key=len, reverse=True): # one may begin as another does
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
    if "application/vnd.jupyter.widget-view+json" in output.get("data", {}): # a bar of Lab's
        return None
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


def all_kept(outputs: list[dict]) -> list[dict]:
    "The outputs of a cell as they are stored."
    return [output for output in map(kept, outputs) if output]


def is_left_out(cell) -> bool:
    "Whether nbdev does not run a cell as a test."
    flags = getattr(cell, "directives_", None) or {}
    off = flags.get("eval:", [""])[0].lower() == "false"
    left_out = set(settings()["tst_flags"].split())
    return cell.cell_type != "code" or off or "nbdev_export(" in cell.source or bool(left_out & flags.keys())


def is_exported(cell) -> bool:
    "Whether a cell is a part of the module."
    return any(name.startswith("export") for name in getattr(cell, "directives_", None) or {})


def run(path: Path, exported: dict | None = None) -> tuple[Path, list | None, str, float]:
    """Run a notebook in its own folder, with the cells that nbdev runs; with names in place of those that it exports.

    Return path, outputs by cell, what went wrong, and seconds."""
    from execnb.shell import CaptureShell
    from nbdev.frontmatter import FrontmatterProc
    from nbdev.process import NBProcessor
    os.environ["IN_TEST"] = "1"
    sys.path.insert(0, str(ROOT))
    os.chdir(path.parent)
    nb = NBProcessor(path, procs=FrontmatterProc, process=True).nb
    for cell in nb.cells:
        if not is_left_out(cell):
            cell.outputs = [] # the shell leaves those of before where a cell shows nothing
    started = time.monotonic()
    shell = CaptureShell(path, mpl_format="png")
    shell.user_ns.update({name: value for name, value in (exported or {}).items() if not name.startswith("__")})
    try:
        shell.run_all(nb, exc_stop=True, preproc=lambda cell: is_left_out(cell) or exported and is_exported(cell))
    except BaseException:
        return path, None, shell.prettytb(fname=path.relative_to(ROOT)), time.monotonic() - started
    outputs = [json.loads(json.dumps(cell.get("outputs", []))) for cell in nb.cells]
    return path, outputs, "", time.monotonic() - started


def tags(cell) -> list[str]:
    "The tags of a cell."
    return cell["metadata"].get("tags", [])


def page_name(path: Path) -> str:
    "Return what the page of a paper's notebook is called, such as `itvreg/table03`."
    return path.relative_to(PAPERS).with_suffix("").as_posix()


PROFILE = re.compile(r'(?m)^(profile: str = )"\w+"') # in the cell of parameters


def keep_paper(path: Path, executed) -> None: # executed: as papermill returns it, with the cell that it adds
    "Store what a paper notebook showed when its page was made, with the profile of the page in its cell of parameters."
    outputs = [cell.get("outputs", []) for cell in executed.cells if "injected-parameters" not in tags(cell)]
    profile = executed.metadata.papermill.parameters.get("profile")
    nb = json.loads(path.read_text("utf-8"))
    for cell in nb["cells"]:
        if "parameters" in tags(cell) and profile:
            cell["source"] = PROFILE.sub(rf'\1"{profile}"', joined(cell["source"])).splitlines(keepends=True)
    for refused in store(path, nb, outputs):
        raise ValueError(f"{path}: {refused}")


def is_kept(cell) -> bool:
    "Whether the outputs of a cell are stored here."
    there_are_data = os.environ.get("DEBIAS_NB_DATA") or os.environ.get("DEBIAS_NB_MODELS")
    return (cell["cell_type"] == "code" and "timing" not in tags(cell)
            and ("real" not in tags(cell) or bool(there_are_data)))


def store(path: Path, nb: dict, outputs: list) -> list[str]:
    "Store what a notebook's cells showed. Tells which pictures are too large."
    refused = []
    for n, (cell, new) in enumerate(zip(nb["cells"], outputs)):
        if not is_kept(cell):
            continue
        cell["outputs"] = all_kept(new)
        pictures = [value for output in cell["outputs"] for kind, value in output.get("data", {}).items()
                    if kind == "image/png"]
        if max(map(len, pictures), default=0) > LARGEST:
            refused.append(f"cell {n} ({cell['id']}): a picture of {max(map(len, pictures)):,} bytes")
    path.write_text(cleaned(nb), "utf-8")
    return refused


def _send(sender, path: Path, cores: int) -> None: # in a process of its own
    from joblib.externals.loky import get_reusable_executor
    # with one core it trains here, and starts no further processes
    os.environ.setdefault("LOKY_MAX_CPU_COUNT", str(cores))
    sender.send(run(path))
    # else their end is waited for, five minutes after the last task
    get_reusable_executor(reuse=True).shutdown(kill_workers=True)


def load_libraries() -> None:
    "Import what every notebook needs, so that the processes that are forked from this one need not."
    import execnb.shell, matplotlib.pyplot, nbdev.process # noqa: E401, F401
    from debias_nb.runs.runner import settle_libraries
    settle_libraries() # last: it exempts what is in memory by then from garbage collection


def run_apart(paths: list[Path], workers: int): # yields what `run` gives of each, as it comes
    """Each notebook in a process of its own, since a notebook's `__main__` takes the place of this one.

    All are forked from this thread: a pool forks from another one, and a lock that a third one holds just then stays
    shut in the new process."""
    context = multiprocessing.get_context("fork")
    cores = max(1, len(os.sched_getaffinity(0)) // workers)
    waiting = list(paths)
    running = {} # the end of a pipe -> process and notebook
    while waiting or running:
        while waiting and len(running) < workers:
            path = waiting.pop(0)
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_send, args=(sender, path, cores))
            process.start()
            sender.close()
            running[receiver] = process, path
        for receiver in multiprocessing.connection.wait(list(running)):
            process, path = running.pop(receiver)
            try:
                yield receiver.recv()
            except EOFError: # nothing was sent
                process.join()
                yield path, None, f"its process ended with {process.exitcode}", 0.
            process.join()


def told(path: Path, found: list[str], seconds: float) -> None:
    "Print what came of a notebook."
    said = "".join(f"\n    {finding}" for finding in found)
    print(f"{'failed' if found else 'ok':<7}{seconds:6.1f} s  {path.relative_to(ROOT)}{said}", flush=True)


def make_pages(paths: list[Path] | None) -> None:
    """Make the pages of these notebooks of papers, and those that sum them up; with None, all of them.

    Where none of the notebooks is a paper's, no page follows from them."""
    from debias_nb.papers.commands.reproduction import write_pages
    from debias_nb.papers.pages.report import BOOKS
    if paths is None:
        write_pages(None, ROOT / "reports", False, ROOT, keep_paper)
        return
    names = [page_name(path) for path in paths if is_of_paper(path)]
    if names:
        write_pages([*names, *BOOKS], ROOT / "reports", False, ROOT, keep_paper)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", help="some notebooks; default: all of the library")
    parser.add_argument("--keep", action="store_true", help="store the outputs")
    parser.add_argument("--papers", action="store_true",
                        help="make the pages of papers, and store the outputs of their notebooks")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    known = notebooks()
    asked = [Path(name).resolve() for name in args.notebooks] or known
    for path in asked:
        if path not in known:
            parser.error(f"{path} is no notebook of this project")
    if args.papers:
        make_pages(asked if args.notebooks else None)
        return 0
    paths = [path for path in asked if not is_of_paper(path)]
    if len(paths) > 1:
        load_libraries()
    wrong = 0
    for path, outputs, error, seconds in run_apart(paths, min(args.workers, len(paths)) or 1):
        found = [error] if outputs is None else []
        if args.keep and not found:
            found = store(path, json.loads(path.read_text("utf-8")), outputs)
        wrong += bool(found)
        told(path, found, seconds)
    print(f"{len(paths) - wrong} passed, {wrong} failed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
