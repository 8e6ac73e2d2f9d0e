"The rules that make one sentence of all tests: what is shipped, which method is used, and when nothing can be told."
import json
import re
from dataclasses import replace
from itertools import product

import made
import numpy as np
import pandas as pd
import pytest
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from debias_nb.diagnosis.pairs import PairFile
from debias_nb.diagnosis.changes import NEW, WHOLE, _change_sentence, verdicts
from debias_nb.diagnosis.comparison import Comparison
from debias_nb.diagnosis.decision import LARGE, QUESTION, Averaged, Result, averaged, decide, fits
from debias_nb.diagnosis.decision import passing_moved, results_of
from debias_nb.diagnosis.diagnose import _unusable, diagnose
from debias_nb.diagnosis.evidence import flat_scores
from debias_nb.diagnosis.evidence import below_chance, doubts
from debias_nb.diagnosis.methods import Method, settings_for
from debias_nb.diagnosis.page import cell, coded
from debias_nb.diagnosis.recommendation import recommend, trade_points
from debias_nb.diagnosis.test_sets import as_test
from debias_nb.measures.rankings import candidate_levels

BETTER, WORSE, NONE, UNSURE = (.05, .02, .08), (-.05, -.08, -.02), (0., -.004, .004), (.02, -.03, .07)
WORDS = {BETTER: "better", WORSE: "worse", NONE: "within the margin", UNSURE: "cannot tell"}


def result(test, figures, **about):
    return Result(test, WORDS.get(figures, "cannot tell"), *figures,
                  **{"found": .04, "cases": 500, "like": test == "like"} | about)


def share_with(**tests): # of each test change, low and high
    return Averaged(.25, .5, [result(test, figures) for test, figures in tests.items()])


FIT = share_with(like=BETTER, new=NONE)


@pytest.mark.parametrize("like, new, share, call, words", [
    (UNSURE, WORSE, FIT, "ship averaged", "Do not ship the tuned encoder as it is. Ship it averaged with its base, "
                                          "with 25% of the tuned weights."),
    (UNSURE, UNSURE, FIT, "ship averaged", "Safer averaged, with 25% of the tuned weights: the tuned encoder may "
                                           "have lost up to 3.0 points on `like`."),
    (BETTER, UNSURE, FIT, "ship averaged", "Safer averaged, with 25% of the tuned weights: the tuned encoder may "
                                           "have lost up to 3.0 points on `new`."),
    ((.02, -.005, .04), NONE, FIT, "ship averaged", "Better averaged, with 25% of the tuned weights: the "
                                                    "tuned encoder is not shown to be better on any test."),
    (BETTER, NONE, FIT, "ship", "Ship the tuned encoder."),
    (NONE, NONE, FIT, "either", "Ship either"),
    (BETTER, WORSE, share_with(like=BETTER, new=UNSURE), "do not ship",
     "averaging repairs that, but the average may have lost up to 3.0 points on `new`"),
    (BETTER, WORSE, share_with(like=BETTER, new=(-.01, -.02, .0)), "do not ship",
     "averaging repairs 4.0 of 5.0 points; 1.0 remain"),
    (BETTER, WORSE, share_with(like=BETTER, new=(-.06, -.08, -.02)), "do not ship",
     "averaging the weights does not repair it"),
    (UNSURE, UNSURE, share_with(like=NONE, new=NONE), "cannot tell",
     "Cannot tell yet: `like` and `new` are too small."),
])
def test_a_share_is_shipped_whenever_it_fits(like, new, share, call, words):
    decision = decide([result("like", like), result("new", new)], [share])
    assert decision.call == call and words in decision.heading
    assert (decision.share is not None) == (call == "ship averaged")
    assert "with 95% confidence" not in decision.reason
    assert decision.share is None or "looks better there than it is" in decision.reason


