"One answer for all methods and tests, with the base encoder among the candidates."
import pytest

from debias_nb.diagnosis.decision import Result
from debias_nb.diagnosis.recommendation import recommend, trade_points


def made(**changes):
    "Results of one method: a change with an interval of a point on either side, by test."
    words = {True: "better", False: "worse"}
    return [Result(test, words[change > 0] if abs(change) > .01 else "within the margin" if abs(change) < 1e-9
                   else "cannot tell",
                   change, change - .01, change + .01, like=test == "like") for test, change in changes.items()]


PLAIN = made(like=.06, new=-.12)
THREE = {"plain": PLAIN, "wise-ft": made(like=.04, new=.02), "outreg": made(like=.05, new=-.03)}


@pytest.mark.parametrize("results, call, method", [
    pytest.param(THREE, "use a method", "wise-ft", id="one fits"),
    pytest.param({"plain": PLAIN, "outreg": THREE["outreg"]}, "your call", "outreg", id="a trade"),
    pytest.param({"plain": PLAIN, "outreg": made(like=.06, new=-.005)}, "cannot tell", "outreg", id="one may lose"),
    pytest.param({"plain": made(like=0., new=-.12), "outreg": made(like=0., new=-.03)}, "keep the base", "outreg",
                 id="all lose"),
    pytest.param({"plain": made(like=0., new=-.12), "outreg": made(like=0., new=-.005)}, "cannot tell", "outreg",
                 id="one loses"),
    pytest.param({"plain": made(like=.005, new=-.005)}, "cannot tell", "plain", id="nothing"),
    pytest.param({"plain": made(like=0., new=0.)}, "either", "plain", id="within the margin"),
])
def test_every_case_has_its_answer(results, call, method):
    said = recommend(results, {name: sum(result.change for result in own) for name, own in results.items()})
    assert (said.call, said.method) == (call, method) and said.heading and said.reason


def test_records_speak_where_no_method_gains():
    told = {"plain": made(like=0., new=-.005), "outreg": made(like=0., new=-.007)}
    until = recommend(told, {"plain": .6, "outreg": .5}, prior="outreg", titles={"outreg": "OutReg, λ = 0.1"})
    assert until.method == "outreg" and until.heading == "Cannot tell yet: until then OutReg, λ = 0.1."


@pytest.mark.parametrize("measured", [{"outreg": made(like=0., new=-.03)}, {"plain": made(like=.06, new=-.005)}])
def test_what_is_measured_comes_before_records(measured):
    "It loses the margin, or another one gains."
    told = {"plain": made(like=0., new=-.005), "outreg": made(like=0., new=-.007)}
    assert recommend(told | measured, {"plain": .6, "outreg": .5}, prior="outreg").method == "plain"


def test_methods_that_no_other_beats_in_both_are_joined():
    assert [one["name"] for one in trade_points(THREE) if one["joined"]] == ["wise-ft", "outreg", "plain"]
    equal = trade_points({"plain": made(like=.06, new=-.12), "outreg": made(like=.06, new=-.02),
                          "itvreg": made(like=.05, new=-.02)})
    assert ([one["name"] for one in equal if one["joined"]]
            == ["base", "outreg"]), "as good in one and better in the other is beaten"
    assert not trade_points({"plain": made(new=.1)})
