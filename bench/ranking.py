"What ranking metrics cost, beside ir-measures on the same candidates. See README.md."
import math
import sys
from importlib.util import find_spec
from pathlib import Path

from common import Meter, begin, checked, finish, measured, new_parser, rounded, variants_table

RECORD = Path(__file__).resolve().with_suffix(".json")
OURS = "rank_metrics"
PREPARED = "ir-measures, prepared"
CONVERTED = "ir-measures, conversion included"
AGREE = 1e-9 # largest difference between two values of one question
LIKE = {"questions": 1590, "candidates": 19435} # SelQA's test set


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


def found_candidates(options) -> tuple:
    "What the candidates are, their question ids (n,) and labels (n,): SelQA's test set, or made-up ones."
    from debias_nb.data.answers import load_answers
    from debias_nb.data.registry import DataError
    if not options.questions:
        try:
            answers = load_answers("selqa", "test", download=False)
            return answers.name, answers.question_ids, answers.labels
        except DataError:
            pass
    questions = options.questions or LIKE["questions"]
    return "made up", *made_up(questions, options.candidates or LIKE["candidates"])


def candidates(options) -> tuple:
    "What they are; and their question ids (n,), labels (n,) and scores (n,) without ties."
    import numpy as np
    name, ids, labels = found_candidates(options)
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


def shown(name: str, sizes: dict, result: dict) -> str:
    "The table. sizes: how many `questions` and `candidates`."
    about = f"{sizes['questions']:,} questions, {sizes['candidates']:,} candidates"
    head = f"{name} ({about}, values within {result['difference']:.1g})"
    return variants_table(head, result, {"ms": "ms", f"ratio to {OURS}": "ratio"})


def arguments(argv):
    "The options. Ends the program where they make no sense."
    parser = new_parser(__doc__, RECORD, 15, "40 questions, 300 candidates, 2 rounds")
    questions = "made up instead of read (default: SelQA's test set, or as many made up as it has)"
    parser.add_argument("--questions", type=int, help=questions)
    parser.add_argument("--candidates", type=int, help="of all these questions together")
    options = parser.parse_args(argv)
    if options.quick:
        options.questions = 40
        options.candidates = 300
        options.repeats = 2
    checked(parser, options, "questions", "candidates")
    if (options.questions is None) != (options.candidates is None):
        parser.error("--questions and --candidates come together")
    if options.questions and options.candidates < options.questions:
        parser.error(f"--candidates ({options.candidates}) must be at least --questions ({options.questions})")
    return options


def main(argv=None) -> int:
    options = arguments(argv)
    lacking = [name for name in ("ir_measures", "pytrec_eval") if find_spec(name) is None]
    if lacking:
        print(f"nothing was measured: {' and '.join(lacking)} not installed (extra bench)", file=sys.stderr)
        return 1
    load = begin()
    import ir_measures
    name, data = candidates(options)
    difference = agreement(*values_of(data))
    runs = variants(data)
    meter = Meter()
    with meter:
        timed = measured(runs, OURS, options.repeats, lambda line: print(line, file=sys.stderr))
    ids, *_ = data
    sizes = {"questions": len(set(ids)), "candidates": len(ids)}
    result = {"variants": timed, "difference": rounded(difference, 2), "ir_measures": ir_measures.__version__}
    print(shown(name, sizes, result), end="\n\n")
    note = f"medians over {options.repeats} rounds [quartiles]; above 1 {OURS} is the faster one"
    settings = {"repeats": options.repeats, "data": name, **sizes}
    return finish(RECORD, note, options, load, meter, settings, result)


if __name__ == "__main__":
    sys.exit(main())