def test_margins_are_told_in_points_and_more_pairs_are_wanted_only_where_more_are():
    results = [result("like", BETTER), replace(result("new", UNSURE), low=-.015)]
    assert "loses less than 2 points on every test" in decide(results, [], margin=.02).reason
    excluded = "On `new` a loss of more than 3.0 points is excluded; "
    for found, words in ((.04, f"{excluded}to detect a change of 1 point takes about 7,500 more pairs."),
                         (.004, f"{excluded}to detect a change of 1 point takes more pairs."),
                         (1.2, "`new` has too few pairs to tell; to detect a change of 1 point takes about 7,199,500 "
                               "more pairs."),
                         (np.nan, "`new` has too few pairs to tell; to detect a change of 1 point takes more pairs.")):
        told = decide([result("like", BETTER), result("new", UNSURE, found=found)], []).reason
        assert told.endswith(words) and "about -" not in told


def test_who_has_too_few_labels_is_asked_once_what_matters():
    few = [result("like", BETTER), result("new", UNSURE, found=.24, cases=60)]
    reason = decide(few, [], has_metric=False).reason
    assert reason.endswith(QUESTION) and reason.count("--metric") == 1
    assert QUESTION not in decide(few, []).reason # whose metric was chosen
    others = [replace(result("new", WORSE), metric="ap")]
    assert decide(few, [], other_metrics=others, has_metric=False).reason.count("--metric") == 1


def test_what_would_be_found_beyond_the_scale_is_too_few_to_tell():
    row = {"base": .5, "tuned": .5, "change": 0., "low": -.9, "high": .9, "verdict": "cannot tell",
           "counted": "queries", "found": 1.16}
    assert _change_sentence(row).endswith("; too few queries to tell") and cell(row, "found") == "too few to tell"
    assert _change_sentence(row | {"found": .5}).endswith("detectable change (80% power): 50.0 points")


@pytest.mark.parametrize("part, blocks", [(.03, False), (LARGE - .01, False), (LARGE, True), (.9, True)])
def test_a_small_part_is_not_asked_what_it_may_have_lost(part, blocks):
    "Of both commands; what got worse counts at any size."
    own = [result("like", BETTER), result("like", UNSURE, part=NEW, share=part), result("new", NONE)]
    assert (decide(own, []).call == "ship") != blocks and fits(own, .01) != blocks
    assert (recommend({"plain": own}, {"plain": .5}).call == "use a method") != blocks
    assert (decide([result("like", NONE), *own[1:]], []).call == "cannot tell") == blocks
    lost = [own[0], replace(own[1], word="worse", low=-.2, high=-.01), own[2]]
    assert decide(lost, []).heading.startswith("Do not ship. `like` without texts of training got worse.")
    assert recommend({"plain": lost}, {"plain": .5}).call == "your call"


@pytest.mark.parametrize("change, size", [(.05, "slightly"), (.052, "much"), (.09, "much")])
def test_a_change_beyond_five_points_is_a_large_one(change, size):
    both = [replace(result("like", BETTER), change=change), replace(result("new", WORSE), change=-change)]
    assert f"made the encoder {size} better on `like` and {size} worse on `new`" in decide(both, []).reason


def record_sets(cases):
    "A comparison whose test shares texts with training; on the rest, forty noisy pairs, no change can be told."
    rng = np.random.default_rng(0)
    rows = []
    for seed, (name, change) in product(range(4), (("base", 0.), ("plain", .1))):
        for test, part, level, noise in (("like", WHOLE, .5 + change, .002), ("like", NEW, .5, .05),
                                         ("new", WHOLE, .5 + change, .002)):
            resampled = level + rng.normal(0, noise, 200)
            rows.append(made.result(name, seed, test, "auc05", level + rng.normal(0, 1e-4), resampled, part))
    facts = {"cases": {"like": 2_000, "like, no text of training": cases, "new": 900}}
    return Comparison(pd.DataFrame(rows), [Method(name, name) for name in ("base", "plain")],
                      settings_for("static"), facts)


