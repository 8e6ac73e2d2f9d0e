"""Run the library notebooks as nbdev tests them, and keep or compare their outputs.

python tools/outputs.py          run every notebook; say where a stored output is not what the run gave
python tools/outputs.py --keep   run every notebook; store what it gave, unless another processor has stored the same

Text is compared with a tolerance for numbers on the family of processors that made it, and by its shape elsewhere:
trained numbers differ between processors. Pictures are compared by presence. Paper notebooks run on the stored records
alone, and tools/sync.py runs them for their pages: here their stored outputs are compared with the pages, byte by byte.
An output whose cell has changed since is refused everywhere. Cells tagged `real` show what published data and encoders are here, and are compared only where the
same files are;
cells tagged `varies` show what no two runs share (a commit, a date), and are compared by their shape; what cells tagged
`timing` print is not stored.
"""
import argparse
import hashlib
import json
import math
import multiprocessing
import multiprocessing.connection
import os
import platform
import re
import sys
import tempfile
import time
from pathlib import Path

from notebooks import ROOT, notebooks, settings

KEPT = ("text/plain", "text/markdown", "text/html", "image/svg+xml", "image/png")
LARGEST = 65_000                # bytes of a picture
RELATIVE, ABSOLUTE = 1e-3, 1e-3 # tolerance of numbers in text
ELSEWHERE = .05                 # and of those that another processor stored: what training makes of its rounding
NUMBER = re.compile(r"[-+−]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")
STAMP = "kept_outputs"          # key of a notebook's metadata: the processor, and the source of each output


def processor() -> str:
    "The family of this machine's processor, as `AuthenticAMD 25/17`."
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    found = [re.search(rf"^{key}\s*:\s*(.+)$", text, re.M) for key in ("vendor_id", "cpu family", "model")]
    maker, family, model = (match[1] if match else "?" for match in found)
    return f"{maker} {family}/{model}"


def digits_of(text: str) -> str:
    "Eight digits that stand for a text."
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def stamp(cell) -> str:
    "Eight digits that stand for the source of a cell."
    return digits_of("".join(cell["source"]))


def joined(value) -> str:
    "Text that is one string, or several."
    return value if isinstance(value, str) else "".join(value)


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


def run(path: Path) -> tuple[Path, list | None, str, float]: # path, outputs by cell, what went wrong, seconds
    "Run a notebook in its own folder, with the cells that nbdev runs."
    from execnb.shell import CaptureShell
    from nbdev.frontmatter import FrontmatterProc
    from nbdev.process import NBProcessor
    os.environ["IN_TEST"] = "1"
    sys.path.insert(0, str(ROOT))
    os.chdir(path.parent)
    nb = NBProcessor(path, procs=FrontmatterProc, process=True).nb
    started = time.monotonic()
    shell = CaptureShell(path, mpl_format="png")
    try:
        shell.run_all(nb, exc_stop=True, preproc=is_left_out)
    except BaseException:
        return path, None, shell.prettytb(fname=path.relative_to(ROOT)), time.monotonic() - started
    outputs = [json.loads(json.dumps(cell.get("outputs", []))) for cell in nb.cells]
    return path, outputs, "", time.monotonic() - started


def name_of(path: Path) -> str: # `paper/experiment`, or of a book
    "What a paper notebook is called."
    return path.relative_to(ROOT / "nbs" / "papers").with_suffix("").as_posix()


def run_paper(path: Path) -> tuple[Path, list | None, str, float]:
    "Run a paper notebook on the stored records, as its page is made: at the richest profile, and nothing is trained."
    from debias_nb.repro.pages.frame import only_stored, profiles_of
    from debias_nb.repro.pages.report import richest, run_cells
    os.chdir(ROOT)
    name = name_of(path)
    parameters = {"profile": richest(name)} if profiles_of(name) else {}
    started = time.monotonic()
    outputs = []
    try:
        with only_stored():
            for _, printed, shown in run_cells(path, parameters):
                made = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
                made += [{"output_type": "display_data", "data": dict(one.data), "metadata": {}} for one in shown]
                outputs.append(made)
    except BaseException as e:
        notes = "; ".join(getattr(e, "__notes__", []))
        return path, None, f"{type(e).__name__}: {e} ({notes})", time.monotonic() - started
    return path, outputs, "", time.monotonic() - started


