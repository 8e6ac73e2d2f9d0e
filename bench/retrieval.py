"""What exact top-k retrieval costs in time and memory, beside a flat faiss index. See README.md."""
import gc, json, os, subprocess, sys, threading
from pathlib import Path

from common import THREADS, Meter, begin, cell, checked, finish, parser, rounds, seconds, spread, table

RECORD = Path(__file__).resolve().with_suffix(".json")
FAISS, OURS, SINGLE = "faiss IndexFlatIP", "top_k", "top_k, no bfloat16"
AGREE = 1e-5 # largest difference between two scores of the same rank

def vectors(queries, items, dimensions): # unit vectors in families, as titles are: a family of 64 items has a mean cosine of about .6
    import torch
    from torch.nn.functional import normalize
    dice = torch.Generator().manual_seed(0)
    heads = normalize(torch.randn(-(-items // 64), dimensions, generator=dice), dim=1)
    def members(n):
        out = torch.empty(n, dimensions)
        for part in out.split(4096): # piece by piece, so that nothing but the result takes memory
            family = torch.randint(len(heads), (len(part),), generator=dice)
            part.copy_(normalize(heads[family] + .8 * dimensions**-.5 * torch.randn(part.shape, generator=dice), dim=1))
        return out
    return members(queries), members(items)

def flat(queries, items, k): # items (n, k), scores (n, k)
    "Index and search; the index holds a copy of the items."
    import faiss
    index = faiss.IndexFlatIP(items.shape[1])
    index.add(items.numpy())
    scores, found = index.search(queries.numpy(), k)
    return found, scores

def variants(queries, items, k) -> dict: # name -> a function that gives items and scores
    import torch
    from debias_nb.retrieval import top_k
    def ours(rough):
        top = top_k(queries, items, k, rough=rough)
        return top.items.numpy(), top.scores.numpy()
    return {FAISS: lambda: flat(queries, items, k), OURS: lambda: ours(None), SINGLE: lambda: ours((torch.float32,))}

def agreement(queries, items, results) -> dict: # share of equal items; largest difference of scores, those of faiss's items computed exactly
    "Raises `RuntimeError` naming the variant that missed an item."
    import numpy as np
    import torch
    found, scores = results[OURS]
    exact = lambda rows, q: (items[torch.from_numpy(rows)].double() * q.double()[:, None]).sum(2).numpy()
    out = {}
    for name, (other, _) in results.items():
        theirs = np.concatenate([exact(other[i : i + 64], queries[i : i + 64]) for i in range(0, len(other), 64)])
        difference = float(np.abs(-np.sort(-theirs, axis=1) - scores).max())
        if not difference <= AGREE: raise RuntimeError(f"{name}: the scores of its items differ by up to {difference:g} from those of {OURS}, more than {AGREE:g}")
        out[name] = {"same": float(f"{(other == found).mean():.7g}"), "difference": float(f"{difference:.2g}")}
    return out

# ---------------------------------------------------------------- memory, of a process of its own each

def extra_memory(run) -> int | None: # bytes; None where the system does not tell
    "How far this process's own memory rises above where it stood, looked at every 2 ms. Pages of libraries, which come and go, are not counted."
    def anonymous(): return 1024 * int(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon")))
    try: before = anonymous()
    except OSError: return None
    peak, over = [before], threading.Event()
    def watch():
        while not over.wait(.002): peak.append(max(peak.pop(), anonymous()))
    watcher = threading.Thread(target=watch)
    watcher.start()
    try: run()
    finally: over.set(); watcher.join()
    return max(*peak, anonymous()) - before

def memory(name, o, script=__file__, sizes=("queries", "items", "dimensions", "k")) -> float | None: # MB; sizes: options that the script is given on
    done = subprocess.run([sys.executable, script, "--memory", name, *(f"--{k}={getattr(o, k)}" for k in sizes)],
                          env=os.environ | {"MALLOC_MMAP_THRESHOLD_": "1000000"}, capture_output=True, text=True) # freed blocks go back at once, or the peak depends on chance
    if done.returncode: raise RuntimeError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    found = json.loads(done.stdout)
    return None if found is None else float(f"{found / 1e6:.4g}")

# ---------------------------------------------------------------- all of it

def measure(runs, repeats, say) -> dict: # variant -> seconds and faiss's time over its own, each with its quartiles
    def once(name): gc.collect(); return seconds(runs[name])
    kept = rounds(list(runs), once, repeats, say)
    return {name: {"seconds": spread([r[name] for r in kept]), "speed": spread([r[FAISS] / r[name] for r in kept])} for name in runs}

def shown(result, o) -> str:
    size = lambda v: "-" if v["extra_mb"] is None else f"{v['extra_mb']:.4g}"
    rows = [(name, cell(v["seconds"]), cell(v["speed"]), size(v), f"{v['same']:.4%}") for name, v in result.items()]
    return table((f"{o.queries:,} queries, {o.items:,} items, {o.dimensions} dimensions, k = {o.k}", "s", "speed, faiss = 1", "extra MB", f"items as {OURS}"), rows)

def arguments(argv):
    p = parser(__doc__, RECORD, 5, "300 queries over 8,000 items of 64 dimensions, 2 rounds")
    p.add_argument("--queries", type=int, default=20_000, help="%(default)s")
    p.add_argument("--items", type=int, default=130_000, help="%(default)s")
    p.add_argument("--dimensions", type=int, default=384, help="%(default)s")
    p.add_argument("--k", type=int, default=10, help="%(default)s")
    p.add_argument("--memory", choices=(FAISS, OURS, SINGLE), help="only say how many bytes one variant needs beside the vectors")
    o = p.parse_args(argv)
    if o.quick: o.queries, o.items, o.dimensions, o.repeats = 300, 8_000, 64, 2
    return checked(p, o, "queries", "items", "dimensions", "k")

def main(argv=None) -> int:
    o, load = arguments(argv), begin()
    import faiss
    import torch
    faiss.omp_set_num_threads(THREADS); torch.set_num_threads(THREADS)
    queries, items = vectors(o.queries, o.items, o.dimensions)
    runs = variants(queries, items, o.k)
    if o.memory:
        small = variants(queries[:8], items, o.k)
        small[o.memory]() # what a library sets up once is not counted
        gc.collect()
        print(json.dumps(extra_memory(runs[o.memory])))
        return 0
    agree = agreement(queries, items, {name: run() for name, run in runs.items()})
    meter = Meter()
    with meter: timed = measure(runs, o.repeats, lambda line: print(line, file=sys.stderr))
    result = {name: {**timed[name], **agree[name], "extra_mb": memory(name, o)} for name in runs}
    print(shown(result, o), end="\n\n")
    from debias_nb.retrieval import _rough_types
    guess = [str(t)[6:] for t in _rough_types(queries.device)]
    note = f"medians over {o.repeats} rounds [quartiles]; {OURS} guesses in {', then '.join(guess)}"
    return finish(RECORD, note, o.write, load, meter, {k: getattr(o, k) for k in ("repeats", "queries", "items", "dimensions", "k")} | {"guess": guess}, {"variants": result, "faiss": faiss.__version__})

if __name__ == "__main__": sys.exit(main())