def test_a_method_fits_on_record_sets_which_share_texts_by_design():
    few, most = record_sets(60), record_sets(1_500)
    assert few.recommendation.call == "use a method" and few.verdict().startswith("VERDICT: better |")
    assert most.recommendation.call == "cannot tell"
    assert "may have lost" in most.recommendation.heading
    assert "`like`" in most.recommendation.heading
    assert most.verdict().startswith("VERDICT: cannot-tell |")
    assert most.verdict().endswith("| test=like without texts of training | method=plain")


def pairs_with(name, base, tuned, labels):
    frame = pd.DataFrame({side: [f"{side} {i}" for i in range(len(labels))] for side in ("left", "right")}
                         | {"label": labels})
    frame["line"] = range(len(labels))
    return as_test(name, PairFile(name, frame, ""), {"base": base, "tuned": tuned})


def test_a_heading_says_what_any_metric_shows():
    "Far below the first 5% of false positives matches fall on one test, and rise on another; a third stays as it is."
    rng = np.random.default_rng(3)
    labels = (np.arange(360) % 3 == 0).astype(int)
    base = 1.5 * labels + rng.normal(size=360)
    low = (labels == 1) & (base < np.quantile(base[labels == 0], .8))
    tests = [pairs_with("shoes", base, base - 3 * low, labels), pairs_with("hats", base - 3 * low, base, labels),
             pairs_with("rugs", base, 2 * base, labels)]
    found = verdicts(tests)
    decides, others = results_of(found[found.decides]), results_of(found[~found.decides])
    assert {one.word for one in decides} <= {"cannot tell", "within the margin"}
    decision = decide(decides, [], other_metrics=others)
    assert decision.heading.endswith("That is by AUC(0.05); by average precision `hats` got better and `shoes` "
                                     "got worse.")
    assert "--metric ap" in decision.reason and "more pairs" not in decision.reason
    swapped = decide([replace(one, word="worse") for one in decides if one.test == "shoes"], [], other_metrics=others)
    assert "That is by" not in swapped.heading, "both say that it got worse"
    shipped = decide([replace(decides[2], word="better", low=.01)], [], other_metrics=others)
    assert shipped.heading == "Ship the tuned encoder. That is by AUC(0.05); by average precision `shoes` got worse."
    used = recommend({"plain": [result("like", BETTER)]}, {"plain": .5},
                     other_metrics={"plain": [replace(result("new", WORSE), metric="ap")]})
    assert used.heading == "Use plain. That is by AUC(0.05); by average precision `new` got worse."


def test_both_commands_have_one_word_for_what_nobody_can_tell():
    "And no loss is claimed that none is shown of, nor the base recommended where all is open."
    open_ones = {"plain": [result("like", BETTER), result("new", WORSE)],
                 "wise-ft": [result("like", BETTER), result("new", UNSURE)]}
    means = {"plain": .6, "wise-ft": .5}
    said = recommend(open_ones, means)
    assert (said.call, said.method, said.side) == ("cannot tell", "wise-ft", "")
    assert said.heading == "Cannot tell yet: wise-ft is better on `like`, and may have lost up to 3.0 points on `new`."
    nothing = recommend({name: [result("new", UNSURE)] for name in means}, means)
    assert nothing.call == decide([result("new", UNSURE)], []).call == "cannot tell" and nothing.side == ""
    same = recommend({name: [result("new", NONE)] for name in means}, means)
    assert same.call == decide([result("new", NONE)], []).call == "either"
    lost = recommend({name: [result("new", WORSE)] for name in means}, means)
    assert (lost.call, lost.side) == ("keep the base", "worse")


def test_what_steers_a_reader_is_named_and_words_from_right_to_left_keep_their_place():
    assert coded("\x1b[31m \u202e `a`") == "\\x1b[31m \\u202e <code>a</code>"
    assert coded("שלום, سلام, lamp") == "<bdi>שלום</bdi>, <bdi>سلام</bdi>, lamp"
    assert cell({"left": "<b> \u202e שלום"}, "left") == "&lt;b&gt; \\u202e <bdi>שלום</bdi>"


