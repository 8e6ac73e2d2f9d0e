"What ranking metrics cost, beside ir-measures on the same candidates. See README.md."
import math
import sys
from importlib.util import find_spec

from common import measured, print_variants, rounded, run

OURS = "rank_metrics"
PREPARED = "ir-measures, prepared"
CONVERTED = "ir-measures, conversion included"
AGREE = 1e-9 # largest difference between two values of one question
LIKE = (1590, 19435) # questions and candidates of SelQA's test set
QUICK = (40, 300)


def made_up(questions: int, candidates: int) -> tuple:
    """Question ids (n,) and labels (n,) of candidates spread at random over the questions, at least one each; of a
    question's first one and every eleventh of the others the label is 1."""
    import numpy as np
    rng = np.random.default_rng(0)
    further = rng.integers(questions, size=candidates - questions)
    question = np.concatenate([np.arange(questions), further])
    is_first = np.arange(candidates) < questions
    labels = np.where(is_first, 1, rng.random(candidates) < 1 / 11).astype(int)
    order = np.argsort(question, kind="stable")
    return [f"q{number}" for number in question[order]], labels[order]


def candidates(quick: bool) -> tuple:
    """What they are; and their question ids (n,), labels (n,) and scores (n,) without ties: of SelQA's test set, or as
    many made up where it is not at hand."""
    import numpy as np
    from debias_nb.data.answers import load_answers
    from debias_nb.data.registry import DataError
    name, (ids, labels) = "made up", made_up(*(QUICK if quick else LIKE))
    if not quick:
        try:
            answers = load_answers("selqa", "test", download=False)
            name, ids, labels = answers.name, answers.question_ids, answers.labels
        except DataError:
            pass
    scores = np.random.default_rng(1).permutation(len(ids)).astype(float)
    return name, (ids, labels, scores)


def measures() -> dict:
    "Measures of ir-measures -> the names they have here."
    from ir_measures import AP, P, RR, nDCG
    names = {AP: "map", RR: "mrr", P @ 1: "p1"}
    for cutoff in (1, 3, 10):
        names[nDCG @ cutoff] = f"ndcg{cutoff}"
    return names


def converted(ids, labels, scores) -> tuple:
    "An evaluator that knows the labels, and a run; from dicts of dicts, which pytrec_eval takes as they are."
    import ir_measures
    qrels = {}
    run = {}
    for i, (question, label, score) in enumerate(zip(ids, labels.tolist(), scores.tolist())):
        qrels.setdefault(question, {})[str(i)] = label
        run.setdefault(question, {})[str(i)] = score
    return ir_measures.pytrec_eval.evaluator(list(measures()), qrels), run


def variants(data) -> dict:
    "Functions by name that give the means."
    from debias_nb.measures.metrics import rank_metrics
    ids, labels, scores = data
    evaluator, run = converted(*data)

    def whole():
        made, own = converted(*data)
        return made.calc_aggregate(own)

    return {
        OURS: lambda: rank_metrics(labels, scores, ids)[0],
        PREPARED: lambda: evaluator.calc_aggregate(run),
        CONVERTED: whole,
    }


def values_of(data) -> tuple:
    "(measure, question) -> what `rank_metrics` says, and what ir-measures says: two Series."
    import pandas as pd
    from debias_nb.measures.metrics import rank_metrics
    ids, labels, scores = data
    _, by_measure, questions = rank_metrics(labels, scores, ids)
    ours = pd.DataFrame(by_measure, index=questions).T.stack()
    evaluator, run = converted(*data)
    names = {str(measure): name for measure, name in measures().items()}
    theirs = {(names[str(one.measure)], one.query_id): one.value for one in evaluator.iter_calc(run)}
    return ours, pd.Series(theirs)


def agreement(ours, theirs) -> float:
    "The largest difference. Raises `RuntimeError` naming the measure and the question that differ most, or stand on one side."
    gap = (ours - theirs).abs().fillna(math.inf)
    if gap.max() > AGREE:
        measure, question = gap.idxmax()
        raise RuntimeError(f"{measure} of question {question} is apart from ir-measures by {gap.max():g}")
    return gap.max()


def measure(options) -> tuple[dict, dict]:
    import ir_measures
    name, data = candidates(options.quick)
    difference = agreement(*values_of(data))
    timed = measured(variants(data), OURS, options.repeats)
    sizes = {"questions": len(set(data[0])), "candidates": len(data[0])}
    head = f"{name} ({sizes['questions']:,} questions, {sizes['candidates']:,} candidates, values within {difference:.1g})"
    print_variants(head, timed, {"ms": "ms", f"ratio to {OURS}": "ratio"})
    results = {"variants": timed, "difference": rounded(difference, 2), "ir_measures": ir_measures.__version__}
    return {"data": name} | sizes, results


if __name__ == "__main__":
    lacking = [name for name in ("ir_measures", "pytrec_eval") if find_spec(name) is None]
    if lacking:
        sys.exit(f"nothing was measured: {' and '.join(lacking)} not installed (extra bench)")
    sys.exit(run(__file__, __doc__, measure, 15))
