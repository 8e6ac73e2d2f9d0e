"""What the first commands of README take in a fresh clone: minutes, memory and disk, with all cores. See README.md."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from common import keep, rounded, warning

ROOT = Path(__file__).resolve().parents[1]
STEPS = { # what README calls it -> its command, in the clone
    "`make reports`, the installation included": ["make", "reports"],
    "`make test`": ["make", "test"],
    "one table by papermill": [
        ".venv/bin/papermill", "nbs/papers/itvreg/table03.ipynb", "out.ipynb", "-p", "profile", "planted"],
}


def memory_of(process: psutil.Process) -> int: # bytes
    "Add up what a process and all that it started hold now, each shared page once."
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().pss
        except psutil.Error: # it ended meanwhile
            continue
    return total


def usage(command: list[str], folder: Path) -> dict[str, float]: # minutes, gb
    "Run a command and watch it. Raise `CalledProcessError` where it fails."
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=sys.stderr)
    peaks = [0]
    is_over = threading.Event()

    def watch():
        while not is_over.wait(2):
            peaks.append(memory_of(psutil.Process(process.pid)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    is_over.set()
    watcher.join()
    if code:
        raise subprocess.CalledProcessError(code, command)
    return {"minutes": rounded((time.perf_counter() - start) / 60, 3), "gb": rounded(max(peaks) / 1e9, 3)}


def main() -> int:
    "Clone, run, and print the record; the exit status."
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the record, unless other processes disturbed")
    parser.add_argument("--busy", action="store_true", help="with --write: also on a busy machine; the record says so")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    from debias_nb.runs.origin import environment
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        steps = [{"title": title} | usage(command, clone) for title, command in STEPS.items()]
        disk = subprocess.run(["du", "-sb", clone], check=True, capture_output=True, text=True).stdout.split()[0]
    record = {
        "bench": "first_use", "warning": warning(load), "steps": steps, "disk_gb": rounded(int(disk) / 1e9, 3),
        "environment": environment()}
    print(json.dumps(record))
    return keep(record, Path(__file__).with_suffix(".json"), options.busy) if options.write else 0


if __name__ == "__main__":
    sys.exit(main())