def test_a_method_is_beaten_by_one_that_is_as_good_in_one_and_better_in_the_other():
    def at(like, new):
        return [Result("like", "better", like, like - .01, like + .01, like=True),
                Result("new", "better", new, new - .01, new + .01)]

    points = trade_points({"a": at(.05, .01), "b": at(.05, .03), "c": at(.02, .03), "d": at(.01, .06)})
    assert [point["name"] for point in points if point["joined"]] == ["d", "b"]


def test_shares_are_measured_on_large_parts_too():
    labels = (np.arange(300) % 2 == 0).astype(int)
    rng = np.random.default_rng(0)
    base, noise = rng.normal(size=(2, 300))
    scores = {"base": 2 * labels + base, "half": 2 * labels + base + .1 * noise, "tuned": 2 * labels + noise}
    test = pairs_with("like", scores["base"], scores["tuned"], labels)
    test.scores = scores
    for size, measured in ((200, True), (100, False)):
        (half,) = averaged([test], {"half": .5}, {"like": np.arange(300) < size})
        assert [one.part for one in half.results] == ["all", NEW][: 1 + measured]


# ---- what makes a test void, or is no fine-tuning


@pytest.mark.parametrize("tuned, said", [
    (lambda base: .5 + 1e-5 * base, {"tuned": "all scores of the tuned model lie within"}),
    (lambda base: base - .1, {}),
    (lambda base: 0 * base, {"tuned": "all scores are the same in the tuned model"}),
    (lambda base: 1e-3 * base + base.round(1), {}),
])
def test_scores_that_say_nothing_are_told(tuned, said):
    base = np.random.default_rng(0).uniform(-.3, .9, 120)
    test = pairs_with("new", base, tuned(base), (np.arange(120) % 2).astype(int))
    found = flat_scores(test)
    assert found.keys() == said.keys() and all(words in found[model] for model, words in said.items())
    test.scores = {"base": test.scores["tuned"], "tuned": test.scores["base"]}
    assert flat_scores(test).keys() == {"base"} & {"base" for _ in said}
    assert flat_scores(test, []).keys() == {"base"} & {"base" for words in said.values()
                                                       if "the same" in words}, "where the order alone counts"


def scored(form, base, tuned):
    "Thirty queries of four candidates, the first of them right, with scores of two models, in each form of a test."
    labels, query = np.tile([1, 0, 0, 0], 30), np.repeat(np.arange(30), 4)
    test = pairs_with("new", base, tuned, labels)
    if form == "pairs":
        return test
    frame = test.file.frame.assign(query=query, document=np.arange(120), query_id=query.astype(str),
                                   left=[f"query {one}" for one in query])
    if form == "candidates":
        return as_test("new", replace(test.file, frame=frame, form=form), test.scores)
    file = replace(test.file, frame=frame[labels == 1].reset_index(drop=True), form="retrieval",
                   corpus=frame.right.tolist())
    return as_test("new", file, {model: candidate_levels(query, labels, scores) for model, scores in test.scores.items()})


FORMS = ["pairs", "candidates", "retrieval"]


@pytest.mark.parametrize("form", FORMS)
def test_distances_and_labels_the_other_way_round_are_told_in_each_form(form):
    rng = np.random.default_rng(0)
    labels = np.tile([1, 0, 0, 0], 30)
    good, far, noise = labels + .5 * rng.normal(size=(3, 120)) * [[1], [1], [9]]
    both, one, none = (below_chance(scored(form, *scores)) for scores in ((-good, -far), (-good, far), (noise, good)))
    assert both.keys() == {"base", "tuned"} and one.keys() == {"base"} and none == {} and max(both.values()) < .3
    test = scored(form, -good, -far)
    found = verdicts([test])
    decision = decide(results_of(found[found.decides]), [], **_unusable([test], {}, {}, []))
    assert decision.call == "cannot tell"
    assert "The scores are distances, or labels the other way round?" in decision.heading
    assert decision.heading.startswith("Cannot tell. new: by base and tuned ")
    assert decision.verdict().startswith("VERDICT: cannot-tell |")
    assert decision.failing(True, .01) == ["new"] and decision.failing(False, .01) == [], "as the line says"
    (warning,) = doubts(scored(form, -good, far), 0)
    assert warning.startswith("new: by base ")
    assert "?" not in warning
    assert _unusable([scored(form, -good, far)], {}, {}, []) == {"unusable": {}, "broken": False}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.])