def is_of_paper(path: Path) -> bool:
    "Whether a notebook is a paper's."
    return path.is_relative_to(ROOT / "nbs" / "papers")


def run_together(paths: list[Path]) -> list[tuple]:
    "What `run` or `run_paper` says of each: of paper notebooks, which read the records once, or of one of the library."
    if not is_of_paper(paths[0]):
        return [run(path) for path in paths]
    from debias_nb.repro.pages.frame import only_stored
    with only_stored():
        return [run_paper(path) for path in paths]


def numbers(text: str) -> list[float]:
    "The numbers of a text in their order; not a number for a version."
    found = []
    for number in NUMBER.findall(text):
        try:
            found.append(float(number.replace("−", "-").replace(",", "")))
        except ValueError: # 1.2.3 is a version
            found.append(math.nan)
    return found


def without_numbers(text: str) -> str:
    "The words of a text: a mark for each number, a space for any space and for the lines that tables draw."
    return re.sub(r"\s+|-{2,}", " ", NUMBER.sub("#", text))


def same_text(old: str, new: str, relative: float = RELATIVE, absolute: float = ABSOLUTE) -> bool:
    "Whether two texts are the same but for small differences of their numbers."
    if without_numbers(old) != without_numbers(new):
        return False
    for before, after in zip(numbers(old), numbers(new)):
        if not (math.isnan(before) or math.isclose(before, after, rel_tol=relative, abs_tol=absolute)):
            return False
    return True


def same_kind(kind: str, old: str, new: str, exactly: bool) -> bool:
    "Whether one kind of output agrees: text by its words and numbers, or by its shape alone; a picture by being there."
    if kind.startswith("image/"):
        return True
    if exactly:
        return same_text(old, new)
    shapes = [(re.findall(r"<th>(.*?)</th>", html), html.count("<tr")) for html in (old, new)]
    return kind != "text/html" or shapes[0] == shapes[1]


def by_kind(output: dict) -> dict[str, str]:
    "The parts of an output as text, by their kind."
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
    return [
        f"{path.relative_to(root)}: {words}" for path in notebooks(root) for words in stale(json.loads(path.read_text("utf-8")))]


def tags(cell) -> list[str]:
    "The tags of a cell."
    return cell["metadata"].get("tags", [])


def data_here() -> str:
    "Eight digits that stand for the files in the folders of data and encoders; empty where neither is set."
    folders = filter(None, map(os.environ.get, ("DEBIAS_NB_DATA", "DEBIAS_NB_MODELS")))
    files = [
        f"{path.relative_to(folder)} {path.stat().st_size}"
        for folder in folders for path in Path(folder).rglob("*") if path.is_file()]
    return digits_of("\n".join(sorted(files))) if files else ""


def is_left_as_it_is(cell, same_data: bool) -> bool:
    """Whether nothing can be said here of a cell's outputs.
    same_data: whether data are here as when they were stored; to store them, whether there are any."""
    return cell["cell_type"] != "code" or "timing" in tags(cell) or ("real" in tags(cell) and not same_data)


def compared(path: Path, outputs: list) -> list[str]:
    "Where the stored outputs of a notebook are not what a run gave."
    nb = json.loads(path.read_text("utf-8"))
    stored = nb["metadata"].get(STAMP, {})
    exactly = stored.get("processor") == processor()
    same_data = stored.get("data") == data_here()
    found = stale(nb)
    for n, (cell, new) in enumerate(zip(nb["cells"], outputs)):
        if is_left_as_it_is(cell, same_data):
            continue
        words = differs(cell["outputs"], all_kept(new), exactly and "varies" not in tags(cell))
        if words:
            found.append(f"cell {n} ({cell['id']}): {words}")
    return found


