"""What ranking metrics cost, beside ir-measures on the same candidates. See README.md."""
import sys
from importlib.util import find_spec
from pathlib import Path

from common import Meter, begin, cell, checked, finish, measured, parser, table

RECORD = Path(__file__).resolve().with_suffix(".json")
OURS, PREPARED, CONVERTED = "rank_metrics", "ir-measures, prepared", "ir-measures, conversion included"
AGREE = 1e-9 # largest difference between two values of one question
LIKE = {"questions": 1590, "candidates": 19435} # SelQA's test set

def made_up(questions, candidates): # question ids (n,), labels (n,)
    "Candidates spread at random over the questions, at least one each; of a question's first one and every eleventh of the others the label is 1."
    import numpy as np
    rng = np.random.default_rng(0)
    question = np.concatenate([np.arange(questions), rng.integers(questions, size=candidates - questions)])
    labels = np.where(np.arange(candidates) < questions, 1, rng.random(candidates) < 1 / 11).astype(int)
    order = np.argsort(question, kind="stable")
    return [f"q{q}" for q in question[order]], labels[order]

def candidates(o) -> tuple: # what they are; question ids (n,), labels (n,), scores (n,) without ties
    import numpy as np
    from debias_nb.data.answers import load_answers
    from debias_nb.data.registry import DataError
    try:
        if o.questions: raise DataError("numbers were given")
        answers = load_answers("selqa", "test", download=False)
        name, ids, labels = answers.name, answers.question_ids, answers.labels
    except DataError: name, (ids, labels) = "made up", made_up(o.questions or LIKE["questions"], o.candidates or LIKE["candidates"])
    return name, (ids, labels, np.random.default_rng(1).permutation(len(ids)).astype(float))

def measures() -> dict: # of ir-measures -> the name it has here
    from ir_measures import AP, P, RR, nDCG
    return {AP: "map", RR: "mrr", P @ 1: "p1"} | {nDCG @ k: f"ndcg{k}" for k in (1, 3, 10)}

def converted(ids, labels, scores): # an evaluator that knows the labels, and a run, as dicts of dicts, which pytrec_eval takes as they are
    import ir_measures
    qrels, run = {}, {}
    for i, (q, y, s) in enumerate(zip(ids, labels.tolist(), scores.tolist())):
        qrels.setdefault(q, {})[str(i)] = y
        run.setdefault(q, {})[str(i)] = s
    return ir_measures.pytrec_eval.evaluator(list(measures()), qrels), run

def variants(data) -> dict: # name -> a function that gives the means
    from debias_nb.metrics import rank_metrics
    ids, labels, scores = data
    evaluator, run = converted(*data)
    def whole():
        made, own = converted(*data)
        return made.calc_aggregate(own)
    return {OURS: lambda: rank_metrics(scores, labels, ids)[0], PREPARED: lambda: evaluator.calc_aggregate(run), CONVERTED: whole}

def agreement(data, theirs=None) -> float: # largest difference; theirs: (measure, question) -> value
    "Raises `RuntimeError` naming the measure and the question that differ most."
    from debias_nb.metrics import rank_metrics
    ids, labels, scores = data
    if theirs is None:
        evaluator, run = converted(*data)
        names = {str(m): name for m, name in measures().items()}
        theirs = {(names[str(m.measure)], m.query_id): m.value for m in evaluator.iter_calc(run)}
    _, values, questions = rank_metrics(scores, labels, ids)
    ours = {(k, q): v for k, each in values.items() for q, v in zip(questions.tolist(), each.tolist())}
    if odd := ours.keys() ^ theirs.keys(): raise RuntimeError(f"{len(odd)} values stand on one side only, the first of them is {' of '.join(min(odd))}")
    worst = max(ours, key=lambda k: abs(ours[k] - theirs[k]) if theirs[k] == theirs[k] else float("inf"))
    if not (d := abs(ours[worst] - theirs[worst])) <= AGREE: raise RuntimeError(f"{worst[0]} of question {worst[1]} is {ours[worst]:.12g} here and {theirs[worst]:.12g} in ir-measures")
    return d

def shown(name, sizes, difference, timed) -> str:
    rows = [(n, cell(v["ms"]), cell(v["ratio"])) for n, v in timed.items()]
    return table((f"{name} ({sizes['questions']:,} questions, {sizes['candidates']:,} candidates, values within {difference:.1g})", "ms", f"ratio to {OURS}"), rows)

def arguments(argv):
    p = parser(__doc__, RECORD, 15, "40 questions, 300 candidates, 2 rounds")
    p.add_argument("--questions", type=int, help="made up instead of read (default: SelQA's test set, or as many made up as it has)")
    p.add_argument("--candidates", type=int, help="of all these questions together")
    o = p.parse_args(argv)
    if o.quick: o.questions, o.candidates, o.repeats = 40, 300, 2
    checked(p, o, "questions", "candidates")
    if (o.questions is None) != (o.candidates is None): p.error("--questions and --candidates come together")
    if o.questions and o.candidates < o.questions: p.error(f"--candidates ({o.candidates}) must be at least --questions ({o.questions})")
    return o

def main(argv=None) -> int:
    o = arguments(argv)
    if lacking := [name for name in ("ir_measures", "pytrec_eval") if find_spec(name) is None]:
        print(f"nothing was measured: {' and '.join(lacking)} not installed (extra bench)", file=sys.stderr)
        return 1
    load = begin()
    import ir_measures
    name, data = candidates(o)
    difference, runs = agreement(data), variants(data)
    meter = Meter()
    with meter: timed = measured(runs, OURS, o.repeats, lambda line: print(line, file=sys.stderr))
    sizes = {"questions": len(set(data[0])), "candidates": len(data[0])}
    print(shown(name, sizes, difference, timed), end="\n\n")
    note = f"medians over {o.repeats} rounds [quartiles]; above 1 {OURS} is the faster one"
    return finish(RECORD, note, o.write, load, meter, {"repeats": o.repeats, "data": name, **sizes}, {"variants": timed, "difference": float(f"{difference:.2g}"), "ir_measures": ir_measures.__version__})

if __name__ == "__main__": sys.exit(main())