def test_given_scores_count_by_their_order_alone(form, scale):
    "Probabilities over a batch are small and no cosines; one score for all candidates of a query orders nothing."
    base, tuned = np.random.default_rng(0).normal(size=(2, 120))
    whole, small = (verdicts([scored(form, base, tuned * by)]) for by in (1, scale))
    assert small[["tuned", "change", "verdict"]].equals(whole[["tuned", "change", "verdict"]])
    assert flat_scores(scored(form, base, tuned * scale), []) == {}
    flat = np.full(120, .5) if form == "pairs" else np.repeat(np.random.default_rng(1).normal(size=30), 4)
    assert [*flat_scores(scored(form, base, flat * scale), [])] == ["tuned"]
    assert [*flat_scores(scored(form, flat * scale, base), [])] == ["base"]


def test_the_line_and_the_exit_have_one_source():
    better = [result("like", BETTER), result("new", NONE)]
    broken = decide(better, [], unusable={"new": "new: all scores are the same."}, broken=True)
    assert broken.verdict().startswith("VERDICT: worse |")
    assert broken.failing(False, .01) == broken.failing(True, .01) == ["new"]
    lost = decide([result("like", WORSE)], [],
                  unusable={"like": "like: all of its pairs also occur in the training file."})
    assert lost.verdict().startswith("VERDICT: cannot-tell |")
    assert (lost.failing(False, .01), lost.failing(True, .01)) == ([], ["like"])


# ---- what one test, metric or scale says for others


def told(tests, **options):
    "The diagnosis of tables with given scores."
    def function(model):
        columns = iter([test[model].to_numpy() for test in tests.values()])
        return lambda left, right: next(columns)

    files = {name: test[["left", "right", "label"]] for name, test in tests.items()}
    return diagnose(function("base"), function("tuned"), tests=files, **options)


def table_of(base, tuned, labels):
    return pairs_with("new", base, tuned, labels).file.frame.drop(columns="line").assign(base=base, tuned=tuned)


def noisy(size, lift, seed, share=.4):
    "Labels and scores that lie so far apart."
    rng = np.random.default_rng(seed)
    labels = (rng.random(size) < share).astype(int)
    return labels, lift * labels + rng.normal(size=size)


def void_tables():
    "Tests that say nothing, each for a reason of its own."
    labels, scores = noisy(300, 2, 7)
    return {
        "below chance": (table_of(-scores, -scores - .1 * noisy(300, 0, 8)[1], labels), "score below non-matches"),
        "flat": (table_of(0 * scores, scores, labels), "all scores are the same in the base model"),
    }


@pytest.mark.parametrize("kind", ["below chance", "flat"])
@pytest.mark.parametrize("seed", range(3))
def test_a_test_that_says_nothing_leaves_the_family(kind, seed):
    "The others decide, as they do without it; alone it decides nothing."
    labels, good = noisy(600, 2.5, seed)
    worse = table_of(good, good - 2 * labels * np.random.default_rng(seed + 9).random(600), labels)
    void, why = void_tables()[kind]
    alone, among = told({"new": worse}), told({"new": worse, "odd": void})
    assert alone.decision.call == "do not ship" and among.decision.heading == alone.decision.heading
    assert among.decision.verdict() == alone.decision.verdict()
    assert "Left out, since it says nothing: odd: " in among.decision.reason
    assert why in among.decision.reason
    assert among.failing("worse") == ["new"] and among.failing("unsure") == ["new", "odd"]
    assert {*among.verdicts.test} == {"new"} and any(text.startswith("odd: ") for text in among.warnings)
    nothing = told({"odd": void})
    assert nothing.decision.call == "cannot tell" and nothing.decision.is_void and "not to be used" in nothing.html()


