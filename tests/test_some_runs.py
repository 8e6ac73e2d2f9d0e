"Of the planted runs those few are made again for each change that have of everything one."
import some_runs


def test_a_cheap_run_is_taken_for_what_several_have_and_none_that_could_be_left_out():
    parts = {"cheap": {"a"}, "dear": {"a", "b"}, "both": {"b", "c"}, "alone": {"d"}}
    costs = {"cheap": 1., "dear": 3., "both": 2.1, "alone": 9.}
    assert some_runs.few(parts, costs) == ["cheap", "both", "alone"]
    costs |= {"cheap": 1.1, "dear": 2.}
    assert some_runs.few(parts, costs) == ["dear", "both", "alone"], "the cheap one adds nothing"


def test_numbers_make_no_other_kind_but_for_0_and_names_none():
    settings = {"name": "x", "world": {"kappa": 0, "texts": 9}, "rates": [.1, .2], "whole": True}
    assert {*some_runs.leaves(some_runs.kind_of(settings))} == {
        "world.kappa: 0", 'world.texts: "a number"', 'rates: ["a number", "a number"]', "whole: true"}


def test_every_method_is_in_a_run_that_is_made_again():
    runs, count = some_runs.some_runs()
    assert len(runs) < count / 4
    assert {run.encoder.kind for run in runs} == {"static", "transformer", "alignment"}
    pairs = [run.method for run in runs if run.task in ("pairs", "titles")]
    assert {"itvreg", "maskreg", "outreg", "simcse", "l2sp"} <= {method.regularizer for method in pairs}
    assert {"itvaug", "worddropout"} <= {method.augmentation for method in pairs}
    scan = [run.method.scan for run in runs if run.task == "answers" and run.method.trained and run.method.scan]
    assert {config.variant for config in scan if config.weights == "learned"} == {"fixed", "released", "paper"}
    authors = {run.method.authors.student for run in runs if run.task == "authors" and run.method.trained}
    assert authors == {"none", "arr", "corrected"}