PROFILE = re.compile(r'(?m)^(profile: str = )"\w+"') # in the cell of parameters


def name_profile(path: Path, nb: dict) -> str: # path: of a paper notebook
    "Its cell of parameters names the profile whose page is stored. What was named instead; empty where that was right."
    from debias_nb.repro.pages.frame import profiles_of
    from debias_nb.repro.pages.report import richest
    name = name_of(path)
    for cell in nb["cells"]:
        source = joined(cell["source"])
        found = PROFILE.search(source)
        if "parameters" in tags(cell) and found and profiles_of(name):
            named = PROFILE.sub(rf'\1"{richest(name)}"', source)
            if named != source:
                cell["source"] = named.splitlines(keepends=True)
                return found[0]
    return ""


ALT = re.compile(r"!\[[^\]]*\]") # what is told of a figure; outputs are stored without it


def page_of_stored(path: Path) -> dict[str, bytes]: # file -> content
    "The page that the stored outputs of a paper notebook make, with its figures."
    from debias_nb.repro.pages.report import Shown, files_of, on_page, shown_output
    shown = []
    cells = json.loads(path.read_text("utf-8"))["cells"]
    for cell in cells:
        if cell["cell_type"] == "markdown":
            shown.append(Shown("text/markdown", joined(cell["source"])))
        for output in cell.get("outputs", []):
            data = by_kind(output)
            printed = data.pop("stream", None)
            shown.append(shown_output(data) if printed is None else Shown("text/plain", printed))
    return files_of(name_of(path), on_page(cells, shown))


def compared_with_page(path: Path) -> list[str]:
    "Where the stored outputs of a paper notebook are not what its page in reports/ shows."
    from debias_nb.repro.pages.report import page_path
    nb = json.loads(path.read_text("utf-8"))
    found = stale(nb)
    wrong = name_profile(path, nb)
    if wrong:
        found.append(f"its parameters say {wrong}, which is not the profile of its page")
    folder = page_path(name_of(path)).parent
    for file, made in page_of_stored(path).items():
        page = ROOT / "reports" / folder / file
        where = page.relative_to(ROOT)
        if not page.is_file():
            found.append(f"{where}: there is no such page")
        elif file.endswith(".svg"):
            if page.read_bytes() != made:
                found.append(f"{where}: the stored picture is another one")
        elif ALT.sub("![]", page.read_text("utf-8")) != ALT.sub("![]", made.decode()):
            found.append(f"{where}: the stored outputs make another page")
    return found


def says_the_same(nb: dict, outputs: list) -> bool:
    """Whether what another processor stored in a notebook of the library may stay: no cell has been edited since, none
    shows more or less than it did, and numbers differ as they do between processors."""
    if nb["metadata"].get(STAMP, {}).get("processor", processor()) == processor() or stale(nb):
        return False
    for cell, new in zip(nb["cells"], outputs):
        if is_left_as_it_is(cell, bool(data_here())):
            continue
        made = all_kept(new)
        if differs(cell["outputs"], made, exactly=False):
            return False
        for one, other in zip(map(by_kind, cell["outputs"]), map(by_kind, made)):
            texts = [kind for kind in one if not kind.startswith("image/") and "varies" not in tags(cell)]
            if not all(same_text(one[kind], other[kind], ELSEWHERE, ELSEWHERE) for kind in texts):
                return False
    return True