def at_the_floor(seed):
    "A tenth of the non-matches lies above all matches, in both models: AUC(0.05) is 0, whatever the rest does."
    labels, scores = noisy(400, 1, seed)
    high = (labels == 0) & (np.random.default_rng(seed + 90).random(400) < .2)
    return [table_of(scores + 9 * high, scores + 9 * high - loss * labels, labels) for loss in (.1, 3)]


@pytest.mark.parametrize("seed", range(2))
def test_a_measure_at_its_floor_shows_no_loss(seed):
    "Of such a test nothing is known; another one decides, or another metric."
    floor, below = at_the_floor(seed)
    alone = told({"far": floor}).decision
    assert alone.heading.startswith("Cannot tell. far: both models find next to nothing (AUC(0.05) 0.0 and 0.0 of "
                                    "100), so that no loss can show")
    assert "--metric ap" in alone.heading and not told({"far": below}, metric="ap").decision.is_void
    labels, good = noisy(600, 2.5, seed)
    assert told({"far": floor, "new": table_of(good, good - 3 * labels, labels)}).decision.call == "do not ship"


LOST = Result("c", "cannot tell", .01, -.08, .09, found=.05, cases=300)
KEPT = Result("d", "cannot tell", .02, -.005, .045, found=.02, cases=300)
GAINED = Result("a", "better", .05, .02, .08, found=.02, cases=300)
FELL = Result("b", "worse", -.05, -.08, -.02, found=.02, cases=300)


def test_what_is_too_small_is_what_may_lose_the_margin():
    "One that gained, or whose interval leaves the margin out, needs no more pairs."
    open_one = decide([GAINED, KEPT, LOST], [])
    assert open_one.call == "cannot tell"
    assert open_one.heading == "Cannot tell yet: `c` is too small."
    assert "`d`" not in open_one.reason and "`a`" not in open_one.reason.partition(". ")[2]
    none_gained = decide([KEPT, replace(KEPT, test="e")], [])
    assert none_gained.heading == "Cannot tell yet: `d` and `e` are too small.", "where no loss is open, a gain is"


def test_what_ships_has_one_word():
    "A test that cannot tell, and leaves out the loss of the margin, takes nothing from a gain."
    decision = decide([GAINED, KEPT], [])
    assert decision.call == "ship" and decision.verdict().startswith("VERDICT: better |")
    assert "test=a" in decision.verdict() and decision.failing(True, .01) == []


@pytest.mark.parametrize("shares", [[], [Averaged(.5, .5, [replace(FELL, change=-.02, low=-.04, high=-.005)])]])
def test_without_a_gain_the_base_is_kept(shares):
    lost, traded = decide([FELL], shares), decide([FELL, GAINED], shares)
    assert lost.call == traded.call == "do not ship"
    assert lost.reason.endswith("No test is shown to be better: keep the base.") and "OutReg" not in lost.reason
    assert "train again with OutReg" in traded.reason and "keep the base" not in traded.reason


@pytest.mark.parametrize("times", [1, 3])
def test_pairs_that_repeat_others_are_counted(times):
    labels, scores = noisy(120, 2, 1)
    table = pd.concat([table_of(scores, scores - labels, labels)] * times)
    warnings = told({"new": table}).warnings
    assert ("new: 240 of 360 pairs repeat another one." in warnings) == (times == 3)


