"""What recall and reciprocal rank of the first relevant item cost in time and memory, beside a flat faiss index. See README.md."""
import gc, json, sys
from pathlib import Path
from unittest.mock import patch

from common import THREADS, Meter, begin, cell, checked, finish, parser, rounds, seconds, spread, table
from retrieval import extra_memory, memory

RECORD = Path(__file__).resolve().with_suffix(".json")
FAISS, OURS, SINGLE = "faiss IndexFlatIP", "first_hits", "first_hits, no bfloat16"
K, CUT = 8, 100             # places of R@k; ranks beyond are worth nothing, and it is as many items as faiss is asked for
TEXTS = 3                   # of an author, on either side
SIZES = ("queries", "targets", "dimensions")

def planted(queries, targets, dimensions): # unit vectors, and who wrote them: float32 (n, d) and (m, d), long (n,) and (m,)
    "A query is a noisy copy of a target of its author: some copies are as good as the target, some as good as any other vector."
    import torch
    from torch.nn.functional import normalize
    dice, authors = torch.Generator().manual_seed(0), max(1, min(queries, targets) // TEXTS)
    wrote, writes = torch.arange(targets) % authors, torch.arange(queries) % authors # target i is of author i as well, for every author
    there, here = torch.empty(targets, dimensions), torch.empty(queries, dimensions)
    for part in there.split(4096): part.copy_(normalize(torch.randn(part.shape, generator=dice), dim=1)) # piece by piece, so that nothing but the result takes memory
    for part, who in zip(here.split(4096), writes.split(4096)):
        noise = .5 * 40**torch.rand(len(part), 1, generator=dice) / dimensions**.5 # half as long as the target to twenty times as long
        part.copy_(normalize(there[who] + noise * torch.randn(part.shape, generator=dice), dim=1))
    return here, there, writes, wrote

def relevance(writes, wrote): # (n, m) sparse booleans
    "The targets of a query's author."
    import numpy as np
    import scipy.sparse as sp
    member = lambda who: sp.csr_array((np.ones(len(who), bool), (np.arange(len(who)), who.numpy())), shape=(len(who), int(wrote.max()) + 1))
    return sp.csr_array(member(writes) @ member(wrote).T)

def by_faiss(queries, targets, writes, wrote): # (n,) R@8, reciprocal rank, and the rank twice, inf beyond `CUT`
    "Index and search; the index holds a copy of the targets."
    import faiss
    import numpy as np
    index = faiss.IndexFlatIP(targets.shape[1])
    index.add(targets.numpy())
    _, found = index.search(queries.numpy(), min(CUT, len(targets)))
    right = wrote.numpy()[found] == writes.numpy()[:, None]
    rank = np.where(right.any(1), right.argmax(1) + 1., np.inf)
    return (rank <= K).astype(float), 1 / rank, rank, rank

def by_counting(queries, targets, marks, types=None): # (n,) R@8, reciprocal rank, and the best and the worst rank that ties leave open; types: to guess in; None: the library's own
    from debias_nb import retrieval
    with patch.object(retrieval, "_rough_types", lambda device, own=retrieval._rough_types: own(device) if types is None else types):
        first = retrieval.first_hits(queries, targets, marks)
    return retrieval.recall_at(first, K), retrieval.reciprocal_rank(first, CUT), first.above + 1, first.above + first.tied - first.right + 1

def variants(queries, targets, writes, wrote) -> dict: # name -> a function that gives what `agreement` compares
    marks = relevance(writes, wrote)
    return {FAISS: lambda: by_faiss(queries, targets, writes, wrote), OURS: lambda: by_counting(queries, targets, marks), SINGLE: lambda: by_counting(queries, targets, marks, ())}

def agreement(results) -> dict: # name -> mean R@8 and reciprocal rank, and the share of queries with a tie that these depend on
    "Raises `RuntimeError` naming the variant and its first query whose rank, R@8 or reciprocal rank no order of tied targets explains."
    import numpy as np
    _, _, best, worst = results[OURS]
    out = {}
    for name, (recall, reciprocal, low, high) in results.items():
        near = lambda value, least, most: (value >= least - 1e-9) & (value <= most + 1e-9)
        worth = lambda rank: np.where(rank <= CUT, 1 / rank, 0.)
        fine = ((low <= worst) & (best <= high) | (low > CUT) & (worst > CUT)) & near(recall, worst <= K, best <= K) & near(reciprocal, worth(worst), worth(best))
        if len(bad := np.flatnonzero(~fine)): # not a number is not fine either
            q = bad[0]
            raise RuntimeError(f"{name}: query {q} has rank {low[q]:g}, R@{K} {recall[q]:g} and reciprocal rank {reciprocal[q]:g}, but its first relevant target stands at {best[q]} to {worst[q]}")
        out[name] = {"recall": float(f"{recall.mean():.6g}"), "reciprocal_rank": float(f"{reciprocal.mean():.6g}"), "tied": float(f"{((high > low) & (low <= CUT)).mean():.4g}")}
    return out

def measure(runs, repeats, say) -> dict: # variant -> seconds and faiss's time over its own, each with its quartiles
    def once(name): gc.collect(); return seconds(runs[name])
    kept = rounds(list(runs), once, repeats, say)
    return {name: {"seconds": spread([r[name] for r in kept]), "speed": spread([r[FAISS] / r[name] for r in kept])} for name in runs}

def shown(result, o) -> str:
    of_faiss = result[FAISS]["extra_mb"]
    size = lambda v: ("-", "-") if v["extra_mb"] is None else (f"{v['extra_mb']:.4g}", f"{v['extra_mb'] / of_faiss:.3g}")
    rows = [(name, cell(v["seconds"]), cell(v["speed"]), *size(v), f"{v['recall']:.4f}", f"{v['reciprocal_rank']:.4f}") for name, v in result.items()]
    return table((f"{o.queries:,} queries, {o.targets:,} targets, {o.dimensions} dimensions", "s", "speed, faiss = 1", "extra MB", "faiss = 1", f"R@{K}", f"MRR, cut at {CUT}"), rows)

def arguments(argv):
    p = parser(__doc__, RECORD, 3, "300 queries over 2,000 targets of 64 dimensions, 2 rounds")
    p.add_argument("--queries", type=int, default=50_000, help="%(default)s")
    p.add_argument("--targets", type=int, default=50_000, help="%(default)s")
    p.add_argument("--dimensions", type=int, default=384, help="%(default)s")
    p.add_argument("--memory", choices=(FAISS, OURS, SINGLE), help="only say how many bytes one variant needs beside vectors and relevance")
    o = p.parse_args(argv)
    if o.quick: o.queries, o.targets, o.dimensions, o.repeats = 300, 2_000, 64, 2
    return checked(p, o, *SIZES)

def main(argv=None) -> int:
    o, load = arguments(argv), begin()
    import faiss
    import torch
    faiss.omp_set_num_threads(THREADS); torch.set_num_threads(THREADS)
    data = planted(o.queries, o.targets, o.dimensions)
    runs = variants(*data)
    if o.memory:
        small = variants(data[0][:8], data[1], data[2][:8], data[3])
        small[o.memory]() # what a library sets up once is not counted
        del small
        gc.collect()
        print(json.dumps(extra_memory(runs[o.memory])))
        return 0
    agree = agreement({name: run() for name, run in runs.items()})
    meter = Meter()
    with meter: timed = measure(runs, o.repeats, lambda line: print(line, file=sys.stderr))
    result = {name: {**timed[name], **agree[name], "extra_mb": memory(name, o, __file__, SIZES)} for name in runs}
    print(shown(result, o), end="\n\n")
    from debias_nb.retrieval import _rough_types
    guess = [str(t)[6:] for t in _rough_types(torch.device("cpu"))]
    note = f"medians over {o.repeats} rounds [quartiles]; {OURS} proves in {guess[0]} what it need not compute" if "bfloat16" in guess else f"medians over {o.repeats} rounds [quartiles]; this processor does not multiply bfloat16, and {OURS} computes everything"
    return finish(RECORD, note, o.write, load, meter, {k: getattr(o, k) for k in ("repeats", *SIZES)} | {"guess": guess}, {"variants": result, "faiss": faiss.__version__})

if __name__ == "__main__": sys.exit(main())
