"""What the benches share: variants that take turns, medians with quartiles, and no numbers that others disturbed. See README.md."""
import argparse, json, os, statistics, sys, time
from dataclasses import dataclass
from pathlib import Path

THREADS = 1 # of every bench
LOAD = 1.5  # processes ready to run at the start, for each thread that a bench needs: above it others disturb
SHARE = .95 # of the time in which a bench must have had a core: below it others came along later

def one_thread():
    "torch, imported later, reads these once; waiting threads sleep instead of spinning."
    os.environ["OMP_NUM_THREADS"] = str(THREADS)
    for name, value in {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "TOKENIZERS_PARALLELISM": "false"}.items(): os.environ.setdefault(name, value)

def default_encoders() -> list[str]:
    "The planted ones, and the static ones that lie under DEBIAS_NB_MODELS."
    from debias_nb.encoders import encoder_cards
    root = os.environ.get("DEBIAS_NB_MODELS")
    return ["tiny", "tiny-static", *(n for n, card in encoder_cards().items() if root and card.kind == "static" and (Path(root) / n).is_dir())]

# ---------------------------------------------------------------- measuring

def spread(values) -> dict: # median and quartiles
    q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {k: float(f"{v:.4g}") for k, v in (("median", median), ("q1", q1), ("q3", q3))}

def rounds(names, run, repeats, say) -> list[dict]: # of each round: name -> what `run(name)` returned
    "All variants in turn, `repeats` times; each round begins with another variant, and the first round is thrown away."
    kept = []
    for i in range(-1, repeats): # round -1 warms up
        turn = [names[(i + j) % len(names)] for j in range(len(names))]
        results = {name: run(name) for name in turn}
        if i >= 0: kept.append(results)
        say(f"round {i + 1} of {repeats}")
    return kept

def seconds(run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start

@dataclass
class Meter:
    "Wall and CPU time of what is measured, added up."
    wall: float = 0.
    cpu: float = 0.

    def __enter__(self): self.wall, self.cpu = self.wall - time.perf_counter(), self.cpu - time.process_time(); return self
    def __exit__(self, *_): self.wall, self.cpu = self.wall + time.perf_counter(), self.cpu + time.process_time()
    @property
    def share(self) -> float: return self.cpu / self.wall # of the time in which this process had a core

# ---------------------------------------------------------------- saying

def warning(load: float, share: float = 1., threads: int = THREADS) -> str | None: # load: average of the minute before; share: CPU time by wall time
    "Why the numbers must not be quoted; None if they may."
    why = [f"the load average was {load:.2f} at the start, above {LOAD * threads:g}"] if load > LOAD * threads else []
    if share < SHARE: why.append(f"this process had a core for {share:.0%} of the time only, less than {SHARE:.0%}")
    return f"other processes disturbed, do not quote these numbers: {' and '.join(why)}" if why else None

def cell(s: dict) -> str: return f"{s['median']:.4g} [{s['q1']:.4g}, {s['q3']:.4g}]"

def table(head, rows) -> str:
    widths = [max(len(r[i]) for r in (head, *rows)) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in (head, tuple("-" * w for w in widths), *rows))

def keep(record: dict, path: Path) -> int: # exit status
    "Write a record that may be quoted."
    if record["warning"]: print(f"nothing was written: {record['warning']}", file=sys.stderr); return 1
    path.write_text(json.dumps(record) + "\n", "utf-8")
    return 0

def finish(path: Path, note: str, write: bool, load: float, meter: Meter, settings: dict, results: dict) -> int: # load: average at the start
    "Print the record as the last line, and keep it if that is wanted."
    from debias_nb.records import environment
    why = warning(load, meter.share)
    record = {"bench": path.stem, "warning": why, "load": {"start": round(load, 2), "end": round(os.getloadavg()[0], 2)}, "cpu_share": round(meter.share, 3), "threads": THREADS,
              "omp": {k: os.environ.get(k) for k in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}, "settings": settings, **results, "environment": environment()}
    print(note + (f"\nWARNING: {why}" if why else ""))
    print(json.dumps(record))
    return keep(record, path) if write else 0

# ---------------------------------------------------------------- asking

def parser(doc: str, path: Path, repeats: int, quick: str) -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=doc, epilog="The last line printed is the record, as JSON.")
    p.add_argument("--repeats", type=int, default=repeats, help="rounds, each with a run of every variant (%(default)s)")
    p.add_argument("--quick", action="store_true", help=f"{quick}: to see that it works")
    p.add_argument("--write", action="store_true", help=f"write {path.name}, unless other processes disturbed")
    return p

def checked(p: argparse.ArgumentParser, o, *positive: str):
    for name in ("repeats", *positive):
        if getattr(o, name) is not None and getattr(o, name) < 1: p.error(f"--{name} must be at least 1, got {getattr(o, name)}")
    if o.write and o.quick: p.error("--quick measures nothing worth writing")
    return o