@pytest.mark.parametrize("scale, shift, moved", [(.6, .02, True), (1, 0, False), (1, -1., True), (1, .05, False)])
def test_an_order_that_stays_on_a_scale_that_moved_is_told_with_the_new_threshold(scale, shift, moved):
    labels, scores = noisy(800, 2, 1)
    scores = .5 + .1 * scores
    tuned = scale * scores + shift if moved else scores + 1e-6 * noisy(800, 0, 2)[1]
    found = told({"new": table_of(scores, tuned, labels)})
    assert found.decision.call == "either" and ("the scores moved; set it at" in found.decision.heading) == moved
    assert (("At the base's threshold (" in found.decision.reason) == moved
            == ("| threshold=" in found.decision.verdict()))
    assert not moved or f"{found.decision.threshold:.3f}" in found.decision.heading and "the scores moved" in repr(
        found)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_changed_by_one_metric_is_no_answer_where_another_one_fell(seed):
    "Of the matches far down the list, which a strict threshold does not see, half fall further."
    labels, scores = noisy(900, 3, seed)
    low = (labels == 1) & (scores < np.quantile(scores[labels == 0], .93))
    found = told({"new": table_of(scores, scores - 3 * low, labels)}).decision
    assert found.call == "cannot tell" and found.word == "cannot tell"
    assert "That is by AUC(0.05); by average precision `new` got worse" in found.heading
    assert "By AUC(0.05) every change is under" in found.reason
    assert "--metric ap" in found.reason
    either = decide([result("new", NONE)], [], other_metrics=[replace(result("new", BETTER), metric="ap")])
    assert either.call == "either", "a gain by another metric is no loss"


@pytest.mark.parametrize("cut, told_of", [(-.2, True), (.8, True), (2.5, False)])
def test_scores_that_tie_at_the_top_are_counted(cut, told_of):
    labels, scores = noisy(400, 1, 5)
    found = told({"new": table_of(scores, scores.clip(max=cut), labels)})
    top = (scores >= cut).sum()
    assert any(f"{top:,} of 400 scores of the tuned model are {cut:g}, the highest" in text
               for text in found.warnings) == told_of


def test_negatives_that_a_model_picked_are_told_of(tmp_path):
    "Cosines are no distances; what lies above the matches by construction decides nothing."
    rng = np.random.default_rng(0)
    test = scored("candidates", *(rng.normal(size=(2, 120)) - 2 * np.tile([1, 0, 0, 0], 30)))
    why = _unusable([test], {}, {}, ["base", "tuned"])["unusable"]["new"]
    assert "picked by a model for their nearness, they lie above the matches by construction" in why
    assert "distances" not in why


def test_pairs_of_the_same_words_are_counted(tmp_path):
    pairs = made.some_pairs()
    turned = pairs.assign(right=[" ".join(text.split()[::-1]) for text in pairs.left], label=np.arange(len(pairs)) % 2)
    base = saved(tmp_path, "base", lambda static: None)
    tuned = saved(
        tmp_path, "tuned",
        lambda static: static.embedding.weight.mul_(torch.linspace(.5, 2, len(static.embedding.weight))[:, None]))
    warnings = diagnose(base, tuned, None, {"new": pairs, "turned": turned}).warnings
    assert any("pairs have the same words in another order: this encoder cannot tell them apart" in text
               and text.startswith("turned: ") for text in warnings)


@pytest.mark.parametrize("seed", range(6))
def test_a_share_of_noise_is_not_shipped(seed):
    "The choice among shares is corrected, and a gain within the margin is none."
    labels, base = noisy(2_000, 2, seed)
    noise = np.random.default_rng(seed + 50).normal(size=2_000)
    test = pairs_with("new", base, base + noise, labels)
    shares = {f"{share:g}": share for share in (.05, .1, .15, .2, .25, .5, .75)}
    test.scores |= {name: base + share * noise for name, share in shares.items()}
    found = verdicts([test])
    decision = decide(results_of(found[found.decides]), averaged([test], shares))
    assert decision.call != "ship averaged"


def test_shares_are_one_family_with_the_tuned_encoder():
    "Each further share that says something else makes it harder to be found better; equal ones count as about one."
    others = {f"{number}": .1 + .01 * number for number in range(12)}
    words = []
    for seed in range(12):
        labels, base = noisy(500, 1, seed)
        noise = np.random.default_rng(seed + 70).normal(size=(13, 500))
        test = pairs_with("new", base, base + noise[12], labels)
        half = base + .13 * labels + .1 * noise[12]
        test.scores |= {"half": half} | {name: base + own for name, own in zip(others, noise)}
        one, many = (averaged([test], {"half": .5} | more)[0].results[0].word for more in ({}, others))
        test.scores |= dict.fromkeys(others, half)
        words.append((one, many, averaged([test], {"half": .5} | others)[0].results[0].word))
    alone, among, equal = ([word == "better" for word in kind] for kind in zip(*words))
    assert sum(among) <= sum(equal) <= sum(alone) > sum(among)