def keep(path: Path, outputs: list) -> list[str]:
    "Store what a run gave, unless another processor has stored the same. Refuses a picture that is too large."
    from execnb.nbio import nb2str
    nb = json.loads(path.read_text("utf-8"))
    if is_of_paper(path):
        name_profile(path, nb)
    elif says_the_same(nb, outputs):
        return []
    stored = json.dumps(nb["cells"])
    by = nb["metadata"].get(STAMP, {}).get("processor")
    refused = []
    data = data_here() or nb["metadata"].get(STAMP, {}).get("data", "")
    for n, (cell, new) in enumerate(zip(nb["cells"], outputs)):
        if is_left_as_it_is(cell, bool(data_here())):
            continue
        cell["outputs"] = all_kept(new)
        for output in cell["outputs"]:
            sizes = [len(v) for kind, v in by_kind(output).items() if kind.startswith("image/")]
            if sizes and max(sizes) > LARGEST:
                refused.append(f"cell {n} ({cell['id']}): a picture of {max(sizes):,} bytes")
    sources = {cell["id"]: stamp(cell) for cell in nb["cells"] if cell["cell_type"] == "code" and cell["outputs"]}
    nb["metadata"].pop(STAMP, None)
    if sources:
        is_same = by and json.dumps(nb["cells"]) == stored # whichever processor says it
        nb["metadata"][STAMP] = {"processor": by if is_same else processor(), "sources": sources}
        if any("real" in tags(cell) for cell in nb["cells"]): # its outputs depend on the data
            nb["metadata"][STAMP]["data"] = data
    path.write_text(nb2str(nb), "utf-8")
    return refused


def _send(sender, group: list[Path]) -> None: # in a process of its own
    sender.send(run_together(group))


def run_apart(groups: list[list[Path]], workers: int): # yields what `run_together` gives of each group, as it comes
    """Each group in a process of its own, since a notebook's `__main__` takes the place of this one. All are forked from
    this thread: a pool forks from another one, and a lock that a third one holds just then stays shut in the new process."""
    context = multiprocessing.get_context("fork")
    waiting = list(groups)
    running = {} # the end of a pipe -> process and group
    while waiting or running:
        while waiting and len(running) < workers:
            group = waiting.pop(0)
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_send, args=(sender, group))
            process.start()
            sender.close()
            running[receiver] = process, group
        for receiver in multiprocessing.connection.wait(list(running)):
            process, group = running.pop(receiver)
            try:
                yield receiver.recv()
            except EOFError: # nothing was sent
                process.join()
                why = f"its process ended with {process.exitcode}"
                yield [(path, None, why, 0.) for path in group]
            process.join()


def told(path: Path, found: list[str], seconds: float) -> None:
    "Print what came of a notebook."
    said = "".join(f"\n    {finding}" for finding in found)
    print(f"{'failed' if found else 'ok':<7}{seconds:6.1f} s  {path.relative_to(ROOT)}{said}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", help="some notebooks; default: all")
    parser.add_argument("--keep", action="store_true", help="store the outputs")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    wanted = {Path(name).resolve() for name in args.notebooks}
    paths = [path for path in notebooks() if not wanted or path in wanted]
    if not paths:
        parser.error("no such notebook is run")
    if len(paths) > 1: # each process has the libraries, and need not load them again
        from debias_nb.repro.runs.runner import settle_libraries
        settle_libraries()
    look = keep if args.keep else compared
    wrong = 0
    papers = [path for path in paths if is_of_paper(path)]
    groups = [[path] for path in paths if path not in papers] # each alone, since it trains and sets things
    if papers and args.keep: # together, and first, since they take longest
        groups.insert(0, papers)
    for done in run_apart(groups, args.workers):
        for path, outputs, error, seconds in done:
            found = [error] if outputs is None else look(path, outputs)
            wrong += bool(found)
            told(path, found, seconds)
    if papers and not args.keep:
        from debias_nb.repro.pages.frame import only_stored
        with only_stored(short=True): # records are read once
            for path in papers:
                started = time.monotonic()
                found = compared_with_page(path)
                wrong += bool(found)
                told(path, found, time.monotonic() - started)
    print(f"{len(paths) - wrong} passed, {wrong} failed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
