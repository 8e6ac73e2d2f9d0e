"""One answer for all methods and tests, with the base encoder among the candidates."""
from dataclasses import dataclass, field
from typing import Literal

from .changes import WHOLE
from .decision import MARGIN, Result, contradicting, fits, most_lost, named
from .decision import not_by_all, margin_sentence

MethodCall = Literal["use a method", "keep the base", "your call", "either", "cannot tell"]


@dataclass(frozen=True)
class Recommendation:
    """Answer to which method to use, if any.

    Parameters
    ----------
    call : {"use a method", "keep the base", "your call", "either", "cannot tell"}
        The answer.
    heading, reason : str
        The same in a sentence, and why.
    method : str, optional
        The method that is recommended, or where none is, the one to take if the encoder is to be fine-tuned. Heading,
        reason, program and last line name no other one.
    margin : float
        The smallest change that matters, a fraction.
    results : dict
        Method to what it changes against the base, test by test.
    """
    call: MethodCall
    heading: str
    reason: str
    method: str | None = None
    margin: float = MARGIN
    results: dict[str, list[Result]] = field(default_factory=dict)

    @property
    def side(self) -> str: # better, worse or nothing: how a page shows it
        return {"use a method": "better", "keep the base": "worse"}.get(self.call, "")


def lowest(results: list[Result]) -> float: # a fraction
    "Return the change of the test that a method changes worst."
    return min(result.change for result in results)


def change_sentence(results: list[Result]) -> str:
    "Write what a method changes, test by test."
    return ", ".join(f"{result.name} {result.sentence}" for result in results)


# case -> call, heading and reason; the texts name the facts of `recommend`
ANSWERS: dict[str, tuple[MethodCall, str, str]] = {
    "one fits": (
        "use a method", "Use {title}.", "Against the base it is better on {gains}, and a loss of {point} is excluded "
                                        "on every test, corrected for the methods that gain. Of {count} such methods "
                                        "it has the highest mean over {picked_on}."),
    "a trade": (
        "your call", "Your call: no method gains without a loss.",
        "{title} has the highest mean over {picked_on} of those that gain somewhere: {changes}. If new data matter "
        "more, keep the base."),
    "all lose": (
        "keep the base", "Keep the base. Every method got worse on a test, and none is better on any.",
        "Must it be fine-tuned, {title} loses least: {changes}."),
    "within the margin": (
        "either", "Use either: no method changes anything that matters.",
        "Every change is under {point}. The base is simpler; of the methods {title} has the highest mean over "
        "{picked_on}."),
    "one may lose": (
        "cannot tell", "Cannot tell yet: {title} is better on {gains}, and {may_lose}.", "{changes}. {short}"),
    "nothing": (
        "cannot tell", "Cannot tell yet: no method is shown to be better than the base.",
        "{worse} of {methods} methods got worse somewhere; {title} loses least: {changes}. {short}"),
}
# cases whose method is the one that loses least; of others the one with the highest mean
LEAST_LOST = ("all lose", "nothing")
# call -> words of other metrics that its heading adds
AGAINST = {"use a method": ("worse",), "cannot tell": ("better", "worse")}


def _methods_with_verdict(results: dict[str, list[Result]], word: str) -> list[str]:
    "Return the methods that have this word on a test."
    return [name for name, method_results in results.items() if any(result.word == word for result in method_results)]


def _case(results: dict[str, list[Result]], margin: float) -> tuple[str, list[str]]:
    "Return the first case that fits, and the methods that one is named of."
    better, worse = _methods_with_verdict(results, "better"), _methods_with_verdict(results, "worse")
    fitting = [name for name in better if fits(results[name], margin)]
    gaining = [name for name in better if name not in worse]
    if fitting:
        return "one fits", fitting
    if better and not gaining:
        return "a trade", better
    if len(worse) == len(results):
        return "all lose", worse
    if all(result.word == "within the margin" for method_results in results.values() for result in method_results):
        return "within the margin", [*results]
    return ("one may lose", gaining) if gaining else ("nothing", [*results])


def recommend(
    results: dict[str, list[Result]], # of each trained method, against the base
    means: dict[str, float],          # of each trained method: the mean of what decides, over what it is picked on
    picked_on: str = "the tests",     # in words
    margin: float = MARGIN,
    other_metrics: dict[str, list[Result]] | None = None, # the same in metrics that do not decide
    titles: dict[str, str] | None = None, # methods in words; by default their names
    short: str = "More seeds or more test data may tell.", # what there is too little of
) -> Recommendation:
    "Return the answer of the first case that fits."
    case, names = _case(results, margin)
    losses = {name: lowest(method_results) for name, method_results in results.items()}
    method = max(names, key=(losses if case in LEAST_LOST else means).get)
    method_results = results[method]
    gains = [result for result in method_results if result.word == "better"]
    possible_losses = [result for result in method_results if result.may_lose(margin)]
    title = (titles or {}).get(method, method)
    worse = _methods_with_verdict(results, "worse")
    facts = {
        "title": title, "changes": change_sentence(method_results), "picked_on": picked_on,
        "point": margin_sentence(margin), "count": len(names),
        "methods": len(results), "short": short, "worse": len(worse), "gains": named(gains or method_results),
        "may_lose": most_lost(possible_losses or method_results)}
    call, heading, reason = (text.format(**facts) for text in ANSWERS[case])
    secondary = (other_metrics or {}).get(method, [])
    objections = contradicting(method_results, secondary, AGAINST.get(call, ()))
    heading += not_by_all(method_results, objections)
    return Recommendation(call, heading, reason, method, margin, results)


def trade_points(
    results: dict[str, list[Result]],
) -> list[dict]: # name, like, new, low, high, joined; empty without both kinds of tests
    "List of each method and the base the change in distribution and on the new test that it changes worst."
    points = [{"name": "base", "like": 0., "new": 0., "low": 0., "high": 0.}]
    for name, method_results in results.items():
        like, new = ([result for result in method_results if result.part == WHOLE and result.like == side]
                     for side in (True, False))
        if not like or not new:
            return []
        worst = min(new, key=lambda result: result.change)
        points.append({"name": name, "like": like[0].change, "new": worst.change, "low": worst.low, "high": worst.high})
    for point in points:
        point["joined"] = not any(rival["like"] >= point["like"] and rival["new"] >= point["new"] and rival != point
                                  for rival in points)
    return sorted(points, key=lambda point: point["like"])