def saved(folder, name, change):
    model = SentenceTransformer(str(made.table(folder / name)), device="cpu")
    with torch.no_grad():
        change(model[0])
    model.save(str(folder / name / "changed"), create_model_card=False)
    return str(folder / name / "changed")


def another_tokenizer(static):
    told = json.loads(static.tokenizer.to_str())
    told["normalizer"]["lowercase"] = False
    static.tokenizer = Tokenizer.from_str(json.dumps(told))


def collapsed(static):
    static.embedding.weight[:] = static.embedding.weight.mean(0) + 4e-3 * static.embedding.weight


@pytest.mark.parametrize("change, words, shown", [
    (another_tokenizer, "This is no fine-tuning: no weight differs, and the two models cut texts into different "
                        "tokens. ", False),
    (collapsed, "Do not ship. new: all scores of the tuned model lie within ", True),
])
def test_the_first_screen_says_what_is_no_fine_tuning_or_broken(tmp_path, change, words, shown):
    base = saved(tmp_path, "base", lambda static: None)
    pairs = made.some_pairs()
    pairs["left"] = pairs.left.str.title()
    found = diagnose(base, saved(tmp_path, "tuned", change), None, {"new": pairs})
    assert found.decision.heading.startswith(words)
    screen = found.html().partition('<nav aria-label="Parts of this page">')[0]
    assert words.strip() in screen and words.strip() in repr(found) and words.strip() in found._repr_html_()
    assert not shown or found.decision.call == "do not ship"


def test_another_tokenizer_with_other_weights_is_told(tmp_path):
    def both(static):
        another_tokenizer(static)
        static.embedding.weight *= torch.linspace(.5, 2, len(static.embedding.weight))[:, None]

    base = saved(tmp_path, "base", lambda static: None)
    found = diagnose(base, saved(tmp_path, "tuned", both), None, {"new": made.some_pairs()})
    assert any(note.startswith("The two models cut texts into different tokens, and a part of each change may come "
                               "from that") for note in found.notes)


def test_what_makes_a_test_void_comes_first(tmp_path):
    pairs = made.some_pairs()
    for side in ("left", "right"):
        pairs[side] = [f"☃ ☂ {text.split()[0]}" for text in pairs[side]]
    base = saved(tmp_path, "base", lambda static: None)
    tuned = saved(
        tmp_path, "tuned",
        lambda static: static.embedding.weight.mul_(torch.linspace(.5, 2, len(static.embedding.weight))[:, None]))
    decision = diagnose(base, tuned, None, {"snow": pairs}).decision
    assert re.match(r"Cannot tell. snow: (\d+) of \1 pairs have a text with at least half of its tokens outside the "
                    r"vocabulary", decision.heading)
    pairs.loc[:79, ["left", "right"]] = made.some_pairs(80, seed=4)[["left", "right"]].to_numpy()
    assert "vocabulary" not in diagnose(base, tuned, None, {"snow": pairs}).decision.heading, "a third of them"


@pytest.mark.parametrize("recall, passing, sentence", [
    ((.8, .6), (.01, .05), "matches fell from 80% to 60%, non-matches rose from 1.0% to 5.0%"),
    ((.6, .8), (.01, .05), "matches rose from 60% to 80%, non-matches from 1.0% to 5.0%"),
    ((.6, .6), (.05, .01), "matches stayed at 60%, non-matches fell from 5.0% to 1.0%")])
def test_which_way_passing_moved(recall, passing, sentence):
    base, tuned = ({"recall": found, "false positives": wrong} for found, wrong in zip(recall, passing))
    assert passing_moved(base, tuned) == f"passing {sentence}"
